package rollouttest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/rollout"
)

// Samples are what the past has shown. [SamplesOf] takes those of jobs from what a host observes.
type Samples struct {
	Jobs      map[string][]Outcome `json:"jobs,omitempty"`      // by the id of the deployment: how long jobs took, and which of them failed or hung
	Approvals map[string][]Answer  `json:"approvals,omitempty"` // by the id of the environment: how long people took to answer; the draws of one version may name nobody twice
}

// SamplesOf returns how the jobs in some snapshots ended, by deployment: after what time, with which
// status, and what their verification found out, though not when. The same job in several snapshots
// is several samples. What is in progress shows nothing, nor does a job that was cancelled or skipped,
// whose verification is not over, or of which it is not known when it ended. So what is slow or hangs
// is rarer in the samples than it was, unless all of it is over.
func SamplesOf(snapshots ...rollout.Snapshot) Samples {
	samples := Samples{Jobs: map[string][]Outcome{}}
	for _, s := range snapshots {
		for _, t := range s.Targets {
			for _, job := range t.Jobs {
				o := Outcome{After: job.CompletedAt.Sub(job.CreatedAt), Status: job.Status}
				if job.Status == rollout.JobSuccessful {
					o.Verification = job.Verification
				}
				switch {
				case !job.Status.Terminal(), job.Status == rollout.JobCancelled, job.Status == rollout.JobSkipped:
				case instant.Unset(job.CompletedAt), instant.Unset(job.CreatedAt), o.After < 0:
				case o.Verification != "" && !o.decides():
				default:
					samples.Jobs[t.Deployment] = append(samples.Jobs[t.Deployment], o)
				}
			}
		}
	}
	return samples
}

// validate says what is wrong with the samples for a world.
func (s Samples) validate(world *World) error {
	for _, deployment := range slices.Sorted(maps.Keys(s.Jobs)) {
		for k, o := range s.Jobs[deployment] {
			if err := o.validate(); err != nil {
				return fmt.Errorf("rollouttest: Samples.Jobs[%q][%d] lets a job %w", deployment, k, err)
			}
		}
	}
	for _, environment := range slices.Sorted(maps.Keys(s.Approvals)) {
		if !slices.ContainsFunc(world.Fleet.Environments, func(e rollout.Environment) bool { return e.ID == environment }) {
			return fmt.Errorf("rollouttest: Samples.Approvals[%q]: the fleet has no such environment", environment)
		}
		for k, a := range s.Approvals[environment] {
			if a.After < 0 {
				return fmt.Errorf("rollouttest: Samples.Approvals[%q][%d] lets people answer %v before they are asked", environment, k, -a.After)
			}
		}
	}
	return nil
}
