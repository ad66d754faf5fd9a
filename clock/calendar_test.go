package clock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the same zones on every machine that brings none

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/clock"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func parse(t testing.TB, text string) clock.Window {
	t.Helper()
	w, err := clock.ParseWindow([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w
}

func calendar(t testing.TB, windows ...clock.Window) clock.Calendar {
	t.Helper()
	c, err := clock.NewCalendar(windows, time.LoadLocation)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parsed(t testing.TB, texts ...string) clock.Calendar {
	t.Helper()
	windows := make([]clock.Window, len(texts))
	for i, text := range texts {
		windows[i] = parse(t, text)
	}
	return calendar(t, windows...)
}

// intervals prints the open intervals of a range, in UTC.
func intervals(c clock.Calendar, from, to time.Time) []string {
	list := []string{}
	for start, end := range c.Intervals(from, to) {
		list = append(list, start.Format(time.RFC3339Nano)+" "+end.Format(time.RFC3339Nano))
	}
	return list
}

// complement prints the closed intervals of a range in which the calendar is open at both ends.
func complement(c clock.Calendar, from, to time.Time) []string {
	list, last := []string{}, time.Time{}
	for start, end := range c.Intervals(from, to) {
		if !last.IsZero() {
			list = append(list, last.Format(time.RFC3339Nano)+" "+start.Format(time.RFC3339Nano))
		}
		last = end
	}
	return list
}

// unique refuses table rows without a reason or with a repeated name.
func unique(t *testing.T) func(name, why string) {
	seen := map[string]bool{}
	return func(name, why string) {
		t.Helper()
		if why == "" || seen[name] {
			t.Fatalf("row %q is repeated or does not say why", name)
		}
		seen[name] = true
	}
}

func TestChangesOfTheClock(t *testing.T) {
	const allow, deny = true, false
	check := unique(t)
	for _, row := range []struct {
		name, zone, day, window string // window: the members of weekly, and what stands beside it
		effect                  bool
		want                    []string
		why                     string
	}{
		{"gap", "Europe/Berlin", "sun", `"start":"02:30","end":"03:30"`, allow, []string{"2026-03-29T01:00:00Z 2026-03-29T01:30:00Z"}, "02:30 is skipped: 03:00 to 03:30 CEST"},
		{"gap skip", "Europe/Berlin", "sun", `"start":"02:30","end":"03:30"},"gap":"skip","x":{`, allow, []string{}, "no such start on that day"},
		{"overlap", "Europe/Berlin", "sun", `"start":"02:30","end":"03:30"`, allow, []string{"2026-10-25T00:30:00Z 2026-10-25T02:30:00Z"}, "02:30 CEST to 03:30 CET"},
		{"overlap last", "Europe/Berlin", "sun", `"start":"02:30","end":"03:30"},"overlap":"last","x":{`, allow, []string{"2026-10-25T01:30:00Z 2026-10-25T02:30:00Z"}, "the second 02:30"},
		{"overlap deny", "Europe/Berlin", "sun", `"start":"02:30","end":"03:30"`, deny, []string{"2026-10-25T00:30:00Z 2026-10-25T02:30:00Z"}, "no reading inside is open"},
		{"overlap last, end in the overlap", "Europe/Berlin", "sun", `"start":"02:30","end":"02:45"},"overlap":"last","x":{`, allow, []string{"2026-10-25T01:30:00Z 2026-10-25T01:45:00Z"}, "the first 02:45 is over when the second 02:30 comes"},
		{"both ends in one overlap", "Europe/Berlin", "sun", `"start":"02:15","end":"02:45"`, allow, []string{"2026-10-25T00:15:00Z 2026-10-25T00:45:00Z"}, "one occurrence a day: the second pass stays closed"},
		{"both ends in one overlap, deny", "Europe/Berlin", "sun", `"start":"02:15","end":"02:45"`, deny, []string{"2026-10-25T00:15:00Z 2026-10-25T01:45:00Z"}, "neither pass of 02:20 is open"},
		{"both ends in one gap", "Europe/Berlin", "sun", `"start":"02:15","end":"02:45"`, allow, []string{}, "an occurrence of no length is left out"},
		{"both ends in one gap, deny", "Europe/Berlin", "sun", `"start":"02:15","end":"02:45"`, deny, []string{}, "an occurrence of no length is left out"},
		{"end in the gap", "Europe/Berlin", "sun", `"start":"01:30","end":"02:30"`, allow, []string{"2026-03-29T00:30:00Z 2026-03-29T01:00:00Z"}, "at 03:00 the clock is past 02:30"},
		{"elapsed, spring", "America/New_York", "sat", `"start":"22:00"},"durationMinutes":360,"x":{`, allow, []string{"2026-03-08T03:00:00Z 2026-03-08T09:00:00Z"}, "six hours are six hours: until 05:00 EDT"},
		{"by the clock, spring", "America/New_York", "sat", `"start":"22:00","end":"04:00"`, allow, []string{"2026-03-08T03:00:00Z 2026-03-08T08:00:00Z"}, "five hours long"},
		{"elapsed, autumn", "America/New_York", "sat", `"start":"22:00"},"durationMinutes":360,"x":{`, allow, []string{"2026-11-01T02:00:00Z 2026-11-01T08:00:00Z"}, "six hours are six hours: until 03:00 EST"},
		{"by the clock, autumn", "America/New_York", "sat", `"start":"22:00","end":"04:00"`, allow, []string{"2026-11-01T02:00:00Z 2026-11-01T09:00:00Z"}, "seven hours long"},
		{"start in a gap", "America/New_York", "sun", `"start":"02:30"},"durationMinutes":60,"x":{`, allow, []string{"2026-03-08T07:00:00Z 2026-03-08T08:00:00Z"}, "from 03:00 EDT: neither left out nor an hour early"},
		{"start in an overlap", "America/New_York", "sun", `"start":"01:30"},"durationMinutes":60,"x":{`, allow, []string{"2026-11-01T05:30:00Z 2026-11-01T06:30:00Z"}, "once, not twice"},
		{"start in an overlap, last", "America/New_York", "sun", `"start":"01:30"},"durationMinutes":60,"overlap":"last","x":{`, allow, []string{"2026-11-01T06:30:00Z 2026-11-01T07:30:00Z"}, "the second 01:30"},
		{"set back to exactly the start, last", "America/New_York", "sun", `"start":"01:00"},"durationMinutes":60,"overlap":"last","x":{`, allow, []string{"2026-11-01T06:00:00Z 2026-11-01T07:00:00Z"}, "01:00 is shown at 05:00 and at 06:00, though the clock is never before it in between"},
		{"set back to exactly the end, deny", "America/New_York", "sun", `"start":"00:30","end":"01:00"`, deny, []string{"2026-11-01T04:30:00Z 2026-11-01T05:00:00Z"}, "no reading before 01:00 comes back"},
		{"end in an overlap, allow", "America/New_York", "sun", `"start":"00:30","end":"01:30"`, allow, []string{"2026-11-01T04:30:00Z 2026-11-01T05:30:00Z"}, "the first 01:30 ends it"},
		{"end in an overlap, deny", "America/New_York", "sun", `"start":"00:30","end":"01:30"`, deny, []string{"2026-11-01T04:30:00Z 2026-11-01T06:30:00Z"}, "only the second 01:30 ends it"},
		{"friday night", "Europe/Berlin", "fri", `"start":"22:00","end":"04:00"`, allow, []string{"2026-06-05T20:00:00Z 2026-06-06T02:00:00Z"}, "the day is that of the start"},
		{"half an hour", "Australia/Lord_Howe", "sun", `"start":"02:15"},"durationMinutes":60,"x":{`, allow, []string{"2026-10-03T15:30:00Z 2026-10-03T16:30:00Z"}, "the gap is from 02:00 to 02:30"},
		{"no such date", "Pacific/Apia", "fri", `"start":"10:00","end":"12:00"`, allow, []string{}, "Samoa left out Friday 2011-12-30"},
		{"no such date, elapsed", "Pacific/Apia", "fri", `"start":"10:00"},"durationMinutes":60,"x":{`, allow, []string{}, "nor does an hour of that Friday start with Saturday, as it would after a gap"},
		{"night into a date that is left out", "Pacific/Apia", "thu", `"start":"22:00","end":"04:00"`, allow, []string{"2011-12-30T08:00:00Z 2011-12-30T10:00:00Z"}, "at midnight it is Saturday, past Friday 04:00"},
		{"the day after", "Pacific/Apia", "sat", `"start":"00:00","end":"02:00"`, allow, []string{"2011-12-30T10:00:00Z 2011-12-30T12:00:00Z"}, "Saturday begins where Thursday ends"},
		{"gap up to midnight", "America/Nuuk", "sat", `"start":"23:30"},"durationMinutes":60,"x":{`, allow, []string{"2024-03-31T01:00:00Z 2024-03-31T02:00:00Z"}, "23:30 on Saturday is skipped: Saturday's occurrence starts with Sunday"},
		{"overlap at midnight", "America/Sao_Paulo", "sat", `"start":"23:30"},"durationMinutes":60,"x":{`, allow, []string{"2018-02-18T01:30:00Z 2018-02-18T02:30:00Z"}, "23:30 is shown on Saturday and, an hour later, on Saturday"},
		{"overlap at midnight, last", "America/Sao_Paulo", "sat", `"start":"23:30"},"durationMinutes":60,"overlap":"last","x":{`, allow, []string{"2018-02-18T02:30:00Z 2018-02-18T03:30:00Z"}, "the first 23:30 is no start, though no change is near Saturday in UTC"},
		{"overlap at midnight, end", "America/Sao_Paulo", "sat", `"start":"22:00","end":"24:00"`, allow, []string{"2018-02-18T00:00:00Z 2018-02-18T03:00:00Z"}, "the first midnight is never shown"},
		{"gap at midnight", "America/Havana", "sun", `"start":"00:30","end":"02:00"`, allow, []string{"2026-03-08T05:00:00Z 2026-03-08T06:00:00Z"}, "the date begins at 01:00"},
		{"whole day", "Europe/Berlin", "sun", `"start":"00:00","end":"24:00"`, allow, []string{"2026-03-28T23:00:00Z 2026-03-29T22:00:00Z"}, "23 hours"},
		{"before the last change of a zone", "Asia/Tokyo", "sun", `"start":"09:00","end":"10:00"`, allow, []string{"1951-07-14T23:00:00Z 1951-07-15T00:00:00Z"}, "that summer its clocks were an hour ahead, and none has changed them since that year"},
		{"end is start", "Europe/Berlin", "sun", `"start":"12:00","end":"12:00"`, allow, []string{"2026-10-25T11:00:00Z 2026-10-26T11:00:00Z"}, "an end at the start is that of the next day"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check(row.name, row.why)
			w := strings.TrimSuffix(fmt.Sprintf(`{"timezone":%q,"allowWindow":%v,"weekly":{"days":[%q],%s}`, row.zone, row.effect, row.day, row.window), `,"x":{}`)
			c := parsed(t, w+"}")
			middle := at("2026-03-29T06:00:00Z")
			switch {
			case row.zone == "Pacific/Apia":
				middle = at("2011-12-30T10:00:00Z")
			case row.zone == "America/Nuuk":
				middle = at("2024-03-31T01:00:00Z")
			case row.zone == "Asia/Tokyo":
				middle = at("1951-07-15T00:00:00Z")
			case row.zone == "America/Sao_Paulo":
				middle = at("2018-02-18T02:00:00Z")
			case row.zone == "America/Havana":
				middle = at("2026-03-08T05:00:00Z")
			case strings.Contains(row.name, "friday"):
				middle = at("2026-06-06T00:00:00Z")
			case row.zone == "America/New_York" && (strings.Contains(row.name, "spring") || strings.Contains(row.name, "gap")):
				middle = at("2026-03-08T06:00:00Z")
			case row.zone == "America/New_York":
				middle = at("2026-11-01T06:00:00Z")
			case row.zone == "Australia/Lord_Howe":
				middle = at("2026-10-03T15:30:00Z")
			case strings.Contains(row.name, "overlap") || row.name == "end is start":
				middle = at("2026-10-25T01:00:00Z")
			}
			got := intervals(c, middle.Add(-72*time.Hour), middle.Add(72*time.Hour))
			if row.effect == deny {
				got = complement(c, middle.Add(-72*time.Hour), middle.Add(72*time.Hour))
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("%s: want -, got +\n%s", row.why, diff)
			}
		})
	}
}

// TestSharedCases runs the cases that other implementations are compared with, too.
func TestSharedCases(t *testing.T) {
	data, err := os.ReadFile("testdata/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Area string
		Input    struct {
			Rule, RRule, Anchor, Timezone, Day, Start, End, Overlap, Gap string
			Minutes, DurationMinutes                                     int
			Allow, AllowWindow                                           *bool
			Now                                                          time.Time
			Nows                                                         []time.Time
		}
		Expected struct {
			Decision, Error string
			Next            time.Time
			Inside          []bool
			Interval        []time.Time
		}
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 21 {
		t.Fatalf("%d cases, want 21", len(cases))
	}
	for _, row := range cases {
		t.Run(row.ID, func(t *testing.T) {
			in, want := row.Input, row.Expected
			w := clock.Window{RRule: in.RRule, Anchor: in.Anchor, Timezone: clock.Zone(in.Timezone), Gap: clock.Gap(in.Gap), Overlap: clock.Overlap(in.Overlap)}
			w.DurationMinutes = clock.Minutes(in.Minutes + in.DurationMinutes)
			w.AllowWindow = in.AllowWindow
			if in.Allow != nil {
				w.AllowWindow = in.Allow
			}
			if hour, ok := strings.CutPrefix(in.Rule, "daily "); ok {
				w.RRule = "FREQ=DAILY;BYHOUR=" + strings.TrimPrefix(strings.TrimSuffix(hour, ":00"), "0")
			}
			if row.Area == "window.zone" {
				day, err := time.Parse(time.DateOnly, in.Day)
				if err != nil {
					t.Fatal(err)
				}
				w.Weekly = &clock.Weekly{Days: []string{strings.ToLower(day.Weekday().String()[:3])}, Start: in.Start, End: in.End}
				c, from, to := calendar(t, w), day.Add(-72*time.Hour), day.Add(72*time.Hour)
				got := intervals(c, from, to)
				if !*in.AllowWindow {
					got = complement(c, from, to)
				}
				expected := []string{}
				if want.Interval != nil {
					expected = append(expected, want.Interval[0].Format(time.RFC3339)+" "+want.Interval[1].Format(time.RFC3339))
				}
				if diff := cmp.Diff(expected, got); diff != "" {
					t.Errorf("want -, got +\n%s", diff)
				}
				return
			}
			if want.Error != "" {
				w.DurationMinutes = 60
				var bad *clock.FieldError
				if err := w.Validate(); !errors.As(err, &bad) || bad.Path != want.Error {
					t.Errorf("Validate() = %v, want an error at %s", err, want.Error)
				}
				return
			}
			c := calendar(t, w)
			for i, now := range in.Nows {
				if got := c.Open(now); got != want.Inside[i] {
					t.Errorf("Open(%v) = %v", now, got)
				}
			}
			if in.Nows != nil {
				return
			}
			next := c.NextClose(in.Now)
			if want.Decision == "wait" {
				if next, err = c.NextOpen(in.Now); err != nil {
					t.Fatal(err)
				}
			}
			if c.Open(in.Now) != (want.Decision == "allow") || !next.Equal(want.Next) {
				t.Errorf("open %v, next %v; want %s, next %v", c.Open(in.Now), next, want.Decision, want.Next)
			}
		})
	}
}

const everyDay = `"days":["mon","tue","wed","thu","fri","sat","sun"]`

func daily(start, end string) string {
	return fmt.Sprintf(`{"weekly":{%s,"start":%q,"end":%q}}`, everyDay, start, end)
}

func dailyDeny(start, end string) string {
	return fmt.Sprintf(`{"allowWindow":false,"weekly":{%s,"start":%q,"end":%q}}`, everyDay, start, end)
}

// All on Monday 2025-01-06, in UTC.
func TestQuestions(t *testing.T) {
	monday := func(clock string) time.Time { return at("2025-01-06T" + clock + "Z") }
	tuesday := func(clock string) time.Time { return at("2025-01-07T" + clock + "Z") }
	office := []string{daily("09:00", "17:00")}
	hourly := []string{`{"allowWindow":false,"durationMinutes":90,"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23"}`}
	open := func(t time.Time) func(clock.Calendar) (time.Time, error) {
		return func(c clock.Calendar) (time.Time, error) { return c.NextOpen(t) }
	}
	closes := func(t time.Time) func(clock.Calendar) (time.Time, error) {
		return func(c clock.Calendar) (time.Time, error) { return c.NextClose(t), nil }
	}
	add := func(t time.Time, d time.Duration) func(clock.Calendar) (time.Time, error) {
		return func(c clock.Calendar) (time.Time, error) {
			u, err := c.AddOpen(t, d)
			walk := c.Walk(t)
			for _, again := range []time.Duration{0, d, d} { // a walk says the same, also when it was elsewhere before
				if again > d {
					continue
				}
				v, walkErr := walk.AddOpen(again)
				if again == d && (!v.Equal(u) || (walkErr == nil) != (err == nil)) {
					return v, fmt.Errorf("the walk says %v, %v, AddOpen %v, %v", v, walkErr, u, err)
				}
			}
			return u, err
		}
	}
	fit := func(t time.Time, d time.Duration) func(clock.Calendar) (time.Time, error) {
		return func(c clock.Calendar) (time.Time, error) { return c.NextFit(t, d) }
	}
	check := unique(t)
	for _, row := range []struct {
		name    string
		windows []string
		ask     func(clock.Calendar) (time.Time, error)
		want    time.Time
		err     error
		why     string
	}{
		{"NextOpen, touching denials", []string{dailyDeny("10:00", "12:00"), dailyDeny("12:00", "14:00")}, open(monday("11:00:00")), monday("14:00:00"), nil, "leaving one denial into another is not enough"},
		{"NextOpen, denied opening", []string{daily("09:00", "17:00"), dailyDeny("09:00", "11:00")}, open(monday("00:00:00")), monday("11:00:00"), nil, "the start of an allow window inside a denial is no opening"},
		{"NextOpen, open", office, open(monday("09:00:00")), monday("09:00:00"), nil, "the start is open"},
		{"NextOpen, at the end", office, open(monday("17:00:00")), tuesday("09:00:00"), nil, "the end is closed"},
		{"NextOpen, a breath before", office, open(monday("08:59:59.999999999")), monday("09:00:00"), nil, "no tolerance"},
		{"NextOpen, hourly denial", hourly, open(monday("03:33:00")), time.Time{}, clock.ErrNeverOpen, "denials of 90 minutes every hour leave nothing"},
		{"NextOpen, past one-off", []string{`{"from":"2024-01-01T00:00:00Z","until":"2024-02-01T00:00:00Z"}`}, open(monday("00:00:00")), time.Time{}, clock.ErrNeverOpen, "there is no further opening at all"},
		{"NextOpen, beyond the horizon", []string{`{"from":"2031-01-01T00:00:00Z","until":"2031-02-01T00:00:00Z"}`}, open(monday("00:00:00")), time.Time{}, clock.ErrNeverOpen, "six years are more than five"},
		{"NextOpen, within the horizon", []string{`{"from":"2030-01-06T00:00:00Z","until":"2031-02-01T00:00:00Z"}`}, open(monday("00:00:00")), at("2030-01-06T00:00:00Z"), nil, "five years to the day"},
		{"NextClose", office, closes(monday("12:00:00")), monday("17:00:00"), nil, "the end"},
		{"NextClose, closed", office, closes(monday("08:00:00")), monday("08:00:00"), nil, "closed already"},
		{"NextClose, no windows", nil, closes(monday("08:00:00")), time.Time{}, nil, "always open"},
		{"NextClose, touching", []string{daily("22:00", "24:00"), daily("00:00", "02:00")}, closes(monday("23:00:00")), tuesday("02:00:00"), nil, "midnight is no closing"},
		{"NextClose, always covered", []string{daily("00:00", "12:00"), daily("12:00", "24:00")}, closes(monday("23:00:00")), time.Time{}, nil, "nothing closed within the horizon"},
		{"AddOpen, 5 min", office, add(monday("16:50:00"), 5*time.Minute), monday("16:55:00"), nil, "inside"},
		{"AddOpen, 10 min", office, add(monday("16:50:00"), 10*time.Minute), tuesday("09:00:00"), nil, "exactly used up at the closing"},
		{"AddOpen, 15 min", office, add(monday("16:50:00"), 15*time.Minute), tuesday("09:05:00"), nil, "not everybody starts at the opening"},
		{"AddOpen, 0", office, add(monday("18:00:00"), 0), tuesday("09:00:00"), nil, "NextOpen"},
		{"AddOpen, never", hourly, add(monday("00:00:00"), time.Second), time.Time{}, clock.ErrNeverOpen, "no open time"},
		{"AddOpen, 6 years of always", nil, add(monday("00:00:00"), 6*366*24*time.Hour), time.Time{}, clock.ErrNeverOpen, "beyond the horizon"},
		{"AddOpen, the greatest duration", nil, add(monday("00:00:00"), 1<<63-1), time.Time{}, clock.ErrNeverOpen, "no overflow"},
		{"NextFit", office, fit(monday("16:00:00"), 2*time.Hour), tuesday("09:00:00"), nil, "one hour is left today"},
		{"NextFit, exactly", office, fit(monday("16:00:00"), time.Hour), monday("16:00:00"), nil, "the end is not needed"},
		{"NextFit, too long", office, fit(monday("16:00:00"), 8*time.Hour+1), time.Time{}, clock.ErrNeverFits, "no window is so long"},
		{"NextFit, touching", []string{daily("22:00", "24:00"), daily("00:00", "02:00")}, fit(monday("03:00:00"), 4*time.Hour), monday("22:00:00"), nil, "two windows that touch are one stretch"},
		{"NextFit, 0", office, fit(monday("18:00:00"), 0), tuesday("09:00:00"), nil, "a start needs an open instant, however short"},
		{"NextFit, past the horizon", nil, fit(monday("18:00:00"), 1<<63-1), monday("18:00:00"), nil, "only the begin lies within the horizon"},
		{"second Monday", []string{`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO","anchor":"2025-01-06T09:00","durationMinutes":60}`}, open(monday("10:00:00")), at("2025-01-20T09:00:00Z"), nil, "the 13th is not counted"},
		{"second Sunday", []string{`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,WE","anchor":"2025-01-06T09:00","durationMinutes":60}`}, open(at("2025-01-12T10:00:00Z")), at("2025-01-22T09:00:00Z"), nil, "after the last day of a week that counts comes one that does not: the 15th is not counted"},
		{"daily at the anchor's hour", []string{`{"rrule":"FREQ=DAILY","anchor":"2020-02-02T09:30:15","durationMinutes":60}`}, open(monday("10:30:15")), at("2025-01-07T09:30:15Z"), nil, "no part of the time is given"},
		{"daily at the anchor's hour, which is almost over", []string{`{"rrule":"FREQ=DAILY","anchor":"2020-02-02T09:59:59","durationMinutes":60}`}, open(monday("11:00:00")), at("2025-01-07T09:59:59Z"), nil, "each part is the anchor's own, none is rounded"},
		{"weekly on the anchor's day", []string{`{"rrule":"FREQ=WEEKLY;BYHOUR=4","anchor":"2020-02-02T09:30","durationMinutes":60}`}, open(monday("00:00:00")), at("2025-01-12T04:30:00Z"), nil, "a Sunday, and the anchor's minute"},
		{"hour without anchor", []string{`{"rrule":"freq=daily;byhour=4","durationMinutes":60}`}, open(monday("00:00:00")), monday("04:00:00"), nil, "minute and second are 0; case means nothing"},
		{"every third day", []string{`{"rrule":"FREQ=DAILY;INTERVAL=3;BYDAY=MO,TU;BYHOUR=1","anchor":"2025-01-05T00:00","durationMinutes":60}`}, open(monday("00:00:00")), at("2025-01-14T01:00:00Z"), nil, "5, 8, 11, 14: the first Monday or Tuesday"},
		{"before the anchor", []string{`{"weekly":{"days":["mon"],"start":"09:00","end":"10:00","everyWeeks":2},"anchor":"2025-03-03T00:00"}`}, open(monday("00:00:00")), monday("09:00:00"), nil, "eight weeks earlier is in phase"},
		{"an instant as anchor", []string{`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYHOUR=3","anchor":"2025-01-05T23:00:00Z","timezone":"Asia/Tokyo","durationMinutes":60}`}, open(monday("00:00:00")), at("2025-01-19T18:00:00Z"), nil, "in Tokyo the anchor is a Monday: 01-06 and 01-20"},
		{"long occurrences overlap", []string{`{"rrule":"FREQ=DAILY;BYHOUR=0","durationMinutes":4000}`}, closes(monday("00:00:00")), time.Time{}, nil, "each is continued by the next"},
		{"a start left out last Sunday", []string{`{"weekly":{"days":["sun"],"start":"02:30"},"durationMinutes":10080,"gap":"skip","timezone":"Europe/Berlin"}`}, open(at("2026-04-03T12:00:00Z")), at("2026-04-05T00:30:00Z"), nil, "far from the change, the last start is still the skipped one"},
		{"and the one before still under way", []string{`{"weekly":{"days":["sun"],"start":"02:30"},"durationMinutes":18720,"gap":"skip","timezone":"Europe/Berlin"}`}, closes(at("2026-04-03T12:00:00Z")), at("2026-04-04T01:30:00Z"), nil, "far from the change, 13 days from the Sunday before the skipped one"},
		{"every minute of a gap left out", []string{`{"rrule":"FREQ=DAILY;BYHOUR=1,2;BYMINUTE=` + each(0, 1, 60) + `","durationMinutes":125,"gap":"skip","timezone":"Europe/Berlin"}`}, closes(at("2026-03-29T01:30:00Z")), at("2026-03-29T03:04:00Z"), nil, "the last start is that of 01:59, before all that the gap drops"},
		{"every minute of a day left out", []string{`{"rrule":"FREQ=DAILY;BYHOUR=2;BYMINUTE=` + each(0, 1, 60) + `","durationMinutes":1500,"gap":"skip","timezone":"Europe/Berlin"}`}, closes(at("2026-03-29T01:30:00Z")), at("2026-03-29T02:59:00Z"), nil, "the last start is that of 02:59 on the day before"},
		{"NextClose, year 10000", nil, closes(at("9999-12-31T23:59:59Z").Add(time.Second)), at("9999-12-31T23:59:59Z").Add(time.Second), nil, "closed there"},
		{"NextClose, up to the year 10000", nil, closes(at("9999-12-31T23:59:59Z")), time.Time{}, nil, "no search looks there, closed though it is"},
		{"AddOpen, into the year 10000", nil, add(at("9999-12-31T23:59:59Z"), time.Second), time.Time{}, clock.ErrNeverOpen, "nor for the end of open time"},
		{"AddOpen, the last instant", nil, add(at("9999-12-31T23:59:59Z"), time.Second-1), at("9999-12-31T23:59:59.999999999Z"), nil, "which is one of the year 9999"},
		{"more windows than a question keeps at hand", slices.Repeat([]string{daily("09:00", "10:00"), daily("11:00", "12:00"), dailyDeny("09:30", "10:00")}, 4), add(monday("00:00:00"), 45*time.Minute), monday("11:15:00"), nil, "twelve"},
		{"year 1", office, open(time.Time{}), time.Time{}.Add(9 * time.Hour), nil, "the zero time is an instant like others"},
		{"AddOpen, year 10000", nil, add(at("9999-12-31T23:59:59Z").Add(time.Second), 0), time.Time{}, clock.ErrNeverOpen, "nothing is open there, not even for a moment"},
		{"year 10000", nil, open(at("9999-12-31T23:59:59Z").Add(time.Second)), time.Time{}, clock.ErrNeverOpen, "no instant that calendars know"},
		{"year 0", nil, open(time.Time{}.Add(-time.Hour)), time.Time{}, nil, "closed before year 1, open from then on"},
		{"NextFit, into the year 10000", []string{`{"rrule":"FREQ=DAILY;BYHOUR=0","durationMinutes":4000}`}, fit(at("9999-12-31T12:00:00Z"), 12*time.Hour+1), time.Time{}, clock.ErrNeverFits, "a window does not lead beyond what calendars know"},
		{"NextFit, up to the year 10000", []string{`{"rrule":"FREQ=DAILY;BYHOUR=0","durationMinutes":4000}`}, fit(at("9999-12-31T12:00:00Z"), 12*time.Hour), at("9999-12-31T12:00:00Z"), nil, "but up to it"},
		{"where a table of changes ends", []string{`{"rrule":"FREQ=DAILY;BYHOUR=1","durationMinutes":30,"timezone":"Europe/Berlin"}`}, open(at("2070-01-01T00:00:00Z")), at("2070-01-01T00:00:00Z"), nil, "the first instant beyond it is no part of its last piece"},
		{"where a table of changes begins", []string{`{"rrule":"FREQ=DAILY;BYHOUR=1","durationMinutes":30,"timezone":"Europe/Berlin"}`}, open(at("1999-07-01T12:00:00Z")), at("1999-07-01T23:00:00Z"), nil, "what is before it is no part of its first piece, which is in winter"},
		{"NextFit, year 0", nil, fit(time.Time{}.Add(-time.Hour), time.Hour), time.Time{}, nil, "calendars know no time before year 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check(row.name, row.why)
			got, err := row.ask(parsed(t, row.windows...))
			if !errors.Is(err, row.err) || (err == nil) != (row.err == nil) || !got.Equal(row.want) {
				t.Errorf("got %v, %v; want %v, %v: %s", got, err, row.want, row.err, row.why)
			}
			if got.Location() != time.UTC {
				t.Errorf("the result is in %v, not UTC", got.Location())
			}
		})
	}
}

func TestOpen(t *testing.T) {
	check := unique(t)
	biweekly := `{"rrule":"FREQ=WEEKLY;INTERVAL=2","anchor":"2025-01-06T09:00","durationMinutes":60}`
	for _, row := range []struct {
		name    string
		windows []string
		at      string
		want    bool
		why     string
	}{
		{"union, inside one", []string{daily("09:00", "12:00"), daily("14:00", "17:00")}, "2025-01-06T15:00:00Z", true, "allow windows are united, not intersected"},
		{"union, between", []string{daily("09:00", "12:00"), daily("14:00", "17:00")}, "2025-01-06T13:00:00Z", false, "inside none"},
		{"first pass of a start that means the second", []string{`{"weekly":{"days":["sat"],"start":"23:30"},"durationMinutes":60,"overlap":"last","timezone":"America/Sao_Paulo"}`}, "2018-02-18T01:45:00Z", false, "23:45 on Saturday, but not the one that is meant; in UTC the change is on Sunday"},
		{"half a second early", []string{daily("09:00", "17:00")}, "2025-01-06T08:59:59.5Z", false, "a window does not open early"},
		{"start", []string{daily("09:00", "17:00")}, "2025-01-06T09:00:00Z", true, "the exact start is open"},
		{"start of a denial", []string{dailyDeny("09:00", "17:00")}, "2025-01-06T09:00:00Z", false, "the exact start is closed"},
		{"last instant", []string{daily("09:00", "17:00")}, "2025-01-06T16:59:59.999999999Z", true, "open until just before the end"},
		{"week 1", []string{biweekly}, "2025-01-06T09:30:00Z", true, "the anchor's week"},
		{"week 2", []string{biweekly}, "2025-01-13T09:30:00Z", false, "out of phase"},
		{"week 3", []string{biweekly}, "2025-01-20T09:30:00Z", true, "in phase, whatever now is"},
		{"friday night, Saturday 02:00", []string{`{"weekly":{"days":["fri"],"start":"22:00","end":"04:00"},"timezone":"Europe/Berlin"}`}, "2026-06-06T00:00:00Z", true, "the night belongs to Friday"},
		{"friday night, Friday 02:00", []string{`{"weekly":{"days":["fri"],"start":"22:00","end":"04:00"},"timezone":"Europe/Berlin"}`}, "2026-06-05T00:00:00Z", false, "that night began on Thursday"},
		{"local weekday", []string{`{"weekly":{"days":["mon"],"start":"00:00","end":"24:00"},"timezone":"Pacific/Auckland"}`}, "2026-06-07T13:00:00Z", true, "Monday in Auckland, Sunday in UTC"},
		{"end", []string{daily("09:00", "17:00")}, "2025-01-06T17:00:00Z", false, "the exact end is closed"},
		{"one-off, start", []string{`{"from":"2025-01-06T00:00:00.5Z","until":"2025-01-07T00:00:00+01:00"}`}, "2025-01-06T00:00:00.5Z", true, "the exact start is open, to the fraction"},
		{"one-off, before", []string{`{"from":"2025-01-06T00:00:00.5Z","until":"2025-01-07T00:00:00+01:00"}`}, "2025-01-06T00:00:00.499999999Z", false, "a breath early"},
		{"one-off, end", []string{`{"from":"2025-01-06T00:00:00.5Z","until":"2025-01-07T00:00:00+01:00"}`}, "2025-01-06T23:00:00Z", false, "the exact end is closed"},
		{"freeze", []string{`{"from":"2025-01-06T00:00:00Z","until":"2025-01-07T00:00:00Z","allowWindow":false}`}, "2025-01-05T00:00:00Z", true, "a calendar of denials only is open outside"},
		{"shown again in the far east", []string{`{"weekly":{"days":["sun"],"start":"03:30"},"durationMinutes":60,"timezone":"Pacific/Apia"}`}, "2021-04-03T14:10:00Z", true, "03:10 for the second time: the clock was set back at 04:00, half an hour after the start"},
		{"no windows", nil, "2025-01-05T00:00:00Z", true, "always open"},
		{"seconds", []string{`{"rrule":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0,30;BYSECOND=15","durationMinutes":1}`}, "2025-01-05T09:31:14Z", true, "until 09:31:15"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check(row.name, row.why)
			if got := parsed(t, row.windows...).Open(at(row.at)); got != row.want {
				t.Errorf("Open(%s) = %v: %s", row.at, got, row.why)
			}
		})
	}
	if !(clock.Calendar{}).Open(time.Time{}) || !(clock.Calendar{}).Open(at("9999-12-31T23:59:59.999999999Z")) {
		t.Error("closed within the years 1 to 9999")
	}
	if (clock.Calendar{}).Open(time.Time{}.Add(-1)) || (clock.Calendar{}).Open(at("9999-12-31T23:59:59Z").Add(time.Second)) {
		t.Error("open outside the years 1 to 9999")
	}
}

func TestIntervalsAreJoined(t *testing.T) {
	c := parsed(t, daily("22:00", "24:00"), daily("00:00", "02:00"))
	want := []string{"2025-01-06T00:00:00Z 2025-01-06T02:00:00Z", "2025-01-06T22:00:00Z 2025-01-07T02:00:00Z", "2025-01-07T22:00:00Z 2025-01-07T23:00:00Z"}
	if diff := cmp.Diff(want, intervals(c, at("2025-01-06T00:00:00Z"), at("2025-01-07T23:00:00Z"))); diff != "" {
		t.Errorf("windows that touch at midnight are one interval, cut at the ends of the range: want -, got +\n%s", diff)
	}
	for start := range c.Intervals(at("2025-01-06T12:00:00Z"), at("2026-01-06T12:00:00Z")) {
		if !start.Equal(at("2025-01-06T22:00:00Z")) {
			t.Error("the sequence goes on after the loop has ended")
		}
		break
	}
	if got := intervals(c, at("2025-01-06T12:00:00Z"), at("2025-01-06T11:00:00Z")); len(got) != 0 {
		t.Errorf("a range that ends before it begins holds %v", got)
	}
	if got := intervals(clock.Calendar{}, time.Time{}.AddDate(-5, 0, 0), time.Time{}.AddDate(12000, 0, 0)); !slices.Equal(got, []string{"0001-01-01T00:00:00Z 10000-01-01T00:00:00Z"}) {
		t.Errorf("the years that calendars know are %v", got)
	}
}

func TestOpenBetween(t *testing.T) {
	c := parsed(t, daily("09:00", "17:00"))
	for _, row := range []struct {
		a, b string
		want time.Duration
		why  string
	}{
		{"2025-01-06T00:00:00Z", "2025-01-07T00:00:00Z", 8 * time.Hour, "a day"},
		{"2025-01-06T16:00:00Z", "2025-01-07T10:00:00Z", 2 * time.Hour, "parts of two days"},
		{"2025-01-06T16:00:00Z", "2025-01-06T16:00:00.000000001Z", 1, "a nanosecond"},
		{"2025-01-06T16:00:00Z", "2025-01-06T10:00:00Z", 0, "the wrong way round there is nothing"},
		{"2025-01-06T00:00:00Z", "2035-01-06T00:00:00Z", 3652 * 8 * time.Hour, "longer than the horizon"},
	} {
		if got, err := c.OpenBetween(at(row.a), at(row.b)); got != row.want || err != nil {
			t.Errorf("OpenBetween(%s, %s) = %v, %v, want %v: %s", row.a, row.b, got, err, row.want, row.why)
		}
	}
	var bad *clock.FieldError
	longest := at("2025-01-06T00:00:00Z").Add(math.MaxInt64) // the greatest Duration is one, and not yet an overflow
	if got, err := (clock.Calendar{}).OpenBetween(at("2025-01-06T00:00:00Z"), longest); got != math.MaxInt64 || err != nil {
		t.Errorf("OpenBetween over the longest range = %v, %v", got, err)
	}
	if got, err := (clock.Calendar{}).OpenBetween(at("2025-01-06T00:00:00Z"), longest.Add(1)); got != 0 || !errors.As(err, &bad) {
		t.Errorf("OpenBetween over more than the longest range = %v, %v", got, err)
	}
	if got, err := (clock.Calendar{}).OpenBetween(time.Time{}, at("2025-01-06T00:00:00Z")); got != 0 || !errors.As(err, &bad) || bad.Code != clock.CodeDurationInvalid {
		t.Errorf("2024 years are %v, %v: a sum that no Duration holds must be an error", got, err)
	}
	frozen := parsed(t, `{"from":"1000-01-01T00:00:00Z","until":"1000-01-01T01:00:00Z","allowWindow":false}`,
		`{"from":"1000-01-01T02:00:00Z","until":"1000-01-01T03:00:00Z","allowWindow":false}`, `{"from":"9000-01-01T00:00:00Z","until":"9000-01-01T01:00:00Z","allowWindow":false}`)
	if got, err := frozen.OpenBetween(time.Time{}, at("9000-01-01T02:00:00Z")); got != 0 || !errors.As(err, &bad) {
		t.Errorf("999 years, an hour, 8000 years and an hour are %v, %v: what overflows twice is small again", got, err)
	}
	half := parsed(t, `{"weekly":{`+everyDay+`,"start":"00:00","end":"12:00"}}`)
	if got, err := half.OpenBetween(at("1000-01-01T00:00:00Z"), at("1700-01-01T00:00:00Z")); got != 0 || !errors.As(err, &bad) {
		t.Errorf("350 years in pieces are %v, %v", got, err)
	}
}

func TestNegativeDurations(t *testing.T) {
	var c clock.Calendar
	now := at("2025-01-06T00:00:00Z")
	_, add := c.AddOpen(now, -1)
	_, walk := c.Walk(now).AddOpen(-1)
	_, fit := c.NextFit(now, -1)
	for _, err := range []error{add, walk, fit} {
		var bad *clock.FieldError
		if !errors.As(err, &bad) || bad.Code != clock.CodeDurationInvalid || bad.Path != "d" || bad.Value != "-1ns" {
			t.Errorf("a negative duration gives %v", err)
		}
	}
}

func TestHorizon(t *testing.T) {
	c := parsed(t, `{"from":"2025-01-06T12:00:00Z","until":"2025-01-06T13:00:00Z"}`)
	now := at("2025-01-06T00:00:00Z")
	for _, row := range []struct {
		horizon time.Duration
		opens   bool
		why     string
	}{
		{12 * time.Hour, false, "the horizon itself is not looked at"},
		{12*time.Hour + 1, true, "just within"},
		{0, true, "the default"},
		{-1, true, "the default"},
	} {
		_, err := c.WithHorizon(row.horizon).NextOpen(now)
		_, fits := c.WithHorizon(row.horizon).NextFit(now, time.Hour)
		if errors.Is(err, clock.ErrNeverOpen) == row.opens || errors.Is(fits, clock.ErrNeverFits) == row.opens {
			t.Errorf("horizon %v: %v, %v: %s", row.horizon, err, fits, row.why)
		}
	}
	closing := at("2025-01-06T12:30:00Z")
	if got := c.WithHorizon(30 * time.Minute).NextClose(closing); !got.IsZero() {
		t.Errorf("NextClose = %v, at the horizon", got)
	}
	if got := c.WithHorizon(30*time.Minute + 1).NextClose(closing); !got.Equal(at("2025-01-06T13:00:00Z")) {
		t.Errorf("NextClose = %v, within the horizon", got)
	}
	if u, err := c.WithHorizon(30*time.Minute).AddOpen(closing, 30*time.Minute-1); err != nil || !u.Equal(at("2025-01-06T12:59:59.999999999Z")) {
		t.Errorf("AddOpen = %v, %v, within the horizon", u, err)
	}
	if both := clock.Intersect(c.WithHorizon(time.Hour), c.WithHorizon(13*time.Hour)); !both.Open(closing) {
		t.Error("an intersection with itself is closed")
	} else if _, err := both.NextOpen(now); err != nil {
		t.Errorf("the longer horizon counts: %v", err)
	}
	if _, err := clock.Intersect(c.WithHorizon(13*time.Hour), c.WithHorizon(time.Hour)).NextOpen(now); err != nil {
		t.Errorf("whichever it is: %v", err)
	}
	if _, err := clock.Intersect(c.WithHorizon(time.Hour), clock.Calendar{}).NextOpen(now); err != nil {
		t.Errorf("and be it the default: %v", err)
	}
	if _, err := clock.Intersect(c.WithHorizon(2*time.Hour), c.WithHorizon(time.Hour)).NextOpen(now); !errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("but no search goes beyond the longer one: %v", err)
	}
	two := parsed(t, `{"from":"2025-01-06T12:00:00Z","until":"2025-01-06T13:00:00Z"}`, `{"from":"2025-01-06T13:00:00Z","until":"2025-01-06T14:00:00Z"}`)
	if u, err := two.WithHorizon(12*time.Hour+1).NextFit(now, 2*time.Hour); err != nil || !u.Equal(at("2025-01-06T12:00:00Z")) {
		t.Errorf("NextFit = %v, %v: what fits begins within the horizon, and need not end there", u, err)
	}
}

// TestAnswersAreInUTC: whatever zone the question and the windows are in, and without the reading
// of a monotonic clock, which would make two equal instants differ.
func TestAnswersAreInUTC(t *testing.T) {
	const length = 2 * time.Hour
	east, host := time.FixedZone("east", 3600), time.Now()
	for name, from := range map[string]time.Time{"a zone": at("2025-01-06T12:00:00Z").In(east), "a clock of the host": host} {
		second := from.Add(90 * time.Minute) // begins in the first occurrence, and ends last
		overlapping := calendar(t, clock.Window{DurationMinutes: 120, Recurrence: next(func(t time.Time) time.Time {
			for _, start := range []time.Time{from, second} {
				if t.Before(start) {
					return start
				}
			}
			return time.Time{}
		})})
		if got, want := overlapping.NextClose(second.Add(time.Minute)), second.Add(length).Round(0).UTC(); got != want {
			t.Errorf("%s, occurrences that overlap: closed at %v, want %v", name, got, want)
		}
		once := clock.Window{From: from, Until: from.Add(length)}
		hosted := clock.Window{DurationMinutes: 120, Recurrence: next(func(t time.Time) time.Time {
			if t.Before(from) {
				return from
			}
			return time.Time{}
		})}
		for shape, w := range map[string]clock.Window{"from and until": once, "a recurrence": hosted} {
			c := calendar(t, w)
			ask := func(what string, got time.Time, err error, want time.Time) {
				t.Helper()
				if err != nil || got != want.Round(0).UTC() { // not Equal: the zone and the reading count
					t.Errorf("%s, %s, %s: got %v, %v, want %v", name, shape, what, got, err, want.Round(0).UTC())
				}
			}
			for _, now := range []time.Time{from.Add(-time.Hour), from.Add(time.Minute)} {
				first := now
				if now.Before(from) {
					first = from
				}
				u, err := c.NextOpen(now)
				ask("NextOpen", u, err, first)
				u, err = c.AddOpen(now, time.Minute)
				ask("AddOpen", u, err, first.Add(time.Minute))
				u, err = c.Walk(now).AddOpen(time.Minute)
				ask("Walk", u, err, first.Add(time.Minute))
				u, err = c.NextFit(now, time.Hour)
				ask("NextFit", u, err, first)
				ask("NextClose", c.NextClose(first), nil, from.Add(length))
				for start, end := range c.Intervals(now, now.Add(90*time.Minute)) {
					ask("the start of an interval", start, nil, first)
					if now.Before(from) {
						ask("the end of an interval", end, nil, now.Add(90*time.Minute))
					}
				}
			}
			ask("NextClose of what is closed", c.NextClose(from.Add(-time.Hour)), nil, from.Add(-time.Hour))
		}
	}
	outside := time.Date(10000, 1, 1, 0, 0, 0, 0, east).AddDate(0, 0, 2)
	if got := (clock.Calendar{}).NextClose(outside); got != outside.UTC() {
		t.Errorf("NextClose in the year 10000: %v", got)
	}
}

func TestIntersect(t *testing.T) {
	office, lunch := parsed(t, daily("09:00", "17:00")), parsed(t, daily("12:00", "13:00"), daily("16:00", "19:00"))
	both := clock.Intersect(office, lunch)
	want := []string{"2025-01-06T12:00:00Z 2025-01-06T13:00:00Z", "2025-01-06T16:00:00Z 2025-01-06T17:00:00Z"}
	if diff := cmp.Diff(want, intervals(both, at("2025-01-06T00:00:00Z"), at("2025-01-07T00:00:00Z"))); diff != "" {
		t.Errorf("want -, got +\n%s", diff)
	}
	if !clock.Intersect().Open(at("2025-01-06T00:00:00Z")) || !clock.Intersect(clock.Calendar{}, office).Open(at("2025-01-06T10:00:00Z")) {
		t.Error("an intersection with nothing is not the thing itself")
	}
	never := clock.Intersect(parsed(t, daily("09:00", "10:00")), parsed(t, daily("10:00", "11:00")))
	if _, err := never.NextOpen(at("2025-01-06T00:00:00Z")); !errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("windows that only touch have no instant in common: %v", err)
	}
}

func TestZonesAreLoadedOnce(t *testing.T) {
	calls := map[string]int{}
	load := func(name string) (*time.Location, error) {
		calls[name]++
		return time.LoadLocation(name)
	}
	berlin := parse(t, `{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"timezone":"Europe/Berlin"}`)
	utc := parse(t, daily("09:00", "10:00"))
	c, err := clock.NewCalendar([]clock.Window{berlin, utc, berlin}, load)
	if err != nil || !cmp.Equal(calls, map[string]int{"Europe/Berlin": 1}) {
		t.Fatalf("calls %v, %v", calls, err)
	}
	for range 3 {
		c.Open(at("2099-01-05T08:30:00Z"))
	}
	if !cmp.Equal(calls, map[string]int{"Europe/Berlin": 1}) {
		t.Errorf("a question loads a zone: %v", calls)
	}
	// What the host does with its windows afterwards is its own business.
	*berlin.Weekly = clock.Weekly{}
	if !c.Open(at("2025-01-06T08:30:00Z")) {
		t.Error("the calendar has kept the host's window")
	}
}
