package partition

import (
	"fmt"
	"strconv"
)

// Waiting is a cluster that waits or is held after the step, with the reason. A held cluster may
// have the wanted version already.
type Waiting struct {
	ID
	Verdict
}

// String returns "cluster: why".
func (w Waiting) String() string { return w.ID.String() + ": " + w.Verdict.String() }

// Verdict says why a cluster waits or is held. Of the reasons that apply in the first of its
// partitions, it has the first in the order of the constants. Another of its partitions may release
// it sooner, through what this reason does not name. A cluster in no partition has only the reason
// Unmatched.
type Verdict struct {
	Reason    Reason `json:"reason"`
	Partition int    `json:"partition"` // index of the first partition that the cluster is in; -1 if it is in none
	// ClosedBy is the index of the partition that closed the gate, for Gate; otherwise 0.
	ClosedBy int `json:"closedBy,omitzero"`
	// Count is the number that was compared with Limit. For Gate it counts partitions that are not
	// ready; for Threshold, members that were NotReady before the partition's turn; for Budget,
	// unavailable members including what this step releases, and 0 if only another strategy ends
	// the wait; for TotalBudget, unavailable targets likewise. For Batch and StepLimit only Limit has
	// a meaning.
	Count int `json:"count,omitzero"`
	Limit int `json:"limit,omitzero"`
}

// Reason is a stable code on which programs branch. The text for people may change.
type Reason string

// The reasons, in the order in which they apply.
const (
	BundlePaused   Reason = "bundle_paused" // the whole bundle is paused
	ClusterPaused  Reason = "paused"        // the cluster is paused
	ClusterOffline Reason = "offline"       // the cluster is offline, and excluded by the options
	Gate           Reason = "gate"          // its partition is not reached: too many earlier partitions are not ready
	Threshold      Reason = "threshold"     // more members are NotReady than the partition allows
	Budget         Reason = "budget"        // the update of a healthy cluster does not fit into what maxUnavailable leaves
	TotalBudget    Reason = "total_budget"  // FleetController: it does not fit into what maxUnavailable leaves of all targets
	StepLimit      Reason = "step_limit"    // MaxPerStep is used up
	Batch          Reason = "batch"         // the batch is used up
	Unmatched      Reason = "unmatched"     // the cluster is in no partition; it then has no other reason
)

// ConditionKind says what kind of event can change a verdict.
type ConditionKind string

// The kinds of events.
const (
	OnOperator  ConditionKind = "operator"  // an operator's command
	OnCluster   ConditionKind = "cluster"   // the cluster comes back online
	OnPartition ConditionKind = "partition" // earlier partitions become ready
	OnMember    ConditionKind = "member"    // members of the partition become ready; for TotalBudget, any targets
	OnStep      ConditionKind = "step"      // the next step; while Step.More is false, not before clusters become ready
	OnConfig    ConditionKind = "config"    // a change of the strategy or the labels
)

// On returns the kind of event that can end the wait. It is empty for a value that is not one of
// the reasons.
func (r Reason) On() ConditionKind {
	switch r {
	case BundlePaused, ClusterPaused:
		return OnOperator
	case ClusterOffline:
		return OnCluster
	case Gate:
		return OnPartition
	case Threshold, Budget, TotalBudget:
		return OnMember
	case StepLimit, Batch:
		return OnStep
	case Unmatched:
		return OnConfig
	}
	return ""
}

// VerdictStatus is the answer about a cluster that waits or is held.
type VerdictStatus string

// The values of VerdictStatus.
const (
	Pending VerdictStatus = "pending" // not now, but an event or the next step will change it
	Denied  VerdictStatus = "denied"  // only a change of the configuration helps
)

// Status returns the status that belongs to the reason: Denied for Unmatched, and Pending for every
// other. In the mode FleetController a Budget or TotalBudget whose Limit is 0, and a Batch whose
// Limit is not above 0, are Pending as well, but only another strategy ends them.
func (r Reason) Status() VerdictStatus {
	if r == Unmatched {
		return Denied
	}
	return Pending
}

// String describes the verdict in one line.
func (v Verdict) String() string {
	switch v.Reason {
	case BundlePaused:
		return "the bundle is paused"
	case ClusterPaused:
		return "the cluster is paused"
	case ClusterOffline:
		return "the cluster is offline"
	case Gate:
		return fmt.Sprintf("partition %d is not reached: partition %d closed the gate, %s not ready, at most %d may be",
			v.Partition, v.ClosedBy, counted(v.Count, "partition is", "partitions are"), v.Limit)
	case Threshold:
		return fmt.Sprintf("partition %d waits: %s NotReady, at most %d may be", v.Partition, counted(v.Count, "member is", "members are"), v.Limit)
	case Budget:
		if v.Count == 0 && v.Limit == 0 { // only in the mode FleetController
			return fmt.Sprintf("partition %d never updates a healthy cluster: at most 0 members may be unavailable", v.Partition)
		}
		return fmt.Sprintf("partition %d has no room for updates: %s unavailable, at most %d may be", v.Partition, counted(v.Count, "member is", "members are"), v.Limit)
	case TotalBudget:
		if v.Limit == 0 {
			return "no healthy cluster is ever updated: at most 0 of all targets may be unavailable"
		}
		return fmt.Sprintf("all targets together have no room for updates: %s unavailable, at most %d may be", counted(v.Count, "is", "are"), v.Limit)
	case StepLimit:
		return fmt.Sprintf("the step has its %s", counted(v.Limit, "release", "releases"))
	case Batch:
		if v.Limit <= 0 { // only in the mode FleetController
			return fmt.Sprintf("new clusters never get a deployment: the batch is %d", v.Limit)
		}
		return fmt.Sprintf("the batch of %d is full", v.Limit)
	case Unmatched:
		return "the cluster is in no partition"
	}
	return string(v.Reason)
}

func counted(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}

// waits reports whether clusters of a class wait for the wanted version or are held.
func (c *Compiled) waits(k class) bool {
	if c.mode == FleetController {
		return k == uncreated || k&waits != 0
	}
	return k == held || k == broken || k == pending || k == outOfSync
}

// verdict returns why a cluster waits or is held after a step that has run, and false if it does
// neither.
func (c *Compiled) verdict(step *Step, cluster uint32) (Verdict, bool) {
	class := c.class(cluster)
	if !c.waits(class) {
		return Verdict{}, false
	}
	slots := c.slotsOf(cluster)
	if len(slots) == 0 {
		return Verdict{Reason: Unmatched, Partition: -1}, true
	}
	p := int(c.partitionOf[slots[0]/64])
	s, v := &step.Partitions[p], Verdict{Partition: p}
	paused := c.facts[cluster].has(isPaused)
	switch {
	case c.paused:
		v.Reason = BundlePaused
	case paused && c.skipPaused: // as in the mode FleetController, which ignores the option
		v.Reason = ClusterPaused
	case c.mode != FleetController && class == held:
		v.Reason = ClusterOffline
	case !s.Reached:
		v.Reason, v.ClosedBy, v.Count, v.Limit = Gate, step.ClosedBy, step.NotReadyPartitions, step.MaxNotReadyPartitions
	case c.mode == FleetController && class == uncreated:
		v.Reason, v.Limit = Batch, c.maxNew
	case c.mode == FleetController:
		v.Reason, v.Count, v.Limit = Budget, c.turns[p].used, s.MaxUnavailable
		if v.Limit == 0 { // whatever is unavailable: it would be no help if that became ready
			v.Count = 0
		} else if v.Count < v.Limit {
			v.Reason, v.Count, v.Limit = TotalBudget, step.Controller.Unavailable, step.Controller.MaxUnavailable
		}
	default:
		t := &c.turns[p]
		switch class {
		case broken:
			v.Reason = t.broken
		case pending:
			v.Reason = t.pending
		default:
			v.Reason = t.outOfSync
		}
		switch v.Reason {
		case Threshold:
			v.Count, v.Limit = s.Unavailable, s.MaxUnavailable
		case Budget:
			v.Count, v.Limit = s.NotReady, s.MaxUnavailable
		case StepLimit:
			v.Limit = c.maxPerStep
		case Batch:
			v.Limit = c.maxNew
		}
	}
	return v, true
}
