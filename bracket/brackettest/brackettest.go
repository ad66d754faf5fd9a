// Package brackettest tests implementations of bracket.Store: call [Run] with a function that
// returns an empty store. [History] checks what several clients were told while servers were
// killed or connections cut. [FaultStore] injects faults into another store, for tests of code that
// uses stores.
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
// Run sees only the store that newStore returns. One that keeps its writers apart by a lock within
// the process passes, and yet two processes would overwrite each other's records. If planners of
// several processes are to share the storage, test that too: return a store that passes each call on
// to one of several clients in turn, which have nothing but the storage in common. What goes wrong
// only while servers fail is for a [History] to find.
//
// One case saves 10,000 records one by one, so a store that writes all its records with every save
// takes minutes. The last case draws random calls with pgregory.net/rapid: -rapid.checks sets the
// number of its runs, and a run that fails is kept below testdata/rapid.
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
		n++ // each run has its own keys, because all runs share the store
		machine(r, store, fmt.Sprintf("run %d/", n))
	})
}

// cases returns the cases of the test, which are in one file per topic.
func cases() []promise { return slices.Concat(saving, racing, values, listing) }

// promise is one case of the test.
type promise struct {
	name string
	why  string // what breaks if a store does not keep it
	run  func(*client)
}
