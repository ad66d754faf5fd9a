package rollouttest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// took is a prediction of which one trial takes one minute, the next two minutes and so on, with as
// many resources in flight. The last ones are never done. They are listed in no order.
func took(n, halted int) rollouttest.Prediction {
	p := rollouttest.Prediction{Start: noon, Trials: make([]rollouttest.Trial, n)}
	for k := range p.Trials {
		at := k * 7 % n
		if n%7 == 0 {
			at = n - 1 - k
		}
		p.Trials[k] = rollouttest.Trial{Done: at < n-halted, Finish: noon.Add(minutes(at + 1)), InFlight: at + 1}
		if !p.Trials[k].Done {
			p.Trials[k].Left = []rollout.Reason{rollout.ReasonRetryExhausted}
		}
	}
	return p
}

// TestQuantiles: of few trials, a quantile is the first that reaches the share. Nothing is promised
// that no trial kept.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why       string
		n, halted int
		q         float64
		minute    int // zero: never
		peak      int
	}{
		{"nine of ten are done by the ninth", 10, 0, 0.9, 9, 9},
		{"more than nine are done by the tenth", 10, 0, 0.91, 10, 10},
		{"of nine, nine tenths are all", 9, 0, 0.9, 9, 9},
		{"nine of ten are a share that was reached, although one is never done", 10, 1, 0.9, 9, 9},
		{"and more was not", 10, 1, 0.91, 0, 10},
		{"half of two is one", 2, 0, 0.5, 1, 1},
		{"half of two, of which one is never done", 2, 1, 0.5, 1, 1},
		{"half of three is two of them", 3, 0, 0.5, 2, 2},
		{"one trial is every share", 1, 0, 0.01, 1, 1},
		{"a product that is rounded up, 0.07 * 100, does not reach the next one", 100, 0, 0.07, 7, 7},
		{"no share at all is the earliest", 5, 0, 0, 1, 1},
		{"all is the latest", 5, 0, 1, 5, 5},
		{"all is never if one is never done", 5, 1, 1, 0, 5},
		{"more than all", 5, 0, 1.01, 0, 0},
		{"less than nothing", 5, 0, -0.01, 0, 0},
		{"no number", 5, 0, math.NaN(), 0, 0},
		{"none is done", 5, 5, 0, 0, 1},
		{"no trials", 0, 0, 0.5, 0, 0},
	} {
		p := took(row.n, row.halted)
		at, ok := p.Finish(row.q)
		if want := noon.Add(minutes(row.minute)); ok != (row.minute > 0) || ok && !at.Equal(want) || !ok && !at.IsZero() {
			t.Errorf("%s: %v by %s, want minute %d", row.why, ok, at, row.minute)
		}
		if got := p.Peak(row.q); got != row.peak {
			t.Errorf("%s: at most %d in flight, want %d", row.why, got, row.peak)
		}
	}
	// Finish and DoneBy are inverse, for every number of trials and every share.
	for n := 1; n <= 40; n++ {
		for halted := range n + 1 {
			p := took(n, halted)
			for percent := range 101 {
				q := float64(percent) / 100
				at, ok := p.Finish(q)
				if reached := p.DoneBy(noon.Add(minutes(n))); ok != (reached >= q && reached > 0) {
					t.Fatalf("%d trials, %d never done: Finish(%v) says %v, and the share that is done is %v", n, halted, q, ok, reached)
				}
				if before := p.DoneBy(at.Add(-1)); ok && (p.DoneBy(at) < q || before > 0 && before >= q) {
					t.Fatalf("%d trials, %d never done: Finish(%v) is %s, by when %v are done, and before it %v", n, halted, q, at, p.DoneBy(at), before)
				}
			}
		}
	}
}

// TestPredictionTellsOfDisruption: the greatest, and what is usual if that is less; and no instants
// if there are none.
func TestPredictionTellsOfDisruption(t *testing.T) {
	t.Parallel()
	one := took(1, 0)
	for _, row := range []struct {
		why  string
		p    rollouttest.Prediction
		want string
	}{
		{"half of the trials get by with less", took(4, 1), `4 trials from 2026-03-10 12:00:00 on
done, earliest: 2026-03-10 12:01:00 (+1m)
done, median:   2026-03-10 12:02:00 (+2m)
done, 90 %:     never
done, latest:   never
never done: 25 %: retry_exhausted in 1 trial
at most 4 resources in flight at once, in half of the trials at most 2`},
		{"all are alike", one, `1 trial from 2026-03-10 12:00:00 on
done, earliest: 2026-03-10 12:01:00 (+1m)
done, median:   2026-03-10 12:01:00 (+1m)
done, 90 %:     2026-03-10 12:01:00 (+1m)
done, latest:   2026-03-10 12:01:00 (+1m)
never done: 0 %
at most 1 resource in flight at once`},
		{"none is done", took(1, 1), `1 trial from 2026-03-10 12:00:00 on
never done: 100 %: retry_exhausted in 1 trial
at most 1 resource in flight at once`},
	} {
		if got := row.p.String(); got != row.want {
			t.Errorf("%s: it says\n%s\nwant\n%s", row.why, got, row.want)
		}
	}
	many := one
	for range 12 {
		many.Overdue = append(many.Overdue, fmt.Sprint("run ", len(many.Overdue)))
	}
	if got, want := many.String(), one.String()+"\nlonger in progress than any sample, and taken to end at once: run 0, run 1, run 2, run 3, run 4, run 5, run 6, run 7, run 8, run 9 and 2 more"; got != want {
		t.Errorf("of twelve it says\n%s\nwant\n%s", got, want)
	}
	for after, want := range map[time.Duration]string{50 * time.Hour: "(+50h)", 48 * time.Hour: "(+2d)", 24 * time.Hour: "(+24h)", 49*time.Hour + time.Minute: "(+49h1m)", 2*time.Hour + time.Second: "(+2h0m1s)", time.Second / 2: "(+1s)"} {
		one.Trials[0].Finish = noon.Add(after)
		if text := one.String(); !strings.Contains(text, want) {
			t.Errorf("%v is told as\n%s", after, text)
		}
	}
	if at, ok := one.Finish(0.5); !ok || at.Location() != time.UTC {
		t.Errorf("%v by %v", ok, at)
	}
}

// TestForecastOfTheWorldAsItIs: what a world says by itself needs no samples, and what it cannot say
// to several trials is refused.
func TestForecastOfTheWorldAsItIs(t *testing.T) {
	t.Parallel()
	w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
	p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{}, 2, 1)
	if at, ok := p.Finish(1); err != nil || !ok || !at.Equal(noon.Add(2*time.Minute)) || len(p.Unsampled) != 1 {
		t.Errorf("two jobs of a minute: %v, %v\n%v", ok, err, p)
	}
	w.Store = &bracket.MemoryStore{}
	if _, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{}, 2, 1); err == nil || !strings.Contains(err.Error(), "World.Store must be nil") {
		t.Errorf("a store that trials share: %v", err)
	}
	// A world that goes on from a state needs Pure, which a forecast sets.
	whole := rfcWorld(t, 1)
	_, plans, err := watched(whole)
	if err != nil {
		t.Fatal(err)
	}
	rest := plans[len(plans)/2].from(whole)
	rest.Pure = false
	if p, err := rollouttest.Forecast(t.Context(), rest, rollouttest.Samples{}, 1, 1); err != nil || p.Halted() != 0 {
		t.Errorf("from the middle: %v\n%v", err, p)
	}
}

// TestForecastChecksTheFirstTrial: it checks the plans of the first trial alone, and after an error
// it begins no further trial.
func TestForecastChecksTheFirstTrial(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		spoiled int // trial in which plans say nothing of their targets
		failed  int // trial in which planning fails
		begun   int
		fails   bool
	}{
		{"the first plans are wrong", 0, -1, 1, true},
		{"later ones are trusted", 1, -1, 4, false},
		{"an error ends it", -1, 1, 2, true},
	} {
		w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
		begun := 0
		var state rollout.State
		w.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
			if now.Equal(noon) && len(s.Targets[0].Jobs) == 0 {
				begun++
				state = rollout.State{}
			}
			s.State = state
			plan, err := w.Policies.Plan(s, now)
			if begun == row.failed+1 {
				err = errors.New("no plan today")
			}
			if err != nil {
				return plan, err
			}
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
			if begun == row.spoiled+1 {
				plan.Keep.Current++
			}
			return plan, err
		}
		if _, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{}, 4, 1); (err != nil) != row.fails || begun != row.begun {
			t.Errorf("%s: %d trials begun, want %d; %v", row.why, begun, row.begun, err)
		}
	}
}

// TestTrialsThatSayLittle: a trial that hung or was cut off says so, and not that nothing awaited the
// version.
func TestTrialsThatSayLittle(t *testing.T) {
	t.Parallel()
	p := rollouttest.Prediction{Start: noon, Trials: []rollouttest.Trial{{Finish: noon, Hanging: true}, {Finish: noon, CutOff: true}}}
	if text, want := p.String(), "not done: 100 %: World.End came first in 1 trial, an unfinished job in 1 trial\n"; !strings.Contains(text, want) {
		t.Errorf("it says\n%s\nwant %s", text, want)
	}
	// About a version of which a trial that was cut off says nothing, it may only not have come yet.
	if text, want := p.About(web("v2"), 0).String(), "not done: 100 %: World.End came first in 1 trial, no target that awaited it in 1 trial\n"; !strings.Contains(text, want) {
		t.Errorf("it says\n%s\nwant %s", text, want)
	}
}

// TestShareNotDone: one trial of many is not none, and all but one are not all.
func TestShareNotDone(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		halted, trials int
		want           string
	}{
		{0, 1000, "never done: 0 %\n"}, {1, 1000, "never done: less than 1 %: an unfinished job in 1 trial\n"}, {10, 1000, "never done: 1 %: "}, {994, 1000, "never done: more than 99 %: "},
		{990, 1000, "never done: 99 %: "}, {999, 1000, "never done: more than 99 %: "}, {1000, 1000, "never done: 100 %: "}, {1, 3, "never done: 33 %: "}, {2, 3, "never done: 67 %: "},
	} {
		p := rollouttest.Prediction{Start: noon, Trials: make([]rollouttest.Trial, row.trials)}
		for k := range p.Trials {
			p.Trials[k] = rollouttest.Trial{Done: k >= row.halted, Hanging: k < row.halted, Finish: noon}
		}
		if text := p.String(); !strings.Contains(text, "\n"+row.want) {
			t.Errorf("%d of %d: want %q in\n%s", row.halted, row.trials, row.want, text)
		}
	}
}

// TestTrialsThatAreCutOff: what World.End comes before might have been later, so nothing says that it
// never was.
func TestTrialsThatAreCutOff(t *testing.T) {
	t.Parallel()
	w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet(), End: noon.Add(minutes(7))}
	p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{"kubelet": {{After: minutes(3)}, {After: minutes(10)}}}}, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	if p.Halted() <= 0.5 || p.Halted() == 1 {
		t.Fatalf("%.0f %% are not done", 100*p.Halted())
	}
	text := p.String()
	for _, want := range []string{"done, earliest: 2026-03-10 12:06:00 (+6m)\n", "done, latest:   not before World.End\n", "\nnot done: ", "World.End came first in "} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "never") {
		t.Errorf("it says never:\n%s", text)
	}
	e, err := rollouttest.Explore(t.Context(), w, func(rollout.Start, int) []rollouttest.Outcome { return []rollouttest.Outcome{{After: minutes(10)}} }, 1)
	if err != nil {
		t.Fatal(err)
	}
	const want = `2 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:02:00 (+2m)
kubelet takes 10m (2 trials): not done: World.End came first in 2 trials, an unfinished job in 2 trials, slot_full in 1 trial; 1 to 2 resources held, most by the fault on node-1; 1 resource left in disruption`
	if got := e.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestForecastOfPlansThatDoNotExplain: a plan that was made by hand tells what waits, and a forecast
// makes the best of it.
func TestForecastOfPlansThatDoNotExplain(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, oneByOne)
	w.Trust = true
	w.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		return rollout.Plan{Now: now, Waiting: rollout.NewWaitingList(rollout.Waiting{
			TargetID: s.Targets[0].TargetID, Version: "v2", Blockers: []rollout.Verdict{{Status: rollout.Pending, Reason: rollout.ReasonApprovalMissing}},
		})}, nil
	}
	p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"web v1 in prod: 1 got it by 08:00", "web v2 in prod: 0 got it, 1 left: [approval_missing]"}, goalsOf(p.Trials[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestImpossibleSamples: a sample that no job can be is named, whether it would be drawn or not. Before
// that, World.Job was blamed for it, if it was drawn.
func TestImpossibleSamples(t *testing.T) {
	t.Parallel()
	good := rollouttest.Outcome{After: minutes(1)}
	for _, row := range []struct {
		why     string
		samples map[string][]rollouttest.Outcome
		want    string
	}{
		{"a job that ends before it starts", map[string][]rollouttest.Outcome{"web": {good, {After: -time.Second}}}, "rollouttest: Samples.Jobs[\"web\"][1] lets a job end 1s before it starts"},
		{"of a deployment that does not run", map[string][]rollouttest.Outcome{"web": {good}, "wbe": {{VerifiedAfter: time.Second}}}, "rollouttest: Samples.Jobs[\"wbe\"][0] lets a job be verified after 1s without an outcome"},
		{"the first of several", map[string][]rollouttest.Outcome{"b": {{After: -2}}, "c": {{After: -3}}, "a": {good, {After: -1}, {After: -4}}}, "rollouttest: Samples.Jobs[\"a\"][1] lets a job end 1ns before it starts"},
	} {
		if _, err := rollouttest.Forecast(t.Context(), webWorld(t, 1, oneByOne), rollouttest.Samples{Jobs: row.samples}, 1, 1); err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: got %v, want %s", row.why, err, row.want)
		}
	}
}
