package bracket

import (
	"slices"
	"time"
)

// derive lists what may start, what waits and what is stuck, in the order of resources.
func (s *step) derive() {
	v := s.view
	v.onVersions = make([]Condition, len(v.members))
	for i, m := range v.members {
		v.onVersions[i] = Condition{Kind: OnVersion, Deployment: m.Deployment}
	}
	v.onConfig = []Condition{{Kind: OnConfig, Rule: v.id}}
	s.reserve()
	s.wakeLocks()
	if c := s.state.Group.Collecting; c != nil {
		s.plan.Wait = append(s.plan.Wait, Wait{Group: c.ID, Reason: ReasonCollecting, Until: v.closes, On: v.onVersions})
	}
	works := s.works
	records := s.state.Executions
	for i, at := range v.pending {
		resource := v.resources[at]
		var open *work
		for len(works) > 0 && s.state.Executions[works[0].record].Resource <= resource {
			if s.deriveOpen(&works[0]); works[0].resource == at && !works[0].ended {
				open = &works[0]
			}
			works = works[1:]
		}
		for len(records) > 0 && records[0].Resource < resource {
			records = records[1:]
		}
		if len(records) > 0 && records[0].Resource == resource {
			record := records[0]
			if record.Open != nil {
				if !record.Open.includes(v.environment, v.latest.ID) {
					s.deriveQueued(v.dueAt(i), resource, open)
				}
				continue
			}
		}
		s.derivePending(at, v.dueAt(i), resource)
	}
	for i := range works {
		s.deriveOpen(&works[i])
	}
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
	s.plan.Wait = make([]Wait, 0, waits)
}

// deriveQueued lists the group as waiting for another execution on the resource.
func (s *step) deriveQueued(due time.Time, resource string, open *work) {
	v := s.view
	reason := ReasonQueued
	if open != nil {
		if v.overlap(open, due, v.now) == exhausts {
			reason = ReasonMergeBudget
		}
		if due.After(v.now) && v.overlap(open, due, due) != queues { // else nothing is different then
			s.wake(due)
		}
	}
	s.plan.Wait = append(s.plan.Wait, Wait{Group: v.latest.ID, Resource: resource, Reason: reason,
		On: s.on(Condition{Kind: OnExecutionEnd, Rule: v.id, Resource: resource})})
}

// derivePending lists the first runs of the group on a resource, or why there are none.
func (s *step) derivePending(at int32, due time.Time, resource string) {
	v, g := s.view, s.view.latest
	wait := Wait{Group: g.ID, Resource: resource}
	if due.IsZero() || due.After(v.now) {
		wait.Reason, wait.Until = ReasonNotDue, due
		if due.IsZero() {
			wait.On = v.onConfig
		} else {
			s.wake(due)
		}
		s.plan.Wait = append(s.plan.Wait, wait)
		return
	}
	targets := v.span(at)
	if hook := g.idleHook(v, targets); hook != nil {
		wait.Reason = ReasonHookWithoutVersion
		wait.On = g.onHook(v, hook, s.list)
		s.plan.Wait = append(s.plan.Wait, wait)
		return
	}
	for _, i := range g.order {
		t := g.targetOf(targets, i)
		if t == nil {
			continue
		}
		action, version := g.plan(v, t)
		if action == ActionSkip || !g.startsFirst(v, i, targets) {
			continue
		}
		s.plan.Start = append(s.plan.Start, Start{
			Run:     Run{Group: g.ID, Resource: resource, Deployment: v.deploymentOf(t), Generation: 1, Attempt: 1, Purpose: Deploy},
			Version: version, Role: g.Members[i].Role, First: true, DueAt: due,
		})
	}
}

// deriveOpen lists the next runs of an open execution, and why its waiting members do not start.
func (s *step) deriveOpen(w *work) {
	if w.ended {
		return
	}
	v := s.view
	resource := s.state.Executions[w.record].Resource
	s.level = w.levels(s.level)
	level, order := s.level, s.order[:0]
	for k := range w.Members {
		order = append(order, k)
	}
	slices.SortStableFunc(order, func(a, b int) int { return level[a] - level[b] })
	s.order = order
	h, waits := w.halted(), len(s.plan.Wait)
	for _, k := range order {
		m := &w.Members[k]
		if m.running() {
			s.deriveRunning(w, resource, m)
		}
		if m.Status != MemberWaiting && m.Status != MemberFailed {
			continue
		}
		verdict, blockers := w.verdict(k, h, level, v.now, s.blockers[:0])
		s.blockers = blockers
		wait := Wait{Group: w.Group, Resource: resource, Deployment: m.Deployment, Reason: verdict}
		switch verdict {
		case ReasonRun:
			s.plan.Start = append(s.plan.Start, w.next(resource, m))
			continue
		case ReasonFailedHolding:
			wait.Until, wait.On = v.haltOf(w, h, resource, v.now)
		case ReasonHookWithoutVersion:
			wait.On = s.on(w.onOperator(resource))
		case ReasonWaitsForMembers:
			if m.RetryAt.After(v.now) {
				wait.Until = m.RetryAt
				s.wake(m.RetryAt)
			}
			if len(blockers) > 0 {
				wait.On = s.list(len(blockers))
				for i, at := range blockers {
					wait.On[i] = w.onMember(at, resource)
				}
			}
		}
		s.plan.Wait = append(s.plan.Wait, wait)
	}
	if h != holding || len(s.plan.Wait) > waits {
		return
	}
	for _, k := range order { // no member waits: the execution stays open until an operator decides about the members that were rolled back
		if m := &w.Members[k]; m.Status == MemberRolledBack {
			s.plan.Wait = append(s.plan.Wait, Wait{Group: w.Group, Resource: resource, Deployment: m.Deployment, Reason: ReasonFailedHolding, On: s.on(w.onOperator(resource))})
		}
	}
}

// deriveRunning lists a run in progress that must be dispatched again, and one that is stuck.
func (s *step) deriveRunning(w *work, resource string, m *ExecutionMember) {
	if !w.observed(resource, m) {
		s.plan.Redispatch = append(s.plan.Redispatch, w.next(resource, m))
	}
	stuck := w.rule.stuckAfter()
	if stuck <= 0 {
		return
	}
	if since := m.StartedAt.Add(stuck); since.After(s.view.now) {
		s.wake(since)
	} else {
		s.plan.Stuck = append(s.plan.Stuck, Stuck{Run: w.runOf(resource, m), Reason: ReasonStuck, StartedAt: m.StartedAt, Since: since})
	}
}

// next returns the member's last run, or its next one while it waits.
func (x *Execution) next(resource string, m *ExecutionMember) Start {
	return Start{Run: x.runOf(resource, m), Version: m.version(), Role: m.Role, DueAt: x.StartedAt}
}

// observed reports whether the observation lists the member's run in progress.
func (w *work) observed(resource string, m *ExecutionMember) bool {
	run := w.runOf(resource, m)
	return slices.ContainsFunc(w.facts, func(f RunFact) bool { return f.Run == run })
}

// onOperator is the condition of a command to the execution.
func (x *Execution) onOperator(resource string) Condition {
	return Condition{Kind: OnOperator, Group: x.Group, Resource: resource}
}

func (x *Execution) onMember(i int, resource string) Condition {
	return Condition{Kind: OnMember, Group: x.Group, Resource: resource, Deployment: x.Members[i].Deployment}
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
// waits for are appended to scratch.
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

// on returns a list of one condition.
func (s *step) on(c Condition) []Condition {
	list := s.list(1)
	list[0] = c
	return list
}

// list returns a slice for n conditions, cut from an array that many lists share: one allocation
// serves hundreds of lists.
func (s *step) list(n int) []Condition {
	if len(s.conditions) < n {
		s.conditions = make([]Condition, max(n, min(256, cap(s.plan.Wait))))
	}
	list := s.conditions[:n:n]
	s.conditions = s.conditions[n:]
	return list
}
