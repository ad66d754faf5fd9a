package selector

import (
	"errors"
	"iter"
	"slices"
)

// An index decides as much as it can without the elements, whose labels lie all over memory:
// looking one up there takes longer than everything else. The postings of a key's values, of which
// there are usually few, answer conditions on that key alone; the selector is evaluated for the
// rest.

// condition is a requirement on one string of an element, in one of three forms.
type condition struct {
	field   field
	values  []string                   // one of these; nil: any at all
	hold    func(value string) verdict // if not nil, any value for which this is yes
	negated bool                       // the element must not have such a value; an element without the string fulfils this
}

// Match yields, in ascending order, the elements that the selector matches, each once and with a
// nil error. at returns the variables of an element, which must be those given to Put. Match calls
// it only for candidates that the index cannot decide alone. A candidate that has no result for
// another reason than a missing key is yielded with its error. As for [Index.Candidates], the index
// must not be changed from the call on until the sequence has been used.
//
// Match does not look at elements that cannot match, so it does not yield all errors. For missing
// keys see [Index].
func (x *Index) Match(s *Selector, at func(i int) Vars) iter.Seq2[int, error] {
	conditions, complete := s.conditions()
	return x.search(conditions, complete, func(i int) (bool, error) {
		ok, err := s.Match(at(i))
		if errors.Is(err, ErrMissingKey) {
			err = nil
		}
		return ok, err
	})
}

// MatchLabels yields, in ascending order, the elements that the label selector matches. The index
// must have been given [LabelMap] values. at returns the labels of an element, and is called only
// for candidates that the index cannot decide alone. The index must not be changed from the call on
// until the sequence has been used.
func (x *Index) MatchLabels(l *Labels, at func(i int) map[string]string) iter.Seq[int] {
	var conditions []condition
	for _, r := range l.requirements {
		conditions = append(conditions, condition{
			field:   field{variable: LabelsVariable, key: r.key, keyed: true},
			values:  r.values.list,
			negated: r.operator == NotIn || r.operator == DoesNotExist,
		})
	}
	found := x.search(conditions, true, func(i int) (bool, error) { return l.Match(at(i)), nil })
	return func(yield func(int) bool) {
		for i := range found {
			if !yield(i) {
				return
			}
		}
	}
}

func (t Term) condition() condition {
	return condition{field: field{variable: t.Variable, key: t.Key, keyed: t.Keyed}, values: t.Values}
}

// conditions returns the conditions that an index may check for the selector. complete reports
// whether the selector matches every element that fulfils all of them.
func (s *Selector) conditions() (list []condition, complete bool) {
	if s.tests == nil {
		for _, t := range s.terms {
			list = append(list, t.condition())
		}
		return list, false
	}
	complete = true
	for i := range s.tests {
		t := &s.tests[i]
		c := condition{field: field{variable: t.name, key: t.key, keyed: t.keyed}}
		switch {
		case t.op == testHas && t.negated:
			// An element without a value for the map is an error, not a match: the index cannot
			// tell.
			complete = false
			continue
		case t.op == testHas:
		case t.op == testEqual && !t.negated:
			c.values = []string{t.literal}
		case t.op == testListed && !t.negated:
			c.values = sorted(t.listed.list)
		default:
			c.hold = t.hold
		}
		// Data beyond the promised sizes must be evaluated with metering.
		if slices.ContainsFunc(c.values, func(v string) bool { return len(v) > t.tooLong }) {
			complete = false
		}
		list = append(list, c)
	}
	return list, complete
}

// Bounds on how much an index does for a condition before it leaves it to evaluation.
const (
	cursors = 16 // postings that each candidate is looked up in
	fewer   = 4  // candidates for each value that is tried
)

// filter is a condition as postings.
type filter struct {
	any     []cursor // the element must be in one of these
	negated bool     // or in none
}

// search yields the elements that fulfil the conditions. It calls match for each of them unless the
// conditions are complete and the index has checked all of them.
func (x *Index) search(conditions []condition, complete bool, match func(i int) (bool, error)) iter.Seq2[int, error] {
	base, size, from := x.narrowest(conditions)
	var filters []filter
	for k, c := range conditions {
		if k == from {
			continue
		}
		found, ok := x.postingsOf(c, size)
		if !ok {
			complete = false
			continue
		}
		f := filter{negated: c.negated}
		for _, p := range found {
			f.any = append(f.any, cursor{posting: p})
		}
		filters = append(filters, f)
	}
	return func(yield func(int, error) bool) {
		own := make([]filter, len(filters))
		for k, f := range filters {
			own[k] = filter{any: slices.Clone(f.any), negated: f.negated}
		}
		each(base, size, func(i int) bool {
			for k := range own {
				if !own[k].passes(uint32(i)) {
					return true
				}
			}
			if complete {
				return yield(i, nil)
			}
			ok, err := match(i)
			return !ok && err == nil || yield(i, err)
		})
	}
}

func (f *filter) passes(i uint32) bool {
	for k := range f.any {
		if f.any[k].has(i) {
			return !f.negated
		}
	}
	return f.negated
}

// knows reports whether the index was made for the variable.
func (x *Index) knows(f field) bool {
	_, ok := slices.BinarySearch(x.variables, f.variable)
	return ok
}

// postingsOf returns the postings whose elements fulfil the condition (or do not, if it is
// negated). It returns false if there are too many for the number of candidates, or if a value
// cannot be decided.
func (x *Index) postingsOf(c condition, candidates int) ([]*posting, bool) {
	if !x.knows(c.field) {
		return nil, false
	}
	if c.values != nil {
		found := x.holding(c)
		return found, len(found) <= cursors
	}
	at, ok := x.fields[c.field]
	if !ok {
		return nil, true
	}
	numbers := x.holders[at].postings
	if c.hold == nil { // a key may have a value for each element, so they are counted first
		if len(numbers) > cursors {
			return nil, false
		}
		return x.holding(c), true
	}
	if len(numbers) > candidates/fewer+cursors {
		return nil, false
	}
	var found []*posting
	for _, number := range numbers {
		p := &x.postings[number]
		switch c.hold(p.value) {
		case yes:
			found = append(found, p)
		case large:
			return nil, false
		}
	}
	return found, len(found) <= cursors
}

// cursor looks up ascending numbers in a posting.
type cursor struct {
	*posting
	block, place int
}

// has reports whether i is in the posting; i must not be below an earlier one.
func (c *cursor) has(i uint32) bool {
	for c.block < len(c.blocks) {
		b := c.blocks[c.block]
		if b[len(b)-1] < i {
			c.block++
			c.place = 0
			continue
		}
		place, there := slices.BinarySearch(b[c.place:], i)
		c.place += place
		return there
	}
	return false
}
