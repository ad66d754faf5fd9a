package rollout

import "slices"

// takenBack reports whether a job of the host's own took a target back from a version that has
// succeeded there. That version counts as done and is not started again at once: an operator who
// goes back by hand in an emergency means it, most of all if the verification of the version has
// failed. So it does not matter what happened since without success: a further job of the version
// that the target went back to may be at work, or may have failed. A run of a plan that came late,
// of an older version than others had deployed meanwhile, does not count: the newer version is
// started again. The version is newer than what runs, so the target has a job.
func (t *target) takenBack(version string) bool {
	return t.broughtByHand(version) != nil && slices.ContainsFunc(t.Jobs, func(job Job) bool {
		return job.Version == version && job.Status == JobSuccessful
	})
}

// broughtByHand returns the newest success on a target if that is a job of the host's own, and not
// of the version; otherwise nil.
func (t *target) broughtByHand(version string) *Job {
	if job := t.history().newestSuccess(); job != nil && job.Run == "" && job.Version != version {
		return job
	}
	return nil
}

// givenUp returns the job of the host's own that took a target back from a version that had begun
// there, and of which nothing has been created since; otherwise nil. As in takenBack, whoever goes
// back by hand means it: if the version needs a job, no attempt is left.
func (t *target) givenUp(version string) *Job {
	back, jobs := t.broughtByHand(version), t.history()
	if back == nil {
		return nil
	}
	if k := jobs.index(func(job *Job) bool { return job.Version == version }); k < 0 || newer(back, jobs.at(k)) > 0 {
		return nil
	}
	return back
}

// askedAgain reports whether an OutdatedAt asks for a run of a version that had been given up on the
// target, now or later.
func (t *target) askedAgain(version string) bool {
	back := t.givenUp(version)
	return back != nil && t.outdated && !t.OutdatedAt.Before(back.CreatedAt)
}

// askedSince reports whether somebody has asked for a run of version n since the job by which it was
// given up on the target, under a retry rule, or without one if the rule is empty: by an OutdatedAt,
// or by an override of that rule or of a rollback rule.
func (w *work) askedSince(back *Job, rule string, i, n int32) bool {
	if t, id := &w.targets[i], w.version(i, n).ID; t.askedAgain(id) && w.outdated(t, id) {
		return true
	}
	overridden := func(rule string) bool {
		o := w.overridesAt(rule, i, n).last
		return o != nil && !o.CreatedAt.Before(back.CreatedAt)
	}
	return overridden(rule) || slices.ContainsFunc(w.viewOf(i).rollbacks, func(r *compiledRule) bool { return overridden(r.id) })
}
