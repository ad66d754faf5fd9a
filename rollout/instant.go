package rollout

import (
	"math"
	"time"
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

// sooner returns the earlier of two instants; a is zero if there is none yet.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

func lastInstant() time.Time { return time.Unix(0, math.MaxInt64).UTC() }
