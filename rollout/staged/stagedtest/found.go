package stagedtest

import (
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// foundAs decides what becomes of attempts and requests that the world has found at its start, and
// that are older than that. The zero value leaves it to World.Target and World.Approval.
type foundAs struct {
	outcome func(action staged.Action, since time.Time) Outcome
	answer  func(request staged.Action, since time.Time) (Answer, bool)
}

// takeOver carries on with the attempts that are in progress at the start, as if the world had
// started them. The requests for approvals are among the actions of the first step: it notes when
// they were made. A target that soaks is ready already, and what settled targets do is a matter of
// changes.
func (r *running) takeOver() error {
	if r.run.Phase().Terminal() {
		return nil
	}
	current := r.run.Current() // no other stage has targets in progress, or a request
	stage := stageOf(r.run, current)
	r.requested = map[request]time.Time{{current, staged.Before}: stage.Before.Requested, {current, staged.After}: stage.After.Requested}
	kind := staged.Start
	if stage.Cleanup {
		kind = staged.Remove
	}
	for t := range r.run.Targets(current) {
		if t.State != staged.Starting && t.State != staged.Updating {
			continue
		}
		token := staged.Token{Run: r.run.Spec().ID, Stage: current, Target: t.Name, Attempt: t.Attempt, Kind: kind}
		action := staged.Action{Kind: kind, Stage: current, Token: token, Target: t.Name}
		if kind == staged.Start {
			action.Version = r.run.Version()
		}
		if err := r.carryOut(action, t.Start); err != nil {
			return err
		}
	}
	return nil
}

// stageOf returns a stage of a run.
func stageOf(run *staged.Run, index int) (stage staged.StageStatus) {
	for stage = range run.Stages() {
		if stage.Index == index {
			break
		}
	}
	return stage
}

// outcomeOf returns how an attempt ends that began at an instant.
func (r *running) outcomeOf(action staged.Action, since time.Time) (Outcome, error) {
	o := Outcome{}
	if r.found.outcome != nil && since.Before(r.Start) {
		o = r.found.outcome(action, since)
	} else {
		o = r.Target(action)
	}
	if err := o.validate(); err != nil {
		return o, fmt.Errorf("stagedtest: World.Target for attempt %d at target %s returns %w", action.Token.Attempt, textlist.Name(action.Target), err)
	}
	return o, nil
}

// answerOf returns how a request is answered that was made at an instant, and whether it is.
func (r *running) answerOf(request staged.Action, since time.Time) (answer Answer, given bool, err error) {
	switch {
	case r.found.answer != nil && since.Before(r.Start):
		answer, given = r.found.answer(request, since)
	case r.Approval != nil:
		answer, given = r.Approval(request, since)
	}
	if !given {
		return Answer{}, false, nil
	}
	if err := answer.validate(); err != nil {
		return Answer{}, false, fmt.Errorf("stagedtest: World.Approval for %s returns %w", request.Name, err)
	}
	return answer, true, nil
}
