package partition

import (
	"math/bits"
	"slices"

	"github.com/tranche-dev/tranche/selector"
)

// matcher finds the manual partitions of a cluster without trying them all. Each partition is filed
// under one criterion that its members must fulfil: a name, a group, or a value of a label. The
// matcher looks up the names, groups and labels of the cluster once, and checks the other criteria
// only of the partitions found there. Criteria about groups are resolved once per group.
type matcher struct {
	rules      []rule
	names      map[string][]uint32 // partitions by clusterName
	display    string              // the label to compare with clusterName besides the name; empty if there is none
	grouped    bool                // some partition is filed under its groups
	byGroup    map[string][]uint32 // these partitions by clusterGroup, ascending; empty for those without one
	byLabel    map[label][]uint32  // but those without one whose selector needs a label, ascending
	groups     map[string]map[string]string
	known      textTable              // names of groups
	byKnown    []*groupIndex          // filled when a group is first seen
	byUnknown  map[string]*groupIndex // of groups that only clusters name
	groupless  []string               // groups that a cluster in no group is tried with
	keys       []keyIndex
	numbers    textTable // of keys
	unfiled    []uint32  // partitions to try with every cluster: NotIn, DoesNotExist, {}
	only       filing
	counts     []uint32 // members so far, by partition
	several    []uint32 // partitions of clusters that are in more than one
	candidates []uint32 // by partition: the number plus 1 of the cluster that it was last a candidate for
	found      []uint32 // working memory
}

// filing says what all partitions are filed under, if every cluster found there is a member without
// a further check; otherwise it is mixed.
type filing uint8

const (
	mixed filing = iota
	oneLabel
	groupsOnly
)

// rule is what remains to be checked of a partition once it is a candidate.
type rule struct {
	labels      *selector.Labels // nil if nothing remains to be checked
	checkGroups bool             // the criteria about groups, because it is filed under a name
	group       string           // clusterGroup
	groupLabels *selector.Labels // nil if any will do
}

func newMatcher(mode Mode, display string, definitions []Definition, compiled []criteria, groups map[string]map[string]string) *matcher {
	m := &matcher{
		display: display, groups: groups,
		rules:      make([]rule, len(definitions)),
		counts:     make([]uint32, len(definitions)),
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
	var load load // needed only if a partition has a choice of terms
	if slices.ContainsFunc(terms, func(list []selector.Term) bool { return len(list) > 1 }) {
		load = loadOf(terms)
	}
	var entries []entry
	for i := range definitions {
		entries = m.file(uint32(i), &definitions[i], compiled[i], load.lightest(terms[i]), entries)
	}
	m.fileKeys(entries)
	if m.grouped {
		m.known = newTextTable(len(groups))
		for group := range groups {
			m.known.number(group)
		}
		m.byKnown = make([]*groupIndex, len(groups))
		m.byUnknown = map[string]*groupIndex{}
	}
	m.only = m.filing()
	return m
}

// file files a partition under one of its criteria, and notes what remains to be checked. A partition
// under a label, the term, is only appended to the entries, because [matcher.fileKeys] needs all of
// them.
func (m *matcher) file(p uint32, d *Definition, c criteria, term *selector.Term, entries []entry) []entry {
	r := &m.rules[p]
	*r = rule{labels: c.clusters, group: d.ClusterGroup, groupLabels: c.groups}
	switch {
	case d.ClusterName != "":
		if m.names == nil {
			m.names = map[string][]uint32{}
		}
		m.names[d.ClusterName] = append(m.names[d.ClusterName], p)
		r.checkGroups = d.grouped()
	case d.grouped():
		m.grouped = true
		if m.byGroup == nil {
			m.byGroup = map[string][]uint32{}
		}
		if need, ok := needed(d, c.groups); ok {
			m.fileLabel(p, need)
		} else {
			m.byGroup[d.ClusterGroup] = append(m.byGroup[d.ClusterGroup], p)
		}
	case c.clusters == nil: // no criterion at all: never a candidate
	case term == nil:
		m.unfiled = append(m.unfiled, p)
	default:
		if term.Values == nil {
			entries = append(entries, entry{term, anyValue, p})
		}
		for v := range term.Values {
			entries = append(entries, entry{term, int32(v), p})
		}
		if s := d.ClusterSelector; len(s.MatchLabels)+len(s.MatchExpressions) == 1 {
			r.labels = nil // a cluster found under the only requirement matches it
		}
	}
	return entries
}

// label is one that a group may have: a value of a key, or the key with any value.
type label struct {
	key, value string
	any        bool
}

// needed returns the condition on a label with the fewest values that a group must fulfil; false if
// the groups of the partition are found by a name, or need no label.
func needed(d *Definition, groups *selector.Labels) (least selector.Term, ok bool) {
	if d.ClusterGroup != "" || groups == nil {
		return least, false
	}
	for _, t := range groups.Terms() {
		if !ok || least.Values == nil || t.Values != nil && len(t.Values) < len(least.Values) {
			least, ok = t, true
		}
	}
	return least, ok
}

func (m *matcher) fileLabel(p uint32, need selector.Term) {
	if m.byLabel == nil {
		m.byLabel = map[label][]uint32{}
	}
	if need.Values == nil {
		at := label{key: need.Key, any: true}
		m.byLabel[at] = append(m.byLabel[at], p)
	}
	for _, value := range need.Values {
		at := label{key: need.Key, value: value}
		m.byLabel[at] = append(m.byLabel[at], p)
	}
}

// filing returns the filing of the partitions. A partition in unfiled always has labels to check,
// and one whose groups remain to be checked is filed under a name.
func (m *matcher) filing() filing {
	if len(m.names) > 0 || slices.ContainsFunc(m.rules, func(r rule) bool { return r.labels != nil }) {
		return mixed
	}
	switch {
	case len(m.keys) == 1 && len(m.keys[0].any) == 0 && !m.grouped:
		return oneLabel
	case len(m.keys) == 0 && m.grouped && len(m.rules) <= 64:
		return groupsOnly
	}
	return mixed
}

// block is how many clusters are matched at a time. Their maps and values are scattered over the
// memory. Reading the same thing of many clusters in a row lets the processor wait for several
// reads at once, and a block still fits into its cache.
const block = 64

// match finds the partitions of the clusters in this order and stores them in their places, which
// must be empty. Each cluster must be matched once.
func (m *matcher) match(clusters []Cluster, order []uint32, places []place) {
	switch m.only {
	case oneLabel:
		m.matchLabel(clusters, order, places)
	case groupsOnly:
		m.matchGroups(clusters, order, places)
	default:
		for i, from := range order {
			m.found = m.matchOne(from, &clusters[from], m.found[:0])
			m.put(m.found, &places[i])
		}
	}
}

// put stores the partitions of a cluster, which are ascending.
func (m *matcher) put(partitions []uint32, at *place) {
	for _, p := range partitions {
		m.counts[p]++
	}
	at.slot[0], at.count = uint32(len(m.several)), uint32(len(partitions))
	if len(partitions) == 1 {
		at.slot[0] = partitions[0]
	} else {
		m.several = append(m.several, partitions...)
	}
}

// matchLabel is match for the filing oneLabel. Each loop does one thing for a whole block, so that
// the processor waits for many values at once.
func (m *matcher) matchLabel(clusters []Cluster, order []uint32, places []place) {
	var values [block]string
	var heads [block]uint16
	k := &m.keys[0]
	for i, from := range order {
		value, ok := clusters[from].Labels[k.key]
		if !ok {
			value = unlabelled
		}
		values[i] = value
	}
	for i := range order {
		heads[i] = k.values.head(values[i])
	}
	for i := range order {
		head := heads[i]
		if head == 0 {
			continue
		}
		list, at := k.of(k.values.search(head, values[i])), &places[i]
		if len(list) == 1 {
			at.slot[0], at.count = list[0], 1
			m.counts[list[0]]++
		} else {
			m.put(list, at)
		}
	}
}

// matchGroups is match for the filing groupsOnly, with at most 64 partitions.
func (m *matcher) matchGroups(clusters []Cluster, order []uint32, places []place) {
	for i, from := range order {
		in, at := uint64(0), &places[i]
		for _, group := range m.groupsOf(&clusters[from]) {
			in |= m.ofGroup(group).mask
		}
		at.slot[0], at.count = uint32(len(m.several)), uint32(bits.OnesCount64(in))
		if at.count == 1 {
			at.slot[0] = uint32(bits.TrailingZeros64(in))
			m.counts[at.slot[0]]++
			continue
		}
		for ; in != 0; in &= in - 1 {
			p := uint32(bits.TrailingZeros64(in))
			m.several = append(m.several, p)
			m.counts[p]++
		}
	}
}

// unlabelled stands for the value of a label that a cluster does not have. No selector can ask for
// it.
const unlabelled = "\x00"

// matchOne appends the partitions of one cluster to an empty list.
func (m *matcher) matchOne(number uint32, cluster *Cluster, to []uint32) []uint32 {
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
			to = m.accept(m.ofGroup(group).partitions, number, cluster, to)
		}
	}
	if len(m.keys) > manyKeys*len(cluster.Labels) {
		for key, value := range cluster.Labels { // in any order: the result is sorted below
			if i := m.numbers.find(key); i >= 0 {
				to = m.acceptValue(&m.keys[i], value, number, cluster, to)
			}
		}
	} else {
		for i := range m.keys {
			if value, ok := cluster.Labels[m.keys[i].key]; ok {
				to = m.acceptValue(&m.keys[i], value, number, cluster, to)
			}
		}
	}
	if len(m.unfiled) > 0 {
		to = m.accept(m.unfiled, number, cluster, to)
	}
	ascend(to)
	return to
}

// ascend sorts a list of partitions. Most lists are so short that a call costs more than the
// sorting.
func ascend(list []uint32) {
	if len(list) > 12 {
		slices.Sort(list)
		return
	}
	for i := 1; i < len(list); i++ {
		for k := i; k > 0 && list[k] < list[k-1]; k-- {
			list[k], list[k-1] = list[k-1], list[k]
		}
	}
}

// manyKeys is how many keys per label make it cheaper to walk over the labels of a cluster than to
// look up every key.
const manyKeys = 3

// acceptValue is accept for the partitions filed under a label, with its value or with any.
func (m *matcher) acceptValue(k *keyIndex, value string, number uint32, cluster *Cluster, to []uint32) []uint32 {
	if list := k.of(k.values.find(value)); len(list) > 0 {
		to = m.accept(list, number, cluster, to)
	}
	if len(k.any) > 0 {
		to = m.accept(k.any, number, cluster, to)
	}
	return to
}

// accept appends the candidates that were not tried yet and whose other criteria hold.
func (m *matcher) accept(list []uint32, number uint32, cluster *Cluster, to []uint32) []uint32 {
	for _, p := range list {
		if m.candidates[p] == number+1 {
			continue
		}
		m.candidates[p] = number + 1
		r := &m.rules[p]
		if (r.labels == nil || r.labels.Match(cluster.Labels)) && (!r.checkGroups || m.inGroup(cluster, r)) {
			to = append(to, p)
		}
	}
	return to
}

// groupsOf returns the groups that a cluster is tried with. Fleet's controller tries a cluster in
// no group with a group that has no name and no labels.
func (m *matcher) groupsOf(cluster *Cluster) []string {
	groups := cluster.Groups
	if slices.Contains(groups, "") {
		groups = slices.DeleteFunc(slices.Clone(groups), func(group string) bool { return group == "" })
	}
	if len(groups) == 0 {
		return m.groupless
	}
	return groups
}

// inGroup reports whether one group of the cluster fulfils all group criteria of the partition.
func (m *matcher) inGroup(cluster *Cluster, r *rule) bool {
	return slices.ContainsFunc(m.groupsOf(cluster), func(group string) bool {
		return (r.group == "" || r.group == group) && (r.groupLabels == nil || r.groupLabels.Match(m.labelsOf(group)))
	})
}

// labelsOf returns the labels of a group. The empty name stands for no group, which has none whatever
// the table of groups says.
func (m *matcher) labelsOf(group string) map[string]string {
	if group == "" {
		return nil
	}
	return m.groups[group]
}

// groupIndex has the partitions that are filed under their groups and whose group criteria all hold
// for one group.
type groupIndex struct {
	partitions []uint32 // ascending
	mask       uint64   // of those up to 63
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

// resolve evaluates the group criteria that may hold for one group.
func (m *matcher) resolve(group string) *groupIndex {
	index := &groupIndex{}
	candidates, labels := slices.Clip(m.byGroup[""]), m.labelsOf(group)
	if group != "" {
		every := len(candidates)
		candidates = append(candidates, m.byGroup[group]...)
		if len(m.byLabel) > 0 {
			for key, value := range labels { // in any order: the result is sorted below
				candidates = append(candidates, m.byLabel[label{key: key, value: value}]...)
				candidates = append(candidates, m.byLabel[label{key: key, any: true}]...)
			}
		}
		if len(candidates) > every {
			slices.Sort(candidates)
		}
	}
	for _, p := range candidates {
		if r := &m.rules[p]; r.groupLabels == nil || r.groupLabels.Match(labels) {
			index.partitions = append(index.partitions, p)
			index.mask |= 1 << p
		}
	}
	return index
}
