package selector

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// source is a text that is compiled. Its methods refuse it with an error that says where and why.
type source struct {
	*Env
	text string
}

func (s source) refuse(line, col int, msg, hint string) error {
	return &CompileError{Expr: cut(s.text), Line: line, Col: col, Msg: cut(msg), Hint: hint}
}

// exceeds refuses the text because of a limit. format prints the number and the limit.
func (s source) exceeds(format string, number, limit any, hint string) error {
	return &CompileError{Expr: cut(s.text), Line: 1, Col: 1, Msg: fmt.Sprintf(format, number, limit), Hint: hint, limit: true}
}

// at refuses the text because of a fault in its tree.
func (s source) at(f *fault) error {
	line, col := f.at.begin(s.text)
	return &CompileError{Expr: cut(s.text), Line: line, Col: col, Msg: f.msg, Hint: f.hint, limit: f.limit}
}

func (s source) slipped(found *slip, what string) error {
	line, col := place(s.text, found.at)
	return s.refuse(line, col, what+found.found, found.hint)
}

// check returns the tree of the text once it has passed all rules but that on cost.
func (s source) check() (*syntaxTree, error) {
	parsed, err := s.parse()
	if err != nil {
		return nil, err
	}
	nodes := 0
	parsed.tree().walk(func(*expr) { nodes++ })
	if nodes > s.limits.Nodes {
		return nil, s.exceeds("the expression has %d nodes, the limit is %d", nodes, s.limits.Nodes, shorter+", or raise Limits.Nodes")
	}
	if f := s.names(parsed.tree(), nil); f != nil {
		return nil, s.unknown(f)
	}
	checked, trouble := s.library.check(parsed)
	if trouble != nil {
		line, col := trouble.line, trouble.col
		if trouble.at != nil {
			line, col = trouble.at.begin(s.text)
		}
		return nil, s.refuse(line, col, readable(trouble.msg), trouble.hint)
	}
	if f := s.rules(checked.tree()); f != nil {
		return nil, s.at(f)
	}
	return checked, nil
}

func (s source) parse() (*syntaxTree, error) {
	switch {
	case strings.TrimSpace(s.text) == "":
		return nil, s.refuse(1, 1, "the expression is empty", "write true to match everything")
	case len(s.text) > s.limits.TextBytes:
		return nil, s.exceeds("the expression has %d bytes, the limit is %d", len(s.text), s.limits.TextBytes, shorter+", or raise Limits.TextBytes")
	case !utf8.ValidString(s.text):
		line, col := place(s.text, invalid(s.text))
		return nil, s.refuse(line, col, "the expression is not valid UTF-8", "save it as UTF-8, or leave this byte out")
	}
	parsed, trouble := s.library.parse(s.text)
	switch {
	case trouble == nil:
		return parsed, nil
	case trouble.limit:
		return nil, s.exceeds("the expression is nested deeper than the limit of %d: %s", s.limits.Depth, trouble.msg, "put fewer parentheses, negations and lists inside one another")
	}
	if f := s.library.misusedMacro(s.text); f != nil {
		return nil, s.at(f)
	}
	if found := firstSlip(s.text); found != nil {
		return nil, s.slipped(found, "syntax error at ")
	}
	msg := readable(trouble.msg)
	return nil, s.refuse(trouble.line, trouble.col, msg, unparsed(s.text, msg))
}

// unknown refuses the text because of a name.
func (s source) unknown(f *fault) error {
	// The parser takes a word such as AND in front of a parenthesis for a call.
	if found := firstSlip(s.text); found != nil && f.at.kind != kindHas && strings.EqualFold(found.found, f.at.name) {
		return s.slipped(found, "there is no ")
	}
	if f.at.kind == kindName {
		start := offset(s.text, f.at.line, f.at.col)
		f.hint = cmp.Or(s.layout.bracketed(s.text, start), f.hint, unquoted(f.at.name, s.text, start))
	}
	return s.at(f)
}

// What to do about an expression that is too large, and about one that the CEL library cannot cope
// with.
const (
	shorter = "compare with a list, as in x in ['a', 'b'], split the expression in two"
	simpler = "simplify the expression"
)

// invalid returns the offset of the first byte that is not UTF-8.
func invalid(text string) int {
	for i := range text {
		if r, width := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && width == 1 {
			return i
		}
	}
	return len(text)
}
