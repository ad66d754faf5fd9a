package rollouttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// Prediction is the outcome of a forecast. A trial is done once nothing waits, on no target and for
// no version. So if one target of the fleet has failed for good before, or one version is never
// approved, no trial is ever done. [Prediction.About] tells when one version is done in one
// environment, and when it is on all targets but those that failed.
type Prediction struct {
	Start  time.Time `json:"start"`
	Trials []Trial   `json:"trials"`

	// Unsampled are the deployments that ran without samples, ascending: their jobs follow
	// World.Job. If one of them was meant to have samples, its name there is probably misspelt.
	Unsampled []string `json:"unsampled,omitempty"`

	// Overdue are the runs, ascending, that were in progress or being verified at the start for as
	// long as the longest sample, or longer. Every trial lets that end at the start. If a job among
	// them hangs, the prediction is too early: give it the status actionRequired, which keeps it from
	// ending. A job without run id is listed by its target.
	Overdue []string `json:"overdue,omitempty"`
}

// Trial is one run of the world.
type Trial struct {
	Done     bool      `json:"done"`             // nothing was left waiting, running or hanging
	Finish   time.Time `json:"finish,omitzero"`  // see [Timeline].Finish, done or not; the start if no job ended
	InFlight int       `json:"inFlight"`         // resources in disruption at once, at most
	Pools    []Peak    `json:"pools,omitempty"`  // see [Timeline.Pools]
	Drains   int       `json:"drains,omitempty"` // runs of pre members

	// Why it was not done. Left are the reasons for which targets still waited, except those that
	// time alone opens, ascending. Hanging says that a job had not ended, CutOff that World.End
	// came first.
	Left    []rollout.Reason `json:"left,omitempty"`
	Hanging bool             `json:"hanging,omitempty"`
	CutOff  bool             `json:"cutOff,omitempty"`

	// Goals tell how far every version came in every environment: those that a target ran or awaited
	// at the end, or had a job of since the start. A version that all had at the start, and left for
	// another one, is none of them. They are ordered by environment and deployment, the oldest
	// version first.
	Goals []Progress `json:"goals,omitempty"`

	// Diagnostics are the oddities that the plans met, see [Timeline].Diagnostics: a misspelt status in
	// an [Outcome], or an override, a freeze, a command or an approval that had no effect just then.
	Diagnostics []rollout.Diagnostic `json:"diagnostics,omitempty"`
}

// Finish returns the first instant by which a share q of all trials was done: DoneBy of it is at
// least q, and less than q before it. q is from 0 to 1; 0.5 is the median, and 0 the earliest trial
// that was done. Finish returns false if that share was never reached. An instant between those of
// two trials would promise what neither of them kept, so nothing is interpolated.
func (p Prediction) Finish(q float64) (time.Time, bool) {
	var done []time.Time
	for _, trial := range p.Trials {
		if trial.Done {
			done = append(done, trial.Finish)
		}
	}
	return chance.Quantile(done, time.Time.Compare, q, len(p.Trials))
}

// DoneBy returns the share of the trials, from 0 to 1, that were done at an instant: the chance to
// be done before a deadline.
func (p Prediction) DoneBy(at time.Time) float64 {
	done := 0
	for _, trial := range p.Trials {
		if trial.Done && !trial.Finish.After(at) {
			done++
		}
	}
	return float64(done) / float64(max(1, len(p.Trials)))
}

// Halted returns the share of the trials, from 0 to 1, that were not done: something failed for good,
// hung, or waited for an event that never came, or World.End came first.
func (p Prediction) Halted() float64 {
	return float64(p.halted()) / float64(max(1, len(p.Trials)))
}

// halted counts the trials that were not done.
func (p Prediction) halted() (n int) {
	for _, trial := range p.Trials {
		if !trial.Done {
			n++
		}
	}
	return n
}

// Peak returns how many resources a share q of all trials had in disruption at once, at most: in so
// many trials it was never more. It is 0 for a q outside 0 to 1.
func (p Prediction) Peak(q float64) int {
	peaks := make([]int, len(p.Trials))
	for i, trial := range p.Trials {
		peaks[i] = trial.InFlight
	}
	most, _ := chance.Quantile(peaks, cmp.Compare[int], q, len(peaks))
	return most
}

// why lists what the trial ended with if it was not done.
func (t Trial) why() []string {
	var list []string
	for _, reason := range t.Left {
		list = append(list, textlist.Name(reason))
	}
	if t.Hanging {
		list = append(list, "an unfinished job")
	}
	if t.CutOff {
		list = append(list, "World.End came first")
	}
	if !t.Done && !t.Hanging && !t.CutOff && len(t.Left)+len(t.Goals) == 0 {
		list = append(list, "no target that awaited it")
	}
	return list
}

// why counts what the trials that were not done ended with, the most frequent first.
func (p Prediction) why() string {
	times := map[string]int{}
	for _, trial := range p.Trials {
		for _, what := range trial.why() {
			times[what]++
		}
	}
	var parts []string
	for _, what := range slices.SortedFunc(maps.Keys(times), func(a, b string) int { return cmp.Or(times[b]-times[a], strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%s in %s", what, textlist.Counted(times[what], "trial")))
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// cutOff reports whether a trial was not done because World.End came first: it might have been later.
func (p Prediction) cutOff() bool {
	return slices.ContainsFunc(p.Trials, func(trial Trial) bool { return !trial.Done && trial.CutOff })
}

// undone says that trials were not done, and that they never would be unless one was cut off.
func (p Prediction) undone() string {
	if p.cutOff() {
		return "not done"
	}
	return "never done"
}

// when returns the instant by which a share q of all trials was done, and how long after the start.
func (p Prediction) when(q float64) string {
	at, ok := p.Finish(q)
	switch {
	case ok:
		return p.instant(at)
	case p.cutOff():
		return "not before World.End"
	}
	return "never"
}

// instant returns an instant, and how long after the start it is.
func (p Prediction) instant(at time.Time) string {
	return fmt.Sprintf("%s (+%s)", instantText(at), shortDuration(at.Sub(p.Start).Round(time.Second)))
}

// String returns the median, the 90th percentile and the extremes, also counted from Start, the
// greatest disruption, and why trials were not done; then what the prediction takes for granted. A
// line for each version that was still to come to an environment follows, ten at most: when all
// targets have it, or all but as many as are left without it in every trial. At the end come the
// first five diagnostics, with the number of trials that met them unless all did. Instants are in
// UTC. The text does not end with a newline.
func (p Prediction) String() string {
	if len(p.Trials) == 0 {
		return "0 trials: nothing was predicted"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s from %s on\n", textlist.Counted(len(p.Trials), "trial"), instantText(p.Start))
	if _, any := p.Finish(0); any {
		for _, row := range []struct {
			name string
			q    float64
		}{{"earliest", 0}, {"median", 0.5}, {"90 %", 0.9}, {"latest", 1}} {
			fmt.Fprintf(&b, "done, %-9s %s\n", row.name+":", p.when(row.q))
		}
	}
	fmt.Fprintf(&b, "%s: %s%s\n", p.undone(), chance.Percent(p.halted(), len(p.Trials)), p.why())
	fmt.Fprintf(&b, "at most %s in flight at once", textlist.Counted(p.Peak(1), "resource"))
	if half := p.Peak(0.5); half < p.Peak(1) {
		fmt.Fprintf(&b, ", in half of the trials at most %d", half)
	}
	b.WriteString("\n")
	if len(p.Unsampled) > 0 {
		fmt.Fprintf(&b, "no samples, so World.Job decides: %s\n", firstNames(p.Unsampled, 10))
	}
	if len(p.Overdue) > 0 {
		fmt.Fprintf(&b, "longer in progress than any sample, and taken to end at once: %s\n", firstNames(p.Overdue, 10))
	}
	goals := p.goals()
	for _, goal := range goals[:min(len(goals), 10)] {
		fmt.Fprintf(&b, "%s\n", p.outlook(goal))
	}
	if n := len(goals) - 10; n > 0 {
		fmt.Fprintf(&b, "and %s more\n", textlist.Counted(n, "version"))
	}
	writeDiagnostics(&b, diagnosed(p.Trials))
	return strings.TrimSuffix(b.String(), "\n")
}

// ends says when the latest of the trials was done, and how many never were, and why.
func (p Prediction) ends() string {
	var parts []string
	var latest time.Time
	for _, trial := range p.Trials {
		if trial.Done && trial.Finish.After(latest) {
			latest = trial.Finish
		}
	}
	halted := p.halted()
	if halted < len(p.Trials) {
		parts = append(parts, "done at "+p.instant(latest))
	}
	if halted > 0 {
		text := p.undone()
		if halted < len(p.Trials) {
			text += " in " + textlist.Counted(halted, "trial")
		}
		parts = append(parts, text+p.why())
	}
	return strings.Join(parts, "; ")
}
