package staged

import (
	"math/bits"
	"slices"
)

// place is the place of a target: a stage and a position in it.
type place struct {
	stage, member int32
}

// residence is the place of a target, and its place before it moved to the cleanup. They are equal
// if it did not move.
type residence struct{ at, home place }

// index finds targets by name. Those of Compile are in a table that all runs of the plan share, 5⅓
// bytes each; those that joined later are in a trie.
//
// Names are hashed with FNV-1a, not with a seeded hash: the same input must cost the same, and a
// run has no secret. A person who chooses the names of clusters could make look-ups slow, but not
// wrong.
type index struct {
	slots []uint32 // the number of a name plus 1, or 0 if free; linear probing, a quarter stays free
	names []string // by number: the members of the first stage, then those of the next
	from  []int32  // number of the first member of each stage, and last the number of all members
}

func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 32
	return h * 0x9e3779b97f4a7c15 // the upper bits choose the slot
}

func newIndex(names []string, from []int32) *index {
	x := &index{slots: make([]uint32, len(names)/3*4+4), names: names, from: from}
	for i, name := range names {
		at := x.slot(hash(name))
		for x.slots[at] != 0 && names[x.slots[at]-1] != name {
			at = x.behind(at)
		}
		if x.slots[at] == 0 { // a name that occurs twice keeps its first place
			x.slots[at] = uint32(i) + 1
		}
	}
	return x
}

func (x *index) slot(hash uint64) int {
	hi, _ := bits.Mul64(hash, uint64(len(x.slots)))
	return int(hi)
}

func (x *index) behind(slot int) int {
	if slot++; slot == len(x.slots) {
		return 0
	}
	return slot
}

func (x *index) find(name string, hash uint64) (place, bool) {
	for at := x.slot(hash); x.slots[at] != 0; at = x.behind(at) {
		if number := int32(x.slots[at] - 1); x.names[number] == name {
			// The stage is the last that begins at or before the number: one without members begins
			// where the next one does.
			above, _ := slices.BinarySearch(x.from, number+1)
			return place{int32(above - 1), number - x.from[above-1]}, true
		}
	}
	return place{}, false
}

func (r *Run) find(name string) (place, bool) {
	is, ok := r.residence(name)
	return is.at, ok
}

// home returns the place of a target of the run before it moved to the cleanup. If it did not move,
// that is its present place.
func (r *Run) home(name string) place {
	is, _ := r.residence(name)
	return is.home
}

func (r *Run) residence(name string) (residence, bool) {
	if r.plan == nil {
		return residence{}, false
	}
	h := hash(name)
	if node := r.joined.find(name, h); node != nil {
		return node.value, true
	}
	at, ok := r.plan.index.find(name, h)
	return residence{at, at}, ok
}
