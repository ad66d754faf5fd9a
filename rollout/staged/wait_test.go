package staged_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// endWait is somebody's decision that the wait after the first stage has been long enough.
func endWait(by string) staged.Input {
	c := staged.Command{Kind: staged.CommandEndWait, Run: "run", By: by}
	if by != "" {
		c.Reason = "urgent"
	}
	return staged.Input{Commands: []staged.Command{c}}
}

// ignored returns why the commands of the last step had no effect.
func (s *scene) ignored() (reasons []staged.Reason) {
	for _, e := range s.result.Events {
		if e.Kind == staged.EventCommandIgnored {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// TestEndWait: somebody ends the wait after a stage before its time.
func TestEndWait(t *testing.T) {
	settled := func(t *testing.T, options staged.Options, after ...staged.Task) *scene {
		t.Helper()
		first := all("st", 2)
		first.LabelSelector, first.Targets = nil, []string{"c1", "c2"}
		second := first
		second.Name, second.Targets = "nd", []string{"c3"}
		strategy := waiting(time.Hour, first, second)
		strategy.Stages[0].AfterStageTasks = append(strategy.Stages[0].AfterStageTasks, after...)
		return newScene(t, strategy, options, []string{"c1", "c2", "c3"}).see(staged.HealthReady, "c1", "c2")
	}
	wait := func(s *scene) staged.StageStatus { return slices.Collect(s.run.Stages())[0] }
	refused := func(t *testing.T, s *scene, want ...staged.Reason) {
		t.Helper()
		if got := s.ignored(); !slices.Equal(got, want) {
			t.Errorf("ignored for %v, want %v: %v", got, want, s.result.Events)
		}
	}
	t.Run("the next stage starts at once, and it is told who said so", func(t *testing.T) {
		s := settled(t, staged.Options{}).after(10 * time.Minute).step(endWait("ann"))
		refused(t, s.want(staged.PhaseProgressing, "c1 done, c2 done, c3 starting"))
		said := staged.Decision{By: "ann", At: s.now.UTC(), Reason: "urgent"}
		status := wait(s)
		if !status.Waited || !status.WaitUntil.Equal(s.now) || status.WaitEndedBy == nil || *status.WaitEndedBy != said {
			t.Errorf("%+v", status)
		}
		*status.WaitEndedBy = staged.Decision{} // a copy
		if !slices.ContainsFunc(s.result.Events, func(e staged.Event) bool {
			return e.String() == "wait stage 0 elapsed (by ann at 2026-03-10T08:10:00Z: urgent)"
		}) {
			t.Error(s.result.Events)
		}
		for _, run := range []*staged.Run{s.run, reread(t, s.run)} {
			if text := run.String(); !strings.Contains(text, "after: wait 1h, ended (by ann at 2026-03-10T08:10:00Z: urgent)\n") {
				t.Error(text)
			}
		}
		s.step(endWait("bob"))
		if refused(t, s, staged.ReasonAlready); wait(s).WaitEndedBy.By != "ann" {
			t.Error(s.run)
		}
	})
	t.Run("who says nothing is remembered by the time alone", func(t *testing.T) {
		s := settled(t, staged.Options{}).after(10 * time.Minute).step(endWait(""))
		if by := wait(s).WaitEndedBy; by == nil || *by != (staged.Decision{At: s.now.UTC()}) {
			t.Error(by)
		}
	})
	t.Run("a wait that has not begun cannot be ended, nor can one that is not there", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{}, []string{"c1"})
		refused(t, s.step(endWait("ann")), staged.ReasonNotWaiting)
		cleanup := endWait("ann")
		cleanup.Commands[0].Stage = 1
		refused(t, s.step(cleanup), staged.ReasonNotWaiting)
		s = decided(t).see(staged.HealthReady, "c1", "c2", "c3").want(staged.PhaseWaiting, "c1 done, c2 done, c3 done")
		refused(t, s.step(endWait("ann")), staged.ReasonNotWaiting)
	})
	t.Run("nobody ended a wait whose time had come", func(t *testing.T) {
		s := settled(t, staged.Options{}).after(time.Hour).step(endWait("ann"))
		if refused(t, s, staged.ReasonAlready); !wait(s).Waited || wait(s).WaitEndedBy != nil || !wait(s).WaitUntil.Equal(s.now) {
			t.Error(s.run)
		}
	})
	t.Run("an approval beside it is still asked for", func(t *testing.T) {
		s := settled(t, staged.Options{}, staged.Task{Type: staged.Approval}).step(endWait("ann")).want(staged.PhaseWaiting, "c1 done, c2 done")
		if v, _ := s.run.Waits(); v.Reason != staged.ReasonApproval {
			t.Error(v)
		}
	})
	t.Run("a regressed target keeps the stage open", func(t *testing.T) {
		s := settled(t, staged.Options{}).see(staged.HealthFailing, "c2").step(endWait("ann"))
		refused(t, s.want(staged.PhaseWaiting, "c1 done, c2 done regressed (unhealthy)"))
		s.see(staged.HealthReady, "c2").want(staged.PhaseProgressing, "c1 done, c2 done, c3 starting")
	})
	t.Run("during a stop it is recorded, and nothing starts before Run", func(t *testing.T) {
		for _, choice := range []staged.Choice{staged.Count, staged.Freeze} {
			s := settled(t, staged.Options{WaitDuringStop: choice}).after(10 * time.Minute).step(staged.Input{State: staged.StateStop})
			refused(t, s.after(5*time.Minute).step(endWait("ann")).want(staged.PhaseStopped, "c1 done, c2 done"))
			ended := s.now
			s.after(20*time.Minute).step(staged.Input{State: staged.StateRun}).want(staged.PhaseProgressing, "c1 done, c2 done, c3 starting")
			if !wait(s).WaitUntil.Equal(ended) {
				t.Errorf("%s: %v", choice, wait(s).WaitUntil)
			}
		}
	})
	t.Run("a frozen wait is ended after it would have been over", func(t *testing.T) {
		s := settled(t, staged.Options{WaitDuringStop: staged.Freeze}).step(staged.Input{State: staged.StateStop}).after(24 * time.Hour).step(endWait("ann"))
		if refused(t, s); wait(s).WaitEndedBy == nil || !wait(s).WaitUntil.Equal(s.now) {
			t.Error(s.run)
		}
	})
	t.Run("a target that is retried is waited for again", func(t *testing.T) {
		first := all("st", 2)
		first.MaxFailures = concurrency.Count(1)
		first.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
		strategy := staged.Strategy{Stages: []staged.Stage{first}}
		strategy.Stages[0].AfterStageTasks = append(strategy.Stages[0].AfterStageTasks, staged.Task{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)})
		s := newScene(t, strategy, staged.Options{}, []string{"c1", "c2"}).see(staged.HealthReady, "c1").see(staged.HealthFailed, "c2").step(endWait("ann"))
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c2", Attempt: 1}}}).see(staged.HealthReady, "c2").want(staged.PhaseWaiting, "c1 done, c2 done attempt 2").left(time.Hour)
		if status := wait(s); status.Waited || status.WaitEndedBy != nil {
			t.Error(s.run)
		}
	})
}
