package clock_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// next is a host's recurrence made of a function.
type next func(time.Time) time.Time

func (n next) Next(t time.Time) time.Time { return n(t) }

// firstOfMonth starts at local midnight of every first day of a month, in the zone in which it is
// asked.
func firstOfMonth(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, t.Location())
}

func TestHostRecurrence(t *testing.T) {
	c := calendar(t, clock.Window{Recurrence: next(firstOfMonth), DurationMinutes: 24 * 60, Timezone: "America/New_York"})
	want := []string{"2026-03-01T05:00:00Z 2026-03-02T05:00:00Z", "2026-04-01T04:00:00Z 2026-04-02T04:00:00Z"}
	if diff := cmp.Diff(want, intervals(c, at("2026-02-02T05:00:00Z"), at("2026-04-20T00:00:00Z"))); diff != "" {
		t.Errorf("a recurrence is asked in the window's zone: want -, got +\n%s", diff)
	}
	if got := intervals(c, at("2026-03-01T12:00:00Z"), at("2026-03-01T13:00:00Z")); !cmp.Equal(got, []string{"2026-03-01T12:00:00Z 2026-03-01T13:00:00Z"}) {
		t.Errorf("in the middle of an occurrence: %v", got)
	}
	// Whatever the question is for, and whatever zone the answers are in.
	dense := calendar(t, clock.Window{DurationMinutes: 60, Timezone: "America/New_York", Recurrence: next(func(u time.Time) time.Time {
		if zone := u.Location().String(); zone != "America/New_York" {
			t.Errorf("asked in %s", zone)
		}
		return u.Truncate(10 * time.Minute).Add(10 * time.Minute).UTC()
	})})
	if got := dense.WithHorizon(6 * time.Hour).NextClose(at("2026-03-01T00:00:00Z")); !got.IsZero() {
		t.Errorf("closed at %v", got)
	}
	// Occurrences longer than the distance of starts are one stretch.
	long := calendar(t, clock.Window{Recurrence: next(firstOfMonth), DurationMinutes: 40 * 24 * 60})
	if got := long.NextClose(at("2026-03-15T00:00:00Z")); !got.IsZero() {
		t.Errorf("closed at %v", got)
	}
	// Calendars end with the year 9999, and so does what fits.
	last := calendar(t, clock.Window{DurationMinutes: 120, Recurrence: next(func(t time.Time) time.Time {
		if start := at("9999-12-31T23:00:00Z"); t.Before(start) {
			return start
		}
		return time.Time{}
	})})
	if u, err := last.NextFit(at("9999-12-31T00:00:00Z"), time.Hour); err != nil || !u.Equal(at("9999-12-31T23:00:00Z")) {
		t.Errorf("the last hour: %v, %v", u, err)
	}
	if u, err := last.NextFit(at("9999-12-31T00:00:00Z"), 2*time.Hour); !errors.Is(err, clock.ErrNeverFits) {
		t.Errorf("two hours in the last one: %v, %v", u, err)
	}
	// They begin with the year 1, where what a recurrence says of its end, the zero time, is the time
	// of the question.
	early := calendar(t, clock.Window{DurationMinutes: 60, Recurrence: next(func(t time.Time) time.Time {
		if start := at("0001-01-01T00:00:00Z").Add(-30 * time.Minute); t.Before(start) {
			return start
		}
		return time.Time{}
	})})
	if got := early.NextClose(at("0001-01-01T00:10:00Z")); !got.Equal(at("0001-01-01T00:30:00Z")) {
		t.Errorf("the only occurrence ends at %v", got)
	}
	// Beside another allow window it closes nothing: allow windows are united.
	united := calendar(t, parse(t, daily("09:00", "17:00")), clock.Window{Recurrence: next(firstOfMonth), DurationMinutes: 60})
	if !united.Open(at("2026-03-15T12:00:00Z")) || !united.Open(at("2026-04-01T00:30:00Z")) || united.Open(at("2026-03-15T18:00:00Z")) {
		t.Error("a calendar with a window of the host is not open where another window is")
	}
	// One that has come to its end.
	end := at("2026-05-01T00:00:00Z")
	twice := calendar(t, clock.Window{DurationMinutes: 60, Recurrence: next(func(t time.Time) time.Time {
		if u := firstOfMonth(t); !u.After(end) {
			return u
		}
		return time.Time{}
	})})
	if u, err := twice.NextOpen(at("2026-04-02T00:00:00Z")); err != nil || !u.Equal(end) {
		t.Errorf("the last start: %v, %v", u, err)
	}
	if u, err := twice.NextOpen(at("2026-05-01T01:00:00Z")); !errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("after the last: %v, %v", u, err)
	}
}

// TestI9StartsCloseToOneAnother: what starts a thousand million times a second takes no more
// questions than its length.
func TestI9StartsCloseToOneAnother(t *testing.T) {
	from := at("2026-03-15T00:00:00Z")
	minute := from.Add(time.Minute)
	for _, row := range []struct {
		why    string
		period time.Duration
		last   time.Duration // of the starts, after from
		now    time.Time
		closes time.Time
		asked  int // at most
	}{
		{"one", time.Hour, 0, from, minute, 8},
		{"three steps, each to the end of the last that has started", 50 * time.Second, 100 * time.Second, from, from.Add(160 * time.Second), 20},
		{"they just touch", time.Minute, time.Hour, from, minute.Add(time.Hour), 400},
		{"a nanosecond is between them", time.Minute + 1, time.Hour, from.Add(40 * time.Second), minute, 8},
		{"many, and the last is found", 1, time.Hour, from, minute.Add(time.Hour), 1000},
		{"many at once, long ago", 1, 1000, minute.Add(-1), minute.Add(1000), 400},
		{"never closed within the horizon", 1, 48 * time.Hour, from, time.Time{}, 8 * 24 * 60},
	} {
		asked := 0
		c := calendar(t, clock.Window{DurationMinutes: 1, Recurrence: next(func(t time.Time) time.Time {
			asked++
			u := from
			if !t.Before(from) {
				u = from.Add((t.Sub(from)/row.period + 1) * row.period)
			}
			if u.Sub(from) > row.last {
				return time.Time{}
			}
			return u
		})}).WithHorizon(24 * time.Hour)
		if got := c.NextClose(row.now); !got.Equal(row.closes) {
			t.Errorf("%s: closed at %v, want %v", row.why, got, row.closes)
		}
		if asked > row.asked {
			t.Errorf("%s: asked %d times, more than %d", row.why, asked, row.asked)
		}
	}
}

// TestHostRecurrenceIsTheUnion compares a window of starts in any distance with the union of its
// occurrences, put together one by one.
func TestHostRecurrenceIsTheUnion(t *testing.T) {
	from := at("2026-03-15T00:00:00Z")
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		minutes := rapid.IntRange(1, 3).Draw(t, "minutes")
		gap := rapid.OneOf(rapid.SampledFrom([]int64{1, 2, int64(time.Minute) - 1, int64(time.Minute), int64(time.Minute) + 1}), rapid.Int64Range(1, int64(4*time.Minute)))
		var starts []time.Time
		var want []string
		var begin, end time.Time
		flush := func() {
			if !end.IsZero() {
				want = append(want, begin.Format(time.RFC3339Nano)+" "+end.Format(time.RFC3339Nano))
			}
		}
		for start, gaps := from, rapid.SliceOfN(gap, 1, 40).Draw(t, "gaps"); len(gaps) > 0; gaps = gaps[1:] {
			start = start.Add(time.Duration(gaps[0]))
			starts = append(starts, start)
			if end.IsZero() || start.After(end) {
				flush()
				begin = start
				seen["apart"]++
			} else {
				seen["joined"]++
			}
			end = start.Add(time.Duration(minutes) * time.Minute)
		}
		flush()
		c, err := clock.NewCalendar([]clock.Window{{DurationMinutes: clock.Minutes(minutes), Recurrence: next(func(t time.Time) time.Time {
			for _, start := range starts {
				if start.After(t) {
					return start
				}
			}
			return time.Time{}
		})}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := intervals(c, from, end.Add(time.Hour)); !slices.Equal(got, want) {
			t.Fatalf("%d minutes from %v: got %v, want %v", minutes, starts, got, want)
		}
	}, "apart", "joined")
}

func TestHostRecurrenceAtFault(t *testing.T) {
	now := at("2026-03-15T00:20:00Z")
	check := unique(t)
	for _, row := range []struct {
		name string
		next next
		why  string
	}{
		{"stands still", func(t time.Time) time.Time { return t }, "not strictly after the question: a loop otherwise"},
		{"always the same", func(time.Time) time.Time { return now.Add(-time.Hour) }, "not after the question, though just before it the answer is right"},
		{"runs back", func(t time.Time) time.Time { return t.Add(-time.Hour) }, "not after the question"},
		{"slides", func(t time.Time) time.Time { return t.Add(time.Hour) }, "an hour from now, whenever asked, is no sequence"},
		{"slides in whole seconds", func(t time.Time) time.Time { return t.Truncate(time.Second).Add(time.Hour) }, "as robfig/cron's Every does"},
		{"stops in the end", func(t time.Time) time.Time {
			if t.After(now.Add(30 * time.Hour)) {
				return t
			}
			return t.Truncate(time.Hour).Add(time.Hour)
		}, "found out where it happens"},
	} {
		t.Run(row.name, func(t *testing.T) {
			check(row.name, row.why)
			for _, allow := range []bool{true, false} {
				always := parse(t, daily("00:00", "24:00"))
				of := func(minutes clock.Minutes) clock.Window {
					return clock.Window{Recurrence: row.next, DurationMinutes: minutes, AllowWindow: &allow}
				}
				c := calendar(t, always, of(20), of(50))
				faulty := func(what string, err error) {
					t.Helper()
					var bad *clock.FieldError
					if !errors.As(err, &bad) || bad.Code != clock.CodeRecurrenceInvalid || bad.Path != "windows[1].recurrence" && bad.Path != "windows[2].recurrence" {
						t.Errorf("%s, allow %v: %v, want recurrence_invalid", what, allow, err)
					}
				}
				_, err := c.OpenBetween(now, now.Add(48*time.Hour))
				faulty("OpenBetween", err)
				_, err = c.NextFit(now, 36*time.Hour)
				faulty("NextFit", err)
				_, err = c.AddOpen(now, 40*time.Hour)
				faulty("AddOpen", err)
				walk := c.Walk(now)
				for range 2 {
					_, err = walk.AddOpen(40 * time.Hour)
					faulty("Walk", err)
				}
				later := now.Add(32 * time.Hour)
				if c.Open(later) || calendar(t, of(20), always, of(50)).Open(later) || calendar(t, of(20), of(50), always).Open(later) {
					t.Errorf("open at %v, where a window cannot be known", later)
				}
				if got := c.NextClose(later); !got.Equal(later) {
					t.Errorf("NextClose(%v) = %v", later, got)
				}
				for _, c := range []clock.Calendar{c, calendar(t, of(20), always, of(50)), calendar(t, of(20), of(50), always)} {
					end := now
					for _, e := range c.Intervals(now, now.Add(1000*time.Hour)) {
						end = e
					}
					if end.After(later) {
						t.Errorf("intervals go on until %v", end)
					}
				}
			}
		})
	}
	// Where calendars end nobody is asked, so nothing can be at fault.
	beyond := calendar(t, clock.Window{Recurrence: next(func(t time.Time) time.Time { return t }), DurationMinutes: 60})
	if _, err := beyond.NextOpen(at("9999-12-31T23:59:59Z").Add(time.Second)); !errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("in the year 10000: %v", err)
	}
	// What it says in the middle of an occurrence is not taken for a later start: that would lead
	// back.
	back := calendar(t, clock.Window{DurationMinutes: 20, Recurrence: next(func(t time.Time) time.Time {
		if start := now.Add(-15 * time.Minute); !t.Before(now.Add(-20*time.Minute)) && t.Before(start) {
			return start
		}
		return t.Add(-10 * time.Hour)
	})})
	if got := intervals(back, now, now.Add(time.Hour)); !cmp.Equal(got, []string{"2026-03-15T00:20:00Z 2026-03-15T00:25:00Z"}) {
		t.Errorf("until the recurrence runs back: %v", got)
	}
	// An allow window at fault is no licence either.
	c := calendar(t, clock.Window{Recurrence: next(func(t time.Time) time.Time { return t }), DurationMinutes: 60})
	if c.Open(now) || !c.NextClose(now).Equal(now) {
		t.Error("open by a recurrence at fault")
	}
	if _, err := c.NextOpen(now); err == nil || errors.Is(err, clock.ErrNeverOpen) {
		t.Errorf("a fault is not the same as never: %v", err)
	}
	w := clock.Window{Recurrence: next(firstOfMonth), Anchor: "2025-01-06T00:00", Gap: clock.GapSkip, Overlap: clock.OverlapLast}
	wanted := []string{"durationMinutes duration_invalid", "anchor recurrence_invalid", "gap recurrence_invalid", "overlap recurrence_invalid"}
	if diff := cmp.Diff(wanted, found(t, w.Validate())); diff != "" {
		t.Errorf("a recurrence keeps its own rules: want -, got +\n%s", diff)
	}
	once := clock.Window{From: now, Until: now.Add(time.Hour), Gap: clock.GapSkip}
	if here, there := w.Validate().Error(), once.Validate().Error(); !strings.Contains(here, "gap: means nothing beside a recurrence") || !strings.Contains(there, "gap: means nothing beside from and until") {
		t.Errorf("what it means nothing beside:\n%s\n%s", here, there)
	}
}
