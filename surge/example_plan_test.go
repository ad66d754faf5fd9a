package surge_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/surge"
)

// A set of three that may grow by one and must not shrink: the surge comes first, serves while the
// base is replaced one by one, and goes last. The same happens to the pods of a PodClique and to
// the replicas of a scaling group, whatever its base gang. An O is available and outdated, an N has
// the target, an n is not yet available, a t terminates, and a dot is empty; -0 deletes index 0 and
// +3 creates index 3.
func ExamplePlan() {
	spec := surge.Spec{Replicas: 3, MaxSurge: concurrency.Count(1), MaxUnavailable: concurrency.Count(0)}
	play(spec, "OOO.", "3 ready", "0 gone", "0 ready", "1 gone", "1 ready", "2 gone", "2 ready", "3 gone")
	// Output:
	// OOO.  +3
	// OOOn  3 ready
	// OOON  -0
	// tOON  0 gone
	// .OON  +0
	// nOON  0 ready
	// NOON  -1
	// NtON  1 gone
	// N.ON  +1
	// NnON  1 ready
	// NNON  -2
	// NNtN  2 gone
	// NN.N  +2
	// NNnN  2 ready
	// NNNN  -3
	// NNNt  3 gone
	// NNN.  converged
}

// The leader goes last, whatever its index, and whoever it is by then: the plan sees the members in
// the order in which they may go, and its indices are translated back. Here member 1 is the leader
// until it hands over to member 0, which has been updated by then.
func ExamplePlan_leaderLast() {
	spec := surge.Spec{Replicas: 3, MaxUnavailable: concurrency.Count(1)}
	members, leader := []surge.Slot{surge.OldAvailable, surge.OldAvailable, surge.OldAvailable}, 1
	for {
		order := []int{0, 1, 2}
		slices.SortStableFunc(order, func(a, b int) int {
			switch leader {
			case a:
				return 1
			case b:
				return -1
			}
			return 0
		})
		seen := make([]surge.Slot, len(members))
		for place, member := range order {
			seen[place] = members[member]
		}
		plan := surge.Plan(spec, seen)
		if plan.Converged {
			fmt.Println(surge.FormatSlots(members), "converged")
			return
		}
		for _, action := range plan.Actions {
			member := order[action.Index]
			switch {
			case action.Op == surge.Create:
				members[member] = surge.TargetAvailable // at once, in this world
			case member == leader:
				leader = 0
				fmt.Println(surge.FormatSlots(members), "hand over to 0")
			default:
				fmt.Println(surge.FormatSlots(members), "restart", member)
				members[member] = surge.Absent // at once as well
			}
		}
	}
	// Output:
	// OOO restart 0
	// NOO restart 2
	// NON hand over to 0
	// NON restart 1
	// NNN converged
}

// play prints each state with its plan, carries plans out as a whole, and lets one event after the
// other happen when there is nothing to do: "3 ready" or "3 gone".
func play(spec surge.Spec, state string, events ...string) {
	fmt.Println(strings.Join(walkthrough(spec, state, events), "\n"))
}

// walkthrough is what play prints, a line for each state.
func walkthrough(spec surge.Spec, state string, events []string) (lines []string) {
	slots, err := surge.ParseSlots(state)
	if err != nil {
		return []string{err.Error()}
	}
	for range 100 {
		plan := surge.Plan(spec, slots)
		line := surge.FormatSlots(slots) + " "
		for _, action := range plan.Actions {
			move, _, _ := strings.Cut(action.String(), " ")
			line += " " + move
		}
		switch {
		case plan.Converged:
			return append(lines, line+" converged")
		case len(plan.Actions) > 0:
			slots = surge.Apply(slots, plan.Actions)
		case len(events) == 0:
			return append(lines, fmt.Sprint(line, " ", plan.Blocked))
		default:
			line += " " + events[0]
			for one := range strings.SplitSeq(events[0], ", ") {
				var index int
				var what string
				fmt.Sscan(one, &index, &what)
				slots[index] = map[string]surge.Slot{"ready": surge.TargetAvailable, "gone": surge.Absent}[what]
			}
			events = events[1:]
		}
		lines = append(lines, line)
	}
	return lines
}
