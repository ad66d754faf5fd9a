package clock_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/clock"
)

func read(texts ...string) clock.Calendar {
	windows := make([]clock.Window, len(texts))
	for i, text := range texts {
		var err error
		if windows[i], err = clock.ParseWindow([]byte(text)); err != nil {
			panic(err)
		}
	}
	c, err := clock.NewCalendar(windows, time.LoadLocation)
	if err != nil {
		panic(err)
	}
	return c
}

// Nights on weekdays, but not over the turn of the year.
func ExampleCalendar() {
	c := read(
		`{"weekly": {"days": ["mon","tue","wed","thu","fri"], "start": "22:00", "end": "04:00"}, "timezone": "Europe/Berlin"}`,
		`{"from": "2026-12-18T12:00:00Z", "until": "2027-01-04T12:00:00Z", "allowWindow": false}`,
	)
	for _, now := range []time.Time{
		time.Date(2026, 6, 6, 1, 0, 0, 0, time.UTC),    // Saturday 03:00 in Berlin: still Friday's night
		time.Date(2026, 6, 6, 2, 0, 0, 0, time.UTC),    // Saturday 04:00: over
		time.Date(2026, 12, 18, 21, 0, 0, 0, time.UTC), // Friday 22:00, in the freeze
	} {
		next, err := c.NextOpen(now)
		fmt.Println(c.Open(now), next.Format(time.RFC3339), err)
	}
	// Output:
	// true 2026-06-06T01:00:00Z <nil>
	// false 2026-06-08T20:00:00Z <nil>
	// false 2027-01-04T21:00:00Z <nil>
}

// A rollout of five steps, five minutes of open time apart, goes on in the morning where it stopped
// in the evening.
func ExampleCalendar_Walk() {
	c := read(`{"weekly": {"days": ["mon","tue"], "start": "09:00", "end": "17:00"}}`)
	walk := c.Walk(time.Date(2025, 1, 6, 16, 50, 0, 0, time.UTC))
	for step := range 5 {
		due, err := walk.AddOpen(time.Duration(step) * 5 * time.Minute)
		fmt.Println(due.Format("Mon 15:04"), err)
	}
	// Output:
	// Mon 16:50 <nil>
	// Mon 16:55 <nil>
	// Tue 09:00 <nil>
	// Tue 09:05 <nil>
	// Tue 09:10 <nil>
}

// The night in which clocks go back is an hour longer for a window that ends by the clock.
func ExampleCalendar_Intervals() {
	c := read(`{"weekly": {"days": ["fri","sat","sun"], "start": "22:00", "end": "04:00"}, "timezone": "America/New_York"}`)
	for start, end := range c.Intervals(time.Date(2026, 10, 30, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)) {
		fmt.Println(start.Format(time.RFC3339), end.Sub(start))
	}
	// Output:
	// 2026-10-31T02:00:00Z 6h0m0s
	// 2026-11-01T02:00:00Z 7h0m0s
	// 2026-11-02T03:00:00Z 6h0m0s
}

// How much working time lies between two instants, and when a soak of a day of it ends: over the
// weekend on which clocks go forward, and a holiday.
func ExampleCalendar_OpenBetween() {
	c := read(
		`{"weekly": {"days": ["mon","tue","wed","thu","fri"], "start": "09:00", "end": "17:00"}, "timezone": "Europe/Berlin"}`,
		`{"from": "2026-04-03T00:00:00+02:00", "until": "2026-04-07T00:00:00+02:00", "allowWindow": false}`, // Easter
	)
	deployed := time.Date(2026, 3, 27, 14, 0, 0, 0, time.UTC) // Friday 15:00 in Berlin
	open, err := c.OpenBetween(deployed, deployed.AddDate(0, 0, 14))
	fmt.Println(open, err)
	soaked, err := c.AddOpen(deployed, 8*time.Hour)
	fmt.Println(soaked.Format(time.RFC3339), err)
	// Output:
	// 65h0m0s <nil>
	// 2026-03-30T13:00:00Z <nil>
}

// What takes two hours is not begun when one is left.
func ExampleCalendar_NextFit() {
	c := read(`{"weekly": {"days": ["mon","tue"], "start": "09:00", "end": "17:00"}}`)
	now := time.Date(2025, 1, 6, 16, 0, 0, 0, time.UTC)
	start, err := c.NextFit(now, 2*time.Hour)
	fmt.Println(start.Format("Mon 15:04"), err)
	_, err = c.NextFit(now, 9*time.Hour)
	fmt.Println(errors.Is(err, clock.ErrNeverFits))
	// Output:
	// Tue 09:00 <nil>
	// true
}

// All faults are reported, each with its place.
func ExampleParseWindow() {
	_, err := clock.ParseWindow([]byte(`{"rrule": "FREQ=YEARLY;BYHOUR=25", "timezone": "Europe/Berlin", "gap": "later"}`))
	fmt.Println(err)
	// Output:
	// gap: "later": must be "forward" or "skip"
	// durationMinutes: is required with rrule, at least 1
	// rrule: "FREQ=YEARLY": FREQ must be DAILY, WEEKLY or MONTHLY: pass a Recurrence for it, or write each occurrence as a window with from and until
	// rrule: "25": BYHOUR must list numbers from 0 to 23
}

// lastWorkday starts on the last of the days from Monday to Friday in every month, which no rrule of
// the subset can say.
type lastWorkday struct{}

func (lastWorkday) Next(t time.Time) time.Time {
	for month := t.Month(); ; month++ {
		day := time.Date(t.Year(), month+1, 0, 0, 0, 0, 0, t.Location())
		for day.Weekday() == time.Saturday || day.Weekday() == time.Sunday {
			day = day.AddDate(0, 0, -1)
		}
		if day.After(t) {
			return day
		}
	}
}

// A freeze from the last workday of every month on, in the zone of the books.
func ExampleRecurrence() {
	deny := false
	c, err := clock.NewCalendar([]clock.Window{{
		Recurrence: lastWorkday{}, DurationMinutes: 24 * 60, AllowWindow: &deny, Timezone: "America/New_York",
	}}, time.LoadLocation)
	if err != nil {
		panic(err)
	}
	next, err := c.NextOpen(time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC))
	fmt.Println(next, err)
	// Output: 2026-02-28 05:00:00 +0000 UTC <nil>
}

// Updates of an operating system appear on the second Tuesday of a month. They may be installed in
// the night from Friday to Saturday after it, which is not always that of the second Friday.
func ExampleWindow_monthly() {
	patches := read(`{"rrule": "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=11,12,13,14,15,16,17;BYHOUR=22", "durationMinutes": 360, "timezone": "Europe/Berlin"}`)
	fmt.Println(patches)
	for start, end := range patches.Intervals(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(start.Format(time.RFC3339), end.Format(time.RFC3339))
	}
	// Output:
	// open monthly fri on day 11-17 22:00 for 6h Europe/Berlin
	// 2026-04-17T20:00:00Z 2026-04-18T02:00:00Z
	// 2026-05-15T20:00:00Z 2026-05-16T02:00:00Z
	// 2026-06-12T20:00:00Z 2026-06-13T02:00:00Z
}

// Two policies apply: when are both of them open?
func ExampleIntersect() {
	nights := read(`{"weekly": {"days": ["mon"], "start": "20:00", "end": "06:00"}, "timezone": "Europe/Berlin"}`)
	office := read(`{"weekly": {"days": ["mon"], "start": "09:00", "end": "17:00"}, "timezone": "America/New_York"}`)
	for start, end := range clock.Intersect(nights, office).Intervals(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 6, 3, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(start.Format(time.RFC3339), end.Format(time.RFC3339))
	}
	// Output: 2026-06-01T18:00:00Z 2026-06-01T21:00:00Z
}
