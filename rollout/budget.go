package rollout

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
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
// deployment that the rule governs and that are in the version's scope. A run that a
// [Target.OutdatedAt] asks for can fail as well, and then counts against the version.
//
// A job that hangs has not failed before it ends, even if the machine that should report is dead.
// So the budget does not stop a version of which every job hangs, and a curve takes it to all
// targets: only a pool does, because the jobs keep their slots, or a host that ends as failed what
// takes too long. onStuck of a [concurrency.Rule] says what becomes of such a slot.
//
// Failures of other versions do not count, so a version with the fix begins with a budget of its
// own. So does each of many bad versions, such as files that are generated every few minutes, and
// in the order that is another one for every version each of them fails on other targets: write
// [SaltNone], so that the same few fail, or let versions succeed in another environment first.
//
// MaxFailures is a share of all targets: where it is a percentage of a large fleet, many targets fail
// before it holds a version that fails on all of them. MaxFailureRate is a share of those on which
// the version has come to an end, failed or succeeded. It holds such a version as soon as
// MinimumSample targets have shown it, also where the last of them succeeds. Where both are given,
// each of them holds the version.
//
// A version over its budget stays where it is, unless a [Rollback] with OnFailureBudget takes it back.
//
// Only a success or an [Override] lets the version go on, never time alone; or another version
// takes its place. The curve advances meanwhile: once the failures are within the budget again, all
// targets whose turn has come start, as far as the pools allow.
//
// In a bracket such a version is treated like one that is paused: executions that begin after that,
// even of a group that has locked it, run the other members without it, and dependencies between
// members hold those that need it. A hook version that the target has already is exempt. What was
// left out waits for the next group, even once failures are within the budget again. An override
// that begins after the execution did opens that group, of several the last; after a success a
// [Target.OutdatedAt] does.
//
// A target counts for as long as its jobs are listed: of every version that is still rolled out
// keep the last job that failed or succeeded, even if later jobs did neither. (A kind of rule that
// ctrlplane does not have. Counting by targets, and exceeding by more than the limit, are as in
// package staged. A rate with a sample is what AWS IoT Jobs has as abort criteria. There a job is
// cancelled for good once its failures reach the thresholdPercentage; here the version is held while
// they exceed the rate. So for 20 write 19%, and for a failureType OnJobStatuses.)
type FailureBudget struct {
	// MaxFailures is how many targets may have failed. One more holds the version, so 0 allows no
	// failure at all. A percentage, at most 100%, is of the targets that could fail and is rounded
	// down: under 10% of nine targets, the first failure holds the version. Required unless there is
	// a MaxFailureRate.
	MaxFailures concurrency.Limit `json:"maxFailures,omitzero"`

	// MaxFailureRate is how many of the targets on which the version has come to an end may have
	// failed: a percentage, at most 100%, rounded down. It counts once there are MinimumSample of
	// them: under 20% and a sample of 5, the second failure among the first five to nine holds the
	// version.
	MaxFailureRate concurrency.Limit `json:"maxFailureRate,omitzero"`

	// MinimumSample is required with MaxFailureRate, and must be left out without it: at least 1.
	// Targets that have begun are not held, so a sample of nearly all of them comes too late.
	MinimumSample int `json:"minimumSample,omitempty"`

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
	case most.IsZero() && b.MaxFailureRate.IsZero():
		f.add("maxFailures", CodeRequired, nil, "is required: on how many targets a version may fail; it %s; or give a maxFailureRate", hintBudget).reading("maxFailureRate")
	case most.IsPercent() && most.Value() > 100:
		f.add("maxFailures", CodeOutOfRange, most, "%s", hintBudget)
	}
	switch rate := b.MaxFailureRate; {
	case rate.IsZero() && b.MinimumSample != 0:
		f.add("minimumSample", CodeConflict, b.MinimumSample, "is that of a maxFailureRate: give one, or leave this out").reading("maxFailureRate")
	case rate.IsZero():
	case !rate.IsPercent() || rate.Value() > 100:
		f.add("maxFailureRate", CodeOutOfRange, rate, "%s", hintFailureRate)
	}
	switch sample := b.MinimumSample; {
	case b.MaxFailureRate.IsZero():
	case sample == 0:
		f.add("minimumSample", CodeRequired, nil, "is required: on how many targets a version must have come to an end before its rate counts, at least 1").reading("maxFailureRate")
	case sample < 0:
		f.add("minimumSample", CodeOutOfRange, sample, "must be at least 1").reading("maxFailureRate")
	}
	for i, status := range b.OnJobStatuses {
		f.failure(fmt.Sprintf("onJobStatuses[%d]", i), status)
	}
	return f.err()
}

const (
	hintBudget      = `must be a count from 0, without quotes, or a percentage from "0%" to "100%"`
	hintFailureRate = `must be a whole percentage from "0%" to "100%"`
)

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
	failures      map[questionKey]map[int32]*failures // by rule, deployment and environment: of each version
	budgetAnswers map[questionKey]gateAnswer          // the answers, by version as well
}

// failures is where a version failed.
type failures struct {
	targets []int32
	decided int       // on how many targets it has come to an end; only with a rate
	ahead   time.Time // the first instant at which one more target counts, or one less; zero: none

	// Of the target whose jobs are read, the newest first: nothing that is read later counts once a
	// job has decided.
	target int32
	stands bool
	later  time.Time // the soonest end of the future of a job that was read before one that stands; zero: none
}

// budget returns what a failure budget says about version n of a deployment in an environment.
func (w *work) budget(rule *compiledRule, environment, deployment, n int32) gateAnswer {
	if rule.budget.AnyEnvironment {
		environment = none
	}
	key := questionKey{rule, environment, deployment, n}
	own, known := w.budgetAnswers[key]
	if known {
		return own
	}
	v := w.versions[deployment].list[n]
	own = gateAnswer{kind: KindFailureBudget, rule: rule.id, since: v.CreatedAt}
	if failed := w.failuresOf(rule, environment, deployment)[n]; failed != nil {
		w.wake(failed.ahead)
		if allowed, of := w.allowance(rule, environment, deployment, n, failed); len(failed.targets) > allowed {
			own.since, own.verdict = time.Time{}, w.overBudget(rule, environment, v, failed.targets, allowed, of)
		}
	}
	put(&w.budgetAnswers, key, own)
	return own
}

// allowance returns on how many targets version n may have failed. If it is the rate that allows so
// few, of is the number of targets on which the version has come to an end; otherwise it is 0.
func (w *work) allowance(rule *compiledRule, environment, deployment, n int32, failed *failures) (allowed, of int) {
	budget := rule.budget
	if allowed = len(failed.targets); allowed == 0 {
		return allowed, 0
	}
	if most := budget.MaxFailures; !most.IsZero() {
		population := 0
		if most.IsPercent() {
			for i := range w.budgeted(rule, environment, deployment) {
				if w.inScope(i, n) {
					population++
				}
			}
		}
		allowed = most.Of(population, concurrency.Floor)
	}
	if rate := budget.MaxFailureRate; !rate.IsZero() && failed.decided >= budget.MinimumSample {
		if may := rate.Of(failed.decided, concurrency.Floor); may < allowed {
			return may, failed.decided
		}
	}
	return allowed, 0
}

func (w *work) overBudget(rule *compiledRule, environment int32, v *Version, failed []int32, allowed, of int) Verdict {
	where, names := "", make([]string, len(failed))
	if environment != none {
		where = w.environments[environment].ID
	}
	for k, i := range failed {
		names[k] = w.targets[i].Resource
	}
	slices.Sort(names)
	detail := ""
	if of > 0 {
		detail = strconv.Itoa(of)
	}
	return Verdict{
		Status: Denied, Reason: ReasonFailureBudget, Rule: rule.id,
		On: []Condition{
			{Kind: OnOperator}, {Kind: OnVersion, Deployment: v.Deployment},
			{Kind: OnJob, Deployment: v.Deployment, Environment: where, Version: v.ID},
		},
		Data: &Data{Attempt: len(failed), Allowed: allowed, Names: slices.Compact(names), Detail: detail},
	}
}

// failuresOf lists, by version, the targets of a deployment on which it failed, in one environment or
// in all. Where the rule has a rate, it counts those on which it succeeded as well. A job that failed
// or succeeded stands if it has ended by now, and no later job of its version that did; that may
// change when the host has recorded for later that one of them ends, which counts from then on. Each
// job is read once: a host may keep those of many versions.
func (w *work) failuresOf(rule *compiledRule, environment, deployment int32) map[int32]*failures {
	key := questionKey{rule, environment, deployment, none}
	all, known := w.failures[key]
	if known {
		return all
	}
	all = map[int32]*failures{}
	rated := !rule.budget.MaxFailureRate.IsZero()
	fails := func(job *Job) bool {
		failed, _ := rule.budget.judge(job)
		return failed
	}
	for i := range w.budgeted(rule, environment, deployment) {
		jobs := w.targets[i].history()
		if !rated && jobs.index(fails) < 0 {
			continue // what succeeded there makes up for nothing
		}
		for k := range jobs.len() {
			job := jobs.at(k)
			failed, decides := rule.budget.judge(job)
			if !decides {
				continue
			}
			n := w.versions[deployment].number(job.Version)
			if n < 0 {
				continue
			}
			if all[n] == nil {
				all[n] = &failures{target: none}
			}
			if decided, ahead := all[n].read(i, job.end(), w.now); (decided || !ahead.IsZero()) && (failed || rated) && w.inScope(i, n) {
				all[n].count(i, decided, failed, ahead)
			}
		}
	}
	put(&w.failures, key, all)
	return all
}

// read takes in the end of a job of target i, whose newer jobs were read before. decided reports
// whether that job stands for the target. ahead is when that changes, or when the job will stand:
// zero if neither is known to come.
func (f *failures) read(i int32, end, now time.Time) (decided bool, ahead time.Time) {
	if f.target != i {
		f.target, f.stands, f.later = i, false, time.Time{}
	}
	switch {
	case f.stands:
		return false, time.Time{}
	case end.After(now):
		f.later = sooner(f.later, end)
		return false, end
	}
	f.stands = true
	return true, f.later
}

// count counts what read has returned about a job of target i.
func (f *failures) count(i int32, decided, failed bool, ahead time.Time) {
	if decided {
		f.decided++
	}
	if decided && failed {
		f.targets = append(f.targets, i)
	}
	f.ahead = sooner(f.ahead, ahead)
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
