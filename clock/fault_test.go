package clock_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// stuttering gives the same start for ever.
type stuttering struct{}

func (stuttering) Next(t time.Time) time.Time { return time.Date(2025, 1, 6, 9, 0, 0, 0, time.UTC) }

// TestCodes: every code is given to some fault, and to the kind of fault that its comment names.
func TestCodes(t *testing.T) {
	window := func(text string) error {
		_, err := clock.ParseWindow([]byte(text))
		return err
	}
	calendar := func(w clock.Window) error {
		_, err := clock.NewCalendar([]clock.Window{w}, time.LoadLocation)
		return err
	}
	question := func(w clock.Window, d time.Duration) error {
		c, err := clock.NewCalendar([]clock.Window{w}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.AddOpen(time.Date(2025, 1, 6, 0, 0, 0, 0, time.UTC), d)
		return err
	}
	good := parse(t, daily("09:00", "10:00"))
	atlantis := good
	atlantis.Timezone = "Europe/Atlantis"
	seen := map[string]bool{}
	for _, row := range []struct {
		code clock.Code
		err  error
		path string
		hint string // some of it: the remedy
		why  string
	}{
		{clock.CodeSyntax, window(`{"weekly"`), "", "unexpected EOF", "no document"},
		{clock.CodeUnknownField, window(`{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"time_zone":"Europe/Berlin"}`), "time_zone", `did you mean "timezone"?`, "a misspelt zone"},
		{clock.CodeDuplicate, window(`{"rrule":"FREQ=DAILY;BYHOUR=9","rrule":"FREQ=DAILY;BYHOUR=10","durationMinutes":60}`), "rrule", "given twice", "which one?"},
		{clock.CodeType, window(`{"rrule":"FREQ=DAILY;BYHOUR=9","durationMinutes":60,"allowWindow":"no"}`), "allowWindow", "must be", "no bool"},
		{clock.CodeTimezoneUnknown, calendar(atlantis), "windows[0].timezone", "such as Europe/Berlin: unknown time zone Europe/Atlantis", "no such zone"},
		{clock.CodeTimezoneUnknown, window(`{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"timezone":""}`), "timezone", "name a zone", "the name of no zone"},
		{clock.CodeTimeInvalid, window(`{"weekly":{"days":["mon"],"start":"9:00","end":"10:00"}}`), "weekly.start", "HH:MM", "no time of day"},
		{clock.CodeTimeInvalid, window(`{"from":"2025-01-06","until":"2025-01-07T00:00:00Z"}`), "from", "RFC 3339 with its offset", "no instant"},
		{clock.CodeDayInvalid, window(`{"weekly":{"days":["monday"],"start":"09:00","end":"10:00"}}`), "weekly.days[0]", "mon, tue", "no day"},
		{clock.CodeDayInvalid, window(`{"rrule":"FREQ=DAILY;BYDAY=XX;BYHOUR=9","durationMinutes":60}`), "rrule", "MO, TU", "no day in a rule either"},
		{clock.CodeDurationInvalid, window(`{"rrule":"FREQ=DAILY;BYHOUR=9"}`), "durationMinutes", "is required", "no length"},
		{clock.CodeDurationInvalid, question(good, -time.Minute), "d", "must not be negative", "a question about the past"},
		{clock.CodeDurationInvalid, window(`{"rrule":"FREQ=DAILY;BYHOUR=9","durationMinutes":null}`), "durationMinutes", "null is not a value here: write one, or leave it out", "as in every other field"},
		{clock.CodeDurationInvalid, window(`{"rrule":"FREQ=DAILY;BYHOUR=9","durationMinutes":"1h30m"}`), "durationMinutes", "from 1 to 153722867: write 90", "a duration in words"},
		{clock.CodeRecurrenceInvalid, window(`{"weekly":{"days":["mon"],"start":"09:00","end":"10:00","everyWeeks":null}}`), "weekly.everyWeeks", "null is not a value here: write one, or leave it out", "as in every other field"},
		{clock.CodeAnchorRequired, window(`{"rrule":"FREQ=DAILY;INTERVAL=2;BYHOUR=9","durationMinutes":60}`), "anchor", "such as 2025-01-06T09:00", "the phase is not fixed"},
		{clock.CodeRecurrenceUnsupported, window(`{"rrule":"FREQ=YEARLY;BYHOUR=9","durationMinutes":60}`), "rrule", "pass a Recurrence for it, or write each occurrence as a window with from and until", "sound, and more than the subset; a document has no Recurrence to pass"},
		{clock.CodeRecurrenceUnsupported, window(`{"rrule":"DTSTART=20250106T090000Z;FREQ=DAILY","durationMinutes":60}`), "rrule", "DTSTART is the anchor here: give it there", "libraries write the start into the rule"},
		{clock.CodeRecurrenceUnsupported, window(`{"rrule":"WKST=SU;FREQ=WEEKLY;BYDAY=TU;BYHOUR=9","durationMinutes":60}`), "rrule", "leave it out, because it has no effect", "calendars write it into every rule, where it says nothing"},
		{clock.CodeRecurrenceUnsupported, window(`{"rrule":"WKST=SU;FREQ=DAILY;INTERVAL=2;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T09:00"}`), "rrule", "leave it out, because it has no effect", "days are counted without weeks"},
		{clock.CodeRecurrenceUnsupported, window(`{"rrule":"WKST=SU;FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-07T09:00"}`), "rrule", "pass a Recurrence for it", "without it Sunday would be of another week"},
		{clock.CodeRecurrenceInvalid, window(`{"rrule":"FREQ=DAILY;INTERVAL=1000001;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T09:00"}`), "rrule", "INTERVAL must be from 1 to 1000000", "above the bound"},
		{clock.CodeRecurrenceInvalid, window(`{"rrule":"FREQ=DAILY; BYHOUR=9","durationMinutes":60}`), "rrule", "NAME=VALUE without blanks", "not a rule"},
		{clock.CodeRecurrenceInvalid, question(clock.Window{Recurrence: stuttering{}, DurationMinutes: 60}, 24*time.Hour), "windows[0].recurrence", "2025-01-06T09:00:00Z", "a host's promise is broken"},
		{clock.CodeEmptyWindow, window(`{"from":"2025-01-07T00:00:00Z","until":"2025-01-06T00:00:00Z"}`), "until", "must be after from", "the wrong way round"},
		{clock.CodeEmptyWindow, window(`{"rrule":"FREQ=DAILY;INTERVAL=14;BYDAY=TU;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T09:00"}`), "rrule", "INTERVAL=14 days from the anchor never reaches a day of BYDAY", "from Monday to Monday"},
		{clock.CodeEmptyWindow, window(`{}`), "", "give weekly, rrule, or from and until", "no window at all"},
	} {
		seen[string(row.code)] = true
		var fault *clock.FieldError
		if !errors.As(row.err, &fault) || fault.Code != row.code || fault.Path != row.path || !strings.Contains(fault.Hint, row.hint) {
			t.Errorf("%s: got %v, want %s at %q with %q", row.why, row.err, row.code, row.path, row.hint)
		}
	}
	// The list of codes is read from the source, so that a new one cannot be forgotten here.
	for _, code := range testkit.Constants(t, ".", "Code") {
		code = strings.TrimPrefix(code, "Code ")
		if !seen[code] {
			t.Errorf("%s has no row here", code)
		}
		delete(seen, code)
	}
	if len(seen) > 0 {
		t.Errorf("no such codes: %v", seen)
	}
}

// TestRuleIsShownAsWritten: letter case means nothing in a rule, and a fault used to show capitals
// where none were written, so that the text could not be found in the document.
func TestRuleIsShownAsWritten(t *testing.T) {
	for rule, want := range map[string]string{
		"x":                              "x",
		"Freq=hourly":                    "Freq=hourly",
		"freq=daily;byday=1mo;byhour=9":  "1mo",
		"freq=daily;byday=mon;byhour=9":  "mon",
		"freq=daily;until=20261231":      "until=20261231",
		"freq=daily;interval=Two":        "interval=Two",
		"freq=daily;wkst=su;byhour=9":    "wkst=su",
		"freq=daily;wkst=x;byhour=9":     "wkst=x",
		"freq=daily;byhour=9;byhour=10":  "byhour=10",
		"freq=daily;byhour=noon":         "noon",
		"dtstart=20250106;freq=daily":    "dtstart=20250106",
		"freq=weekly;byday=mo;byhour=9 ": "byhour=9 ",
	} {
		var fault *clock.FieldError
		if err := (clock.Window{RRule: rule, DurationMinutes: 60}).Validate(); !errors.As(err, &fault) || fault.Path != "rrule" || fault.Value != strconv.Quote(want) {
			t.Errorf("%s: %v, want one that shows %q", rule, err, want)
		}
	}
	if err := (clock.Window{RRule: "freq=Weekly;byday=mo,We;byhour=9;wkst=mo", DurationMinutes: 60}).Validate(); err != nil {
		t.Errorf("letter case: %v", err)
	}
}

// TestNeverOpenSaysWhatWasAsked: a calendar that is open, but not for long enough within its
// horizon, is not said to stay closed.
func TestNeverOpenSaysWhatWasAsked(t *testing.T) {
	always, err := clock.NewCalendar(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2025, 1, 6, 0, 0, 0, 0, time.UTC)
	_, err = always.WithHorizon(time.Hour).AddOpen(at, 2*time.Hour)
	if want := "clock: the calendar has no such open instant: the end of 2h0m0s of open time from 2025-01-06T00:00:00Z on, searched until 2025-01-06T01:00:00Z"; err == nil || err.Error() != want || !errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("got %v, want %s", err, want)
	}
	past := clock.Window{From: at.Add(-time.Hour), Until: at}
	closed, err := clock.NewCalendar([]clock.Window{past}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = closed.WithHorizon(time.Hour).NextOpen(at)
	if want := "clock: the calendar has no such open instant: the first one from 2025-01-06T00:00:00Z on, searched until 2025-01-06T01:00:00Z"; err == nil || err.Error() != want || !errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = closed.WithHorizon(time.Hour).NextFit(at, time.Minute)
	if want := "clock: the calendar is never open for that long: 1m0s from 2025-01-06T00:00:00Z on, searched until 2025-01-06T01:00:00Z"; err == nil || err.Error() != want || !errors.Is(err, clock.ErrNeverFits) {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, sentinel := range []error{clock.ErrNeverOpen, clock.ErrNeverFits} { // a host may return them as they are
		if !strings.HasPrefix(sentinel.Error(), "clock: ") {
			t.Errorf("%q does not say whose error it is", sentinel)
		}
	}
}
