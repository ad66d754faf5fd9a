package rollout

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtFailures looks at what brackets, retries and rollbacks make of a failure.
func (l *lint) lookAtFailures() {
	for _, rule := range l.w.set.brackets {
		l.lookAtHold(rule)
	}
	l.lookAtRetriesInVain()
	l.lookAtRetriesWithoutEnd()
	l.lookAtRecalls()
	l.lookAtUnlimitedFailures()
	for _, rule := range l.w.set.budgets {
		l.lookAtBudget(rule)
	}
	l.lookAtStuck()
}

// furtherAttempts returns how many attempts may follow the first. Of several retry rules the one
// with the fewest counts.
func (v *view) furtherAttempts() int {
	fewest := math.MaxInt
	for _, rule := range v.retries {
		fewest = min(fewest, *rule.retry.MaxRetries)
	}
	if len(v.retries) == 0 {
		return 0
	}
	return fewest
}

// lookAtHold finds brackets that hold after a failure that nothing repeats, and rollback rules that
// such a bracket overrules.
func (l *lint) lookAtHold(rule *compiledRule) {
	if rule.bracket.WithDefaults().OnMemberFailure != bracket.Hold {
		return
	}
	var once reaches[*compiledRule] // by the rule that allows no retry; nil: there is none
	var back reaches[*compiledRule]
	for _, b := range l.bracketsOf[rule] {
		for _, i := range b.targets {
			if l.bracketOf[i] != b {
				continue // it is another bracket's, and there is a finding
			}
			view := l.w.viewOf(i)
			if view.furtherAttempts() == 0 {
				var never *compiledRule
				for _, retry := range view.retries { // the others do not help: the fewest count
					if *retry.retry.MaxRetries == 0 && (never == nil || retry.id < never.id) {
						never = retry
					}
				}
				once.at(never).add(i)
			}
			for _, own := range view.rollbacks {
				back.at(own).add(i)
			}
		}
	}
	for _, never := range once.keys {
		why, fix := "", "add a retry rule with maxRetries of at least 1, or another onMemberFailure"
		if never != nil {
			why = fmt.Sprintf(", because %q allows no retry", never.id)
			fix = fmt.Sprintf("let maxRetries of %q be at least 1, since the fewest retries count, or write another onMemberFailure", never.id)
		}
		l.addApart(findingOf(rule, "onMemberFailure"), fix, LintHoldWithoutRetry, SeverityWarning, *once.at(never),
			"a job that fails once holds its execution, and the slot of its resource, until an operator acts"+why, fix)
	}
	for _, own := range back.keys {
		l.addApart(findingOf(own, ""), rule.id, LintRollbackWithHold, SeverityWarning, *back.at(own),
			fmt.Sprintf("members of the bracket %q are not rolled back, because it holds after a failure", rule.id),
			"set its onMemberFailure to rollback_member or rollback_all, or keep its members out of the policy of this rule")
	}
}

// lookAtRetriesInVain finds rollback rules that leave nothing to retry rules, because they are
// asked first, and about the first failure. The retry rules that would try the same statuses again
// are told together: where there are many of both kinds, they are not paired.
func (l *lint) lookAtRetriesInVain() {
	type final struct {
		back     *compiledRule
		statuses string // that a retry rule names, too
	}
	var concerned reaches[final]
	retries := map[final]map[*compiledRule]bool{}
	for _, c := range l.classes {
		view := c.view
		if view.furtherAttempts() == 0 {
			continue // nothing is tried again anyway
		}
		for _, back := range view.rollbacks {
			met := map[final]bool{}
			for _, retry := range view.retries {
				own := final{back, statusesOfBoth(back.rollback, retry.retry)}
				if own.statuses == "" {
					continue
				}
				if retries[own] == nil {
					retries[own] = map[*compiledRule]bool{}
				}
				retries[own][retry] = true
				if !met[own] {
					met[own] = true
					concerned.at(own).merge(reachOf(c.targets))
				}
			}
		}
	}
	for _, own := range concerned.keys {
		var ids []string
		for retry := range retries[own] {
			ids = append(ids, strconv.Quote(retry.id))
		}
		slices.Sort(ids)
		again := "the rule " + ids[0] + " does not try it again"
		if len(ids) > 1 {
			again = "the rules " + strings.Join(textlist.Few(ids), ", ") + " do not try it again"
		}
		l.addApart(findingOf(own.back, "onJobStatuses"), own.statuses, LintRollbackBeforeRetry, SeverityWarning, *concerned.at(own),
			fmt.Sprintf("a job that ends as %s has failed for good: %s", own.statuses, again),
			fmt.Sprintf("leave %s out of onJobStatuses, or out of retryOnStatuses", own.statuses))
	}
}

// statusesOfBoth lists the statuses on which a rule goes back and by which another one counts an
// attempt; empty if there are none.
func statusesOfBoth(back *Rollback, retry *Retry) string {
	var names []string
	for _, status := range back.OnJobStatuses {
		if retry.counts(status) {
			names = append(names, string(status))
		}
	}
	return strings.Join(names, ", ")
}

// lookAtRetriesWithoutEnd finds targets outside brackets whose retry rules all pass over a failure:
// what they do not count they do not limit either. In a bracket such a job has failed for good.
func (l *lint) lookAtRetriesWithoutEnd() {
	type endless struct {
		retry    *compiledRule // the first of them, by id
		statuses string
	}
	var concerned reaches[endless]
	for _, c := range l.classes {
		statuses := c.view.uncounted()
		if statuses == "" {
			continue
		}
		first := slices.MinFunc(c.view.retries, func(a, b *compiledRule) int { return strings.Compare(a.id, b.id) })
		for _, i := range c.targets {
			if l.bracketOf[i] == nil {
				concerned.at(endless{first, statuses}).add(i)
			}
		}
	}
	for _, own := range concerned.keys {
		l.addApart(findingOf(own.retry, "retryOnStatuses"), own.statuses, LintRetryWithoutEnd, SeverityWarning, *concerned.at(own),
			fmt.Sprintf("a job that ends as %s is no attempt by any rule: the version is started again at once, however often its jobs end so", own.statuses),
			fmt.Sprintf("add %s, or leave retryOnStatuses out, so that every failure is an attempt", own.statuses))
	}
}

// uncounted lists the statuses of failed jobs that no retry rule counts as an attempt and that take
// no target back; empty if there are none, or no retry rule.
func (v *view) uncounted() string {
	if len(v.retries) == 0 {
		return ""
	}
	var names []string
	for _, status := range []JobStatus{JobFailure, JobInvalidAgent, JobInvalidIntegration, JobExternalRunNotFound} {
		counts := func(rule *compiledRule) bool { return rule.retry.counts(status) }
		back := func(rule *compiledRule) bool { return slices.Contains(rule.rollback.OnJobStatuses, status) }
		if !slices.ContainsFunc(v.retries, counts) && !slices.ContainsFunc(v.rollbacks, back) {
			names = append(names, string(status))
		}
	}
	return strings.Join(names, ", ")
}

// lookAtRecalls finds rollback rules that take back versions, and targets where they never do.
func (l *lint) lookAtRecalls() {
	var unbudgeted, spared reaches[*compiledRule]
	for _, c := range l.classes {
		view := c.view
		for _, rule := range view.rollbacks {
			if rule.rollback.OnFailureBudget && len(view.budgets) == 0 {
				unbudgeted.at(rule).merge(reachOf(c.targets))
			}
			if !rule.rollback.ofVersions() {
				continue
			}
			for _, i := range c.targets {
				if l.bracketOf[i] != nil {
					spared.at(rule).add(i)
				}
			}
		}
	}
	for _, rule := range unbudgeted.keys {
		l.add(findingOf(rule, "onFailureBudget"), LintRollbackWithoutBudget, SeverityWarning, *unbudgeted.at(rule),
			"no failure budget says when too many have failed", "add a failureBudget rule for these targets, or leave onFailureBudget out")
	}
	for _, rule := range spared.keys {
		l.add(findingOf(rule, ""), LintRollbackSparesMembers, SeverityInfo, *spared.at(rule),
			"they are members of a bracket, and a member that has succeeded keeps its version also when that is taken back",
			"to have them change, publish a newer version, or keep them out of the policy of this rule")
	}
}

// lookAtStuck compares how long a rule lets a holder be without progress with the longest delay
// before the last attempt of a target. Nothing is stuck while no job of its holder is at work, so
// only brackets with several members are concerned: any other holder has one target.
func (l *lint) lookAtStuck() {
	var rules []*compiledRule
	longest := map[*compiledRule]delayed{}
	meets := func(rule *compiledRule, delay delayed) {
		before, known := longest[rule]
		if !known {
			rules = append(rules, rule)
		}
		if delay.by > before.by {
			longest[rule] = delay
		}
	}
	for _, c := range l.classes {
		view := c.view
		delay := view.longestDelay()
		if delay.by == 0 {
			continue
		}
		for _, i := range c.targets {
			b := l.bracketOf[i]
			if b == nil || len(b.deployments) == 1 {
				continue
			}
			meets(b.rule, delay)
			for _, rule := range view.concurrency {
				if l.w.capacity.under(rule, l.w.targets[i].resource) != none {
					meets(rule, delay)
				}
			}
		}
	}
	for _, rule := range rules {
		last := longest[rule]
		if after, severity := stuckAfter(rule); after > 0 && last.by >= after {
			l.add(findingOf(rule, "stuckAfterSeconds"), LintStuckBeforeRetry, severity, reach{},
				fmt.Sprintf("%v without progress is stuck, but the rule %q waits for %v before its last attempt: if another job of the holder is at work meanwhile, the lease is stuck before that attempt", textlist.Duration(after), last.retry.id, textlist.Duration(last.by)),
				"raise stuckAfterSeconds above the longest delay, or let that rule wait for less")
		}
	}
}

// delayed says by how much a retry rule delays the last attempt of a target.
type delayed struct {
	retry *compiledRule
	by    time.Duration
}

// longestDelay returns the longest of the delays by the retry rules of a view; zero if no attempt is
// delayed.
func (v *view) longestDelay() (most delayed) {
	attempts := v.furtherAttempts()
	if attempts == 0 {
		return most
	}
	for _, rule := range v.retries {
		if by := rule.retry.Delay(attempts); by > most.by {
			most = delayed{rule, by}
		}
	}
	return most
}

// stuckAfter returns how long a rule lets a holder be without progress, zero if for ever, and how
// much it matters that one counts as stuck.
func stuckAfter(rule *compiledRule) (after time.Duration, severity Severity) {
	if rule.pool == nil {
		return time.Duration(rule.bracket.StuckAfterSeconds) * time.Second, SeverityInfo
	}
	severity = SeverityInfo
	if rule.pool.OnStuck == concurrency.Quarantine {
		severity = SeverityWarning
	}
	return time.Duration(rule.pool.StuckAfterSeconds) * time.Second, severity
}
