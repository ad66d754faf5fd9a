package surge

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// SetState is what exists of a set. It has one entry per set replica, by index, which has one entry
// per component, in the order of [SetSpec.Components]. Replicas and components beyond the end are
// absent.
type SetState [][]Units

// Units is what exists of one component in one set replica, and how much there should be.
type Units struct {
	// Slots of the units by index.
	Slots []Slot `json:"slots"`
	// Revisions names the revision of each old unit, by index; the caller chooses the names. It is
	// needed only if several old revisions may exist, to detect a replica that runs two of them.
	// Nil means that all old units run the same revision, the one of the empty name: within a
	// replica of the set, name the revisions in all components or in none. Entries of units that
	// are not old are ignored.
	Revisions []string `json:"revisions,omitempty"`
	// Replicas is how many units the component should have in this replica of the set, within 0 and
	// [MaxReplicas]. Nil means as many as [Component.Replicas] says. It is for autoscalers, which
	// scale the components of each replica apart: without it, what they have added is deleted. The
	// budgets of the component are of this number. Give it even while the replica does not exist,
	// if the autoscaler keeps the number: otherwise units are created up to the number of the
	// component, and those above the autoscaler's are deleted again. A replica that should have no
	// unit at all counts as available below [SetSpec.Replicas], and never above. If no component
	// has a unit by its own Replicas, a surge would have none, so that ReplicaRecreate makes no
	// surge, and recreates at least one replica at a time even if MaxUnavailable is 0.
	Replicas *int `json:"replicas,omitempty"`
}

// UnmarshalJSON reads Units strictly: unknown fields, repeated fields and malformed values are
// errors. All of them are reported, joined, each a *[FieldError], and the Units are then unchanged.
// Slots are a list of texts of one character each, never one text.
func (u *Units) UnmarshalJSON(data []byte) error {
	type plain Units
	return decoded(strictjson.Unmarshal(data, (*plain)(u)))
}

// revision returns the revision of a live unit. old reports that it is not the target.
func (u Units) revision(i int) (name string, old bool) {
	if !u.Slots[i].Old() {
		return "", false
	}
	if i < len(u.Revisions) {
		name = u.Revisions[i]
	}
	return name, true
}

// check refuses a state with components that the set does not have, because their units could not
// be planned, and one with more revisions than slots, or with units that no plan can have.
func (s SetState) check(components int) error {
	var faults faults
	for r, replica := range s {
		if len(replica) > components {
			faults.add("state["+strconv.Itoa(r)+"]", CodeOutOfRange, strconv.Itoa(len(replica))+" components",
				"the set has "+strconv.Itoa(components)+": keep a removed component with 0 replicas until its units are gone")
		}
		for i, units := range replica {
			if len(units.Revisions) > len(units.Slots) {
				faults.add(fmt.Sprintf("state[%d][%d].revisions", r, i), CodeOutOfRange, strconv.Itoa(len(units.Revisions))+" entries",
					"there are "+strconv.Itoa(len(units.Slots))+" slots")
			}
			if n := units.Replicas; n != nil && (*n < 0 || *n > MaxReplicas) {
				faults.add(fmt.Sprintf("state[%d][%d].replicas", r, i), CodeOutOfRange, strconv.Itoa(*n), fmt.Sprintf("must be within 0 and %d", MaxReplicas))
			}
		}
	}
	return faults.err()
}

// units returns one component of one replica. A component that the state does not list is absent.
func (s SetState) units(replica, component int) Units {
	if replica < len(s) && component < len(s[replica]) {
		return s[replica][component]
	}
	return Units{}
}

// scaled returns a component of the set as it should be in one replica.
func (s SetState) scaled(spec SetSpec, replica, component int) Component {
	c := spec.Components[component]
	if units := s.units(replica, component); units.Replicas != nil {
		c.Replicas = bounded(*units.Replicas, len(units.Slots))
	}
	return c
}

// Apply returns the state of the set after the calls for a plan are accepted, as [Apply] does for
// each component. A unit created at the own revision of a held replica is old, unless that revision
// is the target; it carries the name of its replica's revision. Where nothing lives, below the
// partition, that is the stable revision of the set, which no state names: the name is empty until
// the caller observes the unit or fills it in. The result shares no memory with s.
func (s SetState) Apply(plan SetResult) SetState {
	next := make(SetState, max(len(s), len(plan.Replicas)))
	for r := range next {
		var planned ReplicaResult
		if r < len(plan.Replicas) {
			planned = plan.Replicas[r]
		}
		components := len(planned.Components)
		if r < len(s) {
			components = max(components, len(s[r]))
		}
		next[r] = make([]Units, components)
		for i := range next[r] {
			var actions []Action
			var revision string
			if i < len(planned.Components) {
				actions, revision = planned.Components[i].Actions, planned.Revision
			}
			next[r][i] = s.units(r, i).apply(actions, revision)
		}
	}
	return next
}

func (u Units) apply(actions []Action, revision string) Units {
	next := Units{Slots: Apply(u.Slots, actions), Revisions: slices.Clone(u.Revisions)}
	if u.Replicas != nil {
		replicas := *u.Replicas
		next.Replicas = &replicas
	}
	if revision == "" && u.Revisions == nil {
		return next
	}
	next.Revisions = append(next.Revisions, make([]string, max(len(next.Slots)-len(next.Revisions), 0))...)
	for _, action := range actions {
		i := action.Index
		if action.Revision != Stable || i < 0 || i >= len(next.Slots) || i < len(u.Slots) && u.Slots[i] != Absent {
			continue // as in Apply, an action that the slots do not allow changes nothing
		}
		next.Revisions[i] = revision
	}
	return next
}
