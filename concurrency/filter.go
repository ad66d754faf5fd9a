package concurrency

import "math/bits"

// filter tells for most resources that they are not in a set, without access to the set: in a batch
// the resource of nearly every candidate is absent, and a table of those present is larger than the
// caches. A wrong yes only costs a look at the table, so no answer depends on the quality of the
// hash.
type filter struct {
	bits []uint64
	mask uint64
}

// newFilter returns a filter for about n resources. With many more it becomes useless, but not
// wrong.
func newFilter(n int) filter {
	words := 1
	for words*4 < n { // 16 to 32 bits per resource
		words *= 2
	}
	return filter{bits: make([]uint64, words), mask: uint64(words) - 1}
}

// Two bits of one word stand for a resource: one access to memory, and about one wrong yes in a
// hundred.
func (f *filter) add(h uint64) { f.bits[h>>12&f.mask] |= 1<<(h&63) | 1<<(h>>6&63) }

func (f *filter) has(h uint64) bool {
	mark := uint64(1)<<(h&63) | 1<<(h>>6&63)
	return f.bits[h>>12&f.mask]&mark == mark
}

// hash mixes eight bytes at a time. The last eight bytes may overlap those before: the length
// counts too. It is not keyed, so that the same input takes the same path: names chosen to collide
// make a batch slow, never wrong.
func hash(s string) uint64 {
	h := uint64(len(s))
	if len(s) < 8 {
		var w uint64
		for i := range len(s) {
			w = w<<8 | uint64(s[i])
		}
		return fold(h<<56 ^ w)
	}
	for rest := s; len(rest) > 8; rest = rest[8:] {
		h = fold(h ^ word(rest))
	}
	return fold(h ^ word(s[len(s)-8:]))
}

// fold multiplies with the odd number nearest to 2⁶⁴ divided by the golden ratio. Both halves of
// the product together depend on every bit.
func fold(w uint64) uint64 {
	high, low := bits.Mul64(w, 0x9e3779b97f4a7c15)
	return high ^ low
}

// word returns the first eight bytes.
func word(s string) uint64 {
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
