package staged

import (
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Input is what happened since the last step. Every part may be empty. It is decoded strictly: an
// unknown field or a value of the wrong type is an error, because a misspelt part would be missing.
type Input struct {
	// State is what the user wants now. Empty means no change; so does repeating the present state.
	State State `json:"state,omitempty"`
	// Commands are applied in this order.
	Commands []Command `json:"commands,omitempty"`
	// Added, Leaving and Removed are changes of the fleet: targets that appeared, targets that are
	// to be removed, and targets that disappeared. Each list is in any order, and repeating a name
	// changes nothing. A name in several lists appeared first, then started leaving, and is gone
	// now.
	Added   []Target `json:"added,omitempty"`
	Leaving []string `json:"leaving,omitempty"`
	Removed []string `json:"removed,omitempty"`
	// Observations are what the host sees of targets. Of several observations of one target only
	// the last counts, even if it is stale.
	Observations []Observation `json:"observations,omitempty"`
}

// UnmarshalJSON reads an input with all its parts strictly. All faults are reported, joined, each a
// *[FieldError], and the input is then unchanged. Null leaves it unchanged as well. [Step] checks
// what well-formed values mean.
func (in *Input) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	type plain Input
	return inputFaults(strictjson.Unmarshal(data, (*plain)(in)))
}

// Result is the outcome of a step. It belongs to the caller.
type Result struct {
	// Actions are for the host to carry out once the new run is stored: starts or removals in the
	// order of the members, then requests for approvals. The list is a function of the run alone,
	// so every step repeats an action until it is acknowledged. Each start and each removal has a
	// token that must take effect at most once.
	Actions []Action `json:"actions,omitempty"`
	// Events are what this step changed and ignored, in the order in which it did. They are for
	// people: the host need not act on them.
	Events []Event `json:"events,omitempty"`
	// Next is when to step again if nothing happens: before Next, only an input can change
	// anything. Zero means that only an input ever can.
	Next time.Time `json:"next,omitzero"`
	// Changed reports whether the new run differs from the one before in more than the time of its
	// last step. A run that has not changed need not be stored: the stored run repeats the same
	// actions.
	Changed bool `json:"changed,omitempty"`
}

// Step returns the run that follows from an input at the time now. It goes as far as it can and
// leaves its argument unchanged. A time before that of the last step counts as that time. A run in
// a terminal phase is returned as it is, whatever the input.
//
// If there is an error, the returned run is the argument. The error is [ErrNoRun], or it joins the
// faults of the input, each a *[FieldError]: a state that cannot follow the present one, a value
// that does not exist, a time outside the years 1678 to 2261.
//
// Input about targets, stages or approvals that the run does not have, or no longer has, is no
// error: Step ignores it and returns an event with the reason.
func Step(run *Run, input Input, now time.Time) (*Run, Result, error) {
	if run == nil || run.plan == nil {
		return run, Result{}, ErrNoRun
	}
	if run.phase.Terminal() {
		var ignored []Event
		for i := range input.Commands {
			event := input.Commands[i].ignored(ReasonEnded)
			event.Decision = input.Commands[i].decision(run.time)
			ignored = append(ignored, event)
		}
		return run, Result{Events: ignored}, nil
	}
	instant, fault := instantOf(now)
	if fault != nil {
		return run, Result{}, fault
	}
	if err := input.check(run.desired); err != nil {
		return run, Result{}, err
	}
	e := newEdit(run, instant, &input)
	e.desire(input.State)
	for i := range input.Commands {
		e.command(&input.Commands[i])
	}
	e.membership(&input)
	e.observations(input.Observations)
	e.elapse()
	e.decide()
	if e.run.phase == PhaseProgressing {
		e.advance()
	}
	e.settle()
	if e.run.phase != run.phase {
		if e.cancelled {
			e.decision = e.run.cancelled
		}
		e.event(Event{Kind: EventRun, Stage: -1, To: string(e.run.phase)})
	}
	return e.run, Result{Actions: e.actions(), Events: e.events, Next: e.next(), Changed: e.changed(run)}, nil
}

// check reports the faults of the input.
func (in *Input) check(from State) error {
	var list faults
	if in.State != "" {
		if !in.State.known() {
			list.add(CodeState, "state", quoted(string(in.State)), "must be Initialize, Run or Stop")
		} else if fault := transition(from, in.State); fault != nil {
			list = append(list, fault)
		}
	}
	for i := range in.Commands {
		in.Commands[i].check(&list, i)
	}
	for i := range in.Added {
		if !targetName(in.Added[i].Name) {
			list.add(CodeTargetName, at("added", i)+".name", quoted(in.Added[i].Name), "must not be empty, and valid UTF-8")
		}
	}
	for i, name := range in.Leaving {
		if !targetName(name) {
			list.add(CodeTargetName, at("leaving", i), quoted(name), "must not be empty, and valid UTF-8")
		}
	}
	for i := range in.Observations {
		if health := in.Observations[i].Health; !health.known() {
			list.add(CodeInput, at("observations", i)+".health", quoted(string(health)), "must be progressing, ready, failing, failed, or left out")
		}
	}
	return list.err()
}

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
	} else if next.desired == StateStop {
		next.since = e.now
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
		c = &chunk{owner: e.owner, stages: append(make([]*stage, 0, len(c.stages)), c.stages...)}
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
	over, counts := false, failed(from.state) != failed(is.state)
	if counts {
		over = e.plan.over(k, s)
	}
	s.number[from.state]--
	s.number[is.state]++
	s.regressed += toInt(is.marks.has(regressed)) - toInt(from.marks.has(regressed))
	s.stuck += toInt(is.marks.has(stuck)) - toInt(from.marks.has(stuck))
	s.tree.set(i, is, e.owner, &p.timing)

	t := &e.run.totals
	t.regressed += toInt(is.marks.has(regressed)) - toInt(from.marks.has(regressed))
	t.unhappy += toInt(unhappy(is.state)) - toInt(unhappy(from.state))
	if counts {
		t.over += toInt(e.plan.over(k, s)) - toInt(over)
		if !p.cleanup {
			t.failures += toInt(failed(is.state)) - toInt(failed(from.state))
		}
	}
	if s.phase == StageUpdating {
		e.note(s)
	}
	if from.state != is.state {
		e.event(Event{Kind: EventTarget, Stage: k, Target: name, To: is.state.String(), Reason: is.cause.reason()})
	}
}

func failed(s TargetState) bool  { return s == Failed || s == TimedOut }
func unhappy(s TargetState) bool { return failed(s) || s == Skipped }

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// note records when the last member of an updating stage was settled, which is when a wait after
// the stage starts. It clears that instant if a member is open again.
func (e *edit) note(s *stage) {
	switch settled := s.unsettled() == 0; {
	case settled && !s.isSettled:
		s.isSettled, s.settled = true, e.now
	case !settled && s.isSettled:
		s.isSettled, s.settled, s.paused, s.elapsed = false, 0, 0, false
	}
}

// enter puts a stage into a phase.
func (e *edit) enter(k int, phase StagePhase) *stage {
	s := e.stage(k)
	s.phase = phase
	switch {
	case phase == StageUpdating && !s.begun:
		s.begun, s.start = true, e.now
	case phase.ended():
		s.end = e.now
	}
	e.event(Event{Kind: EventStage, Stage: k, To: string(phase)})
	return s
}

// desire applies what the user wants. With WaitDuringStop Freeze, a stop keeps what is left of a
// wait, and resuming adds the stopped time to its end.
func (e *edit) desire(state State) {
	r := e.run
	if state == "" || state == r.desired {
		return
	}
	freeze := e.plan.options.WaitDuringStop == Freeze
	switch {
	case state == StateStop:
		if freeze {
			e.elapseWait() // a wait that is over by now stays over, however late this step is
		}
		if r.phase != PhaseFailing && !e.cancelled {
			r.since = e.now
		}
	case r.desired == StateStop && freeze: // the current stage of an ending run is not settled: a member is in progress
		switch s := r.stage(r.current); {
		case !s.isSettled || s.elapsed || !e.plan.stages[r.current].waits:
		case s.settled > r.since:
			e.stage(r.current).settled = e.now
		default:
			e.stage(r.current).paused = after(s.paused, e.now-r.since)
		}
	}
	r.desired = state
}

// elapse applies the passing of time: soaks end, deadlines pass, targets become stuck, the wait
// ends. Only the current stage has any of these: the stages before it are settled, and those after
// it have not begun.
func (e *edit) elapse() {
	k := e.run.current
	timing := &e.plan.stages[k].timing
	for {
		tree := &e.run.stage(k).tree
		i := tree.due(e.now, timing)
		if i < 0 {
			break
		}
		rec, name := tree.at(i)
		r := *rec
		switch {
		case r.state == Soaking:
			e.settleTarget(k, i, r, Done, noCause)
		case after(r.start, timing.deadline) <= e.now:
			e.settleTarget(k, i, r, TimedOut, noCause)
		default:
			r.marks |= stuck
			e.put(k, i, r)
			e.event(Event{Kind: EventStuck, Stage: k, Target: name})
		}
	}
	if !e.run.frozen() {
		e.elapseWait()
	}
}

// elapseWait closes the wait of the current stage if its time has come.
func (e *edit) elapseWait() {
	k := e.run.current
	p, s := &e.plan.stages[k], e.run.stage(k)
	if p.waits && s.phase == StageWaitingAfter && !s.elapsed && s.waitUntil(p) <= e.now {
		e.stage(k).elapsed = true
		e.event(Event{Kind: EventWait, Stage: k, To: "elapsed"})
	}
}

// settleTarget puts a target into a settled state, and frees its slot if it has one.
func (e *edit) settleTarget(k, i int, r record, state TargetState, why cause) {
	r.state, r.cause, r.end = state, why, e.now
	r.marks &= started
	e.put(k, i, r)
}

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
	case r.desired == StateInitialize:
		r.phase = PhaseInitialized
	case over && o.OnFailure != Hold, rejected && o.OnReject != Hold:
		e.halt(PhaseFailing)
	case over || rejected:
		r.phase = PhaseHeld
	default:
		r.phase = PhaseProgressing
	}
}

func (e *edit) halt(phase Phase) {
	if e.run.phase != phase {
		e.run.phase, e.run.since = phase, e.now
	}
}

func (r *Run) overBudget() bool {
	budget := r.plan.budget
	return r.totals.over > 0 || !budget.IsZero() && r.totals.failures > r.plan.budgetOf(budget, r.totals.members)
}

// rejected looks at the current stage only: no stage closes with a rejected approval.
func (r *Run) rejected() bool {
	s := r.stage(r.current)
	return s.before == ApprovalRejected || s.after == ApprovalRejected
}

// advance takes the stages as far as they can go.
func (e *edit) advance() {
	r := e.run
	for r.current < r.count() {
		if !e.advanceStage(r.current) {
			if phase := r.stage(r.current).phase; phase == StageWaitingBefore || phase == StageWaitingAfter {
				r.phase = PhaseWaiting
			}
			return
		}
	}
	r.phase = PhaseSucceeded
	if r.totals.unhappy > 0 {
		r.phase = PhasePartiallySucceeded
	}
}

// advanceStage takes the current stage as far as it can go, and reports whether it is finished.
func (e *edit) advanceStage(k int) bool {
	p, s := &e.plan.stages[k], e.run.stage(k)
	if s.phase == StagePending {
		if s.number[Removed]+s.number[Skipped] == s.tree.size {
			e.enter(k, StageSkipped)
			e.run.current++
			return true
		}
		if p.before && !nobody(p, s) {
			s = e.enter(k, StageWaitingBefore)
			s.before = ApprovalRequested
			e.event(Event{Kind: EventApproval, Stage: k, Side: Before, To: string(ApprovalRequested)})
		} else {
			s = e.enter(k, StageUpdating)
			e.note(s)
		}
	}
	if s.phase == StageWaitingBefore {
		if s.before != ApprovalApproved {
			if !nobody(p, s) {
				return false
			}
			e.stage(k).before = ApprovalNone // it was requested, and is no longer needed; nobody has decided
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
		if p.after && s.after == ApprovalNone {
			s.after = ApprovalRequested
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

// nobody reports whether a cleanup has nothing left to remove. It then needs no approval: the
// targets are gone by themselves.
func nobody(p *stagePlan, s *stage) bool { return p.cleanup && s.unsettled() == 0 }

// closes reports whether everything that a stage in WaitingAfter waits for is done.
func (r *Run) closes(k int) bool {
	p, s := &r.plan.stages[k], r.stage(k)
	return (!p.waits || s.elapsed) && (!p.after || s.after == ApprovalApproved) && !r.blocked(k)
}

// blocked reports whether a regressed target keeps a stage from closing. Options under which none
// does mark none, see checkMembers.
func (r *Run) blocked(k int) bool {
	if r.plan.options.VerifyDone == Always {
		return r.totals.regressed > 0
	}
	p := &r.plan.stages[k]
	return (p.waits || p.after) && r.stage(k).regressed > 0
}

// start finishes the members that need no start, and fills free slots, retried members first. It is
// a sliding window.
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
	limit := e.plan.limitOf(k, s.tree.size)
	for s.number[Waiting] > 0 && s.inProgress() < limit {
		i := s.tree.find(isRetried)
		if i < 0 {
			i = s.tree.find(isWaiting)
		}
		rec, _ := s.tree.at(i)
		r := *rec
		r.state, r.start, r.marks = Starting, e.now, started
		e.put(k, i, r)
		s = e.run.stage(k)
	}
	return s
}

// settle ends a phase that only waits for targets in progress.
func (e *edit) settle() {
	r := e.run
	if !r.phase.ending() || r.stage(r.current).moving() > 0 && e.now < after(r.since, e.plan.grace) {
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
