package bracket

import (
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
