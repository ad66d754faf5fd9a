package selector

import (
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// operator is what a word stands for that people write for an operator of CEL, or empty.
func operator(word string) string {
	switch strings.ToLower(word) {
	case "and":
		return "&&"
	case "or":
		return "||"
	case "not":
		return "!"
	}
	return ""
}

// slip finds the first place outside string literals at which text has something that people write and CEL does not know: AND, OR, NOT,
// a single = or <>. It returns the byte offset, what stands there, and what to write instead.
func slip(text string) (at int, found, instead string) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			i = afterString(text, i)
		case c == '/' && strings.HasPrefix(text[i:], "//"):
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case wordByte(c):
			start := i
			for i < len(text) && wordByte(text[i]) {
				i++
			}
			word := text[start:i]
			// Behind a dot it is the name of a key.
			if op := operator(word); op != "" && (start == 0 || text[start-1] != '.') {
				return start, word, op
			}
		case c == '=' || c == '<' || c == '>' || c == '!':
			start := i
			for i < len(text) && strings.IndexByte("=<>!", text[i]) >= 0 {
				i++
			}
			switch op := text[start:i]; op {
			case "=", "===":
				return start, op, "=="
			case "<>", "!==":
				return start, op, "!="
			case "=<":
				return start, op, "<="
			case "=>":
				return start, op, ">="
			}
		case (c == '&' || c == '|') && !strings.HasPrefix(text[i:], string([]byte{c, c})):
			return i, string(c), string([]byte{c, c})
		case c == '&' || c == '|':
			i += 2
		default:
			i++
		}
	}
	return -1, "", ""
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// afterString returns the offset behind the literal that begins at the quote at i, or the end of the text.
func afterString(text string, i int) int {
	raw := i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
	end := text[i : i+1]
	if triple := strings.Repeat(end, 3); strings.HasPrefix(text[i:], triple) {
		end = triple
	}
	for i += len(end); i < len(text); i++ {
		if text[i] == '\\' && !raw {
			i++
		} else if strings.HasPrefix(text[i:], end) {
			return i + len(end)
		}
	}
	return len(text)
}

// place is the line and column, both from 1 and in characters, of a byte offset.
func place(text string, offset int) (line, col int) {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// nearest returns the known name that a mistyped one probably stands for: the one with the fewest edits, at most a third of its length;
// the first in order if there are several.
func nearest(name string, known []string) string {
	best, edits := "", len(name)/3+1
	for _, k := range known {
		if d := strictjson.Distance(strings.ToLower(name), strings.ToLower(k)); d < edits {
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

// did appends a name to a message.
func did(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}
