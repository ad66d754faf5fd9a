package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// What the jobs of the snapshot tell package bracket about its runs.

// runFacts reads the jobs of the groups that the state still knows, and notes those that claim to
// be of such a group and are not. Attempts are counted within one group, generation and purpose.
func (w *work) runFacts(b *bracketWork, state bracket.State) []bracket.RunFact {
	b.unknown = nil
	groups, open := groupsOfRuns(state)
	if len(groups) == 0 {
		return nil
	}
	var group, prefix string                  // the last one: neighbours mostly have runs of the same group
	facts := make([]bracket.RunFact, 0, open) // mostly one of each execution
	var outlived map[string]bool              // resources with jobs of a group that closed after the last known one
	every, known := groupPrefix(state.Group), lastNumber(state.Group)
	over := w.over(state)
	for _, i := range b.targets {
		t := &w.targets[i]
		if !t.worked() || open == 0 && over(t.resource) {
			continue
		}
		jobs := t.history()
		for k := range jobs.len() {
			job := jobs.at(k)
			if prefix == "" || !strings.HasPrefix(job.Run, prefix) {
				first := job.Run[:strings.IndexByte(job.Run, '/')+1]
				id, ours := groups[first]
				if !ours {
					if numberOf(job.Run, every) > known {
						put(&outlived, t.Resource, true)
					}
					continue
				}
				group, prefix = id, first
			}
			run, ok := parseRun(group, job.Run[len(prefix):])
			if !ok || run.Resource != t.Resource || run.Deployment != t.Deployment {
				b.unknown = append(b.unknown, jobOn{i, int32(k)})
				continue
			}
			if !over(t.resource) {
				run.Resource, run.Deployment = w.resources[t.resource].ID, w.deployments[t.deployment].ID // texts in one place are equal at a glance
				facts = push(facts, w.runFact(i, k, run))
			}
		}
	}
	if len(outlived) > 0 {
		facts = slices.DeleteFunc(facts, func(f bracket.RunFact) bool { return outlived[f.Run.Resource] && !isOpen(state, f.Run) })
	}
	return facts
}

// oneRunTwice returns an error of package bracket or, if that is about a run of which a target has
// two jobs, one that names these by their place in the snapshot.
func (w *work) oneRunTwice(b *bracketWork, err error) error {
	var own *bracket.FieldError
	if !errors.As(err, &own) || own.Path != "observation.runs" || own.Code != bracket.CodeDuplicate {
		return err
	}
	for i, t := range w.snapshot.Targets {
		first := slices.IndexFunc(t.Jobs, func(job Job) bool { return job.Run == own.Value })
		if first < 0 || t.Environment != w.environments[b.environment].ID {
			continue
		}
		if k := slices.IndexFunc(t.Jobs[first+1:], func(job Job) bool { return job.Run == own.Value }); k >= 0 {
			return &FieldError{
				Path: fmt.Sprintf("targets[%d].jobs[%d].run", i, first+1+k), Code: CodeDuplicate, Value: own.Value, Err: err,
				Hint: fmt.Sprintf("is the run of jobs[%d] too: a run is one job, and the next attempt has a run of its own (%s)", first, t.TargetID),
			}
		}
	}
	return err
}

// groupsOfRuns returns the groups that the state still knows, by what the ids of their runs begin
// with, and how many executions are open, each of which waits for one of them. There may be as many
// groups as executions are stuck, where each hangs in a group of its own.
func groupsOfRuns(state bracket.State) (groups map[string]string, open int) {
	groups = map[string]string{}
	last := ""
	know := func(id string) {
		if id != last { // neighbours mostly are of the same group
			last, groups[textkey.Join(id)+"/"] = id, id
		}
	}
	for _, group := range state.Group.Closed {
		know(group.ID)
	}
	// If a host stopped after saving the group record and before saving an execution that had
	// ended, the state has an open execution whose group it no longer knows.
	for _, record := range state.Executions {
		if x := record.Open; x != nil && x.Environment == state.Group.Environment {
			know(x.Group)
			open++
		}
	}
	return groups, open
}

// over returns a function that reports whether no execution is open on a resource and the last one
// that ended there was of the latest group, or had it merged into it. The groups that the state
// knows have then all had their turn, and their jobs decide nothing any more. In most fleets that
// holds nearly everywhere and nearly always, so a plan need not copy the jobs of the whole fleet.
// The function is meant for resources in mostly ascending order.
func (w *work) over(state bracket.State) func(resource int32) bool {
	closed, records := state.Group.Closed, state.Executions
	at, last, known := 0, int32(none), false
	return func(resource int32) bool {
		if resource == last || len(closed) == 0 {
			return known
		}
		id := w.resources[resource].ID
		at = seek(len(records), at, func(k int) bool { return records[k].Resource < id })
		last, known = resource, false
		if at < len(records) && records[at].Resource == id && records[at].Open == nil {
			ended := endedIn(records[at], state.Group.Environment)
			known = includes(ended.Group, ended.Merged, closed[len(closed)-1].ID)
		}
		return known
	}
}

// includes reports whether a group is the one that an execution began with, or one of those that
// were merged into it.
func includes(began string, merged []string, group string) bool {
	return began == group || slices.Contains(merged, group)
}

// groupPrefix returns what the run ids of all groups of a record begin with.
func groupPrefix(group *bracket.GroupRecord) string {
	return strings.TrimSuffix(textkey.Join(bracket.GroupID(group.Rule, group.Environment, 0)), "0")
}

// lastNumber returns the number of the group that closed last, or 0.
func lastNumber(group *bracket.GroupRecord) int {
	n := len(group.Closed)
	if n == 0 {
		return 0
	}
	return groupNumber(group.Closed[n-1].ID)
}

// groupNumber returns the number of a bracket's group, which is at least 1.
func groupNumber(id string) int {
	_, _, number, _ := bracket.ParseGroupID(id)
	return number
}

// isOpen reports whether the execution of a run is open. If it is not, and jobs of a later group
// are seen, the state was lost and the execution is over: opening it again would give its members
// versions older than those they have received since.
func isOpen(state bracket.State, run bracket.Run) bool {
	record := executionOn(state.Executions, run.Resource)
	return record != nil && record.Open != nil && record.Open.Group == run.Group
}

func (w *work) runFact(i int32, k int, run bracket.Run) bracket.RunFact {
	job := w.targets[i].history().at(k)
	fact := bracket.RunFact{Run: run, Version: job.Version, StartedAt: job.CreatedAt, Status: bracket.RunRunning}
	if !job.Status.Terminal() {
		return fact
	}
	final, judging := w.failedBy(i, job)
	if judging {
		return fact // a run that a rollback rule has not judged yet has not succeeded yet
	}
	fact.EndedAt = job.end()
	switch job.Status {
	case JobSuccessful:
		fact.Status = bracket.RunSucceeded
		if final {
			fact.Status = bracket.RunFailed
		}
		return fact
	case JobExternalRunNotFound:
		fact.Status = bracket.RunLost
	default:
		fact.Status = bracket.RunFailed
	}
	if !final {
		fact.RetryAt = w.nextAttempt(i, k, run.Purpose)
	}
	return fact
}

// parseRun parses the rest of a run's id, from which the group has been cut; ok is false if it is
// not such an id.
func parseRun(group, rest string) (run bracket.Run, ok bool) {
	var generation, attempt, purpose string
	if !textkey.Scan(rest, &run.Resource, &run.Deployment, &generation, &attempt, &purpose) {
		return bracket.Run{}, false
	}
	run.Group, run.Purpose = group, bracket.Purpose(purpose)
	var first, second bool
	run.Generation, first = textkey.Number(generation)
	run.Attempt, second = textkey.Number(attempt)
	return run, first && second
}
