package staged

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Target is a member of the fleet as it is when a run is compiled, or when the target appears
// during one. It has no decoder of its own, so that a host can embed it in its own types: it is
// decoded strictly as a part of a [Fleet] or an [Input].
type Target struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"` // read once
}

// TargetState is where a target stands. It is a byte, unlike other enums, because a run keeps one
// for every target; in JSON it is a text. Starting, Updating and Soaking are in progress and hold a
// slot. Done and the states after it are settled.
//
// KubeFleet shows a target in progress with the condition Started, a done one with Succeeded as
// well, and a failed or timed-out one with a Succeeded that is False; it has no condition for the
// others. See the example of [Run.Stages].
type TargetState uint8

// The states of a target. For a target of the cleanup Updating is "being removed" and Done is
// "gone".
const (
	Waiting  TargetState = iota // not started
	Starting                    // the intent to start it is recorded, and not acknowledged
	Updating                    // it is known to point at the version, and is not ready
	Soaking                     // ready, for less than minSuccessTime
	Done                        // ready for long enough
	Failed                      // the host reported it failed, another run took it, or the options count what became of it as a failure
	TimedOut                    // not ready by its progressDeadline
	Skipped                     // taken out by a skip
	Removed                     // left the fleet before it was settled

	targetStates
)

func (s TargetState) inProgress() bool { return s == Starting || s == Updating || s == Soaking }

// Settled reports whether the run is through with a target in this state, unless a retry or a skip
// follows.
func (s TargetState) Settled() bool { return s >= Done && s < targetStates }

// String returns the JSON name, such as timedOut.
func (s TargetState) String() string {
	switch s {
	case Waiting:
		return "waiting"
	case Starting:
		return "starting"
	case Updating:
		return "updating"
	case Soaking:
		return "soaking"
	case Done:
		return "done"
	case Failed:
		return "failed"
	case TimedOut:
		return "timedOut"
	case Skipped:
		return "skipped"
	case Removed:
		return "removed"
	}
	return fmt.Sprintf("TargetState(%d)", uint8(s))
}

// MarshalText returns the JSON name. The error for a value that is none of the constants is a
// *[FieldError].
func (s TargetState) MarshalText() ([]byte, error) {
	if s >= targetStates {
		return nil, &FieldError{Code: CodeType, Value: s.String(), Hint: "is not a state of a target"}
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads the JSON name. The error for any other text is a *[FieldError], and the state
// is then unchanged.
func (s *TargetState) UnmarshalText(text []byte) error {
	var names []string
	for v := range targetStates {
		if v.String() == string(text) {
			*s = v
			return nil
		}
		names = append(names, v.String())
	}
	return &FieldError{Code: CodeType, Value: strconv.Quote(string(text)), Hint: "must be " + strictjson.Choice(names...)}
}

// record is what a run keeps of a target besides its name, in 24 bytes.
type record struct {
	start   int64  // nanoseconds since 1970, of this attempt; valid if started
	end     int64  // when it was settled, or for a soaking target when it became ready; valid for these
	attempt uint32 // from 1
	state   TargetState
	marks   marks
	cause   cause
}

type marks uint8

const (
	started   marks = 1 << iota // this attempt was started, so it has a token and a start
	current                     // waiting, and seen ready at the version
	regressed                   // done, and seen unhealthy or at another version
	stuck                       // starting or updating for stuckAfter; follows from the times
	moved                       // on to the cleanup, where commands mean it; settled here
)

// retryable reports whether a retry would be for a failed member, if its stage is open. A command
// means the present place of a target.
func (r *record) retryable() bool {
	return failed(r.state) && r.attempt < math.MaxInt32 && !r.marks.has(moved)
}

func (m marks) has(one marks) bool { return m&one != 0 }

// cause says why a target failed or regressed.
type cause uint8

const (
	noCause    cause = iota
	reported         // its health was failed
	superseded       // it was at another version
	gone             // it left the fleet
	unhealthy        // its health was failing
	causes
)

func (c cause) reason() Reason {
	switch c {
	case reported:
		return ReasonReported
	case superseded:
		return ReasonSuperseded
	case gone:
		return ReasonGone
	case unhealthy:
		return ReasonUnhealthy
	}
	return ""
}

// class is a set of records that the tree of a stage finds without looking at others.
type class uint8

const (
	isCurrent  class = iota // waiting and seen ready at the version
	isRetried               // waiting, not for the first time
	isWaiting               //
	isStarting              // has an action
	isActive                // in progress
	isRegressed
	isFailed // failed or timed out
	classes
)

// classes returns one bit per class.
func (r *record) classes() (set uint8) {
	switch r.state {
	case Waiting:
		set = 1 << isWaiting
		if r.marks.has(current) {
			set |= 1 << isCurrent
		}
		if r.attempt > 1 {
			set |= 1 << isRetried
		}
	case Starting:
		set = 1<<isStarting | 1<<isActive
	case Updating, Soaking:
		set = 1 << isActive
	case Done:
		if r.marks.has(regressed) {
			set = 1 << isRegressed
		}
	case Failed, TimedOut:
		set = 1 << isFailed
	}
	return set
}

// never is later than every instant, and latest is the last one at which a step can be made: the
// end of 2261.
const (
	never  = math.MaxInt64
	latest = 9_214_646_399_999_999_999
)

// after returns the instant that lies length after another, or never if that is after latest, when
// no host could step. No length is negative.
func after(instant, length int64) int64 {
	if length == never || instant > latest-length {
		return never
	}
	return instant + length
}

// instantOf returns nanoseconds since 1970. Within the years that it accepts, an int64 also holds
// the distance between any two instants, as a stored run has it. Any other time is an error and does
// not wrap around. The zero time is the usual one: of a clock that was never set.
func instantOf(now time.Time) (int64, *FieldError) {
	if now.IsZero() {
		return 0, &FieldError{Code: CodeInput, Path: "now", Hint: "must be set to the present instant"}
	}
	if year := now.UTC().Year(); year < 1970 || year > 2261 {
		return 0, &FieldError{Code: CodeInput, Path: "now", Value: now.UTC().Format(time.RFC3339), Hint: "must be within the years 1970 and 2261"}
	}
	return now.UnixNano(), nil
}

func timeOf(instant int64) time.Time { return time.Unix(0, instant).UTC() }

// noted is an instant that may be missing, plus a nanosecond: zero means that it has not happened, or
// that the version of this package which made the step did not record it. The first instant that
// there is can be noted as any other.
type noted int64

func notedAt(instant int64) noted { return noted(instant + 1) }

func (n noted) known() bool    { return n != 0 }
func (n noted) instant() int64 { return int64(n) - 1 }

// time returns the zero time if nothing is noted.
func (n noted) time() time.Time {
	if !n.known() {
		return time.Time{}
	}
	return timeOf(n.instant())
}
