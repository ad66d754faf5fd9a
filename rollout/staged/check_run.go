package staged

import (
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// checkRun compares the phase and the instants of the run with each other and with its stages.
func (d *decoder) checkRun() {
	if !d.run.desired.known() {
		d.wrong("state", hintState+", not %q", d.run.desired)
	}
	if !d.run.begun {
		d.checkUnbegun()
		return
	}
	d.checkRunInstants()
	d.checkPhase()
}

// checkUnbegun reports what there cannot be before the first step.
func (d *decoder) checkUnbegun() {
	r := d.run
	if r.first.known() || r.phased.known() {
		d.wrong("begun", "and phaseSince must be left out before the first step")
	}
	if r.phase != PhaseInitialized || r.desired != r.plan.spec.State {
		d.wrong("phase", "must be Initialized before the first step")
	}
	for k := 0; k < r.count() && len(d.faults) < mostFaults; k++ {
		if s := r.stage(k); int(s.number[Waiting]) != s.tree.size || s.phase != StagePending || s.tree.find(isCurrent) >= 0 || s.tree.find(isRetried) >= 0 || s.suspended > 0 {
			d.wrong("time", "is missing, but stage %d has begun", k)
		}
	}
}

func (d *decoder) checkRunInstants() {
	r, earliest, now := d.run, notedAt(0), notedAt(d.run.time)
	if r.phase.halting() {
		earliest = notedAt(r.since)
	}
	if r.first.known() {
		if r.first > now || r.phase.halting() && r.first > earliest {
			d.wrong("begun", "must not be after since, nor after the time of the run")
		}
		earliest = max(earliest, r.first)
	}
	if r.phased.known() && (r.phased < earliest || r.phased > now) {
		d.outside("phaseSince", earliest, now)
	}
}

// checkPhase reports a phase of the run that does not follow from its stages. A run whose stages are
// all closed is over. In every other run, each step looks at the current stage.
func (d *decoder) checkPhase() {
	r := d.run
	if r.current == r.count() {
		if r.phase != PhaseSucceeded && r.phase != PhasePartiallySucceeded || (r.phase == PhaseSucceeded) != (r.all.unhappy() == 0) {
			d.wrong("phase", "%q does not go with stages that are all closed, and %d targets that are failed, timed out or skipped", r.phase, r.all.unhappy())
		}
		return
	}
	stage, ok := r.stage(r.current).phase, false
	over, rejected, idle := r.overBudget(), r.rejected(), r.stage(r.current).standsIdle()
	faulty := over || rejected
	switch r.phase {
	case PhaseInitialized:
		ok = r.desired == StateInitialize && r.current == 0 && stage == StagePending
	case PhaseProgressing:
		ok = r.desired == StateRun && !faulty && stage == StageUpdating && !idle
	case PhaseWaiting:
		ok = r.desired == StateRun && !faulty && (stage == StageWaitingBefore || stage == StageWaitingAfter || idle)
	case PhaseHeld:
		if r.plan.options.fails(over, rejected) {
			d.wrong("phase", "must not be %q: the options fail such a run", r.phase)
			return
		}
		ok = r.desired == StateRun && faulty
	case PhaseStopping, PhaseStopped:
		ok = r.desired == StateStop
	case PhaseFailing, PhaseCancelling, PhaseCancelled:
		ok = true
	case PhaseFailed:
		ok = stage == StageFailed
	}
	if !ok {
		d.wrong("phase", "%q does not go with the state %s, current stage %d (%s) and its failures", r.phase, r.desired, r.current, stage)
		return
	}
	if (r.phase == PhaseProgressing || r.phase == PhaseWaiting) && !r.stands() {
		d.wrong("phase", "must not be %q: nothing keeps the current stage %d (%s) from going on", r.phase, r.current, stage)
	}
	if r.phase.halting() && r.phase.ending() != r.settling(r.time) {
		d.wrong("phase", "%q does not go with %s in progress and not stuck, %s after since", r.phase, textlist.Counted(r.stage(r.current).moving(), "target"), textlist.Duration(time.Duration(r.time-r.since)))
	}
}
