package clock

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// pattern is what an rrule says, or the recurring part of [Weekly].
type pattern struct {
	weekly   bool
	interval int64
	days     uint8 // bit i: the weekday i after Monday; 0: not given
	// The listed numbers, ascending, each once; nil if not given.
	hours, minutes, seconds []int64
	weekStart               string // the part WKST, if it is not MO

	// garbled says that some part is unreadable or unsupported, so that it is unknown what else is
	// missing.
	garbled bool
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
		f.add("rrule", CodeRecurrenceInvalid, text, "FREQ=DAILY or FREQ=WEEKLY is required")
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
		p.weekly = capitals(value) == "WEEKLY"
		if !p.weekly && capitals(value) != "DAILY" {
			f.add("rrule", CodeRecurrenceUnsupported, part, "FREQ must be DAILY or WEEKLY: %s", hintBeyond)
			p.garbled = true // what an unsupported FREQ requires is unknown here
		}
	case "INTERVAL":
		n, ok := number(value, maxInterval)
		if !ok || n == 0 {
			f.add("rrule", CodeRecurrenceInvalid, part, "INTERVAL must be from 1 to %d", maxInterval)
		} else {
			p.interval = n
		}
	case "BYDAY":
		days, ok := weekdays(value, f)
		p.days, p.garbled = days, p.garbled || !ok
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

// weekdays reads a list of days, as bits of a pattern's days, and whether all of it is readable.
func weekdays(value string, f *faults) (days uint8, ok bool) {
	ok = true
	for name := range strings.SplitSeq(value, ",") {
		bit := weekdayNamed(capitals(name), dayCodes)
		switch {
		case len(name) > 2 && weekdayNamed(capitals(name[len(name)-2:]), dayCodes) != 0 && ordinal(name[:len(name)-2]):
			f.add("rrule", CodeRecurrenceUnsupported, name, "BYDAY counts within a month: %s", hintBeyond)
		case bit == 0:
			f.add("rrule", CodeDayInvalid, name, "BYDAY must list MO, TU, WE, TH, FR, SA or SU")
		}
		days, ok = days|bit, ok && bit != 0
	}
	return days, ok
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

// ordinal recognises the 1 in 1MO and the -2 in -2FR; a year has at most 53 of one weekday.
func ordinal(text string) bool {
	_, ok := number(strings.TrimLeft(text, "+-"), 53)
	return ok
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
		{s.pattern.interval > 1, "INTERVAL is above 1, so something must say which days or weeks count"},
		{s.pattern.hours == nil, "there is no BYHOUR, so something must say the time of day"},
		{s.pattern.weekly && s.pattern.days == 0, "there is no BYDAY, so something must say the day"},
	} {
		if need.open {
			f.add("anchor", CodeAnchorRequired, nil, "is required, a local date and time such as 2025-01-06T09:00: %s", need.what).reading("rrule")
		}
	}
}

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
