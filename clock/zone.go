package clock

import (
	"fmt"
	"time"
)

// Instants inside this package are seconds since 1970 in UTC; readings are the seconds that a local
// clock shows, counted as if it stood in UTC: reading = instant + offset. Every boundary of a
// window that is made of readings falls on a whole second.

const (
	day  = 24 * 60 * 60
	week = 7

	// reach is more than any clock on earth differs from UTC (newZone refuses others), so a reading
	// x is shown, if at all, within (x-reach, x+reach).
	reach = 26 * 60 * 60

	// far stands for an instant that is never reached; twice its value still fits into an int64.
	far = 1 << 60

	// The table of a zone covers the years in which calendars are usually asked. Outside of it the
	// location answers, with the same result but more slowly: it parses the zone's rule text anew
	// for every question.
	tableStart = 946684800  // 2000-01-01
	tableEnd   = 3155760000 // 2070-01-01
)

// zone is a time zone, divided into pieces of constant offset. It is immutable.
type zone struct {
	location *time.Location
	table    []piece // ascending, without a hole between them
}

// piece is the time [start, end) during which the offset does not change; neighbours may have the
// same offset.
type piece struct {
	start, end int64
	offset     int64
}

func newZone(location *time.Location) (*zone, error) {
	z := &zone{location: location}
	for at := int64(tableStart); at < tableEnd; {
		p := lookup(location, at)
		if p.offset <= -reach || reach <= p.offset {
			return nil, fmt.Errorf("its clocks are %d s off UTC, which is more than a day", p.offset)
		}
		if n := len(z.table); n > 0 && z.table[n-1].offset == p.offset {
			z.table[n-1].end = p.end
		} else {
			z.table = append(z.table, p)
		}
		at = p.end
	}
	return z, nil
}

// lookup asks the location for the piece that contains t. For years beyond the last recorded
// change, [time.Time.ZoneBounds] returns the bounds of the rule text within one UTC year, and takes
// a year to have 365 days: on December 31 of a leap year the end lies in the past. Hence lookup
// uses its bounds for the UTC year of t only, and replaces an impossible end by the end of that
// year.
func lookup(location *time.Location, t int64) piece {
	at := time.Unix(t, 0)
	_, offset := at.In(location).Zone()
	start, end := at.In(location).ZoneBounds()
	if start.IsZero() && end.IsZero() {
		return piece{-far, far, int64(offset)}
	}
	year := at.UTC().Year()
	p := piece{yearStart(year), yearStart(year + 1), int64(offset)}
	if !start.IsZero() {
		p.start = max(p.start, start.Unix())
	}
	if !end.IsZero() && end.Unix() > t {
		p.end = min(p.end, end.Unix())
	}
	return p
}

func yearStart(year int) int64 { return time.Date(year, time.January, 1, 0, 0, 0, 0, time.UTC).Unix() }

// at returns the piece that contains t.
func (z *zone) at(t int64) piece {
	n := len(z.table)
	if t < z.table[0].start || z.table[n-1].end <= t {
		return lookup(z.location, t)
	}
	low, high := 0, n // the piece is in [low, high)
	for high-low > 1 {
		if middle := int(uint(low+high) >> 1); z.table[middle].start <= t {
			low = middle
		} else {
			high = middle
		}
	}
	return z.table[low]
}

func (z *zone) reading(t int64) int64 { return t + z.at(t).offset }

// plain returns the one instant at which the clock shows x, if no change is anywhere near. p is a
// guess at the piece, to save a search.
func (z *zone) plain(x int64, p piece) (int64, bool) {
	if p.around(x) {
		return x - p.offset, true
	}
	p = z.at(x)
	return x - p.offset, p.around(x)
}

// around tells whether a reading x is shown within the piece, and nowhere else.
func (p piece) around(x int64) bool { return p.start <= x-reach && x+reach < p.end }

// first returns the first instant at which the clock is at or past x, where x may be skipped or
// shown twice.
func (z *zone) first(x int64) int64 { return z.firstFrom(x-reach, x) }

// firstFrom returns the first instant not before from at which the clock is at or past x.
func (z *zone) firstFrom(from, x int64) int64 {
	p := z.at(from)
	for p.end+p.offset <= x {
		p = z.at(p.end)
	}
	return max(from, p.start, x-p.offset)
}

// last returns the first instant after which the clock is never again before x.
func (z *zone) last(x int64) int64 {
	p := z.at(x - reach) // at its start the clock is before x
	var last int64
	for {
		if p.start+p.offset < x {
			last = min(p.end, x-p.offset)
		}
		if p.end >= x+reach {
			return last
		}
		p = z.at(p.end)
	}
}

// floorDiv and floorMod round down, also below zero, so that days and weeks before 1970 are counted
// like those after it. The divisor must be positive.
func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func floorMod(a, b int64) int64 {
	if m := a % b; m < 0 {
		return m + b
	} else {
		return m
	}
}

// weekday returns the day of the week, counted from Monday as 0, like the weeks of a recurrence.
func weekday(date int64) int64 { return floorMod(date+3, week) }

// mondayWeek numbers the weeks that begin on Monday.
func mondayWeek(date int64) int64 { return floorDiv(date+3, week) }

// civil returns the number of days since 1970-01-01 and the seconds since midnight of a local
// reading.
func civil(x int64) (date, second int64) { return floorDiv(x, day), floorMod(x, day) }
