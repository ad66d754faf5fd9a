package bracket

import (
	"slices"
	"strings"
	"time"
)

// overlap says whether the latest closed group can be merged into an open execution now.
type overlap int

const (
	queues   overlap = iota // it waits for the end of the execution
	exhausts                // only maxMerges prevents the merge
	merges
)

// overlap decides whether the latest group, which is due at due, can be merged into an open
// execution of the environment that has not taken it over yet.
func (v *view) overlap(w *work, due, now time.Time) overlap {
	if due.IsZero() || due.After(now) {
		return queues
	}
	for k := range w.Members {
		if v.delays(w, k) {
			return queues
		}
	}
	return v.fit(w)
}

// delays reports whether the k-th member of an execution keeps it from taking the latest group over
// at the moment: a pre that has not ended, and a failed member to which the group brings nothing else.
func (v *view) delays(w *work, k int) bool {
	m := &w.Members[k]
	if m.Role == Pre {
		return m.Status != MemberSucceeded && m.Status != MemberSkipped
	}
	if m.Status != MemberFailed {
		return false
	}
	t := v.latest.targetNamed(v, v.span(w.resource), m.Deployment)
	return t == nil || !v.latest.changes(v, t, m)
}

// endOfQueue returns what ends the wait of the latest group behind an execution on a resource: its
// end or, before that, the instant at which the group is due, or members, because it is then merged
// into the execution. The work is that execution if the group may be merged into it, else nil. What
// keeps the group from being due is not listed.
func (v *view) endOfQueue(w *work, resource string, due time.Time) (until time.Time, on []Condition) {
	on = []Condition{{Kind: OnExecutionEnd, Rule: v.id, Resource: resource}}
	if w == nil || v.fit(w) != merges {
		return until, on
	}
	for k := range w.Members {
		if v.delays(w, k) {
			on = append(on, w.onMember(k))
		}
	}
	if len(on) == 1 {
		until = after(due, v.now)
	}
	return until, on
}

// fit is overlap for a group that is due, without what members delay.
func (v *view) fit(w *work) overlap {
	b := v.latest
	if w.rule.OverlapStrategy != Merge || b.Rule.OverlapStrategy != Merge || w.Recovery != "" {
		return queues
	}
	targets := v.span(w.resource)
	different := false
	for k := range w.Members {
		m := &w.Members[k]
		switch {
		case m.Role == Post && !m.StartedAt.IsZero():
			return queues // I13
		case m.Role == Main && (m.running() || m.Status == MemberSucceeded):
			if t := b.targetNamed(v, targets, m.Deployment); t != nil && v.deployments[t.deployment].rankOf(m.Version) < 0 {
				if l, locked := b.lockFor(v, t); locked && l.id != m.Version {
					return queues // the member's version is not listed, perhaps because the host has not read it yet: the group's lock may be older
				}
			}
		}
	}
	for k := range targets {
		t := &targets[k]
		i := b.memberOf(t)
		if i < 0 {
			continue
		}
		action, version := b.plan(v, t)
		a := w.member(v.deploymentOf(t))
		switch {
		case a < 0 && action == ActionRun && version == "":
			return queues // a hook that cannot run
		case a < 0:
			different = different || action == ActionDeploy
		case w.Members[a].Role != b.Members[i].Role:
			return queues // the phases of the two groups do not fit together
		default:
			different = different || b.changes(v, t, &w.Members[a])
		}
	}
	switch {
	case !different:
		return queues
	case len(w.Merged) >= w.rule.maxMerges():
		return exhausts
	}
	return merges
}

// changes reports whether a merge of the group gives a main another target version than the
// execution has for it, or a new run of the same one. A missing lock changes nothing, and neither
// does a version older than what the target runs or is about to run.
func (g *groupView) changes(v *view, t *target, m *ExecutionMember) bool {
	l, locked := g.lockFor(v, t)
	switch {
	case m.Role != Main || !locked || t.rank() > l.rank:
		return false
	case m.Version == l.id:
		// the same version, but a run that began before the target became outdated does not count
		return g.outdates(v, t) && m.Status != MemberWaiting && m.StartedAt.Before(v.outdatedAt(t))
	case m.running() || m.Status == MemberSucceeded:
		return v.deployments[t.deployment].rankOf(m.Version) < l.rank
	}
	return true
}

// merge makes the open execution take over the latest group, in one atomic change. The execution
// keeps its identity and its lease.
func (s *step) merge(w *work) {
	v, b := s.view, s.view.latest
	w.change()
	before := w.Generation
	w.Merged = append(w.Merged, b.ID)
	targets := v.span(w.resource)

	kept := w.Members[:0]
	for _, m := range w.Members {
		t := b.targetNamed(v, targets, m.Deployment)
		if t == nil && m.Role == Main && m.Status == MemberWaiting {
			continue // the newer group does not have it, and it has not started in this generation
		}
		if m.Status != MemberWaiting && m.Generation == 0 && !m.StartedAt.IsZero() {
			m.Generation = before
		}
		switch {
		case t != nil && b.changes(v, t, &m):
			b.renew(v, t, &m)
		case m.Status == MemberWaiting:
			m.Attempt = 1
			if t != nil && m.Role == Post {
				if _, version := b.plan(v, t); version != "" { // the newer group's version of the hook, if it has one
					m.Version = version
				}
			}
		}
		kept = append(kept, m)
	}
	w.Members = kept
	for k := range targets {
		t := &targets[k]
		if b.memberOf(t) < 0 || w.member(v.deploymentOf(t)) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(w.Members, v.deploymentOf(t), func(m ExecutionMember, d string) int { return strings.Compare(m.Deployment, d) })
		w.Members = slices.Insert(w.Members, at, b.freezeMember(v, t))
	}
	for k := range w.Members {
		w.Members[k].Needs = w.mergedNeeds(b, &w.Members[k])
	}
	for w.Generation++; w.taken(); w.Generation++ {
	}
	s.event(Event{Kind: GroupMerged, Group: b.ID, Resource: v.resources[w.resource], At: utc(v.now), Status: StatusSuperseded, Into: w.Group})
}

// taken reports whether a run of the execution's generation deploys another version than its member
// has now. The run is then of another merge, which the state has forgotten: if the member took it
// for its own, the version that the member has would never run.
func (w *work) taken() bool {
	return slices.ContainsFunc(w.facts, func(f RunFact) bool {
		if f.Run.Generation != w.Generation || f.Run.Purpose != Deploy || f.Version == "" {
			return false
		}
		k := w.member(f.Run.Deployment)
		return k >= 0 && w.Members[k].Version != f.Version
	})
}

// renew gives a main that the merge changes the version that the group has locked for it. A run
// that is under way ends first: RunVersion keeps what it deploys.
func (g *groupView) renew(v *view, t *target, m *ExecutionMember) {
	l, _ := g.lockFor(v, t)
	if m.running() {
		if m.RunVersion == "" {
			m.RunVersion = m.Version
		}
		m.Version, m.Action = l.id, ActionDeploy
		return
	}
	m.Status, m.Generation, m.Attempt, m.RetryAt = MemberWaiting, 0, 1, time.Time{}
	m.Version, m.Action = l.id, ActionDeploy
	if !m.Touched { // as the newer group would have frozen it
		if m.Action, _ = g.plan(v, t); m.Action == ActionSkip {
			m.Status, m.Attempt = MemberSkipped, 0
		}
	}
}

// mergedNeeds returns the needs of a member after a merge: those of the newer group if it has the
// member, else those that the member had, plus those of the roles. No cycle arises, because the
// newer group's needs never point to members that only the execution had.
func (w *work) mergedNeeds(b *groupView, m *ExecutionMember) []string {
	needs := b.needsIn(w.Execution, m.Deployment)
	if _, member := slices.BinarySearchFunc(b.Members, m.Deployment, byDeployment); !member {
		needs = slices.DeleteFunc(slices.Clone(m.Needs), func(d string) bool { return w.member(d) < 0 })
	}
	for k := range w.Members {
		if o := &w.Members[k]; roleOrder(o.Role) < roleOrder(m.Role) {
			needs = append(needs, o.Deployment)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}
