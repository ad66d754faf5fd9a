package bracket_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// TestNamesOfOneLine: a line break in a name, or in what a person wrote, ends no line.
func TestNamesOfOneLine(t *testing.T) {
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	run := bracket.Run{Group: "g\n", Resource: "r\n", Deployment: "d\n", Generation: 1, Attempt: 1, Purpose: bracket.Deploy}
	on := func(kind bracket.ConditionKind) bracket.Condition {
		return bracket.Condition{Kind: kind, Group: "g\n", Environment: "e\n", Resource: "r\n", Deployment: "d\n"}
	}
	plan := bracket.Plan{
		Start:      []bracket.Start{{Run: run, Role: bracket.Main, Version: "v\n", DueAt: at}},
		Redispatch: []bracket.Start{{Run: run, Role: bracket.Main, Version: "v\n", DueAt: at}},
		Stuck:      []bracket.Stuck{{Run: run, Since: at, StartedAt: at}},
		Events:     []bracket.Event{{Kind: bracket.GroupMerged, Group: "g\n", Resource: "r\n", Into: "h\n", Status: "merged", At: at}},
		Unknown:    []bracket.Run{run},
		Refused:    []bracket.Command{{ID: "c\n", Kind: "odd\n", Group: "g\n", Resource: "r\n", Deployment: "d\n", By: "ann\nand bob", At: at, Reason: "why\nnot"}},
	}
	const want = `start: "r\n"/"d\n" (main): deploy "v\n" as "g\n/r\n/d\n/1/1/deploy", due since 2026-03-10T09:00:00Z
redispatch: "r\n"/"d\n" (main): deploy "v\n" as "g\n/r\n/d\n/1/1/deploy", due since 2026-03-10T09:00:00Z
stuck: "r\n"/"d\n": "g\n/r\n/d\n/1/1/deploy" is stuck since 2026-03-10T09:00:00Z, started 2026-03-10T09:00:00Z
event: group_merged: "g\n" on "r\n" into "h\n", merged at 2026-03-10T09:00:00Z
unknown: "g\n/r\n/d\n/1/1/deploy"
refused: "c\n": "odd\n" "d\n" for "g\n" on "r\n" by ann and bob at 2026-03-10T09:00:00Z: why not`
	if got := plan.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, row := range []struct {
		of   fmt.Stringer
		want string
	}{
		{bracket.Verdict{Reason: bracket.ReasonCollecting, Group: "g\n"}, `pending: "g\n": bracket_collecting`},
		{
			bracket.Verdict{Reason: bracket.ReasonQueued, On: []bracket.Condition{on(bracket.OnMember), on(bracket.OnExecutionEnd), on(bracket.OnGroupClose)}},
			`pending: bracket_queued, waits for "d\n" on "r\n" or the end of the execution on "r\n" or the next group in "e\n"`,
		},
		{
			bracket.Verdict{Reason: bracket.ReasonQueued, On: []bracket.Condition{on(bracket.OnVersion), on(bracket.OnOperator)}},
			`pending: bracket_queued, waits for a version of "d\n" or a command for "g\n" on "r\n"`,
		},
		{bracket.Wait{Group: "g\n", Reason: "x"}, `"g\n": x`},
		{bracket.Wait{Group: "g\n", Resource: "r\n", Reason: "x"}, `"r\n": "g\n": x`},
		{bracket.Wait{Group: "g\n", Resource: "r\n", Deployment: "d\n", Reason: "x"}, `"r\n"/"d\n": "g\n": x`},
	} {
		if got := row.of.String(); got != row.want {
			t.Errorf("got %s, want %s", got, row.want)
		}
	}
}
