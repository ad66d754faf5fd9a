package strictjson_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// TestSalvage: what has a fault is left out, and nothing else is; the faults are those of
// Unmarshal.
func TestSalvage(t *testing.T) {
	for _, row := range []struct {
		why, in string
		want    rule
		filled  bool
	}{
		{"no fault", `{"share":1}`, rule{Share: 1}, true},
		{"a value of the wrong type", `{"share":"x","limitValue":2}`, rule{Limit: 2}, true},
		{"an unknown field, whatever it holds", `{"shares":{"share":2},"limitValue":2}`, rule{Limit: 2}, true},
		{"of two values the first counts", `{"share":1,"share":2,"limitValue":2,"limitValue":"x"}`, rule{Share: 1, Limit: 2}, true},
		{"an entry keeps its place, and is an empty one", `{"parts":[5,{"name":"b"},null,{"name":1}]}`, rule{Parts: []part{{}, {Name: "b"}, {}, {}}}, true},
		{"so does a scalar", `{"pair":["x",2]}`, rule{Pair: [2]int{0, 2}}, true},
		{"a list of the wrong length is none", `{"pair":[1],"share":1}`, rule{Share: 1}, true},
		{"what should be an object is there", `{"next":5,"share":1}`, rule{Next: &rule{}, Share: 1}, true},
		{"an instant is no object, though it is a struct", `{"at":"today","share":1}`, rule{Share: 1}, true},
		{"a text that its type refuses", `{"colour":"blue","share":1}`, rule{Share: 1}, true},
		{"the name of a field of letters with an escape is that of the field", `{"sh\u0061re":1,"limitValue":"x"}`, rule{Share: 1}, true},
		{"the document is none", `[]`, rule{}, true},
		{"not JSON", `{"share":1`, rule{}, false},
		{"inside a map nothing is left out", `{"labels":{"a":1},"share":1}`, rule{}, false},
		{"of two entries of a map the last one counts, and the fault is told all the same", `{"labels":{"a":"x","a":"y"},"share":1}`, rule{Labels: map[string]string{"a": "y"}, Share: 1}, true},
		{"nor in a type that does not decode by its own fields", `{"nested":{"share":"x"},"share":1}`, rule{Nested: &nested{}, Share: 1}, true},
	} {
		var got, strict rule
		filled, err := strictjson.Salvage([]byte(row.in), &got)
		if want := strictjson.Unmarshal([]byte(row.in), &strict); (err == nil) != (want == nil) || err != nil && err.Error() != want.Error() {
			t.Errorf("%s: %v, Unmarshal says %v", row.why, err, want)
		}
		if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty(), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" || filled != row.filled {
			t.Errorf("%s: filled %v (- want, + got):\n%s", row.why, filled, diff)
		}
	}
	if filled, err := strictjson.Salvage([]byte(`{}`), rule{}); filled || err == nil || !strings.Contains(err.Error(), "pointer") {
		t.Errorf("into no pointer: %v %v", filled, err)
	}
}
