package stagedtest

import (
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// Outcome is how an attempt at a target ends.
type Outcome struct {
	After time.Duration `json:"after"` // from its start until it has its Health, at least 0, in JSON in nanoseconds

	// Health is what is observed then. Ready: a start has succeeded, or what was to be removed is
	// gone. Failed: it will not become so. Failing: it is not, and only a change helps. Progressing:
	// the attempt hangs, and never ends; After then has no effect. Empty: ready. A stage with a
	// minSuccessTime waits further, and its progressDeadline may pass before.
	Health staged.Health `json:"health,omitempty"`
}

// Answer is how people answer a request for an approval.
type Answer struct {
	After  time.Duration `json:"after"`            // from the request, at least 0, in JSON in nanoseconds
	Reject bool          `json:"reject,omitempty"` // instead of approving
	By     string        `json:"by,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// ReadyAfter returns a function for World.Target: every attempt succeeds after that time.
func ReadyAfter(d time.Duration) func(staged.Action) Outcome {
	return func(staged.Action) Outcome { return Outcome{After: d} }
}

// ApproveAfter returns a function for World.Approval: every request is approved after that time.
func ApproveAfter(d time.Duration) func(staged.Action, time.Time) (Answer, bool) {
	return func(staged.Action, time.Time) (Answer, bool) { return Answer{After: d}, true }
}

// hangs reports whether an attempt never ends.
func (o Outcome) hangs() bool { return o.Health == staged.HealthProgressing }

// validate says what is wrong with an outcome. The error completes a sentence about who gives it.
func (o Outcome) validate() error {
	switch o.Health {
	case "", staged.HealthReady, staged.HealthFailed, staged.HealthFailing, staged.HealthProgressing:
	default:
		return fmt.Errorf("health %q: use %s, %s, %s or %s", o.Health, staged.HealthReady, staged.HealthFailed, staged.HealthFailing, staged.HealthProgressing)
	}
	if o.After < 0 {
		return fmt.Errorf("after %v: an attempt cannot end before it starts", o.After)
	}
	return nil
}

func (a Answer) validate() error {
	if a.After < 0 {
		return fmt.Errorf("after %v: a request cannot be answered before it is made", a.After)
	}
	return nil
}
