package selector

import (
	"fmt"
	"slices"
	"strings"
)

// sideBySide is what to do with relations that stand beside one another without parentheses. CEL
// has one level for ==, !=, <, <=, >, >= and in: flag == 'a' in tags is (flag == 'a') in tags.
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
	if n.id != id {
		at := slices.IndexFunc(n.args, func(arg *expr) bool { return arg.id == id })
		switch {
		case at >= 0 && n.kind == kindList && misfit(msg):
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
	case n.kind != kindCall || misfit(msg):
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

// misfit reports whether a fault of types, which msg says in plain words, is that a value does not
// fit where it stands, though by itself it is right.
func misfit(msg string) bool { return strings.HasPrefix(msg, "expected type") || walks(msg) }

// walks reports whether a fault of types is that a value which is no list stands where one is
// walked.
func walks(msg string) bool { return strings.Contains(msg, "cannot be range of a comprehension") }

// untyped says what to do about a fault of types, which msg says in plain words, that has no
// remedy.
func untyped(msg string) string {
	if strings.HasPrefix(msg, "expected type 'bool'") {
		return "a condition is needed here: compare it, as in x == 'a'"
	}
	if walks(msg) {
		return "only a list is walked: a text is asked with x.contains('a'), and a map for a key by 'key' in m"
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
