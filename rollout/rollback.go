package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/internal/runid"
)

// Rollback takes a target back to the version that succeeded there before, when the newest job of
// what it has or has begun goes wrong, or when that version is taken back everywhere. Outside
// brackets the plan then holds a start with [PurposeRollback], which runs once and is never taken
// back itself. The version stays denied on the target. A newer version that may start, or waits for
// a slot alone, comes in place of the way back, and an [Override] of the rule, as the operator's
// command, lifts the denial for as long as it lasts. The first failure counts: what a retry rule
// would repeat is taken back, and retry rules are not asked while the version is denied. Neither
// windows nor curves delay a rollback, and it comes before every other start; only the pools, a job
// that is still at work on the target, and a [Freeze] without FinishBegun do. So without a pool all
// targets go back at once. Where jobs that hang have all slots of a pool, end them, or override the
// concurrency rule for the version to go back to.
//
// OnJobStatuses and OnVerificationFailure look at one target, and take only that target back. They
// go by the newest job of the version there that was neither cancelled nor skipped, unless the rule
// names that status: so a later success lifts the denial, as of a job of the host's own.
// OnVersionStatuses and OnFailureBudget look at the version, and take back all targets of the rule
// that have or have begun it, also those where it succeeded, but not those that have begun a newer
// one since, even if that failed: what is there now is of the newer one, so take that back as well.
// Nor do those go further back that a rollback has brought to this version. So where several
// versions in a row are bad, give all of them the status before the next plan, or the older ones
// first: else targets go from the newest to one that is bad as well, and stay there until a newer
// one comes. The two act for as long as the version has the status or is over the budget; a target
// that went back before that was over stays where it is. To bring the version there again, override
// the rule. The targets of the override then start at once, as far as the pools allow, because they
// had their turn in the curve before. A new version with the same content has a curve of its own.
//
// The target goes back to the version of the newest earlier job that succeeded and does not itself
// trigger a rollback rule, as one whose verification failed may, or one whose version is taken back
// as well. If no such job is listed, the target goes back to [Target.Current], unless that is the
// version that went wrong, a listed success of it triggers a rollback rule, or it is taken back as
// well. So keep the newest such job of the versions before: with neither there is nothing to go back
// to, and the verdict says so. The same holds for a target that runs the version without a job of it.
//
// A rollback that fails is not tried again, because nobody knows what is there then: the target
// waits with [ReasonRollbackFailed] for a newer version, an Override, or a job of the host's own by
// which an older version succeeds. Once it is at an older version, the target keeps that version as
// any other: a run that a [Target.OutdatedAt] asks for has [PurposeDeploy], and is repeated if it
// fails. Nothing is asked about that version, which ran there before: it may have been paused or
// withdrawn since, and its targetSelector may leave the target out by now, as after the target was
// relabelled. Nor is asked what other deployments need, see [VersionDependency]: take back first
// what needs the version.
//
// In a bracket a job that goes wrong is a final failure, and onMemberFailure decides. So is any job
// of a version that is taken back, if it ends without success from then on. An open execution is
// finished: a member that waits for its next attempt by then, or has not begun, is still given the
// version, unless [bracket.Skip] takes it out. A member that has succeeded keeps its version, since
// only an execution may change it: publish a newer version, which opens a group.
// (Rollback rule of ctrlplane, which knows OnJobStatuses and OnVerificationFailure; the two others
// are what people ask of rollouts whose failures show late.)
//
// At least one of the four fields must be set.
type Rollback struct {
	OnJobStatuses         []JobStatus `json:"onJobStatuses,omitempty"`         // statuses of ended jobs that trigger the rule
	OnVerificationFailure bool        `json:"onVerificationFailure,omitempty"` // a failed verification triggers it, too

	// OnVersionStatuses are statuses of a version, such as "rejected", by which an operator takes it
	// back. Neither ready nor paused may be among them: with these a version stays where it is.
	OnVersionStatuses []VersionStatus `json:"onVersionStatuses,omitempty"`

	// OnFailureBudget takes back a version that is over a [FailureBudget] that governs the target, of
	// whatever policy; an override of the budget's rule counts.
	OnFailureBudget bool `json:"onFailureBudget,omitempty"`
}

// Validate reports every fault, joined, each a *[FieldError].
func (r Rollback) Validate() error {
	var f faults
	if len(r.OnJobStatuses) == 0 && !r.OnVerificationFailure && len(r.OnVersionStatuses) == 0 && !r.OnFailureBudget {
		f.add("onJobStatuses", CodeRequired, nil, "nothing triggers the rule: name at least one status, here or in onVersionStatuses, or set onVerificationFailure or onFailureBudget").
			reading("onVerificationFailure", "onVersionStatuses", "onFailureBudget")
	}
	for i, status := range r.OnJobStatuses {
		f.failure(fmt.Sprintf("onJobStatuses[%d]", i), status)
	}
	for i, status := range r.OnVersionStatuses {
		path := fmt.Sprintf("onVersionStatuses[%d]", i)
		switch status {
		case "":
			f.add(path, CodeRequired, nil, "must be a status of versions, such as rejected")
		case VersionReady, VersionPaused:
			f.add(path, CodeOutOfRange, status, "must be a status by which a version is taken back: one that is %s stays where it is", status)
		}
	}
	return f.err()
}

func (r *Rollback) triggeredBy(job *Job) bool {
	return slices.Contains(r.OnJobStatuses, job.Status) || r.OnVerificationFailure && job.Verification == VerificationFailed
}

// ofVersions reports whether the rule takes back versions, and not only single targets.
func (r *Rollback) ofVersions() bool { return len(r.OnVersionStatuses) > 0 || r.OnFailureBudget }

// wayBack is what the rollback rules say about the version that a target has or has begun.
type wayBack struct {
	triggers []trigger // of the rules that are triggered
	last     *Job      // the newest of the version; nil if none is listed
	to       int32     // number of the version to go back to; none if nothing succeeded before
	done     bool      // the revert succeeded, or a job of the host's own after it: the target runs to
	stuck    bool      // the revert failed, and nothing has brought the target to an older version since
	active   bool      // the revert is under way
}

// trigger is why a rule denies a version on a target.
type trigger struct {
	rule *compiledRule
	why  string
	on   []Condition // what can change it; nil: an operator or another version
}

// wayBackOf judges version n on target i, and its newest job there. n is the floor of the target:
// no job is of a newer version. It returns nil if no rule is triggered.
func (w *work) wayBackOf(i, n int32) *wayBack {
	rules := w.viewOf(i).rollbacks
	if len(rules) == 0 || n < 0 {
		return nil
	}
	t := &w.targets[i]
	versions := &w.versions[t.deployment]
	id := versions.list[n].ID
	jobs := t.history()
	last := w.newestOutcome(i, id)
	if last >= 0 && runid.IsRollback(jobs.at(last).Run) {
		return nil
	}
	revert := last - 1
	for revert >= 0 && (versions.number(jobs.at(revert).Version) < 0 || jobs.at(revert).Version == id) { // younger jobs, oldest first: the first one of an older version is the revert
		revert--
	}
	var newest *Job
	if last >= 0 {
		newest = jobs.at(last)
	}
	triggers := w.triggersOf(i, n, newest, revert >= 0 && runid.IsRollback(jobs.at(revert).Run))
	if len(triggers) == 0 {
		return nil
	}
	s := &wayBack{triggers: triggers, last: newest, to: none}
	switch {
	case last < 0:
	case revert >= 0:
		job := jobs.at(revert)
		s.to, s.active, s.done = versions.number(job.Version), !job.Status.Terminal(), job.Status == JobSuccessful
		if s.stuck = !s.active && !s.done; !s.stuck {
			break
		}
		// No plan takes the target back once more, but the host may, by a job of its own.
		back := jobs.index(func(job *Job) bool { return job.Status == JobSuccessful && versions.number(job.Version) >= 0 })
		if back >= 0 && back < revert {
			s.to, s.done, s.stuck = versions.number(jobs.at(back).Version), true, false
		}
	default:
		s.to = w.versionBefore(i, n, last)
	}
	return s
}

// newestOutcome returns the place of the job of a version by which rollback rules go: the newest one on
// target i that was neither cancelled nor skipped, unless a rule names that status. These are no
// attempts, so they do not lift a denial: an operator who tries once more what was taken back, and
// cancels that, does not want it started again. It is the newest one of all if there is no other, and
// in a bracket, where such a job has failed; -1 if there is none.
func (w *work) newestOutcome(i int32, version string) int {
	jobs, rules := w.targets[i].history(), w.viewOf(i).rollbacks
	outcome := func(job *Job) bool {
		called := job.Status == JobCancelled || job.Status == JobSkipped
		return job.Version == version && (!called || slices.ContainsFunc(rules, func(r *compiledRule) bool { return r.rollback.triggeredBy(job) }))
	}
	if last := jobs.index(outcome); last >= 0 && !w.members[i] {
		return last
	}
	return jobs.index(func(job *Job) bool { return job.Version == version })
}

// versionBefore returns the version that target i goes back to from version n, whose newest job is
// last.
func (w *work) versionBefore(i, n int32, last int) int32 {
	t := &w.targets[i]
	rules, versions, jobs := w.viewOf(i).rollbacks, &w.versions[t.deployment], t.history()
	recalled := func(n int32) bool {
		return slices.ContainsFunc(rules, func(rule *compiledRule) bool { return w.recalled(rule, i, n).rule != nil })
	}
	for k := last + 1; k < jobs.len(); k++ {
		job := jobs.at(k)
		if job.Status != JobSuccessful || job.Version == versions.list[n].ID || slices.ContainsFunc(rules, func(r *compiledRule) bool { return r.rollback.triggeredBy(job) }) {
			continue
		}
		if to := versions.number(job.Version); to >= 0 && !recalled(to) {
			return to
		}
	}
	succeeded := func(job Job) bool { return job.Status == JobSuccessful && versions.number(job.Version) == t.current }
	if n != t.current && t.current >= 0 && !slices.ContainsFunc(t.Jobs, succeeded) && !recalled(t.current) {
		return t.current // a host that prunes its jobs says what is current; a job that is listed and no good was looked at above
	}
	return none
}

// triggersOf returns what triggers rollback rules on target i for version n, of which last is the
// newest job, if there is one; back: after which a rollback was started.
func (w *work) triggersOf(i, n int32, last *Job, back bool) (list []trigger) {
	rules := w.viewOf(i).rollbacks
	byJob := func(rule *compiledRule) bool { return last != nil && rule.rollback.triggeredBy(last) }
	back = back && !w.members[i] && !slices.ContainsFunc(rules, byJob) // else the rollback was for the job
	keeps := w.members[i] && (last == nil || last.Status == JobSuccessful)
	for _, rule := range rules {
		if w.overriddenAt(rule.id, i, n) != nil {
			continue
		}
		var own trigger
		if !keeps && !byJob(rule) { // else it need not be asked, nor what may change its answer
			own = w.recalled(rule, i, n)
		}
		if back {
			own.on = nil // the target stays where it is, whatever succeeds elsewhere
		}
		switch {
		case byJob(rule) && last.Verification == VerificationFailed:
			list = append(list, trigger{rule: rule, why: "verification failed"})
		case byJob(rule):
			list = append(list, trigger{rule: rule, why: string(last.Status)})
		case own.rule != nil:
			list = append(list, own)
		case back && rule.rollback.ofVersions():
			list = append(list, trigger{rule: rule, why: "taken back before"})
		}
	}
	return list
}

// recalled returns why a rule takes version n back, on target i as on the others that it governs. Its
// rule is nil if it does not.
func (w *work) recalled(rule *compiledRule, i, n int32) trigger {
	if v := w.version(i, n); slices.Contains(rule.rollback.OnVersionStatuses, v.Status) {
		return trigger{rule: rule, why: "version " + string(v.Status)}
	}
	if !rule.rollback.OnFailureBudget {
		return trigger{}
	}
	t := &w.targets[i]
	for _, budget := range w.viewOf(i).budgets {
		if w.overriddenAt(budget.id, i, n) != nil {
			continue
		}
		if own := w.budget(budget, t.environment, t.deployment, n); own.verdict.Reason != "" {
			return trigger{rule, "over failureBudget " + budget.id, own.verdict.On}
		}
	}
	return trigger{}
}

// keeps returns the number of the version that the target keeps, or is on its way back to; none if
// the way back has not begun, or has failed.
func (s *wayBack) keeps(t *target, floor int32) int32 {
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
func (s *wayBack) blockers(w *work, t *target) []Verdict {
	reason := ReasonRollbackTriggered
	if s.stuck {
		reason = ReasonRollbackFailed
	}
	var names []string
	if s.to >= 0 {
		names = []string{w.versions[t.deployment].list[s.to].ID}
	}
	all := make([]Verdict, len(s.triggers))
	for k, own := range s.triggers {
		if own.on == nil {
			own.on = []Condition{{Kind: OnOperator}, {Kind: OnVersion, Deployment: t.Deployment}}
		}
		all[k] = Verdict{Status: Denied, Reason: reason, Rule: own.rule.id, On: own.on, Data: &Data{Detail: own.why, Names: names}}
	}
	if t.busy {
		all = append(all, busy(t))
	}
	return all
}

// goBack handles a target whose version went wrong. It returns true for such a target: nothing
// else is asked about it.
func (w *work) goBack(i, floor int32) (settled bool) {
	s := w.wayBackOf(i, floor)
	if s == nil {
		return false
	}
	t := &w.targets[i]
	versions := w.versions[t.deployment].list
	switch {
	case s.active:
		w.countKept(i)
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
		if frozen := w.freezeBlockers(nil, i, true); len(frozen) > 0 {
			w.waitWithOlder(i, s.to, versions[s.to].ID, frozen)
			break
		}
		c := w.offer(i, s.to, s.last.end(), 0)
		c.revert = true
	}
	return true
}

// verifying reports whether the host still verifies the newest job of a target.
func (t *target) verifying() bool {
	return t.worked() && t.history().at(0).Verification.undecided()
}

// failedBy reports whether a rollback rule counts an ended run of a bracket's member as a failure
// that no retry mends, and whether a run that succeeded has yet to be judged. A run that succeeded
// stays a success, whatever becomes of its version later.
func (w *work) failedBy(i int32, job *Job) (final, judging bool) {
	n := w.number(i, job.Version)
	for _, rule := range w.viewOf(i).rollbacks {
		if w.overriddenAt(rule.id, i, n) != nil {
			continue
		}
		final = final || rule.rollback.triggeredBy(job) || job.Status != JobSuccessful && n >= 0 && w.recalled(rule, i, n).rule != nil
		judging = judging || rule.rollback.OnVerificationFailure && job.Status == JobSuccessful && job.Verification.undecided()
	}
	return final, judging
}
