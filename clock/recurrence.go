package clock

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pattern is what an rrule says, or the recurring part of [Weekly].
type pattern struct {
	weekly, monthly bool // daily if neither

	interval int64
	days     uint8     // bit i: the weekday i after Monday; 0: not given
	inMonth  monthDays // what else is given of a monthly rule: the weekdays that are counted, and days
	counted  []string  // the items of BYDAY that count weekdays, as written
	tooMany  []string  // those of them that no month has
	byMonth  string    // the part BYMONTHDAY
	// The listed numbers, ascending, each once; nil if not given.
	hours, minutes, seconds []int64
	weekStart               string // the part WKST, if it is not MO

	// garbled says that some part is unreadable or unsupported, so that it is unknown what else is
	// missing.
	garbled bool
	beyond  bool // FREQ is not in the subset
}

// parseRecurrence reads the supported subset of RFC 5545 section 3.3.10. As there, letter case and
// the order of the parts mean nothing.
func parseRecurrence(text string, f *faults) pattern {
	p := pattern{interval: 1}
	if name, _, found := strings.Cut(text, ":"); found {
		f.add("rrule", CodeRecurrenceInvalid, name+":", "must begin with FREQ=: only the rule is given here, and the anchor takes the place of DTSTART")
		p.garbled = true
		return p
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		name = capitals(name)
		if part == "" {
			if !seen[part] {
				f.add("rrule", CodeRecurrenceInvalid, text, "has an empty part: parts are separated by single semicolons, with none at the end")
			}
			seen[part] = true
			continue
		}
		if name == "" || value == "" || strings.ContainsAny(part, " \t\r\n") {
			f.add("rrule", CodeRecurrenceInvalid, part, "must be NAME=VALUE without blanks; parts are separated by semicolons")
			p.garbled = true
			continue
		}
		if seen[name] {
			f.add("rrule", CodeRecurrenceInvalid, part, "%s is given twice", name)
			continue
		}
		seen[name] = true
		p.read(name, value, part, f)
	}
	if !seen["FREQ"] {
		f.add("rrule", CodeRecurrenceInvalid, text, "FREQ=DAILY, FREQ=WEEKLY or FREQ=MONTHLY is required")
	}
	if seen["FREQ"] && !p.beyond {
		p.checkMonths(f)
	}
	if p.weekStart != "" {
		hint := "leave it out, because it has no effect unless INTERVAL counts weeks"
		if p.weekly && p.interval > 1 || p.garbled {
			hint = hintBeyond
		}
		f.add("rrule", CodeRecurrenceUnsupported, p.weekStart, "WKST must be MO: %s", hint)
	}
	return p
}

// capitals makes capitals of the ASCII letters alone: other letters, such as the long s, have an
// ASCII letter as their capital.
func capitals(text string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'A'
		}
		return r
	}, text)
}

// read reads one part, the value of a name that is given once. Faults show what was written.
func (p *pattern) read(name, value, part string, f *faults) {
	switch name {
	case "FREQ":
		switch capitals(value) {
		case "DAILY":
		case "WEEKLY":
			p.weekly = true
		case "MONTHLY":
			p.monthly = true
		default:
			f.add("rrule", CodeRecurrenceUnsupported, part, "FREQ must be DAILY, WEEKLY or MONTHLY: %s", hintBeyond)
			p.garbled, p.beyond = true, true // what an unsupported FREQ requires is unknown here
		}
	case "INTERVAL":
		n, ok := number(value, maxInterval)
		if !ok || n == 0 {
			f.add("rrule", CodeRecurrenceInvalid, part, "INTERVAL must be from 1 to %d", maxInterval)
		} else {
			p.interval = n
		}
	case "BYDAY":
		p.garbled = !p.readDays(value, f) || p.garbled
	case "BYMONTHDAY":
		p.byMonth = part
		for item := range strings.SplitSeq(value, ",") {
			if n, ok := signed(item, 31); !ok || !p.inMonth.addDay(n) {
				f.add("rrule", CodeRecurrenceInvalid, item, "BYMONTHDAY must list days of the month, from 1 to 31, or from -1, the last day, to -31")
				p.garbled = true
			}
		}
	case "BYHOUR":
		p.hours = numbers(name, value, 23, f)
	case "BYMINUTE":
		p.minutes = numbers(name, value, 59, f)
	case "BYSECOND":
		p.seconds = numbers(name, value, 59, f)
	case "WKST":
		if weekdayNamed(capitals(value), dayCodes) == 0 {
			f.add("rrule", CodeRecurrenceInvalid, part, "WKST must be MO")
		} else if capitals(value) != "MO" {
			p.weekStart = part
		}
	case "DTSTART": // no part of a rule by the RFC, but some libraries write it there
		f.add("rrule", CodeRecurrenceUnsupported, part, "DTSTART is the anchor here: give it there, as a local date and time such as 2025-01-06T09:00")
	default:
		f.add("rrule", CodeRecurrenceUnsupported, part, "%s is not supported: %s", name, hintBeyond)
	}
}

// hintBeyond names both ways out of the subset: the author of a document has no Recurrence to pass.
const hintBeyond = "pass a Recurrence for it, or write each occurrence as a window with from and until"

// readDays reads the list of BYDAY, and reports whether all of it is readable.
func (p *pattern) readDays(value string, f *faults) (ok bool) {
	ok = true
	for item := range strings.SplitSeq(value, ",") {
		count, name := item[:max(0, len(item)-2)], item[max(0, len(item)-2):]
		bit := weekdayNamed(capitals(name), dayCodes)
		n, number := signed(count, math.MaxInt32)
		switch {
		case bit == 0 || count != "" && !number:
			f.add("rrule", CodeDayInvalid, item, "BYDAY must list MO, TU, WE, TH, FR, SA or SU")
			ok = false
		case count == "":
			p.days |= bit
		default:
			p.counted = append(p.counted, item)
			if !p.inMonth.addNth(n, bit) {
				p.tooMany = append(p.tooMany, item)
			}
		}
	}
	return ok
}

// checkMonths reports what means something in a monthly rule alone, and weekdays of a month that none
// has.
func (p *pattern) checkMonths(f *faults) {
	if p.monthly {
		for _, item := range p.tooMany {
			f.add("rrule", CodeRecurrenceInvalid, item, "BYDAY must count from 1 to 5, or from -1, the last one, to -5: a month has no more of a weekday")
			p.garbled = true
		}
		return
	}
	for _, item := range p.counted {
		f.add("rrule", CodeRecurrenceInvalid, item, "BYDAY counts weekdays within a month: write FREQ=MONTHLY, or leave the number out")
		p.garbled = true
	}
	if p.byMonth != "" {
		f.add("rrule", CodeRecurrenceUnsupported, p.byMonth, "BYMONTHDAY needs FREQ=MONTHLY")
		p.garbled = true
	}
}

// numbers reads a list. The result is ascending and without duplicates, so that a long list of few
// numbers is not multiplied with other such lists.
func numbers(name, value string, limit int64, f *faults) []int64 {
	var list []int64
	for item := range strings.SplitSeq(value, ",") {
		n, ok := number(item, limit)
		if !ok {
			f.add("rrule", CodeRecurrenceInvalid, item, "%s must list numbers from 0 to %d", name, limit)
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// number reads plain digits: no sign, no space.
func number(text string, limit int64) (int64, bool) {
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil && int64(n) <= limit
}

// signed reads plain digits, with a sign or without.
func signed(text string, limit int64) (int64, bool) {
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	n, ok := number(digits, limit)
	if negative {
		n = -n
	}
	return n, ok
}

// anchor is a reading that fixes a phase, or an instant that has a reading in every zone.
type anchor struct {
	given, absolute bool
	seconds         int64
}

// reading returns the date and the time of day; zone is needed only for an absolute anchor.
func (a anchor) reading(z *zone) (date, second int64) {
	if a.absolute {
		return civil(z.reading(a.seconds))
	}
	return civil(a.seconds)
}

func parseAnchor(text string, f *faults) anchor {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		// time.Parse accepts more than the layout says, such as a fraction; the text must be
		// exactly what the result formats to.
		if at, err := time.Parse(layout, text); err == nil && at.Format(layout) == text && inRange(at) {
			return anchor{given: true, seconds: at.Unix()}
		}
	}
	var at time.Time
	if at.UnmarshalText([]byte(text)) == nil && at.Nanosecond() == 0 && inRange(at) {
		return anchor{given: true, absolute: true, seconds: at.Unix()}
	}
	f.add("anchor", CodeTimeInvalid, text, "must be a local date and time, such as 2025-01-06T09:00 or 2025-01-06T09:00:00")
	return anchor{given: true}
}

// schedule is a window whose fields were read one by one, before anything that depends on the zone.
type schedule struct {
	readings bool // the window is made of local days and times
	pattern  pattern
	anchor   anchor
	length   int64 // seconds
	end      int64 // if length is 0: seconds after the midnight that begins the start's date

	deny, skip, last bool
}

// requireAnchor reports an rrule that leaves its phase, its day or its hour to a missing anchor.
// For a garbled rrule it reports nothing, because it could call missing what is there.
func (s *schedule) requireAnchor(f *faults) {
	if s.anchor.given || s.pattern.garbled {
		return
	}
	for _, need := range []struct {
		open bool
		what string
	}{
		{s.pattern.interval > 1, "INTERVAL is above 1, so something must say which days, weeks or months count"},
		{s.pattern.hours == nil, "there is no BYHOUR, so something must say the time of day"},
		{s.pattern.weekly && s.pattern.days == 0, "there is no BYDAY, so something must say the day"},
		{s.pattern.monthly && s.pattern.anyDay(), "there is neither BYDAY nor BYMONTHDAY, so something must say the day"},
	} {
		if need.open {
			f.add("anchor", CodeAnchorRequired, nil, "is required, a local date and time such as 2025-01-06T09:00: %s", need.what).reading("rrule")
		}
	}
}

// anyDay reports whether nothing says the days of a monthly rule.
func (p *pattern) anyDay() bool { return p.days == 0 && !p.inMonth.byWeekday() && !p.inMonth.byDay() }

// repeated fills in what the anchor decides. z may be nil if the anchor is not absolute; only the
// faults of the result count then.
func (s *schedule) repeated(z *zone, f *faults) *repeated {
	r := &repeated{
		zone: z, weekly: s.pattern.weekly, interval: s.pattern.interval, days: s.pattern.days,
		length: s.length, end: s.end, endLast: s.deny, skip: s.skip, last: s.last,
	}
	hours, minutes, seconds := s.pattern.hours, s.pattern.minutes, s.pattern.seconds
	date, second := s.anchor.reading(z)
	if hours == nil {
		hours = []int64{second / 3600}
	}
	if minutes == nil {
		minutes = []int64{second / 60 % 60}
	}
	if seconds == nil {
		seconds = []int64{second % 60}
	}
	r.times = make([]int64, 0, len(hours)*len(minutes)*len(seconds))
	for _, hour := range hours {
		for _, minute := range minutes {
			for _, second := range seconds {
				r.times = append(r.times, (hour*60+minute)*60+second)
			}
		}
	}
	if s.pattern.monthly {
		r.monthly, r.days = s.monthly(date, f), everyDay
		return r
	}
	switch {
	case r.days == 0 && r.weekly:
		r.days = 1 << weekday(date)
	case r.days == 0:
		r.days = everyDay
	}
	if r.weekly {
		r.phase = mondayWeek(date)
		return r
	}
	r.phase = date
	// Intervals that are no multiple of 7 reach every weekday; the others reach only the anchor's.
	if r.interval%week == 0 && r.days>>weekday(date)&1 == 0 {
		f.add("rrule", CodeEmptyWindow, nil, "INTERVAL=%d days from the anchor never reaches a day of BYDAY: move the anchor or use FREQ=WEEKLY", r.interval).reading("anchor", "timezone", "weekly", "from", "until") // a window with two shapes is not checked
	}
	return r
}

// monthly is the filter of a monthly rule with an anchor on some date.
func (s *schedule) monthly(date int64, f *faults) *monthly {
	m := &monthly{interval: s.pattern.interval, monthDays: s.pattern.inMonth}
	m.weekdays = s.pattern.days
	month, d := monthOf(date)
	m.phase = month
	if s.pattern.anyDay() {
		m.addDay(d)
	}
	if m.empty() {
		f.add("rrule", CodeEmptyWindow, nil, "no month that counts has such a day: change BYDAY or BYMONTHDAY, or move the anchor").reading("anchor", "timezone", "weekly", "from", "until")
	}
	return m
}
