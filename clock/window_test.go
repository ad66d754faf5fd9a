package clock_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// found lists the faults of an error as "path code", in order, and fails if one is not a FieldError
// with a hint.
func found(t *testing.T, err error) []string {
	t.Helper()
	list := []string{}
	if err == nil {
		return list
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v is a %T, not a joined error", err, err)
	}
	for _, one := range joined.Unwrap() {
		bad, ok := one.(*clock.FieldError)
		if !ok || bad.Hint == "" || !strings.Contains(bad.Error(), bad.Hint) || !strings.HasPrefix(bad.Error(), bad.Path) {
			t.Fatalf("%v is a %T, want a *FieldError that prints its path and its hint", one, one)
		}
		list = append(list, bad.Path+" "+string(bad.Code))
	}
	return list
}

func TestFaultsOfWindows(t *testing.T) {
	weekly := func(rest string) string { return `{"weekly":{"days":["mon"],"start":"09:00"` + rest }
	rule := func(rule string) string { return `{"durationMinutes":60,"rrule":"` + rule + `"}` }
	check := unique(t)
	for _, row := range []struct {
		name, window string
		want         []string
		why          string
	}{
		{"nothing", `{}`, []string{" empty_window"}, "nothing says when"},
		{"empty rrule", `{"rrule":"","durationMinutes":60}`, []string{" empty_window"}, "empty is absent"},
		{"two shapes", `{"rrule":"FREQ=DAILY;BYHOUR=1","durationMinutes":60,"from":"2025-01-01T00:00:00Z","until":"2025-01-02T00:00:00Z"}`, []string{" recurrence_invalid"}, "one of them would be ignored"},
		{"unknown field", weekly(`,"end":"10:00"},"time_zone":"Europe/Berlin"}`), []string{"time_zone unknown_field"}, "a misspelt zone must not be UTC"},
		{"unknown field inside", weekly(`,"ends":"10:00"}}`), []string{"weekly.ends unknown_field"}, "at every depth"},
		{"wrong types", `{"weekly":{"days":"mon","start":9,"end":false,"everyWeeks":"2"},"durationMinutes":"60","from":3,"timezone":1,"allowWindow":"no"}`,
			[]string{"weekly.days day_invalid", "weekly.start time_invalid", "weekly.end time_invalid", "weekly.everyWeeks recurrence_invalid", "durationMinutes duration_invalid", "from time_invalid", "timezone timezone_unknown", "allowWindow type"}, "all of them, in the order of the document"},
		{"not JSON", `{"weekly"`, []string{" syntax"}, "no document"},
		{"explicit zeros", `{"weekly":{"days":["mon"],"start":"09:00","end":"10:00","everyWeeks":0},"durationMinutes":0,"timezone":""}`,
			[]string{"weekly.everyWeeks recurrence_invalid", "durationMinutes duration_invalid", "timezone timezone_unknown"}, "0 is neither 1 nor absent, and a lost name is not UTC"},
		{"fractions and negatives", `{"weekly":{"days":["mon"],"start":"09:00","everyWeeks":1.5},"durationMinutes":-5}`,
			[]string{"weekly.everyWeeks recurrence_invalid", "durationMinutes duration_invalid"}, "whole numbers from 1"},
		{"too long", `{"rrule":"FREQ=DAILY;BYHOUR=1","durationMinutes":153722868}`, []string{"durationMinutes duration_invalid"}, "more than a Duration holds"},
		{"the longest", `{"rrule":"FREQ=DAILY;BYHOUR=1","durationMinutes":153722867}`, []string{}, "what a Duration holds"},
		{"the longest interval", weekly(`,"end":"10:00","everyWeeks":1000000},"anchor":"2025-01-06T00:00"}`), []string{}, "up to the bound"},
		{"interval too long", weekly(`,"end":"10:00","everyWeeks":1000001},"anchor":"2025-01-06T00:00"}`), []string{"weekly.everyWeeks recurrence_invalid"}, "a bound keeps sums from overflowing"},
		{"no days", `{"weekly":{"days":[],"start":"09:00","end":"10:00"}}`, []string{"weekly.days empty_window"}, "never open"},
		{"bad days", `{"weekly":{"days":["mon","Tue","monday","ontue","","sat-sun"],"start":"09:00","end":"10:00"}}`,
			[]string{"weekly.days[1] day_invalid", "weekly.days[2] day_invalid", "weekly.days[3] day_invalid", "weekly.days[4] day_invalid", "weekly.days[5] day_invalid"}, "exactly seven names are known, and no ranges"},
		{"bad start", `{"weekly":{"days":["mon"],"start":"9:00","end":"10:00"}}`, []string{"weekly.start time_invalid"}, "two digits"},
		{"no start", `{"weekly":{"days":["mon"],"end":"10:00"}}`, []string{"weekly.start time_invalid"}, "required"},
		{"start at 24:00", `{"weekly":{"days":["mon"],"start":"24:00","end":"10:00"}}`, []string{"weekly.start time_invalid"}, "that is the next day's 00:00"},
		{"end past 24:00", weekly(`,"end":"24:00:01"}}`), []string{"weekly.end time_invalid"}, "24:00 is the end of the day"},
		{"end at minute 60", weekly(`,"end":"12:60"}}`), []string{"weekly.end time_invalid"}, "no such minute"},
		{"end at minute 61", weekly(`,"end":"12:61"}}`), []string{"weekly.end time_invalid"}, "no such minute"},
		{"end at second 60", weekly(`,"end":"12:00:60"}}`), []string{"weekly.end time_invalid"}, "windows know no leap seconds"},
		{"end with tens below 0", weekly(`,"end":"/5:00"}}`), []string{"weekly.end time_invalid"}, "digits; the stroke stands before 0"},
		{"end with ones below 0", weekly(`,"end":"1/:00"}}`), []string{"weekly.end time_invalid"}, "in the other place"},
		{"end with ones above 9", weekly(`,"end":"0::00"}}`), []string{"weekly.end time_invalid"}, "the colon stands after 9, and ten is within the bound"},
		{"end with a letter", weekly(`,"end":"1a:00"}}`), []string{"weekly.end time_invalid"}, "digits"},
		{"end with another separator", weekly(`,"end":"12-00"}}`), []string{"weekly.end time_invalid"}, "a colon"},
		{"end with a second separator", weekly(`,"end":"12:00.30"}}`), []string{"weekly.end time_invalid"}, "a colon"},
		{"end and duration", weekly(`,"end":"10:00"},"durationMinutes":60}`), []string{"durationMinutes duration_invalid"}, "one of them would be ignored"},
		{"neither end nor duration", weekly(`}}`), []string{"weekly.end duration_invalid"}, "no length"},
		{"everyWeeks without anchor", weekly(`,"end":"10:00","everyWeeks":2}}`), []string{"anchor anchor_required"}, "nothing says which weeks"},
		{"everyWeeks 1 without anchor", weekly(`,"end":"10:00","everyWeeks":1}}`), []string{}, "every week needs no phase"},
		{"times with seconds", `{"weekly":{"days":["mon","mon"],"start":"09:00:30","end":"24:00"}}`, []string{}, "a day given twice is the same set"},
		{"rrule without duration", `{"rrule":"FREQ=DAILY;BYHOUR=1"}`, []string{"durationMinutes duration_invalid"}, "no length"},
		{"interval without anchor", rule("FREQ=DAILY;INTERVAL=2;BYHOUR=1"), []string{"anchor anchor_required"}, "the phase would slide"},
		{"weekly interval without anchor", rule("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH;BYHOUR=1"), []string{"anchor anchor_required"}, "days that can be read do not say which weeks count"},
		{"no hour without anchor", rule("FREQ=DAILY;BYMINUTE=30"), []string{"anchor anchor_required"}, "the time of day would slide"},
		{"weekly without day", rule("FREQ=WEEKLY;BYHOUR=1"), []string{"anchor anchor_required"}, "the day would slide"},
		{"nothing at all but the frequency", rule("FREQ=WEEKLY;INTERVAL=3"), []string{"anchor anchor_required", "anchor anchor_required", "anchor anchor_required"}, "phase, hour and day"},
		{"interval 1 needs no anchor", rule("FREQ=WEEKLY;INTERVAL=1;BYDAY=MO,FR;BYHOUR=1,2;BYMINUTE=0,30;BYSECOND=0,59;WKST=MO"), []string{}, "the whole subset"},
		{"no rule", rule("INVALID"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid"}, "not NAME=VALUE; no FREQ"},
		{"prefix", rule("RRULE:FREQ=DAILY;BYHOUR=1"), []string{"rrule recurrence_invalid"}, "the value only; that there is no BYHOUR would not be true"},
		{"DTSTART", rule(`DTSTART:20250106T090000Z\nRRULE:FREQ=DAILY;BYHOUR=1`), []string{"rrule recurrence_invalid"}, "the anchor is a field"},
		{"trailing semicolon", rule("FREQ=DAILY;BYHOUR=1;"), []string{"rrule recurrence_invalid"}, "an empty part may be a lost one"},
		{"many semicolons", rule("FREQ=DAILY;;;BYHOUR=1;"), []string{"rrule recurrence_invalid"}, "each fault has the whole rule for its value, so one for each semicolon would have the square of its length"},
		{"no value", rule("FREQ=DAILY;BYHOUR=1;BYMINUTE="), []string{"rrule recurrence_invalid"}, "a lost value"},
		{"no value of the frequency", rule("FREQ=;BYHOUR=1"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid"}, "a lost value, and so no frequency"},
		{"no name", rule("FREQ=DAILY;BYHOUR=1;=1"), []string{"rrule recurrence_invalid"}, "a lost name"},
		{"twice", rule("FREQ=DAILY;BYHOUR=1;BYHOUR=2"), []string{"rrule recurrence_invalid"}, "which one?"},
		{"ordinals of a year", rule("FREQ=MONTHLY;BYDAY=-53MO,6TU,-6WE,0TH,+5FR;BYHOUR=1"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid"}, "a month has five at most"},
		{"digits", rule("FREQ=DAILY;BYHOUR=09,08"), []string{}, "a leading zero is no octal number"},
		{"no digits", rule("FREQ=DAILY;BYHOUR=0x9;BYMINUTE=1_0"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid"}, "nor are there others than decimal ones"},
		{"twice and wrong", rule("FREQ=DAILY;BYHOUR=1;BYHOUR=24"), []string{"rrule recurrence_invalid"}, "the second is not looked at"},
		{"twice in another case", rule("FREQ=DAILY;BYHOUR=1;byhour=2"), []string{"rrule recurrence_invalid"}, "which one?"},
		{"no frequency", rule("BYHOUR=1"), []string{"rrule recurrence_invalid"}, "required"},
		{"monthly without day", rule("FREQ=MONTHLY;BYHOUR=1"), []string{"anchor anchor_required"}, "the day would slide"},
		{"monthly without hour", rule("FREQ=MONTHLY;BYMONTHDAY=1"), []string{"anchor anchor_required"}, "the time of day would slide"},
		{"monthly interval without anchor", rule("FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1;BYHOUR=1"), []string{"anchor anchor_required"}, "the phase would slide"},
		{"monthly, on weekdays", rule("FREQ=MONTHLY;BYDAY=2TU,-1FR,+1MO,SU;BYHOUR=1"), []string{}, "all forms of a day"},
		{"monthly, on days", rule("BYMONTHDAY=1,-1,31,-31,+15;BYHOUR=1;FREQ=MONTHLY"), []string{}, "all forms of a day, in any order of parts"},
		{"days that no month has", rule("FREQ=MONTHLY;BYMONTHDAY=0,32,-32,x,,--1,-,1;BYHOUR=1"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid"}, "each is named"},
		{"a day that is in no month twice", rule("FREQ=MONTHLY;BYMONTHDAY=1;BYDAY=-1MO,2MO;BYHOUR=1"), []string{"rrule empty_window"}, "the first is no second and no last Monday"},
		{"and one that is", rule("FREQ=MONTHLY;BYMONTHDAY=22;BYDAY=-1MO,2MO;BYHOUR=1"), []string{}, "the last Monday of a February of 28 days may be the 22nd"},
		{"the thirtieth of each February", `{"rrule":"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=30;BYHOUR=1","durationMinutes":30,"anchor":"2025-02-01T00:00"}`, []string{"rrule empty_window"}, "there is none"},
		{"the twenty-ninth of each February", `{"rrule":"FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=29;BYHOUR=1","durationMinutes":30,"anchor":"2025-02-01T00:00"}`, []string{}, "in leap years"},
		{"the twenty-ninth of the February of every 25th year", `{"rrule":"FREQ=MONTHLY;INTERVAL=300;BYMONTHDAY=29;BYHOUR=1","durationMinutes":30,"anchor":"2100-02-01T00:00"}`, []string{}, "2400 is a leap year"},
		{"of every 400th, but not of those that are leap years", `{"rrule":"FREQ=MONTHLY;INTERVAL=4800;BYMONTHDAY=29;BYHOUR=1","durationMinutes":30,"anchor":"2100-02-01T00:00"}`, []string{"rrule empty_window"}, "2100, 2500 and so on are no leap years"},
		{"yearly", rule("FREQ=YEARLY;BYDAY=20MO;BYMONTHDAY=5;BYHOUR=1"), []string{"rrule recurrence_unsupported"}, "for a host's recurrence: what its parts mean is not said"},
		{"a week start of a monthly rule", rule("FREQ=MONTHLY;BYMONTHDAY=5;BYHOUR=1;WKST=SU"), []string{"rrule recurrence_unsupported"}, "it has no effect"},
		{"hourly", rule("FREQ=HOURLY;BYHOUR=1"), []string{"rrule recurrence_unsupported"}, "for a host's recurrence"},
		{"count and until", rule("FREQ=DAILY;BYHOUR=1;COUNT=3;UNTIL=20250101T000000Z"), []string{"rrule recurrence_unsupported", "rrule recurrence_unsupported"}, "not ignored"},
		{"other parts", rule("FREQ=DAILY;BYHOUR=1;BYMONTH=1;BYSETPOS=1;BYMONTHDAY=1;BYYEARDAY=1;BYWEEKNO=1"), []string{"rrule recurrence_unsupported", "rrule recurrence_unsupported", "rrule recurrence_unsupported", "rrule recurrence_unsupported", "rrule recurrence_unsupported"}, "not ignored"},
		{"ordinals", rule("FREQ=WEEKLY;BYDAY=1MO,-1FR,54TU;BYHOUR=1"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid", "rrule recurrence_invalid"}, "these count within a month; that there is no BYDAY would not be true"},
		{"ordinals of no day", rule("FREQ=WEEKLY;BYDAY=1XX,-FR;BYHOUR=1"), []string{"rrule day_invalid", "rrule day_invalid"}, "no day, and no number"},
		{"ordinals and no hour", rule("FREQ=WEEKLY;BYDAY=1MO"), []string{"rrule recurrence_invalid"}, "the hour may be asked for once the days can be read"},
		{"days of the month and no hour", rule("FREQ=WEEKLY;BYMONTHDAY=1"), []string{"rrule recurrence_unsupported"}, "once it is known what is meant"},
		{"yearly without day or hour", rule("FREQ=YEARLY;INTERVAL=3"), []string{"rrule recurrence_unsupported"}, "what another frequency lacks is not for the subset to say"},
		{"yearly on days, without hour", rule("FREQ=YEARLY;INTERVAL=3;BYDAY=MO"), []string{"rrule recurrence_unsupported"}, "nor where what follows it can be read"},
		{"a day that is none before one", rule("FREQ=WEEKLY;BYDAY=XX,MO"), []string{"rrule day_invalid"}, "the hour may be asked for once the days can be read"},
		{"a day that is none beside one", rule("FREQ=WEEKLY;BYDAY=MO,XX"), []string{"rrule day_invalid"}, "the hour may be asked for once the days can be read"},
		{"count and no hour", rule("FREQ=DAILY;COUNT=3"), []string{"rrule recurrence_unsupported", "anchor anchor_required"}, "whatever else is refused, no hour is given"},
		{"a blank behind a semicolon", rule("FREQ=DAILY; BYHOUR=1"), []string{"rrule recurrence_invalid"}, "nor is this a rule without BYHOUR"},
		{"a blank in a list", rule("FREQ=WEEKLY;BYDAY=MO, TU;BYHOUR=1"), []string{"rrule recurrence_invalid"}, "blanks are not trimmed in silence"},
		{"cron", rule("0 9 * * 1"), []string{"rrule recurrence_invalid", "rrule recurrence_invalid"}, "no rrule at all"},
		{"letters whose capitals are those of a day", rule("FREQ=WEEKLY;BYDAY=ſu;BYHOUR=1"), []string{"rrule day_invalid"}, "the long s is no s"},
		{"and of a part", rule("FREQ=DAILY;ıNTERVAL=1;BYHOUR=1"), []string{"rrule recurrence_unsupported"}, "nor is the i without its dot an i"},
		{"unknown days", rule("FREQ=WEEKLY;BYDAY=MO,XX,OT,,xMO,MONDAY;BYHOUR=1"), []string{"rrule day_invalid", "rrule day_invalid", "rrule day_invalid", "rrule day_invalid", "rrule day_invalid"}, "seven names"},
		{"week start", rule("FREQ=DAILY;BYHOUR=1;WKST=SU"), []string{"rrule recurrence_unsupported"}, "weeks begin on Monday"},
		{"week start, the day after", rule("FREQ=DAILY;BYHOUR=1;WKST=TU"), []string{"rrule recurrence_unsupported"}, "weeks begin on Monday and on no other day"},
		{"no week start", rule("FREQ=DAILY;BYHOUR=1;WKST=1"), []string{"rrule recurrence_invalid"}, "no day"},
		{"interval 0", rule("FREQ=DAILY;BYHOUR=1;INTERVAL=0"), []string{"rrule recurrence_invalid"}, "would stand still"},
		{"interval too big", rule("FREQ=DAILY;BYHOUR=1;INTERVAL=1000001"), []string{"rrule recurrence_invalid"}, "bounded"},
		{"interval beyond numbers", rule("FREQ=DAILY;BYHOUR=1;INTERVAL=99999999999999999999"), []string{"rrule recurrence_invalid"}, "bounded"},
		{"signed interval", rule("FREQ=DAILY;BYHOUR=1;INTERVAL=+2"), []string{"rrule recurrence_invalid"}, "digits"},
		{"hour 24", rule("FREQ=DAILY;BYHOUR=23,24"), []string{"rrule recurrence_invalid"}, "no such hour"},
		{"minute 60", rule("FREQ=DAILY;BYHOUR=1;BYMINUTE=60"), []string{"rrule recurrence_invalid"}, "no such minute"},
		{"second 60", rule("FREQ=DAILY;BYHOUR=1;BYSECOND=60"), []string{"rrule recurrence_invalid"}, "windows know no leap seconds"},
		{"empty in a list", rule("FREQ=DAILY;BYHOUR=1,,2"), []string{"rrule recurrence_invalid"}, "a lost value"},
		{"days that are never reached", `{"durationMinutes":60,"rrule":"FREQ=DAILY;INTERVAL=14;BYDAY=TU,WE;BYHOUR=1","anchor":"2025-01-06T00:00"}`, []string{"rrule empty_window"}, "every 14 days from a Monday is a Monday"},
		{"days that are always reached", `{"durationMinutes":60,"rrule":"FREQ=DAILY;INTERVAL=14;BYDAY=TU,MO;BYHOUR=1","anchor":"2025-01-06T00:00"}`, []string{}, "every 14 days from a Monday is a Monday"},
		{"only from", `{"from":"2025-01-01T00:00:00Z"}`, []string{"until time_invalid"}, "both ends"},
		{"only until", `{"until":"2025-01-01T00:00:00Z"}`, []string{"from time_invalid"}, "both ends"},
		{"from is until", `{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T01:00:00+01:00"}`, []string{"until empty_window"}, "the same instant"},
		{"from after until", `{"from":"2025-01-02T00:00:00Z","until":"2025-01-01T00:00:00Z"}`, []string{"until empty_window"}, "the wrong way round"},
		{"year 10000", `{"from":"9999-12-31T23:00:00Z","until":"9999-12-31T23:00:00-05:00"}`, []string{"until time_invalid"}, "no name in UTC"},
		{"bad instant", `{"from":"2025-01-01","until":"2025-01-02T00:00:00Z"}`, []string{"from time_invalid"}, "a date is no instant"},
		{"one-off with duration, anchor, gap, overlap", `{"from":"2025-01-01T00:00:00Z","until":"2025-01-02T00:00:00Z","durationMinutes":1,"anchor":"2025-01-01T00:00","gap":"skip","overlap":"last"}`,
			[]string{"anchor recurrence_invalid", "gap recurrence_invalid", "overlap recurrence_invalid", "durationMinutes duration_invalid"}, "their author meant something"},
		{"one-off with zone", `{"from":"2025-01-01T00:00:00Z","until":"2025-01-02T00:00:00Z","timezone":"Europe/Berlin"}`, []string{}, "harmless: instants need none"},
		{"bad enums", weekly(`,"end":"10:00"},"gap":"shift","overlap":"both"}`), []string{"gap recurrence_invalid", "overlap recurrence_invalid"}, "enums fail closed"},
		{"zone of the machine", weekly(`,"end":"10:00"},"timezone":"Local"}`), []string{"timezone timezone_unknown"}, "not the same everywhere"},
		{"zone of the machine, by its file", weekly(`,"end":"10:00"},"timezone":"localtime"}`), []string{"timezone timezone_unknown"}, "a link beside the zones: it would be found, and differ"},
		{"zone of the machine, for its rules", weekly(`,"end":"10:00"},"timezone":"posixrules"}`), []string{"timezone timezone_unknown"}, "another such file"},
		{"zone that nobody has set", weekly(`,"end":"10:00"},"timezone":"Factory"}`), []string{"timezone timezone_unknown"}, "UTC by another name, which nobody means"},
		{"zone with leap seconds", weekly(`,"end":"10:00"},"timezone":"right/Europe/Berlin"}`), []string{"timezone timezone_unknown"}, "27 seconds beside all other instants"},
		{"anchor that is required and wrong", `{"rrule":"FREQ=DAILY;INTERVAL=2","durationMinutes":60,"anchor":"2025-01-06"}`, []string{"anchor time_invalid"}, "it is given, so it is not missing"},
		{"anchor without time", weekly(`,"end":"10:00"},"anchor":"2025-01-06"}`), []string{"anchor time_invalid"}, "a date and a time"},
		{"anchor with a fraction", weekly(`,"end":"10:00"},"anchor":"2025-01-06T09:00:00.5"}`), []string{"anchor time_invalid"}, "whole seconds"},
		{"anchor as an instant with a fraction", weekly(`,"end":"10:00"},"anchor":"2025-01-06T09:00:00.5Z"}`), []string{"anchor time_invalid"}, "whole seconds"},
		{"anchor with one digit", weekly(`,"end":"10:00"},"anchor":"2025-01-06T9:00"}`), []string{"anchor time_invalid"}, "two digits"},
		{"anchor on no date", weekly(`,"end":"10:00"},"anchor":"2025-02-29T09:00"}`), []string{"anchor time_invalid"}, "2025 is no leap year"},
		{"anchor in year 0", weekly(`,"end":"10:00"},"anchor":"0000-02-29T09:00"}`), []string{"anchor time_invalid"}, "years 1 to 9999"},
		{"anchor as an instant in year 0", weekly(`,"end":"10:00"},"anchor":"0000-02-29T09:00:00Z"}`), []string{"anchor time_invalid"}, "years 1 to 9999"},
		{"null", weekly(`,"end":"10:00"},"allowWindow":null,"timezone":null,"durationMinutes":null}`), []string{"timezone timezone_unknown", "durationMinutes duration_invalid"}, "null is no name and no number"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check(row.name, row.why)
			w, err := clock.ParseWindow([]byte(row.window))
			if diff := cmp.Diff(row.want, found(t, err)); diff != "" {
				t.Errorf("%s: want -, got +\n%s\n%v", row.why, diff, err)
			}
			if err != nil && !cmp.Equal(w, clock.Window{}) {
				t.Errorf("a window beside an error: %+v", w)
			}
		})
	}
}

// TestRepeatedNumbersAreOne: a short rule that lists the same numbers over and over has no more
// times of day than one that lists them once. Multiplied with one another these lists are eight
// million.
func TestRepeatedNumbersAreOne(t *testing.T) {
	list := strings.Repeat("1,", 199) + "1"
	text := `{"rrule":"FREQ=DAILY;BYHOUR=` + list + `;BYMINUTE=` + list + `;BYSECOND=` + list + `","durationMinutes":60}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := parsed(t, text)
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 16<<20 {
		t.Errorf("%d bytes for a window of %d", spent, len(text))
	}
	if u, err := c.NextOpen(at("2026-01-01T00:00:00Z")); err != nil || !u.Equal(at("2026-01-01T01:01:01Z")) {
		t.Error(u, err)
	}
}

func TestFaultsOfCalendars(t *testing.T) {
	good := parse(t, daily("09:00", "10:00"))
	zone := func(name clock.Zone) clock.Window { w := good; w.Timezone = name; return w }
	absolute := clock.Window{RRule: "FREQ=DAILY;INTERVAL=7;BYDAY=SU;BYHOUR=1", Anchor: "2025-01-05T23:00:00Z", DurationMinutes: 60}
	if err := absolute.Validate(); err != nil {
		t.Errorf("whether the anchor is a Sunday depends on the zone: %v", err)
	}
	tokyo := absolute
	tokyo.Timezone = "Asia/Tokyo"
	load := func(name string) (*time.Location, error) {
		switch name {
		case "Nowhere/Nil":
			return nil, nil
		case "Nowhere/Far":
			return time.FixedZone(name, 100*3600), nil
		case "Nowhere/Behind":
			return time.FixedZone(name, -26*3600), nil
		case "Nowhere/Ahead":
			return time.FixedZone(name, 26*3600), nil
		}
		return time.LoadLocation(name)
	}
	_, err := clock.NewCalendar([]clock.Window{
		good, zone("Europe/Atlantis"), {}, zone("Local"), zone("Nowhere/Nil"), zone("Nowhere/Far"), zone("Nowhere/Behind"), absolute, tokyo,
		{Weekly: &clock.Weekly{Days: []string{"mon"}, Start: "1", End: "2", EveryWeeks: -1}, DurationMinutes: -1, Timezone: "Europe/Atlantis"},
		{Weekly: &clock.Weekly{Days: []string{"mon"}, Start: "09:00", EveryWeeks: 1_000_001}, DurationMinutes: 153722868, Anchor: "2025-01-06T00:00"},
	}, load)
	want := []string{
		"windows[1].timezone timezone_unknown", "windows[2] empty_window", "windows[3].timezone timezone_unknown",
		"windows[4].timezone timezone_unknown", "windows[5].timezone timezone_unknown", "windows[6].timezone timezone_unknown",
		"windows[8].rrule empty_window",
		"windows[9].durationMinutes duration_invalid", "windows[9].weekly.everyWeeks recurrence_invalid", "windows[9].weekly.start time_invalid",
		"windows[9].weekly.end time_invalid", "windows[9].timezone timezone_unknown",
		"windows[10].durationMinutes duration_invalid", "windows[10].weekly.everyWeeks recurrence_invalid",
	}
	if diff := cmp.Diff(want, found(t, err)); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if _, err := clock.NewCalendar([]clock.Window{zone("Nowhere/Ahead")}, load); !cmp.Equal(found(t, err), []string{"windows[0].timezone timezone_unknown"}) || !strings.Contains(err.Error(), "its clocks are 93600 s off UTC") {
		t.Errorf("a zone that is as far ahead as the other is behind: %v", err)
	}
	nowhere := absolute
	nowhere.Timezone = "Europe/Atlantis"
	if _, err := clock.NewCalendar([]clock.Window{nowhere}, load); !cmp.Equal(found(t, err), []string{"windows[0].timezone timezone_unknown"}) {
		t.Errorf("an anchor that could be read only with the zone that is not there: %v", err)
	}
	if _, err := clock.NewCalendar([]clock.Window{good, zone("UTC")}, nil); err != nil {
		t.Errorf("UTC needs no loader: %v", err)
	}
	if _, err := clock.NewCalendar([]clock.Window{zone("Europe/Berlin")}, nil); !cmp.Equal(found(t, err), []string{"windows[0].timezone timezone_unknown"}) {
		t.Errorf("a zone without loader: %v", err)
	}
	if _, err := clock.NewCalendar([]clock.Window{zone("Local")}, nil); !cmp.Equal(found(t, err), []string{"windows[0].timezone timezone_unknown"}) {
		t.Errorf("Local is refused once, also where the loader does not know it: %v", err)
	}
}

// TestEmbedding: a rule of a policy holds the fields of a window beside its own, and strict
// decoding reaches both.
func TestEmbedding(t *testing.T) {
	type rule struct {
		clock.Window
		FirstDeploy string `json:"firstDeploy"`
	}
	var r rule
	text := `{"weekly":{"days":["fri"],"start":"22:00","end":"04:00"},"timezone":"Europe/Berlin","firstDeploy":"apply"}`
	if err := strictjson.Unmarshal([]byte(text), &r); err != nil || r.FirstDeploy != "apply" || r.Weekly.End != "04:00" {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	again, err := json.Marshal(r)
	if err != nil || string(again) != text {
		t.Errorf("%s, %v", again, err)
	}
	err = strictjson.Unmarshal([]byte(`{"durationMinutes":0,"timezone":"","firstdeploy":"apply"}`), &r)
	var first *clock.FieldError
	if !errors.As(err, &first) || first.Code != clock.CodeDurationInvalid || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three faults, the first a *FieldError: %v", err)
	}
}
