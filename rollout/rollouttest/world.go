package rollouttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// World is a fleet, the policies over it, and everything that will happen to it. It is a plain
// value: [World.Run] does not modify it, so one world can be run any number of times. Every run
// gives the same timeline if its Store, if it has one, is in the same state.
type World struct {
	// Policies decide what may start. Required.
	Policies *rollout.PolicySet

	// Fleet is what exists, and what will. The planner does not know a version or an override
	// before its CreatedAt, an approval or a command before its At, and a target before its
	// JoinedAt. Nor does it know a resource whose targets have all still to join.
	//
	// A job that is in progress, pending or queued at Start ends as Job says, counted from its
	// CreatedAt, and a verification that is running ends as Job says, counted from the end of its
	// job. What should have ended before Start ends at Start. A job stays as it is, unless a change
	// ends it, if its status is any other that is not terminal: actionRequired keeps a job from
	// ending that is known to hang. So does a job that hangs according to Job, and a verification of
	// which Job tells no end.
	//
	// State is what was known at Start, to go on from the middle of a rollout as a recording has it:
	// it needs Pure, which a forecast sets by itself. Without it a plan knows what the jobs tell, see
	// "Lost state" in package rollout. Active must be empty.
	Fleet rollout.Snapshot

	// Start is the instant of the first plan. Zero: when the oldest version was created. Required
	// if the fleet has no version.
	Start time.Time

	// End is the instant after which the world stops. Zero: it goes on until nothing can happen any
	// more. Windows open and close for ever; they do not count if all targets that wait for them
	// also wait for an event that never comes, such as an approval or an operator's command.
	End time.Time

	// Changes are everything else that happens, in any order; those of one instant happen in the
	// order of the list.
	Changes []Change

	// Job returns the outcome of a job when it starts, and of those in progress at Start. It must be
	// a pure function, or runs of the world differ. Attempts count from 1, per target, version,
	// purpose and group, the jobs of the fleet included. Of a job that the world has not started,
	// start has the target, version and run id, and the purpose and group that the run id tells.
	// Nil: every job succeeds after one minute. See [Durations].
	Job func(start rollout.Start, attempt int) Outcome

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
// or is relabelled, or a version is withdrawn.
type Change struct {
	At   time.Time
	What string // for the timeline, such as "node-3 goes down"

	// Do changes the snapshot that it is given. It may set, append to and remove from its lists.
	// What the lists point to, such as maps, belongs to the world's Fleet: replace it instead of
	// writing to it. A job on a target that it removes never ends, and one that it ends stays as it
	// left it.
	Do func(*rollout.Snapshot)
}

// Outcome is how a job ends.
type Outcome struct {
	After  time.Duration     `json:"after"`            // from start to end, at least 0
	Status rollout.JobStatus `json:"status,omitempty"` // empty: successful. If it is not terminal, the job hangs with it for ever

	// Verification is what the checks after a successful job find out: passed or failed. Empty:
	// there are none. Running: they never end. A job that does not succeed is not verified, so with
	// another Status it must be empty.
	Verification rollout.Verification `json:"verification,omitempty"`

	// VerifiedAfter is the time from the end of the job to the end of its checks, at least 0; until
	// then its verification is running. If there are no checks, or they never end, it must be 0.
	VerifiedAfter time.Duration `json:"verifiedAfter,omitempty"`
}

// validate says what is wrong with what World.Job returned. The error completes a sentence about
// the attempt.
func (o Outcome) validate() error {
	switch ends := o.decides(); {
	case o.After < 0:
		return fmt.Errorf("end %v before it starts", -o.After)
	case o.VerifiedAfter < 0:
		return fmt.Errorf("be verified %v before it ends", -o.VerifiedAfter)
	case o.Verification != "" && o.Verification != rollout.VerificationRunning && !ends:
		return fmt.Errorf("have the verification %q: use %s, %s or %s", o.Verification, rollout.VerificationPassed, rollout.VerificationFailed, rollout.VerificationRunning)
	case o.Verification != "" && o.Status != "" && o.Status != rollout.JobSuccessful:
		return fmt.Errorf("be verified although it ends as %s: only what succeeded is verified", o.Status)
	case o.VerifiedAfter > 0 && !ends:
		return fmt.Errorf("be verified after %v without an outcome: set Verification to %s or %s", o.VerifiedAfter, rollout.VerificationPassed, rollout.VerificationFailed)
	}
	return nil
}

// decides reports whether there are checks that come to an end.
func (o Outcome) decides() bool {
	return o.Verification == rollout.VerificationPassed || o.Verification == rollout.VerificationFailed
}

// Durations returns a function for World.Job: every job succeeds after the time that is given for
// its deployment. Jobs of unlisted deployments take no time.
func Durations(perDeployment map[string]time.Duration) func(rollout.Start, int) Outcome {
	return func(start rollout.Start, _ int) Outcome { return Outcome{After: perDeployment[start.Deployment]} }
}

func defaultJob(rollout.Start, int) Outcome { return Outcome{After: time.Minute} }

// maxSteps bounds the number of plans, so that a planner that never comes to rest is an error and
// not a test that never ends.
const maxSteps = 1_000_000

// Run runs the world. It plans, dispatches what the plan starts, and moves the clock to the next
// instant at which anything happens: [rollout.Plan.Next], the end of a job or of its checks, or an
// arrival. It plans at no other time, so a plan that forgets to name an instant makes the world
// stop short.
//
// Unless Trust is set, Run checks every plan against [Invariants], and makes sure at every instant
// that planning again starts nothing and that nothing changes before the next wake-up. If a check
// fails, the error holds a [*Violation]. Any other error is one of the planner, or names what is
// wrong with the world. The timeline reaches as far as the world came.
func (w World) Run(ctx context.Context) (Timeline, error) {
	r, err := w.play(ctx, false, nil)
	return r.timeline, err
}

// play is Run, and returns the world as it is at the end. A brief timeline leaves out the waits,
// which take as long as a plan. found is how jobs end that are in progress at the start; nil: as
// World.Job says.
func (w World) play(ctx context.Context, brief bool, found foundJob) (*running, error) {
	r, err := w.begin()
	if err != nil {
		return &running{}, fmt.Errorf("rollouttest: %w", err)
	}
	if found == nil {
		found = func(start rollout.Start, attempt int, _ *rollout.Job, _ time.Time) Outcome {
			return r.Job(start, attempt)
		}
	}
	if err := r.takeOver(found); err != nil {
		return r, err
	}
	r.brief = brief
	err = r.run(ctx)
	r.finish(r.found())
	return r, err
}

// running is a world in motion.
type running struct {
	World
	clock    *clock.Fake
	fleet    rollout.Snapshot // what exists by now
	arrivals []Change         // what does not exist yet, by time
	ends     []ending         // of jobs and of their checks, by time

	targets    map[rollout.TargetID]int // in fleet.Targets
	dispatched map[string]rollout.Start
	recorder
}

// ending is the end of a job, with what follows it, or of the checks of a job that has ended.
type ending struct {
	at       time.Time
	target   rollout.TargetID
	run      string
	created  time.Time // tells jobs apart that have no run id
	outcome  Outcome
	verified bool // the checks end
}

func (w World) begin() (*running, error) {
	if w.Policies == nil {
		return nil, errors.New("World.Policies is required: compile them with rollout.Compile")
	}
	if len(w.Fleet.Active) > 0 {
		return nil, errors.New("World.Fleet.Active must be empty: let changes make the resources unavailable instead")
	}
	if known(w.Fleet.State) && (!w.Pure || w.Plan != nil) {
		return nil, errors.New("World.Fleet.State needs Pure: a planner has its state in World.Store, and World.Plan has its own")
	}
	if w.Start.IsZero() {
		for _, v := range w.Fleet.Versions {
			if !v.CreatedAt.IsZero() && (w.Start.IsZero() || v.CreatedAt.Before(w.Start)) {
				w.Start = v.CreatedAt
			}
		}
	}
	if w.Start.IsZero() {
		return nil, errors.New("World.Start is required: the fleet has no version whose creation could be the start")
	}
	w.Start = w.Start.UTC()
	if !w.End.IsZero() && w.End.Before(w.Start) {
		return nil, fmt.Errorf("World.End, %s, lies before its start, %s", w.End.UTC().Format(time.RFC3339), w.Start.Format(time.RFC3339))
	}
	r := &running{World: w, clock: clock.NewFake(w.Start), dispatched: map[string]rollout.Start{}}
	if err := r.schedule(); err != nil {
		return nil, err
	}
	if r.Job == nil {
		r.Job = defaultJob
	}
	switch {
	case r.Plan != nil:
	case r.Pure:
		state := w.Fleet.State
		r.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
			s.State = state
			plan, err := r.Policies.Plan(s, now)
			if err == nil {
				plan.State, err = plan.Commit(plan.Start, now)
				state = plan.State
			}
			return plan, err
		}
	default:
		if r.Store == nil {
			r.Store = &bracket.MemoryStore{}
		}
		planner := &rollout.Planner{Policies: r.Policies, Store: r.Store, Clock: r.clock}
		r.Plan = func(ctx context.Context, s rollout.Snapshot, _ time.Time) (rollout.Plan, error) {
			return planner.Plan(ctx, s)
		}
	}
	r.recorder.begin(w.Start)
	r.index()
	return r, nil
}

// known reports whether a state holds anything.
func known(s rollout.State) bool {
	return len(s.Brackets)+len(s.Executions)+len(s.Rollouts)+len(s.Pools) > 0
}

// schedule divides the fleet into what exists at the start and what arrives later.
func (r *running) schedule() error {
	f, s := &r.fleet, r.Fleet
	r.fleet = s
	f.Environments, f.Deployments = slices.Clone(s.Environments), slices.Clone(s.Deployments)
	f.Unavailable, f.DeletedResources = slices.Clone(s.Unavailable), slices.Clone(s.DeletedResources)
	f.Resources, f.Versions, f.Targets, f.Approvals, f.Overrides, f.Commands = nil, nil, nil, nil, nil, nil
	later := func(at time.Time) bool { return at.After(r.Start) }
	arrive := func(at time.Time, do func(*rollout.Snapshot), what string, args ...any) {
		r.arrivals = append(r.arrivals, Change{At: at, What: fmt.Sprintf(what, args...), Do: do})
	}
	for _, v := range s.Versions {
		if !later(v.CreatedAt) {
			f.Versions = append(f.Versions, v)
			continue
		}
		arrive(v.CreatedAt, func(s *rollout.Snapshot) { s.Versions = append(s.Versions, v) }, "%s %s published", v.Deployment, v.ID)
	}
	for _, a := range s.Approvals {
		if !later(a.At) {
			f.Approvals = append(f.Approvals, a)
			continue
		}
		arrive(a.At, func(s *rollout.Snapshot) { s.Approvals = append(s.Approvals, a) }, "%s %s %s in %s by %s", a.Deployment, a.Version, a.Status, a.Environment, a.By)
	}
	for _, o := range s.Overrides {
		if !later(o.CreatedAt) {
			f.Overrides = append(f.Overrides, o)
			continue
		}
		arrive(o.CreatedAt, func(s *rollout.Snapshot) { s.Overrides = append(s.Overrides, o) }, "%s", overrideText(o))
	}
	for _, c := range s.Commands {
		if !later(c.At) {
			f.Commands = append(f.Commands, c)
			continue
		}
		arrive(c.At, func(s *rollout.Snapshot) { s.Commands = append(s.Commands, c) }, "%s", strings.TrimSpace(fmt.Sprintf("command %s: %s on %s %s", c.ID, c.Kind, c.Resource, c.Deployment)))
	}
	joins := map[string]time.Time{} // when the first target of a resource joins; zero: from the start
	for _, t := range s.Targets {
		t.Jobs = slices.Clone(t.Jobs)
		at, known := joins[t.Resource]
		if !later(t.JoinedAt) {
			f.Targets = append(f.Targets, t)
			joins[t.Resource] = time.Time{}
		} else if !known || !at.IsZero() && t.JoinedAt.Before(at) {
			joins[t.Resource] = t.JoinedAt
		}
	}
	for _, resource := range s.Resources {
		if at := joins[resource.ID]; at.IsZero() {
			f.Resources = append(f.Resources, resource)
		} else {
			arrive(at, func(s *rollout.Snapshot) { s.Resources = append(s.Resources, resource) }, "%s joined", resource.ID)
		}
	}
	for _, t := range s.Targets {
		if later(t.JoinedAt) {
			t.Jobs = slices.Clone(t.Jobs)
			arrive(t.JoinedAt, func(s *rollout.Snapshot) { s.Targets = append(s.Targets, t) }, "")
		}
	}
	for i, c := range r.Changes {
		if c.At.IsZero() || c.Do == nil {
			return fmt.Errorf("World.Changes[%d]: At and Do must be set", i)
		}
		r.arrivals = append(r.arrivals, c)
	}
	slices.SortStableFunc(r.arrivals, func(a, b Change) int { return a.At.Compare(b.At) })
	return nil
}

// overrideText describes an override as an audit reads it: what, where, for how long, who and why.
func overrideText(o rollout.Override) string {
	text := fmt.Sprintf("override %s: %s past %s", o.ID, o.Version, o.Rule)
	if o.Environment != "" {
		text += " in " + o.Environment
	}
	if o.Resource != "" {
		text += " on " + o.Resource
	}
	if !o.ExpiresAt.IsZero() {
		text += " until " + o.ExpiresAt.UTC().Format("2006-01-02 15:04:05")
	}
	return fmt.Sprintf("%s, by %s: %s", text, o.CreatedBy, o.Reason)
}

func (r *running) index() { r.targets = places(r.fleet.Targets) }

func (r *running) run(ctx context.Context) error {
	fresh := false // the last plan started something, and nothing has happened since
	for range maxSteps {
		now := r.clock.Now()
		if r.happen(now) {
			fresh = false
		}
		snapshot := r.fleet
		plan, err := r.Plan(ctx, snapshot, now)
		if err != nil {
			return fmt.Errorf("rollouttest: plan at %s: %w", now.Format(time.RFC3339Nano), err)
		}
		r.observe(&plan)
		if err := r.check(snapshot, plan, fresh); err != nil {
			return err
		}
		r.fleet.State = rollout.State{} // what was saved and not dispatched before Start has been offered again
		if len(plan.Start) > 0 {
			if err := r.dispatch(&plan, now); err != nil {
				return err
			}
			// Once a start is let past a full pool, its resource is down, and others may start
			// there: not before, since that start might be left out.
			fresh = !slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Reason == rollout.ReasonOverridden })
			continue
		}
		r.inFlight(&plan) // of what was at work before anything started, or is by a change
		r.settled(&plan)
		wake := r.wake(plan.Next)
		if !r.Trust {
			if err := r.quiet(snapshot, plan, wake); err != nil {
				return err
			}
		}
		if !wake.IsZero() && r.atRest(&plan) {
			wake = r.lapse(snapshot, &plan)
		}
		if wake.IsZero() {
			return nil
		}
		if !r.End.IsZero() && wake.After(r.End) {
			r.timeline.CutOff = true
			return nil
		}
		fresh = false
		r.clock.Set(wake.UTC()) // whatever zone it was written in
	}
	return fmt.Errorf("rollouttest: the world is not at rest after %d plans, at %s", maxSteps, r.clock.Now().Format(time.RFC3339Nano))
}

// wake returns the earliest instant at which anything can happen, zero if nothing ever will.
func (r *running) wake(next time.Time) time.Time {
	earlier := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if len(r.arrivals) > 0 {
		earlier(r.arrivals[0].At)
	}
	if len(r.ends) > 0 {
		earlier(r.ends[0].at)
	}
	return next
}

// happen lets everything happen that is due: jobs and their checks end, then things arrive.
func (r *running) happen(now time.Time) bool {
	any := false
	for len(r.ends) > 0 && !r.ends[0].at.After(now) {
		any = true
		next := r.ends[0]
		r.ends = r.ends[1:]
		r.end(next)
	}
	changed := false
	for len(r.arrivals) > 0 && !r.arrivals[0].At.After(now) {
		change := r.arrivals[0]
		r.arrivals = r.arrivals[1:]
		change.Do(&r.fleet)
		changed = true
		if change.What != "" {
			r.entry(Entry{At: change.At.UTC(), Kind: Arrival, Note: change.What})
		}
	}
	if changed {
		r.index()
	}
	return any || changed
}

func (r *running) end(e ending) {
	i, known := r.targets[e.target]
	if !known {
		return // the target left, and its job is not reported any more
	}
	t := &r.fleet.Targets[i]
	k := slices.IndexFunc(t.Jobs, func(job rollout.Job) bool {
		return job.Run == e.run && (e.run != "" || job.CreatedAt.Equal(e.created))
	})
	if k < 0 {
		return // the target left and came back as another one
	}
	job := &t.Jobs[k]
	if e.verified && !verifies(job) || !e.verified && job.Status.Terminal() {
		r.leave(*job) // a change has ended it
		return
	}
	if e.verified {
		job.Verification = e.outcome.Verification
		r.verified(*job, e)
		return
	}
	job.Status, job.CompletedAt = e.outcome.Status, e.at
	if job.Status == rollout.JobSuccessful && t.Current != "" {
		t.Current = job.Version
	}
	if e.outcome.Verification != "" {
		job.Verification = rollout.VerificationRunning
	}
	r.ended(*job, e)
	if e.outcome.decides() {
		e.at, e.verified = e.at.Add(e.outcome.VerifiedAfter), true
		r.await(e)
	}
}

// await puts an ending behind those of the same instant.
func (r *running) await(e ending) {
	k, _ := slices.BinarySearchFunc(r.ends, e.at, func(e ending, at time.Time) int { return cmp.Or(e.at.Compare(at), -1) })
	r.ends = slices.Insert(r.ends, k, e)
}

// dispatch creates the jobs of the plan, if they do not exist yet, and decides how they will end.
func (r *running) dispatch(plan *rollout.Plan, now time.Time) error {
	for _, start := range plan.Start {
		if _, known := r.dispatched[start.Run]; known {
			continue // create-if-absent; a check has reported it already
		}
		i, known := r.targets[start.TargetID]
		if !known {
			return fmt.Errorf("rollouttest: plan at %s starts %s on a target that does not exist", now.Format(time.RFC3339Nano), start.Run)
		}
		t := &r.fleet.Targets[i]
		attempt := 1
		for k := range t.Jobs {
			if sameTask(r.startOf(t.TargetID, &t.Jobs[k]), start) {
				attempt++
			}
		}
		r.dispatched[start.Run] = start
		outcome, err := valid(r.Job(start, attempt), start, attempt)
		if err != nil {
			return err
		}
		job := rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: now}
		if outcome.Status.Terminal() {
			r.await(ending{at: now.Add(outcome.After), target: start.TargetID, run: start.Run, created: now, outcome: outcome})
		} else {
			job.Status = outcome.Status
		}
		t.Jobs = append(t.Jobs, job)
		r.started(plan, start, attempt, now)
	}
	r.inFlight(plan)
	return nil
}

// found lists the fleet's own jobs, by run or else by target, that have not ended or are still
// being verified, the oldest first.
func (r *running) found() []string {
	type job struct {
		name string
		at   time.Time
	}
	var jobs []job
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		for _, own := range t.Jobs {
			_, ours := r.dispatched[own.Run]
			if !ours && (!own.Status.Terminal() || own.Verification == rollout.VerificationRunning) {
				jobs = append(jobs, job{nameOf(t.TargetID, &own), own.CreatedAt})
			}
		}
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) })
	var names []string
	for _, own := range jobs {
		names = append(names, own.name)
	}
	return names
}
