package rollout

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtOverlaps finds pools that share members and not the limit. It goes by the resources, each
// of which is in few pools, because most pairs of many rules have nothing in common.
func (l *lint) lookAtOverlaps() {
	found := l.overlaps()
	for _, pair := range slices.SortedFunc(maps.Keys(found), func(x, y [2]int32) int { return slices.Compare(x[:], y[:]) }) {
		own := found[pair]
		severity := SeverityInfo
		consequence := "a start needs a place in both"
		if own.alone.some() {
			severity = SeverityWarning
			consequence = "each allows its own maximum, and there are targets that only one of them limits"
		}
		where := own.first
		if own.more > 0 {
			where += fmt.Sprintf(", where %s have pools, too", textlist.Counted(own.more, "other rule"))
		}
		l.addApart(findingOf(own.b, "groupSelector"), own.a.id, LintPoolsOverlapUnshared, severity, own.alone,
			fmt.Sprintf("its pools and those of %q have %s in common, such as %s: %s", own.a.id, textlist.Counted(own.members, "resource"), where, consequence),
			"give both rules one sharedPool with one limit, or leave it if both limits are meant")
	}
}

// overlap is two concurrency rules with pools that share members and not the limit.
type overlap struct {
	a, b    *compiledRule // by their ids
	members int
	first   string
	more    int   // how many other rules have pools where they have; 0: that is told of each pair
	alone   reach // targets that only one of the two limits
}

// overlaps returns what pools of two rules have in common, by the numbers of the rules, ascending.
func (l *lint) overlaps() map[[2]int32]*overlap {
	rules := l.w.set.concurrency
	found := map[[2]int32]*overlap{}
	for _, s := range l.alike() {
		for pair := range s.overlaps {
			own := found[pair]
			if own == nil {
				own = &overlap{a: rules[pair[0]], b: rules[pair[1]], first: s.first}
				if strings.Compare(own.a.id, own.b.id) > 0 {
					own.a, own.b = own.b, own.a
				}
				found[pair] = own
			}
			own.members += s.members
			if len(s.own) > crowded {
				own.more = max(own.more, len(s.own)-2)
			}
			for _, view := range s.targets.keys {
				if v := l.w.views.list[view]; v.has(own.a) != v.has(own.b) {
					own.alone.merge(*s.targets.of[view])
				}
			}
		}
	}
	return found
}

// likeResources are the resources that are in the same pools.
type likeResources struct {
	own     []membership
	members int
	first   string
	targets reaches[int32] // on them, by their views
}

// crowded is the number of pools of one resource above which not every pair of them is told.
const crowded = 8

// overlaps yields the pairs of rules, by their numbers, whose pools overlap on the resources: all
// or, where there are many, of each rule the one with the first.
func (s *likeResources) overlaps(yield func(pair [2]int32) bool) {
	for k, b := range s.own {
		for _, a := range s.own[:k] {
			if a.pool == b.pool {
				continue
			}
			if !yield([2]int32{a.rule, b.rule}) {
				return
			}
			if len(s.own) > crowded {
				break
			}
		}
	}
}

// alike divides the resources by the pools that they are in. Those in the same pools are looked at
// together, because where they are in many there is little else.
func (l *lint) alike() (all []*likeResources) {
	w := l.w
	byPools := map[string]*likeResources{}
	of := make([]*likeResources, len(w.resources))
	var key []byte
	for r := range of {
		own := w.capacity.of(int32(r))
		key = key[:0]
		for _, m := range own {
			key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(key, uint32(m.rule)), uint32(m.pool))
		}
		s := byPools[string(key)]
		if s == nil {
			s = &likeResources{own: own, first: w.resources[r].ID}
			byPools[string(key)], all = s, append(all, s)
		}
		s.members++
		of[r] = s
	}
	for i := range w.targets {
		of[w.targets[i].resource].targets.at(w.view[i]).add(int32(i))
	}
	return all
}
