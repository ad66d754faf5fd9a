package bracket

import (
	"math"
	"slices"
	"testing"
)

// Changed compares records by identity, wherever others have come between them or are gone.
func TestChanged(t *testing.T) {
	record := func(resource string) *ExecutionRecord { return &ExecutionRecord{Resource: resource} }
	a, b, c, d := record("a"), record("b"), record("c"), record("d")
	for _, row := range []struct {
		why        string
		since, now []*ExecutionRecord
		want       []*ExecutionRecord
	}{
		{"nothing", []*ExecutionRecord{a, b, c}, []*ExecutionRecord{a, b, c}, nil},
		{"the first ones", nil, []*ExecutionRecord{a, b}, []*ExecutionRecord{a, b}},
		{"one comes between two that stay", []*ExecutionRecord{a, c, d}, []*ExecutionRecord{a, b, c, d}, []*ExecutionRecord{b}},
		{"one is replaced", []*ExecutionRecord{a, record("b"), c}, []*ExecutionRecord{a, b, c}, []*ExecutionRecord{b}},
		{"one is gone before one that stays", []*ExecutionRecord{a, b, c}, []*ExecutionRecord{a, c}, nil},
		{"the last one is new", []*ExecutionRecord{a}, []*ExecutionRecord{a, d}, []*ExecutionRecord{d}},
	} {
		g := &GroupRecord{}
		group, got := State{Group: g, Executions: row.now}.Changed(State{Group: g, Executions: row.since})
		if group != nil || !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, %v", row.why, group, got)
		}
	}
	g := &GroupRecord{}
	if group, _ := (State{Group: g}).Changed(State{}); group != g {
		t.Error("a group record that was not there before is not to be saved")
	}
}

func TestParseGroupID(t *testing.T) {
	for _, row := range []struct {
		why, id, rule, environment string
		number                     int
	}{
		{"a group", "nodes/prod/7", "nodes", "prod", 7},
		{"names hold what joins them", "a%2Fb/100%25/1", "a/b", "100%", 1},
		{"without an environment", "nodes//2", "nodes", "", 2},
		{"before the first", "nodes/prod/0", "nodes", "prod", 0},
		{"one number has one text", "nodes/prod/01", "", "", 0},
		{"also without a sign", "nodes/prod/+1", "", "", 0},
		{"a number is needed", "nodes/prod/", "", "", 0},
		{"and digits alone", "nodes/prod/1x", "", "", 0},
		{"the greatest", "nodes/prod/2147483647", "nodes", "prod", math.MaxInt32},
		{"none is greater, also where an int has 64 bits", "nodes/prod/2147483648", "", "", 0},
		{"none is negative", "nodes/prod/-1", "", "", 0},
		{"two parts", "nodes/7", "", "", 0},
		{"four parts, as in a run id", "nodes/prod/7/node-1", "", "", 0},
		{"an escape that was never written", "n%6Fdes/prod/7", "", "", 0},
		{"nothing", "", "", "", 0},
	} {
		rule, environment, number, ok := ParseGroupID(row.id)
		if rule != row.rule || environment != row.environment || number != row.number || ok != (row.rule != "") {
			t.Errorf("%s: %q: got %q, %q, %d, %v", row.why, row.id, rule, environment, number, ok)
		}
		if ok && GroupID(rule, environment, number) != row.id {
			t.Errorf("%s: %q becomes %q", row.why, row.id, GroupID(rule, environment, number))
		}
	}
}
