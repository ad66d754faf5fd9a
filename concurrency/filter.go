package concurrency

// filter tells of most resources that they are not in a set, without touching the set: in a batch nearly every candidate is a resource
// that nobody has heard of, and a map of all starts is larger than the caches. A wrong yes costs a look at the map, so
// nothing depends on the quality of the hash.
type filter struct {
	bits []uint64
	mask uint64
}

// newFilter is for about n resources; more of them only make it useless.
func newFilter(n int) filter {
	words := 1
	for words*4 < n { // 16 to 32 bits per resource
		words *= 2
	}
	return filter{bits: make([]uint64, words), mask: uint64(words) - 1}
}

// Two bits of one word stand for a resource: one look at memory, and about one wrong yes in a hundred.
func (f *filter) add(h uint64) { f.bits[h>>12&f.mask] |= 1<<(h&63) | 1<<(h>>6&63) }

func (f *filter) has(h uint64) bool {
	mark := uint64(1)<<(h&63) | 1<<(h>>6&63)
	return f.bits[h>>12&f.mask]&mark == mark
}

// starts finds the start of a resource among those of a batch. It is a table of indices with bounded probing: what finds no slot is
// not kept, and the caller is told.
type starts struct {
	slots  []uint32 // index + 1; 0: free
	mask   uint64
	filter filter // is small enough for the cache, and asked first
}

const probes = 16

func newStarts(n int) starts {
	slots := probes
	for slots < 2*n {
		slots *= 2
	}
	return starts{slots: make([]uint32, slots), mask: uint64(slots) - 1, filter: newFilter(n)}
}

func (s *starts) add(h uint64, index int) bool {
	for i := range uint64(probes) {
		if slot := &s.slots[(h>>20+i)&s.mask]; *slot == 0 {
			*slot = uint32(index + 1)
			s.filter.add(h)
			return true
		}
	}
	return false
}

// find calls is for every index that may be meant, and returns the one it accepts, or -1.
func (s *starts) find(h uint64, is func(index int) bool) int {
	if !s.filter.has(h) {
		return -1
	}
	for i := range uint64(probes) {
		slot := s.slots[(h>>20+i)&s.mask]
		if slot == 0 {
			return -1
		}
		if index := int(slot) - 1; is(index) {
			return index
		}
	}
	return -1
}

// hash mixes eight bytes at a time by multiplication with the odd number nearest to 2⁶⁴ divided by the golden ratio.
func hash(s string) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(len(s)) * odd
	for len(s) >= 8 {
		w := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		h = (h ^ w) * odd
		h ^= h >> 32
		s = s[8:]
	}
	var w uint64
	for i := range len(s) {
		w = w<<8 | uint64(s[i])
	}
	h = (h ^ w) * odd
	return h ^ h>>29
}
