package rollouttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/chance"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// Explore answers what becomes of a rollout if a job does not end as expected. It runs a world as
// it is, and then once for every job of it and every other way in which that job may end; with a
// depth of 2, also for every two jobs, and so on. The jobs are those that the world starts or finds
// at its start. Retries and rollbacks are jobs, too, and so are those that come about only by a
// fault: they can fail from a depth of 2 on.
//
// others returns how else a job may end, of which what World.Job returns is left out. Nil stands
// for two ways: it fails when it would have ended, or it hangs. Of a job that has succeeded before
// the start and is being verified, others that do not succeed are left out, and so are those whose
// checks come out the same; nil then stands for checks that fail when they would have ended, or
// that never end.
//
// World.Job, [Change].Do and others must be pure functions: the worlds run in parallel on all cores,
// unless World.Plan is set. There are about as many of them as jobs times others, to the power of
// depth, and each takes as long as [World.Run], so explore a small fleet that has one resource of
// every kind. Every plan is checked unless World.Trust is set. World.Store must be nil. The depth is
// at least 1. The error is that of the first world that fails, and names its faults; once ctx is done,
// it is that of ctx. With an error the exploration is empty, whatever was explored before.
func Explore(ctx context.Context, world World, others func(start rollout.Start, attempt int) []Outcome, depth int) (Exploration, error) {
	switch {
	case depth < 1:
		return Exploration{}, fmt.Errorf("rollouttest: a depth of %d: at least 1 is needed", depth)
	case world.Store != nil:
		return Exploration{}, errors.New("rollouttest: World.Store must be nil in an exploration: every world begins anew")
	}
	world.Pure = world.Pure || !world.Fleet.State.IsZero()
	faultless := explore(ctx, world, nil)
	if faultless.err != nil {
		return Exploration{}, faultless.err
	}
	e := Exploration{Start: faultless.start, Without: faultless.Trial}
	for level := []explored{faultless}; depth > 0; depth-- {
		var faults [][]Fault
		for _, before := range level {
			further, err := before.further(others)
			if err != nil {
				return Exploration{}, err
			}
			faults = append(faults, further...)
		}
		level = make([]explored, len(faults))
		chance.InParallel(len(faults), world.workers(), func(i int) (ok bool) {
			level[i] = explore(ctx, world, faults[i])
			return level[i].err == nil
		})
		for i := range level {
			own := &level[i]
			if own.err != nil {
				return Exploration{}, fmt.Errorf("%w (%s)", own.err, listed(faults[i], Fault.String))
			}
			own.Held = without(own.Held, faultless.Held)
			own.Disrupted = without(own.Disrupted, faultless.Disrupted)
			e.Consequences = append(e.Consequences, own.Consequence)
		}
	}
	return e, nil
}

// Exploration is what faults lead to.
type Exploration struct {
	Start        time.Time     `json:"start"`
	Without      Trial         `json:"without"`                // the world as it is
	Consequences []Consequence `json:"consequences,omitempty"` // those of one fault first, in the order of the jobs
}

// Consequence is what becomes of a world in which some jobs end otherwise.
type Consequence struct {
	Faults []Fault `json:"faults"` // in the order in which their jobs started
	Trial

	// Held are the resources, ascending, on which at the end something waits, is in progress or is
	// being verified, and where without the faults nothing would.
	Held []string `json:"held,omitempty"`

	// Disrupted are the resources, ascending, that are in disruption at the end, and would not be
	// without the faults: a bracket that began there has not ended, or a job is in progress. A node
	// among them is drained until somebody comes.
	Disrupted []string `json:"disrupted,omitempty"`
}

// Fault is a job that ends otherwise than World.Job says.
type Fault struct {
	rollout.TargetID
	Run     string          `json:"run,omitempty"` // its id; empty for a job of the fleet that has none
	Version string          `json:"version"`
	Purpose rollout.Purpose `json:"purpose"`
	Attempt int             `json:"attempt"` // from 1
	Outcome Outcome         `json:"outcome"`
}

// of reports whether the fault is that of an attempt.
func (f Fault) of(start rollout.Start, attempt int) bool {
	return f.Run == start.Run && f.TargetID == start.TargetID && f.Version == start.Version && f.Purpose == start.Purpose && f.Attempt == attempt
}

// With returns the world in which the jobs of faults end as these say, to see the timeline of a
// [Consequence] that [Explore] has found. A fault is for the job that agrees with it in all fields;
// if no job does, it has no effect. To have jobs fail that are known by less, such as all of a
// resource, set World.Job.
func (w World) With(faults ...Fault) World {
	job, faults := w.Job, slices.Clone(faults)
	if job == nil {
		job = defaultJob
	}
	w.Job = func(start rollout.Start, attempt int) Outcome {
		for _, f := range faults {
			if f.of(start, attempt) {
				return f.Outcome
			}
		}
		return job(start, attempt)
	}
	return w
}

// String returns the fault as in "kubelet fails on node-1 in prod (v2)".
func (f Fault) String() string {
	return fmt.Sprintf("%s on %s in %s (%s)", f.what(), textlist.Name(f.Resource), textlist.Name(f.Environment), textlist.Name(f.Version))
}

// what says what happens to a job, wherever it is and of whatever version.
func (f Fault) what() string {
	text := textlist.Name(f.Deployment)
	if f.Purpose == rollout.PurposeRollback {
		text = "the rollback of " + text
	}
	if f.Attempt > 1 {
		text = fmt.Sprintf("attempt %d of %s", f.Attempt, text)
	}
	return text + " " + f.Outcome.text()
}

// text completes a sentence about a job.
func (o Outcome) text() string {
	switch status := cmp.Or(o.Status, rollout.JobSuccessful); {
	case !status.Terminal():
		return "hangs"
	case status == rollout.JobFailure:
		return "fails"
	case status != rollout.JobSuccessful:
		return "ends as " + string(status)
	case o.Verification == rollout.VerificationFailed:
		return "fails its checks"
	case o.Verification == rollout.VerificationRunning:
		return "is never verified"
	}
	return "takes " + shortDuration(o.After+o.VerifiedAfter)
}

// String returns the faults and what becomes of the world, as in "kubelet hangs on node-1 in prod
// (v2): never done: slot_full, an unfinished job; node-1, node-2 held; node-1 left in disruption".
// Instants are in UTC.
func (c Consequence) String() string {
	text := listed(c.Faults, Fault.String) + ": "
	if c.Done {
		text += "done at " + instantText(c.Finish)
	} else {
		text += Prediction{Trials: []Trial{c.Trial}}.undone() + ": " + strings.Join(c.why(), ", ")
	}
	if len(c.Held) > 0 {
		text += "; " + firstNames(c.Held, 10) + " held"
	}
	if len(c.Disrupted) > 0 {
		text += "; " + firstNames(c.Disrupted, 10) + " left in disruption"
	}
	return text
}

// String returns how the world ends as it is, and what the faults lead to: when the latest of the
// trials with a fault in a job of one deployment was done, how many never were, and why; how many
// resources they hold, where the fault is that holds the most, and how many they leave in
// disruption. Faults for which all of that is the same share a line. At the end come the first five
// diagnostics, those that need no fault first, the others with the number of trials that met them.
// Instants are in UTC. The text does not end with a newline.
func (e Exploration) String() string {
	if e.Start.IsZero() && e.Consequences == nil {
		return "nothing was explored"
	}
	type line struct {
		trials int    // of each of its faults
		end    string // what they lead to
	}
	trials := map[string][]*Consequence{} // by what the faults are
	sharing := map[line][]string{}        // what the faults are
	var faults []string                   // in the order of their first trials
	var lines []line
	for i := range e.Consequences {
		c := &e.Consequences[i]
		what := listed(c.Faults, Fault.what)
		if trials[what] == nil {
			faults = append(faults, what)
		}
		trials[what] = append(trials[what], c)
	}
	for _, what := range faults {
		own := line{len(trials[what]), e.together(trials[what])}
		if sharing[own] == nil {
			lines = append(lines, own)
		}
		sharing[own] = append(sharing[own], what)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s with faults from %s on\n", textlist.Counted(len(e.Consequences), "trial"), instantText(e.Start))
	fmt.Fprintf(&b, "without faults: %s\n", Prediction{Start: e.Start, Trials: []Trial{e.Without}}.ends())
	for _, own := range lines {
		each := ""
		if len(sharing[own]) > 1 {
			each = " each"
		}
		fmt.Fprintf(&b, "%s (%s%s): %s\n", strings.Join(sharing[own], ", "), textlist.Counted(own.trials, "trial"), each, own.end)
	}
	writeDiagnostics(&b, e.diagnosed())
	return strings.TrimSuffix(b.String(), "\n")
}

// diagnosed returns the diagnostics of the world as it is, and those that came about by faults alone.
func (e Exploration) diagnosed() []diagnostic {
	list := diagnosed([]Trial{e.Without})
	trials := make([]Trial, len(e.Consequences))
	for k := range e.Consequences {
		trials[k] = e.Consequences[k].Trial
	}
	for _, d := range diagnosed(trials) {
		if _, known := slices.BinarySearchFunc(e.Without.Diagnostics, d.Diagnostic, compareDiagnostics); !known {
			d.of = 0
			list = append(list, d)
		}
	}
	return list
}

// together says what trials with like faults lead to.
func (e Exploration) together(trials []*Consequence) string {
	p, most := Prediction{Start: e.Start}, trials[0]
	var held, disrupted []int
	for _, c := range trials {
		p.Trials = append(p.Trials, c.Trial)
		held, disrupted = append(held, len(c.Held)), append(disrupted, len(c.Disrupted))
		if len(c.Held) > len(most.Held) {
			most = c
		}
	}
	text := p.ends()
	if n := slices.Max(held); n > 0 {
		text += fmt.Sprintf("; %s held", between(slices.Min(held), n, "resource"))
		if slices.Min(held) < n {
			faults := "fault"
			if len(most.Faults) > 1 {
				faults = "faults"
			}
			text += fmt.Sprintf(", most by the %s on %s", faults, listed(most.Faults, func(f Fault) string { return textlist.Name(f.Resource) }))
		}
	}
	if n := slices.Max(disrupted); n > 0 {
		text += fmt.Sprintf("; %s left in disruption", between(slices.Min(disrupted), n, "resource"))
	}
	return text
}

func between(least, most int, what string) string {
	if least == most {
		return textlist.Counted(most, what)
	}
	return fmt.Sprintf("%d to %s", least, textlist.Counted(most, what))
}

func listed[T any](list []T, text func(T) string) string {
	texts := make([]string, len(list))
	for i := range list {
		texts[i] = text(list[i])
	}
	return strings.Join(texts, " and ")
}

// explored is a world that was run for an exploration.
type explored struct {
	Consequence
	start time.Time
	jobs  []exploredJob // all that it started or found, in this order
	next  int           // the first of jobs that may have the next fault: that of two faults which starts first comes first
	err   error
}

// exploredJob is a job of a world.
type exploredJob struct {
	start    rollout.Start
	attempt  int
	outcome  Outcome
	verifies bool // it had ended before the world began, and its checks had not
}

// others returns how else the job may end if nobody says.
func (j *exploredJob) others() []Outcome {
	expected := j.outcome
	if j.verifies {
		return []Outcome{
			{After: expected.After, Verification: rollout.VerificationFailed, VerifiedAfter: expected.VerifiedAfter},
			{After: expected.After, Verification: rollout.VerificationRunning},
		}
	}
	return []Outcome{{After: expected.After, Status: rollout.JobFailure}, {Status: rollout.JobInProgress}}
}

// differs reports whether another outcome is one to the job: what has ended does not end again, and
// what hangs has no end.
func (j *exploredJob) differs(other Outcome) bool {
	if expected := j.outcome; !j.verifies {
		if !other.Status.Terminal() {
			other.After, expected.After = 0, 0
		}
		return other != expected
	}
	ends := func(o Outcome) Outcome {
		if !o.decides() {
			return Outcome{} // it stays in progress
		}
		return Outcome{Verification: o.Verification, VerifiedAfter: o.VerifiedAfter}
	}
	return other.Status == rollout.JobSuccessful && ends(other) != ends(j.outcome)
}

// explore runs a world with faults.
func explore(ctx context.Context, world World, faults []Fault) explored {
	own := explored{Consequence: Consequence{Faults: faults}}
	job := world.With(faults...).Job
	world.Job = func(start rollout.Start, attempt int) Outcome {
		j := exploredJob{start: start, attempt: attempt, outcome: job(start, attempt)}
		j.outcome.Status = cmp.Or(j.outcome.Status, rollout.JobSuccessful)
		own.jobs = append(own.jobs, j)
		if slices.ContainsFunc(faults, func(f Fault) bool { return f.of(start, attempt) }) {
			own.next = len(own.jobs)
		}
		return j.outcome
	}
	r, err := world.play(ctx, world.Trust, func(start rollout.Start, attempt int, of *rollout.Job, _ time.Time) Outcome {
		outcome := world.Job(start, attempt)
		own.jobs[len(own.jobs)-1].verifies = verifies(of)
		return outcome
	})
	if err != nil {
		own.err = err
		return own
	}
	own.start, own.Trial = r.timeline.Start, r.trial()
	held := map[string]bool{}
	for w := range r.plan.Waiting.All() {
		held[w.Resource] = true
	}
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		if slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool { return unfinished(&job) }) {
			held[t.Resource] = true
		}
	}
	own.Held, own.Disrupted = slices.Sorted(maps.Keys(held)), slices.Sorted(maps.Keys(r.disrupted(&r.plan)))
	return own
}

// further returns the faults of this world with one more, of a job that came after the last of them,
// or says what is wrong with what others returned.
func (e *explored) further(others func(rollout.Start, int) []Outcome) (list [][]Fault, err error) {
	for _, job := range e.jobs[e.next:] {
		ends := job.others
		if others != nil {
			ends = func() []Outcome { return others(job.start, job.attempt) }
		}
		for _, other := range ends() {
			other.Status = cmp.Or(other.Status, rollout.JobSuccessful)
			fault := Fault{TargetID: job.start.TargetID, Run: job.start.Run, Version: job.start.Version, Purpose: job.start.Purpose, Attempt: job.attempt, Outcome: other}
			faults := append(slices.Clone(e.Faults), fault)
			if _, err := valid(other, "others", job.start, job.attempt); err != nil {
				return nil, fmt.Errorf("%w (%s)", err, listed(faults, Fault.String))
			}
			if job.differs(other) {
				list = append(list, faults)
			}
		}
	}
	return list, nil
}

// without returns a list without what is also in another; both are ascending.
func without(list, other []string) []string {
	return slices.DeleteFunc(list, func(text string) bool {
		_, known := slices.BinarySearch(other, text)
		return known
	})
}
