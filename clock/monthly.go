package clock

import "time"

// monthly are days of months: what BYDAY and BYMONTHDAY say where FREQ is MONTHLY. A day passes if
// both say so, or the one that is given. Some month in which the window recurs has such a day.
type monthly struct {
	interval int64 // in months; at least 1
	phase    int64 // number of one month in which the window recurs, see monthOf
	monthDays
}

// monthDays are days of one month.
type monthDays struct {
	weekdays uint8    // bit i: every weekday i after Monday
	nth      [5]uint8 // bit i: the first, second … weekday i after Monday
	nthLast  [5]uint8 // the same from the end of the month
	days     uint32   // bit d: the day d, from 1
	daysLast uint32   // bit d: the day d from the end of the month, which ends with 1
}

// byWeekday reports whether weekdays are given, and byDay whether days of the month are.
func (m *monthDays) byWeekday() bool {
	return m.weekdays != 0 || m.nth != [5]uint8{} || m.nthLast != [5]uint8{}
}
func (m *monthDays) byDay() bool { return m.days|m.daysLast != 0 }

// pass reports whether a day of a month passes, given how many it has and the weekday.
func (m *monthDays) pass(d, length, on int64) bool {
	if m.byDay() && m.days>>d&1 == 0 && m.daysLast>>(length-d+1)&1 == 0 {
		return false
	}
	return !m.byWeekday() || (m.weekdays|m.nth[(d-1)/week]|m.nthLast[(length-d)/week])>>on&1 == 1
}

// lastIn returns the last date in a month that passes, up to a day of it; firstIn, the first from a
// day of it on.
func (m *monthDays) lastIn(month, d int64) (date int64, ok bool) {
	begin, length := monthAt(month)
	for d = min(d, length); d >= 1; d-- {
		if date := begin + d - 1; m.pass(d, length, weekday(date)) {
			return date, true
		}
	}
	return 0, false
}

func (m *monthDays) firstIn(month, d int64) (date int64, ok bool) {
	begin, length := monthAt(month)
	for ; d <= length; d++ {
		if date := begin + d - 1; m.pass(d, length, weekday(date)) {
			return date, true
		}
	}
	return 0, false
}

func (m *monthly) onOrBefore(date int64) int64 {
	month, d := monthOf(date)
	if over := floorMod(month-m.phase, m.interval); over > 0 {
		month, d = month-over, 31
	}
	for ; ; month, d = month-m.interval, 31 {
		if date, ok := m.lastIn(month, d); ok {
			return date
		}
	}
}

func (m *monthly) onOrAfter(date int64) int64 {
	month, d := monthOf(date)
	if missing := floorMod(m.phase-month, m.interval); missing > 0 {
		month, d = month+missing, 1
	}
	for ; ; month, d = month+m.interval, 1 {
		if date, ok := m.firstIn(month, d); ok {
			return date
		}
	}
}

// empty reports whether no month in which the window recurs has a day that passes. Months repeat
// themselves after 400 years, weekdays included.
func (m *monthly) empty() bool {
	const cycle = 400 * 12
	begin := floorMod(m.phase, cycle)
	for month := begin; ; {
		if _, ok := m.firstIn(month, 1); ok {
			return false
		}
		if month = floorMod(month+m.interval, cycle); month == begin {
			return true
		}
	}
}

// monthOf returns the number of a date's month, counted from January of the year 0, and the day.
func monthOf(date int64) (month, d int64) {
	year, m, on := time.Unix(date*day, 0).UTC().Date()
	return int64(year)*12 + int64(m) - 1, int64(on)
}

// monthAt returns the first date of a month, and how many it has.
func monthAt(month int64) (begin, length int64) {
	at := func(month int64) int64 {
		return time.Date(int(floorDiv(month, 12)), time.Month(floorMod(month, 12)+1), 1, 0, 0, 0, 0, time.UTC).Unix() / day
	}
	begin = at(month)
	return begin, at(month+1) - begin
}

// addNth takes in the n-th of a weekday, from the end of the month if n is negative. It reports
// whether a month may have so many.
func (m *monthDays) addNth(n int64, weekday uint8) bool {
	switch {
	case 1 <= n && n <= int64(len(m.nth)):
		m.nth[n-1] |= weekday
	case -int64(len(m.nthLast)) <= n && n <= -1:
		m.nthLast[-n-1] |= weekday
	default:
		return false
	}
	return true
}

// addDay takes in a day of the month, from its end if n is negative. It reports whether a month may
// have it.
func (m *monthDays) addDay(n int64) bool {
	switch {
	case 1 <= n && n <= 31:
		m.days |= 1 << n
	case -31 <= n && n <= -1:
		m.daysLast |= 1 << -n
	default:
		return false
	}
	return true
}
