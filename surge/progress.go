package surge

import "time"

// Progress is what a status shows of an update. It is a projection of the observation and the plan, so nothing has to be
// stored for it but the start times.
type Progress struct {
	UpdatedReplicas   int   `json:"updatedReplicas"`   // base indices that serve at the target; surges never count
	AvailableReplicas int   `json:"availableReplicas"` // available anywhere, of any revision
	Replicas          int   `json:"replicas"`          // live anywhere
	Updating          []int `json:"-"`                 // eligible indices in replacement once the plan is carried out, ascending
	Updated           []int `json:"-"`                 // the indices behind UpdatedReplicas, ascending
}

// Project returns the progress of a flat set. A target replica that does not serve is listed as updating: without history a
// crash cannot be told from an update.
func Project(spec Spec, slots []Slot, plan Result) Progress {
	var p Progress
	r := spec.Resolve()
	actions := plan.Actions
	for i := range max(r.Replicas, len(slots)) {
		slot := Absent
		if i < len(slots) {
			slot = slots[i].normal()
		}
		if slot.Live() {
			p.Replicas++
		}
		if slot.Available() {
			p.AvailableReplicas++
		}
		for len(actions) > 0 && actions[0].Index < i {
			actions = actions[1:]
		}
		deleted := len(actions) > 0 && actions[0].Index == i && actions[0].Op == Delete
		if i >= r.Replicas {
			continue
		}
		if slot == TargetAvailable {
			p.UpdatedReplicas++
			p.Updated = append(p.Updated, i)
		}
		if i >= r.Partition && (deleted || slot == Absent || slot == Terminating || slot == TargetUnavailable) {
			p.Updating = append(p.Updating, i)
		}
	}
	return p
}

// Updating is one replica in replacement and since when, as in Grove's status.
type Updating struct {
	ReplicaIndex    int       `json:"replicaIndex"`
	UpdateStartedAt time.Time `json:"updateStartedAt"`
}

// Started returns the updating replicas with their start times: an index that was in the previous list keeps its time, a new
// one gets now. It reads no clock.
func (p Progress) Started(previous []Updating, now time.Time) []Updating {
	since := make(map[int]time.Time, len(previous))
	for _, entry := range previous {
		since[entry.ReplicaIndex] = entry.UpdateStartedAt
	}
	var list []Updating
	for _, index := range p.Updating {
		started, before := since[index]
		if !before {
			started = now
		}
		list = append(list, Updating{ReplicaIndex: index, UpdateStartedAt: started})
	}
	return list
}

// Selected is the pair of lists that Grove's status shows for pods by name (readyPodsSelectedToUpdate) and for scaling group
// replicas by index (readyReplicaIndicesSelectedToUpdate).
type Selected[T any] struct {
	Current   []T `json:"current,omitempty"`   // in replacement
	Completed []T `json:"completed,omitempty"` // serving at the target
}

// Indices returns the selected replicas by index.
func (p Progress) Indices() Selected[int] {
	return Selected[int]{Current: p.Updating, Completed: p.Updated}
}

// Names returns the selected replicas by the names that the caller gives them.
func (p Progress) Names(name func(index int) string) Selected[string] {
	var s Selected[string]
	for _, index := range p.Updating {
		s.Current = append(s.Current, name(index))
	}
	for _, index := range p.Updated {
		s.Completed = append(s.Completed, name(index))
	}
	return s
}
