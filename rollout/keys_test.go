package rollout_test

import (
	"slices"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// TestPlannersShareKeys: one zone at a time may be active, and each zone has a record of its own. Two planners that have read that none is active, of which each
// prefers another zone, must not make both active, whatever one of them does between two calls of the other, or where it stops.
func TestPlannersShareKeys(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
	}
	only := func(k int) rollout.Snapshot { // in which the other one has not heard of v2
		own := s
		own.Targets = slices.Clone(s.Targets)
		own.Targets[1-k].Current = "v2"
		return own
	}
	reached := map[int]bool{}
	for first := range 2 {
		for calls := range 12 { // after so many calls of the first the other one has its turn
			for _, crashes := range []bool{false, true} {
				inner := &bracket.MemoryStore{}
				var active []string
				turn := func(store bracket.Store, k int) {
					plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(t0)}).Plan(t.Context(), only(k))
					if err == nil {
						active = append(active, started(plan)...)
					}
				}
				n := 0
				turn(brackettest.NewFaultStore(inner, func(brackettest.Call) brackettest.Fault {
					if n++; n == calls {
						reached[calls] = true
						turn(inner, 1-first)
						if crashes {
							return brackettest.Crash
						}
					}
					return brackettest.None
				}), first)
				turn(inner, 1-first)
				turn(inner, first)
				slices.Sort(active)
				if active = slices.Compact(active); len(active) > 1 {
					t.Errorf("the other one comes before call %d of the one that wants r%d, crash %v: %q start", calls, first+1, crashes, active)
				}
			}
		}
	}
	if len(reached) < 5 {
		t.Errorf("%d calls", len(reached))
	}
}
