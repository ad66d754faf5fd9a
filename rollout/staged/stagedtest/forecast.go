package stagedtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
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
	f := forecast{world: r.World, samples: samples, seed: seed, timelines: make([]trialTimeline, trials)}
	for s := range r.run.Stages() {
		f.stages = append(f.stages, s.Name)
	}
	if err := f.validate(); err != nil {
		return Prediction{}, err
	}
	f.run(ctx, 0)
	if f.timelines[0].err == nil {
		f.world.Trust = true
		rest := f.timelines[1:]
		chance.InParallel(len(rest), runtime.GOMAXPROCS(0), func(i int) (ok bool) {
			f.run(ctx, i+1)
			return rest[i].err == nil
		})
	}
	p := Prediction{Start: f.world.Start, Trials: make([]Trial, trials)}
	overdue := map[string]bool{}
	for i, own := range f.timelines {
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
	world     World
	stages    []string // names, by index
	samples   Samples
	seed      uint64
	timelines []trialTimeline
}

// trialTimeline is the outcome of one trial.
type trialTimeline struct {
	Trial
	overdue map[string]bool
	err     error
}

// validate says what is wrong with the samples.
func (f *forecast) validate() error {
	unknown := func(list, stage string) error {
		if stage != "" && !slices.Contains(f.stages, stage) {
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

// samplesOf returns the samples for a stage.
func samplesOf[T any](samples map[string][]T, stage string) []T {
	if own, listed := samples[stage]; listed {
		return own
	}
	return samples[""]
}

// run runs one trial.
func (f *forecast) run(ctx context.Context, trial int) {
	own := &f.timelines[trial]
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
		if samples := samplesOf(f.samples.Targets, f.stages[action.Stage]); len(samples) > 0 {
			return attempt(samples, action)
		}
		return f.world.Target(action)
	}
	world.Approval = func(request staged.Action, at time.Time) (Answer, bool) {
		if samples := samplesOf(f.samples.Approvals, f.stages[request.Stage]); len(samples) > 0 {
			return answer(samples, request), true
		}
		if f.world.Approval == nil {
			return Answer{}, false
		}
		return f.world.Approval(request, at)
	}
	found := foundAs{
		outcome: func(action staged.Action, since time.Time) Outcome {
			samples, late := chance.Longer(samplesOf(f.samples.Targets, f.stages[action.Stage]), Outcome.length, f.world.Start.Sub(since))
			if late {
				own.overdue[action.Target] = true
			}
			if len(samples) == 0 {
				return f.world.Target(action)
			}
			return attempt(samples, action)
		},
		answer: func(request staged.Action, since time.Time) (Answer, bool) {
			samples, late := chance.Longer(samplesOf(f.samples.Approvals, f.stages[request.Stage]), func(a Answer) time.Duration { return a.After }, f.world.Start.Sub(since))
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

// Prediction is the outcome of a forecast.
type Prediction struct {
	Start  time.Time `json:"start"`
	Trials []Trial   `json:"trials"`

	// Overdue are the targets that were in progress at the start for as long as the longest sample,
	// or longer, and the names of the requests that were open for so long, ascending. Every trial
	// lets that end at the start: if one of them hangs, the prediction is too early.
	Overdue []string `json:"overdue,omitempty"`
}

// Trial is one run of the world.
type Trial struct {
	Done   bool          `json:"done"`            // see [Timeline.Done]
	Phase  staged.Phase  `json:"phase"`           // of the run, at the end
	Ended  time.Time     `json:"ended,omitzero"`  // when the run was over, done or not; zero if it never was
	Waits  staged.Reason `json:"waits,omitempty"` // what it waited for, if it was not over
	CutOff bool          `json:"cutOff,omitempty"`
	Stages []Span        `json:"stages,omitempty"` // in order, the cleanup last
}

// Finish returns the first instant by which a share q of all trials was done: DoneBy of it is at
// least q, and less than q before it. q is from 0 to 1; 0.5 is the median, and 0 the earliest trial
// that was done. Finish returns false if that share was never reached. An instant between those of
// two trials would promise what neither of them kept, so nothing is interpolated.
func (p Prediction) Finish(q float64) (time.Time, bool) {
	return p.by(q, func(trial *Trial) (time.Time, bool) { return trial.Ended, trial.Done })
}

// Closed is Finish for one stage, by its name: the first instant by which a share q of all trials had
// closed it. It returns false as well if there is no such stage.
func (p Prediction) Closed(stage string, q float64) (time.Time, bool) {
	return p.by(q, func(trial *Trial) (time.Time, bool) {
		k := slices.IndexFunc(trial.Stages, func(s Span) bool { return s.Name == stage })
		if k < 0 {
			return time.Time{}, false
		}
		return trial.Stages[k].End, trial.Stages[k].closed()
	})
}

// closed reports whether a stage was left behind.
func (s *Span) closed() bool {
	return s.Phase == staged.StageSucceeded || s.Phase == staged.StageSkipped
}

// by returns the first instant by which a share q of all trials had come to something.
func (p Prediction) by(q float64, end func(*Trial) (time.Time, bool)) (time.Time, bool) {
	var ends []time.Time
	for k := range p.Trials {
		if at, ok := end(&p.Trials[k]); ok {
			ends = append(ends, at)
		}
	}
	k := chance.Share(q, len(p.Trials))
	if k >= len(ends) {
		return time.Time{}, false
	}
	slices.SortFunc(ends, time.Time.Compare)
	return ends[k], true
}

// DoneBy returns the share of the trials, from 0 to 1, that were done at an instant: the chance to be
// done before a deadline.
func (p Prediction) DoneBy(at time.Time) float64 {
	n := p.count(func(trial *Trial) bool { return trial.Done && !trial.Ended.After(at) })
	return float64(n) / float64(max(1, len(p.Trials)))
}

// Halted returns the share of the trials, from 0 to 1, that were not done: the run failed, was
// cancelled, held or stopped, or waited for what never came, or World.End came first.
func (p Prediction) Halted() float64 {
	n := p.count(func(trial *Trial) bool { return !trial.Done })
	return float64(n) / float64(max(1, len(p.Trials)))
}

func (p Prediction) count(is func(*Trial) bool) (n int) {
	for k := range p.Trials {
		if is(&p.Trials[k]) {
			n++
		}
	}
	return n
}

// String returns the median, the 90th percentile and the extremes, also counted from Start, in how
// many trials the run was done without some of its targets, and why trials were not done; then a line
// for each stage with targets, and how many trials came to no end there. Instants are in UTC. The
// text does not end with a newline.
func (p Prediction) String() string {
	if len(p.Trials) == 0 {
		return "0 trials: nothing was predicted"
	}
	lines := []string{fmt.Sprintf("%s from %s on", textlist.Counted(len(p.Trials), "trial"), p.Start.UTC().Format(layout))}
	if _, any := p.Finish(0); any {
		for _, row := range []struct {
			name string
			q    float64
		}{{"earliest", 0}, {"median", 0.5}, {"90 %", 0.9}, {"latest", 1}} {
			at, ok := p.Finish(row.q)
			lines = append(lines, fmt.Sprintf("done, %-9s %s", row.name+":", p.instant(at, ok)))
		}
	}
	if n := p.count(func(trial *Trial) bool { return trial.Done && trial.Phase == staged.PhasePartiallySucceeded }); n > 0 {
		lines = append(lines, "done, but with targets that failed, timed out or were skipped: "+chance.Percent(n, len(p.Trials)))
	}
	lines = append(lines, p.undone())
	lines = append(lines, p.table()...)
	if len(p.Overdue) > 0 {
		lines = append(lines, "longer in progress than any sample, and taken to end at once: "+strings.Join(textlist.Few(textlist.Names(p.Overdue)), ", "))
	}
	return strings.Join(lines, "\n")
}

// table has a line for each stage with targets: when it was closed, how many of its targets were in
// progress at once and, unless all trials were done, how many went no further.
func (p Prediction) table() []string {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	header := "stage\tclosed, median\t90 %\tat once, at most"
	halted := p.halted()
	if len(halted) > 0 {
		header += "\ttrials halted here"
	}
	fmt.Fprintln(table, header)
	for k := range p.Trials[0].Stages {
		own := &p.Trials[0].Stages[k]
		if own.Counts.Members == 0 && p.peak(k) == 0 && halted[k] == 0 {
			continue
		}
		median, half := p.Closed(own.Name, 0.5)
		most, nine := p.Closed(own.Name, 0.9)
		fmt.Fprintf(table, "%s\t%s\t%s\t%d", textlist.Name(own.Name), p.after(median, half), p.after(most, nine), p.peak(k))
		if len(halted) > 0 {
			fmt.Fprintf(table, "\t%d", halted[k])
		}
		fmt.Fprintln(table)
	}
	table.Flush()
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// halted is how many trials were not done and closed all stages before this one, by its index.
func (p Prediction) halted() map[int]int {
	trials := map[int]int{}
	for k := range p.Trials {
		own := &p.Trials[k]
		open := slices.IndexFunc(own.Stages, func(s Span) bool { return s.Counts.Members > 0 && !s.closed() })
		if !own.Done && open >= 0 {
			trials[open]++
		}
	}
	return trials
}

// peak is how many targets of a stage were in progress at once in any trial, at most.
func (p Prediction) peak(stage int) (most int) {
	for k := range p.Trials {
		if stages := p.Trials[k].Stages; stage < len(stages) {
			most = max(most, stages[stage].Peak)
		}
	}
	return most
}

// undone says how many trials were not done, and what they ended with, the most frequent first.
func (p Prediction) undone() string {
	times := map[string]int{}
	for k := range p.Trials {
		switch trial := &p.Trials[k]; {
		case trial.Done:
		case trial.CutOff:
			times["World.End came first"]++
		case trial.Waits != "" && !strings.EqualFold(string(trial.Waits), string(trial.Phase)):
			times[fmt.Sprintf("%s (%s)", trial.Phase, trial.Waits)]++
		default:
			times[string(trial.Phase)]++
		}
	}
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(times[b]-times[a], strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%s in %s", what, textlist.Counted(times[what], "trial")))
	}
	text := "not done: " + chance.Percent(p.count(func(trial *Trial) bool { return !trial.Done }), len(p.Trials))
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

// notReached stands for the instant of a share that was never reached.
const notReached = "not reached"

// instant returns an instant, and how long after the start it is.
func (p Prediction) instant(at time.Time, ok bool) string {
	if !ok {
		return notReached
	}
	return fmt.Sprintf("%s (%s)", at.UTC().Format(layout), p.after(at, ok))
}

// after returns how long after the start an instant is.
func (p Prediction) after(at time.Time, ok bool) string {
	switch {
	case !ok:
		return notReached
	case at.Before(p.Start):
		return "before the start"
	}
	return "+" + textlist.Duration(at.Sub(p.Start).Round(time.Second))
}
