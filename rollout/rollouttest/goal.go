package rollouttest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// Goal is a version that is to come to the targets of its deployment in an environment. All three
// are ids, and none may be empty.
type Goal struct {
	Deployment  string `json:"deployment"`
	Environment string `json:"environment"`
	Version     string `json:"version"`
}

// String returns the goal as in "web v2 in prod".
func (g Goal) String() string {
	return fmt.Sprintf("%s %s in %s", textlist.Name(g.Deployment), textlist.Name(g.Version), textlist.Name(g.Environment))
}

// Progress is how far a trial came with a goal. A target that gets the version and goes from it to a
// newer one has got it. A target that goes past the version, or for which the version is not meant,
// does not count, and neither does one that left.
type Progress struct {
	Goal Goal `json:"goal"`

	// Got is how many targets got the version, those included that had it at the start and still have
	// it.
	Got int `json:"got"`

	// Finish is when the last of them did: when its last job of the version ended, or the last
	// verification, or a change ended it, but not before the start of the world. Checks that fail
	// take nothing away unless a rollback follows. Zero if none did.
	Finish time.Time `json:"finish,omitzero"`

	// Left is how many targets were still to get the version at the end, or to get it again: those
	// that waited for it, those that had been rolled back included, and those where it was at work
	// or being verified.
	Left int `json:"left,omitempty"`

	// Reasons are the reasons for which these waited, except those that time alone opens,
	// ascending. Hanging says that a job or a verification had not ended.
	Reasons []rollout.Reason `json:"reasons,omitempty"`
	Hanging bool             `json:"hanging,omitempty"`
}

// About returns the prediction for one goal: its trials are done, at [Progress].Finish, once at
// most left targets are without the version, whatever else waits in the fleet. With 0 all targets
// must have it, those included that failed before. With 1 or more it answers when the others have
// it, if at least one has. A trial is not done if its [Progress].Left is greater than left, nor if
// it says nothing of the goal: no target had, got or awaited the version, or there is no such goal.
//
// Left, Hanging and CutOff of its trials are about the goal; InFlight, Pools, Drains and
// Diagnostics stay those of all that happened.
func (p Prediction) About(goal Goal, left int) Prediction {
	about := Prediction{Start: p.Start, Trials: make([]Trial, len(p.Trials)), Unsampled: slices.Clone(p.Unsampled), Overdue: slices.Clone(p.Overdue)}
	for i, trial := range p.Trials {
		own := &about.Trials[i]
		*own = Trial{Finish: p.Start, InFlight: trial.InFlight, Pools: slices.Clone(trial.Pools), Drains: trial.Drains, Diagnostics: slices.Clone(trial.Diagnostics)}
		k := slices.IndexFunc(trial.Goals, func(g Progress) bool { return g.Goal == goal })
		if k < 0 {
			own.CutOff = trial.CutOff
			continue
		}
		g := trial.Goals[k]
		g.Reasons = slices.Clone(g.Reasons)
		own.Goals = []Progress{g}
		if g.Got > 0 {
			own.Finish = g.Finish
		}
		if own.Done = g.Got > 0 && g.Left <= left; !own.Done {
			own.Left, own.Hanging, own.CutOff = slices.Clone(g.Reasons), g.Hanging, trial.CutOff
		}
	}
	return about
}

// goals returns what every trial had to do, in the order of the first trial that had it to do.
func (p Prediction) goals() []Goal {
	var goals []Goal
	known := map[Goal]bool{}
	for _, trial := range p.Trials {
		for _, g := range trial.Goals {
			if !known[g.Goal] && (g.Left > 0 || g.Finish.After(p.Start)) {
				known[g.Goal] = true
				goals = append(goals, g.Goal)
			}
		}
	}
	return goals
}

// outlook describes a goal on one line: when all targets have it, or all but those that are left in
// every trial.
func (p Prediction) outlook(goal Goal) string {
	targets, got, least := 0, 0, -1
	for _, trial := range p.Trials {
		for _, g := range trial.Goals {
			if g.Goal != goal {
				continue
			}
			targets, got = max(targets, g.Got+g.Left), max(got, g.Got)
			if least < 0 || g.Left < least {
				least = g.Left
			}
		}
	}
	text := textlist.Counted(targets, "target")
	switch {
	case got == 0:
		text = "none of " + text
	case least > 0:
		text = fmt.Sprintf("all but %d of %s", least, text)
	}
	if about := p.About(goal, max(0, least)); got > 0 {
		text += fmt.Sprintf(", median %s, 90 %% %s", about.when(0.5), about.when(0.9))
	}
	all := p.About(goal, 0)
	if halted := all.halted(); halted > 0 {
		text += fmt.Sprintf("; not all in %s%s", textlist.Counted(halted, "trial"), all.why())
	}
	return fmt.Sprintf("%s: %s", goal, text)
}

// pair is what a goal is about on each target.
type pair struct{ deployment, environment string }

func pairOf(t rollout.TargetID) pair { return pair{t.Deployment, t.Environment} }

// progress returns how far the world came with everything that a target runs or awaits at the end, or
// had to do since the start, ordered by environment, deployment and version.
func (r *worldRun) progress() []Progress {
	gone := deletedIn(&r.fleet)
	waits := map[rollout.TargetID]rollout.Waiting{}
	for w := range r.plan.Waiting.All() {
		waits[w.TargetID] = w
	}
	byPair := r.goals(waits)
	for i := range r.fleet.Targets {
		if t := &r.fleet.Targets[i]; !gone[t.Resource] {
			w, waiting := waits[t.TargetID]
			r.count(t, &w, waiting, byPair[pairOf(t.TargetID)])
		}
	}
	var list []Progress
	for _, own := range byPair {
		for _, g := range own {
			if g.Got+g.Left > 0 {
				slices.Sort(g.Reasons)
				g.Reasons = slices.Compact(g.Reasons)
				list = append(list, *g)
			}
		}
	}
	r.sortProgress(list)
	return list
}

// goals returns every goal that a target has had since the start, by what it is about on each target
// and by version, without anything counted yet.
func (r *worldRun) goals(waits map[rollout.TargetID]rollout.Waiting) map[pair]map[string]*Progress {
	byPair := map[pair]map[string]*Progress{} // by version
	for i := range r.fleet.Targets {
		t := &r.fleet.Targets[i]
		own := byPair[pairOf(t.TargetID)]
		if own == nil {
			own = map[string]*Progress{}
			byPair[pairOf(t.TargetID)] = own
		}
		add := func(version string) {
			if version != "" && own[version] == nil {
				own[version] = &Progress{Goal: Goal{t.Deployment, t.Environment, version}}
			}
		}
		add(current(t))
		add(waits[t.TargetID].Version)
		for k := range t.Jobs {
			if job := &t.Jobs[k]; !job.Status.Terminal() || !r.endOf(t, job).Before(r.Start) {
				add(job.Version)
			}
		}
	}
	return byPair
}

func (r *worldRun) sortProgress(list []Progress) {
	created := map[[2]string]time.Time{}
	for _, v := range r.fleet.Versions {
		created[[2]string{v.Deployment, v.ID}] = v.CreatedAt
	}
	slices.SortFunc(list, func(a, b Progress) int {
		x, y := a.Goal, b.Goal
		return cmp.Or(strings.Compare(x.Environment, y.Environment), strings.Compare(x.Deployment, y.Deployment),
			created[[2]string{x.Deployment, x.Version}].Compare(created[[2]string{y.Deployment, y.Version}]), strings.Compare(x.Version, y.Version))
	})
}

// count adds what became of each version on one target.
func (r *worldRun) count(t *rollout.Target, w *rollout.Waiting, waiting bool, goals map[string]*Progress) {
	left := map[string]bool{}
	for k := range t.Jobs {
		if job := &t.Jobs[k]; unfinished(job) {
			if g := goals[job.Version]; g != nil {
				left[job.Version], g.Hanging = true, true
			}
		}
	}
	if waiting {
		for version, reasons := range r.awaited(t, w, goals) {
			left[version] = true
			goals[version].Reasons = append(goals[version].Reasons, reasons...)
		}
	}
	for version, g := range goals {
		if left[version] {
			g.Left++
		} else if at, ok := r.got(t, version); ok {
			g.Got++
			if at.After(g.Finish) {
				g.Finish = at
			}
		}
	}
}

// awaited returns for which of these versions a target waits, with the reasons that time alone does
// not open. A plan lists only the newest version that waits, and explains the others.
func (r *worldRun) awaited(t *rollout.Target, w *rollout.Waiting, goals map[string]*Progress) map[string][]rollout.Reason {
	awaited := map[string][]rollout.Reason{}
	switch {
	case goals[w.Version] != nil:
		awaited[w.Version] = lasting(w.Blockers)
	case w.Version == "": // it is held, so whatever it does not run is still to come
		for version := range goals {
			if version != current(t) {
				awaited[version] = lasting(w.Blockers)
			}
		}
	}
	e, err := r.plan.Explain(t.TargetID)
	if err != nil {
		return awaited // a plan that does not explain itself tells of one version alone
	}
	for k := range e.Versions {
		v := &e.Versions[k]
		if _, known := awaited[v.Version]; known || goals[v.Version] == nil || v.Prospect != rollout.ProspectWaits {
			continue
		}
		awaited[v.Version] = lasting(verdicts(v.Blockers()))
	}
	return awaited
}

// got returns when a target got a version that it does not wait for, if it did: the start, if it
// had it before. A version that was taken back is not one that it got, unless a newer one followed
// it first.
func (r *worldRun) got(t *rollout.Target, version string) (at time.Time, ok bool) {
	jobs := slices.SortedFunc(slices.Values(t.Jobs), func(a, b rollout.Job) int { return compareJobs(&a, &b) })
	var next *rollout.Job // what succeeded after the last success of the version
	for k := range jobs {
		job := &jobs[k]
		switch {
		case job.Status != rollout.JobSuccessful:
		case job.Version != version:
			if next == nil {
				next = job
			}
		default:
			if end := r.endOf(t, job); end.After(at) { // the checks of an earlier job may last longer
				at = end
			}
			next = nil
		}
	}
	had := at.Before(r.Start) // or never
	if had {
		at = r.Start
	}
	if current(t) == version {
		return at, true
	}
	return at, !had && (next == nil || r.startOf(t.TargetID, next).Purpose != rollout.PurposeRollback)
}

// endOf returns when a job of a target ended, or its verification, or when a change ended it.
func (r *worldRun) endOf(t *rollout.Target, job *rollout.Job) time.Time {
	at := completed(job)
	if over := r.endedAt[keyOf(t.TargetID, job)]; over.After(at) {
		return over
	}
	return at
}
