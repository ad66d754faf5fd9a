package rollouttest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/rollout"
)

// World is a fleet, the policies over it, and everything that will happen to it. It is a plain
// value: [World.Run] does not modify it, so one world can be run any number of times. Every run
// gives the same timeline if its Store, if it has one, is in the same state.
type World struct {
	// Policies decide what may start. Required.
	Policies *rollout.PolicySet

	// Fleet is what exists, and what will. The planner does not know a version, an override or a
	// freeze before its CreatedAt, an approval or a command before its At, and a target before its
	// JoinedAt. Nor does it know a resource whose targets have all still to join. What is to come
	// after 2262-04-11, which is as far as instants reach, never comes. To lift a freeze before its
	// ExpiresAt, let a change take it out.
	//
	// A job that is in progress, pending or queued at Start ends as Job says, counted from its
	// CreatedAt, and a verification that is running ends as Job says, counted from the end of its
	// job. What should have ended before Start ends at Start. A job with any other status that is
	// not terminal stays as it is, unless a change ends it: give actionRequired to a job that is
	// known to hang. A job that hangs according to Job stays as it is, too, and so does a
	// verification for which Job tells no end.
	//
	// A job that succeeds becomes the Current of a target that has one, as in a host. If its checks
	// fail then, a rollback needs a listed job of what ran before, see [rollout.Rollback]: a fleet
	// that tells this by Current alone has nothing to go back to.
	//
	// State is what was known at Start, to go on from the middle of a rollout as a recording has
	// it: it needs Pure, which a forecast sets by itself. Without it a plan knows only what the
	// jobs tell, see "Lost state" in package rollout. A host with a [rollout.Planner] takes it from
	// a plan of [rollout.Planner.Look]. Active must be empty: nobody can say when these jobs end.
	// List their resources as Unavailable, and let a change take them out; what a host's JobCounter
	// counts is otherwise not in the world, which is then done too early.
	Fleet rollout.Snapshot

	// Start is the instant of the first plan. Zero: when the oldest version was created. Required
	// if the fleet has no version.
	Start time.Time

	// End is the instant after which the world stops. Zero: it goes on until nothing can happen any
	// more. Windows open and close for ever; they do not count if all targets that wait for them
	// also wait for an event that never comes, such as an approval, an operator's command or the end
	// of a freeze without ExpiresAt. A job may be repeated for ever, too, by a retry rule without
	// limit or because it is cancelled: without End, more than 1000 attempts of one are an error, as
	// they are with End if they take no time, because the clock then stands still.
	End time.Time

	// Every is how often the host looks: at Start and at every multiple of Every after it, as one that
	// polls, or that is woken by a timer alone. What happens in between keeps its instant and is seen
	// at the next look. Zero: whenever anything happens, and at the plan's Next. It must not be
	// negative. A look after 2262-04-11 never comes. Set End, too: looks that miss every opening of
	// a window go on for ever otherwise.
	Every time.Duration

	// Changes are everything else that happens, in any order; those of one instant happen in the
	// order of the list, and those before Start before the first plan. One after 2262-04-11 never
	// happens.
	Changes []Change

	// Job returns the outcome of a job when it starts, and of those in progress at Start. It must be
	// a pure function, or runs of the world differ. Attempts count from 1, per target, version,
	// purpose and group, the jobs of the fleet included. Of a job that the world has not started,
	// start has the target, version and run id, and the purpose and group that the run id tells.
	// Nil: every job succeeds after one minute. See [Durations].
	Job func(start rollout.Start, attempt int) Outcome

	// Approval is asked for every approval that a version lacks, besides those of the Fleet. It must
	// be a pure function, or runs of the world differ. If it returns false, nobody ever answers. Nil:
	// nobody is asked. See [ApproveAfter].
	Approval func(ApprovalRequest) (Answer, bool)

	// Operator is asked what to do about an execution of a bracket that halts after a failure, or a
	// target outside brackets for which no retry rule leaves an attempt, once for every time that it
	// does, and once more if a retry was decided on that has come to be in vain. It must be a pure
	// function, or runs of the world differ. If it returns false, nobody does anything until that has
	// gone on and halts again. Nil: nobody is asked. See [RetryAfter]. Outside brackets nobody is
	// asked about a failure that no retry rule governs, because there is nothing to override, nor
	// about a target that a rollback rule has taken back, nor while a newer version is to come there
	// that waits neither for an approval nor for another gate that [ApprovalRequest] names.
	Operator func(Halt) (Decision, bool)

	// React is called at every instant at which something happened, once nothing more starts, with the
	// step as it is then and with what the timeline has gained since the last call. Whoever watches the
	// rollout sees it there, and what people or programs do about what they see is what it returns:
	// further changes, such as the rejection of a version a quarter of an hour after its third
	// failure. What they would have done before now they do now. It must be a pure function that
	// modifies nothing, or runs of the world differ; if it returns further changes for ever, set End:
	// without End, more than 1000 calls in a row that return changes are an error if no job starts or
	// ends meanwhile, as they are with End at one instant. Nil: nobody watches.
	React func(step Step, news []Entry) []Change

	// Pure keeps the state as a value and plans with [rollout.PolicySet.Plan], without the planner
	// and its store around it. The timeline is the same. A small world runs faster, since it spends
	// most of its time on writing and reading records.
	Pure bool

	// Plan replaces the planner, to try another one or to break it on purpose. It must return the
	// plan of the snapshot at now, with the state that was saved for its starts. Nil: as Pure says.
	Plan func(ctx context.Context, snapshot rollout.Snapshot, now time.Time) (rollout.Plan, error)

	// Store is where the planner keeps its state, unless Pure. Nil: a new [bracket.MemoryStore].
	Store bracket.Store

	// Trust leaves out the checks of the invariants at every step.
	Trust bool
}

// Change is something that happens to the fleet at an instant: a node goes down, comes back, leaves
// or is relabelled, a version is withdrawn, or a freeze is taken back.
type Change struct {
	At   time.Time
	What string // for the timeline, such as "node-3 goes down"

	// Do changes the snapshot that it is given. It may set, append to and remove from its lists.
	// What the lists point to, such as maps, belongs to the world's Fleet: replace it instead of
	// writing to it. A job on a target that it removes never ends, and one that it ends stays as it
	// left it.
	Do func(*rollout.Snapshot)
}

// Run runs the world. It plans, dispatches what the plan starts, and moves the clock to the next
// instant at which anything happens: [rollout.Plan.Next], the end of a job or of its checks, or an
// arrival; if Every is set, to the first look from then on. It plans at no other time, so a plan that
// forgets to name an instant makes the world stop short.
//
// Unless Trust is set, Run checks every plan against [Invariants], and makes sure at every instant
// that planning again starts nothing and that nothing changes before the next wake-up. If a check
// fails, the error holds a [*Violation]. Any other error is one of the planner, or names what is
// wrong with the world. Once ctx is done, Run stops before the next plan, with its error. With any
// error the timeline reaches as far as the world came: its CutOff is set, and its Done is not.
func (w World) Run(ctx context.Context) (Timeline, error) {
	r, err := w.play(ctx, false, nil)
	return r.timeline, err
}

// play is Run, and returns the world as it is at the end. A brief timeline leaves out the waits,
// which take as long as a plan. found is how jobs end that are in progress at the start; nil: as
// World.Job says.
func (w World) play(ctx context.Context, brief bool, found foundJob) (*worldRun, error) {
	r, err := w.begin()
	if err != nil {
		r = &worldRun{}
		r.timeline.CutOff = true
		return r, fmt.Errorf("rollouttest: %w", err)
	}
	if found == nil {
		found = func(start rollout.Start, attempt int, _ *rollout.Job, _ time.Time) Outcome {
			return r.Job(start, attempt)
		}
	}
	r.brief = brief && r.React == nil // who watches sees the waits
	if err = r.takeOver(found); err == nil {
		err = r.run(ctx)
	}
	r.timeline.CutOff = r.timeline.CutOff || err != nil
	r.finish(r.unfinishedOfFleet())
	return r, err
}

// worldRun is one run of a world.
type worldRun struct {
	World
	clock    *clock.Fake
	fleet    rollout.Snapshot // what exists by now
	arrivals []Change         // what does not exist yet, by time
	ends     []ending         // of jobs and of their checks, by time

	fresh         bool      // the last plan started all that could start by then, and neither has time gone by nor a job ended since
	next          time.Time // NextAfter of the last plan
	entriesBefore int       // how many entries there were before time last went by

	requests      map[Goal]*requests // for approvals
	mostApprovals int                // that a rule may want
	halts         map[execution]*haltedExecution
	exhausted     map[exhausted]*haltedVersion
	foreseen      time.Time                // when the last arrives of what the Fleet and World.Changes hold
	reactions     []time.Time              // when World.React returned changes, since something else came about, maxReactions at most
	targets       map[rollout.TargetID]int // in fleet.Targets
	dispatched    map[string]rollout.Start
	recorder
}

// begin returns a run that is at the start of the world.
func (w World) begin() (*worldRun, error) {
	if err := w.validate(); err != nil {
		return nil, err
	}
	if w.Start = w.start(); w.Start.IsZero() {
		return nil, errors.New("World.Start is required: the fleet has no version whose creation could be the start")
	}
	if instant.Unset(w.End) {
		w.End = time.Time{}
	}
	if !w.End.IsZero() && w.End.Before(w.Start) {
		return nil, fmt.Errorf("World.End, %s, lies before its start, %s", w.End.UTC().Format(time.RFC3339), w.Start.Format(time.RFC3339))
	}
	r := &worldRun{World: w, clock: clock.NewFake(w.Start), requests: map[Goal]*requests{}, halts: map[execution]*haltedExecution{}, exhausted: map[exhausted]*haltedVersion{}, dispatched: map[string]rollout.Start{}}
	if r.mostApprovals = mostApprovals(w.Policies.Policies()); w.Plan != nil {
		r.mostApprovals = math.MaxInt // under policies of its own
	}
	if err := r.schedule(); err != nil {
		return nil, err
	}
	if n := len(r.arrivals); n > 0 {
		r.foreseen = r.arrivals[n-1].At
	}
	if r.Job == nil {
		r.Job = defaultJob
	}
	switch {
	case r.Plan != nil:
	case r.Pure:
		r.Plan = r.purePlan()
	default:
		r.Plan = r.plannerPlan()
	}
	r.recorder.begin(w.Start)
	r.indexTargets()
	return r, nil
}

// validate says what is wrong with a world whatever its Start and End are.
func (w *World) validate() error {
	switch {
	case w.Policies == nil:
		return errors.New("World.Policies is required: compile them with rollout.Compile")
	case len(w.Fleet.Active) > 0:
		return errors.New("World.Fleet.Active must be empty: let changes make the resources unavailable instead")
	case w.Every < 0:
		return fmt.Errorf("World.Every, %s, must not be negative: zero looks whenever anything happens", w.Every)
	case !w.Fleet.State.IsZero() && (!w.Pure || w.Plan != nil):
		return errors.New("World.Fleet.State needs Pure: a planner has its state in World.Store, and World.Plan has its own")
	}
	return nil
}

// start returns Start or, if it is not set, when the oldest version was created; zero if there is
// none.
func (w *World) start() time.Time {
	if !instant.Unset(w.Start) {
		return w.Start.UTC()
	}
	var oldest time.Time
	for _, v := range w.Fleet.Versions {
		if !instant.Unset(v.CreatedAt) && (oldest.IsZero() || v.CreatedAt.Before(oldest)) {
			oldest = v.CreatedAt
		}
	}
	return oldest.UTC()
}

// purePlan returns a function for World.Plan that keeps the state as a value.
func (w *World) purePlan() func(context.Context, rollout.Snapshot, time.Time) (rollout.Plan, error) {
	state := w.Fleet.State
	return func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		s.State = state
		plan, err := w.Policies.Plan(s, now)
		if err == nil {
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
		}
		return plan, err
	}
}

// plannerPlan returns a function for World.Plan that keeps the state in World.Store.
func (r *worldRun) plannerPlan() func(context.Context, rollout.Snapshot, time.Time) (rollout.Plan, error) {
	if r.Store == nil {
		r.Store = &bracket.MemoryStore{}
	}
	planner := &rollout.Planner{Policies: r.Policies, Store: r.Store, Clock: r.clock}
	return func(ctx context.Context, s rollout.Snapshot, _ time.Time) (rollout.Plan, error) {
		return planner.Plan(ctx, s)
	}
}

func (r *worldRun) indexTargets() { r.targets = places(r.fleet.Targets) }
