package rollout

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
)

// BackoffStrategy says how the delay grows with the attempts.
type BackoffStrategy string

const (
	BackoffLinear      BackoffStrategy = "linear"      // BackoffSeconds after every attempt: the delay does not grow; the default
	BackoffExponential BackoffStrategy = "exponential" // BackoffSeconds, doubled with every further attempt
)

// Retry repeats failed jobs. Without any retry rule a failed version is not attempted again on its
// target.
//
// For a version that has begun on a target the gates are not asked again: outside brackets only
// windows, a [Freeze], a busy target, a full pool and a rollback rule hold back a further attempt,
// in a bracket what holds up its execution. So a version that is paused, or whose approval is taken
// back, is still repeated where it failed, until it succeeds or no attempt is left. To end that,
// edit the rule.
//
// A resource keeps its slots between the attempts, since what has failed may be half done: under a
// limit of 1, nobody else starts before the last delay is over. So keep the delays short where the
// limit is small. After the last attempt a target outside brackets gives its slots back; a member
// of a bracket does as its onMemberFailure says.
//
// A run that a [Target.OutdatedAt] asks for has attempts of its own, as each group of a bracket
// has. A run of another version ends the row of attempts. So does not, outside brackets, a job of
// the host's own, one without a run id: if it goes back to another version and succeeds, no attempt
// is left, however many the rule allows, until an Override since or an OutdatedAt asks for one.
//
// Where several retry rules govern a target, all have to allow an attempt: the fewest retries and the
// longest delay count.
type Retry struct {
	MaxRetries        *int            `json:"maxRetries"`                  // required; how many attempts may follow the first, at least 0
	BackoffSeconds    int64           `json:"backoffSeconds,omitempty"`    // the base delay after the end of an attempt; 0: at once
	BackoffStrategy   BackoffStrategy `json:"backoffStrategy,omitempty"`   // unset: linear
	MaxBackoffSeconds *int64          `json:"maxBackoffSeconds,omitempty"` // the longest delay; unset: no limit

	// RetryOnStatuses are the job statuses that count as attempts. None: every terminal one except
	// successful, cancelled and skipped. After a job with another status, a target outside brackets
	// is tried again at once, as often as its jobs end so: name cancelled here if an operator who
	// cancels a job means to stop the version on the target. In a bracket such a job was stopped
	// from outside: the member has failed, and onMemberFailure decides.
	RetryOnStatuses []JobStatus `json:"retryOnStatuses,omitempty"`
}

// Validate reports every fault, joined, each a *[FieldError].
func (r Retry) Validate() error {
	var f faults
	switch n := r.MaxRetries; {
	case n == nil:
		f.add("maxRetries", CodeRequired, nil, "is required: how many attempts may follow the first")
	case *n < 0:
		f.add("maxRetries", CodeOutOfRange, *n, "must be at least 0")
	}
	f.within("backoffSeconds", r.BackoffSeconds, 0, maxSeconds, "seconds")
	if r.MaxBackoffSeconds != nil {
		f.within("maxBackoffSeconds", *r.MaxBackoffSeconds, 0, maxSeconds, "seconds")
	}
	oneOf(&f, "backoffStrategy", r.BackoffStrategy, BackoffLinear, BackoffExponential)
	for i, status := range r.RetryOnStatuses {
		at := fmt.Sprintf("retryOnStatuses[%d]", i)
		if f.terminal(at, status) && status == JobSuccessful {
			f.add(at, CodeConflict, status, "is no failure: a success is never repeated")
		}
	}
	return f.err()
}

// Delay returns how long the next attempt waits after the end of attempt n, counted from 1, under a
// rule that Validate accepts. An n below 1 counts as 1. The delay saturates at MaxBackoffSeconds,
// or at 2⁶³−1 nanoseconds if that is unset, so no n makes it negative.
func (r Retry) Delay(n int) time.Duration {
	limit := time.Duration(math.MaxInt64)
	if r.MaxBackoffSeconds != nil {
		limit = time.Duration(*r.MaxBackoffSeconds) * time.Second
	}
	delay := time.Duration(r.BackoffSeconds) * time.Second
	if r.BackoffStrategy == BackoffExponential {
		for i := 1; i < n && delay > 0 && delay < limit; i++ {
			if delay > math.MaxInt64/2 {
				delay = math.MaxInt64
				break
			}
			delay *= 2
		}
	}
	return min(delay, limit)
}

// counts reports whether a job that ended with this status is an attempt that failed.
func (r Retry) counts(status JobStatus) bool {
	if len(r.RetryOnStatuses) > 0 {
		return slices.Contains(r.RetryOnStatuses, status)
	}
	return status.failure()
}

// end returns when a job ended. If the host does not record that, it is the instant of creation, so
// that the delay is never unbounded.
func (j Job) end() time.Time {
	if instant.Unset(j.CompletedAt) {
		return j.CreatedAt
	}
	return j.CompletedAt
}

// attempts is what a rule concludes from the attempts so far.
type attempts struct {
	failed  int       // newest consecutive attempts that failed
	allowed int       // attempts in all that are allowed
	next    time.Time // when the next one is due; zero if none has failed
	reason  Reason    // "", retry_backoff or retry_exhausted

	forgiven time.Time // since when an override forgives the newest attempt, which has failed; zero: none does
	back     *Job      // by which the version was given up on the target, so that no attempt is left; nil: it was not
}

// after judges the newest consecutive jobs of version n on target i, outside brackets, under all
// retry rules that govern it: the smallest number of retries and the longest delay win. Without a
// rule a single attempt is allowed. The last override of a rule forgives the attempts before it.
func (w *work) after(i, n int32, jobs history) attempts {
	return w.worst(i, func(_ int, rule *compiledRule) attempts { return w.repeatUnder(rule, i, n, jobs) })
}

// worst returns what follows for target i from what each of its retry rules concludes.
func (w *work) worst(i int32, under func(k int, rule *compiledRule) attempts) attempts {
	var worst attempts
	var forgiven time.Time
	for k, rule := range w.retriesOf(i) {
		a := under(k, rule)
		forgiven = later(forgiven, a.forgiven)
		if k == 0 || a.worse(worst) {
			worst = a
		}
	}
	worst.forgiven = forgiven
	return worst
}

// retriesOf returns the retry rules that govern a target or, if there are none, one that allows a
// single attempt.
func (w *work) retriesOf(i int32) []*compiledRule {
	if rules := w.viewOf(i).retries; len(rules) > 0 {
		return rules
	}
	return []*compiledRule{{retry: &Retry{MaxRetries: new(int)}}}
}

// repeatUnder is after under one of the rules.
func (w *work) repeatUnder(rule *compiledRule, i, n int32, jobs history) attempts {
	back := w.targets[i].givenUp(w.version(i, n).ID)
	if back == nil || w.members[i] {
		return w.afterUnder(rule, i, n, jobs, rule.failures(jobs))
	}
	if w.askedSince(back, rule.id, i, n) {
		return w.afterUnder(rule, i, n, history{}, 0) // what was attempted before counts no more
	}
	a := w.afterUnder(rule, i, n, jobs, rule.failures(jobs))
	a.back, a.reason = back, ReasonRetryExhausted
	return a
}

// afterUnder judges the newest consecutive jobs of one release of version n on target i under one of
// the rules, which counts so many of them as failures.
func (w *work) afterUnder(rule *compiledRule, i, n int32, jobs history, failed int) attempts {
	a := attempts{failed: failed, allowed: min(*rule.retry.MaxRetries, math.MaxInt-1) + 1}
	if o := w.overridesAt(rule.id, i, n).last; o != nil {
		a.failed = min(failed, jobs.since(o.CreatedAt))
		if failed > 0 && a.failed == 0 {
			a.forgiven = o.CreatedAt
		}
	}
	if a.failed > 0 {
		a.next = addTime(jobs.at(0).end(), rule.retry.Delay(a.failed))
	}
	switch {
	case a.failed >= a.allowed:
		a.reason = ReasonRetryExhausted
	case w.now.Before(a.next):
		a.reason = ReasonRetryBackoff
	}
	return a
}

// failures counts the newest consecutive jobs that are attempts that failed.
func (r *compiledRule) failures(jobs history) int {
	failed := 0
	for failed < jobs.len() && r.retry.counts(jobs.at(failed).Status) {
		failed++
	}
	return failed
}

func (a attempts) worse(b attempts) bool {
	if (a.reason == ReasonRetryExhausted) != (b.reason == ReasonRetryExhausted) {
		return a.reason == ReasonRetryExhausted
	}
	return a.next.After(b.next)
}
