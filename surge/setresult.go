package surge

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// SetResult is a plan for a whole set.
type SetResult struct {
	// Current is the set replica that a RollingUpdate updates now. It is -1 if there is none, and
	// always under ReplicaRecreate.
	Current int `json:"current"`
	// Replicas has one entry per set replica, by index: the replicas of the Spec, and those above
	// that exist or are created. It may be longer than the state.
	Replicas []ReplicaResult `json:"replicas"`
	// Whole is the plan for whole replicas under ReplicaRecreate. It is the zero value under
	// RollingUpdate.
	Whole Result `json:"whole,omitzero"`
	// Blocked is the union of what blocks the replicas, their components, and under ReplicaRecreate
	// the plan Whole.
	Blocked Blocked `json:"blocked"`
	// Updated means that every replica in [Partition, Replicas) is complete or, under
	// ReplicaRecreate, serves at the target.
	Updated bool `json:"updated"`
	// Converged means that Updated is true, all units of every replica exist and are available, and
	// nothing else exists.
	Converged bool `json:"converged"`
}

// ReplicaResult is the plan for one replica of a set.
type ReplicaResult struct {
	Role Role `json:"role"`
	// Slot is the replica folded to one slot, before the plan. Under ReplicaRecreate, a replica
	// below [SetSpec.Replicas] that should have no unit, while others should, is at the target and
	// available. A surge that is needed and should have no unit is at the target and not available:
	// there is nothing to create, and it never serves.
	Slot Slot `json:"slot"`
	// Complete means that every base unit serves at the target and no other unit lives.
	Complete bool `json:"complete"`
	// Revision names the revision that the actions of this replica call [Stable]. It is the
	// revision that the replica runs: that of its live unit with the lowest component and index. It
	// is empty if that is the target, if nothing lives, or if the state names no revisions.
	Revision string `json:"revision,omitempty"`
	// Blocked is the union over the components, and what the replica itself waits for.
	Blocked Blocked `json:"blocked"`
	// Components holds one plan per component of the Spec. A unit created at Stable runs Revision
	// or, below the partition if nothing lives, the stable revision of the set. The component of a
	// held replica is planned with all its indices below the partition, so it is Updated, and
	// Converged once it is healthy, even if all its units are old: Complete says whether the
	// replica is at the target.
	Components []Result `json:"components"`
}

// Role says how a replica of a set is treated in a plan.
type Role string

const (
	// RoleHeld: no old unit is replaced; holes are filled at the replica's own revision, and surges
	// are retired that it does not need to serve.
	RoleHeld Role = "held"
	// RoleCurrent: each component is updated with its own budgets. Only a RollingUpdate has a
	// current replica.
	RoleCurrent Role = "current"
	// RoleTarget: no old unit lives; missing units are created at the target.
	RoleTarget Role = "target"
	// RoleRecreated: the whole replica is deleted, or created, by a ReplicaRecreate.
	RoleRecreated Role = "recreated"
	// RoleCondemned: the whole replica is deleted for good.
	RoleCondemned Role = "condemned"
)

// Empty reports whether there is nothing to do.
func (r SetResult) Empty() bool {
	for _, replica := range r.Replicas {
		for _, component := range replica.Components {
			if len(component.Actions) > 0 {
				return false
			}
		}
	}
	return true
}

// String returns one line per component with actions, such as "0/1: -0 Outdated, +2 Surge" for
// component 1 of replica 0, then the current replica, what blocks, and "converged", each where it
// applies. Of many components, and of many actions of one, it shows the first ten and counts the
// rest. The text does not end with a newline.
func (r SetResult) String() string {
	var changes []change
	for at, replica := range r.Replicas {
		for i, component := range replica.Components {
			if len(component.Actions) > 0 {
				changes = append(changes, change{at, i, component.Actions})
			}
		}
	}
	lines := textlist.Lines(nil, "", changes)
	if r.Current >= 0 {
		lines = append(lines, fmt.Sprintf("current: %d", r.Current))
	}
	return described(lines, r.Blocked, r.Converged)
}

// change is what a plan does to one component of one replica.
type change struct {
	replica, component int
	actions            []Action
}

func (c change) String() string {
	return fmt.Sprintf("%d/%d: %s", c.replica, c.component, strings.Join(shown(c.actions, Action.String), ", "))
}

// Progress returns what a status shows of the update of a set. Under RollingUpdate the current
// replica is updating, under ReplicaRecreate every replica of [Partition, Replicas) in replacement
// is. Complete replicas below Replicas are updated. The Spec may have been scaled since the plan: a
// replica that the plan does not know is absent.
func (r SetResult) Progress(spec SetSpec) Progress {
	slots := make([]Slot, len(r.Replicas))
	for i, replica := range r.Replicas {
		slots[i] = replica.Slot
	}
	for _, action := range r.Whole.Actions {
		if action.Op == Create && action.Index < len(slots) {
			slots[action.Index] = Absent // it does not live, not even if it should have no unit, see Slot
		}
	}
	p := Project(spec.Flat(), slots, r.Whole)
	p.UpdatedReplicas, p.Updated = 0, nil
	for i, replica := range r.Replicas[:min(max(spec.Replicas, 0), len(r.Replicas))] {
		if replica.Complete {
			p.UpdatedReplicas++
			p.Updated = append(p.Updated, i)
		}
	}
	// If no component has units, a replica at rest is absent but not in replacement.
	p.Updating = slices.DeleteFunc(p.Updating, func(i int) bool { return i < len(r.Replicas) && r.Replicas[i].Complete })
	if !spec.recreate() {
		p.Updating = nil
		if r.Current >= 0 {
			p.Updating = []int{r.Current}
		}
	}
	return p
}
