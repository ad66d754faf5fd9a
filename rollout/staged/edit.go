package staged

// edit is a step in progress, which writes the next value of a run.
type edit struct {
	run       *Run
	plan      *plan
	owner     *owner
	now       int64
	events    []Event
	decision  *Decision // of the command that is being carried out, if it says
	cancelled bool      // by this step or an earlier one
	shared    bool      // the list of stages still belongs to the previous value
}

func newEdit(run *Run, now int64, input *Input) *edit {
	next := *run
	e := &edit{run: &next, plan: run.plan, owner: &owner{}, now: now, cancelled: run.phase == PhaseCancelling, shared: true}
	if next.begun {
		e.now = max(now, next.time)
	} else {
		next.first = notedAt(e.now)
		if next.desired == StateStop {
			next.since = e.now
		}
	}
	next.begun, next.time = true, e.now
	if n := len(input.Observations) + len(input.Commands); n > 0 {
		e.events = make([]Event, 0, 2*n+2)
	}
	return e
}

// changed compares the run with the previous value. A stage is written only to change it. What is
// not in the stages follows from them, or is compared here.
func (e *edit) changed(was *Run) bool {
	return !e.shared || !was.begun || e.run.desired != was.desired || e.run.phase != was.phase
}

func (e *edit) event(event Event) {
	event.Decision = e.decision.copied()
	e.events = append(e.events, event)
}

// stage returns a stage to write.
func (e *edit) stage(k int) *stage {
	if e.shared {
		e.run.stages = append(make([]*chunk, 0, len(e.run.stages)), e.run.stages...)
		e.shared = false
	}
	c := e.run.stages[k/chunkSize]
	if c.owner != e.owner {
		c = &chunk{owner: e.owner, tally: c.tally, stages: append(make([]*stage, 0, len(c.stages)), c.stages...)}
		e.run.stages[k/chunkSize] = c
	}
	s := c.stages[k%chunkSize]
	if s.owner != e.owner {
		copied := *s
		copied.owner = e.owner
		s = &copied
		c.stages[k%chunkSize] = s
	}
	return s
}

// put replaces the record of a target, and updates every number that follows from the records.
func (e *edit) put(k, i int, is record) {
	s, p := e.stage(k), &e.plan.stages[k]
	was, name := s.tree.at(i)
	from := *was
	s.tree.set(i, is, e.owner, &p.timing)
	if s.groups != nil {
		s.groups = s.groups.put(i, &is, &p.timing, e.owner)
	}
	for _, t := range e.tallies(k) {
		t.count(&from, -1)
		t.count(&is, 1)
	}
	if failed(from.state) != failed(is.state) {
		e.updateOver(k)
	}
	if s.phase == StageUpdating {
		e.note(s)
	}
	if from.state != is.state {
		e.event(Event{Kind: EventTarget, Stage: k, Target: name, To: is.state.String(), Reason: is.cause.reason()})
	}
}

// updateOver compares the failures of a stage that this step writes with its budget, and counts the
// stages that are over their own.
func (e *edit) updateOver(k int) {
	s := e.run.stage(k)
	if change := e.plan.over(k, s) - s.over; change != 0 {
		for _, t := range e.tallies(k) {
			t.over += change
		}
	}
}

// tallies returns those of a stage that this step writes, of its chunk and of the run.
func (e *edit) tallies(k int) [3]*tally {
	c := e.run.stages[k/chunkSize]
	return [3]*tally{&c.stages[k%chunkSize].tally, &c.tally, &e.run.all}
}

func failed(s TargetState) bool { return s == Failed || s == TimedOut }

// note records when the last member of an updating stage was settled, which is when a wait after
// the stage starts. It clears that instant if a member is open again.
func (e *edit) note(s *stage) {
	switch settled := s.unsettled() == 0; {
	case settled && !s.settled.known():
		s.settled = notedAt(e.now)
	case !settled:
		s.settled, s.paused, s.elapsed, s.ended, s.endedBy = 0, 0, false, 0, nil
	}
}

// enter puts a stage into a phase.
func (e *edit) enter(k int, phase StagePhase) *stage {
	s := e.stage(k)
	s.phase, s.since = phase, notedAt(e.now)
	switch {
	case phase == StageUpdating && !s.start.known():
		s.start = s.since
	case phase.ended():
		s.end, s.since = s.since, 0
	}
	e.event(Event{Kind: EventStage, Stage: k, To: string(phase)})
	return s
}

// settleTarget puts a target into a settled state, and frees its slot if it has one.
func (e *edit) settleTarget(k, i int, r record, state TargetState, why cause) {
	r.state, r.cause, r.end = state, why, e.now
	r.marks &= started | moved
	e.put(k, i, r)
}
