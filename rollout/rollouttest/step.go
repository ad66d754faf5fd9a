package rollouttest

import (
	"cmp"
	"errors"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/runid"
	"github.com/tranche-dev/tranche/rollout"
)

// Step is one planning as its host sees it, for [Step.Check] in a host's own tests.
type Step struct {
	// Snapshot is what was observed before the plan. Of its State only the open executions are
	// used: a start may have been saved, and not been dispatched. A host whose State is in a store
	// can leave it out. Its Commands tell which jobs an operator has dismissed: keep a command as
	// long as a job that it was about is in progress. Its Freezes are those that the plan was made
	// with.
	Snapshot rollout.Snapshot

	// Plan is the plan, with the State that was saved for its starts. If a Planner with Choose made
	// it and left starts out, their targets are in none of its lists: then check the [Invariants] one
	// by one, without "complete".
	Plan rollout.Plan

	// Dispatched are the starts of earlier plans that were carried out, by run id.
	Dispatched map[string]rollout.Start

	// Lagging says that the observation may be older than the state. Then a job that the snapshot
	// shows in progress may have ended, and the state is trusted. Another planner may also have
	// stopped after it saved the end of an execution in the group's record, and before it saved
	// that in the record of the execution. Then the group may be gone, and its locks are not
	// checked.
	Lagging bool

	index *index // what the checks look up; nil until the first one does
}

// index finds what a snapshot and a plan hold.
type index struct {
	targets    map[rollout.TargetID]int         // in Snapshot.Targets
	executions map[[2]string]*bracket.Execution // open in Plan.State, by resource and group
	groups     map[string]*bracket.Group        // closed in Plan.State
	waiting    []rollout.Waiting
}

func newIndex(plan *rollout.Plan, targets map[rollout.TargetID]int) *index {
	x := &index{targets: targets, executions: map[[2]string]*bracket.Execution{}, groups: map[string]*bracket.Group{}, waiting: waitingOf(plan)}
	for _, record := range plan.State.Executions {
		if record.Open != nil {
			x.executions[[2]string{record.Resource, record.Open.Group}] = record.Open
		}
	}
	for _, record := range plan.State.Brackets {
		for _, g := range record.Closed {
			x.groups[g.ID] = g
		}
	}
	return x
}

// places returns the index of each target in a list.
func places(targets []rollout.Target) map[rollout.TargetID]int {
	places := make(map[rollout.TargetID]int, len(targets))
	for k := range targets {
		places[targets[k].TargetID] = k
	}
	return places
}

// indexed returns the index, which is made once for all checks of a step.
func (s *Step) indexed() *index {
	if s.index == nil {
		s.index = newIndex(&s.Plan, places(s.Snapshot.Targets))
	}
	return s.index
}

// Check returns every broken invariant as a joined list of [*Violation], or nil.
func (s Step) Check() error {
	s.indexed()
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
	k, known := s.indexed().targets[id]
	if !known {
		return nil
	}
	return &s.Snapshot.Targets[k]
}

// deletedIn returns the resources that are listed as deleted: targets that are still listed on them
// do not count.
func deletedIn(s *rollout.Snapshot) map[string]bool {
	gone := make(map[string]bool, len(s.DeletedResources))
	for _, id := range s.DeletedResources {
		gone[id] = true
	}
	return gone
}

// current returns the version that a target runs, or "" if it runs none.
func current(t *rollout.Target) string {
	if t.Current != "" {
		return t.Current
	}
	var newest *rollout.Job
	for k := range t.Jobs {
		if job := &t.Jobs[k]; job.Status == rollout.JobSuccessful && (newest == nil || compareJobs(job, newest) > 0) {
			newest = job
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Version
}

// begunVersions returns the versions of the jobs that a target was given since it was last rolled
// back.
func begunVersions(t *rollout.Target) (versions []string) {
	jobs := slices.Clone(t.Jobs)
	slices.SortFunc(jobs, func(a, b rollout.Job) int { return compareJobs(&b, &a) })
	for _, job := range jobs {
		if runid.IsRollback(job.Run) {
			break
		}
		versions = append(versions, job.Version)
	}
	return versions
}

// compareJobs is the order of the jobs of a target, as a plan orders them. Of jobs of one instant a
// rollback is the last, because it answers another one.
func compareJobs(a, b *rollout.Job) int {
	back := func(job *rollout.Job) int {
		if runid.IsRollback(job.Run) {
			return 1
		}
		return 0
	}
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), back(a)-back(b), runid.Compare(a.Run, b.Run))
}

// execution returns the open execution that a start belongs to, or nil, and the closed group, or
// nil.
func (s *Step) execution(resource, group string) (*bracket.Execution, *bracket.Group) {
	x := s.indexed()
	return x.executions[[2]string{resource, group}], x.groups[group]
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

// begun reports whether a start continues an open execution that began before, with the version
// that was frozen then. An execution that has begun finishes with that version even if it is
// deleted meanwhile; one that only begins leaves such a version out.
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

func memberOf(e *bracket.Execution, deployment string) *bracket.ExecutionMember {
	for k := range e.Members {
		if e.Members[k].Deployment == deployment {
			return &e.Members[k]
		}
	}
	return nil
}
