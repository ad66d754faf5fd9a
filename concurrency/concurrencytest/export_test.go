package concurrencytest

import (
	"context"
	"errors"
)

// Failures returns the names of the cases that fail.
func Failures(ctx context.Context, newBackend func() Backend) (names []string) {
	for _, c := range cases {
		if err := c.check(ctx, newBackend()); err != nil && !errors.Is(err, errNotBreakable) {
			names = append(names, c.name)
		}
	}
	return names
}
