package rollout

import (
	"slices"
	"time"
)

// repeat reports whether the version that a target keeps needs another job, because the last one
// failed and may be tried again or because the target is outdated. Only windows, retry, a freeze, a
// busy target and capacity can stand in the way of a version that was allowed before.
func (w *work) repeat(i, floor int32) (blockers []Verdict, needed bool) {
	t := &w.targets[i]
	if !t.worked() && !t.outdated {
		return nil, false // then the version is current
	}
	own := t.latest(w.version(i, floor).ID)
	if !w.needsJob(i, floor, own) {
		return nil, false
	}
	blockers, tried := w.windowBlockers(nil, i, floor), w.tried(i, floor, own)
	for _, rule := range w.retriesOf(i) {
		a := w.repeatUnder(rule, i, floor, tried)
		if a.reason == "" {
			continue
		}
		verdict := Verdict{Status: Pending, Reason: a.reason, Rule: rule.id, Until: a.next, Data: &Data{Attempt: a.failed, Allowed: a.allowed}}
		if a.back != nil {
			verdict.Data.Names = []string{a.back.Version}
		}
		if a.reason == ReasonRetryExhausted {
			verdict.Status, verdict.Until = Denied, time.Time{}
			verdict.On = []Condition{{Kind: OnOperator}, {Kind: OnVersion, Deployment: t.Deployment}}
		}
		w.wake(verdict.Until)
		blockers = append(blockers, verdict)
	}
	if w.frozenAt(i) {
		begun := !w.onlyOutdated(i, floor, own) || tried.len() > 0 // an attempt has failed
		blockers = w.freezeBlockers(blockers, i, begun)
	}
	if t.busy {
		blockers = w.appendVerdict(blockers, busy(t))
	}
	return blockers, true // overrides are heeded already: an override of a retry rule forgives attempts, it does not repeat without end
}

// needsJob reports whether the version that a target keeps needs another job after its newest ones:
// it is not in progress, and has not succeeded, or not since the target is outdated.
func (w *work) needsJob(i, floor int32, own history) bool {
	t := &w.targets[i]
	if own.len() > 0 && !own.at(0).Status.Terminal() {
		return false // in progress
	}
	return !w.done(i, floor, own) || w.outdated(t, w.version(i, floor).ID)
}

// undone reports whether the version that a target keeps needs another job whether the target is
// outdated or not.
func (w *work) undone(i, floor int32, own history) bool {
	return (own.len() == 0 || own.at(0).Status.Terminal()) && !w.done(i, floor, own)
}

// done reports whether the version that a target keeps, after its newest ended jobs, needs a
// further one only if the target is outdated. A success needs none, even if the host has not noted
// yet that the version is current.
func (w *work) done(i, floor int32, own history) bool {
	t := &w.targets[i]
	return floor == t.current || own.len() > 0 && own.at(0).Status == JobSuccessful || t.takenBack(w.version(i, floor).ID)
}

// onlyOutdated reports whether it is an OutdatedAt alone that can ask for a run of the version that
// a target keeps: it is done, or it has been given up before.
func (w *work) onlyOutdated(i, floor int32, own history) bool {
	t, id := &w.targets[i], w.version(i, floor).ID
	return w.done(i, floor, own) || t.askedAgain(id) && w.outdated(t, id)
}

// tried returns those of the newest jobs of the version that a target keeps which are attempts at
// what it needs now: where it is the present OutdatedAt alone that asks for a run, those created
// since. What was attempted for an earlier one is no failure of this change.
func (w *work) tried(i, floor int32, own history) history {
	t := &w.targets[i]
	if !t.outdated || !w.onlyOutdated(i, floor, own) {
		return own
	}
	if old := own.index(func(job *Job) bool { return job.CreatedAt.Before(t.OutdatedAt) }); old >= 0 {
		return own.newest(old)
	}
	return own
}

// repeatDue returns when the version that a target keeps became due for another job. That is an
// instant of the past and not now, or else the order of the starts would change while nothing
// happens.
func (w *work) repeatDue(i, floor int32) time.Time {
	t := &w.targets[i]
	own := t.latest(w.version(i, floor).ID)
	due := w.after(i, floor, w.tried(i, floor, own)).next
	if t.worked() {
		due = later(due, t.history().at(0).end())
	}
	if w.onlyOutdated(i, floor, own) { // else it is repeated whether outdated or not, and a change does not move it back
		due = later(due, t.OutdatedAt)
	}
	return due
}

// latest returns the newest jobs, up to the first one of another version. Jobs of the host's own by
// which it has tried another version since are passed over where a job that ended without success is
// behind them: they make no new row of attempts, or else an operator who goes back by hand would
// have the version that failed started once more.
func (t *target) latest(version string) history {
	jobs := t.history()
	since := jobs.index(func(job *Job) bool { return job.Run != "" || job.Version == version })
	if since > 0 {
		if job := jobs.at(since); job.Version == version && job.Status.Terminal() && job.Status != JobSuccessful {
			jobs = jobs.behind(since)
		}
	}
	if k := jobs.index(func(job *Job) bool { return job.Version != version }); k >= 0 {
		return jobs.newest(k)
	}
	return jobs
}

// outdated reports whether a target needs a run of the version it already has, because no run of
// that version has succeeded since the change that outdated the target; see renewed.
func (w *work) outdated(t *target, version string) bool {
	if !t.outdated {
		return false
	}
	if t.OutdatedAt.After(w.now) {
		w.wake(t.OutdatedAt)
		return false
	}
	return !t.renewed(version)
}

// renewed reports whether a job of the version has succeeded that was created no earlier than the
// change that outdated the target.
func (t *target) renewed(version string) bool {
	return slices.ContainsFunc(t.Jobs, func(job Job) bool {
		return job.Status == JobSuccessful && job.Version == version && !job.CreatedAt.Before(t.OutdatedAt)
	})
}
