package stagedtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// TestCostIsNoSquare: eight times as much costs about eight times as much. A square would cost 64
// times as much.
func TestCostIsNoSquare(t *testing.T) {
	if testkit.Race || testkit.CPUTime() == 0 {
		t.Skip("processor time cannot be compared")
	}
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
	} {
		var spent [2]time.Duration
		for k, n := range [...]int{500, 4000} {
			do := row.of(n)
			for range 3 { // the least of them: a collection may fall into one
				began := testkit.CPUTime()
				do()
				if took := testkit.CPUTime() - began; spent[k] == 0 || took < spent[k] {
					spent[k] = took
				}
			}
		}
		t.Logf("%s: %v and %v", row.why, spent[0], spent[1])
		if spent[1] > 20*spent[0]+time.Millisecond {
			t.Errorf("%s: 8 times as many cost %v instead of %v", row.why, spent[1], spent[0])
		}
	}
}
