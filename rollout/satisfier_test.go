package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
)

// TestDependencyWaitsForARelease: a dependency that no version satisfies which may still come is told
// as a wait for a version, and not for the fleet alone, which never brings it. So is one of a version
// itself.
func TestDependencyWaitsForARelease(t *testing.T) {
	t.Parallel()
	const fleetAlone, release = "b on r1", "a new version of b or b on r1"
	version := func(s *rollout.Snapshot, id string) *rollout.Version {
		for i := range s.Versions {
			if v := &s.Versions[i]; v.Deployment == "b" && v.ID == id {
				return v
			}
		}
		t.Fatalf("no version %s", id)
		return nil
	}
	for _, row := range []struct {
		why     string
		depends string // on a version of b: v1 is what b runs
		edit    func(*rollout.Snapshot)
		want    string
	}{
		{"no version is like that", "version.tag == 'v9'", nil, release},
		{"a newer one is, and is held by an approval", "version.tag == 'v3'", nil, fleetAlone},
		{"whether it may be deployed is for its own verdicts to say", "version.tag == 'v3'", func(s *rollout.Snapshot) { version(s, "v3").Status = rollout.VersionPaused }, fleetAlone},
		{"it is for others", "version.tag == 'v3'", func(s *rollout.Snapshot) { version(s, "v3").TargetSelector = "resource.name == 'r2'" }, release},
		{"only what was there before is", "version.tag == 'v0'", nil, release},
		{"only what it runs is not, as far as anybody knows", "version.tag != 'v1'", nil, fleetAlone},
		{"it has begun with it, and goes on", "version.tag == 'v2'", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Run: "1", Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(-1)}}
		}, fleetAlone},
		{"it has begun with a newer one", "version.tag == 'v2'", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs = []rollout.Job{{Run: "1", Version: "v3", Status: rollout.JobInProgress, CreatedAt: minute(-1)}}
		}, release},
		{"what the version alone does not tell may decide", "version.tag == 'v3' || environment.name == 'qa'", nil, fleetAlone},
		{"nothing runs there, and there is no version", "true", func(s *rollout.Snapshot) {
			s.Targets[1].Current = ""
			s.Versions = s.Versions[:2] // those of a
		}, release},
		{"nothing runs there", "version.tag == 'v0'", func(s *rollout.Snapshot) { s.Targets[1].Current = "" }, fleetAlone},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v0", "v1", "v2", "v3"}})
		if row.edit != nil {
			row.edit(&s)
		}
		const approval = `{"anyApproval":{"minApprovals":1}}`
		held := strings.Replace(policy(approval), `"selector":"true"`, `"selector":"deployment.name == 'b'"`, 1)
		rule := fmt.Sprintf(`{"id":"D","deploymentDependency":{"dependsOn":"deployment.name == 'b' && (%s)","appliesTo":"deployment.name == 'a'"}}`, row.depends)
		a := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}
		wait, _ := mustPlan(t, compile(t, "["+held+","+strings.Replace(policy(rule), `"name":"p"`, `"name":"q"`, 1)+"]"), s, t0).Waiting.Of(a)
		if want := "dependency_unmet b, waits for " + row.want; len(wait.Blockers) != 1 || wait.Blockers[0].String() != want {
			t.Errorf("%s: %v, want %q", row.why, wait, want)
		}
		if strings.Contains(row.depends, "environment") {
			continue // a version's own dependency is on the same environment
		}
		s.Versions[1].Dependencies = []rollout.VersionDependency{{Deployment: "b", VersionSelector: row.depends}}
		wait, _ = mustPlan(t, compile(t, "["+held+"]"), s, t0).Waiting.Of(a)
		if want := "version_dependency_unmet b: " + row.depends + ", waits for " + row.want; len(wait.Blockers) != 1 || wait.Blockers[0].String() != want {
			t.Errorf("%s, of the version: %v, want %q", row.why, wait, want)
		}
	}
}

// TestSeveralWaitForARelease: of several deployments that a rule names one is enough, or all are
// needed. Who waits for the fleet alone, and who for a version of whom, follows from that.
func TestSeveralWaitForARelease(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why, depends, match, want string
		events                    int
	}{
		{"one may come", "version.tag == 'v2'", `"any"`, "b on r1 or c on r1", 2},
		{"none may come", "version.tag == 'v9'", `"any"`, "a new version of b or a new version of c or b on r1 or c on r1", 4},
		{"both are needed, and one may come", "version.tag == 'v2'", `"all"`, "a new version of c or b on r1 or c on r1", 3},
		{"in two environments each is named once", "version.tag == 'v9'", `"any","anyEnvironment":true`, "a new version of b or a new version of c or b on r1 in prod or c on r1 in prod or b on r1 in staging or c on r1 in staging", 6},
	} {
		s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1"}}), "staging")
		rule := fmt.Sprintf(`{"id":"D","deploymentDependency":{"dependsOn":"deployment.name in ['b', 'c'] && %s","appliesTo":"deployment.name == 'a'","match":%s}}`, row.depends, row.match)
		wait, _ := mustPlan(t, compile(t, policy(rule)), s, t0).Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
		if len(wait.Blockers) != 1 || !strings.HasSuffix(wait.Blockers[0].String(), "waits for "+row.want) || len(wait.Blockers[0].On) != row.events {
			t.Errorf("%s: %v, want %q, %d events", row.why, wait, row.want, row.events)
		}
	}
}

// TestVersionWaitsForAnOlderOne: a version that needs another one of its own deployment waits for a
// release if only newer ones are like that.
func TestVersionWaitsForAnOlderOne(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ needs, want string }{
		{"version.tag == 'v2'", "a on r1"},
		{"version.tag == 'v3'", "a new version of a or a on r1"},
		{"version.tag == 'v4'", "a new version of a or a on r1"},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2", "v3", "v4"}})
		s.Versions[1].Status, s.Versions[3].Status = rollout.VersionPaused, rollout.VersionPaused
		s.Versions[2].Dependencies = []rollout.VersionDependency{{Deployment: "a", VersionSelector: row.needs}}
		plan := mustPlan(t, compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if want := "version_dependency_unmet a: " + row.needs + ", waits for " + row.want; !strings.Contains(e.String(), want) {
			t.Errorf("%v\nwant %q", e, want)
		}
	}
}
