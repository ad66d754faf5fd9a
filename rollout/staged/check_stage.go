package staged

import (
	"time"
)

// stageCheck reports what no step leaves behind in a stage.
type stageCheck struct {
	*decoder
	k    int
	plan *stagePlan
	*stage

	anyStarted bool  // a member has a start
	retried    bool  // a member has been
	early      bool  // a member has a start before that of the stage
	opened     bool  // the stage has begun to update
	firstEnd   noted // when the first member was settled that is, or later than all
	lastEnd    noted // when the last was of those that nothing settles again: done, timed out or removed
}

func (d *decoder) checkStage(k int) {
	faults := len(d.faults)
	c := stageCheck{decoder: d, k: k, plan: &d.run.plan.stages[k], stage: d.run.stage(k)}
	c.opened = c.start.known()
	switch c.phase {
	case StageUpdating, StageWaitingAfter, StageSucceeded:
		c.opened = true
	case StagePending, StageWaitingBefore, StageSkipped:
		c.opened = false
	}
	c.firstEnd = never
	c.tree.all(func(_ int, rec *record, _ string) bool {
		c.anyStarted = c.anyStarted || rec.marks.has(started)
		c.retried = c.retried || rec.attempt > 1
		c.early = c.early || rec.marks.has(started) && notedAt(rec.start) < c.start
		if rec.state.Settled() {
			c.firstEnd = min(c.firstEnd, notedAt(rec.end))
		}
		switch rec.state {
		case Done, TimedOut, Removed:
			c.lastEnd = max(c.lastEnd, notedAt(rec.end))
		}
		return true
	})
	c.checkPlace()
	c.checkGates()
	c.checkTimes()
	c.checkSettled()
	c.checkWait()
	c.checkMembers()
	if len(d.faults) == faults {
		c.checkEnds()
	}
	if len(d.faults) == faults {
		c.checkInstants()
	}
}

func (c *stageCheck) wrong(field, format string, args ...any) {
	c.decoder.wrong(inStage(c.k, field), format, args...)
}

// checkPlace compares the phase with the place of the stage in the run.
func (c *stageCheck) checkPlace() {
	current := c.run.current
	switch {
	case c.k < current && !c.phase.finished():
		c.wrong("phase", "must be Succeeded or Skipped before stage %d, not %s", current, c.phase)
	case c.k > current && c.phase != StagePending:
		c.wrong("phase", "must be Pending after stage %d, not %s", current, c.phase)
	case c.k == current && c.phase.finished():
		c.wrong("phase", "must be open, not %s: it is the current one", c.phase)
	case c.phase == StageFailed && c.run.phase != PhaseFailed:
		c.wrong("phase", "is Failed, the run is not")
	case c.phase == StageSkipped && c.dropped() != c.tree.size:
		c.wrong("phase", "is Skipped although there are members to update")
	}
}

// checkGates compares the approvals with the phase.
func (c *stageCheck) checkGates() {
	for _, gate := range []struct {
		field  string
		exists bool
		*approval
	}{{"before", c.plan.before, &c.before}, {"after", c.plan.after, &c.after}} {
		if gate.by != nil && gate.state != ApprovalApproved && gate.state != ApprovalRejected {
			c.wrong(gate.field+"By", "must be left out: nobody has answered")
		}
		switch gate.state {
		case ApprovalNone:
		case ApprovalRequested, ApprovalApproved, ApprovalRejected:
			if !gate.exists {
				c.wrong(gate.field, "must be left out: the stage has no such approval")
			}
		default:
			c.wrong(gate.field, "is the unknown %q", gate.state)
		}
	}
	approved := !c.plan.before || c.before.state == ApprovalApproved
	switch c.phase {
	case StagePending:
		if c.before.state != ApprovalNone {
			c.wrong("before", "must not be asked for yet")
		}
	case StageWaitingBefore:
		if c.before.state == ApprovalNone {
			c.wrong("before", "must be asked for")
		}
	case StageUpdating, StageWaitingAfter, StageSucceeded, StageFailed:
		if !approved && c.opened && (c.before.state != ApprovalNone || c.anyStarted || !nothingToRemove(c.plan, c.stage)) {
			c.wrong("before", "must be approved, not %s", c.before.state)
		}
	case StageSkipped:
		if c.before.state != ApprovalNone {
			c.wrong("phase", "is Skipped although an approval was asked for")
		}
	default:
		c.wrong("phase", "is the unknown %q", c.phase)
	}
}

// checkTimes compares the start and the end of the stage with each other, with the run and with the
// stage before.
func (c *stageCheck) checkTimes() {
	switch {
	case c.opened:
	case c.anyStarted || c.after.state != ApprovalNone || c.settled.known():
		c.wrong("states", "have a start, or the stage a later gate, before it began")
	case c.number[Done] > 0 && !c.plan.cleanup:
		c.wrong("states", "have a member that is done before the stage began")
	}
	begun, now := c.start.known(), notedAt(c.run.time)
	if begun != c.opened || begun && (c.start > now || c.early) {
		c.wrong("start", "must be there if, and only if, the stage has begun: not after the first start of a member, nor after the time of the run")
	}
	ended := c.phase.ended()
	if ended && (c.end > now || begun && c.end < c.start) {
		c.wrong("end", "must not be before the start, nor after the time of the run")
	}
	if c.k == 0 || !c.run.stage(c.k-1).phase.ended() {
		return
	}
	if before := c.run.stage(c.k - 1).end; begun && c.start < before || ended && c.end < before {
		c.wrong("start", "and end must not be before the end of the stage before")
	}
}

// checkEnds compares the ends of the members with when the stage was settled, from when its wait
// counts, and with its end.
func (c *stageCheck) checkEnds() {
	switch {
	case c.settled.known() && c.settled < c.lastEnd:
		c.wrong("settled", "must not be before the end of a member, at %s", shownInstant(c.lastEnd.instant()))
	case c.phase.ended() && c.end < c.lastEnd:
		c.wrong("end", "must not be before the end of a member, at %s", shownInstant(c.lastEnd.instant()))
	}
}

// checkInstants compares the instants that are only shown with those that steps rely on, which have
// passed the other checks. Each of them may be missing.
func (c *stageCheck) checkInstants() {
	earliest, latest := notedAt(0), notedAt(c.run.time)
	switch {
	case c.k > 0:
		if before := c.run.stage(c.k - 1); before.phase.ended() {
			earliest = before.end
		}
	case c.run.first.known():
		if earliest = c.run.first; c.start.known() && c.start < earliest || c.phase.ended() && c.end < earliest {
			c.decoder.wrong("begun", "must not be after the start of the first stage, nor after its end")
			return
		}
	}
	if c.run.first > c.firstEnd && len(c.faults) == 0 { // else it may have been said already
		c.decoder.wrong("begun", "must not be after the end of a member of stage %d", c.k)
		return
	}
	if c.phase.ended() {
		latest = c.end
	}
	start, began := earliest, latest
	if c.start.known() {
		start, began = c.start, c.start
	}
	c.checkGateInstants("before", &c.before, earliest, began)
	c.checkGateInstants("after", &c.after, start, latest)
	switch {
	case !c.since.known():
	case c.phase == StagePending || c.phase.ended():
		c.wrong("phaseSince", "must be left out in phase %s", c.phase)
	case c.since < start || c.since > latest:
		c.outside(inStage(c.k, "phaseSince"), start, latest)
	}
}

// checkGateInstants compares when an approval was requested and decided with each other, and with two
// instants between which both must be.
func (c *stageCheck) checkGateInstants(field string, gate *approval, from, until noted) {
	for _, is := range []struct {
		field string
		at    noted
		valid bool
	}{
		{"Requested", gate.requested, gate.state != ApprovalNone},
		{"Decided", gate.decided, gate.state == ApprovalApproved || gate.state == ApprovalRejected},
	} {
		switch {
		case !is.at.known():
		case !is.valid:
			c.wrong(field+is.field, "must be left out: the approval is %s", gate.state)
		case is.at < from || is.at > until:
			c.outside(inStage(c.k, field+is.field), from, until)
		default:
			from = is.at
		}
	}
}

// outside reports an instant that is not within two others.
func (d *decoder) outside(path string, from, until noted) {
	d.wrong(path, "must be between %s and %s, by what else is stored", shownInstant(from.instant()), shownInstant(until.instant()))
}

func shownInstant(instant int64) string { return timeOf(instant).Format(time.RFC3339Nano) }

// checkSettled compares the phase with the states of the members and of the after-stage tasks.
func (c *stageCheck) checkSettled() {
	switch c.phase {
	case StageUpdating:
		if c.settled.known() != (c.unsettled() == 0) {
			c.wrong("settled", "must be there if, and only if, all members are")
		}
		if c.after.state != ApprovalNone && !c.retried { // only a retry takes a stage back
			c.wrong("after", "must not be asked for before all members have been settled")
		}
	case StageWaitingAfter, StageSucceeded:
		if !c.settled.known() || c.unsettled() > 0 {
			c.wrong("phase", "is %s, but a member is not settled", c.phase)
		}
		if c.plan.after && c.after.state == ApprovalNone {
			c.wrong("after", "must be asked for")
		}
	}
	if c.phase == StageSucceeded && (c.plan.waits && !c.elapsed || c.plan.after && c.after.state != ApprovalApproved) {
		c.wrong("phase", "is Succeeded, but a task after the stage is open")
	}
	if c.settled > notedAt(c.run.time) {
		c.wrong("settled", "must be a time of the past")
	}
}

// checkWait compares the timed wait with the times.
func (c *stageCheck) checkWait() {
	if c.paused < 0 || !c.settled.known() && (c.elapsed || c.paused != 0) || c.elapsed && !c.plan.waits {
		c.wrong("settled", "must be there before anything of the wait is, and that must be of the past")
	}
	if c.paused != 0 && (!c.plan.waits || c.run.plan.options.WaitDuringStop != Freeze) {
		c.wrong("paused", "must be left out: no stop adds to the wait")
	}
	if c.ended.known() != (c.endedBy != nil) || c.ended.known() && !c.elapsed {
		c.wrong("waitEnded", "must be there if, and only if, waitEndedBy is, and only of a wait that is over")
	}
	if !c.plan.waits || !c.settled.known() {
		return
	}
	if c.ended.known() && (c.ended < c.settled || c.run.plan.options.WaitDuringStop != Freeze && c.ended.instant() >= c.lastsUntil(c.plan)) { // while it was frozen it may have been ended later
		c.outside(inStage(c.k, "waitEnded"), c.settled, notedAt(c.lastsUntil(c.plan)))
	}
	until := c.waitUntil(c.plan)
	switch at := shownInstant(until); {
	case c.elapsed && (until > c.run.time || c.phase == StageSucceeded && until > c.end.instant()):
		c.wrong("elapsed", "must not be there before the end of the wait, at %s", at)
	case c.phase == StageWaitingAfter && !c.elapsed && !c.run.frozen() && until <= c.run.time:
		c.wrong("elapsed", "must be there after the end of the wait, at %s", at)
	}
}

// checkMembers compares the states of the members with the limit and the time of the run.
func (c *stageCheck) checkMembers() {
	if n, limit := c.inProgress(), c.run.plan.limitOf(c.k, c.stage); n > limit {
		c.wrong("states", "have %d members in progress, the limit is %d", n, limit)
	}
	if groups := c.stage.groups; groups != nil {
		for n := range groups.groups.size {
			if g := groups.group(n); g.inProgress > g.limit {
				c.wrong("states", "have %d members of group %s in progress, the limit is %d", g.inProgress, shownGroup(g.value), g.limit)
				break
			}
		}
	}
	if due := c.tree.root.first.due; due <= c.run.time {
		c.wrong("states", "have something due at %s that the last step left", shownInstant(due))
	}
	if c.plan.cleanup && (c.regressed > 0 || c.tree.find(isCurrent) >= 0) { // a soaking removal is reported above: its soak ends at once
		c.wrong("states", "have what a removal never is")
	}
	if o := &c.run.plan.options; c.regressed > 0 && (o.VerifyDone == Never || o.OnRegression == Note || o.OnRegression == Fail) {
		c.wrong("states", "have a regressed member, and the options mark none")
	}
}
