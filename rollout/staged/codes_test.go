package staged_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestEveryValueIsReached: every value that a run, a step or a verdict can hold is reached by some
// history.
func TestEveryValueIsReached(t *testing.T) {
	wanted := testkit.Constants(t, ".", "Phase", "StagePhase", "ApprovalState", "Side", "ActionKind", "EventKind", "Reason", "ConditionKind")
	for state := staged.Waiting; state <= staged.Removed; state++ {
		wanted = append(wanted, "TargetState "+state.String())
	}
	wanted = slices.DeleteFunc(wanted, func(value string) bool {
		return value == "Reason "+string(staged.ReasonNoAttempt) // after 2³¹ attempts: see TestLastAttempt
	})
	seen := testkit.Tally{}
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
				seen["ApprovalState "+string(s.Before.State)]++
				seen["ApprovalState "+string(s.After.State)]++
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
	for _, constant := range testkit.Constants(t, ".", "Code") {
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

// TestTextsStay: the texts of codes and choices are what hosts store and compare, so that none of
// them may change, whatever the constant is called.
func TestTextsStay(t *testing.T) {
	testkit.TextsStay(t, ".", map[string]string{
		"Code":          "after.count after.type after.typeUnique after.waitTime after.waitTimeForbidden after.waitTimeMissing before.count before.type before.waitTime duplicate format input ocm.group ocm.type option placement.conflictingStrategies placement.external run.immutable run.maxFailures run.name run.placementName run.resourceSnapshotIndex run.stagedRolloutStrategyName run.state run.transition run.version stage.duration stage.groupBy stage.maxConcurrency stage.maxConcurrencyPerGroup stage.maxFailures stage.name stage.nameUnique stage.selector stage.sortKey stages.count syntax targets.count targets.duplicate targets.name targets.none targets.overlap targets.unmatched type unknown_field",
		"Reason":        "already approval cancelling ended ending failing frozen gone group held in_progress initialized known no_attempt not_failed not_requested not_waiting other_attempt other_run regression reported_failed slot stage stage_finished stale_token stopped superseded suspended too_late unhealthy unknown_stage unknown_target unmatched wait",
		"Phase":         "Cancelled Cancelling Failed Failing Held Initialized PartiallySucceeded Progressing Stopped Stopping Succeeded Waiting",
		"StagePhase":    "Failed Pending Skipped Succeeded Updating WaitingAfter WaitingBefore",
		"ApprovalState": "approved none rejected requested",
		"Side":          "after before",
		"ActionKind":    "remove requestApproval start",
		"EventKind":     "approval command_ignored joined membership_ignored observation_ignored recovered regressed resumed run stage stuck suspended target wait",
		"ConditionKind": "approval group observation operator slot",
		"CommandKind":   "approve cancel endWait reject resume retry skip suspend",
		"Health":        "failed failing progressing ready",
		"Choice":        "always append block clean count down duringWait fail first freeze hold ignore last never note reject skip up",
		"State":         "Initialize Run Stop",
		"TaskType":      "Approval TimedWait",
		"OCMType":       "All Progressive ProgressivePerGroup",
		"VerdictStatus": "pending",
	})
}

// TestJSONStays: the names of the fields of what hosts send, store and show. Those of a stored run
// are pinned by its golden file, and those of a verdict by TestVerdictJSON.
func TestJSONStays(t *testing.T) {
	token := staged.Token{Run: "r", Stage: 1, Target: "c", Attempt: 2, Kind: staged.Start}
	const inToken = `{"run":"r","stage":1,"target":"c","attempt":2,"kind":"start"}`
	at := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	const inTime = `"2026-03-10T08:00:00Z"`
	target := staged.Target{Name: "c", Labels: map[string]string{"l": "v"}}
	counts := staged.Counts{Members: 1, Waiting: 2, Starting: 3, Updating: 4, Soaking: 5, Done: 6, Failed: 7, TimedOut: 8, Skipped: 9, Removed: 10, Regressed: 11, Stuck: 12, Suspended: 13}
	for want, value := range map[string]any{
		`{"targets":[{"name":"c","labels":{"l":"v"}}],"leaving":["d"],"version":"v2","placementStrategy":"External"}`: staged.Fleet{Targets: []staged.Target{target}, Leaving: []string{"d"}, Version: "v2", PlacementStrategy: "External"},
		`{"state":"Run","commands":[{"kind":"retry","run":"r","stage":1,"side":"before","target":"c","attempt":2}],"added":[{"name":"c","labels":{"l":"v"}}],"leaving":["d"],"removed":["e"],` +
			`"observations":[{"target":"c","version":"v2","health":"ready","gone":true,"token":` + inToken + `}]}`: staged.Input{
			State: staged.StateRun, Commands: []staged.Command{{Kind: staged.CommandRetry, Run: "r", Stage: 1, Side: staged.Before, Target: "c", Attempt: 2}},
			Added: []staged.Target{target}, Leaving: []string{"d"}, Removed: []string{"e"}, Observations: []staged.Observation{{Target: "c", Version: "v2", Health: staged.HealthReady, Gone: true, Token: token}}},
		`{"actions":[{"kind":"start","stage":1,"token":` + inToken + `,"target":"c","version":"v2","run":"r","side":"after","name":"n"}],` +
			`"events":[{"kind":"target","stage":1,"target":"c","side":"after","to":"done","reason":"gone"}],"next":` + inTime + `,"changed":true}`: staged.Result{
			Actions: []staged.Action{{Kind: staged.Start, Stage: 1, Token: token, Target: "c", Version: "v2", Run: "r", Side: staged.After, Name: "n"}},
			Events:  []staged.Event{{Kind: staged.EventTarget, Stage: 1, Target: "c", Side: staged.After, To: "done", Reason: staged.ReasonGone}}, Next: at, Changed: true},
		`{"index":1,"name":"s","phase":"Updating","cleanup":true,"counts":{"members":1,"waiting":2,"starting":3,"updating":4,"soaking":5,"done":6,"failed":7,"timedOut":8,"skipped":9,"removed":10,"regressed":11,"stuck":12,"suspended":13},` +
			`"limit":2,"budget":3,"before":{"required":true,"state":"approved","requested":` + inTime + `,"decided":` + inTime + `,"decision":{"by":"ann","at":` + inTime + `}},"after":{"state":"none"},"start":` + inTime + `,"end":` + inTime + `,"wait":1,"waitFrom":` + inTime + `,"waitUntil":` + inTime + `,"waited":true}`: staged.StageStatus{
			Index: 1, Name: "s", Phase: staged.StageUpdating, Cleanup: true, Counts: counts, Limit: 2, Budget: 3, After: staged.Gate{State: staged.ApprovalNone},
			Before: staged.Gate{Required: true, State: staged.ApprovalApproved, Requested: at, Decided: at, Decision: &staged.Decision{By: "ann", At: at}}, Start: at, End: at, Wait: 1, WaitFrom: at, WaitUntil: at, Waited: true},
		`{"name":"c","stage":1,"position":2,"group":"g","state":"timedOut","attempt":3,"current":true,"regressed":true,"stuck":true,"reason":"gone","start":` + inTime + `,"end":` + inTime + `,"suspendedBy":{"at":` + inTime + `}}`: staged.TargetStatus{
			Name: "c", Stage: 1, Position: 2, Group: "g", State: staged.TimedOut, Attempt: 3, Current: true, Regressed: true, Stuck: true, Reason: staged.ReasonGone, Start: at, End: at, SuspendedBy: &staged.Decision{At: at}},
		`{"name":"g","index":1,"clusters":["c"]}`: staged.DecisionGroup{Name: "g", Index: 1, Clusters: []string{"c"}},
	} {
		if data, err := json.Marshal(value); err != nil || string(data) != want {
			t.Errorf("%v\ngot  %s\nwant %s", err, data, want)
		}
	}
}
