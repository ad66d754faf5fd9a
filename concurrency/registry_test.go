package concurrency

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRegistryIsAMap: whatever the hashes are, equal ones and those with equal tags included, the registry answers as a map does.
func TestRegistryIsAMap(t *testing.T) {
	found, missed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringN(0, 3, -1), rapid.ID[string]).Draw(t, "names")
		hashOf := func(name string) uint64 { return hash(name) }
		if rapid.Bool().Draw(t, "few hashes") {
			hashOf = func(name string) uint64 { return uint64(len(name)) << 20 }
		}
		r, plain := newRegistry(rapid.IntRange(0, 8).Draw(t, "estimate")), map[string]int32{}
		for i, name := range names {
			if i%3 == 0 {
				continue // is asked for and never added
			}
			r.add(name, hashOf(name), int32(i))
			plain[name] = int32(i)
		}
		for _, name := range names {
			want, ok := plain[name]
			if !ok {
				want = none
				missed++
			} else {
				found++
			}
			if got := r.find(name, hashOf(name)); got != want {
				t.Fatalf("%q: %d, want %d", name, got, want)
			}
		}
	})
	if found == 0 || missed == 0 {
		t.Errorf("found %d, missed %d", found, missed)
	}
}

// TestSortTexts: the order is that of the bytes, shared beginnings, embedded zeros and different lengths included.
func TestSortTexts(t *testing.T) {
	sortTexts(nil) // must not look at a first text
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringN(0, 12, -1).Draw(t, "prefix")
		texts := rapid.SliceOf(rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 255}), 0, 12),
			func(tail []byte) string { return prefix + string(tail) })).Draw(t, "texts")
		want := slices.Sorted(slices.Values(texts))
		if !slices.Equal(texts, want) {
			moved++
		}
		sortTexts(texts)
		if !slices.Equal(texts, want) {
			t.Fatalf("%q, want %q", texts, want)
		}
	})
	if moved == 0 {
		t.Error("everything was in order already")
	}
}
