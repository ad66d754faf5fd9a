package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// Mistakes that were found in other systems in what these rules do, each with where it was found.

// TestDefectSharedCooldownReference (ctrlplane): the version that one target just got keeps no
// other target waiting.
func TestDefectSharedCooldownReference(t *testing.T) {
	s := fleet(2, "", map[string][]string{"api": {"v1", "v2"}})
	s.Versions[0].CreatedAt, s.Versions[1].CreatedAt = minute(-10), minute(-1)
	s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -5)}
	plan := mustPlan(t, compile(t, policy(`{"versionCooldown":{"intervalSeconds":3600}}`)), s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r2/api@v2"}) || plan.Waiting.Len() != 1 {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
}

// TestDefectFrontLoadedReopening (ctrlplane, eclipse-hawkbit/hawkbit#535): after a night not
// everybody is due at once.
func TestDefectFrontLoadedReopening(t *testing.T) {
	s := fleet(20, "v1", map[string][]string{"api": {"v1", "v2"}})
	start := instantOf(t, "2025-01-06T16:50:00Z")
	s.Versions[1].CreatedAt = start
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}},`+weekly("w", "09:00", "17:00", "")))
	if got := len(mustPlan(t, set, s, instantOf(t, "2025-01-07T09:00:00Z")).Start); got != 3 {
		t.Errorf("%d start at the reopening, want 3", got)
	}
}

// TestDefectStartInsideDeny (ctrlplane): a rollout whose base lies in a window that denies does not
// begin in the next one that does.
func TestDefectStartInsideDeny(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Versions[1].CreatedAt = instantOf(t, "2025-01-06T11:00:00Z")
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}},`+weekly("a", "10:00", "12:00", deny)+","+weekly("b", "12:00", "14:00", deny)))
	plan := mustPlan(t, set, s, instantOf(t, "2025-01-06T12:00:00Z"))
	if len(plan.Start) != 0 || waitingOf(plan)[0].Blockers[0].Until.Hour() != 14 {
		t.Errorf("starts %q, waits for %q", started(plan), waits(plan))
	}
}

// TestDefectSoakOfAnotherVersion (open-cluster-management-io/ocm#1201): a success counts for its
// own version only.
func TestDefectSoakOfAnotherVersion(t *testing.T) {
	s := staged([][]rollout.Job{{ran("v1", rollout.JobSuccessful, -600)}}, nil)
	if plan := mustPlan(t, compile(t, progress(`"minimumSoakTimeMinutes":30`)), s, minute(1)); slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Environment == "prod" && s.Version == "v2" }) {
		t.Errorf("starts %q", started(plan))
	}
}

// TestDefectSoakAfterRedeployment (ctrlplane): a redeployment neither counts as satisfied in the
// future nor begins the soak anew.
func TestDefectSoakAfterRedeployment(t *testing.T) {
	s := staged([][]rollout.Job{{ran("v2", rollout.JobSuccessful, 0), ran("v2", rollout.JobSuccessful, 29)}}, nil)
	set := compile(t, progress(`"minimumSoakTimeMinutes":30`))
	inProd := func(at time.Time) bool {
		return slices.ContainsFunc(mustPlan(t, set, s, at).Start, func(s rollout.Start) bool { return s.Environment == "prod" })
	}
	if inProd(minute(30).Add(-1)) || !inProd(minute(30)) {
		t.Errorf("starts early %v, on time %v", inProd(minute(30).Add(-1)), inProd(minute(30)))
	}
}

// TestDefectNoWakeUpAfterSoak (akuity/kargo#4586): the end of a soak wakes.
func TestDefectNoWakeUpAfterSoak(t *testing.T) {
	s := staged([][]rollout.Job{{ran("v2", rollout.JobSuccessful, 0)}}, nil)
	if plan := mustPlan(t, compile(t, progress(`"minimumSoakTimeMinutes":30`)), s, minute(1)); !plan.Next.Equal(minute(30)) {
		t.Errorf("next %v", plan.Next)
	}
}

// TestDefectTwoGatesOneUnmet (ctrlplane): the start is not taken from the gate that is met.
func TestDefectTwoGatesOneUnmet(t *testing.T) {
	s := staged([][]rollout.Job{{ran("v2", rollout.JobSuccessful, 0)}}, nil)
	set := compile(t, "["+progress("")+`,{"name":"q","selector":"environment.id == 'prod'","rules":[{"id":"a","anyApproval":{"minApprovals":1}}]}]`)
	plan := mustPlan(t, set, s, minute(90))
	if len(plan.Start) != 0 || len(plan.State.Rollouts) != 0 {
		t.Errorf("starts %q, rollouts %+v", started(plan), plan.State.Rollouts)
	}
}

// TestDefectNothingSelectable (ctrlplane): where no version may start, what runs is kept, whichever
// rule says no.
func TestDefectNothingSelectable(t *testing.T) {
	for _, rule := range []string{
		`{"versionSelector":{"selector":"false"}}`, `{"versionSelector":{"selector":"int(version.tag) > 1"}}`, `{"anyApproval":{"minApprovals":9}}`, `{"environmentProgression":{"dependsOnEnvironmentSelector":"false"}}`,
		`{"versionCooldown":{"intervalSeconds":864000}}`, `{"deploymentWindow":{"from":"2020-01-01T00:00:00Z","until":"2020-01-02T00:00:00Z"}}`, `{"deploymentDependency":{"dependsOn":"false"}}`,
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		plan := mustPlan(t, compile(t, policy(rule)), s, t0)
		explanation, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		last := explanation.Versions[len(explanation.Versions)-1]
		if len(plan.Start) != 0 || plan.Waiting.Len() != 1 || explanation.Current != "v1" || last.Version != "v1" || last.Prospect != rollout.ProspectKept {
			t.Errorf("%s: starts %q\n%s", rule, started(plan), explanation)
		}
	}
}

// TestDefectSuccessAfterSuccess (ctrlplane): a version that succeeded is not deployed again, also
// where the host still calls the one before current.
func TestDefectSuccessAfterSuccess(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobSuccessful, -1)}
	for _, rules := range []string{`{"retry":{"maxRetries":9}}`, `{"rollback":{"onVerificationFailure":true}}`} {
		if plan := mustPlan(t, compile(t, policy(rules)), s, t0); len(plan.Start)+plan.Waiting.Len() != 0 {
			t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
		}
	}
	s.Targets[0].OutdatedAt = t0
	if plan := mustPlan(t, compile(t, "[]"), s, t0); !slices.Equal(started(plan), []string{"r1/api@v2"}) {
		t.Errorf("outdated, it starts %q", started(plan))
	}
}

// TestDefectPhaseSlidesWithNow (ctrlplane): every second week is the same week whenever somebody
// asks.
func TestDefectPhaseSlidesWithNow(t *testing.T) {
	set := compile(t, policy(`{"deploymentWindow":{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9","durationMinutes":60,"anchor":"2025-01-06T09:00"}}`))
	for week := range 60 {
		now := instantOf(t, "2025-01-06T09:30:00Z").AddDate(0, 0, 7*week)
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		if got := len(mustPlan(t, set, s, now).Start) == 1; got != (week%2 == 0) {
			t.Errorf("in week %d it is open: %v", week, got)
		}
	}
}
