package stagedtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout/staged"
)

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
func (p Prediction) Closed(stage string, q float64) (time.Time, bool) { return p.closedAt(0, stage, q) }

// closedAt is Closed for a stage that the trials have at this index, if they are of one run. Where it
// is not, it is looked for.
func (p Prediction) closedAt(index int, stage string, q float64) (time.Time, bool) {
	return p.by(q, func(trial *Trial) (time.Time, bool) {
		k := index
		if k >= len(trial.Stages) || trial.Stages[k].Name != stage {
			k = slices.IndexFunc(trial.Stages, func(s Span) bool { return s.Name == stage })
		}
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
	return chance.Quantile(ends, time.Time.Compare, q, len(p.Trials))
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
		median, half := p.closedAt(k, own.Name, 0.5)
		most, nine := p.closedAt(k, own.Name, 0.9)
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
