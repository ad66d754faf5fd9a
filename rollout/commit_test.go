package rollout_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestCommitUnderALease: who starts under a lease that it has already notes so in it, unless its execution is open and says so itself. The state of the plan
// stays as it was: a host plans again with it when its save fails.
func TestCommitUnderALease(t *testing.T) {
	t.Parallel()
	const (
		bracketed = `{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
		pool      = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	)
	for _, row := range []struct {
		why   string
		rules string
		begun bool // the execution was saved
		want  time.Time
	}{
		{"a target outside brackets", pool, true, minute(2).Add(1)},
		{"an execution that was not saved, on a resource that had one before", bracketed + pool, false, minute(2).Add(1)},
		{"one that was saved, and only not dispatched", bracketed + pool, true, minute(1)},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(row.rules))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(1)})
		plan := mustPlan(t, set, s, minute(1))
		claimed, err := plan.Commit(plan.Start, minute(1))
		if err != nil || len(plan.Start) != 1 {
			t.Fatal(started(plan), err)
		}
		if !row.begun {
			claimed.Executions = plan.State.Executions
		}
		for _, record := range claimed.Brackets {
			if row.begun && record.Closed[len(record.Closed)-1].Status != bracket.StatusExecuting {
				t.Errorf("%s: the group is %s", row.why, record.Closed[len(record.Closed)-1].Status)
			}
		}
		s.State = claimed
		plan = mustPlan(t, set, s, minute(2))
		before, shared := text(t, plan.State), slices.Clone(plan.State.Pools[0].Leases)
		again, err := plan.Commit(plan.Start, minute(2))
		if err != nil || len(plan.Start) != 1 || plan.Start[0].Reason != "slot_held" {
			t.Fatalf("%s: starts %+v, %v", row.why, plan.Start, err)
		}
		if got := again.Pools[0].Leases[0].ProgressAt; !got.Equal(row.want) {
			t.Errorf("%s: progress at %v, want %v", row.why, got, row.want)
		}
		if text(t, plan.State) != before || !slices.Equal(shared, plan.State.Pools[0].Leases) {
			t.Errorf("%s: the plan's own state is changed", row.why)
		}
	}
}

// TestCommitIntoAnotherState: a host that exchanges the state of a plan for one that it was not made on gets an error, and no state to save.
func TestCommitIntoAnotherState(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for _, row := range []struct {
		why  string
		edit func(*rollout.State)
		want error
	}{
		{"the pools are gone", func(s *rollout.State) { s.Pools = nil }, bracket.ErrStale},
		{"the pool has changed", func(s *rollout.State) { s.Pools[0].Revision++ }, concurrency.ErrConflict},
		{"another group is at work on the resource", func(s *rollout.State) {
			s.Executions = []*bracket.ExecutionRecord{{Schema: 1, Rule: "g", Resource: "r1", Open: &bracket.Execution{Group: "g/prod/7", Environment: "prod"}}}
		}, bracket.ErrStale},
	} {
		plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
		row.edit(&plan.State)
		if state, err := plan.Commit(plan.Start, t0); !errors.Is(err, row.want) || len(state.Pools)+len(state.Brackets)+len(state.Executions) > 0 {
			t.Errorf("%s: %+v, %v", row.why, state, err)
		}
	}
}

// TestLeasesInUTC: whatever zone the host's clock is in, a lease says in UTC since when it is held.
func TestLeasesInUTC(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	plan := mustPlan(t, compile(t, policy(`{"id":"l","resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, t0)
	state, err := plan.Commit(plan.Start, t0.In(time.FixedZone("", 7200)))
	if err != nil || len(state.Pools) != 1 || len(state.Pools[0].Leases) != 1 {
		t.Fatal(state.Pools, err)
	}
	if got := state.Pools[0].Leases[0].Since; got != t0 {
		t.Errorf("since %v", got)
	}
}
