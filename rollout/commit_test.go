package rollout_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestCommitUnderALease: who starts under a lease that it has already notes so in it, unless its
// execution is open and says so itself. The state of the plan stays as it was: a host plans again
// with it when its save fails.
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

// TestLeaseFollowsJobs: the lease of a start is behind the ends of all jobs that pass for jobs of
// it, and only of these: what ends later proves that it was used.
func TestLeaseFollowsJobs(t *testing.T) {
	t.Parallel()
	const (
		bracketed = `{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
		pool      = `{"id":"R","retry":{"maxRetries":5}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	)
	ran := func(version string, status rollout.JobStatus, created, completed int) rollout.Job {
		zone := time.FixedZone("", 7200)
		return rollout.Job{Run: fmt.Sprintf("r1/prod/api/%s/%d", version, created), Version: version, Status: status, CreatedAt: minute(created).In(zone), CompletedAt: minute(completed).In(zone)}
	}
	const failed, successful = rollout.JobFailure, rollout.JobSuccessful
	for _, row := range []struct {
		why      string
		rules    string
		held     bool // since t0
		progress time.Time
		jobs     []rollout.Job // newest first; the start is at minute 4
		want     time.Time
	}{
		{why: "nothing ran", rules: pool, want: minute(4)},
		{why: "what ran before a new lease is none of its jobs, wherever its end lies", rules: pool, jobs: []rollout.Job{ran("v1", successful, -60, 9)}, want: minute(4)},
		{why: "it is repeated under its lease", rules: pool, held: true, jobs: []rollout.Job{ran("v2", failed, 1, 2)}, want: minute(4).Add(1)},
		{why: "the end of a job before the last lies ahead", rules: pool, held: true, jobs: []rollout.Job{ran("v2", failed, 3, 3), ran("v2", failed, 2, 9), ran("v2", failed, 1, 2)}, want: minute(9).Add(1)},
		{why: "a planner whose clock is ahead has begun under it", rules: pool, held: true, progress: minute(7), jobs: []rollout.Job{ran("v2", failed, 1, 2)}, want: minute(7).Add(1)},
		{why: "a job by hand is none of an execution", rules: bracketed + pool, jobs: []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobFailure, CreatedAt: minute(5), CompletedAt: minute(6)}}, want: minute(4)},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Targets[0].Jobs = row.jobs
		if row.held {
			record, err := concurrency.NewRecord("P").Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r1", Group: "target/prod/api"}, t0)
			if err != nil {
				t.Fatal(err)
			}
			record.Leases[0].ProgressAt = cmp.Or(row.progress, t0)
			s.State.Pools = []concurrency.Record{record}
		}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, minute(4))
		state, err := plan.Commit(plan.Start, minute(4))
		if err != nil || len(plan.Start) != 1 || len(state.Pools) != 1 || len(state.Pools[0].Leases) != 1 {
			t.Fatalf("%s: starts %q, %+v, %v", row.why, started(plan), state.Pools, err)
		}
		if got := state.Pools[0].Leases[0].ProgressAt; got != row.want {
			t.Errorf("%s: progress at %v, want %v", row.why, got, row.want)
		}
	}
}

// TestEveryLeaseIsRenewed: whoever starts under a lease notes it in that one, however many others
// there are on its resource and in its pool.
func TestEveryLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"R","retry":{"maxRetries":5}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	plan := mustPlan(t, set, s, minute(1))
	state, err := plan.Commit(plan.Start, minute(1))
	if err != nil || len(plan.Start) != 4 {
		t.Fatal(started(plan), err)
	}
	for _, lease := range state.Pools[0].Leases {
		if want := minute(1).Add(1); lease.ProgressAt != want {
			t.Errorf("%v: progress at %v", lease.Holder, lease.ProgressAt)
		}
	}
}

// TestCommitIsInOrder: of several brackets, too, what is to be saved is in the order in which it
// was read, whatever has started.
func TestCommitIsInOrder(t *testing.T) {
	t.Parallel()
	deployments := map[string][]string{}
	var policies []string
	for k, name := range []string{"a", "b", "c", "d"} {
		deployments[name] = []string{"v1", "v2"}
		policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"true","rules":[{"id":"g-%s","deploymentBracket":{"deploymentSelector":"deployment.name == '%s'","readinessMode":"immediate","memberRoles":{}}}]}`, 9-k, name, name))
	}
	slices.Reverse(policies)
	set, s := compile(t, "["+strings.Join(policies, ",")+"]"), fleet(2, "v1", deployments)
	plan := mustPlan(t, set, s, t0)
	for _, starts := range [][]rollout.Start{plan.Start, plan.Start[:1]} {
		state, err := plan.Commit(starts, t0)
		if err != nil || len(state.Executions) != len(starts) || len(state.Brackets) != 4 {
			t.Fatalf("%d starts, %d executions, %d brackets, %v", len(starts), len(state.Executions), len(state.Brackets), err)
		}
		if !slices.IsSortedFunc(state.Executions, func(a, b *bracket.ExecutionRecord) int {
			return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(a.Resource, b.Resource))
		}) {
			t.Errorf("%s", text(t, state.Executions))
		}
		if !slices.IsSortedFunc(state.Brackets, func(a, b *bracket.GroupRecord) int { return strings.Compare(a.Rule, b.Rule) }) {
			t.Errorf("%s", text(t, state.Brackets))
		}
		s.State = state
		next := mustPlan(t, set, s, minute(1))
		if text(t, next.State) != text(t, state) {
			t.Errorf("the next plan stores %s", text(t, next.State))
		}
		slices.Reverse(s.State.Executions)
		if other := mustPlan(t, set, s, minute(1)); text(t, other) != text(t, next) {
			t.Errorf("read in another order it plans %s", text(t, other))
		}
	}
}

// TestCommitIntoAnotherState: a host that exchanges the state of a plan for one that it was not
// made on gets an error, and no state to save.
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

// TestStaleStartOutsideBrackets: what is refused has nothing to do with a bracket, and the error does
// not speak of one; a host finds it as it finds those that do.
func TestStaleStartOutsideBrackets(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for _, row := range []struct {
		why    string
		change func(plan *rollout.Plan)
		want   string
	}{
		{"another plan offered it", func(plan *rollout.Plan) { plan.Start = []rollout.Start{{Run: "other"}} }, `rollout: the plan offers no start with the run id "other"`},
		{"its pool is gone", func(plan *rollout.Plan) { plan.State.Pools = nil }, "rollout: start r1/prod/api/v2/1 claims pool P, which the plan's state does not hold"},
		{"its target is not there", func(plan *rollout.Plan) { plan.Start[0].Resource = "r9" }, "rollout: start r1/prod/api/v2/1 is on r9 / prod / api, which the snapshot does not hold"},
	} {
		plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
		offered := plan.Start
		row.change(&plan)
		starts := plan.Start
		plan.Start = offered
		if _, err := plan.Commit(starts, t0); !errors.Is(err, bracket.ErrStale) || err.Error() != row.want {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestLeasesInUTC: whatever zone the host's clock is in, a lease says in UTC since when it is held,
// and when it was used last.
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
	s.State = state
	add(&s, plan.Start[0], job(plan.Start[0], minute(1).In(time.FixedZone("", 7200)), rollout.JobInProgress))
	if got := mustPlan(t, compile(t, policy(`{"id":"l","resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, minute(2)).State.Pools[0].Leases[0].ProgressAt; got != minute(1) {
		t.Errorf("its newest progress is at %v", got)
	}
}

// TestClaimsAreOfOneStart: starts share no memory that a host could write to by adding a claim of
// its own.
func TestClaimsAreOfOneStart(t *testing.T) {
	t.Parallel()
	plan := mustPlan(t, compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`)), fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	before := text(t, plan.Start[1])
	_ = append(plan.Start[0].Claims, rollout.Claim{Pool: "mine"})
	if after := text(t, plan.Start[1]); after != before {
		t.Errorf("it is %s, and was %s", after, before)
	}
}

// TestStartChangedInThePlan: a host writes another resource into the plan's own start. There is no
// such target, so nothing is claimed for it.
func TestStartChangedInThePlan(t *testing.T) {
	t.Parallel()
	plan := mustPlan(t, compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`)), fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	plan.Start[0].Resource = "r9"
	if state, err := plan.Commit(plan.Start, t0); !errors.Is(err, bracket.ErrStale) || len(state.Pools) > 0 {
		t.Errorf("%v, and the state is %+v", err, state)
	}
	if next := plan.NextAfter(plan.Start); !next.IsZero() {
		t.Errorf("next %v", next)
	}
}

// TestFirstStartNeedsAllPools: one lease covers a whole execution, so its first member does not
// start before there is a place in the pools of the others as well: the resource would be drained,
// and wait.
func TestFirstStartNeedsAllPools(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"b","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"D","deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}]},
		{"name":"q","selector":"deployment.name == 'b'","rules":[{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":0}}]}]`)
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), t0)
	if got := blockers(plan); len(plan.Start) != 0 || !slices.Contains(got, "r1/a@v2: slot_paused") {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}
