package staged_test

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestKept: a run keeps its strategy and its options, across JSON as well; what a caller does to what
// is returned changes nothing, and a run that is compiled from them is the same.
func TestKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strategy, spec, fleet, options := genStrategy(t), genSpec(t), genFleet(t), genOptions(t)
		run, err := staged.Compile(strategy, spec, fleet, options)
		if err != nil {
			return // stages that divide the fleet in a way that the options do not allow
		}
		text := func(x any) string {
			data, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			return string(data)
		}
		var again staged.Run
		if err := json.Unmarshal([]byte(text(run)), &again); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*staged.Run{run, &again} {
			if got := text(r.Strategy()); got != text(strategy) {
				t.Fatalf("strategy %s\nbecomes  %s", text(strategy), got)
			}
			if r.Options() != options {
				t.Fatalf("options %+v become %+v", options, r.Options())
			}
			mine := r.Strategy()
			for i := range mine.Stages {
				own := &mine.Stages[i]
				own.Name = "x"
				for k := range own.Targets {
					own.Targets[k] = "x"
				}
				for k := range own.AfterStageTasks {
					own.AfterStageTasks[k].Type = "x"
				}
				if l := own.LabelSelector; l != nil && l.MatchLabels != nil {
					l.MatchLabels["ring"] = "x"
				}
			}
			if got := text(r.Strategy()); got != text(strategy) {
				t.Fatalf("a caller's change is in the run: %s", got)
			}
			second, err := staged.Compile(r.Strategy(), spec, fleet, r.Options())
			if err != nil || text(second) != text(run) {
				t.Fatalf("compiled again: %v\n%s\n%s", err, text(second), text(run))
			}
		}
	})
	var none staged.Run
	if s := none.Strategy(); len(s.Stages) > 0 || none.Options() != (staged.Options{}) {
		t.Errorf("the zero Run has a strategy: %+v", s)
	}
}
