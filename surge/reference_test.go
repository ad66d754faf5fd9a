package surge_test

import (
	"sort"

	"github.com/tranche-dev/tranche/surge"
)

// reference is the planner written down as it is told: one mark per slot, one loop per rule, lists
// that are sorted. The tests compare the two, the benchmarks measure what the difference is worth.
func reference(spec surge.Spec, slots []surge.Slot) []surge.Action {
	r := spec.Resolve()
	end := r.Replicas + r.Surge
	n := max(len(slots), end)
	marks := make(map[int]surge.Action)
	budget := available(slots) - r.Floor()
	mark := func(i int, reason surge.Reason) {
		marks[i] = surge.Action{Index: i, Op: surge.Delete, Reason: reason}
	}
	marked := func(i int) bool { _, ok := marks[i]; return ok }
	eligible := make([]int, 0, r.Replicas)
	for i := r.Partition; i < r.Replicas; i++ {
		eligible = append(eligible, i)
	}
	if spec.Order == surge.Descending {
		sort.Sort(sort.Reverse(sort.IntSlice(eligible)))
	}
	down := func(i int) bool { return at(slots, i).Live() && !at(slots, i).Available() }

	for i := end; i < n; i++ {
		if down(i) {
			mark(i, surge.Condemned)
		}
	}
	if !spec.Paused {
		for i := r.Replicas; i < end; i++ {
			if down(i) && at(slots, i).Old() {
				mark(i, surge.StaleSurge)
			}
		}
		window := r.Unavailable + r.Surge
		for _, i := range eligible {
			if slot := at(slots, i); slot == surge.Absent || slot == surge.Terminating || slot == surge.TargetUnavailable {
				window--
			}
		}
		for _, class := range []struct {
			slot   surge.Slot
			reason surge.Reason
		}{{surge.OldUnscheduled, surge.OutdatedUnscheduled}, {surge.OldUnavailable, surge.OutdatedUnavailable}} {
			for _, i := range eligible {
				if at(slots, i) == class.slot && (window > 0 || spec.Force) {
					mark(i, class.reason)
					window--
				}
			}
			for _, i := range eligible {
				if i < r.MinAvailable && at(slots, i) == class.slot {
					mark(i, class.reason)
				}
			}
		}
	}
	for i := n - 1; i >= end; i-- {
		if at(slots, i).Available() && budget > 0 {
			mark(i, surge.Condemned)
			budget--
		}
	}
	need := 0
	if !spec.Paused {
		for _, i := range eligible {
			if at(slots, i) == surge.OldAvailable && budget > 0 {
				mark(i, surge.Outdated)
				budget--
			}
		}
		left, stay := 0, 0
		for i := range r.Replicas {
			switch slot := at(slots, i); {
			case !slot.Available():
			case slot.Old() && i >= r.Partition && !marked(i):
				left++
			case !slot.Old() || i < r.Partition:
				stay++
			}
		}
		if left > 0 {
			need = min(r.Surge, r.Floor()-stay)
		}
		live := 0
		for i := r.Replicas; i < end; i++ {
			if at(slots, i).Live() && !marked(i) {
				live++
			}
		}
		for _, slot := range []surge.Slot{surge.TargetUnavailable, surge.OldAvailable, surge.TargetAvailable} {
			for i := end - 1; i >= r.Replicas; i-- {
				if at(slots, i) != slot || live <= need || slot.Available() && budget <= 0 {
					continue
				}
				mark(i, surge.SurplusSurge)
				live--
				if slot.Available() {
					budget--
				}
			}
		}
		for i := r.Replicas; i < end && live < need; i++ {
			if at(slots, i) == surge.Absent {
				marks[i] = surge.Action{Index: i, Op: surge.Create, Revision: surge.Target, Reason: surge.Surge}
				live++
			}
		}
	}
	for i := range r.Replicas {
		if at(slots, i) == surge.Absent {
			marks[i] = surge.Action{Index: i, Op: surge.Create, Revision: surge.Target, Reason: surge.Hole}
			if i < r.Partition {
				marks[i] = surge.Action{Index: i, Op: surge.Create, Revision: surge.Stable, Reason: surge.Hole}
			}
		}
	}
	var list []surge.Action
	for i := range n {
		if action, ok := marks[i]; ok {
			list = append(list, action)
		}
	}
	return list
}
