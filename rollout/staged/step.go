package staged

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

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
	// changes nothing, except that the last labels of an added target count. A name in several lists
	// appeared first, then started leaving, and is gone now. A target that a cache lacks is not
	// proved to be gone: with the option Removed at Skip, an unsettled target that left is never
	// started, even if it is seen again, and a run whose targets have all left has succeeded.
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
	// people: the host need not act on them. What they say of phases and approvals, the run says
	// afterwards as well, with the instants.
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
// If there is an error, the returned run is the argument. The error is [ErrNoRun], or it joins all
// faults of the input and of now, each a *[FieldError]: a state that cannot follow the present one,
// a value that does not exist, a time outside the years 1970 to 2261.
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
	var list faults
	instant, fault := instantOf(now)
	if fault != nil {
		list = append(list, fault)
	}
	input.check(&list, run.desired)
	run.plan.checkGroups(&list, input.Added)
	if err := list.err(); err != nil {
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
	if !run.begun || e.run.phase != run.phase {
		e.run.phased = notedAt(e.now)
	}
	if e.run.phase != run.phase {
		if e.cancelled {
			e.decision = e.run.cancelled
		}
		e.event(Event{Kind: EventRun, Stage: -1, To: string(e.run.phase)})
	}
	return e.run, Result{Actions: e.actions(), Events: e.events, Next: e.next(), Changed: e.changed(run)}, nil
}

// check reports the faults of the input.
func (in *Input) check(list *faults, from State) {
	if in.State != "" {
		if !in.State.known() {
			list.add(CodeState, "state", strconv.Quote(string(in.State)), hintState)
		} else if fault := transition(from, in.State); fault != nil {
			*list = append(*list, fault)
		}
	}
	for i := range in.Commands {
		in.Commands[i].check(list, i)
	}
	for i := range in.Added {
		if !targetName(in.Added[i].Name) {
			list.add(CodeTargetName, at("added", i)+".name", strconv.Quote(in.Added[i].Name), hintName)
		}
	}
	for i, name := range in.Leaving {
		if !targetName(name) {
			list.add(CodeTargetName, at("leaving", i), strconv.Quote(name), hintName)
		}
	}
	for i := range in.Observations {
		if health := in.Observations[i].Health; !health.known() {
			list.add(CodeInput, at("observations", i)+".health", strconv.Quote(string(health)), "must be "+strictjson.Choice(HealthProgressing, HealthReady, HealthFailing, HealthFailed)+", or left out")
		}
	}
}

// checkGroups reports targets whose group could not be stored if they joined.
func (p *plan) checkGroups(list *faults, added []Target) {
	if p.options.Added != Append {
		return
	}
	for i := range added {
		for k := range p.stages {
			if value := added[i].Labels[p.stages[k].groupBy]; p.stages[k].groupBy != "" && !utf8.ValidString(value) {
				list.add(CodeInput, fmt.Sprintf("added[%d].labels[%q]", i, p.stages[k].groupBy), strconv.Quote(value), hintGroup(k))
			}
		}
	}
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
		case !s.settled.known() || s.elapsed || !e.plan.stages[r.current].waits:
		case s.waitUntil(&e.plan.stages[r.current]) <= r.since: // over before the stop, while the run was held
		case s.settled > notedAt(r.since):
			e.stage(r.current).settled = notedAt(e.now)
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
