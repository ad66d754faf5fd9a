package rollouttest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// misspelt is a world in which an override, a freeze and a command have no effect.
func misspelt(t *testing.T) rollouttest.World {
	t.Helper()
	w := webWorld(t, 2, oneByOne)
	w.Fleet.Commands = []bracket.Command{{ID: "c1", Kind: bracket.Close, Group: "b/prod/1", By: "ann", At: at(1, 9, 1)}}
	w.Fleet.Overrides = []rollout.Override{{ID: "o1", Rule: "on", Version: "v2", CreatedAt: at(1, 9, 2), CreatedBy: "ann", Reason: "in a hurry"}}
	w.Fleet.Freezes = []rollout.Freeze{{ID: "z1", Resource: "c-9", CreatedAt: at(1, 9, 2), CreatedBy: "ann", Reason: "its disk"}}
	return w
}

// diagnosedBy returns the lines of a text that tell diagnostics, and makes sure that they are its end.
func diagnosedBy(t *testing.T, text fmt.Stringer) []string {
	t.Helper()
	lines := strings.Split(text.String(), "\n")
	k := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "diagnostic") })
	if k < 0 {
		return nil
	}
	for _, line := range lines[k:] {
		if !strings.HasPrefix(line, "diagnostic") && !strings.HasPrefix(line, "and ") {
			t.Errorf("%q is behind the diagnostics", line)
		}
	}
	return lines[k:]
}

const (
	unheardCommand  = "diagnostic: command_without_effect [b]: c1: there is no group b/prod/1 to close (prod)"
	unheardFreeze   = "diagnostic: freeze_without_effect: z1: there is no such resource (c-9)"
	unheardOverride = "diagnostic: override_without_effect [on]: o1: no enabled policy has this rule"
)

// TestForecastDiagnoses: what is misspelt in a world, or in the samples, is in the prediction. What
// every trial met is told without their number.
func TestForecastDiagnoses(t *testing.T) {
	t.Parallel()
	samples := map[string][]rollouttest.Outcome{"web": {{After: minutes(3)}, {After: minutes(4)}, {After: minutes(5), Status: "sucessful"}}}
	p, err := rollouttest.Forecast(t.Context(), misspelt(t), rollouttest.Samples{Jobs: samples}, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	hung := 0
	for _, trial := range p.Trials {
		odd := slices.ContainsFunc(trial.Diagnostics, func(d rollout.Diagnostic) bool { return d.Code == rollout.DiagnosticJobStatusUnknown })
		if odd != trial.Hanging || len(trial.Diagnostics) < 3 {
			t.Errorf("hanging %t, and its diagnostics are %v", trial.Hanging, trial.Diagnostics)
		}
		if odd {
			hung++
		}
	}
	if hung == 0 || hung == len(p.Trials) {
		t.Fatalf("%d of %d trials met the status", hung, len(p.Trials))
	}
	lines := diagnosedBy(t, p)
	if len(lines) != 4 || !strings.HasPrefix(lines[2], fmt.Sprintf("diagnostic in %d trials: job_status_unknown: sucessful is no known status", hung)) {
		t.Fatalf("got %q", lines)
	}
	if diff := cmp.Diff([]string{unheardCommand, unheardFreeze, unheardOverride}, slices.Delete(lines, 2, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	about := p.About(rollouttest.Goal{Deployment: "web", Environment: "prod", Version: "v2"}, 0)
	for k := range p.Trials {
		if diff := cmp.Diff(p.Trials[k].Diagnostics, about.Trials[k].Diagnostics); diff != "" {
			t.Errorf("about one goal (-want +got):\n%s", diff)
		}
	}
	about.Trials[0].Diagnostics[0].Rule = "its own"
	if p.Trials[0].Diagnostics[0].Rule == "its own" {
		t.Error("a prediction about a goal shares its lists")
	}
}

// TestExploreDiagnoses: what is misspelt in a world, or in the ways in which jobs may end, is in the
// exploration, and it is told which of that needs a fault.
func TestExploreDiagnoses(t *testing.T) {
	t.Parallel()
	e, err := rollouttest.Explore(t.Context(), misspelt(t), func(rollout.Start, int) []rollouttest.Outcome {
		return []rollouttest.Outcome{{After: minutes(5), Status: "sucessful"}, {After: minutes(5)}}
	}, 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{unheardCommand, unheardFreeze, unheardOverride,
		"diagnostic in 2 trials: job_status_unknown: sucessful is no known status, so such a job counts as active (c-0 / prod / web)"}
	if diff := cmp.Diff(want, diagnosedBy(t, e)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(e.Without.Diagnostics); n != 3 {
		t.Errorf("%d diagnostics without faults", n)
	}
	for _, c := range e.Consequences {
		want := 3
		if c.Faults[0].Outcome.Status == "sucessful" {
			want = 4
		}
		if len(c.Diagnostics) != want {
			t.Errorf("%s: %v", c, c.Diagnostics)
		}
	}
}

// TestManyDiagnoses: five are told, the others counted; what differs in number alone is one, with its
// greatest number.
func TestManyDiagnoses(t *testing.T) {
	t.Parallel()
	odd := func(count int, details ...string) (trial rollouttest.Trial) {
		for _, detail := range details {
			trial.Diagnostics = append(trial.Diagnostics, rollout.Diagnostic{Code: rollout.DiagnosticMissingKey, Detail: detail, Count: count})
		}
		return trial
	}
	p := rollouttest.Prediction{Trials: []rollouttest.Trial{odd(2, "a", "b", "c"), odd(3, "b"), odd(1, "b", "d", "e", "f", "g")}}
	want := []string{
		"diagnostic in 1 trial: missing_key: a (2 times)", "diagnostic: missing_key: b (3 times)", "diagnostic in 1 trial: missing_key: c (2 times)",
		"diagnostic in 1 trial: missing_key: d", "diagnostic in 1 trial: missing_key: e", "and 2 other diagnostics",
	}
	if diff := cmp.Diff(want, diagnosedBy(t, p)); diff != "" {
		t.Errorf("prediction (-want +got):\n%s", diff)
	}
	e := rollouttest.Exploration{Start: noon, Without: p.Trials[1], Consequences: []rollouttest.Consequence{
		{Faults: []rollouttest.Fault{{}}, Trial: p.Trials[0]}, {Faults: []rollouttest.Fault{{}}, Trial: p.Trials[0]}, {Faults: []rollouttest.Fault{{}}, Trial: p.Trials[2]}}}
	want = []string{
		"diagnostic: missing_key: b (3 times)", "diagnostic in 2 trials: missing_key: a (2 times)", "diagnostic in 2 trials: missing_key: c (2 times)",
		"diagnostic in 1 trial: missing_key: d", "diagnostic in 1 trial: missing_key: e", "and 2 other diagnostics",
	}
	if diff := cmp.Diff(want, diagnosedBy(t, e)); diff != "" {
		t.Errorf("exploration (-want +got):\n%s", diff)
	}
}
