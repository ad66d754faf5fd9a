package selector

import (
	"cmp"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/celtext"
)

// fault is a place in a tree and what is wrong there.
type fault struct {
	at        *expr
	msg, hint string
	limit     bool
}

// typeValues are names that can stand in an expression as values, as in type(x) == string.
const typeValues = " bool bytes double int list map null_type string type uint google.protobuf.Duration google.protobuf.Timestamp "

// names finds the first name in a parsed tree that is neither declared nor local, that is bound by
// a macro around it, or the first function that does not exist. The CEL library finds them too, but
// distinguishes them only in the text of its messages.
func (e *Env) names(n *expr, local []string) *fault {
	if path, ok := n.path(); ok {
		return e.resolve(n, path, local)
	}
	switch n.kind {
	case kindHas:
		path, ok := n.args[0].path()
		if name := strings.Join(append(path, n.name), "."); ok && e.layout.has(name) {
			return &fault{at: n, msg: "has(" + name + "): a variable always has a value", hint: "has is for keys of a map, as in has(m.key)"}
		}
	case kindCall:
		if !e.functions[n.name] {
			hint := foreign(n.name)
			if near := cmp.Or(similar(n.name), nearest(n.name, e.functionNames)); hint == "" && near != "" {
				hint = "did you mean " + near + "?"
			}
			hint = cmp.Or(hint, "only the standard functions of CEL are available")
			return &fault{at: n, msg: "there is no function " + n.name, hint: hint}
		}
	case kindMessage:
		return &fault{at: n, msg: "message " + n.name + " cannot be built here", hint: "use strings, numbers, booleans, lists and maps"}
	case kindOther:
		return &fault{at: n, msg: "this is not supported", hint: "use strings, numbers, booleans, lists and maps"}
	case kindComprehend:
		if e.layout.hidden(n.name) {
			return &fault{at: n, msg: "the loop variable " + n.name + " hides a declared variable", hint: "give it another name"}
		}
		if f := e.names(n.args[0], local); f != nil {
			return f
		}
		local = append(local, n.name)
		for _, arg := range n.args[1:] {
			if f := e.names(arg, local); f != nil {
				return f
			}
		}
		return nil
	}
	for _, arg := range n.args {
		if f := e.names(arg, local); f != nil {
			return f
		}
	}
	return nil
}

// resolve checks a chain a.b.c: some prefix of it must be declared.
func (e *Env) resolve(n *expr, path, local []string) *fault {
	// Accumulators of macros have names that no expression can write.
	if slices.Contains(local, path[0]) || strings.HasPrefix(path[0], "@") {
		return nil
	}
	for i := range path {
		if e.layout.has(strings.Join(path[:i+1], ".")) {
			return nil
		}
	}
	full := strings.Join(path, ".")
	if strings.Contains(typeValues, " "+full+" ") {
		return nil
	}
	hint := e.layout.undeclared(path)
	for n.kind == kindSelect {
		n = n.args[0]
	}
	return &fault{at: n, msg: full + " is not declared", hint: hint}
}

func (l *layout) has(name string) bool {
	_, ok := l.slots[name]
	return ok
}

// below lists the variables inside a name that is no variable itself.
func (l *layout) below(name string) []string {
	var names []string
	for _, v := range l.variables {
		if strings.HasPrefix(v.Name, name+".") {
			names = append(names, v.Name)
		}
	}
	return names
}

// hidden reports whether a loop variable of that name would make a declared one unreachable.
func (l *layout) hidden(name string) bool {
	return l.has(name) || len(l.below(name)) > 0
}

// rules finds the first place of a checked tree that is valid CEL but refused here.
func (e *Env) rules(tree *expr) *fault {
	if f := e.ruled(tree, 0); f != nil {
		return f
	}
	if tree.typ != typeBool {
		hint := "a selector must say yes or no, as in a comparison"
		if comparison := e.layout.compared(tree); comparison != "" {
			hint = "compare it, as in " + comparison
		}
		return &fault{at: tree, msg: "the result is not a bool", hint: hint}
	}
	return nil
}

// compared returns an example of a condition on n if n is a variable or one key of a map, else
// empty.
func (l *layout) compared(n *expr) string {
	if f, ok := l.field(n); ok && f.keyed {
		return f.variable + "[" + celtext.Quote(f.key) + "] == '…'"
	}
	for typ, format := range map[Type]string{String: "%s == '…'", Int: "%s > 0", Timestamp: "%s < timestamp('2026-01-31T09:00:00Z')", StringList: "'…' in %s", StringMap: "%s['…'] == '…'"} {
		if name, ok := l.variable(n, typ); ok {
			return fmt.Sprintf(format, name)
		}
	}
	return ""
}

func (e *Env) ruled(n *expr, nesting int) *fault {
	if n.typ == typeUnknown {
		return &fault{at: n, msg: "the type of this is only known at run time", hint: "use values of one declared type"}
	}
	maps := []*expr(nil) // operands that may be a map variable
	switch n.kind {
	case kindSelect, kindHas:
		maps = n.args
	case kindCall:
		switch {
		case n.call(opIndex, 2):
			maps = n.args[:1]
		case n.call(opIn, 2):
			maps = n.args[1:]
		case n.name == "matches":
			if f := e.regex(n); f != nil {
				return f
			}
		case len(n.args) == 2 && n.member && strings.HasPrefix(n.name, "get"):
			if f := zone(n.args[1]); f != nil {
				return f
			}
		}
	case kindComprehend:
		if nesting++; nesting > e.limits.Nesting {
			return &fault{at: n, limit: true, msg: fmt.Sprintf("comprehensions are nested %d deep, the limit is %d", nesting, e.limits.Nesting), hint: "walk one list at a time, as in list.exists(x, x in ['a', 'b'])"}
		}
	}
	for _, arg := range n.args {
		if name, ok := e.layout.variable(arg, StringMap); ok && !slices.Contains(maps, arg) {
			return &fault{at: arg, msg: name + " can only be asked for keys", hint: fmt.Sprintf("use %s['key'], 'key' in %s or has(%s.key)", name, name, name)}
		}
	}
	for i, arg := range n.args {
		depth := nesting
		if n.kind == kindComprehend && i == 0 {
			depth-- // the range is walked once, before the loop: a.filter(…).all(…) is not nested
		}
		if f := e.ruled(arg, depth); f != nil {
			return f
		}
	}
	return nil
}

// regex checks the pattern of a call of matches. It measures the size after simplification, as the
// matcher runs it: the CEL library's own limit compiles without simplification and panics on
// (a{1,100}).
func (e *Env) regex(call *expr) *fault {
	pattern := call.args[len(call.args)-1]
	text, ok := pattern.text()
	if !ok {
		return &fault{at: pattern, msg: "the regular expression must be a string literal", hint: "as in x.matches('^a'); other values are for ==, startsWith, endsWith and contains"}
	}
	size, err := programSize(text)
	if err != nil {
		return &fault{at: pattern, msg: "invalid regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "), hint: "the syntax is that of RE2"}
	}
	if size > e.limits.RegexProgram {
		return &fault{at: pattern, limit: true, msg: fmt.Sprintf("the regular expression has %d instructions, the limit is %d", size, e.limits.RegexProgram), hint: "repeat less, or use startsWith, endsWith or contains"}
	}
	return nil
}

// programSize returns the number of instructions that a regular expression compiles to.
func programSize(pattern string) (int, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0, err
	}
	return len(prog.Inst), nil
}

// zone checks the time zone argument of getHours and similar functions. Names would be looked up in
// files of the machine on every evaluation, so that two machines could disagree; UTC and fixed
// offsets are the same everywhere.
func zone(arg *expr) *fault {
	text, ok := arg.text()
	if ok && text == "UTC" {
		return nil
	}
	if ok && len(text) == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':' {
		hour, minute := text[1:3], text[4:6]
		if digits(hour) && digits(minute) && hour <= "23" && minute <= "59" {
			return nil
		}
	}
	return &fault{at: arg, msg: "the time zone must be 'UTC' or an offset", hint: "such as '+01:00'"}
}

func digits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// sideBySide is what to do with relations that stand beside one another without parentheses. CEL has
// one level for ==, !=, <, <=, >, >= and in: flag == 'a' in tags is (flag == 'a') in tags.
const sideBySide = "comparisons and in bind alike, from left to right: put one in parentheses, as in x == (y > 0), or join two with &&"

// precedence returns what to do if the node with this id, which does not type-check, is the left
// operand of the relation n and was meant to be something else.
func (n *expr) precedence(id int64, msg string) string {
	if !n.relation() || n.args[0].id != id {
		return ""
	}
	switch left := n.args[0]; {
	case left.call(opNot, 1):
		return "! is for what stands next to it alone: negate the whole in parentheses, as in !(x in y)"
	case left.relation() && strings.Contains(msg, "bool"): // no conversion of its sides would help
		return sideBySide
	}
	return ""
}

// remedy returns what to write instead, if n is the cause that the node with this id does not
// type-check, which msg says in plain words; empty if it has no advice. A value that does not fit
// where it stands is sound, and then what it stands in is the cause.
func (n *expr) remedy(id int64, msg string, sound func(*expr) bool) string {
	misfit := strings.HasPrefix(msg, "expected type") // by itself the node is right
	if n.id != id {
		at := slices.IndexFunc(n.args, func(arg *expr) bool { return arg.id == id })
		switch {
		case at >= 0 && n.kind == kindList && misfit:
			return "the values of a list must have the same type"
		case at < 0 || !sound(n.args[at]):
			return ""
		case n.call("timestamp", 1):
			return "RFC 3339, as in timestamp('2026-01-31T09:00:00Z')"
		case n.call("duration", 1):
			return "as in duration('36h'); the units are h, m, s, ms, us and ns"
		case n.call(opAnd, 2), n.call(opOr, 2):
			return "&& and || join conditions: compare it, as in x == 'a'"
		}
		return ""
	}
	switch {
	case sound(n):
		return ""
	case n.kind == kindSelect && similar(n.name) == "size":
		return "write size(x)"
	case n.kind == kindSelect || n.kind == kindHas:
		return "only a map has keys; one with dots is written m['a.b']"
	case n.kind != kindCall || misfit:
		return ""
	}
	switch n.name {
	case opEqual, opNotEqual, opLess, opLessEqual, opGreater, opGreaterEqual:
		if slices.ContainsFunc(n.args, func(arg *expr) bool { return arg.kind == kindLiteral && arg.value == nil }) {
			return "nothing is ever null: ask whether a key is there with 'key' in m"
		}
		return n.comparable(msg)
	case opNot:
		return "! is for conditions: compare it, as in x != 'a'"
	case opIn:
		if n.args[0].relation() {
			return sideBySide
		}
		if n.args[1].kind == kindLiteral {
			return "the right side must be a list or a map, as in x in ['a', 'b']"
		}
		return "a list must hold values of the same type, and the keys of a map are texts"
	case opIndex:
		return "a map is asked for a key, as in m['key'], and a list for a number"
	case "startsWith", "endsWith", "contains":
		if n.member && n.name == "contains" {
			return "it is for texts: whether a list has a value, or a map a key, is asked with 'x' in list"
		}
		return "write x." + n.name + "('…')"
	case opCondition:
		return "it is written condition ? x : y, where x and y have the same type"
	}
	return ""
}

// untyped says what to do about a fault of types, which msg says in plain words, that has no remedy.
func untyped(msg string) string {
	if strings.HasPrefix(msg, "expected type 'bool'") {
		return "a condition is needed here: compare it, as in x == 'a'"
	}
	return "values of other types are needed here: convert with int(), double(), string() or timestamp()"
}

// comparable returns how to write a comparison of two types, which msg names as in "there is no int
// == string": mostly the value is right, and written in the form of another type.
func (n *expr) comparable(msg string) string {
	left, right, _ := strings.Cut(strings.TrimPrefix(msg, "there is no "), " "+strings.Trim(n.name, "_")+" ")
	for i, types := range [][2]string{{left, right}, {right, left}} {
		text, literal := n.args[i].text()
		switch own, other := types[0], types[1]; {
		case own == "int" && other == "double":
			return "a number with a point is no int: write a whole one, or double(x) for the int"
		case own == "int" && other == "string" && n.args[i].kind == kindLiteral:
			return fmt.Sprintf("write '%v' if a text is meant, and int(x) for the text if a number is", n.args[i].value)
		case own == "bool" && other == "string" && n.args[i].kind == kindLiteral:
			return fmt.Sprintf("the other side is a text: write '%v'", n.args[i].value)
		case own != "string":
		case other == "timestamp":
			return "an instant is written timestamp('2026-01-31T09:00:00Z')"
		case other == "duration":
			return "a length of time is written duration('36h')"
		case other == "list(string)" && (n.name == opEqual || n.name == opNotEqual):
			return "whether a list has a value is asked with 'x' in list"
		case literal && (other == "bool" && (text == "true" || text == "false") || other == "int" && text != "" && digits(text)):
			return "only a text is in quotes: write " + cut(text)
		}
	}
	if n.args[0].relation() {
		return sideBySide
	}
	if (left == "bool" || right == "bool") && left != "string" && right != "string" { // no conversion makes these two the same
		return "a bool is compared with a bool, as in x == (y > 0)"
	}
	return "both sides must have the same type: convert one with int(), string() or timestamp()"
}
