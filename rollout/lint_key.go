package rollout

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// lookAtKeys asks every expression of a rule once about every entity, or pair of entities, that it may
// meet, and looks up the keys that it misses. Those of policies have been asked about every target
// already.
func (l *lint) lookAtKeys() {
	w := l.w
	concerned := w.set.concerned(w.resources)
	for _, p := range w.set.policies {
		for _, text := range l.missed[p.id] {
			l.reportMissedKey(Finding{Policy: p.id, Path: join(p.path, "selector")}, text)
		}
		for _, rule := range p.rules {
			l.lookAtKeysOfRule(rule, concerned)
		}
	}
}

// lookAtKeysOfRule does so for one rule; for concerned see PolicySet.concerned.
func (l *lint) lookAtKeysOfRule(rule *compiledRule, concerned []iter.Seq[int32]) {
	w := l.w
	switch rule.kind {
	case KindBracket:
		l.reportMissedKeysOf(findingOf(rule, "deploymentSelector"), rule.members, l.onDeployments)
		l.reportMissedKeysOf(findingOf(rule, "memberRoles.pre"), rule.pre, l.onDeployments)
		l.reportMissedKeysOf(findingOf(rule, "memberRoles.post"), rule.post, l.onDeployments)
	case KindConcurrency:
		l.reportMissedKeysOf(findingOf(rule, "groupSelector"), rule.group, func(meet func(bound)) {
			for r := range concerned[rule.number] {
				meet(bound{resource: &w.resources[r]})
			}
		})
		if by := rule.groupBy; by != nil && by.field == "metadata" && len(w.resources) > 0 && !l.hasKey("resource.metadata", by.key) {
			l.reportUnknownKey(findingOf(rule, "groupBy"), "resource.metadata", by.key)
		}
	case KindDependency:
		l.reportMissedKeysOf(findingOf(rule, "dependsOn"), rule.dependsOn, l.onVersions(rule.dependsOn, nil))
		l.reportMissedKeysOf(findingOf(rule, "appliesTo"), rule.appliesTo, l.onTargets(rule.appliesTo, rule))
	case KindVersionSelector:
		l.reportMissedKeysOf(findingOf(rule, "selector"), rule.selector, l.onVersions(rule.selector, rule))
	case KindProgression:
		told := map[int32]bool{} // deployments
		for c := range l.governed(rule) {
			_, d := w.splitPair(c.pair)
			if told[d] {
				continue
			}
			told[d] = true
			for _, source := range w.sourcesOf(rule, d) { // it has been asked already
				l.reportMissedKey(findingOf(rule, "dependsOnEnvironmentSelector"), source.missing)
			}
		}
	}
}

// lookAtTargetSelectors does the same for those of the versions that targets may still get, and finds
// those that fail.
func (l *lint) lookAtTargetSelectors() {
	w := l.w
	for d := range w.versions {
		if !w.scoped[d] {
			continue
		}
		for n, v := range l.newerVersions(int32(d)) {
			if v.TargetSelector == "" {
				continue
			}
			f := Finding{Path: "versions[" + v.named() + "].targetSelector"}
			own := w.scopeOf(int32(d), n)
			err := l.reportMissedKeys(f, own.matcher, l.onUnanswered(own, int32(d), n))
			what := "the version is not for the targets where it does"
			if w.set.scopeErrors == ScopeInclude {
				what = "the version is for the targets where it does"
				if own.err != nil {
					err = own.err // else lookAtScopes says that it is for no target
				}
			}
			if err != nil {
				l.reportFailing(f, SeverityWarning, reach{}, err.Error(), what)
			}
		}
	}
}

// reportMissedKeysOf reports the keys that the expression of a rule misses and that no entity has.
func (l *lint) reportMissedKeysOf(f Finding, m Matcher, all func(meet func(bound))) {
	if m != nil && readsMetadata(m) {
		l.reportMissedKeys(f, m, all)
	}
}

// readsMetadata reports whether an expression may read a key. One that does not list its variables may.
func readsMetadata(m Matcher) bool {
	reader, ok := m.(interface{ Variables() []string })
	return !ok || slices.ContainsFunc(reader.Variables(), func(name string) bool { return strings.HasSuffix(name, ".metadata") })
}

// reportMissedKeys evaluates an expression on what it may meet and reports the keys that it misses
// and that no entity has. It returns the first other error. A nil m, of an expression that is left
// out or does not compile, misses nothing.
func (l *lint) reportMissedKeys(f Finding, m Matcher, all func(meet func(bound))) (failed error) {
	if m == nil {
		return nil
	}
	shared := new(bound) // a value in an interface is allocated
	all(func(b bound) {
		*shared = b
		_, err := m.Match(shared)
		text, missing := missingKey(err)
		switch {
		case missing:
			l.reportMissedKey(f, text)
		case failed == nil:
			failed = err
		}
	})
	return failed
}

// reportMissedKey reports a key that an expression misses, if no entity has it.
func (l *lint) reportMissedKey(f Finding, text string) {
	if variable, key, ok := takeKey(text); ok && !l.hasKey(variable, key) {
		l.reportUnknownKey(f, variable, key)
	}
}

func (l *lint) reportUnknownKey(f Finding, variable, key string) {
	l.addApart(f, variable+"\n"+key, LintSelectorUnknownKeys, SeverityWarning, reach{}, fmt.Sprintf("no %s has the key %q", strings.TrimSuffix(variable, ".metadata"), key),
		"correct the key, or test for it first, as in 'key' in "+variable)
}

// takeKey splits what a matcher says it missed, such as resource.metadata['zone'].
func takeKey(text string) (variable, key string, ok bool) {
	variable, rest, _ := strings.Cut(text, "[")
	if len(rest) < 3 {
		return "", "", false
	}
	quote := rest[:1]
	key, closed := strings.CutSuffix(rest[1:], quote+"]")
	return variable, key, closed && (quote == "'" || quote == `"`) && !strings.Contains(key, `\`)
}

// hasKey reports whether any entity has a key. For a variable that is no metadata of an entity, it
// reports true.
func (l *lint) hasKey(variable, key string) bool {
	keys, known := l.keys[variable]
	if !known {
		keys = map[string]bool{}
		collect := func(metadata map[string]string) {
			for key := range metadata {
				keys[key] = true
			}
		}
		switch variable {
		case "resource.metadata":
			for k := range l.w.resources {
				collect(l.w.resources[k].Metadata)
			}
		case "environment.metadata":
			for k := range l.w.environments {
				collect(l.w.environments[k].Metadata)
			}
		case "deployment.metadata":
			for k := range l.w.deployments {
				collect(l.w.deployments[k].Metadata)
			}
		case "version.metadata":
			for d := range l.w.versions {
				for _, v := range l.w.versions[d].list {
					collect(v.Metadata)
				}
			}
		default:
			return true
		}
		put(&l.keys, variable, keys)
	}
	return keys[key]
}

func (l *lint) onDeployments(meet func(bound)) {
	for k := range l.w.deployments {
		meet(bound{deployment: &l.w.deployments[k]})
	}
}

// onTargets meets all targets, or those that a rule governs. Of targets that are alike to the
// expression, it meets only the first.
func (l *lint) onTargets(m Matcher, rule *compiledRule) func(meet func(bound)) {
	return func(meet func(bound)) {
		l.eachAsked(m, rule, func(i int32) { meet(l.w.bound(i)) })
	}
}

// onVersions meets the same targets with each version that they run or may get.
func (l *lint) onVersions(m Matcher, rule *compiledRule) func(meet func(bound)) {
	return func(meet func(bound)) {
		l.eachAsked(m, rule, func(i int32) {
			t := &l.w.targets[i]
			for n := max(t.current, 0); int(n) < len(l.w.versions[t.deployment].list); n++ {
				if n <= t.floor() || l.deployable(l.w.version(i, n)) {
					meet(l.w.boundWith(i, n))
				}
			}
		})
	}
}

// onUnanswered meets the targets of a deployment for which version n is not surely out of scope, with
// that version.
func (l *lint) onUnanswered(s *scope, d, n int32) func(meet func(bound)) {
	return func(meet func(bound)) {
		for e := range l.w.environments {
			pair := l.w.pairAt(int32(e), d)
			before := l.w.unanswered(s, pair)
			for at, i := range l.w.pairs[pair].targets {
				if at >= len(before) || before[at] == undecided {
					meet(l.w.boundWith(i, n))
				}
			}
		}
	}
}

// eachAsked visits the targets about which an expression must be asked, among those that a rule
// governs or, if rule is nil, among all.
func (l *lint) eachAsked(m Matcher, rule *compiledRule, visit func(int32)) {
	perResource := reads(m, ofResource)
	for c := range l.governed(rule) {
		for _, i := range c.targets {
			visit(i)
			if !perResource {
				break // the others are alike
			}
		}
	}
}
