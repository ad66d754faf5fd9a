// Package clock answers when something may happen: a [Calendar] holds the windows in which a policy
// allows or denies it, in the time zones of the people who wrote them. Build one with
// [NewCalendar], then ask [Calendar.Open] whether it is open at an instant, or [Calendar.NextOpen]
// when it opens:
//
//	calendar, err := clock.NewCalendar(windows, time.LoadLocation)
//	opens, err := calendar.NextOpen(now)
//	fmt.Println(calendar) // the windows, as in: open mon-fri 22:00 to 04:00 Europe/Berlin
//
// The package also has the [Clock] from which hosts read the present instant: [System], and [Fake]
// for tests. The planners of this module never see a Clock: they take now as an argument, so that
// the same input gives the same plan.
//
// Nothing here starts a timer, sleeps or loads zone data by itself, and only [System] reads the
// machine's clock. A calendar returns the instant at which looking again can help, and the host
// waits for it in its own way; to test a host that sleeps, use testing/synctest.
//
// # Windows
//
// A [Window] recurs on days of the week, by an rrule of RFC 5545, or by a [Recurrence] of the host;
// or it is one interval. A calendar is open inside its allow windows, or everywhere if it has none,
// except inside its deny windows.
//
//  1. Every interval is half-open, without tolerance: it includes its start and excludes its end.
//  2. Days are the local days on which a window starts: a Friday night window from 22:00 to 04:00
//     is open on Saturday at 02:00.
//  3. A recurrence of every second day, week or month is counted from its anchor, never from the
//     instant asked about. The same question has the same answer, whenever and however often it is
//     asked.
//  4. A fault is an error, never a guess: an unknown zone is not UTC, and an rrule beyond the
//     subset is refused, not shortened.
//  5. Every search ends: at the horizon of the calendar, five years after the instant asked about
//     unless set otherwise.
//
// # Where clocks are changed
//
// A local clock skips some readings and shows others twice. For a reading, First is the first
// instant at which the clock is at or past the reading, and Last is the first instant after which
// the clock is never again before it. Away from changes they are the same.
//
//   - A start that the clock skips is at First, which is the end of the gap; or, with [GapSkip],
//     there is no occurrence on that day.
//   - A start that the clock shows twice is at First; or, with [OverlapLast], at the second pass,
//     even where the clock is set back to exactly that reading. No time of day has two occurrences
//     on one day.
//   - A length in minutes is elapsed time: six hours from 22:00 may end at 03:00 or at 05:00.
//   - An end by the clock is a reading. An allow window ends as soon as the clock is at or past it;
//     a deny window ends when the clock is never again before it. So no reading inside a deny
//     window is open, unless its author chooses the second pass of its start with [OverlapLast], or
//     no occurrence with [GapSkip].
//   - An occurrence whose start and end lie in the same gap has no length and is left out, as is
//     one on a date that does not exist.
//
// time.Date is not used for any of this, because it does not say which side of a gap it picks.
package clock
