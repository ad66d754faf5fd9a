package selector

import (
	"slices"
	"strings"
)

// CEL has one level for ==, !=, <, <=, >, >= and in, and all of them associate to the left: flag ==
// 'a' in tags is (flag == 'a') in tags. Who writes several without parentheses mostly means
// something else.

// relations are relations side by side in a text, such as a == b in c.
type relations struct {
	start, end int      // where the first operand begins and the last one ends, in bytes
	operands   []string // without space around them
	operators  []string // operators[i] stands between operands[i] and operands[i+1]
	places     []int    // of the operators
}

// mostRelations bounds the relations that are grouped in every way: of four there are 14.
const mostRelations = 4

// relationsAt returns the relations of which the one at an offset is one, or nil if no operator of
// a relation or of a negation is there. The text must parse.
func relationsAt(text string, at int) *relations {
	var open []*relations // what is being read, one for each bracket that is open
	enter := func(i int) { open = append(open, &relations{start: i}) }
	var found *relations
	leave := func(i int) {
		own := open[len(open)-1]
		open = open[:len(open)-1]
		own.finish(text, i)
		if found == nil && (slices.Contains(own.places, at) || len(own.places) > 0 && own.start == at && text[at] == '!') {
			found = own
		}
	}
	enter(0)
	for i := 0; i < len(text) && found == nil; {
		c, own := text[i], open[len(open)-1]
		operator := ""
		switch rest := text[i:]; {
		case c == '\'' || c == '"':
			end, fault := afterString(text, i)
			if fault != nil {
				return nil
			}
			i = end
			continue
		case c == '`':
			end := strings.IndexByte(rest[1:], '`')
			if end < 0 {
				return nil
			}
			i += end + 2
			continue
		case strings.HasPrefix(rest, "//"):
			return nil // what is written behind it on one line would not count
		case c == '(' || c == '[' || c == '{':
			enter(i + 1)
		case c == ')' || c == ']' || c == '}':
			if leave(i); len(open) == 0 {
				return found
			}
		case strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "||"):
			leave(i)
			enter(i + 2)
			i++
		case c == '?' || c == ':' || c == ',':
			leave(i)
			enter(i + 1)
		case wordByte(c):
			end := i
			for end < len(text) && wordByte(text[end]) {
				end++
			}
			if text[i:end] != "in" || i > 0 && text[i-1] == '.' {
				i = end
				continue
			}
			operator = "in"
		case strings.HasPrefix(rest, "<=") || strings.HasPrefix(rest, ">=") || strings.HasPrefix(rest, "==") || strings.HasPrefix(rest, "!="):
			operator = rest[:2]
		case c == '<' || c == '>':
			operator = rest[:1]
		}
		if operator == "" {
			i++
			continue
		}
		own.operators, own.places = append(own.operators, operator), append(own.places, i)
		i += len(operator)
	}
	for found == nil && len(open) > 0 {
		leave(len(text))
	}
	return found
}

// finish cuts out the operands, of which the last one ends in front of an offset.
func (r *relations) finish(text string, end int) {
	r.start = end - len(strings.TrimLeft(text[r.start:end], " \t\r\n\f"))
	r.end = r.start + len(strings.TrimRight(text[r.start:end], " \t\r\n\f"))
	from := r.start
	for i, place := range r.places {
		r.operands = append(r.operands, strings.TrimSpace(text[from:place]))
		from = place + len(r.operators[i])
	}
	r.operands = append(r.operands, strings.TrimSpace(text[from:max(from, r.end)]))
}

// meanings lists what may be meant by the relations, the likeliest first, as it is written in CEL.
func (r *relations) meanings(at int) []string {
	n := len(r.operators)
	if n > mostRelations {
		return nil
	}
	if at == r.start { // a negation, which takes the first operand alone
		return []string{"!(" + strings.TrimSpace(strings.TrimPrefix(r.joined(0, n), "!")) + ")"}
	}
	var all []string
	if r.follow() {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = r.joined(i, i+1)
		}
		all = append(all, strings.Join(parts, " && "))
	}
	return append(all, r.grouped(0, n)...)
}

// joined writes the operands from one to another one, as they stand.
func (r *relations) joined(from, to int) string {
	text := r.operands[from]
	for i := from; i < to; i++ {
		text += " " + r.operators[i] + " " + r.operands[i+1]
	}
	return text
}

// follow reports whether the relations may be meant as in mathematics, where a < b < c and a == b ==
// c are two relations of b. Nobody means that of a literal that others are equal to.
func (r *relations) follow() bool {
	one := func(among ...string) bool {
		return !slices.ContainsFunc(r.operators, func(operator string) bool { return !slices.Contains(among, operator) })
	}
	inner := r.operands[1 : len(r.operands)-1]
	literal := slices.ContainsFunc(inner, func(operand string) bool { return strings.IndexByte("'\"0123456789", operand[0]) >= 0 })
	return len(inner) > 0 && (one("<", "<=") || one(">", ">=") || one("==") && !literal)
}

// grouped lists the operands from one to another one with parentheses in every way.
func (r *relations) grouped(from, to int) []string {
	switch to - from {
	case 0:
		return []string{r.operands[from]}
	case 1:
		return []string{r.joined(from, to)}
	}
	inner := func(text string, operators int) string {
		if operators > 0 {
			return "(" + text + ")"
		}
		return text
	}
	var all []string
	for root := to - 1; root >= from; root-- {
		for _, left := range r.grouped(from, root) {
			for _, right := range r.grouped(root+1, to) {
				all = append(all, inner(left, root-from)+" "+r.operators[root]+" "+inner(right, to-root-1))
			}
		}
	}
	return all
}

// beside says what is wrong with relations side by side, and besides what to do where no meaning is
// evident.
const (
	beside  = "all comparisons bind alike, from left to right: "
	besides = beside + "put one in parentheses, as in x == (y > 0), or join two with &&"
)

// regroup says what to write instead, if a text does not type-check at an offset only because
// relations, or a negation and a relation, stand beside one another without parentheses. What it
// names is accepted where it stands. It returns empty if nothing is.
func (e *Env) regroup(text string, at int) string {
	r := relationsAt(text, at)
	if r == nil {
		return ""
	}
	for _, meaning := range r.meanings(at) {
		if strings.ContainsAny(meaning, "\n\r") || len(cut(meaning)) < len(meaning) {
			continue
		}
		if e.accepts(text[:r.start]+meaning+text[r.end:], r.start, r.start+len(meaning)) {
			if at == r.start {
				return "! is for what stands next to it alone: write " + meaning
			}
			return beside + "write " + meaning
		}
	}
	return ""
}

// accepts reports whether nothing between two offsets of a text is at fault. Where nothing else is
// either, the whole is accepted, if it is within the limits.
func (e *Env) accepts(text string, from, to int) bool {
	parsed, trouble := e.library.parse(text)
	if trouble != nil {
		return false
	}
	checked, all := e.library.troubles(parsed)
	for _, t := range all {
		if at := offset(text, t.line, t.col); from <= at && at < to {
			return false
		}
	}
	return len(all) > 0 || e.rules(checked.tree()) == nil
}
