package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestForeignJobInsideAnExecution: an execution is at work, and a job that the host made by hand is active on the target of the member that is next. The member
// waits for it, whether its run is still to be offered or was offered before and has no job; then it runs.
func TestForeignJobInsideAnExecution(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`))
	byHand := rollout.Job{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(time.Minute)}
	for _, offered := range []bool{false, true} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.Targets[0].Current = "v2"
		if offered {
			plan := mustPlan(t, set, s, t0.Add(time.Second))
			state, err := plan.Commit(plan.Start, t0.Add(time.Second))
			if err != nil || len(plan.Start) != 1 {
				t.Fatal(started(plan), err)
			}
			s.State = state
		}
		s.Targets[1].Jobs = []rollout.Job{byHand}
		plan := mustPlan(t, set, s, t0.Add(2*time.Minute))
		if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, []string{"r1/b@v2: target_busy"}) {
			t.Errorf("offered %t: starts %q, waits %q", offered, started(plan), got)
		}
		s.Targets[1].Jobs[0].Status, s.Targets[1].Jobs[0].CompletedAt = rollout.JobSuccessful, t0.Add(3*time.Minute)
		if plan := mustPlan(t, set, s, t0.Add(3*time.Minute)); !slices.Equal(started(plan), []string{"r1/b@v2"}) {
			t.Errorf("offered %t, and then: starts %q, waits %q", offered, started(plan), blockers(plan))
		}
	}
}

// TestStuckRunOfABracket: a run that has had no outcome for too long is listed, and says whose it is and since when; not a moment earlier.
func TestStuckRunOfABracket(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","stuckAfterSeconds":60,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	start := plan.Start[0]
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	if got := mustPlan(t, set, s, t0.Add(time.Minute-1)).Stuck; len(got) != 0 {
		t.Errorf("early: %+v", got)
	}
	want := []rollout.Stuck{{Resource: "r1", Group: start.Group, Run: start.Run, Since: t0.Add(time.Minute)}}
	if got := mustPlan(t, set, s, t0.Add(time.Minute)).Stuck; !slices.Equal(got, want) || start.Group == "" || start.Run == "" {
		t.Errorf("%+v, want %+v", got, want)
	}
}
