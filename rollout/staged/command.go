package staged

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Command is an operator's instruction to a run. Every command is idempotent. A command that does
// not apply changes nothing and becomes an event with the reason.
type Command struct {
	Kind CommandKind `json:"kind"`
	// Run is the ID of the run that the command is for. It is required for an answer to an approval
	// and for the end of a wait; in any other command, empty means the run of the step.
	Run string `json:"run,omitempty"`
	// Stage and Side identify an approval as the action that requested it does: Stage is the index
	// of the stage. The end of a wait has a Stage alone. No other command may have them.
	Stage int  `json:"stage,omitempty"`
	Side  Side `json:"side,omitempty"`
	// Target is the target to skip, retry, suspend or resume; no other command may name one,
	// because the others concern more. Attempt, for a retry, is the attempt that failed; no other
	// command may have it, because no other depends on it.
	Target  string `json:"target,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// By, At and Reason say who gave the command, when and why. None of them is interpreted, and
	// commands apply in the order of the input, whatever their At. If one of them is given, the run
	// keeps all three as a [Decision] for those who look at it later, and so do the events of the
	// command. By and Reason must be valid UTF-8. A zero At means the now of the step.
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// UnmarshalJSON reads a command strictly: unknown fields, fields given twice, values of the wrong
// type and null are errors, because a misspelt field must not turn one command into another. All
// faults are reported, joined, each a *[FieldError], and the command is then unchanged. [Step]
// checks what well-formed values mean.
func (c *Command) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return &FieldError{Code: CodeType, Hint: "null is not a command: remove the entry"}
	}
	type plain Command
	return inputFaults(strictjson.Unmarshal(data, (*plain)(c)))
}

// CommandKind is what a command does. The zero value is refused.
type CommandKind string

// The commands.
const (
	// CommandApprove closes an approval that is requested or rejected, for good.
	CommandApprove CommandKind = "approve"
	// CommandReject rejects an approval that is requested; see [Options.OnReject].
	CommandReject CommandKind = "reject"
	// CommandEndWait ends the timed wait after a stage before its time, for example because the
	// version is a fix that is urgent. The stage must be in [StageWaitingAfter], also during a stop.
	// The wait is over for good then, unless a target of the stage is retried: that target is waited
	// for again. Approvals and regressed targets keep the stage open as before. KubeFleet has no such
	// command; Azure's fleet manager skips an AfterStageWait.
	CommandEndWait CommandKind = "endWait"
	// CommandSkip skips a target that is waiting, in progress, failed, timed out or regressed. The
	// target no longer counts as a failure. A skip is final: no retry takes it back.
	CommandSkip CommandKind = "skip"
	// CommandRetry returns a failed or timed-out target to Waiting, ahead of the targets that never
	// started. Attempt must be the failed attempt, the stage must not be finished, and the run must
	// be neither failing nor cancelling: with [Options.OnFailure] at Fail, failures that exceed a
	// budget can be retried only while the run is stopped, because otherwise the step that finds
	// them fails the run. The new attempt points the target at the version that it may be at
	// already: the host must make sure that this has an effect, and must not attach the new token to
	// what it still sees of the failed attempt, or the new attempt fails at once.
	CommandRetry CommandKind = "retry"
	// CommandSuspend keeps a waiting target from being started until it is resumed, for example
	// because its cluster is stopped, its own window is closed, or somebody works on it. The targets
	// behind it go first. It takes no slot, and no deadline counts. It is not a failure either, but
	// its stage is not closed before it is settled. It is settled like any other that waits: also by
	// a skip, if it leaves, or without a start if it is seen ready at the version. It can be
	// suspended before its stage begins, in every phase of the run, and in the cleanup. A target that
	// starts leaving while it is suspended is suspended in the cleanup too. A target in progress is
	// refused with an event, as no command calls back what the host may be doing: skip it to free its
	// slot. So is a settled one. To have a failed one wait after its retry, suspend it in the same
	// step, after the retry.
	CommandSuspend CommandKind = "suspend"
	// CommandResume takes a suspension back: the target starts at its place in the order, before
	// those behind it that have not started, as soon as a slot is free.
	CommandResume CommandKind = "resume"
	// CommandCancel ends the run once the targets in progress are settled, stuck or ready, also a run
	// that is failing.
	CommandCancel CommandKind = "cancel"
)

func (c *Command) check(list *faults, i int) {
	// A command that says more than counts is refused: a cancel of one target must not end the run,
	// nor a skip of one attempt skip another.
	refuse := func(field, value, why string) {
		list.add(CodeInput, at("commands", i)+field, value, "must be left out: "+why)
	}
	refuseSide := func(why string) {
		if c.Side != "" {
			refuse(".side", strconv.Quote(string(c.Side)), why)
		}
	}
	refuseStage := func(why string) {
		if c.Stage != 0 {
			refuse(".stage", strconv.Itoa(c.Stage), why)
		}
		refuseSide(why)
	}
	refuseTarget := func(why string) {
		if c.Target != "" {
			refuse(".target", strconv.Quote(c.Target), why)
		}
	}
	switch c.Kind {
	case CommandApprove, CommandReject:
		if c.Side != Before && c.Side != After {
			list.add(CodeInput, at("commands", i)+".side", strconv.Quote(string(c.Side)), "must be "+strictjson.Choice(Before, After))
		}
		refuseTarget("an approval is for all targets behind it")
	case CommandEndWait:
		refuseSide("a wait is always after its stage")
		refuseTarget("a wait is for all targets behind it")
	case CommandSkip, CommandRetry, CommandSuspend, CommandResume:
		refuseStage("the command is for its target alone, in whatever stage that is")
	case CommandCancel:
		const why = "cancel ends the whole run; skip leaves one target out, and reject refuses an approval"
		refuseStage(why)
		refuseTarget(why)
	default:
		list.add(CodeInput, at("commands", i)+".kind", strconv.Quote(string(c.Kind)), "must be "+strictjson.Choice(CommandApprove, CommandReject, CommandEndWait, CommandSkip, CommandRetry, CommandSuspend, CommandResume, CommandCancel))
	}
	switch c.Kind {
	case CommandApprove, CommandReject, CommandEndWait, CommandSkip, CommandSuspend, CommandResume, CommandCancel:
		if c.Attempt != 0 {
			refuse(".attempt", strconv.Itoa(c.Attempt), "only a retry is for one attempt")
		}
	}
	// A stored run must be decoded as it was.
	for _, text := range []struct{ field, value string }{{".by", c.By}, {".reason", c.Reason}} {
		if !utf8.ValidString(text.value) {
			list.add(CodeInput, at("commands", i)+text.field, strconv.Quote(text.value), "must be valid UTF-8")
		}
	}
	if !c.At.IsZero() {
		if _, fault := instantOf(c.At); fault != nil {
			list.add(CodeInput, at("commands", i)+".at", fault.Value, fault.Hint)
		}
	}
}

// command carries out a command.
func (e *edit) command(c *Command) {
	e.decision = c.decision(e.now)
	defer func() { e.decision = nil }()
	var why Reason
	switch {
	case c.Run != "" && c.Run != e.plan.spec.ID:
		why = ReasonOtherRun
	case c.Kind == CommandApprove, c.Kind == CommandReject, c.Kind == CommandEndWait:
		switch {
		case c.Run == "": // whose stage it is must be said: names of stages are not unique among runs
			why = ReasonOtherRun
		case c.Stage < 0 || c.Stage >= e.run.count():
			why = ReasonUnknownStage
		case c.Kind == CommandEndWait:
			why = e.endWait(c)
		default:
			why = e.answer(c)
		}
	case c.Kind == CommandSkip:
		why = e.skip(c)
	case c.Kind == CommandRetry:
		why = e.retry(c)
	case c.Kind == CommandSuspend:
		why = e.suspend(c)
	case c.Kind == CommandResume:
		why = e.resume(c)
	case c.Kind == CommandCancel:
		if why = ReasonAlready; !e.cancelled {
			e.cancelled, why = true, ""
			e.run.cancelled = e.decision
		}
	}
	if why != "" {
		e.event(c.ignored(why))
	}
}

// ignored returns the event of a command that has no effect.
func (c *Command) ignored(why Reason) Event {
	event := Event{Kind: EventCommandIgnored, Stage: -1, Target: c.Target, To: string(c.Kind), Reason: why}
	if c.Side != "" || c.Kind == CommandEndWait {
		event.Stage, event.Side = c.Stage, c.Side
	}
	return event
}

// answer approves or rejects an approval, or returns why it cannot.
func (e *edit) answer(c *Command) Reason {
	to := ApprovalApproved
	switch is := e.run.stage(c.Stage).approval(c.Side).state; {
	case is == ApprovalRequested && c.Kind == CommandReject:
		to = ApprovalRejected
	case c.Kind == CommandApprove && (is == ApprovalRequested || is == ApprovalRejected):
	case is == ApprovalNone:
		return ReasonNotRequested
	default:
		return ReasonAlready
	}
	own := e.stage(c.Stage).approval(c.Side)
	own.state, own.by, own.decided = to, e.decision, notedAt(e.now)
	e.event(Event{Kind: EventApproval, Stage: c.Stage, Side: c.Side, To: string(to)})
	return ""
}

// endWait ends a wait before its time, or returns why it cannot. A wait whose time has come ends by
// itself in this step, and nobody has ended it.
func (e *edit) endWait(c *Command) Reason {
	p, s := &e.plan.stages[c.Stage], e.run.stage(c.Stage)
	switch {
	case !p.waits || !s.waiting():
		return ReasonNotWaiting
	case s.elapsed || !e.run.frozen() && s.lastsUntil(p) <= e.now:
		return ReasonAlready
	}
	s = e.stage(c.Stage)
	s.elapsed, s.ended, s.endedBy = true, notedAt(e.now), e.decision
	if s.endedBy == nil {
		s.endedBy = &Decision{At: timeOf(e.now)}
	}
	e.event(Event{Kind: EventWait, Stage: c.Stage, To: "elapsed"})
	return ""
}

// skip settles a target in every place that it has: a target that moved to the cleanup may still
// count as a failure of its stage.
func (e *edit) skip(c *Command) Reason {
	at, ok := e.run.find(c.Target)
	if !ok {
		return ReasonUnknownTarget
	}
	skipped := e.skipAt(e.run.home(c.Target))
	if e.skipAt(at) || skipped { // if both places are the same, the target is skipped already
		return ""
	}
	return ReasonAlready
}

func (e *edit) skipAt(at place) bool {
	k, i := int(at.stage), int(at.member)
	rec, _ := e.run.stage(k).tree.at(i)
	switch r := *rec; r.state {
	case Done:
		if !r.marks.has(regressed) {
			return false
		}
	case Skipped, Removed:
		return false
	}
	e.settleTarget(k, i, *rec, Skipped, noCause)
	e.explain(k, i)
	return true
}

func (e *edit) retry(c *Command) Reason {
	at, ok := e.run.find(c.Target)
	if !ok {
		return ReasonUnknownTarget
	}
	k, i := int(at.stage), int(at.member)
	s := e.run.stage(k)
	rec, _ := s.tree.at(i)
	switch {
	case !failed(rec.state):
		return ReasonNotFailed
	case int64(c.Attempt) != int64(rec.attempt):
		return ReasonOtherAttempt
	case !rec.retryable():
		return ReasonNoAttempt // Attempt is an int, which has 32 bits on some platforms
	case s.phase.finished():
		return ReasonStageFinished
	case e.cancelled || e.run.phase == PhaseFailing:
		return ReasonEnding
	}
	if s.phase == StageWaitingAfter {
		e.enter(k, StageUpdating) // the wait will start again, the approvals stay
	}
	e.put(k, i, record{attempt: rec.attempt + 1, state: Waiting})
	e.explain(k, i)
	return ""
}

// suspend keeps a waiting target from being started, or returns why it cannot. What the first of
// several such commands said stays.
func (e *edit) suspend(c *Command) Reason {
	at, ok := e.run.find(c.Target)
	if !ok {
		return ReasonUnknownTarget
	}
	k, i := int(at.stage), int(at.member)
	switch rec, _ := e.run.stage(k).tree.at(i); {
	case rec.state != Waiting:
		return ReasonNotWaiting
	case rec.marks.has(suspended):
		return ReasonAlready
	}
	by := e.decision
	if by == nil {
		by = &Decision{At: timeOf(e.now)}
	}
	e.suspendAt(k, i, by)
	return ""
}

// suspendAt suspends a waiting member that is not.
func (e *edit) suspendAt(k, i int, by *Decision) {
	s := e.stage(k)
	s.holds = s.holds.put(i, uint64(i), by)
	rec, name := s.tree.at(i)
	r := *rec
	r.marks |= suspended
	e.put(k, i, r)
	e.event(Event{Kind: EventSuspended, Stage: k, Target: name})
}

func (e *edit) resume(c *Command) Reason {
	at, ok := e.run.find(c.Target)
	if !ok {
		return ReasonUnknownTarget
	}
	k, i := int(at.stage), int(at.member)
	rec, name := e.run.stage(k).tree.at(i)
	if !rec.marks.has(suspended) {
		return ReasonAlready
	}
	r := *rec
	r.marks &^= suspended
	e.put(k, i, r)
	e.event(Event{Kind: EventResumed, Stage: k, Target: name})
	return ""
}
