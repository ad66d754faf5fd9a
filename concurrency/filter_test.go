package concurrency

import (
	"fmt"
	"testing"
)

// TestFilterFilters: a filter that lets everything through would be right, and useless.
func TestFilterFilters(t *testing.T) {
	for _, n := range []int{1, 4, 10, 1_000, 4096, 100_000} {
		f := newFilter(n)
		if bits := 64 * len(f.bits); bits < 16*n || n >= 4 && bits >= 32*n {
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

// TestHash: every byte and the length count, also where the last eight bytes overlap those before.
func TestHash(t *testing.T) {
	seen := map[uint64]string{}
	for _, s := range []string{"", "a", "b", "ab", "ba", "\x00", "\x00\x00", "12345678", "12345679", "123456780", "1234567800", "x2345678", "12345678x", "1234567812345678", "1234567812345679"} {
		if other, ok := seen[hash(s)]; ok {
			t.Errorf("%q and %q have one hash", s, other)
		}
		seen[hash(s)] = s
	}
	for _, s := range []string{"1", "1234567", "12345678", "123456789", "1234567890123456", "12345678901234567"} {
		for i := range s {
			b := []byte(s)
			b[i] ^= 0x80
			if hash(string(b)) == hash(s) {
				t.Errorf("%s: byte %d does not count", s, i)
			}
		}
	}
}
