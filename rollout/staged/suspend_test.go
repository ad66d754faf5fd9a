package staged_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// suspend and resume are commands of ann for each of the targets.
func suspend(names ...string) staged.Input { return ofAnn(staged.CommandSuspend, names...) }
func resume(names ...string) staged.Input  { return ofAnn(staged.CommandResume, names...) }

func ofAnn(kind staged.CommandKind, names ...string) (in staged.Input) {
	for _, name := range names {
		in.Commands = append(in.Commands, staged.Command{Kind: kind, Target: name, By: "ann", Reason: "closed"})
	}
	return in
}

const byAnn = " (by ann at 2026-03-10T08:00:00Z: closed)"

// TestSuspend: one row per thing that becomes of a target that is not to be started for now, and of
// the others. All inputs are given at one instant, after a first step.
func TestSuspend(t *testing.T) {
	see := func(health staged.Health, names ...string) (in staged.Input) {
		for _, name := range names {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
		}
		return in
	}
	both := func(parts ...staged.Input) (in staged.Input) {
		for _, part := range parts {
			in.Commands = append(in.Commands, part.Commands...)
			in.Observations = append(in.Observations, part.Observations...)
			in.State += part.State
		}
		return in
	}
	tell := func(kind staged.CommandKind, name string, attempt int) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: kind, Target: name, Attempt: attempt}}}
	}
	approve := func(side staged.Side) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: side}}}
	}
	ready, failed := staged.HealthReady, staged.HealthFailed
	stop, run := staged.Input{State: staged.StateStop}, staged.Input{State: staged.StateRun}
	prod := staged.Stage{Name: "prod", Targets: []string{"p1", "p2"}}
	lax := all("only", 1)
	lax.MaxFailures = concurrency.Count(9)
	gated, waits := all("only", 1), all("only", 1)
	gated.BeforeStageTasks, gated.AfterStageTasks = []staged.Task{{Type: staged.Approval}}, []staged.Task{{Type: staged.Approval}}
	waits.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}}
	hurried := all("only", 1)
	hurried.ProgressDeadline, hurried.MinSuccessTime = staged.For(time.Hour), staged.For(time.Minute)
	for _, row := range []struct {
		why     string
		stages  []staged.Stage // one of all targets, one at a time, if empty
		options staged.Options
		leaving []string
		inputs  []staged.Input
		phase   staged.Phase
		targets string // of the current stage and those before
		ignored []staged.Reason
		waits   string // unless the run is over
		next    time.Duration
	}{
		{why: "the one behind it goes ahead of it", inputs: []staged.Input{suspend("c2"), see(ready, "c1")},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 suspended" + byAnn + ", c3 starting", waits: "slot, 1 of 1 in progress: c3, waits for a target to be settled", next: 5 * time.Minute},
		{why: "all that is left of the stage is suspended: the run waits, without an instant", inputs: []staged.Input{suspend("c2"), see(ready, "c1"), see(ready, "c3")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 suspended" + byAnn + ", c3 done", waits: "suspended: c2" + byAnn + ", waits for an operator to resume or skip"},
		{why: "of two it is said who they are", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c2, c3, waits for an operator to resume or skip"},
		{why: "it has no deadline and no soak while it is", stages: []staged.Stage{hurried}, inputs: []staged.Input{suspend("c2", "c3"), tell(staged.CommandSkip, "c1", 0)},
			phase: staged.PhaseWaiting, targets: "c1 skipped, c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c2, c3, waits for an operator to resume or skip"},
		{why: "resumed, it starts at once", inputs: []staged.Input{suspend("c2"), see(ready, "c1"), see(ready, "c3"), resume("c2")},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 starting, c3 done", waits: "slot, 1 of 1 in progress: c2, waits for a target to be settled", next: 5 * time.Minute},
		{why: "resumed while the slot is taken, it is before those that it is before in the order", inputs: []staged.Input{suspend("c2"), resume("c2"), see(ready, "c1")},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 starting, c3", waits: "slot, 1 of 1 in progress: c2, waits for a target to be settled", next: 5 * time.Minute},
		{why: "suspended in the step that frees the slot, it does not get it", inputs: []staged.Input{both(suspend("c2"), see(ready, "c1"))},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 suspended" + byAnn + ", c3 starting", waits: "slot, 1 of 1 in progress: c3, waits for a target to be settled", next: 5 * time.Minute},
		{why: "nobody gives a reason, so that only the time is known", inputs: []staged.Input{tell(staged.CommandSuspend, "c2", 0), see(ready, "c1"), see(ready, "c3")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 suspended (at 2026-03-10T08:00:00Z), c3 done", waits: "suspended: c2 (at 2026-03-10T08:00:00Z), waits for an operator to resume or skip"},
		{why: "twice changes nothing, not even who said so", inputs: []staged.Input{suspend("c2"), tell(staged.CommandSuspend, "c2", 0)}, ignored: []staged.Reason{staged.ReasonAlready},
			phase: staged.PhaseProgressing, targets: "c1 starting, c2 suspended" + byAnn + ", c3", waits: "slot, 1 of 1 in progress: c1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "who says so after it was resumed is another one", inputs: []staged.Input{suspend("c2"), resume("c2"), tell(staged.CommandSuspend, "c2", 0)},
			phase: staged.PhaseProgressing, targets: "c1 starting, c2 suspended (at 2026-03-10T08:00:00Z), c3", waits: "slot, 1 of 1 in progress: c1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "resuming who is not suspended changes nothing, whatever becomes of it", inputs: []staged.Input{resume("c1", "c2")}, ignored: []staged.Reason{staged.ReasonAlready, staged.ReasonAlready},
			phase: staged.PhaseProgressing, targets: "c1 starting, c2, c3", waits: "slot, 1 of 1 in progress: c1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "what has been started cannot be called back", inputs: []staged.Input{suspend("c1")}, ignored: []staged.Reason{staged.ReasonNotWaiting},
			phase: staged.PhaseProgressing, targets: "c1 starting, c2, c3", waits: "slot, 1 of 1 in progress: c1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "nor what is done or skipped", inputs: []staged.Input{tell(staged.CommandSkip, "c2", 0), see(ready, "c1"), suspend("c1", "c2")}, ignored: []staged.Reason{staged.ReasonNotWaiting, staged.ReasonNotWaiting},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 skipped, c3 starting", waits: "slot, 1 of 1 in progress: c3, waits for a target to be settled", next: 5 * time.Minute},
		{why: "nobody has that name", inputs: []staged.Input{both(suspend("c9"), resume("c9"))}, ignored: []staged.Reason{staged.ReasonUnknownTarget, staged.ReasonUnknownTarget},
			phase: staged.PhaseProgressing, targets: "c1 starting, c2, c3", waits: "slot, 1 of 1 in progress: c1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "a failed one is not suspended before its retry", stages: []staged.Stage{lax}, inputs: []staged.Input{see(failed, "c1"), both(suspend("c1"), tell(staged.CommandRetry, "c1", 1))}, ignored: []staged.Reason{staged.ReasonNotWaiting},
			phase: staged.PhaseProgressing, targets: "c1 attempt 2, c2 starting, c3", waits: "slot, 1 of 1 in progress: c2, waits for a target to be settled", next: 5 * time.Minute},
		{why: "but after it, in the same step: no slot is free in between", stages: []staged.Stage{lax}, inputs: []staged.Input{see(failed, "c1"), both(tell(staged.CommandRetry, "c1", 1), suspend("c1"))},
			phase: staged.PhaseProgressing, targets: "c1 suspended" + byAnn + " attempt 2, c2 starting, c3", waits: "slot, 1 of 1 in progress: c2, waits for a target to be settled", next: 5 * time.Minute},
		{why: "and it keeps its place before those that never started", stages: []staged.Stage{lax}, inputs: []staged.Input{see(failed, "c1"), both(tell(staged.CommandRetry, "c1", 1), suspend("c1")), resume("c1"), see(ready, "c2")},
			phase: staged.PhaseProgressing, targets: "c1 starting attempt 2, c2 done, c3", waits: "slot, 1 of 1 in progress: c1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "a retry takes back a stage that waits, and the suspension keeps it there", stages: []staged.Stage{func() staged.Stage { s := waits; s.MaxFailures = concurrency.Count(1); return s }()},
			inputs: []staged.Input{see(failed, "c1"), see(ready, "c2"), see(ready, "c3"), both(tell(staged.CommandRetry, "c1", 1), suspend("c1"))},
			phase:  staged.PhaseWaiting, targets: "c1 suspended" + byAnn + " attempt 2, c2 done, c3 done", waits: "suspended: c1" + byAnn + ", waits for an operator to resume or skip"},
		{why: "who is skipped is suspended no more", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), both(tell(staged.CommandSkip, "c2", 0), tell(staged.CommandResume, "c2", 0))}, ignored: []staged.Reason{staged.ReasonAlready},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 skipped, c3 suspended" + byAnn, waits: "suspended: c3" + byAnn + ", waits for an operator to resume or skip"},
		{why: "the last one is skipped", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), both(tell(staged.CommandSkip, "c2", 0), tell(staged.CommandSkip, "c3", 0))},
			phase: staged.PhasePartiallySucceeded, targets: "c1 done, c2 skipped, c3 skipped"},
		{why: "who leaves holds up nobody", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), {Removed: []string{"c2"}, Leaving: []string{"c3"}}},
			phase: staged.PhaseSucceeded, targets: "c1 done, c2 removed, c3 removed"},
		{why: "what needs no start is done: somebody else has brought it there", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), see(ready, "c2")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 done, c3 suspended" + byAnn, waits: "suspended: c3" + byAnn + ", waits for an operator to resume or skip"},
		{why: "but not before its stage begins", stages: []staged.Stage{gated}, inputs: []staged.Input{both(suspend("c2"), see(ready, "c2"))},
			phase: staged.PhaseWaiting, targets: "c1, c2 current suspended" + byAnn + ", c3", waits: "approval, waits for the approval run-before-only"},
		{why: "another version clears one mark and not the other", stages: []staged.Stage{gated}, inputs: []staged.Input{both(suspend("c2"), see(ready, "c2")), {Observations: []staged.Observation{{Target: "c2", Version: "v1", Health: ready}}}},
			phase: staged.PhaseWaiting, targets: "c1, c2 suspended" + byAnn + ", c3", waits: "approval, waits for the approval run-before-only"},
		{why: "a stage of which all are suspended begins, and waits", stages: []staged.Stage{gated}, inputs: []staged.Input{suspend("c1", "c2", "c3"), approve(staged.Before)},
			phase: staged.PhaseWaiting, targets: "c1 suspended" + byAnn + ", c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c1, c2, c3, waits for an operator to resume or skip"},
		{why: "no approval behind the stage is asked for before the last is settled", stages: []staged.Stage{gated}, inputs: []staged.Input{both(approve(staged.Before), suspend("c2", "c3")), see(ready, "c1")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c2, c3, waits for an operator to resume or skip"},
		{why: "nor does the wait begin", stages: []staged.Stage{waits}, inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c2, c3, waits for an operator to resume or skip"},
		{why: "the stage behind does not begin before", stages: []staged.Stage{{Name: "test", Targets: []string{"c1", "c2", "c3"}}, prod}, inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), resume("c2"), see(ready, "c2")},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 done, c3 suspended" + byAnn, waits: "suspended: c3" + byAnn + ", waits for an operator to resume or skip"},
		{why: "one of a later stage is suspended before its turn", stages: []staged.Stage{{Name: "test", Targets: []string{"c1", "c2", "c3"}, MaxConcurrency: concurrency.Count(3)}, prod}, inputs: []staged.Input{suspend("p1"), see(ready, "c1", "c2", "c3")},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 done, c3 done, p1 suspended" + byAnn + ", p2 starting", waits: "slot, 1 of 1 in progress: p2, waits for a target to be settled", next: 5 * time.Minute},
		{why: "during a stop it is recorded", inputs: []staged.Input{stop, suspend("c2"), see(ready, "c1")},
			phase: staged.PhaseStopped, targets: "c1 done, c2 suspended" + byAnn + ", c3", waits: "stopped, waits for an operator to set state Run"},
		{why: "and has its effect with Run", inputs: []staged.Input{stop, suspend("c2", "c3"), see(ready, "c1"), both(run, resume("c3"))},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 suspended" + byAnn + ", c3 starting", waits: "slot, 1 of 1 in progress: c3, waits for a target to be settled", next: 5 * time.Minute},
		{why: "a run that waits for nobody else is stopped at once, and waits again", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), stop, run},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c2, c3, waits for an operator to resume or skip"},
		{why: "while the run is held", options: staged.Options{OnFailure: staged.Hold}, inputs: []staged.Input{see(failed, "c1"), suspend("c2", "c3")},
			phase: staged.PhaseHeld, targets: "c1 failed (reported_failed), c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "held (budget), 1 of at most 0 failed: c1, waits for an operator to skip, retry or cancel"},
		{why: "it is no failure: the skip that releases the run leaves them", options: staged.Options{OnFailure: staged.Hold}, inputs: []staged.Input{see(failed, "c1"), suspend("c2", "c3"), tell(staged.CommandSkip, "c1", 0)},
			phase: staged.PhaseWaiting, targets: "c1 skipped, c2 suspended" + byAnn + ", c3 suspended" + byAnn, waits: "suspended: c2, c3, waits for an operator to resume or skip"},
		{why: "while the run fails, like a skip", stages: []staged.Stage{all("only", 2)}, inputs: []staged.Input{see(failed, "c1"), suspend("c3")},
			phase: staged.PhaseFailing, targets: "c1 failed (reported_failed), c2 starting, c3 suspended" + byAnn, waits: "failing (budget), 1 of at most 0 failed: c1, settling until 2026-03-10T08:05:00Z, waits for a target to be settled", next: 5 * time.Minute},
		{why: "a run that fails does not wait for it", inputs: []staged.Input{suspend("c2", "c3"), see(failed, "c1")},
			phase: staged.PhaseFailed, targets: "c1 failed (reported_failed), c2 suspended" + byAnn + ", c3 suspended" + byAnn},
		{why: "nor does one that is cancelled", inputs: []staged.Input{suspend("c2", "c3"), see(ready, "c1"), tell(staged.CommandCancel, "", 0)},
			phase: staged.PhaseCancelled, targets: "c1 done, c2 suspended" + byAnn + ", c3 suspended" + byAnn},
		{why: "a removal waits, and the others do not", leaving: []string{"d1", "d2"}, stages: []staged.Stage{all("only", 3)}, inputs: []staged.Input{suspend("d1"), see(ready, "c1", "c2", "c3"), {Removed: []string{"d2"}}},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 done, c3 done, d1 suspended" + byAnn + ", d2 done", waits: "suspended: d1" + byAnn + ", waits for an operator to resume or skip"},
		{why: "and is made when it is resumed", leaving: []string{"d1"}, stages: []staged.Stage{all("only", 3)}, inputs: []staged.Input{suspend("d1"), see(ready, "c1", "c2", "c3"), resume("d1")},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 done, c3 done, d1 starting", waits: "slot, 1 of 1 in progress: d1, waits for a target to be settled", next: 5 * time.Minute},
		{why: "one that is gone by itself needs no command", leaving: []string{"d1"}, stages: []staged.Stage{all("only", 3)}, inputs: []staged.Input{suspend("d1"), see(ready, "c1", "c2", "c3"), {Observations: []staged.Observation{{Target: "d1", Gone: true}}}},
			phase: staged.PhaseSucceeded, targets: "c1 done, c2 done, c3 done, d1 done"},
		{why: "who starts leaving while it is suspended is not removed either", options: staged.Options{LateLeaving: staged.Clean}, inputs: []staged.Input{suspend("c3"), {Leaving: []string{"c2", "c3"}}, see(ready, "c1"), {Removed: []string{"c2"}}},
			phase: staged.PhaseWaiting, targets: "c1 done, c2 removed, c3 removed, c2 done, c3 suspended" + byAnn, waits: "suspended: c3" + byAnn + ", waits for an operator to resume or skip"},
		{why: "and is, once it is resumed: a command means its present place", options: staged.Options{LateLeaving: staged.Clean}, inputs: []staged.Input{suspend("c3"), {Leaving: []string{"c3"}}, resume("c3"), see(ready, "c1"), see(ready, "c2")},
			phase: staged.PhaseProgressing, targets: "c1 done, c2 done, c3 removed, c3 starting", waits: "slot, 1 of 1 in progress: c3, waits for a target to be settled", next: 5 * time.Minute},
	} {
		if len(row.stages) == 0 {
			row.stages = []staged.Stage{all("only", 1)}
		}
		names := []string{"c1", "c2", "c3"}
		if len(row.stages) > 1 {
			names = append(names, "p1", "p2")
		}
		s := newScene(t, staged.Strategy{Stages: row.stages}, row.options, names, row.leaving...)
		for _, in := range row.inputs {
			s.step(in)
		}
		var shown []string
		for k := range min(s.run.Current()+1, len(row.stages)+1) {
			for target := range s.run.Targets(k) {
				shown = append(shown, target.String())
			}
		}
		waits := ""
		if v, _ := s.run.Waits(); !s.run.Phase().Terminal() {
			waits = v.String()
		}
		got := fmt.Sprint(s.run.Phase(), "\n", strings.Join(shown, ", "), "\n", s.ignored(), "\n", waits)
		if want := fmt.Sprint(row.phase, "\n", row.targets, "\n", row.ignored, "\n", row.waits); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.why, got, want)
		}
		if !s.run.Phase().Terminal() {
			s.left(row.next)
		}
		if text, again := s.run.String(), reread(t, s.run).String(); text != again {
			t.Errorf("%s: stored, the run is another one:\n%s\n%s", row.why, again, text)
		}
	}
}

// TestSuspendedBeforeTheStart: a prepared run takes the commands, and starts without those targets.
func TestSuspendedBeforeTheStart(t *testing.T) {
	spec := benchSpec()
	spec.State = staged.StateInitialize
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, spec, fleetOf("c1", "c2"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, run: run, now: benchStart, tokens: map[string]staged.Token{}}
	s.step(suspend("c1")).want(staged.PhaseInitialized, "c1 suspended"+byAnn+", c2")
	s.step(staged.Input{State: staged.StateRun}).want(staged.PhaseProgressing, "c1 suspended"+byAnn+", c2 starting")
}

// TestSuspendedVerdicts: a target says by itself that it is suspended, in whatever stage, unless the
// whole run is halted; those behind it say what its stage waits for.
func TestSuspendedVerdicts(t *testing.T) {
	test, prod := all("test", 1), all("prod", 1)
	test.LabelSelector.MatchLabels, prod.LabelSelector.MatchLabels = map[string]string{"ring": "c"}, map[string]string{"ring": "p"}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{test, prod}}, staged.Options{}, []string{"c1", "c2", "p1", "p2"}).step(suspend("c2", "p2"))
	look := func(want map[string]string) {
		t.Helper()
		for name, want := range want {
			if v, _ := s.run.Explain(name); v.String() != want {
				t.Errorf("%s:\ngot  %s\nwant %s", name, v, want)
			}
		}
	}
	own := "suspended: %s" + byAnn + ", waits for an operator to resume or skip"
	look(map[string]string{"c2": fmt.Sprintf(own, "c2"), "p1": "stage 0: slot, 1 of 1 in progress: c1, waits for a target to be settled", "p2": fmt.Sprintf(own, "p2")})
	s.see(staged.HealthReady, "c1")
	look(map[string]string{"c2": fmt.Sprintf(own, "c2"), "p1": "stage 0: " + fmt.Sprintf(own, "c2"), "p2": fmt.Sprintf(own, "p2")})
	v, _ := s.run.Explain("p2")
	data, err := json.Marshal(v)
	want := `{"status":"pending","reason":"suspended","on":[{"kind":"operator","stage":1,"detail":"resume or skip"}],` +
		`"data":{"position":1,"stage":1,"total":1,"names":["p2"],"decision":{"by":"ann","at":"2026-03-10T08:00:00Z","reason":"closed"}}}`
	if err != nil || string(data) != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, data, want)
	}
	v.Data.Decision.By, v.Data.Names[0] = "eve", "eve" // a copy
	status, _ := s.run.Target("p2")
	status.SuspendedBy.By = "eve"
	look(map[string]string{"p2": fmt.Sprintf(own, "p2")})
	s.step(staged.Input{State: staged.StateStop})
	look(map[string]string{"c2": "stopped, waits for an operator to set state Run", "p2": "stopped, waits for an operator to set state Run"})
}

// TestSuspendedEvents: each of the two commands is told with who gave it, and that the run waits.
func TestSuspendedEvents(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1", "c2"}).step(suspend("c2"))
	for _, want := range []string{
		"[suspended stage 0 c2" + byAnn + "]",
		"[target stage 0 c1 done run Waiting]",
		"[resumed stage 0 c2" + byAnn + " target stage 0 c2 starting run Progressing]",
	} {
		if got := fmt.Sprint(s.result.Events); got != want || !s.result.Changed {
			t.Errorf("got  %s, changed %t\nwant %s", got, s.result.Changed, want)
		}
		if s.run.Phase() == staged.PhaseProgressing {
			s.see(staged.HealthReady, "c1")
		} else {
			s.step(resume("c2"))
		}
	}
}

// TestStoredSuspensions pins how suspensions are stored: once for all targets that one command, or
// several alike, are about. A run without any is stored as before. What contradicts the rest of the
// run is refused.
func TestStoredSuspensions(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1", "c2", "c3", "c4"})
	s.step(suspend("c4", "c2")).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSuspend, Target: "c3"}}}).see(staged.HealthReady, "c1")
	const (
		first  = `{"members":[1,3],"is":{"by":"ann","at":"2026-03-10T08:00:00Z","reason":"closed"}}`
		second = `{"members":[2],"is":{"at":"2026-03-10T08:00:00Z"}}`
		column = `,"suspended":[` + first + `,` + second + `]`
	)
	text := string(encode(t, s.run))
	if !strings.Contains(text, column) {
		t.Fatalf("%s is not in\n%s", column, text)
	}
	const order = "stages[0].suspended[%d].members: must be ascending positions, each once in all decisions, the first after that of the decision before"
	for _, row := range []struct{ why, from, to, want string }{
		{"it is not said since when", `"at":"2026-03-10T08:00:00Z"}}]`, `"by":"ann"}}]`, "stages[0].suspended[1].is.at: must be there"},
		{"what is done is not suspended", `[1,3]`, `[0,3]`, "stages[0].suspended[0].members: must be waiting: position 0"},
		{"twice", `[2]`, `[3]`, fmt.Sprintf(order, 1)},
		{"out of order", first + `,` + second, second + `,` + first, fmt.Sprintf(order, 1)},
		{"nobody", `[2]`, `[]`, "stages[0].suspended[1].members: must name a member"},
		{"a position behind the last", `[1,3]`, `[1,4]`, fmt.Sprintf(order, 0)},
		{"a run that waits for suspended targets is not progressing", `"phase":"Waiting"`, `"phase":"Progressing"`,
			`phase: "Progressing" does not go with the state Run, current stage 0 (Updating) and its failures`},
		{"nobody is suspended, so that there is nothing to wait for", column, ``, `phase: "Waiting" does not go with the state Run, current stage 0 (Updating) and its failures`},
		{"and with one of them less, something can be started", first + `,` + second, first, `phase: "Waiting" does not go with the state Run, current stage 0 (Updating) and its failures`},
	} {
		if strings.Count(text, row.from) != 1 {
			t.Fatalf("%s: %s is not in\n%s", row.why, row.from, text)
		}
		err := json.Unmarshal([]byte(strings.Replace(text, row.from, row.to, 1)), new(staged.Run))
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s", row.why, err, row.want)
		}
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	unbegun := strings.Replace(string(encode(t, run)), `"states":"w"`, `"states":"w","suspended":[{"members":[0],"is":{"at":"2026-03-10T08:00:00Z"}}]`, 1)
	if err := json.Unmarshal([]byte(unbegun), new(staged.Run)); err == nil || err.Error() != "time: is missing, but stage 0 has begun" {
		t.Errorf("nobody has stepped: %v", err)
	}
	if s.step(resume("c2", "c3", "c4")); strings.Contains(string(encode(t, s.run)), "suspended") {
		t.Error(string(encode(t, s.run)))
	}
}

// TestConflictsOfSuspended: a suspended target is not settled, so that two runs can meet there.
func TestConflictsOfSuspended(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1", "c2"}).step(suspend("c2"))
	if both, err := staged.Conflicts(s.run, s.run); err != nil || !slices.Equal(both, []string{"c1", "c2"}) {
		t.Errorf("%v, %v", both, err)
	}
}

// TestSuspendedCostTheSame: suspended targets in front of those whose turn it is are not looked at,
// by no step and no verdict, however many there are.
func TestSuspendedCostTheSame(t *testing.T) {
	testkit.NeedCPUTime(t)
	of := func(n int) func() {
		const behind = 12
		var names []string
		for i := range n + behind {
			names = append(names, fmt.Sprintf("c%06d", i))
		}
		spec := benchSpec()
		spec.State = staged.StateInitialize
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, spec, fleetOf(names...), staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, _ = step(t, run, suspend(names[:n]...), benchStart)
		run, result := step(t, run, staged.Input{State: staged.StateRun}, benchStart)
		return func() {
			run, result := run, result
			for range behind {
				run, result = step(t, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)}, benchStart)
			}
			v, _ := run.Waits()
			if own, ok := run.Explain(names[n-1]); v.Data.Total != n || len(v.Data.Names) != 10 || !ok || own.Reason != staged.ReasonSuspended || run.Phase() != staged.PhaseWaiting {
				t.Fatalf("%s, %s", v, own)
			}
			_, result = step(t, run, resume(names[n/2]), benchStart)
			if len(result.Actions) != 1 || result.Actions[0].Target != names[n/2] {
				t.Fatal(result)
			}
		}
	}
	testkit.CompareCost(t, "suspended targets", 50, of(100), of(100_000))
}
