package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/internal/runid"
)

// Rollback takes a target back to the version that succeeded there before when its newest job goes
// wrong. Outside brackets the plan then holds a start with [PurposeRollback], which runs once and
// is never taken back itself. The version that went wrong stays denied on the target. A newer
// version may still start, and an [Override] of the rule, as the operator's command, lifts the
// denial. The first failure counts: what a retry rule would repeat is taken back, and retry rules
// are not asked while the version is denied. Neither windows nor curves delay a rollback; a
// [Freeze] does, unless its FinishBegun is set.
//
// The target goes back to the version of the newest earlier job that succeeded and does not itself
// trigger a rollback rule, as one whose verification failed may. If no such job is listed, the
// target goes back to [Target.Current], unless that is the version that went wrong, or a listed
// success of it triggers a rollback rule. So keep the newest such job of the versions before: with
// neither there is nothing to go back to, and the verdict says so. Once it is there, the target
// keeps that version as any other: a later job of it that fails is repeated with [PurposeDeploy].
// Nothing is asked about that version, which ran there before: it may have been paused or withdrawn
// since, and its targetSelector may leave the target out by now, as after the target was relabelled.
// Nor is asked what other deployments need, see [VersionDependency]. In a bracket a job that goes
// wrong is a final failure, and onMemberFailure decides. (Rollback rule of ctrlplane.)
//
// At least one of the two fields must be set.
type Rollback struct {
	OnJobStatuses         []JobStatus `json:"onJobStatuses,omitempty"`         // statuses of ended jobs that trigger the rule
	OnVerificationFailure bool        `json:"onVerificationFailure,omitempty"` // a failed verification triggers it, too
}

// Validate reports every fault, joined, each a *[FieldError].
func (r Rollback) Validate() error {
	var f faults
	if len(r.OnJobStatuses) == 0 && !r.OnVerificationFailure {
		f.add("onJobStatuses", CodeRequired, nil, "nothing triggers the rule: name at least one status, or set onVerificationFailure").reading("onVerificationFailure")
	}
	for i, status := range r.OnJobStatuses {
		f.failure(fmt.Sprintf("onJobStatuses[%d]", i), status)
	}
	return f.err()
}

func (r *Rollback) triggeredBy(job *Job) bool {
	return slices.Contains(r.OnJobStatuses, job.Status) || r.OnVerificationFailure && job.Verification == VerificationFailed
}

// setback is what the rollback rules say about the version that a target has or has begun.
type setback struct {
	rules  []*compiledRule // those that are triggered
	failed *Job            // the one that triggered it
	to     int32           // number of the version to go back to; none if nothing succeeded before
	done   bool            // the revert succeeded: the target runs to
	stuck  bool            // the revert failed
	active bool            // the revert is under way
}

// setbackOf judges the newest job of version n on target i. n is the floor of the target: no job is
// of a newer version. It returns nil if the job triggers no rule.
func (w *work) setbackOf(i, n int32) *setback {
	rules := w.viewOf(i).rollbacks
	if len(rules) == 0 || n < 0 {
		return nil
	}
	t := &w.targets[i]
	versions := &w.versions[t.deployment]
	id := versions.list[n].ID
	jobs := t.history()
	failed := jobs.index(func(job *Job) bool { return job.Version == id })
	if failed < 0 || runid.IsRollback(jobs.at(failed).Run) {
		return nil
	}
	s := &setback{failed: jobs.at(failed), to: none}
	for _, rule := range rules {
		if rule.rollback.triggeredBy(s.failed) && w.overriddenAt(rule.id, i, n) == nil {
			s.rules = append(s.rules, rule)
		}
	}
	if len(s.rules) == 0 {
		return nil
	}
	for k := failed - 1; k >= 0; k-- { // younger jobs, oldest first: the first one of an older version is the revert
		job := jobs.at(k)
		if back := versions.number(job.Version); back >= 0 {
			s.to = back
			switch {
			case !job.Status.Terminal():
				s.active = true
			case job.Status == JobSuccessful:
				s.done = true
			default:
				s.stuck = true
			}
			return s
		}
	}
	for k := failed + 1; k < jobs.len(); k++ {
		job := jobs.at(k)
		if job.Status == JobSuccessful && job.Version != id && !slices.ContainsFunc(rules, func(r *compiledRule) bool { return r.rollback.triggeredBy(job) }) {
			if s.to = versions.number(job.Version); s.to >= 0 {
				return s
			}
		}
	}
	succeeded := func(job Job) bool { return job.Status == JobSuccessful && versions.number(job.Version) == t.current }
	if n != t.current && t.current >= 0 && !slices.ContainsFunc(t.Jobs, succeeded) {
		s.to = t.current // a host that prunes its jobs says what is current; a job that is listed and no good was looked at above
	}
	return s
}

// keeps returns the number of the version that the target keeps, or is on its way back to; none if
// the way back has not begun, or has failed.
func (s *setback) keeps(t *target, floor int32) int32 {
	switch {
	case s.active:
		return s.to
	case s.done && t.current < floor:
		return max(s.to, t.current) // the target has gone on from there, and the version that went wrong became the newer one only later
	case s.done:
		return s.to
	}
	return none
}

// blockers returns all that stands in the way of the version that went wrong: the rules, and a job
// that is in progress. An operator who lets the version past the rules would wait for that job.
func (s *setback) blockers(w *work, t *target) []Verdict {
	verdict := Verdict{
		Status: Denied, Reason: ReasonRollbackTriggered,
		On:   []Condition{{Kind: OnOperator}, {Kind: OnVersion, Deployment: t.Deployment}},
		Data: &Data{Detail: string(s.failed.Status)},
	}
	if s.failed.Verification == VerificationFailed {
		verdict.Data.Detail = "verification failed"
	}
	if s.to >= 0 {
		verdict.Data.Names = []string{w.versions[t.deployment].list[s.to].ID}
	}
	if s.stuck {
		verdict.Reason = ReasonRollbackFailed
	}
	all := make([]Verdict, len(s.rules))
	for k, rule := range s.rules {
		all[k], all[k].Rule = verdict, rule.id
	}
	if t.busy {
		all = append(all, busy(t))
	}
	return all
}

// setBack handles a target whose version went wrong. It returns true for such a target: nothing
// else is asked about it.
func (w *work) setBack(i, floor int32) (settled bool) {
	s := w.setbackOf(i, floor)
	if s == nil {
		return false
	}
	t := &w.targets[i]
	versions := w.versions[t.deployment].list
	switch {
	case s.active:
		w.kept(i)
	case s.done:
		kept := s.keeps(t, floor)
		w.wait(i, versions[floor].ID, s.blockers(w, t))
		if blockers, needed := w.repeat(i, kept); len(blockers) > 0 {
			w.waitWithOlder(i, kept, versions[kept].ID, blockers)
		} else if needed {
			w.offer(i, kept, w.repeatDue(i, kept), 0)
		}
	case s.stuck, s.to < 0, t.busy:
		w.wait(i, versions[floor].ID, s.blockers(w, t))
	default:
		if frozen := w.freezes(nil, i, true); len(frozen) > 0 {
			w.waitWithOlder(i, s.to, versions[s.to].ID, frozen)
			break
		}
		c := w.offer(i, s.to, s.failed.end(), 0)
		c.revert = true
	}
	return true
}

// verifying reports whether the host still verifies the newest job of a target.
func (t *target) verifying() bool {
	return t.worked() && t.history().at(0).Verification.undecided()
}

// failedBy reports whether a rollback rule counts an ended run of a bracket's member as a failure
// that no retry mends, and whether a run that succeeded has yet to be judged.
func (w *work) failedBy(i int32, job *Job) (final, judging bool) {
	n := w.number(i, job.Version)
	for _, rule := range w.viewOf(i).rollbacks {
		if w.overriddenAt(rule.id, i, n) != nil {
			continue
		}
		final = final || rule.rollback.triggeredBy(job)
		judging = judging || rule.rollback.OnVerificationFailure && job.Status == JobSuccessful && job.Verification.undecided()
	}
	return final, judging
}
