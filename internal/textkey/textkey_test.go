package textkey_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/textkey"
)

func TestJoin(t *testing.T) {
	for _, row := range []struct {
		parts []string
		want  string
		why   string
	}{
		{nil, "", "no parts"},
		{[]string{""}, "", "one empty part"},
		{[]string{"", ""}, "/", "empty parts keep their separator"},
		{[]string{"rule", "prod", "7"}, "rule/prod/7", "plain parts are unchanged"},
		{[]string{"a/b", "c"}, "a%2Fb/c", "a slash in a part is no separator"},
		{[]string{"a", "b/c"}, "a/b%2Fc", "and the boundary stays where it was"},
		{[]string{"100%", "%2F"}, "100%25/%252F", "an escape in the input is not taken for one"},
		{[]string{"nœud 3"}, "nœud 3", "other bytes are kept"},
	} {
		if got := textkey.Join(row.parts...); got != row.want {
			t.Errorf("Join(%q) = %q, want %q: %s", row.parts, got, row.want, row.why)
		}
	}
}

// A joiner's texts stay what they are while others follow, also where escapes need more room than
// was taken for the text, and where a text is longer than what many have in common.
func TestJoiner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.OneOf(rapid.StringN(0, 12, -1), rapid.StringOfN(rapid.RuneFrom([]rune("%/2")), 0, 600, -1), rapid.Just(strings.Repeat("long ", 2000)))
		var joiner textkey.Joiner
		var texts, want []string
		for _, parts := range rapid.SliceOfN(rapid.SliceOfN(part, 0, 4), 1, 40).Draw(t, "lists") {
			texts, want = append(texts, joiner.Join(parts...)), append(want, textkey.Join(parts...))
		}
		if !slices.Equal(texts, want) {
			t.Fatalf("%q, want %q", texts, want)
		}
	})
	var joiner textkey.Joiner
	if n := testing.AllocsPerRun(1000, func() { joiner.Join("node-1", "prod", "kubelet") }); n != 0 {
		t.Errorf("%v allocations per text: dozens share one", n)
	}
}

func TestPlain(t *testing.T) {
	for _, row := range []struct{ key, want, why string }{
		{textkey.Join("per-rack", "a/b"), "per-rack/a/b", "a person reads no escapes"},
		{textkey.Join("100%"), "100%", "nor those of percents"},
		{"%zz/x%2Fy", "%zz/x%2Fy", "what is no key is not touched"},
	} {
		if got := textkey.Plain(row.key); got != row.want {
			t.Errorf("Plain(%q) = %q, want %q: %s", row.key, got, row.want, row.why)
		}
	}
}

func TestSplitRefusesForeignEscapes(t *testing.T) {
	for _, key := range []string{"%", "a%2", "a%2f", "%41", "x/%zz"} {
		if parts, err := textkey.Split(key); err == nil {
			t.Errorf("Split(%q) = %q, want an error: Join never writes it", key, parts)
		}
	}
}

func TestSplitInvertsJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringOfN(rapid.RuneFrom([]rune("%/25Fab")), 0, 8, -1)), 1, 5).Draw(t, "parts")
		got, err := textkey.Split(textkey.Join(parts...))
		if err != nil || !slices.Equal(got, parts) {
			t.Fatalf("Split(Join(%q)) = %q, %v", parts, got, err)
		}
	})
}

func TestScan(t *testing.T) {
	var a, b, c string
	if !textkey.Scan("rule%2F1/prod/7", &a, &b, &c) || a != "rule/1" || b != "prod" || c != "7" {
		t.Errorf("%q, %q, %q", a, b, c)
	}
	if n := testing.AllocsPerRun(100, func() { textkey.Scan("rule/prod/7", &a, &b, &c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNumber(t *testing.T) {
	for _, row := range []struct {
		part string
		want int
		ok   bool
		why  string
	}{
		{"0", 0, true, "the least"},
		{"7", 7, true, "a digit"},
		{"10", 10, true, "a zero at the end"},
		{"2147483647", math.MaxInt32, true, "the greatest, also where an int has 32 bits"},
		{"2147483648", 0, false, "too large"},
		{"", 0, false, "nothing"},
		{"01", 0, false, "one number has one text"},
		{"00", 0, false, "also zero"},
		{"+1", 0, false, "no sign"},
		{"-1", 0, false, "nor a negative number"},
		{"1x", 0, false, "digits alone"},
	} {
		if n, ok := textkey.Number(row.part); n != row.want || ok != row.ok {
			t.Errorf("Number(%q) = %d, %t, want %d, %t: %s", row.part, n, ok, row.want, row.ok, row.why)
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "a/b", "a/b/c", "//", "%25/%2F", "%", "a/%", "a%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		parts, err := textkey.Split(key)
		for n := range 4 {
			var scanned [3]string
			into := []*string{&scanned[0], &scanned[1], &scanned[2]}
			if ok := textkey.Scan(key, into[:n]...); ok != (err == nil && len(parts) == n) || ok && !slices.Equal(scanned[:n], parts) {
				t.Fatalf("Scan(%q) into %d: %t, %q", key, n, ok, scanned[:n])
			}
		}
		if err != nil {
			return
		}
		if again := textkey.Join(parts...); again != key {
			t.Fatalf("Join(Split(%q)) = %q", key, again)
		}
	})
}
