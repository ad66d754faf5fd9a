package rollout

import (
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
)

// What overrides and freezes have in common: somebody gives them for a part of the fleet, under an
// id, and for a time.

// validateEach validates what people have decided, each decision under an id of its own.
func validateEach[T any](f *faults, name string, list []T, validate func(*T, string, *faults), id func(*T) string) {
	ids := map[string]bool{}
	for i := range list {
		validate(&list[i], fmt.Sprintf("%s[%d]", name, i), f)
		own := id(&list[i])
		if ids[own] && own != "" {
			f.add(fmt.Sprintf("%s[%d].id", name, i), CodeDuplicate, own, "is the id of two %s: ids are unique", name)
		}
		ids[own] = true
	}
}

// inForce adds the faults of a decision that is never in force: it begins when it is created, and
// ends before it expires, if it ever does.
func (f *faults) inForce(path string, created, expires time.Time, what string) {
	if instant.Unset(created) {
		f.created(join(path, "createdAt"), created, what+" begins then")
	} else if until := endOf(expires); !until.IsZero() && !created.Before(until) {
		f.add(join(path, "expiresAt"), CodeConflict, nil, "must be after createdAt, or %s would never be active", what)
	}
}

// endOf returns the instant at which something expires, in UTC; zero: never.
func endOf(expires time.Time) time.Time {
	if instant.Unset(expires) {
		return time.Time{}
	}
	return expires.UTC()
}

// expired reports whether something has expired by an instant.
func expired(expires, at time.Time) bool {
	until := endOf(expires)
	return !until.IsZero() && !at.Before(until)
}

// reportable returns an end as verdicts tell it: none if nobody can plan any more by then. One of
// the last day of 9999 may be in the year 10000 in UTC, of which there is no JSON.
func reportable(end time.Time) time.Time {
	if end.After(lastInstant()) {
		return time.Time{}
	}
	return end
}

// unknown says which of three ids the snapshot does not hold; "" if it holds those that are given.
func (w *work) unknown(resource, environment, deployment string) string {
	if _, known := w.resource(resource); !known && resource != "" {
		return "there is no such resource"
	}
	if _, known := w.environment(environment); !known && environment != "" {
		return "there is no such environment"
	}
	if _, known := w.deployment(deployment); !known && deployment != "" {
		return "there is no such deployment"
	}
	return ""
}
