package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// scoped is a fleet of four resources in two regions, r1 and r2 in us, r3 in eu, r4 in none, that
// run v1; v2 has a scope.
func scoped(scope string) rollout.Snapshot {
	s := fleet(4, "v1", map[string][]string{"api": {"v1", "v2"}})
	for k, region := range []string{"us", "us", "eu", ""} {
		s.Resources[k].Metadata = map[string]string{}
		if region != "" {
			s.Resources[k].Metadata["region"] = region
		}
	}
	s.Versions[1].TargetSelector = scope
	return s
}

const toUS = "resource.metadata['region'] == 'us'"

// TestScope: where a version exists, and what is told of versions that cannot say.
func TestScope(t *testing.T) {
	for _, row := range []struct {
		why, scope  string
		options     []rollout.Option
		want        []string
		diagnostics []string // code and count
	}{
		{"without selector everywhere", "", nil, []string{"r1", "r2", "r3", "r4"}, nil},
		{"where it is true; a key that is missing is out of scope", toUS, nil, []string{"r1", "r2"}, []string{"scope_missing_key 1 r4"}},
		{"unless errors include", toUS, []rollout.Option{rollout.WithScopeErrors(rollout.ScopeInclude)}, []string{"r1", "r2", "r4"}, []string{"scope_missing_key 1 r4"}},
		{"a typo reaches nobody", "resource.metdata['region'] == 'us'", nil, nil, []string{"scope_invalid 4 r1"}},
		{"or everybody, if errors include", "resource.metdata['region'] == 'us'", []rollout.Option{rollout.WithScopeErrors(rollout.ScopeInclude)}, []string{"r1", "r2", "r3", "r4"}, []string{"scope_invalid 4 r1"}},
		{"one that fails on some targets only", "int(resource.metadata['region']) > 2", nil, nil, []string{"scope_invalid 3 r1", "scope_missing_key 1 r4"}},
		{"which are in scope if errors include", "int(resource.metadata['region']) > 2", []rollout.Option{rollout.WithScopeErrors(rollout.ScopeInclude)}, []string{"r1", "r2", "r3", "r4"}, []string{"scope_invalid 3 r1", "scope_missing_key 1 r4"}},
		{"on the environment", "environment.name == 'prod'", nil, []string{"r1", "r2", "r3", "r4"}, nil},
		{"on another environment", "environment.name == 'staging'", nil, nil, nil},
		{"on a key that the environment misses: every target is counted", "environment.metadata['tier'] == 'x'", nil, nil, []string{"scope_missing_key 4 r1"}},
		{"on the deployment", "deployment.name == 'api'", nil, []string{"r1", "r2", "r3", "r4"}, nil},
		{"on itself", "version.tag == 'v2' && resource.name == 'r3'", nil, []string{"r3"}, nil},
		{"by the host", "", []rollout.Option{rollout.WithMaxScope(func(v rollout.Version, id rollout.TargetID) bool { return v.ID != "v2" || id.Resource < "r3" })}, []string{"r1", "r2"}, nil},
		{"the host narrows the selector, and what it leaves out is not asked", toUS, []rollout.Option{rollout.WithMaxScope(func(v rollout.Version, id rollout.TargetID) bool { return id.Resource > "r1" && id.Resource != "r4" })}, []string{"r2"}, nil},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := scoped(row.scope)
			plan := mustPlan(t, compile(t, "[]", row.options...), s, t0)
			var got []string
			for _, start := range plan.Start {
				got = append(got, start.Resource)
				if start.Scoped != (row.scope != "") {
					t.Errorf("%s is scoped: %v", start.Run, start.Scoped)
				}
			}
			var told []string
			for _, d := range plan.Diagnostics {
				told = append(told, string(d.Code)+" "+string(rune('0'+d.Count))+" "+d.Example.Resource)
			}
			if !slices.Equal(got, row.want) || !slices.Equal(told, row.diagnostics) || plan.Waiting.Len() != 0 || plan.Keep.Current != 4-len(row.want) {
				t.Errorf("starts %q, tells %q, waits %q, keeps %+v; want %q, %q", got, told, blockers(plan), plan.Keep, row.want, row.diagnostics)
			}
		})
	}
}

// TestScopeOfTheOldest: a start says that its version is scoped, also of the only version there is.
func TestScopeOfTheOldest(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v1"}})
	s.Versions[0].TargetSelector = "resource.name == 'r1'"
	if plan := mustPlan(t, compile(t, "[]"), s, t0); len(plan.Start) != 1 || !plan.Start[0].Scoped {
		t.Errorf("starts %+v", plan.Start)
	}
}

// TestScopeBeforeEveryRule: a version out of scope has no verdict, needs no approval, takes no
// position and wakes nobody.
func TestScopeBeforeEveryRule(t *testing.T) {
	s := scoped(toUS)
	rules := `{"anyApproval":{"minApprovals":1}},{"versionSelector":{"selector":"false"}},{"versionCooldown":{"intervalSeconds":86400}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}},` + weekly("w", "09:00", "17:00", "")
	for wait := range mustPlan(t, compile(t, policy(rules)), s, t0).Waiting.All() {
		if wait.Resource != "r1" && wait.Resource != "r2" {
			t.Errorf("%v waits for %v", wait.TargetID, wait.Blockers)
		}
	}
	s.Resources[0].Metadata, s.Resources[1].Metadata = nil, nil
	plan := mustPlan(t, compile(t, policy(rules)), s, t0)
	if plan.Waiting.Len() != 0 || !plan.Next.IsZero() || len(plan.State.Rollouts) != 0 {
		t.Errorf("waits %q, next %v, rollouts %+v", blockers(plan), plan.Next, plan.State.Rollouts)
	}
}

// TestScopeIsNoRollback: what a target has, or has begun, stays whatever becomes of its scope; and
// an older version is no way back.
func TestScopeIsNoRollback(t *testing.T) {
	for _, row := range []struct {
		why    string
		change func(*rollout.Target)
		want   []string
	}{
		{"it is current", func(x *rollout.Target) { x.Current = "v2" }, nil},
		{"it is begun", func(x *rollout.Target) {
			x.Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
		}, nil},
		{"it was begun, failed, and is to be repeated", func(x *rollout.Target) { x.Jobs = []rollout.Job{ran("v2", rollout.JobFailure, 0)} }, []string{"r3/api@v2"}},
		{"it is current and outdated", func(x *rollout.Target) { x.Current, x.OutdatedAt = "v2", t0 }, []string{"r3/api@v2"}},
	} {
		s := scoped(toUS) // r3 is in eu
		s.Targets = s.Targets[2:3]
		row.change(&s.Targets[0])
		plan := mustPlan(t, compile(t, policy(`{"retry":{"maxRetries":1}}`)), s, t0)
		if got := started(plan); !slices.Equal(got, row.want) || plan.Waiting.Len() != 0 {
			t.Errorf("%s: starts %q, waits %q, want %q", row.why, got, blockers(plan), row.want)
		}
	}
}

// TestScopeNewestWins: of the versions for a target the newest counts, scoped or not.
func TestScopeNewestWins(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "hotfix", "v2", "later"}})
	s.Resources[0].Metadata = map[string]string{"region": "us"}
	s.Versions[1].TargetSelector, s.Versions[3].TargetSelector = "resource.metadata['region'] == 'us'", "resource.metadata['region'] == 'mars'"
	if got := started(mustPlan(t, compile(t, "[]"), s, t0)); !slices.Equal(got, []string{"r1/api@v2", "r2/api@v2"}) {
		t.Errorf("starts %q: the hotfix is older than v2", got)
	}
	s.Versions[2].TargetSelector = "resource.name == 'r2'"
	if got := started(mustPlan(t, compile(t, "[]"), s, t0)); !slices.Equal(got, []string{"r1/api@hotfix", "r2/api@v2"}) {
		t.Errorf("starts %q", got)
	}
}

// TestScopeInBracket: the group has the version, and the execution on a resource out of scope
// leaves it out.
func TestScopeInBracket(t *testing.T) {
	s := scoped(toUS)
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v2", "r2/api@v2"}) || plan.Keep.Current != 2 || !plan.Start[0].Scoped {
		t.Errorf("starts %q, keeps %+v, waits %q", got, plan.Keep, blockers(plan))
	}
	s.Versions[1].TargetSelector = "resource.metadata['region'] == 'mars'"
	s.Resources[3].Metadata["region"] = "none"
	if plan = mustPlan(t, set, s, t0); len(plan.Start)+plan.Waiting.Len() != 0 {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestScopeOfEachMember: two members of a bracket have as many versions, of which the newest is for
// one resource. What is not for a target is told by its own versions, although the numbers are the
// same.
func TestScopeOfEachMember(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1"}, "b": {"v1"}})
	for _, d := range []string{"a", "b"} {
		s.Versions = append(s.Versions, rollout.Version{
			ID: "hotfix-" + d, Deployment: d, Status: rollout.VersionReady, CreatedAt: minute(1), TargetSelector: "resource.id == 'r1'",
		})
	}
	if got := started(mustPlan(t, set, s, minute(1))); !slices.Equal(got, []string{"r1/a@hotfix-a", "r1/b@hotfix-b"}) {
		t.Errorf("%q start", got)
	}
}

// TestScopedLocksTakeTurns: a group has locked two versions of which each is for some of the nodes,
// and another policy spreads the targets over time. Everybody has a turn: in the order of the
// version that it gets, among those for which that is.
func TestScopedLocksTakeTurns(t *testing.T) {
	const bracketed, spread = `{"name":"a","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}]}`,
		`{"name":"b","selector":"true","rules":[{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}`
	for _, row := range []struct {
		why     string
		change  func(*rollout.Snapshot)
		turns   []string
		records []string
	}{
		{"v3 is for three of six, v2 for all: both are ranked as outside brackets", func(*rollout.Snapshot) {},
			[]string{"r1 v3 0/3", "r2 v2 0/6", "r3 v3 2/3", "r4 v2 2/6", "r5 v3 1/3", "r6 v2 3/6"}, []string{"api  3", "api v2 6"}},
		{"the others run v2, which is not for them any more and is run again: they have their turns, too", func(s *rollout.Snapshot) {
			s.Versions[1].TargetSelector = "false"
			for i := range s.Targets {
				if i%2 == 1 {
					s.Targets[i].Current, s.Targets[i].OutdatedAt = "v2", t0
				}
			}
		}, []string{"r1 v3 0/3", "r2 v2 0/3", "r3 v3 2/3", "r4 v2 1/3", "r5 v3 1/3", "r6 v2 2/3"}, []string{"api  3", "api v2 3"}},
	} {
		s := fleet(6, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
		for i := range s.Resources {
			s.Resources[i].Metadata = map[string]string{"region": []string{"us", "eu"}[i%2]}
		}
		s.Versions[2].TargetSelector = toUS
		row.change(&s)
		set := compile(t, "["+bracketed+","+spread+"]")
		plan := mustPlan(t, set, s, t0)
		got := make([]string, len(s.Targets))
		for _, start := range plan.Start {
			got[start.Resource[1]-'1'] = start.Resource + " " + start.Version + " 0/" // its place is not told
		}
		for wait := range plan.Waiting.All() {
			data := wait.Blockers[0].Data
			got[wait.Resource[1]-'1'] = fmt.Sprintf("%s %s %d/%d", wait.Resource, wait.Version, data.Position, data.Population)
			if due := t0.Add(time.Duration(data.Position) * time.Minute); len(wait.Blockers) != 1 || !wait.Blockers[0].Until.Equal(due) {
				t.Errorf("%s: %s waits for %v, want until %v", row.why, wait.TargetID, wait.Blockers, due)
			}
		}
		for k, turn := range got {
			if turn != row.turns[k] && !(strings.HasSuffix(turn, " 0/") && strings.HasPrefix(row.turns[k], turn)) {
				t.Errorf("%s: the turns are %q, want %q", row.why, got, row.turns)
				break
			}
		}
		var records []string
		for _, r := range plan.State.Rollouts {
			records = append(records, fmt.Sprintf("%s %s %d", r.Deployment, r.Version, r.Founders))
		}
		if !slices.Equal(records, row.records) {
			t.Errorf("%s: records %q, want %q", row.why, records, row.records)
		}
		state := plan.State
		s.State = state
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r7", Environment: "prod", Deployment: "api"}, Current: "v1", JoinedAt: t0.Add(time.Second)})
		s.Resources = append(s.Resources, rollout.Resource{ID: "r7", Metadata: map[string]string{"region": "us"}})
		if again := mustPlan(t, set, s, t0.Add(2*time.Second)); !slices.Equal(again.State.Rollouts, state.Rollouts) {
			t.Errorf("%s: after somebody joined the records are %+v, want %+v", row.why, again.State.Rollouts, state.Rollouts)
		}
	}
}

// TestCheckVersion: a host finds out about a faulty version when it is published, with the position
// of the fault.
func TestCheckVersion(t *testing.T) {
	set := compile(t, "[]")
	for _, row := range []struct {
		why     string
		version rollout.Version
		want    []string
	}{
		{"nothing to check", rollout.Version{}, nil},
		{"every entity may be looked at", rollout.Version{TargetSelector: "resource.kind == 'Node' && environment.name == 'prod' && deployment.slug == 'x' && version.tag == 'y'",
			Dependencies: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v1' && resource.kind == 'Node' && environment.name == 'prod' && deployment.slug == 'x'"}}}, nil},
		{"a typo", rollout.Version{TargetSelector: "resource.knd == 'Node'"}, []string{"targetSelector"}},
		{"no condition", rollout.Version{TargetSelector: "resource.kind"}, []string{"targetSelector"}},
		{"another language", rollout.Version{TargetSelector: "resource.kind == 'a' AND resource.name == 'b'"}, []string{"targetSelector"}},
		{"every fault at once", rollout.Version{TargetSelector: "x", Dependencies: []rollout.VersionDependency{{}, {Deployment: "db", VersionSelector: "1"}}},
			[]string{"targetSelector", "dependencies[0].deployment", "dependencies[0].versionSelector", "dependencies[1].versionSelector"}},
	} {
		var got []string
		err := set.CheckVersion(row.version)
		for _, one := range joined(err) {
			var fault *rollout.FieldError
			if !errors.As(one, &fault) {
				t.Fatalf("%s: %v is no *FieldError", row.why, one)
			}
			got = append(got, fault.Path)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: faults at %q, want %q", row.why, got, row.want)
		}
		if strings.Contains(row.version.TargetSelector, "AND") {
			var position *selector.CompileError
			if !errors.As(err, &position) || position.Col != 22 || !strings.Contains(err.Error(), "&&") {
				t.Errorf("%s: %v", row.why, err)
			}
		}
	}
}

// TestScopeFaultIsExplained: who asks why a version does not come to a target is told that its
// targetSelector has no answer there, and lint tells it of a version that comes to nobody.
func TestScopeFaultIsExplained(t *testing.T) {
	for _, row := range []struct{ why, scope, want string }{
		{"it does not compile", "resource.metdata['region'] == 'us'", "metdata"},
		{"it misses a key", "resource.metadata['continent'] == 'us'", "continent"},
		{"it says no", "resource.metadata['region'] == 'mars'", ""},
	} {
		s := scoped(row.scope)
		set := compile(t, "[]")
		plan := mustPlan(t, set, s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		own := e.Versions[0]
		if own.Prospect != rollout.ProspectOutOfScope || (own.Fault == "") != (row.want == "") || !strings.Contains(own.Fault, row.want) || !strings.Contains(e.String(), own.Fault) {
			t.Errorf("%s: %q in %v", row.why, own.Fault, e)
		}
		if strings.Contains(e.String(), "has no answer") != (row.want != "") {
			t.Errorf("%s: %v", row.why, e)
		}
	}
}

// TestUnknownScopeErrors: what is to become of versions whose scope fails is not guessed.
func TestUnknownScopeErrors(t *testing.T) {
	for _, choice := range []rollout.ScopeErrors{"", rollout.ScopeExclude, rollout.ScopeInclude, "inclde"} {
		_, err := rollout.Compile(nil, newEnv(t), rollout.WithScopeErrors(choice))
		var fault *rollout.FieldError
		if unknown := choice == "inclde"; (err != nil) != unknown || unknown && (!errors.As(err, &fault) || fault.Code != rollout.CodeUnknownValue) {
			t.Errorf("%q: %v", choice, err)
		}
	}
}
