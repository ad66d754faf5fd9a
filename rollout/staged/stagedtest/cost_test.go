package stagedtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// TestCostIsNoSquare: eight times as much costs about eight times as much. A square would cost 64
// times as much.
func TestCostIsNoSquare(t *testing.T) {
	testkit.NeedCPUTime(t)
	// groups returns a run in n stages of one target each, with tasks before each of them.
	groups := func(n int, tasks ...staged.Task) *staged.Run {
		var list []staged.DecisionGroup
		var targets staged.Fleet
		for i := range n {
			name := fmt.Sprintf("c%05d", i)
			list = append(list, staged.DecisionGroup{Index: int32(i), Clusters: []string{name}})
			targets.Targets = append(targets.Targets, staged.Target{Name: name})
		}
		strategy, options, err := staged.FromOCM(staged.OCMStrategy{Type: staged.OCMProgressivePerGroup}, list)
		if err != nil {
			t.Fatal(err)
		}
		for k := range strategy.Stages {
			strategy.Stages[k].BeforeStageTasks = tasks
		}
		return compile(t, strategy, targets, options)
	}
	for _, row := range []struct {
		why string
		of  func(n int) func() // prepares what is measured
	}{
		{"an approval before each stage", func(n int) func() {
			world := stagedtest.World{StagedRun: groups(n, staged.Task{Type: staged.Approval}), Start: t0, Approval: stagedtest.ApproveAfter(minutes(1)), Trust: true}
			return func() { play(t, world) }
		}},
		{"a store in memory, and many stages", func(n int) func() {
			world := stagedtest.World{StagedRun: groups(n), Start: t0, Trust: true, Store: func(run *staged.Run) (*staged.Run, error) { return run, nil }}
			return func() { play(t, world) }
		}},
		{"changes of the state at one instant, each of which begins a further step", func(n int) func() {
			world := stagedtest.World{StagedRun: one(t, staged.Options{}), Start: t0, Trust: true}
			for i := range n {
				world.Changes = append(world.Changes, stagedtest.SetState(t0, [...]staged.State{staged.StateStop, staged.StateRun}[i%2]))
			}
			return func() { play(t, world) }
		}},
		{"a prediction of many stages, printed", func(n int) func() {
			trial := stagedtest.Trial{Done: true, Phase: staged.PhaseSucceeded, Ended: t0}
			for i := range n {
				trial.Stages = append(trial.Stages, stagedtest.Span{Name: fmt.Sprintf("group%d", i), Phase: staged.StageSucceeded, End: t0, Counts: staged.Counts{Members: 1}})
			}
			prediction := stagedtest.Prediction{Start: t0, Trials: []stagedtest.Trial{trial, trial, trial}}
			return func() { _ = prediction.String() }
		}},
		{"samples for each of many stages", func(n int) func() {
			samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{}, Approvals: map[string][]stagedtest.Answer{}}
			for i := range n {
				samples.Targets[fmt.Sprintf("group%d", i)], samples.Approvals[fmt.Sprintf("group%d", i)] = ready(1), []stagedtest.Answer{{}}
			}
			world := stagedtest.World{StagedRun: groups(n), Start: t0}
			over, end := context.WithCancel(context.Background())
			end() // before the first step: only what comes before that is measured
			return func() {
				if _, err := stagedtest.Forecast(over, world, samples, 1, 1); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
			}
		}},
		{"as many samples as targets that are in progress at the start", func(n int) func() {
			names := make([]string, n)
			samples := stagedtest.Samples{Targets: map[string][]stagedtest.Outcome{}}
			for i := range names {
				names[i] = fmt.Sprintf("c%05d", i)
				samples.Targets[""] = append(samples.Targets[""], stagedtest.Outcome{After: minutes(i)})
			}
			run, _, err := staged.Step(compile(t, staged.Strategy{Stages: []staged.Stage{stage("one", n, names...)}}, fleet(names...), staged.Options{}), staged.Input{}, t0)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				forecast(t, stagedtest.World{StagedRun: run, Start: t0.Add(minutes(1)), End: t0.Add(minutes(5))}, samples, 2, 1)
			}
		}},
	} {
		testkit.CompareCost(t, row.why, 30, row.of(500), row.of(4000)) // up to 16 times, because the few are done before a collection
	}
}
