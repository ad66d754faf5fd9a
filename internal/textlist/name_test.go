package textlist_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/textlist"
)

func TestName(t *testing.T) {
	for _, row := range []struct{ text, want, why string }{
		{"", "", "nothing"},
		{"node-1", "node-1", "an id as most are"},
		{`a "b" \n c`, `a "b" \n c`, "quotes and backslashes do no harm"},
		{"zürich 東京 🚀", "zürich 東京 🚀", "letters and signs of any script"},
		{"می\u200cخواهم", "می\u200cخواهم", "what joins or parts letters belongs to its script"},
		{"a\u00a0b", "a\u00a0b", "a space that does not break"},
		{"a\nb", `"a\nb"`, "a line break"},
		{"a\r", `"a\r"`, "one of another system"},
		{"a\tb", `"a\tb"`, "a tab"},
		{"\x1b[2Ja", `"\x1b[2Ja"`, "what a terminal obeys"},
		{"a\x7f", `"a\x7f"`, "the last of ASCII"},
		{"a\u0085b", `"a\u0085b"`, "a line break of Unicode"},
		{"a\u2028b", `"a\u2028b"`, "another one"},
		{"a\u2029b", `"a\u2029b"`, "and a third"},
		{"a\u202eb", `"a\u202eb"`, "what follows would read backwards"},
		{"a\xffb", `"a\xffb"`, "no UTF-8"},
		{"a\ufffdb", "a\ufffdb", "what stands for no UTF-8 is some"},
	} {
		if got := textlist.Name(row.text); got != row.want {
			t.Errorf("Name(%q) = %s, want %s: %s", row.text, got, row.want, row.why)
		}
	}
	if n := testing.AllocsPerRun(100, func() { textlist.Name("node-1") }); n != 0 {
		t.Errorf("%v allocations for what stays as it is", n)
	}
}

// TestNameOfAll: whatever the text, it becomes part of one line, and once.
func TestNameOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "valid") {
			text = rapid.StringOfN(rapid.RuneFrom([]rune("a\"\\\n\r\t\x00\x1b\u0085\u2028\u202eé")), 0, 10, -1).Draw(t, "text")
		}
		name := textlist.Name(text)
		if strings.ContainsAny(name, "\n\r\t\x00\x1b\u0085\u2028\u202e") || !utf8.ValidString(name) || textlist.Name(name) != name {
			t.Fatalf("Name(%q) = %q", text, name)
		}
	})
}

func TestNames(t *testing.T) {
	list := []string{"a", "b\n"}
	if got := textlist.Names(list); !slices.Equal(got, []string{"a", `"b\n"`}) || list[1] != "b\n" {
		t.Errorf("got %q of %q", got, list)
	}
}

func TestRemark(t *testing.T) {
	for text, want := range map[string]string{"": "", " \n": "", "it is\n  late": "it is late", "a\x1bb\n": `"a\x1bb"`} {
		if got := textlist.Remark(text); got != want {
			t.Errorf("Remark(%q) = %s, want %s", text, got, want)
		}
	}
}
