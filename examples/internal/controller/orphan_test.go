package controller_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// unseen are the jobs of a controller that looked at them before any was created.
type unseen struct{ *controller.Memory }

func (unseen) All(ctx context.Context) ([]controller.Job, error) { return nil, ctx.Err() }

// TestOrphanUsedAnew: a lease is called an orphan for the time of grace by a controller that does
// not know the newest version. Meanwhile another one starts that version under it. The first one
// looked at the jobs a moment before: it must not give the slot back, for the job is active.
func TestOrphanUsedAnew(t *testing.T) {
	t.Parallel()
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rollout.Load([]byte(`[{"name":"P","selector":"true","rules":[{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`), env)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	fleet := rollout.Snapshot{
		Resources: []rollout.Resource{{ID: "r1"}}, Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "a"}},
		Targets: []rollout.Target{{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}, Current: "v1"}},
	}
	for n, id := range []string{"v1", "v2", "v3"} {
		fleet.Versions = append(fleet.Versions, rollout.Version{ID: id, Deployment: "a", Status: rollout.VersionReady, CreatedAt: at.Add(time.Duration(n-9) * time.Hour)})
	}
	with := func(versions ...rollout.Version) rollout.Snapshot {
		own := fleet
		own.Versions = versions
		return own
	}
	withdrawn := fleet.Versions[1]
	withdrawn.Status = rollout.VersionPaused

	db, now := &controller.Memory{}, clock.NewFake(at)
	dies := rollout.Planner{Policies: set, Store: db, Clock: now} // before it dispatches
	if plan, err := dies.Plan(t.Context(), with(fleet.Versions[:2]...)); err != nil || len(plan.Start) != 1 {
		t.Fatalf("starts %v: %v", plan.Start, err)
	}
	behind := &controller.Controller{Policies: set, Store: db, Jobs: unseen{db}, Clock: now, Fleet: with(fleet.Versions[0], withdrawn)}
	turn := func(c *controller.Controller) controller.Turn {
		t.Helper()
		turn, err := c.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return turn
	}
	if first := turn(behind); len(first.Plan.Orphans) != 1 {
		t.Fatalf("orphans %+v", first.Plan.Orphans)
	}
	now.Advance(controller.DefaultGrace)
	ahead := &controller.Controller{Policies: set, Store: db, Jobs: db, Clock: now, Fleet: with(fleet.Versions...)}
	if used := turn(ahead); !slices.Equal(used.Dispatched, []string{"r1/prod/a/v3/1"}) || used.Plan.Start[0].Reason != "slot_held" {
		t.Fatalf("dispatched %q: %v", used.Dispatched, used.Plan.Start)
	}
	if released := turn(behind).Released; len(released) > 0 {
		t.Errorf("gives back %q while a job is active", released)
	}
	now.Advance(controller.DefaultGrace)
	if err := db.Report(t.Context(), "r1/prod/a/v3/1", rollout.JobCancelled, now.Now()); err != nil {
		t.Fatal(err)
	}
	if released := turn(behind).Released; len(released) != 1 {
		t.Errorf("gives back %q after the time of grace", released)
	}
}

// TestAbandoned: a job has failed for good and a person has abandoned its execution. Nobody knows
// whether the resource serves, so its slot is not given back however long it has been an orphan.
// Whoever knows that gives it back by the planner, and the next resource has its turn.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rollout.Load([]byte(`[{"name":"P","selector":"true","rules":[
		{"id":"bracket","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":1,"onMemberFailure":"hold"}},
		{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`), env)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	fleet := rollout.Snapshot{
		Resources: []rollout.Resource{{ID: "r1"}, {ID: "r2"}}, Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "a"}},
		Versions: []rollout.Version{
			{ID: "v1", Deployment: "a", Status: rollout.VersionReady, CreatedAt: at.Add(-48 * time.Hour)},
			{ID: "v2", Deployment: "a", Status: rollout.VersionReady, CreatedAt: at.Add(-time.Minute)},
		},
	}
	for _, resource := range []string{"r1", "r2"} {
		fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "a"}, Current: "v1"})
	}
	db, now := &controller.Memory{}, clock.NewFake(at)
	c := &controller.Controller{Policies: set, Store: db, Jobs: db, Clock: now, Fleet: fleet}
	turn := func() controller.Turn {
		t.Helper()
		turn, err := c.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return turn
	}
	first := turn()
	if len(first.Plan.Start) != 1 || len(first.Dispatched) != 1 {
		t.Fatalf("starts %v", first.Plan.Start)
	}
	if err := db.Report(t.Context(), first.Dispatched[0], rollout.JobFailure, now.Advance(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if held := turn(); len(held.Plan.Orphans) > 0 || len(held.Dispatched) > 0 {
		t.Fatalf("orphans %v, dispatched %q", held.Plan.Orphans, held.Dispatched)
	}
	start := first.Plan.Start[0]
	c.Fleet.Commands = []bracket.Command{{ID: "c", Kind: bracket.Abandon, Group: start.Group, Resource: start.Resource, By: "ann", Reason: "INC-7", At: now.Now()}}
	var last controller.Turn
	for range 3 {
		if last = turn(); len(last.Plan.Orphans) != 1 || len(last.Released) > 0 || len(last.Dispatched) > 0 {
			t.Fatalf("orphans %v, given back %q, dispatched %q", last.Plan.Orphans, last.Released, last.Dispatched)
		}
		now.Advance(controller.DefaultGrace)
	}
	if err := (&rollout.Planner{Store: db}).Release(t.Context(), last.Plan.Orphans[0]); err != nil {
		t.Fatal(err)
	}
	if next := turn(); len(next.Dispatched) != 1 || next.Plan.Start[0].Resource == start.Resource {
		t.Errorf("dispatched %q", next.Dispatched)
	}
}
