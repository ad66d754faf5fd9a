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
	l.lookAtFinal()
	l.lookAtRecalls()
	for _, rule := range l.w.set.budgets {
		l.lookAtBudget(rule)
	}
	l.lookAtStuck()
}

// lookAtBudget finds a part of a failure budget that no number of failures exceeds, and targets under
// a budget that start all at once.
func (l *lint) lookAtBudget(rule *compiledRule) {
	populations := map[int32]int{} // of each budget, by pair or by deployment
	follows := map[int32]bool{}    // budgets of several environments of which one may have to wait for another
	of := func(k kind) int32 {
		if _, d := l.w.splitPair(k.pair); rule.budget.AnyEnvironment {
			return d
		}
		return k.pair
	}
	var all, unpaced reach
	most := 0
	for k := range l.governed(rule) {
		at := of(k)
		populations[at] += len(k.targets)
		most = max(most, populations[at])
		all.merge(reachOf(k.targets))
		if view := l.w.views.list[k.view]; rule.budget.AnyEnvironment && len(view.progressions)+len(view.approvals) > 0 {
			follows[at] = true
		}
	}
	for k := range l.governed(rule) {
		if populations[of(k)] > 1 && !follows[of(k)] && !l.w.views.list[k.view].paced() {
			unpaced.merge(reachOf(k.targets))
		}
	}
	if !all.some() {
		return
	}
	bare := true // nothing that the budget says ever holds anything
	useless := func(field, is, remedy string) {
		l.add(findingOf(rule, field), LintFailureBudgetUnreachable, SeverityWarning, all, is, remedy)
	}
	if limit := rule.budget.MaxFailures; !limit.IsZero() {
		if limit.Of(most, concurrency.Floor) >= most {
			useless("maxFailures", fmt.Sprintf("it is %v, and no deployment has more than %s: it never holds anything", limit, textlist.Counted(most, "target")),
				"lower maxFailures, or write a percentage below 100%")
		} else {
			bare = false
		}
	}
	if rate := rule.budget.MaxFailureRate; !rate.IsZero() {
		switch sample := rule.budget.MinimumSample; {
		case rate.Value() >= 100:
			useless("maxFailureRate", "it is 100%: it never holds anything", "write a percentage below 100%")
		case sample > most:
			useless("minimumSample", fmt.Sprintf("it is %d, and no deployment has more than %s: the rate never counts", sample, textlist.Counted(most, "target")), "lower minimumSample")
		default:
			bare = false
		}
	}
	if !bare && unpaced.some() && len(l.w.set.customs) == 0 { // a rule of the host's may spread the starts
		l.add(findingOf(rule, ""), LintFailureBudgetUnpaced, SeverityWarning, unpaced,
			"all its targets start at once, before any failure is known", "add a gradualRollout or a resourceConcurrency rule for them")
	}
}

// paced reports whether anything keeps the targets of a view from starting all at once.
func (v *view) paced() bool {
	return len(v.concurrency) > 0 || slices.ContainsFunc(v.gradual, func(rule *compiledRule) bool { return *rule.gradual.TimeScaleInterval > 0 })
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
	for _, f := range l.framesOf[rule] {
		for _, i := range f.targets {
			if l.frameOf[i] != f {
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

// lookAtFinal finds rollback rules that leave nothing to retry rules, because they are asked first, and
// about the first failure. The retry rules that would try the same statuses again are told together:
// where there are many of both kinds, they are not paired.
func (l *lint) lookAtFinal() {
	type final struct {
		back     *compiledRule
		statuses string // that a retry rule names, too
	}
	var concerned reaches[final]
	retries := map[final]map[*compiledRule]bool{}
	for _, k := range l.kinds {
		view := l.w.views.list[k.view]
		if view.furtherAttempts() == 0 {
			continue // nothing is tried again anyway
		}
		for _, back := range view.rollbacks {
			met := map[final]bool{}
			for _, retry := range view.retries {
				var names []string
				for _, status := range back.rollback.OnJobStatuses {
					if retry.retry.counts(status) {
						names = append(names, string(status))
					}
				}
				if len(names) == 0 {
					continue
				}
				own := final{back, strings.Join(names, ", ")}
				if retries[own] == nil {
					retries[own] = map[*compiledRule]bool{}
				}
				retries[own][retry] = true
				if !met[own] {
					met[own] = true
					concerned.at(own).merge(reachOf(k.targets))
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

// lookAtRecalls finds rollback rules that take back versions, and targets where they never do.
func (l *lint) lookAtRecalls() {
	var unbudgeted, spared reaches[*compiledRule]
	for _, k := range l.kinds {
		view := l.w.views.list[k.view]
		for _, rule := range view.rollbacks {
			if rule.rollback.OnFailureBudget && len(view.budgets) == 0 {
				unbudgeted.at(rule).merge(reachOf(k.targets))
			}
			if !rule.rollback.ofVersions() {
				continue
			}
			for _, i := range k.targets {
				if l.frameOf[i] != nil {
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
	for _, k := range l.kinds {
		view := l.w.views.list[k.view]
		delay := view.longestDelay()
		if delay.by == 0 {
			continue
		}
		for _, i := range k.targets {
			f := l.frameOf[i]
			if f == nil || len(f.deployments) == 1 {
				continue
			}
			meets(f.rule, delay)
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
