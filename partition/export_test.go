package partition

// Limit is the computation of a limit without default but 100%, for the shared cases.
func Limit(mode Mode, count int, values ...IntOrString) (int, error) {
	list := make([]value, 0, len(values)+1)
	for _, v := range append(values, FromString(defaultMaxUnavailable)) {
		list = append(list, global(v, "maxUnavailable"))
	}
	return limit(mode, count, list...)
}

// Recount counts again from what the plan knows of each cluster.
func (c *Compiled) Recount() { c.recount() }

// Bytes is what a compiled plan keeps per cluster and membership, names and labels not counted.
func (c *Compiled) Bytes() int {
	const text = 16
	n := len(c.versions)*text + len(c.facts)*2 + len(c.places)*12 + 4*(len(c.members)+cap(c.memberships)+len(c.partitionOf)+cap(c.namesakes))
	for _, in := range c.in {
		for _, words := range in.levels {
			n += 8 * len(words)
		}
	}
	return n
}

// Members is the search for the members of manual partitions alone.
type Members struct {
	definitions []Definition
	fleet       Fleet
	order       []uint32
	compiled    *Compiled
}

func NewMembers(strategy Strategy, fleet Fleet) *Members {
	m := &Members{definitions: strategy.Partitions, fleet: fleet, compiled: &Compiled{places: make([]place, len(fleet.Clusters))}}
	for i := range fleet.Clusters {
		m.order = append(m.order, uint32(i))
	}
	return m
}

// Find does what a compilation does: selectors, their index, and every cluster. It returns the
// number of memberships.
func (m *Members) Find() (memberships int) {
	list := make([]criteria, len(m.definitions))
	for i := range m.definitions {
		var err error
		if list[i], err = m.definitions[i].compile(i); err != nil {
			panic(err)
		}
	}
	search := newMatcher(Default, DisplayNameLabel, m.definitions, list, m.fleet.Groups)
	if err := m.compiled.match(search, m.fleet.Clusters, m.order); err != nil {
		panic(err)
	}
	for _, n := range search.counts {
		memberships += int(n)
	}
	return memberships
}

// Partitions returns the indexes of the partitions that a cluster is in, ascending; none if it is
// unmatched.
func (c *Compiled) Partitions(cluster int) ([]int, error) {
	if err := c.check(cluster); err != nil {
		return nil, err
	}
	var list []int
	for _, slot := range c.slotsOf(uint32(cluster)) {
		list = append(list, int(c.partitionOf[slot/64]))
	}
	return list, nil
}
