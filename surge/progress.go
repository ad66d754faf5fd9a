package surge

import (
	"fmt"
	"time"
)

// Progress is what a status shows of an update. It is derived from the observation and the plan, so
// only the start times have to be stored for it.
type Progress struct {
	UpdatedReplicas   int `json:"updatedReplicas"`   // base indices that serve at the target; surges never count
	AvailableReplicas int `json:"availableReplicas"` // available anywhere, of any revision
	Replicas          int `json:"replicas"`          // live anywhere, surges included: an autoscaler that took it for the desired number would scale out with each update

	// Updating are the indices of [Partition, Replicas) that are in replacement once the plan is
	// carried out. Updated are the indices that serve at the target, which UpdatedReplicas counts.
	// Both are ascending. For scaling groups they are readyReplicaIndicesSelectedToUpdate.current
	// and .completed.
	Updating []int `json:"-"`
	Updated  []int `json:"-"`
}

// String returns such as "2 updated, updating [3 4], 4 of 6 replicas available". Of many indices it
// shows the first ten and counts the rest; a progress that was read from JSON has none.
func (p Progress) String() string {
	text := fmt.Sprintf("%d updated, ", p.UpdatedReplicas)
	if len(p.Updating) > 0 {
		text += "updating " + listed(p.Updating) + ", "
	}
	return text + fmt.Sprintf("%d of %d replicas available", p.AvailableReplicas, p.Replicas)
}

// Project returns the progress of a flat set. A target replica that does not serve is listed as
// updating, because without history a crash cannot be told from an update.
func Project(spec Spec, slots []Slot, plan Result) Progress {
	var p Progress
	r := spec.bounded(slots).Resolve()
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
		changes := len(actions) > 0 && actions[0].Index == i
		if changes {
			actions = actions[1:]
		}
		if i >= r.Replicas {
			continue
		}
		if slot == TargetAvailable {
			p.UpdatedReplicas++
			p.Updated = append(p.Updated, i)
		}
		if i >= r.Partition && (changes || slot == Absent || slot == Terminating || slot == TargetUnavailable) {
			p.Updating = append(p.Updating, i)
		}
	}
	return p
}

// Updating is one replica in replacement, with the time since when, as in Grove's status.
type Updating struct {
	ReplicaIndex    int       `json:"replicaIndex"`
	UpdateStartedAt time.Time `json:"updateStartedAt"`
}

// Started returns the updating replicas with their start times. An index of the previous list keeps
// its time; a new one gets now.
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

// Selected is the pair of lists that Grove's status shows for pods as readyPodsSelectedToUpdate.
type Selected struct {
	Current   []string `json:"current,omitempty"`   // in replacement
	Completed []string `json:"completed,omitempty"` // serving at the target
}

// Names returns Updating and Updated as the names that the caller gives the replicas.
func (p Progress) Names(name func(index int) string) Selected {
	var s Selected
	for _, index := range p.Updating {
		s.Current = append(s.Current, name(index))
	}
	for _, index := range p.Updated {
		s.Completed = append(s.Completed, name(index))
	}
	return s
}
