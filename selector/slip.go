package selector

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/celtext"
)

// slip is something that people write but CEL does not know.
type slip struct {
	at    int    // byte offset
	found string // what stands there
	hint  string // what to write instead
}

// Advice that several slips have in common.
const (
	oneCondition = "there is one condition: join two with && or ||"
	onlyItsName  = "a variable is its name and nothing else"
)

// instead returns the slip of writing found for right.
func instead(at int, found, right string) *slip {
	return &slip{at, found, "write " + right + " for " + found}
}

// firstSlip finds the first slip in a text that does not parse: AND, OR, NOT, a single = or <>, and
// other habits from SQL, shells and word processors, such as spaces that CEL does not accept. It
// looks into string literals only for a wrong escape or a missing end. It returns nil if there is
// no slip.
func firstSlip(text string) *slip {
	if strings.TrimSpace(text) == "*" {
		return &slip{strings.IndexByte(text, '*'), "*", "write true to match everything"}
	}
	depth := 0 // of brackets
	for i := 0; i < len(text); {
		next, found := i+1, (*slip)(nil)
		switch c := text[i]; {
		case c == '.' && i+1 < len(text) && (text[i+1] == '\'' || text[i+1] == '"'):
			found = &slip{i, text[i : i+2], "a key in quotes is written in brackets: m['key']"}
		case c == '"' || c == '\'':
			next, found = afterString(text, i)
		case strings.HasPrefix(text[i:], "//"):
			next = afterComment(text, i)
		case wordByte(c):
			next, found = afterWord(text, i)
		case strings.IndexByte("=<>!", c) >= 0:
			next, found = afterOperator(text, i)
		case strings.HasPrefix(text[i:], "&&") || strings.HasPrefix(text[i:], "||"):
			next = i + 2
		default:
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}':
				depth--
			}
			_, width := utf8.DecodeRuneInString(text[i:])
			next, found = i+width, signSlip(text, i, depth)
		}
		if found != nil {
			return found
		}
		i = next
	}
	return nil
}

// afterWord returns the offset after the word that begins at i, and what is wrong with it.
func afterWord(text string, i int) (int, *slip) {
	end := i
	for end < len(text) && wordByte(text[end]) {
		end++
	}
	if i == 0 || text[i-1] != '.' {
		return end, wordSlip(text, i, end)
	}
	// After a dot the word is the name of a key.
	switch word := text[i:end]; word {
	case "in", "true", "false", "null":
		return end, &slip{i, word, "a key with the name of a word of the language is written in brackets: m[" + celtext.Quote(word) + "]"}
	}
	return end, nil
}

// afterOperator returns the offset after the comparison, or the !, that begins at i, and what is
// wrong with it.
func afterOperator(text string, i int) (int, *slip) {
	end := i
	for end < len(text) && strings.IndexByte("=<>!~", text[end]) >= 0 {
		end++
	}
	switch op := text[i:end]; op {
	case "!":
		if before(text, i) && strings.HasPrefix(text[end:], "in") && (end+2 == len(text) || !wordByte(text[end+2])) {
			return end, &slip{i, "!in", "write !(x in [ … ])"}
		}
	case "=", "===":
		return end, instead(i, op, "==")
	case "<>", "!==":
		return end, instead(i, op, "!=")
	case "=<":
		return end, instead(i, op, "<=")
	case "=>":
		return end, instead(i, op, ">=")
	case "=~":
		return end, &slip{i, op, "write x.matches('…')"}
	case "!~":
		return end, &slip{i, op, "write !x.matches('…')"}
	}
	return end, nil
}

// signSlip returns the slip of a sign that begins at i, or nil. depth is the number of brackets
// that are open there.
func signSlip(text string, i, depth int) *slip {
	switch c := text[i]; c {
	case '&', '|':
		return instead(i, string(c), string([]byte{c, c}))
	case ',':
		if depth != 0 {
			break
		}
		if at := strings.LastIndex(text[:i], " in "); at >= 0 && !strings.ContainsAny(text[at:i], "&|[") {
			return &slip{i, ",", "a list is written in brackets, as in ['a', 'b']"}
		}
		return &slip{i, ",", oneCondition}
	case ':':
		if depth == 0 && strings.IndexByte(text[:i], '?') < 0 {
			return instead(i, ":", "==")
		}
	case '`':
		if i == 0 || text[i-1] != '.' {
			return instead(i, "`", "' or \"")
		}
	case '~':
		return &slip{i, "~", "write x.matches('…')"}
	case '#':
		return &slip{i, "#", "a comment begins with //"}
	case ';':
		return &slip{i, ";", oneCondition}
	case '$':
		return &slip{i, "$", onlyItsName}
	}
	for _, two := range []string{"??", "?:", ".?", "[?", "?."} {
		if strings.HasPrefix(text[i:], two) {
			return &slip{i, two, "test a key first, as in 'key' in m && m['key'] == '…'"}
		}
	}
	if strings.HasPrefix(text[i:], "{{") {
		return &slip{i, "{{", onlyItsName}
	}
	switch r, _ := utf8.DecodeRuneInString(text[i:]); {
	case strings.ContainsRune("‘’‚“”„´", r):
		return instead(i, string(r), "' or \"")
	case !unicode.IsPrint(r) && !strings.ContainsRune("\t\r\n\f", r):
		return &slip{i, fmt.Sprintf("%U", r), "which is not seen: write an ordinary space or nothing there"}
	}
	return nil
}

// before reports whether an operand ends in front of an offset.
func before(text string, at int) bool {
	rest := strings.TrimRight(text[:at], " \t\r\n")
	return rest != "" && (wordByte(rest[len(rest)-1]) || strings.IndexByte(")]}'\"", rest[len(rest)-1]) >= 0)
}

// wordSlip returns the slip of the word text[start:end], or nil.
func wordSlip(text string, start, end int) *slip {
	word := text[start:end]
	rest := strings.TrimLeft(text[end:], " \t\r\n")
	switch lower := strings.ToLower(word); lower {
	case "and":
		return instead(start, word, "&&")
	case "or":
		return instead(start, word, "||")
	case "not":
		if strings.HasPrefix(strings.ToLower(rest), "in ") {
			return &slip{start, word, "write !(x in [ … ])"}
		}
		return instead(start, word, "!")
	case "if", "else":
		return &slip{start, word, "write condition ? yes : no"}
	case "is", "eq", "ne", "like", "matches", "contains", "startswith", "endswith", "between":
		// A function or variable of this name is not followed by an operand.
		if start == 0 || rest == "" || !wordByte(rest[0]) && rest[0] != '\'' && rest[0] != '"' {
			return nil
		}
		return &slip{start, word, map[string]string{
			"is": "write == for " + word, "eq": "write == for " + word, "ne": "write != for " + word, "like": "write x.startsWith('…'), x.endsWith('…') or x.contains('…')", "matches": "write x.matches('…')", "contains": "write x.contains('…')",
			"startswith": "write x.startsWith('…')", "endswith": "write x.endsWith('…')", "between": "write a <= x && x <= b",
		}[lower]}
	case "in":
		if strings.HasPrefix(rest, "(") {
			if list, _, ok := strings.Cut(rest, ")"); ok && strings.Contains(list, ",") {
				return &slip{len(text) - len(rest), "(", "a list is written in brackets, as in ['a', 'b']"}
			}
		}
	}
	return nil
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// afterString returns the offset after the literal that begins at the quote at i, or what is wrong
// with the literal.
func afterString(text string, i int) (int, *slip) {
	begin := i
	raw := i > 0 && (text[i-1] == 'r' || text[i-1] == 'R')
	end := text[i : i+1]
	if triple := strings.Repeat(end, 3); strings.HasPrefix(text[i:], triple) {
		end = triple
	}
	for i += len(end); i < len(text); i++ {
		if text[i] == '\\' && !raw {
			if i++; i < len(text) && !strings.ContainsRune("abfnrtv\\?\"'`xXuU0123", rune(text[i])) {
				_, width := utf8.DecodeRuneInString(text[i:])
				return 0, &slip{i - 1, text[i-1 : i+width], "write r" + end + "…" + end + " for a string with backslashes, or two for one"}
			}
		} else if strings.HasPrefix(text[i:], end) {
			return i + len(end), nil
		}
	}
	return 0, &slip{begin, end, "the string that begins here does not end"}
}

// afterComment returns the offset after the comment that begins at i.
func afterComment(text string, i int) int {
	if end := strings.IndexByte(text[i:], '\n'); end >= 0 {
		return i + end
	}
	return len(text)
}

// unparsed says what to write instead of a text without a slip that does not parse, of which the
// parser says msg in plain words.
func unparsed(text, msg string) string {
	if advice := unbalanced(text); advice != "" {
		return advice
	}
	switch {
	case strings.HasSuffix(msg, "ends too early"):
		return "something must follow, as in x == 'a'"
	case strings.HasSuffix(msg, "expecting the end"):
		return oneCondition
	case strings.HasSuffix(msg, " literal"):
		return "the number is out of range: write a smaller one"
	}
	return "a condition is written as in x == 'a' && 'key' in m"
}

// unbalanced says what to do about the first bracket that closes none that is open or, if all are
// right, the last one that is left open; empty if there is none.
func unbalanced(text string) string {
	var open []int
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '"' || c == '\'':
			end, fault := afterString(text, i)
			if fault != nil {
				return ""
			}
			i = end
			continue
		case strings.HasPrefix(text[i:], "//"):
			i = afterComment(text, i)
			continue
		case strings.IndexByte("([{", c) >= 0:
			open = append(open, i)
		case strings.IndexByte(")]}", c) >= 0:
			last := len(open) - 1
			if last < 0 {
				line, col := place(text, i)
				return fmt.Sprintf("the %c at %d:%d closes nothing: leave it out", c, line, col)
			}
			if strings.IndexByte("([{", text[open[last]]) != strings.IndexByte(")]}", c) {
				return unclosed(text, open[last])
			}
			open = open[:last]
		}
		i++
	}
	if len(open) == 0 {
		return ""
	}
	return unclosed(text, open[len(open)-1])
}

func unclosed(text string, at int) string {
	line, col := place(text, at)
	return fmt.Sprintf("close the %c at %d:%d", text[at], line, col)
}

// place returns the line and the column in characters, both from 1, of a byte offset.
func place(text string, offset int) (line, col int) {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[start:]) + 1
}

// offset is the inverse of place: it returns the byte offset of a line and column, which the text
// has.
func offset(text string, line, col int) int {
	at := 0
	for ; line > 1; line-- {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	for range col - 1 {
		_, width := utf8.DecodeRuneInString(text[at:])
		at += width
	}
	return at
}
