package stagedtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// Violation is a broken promise.
type Violation struct {
	Invariant string    // its name in package staged, such as I6
	At        time.Time // the now of the step
	Err       error     // what was found
}

// Error names the invariant and the instant, and says what was found.
func (v *Violation) Error() string {
	return fmt.Sprintf("stagedtest: invariant %s is broken at %s: %v", v.Invariant, shown(v.At), v.Err)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }

// check makes sure that a step keeps its promises. stepped is the run that it returned, before it
// was stored.
func (r *running) check(stepped *staged.Run, result staged.Result) error {
	broken := func(invariant, format string, args ...any) error {
		return &Violation{Invariant: invariant, At: r.now, Err: fmt.Errorf(format, args...)}
	}
	if r.run != stepped {
		given, err := json.Marshal(stepped)
		if err != nil {
			return broken("I11", "the run has no JSON: %w", err)
		}
		if kept, err := json.Marshal(r.run); err != nil || string(kept) != string(given) {
			return broken("I11", "World.Store returns another run than it was given")
		}
	}
	if !result.Next.IsZero() && !result.Next.After(r.now) {
		return broken("I6", "Next is %s", shown(result.Next))
	}
	again, err := r.quiet(r.now, result.Actions)
	if err != nil {
		return broken("I4", "stepping again at once %w", err)
	}
	if !again.Equal(result.Next) {
		return broken("I4", "stepping again at once moves Next from %s to %s", shown(result.Next), shown(again))
	}
	until := result.Next.Add(-time.Nanosecond)
	if result.Next.IsZero() {
		until = time.Date(lastYear, time.December, 31, 0, 0, 0, 0, time.UTC)
	}
	if until.After(r.now) {
		if _, err := r.quiet(until, result.Actions); err != nil {
			return broken("I6", "Next is %s, and a step at %s %w", shown(result.Next), shown(until), err)
		}
	}
	return nil
}

// quiet makes sure that a step without input at an instant changes nothing and asks for the same
// actions as before. It returns the Next of that step.
func (r *running) quiet(at time.Time, actions []staged.Action) (time.Time, error) {
	_, result, err := r.World.step(r.run, staged.Input{}, at)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("fails: %w", err)
	case result.Changed || len(result.Events) > 0:
		return time.Time{}, fmt.Errorf("changes the run: %v", result)
	case !slices.Equal(result.Actions, actions):
		return time.Time{}, fmt.Errorf("asks for %v instead of %v", result.Actions, actions)
	}
	return result.Next, nil
}
