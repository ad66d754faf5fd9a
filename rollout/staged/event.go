package staged

import (
	"fmt"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Event is something that a step changed or ignored. The kind determines which fields are set.
type Event struct {
	Kind   EventKind `json:"kind"`
	Stage  int       `json:"stage"` // index; -1 if the event is about no stage
	Target string    `json:"target,omitempty"`
	Side   Side      `json:"side,omitempty"`
	To     string    `json:"to,omitempty"` // the new state, or the kind of the command
	Reason Reason    `json:"reason,omitempty"`
	// Decision is that of the command which was ignored or whose effect this is, and for a run that
	// is cancelled that of the cancel. It is nil if the command did not say, and without a command.
	Decision *Decision `json:"decision,omitempty"`
}

// EventKind says what an event is about.
type EventKind string

// The kinds of events.
const (
	EventRun                EventKind = "run"                 // the run is in another phase
	EventStage              EventKind = "stage"               // a stage is in another phase
	EventTarget             EventKind = "target"              // a target is in another state
	EventApproval           EventKind = "approval"            // an approval is requested, approved or rejected; or back to none, because it is no longer needed
	EventWait               EventKind = "wait"                // a wait is running or elapsed; elapsed with a decision, if the command that ended it has one
	EventStuck              EventKind = "stuck"               // a target has been starting or updating for stuckAfter
	EventRegressed          EventKind = "regressed"           // a done target is unhealthy or at another version
	EventRecovered          EventKind = "recovered"           // a regressed target is ready again
	EventSuspended          EventKind = "suspended"           // a waiting target is not to be started for now
	EventResumed            EventKind = "resumed"             // a suspended target waits for its turn again
	EventJoined             EventKind = "joined"              // a target became a member
	EventCommandIgnored     EventKind = "command_ignored"     // a command did not apply
	EventObservationIgnored EventKind = "observation_ignored" // an observation is stale, or of an unknown target
	EventMembershipIgnored  EventKind = "membership_ignored"  // a change of the fleet has no effect; of a target that starts leaving, none on the cleanup
)

// Reason is a stable code on which programs branch. The text for people may change.
type Reason string

// Reasons why a command, an observation or a change of the fleet was ignored.
const (
	ReasonAlready       Reason = "already"        // it is already so, or the present state is final
	ReasonOtherRun      Reason = "other_run"      // the command is for another run, or one about an approval or a wait does not say for which
	ReasonUnknownStage  Reason = "unknown_stage"  // the run has no such stage
	ReasonUnknownTarget Reason = "unknown_target" // the run has no such target
	ReasonNotRequested  Reason = "not_requested"  // the approval is not requested yet
	ReasonNotWaiting    Reason = "not_waiting"    // the stage has no wait, or is not in WaitingAfter yet; or the target to suspend is not waiting
	ReasonNotFailed     Reason = "not_failed"     // only failed and timed-out targets are retried
	ReasonOtherAttempt  Reason = "other_attempt"  // the attempt is not the current one
	ReasonNoAttempt     Reason = "no_attempt"     // the attempt has the highest number there is
	ReasonStageFinished Reason = "stage_finished" // the stage of the target is closed
	ReasonEnding        Reason = "ending"         // the run is failing or cancelling
	ReasonStaleToken    Reason = "stale_token"    // the token of the observation is not the current one
	ReasonFrozen        Reason = "frozen"         // the options do not let the members change
	ReasonKnown         Reason = "known"          // the target is, or was, a member
	ReasonUnmatched     Reason = "unmatched"      // no stage matches the target
	ReasonTooLate       Reason = "too_late"       // every stage that would take the target is closing or closed, or the cleanup is no longer pending
)

// Reasons why a target failed or regressed.
const (
	ReasonReported   Reason = "reported_failed" // its health was failed
	ReasonUnhealthy  Reason = "unhealthy"       // its health was failing
	ReasonSuperseded Reason = "superseded"      // it is at another version
	ReasonGone       Reason = "gone"            // it left the fleet
)

// String describes the event in one line. It names a stage by its index, as a [Command] does and
// the text of a run, where the name stands beside it.
func (e Event) String() string {
	var words []string
	if e.Kind != EventStage {
		words = append(words, string(e.Kind))
	}
	if e.Stage >= 0 {
		words = append(words, fmt.Sprintf("stage %d", e.Stage))
	}
	for _, word := range []string{string(e.Side), e.Target, e.To} {
		if word != "" {
			words = append(words, textlist.Name(word))
		}
	}
	if e.Reason != "" {
		words = append(words, fmt.Sprintf("(%s)", e.Reason))
	}
	return strings.Join(words, " ") + e.Decision.shown()
}
