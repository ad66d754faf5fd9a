package rollouttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
	"github.com/tranche-dev/tranche/rollout"
)

// Forecast runs a world as many times as trials says, at least once, and draws the outcome of every
// job from the samples of its deployment: how long past jobs took, and which of them failed or
// hung. Deployments without samples follow World.Job. A draw depends on the seed, the trial and the
// id of the run alone, so the same call gives the same prediction, and policies under which the runs
// have the same ids are compared on the same draws. The run ids of a bracket hold the id of its rule
// and the number of its group. Answers to requests for approvals are drawn likewise, from the samples
// of the environment; a draw depends on the version and the number of the request. Environments
// without samples follow World.Approval.
//
// All jobs are drawn independently of one another, and so are the attempts of one job. What slows
// down or breaks many jobs at once, such as a registry that is down, is not in a prediction; nor is
// a target that fails again for the same reason. Where that happens, a rollout takes longer than
// predicted, and is halted more often. A further trial is later than the latest of n trials with a
// chance of 1 in n+1, so take a hundred trials or more before you rely on what nine of ten do.
//
// A job in progress at World.Start is drawn from the samples that took longer than it has by then,
// a hung one being longer than any, and a running verification from the samples that were verified
// for longer. If no sample is longer, the longest counts, and the job or verification ends at
// World.Start: see [Prediction].Overdue. If no sample was verified at all, the verification never
// ends, unless a change ends it.
//
// The first trial runs the world as it is, with Pure if the fleet has a State. The others run it
// with Pure and Trust, in parallel on all cores unless World.Plan is set. So World.Job,
// World.Approval, World.Operator, World.React and [Change].Do must not write to what two runs share.
// Each trial has its own store: World.Store must be nil. The error is that of the first trial that
// fails; then the prediction is empty.
func Forecast(ctx context.Context, world World, samples Samples, trials int, seed uint64) (Prediction, error) {
	switch {
	case trials < 1:
		return Prediction{}, fmt.Errorf("rollouttest: %d trials: at least 1 is needed", trials)
	case world.Store != nil:
		return Prediction{}, errors.New("rollouttest: World.Store must be nil in a forecast: every trial begins anew")
	}
	if err := samples.validate(&world); err != nil {
		return Prediction{}, err
	}
	world.Pure = world.Pure || !world.Fleet.State.IsZero()
	f := forecast{world: world, samples: samples, jobs: map[string]sampled{}, seed: seed, outcomes: make([]trialOutcome, trials)}
	for deployment, jobs := range samples.Jobs {
		f.jobs[deployment] = sampledBy(jobs)
	}
	f.run(ctx, 0)
	if f.outcomes[0].err == nil {
		f.world.Trust, f.world.Pure = true, true
		if len(world.Changes) == 0 && world.React == nil { // which may rely on where in its lists the fleet has something
			f.world.Fleet.Resources, f.world.Fleet.Targets = ascending(world.Fleet.Resources, world.Fleet.Targets)
		}
		rest := f.outcomes[1:]
		chance.InParallel(len(rest), world.workers(), func(i int) (ok bool) {
			f.run(ctx, i+1)
			return rest[i].err == nil
		})
	}
	p := Prediction{Trials: make([]Trial, trials)}
	unsampled, overdue := map[string]bool{}, map[string]bool{}
	for i, own := range f.outcomes {
		if own.err != nil {
			return Prediction{}, fmt.Errorf("%w (in trial %d)", own.err, i)
		}
		p.Start, p.Trials[i] = own.start, own.Trial
		maps.Copy(unsampled, own.unsampled)
		maps.Copy(overdue, own.overdue)
	}
	p.Unsampled, p.Overdue = slices.Sorted(maps.Keys(unsampled)), slices.Sorted(maps.Keys(overdue))
	return p, nil
}

// ascending returns a fleet in the order in which it is planned fastest. The order makes no other
// difference, except to the paths of faults, which the first trial has reported by then.
func ascending(resources []rollout.Resource, targets []rollout.Target) ([]rollout.Resource, []rollout.Target) {
	resources, targets = slices.Clone(resources), slices.Clone(targets)
	slices.SortFunc(resources, func(a, b rollout.Resource) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(targets, func(a, b rollout.Target) int {
		return cmp.Or(strings.Compare(a.Environment, b.Environment), compareTargets(a.TargetID, b.TargetID))
	})
	return resources, targets
}

// forecast is a forecast in progress.
type forecast struct {
	world    World
	samples  Samples
	jobs     map[string]sampled // by deployment
	seed     uint64
	outcomes []trialOutcome
}

// trialOutcome is the outcome of one trial.
type trialOutcome struct {
	Trial
	start     time.Time
	unsampled map[string]bool // deployments
	overdue   map[string]bool // runs, or else targets
	err       error
}

// workers is how many runs of the world there are at once. A world with a Plan of its own is run once
// at a time: that may keep something from plan to plan.
func (w *World) workers() int {
	if w.Plan != nil {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// run runs one trial.
func (f *forecast) run(ctx context.Context, trial int) {
	own := &f.outcomes[trial]
	own.unsampled, own.overdue = map[string]bool{}, map[string]bool{}
	world := f.world
	job := world.Job
	if job == nil {
		job = defaultJob
	}
	world.Job = func(start rollout.Start, attempt int) Outcome {
		drawn := f.samples.Jobs[start.Deployment]
		if len(drawn) == 0 {
			own.unsampled[start.Deployment] = true
			return job(start, attempt)
		}
		return drawn[chance.Draw(f.seed, uint64(trial), start.Run, len(drawn))]
	}
	approval := world.Approval
	if len(f.samples.Approvals) > 0 {
		world.Approval = func(request ApprovalRequest) (Answer, bool) {
			drawn := f.samples.Approvals[request.Environment]
			switch {
			case len(drawn) > 0:
				return drawn[chance.Draw(f.seed, uint64(trial), request.drawKey(), len(drawn))], true
			case approval != nil:
				return approval(request)
			}
			return Answer{}, false
		}
	}
	found := func(start rollout.Start, attempt int, of *rollout.Job, at time.Time) Outcome {
		if len(f.samples.Jobs[start.Deployment]) == 0 {
			return world.Job(start, attempt)
		}
		name := nameOf(start.TargetID, of)
		drawn, late := f.jobs[start.Deployment].remaining(of, at)
		if late {
			own.overdue[name] = true
		}
		if len(drawn) == 0 {
			return Outcome{Verification: rollout.VerificationRunning}
		}
		return drawn[chance.Draw(f.seed, uint64(trial), name, len(drawn))]
	}
	r, err := world.play(ctx, world.Trust, found)
	own.Trial, own.start, own.err = r.trial(), r.timeline.Start, err
}

// trial returns how the world ended.
func (r *worldRun) trial() Trial {
	t := &r.timeline
	own := Trial{Done: t.Done, Finish: t.Finish, InFlight: t.InFlight, Pools: t.Pools, Drains: t.Drains, Goals: r.progress(), Diagnostics: t.Diagnostics}
	if t.Finish.IsZero() {
		own.Finish = t.Start // there was nothing to do
	}
	if !t.Done {
		own.Left, own.Hanging, own.CutOff = r.lastingReasons(), len(t.Running) > 0, t.CutOff
	}
	return own
}
