package staged

import (
	"fmt"
	"strings"
	"time"
)

// checkStage finds what no step leaves behind.
func (d *decoder) checkStage(k int) {
	r := d.run
	s, p := r.stage(k), &r.plan.stages[k]
	wrong := func(field, format string, args ...any) {
		d.wrong(fmt.Sprintf("stages[%d].%s", k, field), format, args...)
	}
	anyStarted, early := false, false
	s.tree.all(func(_ int, rec *record, _ string) bool {
		anyStarted = anyStarted || rec.marks.has(started)
		early = early || rec.marks.has(started) && rec.start < s.start
		return !early
	})
	if n, limit := s.inProgress(), r.plan.limitOf(k, s.tree.size); n > limit {
		wrong("states", "have %d members in progress, the limit is %d", n, limit)
	}
	switch {
	case k < r.current && !s.phase.finished():
		wrong("phase", "must be Succeeded or Skipped before stage %d, not %s", r.current, s.phase)
	case k > r.current && s.phase != StagePending:
		wrong("phase", "must be Pending after stage %d, not %s", r.current, s.phase)
	case k == r.current && s.phase.finished():
		wrong("phase", "must be open, not %s: it is the current one", s.phase)
	}
	known := func(a ApprovalState) bool {
		return a == ApprovalNone || a == ApprovalRequested || a == ApprovalApproved || a == ApprovalRejected
	}
	if !known(s.before) || !known(s.after) || !p.before && s.before != ApprovalNone || !p.after && s.after != ApprovalNone {
		wrong("before", "and after must be states of approvals that the stage has")
	}
	opened := false // the stage has begun to update
	switch s.phase {
	case StagePending:
		if s.before != ApprovalNone {
			wrong("before", "must not be asked for yet")
		}
	case StageWaitingBefore:
		if !p.before || s.before == ApprovalNone {
			wrong("before", "must be asked for")
		}
	case StageUpdating, StageWaitingAfter, StageSucceeded:
		opened = true
		if p.before && s.before != ApprovalApproved && (anyStarted || !nobody(p, s)) {
			wrong("before", "must be approved, not %s", s.before)
		}
	case StageSkipped:
		if s.number[Removed]+s.number[Skipped] != s.tree.size {
			wrong("phase", "is Skipped although there are members to update")
		}
		if s.before != ApprovalNone || s.after != ApprovalNone {
			wrong("phase", "is Skipped although an approval was asked for")
		}
	case StageFailed:
		if opened = s.begun; opened && p.before && s.before != ApprovalApproved && !nobody(p, s) {
			wrong("before", "must be approved, not %s", s.before)
		}
		if r.phase != PhaseFailed || k != r.current {
			wrong("phase", "is Failed, the run is not")
		}
	default:
		wrong("phase", "is the unknown %q", s.phase)
	}
	if !opened && (anyStarted || s.after != ApprovalNone || s.isSettled) {
		wrong("states", "have a start, or the stage a later gate, before it began")
	}
	if s.begun != opened || s.begun && (s.start > r.time || early) {
		wrong("start", "must be there if, and only if, the stage has begun: not after the first start of a member, nor after the time of the run")
	}
	if s.phase.ended() && (s.end > r.time || s.begun && s.end < s.start) {
		wrong("end", "must not be before the start, nor after the time of the run")
	}
	if k > 0 && r.stage(k-1).phase.ended() && (s.begun && s.start < r.stage(k-1).end || s.phase.ended() && s.end < r.stage(k-1).end) {
		wrong("start", "and end must not be before the end of the stage before")
	}
	switch s.phase {
	case StageUpdating:
		if s.isSettled != (s.unsettled() == 0) {
			wrong("settled", "must be there if, and only if, all members are")
		}
	case StageWaitingAfter, StageSucceeded:
		if !s.isSettled || s.unsettled() > 0 {
			wrong("phase", "is %s, but a member is not settled", s.phase)
		}
		if p.after && s.after == ApprovalNone {
			wrong("after", "must be asked for")
		}
	}
	if s.phase == StageSucceeded && (p.waits && !s.elapsed || p.after && s.after != ApprovalApproved) {
		wrong("phase", "is Succeeded, but a task after the stage is open")
	}
	if s.isSettled && s.settled > r.time || s.paused < 0 || !s.isSettled && (s.elapsed || s.paused != 0) || s.elapsed && !p.waits {
		wrong("settled", "must be a time of the past, and nothing of the wait may be there without it")
	}
	switch until := s.waitUntil(p); {
	case !p.waits:
	case s.elapsed && (until > r.time || s.phase == StageSucceeded && until > s.end):
		wrong("elapsed", "must not be there before the end of the wait, at %s", timeOf(until).Format(time.RFC3339Nano))
	case s.phase == StageWaitingAfter && !s.elapsed && !r.frozen() && until <= r.time:
		wrong("elapsed", "must be there after the end of the wait, at %s", timeOf(until).Format(time.RFC3339Nano))
	}
	if s.paused != 0 && (!p.waits || r.plan.options.WaitDuringStop != Freeze) {
		wrong("paused", "must be left out: no stop adds to the wait")
	}
	if due := s.tree.root.first.due; due <= r.time {
		wrong("states", "have something due at %s that the last step left", timeOf(due).Format(time.RFC3339Nano))
	}
	if p.cleanup && (s.number[Soaking] > 0 || s.regressed > 0 || s.tree.find(isCurrent) >= 0) {
		wrong("states", "have what a removal never is")
	}
}

// checkRun finds phases that do not follow from the stages.
func (d *decoder) checkRun() {
	r := d.run
	if !r.desired.known() {
		d.wrong("state", "must be Initialize, Run or Stop, not %q", r.desired)
	}
	if !r.begun {
		if r.phase != PhaseInitialized || r.current != 0 || r.desired != r.plan.spec.State {
			d.wrong("phase", "must be Initialized before the first step")
		}
		for k := range r.count() {
			if s := r.stage(k); s.number[Waiting] != s.tree.size || s.phase != StagePending || s.tree.find(isCurrent) >= 0 || s.tree.find(isRetried) >= 0 {
				d.wrong("time", "is missing, but stage %d has begun", k)
			}
		}
		return
	}
	ended := r.current == r.count()
	stage := StagePhase("")
	if !ended {
		stage = r.stage(r.current).phase
	}
	going := r.desired == StateRun && !r.overBudget() && !r.rejected()
	ok := false
	switch r.phase {
	case PhaseInitialized:
		ok = r.desired == StateInitialize && r.current == 0 && stage == StagePending
	case PhaseProgressing:
		ok = going && stage == StageUpdating
	case PhaseWaiting:
		ok = going && (stage == StageWaitingBefore || stage == StageWaitingAfter)
	case PhaseHeld:
		ok = !ended && r.desired == StateRun && (r.overBudget() || r.rejected())
	case PhaseStopping, PhaseStopped:
		ok = !ended && r.desired == StateStop
	case PhaseFailing, PhaseCancelling, PhaseCancelled:
		ok = !ended
	case PhaseFailed:
		ok = !ended && stage == StageFailed
	case PhaseSucceeded:
		ok = ended && r.totals.unhappy == 0
	case PhasePartiallySucceeded:
		ok = ended && r.totals.unhappy > 0
	}
	if !ok {
		d.wrong("phase", "%q does not go with the state %s, current stage %d (%s) and its failures", r.phase, r.desired, r.current, strings.TrimSpace(string(stage)))
	}
}
