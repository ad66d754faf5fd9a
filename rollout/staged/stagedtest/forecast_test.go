package stagedtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

func forecast(t *testing.T, world stagedtest.World, samples stagedtest.Samples, trials int, seed uint64) stagedtest.Prediction {
	t.Helper()
	p, err := stagedtest.Forecast(context.Background(), world, samples, trials, seed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// ready returns samples that become ready after so many minutes.
func ready(list ...int) (outcomes []stagedtest.Outcome) {
	for _, n := range list {
		outcomes = append(outcomes, stagedtest.Outcome{After: minutes(n)})
	}
	return outcomes
}

// TestForecastOfOne: where all samples are alike, every trial is the world that follows them.
func TestForecastOfOne(t *testing.T) {
	t.Parallel()
	world := stagedtest.World{StagedRun: gated(t), Start: t0}
	p := forecast(t, world, stagedtest.Samples{
		Targets:   map[string][]stagedtest.Outcome{"first": ready(3, 3), "": ready(4)},
		Approvals: map[string][]stagedtest.Answer{"": {{After: minutes(7)}}},
	}, 5, 1)
	world.Approval = stagedtest.ApproveAfter(minutes(7))
	world.Target = func(action staged.Action) stagedtest.Outcome {
		if action.Stage == 0 {
			return stagedtest.Outcome{After: minutes(3)}
		}
		return stagedtest.Outcome{After: minutes(4)}
	}
	want := play(t, world)
	for _, trial := range p.Trials {
		if diff := cmp.Diff(stagedtest.Trial{Done: true, Phase: staged.PhaseSucceeded, Ended: want.Ended, Stages: want.Stages}, trial); diff != "" {
			t.Error(diff)
		}
	}
	if !want.Ended.Equal(t0.Add(minutes(7 + 3 + 3 + 30 + 4 + 4))) {
		t.Errorf("ended at %v", want.Ended)
	}
	if text := p.String(); text != strings.Join([]string{
		"5 trials from 2026-03-10 08:00:00 on",
		"done, earliest: 2026-03-10 08:51:00 (+51m)",
		"done, median:   2026-03-10 08:51:00 (+51m)",
		"done, 90 %:     2026-03-10 08:51:00 (+51m)",
		"done, latest:   2026-03-10 08:51:00 (+51m)",
		"not done: 0 %",
		"stage                            closed, median  90 %  at once, at most",
		"first                            +43m            +43m  1",
		"second                           +47m            +47m  2",
		"kubernetes-fleet.io/deleteStage  +51m            +51m  1",
	}, "\n") {
		t.Error(text)
	}
}

// TestForecastOfAttempts: a retry draws anew: of a sample that fails and one that does not, three
// attempts fail in one trial of eight.
func TestForecastOfAttempts(t *testing.T) {
	t.Parallel()
	run := compile(t, staged.Strategy{Stages: []staged.Stage{stage("one", 1, "a")}}, fleet("a"), staged.Options{OnFailure: staged.Hold})
	world := stagedtest.World{StagedRun: run, Start: t0, React: func(run *staged.Run, _ staged.Result, now time.Time) (changes []stagedtest.Change) {
		if a, _ := run.Target("a"); a.State == staged.Failed && a.Attempt < 3 {
			changes = append(changes, stagedtest.Give(now.Add(time.Minute), staged.Command{Kind: staged.CommandRetry, Target: "a", Attempt: a.Attempt}))
		}
		return changes
	}}
	samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": append(ready(1), stagedtest.Outcome{After: time.Minute, Health: staged.HealthFailed})}}
	if got := forecast(t, world, samples, 2000, 1).Halted(); math.Abs(got-0.125) > 0.03 {
		t.Errorf("halted: %v", got)
	}
}

// TestForecastWithoutSamples: stages without samples follow the world, in what is found at the start
// as well.
func TestForecastWithoutSamples(t *testing.T) {
	t.Parallel()
	world := stagedtest.World{StagedRun: gated(t), Start: t0, Approval: stagedtest.ApproveAfter(minutes(30)), Target: stagedtest.ReadyAfter(minutes(4))}
	samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"second": ready(9)}, Approvals: map[string][]stagedtest.Answer{"second": {{After: minutes(9)}}}}
	want := t0.Add(minutes(30 + 4 + 4 + 30 + 9 + 4))
	for _, cut := range []int{-1, 0, 10, 31, 40, 79} {
		if cut >= 0 {
			world.Start = t0
			world.End = t0.Add(minutes(cut))
			begun := world
			begun.StagedRun = gated(t)
			begun.Target = func(action staged.Action) stagedtest.Outcome {
				return stagedtest.Outcome{After: minutes([]int{4, 9, 4}[action.Stage])}
			}
			world.StagedRun, world.Start, world.End = play(t, begun).Run, world.End, time.Time{}
		}
		for _, trial := range forecast(t, world, samples, 2, 1).Trials {
			if !trial.Ended.Equal(want) {
				t.Errorf("cut at %d: ended %v after the start", cut, trial.Ended.Sub(t0))
			}
		}
	}
}

// TestForecastTrusts: the first trial is checked, and the others are not.
func TestForecastTrusts(t *testing.T) {
	t.Parallel()
	var steps atomic.Int64
	world := stagedtest.World{StagedRun: gated(t), Start: t0, Approval: stagedtest.ApproveAfter(time.Minute)}.Stepping(func(run *staged.Run, in staged.Input, now time.Time) (*staged.Run, staged.Result, error) {
		steps.Add(1)
		return staged.Step(run, in, now)
	})
	forecast(t, world, stagedtest.Samples{}, 1, 1)
	first := steps.Swap(0)
	forecast(t, world, stagedtest.Samples{}, 11, 1)
	if others := (steps.Load() - first) / 10; others > first/2 {
		t.Errorf("%d steps in each trial, and %d in the first", others, first)
	}
}

// TestForecastDraws: each sample is drawn about as often as it is listed, failures and hangs among
// them; another seed draws others, and the same seed the same.
func TestForecastDraws(t *testing.T) {
	t.Parallel()
	run := compile(t, staged.Strategy{Stages: []staged.Stage{stage("one", 1, "a")}}, fleet("a"), staged.Options{})
	world := stagedtest.World{StagedRun: run, Start: t0}
	samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"one": append(ready(1, 2, 2), stagedtest.Outcome{After: time.Minute, Health: staged.HealthFailed}, stagedtest.Outcome{Health: staged.HealthProgressing})}}
	const trials = 5000
	p := forecast(t, world, samples, trials, 3)
	count := map[string]int{}
	for _, trial := range p.Trials {
		count[fmt.Sprint(trial.Phase, " ", trial.Waits, " ", trial.Ended.Format("04"))]++
	}
	for what, listed := range map[string]int{"Succeeded  01": 1, "Succeeded  02": 2, "Failed  01": 1, "Progressing slot 00": 1} {
		want := trials * listed / 5
		if got := count[what]; math.Abs(float64(got-want)) > float64(want)/8 {
			t.Errorf("%s: %d, want about %d", what, got, want)
		}
		delete(count, what)
	}
	if len(count) > 0 {
		t.Errorf("and %v", count)
	}
	if got := p.Halted(); math.Abs(got-0.4) > 0.05 {
		t.Errorf("halted: %v", got)
	}
	if text := p.String(); !strings.Contains(text, "done, 90 %:     not reached\n") || !strings.Contains(text, "\nnot done: 4") || !strings.Contains(text, "Progressing (slot) in ") || !strings.Contains(text, "Failed in ") {
		t.Error(text)
	}
	if marshal(t, forecast(t, world, samples, 50, 3)) != marshal(t, stagedtest.Prediction{Start: p.Start, Trials: p.Trials[:50]}) {
		t.Error("the same seed draws something else")
	}
	if marshal(t, forecast(t, world, samples, 50, 4)) == marshal(t, stagedtest.Prediction{Start: p.Start, Trials: p.Trials[:50]}) {
		t.Error("another seed draws the same")
	}
}

// TestForecastCompares: strategies that have the same samples for all stages are compared on the
// same draws: a run that has more slots is never later.
func TestForecastCompares(t *testing.T) {
	t.Parallel()
	samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": ready(1, 2, 3, 5, 8, 13)}}
	var before []stagedtest.Trial
	for limit := 1; limit <= 4; limit++ {
		world := stagedtest.World{StagedRun: compile(t, staged.Strategy{Stages: []staged.Stage{all("s", concurrency.Count(limit))}}, fleet("a", "b", "c", "d"), staged.Options{}), Start: t0}
		trials := forecast(t, world, samples, 100, 1).Trials
		for k := range before {
			if trials[k].Ended.After(before[k].Ended) {
				t.Errorf("trial %d: %v with limit %d, %v with one less", k, trials[k].Ended, limit, before[k].Ended)
			}
		}
		before = trials
	}
	// With one at a time the sum counts, in whichever stages the targets are.
	one := stagedtest.World{StagedRun: compile(t, staged.Strategy{Stages: []staged.Stage{stage("x", 1, "a", "d"), stage("y", 1, "b", "c")}}, fleet("a", "b", "c", "d"), staged.Options{}), Start: t0}
	other := stagedtest.World{StagedRun: compile(t, staged.Strategy{Stages: []staged.Stage{all("s", concurrency.Count(1))}}, fleet("a", "b", "c", "d"), staged.Options{}), Start: t0}
	a, b := forecast(t, one, samples, 50, 9), forecast(t, other, samples, 50, 9)
	for k := range a.Trials {
		if !a.Trials[k].Ended.Equal(b.Trials[k].Ended) {
			t.Errorf("trial %d: %v and %v", k, a.Trials[k].Ended, b.Trials[k].Ended)
		}
	}
}

// TestForecastGoesOn: what is in progress, or asked for, at the start is drawn from what takes longer
// than it has by then; what takes longer than any sample is named, and ends at the start.
func TestForecastGoesOn(t *testing.T) {
	t.Parallel()
	begun := play(t, stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, End: t0.Add(minutes(4)), Target: stagedtest.ReadyAfter(time.Hour)}).Run
	asked := play(t, stagedtest.World{StagedRun: gated(t), Start: t0, End: t0.Add(minutes(4))}).Run
	for _, row := range []struct {
		why     string
		run     *staged.Run
		after   time.Duration // since t0
		samples stagedtest.Samples
		ends    []string // of c, or of the first target
		overdue string
	}{
		{"samples that are over are not drawn", begun, minutes(4), stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": ready(1, 2, 4, 5, 8)}}, []string{"5m", "8m"}, ""},
		{"nor is one that ends just then", begun, minutes(4), stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": ready(4, 6)}}, []string{"6m"}, ""},
		{"all are over: the longest counts", begun, minutes(5), stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": ready(1, 2, 4)}}, []string{"5m"}, "a, b"},
		{"what hangs is longer than any", begun, minutes(5), stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": append(ready(1, 2), stagedtest.Outcome{Health: staged.HealthProgressing})}}, []string{"never"}, ""},
		{"a stage that is listed without any has none, whatever is listed for all others", begun, minutes(5), stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"one": {}, "": ready(30)}}, []string{"5m"}, ""},
		{"without samples the world decides, a minute", begun, minutes(5), stagedtest.Samples{}, []string{"5m"}, ""},
		{"a request", asked, minutes(4), stagedtest.Samples{Approvals: map[string][]stagedtest.Answer{"first": {{After: minutes(3)}, {After: minutes(9)}}}}, []string{"9m"}, ""},
		{"a request that nobody was so slow to answer", asked, minutes(10), stagedtest.Samples{Approvals: map[string][]stagedtest.Answer{"": {{After: minutes(3)}, {After: minutes(9)}}}}, []string{"10m"}, "v2-before-first"},
		{"nobody answers", asked, minutes(10), stagedtest.Samples{}, []string{"never"}, ""},
	} {
		world := stagedtest.World{StagedRun: row.run, Start: t0.Add(row.after)}
		seen := map[string]bool{}
		for seed := range uint64(20) {
			p := forecast(t, world, row.samples, 3, seed)
			if got := strings.Join(p.Overdue, ", "); got != row.overdue {
				t.Errorf("%s: overdue: %s", row.why, got)
			}
			if says := strings.Contains(p.String(), "longer in progress than any sample, and taken to end at once: "+row.overdue); says != (row.overdue != "") {
				t.Errorf("%s: %s", row.why, p)
			}
		}
		world.React = func(_ *staged.Run, result staged.Result, now time.Time) []stagedtest.Change {
			for _, e := range result.Events {
				if row.run == begun && e.Target == "a" && e.To == staged.Done.String() || e.Kind == staged.EventApproval && e.To == string(staged.ApprovalApproved) && e.Side == staged.Before {
					seen[strings.TrimSuffix(now.Sub(t0).String(), "0s")] = true
				}
			}
			return nil
		}
		for seed := range uint64(20) {
			forecast(t, world, row.samples, 1, seed)
		}
		if len(seen) == 0 {
			seen["never"] = true
		}
		want := map[string]bool{}
		for _, end := range row.ends {
			want[end] = true
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestForecastFaults: what is wrong with a forecast is said, with the place in the samples.
func TestForecastFaults(t *testing.T) {
	t.Parallel()
	world := stagedtest.World{StagedRun: gated(t), Start: t0}
	storing := world
	storing.Store = func(run *staged.Run) (*staged.Run, error) { return run, nil }
	failing := world
	failing.Target, failing.Approval = stagedtest.ReadyAfter(-1), stagedtest.ApproveAfter(0)
	for _, row := range []struct {
		why     string
		world   stagedtest.World
		samples stagedtest.Samples
		trials  int
		want    string
	}{
		{"no trial", world, stagedtest.Samples{}, 0, "stagedtest: 0 trials: at least 1 is needed"},
		{"one store for all trials", storing, stagedtest.Samples{}, 2, "stagedtest: World.Store must be nil"},
		{"a stage that there is not", world, stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"frist": ready(1)}}, 2, "stagedtest: Samples.Targets[\"frist\"]: the run has no such stage: use first, second, kubernetes-fleet.io/deleteStage, or an empty name for all others"},
		{"and no approval of it", world, stagedtest.Samples{Approvals: map[string][]stagedtest.Answer{"frist": {{}}}}, 2, "stagedtest: Samples.Approvals[\"frist\"]: the run has no such stage"},
		{"a time before the start", world, stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"first": ready(1, -1)}}, 2, "stagedtest: Samples.Targets[\"first\"][1] is after -1m0s: an attempt cannot end before it starts"},
		{"a health that there is not", world, stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": {{Health: "ok"}}}}, 2, `stagedtest: Samples.Targets[""][0] is health "ok": use `},
		{"an answer before the question", world, stagedtest.Samples{Approvals: map[string][]stagedtest.Answer{"": {{After: -1}}}}, 2, "stagedtest: Samples.Approvals[\"\"][0] is after -1ns: a request cannot be answered"},
		{"what a trial meets", failing, stagedtest.Samples{}, 3, "stagedtest: World.Target for attempt 1 at target a returns after -1ns: an attempt cannot end before it starts (in trial 0)"},
	} {
		p, err := stagedtest.Forecast(context.Background(), row.world, row.samples, row.trials, 1)
		if err == nil || !strings.HasPrefix(err.Error(), row.want) || len(p.Trials) > 0 {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestQuantiles: of few trials, a quantile is the first that reaches the share, of those that were
// done.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	p := stagedtest.Prediction{Start: t0}
	for _, n := range []int{5, 2, 9, 1, 4, 3, 8, 7, 6, 10} {
		at := t0.Add(minutes(n))
		trial := stagedtest.Trial{Done: n < 10, Phase: staged.PhaseSucceeded, Ended: at, Stages: []stagedtest.Span{{Name: "s", Phase: staged.StageSucceeded, End: at.Add(-time.Second), Peak: n}, {Name: "skipped", Phase: staged.StageSkipped, End: at}}}
		if n == 10 {
			trial.Phase, trial.Stages[0].Phase = staged.PhaseFailed, staged.StageFailed
		}
		p.Trials = append(p.Trials, trial)
	}
	for _, row := range []struct {
		q      float64
		minute int // zero: never
	}{{0, 1}, {0.1, 1}, {0.5, 5}, {0.51, 6}, {0.9, 9}, {0.91, 0}, {1, 0}, {1.5, 0}, {-1, 0}, {math.NaN(), 0}} {
		at, ok := p.Finish(row.q)
		if ok != (row.minute > 0) || ok && !at.Equal(t0.Add(minutes(row.minute))) {
			t.Errorf("Finish(%v): %v, %v", row.q, at, ok)
		}
		at, ok = p.Closed("s", row.q)
		if ok != (row.minute > 0) || ok && !at.Equal(t0.Add(minutes(row.minute)-time.Second)) {
			t.Errorf("Closed(%v): %v, %v", row.q, at, ok)
		}
	}
	if _, ok := p.Closed("other", 0); ok {
		t.Error("a stage that there is not was closed")
	}
	if at, ok := p.Closed("skipped", 1); !ok || !at.Equal(t0.Add(minutes(10))) {
		t.Errorf("a stage that is passed over is closed: %v", at)
	}
	if got := p.DoneBy(t0.Add(minutes(3))); got != 0.3 {
		t.Errorf("DoneBy: %v", got)
	}
	if got := p.DoneBy(t0.Add(minutes(3) - 1)); got != 0.2 {
		t.Errorf("DoneBy just before: %v", got)
	}
	if got := p.Halted(); got != 0.1 {
		t.Errorf("Halted: %v", got)
	}
	if text := p.String(); !strings.Contains(text, "not done: 10 %: Failed in 1 trial\n") || !strings.Contains(text, "\ns      +4m59s          +8m59s  10") {
		t.Error(text)
	}
	var none stagedtest.Prediction
	if none.String() != "0 trials: nothing was predicted" || none.Halted() != 0 || none.DoneBy(t0) != 0 {
		t.Errorf("%v", none)
	}
	var decoded stagedtest.Prediction
	if err := json.Unmarshal([]byte(marshal(t, p)), &decoded); err != nil || decoded.String() != p.String() {
		t.Errorf("decoded: %v, %v", decoded, err)
	}
	if text := (stagedtest.Prediction{Start: t0, Trials: make([]stagedtest.Trial, 2)}).String(); !strings.Contains(text, "not done: 100 %") {
		t.Error(text)
	}
}

// TestWhyNotDone: what trials ended with is counted, the most frequent first.
func TestWhyNotDone(t *testing.T) {
	t.Parallel()
	p := stagedtest.Prediction{Start: t0}
	for _, own := range []struct {
		n     int
		trial stagedtest.Trial
	}{
		{1, stagedtest.Trial{Phase: staged.PhaseProgressing, CutOff: true, Waits: staged.ReasonSlot}},
		{2, stagedtest.Trial{Phase: staged.PhaseFailed}},
		{4, stagedtest.Trial{Done: true, Phase: staged.PhaseSucceeded, Ended: t0}},
		{5, stagedtest.Trial{Phase: staged.PhaseHeld, Waits: staged.ReasonHeld}},
		{2, stagedtest.Trial{Phase: staged.PhaseCancelled}},
		{2, stagedtest.Trial{Phase: staged.PhaseWaiting, Waits: staged.ReasonApproval}},
	} {
		for range own.n {
			p.Trials = append(p.Trials, own.trial)
		}
	}
	if text := p.String(); !strings.Contains(text, "\nnot done: 75 %: Held in 5 trials, Cancelled in 2 trials, Failed in 2 trials, Waiting (approval) in 2 trials, World.End came first in 1 trial\n") {
		t.Error(text)
	}
}

// TestWhatTheTextSays: in how many trials the run was done without some of its targets, and in which
// stage the others were halted: a stage without targets holds up nobody.
func TestWhatTheTextSays(t *testing.T) {
	t.Parallel()
	span := func(name string, phase staged.StagePhase, members int) stagedtest.Span {
		return stagedtest.Span{Name: name, Phase: phase, End: t0.Add(time.Minute), Counts: staged.Counts{Members: members}}
	}
	p := stagedtest.Prediction{Start: t0}
	for _, own := range []struct {
		n     int
		trial stagedtest.Trial
	}{
		{4, stagedtest.Trial{Done: true, Phase: staged.PhaseSucceeded, Ended: t0.Add(time.Minute), Stages: []stagedtest.Span{span("a", staged.StageSucceeded, 2), span("none", staged.StageSkipped, 0), span("b", staged.StageSucceeded, 1), span("joined", staged.StageSkipped, 0)}}},
		{3, stagedtest.Trial{Done: true, Phase: staged.PhasePartiallySucceeded, Ended: t0.Add(time.Minute), Stages: []stagedtest.Span{span("a", staged.StageSucceeded, 2), span("none", staged.StageSkipped, 0), span("b", staged.StageSucceeded, 1)}}},
		{1, stagedtest.Trial{Phase: staged.PhaseHeld, Waits: staged.ReasonHeld, Stages: []stagedtest.Span{span("a", staged.StageUpdating, 2), span("none", staged.StagePending, 0), span("b", staged.StagePending, 1), span("joined", staged.StagePending, 1)}}},
		{2, stagedtest.Trial{Phase: staged.PhaseStopped, Waits: staged.ReasonStopped, Stages: []stagedtest.Span{span("a", staged.StageSucceeded, 2), span("none", staged.StagePending, 0), span("b", staged.StagePending, 1)}}},
		{1, stagedtest.Trial{Phase: staged.PhaseHeld, Waits: staged.ReasonHeld, Stages: []stagedtest.Span{span("a", staged.StageSucceeded, 2), span("none", staged.StageSkipped, 0), span("b", staged.StageSucceeded, 1), span("joined", staged.StageUpdating, 1)}}},
	} {
		for range own.n {
			p.Trials = append(p.Trials, own.trial)
		}
	}
	if text := (stagedtest.Prediction{Start: t0, Trials: []stagedtest.Trial{{Done: true, Ended: t0}, {Done: true, Ended: t0.Add(-time.Minute)}}}).String(); !strings.Contains(text, "08:00:00 (+0s)") || !strings.Contains(text, "07:59:00 (before the start)") {
		t.Error(text)
	}
	if diff := cmp.Diff(strings.Join([]string{
		"11 trials from 2026-03-10 08:00:00 on",
		"done, earliest: 2026-03-10 08:01:00 (+1m)",
		"done, median:   2026-03-10 08:01:00 (+1m)",
		"done, 90 %:     not reached",
		"done, latest:   not reached",
		"done, but with targets that failed, timed out or were skipped: 27 %",
		"not done: 36 %: Held in 2 trials, Stopped in 2 trials",
		"stage   closed, median  90 %         at once, at most  trials halted here",
		"a       +1m             +1m          0                 1",
		"b       +1m             not reached  0                 2",
		"joined  not reached     not reached  0                 1",
	}, "\n"), p.String()); diff != "" {
		t.Error(diff)
	}
	p.Trials = p.Trials[:4]
	if text := p.String(); strings.Contains(text, "halted") || strings.Contains(text, "skipped") {
		t.Error(text)
	}
}

// TestForecastEnds: a trial that the end of the world cuts off says so.
func TestForecastEnds(t *testing.T) {
	t.Parallel()
	world := stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, End: t0.Add(minutes(2))}
	p := forecast(t, world, stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{"": ready(3)}}, 2, 1)
	if trial := p.Trials[1]; !trial.CutOff || trial.Done || trial.Waits != staged.ReasonSlot {
		t.Errorf("%+v", trial)
	}
	if text := p.String(); !strings.Contains(text, "not done: 100 %: World.End came first in 2 trials") {
		t.Error(text)
	}
}
