package clock

import (
	"fmt"
	"math/bits"
	"sort"
	"time"
)

// rule is a compiled window: a set of half-open intervals, asked one instant at a time. It is
// immutable.
type rule interface {
	// covers reports whether t lies inside.
	covers(t time.Time) (bool, error)
	// at reports whether t lies inside and until when this certainly stays so. until is after t,
	// and may lie beyond the years that calendars cover. It need not be the last such instant,
	// because another occurrence may go on where one ends. An error is a fault of a host's
	// recurrence.
	at(t time.Time) (inside bool, until time.Time, err error)
}

// first and never bound the instants that calendars cover: [first, never).
func first() time.Time { return time.Time{} }

func never() time.Time { return time.Unix(lastInstant, 0).UTC() }

const (
	firstInstant = -62135596800 // 0001-01-01
	lastInstant  = 253402300800 // 10000-01-01: RFC 3339 has no name for it
)

// once is the one-off window [from, until).
type once struct{ from, until time.Time }

func (o once) covers(t time.Time) (bool, error) { return !t.Before(o.from) && t.Before(o.until), nil }

func (o once) at(t time.Time) (bool, time.Time, error) {
	switch {
	case t.Before(o.from):
		return false, o.from, nil
	case t.Before(o.until):
		return true, o.until, nil
	}
	return false, never(), nil
}

// repeated is a daily, weekly or monthly window: on the local days that pass the filter, one
// occurrence per time of day.
//
// Occurrences are ordered by their reading (date, time). Their starts and their ends ascend in that
// order, though not strictly: zone.first, zone.firstFrom and zone.last are monotone in the reading.
// So the occurrence that started last decides whether an instant is covered; those before it ended
// no later.
type repeated struct {
	zone *zone

	// The filter is monthly, or what follows it if that is nil.
	monthly  *monthly
	weekly   bool  // phase counts Monday weeks, else days
	interval int64 // in those units; at least 1
	phase    int64 // number of one unit in which the window recurs
	days     uint8 // bit i: the weekday i after Monday; never 0

	times []int64 // seconds after midnight, ascending; never empty

	length  int64 // elapsed seconds; 0: the occurrence ends at the reading end
	end     int64 // seconds after the midnight that begins the start's date, up to two days
	endLast bool  // it ends when the clock is past that reading for good, not as soon as the clock reaches it

	skip bool // no occurrence if the start is a reading that the clock jumps over
	last bool // a start that the clock shows twice means the second pass
}

// slot identifies an occurrence, or the place of one that was dropped.
type slot struct {
	date  int64 // the local day of the start, in days since 1970
	index int   // into times
}

func (r *repeated) covers(t time.Time) (bool, error) {
	at := t.Unix() // rounds down, and boundaries are whole seconds
	p := r.zone.at(at)
	s, start := r.startedLast(at, p)
	return at < r.endOf(s, start, p), nil
}

func (r *repeated) at(t time.Time) (bool, time.Time, error) {
	at := t.Unix()
	p := r.zone.at(at)
	s, start := r.startedLast(at, p)
	if end := r.endOf(s, start, p); at < end {
		return true, instant(end), nil
	}
	return false, instant(r.nextAfter(at, s, p)), nil
}

func instant(t int64) time.Time { return time.Unix(t, 0).UTC() }

// startedLast returns the last occurrence that started at or before t, with its start; p is the
// piece of t.
func (r *repeated) startedLast(t int64, p piece) (slot, int64) {
	date, second := civil(t + p.offset)
	if p.start > date*day-3*reach || (date+1)*day+reach >= p.end {
		return r.startedLastNearChange(t, p)
	}
	// No change is near, so the clock's reading tells what has started.
	on := r.onOrBefore(date)
	if on == date && r.times[0] > second {
		on = r.onOrBefore(date - 1)
	}
	s := slot{on, len(r.times) - 1}
	if on == date {
		s.index = r.lastTime(func(i int) bool { return r.times[i] <= second })
	}
	if start, ok := r.startOf(s, p); ok {
		return s, start
	}
	return r.startedLastNearChange(t, p)
}

// lastTime returns the last index for which started holds. It holds for 0, and for no index after
// the first for which it does not hold.
func (r *repeated) lastTime(started func(i int) bool) int {
	return sort.Search(len(r.times)-1, func(i int) bool { return !started(i + 1) })
}

// startedLastNearChange is startedLast near a change of the clock. It compares starts only, because
// the clock's reading at t says little there.
func (r *repeated) startedLastNearChange(t int64, p piece) (slot, int64) {
	date, _ := civil(t + reach) // the clock may have been set back, but no reading so far ahead of UTC was ever shown
	started := func(i int) bool {
		start, _ := r.startOf(slot{date, i}, p)
		return start <= t
	}
	for {
		for date = r.onOrBefore(date); !started(0); {
			date = r.onOrBefore(date - 1)
		}
		for i := r.lastTime(started); i >= 0; {
			start, ok := r.startOf(slot{date, i}, p)
			if ok {
				return slot{date, i}, start
			}
			// All occurrences dropped by one gap have the same place, the end of the gap. There may
			// be one for each second of the gap.
			i = sort.Search(i, func(k int) bool {
				place, _ := r.startOf(slot{date, k}, p)
				return place == start
			}) - 1
		}
		date-- // everything on this date was left out
	}
}

// nextAfter returns the start of the first occurrence that starts after t. s is an occurrence that
// does not, or a dropped one before it.
func (r *repeated) nextAfter(t int64, s slot, p piece) int64 {
	for {
		if s.index++; s.index == len(r.times) {
			s = slot{date: r.onOrAfter(s.date + 1)}
		}
		start, ok := r.startOf(s, p)
		if ok && start > t || start >= lastInstant {
			return start
		}
	}
}

// startOf returns the start of the occurrence in s. If there is none, it returns false and an
// instant that keeps the order of starts. p is a guess at the piece of the start.
func (r *repeated) startOf(s slot, p piece) (int64, bool) {
	x := s.date*day + r.times[s.index]
	if start, ok := r.zone.plain(x, p); ok {
		return start, true
	}
	first := r.zone.first(x)
	if shown := r.zone.reading(first); shown != x {
		// The clock jumps over x. The occurrence begins where the clock lands, unless the date does
		// not exist at all: the Friday that Samoa left out in 2011 has no window, not even one of
		// no length at the midnight after it.
		missing := r.zone.reading(r.zone.first(s.date*day)) >= (s.date+1)*day
		return first, !r.skip && !missing
	}
	if r.last {
		// The last second that shows x. It is not Last of x itself: where the clock is set back to
		// exactly x, the clock is never again before x from the first pass on.
		return r.zone.last(x+1) - 1, true
	}
	return first, true
}

func (r *repeated) endOf(s slot, start int64, p piece) int64 {
	if r.length > 0 {
		return start + r.length
	}
	x := s.date*day + r.end
	if end, ok := r.zone.plain(x, p); ok {
		return end
	}
	if r.endLast {
		return r.zone.last(x)
	}
	// Not first: if the start is the second pass of an overlap, the first pass of the end is over.
	return r.zone.firstFrom(start, x)
}

// onOrBefore returns the last date that passes the filter and is not after date; onOrAfter, the
// first that is not before it.
func (r *repeated) onOrBefore(date int64) int64 {
	if !r.weekly {
		if r.monthly != nil {
			return r.monthly.onOrBefore(date)
		}
		for date -= floorMod(date-r.phase, r.interval); r.days>>weekday(date)&1 == 0; {
			date -= r.interval
		}
		return date
	}
	number, on := mondayWeek(date), weekday(date)
	if r.interval > 1 {
		if over := floorMod(number-r.phase, r.interval); over > 0 {
			number, on = number-over, week-1
		}
	}
	below := r.days & (1<<(on+1) - 1)
	if below == 0 {
		number, below = number-r.interval, r.days
	}
	return number*week - 3 + int64(bits.Len8(below)) - 1
}

func (r *repeated) onOrAfter(date int64) int64 {
	if !r.weekly {
		if r.monthly != nil {
			return r.monthly.onOrAfter(date)
		}
		for date += floorMod(r.phase-date, r.interval); r.days>>weekday(date)&1 == 0; {
			date += r.interval
		}
		return date
	}
	number, on := mondayWeek(date), weekday(date)
	if r.interval > 1 {
		if missing := floorMod(r.phase-number, r.interval); missing > 0 {
			number, on = number+missing, 0
		}
	}
	above := r.days >> on << on
	if above == 0 {
		number, above = number+r.interval, r.days
	}
	return number*week - 3 + int64(bits.TrailingZeros8(above))
}

// hosted is a window whose starts come from the host.
type hosted struct {
	path       string // of the recurrence, for faults
	recurrence Recurrence
	location   *time.Location
	length     time.Duration
}

func (h hosted) covers(t time.Time) (bool, error) {
	inside, _, err := h.at(t)
	return inside, err
}

// at asks for the first start after t-length: an occurrence that began earlier has ended. If that
// start is not after t, its occurrence covers t, and so does that of the last start not after t,
// whose end is returned. So a search makes no more than two steps for each length of the window,
// however close to one another the starts are.
func (h hosted) at(t time.Time) (bool, time.Time, error) {
	after := t.Add(-h.length).In(h.location)
	start := h.recurrence.Next(after)
	if start.IsZero() {
		return false, never(), nil
	}
	if !start.After(after) {
		return false, t, h.fault("Next(%s) is %s, which is not after it: the starts must strictly increase", after, start)
	}
	// A start that depends on the instant asked about makes a window that moves along with the
	// question. This check detects an interval after t, such as "every hour from now".
	if before := start.Add(-1).In(h.location); !h.recurrence.Next(before).Equal(start) {
		return false, t, h.fault("Next(%s) is %s, but another answer is given just before that: the starts must not depend on the question", after, start)
	}
	start = start.UTC()
	if start.After(t) {
		return false, start, nil
	}
	return true, h.startedLast(start, t).Add(h.length), nil
}

// startedLast returns the last start that is not after t, or one that is late enough, given the
// first start after t-length. It halves the range, and asks no more than once if there is only one
// start. It ignores a start that breaks the host's promise; the question at the end of the
// occurrence detects that.
func (h hosted) startedLast(start, t time.Time) time.Time {
	advance := func(after time.Time) bool {
		next := h.recurrence.Next(after.In(h.location))
		if next.IsZero() || !next.After(after) || next.After(t) {
			return false
		}
		start = next.UTC()
		return true
	}
	late := func() bool { return t.Sub(start) <= h.length/2 }
	if late() || !advance(start) {
		return start
	}
	for step := h.length / 2; step > 0 && !late(); step /= 2 {
		advance(start.Add(step))
	}
	return start
}

func (h hosted) fault(format string, after, start time.Time) error {
	return &FieldError{Path: h.path, Code: CodeRecurrenceInvalid, Hint: fmt.Sprintf(format, stamp(after), stamp(start))}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
