package selector

import (
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// expr is a node of a syntax tree, as far as this package looks at it. It exists so that only
// cel.go and celvalue.go use the CEL library.
type expr struct {
	kind      kind
	id        int64   // the library's number for it
	line, col int     // 1-based
	name      string  // variable; field of a selection; function of a call; loop variable of a comprehension
	value     any     // of literals only: string, int64, bool, nil for null, or another type that this package does not look into
	args      []*expr // operands; a method's receiver is the first
	member    bool    // call written as receiver.function(…)
	typ       exprType
}

type kind uint8

const (
	kindOther      kind = iota // nothing this package knows: refused
	kindLiteral                // value
	kindName                   // name: a variable of the schema, a loop variable, or the name of a type
	kindSelect                 // args[0].name
	kindHas                    // has(args[0].name)
	kindCall                   // name(args…)
	kindList                   // [args…]
	kindMap                    // {args[0]: args[1], …}
	kindMessage                // name{…}
	kindComprehend             // args: range, start, condition, step, result
)

// exprType is the type of a checked expression, as far as it matters here.
type exprType uint8

const (
	typeOther exprType = iota
	typeUnknown
	typeString
	typeInt
	typeBool
)

// Names of CEL's operators, as its syntax tree spells them.
const (
	opAnd          = "_&&_"
	opOr           = "_||_"
	opNot          = "!_"
	opEqual        = "_==_"
	opNotEqual     = "_!=_"
	opLess         = "_<_"
	opLessEqual    = "_<=_"
	opGreater      = "_>_"
	opGreaterEqual = "_>=_"
	opIn           = "@in"
	opIndex        = "_[_]"
	opCondition    = "_?_:_"
)

// walk calls visit for e and everything below it, parents first.
func (e *expr) walk(visit func(*expr)) {
	visit(e)
	for _, arg := range e.args {
		arg.walk(visit)
	}
}

// call reports whether e calls the function with that many operands, the receiver included.
func (e *expr) call(function string, operands int) bool {
	return e.kind == kindCall && e.name == function && len(e.args) == operands
}

// relation reports whether e compares two values, or asks whether a list or a map has one.
func (e *expr) relation() bool {
	switch e.name {
	case opEqual, opNotEqual, opLess, opLessEqual, opGreater, opGreaterEqual, opIn:
		return e.kind == kindCall
	}
	return false
}

// lookup reports whether e is x.name or x[key].
func (e *expr) lookup() bool { return e.kind == kindSelect || e.call(opIndex, 2) }

// flatten lists the operands of a chain of one operator, from left to right: a && (b && c) and (a
// && b) && c are the same chain.
func (e *expr) flatten(op string) []*expr {
	if !e.call(op, 2) {
		return []*expr{e}
	}
	return append(e.args[0].flatten(op), e.args[1].flatten(op)...)
}

// equal reports whether e and f are the same expression, wherever it stands in its text, however a
// chain of && or || is grouped, and whether it is checked or only parsed.
func (e *expr) equal(f *expr) bool {
	if path, ok := e.path(); ok {
		other, ok := f.path()
		return ok && strings.Join(path, ".") == strings.Join(other, ".")
	}
	if e.kind != f.kind || e.name != f.name || !reflect.DeepEqual(e.value, f.value) {
		return false
	}
	own, other := e.args, f.args
	if e.call(opAnd, 2) || e.call(opOr, 2) {
		own, other = e.flatten(e.name), f.flatten(e.name)
	}
	return slices.EqualFunc(own, other, (*expr).equal)
}

// text returns the value of a string literal.
func (e *expr) text() (string, bool) {
	s, ok := e.value.(string)
	return s, ok
}

// path returns the names of a chain such as a.b.c, or false if e is no such chain.
func (e *expr) path() ([]string, bool) {
	switch e.kind {
	case kindName:
		return []string{strings.TrimPrefix(e.name, ".")}, true
	case kindSelect:
		if names, ok := e.args[0].path(); ok {
			return append(names, e.name), true
		}
	}
	return nil, false
}

// begin returns the line and the column at which e begins for a reader or, of a call, those of its
// function or operator. The library places a chain of keys at its last dot or bracket, and a call
// or a macro at its parenthesis.
func (e *expr) begin(text string) (line, col int) {
	name := ""
	switch {
	case e.lookup():
		return e.args[0].begin(text)
	case e.kind == kindCall:
		name = e.name
	case e.kind == kindHas:
		name = "has"
	case e.kind == kindName:
		if dot := strings.LastIndexByte(e.name, '.'); dot > 0 {
			name = e.name[:dot]
		}
	}
	lines := strings.Split(text, "\n")
	if e.line < 1 || e.line > len(lines) {
		return e.line, e.col
	}
	runes := []rune(lines[e.line-1])
	if e.col < 1 || e.col > len(runes) {
		return e.line, e.col
	}
	before := strings.TrimRight(string(runes[:e.col-1]), " \t")
	if e.kind == kindComprehend {
		name = before[len(strings.TrimRightFunc(before, func(r rune) bool { return r < utf8.RuneSelf && wordByte(byte(r)) })):]
	}
	if name != "" && strings.HasSuffix(before, name) {
		return e.line, utf8.RuneCountInString(before) - utf8.RuneCountInString(name) + 1
	}
	return e.line, e.col
}
