package staged

import "slices"

// grouping is what a stage that limits its groups keeps beside its members: who is in which group,
// how many of each group are in progress, and who of it waits, in order. Only such a stage has one.
//
// It is persistent, as the tree is. The next member to start is the first one that waits in a group
// with a free slot. To look for it among all members that wait would cost what there are in front
// of it: a stage of a hundred thousand targets can begin with fifty thousand of one region. So each
// group has a line of its own, a group that is full takes no part in the contest of the groups, and
// a change costs a path in the line of its group and one in the contest.
type grouping struct {
	owner  *owner
	seats  []seat             // by position, of the members but those that joined; never written
	joined *trie[int, seat]   // of those that joined
	known  map[string]int32   // numbers of the groups by value, but those that came later; never written
	later  *trie[string, int] // of those that came later
	groups contest[*group]    // in the order of their first members, each with its standing
}

// seat is where a member is found: the number of its group, and its number in the line of that.
type seat struct{ group, number int32 }

// group is the members of a stage with one value of its label.
type group struct {
	owner      *owner
	value      string
	limit      int // how many may be in progress
	inProgress int
	line       contest[int32] // positions of its members, in order; as long as the group is large
}

func (g *group) full() bool { return g.inProgress >= g.limit }

func (g *group) standing() standing {
	s := g.line.lead
	if g.full() {
		s.next = never
	}
	return s
}

// standing is what is asked about a member, or about the best of many: when it has its turn, and when
// it gives up its slot.
type standing struct {
	next int64 // its rank if it waits to be started, else never; the least is the first
	free int64 // an instant, or endless if it holds its slot until it is observed; never if it has none
}

const (
	endless = never - 1
	fresh   = 1 << 32 // added to the position of a member that was never started, to make its rank
)

func standingOf(i int, r *record, by *timing) standing {
	s := standing{never, never}
	switch set := r.classes(); {
	case set&(1<<isActive) != 0:
		s.free = min(by.instants(r).free, endless)
	case set&(1<<isRetried) != 0:
		s.next = int64(i)
	case set&(1<<isWaiting) != 0:
		s.next = int64(i) + fresh
	}
	return s
}

func best(list []standing) standing {
	s := standing{never, never}
	for _, t := range list {
		s.next, s.free = min(s.next, t.next), min(s.free, t.free)
	}
	return s
}

// newGrouping files the members of a stage under their values of the label. No step owns it.
func (p *plan) newGrouping(k int, values []string, records []record) *grouping {
	g := &grouping{seats: make([]seat, len(values)), known: map[string]int32{}}
	var groups []*group
	var sizes []int32
	for i, value := range values {
		n, there := g.known[value]
		if !there {
			n = int32(len(groups))
			g.known[value] = n
			groups, sizes = append(groups, &group{value: value}), append(sizes, 0)
		}
		g.seats[i] = seat{n, sizes[n]}
		sizes[n]++
	}
	positions, leads := make([][]int32, len(groups)), make([][]standing, len(groups))
	for n, size := range sizes {
		positions[n], leads[n] = make([]int32, size), make([]standing, size)
	}
	for i, at := range g.seats {
		s := standingOf(i, &records[i], &p.stages[k].timing)
		positions[at.group][at.number], leads[at.group][at.number] = int32(i), s
		if s.free != never {
			groups[at.group].inProgress++
		}
	}
	all := make([]standing, len(groups))
	for n, of := range groups {
		of.line, of.limit = newContest(positions[n], leads[n]), p.limitOfGroup(k, len(positions[n]))
		all[n] = of.standing()
	}
	g.groups = newContest(groups, all)
	return g
}

// limitOfGroup returns how many of a group of n members may be in progress.
func (p *plan) limitOfGroup(k, n int) int { return max(1, p.share(p.stages[k].perGroup, n)) }

// own returns the grouping itself if this step made it, and otherwise a copy.
func (g *grouping) own(o *owner) *grouping {
	if g.owner == o {
		return g
	}
	copied := *g
	copied.owner = o
	return &copied
}

func (g *grouping) seat(i int) seat {
	if i < len(g.seats) {
		return g.seats[i]
	}
	return g.joined.find(i, uint64(i)).value
}

func (g *grouping) group(n int) *group {
	of, _ := g.groups.at(n)
	return of
}

// of returns the group of a member, to read.
func (g *grouping) of(i int) *group { return g.group(int(g.seat(i).group)) }

// first returns the member to start next, or -1: the first retried one, else the first one, that
// waits in a group with a free slot.
func (g *grouping) first() int {
	if g.groups.lead.next == never {
		return -1
	}
	return int(g.groups.lead.next &^ fresh)
}

// ownGroup returns a group to change, of a grouping that this step owns. The change ends with put.
func (g *grouping) ownGroup(n int, o *owner) *group {
	is := g.group(n)
	if is.owner == o {
		return is
	}
	copied := *is
	copied.owner = o
	return &copied
}

func (g *grouping) putGroup(n int, is *group, o *owner) { g.groups.set(n, is, is.standing(), o) }

// put follows the record of a member.
func (g *grouping) put(i int, r *record, by *timing, o *owner) *grouping {
	at := g.seat(i)
	n, number := int(at.group), int(at.number)
	_, was := g.group(n).line.at(number)
	is := standingOf(i, r, by)
	if was == is {
		return g
	}
	g = g.own(o)
	of := g.ownGroup(n, o)
	if was.free != never {
		of.inProgress--
	}
	if is.free != never {
		of.inProgress++
	}
	of.line.set(number, int32(i), is, o)
	g.putGroup(n, of, o)
	return g
}

// add appends a member to its group, or to a new one. A percentage is of one more member then.
func (g *grouping) add(i int, value string, r *record, k int, p *plan, o *owner) *grouping {
	g = g.own(o)
	n := g.groups.size
	if number, there := g.known[value]; there {
		n = int(number)
	} else if node := g.later.find(value, hash(value)); node != nil {
		n = node.value
	} else {
		g.later = g.later.put(value, hash(value), n)
		g.groups.add(&group{owner: o, value: value, line: newContest[int32](nil, nil)}, standing{never, never}, o)
	}
	of := g.ownGroup(n, o)
	g.joined = g.joined.put(i, uint64(i), seat{int32(n), int32(of.line.size)})
	of.line.add(int32(i), standingOf(i, r, &p.stages[k].timing), o)
	of.limit = p.limitOfGroup(k, of.line.size)
	g.putGroup(n, of, o)
	return g
}

// contest is a persistent list of entries with their standings that knows the best of these. As in a
// tree, a change copies the nodes on the way to one entry.
type contest[T any] struct {
	root  *round[T]
	lead  standing // the best of all, next and free each by itself
	shift uint
	size  int
}

// round has children or, as a leaf, entries.
type round[T any] struct {
	owner   *owner
	leads   []standing // the best below each child, or of each entry
	kids    []*round[T]
	entries []T
}

// newContest makes a list; no step owns it. It keeps the entries and their standings.
func newContest[T any](entries []T, leads []standing) contest[T] {
	c := contest[T]{size: len(entries), lead: best(leads)}
	var level []*round[T]
	for from := 0; from < len(entries) || from == 0; from += nodeWidth {
		to := min(len(entries), from+nodeWidth)
		level = append(level, &round[T]{leads: leads[from:to:to], entries: entries[from:to:to]})
	}
	for len(level) > 1 {
		var above []*round[T]
		for kids := range slices.Chunk(level, nodeWidth) {
			parent := &round[T]{kids: kids}
			for _, kid := range kids {
				parent.leads = append(parent.leads, best(kid.leads))
			}
			above = append(above, parent)
		}
		level, c.shift = above, c.shift+bitsPerNode
	}
	c.root = level[0]
	return c
}

func (c *contest[T]) at(i int) (T, standing) {
	n := c.root
	for shift := c.shift; shift > 0; shift -= bitsPerNode {
		n = n.kids[i>>shift&nodeMask]
	}
	return n.entries[i&nodeMask], n.leads[i&nodeMask]
}

// set replaces an entry and its standing.
func (c *contest[T]) set(i int, entry T, is standing, o *owner) {
	c.root = c.root.set(c.shift, i, entry, is, o)
	c.lead = best(c.root.leads)
}

// add appends an entry.
func (c *contest[T]) add(entry T, is standing, o *owner) {
	if c.size == nodeWidth<<c.shift {
		c.root = &round[T]{owner: o, leads: []standing{c.lead}, kids: []*round[T]{c.root}}
		c.shift += bitsPerNode
	}
	c.size++
	c.set(c.size-1, entry, is, o)
}

// set replaces an entry or appends one, and returns the node with it.
func (n *round[T]) set(shift uint, i int, entry T, is standing, o *owner) *round[T] {
	switch {
	case n == nil:
		n = &round[T]{owner: o}
	case n.owner != o:
		n = &round[T]{o, slices.Clone(n.leads), slices.Clone(n.kids), slices.Clone(n.entries)}
	}
	slot := i >> shift & nodeMask
	if slot == len(n.leads) {
		n.leads = append(n.leads, standing{})
		if shift == 0 {
			n.entries = append(n.entries, entry)
		} else {
			n.kids = append(n.kids, nil)
		}
	}
	if shift == 0 {
		n.entries[slot], n.leads[slot] = entry, is
		return n
	}
	kid := n.kids[slot].set(shift-bitsPerNode, i, entry, is, o)
	n.kids[slot], n.leads[slot] = kid, best(kid.leads)
	return n
}

// busy yields the entries that hold a slot, in order, until told to stop.
func (n *round[T]) busy(yield func(T) bool) bool {
	for i, lead := range n.leads {
		switch {
		case lead.free == never:
		case n.kids != nil && !n.kids[i].busy(yield), n.kids == nil && !yield(n.entries[i]):
			return false
		}
	}
	return true
}
