package rollout_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// planAt lets a planner whose clock stands at now plan on a store.
func planAt(t *testing.T, store bracket.Store, set *rollout.PolicySet, s rollout.Snapshot, now time.Time) rollout.Plan {
	t.Helper()
	plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(now)}).Plan(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestClockBehind: no limit depends on whose clock is right.
func TestClockBehind(t *testing.T) {
	one := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	retried := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"R","retry":{"maxRetries":3}}`))
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

	t.Run("a job older than its lease is no orphan's", func(t *testing.T) {
		store, s := &bracket.MemoryStore{}, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		planAt(t, store, one, s, at(60)) // it claims and stops
		plan := planAt(t, store, one, s, at(0))
		add(&s, plan.Start[0], job(plan.Start[0], at(0), rollout.JobInProgress))
		if plan = planAt(t, store, one, s, at(300)); len(plan.Orphans) != 0 {
			t.Errorf("orphans %+v, and the job is at work", plan.Orphans)
		}
		s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = rollout.JobSuccessful, at(30)
		if plan = planAt(t, store, one, s, at(300)); len(plan.Orphans) != 1 {
			t.Errorf("orphans %+v: whether that job was its holder's cannot be told, so the host gives it back", plan.Orphans)
		}
	})

	t.Run("who starts under a lease of a clock that is ahead uses it", func(t *testing.T) {
		store, s := &bracket.MemoryStore{}, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		planAt(t, store, one, s, at(60)) // it claims and stops
		withdrawn := s
		withdrawn.Versions = slices.Clone(s.Versions)
		withdrawn.Versions[1].Status = rollout.VersionPaused
		orphan := planAt(t, store, one, withdrawn, at(61)).Orphans[0]
		if plan := planAt(t, store, one, s, at(0)); len(plan.Start) != 1 {
			t.Fatalf("waits %q", blockers(plan))
		}
		if err := (&rollout.Planner{Store: store}).Release(t.Context(), orphan); !errors.Is(err, bracket.ErrConflict) {
			t.Errorf("the slot of a start that is about to be dispatched: %v", err)
		}
	})

	for _, row := range []struct {
		why         string
		first       rollout.JobStatus
		begins, end int // of the first job, in seconds; the start that follows is planned at 300
		set         *rollout.PolicySet
		newer       bool // what follows is a newer version
		shown       bool // to who still sees the first job only, its end is a proof
	}{
		{"the end of what a newer version follows lies ahead", rollout.JobFailure, 0, 330, retried, true, false},
		{"it ended when it began", rollout.JobFailure, 0, 0, retried, false, false},
		{"it ended, nobody knows when", rollout.JobFailure, 0, -1, retried, false, false},
		{"the end of the version before lies ahead, and its beginning", rollout.JobSuccessful, 310, 330, one, true, false},
		{"the end that is seen later is one", rollout.JobFailure, 0, 330, one, false, true},
	} {
		t.Run(row.why, func(t *testing.T) {
			store, s := &bracket.MemoryStore{}, fleet(2, "v1", map[string][]string{"a": {"v1", "v2", "v3"}})
			old := s // it knows neither v3 nor any retry
			old.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.ID == "v3" })
			if !row.newer {
				s.Versions = old.Versions
			}
			old.Targets, s.Targets = slices.Clone(s.Targets), slices.Clone(s.Targets)
			first := planAt(t, store, row.set, old, at(0)).Start[0]
			ended := rollout.Job{Run: first.Run, Version: "v2", Status: row.first, CreatedAt: at(row.begins)}
			if row.end >= 0 {
				ended.CompletedAt = at(row.end)
			}
			add(&s, first, ended)
			add(&old, first, ended)
			if !row.shown {
				next := planAt(t, store, row.set, s, at(300))
				if len(next.Start) != 1 || next.Start[0].Resource != "r1" {
					t.Fatalf("starts %q, waits %q", started(next), blockers(next))
				}
			}
			for _, late := range planAt(t, store, one, old, at(360)).Start { // the jobs that it sees have all ended
				if (late.Resource == "r2") != row.shown {
					t.Errorf("starts %+v", late)
				}
			}
		})
	}
}

// TestGivenBackInPart: what r1 held in P was given back, and what it held in Q was not, since the
// planner stopped in between. r2 has P's place by now. What is left to r1 is not a holder's: it
// waits for P with its next version, and may let go of Q.
func TestGivenBackInPart(t *testing.T) {
	const limits = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":2}}`
	for _, row := range []struct {
		why    string
		status rollout.JobStatus
		newer  bool
	}{
		{"a newer version", rollout.JobSuccessful, true},
		{"another attempt", rollout.JobFailure, false},
	} {
		set := compile(t, policy(limits+`,{"id":"R","retry":{"maxRetries":3}}`))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2", "v3"}})
		if !row.newer {
			s.Versions = s.Versions[:2]
		}
		lease := func(record *concurrency.Record, resource string) {
			record.Leases = append(record.Leases, concurrency.Lease{
				Pool: record.Key, Holder: concurrency.Holder{Resource: resource, Group: "target/prod/a"}, Token: record.NextToken, State: concurrency.Active, Since: t0, ProgressAt: t0,
			})
			record.NextToken++
		}
		p, q := concurrency.NewRecord("P"), concurrency.NewRecord("Q")
		lease(&p, "r2")
		lease(&q, "r1")
		lease(&q, "r2")
		s.State.Pools = []concurrency.Record{p, q}
		newest := s.Versions[len(s.Versions)-1].ID
		s.Targets[0].Jobs = []rollout.Job{{Run: "r1/prod/a/v2/1", Version: "v2", Status: row.status, CreatedAt: t0, CompletedAt: minute(5)}}
		s.Targets[1].Jobs = []rollout.Job{{Run: "r2/prod/a/" + newest + "/1", Version: newest, Status: rollout.JobInProgress, CreatedAt: t0}}
		if row.newer {
			s.State.Pools[1].Leases[0].ProgressAt = minute(6) // a job of v3 that was lost
		}
		plan := mustPlan(t, set, s, minute(7))
		if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, []string{"r1/a@" + newest + ": slot_full"}) {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), got)
		}
		if len(plan.Orphans) != 1 || plan.Orphans[0].Resource != "r1" {
			t.Errorf("%s: orphans %+v", row.why, plan.Orphans)
		}
	}
}
