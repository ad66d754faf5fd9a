package rollouttest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/runid"
	"github.com/tranche-dev/tranche/rollout"
)

// foundJob decides how a job ends that the world has found at its start, which is at.
type foundJob func(start rollout.Start, attempt int, job *rollout.Job, at time.Time) Outcome

// takeOver tells of the jobs and verifications that are in progress at the start, and decides how
// they end, as if the world had started them: [World].Fleet says which do. What is due by then ends
// at the start.
func (r *worldRun) takeOver(outcomeOf foundJob) error {
	type found struct {
		t   *rollout.Target
		job rollout.Job
	}
	var jobs []found
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		for _, job := range t.Jobs {
			if unfinished(&job) {
				jobs = append(jobs, found{t, job})
			}
		}
	}
	slices.SortStableFunc(jobs, func(a, b found) int { // those that end at one instant do so in this order
		return cmp.Or(compareJobs(&a.job, &b.job), compareTargets(a.t.TargetID, b.t.TargetID))
	})
	for _, own := range jobs {
		start := r.startOf(own.t.TargetID, &own.job)
		attempt := 1
		for k := range own.t.Jobs {
			earlier := &own.t.Jobs[k]
			if compareJobs(earlier, &own.job) < 0 && sameTask(r.startOf(own.t.TargetID, earlier), start) {
				attempt++
			}
		}
		r.recordFound(start, attempt, &own.job)
		if !works(&own.job) && !verifies(&own.job) {
			continue
		}
		outcome, err := valid(outcomeOf(start, attempt, &own.job, r.Start), "World.Job", start, attempt)
		if err != nil {
			return err
		}
		if e, ends := r.endingOf(start, &own.job, outcome); ends {
			r.insertEnding(e)
		}
	}
	return nil
}

// endingOf returns the end of a job that is in progress at the start, or of its verification; false
// if it stays in progress.
func (r *worldRun) endingOf(start rollout.Start, job *rollout.Job, outcome Outcome) (e ending, ends bool) {
	e = ending{target: start.TargetID, run: start.Run, created: job.CreatedAt, outcome: outcome}
	switch {
	case works(job) && outcome.Status.Terminal():
		e.at = job.CreatedAt.Add(outcome.After)
	case outcome.decides(): // then it is being verified
		e.at, e.verified = completed(job).Add(outcome.VerifiedAfter), true
	default:
		return e, false
	}
	if e.at.Before(r.Start) {
		e.at = r.Start
	}
	return e, true
}

// recordFound records a job that is in progress at the start, or being verified.
func (r *worldRun) recordFound(start rollout.Start, attempt int, job *rollout.Job) {
	m := r.memberOf(&rollout.Plan{State: r.Fleet.State}, start)
	r.roles[start.Run] = m
	e := entryOf(start, m)
	e.At, e.Kind, e.Attempt, e.Status = r.Start, Found, attempt, string(job.Status)
	since := func(at time.Time) string { return "since " + instantText(at) }
	if e.Note = since(job.CreatedAt); verifies(job) {
		e.Note = "being verified " + since(completed(job))
	}
	r.entry(e)
	r.unfinished[keyOf(start.TargetID, job)] = true
}

// works reports whether a job is known to be in progress and waits for nobody. A status that is
// unknown may be a typo; then nobody knows what the job is doing.
func works(job *rollout.Job) bool {
	return job.Status == rollout.JobInProgress || job.Status == rollout.JobPending || job.Status == rollout.JobQueued
}

// verifies reports whether a job has ended and its checks have not.
func verifies(job *rollout.Job) bool {
	return job.Status == rollout.JobSuccessful && job.Verification == rollout.VerificationRunning
}

// unfinished reports whether a job has not ended, or its checks have not.
func unfinished(job *rollout.Job) bool { return !job.Status.Terminal() || verifies(job) }

// completed returns when a job ended that has. An instant before the year 1 is none, as in a plan.
func completed(job *rollout.Job) time.Time {
	if instant.Unset(job.CompletedAt) {
		return job.CreatedAt
	}
	return job.CompletedAt
}

// sampled are the samples for the jobs of a deployment, in the order in which what is in progress can
// become one of them.
type sampled struct {
	jobs          chance.Lengths[Outcome]
	verifications chance.Lengths[Outcome] // without those that were not verified
}

func sampledBy(jobs []Outcome) sampled {
	verified := slices.DeleteFunc(slices.Clone(jobs), func(o Outcome) bool { return o.Verification == "" })
	return sampled{
		chance.ByLength(jobs, func(o Outcome) time.Duration {
			if o.Status != "" && !o.Status.Terminal() {
				return math.MaxInt64
			}
			return o.After
		}),
		chance.ByLength(verified, func(o Outcome) time.Duration {
			if !o.decides() {
				return math.MaxInt64
			}
			return o.VerifiedAfter
		}),
	}
}

// remaining returns the samples of which a job in progress may still become one: those that take
// longer than the job, or its verification, has taken at an instant. If none does, late is true, and
// the longest remain. None remain for a verification if no sample was verified.
func (s sampled) remaining(job *rollout.Job, at time.Time) (left []Outcome, late bool) {
	if verifies(job) {
		return s.verifications.Longer(at.Sub(completed(job)))
	}
	return s.jobs.Longer(at.Sub(job.CreatedAt))
}

// nameOf returns the run id of a job, or its target if it has none.
func nameOf(target rollout.TargetID, job *rollout.Job) string {
	return cmp.Or(job.Run, target.String())
}

// keyOf tells a job from all others, those of its target too that have no run id either.
func keyOf(target rollout.TargetID, job *rollout.Job) string {
	if job.Run != "" {
		return job.Run
	}
	return fmt.Sprintf("%s at %d", target, job.CreatedAt.UnixNano())
}

// startOf returns the start of a job. Of a job that the world has found, the run id tells purpose
// and group; without one it is a deployment.
func (r *worldRun) startOf(target rollout.TargetID, job *rollout.Job) rollout.Start {
	if start, ours := r.dispatched[job.Run]; ours {
		return start
	}
	start := rollout.Start{TargetID: target, Version: job.Version, Run: job.Run, Purpose: rollout.PurposeDeploy}
	own := runid.Target{Resource: target.Resource, Environment: target.Environment, Deployment: target.Deployment, Version: job.Version}
	if start.Group = own.GroupOf(job.Run); start.Group != "" && runid.IsRollback(job.Run) {
		start.Purpose = rollout.PurposeRollback
	}
	return start
}

// sameTask reports whether two starts on one target are attempts of the same.
func sameTask(a, b rollout.Start) bool {
	return a.Version == b.Version && a.Group == b.Group && a.Purpose == b.Purpose
}

// unfinishedOfFleet lists the fleet's own jobs, by run or else by target, that have not ended or
// are still being verified, the oldest first.
func (r *worldRun) unfinishedOfFleet() []string {
	type job struct {
		name string
		at   time.Time
	}
	var jobs []job
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		for _, own := range t.Jobs {
			_, ours := r.dispatched[own.Run]
			if !ours && unfinished(&own) {
				jobs = append(jobs, job{nameOf(t.TargetID, &own), own.CreatedAt})
			}
		}
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.name, b.name)) })
	var names []string
	for _, own := range jobs {
		names = append(names, own.name)
	}
	return names
}
