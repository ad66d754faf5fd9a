package staged

import "time"

// Gate is the approval before or after a stage, as its status shows it.
type Gate struct {
	Required bool          `json:"required,omitempty"` // the strategy asks for it
	State    ApprovalState `json:"state"`              // ApprovalNone if it is not required, or before it is requested
	// Requested is when a step first asked for the approval: a retry after that asks for nothing
	// again. Decided is when a step took the present answer, whoever gave it and when. They are zero
	// while the approval is ApprovalNone or, for the latter, ApprovalRequested, and if an older
	// version of this package made the step, which did not store them.
	Requested time.Time `json:"requested,omitzero"`
	Decided   time.Time `json:"decided,omitzero"`
	// Decision says who approved or rejected, when and why; nil if the command did not say, or
	// before there was one.
	Decision *Decision `json:"decision,omitempty"`
}

// ApprovalState is where an approval stands.
type ApprovalState string

// The states of an approval.
const (
	ApprovalNone      ApprovalState = "none"      // not asked for
	ApprovalRequested ApprovalState = "requested" // asked for, and not decided
	ApprovalApproved  ApprovalState = "approved"  // final
	ApprovalRejected  ApprovalState = "rejected"  // until approved
)

// Side says on which side of a stage a task is.
type Side string

// The sides of a stage.
const (
	Before Side = "before"
	After  Side = "after"
)

// approval is what a run keeps of a gate.
type approval struct {
	state     ApprovalState
	by        *Decision // who approved or rejected it, if the command said
	requested noted
	decided   noted // when its present answer was taken
}

// approval returns the one on a side of a stage.
func (s *stage) approval(side Side) *approval {
	if side == Before {
		return &s.before
	}
	return &s.after
}

func (a *approval) request(now int64) { a.state, a.requested = ApprovalRequested, notedAt(now) }

func (a *approval) gate(required bool) Gate {
	return Gate{Required: required, State: a.state, Requested: a.requested.time(), Decided: a.decided.time(), Decision: a.by.copied()}
}
