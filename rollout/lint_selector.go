package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// reportMatchesAll reports an expression that makes a distinction and yet matches everything.
func (l *lint) reportMatchesAll(f Finding, what string) {
	l.add(f, LintSelectorMatchesEverything, SeverityInfo, reach{}, "it matches "+what, `write "true" if that is meant`)
}

// lookAtSelectors counts what expressions match.
func (l *lint) lookAtSelectors() {
	w := l.w
	if len(w.targets) == 0 {
		return
	}
	var free reach
	for i := range w.targets {
		if w.view[i] == 0 && len(w.held[int32(i)]) == 0 {
			free.add(int32(i))
		}
	}
	if free.some() {
		severity, consequence := SeverityWarning, "they start as soon as there is a version"
		switch {
		case w.set.ungovernedHeld:
			severity, consequence = SeverityError, "nothing newer ever starts there"
		case len(w.set.customs) > 0:
			consequence = "only the rules of the host hold them back"
		}
		l.add(Finding{Path: "targets"}, LintTargetsUnmatched, severity, free,
			"no policy governs these targets: "+consequence, `widen a selector, or add a policy with the selector "true"`)
	}
	for _, p := range w.set.policies {
		f := Finding{Policy: p.id, Path: join(p.path, "selector")}
		switch n := l.policyReach[p].targets; {
		case n == 0:
			l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, fmt.Sprintf("it matches none of %s: the policy governs nothing", textlist.Counted(len(w.targets), "target")), "correct the expression, or disable the policy")
			continue // its rules then govern nothing either
		case n == len(w.targets) && n >= 2 && reads(p.selector, ""):
			l.reportMatchesAll(f, fmt.Sprintf("all %d targets", n))
		}
		for _, rule := range p.brackets {
			l.lookAtMembers(rule)
		}
		for _, rule := range p.selectors {
			l.lookAtVersionSelector(rule)
		}
	}
	l.lookAtScopes()
}

// lookAtMembers counts the deployments that the expressions of a bracket match.
func (l *lint) lookAtMembers(rule *compiledRule) {
	w := l.w
	matched := l.matching(rule.members, nil)
	f := findingOf(rule, "deploymentSelector")
	brackets := l.bracketsOf[rule]
	switch {
	case matched == 0:
		l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, fmt.Sprintf("it matches none of %s: the bracket has no members", textlist.Counted(len(w.deployments), "deployment")), "correct the expression")
	case len(brackets) == 0:
		l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, "the policy governs no target of the deployments that it matches: the bracket has no members", "correct the expression, or the selector of the policy")
	case matched == len(w.deployments) && matched >= 2 && reads(rule.members, ""):
		l.reportMatchesAll(f, fmt.Sprintf("all %d deployments", matched))
	}
	if matched == 0 || slices.ContainsFunc(brackets, func(b *lintBracket) bool { return b.unclear != nil }) {
		return
	}
	for _, role := range []struct {
		field string
		m     Matcher
	}{{"pre", rule.pre}, {"post", rule.post}} {
		if role.m != nil && l.matching(role.m, rule.members) == 0 {
			l.add(findingOf(rule, "memberRoles."+role.field), LintSelectorMatchesNothing, SeverityWarning, reach{}, "it matches none of the members", "correct the expression, or leave it out")
		}
	}
}

// matching counts the deployments that match, and match a second expression if there is one.
func (l *lint) matching(m, also Matcher) int {
	n := 0
	b := new(bound) // one for all: a value in an interface is allocated
	for k := range l.w.deployments {
		b.deployment = &l.w.deployments[k]
		if ask(m, b) == yes && (also == nil || ask(also, b) == yes) {
			n++
		}
	}
	return n
}

// lookAtVersionSelector finds a version selector that lets no version pass that exists.
func (l *lint) lookAtVersionSelector(rule *compiledRule) {
	w := l.w
	asked := false
	for c := range l.governed(rule) {
		_, d := w.splitPair(c.pair)
		for _, i := range c.targets {
			b := w.bound(i)
			for _, v := range w.versions[d].list {
				asked = true
				b.version = v
				if _, ok := rule.versionSelector(&b); ok {
					return
				}
			}
			if !rule.readsResource {
				break // the others are alike
			}
		}
	}
	if asked {
		l.add(findingOf(rule, "selector"), LintSelectorMatchesNothing, SeverityWarning, l.policyReach[rule.policy], "no existing version passes it", "correct the expression, or publish a version that it matches")
	}
}

// lookAtScopes finds versions that could still be chosen and are for no target.
func (l *lint) lookAtScopes() {
	w := l.w
	for d := range w.deployments {
		if !w.scoped[d] {
			continue
		}
		var targets []int32
		for e := range w.environments {
			targets = append(targets, w.targetsIn(int32(e), int32(d))...)
		}
		for n, v := range l.newerVersions(int32(d)) {
			if slices.ContainsFunc(targets, func(i int32) bool { return w.inScope(i, n) }) {
				continue
			}
			detail := fmt.Sprintf("the version is for none of the %s of its deployment", textlist.Counted(len(targets), "target"))
			if err := w.scopeOf(int32(d), n).err; err != nil {
				detail += ", because the expression fails: " + err.Error()
			}
			f, fix := Finding{Path: "versions[" + v.named() + "].targetSelector"}, "correct the expression, or withdraw the version"
			if v.TargetSelector == "" {
				f.Path, fix = "versions["+v.named()+"]", "let the function of WithMaxScope admit targets, or withdraw the version"
				detail += ", because WithMaxScope admits none"
			}
			l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, detail, fix)
		}
	}
}
