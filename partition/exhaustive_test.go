package partition_test

import (
	"reflect"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
)

// TestExhaustive compares every state of three clusters, one partition or three, with the
// reference: all combinations of small limits, in both modes. Then it carries the plan out and
// follows events until the rollout ends, so that every reachable state of the small world is
// planned from as well.
func TestExhaustive(t *testing.T) {
	states := "dopbuzfa"
	if testing.Short() || testkit.Race {
		states = "dopb"
	}
	planned, ended := 0, 0
	for _, mode := range modes() {
		for bits := range 16 {
			pick := func(bit, low, high int) int { return []int{low, high}[bits>>bit&1] }
			size := partition.FromInt(int32(pick(0, 0, 1)))
			strategy := partition.Strategy{
				MaxUnavailable: partition.FromInt(int32(pick(1, 0, 1))), MaxUnavailablePartitions: partition.FromInt(int32(pick(2, 0, 1))),
				AutoPartitionSize: size, AutoPartitionThreshold: count(1), MaxNew: count(pick(3, 1, 2)),
			}
			options := partition.Options{Mode: mode}
			compiled, err := partition.Compile(strategy, fleetOf(3, fresh()), options)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[[3]partition.State]bool{}
			var next [][3]partition.State
			for _, a := range states {
				for _, b := range states {
					for _, c := range states {
						next = append(next, [3]partition.State{letters()[a], letters()[b], letters()[c]})
					}
				}
			}
			for len(next) > 0 {
				world := next[len(next)-1]
				next = next[:len(next)-1]
				if seen[world] {
					continue
				}
				seen[world] = true
				planned++
				fleet := fleetOf(3, fresh())
				for i, state := range world {
					fleet.Clusters[i].State = state
				}
				if err := compiled.UpdateAll(world[:]); err != nil {
					t.Fatal(err)
				}
				plan := compiled.Plan()
				want, err := reference(strategy, fleet, options)
				if err != nil {
					t.Fatal(err)
				}
				if got := outcomeOf(compiled, &plan); !reflect.DeepEqual(want, got) && !gocmp.Equal(want, got, cmpopts.EquateEmpty()) {
					t.Fatalf("%s, %+v: %+v (-reference +plan):\n%s", mode, strategy, world, gocmp.Diff(want, got, cmpopts.EquateEmpty()))
				}
				if len(plan.Waiting) == 0 {
					ended++
				}
				// Carried out as a whole; then what was released becomes ready.
				after := apply(fleet, &plan.Step)
				carried, settled := world, world
				for i := range after.Clusters {
					carried[i] = after.Clusters[i].State
					settled[i] = carried[i]
					if s := &settled[i]; s.Released == newVersion && !s.Offline {
						s.Applied, s.Ready = newVersion, true
					}
				}
				next = append(next, carried, settled)
			}
		}
	}
	if ended == 0 {
		t.Error("no rollout ends")
	}
	t.Logf("%d states planned, in %d nothing waits", planned, ended)
}
