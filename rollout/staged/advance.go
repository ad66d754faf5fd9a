package staged

// decide finds the phase of the run before anything is started, so that no step that fails a run
// starts a target.
func (e *edit) decide() {
	r := e.run
	o := &e.plan.options
	over, rejected := r.overBudget(), r.rejected()
	switch {
	case e.cancelled:
		e.halt(PhaseCancelling)
	case r.phase == PhaseFailing:
	case r.desired == StateStop:
		r.phase = PhaseStopping
	case r.desired == StateInitialize: // and so is the phase, as Compile set it
	case o.fails(over, rejected):
		e.halt(PhaseFailing)
	case over || rejected:
		r.phase = PhaseHeld
	default:
		r.phase = PhaseProgressing
	}
}

// fails reports whether what is wrong with a run fails it, or only holds it.
func (o *Options) fails(over, rejected bool) bool {
	return over && o.OnFailure != Hold || rejected && o.OnReject != Hold
}

func (e *edit) halt(phase Phase) {
	if e.run.phase != phase {
		e.run.phase, e.run.since = phase, e.now
	}
}

func (r *Run) overBudget() bool {
	failures, allowed := r.budget()
	return r.all.over > 0 || failures > allowed
}

// budget returns how many members of the run are failed or timed out, and how many may be. The
// cleanup has a budget of its own.
func (r *Run) budget() (failures, allowed int) {
	if r.plan.budget.IsZero() {
		return 0, 0
	}
	cleanup := r.stage(r.count() - 1)
	return r.all.failures() - cleanup.failures(), r.plan.share(r.plan.budget, r.all.members()-cleanup.members())
}

// rejected looks at the current stage only: no stage closes with a rejected approval.
func (r *Run) rejected() bool {
	s := r.stage(r.current)
	return s.before.state == ApprovalRejected || s.after.state == ApprovalRejected
}

// advance takes the stages as far as they can go.
func (e *edit) advance() {
	r := e.run
	for r.current < r.count() {
		if !e.advanceStage(r.current) {
			if s := r.stage(r.current); s.phase != StageUpdating || s.standsIdle() {
				r.phase = PhaseWaiting
			}
			return
		}
	}
	r.phase = PhaseSucceeded
	if r.all.unhappy() > 0 {
		r.phase = PhasePartiallySucceeded
	}
}

// advanceStage takes the current stage as far as it can go, and reports whether it is finished.
func (e *edit) advanceStage(k int) bool {
	p, s := &e.plan.stages[k], e.run.stage(k)
	if s.phase == StagePending {
		if s.dropped() == s.tree.size {
			e.enter(k, StageSkipped)
			e.run.current++
			return true
		}
		if p.before && !nothingToRemove(p, s) {
			s = e.enter(k, StageWaitingBefore)
			s.before.request(e.now)
			e.event(Event{Kind: EventApproval, Stage: k, Side: Before, To: string(ApprovalRequested)})
		} else {
			s = e.enter(k, StageUpdating)
			e.note(s)
		}
	}
	if s.phase == StageWaitingBefore {
		if s.before.state != ApprovalApproved {
			if !nothingToRemove(p, s) {
				return false
			}
			s = e.stage(k)
			s.before = approval{state: ApprovalNone} // it was requested, and is no longer needed; nobody has decided
			e.event(Event{Kind: EventApproval, Stage: k, Side: Before, To: string(ApprovalNone)})
		}
		s = e.enter(k, StageUpdating)
		e.note(s)
	}
	if s.phase == StageUpdating {
		if s = e.start(k); s.unsettled() > 0 {
			return false
		}
		s = e.enter(k, StageWaitingAfter)
		if p.waits {
			e.event(Event{Kind: EventWait, Stage: k, To: "running"})
			e.elapseWait() // under way since the last member was settled, maybe during a stop
		}
		if p.after && s.after.state == ApprovalNone {
			s.after.request(e.now)
			e.event(Event{Kind: EventApproval, Stage: k, Side: After, To: string(ApprovalRequested)})
		}
	}
	if !e.run.closes(k) {
		return false
	}
	e.enter(k, StageSucceeded)
	e.run.current++
	return true
}

// nothingToRemove reports whether the stage is the cleanup and has nothing left to remove. It then
// needs no approval: the targets are gone by themselves.
func nothingToRemove(p *stagePlan, s *stage) bool { return p.cleanup && s.unsettled() == 0 }

// closes reports whether everything that a stage in WaitingAfter waits for is done.
func (r *Run) closes(k int) bool {
	p, s := &r.plan.stages[k], r.stage(k)
	return (!p.waits || s.elapsed) && (!p.after || s.after.state == ApprovalApproved) && !r.blocked(k)
}

// stands reports whether the current stage waits for an input or an instant, as every step leaves
// that of a run that is progressing or waiting.
func (r *Run) stands() bool {
	k := r.current
	p, s := &r.plan.stages[k], r.stage(k)
	switch s.phase {
	case StageWaitingBefore:
		return s.before.state != ApprovalApproved && !nothingToRemove(p, s)
	case StageUpdating:
		full := s.first() < 0 || s.inProgress() >= r.plan.limitOf(k, s)
		return s.unsettled() > 0 && full && s.tree.find(isCurrent) < 0
	}
	return !r.closes(k)
}

// blocked reports whether a regressed target keeps a stage from closing. Options under which none
// does mark none, see checkMembers.
func (r *Run) blocked(k int) bool {
	if r.plan.options.VerifyDone == Always {
		return r.all.regressed > 0
	}
	p := &r.plan.stages[k]
	return (p.waits || p.after) && r.stage(k).regressed > 0
}

// start finishes the members that need no start, be they suspended or not, and fills free slots,
// retried members first. It is a sliding window. Suspended members are not among those that are
// looked at, however many there are.
func (e *edit) start(k int) *stage {
	s := e.run.stage(k)
	for {
		i := s.tree.find(isCurrent)
		if i < 0 {
			break
		}
		rec, _ := s.tree.at(i)
		e.settleTarget(k, i, *rec, Done, noCause)
		s = e.run.stage(k)
	}
	limit := e.plan.limitOf(k, s)
	for s.inProgress() < limit {
		i := s.first()
		if i < 0 {
			break
		}
		rec, _ := s.tree.at(i)
		r := *rec
		r.state, r.start, r.marks = Starting, e.now, started
		e.put(k, i, r)
		s = e.run.stage(k)
	}
	return s
}

// first returns the member to start if a slot of the stage is free, or -1. A member that is suspended
// is passed over, and so is one whose group is full.
func (s *stage) first() int {
	if s.groups != nil {
		return s.groups.first()
	}
	return s.turn()
}

// turn returns the member whose turn it is, whether its group is full or not, or -1.
func (s *stage) turn() int {
	if i := s.tree.find(isRetried); i >= 0 {
		return i
	}
	return s.tree.find(isWaiting)
}

// settling reports whether a run that was halted waits for targets in progress.
func (r *Run) settling(now int64) bool {
	return r.stage(r.current).moving() > 0 && now < after(r.since, r.plan.grace)
}

// settle ends a phase that only waits for targets in progress.
func (e *edit) settle() {
	r := e.run
	if !r.phase.ending() || r.settling(e.now) {
		return
	}
	switch r.phase {
	case PhaseStopping:
		r.phase = PhaseStopped
	case PhaseCancelling:
		r.phase = PhaseCancelled
	default:
		r.phase = PhaseFailed
		e.enter(r.current, StageFailed)
	}
}
