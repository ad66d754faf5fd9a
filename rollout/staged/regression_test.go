package staged_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestRegressions is the life of one done target that is looked at again and again.
func TestRegressions(t *testing.T) {
	stage := all("only", 1)
	stage.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	see := func(version string, health staged.Health) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: "c1", Version: version, Health: health}}}
	}
	for _, in := range []staged.Input{{}, see("v2", staged.HealthReady)} {
		run, _ = step(t, run, in, benchStart)
	}
	regressed := func(why staged.Reason) []staged.Event {
		return []staged.Event{{Kind: staged.EventRegressed, Stage: 0, Target: "c1", Reason: why}}
	}
	recovered := []staged.Event{{Kind: staged.EventRecovered, Stage: 0, Target: "c1"}}
	for _, row := range []struct {
		why     string
		version string
		health  staged.Health
		want    []staged.Event
	}{
		{"it is still ready", "v2", staged.HealthReady, nil},
		{"it is failing", "v2", staged.HealthFailing, regressed(staged.ReasonUnhealthy)},
		{"that is known", "v2", staged.HealthFailing, nil},
		{"it has failed for good, which is another cause", "v2", staged.HealthFailed, regressed(staged.ReasonReported)},
		{"progress is not yet readiness", "v2", staged.HealthProgressing, nil},
		{"it is ready, and nobody says of which version: it was ours all the time", "", staged.HealthReady, recovered},
		{"it is at another version", "v3", staged.HealthReady, regressed(staged.ReasonSuperseded)},
		{"it is ready, and nobody says of which version: it may be the other one", "", staged.HealthReady, nil},
		{"it is back", "v2", staged.HealthReady, recovered},
	} {
		var result staged.Result
		if run, result = step(t, run, see(row.version, row.health), benchStart); !slices.Equal(result.Events, row.want) {
			t.Errorf("%s: got %v, want %v", row.why, result.Events, row.want)
		}
	}
}

// TestRegressionsBlock: by default a regressed target keeps the tasks behind its own stage open,
// and nothing else; if all done targets are always looked at, it keeps every stage from closing,
// tasks or not.
func TestRegressionsBlock(t *testing.T) {
	for verify, want := range map[staged.Choice]staged.Phase{staged.DuringWait: staged.PhaseSucceeded, staged.Never: staged.PhaseSucceeded, staged.Always: staged.PhaseWaiting} {
		var stages []staged.Stage
		for _, ring := range []string{"a", "b"} {
			stage := all(ring, 1)
			stage.LabelSelector.MatchLabels = map[string]string{"ring": ring}
			stages = append(stages, stage)
		}
		s := newScene(t, staged.Strategy{Stages: stages}, staged.Options{VerifyDone: verify}, []string{"a1", "b1"}).see(staged.HealthReady, "a1").see(staged.HealthFailing, "a1").see(staged.HealthReady, "b1")
		if s.run.Phase() != want {
			t.Errorf("%s: %s", verify, s.run)
		}
		if verify != staged.Always {
			continue
		}
		if v, _ := s.run.Waits(); !slices.Contains(v.On, staged.Condition{Kind: staged.OnObservation, Stage: 0, Target: "a1"}) {
			t.Errorf("it is to be observed in its own stage: %+v", v.On)
		}
		if s.see(staged.HealthReady, "a1"); s.run.Phase() != staged.PhaseSucceeded {
			t.Errorf("it is ready again: %s", s.run)
		}
	}
}

// TestRegressionsBlockAfterARestart: a regressed target of an earlier stage is counted when the run
// is read back, and still keeps every stage from closing.
func TestRegressionsBlockAfterARestart(t *testing.T) {
	var stages []staged.Stage
	for _, ring := range []string{"a", "b"} {
		stage := all(ring, 1)
		stage.LabelSelector.MatchLabels = map[string]string{"ring": ring}
		stages = append(stages, stage)
	}
	s := newScene(t, staged.Strategy{Stages: stages}, staged.Options{VerifyDone: staged.Always}, []string{"a1", "b1"}).see(staged.HealthReady, "a1").see(staged.HealthFailing, "a1")
	back := new(staged.Run)
	if err := json.Unmarshal(encode(t, s.run), back); err != nil {
		t.Fatal(err)
	}
	s.run = back
	s.see(staged.HealthReady, "b1").want(staged.PhaseWaiting, "a1 done regressed (unhealthy), b1 done")
	if s.see(staged.HealthReady, "a1"); s.run.Phase() != staged.PhaseSucceeded {
		t.Errorf("it is ready again: %s", s.run)
	}
}

// TestRegressionsThatNobodyMarks: a stored run has no regressed target if its options mark none. It
// would neither block nor recover, and a damaged run must not be read as if it were whole.
func TestRegressionsThatNobodyMarks(t *testing.T) {
	options := staged.Options{VerifyDone: staged.Always, OnRegression: staged.Block}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, options, []string{"c1", "c2"}).see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1")
	for _, row := range []struct {
		why, old, new string
		fault         bool
	}{
		{"a regressed target blocks", `"block"`, `"block"`, false},
		{"during the wait it blocks as well", `"always"`, `"duringWait"`, false},
		{"nobody looks at done targets", `"always"`, `"never"`, true},
		{"a regression is only told", `"block"`, `"note"`, true},
		{"a regressed target has failed", `"block"`, `"fail"`, true},
	} {
		stored := string(encode(t, s.run))
		if strings.Count(stored, row.old) != 1 {
			t.Fatalf("%s: not once in %s", row.old, stored)
		}
		err := json.Unmarshal([]byte(strings.Replace(stored, row.old, row.new, 1)), new(staged.Run))
		if row.fault != (err != nil && strings.Contains(err.Error(), "the options mark none")) || !row.fault && err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestRegressionsWhileUpdating: a done target of the current stage is looked at while others are
// still being updated, too, unless never is said.
func TestRegressionsWhileUpdating(t *testing.T) {
	for verify, want := range map[staged.Choice]string{staged.DuringWait: "c1 done regressed (unhealthy), c2 starting", staged.Always: "c1 done regressed (unhealthy), c2 starting", staged.Never: "c1 done, c2 starting"} {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{VerifyDone: verify}, []string{"c1", "c2"})
		s.see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1").want(staged.PhaseProgressing, want)
	}
}

// TestRegressionsStopNobody: unless a regression counts as a failure, the other targets of the
// stage start all the same. Whether what fails after its update stops others is asked in
// moby/swarmkit#1380.
func TestRegressionsStopNobody(t *testing.T) {
	for choice, want := range map[staged.Choice]string{staged.Block: "c1 done regressed (unhealthy), c2 done, c3 starting", staged.Note: "c1 done, c2 done, c3 starting", staged.Fail: "c1 failed (unhealthy), c2 done, c3"} {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{OnRegression: choice}, []string{"c1", "c2", "c3"}).see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1").see(staged.HealthReady, "c2")
		phase := staged.PhaseProgressing
		if choice == staged.Fail {
			phase = staged.PhaseFailed
		}
		s.want(phase, want)
	}
}

// TestRegressionsOfLeavingTargets: that a done target is to be removed later changes nothing in its
// stage. What regressed there recovers when it is ready again, or is skipped; otherwise the stage
// would not close, and the removal that waits behind it would never begin.
func TestRegressionsOfLeavingTargets(t *testing.T) {
	stage := all("only", 1)
	stage.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	compiled, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf("c1"), staged.Options{LateLeaving: staged.Clean})
	if err != nil {
		t.Fatal(err)
	}
	see := func(version string, health staged.Health, token staged.Token) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: "c1", Version: version, Health: health, Token: token}}}
	}
	leaving := staged.Input{Leaving: []string{"c1"}}
	approve := staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: compiled.Spec().Name, Stage: 0, Side: staged.After}}}
	run, result := step(t, compiled, staged.Input{}, benchStart)
	start := result.Actions[0].Token
	for _, row := range []struct {
		why    string
		inputs []staged.Input
		closes bool
	}{
		{"it failed before it was to leave, and is ready again", []staged.Input{see("v2", staged.HealthFailing, staged.Token{}), leaving, see("v2", staged.HealthReady, staged.Token{})}, true},
		{"what was seen after its start speaks of it", []staged.Input{see("v2", staged.HealthFailing, staged.Token{}), leaving, see("v2", staged.HealthReady, start)}, true},
		{"it fails afterwards: the version may be to blame", []staged.Input{leaving, see("v2", staged.HealthFailing, staged.Token{})}, false},
		{"it fails afterwards, and somebody skips it", []staged.Input{leaving, see("v2", staged.HealthFailing, staged.Token{}), {Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}}, true},
	} {
		run, _ := step(t, run, see("v2", staged.HealthReady, staged.Token{}), benchStart)
		for _, in := range append(row.inputs, approve) {
			var result staged.Result
			run, result = step(t, run, in, benchStart)
			if slices.ContainsFunc(result.Events, func(e staged.Event) bool { return e.Kind == staged.EventObservationIgnored }) {
				t.Errorf("%s: what was taken is said to be ignored: %v", row.why, result.Events)
			}
		}
		if closes := run.Current() > 0; closes != row.closes {
			t.Errorf("%s: closes %v\n%s", row.why, closes, run)
		}
	}
}

// TestNoRegressionByRemoval: a target that is being removed, or is gone, is not healthy any more.
// That says nothing about the version, and its stage is not looked at for it.
func TestNoRegressionByRemoval(t *testing.T) {
	gated := staged.DeleteStage{BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}
	failing := staged.Observation{Target: "c1", Version: "v3", Health: staged.HealthFailing}
	gone := failing
	gone.Gone = true
	for _, row := range []struct {
		why     string
		ready   string // besides c1
		cleanup staged.DeleteStage
		seen    []staged.Observation
		want    string
	}{
		{"the cleanup is still to come: the version may be to blame", "", staged.DeleteStage{}, []staged.Observation{failing}, "c1 failed (superseded), c2 starting, c1"},
		{"it is gone before: it was healthy while it was there", "", staged.DeleteStage{}, []staged.Observation{gone}, "c1 done, c2 starting, c1 done"},
		{"it was gone, and what has its name since is another target", "", staged.DeleteStage{}, []staged.Observation{gone, failing}, "c1 done, c2 starting, c1 done"},
		{"somebody is asked whether it may be removed", "c2", gated, []staged.Observation{failing}, "c1 done, c2 done, c1"},
		{"it is being removed", "c2", staged.DeleteStage{}, []staged.Observation{failing}, "c1 done, c2 done, c1 starting"},
	} {
		options := staged.Options{LateLeaving: staged.Clean, VerifyDone: staged.Always, OnRegression: staged.Fail}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}, DeleteStage: row.cleanup}, options, []string{"c1", "c2"})
		s.see(staged.HealthReady, "c1").step(staged.Input{Leaving: []string{"c1"}})
		if row.ready != "" {
			s.see(staged.HealthReady, row.ready)
		}
		for _, seen := range row.seen {
			s.step(staged.Input{Observations: []staged.Observation{seen}})
		}
		var got []string
		for k := range 2 {
			for target := range s.run.Targets(k) {
				got = append(got, target.String())
			}
		}
		if have := strings.Join(got, ", "); have != row.want {
			t.Errorf("%s: %s, want %s", row.why, have, row.want)
		}
	}
}

// TestRegressionsBehind: a member that regressed in a stage without after-tasks does not keep that
// from closing, and nobody is told to wait for it later: with duringWait it is not looked at any
// more.
func TestRegressionsBehind(t *testing.T) {
	first, second := all("first", 1), all("second", 1)
	first.LabelSelector.MatchLabels, second.LabelSelector.MatchLabels = map[string]string{"ring": "a"}, map[string]string{"ring": "b"}
	second.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{first, second}}, staged.Options{}, []string{"a1", "a2", "b1"})
	s.see(staged.HealthReady, "a1").see(staged.HealthFailing, "a1").see(staged.HealthReady, "a2").see(staged.HealthReady, "b1").see(staged.HealthFailing, "b1").after(time.Hour).step(staged.Input{})
	s.want(staged.PhaseWaiting, "a1 done regressed (unhealthy), a2 done, b1 done regressed (unhealthy)")
	if v, ok := s.run.Waits(); !ok || v.Reason != staged.ReasonRegression || !slices.Equal(v.Data.Names, []string{"b1"}) || v.Data.Total != 1 ||
		!slices.Contains(v.On, staged.Condition{Kind: staged.OnObservation, Stage: 1, Target: "b1"}) {
		t.Errorf("got %s, on %+v", v, v.On)
	}
	if s.see(staged.HealthReady, "b1"); s.run.Phase() != staged.PhaseSucceeded {
		t.Error(s.run)
	}
}

// TestRegressionOfGone: a regressed target that was to be removed and is gone is not looked at any
// more, so nobody is told that an observation would help.
func TestRegressionOfGone(t *testing.T) {
	s := newScene(t, waiting(time.Hour, all("only", 2)), staged.Options{LateLeaving: staged.Clean}, []string{"c1", "c2"})
	s.see(staged.HealthReady, "c1", "c2").see(staged.HealthFailing, "c1", "c2").after(time.Hour).step(staged.Input{Leaving: []string{"c1"}})
	for _, want := range []string{
		"regression: c1, c2, waits for an operator to skip or an observation of c1 and c2",
		"regression: c1, c2, waits for an operator to skip or an observation of c2",
	} {
		if v, _ := s.run.Waits(); v.String() != want {
			t.Errorf("got  %s\nwant %s", v, want)
		}
		s.step(staged.Input{Observations: []staged.Observation{{Target: "c1", Gone: true}}})
	}
}
