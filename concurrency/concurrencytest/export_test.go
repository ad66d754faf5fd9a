package concurrencytest

import (
	"context"
	"errors"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// Cases returns the number of the cases before the random histories.
func Cases() int { return len(cases) }

// Failures returns the names of the cases that fail.
func Failures(ctx context.Context, newBackend func() Backend) (names []string) {
	for _, c := range cases {
		if err := c.check(ctx, newBackend()); err != nil && !errors.Is(err, errNotBreakable) {
			names = append(names, c.name)
		}
	}
	return names
}

// Diverges reports whether random histories tell a backend from the reference.
func Diverges(t *testing.T, newBackend func() Backend) bool {
	t.Helper()
	return testkit.FailsAtRandom(t, func(t testing.TB) { histories(t, newBackend) })
}
