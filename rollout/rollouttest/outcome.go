package rollouttest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// Outcome is how a job ends.
type Outcome struct {
	After  time.Duration     `json:"after"`            // from start to end, at least 0, in JSON in nanoseconds; an end after 2262-04-11, which is as far as instants reach, never comes
	Status rollout.JobStatus `json:"status,omitempty"` // empty: successful. If it is not terminal, the job hangs with it for ever; so it does with a misspelt one, see Timeline.Diagnostics

	// Verification is what the checks after a successful job find out: passed or failed. Empty:
	// there are none. Running: they never end. A job that does not succeed is not verified, so with
	// another Status it must be empty.
	Verification rollout.Verification `json:"verification,omitempty"`

	// VerifiedAfter is the time from the end of the job to the end of its checks, at least 0; until
	// then its verification is running. If there are no checks, or they never end, it must be 0.
	VerifiedAfter time.Duration `json:"verifiedAfter,omitempty"`
}

// validate says what is wrong with an outcome. The error completes a sentence about the attempt.
func (o Outcome) validate() error {
	switch ends := o.decides(); {
	case o.After < 0:
		return fmt.Errorf("end %v before it starts", -o.After)
	case o.VerifiedAfter < 0:
		return fmt.Errorf("be verified %v before it ends", -o.VerifiedAfter)
	case o.Verification != "" && o.Verification != rollout.VerificationRunning && !ends:
		return fmt.Errorf("have the verification %q: use %s, %s or %s", o.Verification, rollout.VerificationPassed, rollout.VerificationFailed, rollout.VerificationRunning)
	case o.Verification != "" && o.Status != "" && o.Status != rollout.JobSuccessful:
		return fmt.Errorf("be verified although it ends as %s: only what succeeded is verified", o.Status)
	case o.VerifiedAfter > 0 && !ends:
		return fmt.Errorf("be verified after %v without an outcome: set Verification to %s or %s", o.VerifiedAfter, rollout.VerificationPassed, rollout.VerificationFailed)
	}
	return nil
}

// decides reports whether there are checks that come to an end.
func (o Outcome) decides() bool {
	return o.Verification == rollout.VerificationPassed || o.Verification == rollout.VerificationFailed
}

// Durations returns a function for World.Job: every job succeeds after the time that is given for
// its deployment. Jobs of unlisted deployments take no time.
func Durations(perDeployment map[string]time.Duration) func(rollout.Start, int) Outcome {
	return func(start rollout.Start, _ int) Outcome { return Outcome{After: perDeployment[start.Deployment]} }
}

func defaultJob(rollout.Start, int) Outcome { return Outcome{After: time.Minute} }

// valid returns an outcome with its status, or says what is wrong with it, and with the function that
// returned it.
func valid(o Outcome, by string, start rollout.Start, attempt int) (Outcome, error) {
	if err := o.validate(); err != nil {
		return o, fmt.Errorf("rollouttest: %s lets attempt %d of %s on %s %w", by, attempt, start.Deployment, start.Resource, err)
	}
	o.Status = cmp.Or(o.Status, rollout.JobSuccessful)
	return o, nil
}
