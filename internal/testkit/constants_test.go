package testkit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

type fatal struct{ text string }

func (f *fatal) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	panic(f)
}

// TestConstants: exported string constants of the types asked for, whatever file they are in; not
// those of tests, and no type is taken for one without constants by mistake.
func TestConstants(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.go":      "package a\n\ntype Code string\n\nconst (\n\tB Code = \"b\"\n\tA Code = \"a\"\n\thidden Code = \"hidden\"\n\tPlain = \"plain\"\n)\n",
		"b.go":      "package a\n\nconst C Code = \"c\"\n\nconst N Number = 1\n\nconst O Other = \"o\"\n\nconst Again Code = \"a\"\n",
		"c_test.go": "package a\n\nconst T Code = \"t\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := testkit.Constants(t, dir, "Code"); !slices.Equal(got, []string{"Code a", "Code b", "Code c"}) {
		t.Error(got)
	}
	if got := testkit.Constants(t, dir, "Code", "Other"); !slices.Equal(got, []string{"Code a", "Code b", "Code c", "Other o"}) {
		t.Error(got)
	}
	for _, missing := range []string{"Number", "Reason"} {
		f := &fatal{}
		func() {
			defer func() { _ = recover() }()
			testkit.Constants(f, dir, "Code", missing)
		}()
		if f.text == "" {
			t.Errorf("%s has no constants with a text, and nothing fails", missing)
		}
	}
}

// TestTextsStay: it fails for a text that changed, one that is gone, and one that came.
func TestTextsStay(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package a\n\nconst (\n\tB Code = \"b\"\n\tA Code = \"a\"\n)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for texts, fails := range map[string]bool{"a b": false, "a c": true, "a b c": true, "a": true} {
		if got := testkit.Fails(t, func(t testing.TB) { testkit.TextsStay(t, dir, map[string]string{"Code": texts}) }); got != fails {
			t.Errorf("%q: fails %v", texts, got)
		}
	}
}
