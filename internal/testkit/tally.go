package testkit

import (
	"slices"

	"pgregory.net/rapid"
)

// Tally counts what the runs of a property reach, so that a property that never reaches what it is
// about fails:
//
//	seen := testkit.Tally{}
//	seen.Check(t, func(t *rapid.T) {
//		...
//		seen["crash"]++
//	}, "crash", "retry")
//
// It is an ordinary map, for tests that do not run in parallel.
type Tally map[string]int

// runs is the number of runs within which every outcome must be reached.
const runs = 20_000

// Check checks a property, again and again with other seeds until every outcome has been reached.
// So rare outcomes neither go unseen nor fail a test by bad luck, however few checks a run asks
// for. An outcome that 20,000 runs do not reach is a failure. With [Race] it checks once: what a
// property means is the matter of runs without the detector.
func (c Tally) Check(t rapid.TB, property func(*rapid.T), outcomes ...string) {
	t.Helper()
	unseen := func() []string {
		return slices.DeleteFunc(slices.Clone(outcomes), func(outcome string) bool { return c[outcome] > 0 })
	}
	defer Reset(Current())
	for left := runs; left > 0; {
		rapid.Check(t, func(t *rapid.T) { // which does not return if it fails
			left--
			property(t)
		})
		if Race || len(unseen()) == 0 {
			break
		}
		if seed := Current(); seed != 0 { // a random one stays random
			Reset(seed + 1<<32) // far from the seeds of single checks, which follow closely
		}
	}
	t.Logf("reached: %v", map[string]int(c))
	if list := unseen(); len(list) > 0 && !Race {
		t.Errorf("never reached: %q", list)
	}
}
