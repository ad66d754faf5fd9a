package main

import (
	"fmt"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/surge"
)

// planner is what the world asks: a flat set or a whole PodCliqueSet. A flat set is a set of one
// replica with one component.
type planner interface {
	sizes() [][]int // units at rest, by set replica and component
	plan(surge.SetState) (decision, error)
	component(i int) surge.Spec                 // the flat view of a component, for the words of a reason
	gate(component int) int                     // size of its base gang
	surgeAt(replica, component, index int) bool // whether a unit is above the base
	scaleDown() string                          // says what was done
	unstick() string                            // says what was done, empty if nothing can be
	fmt.Stringer                                // what the update is about
}

// move is one action on one unit.
type move struct {
	replica, component int
	action             surge.Action
	revision           string // that surge.Stable means; empty if the state does not say
}

type decision struct {
	moves     []move
	blocked   surge.Blocked
	converged bool
	remark    string   // which replica of a set the others wait for
	stuck     []string // why nothing would ever happen, if nothing else does
}

// why says in words what a reason code means here.
func why(reason surge.Reason, spec surge.Spec) string {
	switch r := spec.Resolve(); reason {
	case surge.Hole:
		return "the index is free and belongs to the base"
	case surge.Surge:
		return fmt.Sprintf("keeps %d available while others are replaced", r.Floor())
	case surge.Outdated:
		if r.Floor() == 1 {
			return "its turn, and 1 stays available"
		}
		return fmt.Sprintf("its turn, and %d stay available", r.Floor())
	case surge.OutdatedUnscheduled, surge.OutdatedUnavailable:
		return "old and serves nobody"
	case surge.StaleSurge:
		return "a surge of an old revision that serves nobody"
	case surge.SurplusSurge:
		return "the surge is not needed any more"
	case surge.Condemned:
		return "left behind by a larger configuration"
	}
	return reason.String()
}

type flatSet struct {
	spec    surge.Spec
	unblock bool
	without int // the maxUnavailable with which the update goes on without the surge that it waits for; 0 if it waits for none
}

func (f *flatSet) sizes() [][]int { return [][]int{{f.spec.Replicas}} }

func (f *flatSet) plan(state surge.SetState) (decision, error) {
	slots := state[0][0].Slots
	plan := surge.Plan(f.spec, slots)
	d := decision{blocked: plan.Blocked, converged: plan.Converged}
	for _, action := range plan.Actions {
		d.moves = append(d.moves, move{action: action})
	}
	stuck := surge.Diagnose(f.spec, slots, nil)
	d.stuck, f.without = []string{stuck.String()}, stuck.MaxUnavailable
	return d, nil
}

func (f *flatSet) scaleDown() string {
	f.spec.Replicas = max(f.spec.Replicas-1, 0)
	return fmt.Sprintf("scaled to %d", f.spec.Replicas)
}

func (f *flatSet) gate(int) int { return f.spec.MinAvailable }

func (f *flatSet) surgeAt(_, _, index int) bool { return index >= f.spec.Replicas }

func (f *flatSet) unstick() string {
	if !f.unblock || f.without == 0 {
		return ""
	}
	f.spec.MaxSurge, f.spec.MaxUnavailable = concurrency.Count(0), concurrency.Count(f.without)
	return fmt.Sprintf("surge given up, from now on at most %d missing", f.spec.Resolve().Unavailable)
}

type podCliqueSet struct{ spec surge.SetSpec }

func (p *podCliqueSet) sizes() [][]int {
	var replica []int
	for _, c := range p.spec.Components {
		replica = append(replica, c.Replicas)
	}
	var list [][]int
	for range p.spec.Replicas {
		list = append(list, replica)
	}
	return list
}

func (p *podCliqueSet) plan(state surge.SetState) (decision, error) {
	plan, err := surge.PlanSet(p.spec, state)
	if err != nil {
		return decision{}, err
	}
	d := decision{blocked: plan.Blocked, converged: plan.Converged}
	for r, replica := range plan.Replicas {
		for c, component := range replica.Components {
			for _, action := range component.Actions {
				d.moves = append(d.moves, move{r, c, action, replica.Revision})
			}
		}
	}
	if plan.Current >= 0 {
		d.remark = fmt.Sprintf("; replica %d is current", plan.Current)
	}
	stuck, err := surge.DiagnoseSet(p.spec, state, nil)
	for _, at := range stuck {
		d.stuck = append(d.stuck, at.String())
	}
	return d, err
}

func (p *podCliqueSet) scaleDown() string {
	p.spec.Replicas = max(p.spec.Replicas-1, 0)
	return fmt.Sprintf("scaled to %d", p.spec.Replicas)
}

func (p *podCliqueSet) gate(component int) int { return p.spec.Components[component].MinAvailable }

func (p *podCliqueSet) surgeAt(replica, component, index int) bool {
	return replica >= p.spec.Replicas || index >= p.spec.Components[component].Replicas
}

func (p *podCliqueSet) unstick() string { return "" }

func (f *flatSet) String() string {
	r := f.spec.Resolve()
	text := fmt.Sprintf("%s; during the update up to %d more, at most %d missing", textlist.Counted(r.Replicas, "replica"), r.Surge, r.Unavailable)
	if r.MinAvailable > 0 {
		text += fmt.Sprintf("; the base gang of %d becomes ready first", r.MinAvailable)
	}
	return text + from(f.spec.Partition, r.Replicas)
}

func (p *podCliqueSet) String() string {
	var names []string
	for _, c := range p.spec.Components {
		names = append(names, fmt.Sprintf("%s (%d)", c.Name, c.Replicas))
	}
	kind := p.spec.UpdateStrategy.Type
	if kind == "" {
		kind = surge.RollingUpdate
	}
	return fmt.Sprintf("%s of %s by %s; a unit is named replica/component/index", textlist.Counted(p.spec.Replicas, "replica"), strings.Join(names, ", "), kind) +
		from(p.spec.Partition, p.spec.Replicas)
}

// from says what a partition leaves to be updated.
func from(partition, replicas int) string {
	switch {
	case partition == 0:
		return ""
	case partition >= replicas:
		return fmt.Sprintf("; nothing is updated, since the partition is %d", partition)
	}
	return fmt.Sprintf("; updated from %d on", partition)
}

func (p *podCliqueSet) component(i int) surge.Spec {
	if p.spec.UpdateStrategy.Type == surge.ReplicaRecreate {
		return p.spec.Flat()
	}
	return p.spec.Components[i].Flat()
}

func (f *flatSet) component(int) surge.Spec { return f.spec }
