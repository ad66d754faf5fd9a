package partition

import (
	"fmt"
	"strconv"
	"strings"
)

// Waiting is a cluster that does not have the wanted version, was not released by this step either, and why.
type Waiting struct {
	ID
	Reason Reason `json:"reason"`
}

// String returns "cluster: reason".
func (w Waiting) String() string { return w.ID.String() + ": " + w.Reason.String() }

// Reason says why a cluster waits or is held: of the reasons that apply, the first in the order of the codes, as the first of its
// partitions sees it.
type Reason struct {
	Code      Code `json:"code"`
	Partition int  `json:"partition"` // index of the first partition that the cluster is in; -1 if there is none
	// ClosedBy is the partition that closed the gate, for Gate; else 0.
	ClosedBy int `json:"closedBy,omitzero"`
	// Count is compared with Limit: partitions not ready (Gate), NotReady members (Threshold, Budget), unavailable targets (TotalBudget).
	// For Batch and StepLimit only Limit has a meaning.
	Count int `json:"count,omitzero"`
	Limit int `json:"limit,omitzero"`
}

// Code is a stable reason. The zero value is none.
type Code uint8

// The reasons, in the order in which they apply.
const (
	BundlePaused   Code = iota + 1 // the whole bundle is paused
	ClusterPaused                  // the cluster is
	ClusterOffline                 // offline, and excluded by policy
	Gate                           // its partition is not reached: too many before are not ready
	Threshold                      // more members are NotReady than the partition allows
	Budget                         // the update of a healthy cluster does not fit into what maxUnavailable leaves
	TotalBudget                    // FleetController: nor into what it leaves of all targets
	StepLimit                      // MaxPerStep is used up
	Batch                          // the batch is used up
	Unmatched                      // the cluster is in no partition
)

// Conditions are what can change a verdict, see [Code.On].
const (
	OnOperator  = "operator"  // an operator's command
	OnCluster   = "cluster"   // the cluster itself comes back
	OnPartition = "partition" // earlier partitions become ready
	OnMember    = "member"    // members of the partition become ready
	OnStep      = "step"      // the next step
	OnConfig    = "config"    // somebody changes the strategy or the labels
)

type codeRow struct{ text, on string }

func (Code) rows() []codeRow {
	return []codeRow{
		BundlePaused: {"bundle_paused", OnOperator}, ClusterPaused: {"paused", OnOperator}, ClusterOffline: {"offline", OnCluster},
		Gate: {"gate", OnPartition}, Threshold: {"threshold", OnMember}, Budget: {"budget", OnMember}, TotalBudget: {"total_budget", OnMember},
		StepLimit: {"step_limit", OnStep}, Batch: {"batch", OnStep}, Unmatched: {"unmatched", OnConfig},
	}
}

func (c Code) row() (codeRow, bool) {
	rows := c.rows()
	if int(c) >= len(rows) || rows[c].text == "" {
		return codeRow{text: "Code(" + strconv.Itoa(int(c)) + ")"}, false
	}
	return rows[c], true
}

// String returns the stable text, such as "threshold".
func (c Code) String() string { row, _ := c.row(); return row.text }

// On returns what can end the wait: one of the constants, or "" for a value that is not a code.
func (c Code) On() string { row, _ := c.row(); return row.on }

// Status returns "denied" if only a change of the configuration helps, and "pending" otherwise.
func (c Code) Status() string {
	if c.On() == OnConfig {
		return "denied"
	}
	return "pending"
}

// MarshalText returns the stable text; a value that is not a code is a *[FieldError].
func (c Code) MarshalText() ([]byte, error) {
	row, ok := c.row()
	if !ok {
		return nil, &FieldError{Kind: KindValue, Value: row.text, Hint: "has no text: it is none of the constants"}
	}
	return []byte(row.text), nil
}

// UnmarshalText reads what MarshalText writes; an unknown text is a *[FieldError].
func (c *Code) UnmarshalText(text []byte) error {
	for value, row := range c.rows() {
		if value > 0 && row.text == string(text) {
			*c = Code(value)
			return nil
		}
	}
	return &FieldError{Kind: KindValue, Value: quoted(string(text)), Hint: "unknown reason"}
}

// String describes the reason in one line.
func (r Reason) String() string {
	switch r.Code {
	case BundlePaused:
		return "the bundle is paused"
	case ClusterPaused:
		return "the cluster is paused"
	case ClusterOffline:
		return "the cluster is offline"
	case Gate:
		return fmt.Sprintf("partition %d is not reached: partition %d closed the gate, %d partitions are not ready, at most %d may be",
			r.Partition, r.ClosedBy, r.Count, r.Limit)
	case Threshold:
		return fmt.Sprintf("partition %d waits: %d members are NotReady, at most %d may be", r.Partition, r.Count, r.Limit)
	case Budget:
		return fmt.Sprintf("partition %d has no room for updates: %d members are NotReady, at most %d may be", r.Partition, r.Count, r.Limit)
	case TotalBudget:
		return fmt.Sprintf("all targets together have no room for updates: %d are unavailable, at most %d may be", r.Count, r.Limit)
	case StepLimit:
		return fmt.Sprintf("the step has its %d releases", r.Limit)
	case Batch:
		return fmt.Sprintf("the batch of %d is full", r.Limit)
	case Unmatched:
		return "the cluster is in no partition"
	}
	return r.Code.String()
}

// waits reports whether clusters of a class wait for the wanted version or are held.
func (c *Compiled) waits(k class) bool {
	if c.mode == FleetController {
		return k == uncreated || k&waits != 0
	}
	return k == held || k == broken || k == pending || k == outOfSync
}

// reason returns why a cluster waits or is held after a step that has run; false if it does not.
func (c *Compiled) reason(step *Step, cluster uint32) (Reason, bool) {
	class := c.class(cluster)
	if !c.waits(class) {
		return Reason{}, false
	}
	isHeld := c.mode != FleetController && class == held
	slots := c.slotsOf(cluster)
	if len(slots) == 0 {
		return Reason{Code: Unmatched, Partition: -1}, true
	}
	p := int(c.partitionOf[slots[0]/64])
	s, r := &step.Partitions[p], Reason{Partition: p}
	paused := c.facts[cluster].has(isPaused)
	switch {
	case c.paused:
		r.Code = BundlePaused
	case paused && (isHeld && c.skipPaused || c.mode == FleetController):
		r.Code = ClusterPaused
	case isHeld:
		r.Code = ClusterOffline
	case !s.Reached:
		r.Code, r.ClosedBy, r.Count, r.Limit = Gate, step.ClosedBy, step.NotReadyPartitions, step.MaxNotReadyPartitions
	case c.mode == FleetController && class == uncreated:
		r.Code, r.Limit = Batch, c.maxNew
	case c.mode == FleetController:
		r.Code, r.Count, r.Limit = Budget, c.turns[p].used, s.MaxUnavailable
		if r.Count < r.Limit {
			r.Code, r.Count, r.Limit = TotalBudget, step.Controller.Unavailable, step.Controller.MaxUnavailable
		}
	default:
		t := &c.turns[p]
		switch class {
		case broken:
			r.Code = t.broken
		case pending:
			r.Code = t.pending
		default:
			r.Code = t.outOfSync
		}
		switch r.Code {
		case Threshold, Budget:
			r.Count, r.Limit = s.Unavailable, s.MaxUnavailable
		case StepLimit:
			r.Limit = c.maxPerStep
		case Batch:
			r.Limit = c.maxNew
		}
	}
	return r, true
}

// Unready is a cluster that is NotReady and does not wait, and why it is.
type Unready struct {
	ID
	Why Why `json:"why"`
}

// String returns "cluster: why".
func (u Unready) String() string { return u.ID.String() + ": " + u.Why.String() }

// Why is the set of reasons for which a cluster is NotReady.
type Why uint8

// The reasons for which a cluster is NotReady.
const (
	NotApplied Why = 1 << iota // its agent has not applied the version that it was pointed at
	NotReady                   // its agent does not say that it is ready
	IsOffline
	IsPaused
)

func (Why) codes() []string { return []string{"not_applied", "not_ready", "offline", "paused"} }

// String returns the stable codes in the order of the constants, separated by commas.
func (w Why) String() string {
	var list []string
	for bit, code := range w.codes() {
		if w&(1<<bit) != 0 {
			list = append(list, code)
		}
	}
	return strings.Join(list, ",")
}

// MarshalText returns the text of String; bits that are no reason are a *[FieldError].
func (w Why) MarshalText() ([]byte, error) {
	if w >= 1<<len(w.codes()) {
		return nil, &FieldError{Kind: KindValue, Value: "Why(" + strconv.Itoa(int(w)) + ")", Hint: "holds bits that are none of the constants"}
	}
	return []byte(w.String()), nil
}

// UnmarshalText reads what MarshalText writes, in any order; an unknown code is a *[FieldError] and leaves the set unchanged.
func (w *Why) UnmarshalText(text []byte) error {
	set := Why(0)
next:
	for code := range strings.SplitSeq(string(text), ",") {
		for bit, known := range w.codes() {
			if code == known {
				set |= 1 << bit
				continue next
			}
		}
		if len(text) > 0 {
			return &FieldError{Kind: KindValue, Value: quoted(code), Hint: "unknown reason"}
		}
	}
	*w = set
	return nil
}

// unready returns why a cluster that neither waits nor is held is NotReady; 0 if it is not.
func (c *Compiled) unready(cluster uint32) (w Why) {
	f, class := c.facts[cluster], c.class(cluster)
	if c.mode == FleetController && (class == uncreated || class&(waits|lenient) != lenient) ||
		c.mode != FleetController && class != updating && class != blocked {
		return 0
	}
	for _, row := range []struct {
		is  bool
		why Why
	}{
		{!f.has(appliedReleased), NotApplied},
		{!f.has(isReady), NotReady},
		{f.has(isOffline) && c.mode != FleetController, IsOffline},
		{f.has(isPaused), IsPaused},
	} {
		if row.is {
			w |= row.why
		}
	}
	return w
}
