package yamljson_test

import (
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/yamljson"
)

func TestConvert(t *testing.T) {
	for _, row := range []struct{ in, want, why string }{
		{"a: 1\nb: [x, '2']\n", `{"a":1,"b":["x","2"]}`, "block and flow"},
		{`{"a": 9007199254740993, "b": null}`, `{"a":9007199254740993,"b":null}`, "JSON is YAML, digits are kept"},
		{"at: 2026-03-10T09:00:00Z\n", `{"at":"2026-03-10T09:00:00Z"}`, "a timestamp stays RFC 3339"},
		{"from: 2026-12-20\nto: 2026-12-20 08:00:00\n", `{"from":"2026-12-20","to":"2026-12-20 08:00:00"}`, "a date without a zone becomes no instant of UTC"},
		{"at: 2026-03-10T09:00:00+01:00\n", `{"at":"2026-03-10T09:00:00+01:00"}`, "an offset stays as it is"},
		{"a: &d 2026-12-20\nb: *d\n", `{"a":"2026-12-20","b":"2026-12-20"}`, "an alias of a date, too"},
		{"limit: 20%\n", `{"limit":"20%"}`, "a percent is text"},
		{"{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2]\n}\n", `{"a":1,"b":[2]}`, "JSON may be indented with tabs"},
		{"a: &x b\n*x : 1\n", `{"a":"b","b":1}`, "an alias as key"},
		{"base: &b {x: 1}\nuse:\n  <<: *b\n  y: 2\n", `{"base":{"x":1},"use":{"x":1,"y":2}}`, "anchors and merge keys"},
	} {
		got, err := yamljson.Convert([]byte(row.in))
		if err != nil || string(got) != row.want {
			t.Errorf("%s: Convert(%q) = %s, %v, want %s", row.why, row.in, got, err, row.want)
		}
	}
}

func TestConvertRefuses(t *testing.T) {
	for _, row := range []struct{ in, want, why string }{
		{"", "yaml: the document is empty", "nothing"},
		{"a: 1\na: 2\n", "a: yaml: line 2: is given in line 1 already: keep one of them", "a repeated key would lose one value"},
		{"a:\n  - b: {c: 1,\n    c: 2}\n", "a[0].b.c: yaml: line 3: is given in line 2 already: keep one of them", "… wherever it is"},
		{"a: 1\na: 2\nb: {1: x}\nc: [.inf]\n", "a: yaml: line 2: is given in line 1 already: keep one of them\nb: yaml: line 3: the key 1 is not a string: write it in quotes\n" +
			"c[0]: yaml: line 4: .inf is not a number in JSON: write one, or leave it out", "all faults at once"},
		{"a: 1\n---\nb: 2\n", "yaml: one document is expected: remove what follows the second ---", "a second document would be lost"},
		{"1: x\n", "yaml: line 1: the key 1 is not a string: write it in quotes", "a number as key"},
		{"x/y: {yes: 1, true: 2}\n", `["x/y"]: yaml: line 1: the key true is not a string: write it in quotes`, "a truth as key"},
		{"? [a]\n: 1\n", "yaml: line 1: a key must be a string", "a list as key"},
		{"a: &x {1: y}\nb: *x\n", "a: yaml: line 1: the key 1 is not a string: write it in quotes", "what an alias stands for is told once"},
		{"a: .nan\n", "a: yaml: line 1: .nan is not a number in JSON: write one, or leave it out", "not a number"},
		{"a: !!int x\n", "yaml: cannot decode !!str `x` as a !!int", "what the decoder of YAML finds"},
		{"a: &x [*x]\n", "yaml: anchor 'x' value contains itself", "an alias cycle"},
		{strings.Repeat("<", 200) + ": 1\n", `yaml: line 1: the key "` + strings.Repeat("<", 40) + `"… is too long: use at most 1000 bytes`, "a key that has more bytes in JSON than YAML reads: it would not be read again"},
		{"a: [", "yaml: line 1: did not find expected node content", "broken text, with its line"},
		{"a:\n\tb: 1\n", "yaml: line 2: found character that cannot start any token: indent with blanks instead of tabs", "a tab, with what to do about it"},
	} {
		got, err := yamljson.Convert([]byte(row.in))
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: Convert(%q) = %s, %v, want %s", row.why, row.in, got, err, row.want)
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add([]byte("a: {b: [1, 2.5, true, ~]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := yamljson.Convert(data)
		if err != nil {
			return
		}
		if _, err := yamljson.Convert(got); err != nil {
			t.Fatalf("Convert(%q) = %s, which is not accepted again: %v", data, got, err)
		}
	})
}
