package rollouttest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// maxSteps bounds the number of plans, so that a planner that never comes to rest is an error and
// not a test that never ends.
const maxSteps = 1_000_000

// maxAttempts bounds the attempts at one task in a world without end, and at one instant. Each plan
// reads all of them, so a job that is repeated for ever takes hours long before there are maxSteps
// plans.
const maxAttempts = 1000

// maxReactions bounds the calls of World.React in a row that return changes while nothing else comes
// about, likewise.
const maxReactions = 1000

func (r *worldRun) run(ctx context.Context) error {
	for range maxSteps {
		if over, err := r.planOnce(ctx); over || err != nil {
			return err
		}
	}
	return fmt.Errorf("rollouttest: the world is not at rest after %d plans, at %s", maxSteps, exactText(r.clock.Now()))
}

// planOnce lets happen what is due, plans, and starts what the plan starts. If nothing starts, time
// goes by. over reports whether the world is at rest, or at its end.
func (r *worldRun) planOnce(ctx context.Context) (over bool, err error) {
	now := r.clock.Now()
	if err := ctx.Err(); err != nil {
		return false, fmt.Errorf("rollouttest: stopped at %s: %w", exactText(now), err)
	}
	if r.happen(now) {
		r.fresh = false
	}
	snapshot := r.fleet
	plan, err := r.Plan(ctx, snapshot, now)
	if err != nil {
		return false, fmt.Errorf("rollouttest: plan at %s: %w", exactText(now), err)
	}
	r.observe(&plan)
	if err := r.check(snapshot, plan); err != nil {
		return false, err
	}
	if err := r.requestApprovals(&plan); err != nil {
		return false, err
	}
	if err := r.operate(&plan); err != nil {
		return false, err
	}
	if r.next = plan.NextAfter(plan.Start); len(plan.Start) == 0 {
		return r.passTime(snapshot, plan, now)
	}
	if err := r.dispatch(&plan, now); err != nil {
		return false, err
	}
	r.fresh = !r.next.Equal(now.Add(1)) // otherwise the plan knows that others may start by now, as NextAfter says
	if at := r.nextLook(r.wake(r.next)); r.brief && r.fresh && len(r.ends) > 0 && (r.End.IsZero() || !at.After(r.End)) && !at.After(lastInstant()) {
		r.clock.Set(at.UTC()) // another plan at this instant would only say who waits
	}
	return false, nil
}

// passTime lets time go by after a plan that starts nothing.
func (r *worldRun) passTime(snapshot rollout.Snapshot, plan rollout.Plan, now time.Time) (over bool, err error) {
	r.countInFlight(&plan) // of what was at work before anything started, or is by a change
	r.recordWaits(&plan)
	r.sortEntries(r.entriesBefore)
	if err := r.react(snapshot, plan, r.entriesBefore); err != nil {
		return false, err
	}
	r.entriesBefore = len(r.timeline.Entries)
	wake := r.wake(plan.Next)
	if !r.Trust && !wake.Equal(now) { // else somebody answers at once
		if err := r.checkQuiet(snapshot, plan, wake); err != nil {
			return false, err
		}
	}
	if !wake.IsZero() && r.atRest(&plan) {
		wake = r.lapse(snapshot, &plan)
	}
	if wake.IsZero() {
		return true, nil
	}
	if wake = r.nextLook(wake); !r.End.IsZero() && wake.After(r.End) {
		r.happen(r.End) // what a host that polls would have seen at its next look
		r.timeline.CutOff = true
		return true, nil
	}
	if last := lastInstant(); wake.After(last) {
		r.happen(last) // nobody will ever look again
		return true, nil
	}
	r.fresh = false
	r.clock.Set(wake.UTC()) // whatever zone it was written in
	return false, nil
}

// react lets people do something about what the timeline has gained from an entry on.
func (r *worldRun) react(snapshot rollout.Snapshot, plan rollout.Plan, from int) error {
	if r.React == nil || from == len(r.timeline.Entries) {
		return nil
	}
	news := slices.Clone(r.timeline.Entries[from:])
	step := Step{Snapshot: snapshot, Plan: plan, Dispatched: r.dispatched}
	changes := r.React(step, news)
	for i, change := range changes {
		if err := change.validate(); err != nil {
			return fmt.Errorf("rollouttest: change %d of World.React at %s: %w", i, exactText(plan.Now), err)
		}
		if change.At.Before(plan.Now) {
			change.At = plan.Now
		}
		r.insertArrival(change)
	}
	return r.checkReactions(news, len(changes) > 0, plan.Now)
}

// checkReactions returns an error if World.React goes on returning changes although nothing comes
// of them.
func (r *worldRun) checkReactions(news []Entry, reacts bool, now time.Time) error {
	if !reacts || slices.ContainsFunc(news, func(e Entry) bool { return e.Kind != Arrival && e.Kind != Wait }) {
		r.reactions = nil
	}
	if !reacts {
		return nil
	}
	if r.reactions = append(r.reactions, now); len(r.reactions) <= maxReactions {
		return nil
	}
	first := r.reactions[0]
	r.reactions = r.reactions[1:]
	switch {
	case first.Equal(now):
		return fmt.Errorf("rollouttest: World.React returns changes for the %dth time at %s, and no job starts or ends: the clock stands still, so no World.End ever comes: let people take time", maxReactions+1, exactText(now))
	case first.After(r.foreseen) && r.End.IsZero():
		return fmt.Errorf("rollouttest: World.React returns changes for the %dth time since %s, no job starts or ends, and no end: the world may never come to rest: give it World.End", maxReactions+1, exactText(first))
	}
	return nil
}

// nextLook returns when the host looks first, if there is something to see from an instant on.
func (r *worldRun) nextLook(from time.Time) time.Time {
	if r.Every == 0 {
		return from
	}
	late := from.Sub(r.Start) % r.Every // since the look before; a world lasts less than 292 years
	return from.Add((r.Every - late) % r.Every)
}

// wake returns the earliest instant at which anything can happen, zero if nothing ever will.
func (r *worldRun) wake(next time.Time) time.Time {
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

// happen lets everything happen that is due, by time: of one instant, jobs and their checks end, then
// things arrive. It reports whether any ended: jobs may end at the instant of their start, while
// nothing arrives twice.
func (r *worldRun) happen(now time.Time) (ended bool) {
	changed := false // since the targets were indexed
	var at time.Time // when
	for {
		ends := len(r.ends) > 0 && !r.ends[0].at.After(now)
		arrives := len(r.arrivals) > 0 && !r.arrivals[0].At.After(now)
		if ends && arrives {
			ends = !r.arrivals[0].At.Before(r.ends[0].at)
			arrives = !ends
		}
		if changed && !(arrives && r.arrivals[0].At.Equal(at)) {
			r.indexTargets()
			r.endedBy(at)
			changed = false
		}
		switch {
		case ends:
			next := r.ends[0]
			r.ends = r.ends[1:]
			r.end(next)
			ended = true
		case arrives:
			change := r.arrivals[0]
			r.arrivals = r.arrivals[1:]
			change.Do(&r.fleet)
			changed, at = true, change.At
			if change.What != "" {
				r.entry(Entry{At: change.At.UTC(), Kind: Arrival, Note: change.What})
			}
		default:
			return ended
		}
	}
}

// endedBy notes which jobs, or checks of jobs, the changes of an instant have ended, and which are
// not reported any more, because their target has left or lists them no longer.
func (r *worldRun) endedBy(at time.Time) {
	if len(r.unfinished) == 0 {
		return
	}
	listed := map[string]bool{}
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		for k := range t.Jobs {
			job := &t.Jobs[k]
			key := keyOf(t.TargetID, job)
			if !r.unfinished[key] {
				continue
			}
			if listed[key] = true; unfinished(job) {
				continue
			}
			r.endedAt[key] = at
			if r.timeline.Finish = at.UTC(); at.Before(r.Start) {
				r.timeline.Finish = r.Start // as that of a job whose time was over before
			}
			r.removeUnfinished(key)
		}
	}
	for key := range r.unfinished {
		if !listed[key] {
			r.removeUnfinished(key)
		}
	}
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

func (r *worldRun) end(e ending) {
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
		return // a change has ended it
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
		r.insertEnding(e)
	}
}

// insertEnding puts an ending behind those of the same instant, unless no plan will ever see it.
func (r *worldRun) insertEnding(e ending) {
	r.ends = insertBehind(r.ends, e, func(e ending) time.Time { return e.at })
}

// insertBehind puts what happens at an instant into a list by time, behind all of the same instant,
// unless no plan will ever see it.
func insertBehind[T any](list []T, one T, at func(T) time.Time) []T {
	if at(one).After(lastInstant()) {
		return list
	}
	k, _ := slices.BinarySearchFunc(list, at(one), func(other T, instant time.Time) int { return cmp.Or(at(other).Compare(instant), -1) })
	return slices.Insert(list, k, one)
}

// lastInstant is the last one at which there can be a plan.
func lastInstant() time.Time { return time.Unix(0, math.MaxInt64) }

// dispatch creates the jobs of the plan, if they do not exist yet, and decides how they will end.
func (r *worldRun) dispatch(plan *rollout.Plan, now time.Time) error {
	for _, start := range plan.Start {
		if _, known := r.dispatched[start.Run]; known {
			continue // create-if-absent; a check has reported it already
		}
		i, known := r.targets[start.TargetID]
		if !known {
			return fmt.Errorf("rollouttest: plan at %s starts %s on a target that does not exist", exactText(now), start.Run)
		}
		t := &r.fleet.Targets[i]
		attempt, atOnce := 1, 1
		for k := range t.Jobs {
			if sameTask(r.startOf(t.TargetID, &t.Jobs[k]), start) {
				attempt++
				if t.Jobs[k].CreatedAt.Equal(now) {
					atOnce++
				}
			}
		}
		if atOnce > maxAttempts {
			return fmt.Errorf("rollouttest: %d attempts of %s %s on %s at %s: the clock stands still, so no World.End ever comes: let them take time", atOnce, start.Deployment, start.Version, start.Resource, exactText(now))
		}
		if attempt > maxAttempts && r.End.IsZero() {
			return fmt.Errorf("rollouttest: %d attempts of %s %s on %s, and no end: the world may never come to rest: give it World.End", attempt, start.Deployment, start.Version, start.Resource)
		}
		r.dispatched[start.Run] = start
		outcome, err := valid(r.Job(start, attempt), "World.Job", start, attempt)
		if err != nil {
			return err
		}
		job := rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: now}
		if outcome.Status.Terminal() {
			r.insertEnding(ending{at: now.Add(outcome.After), target: start.TargetID, run: start.Run, created: now, outcome: outcome})
		} else {
			job.Status = outcome.Status
		}
		t.Jobs = append(t.Jobs, job)
		r.started(plan, start, attempt, now)
		r.drainedBefore(plan, start)
	}
	r.countInFlight(plan)
	return nil
}
