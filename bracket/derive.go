package bracket

import (
	"slices"
	"time"
)

// derive lists what may start, what waits and what is stuck, in the order of resources.
func (s *step) derive() {
	v := s.view
	v.works = s.works
	v.onVersions = make([]Condition, len(v.members))
	for i, m := range v.members {
		v.onVersions[i] = Condition{Kind: OnVersion, Deployment: m.Deployment}
	}
	v.onConfig = []Condition{{Kind: OnConfig, Rule: v.id}}
	s.reserve()
	s.wakeLocks()
	if c := s.state.Group.Collecting; c != nil {
		v.collecting = c.ID
		s.wait(-1, -1, waitCollecting)
	}
	next := 0 // of the open executions
	records := s.state.Executions
	for i, at := range v.pending {
		resource := v.resources[at]
		var open *work
		for ; next < len(s.works) && s.works[next].name <= resource; next++ {
			if s.deriveOpen(next); s.works[next].resource == at {
				open = &s.works[next]
			}
		}
		for len(records) > 0 && records[0].Resource < resource {
			records = records[1:]
		}
		if len(records) > 0 && records[0].Resource == resource {
			record := records[0]
			if record.Open != nil {
				if !record.Open.includes(v.environment, v.latest.ID) {
					s.deriveQueued(i, open)
				}
				continue
			}
		}
		s.derivePending(i)
	}
	for ; next < len(s.works); next++ {
		s.deriveOpen(next)
	}
}

// wait notes that something waits, see waitEntry.
func (s *step) wait(at, member int, kind waitKind) {
	s.view.waits = append(s.view.waits, waitEntry{int32(at), int32(member), kind})
}

// wakeLocks makes the plan wake when a version that the latest group locked becomes eligible again.
func (s *step) wakeLocks() {
	if !s.counted {
		return // the latest group starts nothing any more
	}
	v := s.view
	for i := range v.latest.members {
		d := &v.deployments[v.latest.members[i].deployment]
		for _, l := range v.latest.Members[i].Locks {
			if r := d.rankOf(l.ID); r >= 0 && d.versions[r].at.After(v.latest.ReadyAt) { // else it counts as eligible, even for a clock that is behind: see viewGroup
				s.wake(d.versions[r].at)
			}
		}
	}
}

// reserve allocates the lists of the plan at their expected lengths, so that long lists are not
// copied while they grow.
func (s *step) reserve() {
	v := s.view
	starts, waits := 0, 1+s.idle
	for i := range v.pending {
		if due := v.dueAt(i); due.IsZero() || due.After(v.now) {
			waits++
		} else {
			starts++
		}
	}
	s.plan.Start = make([]Start, 0, starts)
	v.waits = make([]waitEntry, 0, waits)
}

// deriveQueued lists the group as waiting for another execution on the i-th pending resource. open is
// that execution if it belongs to this environment, else nil.
func (s *step) deriveQueued(i int, open *work) {
	v := s.view
	kind, due := waitQueued, v.dueAt(i)
	if open != nil {
		if v.overlap(open, due, v.now) == exhausts {
			kind = waitMergeBudget
		}
		if due.After(v.now) && v.overlap(open, due, due) != queues { // else nothing is different then
			s.wake(due)
		}
	}
	s.wait(i, -1, kind)
}

// derivePending lists the first runs of the group on the i-th pending resource, or why there are
// none.
func (s *step) derivePending(i int) {
	v, g := s.view, s.view.latest
	due := v.dueAt(i)
	if due.IsZero() || due.After(v.now) {
		s.wake(due)
		s.wait(i, -1, waitNotDue)
		return
	}
	targets := v.span(v.pending[i])
	if g.idleHook(v, targets) != nil {
		s.wait(i, -1, waitHookWithoutVersion)
		return
	}
	for _, k := range g.order {
		t := g.targetOf(targets, k)
		if t == nil {
			continue
		}
		action, version := g.plan(v, t)
		if action == ActionSkip || !g.startsFirst(v, k, targets) {
			continue
		}
		s.plan.Start = append(s.plan.Start, Start{
			Run:     Run{Group: g.ID, Resource: v.resources[v.pending[i]], Deployment: v.deploymentOf(t), Generation: 1, Attempt: 1, Purpose: Deploy},
			Version: version, Role: g.Members[k].Role, First: true, DueAt: due,
		})
	}
}

// deriveOpen lists the next runs of the i-th open execution, and that its other members wait.
func (s *step) deriveOpen(i int) {
	w := &s.works[i]
	if w.ended {
		return
	}
	v := s.view
	s.level = w.levels(s.level)
	level, order := s.level, s.order[:0]
	for k := range w.Members {
		order = append(order, k)
	}
	slices.SortStableFunc(order, func(a, b int) int { return level[a] - level[b] })
	s.order = order
	h, waits := w.halted(), len(v.waits)
	for _, k := range order {
		m := &w.Members[k]
		if m.running() {
			s.deriveRunning(w, m)
		}
		if m.Status != MemberWaiting && m.Status != MemberFailed {
			continue
		}
		reason, blockers := w.verdict(k, h, level, v.now, s.blockers[:0])
		s.blockers = blockers
		switch reason {
		case ReasonRun:
			s.plan.Start = append(s.plan.Start, w.next(m))
		case ReasonFailedHolding:
			s.wait(i, k, waitFailedHolding)
		case ReasonHookWithoutVersion:
			s.wait(i, k, waitHookWithoutVersion)
		default:
			s.wake(m.RetryAt)
			s.wait(i, k, waitForMembers)
		}
	}
	if h != holding || len(v.waits) > waits {
		return
	}
	for _, k := range order { // no member waits: the execution stays open until an operator decides about the members that were rolled back
		if w.Members[k].Status == MemberRolledBack {
			s.wait(i, k, waitFailedHolding)
		}
	}
}

// deriveRunning lists a run in progress that must be dispatched again, and one that is stuck.
func (s *step) deriveRunning(w *work, m *ExecutionMember) {
	if !w.observed(m) {
		s.plan.Redispatch = append(s.plan.Redispatch, w.next(m))
	}
	stuck := w.rule.stuckAfter()
	if stuck <= 0 {
		return
	}
	if since := m.StartedAt.Add(stuck); since.After(s.view.now) {
		s.wake(since)
	} else {
		s.plan.Stuck = append(s.plan.Stuck, Stuck{Run: w.runOf(w.name, m), Reason: ReasonStuck, StartedAt: m.StartedAt, Since: since})
	}
}

// next returns the member's last run, or its next one while it waits.
func (w *work) next(m *ExecutionMember) Start {
	return Start{Run: w.runOf(w.name, m), Version: m.version(), Role: m.Role, DueAt: w.StartedAt}
}

// observed reports whether the observation lists the member's run in progress.
func (w *work) observed(m *ExecutionMember) bool {
	run := w.runOf(w.name, m)
	return slices.ContainsFunc(w.facts, func(f RunFact) bool { return f.Run == run })
}

// onOperator is the condition of a command to the execution.
func (w *work) onOperator() Condition {
	return Condition{Kind: OnOperator, Group: w.Group, Resource: w.name}
}

func (w *work) onMember(i int) Condition {
	return Condition{Kind: OnMember, Group: w.Group, Resource: w.name, Deployment: w.Members[i].Deployment}
}

// levels returns the topological level of each member of the execution, reusing the memory of
// scratch.
func (x *Execution) levels(scratch []int) []int {
	level := slices.Grow(scratch[:0], len(x.Members))[:len(x.Members)]
	levels(level, func(k int) []string { return x.Members[k].Needs }, x.member)
	return level
}

// verdict decides about the next run of the k-th member, which waits or has failed: it may run,
// waits for members, is held by a failure, or is a hook without a version. The members that it
// waits for are appended to scratch. level are the levels of the members, or nil.
func (w *work) verdict(k int, h halt, level []int, now time.Time, scratch []int) (Reason, []int) {
	m := &w.Members[k]
	blockers, free := w.blockers(k, h, level, scratch)
	switch {
	case h == holding, len(blockers) == 0 && (!free || m.Status == MemberFailed):
		return ReasonFailedHolding, blockers
	case len(blockers) > 0 || m.RetryAt.After(now):
		return ReasonWaitsForMembers, blockers
	case m.version() == "": // adopted from the run of another member, after the only version of the hook had disappeared
		return ReasonHookWithoutVersion, blockers
	}
	return ReasonRun, blockers
}
