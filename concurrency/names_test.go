package concurrency_test

import (
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// TestNamesOfOneLine: a line break in a name, or in what a person wrote, ends no line.
func TestNamesOfOneLine(t *testing.T) {
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	holder := concurrency.Holder{Resource: "r\n", Group: "g\n"}
	lease := concurrency.Lease{Holder: holder, Pool: "p\n", Token: 1, State: concurrency.Quarantined, Since: at, Reason: "why\nnot"}
	result := concurrency.Result{
		Admitted: []concurrency.Admitted{{Claims: []concurrency.Claim{{Token: 1}}}},
		Refused:  []concurrency.Refused{{}}, Refusals: [][]concurrency.Refusal{{{Reason: concurrency.SlotFull}}},
		Pools: []concurrency.Summary{{Holders: []concurrency.Holder{holder}, Unavailable: []string{"s\n"}}},
	}
	for _, row := range []struct{ got, want string }{
		{holder.String(), `"r\n" for "g\n"`},
		{concurrency.Holder{Resource: "r\n"}.String(), `"r\n"`},
		{lease.String(), `"r\n" for "g\n" in pool "p\n", token 1, taken at 2026-03-10T09:00:00Z, quarantined (why not)`},
		{concurrency.Lease{State: "odd\n", Since: at}.String(), ` in pool , token 0, taken at 2026-03-10T09:00:00Z, "odd\n"`},
		{result.Describe(concurrency.Snapshot{Pools: []concurrency.Pool{{Key: "p\n"}}}, []concurrency.Candidate{{Resource: "r\n"}}), `1 candidate may start, 1 must wait
"r\n" may start: , pool "p\n" with token 1
"r\n" must wait: slot_full in pool "p\n"
pool "p\n": 0 of at most 0 active, 0 members; holders "r\n" for "g\n"; unavailable "s\n"`},
	} {
		if row.got != row.want {
			t.Errorf("got  %s\nwant %s", row.got, row.want)
		}
	}
}
