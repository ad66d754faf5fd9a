package staged_test

import (
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestVerdictsOfManyStages: what a verdict names is found wherever it is among more stages than are
// kept together, and the counters are those of all of them.
func TestVerdictsOfManyStages(t *testing.T) {
	const stages, open = 1200, 1000
	var groups []staged.DecisionGroup
	fleet := staged.Fleet{Version: "v2"}
	for i := range stages {
		name := fmt.Sprintf("c%04d", i)
		groups = append(groups, staged.DecisionGroup{Index: int32(i), Clusters: []string{name}})
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name})
	}
	failing := func(names ...string) (in staged.Input) {
		for _, name := range names {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: staged.HealthFailing})
		}
		return in
	}
	for _, row := range []struct {
		why         string
		failures    concurrency.Limit // of the run; unset: one failure is too much for each stage
		regressions staged.Choice
		input       staged.Input
		want        string
	}{
		{"in the first stage, in the last before the open one, and between", concurrency.Limit{}, staged.Block, failing("c0999", "c0000", "c0600"),
			"regression: c0000, c0600, c0999, waits for an operator to skip or an observation of c0000 and c0600 and c0999"},
		{"far before the open one", concurrency.Limit{}, staged.Fail, failing("c0301"), "held (budget), 1 of at most 0 failed: c0301, waits for an operator to skip or cancel"},
		{"the first of those before the open one", concurrency.Limit{}, staged.Fail, failing("c0999", "c0256"), "held (budget), 1 of at most 0 failed: c0256, waits for an operator to skip or cancel"},
		{"behind the open one", concurrency.Limit{}, staged.Fail, staged.Input{Removed: []string{"c1050"}}, "held (budget), 1 of at most 0 failed: c1050, waits for an operator to skip, retry or cancel"},
		{"more than the run allows", concurrency.Count(2), staged.Fail, failing("c0255", "c0768", "c0999"), "held (budget), 3 of at most 2 failed: c0255, c0768, c0999, waits for an operator to skip or cancel"},
	} {
		strategy, options, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressivePerGroup}, groups)
		if err != nil {
			t.Fatal(err)
		}
		if strategy.MaxFailures = row.failures; !row.failures.IsZero() {
			for i := range strategy.Stages {
				strategy.Stages[i].MaxFailures = concurrency.Limit{}
			}
		}
		options.VerifyDone, options.OnRegression, options.Removed = staged.Always, row.regressions, staged.Fail
		run, err := staged.Compile(strategy, benchSpec(), fleet, options)
		if err != nil {
			t.Fatal(err)
		}
		result := staged.Result{}
		for run, result = step(t, run, staged.Input{}, benchStart); run.Current() < open; {
			run, result = step(t, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)}, benchStart)
		}
		actions := result.Actions
		run, _ = step(t, run, row.input, benchStart)
		run, _ = step(t, run, staged.Input{Observations: acknowledge(actions, staged.HealthReady)}, benchStart)
		got, _ := run.Waits()
		if got.String() != row.want {
			t.Errorf("%s: got %s, want %s", row.why, got, row.want)
		}
		var sum staged.Counts
		for s := range run.Stages() {
			sum.Members, sum.Waiting, sum.Starting, sum.Done = sum.Members+s.Counts.Members, sum.Waiting+s.Counts.Waiting, sum.Starting+s.Counts.Starting, sum.Done+s.Counts.Done
			sum.Failed, sum.Regressed = sum.Failed+s.Counts.Failed, sum.Regressed+s.Counts.Regressed
		}
		if counts := run.Counts(); counts != sum || counts.Failed+counts.Regressed != len(row.input.Observations)+len(row.input.Removed) {
			t.Errorf("%s: got %v, want %v", row.why, counts, sum)
		}
	}
}
