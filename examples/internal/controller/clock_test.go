package controller_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/examples/internal/controller"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// TestClockSetBack: the newest version starts after the clock was set back to before the job of the
// version that it follows. The earlier job must not pass for the newer one, also where the ids of
// versions have no order: the target would be given its newest version again and again.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rollout.Load([]byte(`[{"name":"P","selector":"true","rules":[{"retry":{"maxRetries":1}}]}]`), env)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	fleet := rollout.Snapshot{
		Resources: []rollout.Resource{{ID: "r1"}}, Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "a"}},
		Targets: []rollout.Target{{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}}},
		Versions: []rollout.Version{
			{ID: "f1", Deployment: "a", Status: rollout.VersionReady, CreatedAt: at.Add(-2 * time.Hour)},
			{ID: "a2", Deployment: "a", Status: rollout.VersionPaused, CreatedAt: at.Add(-time.Hour)},
		},
	}
	db, now := &controller.Memory{}, clock.NewFake(at)
	c := &controller.Controller{Policies: set, Store: db, Jobs: db, Clock: now, Fleet: fleet}
	for _, row := range []struct {
		why  string
		edit func()
		want []string
	}{
		{"the first version", func() {}, []string{"r1/prod/a/f1/1"}},
		{"the next one may start, a quarter of an hour earlier", func() {
			now.Set(at.Add(-15 * time.Minute))
			c.Fleet.Versions = slices.Clone(fleet.Versions)
			c.Fleet.Versions[1].Status = rollout.VersionReady
		}, []string{"r1/prod/a/a2/1"}},
		{"it runs there", func() {}, nil},
		{"as it does when the clock is back where it was", func() { now.Advance(20 * time.Minute) }, nil},
	} {
		row.edit()
		turn, err := c.Turn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(turn.Dispatched, row.want) {
			t.Errorf("%s: dispatched %q, want %q", row.why, turn.Dispatched, row.want)
		}
		for _, run := range turn.Dispatched {
			if err := db.Report(t.Context(), run, rollout.JobSuccessful, now.Advance(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
