package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/runid"
)

// On which targets a version that a progression waits for succeeds no more by itself, and on which a
// plan runs it once more. Lint asks the same questions.

// outOfReach counts the targets of an environment on which a version succeeds no more by itself.
type outOfReach struct {
	passed  int // they run or have begun a newer version, and do not go back to this one
	failed  int // for good
	adopted int
}

func (o outOfReach) count() int { return o.passed + o.failed + o.adopted }

// unless says why a percentage can no longer be reached by itself; empty if it can.
func (o outOfReach) unless(population, required int) string {
	if population-o.count() >= required {
		return ""
	}
	var list []string
	for _, own := range [...]struct {
		n    int
		what string
	}{
		{o.passed, "went on to a newer version without this one"},
		{o.failed, "failed for good"},
		{o.adopted, "run it without a job that succeeded"},
	} {
		switch {
		case own.n == 0:
		case len(list) == 0:
			list = append(list, fmt.Sprintf("%d of %d targets there %s", own.n, population, own.what))
		default:
			list = append(list, fmt.Sprintf("%d %s", own.n, own.what))
		}
	}
	text := strings.Join(list, " and ")
	if population-o.passed < required {
		return text + ", so that it cannot be reached any more"
	}
	return text + ", so that it cannot be reached without an operator"
}

// runsAgain reports whether a target that has begun version n, or a newer one, runs n by itself: it
// keeps n and needs another job, also once a change of the future outdates it, and an attempt is
// left; or it goes back to n, or may yet do so. That change makes no difference when it comes.
func (w *work) runsAgain(i, n int32) bool {
	t := &w.targets[i]
	keeps := t.floor()
	if s := w.wayBackOf(i, keeps); s != nil {
		if !s.done && !s.stuck {
			return s.to == n
		}
		keeps = s.keeps(t, keeps)
	}
	if keeps != n {
		return keeps > n && w.mayGoBack(i, n)
	}
	id := w.version(i, n).ID
	own := t.latest(id)
	return (w.undone(i, n, own) || t.outdated && !t.renewed(id)) && (t.askedAgain(id) || w.after(i, n, w.tried(i, n, own)).reason != ReasonRetryExhausted)
}

// mayGoBack reports whether a rollback rule, or the bracket of a member, takes the target back to
// version n if the newer version that it keeps goes wrong: if that has yet to succeed, or a rule may
// take it back everywhere.
func (w *work) mayGoBack(i, n int32) bool {
	t := &w.targets[i]
	if w.members[i] {
		return t.current == n
	}
	rules, floor, id := w.viewOf(i).rollbacks, t.floor(), w.version(i, n).ID
	newer := w.version(i, floor).ID
	if len(rules) == 0 {
		return false
	}
	settled := !t.busy && !t.verifying() && !w.undone(i, floor, t.latest(newer)) && (!t.outdated || t.renewed(newer))
	if settled && !slices.ContainsFunc(rules, func(r *compiledRule) bool { return r.rollback.ofVersions() }) {
		return false
	}
	good := func(job *Job) bool {
		return job.Version == id && job.Status == JobSuccessful && !slices.ContainsFunc(rules, func(r *compiledRule) bool { return r.rollback.triggeredBy(job) })
	}
	if t.history().index(good) >= 0 {
		return true
	}
	// A host that prunes its jobs says what is current, see wayBackOf; a success that is listed is
	// no good.
	return t.current == n && t.history().index(func(job *Job) bool { return job.Version == id && job.Status == JobSuccessful }) < 0
}

// adopted reports whether a target runs version n because the host says so, without any job of it.
// No plan runs it there again, unless a bracket does, or something outdates it.
func (w *work) adopted(i, n int32) bool {
	t := &w.targets[i]
	return t.current == n && !t.busy && !w.members[i] && t.latest(w.version(i, n).ID).len() == 0 && !w.runsAgain(i, n)
}

// failedForGood reports whether a target has begun version n and failed, and no plan tries it
// again: no attempt is left, a rollback rule refuses the version there, or the target keeps it as
// it is, such as where the checks after it failed and nothing takes it back. A member of a bracket
// then has failed in its execution; only a later group can bring it the version once more. Whoever
// asks has seen that no job of the version there is a success, at work, or still to be verified.
func (w *work) failedForGood(i, n int32) bool {
	t := &w.targets[i]
	switch {
	case !t.worked() || t.floor() != n:
		return false
	case w.members[i]:
		return w.failedAsMember(i, n)
	case w.wayBackOf(i, n) != nil:
		return true
	}
	return !t.busy && (t.current != n || t.latest(w.version(i, n).ID).len() > 0) && !w.runsAgain(i, n)
}

// failedAsMember is failedForGood for a member of a bracket: what runFact reports as failed without
// a next attempt.
func (w *work) failedAsMember(i, n int32) bool {
	t := &w.targets[i]
	id := w.version(i, n).ID
	jobs := t.history()
	k := jobs.index(func(job *Job) bool { return job.Version == id && !runid.IsRollback(job.Run) })
	if k < 0 || !strings.HasSuffix(jobs.at(k).Run, "/"+string(bracket.Deploy)) {
		return false // none, or one of which the bracket does not know
	}
	if w.outdated(t, id) {
		return false // the next group runs it again
	}
	final, _ := w.failedBy(i, jobs.at(k))
	return final || jobs.at(k).Status != JobSuccessful && w.nextAttempt(i, k, bracket.Deploy).IsZero()
}
