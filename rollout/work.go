package rollout

import (
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/instant"
)

// work is one planning: the index and everything derived from it. The plan keeps it, see release.
// The embedded types are declared in the files that use them.
type work struct {
	*index
	snapshot *Snapshot // nil once the plan is made, which refers to its lists only
	set      *PolicySet
	plan     Plan
	wakeup

	pairing
	governing
	scoping
	overriding
	freezing
	pausing
	gating
	budgeting
	timing
	depending
	rolling
	bracketing
	capacity capacity
	leasing
	admitting
	granting
	queueing
	awaiting
	explaining
	slabs
}

// validateNow returns the fault of a now that a clock gives which is not set. At a zero one no
// version would exist yet, so nothing would start or wait, and no reason would be given. Beyond the
// last instant every wait would be over, because those that are to end later are cut off there.
func validateNow(now time.Time) error {
	var f faults
	if now.IsZero() {
		f.add("now", CodeRequired, nil, "must be set to the present instant")
	} else if instant.Unset(now) {
		f.created("now", now, "it is the present instant")
	} else if now.After(lastInstant()) {
		f.add("now", CodeOutOfRange, now.UTC().Format(time.RFC3339), "must be the present instant, and not after %s, which is as far as instants reach", lastInstant().Format(time.RFC3339))
	}
	return f.err()
}

// begin indexes a snapshot and finds which policies govern which targets.
func (s *PolicySet) begin(snapshot *Snapshot, now time.Time) (*work, error) {
	if s == nil || s.compiler == nil { // an empty set would govern no target, and let all of them start
		return nil, ErrNoPolicies
	}
	if err := validateNow(now); err != nil {
		return nil, err
	}
	var f faults
	x := newIndex(&f, snapshot, len(s.customs) > 0)
	validateCommands(&f, snapshot.Commands)
	validateEach(&f, "overrides", snapshot.Overrides, (*Override).validate, (*Override).id)
	validateEach(&f, "freezes", snapshot.Freezes, (*Freeze).validate, (*Freeze).id)
	if err := f.few(); err != nil {
		return nil, err
	}
	w := &work{
		index: x, snapshot: snapshot, set: s, plan: Plan{Now: now.UTC()}, wakeup: wakeup{now: now},
		rolling:    newRolling(snapshot.State.Rollouts),
		bracketing: bracketing{members: make([]bool, len(x.targets))},
		awaiting:   awaiting{waits: make([]wait, len(x.targets))},
	}
	w.scope()
	w.approve(snapshot.Approvals)
	w.pair()
	w.freeze(snapshot.Freezes)
	w.govern()
	w.override(snapshot.Overrides) // it asks whom their rules govern
	return w, nil
}

// release drops what only planning needs. The rest stays for as long as the plan does: Commit,
// NextAfter, Queue and Explain read it.
func (w *work) release() {
	w.snapshot, w.admitting, w.opened = nil, admitting{}, nil
	w.deleted, w.commands, w.concerns, w.satisfiers, w.ruleSatisfiers, w.attempted = nil, nil, nil, nil, nil, attempted{}
	for _, b := range w.stepped {
		b.pending, b.runs, b.kinds, b.observation = nil, nil, kinds{}, bracket.Observation{}
	}
}

// viewOf is the view of target i.
func (w *work) viewOf(i int32) *view { return w.views.list[w.view[i]] }

// version is version n of the deployment of target i.
func (w *work) version(i, n int32) *Version { return w.versions[w.targets[i].deployment].list[n] }

// number is the number of a version of the deployment of target i: none for an empty id, missing for
// one that the snapshot does not hold.
func (w *work) number(i int32, id string) int32 {
	return w.versions[w.targets[i].deployment].number(id)
}

// bound binds the entities of target i, without a version.
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

// boundIn binds a deployment in an environment, without a resource.
func (w *work) boundIn(environment, deployment int32) bound {
	return bound{environment: &w.environments[environment], deployment: &w.deployments[deployment]}
}

// id returns the id of target i, read from its entities, which are closer in memory than the target
// itself.
func (w *work) id(i int32) TargetID {
	t := &w.targets[i]
	return TargetID{Resource: w.resources[t.resource].ID, Environment: w.environments[t.environment].ID, Deployment: w.deployments[t.deployment].ID}
}
