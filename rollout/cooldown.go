package rollout

import (
	"time"
)

// VersionCooldown keeps two different versions apart on one target: a newer one may start only when
// the version that the target is getting, or last got, is old enough. The interval counts from the
// creation of that version, so releases that follow one another quickly are skipped until one of
// them has stood for the interval. A version whose job has succeeded counts at once if the job is
// not verified, and otherwise once the verification has passed. While the verification runs, and
// for good if it fails, the version that succeeded before counts. (Version cooldown of ctrlplane's
// policy rules.)
type VersionCooldown struct {
	IntervalSeconds *int64 `json:"intervalSeconds"` // required; at least 0, and 0 keeps nothing apart
}

// Validate reports a missing, negative or overflowing interval as a *[FieldError].
func (c VersionCooldown) Validate() error {
	var f faults
	if n := c.IntervalSeconds; n == nil {
		f.add("intervalSeconds", CodeRequired, nil, "is required: how many seconds a version stands before another one may follow")
	} else {
		f.within("intervalSeconds", *n, 0, maxSeconds, "seconds")
	}
	return f.err()
}

// reference returns the number of the version whose age counts on a target: that of the newest
// active job, else that of the newest success whose verification is empty or passed. If no job has
// succeeded, it is the version that the host says is current; none if there is none. What other
// targets run does not matter.
func (w *work) reference(t *target) int32 {
	jobs, versions := t.history(), &w.versions[t.deployment]
	if job := jobs.newestActive(); job != nil {
		return versions.number(job.Version)
	}
	good := func(job *Job) bool {
		return job.Status == JobSuccessful && (job.Verification == "" || job.Verification == VerificationPassed)
	}
	if k := jobs.index(good); k >= 0 {
		return versions.number(jobs.at(k).Version)
	}
	if jobs.newestSuccess() != nil {
		return none
	}
	return t.current // a host that prunes its jobs says what is current
}

// cooldown reports whether a rule delays version n on target i, and returns the verdict for that. If
// the wait counts from an active job, the end of that job may end the wait earlier: the version of a
// failed job is no longer the reference.
func (w *work) cooldown(rule *compiledRule, i, n int32) (verdict Verdict, waits bool) {
	t := &w.targets[i]
	reference := w.reference(t)
	if reference < 0 || reference == n {
		return Verdict{}, false
	}
	v := w.version(i, reference)
	end := addTime(v.CreatedAt, time.Duration(*rule.cooldown.IntervalSeconds)*time.Second)
	if !w.now.Before(end) {
		return Verdict{}, false
	}
	w.wake(end)
	verdict = Verdict{Status: Denied, Reason: ReasonCooldown, Rule: rule.id, Until: end, Data: w.keepData(Data{Names: []string{v.ID}})}
	if t.busy {
		verdict.On = onJob(t)
	}
	return verdict, true
}

// coolsDown calls wake with the instants from which on newer versions may follow that of a start. An
// execution may start a version that is deleted by now: then its age is not known. The fields of a
// plan's starts are the caller's to change: what names no target cools nothing down.
func (w *work) coolsDown(start *Start, wake func(time.Time)) {
	i := w.target(start.TargetID)
	if i == none {
		return
	}
	versions := &w.versions[w.targets[i].deployment]
	n := int(versions.number(start.Version))
	if n < 0 || n == len(versions.list)-1 || versions.list[n+1].CreatedAt.After(w.now) {
		return // nothing newer waits, or its publication wakes the host
	}
	for _, rule := range w.viewOf(i).cooldowns {
		wake(addTime(versions.list[n].CreatedAt, time.Duration(*rule.cooldown.IntervalSeconds)*time.Second))
	}
}
