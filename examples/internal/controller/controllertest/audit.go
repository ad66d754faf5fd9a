//go:build unix

package controllertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
)

// observe reads the jobs and checks what must hold at every moment. It reports whether it could.
func (s *schedule) observe() (jobs []controller.Job, active []concurrency.Holder, seen bool) {
	s.mu.Lock()
	for _, fault := range s.faults {
		s.Error(fault)
	}
	s.faults = nil
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	active, err := s.db.Jobs.Active(ctx, poolKey)
	if err != nil {
		s.failed("count jobs: %v", err)
		return nil, nil, false
	}
	s.bounded(active)
	if jobs, err = s.db.Jobs.All(ctx); err != nil {
		s.failed("read jobs: %v", err)
		return nil, nil, false
	}
	return jobs, active, true
}

// bounded checks the limit.
func (s *schedule) bounded(active []concurrency.Holder) {
	disrupted := map[string]bool{}
	for _, holder := range active {
		disrupted[holder.Resource] = true
	}
	if len(disrupted) > limit {
		s.Errorf("%d nodes are disrupted at once, %d may be: %v", len(disrupted), limit, active)
	}
	s.tally.mu.Lock()
	defer s.tally.mu.Unlock()
	if s.tally.counts == nil {
		s.tally.counts = map[string]int{}
	}
	s.tally.counts["peak"] = max(s.tally.counts["peak"], len(disrupted))
}

func (s *schedule) finished(jobs []controller.Job, active []concurrency.Holder, size int) bool {
	if len(active) > 0 {
		return false
	}
	now := current(jobs)
	for i := range size {
		for deployment, version := range wanted() {
			if now[rollout.TargetID{Resource: fmt.Sprint("node-", i), Environment: "prod", Deployment: deployment}].Version != version {
				return false
			}
		}
	}
	return len(s.leases()) == 0
}

// audit looks at everything that happened, when it is over.
func (s *schedule) audit() {
	jobs, err := s.db.Jobs.All(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	known := map[string]bool{}
	type unit struct{ resource, group string }
	units := map[unit][]controller.Job{}
	for _, job := range jobs {
		known[job.Run] = true
		if bracketed(job.Group) {
			u := unit{job.Resource, job.Group}
			units[u] = append(units[u], job)
		}
	}
	s.mu.Lock()
	for run, n := range s.created {
		if n > 1 {
			s.Errorf("run %s was created by %d controllers", run, n)
		}
		if !known[run] {
			s.Errorf("run %s was created and is lost", run)
		}
	}
	s.mu.Unlock()
	for _, fault := range backwards(jobs) {
		s.Error(fault)
	}
	for u, all := range units {
		var drained, prepared time.Time // ends of the drain, and of the last main
		succeeded := map[string]int{}
		for _, job := range all {
			if job.Status == rollout.JobSuccessful {
				succeeded[job.Deployment]++
				switch {
				case job.Deployment == drain:
					drained = job.CompletedAt
				case job.Deployment != uncordon && job.CompletedAt.After(prepared):
					prepared = job.CompletedAt
				}
			}
		}
		if succeeded[drain] != 1 || succeeded[uncordon] != 1 {
			s.Errorf("%v: %d drains and %d uncordons succeeded, want one of each: %s", u, succeeded[drain], succeeded[uncordon], s.state(all, nil))
		}
		for _, job := range all {
			switch {
			case job.Deployment == uncordon && job.CreatedAt.Before(prepared):
				s.Errorf("%s began at %v, the last main ended at %v", job.Run, job.CreatedAt, prepared)
			case job.Deployment != uncordon && job.Deployment != drain && job.CreatedAt.Before(drained):
				s.Errorf("%s began at %v, the drain ended at %v", job.Run, job.CreatedAt, drained)
			}
		}
	}
	s.tally.add("finished", 1)
	s.tally.add("execution", len(units))
}

// backwards says which jobs took a target back: to a version that was released before one which had
// succeeded there. All jobs have ended. They are looked at in the order of their ends, which on one
// target is that in which they were created: only one is active at a time. CreatedAt may be older
// than that, for it is the instant at which a controller began to dispatch.
func backwards(jobs []controller.Job) (faults []string) {
	rank := map[[2]string]int{}
	for i, r := range releases(epoch()) {
		rank[[2]string{r.deployment, r.version}] = i
	}
	best := map[rollout.TargetID]controller.Job{}
	of := func(job controller.Job) int { return rank[[2]string{job.Deployment, job.Version}] }
	for _, job := range slices.SortedStableFunc(slices.Values(jobs), func(a, b controller.Job) int { return a.CompletedAt.Compare(b.CompletedAt) }) {
		before, ran := best[job.TargetID]
		switch {
		case ran && of(job) < of(before):
			faults = append(faults, fmt.Sprintf("%s brings %s after %s, which had succeeded at %v with %s", job.Run, job.Version, before.Run, before.CompletedAt, before.Version))
		case job.Status == rollout.JobSuccessful:
			best[job.TargetID] = job
		}
	}
	return faults
}

func current(jobs []controller.Job) map[rollout.TargetID]controller.Job {
	newest := map[rollout.TargetID]controller.Job{}
	for _, job := range jobs {
		if job.Status == rollout.JobSuccessful && job.CompletedAt.After(newest[job.TargetID].CompletedAt) {
			newest[job.TargetID] = job
		}
	}
	return newest
}

// leases are those that are held now.
func (s *schedule) leases() []concurrency.Lease {
	value, _, err := s.db.Store.Load(s.Context(), rollout.PoolRecordKey(poolKey))
	if err != nil {
		return []concurrency.Lease{{Reason: err.Error()}} // not yet written
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		s.Errorf("pool: %v", err)
	}
	return record.Leases
}

func (s *schedule) state(jobs []controller.Job, active []concurrency.Holder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "active %v, leases %+v", active, s.leases())
	for _, job := range jobs {
		fmt.Fprintf(&b, "\n%s %s %s %s", job.Run, job.Status, job.CreatedAt.Format("15:04:05.000"), job.CompletedAt.Format("15:04:05.000"))
	}
	return b.String()
}
