package selector

import (
	"math"
	"slices"
)

// Vars gives an expression the values of its variables. It is an alias of an interface literal, so
// that any package can declare the same interface without importing this one.
//
// Lookup returns the value of a declared variable, with exactly the Go type that [Type] names, and
// false if the variable has no value here. It is called for no other names, on the goroutine that
// called Match, and must give the same answer throughout that call. The value is read, never kept.
// [Values] is a ready implementation; for a host's own struct a switch over the names is the
// fastest.
type Vars = interface {
	Lookup(name string) (any, bool)
}

// valueOf returns the value of a variable, or nil, which is of no declared type, if it has none. A
// host that looks up a name missing from a map of strings returns "" and false, which must not
// count as an empty string.
func valueOf(vars Vars, name string) any {
	if value, ok := vars.Lookup(name); ok {
		return value
	}
	return nil
}

// Matcher is the interface of a [*Selector]. Like [Vars] it is an alias of an interface literal.
type Matcher = interface {
	Match(vars interface {
		Lookup(name string) (any, bool)
	}) (bool, error)
}

// Selector is a compiled expression. It is immutable: share it, and keep it for as long as the
// expression is in use, because [Env.Compile] has no cache. The zero value has no result for any
// data: its Match returns an [*EvalError].
type Selector struct {
	text    string
	layout  *layout
	limits  Limits
	reads   []variable // variables that the expression reads, by name
	terms   []Term
	cost    uint64
	tests   conjunction   // if the expression is a conjunction of tests
	native  node          // if it is not, but within the native subset
	missing []*missingKey // what the verdicts from firstMissing on stand for
	plain   *program      // if it is outside the native subset
	metered *program      // for data beyond the promised sizes
}

// variable is a declared variable and its place in [Values].
type variable struct {
	Variable
	slot int
}

// Match reports whether the expression holds for vars. There are three answers, and the caller
// decides what the third means:
//
//	true, nil     it holds
//	false, nil    it does not
//	false, err    errors.Is(err, ErrMissingKey): a map lacks a key, and that decided the result;
//	              else an *EvalError: there is no result for this data
//
// The operators || and && ignore a missing key or an error on one side if the other side decides.
// Of several missing keys and errors, the first counts. Data beyond the [Limits] leaves no result,
// unless it is never looked at because the side before it decides.
func (s *Selector) Match(vars interface {
	Lookup(name string) (any, bool)
}) (bool, error) {
	in := input{vars: vars}
	if values, ok := vars.(*Values); ok && values != nil && values.layout == s.layout {
		in.values = values
	} else if vars == nil {
		in.vars = (*Values)(nil)
	}
	var v verdict
	switch {
	case len(s.tests) == 1 && in.values != nil:
		v = s.tests[0].onValues(in.values)
	case len(s.tests) == 1:
		v = s.tests[0].onVars(in.vars)
	case s.tests != nil:
		v = s.tests.run(in)
	case s.native != nil:
		v = s.native(in)
	case s.plain != nil:
		return s.plain.match(s, in, false)
	default:
		return false, &EvalError{Msg: "the selector was not made by Compile"}
	}
	if v != yes && v != no {
		return s.undecided(v, in)
	}
	return v == yes, nil
}

// undecided turns a verdict that is neither yes nor no into a result.
func (s *Selector) undecided(v verdict, in input) (bool, error) {
	switch {
	case v == large:
		return s.metered.match(s, in, true)
	case v >= firstMissing:
		return false, s.missing[v-firstMissing]
	}
	return false, s.faultOf(in.vars, s.layout.variables[firstFault-v])
}

// String returns the canonical text of the expression, which is the same however the expression is
// spaced, quoted, commented and put in parentheses. Where that text is longer than the [Limits]
// allow, or would not parse to the same expression, String returns the text as it was written.
// Compiled again in the same [Env] the result gives a selector with the same text and the same
// answers.
func (s *Selector) String() string { return s.text }

// Cost returns the bound on the cost of one evaluation, in the units of [Limits], for data within
// the promised sizes.
func (s *Selector) Cost() uint64 { return s.cost }

// Variables returns the names of all variables that the expression reads, sorted. Entities that
// have the same values of these variables share one result. The caller owns the slice.
func (s *Selector) Variables() []string {
	names := make([]string, len(s.reads))
	for i, v := range s.reads {
		names[i] = v.Name
	}
	return names
}

// Terms returns conditions that every match fulfils, for an [Index], ascending by variable and key;
// see [Term]. The caller owns the slices.
func (s *Selector) Terms() []Term {
	terms := make([]Term, len(s.terms))
	for i, t := range s.terms {
		t.Values = slices.Clone(t.Values)
		terms[i] = t
	}
	return terms
}

// verdict is the result of evaluating natively: no, yes, a missing key by its number, or a variable
// at fault by its number.
type verdict int32

const (
	no           verdict = 0
	yes          verdict = 1
	firstMissing verdict = 2
	firstFault   verdict = -1            // and downwards, one per variable of the layout
	large        verdict = math.MinInt32 // data beyond the promised sizes: evaluate again, metered
)

// faultOf returns the error for the value of a variable. The evaluation only notes which variable
// is at fault.
func (s *Selector) faultOf(vars Vars, v Variable) *EvalError {
	value, ok := vars.Lookup(v.Name)
	if !ok {
		return &EvalError{Expr: s.text, Variable: v.Name, Msg: v.Name + " has no value"}
	}
	return &EvalError{Expr: s.text, Variable: v.Name, Msg: v.Name + " must be " + v.Type.goType() + ", not " + goTypeOf(value)}
}
