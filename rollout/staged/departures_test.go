package staged_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// TestApprovalBeforeTheCleanup: the deleteStage of a strategy, which KubeFleet has since 2026.
func TestApprovalBeforeTheCleanup(t *testing.T) {
	gated := staged.Strategy{Stages: []staged.Stage{all("st", 1)}, DeleteStage: staged.DeleteStage{BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}}
	yes := staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before}
	asked := func(s *scene, times int) *scene {
		t.Helper()
		n := 0
		for _, a := range s.result.Actions {
			if a.Kind == staged.RequestApproval {
				n++
				if a.Name != "run-before-delete-stage" || a.Stage != 1 || a.Side != staged.Before {
					t.Errorf("%+v", a)
				}
			}
		}
		if n != times {
			t.Errorf("asked %d times, want %d: %v", n, times, s.result.Actions)
		}
		return s
	}
	ended := func(s *scene, phase staged.Phase) {
		t.Helper()
		if s.run.Phase() != phase {
			t.Errorf("want %s: %s", phase, s.run)
		}
	}
	t.Run("nothing is removed before somebody says yes, and then everything", func(t *testing.T) {
		s := asked(newScene(t, gated, staged.Options{}, []string{"c1"}, "d1", "d2"), 0)
		s.step(staged.Input{Commands: []staged.Command{yes}}) // too early
		asked(s.see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done, d1, d2"), 1).left(0)
		if v, ok := s.run.Explain("d1"); !ok || v.Reason != staged.ReasonApproval || v.On[0].Name != "run-before-delete-stage" {
			t.Error(v)
		}
		asked(s.after(time.Hour).step(staged.Input{}), 1)
		s.step(staged.Input{Commands: []staged.Command{yes}}).want(staged.PhaseProgressing, "c1 done, d1 starting, d2 starting")
		ended(asked(s.step(staged.Input{Removed: []string{"d1", "d2"}}), 0), staged.PhaseSucceeded)
	})
	t.Run("nobody is asked if there is nothing to remove", func(t *testing.T) {
		ended(newScene(t, gated, staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1"), staged.PhaseSucceeded)
		s := newScene(t, gated, staged.Options{}, []string{"c1"}, "d1").step(staged.Input{Removed: []string{"d1"}})
		ended(s.see(staged.HealthReady, "c1"), staged.PhaseSucceeded)
		if slices.ContainsFunc(s.result.Events, func(e staged.Event) bool { return e.Kind == staged.EventApproval }) {
			t.Errorf("not even for an instant: %v", s.result.Events)
		}
	})
	t.Run("nor any longer once the last one has gone by itself", func(t *testing.T) {
		s := asked(newScene(t, gated, staged.Options{}, []string{"c1"}, "d1", "d2").see(staged.HealthReady, "c1"), 1)
		asked(s.step(staged.Input{Removed: []string{"d1"}}).want(staged.PhaseWaiting, "c1 done, d1 done, d2"), 1)
		ended(asked(s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "d2"}}}), 0), staged.PhasePartiallySucceeded)
		withdrawn := staged.Event{Kind: staged.EventApproval, Stage: 1, Side: staged.Before, To: string(staged.ApprovalNone)}
		if !slices.Contains(s.result.Events, withdrawn) {
			t.Errorf("whoever shows the request is not told that it is over: %v", s.result.Events)
		}
	})
	t.Run("a stop there is immediate, and an answer meanwhile counts afterwards", func(t *testing.T) {
		s := newScene(t, gated, staged.Options{}, []string{"c1"}, "d1").see(staged.HealthReady, "c1").step(staged.Input{State: staged.StateStop})
		s.want(staged.PhaseStopped, "c1 done, d1").step(staged.Input{Commands: []staged.Command{yes}}).want(staged.PhaseStopped, "c1 done, d1")
		s.step(staged.Input{State: staged.StateRun}).want(staged.PhaseProgressing, "c1 done, d1 starting")
	})
	t.Run("who says no ends the run, or holds it", func(t *testing.T) {
		no := staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Stage: 1, Side: staged.Before}}}
		ended(newScene(t, gated, staged.Options{}, []string{"c1"}, "d1").see(staged.HealthReady, "c1").step(no), staged.PhaseFailed)
		s := newScene(t, gated, staged.Options{OnReject: staged.Hold}, []string{"c1"}, "d1").see(staged.HealthReady, "c1").step(no)
		s.want(staged.PhaseHeld, "c1 done, d1").step(staged.Input{Commands: []staged.Command{yes}}).want(staged.PhaseProgressing, "c1 done, d1 starting")
	})
	t.Run("what was put up for approval does not grow", func(t *testing.T) {
		options := staged.Options{LateLeaving: staged.Clean}
		s := newScene(t, gated, options, []string{"c1"}, "d1").step(staged.Input{Leaving: []string{"d2"}}).see(staged.HealthReady, "c1")
		s.want(staged.PhaseWaiting, "c1 done, d1, d2").step(staged.Input{Leaving: []string{"d3"}}).want(staged.PhaseWaiting, "c1 done, d1, d2")
		if e := s.result.Events; len(e) != 1 || e[0].Reason != staged.ReasonTooLate {
			t.Error(e)
		}
	})
}

// scene is a run and what is needed to talk to it.
type scene struct {
	t      *testing.T
	run    *staged.Run
	result staged.Result
	now    time.Time
	tokens map[string]staged.Token
}

func all(name string, most int) staged.Stage {
	return staged.Stage{Name: name, LabelSelector: &selector.LabelSelector{}, MaxConcurrency: concurrency.Count(most)}
}

func newScene(t *testing.T, strategy staged.Strategy, options staged.Options, targets []string, leaving ...string) *scene {
	t.Helper()
	fleet := staged.Fleet{Version: "v2", Leaving: leaving}
	for _, name := range targets {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"ring": name[:1]}})
	}
	run, err := staged.Compile(strategy, benchSpec(), fleet, options)
	if err != nil {
		t.Fatal(err)
	}
	return (&scene{t: t, run: run, now: benchStart, tokens: map[string]staged.Token{}}).step(staged.Input{})
}

func (s *scene) step(in staged.Input) *scene {
	s.t.Helper()
	run, result, err := staged.Step(s.run, in, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(encode(s.t, run), new(staged.Run)); err != nil {
		s.t.Fatalf("what a step leaves behind cannot be read back: %v", err)
	}
	s.run, s.result = run, result
	for _, a := range result.Actions {
		if a.Target != "" {
			s.tokens[a.Target] = a.Token
		}
	}
	return s
}

func (s *scene) after(d time.Duration) *scene {
	s.now = s.now.Add(d)
	return s
}

func (s *scene) see(health staged.Health, targets ...string) *scene {
	s.t.Helper()
	var in staged.Input
	for _, name := range targets {
		in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health, Token: s.tokens[name]})
	}
	return s.step(in)
}

func (s *scene) want(phase staged.Phase, targets string) *scene {
	s.t.Helper()
	var list []string
	for k := range s.run.Current() + 1 {
		for target := range s.run.Targets(k) {
			list = append(list, target.String())
		}
	}
	if got := strings.Join(list, ", "); s.run.Phase() != phase || got != targets {
		s.t.Errorf("the run is %s with %s, want %s with %s", s.run.Phase(), got, phase, targets)
	}
	return s
}

func (s *scene) left(d time.Duration) *scene {
	s.t.Helper()
	switch {
	case d == 0 && !s.result.Next.IsZero():
		s.t.Errorf("next is in %v, want none", s.result.Next.Sub(s.now))
	case d > 0 && s.result.Next.Sub(s.now) != d:
		s.t.Errorf("next is in %v, want %v", s.result.Next.Sub(s.now), d)
	}
	return s
}

func waiting(wait time.Duration, stages ...staged.Stage) staged.Strategy {
	stages[0].AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(wait)}}
	return staged.Strategy{Stages: stages}
}

// TestComingFromKubeFleet computes the last column of the table of the package comment, where the
// cases of KubeFleet do not: what each bug and limit of KubeFleet's code has become.
func TestComingFromKubeFleet(t *testing.T) {
	one := staged.Strategy{Stages: []staged.Stage{all("st", 1)}}
	t.Run("K1 two stages of one name are rejected", func(t *testing.T) {
		if got := rules(staged.Strategy{Stages: []staged.Stage{all("a", 1), all("a", 1)}}.Validate()); !slices.Equal(got, []staged.Code{staged.CodeStageNameUnique}) {
			t.Error(got)
		}
	})
	t.Run("K2 no stages and two waits are rejected at once", func(t *testing.T) {
		if got := rules(staged.Strategy{}.Validate()); !slices.Equal(got, []staged.Code{staged.CodeStages}) {
			t.Error(got)
		}
		s := all("a", 1)
		s.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(1)}, {Type: staged.TimedWait, WaitTime: staged.For(1)}}
		if got := rules(staged.Strategy{Stages: []staged.Stage{s}}.Validate()); !slices.Equal(got, []staged.Code{staged.CodeAfterTypeUnique}) {
			t.Error(got)
		}
	})
	t.Run("K5 a stage of ready targets takes one step per window", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 4)}}, staged.Options{}, []string{"c1", "c2", "c3", "c4"})
		s.see(staged.HealthReady, "c1", "c2", "c3", "c4")
		if s.run.Phase() != staged.PhaseSucceeded || !s.now.Equal(benchStart) {
			t.Errorf("%s after %v", s.run.Phase(), s.now.Sub(benchStart))
		}
	})
	t.Run("K6 what is at the version already takes no slot", func(t *testing.T) {
		run, err := staged.Compile(one, benchSpec(), staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c1"}, {Name: "c2"}, {Name: "c3"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := &scene{t: t, run: run, now: benchStart, tokens: map[string]staged.Token{}}
		s.see(staged.HealthReady, "c1", "c3").want(staged.PhaseProgressing, "c1 done, c2 starting, c3 done")
	})
	t.Run("K8 the step that fails the run starts nothing", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 2)}}, staged.Options{}, []string{"c1", "c2", "c3", "c4"})
		s.step(staged.Input{Observations: []staged.Observation{{Target: "c1", Health: staged.HealthFailed, Token: s.tokens["c1"]}, {Target: "c2", Version: "v2", Health: staged.HealthReady, Token: s.tokens["c2"]}}})
		s.want(staged.PhaseFailed, "c1 failed (reported_failed), c2 done, c3, c4")
	})
	t.Run("K9 a failing target ends at its deadline or when it is skipped", func(t *testing.T) {
		st := all("st", 1)
		st.ProgressDeadline, st.MaxFailures = staged.For(10*time.Minute), concurrency.Count(1)
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{st}}, staged.Options{}, []string{"c1", "c2"})
		s.see(staged.HealthFailing, "c1").left(5*time.Minute).after(5*time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "c1 updating stuck, c2").left(5 * time.Minute)
		s.after(5*time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "c1 timedOut, c2 starting")
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}})
		s.want(staged.PhasePartiallySucceeded, "c1 timedOut, c2 skipped")
	})
	t.Run("K10 stuck is a mark of a target, at the instant", func(t *testing.T) {
		s := newScene(t, one, staged.Options{StuckAfter: staged.For(7 * time.Minute)}, []string{"c1"})
		s.left(7*time.Minute).after(7*time.Minute-1).step(staged.Input{}).want(staged.PhaseProgressing, "c1 starting").left(1)
		s.after(1).step(staged.Input{}).want(staged.PhaseProgressing, "c1 starting stuck").left(0)
	})
	t.Run("K11 a target taken over fails, also while stopping", func(t *testing.T) {
		s := newScene(t, one, staged.Options{OnFailure: staged.Hold}, []string{"c1", "c2"})
		s.step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopping, "c1 starting, c2")
		s.step(staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v3", Health: staged.HealthReady, Token: s.tokens["c1"]}}})
		s.want(staged.PhaseStopped, "c1 failed (superseded), c2")
		s.step(staged.Input{State: staged.StateRun}).want(staged.PhaseHeld, "c1 failed (superseded), c2")
	})
	t.Run("K12 a done target taken over is regressed", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{}, []string{"c1"})
		s.see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done")
		s.step(staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v3", Health: staged.HealthReady}}}).want(staged.PhaseWaiting, "c1 done regressed (superseded)")
		s.after(time.Hour).step(staged.Input{}).want(staged.PhaseWaiting, "c1 done regressed (superseded)")
		if v, _ := s.run.Waits(); v.Reason != staged.ReasonRegression || !slices.Equal(v.Data.Names, []string{"c1"}) {
			t.Error(v)
		}
		s.see(staged.HealthReady, "c1")
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
		for choice, phase := range map[staged.Choice]staged.Phase{staged.Note: staged.PhaseWaiting, staged.Fail: staged.PhaseFailed} {
			s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{OnRegression: choice}, []string{"c1"})
			s.see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1")
			if s.run.Phase() != phase {
				t.Errorf("%s: %s", choice, s.run.Phase())
			}
		}
	})
	t.Run("K13 an approval of another run is ignored", func(t *testing.T) {
		st := all("st", 1)
		st.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{st}}, staged.Options{}, []string{"c1"})
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "other", Side: staged.Before}, {Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before},
			{Kind: staged.CommandApprove, Run: "run", Side: staged.After}}})
		s.want(staged.PhaseWaiting, "c1")
		var why []staged.Reason
		for _, e := range s.result.Events {
			why = append(why, e.Reason)
		}
		if !slices.Equal(why, []staged.Reason{staged.ReasonOtherRun, staged.ReasonNotRequested, staged.ReasonNotRequested}) {
			t.Error(s.result.Events)
		}
		if a := s.result.Actions; len(a) != 1 || a[0].Name != "run-before-st" {
			t.Error(a)
		}
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.Before}}}).want(staged.PhaseProgressing, "c1 starting")
	})
	t.Run("K14 K15 K16 a stop leaves the wait alone", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1), all("next", 1)), staged.Options{Overlap: staged.First, Unmatched: staged.Ignore}, []string{"c1"})
		s.see(staged.HealthReady, "c1").left(time.Hour)
		s.after(50*time.Minute).step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopped, "c1 done").left(10 * time.Minute)
		s.after(time.Minute).step(staged.Input{}).left(9 * time.Minute) // a wake-up moves nothing
		s.after(time.Minute).step(staged.Input{State: staged.StateRun}).want(staged.PhaseWaiting, "c1 done").left(8 * time.Minute)
		s.after(time.Minute).step(staged.Input{State: staged.StateStop})
		s.after(7*time.Minute).step(staged.Input{}).want(staged.PhaseStopped, "c1 done").left(0) // over, for good
		s.after(time.Hour).step(staged.Input{State: staged.StateRun})
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
	t.Run("K14 frozen waits go on where they were", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"})
		s.see(staged.HealthReady, "c1").after(50 * time.Minute).step(staged.Input{State: staged.StateStop}).left(0)
		s.after(24 * time.Hour).step(staged.Input{State: staged.StateRun}).left(10 * time.Minute)
		s.after(10*time.Minute - 1).step(staged.Input{State: staged.StateStop}).left(0)
		s.after(time.Hour).step(staged.Input{State: staged.StateRun}).left(1)
		s.after(1).step(staged.Input{})
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
	t.Run("K14 a frozen wait keeps when it began, and one that would begin during a stop begins with Run", func(t *testing.T) {
		times := func(s *scene, from, until time.Duration) {
			t.Helper()
			for stage := range s.run.Stages() {
				if !stage.WaitFrom.Equal(benchStart.Add(from)) || until > 0 && !stage.WaitUntil.Equal(benchStart.Add(until)) || until == 0 && !stage.WaitUntil.IsZero() {
					t.Errorf("from %v until %v\n%s", stage.WaitFrom, stage.WaitUntil, s.run)
				}
				break
			}
		}
		freeze := staged.Options{WaitDuringStop: staged.Freeze}
		s := newScene(t, waiting(time.Hour, all("st", 1)), freeze, []string{"c1"})
		s.after(time.Minute).see(staged.HealthReady, "c1")
		times(s, time.Minute, time.Hour+time.Minute)
		s.after(10 * time.Minute).step(staged.Input{State: staged.StateStop})
		times(s, time.Minute, 0)
		s.after(30 * time.Minute).step(staged.Input{State: staged.StateRun})
		times(s, time.Minute, time.Hour+31*time.Minute)
		s = newScene(t, waiting(time.Hour, all("st", 1)), freeze, []string{"c1"})
		s.after(time.Minute).step(staged.Input{State: staged.StateStop}).after(time.Minute).see(staged.HealthReady, "c1").want(staged.PhaseStopped, "c1 done").left(0)
		s.after(2*time.Hour).step(staged.Input{State: staged.StateRun}).want(staged.PhaseWaiting, "c1 done").left(time.Hour)
		times(s, 2*time.Hour+2*time.Minute, 3*time.Hour+2*time.Minute)
	})
	t.Run("K16 a frozen wait that was over before the stop is over, although nobody had looked", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}).see(staged.HealthReady, "c1")
		s.after(time.Hour).step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopped, "c1 done")
		if e := s.result.Events; !slices.Contains(e, staged.Event{Kind: staged.EventWait, Stage: 0, To: "elapsed"}) {
			t.Error(e)
		}
		if s.after(time.Minute).step(staged.Input{State: staged.StateRun}); s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
	t.Run("K14 a frozen wait is not over because the run is cancelled", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}).see(staged.HealthReady, "c1")
		s.after(10 * time.Minute).step(staged.Input{State: staged.StateStop}).after(24 * time.Hour).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}})
		if s.run.Phase() != staged.PhaseCancelled || !strings.Contains(s.run.String(), "after: wait 1h, frozen") || slices.ContainsFunc(s.result.Events, func(e staged.Event) bool { return e.Kind == staged.EventWait }) {
			t.Errorf("%v\n%s", s.result.Events, s.run)
		}
	})
	t.Run("K17 a stuck target does not keep the run from Stopped", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 2)}}, staged.Options{}, []string{"c1", "c2", "c3"})
		s.after(3*time.Minute).see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "c1 done, c2 starting, c3 starting")
		s.after(2*time.Minute).step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopping, "c1 done, c2 starting stuck, c3 starting")
		s.after(3*time.Minute).step(staged.Input{}).want(staged.PhaseStopped, "c1 done, c2 starting stuck, c3 starting stuck")
		s.see(staged.HealthReady, "c2").want(staged.PhaseStopped, "c1 done, c2 done, c3 starting stuck")
	})
	t.Run("K17 a stop does not wait longer than its grace", func(t *testing.T) {
		s := newScene(t, one, staged.Options{StopGrace: staged.For(time.Minute)}, []string{"c1"})
		s.step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopping, "c1 starting").left(time.Minute)
		s.after(time.Minute).step(staged.Input{}).want(staged.PhaseStopped, "c1 starting")
	})
	t.Run("a soaking target that falls back makes a stopped run stop again", func(t *testing.T) {
		st := all("st", 1)
		st.MinSuccessTime = staged.For(3 * time.Minute)
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{st}}, staged.Options{}, []string{"c1"})
		s.after(time.Minute).see(staged.HealthReady, "c1").step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopped, "c1 soaking").left(3 * time.Minute)
		s.see(staged.HealthFailing, "c1").want(staged.PhaseStopping, "c1 updating").left(4 * time.Minute)
		s.see(staged.HealthReady, "c1").after(3*time.Minute).step(staged.Input{}).want(staged.PhaseStopped, "c1 done")
	})
	t.Run("K18 a stop in the cleanup waits for removals in progress alone", func(t *testing.T) {
		s := newScene(t, one, staged.Options{Cleanup: staged.Cleanup{MaxConcurrency: concurrency.Count(1)}}, []string{"c1"}, "d1", "d2")
		s.see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "c1 done, d1 starting, d2")
		s.step(staged.Input{State: staged.StateStop}).want(staged.PhaseStopping, "c1 done, d1 starting, d2")
		s.step(staged.Input{Removed: []string{"d1"}}).want(staged.PhaseStopped, "c1 done, d1 done, d2")
	})
	t.Run("K19 changes of the fleet do not fail the run", func(t *testing.T) {
		s := newScene(t, one, staged.Options{}, []string{"c1", "c2", "c3"})
		s.step(staged.Input{Added: []staged.Target{{Name: "c9"}, {Name: "c1"}}, Removed: []string{"c2", "nobody"}, Leaving: []string{"c3", "x"}})
		s.want(staged.PhaseProgressing, "c1 starting, c2 removed, c3 removed")
		s.see(staged.HealthReady, "c1")
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
		s = newScene(t, one, staged.Options{Added: staged.Append, Removed: staged.Fail, LateLeaving: staged.Clean, OnFailure: staged.Hold}, []string{"c1", "c2"})
		s.step(staged.Input{Added: []staged.Target{{Name: "c9"}}}).want(staged.PhaseProgressing, "c1 starting, c2, c9")
		s.step(staged.Input{Leaving: []string{"c2"}}).want(staged.PhaseHeld, "c1 starting, c2 failed (gone), c9")
		if d, _ := s.run.Target("c2"); d.Stage != 1 || d.State != staged.Waiting {
			t.Errorf("the cleanup does not have it: %+v", d)
		}
	})
	t.Run("K20 K21 a run with only leaving targets can succeed, removals have limits", func(t *testing.T) {
		options := staged.Options{Cleanup: staged.Cleanup{MaxConcurrency: concurrency.Count(1), MaxFailures: concurrency.Count(1), ProgressDeadline: staged.For(time.Minute)}}
		s := newScene(t, one, options, nil, "d1", "d2", "d3")
		s.want(staged.PhaseProgressing, "d1 starting, d2, d3").after(time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "d1 timedOut, d2 starting, d3")
		s.step(staged.Input{Removed: []string{"d3"}}).want(staged.PhaseProgressing, "d1 timedOut, d2 starting, d3 done")
		s.step(staged.Input{Observations: []staged.Observation{{Target: "d2", Gone: true}}})
		if s.run.Phase() != staged.PhasePartiallySucceeded {
			t.Error(s.run)
		}
		s = newScene(t, one, staged.Options{}, nil, "d1").step(staged.Input{Removed: []string{"d1"}})
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
	t.Run("K26 an approval before it is asked for is ignored", func(t *testing.T) {
		st := all("next", 1)
		st.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 1), st}}, staged.Options{Overlap: staged.First, VerifyDone: staged.Never}, []string{"c1"})
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before}}})
		if e := s.result.Events; len(e) != 1 || e[0].Reason != staged.ReasonNotRequested {
			t.Error(e)
		}
	})
	t.Run("K27 a wait with a leading zero and a key that no label has are rejected", func(t *testing.T) {
		if _, err := staged.ParseDuration("01h"); err == nil {
			t.Error("01h is a wait")
		}
		st := all("st", 1)
		st.SortingLabelKey = "no key"
		if got := rules(staged.Strategy{Stages: []staged.Stage{st}}.Validate()); !slices.Equal(got, []staged.Code{staged.CodeSortKey}) {
			t.Error(got)
		}
	})
	t.Run("K28 what is gone before its turn is done at once", func(t *testing.T) {
		s := newScene(t, one, staged.Options{}, []string{"c1"}, "d1", "d2").step(staged.Input{Removed: []string{"d2"}})
		if d, _ := s.run.Target("d2"); s.run.Current() != 0 || d.State != staged.Done {
			t.Error(s.run)
		}
	})
	t.Run("K29 approval requests carry the run's name as a label, so that only a label is one", func(t *testing.T) {
		for _, name := range []string{strings.Repeat("r", 64), "release-1.2"} {
			spec := benchSpec()
			spec.Name = name
			if got := rules(spec.Validate()); !slices.Equal(got, []staged.Code{staged.CodeRunName}) {
				t.Error(name, got)
			}
		}
	})
	t.Run("K30 a run that fails waits for targets in progress", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 2)}}, staged.Options{}, []string{"c1", "c2", "c3"})
		s.see(staged.HealthFailed, "c1").want(staged.PhaseFailing, "c1 failed (reported_failed), c2 starting, c3").left(5 * time.Minute)
		s.see(staged.HealthReady, "c2").want(staged.PhaseFailed, "c1 failed (reported_failed), c2 done, c3")
	})
	t.Run("K31 a target is not to be updated and to be removed", func(t *testing.T) {
		fleet := staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c1"}}, Leaving: []string{"c1"}}
		if _, err := staged.Compile(one, benchSpec(), fleet, staged.Options{}); !slices.Equal(rules(err), []staged.Code{staged.CodeTargetDuplicate}) {
			t.Error(err)
		}
	})
	t.Run("K32 Stop of a run that nobody saw running is left out, and all else is heard", func(t *testing.T) {
		spec := benchSpec()
		spec.State = staged.StateInitialize
		run, err := staged.Compile(one, spec, staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c1"}, {Name: "c2"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		gone := staged.Input{State: staged.StateStop, Removed: []string{"c1"}}
		_, _, err = staged.Step(run, gone, benchStart)
		if !slices.Equal(rules(err), []staged.Code{staged.CodeTransition}) || !strings.Contains(err.Error(), "leave it out") {
			t.Error(err)
		}
		gone.State = ""
		s := (&scene{t: t, run: run, now: benchStart, tokens: map[string]staged.Token{}}).step(gone).want(staged.PhaseInitialized, "c1 removed, c2")
		s.step(staged.Input{State: staged.StateRun}).want(staged.PhaseProgressing, "c1 removed, c2 starting")
	})
	t.Run("K33 a stage without targets ends and never starts", func(t *testing.T) {
		empty := staged.Stage{Name: "empty", BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{empty, all("st", 1)}}, staged.Options{}, []string{"c1"})
		for stage := range s.run.Stages() {
			if stage.Index == 0 && (stage.Phase != staged.StageSkipped || !stage.Start.IsZero() || !stage.End.Equal(benchStart)) {
				t.Errorf("%+v", stage)
			}
		}
	})
	t.Run("K34 an empty sortingLabelKey is none", func(t *testing.T) {
		var strategy staged.Strategy
		if err := json.Unmarshal([]byte(`{"stages": [{"name": "st", "labelSelector": {}, "maxConcurrency": 2, "sortingLabelKey": ""}]}`), &strategy); err != nil {
			t.Fatal(err)
		}
		newScene(t, strategy, staged.Options{}, []string{"c2", "c1"}).want(staged.PhaseProgressing, "c1 starting, c2 starting")
	})
	t.Run("K35 a wait that need not be waited for is ended by a command", func(t *testing.T) {
		s := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").after(time.Minute).step(endWait("ann"))
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
	t.Run("K36 a target that cannot be updated for now is suspended, and the others go on", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, staged.Options{}, []string{"c1", "c2", "c3"}).step(suspend("c2"))
		s.see(staged.HealthReady, "c1").see(staged.HealthReady, "c3").want(staged.PhaseWaiting, "c1 done, c2 suspended"+byAnn+", c3 done").left(0)
		s.step(resume("c2")).want(staged.PhaseProgressing, "c1 done, c2 starting, c3 done")
	})
	t.Run("K37 one of each region at once is one stage, and the regions need not be known", func(t *testing.T) {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{grouped(9, concurrency.Count(1))}}, staged.Options{}, []string{"a1", "a2", "b1", "c1"})
		s.want(staged.PhaseProgressing, "a1 starting, a2, b1 starting, c1 starting").see(staged.HealthReady, "a1").want(staged.PhaseProgressing, "a1 done, a2 starting, b1 starting, c1 starting")
	})
	t.Run("K22 the intent is in the run before its action", func(t *testing.T) {
		before, err := staged.Compile(one, benchSpec(), staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c1"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, lost := step(t, before, staged.Input{}, benchStart)
		_, again := step(t, before, staged.Input{}, benchStart.Add(time.Hour)) // the first result was lost
		if lost.Actions[0].Token != again.Actions[0].Token {
			t.Errorf("other tokens: %v, %v", lost.Actions, again.Actions)
		}
		if status, _ := first.Target("c1"); status.State != staged.Starting {
			t.Errorf("%+v", status)
		}
		// A crash in front of the action, then a stop: the run knows that the target may have been
		// started.
		stopped, result := step(t, first, staged.Input{State: staged.StateStop}, benchStart)
		if stopped.Phase() != staged.PhaseStopping || len(result.Actions) != 1 {
			t.Errorf("%s %v", stopped.Phase(), result.Actions)
		}
	})
	t.Run("K24 waits are exact to the nanosecond", func(t *testing.T) {
		s := newScene(t, waiting(time.Second, all("st", 1)), staged.Options{}, []string{"c1"})
		s.now = s.now.Add(999_999_999)
		s.see(staged.HealthReady, "c1").left(time.Second).after(time.Second-1).step(staged.Input{}).want(staged.PhaseWaiting, "c1 done")
		s.after(1).step(staged.Input{})
		if s.run.Phase() != staged.PhaseSucceeded {
			t.Error(s.run)
		}
	})
}

// TestOCM: each row of the table about Open Cluster Management's library. That the library does
// what the table says of it is tested in examples/ocmbench, where it is linked.
func TestOCM(t *testing.T) {
	scene := func(t *testing.T, text string, groups ...[]string) *scene {
		t.Helper()
		var strategy staged.OCMStrategy
		if err := json.Unmarshal([]byte(text), &strategy); err != nil {
			t.Fatal(err)
		}
		var list []staged.DecisionGroup
		var targets []string
		for i, names := range groups {
			list = append(list, staged.DecisionGroup{Name: string(rune('a' + i)), Index: int32(i), Clusters: names})
			targets = append(targets, names...)
		}
		stages, options, err := staged.FromOCM(strategy, list)
		if err != nil {
			t.Fatal(err)
		}
		return newScene(t, stages, options, targets)
	}
	t.Run("a group without name is found by its index alone", func(t *testing.T) {
		strategy := staged.OCMStrategy{Type: staged.OCMProgressivePerGroup, ProgressivePerGroup: &staged.OCMConfig{MandatoryDecisionGroups: []staged.MandatoryGroup{{GroupIndex: 1}}}}
		stages, _, err := staged.FromOCM(strategy, []staged.DecisionGroup{{Index: 0, Clusters: []string{"c1"}}, {Index: 1, Clusters: []string{"c2"}}, {Index: 2, Clusters: []string{"c3"}}})
		if err != nil || stages.Stages[0].Name != "group1" || stages.Stages[1].Name != "group0" {
			t.Errorf("%v: %+v", err, stages.Stages)
		}
	})
	t.Run("another unknown field is no old name of type", func(t *testing.T) {
		if err := new(staged.OCMStrategy).UnmarshalJSON([]byte(`{"rolloutTyp": "All", "rolloutType": "All"}`)); err == nil || strings.Count(err.Error(), "write type") != 1 {
			t.Error(err)
		}
	})
	three := []string{"c1", "c2", "c3"}
	t.Run("maxFailures above the size is kept", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": 10}}`, three)
		s.see(staged.HealthFailed, "c1").want(staged.PhaseProgressing, "c1 failed (reported_failed), c2 starting, c3")
	})
	t.Run("maxFailures left out tolerates no failure", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 1}}`, three)
		s.see(staged.HealthFailed, "c1").want(staged.PhaseHeld, "c1 failed (reported_failed), c2, c3")
	})
	t.Run("maxFailures below 0 is an error", func(t *testing.T) {
		if err := json.Unmarshal([]byte(`{"type": "Progressive", "progressive": {"maxFailures": -1}}`), new(staged.OCMStrategy)); !slices.Equal(rules(err), []staged.Code{staged.CodeMaxFailures}) {
			t.Error(err)
		}
	})
	t.Run("a mandatory group that does not exist is an error", func(t *testing.T) {
		config := &staged.OCMConfig{MandatoryDecisionGroups: []staged.MandatoryGroup{{GroupName: "canary"}, {GroupIndex: 7}}}
		_, _, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: config}, []staged.DecisionGroup{{Name: "other", Clusters: []string{"c1"}}})
		if !slices.Equal(rules(err), []staged.Code{staged.CodeDecisionGroup, staged.CodeDecisionGroup}) {
			t.Error(err)
		}
	})
	t.Run("a mandatory group is meant by its name, or by its index without one", func(t *testing.T) {
		groups := []staged.DecisionGroup{{Index: 0, Clusters: []string{"c0"}}, {Name: "x", Index: 1, Clusters: []string{"c1"}}, {Name: "x", Index: 2, Clusters: []string{"c2"}}, {Name: "y", Index: 3, Clusters: []string{"c3"}}}
		for _, row := range []struct {
			mandatory []staged.MandatoryGroup
			want      string
		}{
			{[]staged.MandatoryGroup{{GroupName: "x", GroupIndex: 3}}, "[c1] [c2] [c0 c3]"},
			{[]staged.MandatoryGroup{{}}, "[c0] [c1 c2 c3]"},
			{[]staged.MandatoryGroup{{GroupIndex: 3}, {GroupName: "y"}}, "[c3] [c0 c1 c2]"},
		} {
			strategy, _, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: &staged.OCMConfig{MandatoryDecisionGroups: row.mandatory}}, groups)
			var got []string
			for _, stage := range strategy.Stages {
				got = append(got, fmt.Sprint(stage.Targets))
			}
			if have := strings.Join(got, " "); err != nil || have != row.want {
				t.Errorf("%v: %s, %v, want %s", row.mandatory, have, err, row.want)
			}
		}
	})
	t.Run("a free slot is filled at once, behind a mandatory group as well", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupName": "b"}]}}`, three, []string{"d1"})
		s.see(staged.HealthReady, "d1").see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "d1 done, c1 done, c2 starting, c3 starting")
	})
	t.Run("all failures are counted", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 2, "maxFailures": 1}}`, three)
		s.see(staged.HealthFailed, "c1", "c2").want(staged.PhaseHeld, "c1 failed (reported_failed), c2 failed (reported_failed), c3")
	})
	t.Run("a group ends when all are settled", func(t *testing.T) {
		s := scene(t, `{"type": "ProgressivePerGroup", "progressivePerGroup": {"maxFailures": 1, "progressDeadline": "10m"}}`, three, []string{"d1"})
		s.after(5*time.Minute).see(staged.HealthReady, "c3").want(staged.PhaseProgressing, "c1 starting stuck, c2 starting stuck, c3 done")
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}).want(staged.PhaseProgressing, "c1 skipped, c2 starting stuck, c3 done")
		s.after(5*time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "c1 skipped, c2 timedOut, c3 done, d1 starting")
	})
	t.Run("a group that has timed out in part does not end while one progresses", func(t *testing.T) {
		group := func(ring string, most int) staged.Stage {
			st := all(ring, most)
			st.LabelSelector.MatchLabels = map[string]string{"ring": ring}
			st.ProgressDeadline, st.MaxFailures = staged.For(10*time.Minute), concurrency.Count(1)
			return st
		}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{group("c", 2), group("d", 1)}}, staged.Options{}, []string{"c1", "c2", "c3", "d1"})
		s.after(5*time.Minute).see(staged.HealthReady, "c2").want(staged.PhaseProgressing, "c1 starting stuck, c2 done, c3 starting")
		s.after(5*time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "c1 timedOut, c2 done, c3 starting stuck")
		s.see(staged.HealthReady, "c3").want(staged.PhaseProgressing, "c1 timedOut, c2 done, c3 done, d1 starting")
	})
	t.Run("a tolerated failure behind the first group does not end the rollout", func(t *testing.T) {
		s := scene(t, `{"type": "ProgressivePerGroup", "progressivePerGroup": {"maxFailures": 1}}`, []string{"c1"}, []string{"d1", "d2"}, []string{"e1"})
		s.see(staged.HealthReady, "c1").see(staged.HealthFailed, "d1").want(staged.PhaseProgressing, "c1 done, d1 failed (reported_failed), d2 starting")
		s.see(staged.HealthReady, "d2").want(staged.PhaseProgressing, "c1 done, d1 failed (reported_failed), d2 done, e1 starting")
	})
	t.Run("a gap in group indexes loses nothing", func(t *testing.T) {
		stages, _, err := staged.FromOCM(staged.OCMStrategy{}, []staged.DecisionGroup{{Index: 0, Clusters: []string{"b"}}, {Index: 7, Clusters: []string{"a"}}})
		if err != nil || !slices.Equal(stages.Stages[0].Targets, []string{"a", "b"}) {
			t.Errorf("%+v %v", stages, err)
		}
	})
	t.Run("times are the run's own", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "minSuccessTime": "60s", "progressDeadline": "010m"}}`, three)
		s.see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "c1 soaking, c2, c3").left(time.Minute)
		s.after(time.Minute).step(staged.Input{}).want(staged.PhaseProgressing, "c1 done, c2 starting, c3").left(5 * time.Minute)
	})
	t.Run("maxConcurrency absent is all, too much stays, 0 is an error", func(t *testing.T) {
		scene(t, `{"type": "Progressive"}`, three).want(staged.PhaseProgressing, "c1 starting, c2 starting, c3 starting")
		scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 9}}`, three).want(staged.PhaseProgressing, "c1 starting, c2 starting, c3 starting")
		scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": "34%"}}`, three).want(staged.PhaseProgressing, "c1 starting, c2 starting, c3")
		for _, zero := range []concurrency.Limit{concurrency.Count(0), concurrency.Percent(0)} {
			_, _, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: &staged.OCMConfig{MaxConcurrency: zero}}, nil)
			if !slices.Equal(rules(err), []staged.Code{staged.CodeMaxConcurrency}) {
				t.Error(err)
			}
		}
	})
	t.Run("a timed-out mandatory cluster holds the others back", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxFailures": 3, "progressDeadline": "10m", "mandatoryDecisionGroups": [{"groupName": "b"}]}}`, three, []string{"d1"})
		s.want(staged.PhaseProgressing, "d1 starting").after(10*time.Minute).step(staged.Input{}).want(staged.PhaseHeld, "d1 timedOut")
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "d1", Attempt: 1}}}).see(staged.HealthReady, "d1")
		s.want(staged.PhaseProgressing, "d1 done attempt 2, c1 starting, c2 starting, c3 starting")
	})
	t.Run("a failed cluster is settled, a failing one may succeed", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 1, "maxFailures": "1%"}}`, three)
		s.see(staged.HealthFailing, "c1").want(staged.PhaseProgressing, "c1 updating, c2, c3").see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "c1 done, c2 starting, c3")
		s.see(staged.HealthFailed, "c2").want(staged.PhaseProgressing, "c1 done, c2 failed (reported_failed), c3 starting") // 1% of three is one, rounded up
	})
	t.Run("a failed cluster counts at once, a failing one from its deadline on", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": 2, "progressDeadline": "10m"}}`, []string{"c1", "c2", "c3", "c4"})
		s.see(staged.HealthFailing, "c1").see(staged.HealthReady, "c2").want(staged.PhaseProgressing, "c1 updating, c2 done, c3 starting, c4")
		s.after(5*time.Minute).see(staged.HealthReady, "c3").want(staged.PhaseProgressing, "c1 updating stuck, c2 done, c3 done, c4 starting")
		s.after(5*time.Minute).step(staged.Input{}).want(staged.PhaseHeld, "c1 timedOut, c2 done, c3 done, c4 starting stuck")
	})
	t.Run("a cluster that joins is ignored, or goes last", func(t *testing.T) {
		for kind, budget := range map[staged.OCMType]string{staged.OCMAll: "", staged.OCMProgressive: `"maxFailures": "100%", "maxConcurrency": 1`, staged.OCMProgressivePerGroup: `"maxFailures": "100%"`} {
			var strategy staged.OCMStrategy
			field := strings.ToLower(string(kind[:1])) + string(kind[1:])
			if err := json.Unmarshal([]byte(fmt.Sprintf(`{"type": %q, %q: {%s}}`, kind, field, budget)), &strategy); err != nil {
				t.Fatal(err)
			}
			for _, row := range []struct{ unmatched, added staged.Choice }{{"", ""}, {"", staged.Append}, {staged.Last, ""}} {
				stages, options, err := staged.FromOCM(strategy, []staged.DecisionGroup{{Clusters: []string{"c1"}}})
				if err != nil {
					t.Fatal(err)
				}
				options.Unmatched, options.Added = row.unmatched, row.added
				newScene(t, stages, options, []string{"c1"}).step(staged.Input{Added: []staged.Target{{Name: "b1"}}}).see(staged.HealthReady, "c1").want(staged.PhaseSucceeded, "c1 done")
			}
			stages, options, err := staged.FromOCM(strategy, []staged.DecisionGroup{{Clusters: []string{"c1"}}})
			if err != nil {
				t.Fatal(err)
			}
			options.Unmatched, options.Added = staged.Last, staged.Append
			s := newScene(t, stages, options, []string{"c1"}).step(staged.Input{Added: []staged.Target{{Name: "b1"}, {Name: "b2"}, {Name: "b3"}}})
			s.want(staged.PhaseProgressing, "c1 starting").see(staged.HealthFailed, "c1").want(staged.PhaseProgressing, "c1 failed (reported_failed), b1 starting, b2, b3")
			s.see(staged.HealthReady, "b1").see(staged.HealthFailed, "b2").want(staged.PhaseHeld, "c1 failed (reported_failed), b1 done, b2 failed (reported_failed), b3")
		}
	})
	t.Run("a failed cluster that leaves counts until it is skipped, and percentages stay", func(t *testing.T) {
		s := scene(t, `{"type": "Progressive", "progressive": {"maxConcurrency": "50%"}}`, []string{"c1", "c2", "c3", "c4"})
		s.see(staged.HealthFailed, "c1").step(staged.Input{Removed: []string{"c1", "c4"}}).want(staged.PhaseHeld, "c1 failed (reported_failed), c2 starting, c3, c4 removed")
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}).want(staged.PhaseProgressing, "c1 skipped, c2 starting, c3 starting, c4 removed")
	})
	t.Run("the next instant is that of all targets", func(t *testing.T) {
		s := scene(t, `{"type": "All", "all": {"progressDeadline": "4m"}}`, three)
		s.after(time.Minute).see(staged.HealthReady, "c1").left(3 * time.Minute)
	})
	t.Run("stages, limits and budgets are those of the table", func(t *testing.T) {
		groups := []staged.DecisionGroup{{Name: "a", Index: 0, Clusters: []string{"c2", "c1"}}, {Name: "b", Index: 1, Clusters: []string{"c3"}}, {Name: "b", Index: 2, Clusters: []string{"c5", "c4"}}}
		describe := func(s staged.Strategy) string {
			var list []string
			for _, stage := range s.Stages {
				list = append(list, strings.Join([]string{stage.Name, strings.Join(stage.Targets, "+"), stage.MaxConcurrency.String(), stage.MaxFailures.String()}, " "))
			}
			return strings.Join(list, "; ") + "; " + s.ProgressDeadline.String() + " " + s.MinSuccessTime.String()
		}
		for text, want := range map[string]string{
			`{}`: "all c1+c2+c3+c4+c5 100% 100%;  ",
			`{"type": "All", "all": {"progressDeadline": "90m", "minSuccessTime": "1h", "maxFailures": 0}}`:                                                                                                "all c1+c2+c3+c4+c5 100% 100%; 1h30m ",
			`{"type": "Progressive", "progressive": {"maxFailures": "21%", "minSuccessTime": "0", "progressDeadline": "None"}}`:                                                                            "rest c1+c2+c3+c4+c5 100% 2; None 0",
			`{"type": "Progressive", "progressive": {"maxConcurrency": "05%", "maxFailures": "30%", "mandatoryDecisionGroups": [{"groupName": "b"}]}}`:                                                     "group1 c3 100% 0; group2 c4+c5 100% 0; rest c1+c2 5% 2;  ",
			`{"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "5m0s", "maxFailures": "30%", "mandatoryDecisionGroups": [{"groupIndex": 2}, {"groupIndex": 0, "groupName": ""}]}}`: "group0 c1+c2 100% 0; group2 c4+c5 100% 0; group1 c3 100% 30%;  5m",
		} {
			var strategy staged.OCMStrategy
			if err := json.Unmarshal([]byte(text), &strategy); err != nil {
				t.Fatal(err)
			}
			stages, options, err := staged.FromOCM(strategy, groups)
			if err != nil || describe(stages) != want || (options != staged.Options{Rounding: staged.Up, OnFailure: staged.Hold}) {
				t.Errorf("%s: got %s, %+v, %v\nwant %s", text, describe(stages), options, err, want)
			}
		}
	})
	t.Run("a strategy is written as it was read", func(t *testing.T) {
		const text = `{"type":"Progressive","progressive":{"minSuccessTime":"5m","progressDeadline":"None","maxFailures":"5%","mandatoryDecisionGroups":[{"groupName":"a"},{"groupIndex":1}],"maxConcurrency":3}}`
		var strategy staged.OCMStrategy
		if err := json.Unmarshal([]byte(text), &strategy); err != nil {
			t.Fatal(err)
		}
		if data, err := json.Marshal(strategy); err != nil || string(data) != text {
			t.Errorf("got %s, %v, want %s", data, err, text)
		}
	})
	t.Run("more than 31 groups", func(t *testing.T) {
		var groups [][]string
		for i := range 40 {
			groups = append(groups, []string{"c" + string(rune('A'+i))})
		}
		s := scene(t, `{"type": "ProgressivePerGroup"}`, groups...)
		var copied staged.Run
		if err := json.Unmarshal(encode(t, s.run), &copied); err != nil || len(slices.Collect(copied.Stages())) != 41 {
			t.Error(err)
		}
	})
	t.Run("a group of nobody is a stage like any other", func(t *testing.T) {
		s := scene(t, `{"type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": [{"groupName": "c"}]}}`, []string{"c1"}, nil, nil, []string{"d1"})
		var stages []string
		for stage := range s.run.Stages() {
			stages = append(stages, stage.Name+" "+string(stage.Phase))
		}
		if want := []string{"group2 Skipped", "group0 Updating", "group1 Pending", "group3 Pending", "kubernetes-fleet.io/deleteStage Pending"}; !slices.Equal(stages, want) {
			t.Errorf("got %v, want %v", stages, want)
		}
		s.see(staged.HealthReady, "c1").want(staged.PhaseProgressing, "c1 done, d1 starting")
	})
	t.Run("no groups at all", func(t *testing.T) {
		for _, kind := range []staged.OCMType{staged.OCMAll, staged.OCMProgressive, staged.OCMProgressivePerGroup} {
			stages, options, err := staged.FromOCM(staged.OCMStrategy{Type: kind}, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := newScene(t, stages, options, nil, "d1").step(staged.Input{Removed: []string{"d1"}})
			if s.run.Phase() != staged.PhaseSucceeded {
				t.Errorf("%s: what leaves can be removed without any group: %s", kind, s.run)
			}
		}
	})
	t.Run("faults", func(t *testing.T) {
		config := staged.OCMConfig{MaxFailures: concurrency.Percent(101), ProgressDeadline: "1d", MinSuccessTime: "None", MandatoryDecisionGroups: []staged.MandatoryGroup{{GroupName: "z"}}}
		said := ""
		for _, c := range []struct {
			strategy staged.OCMStrategy
			groups   []staged.DecisionGroup
			want     []staged.Code
		}{
			{staged.OCMStrategy{Type: "Sometimes"}, nil, []staged.Code{staged.CodeOCMType}},
			{staged.OCMStrategy{Type: staged.OCMProgressive, All: &staged.OCMConfig{}}, nil, []staged.Code{staged.CodeOCMType}},
			{staged.OCMStrategy{All: &staged.OCMConfig{MaxConcurrency: concurrency.Count(1), MandatoryDecisionGroups: []staged.MandatoryGroup{}}}, nil, []staged.Code{staged.CodeOCMType, staged.CodeOCMType}},
			{staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: &config}, nil, []staged.Code{staged.CodeDuration, staged.CodeDuration, staged.CodeMaxFailures, staged.CodeDecisionGroup}},
			{staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: &staged.OCMConfig{ProgressDeadline: "0s"}}, nil, []staged.Code{staged.CodeDuration}},
			{staged.OCMStrategy{}, []staged.DecisionGroup{{Clusters: []string{"a", ""}}, {Clusters: []string{"a"}}}, []staged.Code{staged.CodeDecisionGroup, staged.CodeDecisionGroup}},
		} {
			_, _, err := staged.FromOCM(c.strategy, c.groups)
			if !slices.Equal(rules(err), c.want) {
				t.Errorf("%+v: %v", c.strategy, err)
				continue
			}
			in, _ := json.Marshal(c.strategy)
			said += refusal(string(in), err)
		}
		golden.Check(t, "ocm.txt", said)
		// What is told to write instead is accepted, and what is wrong is told, whichever field it is.
		for _, c := range []struct{ deadline, soak, want string }{
			{"none", "", `progressive.progressDeadline: "none": write None, with a capital N, where no limit is meant`},
			{"", "none", `progressive.minSuccessTime: "none": must be digits and one of the units s, m and h, such as 90m`},
			{"1d", "", `progressive.progressDeadline: "1d": must be digits and one of the units s, m and h, such as 90m`},
			{"9999999h", "", `progressive.progressDeadline: "9999999h": is longer than 292 years: write None where no limit is meant`},
			{"", "9999999h", `progressive.minSuccessTime: "9999999h": is longer than 292 years`},
		} {
			if _, _, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: &staged.OCMConfig{ProgressDeadline: c.deadline, MinSuccessTime: c.soak}}, nil); err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		}
		// Clients written in Go store a zero where their user sets nothing: it is told what it means.
		for _, none := range []concurrency.Limit{concurrency.Count(0), concurrency.Percent(0)} {
			_, _, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressive, Progressive: &staged.OCMConfig{MaxConcurrency: none}}, nil)
			const want = "; leave it out for all clusters, which is what 0 means to Open Cluster Management"
			if !slices.Equal(rules(err), []staged.Code{staged.CodeMaxConcurrency}) || !strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), "1 to ") {
				t.Errorf("%s: %v", none, err)
			}
		}
		for text, rule := range map[string]staged.Code{`{"progressive": {"maxConcurrency": "x"}}`: staged.CodeMaxConcurrency, `{"all": {"maxFailures": "5"}}`: staged.CodeMaxFailures, `{"tipe": "All"}`: staged.CodeUnknownField} {
			var strategy staged.OCMStrategy
			if err := json.Unmarshal([]byte(text), &strategy); !slices.Equal(rules(err), []staged.Code{rule}) {
				t.Errorf("%s: %v", text, err)
			}
		}
		// An example of Open Cluster Management's documentation has a field that its API has not.
		const documented = `{"rolloutType": "Progressive", "progressive": {"minSuccessTime": "5m", "progressDeadline": "10m", "maxFailures": "5%", "mandatoryDecisionGroups": [{"groupName": "prod-canary-west"}]}}`
		if err := json.Unmarshal([]byte(documented), new(staged.OCMStrategy)); err == nil || err.Error() != "rolloutType: unknown field: write type" {
			t.Error(err)
		}
		// What earlier versions had, what is around a strategy, and what is at the wrong place.
		const below = ": unknown field; it stands below all, progressive or progressivePerGroup"
		for _, c := range []struct{ why, text, want string }{
			{"the first versions had a timeout of all clusters", `{"type": "All", "all": {"timeout": "None"}}`, "all.timeout: unknown field: write progressDeadline"},
			{"the proposal named the groups alone", `{"type": "ProgressivePerGroup", "progressivePerGroup": {"mandatoryDecisionGroups": ["canary"]}}`, "progressivePerGroup.mandatoryDecisionGroups[0]: must be an object, not a string: write its name as groupName"},
			{"a number in there is no name", `{"progressive": {"mandatoryDecisionGroups": [{"groupIndex": "0"}]}}`, "progressive.mandatoryDecisionGroups[0].groupIndex: must be a whole number, not a string: leave the quotes out"},
			{"settings beside the type", `{"type": "Progressive", "maxConcurrency": "25%", "timeout": "1h"}`, "maxConcurrency" + below + "\ntimeout" + below},
			{"the entry of a placement reference", `{"rolloutStrategy": {"type": "All"}}`, "rolloutStrategy: unknown field: decode what is below it"},
			{"a whole ManifestWorkReplicaSet", `{"kind": "ManifestWorkReplicaSet", "spec": {"placementRefs": []}}`, "kind: unknown field\nspec: unknown field: decode what is below a rolloutStrategy in it"},
			{"that it is there twice is another fault", `{"rolloutType": "All", "rolloutType": "All", "all": {"timeout": "1h", "timeout": "2h"}}`, "rolloutType: unknown field: write type\nrolloutType: given twice\nall.timeout: unknown field: write progressDeadline\nall.timeout: given twice"},
			{"a timeout that is nobody's", `{"progressive": {"mandatoryDecisionGroups": [{"timeout": "1h"}]}}`, "progressive.mandatoryDecisionGroups[0].timeout: unknown field"},
		} {
			if err := json.Unmarshal([]byte(c.text), new(staged.OCMStrategy)); err == nil || err.Error() != c.want {
				t.Errorf("%s: got\n%v\nwant\n%s", c.why, err, c.want)
			}
		}
		// What the server fills in where its user writes nothing is what that means.
		var filled staged.OCMStrategy
		if err := json.Unmarshal([]byte(`{"type": "All", "all": {"maxFailures": 0, "minSuccessTime": "0", "progressDeadline": "None"}}`), &filled); err != nil {
			t.Fatal(err)
		}
		groups := []staged.DecisionGroup{{Clusters: []string{"a", "b"}}}
		gotStages, gotOptions, err := staged.FromOCM(filled, groups)
		wantStages, wantOptions, _ := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMAll}, groups)
		wantStages.ProgressDeadline = staged.None() // the zero value in other words
		if err != nil || !reflect.DeepEqual(gotStages, wantStages) || !reflect.DeepEqual(gotOptions, wantOptions) {
			t.Errorf("got %+v, %+v, %v, want %+v, %+v", gotStages, gotOptions, err, wantStages, wantOptions)
		}
	})
}
