package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// This file tells what is in progress on a target, for [Plan.Explain] and [Plan.Changes]: its jobs,
// the open execution that it is a member of, and what of them is stuck.

// inProgress returns the version of the newest job of a target that has not ended.
func (t *target) inProgress() string {
	if job := t.history().newestActive(); job != nil {
		return job.Version
	}
	return ""
}

// inUTC returns the job as it is told, the same whatever zone the host writes its instants in.
func (j Job) inUTC() Job {
	j.CreatedAt = j.CreatedAt.UTC()
	j.CompletedAt = completed(&j).UTC()
	return j
}

// stuckOn returns what is stuck of a target with these active jobs and this open execution, which
// may be nil.
func (w *work) stuckOn(t *target, active []Job, open *bracket.Execution) (list []Stuck) {
	all := w.plan.Stuck
	k, _ := slices.BinarySearchFunc(all, t.Resource, func(s Stuck, resource string) int { return strings.Compare(s.Resource, resource) })
	for ; k < len(all) && all[k].Resource == t.Resource; k++ {
		if t.concernedBy(&all[k], active, open) {
			list = append(list, all[k])
		}
	}
	return list
}

// concernedBy reports whether what is stuck on the resource of a target is a run of the target, or a
// slot under which it has active jobs, or will have the next ones of its open execution.
func (t *target) concernedBy(s *Stuck, active []Job, open *bracket.Execution) bool {
	prefix := textkey.Join(s.Group) + "/"
	if s.Run != "" {
		run, _ := parseRun(s.Group, strings.TrimPrefix(s.Run, prefix)) // as package bracket wrote it
		_, environment, _, _ := bracket.ParseGroupID(s.Group)
		return run.Deployment == t.Deployment && environment == t.Environment
	}
	if id, outside := TargetOf(concurrency.Holder{Resource: s.Resource, Group: s.Group}); outside {
		return id == t.TargetID
	}
	if slices.ContainsFunc(active, func(job Job) bool { return strings.HasPrefix(job.Run, prefix) }) {
		return true
	}
	return open != nil && includes(open.Group, open.Merged, s.Group)
}

// executionOf returns the open execution of which a target is a member, or nil. It may be that of a
// rule that is gone, or that selects the target no more.
func (w *work) executionOf(t *target) *bracket.Execution {
	for _, b := range w.stepped {
		if b.environment != t.environment {
			continue
		}
		if record := w.execution(b.id, t.Resource); record != nil && record.Open != nil && record.Open.Environment == t.Environment && memberIn(record.Open, t.Deployment) != nil {
			return record.Open
		}
	}
	return nil
}
