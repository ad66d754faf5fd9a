package selector

import (
	"regexp"
	"strings"
)

// The native subset: == != in startsWith endsWith contains matches has && || ! over string, bool
// and int variables and constant map keys. It must answer as the CEL library does, errors included,
// for every expression and all data (I4). Therefore it keeps the rules of the logical operators to
// the letter, and leaves to CEL everything that is not certain to agree.
//
// Most selectors are a conjunction of tests of one string each, so that form is the fast one: a
// slice of structs, run by static calls. Everything else is a tree of closures over the same tests.

// input is what an expression is evaluated on: passed by value, so that nothing escapes.
type input struct {
	vars   Vars
	values *Values // vars again, if it has the selector's layout; else nil
}

// node evaluates an expression of type bool.
type node func(in input) verdict

// test is a condition on one string: a variable, or the value of a constant key in a map variable.
type test struct {
	name    string
	slot    int
	keyed   bool
	negated bool // yes and no change places; a missing key and a fault stay what they are
	op      testOp
	key     string
	absent  verdict // if the map lacks the key
	fault   verdict // if the variable has no value, or one of another type
	tooLong int     // more bytes than this are beyond the promised sizes
	literal string
	listed  set
	pattern *regexp.Regexp
}

type testOp uint8

const (
	testEqual testOp = iota
	testHas          // the map has the key
	testPrefix
	testSuffix
	testContains
	testListed
	testPattern
)

// conjunction is a chain of && over tests: no wins over every other verdict, then the first verdict
// that is neither yes nor no, then yes.
type conjunction []test

func (c conjunction) run(in input) verdict {
	if in.values != nil {
		return c.onValues(in.values)
	}
	for i := range c {
		if v := c[i].onVars(in.vars); v != yes {
			return c.after(i, v, in)
		}
	}
	return yes
}

func (c conjunction) onValues(values *Values) verdict {
	for i := range c {
		if v := c[i].onValues(values); v != yes {
			return c.after(i, v, input{vars: values, values: values})
		}
	}
	return yes
}

// after returns the verdict of the conjunction if the tests before i are yes and test i is v, which
// is not yes: a later no still wins.
func (c conjunction) after(i int, v verdict, in input) verdict {
	if v == no || v == large {
		return v
	}
	if w := c[i+1:].run(in); w == no || w == large {
		return w
	}
	return v
}

// onValues and onVars evaluate the test. They decide equality, the case that matters most for
// speed, without calling hold: the call would cost as much as the comparison.
func (t *test) onValues(values *Values) verdict {
	s := &values.slots[t.slot]
	text, there := s.text, s.bound
	if t.keyed {
		text, there = s.labels[t.key]
	}
	switch {
	case there && t.op == testEqual && len(text) <= t.tooLong:
		return truth((text == t.literal) != t.negated)
	case there:
		return t.hold(text)
	case s.bound:
		return t.absent
	}
	return t.fault
}

func (t *test) onVars(vars Vars) verdict {
	text, v, there := t.lookup(vars)
	switch {
	case there && t.op == testEqual && len(text) <= t.tooLong:
		return truth((text == t.literal) != t.negated)
	case there:
		return t.hold(text)
	}
	return v
}

// hold evaluates the test for the string that it is about.
func (t *test) hold(text string) verdict {
	if t.op == testHas {
		return truth(!t.negated)
	}
	if len(text) > t.tooLong {
		return large
	}
	var ok bool
	switch t.op {
	case testEqual:
		ok = text == t.literal
	case testPrefix:
		ok = strings.HasPrefix(text, t.literal)
	case testSuffix:
		ok = strings.HasSuffix(text, t.literal)
	case testContains:
		ok = strings.Contains(text, t.literal)
	case testListed:
		ok = t.listed.has(text)
	case testPattern:
		ok = t.pattern.MatchString(text)
	}
	return truth(ok != t.negated)
}

// lookup reads the string from the host's own variables. If it is not there, v says why.
func (t *test) lookup(vars Vars) (text string, v verdict, there bool) {
	value := valueOf(vars, t.name)
	if !t.keyed {
		text, there = value.(string)
		return text, t.fault, there
	}
	labels, ok := value.(map[string]string)
	if !ok {
		return "", t.fault, false
	}
	text, there = labels[t.key]
	return text, t.absent, there
}

// read returns the string and yes, or the verdict that says why it cannot be read.
func (t *test) read(in input) (string, verdict) {
	var text string
	var v verdict
	var there bool
	if in.values == nil {
		text, v, there = t.lookup(in.vars)
	} else if s := &in.values.slots[t.slot]; !t.keyed {
		text, v, there = s.text, t.fault, s.bound
	} else if text, there = s.labels[t.key]; s.bound {
		v = t.absent
	} else {
		v = t.fault
	}
	switch {
	case !there:
		return "", v
	case len(text) > t.tooLong:
		return "", large
	}
	return text, yes
}

func truth(b bool) verdict {
	if b {
		return yes
	}
	return no
}
