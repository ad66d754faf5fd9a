package instant_test

import (
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
)

// TestUnset: the zero time.Time and what is before it, in whatever zone, and nothing after it.
func TestUnset(t *testing.T) {
	east := time.FixedZone("", 3600)
	for _, row := range []struct {
		why  string
		at   time.Time
		want bool
	}{
		{"the zero value", time.Time{}, true},
		{"the zero instant in another zone", time.Time{}.In(east), true},
		{"what a database writes for a missing date", time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), true},
		{"a nanosecond before", time.Time{}.Add(-1), true},
		{"a nanosecond after", time.Time{}.Add(1), false},
		{"the first instant of the year 1 by a clock that is ahead", time.Date(1, 1, 1, 0, 0, 0, 0, east), true},
		{"the epoch of computers is an instant", time.Unix(0, 0), false},
	} {
		if got := instant.Unset(row.at); got != row.want {
			t.Errorf("%s: %v", row.why, got)
		}
	}
}
