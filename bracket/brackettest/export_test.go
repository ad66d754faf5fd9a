package brackettest

import (
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
)

// Names yields the names of all cases.
func Names() func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, c := range cases() {
			if !yield(c.name) {
				return
			}
		}
	}
}

// Fails reports whether the case of a name fails.
func Fails(t *testing.T, name string, store bracket.Store) bool {
	t.Helper()
	for _, c := range cases() {
		if c.name == name {
			return testkit.Fails(t, func(t testing.TB) { c.run(&client{TB: t, store: store}) })
		}
	}
	t.Fatalf("there is no case %q", name)
	return false
}

// Disagrees reports whether random calls tell a store from the reference.
func Disagrees(t *testing.T, store bracket.Store) bool {
	t.Helper()
	return testkit.FailsAtRandom(t, func(t testing.TB) { agrees(t, store) })
}
