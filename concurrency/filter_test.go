package concurrency

import (
	"fmt"
	"testing"
)

// TestFilterFilters: a filter that lets everything through would be right, and useless.
func TestFilterFilters(t *testing.T) {
	for _, n := range []int{1, 10, 1_000, 100_000} {
		f := newFilter(n)
		if bits := 64 * len(f.bits); bits < 16*n || bits > 32*n+64 {
			t.Errorf("n=%d: %d bits", n, bits)
		}
		for i := range n {
			f.add(hash(fmt.Sprint("node-", i)))
		}
		wrong := 0
		for i := range 10_000 {
			if f.has(hash(fmt.Sprint("other-", i))) {
				wrong++
			}
		}
		if wrong > 400 {
			t.Errorf("n=%d: %d of 10,000 pass that are not in it", n, wrong)
		}
		for i := range n {
			if !f.has(hash(fmt.Sprint("node-", i))) {
				t.Fatalf("n=%d: node-%d is lost", n, i)
			}
		}
	}
}

// TestHash: every byte and the length count.
func TestHash(t *testing.T) {
	seen := map[uint64]string{}
	for _, s := range []string{"", "a", "b", "ab", "ba", "\x00", "\x00\x00", "12345678", "12345679", "123456780", "1234567800", "x2345678", "12345678x", "1234567812345678", "1234567812345679"} {
		if other, ok := seen[hash(s)]; ok {
			t.Errorf("%q and %q have one hash", s, other)
		}
		seen[hash(s)] = s
	}
	for i := range 8 {
		b := []byte("12345678")
		b[i] ^= 0x80
		if hash(string(b)) == hash("12345678") {
			t.Errorf("byte %d does not count", i)
		}
	}
}

// TestStarts: what is added is found, unless the caller was told otherwise; and nothing is found that the caller does not accept.
func TestStarts(t *testing.T) {
	s := newStarts(100)
	if len(s.slots) < 200 || len(s.slots) > 400 {
		t.Errorf("%d slots for 100", len(s.slots))
	}
	name := func(i int) string { return fmt.Sprint("node-", i) }
	kept := map[int]bool{}
	for i := range 400 { // more than it is made for
		kept[i] = s.add(hash(name(i)), i)
	}
	refused := 0
	for i := range 400 {
		got := s.find(hash(name(i)), func(k int) bool { return k == i })
		if kept[i] != (got == i) || !kept[i] && got != -1 {
			t.Errorf("%d kept %v, found %d", i, kept[i], got)
		}
		if !kept[i] {
			refused++
		}
		if s.find(hash(name(i)), func(int) bool { return false }) != -1 {
			t.Errorf("%d found though it is another one", i)
		}
	}
	if refused == 0 || refused > 200 {
		t.Errorf("%d of 400 refused", refused)
	}
	// An empty slot is the end also where the filter says yes.
	sparse := newStarts(100)
	sparse.add(hash("node"), 7)
	for i := range sparse.filter.bits {
		sparse.filter.bits[i] = ^uint64(0)
	}
	if got := sparse.find(hash("other"), func(int) bool { return false }); got != -1 {
		t.Errorf("found %d in an empty slot", got)
	}
	s = newStarts(100)
	for i := range 100 {
		s.add(hash(name(i)), i)
	}
	asked := 0
	for i := range 1000 {
		if got := s.find(hash(fmt.Sprint("other-", i)), func(int) bool { asked++; return false }); got != -1 {
			t.Fatalf("found %d for what was not added", got)
		}
	}
	if asked > 200 {
		t.Errorf("asked %d times for a thousand that were not added", asked)
	}
}

// TestManySameHashes: starts that find no slot are entered at once, and nothing depends on it.
func TestManySameHashes(t *testing.T) {
	b := &batch{ledger: newLedger(Snapshot{Pools: []Pool{{Key: "p", Limit: Count(99), Total: 99}}}, nil, epoch), starts: newStarts(1)}
	for i := range 40 {
		b.candidates = append(b.candidates, Candidate{Resource: fmt.Sprint("n", i), Group: "g", Needs: []int32{0}})
		b.admitNew(i, 0)
	}
	for i := range 40 {
		first := b.first(fmt.Sprint("n", i), 0)
		if len(b.down.entries) < 40-probes {
			t.Fatalf("%d entered", len(b.down.entries))
		}
		if first == none && i < probes {
			t.Errorf("n%d is lost", i)
		}
	}
	if b.pools[0].active != 40 || b.pools[0].token != 41 {
		t.Errorf("%+v", b.pools[0])
	}
}
