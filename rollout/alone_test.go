package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestNothingHidesBehindATurn: what holds some of the targets that wait for their turn is told of
// them, whoever is looked at first.
func TestNothingHidesBehindATurn(t *testing.T) {
	t.Parallel()
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`
	for _, row := range []struct {
		why    string
		rules  string
		edit   func(s *rollout.Snapshot, api, db *rollout.Target, r *rollout.Resource) // of a resource that is held
		reason rollout.Reason
	}{
		{"a version selector that reads the resource", `{"versionSelector":{"selector":"!has(resource.metadata.held)"}},`,
			func(_ *rollout.Snapshot, _, _ *rollout.Target, r *rollout.Resource) {
				r.Metadata = map[string]string{"held": "yes"}
			}, rollout.ReasonSelectorNoMatch},
		{"a dependency", `{"deploymentDependency":{"dependsOn":"deployment.id == 'db'","appliesTo":"deployment.id == 'api'"}},`,
			func(_ *rollout.Snapshot, _, db *rollout.Target, _ *rollout.Resource) { db.Current = "" }, rollout.ReasonDependencyUnmet},
		{"a dependency of the version", "",
			func(s *rollout.Snapshot, _, db *rollout.Target, _ *rollout.Resource) {
				db.Current = ""
				for k := range s.Versions {
					if v := &s.Versions[k]; v.Deployment == "api" && v.ID == "v2" {
						v.Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "true"}}
					}
				}
			}, rollout.ReasonVersionUnmet},
		{"a cooldown", `{"versionCooldown":{"intervalSeconds":86400}},`,
			func(_ *rollout.Snapshot, api, _ *rollout.Target, _ *rollout.Resource) { api.Current = "v1" }, rollout.ReasonCooldown},
		{"a window that lets first deployments past", `{"deploymentWindow":{"weekly":{"days":["wed"],"start":"12:00","end":"13:00"}}},`,
			func(_ *rollout.Snapshot, api, _ *rollout.Target, _ *rollout.Resource) { api.Current = "v1" }, rollout.ReasonWindowClosed},
		{"a job at work", "",
			func(_ *rollout.Snapshot, api, _ *rollout.Target, _ *rollout.Resource) {
				api.Jobs = []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Hour)}}
			}, rollout.ReasonTargetBusy},
	} {
		for free := range 6 {
			s := fleet(6, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}})
			byDeployment := map[string]map[string]*rollout.Target{"api": {}, "db": {}}
			for k := range s.Targets {
				own := &s.Targets[k]
				byDeployment[own.Deployment][own.Resource] = own
				if own.Deployment == "api" && (row.reason == rollout.ReasonWindowClosed || row.reason == rollout.ReasonCooldown) {
					own.Current = "" // nothing runs there yet, so nothing holds it
				}
			}
			var held []string
			for k := range s.Resources {
				r := &s.Resources[k]
				if k != free {
					row.edit(&s, byDeployment["api"][r.ID], byDeployment["db"][r.ID], r)
					held = append(held, r.ID)
				}
			}
			plan := mustPlan(t, compile(t, policy(row.rules+curve)), s, t0)
			turns := 0
			for w := range plan.Waiting.All() {
				if w.Deployment != "api" {
					continue
				}
				if slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonRolloutNotDue }) {
					turns++
				}
				told := slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool { return v.Reason == row.reason })
				if told != slices.Contains(held, w.Resource) {
					t.Errorf("%s, all but resource %d: %v", row.why, free, w)
				}
			}
			if turns < 4 {
				t.Errorf("%s: only %d targets wait for a turn", row.why, turns)
			}
		}
	}
}

// TestTurnsBeyondAllTime: of those that wait for their turn, the ones whose turn never comes are
// told apart, whoever is looked at first.
func TestTurnsBeyondAllTime(t *testing.T) {
	t.Parallel()
	s := fleet(6, "v1", map[string][]string{"api": {"v1", "v2"}})
	plan := mustPlan(t, compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":5000000000}}`)), s, t0)
	reasons := map[rollout.Reason]int{}
	for w := range plan.Waiting.All() {
		reasons[w.Blockers[0].Reason]++
	}
	if len(plan.Start) != 1 || reasons[rollout.ReasonRolloutNotDue] != 1 || reasons[rollout.ReasonRolloutOverflow] != 4 {
		t.Errorf("%v", plan)
	}
}
