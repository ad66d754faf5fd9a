package stagedtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// TestSamplesOf: a run shows how its attempts ended, and how long people took; what is not known
// shows nothing.
func TestSamplesOf(t *testing.T) {
	t.Parallel()
	own := stage("own", 9, "ready", "fails", "hangs", "skipped", "taken", "left", "before", "retried")
	own.MinSuccessTime, own.ProgressDeadline, own.MaxFailures = staged.For(minutes(10)), staged.For(minutes(30)), concurrency.Count(9)
	own.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	other := stage("other", 2, "soaks", "runs")
	other.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	all := fleet("ready", "fails", "hangs", "skipped", "taken", "left", "before", "retried", "soaks", "runs", "unmatched")
	all.Leaving = []string{"old"}
	strategy := staged.Strategy{Stages: []staged.Stage{own, other}, MinSuccessTime: staged.For(minutes(3))}
	run := compile(t, strategy, all, staged.Options{OnReject: staged.Hold, Unmatched: staged.Last})
	see := func(after int, o staged.Observation) stagedtest.Change {
		return stagedtest.Change{At: t0.Add(minutes(after)), Do: func(*staged.Run) staged.Input { return staged.Input{Observations: []staged.Observation{o}} }}
	}
	world := stagedtest.World{StagedRun: run, Start: t0,
		Target: func(action staged.Action) stagedtest.Outcome {
			after := map[string]time.Duration{"ready": minutes(4), "fails": minutes(5), "retried": minutes(6), "soaks": minutes(7), "runs": minutes(8), "unmatched": minutes(9), "old": minutes(11)}[action.Target]
			switch {
			case after == 0:
				return stagedtest.Outcome{Health: staged.HealthProgressing}
			case action.Target == "fails" || action.Target == "retried" && action.Token.Attempt == 1:
				return stagedtest.Outcome{After: after, Health: staged.HealthFailed}
			}
			return stagedtest.Outcome{After: after}
		},
		Approval: func(request staged.Action, _ time.Time) (stagedtest.Answer, bool) {
			return stagedtest.Answer{After: minutes(2 + request.Stage), Reject: request.Side == staged.After}, true
		},
		Changes: []stagedtest.Change{
			see(0, staged.Observation{Target: "before", Version: "2", Health: staged.HealthReady}), see(3, staged.Observation{Target: "taken", Version: "3"}), see(3, staged.Observation{Target: "left", Gone: true}),
			stagedtest.Give(t0.Add(minutes(3)), staged.Command{Kind: staged.CommandSkip, Target: "skipped"}), stagedtest.Give(t0.Add(minutes(9)), staged.Command{Kind: staged.CommandRetry, Target: "retried", Attempt: 1}),
			stagedtest.Give(t0.Add(minutes(60)), staged.Command{Kind: staged.CommandApprove, Run: "v2", Stage: 1, Side: staged.After}),
		}}
	failed := func(after int) stagedtest.Outcome {
		return stagedtest.Outcome{After: minutes(after), Health: staged.HealthFailed}
	}
	shown := map[string][]stagedtest.Outcome{"own": append(ready(4), failed(5), stagedtest.Outcome{Health: staged.HealthProgressing}, stagedtest.Outcome{After: minutes(6)})}
	answers := map[string][]stagedtest.Answer{"own": {{After: minutes(2)}}}
	for _, row := range []struct {
		why string
		end int
		add func()
	}{
		{"the second stage is in progress: what soaks became ready, and what goes on is not known", 32 + 7, func() { shown["other"] = ready(7) }},
		{"it is asked for, and not answered", 32 + 8 + 3 + 1, func() { shown["other"] = ready(8, 7) }},
		{"it is rejected", 32 + 8 + 3 + 3, func() {
			shown["other"], answers["other"] = ready(8, 7), []stagedtest.Answer{{After: minutes(3), Reject: true}}
		}},
		{"it is approved after all, at 60, what matched no stage soaks as long as all, and what is removed does not", 100, func() {
			answers["other"] = []stagedtest.Answer{{After: minutes(60 - 32 - 8 - 3)}}
			shown["unmatched"], shown["kubernetes-fleet.io/deleteStage"] = ready(9), ready(11)
		}},
	} {
		row.add()
		world.End = t0.Add(minutes(row.end))
		timeline := play(t, world)
		if diff := cmp.Diff(stagedtest.Samples{Targets: shown, Approvals: answers}, stagedtest.SamplesOf(timeline.Run), cmpopts.SortSlices(func(a, b stagedtest.Outcome) bool { return fmt.Sprint(a) < fmt.Sprint(b) })); diff != "" {
			t.Errorf("%s:\n%s\n%v", row.why, diff, timeline)
		}
	}
	if got := stagedtest.SamplesOf(nil, new(staged.Run), run); len(got.Targets)+len(got.Approvals) > 0 {
		t.Errorf("what has not begun shows %v", got)
	}
}

// TestSamplesOfRegression: a run does not keep that what failed had been done before.
func TestSamplesOfRegression(t *testing.T) {
	t.Parallel()
	only := stage("only", 1, "a")
	only.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(minutes(60))}}
	world := stagedtest.World{StagedRun: compile(t, staged.Strategy{Stages: []staged.Stage{only}}, fleet("a"), staged.Options{OnRegression: staged.Fail, OnFailure: staged.Hold}), Start: t0,
		Target: stagedtest.ReadyAfter(minutes(5)),
		Changes: []stagedtest.Change{{At: t0.Add(minutes(20)), Do: func(*staged.Run) staged.Input {
			return staged.Input{Observations: []staged.Observation{{Target: "a", Version: "2", Health: staged.HealthFailed}}}
		}}}}
	want := map[string][]stagedtest.Outcome{"only": {{After: minutes(20), Health: staged.HealthFailed}}}
	if diff := cmp.Diff(want, stagedtest.SamplesOf(play(t, world).Run).Targets); diff != "" {
		t.Error(diff)
	}
}
