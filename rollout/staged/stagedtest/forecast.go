package stagedtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// Forecast runs a world as many times as trials says, at least once, and draws the outcome of every
// attempt at a target, and every answer, from the samples. Stages without samples follow World.Target
// and World.Approval. A draw depends on the samples, the seed, the trial, the target, whether it is
// updated or removed, and the number of the attempt alone; that of an answer on the name of the stage
// and the side instead of the target. So the same call gives the same prediction, and strategies that
// have the same samples for all stages are compared on the same draws, as are their answers where
// stages have the same names.
//
// All draws are independent of one another. What slows down or breaks many targets at once, such as
// a registry that is down, is not in a prediction; nor is a target that fails again for the same
// reason. Where that happens, a run takes longer than predicted, and fails more often. A further
// trial is later than the latest of n trials with a chance of 1 in n+1, so take a hundred trials or
// more before you rely on what nine of ten do.
//
// What is in progress or requested at World.Start is drawn from the samples that took longer than it
// has by then, one that hangs being longer than any. If no sample is longer, the longest counts, and
// it ends at World.Start: see [Prediction].Overdue.
//
// The first trial runs the world as it is. The others run it with Trust, in parallel on all cores. So
// its functions must not write to what two runs share, and find what they have to remember in the
// run, such as the attempt of a target; and World.Store must be nil. The error is that of the first
// trial that fails, or names samples that no stage has; then the prediction is empty.
func Forecast(ctx context.Context, world World, samples Samples, trials int, seed uint64) (Prediction, error) {
	switch {
	case trials < 1:
		return Prediction{}, fmt.Errorf("stagedtest: %d trials: at least 1 is needed", trials)
	case world.Store != nil:
		return Prediction{}, errors.New("stagedtest: World.Store must be nil in a forecast: trials run side by side")
	}
	r, err := world.begin()
	if err != nil {
		return Prediction{}, fmt.Errorf("stagedtest: %w", err)
	}
	f := forecast{world: r.World, samples: samples, seed: seed, outcomes: make([]trialOutcome, trials)}
	f.attempts, f.answers = byLength(samples.Targets, Outcome.length), byLength(samples.Approvals, Answer.length)
	for s := range r.run.Stages() {
		f.stages = append(f.stages, s.Name)
	}
	if err := f.validate(); err != nil {
		return Prediction{}, err
	}
	f.run(ctx, 0)
	if f.outcomes[0].err == nil {
		f.world.Trust = true
		rest := f.outcomes[1:]
		chance.InParallel(len(rest), runtime.GOMAXPROCS(0), func(i int) (ok bool) {
			f.run(ctx, i+1)
			return rest[i].err == nil
		})
	}
	p := Prediction{Start: f.world.Start, Trials: make([]Trial, trials)}
	overdue := map[string]bool{}
	for i, own := range f.outcomes {
		if own.err != nil {
			return Prediction{}, fmt.Errorf("%w (in trial %d)", own.err, i)
		}
		p.Trials[i] = own.Trial
		maps.Copy(overdue, own.overdue)
	}
	p.Overdue = slices.Sorted(maps.Keys(overdue))
	return p, nil
}

// forecast is a forecast in progress.
type forecast struct {
	world    World
	stages   []string // names, by index
	samples  Samples
	attempts map[string]chance.Lengths[Outcome] // the samples for targets, of which some are too short for what the world has found
	answers  map[string]chance.Lengths[Answer]
	seed     uint64
	outcomes []trialOutcome
}

// trialOutcome is the outcome of one trial.
type trialOutcome struct {
	Trial
	overdue map[string]bool
	err     error
}

// validate says what is wrong with the samples.
func (f *forecast) validate() error {
	known := map[string]bool{"": true}
	for _, stage := range f.stages {
		known[stage] = true
	}
	unknown := func(list, stage string) error {
		if !known[stage] {
			return fmt.Errorf("stagedtest: Samples.%s[%q]: the run has no such stage: use %s, or an empty name for all others", list, stage, strings.Join(textlist.Few(f.stages), ", "))
		}
		return nil
	}
	for _, stage := range slices.Sorted(maps.Keys(f.samples.Targets)) {
		if err := unknown("Targets", stage); err != nil {
			return err
		}
		for k, o := range f.samples.Targets[stage] {
			if err := o.validate(); err != nil {
				return fmt.Errorf("stagedtest: Samples.Targets[%q][%d] is %w", stage, k, err)
			}
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(f.samples.Approvals)) {
		if err := unknown("Approvals", stage); err != nil {
			return err
		}
		for k, a := range f.samples.Approvals[stage] {
			if err := a.validate(); err != nil {
				return fmt.Errorf("stagedtest: Samples.Approvals[%q][%d] is %w", stage, k, err)
			}
		}
	}
	return nil
}

// byLength orders the samples for each stage.
func byLength[T any](samples map[string][]T, length func(T) time.Duration) map[string]chance.Lengths[T] {
	ordered := map[string]chance.Lengths[T]{}
	for stage, own := range samples {
		ordered[stage] = chance.ByLength(own, length)
	}
	return ordered
}

// ofStage returns the samples for a stage.
func ofStage[T any](samples map[string]T, stage string) T {
	if own, listed := samples[stage]; listed {
		return own
	}
	return samples[""]
}

// run runs one trial.
func (f *forecast) run(ctx context.Context, trial int) {
	own := &f.outcomes[trial]
	own.overdue = map[string]bool{}
	world := f.world
	draw := func(n int, task ...string) int { return chance.Draw(f.seed, uint64(trial), textkey.Join(task...), n) }
	attempt := func(samples []Outcome, action staged.Action) Outcome {
		return samples[draw(len(samples), string(action.Kind), action.Target, strconv.Itoa(action.Token.Attempt))]
	}
	answer := func(samples []Answer, request staged.Action) Answer {
		return samples[draw(len(samples), f.stages[request.Stage], string(request.Side))]
	}
	world.Target = func(action staged.Action) Outcome {
		if samples := ofStage(f.samples.Targets, f.stages[action.Stage]); len(samples) > 0 {
			return attempt(samples, action)
		}
		return f.world.Target(action)
	}
	world.Approval = func(request staged.Action, at time.Time) (Answer, bool) {
		if samples := ofStage(f.samples.Approvals, f.stages[request.Stage]); len(samples) > 0 {
			return answer(samples, request), true
		}
		if f.world.Approval == nil {
			return Answer{}, false
		}
		return f.world.Approval(request, at)
	}
	found := foundAs{
		outcome: func(action staged.Action, since time.Time) Outcome {
			samples, late := ofStage(f.attempts, f.stages[action.Stage]).Longer(f.world.Start.Sub(since))
			if late {
				own.overdue[action.Target] = true
			}
			if len(samples) == 0 {
				return f.world.Target(action)
			}
			return attempt(samples, action)
		},
		answer: func(request staged.Action, since time.Time) (Answer, bool) {
			samples, late := ofStage(f.answers, f.stages[request.Stage]).Longer(f.world.Start.Sub(since))
			if late {
				own.overdue[request.Name] = true
			}
			if len(samples) == 0 {
				return world.Approval(request, since)
			}
			return answer(samples, request), true
		},
	}
	timeline, err := world.play(ctx, found)
	own.Trial, own.err = timeline.trial(), err
}

// length is how long an attempt takes: one that hangs is longer than any.
func (o Outcome) length() time.Duration {
	if o.hangs() {
		return math.MaxInt64
	}
	return o.After
}

func (a Answer) length() time.Duration { return a.After }

// trial returns how the world ended.
func (t *Timeline) trial() Trial {
	if t.Run == nil {
		return Trial{CutOff: true}
	}
	own := Trial{Done: t.Done(), Phase: t.Run.Phase(), Ended: t.Ended, Stages: t.Stages, CutOff: t.CutOff}
	if t.Ended.IsZero() {
		if v, waits := t.Run.Waits(); waits {
			own.Waits = v.Reason
		}
	}
	return own
}
