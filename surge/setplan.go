package surge

import (
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
)

// PlanSet decides for every replica of a set and every component what may be created and deleted
// now. Like [Plan] it is pure, reads everything from the state, and allows any part of a plan to be
// carried out in any order.
//
// Under RollingUpdate one replica at a time is current. While it runs more than one revision, it
// stays current whatever happens elsewhere, because the incomplete replicas that do so come first.
// Those without an old unit follow, then never-scheduled, broken and degraded ones, those with a
// unit above the number that they should have, and healthy ones, each by index. One that is no
// longer current is repaired at its own revision; if that is the target, it is completed. Under
// ReplicaRecreate each replica is folded to one slot and planned flat with the budgets of the set;
// component strategies are ignored.
//
// The error joins the faults of the state, each a *[FieldError]: more components than the Spec has,
// more revisions than slots, or a number of units out of bounds. A Spec that was never validated is
// clamped as by [Plan], and an unknown type counts as RollingUpdate.
func PlanSet(spec SetSpec, state SetState) (SetResult, error) {
	p, err := decided(spec, state)
	if err != nil {
		return SetResult{}, err
	}
	return p.result, nil
}

// decided returns a plan with all that it was decided on.
func decided(spec SetSpec, state SetState) (*setPlan, error) {
	if err := state.check(len(spec.Components)); err != nil {
		return nil, err
	}
	p := newSetPlan(spec.bounded(state), state)
	if spec.recreate() {
		p.recreate()
	} else {
		p.roll()
	}
	for i := range p.result.Replicas {
		p.result.Blocked |= p.result.Replicas[i].Blocked
	}
	return p, nil
}

// setPlan is a plan in the making.
type setPlan struct {
	spec      SetSpec
	state     SetState
	replicas  int // of the Spec, clamped to what can be planned
	partition int
	facts     []facts
	flat      Spec // by which a ReplicaRecreate plans whole replicas
	result    SetResult
}

func newSetPlan(spec SetSpec, state SetState) *setPlan {
	r := spec.Flat().Resolve()
	p := &setPlan{spec: spec, state: state, replicas: r.Replicas, partition: r.Partition}
	p.result.Current = -1
	p.grow(max(p.replicas, len(state)))
	return p
}

// grow adds replicas until there are so many. Their component plans share one array.
func (p *setPlan) grow(to int) {
	n, width := to-len(p.facts), len(p.spec.Components)
	plans := make([]Result, n*width)
	p.facts = slices.Grow(p.facts, n)
	p.result.Replicas = slices.Grow(p.result.Replicas, n)
	for range n {
		f := inspect(p.spec, p.state, len(p.facts))
		p.facts = append(p.facts, f)
		p.result.Replicas = append(p.result.Replicas, ReplicaResult{
			Slot: f.slot(), Complete: f.complete, Revision: f.revision, Components: plans[:width:width],
		})
		plans = plans[width:]
	}
}

// facts are what the choice of the current replica and the treatment of the others depend on.
type facts struct {
	folding
	complete bool
	empty    bool   // no component should have a unit
	mixed    bool   // live units run more than one revision
	surged   bool   // a unit lives at or above its component's replicas
	degraded bool   // a base unit is not available
	revision string // of the first live unit; empty for the target
	oldFirst bool   // the first live unit is old
}

func inspect(spec SetSpec, state SetState, replica int) facts {
	f := facts{folding: folding{enough: true}, complete: true, empty: true}
	first := true
	for i := range spec.Components {
		component, units := state.scaled(spec, replica, i), state.units(replica, i)
		base := max(component.Replicas, 0)
		within := count(units.Slots, 0, base)
		above := count(units.Slots, base, max(base, len(units.Slots)))
		f.empty = f.empty && base == 0
		f.complete = f.complete && within[TargetAvailable] == base && above.live() == 0
		f.surged = f.surged || above.live() > 0
		f.degraded = f.degraded || within.available() < base
		both := within
		both.add(above)
		f.add(Member{Replicas: component.Replicas, MinAvailable: component.MinAvailable}, both)
		for j, slot := range units.Slots {
			if !slot.Live() {
				continue
			}
			revision, old := units.revision(j)
			if first {
				f.revision, f.oldFirst, first = revision, old, false
			} else if revision != f.revision || old != f.oldFirst {
				f.mixed = true
				break
			}
		}
	}
	return f
}

// slot returns a replica folded to one slot, as it is counted among the others. Where it should have
// no unit, a base replica has what it needs, although it looks absent, and any other is of no use.
func (p *setPlan) slot(i int) Slot {
	slot := p.facts[i].slot()
	switch empty := p.facts[i].empty; {
	case empty && i < p.replicas && slot == Absent:
		return TargetAvailable
	case empty && i >= p.replicas && slot == OldAvailable:
		return OldUnavailable
	case empty && i >= p.replicas && slot == TargetAvailable:
		return TargetUnavailable
	}
	return slot
}

// rank orders the replicas that are not complete. The one with the lowest rank is current.
//
// H1: a mixed replica goes before all others, whatever may be wrong elsewhere. Otherwise a second
// mixed replica could be started. A replica without an old unit goes before every untouched one,
// even while all its units are terminating. Otherwise a set of single-unit replicas would lose the
// second one call after the first.
//
// H5: a unit above its component's replicas is a surge, or what is left of a larger component, which
// an autoscaler makes at any time. So it goes behind all that the start of an update looks like:
// otherwise a replica that was scaled in would be started beside the one that is in the middle.
func (f *facts) rank() int {
	switch {
	case f.mixed:
		return 0
	case f.old() == 0:
		return 1
	case f.unscheduled():
		return 2
	case !f.enough:
		return 3
	case f.degraded:
		return 4
	case f.surged:
		return 5
	}
	return 6
}

// roll plans a RollingUpdate.
func (p *setPlan) roll() {
	result := &p.result
	result.Updated = true
	for i := p.partition; i < p.replicas; i++ {
		f := &p.facts[i]
		if f.complete {
			continue
		}
		result.Updated = false
		if !p.spec.Paused && (result.Current < 0 || f.rank() < p.facts[result.Current].rank()) {
			result.Current = i
		}
	}
	result.Converged = result.Updated
	for i := range p.replicas {
		f, replica := &p.facts[i], &result.Replicas[i]
		switch {
		case i == result.Current:
			replica.Role = RoleCurrent
			p.toTarget(i, Plan)
		case f.old() == 0 && (i >= p.partition || f.all.live() > 0):
			replica.Role = RoleTarget
			p.toTarget(i, Spec.kept)
		default:
			p.hold(i, Component.Flat)
			if i >= p.partition && p.spec.Paused {
				replica.Blocked |= BlockedPaused
			} else if i >= p.partition {
				replica.Blocked |= BlockedWaitingForReplica
			}
		}
		for _, component := range replica.Components {
			result.Converged = result.Converged && component.Converged
		}
	}

	// One of Replicas may be missing. If the plan takes the current replica down, that is the one, and
	// must not be spent on a leftover as well.
	available := 0
	for i := range p.facts {
		if p.slot(i).Available() && (i != result.Current || p.survives(i)) {
			available++
		}
	}
	for i := len(p.facts) - 1; i >= p.replicas; i-- {
		slot := p.slot(i)
		result.Converged = result.Converged && slot == Absent
		switch {
		case !slot.Live():
			p.hold(i, gone)
		case !slot.Available():
			p.removeAll(i, RoleCondemned, Condemned)
		case available > p.replicas-1:
			available--
			p.removeAll(i, RoleCondemned, Condemned)
		default:
			p.hold(i, Component.Flat)
		}
	}
}

// survives reports whether a replica that serves still does once its plan is carried out. One that
// should have no unit does not before its last one is gone: plans see it as terminating until then.
func (p *setPlan) survives(i int) bool {
	after := folding{enough: true}
	for c := range p.spec.Components {
		component, slots := p.state.scaled(p.spec, i, c), p.state.units(i, c).Slots
		units := count(slots, 0, len(slots))
		for _, action := range p.result.Replicas[i].Components[c].Actions {
			if action.Op == Delete {
				units.move(slots[action.Index], Terminating)
			}
		}
		after.add(Member{Replicas: component.Replicas, MinAvailable: component.MinAvailable}, units)
	}
	return after.slot().Available()
}

// recreate plans a ReplicaRecreate.
func (p *setPlan) recreate() {
	flat := p.spec.Flat()
	born := slices.ContainsFunc(p.spec.Components, func(c Component) bool { return c.Replicas > 0 })
	if !born {
		flat.MaxSurge = concurrency.Count(0) // a surge replica would have no unit, and never serve
	}
	// A replica without units cannot be told from an absent one and would be created for ever. So if
	// all are without, the set is planned as if it had no replicas.
	scaled := slices.ContainsFunc(p.facts[:p.replicas], func(f facts) bool { return !f.empty })
	hollow := !scaled && p.replicas > 0
	if hollow {
		flat = Spec{}
	}
	slots := make([]Slot, len(p.facts))
	for i := range p.facts {
		if slots[i] = p.slot(i); hollow {
			slots[i] = p.facts[i].slot()
		}
		if i < p.replicas {
			p.result.Replicas[i].Slot = slots[i] // for Diagnose, which knows the number of replicas alone
		}
	}
	whole := Plan(flat, slots)
	p.flat = flat
	if n := len(whole.Actions); n > 0 {
		p.grow(max(len(p.facts), whole.Actions[n-1].Index+1))
	}
	result := &p.result
	result.Whole, result.Blocked = whole, whole.Blocked
	result.Updated, result.Converged = whole.Updated, whole.Converged
	actions := whole.Actions
	for i := range p.facts {
		if len(actions) > 0 && actions[0].Index == i {
			action := actions[0]
			actions = actions[1:]
			switch {
			case action.Op == Create:
				p.createAll(i, action)
			case i < p.replicas:
				p.removeAll(i, RoleRecreated, action.Reason)
			default:
				p.removeAll(i, RoleCondemned, action.Reason)
			}
			continue
		}
		f, replica := &p.facts[i], &result.Replicas[i]
		if f.all.live() == 0 {
			p.hold(i, gone)
			continue
		}
		p.hold(i, keptWhole)
		if f.old() == 0 {
			replica.Role = RoleTarget
		}
		for _, component := range replica.Components {
			result.Converged = result.Converged && component.Converged
		}
	}
}

// keptWhole returns the Spec for a component of a replica that is kept whole. Its floor is all its
// replicas, so only units above them are removed.
func keptWhole(c Component) Spec {
	return Spec{Replicas: c.Replicas, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}
}

// gone returns the Spec for a component of a replica that no longer exists: nothing is created.
func gone(Component) Spec { return Spec{} }

// toTarget plans how each component of a replica gets to the target: with its own budgets if the
// replica is current.
func (p *setPlan) toTarget(i int, plan func(Spec, []Slot) Result) {
	replica := &p.result.Replicas[i]
	for c := range p.spec.Components {
		replica.Components[c] = plan(p.state.scaled(p.spec, i, c).Flat(), p.state.units(i, c).Slots)
		replica.Blocked |= replica.Components[c].Blocked
	}
}

// hold plans each component of a replica as if its partition were its replicas. The stable revision
// is the one that the replica runs.
//
// A replica that waits is not taken down. If it were for its budgets alone, it would lose a unit that
// serves in place of a broken one, once an autoscaler has scaled the component in, and the current
// replica may be down as well.
func (p *setPlan) hold(i int, spec func(Component) Spec) {
	replica, f := &p.result.Replicas[i], &p.facts[i]
	replica.Role = RoleHeld
	atTarget := f.all.live() > 0 && !f.oldFirst
	for c := range p.spec.Components {
		held := spec(p.state.scaled(p.spec, i, c))
		held.Partition = held.Replicas
		plan := held.kept(p.state.units(i, c).Slots)
		if atTarget {
			plan.restate(held, p.state.units(i, c).Slots)
		}
		replica.Components[c] = plan
		replica.Blocked |= plan.Blocked
	}
}

// restate turns creations at the stable revision into creations at the target, which the replica
// runs.
func (r *Result) restate(spec Spec, slots []Slot) {
	restated := false
	for i := range r.Actions {
		if r.Actions[i].Op == Create {
			r.Actions[i].Revision = Target
			restated = true
		}
	}
	if !restated {
		return
	}
	base := count(slots, 0, spec.Resolve().Replicas)
	r.Blocked |= BlockedWaitingForBase
	if base[OldUnscheduled]+base[OldUnavailable] == 0 {
		r.Blocked &^= BlockedProtectedDown
	}
}

// removeAll deletes every live unit of a replica.
func (p *setPlan) removeAll(i int, role Role, reason Reason) {
	replica := &p.result.Replicas[i]
	replica.Role = role
	for c := range p.spec.Components {
		var actions []Action
		terminating := false
		for j, slot := range p.state.units(i, c).Slots {
			terminating = terminating || slot.normal() == Terminating
			if slot.Live() {
				actions = append(actions, Action{Index: j, Op: Delete, Reason: reason})
			}
		}
		plan := Result{Actions: actions}
		if terminating || len(actions) > 0 {
			plan.Blocked = BlockedTerminating
		}
		replica.Components[c] = plan
		replica.Blocked |= plan.Blocked
	}
}

// createAll creates every base unit of a replica of which nothing exists.
func (p *setPlan) createAll(i int, whole Action) {
	replica := &p.result.Replicas[i]
	replica.Role = RoleRecreated
	if p.facts[i].empty { // a surge: a base replica without units counts as available, and is not created
		replica.Slot = TargetUnavailable // nothing will be created: for Diagnose, a surge that never serves
	}
	for c := range p.spec.Components {
		n := p.state.scaled(p.spec, i, c).Replicas
		if n <= 0 {
			replica.Components[c] = Result{Updated: true, Converged: true}
			continue
		}
		plan := Result{Blocked: BlockedWaitingForBase}
		if whole.Revision == Stable {
			plan.Blocked = BlockedProtectedDown
		}
		plan.Actions = make([]Action, n)
		for j := range plan.Actions {
			plan.Actions[j] = Action{Index: j, Op: Create, Revision: whole.Revision, Reason: whole.Reason}
		}
		replica.Components[c] = plan
		replica.Blocked |= plan.Blocked
	}
}
