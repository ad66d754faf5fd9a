package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestFormerMembers: an execution that is open when its rule goes holds the targets of its members, and nobody else's, until it ends.
func TestFormerMembers(t *testing.T) {
	const rules = `{"deploymentBracket":{"deploymentSelector":"deployment.name != 'c'","readinessMode":"immediate","memberRoles":{}}},{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}, "c": {"v1"}})
	plan := mustPlan(t, compile(t, policy(rules)), s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) {
		t.Fatalf("starts %q", got)
	}
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	now := t0.Add(time.Minute)
	s.Versions = append(s.Versions, rollout.Version{ID: "v4", Tag: "v4", Deployment: "c", Status: rollout.VersionReady, CreatedAt: t0},
		rollout.Version{ID: "v5", Tag: "v5", Deployment: "b", Status: rollout.VersionReady, CreatedAt: t0})
	without := compile(t, policy(`{"retry":{"maxRetries":1}}`))
	plan = mustPlan(t, without, s, now)
	if got := started(plan); !slices.Equal(got, []string{"r1/c@v4"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
	if got := blockers(plan); !slices.Equal(got, []string{"r1/b@v3: bracket_waits_for_members"}) {
		t.Errorf("waits %q", got)
	}
	for k := range s.Targets { // a ends: b follows with the version that was locked, and only then takes the newest
		if jobs := s.Targets[k].Jobs; s.Targets[k].Deployment == "a" {
			jobs[0].Status, jobs[0].CompletedAt = rollout.JobSuccessful, now
			s.Targets[k].Current = "v2"
		}
	}
	if got := started(mustPlan(t, without, s, now.Add(time.Minute))); !slices.Contains(got, "r1/b@v3") || slices.Contains(got, "r1/b@v5") {
		t.Errorf("starts %q", got)
	}
}
