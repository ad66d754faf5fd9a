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

// waitGraph holds the targets that dependencies block although some version could satisfy each
// dependency, and the versions on their resources that wait for versions of other deployments.
type waitGraph struct {
	l         *lint
	blocked   map[int32][]*compiledRule // target → the rules that are not satisfied now
	order     []int32                   // the targets of blocked, ascending
	waiting   map[waiter]bool           // versions with a dependency that is not met yet
	withLater bool                      // a member also holds its execution for what it may get later: once it is approved, has succeeded elsewhere, or is released
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
func (l *lint) lookAtBlocked(s waitGraph) {
	s.waiting = l.waitingVersions(s.order)
	supposed := waitGraph{l: l, blocked: maps.Clone(s.blocked), order: s.order, waiting: maps.Clone(s.waiting), withLater: true}
	certain := map[int32]bool{}
	for _, path := range s.circles() {
		l.reportCircle(path, SeverityError)
	}
	for i := range s.blocked {
		certain[i] = true
	}
	for _, path := range supposed.circles() {
		if !slices.ContainsFunc(path, func(step waitStep) bool { return certain[step.target] || ofVersions(path) && s.waiting[step.waiter] }) {
			l.reportCircle(path, SeverityWarning)
		}
	}
}

// waitingVersions finds the versions with dependencies that targets may get on the resources of the
// blocked targets, and where a member of a bracket may get one.
func (l *lint) waitingVersions(blocked []int32) map[waiter]bool {
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
				if l.bracketOf[i] != nil {
					resources[t.resource] = true
				}
			}
		}
	}
	waiting := map[waiter]bool{}
	for _, own := range all {
		if resources[w.targets[own.target].resource] {
			waiting[own] = true
		}
	}
	return waiting
}

// circles takes away the waiters that can start, again and again, and returns the circles in what
// is left. It leaves out circles of versions alone that need no bracket, which lookAtCycles
// reports.
func (s waitGraph) circles() [][]waitStep {
	var circles [][]waitStep
	var starts []waiter
	for s.removeStartable() {
	}
	for _, i := range s.order {
		if s.blocked[i] != nil {
			starts = append(starts, waiter{i, none})
		}
	}
	starts = append(starts, slices.SortedFunc(maps.Keys(s.waiting), func(a, b waiter) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.version, b.version))
	})...)
	visited := map[waiter]bool{}
	for _, start := range starts {
		var circle []waitStep
		for _, at := range circleFrom(start, visited, func(at waiter) waiter { return s.step(at).next }) {
			circle = append(circle, *s.step(at))
		}
		if !ofVersions(circle) || slices.ContainsFunc(circle, waitStep.bracketed) {
			circles = append(circles, circle)
		}
	}
	return circles
}

// removeStartable takes away waiters that can start, and reports whether there were any. It asks
// about the one that a waiter waits for before it asks about that waiter again: in a chain, all are
// taken away at once.
func (s waitGraph) removeStartable() bool {
	before := len(s.blocked) + len(s.waiting)
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
			delete(s.waiting, own)
		}
	}
	for _, i := range s.order {
		if own := (waiter{i, none}); s.blocked[i] != nil && !visited[own] {
			visit(own)
		}
	}
	for own := range s.waiting {
		if !visited[own] {
			visit(own)
		}
	}
	return len(s.blocked)+len(s.waiting) < before
}

// ofVersions reports whether no rule makes a circle, or there is none.
func ofVersions(circle []waitStep) bool {
	return !slices.ContainsFunc(circle, func(step waitStep) bool { return step.rule != nil })
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
func (s waitGraph) step(own waiter) *waitStep {
	if own.version != none {
		return s.stepOfVersion(own)
	}
	for _, rule := range s.blocked[own.target] {
		var step *waitStep
		met := s.l.couldMeet(rule, own.target, func(k int32) bool {
			if !s.l.ruleSatisfiable(rule, k) {
				return false
			}
			next := s.blockerOfMatching(k, rule.dependsOn)
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

func (s waitGraph) stepOfVersion(own waiter) *waitStep {
	w := s.l.w
	for _, d := range w.versions[w.targets[own.target].deployment].list[own.version].Dependencies {
		k := w.sibling(own.target, d.Deployment)
		if k == none {
			continue
		}
		if b := s.l.bracketOf[k]; b != nil && b == s.l.bracketOf[own.target] {
			continue // one execution may bring both
		}
		matcher, err := w.expression(d.VersionSelector)
		if err != nil || !s.l.dependencySatisfiable(own.target, own.version, k, matcher) {
			continue
		}
		if next := s.blockerOfMatching(k, matcher); next != nil {
			return &waitStep{own, nil, k, *next}
		}
	}
	return nil
}

// blockerOfMatching returns a waiter that keeps target k from all versions that an expression is
// true of and that it may get; nil if there is none.
func (s waitGraph) blockerOfMatching(k int32, m Matcher) *waiter {
	t := &s.l.w.targets[k]
	held := s.blockerOf(k)
	var first *waiter
	for n := range s.l.w.versions[t.deployment].list {
		own := waiter{k, int32(n)}
		switch {
		case !s.l.hasOrObtains(k, own.version) || !s.l.meets(m, k, own.version):
		case own.version <= t.floor(), held == nil && !s.waiting[own]:
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

// blockerOf returns the waiter that keeps target k from getting anything newer: k itself, or a
// member of its bracket that would be part of the same execution, which starts only when all of its
// runs may. Such a member is blocked, or every version that it may get depends on versions that are
// not there. blockerOf returns nil if there is no such waiter.
func (s waitGraph) blockerOf(k int32) *waiter {
	if s.blocked[k] != nil {
		return &waiter{k, none}
	}
	b := s.l.bracketOf[k]
	if b == nil || b.group == nil {
		return nil
	}
	from, to := s.l.w.siblings(k)
	for i := from; i < to; i++ {
		if s.l.bracketOf[i] != b {
			continue
		}
		own, blocked := waiter{i, none}, s.blocked[i] != nil
		if !blocked && i != k { // for k itself it depends on the version that is meant
			own.version = s.newestWaiting(i)
		}
		if (own.version != none || blocked && s.l.included(b, i, s.withLater)) &&
			(s.withLater || blocked && s.l.alwaysIncluded(b, i) || s.l.alwaysTogether(b, i, k)) {
			return &own
		}
	}
	return nil
}

// newestWaiting returns the newest version that a target may have by now, or later, if it has none
// to get but versions that wait for others; else none.
func (s waitGraph) newestWaiting(i int32) int32 {
	may := func(i, n int32) bool { return s.l.obtainableNow(i, n) || s.withLater && s.l.obtainable(i, n) }
	current := s.l.w.targets[i].current
	if s.l.newest(i, current, func(i, n int32) bool { return !s.waiting[waiter{i, n}] && may(i, n) }) != none {
		return none
	}
	return s.l.newest(i, current, may)
}

// alwaysTogether reports whether no group can bring member a newer version without one of other: no
// group was locked after member had one and before other had one.
func (l *lint) alwaysTogether(b *lintBracket, other, member int32) bool {
	w := l.w
	o := &w.targets[other]
	var since time.Time
	for n := int32(len(w.versions[o.deployment].list)) - 1; n > o.current && n >= 0; n-- {
		if l.obtainableNow(other, n) {
			since = sooner(since, w.gateAt(other, n).base)
		}
	}
	hook := !b.isMain(&w.targets[member])
	from, to := w.siblings(member)
	for i := from; i < to; i++ {
		t := &w.targets[i]
		if i != member && !hook || l.bracketOf[i] != b || !b.isMain(t) {
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

// alwaysIncluded reports whether a member is part of every execution on its resource, whatever
// there is to deploy: a hook, or a main that runs its current version again.
func (l *lint) alwaysIncluded(b *lintBracket, i int32) bool {
	t := &l.w.targets[i]
	return !b.isMain(t) || t.current >= 0 && b.rule.bracket.UnchangedMemberStrategy == bracket.RedeployCurrent
}

// included reports whether a member would be part of any execution on its resource: it always is,
// or it is a main that may have a newer version by now, or, if later is set, later.
func (l *lint) included(b *lintBracket, i int32, later bool) bool {
	return l.alwaysIncluded(b, i) || l.newest(i, l.w.targets[i].current, func(i, n int32) bool {
		return l.obtainableNow(i, n) || later && l.obtainable(i, n)
	}) != none
}

// reportCircle reports a circle of targets, and versions of some, each of which waits for a newer
// version of the next.
func (l *lint) reportCircle(path []waitStep, severity Severity) {
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
