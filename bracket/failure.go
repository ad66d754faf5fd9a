package bracket

import (
	"slices"
	"time"
)

// settle ends the execution if it is done, and reacts to failed members as onMemberFailure says.
// Runs in progress finish first. A reaction takes no slot; only the end of the execution frees one.
func (s *step) settle(w *work) {
	failed, running, unfinished := false, false, false
	for k := range w.Members {
		m := &w.Members[k]
		failed = failed || m.Status == MemberFailed
		running = running || m.running()
		unfinished = unfinished || !m.satisfied() && m.Status != MemberRolledBack
	}
	if failed && !running && !w.holds() && w.react() {
		s.followTargets(w) // a member whose target is gone is not rolled back
		s.settle(w)
		return
	}
	status := StatusExecuting
	if failed || w.Recovery != "" && w.broken() {
		status = StatusFailed
	}
	if w.Status != status {
		w.change()
		w.Status = status
	}
	switch {
	case running:
	case w.Recovery == "" || w.rule.OnMemberFailure == RollbackMember:
		// a rolled back member holds the execution open, unless post members may run on a mixed set
		if !unfinished && (!w.broken() || w.rule.AllowMixedPost) {
			final := StatusCompleted
			if w.broken() {
				final = StatusFailed
			}
			s.finish(w, final)
		}
	case w.recovered() && w.postsDone():
		s.finish(w, StatusFailed)
	}
}

func (s *step) finish(w *work, status Status) {
	w.change()
	s.end(w, status, w.lastEnd(), false)
}

// broken reports whether the execution has left the forward path as a whole, or, under
// RollbackMember, a member has and was not skipped since.
func (w *work) broken() bool {
	if w.Recovery != "" && w.rule.OnMemberFailure != RollbackMember {
		return true
	}
	return w.any(func(m *ExecutionMember) bool { return m.Purpose == Rollback })
}

// holds reports whether only an operator, a merge or the deletion of the resource can help: under
// hold, and wherever going on without an operator could make things worse.
func (w *work) holds() bool {
	rule := w.rule
	for k := range w.Members {
		m := &w.Members[k]
		if m.Status != MemberFailed {
			if rule.OnMemberFailure == RollbackMember && m.Status == MemberRolledBack && !rule.AllowMixedPost {
				return true
			}
			continue
		}
		switch {
		case !rule.reacts(), m.Role == Post, m.Purpose == Rollback:
			return true // a rollback is never rolled back
		case rule.OnMemberFailure == RollbackMember && (m.Role == Pre || m.From == ""):
			return true
		}
	}
	if rule.OnMemberFailure != RollbackAll || w.Recovery != "" || !w.hasFailed() {
		return false
	}
	return w.any(func(m *ExecutionMember) bool { return m.Role == Main && m.Touched && m.From == "" })
}

func (w *work) hasFailed() bool {
	return w.any(func(m *ExecutionMember) bool { return m.Status == MemberFailed })
}

// react begins the reaction to a failure and reports whether it changed anything. It is called
// while no run is in progress and the execution does not hold.
func (w *work) react() bool {
	rule := w.rule
	if w.Recovery != "" && rule.OnMemberFailure != RollbackMember {
		return false // begun before
	}
	w.change()
	switch rule.OnMemberFailure {
	case RunPost:
		w.Recovery = RecoveryPost
		w.cancelWaiting()
	case RollbackAll:
		w.Recovery = RecoveryRollback
		w.cancelWaiting()
		for k := range w.Members {
			if m := &w.Members[k]; m.Role == Main && m.Touched {
				m.returnToFrom()
			}
		}
	case RollbackMember:
		w.Recovery = RecoveryRollback
		for k := range w.Members {
			if m := &w.Members[k]; m.Status == MemberFailed {
				m.returnToFrom()
				if rule.AllowMixedPost {
					w.cancelDependants(m.Deployment)
				}
			}
		}
	}
	return true
}

// returnToFrom makes the member wait for the rollback to the version it had before the execution.
func (m *ExecutionMember) returnToFrom() {
	m.Purpose = Rollback
	m.wait()
	m.Attempt = 1
}

// cancelWaiting cancels every pre and main that waits. The caller rolls back mains that ran before.
func (w *work) cancelWaiting() {
	for k := range w.Members {
		if m := &w.Members[k]; m.Status == MemberWaiting && m.Role != Post {
			m.Status = MemberCancelled
		}
	}
}

// cancelDependants cancels the waiting mains that need a member, directly or through others.
func (w *work) cancelDependants(deployment string) {
	for k := range w.Members {
		if m := &w.Members[k]; m.Role == Main && m.Status == MemberWaiting && m.Purpose != Rollback && slices.Contains(m.Needs, deployment) {
			m.Status = MemberCancelled
			w.cancelDependants(m.Deployment)
		}
	}
}

// recovered reports whether every rollback is over, so that the post members may run.
func (w *work) recovered() bool {
	return !w.any(func(m *ExecutionMember) bool { return m.returning() })
}

// returning reports whether the member is on its way back to the version it had before the
// execution. A member that is cancelled or skipped on its way back loses its Purpose.
func (m *ExecutionMember) returning() bool {
	return m.Purpose == Rollback && m.Status != MemberRolledBack
}

func (w *work) postsDone() bool {
	return !w.any(func(m *ExecutionMember) bool { return m.Role == Post && !m.satisfied() })
}

// halt says whether forward runs of the execution may start.
type halt int

const (
	goesOn     halt = iota
	recovering      // only the reaction to a failure starts runs; waits end without an operator
	holding         // nothing starts without an operator or a merge
)

func (w *work) halted() halt {
	switch {
	case w.holds():
		return holding
	case w.hasFailed(), w.Recovery != "" && w.rule.OnMemberFailure != RollbackMember:
		return recovering
	case !w.rule.AllowMixedPost && w.broken():
		return recovering
	}
	return goesOn
}

// blockers appends the members that must end before the next run of the k-th member, which waits,
// each once. free is false if the halt of the execution stops that run even then. This function
// keeps I3.
func (w *work) blockers(k int, h halt, level []int, into []int) (_ []int, free bool) {
	m := &w.Members[k]
	older := func(i int) bool { return w.Members[i].running() && w.Members[i].Generation != 0 && i != k }
	if w.Generation > 1 { // in the first generation there is none
		for i := range w.Members {
			if older(i) {
				into = append(into, i) // no run of an older generation may be in progress
			}
		}
	}
	add := func(i int) {
		if !older(i) { // else it is there already
			into = append(into, i)
		}
	}
	if h == holding {
		return into, false
	}
	mixed := w.rule.OnMemberFailure == RollbackMember
	switch {
	case m.Purpose == Rollback:
		if !mixed { // level by level, the highest first
			if level == nil { // nothing else asks for it, and most executions never roll back
				level = w.levels(nil)
			}
			for i := range w.Members {
				if w.Members[i].returning() && level[i] > level[k] {
					add(i)
				}
			}
		}
		return into, true
	case h == recovering && (m.Role != Post || w.Recovery == "" || mixed):
		// halted until the reaction begins, or for good: runs in progress and rollbacks end before
		// an operator has to decide
		for i := range w.Members {
			if w.Members[i].running() || mixed && w.Members[i].returning() {
				add(i)
			}
		}
		return into, false
	case h == recovering: // a post member after a failure needs the other post members only
		for i := range w.Members {
			o := &w.Members[i]
			if o.returning() || o.Role == Post && !o.satisfied() && slices.Contains(m.Needs, o.Deployment) {
				add(i)
			}
		}
		return into, true
	}
	for _, need := range m.Needs {
		if i := w.member(need); i >= 0 && !w.Members[i].satisfied() && !(mixed && m.Role == Post && w.Members[i].Status == MemberRolledBack) {
			add(i)
		}
	}
	return into, true
}

// haltOf returns what can end the halt of an execution: always an operator. A reaction that
// completes without an operator ends the execution, and with it the halt. Under merge a newer group
// may take over the failed members: one that closes later, or the one that is queued here already,
// once it is due. deriveQueued makes the plan wake at that instant.
func (v *view) haltOf(w *work, h halt, now time.Time) (until time.Time, on []Condition) {
	command := w.onOperator()
	switch {
	case h == recovering && w.rule.OnMemberFailure != RollbackMember:
		return until, []Condition{command, {Kind: OnExecutionEnd, Rule: v.id, Resource: w.name}}
	case !w.absorbs():
		return until, []Condition{command}
	}
	on = []Condition{command, {Kind: OnGroupClose, Rule: v.id, Environment: v.environment}}
	if i, pending := slices.BinarySearch(v.pending, w.resource); pending && v.overlap(w, now, now) == merges {
		switch due := v.dueAt(i); {
		case due.IsZero():
			on = append(on, v.onConfig...)
		case due.After(now):
			until = due
		}
	}
	return until, on
}

// absorbs reports whether a newer group can still be merged into the execution while it is halted.
// A merge gives another version to failed mains only.
func (w *work) absorbs() bool {
	if w.rule.OverlapStrategy != Merge || w.Recovery != "" || len(w.Merged) >= w.rule.maxMerges() {
		return false
	}
	return !w.any(func(m *ExecutionMember) bool {
		return m.Role != Main && m.Status == MemberFailed || m.Role == Post && !m.StartedAt.IsZero()
	})
}
