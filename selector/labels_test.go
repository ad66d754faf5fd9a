package selector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/selector"
)

func TestLabelsTable(t *testing.T) {
	req := func(key string, op selector.LabelOperator, values ...string) selector.LabelSelector {
		return selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: key, Operator: op, Values: values}}}
	}
	env := newEnv(t, selector.Limits{})
	many := []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "x"}
	for _, row := range []struct {
		l              selector.LabelSelector
		absent, x, y   bool // for labels without k, with k=x, with k=y
		printed, terms string
		why            string
	}{
		{selector.LabelSelector{}, true, true, true, "", "[]", "the empty selector matches everything"},
		{selector.LabelSelector{MatchLabels: map[string]string{"k": "x"}}, false, true, false, "k=x", "[labels['k'] in ['x']]", "present and equal"},
		{selector.LabelSelector{MatchLabels: map[string]string{"k": ""}}, false, false, false, "k=", "[labels['k'] in ['']]", "an empty value needs the key to be there"},
		{req("k", selector.In, "y", "x", "x"), false, true, true, "k in (x,y)", "[labels['k'] in ['x', 'y']]", "present and listed"},
		{req("k", selector.In, "x"), false, true, false, "k=x", "[labels['k'] in ['x']]", "a list of one is an equality"},
		{req("k", selector.In, many...), false, true, false, "k in (1,2,3,4,5,6,7,8,9,x)", "[labels['k'] in ['1', '2', '3', '4', '5', '6', '7', '8', '9', 'x']]", "a long list"},
		{req("k", selector.NotIn, "x"), true, false, true, "k!=x", "[]", "absent or not listed"},
		{req("k", selector.NotIn, "x", "z"), true, false, true, "k notin (x,z)", "[]", "absent or not listed"},
		{req("k", selector.NotIn, many...), true, false, true, "k notin (1,2,3,4,5,6,7,8,9,x)", "[]", "a long list"},
		{req("k", selector.Exists), false, true, true, "k", "['k' in labels]", "present"},
		{req("k", selector.DoesNotExist), true, false, false, "!k", "[]", "absent"},
		{selector.LabelSelector{MatchLabels: map[string]string{"k": "x"}, MatchExpressions: []selector.LabelRequirement{
			{Key: "k", Operator: selector.Exists}, {Key: "k", Operator: selector.NotIn, Values: []string{"z"}}, {Key: "k", Operator: selector.In, Values: []string{"x", "y"}}}},
			false, true, false, "k=x,k,k!=z,k in (x,y)", "[labels['k'] in ['x']]", "all parts are required"},
		{selector.LabelSelector{MatchLabels: map[string]string{"k": "x"}, MatchExpressions: []selector.LabelRequirement{
			{Key: "k", Operator: selector.In, Values: []string{"y"}}}},
			false, false, false, "k=x,k=y", "[labels['k'] in []]", "a contradiction"},
		{selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.Exists}, {Key: "k", Operator: selector.In, Values: []string{"y"}}}},
			false, false, true, "k,k=y", "[labels['k'] in ['y']]", "a value says more than that there is one"},
	} {
		plain, err := row.l.Compile()
		if err != nil {
			t.Errorf("%v: %v", row.l, err)
			continue
		}
		s, err := env.CompileLabels("resource.metadata", row.l)
		if err != nil {
			t.Errorf("%v: %v", row.l, err)
			continue
		}
		for _, c := range []struct {
			labels map[string]string
			want   bool
		}{{nil, row.absent}, {map[string]string{"other": "x"}, row.absent}, {map[string]string{"k": "x"}, row.x}, {map[string]string{"k": "y"}, row.y}} {
			if got := plain.Match(c.labels); got != c.want {
				t.Errorf("%v on %v: %v, want %v: %s", plain, c.labels, got, c.want, row.why)
			}
			if got, err := s.Match(hostVars{"resource.metadata": c.labels}); got != c.want || err != nil {
				t.Errorf("%v on %v: %v, %v, want %v: %s", s, c.labels, got, err, c.want, row.why)
			}
		}
		if plain.String() != row.printed {
			t.Errorf("prints as %q, want %q", plain, row.printed)
		}
		var terms []string
		for _, term := range plain.Terms() {
			terms = append(terms, term.String())
		}
		if got := "[" + strings.Join(terms, " ") + "]"; got != row.terms {
			t.Errorf("%v: terms %s, want %s", plain, got, row.terms)
		}
	}
}

func TestLabelsValidate(t *testing.T) {
	long := strings.Repeat("a", 64)
	l := selector.LabelSelector{
		MatchLabels: map[string]string{"a b": "x", "ok": "-x", "": "", "example.com/a": "ok", "Example.com/a": "", strings.Repeat("a", 254) + "/a": "", "a/b/c": "", "/a": "", "a/": "", "-a": "", "a..b/c": ""},
		MatchExpressions: []selector.LabelRequirement{
			{Key: "k", Operator: "in", Values: []string{"x"}},
			{Key: "k", Operator: selector.In},
			{Key: "k", Operator: selector.NotIn, Values: []string{}},
			{Key: "k", Operator: selector.Exists, Values: []string{"x"}},
			{Key: "k", Operator: selector.DoesNotExist, Values: []string{"x"}},
			{Key: long, Operator: selector.Exists},
			{Key: "k", Operator: selector.In, Values: []string{"ok", long, "é"}},
			{Key: "k"},
			{Key: strings.Repeat("a", 63), Operator: selector.In, Values: []string{strings.Repeat("a", 63), "", "a-b_c.d", "0"}},
			{Key: strings.Repeat("a", 253) + "/a_b", Operator: selector.Exists},
		},
	}
	err := l.Validate()
	if err == nil {
		t.Fatal("valid")
	}
	var paths []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		path, msg, ok := strings.Cut(line, ": ")
		if !ok || msg == "" {
			t.Errorf("%q has no path", line)
		}
		if len(path) > 60 {
			path = "long"
		}
		paths = append(paths, path)
	}
	want := []string{`matchLabels[""]`, `matchLabels["-a"]`, `matchLabels["/a"]`, `matchLabels["Example.com/a"]`, `matchLabels["a b"]`, `matchLabels["a..b/c"]`,
		`matchLabels["a/"]`, `matchLabels["a/b/c"]`, "long", `matchLabels["ok"]`,
		"matchExpressions[0].operator", "matchExpressions[1].values", "matchExpressions[2].values", "matchExpressions[3].values", "matchExpressions[4].values",
		"matchExpressions[5].key", "matchExpressions[6].values[1]", "matchExpressions[6].values[2]", "matchExpressions[7].operator"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
	for _, said := range []string{"a prefix of 254 characters, at most 253", "a name of 64 characters, at most 63", "the value has 64 characters, at most 63",
		"[0].operator: \"in\": must be In, NotIn, Exists or DoesNotExist\n", "[1].values: must not be empty for In\n", "[2].values: must not be empty for NotIn\n", "[3].values: must be empty for Exists\n", "[4].values: must be empty for DoesNotExist\n"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("no fault says %q", said)
		}
	}
	env := newEnv(t, selector.Limits{})
	_, plain := l.Compile()
	_, over := env.CompileLabels("resource.metadata", l)
	for name, err := range map[string]error{"Compile": plain, "CompileLabels": over} {
		all, joined := err.(interface{ Unwrap() []error })
		if !joined || len(all.Unwrap()) != len(want) || err.Error() != l.Validate().Error() {
			t.Errorf("%s returns %v, not the faults that Validate reports", name, err)
		}
	}
	for name, hint := range map[string]string{"resource.metdata": "did you mean resource.metadata?", "resource.kind": "name a variable of that type", "nothing": "name a variable of type map(string, string)"} {
		_, err := env.CompileLabels(name, selector.LabelSelector{})
		var fault *selector.CompileError
		if !errors.As(err, &fault) || fault.Hint != hint || !strings.Contains(fault.Msg, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The limits of expressions hold for label selectors over a schema, and not for those over
	// plain maps.
	big := selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.In}}}
	for i := range 1000 {
		big.MatchExpressions[0].Values = append(big.MatchExpressions[0].Values, strings.Repeat("a", 1+i%60)+string(rune('a'+i%26)))
	}
	if _, err := env.CompileLabels("resource.metadata", big); !errors.Is(err, selector.ErrLimit) {
		t.Error(err)
	}
	if _, err := big.Compile(); err != nil {
		t.Error(err)
	}
}

// TestLabelsAreImmutable: neither what they were made of nor what they return is theirs.
func TestLabelsAreImmutable(t *testing.T) {
	values := []string{"c", "b"}
	l := selector.LabelSelector{MatchLabels: map[string]string{"a": "x"}, MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.In, Values: values}}}
	labels := must(l.Compile())
	if values[0] != "c" {
		t.Errorf("the values were sorted in place: %v", values)
	}
	for _, term := range labels.Terms() {
		term.Values[0] = "changed"
	}
	values[1], l.MatchLabels["a"] = "changed", "changed"
	if !labels.Match(map[string]string{"a": "x", "k": "b"}) || labels.Match(map[string]string{"a": "x", "k": "changed"}) || labels.String() != "a=x,k in (b,c)" {
		t.Errorf("changed from outside: %v", labels)
	}
}

// TestTermsOfLabels: one term per key, ascending, wherever the conditions on it stand.
func TestTermsOfLabels(t *testing.T) {
	l := selector.LabelSelector{MatchLabels: map[string]string{"b": "x"}, MatchExpressions: []selector.LabelRequirement{
		{Key: "c", Operator: selector.Exists},
		{Key: "a", Operator: selector.In, Values: []string{"z", "y"}},
		{Key: "b", Operator: selector.In, Values: []string{"y", "x"}},
		{Key: "d", Operator: selector.NotIn, Values: []string{"x"}},
		{Key: "c", Operator: selector.In, Values: []string{"x"}},
	}}
	want := "[labels['a'] in ['y', 'z'] labels['b'] in ['x'] labels['c'] in ['x']]"
	if got := fmt.Sprint(must(l.Compile()).Terms()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestLabelsAreThoseOfKubernetes: keys and values are taken or refused as by the regular
// expressions of Kubernetes, for every byte in every place.
func TestLabelsAreThoseOfKubernetes(t *testing.T) {
	name := regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`)
	prefix := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	check := func(text string) {
		for _, row := range []struct {
			what  string
			l     selector.LabelSelector
			valid bool
		}{
			{"value", selector.LabelSelector{MatchLabels: map[string]string{"k": text}}, text == "" || name.MatchString(text)},
			{"listed value", selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.In, Values: []string{text}}}}, text == "" || name.MatchString(text)},
			{"name", selector.LabelSelector{MatchLabels: map[string]string{"example.com/" + text: ""}}, name.MatchString(text)},
			{"prefix", selector.LabelSelector{MatchLabels: map[string]string{text + "/k": ""}}, prefix.MatchString(text)},
		} {
			if err := row.l.Validate(); (err == nil) != row.valid {
				t.Errorf("%s %q: %v, want valid %v", row.what, text, err, row.valid)
			}
		}
	}
	check("")
	for c := range 256 {
		b := string([]byte{byte(c)})
		for _, text := range []string{b, b + "a", "a" + b, "a" + b + "a", "a" + b + b + "a", b + b} {
			if !strings.Contains(text, "/") { // which says where a prefix ends
				check(text)
			}
		}
	}
}

func TestLabelsJSON(t *testing.T) {
	const text = `{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"In","values":["d","e"]},{"key":"f","operator":"Exists"}]}`
	var l selector.LabelSelector
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatal(err)
	}
	back, err := json.Marshal(l)
	if err != nil || string(back) != text {
		t.Errorf("%s, %v", back, err)
	}
	if got := must(l.Compile()).String(); got != "a=b,c in (d,e),f" {
		t.Error(got)
	}
	type holder struct {
		Selector *selector.LabelSelector `json:"selector"`
	}
	for _, row := range []struct{ text, path, why string }{
		{`{"selector":{"matchLabel":{"a":"b"}}}`, "selector.matchLabel", "an unknown field"},
		{`{"selector":{"MatchLabels":{"a":"b"}}}`, "selector.MatchLabels", "another spelling"},
		{`{"selector":{"matchLabels":{"a":1}}}`, "selector.matchLabels.a", "a number where a string must be"},
		{`{"selector":{"matchLabels":{"a":"b","a":"c"}}}`, "selector.matchLabels.a", "a key given twice"},
		{`{"selector":{"matchExpressions":[{"key":"a","operator":"In","value":["b"]}]}}`, "selector.matchExpressions[0].value", "an unknown field below"},
		{`{"selector":[]}`, "selector", "no object"},
	} {
		var h holder
		err := strictjson.Unmarshal([]byte(row.text), &h)
		var fault *strictjson.Error
		if !errors.As(err, &fault) || fault.Path != row.path {
			t.Errorf("%s: %v, want a fault at %s: %s", row.text, err, row.path, row.why)
		}
		if err := json.Unmarshal([]byte(row.text), &h); err == nil {
			t.Errorf("%s: encoding/json alone lets it pass: %s", row.text, row.why)
		}
	}
	for _, text := range []string{`{}`, `{"selector":null}`} {
		var h holder
		if err := strictjson.Unmarshal([]byte(text), &h); err != nil || h.Selector != nil {
			t.Errorf("%s: %v, %v: an absent selector is not an empty one", text, h.Selector, err)
		}
	}
}

// TestLabelsWithoutMatchLabels: labels written as the selector itself are the usual mistake, and
// the message says where they belong. A misspelt field is no label, nor is anything in an
// expression.
func TestLabelsWithoutMatchLabels(t *testing.T) {
	for text, want := range map[string]string{
		`{"env":"prod"}`:              "env: unknown field: labels stand below matchLabels",
		`{"example.com/tier":"gold"}`: `["example.com/tier"]: unknown field: labels stand below matchLabels`,
		`{"matchLabel":{}}`:           `matchLabel: unknown field; did you mean "matchLabels"?`,
		`{"matchExpressions":[{"key":"a","operator":"Exists","env":"prod"}]}`: "matchExpressions[0].env: unknown field",
	} {
		if err := json.Unmarshal([]byte(text), new(selector.LabelSelector)); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// TestLabelsDecodedTwice: a selector that is decoded into a used one does not keep conditions of
// that, and after a fault it is the one that it was.
func TestLabelsDecodedTwice(t *testing.T) {
	used := func() selector.LabelSelector {
		return selector.LabelSelector{MatchLabels: map[string]string{"a": "b"}, MatchExpressions: []selector.LabelRequirement{{Key: "c", Operator: selector.Exists}}}
	}
	for _, row := range []struct {
		text, why string
		want      selector.LabelSelector
	}{
		{`{"matchLabels":{"d":"e"}}`, "labels are not added to those of before", selector.LabelSelector{MatchLabels: map[string]string{"d": "e"}}},
		{`{}`, "nothing is left", selector.LabelSelector{}},
		{`{"matchLabels":{"d":1}}`, "a fault changes nothing", used()},
	} {
		got := used()
		if err := json.Unmarshal([]byte(row.text), &got); (err != nil) != cmp.Equal(row.want, used()) || !cmp.Equal(got, row.want) {
			t.Errorf("%s: %s gives %+v, %v", row.why, row.text, got, err)
		}
	}
}

func FuzzLabelSelectorJSON(f *testing.F) {
	for _, text := range []string{`{}`, `null`, `[]`, `{"matchLabels":{"a":"b"}}`, `{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`, `{"matchLabels":{"a":"b"}} x`} {
		f.Add([]byte(text))
	}
	env := newEnv(f, selector.Limits{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var l selector.LabelSelector
		if json.Unmarshal(data, &l) != nil {
			return
		}
		valid := l.Validate()
		plain, err := l.Compile()
		if (err == nil) != (valid == nil) {
			t.Fatal(valid, err)
		}
		if err != nil {
			return
		}
		s, err := env.CompileLabels("resource.metadata", l)
		if err != nil {
			if !errors.Is(err, selector.ErrLimit) {
				t.Fatalf("%v: %v", plain, err)
			}
			return
		}
		for _, labels := range []map[string]string{nil, {"a": "b"}, {"a": "c"}, l.MatchLabels} {
			want := plain.Match(labels)
			if got, err := s.Match(hostVars{"resource.metadata": labels}); got != want || err != nil {
				t.Fatalf("%v on %v: %v, %v, want %v", plain, labels, got, err, want)
			}
		}
	})
}
