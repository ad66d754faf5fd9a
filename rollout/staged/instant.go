package staged

import (
	"math"
	"time"
)

// never is later than every instant, and latest is the last one at which a step can be made: the
// end of 2261.
const (
	never  = math.MaxInt64
	latest = 9_214_646_399_999_999_999
)

// after returns the instant that lies length after another, or never if that is after latest, when
// no host could step. No length is negative.
func after(instant, length int64) int64 {
	if length == never || instant > latest-length {
		return never
	}
	return instant + length
}

// instantOf returns nanoseconds since 1970. Within the years that it accepts, an int64 also holds
// the distance between any two instants, as a stored run has it. Any other time is an error and does
// not wrap around. The zero time is the usual one: of a clock that was never set.
func instantOf(now time.Time) (int64, *FieldError) {
	if now.IsZero() {
		return 0, &FieldError{Code: CodeInput, Path: "now", Hint: "must be set to the present instant"}
	}
	if year := now.UTC().Year(); year < 1970 || year > 2261 {
		return 0, &FieldError{Code: CodeInput, Path: "now", Value: now.UTC().Format(time.RFC3339), Hint: "must be within the years 1970 and 2261"}
	}
	return now.UnixNano(), nil
}

func timeOf(instant int64) time.Time { return time.Unix(0, instant).UTC() }

// noted is an instant that may be missing, plus a nanosecond: zero means that it has not happened, or
// that the version of this package which made the step did not record it. The first instant that
// there is can be noted as any other.
type noted int64

func notedAt(instant int64) noted { return noted(instant + 1) }

func (n noted) known() bool    { return n != 0 }
func (n noted) instant() int64 { return int64(n) - 1 }

// time returns the zero time if nothing is noted.
func (n noted) time() time.Time {
	if !n.known() {
		return time.Time{}
	}
	return timeOf(n.instant())
}
