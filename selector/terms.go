package selector

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/celtext"
)

// Term is a condition that every match of a selector fulfils: a variable, or the value of a key in
// a map variable, is one of some strings. Terms are necessary, not sufficient: an [Index] finds
// candidates with them, and the selector decides.
type Term struct {
	Variable string   // variable of type string, or of type map(string, string) if Keyed
	Key      string   // key in the map
	Keyed    bool     // whether the term is about a key
	Values   []string // sorted; nil, for keys only: the key exists, with any value; empty but not nil: nothing matches
}

// String prints the term as an expression.
func (t Term) String() string {
	name := t.Variable
	if t.Keyed {
		if t.Values == nil {
			return celtext.Quote(t.Key) + " in " + name
		}
		name += "[" + celtext.Quote(t.Key) + "]"
	}
	return name + " in " + listed(t.Values)
}

// listed writes texts as a list.
func listed(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = celtext.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// Requires returns one condition that every match fulfils, see [Selector.Terms]: a variable whose
// name begins with prefix has one of the values or, if it is a map, the key has. With another value
// Match returns false and no error, whatever the other variables hold, and even if they have no
// value. Without the key it returns [ErrMissingKey], or another error that comes first, where
// nothing else decides. All that is so for strings of at most 256 bytes and lists of at most 64
// items. The variable is empty, and values is nil, if no such condition is known, or if the
// [Limits] promise less. The caller owns the slice.
//
// Any package can declare an interface with this method, as for [Env.Matcher].
func (s *Selector) Requires(prefix string) (variable, key string, values []string) {
	if s.limits.StringBytes < 256 || s.limits.ListItems < 64 {
		return "", "", nil // an expression may fail on larger data, whatever it would say of smaller
	}
	for _, t := range s.terms {
		if t.Values != nil && strings.HasPrefix(t.Variable, prefix) {
			return t.Variable, t.Key, slices.Clone(t.Values)
		}
	}
	return "", "", nil
}

// field is what a term is about.
type field struct {
	variable, key string
	keyed         bool
}

// implied is what an expression implies: the values that each field may have. A nil list means any
// value.
type implied map[field][]string

func (c implied) terms() []Term {
	terms := make([]Term, 0, len(c))
	for f, values := range c {
		terms = append(terms, Term{Variable: f.variable, Key: f.key, Keyed: f.keyed, Values: values})
	}
	slices.SortFunc(terms, func(a, b Term) int {
		return cmp.Or(strings.Compare(a.Variable, b.Variable), strings.Compare(a.Key, b.Key))
	})
	return terms
}

// implied returns what e implies. It is sound but not complete: what it does not understand, above
// all every negation, contributes nothing.
func (l *layout) implied(e *expr) implied {
	switch {
	case e.call(opAnd, 2):
		// Both sides hold.
		a, b := l.implied(e.args[0]), l.implied(e.args[1])
		if len(a) == 0 {
			return b
		}
		for f, values := range b {
			if own, both := a[f]; both {
				values = intersection(own, values)
			}
			a[f] = values
		}
		return a
	case e.call(opOr, 2):
		// One side holds: only fields that both sides restrict are certain.
		a, b := l.implied(e.args[0]), l.implied(e.args[1])
		for f, values := range a {
			other, both := b[f]
			switch {
			case !both:
				delete(a, f)
			case values == nil || other == nil:
				a[f] = nil
			default:
				a[f] = sorted(slices.Concat(values, other))
			}
		}
		return a
	case e.call(opEqual, 2):
		left, right := e.args[0], e.args[1]
		text, ok := right.text()
		if !ok {
			left = right
			text, ok = e.args[0].text()
		}
		if f, known := l.field(left); ok && known {
			return implied{f: {text}}
		}
	case e.call(opIn, 2):
		if list, ok := texts(e.args[1]); ok {
			if f, known := l.field(e.args[0]); known {
				return implied{f: sorted(list)}
			}
		}
		if key, ok := e.args[0].text(); ok {
			if name, known := l.variable(e.args[1], StringMap); known {
				return implied{field{variable: name, key: key, keyed: true}: nil}
			}
		}
	case e.kind == kindHas:
		if f, known := l.field(e); known {
			return implied{f: nil}
		}
	}
	return nil
}

// field recognises a string variable, and m['k'], m.k and has(m.k) of a map variable.
func (l *layout) field(e *expr) (field, bool) {
	if name, ok := l.variable(e, String); ok {
		return field{variable: name}, true
	}
	key := e.name
	switch {
	case e.call(opIndex, 2):
		var ok bool
		if key, ok = e.args[1].text(); !ok {
			return field{}, false
		}
	case e.kind != kindSelect && e.kind != kindHas:
		return field{}, false
	}
	name, ok := l.variable(e.args[0], StringMap)
	return field{variable: name, key: key, keyed: true}, ok
}

// variable recognises a declared variable of the type in a checked tree, where .resource.kind has
// become resource.kind.
func (l *layout) variable(e *expr, want Type) (string, bool) {
	if e.kind != kindName {
		return "", false
	}
	slot, ok := l.slots[e.name]
	return e.name, ok && l.variables[slot].Type == want
}

// sorted returns the values in order, each once; never nil.
func sorted(values []string) []string {
	values = append([]string{}, values...)
	slices.Sort(values)
	return slices.Compact(values)
}

// intersection returns the values that are in both sorted lists. A nil list stands for every value.
func intersection(a, b []string) []string {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	both := []string{}
	for _, v := range a {
		if _, ok := slices.BinarySearch(b, v); ok {
			both = append(both, v)
		}
	}
	return both
}
