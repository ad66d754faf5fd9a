package rollouttest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// checkForward checks the invariant forward: no target goes back but by a rollback.
func checkForward(s Step) error {
	order := map[[2]string]rollout.Version{}
	for _, v := range s.Snapshot.Versions {
		order[[2]string{v.Deployment, v.ID}] = v
	}
	var faults []error
	for _, start := range s.Plan.Start {
		t := s.target(start.TargetID)
		next, known := order[[2]string{start.Deployment, start.Version}]
		if t == nil || start.Purpose == rollout.PurposeRollback || !known && (s.Lagging || s.begun(start)) {
			continue
		}
		has := order[[2]string{start.Deployment, current(t)}] // zero, and so older than all, if it is not known
		var began rollout.Version                             // the newest one
		if _, outside := rollout.TargetOf(concurrency.Holder{Resource: start.Resource, Group: start.Group}); outside {
			newest := func(versions []string) (newest rollout.Version) {
				for _, version := range versions {
					if v := order[[2]string{start.Deployment, version}]; older(newest, v) {
						newest = v
					}
				}
				return newest
			}
			if began = newest(begunVersions(t)); older(next, began) {
				began = newest(s.begunSince(t, start, began.ID))
			}
		}
		switch {
		case !known:
			faults = append(faults, fmt.Errorf("%s on %s: starts %s, which does not exist", start.Deployment, start.Resource, start.Version))
		case older(next, has):
			faults = append(faults, fmt.Errorf("%s on %s: starts %s, and has the newer %s", start.Deployment, start.Resource, start.Version, has.ID))
		case older(next, began):
			faults = append(faults, fmt.Errorf("%s on %s: starts %s, and has begun with the newer %s", start.Deployment, start.Resource, start.Version, began.ID))
		}
	}
	return errors.Join(faults...)
}

// begunSince is begunVersions, but if a host has taken the target back from the newest of them, by a
// job of its own, to the version that starts and that the target runs since, and a rollback rule keeps
// it from going there again, those of the jobs since then. Only the plan knows the rule.
func (s *Step) begunSince(t *rollout.Target, start rollout.Start, newest string) []string {
	var back *rollout.Job
	versions := begunVersions(t)
	for k := range t.Jobs {
		job := &t.Jobs[k]
		if job.Version == start.Version && job.Run == "" && job.Status == rollout.JobSuccessful && (back == nil || compareJobs(job, back) > 0) {
			back = job
		}
	}
	if back == nil || start.Version != current(t) {
		return versions
	}
	e, err := s.Plan.Explain(start.TargetID)
	if err != nil || !slices.ContainsFunc(e.Versions, func(v rollout.VersionExplanation) bool {
		return v.Version == newest && slices.ContainsFunc(v.Rules, func(r rollout.RuleVerdict) bool { return r.Reason == rollout.ReasonRollbackTriggered })
	}) {
		return versions
	}
	since := *t
	since.Jobs = slices.DeleteFunc(slices.Clone(t.Jobs), func(job rollout.Job) bool { return compareJobs(&job, back) < 0 })
	return begunVersions(&since)
}

// older reports whether one version of a deployment comes before another one.
func older(a, b rollout.Version) bool {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID)) < 0
}
