package rollout

import (
	"iter"
	"slices"
)

// Which versions Lint counts on a target. Each of these conditions implies the ones before it:
//
//	deployable     the version is ready by the end of the horizon
//	deployableOn   and it is meant for the target
//	obtainable     and every version selector lets it onto the target: it comes now, or it may later
//	obtainableNow  and it exists already, and its other gates are open, too

// deployable reports whether a version is ready, now or before what is looked at ends.
func (l *lint) deployable(v *Version) bool {
	return v.Status == VersionReady && v.CreatedAt.Before(l.until)
}

// deployableOn reports whether a version is ready, now or later, and meant for a target.
func (l *lint) deployableOn(i, n int32) bool {
	v := l.w.version(i, n)
	return l.deployable(v) && l.w.inScope(i, n)
}

// selected reports whether all version selectors let a version onto a target.
func (l *lint) selected(i, n int32) bool {
	return !slices.ContainsFunc(l.w.viewOf(i).selectors, func(rule *compiledRule) bool { return !l.w.selects(rule, i, n) })
}

// obtainable reports whether a target may have a version, if not now then later: approvals and
// progressions can still come.
func (l *lint) obtainable(i, n int32) bool { return l.deployableOn(i, n) && l.selected(i, n) }

// obtainableNow reports whether a target may have a version by now.
func (l *lint) obtainableNow(i, n int32) bool {
	w := l.w
	return w.inScope(i, n) && l.selected(i, n) && !w.version(i, n).CreatedAt.After(w.now) && len(w.gateAt(i, n).blockers) == 0
}

// hasOrObtains reports whether a target runs a version, has started it, or may get it, if it gets
// anything newer. Who waits for one that a version selector refuses waits for a change of the
// configuration.
func (l *lint) hasOrObtains(k, n int32) bool {
	if t := &l.w.targets[k]; n <= t.floor() {
		return n == t.current || n == t.started
	}
	return l.obtainable(k, n)
}

// newest returns the newest version, above another one, for which is reports true on a target; none
// if there is none.
func (l *lint) newest(i, above int32, is func(i, n int32) bool) int32 {
	for n := int32(len(l.w.versions[l.w.targets[i].deployment].list)) - 1; n > max(above, none); n-- {
		if is(i, n) {
			return n
		}
	}
	return none
}

// newestObtainableNow returns the newest version that a target may have by now, if that is newer
// than what it runs; else none.
func (l *lint) newestObtainableNow(i int32) int32 {
	return l.newest(i, l.w.targets[i].current, l.obtainableNow)
}

// newerVersions yields the versions of a deployment, with their numbers, that are newer than what
// some target has, and deployable. Others are history, of which a host may list much, or were
// withdrawn, and nobody gets them any more.
func (l *lint) newerVersions(d int32) iter.Seq2[int32, *Version] {
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
