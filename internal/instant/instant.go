// Package instant tells which instants are none. All packages that take instants from a host share
// the rule, which the documentation of the module states.
package instant

import "time"

// Unset reports whether an instant is none: the zero time.Time, or one before it, because some
// databases write the year 0 for a missing date.
func Unset(at time.Time) bool { return !at.After(time.Time{}) }
