package rollout

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Waiting is a target whose newest candidate may not start now.
type Waiting struct {
	TargetID
	Version  string    `json:"version,omitempty"` // the candidate, or what a rollback takes the target back to; empty if the target itself is held
	Blockers []Verdict `json:"blockers"`          // all of them, in the order of the rules, for an execution of a bracket member by member; may be shared, do not modify
}

// String returns "target: version waits: blockers". Without it the String of the embedded id would
// be promoted, and a log line would not say why.
func (w Waiting) String() string {
	return fmt.Sprintf("%s: %s", w.TargetID, Situation{Wait: w.Version, Blockers: w.Blockers})
}

// WaitingList holds every target whose newest candidate may not start, with all its blockers,
// ordered by resource, environment and deployment, each target once. In JSON it is a list. The zero
// WaitingList is empty.
//
// The entries are made as they are read, from the few bytes that the plan keeps of each target. A
// host that starts what may start and sleeps until [Plan.Next] pays nothing for the reasons of a
// million others. So a list refers to the snapshot of its plan, which must not be modified while
// the list is read. To keep a list for longer, copy it with
// NewWaitingList(slices.Collect(list.All())...). Several goroutines may read one list, but not
// while a method of its plan runs.
type WaitingList struct {
	plan *work     // nil: the list is a decoded copy
	copy []Waiting // in order
}

// NewWaitingList returns the list of these targets, each of which must occur once, for tests of
// code that reads plans. It copies the slice, but not the blockers.
func NewWaitingList(waiting ...Waiting) WaitingList {
	list := slices.Clone(waiting)
	slices.SortStableFunc(list, func(a, b Waiting) int { return a.compare(b.TargetID) })
	return WaitingList{copy: list}
}

// Len returns how many targets wait.
func (l WaitingList) Len() int {
	if l.plan == nil {
		return len(l.copy)
	}
	return l.plan.waiting
}

// IsZero reports whether no target waits.
func (l WaitingList) IsZero() bool { return l.Len() == 0 }

// All yields the targets that wait, in order.
func (l WaitingList) All() iter.Seq[Waiting] {
	if l.plan == nil {
		return slices.Values(l.copy)
	}
	w := l.plan
	return func(yield func(Waiting) bool) {
		for i := range w.byResource() {
			if w.waits[i].blockers != 0 && !yield(w.waitOf(i)) {
				return
			}
		}
	}
}

// Of returns what one target waits for; false if it does not wait, or the plan does not have it.
func (l WaitingList) Of(id TargetID) (Waiting, bool) {
	if l.plan == nil {
		k, found := slices.BinarySearchFunc(l.copy, id, func(w Waiting, id TargetID) int { return w.compare(id) })
		if !found {
			return Waiting{}, false
		}
		return l.copy[k], true
	}
	i := l.plan.target(id)
	if i == none || l.plan.waits[i].blockers == 0 {
		return Waiting{}, false
	}
	return l.plan.waitOf(i), true
}

// MarshalJSON writes the list as an array.
func (l WaitingList) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.AppendSeq(make([]Waiting, 0, l.Len()), l.All()))
}

// UnmarshalJSON reads what MarshalJSON wrote, in any order. Unknown fields, values of the wrong
// type and targets that are listed twice are errors, all of them reported, each a *[FieldError];
// the list is then unchanged.
func (l *WaitingList) UnmarshalJSON(data []byte) error {
	var list []Waiting
	var f faults
	f.under("", strictjson.Unmarshal(data, &list)) // an error leaves the list empty
	seen := make(map[TargetID]bool, len(list))
	for k := range list {
		if id := list[k].TargetID; seen[id] {
			f.add(fmt.Sprintf("[%d]", k), CodeDuplicate, id.String(), "is a target that is listed twice: one entry holds all its blockers")
		} else {
			seen[id] = true
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	*l = NewWaitingList(list...)
	return nil
}

// byResource yields the targets by resource, environment and deployment. They are kept by
// environment, resource and deployment.
func (w *work) byResource() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if len(w.environments) == 1 {
			for i := range w.targets {
				if !yield(int32(i)) {
					return
				}
			}
			return
		}
		order, _ := grouped(len(w.targets), len(w.resources), func(i int32) int32 { return w.targets[i].resource })
		slices.Values(order)(yield)
	}
}

func (w *work) waitOf(i int32) Waiting {
	return Waiting{TargetID: w.id(i), Version: w.waitingVersion(i), Blockers: w.blockersOf(i, w.waits[i].blockers)}
}

// waitingVersion returns the version with which a target waits; empty if the target itself is held.
func (w *work) waitingVersion(i int32) string {
	if n := w.waits[i].version; n >= 0 {
		return w.version(i, n).ID
	}
	return w.unlisted[i]
}
