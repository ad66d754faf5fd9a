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
	gone := map[string]*leftovers{}
	l.leftByRules(gone)
	l.leftInPools(gone)
	disabled := map[string]*compiledRule{} // by id, and by the name of a shared pool
	for _, p := range l.w.set.disabled {
		for _, rule := range p.rules {
			disabled[rule.id] = rule
			if rule.pool != nil && rule.pool.SharedPool != "" {
				disabled[rule.pool.SharedPool] = rule
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gone)) {
		l.leftOver(id, *gone[id], disabled[id])
	}
}

// leftByRules counts the records of rules that are in no enabled policy, except those of pools.
func (l *lint) leftByRules(gone map[string]*leftovers) {
	live := map[string]bool{}
	for _, p := range l.w.set.policies {
		for _, rule := range p.rules {
			live[rule.id] = true
		}
	}
	note := func(rule string, open bool) {
		if live[rule] {
			return
		}
		if gone[rule] == nil {
			gone[rule] = &leftovers{}
		}
		gone[rule].records++
		if open {
			gone[rule].open++
		}
	}
	state := &l.w.snapshot.State
	for _, record := range state.Brackets {
		note(record.Rule, false)
	}
	for _, record := range state.Executions {
		note(record.Rule, record.Open != nil)
	}
	for _, record := range state.Rollouts {
		note(record.Rule, false)
	}
}

// leftInPools counts the records of pools that no resource is in.
func (l *lint) leftInPools(gone map[string]*leftovers) {
	pools := map[string]bool{}
	for _, p := range l.w.set.policies {
		for _, rule := range p.rules {
			if rule.pool != nil {
				pools[cmp.Or(rule.pool.SharedPool, rule.id)] = true
			}
		}
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
