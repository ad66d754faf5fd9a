package concurrency

import (
	"fmt"
	"testing"
)

// TestPlanAllocations: the number of allocations depends on the pools and on how many different
// answers there are, not on the candidates.
func TestPlanAllocations(t *testing.T) {
	measure := func(n, down int) float64 {
		s, candidates := fleet(n, down)
		return testing.AllocsPerRun(2, func() {
			if _, err := Plan(s, candidates, epoch); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, down := range []int{0, 5} {
		small, large := measure(2_000, down), measure(60_000, down)
		if large > small+8 || small > 50 { // the runtime may add a few
			t.Errorf("%v allocations for 2,000 candidates, %v for 60,000", small, large)
		}
		t.Logf("down=%d: %v, %v", down, small, large)
	}
}

// takingTurns are candidates whose neighbours get different answers that end with the same pool, of
// so many kinds.
func takingTurns(n, kinds int) (Snapshot, []Candidate) {
	s := Snapshot{Pools: []Pool{{Key: "z all", Limit: Count(0), Total: n}}}
	for k := range kinds {
		s.Pools = append(s.Pools, Pool{Key: fmt.Sprintf("rack %04d", k), Limit: Count(0), Total: n})
	}
	candidates := make([]Candidate, n)
	for i := range candidates {
		candidates[i] = Candidate{Resource: fmt.Sprintf("n%06d", i), Group: "g", Rank: i, Needs: []int32{0, int32(1 + i%kinds)}}
	}
	return s, candidates
}

// TestAnswersAreGivenOnce: who waits for the same gets the same answer, wherever it stands.
func TestAnswersAreGivenOnce(t *testing.T) {
	for _, kinds := range []int{1, 2, 100} {
		s, candidates := takingTurns(1_000, kinds)
		r, err := Plan(s, candidates, epoch)
		if err != nil || len(r.Refusals) != kinds || len(r.Refused) != len(candidates) {
			t.Fatalf("%d answers to %d refused, %v; want %d", len(r.Refusals), len(r.Refused), err, kinds)
		}
		for _, refused := range r.Refused {
			answer := r.Refusals[refused.Why]
			if rack := candidates[refused.Candidate].Needs[1]; len(answer) != 2 || answer[0] != (Refusal{rack, SlotPaused}) || answer[1] != (Refusal{0, SlotPaused}) {
				t.Fatalf("%+v gets %+v", candidates[refused.Candidate], answer)
			}
		}
	}
	for i, answer := range func() [][]Refusal { // the same pools with other reasons are another answer
		s := newScene(Pool{Key: "a", Limit: Count(1), Total: 9}, Pool{Key: "b", Limit: Count(1), Total: 9, Strict: true}, Pool{Key: "c", Limit: Count(1), Total: 9}).
			lease("a", "x", "g", 0).lease("c", "x", "g", 0)
		for _, resource := range []string{"n1", "n2", "n3"} {
			s.ask(resource, "g", "a", "b", "c")
		}
		return s.plan(t).Refusals
	}() {
		if want := [][]Reason{{SlotFull, SlotFull}, {SlotFull, SlotReserved, SlotFull}}; i >= len(want) || len(answer) != len(want[i]) {
			t.Errorf("answer %d: %+v, want %v", i, answer, want)
		}
	}
	measure := func(n int) float64 {
		s, candidates := takingTurns(n, 100)
		return testing.AllocsPerRun(2, func() {
			if _, err := Plan(s, candidates, epoch); err != nil {
				t.Fatal(err)
			}
		})
	}
	if small, large := measure(1_000), measure(30_000); large > small+8 {
		t.Errorf("%v allocations for 1,000 candidates, %v for 30,000", small, large)
	}
}

// A hash that two answers share tells them apart all the same.
func TestAnswersThatCollide(t *testing.T) {
	one, two, three := []Refusal{{1, SlotFull}, {0, SlotFull}}, []Refusal{{2, SlotFull}, {0, SlotFull}}, []Refusal{{3, SlotFull}, {0, SlotFull}}
	a := answers{latest: make([]int32, 4), list: [][]Refusal{three}, table: map[uint64]int32{hashAnswer(one): 0}}
	for _, c := range []struct {
		answer []Refusal
		want   int32
	}{{one, 1}, {two, 2}, {one, 1}, {two, 2}} {
		a.latest[0] = 1 // the last one was another one
		if got := a.number(c.answer, 10); got != c.want {
			t.Errorf("%v is number %d, want %d", c.answer, got, c.want)
		}
	}
	if got := a.table[hashAnswer(one)]; got != 0 {
		t.Errorf("answer %d has taken the place of the one that was there", got)
	}
}

// TestRoomForResults: what is allocated at once is as large as it has to be.
func TestRoomForResults(t *testing.T) {
	for _, down := range []int{0, 5} {
		s, candidates := fleet(2_000, down)
		r, err := Plan(s, candidates, epoch)
		if err != nil {
			t.Fatal(err)
		}
		free := 0
		for _, a := range r.Admitted {
			if a.Reason != SlotFree {
				free++
			}
		}
		if cap(r.Refused) != len(candidates)-free || len(r.Admitted) == 0 || cap(r.Admitted) > 2*len(r.Admitted) {
			t.Errorf("down=%d: room for %d refused of %d, %d free, and for %d admitted of %d", down, cap(r.Refused), len(r.Refused), free, cap(r.Admitted), len(r.Admitted))
		}
	}
	s := newScene(ten(Count(4)), Pool{Key: "lost", Unknown: true}).lease("nodes", "n1", "g", 0).lease("nodes", "n2", "g", 0).unavailable("nodes", "n4").unavailable("nodes", "n5")
	s.Pools[0].Jobs = []Holder{{"n3", "g"}}
	s.Pools[0].Departed = []string{"n6"}
	l := newLedger(s.Snapshot, make([]Candidate, 10), epoch)
	if len(l.places) != 6 || cap(l.places) != 6 || len(l.holds) != 3 || cap(l.holds) != 3 || l.room != 0 {
		t.Errorf("%d places of %d, %d leases of %d, room %d", len(l.places), cap(l.places), len(l.holds), cap(l.holds), l.room)
	}
	s.Pools[0].Limit = Count(9)
	if l := newLedger(s.Snapshot, make([]Candidate, 10), epoch); l.room != 4 {
		t.Errorf("room for %d, want 4: nine less two leases, a job and two that are unavailable", l.room)
	}
	s.Pools[0].Departed = nil
	if l := newLedger(s.Snapshot, nil, epoch); len(l.resources.entries) != 5 || cap(l.resources.entries) != 5 || l.room != 0 {
		t.Errorf("%d resources of %d, room %d", len(l.resources.entries), cap(l.resources.entries), l.room)
	}
}

func TestWidth(t *testing.T) {
	needs := func(n, width int) []Candidate {
		candidates := make([]Candidate, n)
		for i := range candidates {
			candidates[i].Needs = make([]int32, width)
		}
		return candidates
	}
	for _, c := range []struct {
		candidates []Candidate
		want       int
		why        string
	}{
		{nil, 1, "nobody"},
		{needs(10, 0), 1, "who needs nothing takes no place, but it is divided by it"},
		{needs(1, 3), 3, "one"},
		{needs(1000, 3), 3, "all alike"},
		{append(needs(1, 9), needs(3, 1)...), 3, "twelve for four"},
		{append(needs(1, 9), needs(4, 1)...), 3, "thirteen for five, rounded up"},
		{append(needs(1, 9), needs(999, 1)...), 2, "the first is one of many"},
		{needs(5, 99), 10, "there are no more than ten pools"},
	} {
		if got := width(c.candidates, 10); got != c.want {
			t.Errorf("%d, want %d: %s", got, c.want, c.why)
		}
	}
}

// TestQueueDoesNotPassTheFleet: an end and a start cost the same in a queue a hundred times as
// long.
func TestQueueDoesNotPassTheFleet(t *testing.T) {
	visits := func(n int) float64 {
		q, ids := waitingFleet(t, n)
		return testing.AllocsPerRun(20, func() {
			if len(ids) == 0 {
				t.Fatal("nobody to end")
			}
			event(t, q, &ids)
		})
	}
	if small, large := visits(1_000), visits(100_000); large > 2*small+20 {
		t.Errorf("%v allocations per event with 1,000 waiting, %v with 100,000", small, large)
	}
}
