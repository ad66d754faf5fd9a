package rollout

import (
	"fmt"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// State is what plans remember between calls: a plain value that goes into a plan and comes out of
// it. The simplest host stores it as a whole, as JSON under one revision; see the example. Where it
// is too large for that, [Planner] stores it record by record, in the order that the documentation
// of package tranche gives. Its records are immutable: a new State shares those that did not
// change.
//
// The record of the executions on a resource outlives the resource: see [State.Forget].
type State struct {
	Brackets   []*bracket.GroupRecord     `json:"brackets,omitempty"`   // ordered by rule and environment
	Executions []*bracket.ExecutionRecord `json:"executions,omitempty"` // ordered by rule and resource
	Rollouts   []RolloutRecord            `json:"rollouts,omitempty"`   // ordered by rule, environment, deployment, version and group
	Pools      []concurrency.Record       `json:"pools,omitempty"`      // ordered by key
}

// IsZero reports whether the state holds nothing, as before the first plan. encoding/json consults
// it: the state is left out of a snapshot whether its lists are nil or empty.
func (s State) IsZero() bool {
	return len(s.Brackets)+len(s.Executions)+len(s.Rollouts)+len(s.Pools) == 0
}

// UnmarshalJSON decodes a state strictly, since a field of another release that is dropped here is
// lost with the next save: unknown fields, fields given twice, values of the wrong type and records
// that package bracket would misread are errors, all of them reported, joined, each a
// *[FieldError]. The state is then unchanged. [PolicySet.Plan] checks the rest.
func (s *State) UnmarshalJSON(data []byte) error {
	type plain State
	if err := strictjson.Unmarshal(data, (*plain)(s)); err != nil {
		return fieldErrors(err)
	}
	sharing := newSharing()
	for _, record := range s.Pools {
		sharing.pool(record)
	}
	for _, record := range s.Brackets {
		if record != nil {
			sharing.group(record)
		}
	}
	for _, record := range s.Executions {
		if record != nil {
			sharing.execution(record)
		}
	}
	return nil
}

// validate reports what no plan has left: null entries, two records of one thing, of which one
// would be overlooked, and records of rollouts from which no position follows. Packages bracket and
// concurrency check what is inside their records.
func (s *State) validate(f *faults) {
	for i, record := range s.Brackets {
		if record == nil {
			f.add(fmt.Sprintf("state.brackets[%d]", i), CodeRequired, nil, "must not be null")
			return // a null entry cannot be compared
		}
	}
	for i, record := range s.Executions {
		if record == nil {
			f.add(fmt.Sprintf("state.executions[%d]", i), CodeRequired, nil, "must not be null")
			return
		}
	}
	distinct(f, "state.brackets", s.Brackets, compareGroups, func(r *bracket.GroupRecord) string { return fmt.Sprintf("rule %q in %q", r.Rule, r.Environment) })
	distinct(f, "state.executions", s.Executions, compareExecutions, func(r *bracket.ExecutionRecord) string { return fmt.Sprintf("rule %q on %q", r.Rule, r.Resource) })
	distinct(f, "state.pools", s.Pools, comparePools, func(r concurrency.Record) string { return fmt.Sprintf("pool %q", r.Key) })
	distinct(f, "state.rollouts", s.Rollouts, compareRollouts, RolloutRecordKey)
	for i := range s.Rollouts {
		f.under(fmt.Sprintf("state.rollouts[%d]", i), s.Rollouts[i].validate())
	}
}

// distinct reports records of a list that describe the same thing.
func distinct[T any](f *faults, path string, list []T, compare func(a, b T) int, name func(T) string) {
	if !slices.IsSortedFunc(list, compare) {
		list = slices.SortedFunc(slices.Values(list), compare)
	}
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) == 0 {
			f.add(path, CodeDuplicate, nil, "two records of %s: keep the one that was saved last", name(list[i]))
		}
	}
}

// UnmarshalJSON decodes a record as strictly as a [State] is decoded.
func (r *RolloutRecord) UnmarshalJSON(data []byte) error {
	type plain RolloutRecord
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(r)))
}

// validate refuses a record that no planner wrote: wrong positions would follow from it unnoticed.
func (r RolloutRecord) validate() error {
	var f faults
	if r.Schema != 1 {
		f.add("schema", CodeUnknownValue, r.Schema, "must be 1: written by another release of the library")
		return f.err()
	}
	f.created("startAt", r.StartAt, "positions are counted from it")
	if r.Founders < 1 {
		f.add("n0", CodeOutOfRange, r.Founders, "must be at least 1")
	}
	return f.err()
}
