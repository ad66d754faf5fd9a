package clock_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// each lists every step-th number below limit, from first on.
func each(first, step, limit int) string {
	var list []int
	for i := first; i < limit; i += step {
		list = append(list, i)
	}
	return commas(list)
}

// broken is a host's recurrence that starts every hour; asked for a start at or after an instant,
// it breaks its promise.
type broken struct{ from time.Time }

func (b broken) Next(t time.Time) time.Time {
	if next := t.Truncate(time.Hour).Add(time.Hour); next.Before(b.from) {
		return next
	}
	return t
}

// drawMany draws up to twelve windows of one day: dense ones that say much the same, long ones,
// single ones and, if there is a host, its recurrences.
func drawMany(t *rapid.T, day time.Time, host bool) []clock.Window {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) clock.Window {
		allow := rapid.IntRange(0, 3).Draw(t, "effect") == 0
		w := clock.Window{AllowWindow: &allow, DurationMinutes: clock.Minutes(rapid.SampledFrom([]int{1, 1, 2, 5, 60, 600}).Draw(t, "length"))}
		minute := rapid.IntRange(0, 1440)
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind < 6:
			step := rapid.SampledFrom([]int{2, 2, 3, 7, 20}).Draw(t, "step")
			w.RRule = fmt.Sprintf("FREQ=DAILY;BYHOUR=%s;BYMINUTE=%s", each(rapid.IntRange(0, 3).Draw(t, "hour"), rapid.IntRange(1, 3).Draw(t, "hours"), 24), each(rapid.IntRange(0, step-1).Draw(t, "minute"), step, 60))
		case kind < 9 || !host:
			from := day.Add(time.Duration(minute.Draw(t, "from")) * time.Minute)
			w.From, w.Until, w.DurationMinutes = from, from.Add(time.Duration(1+minute.Draw(t, "length"))*time.Minute), 0
		default:
			w.Recurrence = broken{day.Add(time.Duration(minute.Draw(t, "broken from")) * time.Minute)}
		}
		return w
	}), 0, 12).Draw(t, "windows")
}

// TestWalkIsEager: what is left out of a walk makes no difference.
func TestWalkIsEager(t *testing.T) {
	seen, day := testkit.Tally{}, at("2026-05-05T00:00:00Z")
	seen.Check(t, func(t *rapid.T) {
		host, c := rapid.IntRange(0, 2).Draw(t, "host") == 0, clock.Intersect() // beside a host's recurrence everything is asked
		for range rapid.IntRange(1, 5).Draw(t, "policies") {
			one, err := clock.NewCalendar(drawMany(t, day, host), nil)
			if err != nil {
				t.Fatal(err)
			}
			c = clock.Intersect(c, one)
		}
		from := day.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "from")) * time.Minute)
		to := from.Add(20 * time.Hour)
		got, err := clock.Stretches(c, from, to)
		want, wantErr := clock.EagerStretches(c, from, to)
		// Of several hosts' faults that are there at one instant, either may be told.
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (wantErr != nil) {
			t.Fatalf("%v, want %v, want -, got +\n%s", err, wantErr, diff)
		}
		if len(got) > 1 && host {
			seen["change with a host"]++
		} else if len(got) > 1 {
			seen["change"]++
		}
		if err != nil {
			seen["fault"]++
		}
	}, "change", "change with a host", "fault")
}

// TestFaultIsMetAtTheSameInstant: rapid found that windows of another policy decided when a host's
// fault was met. A freeze passes over it, and where windows that recur every minute were asked
// instead of the freeze, the walk did not pass over it.
func TestFaultIsMetAtTheSameInstant(t *testing.T) {
	day, deny := at("2026-05-05T00:00:00Z"), false
	minutely := clock.Window{RRule: "FREQ=DAILY;BYHOUR=" + each(0, 1, 24) + ";BYMINUTE=" + each(0, 1, 60), DurationMinutes: 1, AllowWindow: &deny}
	host := calendar(t, clock.Window{Recurrence: broken{day.Add(2 * time.Hour)}, DurationMinutes: 1, AllowWindow: &deny}) // it is asked again at 01:00
	for n := 1; n < 8; n++ {
		for begin := 50; begin < 60; begin++ {
			freeze := clock.Window{From: day.Add(time.Duration(begin) * time.Minute), Until: day.Add(2 * time.Hour), AllowWindow: &deny}
			c := clock.Intersect(calendar(t, append(slices.Repeat([]clock.Window{minutely}, n), freeze)...), host)
			got, err := clock.Stretches(c, day, day.Add(3*time.Hour))
			if len(got) != 1 || !got[0].Until.Equal(freeze.Until) || err == nil {
				t.Errorf("%d windows a minute long and a freeze from minute %d on: %v, %v, want the fault at the end of the freeze", n, begin, got, err)
			}
		}
	}
}

// manyDeny are calendars that are closed throughout by as many windows as are wanted, minute by
// minute.
func manyDeny(t testing.TB, kind string, n int) clock.Calendar {
	list := make([]clock.Window, n)
	for i := range list {
		hours, minutes := each(0, 1, 24), each(i%2, 2, 60)
		if kind == "in turn" {
			if n != 480 {
				t.Fatalf("%d windows do not share 1440 minutes", n)
			}
			hours, minutes = each(i%24, 24, 24), each(i/24*3, 1, i/24*3+3)
		}
		deny := false
		list[i] = clock.Window{RRule: "FREQ=DAILY;BYHOUR=" + hours + ";BYMINUTE=" + minutes, DurationMinutes: 1, AllowWindow: &deny}
	}
	return calendar(t, list...)
}

// TestI9ManyWindowsAreAskedSeldom: a walk asks few of many windows. Of those that have the minutes
// in turn it asks only those whose minute it is, and of those that all have every second minute,
// one at a time.
func TestI9ManyWindowsAreAskedSeldom(t *testing.T) {
	const minutes = 100 * 1440
	for _, row := range []struct {
		kind string
		most int
		why  string
	}{
		{"in turn", 3 * minutes, "one window begins in a minute and one ends, and now and then all are asked, which is one more per minute"},
		{"alternately", 4 * minutes, "one that begins, one that ends, and one more as above, which is then known and ends as well"},
	} {
		asked := 0
		c := clock.Counted(manyDeny(t, row.kind, 480), &asked).WithHorizon(minutes * time.Minute)
		if _, err := c.NextOpen(at("2026-01-01T00:00:00Z")); !errors.Is(err, clock.ErrNeverOpen) {
			t.Errorf("%s: %v", row.kind, err)
		}
		if asked == 0 || asked > row.most {
			t.Errorf("%s: %d questions for %d minutes, want at most %d: %s", row.kind, asked, minutes, row.most, row.why)
		}
	}
}

// TestZeroWalk: a walk over no calendar finds nothing.
func TestZeroWalk(t *testing.T) {
	for _, d := range []time.Duration{0, time.Hour} {
		if at, err := new(clock.Walk).AddOpen(d); !errors.Is(err, clock.ErrNeverOpen) {
			t.Errorf("%v: %v, %v", d, at, err)
		}
	}
}
