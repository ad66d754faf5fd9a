package selector_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/selector"
)

// written returns what a hint at relations names.
func written(hint string) (text string, ok bool) {
	for _, before := range []string{"all comparisons bind alike, from left to right: write ", "! is for what stands next to it alone: write "} {
		if text, ok = strings.CutPrefix(hint, before); ok {
			return text, true
		}
	}
	return "", false
}

// TestRelationsSideBySide: == and in are on one level and associate to the left, which hardly anybody
// expects. The hint names what was meant, in place of all relations that stand side by side.
func TestRelationsSideBySide(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	const none = ""
	for _, row := range []struct{ expr, write, why string }{
		{"true == 'k' in resource.metadata", "true == ('k' in resource.metadata)", "== takes the key"},
		{"flag != 'a' in tags", "flag != ('a' in tags)", "so does !="},
		{"flag == resource.kind in ['a']", "flag == (resource.kind in ['a'])", "a list on the spot"},
		{"flag == 'k' in {'k': weight == 1}", "flag == ('k' in {'k': weight == 1})", "a relation inside brackets stands beside no other"},
		{"flag == size(tags) > 3", "flag == (size(tags) > 3)", "a call is an operand"},
		{"flag == weight == 3", "flag == (weight == 3)", "a bool and what is to be equal to it"},
		{"1 < weight <= 5", "1 < weight && weight <= 5", "mathematics"},
		{"5 > weight > other.weight", "5 > weight && weight > other.weight", "downwards"},
		{"'a' < resource.kind < 'b'", "'a' < resource.kind && resource.kind < 'b'", "texts have an order too"},
		{"resource.name == resource.kind == 'a'", "resource.name == resource.kind && resource.kind == 'a'", "all three are to be equal"},
		{"1 < weight < other.weight < 5", "1 < weight && weight < other.weight && other.weight < 5", "four in order"},
		{"weight > 0 == weight < 3", "(weight > 0) == (weight < 3)", "two conditions are compared"},
		{"resource.kind == 'a' == resource.name == 'b'", "(resource.kind == 'a') == (resource.name == 'b')", "and not a literal with what stands behind it"},
		{"!'a' in tags", "!('a' in tags)", "a negation takes one operand"},
		{"! weight > 3", "!(weight > 3)", "with space behind it"},
		{"!weight == 3 == flag", "!(weight == 3 == flag)", "all of it is negated"},
		{"flag == 'é' in tags", "flag == ('é' in tags)", "characters are not bytes"},
		{"resource.name == 'é' || flag == 'a in b == c' in tags", "flag == ('a in b == c' in tags)", "behind other characters; a text has no operators"},
		{`flag == r'\' in tags`, `flag == (r'\' in tags)`, "a raw text ends at its first quote"},
		{"flag\n  == 'a' in tags", "flag == ('a' in tags)", "on the second line"},
		{"flag && (flag == 'a' in tags || flag)", "flag == ('a' in tags)", "inside parentheses"},
		{"tags.exists(x, flag == x in ['a'])", "flag == (x in ['a'])", "of a loop variable"},
		{"flag ? flag == 'a' in tags : flag", "flag == ('a' in tags)", "between ? and :"},
		{"flag in [flag, flag == 'a' in tags]", "flag == ('a' in tags)", "between commas"},
		{"flag == 'a' in tags && 1 < weight < 5", "flag == ('a' in tags)", "another fault behind it is told next"},
		{"flag == resource.metadata.in_use in tags", "flag == (resource.metadata.in_use in tags)", "a name may begin with a word of the language"},
		{"flag == resource.metadata.`in == x` in tags", none, "no key is written so"},
		{"flag == resource.metadata.`in-in` in tags", "flag == (resource.metadata.`in-in` in tags)", "a key in backquotes has no operators"},
		{"resource.kind == 'a' in tags", none, "both halves, or one of them? That is not evident"},
		{"weight < 5 > 1", none, "two directions have no meaning"},
		{"weight == 1 == 1.5", none, "no literal of one type equals another"},
		{"resource.kind in tags in tags", none, "no bool is in a list of texts"},
		{"'x' == 'y' == 'z'", none, "nobody means two literals"},
		{"(weight == 3) == 3", none, "the parentheses are there already"},
		{"flag == resource.metadata == resource.metadata", none, "maps are not compared, whatever the parentheses"},
		{"flag == weight // in\n in [1]", none, "behind a comment nothing would count"},
		{"weight < weight < weight < weight < weight < weight", none, "too many"},
		{"flag == '" + strings.Repeat("a", 200) + "' in tags", none, "too long for a hint"},
		{"flag == '''a\nb''' in tags", none, "a hint is one line"},
	} {
		_, err := env.Compile(row.expr)
		var fault *selector.CompileError
		if !errors.As(err, &fault) {
			t.Errorf("%s: %v, want a *CompileError: %s", row.expr, err, row.why)
			continue
		}
		if write, ok := written(fault.Hint); write != row.write || ok != (row.write != none) {
			t.Errorf("%s: %v, want a hint to write %q: %s", row.expr, err, row.write, row.why)
		}
	}
}

// Whatever stands side by side, what the hint names is accepted, and the whole expression with it,
// since nothing else is at fault.
func TestRelationHintsCompile(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	named, not := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		operand := rapid.SampledFrom([]string{"flag", "true", "weight", "3", "-1", "resource.kind", "'a'", "' in '", "tags", "[1]", "['a', 'b']", "resource.metadata", "resource.metadata['a']", "size(tags)", "(weight == 1)", "!flag", "!weight", "1.5", "null"})
		operator := rapid.SampledFrom([]string{" == ", "!=", "<", " <=", " > ", ">= ", " in "})
		text := operand.Draw(t, "operand")
		for range rapid.IntRange(1, 4).Draw(t, "operators") {
			text += operator.Draw(t, "operator") + operand.Draw(t, "operand")
		}
		around := rapid.SampledFrom([]string{"%", "flag && %", "% || flag", "!(%)", "tags.all(x, %)", "flag ? % : flag", "[flag, %].exists(f, f)"}).Draw(t, "around")
		_, err := env.Compile(strings.Replace(around, "%", text, 1))
		var fault *selector.CompileError
		if !errors.As(err, &fault) {
			return
		}
		write, ok := written(fault.Hint)
		if !ok {
			not++
			return
		}
		named++
		if _, err := env.Compile(strings.Replace(around, "%", write, 1)); err != nil {
			t.Fatalf("%s in %s: told to write %s, which is refused: %v", text, around, write, err)
		}
	})
	if named == 0 || not == 0 {
		t.Errorf("%d hints name something, %d do not: want both", named, not)
	}
}
