package clock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// starts returns the dates on which the windows of a calendar begin, from a date on.
func starts(c clock.Calendar, from time.Time, most int) (dates []string) {
	for start := range c.Intervals(from, from.AddDate(40, 0, 0)) {
		if dates = append(dates, start.Format(time.DateOnly)); len(dates) == most {
			break
		}
	}
	return dates
}

// TestMonthly compares dates that calendars on a wall have.
func TestMonthly(t *testing.T) {
	for _, row := range []struct {
		why, rule, anchor string
		want              []string
	}{
		{"the second Tuesday", "FREQ=MONTHLY;BYDAY=2TU;BYHOUR=22", "", []string{"2026-01-13", "2026-02-10", "2026-03-10", "2026-04-14", "2026-05-12"}},
		{"the last Friday", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=22", "", []string{"2026-01-30", "2026-02-27", "2026-03-27", "2026-04-24", "2026-05-29"}},
		{"the fifth Thursday, which few months have", "FREQ=MONTHLY;BYDAY=5TH;BYHOUR=22", "", []string{"2026-01-29", "2026-04-30", "2026-07-30", "2026-10-29", "2026-12-31"}},
		{"the fifth last is the first where there are five", "FREQ=MONTHLY;BYDAY=-5TH;BYHOUR=22", "", []string{"2026-01-01", "2026-04-02", "2026-07-02", "2026-10-01", "2026-12-03"}},
		{"every Monday, and the first Wednesday", "FREQ=MONTHLY;BYDAY=MO,1WE;BYHOUR=22", "", []string{"2026-01-05", "2026-01-07", "2026-01-12", "2026-01-19", "2026-01-26", "2026-02-02"}},
		{"the last day", "FREQ=MONTHLY;BYMONTHDAY=-1;BYHOUR=22", "", []string{"2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"}},
		{"the 31st, which is not moved", "FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=22", "", []string{"2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31"}},
		{"the 31st last is the first of the long months", "FREQ=MONTHLY;BYMONTHDAY=-31;BYHOUR=22", "", []string{"2026-01-01", "2026-03-01", "2026-05-01", "2026-07-01", "2026-08-01"}},
		{"the first and the fifteenth", "FREQ=MONTHLY;BYMONTHDAY=15,1;BYHOUR=22", "", []string{"2026-01-01", "2026-01-15", "2026-02-01", "2026-02-15"}},
		{"Friday the thirteenth", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13;BYHOUR=22", "", []string{"2026-02-13", "2026-03-13", "2026-11-13", "2027-08-13"}},
		{"the first of each quarter", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1;BYHOUR=22", "2030-04-30T00:00", []string{"2026-01-01", "2026-04-01", "2026-07-01", "2026-10-01"}},
		{"the day of the anchor", "FREQ=MONTHLY;INTERVAL=2", "2025-10-31T09:00", []string{"2026-08-31", "2026-10-31", "2026-12-31", "2027-08-31"}},
		{"the day of an anchor that is an instant", "FREQ=MONTHLY", "2025-10-31T23:30:00-01:00", []string{"2026-01-01", "2026-02-01", "2026-03-01"}},
		{"the leap day", "FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=29;BYHOUR=0", "2001-02-01T00:00", []string{"2028-02-29", "2032-02-29", "2036-02-29"}},
		{"each leap day, and no other year", "FREQ=MONTHLY;INTERVAL=48", "1600-02-29T00:00", []string{"2028-02-29", "2032-02-29", "2036-02-29"}},
		{"Saturday the leap day", "FREQ=MONTHLY;BYMONTHDAY=29;BYDAY=SA;INTERVAL=12;BYHOUR=0", "2000-02-01T00:00", []string{"2048-02-29"}},
		{"once in a thousand years", "FREQ=MONTHLY;INTERVAL=12000", "1026-03-04T05:00", []string{"2026-03-04"}},
		{"never again before the years end", "FREQ=MONTHLY;INTERVAL=1000000", "1999-03-04T05:00", nil},
	} {
		c := calendar(t, clock.Window{RRule: row.rule, DurationMinutes: 60, Anchor: row.anchor})
		if got := starts(c, at("2026-01-01T00:00:00Z"), max(1, len(row.want))); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestMonthsOneByOne compares the dates of monthly rules with those that a walk through all days
// finds.
func TestMonthsOneByOne(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		p := plan{
			zone: "UTC", allow: true, every: rapid.SampledFrom([]int{1, 1, 2, 3, 5, 6, 12, 13, 48, 300}).Draw(t, "every"), hours: []int{0}, minutes: []int{0}, length: 60,
			anchor: time.Date(rapid.IntRange(1890, 2110).Draw(t, "year"), time.Month(rapid.IntRange(1, 12).Draw(t, "month")), 1, 0, 0, 0, 0, time.UTC),
		}
		draw := func(below int) int { return rapid.IntRange(0, below-1).Draw(t, "draw") }
		p.onMonths(time.Date(2024, 1, 1+draw(366), 0, 0, 0, 0, time.UTC), draw)
		if draw(4) == 0 && len(p.inMonth) > 0 { // it may be none of the days any more
			p.inMonth[0] = 28 + draw(4)
		}
		dates := func(from time.Time, years int) (dates []string) {
			for d := from; d.Before(from.AddDate(years, 0, 0)); d = d.AddDate(0, 0, 1) {
				if apart := 12*(d.Year()-p.anchor.Year()) + int(d.Month()) - int(p.anchor.Month()); apart%p.every == 0 && p.hasDay(d) {
					dates = append(dates, d.Format(time.DateOnly))
				}
			}
			return dates
		}
		c, err := clock.NewCalendar([]clock.Window{p.window()}, nil)
		if err != nil {
			var fault *clock.FieldError
			if found := dates(p.anchor, 400); !errors.As(err, &fault) || fault.Code != clock.CodeEmptyWindow || len(found) > 0 {
				t.Fatalf("%v: %v, but it recurs on %q", p, err, found)
			}
			seen["empty"]++
			return
		}
		from := time.Date(rapid.IntRange(1995, 2095).Draw(t, "from"), time.Month(1+draw(12)), 1+draw(28), 0, 0, 0, 0, time.UTC)
		var got []string
		for start := range c.Intervals(from, from.AddDate(8, 0, 0)) {
			got = append(got, start.Format(time.DateOnly))
		}
		want := dates(from, 8)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v from %v on:\n%s", p, from, diff)
		}
		switch {
		case len(got) == 0:
			seen["none"]++
		case len(p.inMonth) > 0 && len(p.days)+len(p.counted) > 0:
			seen["both"]++
		case len(p.inMonth) > 0:
			seen["days"]++
		default:
			seen["weekdays"]++
		}
		// What began last is looked for backwards: here an occurrence lasts until the next one begins.
		long := p
		long.length = 365 * 24 * 60
		covers := compilePlans(t, []plan{long})
		probe := from.AddDate(0, 0, draw(3000))
		past := dates(probe.AddDate(0, 0, -364), 1)
		if open := covers.Open(probe.Add(time.Minute)); open != slices.ContainsFunc(past, func(date string) bool { return date <= probe.Format(time.DateOnly) }) {
			t.Fatalf("%v: open at %v: %v; it began on %q", p, probe, open, past)
		}
	}, "empty", "none", "both", "days", "weekdays")
}
