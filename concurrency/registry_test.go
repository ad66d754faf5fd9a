package concurrency

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestRegistryIsAMap: whatever the hashes are, equal ones and those with equal tags included, the
// registry answers as a map does, of entries, of starts, and of starts that became entries.
func TestRegistryIsAMap(t *testing.T) {
	tally := testkit.Tally{}
	tally.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringN(0, 3, -1), rapid.ID[string]).Draw(t, "names")
		hashOf := func(name string) uint64 { return hash(name) }
		if rapid.Bool().Draw(t, "few hashes") {
			hashOf = func(name string) uint64 { return uint64(len(name)) << 32 }
		}
		r := newRegistry(rapid.IntRange(0, 8).Draw(t, "resources"), rapid.IntRange(0, 8).Draw(t, "starts"))
		r.starter = func(start int32) string { return names[start] }
		entries := map[string]int32{}
		for i, name := range names {
			switch i % 4 {
			case 0: // is asked for and never added
			case 1:
				entries[name] = r.add(name, hashOf(name))
			default:
				r.addStart(hashOf(name), i)
			}
			if i%4 == 3 {
				entries[name] = r.enter(r.seek(name, hashOf(name)), name)
			}
		}
		for i, name := range names {
			slot := r.seek(name, hashOf(name))
			if i%4 == 0 {
				if tally["missed"]++; slot != none {
					t.Fatalf("%q was never added", name)
				}
				continue
			}
			if slot == none {
				t.Fatalf("%q is lost", name)
			}
			start, is := startOf(r.slots[slot])
			if is != (i%4 == 2) || is && int(start) != i {
				t.Fatalf("%q: start %d %v, want %d", name, start, is, i)
			}
			if is {
				tally["start"]++
				continue
			}
			tally["entry"]++
			if who := r.find(name, hashOf(name)); who != entries[name] || r.entries[who].resource != name || r.entries[who].first != none {
				t.Fatalf("%q: %d %+v, want %d", name, who, r.entries[who], entries[name])
			}
		}
		if len(entries) != len(r.entries) || 5*r.used > 4*len(r.slots) {
			t.Fatalf("%d entries of %d, %d slots of %d", len(r.entries), len(entries), r.used, len(r.slots))
		}
	}, "missed", "start", "entry")
}

// TestRegistrySize: it is large enough for what it is made for, and no larger than twice that.
func TestRegistrySize(t *testing.T) {
	for _, n := range []int{0, 12, 13, 100, 1000, 100_000} {
		r := newRegistry(n/2, n-n/2)
		slots := len(r.slots)
		if 4*slots < 5*n || slots > 16 && 2*slots > 5*n {
			t.Errorf("%d slots for %d", slots, n)
		}
		for i := range n {
			r.addStart(hash(fmt.Sprint("node-", i)), i)
		}
		if len(r.slots) != slots {
			t.Errorf("n=%d: %d slots became %d", n, slots, len(r.slots))
		}
	}
}

// TestSortedTexts: the order is that of the bytes, shared beginnings, embedded zeros and different
// lengths included; the input stays as it is.
func TestSortedTexts(t *testing.T) {
	if got := sortedTexts([]string{"a", "a", "b"}); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q: in order, but not distinct", got)
	}
	tally := testkit.Tally{}
	tally.Check(t, func(t *rapid.T) {
		prefix := rapid.StringN(0, 12, -1).Draw(t, "prefix")
		texts := rapid.SliceOf(rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 255}), 0, 12),
			func(tail []byte) string { return prefix + string(tail) })).Draw(t, "texts")
		before := slices.Clone(texts)
		want := slices.Compact(slices.Sorted(slices.Values(texts)))
		got := sortedTexts(texts)
		if !slices.Equal(got, want) || !slices.Equal(texts, before) {
			t.Fatalf("%q of %q, want %q", got, texts, want)
		}
		switch {
		case len(got) < len(texts):
			tally["repeated"]++
		case !slices.Equal(texts, want):
			tally["moved"]++
		case len(texts) > 0:
			tally["itself"]++
			if &got[0] != &texts[0] || cap(got) != len(got) {
				t.Fatal("a list in order was copied, or may be extended")
			}
		}
	}, "repeated", "moved", "itself")
}
