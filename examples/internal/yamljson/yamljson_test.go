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
		{"limit: 20%\n", `{"limit":"20%"}`, "a percent is text"},
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
		{"", "empty", "nothing"},
		{"a: 1\na: 2\n", "already defined", "a repeated key would lose one value"},
		{"a: 1\n---\nb: 2\n", "one document", "a second document would be lost"},
		{"1: x\n", "not a string", "a number as key"},
		{"a: .nan\n", "not a number in JSON", "not a number"},
		{strings.Repeat("<", 200) + ": 1\n", "too long", "a key that has more bytes in JSON than YAML reads: it would not be read again"},
		{"a: [", "line", "broken text, with its line"},
	} {
		got, err := yamljson.Convert([]byte(row.in))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: Convert(%q) = %s, %v, want an error about %q", row.why, row.in, got, err, row.want)
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
