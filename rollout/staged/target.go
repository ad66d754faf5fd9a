package staged

import (
	"fmt"
	"strconv"

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
