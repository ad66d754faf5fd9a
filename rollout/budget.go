package rollout

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/runid"
)

// FailureBudget keeps a version from further targets once it has failed on too many. A target that
// has begun the version goes on, further attempts included, and an open execution of a bracket is
// finished: only what has not begun is held. So the rule needs something that spreads the starts: a
// [GradualRollout], a pool or, with AnyEnvironment, what keeps one environment behind another.
// Where all targets start at once, failures come too late to hold any. At most those targets fail
// beyond the budget that are at work when it is exceeded, or are tried again.
//
// A target counts as failed from the end of the first job that failed until a later job of the
// version succeeds there, also while that later job is active. Jobs with other statuses, and those
// that took the target back to the version, count neither way. The targets are those of one
// deployment that the rule governs and that are in the version's scope. Failures of other versions
// do not count, so a version with the fix begins with a budget of its own. A job that hangs has not
// failed before it ends; onStuck of a [concurrency.Rule] says what becomes of its slot.
//
// Only a success or an [Override] lets the version go on, never time alone; or another version
// takes its place. The curve advances meanwhile: once the failures are within the budget again, all
// targets whose turn has come start, as far as the pools allow.
//
// In a bracket such a version is treated like one that is paused: executions that begin after that,
// even of a group that has locked it, run the other members without it, and dependencies between
// members hold those that need it. A hook version that the target has already is exempt. What was
// left out waits for the next group, even once failures are within the budget again. An override
// that begins after the execution has ended opens that group; after a success a [Target.OutdatedAt]
// does.
//
// A target counts for as long as its jobs are listed: of every version that is still rolled out
// keep the last job that failed or succeeded, even if later jobs did neither. (A kind of rule that
// ctrlplane does not have. Counting by targets, and exceeding by more than the limit, are as in
// package staged.)
type FailureBudget struct {
	// MaxFailures is required: how many targets may have failed. One more holds the version, so 0
	// allows no failure at all. A percentage, at most 100%, is of the targets that could fail and is
	// rounded down: under 10% of nine targets, the first failure holds the version.
	MaxFailures concurrency.Limit `json:"maxFailures"`

	// AnyEnvironment counts the targets of all environments that the rule governs, and holds the
	// version in all of them. Unset: each environment has a budget of its own.
	AnyEnvironment bool `json:"anyEnvironment,omitempty"`

	// OnJobStatuses are the statuses of ended jobs that count as failures. None: every terminal
	// one except successful, cancelled and skipped.
	OnJobStatuses []JobStatus `json:"onJobStatuses,omitempty"`

	// OnVerificationFailure counts a job whose verification failed as well, and none as a success
	// whose verification is still running. Without it the verification is not asked.
	OnVerificationFailure bool `json:"onVerificationFailure,omitempty"`
}

// Validate reports every fault, joined, each a *[FieldError].
func (b FailureBudget) Validate() error {
	var f faults
	switch most := b.MaxFailures; {
	case most.IsZero():
		f.add("maxFailures", CodeRequired, nil, "is required: on how many targets a version may fail; it %s", hintBudget)
	case most.IsPercent() && most.Value() > 100:
		f.add("maxFailures", CodeOutOfRange, most, "%s", hintBudget)
	}
	for i, status := range b.OnJobStatuses {
		f.failure(fmt.Sprintf("onJobStatuses[%d]", i), status)
	}
	return f.err()
}

const hintBudget = `must be a count from 0, without quotes, or a percentage from "0%" to "100%"`

// judge says whether a job has failed, and whether it decides anything: whether it has failed or
// succeeded.
func (b *FailureBudget) judge(job *Job) (failed, decides bool) {
	switch {
	case !job.Status.Terminal() || runid.IsRollback(job.Run):
		return false, false
	case b.OnVerificationFailure && job.Verification == VerificationFailed:
		return true, true
	case slices.Contains(b.OnJobStatuses, job.Status), len(b.OnJobStatuses) == 0 && job.Status.failure():
		return true, true
	}
	return false, job.Status == JobSuccessful && !(b.OnVerificationFailure && job.Verification.undecided())
}

// budgeting holds what failure budgets have found.
type budgeting struct {
	failures map[questionKey]map[int32]failures // by rule, deployment and environment: of each version
	budgets  map[questionKey]asked              // the answers, by version as well
}

// failures is where a version failed.
type failures struct {
	targets []int32
	ahead   time.Time // the first instant at which one more target counts, or one less; zero: none
}

// budget returns what a failure budget says about version n of a deployment in an environment.
func (w *work) budget(rule *compiledRule, environment, deployment, n int32) asked {
	if rule.budget.AnyEnvironment {
		environment = none
	}
	key := questionKey{rule, environment, deployment, n}
	own, known := w.budgets[key]
	if known {
		return own
	}
	v := w.versions[deployment].list[n]
	own = asked{kind: KindFailureBudget, rule: rule.id, since: v.CreatedAt}
	failed := w.failuresOf(rule, environment, deployment)[n]
	w.wake(failed.ahead)
	if len(failed.targets) > 0 {
		if allowed := w.allowance(rule, environment, deployment, n); len(failed.targets) > allowed {
			own.since, own.verdict = time.Time{}, w.overBudget(rule, environment, v, failed.targets, allowed)
		}
	}
	put(&w.budgets, key, own)
	return own
}

// allowance is on how many targets version n may have failed.
func (w *work) allowance(rule *compiledRule, environment, deployment, n int32) int {
	population := 0
	if rule.budget.MaxFailures.IsPercent() {
		for i := range w.budgeted(rule, environment, deployment) {
			if w.inScope(i, n) {
				population++
			}
		}
	}
	return rule.budget.MaxFailures.Of(population, concurrency.Floor)
}

func (w *work) overBudget(rule *compiledRule, environment int32, v *Version, failed []int32, allowed int) Verdict {
	where, names := "", make([]string, len(failed))
	if environment != none {
		where = w.environments[environment].ID
	}
	for k, i := range failed {
		names[k] = w.targets[i].Resource
	}
	slices.Sort(names)
	return Verdict{
		Status: Denied, Reason: ReasonFailureBudget, Rule: rule.id,
		On: []Condition{
			{Kind: OnOperator}, {Kind: OnVersion, Deployment: v.Deployment},
			{Kind: OnJob, Deployment: v.Deployment, Environment: where, Version: v.ID},
		},
		Data: &Data{Attempt: len(failed), Allowed: allowed, Names: slices.Compact(names)},
	}
}

// failuresOf lists, by version, the targets of a deployment on which it failed, in one environment or
// in all.
func (w *work) failuresOf(rule *compiledRule, environment, deployment int32) map[int32]failures {
	key := questionKey{rule, environment, deployment, none}
	all, known := w.failures[key]
	if known {
		return all
	}
	all = map[int32]failures{}
	for i := range w.budgeted(rule, environment, deployment) {
		jobs := w.targets[i].history()
		for k := range jobs.len() {
			stands, ahead := w.stands(rule.budget, jobs, k)
			if !stands && ahead.IsZero() {
				continue
			}
			if n := w.versions[deployment].number(jobs.at(k).Version); n >= 0 && w.inScope(i, n) {
				own := all[n]
				if stands {
					own.targets = append(own.targets, i)
				}
				own.ahead = sooner(own.ahead, ahead)
				all[n] = own
			}
		}
	}
	put(&w.failures, key, all)
	return all
}

// stands reports whether a job failed, and no later job of its version failed or succeeded, by now;
// and when that may change, because the host has recorded for later that one of them ends. Such a
// job counts from then on.
func (w *work) stands(budget *FailureBudget, jobs history, k int) (stands bool, ahead time.Time) {
	own := jobs.at(k)
	if failed, _ := budget.judge(own); !failed {
		return false, time.Time{}
	}
	if end := own.end(); end.After(w.now) {
		return false, end
	}
	for younger := range k {
		job := jobs.at(younger)
		if job.Version != own.Version {
			continue
		}
		if _, decides := budget.judge(job); !decides {
			continue
		}
		end := job.end()
		if !end.After(w.now) {
			return false, ahead
		}
		ahead = sooner(ahead, end)
	}
	return true, ahead
}

// budgeted goes over the targets of a deployment that a failure budget governs, in one environment or
// in all.
func (w *work) budgeted(rule *compiledRule, environment, deployment int32) iter.Seq[int32] {
	first, end := environment, environment+1
	if environment == none {
		first, end = 0, int32(len(w.environments))
	}
	return func(yield func(int32) bool) {
		for e := first; e < end; e++ {
			for _, i := range w.governed(rule, w.targetsIn(e, deployment)) {
				if !yield(i) {
					return
				}
			}
		}
	}
}
