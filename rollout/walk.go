package rollout

import (
	"sort"

	"github.com/tranche-dev/tranche/bracket"
)

// seek returns the lowest index in [0, n] from which on before is false; before is true for a leading part of the indices. The cost grows with the
// logarithm of the distance to near: lists that are in the same order are gone through side by side, whether the one is sparse or dense.
func seek(n, near int, before func(int) bool) int {
	if near > 0 && !before(near-1) {
		return sort.Search(near-1, func(k int) bool { return !before(k) })
	}
	low, high := near, near
	for step := 1; high < n && before(high); step *= 2 {
		low = high + 1
		high += step
	}
	high = min(high, n)
	return low + sort.Search(high-low, func(k int) bool { return !before(low + k) })
}

// walk finds what there is on resources that are mostly asked for in ascending order.
type walk struct {
	*work
	bracket *bracketWork
	target  int // in the bracket's targets
	record  int // in its executions
}

// find returns a member's target, or none if it is gone.
func (s *walk) find(resource, deployment string) int32 {
	targets := s.bracket.targets
	s.target = seek(len(targets), s.target, func(k int) bool { return s.resources[s.targets[targets[k]].resource].ID < resource })
	for _, i := range targets[s.target:] {
		t := &s.targets[i]
		if s.resources[t.resource].ID != resource {
			break
		}
		if s.deployments[t.deployment].ID == deployment {
			return i
		}
	}
	return none
}

// open returns the execution that is open on a resource, or nil.
func (s *walk) open(resource string) *bracket.Execution {
	records := s.bracket.state.Executions
	s.record = seek(len(records), s.record, func(k int) bool { return records[k].Resource < resource })
	if s.record == len(records) || records[s.record].Resource != resource {
		return nil
	}
	return records[s.record].Open
}
