package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
)

// Planner is a thin shell around [PolicySet.Plan] for hosts that want load, plan and save done for
// them. A host can do by itself everything that it does. Several planners may work on one store:
// every save is conditional, so a decision based on stale state is made again. A Planner is safe
// for concurrent use if its parts are. It keeps the records that it read last, to decode only those
// that have changed, so a host uses one Planner for as long as it runs, and sets Policies when they
// are edited: between two calls, never during one. It must not be copied.
type Planner struct {
	Policies *PolicySet    // required
	Store    bracket.Store // required
	Clock    clock.Clock   // required; usually [clock.System]

	// JobCounter fills Snapshot.Active. It is nil if every job comes from a plan: then only leases,
	// open executions and the active jobs of the targets count. It may list the jobs of plans as
	// well, each with the Group of its Start: a resource that is listed twice counts once.
	JobCounter concurrency.JobCounter

	// Choose, unless nil, is given every plan before it is committed, and returns the starts to
	// carry out: any of plan.Start, in any order, without changing the plan. A start that it returns
	// twice is carried out once, where it stands first. It is for what depends on all starts
	// together, such as a limit on those with [PurposeRollback]. (To start nothing in an emergency,
	// use a [Freeze], which every wait then names.) The next plan offers the rest again. The host
	// asks for it when Choose would decide otherwise: Next does not know that instant. After a
	// conflict Choose is called again.
	//
	// A target whose start is left out is in no list of the plan that Plan returns, and that plan's
	// Pools and Waiting are as if it started: Pool.Active counts it, and what comes after it waits
	// for it.
	Choose func(plan *Plan) []Start

	// Recorder, unless nil, is called with every saved plan before Plan returns it, for a decision
	// log. It must neither change nor keep the recording, which shares its memory with the plan and
	// the host's snapshot; it encodes what it wants to keep. Policies are left out. The recorded
	// plan has all its starts and its own Next, whatever was chosen; its State is what was saved,
	// after those that were. After a conflict its Events include those of the attempts before.
	Recorder func(Recording)

	readings atomic.Pointer[readings] // of the last load
}

// attemptsPerPlan bounds how often a plan is made while other planners save first.
const attemptsPerPlan = 3

// Plan reads the stored state, plans, commits all starts, or those that Choose returns, saves what
// changed, and returns the plan with these starts. The host then dispatches them, create-if-absent
// by their run ids, and looks again at the plan's Next: it is [Plan.NextAfter] these starts. The
// plan's State is what was saved, after these starts: there is nothing left to commit. The State and
// Active of the snapshot are ignored and replaced.
//
// The snapshot is older than the state that Plan reads, and older still after a conflict. That
// exceeds no limit: a job that has ended meanwhile keeps its slot until a snapshot shows its end,
// and lets no other target in. Only Unavailable is taken as it is.
//
// If another planner saved first, Plan reads and plans again, at most three times in all, and then
// returns an error that wraps [bracket.ErrConflict]. Any other error of the store or the counter is
// returned at once. With an error there is no plan and nothing may be dispatched. The next plan
// finds what was saved by then and offers the same runs, but the [Plan.Events] of what was saved
// are lost, as after a crash.
func (p *Planner) Plan(ctx context.Context, snapshot Snapshot) (Plan, error) {
	if err := p.validate(); err != nil {
		return Plan{}, err
	}
	var conflict error
	var told []Event
	for range attemptsPerPlan {
		plan, err := p.attempt(ctx, snapshot, &told)
		if !errors.Is(err, bracket.ErrConflict) {
			return plan, err
		}
		conflict = err
	}
	return Plan{}, fmt.Errorf("rollout: gave up after %d attempts: %w", attemptsPerPlan, conflict)
}

// validate names what is missing.
func (p *Planner) validate() error {
	var missing []string
	for _, part := range []struct {
		name string
		none bool
	}{{"Policies", p.Policies == nil}, {"Store", p.Store == nil}, {"Clock", p.Clock == nil}} {
		if part.none {
			missing = append(missing, "no "+part.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("rollout: a Planner must have Policies, a Store and a Clock: this one has %s", strings.Join(missing, ", "))
	}
	return nil
}

// attempt is one round of Plan. told are the events of what earlier rounds have saved: attempt
// finds them in the state already, and passes them on.
func (p *Planner) attempt(ctx context.Context, snapshot Snapshot, told *[]Event) (Plan, error) {
	now := p.Clock.Now()
	plan, old, snapshot, err := p.look(ctx, snapshot, now)
	if err != nil {
		return Plan{}, err
	}
	offered, chosen, next := plan.Start, plan.Start, plan.Next
	if p.Choose != nil {
		chosen = distinctStarts(p.Choose(&plan))
	}
	if plan.State, err = plan.Commit(chosen, now); err != nil {
		return Plan{}, err
	}
	plan.Next = plan.NextAfter(chosen)
	plan.Start = chosen
	if err := p.confirm(ctx, old, plan.restsOn()); err != nil {
		return Plan{}, fmt.Errorf("rollout: confirm state: %w", err)
	}
	saved, err := p.save(ctx, old, plan.State)
	if err != nil {
		*told = passOn(*told, saved.of(plan.Events))
		return Plan{}, fmt.Errorf("rollout: save state: %w", err)
	}
	plan.Events = passOn(*told, plan.Events)
	if p.Recorder != nil {
		recorded := plan
		recorded.Start, recorded.Next = offered, next
		p.Recorder(Recording{Schema: recordingSchema, Snapshot: snapshot, Plan: recorded})
	}
	return plan, nil
}

// load reads the pools before everything else that shows which resources are down: the executions,
// and then the counter's jobs. A resource that is down when these are read had a place in the pools
// as they were read, or has got one since; in the second case the pools have changed, and claims
// made on them are not saved. In the reverse order, an execution that ended in between would let a
// target start on a place that another resource has by now.
func (p *Planner) load(ctx context.Context) (stored, error) {
	s := stored{revisions: map[string]int64{}, readings: readings{}, sharing: newSharing()}
	if before := p.readings.Load(); before != nil {
		s.before = *before
	}
	for _, kind := range recordKinds() {
		entries, err := p.Store.List(ctx, kind.prefix)
		if err != nil {
			return stored{}, err
		}
		for _, entry := range entries {
			if err := kind.add(&s, entry); err != nil {
				return stored{}, err
			}
			s.revisions[entry.Key] = entry.Revision
		}
	}
	p.readings.Store(&s.readings)
	// The store orders them by their record keys: see [PoolRecordKey].
	slices.SortFunc(s.state.Pools, comparePools)
	return s, nil
}

// confirm saves records as they were read, before anything else is saved: a conflict means that
// they were stale.
func (p *Planner) confirm(ctx context.Context, old stored, keys []string) error {
	writes, err := old.asRead(keys)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if old.revisions[w.key], err = p.Store.Save(ctx, w.key, w.value, old.revisions[w.key]); err != nil {
			return err
		}
	}
	return nil
}

// save writes the changed records one after the other and returns those that it has written; see
// writes for their order.
func (p *Planner) save(ctx context.Context, old stored, next State) (written, error) {
	writes, err := old.writes(next, p.Policies.families())
	if err != nil {
		return nil, err
	}
	for k, w := range writes {
		if w.value == nil {
			err = p.Store.Delete(ctx, w.key, old.revisions[w.key])
			if errors.Is(err, bracket.ErrNotFound) {
				continue
			}
		} else {
			old.revisions[w.key], err = p.Store.Save(ctx, w.key, w.value, old.revisions[w.key])
		}
		if err != nil {
			return writes[:k], err
		}
	}
	return writes, nil
}
