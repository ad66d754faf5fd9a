package stagedtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// maxAttempts bounds the attempts at one target in a world without end, and maxAtOnce the steps at
// one instant, so that a world that never comes to rest is an error and not a test that never ends.
const (
	maxAttempts = 1000
	maxAtOnce   = 10_000
)

// running is a world in motion.
type running struct {
	World
	found foundAs
	now   time.Time
	run   *staged.Run

	coming    agenda             // what targets and people do
	changing  agenda             // everything else
	numbered  int                // of what was put on an agenda
	attempts  map[string]attempt // by target: the last one that was carried out
	seen      []staged.Observation
	requested map[request]time.Time // of those that the world has found at its start, unless it is unknown
	asked     map[request]bool
	timeline  Timeline // so far
}

// attempt is one start or removal that the world has carried out.
type attempt struct {
	token   staged.Token
	outcome Outcome
}

// request is the place of a request for an approval: there is one at each.
type request struct {
	stage int
	side  staged.Side
}

func (w World) begin() (*running, error) {
	if w.StagedRun == nil || w.StagedRun.Phase() == "" {
		return nil, fmt.Errorf("World.StagedRun is required: %w", staged.ErrNoRun)
	}
	if instant.Unset(w.Start) {
		w.Start = w.StagedRun.Time()
	}
	if w.Start.IsZero() {
		return nil, errors.New("World.Start is required: the run has not begun")
	}
	w.Start = w.Start.UTC()
	if last := w.StagedRun.Time(); w.Start.Before(last) {
		return nil, fmt.Errorf("World.Start, %s, lies before the last step of the run, %s", shown(w.Start), shown(last))
	}
	if instant.Unset(w.End) {
		w.End = time.Time{}
	}
	if !w.End.IsZero() && w.End.Before(w.Start) {
		return nil, fmt.Errorf("World.End, %s, lies before its start, %s", shown(w.End), shown(w.Start))
	}
	if w.step == nil {
		w.step = staged.Step
	}
	if w.Target == nil {
		w.Target = ReadyAfter(time.Minute)
	}
	r := &running{World: w, now: w.Start, run: w.StagedRun, attempts: map[string]attempt{}, asked: map[request]bool{}}
	for k, change := range w.Changes {
		if change.Do == nil {
			return nil, fmt.Errorf("World.Changes[%d].Do is required: what happens", k)
		}
		r.await(change.At, happening{change: &w.Changes[k]})
	}
	return r, nil
}

func (w World) play(ctx context.Context, found foundAs) (Timeline, error) {
	r, err := w.begin()
	if err != nil {
		return Timeline{CutOff: true}, fmt.Errorf("stagedtest: %w", err)
	}
	r.found = found
	r.timeline = timelineFrom(r.Start, r.run)
	if err = r.takeOver(); err == nil {
		err = r.play(ctx)
	}
	r.timeline.CutOff = r.timeline.CutOff || err != nil
	r.timeline.finish(r.run)
	return r.timeline, err
}

func (r *running) play(ctx context.Context) error {
	atOnce := 0
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stagedtest: stopped at %s: %w", shown(r.now), err)
		}
		if atOnce++; atOnce > maxAtOnce {
			return fmt.Errorf("stagedtest: %d steps at %s: the clock stands still: let something take time", maxAtOnce, shown(r.now))
		}
		next, err := r.step()
		if err != nil {
			return err
		}
		if r.run.Phase().Terminal() {
			return nil
		}
		if len(r.seen) > 0 {
			continue // what was carried out is observed at once
		}
		if at, any := r.next(); any && (next.IsZero() || at.Before(next)) {
			next = at
		}
		if next.IsZero() || next.UTC().Year() > lastYear {
			return nil
		}
		if !r.End.IsZero() && next.After(r.End) {
			r.timeline.CutOff = true
			return nil
		}
		if next.After(r.now) {
			r.now, atOnce = next.UTC(), 0
		}
	}
}

// lastYear is the last one in which there can be a step.
const lastYear = 2261

// step takes one step with everything that is due, and carries out its actions. It returns when the
// next step is if nothing happens before.
func (r *running) step() (time.Time, error) {
	input := r.happen()
	next, result, err := r.World.step(r.run, input, r.now)
	if err != nil {
		return time.Time{}, fmt.Errorf("stagedtest: step at %s: %w", shown(r.now), err)
	}
	r.run = next
	if result.Changed && r.Store != nil {
		kept, err := r.Store(next)
		if err == nil && kept != next && (kept == nil || kept.Spec().ID != next.Spec().ID || !r.timeline.knows(kept)) {
			err = errors.New("World.Store returns no run, or another one than it was given")
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("stagedtest: store at %s: %w", shown(r.now), err)
		}
		r.run = kept
	}
	r.timeline.record(r.now, r.run, result.Events)
	if !r.Trust {
		if err := r.check(next, result); err != nil {
			return time.Time{}, err
		}
	}
	if r.React != nil {
		for _, change := range r.React(r.run, result, r.now) {
			if change.Do == nil {
				return time.Time{}, fmt.Errorf("stagedtest: World.React at %s returns a change without Do: what happens", shown(r.now))
			}
			r.await(change.At, happening{change: &change})
		}
	}
	for _, action := range result.Actions {
		if err := r.carryOut(action, r.now); err != nil {
			return time.Time{}, err
		}
	}
	return result.Next, nil
}

// carryOut carries out an action that asks for something new, and decides what comes of it. since is
// when the attempt or the request began.
func (r *running) carryOut(action staged.Action, since time.Time) error {
	if action.Kind == staged.RequestApproval {
		return r.ask(action)
	}
	own := r.attempts[action.Target]
	if own.token == action.Token {
		return nil
	}
	if n := action.Token.Attempt; n > maxAttempts && r.End.IsZero() {
		return fmt.Errorf("stagedtest: attempt %d at target %s, and no end: the world may never come to rest: give it World.End", n, textlist.Name(action.Target))
	}
	outcome, err := r.outcomeOf(action, since)
	if err != nil {
		return err
	}
	r.attempts[action.Target] = attempt{action.Token, outcome}
	if end := since.Add(outcome.After); !outcome.hangs() {
		if !end.After(r.now) {
			r.seen = append(r.seen, r.observed(action.Token, outcome))
			return nil
		}
		r.await(end, happening{ends: action.Token})
	}
	r.seen = append(r.seen, r.observed(action.Token, Outcome{Health: staged.HealthProgressing}))
	return nil
}

// observed is what is seen of an attempt once it has come to an outcome.
func (r *running) observed(token staged.Token, o Outcome) staged.Observation {
	health := cmp.Or(o.Health, staged.HealthReady)
	seen := staged.Observation{Target: token.Target, Version: r.run.Version(), Health: health, Token: token}
	if token.Kind == staged.Remove {
		seen.Version, seen.Gone = "", health == staged.HealthReady
	}
	return seen
}

// ask finds out how a request is answered, and when.
func (r *running) ask(action staged.Action) error {
	own := request{action.Stage, action.Side}
	if r.asked[own] {
		return nil
	}
	r.asked[own] = true
	since := r.now
	if at := r.requested[own]; !at.IsZero() {
		since = at
	}
	answer, given, err := r.answerOf(action, since)
	if err != nil || !given {
		return err
	}
	command := staged.Command{Kind: staged.CommandApprove, Run: action.Run, Stage: action.Stage, Side: action.Side, By: answer.By, Reason: answer.Reason}
	if answer.Reject {
		command.Kind = staged.CommandReject
	}
	r.await(since.Add(answer.After), happening{answer: command})
	return nil
}

// shown is an instant as errors show it.
func shown(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return at.UTC().Format(time.RFC3339Nano)
}
