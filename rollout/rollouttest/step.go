package rollouttest

import (
	"errors"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// Step is one planning as its host sees it, for [Step.Check] in a host's own tests.
type Step struct {
	// Snapshot is what was observed before the plan. Of its State only the executions are looked at that were open then: a start may have been saved, and not been
	// dispatched. A host whose State is in a store can leave it out.
	Snapshot rollout.Snapshot

	// Plan is the plan, with the State that was saved for its starts.
	Plan rollout.Plan

	// Dispatched are the starts of earlier plans that were carried out, by run id.
	Dispatched map[string]rollout.Start

	// Lagging says that the observation may be older than the state. Then a job that the snapshot shows in progress may have ended, and the state is
	// believed. Another planner may also have stopped after it saved the end of an execution in the group's record, and before it saved that in the
	// execution's own. Then the group may be gone, and what it had locked is not checked.
	Lagging bool

	targets map[rollout.TargetID]int // in Snapshot.Targets; nil: look for them
}

// Check returns every broken invariant as a joined list of [*Violation], or nil.
func (s Step) Check() error {
	s.targets = make(map[rollout.TargetID]int, len(s.Snapshot.Targets))
	for k := range s.Snapshot.Targets {
		s.targets[s.Snapshot.Targets[k].TargetID] = k
	}
	var broken []error
	for _, invariant := range Invariants() {
		if err := invariant.Check(s); err != nil {
			broken = append(broken, &Violation{Invariant: invariant.Name, At: s.Plan.Now, Err: err})
		}
	}
	return errors.Join(broken...)
}

// target returns a target of the snapshot, or nil.
func (s *Step) target(id rollout.TargetID) *rollout.Target {
	k, known := s.targets[id]
	if s.targets == nil {
		k = slices.IndexFunc(s.Snapshot.Targets, func(t rollout.Target) bool { return t.TargetID == id })
		known = k >= 0
	}
	if !known {
		return nil
	}
	return &s.Snapshot.Targets[k]
}

// gone are the resources that are proved deleted: targets that are still listed on them are nobody's any more.
func (s *Step) gone() map[string]bool {
	gone := make(map[string]bool, len(s.Snapshot.DeletedResources))
	for _, id := range s.Snapshot.DeletedResources {
		gone[id] = true
	}
	return gone
}

// current is the version that a target runs, and "" if it runs none.
func current(t *rollout.Target) string {
	if t.Current != "" {
		return t.Current
	}
	var newest *rollout.Job
	for k := range t.Jobs {
		if job := &t.Jobs[k]; job.Status == rollout.JobSuccessful && (newest == nil || !job.CreatedAt.Before(newest.CreatedAt)) {
			newest = job
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Version
}

// execution returns the open execution that a start belongs to, or nil, and the closed group, or nil.
func (s *Step) execution(resource, group string) (*bracket.Execution, *bracket.Group) {
	return openIn(s.Plan.State, resource, group), s.group(group)
}

// openIn returns the open execution of a group on a resource, or nil.
func openIn(state rollout.State, resource, group string) *bracket.Execution {
	for _, record := range state.Executions {
		if record.Resource == resource && record.Open != nil && record.Open.Group == group {
			return record.Open
		}
	}
	return nil
}

// begun reports whether a start goes on with an open execution that was begun before, in the version that was frozen then. What has begun is finished with that
// version also when it is deleted meanwhile; an execution that only begins leaves such a version out.
func (s *Step) begun(start rollout.Start) bool {
	execution, _ := s.execution(start.Resource, start.Group)
	if execution == nil {
		return false
	}
	m := memberOf(execution, start.Deployment)
	if m == nil || m.Version != start.Version {
		return false
	}
	for _, earlier := range s.Dispatched {
		if earlier.Resource == start.Resource && earlier.Group == start.Group {
			return true
		}
	}
	return openIn(s.Snapshot.State, start.Resource, start.Group) != nil
}

func (s *Step) group(id string) *bracket.Group {
	for _, record := range s.Plan.State.Brackets {
		for _, g := range record.Closed {
			if g.ID == id {
				return g
			}
		}
	}
	return nil
}

func memberOf(e *bracket.Execution, deployment string) *bracket.ExecutionMember {
	for k := range e.Members {
		if e.Members[k].Deployment == deployment {
			return &e.Members[k]
		}
	}
	return nil
}
