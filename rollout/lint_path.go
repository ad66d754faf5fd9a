package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// longest returns how long the longest chain of needs among some members takes, given by the
// numbers of their deployments. It leaves out needs that hold for some versions only, because they
// may not hold.
func (l *lint) longest(b *lintBracket, among []int32) time.Duration {
	ends := make(map[int32]time.Duration, len(among)) // negative: of a member whose end is not known yet
	for _, d := range among {
		ends[d] = -1
	}
	var end func(d int32) time.Duration
	end = func(d int32) time.Duration {
		if ends[d] >= 0 {
			return ends[d]
		}
		var start time.Duration
		needs := b.needs[d]
		if len(among) < len(needs) { // a hook needs all mains, of which each is looked at alone
			for _, other := range among {
				if _, needed := slices.BinarySearch(needs, other); needed {
					start = max(start, end(other))
				}
			}
		} else {
			for _, other := range needs {
				if _, taken := ends[other]; taken {
					start = max(start, end(other))
				}
			}
		}
		ends[d] = saturatingSum(start, l.duration(d).duration)
		return ends[d]
	}
	var last time.Duration
	for _, d := range among {
		last = max(last, end(d))
	}
	return last
}

// execution is an execution of some members of a bracket on one resource.
type execution struct {
	hours    []*hours // of their targets
	calendar clock.Calendar
	stretch  time.Duration // for how long everything must remain open when it starts
	length   time.Duration // at least
}

// executionOf returns the execution of some members of a resource, given by their targets.
func (l *lint) executionOf(b *lintBracket, own []int32) execution {
	var e execution
	var calendars []clock.Calendar
	taken := make([]int32, len(own))
	for k, i := range own {
		taken[k] = l.w.targets[i].deployment
		if h := l.w.hoursOf(i, none); h != nil && !slices.Contains(e.hours, h) {
			e.hours, calendars, e.stretch = append(e.hours, h), append(calendars, h.calendar), max(e.stretch, h.longest)
		}
	}
	e.calendar = clock.Intersect(calendars...)
	e.length = l.longest(b, taken)
	return e
}

// lookAtPaths compares the critical path of the members with the openings of their windows.
// Resources that are alike are looked at once.
func (l *lint) lookAtPaths(b *lintBracket) {
	first := map[string][]int32{} // the targets of the first of the resources that are alike
	var concerned reaches[string]
	for own := range l.onResources(b) {
		var key strings.Builder
		for _, i := range own {
			fmt.Fprintf(&key, "%d %p ", l.w.targets[i].deployment, l.w.hoursOf(i, none))
		}
		k := key.String()
		if first[k] == nil {
			first[k] = own
		}
		concerned.at(k).merge(reachOf(own))
	}
	for _, key := range concerned.keys {
		l.lookAtPath(b, first[key], *concerned.at(key))
	}
}

func (l *lint) lookAtPath(b *lintBracket, own []int32, concerns reach) {
	all := l.executionOf(b, own)
	var mains, hooks []int32
	for _, i := range own {
		if b.isMain(&l.w.targets[i]) {
			mains = append(mains, i)
		} else {
			hooks = append(hooks, i)
		}
	}
	var single []execution // of one main member with its hooks
	for _, i := range mains {
		single = append(single, l.executionOf(b, append(hooks[:len(hooks):len(hooks)], i)))
	}
	if len(single) == 0 || slices.ContainsFunc(all.hours, func(h *hours) bool { return !l.fits(h.calendar, h.longest) }) {
		return // or windows that never open, which is another finding
	}
	opens := func(e execution) bool { return l.fits(e.calendar, e.stretch) }   // without windows it always is
	contains := func(e execution) bool { return l.fits(e.calendar, e.length) } // asked only of an execution that opens
	severity, what := SeverityError, "even a single main member with its hooks"
	if !opens(all) {
		if slices.ContainsFunc(single, opens) {
			severity, what = SeverityWarning, "all members together"
		}
		l.add(findingOf(b.rule, ""), LintWindowNeverOpens, severity, concerns,
			fmt.Sprintf("an execution starts only while the windows of all its members are open, and within %v there is no such time for %s", textlist.Duration(l.horizon), what),
			"let the windows of the members meet, best by giving them one policy")
		return
	}
	length := slices.MinFunc(single, func(a, b execution) int { return cmp.Compare(a.length, b.length) }).length
	if slices.ContainsFunc(single, contains) {
		if contains(all) {
			return
		}
		severity, what, length = SeverityWarning, "all members together", all.length
	}
	l.add(findingOf(b.rule, ""), LintWindowShorterThanBracket, severity, concerns,
		fmt.Sprintf("an execution of %s takes %v, longer than the windows are open at a stretch within %v: it ends outside of them", what, textlist.Duration(length), textlist.Duration(l.horizon)),
		"widen the windows, or split the bracket; minimumRemainingMinutes keeps what does not fit from starting")
}
