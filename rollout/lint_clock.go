package rollout

import (
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

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
	if first.whole {
		instead = "all up to its end is skipped, so there is no window that day"
	}
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
	whole       bool   // the whole occurrence is skipped, so it has no length
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
		note := func(reading time.Time, what string, whole bool) {
			if count++; count == 1 {
				first = touched{reading, what, which, whole}
			}
		}
		ends := own.Weekly != nil && own.Weekly.End != "" // by a reading, not after a length
		for start, end := range calendar.Intervals(low.Add(-2*day), high.Add(2*day)) {
			if !start.Before(low) && start.Before(high) && decided == "" {
				note(start, "begins", skipped && ends && !end.After(high))
			}
			// An end at the first skipped reading is the instant of the change, as it is written.
			if ends && !end.Before(low) && end.Before(high) && !(skipped && end.Equal(low)) {
				note(end, "ends", false)
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
