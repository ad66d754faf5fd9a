package staged

import (
	"math/bits"
	"slices"
)

// tree holds the members of a stage in order. It is persistent: a change copies the nodes on the
// way to one record and shares all others with the tree it came from, so that a step costs what it
// changes and the old run stays as it is.
//
// Each node knows which of its children hold a record of which class, and the earliest instants of
// the records below. So the next waiting member, the unacknowledged starts and the nearest deadline
// are found on a path from the root, and nothing else that is derived from the records must be
// kept. A heap of deadlines and a queue of waiting members would be more structures to copy on
// write, to encode and to check.
type tree struct {
	root  *node
	shift uint // bits of the index below the root; 0 if the root is a leaf
	size  int
}

const (
	bitsPerNode = 5
	nodeWidth   = 1 << bitsPerNode
	nodeMask    = nodeWidth - 1
)

// node has children or, as a leaf, records. Only the step that is its owner may write a node; a
// published node is never written again.
type node struct {
	owner   *owner
	first   instants        // the earliest of each kind below
	has     [classes]uint32 // by class, the slots with a record of it below
	kids    []*node
	records []record
	names   []string // of the records; never written, because nodes share it
}

// owner is the identity of one step.
type owner struct{ _ byte }

// timing is how long after an instant of a record something follows in a stage, in nanoseconds;
// never if nothing does.
type timing struct {
	deadline, soak, stuckAfter int64
}

// instants are when something happens to a record without an observation.
type instants struct {
	due  int64 // it needs attention: the end of its soak, its deadline, or when it becomes stuck
	free int64 // it gives up its slot: the same, without becoming stuck
}

func (t *timing) instants(r *record) instants {
	switch r.state {
	case Soaking:
		end := after(r.end, t.soak)
		return instants{end, end}
	case Starting, Updating:
		deadline := after(r.start, t.deadline)
		if r.marks.has(stuck) {
			return instants{deadline, deadline}
		}
		return instants{min(deadline, after(r.start, t.stuckAfter)), deadline}
	}
	return instants{never, never}
}

func (i instants) earlier(j instants) instants {
	return instants{min(i.due, j.due), min(i.free, j.free)}
}

func (i instants) isDue() int64  { return i.due }
func (i instants) isFree() int64 { return i.free }

// newTree builds the tree of members; no step owns it. It keeps the names and copies the records.
func newTree(names []string, records []record, by *timing) tree {
	t := tree{size: len(names)}
	var level []*node
	for from := 0; from < len(names) || from == 0; from += nodeWidth {
		to := min(len(names), from+nodeWidth)
		leaf := &node{first: instants{never, never}, records: slices.Clone(records[from:to]), names: names[from:to:to]}
		for i := range leaf.records {
			leaf.mark(i, leaf.records[i].classes())
			leaf.first = leaf.first.earlier(by.instants(&leaf.records[i]))
		}
		level = append(level, leaf)
	}
	for len(level) > 1 {
		var above []*node
		for from := 0; from < len(level); from += nodeWidth {
			parent := &node{first: instants{never, never}, kids: slices.Clone(level[from:min(len(level), from+nodeWidth)])}
			for i, kid := range parent.kids {
				parent.mark(i, kid.present())
				parent.first = parent.first.earlier(kid.first)
			}
			above = append(above, parent)
		}
		level, t.shift = above, t.shift+bitsPerNode
	}
	t.root = level[0]
	return t
}

// mark files the record or the child in a slot under the classes in which it differs from before, or
// takes it out of them. It returns the classes that the node as a whole now has and had not, or the
// other way round: those in which it differs as a child.
func (n *node) mark(slot int, differs uint8) (whole uint8) {
	for ; differs != 0; differs &= differs - 1 {
		c := bits.TrailingZeros8(differs)
		was := n.has[c]
		n.has[c] ^= 1 << slot
		if was == 0 || n.has[c] == 0 {
			whole |= 1 << c
		}
	}
	return whole
}

// present returns the classes of the records below.
func (n *node) present() (set uint8) {
	for c, slots := range n.has {
		if slots != 0 {
			set |= 1 << c
		}
	}
	return set
}

// own returns the node itself if this step made it, and otherwise a copy.
func (n *node) own(o *owner) *node {
	if n.owner == o {
		return n
	}
	copied := *n
	copied.owner = o
	copied.kids = slices.Clone(n.kids)
	copied.records = slices.Clone(n.records)
	return &copied
}

// at returns the record of a member and its name. The record must not be written.
func (t *tree) at(i int) (*record, string) {
	n := t.root
	for shift := t.shift; shift > 0; shift -= bitsPerNode {
		n = n.kids[i>>shift&nodeMask]
	}
	return &n.records[i&nodeMask], n.names[i&nodeMask]
}

// set replaces the record of a member.
func (t *tree) set(i int, r record, o *owner, by *timing) {
	t.root, _ = t.root.set(t.shift, i, r, o, by)
}

// set returns the node with the record replaced, and the classes in which it differs as a child.
func (n *node) set(shift uint, i int, r record, o *owner, t *timing) (_ *node, differs uint8) {
	n = n.own(o)
	slot := i >> shift & nodeMask
	var was, is instants
	if shift == 0 {
		old := &n.records[slot]
		was, is = t.instants(old), t.instants(&r)
		differs = n.mark(slot, old.classes()^r.classes())
		*old = r
	} else {
		old := n.kids[slot]
		was = old.first // read before the change, which writes old itself if this step owns it
		var kid *node
		kid, differs = old.set(shift-bitsPerNode, i, r, o, t)
		if kid != old {
			n.kids[slot] = kid
		}
		is, differs = kid.first, n.mark(slot, differs)
	}
	switch {
	case is.due <= n.first.due:
		n.first.due = is.due
	case was.due == n.first.due:
		n.first.due = n.earliest(was.due, t, instants.isDue)
	}
	switch {
	case is.free <= n.first.free:
		n.first.free = is.free
	case was.free == n.first.free:
		n.first.free = n.earliest(was.free, t, instants.isFree)
	}
	return n, differs
}

// earliest returns the earliest instant of a kind below. It stops at one that is as early as bound,
// because none is before bound.
func (n *node) earliest(bound int64, t *timing, of func(instants) int64) int64 {
	first := int64(never)
	for set := n.has[isActive]; set != 0 && first > bound; set &= set - 1 {
		slot := bits.TrailingZeros32(set)
		if n.kids != nil {
			first = min(first, of(n.kids[slot].first))
		} else {
			first = min(first, of(t.instants(&n.records[slot])))
		}
	}
	return first
}

// add appends a waiting member.
func (t *tree) add(name string, r record, o *owner) {
	if t.size == nodeWidth<<t.shift {
		root := &node{owner: o, first: t.root.first, kids: []*node{t.root}}
		root.mark(0, t.root.present())
		t.root, t.shift = root, t.shift+bitsPerNode
	}
	t.root, _ = t.root.add(t.shift, t.size, name, r, o)
	t.size++
}

func (n *node) add(shift uint, i int, name string, r record, o *owner) (_ *node, differs uint8) {
	if n == nil {
		n = &node{owner: o, first: instants{never, never}}
	}
	n = n.own(o)
	slot := i >> shift & nodeMask
	if shift == 0 {
		n.records = append(n.records, r)
		n.names = append(slices.Clip(n.names), name) // clipped, because other nodes share the array after it
		return n, n.mark(slot, r.classes())
	}
	var kid *node
	if slot < len(n.kids) {
		kid = n.kids[slot]
	} else {
		n.kids = append(n.kids, nil)
	}
	n.kids[slot], differs = kid.add(shift-bitsPerNode, i, name, r, o)
	return n, n.mark(slot, differs)
}

// find returns the first member of a class, or -1.
func (t *tree) find(c class) int {
	n, i := t.root, 0
	for {
		if n.has[c] == 0 {
			return -1
		}
		slot := bits.TrailingZeros32(n.has[c])
		i = i<<bitsPerNode | slot
		if n.kids == nil {
			return i
		}
		n = n.kids[slot]
	}
}

// due returns a member whose instant due is not after now, or -1.
func (t *tree) due(now int64, by *timing) int {
	n, i := t.root, 0
	if n.first.due > now {
		return -1
	}
	for n.kids != nil {
		slot := bits.TrailingZeros32(n.has[isActive])
		for n.kids[slot].first.due > now {
			slot++ // one of them is due, because the earliest of them is
		}
		i, n = i<<bitsPerNode|slot, n.kids[slot]
	}
	slot := 0
	for by.instants(&n.records[slot]).due > now {
		slot++
	}
	return i<<bitsPerNode | slot
}

// each yields the members of a class in order, until told to stop.
func (t *tree) each(c class, yield func(i int, r *record, name string) bool) {
	t.root.each(c, 0, yield)
}

func (n *node) each(c class, base int, yield func(int, *record, string) bool) bool {
	for set := n.has[c]; set != 0; set &= set - 1 {
		slot := bits.TrailingZeros32(set)
		i := base<<bitsPerNode | slot
		if n.kids != nil {
			if !n.kids[slot].each(c, i, yield) {
				return false
			}
		} else if !yield(i, &n.records[slot], n.names[slot]) {
			return false
		}
	}
	return true
}

// all yields every member in order, until told to stop.
func (t *tree) all(yield func(i int, r *record, name string) bool) {
	i := 0
	t.root.all(&i, yield)
}

func (n *node) all(i *int, yield func(int, *record, string) bool) bool {
	for _, kid := range n.kids {
		if !kid.all(i, yield) {
			return false
		}
	}
	for slot := range n.records {
		if !yield(*i, &n.records[slot], n.names[slot]) {
			return false
		}
		*i++
	}
	return true
}
