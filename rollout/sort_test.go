package rollout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testseed"
)

// TestByHash: counting by leading bits gives the order that sorting by (hash, index) does, for hashes that are spread evenly, equal, or
// alike in all leading bits as those of the old order may be.
func TestByHash(t *testing.T) {
	seen := testseed.Tally{}
	seen.Check(t, func(t *rapid.T) {
		number := rapid.Uint64()
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			number = rapid.Uint64Range(0, 5)
		case 1:
			number = rapid.Map(rapid.Uint64Range(0, 3), func(n uint64) uint64 { return n << 62 })
		}
		n := rapid.IntRange(0, 200).Draw(t, "n")
		keys := rapid.SliceOfN(number, n, n).Draw(t, "keys")
		want := make([]ranked, len(keys))
		for i, key := range keys {
			want[i] = ranked{key, int32(i)}
		}
		slices.SortFunc(want, ranked.compare)
		if got := byHash(keys); !slices.Equal(got, want) {
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
