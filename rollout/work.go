package rollout

import "time"

// work is one planning: the index and everything derived from it, alive for one call. What a
// chapter of the package keeps for itself is declared there.
type work struct {
	*index
	snapshot *Snapshot // nil once the plan is made, which refers to its lists only
	set      *PolicySet
	now      time.Time
	plan     Plan

	pairing
	governing
	scoping
	overriding
	gating
	timing
	depending
	rolling
	bracketing
	capacity capacity
	leasing
	admitting
	awaiting
	explaining
	slabs
}

// noNow is the fault of a zero instant.
func noNow() error {
	var f faults
	return f.add("now", CodeRequired, nil, "must be set to the present instant").err()
}

// begin indexes a snapshot and finds who is governed by what.
func (s *PolicySet) begin(snapshot *Snapshot, now time.Time) (*work, error) {
	if s == nil || s.compiler == nil { // an empty one would govern nobody, and let everybody start
		return nil, ErrNoPolicies
	}
	if now.IsZero() { // a clock that nobody set: no version would exist yet, so that nobody started, nobody waited and nobody knew why
		return nil, noNow()
	}
	x, err := newIndex(snapshot)
	if err != nil {
		return nil, err
	}
	w := &work{
		index: x, snapshot: snapshot, set: s, now: now, plan: Plan{Now: now.UTC()},
		governing:  governing{held: map[int32][]Verdict{}, diagnostics: map[diagnosticKey]*Diagnostic{}},
		gating:     newGating(),
		timing:     timing{hours: map[overriddenHours]*hours{}},
		depending:  newDepending(),
		rolling:    newRolling(snapshot.State.Rollouts),
		bracketing: bracketing{members: make([]bool, len(x.targets))},
		awaiting:   newAwaiting(len(x.targets)),
	}
	if err := validateCommands(snapshot.Commands); err != nil {
		return nil, err
	}
	w.scope()
	if err := w.override(snapshot.Overrides); err != nil {
		return nil, err
	}
	w.approve(snapshot.Approvals)
	w.pair()
	w.govern()
	return w, nil
}

// release lets go of what only planning needs. The rest stays for as long as the plan does: Commit
// and Explain read it.
func (w *work) release() {
	w.snapshot, w.admitting = nil, admitting{past: w.past}
	for _, b := range w.stepped {
		b.pending, b.runs, b.plan.Wait = nil, nil, nil
	}
}

// viewOf is the view of target i.
func (w *work) viewOf(i int32) *view { return w.views.list[w.view[i]] }

// version is version n of the deployment of target i.
func (w *work) version(i, n int32) *Version { return w.versions[w.targets[i].deployment].list[n] }

// bound binds what target i is made of, whatever the version.
func (w *work) bound(i int32) bound {
	t := &w.targets[i]
	return bound{resource: &w.resources[t.resource], environment: &w.environments[t.environment], deployment: &w.deployments[t.deployment]}
}

// boundWith binds version n as well.
func (w *work) boundWith(i, n int32) bound {
	b := w.bound(i)
	b.version = w.version(i, n)
	return b
}

// boundIn binds a deployment in an environment, whatever the resource.
func (w *work) boundIn(environment, deployment int32) bound {
	return bound{environment: &w.environments[environment], deployment: &w.deployments[deployment]}
}

// id names a target in the words of its entities, which are closer at hand than the target itself.
func (w *work) id(i int32) TargetID {
	t := &w.targets[i]
	return TargetID{Resource: w.resources[t.resource].ID, Environment: w.environments[t.environment].ID, Deployment: w.deployments[t.deployment].ID}
}

// wake notes an instant at which the plan may change by itself. Like every instant that a plan
// tells it is in UTC, whatever zone the host reads its clocks in: of two that are equal it must not
// matter which comes first.
func (w *work) wake(at time.Time) {
	if at.After(w.now) && (w.plan.Next.IsZero() || at.Before(w.plan.Next)) {
		w.plan.Next = at.UTC()
	}
}
