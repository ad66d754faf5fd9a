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
			return &fault{at: n, msg: "there is no function " + cut(n.name), hint: hint}
		}
	case kindMessage:
		return &fault{at: n, msg: "message " + cut(n.name) + " cannot be built here", hint: "use strings, numbers, booleans, lists and maps"}
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
	return &fault{at: n, msg: cut(full) + " is not declared", hint: hint}
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
		return &fault{at: pattern, msg: "invalid regular expression: " + cut(strings.TrimPrefix(err.Error(), "error parsing regexp: ")), hint: "the syntax is that of RE2"}
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
