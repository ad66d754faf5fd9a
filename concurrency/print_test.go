package concurrency

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPrint(t *testing.T) {
	at := epoch.Format(time.RFC3339)
	elsewhere := time.FixedZone("", 3600)
	lease := Lease{Pool: "p", Holder: Holder{"n1", "g"}, Token: 2, State: Active, Since: epoch.In(elsewhere)}
	stalled := lease
	stalled.State, stalled.Reason = Quarantined, "stuck"
	var crowd []Holder
	for i := range 12 {
		crowd = append(crowd, Holder{fmt.Sprint("n", i), "g"})
	}
	for _, c := range []struct {
		value any
		want  string
		why   string
	}{
		{Holder{"n1", "g"}, "n1 for g", "a slot is of a resource, for a group"},
		{Holder{Resource: "n1"}, "n1", "the job of nobody's plan has no group"},
		{crowd[:2], "[n0 for g n1 for g]", "in a list it shows where one ends"},
		{lease, "n1 for g in pool p, token 2, active since " + at, "a log line about a lease says whose it is, and under which token"},
		{[]Lease{stalled}, "[n1 for g in pool p, token 2, taken at " + at + ", quarantined (stuck)]", "and why it is out of use; it was not since it was taken"},
		{Summary{}, "0 of at most 0 active, 0 members", "an unknown pool"},
		{Summary{Active: 1, Max: 2, Total: 1, Starts: 1, KeyActive: true}, "1 of at most 2 active, 1 member, 1 new lease, key active", "one is one"},
		{Summary{Active: 3, Max: 2, Total: 5, Halted: true, Unavailable: []string{"a", "b", "c"}}, "3 of at most 2 active, 5 members, halted; unavailable a, b, c", "nothing begins"},
		{
			Summary{Active: 13, Max: 20, Total: 40, Starts: 2, Holders: crowd, Quarantined: crowd[:2], Stuck: crowd[:1], Unavailable: []string{"n1", "n9"}},
			"13 of at most 20 active, 40 members, 2 new leases; holders n0 for g, n1 for g, n2 for g, n3 for g, n4 for g, n5 for g, n6 for g, n7 for g, n8 for g, n9 for g, 2 more; quarantined n0 for g, n1 for g; stuck n0 for g; unavailable n1, n9",
			"a list of thousands would hide the counts",
		},
		{Result{}, "0 candidates may start, 0 must wait", "nothing was asked"},
		{Result{Refused: []Refused{{Candidate: 3, Why: 7}}}, "0 candidates may start, 1 must wait\ncandidate 3 must wait: ", "a result put together by hand in a test has no answer 7, and still prints"},
		{Result{Refused: []Refused{{Candidate: 3}}}, "0 candidates may start, 1 must wait\ncandidate 3 must wait: ", "nor an answer 0"},
		{
			Result{Stuck: []Stuck{{0, lease, epoch.In(elsewhere)}}, Next: epoch.Add(time.Nanosecond).In(elsewhere)},
			"0 candidates may start, 0 must wait\nstuck since " + at + ": n1 for g in pool p, token 2, active since " + at + "\nnext: 2026-03-10T09:00:00.000000001Z",
			"a host that looks a moment before Next sees nothing new",
		},
	} {
		if got := fmt.Sprint(c.value); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.why, got, c.want)
		}
	}
	down := strings.Fields("a b c d e f g h i j k l")
	if got := (Summary{Unavailable: down}).String(); !strings.HasSuffix(got, "unavailable a, b, c, d, e, f, g, h, i, j, 2 more") || down[10] != "k" {
		t.Errorf("the list may be the snapshot's own: %s, then %v", got, down)
	}
	if got := (Summary{Unavailable: down[:10]}).String(); !strings.HasSuffix(got, "unavailable a, b, c, d, e, f, g, h, i, j") {
		t.Errorf("ten are shown, and none is left to count: %s", got)
	}
	if got := (Summary{Unavailable: down[:11]}).String(); !strings.HasSuffix(got, " i, j, 1 more") {
		t.Errorf("ten are shown, also if only one is left: %s", got)
	}
}

// TestResultPrints: who debugs a plan sees each answer once, with every pool that refuses.
func TestResultPrints(t *testing.T) {
	s := overlap(false).ask("n1", "g", "cluster", "zone-a").ask("free", "g").running("n1", "g")
	s.Pools[0].StuckAfter, s.Pools[1].Limit = time.Hour, Count(0)
	s.pool("cluster").Limit = Count(1)
	want := strings.Join([]string{
		"2 candidates may start, 2 must wait",
		"candidate 2 may start: slot_held, pool 0 with token 1, pool 1 with token 1",
		"candidate 3 may start: rule_not_applicable",
		"candidate 0 must wait: slot_full in pool 0, slot_paused in pool 1",
		"candidate 1 must wait: slot_full in pool 0",
		"pool 0: 1 of at most 1 active, 6 members; holders n1 for g",
		"pool 1: 1 of at most 0 active, 3 members; holders n1 for g",
		"next: 2026-03-10T10:00:00Z",
	}, "\n")
	if got := s.plan(t).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	named := strings.NewReplacer("candidate 2 ", "n1 for g ", "candidate 3 ", "free for g ", "candidate 0 ", "n2 for g ", "candidate 1 ", "n5 for g ", "pool 0", "pool cluster", "pool 1", "pool zone-a").Replace(want)
	if got := s.plan(t).Describe(s.Snapshot, s.candidates); got != named {
		t.Errorf("got\n%s\nwant\n%s", got, named)
	}
	if got := s.plan(t).Describe(Snapshot{Pools: s.Pools[:1]}, s.candidates[:1]); !strings.Contains(got, "n2 for g must wait: slot_full in pool cluster, slot_paused in pool 1") || !strings.Contains(got, "candidate 2 may start") {
		t.Errorf("what has no name is shown by its index: got\n%s", got)
	}
}

// TestResultPrintsBounded: the text of a plan for a large fleet is still read by people. Ten entries
// of each kind are shown, also if only one is left, and the rest is counted; who waits for the same
// pools shares a line.
func TestResultPrintsBounded(t *testing.T) {
	lease := Lease{Pool: "p", Holder: Holder{Resource: "n"}, Token: 1, State: Active, Since: epoch}
	result := func(n int) Result {
		var r Result
		for i := range int32(n) {
			r.Admitted = append(r.Admitted, Admitted{Candidate: i, Reason: SlotFree})
			r.Pools = append(r.Pools, Summary{Total: int(i)})
			r.Stuck = append(r.Stuck, Stuck{Pool: i, Lease: lease, At: epoch})
			r.Refusals = append(r.Refusals, []Refusal{{Pool: i, Reason: SlotFull}})
			r.Refused = append(r.Refused, Refused{Candidate: 2 * i, Why: i}, Refused{Candidate: 2*i + 1, Why: int32(n) - 1})
		}
		return r
	}
	for _, row := range []struct {
		n    int
		want []string
		why  string
	}{
		{2, []string{"2 candidates may start, 4 must wait", "candidate 0 must wait: slot_full in pool 0", "candidate 1 must wait: slot_full in pool 1; and 2 more likewise", "pool 0: 0 of at most 0 active, 0 members", "pool 1: 0 of at most 0 active, 1 member"}, "what most wait for comes first, with the candidate that got the answer first"},
		{10, []string{"candidate 9 may start: slot_free", "candidate 16 must wait: slot_full in pool 8", "pool 9: 0 of at most 0 active, 9 members"}, "ten are shown"},
		{11, []string{"candidate 9 may start: slot_free", "and 1 more start", "candidate 16 must wait: slot_full in pool 8", "and 1 more must wait; kinds of waits not shown: 1", "pool 9: 0 of at most 0 active, 9 members", "and 1 more pool", "and 1 more stuck lease"}, "of eleven, ten are shown"},
		{4000, []string{"4000 candidates may start, 8000 must wait", "and 3990 more starts", "candidate 1 must wait: slot_full in pool 3999; and 4000 more likewise", "and 3990 more must wait; kinds of waits not shown: 3990", "and 3990 more pools", "and 3990 more stuck leases"}, "the counts are those of all"},
	} {
		text := result(row.n).String()
		lines := strings.Split(text, "\n")
		if most := 1 + 4*(10+1); len(lines) > most {
			t.Errorf("%d: %d lines, at most %d: %s", row.n, len(lines), most, row.why)
		}
		for _, want := range row.want {
			if !slices.Contains(lines, want) {
				t.Errorf("%d: no line %q: %s\n%s", row.n, want, row.why, text)
			}
		}
		if row.n == 10 && strings.Contains(text, "\nand ") {
			t.Errorf("none is left to count\n%s", text)
		}
	}
	var wide Result
	wide.Admitted = []Admitted{{Claims: make([]Claim, 4000)}}
	wide.Refused, wide.Refusals = []Refused{{}}, [][]Refusal{make([]Refusal, 4000)}
	if text := wide.String(); len(text) > 1000 || !strings.Contains(text, ", 3991 more\n") || !strings.HasSuffix(text, ", 3990 more") {
		t.Errorf("a candidate of thousands of pools: %d bytes of %.500s", len(text), text)
	}
}
