package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// Commit returns the state that follows when starts of the plan, all of them or any subset in any
// order, are carried out at now. In that state bracket runs are marked as started and slots are
// claimed. The host saves it, on condition that what it read has not changed, and only then
// dispatches.
//
// Each call begins with the plan's own state, which it does not modify, so pass all starts that are
// carried out to one call. Without starts, Commit returns that state as it is, whatever now is.
//
// The plan must be the one that [PolicySet.Plan] returned: for starts of a decoded copy the error
// is [ErrDecodedPlan]. Starts are identified by their run ids; for one that the plan does not hold
// the error is [bracket.ErrStale]. A now that is zero, or beyond 2262, is a *[FieldError].
func (p *Plan) Commit(starts []Start, now time.Time) (State, error) {
	next := p.State
	if len(starts) == 0 {
		return next, nil
	}
	if p.work == nil {
		return State{}, ErrDecodedPlan
	}
	if err := validateNow(now); err != nil { // a lease taken at a zero one would be the oldest of all
		return State{}, err
	}
	offered := make(map[string]*Start, len(p.Start))
	for i := range p.Start {
		offered[p.Start[i].Run] = &p.Start[i]
	}
	runs := map[string]bool{}
	for _, start := range starts {
		if offered[start.Run] == nil {
			return State{}, stale("the plan offers no start with the run id %q", start.Run)
		}
		runs[start.Run] = true
	}
	var err error
	if next.Brackets, next.Executions, err = p.commitBrackets(runs, now); err != nil {
		return State{}, err
	}
	if next.Pools, err = p.claim(runs, now); err != nil {
		return State{}, err
	}
	return next, nil
}

// distinctStarts returns the starts in their order, each run once: Commit takes them for a set too.
// The list is the host's, and is left as it is.
func distinctStarts(starts []Start) []Start {
	seen := make(map[string]bool, len(starts))
	return slices.DeleteFunc(slices.Clone(starts), func(start Start) bool {
		before := seen[start.Run]
		seen[start.Run] = true
		return before
	})
}

// staleError is [bracket.ErrStale] about a start that need not be of a bracket: a host looks for one
// sentinel, but the text of that one speaks of brackets.
type staleError string

func stale(format string, about ...any) error {
	return staleError("rollout: " + fmt.Sprintf(format, about...))
}

func (e staleError) Error() string { return string(e) }
func (e staleError) Unwrap() error { return bracket.ErrStale }

func (p *Plan) commitBrackets(runs map[string]bool, now time.Time) ([]*bracket.GroupRecord, []*bracket.ExecutionRecord, error) {
	groups := slices.Clone(p.State.Brackets)
	places := make(map[*bracket.GroupRecord]int, len(groups))
	for k, record := range groups {
		places[record] = k
	}
	records := slices.SortedFunc(slices.Values(p.State.Executions), compareExecutions)
	var changed []*bracket.ExecutionRecord
	for _, b := range p.work.stepped {
		own := runsIn(runs, b.plan.Start)
		if len(own) == 0 {
			continue
		}
		// A rule may have as many environments as records: each gets only those that it changes.
		state := b.state
		state.Executions = recordsOf(records, b.id, own)
		next, err := b.plan.Commit(state, own, now)
		if err != nil {
			return nil, nil, err
		}
		changed = append(changed, next.Executions...)
		if k, stored := places[b.state.Group]; stored {
			groups[k] = next.Group
		}
	}
	slices.SortFunc(changed, compareExecutions)
	return groups, withExecutions(records, changed), nil
}

// recordsOf returns the records of a rule on the resources of some runs, in order of the resources.
func recordsOf(records []*bracket.ExecutionRecord, rule string, runs []bracket.Run) (own []*bracket.ExecutionRecord) {
	for _, run := range runs {
		at := &bracket.ExecutionRecord{Rule: rule, Resource: run.Resource}
		if k, known := slices.BinarySearchFunc(records, at, compareExecutions); known {
			own = append(own, records[k])
		}
	}
	slices.SortFunc(own, compareExecutions)
	return slices.Compact(own)
}

// runsIn returns those runs of a bracket's starts whose ids are in a set.
func runsIn(set map[string]bool, lists ...[]bracket.Start) []bracket.Run {
	var own []bracket.Run
	for _, list := range lists {
		for k := range list {
			if run := list[k].Run; set[run.String()] {
				own = append(own, run)
			}
		}
	}
	return own
}
