package rollout

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtCurves compares the length of each gradual rollout with the open time that one period of
// the windows has. Rollouts of one rule differ in length: it speaks of the targets of those that
// are longer.
func (l *lint) lookAtCurves() {
	offers := map[*hours]estimate{}
	for _, rule := range l.w.set.gradual {
		var slow reaches[*hours]    // targets whose rollout takes longer than a period offers
		longest := map[*hours]int{} // → the largest population among these
		due, founders := 0, 0
		for _, own := range l.populations(rule) {
			if n := rule.gradual.curve(own.founders).within(own.founders, lastInstant().Sub(l.w.now)); own.founders-n > founders-due {
				due, founders = n, own.founders
			}
			length := curveLength(rule, own.founders)
			for _, i := range own.targets {
				h := l.w.hoursOf(i, none)
				if h == nil {
					continue
				}
				offered, known := offers[h]
				if !known {
					offered = l.offered(h, l.period(h))
					offers[h] = offered
				}
				if offered.known && length > offered.duration {
					slow.at(h).add(i)
					longest[h] = max(longest[h], own.founders)
				}
			}
		}
		if due < founders {
			l.add(findingOf(rule, "timeScaleInterval"), LintCurveOverflows, SeverityError, reach{},
				fmt.Sprintf("only %d of %d turns come before %d, which is as far as instants reach: the others never do", due, founders, lastInstant().Year()), "shorten the curve")
			continue
		}
		for _, h := range slow.keys {
			l.add(findingOf(rule, "timeScaleInterval"), LintCurveLongerThanWindowPeriod, SeverityWarning, *slow.at(h),
				fmt.Sprintf("a rollout to %d takes %v of open time, and every %v the windows let jobs start for %v at most",
					longest[h], textlist.Duration(curveLength(rule, longest[h])), textlist.Duration(l.period(h)), textlist.Duration(offers[h].duration)),
				"widen the windows or shorten the curve, unless a rollout may take several periods")
		}
	}
}

// population is what one gradual rollout ranks.
type population struct {
	targets  []int32
	founders int // targets, or distinct resources
}

// populations lists what a gradual rule ranks. In an environment with members of the bracket by
// which it orders them, it ranks these by themselves, and what else it governs with all that it
// governs there.
func (l *lint) populations(rule *compiledRule) []population {
	w := l.w
	var all []population
	if rule.gradual.OrderKey == OrderByTarget {
		for _, targets := range l.governedPairs(rule) {
			all = append(all, population{targets, len(targets)})
		}
		return all
	}
	var environments [][]int32 // what the rule governs in each
	last := int32(none)
	for pair, targets := range l.governedPairs(rule) {
		if e, _ := w.splitPair(pair); e != last {
			environments, last = append(environments, nil), e
		}
		own := &environments[len(environments)-1]
		*own = append(*own, targets...)
	}
	for _, targets := range environments {
		slices.Sort(targets)
		founders := len(w.heads(targets))
		if rule.gradual.OrderKey == OrderByBracket {
			var members, others []int32
			for _, i := range targets {
				if b := l.bracketOf[i]; b != nil && b.id == rule.bracketID {
					members = append(members, i)
				} else {
					others = append(others, i)
				}
			}
			all = append(all, population{members, len(w.heads(members))})
			targets = others
		}
		all = append(all, population{targets, founders})
	}
	return all
}

// curveLength returns how long after the start the last founder is due; math.MaxInt64 if that
// overflows.
func curveLength(rule *compiledRule, founders int) time.Duration {
	if founders == 0 {
		return 0
	}
	length, err := rule.gradual.curve(founders).offset(founders - 1)
	if err != nil {
		return math.MaxInt64
	}
	return length
}

// period returns how long windows take to repeat: the longest period of one of them; the horizon if
// none repeats.
func (l *lint) period(h *hours) time.Duration {
	var longest time.Duration
	for _, rule := range h.rules {
		switch w := &rule.window.Window; {
		case w.Weekly != nil:
			longest = max(longest, saturatingProduct(max(1, int64(w.Weekly.EveryWeeks)), week))
		case w.RRule != "":
			longest = max(longest, periodOf(w.RRule))
		}
	}
	if longest == 0 {
		return l.horizon
	}
	return longest
}

// periodOf reads the period of an rrule that package clock accepted.
func periodOf(rrule string) time.Duration {
	unit, interval := day, int64(1)
	for part := range strings.SplitSeq(strings.ToUpper(rrule), ";") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "FREQ":
			switch value {
			case "WEEKLY":
				unit = week
			case "MONTHLY":
				unit = 31 * day
			}
		case "BYDAY":
			unit = max(unit, week) // a daily rule on some days of the week repeats once both the interval and the week have come round
		case "INTERVAL":
			interval, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return saturatingProduct(interval, unit)
}

// offered returns for how long jobs may start in the best of the periods from now on, because a
// period that a freeze shortens is no measure. Time that must remain open after a start is no time
// to start in. It is not known for windows that never open, which is another finding, and for a
// recurrence of the host that cannot be followed.
func (l *lint) offered(h *hours, period time.Duration) estimate {
	periods, known := l.openings(h, period, h.longest)
	if !known {
		return estimate{}
	}
	var best time.Duration
	for open := range periods {
		best = max(best, sumOf(open))
	}
	return estimate{best, true}
}

// openings yields, for each of the periods from now on in which windows are open, how long they are
// so at a stretch, each time but for a margin before they close. It is not known where offered is
// not.
func (l *lint) openings(h *hours, period, margin time.Duration) (periods iter.Seq[[]time.Duration], known bool) {
	from, to := l.w.now, addTime(l.w.now, period)
	end := addTime(from, saturatingProduct(max(1, int64(l.until.Sub(from)/period)), period))
	if _, err := h.calendar.OpenBetween(from, end); err != nil || !l.fits(h.calendar, h.longest) {
		return nil, false
	}
	return func(yield func([]time.Duration) bool) {
		var open []time.Duration
		to := to
		for opens, closes := range h.calendar.Intervals(from, addTime(end, margin)) {
			last := closes.Add(-margin) // at or before end
			for opens.Before(last) {
				if !opens.Before(to) {
					if !yield(open) {
						return
					}
					open, to = open[:0], addTime(to, saturatingProduct(int64(opens.Sub(to)/period)+1, period))
				}
				part := last
				if part.After(to) {
					part = to
				}
				open = append(open, part.Sub(opens))
				opens = part
			}
		}
		yield(open)
	}, true
}

// mostWithin measures the stretches in which jobs may start in the best of the periods from now on,
// each time but for a margin before the windows close. Where there are no windows, or it is not
// known when they open, and where they may be open throughout, that is the period as a whole.
func (l *lint) mostWithin(h *hours, period, margin time.Duration, measure func(stretches []time.Duration) time.Duration) time.Duration {
	whole := measure([]time.Duration{period})
	if h == nil || l.fits(h.calendar, saturatingSum(period, margin)) {
		return whole
	}
	periods, known := l.openings(h, period, margin)
	if !known {
		return whole
	}
	var most time.Duration
	for open := range periods {
		most = max(most, measure(open))
	}
	return most
}

// sumOf returns the sum of the stretches of one period.
func sumOf(stretches []time.Duration) (sum time.Duration) {
	for _, d := range stretches {
		sum += d
	}
	return sum
}
