package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// reportBrackets turns what the brackets decided into starts that ask for capacity and into waits,
// one per release target. All starts are known before any wait is reported, because two brackets
// may report on one target.
func (w *work) reportBrackets() {
	reported := make([]reportedTargets, len(w.stepped))
	for k, b := range w.stepped {
		reported[k] = newReportedTargets(b.targets)
		w.reportEvents(b)
		w.reportStarts(b, reported[k])
		w.reportUndispatched(b, reported[k])
	}
	for k, b := range w.stepped {
		w.reportWaits(b, firstMember+blockerList(k), reported[k])
		w.reportRemaining(b, reported[k])
	}
}

func (w *work) reportEvents(b *bracketWork) {
	for _, e := range b.plan.Events {
		w.reportEvent(ruleIn{b.id, w.environments[b.environment].ID}, e)
	}
	for _, s := range b.plan.Stuck {
		w.plan.Stuck = append(w.plan.Stuck, Stuck{Resource: s.Run.Resource, Group: s.Run.Group, Run: s.Run.String(), Since: s.Since})
	}
}

// reportEvent adds an event of a bracket to the plan.
func (w *work) reportEvent(in ruleIn, e bracket.Event) {
	w.plan.Events = append(w.plan.Events, Event{
		Kind: e.Kind, Rule: in.rule, Environment: in.environment, Group: e.Group, Resource: e.Resource, At: e.At, Status: e.Status, Into: e.Into,
	})
}

// reportedTargets marks the targets of a bracket that have been reported on. They are of one
// environment, and so close together.
type reportedTargets struct {
	first int32
	done  []bool // from first on
}

func newReportedTargets(targets []int32) reportedTargets {
	if len(targets) == 0 {
		return reportedTargets{}
	}
	first, last := targets[0], targets[len(targets)-1]
	return reportedTargets{first, make([]bool, last-first+1)}
}

func (s *reportedTargets) add(i int32) { s.done[i-s.first] = true }

func (s *reportedTargets) has(i int32) bool { return s.done[i-s.first] }

func (w *work) reportStarts(b *bracketWork, reported reportedTargets) {
	members := make([]memberStart, len(b.plan.Start))
	walk := walk{work: w, bracket: b}
	next := 0 // in b.pending
	for k := range b.plan.Start {
		start, m := &b.plan.Start[k], &members[k]
		m.start = start
		if start.First {
			for w.resources[b.pending[next].resource].ID != start.Run.Resource {
				next++
			}
			m.bracket, m.pending = b, &b.pending[next]
		}
		i := walk.find(start.Run.Resource, start.Run.Deployment)
		if i == none {
			continue
		}
		version := w.number(i, start.Version)
		c := newCandidate(i, version, start.DueAt, 0)
		c.member = m
		if p := m.pending; p != nil {
			c.position = p.position
			for _, run := range b.runsOn(p) {
				reported.add(run.target)
			}
		}
		reported.add(i)
		if !start.First {
			if blockers := w.obstacles(b, nil, i, version, nil, start.Run.Purpose == bracket.Rollback); len(blockers) > 0 {
				w.wait(i, start.Version, blockers)
				continue
			}
			b.starts(i, start.Version)
		} else if len(w.afterOthers(b, m.pending, i, version)) > 0 {
			continue // reported by follow if another member of the execution starts; one does, or this one would
		}
		w.candidates.push(c)
	}
}

// reportUndispatched offers again the runs that were saved as started and have no job, because the
// host stopped in between. The run id is the same, so a job that is merely not visible yet is not
// created twice.
func (w *work) reportUndispatched(b *bracketWork, reported reportedTargets) {
	walk := walk{work: w, bracket: b}
	members := make([]memberStart, len(b.plan.Redispatch))
	for k := range b.plan.Redispatch {
		start := &b.plan.Redispatch[k]
		i := walk.find(start.Run.Resource, start.Run.Deployment)
		if i == none {
			continue // the target is gone, so nothing can run the job
		}
		reported.add(i)
		blockers := w.freezeBlockers(nil, i, true)
		if t := &w.targets[i]; t.busy {
			blockers = w.appendVerdict(blockers, busy(t))
		}
		if len(blockers) > 0 {
			w.wait(i, start.Version, blockers)
			continue
		}
		b.starts(i, start.Version)
		members[k].start = start
		c := newCandidate(i, w.number(i, start.Version), start.DueAt, 0)
		c.member = &members[k]
		w.candidates.push(c)
	}
}

// running reports whether a job of this version is active on the target.
func (t *target) running(version string) bool {
	return t.busy && slices.ContainsFunc(t.Jobs, func(job Job) bool { return job.Version == version && !job.Status.Terminal() })
}

// starts notes that a run of the open execution may start.
func (b *bracketWork) starts(target int32, version string) {
	put(&b.started, target, version)
}

// startsOrRuns reports whether the open execution starts, or runs, the version that the next group
// has for a target. Hooks have the same version in every group: a hook that is at work does not
// wait.
func (w *work) startsOrRuns(b *bracketWork, run pendingRun) bool {
	if version, starts := b.started[run.target]; starts && w.number(run.target, version) == run.version {
		return true
	}
	return run.version >= 0 && w.targets[run.target].running(w.version(run.target, run.version).ID)
}

// reportWaits lists what waits in a bracket; members stands for what its members wait for that wait
// for others.
func (w *work) reportWaits(b *bracketWork, members blockerList, reported reportedTargets) {
	w.blockers = slices.Grow(w.blockers, len(b.pending))
	walk := walk{work: w, bracket: b}
	next := 0 // in b.pending
	for wait := range b.plan.Waits() {
		switch {
		case wait.Resource == "":
			// The group collects: reportRemaining says so for each target that has a new version.
		case wait.Deployment != "":
			i := walk.find(wait.Resource, wait.Deployment)
			if i == none || reported.has(i) {
				continue
			}
			reported.add(i)
			version := awaitedVersion(memberIn(walk.open(wait.Resource), wait.Deployment))
			if n := w.number(i, version); wait.Reason == bracket.ReasonWaitsForMembers && n >= 0 {
				w.waitFor(i, n, members)
			} else {
				w.wait(i, version, w.appendVerdict(nil, w.verdict(b, wait.Resource, verdictOfWait(wait), nil)))
			}
		default:
			for w.resources[b.pending[next].resource].ID != wait.Resource {
				next++
			}
			p := &b.pending[next]
			listed := w.list(w.pendingBlockers(b, p, verdictOfWait(wait)))
			var open *bracket.Execution // the one whose end the resource waits for
			if wait.Reason == bracket.ReasonQueued || wait.Reason == bracket.ReasonMergeBudget {
				open = walk.open(wait.Resource)
			}
			for _, run := range b.runsOn(p) {
				if w.startsOrRuns(b, run) || w.comes(open, run) {
					continue
				}
				reported.add(run.target)
				w.waitFor(run.target, run.version, listed)
			}
		}
	}
}

// verdictOfWait returns a wait as a verdict.
func verdictOfWait(wait bracket.Wait) bracket.Verdict {
	return bracket.Verdict{Reason: wait.Reason, Until: wait.Until, On: wait.On()}
}

// pendingBlockers returns what the bracket says of a pending resource, and then all that keeps its
// runs back.
func (w *work) pendingBlockers(b *bracketWork, p *pendingResource, said bracket.Verdict) []Verdict {
	own := w.verdict(b, w.resources[p.resource].ID, said, p)
	if said.Reason == bracket.ReasonNotDue {
		if until, on := p.opener(); len(on) > 0 || !until.IsZero() {
			own.Until, own.On = until, on
		}
	}
	blockers := w.appendVerdict(nil, own)
	for _, verdict := range slices.Concat(p.timed, p.blockers) {
		blockers = w.appendVerdict(blockers, verdict)
	}
	// They were collected per member, those of windows first; the bracket's own verdict stays in
	// front.
	slices.SortStableFunc(blockers[1:], func(a, b Verdict) int { return placeInChain(w.kindOf(a)) - placeInChain(w.kindOf(b)) })
	return blockers
}

// comes reports whether the open execution on the resource of a run, if there is one, brings the
// same version itself, once the run of its member that is in progress has ended. What that execution
// waits for is then the better answer; of a member that waits it has been given already.
func (w *work) comes(open *bracket.Execution, run pendingRun) bool {
	if open == nil || run.version < 0 {
		return false
	}
	t := &w.targets[run.target]
	m := memberIn(open, t.Deployment)
	return m != nil && open.Environment == t.Environment && m.Status == bracket.MemberRunning && awaitedVersion(m) == w.version(run.target, run.version).ID
}

// awaitedVersion returns the version that a member of an open execution waits to run. For a member
// on its way back it is the one that the member came from, and for a member that is back the one
// that was taken back.
func awaitedVersion(m *bracket.ExecutionMember) string {
	if m.Purpose != bracket.Rollback || m.Status == bracket.MemberRolledBack {
		return m.Version
	}
	return m.From
}
