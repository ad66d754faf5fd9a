// Package brackettest tests implementations of bracket.Store: call [Run] with a function that makes
// an empty one. [FaultStore] injects faults into another store, for tests of everything that is
// built on stores.
package brackettest

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
)

// Run checks that a store keeps the promises of bracket.Store. newStore is called once per case and
// must return an empty store; it may register cleanup with its argument. A failed case prints what
// the promise is for.
//
// One case saves 10,000 records one by one, so a store that writes all it holds with every save
// takes minutes. The last one draws its calls with pgregory.net/rapid: -rapid.checks says how many
// runs it makes, and a run that fails is kept below testdata/rapid.
func Run(t *testing.T, newStore func(*testing.T) bracket.Store) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("why this matters: %s", c.why)
				}
			})
			c.run(&client{TB: t, store: newStore(t)})
		})
	}
	t.Run("agrees with the reference", func(t *testing.T) { agrees(t, newStore(t)) })
}

// agrees compares a store with the reference, call by call.
func agrees(t rapid.TB, store bracket.Store) {
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++ // keys of their own for each run, as the store is shared by all
		machine(r, store, fmt.Sprintf("run %d/", n))
	})
}

// cases are the chapters of the test, one file each.
func cases() []promise { return slices.Concat(saving, racing, values, listing) }

// promise is one case of the test.
type promise struct {
	name string
	why  string // what breaks if a store does not keep it
	run  func(*client)
}
