package partition

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Compiled is a plan whose partitions are fixed and whose counts follow events. The time of
// [Compiled.Update] grows with the number of partitions that the cluster is in, and that of
// [Compiled.Step] with the number of partitions and of what the step lists: releases and, in the
// mode FleetController, what is created and staged. Neither depends on the size of the fleet, and
// neither allocates. Adding, removing or relabelling a cluster, or wanting another version, needs a
// new [Compile]. The zero value is not valid.
//
// Planning changes nothing that callers can see, but it uses working memory inside: two goroutines
// must not use a Compiled at the same time.
type Compiled struct {
	mode        Mode
	byBudget    bool
	skipPaused  bool
	paused      bool // the whole bundle
	maxNew      int
	maxPerStep  int // 0 is no limit
	maxParts    int
	maxAll      int // FleetController: the budget over all targets
	looksAt     facts
	warnings    []Warning
	names       []name   // in cluster order
	namesakes   []uint32 // clusters that are equal to others in cluster order, and then by namespace
	versions    []string // that clusters want
	places      []place  // by cluster
	facts       []facts
	classOf     [factSets]class // by facts
	setsOf      [classes]uint8
	totals      [classes]int32 // clusters by class
	partitions  []part
	members     []uint32 // clusters by partition, in cluster order
	memberships []uint32 // slots of the clusters that have several, those of earlier partitions first
	partitionOf []uint32 // by word of 64 slots
	in          [sets]bitset
	undo        []change // facts before the step under way
	turns       []turn   // by partition
	probe       Step     // what another step would do
}

type name struct{ namespace, name string }

// place is what an event of a cluster needs besides its facts. It is kept close together, because
// an event anywhere in a large fleet costs what it misses in the cache. Facts are apart, because a
// recount reads nothing else.
type place struct {
	slot   [1]uint32 // the slot of the only membership, or where those of the cluster begin in memberships
	count  uint32    // how many memberships it has
	wanted uint32    // index into versions
}

// part is a partition. Its members have the slots from slot on. That is a multiple of 64, so that
// the word of a slot tells the partition.
type part struct {
	name   string
	count  uint32
	max    int
	slot   uint32
	member uint32 // index of its first member in members
	counts [classes]int32
}

type change struct {
	cluster uint32
	before  facts
}

// Len returns the number of clusters.
func (c *Compiled) Len() int { return len(c.names) }

// ID returns the ID of a cluster, given by its place in cluster order, from 0 to Len()-1. For any
// other place the error is a *[FieldError].
func (c *Compiled) ID(cluster int) (ID, error) {
	if err := c.check(cluster); err != nil {
		return ID{}, err
	}
	return c.id(uint32(cluster)), nil
}

func (c *Compiled) id(cluster uint32) ID {
	n := &c.names[cluster]
	return ID{Index: int(cluster), Namespace: n.namespace, Name: n.name}
}

func (c *Compiled) check(cluster int) error {
	if cluster < 0 || cluster >= len(c.names) {
		return noPlace("cluster", cluster, len(c.names), "clusters: Find returns the place of a name")
	}
	return nil
}

// noPlace returns the fault of an index that is not from 0 to n-1.
func noPlace(path string, index, n int, of string) error {
	hint := fmt.Sprintf("must be from 0 to %d, a place among the %s", n-1, of)
	if n == 0 {
		hint = "has no place, because the plan has no " + path
	}
	return &FieldError{Code: CodeValue, Path: path, Value: strconv.Itoa(index), Hint: hint}
}

// Find returns the place of a cluster in cluster order, and whether the plan has the cluster.
func (c *Compiled) Find(namespace, clusterName string) (cluster int, ok bool) {
	id := name{namespace, clusterName}
	if at, found := slices.BinarySearchFunc(c.names, id, c.order); found && c.names[at] == id {
		return at, true
	}
	at, found := slices.BinarySearchFunc(c.namesakes, id, func(cluster uint32, id name) int {
		n := c.names[cluster]
		return cmp.Or(c.order(n, id), cmp.Compare(n.namespace, id.namespace))
	})
	if !found {
		return 0, false
	}
	return int(c.namesakes[at]), true
}

// order compares two names in cluster order: by namespace and name, or by name alone as Fleet's
// controller does.
func (c *Compiled) order(a, b name) int {
	if c.mode != FleetController {
		if by := cmp.Compare(a.namespace, b.namespace); by != 0 {
			return by
		}
	}
	return cmp.Compare(a.name, b.name)
}

// Members returns the clusters of a partition in cluster order. The slice belongs to the caller. For
// an index that no partition has the error is a *[FieldError].
func (c *Compiled) Members(partition int) ([]ID, error) {
	if partition < 0 || partition >= len(c.partitions) {
		return nil, noPlace("partition", partition, len(c.partitions), "partitions")
	}
	p := &c.partitions[partition]
	list := make([]ID, p.count)
	for i := range list {
		list[i] = c.id(c.members[int(p.member)+i])
	}
	return list, nil
}

// Update replaces the state of a cluster, given by its place in cluster order, and reports whether
// that can change a plan: if it cannot, there is no need to plan again. For a place that no cluster
// has the error is a *[FieldError].
func (c *Compiled) Update(cluster int, state State) (changed bool, err error) {
	if err := c.check(cluster); err != nil {
		return false, err
	}
	return c.set(uint32(cluster), c.observe(uint32(cluster), &state)), nil
}

// UpdateAll replaces the states of all clusters, in cluster order, for a host that gets a complete
// list instead of events. It costs much less than an Update of each cluster. For a list whose length
// is not Len the error is a *[FieldError], and nothing changes.
func (c *Compiled) UpdateAll(states []State) error {
	if len(states) != len(c.names) {
		return &FieldError{Code: CodeValue, Path: "states", Value: strconv.Itoa(len(states)),
			Hint: fmt.Sprintf("must be %d, one for each cluster, in cluster order", len(c.names))}
	}
	for i := range states {
		c.facts[i] = c.observe(uint32(i), &states[i])
	}
	c.recount()
	return nil
}

// SetPaused pauses or resumes the whole bundle.
func (c *Compiled) SetPaused(paused bool) { c.paused = paused }

// observe compares a state with the version that the cluster wants.
func (c *Compiled) observe(cluster uint32, s *State) facts {
	return observe(s, c.versions[c.places[cluster].wanted]) & c.looksAt
}

func (c *Compiled) slotsOf(cluster uint32) []uint32 {
	p := &c.places[cluster]
	if p.count == 1 {
		return p.slot[:]
	}
	return c.memberships[p.slot[0] : p.slot[0]+p.count]
}

func (c *Compiled) class(cluster uint32) class { return c.classOf[c.facts[cluster]] }

// set moves a cluster to the class of its new facts, in all counts and sets. It reports whether that
// can change a plan: which facts a done cluster has beside those that make it done does not matter.
func (c *Compiled) set(cluster uint32, f facts) bool {
	was, is := c.classOf[c.facts[cluster]], c.classOf[f]
	changed := c.facts[cluster] != f
	c.facts[cluster] = f
	if was == is {
		return changed && is != done
	}
	if c.mode == FleetController {
		c.totals[was]--
		c.totals[is]++
	}
	leaves, enters := c.setsOf[was]&^c.setsOf[is], c.setsOf[is]&^c.setsOf[was]
	for _, slot := range c.slotsOf(cluster) {
		p := &c.partitions[c.partitionOf[slot/64]]
		p.counts[was]--
		p.counts[is]++
		for s := range c.in {
			if leaves>>s&1 != 0 {
				c.in[s].remove(slot)
			}
			if enters>>s&1 != 0 {
				c.in[s].add(slot)
			}
		}
	}
	return true
}

// recount derives all counts and sets from the facts. Most fleets are uniform over long stretches,
// so 64 members of one word that are all alike are counted at once.
func (c *Compiled) recount() {
	c.totals = [classes]int32{}
	if c.mode == FleetController {
		for _, f := range c.facts {
			c.totals[c.classOf[f]]++
		}
	}
	for i := range c.partitions {
		p := &c.partitions[i]
		p.counts = [classes]int32{}
		members := c.members[p.member : p.member+p.count]
		for word := p.slot / 64; len(members) > 0; word++ {
			n := min(64, len(members))
			in := c.countWord(p, members[:n])
			for s := range in {
				c.in[s].levels[0][word] = in[s]
			}
			members = members[n:]
		}
	}
	for s := range c.in {
		c.in[s].summarize()
	}
}

// countWord counts up to 64 members and returns which of them are in each set.
func (c *Compiled) countWord(p *part, members []uint32) (in [sets]uint64) {
	first, alike := c.facts[members[0]], true
	for _, cluster := range members {
		if c.facts[cluster] != first {
			alike = false
			break
		}
	}
	if alike {
		class := c.classOf[first]
		p.counts[class] += int32(len(members))
		for s := range in {
			if c.setsOf[class]>>s&1 != 0 {
				in[s] = ^uint64(0) >> (64 - len(members))
			}
		}
		return in
	}
	for k, cluster := range members {
		class := c.classOf[c.facts[cluster]]
		p.counts[class]++
		of := uint64(c.setsOf[class])
		for s := range in {
			in[s] |= (of >> s & 1) << k
		}
	}
	return in
}

// try changes the facts of a cluster until revert.
func (c *Compiled) try(cluster uint32, f facts) {
	c.undo = append(c.undo, change{cluster, c.facts[cluster]})
	c.set(cluster, f)
}

// revert takes back every try, the latest first.
func (c *Compiled) revert() {
	for _, change := range slices.Backward(c.undo) {
		c.set(change.cluster, change.before)
	}
	c.undo = c.undo[:0]
}
