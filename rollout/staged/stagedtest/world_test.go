package stagedtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
	"github.com/tranche-dev/tranche/selector"
)

var t0 = time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)

func nothing(*staged.Run) staged.Input { return staged.Input{} }

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }

func compile(tb testing.TB, strategy staged.Strategy, fleet staged.Fleet, options staged.Options) *staged.Run {
	tb.Helper()
	return compileIn(tb, staged.StateRun, strategy, fleet, options)
}

func compileIn(tb testing.TB, state staged.State, strategy staged.Strategy, fleet staged.Fleet, options staged.Options) *staged.Run {
	tb.Helper()
	spec := staged.Spec{Name: "v2", PlacementName: "web", StagedRolloutStrategyName: "s", ResourceSnapshotIndex: "2", State: state}
	run, err := staged.Compile(strategy, spec, fleet, options)
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

// stage returns a stage of the targets whose names it lists.
func stage(name string, limit int, targets ...string) staged.Stage {
	return staged.Stage{Name: name, MaxConcurrency: concurrency.Count(limit), Targets: targets}
}

// fleet returns targets.
func fleet(names ...string) (f staged.Fleet) {
	for _, name := range names {
		f.Targets = append(f.Targets, staged.Target{Name: name})
	}
	return f
}

// one is a stage with two targets at a time, of three.
func one(tb testing.TB, options staged.Options, change ...func(*staged.Stage)) *staged.Run {
	tb.Helper()
	own := stage("one", 2, "a", "b", "c")
	for _, do := range change {
		do(&own)
	}
	return compile(tb, staged.Strategy{Stages: []staged.Stage{own}}, fleet("a", "b", "c"), options)
}

// gated has a stage with an approval on each side and a wait, another one behind it, and a target
// that leaves.
func gated(tb testing.TB) *staged.Run {
	tb.Helper()
	first, second := stage("first", 1, "a", "b"), stage("second", 2, "c", "d")
	first.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	first.AfterStageTasks = []staged.Task{{Type: staged.Approval}, {Type: staged.TimedWait, WaitTime: staged.For(minutes(30))}}
	all := fleet("a", "b", "c", "d")
	all.Leaving = []string{"old"}
	return compile(tb, staged.Strategy{Stages: []staged.Stage{first, second}}, all, staged.Options{})
}

// failing lets the first n attempts at a target fail, after the time that all attempts take.
func failing(target string, n int, after time.Duration) func(staged.Action) stagedtest.Outcome {
	return func(action staged.Action) stagedtest.Outcome {
		if action.Target == target && action.Token.Attempt <= n {
			return stagedtest.Outcome{After: after, Health: staged.HealthFailed}
		}
		return stagedtest.Outcome{After: after}
	}
}

func play(t *testing.T, world stagedtest.World) stagedtest.Timeline {
	t.Helper()
	timeline, err := world.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return timeline
}

// TestTimelines: what worlds print.
func TestTimelines(t *testing.T) {
	t.Parallel()
	retry := func(after time.Duration) func(*staged.Run, staged.Result, time.Time) []stagedtest.Change {
		return func(run *staged.Run, result staged.Result, now time.Time) (changes []stagedtest.Change) {
			for _, e := range result.Events {
				if e.Kind == staged.EventTarget && e.To == staged.Failed.String() {
					own, _ := run.Target(e.Target)
					changes = append(changes, stagedtest.Give(now.Add(after), staged.Command{Kind: staged.CommandRetry, Target: own.Name, Attempt: own.Attempt, By: "ann", Reason: "a try more"}))
				}
			}
			return changes
		}
	}
	for _, row := range []struct {
		why   string
		world stagedtest.World
		want  string
	}{
		{"everything takes a minute, and nobody is asked", stagedtest.World{StagedRun: one(t, staged.Options{})}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  one: a, b done
			+1m  one: c started
			+2m  one: c done
			+2m  one: WaitingAfter
			+2m  one: Succeeded
			+2m  run: Succeeded
			one: Succeeded, 3 done, from +0s to +2m, at most 2 at once
			Succeeded after 2m`},
		{"gates, a wait and what leaves", stagedtest.World{StagedRun: gated(t), Approval: stagedtest.ApproveAfter(minutes(10))}, `
			+0s  first: WaitingBefore
			+0s  first: approval before requested
			+0s  run: Waiting
			+10m  first: approval before approved
			+10m  first: Updating
			+10m  first: a started
			+10m  run: Progressing
			+11m  first: a done
			+11m  first: b started
			+12m  first: b done
			+12m  first: WaitingAfter
			+12m  first: wait running
			+12m  first: approval after requested
			+12m  run: Waiting
			+22m  first: approval after approved
			+42m  first: wait elapsed
			+42m  first: Succeeded
			+42m  second: Updating
			+42m  second: c, d started
			+42m  run: Progressing
			+43m  second: c, d done
			+43m  second: WaitingAfter
			+43m  second: Succeeded
			+43m  kubernetes-fleet.io/deleteStage: Updating
			+43m  kubernetes-fleet.io/deleteStage: old being removed
			+44m  kubernetes-fleet.io/deleteStage: old gone
			+44m  kubernetes-fleet.io/deleteStage: WaitingAfter
			+44m  kubernetes-fleet.io/deleteStage: Succeeded
			+44m  run: Succeeded
			first: Succeeded, 2 done, from +10m to +42m, at most 1 at once
			second: Succeeded, 2 done, from +42m to +43m, at most 2 at once
			kubernetes-fleet.io/deleteStage: Succeeded, 1 done, from +43m to +44m, at most 1 at once
			Succeeded after 44m`},
		{"nobody approves", stagedtest.World{StagedRun: gated(t)}, `
			+0s  first: WaitingBefore
			+0s  first: approval before requested
			+0s  run: Waiting
			first: WaitingBefore, 2 waiting
			second: Pending, 2 waiting
			kubernetes-fleet.io/deleteStage: Pending, 1 waiting
			Waiting: nothing more will happen by itself: approval, waits for the approval v2-before-first`},
		{"nobody approves, whatever the answer would have been", stagedtest.World{StagedRun: gated(t), Approval: func(_ staged.Action, at time.Time) (stagedtest.Answer, bool) {
			return stagedtest.Answer{After: time.Time{}.Sub(at)}, false // what Calendar.AddOpen returns of an office that is never open
		}}, `
			+0s  first: WaitingBefore
			+0s  first: approval before requested
			+0s  run: Waiting
			first: WaitingBefore, 2 waiting
			second: Pending, 2 waiting
			kubernetes-fleet.io/deleteStage: Pending, 1 waiting
			Waiting: nothing more will happen by itself: approval, waits for the approval v2-before-first`},
		{"somebody says no, and why", stagedtest.World{StagedRun: gated(t), Approval: func(staged.Action, time.Time) (stagedtest.Answer, bool) {
			return stagedtest.Answer{After: time.Minute, Reject: true, By: "bob", Reason: "on\nholiday"}, true
		}}, `
			+0s  first: WaitingBefore
			+0s  first: approval before requested
			+0s  run: Waiting
			+1m  first: approval before rejected (by bob at 2026-03-10T08:01:00Z: on holiday)
			+1m  first: Failed
			+1m  run: Failed
			first: Failed, 2 waiting, until +1m
			second: Pending, 2 waiting
			kubernetes-fleet.io/deleteStage: Pending, 1 waiting
			Failed after 1m`},
		{"a failure that is retried half an hour later", stagedtest.World{StagedRun: one(t, staged.Options{OnFailure: staged.Hold}), Target: failing("a", 1, minutes(2)), React: retry(minutes(30))}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+2m  one: a failed (reported_failed)
			+2m  one: b done
			+2m  run: Held
			+32m  one: a retried (by ann at 2026-03-10T08:32:00Z: a try more)
			+32m  one: a, c started
			+32m  run: Progressing
			+34m  one: a, c done
			+34m  one: WaitingAfter
			+34m  one: Succeeded
			+34m  run: Succeeded
			one: Succeeded, 3 done, from +0s to +34m, at most 2 at once
			Succeeded after 34m`},
		{"who has had two attempts is not retried once more", stagedtest.World{StagedRun: one(t, staged.Options{OnFailure: staged.Hold}), Target: failing("a", 9, minutes(2)), React: stagedtest.RetryAfter(minutes(30), 2)}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+2m  one: a failed (reported_failed)
			+2m  one: b done
			+2m  run: Held
			+32m  one: a retried
			+32m  one: a, c started
			+32m  run: Progressing
			+34m  one: a failed (reported_failed)
			+34m  one: c done
			+34m  run: Held
			one: Updating, 2 done, 1 failed, from +0s, at most 2 at once
			Held: nothing more will happen by itself: held (budget), 1 of at most 0 failed: a, waits for an operator to skip, retry or cancel`},
		{"an attempt that hangs, until its deadline", stagedtest.World{StagedRun: one(t, staged.Options{}, func(s *staged.Stage) {
			s.ProgressDeadline, s.MaxFailures = staged.For(minutes(20)), concurrency.Count(1)
		}),
			Target: func(action staged.Action) stagedtest.Outcome {
				if action.Target == "b" {
					return stagedtest.Outcome{Health: staged.HealthProgressing}
				}
				return stagedtest.Outcome{After: minutes(8)}
			}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+5m  one: a, b stuck
			+8m  one: a done
			+8m  one: c started
			+13m  one: c stuck
			+16m  one: c done
			+20m  one: b timedOut
			+20m  one: WaitingAfter
			+20m  one: Succeeded
			+20m  run: PartiallySucceeded
			one: Succeeded, 2 done, 1 timed out, from +0s to +20m, at most 2 at once
			PartiallySucceeded after 20m`},
		{"one that hangs for good", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: func(action staged.Action) stagedtest.Outcome {
			return stagedtest.Outcome{Health: staged.HealthFailing, After: minutes(1)}
		}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+5m  one: a, b stuck
			one: Updating, 1 waiting, 2 updating, 2 stuck, from +0s, at most 2 at once
			Progressing: nothing more will happen by itself: slot, 2 of 2 in progress: a, b, waits for a target to be settled`},
		{"it is stopped and resumed; what was in progress goes on", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(minutes(4)),
			Changes: []stagedtest.Change{stagedtest.SetState(t0.Add(minutes(10)), staged.StateRun), stagedtest.SetState(t0.Add(minutes(2)), staged.StateStop)}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+2m  state Stop
			+2m  run: Stopping
			+4m  one: a, b done
			+4m  run: Stopped
			+10m  state Run
			+10m  one: c started
			+10m  run: Progressing
			+14m  one: c done
			+14m  one: WaitingAfter
			+14m  one: Succeeded
			+14m  run: Succeeded
			one: Succeeded, 3 done, from +0s to +14m, at most 2 at once
			Succeeded after 14m`},
		{"two states at one instant take two steps", stagedtest.World{StagedRun: compileIn(t, staged.StateInitialize, staged.Strategy{Stages: []staged.Stage{stage("one", 1, "a")}}, fleet("a"), staged.Options{}),
			Changes: []stagedtest.Change{stagedtest.SetState(t0.Add(time.Minute), staged.StateRun), stagedtest.SetState(t0.Add(time.Minute), staged.StateStop)}}, `
			+1m  state Run
			+1m  one: Updating
			+1m  one: a started
			+1m  run: Progressing
			+1m  state Stop
			+1m  run: Stopping
			+2m  one: a done
			+2m  run: Stopped
			one: Updating, 1 done, from +1m, at most 1 at once
			Stopped: nothing more will happen by itself: stopped, waits for an operator to set state Run`},
		{"what targets do comes before both: found by TestPolling, RAPID_SEED=251002", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(minutes(2)),
			Changes: []stagedtest.Change{stagedtest.SetState(t0.Add(minutes(1)), staged.StateStop), stagedtest.SetState(t0.Add(minutes(2)), staged.StateRun), stagedtest.SetState(t0.Add(minutes(2)), staged.StateStop)}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  state Stop
			+1m  run: Stopping
			+2m  state Run
			+2m  one: a, b done
			+2m  one: c started
			+2m  run: Progressing
			+2m  state Stop
			+2m  run: Stopping
			+4m  one: c done
			+4m  run: Stopped
			one: Updating, 3 done, from +0s, at most 2 at once
			Stopped: nothing more will happen by itself: stopped, waits for an operator to set state Run`},
		{"before its first step a run is initialized; what happens then does so in the first one", stagedtest.World{StagedRun: one(t, staged.Options{}), Changes: []stagedtest.Change{
			{At: t0.Add(-time.Hour), What: "a, b and c are at the version already", Do: func(run *staged.Run) (in staged.Input) {
				for _, name := range []string{"a", "b", "c"} {
					in.Observations = append(in.Observations, staged.Observation{Target: name, Version: run.Version(), Health: staged.HealthReady})
				}
				return in
			}}}}, `
			+0s  a, b and c are at the version already
			+0s  one: Updating
			+0s  one: a, b, c done
			+0s  one: WaitingAfter
			+0s  one: Succeeded
			+0s  run: Succeeded
			one: Succeeded, 3 done, from +0s to +0s
			Succeeded after 0s`},
		{"what is given in any order happens in that of its time, before the start as well", stagedtest.World{StagedRun: one(t, staged.Options{}), End: t0,
			Changes: []stagedtest.Change{stagedtest.SetState(t0.Add(-minutes(1)), staged.StateRun), stagedtest.SetState(t0.Add(-minutes(2)), staged.StateStop), {What: "long ago", Do: nothing}},
			React: func(run *staged.Run, _ staged.Result, now time.Time) []stagedtest.Change {
				if run.Phase() != staged.PhaseProgressing || run.Counts().Updating > 0 {
					return nil
				}
				return []stagedtest.Change{{At: now, What: "now", Do: nothing}, {At: now.Add(-1), What: "before", Do: nothing}}
			}}, `
			+0s  long ago
			+0s  state Stop
			+0s  run: Stopped
			+0s  state Run
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+0s  before
			+0s  now
			one: Updating, 1 waiting, 2 updating, from +0s, at most 2 at once
			Progressing: the world stopped before the run was over`},
		{"what is removed while it is in progress is not seen any more", stagedtest.World{StagedRun: one(t, staged.Options{}), Changes: []stagedtest.Change{
			{At: t0.Add(time.Minute), What: "a is gone", Do: func(*staged.Run) staged.Input { return staged.Input{Removed: []string{"a"}} }}}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  a is gone
			+1m  one: a removed
			+1m  one: b done
			+1m  one: c started
			+2m  one: c done
			+2m  one: WaitingAfter
			+2m  one: Succeeded
			+2m  run: Succeeded
			one: Succeeded, 2 done, 1 removed, from +0s to +2m, at most 2 at once
			Succeeded after 2m`},
		{"a target that loses its readiness while it soaks is updating again; a stage without targets is passed over", stagedtest.World{
			StagedRun: compile(t, staged.Strategy{Stages: []staged.Stage{{Name: "none"}, stage("one", 1, "a")}, MinSuccessTime: staged.For(minutes(10))}, fleet("a"), staged.Options{}), Changes: []stagedtest.Change{
				{At: t0.Add(minutes(4)), What: "a is\nrestarted", Do: func(*staged.Run) staged.Input {
					return staged.Input{Observations: []staged.Observation{{Target: "a", Health: staged.HealthProgressing}}}
				}},
				{At: t0.Add(minutes(6)), Do: func(*staged.Run) staged.Input {
					return staged.Input{Observations: []staged.Observation{{Target: "a", Health: staged.HealthReady}}}
				}}}}, `
			+0s  one: Updating
			+0s  one: a started
			+0s  run: Progressing
			+1m  one: a soaking
			+4m  a is restarted
			+4m  one: a updating
			+5m  one: a stuck
			+6m  one: a soaking
			+16m  one: a done
			+16m  one: WaitingAfter
			+16m  one: Succeeded
			+16m  run: Succeeded
			one: Succeeded, 1 done, from +0s to +16m, at most 1 at once
			Succeeded after 16m`},
		{"what takes no time is over at once", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(0)}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+0s  one: a, b done
			+0s  one: c started
			+0s  one: c done
			+0s  one: WaitingAfter
			+0s  one: Succeeded
			+0s  run: Succeeded
			one: Succeeded, 3 done, from +0s to +0s, at most 2 at once
			Succeeded after 0s`},
		{"what happens one after the other is not one line; what a change shows of a target comes after what the target does", stagedtest.World{StagedRun: one(t, staged.Options{VerifyDone: staged.Always, OnRegression: staged.Note}), Target: func(action staged.Action) stagedtest.Outcome {
			return stagedtest.Outcome{After: minutes(map[string]int{"a": 1, "b": 3, "c": 3}[action.Target])}
		}, Changes: []stagedtest.Change{{At: t0.Add(minutes(3)), What: "b fails just then", Do: func(*staged.Run) staged.Input {
			return staged.Input{Observations: []staged.Observation{{Target: "b", Health: staged.HealthFailed}}}
		}}}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  one: a done
			+1m  one: c started
			+3m  b fails just then
			+3m  one: b failed (reported_failed)
			+3m  run: Failing
			+4m  one: c done
			+4m  one: Failed
			+4m  run: Failed
			one: Failed, 2 done, 1 failed, from +0s to +4m, at most 2 at once
			Failed after 4m`},
		{"nor is what happens to two at different times", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: func(action staged.Action) stagedtest.Outcome {
			return stagedtest.Outcome{After: minutes(map[string]int{"a": 1, "b": 3, "c": 3}[action.Target])}
		}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  one: a done
			+1m  one: c started
			+3m  one: b done
			+4m  one: c done
			+4m  one: WaitingAfter
			+4m  one: Succeeded
			+4m  run: Succeeded
			one: Succeeded, 3 done, from +0s to +4m, at most 2 at once
			Succeeded after 4m`},
		{"what people answer comes before a change at the same instant", stagedtest.World{StagedRun: gated(t), End: t0.Add(minutes(10)), Approval: stagedtest.ApproveAfter(minutes(10)), Changes: []stagedtest.Change{
			stagedtest.Give(t0.Add(minutes(10)), staged.Command{Kind: staged.CommandReject, Run: "v2", Side: staged.Before})}}, `
			+0s  first: WaitingBefore
			+0s  first: approval before requested
			+0s  run: Waiting
			+10m  first: approval before approved
			+10m  first: command_ignored before reject (already)
			+10m  first: Updating
			+10m  first: a started
			+10m  run: Progressing
			first: Updating, 1 waiting, 1 updating, from +10m, at most 1 at once
			second: Pending, 2 waiting
			kubernetes-fleet.io/deleteStage: Pending, 1 waiting
			Progressing: the world stopped before the run was over`},
		{"a change without an instant is due at the start, in whichever step", stagedtest.World{StagedRun: one(t, staged.Options{}), Changes: []stagedtest.Change{
			stagedtest.SetState(time.Time{}, staged.StateStop), stagedtest.SetState(time.Time{}, staged.StateRun)}, End: t0}, `
			+0s  state Stop
			+0s  run: Stopped
			+0s  state Run
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			one: Updating, 1 waiting, 2 updating, from +0s, at most 2 at once
			Progressing: the world stopped before the run was over`},
		{"what is about a stage that there is not is ignored", stagedtest.World{StagedRun: one(t, staged.Options{}), Changes: []stagedtest.Change{
			stagedtest.Give(t0, staged.Command{Kind: staged.CommandApprove, Run: "v2", Stage: 2, Side: staged.Before}, staged.Command{Kind: staged.CommandEndWait, Run: "v2", Stage: -1})}, End: t0}, `
			+0s  stage 2: command_ignored before approve (unknown_stage)
			+0s  command_ignored endWait (unknown_stage)
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			one: Updating, 1 waiting, 2 updating, from +0s, at most 2 at once
			Progressing: the world stopped before the run was over`},
		{"what one person does to many at once is one line", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(minutes(4)), Changes: []stagedtest.Change{
			stagedtest.Give(t0.Add(minutes(1)), staged.Command{Kind: staged.CommandSkip, Target: "a", By: "ann", Reason: "in repair"}, staged.Command{Kind: staged.CommandSkip, Target: "b", By: "ann", Reason: "in repair"},
				staged.Command{Kind: staged.CommandSkip, Target: "c", By: "bob", Reason: "in repair"})}}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  one: a, b skipped (by ann at 2026-03-10T08:01:00Z: in repair)
			+1m  one: c skipped (by bob at 2026-03-10T08:01:00Z: in repair)
			+1m  one: WaitingAfter
			+1m  one: Succeeded
			+1m  run: PartiallySucceeded
			one: Succeeded, 3 skipped, from +0s to +1m, at most 2 at once
			PartiallySucceeded after 1m`},
		{"one is not to be started for now, and somebody resumes it twenty minutes after all that the run waits for", stagedtest.World{StagedRun: one(t, staged.Options{}), Changes: []stagedtest.Change{
			stagedtest.Give(t0, staged.Command{Kind: staged.CommandSuspend, Target: "b", By: "ann", Reason: "in repair"})},
			React: func(run *staged.Run, result staged.Result, now time.Time) (changes []stagedtest.Change) {
				if v, _ := run.Waits(); v.Reason == staged.ReasonSuspended && result.Changed {
					for _, name := range v.Data.Names {
						changes = append(changes, stagedtest.Give(now.Add(minutes(20)), staged.Command{Kind: staged.CommandResume, Target: name, By: "ann"}))
					}
				}
				return changes
			}}, `
			+0s  one: b suspended (by ann at 2026-03-10T08:00:00Z: in repair)
			+0s  one: Updating
			+0s  one: a, c started
			+0s  run: Progressing
			+1m  one: a, c done
			+1m  run: Waiting
			+21m  one: b resumed (by ann at 2026-03-10T08:21:00Z)
			+21m  one: b started
			+21m  run: Progressing
			+22m  one: b done
			+22m  one: WaitingAfter
			+22m  one: Succeeded
			+22m  run: Succeeded
			one: Succeeded, 3 done, from +0s to +22m, at most 2 at once
			Succeeded after 22m`},
		{"nobody resumes those that one person has suspended at once", stagedtest.World{StagedRun: one(t, staged.Options{}), Changes: []stagedtest.Change{
			stagedtest.Give(t0, staged.Command{Kind: staged.CommandSuspend, Target: "a", By: "ann"}, staged.Command{Kind: staged.CommandSuspend, Target: "b", By: "ann"})}}, `
			+0s  one: a, b suspended (by ann at 2026-03-10T08:00:00Z)
			+0s  one: Updating
			+0s  one: c started
			+0s  run: Progressing
			+1m  one: c done
			+1m  run: Waiting
			one: Updating, 2 waiting, 1 done, 2 suspended, from +0s, at most 1 at once
			Waiting: nothing more will happen by itself: suspended: a, b, waits for an operator to resume or skip`},
		{"the world ends before", stagedtest.World{StagedRun: one(t, staged.Options{}), End: t0.Add(90 * time.Second)}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  one: a, b done
			+1m  one: c started
			one: Updating, 1 updating, 2 done, from +0s, at most 2 at once
			Progressing: the world stopped before the run was over`},
		{"what happens at its end still happens", stagedtest.World{StagedRun: one(t, staged.Options{}), End: t0.Add(minutes(2))}, `
			+0s  one: Updating
			+0s  one: a, b started
			+0s  run: Progressing
			+1m  one: a, b done
			+1m  one: c started
			+2m  one: c done
			+2m  one: WaitingAfter
			+2m  one: Succeeded
			+2m  run: Succeeded
			one: Succeeded, 3 done, from +0s to +2m, at most 2 at once
			Succeeded after 2m`},
	} {
		row.world.Start = t0
		got := play(t, row.world).String()
		want := "from 2026-03-10 08:00:00 on\n"
		for line := range strings.Lines(strings.TrimSpace(row.want)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "+") {
				at, rest, _ := strings.Cut(line, "  ")
				line = fmt.Sprintf("%10s  %s", at, rest)
			}
			want += line + "\n"
		}
		if diff := cmp.Diff(strings.TrimSuffix(want, "\n"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
	}
}

// TestFaults: what is wrong with a world is said, with the field.
func TestFaults(t *testing.T) {
	t.Parallel()
	begun := play(t, stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, End: t0}).Run
	always := func(change stagedtest.Change) func(*staged.Run, staged.Result, time.Time) []stagedtest.Change {
		return func(_ *staged.Run, _ staged.Result, now time.Time) []stagedtest.Change {
			change.At = now
			return []stagedtest.Change{change}
		}
	}
	for _, row := range []struct {
		why, want string
		world     stagedtest.World
	}{
		{"no run", "World.StagedRun is required: staged: the run is empty", stagedtest.World{Start: t0}},
		{"an empty run", "World.StagedRun is required: staged: the run is empty", stagedtest.World{StagedRun: &staged.Run{}, Start: t0}},
		{"no instant to begin with", "World.Start is required: the run has not begun", stagedtest.World{StagedRun: one(t, staged.Options{})}},
		{"the instant of a database without one", "World.Start is required", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: time.Time{}.AddDate(-1, 0, 0)}},
		{"a run that is ahead", "World.Start, 2026-03-10T07:59:00Z, lies before the last step of the run, 2026-03-10T08:00:00Z", stagedtest.World{StagedRun: begun, Start: t0.Add(-time.Minute)}},
		{"an end before the start", "World.End, 2026-03-10T07:59:00Z, lies before its start, 2026-03-10T08:00:00Z", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, End: t0.Add(-time.Minute)}},
		{"a start that no run can have", "staged", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)}},
		{"a change of nothing", "World.Changes[1].Do is required", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Changes: []stagedtest.Change{{Do: nothing}, {}}}},
		{"a reaction of nothing", "World.React at 2026-03-10T08:00:00Z returns a change without Do", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, React: always(stagedtest.Change{})}},
		{"an end before the beginning", `World.Target for attempt 1 at target a returns after -1s: an attempt cannot end`, stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Target: stagedtest.ReadyAfter(-time.Second)}},
		{"of a target with a name that breaks lines", `World.Target for attempt 1 at target "a\nb" returns after -1s: an attempt cannot end`, stagedtest.World{StagedRun: compile(t, staged.Strategy{Stages: []staged.Stage{stage("one", 1, "a\nb")}}, fleet("a\nb"), staged.Options{}), Start: t0, Target: stagedtest.ReadyAfter(-time.Second)}},
		{"a health that there is not", `World.Target for attempt 1 at target a returns health "fine": use ready, failed, failing or progressing`, stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0,
			Target: func(staged.Action) stagedtest.Outcome { return stagedtest.Outcome{Health: "fine"} }}},
		{"an answer before the question", "World.Approval for v2-before-first returns after -1s: a request cannot", stagedtest.World{StagedRun: gated(t), Start: t0, Approval: stagedtest.ApproveAfter(-time.Second)}},
		{"somebody who never stops", "10000 steps at 2026-03-10T08:00:00Z: the clock stands still", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Trust: true, React: always(stagedtest.Change{Do: nothing})}},
		{"a state that cannot follow", "step at 2026-03-10T08:00:00Z: state", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Changes: []stagedtest.Change{stagedtest.SetState(t0, staged.StateInitialize)}}},
		{"a store that is down", "store at 2026-03-10T08:00:00Z: the disk is full", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Store: func(*staged.Run) (*staged.Run, error) { return nil, errors.New("the disk is full") }}},
		{"a store that returns nothing", "store at 2026-03-10T08:00:00Z: World.Store returns no run, or another one", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Store: func(*staged.Run) (*staged.Run, error) { return nil, nil }}},
		{"a store that returns another run with more stages, of the same name", "store at 2026-03-10T08:00:00Z: World.Store returns no run, or another one", stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Store: func(*staged.Run) (*staged.Run, error) { return gated(t), nil }}},
		{"and one with less", "store at 2026-03-10T08:00:00Z: World.Store returns no run, or another one", stagedtest.World{StagedRun: gated(t), Start: t0, Trust: true, Store: func(*staged.Run) (*staged.Run, error) { return one(t, staged.Options{}), nil }}},
		{"a target that is attempted for ever", "attempt 1001 at target a, and no end: the world may never come to rest: give it World.End", stagedtest.World{StagedRun: one(t, staged.Options{OnFailure: staged.Hold}), Start: t0, Trust: true,
			Target: failing("a", 1e6, time.Minute), React: func(run *staged.Run, _ staged.Result, now time.Time) (changes []stagedtest.Change) {
				if a, _ := run.Target("a"); a.State == staged.Failed {
					changes = append(changes, stagedtest.Give(now.Add(time.Minute), staged.Command{Kind: staged.CommandRetry, Target: "a", Attempt: a.Attempt}))
				}
				return changes
			}}},
	} {
		timeline, err := row.world.Run(context.Background())
		if err == nil || !strings.HasPrefix(err.Error(), "stagedtest: ") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.why, err, row.want)
		}
		if !timeline.CutOff || timeline.Done() {
			t.Errorf("%s: the timeline is %v", row.why, timeline)
		}
		if _, err := stagedtest.Forecast(context.Background(), row.world, stagedtest.Samples{}, 2, 1); err == nil {
			t.Errorf("%s: a forecast of it has no error", row.why)
		}
	}
	if _, err := (stagedtest.World{Start: t0}).Run(context.Background()); !errors.Is(err, staged.ErrNoRun) {
		t.Errorf("no run: %v", err)
	}
}

// TestCancelled: a world stops before the next step once nobody waits for it any more.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	world := stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, React: func(_ *staged.Run, _ staged.Result, now time.Time) []stagedtest.Change {
		if now.After(t0) {
			cancel()
		}
		return nil
	}}
	timeline, err := world.Run(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped at 2026-03-10T08:01:00Z") {
		t.Errorf("%v", err)
	}
	if c := timeline.Run.Counts(); !timeline.CutOff || c.Done != 2 || c.Starting != 1 {
		t.Errorf("%v", timeline)
	}
}

// TestPlain: a world is not modified, gives the same bytes twice, and its timeline survives JSON. A
// process that dies after every step makes no difference.
func TestPlain(t *testing.T) {
	t.Parallel()
	world := stagedtest.World{StagedRun: gated(t), Start: t0.In(time.FixedZone("", 3600)), Approval: stagedtest.ApproveAfter(time.Minute), Changes: []stagedtest.Change{stagedtest.SetState(t0.Add(minutes(5)), staged.StateStop), stagedtest.SetState(t0.Add(minutes(6)), staged.StateRun)}}
	changes := slices.Clone(world.Changes)
	first := play(t, world)
	stored := 0
	world.Store = func(run *staged.Run) (*staged.Run, error) {
		stored++
		data, err := json.Marshal(run)
		if err != nil {
			return nil, err
		}
		var again staged.Run
		return &again, json.Unmarshal(data, &again)
	}
	second := play(t, world)
	a, b := marshal(t, first), marshal(t, second)
	if a != b {
		t.Errorf("twice:\n%s", cmp.Diff(a, b))
	}
	if stored < 10 {
		t.Errorf("stored %d times", stored)
	}
	if len(changes) != len(world.Changes) || !changes[0].At.Equal(world.Changes[0].At) || world.StagedRun.Begun() != (time.Time{}) {
		t.Error("the world was modified")
	}
	var decoded stagedtest.Timeline
	if err := json.Unmarshal([]byte(a), &decoded); err != nil {
		t.Fatal(err)
	}
	if got := marshal(t, decoded); got != a {
		t.Errorf("decoded:\n%s", cmp.Diff(a, got))
	}
	if decoded.String() != first.String() {
		t.Errorf("decoded:\n%s", cmp.Diff(first.String(), decoded.String()))
	}
	if first.Start.Location() != time.UTC || !first.Done() {
		t.Errorf("%v", first)
	}
}

func marshal(t testing.TB, x any) string {
	t.Helper()
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestFound: of what is in progress at the start the world is asked as when it began, once.
func TestFound(t *testing.T) {
	t.Parallel()
	first := gated(t)
	cut := func(until time.Duration) *staged.Run {
		return play(t, stagedtest.World{StagedRun: first, Start: t0, End: t0.Add(until), Approval: stagedtest.ApproveAfter(0), Target: stagedtest.ReadyAfter(minutes(10))}).Run
	}
	for _, row := range []struct {
		why  string
		run  *staged.Run
		want []staged.Action
	}{
		{"a start", cut(minutes(5)), []staged.Action{{Kind: staged.Start, Stage: 0, Target: "a", Version: "2", Token: staged.Token{Run: first.Spec().ID, Stage: 0, Target: "a", Attempt: 1, Kind: staged.Start}}}},
		{"a removal", cut(minutes(65)), []staged.Action{{Kind: staged.Remove, Stage: 2, Target: "old", Token: staged.Token{Run: first.Spec().ID, Stage: 2, Target: "old", Attempt: 1, Kind: staged.Remove}}}},
	} {
		var asked []staged.Action
		world := stagedtest.World{StagedRun: row.run, End: row.run.Time(), Target: func(action staged.Action) stagedtest.Outcome {
			asked = append(asked, action)
			return stagedtest.Outcome{After: time.Hour}
		}}
		play(t, world)
		if diff := cmp.Diff(row.want, asked); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestFoundAsItWas: what is in progress at the start ends as counted from its own start, even if the
// host died before it carried out the start; what soaks is ready already, and nobody is asked about it.
func TestFoundAsItWas(t *testing.T) {
	t.Parallel()
	own := stage("one", 3, "a", "b", "c")
	own.MinSuccessTime = staged.For(minutes(20))
	run := compile(t, staged.Strategy{Stages: []staged.Stage{own}}, fleet("a", "b", "c"), staged.Options{OnFailure: staged.Hold})
	step := func(in staged.Input, after int) (result staged.Result) {
		t.Helper()
		var err error
		if run, result, err = staged.Step(run, in, t0.Add(minutes(after))); err != nil {
			t.Fatal(err)
		}
		return result
	}
	tokens := step(staged.Input{}, 0).Actions
	seen := func(k int, health staged.Health) staged.Observation {
		return staged.Observation{Target: tokens[k].Target, Version: "2", Health: health, Token: tokens[k].Token}
	}
	step(staged.Input{Observations: []staged.Observation{seen(0, staged.HealthFailed), seen(1, staged.HealthReady), seen(2, staged.HealthReady)}}, 1)
	step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "a", Attempt: 1}}}, 2)
	var asked []string
	world := stagedtest.World{StagedRun: run, Start: t0.Add(minutes(5)), Target: func(action staged.Action) stagedtest.Outcome {
		asked = append(asked, fmt.Sprint(action))
		return stagedtest.Outcome{After: minutes(8)}
	}}
	timeline := play(t, world)
	if diff := cmp.Diff([]string{"start a, attempt 2"}, asked); diff != "" {
		t.Error(diff)
	}
	if a, _ := timeline.Run.Target("a"); !a.End.Equal(t0.Add(minutes(2 + 8 + 20))) {
		t.Errorf("a: %v, ended at %v", a, a.End)
	}
	if peak := timeline.Stages[0].Peak; peak != 3 {
		t.Errorf("%d at once, of which two soak", peak)
	}
}

// TestAsked: an approval is asked for once, however often the request is repeated, and a run is stored
// only if it has changed.
func TestAsked(t *testing.T) {
	t.Parallel()
	var asked []string
	steps, stored := 0, 0
	world := stagedtest.World{StagedRun: gated(t), Start: t0,
		Approval: func(request staged.Action, at time.Time) (stagedtest.Answer, bool) {
			asked = append(asked, fmt.Sprint(request.Name, " ", at.Sub(t0)))
			return stagedtest.Answer{After: minutes(7)}, true
		},
		React: func(*staged.Run, staged.Result, time.Time) []stagedtest.Change { steps++; return nil },
		Store: func(run *staged.Run) (*staged.Run, error) { stored++; return run, nil },
	}
	for n := range 5 {
		world.Changes = append(world.Changes, stagedtest.Change{At: t0.Add(minutes(n)), Do: nothing})
	}
	play(t, world)
	if diff := cmp.Diff([]string{"v2-before-first 0s", "v2-after-first 9m0s"}, asked); diff != "" {
		t.Error(diff)
	}
	if stored >= steps || stored < 10 {
		t.Errorf("stored %d times in %d steps", stored, steps)
	}
}

// TestSteps: changes of one instant take one step, unless they set several states; a world may take
// any number of steps, if time goes by.
func TestSteps(t *testing.T) {
	t.Parallel()
	steps := 0
	world := stagedtest.World{StagedRun: compileIn(t, staged.StateInitialize, staged.Strategy{Stages: []staged.Stage{stage("one", 1, "a")}}, fleet("a"), staged.Options{}), Start: t0, Trust: true,
		React: func(*staged.Run, staged.Result, time.Time) []stagedtest.Change { steps++; return nil }}
	run, stop := stagedtest.SetState(t0.Add(1), staged.StateRun), stagedtest.SetState(t0.Add(1), staged.StateStop)
	for _, row := range []struct {
		why     string
		changes []stagedtest.Change
		want    int // the first one included, and one in which the start is acknowledged
	}{
		{"one", []stagedtest.Change{run}, 3},
		{"the same state three times, and something else", []stagedtest.Change{run, {At: run.At, Do: nothing}, run, run}, 3},
		{"three states: the start is acknowledged with the second", []stagedtest.Change{run, stop, run}, 4},
	} {
		steps, world.Changes, world.End = 0, row.changes, t0.Add(1)
		play(t, world)
		if steps != row.want {
			t.Errorf("%s: %d steps", row.why, steps)
		}
	}
	steps, world.Changes, world.End = 0, nil, time.Time{}
	for n := range 12_000 {
		world.Changes = append(world.Changes, stagedtest.Change{At: t0.Add(time.Duration(n)), Do: nothing})
	}
	play(t, world)
	if steps != len(world.Changes) {
		t.Errorf("%d steps", steps)
	}
}

// TestWithoutParts: a timeline that is decoded without some of its parts prints what it has.
func TestWithoutParts(t *testing.T) {
	t.Parallel()
	odd := []stagedtest.Entry{{}, {Event: staged.Event{Kind: staged.EventStage, Stage: -1, To: "Updating"}}, {Event: staged.Event{Kind: staged.EventStage, Stage: 1, To: "Updating"}}, {Event: staged.Event{Kind: staged.EventTarget, Stage: 9, Target: "a", To: "starting"}}}
	for _, timeline := range []stagedtest.Timeline{{}, {Entries: odd, Stages: []stagedtest.Span{{}}}, {Entries: odd, Run: &staged.Run{}}, {Run: &staged.Run{}, Ended: t0}, {Stages: []stagedtest.Span{{Counts: staged.Counts{Members: 1}}}, Run: one(t, staged.Options{})}} {
		if text := timeline.String(); !strings.HasPrefix(text, "from 0001-01-01 00:00:00 on\n") || timeline.Done() || len(timeline.Entries) > 0 && strings.Count(text, ": Updating")+strings.Count(text, " Updating") < 2 {
			t.Error(text)
		}
	}
}

// TestReactSees: whoever watches sees every step with the run as it was stored, before anything is
// carried out.
func TestReactSees(t *testing.T) {
	t.Parallel()
	var seen []staged.Event
	asked := 0
	world := stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Target: func(staged.Action) stagedtest.Outcome { asked++; return stagedtest.Outcome{After: time.Minute} }}
	world.React = func(run *staged.Run, result staged.Result, now time.Time) []stagedtest.Change {
		if len(seen) == 0 && (asked > 0 || run.Counts().Starting != 2 || !now.Equal(t0)) {
			t.Errorf("first at %v, after %d outcomes: %v", now, asked, run)
		}
		seen = append(seen, result.Events...)
		return nil
	}
	timeline := play(t, world)
	var told []staged.Event
	for _, e := range timeline.Entries {
		told = append(told, e.Event)
	}
	if diff := cmp.Diff(told, seen); diff != "" {
		t.Error(diff)
	}
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// TestTerminal: a run that is over stays so, and no time goes by.
func TestTerminal(t *testing.T) {
	t.Parallel()
	over := play(t, stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0})
	again := play(t, stagedtest.World{StagedRun: over.Run, Changes: []stagedtest.Change{stagedtest.SetState(t0.AddDate(1, 0, 0), staged.StateStop)}})
	if text := play(t, stagedtest.World{StagedRun: over.Run, Start: t0.Add(time.Hour)}).String(); text != "from 2026-03-10 09:00:00 on\none: Succeeded, 3 done, from -1h to -58m\nSucceeded 58m before the start" {
		t.Error(text)
	}
	if !again.Start.Equal(over.Ended) || !again.Ended.Equal(over.Ended) || len(again.Entries) > 0 || !again.Done() {
		t.Errorf("%v", again)
	}
}

// TestLastYear: what would happen after the year 2261 never happens.
func TestLastYear(t *testing.T) {
	t.Parallel()
	world := stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Target: stagedtest.ReadyAfter(1<<63 - 1)}
	timeline := play(t, world)
	if c := timeline.Run.Counts(); c.Updating != 2 || timeline.CutOff || !timeline.Ended.IsZero() {
		t.Errorf("%v", timeline)
	}
	for _, row := range []struct {
		at   time.Time
		want int
	}{{time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC), 1}, {time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), 0}} {
		if timeline := play(t, stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Target: world.Target, Changes: []stagedtest.Change{
			stagedtest.Give(row.at, staged.Command{Kind: staged.CommandSkip, Target: "c"})}}); timeline.Run.Counts().Skipped != row.want {
			t.Errorf("%v:\n%v", row.at, timeline)
		}
	}
	wait := one(t, staged.Options{}, func(s *staged.Stage) {
		s.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(290 * 365 * 24 * time.Hour)}}
	})
	if timeline := play(t, stagedtest.World{StagedRun: wait, Start: t0}); timeline.Run.Phase() != staged.PhaseWaiting || !timeline.Ended.IsZero() {
		t.Errorf("%v", timeline)
	}
}

// TestChecks: a step that breaks a promise is found, and with Trust it is not looked for.
func TestChecks(t *testing.T) {
	t.Parallel()
	type step = func(*staged.Run, staged.Input, time.Time) (*staged.Run, staged.Result, error)
	stepping := func(change func(run *staged.Run, in staged.Input, now time.Time, result *staged.Result)) step {
		return func(run *staged.Run, in staged.Input, now time.Time) (*staged.Run, staged.Result, error) {
			next, result, err := staged.Step(run, in, now)
			change(run, in, now, &result)
			return next, result, err
		}
	}
	quiet := func(in staged.Input) bool { return len(in.Observations)+len(in.Commands) == 0 && in.State == "" }
	calls := 0
	forgetful := func(run *staged.Run) (*staged.Run, error) { return one(t, staged.Options{}), nil }
	for _, row := range []struct {
		why, invariant, want string
		world                stagedtest.World
	}{
		{"a store that forgets", "I11", "World.Store returns another run", stagedtest.World{StagedRun: one(t, staged.Options{}), Store: forgetful}},
		{"what is not told in time", "I6", "Next is 2026-03-10T08:06:00Z, and a step at", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(time.Hour)}.Stepping(
			stepping(func(_ *staged.Run, _ staged.Input, _ time.Time, result *staged.Result) {
				if !result.Next.IsZero() {
					result.Next = result.Next.Add(time.Minute)
				}
			}))},
		{"what is told a moment too late", "I6", "Next is 2026-03-10T08:05:00.001Z, and a step at", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(time.Hour)}.Stepping(
			stepping(func(_ *staged.Run, _ staged.Input, _ time.Time, result *staged.Result) {
				if !result.Next.IsZero() {
					result.Next = result.Next.Add(time.Millisecond)
				}
			}))},
		{"an event without a cause", "I4", "stepping again at once changes the run", stagedtest.World{StagedRun: one(t, staged.Options{})}.Stepping(
			stepping(func(run *staged.Run, _ staged.Input, _ time.Time, result *staged.Result) {
				result.Events = append(result.Events, staged.Event{Kind: staged.EventRun, Stage: -1})
			}))},
		{"what is not told at all", "I6", "Next is never, and a step at 2261-12-31T00:00:00Z", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(time.Hour)}.Stepping(
			stepping(func(_ *staged.Run, _ staged.Input, _ time.Time, result *staged.Result) { result.Next = time.Time{} }))},
		{"what should have been before", "I6", "Next is 2026-03-10T08:00:00Z", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(time.Hour)}.Stepping(
			stepping(func(_ *staged.Run, _ staged.Input, now time.Time, result *staged.Result) { result.Next = now }))},
		{"a Next that moves", "I4", "stepping again at once moves Next", stagedtest.World{StagedRun: one(t, staged.Options{}), Target: stagedtest.ReadyAfter(time.Hour)}.Stepping(
			stepping(func(_ *staged.Run, _ staged.Input, now time.Time, result *staged.Result) {
				calls++
				result.Next = now.Add(time.Duration(calls) * time.Second)
			}))},
		{"an action that is asked for once", "I4", "stepping again at once asks for [] instead of [start a, attempt 1 start b, attempt 1]", stagedtest.World{StagedRun: one(t, staged.Options{})}.Stepping(
			stepping(func(run *staged.Run, in staged.Input, _ time.Time, result *staged.Result) {
				if quiet(in) && !run.Begun().IsZero() {
					result.Actions = nil
				}
			}))},
		{"a change without a cause", "I4", "stepping again at once changes the run", stagedtest.World{StagedRun: one(t, staged.Options{})}.Stepping(
			stepping(func(run *staged.Run, _ staged.Input, _ time.Time, result *staged.Result) { result.Changed = true }))},
		{"an error without a cause", "I4", "stepping again at once fails: no", stagedtest.World{StagedRun: one(t, staged.Options{})}.Stepping(
			func(run *staged.Run, in staged.Input, now time.Time) (*staged.Run, staged.Result, error) {
				if run.Begun().IsZero() {
					return staged.Step(run, in, now)
				}
				return run, staged.Result{}, errors.New("no")
			})},
	} {
		row.world.Start = t0
		_, err := row.world.Run(context.Background())
		var broken *stagedtest.Violation
		if !errors.As(err, &broken) || broken.Invariant != row.invariant || !strings.Contains(err.Error(), row.want) || !broken.At.Equal(t0) {
			t.Errorf("%s: %v", row.why, err)
		} else if !errors.Is(err, broken.Err) || !strings.HasPrefix(err.Error(), "stagedtest: invariant "+row.invariant+" is broken at 2026-03-10T08:00:00Z: ") {
			t.Errorf("%s: %v", row.why, err)
		}
		row.world.Trust, row.world.End = true, t0.Add(minutes(10))
		if _, err := row.world.Run(context.Background()); errors.As(err, &broken) {
			t.Errorf("%s: trusted: %v", row.why, err)
		}
	}
}

// TestManyStages: a world costs what happens in it, and not that times the number of its stages, of
// which a run that was made by FromOCM can have any number.
func TestManyStages(t *testing.T) {
	testkit.NeedCPUTime(t)
	const n = 4000
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("c%05d", i))
	}
	in := func(stages int) func() {
		var groups []staged.DecisionGroup
		for part := range slices.Chunk(names, n/stages) {
			groups = append(groups, staged.DecisionGroup{Index: int32(len(groups)), Clusters: part})
		}
		strategy, options, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressivePerGroup}, groups)
		if err != nil {
			t.Fatal(err)
		}
		world := stagedtest.World{StagedRun: compile(t, strategy, fleet(names...), options), Start: t0, Target: spread, Trust: true}
		return func() {
			if timeline := play(t, world); !timeline.Done() || len(timeline.Stages) != stages+1 {
				t.Fatal(timeline)
			}
		}
	}
	testkit.CompareCost(t, "hundreds of stages instead of one", 4, in(1), in(n/5))
}

// all is a stage that has every target.
func all(name string, limit concurrency.Limit) staged.Stage {
	return staged.Stage{Name: name, MaxConcurrency: limit, LabelSelector: &selector.LabelSelector{}}
}
