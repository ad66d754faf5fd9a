package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestNewer: two jobs that differ in anything have an order, so that the order of the input says
// nothing. The newer of each pair comes first.
func TestNewer(t *testing.T) {
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		why        string
		newer, old Job
	}{
		{"it was created later", Job{CreatedAt: at.Add(1)}, Job{CreatedAt: at, Run: "b"}},
		{"a rollback is the answer to another one", Job{CreatedAt: at, Run: "a/rollback"}, Job{CreatedAt: at, Run: "b"}},
		{"the run id", Job{CreatedAt: at, Run: "b", Version: "v1"}, Job{CreatedAt: at, Run: "a", Version: "v2"}},
		{"the version", Job{CreatedAt: at, Version: "v2", Status: "a"}, Job{CreatedAt: at, Version: "v1", Status: "b"}},
		{"the status", Job{CreatedAt: at, Status: "b"}, Job{CreatedAt: at, Status: "a", CompletedAt: at}},
		{"the end", Job{CreatedAt: at, CompletedAt: at.Add(1)}, Job{CreatedAt: at, CompletedAt: at, Verification: "x"}},
		{"the verification alone: one that failed takes the target back, and one that runs does not", Job{CreatedAt: at, Verification: "running"}, Job{CreatedAt: at, Verification: "failed"}},
	} {
		if newer(&row.newer, &row.old) >= 0 || newer(&row.old, &row.newer) <= 0 {
			t.Errorf("%s: %+v, %+v", row.why, row.newer, row.old)
		}
	}
}

// TestByHash: counting by leading bits gives the order that sorting by (hash, index) does, for
// hashes that are spread evenly, equal, or alike in all leading bits as those of the old order may
// be.
func TestByHash(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		number := rapid.Uint64()
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			number = rapid.Uint64Range(0, 5)
		case 1:
			number = rapid.Map(rapid.Uint64Range(0, 3), func(n uint64) uint64 { return n << 62 })
		case 2: // alike but for the last bits, which are not beside the index
			number = rapid.Map(rapid.Uint64Range(0, 3), func(n uint64) uint64 { return 7<<61 | n })
		}
		n := rapid.IntRange(0, 200).Draw(t, "n")
		keys := rapid.SliceOfN(number, n, n).Draw(t, "keys")
		want, got := make([]int32, len(keys)), make([]int32, 0, len(keys))
		for i := range keys {
			want[i] = int32(i)
		}
		slices.SortStableFunc(want, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
		for _, e := range byHash(keys) {
			got = append(got, e.index())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if len(keys) > 100 {
			seen["large"]++
		}
	}, "large")
}

// TestAscending: numbers come out in order, each once.
func TestAscending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfDistinct(rapid.Int32Range(0, 300), rapid.ID[int32]).Draw(t, "numbers")
		want := slices.Sorted(slices.Values(numbers))
		if ascending(numbers, 301); !slices.Equal(numbers, want) {
			t.Fatalf("%v, want %v", numbers, want)
		}
	})
}

// TestTakeTurns: candidates ask for slots in the order of a plain sort, whether they are due evenly
// spread over time, at once, or thousands of years apart, as a version without a date of its own is
// from the others.
func TestTakeTurns(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"at once", "spread", "far apart"}).Draw(t, "kind")
		due := rapid.Map(rapid.Int64Range(0, map[string]int64{"at once": 2, "spread": 1 << 50, "far apart": 2}[kind]), func(n int64) time.Time {
			if kind == "far apart" {
				return time.Time{}.AddDate(int(n)*400, 0, 0)
			}
			return time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC).Add(time.Duration(n))
		})
		n := rapid.IntRange(0, 200).Draw(t, "n")
		w := work{index: &index{}}
		var versions []Version
		if rapid.Bool().Draw(t, "with priorities") {
			for range 3 {
				versions = append(versions, Version{Priority: rapid.SampledFrom([]int{0, 0, 1, -1, math.MaxInt, math.MinInt}).Draw(t, "priority")})
			}
		} else {
			versions = make([]Version, 3)
		}
		for k := range versions {
			versions[k].ID, versions[k].Deployment = fmt.Sprint("v", k), fmt.Sprint("d", k%2)
		}
		w.deployments = []Deployment{{ID: "d0"}, {ID: "d1"}}
		w.indexVersions(&faults{}, versions)
		targets := make([]int32, n)
		for i := range targets {
			w.targets = append(w.targets, target{resource: int32(i) / 2, deployment: int32(i) % 2})
			targets[i] = int32(i)
		}
		for _, i := range rapid.Permutation(targets).Draw(t, "targets") {
			number := rapid.Int32Range(missing, 1).Draw(t, "version") // of d1 there is one version
			if number == 1 && i%2 == 1 {
				number = 0
			}
			c := newCandidate(i, number, due.Draw(t, "due"), rapid.Int32Range(0, 2).Draw(t, "position"))
			if c.revert = rapid.IntRange(0, 9).Draw(t, "back") == 0; c.revert {
				seen["goes back, "+kind]++
			}
			w.candidates.push(c)
		}
		want := make([]int32, n)
		for k := range want {
			want[k] = int32(k)
		}
		slices.SortFunc(want, func(a, b int32) int {
			x, y := w.candidates.at(a), w.candidates.at(b)
			if x.revert != y.revert {
				if x.revert {
					return -1
				}
				return 1
			}
			of := func(c *candidate) int { // of a version that the snapshot does not hold: 0
				if c.version < 0 {
					return 0
				}
				return w.versions[c.target%2].list[c.version].Priority
			}
			if of(x) != of(y) && !x.revert {
				seen["by priority"]++
				return cmp.Compare(of(y), of(x))
			}
			return cmp.Or(cmp.Compare(x.seconds, y.seconds), cmp.Compare(x.nanoseconds, y.nanoseconds), cmp.Compare(x.position, y.position), cmp.Compare(x.target, y.target))
		})
		if w.sortBatch(); !slices.Equal(w.batch, want) {
			t.Fatalf("batch %v, want %v", w.batch, want)
		}
		if n > 20 {
			seen["many, "+kind]++
		}
	}, "by priority", "many, at once", "many, spread", "many, far apart", "goes back, at once", "goes back, spread", "goes back, far apart")
}
