package celtext_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/celtext"
)

func TestQuote(t *testing.T) {
	for _, row := range []struct{ text, want, why string }{
		{"", "''", "no text is a text"},
		{"node-1", "'node-1'", "plain characters are unchanged"},
		{`it's`, `'it\'s'`, "a quote does not end the literal"},
		{`say "no"`, `'say "no"'`, "the other quote means nothing"},
		{`a\n`, `'a\\n'`, "a backslash of the text begins no escape"},
		{"a\nb\rc\td", `'a\nb\rc\td'`, "the literal stays on one line"},
		{"\x00\x1b[2J\x7f\u009b", `'\u0000\u001b[2J\u007f\u009b'`, "a terminal obeys none of these, nor those above 7f"},
		{"nœud 3 😀\u2028", "'nœud 3 😀\u2028'", "other characters are kept"},
		{"a\xffb\xed\xa0\x80", "'a\ufffdb\ufffd\ufffd\ufffd'", "no literal has bytes that are not UTF-8, such as those of a lone surrogate"},
	} {
		if got := celtext.Quote(row.text); got != row.want {
			t.Errorf("Quote(%q) = %q, want %q: %s", row.text, got, row.want, row.why)
		}
	}
}

// A literal is one line of UTF-8 without control characters, and no quote within ends it. What a CEL
// compiler reads from it is tested with package selector, which has one.
func TestQuoteIsOneLiteral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune(`'\"nrt`), unicode.Cc)), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		literal := celtext.Quote(text)
		if !utf8.ValidString(literal) || strings.ContainsFunc(literal, unicode.IsControl) {
			t.Fatalf("Quote(%q) = %q", text, literal)
		}
		inside := strings.TrimSuffix(strings.TrimPrefix(literal, "'"), "'")
		if plain := strings.NewReplacer(`\\`, "", `\'`, "").Replace(inside); strings.Contains(plain, "'") || len(inside) != len(literal)-2 || strings.HasSuffix(plain, `\`) {
			t.Fatalf("Quote(%q) = %q ends early or not at all", text, literal)
		}
	})
}
