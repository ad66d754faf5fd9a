package surge

import (
	"fmt"
	"strconv"
	"strings"
)

// Stuck names what an update waits for once there is nothing left to do and nothing on its way: the
// stuck scenarios of Grove's design, and those that the design leaves out.
type Stuck string

const (
	// NotStuck: the plan is not empty, something is terminating, or the set has converged.
	NotStuck Stuck = ""
	// SurgeGated: a surge waits for a base gang with an unavailable member. If the update took that
	// member down, the wait ends by itself: the scaled gang of the surge and the base gang never
	// wait for each other for good.
	SurgeGated Stuck = "SurgeGated"
	// SurgeUnscheduled: a surge that the update needs was never scheduled.
	SurgeUnscheduled Stuck = "SurgeUnscheduled"
	// SurgeNotReady: a surge that the update needs does not become available.
	SurgeNotReady Stuck = "SurgeNotReady"
	// TargetNotReady: replicas at the target revision do not become available. They use up the
	// budgets, so if others are outdated, no further one is updated to that revision. It is not the
	// revision that is at fault if they were never scheduled: a scale-out that comes with a revision
	// may wait for room that outdated replicas take, and these for the scale-out.
	TargetNotReady Stuck = "TargetNotReady"
	// ReplicasUnhealthy: old replicas below the partition are not available, and the update may not
	// replace them.
	ReplicasUnhealthy Stuck = "ReplicasUnhealthy"
	// UpdatePaused: the Spec is paused.
	UpdatePaused Stuck = "UpdatePaused"
)

// Diagnosis is a scenario with the indices that it concerns, ascending.
type Diagnosis struct {
	Stuck   Stuck  `json:"stuck"`
	Indices []int  `json:"indices,omitempty"`
	Remedy  string `json:"remedy,omitempty"` // for people

	// MaxUnavailable is, while a surge is waited for, the count with which the update goes on
	// without that surge: a caller that has waited for long enough sets the MaxSurge of the Spec to 0
	// and its MaxUnavailable to this. It is one more than the base replicas that are down and may not
	// be replaced, so if the target revision is at fault, one more replica is lost with each try.
	//
	// Where autoscalers have scaled the components of a set apart, the count is one of the units
	// that there should be in one replica, and may exceed the Replicas of the [Component].
	// [PlanSet] takes it, but Validate refuses such a Spec. So a caller that validates again before
	// it plans raises the Replicas of the component too, if all [Units] of it have a number of
	// their own: those without one would be scaled.
	MaxUnavailable int `json:"maxUnavailable,omitempty"`
}

// String returns "scenario [indices]: remedy", or "not stuck". Of many indices it shows the first
// ten and counts the rest.
func (d Diagnosis) String() string {
	if d.Stuck == NotStuck {
		return "not stuck"
	}
	return fmt.Sprintf("%s %s: %s", d.Stuck, listed(d.Indices), d.Remedy)
}

// listed returns indices in brackets.
func listed(indices []int) string { return "[" + strings.Join(shown(indices, strconv.Itoa), " ") + "]" }

// Diagnose says in which scenario an update is if its plan is empty and the state no longer
// changes. It reads no clock, so a replica that is about to become ready looks like one that never
// will: the caller decides how long is too long.
//
// A Slot does not tell whether a replica at the target was ever scheduled. The function unscheduled
// tells it, for callers that know; it may be nil, and then the Remedy of TargetNotReady speaks of
// the revision alone. If several scenarios apply, Diagnose returns the first in this order:
// UpdatePaused, SurgeGated, SurgeUnscheduled, SurgeNotReady, TargetNotReady, ReplicasUnhealthy.
func Diagnose(spec Spec, slots []Slot, unscheduled func(index int) bool) Diagnosis {
	return diagnose(Plan(spec, slots), spec.Resolve(), spec.Paused, slots, unscheduled)
}

// diagnose looks at a plan that was made. What is below the partition or paused would not be updated
// after a new revision either.
func diagnose(plan Result, r Resolved, paused bool, slots []Slot, unscheduled func(index int) bool) Diagnosis {
	if len(plan.Actions) > 0 || plan.Converged || plan.Blocked.Has(BlockedTerminating) {
		return Diagnosis{}
	}
	if plan.Blocked.Has(BlockedPaused) {
		outdated := indices(slots, 0, len(slots), func(i int, slot Slot) bool {
			return i >= r.Partition && slot.Old() || i >= r.Replicas && slot.Live()
		})
		return pausedAt(outdated)
	}
	if plan.Blocked.Has(BlockedWaitingForSurge) {
		end := plus(r.Replicas, r.Surge)
		// Without the surge the update goes on only if more may be missing than the replicas that
		// are down and that it may not replace. By I7 these alone use up the present
		// MaxUnavailable. Old ones above the partition are not among them: the repair window of the
		// new budget has room for one.
		most := r.lost(slots) + 1
		without := fmt.Sprintf("with maxSurge 0 and maxUnavailable %d", most)
		if gate := indices(slots, 0, r.MinAvailable, down); len(gate) > 0 {
			return Diagnosis{SurgeGated, gate, "make these members of the base gang available: the surge is scheduled after them", most}
		}
		if unscheduled != nil {
			never := indices(slots, r.Replicas, end, func(i int, slot Slot) bool { return slot == TargetUnavailable && unscheduled(i) })
			if len(never) > 0 {
				return Diagnosis{SurgeUnscheduled, never, "make room for the surge, or give it up " + without, most}
			}
		}
		return Diagnosis{SurgeNotReady, indices(slots, r.Replicas, end, pending),
			"make the surge available, publish a working revision, or give the surge up " + without + "; if it is only deleted, it is created again", most}
	}
	resume := ""
	if paused { // nothing is outdated now, but after a new revision it would be, and the pause would hold it back
		resume = ", and resume the update"
	}
	if stuck := indices(slots, 0, r.Replicas, pending); len(stuck) > 0 {
		return Diagnosis{Stuck: TargetNotReady, Indices: stuck, Remedy: notReady(plan, r, slots, stuck, unscheduled, resume)}
	}
	return Diagnosis{Stuck: ReplicasUnhealthy, Indices: indices(slots, 0, r.Partition, down), Remedy: "repair these replicas, or lower the partition to replace them" + resume}
}

// notReady returns what helps base replicas at the target that are not available.
func notReady(plan Result, r Resolved, slots []Slot, stuck []int, unscheduled func(int) bool, resume string) string {
	// Members of gangs that are scheduled after the base gang wait for that, and not for room.
	end := r.Replicas
	if len(indices(slots, 0, r.MinAvailable, down)) > 0 {
		end = r.MinAvailable
	}
	never := 0
	for _, i := range stuck {
		if i < end && unscheduled != nil && unscheduled(i) {
			never++
		}
	}
	room := ""
	if never > 0 {
		// With a budget above what is lost, the update goes on by I7 and I8.
		if waits := plan.Blocked.Has(BlockedBudgetExhausted) || plan.Blocked.Has(BlockedRepairWindow); waits || len(indices(slots, r.Replicas, len(slots), live)) > 0 {
			room = fmt.Sprintf(", or let one more go with maxUnavailable %d", min(r.lost(slots)+1, r.Replicas))
		}
		if never == len(stuck) {
			return "make room for these replicas, or scale in" + room
		}
	}
	remedy := "publish a working revision, or go back to the old one"
	gate := indices(slots, 0, min(r.MinAvailable, r.Partition), func(_ int, slot Slot) bool { return slot.Old() && !slot.Available() })
	if last := stuck[len(stuck)-1]; last < r.Partition { // after a new revision these replicas would be old, and protected
		remedy += ", and lower the partition"
	} else if last >= r.MinAvailable && len(gate) > 0 { // after a new revision they would wait for the same members of the base gang
		remedy = "repair " + listed(gate) + " of the base gang, or lower the partition to replace them: other gangs are scheduled after them; if that is not enough, " + remedy
	}
	if never > 0 {
		remedy = "make room for those that were never scheduled, " + remedy
	}
	return remedy + resume + room
}

// indices returns those in [from, to) of which something holds.
func indices(slots []Slot, from, to int, holds func(int, Slot) bool) (list []int) {
	for i := from; i < min(to, len(slots)); i++ {
		if holds(i, slots[i]) {
			list = append(list, i)
		}
	}
	return list
}

// While an update is stuck no base slot is absent or terminating: a hole has a plan, and a
// terminating replica is waited for.
func down(_ int, slot Slot) bool    { return !slot.Available() }
func live(_ int, slot Slot) bool    { return slot.Live() }
func pending(_ int, slot Slot) bool { return slot == TargetUnavailable }

// lost counts the base replicas that are not available and that the update may not replace.
func (r Resolved) lost(slots []Slot) int {
	return len(indices(slots, 0, r.Replicas, func(i int, slot Slot) bool {
		return slot == TargetUnavailable || i < r.Partition && !slot.Available()
	}))
}

func pausedAt(outdated []int) Diagnosis {
	return Diagnosis{Stuck: UpdatePaused, Indices: outdated, Remedy: "resume the update"}
}
