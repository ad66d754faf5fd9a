package rollout

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtWindows finds calendars that never open. It looks at those of targets that wait for them,
// of targets that run nothing yet and will wait only for their second version, and of policies that
// govern no target.
func (l *lint) lookAtWindows() {
	var waiting reaches[*hours]
	for i := range l.w.targets {
		if h := l.w.hoursOf(int32(i), none); h != nil {
			waiting.at(h).add(int32(i))
		}
	}
	for _, k := range l.kinds {
		if h := l.w.views.list[k.view].hours; h != nil {
			waiting.at(h) // no target waits for them yet
		}
	}
	for _, h := range waiting.keys {
		l.lookAtHours(h, *waiting.at(h))
	}
	for _, p := range l.w.set.policies {
		if len(p.windows) > 0 {
			l.lookAtHours(newHours([]policyHours{p.hours}), reach{})
		}
	}
}

// fits reports whether a calendar is open for so long, from some instant within the horizon on.
func (l *lint) fits(c clock.Calendar, d time.Duration) bool {
	_, err := c.WithHorizon(l.horizon).NextFit(l.w.now, d)
	return err == nil
}

func (l *lint) lookAtHours(h *hours, waiting reach) {
	if l.fits(h.calendar, h.longest) {
		return
	}
	stretch := ""
	if l.fits(h.calendar, 0) {
		stretch = fmt.Sprintf(" for the %v that minimumRemainingMinutes asks for", textlist.Duration(h.longest))
	}
	within := "within " + textlist.Duration(l.horizon)
	say := func(rule *compiledRule, code LintCode, detail, fix string) {
		f := findingOf(rule, "")
		// One rule may stand for several calendars: one with the rules of each other policy.
		if _, worse := l.index[findingKey{code, SeverityError, f.Policy, f.Rule, f.Path, detail}]; !worse || waiting.some() {
			l.addApart(f, detail, code, neverOr(waiting), waiting, detail, fix)
		}
	}
	var opening, closing []*compiledRule
	var names []string
	var openings []clock.Calendar
	alone := false
	for rules := range stretches(h.rules, samePolicy) {
		policy := rules[0].policy
		var allows, denies []*compiledRule
		for _, rule := range rules {
			if rule.window.allows() {
				allows = append(allows, rule)
			} else {
				denies = append(denies, rule)
			}
		}
		names = append(names, policy.id)
		opening, closing = append(opening, allows...), append(closing, denies...)
		open, failed := l.w.set.calendar(allows)
		whole, faulty := l.w.set.calendar(rules)
		openings = append(openings, open)
		switch {
		case failed != nil || !l.fits(open, h.longest): // without any it is always open
			alone = true
			say(allows[0], LintWindowNeverOpens,
				fmt.Sprintf("the windows of %q are never open%s %s", policy.id, stretch, within),
				"add an opening that is still to come and long enough, or ask for less remaining time")
		case faulty != nil || !l.fits(whole, h.longest):
			alone = true
			say(denies[0], LintFreezeCoversOpenings,
				fmt.Sprintf("the closing windows of %q cover every opening%s %s", policy.id, stretch, within),
				"shorten or remove one of them, or override it for the version that cannot wait")
		}
	}
	switch {
	case alone:
	case !l.fits(clock.Intersect(openings...), h.longest):
		say(opening[0], LintWindowNeverOpens,
			fmt.Sprintf("the windows of %s are never open together%s %s", strings.Join(names, ", "), stretch, within),
			"a target starts only while the windows of all its policies are open: let them meet, or put them into one policy, where one open window will do")
	default:
		say(closing[0], LintFreezeCoversOpenings,
			fmt.Sprintf("the closing windows of %s together cover every opening%s %s", strings.Join(names, ", "), stretch, within),
			"shorten or remove one of them, or override it for the version that cannot wait")
	}
}

// lookAtCurves compares the length of each gradual rollout with the open time that one period of
// the windows has. Rollouts of one rule differ in length: it speaks of the targets of those that are
// longer.
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
				if f := l.frameOf[i]; f != nil && f.id == rule.bracketID {
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

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// period returns how long windows take to repeat: the longest period of one of them; the horizon if
// none repeats.
func (l *lint) period(h *hours) time.Duration {
	var longest time.Duration
	for _, rule := range h.rules {
		switch w := &rule.window.Window; {
		case w.Weekly != nil:
			longest = max(longest, times(max(1, int64(w.Weekly.EveryWeeks)), week))
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
			if value == "WEEKLY" {
				unit = week
			}
		case "BYDAY":
			unit = week // a daily rule on some days of the week repeats once both the interval and the week have come round
		case "INTERVAL":
			interval, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return times(interval, unit)
}

func times(n int64, d time.Duration) time.Duration {
	if n > math.MaxInt64/int64(d) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

// offered returns for how long jobs may start in the best of the periods from now on, because a
// period that a freeze shortens is no measure. Time that must remain open after a start is no time
// to start in. It is not known for windows that never open, which is another finding, and for a
// recurrence of the host that cannot be followed.
func (l *lint) offered(h *hours, period time.Duration) estimate {
	from, to := l.w.now, addTime(l.w.now, period)
	end := to
	for next := addTime(end, period); end.Before(next) && !next.After(l.until); next = addTime(end, period) {
		end = next
	}
	if _, err := h.calendar.OpenBetween(from, end); err != nil || !l.fits(h.calendar, h.longest) {
		return estimate{}
	}
	var best, sum time.Duration
	for opens, closes := range h.calendar.Intervals(from, addTime(end, h.longest)) {
		last := closes.Add(-h.longest) // at or before end
		for opens.Before(last) {
			for !opens.Before(to) {
				best, sum = max(best, sum), 0
				to = addTime(to, period)
			}
			part := last
			if part.After(to) {
				part = to
			}
			sum += part.Sub(opens)
			opens = part
		}
	}
	return estimate{max(best, sum), true}
}

// lookAtClocks finds occurrences of windows whose ends the clock of their zone skips or shows
// twice.
func (l *lint) lookAtClocks() {
	for _, rule := range l.w.set.windows {
		l.lookAtClock(rule)
	}
}

func (l *lint) lookAtClock(rule *compiledRule) {
	own := rule.window.Window
	zone := l.w.set.zones[string(own.Timezone)]
	if zone == nil || own.Weekly == nil && own.RRule == "" {
		return // UTC, instants, or a recurrence with rules of its own
	}
	// The same window in UTC, where every reading exists once, gives the readings of its ends.
	readings := own
	readings.Timezone, readings.AllowWindow, readings.Gap, readings.Overlap = "", nil, "", ""
	if instant, err := time.Parse(time.RFC3339Nano, own.Anchor); err == nil {
		readings.Anchor = instant.In(zone).Format("2006-01-02T15:04:05")
	}
	calendar, err := clock.NewCalendar([]clock.Window{readings}, nil)
	if err != nil {
		return
	}
	first, count := l.touches(&own, zone, calendar)
	if count == 0 {
		return
	}
	field, instead := "gap", "it is taken for the end of the gap"
	if first.which != "skips" {
		field, instead = "overlap", "the first pass is meant"
		if first.what == "ends" && !rule.window.allows() {
			instead = "the last pass is meant"
		}
	}
	fix := "move it to hours that every day has once"
	if first.what == "begins" {
		fix += ", or write " + field + " to say that you know"
	}
	l.add(findingOf(rule, ""), LintWindowClockChange, SeverityInfo, reach{},
		fmt.Sprintf("it %s at %s, a reading that the clock of %s %s: %s%s", first.what, first.reading.Format("2006-01-02 15:04:05"), own.Timezone, first.which, instead, more(count)),
		fix)
}

// touched is an end of an occurrence that a change of the clock touches.
type touched struct {
	reading     time.Time
	what, which string // the end, and what the clock does with its reading
}

// touches counts the ends of occurrences within the horizon that the clock of a zone skips or shows
// twice, and returns the first. calendar gives their readings.
func (l *lint) touches(own *clock.Window, zone *time.Location, calendar clock.Calendar) (first touched, count int) {
	for t := l.w.now.Add(-1); ; {
		change := nextChange(zone, t)
		if change.IsZero() || !change.Before(l.until) {
			return first, count
		}
		t = change
		_, before := change.Add(-1).In(zone).Zone()
		_, after := change.In(zone).Zone()
		skipped := after > before // a change of the name alone skips nothing and shows nothing twice
		low, high := change.UTC().Add(time.Duration(before)*time.Second), change.UTC().Add(time.Duration(after)*time.Second)
		which, decided := "skips", own.Gap
		if !skipped {
			low, high, which, decided = high, low, "shows twice", clock.Gap(own.Overlap)
		}
		note := func(reading time.Time, what string) {
			if count++; count == 1 {
				first = touched{reading, what, which}
			}
		}
		for start, end := range calendar.Intervals(low.Add(-2*day), high.Add(2*day)) {
			if !start.Before(low) && start.Before(high) && decided == "" {
				note(start, "begins")
			}
			// An end at the first skipped reading is the instant of the change, as it is written.
			if own.Weekly != nil && own.Weekly.End != "" && !end.Before(low) && end.Before(high) && !(skipped && end.Equal(low)) {
				note(end, "ends")
			}
		}
	}
}

// nextChange returns an instant after t up to which the clock of a zone does not change, zero if it
// never does any more. In years without recorded changes [time.Time.ZoneBounds] knows only the year
// of t, and on December 31 of a leap year the end that it gives is in the past.
func nextChange(zone *time.Location, t time.Time) time.Time {
	_, change := t.In(zone).ZoneBounds()
	if !change.IsZero() && !change.After(t) {
		return time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC)
	}
	return change
}

func more(count int) string {
	switch count {
	case 1:
		return ""
	case 2:
		return ", and once more within the horizon"
	}
	return fmt.Sprintf(", and %d times more within the horizon", count-1)
}
