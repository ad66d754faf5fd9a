package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// VerdictStatus is the outcome of one rule for one candidate.
type VerdictStatus string

const (
	Allowed VerdictStatus = "allowed" // the rule does not block
	Pending VerdictStatus = "pending" // not now: time or an event will change it
	Denied  VerdictStatus = "denied"  // not this version, unless something is changed
)

// Reason is the stable code of a verdict. Programs branch on it; the text for people is derived
// from it and the data and may change.
type Reason string

// Reasons of this package, in the order in which the rules are asked; the last two are of no rule.
// Those of brackets and slots are the codes of packages bracket and concurrency, unchanged.
const (
	ReasonVersionNotDeployable     Reason = "version_not_deployable"     // denied: the status of the version forbids it, or the version is created in the future, at Until
	ReasonSelectorNoMatch          Reason = "selector_no_match"          // denied: a versionSelector says no
	ReasonSelectorMissingKey       Reason = "selector_missing_key"       // denied: a versionSelector reads a missing key
	ReasonSelectorError            Reason = "selector_error"             // denied: an expression failed on this target
	ReasonFailureBudget            Reason = "failure_budget_exceeded"    // denied: the version failed on more targets than a failureBudget allows, or on too many of those on which it has come to an end
	ReasonApprovalMissing          Reason = "approval_missing"           // pending: fewer approvers than needed; Until is when there are enough, if approvals of the future make it so
	ReasonProgressionNoEnvironment Reason = "progression_no_environment" // denied: the rule names no other environment
	ReasonProgressionTooOld        Reason = "progression_too_old"        // denied: the version succeeded elsewhere too long ago; Until is its next success, if that is recorded already
	ReasonProgressionWaiting       Reason = "progression_waiting"        // pending: too few successes elsewhere, or not for long enough; Until is the end of the soak, if enough successes are recorded and the newest is young enough then; if no success to come by itself helps, On has an operator or a version too, and Detail says why
	ReasonDependencyUnmatched      Reason = "dependency_unmatched"       // denied: the rule names no other deployment on this resource, in this environment unless it counts any
	ReasonDependencyUnmet          Reason = "dependency_unmet"           // denied: a deployment that the version needs does not run what is needed; if none of its versions that are to come would do, On has a version of it, too
	ReasonVersionUnmet             Reason = "version_dependency_unmet"   // denied: a dependency of the version itself is not met; On is as for dependency_unmet, but if it is on a deployment that has no target on the resource, On has a version of the target's own deployment too, or for a member of an open execution a command, and Detail says so
	ReasonCooldown                 Reason = "cooldown"                   // denied: the previous version is younger than the interval, until Until or, while its job is active, until that fails
	ReasonWindowClosed             Reason = "window_closed"              // pending: outside the allowing windows, or inside a closing one; Until is the next opening that is long enough; it is zero for the windows because of which there is none
	ReasonWindowTooShort           Reason = "window_too_short"           // pending: open, but not for as long as the rule asks
	ReasonRolloutNotStarted        Reason = "rollout_not_started"        // pending: an approval or a progression is missing, so the curve has no start; Until and On are of the gates that are shut: Until if time alone opens them all, and else On without those that it opens
	ReasonRolloutNotDue            Reason = "rollout_not_due"            // pending: the turn of the target comes at Until; without it, once the freezes in On, which stop its curve, are lifted
	ReasonRolloutOverflow          Reason = "rollout_overflow"           // denied: the turn of the target lies beyond 64 bits of nanoseconds, or beyond the horizon of the windows; On has the freezes too, if it would come but for their time
	ReasonRollbackTriggered        Reason = "rollback_triggered"         // denied: the version went wrong on the target, or is taken back everywhere
	ReasonRollbackFailed           Reason = "rollback_failed"            // denied: as rollback_triggered, and the rollback failed; until a job of the host's own brings an older version there
	ReasonRetryBackoff             Reason = "retry_backoff"              // pending: the next attempt is due at Until
	ReasonRetryExhausted           Reason = "retry_exhausted"            // denied: no attempt is left; Rule is empty if there is no retry rule, and so no second attempt
	ReasonCustomInvalid            Reason = "custom_invalid"             // denied: a rule of the host gave no valid verdict
	ReasonFrozen                   Reason = "frozen"                     // pending: a [Freeze] holds the target
	ReasonTargetBusy               Reason = "target_busy"                // denied: a job is active on the target
	ReasonNotGoverned              Reason = "not_governed"               // denied: no policy governs the target, see [WithUngovernedHeld]
	ReasonVersionUnknown           Reason = "version_unknown"            // denied: the target runs, or its bracket locked, a version that the snapshot does not hold
)

// Reasons of verdicts that do not block; an [Explanation] lists them too.
const (
	ReasonAllowed       Reason = "allowed"             // the rule is satisfied
	ReasonCurrent       Reason = "current"             // the target runs the version
	ReasonStarted       Reason = "started"             // a job of the version is in progress
	ReasonNotApplicable Reason = "rule_not_applicable" // the rule does not concern the target
	ReasonOverridden    Reason = "overridden"          // an [Override] lets the version past the rule
	ReasonAlreadyDone   Reason = "already_done"        // the version succeeded, and nothing has outdated it since
)

// Verdict is what one rule says about one candidate, and what can change it. A verdict that blocks
// has Until, On or both. Only a bracket_not_locked or a bracket_next_group may have neither: the
// version waits for a gate, which is another blocker, or a newer version comes in its place. So may
// a verdict by which a [CustomRule] denies, if the rule does not say what can change it. What an
// execution of a bracket waits for before it begins is also over if the member that needs it leaves
// the execution, because an event has shut a gate of its version: that event is not in On.
type Verdict struct {
	Status VerdictStatus `json:"status"`
	Reason Reason        `json:"reason"`
	Rule   string        `json:"rule,omitempty"` // id; empty if no rule is behind the verdict
	Until  time.Time     `json:"until,omitzero"` // planning again at this instant can help; zero: only an event can
	On     []Condition   `json:"on,omitempty"`   // the events that can change it; shared between verdicts, do not modify
	Data   *Data         `json:"data,omitempty"` // what the reason needs to be understood; shared, do not modify
}

// Data holds the facts of a verdict. What they are follows from the reason; names are ids.
//
//	version_not_deployable                Detail: the status of the version
//	version_unknown                       Detail: the version that the target runs, or that a group has locked, and that is not in the snapshot
//	selector_no_match                     Detail: the description of the rule, if it has one
//	selector_missing_key                  Detail: the key
//	selector_error, custom_invalid        Detail: what is wrong
//	failure_budget_exceeded               Attempt: on how many targets the version failed; Allowed: on how many it may; Names: their resources; Detail: on how many it has come to an end, if Allowed is by the rate
//	approval_missing                      Attempt: how many have approved; Allowed: how many are needed; Names: who has
//	progression_waiting                   Attempt: how many targets have succeeded; Allowed: how many are needed; Names: in which environments; Detail: how many await their verification, and why that is out of reach, if so
//	progression_too_old                   Detail: the instant of the newest success, by RFC 3339
//	dependency_unmet                      Names: the deployments that do not run what is needed
//	version_dependency_unmet              Names: the deployment that does not; Detail: the selector of the versions that would do, or that it has no target there
//	cooldown                              Names: the version whose interval is not over
//	window_closed, window_too_short       Names: the members that the window holds, if an override lets others of the execution past it; Detail: why it never opens, if so
//	rollout_not_due                       Position and Population
//	rollout_overflow                      Position; Detail: what overflows
//	rollback_triggered, rollback_failed   Names: the version to go back to, if there is one; Detail: the status of the job, that its verification failed, the status of the version, the failureBudget that it exceeds, or that it was taken back before
//	retry_backoff                         Attempt: how many attempts have failed; Allowed: how many there may be
//	retry_exhausted                       Attempt and Allowed as above; Names: the version that a job of the host's own went back to, if that is why
//	slot_keys_full                        Names: the pool of the target
//	slot_halted                           Attempt: how many members are unavailable; Allowed: how many may be
//	slot_paused                           Detail: that it is the rate of the pool, and not its limit, if so
//	frozen                                Names: who froze it; Detail: the reason
//	overridden                            Names: who wrote the override; Detail: its id
//	bracket_failed_holding                Names: the members that failed; Detail: which of them have nothing to go back to, or went back, so that no retry helps
//	bracket_queued, bracket_merge_budget  of an execution that has failed, Names and Detail as above
//	bracket_hook_without_version          Names: the hooks that have none, if On names none of them
//	bracket_waits_for_members             Names: the version of the target's own run, if that is what it waits for
//	rule_not_applicable                   Detail: why, of a window that lets a first deployment past, and of a progression whose environments have nothing to prove
//
// Every verdict of a bracket has Position and Population as well while a group has still to begin on
// a resource that has a turn in a curve; the turn may have come, if something else holds the resource.
// A rule of the host sets what it likes. Under any other reason nothing is set.
type Data struct {
	Position   int      `json:"position,omitzero"`    // of a turn: its zero-based place in the rollout order (the text counts from 1); otherwise 0, and not in JSON
	Population int      `json:"population,omitempty"` // with Position: how many places there were when the rollout started
	Attempt    int      `json:"attempt,omitempty"`
	Allowed    int      `json:"allowed,omitempty"`
	Names      []string `json:"names,omitempty"`
	Detail     string   `json:"detail,omitempty"`
}

// MarshalJSON writes Position with every turn, also the first one, and for no other verdict: there a
// zero would read as the first turn of a rollout. A turn is what has a Position or a Population.
func (d Data) MarshalJSON() ([]byte, error) {
	type plain Data
	switch {
	case d.Population == 0: // a Position that is not 0 is written
		return json.Marshal(plain(d))
	case d.Attempt == 0 && d.Allowed == 0 && len(d.Names) == 0 && d.Detail == "": // most of a large rollout waits for its turn
		return fmt.Appendf(nil, `{"position":%d,"population":%d}`, d.Position, d.Population), nil
	}
	return json.Marshal(struct {
		Position int `json:"position"`
		plain
	}{d.Position, plain(d)})
}

// Equal reports whether two verdicts are the same in every field. A host that keeps the verdicts of
// the last plan can report only those that are new. [Plan.Changes] does not compare Data and On.
func (v Verdict) Equal(o Verdict) bool {
	if v.Status != o.Status || v.Reason != o.Reason || v.Rule != o.Rule || !v.Until.Equal(o.Until) || !slices.Equal(v.On, o.On) {
		return false
	}
	a, b := v.Data, o.Data
	return a == b || a != nil && b != nil && a.Position == b.Position && a.Population == b.Population && a.Attempt == b.Attempt && a.Allowed == b.Allowed &&
		a.Detail == b.Detail && slices.Equal(a.Names, b.Names)
}

// freeze returns the id of the [Freeze] that speaks, which is no rule; empty if none does.
func (v *Verdict) freeze() string {
	if v.Reason != ReasonFrozen || len(v.On) == 0 { // a host's rule may give the reason as well
		return ""
	}
	return v.On[0].Freeze
}
