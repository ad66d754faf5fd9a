package selector

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Env compiles expressions over one schema. It is immutable and safe for concurrent use; making one
// takes about as long as compiling an expression, so make it once, not once per expression. Only
// [NewEnv] makes one: the zero value and a nil pointer refuse every expression, and their
// [Env.NewValues] returns the zero value.
type Env struct {
	layout        *layout
	limits        Limits
	library       *library
	functions     map[string]bool
	functionNames []string
}

// NewEnv returns an environment for the schema and limits. The error is what [Schema.Validate]
// reports or, if the schema is valid, what [Limits.Validate] reports, with "limits." in front of
// its paths.
func NewEnv(schema Schema, limits Limits) (*Env, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	if err := limits.Validate(); err != nil {
		return nil, fieldErrors("limits", strictjson.Faults(err))
	}
	e := &Env{layout: newLayout(schema), limits: limits.withDefaults()}
	var err error
	if e.library, err = newLibrary(e.layout.variables, e.limits); err != nil {
		return nil, err
	}
	e.functions = map[string]bool{}
	for _, name := range e.library.functions() {
		e.functions[name] = true
		if identifier(name) {
			e.functionNames = append(e.functionNames, name)
		}
	}
	slices.Sort(e.functionNames)
	return e, nil
}

// NewValues returns a [Vars] for the environment's schema in which no variable has a value yet.
func (e *Env) NewValues() *Values {
	if !e.made() {
		return &Values{}
	}
	return &Values{layout: e.layout, slots: make([]slot, len(e.layout.variables))}
}

// made reports whether e comes from NewEnv.
func (e *Env) made() bool { return e != nil && e.layout != nil }

// Matcher is [Env.Compile] with the interface as its result: any package can declare an interface
// with this method, and accept an Env for it, without importing this one.
func (e *Env) Matcher(expression string) (Matcher, error) {
	s, err := e.Compile(expression)
	if err != nil {
		return nil, err // and not s: an interface with a nil pointer inside is not nil
	}
	return s, nil
}

// Compile turns an expression into a selector, or returns a [*CompileError] with the first fault.
// It refuses a text that is empty or not CEL, names that are not declared, a comparison of
// different types, and a result that is not a bool. It refuses a map variable used for anything but
// its keys, a regular expression that is invalid or not a literal, a loop variable that hides a
// declared one, and a conversion of a literal that must fail, as in int('x'), wherever it stands.
// It also refuses a text that exceeds a limit; then errors.Is(err, ErrLimit) holds as well. It
// never panics, whatever the text.
func (e *Env) Compile(expression string) (*Selector, error) {
	return e.compile(expression, true)
}

func (e *Env) compile(expression string, native bool) (s *Selector, err error) {
	src := source{e, expression}
	if !e.made() {
		return nil, src.refuse(0, 0, "the environment was not made by NewEnv", "make it with NewEnv")
	}
	defer func() {
		// The parser and checker are not ours, and one known panic is documented at Env.regex.
		if r := recover(); r != nil {
			s, err = nil, src.refuse(0, 0, fmt.Sprintf("the CEL compiler failed: %v", r), simpler)
		}
	}()
	checked, err := src.check()
	if err != nil {
		return nil, err
	}
	cost, err := checked.cost()
	if err != nil {
		return nil, src.refuse(0, 0, "the cost cannot be estimated: "+err.Error(), simpler)
	}
	if cost > e.limits.EstimatedCost {
		return nil, src.exceeds("the estimated cost is %d, the limit is %d", cost, e.limits.EstimatedCost, "use fewer or shorter comparisons, above all inside comprehensions")
	}

	tree := checked.tree()
	s = &Selector{
		text:   e.library.canonical(checked, expression),
		layout: e.layout,
		limits: e.limits,
		reads:  e.layout.read(tree),
		terms:  e.layout.implied(tree).terms(),
		cost:   cost,
	}
	if native {
		natively(s, tree)
	}
	var f *fault
	if s.tests == nil && s.native == nil {
		if s.plain, f = checked.program(0); f != nil {
			return nil, src.at(f)
		}
	}
	if s.metered, f = checked.program(e.limits.RunCost); f != nil {
		return nil, src.at(f)
	}
	return s, nil
}

// read lists the variables that a tree reads. Loop variables cannot hide declared ones, so names
// suffice.
func (l *layout) read(tree *expr) []variable {
	seen := map[int]bool{}
	tree.walk(func(n *expr) {
		if n.kind == kindName {
			if slot, ok := l.slots[n.name]; ok {
				seen[slot] = true
			}
		}
	})
	var reads []variable
	for slot, v := range l.variables {
		if seen[slot] {
			reads = append(reads, variable{Variable: v, slot: slot})
		}
	}
	return reads
}

// cut returns the beginning of a text, which need not be UTF-8, without half a character at its
// end.
func cut(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	for end := most; end > most-utf8.UTFMax; end-- {
		if utf8.RuneStart(text[end]) {
			return text[:end]
		}
	}
	return text[:most]
}
