package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
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
		if populations[of(c)] > 1 && !follows[of(c)] && l.paceOf(c) == nil {
			unpaced.merge(reachOf(c.targets))
		}
	}
	if !all.some() || !l.lookAtBudgetLimits(rule, all, most) {
		return
	}
	if unpaced.some() && len(l.w.set.customs) == 0 { // a rule of the host's may spread the starts
		l.add(findingOf(rule, ""), LintFailureBudgetUnpaced, SeverityWarning, unpaced,
			"all its targets start at once, before any failure is known", "add a gradualRollout or a resourceConcurrency rule that spreads them")
	}
}

// lookAtUnlimitedFailures finds targets to which a version goes on however often it has failed on
// others. A deployment of which one environment waits for the success of another is left out, and so
// are members of a bracket that holds after a failure under a limit: their failures keep the slots.
func (l *lint) lookAtUnlimitedFailures() {
	if len(l.w.set.customs) > 0 { // a rule of the host's may count failures
		return
	}
	proves := map[int32]bool{} // deployments
	for _, c := range l.classes {
		if _, d := l.w.splitPair(c.pair); len(c.view.progressions) > 0 {
			proves[d] = true
		}
	}
	for _, c := range l.classes {
		view := c.view
		_, d := l.w.splitPair(c.pair)
		if len(view.policies) == 0 || len(view.budgets) > 0 || proves[d] || len(l.w.pairs[c.pair].targets) < 3 {
			continue // of two, the first that fails is half of them
		}
		pace := l.paceOf(c)
		if pace == nil {
			first := view.policies[0]
			l.add(Finding{Policy: first.id, Path: join(first.path, "rules")}, LintFailureBudgetMissing, SeverityInfo, reachOf(c.targets),
				"a version starts on all targets of its deployment in an environment at once, before any failure is known",
				"add a gradualRollout or a resourceConcurrency rule that spreads them, and a failureBudget")
			continue
		}
		var unlimited reach
		for _, i := range c.targets {
			if b := l.bracketOf[i]; b == nil || len(view.concurrency) == 0 || !holdsSlots(b.rule.bracket.WithDefaults()) {
				unlimited.add(i)
			}
		}
		if unlimited.some() {
			l.add(findingOf(pace, ""), LintFailureBudgetMissing, SeverityInfo, unlimited,
				"a version goes on to the next target however many have failed: a curve advances with time alone, and a job that has failed gives its slot back",
				"add a failureBudget for them")
		}
	}
}

// holdsSlots reports whether an execution in which a main member has failed keeps its slots until an
// operator decides.
func holdsSlots(rule bracket.Rule) bool {
	return rule.OnMemberFailure == bracket.Hold || rule.OnMemberFailure == bracket.RollbackMember && !rule.AllowMixedPost
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

// paceOf returns the first rule that keeps targets from starting all at once, a curve rather than a
// pool; nil if there is none. A curve whose first turn is that of all does not, nor does a pool with
// room for all its members.
func (l *lint) paceOf(c targetClass) *compiledRule {
	n := len(l.w.pairs[c.pair].targets)
	for _, rule := range c.view.gradual {
		if last, err := rule.gradual.Offset(n-1, n); err != nil || last > 0 {
			return rule
		}
	}
	for _, rule := range c.view.concurrency {
		spreads := func(i int32) bool {
			index := l.w.capacity.under(rule, l.w.targets[i].resource)
			if index == none {
				return false
			}
			total := l.w.capacity.snapshot.Pools[index].Total
			return l.places(index) < total || l.perPeriod(index) < total || !rule.pool.MaxActiveKeys.IsZero()
		}
		if slices.ContainsFunc(c.targets, spreads) {
			return rule
		}
	}
	return nil
}
