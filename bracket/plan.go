package bracket

import "time"

// Plan is what [Step] decided. Any subset of Start may be committed and carried out, in any order,
// before the next Step. All slices are freshly allocated and belong to the caller, who may reorder
// and shorten them. What does not start, and why, is in [Plan.Waits].
type Plan struct {
	// Start are the runs that may start now, ordered by resource, dependency level and deployment.
	// Not starting a run, for example because no slot is free, changes nothing.
	Start []Start
	// Redispatch are runs in progress that the observation does not list, in the order of Start: a
	// crash after the commit may have prevented their dispatch. Dispatch them again. That does no
	// harm, because dispatch is create-if-absent by Run.String.
	Redispatch []Start
	// Stuck are runs in progress that have had no outcome for stuckAfterSeconds, in the order of
	// Start.
	Stuck []Stuck
	// Events are what happened in this step, in the order in which it happened, then by resource.
	// The state contains their effects already; the host needs them to inform people and to release
	// the leases of executions that ended.
	Events []Event
	// Unknown are observed runs that belong to no group or execution of the state, in the order of
	// Run.String. They were ignored.
	Unknown []Run
	// Refused are commands that this step could not apply, ordered by resource and id. If the
	// execution is open, its state does not permit the command, which will never be applied. If the
	// execution has not opened, the first Step that finds it open decides about the command; the
	// same holds for close and a group that has not opened. Commands to an execution that has
	// ended, or to close a group that is closed, are not listed.
	Refused []Command
	// Next is the earliest instant after now at which the plan can change without a new
	// observation; zero: never. Once runs have been started, see [Plan.NextAfter].
	Next time.Time

	view *view
}

// Start is a run that may start now.
type Start struct {
	Run     Run // the lease is held by (Run.Resource, Run.Group)
	Version string
	Role    Role
	// First says that the run opens the execution and so takes its lease; otherwise the lease is
	// held already.
	First bool
	// DueAt is when the execution became due; for a run of an open execution, when the execution
	// started.
	DueAt time.Time
}

// Stuck is a run without outcome.
type Stuck struct {
	Run       Run
	Reason    Reason // ReasonStuck
	StartedAt time.Time
	Since     time.Time // when it became stuck
}

// Event is a change that a step made.
type Event struct {
	Kind     EventKind
	Group    string
	Resource string    // empty for events of a group
	At       time.Time // when it took effect
	Status   Status    // of the group or execution afterwards
	// Into is the group whose execution absorbed Group, for GroupMerged.
	Into string
	// Quarantine says that the host must quarantine the lease of an ended execution instead of
	// releasing it.
	Quarantine bool
}

// EventKind names an event.
type EventKind string

const (
	GroupOpened      EventKind = "group_opened"      // a version opened a window
	GroupClosed      EventKind = "group_closed"      // the window closed, and versions are locked
	GroupCancelled   EventKind = "group_cancelled"   // its last new version disappeared, or the rule did
	GroupSuperseded  EventKind = "group_superseded"  // a newer group closed, and no execution of this one is open any more
	GroupMerged      EventKind = "group_merged"      // into the open execution on Resource
	ExecutionStarted EventKind = "execution_started" // a run of it was observed that was never committed, so that it has no lease yet; the other starts are those that the host commits
	ExecutionEnded   EventKind = "execution_ended"   // the host must release its lease, or quarantine it if Quarantine is set
)

// Condition is an event that can end a wait. Its kind says which fields are set; the others are
// empty.
type Condition struct {
	Kind        ConditionKind
	Rule        string
	Environment string
	Group       string
	Resource    string
	Deployment  string
}

// ConditionKind is the kind of a condition. The comment at each kind names the fields that are set.
type ConditionKind string

const (
	OnMember       ConditionKind = "member"        // Group, Resource, Deployment
	OnExecutionEnd ConditionKind = "execution_end" // Rule, Resource
	OnGroupClose   ConditionKind = "group_close"   // Rule, Environment
	OnVersion      ConditionKind = "version"       // Deployment
	OnConfig       ConditionKind = "config"        // Rule; the host's configuration from which it derives the due instant
	OnOperator     ConditionKind = "operator"      // Group, Resource of the execution that needs a [Command]; none if the execution has ended: then set OutdatedAt of the [Target]
)

// Reason is a stable code. Codes are part of the compatibility promise. [Plan.Evaluate] says when
// each of them applies.
type Reason string

// The reasons of verdicts, and of waits where the verdict is pending.
const (
	ReasonNoPlan             Reason = "bracket_no_plan"              // denied: nobody knows who is a member, because the plan or the state is not one that Step returned
	ReasonNotApplicable      Reason = "rule_not_applicable"          // allowed: the deployment is not a member
	ReasonRun                Reason = "bracket_run"                  // allowed: the run may start now
	ReasonInProgress         Reason = "bracket_in_progress"          // allowed: the run has started
	ReasonWaitsForMembers    Reason = "bracket_waits_for_members"    // pending: for other members, its own retry, or a run of an older generation
	ReasonFailedHolding      Reason = "bracket_failed_holding"       // pending: a failure halts the execution
	ReasonCurrent            Reason = "bracket_current"              // allowed: the target runs the version already
	ReasonQueued             Reason = "bracket_queued"               // pending: another execution is open on the resource; if the group can be merged into it, Until and On say when that is
	ReasonMergeBudget        Reason = "bracket_merge_budget"         // pending: the same, and only maxMerges prevents a merge
	ReasonNotDue             Reason = "bracket_not_due"              // pending: the turn of the resource has not come
	ReasonHookWithoutVersion Reason = "bracket_hook_without_version" // pending: a hook had no version when the group was closed, and runs none; a later version is for the next group
	ReasonEnded              Reason = "bracket_ended"                // denied: the execution of the group ended here, or goes on without the version; On names the member while it goes back
	ReasonNextGroup          Reason = "bracket_next_group"           // denied: newer than what is locked; it is for the next group; Until is when that closes or, while none collects, when the candidate becomes eligible, if that is known
	ReasonCollecting         Reason = "bracket_collecting"           // pending: the window is open
	ReasonHookWaitsForMain   Reason = "bracket_hook_waits_for_main"  // pending: a hook runs only around a main member
	ReasonNoVersion          Reason = "bracket_no_version"           // denied: no version is locked, and the target runs none; Until is as for ReasonNotLocked
	ReasonNotLocked          Reason = "bracket_not_locked"           // denied: another version is locked; On names the next group if that would lock this one, and Until is the instant at which this one becomes eligible and opens a group, if that is known
	ReasonStuck              Reason = "bracket_stuck"                // of a [Stuck] run, never of a verdict: it changes neither status nor lease
)

// VerdictStatus is the answer of a rule about a candidate.
type VerdictStatus string

const (
	Allowed VerdictStatus = "allowed" // the bracket does not stand in the way
	Pending VerdictStatus = "pending" // not now: time or an event will change it
	Denied  VerdictStatus = "denied"  // not this version
)

// Status returns the status that belongs to the code. An unknown code is denied.
func (r Reason) Status() VerdictStatus {
	switch r {
	case ReasonNotApplicable, ReasonRun, ReasonInProgress, ReasonCurrent:
		return Allowed
	case ReasonWaitsForMembers, ReasonFailedHolding, ReasonQueued, ReasonMergeBudget, ReasonNotDue, ReasonHookWithoutVersion,
		ReasonCollecting, ReasonHookWaitsForMain:
		return Pending
	}
	return Denied
}

// Verdict is the answer about one candidate version for one target. Its status is that of its
// reason: see [Reason.Status]. The candidate starts now if the reason is [ReasonRun]; every other
// allowed verdict needs no run.
type Verdict struct {
	Reason Reason
	// Group is the group that decides, empty if there is none.
	Group string
	Until time.Time   // after now; zero if only an event can help
	On    []Condition // events that can help; shared, read-only
}
