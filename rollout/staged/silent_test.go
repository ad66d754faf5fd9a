package staged_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestSilentDesigns: what the package comment decides where the designs say nothing.
func TestSilentDesigns(t *testing.T) {
	t.Run("a wait does not count from before its stage began", func(t *testing.T) {
		st := all("st", 1)
		st.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		s := newScene(t, waiting(time.Hour, st), staged.Options{}, []string{"c1"})
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}).want(staged.PhaseWaiting, "c1 skipped").after(30 * time.Minute)
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.Before}}}).want(staged.PhaseWaiting, "c1 skipped").left(time.Hour)
	})
	t.Run("a wait counts from when the last member was settled during a stop, whatever is done about another one then", func(t *testing.T) {
		st := all("st", 2)
		st.MaxFailures = concurrency.Count(1)
		s := newScene(t, waiting(time.Hour, st), staged.Options{}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1").step(staged.Input{State: staged.StateStop})
		s.after(10*time.Minute).see(staged.HealthReady, "c2").want(staged.PhaseStopped, "c1 failed (reported_failed), c2 done")
		s.after(10 * time.Minute).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}})
		stopped := *s
		s.after(10*time.Minute).step(staged.Input{State: staged.StateRun}).want(staged.PhaseWaiting, "c1 skipped, c2 done").left(40 * time.Minute)
		if stopped.after(50 * time.Minute).step(staged.Input{State: staged.StateRun}); stopped.run.Phase() != staged.PhasePartiallySucceeded {
			t.Errorf("the wait is over when the run goes on: %s", stopped.run)
		}
	})
	t.Run("a wait does not count while somebody who joined a settled stage is open", func(t *testing.T) {
		st := all("st", 1)
		s := newScene(t, waiting(time.Hour, st), staged.Options{OnFailure: staged.Hold, Added: staged.Append}, []string{"c1"}).see(staged.HealthFailed, "c1").want(staged.PhaseHeld, "c1 failed (reported_failed)")
		s.after(10 * time.Minute).step(staged.Input{Added: []staged.Target{{Name: "c2"}}}).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}})
		s.want(staged.PhaseProgressing, "c1 skipped, c2 starting").after(10*time.Minute).see(staged.HealthReady, "c2").left(time.Hour)
	})
	t.Run("a retry does not ask again for an approval that is asked for", func(t *testing.T) {
		st := all("st", 1)
		st.MaxFailures, st.AfterStageTasks = concurrency.Count(1), []staged.Task{{Type: staged.Approval}}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{st}}, staged.Options{}, []string{"c1"}).see(staged.HealthFailed, "c1")
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}}).see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done attempt 2")
		if slices.ContainsFunc(s.result.Events, func(e staged.Event) bool { return e.Kind == staged.EventApproval }) || len(s.result.Actions) != 1 {
			t.Errorf("%v %v", s.result.Events, s.result.Actions)
		}
	})
	t.Run("a retry during a stop takes the stage back, and starts nothing before the run goes on", func(t *testing.T) {
		st := all("st", 1)
		st.MaxFailures = concurrency.Count(1)
		s := newScene(t, waiting(time.Hour, st), staged.Options{}, []string{"c1"}).see(staged.HealthFailed, "c1").want(staged.PhaseWaiting, "c1 failed (reported_failed)").left(time.Hour)
		s.after(30 * time.Minute).step(staged.Input{State: staged.StateStop, Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}})
		for stage := range s.run.Stages() {
			if stage.Phase != staged.StageUpdating {
				t.Error(s.run)
			}
			break
		}
		s.want(staged.PhaseStopped, "c1 attempt 2").left(0)
		s.step(staged.Input{State: staged.StateRun}).want(staged.PhaseProgressing, "c1 starting attempt 2").see(staged.HealthReady, "c1").left(time.Hour)
	})
	t.Run("after a retry the wait starts again, and the approval that was given stays", func(t *testing.T) {
		st := all("st", 1)
		st.MaxFailures = concurrency.Count(1)
		strategy := waiting(time.Hour, st)
		strategy.Stages[0].AfterStageTasks = append(strategy.Stages[0].AfterStageTasks, staged.Task{Type: staged.Approval})
		approval := func(s *scene) staged.ApprovalState {
			for stage := range s.run.Stages() {
				return stage.After.State
			}
			return ""
		}
		s := newScene(t, strategy, staged.Options{}, []string{"c1"}).see(staged.HealthFailed, "c1")
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.After}}}).after(50 * time.Minute)
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}}).want(staged.PhaseProgressing, "c1 starting attempt 2")
		s.after(time.Minute).see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done attempt 2").left(time.Hour)
		if len(s.result.Actions) > 0 || approval(s) != staged.ApprovalApproved {
			t.Errorf("asked again: %v\n%s", s.result.Actions, s.run)
		}
		if s.after(time.Hour).step(staged.Input{}); s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
	t.Run("a wait that starts again after a retry is not longer for the stop before", func(t *testing.T) {
		st := all("st", 1)
		st.MaxFailures = concurrency.Count(1)
		s := newScene(t, waiting(time.Hour, st), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}).see(staged.HealthFailed, "c1").left(time.Hour)
		s.after(10 * time.Minute).step(staged.Input{State: staged.StateStop}).after(20 * time.Minute).step(staged.Input{State: staged.StateRun}).left(50 * time.Minute)
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}}).want(staged.PhaseProgressing, "c1 starting attempt 2")
		s.after(time.Minute).see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done attempt 2").left(time.Hour)
	})
	t.Run("when a skip releases a held run, the wait can be over", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 2)), staged.Options{OnFailure: staged.Hold}, []string{"c1", "c2"}).see(staged.HealthReady, "c1").see(staged.HealthFailed, "c2")
		s.want(staged.PhaseHeld, "c1 done, c2 failed (reported_failed)").after(time.Hour).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}})
		if s.run.Phase() != staged.PhasePartiallySucceeded {
			t.Error(s.run)
		}
	})
	t.Run("a stage that waits for its approval is not skipped when its members leave", func(t *testing.T) {
		st := all("st", 1)
		st.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		s := newScene(t, waiting(time.Hour, st), staged.Options{}, []string{"c1"})
		s.step(staged.Input{Removed: []string{"c1"}}).want(staged.PhaseWaiting, "c1 removed")
		if v, _ := s.run.Waits(); v.Reason != staged.ReasonApproval || len(s.result.Actions) != 1 {
			t.Errorf("%s\n%s", v, s.result)
		}
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.Before}}}).want(staged.PhaseWaiting, "c1 removed").left(time.Hour)
	})
	t.Run("a target that cannot be updated for now is left out and added later, in time for its stage or not", func(t *testing.T) { // Azure/AKS#5655
		strategy := staged.Strategy{Stages: []staged.Stage{{Name: "a", Targets: []string{"c1", "c2", "c3"}, MaxConcurrency: concurrency.Count(2)}, {Name: "b", Targets: []string{"c4"}}}}
		back := staged.Input{Added: []staged.Target{{Name: "c2"}}}
		s := newScene(t, strategy, staged.Options{Added: staged.Append}, []string{"c1", "c3", "c4"}).want(staged.PhaseProgressing, "c1 starting, c3 starting")
		late := *s
		s.see(staged.HealthReady, "c1").step(back).want(staged.PhaseProgressing, "c1 done, c3 starting, c2 starting")
		late.see(staged.HealthReady, "c1", "c3").step(back)
		if last := late.result.Events[len(late.result.Events)-1]; last.Kind != staged.EventMembershipIgnored || last.Reason != staged.ReasonTooLate {
			t.Error(late.result)
		}
		strategy.Stages = append(strategy.Stages, all("late", 1))
		s = newScene(t, strategy, staged.Options{Added: staged.Append, Overlap: staged.First}, []string{"c1", "c3", "c4"}).see(staged.HealthReady, "c1", "c3").step(back)
		if c2, _ := s.run.Target("c2"); c2.Stage != 2 || c2.State != staged.Waiting {
			t.Errorf("%+v\n%s", c2, s.run)
		}
	})
	t.Run("who is skipped before a stage begins takes its approvals and its wait along, but not the approval before the next stage", func(t *testing.T) {
		canary, prod := staged.Stage{Name: "canary", Targets: []string{"c1"}}, staged.Stage{Name: "prod", Targets: []string{"c2"}}
		canary.BeforeStageTasks, prod.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}, []staged.Task{{Type: staged.Approval}}
		canary.AfterStageTasks = []staged.Task{{Type: staged.Approval}, {Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}}
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{canary, prod}}, benchSpec(), staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c1"}, {Name: "c2"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, result, err := staged.Step(run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}, benchStart)
		if err != nil || run.Current() != 1 || len(result.Actions) != 1 || result.Actions[0].Name != "run-before-prod" {
			t.Errorf("%v %s\n%s", err, result, run)
		}
	})
	t.Run("an approval has no deadline, and the host that rejects one knows since when it is asked for", func(t *testing.T) { // fluxcd/flagger#1450, pipe-cd/pipecd#1371
		st := all("st", 1)
		st.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{st}}, staged.Options{OnReject: staged.Hold}, []string{"c1"}).left(0).after(72 * time.Hour)
		for stage := range s.run.Stages() {
			if asked := s.now.Sub(stage.Before.Requested); asked != 72*time.Hour {
				t.Errorf("asked for since %s", asked)
			}
			break
		}
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Side: staged.Before, Reason: "nobody has answered"}}}).want(staged.PhaseHeld, "c1").left(0)
	})
	t.Run("a rollback is another run, and who is still at the earlier version needs no start", func(t *testing.T) {
		strategy := staged.Strategy{Stages: []staged.Stage{all("st", 1)}}
		s := newScene(t, strategy, staged.Options{}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1").want(staged.PhaseFailed, "c1 failed (reported_failed), c2")
		run, err := staged.Compile(strategy, benchSpec(), staged.Fleet{Version: "v1", Targets: []staged.Target{{Name: "c1"}, {Name: "c2"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, result, err := staged.Step(run, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: s.run.Version(), Health: staged.HealthFailed}, {Target: "c2", Version: "v1", Health: staged.HealthReady}}}, s.now)
		if err != nil || len(result.Actions) != 1 || result.Actions[0].Target != "c1" || run.Counts().Done != 1 {
			t.Errorf("%v %s\n%s", err, result, run)
		}
	})
	t.Run("each time that a regression is found there is an event", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{OnRegression: staged.Note}, []string{"c1"}).see(staged.HealthReady, "c1")
		for range 2 {
			if s.see(staged.HealthFailing, "c1"); len(s.result.Events) != 1 || s.result.Events[0].Kind != staged.EventRegressed || s.result.Changed {
				t.Error(s.result)
			}
		}
	})
	t.Run("a target that was removed and comes back does not join again", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, staged.Options{Added: staged.Append}, []string{"c1", "c2"})
		s.step(staged.Input{Removed: []string{"c2"}}).step(staged.Input{Added: []staged.Target{{Name: "c2"}}}).want(staged.PhaseProgressing, "c1 starting, c2 removed")
	})
	t.Run("a regressed target that is gone for good blocks until it is skipped", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1")
		s.after(time.Hour).step(staged.Input{Removed: []string{"c1"}, Observations: []staged.Observation{{Target: "c1", Gone: true}}}).want(staged.PhaseWaiting, "c1 done regressed (unhealthy)")
		if s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}); s.run.Phase() != staged.PhasePartiallySucceeded {
			t.Error(s.run)
		}
	})
	t.Run("a change to a state that cannot follow is an error of the whole step", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, staged.Options{}, []string{"c1"})
		run, result, err := staged.Step(s.run, staged.Input{State: staged.StateInitialize, Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}, s.now)
		if !slices.Equal(rules(err), []staged.Code{staged.CodeTransition}) || run != s.run || len(result.Events)+len(result.Actions) > 0 {
			t.Errorf("%v %+v\n%s", err, result, run)
		}
	})
	t.Run("a deadline passes during a stop, and who times out then decides on resuming", func(t *testing.T) {
		st := all("st", 1)
		st.ProgressDeadline = staged.For(10 * time.Minute)
		strategy := staged.Strategy{Stages: []staged.Stage{st}}
		stopped := func(options staged.Options) *scene {
			s := newScene(t, strategy, options, []string{"c1", "c2"}).after(4*time.Minute).step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopping, "c1 starting, c2")
			s.after(time.Minute).step(staged.Input{}).want(staged.PhaseStopped, "c1 starting stuck, c2").left(5 * time.Minute)
			s.after(5*time.Minute-1).step(staged.Input{}).want(staged.PhaseStopped, "c1 starting stuck, c2").left(1)
			return s.after(1).step(staged.Input{}).want(staged.PhaseStopped, "c1 timedOut, c2").left(0)
		}
		told := stopped(staged.Options{})
		waits, _ := told.run.Waits()
		target, _ := told.run.Explain("c2")
		const want = "stopped (budget), 1 of at most 0 failed: c1, waits for an operator to skip, retry or cancel and an operator to set state Run"
		if waits.String() != want || target.String() != want {
			t.Errorf("nobody is told before resuming: %s; %s", waits, target)
		}
		stopped(staged.Options{}).step(staged.Input{State: staged.StateRun}).want(staged.PhaseFailed, "c1 timedOut, c2")
		stopped(staged.Options{OnFailure: staged.Hold}).step(staged.Input{State: staged.StateRun}).want(staged.PhaseHeld, "c1 timedOut, c2")
		retry := staged.Command{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}
		s := stopped(staged.Options{}).step(staged.Input{Commands: []staged.Command{retry}}).want(staged.PhaseStopped, "c1 attempt 2, c2")
		s.step(staged.Input{State: staged.StateRun}).want(staged.PhaseProgressing, "c1 starting attempt 2, c2").left(5 * time.Minute)
		stopped(staged.Options{}).step(staged.Input{State: staged.StateRun, Commands: []staged.Command{retry}}).want(staged.PhaseProgressing, "c1 starting attempt 2, c2")
		// Who becomes ready in time is done, stopped or not.
		newScene(t, strategy, staged.Options{}, []string{"c1", "c2"}).step(staged.Input{State: staged.StateStop}).after(9*time.Minute).see(staged.HealthReady, "c1").want(staged.PhaseStopped, "c1 done, c2")
	})
	t.Run("a deadline does not end a soak, and who loses readiness has it again", func(t *testing.T) {
		st := all("st", 1)
		st.ProgressDeadline, st.MinSuccessTime = staged.For(4*time.Minute), staged.For(10*time.Minute)
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{st}}, staged.Options{OnFailure: staged.Hold}, []string{"c1"}).see(staged.HealthReady, "c1").left(10 * time.Minute)
		s.after(3*time.Minute).see(staged.HealthFailing, "c1").want(staged.PhaseProgressing, "c1 updating").left(time.Minute).see(staged.HealthReady, "c1")
		s.after(2*time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "c1 soaking").left(8*time.Minute).see(staged.HealthFailing, "c1").want(staged.PhaseHeld, "c1 timedOut")
	})
}
