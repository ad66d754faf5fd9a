package selector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Env compiles expressions over one schema. It is immutable and safe for concurrent use; making one
// takes about as long as compiling an expression, so make it once, not once per expression.
type Env struct {
	layout        *layout
	limits        Limits
	library       *library
	functions     map[string]bool
	functionNames []string
}

// NewEnv returns an environment for the schema and limits. The error is what Validate of the schema
// reports or, if that is valid, what Validate of the limits reports.
func NewEnv(schema Schema, limits Limits) (*Env, error) {
	if err := schema.Validate(); err != nil {
		return nil, err
	}
	if err := limits.Validate(); err != nil {
		return nil, below("limits", err)
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
	return &Values{layout: e.layout, slots: make([]slot, len(e.layout.variables))}
}

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
	refuse := func(line, col int, msg, hint string, limit bool) error {
		return &CompileError{Expr: cut(expression), Line: line, Col: col, Msg: msg, Hint: hint, limit: limit}
	}
	defer func() {
		// The parser and checker are not ours, and one known panic is documented at Env.regex.
		if r := recover(); r != nil {
			s, err = nil, refuse(0, 0, fmt.Sprintf("the CEL compiler failed: %v", r), simpler, false)
		}
	}()
	switch {
	case strings.TrimSpace(expression) == "":
		return nil, refuse(1, 1, "the expression is empty", "write true to match everything", false)
	case len(expression) > e.limits.TextBytes:
		return nil, refuse(1, 1, fmt.Sprintf("the expression has %d bytes, the limit is %d", len(expression), e.limits.TextBytes), shorter, true)
	case !utf8.ValidString(expression):
		line, col := place(expression, invalid(expression))
		return nil, refuse(line, col, "the expression is not valid UTF-8", "save it as UTF-8, or leave this byte out", false)
	}
	at := func(f *fault) error {
		return refuse(f.at.line, f.at.begin(expression), f.msg, f.hint, f.limit)
	}

	parsed, trouble := e.library.parse(expression)
	if trouble != nil {
		if trouble.limit {
			return nil, refuse(1, 1, trouble.msg, "put fewer parentheses, negations and lists inside one another", true)
		}
		if f := e.library.misusedMacro(expression); f != nil {
			return nil, at(f)
		}
		if s := firstSlip(expression); s != nil {
			line, col := place(expression, s.at)
			return nil, refuse(line, col, "syntax error at "+s.found, s.hint, false)
		}
		msg := readable(trouble.msg)
		return nil, refuse(trouble.line, trouble.col, msg, unparsed(expression, msg), false)
	}
	nodes := 0
	parsed.tree().walk(func(*expr) { nodes++ })
	if nodes > e.limits.Nodes {
		return nil, refuse(1, 1, fmt.Sprintf("the expression has %d nodes, the limit is %d", nodes, e.limits.Nodes), shorter, true)
	}
	if f := e.names(parsed.tree(), nil); f != nil {
		// The parser takes a word such as AND in front of a parenthesis for a call.
		if s := firstSlip(expression); s != nil && f.at.kind != kindHas && strings.EqualFold(s.found, f.at.name) {
			line, col := place(expression, s.at)
			return nil, refuse(line, col, "there is no "+s.found, s.hint, false)
		}
		if f.at.kind == kindName {
			start := offset(expression, f.at.line, f.at.col)
			f.hint = cmp.Or(e.layout.bracketed(expression, start), f.hint, unquoted(f.at.name, expression, start))
		}
		return nil, at(f)
	}
	checked, trouble := e.library.check(parsed)
	if trouble != nil {
		return nil, refuse(trouble.line, trouble.col, readable(trouble.msg), trouble.hint, false)
	}
	tree := checked.tree()
	if f := e.rules(tree); f != nil {
		return nil, at(f)
	}
	cost, err := checked.cost()
	if err != nil {
		return nil, refuse(0, 0, "the cost cannot be estimated: "+err.Error(), simpler, false)
	}
	if cost > e.limits.EstimatedCost {
		return nil, refuse(1, 1, fmt.Sprintf("the estimated cost is %d, the limit is %d", cost, e.limits.EstimatedCost),
			"use fewer or shorter comparisons, above all inside comprehensions", true)
	}

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
			return nil, at(f)
		}
	}
	if s.metered, f = checked.program(e.limits.RunCost); f != nil {
		return nil, at(f)
	}
	return s, nil
}

// What to do about an expression that is too large, and about one that the CEL library cannot cope
// with.
const (
	shorter = "compare with a list, as in x in ['a', 'b'], or split the expression in two"
	simpler = "simplify the expression"
)

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

// invalid returns the offset of the first byte that is not UTF-8.
func invalid(text string) int {
	for i := range text {
		if r, width := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && width == 1 {
			return i
		}
	}
	return len(text)
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
