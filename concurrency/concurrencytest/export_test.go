package concurrencytest

import "context"

// Failures returns the names of the cases that fail.
func Failures(ctx context.Context, newBackend func() Backend) (names []string) {
	for _, c := range cases {
		if c.check(ctx, newBackend()) != nil {
			names = append(names, c.name)
		}
	}
	return names
}
