package rollout

import (
	"slices"
	"sort"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
)

// walk finds targets and executions on resources that are mostly asked for in ascending order.
type walk struct {
	*work
	bracket *bracketWork
	target  int // in the bracket's targets
	record  int // in its executions
}

// find returns a member's target, or none if it is gone. Those of a bracket ascend by resource and
// deployment.
func (s *walk) find(resource, deployment string) int32 {
	targets := s.bracket.targets
	compare := func(k int) int {
		t := &s.targets[targets[k]]
		if c := strings.Compare(s.resources[t.resource].ID, resource); c != 0 {
			return c
		}
		return strings.Compare(s.deployments[t.deployment].ID, deployment)
	}
	s.target = seek(len(targets), s.target, func(k int) bool { return compare(k) < 0 })
	if s.target < len(targets) && compare(s.target) == 0 {
		return targets[s.target]
	}
	return none
}

// open returns the execution that is open on a resource, or nil.
func (s *walk) open(resource string) *bracket.Execution {
	records := s.bracket.state.Executions
	found := func() bool { return s.record < len(records) && records[s.record].Resource == resource }
	if !found() {
		s.record = seek(len(records), s.record, func(k int) bool { return records[k].Resource < resource })
		if !found() {
			return nil
		}
	}
	return records[s.record].Open
}

// opened is an open execution, with what the snapshot holds of it.
type opened struct {
	record                *bracket.ExecutionRecord
	environment, resource int32 // none: the snapshot does not hold it
	from, to              int32 // the targets of the resource in the environment, half-open; the execution may have only some of them as members
}

// eachOpen yields the open executions of a list that is mostly in the order of resources. Unless
// only is empty, it yields those in that environment alone.
func (w *work) eachOpen(executions []*bracket.ExecutionRecord, only string, yield func(opened)) {
	before := w.opened // mostly the same executions
	w.opened = make([]opened, 0, len(before))
	var o opened
	resource, at := 0, 0
	for _, record := range executions {
		x := record.Open
		if x == nil || only != "" && x.Environment != only {
			continue
		}
		for len(before) > 0 && before[0].record != record && before[0].record.Resource < record.Resource {
			before = before[1:]
		}
		switch {
		case len(before) > 0 && before[0].record == record:
			o = before[0]
		case len(before) > 0 && before[0].record.Resource == record.Resource && before[0].record.Open.Environment == x.Environment:
			o = before[0]
			o.record = record
		default:
			o = w.whereOpen(record, resource, at)
		}
		if o.resource != none {
			resource = int(o.resource)
		}
		if o.from < o.to {
			at = int(o.from)
		}
		w.opened = push(w.opened, o)
		yield(o)
	}
}

// whereOpen finds an open execution in the snapshot. The search begins at a resource and a target
// that are mostly near.
func (w *work) whereOpen(record *bracket.ExecutionRecord, nearResource, nearTarget int) opened {
	o := opened{record: record, environment: none, resource: none}
	if e, known := w.environment(record.Open.Environment); known {
		o.environment = e
	}
	r := seek(len(w.resources), nearResource, func(k int) bool { return w.resources[k].ID < record.Resource })
	if r < len(w.resources) && w.resources[r].ID == record.Resource {
		o.resource = int32(r)
	}
	if o.environment != none && o.resource != none {
		o.from, o.to = w.siblingsNear(nearTarget, o.environment, o.resource)
	}
	return o
}

// member returns the member of the execution that a target is of, or nil.
func (w *work) member(o opened, i int32) *bracket.ExecutionMember {
	return memberIn(o.record.Open, w.deployments[w.targets[i].deployment].ID)
}

// groupMember returns the member of a closed group that is of a deployment, or nil. They ascend.
func groupMember(g *bracket.Group, deployment string) *bracket.GroupMember {
	k, found := sort.Find(len(g.Members), func(k int) int { return strings.Compare(deployment, g.Members[k].Deployment) })
	if !found {
		return nil
	}
	return &g.Members[k]
}

// locks reports whether a group has locked a version for a member; a nil member has no locks.
func locks(m *bracket.GroupMember, version string) bool {
	return m != nil && slices.ContainsFunc(m.Locks, func(v bracket.VersionMark) bool { return v.ID == version })
}

// memberIn returns the member of an execution that is of a deployment, or nil. They ascend.
func memberIn(x *bracket.Execution, deployment string) *bracket.ExecutionMember {
	if len(x.Members) > fewDistinct {
		k, found := sort.Find(len(x.Members), func(k int) int { return strings.Compare(deployment, x.Members[k].Deployment) })
		if !found {
			return nil
		}
		return &x.Members[k]
	}
	for k := range x.Members { // a member is large: this loop copies none
		if m := &x.Members[k]; m.Deployment == deployment {
			return m
		}
	}
	return nil
}
