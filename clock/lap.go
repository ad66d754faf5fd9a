package clock

import "time"

// A search that finds nothing would go through years of the same week. While no clock is changed and
// no one-off window begins or ends, the windows of a calendar repeat themselves with a period; so a
// search that has gone through one period need not go through the next ones before that ends.

// lap is a stretch [from, to) in which a calendar says at an instant what it says one period later.
// Instants are seconds since 1970. A lap that ends where it begins, or before, is empty.
type lap struct{ from, to int64 }

// skip returns the last instant in the lap that is a whole number of periods after at, or at if the
// lap is over, or has not lasted for a period. If the calendar is closed at at, it is closed there
// as well, and between them it is open for as long at a time as it was within the period before at,
// and no longer.
func (l lap) skip(at time.Time, period int64) time.Time {
	second := at.Unix()
	if second < l.from+period || l.to <= second { // from a lap long over to at, a Duration may overflow
		return at
	}
	return at.Add(time.Duration((l.to-1-second)/period*period) * time.Second)
}

// period returns after how many seconds the recurring windows of the calendar repeat themselves
// together; 0 if that is more than longest seconds, if there are recurrences of the host, of which
// nothing is known, or monthly ones, which take 400 years.
func (c Calendar) period(longest int64) int64 {
	days := int64(1)
	for r := range c.rules {
		switch r := r.(type) {
		case hosted:
			return 0
		case *repeated:
			if r.monthly != nil {
				return 0
			}
			if days = leastCommonMultiple(days, r.periodDays()); days*day > longest {
				return 0
			}
		}
	}
	return days * day
}

// repetition is what a search knows of how its calendar repeats itself.
type repetition struct {
	calendar Calendar
	limit    time.Time // of the search
	soon     int       // how many stretches are looked at before it is asked what repeats itself
	looked   int       // stretches so far; counted by the search

	asked      bool  // for the period
	period     int64 // in seconds; 0: there is none
	lap        lap
	again, due int // when to ask for a lap, in stretches and in steps: near a change of the clock there is none
}

// patience is how many stretches a search looks at before it asks what repeats itself. Most
// searches end before.
const patience = 32

// glances is how many rules a lap looks at in the time in which the cursor asks one. So laps cost no
// more than what lies between them, however many rules there are.
const glances = 16

// repetition returns that of a search from at to limit.
func (c Calendar) repetition(at, limit time.Time, soon int) repetition {
	return repetition{calendar: c, limit: limit, soon: soon, again: soon, lap: lap{to: at.Unix()}} // the lap is over
}

// skip is [lap.skip] at an instant at which the calendar is closed, in the lap that holds it. If it
// is too soon to ask for one, skip returns at.
func (r *repetition) skip(k *cursor, at time.Time) time.Time {
	if r.looked < r.soon {
		return at
	}
	if !r.asked {
		r.asked, r.period = true, r.calendar.period(int64(r.limit.Sub(at)/time.Second))
	}
	if r.period == 0 {
		return at
	}
	if r.looked >= r.again && at.Unix() >= r.lap.to {
		if steps := k.steps(); steps >= r.due {
			r.lap, r.again, r.due = r.calendar.lap(at, r.limit), r.looked+r.soon, steps+len(k.states)/glances
		}
	}
	return r.lap.skip(at, r.period)
}

// periodDays returns after how many days the starts have the same times again, on a local clock.
func (r *repeated) periodDays() int64 {
	switch {
	case r.weekly:
		return r.interval * week
	case r.days == everyDay:
		return r.interval
	}
	return leastCommonMultiple(r.interval, week)
}

// leastCommonMultiple is that of two numbers of days, each at most seven times maxInterval or as
// many as are searched.
func leastCommonMultiple(a, b int64) int64 {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// lap returns the lap that begins at an instant or after it, and ends where a search does or
// before. It is empty if a clock is changed or a one-off window begins or ends too soon.
func (c Calendar) lap(at, limit time.Time) lap {
	l := lap{at.Unix(), limit.Unix()} // rounded down: what recurs begins and ends at whole seconds
	for r := range c.rules {
		switch r := r.(type) {
		case once:
			for _, boundary := range [...]time.Time{r.from, r.until} {
				if boundary.After(at) {
					l.to = min(l.to, boundary.Unix())
				}
			}
		case *repeated:
			// Occurrences that began before a change may last until after it, and a search for what
			// began last may look four days ahead or back, by reach.
			p, margin := r.zone.at(at.Unix()), 5*day+max(r.length, 2*day)
			l.from, l.to = max(l.from, p.start+margin), min(l.to, p.end-margin)
		}
	}
	return l
}

// rules yields the rules of all windows.
func (c Calendar) rules(yield func(rule) bool) {
	for i := range c.sets {
		for _, g := range [...]*group{&c.sets[i].deny, &c.sets[i].allow} {
			for _, r := range g.rules {
				if !yield(r) {
					return
				}
			}
		}
	}
}
