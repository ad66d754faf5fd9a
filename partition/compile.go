package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Compile resolves a strategy for a fleet: it orders the clusters, makes the partitions, finds
// their members, and computes every limit. It keeps nothing of its input but strings. The errors are
// those of [Plan]; the plan is then nil.
//
// A partition is tried only on the clusters that fulfil one of its criteria: the name, the group, or
// the label that the fewest other partitions ask for. Where thousands of partitions share every single
// criterion, and differ only in how they combine them or in what labels must not be, each cluster is
// tried with all that share it.
func Compile(strategy Strategy, fleet Fleet, options Options) (*Compiled, error) {
	faults := strictjson.Parts(options.Validate())
	if options.Mode == FleetController {
		options = Options{Mode: FleetController} // it ignores the others
	}
	c := &Compiled{
		mode:       options.Mode,
		byBudget:   options.Releases == ByBudget,
		skipPaused: options.Paused != BlockPaused,
		paused:     fleet.Paused,
		maxPerStep: or(options.MaxPerStep, 0),
		looksAt:    options.Mode.looksAt(),
	}
	if c.mode == FleetController && len(fleet.Clusters) == 0 {
		strategy = Strategy{} // without a target Fleet does not look at the strategy
	}
	if c.mode != FleetController {
		faults = append(faults, strictjson.Parts(strategy.validate(options.Leftovers == AppendLeftovers))...)
	}
	order, wrong := c.arrange(fleet.Clusters)
	if faults = append(faults, wrong...); len(faults) > 0 {
		return nil, strictjson.Join(faults...)
	}
	c.maxNew = or(strategy.MaxNew, defaultMaxNew)
	for f := range facts(factSets) {
		if c.mode == FleetController {
			c.classOf[f] = f.controllerClass()
		} else {
			c.classOf[f] = options.classify(f)
		}
	}
	for k := range c.setsOf {
		c.setsOf[k] = setsOf(c.mode, class(k))
	}
	if err := c.divide(&strategy, fleet, options, order); err != nil {
		return nil, strictjson.Join(err)
	}
	c.recount()
	if c.mode != FleetController {
		c.warnings = c.warn(&strategy, options)
	}
	return c, nil
}

// arrange fills the columns of single clusters, in cluster order, and returns the index of each
// cluster in the input.
func (c *Compiled) arrange(clusters []Cluster) (order []uint32, faults []error) {
	if len(clusters) >= math.MaxInt32 {
		return nil, []error{&FieldError{Code: CodeValue, Path: "clusters", Hint: fmt.Sprintf("must be at most %d", math.MaxInt32-1)}}
	}
	order = make([]uint32, len(clusters))
	ordered := true
	for i := range clusters { // once: the clusters of a large fleet are scattered over the memory
		order[i] = uint32(i)
		faults = clusters[i].check(i, faults)
		ordered = ordered && (i == 0 || c.order(nameOf(&clusters[i-1]), nameOf(&clusters[i])) <= 0)
	}
	if !ordered {
		c.sort(order, clusters)
	}
	c.names = make([]name, len(clusters))
	c.places = make([]place, len(clusters))
	c.facts = make([]facts, len(clusters))
	numbers := map[string]uint32{}
	for i, from := range order {
		cluster := &clusters[from]
		c.names[i] = nameOf(cluster)
		if n := len(c.versions); n > 0 && c.versions[n-1] == cluster.Wanted { // the most frequent case
			c.places[i].wanted = uint32(n - 1)
		} else {
			number, known := numbers[cluster.Wanted]
			if !known {
				number = uint32(n)
				numbers[cluster.Wanted] = number
				c.versions = append(c.versions, cluster.Wanted)
			}
			c.places[i].wanted = number
		}
		c.facts[i] = c.observe(uint32(i), &cluster.State)
	}
	return order, append(faults, c.duplicates(order)...)
}

// check appends the faults of the cluster with this index in the input.
func (cluster *Cluster) check(i int, faults []error) []error {
	wrong := func(field, value, hint string) {
		faults = append(faults, &FieldError{Code: CodeValue, Path: fmt.Sprintf("clusters[%d].%s", i, field), Value: value, Hint: hint})
	}
	if cluster.Name == "" {
		wrong("name", "", "must not be empty")
	}
	for _, text := range [...]struct{ field, value string }{{"namespace", cluster.Namespace}, {"name", cluster.Name}} {
		if !utf8.ValidString(text.value) { // JSON would change it, and perhaps make two clusters equal
			wrong(text.field, strconv.Quote(text.value), "must be valid UTF-8")
		}
	}
	if cluster.Wanted == "" {
		wrong("wanted", "", "must be the id of the version that the cluster is to have")
	}
	return faults
}

// sort puts the indexes of the clusters, which are ascending, into cluster order. Clusters that are
// equal in that order keep the order of the input. The names are copied next to each other: comparing
// them in place misses the cache on every step.
func (c *Compiled) sort(order []uint32, clusters []Cluster) {
	type numbered struct {
		name
		number uint32
	}
	list := make([]numbered, len(clusters))
	for i := range clusters {
		list[i] = numbered{nameOf(&clusters[i]), uint32(i)}
	}
	slices.SortFunc(list, func(a, b numbered) int {
		return cmp.Or(c.order(a.name, b.name), cmp.Compare(a.number, b.number))
	})
	for i := range list {
		order[i] = list[i].number
	}
}

func nameOf(cluster *Cluster) name { return name{cluster.Namespace, cluster.Name} }

// duplicates lists the clusters that are equal to others in the order, and reports those that are
// given twice.
func (c *Compiled) duplicates(order []uint32) (faults []error) {
	type namesake struct {
		namespace string
		cluster   uint32
	}
	var equal []namesake
	for from, to := 0, 0; from < len(c.names); from = to {
		for to = from + 1; to < len(c.names) && c.order(c.names[from], c.names[to]) == 0; {
			to++
		}
		if to-from == 1 {
			continue
		}
		equal = equal[:0]
		for i := from; i < to; i++ {
			equal = append(equal, namesake{c.names[i].namespace, uint32(i)})
		}
		slices.SortFunc(equal, func(a, b namesake) int {
			return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.cluster, b.cluster))
		})
		first := equal[0]
		for k, n := range equal {
			c.namesakes = append(c.namesakes, n.cluster)
			if n.namespace != first.namespace {
				first = n
			} else if k > 0 {
				faults = append(faults, &FieldError{Code: CodeDuplicate, Path: fmt.Sprintf("clusters[%d]", order[n.cluster]),
					Value: strconv.Quote(c.id(n.cluster).String()), Hint: fmt.Sprintf("is given as clusters[%d] already", order[first.cluster])})
			}
		}
	}
	return faults
}

// divide makes the partitions. In the mode FleetController it reports the first fault in Fleet's
// order: the limit over all targets, then the selectors and the limit of each partition, then the
// number of partitions.
func (c *Compiled) divide(strategy *Strategy, fleet Fleet, options Options, order []uint32) (err error) {
	n := len(order)
	if c.mode == FleetController {
		if c.maxAll, err = strategy.maxUnavailable(c.mode, n, -1); err != nil {
			return err
		}
	}
	if len(strategy.Partitions) == 0 {
		err = c.cut(strategy, n, "All", "Partition", func(i int) uint32 { return uint32(i) })
	} else {
		err = c.assign(strategy, fleet, options, order)
	}
	if err != nil {
		return err
	}
	if c.maxParts, err = strategy.maxPartitions(c.mode, len(c.partitions)); err != nil {
		return err
	}
	return c.layOut()
}

// cut appends automatic partitions of n clusters, the i-th of which is at(i).
func (c *Compiled) cut(strategy *Strategy, n int, single, several string, at func(i int) uint32) error {
	size, err := strategy.autoSize(c.mode, n)
	if err != nil {
		return err
	}
	whole := size == 0
	if whole {
		size = max(1, n)
	}
	for from := 0; from < n || from == 0; from += size {
		to := min(n, from+size)
		title := single
		if !whole && (single == "All" || size < n) {
			title = fmt.Sprintf("%s %d - %d", several, from, to) // half open, as Fleet writes it
		}
		limit, err := strategy.maxUnavailable(c.mode, to-from, -1)
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			at := &c.places[at(i)]
			at.slot[0], at.count = uint32(len(c.partitions)), 1
		}
		c.partitions = append(c.partitions, part{name: title, count: uint32(to - from), max: limit})
	}
	return nil
}

// assign finds the members of the manual partitions, and cuts the remaining clusters into automatic
// ones if the options say so.
func (c *Compiled) assign(strategy *Strategy, fleet Fleet, options Options, order []uint32) error {
	compiled := make([]criteria, len(strategy.Partitions))
	var bad error // the first wrong selector; only the mode FleetController gets here with one
	for i := range strategy.Partitions {
		if compiled[i], bad = strategy.Partitions[i].compile(i); bad != nil {
			bad = strategy.Partitions[i].controllerFault(i)
			compiled = compiled[:i]
			break
		}
	}
	m := newMatcher(c.mode, or(options.DisplayNameLabel, DisplayNameLabel), strategy.Partitions[:len(compiled)], compiled, fleet.Groups)
	err := c.match(m, fleet.Clusters, order)
	if err != nil {
		return err
	}
	c.partitions = make([]part, len(compiled))
	for i := range c.partitions {
		p := &c.partitions[i]
		p.name, p.count = strings.ToValidUTF8(strategy.Partitions[i].Name, "\ufffd"), m.counts[i] // I8
		if p.max, err = strategy.maxUnavailable(c.mode, int(p.count), i); err != nil {
			return err
		}
	}
	if bad != nil {
		return bad
	}
	if options.Leftovers != AppendLeftovers {
		return nil
	}
	var left []uint32
	for cluster := range c.places {
		if c.places[cluster].count == 0 {
			left = append(left, uint32(cluster))
		}
	}
	if len(left) == 0 {
		return nil
	}
	return c.cut(strategy, len(left), "Leftovers", "Leftovers", func(i int) uint32 { return left[i] })
}

// match finds the partitions of each cluster. It stores their indexes where layOut will put the
// slots.
func (c *Compiled) match(m *matcher, clusters []Cluster, order []uint32) error {
	for from := 0; from < len(order); from += block {
		to := min(from+block, len(order))
		m.match(clusters, order[from:to], c.places[from:to])
		if len(m.several) > math.MaxInt32 {
			return &FieldError{Code: CodeValue, Path: "partitions",
				Hint: fmt.Sprintf("overlap too much: clusters in several of them may be members %d times in all", math.MaxInt32)}
		}
	}
	c.memberships = slices.Clone(m.several) // without spare capacity
	return nil
}

// layOut gives each partition slots in words of its own, and replaces the partition indexes of each
// cluster by its slots. Members keep cluster order.
func (c *Compiled) layOut() error {
	words, members := 0, uint32(0)
	for i := range c.partitions {
		p := &c.partitions[i]
		p.slot, p.member = uint32(words*64), members
		members += p.count
		if words += (int(p.count) + 63) / 64; words > math.MaxUint32/64 {
			return &FieldError{Code: CodeValue, Path: "partitions", Hint: "are too many for this number of clusters"}
		}
	}
	c.members = make([]uint32, members)
	next := make([]uint32, len(c.partitions))
	for cluster := range c.places {
		slots := c.slotsOf(uint32(cluster))
		for i, index := range slots {
			p := &c.partitions[index]
			c.members[p.member+next[index]] = uint32(cluster)
			slots[i] = p.slot + next[index]
			next[index]++
		}
	}
	c.partitionOf = make([]uint32, words)
	for i := range c.partitions {
		p := &c.partitions[i]
		from := p.slot / 64
		for word := range (p.count + 63) / 64 {
			c.partitionOf[from+word] = uint32(i)
		}
	}
	for s := range c.in {
		c.in[s] = newBitset(words * 64)
	}
	c.turns = make([]turn, len(c.partitions))
	return nil
}
