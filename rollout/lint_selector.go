package rollout

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// everything reports an expression that makes a distinction and yet matches everything.
func (l *lint) everything(f Finding, what string) {
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
		switch n := l.reach[p].targets; {
		case n == 0:
			l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, fmt.Sprintf("it matches none of %s: the policy governs nothing", textlist.Counted(len(w.targets), "target")), "correct the expression, or disable the policy")
			continue // its rules then govern nothing either
		case n == len(w.targets) && n >= 2 && reads(p.selector, ""):
			l.everything(f, fmt.Sprintf("all %d targets", n))
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
	frames := l.framesOf[rule]
	switch {
	case matched == 0:
		l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, fmt.Sprintf("it matches none of %s: the bracket has no members", textlist.Counted(len(w.deployments), "deployment")), "correct the expression")
	case len(frames) == 0:
		l.add(f, LintSelectorMatchesNothing, SeverityWarning, reach{}, "the policy governs no target of the deployments that it matches: the bracket has no members", "correct the expression, or the selector of the policy")
	case matched == len(w.deployments) && matched >= 2 && reads(rule.members, ""):
		l.everything(f, fmt.Sprintf("all %d deployments", matched))
	}
	if matched == 0 || slices.ContainsFunc(frames, func(f *frame) bool { return f.unclear != nil }) {
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
	for k := range l.governed(rule) {
		_, d := w.splitPair(k.pair)
		for _, i := range k.targets {
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
		l.add(findingOf(rule, "selector"), LintSelectorMatchesNothing, SeverityWarning, l.reach[rule.policy], "no existing version passes it", "correct the expression, or publish a version that it matches")
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
		for n, v := range l.coming(int32(d)) {
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

// coming yields the versions of a deployment, with their numbers, that are newer than what some
// target has, and deployable. Others are history, of which a host may list much, or were withdrawn,
// and nobody gets them any more.
func (l *lint) coming(d int32) iter.Seq2[int32, *Version] {
	versions := l.w.versions[d].list
	oldest := int32(len(versions)) // what no target is without
	for e := range l.w.environments {
		for _, i := range l.w.targetsIn(int32(e), d) {
			oldest = min(oldest, l.w.targets[i].floor())
		}
	}
	return func(yield func(int32, *Version) bool) {
		for n := oldest + 1; n < int32(len(versions)); n++ {
			if l.deployable(versions[n]) && !yield(n, versions[n]) {
				return
			}
		}
	}
}

// lookAtKeys asks every expression of a rule once about every entity, or pair of entities, that it may
// meet, and looks up the keys that it misses. Those of policies have been asked about every target
// already.
func (l *lint) lookAtKeys() {
	w := l.w
	concerned := w.set.concerned(w.resources)
	for _, p := range w.set.policies {
		for _, text := range l.missed[p.id] {
			l.missedBy(Finding{Policy: p.id, Path: join(p.path, "selector")}, text)
		}
		for _, rule := range p.rules {
			switch rule.kind {
			case KindBracket:
				l.missesOf(findingOf(rule, "deploymentSelector"), rule.members, l.onDeployments)
				l.missesOf(findingOf(rule, "memberRoles.pre"), rule.pre, l.onDeployments)
				l.missesOf(findingOf(rule, "memberRoles.post"), rule.post, l.onDeployments)
			case KindConcurrency:
				l.missesOf(findingOf(rule, "groupSelector"), rule.group, func(meet func(bound)) {
					for r := range concerned[rule.number] {
						meet(bound{resource: &w.resources[r]})
					}
				})
				if by := rule.groupBy; by != nil && by.field == "metadata" && len(w.resources) > 0 && !l.has("resource.metadata", by.key) {
					l.unknown(findingOf(rule, "groupBy"), "resource.metadata", by.key)
				}
			case KindDependency:
				l.missesOf(findingOf(rule, "dependsOn"), rule.dependsOn, l.onVersions(rule.dependsOn, nil))
				l.missesOf(findingOf(rule, "appliesTo"), rule.appliesTo, l.onTargets(rule.appliesTo, rule))
			case KindVersionSelector:
				l.missesOf(findingOf(rule, "selector"), rule.selector, l.onVersions(rule.selector, rule))
			case KindProgression:
				told := map[int32]bool{} // deployments
				for k := range l.governed(rule) {
					_, d := w.splitPair(k.pair)
					if told[d] {
						continue
					}
					told[d] = true
					for _, source := range w.sourcesOf(rule, d) { // it has been asked already
						l.missedBy(findingOf(rule, "dependsOnEnvironmentSelector"), source.missing)
					}
				}
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
		for n, v := range l.coming(int32(d)) {
			if v.TargetSelector == "" {
				continue
			}
			f := Finding{Path: "versions[" + v.named() + "].targetSelector"}
			own := w.scopeOf(int32(d), n)
			err := l.misses(f, own.matcher, func(meet func(bound)) {
				for e := range w.environments {
					pair := w.pairAt(int32(e), int32(d))
					before := w.unanswered(own, pair)
					for at, i := range w.pairs[pair].targets {
						if at >= len(before) || before[at] == undecided {
							meet(w.boundWith(i, n))
						}
					}
				}
			})
			what := "the version is not for the targets where it does"
			if w.set.scopeErrors == ScopeInclude {
				what = "the version is for the targets where it does"
				if own.err != nil {
					err = own.err // else lookAtScopes says that it is for no target
				}
			}
			if err != nil {
				l.failed(f, SeverityWarning, reach{}, err.Error(), what)
			}
		}
	}
}

// missesOf reports the keys that the expression of a rule misses and that no entity has.
func (l *lint) missesOf(f Finding, m Matcher, all func(meet func(bound))) {
	if m != nil && readsMetadata(m) {
		l.misses(f, m, all)
	}
}

// readsMetadata reports whether an expression may read a key. One that does not list its variables may.
func readsMetadata(m Matcher) bool {
	reader, ok := m.(interface{ Variables() []string })
	return !ok || slices.ContainsFunc(reader.Variables(), func(name string) bool { return strings.HasSuffix(name, ".metadata") })
}

// misses evaluates an expression on what it may meet and reports the keys that it misses and that
// no entity has. It returns the first other error. A nil m, of an expression that is left out or
// does not compile, misses nothing.
func (l *lint) misses(f Finding, m Matcher, all func(meet func(bound))) (failed error) {
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
			l.missedBy(f, text)
		case failed == nil:
			failed = err
		}
	})
	return failed
}

// missedBy reports a key that an expression misses, if no entity has it.
func (l *lint) missedBy(f Finding, text string) {
	if variable, key, ok := takeKey(text); ok && !l.has(variable, key) {
		l.unknown(f, variable, key)
	}
}

func (l *lint) unknown(f Finding, variable, key string) {
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

// has reports whether any entity has a key. For a variable that is no metadata of an entity, it
// reports true.
func (l *lint) has(variable, key string) bool {
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
		l.asked(m, rule, func(i int32) { meet(l.w.bound(i)) })
	}
}

// onVersions meets the same targets with each version that they run or may get.
func (l *lint) onVersions(m Matcher, rule *compiledRule) func(meet func(bound)) {
	return func(meet func(bound)) {
		l.asked(m, rule, func(i int32) {
			t := &l.w.targets[i]
			for n := max(t.current, 0); int(n) < len(l.w.versions[t.deployment].list); n++ {
				if n <= t.floor() || l.deployable(l.w.version(i, n)) {
					meet(l.w.boundWith(i, n))
				}
			}
		})
	}
}

// asked visits the targets about which an expression must be asked, among those that a rule governs
// or, if rule is nil, among all.
func (l *lint) asked(m Matcher, rule *compiledRule, visit func(int32)) {
	perResource := reads(m, ofResource)
	for k := range l.governed(rule) {
		for _, i := range k.targets {
			visit(i)
			if !perResource {
				break // the others are alike
			}
		}
	}
}

// lookAtNames finds what a policy leaves to be derived.
func (l *lint) lookAtNames() {
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

// leftovers counts what is stored for a rule or a shared pool that is in no enabled policy, or that
// is in one but whose pools have no members.
type leftovers struct {
	records, open, held int
	inForce             bool
}

// lookAtState finds the state of rules that are gone, and slots in pools that are gone.
func (l *lint) lookAtState() {
	state := &l.w.snapshot.State
	live, pools := map[string]bool{}, map[string]bool{}
	for _, p := range l.w.set.policies {
		for _, rule := range p.rules {
			live[rule.id] = true
			if rule.pool != nil {
				pools[cmp.Or(rule.pool.SharedPool, rule.id)] = true
			}
		}
	}
	disabled := map[string]*compiledRule{} // by id, and by the name of a shared pool
	for _, p := range l.w.set.disabled {
		for _, rule := range p.rules {
			disabled[rule.id] = rule
			if rule.pool != nil && rule.pool.SharedPool != "" {
				disabled[rule.pool.SharedPool] = rule
			}
		}
	}
	gone := map[string]*leftovers{}
	note := func(rule string) *leftovers {
		if live[rule] {
			return &leftovers{}
		}
		if gone[rule] == nil {
			gone[rule] = &leftovers{}
		}
		gone[rule].records++
		return gone[rule]
	}
	for _, record := range state.Brackets {
		note(record.Rule)
	}
	for _, record := range state.Executions {
		if own := note(record.Rule); record.Open != nil {
			own.open++
		}
	}
	for _, record := range state.Rollouts {
		note(record.Rule)
	}
	for _, record := range l.w.capacity.foreign {
		name := record.Key
		if parts, err := textkey.Split(record.Key); err == nil {
			name = parts[0]
		}
		if own := l.w.set.rule(name); len(record.Leases) == 0 && (pools[name] || own != nil && own.pool != nil) {
			continue // of a value of groupBy that no resource has any more, or of a rule that shares a pool by now
		}
		if gone[name] == nil {
			gone[name] = &leftovers{inForce: pools[name]}
		}
		gone[name].records++
		gone[name].held += len(record.Leases)
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		l.leftOver(id, *gone[id], disabled[id])
	}
}

// leftOver reports what is left of a rule or a pool; disabled is a rule of a disabled policy that
// has this id, or shares this pool, or nil.
func (l *lint) leftOver(id string, own leftovers, disabled *compiledRule) {
	f := Finding{Rule: id, Path: "state"}
	where, back := "is in no policy", "an enabled rule with this id takes them up again"
	switch rule := l.w.set.rule(id); {
	case own.inForce:
		where, back = "has pools without members", "a resource that comes back into such a pool takes them up again"
	case disabled != nil:
		f, where = findingOf(disabled, ""), fmt.Sprintf("is in the disabled policy %q", disabled.policy.id)
	case rule != nil:
		f, where, back = findingOf(rule, ""), "has no pool of its own any more", "such a pool takes them up again"
	}
	severity := SeverityInfo
	if own.open+own.held > 0 {
		severity = SeverityWarning
	}
	l.add(f, LintPolicyDisabledState, severity, reach{},
		fmt.Sprintf("%q %s, and state of it is stored: %s, %s, %s", id, where, textlist.Counted(own.records, "record"), textlist.Counted(own.open, "open execution"), textlist.Counted(own.held, "held slot")),
		"let open executions end and release what is still held, then delete the records; "+back)
}
