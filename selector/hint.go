package selector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/celtext"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// nearest returns the known name that a mistyped one probably stands for: the one with the fewest
// edits, and the first in order of several. The edits may be at most a third of the length of name,
// or of its last part if the other parts are right.
func nearest(name string, known []string) string {
	best, edits := "", len(name)/3+1
	dot := strings.LastIndexByte(name, '.') + 1
	written := strings.ToLower(name)
	for _, k := range known {
		most := edits
		if strings.HasPrefix(k, name[:dot]) {
			most = min(most, (len(name)-dot)/3+1)
		}
		meant := strings.ToLower(k)
		if longer := len(written) - len(meant); max(longer, -longer) >= most {
			continue // it takes as many edits at least, and a name may be as long as a whole text
		}
		if d := strictjson.Distance(written, meant); d < most {
			best, edits = k, d
		}
	}
	return best
}

func (l *layout) nearest(name string) string {
	names := make([]string, len(l.variables))
	for i, v := range l.variables {
		names[i] = v.Name
	}
	return nearest(name, names)
}

// bracketed returns how to write in brackets a key such as my-label or example.com/zone, if the
// name at an offset is the rest of such a key after a dot; else empty.
func (l *layout) bracketed(text string, at int) string {
	chain, before := wordAt(text, at)
	if before == 0 || strings.IndexByte("-/", text[at-1]) < 0 {
		return ""
	}
	for _, v := range l.variables {
		if key, ok := strings.CutPrefix(chain, v.Name+"."); ok && v.Type == StringMap {
			return "a key with - or / is written in brackets: " + v.Name + "[" + celtext.Quote(key) + "]"
		}
	}
	return ""
}

// unquoted returns a hint for a name at an offset that may be a text without quotes, or the
// beginning of one such as node-drain. What stands behind - or / by itself is no such text.
func unquoted(name, text string, at int) string {
	if word, before := wordAt(text, at); before == 0 && strings.ContainsAny(word, "-/") {
		name = strings.TrimRight(word, "-/.")
	}
	return "if a text is meant, write " + celtext.Quote(cut(name))
}

// wordAt returns what is at an offset in one piece, where dots, - and / are parts of words, and how
// much of it is before the offset.
func wordAt(text string, at int) (word string, before int) {
	inWord := func(c byte) bool { return wordByte(c) || strings.IndexByte("-/.", c) >= 0 }
	start, end := at, at
	for start > 0 && inWord(text[start-1]) {
		start--
	}
	for end < len(text) && inWord(text[end]) {
		end++
	}
	return text[start:end], at - start
}

// ending lists the variables whose last parts are the name, for a name that lacks the parts before.
func (l *layout) ending(name string) []string {
	var names []string
	for _, v := range l.variables {
		if rest := len(v.Name) - len(name) - 1; rest > 0 && v.Name[rest] == '.' && strings.EqualFold(v.Name[rest+1:], name) {
			names = append(names, v.Name)
		}
	}
	return names
}

// did returns the end of a message that suggests a name, empty if there is none.
func did(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// undeclared returns a hint at what a name that is not declared may stand for; empty if it may be
// anything.
func (l *layout) undeclared(path []string) string {
	full := strings.Join(path, ".")
	if below := l.below(full); len(below) > 0 {
		return oneOf(below)
	}
	if name := l.keyed(path); name != "" {
		return fmt.Sprintf("the keys are in %s: write %s['key']", name, name)
	}
	// The variable may be mistyped, or cut short, in front of keys, which do not matter here.
	for i := range path {
		name := strings.Join(path[:len(path)-i], ".")
		if len(l.below(name)) > 0 {
			break // this part is right
		}
		if near := l.nearest(name); near != "" {
			return oneOf([]string{near})
		}
		if whole := l.ending(name); len(whole) > 0 {
			return oneOf(whole)
		}
	}
	if len(path) > 1 {
		return l.offer(path[0])
	}
	switch lower := strings.ToLower(full); lower {
	case "true", "false", "null":
		return "write " + lower + " for " + full
	case "now":
		return foreign(lower)
	}
	return ""
}

// keyed returns the map variable meant by a path to what Kubernetes calls labels or annotations;
// empty if there is none.
func (l *layout) keyed(path []string) string {
	for i := 1; i < len(path); i++ {
		if path[i] != "labels" && path[i] != "annotations" {
			continue
		}
		prefix := strings.Join(path[:i], ".") + "."
		for _, v := range l.variables {
			if v.Type == StringMap && strings.HasPrefix(v.Name, prefix) {
				return v.Name
			}
		}
	}
	return ""
}

// offer lists the variables below the first part of an unknown name or, if there are none, the
// first parts of all variables. It returns empty if there are more than ten.
func (l *layout) offer(first string) string {
	var names []string
	for _, v := range l.variables {
		if rest, own := strings.CutPrefix(v.Name, first+"."); own {
			names = append(names, rest)
		}
	}
	text := first + " has "
	if len(names) == 0 {
		for _, v := range l.variables {
			root, _, _ := strings.Cut(v.Name, ".")
			names = append(names, root)
		}
		text = "names begin with "
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 10 {
		return ""
	}
	return text + strings.Join(names, ", ")
}

func oneOf(names []string) string {
	if len(names) == 1 {
		return "did you mean " + names[0] + "?"
	}
	return "did you mean one of " + strings.Join(names, ", ") + "?"
}

// similar returns the function of CEL that does what a function of another language does, or empty.
func similar(function string) string {
	switch strings.ToLower(function) {
	case "any", "some":
		return "exists"
	case "every":
		return "all"
	case "len", "length", "count":
		return "size"
	case "includes", "indexof":
		return "contains"
	case "test", "match", "regex":
		return "matches"
	}
	return ""
}

// foreign says what to write for a function of another language that has none like it in CEL, or
// empty.
func foreign(function string) string {
	switch strings.ToLower(function) {
	case "now", "today", "currenttime":
		return "nothing here reads a clock: the same data has the same answer at any time"
	case "lower", "upper", "tolower", "toupper", "tolowercase", "touppercase", "lowerascii", "upperascii", "equalsignorecase":
		return "a text in any case is found by x.matches('(?i)^text$')"
	case "split", "substring", "substr", "slice", "trim", "replace", "format", "join":
		return "a part of a text is found by startsWith, endsWith, contains or matches"
	case "isempty", "empty":
		return "write x == ''"
	case "equals", "eq":
		return "write x == y"
	case "get", "haskey", "containskey", "has":
		return "a map is asked for a value by m['key'], and for a key by 'key' in m"
	case "exists", "all", "exists_one", "filter", "map":
		return "as in list." + strings.ToLower(function) + "(x, x == 'a'); a map is asked for a key by 'key' in m"
	}
	return ""
}
