package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtCycles reports every circle that [PolicySet.Check] would refuse.
func (l *lint) lookAtCycles() {
	w := l.w
	for e := range w.environments {
		var cycle *CycleError
		if err := w.deploymentCycle(int32(e)); !errors.As(err, &cycle) {
			continue
		}
		put(&l.circular, int32(e), true)
		rule := w.set.rule(cycle.Rules[0])
		var concerns reach
		for _, id := range cycle.Path {
			d, _ := w.deployment(id)
			for _, i := range w.targetsIn(int32(e), d) {
				concerns.add(i)
			}
		}
		detail := fmt.Sprintf("in %s %s, and nothing is planned as long as they do", w.environments[e].ID, cycle.around())
		if len(cycle.Rules) > 1 {
			detail += "; rules " + strings.Join(textlist.Few(cycle.Rules), ", ")
		}
		l.addApart(findingOf(rule, "dependsOn"), strings.Join(cycle.Path, "\n"), LintDependencyCycle, SeverityError, concerns, detail,
			"remove one of these dependencies, or narrow it with appliesTo")
	}
	if !slices.Contains(w.dependent, true) {
		return
	}
	in := map[string][]string{}         // circles, by their members → the environments in which they are
	circles := map[string]*CycleError{} // by the same
	for e := range w.environments {
		for _, cycle := range w.versionCyclesIn(int32(e), l.deployable) {
			members := strings.Join(cycle.Path, " needs ")
			in[members], circles[members] = append(in[members], w.environments[e].ID), cycle
		}
	}
	for _, members := range slices.Sorted(maps.Keys(in)) {
		cycle := circles[members]
		l.addApart(Finding{Path: "versions[" + cycle.Path[0] + "].dependencies"}, members, LintDependencyCycle, SeverityError, reach{},
			fmt.Sprintf("%s: in %s none of these versions can ever be the first to start", cycle.around(), strings.Join(textlist.Few(in[members]), ", ")),
			"publish a version without one of these dependencies")
	}
}

// waits holds the targets that dependencies block although some version could satisfy each
// dependency, and the versions on their resources that wait for versions of other deployments.
type waits struct {
	l       *lint
	blocked map[int32][]*compiledRule // target → the rules that are not satisfied now
	order   []int32
	needy   map[waiter]bool // versions with a dependency that is not met yet
	later   bool            // a member also holds its execution for what it may get later: once it is approved, has succeeded elsewhere, or is released
}

// waiter is a target that a rule keeps from anything newer, with none as the version; or a version
// on a target that depends on other versions.
type waiter struct{ target, version int32 }

// lookAtBlocked finds targets that wait for one another's newer versions: what is left when
// everything has started that can. A dependency that no version could satisfy is a finding of its
// own and counts as met here, so that a target that waits for its victims is in no circle. That a
// member of a bracket has something to run is certain only if it may have it by now, and has had it
// for as long as the members that would start with it. A circle that is found on the assumption
// that the member will have it is a warning.
func (l *lint) lookAtBlocked(s waits) {
	s.needy = l.needy(s.order)
	supposed := s
	supposed.later, supposed.blocked, supposed.order, supposed.needy = true, maps.Clone(s.blocked), slices.Clone(s.order), maps.Clone(s.needy)
	certain := map[int32]bool{}
	for _, path := range s.rings() {
		l.ring(path, SeverityError)
	}
	for i := range s.blocked {
		certain[i] = true
	}
	for _, path := range supposed.rings() {
		if !slices.ContainsFunc(path, func(step waitStep) bool { return certain[step.target] || ofVersions(path) && s.needy[step.waiter] }) {
			l.ring(path, SeverityWarning)
		}
	}
}

// needy finds the versions with dependencies that targets may get on the resources of the blocked
// targets, and where a member of a bracket may get one.
func (l *lint) needy(blocked []int32) map[waiter]bool {
	w := l.w
	resources := map[int32]bool{}
	for _, i := range blocked {
		resources[w.targets[i].resource] = true
	}
	var all []waiter
	for i := range w.targets {
		t := &w.targets[i]
		if !w.dependent[t.deployment] {
			continue
		}
		versions := w.versions[t.deployment].list
		for n := int32(len(versions)) - 1; n > t.floor(); n-- {
			if len(versions[n].Dependencies) > 0 && l.deployable(versions[n]) {
				all = append(all, waiter{int32(i), n})
				if l.frameOf[i] != nil {
					resources[t.resource] = true
				}
			}
		}
	}
	needy := map[waiter]bool{}
	for _, own := range all {
		if resources[w.targets[own.target].resource] {
			needy[own] = true
		}
	}
	return needy
}

// rings takes away the waiters that can start, again and again, and returns the circles in what is
// left. It leaves out circles of versions alone that need no bracket, which lookAtCycles reports.
func (s waits) rings() [][]waitStep {
	var rings [][]waitStep
	var starts []waiter
	for s.release() {
	}
	for _, i := range s.order {
		if s.blocked[i] != nil {
			starts = append(starts, waiter{i, none})
		}
	}
	starts = append(starts, slices.SortedFunc(maps.Keys(s.needy), func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.version, b.version))
	})...)
	visited := map[waiter]bool{}
	for _, start := range starts {
		var ring []waitStep
		for _, at := range ringFrom(start, visited, func(at waiter) waiter { return s.step(at).next }) {
			ring = append(ring, *s.step(at))
		}
		if !ofVersions(ring) || slices.ContainsFunc(ring, waitStep.bracketed) {
			rings = append(rings, ring)
		}
	}
	return rings
}

// release takes away waiters that can start, and reports whether there were any. It asks about the one
// that a waiter waits for before it asks about that waiter again: in a chain, all are taken away at
// once.
func (s waits) release() bool {
	before := len(s.blocked) + len(s.needy)
	visited := map[waiter]bool{}
	var visit func(own waiter)
	visit = func(own waiter) {
		visited[own] = true
		for step := s.step(own); step != nil; step = s.step(own) {
			if visited[step.next] {
				return
			}
			visit(step.next)
		}
		if own.version == none {
			delete(s.blocked, own.target)
		} else {
			delete(s.needy, own)
		}
	}
	for _, i := range s.order {
		if own := (waiter{i, none}); s.blocked[i] != nil && !visited[own] {
			visit(own)
		}
	}
	for own := range s.needy {
		if !visited[own] {
			visit(own)
		}
	}
	return len(s.blocked)+len(s.needy) < before
}

// ofVersions reports whether no rule makes a circle, or there is none.
func ofVersions(ring []waitStep) bool {
	return !slices.ContainsFunc(ring, func(step waitStep) bool { return step.rule != nil })
}

// waitStep is one edge of a circle: a waiter needs a provider that waits itself, or that starts
// only together with one that does.
type waitStep struct {
	waiter
	rule     *compiledRule // nil: the version itself depends on the provider
	provider int32
	next     waiter
}

// bracketed reports whether the provider starts only together with the next waiter.
func (s waitStep) bracketed() bool { return s.next.target != s.provider }

// step returns the edge by which a waiter waits for another waiter; nil if there is none.
func (s waits) step(own waiter) *waitStep {
	if own.version != none {
		return s.stepOfVersion(own)
	}
	for _, rule := range s.blocked[own.target] {
		var step *waitStep
		met := s.l.couldMeet(rule, own.target, func(k int32) bool {
			if !s.l.satisfiable(rule, k) {
				return false
			}
			next := s.behind(k, rule.dependsOn)
			if next != nil && step == nil {
				step = &waitStep{own, rule, k, *next}
			}
			return next == nil
		})
		if !met {
			return step
		}
	}
	return nil
}

func (s waits) stepOfVersion(own waiter) *waitStep {
	w := s.l.w
	for _, d := range w.versions[w.targets[own.target].deployment].list[own.version].Dependencies {
		k := w.sibling(own.target, d.Deployment)
		if k == none {
			continue
		}
		if f := s.l.frameOf[k]; f != nil && f == s.l.frameOf[own.target] || !s.l.attainable(own.target, own.version, k, d) {
			continue // one execution may bring both
		}
		matcher, _ := w.expression(d.VersionSelector) // it compiles, or nothing is attainable
		if next := s.behind(k, matcher); next != nil {
			return &waitStep{own, nil, k, *next}
		}
	}
	return nil
}

// behind returns a waiter that keeps target k from all versions that an expression is true of and
// that it may get; nil if there is none.
func (s waits) behind(k int32, m Matcher) *waiter {
	t := &s.l.w.targets[k]
	held := s.held(k)
	var first *waiter
	for n := range s.l.w.versions[t.deployment].list {
		own := waiter{k, int32(n)}
		switch {
		case !s.l.comes(k, own.version) || !s.l.meets(m, k, own.version):
		case own.version <= t.floor(), held == nil && !s.needy[own]:
			return nil // it is there, has been started, or can be
		case first != nil:
		case held != nil:
			first = held
		default:
			first = &own
		}
	}
	return first
}

// held returns the waiter that keeps target k from getting anything newer: k itself, or a member of
// its bracket that would be part of the same execution, which starts only when all of its runs may.
// Such a member is blocked, or every version that it may get depends on versions that are not there.
// held returns nil if there is no such waiter.
func (s waits) held(k int32) *waiter {
	if s.blocked[k] != nil {
		return &waiter{k, none}
	}
	f := s.l.frameOf[k]
	if f == nil || f.group == nil {
		return nil
	}
	from, to := s.l.w.siblings(k)
	for i := from; i < to; i++ {
		if s.l.frameOf[i] != f {
			continue
		}
		own, blocked := waiter{i, none}, s.blocked[i] != nil
		if !blocked && i != k { // for k itself it depends on the version that is meant
			own.version = s.newestNeedy(i)
		}
		if (own.version != none || blocked && s.l.included(f, i, s.later)) &&
			(s.later || blocked && s.l.always(f, i) || s.l.together(f, i, k)) {
			return &own
		}
	}
	return nil
}

// newestNeedy returns the newest version that a target may have by now, or later, if it has none to
// get but versions that wait for others; else none.
func (s waits) newestNeedy(i int32) int32 {
	may := func(i, n int32) bool { return s.l.usable(i, n) || s.later && s.l.obtainable(i, n) }
	current := s.l.w.targets[i].current
	if s.l.newest(i, current, func(i, n int32) bool { return !s.needy[waiter{i, n}] && may(i, n) }) != none {
		return none
	}
	return s.l.newest(i, current, may)
}

// together reports whether no group can bring member a newer version without one of other: no group
// was locked after member had one and before other had one.
func (l *lint) together(f *frame, other, member int32) bool {
	w := l.w
	o := &w.targets[other]
	var since time.Time
	for n := int32(len(w.versions[o.deployment].list)) - 1; n > o.current && n >= 0; n-- {
		if l.usable(other, n) {
			since = sooner(since, w.gateAt(other, n).base)
		}
	}
	hook := f.roles[w.targets[member].deployment] != bracket.Main
	from, to := w.siblings(member)
	for i := from; i < to; i++ {
		t := &w.targets[i]
		if i != member && !hook || l.frameOf[i] != f || f.roles[t.deployment] != bracket.Main {
			continue
		}
		for n, v := range w.versions[t.deployment].list {
			if int32(n) > t.current && v.CreatedAt.Before(since) && w.inScope(i, int32(n)) {
				return false
			}
		}
	}
	return true
}

// usable reports whether a target may have a version by now.
func (l *lint) usable(i, n int32) bool {
	w := l.w
	return w.inScope(i, n) && l.selected(i, n) && !w.version(i, n).CreatedAt.After(w.now) && len(w.gateAt(i, n).blockers) == 0
}

// always reports whether a member is part of every execution on its resource, whatever there is to
// deploy: a hook, or a main that runs its current version again.
func (l *lint) always(f *frame, i int32) bool {
	t := &l.w.targets[i]
	return f.roles[t.deployment] != bracket.Main || t.current >= 0 && f.rule.bracket.UnchangedMemberStrategy == bracket.RedeployCurrent
}

// included reports whether a member would be part of any execution on its resource: it always is,
// or it is a main that may have a newer version by now, or, if later is set, later.
func (l *lint) included(f *frame, i int32, later bool) bool {
	return l.always(f, i) || l.newest(i, l.w.targets[i].current, func(i, n int32) bool {
		return l.usable(i, n) || later && l.obtainable(i, n)
	}) != none
}

// ring reports a circle of targets, and versions of some, each of which waits for a newer version
// of the next.
func (l *lint) ring(path []waitStep, severity Severity) {
	w := l.w
	name := func(own waiter) string {
		if own.version == none {
			return w.targets[own.target].Deployment
		}
		return w.version(own.target, own.version).named()
	}
	var edges []string
	var concerns reach
	var first *compiledRule
	fix := "remove one of these dependencies or narrow it with appliesTo, let it be satisfied by an older version, or move it into the policy of the bracket, where it orders the members"
	for _, step := range path {
		edge := name(step.waiter) + " needs " + name(step.next)
		if step.bracketed() {
			edge = name(step.waiter) + " needs " + w.targets[step.provider].Deployment + ", which its bracket starts only together with " + name(step.next)
		}
		edges = append(edges, edge)
		if step.rule == nil {
			fix = "remove one of these dependencies, narrow that of the rule with appliesTo, let it be satisfied by an older version, or publish a version that does not depend on the other"
			continue
		}
		concerns.add(step.target)
		if first == nil || strings.Compare(step.rule.id, first.id) < 0 {
			first = step.rule
		}
	}
	detail := "targets of one resource wait for versions that the others do not get: " + strings.Join(edges, ", ")
	if first == nil {
		var versions []string
		for k, step := range path {
			versions = append(versions, name(step.waiter))
			if !slices.ContainsFunc(path[:k], func(before waitStep) bool { return before.target == step.target }) {
				concerns.add(step.target)
			}
		}
		l.addApart(Finding{Path: "versions[" + slices.Min(versions) + "].dependencies"}, detail, LintDependencyCycle, severity, concerns, detail,
			"publish a version without one of these dependencies, or take one of the members out of the bracket")
		return
	}
	l.addApart(findingOf(first, "dependsOn"), detail, LintDependencyCycle, severity, concerns, detail, fix)
}
