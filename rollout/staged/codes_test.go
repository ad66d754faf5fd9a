package staged_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testseed"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestEveryValueIsReached: every value that a run, a step or a verdict can hold is reached by some
// history.
func TestEveryValueIsReached(t *testing.T) {
	wanted := testseed.Constants(t, ".", "Phase", "StagePhase", "ApprovalState", "Side", "ActionKind", "EventKind", "Reason", "ConditionKind")
	for state := staged.Waiting; state <= staged.Removed; state++ {
		wanted = append(wanted, "TargetState "+state.String())
	}
	wanted = slices.DeleteFunc(wanted, func(value string) bool {
		return value == "Reason "+string(staged.ReasonNoAttempt) // after 2³¹ attempts: see TestLastAttempt
	})
	seen := testseed.Tally{}
	verdict := func(v staged.Verdict) {
		seen["Reason "+string(v.Reason)]++
		for _, on := range v.On {
			seen["ConditionKind "+string(on.Kind)]++
		}
	}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			seen["Phase "+string(m.run.Phase())]++
			for _, e := range m.result.Events {
				seen["EventKind "+string(e.Kind)]++
				seen["Reason "+string(e.Reason)]++
				seen["Side "+string(e.Side)]++
			}
			for _, a := range m.result.Actions {
				seen["ActionKind "+string(a.Kind)]++
			}
			for s := range m.run.Stages() {
				seen["StagePhase "+string(s.Phase)]++
				seen["ApprovalState "+string(s.Before)]++
				seen["ApprovalState "+string(s.After)]++
				for target := range m.run.Targets(s.Index) {
					seen["TargetState "+target.State.String()]++
					if v, ok := m.run.Explain(target.Name); ok {
						verdict(v)
					}
				}
			}
			if v, ok := m.run.Waits(); ok {
				verdict(v)
			}
		})
	}, wanted...)
}

// TestEveryCodeHasARow: what TestRules does not ask a row for is given by another function than
// Compile, or by a fleet that no test can hold.
func TestEveryCodeHasARow(t *testing.T) {
	spec, other := benchSpec(), benchSpec()
	spec.State, other.State, other.PlacementName = staged.StateRun, staged.StateInitialize, "another"
	_, _, ocmGroup := staged.FromOCM(staged.OCMStrategy{}, []staged.DecisionGroup{{Clusters: []string{""}}})
	_, _, ocmType := staged.FromOCM(staged.OCMStrategy{Type: "Sometimes"}, nil)
	_, _, input := staged.Step(midRun(t), staged.Input{Observations: []staged.Observation{{Target: "b3", Health: "fine"}}}, benchStart)
	strict := all("only", 2)
	strict.Name = "other"
	first := compileOnly(t, all("only", 1))
	_, conflict := staged.Conflicts(first, compileOnly(t, strict))
	given := map[string]error{
		"run.transition": spec.ValidateUpdate(other), "run.immutable": spec.ValidateUpdate(other), "ocm.group": ocmGroup, "ocm.type": ocmType, "input": input,
		"placement.conflictingStrategies": conflict, "syntax": new(staged.Strategy).UnmarshalJSON([]byte("{")),
	}
	for code, err := range given {
		if !slices.Contains(rules(err), staged.Code(code)) {
			t.Errorf("%s: got %v", code, err)
		}
	}
	for _, constant := range testseed.Constants(t, ".", "Code") {
		_, code, _ := strings.Cut(constant, " ")
		_, elsewhere := given[code]
		if tooLarge := code == string(staged.CodeTargetCount); slices.Contains(everyCode(), staged.Code(code)) == (elsewhere || tooLarge) {
			t.Errorf("%s: has no row, or two", code)
		}
	}
}

func compileOnly(t *testing.T, stage staged.Stage) *staged.Run {
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestLastAttempt: there is no attempt behind the last number, and a retry says so.
func TestLastAttempt(t *testing.T) {
	for attempt, want := range map[string]staged.Reason{"2147483646": staged.ReasonStageFinished, "2147483647": staged.ReasonNoAttempt} {
		ends := `"ends":[30000000000,60000000000,60000000000]`
		text := strings.Replace(string(encode(t, midRun(t))), ends, ends+`,"attempts":[1,`+attempt+`]`, 1)
		var run staged.Run
		if err := json.Unmarshal([]byte(text), &run); err != nil {
			t.Fatal(err)
		}
		failed, _ := run.Target("a2")
		_, result := step(t, &run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "a2", Attempt: failed.Attempt}}}, run.Time())
		if len(result.Events) != 1 || result.Events[0].Reason != want {
			t.Errorf("attempt %s: got %v, want %s", attempt, result.Events, want)
		}
	}
}
