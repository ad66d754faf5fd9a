package selector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/celtext"
	"github.com/tranche-dev/tranche/selector"
)

// host is what the rows below are evaluated on.
func host() hostVars {
	return hostVars{
		"resource.id": "r-1", "resource.name": "true", "resource.kind": "Node",
		"resource.metadata":    map[string]string{"cluster": "prod-east"},
		"deployment.name":      "kubelet",
		"deployment.metadata":  map[string]string{"layer": "node"},
		"version.metadata":     map[string]string{"a": "b"},
		"environment.metadata": map[string]string(nil),
		"tags":                 []string{"a", "b"},
		"version.createdAt":    time.Date(2026, 3, 2, 0, 15, 0, 0, time.FixedZone("east", 3600)),
		"weight":               int64(3),
		"flag":                 true,
	}
}

func TestMatch(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	values := env.NewValues()
	for name, value := range host() {
		if err := values.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	const missing = "missing: "
	seen := map[string]bool{}
	for _, row := range []struct{ expr, want, why string }{
		{"true", "yes", "a constant compiles"},
		{"false", "no", "a constant compiles"},
		{"  true\n", "yes", "white space around an expression means nothing"},
		{"resource.kind == 'Node'", "yes", "a variable"},
		{".resource.kind == 'Node'", "yes", "a name may be written absolutely"},
		{"weight in {1: 3}", "no", "a map that is written has keys, and its values are none"},
		{"weight in {3: 1}", "yes", "the key is there"},
		{"resource.kind in {'a': 'Node'}", "no", "the same for texts"},
		{".tags.exists(t, t == 'b')", "yes", "and has the sizes that are promised for it"},
		{"'Node' == resource.kind", "yes", "either order"},
		{"resource.metadata['team'] == 'x'", missing + "resource.metadata['team']", "an absent key is no value"},
		{"resource.metadata['team'] != 'x'", missing + "resource.metadata['team']", "and not unequal to anything either"},
		{"!(resource.metadata['team'] == 'x')", missing + "resource.metadata['team']", "nor does a negation match by accident"},
		{"resource.metadata.team == 'x'", missing + "resource.metadata['team']", "both spellings of a key are the same"},
		{`resource.metadata['it\'s'] == 'x'`, missing + `resource.metadata['it\'s']`, "the key is named as an expression would"},
		{`resource.metadata['\x1b[2J\t'] == 'x'`, missing + `resource.metadata['\u001b[2J\t']`, "and is no command to the terminal that shows it"},
		{`resource.metadata['a\\b'] == 'x'`, missing + `resource.metadata['a\\b']`, "a backslash in a key is written twice"},
		{"environment.metadata['k'] == 'x'", missing + "environment.metadata['k']", "a nil map is an empty map"},
		{"'team' in resource.metadata", "no", "a test for a key is two-valued"},
		{"has(resource.metadata.team)", "no", "a test for a key is two-valued"},
		{"'cluster' in resource.metadata", "yes", "a test for a key"},
		{"has(resource.metadata.cluster)", "yes", "a test for a key"},
		{"resource.metadata['team'] == 'x' || true", "yes", "the other side decides"},
		{"true || resource.metadata['team'] == 'x'", "yes", "the other side decides, in either order"},
		{"resource.metadata['team'] == 'x' && false", "no", "the other side decides"},
		{"false && resource.metadata['team'] == 'x'", "no", "the other side decides, in either order"},
		{"resource.metadata['team'] == 'x' && true", missing + "resource.metadata['team']", "the other side does not decide"},
		{"resource.metadata['team'] == 'x' && resource.kind == 'VM'", "no", "a later test decides"},
		{"resource.metadata['team'] == 'x' && resource.kind == 'Node' && resource.name == 'x'", "no", "the last test decides"},
		{"resource.metadata['team'] == 'x' && resource.kind == 'Node'", missing + "resource.metadata['team']", "no later test decides"},
		{"version.tag == 'x' && resource.kind == 'VM'", "no", "a later test decides over a variable without a value"},
		{"resource.metadata['team'] == 'x' || resource.metadata['nope'] == 'y'", missing + "resource.metadata['team']", "of several missing keys the first counts"},
		{"resource.metadata['team'] == 'x' && resource.metadata['nope'] == 'y'", missing + "resource.metadata['team']", "of several missing keys the first counts"},
		{"resource.metadata['a'] == 'x' || resource.metadata['b'] == 'x' || resource.metadata['cluster'] == 'prod-east'", "yes", "a chain is one operator"},
		{"'team' in resource.metadata && resource.metadata['team'] == 'x'", "no", "a tested key is never missing"},
		{"has(resource.metadata.team) && resource.metadata.team != 'x'", "no", "a tested key is never missing"},
		{"'cluster' in resource.metadata && resource.metadata['cluster'] == 'prod-east'", "yes", "a tested key that is there"},
		{"'layer' in deployment.metadata && resource.metadata['layer'] == 'node'", missing + "resource.metadata['layer']", "a key tested in one map may be missing in another"},
		{"'team' in resource.metadata && resource.metadata['cluster'] == 'prod-east'", "no", "a test for one key says nothing of another"},
		{"'cluster' in resource.metadata && resource.metadata['team'] == 'x'", missing + "resource.metadata['team']", "in either order"},
		{"!('team' in resource.metadata) && resource.metadata['team'] == 'x'", missing + "resource.metadata['team']", "absence is no guard"},
		{"'cluster' in resource.metadata && 'cluster' in resource.metadata && !('cluster' in resource.metadata)", "no", "tests for a key do not guard one another"},
		{"resource.kind == 'Node' && 'team' in resource.metadata && resource.metadata['team'] == 'x'", "no", "a guard behind another test"},
		{"!(!('team' in resource.metadata))", "no", "twice negated"},
		{"!(!(resource.kind == 'Node'))", "yes", "twice negated"},
		{"!(!(resource.metadata['team'] == 'x'))", missing + "resource.metadata['team']", "twice negated"},
		{"!('team' in resource.metadata) || resource.metadata['team'] == 'x'", "yes", "absence spelled out"},
		{"!('team' in resource.metadata) && true", "yes", "absence spelled out"},
		{"int(resource.metadata['cluster']) > 1", "error", "a conversion that fails is no missing key"},
		{"{'VM': 1}[resource.kind] == 1", "error", "nor is a key that the expression's own map lacks: no data can give it one"},
		{"int(resource.metadata['cluster']) > 1 || true", "yes", "and does not matter if the other side decides"},
		{"deployment.name in ['kubelet', 'containerd']", "yes", "by value"},
		{"deployment.name in ['containerd']", "no", "by value"},
		{"deployment.name in ['a','b','c','d','e','f','g','h','kubelet']", "yes", "a long list is hashed"},
		{"deployment.name in ['a','b','c','d','e','f','g','h','i']", "no", "a long list is hashed"},
		{"deployment.name in []", "no", "nothing is in an empty list"},
		{"resource.id in []", "no", "whatever the variable"},
		{"version.tag in []", "no", "not even what has no value"},
		{"version.tag in [] || true", "yes", "the library does not read the left side then, and neither do we"},
		{"resource.metadata['cluster'].startsWith('prod-')", "yes", "prefix"},
		{"resource.metadata['cluster'].endsWith('-west')", "no", "suffix"},
		{"resource.metadata['cluster'].contains('d-e')", "yes", "substring"},
		{"resource.metadata['cluster'].matches('^prod-(east|west)$')", "yes", "regular expression"},
		{"matches(resource.metadata['cluster'], 'west')", "no", "the other spelling of a call, not native"},
		{"resource.name == 'true'", "yes", "a string that says true is a string"},
		{"resource.metadata['cluster'] == resource.kind", "no", "two strings that are read"},
		{"resource.metadata['cluster'] != resource.kind", "yes", "two strings that are read"},
		{"resource.name == resource.name", "yes", "two strings that are read"},
		{"resource.name != resource.name", "no", "two strings that are read"},
		{"resource.metadata['cluster'].startsWith(deployment.metadata['layer'])", "no", "two strings that are read"},
		{"resource.kind.startsWith(resource.kind)", "yes", "two strings that are read"},
		{"resource.metadata['cluster'].endsWith(resource.name)", "no", "two strings that are read"},
		{"resource.kind.endsWith(resource.kind)", "yes", "two strings that are read"},
		{"deployment.name.contains(deployment.metadata.layer)", "no", "two strings that are read"},
		{"'true story'.contains(resource.name)", "yes", "a literal with a string that is read"},
		{"resource.metadata['team'] == resource.kind", missing + "resource.metadata['team']", "the left one is missing"},
		{"resource.kind == resource.metadata['team']", missing + "resource.metadata['team']", "the right one is missing"},
		{"resource.metadata['team'] == deployment.metadata['none']", missing + "resource.metadata['team']", "of two missing ones the first counts"},
		{"resource.kind == version.tag", "error", "the right one has no value"},
		{"weight == 3 && weight == weight", "yes", "ints that are read"},
		{"weight != weight", "no", "ints that are read"},
		{"weight in [1, 2]", "no", "ints are in lists or not"},
		{"flag == flag && flag != (weight == 4)", "yes", "bools compare"},
		{"flag == (resource.metadata['team'] == 'x')", missing + "resource.metadata['team']", "the right bool is missing"},
		{"(resource.metadata['team'] == 'x') == flag", missing + "resource.metadata['team']", "the left bool is missing"},
		{"flag", "yes", "a bool variable is an expression"},
		{"!flag", "no", "and can be negated"},
		{"flag == (weight == 3)", "yes", "bools compare"},
		{"weight != 3", "no", "ints compare"},
		{"weight in [1, 2, 3]", "yes", "ints are in lists"},
		{"weight * 2 > 5", "yes", "arithmetic is the library's"},
		{"weight / 0 == 1", "error", "division by zero"},
		{"tags.exists(x, x == 'b')", "yes", "comprehension"},
		{"tags.all(x, x == 'b')", "no", "comprehension"},
		{"tags.exists_one(x, x == 'b')", "yes", "comprehension"},
		{"'a' in tags && size(tags) == 2", "yes", "lists can be measured"},
		{"tags.all(x, resource.metadata[x] == 'x')", missing + "resource.metadata['a']", "and a missing key inside a comprehension"},
		{"!(tags.map(x, resource.metadata[x]).exists(x, x == 'a'))", missing + "resource.metadata['a']", "however deep"},
		{"resource.metadata[resource.id] == 'x'", missing + "resource.metadata['r-1']", "a computed key is named too"},
		{"resource.metadata.cluster < 'q' && deployment.metadata.layer < 'o' && !(('a' in environment.metadata) || 'b' in version.metadata) && size(tags) == 2", "yes",
			"as many maps as one likes"},
		{"(flag ? resource.kind : resource.name) == 'Node'", "yes", "a choice"},
		{"version.createdAt.getHours() == 23", "yes", "without a zone in UTC, whatever zone the host read its clock in"},
		{"timestamp('2026-03-02T00:15:00+01:00').getHours() == 23", "yes", "nor on the offset that an instant is written with"},
		{"version.createdAt.getHours('UTC') == 23", "yes", "UTC"},
		{"version.createdAt.getHours('+01:30') == 0", "yes", "an offset"},
		{"version.createdAt.getHours('-23:59') == 23", "yes", "an offset of nearly a day"},
		{"string(version.createdAt) == '2026-03-01T23:15:00Z'", "yes", "printed in UTC"},
		{"version.createdAt - duration('15m') == timestamp('2026-03-02T00:00:00+01:00')", "yes", "arithmetic"},
		{"version.tag == 'v1'", "error", "a variable without a value is an error, not a missing key"},
		{"version.tag == 'v1' || true", "yes", "which does not matter if the other side decides"},
	} {
		if row.why == "" || seen[row.expr] {
			t.Fatalf("%s: row without a why, or twice", row.expr)
		}
		seen[row.expr] = true
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
			continue
		}
		library, err := env.CompileCEL(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
			continue
		}
		for name, s := range map[string]*selector.Selector{"selector": s, "library": library} {
			for _, vars := range []selector.Vars{host(), values} {
				kind, text := outcome(s.Match(vars))
				if kind == "missing" {
					kind = missing + text
				}
				if kind != row.want {
					t.Errorf("%s: %s says %s %s of %T, want %s: %s", row.expr, name, kind, text, vars, row.want, row.why)
				}
			}
		}
	}
}

func TestNativeSubset(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct {
		expr   string
		native bool
		why    string
	}{
		{"resource.kind == 'a' && 'k' in resource.metadata && !flag && weight == 1", true, "every type that is native, in a chain"},
		{"resource.metadata.a.startsWith(resource.kind) || flag != other.flag", true, "two operands"},
		{"resource.metadata.a.endsWith(resource.kind) || resource.name.contains(resource.kind)", true, "whatever they are asked for"},
		{"resource.name.matches('^a')", true, "a literal regular expression"},
		{"true", true, "a constant"},
		{"weight in [1, 2]", true, "ints in a list"},
		{"weight < 2", false, "order"},
		{"size(tags) == 1", false, "lists"},
		{"'a' in tags", false, "lists"},
		{"weight + 1 == 2", false, "arithmetic"},
		{"flag ? true : false", false, "a choice"},
		{"resource.metadata[resource.kind] == 'a'", false, "a computed key"},
		{"'a' == 'a'", false, "constants only"},
		{"resource.kind in [resource.name]", false, "a computed list"},
		{"weight in [1, 1 + 1]", false, "a computed list"},
		{"resource.kind == 'a' && weight < 2", false, "one part that is not native takes the whole along"},
		{"resource.kind == 'a' || weight < 2", false, "one part that is not native takes the whole along"},
		{"!(weight < 2)", false, "one part that is not native takes the whole along"},
		{"flag == (weight < 2)", false, "one part that is not native takes the whole along"},
		{"resource.kind == string(weight)", false, "a computed string"},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
		} else if s.Native() != row.native {
			t.Errorf("%s: native is %v, want %v: %s", row.expr, s.Native(), row.native, row.why)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	seen := map[string]bool{}
	for _, row := range []struct {
		expr      string
		line, col int
		msg, hint string // what they contain
		why       string
	}{
		{"", 1, 1, "empty", "true", "the empty text matches neither everything nor nothing"},
		{" \n\t", 1, 1, "empty", "true", "nor does white space"},
		{"resource.kind == 'a' AND resource.name == 'b'", 1, 22, "AND", "&&", "the second example of the bracket RFC"},
		{"resource.kind == 'a'\n  and resource.name == 'b'", 2, 3, "and", "&&", "lines count"},
		{"resource.kind == 'a' OR flag", 1, 22, "OR", "||", "SQL"},
		{"NOT flag", 1, 1, "NOT", "!", "SQL"},
		{"not (flag)", 1, 1, "not", "!", "to the parser a call"},
		{"flag and(flag)", 1, 6, "and", "&&", "to the parser a mistake"},
		{"resource.kind = 'a'", 1, 15, "=", "==", "assignment"},
		{"resource.kind === 'a'", 1, 15, "===", "==", "JavaScript"},
		{"resource.kind !== 'a'", 1, 15, "!==", "!=", "JavaScript"},
		{"resource.kind <> 'a'", 1, 15, "<>", "!=", "SQL"},
		{"size(.resource.metadata) == 1", 1, 7, "only be asked for keys", "'key' in resource.metadata", "a map written absolutely is the same map"},
		{"version.createdAt.getHours('+24:00') == 1", 1, 28, "time zone", "+01:00", "there is no such offset"},
		{"weight => 1", 1, 8, "=>", ">=", "reversed"},
		{"weight =< 1", 1, 8, "=<", "<=", "reversed"},
		{"flag & flag", 1, 6, "&", "&&", "one is missing"},
		{"flag | flag", 1, 6, "|", "||", "one is missing"},
		{"flag && 'AND' = 'x'", 1, 15, "=", "==", "words in strings are no operators"},
		{`flag && "it's \" AND" = 'x'`, 1, 23, "=", "==", "escaped quotes do not end a string"},
		{"flag // AND\n&& = 1", 2, 4, "=", "==", "words in comments are no operators"},
		{"flag && '''a'b''' = 'x'", 1, 19, "=", "==", "a string in three quotes"},
		{`flag && r'\' = 'x'`, 1, 14, "=", "==", "a raw string"},
		{"resource.metadata.and = 'x'", 1, 23, "=", "==", "a key may be called and"},
		{"flag &&", 1, 8, "the expression ends too early", "something must follow", "the text ends too early"},
		{"(flag", 1, 6, "syntax error: missing ')' at the end", "close the ( at 1:1", "so it does here"},
		{"flag)", 1, 5, "syntax error: extraneous input ')' expecting the end", "the ) at 1:5 closes nothing", "and here it does not"},
		{"resource.kind like 'a%'", 1, 15, "like", "x.startsWith('…')", "SQL"},
		{"resource.kind LIKE 'a%'", 1, 15, "LIKE", "x.startsWith('…')", "SQL"},
		{"weight between 1 and 2", 1, 8, "between", "a <= x && x <= b", "SQL; the first slip counts"},
		{"resource.kind not in ['a']", 1, 15, "not", "!(x in [", "SQL"},
		{"resource.kind in ('a', 'b')", 1, 18, "(", "['a', 'b']", "SQL"},
		{"(resource.kind in ('a')", 1, 24, "missing ')'", "close the ( at 1:1", "a value in parentheses is a value"},
		{"resource.kind !in ['a']", 1, 15, "!in", "!(x in [", "Kotlin"},
		{"'a' !in tags", 1, 5, "!in", "!(x in [", "after a text"},
		{"flag && !in", 1, 10, "", "as in x == 'a' &&", "what follows no operand is no operator"},
		{"flag !inner", 1, 6, "", "join two", "nor is the beginning of a name"},
		{"resource.kind eq 'a'", 1, 15, "eq", "write == for eq", "OData"},
		{"resource.kind ne 'a'", 1, 15, "ne", "write != for ne", "OData"},
		{"resource.kind == 'a', resource.name == 'b'", 1, 21, ",", "&& or ||", "a list of conditions"},
		{"resource.kind in 'a', 'b'", 1, 21, ",", "['a', 'b']", "a list without brackets"},
		{"resource.kind in ['a', 'b'] && flag, flag", 1, 36, ",", "&& or ||", "a comma in brackets is none of these"},
		{"resource.kind in ['a'], resource.name == 'b'", 1, 23, ",", "&& or ||", "the list ends before it"},
		{"resource.kind: 'a'", 1, 14, ":", "write == for :", "YAML"},
		{"flag ? flag : flag : flag", 1, 20, "':'", "one condition", "which belongs to a choice"},
		{"resource.kind == `a`", 1, 18, "`", "' or", "Go, and a shell"},
		{"resource.kind ~ 'a'", 1, 15, "~", "x.matches(", "Perl, nearly"},
		{"resource.metadata.'a' == 'b'", 1, 18, ".'", "m['key']", "jq"},
		{`resource.metadata."a" == 'b'`, 1, 18, `."`, "m['key']", "in the other quotes"},
		{"resource.metadata['a'] ?? 'b' == 'c'", 1, 24, "??", "'key' in m &&", "JavaScript"},
		{" * ", 1, 2, "*", "write true", "a pattern"},
		{"resource.kind is 'a'", 1, 15, "is", "==", "Python"},
		{"resource.kind matches 'a'", 1, 15, "matches", "x.matches(", "a function is called"},
		{"resource.kind contains \"a\"", 1, 15, "contains", "x.contains(", "a function is called"},
		{"resource.kind startsWith resource.name", 1, 15, "startsWith", "x.startsWith(", "a function is called"},
		{"resource.kind endsWith 'a'", 1, 15, "endsWith", "x.endsWith(", "a function is called"},
		{"resource.kind.matches('a') matches", 1, 28, "matches", "join two", "what is behind a dot is right"},
		{"resource.kind =~ 'a'", 1, 15, "=~", "x.matches(", "Perl"},
		{"resource.kind !~ 'a'", 1, 15, "!~", "!x.matches(", "Perl"},
		{"if flag then true", 1, 1, "if", "condition ? yes : no", "a statement"},
		{"flag # why", 1, 6, "#", "//", "YAML, and most shells"},
		{"flag; flag", 1, 5, ";", "&& or ||", "a list of statements"},
		{"$flag", 1, 1, "$", "its name", "a shell"},
		{"{{flag}}", 1, 1, "{{", "its name", "a template"},
		{"`resource.kind` == 'a'", 1, 1, "`", "' or", "SQL: the first sign of all"},
		{"resource.kind == ‘a’", 1, 18, "‘", "' or", "a word processor"},
		{"resource.kind == “a”", 1, 18, "“", "' or", "a word processor"},
		{"flag\u00a0&& flag", 1, 5, "U+00A0", "ordinary space", "a wiki, where this is the space"},
		{"\ufeffflag", 1, 1, "U+FEFF", "ordinary space", "the beginning of a file"},
		{"flag && \x1b[2J", 1, 9, "U+001B", "ordinary space", "no command to the terminal that shows it"},
		{"flag\f\t\r\n= flag", 2, 1, "=", "==", "these are spaces to CEL as well"},
		{`resource.kind.matches('^\w+$')`, 1, 25, `\w`, "r'…'", "an escape that strings do not have"},
		{`resource.kind.matches("\d")`, 1, 24, `\d`, `r"…"`, "in the other quotes"},
		{`resource.kind == '\é'`, 1, 19, `\é`, "r'…'", "of more than one byte"},
		{`R'\w' = resource.kind`, 1, 7, "=", "==", "a raw string has no escapes, whatever the case of its letter"},
		{"resource.kind == 'a", 1, 18, "'", "does not end", "a string that is not closed"},
		{"resource.kind == '' 'a", 1, 21, "'", "does not end", "after one that is"},
		{"resource.kind == '''a'", 1, 18, "'''", "does not end", "nor here, where three open it"},
		{`é == $x && 'ok' == '\u00e9'`, 1, 6, "$", "its name and nothing else", "letters of other scripts are no slip, nor are escapes"},
		{"weight > 1)\n&& (flag", 1, 11, "", "the ) at 1:11 closes nothing", "as many are opened as are closed, but not in this order"},
		{"tags[0) == 'a'", 1, 7, "", "close the [ at 1:5", "closed by another one"},
		{"flag\n&& (resource.kind == ')' // )", 2, 30, "", "close the ( at 2:4", "what is in a string or a comment closes nothing"},
		{"weight > 99999999999999999999", 1, 10, "invalid int literal", "out of range", "more than 64 bits"},
		{"@", 1, 1, "'@'", "as in x == 'a'", "no sign of the language"},
		{"flag ? 1 : 'a'", 1, 6, "there is no bool ? int : string", "x and y have the same type", "a choice of two types"},
		{"resource.kind.startsWith(1)", 1, 15, "string.startsWith(int)", "x.startsWith('…')", "a number is no prefix"},
		{"flag // AND\n= flag", 2, 1, "=", "==", "a comment ends with its line"},
		{"tags.exists(x, x == 'a') = flag", 1, 26, "=", "==", "a comma in brackets is no slip"},
		{"(flag), flag", 1, 7, ",", "join two with && or ||", "what is in brackets before the comma has ended"},
		{"resource.metadata.'", 1, 18, ".'", "in brackets: m['key']", "even if the quotes end nowhere"},
		{"flag flag // AND", 1, 6, "", "join two", "a comment may end the text"},
		{"flag flag <", 1, 6, "", "join two", "so may an operator"},
		{"flag flag &&", 1, 6, "", "join two", "and another"},
		{"flag 'a", 1, 6, "", "does not end", "and a string that does not end"},
		{"flag 'a\\", 1, 6, "", "does not end", "even in the middle of an escape"},
		{"'é' == resource.kind)", 1, 21, "", "the ) at 1:21", "columns count characters, not bytes"},
		{"resource.knd == 'a'", 1, 1, "resource.knd", "resource.kind", "a typo"},
		{"resource.kindd == 'a'", 1, 1, "resource.kindd", "did you mean resource.kind?", "a letter too many"},
		{"resource.kiiid == 'a'", 1, 1, "resource.kiiid", "resource has ", "two of five letters are more than a third"},
		{"flag && resource.metdata.team == 'a'", 1, 9, "resource.metdata.team", "resource.metadata", "a typo in front of a key"},
		{"resource.metdata['team'] == 'a'", 1, 1, "resource.metdata", "resource.metadata", "a typo in front of a key"},
		{"resource == 'a'", 1, 1, "resource is not declared", "resource.kind", "variables are flat"},
		{"foo.bar == 'x'", 1, 1, "foo.bar", "names begin with", "nothing is near"},
		{"resource.owner == 'x'", 1, 1, "resource.owner", "resource has ", "that much is right: what there is to choose from"},
		{"resource.labels['team'] == 'x'", 1, 1, "resource.labels", "write resource.metadata['key']", "what Kubernetes calls them"},
		{"resource.annotations.team == 'x'", 1, 1, "resource.annotations.team", "write resource.metadata['key']", "and these"},
		{"slug == 'x'", 1, 1, "slug is not declared", "did you mean deployment.slug?", "what is in front of it is lost"},
		{"Kind == 'x'", 1, 1, "Kind is not declared", "did you mean resource.kind?", "in another case, too"},
		{"metadata['team'] == 'x'", 1, 1, "metadata is not declared", "one of deployment.metadata, environment.metadata, resource.metadata, version.metadata?", "it may be any of them"},
		{"metadata.team == 'x'", 1, 1, "metadata.team is not declared", "one of deployment.metadata, ", "in front of a key"},
		{"resource.kind == Node", 1, 18, "Node is not declared", "write 'Node'", "quotes are forgotten"},
		{"flag == True", 1, 9, "True is not declared", "write true for True", "Python"},
		{"resource.metadata.my-label == 'x'", 1, 22, "label is not declared", "resource.metadata['my-label']", "to the parser a subtraction"},
		{"flag ||\n resource.metadata.example.com/zone == 'x'", 2, 32, "zone is not declared", "resource.metadata['example.com/zone']", "to the parser a division"},
		{"deployment.name == node-drain", 1, 20, "node is not declared", "write 'node-drain'", "neither a subtraction nor the text 'node'"},
		{"flag && team/web-1.2 in tags", 1, 9, "team is not declared", "write 'team/web-1.2'", "nor a division"},
		{"nodes-(1) == weight", 1, 1, "nodes is not declared", "write 'nodes'", "a sign in front of something else is no part of a word"},
		{"deployment.nmae-1 == weight", 1, 1, "deployment.nmae is not declared", "did you mean deployment.name?", "a name that is known is likelier"},
		{"weight-label == 1", 1, 8, "label is not declared", "write 'label'", "this is one"},
		{"tagz.exists(x, x == 'a')", 1, 1, "tagz is not declared", "did you mean tags?", "what is walked has to be declared, too"},
		{"tags.exists(x, y == 'a')", 1, 16, "y is not declared", "write 'y'", "the loop variable is x"},
		{"tags.exists(x, x == 'a') && x == 'a'", 1, 29, "x is not declared", "write 'x'", "a loop variable ends with its loop"},
		{"tags.exists(flag, flag == 'a')", 1, 6, "hides", "another name", "a loop variable must not hide a declared one"},
		{"flag && tags . exists (flag, flag == 'a')", 1, 16, "hides", "another name", "a macro is placed at its name, like any other call"},
		{"flag &&\n\ttags\n.map(x, x)", 3, 2, "found 'list(string)'", "a condition is needed", "on whatever line that is"},
		{"flag\n|| resource.metadata\n['a']", 2, 4, "found 'string'", "compare it", "what does not fit is placed where it begins"},
		{"flag || resource.metadata.a.b", 1, 28, "does not support field selection", "only a map has keys", "but a lookup of what has no keys at its dot"},
		{"flag || tags['a']", 1, 13, "there is no list(string)[string]", "a list for a number", "or at its bracket"},
		{"flag || (flag ? tags[0] : 'é').size() == tags", 1, 39, "there is no int == list(string)", "same type", "and a comparison at its operator"},
		{"tags.exists(resource, resource == 'a')", 1, 6, "hides", "another name", "nor the names below it"},
		{"resource.kind.lowerAscii() == 'a'", 1, 15, "lowerAscii", "x.matches('(?i)^text$')", "extension functions do not exist, but there is another way"},
		{"semver(resource.kind) == 'a'", 1, 1, "semver", "standard", "for this there is none"},
		{"sets.contains([1,2],[1])", 1, 1, "sets", "write 'sets'", "extension functions do not exist"},
		{"resource.kind.startWith('a')", 1, 15, "startWith", "startsWith", "a typo in a function"},
		{"_in(resource.kind)", 1, 1, "there is no function _in", "only the standard functions", "what an operator was called inside, long ago, is no name to write"},
		{"_in_('a', tags)", 1, 1, "there is no function _in_", "only the standard functions", "nor is there a function of that name"},
		{"inn('a', tags)", 1, 1, "there is no function inn", "did you mean int?", "the operator, which is as near, is no function"},
		{"dyn(resource.kind) == 1", 1, 1, "dyn", "only the standard functions", "dyn would undo the types"},
		{"google.protobuf.Int64Value{value: 1} == 1", 1, 0, "google.protobuf.Int64Value", "use strings, numbers", "messages would undo the types"},
		{"[].all(x, x == x)", 1, 0, "run time", "values of one declared type", "an empty list has no type of element"},
		{"resource.kind == 1", 1, 15, "there is no string == int", "write '1' if a text is meant", "a text is in quotes"},
		{"-7 != resource.kind", 1, 4, "there is no int != string", "write '-7' if a text is meant", "also on the other side"},
		{"resource.kind == weight", 1, 15, "there is no string == int", "same type", "a variable cannot be put in quotes"},
		{"resource.kind == 1u", 1, 15, "there is no string == uint", "same type", "nobody writes that by mistake"},
		{"weight == '1'", 1, 8, "there is no int == string", "write 1", "a number is not in quotes"},
		{"'1' == weight", 1, 5, "there is no string == int", "write 1", "nor on the other side"},
		{"weight == ''", 1, 8, "there is no int == string", "same type", "what is in these quotes is no number"},
		{"weight == 'x'", 1, 8, "there is no int == string", "same type", "nor is this"},
		{"weight == resource.kind", 1, 8, "there is no int == string", "int()", "a variable has no quotes to leave out"},
		{"flag != 'false'", 1, 6, "there is no bool != string", "write false", "nor is a condition in quotes"},
		{"flag == 'yes'", 1, 6, "there is no bool == string", "same type", "this is no condition"},
		{"flag == '1'", 1, 6, "there is no bool == string", "same type", "nor is a number one"},
		{"weight == 'true'", 1, 8, "there is no int == string", "same type", "nor the other way round"},
		{"weight < 1.5", 1, 8, "there is no int < double", "double(x)", "different types of numbers"},
		{"1.5 < weight", 1, 5, "there is no double < int", "double(x)", "nor on the other side"},
		{"version.createdAt > '2026-01-01'", 1, 19, "there is no timestamp > string", "timestamp('2026", "a date as text is no instant"},
		{"'2026-01-01' <= version.createdAt", 1, 14, "there is no string <= timestamp", "timestamp('2026", "nor on the other side"},
		{"timestamp('2026-01-31T09:00:00Z') - version.createdAt > '1h'", 1, 55, "there is no duration > string", "duration('36h')", "nor is a text a length of time"},
		{"tags == 'a'", 1, 6, "there is no list(string) == string", "'x' in list", "a list is not its only value"},
		{"tags > 'a'", 1, 6, "there is no list(string) > string", "same type", "that is no question for a list"},
		{"resource.metadata.in == 'a'", 1, 19, "in", "m['in']", "a key that is a word of the language"},
		{"resource.metadata.true == 'a'", 1, 19, "true", "m['true']", "a key that is a value of the language"},
		{"resource.metadata.in.null == 'a' = 'b'", 1, 19, "in", "m['in']", "the first of several"},
		{"resource.metadata.?team == 'a'", 1, 18, ".?", "'key' in m && m['key'] ==", "a later CEL"},
		{"resource.metadata[?'team'] == 'a'", 1, 18, "[?", "'key' in m && m['key'] ==", "also in brackets"},
		{"resource.metadata?.team == 'a'", 1, 18, "?.", "'key' in m && m['key'] ==", "JavaScript"},
		{"resource.kind in [1]", 1, 15, "there is no string in list(int)", "same type", "different types"},
		{"resource.kind in 'a,b'", 1, 15, "there is no string in string", "x in ['a', 'b']", "a text is no list"},
		{"1 in resource.metadata", 1, 3, "there is no int in map(string, string)", "the keys of a map are texts", "the keys are texts"},
		{"resource.metadata[1] == 'a'", 1, 18, "there is no map(string, string)[int]", "m['key']", "the keys are texts"},
		{"resource.metadata['a'] > 3", 1, 24, "there is no string > int", "int(x) for the text", "metadata is text"},
		{"!weight", 1, 1, "there is no !int", "! is for conditions", "a number is no condition"},
		{"flag && resource.kind", 1, 9, "expected type 'bool' but found 'string'", "&& and || join conditions: compare it, as in x == 'a'", "nor is a text"},
		{"resource.metadata['a'] || flag", 1, 1, "expected type 'bool' but found 'string'", "&& and || join conditions: compare it, as in x == 'a'", "nor a value of a key"},
		{"flag && resource.metadata.a", 1, 9, "expected type 'bool' but found 'string'", "compare it, as in x == 'a'", "in either spelling"},
		{"flag && resource.metadata.a.b", 1, 28, "string", "m['a.b']", "the path is at fault, and not where it stands"},
		{"flag && resource.kind['a'] == 'b'", 1, 22, "there is no string[string]", "m['key']", "nor is that the fault of where a key is asked for"},
		{"!resource.metadata", 1, 1, "there is no !map", "! is for conditions", "nor is a map"},
		{"flag && resource.kind.size()", 1, 23, "expected type 'bool' but found 'int'", "compare it, as in x == 'a'", "what a call gives may be what is at fault"},
		{"timestamp(resource.metadata.a.b) < timestamp('x')", 1, 30, "string", "m['a.b']", "the path is at fault, and not the instant"},
		{"tags.exists(x, x)", 1, 16, "expected type 'bool' but found 'string'", "compare it, as in x == 'a'", "a loop over what is no condition"},
		{"has(resource.metadata.a.contains)", 1, 1, "string", "only a map has keys", "the key of a text is asked for, and no method called"},
		{"-flag == flag", 1, 1, "there is no -bool", "values of other types", "a sign of no number"},
		{"startsWith(resource.kind, 'a')", 1, 1, "there is no startsWith(string, string)", "x.startsWith(", "it is a method"},
		{"tags.contains('a')", 1, 6, "there is no list(string).contains(string)", "'x' in list", "it is for texts"},
		{"resource.metadata.contains('a')", 1, 19, "there is no map(string, string).contains(string)", "or a map a key", "nor is it for maps"},
		{"resource.metadata.exists('a')", 1, 19, "there is no function exists", "by 'key' in m", "a map is no list"},
		{"exists(resource.metadata['a'])", 1, 1, "there is no function exists", "list.exists(x, x == 'a')", "nor is it a function"},
		{"resource.metadata.get('a') == 'b'", 1, 19, "there is no function get", "m['key']", "Python"},
		{"resource.metadata.containsKey('a')", 1, 19, "there is no function containsKey", "'key' in m", "Java"},
		{"resource.kind.toLowerCase() == 'a'", 1, 15, "there is no function toLowerCase", "(?i)", "JavaScript"},
		{"resource.kind.split('-')[0] == 'a'", 1, 15, "there is no function split", "startsWith", "extension functions do not exist"},
		{"resource.kind.isEmpty()", 1, 15, "there is no function isEmpty", "x == ''", "Java"},
		{"resource.kind.equals('a')", 1, 15, "there is no function equals", "x == y", "Java"},
		{"version.createdAt > now()", 1, 21, "there is no function now", "reads a clock", "a match depends on its data alone"},
		{"version.createdAt > now", 1, 21, "now is not declared", "reads a clock", "be it a function or not"},
		{"resource.kind.length > 3", 1, 14, "string", "size(x)", "JavaScript"},
		{"resource.metadata['a'] == true", 1, 24, "there is no string == bool", "write 'true'", "metadata is text"},
		{"false != resource.metadata['a']", 1, 7, "there is no bool != string", "write 'false'", "also on the other side"},
		{"flag == weight > 0", 1, 6, "there is no bool == int", "in parentheses, as in x == (y > 0)", "all comparisons bind alike, and no conversion makes these two the same"},
		{"true == 'k' in resource.metadata", 1, 6, "there is no bool == string", "bind alike, from left to right: put one in parentheses", "written 'true' it would be refused next"},
		{"1 < weight < 5", 1, 12, "there is no bool < int", "or join two with &&", "mathematics"},
		{"!'a' in tags", 1, 1, "there is no !string", "as in !(x in y)", "a negation takes one operand"},
		{"!weight > 3", 1, 1, "there is no !int", "negate the whole in parentheses", "of a comparison too"},
		{"resource.kind == 'a' in tags", 1, 22, "there is no bool in list(string)", "put one in parentheses, as in x == (y > 0), or join two with &&", "what is meant is not evident"},
		{"resource.kind != 'a' in tags", 1, 22, "there is no bool in list(string)", "or join two with &&", "whichever comparison it is"},
		{"weight <= 3 in tags", 1, 13, "there is no bool in list(string)", "or join two with &&", "of numbers too"},
		{"resource.kind == 'a' == 'z'", 1, 22, "there is no bool == string", "or join two with &&", "no conversion makes a text of a comparison"},
		{"weight == 'a' == flag", 1, 8, "there is no int == string", "same type: convert one", "the first comparison is at fault by itself, and what stands beside it is right"},
		{"0 < weight != flag && weight == flag", 1, 30, "there is no int == bool", "a bool is compared with a bool", "also on the other side; the first comparison is right as it stands"},
		{"flag == resource.kind", 1, 6, "there is no bool == string", "same type", "a variable is no word to put in quotes"},
		{"resource.kind == flag", 1, 15, "there is no string == bool", "same type: convert one", "also on the other side: string(x) makes a text of a bool"},
		{"flag == weight", 1, 6, "there is no bool == int", "a bool is compared with a bool", "without a comparison too: nothing makes a bool of a number"},
		{"weight == tags", 1, 8, "there is no int == list(string)", "same type", "of two types of which neither is a bool"},
		{"resource.kind in ['a', 1]", 1, 24, "", "same type", "a list of different types"},
		{"weight in [1, weight == 2]", 1, 22, "expected type 'int' but found 'bool'", "the values of a list must have the same type", "the comparison is right by itself: its two sides have one type"},
		{"'a' in [resource.kind, !flag]", 1, 24, "expected type 'string' but found 'bool'", "the values of a list must have the same type", "and so is the negation"},
		{"weight in [1, weight == 'a']", 1, 22, "there is no int == string", "same type: convert one", "this one is not"},
		{"resource.metadata.a.b == 'c'", 1, 20, "string", "m['a.b']", "a key with a dot is no path"},
		{"resource.kind == null", 1, 15, "there is no string == null", "nothing is ever null", "nothing is null"},
		{"null != weight", 1, 6, "there is no null != int", "nothing is ever null", "nor on the other side"},
		{"resource.name", 1, 1, "not a bool", "as in resource.name == '…'", "a string that may hold true is no answer"},
		{"weight", 1, 1, "not a bool", "as in weight > 0", "a number is no answer"},
		{"tags", 1, 1, "not a bool", "as in '…' in tags", "a list is no answer"},
		{"resource.metadata", 1, 1, "not a bool", "as in resource.metadata['…'] == '…'", "a map is no answer"},
		{"resource.metadata['a']", 1, 1, "not a bool", "as in resource.metadata['a'] == '…'", "a value that may be true is no answer"},
		{"resource.metadata.a", 1, 1, "not a bool", "as in resource.metadata['a'] == '…'", "nor in the other spelling"},
		{"1", 1, 1, "not a bool", "must say yes or no", "a number is no answer"},
		{"null", 1, 1, "not a bool", "must say yes or no", "null is no answer"},
		{`"T"`, 1, 1, "not a bool", "must say yes or no", "a string is no answer"},
		{"has(resource.metadata['k'])", 1, 1, "has()", "has(m.key) or 'key' in m", "has takes a selection"},
		{"has(resource.kind)", 1, 1, "always", "as in has(m.key)", "has is for keys"},
		{"tags.exists() && has(resource.metadata['a'])", 1, 18, "has()", "write has(m.key)", "a macro without operands is none"},
		{"flag.has() && has(resource.metadata['a'])", 1, 15, "has()", "write has(m.key)", "nor is a method of its name"},
		{"resource.kind.exists(x, x == 'a')", 1, 1, "cannot be range", "only a list is walked", "a text is no list of its letters"},
		{"flag || weight.exists(contains, true)", 1, 9, "cannot be range", "only a list is walked", "nor is a number one, whatever the loop variable is called"},
		{"tags.exists('x', true)", 1, 13, "loop variable of exists must", "as in list.exists(x,", "a loop variable is a name"},
		{"tags.all('x', true) && tags.exists('y', true)", 1, 10, "loop variable of all must", "as in list.all(x,", "of several the first"},
		{"tags.all('x', true)", 1, 10, "loop variable of all must", "as in list.all(x,", "a loop variable is a name"},
		{"tags.exists_one('x', true)", 1, 17, "loop variable of exists_one must", "as in list.exists_one(x,", "a loop variable is a name"},
		{"size(tags.map('x', true)) == 1", 1, 15, "loop variable of map must", "as in list.map(x,", "a loop variable is a name"},
		{"size(tags.filter('x', true)) == 1", 1, 18, "loop variable of filter must", "as in list.filter(x,", "a loop variable is a name"},
		{"size(resource.metadata) == 1", 1, 6, "keys", "'key' in resource.metadata", "maps cannot be measured"},
		{"resource.metadata.size() == 1", 1, 1, "keys", "use resource.metadata['key']", "maps cannot be measured"},
		{"resource.metadata.exists(k, k == 'a')", 1, 1, "keys", "use resource.metadata['key']", "maps cannot be walked"},
		{"resource.metadata == deployment.metadata", 1, 1, "keys", "use resource.metadata['key']", "maps cannot be compared"},
		{"(flag ? resource.metadata : deployment.metadata)['a'] == 'b'", 1, 9, "keys", "use resource.metadata['key']", "maps cannot be chosen"},
		{"[resource.metadata].exists(m, m.a == 'b')", 1, 2, "keys", "use resource.metadata['key']", "maps cannot be put into lists"},
		{"{'a': resource.metadata}['a'].b == 'c'", 1, 7, "keys", "use resource.metadata['key']", "maps cannot be put into maps"},
		{"resource.name.matches('(')", 1, 23, "regular expression", "RE2", "invalid"},
		{"resource.name.matches('(?=a)')", 1, 23, "regular expression", "RE2", "lookahead is not RE2"},
		{"matches(resource.name, '(')", 1, 24, "regular expression", "RE2", "invalid, in the other spelling"},
		{"resource.name.matches(resource.kind)", 1, 23, "literal", "as in x.matches('^a')", "a computed pattern could be anything"},
		{"resource.name.matches('a' + 'b')", 1, 0, "literal", "as in x.matches('^a')", "a computed pattern could be anything"},
		{"version.createdAt.getHours('Europe/Berlin') == 1", 1, 28, "time zone", "+01:00", "zones are looked up on the machine"},
		{"version.createdAt.getHours('+25:00') == 1", 1, 28, "time zone", "+01:00", "no such offset"},
		{"version.createdAt.getHours('+01:60') == 1", 1, 28, "time zone", "+01:00", "no such offset"},
		{"version.createdAt.getHours('01:000') == 1", 1, 28, "time zone", "+01:00", "no sign"},
		{"version.createdAt.getHours('+01-00') == 1", 1, 28, "time zone", "+01:00", "no colon"},
		{"version.createdAt.getHours('+1') == 1", 1, 28, "time zone", "+01:00", "too short"},
		{"version.createdAt.getHours('+01:000') == 1", 1, 28, "time zone", "+01:00", "too long"},
		{"version.createdAt.getHours('+01:0a') == 1", 1, 28, "time zone", "+01:00", "no digits of minutes"},
		{"version.createdAt.getHours('+0a:00') == 1", 1, 28, "time zone", "+01:00", "no digits"},
		{"version.createdAt.getHours(resource.name) == 1", 1, 28, "time zone", "+01:00", "computed"},
		{"version.createdAt < timestamp('yesterday')", 1, 0, "timestamp", "RFC 3339", "no timestamp"},
		{"duration('1 day') > duration('1h')", 1, 0, "duration", "units are h, m", "no duration"},
		{"flag || int('b') > 1", 1, 9, "this has no value, whatever the data: type conversion error from 'string' to 'int'", "correct what is converted", "a literal that no data can make a number"},
		{"weight > 1 &&\n  uint(int('-5')) in [uint('1'), uint('x')]", 2, 3, "unsigned integer overflow", "correct what is converted", "the inner conversion has a value, which the outer does not take; the first of two faults"},
		{"tags.exists(x, bool('yes') || x == 'a')", 1, 16, "type conversion error from 'string' to 'bool'", "correct what is converted", "inside a loop"},
		{"string(b'\\xff') == resource.kind", 1, 1, "invalid UTF-8", "correct what is converted", "bytes that are no text"},
		{"tags.any(x, x == 'a')", 1, 6, "there is no function any", "exists", "another language"},
		{"tags.every(x, x == 'a')", 1, 6, "there is no function every", "all", "another language"},
		{"tags.length() == 1", 1, 6, "there is no function length", "size", "another language"},
		{"resource.kind.includes('a')", 1, 15, "there is no function includes", "contains", "another language"},
		{"resource.kind.test('a')", 1, 15, "there is no function test", "matches", "another language"},
		{"resource.kind == \xff", 1, 18, "UTF-8", "save it as UTF-8", "not text"},
		{"'\ufffd' == resource.kind || '\xff' == 'a'", 1, 26, "UTF-8", "save it as UTF-8", "a replacement character is text"},
		{"resource.kind == '\xff'", 1, 19, "UTF-8", "save it as UTF-8", "not text, in a string"},
	} {
		if row.why == "" || row.hint == "" || seen[row.expr] {
			t.Fatalf("%q: row without a why or a hint, or twice", row.expr)
		}
		seen[row.expr] = true
		s, err := env.Compile(row.expr)
		var fault *selector.CompileError
		if s != nil || !errors.As(err, &fault) {
			t.Errorf("%q: got %v, %v, want a *CompileError: %s", row.expr, s, err, row.why)
			continue
		}
		if fault.Line != row.line || row.col > 0 && fault.Col != row.col || !strings.Contains(fault.Msg, row.msg) || !strings.Contains(fault.Hint, row.hint) {
			t.Errorf("%q: %v\nwant %d:%d, message with %q, hint with %q: %s", row.expr, err, row.line, row.col, row.msg, row.hint, row.why)
		}
		if fault.Expr != row.expr || errors.Is(err, selector.ErrLimit) {
			t.Errorf("%q: Expr is %q, limit %v", row.expr, fault.Expr, errors.Is(err, selector.ErrLimit))
		}
	}
}

// TestErrorsQuoteLittleOfTheData: an error goes into logs and records, and data may be large.
func TestErrorsQuoteLittleOfTheData(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	long := strings.Repeat("ab", 900)
	vars := env.NewValues()
	if err := errors.Join(vars.SetString("resource.kind", long), vars.Set("resource.metadata", map[string]string{})); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"timestamp(resource.kind) < timestamp('2026-01-01T00:00:00Z')": "invalid RFC 3339 timestamp",
		"resource.metadata[resource.kind] == 'x'":                      "is missing: test it first",
	} {
		s, err := env.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		ok, err := s.Match(vars)
		if ok || err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 {
			t.Errorf("%s: %v, %v", text, ok, err)
		}
		var missing interface{ MissingKey() string }
		if errors.As(err, &missing) && !strings.Contains(missing.MissingKey(), long) {
			t.Errorf("%s: the key itself is cut: %s", text, missing.MissingKey())
		}
	}
}

// TestErrorsQuoteTheBeginning: of a long text an error keeps 200 bytes, or what of them is whole
// characters.
func TestErrorsQuoteTheBeginning(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct {
		text string
		want int
		why  string
	}{
		{strings.Repeat("x", 200), 200, "it fits"},
		{strings.Repeat("x", 201), 200, "every byte is a character"},
		{"x" + strings.Repeat("é", 200), 199, "a character would be cut"},
		{"x" + strings.Repeat("\U0001f600", 100), 197, "a longer one, too"},
		{strings.Repeat("\xbd", 300), 200, "no character begins anywhere"},
		{"x" + strings.Repeat("\xbd", 300), 200, "nor where it would be cut"},
	} {
		var fault *selector.CompileError
		if _, err := env.Compile(row.text); !errors.As(err, &fault) || fault.Expr != row.text[:row.want] || fault.Error() == "" {
			t.Errorf("%s: %v, %q", row.why, err, fault.Expr)
		}
	}
}

// TestSharedCases replays what other systems do with some expressions, and where this one differs
// on purpose.
func TestSharedCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			ID, Kind, Library, Note string
			Input                   struct {
				Expr string
				Vars map[string]struct {
					Name, Kind string
					Metadata   map[string]string
				}
			}
			Expected struct {
				Match, Missing bool
				Error          string
			}
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 12 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			vars := hostVars{}
			for entity, v := range c.Input.Vars {
				vars[entity+".name"], vars[entity+".kind"], vars[entity+".metadata"] = v.Name, v.Kind, v.Metadata
			}
			s, err := env.Compile(c.Input.Expr)
			if c.Library == "differs" || c.Expected.Error != "" {
				// Extension functions and the empty text, like every other fault, are found when
				// compiling.
				var fault *selector.CompileError
				if !errors.As(err, &fault) {
					t.Fatalf("%q compiles: %v", c.Input.Expr, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			ok, err := s.Match(vars)
			if ok != c.Expected.Match || errors.Is(err, selector.ErrMissingKey) != c.Expected.Missing || err != nil && !c.Expected.Missing {
				t.Fatalf("%s: %v, %v, want %+v", s, ok, err, c.Expected)
			}
		})
	}
}

// TestMatcherNeedsNoImport: what package rollout declares for itself is satisfied, and an error
// comes with a nil interface.
func TestMatcherNeedsNoImport(t *testing.T) {
	type vars = interface{ Lookup(name string) (any, bool) }
	type matcher = interface {
		Match(vars vars) (bool, error)
	}
	type compiler interface {
		Matcher(expression string) (matcher, error)
	}
	var c compiler = newEnv(t, selector.Limits{})
	m, err := c.Matcher("resource.kind == 'Node'")
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := m.Match(host()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if m, err := c.Matcher("resource.kind = 'Node'"); m != nil || err == nil {
		t.Fatalf("%v, %v: want an interface that is nil", m, err)
	}
	// A consumer tells a missing key without importing this package.
	m, _ = c.Matcher("resource.metadata['team'] == 'x'")
	_, err = m.Match(host())
	var missing interface{ MissingKey() string }
	if !errors.As(err, &missing) || missing.MissingKey() != "resource.metadata['team']" {
		t.Fatal(err)
	}
}

func TestVariables(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for expr, want := range map[string]string{
		"true": "",
		"resource.metadata.a == 'x' && (flag || version.tag in ['a']) && resource.metadata.b == resource.kind": "flag resource.kind resource.metadata version.tag",
		"tags.exists(t, t == .resource.name)": "resource.name tags",
		"type(resource.kind) == string":       "resource.kind",
	} {
		s, err := env.Compile(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		if got := strings.Join(s.Variables(), " "); got != want {
			t.Errorf("%s reads %q, want %q", expr, got, want)
		}
	}
}

func TestTerms(t *testing.T) {
	env := newEnv(t, selector.Limits{})
	for _, row := range []struct{ expr, want, why string }{
		{"resource.kind == 'a'", "resource.kind in ['a']", "a variable"},
		{"'a' == resource.metadata.k", "resource.metadata['k'] in ['a']", "either order, either spelling"},
		{"resource.metadata['k'] in ['b', 'a', 'b']", "resource.metadata['k'] in ['a', 'b']", "sorted, each once"},
		{"resource.metadata['k'] in []", "resource.metadata['k'] in []", "nothing matches"},
		{"'k' in resource.metadata", "'k' in resource.metadata", "a key exists"},
		{"has(resource.metadata.k)", "'k' in resource.metadata", "a key exists"},
		{"resource.kind == 'a' && resource.name == 'b'", "resource.kind in ['a'] resource.name in ['b']", "both sides"},
		{"resource.kind in ['a', 'b', 'c'] && resource.kind in ['b', 'c', 'd']", "resource.kind in ['b', 'c']", "both sides of one variable"},
		{"resource.kind == 'a' && resource.kind == 'b'", "resource.kind in []", "a contradiction: nothing matches"},
		{"'k' in resource.metadata && resource.metadata.k == 'a'", "resource.metadata['k'] in ['a']", "a value implies the key"},
		{"resource.metadata.k == 'a' && 'k' in resource.metadata", "resource.metadata['k'] in ['a']", "a value implies the key"},
		{"resource.kind == 'b' || resource.kind == 'a'", "resource.kind in ['a', 'b']", "either value"},
		{"resource.kind == 'a' || resource.name == 'b'", "", "neither is certain"},
		{"resource.kind == 'a' || flag", "", "neither is certain"},
		{"resource.metadata.k == 'a' || 'k' in resource.metadata", "'k' in resource.metadata", "the weaker of both"},
		{"'k' in resource.metadata || resource.metadata.k == 'a'", "'k' in resource.metadata", "the weaker of both"},
		{"(resource.kind == 'a' && flag) || (resource.kind == 'b' && resource.name == 'c')", "resource.kind in ['a', 'b']", "what both speak of"},
		{"flag && resource.kind == 'a'", "resource.kind in ['a']", "the other side says nothing"},
		{"!(resource.kind == 'a')", "", "a negation implies nothing"},
		{"resource.kind != 'a'", "", "a negation implies nothing"},
		{"(resource.kind == 'a') == true", "", "not understood"},
		{"resource.kind == 'a' ? true : false", "", "not understood"},
		{"resource.kind == resource.name", "", "not understood"},
		{"resource.metadata[resource.name] == 'a'", "", "the key is not constant"},
		{"resource.kind in [resource.name]", "", "the list is not constant"},
		{"resource.kind.startsWith('a')", "", "a prefix is no value"},
		{"weight == 1", "", "not a string"},
		{"resource.metadata.a == 'x' && deployment.metadata.a == 'y' && resource.metadata.b == 'z'",
			"deployment.metadata['a'] in ['y'] resource.metadata['a'] in ['x'] resource.metadata['b'] in ['z']", "sorted by variable and key"},
		{"resource.metadata.f == 'x' && resource.metadata.e == 'x' && resource.metadata.d == 'x' && resource.metadata.c == 'x' && resource.metadata.b == 'x' && resource.metadata.a == 'x'",
			"resource.metadata['a'] in ['x'] resource.metadata['b'] in ['x'] resource.metadata['c'] in ['x'] resource.metadata['d'] in ['x'] resource.metadata['e'] in ['x'] resource.metadata['f'] in ['x']", "sorted by key, whatever the order of a map"},
		{"resource.name in resource.metadata", "", "the key is not constant, and no key is empty"},
		{".resource.kind == 'a'", "resource.kind in ['a']", "a name may be written absolutely"},
		{"false", "", "constants say nothing"},
	} {
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
			continue
		}
		var got []string
		for _, term := range s.Terms() {
			got = append(got, term.String())
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s\n got %v\nwant %s: %s", row.expr, got, row.want, row.why)
		}
	}
	s, _ := env.Compile("resource.kind in ['a', 'b']")
	s.Terms()[0].Values[0] = "changed"
	if s.Terms()[0].Values[0] != "a" {
		t.Error("what Terms returns is not the caller's")
	}
}

// TestRequires: what a selector requires of the variables that begin with a prefix.
func TestRequires(t *testing.T) {
	for _, row := range []struct {
		expr, prefix, want, why string
		limits                  selector.Limits
	}{
		{"deployment.id == 'a'", "deployment.", "deployment.id  [a]", "a variable", selector.Limits{}},
		{"deployment.id == 'a'", "resource.", "  []", "of no other entity", selector.Limits{}},
		{"deployment.metadata['t'] in ['b', 'a']", "deployment.", "deployment.metadata t [a b]", "a key, with its values sorted", selector.Limits{}},
		{"deployment.metadata['t'] == 'a' && resource.name.contains('x') && environment.name == 'b'", "environment.", "environment.name  [b]", "one of several, wherever it stands", selector.Limits{}},
		{"deployment.name == 'a' || deployment.name == 'b'", "deployment.", "deployment.name  [a b]", "either", selector.Limits{}},
		{"deployment.name == 'a' || resource.name == 'b'", "deployment.", "  []", "one of two variables is none for sure", selector.Limits{}},
		{"deployment.name == 'a' && deployment.name == 'b'", "deployment.", "deployment.name  []", "it never holds", selector.Limits{}},
		{"deployment.name != 'a' && 'x' in deployment.metadata", "deployment.", "  []", "a negation or a key with any value is no requirement", selector.Limits{}},
		{"deployment.id == 'a'", "deployment.", "deployment.id  [a]", "limits that promise more", selector.Limits{StringBytes: 1000, EstimatedCost: 20_000}},
		{"deployment.id == 'a'", "deployment.", "  []", "limits that promise less: a longer text might fail", selector.Limits{StringBytes: 255}},
		{"deployment.id == 'a'", "deployment.", "  []", "or a longer list", selector.Limits{ListItems: 63}},
	} {
		s, err := newEnv(t, row.limits).Compile(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
			continue
		}
		variable, key, values := s.Requires(row.prefix)
		if got := fmt.Sprint(variable, " ", key, " ", values); got != row.want {
			t.Errorf("%s, %s: got %s, want %s: %s", row.expr, row.prefix, got, row.want, row.why)
		}
		for k := range values {
			values[k] = "changed"
		}
		if _, _, again := s.Requires(row.prefix); slices.Contains(again, "changed") {
			t.Error("what Requires returns is not the caller's")
		}
	}
}

// TestRequiresWithoutTheKey: what Requires says of a key is about maps that have it.
func TestRequiresWithoutTheKey(t *testing.T) {
	s, err := newEnv(t, selector.Limits{}).Compile("resource.name == resource.kind && deployment.metadata['team'] == 'a'")
	if err != nil {
		t.Fatal(err)
	}
	if _, key, values := s.Requires("deployment."); key != "team" || !slices.Equal(values, []string{"a"}) {
		t.Fatal(key, values)
	}
	for _, row := range []struct {
		vars      hostVars
		want, why string
	}{
		{hostVars{"deployment.metadata": map[string]string{"team": "b"}}, "no", "another value decides"},
		{hostVars{"deployment.metadata": map[string]string{}}, "error", "no key and no name: the name stands first"},
		{hostVars{"deployment.metadata": map[string]string{}, "resource.name": "x", "resource.kind": "x"}, "missing", "no key alone"},
		{hostVars{"deployment.metadata": map[string]string{}, "resource.name": "x", "resource.kind": "y"}, "no", "the other side decides"},
	} {
		if kind, says := outcome(s.Match(row.vars)); kind != row.want {
			t.Errorf("%v: %s %s, want %s: %s", row.vars, kind, says, row.want, row.why)
		}
	}
}

// TestStringStaysWithinLimits: an expression that is longer when it is printed stands as it was
// written, so that it compiles again.
func TestStringStaysWithinLimits(t *testing.T) {
	for _, row := range []struct {
		limits    selector.Limits
		expr, out string
		why       string
	}{
		{selector.Limits{}, " resource.kind  ==  'a' ", `resource.kind == "a"`, "the canonical text has no more space than it needs"},
		{selector.Limits{}, "((resource.kind == 'a'))", `resource.kind == "a"`, "nor parentheses"},
		{selector.Limits{}, "(flag && flag) || (flag && !(flag || flag))", `flag && flag || flag && !(flag || flag)`, "but those that matter"},
		{selector.Limits{}, "(flag && flag) && ((flag && flag))", "flag && flag && flag && flag", "a chain is one, however it is grouped"},
		{selector.Limits{}, "// why\nflag\n", "flag", "comments are gone"},
		{selector.Limits{}, `resource.kind == r'\d"'`, `resource.kind == "\\d\""`, "a raw string is a string"},
		{selector.Limits{}, "tags.exists(x,x=='a')", `tags.exists(x, x == "a")`, "macros are printed, not what they expand to"},
		{selector.Limits{}, "has(resource.metadata.a)", "has(resource.metadata.a)", "macros are printed, not what they expand to"},
		{selector.Limits{}, "weight == -(10)", "weight == -(10)", "as -10 it would be a number, not one that is negated"},
		{selector.Limits{}, " bool(string(-(10)))", "bool(string(-(10)))", "with a number it would not even compile again"},
		{selector.Limits{}, "(flag && !flag) || ((flag || weight == -(1)))", "(flag && !flag) || ((flag || weight == -(1)))", "wherever it stands"},
		{selector.Limits{}, ".weight == -weight || (.resource.metadata.a == 'x')", `weight == -weight || resource.metadata.a == "x"`, "a dot in front, which may be left out"},
		{selector.Limits{TextBytes: 26}, `resource.kind==r'\\\\\\\'`, `resource.kind==r'\\\\\\\'`, "longer when printed than the limit"},
		{selector.Limits{TextBytes: 20}, "resource.kind=='a'", `resource.kind == "a"`, "exactly as long as the limit"},
		{selector.Limits{TextBytes: 20}, "resource.kind=='é'", `resource.kind=='é'`, "bytes count, not characters"},
		{selector.Limits{TextBytes: 19}, " resource.kind=='a'", `resource.kind=='a'`, "a byte longer than the limit"},
	} {
		env := newEnv(t, row.limits)
		s, err := env.Compile(row.expr)
		if err != nil {
			t.Errorf("%s: %v", row.expr, err)
			continue
		}
		if s.String() != row.out {
			t.Errorf("%s prints as %s, want %s: %s", row.expr, s, row.out, row.why)
		}
		if again, err := env.Compile(s.String()); err != nil || again.String() != s.String() {
			t.Errorf("%s: %v, %v", s, again, err)
		}
	}
}

func TestCompileErrorText(t *testing.T) {
	env := newEnv(t, selector.Limits{TextBytes: 1000})
	_, err := env.Compile("flag\n&& weight")
	if err == nil || !strings.HasPrefix(err.Error(), "selector: 2:4: ") {
		t.Error(err)
	}
	_, err = env.Compile(strings.Repeat("é", 501))
	if err == nil || err.Error() != "selector: 1:1: the expression has 1002 bytes, the limit is 1000 (compare with a list, as in x in ['a', 'b'], split the expression in two, or raise Limits.TextBytes)" {
		t.Error(err)
	}
	var fault *selector.CompileError
	if errors.As(err, &fault); fault.Expr != strings.Repeat("é", 100) || fault.Line != 1 || fault.Col != 1 {
		t.Errorf("%+v", fault)
	}
	_, err = env.Compile("a" + strings.Repeat("é", 500))
	if errors.As(err, &fault); fault.Expr != "a"+strings.Repeat("é", 99) {
		t.Errorf("a character is cut: %q", fault.Expr)
	}
	long := strings.Repeat("z", 900)
	for text, want := range map[string]string{
		strings.Repeat("é", 400):   "syntax error",
		"flag && " + long:          "z is not declared",
		"flag && resource." + long: "z is not declared",
		long + "()":                "there is no function z",
		long + "{}":                "z cannot be built here",
		"flag " + long:             "syntax error",
		"resource.kind.matches('" + strings.Repeat("(", 900) + "')":     "invalid regular expression",
		"flag == '" + strings.Repeat("é", 400):                          "syntax error",
		"timestamp('" + long + "') < timestamp('2026-01-01T00:00:00Z')": "invalid timestamp",
		"int('" + long + "') == weight":                                 "this has no value",
	} {
		_, err := env.Compile(text)
		if !errors.As(err, &fault) || len(fault.Msg) > 250 || !utf8.ValidString(fault.Msg) || !strings.Contains(fault.Msg, want) || len(err.Error()) > 1000 {
			t.Errorf("what is wrong is said in %d bytes, want %q in at most 250: %.60s", len(fault.Msg), want, err)
		}
	}
	_, err = env.Compile(strings.Repeat("=", 200))
	if errors.As(err, &fault); len(fault.Expr) != 200 {
		t.Errorf("200 bytes are cut to %d", len(fault.Expr))
	}
}

// TestQuotedTextIsRead: what internal/celtext writes, and with it every hint, term and label selector,
// compiles to the text that it was given; a byte that is not UTF-8 to U+FFFD.
func TestQuotedTextIsRead(t *testing.T) {
	env := newEnv(t, selector.Limits{TextBytes: 1 << 16})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.String(),
			rapid.StringOf(rapid.RuneFrom([]rune("'\"`\\?nrtxuU0\ufeff\ufffd\ufffe\uffff\u2028\U0010ffff"), unicode.Cc)),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), // rarely UTF-8
			rapid.Just("\xed\xa0\x80"), // a lone surrogate
		).Draw(t, "text")
		s, err := env.Compile("resource.id == " + celtext.Quote(text))
		if err != nil {
			t.Fatal(err)
		}
		read := string([]rune(text))
		for _, id := range []string{read, read + "x", "x" + read} {
			if ok, err := s.Match(hostVars{"resource.id": id}); err != nil || ok != (id == read) {
				t.Fatalf("%s of %q: %v, %v", s, id, ok, err)
			}
		}
		again, err := env.Compile(s.String()) // as it is printed
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := again.Match(hostVars{"resource.id": read}); !ok || err != nil {
			t.Fatalf("%s of %q: %v, %v", again, read, ok, err)
		}
	})
}
