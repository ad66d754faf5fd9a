package stagedtest

import (
	"context"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// World is a run, and everything that will happen to it. It is a plain value: [World.Run] does not
// modify it, so one world can be run any number of times. Every run of it gives the same timeline if
// its functions give the same answers.
type World struct {
	// StagedRun is what [staged.Compile] returned, or a stored run in the middle of its stages.
	// Required. Nothing starts while its state is Initialize: let a change set it to Run.
	StagedRun *staged.Run

	// Start is the instant of the first step, not before the last one of a run that has begun. Zero:
	// the instant of that. Required for a run that has not begun.
	Start time.Time

	// End is the instant after which the world stops. Zero: it goes on until the run is over, or
	// nothing can happen any more; so set it if React returns further changes without end. What would
	// happen after the year 2261, which is as far as a run reaches, never happens.
	End time.Time

	// Target returns how an attempt at a target ends, when the world carries out its start or its
	// removal; action.Token.Attempt counts the attempts from 1. Of what is starting or updating at
	// Start it is asked as well, and an end before Start comes at Start; what soaks then is ready
	// already. Nil: everything takes one minute, and then is ready. See [ReadyAfter].
	Target func(action staged.Action) Outcome

	// Approval returns the answer to a request that is made at an instant; false if nobody gives one,
	// unless a change does. Of what is requested at Start it is asked as well, with the instant at
	// which that was, and an answer before Start is given at Start. Nil: nobody answers. See
	// [ApproveAfter].
	Approval func(request staged.Action, at time.Time) (Answer, bool)

	// Changes are everything else that happens, in any order. Those before Start happen at Start, the
	// earliest first. A target that is suspended stays so unless a change resumes it.
	Changes []Change

	// React is called after every step, with the run as it was stored, before the actions are
	// carried out. Whoever watches the run sees it there, and what people do about what they see is
	// what it returns: further changes, such as a retry half an hour after a target has failed. What
	// they would have done before now they do now. What has failed before Start is in the run, and in
	// no result: say in Changes what people do about that. Nil: nobody watches. See [RetryAfter].
	React func(run *staged.Run, result staged.Result, now time.Time) []Change

	// Store is what the host does with a run that a step has changed: it stores the run, and returns
	// what it will read for the next step. Nil: the run itself. Give a function that writes JSON and
	// reads it back, to play a process that dies after every step, or to test a store. Every step then
	// takes the time of the whole fleet, so that of the world grows with the square of it.
	Store func(run *staged.Run) (*staged.Run, error)

	// Trust leaves out the checks of every step.
	Trust bool

	step func(*staged.Run, staged.Input, time.Time) (*staged.Run, staged.Result, error) // for tests; nil: staged.Step
}

// Change is something that happens at an instant: the run is stopped or resumed, a target is skipped,
// retried, suspended or resumed, a cluster joins, leaves, or is seen in another state.
type Change struct {
	At   time.Time
	What string // for the timeline, such as "the run is stopped"; empty: only its events are told

	// Do returns what happens to a run. It is called with the run as it is before the step in which
	// the change comes about. Changes that are due come about in one step, the earliest first and
	// those of one instant in the order of the list, those of World.Changes before what World.React
	// returns. What targets and people do then comes about in the same step, before them. But a
	// change that sets another state than those before it begins a further step at that instant, for
	// which it is asked again.
	Do func(run *staged.Run) staged.Input
}

// SetState returns the change that sets the state of a run.
func SetState(at time.Time, state staged.State) Change {
	return Change{At: at, What: "state " + string(state), Do: func(*staged.Run) staged.Input { return staged.Input{State: state} }}
}

// Give returns the change that gives commands.
func Give(at time.Time, commands ...staged.Command) Change {
	return Change{At: at, Do: func(*staged.Run) staged.Input { return staged.Input{Commands: commands} }}
}

// RetryAfter returns a function for World.React: a target that has failed or timed out is retried after
// that time, unless it has had so many attempts. It is retried in vain where its run or its stage has
// ended by then: let failures hold the run, see OnFailure of [staged.Options].
func RetryAfter(d time.Duration, attempts int) func(*staged.Run, staged.Result, time.Time) []Change {
	return func(run *staged.Run, result staged.Result, now time.Time) (changes []Change) {
		for _, e := range result.Events {
			if e.Kind != staged.EventTarget || e.To != staged.Failed.String() && e.To != staged.TimedOut.String() {
				continue
			}
			if t, ok := run.Target(e.Target); ok && t.Attempt < attempts {
				changes = append(changes, Give(now.Add(d), staged.Command{Kind: staged.CommandRetry, Target: t.Name, Attempt: t.Attempt}))
			}
		}
		return changes
	}
}

// Run runs the world. It steps, stores the run, carries out what the step asks for, and moves the
// clock to the next instant at which anything happens: [staged.Result].Next, the end of an attempt,
// an answer, or a change. It steps at no other time, so a step that forgets to name an instant makes
// the world stop short. It ends when the run is over, or when nothing can happen any more.
//
// Unless Trust is set, Run makes sure after every step that stepping again at once changes nothing,
// that nothing changes before the next instant, and that Store returns the run that it was given. If
// a check fails, the error holds a [*Violation]. Any other error is one of [staged.Step] or of Store,
// or names what is wrong with the world; one of them is a target that is attempted more than 1000
// times in a world without End. Once ctx is done, Run stops before the next step, with its error.
// With any error the timeline reaches as far as the world came, and its CutOff is set.
func (w World) Run(ctx context.Context) (Timeline, error) {
	return w.play(ctx, foundAs{})
}
