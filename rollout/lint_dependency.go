package rollout

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// tally counts what one dependency rule does on all targets.
type tally struct {
	concerned   bool              // it applies to some target
	unmatched   reach             // targets for which it names no deployment
	unsatisfied reach             // targets for which it names a deployment, but no existing version satisfies it
	passed      reach             // targets for which what satisfies it is passed over, see passingVersion
	passing     string            // the deployment and the version that passes it, of the first of them
	failing     reaches[string]   // targets for which appliesTo fails, or dependsOn does
	failures    map[string]string // → the first failure
	names       map[string]bool
}

// fail notes that an expression of the rule has no answer for a target.
func (t *tally) fail(i int32, field string, err error) {
	if t.failing.at(field).add(i) {
		t.failures[field] = err.Error()
	}
	t.concerned = true
}

// tallies holds the tally of each dependency rule, made when first asked for.
type tallies map[*compiledRule]*tally

func (t tallies) of(rule *compiledRule) *tally {
	if t[rule] == nil {
		t[rule] = &tally{failures: map[string]string{}, names: map[string]bool{}}
	}
	return t[rule]
}

// addUnsatisfied notes that no version that is deployed, or may be, satisfies the rule for a
// target.
func (t *tally) addUnsatisfied(i int32, verdict Verdict) {
	t.unsatisfied.add(i)
	for _, name := range verdict.Data.Names {
		t.names[name] = true
	}
}

// lookAtDependencies asks every dependency rule about every target that it may block.
func (l *lint) lookAtDependencies() {
	w := l.w
	all := tallies{}
	held := waitGraph{l: l, blocked: map[int32][]*compiledRule{}}
	for i := range w.targets {
		t := int32(i)
		var memberOf *bracketWork
		if b := l.bracketOf[i]; b != nil {
			memberOf = b.bracketWork
		}
		for _, rule := range w.blockingRules(t, memberOf) {
			own := all.of(rule)
			if applies, err := w.applies(rule, t); err != nil {
				own.fail(t, "appliesTo", err)
				continue
			} else if !applies {
				continue
			}
			own.concerned = true
			verdict, ok, err := w.dependency(rule, t)
			switch {
			case err != nil:
				own.fail(t, "dependsOn", err)
			case ok:
			case verdict.Reason == ReasonDependencyUnmatched:
				own.unmatched.add(t)
			case l.unsatisfiable(rule, t):
				own.addUnsatisfied(t, verdict)
			case l.allPass(rule, t, own):
			case !l.circular[w.targets[i].environment] && !l.letPast(rule, t):
				if held.blocked[t] == nil {
					held.order = append(held.order, t)
				}
				held.blocked[t] = append(held.blocked[t], rule)
			}
		}
	}
	for _, b := range l.brackets {
		l.lookAtOrders(b, all)
	}
	l.lookAtBlocked(held)
	for _, rule := range w.set.dependencies {
		l.reportTally(rule, all.of(rule))
	}
}

// letPast reports whether an override lets something newer onto a target, past a rule.
func (l *lint) letPast(rule *compiledRule, i int32) bool {
	if len(l.w.overrides) == 0 {
		return false
	}
	return l.newest(i, l.w.targets[i].floor(), func(i, n int32) bool { return l.w.overriddenAt(rule.id, i, n) != nil && l.deployableOn(i, n) }) != none
}

// lookAtOrders looks at the rules that order the members of a bracket. A member that is ordered for
// some versions only, none of which comes, waits for them like any other target.
func (l *lint) lookAtOrders(b *lintBracket, all tallies) {
	w := l.w
	for _, orders := range b.orders {
		for _, o := range orders {
			all.of(o.rule).concerned = true
		}
	}
	for _, t := range b.targets {
		for _, o := range b.orders[w.targets[t].deployment] {
			rule := o.rule
			if o.always || !w.viewOf(t).has(rule) {
				continue
			}
			if applies, err := w.applies(rule, t); err != nil || !applies || !l.unsatisfiable(rule, t) {
				continue
			}
			if verdict, _, _ := w.dependency(rule, t); verdict.Reason == ReasonDependencyUnmet {
				all.of(rule).addUnsatisfied(t, verdict)
			}
		}
	}
}

// reportTally reports the tally of a dependency rule.
func (l *lint) reportTally(rule *compiledRule, own *tally) {
	governed := l.policyReach[rule.policy]
	if !own.concerned && governed.some() {
		l.add(findingOf(rule, "appliesTo"), LintAppliesToUnmatched, SeverityWarning, reach{},
			fmt.Sprintf("it matches none of %s that the policy governs: the dependency concerns nobody", textlist.Counted(governed.targets, "target")),
			"correct the expression, or remove the rule")
	}
	for _, field := range own.failing.keys {
		severity := SeverityError
		if field == "dependsOn" && rule.readsVersion {
			severity = SeverityWarning // it need not fail on the next version of the other
		}
		l.reportFailing(findingOf(rule, field), severity, *own.failing.at(field), own.failures[field], "nothing newer starts as long as it does")
	}
	if own.unmatched.some() {
		where, correct := " in the same environment", "correct the expression, set anyEnvironment if one in another environment will do"
		if rule.dependency.AnyEnvironment {
			where, correct = "", "correct the expression"
		}
		l.add(findingOf(rule, "dependsOn"), LintDependencyUnmatched, SeverityError, own.unmatched,
			"it names no other deployment with a target on the same resource"+where+": nothing newer ever starts there",
			correct+", or leave these targets out with appliesTo")
	}
	if own.unsatisfied.some() {
		l.add(findingOf(rule, "dependsOn"), LintDependencyUnmatched, SeverityWarning, own.unsatisfied,
			noneSatisfies(slices.Sorted(maps.Keys(own.names))...), "publish one that does, let one through that is held back, or correct the expression")
	}
	if own.passed.some() {
		l.addApart(findingOf(rule, "dependsOn"), "passed", LintDependencyUnmatched, SeverityWarning, own.passed, passedOver(own.passing), letSatisfy)
	}
}

// passedOver says of a dependency that what it names goes on to a version that does not satisfy it.
func passedOver(passing string) string {
	return passing + " comes next there, which does not satisfy it, past the older ones that do"
}

const letSatisfy = "pause the newer version until this one is deployed, or let the expression be satisfied by newer versions, too"

// allPass reports whether a dependency that some version could satisfy is not met because what it
// names goes on to newer versions. It notes that in the tally.
func (l *lint) allPass(rule *compiledRule, i int32, own *tally) bool {
	passing := ""
	met := l.couldMeet(rule, i, func(k int32) bool {
		if !l.ruleSatisfiable(rule, k) {
			return false
		}
		n := l.passingVersion(k, math.MaxInt32, rule.dependsOn)
		if n != none && passing == "" {
			passing = l.w.version(k, n).named()
		}
		return n == none
	})
	if met {
		return false
	}
	if own.passed.add(i) {
		own.passing = passing
	}
	return true
}

// passingVersion returns the version that target k gets next, of those before a version below, if
// that is certain, and if k neither runs nor has begun a version that an expression is true of, nor
// gets such a one with it or after it: it passes the older ones over. Else it returns none. What
// lets an older version through before a newer one, such as a curve, makes it uncertain, and so
// does a bracket, which may have locked an older one.
func (l *lint) passingVersion(k, below int32, m Matcher) int32 {
	w := l.w
	t, view := &w.targets[k], w.viewOf(k)
	next := l.newest(k, t.current, func(k, n int32) bool { return n < below && l.obtainableNow(k, n) })
	if next <= t.floor() || l.bracketOf[k] != nil || len(view.gradual)+len(view.budgets)+len(w.set.customs)+len(w.overrides) > 0 ||
		len(w.version(k, next).Dependencies) > 0 || len(w.blockingRules(k, nil)) > 0 {
		return none
	}
	for n := range int32(len(w.versions[t.deployment].list)) {
		if older := n > t.floor() && n < next; !older && n < below && l.hasOrObtains(k, n) && l.meets(m, k, n) {
			return none
		}
	}
	return next
}

// meets reports whether an expression is true of version n on target k.
func (l *lint) meets(m Matcher, k, n int32) bool {
	l.w.subject = l.w.boundWith(k, n)
	return ask(m, &l.w.subject) == yes
}

// noneSatisfies says of a dependency that it names deployments whose versions do not satisfy it.
func noneSatisfies(deployments ...string) string {
	return fmt.Sprintf("no version of %s that is deployed, or may be, satisfies it", strings.Join(deployments, ", "))
}

// unsatisfiable reports whether no existing version can satisfy a dependency that names a
// deployment.
func (l *lint) unsatisfiable(rule *compiledRule, i int32) bool {
	return !l.couldMeet(rule, i, func(k int32) bool { return l.ruleSatisfiable(rule, k) })
}

// couldMeet reports whether a dependency of target i is met if those targets can satisfy it for
// which able reports true.
func (l *lint) couldMeet(rule *compiledRule, i int32, able func(k int32) bool) bool {
	named, can := 0, 0
	for _, k := range l.w.nameable(nil, rule, i) {
		if is, _, err := l.w.provider(rule, &l.w.targets[k]); err != nil || !is {
			continue
		}
		named++
		if able(k) {
			can++
		}
	}
	if rule.dependency.Match == MatchAll {
		return can == named
	}
	return can > 0
}

// viewQuestion is what a dependency rule is asked about, and which version selectors there are.
type viewQuestion struct {
	questionKey
	*view
}

// ruleSatisfiable reports whether the version that target k runs, or one that it may get, satisfies
// a rule that names it.
func (l *lint) ruleSatisfiable(rule *compiledRule, k int32) bool {
	w := l.w
	t, view := &w.targets[k], w.viewOf(k)
	alike := !rule.readsResource && !w.scoped[t.deployment] && t.started == none &&
		(len(view.selectors) == 0 || !view.selective && len(w.overrides) == 0)
	key := viewQuestion{questionKey{rule, t.environment, t.deployment, t.current}, view}
	if answer, known := l.satisfied[key]; known && alike {
		return answer
	}
	able := l.newest(k, none, func(k, n int32) bool { return l.hasOrObtains(k, n) && l.meets(rule.dependsOn, k, n) }) != none
	if alike {
		put(&l.satisfied, key, able)
	}
	return able
}
