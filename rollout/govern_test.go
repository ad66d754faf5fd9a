package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
)

// TestNoAnswer: what a rule does where its expression reads a key that is not there, or fails, by
// the place at which it stands. Only r1 has the label that all of them read, and it is no number.
func TestNoAnswer(t *testing.T) {
	const missing, fails = "resource.metadata['tier'] == 'a'", "int(resource.metadata['tier']) > 1 || resource.name == 'r2'"
	const missingDeployment, failsDeployment = "deployment.metadata['layer'] == 'node'", "int(deployment.name) > 1"
	both := []string{"r1/api@v2", "r2/api@v2"}
	for _, row := range []struct {
		why, policies string
		starts        []string
		waits         []string
		diagnostics   []string
	}{
		{"policy: it does not govern, and that is counted", `{"name":"p","selector":"` + missing + `","rules":[{"anyApproval":{"minApprovals":1}}]}`,
			[]string{"r2/api@v2"}, []string{"r1/api@v2: approval_missing"}, []string{"missing_key p resource.metadata['tier'] 1 r2 / prod / api"}},
		{"policy: on all targets", `{"name":"p","selector":"` + missingDeployment + `","rules":[{"anyApproval":{"minApprovals":1}}]}`,
			both, nil, []string{"missing_key p deployment.metadata['layer'] 2 r1 / prod / api"}},
		{"policy: the target is held", `{"name":"p","selector":"` + fails + `","rules":[{"retry":{"maxRetries":1}}]}`,
			[]string{"r2/api@v2"}, []string{"r1/api@: selector_error"}, []string{"selector_error p * 1 r1 / prod / api"}},
		{"bracket: the deployment is no member", policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"` + missingDeployment + `","readinessWindowSeconds":60}}`),
			both, nil, []string{"missing_key b deployment.metadata['layer'] 2 r1 / prod / api"}},
		{"bracket: its targets are held", policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"` + failsDeployment + `","readinessWindowSeconds":60}}`),
			nil, []string{"r1/api@: selector_error", "r2/api@: selector_error"}, []string{"selector_error b * 2 r1 / prod / api"}},
		{"roles: it is a main", policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"` + missingDeployment + `"}}}`),
			both, nil, []string{"missing_key b deployment.metadata['layer'] 1 prod / api"}},
		{"concurrency: the resource is in no pool", policy(`{"id":"c","resourceConcurrency":{"groupSelector":"` + missing + `","limit":0}}`),
			[]string{"r2/api@v2"}, []string{"r1/api@v2: slot_paused"}, []string{"missing_key c resource.metadata['tier'] 1 r2"}},
		{"concurrency: the targets on it are held", policy(`{"id":"c","resourceConcurrency":{"groupSelector":"` + fails + `","limit":1}}`),
			[]string{"r2/api@v2"}, []string{"r1/api@: selector_error"}, []string{"selector_error c * 1 r1"}},
		{"dependsOn: it names nobody", policy(`{"id":"d","deploymentDependency":{"dependsOn":"` + missingDeployment + `","appliesTo":"deployment.name == 'api'"}}`),
			nil, []string{"r1/api@v2: dependency_unmatched", "r2/api@v2: dependency_unmatched"}, []string{"missing_key d deployment.metadata['layer'] 1 prod / db"}},
		{"dependsOn: it denies", policy(`{"id":"d","deploymentDependency":{"dependsOn":"` + failsDeployment + `","appliesTo":"deployment.name == 'api'"}}`),
			nil, []string{"r1/api@v2: selector_error", "r2/api@v2: selector_error"}, nil},
		{"appliesTo: the rule applies", policy(`{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'x'","appliesTo":"deployment.name == 'api' && ` + missing + `"}}`),
			nil, []string{"r1/api@v2: dependency_unmatched", "r2/api@v2: dependency_unmatched"}, nil},
		{"appliesTo: it denies", policy(`{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db'","appliesTo":"deployment.name == 'api' && (` + fails + `)"}}`),
			[]string{"r2/api@v2"}, []string{"r1/api@v2: selector_error"}, nil},
		{"environmentProgression: it names no environment", policy(`{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.metadata['tier'] == 'pre'"}}`),
			nil, []string{"r1/api@v2: progression_no_environment", "r2/api@v2: progression_no_environment"}, []string{"missing_key e environment.metadata['tier'] 1 qa / api"}},
		{"versionSelector: it denies", policy(`{"id":"s","versionSelector":{"selector":"version.metadata['stable'] == 'yes'"}}`),
			nil, []string{"r1/api@v2: selector_missing_key", "r2/api@v2: selector_missing_key"}, nil},
	} {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}})
		s.Environments = append(s.Environments, rollout.Environment{ID: "qa"})
		s.Resources[0].Metadata = map[string]string{"tier": "a"}
		s.Resources[1].Metadata = nil
		if !strings.HasPrefix(row.why, "dependsOn") && !strings.HasPrefix(row.why, "appliesTo") {
			s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Deployment == "db" })
		}
		plan := mustPlan(t, compile(t, row.policies), s, t0)
		var told []string
		for _, d := range plan.Diagnostics {
			detail := d.Detail
			if d.Code == rollout.DiagnosticSelectorError {
				detail = "*" // the text of the compiler
			}
			told = append(told, fmt.Sprintf("%s %s %s %d %s", d.Code, d.Rule, detail, d.Count, d.Example))
		}
		if got := started(plan); !slices.Equal(got, row.starts) || !slices.Equal(blockers(plan), row.waits) || !slices.Equal(told, row.diagnostics) {
			t.Errorf("%s:\n\tstarts %q, waits %q, tells %q; want\n\tstarts %q, waits %q, tells %q", row.why, got, blockers(plan), told, row.starts, row.waits, row.diagnostics)
		}
	}
}

// TestDefectDiagnosticsCountQuestions: a missing key is counted once for each thing that lacks it,
// however often a plan asks about it: for several dependants, for each version, or in two
// expressions of one rule.
func TestDefectDiagnosticsCountQuestions(t *testing.T) {
	bracketed := func(rule string) string {
		return policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":` + rule)
	}
	for _, row := range []struct {
		why, policies, want string
	}{
		{"three targets wait for the one on each of two resources", policy(`{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && resource.metadata['tier'] == 'x'","appliesTo":"deployment.name != 'db'"}}`),
			"missing_key [d]: resource.metadata['tier'] (2 times, such as r1 / prod / db)"},
		{"they wait for it in either of two versions, which is not about a resource", policy(`{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.metadata['x'] == 'x'","appliesTo":"deployment.name != 'db'"}}`),
			"missing_key [d]: version.metadata['x'] (prod / db)"},
		{"four members of a bracket, one of which others may need in any of its versions", bracketed(`{}}},{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.metadata['x'] == 'x'","appliesTo":"deployment.name != 'db'"}}`),
			"missing_key [d]: version.metadata['x'] (prod / db)"},
		{"or fail in the same way", bracketed(`{"pre":"int(deployment.name) == 0","post":"int(deployment.name) == 0"}}}`), "selector_error [b]: * (4 times, such as prod / a)"},
		{"both roles ask for the same of four members", bracketed(`{"pre":"deployment.metadata['phase'] == '0'","post":"deployment.metadata['phase'] == '9'"}}}`),
			"missing_key [b]: deployment.metadata['phase'] (4 times, such as prod / a)"},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "db": {"v1", "v2"}})
		s.Resources[0].Metadata, s.Resources[1].Metadata = nil, nil
		s.Targets[slices.IndexFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r2" && x.Deployment == "db" })].Current = "v2"
		plan := mustPlan(t, compile(t, row.policies), s, t0)
		for k := range plan.Diagnostics {
			if plan.Diagnostics[k].Code == rollout.DiagnosticSelectorError {
				plan.Diagnostics[k].Detail = "*" // the text of the compiler
			}
		}
		if len(plan.Diagnostics) != 1 || plan.Diagnostics[0].String() != row.want {
			t.Errorf("%s: %v, want %s", row.why, plan.Diagnostics, row.want)
		}
	}
}

// TestUngoverned: without a policy nothing but its status limits a version, unless the host asks
// for the contrary. Then nothing new starts where no policy governs; what runs stays.
func TestUngoverned(t *testing.T) {
	held := []rollout.Option{rollout.WithUngovernedHeld()}
	for _, row := range []struct {
		why, policies string
		options       []rollout.Option
		starts        []string
		waits         []string
	}{
		{"no policy at all", `[]`, nil, []string{"r1/api@v2", "r2/api@v2"}, nil},
		{"it is held", `[]`, held, nil, []string{"r1/api@v2: not_governed", "r2/api@v2: not_governed"}},
		{"a typo in the selector of a policy", `{"name":"p","selector":"resource.name == 'R1'","rules":[{"retry":{"maxRetries":1}}]}`, held, nil, []string{"r1/api@v2: not_governed", "r2/api@v2: not_governed"}},
		{"a policy for one of two", `{"name":"p","selector":"resource.name == 'r1'","rules":[{"retry":{"maxRetries":1}}]}`, held, []string{"r1/api@v2"}, []string{"r2/api@v2: not_governed"}},
		{"a policy that is disabled governs nobody", `{"name":"p","enabled":false,"selector":"true","rules":[{"retry":{"maxRetries":1}}]}`, held, nil, []string{"r1/api@v2: not_governed", "r2/api@v2: not_governed"}},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Targets[2].Current = "v2"
		plan := mustPlan(t, compile(t, row.policies, row.options...), s, t0)
		if got, waits := started(plan), blockers(plan); !slices.Equal(got, row.starts) || !slices.Equal(waits, row.waits) || plan.Keep.Current != 1 {
			t.Errorf("%s: starts %q, waits %q, keeps %+v", row.why, got, waits, plan.Keep)
		}
		if len(row.waits) == 0 {
			continue
		}
		e, err := plan.Explain(s.Targets[1].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if want := "- policy                 not_governed, waits for a change of the policy  <- the policy owner"; !strings.Contains(e.String(), want) {
			t.Errorf("%s: explained as\n%s", row.why, e)
		}
	}
}

// TestMissingKeyOfAllTargets: where a deployment lacks the label that a policy is about, that is
// counted for each of its targets, although the expression is asked only once.
func TestMissingKeyOfAllTargets(t *testing.T) {
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2"}})
	s.Deployments[1].Metadata = map[string]string{"team": "x"}
	asked := 0
	set, err := rollout.Load([]byte(`{"name":"p","selector":"deployment.metadata['team'] == 'x'","rules":[{"id":"r","anyApproval":{"minApprovals":1}}]}`), counting{newEnv(t), &asked})
	if err != nil {
		t.Fatal(err)
	}
	plan := mustPlan(t, set, s, t0)
	if want := "missing_key [p]: deployment.metadata['team'] (3 times, such as r1 / prod / api)"; len(plan.Diagnostics) != 1 || plan.Diagnostics[0].String() != want {
		t.Errorf("%v, want %s", plan.Diagnostics, want)
	}
	if asked != 2 {
		t.Errorf("%d questions about two deployments", asked)
	}
}

// TestFewTargetsUnderDifferentPolicies: of many targets a rule governs few, and a further policy
// governs some of these as well, which stand between the others. Each has a turn of its own.
func TestFewTargetsUnderDifferentPolicies(t *testing.T) {
	s := fleet(64, "v1", map[string][]string{"api": {"v1", "v2"}})
	plan := mustPlan(t, compile(t, `[
		{"name":"p","selector":"resource.id in ['r10','r11','r12','r13','r14']","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}]},
		{"name":"q","selector":"resource.id in ['r11','r13']","rules":[{"retry":{"maxRetries":1}}]}]`), s, t0)
	var turns []int
	for wait := range plan.Waiting.All() {
		turns = append(turns, wait.Blockers[0].Data.Position)
	}
	if slices.Sort(turns); len(plan.Start) != 60 || !slices.Equal(turns, []int{1, 2, 3, 4}) {
		t.Errorf("%d start, and the others have the turns %v", len(plan.Start), turns)
	}
}
