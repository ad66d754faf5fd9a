package rollout

import (
	"math"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
)

// addTime adds without wrapping, in UTC: an instant beyond the range of nanoseconds since 1970
// becomes the last one that is within it.
func addTime(t time.Time, d time.Duration) time.Time {
	sum := t.Add(d).UTC()
	if sum.After(lastInstant()) {
		return lastInstant()
	}
	return sum
}

// later returns the later of two instants.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sooner returns the earlier of two instants; a zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func lastInstant() time.Time { return time.Unix(0, math.MaxInt64).UTC() }

// created adds a fault if an instant that is required is none. One before that of the zero
// time.Time is none as well, because some databases write the year 0 for a missing date.
func (f *faults) created(path string, at time.Time, why string) {
	switch {
	case at.IsZero():
		f.add(path, CodeRequired, nil, "is required: %s", why)
	case instant.Unset(at):
		f.add(path, CodeOutOfRange, at.UTC().Format(time.RFC3339), "must be in the year 1 or later: %s; some databases write the year 0 for none", why)
	}
}

// wakeup is the first instant after now at which the host has to look again, because something that
// was told of it may change by itself.
type wakeup struct {
	now  time.Time
	next time.Time // zero: never
}

// wake has the host look again at an instant, unless it does so earlier. One that is not after now
// is none, nor is one after the last instant, at which nobody can plan. Like every instant in a
// plan, the next one is in UTC, whatever zone the host uses: of two equal instants it must not
// matter which comes first.
func (u *wakeup) wake(at time.Time) {
	if at.After(u.now) && (u.next.IsZero() || at.Before(u.next)) && !at.After(lastInstant()) {
		u.next = at.UTC()
	}
}

// wakeBefore is wake for the instant from which on less than d is left until closes, and to
// closes itself if d is 0. A zero closes stands for never.
func (u *wakeup) wakeBefore(closes time.Time, d time.Duration) {
	if d > 0 {
		closes = closes.Add(1 - d)
	}
	u.wake(closes)
}
