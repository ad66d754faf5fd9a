package rollout

import (
	"fmt"
	"math"
	"slices"
)

// lookAtVersionDependencies finds versions that depend on a deployment which is not there, or on a
// version of it which does not exist.
func (l *lint) lookAtVersionDependencies() {
	w := l.w
	for i := range w.targets {
		t := &w.targets[i]
		if !w.dependent[t.deployment] || t.current == missing {
			continue
		}
		versions := w.versions[t.deployment].list
		for n := int32(len(versions)) - 1; n > t.floor(); n-- {
			if !l.deployableOn(int32(i), n) {
				continue
			}
			for k := range versions[n].Dependencies {
				l.lookAtVersionDependency(int32(i), n, k)
			}
		}
	}
}

// lookAtVersionDependency does so for the k-th dependency of version n, which target i may get.
func (l *lint) lookAtVersionDependency(i, n int32, k int) {
	w := l.w
	v := w.version(i, n)
	d := v.Dependencies[k]
	say := func(field string, severity Severity, detail, fix string) {
		path := fmt.Sprintf("versions[%s].dependencies[%d]", v.named(), k)
		l.addApart(Finding{Path: path + field}, detail, LintDependencyUnmatched, severity, reach{1, i}, detail, fix)
	}
	other := w.sibling(i, d.Deployment)
	if other == none {
		say(".deployment", SeverityError, fmt.Sprintf("%q has no target on the same resource in the same environment: the version never starts there", d.Deployment),
			"correct the id, or leave these targets out with targetSelector")
		return
	}
	matcher, err := w.expression(d.VersionSelector)
	switch {
	case err != nil || !l.dependencySatisfiable(i, n, other, matcher):
		say(".versionSelector", SeverityWarning, noneSatisfies(d.Deployment), "publish one that does, let one through that is held back, or correct the expression")
	case other == i && l.bracketOf[i] != nil:
		if l.skipped(i, n, matcher) {
			say(".versionSelector", SeverityWarning,
				fmt.Sprintf("the execution of %q that brings the version brings none of %s before it that satisfies it, and so does not begin", l.bracketOf[i].id, d.Deployment),
				"pause the version until one that satisfies it is deployed, or leave these targets out with targetSelector")
		}
	case l.replaced(i, n, other, matcher):
		say(".versionSelector", SeverityWarning,
			fmt.Sprintf("the execution of %q that brings the version brings one of %s that does not satisfy it, and so does not begin", l.bracketOf[i].id, d.Deployment),
			"publish a version of one of the two that goes with the other, or take one of them out of the bracket")
	default:
		below := int32(math.MaxInt32)
		if other == i {
			below = n // it depends on what is there before it
		}
		if next := l.passingVersion(other, below, matcher); next != none {
			say(".versionSelector", SeverityWarning, passedOver(w.version(other, next).named()), letSatisfy)
		}
	}
}

// replaced reports whether the next execution brings target i version n, which depends on a version
// of target k that an expression is true of, and brings target k a newer version that it is not
// true of. An execution brings the newest version of each that may come by now. A group that was
// locked before the newer version was there may still begin.
func (l *lint) replaced(i, n, k int32, m Matcher) bool {
	newest := l.newestObtainableNow(k)
	if b := l.bracketOf[i]; b == nil || b != l.bracketOf[k] || newest == none || l.newestObtainableNow(i) != n {
		return false
	}
	vars := l.w.boundWith(k, newest)
	return ask(m, &vars) == no
}

// skipped reports whether the next execution brings target i, a member of a bracket, version n,
// which depends on what its own deployment runs there before, and the target neither runs nor has
// started a version that the expression is true of.
func (l *lint) skipped(i, n int32, m Matcher) bool {
	if l.newestObtainableNow(i) != n {
		return false
	}
	t := &l.w.targets[i]
	return !slices.ContainsFunc([]int32{t.current, t.started}, func(version int32) bool { return version >= 0 && l.meets(m, i, version) })
}

// dependencySatisfiable reports whether version n on target i, which depends on a version of target
// k that an expression is true of, can have one: k runs such a version, or may get one. Of its own
// deployment it depends on what is there before it, so that neither it nor a newer one will do.
func (l *lint) dependencySatisfiable(i, n, k int32, m Matcher) bool {
	return l.newest(k, none, func(k, version int32) bool {
		return (k != i || version < n) && l.hasOrObtains(k, version) && l.meets(m, k, version)
	}) != none
}
