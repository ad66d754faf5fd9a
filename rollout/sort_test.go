package rollout

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testseed"
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
		if newer(row.newer, row.old) >= 0 || newer(row.old, row.newer) <= 0 {
			t.Errorf("%s: %+v, %+v", row.why, row.newer, row.old)
		}
	}
}

// TestByHash: counting by leading bits gives the order that sorting by (hash, index) does, for
// hashes that are spread evenly, equal, or alike in all leading bits as those of the old order may
// be.
func TestByHash(t *testing.T) {
	seen := testseed.Tally{}
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
