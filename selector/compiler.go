package selector

import (
	"regexp"
	"slices"
	"strings"
)

// natively compiles a checked expression into s, if it is within the native subset.
func natively(s *Selector, e *expr) {
	c := compiler{s: s}
	if tests := c.conjunction(e.flatten(opAnd)); tests != nil {
		s.tests, s.missing = tests, c.missing
		return
	}
	if n := c.bool(e); n != nil {
		s.native, s.missing = n, c.missing
	}
}

type compiler struct {
	s       *Selector
	missing []*missingKey
}

// conjunction compiles terms that are all tests, or returns nil. A test for a key directly in front
// of a test of its value is folded into the latter: a missing key makes the conjunction no,
// whatever the other terms.
func (c *compiler) conjunction(terms []*expr) conjunction {
	tests := make(conjunction, 0, len(terms))
	for _, e := range terms {
		t := c.test(e)
		if t == nil {
			return nil
		}
		if last := len(tests) - 1; last >= 0 && tests[last].guards(t) {
			t.absent = no
			tests[last] = *t
			continue
		}
		tests = append(tests, *t)
	}
	return tests
}

// guards reports whether t tests that the key of u is there. It holds also where u is another test
// for the key: without the key the conjunction is no, and with it u decides.
func (t *test) guards(u *test) bool {
	return t.op == testHas && !t.negated && t.slot == u.slot && t.key == u.key
}

// variable recognises a variable of the type.
func (c *compiler) variable(e *expr, want Type) *test {
	name, ok := c.s.layout.variable(e, want)
	if !ok {
		return nil
	}
	slot := c.s.layout.slots[name]
	return &test{name: name, slot: slot, fault: firstFault - verdict(slot), tooLong: c.s.limits.StringBytes}
}

// string recognises what a test can be about: a string variable, or a constant key of a map
// variable.
func (c *compiler) string(e *expr) *test {
	f, ok := c.s.layout.field(e)
	if !ok {
		return nil
	}
	if !f.keyed {
		return c.variable(e, String)
	}
	t := c.variable(e.args[0], StringMap)
	t.keyed, t.key = true, f.key
	t.absent = firstMissing + verdict(len(c.missing))
	c.missing = append(c.missing, newMissingKey(f.variable, f.key))
	return t
}

// presence recognises 'k' in m and has(m.k).
func (c *compiler) presence(e *expr) *test {
	container, key := e, e.name
	switch {
	case e.kind == kindHas:
		container = e.args[0]
	case e.call(opIn, 2):
		var ok bool
		if key, ok = e.args[0].text(); !ok {
			return nil
		}
		container = e.args[1]
	}
	t := c.variable(container, StringMap)
	if t == nil {
		return nil
	}
	t.keyed, t.key, t.op, t.absent = true, key, testHas, no
	return t
}

// test compiles a condition on one string, or returns nil if e is not one.
func (c *compiler) test(e *expr) *test {
	if e.call(opNot, 1) {
		t := c.test(e.args[0])
		if t != nil {
			t.negated = !t.negated
			if t.op == testHas {
				t.absent = yes - t.absent
			}
		}
		return t
	}
	if t := c.presence(e); t != nil {
		return t
	}
	if e.kind != kindCall || len(e.args) != 2 {
		return nil
	}
	about, with := e.args[0], e.args[1]
	var op testOp
	switch e.name {
	case opEqual, opNotEqual:
		op = testEqual
		if _, literal := about.text(); literal {
			about, with = with, about
		}
	case "startsWith":
		op = testPrefix
	case "endsWith":
		op = testSuffix
	case "contains":
		op = testContains
	case "matches":
		op = testPattern
	case opIn:
		op = testListed
	default:
		return nil
	}
	literal, isText := with.text()
	list, isList := texts(with)
	if op == testListed && (!isList || len(list) == 0) || op != testListed && !isText {
		return nil
	}
	t := c.string(about)
	if t == nil {
		return nil
	}
	t.op, t.literal, t.listed, t.negated = op, literal, newSet(list), e.name == opNotEqual
	if op == testPattern {
		var err error
		if t.pattern, err = regexp.Compile(literal); err != nil {
			return nil
		}
	}
	return t
}

// bool compiles an expression of type bool, or returns nil if it is outside the subset.
func (c *compiler) bool(e *expr) node {
	if t := c.test(e); t != nil {
		return conjunction{*t}.run
	}
	switch {
	case e.kind == kindLiteral:
		b, ok := e.value.(bool)
		if !ok {
			return nil
		}
		v := truth(b)
		return func(input) verdict { return v }
	case e.kind == kindName:
		return c.flag(e)
	case e.call(opIn, 2) && e.args[1].kind == kindList && len(e.args[1].args) == 0:
		// The library answers this without reading the left side, whatever that is.
		return func(input) verdict { return no }
	case e.call(opNot, 1):
		n := c.bool(e.args[0])
		if n == nil {
			return nil
		}
		return func(in input) verdict {
			v := n(in)
			if v == yes || v == no {
				return yes - v
			}
			return v
		}
	case e.call(opAnd, 2):
		terms := e.flatten(opAnd)
		if tests := c.conjunction(terms); tests != nil {
			return tests.run
		}
		return c.junction(terms, no)
	case e.call(opOr, 2):
		return c.junction(e.flatten(opOr), yes)
	case e.kind == kindCall && len(e.args) == 2:
		return c.pair(e)
	}
	return nil
}

// junction compiles a chain of && or ||: the verdict that decides (no for &&, yes for ||) wins over
// everything, then the first term that is neither yes nor no, then the other verdict.
func (c *compiler) junction(terms []*expr, decides verdict) node {
	nodes := make([]node, len(terms))
	for i, e := range terms {
		if nodes[i] = c.bool(e); nodes[i] == nil {
			return nil
		}
	}
	return func(in input) verdict {
		result := yes - decides
		for _, n := range nodes {
			switch v := n(in); {
			case v == decides || v == large:
				return v
			case v != yes-decides && result == yes-decides:
				result = v
			}
		}
		return result
	}
}

// flag compiles a bool variable.
func (c *compiler) flag(e *expr) node {
	t := c.variable(e, Bool)
	if t == nil {
		return nil
	}
	return func(in input) verdict {
		if in.values != nil {
			s := &in.values.slots[t.slot]
			if !s.bound {
				return t.fault
			}
			return truth(s.flag)
		}
		b, ok := valueOf(in.vars, t.name).(bool)
		if !ok {
			return t.fault
		}
		return truth(b)
	}
}

// pair compiles a condition on two strings, bools or ints.
func (c *compiler) pair(e *expr) node {
	left, right := e.args[0], e.args[1]
	both := func(typ exprType) bool { return left.typ == typ && right.typ == typ }
	switch e.name {
	case opEqual, opNotEqual:
		equal := e.name == opEqual
		switch {
		case both(typeString):
			return compare(c.text(left), c.text(right), func(a, b string) bool { return (a == b) == equal })
		case both(typeInt):
			return compare(c.int(left), c.int(right), func(a, b int64) bool { return (a == b) == equal })
		case both(typeBool):
			return compare(c.boolean(left), c.boolean(right), func(a, b verdict) bool { return (a == b) == equal })
		}
	case opIn:
		return c.intIn(left, right)
	case "startsWith":
		return compare(c.text(left), c.text(right), strings.HasPrefix)
	case "endsWith":
		return compare(c.text(left), c.text(right), strings.HasSuffix)
	case "contains":
		return compare(c.text(left), c.text(right), strings.Contains)
	}
	return nil
}

// operand reads a value: it returns it and yes, or the verdict that says why it cannot be read.
type operand[T any] func(in input) (T, verdict)

// compare makes a condition on two operands, which are both read. It is nil if one of them is.
func compare[T any](a, b operand[T], hold func(a, b T) bool) node {
	if a == nil || b == nil {
		return nil
	}
	return func(in input) verdict {
		x, v := a(in)
		if v != yes {
			return v
		}
		y, v := b(in)
		if v != yes {
			return v
		}
		return truth(hold(x, y))
	}
}

// text compiles what a test can be about.
func (c *compiler) text(e *expr) operand[string] {
	if t := c.string(e); t != nil {
		return t.read
	}
	return nil
}

// boolean compiles an expression of type bool as an operand.
func (c *compiler) boolean(e *expr) operand[verdict] {
	n := c.bool(e)
	if n == nil {
		return nil
	}
	return func(in input) (verdict, verdict) {
		v := n(in)
		if v == no {
			return no, yes
		}
		return v, v
	}
}

// int compiles a literal or variable of type int.
func (c *compiler) int(e *expr) operand[int64] {
	if n, ok := e.value.(int64); ok {
		return func(input) (int64, verdict) { return n, yes }
	}
	t := c.variable(e, Int)
	if t == nil {
		return nil
	}
	return func(in input) (int64, verdict) {
		if in.values != nil {
			s := &in.values.slots[t.slot]
			if !s.bound {
				return 0, t.fault
			}
			return s.number, yes
		}
		n, ok := valueOf(in.vars, t.name).(int64)
		if !ok {
			return 0, t.fault
		}
		return n, yes
	}
}

// intIn compiles n in [literals].
func (c *compiler) intIn(left, right *expr) node {
	if right.kind != kindList {
		return nil
	}
	list := make([]int64, len(right.args))
	for i, arg := range right.args {
		n, ok := arg.value.(int64)
		if !ok {
			return nil
		}
		list[i] = n
	}
	a := c.int(left)
	if a == nil {
		return nil
	}
	return func(in input) verdict {
		n, v := a(in)
		if v != yes {
			return v
		}
		return truth(slices.Contains(list, n))
	}
}

// texts returns the elements of a list of string literals.
func texts(e *expr) ([]string, bool) {
	if e.kind != kindList {
		return nil, false
	}
	list := make([]string, len(e.args))
	for i, arg := range e.args {
		text, ok := arg.text()
		if !ok {
			return nil, false
		}
		list[i] = text
	}
	return list, true
}
