package surge

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// SetDiagnosis says what the update of a set waits for at one place.
type SetDiagnosis struct {
	// Replica is the replica of the set whose units the Indices are. It is -1 if they are whole
	// replicas of the set.
	Replica int `json:"replica"`
	// Component is the position of their component in [SetSpec.Components], and Name its name. The
	// position is -1 and the name empty if the Indices are whole replicas.
	Component int    `json:"component"`
	Name      string `json:"name,omitempty"`
	// Diagnosis is that of the component in this replica, or of the whole replicas. Its MaxUnavailable
	// belongs, with a MaxSurge of 0, into the UpdateStrategy of the component or, for whole replicas,
	// into that of the set.
	Diagnosis
}

// String returns "replica 0, decode: ", or "replicas: " for whole ones, before the text of the
// Diagnosis. A component without a name is shown by its position.
func (d SetDiagnosis) String() string {
	switch {
	case d.Stuck == NotStuck:
		return d.Diagnosis.String()
	case d.Component < 0:
		return "replicas: " + d.Diagnosis.String()
	}
	name := textlist.Name(d.Name)
	if name == "" {
		name = "component " + strconv.Itoa(d.Component)
	}
	return fmt.Sprintf("replica %d, %s: %v", d.Replica, name, d.Diagnosis)
}

// DiagnoseSet says what the update of a set waits for if its plan is empty and the state no longer
// changes, as [Diagnose] does for a flat set. It returns the first of these that there is:
//
//   - whole replicas, in one entry: those that a pause holds back or, under ReplicaRecreate,
//     whatever Diagnose says of the replicas folded to slots
//   - under RollingUpdate with a current replica, each component of that replica that is stuck
//   - each component of any other replica below [SetSpec.Replicas] that is stuck: then the update is
//     over, but a unit below the partition or, under ReplicaRecreate, one of a replica that serves
//     all the same is not available
//
// Components are in the order of replicas, then in that of the Spec. What comes later in this list,
// or in the order of Diagnose, may be found only after what is found now has been mended.
//
// It returns nil while the plan is not empty and once the set has converged. As Diagnose does, it
// passes over what may still change by itself: a component while one of its units in the replica is
// terminating; under ReplicaRecreate, a whole replica that may need nothing but what is terminating
// in it, and all of them while nothing is left of one but what is terminating. What terminates
// elsewhere hides nothing, and the pause of a RollingUpdate is always named. So if nothing is
// terminating, every set whose plan is empty and that has not converged is stuck somewhere.
//
// A Slot does not tell whether a unit at the target was ever scheduled. The function unscheduled
// tells it, for callers that know; it may be nil. A whole surge was never scheduled if it has live
// units and none of them was. The error is that of [PlanSet].
func DiagnoseSet(spec SetSpec, state SetState, unscheduled func(replica, component, index int) bool) ([]SetDiagnosis, error) {
	p, err := decided(spec, state)
	if err != nil || p.result.Converged || !p.result.Empty() {
		return nil, err
	}
	if whole, over := p.wholeStuck(unscheduled); whole.Stuck != NotStuck {
		return []SetDiagnosis{{Replica: -1, Component: -1, Diagnosis: whole}}, nil
	} else if !over {
		return nil, nil
	}
	if current := p.result.Current; current >= 0 {
		return p.unitsStuck(nil, current, unscheduled), nil
	}
	// Above Replicas an available leftover may be left. It waits for a replica below, and its own units
	// are of no interest.
	var list []SetDiagnosis
	for i := range p.replicas {
		list = p.unitsStuck(list, i, unscheduled)
	}
	return list, nil
}

// wholeStuck diagnoses whole replicas. If it finds nothing, over reports whether the update waits for
// units and not for whole replicas that are terminating.
func (p *setPlan) wholeStuck(unscheduled func(replica, component, index int) bool) (d Diagnosis, over bool) {
	if !p.spec.recreate() {
		var outdated []int
		for i := range p.replicas {
			if p.result.Replicas[i].Blocked.Has(BlockedPaused) {
				outdated = append(outdated, i)
			}
		}
		if len(outdated) > 0 {
			return pausedAt(outdated), false
		}
		return Diagnosis{}, true
	}
	// Not Whole but a plan of these slots: in them a surge exists that has nothing to create.
	slots := make([]Slot, len(p.result.Replicas))
	for i, replica := range p.result.Replicas {
		slots[i] = replica.Slot
	}
	var never func(int) bool
	if unscheduled != nil {
		never = func(i int) bool { return !p.returns(i) && p.neverScheduled(i, unscheduled) }
	}
	d = Diagnose(p.flat, slots, never)
	if d.Stuck != NotStuck && d.Stuck != UpdatePaused {
		d.Indices = slices.DeleteFunc(d.Indices, p.returns)
		if len(d.Indices) == 0 {
			return Diagnosis{}, false
		}
	}
	return d, p.result.Whole.Converged
}

// returns reports whether a replica that does not serve may need nothing but what is terminating in
// it, and is then created again.
func (p *setPlan) returns(i int) bool {
	for c := range p.spec.Components {
		component, slots := p.state.scaled(p.spec, i, c), p.state.units(i, c).Slots
		all, base := count(slots, 0, len(slots)), count(slots, 0, max(component.Replicas, 0))
		need := Member{Replicas: component.Replicas, MinAvailable: component.MinAvailable}.need()
		if all.available()+base[Terminating] < need {
			return false
		}
	}
	return p.facts[i].all[Terminating] > 0 // a surge that should have no unit does not
}

// neverScheduled reports whether a replica has live units and none of them was scheduled.
func (p *setPlan) neverScheduled(i int, unscheduled func(replica, component, index int) bool) bool {
	for c := range p.spec.Components {
		for j, slot := range p.state.units(i, c).Slots {
			if slot.Live() && (slot.Available() || !unscheduled(i, c, j)) {
				return false
			}
		}
	}
	return p.facts[i].all.live() > 0
}

// unitsStuck appends the components of a replica that are stuck.
func (p *setPlan) unitsStuck(list []SetDiagnosis, i int, unscheduled func(replica, component, index int) bool) []SetDiagnosis {
	for c, component := range p.spec.Components {
		r := p.state.scaled(p.spec, i, c).Flat().Resolve()
		if i < p.partition { // whatever its role, what is old in it is protected
			r.Partition = r.Replicas
		}
		var never func(int) bool
		if unscheduled != nil {
			never = func(index int) bool { return unscheduled(i, c, index) }
		}
		plan := p.result.Replicas[i].Components[c]
		if d := diagnose(plan, r, p.spec.Paused, p.state.units(i, c).Slots, never); d.Stuck != NotStuck {
			list = append(list, SetDiagnosis{Replica: i, Component: c, Name: component.Name, Diagnosis: d})
		}
	}
	return list
}
