package surge_test

import (
	"github.com/tranche-dev/tranche/surge"
)

// The rules of the package comment as functions of a state and its plan. They count slots one by
// one and know nothing of how the planner works, so they outlive any change of its tie-breaks.

type failure func(rule, format string, args ...any)

func at(slots []surge.Slot, i int) surge.Slot {
	if i < len(slots) {
		return slots[i]
	}
	return surge.Absent
}

func available(slots []surge.Slot) int {
	n := 0
	for _, slot := range slots {
		if slot.Available() {
			n++
		}
	}
	return n
}

// checkPlan holds I0 to I6, IE, IR, IX and the blocked reasons. after is the state once the whole
// plan is carried out.
func checkPlan(spec surge.Spec, slots []surge.Slot, plan surge.Result, after []surge.Slot, fail failure) {
	r := spec.Resolve()
	end := r.Replicas + r.Surge
	before, surged := -1, false
	deletesAvailable := false
	for _, action := range plan.Actions {
		i, slot := action.Index, at(slots, action.Index)
		if i <= before {
			fail("order", "the actions are not sorted by index, one per index")
		}
		before = i
		switch action.Op {
		case surge.Delete:
			if !slot.Live() {
				fail("I0", "%d is not live", i)
			}
			if i < r.Partition {
				fail("I4", "%d is protected", i)
			}
			if i < r.Replicas && !slot.Old() {
				fail("I5", "%d is at the target already", i)
			}
			deletesAvailable = deletesAvailable || slot.Available()
			if action.Revision != surge.NoRevision {
				fail("IR", "a deletion has no revision")
			}
		case surge.Create:
			if slot != surge.Absent {
				fail("I1", "%d is taken", i)
			}
			if i >= end {
				fail("I3", "%d is beyond the surge range", i)
			}
			if (i < r.Partition) != (action.Revision == surge.Stable) || (i >= r.Partition) != (action.Revision == surge.Target) {
				fail("IR", "%d is created at %v", i, action.Revision)
			}
			surged = surged || i >= r.Replicas
		default:
			fail("I0", "%d: %v is no operation", i, action.Op)
		}
		if !reasonFits(r, slot, action) {
			fail("reason", "%v of %q", action, slot)
		}
	}
	if n := available(after); deletesAvailable && n < r.Floor() {
		fail("I2", "%d available are left, the floor is %d", n, r.Floor())
	}
	for i := range r.Replicas {
		if at(after, i) == surge.Absent {
			fail("I6", "the hole at %d stays", i)
		}
	}

	// What is left after the plan, slot by slot.
	var waiting, broken, stay, surges, pendingSurges, basePending, protected, above, terminating int
	updated, converged := true, true
	for i := range max(len(after), r.Replicas) {
		slot := at(after, i)
		switch {
		case i >= r.Replicas:
			if slot.Live() {
				above++
			}
			if slot.Live() && i < end {
				surges++
			}
			if slot == surge.TargetUnavailable && i < end {
				pendingSurges++
			}
			converged = converged && at(slots, i) == surge.Absent
		case i < r.Partition:
			if slot.Available() {
				stay++
			}
			if slot == surge.OldUnavailable || slot == surge.OldUnscheduled {
				protected++
			}
			converged = converged && at(slots, i).Available()
		default:
			switch slot {
			case surge.TargetAvailable:
				stay++
			case surge.OldAvailable:
				waiting++
			case surge.OldUnavailable, surge.OldUnscheduled:
				broken++
			}
			updated = updated && at(slots, i) == surge.TargetAvailable
		}
		if slot == surge.TargetUnavailable && i < r.Replicas {
			basePending++
		}
		if slot == surge.Terminating {
			terminating++
		}
	}
	if plan.Updated != updated || plan.Converged != (updated && converged) {
		fail("flags", "updated %v, converged %v", updated, updated && converged)
	}
	if surged && (waiting == 0 || surges > r.Floor()-stay) {
		fail("IE", "%d surges for %d waiting replicas, floor %d, %d stay", surges, waiting, r.Floor(), stay)
	}
	if spec.Paused && surged {
		fail("paused", "a surge is created")
	}
	var blocked surge.Blocked
	for _, one := range [...]struct {
		reason surge.Blocked
		holds  bool
	}{
		{surge.BlockedPaused, spec.Paused && waiting+broken+above > 0},
		{surge.BlockedTerminating, terminating > 0},
		{surge.BlockedBudgetExhausted, !spec.Paused && waiting > 0},
		{surge.BlockedWaitingForSurge, !spec.Paused && waiting > 0 && pendingSurges > 0},
		{surge.BlockedWaitingForBase, basePending > 0},
		{surge.BlockedProtectedDown, protected > 0},
		{surge.BlockedRepairWindow, !spec.Paused && broken > 0},
	} {
		if one.holds {
			blocked |= one.reason
		}
	}
	if plan.Blocked != blocked {
		fail("blocked", "want %v", blocked)
	}
	if plan.Converged && (len(plan.Actions) > 0 || plan.Blocked != 0) || !plan.Converged && len(plan.Actions) == 0 && plan.Blocked == 0 {
		fail("IX", "the state is not explained")
	}
}

// reasonFits compares an action with what its reason says.
func reasonFits(r surge.Resolved, slot surge.Slot, action surge.Action) bool {
	base, end := action.Index < r.Replicas, r.Replicas+r.Surge
	switch action.Reason {
	case surge.Hole:
		return action.Op == surge.Create && base
	case surge.Surge:
		return action.Op == surge.Create && !base
	}
	if action.Op != surge.Delete {
		return false
	}
	switch action.Reason {
	case surge.Outdated:
		return base && slot == surge.OldAvailable
	case surge.OutdatedUnscheduled:
		return base && slot == surge.OldUnscheduled
	case surge.OutdatedUnavailable:
		return base && slot == surge.OldUnavailable
	case surge.StaleSurge:
		return !base && action.Index < end && slot.Old() && !slot.Available()
	case surge.SurplusSurge:
		return !base && action.Index < end && (slot.Available() || slot == surge.TargetUnavailable)
	case surge.Condemned:
		return action.Index >= end
	}
	return false
}

// checkQuiescent holds I6, I7 and I8 in a state whose plan is empty and in which nothing is
// terminating. The Spec is not paused.
func checkQuiescent(spec surge.Spec, slots []surge.Slot, plan surge.Result, fail failure) {
	r := spec.Resolve()
	var outdated, stuck, broken, surgeDown, above int
	for i, slot := range slots {
		down := slot.Live() && !slot.Available()
		if down {
			broken++
		}
		switch {
		case i >= r.Replicas:
			if slot.Live() {
				above++
			}
			if down && i < r.Replicas+r.Surge {
				surgeDown++
			}
		case i >= r.Partition && slot.Old():
			outdated++
		case down:
			stuck++
		}
	}
	if broken == 0 && !plan.Converged {
		fail("I6", "nothing is broken and nothing is planned")
	}
	if outdated > 0 && stuck < r.Unavailable+r.Surge && !(stuck >= r.Unavailable && surgeDown > 0) {
		fail("I7", "%d outdated replicas wait for nothing, %d are stuck", outdated, stuck)
	}
	if outdated == 0 && above > 0 && !(stuck > r.Unavailable && available(slots) <= r.Floor()) {
		fail("I8", "%d replicas above the base are left, %d are stuck", above, stuck)
	}
}
