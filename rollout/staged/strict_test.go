package staged_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// TestStrict: what a host decodes, alone or as a part of something of its own, is decoded strictly.
// Every fault is told with its path and a code on which callers can branch, and what was there
// before stays.
func TestStrict(t *testing.T) {
	for _, row := range []struct {
		why  string
		into any // a pointer to what it was before
		text string
		want string // one line per fault: code, then the error
	}{
		{"a misspelt target skips nobody", &staged.Command{By: "ann"}, `{"kind": "skip", "targt": "c1"}`, `unknown_field targt: unknown field; did you mean "target"?`},
		{"names are not matched by letter case, as encoding/json does", &staged.Command{By: "ann"}, `{"kind": "skip", "Target": "c1"}`, `unknown_field Target: unknown field; did you mean "target"?`},
		{"which of them counts is up to no decoder", &staged.Command{By: "ann"}, `{"kind": "skip", "target": "c1", "target": "c2"}`, `duplicate target: given twice`},
		{"all faults at once", &staged.Command{By: "ann"}, `{"kind": "retry", "attempt": "2", "at": "noon"}`,
			"type attempt: must be a whole number, not a string: leave the quotes out\ntype at: \"noon\": must be an instant of RFC 3339 with its offset, such as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00"},
		{"nothing is no command", &staged.Command{By: "ann"}, `null`, `type null is not a command: remove the entry`},
		{"nor is a list", &staged.Command{By: "ann"}, `[]`, `type must be an object, not a list`},
		{"a misspelt part would be missing", &staged.Input{State: "Run"}, `{"observation": []}`, `unknown_field observation: unknown field; did you mean "observations"?`},
		{"nor here", &staged.Input{State: "Run"}, `{"Commands": []}`, `unknown_field Commands: unknown field; did you mean "commands"?`},
		{"a command in an input", &staged.Input{State: "Run"}, `{"commands": [{"kind": "cancel"}, {"kind": "skip", "tagret": "c1"}, null]}`,
			"unknown_field commands[1].tagret: unknown field; did you mean \"target\"?\ntype commands[2]: null is not a command: remove the entry"},
		{"an observation in an input", &staged.Input{State: "Run"}, `{"observations": [{"target": "c1", "healthy": "ready", "gone": 1}]}`,
			"unknown_field observations[0].healthy: unknown field; did you mean \"health\"?\ntype observations[0].gone: must be true or false, not 1"},
		{"a token in an input", &staged.Input{State: "Run"}, `{"observations": [{"target": "c1", "token": {"run": "r", "Attempt": 1}}]}`, `unknown_field observations[0].token.Attempt: unknown field; did you mean "attempt"?`},
		{"a target in an input", &staged.Input{State: "Run"}, `{"added": [{"name": "c1", "label": {}}], "leaving": "c2", "removed": [null]}`,
			"unknown_field added[0].label: unknown field; did you mean \"labels\"?\ntype leaving: must be a list, not a string\ntype removed[0]: null is not a value here: write one, or leave it out"},
		{"without its targets a fleet may have only those that leave", &staged.Fleet{Version: "1"}, `{"target": [], "leaving": ["d1"]}`, `unknown_field target: unknown field; did you mean "targets"?`},
		{"nor here", &staged.Fleet{Version: "1"}, `{"Version": "2"}`, `unknown_field Version: unknown field; did you mean "version"?`},
		{"a label is a text, whatever rule its name reminds of", &staged.Fleet{Version: "1"}, `{"targets": [{"name": "c1", "labels": {"maxFailures": 1}}]}`, `type targets[0].labels.maxFailures: must be a string, not 1: put it in quotes`},
		{"the document is cut off", &staged.Fleet{Version: "1"}, `{"targets": [`, "unexpected end of JSON input"},
		{"a stage of its own", &staged.Stage{Name: "a"}, `{"maxConcurency": 1, "maxFailures": "x", "afterStageTasks": [{"typ": "Approval"}]}`,
			"unknown_field maxConcurency: unknown field; did you mean \"maxConcurrency\"?\nstage.maxFailures maxFailures: \"x\": must be a count from 0 to 2147483647, without quotes, or a whole percentage from \"0%\" to \"100%\"\nunknown_field afterStageTasks[0].typ: unknown field; did you mean \"type\"?"},
		{"what is told to write instead must not be refused next: 0 and 1000% are", &staged.Stage{Name: "a"}, `{"maxConcurrency": -1}`, `stage.maxConcurrency maxConcurrency: -1: must be a count from 1 to 2147483647, without quotes, or a whole percentage from "1%" to "100%"`},
		{"nor here", &staged.Options{Added: staged.Append}, `{"cleanup": {"maxConcurrency": "5"}}`, `type cleanup.maxConcurrency: "5": must be a count from 1 to 2147483647, without quotes, or a whole percentage from "1%" to "100%"`},
		{"None is refused where there must be an end", &staged.Stage{Name: "a"}, `{"minSuccessTime": "none", "progressDeadline": "none", "afterStageTasks": [{"waitTime": "NONE"}, {"waitTime": "9999999h"}]}`,
			"stage.duration minSuccessTime: \"none\": must be numbers with the units s, m or h and without leading zeros, such as 30m, 1h30m or 1.5h\n" +
				"stage.duration progressDeadline: \"none\": write None, with a capital N, where no limit is meant\n" +
				"after.waitTime afterStageTasks[0].waitTime: \"NONE\": must be numbers with the units s, m or h and without leading zeros, such as 30m, 1h30m or 1.5h\n" +
				"after.waitTime afterStageTasks[1].waitTime: \"9999999h\": is longer than 292 years"},
		{"nor here", &staged.Options{Added: staged.Append}, `{"stuckAfter": "none", "stopGrace": "none"}`,
			"type stuckAfter: \"none\": must be numbers with the units s, m or h and without leading zeros, such as 30m, 1h30m or 1.5h\ntype stopGrace: \"none\": write None, with a capital N, where no limit is meant"},
		{"a label is a text here too, and its fault one of the selector", &staged.Strategy{Name: "s"}, `{"stages": [{"name": "a", "labelSelector": {"matchLabels": {"maxFailures": 1, "waitTime": 2}}}]}`,
			"stage.selector stages[0].labelSelector.matchLabels.maxFailures: must be a string, not 1: put it in quotes\nstage.selector stages[0].labelSelector.matchLabels.waitTime: must be a string, not 2: put it in quotes"},
		{"nothing is no stage", &staged.Stage{Name: "a"}, `null`, `type null is not a stage: remove the entry`},
		{"a configuration of its own", &staged.OCMConfig{ProgressDeadline: "1h"}, `{"maxConcurrency": true, "progressDeadlin": "1h"}`,
			"stage.maxConcurrency maxConcurrency: true: must be a count from 1 to 2147483647, without quotes, or a whole percentage from \"1%\" to \"100%\"\nunknown_field progressDeadlin: unknown field; did you mean \"progressDeadline\"?"},
		{"a group has the names of this package, not those of a placement's status", &staged.DecisionGroup{Name: "a"}, `{"decisionGroupName": "b"}`, `unknown_field decisionGroupName: unknown field`},
		{"nothing is no group", &staged.DecisionGroup{Name: "a"}, `null`, `type null is not a group: remove the entry`},
	} {
		was := fmt.Sprintf("%#v", row.into)
		err := json.Unmarshal([]byte(row.text), row.into)
		got := ""
		for _, fault := range flatten(err) {
			got += "\n" + string(fault.Code) + " " + fault.Error()
		}
		if got == "" && err != nil {
			got = "\n" + err.Error()
		}
		if got != "\n"+row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.why, got, row.want)
		}
		if is := fmt.Sprintf("%#v", row.into); is != was {
			t.Errorf("%s: it was %s, and is %s", row.why, was, is)
		}
	}
	for _, into := range []any{&staged.Input{State: "Run"}, &staged.Fleet{Version: "1"}} {
		was := fmt.Sprintf("%#v", into)
		if err := json.Unmarshal([]byte("null"), into); err != nil || fmt.Sprintf("%#v", into) != was {
			t.Errorf("null is not absent: %v, %#v", err, into)
		}
	}
}

// TestStrictReadsWhatIsWritten: whatever can be encoded is decoded to the same.
func TestStrictReadsWhatIsWritten(t *testing.T) {
	token := staged.Token{Run: "r", Stage: 1, Target: "c1", Attempt: 2, Kind: staged.Start}
	target := staged.Target{Name: "c1", Labels: map[string]string{"ring": "", "maxFailures": "1"}}
	command := staged.Command{Kind: staged.CommandApprove, Run: "r", Stage: 1, Side: staged.After, Target: "c1", Attempt: 2, By: "ann", At: benchStart, Reason: "tested"}
	for _, value := range []any{
		command, staged.Command{}, staged.Input{}, staged.Fleet{}, staged.DecisionGroup{Name: "g", Index: 1, Clusters: []string{"c1"}},
		staged.Input{State: staged.StateRun, Commands: []staged.Command{command, {}}, Added: []staged.Target{target}, Leaving: []string{"c2"}, Removed: []string{"c3"},
			Observations: []staged.Observation{{Target: "c1", Version: "2", Health: staged.HealthReady, Gone: true, Token: token}, {}}},
		staged.Fleet{Targets: []staged.Target{target, {}}, Leaving: []string{"d1"}, Version: "2", PlacementStrategy: "External"},
		staged.Stage{Name: "a", LabelSelector: &selector.LabelSelector{}, MaxConcurrency: concurrency.Percent(5), ProgressDeadline: staged.For(time.Hour)},
	} {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(value))
		if err := json.Unmarshal(text, again.Interface()); err != nil || !reflect.DeepEqual(again.Elem().Interface(), value) {
			t.Errorf("%s is read as %+v: %v", text, again.Elem(), err)
		}
	}
}

// TestNewerRun: a field that a newer version stored is no less a fault than a damaged one, since the
// next step would lose it; callers tell it from damage by its code.
func TestNewerRun(t *testing.T) {
	text := encode(t, midRun(t))
	newer := append(text[:len(text)-1], `,"pinned":true}`...)
	var fault *staged.FieldError
	if err := json.Unmarshal(newer, new(staged.Run)); !errors.As(err, &fault) || fault.Code != staged.CodeUnknownField || fault.Path != "pinned" {
		t.Error(err)
	}
}
