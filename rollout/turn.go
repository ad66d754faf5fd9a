package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// due returns when the latest group may start on each pending resource: when every gradual rollout
// that governs a member to run has reached the resource, and zero while something else keeps one of
// the members from running. So nothing is drained to wait.
func (w *work) due(b *bracketWork, p bracket.PendingGroup) []time.Time {
	schedule := w.schedule(b, p.Group)
	b.group, b.needs = p.Group, w.needsIn(b, p.Group)
	unseen := w.unseen(p.Group)
	instants := make([]time.Time, len(p.Resources))
	b.pending = make([]pendingResource, len(p.Resources))
	b.runs = make([]pendingRun, 0, len(b.targets))
	walk := walk{work: w, bracket: b}
	next := 0 // in b.targets
	var runs []bracket.PendingRun
	var offsets []pendingRun // runs by numbers, with each target as its index among those of the resource
	for n, id := range p.Resources {
		resource := w.targets[b.targets[next]].resource
		for w.resources[resource].ID < id {
			next++
			resource = w.targets[b.targets[next]].resource
		}
		from := next
		for next < len(b.targets) && w.targets[b.targets[next]].resource == resource {
			next++
		}
		own := b.targets[from:next]
		if list := p.Runs(n); len(runs) != len(list) || &runs[0] != &list[0] {
			runs, offsets = list, w.offsets(own, list, offsets[:0])
		}
		pending := &b.pending[n]
		pending.resource, pending.from = resource, int32(len(b.runs))
		for _, run := range offsets {
			b.runs = append(b.runs, pendingRun{own[run.target], run.version})
		}
		pending.to = int32(len(b.runs))
		if len(unseen) > 0 {
			for _, i := range own {
				if verdict, lacks := w.lacks(i, unseen[w.targets[i].deployment], b.runs[pending.from:]); lacks {
					pending.blockers = w.appendVerdict(pending.blockers, verdict)
				}
			}
		}
		pending.blockers = w.resourceBlockers(pending.blockers, resource, b)
		held, open := len(pending.blockers) > 0, walk.open(id) // held whoever runs
		instants[n] = schedule.dueOn(pending, open)
		if len(pending.blockers) > 0 && pending.due.IsZero() && !held {
			pending.due = schedule.dueWithout(pending, open)
		}
	}
	return instants
}

// offsets appends what a bracket would run on a resource, with each target as its index in own.
func (w *work) offsets(own []int32, runs []bracket.PendingRun, into []pendingRun) []pendingRun {
	for _, run := range runs {
		// A bracket runs only members that have a target.
		at, _ := slices.BinarySearchFunc(own, run.Deployment, func(i int32, id string) int { return strings.Compare(w.targets[i].Deployment, id) })
		into = append(into, pendingRun{int32(at), w.versions[w.targets[own[at]].deployment].number(run.Version)})
	}
	return into
}

// dueOn returns when the runs on one pending resource are due, or zero if something other than time
// keeps them from it. It notes what holds them in pending. open is the execution that is open on the
// resource, or nil.
func (s *schedule) dueOn(pending *pendingResource, open *bracket.Execution) time.Time {
	w, b := s.w, s.bracket
	runs := b.runsOn(pending)
	merges := s.group.Rule.OverlapStrategy == bracket.Merge
	brings := w.merged(b, s.group, open, runs)
	due := s.group.ReadyAt
	var at time.Time
	var position, founders int32
	var never []Verdict
	view := int32(none)
	for _, run := range runs {
		if view != w.view[run.target] || !s.alike {
			view = w.view[run.target]
			at, position, founders, never = s.turn(run)
		}
		for _, verdict := range never {
			pending.blockers = w.appendDistinct(pending.blockers, verdict)
		}
		due = later(due, at)
		pending.position, pending.founders = max(pending.position, position), max(pending.founders, founders)
		for _, rule := range w.views.list[view].cooldowns {
			if w.overriddenAt(rule.id, run.target, run.version) != nil {
				continue
			}
			if verdict, waits := w.cooldown(rule, run.target, run.version); waits {
				pending.timed = w.appendDistinct(pending.timed, verdict)
				due = later(due, verdict.Until)
			}
		}
		if merges && w.served(open, run) {
			continue
		}
		if t := &w.targets[run.target]; t.current == missing || t.busy || w.frozenAt(run.target) || !s.isUnopposed(run.target) {
			pending.blockers = w.obstacles(b, pending.blockers, run.target, run.version, brings, false)
		}
	}
	if w.windowed {
		due = w.opening(runs, due, pending)
	}
	if len(pending.blockers) > 0 {
		if until, _ := opener(pending.blockers); !until.IsZero() {
			pending.due = w.openFrom(runs, later(due, until))
		}
		return time.Time{}
	}
	return due
}

// dueWithout returns when the runs on a pending resource that only events let start do so without
// some of them: versions that by then have succeeded too long ago elsewhere, which an execution
// leaves out. It is zero if there is no such instant.
func (s *schedule) dueWithout(pending *pendingResource, open *bracket.Execution) time.Time {
	w, b := s.w, s.bracket
	if len(w.set.progressions) == 0 {
		return time.Time{}
	}
	runs := b.runsOn(pending)
	var ends []time.Time
	for _, run := range runs {
		if end := w.tooOldAt(run); !end.IsZero() {
			ends = append(ends, end)
		}
	}
	slices.SortFunc(ends, time.Time.Compare)
	for _, end := range slices.CompactFunc(ends, time.Time.Equal) {
		rest := pendingResource{resource: pending.resource, from: int32(len(b.runs))}
		for _, run := range runs {
			if own := w.tooOldAt(run); own.IsZero() || own.After(end) {
				b.runs = append(b.runs, run)
			}
		}
		rest.to = int32(len(b.runs))
		due := s.dueOn(&rest, open)
		if b.runs = b.runs[:rest.from]; !due.IsZero() {
			return later(due, end)
		}
	}
	return time.Time{}
}

// tooOldAt returns when the version of a run will have succeeded too long ago elsewhere, or zero.
func (w *work) tooOldAt(run pendingRun) (at time.Time) {
	t := &w.targets[run.target]
	if run.version <= t.current {
		return at
	}
	for _, rule := range w.viewOf(run.target).progressions {
		if rule.progression.MaximumAgeHours == nil || w.overriddenAt(rule.id, run.target, run.version) != nil {
			continue
		}
		var until time.Time // one environment is enough
		for _, s := range w.sourcesOf(rule, t.deployment) {
			if s.matches && s.environment != t.environment {
				until = later(until, w.askEnvironment(s.environment, rule, t.deployment, run.version).until)
			}
		}
		at = sooner(at, until)
	}
	return at
}

// served reports whether a run of a group that is merged into an open execution is one that is in
// progress there: nothing starts for it, so nothing that forbids a start is in the way.
func (w *work) served(open *bracket.Execution, run pendingRun) bool {
	if !w.comes(open, run) {
		return false
	}
	t := &w.targets[run.target]
	m := memberIn(open, t.Deployment)
	return m.Purpose != bracket.Rollback && m.RunVersion == "" && !m.StartedAt.Before(t.OutdatedAt)
}

// merged returns the runs of a group with the versions that its members have afterwards if the
// group is merged into the open execution on the resource, if there is one: what a pre member has
// brought there is kept, and not brought again. A member whose version needs more than that would
// wait on a drained resource for what only the next group brings.
func (w *work) merged(b *bracketWork, group *bracket.Group, open *bracket.Execution, runs []pendingRun) []pendingRun {
	if group.Rule.OverlapStrategy != bracket.Merge || open == nil || open.Environment != w.environments[b.environment].ID {
		return runs
	}
	copied := false
	for k, run := range runs {
		t := &w.targets[run.target]
		if m := memberIn(open, t.Deployment); run.version == t.current || m == nil || m.Role != bracket.Pre {
			continue
		}
		if !copied {
			runs, copied, b.keeps = slices.Clone(runs), true, true
		}
		runs[k].version = t.current
	}
	return runs
}

// needsIn lists which members each member of a group needs before it starts, by numbers of
// deployments.
func (w *work) needsIn(b *bracketWork, group *bracket.Group) memberTable[[]memberNeed] {
	needs := tableOf(w, b, []memberNeed(nil))
	for k := range group.Members {
		m := &group.Members[k]
		d, known := w.deployment(m.Deployment)
		own := needs.at(d)
		if !known || own == nil {
			continue
		}
		for _, id := range m.Needs {
			if need, known := w.deployment(id); known {
				*own = append(*own, memberNeed{deployment: need})
			}
		}
		for _, only := range m.NeedsIf {
			if need, known := w.deployment(only.Deployment); known {
				*own = append(*own, memberNeed{need, append([]string{}, only.Versions...)})
			}
		}
	}
	return needs
}

// unseen finds the members of which the snapshot lacks a locked version. An execution that began
// now would leave them out for good, and a deleted version cannot be told from one that this host
// has not read yet.
func (w *work) unseen(group *bracket.Group) map[int32]*bracket.GroupMember {
	members := map[int32]*bracket.GroupMember{}
	for k := range group.Members {
		m := &group.Members[k]
		if d, known := w.deployment(m.Deployment); known && slices.ContainsFunc(m.Locks, func(v bracket.VersionMark) bool { return w.versions[d].number(v.ID) == missing }) {
			members[d] = m
		}
	}
	return members
}

// lacks says which locked version of an unseen member might be the one for a target: the first that
// the snapshot lacks, unless the target runs, or is about to run, a newer one. m is nil for other
// members.
func (w *work) lacks(i int32, m *bracket.GroupMember, runs []pendingRun) (Verdict, bool) {
	if m == nil {
		return Verdict{}, false
	}
	t := &w.targets[i]
	chosen := t.current
	for _, run := range runs {
		if run.target == i {
			chosen = run.version // never older than what the target runs
		}
	}
	number := w.versions[t.deployment].number
	k := slices.IndexFunc(m.Locks, func(v bracket.VersionMark) bool { return number(v.ID) == missing || number(v.ID) <= chosen })
	lock := m.Locks[k].ID // one lock is missing, so k is found
	if number(lock) != missing {
		return Verdict{}, false
	}
	return Verdict{
		Status: Denied, Reason: ReasonVersionUnknown, On: []Condition{{Kind: OnVersion, Deployment: m.Deployment}}, Data: &Data{Detail: lock},
	}, true
}
