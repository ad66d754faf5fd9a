package staged

import (
	"fmt"
	"strings"
)

// Event is something that a step changed, or that it ignored. Which fields are set follows from the
// kind.
type Event struct {
	Kind   EventKind `json:"kind"`
	Stage  int       `json:"stage"` // index; -1 if it is about no stage
	Target string    `json:"target,omitempty"`
	Side   Side      `json:"side,omitempty"`
	To     string    `json:"to,omitempty"` // the new state, or the kind of the command
	Reason Reason    `json:"reason,omitempty"`
}

// EventKind says what an event is about.
type EventKind string

// The kinds of events.
const (
	EventRun                EventKind = "run"                 // the run is in another phase
	EventStage              EventKind = "stage"               // a stage is in another phase
	EventTarget             EventKind = "target"              // a target is in another state
	EventApproval           EventKind = "approval"            // an approval is requested, approved or rejected; or none, because it is not needed any more
	EventWait               EventKind = "wait"                // a wait is running or elapsed
	EventStuck              EventKind = "stuck"               // a target is in progress for stuckAfter
	EventRegressed          EventKind = "regressed"           // a done target is unhealthy or at another version
	EventRecovered          EventKind = "recovered"           // it is ready again
	EventJoined             EventKind = "joined"              // a target became a member
	EventCommandIgnored     EventKind = "command_ignored"     // a command did not apply
	EventObservationIgnored EventKind = "observation_ignored" // an observation is stale, or of nobody
	EventMembershipIgnored  EventKind = "membership_ignored"  // a target that came or left has no effect
)

// Reason is a stable code. Programs branch on it; the text for people may change.
type Reason string

// Why something was ignored.
const (
	ReasonAlready       Reason = "already"        // it is so already, or that is final
	ReasonOtherRun      Reason = "other_run"      // the command is for another run
	ReasonUnknownStage  Reason = "unknown_stage"  // the run has no such stage
	ReasonUnknownTarget Reason = "unknown_target" // the run has no such target
	ReasonNotRequested  Reason = "not_requested"  // nobody asked for this approval yet
	ReasonNotFailed     Reason = "not_failed"     // only failed and timed-out targets are retried
	ReasonOtherAttempt  Reason = "other_attempt"  // another attempt is the current one
	ReasonNoAttempt     Reason = "no_attempt"     // there are no more numbers for attempts
	ReasonStageFinished Reason = "stage_finished" // the stage of the target is closed
	ReasonEnding        Reason = "ending"         // the run is failing or cancelling
	ReasonStaleToken    Reason = "stale_token"    // observed before the current attempt
	ReasonFrozen        Reason = "frozen"         // the options keep the members as they are
	ReasonKnown         Reason = "known"          // the target is, or was, a member
	ReasonUnmatched     Reason = "unmatched"      // no stage matches the target
	ReasonTooLate       Reason = "too_late"       // every stage that would take the target is closing
)

// Why a target failed or regressed.
const (
	ReasonReported   Reason = "reported_failed" // its health was failed
	ReasonUnhealthy  Reason = "unhealthy"       // its health was failing
	ReasonSuperseded Reason = "superseded"      // it is at another version
	ReasonGone       Reason = "gone"            // it left the fleet
)

// String says it in one line.
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
			words = append(words, word)
		}
	}
	if e.Reason != "" {
		words = append(words, fmt.Sprintf("(%s)", e.Reason))
	}
	return strings.Join(words, " ")
}
