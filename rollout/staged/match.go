package staged

import (
	"slices"

	"github.com/tranche-dev/tranche/selector"
)

// matcher finds the stages that match a target without trying all of them. Each stage is filed
// under a label key and the values that its members can have, or under names. A target is tried
// only with the stages filed under its labels or its name, and with those that cannot be filed.
type matcher struct {
	stages  []stagePlan
	names   map[string][]int32 // stages by explicit target
	keys    []filed
	unfiled []int32 // stages to try with every target
}

type filed struct {
	key    string
	values map[string][]int32
}

func newMatcher(p *plan) *matcher {
	m := &matcher{stages: p.stages, names: map[string][]int32{}}
	for i := range p.strategy.Stages {
		for _, name := range p.strategy.Stages[i].Targets {
			m.names[name] = append(m.names[name], int32(i))
		}
		if labels := p.stages[i].labels; labels != nil && !m.file(int32(i), labels.Terms()) {
			m.unfiled = append(m.unfiled, int32(i))
		}
	}
	return m
}

// file puts a stage under the first of its terms that lists values, and reports whether there is
// one.
func (m *matcher) file(stage int32, terms []selector.Term) bool {
	for _, t := range terms {
		if t.Values == nil {
			continue
		}
		k := 0
		for k < len(m.keys) && m.keys[k].key != t.Key {
			k++
		}
		if k == len(m.keys) {
			m.keys = append(m.keys, filed{key: t.Key, values: map[string][]int32{}})
		}
		for _, v := range t.Values {
			m.keys[k].values[v] = append(m.keys[k].values[v], stage)
		}
		return true
	}
	return false
}

// match returns the first stage of a target, or -1, and whether there are more. It overwrites the
// buffer with all of them.
func (m *matcher) match(t *Target, buffer *[]int32) (first int, more bool) {
	*buffer = m.all(t, (*buffer)[:0])
	if len(*buffer) == 0 {
		return -1, false
	}
	return int(slices.Min(*buffer)), len(*buffer) > 1
}

// all appends every stage of a target, each once and in no order.
func (m *matcher) all(t *Target, to []int32) []int32 {
	to = append(to, m.names[t.Name]...)
	try := func(list []int32) {
		for _, stage := range list {
			if m.stages[stage].labels.Match(t.Labels) {
				to = append(to, stage)
			}
		}
	}
	for i := range m.keys {
		if value, ok := t.Labels[m.keys[i].key]; ok {
			try(m.keys[i].values[value])
		}
	}
	try(m.unfiled)
	return to
}
