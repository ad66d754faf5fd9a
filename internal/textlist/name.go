package textlist

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name returns an id, a name or whatever else others wrote, as a line of text shows it: unchanged,
// or quoted as %q does it if it holds a line break, another control character, one that turns the
// direction of writing, or what is no UTF-8. These would end the line, or make it read as another
// one. What is quoted already stays as it is.
func Name[T ~string](text T) string {
	if breaks(string(text)) {
		return strconv.Quote(string(text))
	}
	return string(text)
}

func breaks(text string) bool {
	for i, r := range text {
		switch {
		case ' ' <= r && r <= '~': // nearly all
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return true
			}
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
			return true
		}
	}
	return false
}

// Names returns the names as lines of text show them, in a list of its own.
func Names[T ~string](texts []T) []string {
	list := make([]string, len(texts))
	for k, text := range texts {
		list[k] = Name(text)
	}
	return list
}

// Remark returns what a person wrote, such as a reason, as a line of text shows it: its lines
// joined, and otherwise like [Name].
func Remark(text string) string { return Name(strings.Join(strings.Fields(text), " ")) }
