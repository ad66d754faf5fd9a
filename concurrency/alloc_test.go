package concurrency

import "testing"

// TestPlanAllocations: the number of allocations depends on the pools and on how many different answers there are, not on the candidates.
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

// TestQueueDoesNotPassTheFleet: an end and a start cost the same in a queue a hundred times as long.
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
