package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtBudget looks at the targets that a failure budget governs.
func (l *lint) lookAtBudget(rule *compiledRule) {
	populations := map[int32]int{} // of each budget, by pair or by deployment
	follows := map[int32]bool{}    // budgets of several environments of which one may have to wait for another
	of := func(c targetClass) int32 {
		if _, d := l.w.splitPair(c.pair); rule.budget.AnyEnvironment {
			return d
		}
		return c.pair
	}
	var all, unpaced reach
	most := 0
	for c := range l.governed(rule) {
		at := of(c)
		populations[at] += len(c.targets)
		most = max(most, populations[at])
		all.merge(reachOf(c.targets))
		if view := c.view; rule.budget.AnyEnvironment && len(view.progressions)+len(view.approvals) > 0 {
			follows[at] = true
		}
	}
	for c := range l.governed(rule) {
		if populations[of(c)] > 1 && !follows[of(c)] && !c.view.paced() {
			unpaced.merge(reachOf(c.targets))
		}
	}
	if !all.some() || !l.lookAtBudgetLimits(rule, all, most) {
		return
	}
	if unpaced.some() && len(l.w.set.customs) == 0 { // a rule of the host's may spread the starts
		l.add(findingOf(rule, ""), LintFailureBudgetUnpaced, SeverityWarning, unpaced,
			"all its targets start at once, before any failure is known", "add a gradualRollout or a resourceConcurrency rule for them")
	}
}

// lookAtBudgetLimits finds the parts of a failure budget that no number of failures exceeds. It
// reports whether there is one that may be exceeded. most is the number of targets of the largest
// deployment that the budget governs.
func (l *lint) lookAtBudgetLimits(rule *compiledRule, all reach, most int) (mayHold bool) {
	useless := func(field, is, remedy string) {
		l.add(findingOf(rule, field), LintFailureBudgetUnreachable, SeverityWarning, all, is, remedy)
	}
	if limit := rule.budget.MaxFailures; !limit.IsZero() {
		if limit.Of(most, concurrency.Floor) >= most {
			useless("maxFailures", fmt.Sprintf("it is %v, and no deployment has more than %s: it never holds anything", limit, textlist.Counted(most, "target")),
				"lower maxFailures, or write a percentage below 100%")
		} else {
			mayHold = true
		}
	}
	if rate := rule.budget.MaxFailureRate; !rate.IsZero() {
		switch sample := rule.budget.MinimumSample; {
		case rate.Value() >= 100:
			useless("maxFailureRate", "it is 100%: it never holds anything", "write a percentage below 100%")
		case sample > most:
			useless("minimumSample", fmt.Sprintf("it is %d, and no deployment has more than %s: the rate never counts", sample, textlist.Counted(most, "target")), "lower minimumSample")
		default:
			mayHold = true
		}
	}
	return mayHold
}

// paced reports whether anything keeps the targets of a view from starting all at once.
func (v *view) paced() bool {
	return len(v.concurrency) > 0 || slices.ContainsFunc(v.gradual, func(rule *compiledRule) bool { return *rule.gradual.TimeScaleInterval > 0 })
}
