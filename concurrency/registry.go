package concurrency

// registry numbers resources by name. Nothing is ever taken out of it.
//
// It beats a map for three reasons. Nearly all lookups are of resources that are not in it, which a
// small filter answers. The hash of a name is computed once, for the filter and the table. A
// resource that starts in a batch is filed under the number of the start, without an entry of its
// own, because most of these never come up again.
type registry struct {
	filter  filter
	slots   []uint64 // upper half: of the hash; lower half: twice the number, plus 1 for a start, plus 2; 0: free, as at least one in five is
	used    int
	entries []entry
	starter func(start int32) string // the resource of a start
}

// entry is a resource that has or had places.
type entry struct {
	resource string
	first    int32 // place, or none
	start    int32 // number plus 1 of the batch's start whose leases are still to be entered; 0: none
}

// newRegistry returns a registry for the given numbers of resources with places and of starts; more
// of them only make it slower.
func newRegistry(resources, starts int) registry {
	n, size := resources+starts, 16
	for 4*size < 5*n {
		size *= 2
	}
	return registry{filter: newFilter(n), slots: make([]uint64, size), entries: make([]entry, 0, resources)}
}

// seek returns the slot of a resource with this hash, or none.
func (r *registry) seek(resource string, h uint64) int32 {
	if !r.filter.has(h) {
		return none
	}
	mask := uint64(len(r.slots) - 1)
	for i := h >> 32 & mask; r.slots[i] != 0; i = (i + 1) & mask {
		if slot := r.slots[i]; slot>>32 == h>>32 && r.name(slot) == resource {
			return int32(i)
		}
	}
	return none
}

func (r *registry) name(slot uint64) string {
	if start, is := startOf(slot); is {
		return r.starter(start)
	}
	return r.entries[entryOf(slot)].resource
}

func entryOf(slot uint64) int32 { return int32(uint32(slot)/2) - 1 }

func startOf(slot uint64) (start int32, is bool) { return entryOf(slot), slot&1 != 0 }

// find returns the number of the entry of a resource with this hash, or none. The resource must not
// be filed as a start.
func (r *registry) find(resource string, h uint64) int32 {
	slot := r.seek(resource, h)
	if slot == none {
		return none
	}
	return entryOf(r.slots[slot])
}

// add enters a resource that is not there yet, and returns its number.
func (r *registry) add(resource string, h uint64) int32 {
	r.entries = append(r.entries, entry{resource: resource, first: none})
	who := int32(len(r.entries) - 1)
	r.file(h, uint64(who)*2+2)
	return who
}

// addStart files the start of a resource that is not there yet.
func (r *registry) addStart(h uint64, start int) { r.file(h, uint64(start)*2+3) }

// enter turns the start in a slot into an entry, and returns its number.
func (r *registry) enter(slot int32, resource string) int32 {
	r.entries = append(r.entries, entry{resource: resource, first: none})
	who := int32(len(r.entries) - 1)
	r.slots[slot] = r.slots[slot]>>32<<32 | uint64(who)*2 + 2
	return who
}

func (r *registry) file(h, number uint64) {
	r.filter.add(h)
	if r.used++; 5*r.used > 4*len(r.slots) {
		slots := r.slots
		r.slots = make([]uint64, 2*len(slots))
		for _, slot := range slots {
			if slot != 0 {
				r.put(slot)
			}
		}
	}
	r.put(h>>32<<32 | number)
}

func (r *registry) put(slot uint64) {
	mask := uint64(len(r.slots) - 1)
	i := slot >> 32 & mask
	for r.slots[i] != 0 {
		i = (i + 1) & mask
	}
	r.slots[i] = slot
}
