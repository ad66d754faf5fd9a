package selector

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// Index finds, among many elements, the few that a selector can match. The host numbers elements
// from 0, without large gaps. The index knows the values of some variables for each element, and
// answers in ascending order:
//
//	for i, err := range index.Match(sel, func(i int) selector.Vars { return resources[i] }) {
//		…
//	}
//
// An element that lacks a key which the selector needs is no match, and is not even looked at if
// that can be avoided. Where a missing key means more to the caller, match every element without an
// index. An Index must not be changed while another goroutine uses it. It keeps the strings that it
// was given. The zero value is an index of no variables, in which every element is a candidate.
type Index struct {
	variables []string
	fields    map[field]uint32 // numbers of the fields that have values
	holders   []holders        // by field
	vacant    []uint32         // numbers of fields without values
	numbers   map[entry]uint32 // numbers of postings
	postings  []posting
	free      []uint32   // numbers of postings without elements
	elements  [][]uint32 // the postings of each element, so that it can be removed; nil if it is not there
	all       posting
}

// entry is one value of a field.
type entry struct {
	field uint32
	value string
}

// holders are the elements that have a field, with any value.
type holders struct {
	field    field
	count    int
	postings []uint32
}

// largestGap is how many numbers may be left out at once, because the index makes room for them
// all.
const largestGap = 1 << 20

// NewIndex returns an empty index of the named variables, which must be of type string or
// map(string, string). Every key of a map is indexed. Terms about other variables do not narrow the
// candidates.
func NewIndex(variables ...string) *Index {
	return &Index{
		variables: slices.Compact(slices.Sorted(slices.Values(variables))),
		fields:    map[field]uint32{},
		numbers:   map[entry]uint32{},
	}
}

// Put adds element i, or replaces its values. It takes time in proportion to the element's own
// keys, not to the size of the index. Variables without a value are left out. Put returns an error
// and changes nothing if a value is neither a string nor a map[string]string, and if i is negative
// or leaves out more than 1048576 numbers after the largest so far.
func (x *Index) Put(i int, vars Vars) error {
	if i < 0 || i > len(x.elements)+largestGap {
		return fmt.Errorf("selector: element %d: the number must be from 0 to %d, which is %d more than the largest so far", i, len(x.elements)+largestGap, largestGap+1)
	}
	if vars == nil {
		vars = (*Values)(nil)
	}
	count := 0
	for _, name := range x.variables {
		value, ok := vars.Lookup(name)
		if !ok {
			continue
		}
		switch value := value.(type) {
		case string:
			count++
		case map[string]string:
			count += len(value)
		default:
			return fmt.Errorf("selector: element %d: %s must be string or map[string]string, not %s", i, name, goTypeOf(value))
		}
	}
	x.Remove(i)
	for len(x.elements) <= i {
		x.elements = append(x.elements, nil)
	}
	in := make([]uint32, 0, count)
	for _, name := range x.variables {
		switch value := valueOf(vars, name).(type) {
		case string:
			in = append(in, x.number(field{variable: name}, value))
		case map[string]string:
			for key, text := range value {
				in = append(in, x.number(field{variable: name, key: key, keyed: true}, text))
			}
		}
	}
	for _, n := range in {
		p := &x.postings[n]
		p.add(uint32(i))
		x.holders[p.field].count++
	}
	x.elements[i] = in
	x.all.add(uint32(i))
	return nil
}

// Remove removes element i, if it is there.
func (x *Index) Remove(i int) {
	if i < 0 || i >= len(x.elements) || x.elements[i] == nil {
		return
	}
	for _, n := range x.elements[i] {
		p := &x.postings[n]
		p.remove(uint32(i))
		x.holders[p.field].count--
		if p.n == 0 {
			x.drop(n)
		}
	}
	x.elements[i] = nil
	x.all.remove(uint32(i))
}

// number returns the number of the posting of a value, and makes the posting if there is none.
func (x *Index) number(f field, value string) uint32 {
	at, ok := x.fields[f]
	if !ok {
		at = uint32(len(x.holders))
		if last := len(x.vacant) - 1; last >= 0 {
			at, x.vacant = x.vacant[last], x.vacant[:last]
		} else {
			x.holders = append(x.holders, holders{})
		}
		x.fields[f], x.holders[at].field = at, f
	}
	e := entry{at, value}
	if n, ok := x.numbers[e]; ok {
		return n
	}
	n := uint32(len(x.postings))
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
	} else {
		x.postings = append(x.postings, posting{})
	}
	h := &x.holders[at]
	x.postings[n] = posting{field: at, place: uint32(len(h.postings)), value: value}
	h.postings = append(h.postings, n)
	x.numbers[e] = n
	return n
}

// drop removes a posting without elements, and its field if no other value is left, so that values
// and keys which come and go leave nothing behind.
func (x *Index) drop(n uint32) {
	p := x.postings[n]
	h := &x.holders[p.field]
	last := h.postings[len(h.postings)-1]
	h.postings[p.place] = last
	x.postings[last].place = p.place
	h.postings = h.postings[:len(h.postings)-1]
	delete(x.numbers, entry{p.field, p.value})
	x.postings[n] = posting{}
	x.free = append(x.free, n)
	if len(h.postings) == 0 {
		delete(x.fields, h.field)
		*h = holders{}
		x.vacant = append(x.vacant, p.field)
	}
}

// Candidates yields the elements that fulfil the most selective of the terms, each once and in
// ascending order; all elements if no term is about an indexed variable. Every element that a
// selector with these terms matches is among them. The search is done by the call, so the index
// must not be changed from then on until the sequence has been used.
func (x *Index) Candidates(terms []Term) iter.Seq[int] {
	conditions := make([]condition, len(terms))
	for k, t := range terms {
		conditions[k] = t.condition()
	}
	found, size, _ := x.narrowest(conditions)
	return func(yield func(int) bool) { each(found, size, yield) }
}

// narrowest returns the postings of the condition with the fewest elements, how many these are, and
// which condition it is: -1, with the posting of all elements, if none has fewer.
func (x *Index) narrowest(conditions []condition) (found []*posting, size, from int) {
	found, size, from = []*posting{&x.all}, x.all.n, -1
	for k, c := range conditions {
		if c.hold != nil || c.negated || !x.knows(c.field) {
			continue
		}
		if n := x.count(c); n < size {
			size, from = n, k
		}
	}
	if from >= 0 {
		found = x.holding(conditions[from])
	}
	return found, size, from
}

// each yields the elements of disjoint postings, size of them in all, in ascending order.
func each(postings []*posting, size int, yield func(int) bool) {
	if len(postings) == 1 {
		postings[0].each(yield)
		return
	}
	merged := make([]uint32, 0, size)
	for _, p := range postings {
		for _, b := range p.blocks {
			merged = append(merged, b...)
		}
	}
	slices.Sort(merged)
	for _, i := range merged {
		if !yield(int(i)) {
			return
		}
	}
}

// holding returns the postings for the values of a condition that is no predicate, or for all
// values if it only asks for one to exist. An element has one value for a key, so the postings are
// disjoint.
func (x *Index) holding(c condition) []*posting {
	at, ok := x.fields[c.field]
	if !ok {
		return nil
	}
	var found []*posting
	if c.values == nil {
		for _, number := range x.holders[at].postings {
			found = append(found, &x.postings[number])
		}
		return found
	}
	for k, value := range c.values {
		if k > 0 && value == c.values[k-1] {
			continue // the values are sorted
		}
		if number, ok := x.numbers[entry{at, value}]; ok {
			found = append(found, &x.postings[number])
		}
	}
	return found
}

// count returns the number of elements in the postings that holding returns.
func (x *Index) count(c condition) int {
	if at, ok := x.fields[c.field]; ok && c.values == nil {
		return x.holders[at].count
	}
	n := 0
	for _, p := range x.holding(c) {
		n += p.n
	}
	return n
}

// String describes the index in one line.
func (x *Index) String() string {
	return fmt.Sprintf("index of %s: %d elements, %d keys, %d values", strings.Join(x.variables, ", "), x.all.n, len(x.fields), len(x.numbers))
}
