package clock_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestNextFitLeavesNothingOut: what repeats itself is left out, and nothing else. The reference goes
// through all intervals. The durations are those of stretches that there are, and a nanosecond
// more: many are longest, or shortest, in the one night in which the clock is changed.
func TestNextFitLeavesNothingOut(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom(places()).Draw(t, "place")
		from := place.middle.Add(-time.Duration(rapid.OneOf(rapid.IntRange(-100*60, 50*60), rapid.IntRange(0, 250*24*60)).Draw(t, "minutes before")) * time.Minute)
		draw := func(t *rapid.T) clock.Window {
			p := drawPlan(t, place)
			if !p.byFields && rapid.IntRange(0, 3).Draw(t, "often") == 0 {
				p.hours = []int{0, 2, 3, 4, 6, 8, 10, 11, 12, 14, 16, 18, 20, 22}
			}
			w := p.window()
			if rapid.IntRange(0, 4).Draw(t, "one-off") == 0 {
				begin := from.Add(time.Duration(rapid.Int64Range(-1e15, 3e16).Draw(t, "begin")))
				w = clock.Window{From: begin, Until: begin.Add(time.Duration(rapid.Int64Range(1, 1e16).Draw(t, "length"))), AllowWindow: w.AllowWindow}
			}
			return w
		}
		var calendars []clock.Calendar
		for range rapid.IntRange(1, 2).Draw(t, "policies") {
			c, err := clock.NewCalendar(rapid.SliceOfN(rapid.Custom(draw), 1, 3).Draw(t, "windows"), time.LoadLocation)
			if err != nil {
				t.Fatal(err)
			}
			calendars = append(calendars, c)
		}
		horizon := time.Duration(rapid.IntRange(1, 700).Draw(t, "days")) * 24 * time.Hour
		c := clock.Intersect(calendars...).WithHorizon(horizon)
		limit := from.Add(horizon)
		const beyond = 3000 * time.Hour
		end := limit.Add(beyond)
		fits := func(d time.Duration) (time.Time, bool) {
			for start, until := range c.Intervals(from, end) {
				if start.Before(limit) && (until.Sub(start) >= d || until.Equal(end)) {
					return start, true
				}
			}
			return time.Time{}, false
		}

		var lengths []time.Duration // each longer than those before
		stretches := 0
		for start, until := range c.Intervals(from, end) {
			stretches++
			if length := until.Sub(start); start.Before(limit) && !until.Equal(end) && (len(lengths) == 0 || length > lengths[len(lengths)-1]) {
				lengths = append(lengths, length)
			}
		}
		durations := []time.Duration{0}
		if len(lengths) > 0 {
			longest := lengths[len(lengths)-1]
			durations = append(durations, longest, longest+1, rapid.SampledFrom(lengths).Draw(t, "a length")+1)
		}
		for _, d := range durations {
			if d > beyond {
				continue // the end of what begins last is not known
			}
			want, ever := fits(d)
			for soon := range 3 { // the sooner, the more often the right moment is there to leave out too much
				got, looked, err := c.Fit(from, d, soon+1)
				if !ever && !errors.Is(err, clock.ErrNeverFits) || ever && (err != nil || !got.Equal(want)) {
					t.Fatalf("%v from %v on, soon %d: %v, %v, want %v", d, from, soon+1, got, err, want)
				}
				switch {
				case looked > stretches:
					seen["all looked at"]++
				case !ever:
					seen["never, without looking at all"]++
				case want.Sub(from) > 1000*time.Hour:
					seen["late, without looking at all"]++
				}
			}
			if got, err := c.NextFit(from, d); !got.Equal(want) {
				t.Fatalf("%v from %v on: %v, %v, want %v", d, from, got, err, want)
			}
			if got, err := c.NextOpen(from); d == 0 && (!got.Equal(want) || ever == errors.Is(err, clock.ErrNeverOpen)) {
				t.Fatalf("NextOpen(%v) = %v, %v, want %v", from, got, err, want)
			}
		}
	}, "all looked at", "never, without looking at all", "late, without looking at all")
}

// TestAddOpenLeavesNothingOut: of the time that is closed what repeats itself is left out, and
// nothing else. The reference adds up all intervals.
func TestAddOpenLeavesNothingOut(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom(places()).Draw(t, "place")
		from := place.middle.Add(-time.Duration(rapid.OneOf(rapid.IntRange(-100*60, 50*60), rapid.IntRange(0, 250*24*60)).Draw(t, "minutes before")) * time.Minute)
		deny := false
		own := []clock.Window{drawPlan(t, place).window()} // what recurs, and what takes most of it away: a freeze, or another policy
		frozen := drawPlan(t, place).window()
		if frozen.AllowWindow = &deny; frozen.DurationMinutes > 0 {
			frozen.DurationMinutes += rapid.SampledFrom([]clock.Minutes{0, 60, 18 * 60, 24 * 60, 7 * 24 * 60}).Draw(t, "more minutes")
		}
		apart := rapid.Bool().Draw(t, "two policies")
		if apart {
			frozen.AllowWindow = nil
		}
		windows := []clock.Window{frozen}
		for range rapid.IntRange(0, 3).Draw(t, "one-off windows") {
			begin := from.Add(time.Duration(rapid.Int64Range(-1e15, 4e16).Draw(t, "begin")))
			w := clock.Window{From: begin, Until: begin.Add(time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "length")))}
			if rapid.Bool().Draw(t, "a freeze") {
				w.AllowWindow = &deny
			}
			windows = append(windows, w)
		}
		if !apart {
			own, windows = append(own, windows...), nil
		}
		var parts []clock.Calendar
		for _, list := range [][]clock.Window{own, windows} {
			c, err := clock.NewCalendar(list, time.LoadLocation)
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, c)
		}
		c := clock.Intersect(parts...)
		horizon := time.Duration(rapid.IntRange(1, 700).Draw(t, "days")) * 24 * time.Hour
		c = c.WithHorizon(horizon)
		stretches := 0
		durations, sum := []time.Duration{0}, time.Duration(0)
		for start, until := range c.Intervals(from, from.Add(horizon)) {
			stretches++
			if sum += until.Sub(start); stretches < 5 || until.Sub(from) > 2000*time.Hour && len(durations) < 20 {
				durations = append(durations, sum-1, sum, sum+1)
			}
		}
		durations = append(durations, sum-1, sum)
		walk := c.Walk(from)
		for _, d := range durations {
			if d < 0 {
				continue
			}
			var want time.Time
			left := d
			for start, until := range c.Intervals(from, from.Add(horizon)) {
				if left < until.Sub(start) {
					want = start.Add(left)
					break
				}
				left -= until.Sub(start)
			}
			check := func(how string, got time.Time, err error) {
				if !got.Equal(want) || want.IsZero() != errors.Is(err, clock.ErrNeverOpen) || !want.IsZero() && err != nil {
					t.Fatalf("%v from %v on, %s: %v, %v, want %v", d, from, how, got, err, want)
				}
			}
			got, all, err := c.Add(from, d, math.MaxInt)
			check("never asking", got, err)
			for soon := range 3 {
				got, looked, err := c.Add(from, d, soon+1)
				check(fmt.Sprint("soon ", soon+1), got, err)
				switch {
				case looked > all:
					t.Fatalf("%v from %v on: %d stretches instead of %d", d, from, looked, all)
				case looked == all:
					seen["all looked at"]++
				case want.IsZero():
					seen["never, without looking at all"]++
				default:
					seen["late, without looking at all"]++
				}
			}
			got, err = c.AddOpen(from, d)
			check("alone", got, err)
			got, err = walk.AddOpen(d)
			check("in a walk", got, err)
		}
	}, "all looked at", "never, without looking at all", "late, without looking at all")
}

// TestNextFitInTheNightOfAChange: in the nights in which the clock is changed, and only then, windows
// are open for longer or shorter than in all others, and searches from every hour around them do
// not take such a night for any other, or another for such a night.
func TestNextFitInTheNightOfAChange(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		windows []string
	}{
		{"a deny window of elapsed hours ends an hour later on the clock, so the morning is shorter", []string{
			`{"rrule":"FREQ=DAILY;BYHOUR=1;BYMINUTE=0","durationMinutes":270,"allowWindow":false,"timezone":"Europe/Berlin"}`,
			`{"rrule":"FREQ=DAILY;BYHOUR=5;BYMINUTE=0","durationMinutes":180,"timezone":"Europe/Berlin"}`}},
		{"a window of eight elapsed days ends an hour earlier on the clock, a week after the change", []string{
			`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=SA;BYHOUR=1;BYMINUTE=0","durationMinutes":11520,"anchor":"2026-10-24T01:00","timezone":"Europe/Berlin"}`,
			`{"rrule":"FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR,SU;BYHOUR=13;BYMINUTE=0","durationMinutes":1380,"allowWindow":false,"timezone":"Europe/Berlin"}`,
			`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=SA;BYHOUR=1;BYMINUTE=0","durationMinutes":2880,"allowWindow":false,"anchor":"2026-10-24T01:00","timezone":"Europe/Berlin"}`}},
		{"an allow window that waits for the second pass of its start, before one that does not", []string{
			`{"rrule":"FREQ=DAILY;BYHOUR=2;BYMINUTE=15","durationMinutes":180,"allowWindow":false,"overlap":"last","timezone":"Europe/Berlin"}`,
			`{"rrule":"FREQ=DAILY;BYHOUR=2;BYMINUTE=45","durationMinutes":120,"allowWindow":false,"timezone":"Europe/Berlin"}`}},
		{"a window that is left out because its start does not exist", []string{
			`{"rrule":"FREQ=DAILY;BYHOUR=2,14;BYMINUTE=30","durationMinutes":60,"gap":"skip","timezone":"Europe/Berlin"}`}},
		{"a window of two zones that change on other days", []string{
			`{"rrule":"FREQ=DAILY;BYHOUR=3;BYMINUTE=0","durationMinutes":300,"timezone":"America/New_York"}`, `{"rrule":"FREQ=DAILY;BYHOUR=10;BYMINUTE=0","durationMinutes":300,"timezone":"Europe/Berlin"}`}},
		{"a window of more than a day", []string{
			`{"rrule":"FREQ=WEEKLY;BYDAY=SA;BYHOUR=1;BYMINUTE=0","durationMinutes":2900,"timezone":"Europe/Berlin"}`, `{"rrule":"FREQ=WEEKLY;BYDAY=MO;BYHOUR=1;BYMINUTE=20","durationMinutes":30,"timezone":"Europe/Berlin"}`}},
		{"two windows on one day in three meet on Mondays alone", []string{
			`{"rrule":"FREQ=DAILY;INTERVAL=3;BYDAY=MO,TU,SU;BYHOUR=1;BYMINUTE=0","durationMinutes":240,"anchor":"2026-01-01T00:00"}`,
			`{"rrule":"FREQ=DAILY;INTERVAL=3;BYDAY=MO;BYHOUR=5;BYMINUTE=0","durationMinutes":120,"anchor":"2026-01-01T00:00"}`}},
		{"a week of longer windows in two, on all of its days", []string{
			`{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=1;BYMINUTE=0","durationMinutes":240,"anchor":"2026-01-05T00:00"}`, daily("05:00", "08:00")}},
		{"a week of longer windows in seven", []string{
			`{"rrule":"FREQ=WEEKLY;INTERVAL=7;BYDAY=MO,TU;BYHOUR=1;BYMINUTE=0","durationMinutes":240,"anchor":"2026-01-05T00:00"}`, daily("05:00", "08:00")}},
		{"a freeze takes half of one day away", []string{
			daily("05:00", "08:00"), `{"from":"2026-04-05T00:00:00Z","until":"2026-04-05T04:30:00Z","allowWindow":false}`}},
		{"a one-off window is longer than all others", []string{
			daily("05:00", "08:00"), `{"from":"2026-04-19T09:00:00Z","until":"2026-04-19T12:30:00.5Z"}`}},
		{"a one-off window begins when one that recurs ends", []string{
			daily("05:00", "08:00"), `{"from":"2026-04-19T08:00:00Z","until":"2026-04-19T08:30:00Z"}`}},
	} {
		c := parsed(t, row.windows...)
		for _, change := range []string{"2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"} {
			first := at(change).Add(-100 * time.Hour)
			horizon := 60 * 24 * time.Hour
			list := make([][2]time.Time, 0, 200)
			lengths := map[time.Duration]bool{}
			for start, until := range c.Intervals(first.Add(-100*time.Hour), first.Add(400*time.Hour+horizon)) {
				list = append(list, [2]time.Time{start, until})
				lengths[until.Sub(start)] = true
			}
			for hour := range 200 {
				from := first.Add(time.Duration(hour) * time.Hour)
				for length := range lengths {
					for _, d := range []time.Duration{length, length + 1} {
						var want time.Time
						for _, open := range list {
							start := open[0]
							if start.Before(from) {
								start = from
							}
							if start.Before(from.Add(horizon)) && open[1].Sub(start) >= d {
								want = start
								break
							}
						}
						for soon := range 3 {
							if got, _, err := c.WithHorizon(horizon).Fit(from, d, soon+1); !got.Equal(want) || want.IsZero() != errors.Is(err, clock.ErrNeverFits) {
								t.Fatalf("%s: %v from %v on, soon %d: %v, %v, want %v", row.why, d, from, soon+1, got, err, want)
							}
						}
					}
				}
			}
		}
	}
}

// TestNextFitLooksAtFew: what never comes is not looked for in every week of five years.
func TestNextFitLooksAtFew(t *testing.T) {
	var hourly []string
	for hour := range 24 {
		hourly = append(hourly, fmt.Sprintf(`{"rrule":"FREQ=DAILY;BYHOUR=%d;BYMINUTE=0","durationMinutes":20,"timezone":"Europe/Berlin"}`, hour))
	}
	for _, row := range []struct {
		why     string
		from    string
		windows []string
		most    int
	}{
		{"every day is the same, so one is looked at", "2026-01-01T00:00:00Z", []string{`{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0","durationMinutes":20}`}, 150},
		{"as it is before 1970, where instants are negative", "1955-01-01T00:00:00Z", []string{`{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0","durationMinutes":20}`}, 150},
		{"two weeks around each change of the clock", "2026-01-01T00:00:00Z", []string{`{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0","durationMinutes":20,"timezone":"Europe/Berlin"}`}, 10_000},
		{"the same by a window for each hour: a lap waits until as much is done as it costs, and comes", "2026-01-01T00:00:00Z", hourly, 10_000},
		{"a freeze that is over changes nothing any more", "2026-01-01T00:00:00Z", []string{
			`{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0","durationMinutes":20}`,
			`{"from":"2025-12-31T00:00:00Z","until":"2026-01-01T12:00:00Z","allowWindow":false}`}, 200},
		{"what repeats itself after more than five years is gone through", "2026-01-01T00:00:00Z", []string{`{"rrule":"FREQ=DAILY;INTERVAL=2000;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0","durationMinutes":20,"anchor":"2026-01-01T00:00"}`}, 50},
	} {
		_, looked, err := parsed(t, row.windows...).Fit(at(row.from), time.Hour, 32)
		if !errors.Is(err, clock.ErrNeverFits) || looked > row.most {
			t.Errorf("%s: %d stretches, %v", row.why, looked, err)
		}
	}
}

// TestAddOpenLooksAtFew: open time that never comes is not looked for in every day of five years.
func TestAddOpenLooksAtFew(t *testing.T) {
	for _, row := range []struct {
		why     string
		windows []string // each of a policy of its own
		d       time.Duration
		most    int
	}{
		{"two windows that never meet", []string{daily("02:00", "05:00"), daily("06:00", "09:00")}, 0, 100},
		{"freezes that together take all day away", []string{
			`{"rrule":"FREQ=DAILY;BYHOUR=0;BYMINUTE=0","durationMinutes":800,"allowWindow":false}`, `{"rrule":"FREQ=DAILY;BYHOUR=12;BYMINUTE=0","durationMinutes":800,"allowWindow":false}`}, time.Hour, 100},
		{"two windows that met once", []string{
			`{"from":"2026-01-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}`, daily("06:00", "09:00")}, 94 * time.Hour, 200},
	} {
		calendars := make([]clock.Calendar, len(row.windows))
		for i, w := range row.windows {
			calendars[i] = parsed(t, w)
		}
		if _, looked, err := clock.Intersect(calendars...).Add(at("2026-01-01T00:00:00Z"), row.d, 32); !errors.Is(err, clock.ErrNeverOpen) || looked > row.most {
			t.Errorf("%s: %d stretches, %v", row.why, looked, err)
		}
	}
}

// TestNextFitAfterALapLongOver: soon after a search has looked for a lap in vain, because an occurrence
// of 95 years outlasts every stretch without a change of the clock, it may be 205 years further. It
// does not skip the rest because of how long ago that lap would have ended.
func TestNextFitAfterALapLongOver(t *testing.T) {
	from := at("2080-03-28T00:00:00Z") // three days before the clock is changed
	year := func(n int) time.Time { return from.AddDate(0, 0, 365*n) }
	windows := []clock.Window{
		{RRule: "FREQ=DAILY;INTERVAL=36500", DurationMinutes: 95 * 365 * 24 * 60, Anchor: "2090-03-26T00:00", Timezone: "Europe/Berlin"},
		{From: year(304), Until: year(312)},
	}
	deny := false
	for i := range 40 {
		hour := from.Add(time.Duration(2*i+1) * time.Hour)
		windows = append(windows, clock.Window{From: hour, Until: hour.Add(time.Hour), AllowWindow: &deny})
	}
	c := calendar(t, windows...).WithHorizon(math.MaxInt64)
	if u, err := c.NextFit(from, 96*365*24*time.Hour); err != nil || !u.Equal(at("2290-02-05T23:00:00Z")) {
		t.Errorf("%v, %v", u, err)
	}
}

// TestNextFitKnowsNothingOfAHost: no period is assumed of a host's recurrence.
func TestNextFitKnowsNothingOfAHost(t *testing.T) {
	rare := at("2026-11-03T05:00:00Z")
	c := calendar(t, parse(t, daily("02:00", "05:00")), clock.Window{Recurrence: onceAt{rare}, DurationMinutes: 60})
	if u, looked, err := c.Fit(at("2026-01-01T00:00:00Z"), 4*time.Hour, 1); err != nil || !u.Equal(rare.Add(-3*time.Hour)) || looked < 600 {
		t.Errorf("%v, %v after %d", u, err, looked)
	}
}

// onceAt is a host's recurrence with one start.
type onceAt struct{ start time.Time }

func (o onceAt) Next(t time.Time) time.Time {
	if t.Before(o.start) {
		return o.start
	}
	return time.Time{}
}
