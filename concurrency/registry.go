package concurrency

// registry finds the first place of a resource. Nothing is ever taken out of it.
//
// It beats a map because nearly all questions are about resources that are not in it, because its hash is there already, and because a resource is
// compared only if its tag is the same.
type registry struct {
	filter  filter
	slots   []uint64 // index of the entry plus 1, and above it 32 bits of the hash; 0: free. At least half are
	entries []entry
}

type entry struct {
	resource string
	hash     uint64
	first    int32
}

// newRegistry is for about n resources; more of them only make it slower.
func newRegistry(n int) registry {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return registry{filter: newFilter(n), slots: make([]uint64, size), entries: make([]entry, 0, n)}
}

// find returns the first place of a resource with this hash, or none.
func (r *registry) find(resource string, h uint64) int32 {
	if !r.filter.has(h) {
		return none
	}
	for i := h >> 20; ; i++ {
		slot := r.slots[i&uint64(len(r.slots)-1)]
		if slot == 0 {
			return none
		}
		if slot>>32 == h&(1<<32-1) {
			if e := &r.entries[uint32(slot)-1]; e.resource == resource {
				return e.first
			}
		}
	}
}

// add enters a resource that is not there yet.
func (r *registry) add(resource string, h uint64, first int32) {
	r.entries = append(r.entries, entry{resource, h, first})
	r.filter.add(h)
	if 2*len(r.entries) <= len(r.slots) {
		r.file(len(r.entries) - 1)
		return
	}
	r.slots = make([]uint64, 2*len(r.slots))
	for k := range r.entries {
		r.file(k)
	}
}

// file puts an entry into a slot.
func (r *registry) file(k int) {
	h := r.entries[k].hash
	i := h >> 20
	for r.slots[i&uint64(len(r.slots)-1)] != 0 {
		i++
	}
	r.slots[i&uint64(len(r.slots)-1)] = h<<32 | uint64(k+1)
}
