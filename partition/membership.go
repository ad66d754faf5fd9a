package partition

import (
	"maps"
	"slices"

	"github.com/tranche-dev/tranche/selector"
)

// matcher finds the manual partitions that a cluster is a member of without trying them all. Each partition is filed under one criterion
// that its members must fulfil: a name, a group, or a value of a label. What the cluster has of these is looked up once, and only
// the partitions found there are checked for the rest. Criteria about groups are resolved once per group.
type matcher struct {
	rules      []rule
	names      map[string][]uint32 // partitions by clusterName
	display    string              // second label to compare with clusterName; empty if there is none
	grouped    bool                // some partition is filed under its groups
	groups     map[string]map[string]string
	known      textTable              // names of groups
	byKnown    []*groupIndex          // filled when a group is first seen
	byUnknown  map[string]*groupIndex // of groups that only clusters name
	groupless  []string               // groups that a cluster in none is tried with
	keys       []keyIndex
	direct     bool     // every partition is filed under the same label, and being found there is being a member
	unfiled    []uint32 // partitions of which only a look at the labels can tell: NotIn, DoesNotExist, {}
	candidates []uint32 // to which cluster, by number and 1, a partition was last a candidate
}

// rule is what is left to check of a partition once it is a candidate.
type rule struct {
	labels      *selector.Labels // nil if there is nothing left to check
	checkGroups bool
	group       string // for resolve
	groupLabels *selector.Labels
	grouped     bool
}

// keyIndex has the partitions that ask for a label.
type keyIndex struct {
	key    string
	values textTable
	lists  [][]uint32 // by value: partitions that it fulfils
	any    []uint32   // partitions that any value fulfils
}

// of returns the partitions that a value fulfils besides any.
func (k *keyIndex) of(value string) []uint32 {
	if i := k.values.find(value); i >= 0 {
		return k.lists[i]
	}
	return nil
}

func newMatcher(mode Mode, display string, definitions []Definition, compiled []criteria, groups map[string]map[string]string) *matcher {
	m := &matcher{
		display: display, groups: groups,
		rules:      make([]rule, len(definitions)),
		names:      map[string][]uint32{},
		candidates: make([]uint32, len(definitions)),
	}
	if mode == FleetController {
		m.groupless = []string{""}
	}
	terms := make([][]selector.Term, len(compiled))
	for i, c := range compiled {
		if c.clusters != nil {
			terms[i] = c.clusters.Terms()
		}
	}
	var load load // needed only where there is a choice
	if slices.ContainsFunc(terms, func(list []selector.Term) bool { return len(list) > 1 }) {
		load = loadOf(terms)
	}
	byKey := map[string]map[string][]uint32{}
	any := map[string][]uint32{}
	var order []string
	for i := range definitions {
		d, c, p := &definitions[i], compiled[i], uint32(i)
		m.rules[i] = rule{labels: c.clusters, checkGroups: d.grouped(), group: d.ClusterGroup, groupLabels: c.groups, grouped: d.grouped()}
		if d.ClusterName != "" {
			m.names[d.ClusterName] = append(m.names[d.ClusterName], p)
			continue
		}
		if d.grouped() {
			m.grouped = true
			m.rules[i].checkGroups = false
			continue
		}
		if c.clusters == nil {
			continue // no criterion at all: never a candidate
		}
		term, ok := load.lightest(terms[i])
		if !ok {
			m.unfiled = append(m.unfiled, p)
			continue
		}
		if byKey[term.Key] == nil {
			byKey[term.Key] = map[string][]uint32{}
			order = append(order, term.Key)
		}
		if term.Values == nil {
			any[term.Key] = append(any[term.Key], p)
		}
		for _, v := range term.Values {
			byKey[term.Key][v] = append(byKey[term.Key][v], p)
		}
		if s := d.ClusterSelector; len(s.MatchLabels)+len(s.MatchExpressions) == 1 {
			m.rules[i].labels = nil // being found under its only requirement is matching it
		}
	}
	for _, key := range order {
		values := slices.Sorted(maps.Keys(byKey[key]))
		lists := make([][]uint32, len(values))
		for i, value := range values {
			lists[i] = byKey[key][value]
		}
		m.keys = append(m.keys, keyIndex{key: key, values: newTextTable(values), lists: lists, any: any[key]})
	}
	if m.grouped || slices.ContainsFunc(m.rules, func(r rule) bool { return r.checkGroups }) {
		m.known = newTextTable(slices.Sorted(maps.Keys(groups)))
		m.byKnown = make([]*groupIndex, len(groups))
		m.byUnknown = map[string]*groupIndex{}
	}
	m.direct = len(m.keys) == 1 && len(m.keys[0].any) == 0 && len(m.names) == 0 && !m.grouped && len(m.unfiled) == 0 &&
		!slices.ContainsFunc(m.rules, func(r rule) bool { return r.labels != nil })
	return m
}

// load counts how many partitions ask for a value of a label, and how many for a key.
type load struct {
	values map[[2]string]int
	keys   map[string]int
}

func loadOf(terms [][]selector.Term) load {
	l := load{values: map[[2]string]int{}, keys: map[string]int{}}
	for _, list := range terms {
		for _, t := range list {
			l.keys[t.Key]++
			for _, v := range t.Values {
				l.values[[2]string{t.Key, v}]++
			}
		}
	}
	return l
}

// lightest returns the term under which the fewest other partitions are found, and of several the one whose key most partitions
// share, so that few keys are looked up.
func (l load) lightest(terms []selector.Term) (best selector.Term, ok bool) {
	weight := func(t selector.Term) int {
		if t.Values == nil {
			return len(l.keys) + len(l.values) + l.keys[t.Key]
		}
		most := 0
		for _, v := range t.Values {
			most = max(most, l.values[[2]string{t.Key, v}])
		}
		return most
	}
	if len(terms) == 1 {
		return terms[0], true
	}
	for _, t := range terms {
		w, b := weight(t), 0
		if ok {
			b = weight(best)
		}
		if !ok || w < b || w == b && l.keys[t.Key] > l.keys[best.Key] {
			best, ok = t, true
		}
	}
	return best, ok
}

// block is how many clusters are matched at a time. Their maps and values lie all over the memory: reading the same thing of many of them in
// a row lets the processor wait for several at once, and a block still fits into its cache.
const block = 64

// match appends the partitions of the clusters in this order, each one's ascending, and notes in ends where they end. Each cluster must be
// matched once.
func (m *matcher) match(clusters []Cluster, order, to, ends []uint32) []uint32 {
	if m.direct {
		return m.matchDirect(clusters, order, to, ends)
	}
	for i, from := range order {
		to = m.matchOne(from, &clusters[from], to)
		ends[i] = uint32(len(to))
	}
	return to
}

// matchDirect is match where one label decides.
func (m *matcher) matchDirect(clusters []Cluster, order, to, ends []uint32) []uint32 {
	var values [block]string
	k := &m.keys[0]
	for i, from := range order {
		value, ok := clusters[from].Labels[k.key]
		if !ok {
			value = unlabelled
		}
		values[i] = value
	}
	for i := range order {
		if list := k.of(values[i]); len(list) == 1 {
			to = append(to, list[0])
		} else {
			to = append(to, list...)
		}
		ends[i] = uint32(len(to))
	}
	return to
}

// unlabelled stands for the value of a label that is not there: no selector can ask for it.
const unlabelled = "\x00"

// matchOne appends the partitions of one cluster.
func (m *matcher) matchOne(number uint32, cluster *Cluster, to []uint32) []uint32 {
	from := len(to)
	if len(m.names) > 0 {
		to = m.accept(m.names[cluster.Name], number, cluster, to)
		if m.display != "" {
			if shown, ok := cluster.Labels[m.display]; ok {
				to = m.accept(m.names[shown], number, cluster, to)
			}
		}
	}
	if m.grouped {
		for _, group := range m.groupsOf(cluster) {
			to = m.accept(m.ofGroup(group).filed, number, cluster, to)
		}
	}
	for i := range m.keys {
		k := &m.keys[i]
		if value, ok := cluster.Labels[k.key]; ok {
			to = m.accept(k.of(value), number, cluster, to)
			if len(k.any) > 0 {
				to = m.accept(k.any, number, cluster, to)
			}
		}
	}
	if len(m.unfiled) > 0 {
		to = m.accept(m.unfiled, number, cluster, to)
	}
	if len(to)-from > 12 {
		slices.Sort(to[from:])
		return to
	}
	// So few that the call costs more than the sorting.
	for i := from + 1; i < len(to); i++ {
		for k := i; k > from && to[k] < to[k-1]; k-- {
			to[k], to[k-1] = to[k-1], to[k]
		}
	}
	return to
}

// accept appends those candidates that were not tried yet and whose other criteria hold.
func (m *matcher) accept(list []uint32, number uint32, cluster *Cluster, to []uint32) []uint32 {
	for _, p := range list {
		if m.candidates[p] == number+1 {
			continue
		}
		m.candidates[p] = number + 1
		r := &m.rules[p]
		if (r.labels == nil || r.labels.Match(cluster.Labels)) && (!r.checkGroups || m.inGroup(cluster, p)) {
			to = append(to, p)
		}
	}
	return to
}

// groupsOf returns the groups that a cluster is tried with: one in none is tried by Fleet's controller with a group that has no name and
// no labels.
func (m *matcher) groupsOf(cluster *Cluster) []string {
	if len(cluster.Groups) == 0 {
		return m.groupless
	}
	return cluster.Groups
}

// inGroup reports whether one group of the cluster fulfils all criteria of the partition about groups.
func (m *matcher) inGroup(cluster *Cluster, p uint32) bool {
	return slices.ContainsFunc(m.groupsOf(cluster), func(group string) bool {
		_, found := slices.BinarySearch(m.ofGroup(group).all, p)
		return found
	})
}

// groupIndex has the partitions whose criteria about groups all hold for one group, ascending.
type groupIndex struct {
	all   []uint32
	filed []uint32 // those that are filed under their groups
}

func (m *matcher) ofGroup(group string) *groupIndex {
	if i := m.known.find(group); i >= 0 {
		if m.byKnown[i] == nil {
			m.byKnown[i] = m.resolve(group)
		}
		return m.byKnown[i]
	}
	index, ok := m.byUnknown[group]
	if !ok {
		index = m.resolve(group)
		m.byUnknown[group] = index
	}
	return index
}

// resolve asks all criteria about one group.
func (m *matcher) resolve(group string) *groupIndex {
	index := &groupIndex{}
	for i := range m.rules {
		r, p := &m.rules[i], uint32(i)
		if r.grouped && (r.group == "" || r.group == group) && (r.groupLabels == nil || r.groupLabels.Match(m.groups[group])) {
			index.all = append(index.all, p)
			if !r.checkGroups {
				index.filed = append(index.filed, p)
			}
		}
	}
	return index
}
