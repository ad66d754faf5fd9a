package partition

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/selector"
)

// keyIndex has the partitions that are filed under one label key.
type keyIndex struct {
	key        string
	values     textTable
	partitions []uint32 // by value, the partitions that it fulfils
	starts     []uint32 // where the partitions of a value begin; one more at the end
	any        []uint32 // partitions that any value fulfils
}

// of returns the partitions that the value of this number fulfils, without those in any. For -1
// there are none.
func (k *keyIndex) of(number int32) []uint32 {
	if number < 0 {
		return nil
	}
	return k.partitions[k.starts[number]:k.starts[number+1]]
}

// entry files a partition under one value of a term.
type entry struct {
	term      *selector.Term
	at        int32 // of the value; anyValue if the term has none
	partition uint32
}

const anyValue = -1

// fileKeys makes the index of each key from entries in the order of their partitions.
func (m *matcher) fileKeys(entries []entry) {
	byKey := func(a, b entry) int { return strings.Compare(a.term.Key, b.term.Key) }
	if !slices.IsSortedFunc(entries, byKey) {
		slices.SortStableFunc(entries, byKey)
	}
	m.numbers = newTextTable(len(entries))
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && byKey(entries[0], entries[n]) == 0 {
			n++
		}
		m.numbers.number(entries[0].term.Key)
		m.keys = append(m.keys, newKeyIndex(entries[:n]))
		entries = entries[n:]
	}
}

func newKeyIndex(entries []entry) keyIndex {
	k := keyIndex{key: entries[0].term.Key, values: newTextTable(len(entries)), starts: make([]uint32, 1, len(entries)+1)}
	for i := range entries {
		e := &entries[i]
		if e.at == anyValue {
			k.any = append(k.any, e.partition)
			continue
		}
		e.at = k.values.number(e.term.Values[e.at]) // from now on the number of the value in the index
		if int(e.at) == len(k.starts)-1 {
			k.starts = append(k.starts, 0)
		}
		k.starts[e.at]++
	}
	total := uint32(0)
	for i, n := range k.starts {
		k.starts[i] = total
		total += n
	}
	k.partitions = make([]uint32, total)
	for i := range entries {
		if e := &entries[i]; e.at != anyValue {
			k.partitions[k.starts[e.at]] = e.partition
			k.starts[e.at]++
		}
	}
	copy(k.starts[1:], k.starts) // each start has become the start of the next value
	k.starts[0] = 0
	return k
}

// load counts how many partitions ask for each value of a label, and how many for each key.
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

// lightest returns the term under which the fewest other partitions are filed. Of several it
// returns the one whose key most partitions share, so that few keys are looked up. It returns nil
// if there is no term.
func (l load) lightest(terms []selector.Term) (best *selector.Term) {
	weight := func(t *selector.Term) int {
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
		return &terms[0]
	}
	least := 0
	for i := range terms {
		t := &terms[i]
		if w := weight(t); best == nil || w < least || w == least && l.keys[t.Key] > l.keys[best.Key] {
			best, least = t, w
		}
	}
	return best
}
