// Package celtext writes texts of CEL without the CEL library, for packages that do not link it.
package celtext

import (
	"fmt"
	"strings"
	"unicode"
)

// Quote returns a text as a string literal of CEL, in single quotes and on one line. Control
// characters, which a terminal would obey, are escaped. The literal stands for exactly the text,
// but no literal of CEL stands for bytes that are not UTF-8: each of them becomes U+FFFD.
func Quote(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 2)
	b.WriteByte('\'')
	for _, r := range text {
		switch r {
		case '\'', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			if unicode.IsControl(r) {
				fmt.Fprintf(&b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('\'')
	return b.String()
}
