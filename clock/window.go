package clock

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Window is a recurrence of starts with a length, or a one-off interval; inside it a calendar is
// open or closed. Exactly one of Weekly, RRule, From with Until, and Recurrence must be given. The
// zero value is not valid.
//
// It is a plain struct without a decoder of its own, so that it can be embedded in a larger one;
// [ParseWindow] reads one on its own. Occurrences of one window may overlap; the window is their
// union.
type Window struct {
	// Weekly recurs on days of the week.
	Weekly *Weekly `json:"weekly,omitempty"`
	// RRule recurs by a rule in a subset of RFC 5545: FREQ=DAILY, WEEKLY or MONTHLY with INTERVAL,
	// BYDAY, BYHOUR, BYMINUTE, BYSECOND and WKST=MO, and in a monthly rule with BYMONTHDAY, and with
	// numbers in BYDAY: the second Tuesday is 2TU, the last Friday -1FR. A month that has no such
	// day has no occurrence. Of a monthly rule with both BYDAY and BYMONTHDAY only the days count
	// that are in both: the Friday after the second Tuesday is BYDAY=FR with
	// BYMONTHDAY=11,12,13,14,15,16,17. Without BYHOUR the time of day is the anchor's; without
	// BYMINUTE or BYSECOND that part is the anchor's, or 0 if there is no anchor; a weekly rule
	// without BYDAY recurs on the anchor's weekday, a monthly one without either on its day of the
	// month. Anything else needs a Recurrence.
	RRule string `json:"rrule,omitzero"`
	// DurationMinutes is the length of an occurrence in elapsed time: 360 is six hours, even across
	// a change of the clock. Required with RRule and Recurrence, and with Weekly unless Weekly has
	// an End.
	DurationMinutes Minutes `json:"durationMinutes,omitzero" fault:"duration_invalid"`
	// From and Until are the one-off interval [From, Until). The zero time means absent.
	From  time.Time `json:"from,omitzero" fault:"time_invalid"`
	Until time.Time `json:"until,omitzero" fault:"time_invalid"`
	// Timezone is the zone of the days and times of Weekly and RRule, and of the times passed to a
	// Recurrence. Default UTC.
	Timezone Zone `json:"timezone,omitzero" fault:"timezone_unknown"`
	// AllowWindow says whether the calendar is open (nil or true) or closed (false) inside the
	// window.
	AllowWindow *bool `json:"allowWindow,omitempty"`
	// Anchor fixes the phase of a recurrence of every second day, week or month, as a local date and
	// time such as 2025-01-06T09:00, with or without seconds. An instant of RFC 3339 is accepted
	// too, and stands for its reading in Timezone. The window recurs before the anchor as well as
	// after it: to begin at some date, deny the time before. Required if RRule has an INTERVAL above
	// 1 or no BYHOUR, if a weekly RRule has no BYDAY, or a monthly one neither that nor BYMONTHDAY,
	// and if Weekly has EveryWeeks above 1.
	Anchor string `json:"anchor,omitzero" fault:"time_invalid"`
	// Gap says what happens to a start that the clock jumps over. Default forward.
	Gap Gap `json:"gap,omitzero"`
	// Overlap says which pass counts for a start that the clock shows twice. Default first.
	Overlap Overlap `json:"overlap,omitzero"`
	// Recurrence gives the starts that the other fields cannot express. It is not part of the JSON
	// form.
	Recurrence Recurrence `json:"-"`
}

// Weekly is a time of day on some days of the week.
type Weekly struct {
	// Days are the local days on which the window starts, whenever it ends: mon, tue, wed, thu,
	// fri, sat, sun. At least one is required.
	Days []string `json:"days" fault:"day_invalid"`
	// Start is a local time, HH:MM or HH:MM:SS.
	Start string `json:"start" fault:"time_invalid"`
	// End is a local time like Start, or 24:00. A time at or before Start is on the next day. If
	// End is absent, the window's DurationMinutes counts.
	End string `json:"end,omitzero" fault:"time_invalid"`
	// EveryWeeks is 2 for every second week, and so on. Weeks begin on Monday and are counted from
	// the anchor's. Absent means every week.
	EveryWeeks Weeks `json:"everyWeeks,omitzero"`
}

// Recurrence is a host's own sequence of starts. Next returns the first start strictly after t, or
// the zero time if there is none; t is in the window's zone. Next must answer from one fixed,
// strictly increasing sequence, whenever and however often it is called, and must be safe for
// concurrent use. A calendar that detects otherwise is closed there and reports the fault where it
// can; it never loops. The Schedule of robfig/cron has this shape.
type Recurrence interface {
	Next(t time.Time) time.Time
}

// Gap says what happens to a start that the clock jumps over. Empty means [GapForward].
type Gap string

const (
	GapForward Gap = "forward" // it starts at the end of the gap
	GapSkip    Gap = "skip"    // the start has no occurrence on that day, whether the window allows or denies
)

// Overlap says which pass counts for a start that the clock shows twice. Empty means
// [OverlapFirst]. Each start has one occurrence a day in any case.
type Overlap string

const (
	OverlapFirst Overlap = "first" // before the clock is set back
	OverlapLast  Overlap = "last"  // after it
)

// Minutes is a length in minutes, at least 1 and at most 292 years. Zero means absent; a zero
// written out in JSON is an error.
type Minutes int64

// maxMinutes is the most that a [time.Duration] holds, 292 years.
const maxMinutes = math.MaxInt64 / Minutes(time.Minute)

// UnmarshalJSON reads a whole number from 1 to 153722867. Anything else, null included, is a
// *[FieldError] and leaves m unchanged.
func (m *Minutes) UnmarshalJSON(data []byte) error {
	n, ok := count(data, int64(maxMinutes))
	if !ok {
		instead := ""
		if n, ok := strictjson.Whole(data, time.Minute); ok && n >= 1 {
			instead = fmt.Sprintf(": write %d", n)
		}
		return miscounted(data, CodeDurationInvalid, "must be a whole number of minutes from 1 to %d%s", maxMinutes, instead)
	}
	*m = Minutes(n)
	return nil
}

// Weeks is a number of weeks, from 1 to 1000000. Zero means absent; a zero written out in JSON is
// an error.
type Weeks int64

// maxInterval bounds intervals far above anything useful and far below what could overflow.
const maxInterval = 1_000_000

// UnmarshalJSON reads a whole number from 1 to 1000000. Anything else, null included, is a
// *[FieldError] and leaves w unchanged.
func (w *Weeks) UnmarshalJSON(data []byte) error {
	n, ok := count(data, maxInterval)
	if !ok {
		return miscounted(data, CodeRecurrenceInvalid, "must be a whole number of weeks from 1 to %d", maxInterval)
	}
	*w = Weeks(n)
	return nil
}

func count(data []byte, most int64) (n int64, ok bool) {
	ok = json.Unmarshal(data, &n) == nil && 1 <= n && n <= most
	return n, ok
}

// hintNull is what the strict decoder says of a null in any other field.
const hintNull = "null is not a value here: write one, or leave it out"

// miscounted refuses what is no count.
func miscounted(data []byte, code Code, format string, args ...any) error {
	if string(data) == "null" {
		return new(faults).add("", code, nil, hintNull).err()
	}
	return new(faults).add("", code, plain(data), format, args...).err()
}

// plain is a value that is printed as it stands in the document.
type plain []byte

func (p plain) String() string { return string(p) }

// Zone is the name of a time zone in the IANA database, such as Europe/Berlin. The zero value means
// absent; an empty name written out in JSON is an error, because a name that got lost must not mean
// UTC. So are the names that a system may have beside the zones: Local, localtime and posixrules,
// which are another zone on another machine, Factory, which stands for a zone that nobody has set,
// and those below right/, whose instants count leap seconds.
type Zone string

// UnmarshalText reads any name but the empty one, which is a *[FieldError] and leaves z unchanged.
// [Window.Validate] refuses the other names that are none, and [NewCalendar] finds out whether the
// zone exists.
func (z *Zone) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return new(faults).add("", CodeTimezoneUnknown, nil, "must not be empty: name a zone, or leave the field out for UTC").err()
	}
	*z = Zone(text)
	return nil
}

// refused says why a name that may be found beside the zones is none, or returns "".
func (z Zone) refused() string {
	switch name, leaps := strings.CutPrefix(string(z), "right/"); {
	case z == "Local" || z == "localtime" || z == "posixrules": // Go's name for the zone of the machine, and files of systems
		return "differs from machine to machine: name a zone, such as Europe/Berlin"
	case z == "Factory":
		return "means that no zone was set: name one, such as Europe/Berlin"
	case leaps:
		return "counts leap seconds, which no other instant does: write " + name
	}
	return ""
}

// ParseWindow reads the JSON form of a window, strictly, and validates it. All faults are reported,
// joined, each a *[FieldError]: values of the wrong form or, if there are none, what Validate
// reports.
func ParseWindow(data []byte) (Window, error) {
	var w Window
	if err := strictjson.Unmarshal(data, &w); err != nil {
		var f faults
		for _, fault := range strictjson.Faults(err) {
			f.list = append(f.list, &FieldError{Path: fault.Path, Code: Code(fault.Code), Value: fault.Value, Hint: fault.Hint})
		}
		return Window{}, f.err()
	}
	if err := w.Validate(); err != nil {
		return Window{}, err
	}
	return w, nil
}

// Validate reports every fault of the window that can be seen without zone data, joined, each a
// *[FieldError] whose path begins at the window. [NewCalendar] finds the others: a zone that does
// not exist, and, where the anchor is an instant, days that the rule never reaches.
func (w Window) Validate() error {
	var f faults
	if s := w.schedule(&f); len(f.list) == 0 && s.readings && !s.anchor.absolute {
		s.repeated(nil, &f)
	}
	return f.err()
}

// allows reports whether the window opens the calendar.
func (w Window) allows() bool { return w.AllowWindow == nil || *w.AllowWindow }

// schedule reads the window's fields. Its result is valid only if no fault was added.
func (w Window) schedule(f *faults) schedule {
	shapes := 0
	for _, given := range []bool{w.Weekly != nil, w.RRule != "", !w.From.IsZero() || !w.Until.IsZero(), w.Recurrence != nil} {
		if given {
			shapes++
		}
	}
	switch {
	case shapes == 0:
		f.add("", CodeEmptyWindow, nil, "nothing says when the window is: give weekly, rrule, or from and until").reading("weekly", "rrule", "from", "until")
	case shapes > 1:
		only := f.add("", CodeRecurrenceInvalid, nil, "only one of weekly, rrule, from with until, and a recurrence can be given: write several windows instead")
		if w.RRule != "" { // the other shapes count as given whatever their value
			only.reading("rrule")
		}
	}
	if w.DurationMinutes < 0 || w.DurationMinutes > maxMinutes {
		f.add("durationMinutes", CodeDurationInvalid, w.DurationMinutes, "must be from 1 to %d", maxMinutes)
	}
	if why := w.Timezone.refused(); why != "" {
		f.add("timezone", CodeTimezoneUnknown, w.Timezone, "%s", why)
	}
	switch w.Gap {
	case "", GapForward, GapSkip:
	default:
		f.add("gap", CodeRecurrenceInvalid, w.Gap, "must be %s", strictjson.Choice(GapForward, GapSkip))
	}
	switch w.Overlap {
	case "", OverlapFirst, OverlapLast:
	default:
		f.add("overlap", CodeRecurrenceInvalid, w.Overlap, "must be %s", strictjson.Choice(OverlapFirst, OverlapLast))
	}
	s := schedule{
		length: int64(w.DurationMinutes) * 60,
		deny:   !w.allows(),
		skip:   w.Gap == GapSkip,
		last:   w.Overlap == OverlapLast,
	}
	if w.Anchor != "" {
		s.anchor = parseAnchor(w.Anchor, f)
	}
	if !w.From.IsZero() || !w.Until.IsZero() {
		w.once(f)
	}
	if w.Recurrence != nil && w.DurationMinutes == 0 {
		f.add("durationMinutes", CodeDurationInvalid, nil, "is required with a recurrence, at least 1")
	}
	if w.Weekly != nil {
		w.Weekly.schedule(&s, w.DurationMinutes > 0, f)
	}
	if w.RRule != "" {
		if w.DurationMinutes == 0 {
			f.add("durationMinutes", CodeDurationInvalid, nil, "is required with rrule, at least 1").reading("rrule")
		}
		s.readings = true
		s.pattern = parseRecurrence(w.RRule, f)
		s.requireAnchor(f)
	}
	if shapes == 1 && !s.readings {
		w.meaningless(f)
	}
	return s
}

// meaningless reports fields that have no effect beside the given shape, because their author
// expected an effect.
func (w Window) meaningless(f *faults) {
	shape := "from and until, which are instants"
	if w.Recurrence != nil {
		shape = "a recurrence, which keeps its own rules"
	}
	for _, field := range []struct {
		name  string
		given bool
	}{{"anchor", w.Anchor != ""}, {"gap", w.Gap != ""}, {"overlap", w.Overlap != ""}} {
		if field.given {
			f.add(field.name, CodeRecurrenceInvalid, nil, "means nothing beside %s: leave it out", shape).reading("weekly", "rrule")
		}
	}
	if w.Recurrence == nil && w.DurationMinutes > 0 {
		f.add("durationMinutes", CodeDurationInvalid, w.DurationMinutes, "means nothing beside from and until: leave it out").reading("weekly", "rrule")
	}
}

func (w Window) once(f *faults) {
	for _, bound := range []struct {
		name string
		at   time.Time
	}{{"from", w.From}, {"until", w.Until}} {
		if bound.at.IsZero() {
			f.add(bound.name, CodeTimeInvalid, nil, "is required: a one-off window needs both ends").reading("from", "until")
		} else if !inRange(bound.at) {
			f.add(bound.name, CodeTimeInvalid, stamp(bound.at), "must lie in the years 1 to 9999")
		}
	}
	if !w.From.IsZero() && !w.Until.IsZero() && !w.From.Before(w.Until) {
		f.add("until", CodeEmptyWindow, stamp(w.Until), "must be after from, %s", stamp(w.From)).reading("from")
	}
}

// inRange reports whether RFC 3339 can express t. Calendars cover no other instants.
func inRange(t time.Time) bool {
	seconds := t.Unix()
	return firstInstant <= seconds && seconds < lastInstant
}

func (w *Weekly) schedule(s *schedule, hasDuration bool, f *faults) {
	s.readings = true
	s.pattern = pattern{weekly: true, interval: max(1, int64(w.EveryWeeks))}
	if w.EveryWeeks < 0 || w.EveryWeeks > maxInterval {
		f.add("weekly.everyWeeks", CodeRecurrenceInvalid, w.EveryWeeks, "must be from 1 to %d", maxInterval)
	}
	if len(w.Days) == 0 {
		f.add("weekly.days", CodeEmptyWindow, nil, "must name at least one day, such as mon")
	}
	for i, name := range w.Days {
		bit := weekdayNamed(name, dayNames)
		if bit == 0 {
			f.add(fmt.Sprintf("weekly.days[%d]", i), CodeDayInvalid, name, "must be mon, tue, wed, thu, fri, sat or sun")
		}
		s.pattern.days |= bit
	}
	start, ok := timeOfDay(w.Start)
	if !ok || start == day {
		f.add("weekly.start", CodeTimeInvalid, w.Start, "must be a time from 00:00 to 23:59:59, HH:MM or HH:MM:SS")
	}
	s.pattern.hours, s.pattern.minutes, s.pattern.seconds = []int64{start / 3600}, []int64{start / 60 % 60}, []int64{start % 60}
	switch {
	case w.End != "" && hasDuration:
		f.add("durationMinutes", CodeDurationInvalid, nil, "the window has an end, too: weekly.end is a reading of the clock, durationMinutes is elapsed time; keep one").reading("weekly.end")
	case w.End == "" && !hasDuration:
		f.add("weekly.end", CodeDurationInvalid, nil, "is required, or else durationMinutes, at least 1").reading("durationMinutes")
	case w.End != "":
		if s.end, ok = timeOfDay(w.End); !ok {
			f.add("weekly.end", CodeTimeInvalid, w.End, "must be a time from 00:00 to 24:00, HH:MM or HH:MM:SS").reading("durationMinutes")
		}
		if s.end <= start {
			s.end += day
		}
	}
	if s.pattern.interval > 1 && !s.anchor.given {
		f.add("anchor", CodeAnchorRequired, nil, "is required with weekly.everyWeeks above 1, to say which weeks count: give a local date and time, such as 2025-01-06T09:00").reading("weekly.everyWeeks")
	}
}

// timeOfDay reads HH:MM or HH:MM:SS as seconds after midnight; 24:00 is the end of the day.
func timeOfDay(text string) (int64, bool) {
	if len(text) != len("HH:MM") && len(text) != len("HH:MM:SS") {
		return 0, false
	}
	var seconds int64
	for i, limit, unit := 0, int64(24), int64(3600); i < len(text); i, limit, unit = i+3, 59, unit/60 {
		if i > 0 && text[i-1] != ':' {
			return 0, false
		}
		tens, ones := int64(text[i])-'0', int64(text[i+1])-'0'
		if tens < 0 || ones < 0 || ones > 9 || tens*10+ones > limit {
			return 0, false
		}
		seconds += (tens*10 + ones) * unit
	}
	return seconds, seconds <= day
}

// The days from Monday on, as [Weekly] and as an rrule names them, one after the other.
const (
	dayNames = "montuewedthufrisatsun"
	dayCodes = "MOTUWETHFRSASU"
)

// weekdayNamed returns the bit of a day, or 0 if none of the names, which are equally long, is its
// name.
func weekdayNamed(name, names string) uint8 {
	size := len(names) / week
	if at := strings.Index(names, name); len(name) == size && at >= 0 && at%size == 0 {
		return 1 << (at / size)
	}
	return 0
}
