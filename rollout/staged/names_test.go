package staged_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestNamesOfOneLine: a line break in a name, or in what a person wrote, ends no line.
func TestNamesOfOneLine(t *testing.T) {
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	decision := &staged.Decision{By: "ann\nand bob", At: at, Reason: "it is \x1bbroken"}
	on := func(kind staged.ConditionKind) staged.Condition {
		return staged.Condition{Kind: kind, Name: "n\n", Target: "t\n", Detail: "skip\n"}
	}
	for _, row := range []struct {
		got  fmt.Stringer
		want string
	}{
		{decision, `by ann and bob at 2026-03-10T09:00:00Z: "it is \x1bbroken"`},
		{staged.Action{Kind: staged.Start, Target: "t\n"}, `start "t\n", attempt 0`},
		{staged.Action{Kind: staged.RequestApproval, Name: "n\n"}, `request approval "n\n"`},
		{staged.Event{Kind: staged.EventCommandIgnored, Stage: -1, Target: "t\n", To: "odd\n"}, `command_ignored "t\n" "odd\n"`},
		{staged.TargetStatus{Name: "t\n", State: staged.Done}, `"t\n" done`},
		{on(staged.OnApproval), `the approval "n\n"`},
		{on(staged.OnObservation), `an observation of "t\n"`},
		{on(staged.OnOperator), `an operator to "skip\n"`},
		{staged.Verdict{Reason: "x", Data: &staged.Data{Detail: "d\n", Names: []string{"t\n"}}, On: []staged.Condition{on(staged.OnObservation), on(staged.OnObservation)}},
			`x ("d\n"): "t\n", waits for an observation of "t\n" and "t\n"`},
	} {
		if got := row.got.String(); got != row.want {
			t.Errorf("got  %s\nwant %s", got, row.want)
		}
	}
}

// TestNamesOfOneFault: nor does one in the name of a target that no stage takes.
func TestNamesOfOneFault(t *testing.T) {
	stages := []staged.Stage{{Name: "a", Targets: []string{"c1"}}}
	_, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleetOf("c1", "c2", "t\n"), staged.Options{})
	if want := `targets: 2: in no stage: c2, "t\n": change the selectors, or choose unmatched "ignore" or "last"`; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
