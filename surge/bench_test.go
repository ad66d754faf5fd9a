package surge_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/surge"
)

// benchState is a state of n replicas, by name.
func benchState(name string, spec surge.Spec, n int) []surge.Slot {
	r := spec.Resolve()
	slots := make([]surge.Slot, r.Replicas+r.Surge)
	random := rand.New(rand.NewPCG(1, uint64(n)))
	for i := range slots {
		switch {
		case name == "random":
			slots[i] = surge.Slot(random.IntN(7))
		case i >= r.Replicas:
		case name == "old":
			slots[i] = surge.OldAvailable
		case name == "target":
			slots[i] = surge.TargetAvailable
		case name == "broken":
			slots[i] = surge.OldUnavailable
		}
	}
	return slots
}

var benchResult surge.Result

func benchSpec(n int) surge.Spec {
	return surge.Spec{Replicas: n, MaxSurge: concurrency.Percent(25), MaxUnavailable: concurrency.Percent(25)}
}

// BenchmarkPlan plans one state; beside it, the same by the dumb planner of the tests.
func BenchmarkPlan(b *testing.B) {
	for _, state := range []string{"old", "target", "random", "broken"} {
		for _, n := range []int{8, 1_000, 10_000, 1_000_000} {
			spec := benchSpec(n)
			slots := benchState(state, spec, n)
			b.Run(fmt.Sprintf("%s/n=%d", state, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					benchResult = surge.Plan(spec, slots)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(slots)), "ns/slot")
			})
			if n > 10_000 {
				continue
			}
			b.Run(fmt.Sprintf("reference/%s/n=%d", state, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					benchResult.Actions = reference(spec, slots)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(slots)), "ns/slot")
			})
		}
	}
}

// BenchmarkUpdate plays whole updates: every plan is carried out, then all that is terminating goes
// or all that is created gets ready.
func BenchmarkUpdate(b *testing.B) {
	for _, budget := range []struct {
		name                string
		surges, unavailable concurrency.Limit
	}{
		{"25%", concurrency.Percent(25), concurrency.Percent(25)},
		{"1%", concurrency.Percent(1), concurrency.Count(0)},
	} {
		for _, n := range []int{8, 1_000, 10_000} {
			spec := surge.Spec{Replicas: n, MaxSurge: budget.surges, MaxUnavailable: budget.unavailable}
			start := benchState("old", spec, n)
			b.Run(fmt.Sprintf("%s/n=%d", budget.name, n), func(b *testing.B) {
				b.ReportAllocs()
				plans := 0
				for b.Loop() {
					slots := append([]surge.Slot(nil), start...)
					for plans = 0; ; plans++ {
						plan := surge.Plan(spec, slots)
						if plan.Converged {
							break
						}
						if len(plan.Actions) > 0 {
							slots = surge.Apply(slots, plan.Actions)
							continue
						}
						from, to := surge.TargetUnavailable, surge.TargetAvailable
						if plan.Blocked.Has(surge.BlockedTerminating) {
							from, to = surge.Terminating, surge.Absent
						}
						for i, slot := range slots {
							if slot == from {
								slots[i] = to
							}
						}
					}
				}
				b.ReportMetric(float64(plans), "plans")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/replica")
			})
		}
	}
}

var benchSet surge.SetResult

// BenchmarkPlanSet plans sets in the middle of an update: ten units in each of three components.
func BenchmarkPlanSet(b *testing.B) {
	for _, kind := range []surge.StrategyType{surge.RollingUpdate, surge.ReplicaRecreate} {
		for _, n := range []int{8, 1_000, 10_000} {
			spec := surge.SetSpec{Replicas: n, UpdateStrategy: surge.SetUpdateStrategy{Type: kind}}
			for i := range 3 {
				spec.Components = append(spec.Components, surge.Component{Name: fmt.Sprint("component", i), Replicas: 10, MinAvailable: 8})
			}
			state := make(surge.SetState, n)
			for r := range state {
				for range 3 {
					unit := surge.OldAvailable
					if r < n/2 {
						unit = surge.TargetAvailable
					}
					slots := make([]surge.Slot, 10)
					for i := range slots {
						slots[i] = unit
					}
					state[r] = append(state[r], surge.Units{Slots: slots})
				}
			}
			b.Run(fmt.Sprintf("%s/n=%d", kind, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					benchSet, _ = surge.PlanSet(spec, state)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(30*n), "ns/unit")
			})
		}
	}
}

// TestAllocations: a plan allocates its actions, at once, and nothing else.
func TestAllocations(t *testing.T) {
	for _, row := range []struct {
		state string
		want  float64
	}{{"old", 1}, {"target", 0}, {"random", 1}, {"broken", 1}} {
		for _, n := range []int{8, 1_000, 10_000} {
			spec := benchSpec(n)
			slots := benchState(row.state, spec, n)
			if got := testing.AllocsPerRun(10, func() { benchResult = surge.Plan(spec, slots) }); got != row.want {
				t.Errorf("%s, %d replicas: %v allocations, want %v", row.state, n, got, row.want)
			}
			if list := benchResult.Actions; len(list) != cap(list) {
				t.Errorf("%s, %d replicas: %d actions in a slice of %d", row.state, n, len(list), cap(list))
			}
		}
	}
}
