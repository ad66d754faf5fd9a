package staged

// shownNames is how many names a verdict lists.
const shownNames = 10

// Explain says why a target is not settled. It returns false if the target is settled or unknown.
// It looks only at what it explains, not at the whole fleet.
func (r *Run) Explain(target string) (Verdict, bool) {
	at, ok := r.find(target)
	if !ok {
		return Verdict{}, false
	}
	k, i := int(at.stage), int(at.member)
	rec, name := r.stage(k).tree.at(i)
	if rec.state.Settled() {
		return Verdict{}, false
	}
	v := Verdict{Status: Pending, Data: &Data{Position: i, Stage: k}}
	if rec.state.inProgress() && !r.phase.Terminal() {
		v.Reason = ReasonInProgress
		v.Data.Since, v.Data.Stuck, v.Data.Detail = timeOf(rec.start), rec.marks.has(stuck), rec.state.String()
		v.until(r.plan.stages[k].timing.instants(rec).free)
		v.On = append(v.On, Condition{Kind: OnObservation, Stage: k, Target: name})
		return v, true
	}
	switch {
	case r.halted(&v):
	case rec.marks.has(suspended):
		v.suspension(k, 1, r.stage(k).suspendedBy(i), name)
	case k == r.current && r.stage(k).groups != nil && r.stage(k).groups.of(i).full():
		g := r.stage(k).groups.of(i)
		v.group(r.stage(k), g)
		v.until(g.line.lead.free)
		v.On = append(v.On, Condition{Kind: OnGroup, Stage: k, Name: g.value})
	default:
		if r.waits(&v); k != r.current {
			v.Data.Behind, v.Reason = v.Reason, ReasonStage
		}
	}
	return v, true
}

// Waits says what the run waits for: what its current stage waits for, or what keeps that stage
// from going on. If the run is stopping, failing or cancelling, On also has the event that can end
// that, and Until is the next instant at which a target in progress changes by itself, if only from
// soaking to done, or at which the grace is over. Waits returns false only for the zero Run.
func (r *Run) Waits() (Verdict, bool) {
	if r.plan == nil {
		return Verdict{}, false
	}
	v := Verdict{Status: Pending, Data: &Data{Stage: r.current}}
	if !r.halted(&v) {
		r.waits(&v)
	}
	if r.phase.ending() { // the phase has not ended, so a target is in progress
		v.until(min(after(r.since, r.plan.grace), r.stage(r.current).tree.root.first.due))
		v.On = append(v.On, Condition{Kind: OnSlot, Stage: r.current})
	}
	return v, true
}

func (v *Verdict) until(instant int64) {
	if instant < endless {
		v.Until = timeOf(instant)
	}
}

// halted fills in why no stage goes on, and reports whether that is so.
func (r *Run) halted(v *Verdict) bool {
	operator := func(can string) {
		v.On = append(v.On, Condition{Kind: OnOperator, Stage: r.current, Detail: can})
	}
	switch r.phase {
	case PhaseCancelling:
		v.Reason, v.Data.Decision = ReasonCancelling, r.cancelled.copied()
	case PhaseFailing:
		v.Reason = ReasonFailing
		r.faulted(v)
	case PhaseInitialized:
		v.Reason = ReasonInitialized
		if r.desired == StateInitialize {
			operator("set state Run")
		} else {
			v.Data.Detail = "the first step is still to come"
		}
	case PhaseStopping, PhaseStopped, PhaseHeld:
		v.Reason = ReasonHeld
		r.faulted(v)
		if r.rejected() {
			operator("approve or cancel")
		}
		switch {
		case !r.overBudget():
		case r.canRetry(v.Data.Stage):
			operator("skip, retry or cancel")
		default: // their stage is closed, or they are leaving
			operator("skip or cancel")
		}
		if r.phase != PhaseHeld { // what would hold or fail it is undone before
			v.Reason = ReasonStopped
			operator("set state Run")
		}
	default:
		if !r.phase.Terminal() {
			return false
		}
		if v.Reason = ReasonEnded; r.phase == PhaseFailed {
			r.faulted(v)
		} else if r.phase == PhaseCancelled {
			v.Data.Decision = r.cancelled.copied()
		}
	}
	return true
}

// canRetry reports whether a retry would be accepted for a member that counts against an exceeded
// budget: that of the stage over or, if no stage is over its own, that of the run.
func (r *Run) canRetry(over int) bool {
	from, to := over, over+1
	if r.all.over == 0 {
		from, to = r.current, r.count()-1 // without what is closed, and without the cleanup
	}
	for _, s := range r.having((*tally).retries, from, to) {
		if !s.phase.finished() {
			return true
		}
	}
	return false
}

// faulted fills in the exceeded budget and the failed targets, or the rejected approval.
func (r *Run) faulted(v *Verdict) {
	switch d := v.Data; {
	case r.all.over > 0:
		for _, part := range [][2]int{{r.current, r.count()}, {0, r.current}} { // an earlier stage only after a regression
			for k, s := range r.having((*tally).exceeded, part[0], part[1]) {
				d.Detail, d.Stage, d.Total, d.Allowed = "budget", k, s.failures(), r.plan.share(r.plan.stages[k].budget, s.tree.size)
				v.names(s, isFailed)
				return
			}
		}
	case r.overBudget():
		d.Detail = "budget"
		d.Total, d.Allowed = r.budget()
		for _, s := range r.having((*tally).failures, 0, r.count()-1) {
			if v.names(s, isFailed) {
				break
			}
		}
	case r.rejected():
		side, s := After, r.stage(r.current)
		d.Decision = s.after.by.copied()
		if s.before.state == ApprovalRejected {
			side, d.Decision = Before, s.before.by.copied()
		}
		d.Detail, d.Total = "rejected", 1
		d.Names = append(d.Names, ApprovalName(r.plan.spec.Name, side, r.plan.stages[r.current].name))
	}
}

// names adds the members of a class until shownNames names are listed, and reports whether they
// are.
func (v *Verdict) names(s *stage, c class) (full bool) {
	s.tree.each(c, func(_ int, _ *record, name string) bool {
		if len(v.Data.Names) < shownNames {
			v.Data.Names = append(v.Data.Names, name)
		}
		return len(v.Data.Names) < shownNames
	})
	return len(v.Data.Names) == shownNames
}

// suspension fills in who is suspended, and what ends that. Of one target it says who did that; by
// is that of the first.
func (v *Verdict) suspension(k, total int, by *Decision, names ...string) {
	v.Reason, v.Data.Names, v.Data.Total = ReasonSuspended, names, total
	if total == 1 {
		v.Data.Decision = by.copied()
	}
	v.On = append(v.On, Condition{Kind: OnOperator, Stage: k, Detail: "resume or skip"})
}

// group fills in who holds the slots of a group.
func (v *Verdict) group(s *stage, g *group) {
	v.Reason = ReasonGroup
	v.Data.Detail, v.Data.Allowed, v.Data.Total = g.value, g.limit, g.inProgress
	g.line.root.busy(func(i int32) bool {
		_, name := s.tree.at(int(i))
		v.Data.Names = append(v.Data.Names, name)
		return len(v.Data.Names) < shownNames
	})
}

// waits fills in what the current stage waits for: the first reason, and all events.
func (r *Run) waits(v *Verdict) {
	k := r.current
	s, p := r.stage(k), &r.plan.stages[k]
	v.Data.Stage = k
	reason := func(code Reason) {
		if v.Reason == "" {
			v.Reason = code
		}
	}
	approval := func(side Side) {
		reason(ReasonApproval)
		v.On = append(v.On, Condition{Kind: OnApproval, Stage: k, Name: ApprovalName(r.plan.spec.Name, side, p.name)})
	}
	switch s.phase {
	case StageWaitingBefore:
		approval(Before)
	case StageUpdating:
		if s.standsIdle() {
			v.names(s, isSuspended)
			v.suspension(k, int(s.suspended), s.suspendedBy(s.tree.find(isSuspended)), v.Data.Names...)
			return
		}
		v.Data.Allowed, v.Data.Total = r.plan.limitOf(k, s), s.inProgress()
		if i := s.turn(); s.groups != nil && i >= 0 && v.Data.Total < v.Data.Allowed {
			v.group(s, s.groups.of(i))
		} else {
			reason(ReasonSlot)
			v.names(s, isActive)
		}
		v.until(s.tree.root.first.free)
		v.On = append(v.On, Condition{Kind: OnSlot, Stage: k})
	case StageWaitingAfter:
		if p.after && s.after.state != ApprovalApproved {
			approval(After)
		}
		if p.waits && !s.elapsed {
			reason(ReasonWait)
			v.until(s.waitUntil(p))
		}
		if r.blocked(k) {
			reason(ReasonRegression)
			r.regressions(v, k)
		}
	}
}

// regressions fills in which regressed targets keep stage k from being closed: the first of them, and
// how many there are.
func (r *Run) regressions(v *Verdict, k int) {
	first, all := k, &r.stage(k).tally
	if r.plan.options.VerifyDone == Always {
		first, all = 0, &r.all
	}
	v.Data.Total = all.regressions()
	v.On = append(v.On, Condition{Kind: OnOperator, Stage: k, Detail: "skip"})
	for j, s := range r.having((*tally).regressions, first, k+1) {
		before := len(v.Data.Names)
		full := v.names(s, isRegressed)
		for _, name := range v.Data.Names[before:] {
			if at, _ := r.find(name); int(at.stage) != j && !r.stillHome(int(at.stage), int(at.member)) {
				continue // what is observed now is another target
			}
			v.On = append(v.On, Condition{Kind: OnObservation, Stage: j, Target: name})
		}
		if full {
			break
		}
	}
}
