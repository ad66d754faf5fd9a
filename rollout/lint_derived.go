package rollout

import (
	"fmt"
	"strings"
)

// lookAtDerived finds what a policy leaves to be derived.
func (l *lint) lookAtDerived() {
	for _, p := range l.w.set.policies {
		for _, rule := range p.rules {
			if rule.derived {
				l.add(Finding{Policy: p.id, Rule: rule.id, Path: strings.TrimSuffix(rule.path, "."+string(rule.kind)) + ".id"}, LintRuleIDMissing, SeverityWarning, reach{},
					fmt.Sprintf("its id %q is derived from its place: stored state and overrides lose it when a rule of this kind is inserted before it, or the policy is renamed", rule.id),
					fmt.Sprintf("write an id; to keep what is stored, %q", rule.id))
			}
			if rule.implied && rule.bracketID != "" {
				l.add(findingOf(rule, "orderKey"), LintOrderKeyImplied, SeverityWarning, reach{},
					fmt.Sprintf("it is %s because the policy has a bracket, and would be %s without", OrderByBracket, OrderByTarget), fmt.Sprintf("write %q", OrderByBracket))
			}
		}
	}
}
