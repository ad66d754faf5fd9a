package rollout_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestDependencies decides about deployment web on one resource, beside db and cache.
func TestDependencies(t *testing.T) {
	for _, row := range []struct {
		why     string
		rule    string            // the fields of the rule besides dependsOn
		on      string            // dependsOn
		runs    map[string]string // what the others run here
		staging map[string]string // and in another environment
		lab     map[string]string // and in one that sorts before
		needs   []rollout.VersionDependency
		want    string // reason, or empty
	}{
		{why: "the one it names runs something", on: "deployment.name == 'db'", runs: map[string]string{"db": "v1"}},
		{why: "it runs nothing yet", on: "deployment.name == 'db'", want: "dependency_unmet"},
		{why: "nobody has this name", on: "deployment.name == 'queue'", want: "dependency_unmatched"},
		{why: "itself does not count", on: "deployment.name == 'web'", want: "dependency_unmatched"},
		{why: "one of two is enough", on: "deployment.name != 'web'", runs: map[string]string{"db": "v1"}},
		{why: "none of two is not", on: "deployment.name != 'web'", want: "dependency_unmet"},
		{why: "all means all", rule: `,"match":"all"`, on: "deployment.name != 'web'", runs: map[string]string{"db": "v1"}, want: "dependency_unmet"},
		{why: "and all it is", rule: `,"match":"all"`, on: "deployment.name != 'web'", runs: map[string]string{"db": "v1", "cache": "v1"}},
		{why: "all of nobody is nobody", rule: `,"match":"all"`, on: "deployment.name == 'queue'", want: "dependency_unmatched"},
		{why: "a version is asked for, and runs", on: "deployment.name == 'db' && version.tag == 'v2'", runs: map[string]string{"db": "v2"}},
		{why: "a version is asked for, and another one runs", on: "deployment.name == 'db' && version.tag == 'v2'", runs: map[string]string{"db": "v1"}, want: "dependency_unmet"},
		{why: "a version of anybody", on: "version.tag == 'v2'", runs: map[string]string{"cache": "v2"}},
		{why: "what runs elsewhere does not count", on: "deployment.name == 'db'", staging: map[string]string{"db": "v1"}, want: "dependency_unmet"},
		{why: "unless the rule says so", rule: `,"anyEnvironment":true`, on: "deployment.name == 'db'", staging: map[string]string{"db": "v1"}},
		{why: "in whichever environment, be it one that is listed before", rule: `,"anyEnvironment":true`, on: "deployment.name == 'db'", lab: map[string]string{"db": "v1"}},
		{why: "all means all environments", rule: `,"anyEnvironment":true,"match":"all"`, on: "deployment.name == 'db'", runs: map[string]string{"db": "v1"}, staging: map[string]string{"db": "v1"}, want: "dependency_unmet"},
		{why: "not even elsewhere does it count itself", rule: `,"anyEnvironment":true`, on: "deployment.name == 'web'", staging: map[string]string{"web": "v1"}, want: "dependency_unmatched"},
		{why: "somebody else is concerned", rule: `,"appliesTo":"deployment.name == 'cache'"`, on: "deployment.name == 'db'"},
		{why: "web is concerned", rule: `,"appliesTo":"deployment.name == 'web'"`, on: "deployment.name == 'db'", want: "dependency_unmet"},
		{why: "a missing key leaves the rule in force", rule: `,"appliesTo":"deployment.metadata['x'] == 'y'"`, on: "deployment.name == 'db'", want: "dependency_unmet"},
		{why: "a missing key names nobody", on: "deployment.metadata['x'] == 'y'", runs: map[string]string{"db": "v1"}, want: "dependency_unmatched"},
		{why: "an expression that fails denies", on: "int(deployment.name) == 1", runs: map[string]string{"db": "v1"}, want: "selector_error"},
		{why: "so does one that says whom it concerns", rule: `,"appliesTo":"int(deployment.name) == 1"`, on: "true", runs: map[string]string{"db": "v1"}, want: "selector_error"},
		{why: "nor may it fail elsewhere, where elsewhere counts", rule: `,"anyEnvironment":true`, on: "environment.name == 'prod' || int(deployment.name) == 1", runs: map[string]string{"db": "v1"}, want: "selector_error"},
		{why: "and one that fails on the version", on: "int(version.tag) == 1", runs: map[string]string{"db": "v1"}, want: "selector_error"},
		{why: "one that it names on other resources does not count", on: "deployment.name == 'cache' && resource.name == 'r2' || deployment.name == 'db' && version.tag == 'v2'", runs: map[string]string{"cache": "v1", "db": "v1"}, want: "dependency_unmet"},
		{why: "a dependency of the version that fails denies", on: "true", runs: map[string]string{"db": "v1"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "int(version.tag) == 1"}}, want: "selector_error"},
		{why: "one that reads a key that is missing is not met", on: "true", runs: map[string]string{"db": "v1"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.metadata['x'] == 'y'"}}, want: "version_dependency_unmet"},
		{why: "the oldest version of the other will do", on: "true", runs: map[string]string{"db": "v1"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v1'"}}},
		{why: "a dependency of the version holds", on: "true", runs: map[string]string{"db": "v2"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v2'"}}},
		{why: "it does not", on: "true", runs: map[string]string{"db": "v1"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v2'"}}, want: "version_dependency_unmet"},
		{why: "the other runs nothing", on: "true", runs: map[string]string{"cache": "v1"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "true"}}, want: "version_dependency_unmet"},
		{why: "nobody has this id", on: "true", runs: map[string]string{"db": "v1"}, needs: []rollout.VersionDependency{{Deployment: "queue", VersionSelector: "true"}}, want: "version_dependency_unmet"},
		{why: "a dependency that does not compile denies", on: "true", runs: map[string]string{"db": "v1"}, needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag ="}}, want: "selector_error"},
		{why: "all of its dependencies must hold", on: "true", runs: map[string]string{"db": "v1", "cache": "v1"},
			needs: []rollout.VersionDependency{{Deployment: "db", VersionSelector: "true"}, {Deployment: "cache", VersionSelector: "version.tag == 'v2'"}}, want: "version_dependency_unmet"},
	} {
		s := fleet(1, "", map[string][]string{"web": {"v1"}, "db": {"v1", "v2"}, "cache": {"v1", "v2"}})
		s = inEnvironments(s, "staging", "lab")
		for i := range s.Versions {
			if s.Versions[i].Deployment == "web" {
				s.Versions[i].Dependencies = row.needs
			} else {
				s.Versions[i].Status = "not to be started"
			}
		}
		for i := range s.Targets {
			target := &s.Targets[i]
			target.Current = row.runs[target.Deployment]
			switch target.Environment {
			case "staging":
				target.Current = row.staging[target.Deployment]
			case "lab":
				target.Current = row.lab[target.Deployment]
			}
		}
		rules := `{"deploymentDependency":{"dependsOn":"` + row.on + `"` + row.rule + `}}`
		plan, err := compile(t, `{"name":"p","selector":"deployment.name == 'web'","rules":[`+rules+`]}`).Plan(s, t0)
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		got, starts := "", false
		for w := range plan.Waiting.All() {
			if w.Deployment == "web" && w.Environment == "prod" {
				got = string(w.Blockers[len(w.Blockers)-1].Reason)
			}
		}
		for _, start := range plan.Start {
			starts = starts || start.Deployment == "web" && start.Environment == "prod"
		}
		if got != row.want || starts != (row.want == "") {
			t.Errorf("%s: %q, starts %v, want %q", row.why, got, starts, row.want)
		}
	}
}

// TestFailsOnEveryResource: an expression fails on the version that several resources run. It is
// evaluated once, and each of them is told.
func TestFailsOnEveryResource(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"db": {"v1"}, "web": {"v1", "v2"}})
	set := compile(t, policy(`{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'db' && int(version.tag) == 1","appliesTo":"deployment.name == 'web'"}}`))
	if got := blockers(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r1/web@v2: selector_error", "r2/web@v2: selector_error"}) {
		t.Errorf("waits %q", got)
	}
}

// TestVersionOnEveryResource: a rule asks for a version, and the resources run different ones.
func TestVersionOnEveryResource(t *testing.T) {
	s := fleet(4, "v1", map[string][]string{"db": {"v1", "v2"}, "web": {"v1", "v2"}})
	for k := range s.Targets {
		if x := &s.Targets[k]; x.Deployment == "db" && (x.Resource == "r2" || x.Resource == "r4") {
			x.Current = "v2"
		}
	}
	set := compile(t, `{"name":"p","selector":"deployment.name == 'web'","rules":[{"deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v2'"}}]}`)
	got := slices.DeleteFunc(started(mustPlan(t, set, s, t0)), func(start string) bool { return strings.Contains(start, "db") })
	if !slices.Equal(got, []string{"r2/web@v2", "r4/web@v2"}) {
		t.Errorf("starts %q", got)
	}
}

// TestOrderOfOthersIsNoneOfItsOwn: a rule names a member and somebody who is no member. It orders
// the members that come after the one that it names, and is a condition for that one, also while
// the execution is open.
func TestOrderOfOthersIsNoneOfItsOwn(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"deployment.name != 'base'","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name in ['base', 'c']","appliesTo":"deployment.name in ['b', 'c']","match":"all"}}`))
	s := fleet(1, "v1", map[string][]string{"b": {"v1", "v2"}, "base": {"v1"}, "c": {"v1", "v2"}, "e": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment != "e" })
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	for _, row := range []struct {
		base          string // what it runs
		starts, waits string
	}{
		{"v1", "[r1/c@v2]", "[r1/b@v2: bracket_waits_for_members]"},
		{"", "[]", "[r1/b@v2: bracket_waits_for_members r1/c@v2: dependency_unmet]"},
	} {
		s.Targets[1].Current = row.base
		s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "base" })].Status = rollout.VersionPaused
		plan := mustPlan(t, set, s, minute(1))
		waits := slices.DeleteFunc(blockers(plan), func(line string) bool { return strings.HasPrefix(line, "r1/base") })
		if starts := fmt.Sprint(started(plan)); starts != row.starts || fmt.Sprint(waits) != row.waits {
			t.Errorf("base runs %q: starts %s, waits %s", row.base, starts, waits)
		}
	}
}

// TestDependenciesThatAreNamed: all that block are told, each with its event, so that nobody is
// sent to one after the other. A deployment of which nobody knows what it runs is one of them.
func TestDependenciesThatAreNamed(t *testing.T) {
	s := fleet(1, "", map[string][]string{"web": {"v1"}, "db": {"v1"}, "cache": {"v1"}, "queue": {"v1"}})
	for k := range s.Versions {
		if v := &s.Versions[k]; v.Deployment == "web" {
			v.Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "true"}, {Deployment: "cache", VersionSelector: "true"}}
		}
	}
	for k := range s.Targets {
		if s.Targets[k].Deployment == "queue" {
			s.Targets[k].Current = "v0"
		}
	}
	plan := mustPlan(t, compile(t, `{"name":"p","selector":"deployment.name == 'web'","rules":[{"deploymentDependency":{"dependsOn":"deployment.name != 'web'","match":"all"}}]}`), s, t0)
	wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "web"})
	if got, want := wait.String(), "r1 / prod / web: v1 waits: dependency_unmet cache, db, queue, waits for cache on r1 or db on r1 or queue on r1; "+
		"version_dependency_unmet db: true, waits for db on r1; version_dependency_unmet cache: true, waits for cache on r1"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}

	// In any environment each is told once for each of them, its own first.
	s = inEnvironments(s, "lab")
	plan = mustPlan(t, compile(t, `{"name":"p","selector":"deployment.name == 'web'","rules":[{"deploymentDependency":{"dependsOn":"deployment.name == 'db'","match":"all","anyEnvironment":true}}]}`), s, t0)
	wait, _ = plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "web"})
	want := []rollout.Condition{{Kind: rollout.OnDependency, Resource: "r1", Environment: "prod", Deployment: "db"}, {Kind: rollout.OnDependency, Resource: "r1", Environment: "lab", Deployment: "db"}}
	if got := wait.Blockers[0].On; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

// TestDependenciesOfViews: two targets of one deployment that other policies govern wait for
// others.
func TestDependenciesOfViews(t *testing.T) {
	on := func(name, resource, deployment string) string {
		return `{"name":"` + name + `","selector":"resource.name == '` + resource + `' && deployment.name == 'web'","rules":[{"deploymentDependency":{"dependsOn":"deployment.name == '` + deployment + `'"}}]}`
	}
	s := fleet(2, "", map[string][]string{"web": {"v1"}, "db": {"v1"}, "cache": {"v1"}})
	for k := range s.Targets {
		if s.Targets[k].Deployment == "cache" {
			s.Targets[k].Current = "v1"
		}
	}
	for k := range s.Versions {
		if s.Versions[k].Deployment == "db" {
			s.Versions[k].Status = rollout.VersionPaused
		}
	}
	plan := mustPlan(t, compile(t, "["+on("p", "r1", "db")+","+on("q", "r2", "cache")+"]"), s, t0)
	if got, want := blockers(plan), []string{"r1/db@v1: version_not_deployable", "r1/web@v1: dependency_unmet", "r2/db@v1: version_not_deployable"}; !slices.Equal(got, want) || !slices.Equal(started(plan), []string{"r2/web@v1"}) {
		t.Errorf("starts %q, waits %q, want %q", started(plan), got, want)
	}
}

// TestCycles: deployments that wait for one another for ever are refused with their path; those
// that have another way are not.
func TestCycles(t *testing.T) {
	needs := func(who, on, more string) string {
		return `{"deploymentDependency":{"appliesTo":"deployment.name == '` + who + `'","dependsOn":"` + on + `"` + more + `}}`
	}
	name := func(n string) string { return "deployment.name == '" + n + "'" }
	for _, row := range []struct {
		why   string
		rules string
		path  []string
	}{
		{"a line", needs("b", name("a"), "") + "," + needs("c", name("b"), ""), nil},
		{"two that need each other", needs("a", name("b"), "") + "," + needs("b", name("a"), ""), []string{"a", "b"}},
		{"three in a circle", needs("a", name("b"), "") + "," + needs("b", name("c"), "") + "," + needs("c", name("a"), ""), []string{"a", "b", "c"}},
		{"who waits for a circle is not in it", needs("a", name("b"), "") + "," + needs("b", name("c"), "") + "," + needs("c", name("b"), ""), []string{"b", "c"}},
		{"what else one of it needs, and can have, is not in it", needs("a", name("c"), "") + "," + needs("a", name("b"), "") + "," + needs("b", name("a"), ""), []string{"a", "b"}},
		{"of two circles the first", needs("a", name("b"), "") + "," + needs("a", name("c"), "") + "," + needs("b", name("a"), "") + "," + needs("c", name("a"), ""), []string{"a", "b"}},
		{"one of the circle has another way", needs("a", "deployment.name in ['b', 'c']", "") + "," + needs("b", name("a"), ""), nil},
		{"which does not help if all are needed", needs("a", "deployment.name in ['b', 'c']", `,"match":"all"`) + "," + needs("b", name("a"), ""), []string{"a", "b"}},
		{"everybody needs everybody else: whoever is there already helps", `{"deploymentDependency":{"dependsOn":"true"}}`, []string{"a", "b"}},
		{"a version decides, and may be there already", needs("a", name("b")+" && version.tag == 'v1'", "") + "," + needs("b", name("a"), ""), nil},
		{"only in an environment that has none of it", needs("a", name("b")+" && environment.name == 'staging'", "") + "," + needs("b", name("a"), ""), nil},
	} {
		_, err := compile(t, policy(row.rules)).Plan(fleet(1, "", map[string][]string{"a": {"v1"}, "b": {"v1"}, "c": {"v1"}}), t0)
		var cycle *rollout.CycleError
		switch is := errors.As(err, &cycle); {
		case row.path == nil && err != nil, row.path != nil && !is:
			t.Errorf("%s: %v", row.why, err)
		case row.path != nil && (!slices.Equal(cycle.Path, row.path) || len(cycle.Rules) == 0):
			t.Errorf("%s: path %q, rules %q, want %q", row.why, cycle.Path, cycle.Rules, row.path)
		}
	}
	members := `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
	_, err := compile(t, policy(members+needs("a", name("b"), "")+","+needs("b", name("a"), ""))).Plan(fleet(1, "", map[string][]string{"a": {"v1"}, "b": {"v1"}}), t0)
	var inside *bracket.CycleError
	var outside *rollout.CycleError
	if !errors.As(err, &inside) && !errors.As(err, &outside) {
		t.Errorf("members of a bracket that need each other: %v", err)
	}
}

// TestCyclesOnAResource: rules make a circle only if they do on one resource. One that is only in
// the rules of all resources together refuses no plan: it would hold up a whole fleet in which
// everybody can start.
func TestCyclesOnAResource(t *testing.T) {
	needs := func(applies, on, more string) string {
		return `{"deploymentDependency":{"appliesTo":"` + applies + `","dependsOn":"` + on + `"` + more + `}}`
	}
	policy := func(name, selector string, rules ...string) string {
		return `{"name":"` + name + `","selector":"` + selector + `","rules":[` + strings.Join(rules, ",") + `]}`
	}
	const a, b, c = "deployment.name == 'a'", "deployment.name == 'b'", "deployment.name == 'c'"
	const on1, on2, prod = "resource.name == 'r1'", "resource.name == 'r2'", "environment.name == 'prod'"
	apart := func(s *rollout.Snapshot) { // a is on r1 alone, and b on r2
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
			return t.Resource == "r2" && t.Deployment == "a" || t.Resource == "r1" && t.Deployment == "b"
		})
	}
	for _, row := range []struct {
		why, policies string
		edit          func(*rollout.Snapshot)
		cycle         bool
	}{
		{"each rule concerns another resource", policy("p", "true", needs(a+" && "+on1, b, ""), needs(b+" && "+on2, a, "")), nil, false},
		{"both concern one of two", policy("p", "true", needs(a+" && "+on2, b, ""), needs(b+" && "+on2, a, "")), nil, true},
		{"whom a rule concerns cannot be said: it concerns everybody", policy("p", "true", needs(a+" && resource.metadata['x'] == 'y'", b, ""), needs(b+" && "+on2, a, "")), nil, true},
		{"each policy governs another resource", policy("p", on1, needs(a, b, "")) + "," + policy("q", on2, needs(b, a, "")), nil, false},
		{"both govern one", policy("p", "true", needs(a, b, "")) + "," + policy("q", on2, needs(b, a, "")), nil, true},
		{"a version of another deployment is a way out", policy("p", "true", needs(a, b+" || "+c+" && version.tag == 'v1'", ""), needs(b, a, "")), nil, false},
		{"but not one of a deployment that is not there", policy("p", "true", needs(a, b+" || deployment.name == 'd' && version.tag == 'v1'", ""), needs(b, a, "")), nil, true},
		{"but not if all are needed", policy("p", "true", needs(a, b+" || "+c+" && version.tag == 'v1'", `,"match":"all"`), needs(b, a, "")), nil, true},
		{"what has no version and no answer is none", policy("p", "true", needs(a, b+" || "+c+" && resource.metadata['x'] == 'y'", ""), needs(b, a, "")), nil, true},
		{"another environment is a way out", policy("p", prod, needs(a, b, `,"anyEnvironment":true`), needs(b, a, "")), nil, false},
		{"but not if it is not asked", policy("p", prod, needs(a, b, ""), needs(b, a, "")), nil, true},
		{"nor if all are needed", policy("p", prod, needs(a, b, `,"anyEnvironment":true,"match":"all"`), needs(b, a, "")), nil, true},
		{"they are never on one resource", policy("p", "true", needs(a, b+" || "+c, `,"match":"all"`), needs(b, a+" || "+c, `,"match":"all"`)), apart, false},
		{"they are", policy("p", "true", needs(a, b+" || "+c, `,"match":"all"`), needs(b, a+" || "+c, `,"match":"all"`)), nil, true},
		{"what has a target nowhere is no way out", policy("p", "true", needs(a, b+" || "+c, ""), needs(b, a, "")), func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Deployment == "c" })
		}, true},
		{"on one resource there is a way out, on the other none", policy("p", "true", needs(a, b+" || "+c, ""), needs(b, a, ""), needs(c+" && "+on2, a, "")), nil, true},
	} {
		s := inEnvironments(fleet(2, "", map[string][]string{"a": {"v1"}, "b": {"v1"}, "c": {"v1"}}), "staging")
		if row.edit != nil {
			row.edit(&s)
		}
		set := compile(t, "["+row.policies+"]")
		for name, check := range map[string]func() error{"Check": func() error { return set.Check(s) }, "Plan": func() error { _, err := set.Plan(s, t0); return err }} {
			var cycle *rollout.CycleError
			if err := check(); errors.As(err, &cycle) != row.cycle || (err != nil) != row.cycle {
				t.Errorf("%s: %s says %v", row.why, name, err)
			} else if row.cycle && !slices.Equal(cycle.Path, []string{"a", "b"}) {
				t.Errorf("%s: path %q", row.why, cycle.Path)
			}
		}
	}
}

// TestCheckOfBrackets: what no plan can be made with because of brackets is found before anything
// is planned, each fault once.
func TestCheckOfBrackets(t *testing.T) {
	bracketed := func(name, more string) string {
		return `{"name":"` + name + `","selector":"true","rules":[{"id":"` + name + `","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"` + more + `}}`
	}
	of := func(name, who string) string {
		return strings.Replace(bracketed(name, ""), `"deploymentSelector":"true"`, `"deploymentSelector":"deployment.name in [`+who+`]"`, 1) + "]}"
	}
	needs := func(who, on string) string {
		return `,{"deploymentDependency":{"appliesTo":"deployment.name == '` + who + `'","dependsOn":"` + on + `"}}`
	}
	for _, row := range []struct{ why, policies, want string }{
		{"nothing is wrong", bracketed("p", "") + needs("a", "deployment.name == 'b'") + "]}", ""},
		{"two brackets claim every target", "[" + bracketed("p", "") + "]}," + bracketed("q", "") + "]}]",
			`bracket: "p" and "q" both bracket deployment "a" on resource "r1": narrow one of their selectors`},
		{"the third claims what the first has, and what the second has", "[" + of("p", "'b'") + "," + of("q", "'a'") + "," + of("r", "'a','b'") + "]",
			`bracket: "q" and "r" both bracket deployment "a" on resource "r1": narrow one of their selectors` + "\n" +
				`bracket: "p" and "r" both bracket deployment "b" on resource "r1": narrow one of their selectors`},
		{"the second claims what the first has, and the third what the second has", "[" + of("p", "'b'") + "," + of("q", "'a','b'") + "," + of("r", "'a'") + "]",
			`bracket: "p" and "q" both bracket deployment "b" on resource "r1": narrow one of their selectors` + "\n" +
				`bracket: "q" and "r" both bracket deployment "a" on resource "r1": narrow one of their selectors`},
		{"a hook needs what comes after it", bracketed("p", `,"memberRoles":{"pre":"deployment.name == 'a'"}`) + needs("a", "deployment.name == 'b'") + "]}",
			`bracket: "p": pre member "a" needs main member "b", which runs after it: change memberRoles or the dependency`},
		{"members that need each other because of their versions", bracketed("p", "") + needs("a", "deployment.name == 'b' && version.tag == 'v1'") + needs("b", "deployment.name == 'a' && version.tag == 'v1'") + "]}",
			`bracket: "p": dependency cycle a -> b -> a: remove one of these dependencies`},
	} {
		s := inEnvironments(fleet(2, "", map[string][]string{"a": {"v1"}, "b": {"v1"}, "c": {"v1"}}), "staging")
		set, got := compile(t, row.policies), ""
		err := set.Check(s)
		if err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %v", row.why, err)
		}
		if _, refused := set.Plan(s, t0); (refused == nil) != (err == nil) {
			t.Errorf("%s: Check says %v, Plan %v", row.why, err, refused)
		}
	}
}

// TestDependenciesOfMembers: inside a bracket a rule orders; one that names nobody inside stays a
// condition, and holds the whole node before its drain.
func TestDependenciesOfMembers(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"app": {"v1", "v2"}, "lib": {"v1", "v2"}, "base": {"v1", "v2"}})
	for i := range s.Versions {
		if s.Versions[i].Deployment == "base" && s.Versions[i].ID == "v2" {
			s.Versions[i].Status = rollout.VersionPaused
		}
		if s.Versions[i].Deployment == "app" && s.Versions[i].ID == "v2" { // brought by the same execution
			s.Versions[i].Dependencies = []rollout.VersionDependency{{Deployment: "lib", VersionSelector: "version.tag == 'v2'"}}
		}
	}
	rules := `{"deploymentBracket":{"deploymentSelector":"deployment.name != 'base'","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'lib'","appliesTo":"deployment.name == 'app'"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'","appliesTo":"deployment.name == 'lib'"}}`
	set := compile(t, policy(rules))
	plan := mustPlan(t, set, s, t0)
	want := []string{
		"r1/app@v2: bracket_not_due dependency_unmet", "r1/base@v2: version_not_deployable", "r1/lib@v2: bracket_not_due dependency_unmet",
	}
	if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, want) {
		t.Errorf("starts %q, waits %q, want %q", started(plan), got, want)
	}
	for i := range s.Targets {
		if s.Targets[i].Deployment == "base" {
			s.Targets[i].Current = "v2"
		}
	}
	if got := runDown(t, set, &s, t0); !slices.Equal(got, []string{"r1 lib@v2 bracket", "r1 app@v2 bracket"}) {
		t.Errorf("order %q", got)
	}
}

// TestWhichRulesOrderMembers: a rule of the bracket's own policy that names another member orders
// the two. Every other one is a condition for the whole execution, on what runs before it.
func TestWhichRulesOrderMembers(t *testing.T) {
	const bracketed = `{"name":"p","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}%s]}`
	ordered, held := []string{"r1/b@v2: bracket_waits_for_members"}, func(reason string) []string {
		return []string{"r1/a@v2: bracket_not_due " + reason, "r1/b@v2: bracket_not_due " + reason}
	}
	for _, row := range []struct {
		why, on string
		other   bool // the rule is of another policy
		want    []string
	}{
		{"it names the other", "deployment.name == 'a'", false, ordered},
		{"it looks at the resource as well", "deployment.name == 'a' && resource.kind == 'Node'", false, ordered},
		{"it names nobody but the member itself", "deployment.name == 'b'", false, held("dependency_unmatched")},
		{"it is of another policy", "deployment.name == 'a' && version.tag == 'v2'", true, held("dependency_unmet")},
	} {
		rule := `{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"` + row.on + `"}}`
		policies := fmt.Sprintf(bracketed, ","+rule)
		if row.other {
			policies = "[" + fmt.Sprintf(bracketed, "") + `,{"name":"q","selector":"true","rules":[` + rule + "]}]"
		}
		plan := mustPlan(t, compile(t, policies), fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), t0)
		if got := blockers(plan); !slices.Equal(got, row.want) {
			t.Errorf("%s: starts %q, waits %q, want %q", row.why, started(plan), got, row.want)
		}
	}
}

// TestDependencyIsAskedWhereItMatters: what a rule says of one environment, or of the targets that
// one set of policies governs, is not taken for the others.
func TestDependencyIsAskedWhereItMatters(t *testing.T) {
	for _, row := range []struct {
		why      string
		policies string
		want     []string
	}{
		{"it names a deployment of one environment", policy(`{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"environment.id == 'prod' && deployment.id == 'db'"}}`),
			[]string{"r1 prod", "r2 prod"}},
		{"of the environment that comes last", policy(`{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"environment.id == 'qa' && deployment.id == 'db'"}}`),
			[]string{"r1 qa", "r2 qa"}},
		{"it concerns one environment", policy(`{"deploymentDependency":{"appliesTo":"environment.id == 'qa' && deployment.id == 'api'","dependsOn":"deployment.id == 'cache'"}}`),
			[]string{"r1 prod", "r2 prod"}},
		{"it governs one resource", `[{"name":"p","selector":"resource.id == 'r1'","rules":[{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'cache'"}}]},
			{"name":"q","selector":"true","rules":[{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db'"}}]}]`,
			[]string{"r2 prod", "r2 qa"}},
		{"it names another version on one resource", policy(`{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && version.tag == (resource.id == 'r1' ? 'v1' : 'v2')"}}`),
			[]string{"r1 prod", "r1 qa"}},
		{"it names nobody on one resource", policy(`{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && resource.id != 'r1'"}}`),
			[]string{"r2 prod", "r2 qa"}},
	} {
		s := inEnvironments(fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}}), "qa")
		var got []string
		for _, start := range mustPlan(t, compile(t, row.policies), s, t0).Start {
			got = append(got, start.Resource+" "+start.Environment)
		}
		slices.Sort(got)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q start", row.why, got)
		}
	}
}

// TestVersionsThatNeedOneAnother: members of one bracket bring each other what their versions need,
// and so do in no circle; what a version needs of its own deployment the target must run before.
func TestVersionsThatNeedOneAnother(t *testing.T) {
	for _, row := range []struct {
		why     string
		members string // of a bracket
		needs   map[string]string
		starts  []string
		circle  string
	}{
		{"both are members", "true", map[string]string{"a": "b", "b": "a"}, []string{"r1/a@v2", "r1/b@v2"}, ""},
		{"one is no member", "deployment.name == 'a'", map[string]string{"a": "b", "b": "a"}, nil, "a@v2 needs b@v2 needs a@v2"},
		{"three, of which one is no member", "deployment.name != 'c'", map[string]string{"a": "b", "b": "c", "c": "a"}, nil, "a@v2 needs b@v2 needs c@v2 needs a@v2"},
		{"three members", "true", map[string]string{"a": "b", "b": "c", "c": "a"}, []string{"r1/a@v2", "r1/b@v2", "r1/c@v2"}, ""},
		{"itself, and so whoever would start with it", "true", map[string]string{"a": "a"}, nil, "a@v2 needs a@v2"},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
		s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == "c" && row.needs["c"] == "" })
		for i := range s.Versions {
			if v := &s.Versions[i]; v.ID == "v2" && row.needs[v.Deployment] != "" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: row.needs[v.Deployment], VersionSelector: "version.tag == 'v2'"}}
			}
		}
		set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"`+row.members+`","readinessMode":"immediate","memberRoles":{}}}`))
		plan := mustPlan(t, set, s, t0)
		told := slices.ContainsFunc(plan.Diagnostics, func(d rollout.Diagnostic) bool {
			return d.Code == rollout.DiagnosticVersionCycle && strings.Contains(d.Detail, row.circle)
		})
		err := set.Check(s)
		if (err != nil) != (row.circle != "") || told != (row.circle != "") || err != nil && !strings.Contains(err.Error(), row.circle) {
			t.Errorf("%s: Check says %v, the plan %+v", row.why, err, plan.Diagnostics)
		}
		if got := started(plan); !slices.Equal(got, row.starts) {
			t.Errorf("%s: starts %q, waits %q", row.why, got, blockers(plan))
		}
	}
}

// TestCircleInTwoEnvironments: two versions need one another. In one environment a third one needs
// the second of them and still waits, in the other it has run already. It is one circle all the
// same, and is reported once.
func TestCircleInTwoEnvironments(t *testing.T) {
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}}), "staging")
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v2" {
			needs := map[string]string{"a": "c", "b": "c", "c": "b"}[v.Deployment]
			v.Dependencies = []rollout.VersionDependency{{Deployment: needs, VersionSelector: "version.tag == 'v2'"}}
		}
	}
	s.Targets[slices.IndexFunc(s.Targets, func(x rollout.Target) bool { return x.Environment == "staging" && x.Deployment == "a" })].Current = "v2"
	const circle = "rollout: dependency cycle: b@v2 needs c@v2 needs b@v2: publish a version without one of these dependencies"
	set := compile(t, "[]")
	if plan := mustPlan(t, set, s, t0); len(plan.Diagnostics) != 1 || plan.Diagnostics[0].Detail != circle || plan.Diagnostics[0].Count != 1 {
		t.Errorf("the plan tells %v", plan.Diagnostics)
	}
	if err := set.Check(s); err == nil || err.Error() != circle {
		t.Errorf("Check says %v", err)
	}
}

// TestVersionsInTheOrderOfTheirExecution: a version waits for what it needs of another member of
// its execution, as long as that can come first, whether or not a hook drains the resource before
// both. Where it comes later or needs the other in turn, the two are brought all the same: the
// execution began because it brings both, and would hold the resource for ever.
func TestVersionsInTheOrderOfTheirExecution(t *testing.T) {
	order := func(first, then string) string {
		return `,{"deploymentDependency":{"dependsOn":"deployment.name == '` + first + `'","appliesTo":"deployment.name == '` + then + `'"}}`
	}
	besides := func(id string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			v := &s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "a" && v.ID == "v2" })]
			v.Dependencies = append(slices.Clip(v.Dependencies), rollout.VersionDependency{Deployment: id, VersionSelector: "version.tag == 'v2'"})
		}
	}
	for _, row := range []struct {
		why    string
		rules  string
		needs  map[string]string // which deployments, each at v2, the version v2 of each needs
		edit   func(*rollout.Snapshot)
		rounds []string
	}{
		{why: "nothing orders them", rounds: []string{"drain", "a b c", "back"}},
		{why: "one needs the other", needs: map[string]string{"a": "b"}, rounds: []string{"drain", "b c", "a", "back"}},
		{why: "one after the other", needs: map[string]string{"a": "b", "b": "c"}, rounds: []string{"drain", "c", "b", "a", "back"}},
		{why: "each needs the other", needs: map[string]string{"a": "b", "b": "a"}, rounds: []string{"drain", "a b c", "back"}},
		{why: "three in a circle", needs: map[string]string{"a": "b", "b": "c", "c": "a"}, rounds: []string{"drain", "a b c", "back"}},
		{why: "a rule wants them the other way round", rules: order("a", "b"), needs: map[string]string{"a": "b"}, rounds: []string{"drain", "a c", "b", "back"}},
		{why: "in a circle by way of a rule", rules: order("a", "b"), needs: map[string]string{"a": "c", "c": "b"}, rounds: []string{"drain", "a c", "b", "back"}},
		{why: "what is needed comes after a member that waits for nobody", rules: order("c", "b"), needs: map[string]string{"a": "b"}, rounds: []string{"drain", "c", "b", "a", "back"}},
		{why: "the hook that comes last", needs: map[string]string{"a": "back"}, rounds: []string{"drain", "a b c", "back"}},
		{why: "in a circle, and it needs besides who is no member", needs: map[string]string{"a": "b", "b": "a"}, edit: besides("base"), rounds: []string{"drain", "b c"}},
		{why: "in a circle, and it needs besides who comes first", needs: map[string]string{"a": "b c", "b": "a"}, rounds: []string{"drain", "b c", "a", "back"}},
		{why: "what it needs waits for who is no member", needs: map[string]string{"b": "a"}, edit: besides("base"), rounds: []string{"drain", "c"}},
		{why: "what it needs waits for what does not exist", needs: map[string]string{"b": "a"}, edit: besides("aa"), rounds: []string{"drain", "c"}},
		{why: "in a circle, and the version of another is deleted meanwhile", needs: map[string]string{"a": "b", "b": "a"}, edit: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.Deployment == "c" && v.ID == "v2" })
		}, rounds: []string{"drain", "a b c", "back"}},
	} {
		for _, drained := range []bool{true, false} {
			if !drained {
				if row.edit != nil {
					continue
				}
				row.rounds = row.rounds[1:]
			}
			s := fleet(2, "v1", map[string][]string{"drain": {"v1"}, "back": {"v1", "v2"}, "a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "base": {"v1", "v2"}})
			s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == "drain" && !drained })
			for i := range s.Versions {
				v := &s.Versions[i]
				if need := row.needs[v.Deployment]; v.ID == "v2" && need != "" {
					for id := range strings.FieldsSeq(need) {
						v.Dependencies = append(v.Dependencies, rollout.VersionDependency{Deployment: id, VersionSelector: "version.tag == 'v2'"})
					}
				}
			}
			for i := range s.Targets {
				if s.Targets[i].Deployment == "base" {
					s.Targets[i].Current = "v2"
				}
			}
			set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"deployment.name != 'base'","readinessMode":"immediate",
			"memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'back'"}}}`+row.rules))
			var rounds []string
			for now := t0; ; now = now.Add(time.Minute) {
				plan := mustPlan(t, set, s, now)
				if len(plan.Start) == 0 {
					break
				}
				var names, beside []string
				for _, start := range plan.Start {
					if start.Resource == "r2" { // the same happens there, at the same time
						beside = append(beside, start.Deployment)
						continue
					}
					names = append(names, start.Deployment)
				}
				slices.Sort(names)
				if slices.Sort(beside); !slices.Equal(names, beside) {
					t.Errorf("%s, drained %v: %q on one resource, %q on another like it", row.why, drained, names, beside)
				}
				if rounds = append(rounds, strings.Join(names, " ")); len(rounds) == 1 && row.edit != nil {
					row.edit(&s)
				}
				carryOut(t, &s, plan, now, rollout.JobSuccessful)
				if len(rounds) == 1 && row.edit != nil { // who is no member goes back once the resource is drained
					for i := range s.Targets {
						if s.Targets[i].Deployment == "base" {
							s.Targets[i].Current = "v1"
							s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "base" && v.ID == "v2" })].Status = rollout.VersionPaused
						}
					}
				}
			}
			if !slices.Equal(rounds, row.rounds) {
				t.Errorf("%s, drained %v: %q, want %q: waits %q", row.why, drained, rounds, row.rounds, blockers(mustPlan(t, set, s, t0.Add(time.Hour))))
			}
		}
	}
}

// TestFirstVersionsThatNeedOneAnother: on a new resource the first versions there are need one
// another, and come together; if only one needs the other, it comes after that one.
func TestFirstVersionsThatNeedOneAnother(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	for _, row := range []struct {
		needs map[string]string
		want  []string
	}{
		{map[string]string{"a": "b", "b": "a"}, []string{"r1/a@v2", "r1/b@v2"}},
		{map[string]string{"a": "b"}, []string{"r1/b@v2"}},
	} {
		s := fleet(1, "", map[string][]string{"a": {"v2"}, "b": {"v2"}})
		for i := range s.Versions {
			if v := &s.Versions[i]; row.needs[v.Deployment] != "" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: row.needs[v.Deployment], VersionSelector: "version.tag == 'v2'"}}
			}
		}
		plan := mustPlan(t, set, s, t0)
		if got := started(plan); !slices.Equal(got, row.want) {
			t.Errorf("%v: starts %q, waits %q", row.needs, got, blockers(plan))
		}
	}
}

// TestVersionNeedsWhatIsNotThere: the deployment that a version needs is not listed, or has no target
// on the resource. Whatever the ids of those that have one, it is not there.
func TestVersionNeedsWhatIsNotThere(t *testing.T) {
	for _, id := range []string{"before", "between", "the last", "elsewhere"} {
		s := fleet(2, "v1", map[string][]string{"between all": {"v1"}, "c": {"v1", "v2"}, "d": {"v1"}, "elsewhere": {"v1"}})
		s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == "elsewhere" && target.Resource == "r1" })
		for i := range s.Versions {
			if v := &s.Versions[i]; v.ID == "v2" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: id, VersionSelector: "true"}}
			}
		}
		plan := mustPlan(t, compile(t, policy(`{"retry":{"maxRetries":0}}`)), s, t0)
		if got := started(plan); slices.Contains(got, "r1/c@v2") || slices.Contains(got, "r2/c@v2") != (id == "elsewhere") {
			t.Errorf("it needs %q, which is not there: starts %q", id, got)
		}
	}
}

// TestCircleBesideWhoIsGone: two members need one another, and a third, whose job is active, is gone
// from the resource, or altogether, whatever the ids of those that are left. The two come together.
func TestCircleBesideWhoIsGone(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	for _, third := range []string{"a", "c", "z"} {
		for _, altogether := range []bool{false, true} {
			s := fleet(1, "v1", map[string][]string{"b": {"v1", "v2"}, "d": {"v1", "v2"}, third: {"v1", "v2"}})
			for i := range s.Versions {
				if v := &s.Versions[i]; v.ID == "v2" && v.Deployment != third {
					v.Dependencies = []rollout.VersionDependency{{Deployment: map[string]string{"b": "d", "d": "b"}[v.Deployment], VersionSelector: "version.tag == 'v2'"}}
				}
			}
			plan := mustPlan(t, set, s, t0)
			plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment != third })
			carryOut(t, &s, plan, t0, rollout.JobInProgress)
			s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == third })
			if altogether {
				s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == third })
				s.Deployments = slices.DeleteFunc(s.Deployments, func(d rollout.Deployment) bool { return d.ID == third })
			}
			if plan := mustPlan(t, set, s, minute(1)); !slices.Equal(started(plan), []string{"r1/b@v2", "r1/d@v2"}) {
				t.Errorf("%s is gone, altogether %v: starts %q, waits %q", third, altogether, started(plan), blockers(plan))
			}
		}
	}
}

// TestOrderOfWhoIsGone: a member that was to come before another one has no target any more, or is
// gone altogether, before it began. Nobody waits for it, so that the resource does not stay drained,
// although the rule names nobody now. A third, whose version needs the other one, is not taken for
// it: it still comes after. A rule that never named it still counts.
func TestOrderOfWhoIsGone(t *testing.T) {
	const order = `{"deploymentBracket":{"deploymentSelector":"deployment.name != 'base'","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'c'","appliesTo":"deployment.name == 'b'"}}`
	for _, row := range []struct {
		why          string
		rules        string
		altogether   bool
		base         string // the version that it runs then; empty: it has no target any more
		starts, wait string
	}{
		{"no target", order, false, "v2", "[r1/b@v2]", "[r1/d@v2: version_dependency_unmet]"},
		{"gone altogether", order, true, "v2", "[r1/b@v2]", "[r1/d@v2: version_dependency_unmet]"},
		{"and another rule names who is no member", order + `,{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'","appliesTo":"deployment.name == 'b'"}}`, true,
			"v1", "[]", "[r1/b@v2: dependency_unmet r1/d@v2: version_dependency_unmet]"},
		{"the same, of which there is none any more", order + `,{"deploymentDependency":{"dependsOn":"deployment.name == 'base'","appliesTo":"deployment.name == 'b'"}}`, false,
			"", "[]", "[r1/b@v2: dependency_unmatched r1/d@v2: version_dependency_unmet]"},
	} {
		s := fleet(1, "v1", map[string][]string{"b": {"v1", "v2"}, "base": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}, "e": {"v1", "v2"}})
		for i := range s.Versions {
			if v := &s.Versions[i]; v.ID == "v2" && v.Deployment == "d" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: "b", VersionSelector: "version.tag == 'v2'"}}
			}
		}
		for i := range s.Targets {
			if s.Targets[i].Deployment == "base" {
				s.Targets[i].Current = "v2"
			}
		}
		set := compile(t, policy(row.rules))
		plan := mustPlan(t, set, s, t0)
		plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment == "c" })
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
		leaves := func(id string, altogether bool) {
			s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == id })
			if altogether {
				s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == id })
				s.Deployments = slices.DeleteFunc(s.Deployments, func(d rollout.Deployment) bool { return d.ID == id })
			}
		}
		leaves("c", row.altogether)
		if row.base == "" {
			leaves("base", false)
		}
		for i := range s.Targets {
			if s.Targets[i].Deployment == "base" {
				s.Targets[i].Current = row.base
			}
		}
		plan = mustPlan(t, set, s, minute(1))
		plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment == "base" })
		waits := slices.DeleteFunc(blockers(plan), func(line string) bool { return strings.HasPrefix(line, "r1/base") })
		if starts := fmt.Sprint(started(plan)); starts != row.starts || fmt.Sprint(waits) != row.wait {
			t.Errorf("%s: starts %s, waits %s", row.why, starts, waits)
		}
	}
}

// TestVersionWaitsForWhoRuns: of two that need one another the host has started one. The other
// waits until that has ended, and does not run beside it.
func TestVersionWaitsForWhoRuns(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v2" {
			v.Dependencies = []rollout.VersionDependency{{Deployment: map[string]string{"a": "b", "b": "a"}[v.Deployment], VersionSelector: "version.tag == 'v2'"}}
		}
	}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	plan := mustPlan(t, set, s, t0)
	plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment == "b" })
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	if plan = mustPlan(t, set, s, minute(1)); len(plan.Start) > 0 || !slices.Equal(blockers(plan), []string{"r1/b@v2: version_dependency_unmet"}) {
		t.Fatalf("starts %q, waits %q", started(plan), blockers(plan))
	}
	x := &s.Targets[0]
	x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, minute(2), "v2"
	if plan = mustPlan(t, set, s, minute(2)); !slices.Equal(started(plan), []string{"r1/b@v2"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestVersionNeedsWhoIsAbsent: a version needs a deployment that has no target on the resource in the
// environment. No job brings that, so the wait says why, and names who can help: those who publish
// versions, or for a member of an open execution, which keeps its version, an operator.
func TestVersionNeedsWhoIsAbsent(t *testing.T) {
	const plain = `{"retry":{"maxRetries":1}}`
	const bracketed = `{"id":"k","deploymentBracket":{"deploymentSelector":"deployment.name != 'b'","readinessMode":"immediate","memberRoles":{}}}`
	needing := func(s rollout.Snapshot, deployment, need string) rollout.Snapshot {
		for k := range s.Versions {
			if v := &s.Versions[k]; v.Deployment == deployment && v.ID == "v2" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: need, VersionSelector: "true"}}
			}
		}
		return s
	}
	waits := func(plan rollout.Plan, deployment string) (string, []rollout.Actor) {
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: deployment})
		for _, v := range wait.Blockers { // a bracket has the same events, besides
			if v.Reason == rollout.ReasonVersionUnmet {
				return v.String(), v.Actors()
			}
		}
		return wait.String(), nil
	}
	release := []rollout.Actor{rollout.ActorPublish, rollout.ActorFleet}
	for _, rules := range []string{plain, bracketed} {
		set := compile(t, policy(rules))
		for _, need := range []string{"nope", "b"} { // b is on the resource elsewhere, and in the environment on another one
			s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}}), "staging")
			present := slices.Clone(s.Targets)
			s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool {
				return x.Deployment == "b" && x.Resource == "r1" && x.Environment == "prod"
			})
			s = needing(s, "a", need)
			got, actors := waits(mustPlan(t, set, s, t0), "a")
			if want := "version_dependency_unmet " + need + ": it has no target on this resource in this environment, waits for a version of a or " + need + " on r1"; got != want || !slices.Equal(actors, release) {
				t.Errorf("%q needs %s: told %q, opened by %q", rules, need, got, actors)
			}
			newer := s
			newer.Versions = append(slices.Clone(s.Versions), rollout.Version{ID: "v3", Deployment: "a", Tag: "v3", Status: rollout.VersionReady, CreatedAt: s.Versions[1].CreatedAt.Add(time.Second)})
			if plan := mustPlan(t, set, newer, minute(1)); !slices.Contains(started(plan), "r1/a@v3") {
				t.Errorf("%q: a version of a does not help: %q", rules, started(plan))
			}
			if s.Targets = present; need == "b" {
				if plan := mustPlan(t, set, s, t0); !slices.Contains(started(plan), "r1/a@v2") {
					t.Errorf("%q: b on r1 does not help: %q", rules, started(plan))
				}
			}
		}
	}

	// What runs nothing, or not what is needed, may still be brought.
	for _, runs := range []string{"", "v0"} {
		s := needing(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}}), "a", "b")
		s.Versions[1].Dependencies[0].VersionSelector = "version.tag == 'v1'"
		s.Targets[1].Current = runs
		if got, actors := waits(mustPlan(t, compile(t, policy(plain)), s, t0), "a"); got != "version_dependency_unmet b: version.tag == 'v1', waits for b on r1" || !slices.Equal(actors, []rollout.Actor{rollout.ActorFleet}) {
			t.Errorf("b runs %q: told %q, opened by %q", runs, got, actors)
		}
	}

	// The execution is open when b leaves.
	set := compile(t, policy(`{"id":"k","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := needing(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}}), "a", "b")
	for k := range s.Versions {
		if v := &s.Versions[k]; len(v.Dependencies) > 0 {
			v.Dependencies[0].VersionSelector = "version.tag == 'v2'"
		}
	}
	plan := mustPlan(t, set, s, t0)
	plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment != "c" })
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Deployment == "b" })
	got, actors := waits(mustPlan(t, set, s, minute(1)), "a")
	if want := "version_dependency_unmet b: it has no target on this resource in this environment, waits for an operator's command for k/prod/1 on r1 or b on r1"; got != want || !slices.Equal(actors, []rollout.Actor{rollout.ActorOperator, rollout.ActorFleet}) {
		t.Errorf("in an open execution: told %q, opened by %q", got, actors)
	}
	newer := s
	newer.Versions = append(slices.Clone(s.Versions), rollout.Version{ID: "v3", Deployment: "a", Tag: "v3", Status: rollout.VersionReady, CreatedAt: s.Versions[1].CreatedAt.Add(time.Second)})
	if plan := mustPlan(t, set, newer, minute(1)); len(plan.Start) > 0 {
		t.Errorf("a version of a helps while the execution is open: %q", started(plan))
	}
	newer.Commands = []bracket.Command{{ID: "c", Kind: bracket.Abandon, Group: "k/prod/1", Resource: "r1", At: minute(1)}}
	if plan := mustPlan(t, set, newer, minute(1)); !slices.Equal(started(plan), []string{"r1/a@v3"}) {
		t.Errorf("no command helps: starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestVersionWaitsWithinItsExecution: who is held back while others of its execution start says for
// whom it waits, to the plan and to who asks, and comes as soon as that has come, also if the host
// carries out a part of the plan only.
func TestVersionWaitsWithinItsExecution(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v2" && v.Deployment == "a" {
			v.Dependencies = []rollout.VersionDependency{{Deployment: "b", VersionSelector: "version.tag == 'v2'"}}
		}
	}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	a := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}
	for _, part := range [][]string{{"b", "c"}, {"c"}, {"b"}} {
		s := s
		s.Targets = slices.Clone(s.Targets)
		for now, rounds := t0, 0; ; now, rounds = now.Add(time.Minute), rounds+1 {
			plan := mustPlan(t, set, s, now)
			waits := plan.Waiting.Len() > 0
			if waits {
				want := rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonVersionUnmet, Data: &rollout.Data{Names: []string{"b"}, Detail: "version.tag == 'v2'"},
					On: []rollout.Condition{{Kind: rollout.OnDependency, Deployment: "b", Resource: "r1", Environment: "prod"}}}
				w, _ := plan.Waiting.Of(a)
				if w.Version != "v2" || !reflect.DeepEqual(w.Blockers, []rollout.Verdict{want}) {
					t.Fatalf("%v, round %d: %+v", part, rounds, w)
				}
				e, err := plan.Explain(a)
				if err != nil || !slices.ContainsFunc(e.Waits().Blockers(), func(r rollout.RuleVerdict) bool { return reflect.DeepEqual(r.Verdict, want) }) {
					t.Fatalf("%v, round %d: explained as %v (%v)", part, rounds, e, err)
				}
			}
			if rounds == 0 {
				plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return !slices.Contains(part, start.Deployment) })
				if len(plan.Start) != len(part) {
					t.Fatalf("%v: starts %q", part, started(plan))
				}
			}
			if last := slices.Contains(started(plan), "r1/a@v2"); last == waits {
				t.Fatalf("%v, round %d: starts %q, waits %q", part, rounds, started(plan), blockers(plan))
			} else if last {
				break
			}
			carryOut(t, &s, plan, now, rollout.JobSuccessful)
		}
	}
}

// TestVersionWaitsAfterItsMembers: a member comes after another one, and its version needs a third.
// It is told of the version when the member that comes first has ended, in the plan that begins the
// execution as in those that follow.
func TestVersionWaitsAfterItsMembers(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v2" && v.Deployment == "a" {
			v.Dependencies = []rollout.VersionDependency{{Deployment: "c", VersionSelector: "version.tag == 'v2'"}}
		}
	}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'b'","appliesTo":"deployment.name == 'a'"}}`))
	for round, want := range []struct{ starts, waits string }{
		{"[r1/b@v2 r1/c@v2]", "[r1/a@v2: bracket_waits_for_members]"},
		{"[r1/c@v2]", "[r1/a@v2: bracket_waits_for_members]"}, // b is at work
		{"[r1/c@v2]", "[r1/a@v2: version_dependency_unmet]"},  // b has ended
		{"[r1/a@v2]", "[]"},
	} {
		now := minute(round)
		plan := mustPlan(t, set, s, now)
		if starts, waits := fmt.Sprint(started(plan)), fmt.Sprint(blockers(plan)); starts != want.starts || waits != want.waits {
			t.Fatalf("round %d: starts %s, waits %s", round, starts, waits)
		}
		switch round {
		case 0:
			plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Deployment == "c" })
			carryOut(t, &s, plan, now, rollout.JobInProgress)
		case 1:
			b := &s.Targets[1]
			b.Jobs[0].Status, b.Jobs[0].CompletedAt = rollout.JobSuccessful, now
		case 2:
			carryOut(t, &s, plan, now, rollout.JobSuccessful)
		}
	}
}

// TestVersionsOneAfterTheOther: a version that needs the one before it, of its own deployment, is
// brought by a bracket to a target that runs that one, and to no other.
func TestVersionsOneAfterTheOther(t *testing.T) {
	s := fleet(2, "v2", map[string][]string{"a": {"v1", "v2", "v3"}})
	s.Versions[2].Dependencies = []rollout.VersionDependency{{Deployment: "a", VersionSelector: "version.tag == 'v2'"}}
	s.Targets[1].Current = "v1"
	for _, rules := range []string{`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, `{"resourceConcurrency":{"groupSelector":"true","limit":2}}`} {
		got := started(mustPlan(t, compile(t, policy(rules)), s, t0))
		if !slices.Contains(got, "r1/a@v3") || slices.Contains(got, "r2/a@v3") {
			t.Errorf("%s: starts %q", rules, got)
		}
	}
}

// TestDependencyOnAVersionOfAMember: a rule that names a member by its version orders the two where
// the execution brings that version, or the member runs it. Where it does neither, because the
// version is not there yet, not deployable or not for this resource, nobody is ordered, and the
// rule holds the execution. When the version comes later it does not let past a group that was
// locked without it.
func TestDependencyOnAVersionOfAMember(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"D","deploymentDependency":{"dependsOn":"deployment.name == 'b' && version.tag == 'v2'","appliesTo":"deployment.name == 'c'"}}`))
	for _, row := range []struct {
		why   string
		edit  func(s *rollout.Snapshot, b2 *rollout.Version)
		first []string // what starts, and what when that has succeeded
		then  []string
	}{
		{"the execution brings it", func(*rollout.Snapshot, *rollout.Version) {}, []string{"r1/b@v2"}, []string{"r1/c@v2"}},
		{"it is there", func(s *rollout.Snapshot, _ *rollout.Version) { s.Targets[0].Current = "v2" }, []string{"r1/c@v2"}, nil},
		{"it is not deployable", func(_ *rollout.Snapshot, b2 *rollout.Version) { b2.Status = "building" }, nil, nil},
		{"it is for others", func(_ *rollout.Snapshot, b2 *rollout.Version) { b2.TargetSelector = "resource.name == 'r2'" }, nil, nil},
		{"the member is elsewhere, and not here", func(s *rollout.Snapshot, _ *rollout.Version) {
			s.Resources = append(s.Resources, rollout.Resource{ID: "r2", Name: "r2"})
			s.Targets[0].Resource, s.Targets[0].Current = "r2", "v2"
		}, []string{"r1/c@v2"}, nil},
		{"it comes later", func(_ *rollout.Snapshot, b2 *rollout.Version) { b2.CreatedAt = minute(1) }, nil, []string{"r1/b@v2"}},
		{"it comes later, and is not deployable", func(_ *rollout.Snapshot, b2 *rollout.Version) { b2.CreatedAt, b2.Status = minute(1), "building" }, nil, nil},
	} {
		s := fleet(1, "v1", map[string][]string{"b": {"v1", "v2"}, "c": {"v1", "v2"}})
		row.edit(&s, &s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "b" && v.ID == "v2" })])
		plan := mustPlan(t, set, s, t0)
		if got := started(plan); !slices.Equal(got, row.first) {
			t.Errorf("%s: starts %q, waits %q", row.why, got, blockers(plan))
		}
		if wait, _ := plan.Waiting.Of(s.Targets[1].TargetID); row.first == nil && !slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonDependencyUnmet && v.Rule == "D" }) {
			t.Errorf("%s: waits %q", row.why, blockers(plan))
		}
		carryOut(t, &s, plan, minute(1), rollout.JobSuccessful)
		plan = mustPlan(t, set, s, minute(2))
		if got := started(plan); !slices.Equal(got, row.then) {
			t.Errorf("%s: then starts %q, waits %q", row.why, got, blockers(plan))
		}
	}
}

// TestNamedByItsVersion: whom a rule that names members by their versions orders, and when it is a
// condition that holds the execution. It would order the two if b had got its version that is still
// being built.
func TestNamedByItsVersion(t *testing.T) {
	for _, row := range []struct {
		why, on  string
		building string // the version of b
		current  string // of b
		starts   string
	}{
		{"b, by the version that it gets", "version.tag == 'v2'", "v9", "v1", "[r1/b@v2]"},
		{"nobody: that c gets the version itself does not count", "version.tag == 'v2'", "v2", "v1", "[]"},
		{"nobody: what b gets has no such key", "deployment.name == 'b' && (version.tag == 'v9' || version.metadata['x'] == 'y')", "v9", "v1", "[]"},
		{"b, by the first version there is, on a resource where it runs nothing", "deployment.name == 'b' && version.tag == 'v1'", "v2", "", "[r1/b@v1]"},
	} {
		s := fleet(1, "v1", map[string][]string{"b": {"v1", "v2", "v9"}, "c": {"v1", "v2"}})
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.ID == "v9" && row.building != "v9" })
		for k := range s.Versions {
			if v := &s.Versions[k]; v.Deployment == "b" && v.ID == row.building {
				v.Status = "building"
			}
		}
		s.Targets[0].Current = row.current
		set := compile(t, policy(alone+`,{"deploymentDependency":{"dependsOn":"`+row.on+`","appliesTo":"deployment.name == 'c'"}}`))
		if plan := mustPlan(t, set, s, t0); fmt.Sprint(started(plan)) != row.starts {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestNamesNobodyYet: a rule names a member by a version that does not exist yet, and the member is
// not on the resource. It names nobody, so it blocks; once there is such a version it orders the
// two, and a member that is not there is satisfied. The verdict says that the version ends the
// wait.
func TestNamesNobodyYet(t *testing.T) {
	set := compile(t, policy(alone+`,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'a' && version.tag == 'v3'","appliesTo":"deployment.name == 'c'"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
	s.Targets = s.Targets[1:] // c alone on r1
	s.Targets[1].Current, s.Targets[2].Current = "v2", "v2"
	plan := mustPlan(t, set, s, t0)
	blockers := waitingOf(plan)[0].Blockers
	if own := blockers[len(blockers)-1]; own.String() != "dependency_unmatched, waits for a change of the policy or a version of a" {
		t.Errorf("waits for %v", blockers)
	}
	s.State, s.Versions = plan.State, append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: "building", CreatedAt: t0})
	if got := started(mustPlan(t, set, s, t0.Add(time.Minute))); !slices.Equal(got, []string{"r1/c@v2"}) {
		t.Errorf("then starts %q", got)
	}
}

// TestNamesNobodyBeforeItsCreation: a version whose creation is still in the future does not exist,
// so a rule that names a member by it names nobody until then. The plan wakes the host at that
// instant.
func TestNamesNobodyBeforeItsCreation(t *testing.T) {
	set := compile(t, policy(alone+`,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'a' && version.tag == 'v3'","appliesTo":"deployment.name == 'c'"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
	s.Targets = s.Targets[1:] // c alone on r1
	s.Targets[1].Current, s.Targets[2].Current = "v2", "v2"
	without := mustPlan(t, set, s, t0)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: "building", CreatedAt: t0.Add(time.Minute)})
	plan := mustPlan(t, set, s, t0)
	if got, want := fmt.Sprint(started(plan), blockers(plan)), fmt.Sprint(started(without), blockers(without)); got != want {
		t.Errorf("with a version of the future: %s, without it: %s", got, want)
	}
	if !plan.Next.Equal(t0.Add(time.Minute)) {
		t.Errorf("next is %v", plan.Next)
	}
	findings, err := set.Lint(s, t0, time.Hour, rollout.LintOptions{})
	if err != nil || slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.Severity == rollout.SeverityError }) {
		t.Errorf("time opens it, and Lint finds %v %v", findings, err)
	}
	s.State = plan.State
	if got := started(mustPlan(t, set, s, plan.Next)); !slices.Equal(got, []string{"r1/c@v2"}) {
		t.Errorf("then starts %q", got)
	}
}

// TestBegunWhateverBecomesOfWhatWasNeeded: a rule that reads versions orders two members, and the
// first has come when somebody takes it back by hand. The other one runs nevertheless, since its
// resource would stay drained for ever. Where nothing has begun yet, it waits.
func TestBegunWhateverBecomesOfWhatWasNeeded(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"D","deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && version.tag == 'v2'"}}`))
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Resource != "r1" })
	if got := started(plan); !slices.Equal(got, []string{"r1/db@v2"}) {
		t.Fatalf("starts %q", got)
	}
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	for k := range s.Targets {
		if own := &s.Targets[k]; own.Deployment == "db" {
			own.Jobs = append([]rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(1), CompletedAt: minute(1)}}, own.Jobs...)
			own.Current = "v1"
		}
	}
	plan = mustPlan(t, set, s, minute(2))
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v2", "r2/db@v2"}) || !slices.Equal(blockers(plan), []string{"r2/api@v2: bracket_waits_for_members"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
}
