package clock_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/clock"
)

// codes fails unless every error of the tree is a *FieldError with a known code.
func codes(t *testing.T, err error) {
	t.Helper()
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range list.Unwrap() {
			codes(t, one)
		}
		return
	}
	var bad *clock.FieldError
	if !errors.As(err, &bad) || bad.Hint == "" {
		t.Fatalf("%v is no *FieldError", err)
	}
	switch bad.Code {
	case clock.CodeTimezoneUnknown, clock.CodeTimeInvalid, clock.CodeDayInvalid, clock.CodeDurationInvalid, clock.CodeAnchorRequired,
		clock.CodeRecurrenceUnsupported, clock.CodeRecurrenceInvalid, clock.CodeEmptyWindow,
		clock.CodeSyntax, clock.CodeUnknownField, clock.CodeDuplicate, clock.CodeType:
	default:
		t.Fatalf("%v has the code %q", err, bad.Code)
	}
}

func FuzzWindowJSON(f *testing.F) {
	for _, seed := range []string{
		daily("09:00", "17:00"), dailyDeny("22:00", "04:00:30"), `{}`, `null`, `{"weekly":null}`, `{"durationMinutes":0}`,
		`{"weekly":{"days":["fri"],"start":"22:00","everyWeeks":2},"durationMinutes":360,"timezone":"Europe/Berlin","anchor":"2025-01-06T09:00","gap":"skip","overlap":"last"}`,
		`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH;BYHOUR=9,17;BYMINUTE=30;WKST=MO","durationMinutes":90,"anchor":"2025-01-06T09:00:00+01:00"}`,
		`{"rrule":"FREQ=DAILY;INTERVAL=1000000","durationMinutes":153722867,"anchor":"9999-12-31T23:59"}`,
		`{"from":"2026-12-20T00:00:00.5+14:00","until":"2027-01-05T00:00:00Z","allowWindow":false,"timezone":"Asia/Tokyo"}`,
	} {
		f.Add([]byte(seed))
	}
	now := at("2026-03-28T23:30:00Z")
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := clock.ParseWindow(data)
		if err != nil {
			codes(t, err)
			return
		}
		again, err := json.Marshal(w)
		if err != nil {
			t.Fatalf("%s is a window that cannot be written: %v", data, err)
		}
		once, err := clock.ParseWindow(again)
		if err != nil || !cmp.Equal(w, once) {
			t.Fatalf("%s became %s: %v", data, again, err)
		}
		c, err := clock.NewCalendar([]clock.Window{w}, func(string) (*time.Location, error) { return time.LoadLocation("Europe/Berlin") })
		if err != nil {
			codes(t, err)
			return
		}
		// What is valid can be asked.
		c = c.WithHorizon(40 * 24 * time.Hour)
		open := c.Open(now)
		u, err := c.NextOpen(now)
		if open != (err == nil && u.Equal(now)) || err == nil && !c.Open(u) || err != nil && !errors.Is(err, clock.ErrNeverOpen) {
			t.Fatalf("%s: Open = %v, NextOpen = %v, %v", data, open, u, err)
		}
		if v := c.NextClose(now); v.Equal(now) == open || !v.IsZero() && c.Open(v) {
			t.Fatalf("%s: Open = %v, NextClose = %v", data, open, v)
		}
	})
}

func FuzzParseRecurrence(f *testing.F) {
	for _, seed := range []string{
		"FREQ=DAILY;BYHOUR=9", "freq=weekly;interval=2;byday=mo,tu", "FREQ=WEEKLY;BYDAY=-1MO", "FREQ=MONTHLY", "FREQ=MONTHLY;BYDAY=2TU,-1FR;BYHOUR=22", "freq=monthly;interval=3;bymonthday=1,-1;byday=mo", "RRULE:FREQ=DAILY", ";", "=", "FREQ=DAILY;BYHOUR=",
		"FREQ=DAILY;BYHOUR=0,0,23;BYMINUTE=59;BYSECOND=0;WKST=MO", "BYDAY=ſU", "FREQ=DAILY;INTERVAL=18446744073709551616",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		err := clock.ParseRecurrence(text)
		if err != nil {
			codes(t, err)
			return
		}
		// What is accepted consists of the parts of the subset, each once, and means the same in
		// any order.
		parts := strings.Split(strings.ToUpper(text), ";")
		names := map[string]bool{}
		for _, part := range parts {
			name, _, _ := strings.Cut(part, "=")
			if !strings.Contains(" FREQ INTERVAL BYDAY BYMONTHDAY BYHOUR BYMINUTE BYSECOND WKST ", " "+name+" ") || names[name] {
				t.Fatalf("%q is accepted with %q", text, part)
			}
			names[name] = true
		}
		window := func(rule string) clock.Window {
			return clock.Window{RRule: rule, DurationMinutes: 30, Anchor: "2026-01-05T09:15"}
		}
		c, err := clock.NewCalendar([]clock.Window{window(text)}, nil)
		if err != nil {
			codes(t, err) // such as days that the interval never reaches
			return
		}
		for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
			parts[i], parts[j] = parts[j], parts[i]
		}
		reversed := calendar(t, window(strings.Join(parts, ";")))
		from := at("2026-01-01T00:00:00Z")
		if diff := cmp.Diff(intervals(c, from, from.Add(100*time.Hour)), intervals(reversed, from, from.Add(100*time.Hour))); diff != "" {
			t.Fatalf("%q: the order of parts matters\n%s", text, diff)
		}
	})
}
