package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// silent compiles expressions that do not say what they require, so that all are asked about all.
type silent struct {
	*selector.Env
	asked *int
}

type silentMatcher struct {
	s     *selector.Selector
	asked *int
}

func (c silent) Matcher(expression string) (rollout.Matcher, error) {
	s, err := c.Compile(expression)
	return silentMatcher{s, c.asked}, err
}

func (m silentMatcher) Variables() []string { return m.s.Variables() }

func (m silentMatcher) Match(vars interface{ Lookup(string) (any, bool) }) (bool, error) {
	*m.asked++
	return m.s.Match(vars)
}

// TestRequiredChangesNothing: what selectors say that they require saves questions, and changes
// nothing that a plan or Lint says: not where a key is missing, which is counted, nor where a text is
// so long that an expression fails which would say no of another text.
func TestRequiredChangesNothing(t *testing.T) {
	env, seen := newEnv(t), testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
		labels := func() map[string]string {
			m := map[string]string{}
			for _, key := range []string{"team", "blob"} {
				if value := pick("label", "", "a", "b", "c", strings.Repeat("a", 300), strings.Repeat("a", 200_000)); value != "" {
					m[key] = value
				}
			}
			return m
		}
		ofResource := []string{"resource.id", "resource.metadata['team']", "resource.metadata['blob']"}
		all := append([]string{"deployment.id", "deployment.metadata['team']", "deployment.metadata['blob']", "environment.id", "environment.metadata['team']"}, ofResource...)
		test := func(variables []string) string {
			about := pick("about", variables...)
			return pick("form", about+" == '%s'", about+" in ['%s', 'd']", about+" != '%s'", "'%s' == "+about, about+".startsWith('%s')", "int("+about+") == 1 || "+about+" == '%s'")
		}
		expression := func(variables []string) string {
			text := test(variables)
			for range between(t, "more", 0, 2) {
				text = "(" + text + ")" + pick("with", " && ", " || ") + "(" + test(variables) + ")"
			}
			for strings.Contains(text, "%s") {
				text = strings.Replace(text, "%s", pick("value", "a", "b", "c"), 1)
			}
			return text
		}
		var s rollout.Snapshot
		for _, id := range []string{"a", "b"} {
			s.Environments = append(s.Environments, rollout.Environment{ID: id, Metadata: labels()})
			s.Resources = append(s.Resources, rollout.Resource{ID: id, Metadata: labels()})
		}
		for _, d := range []string{"a", "b", "c"} {
			s.Deployments = append(s.Deployments, rollout.Deployment{ID: d, Metadata: labels()})
			s.Versions = append(s.Versions, rollout.Version{ID: "v1", Deployment: d, Status: rollout.VersionReady, CreatedAt: t0})
			for _, e := range s.Environments {
				for _, r := range s.Resources {
					s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: e.ID, Deployment: d}})
				}
			}
		}
		for k := range oneOf(t, "scoped", 0, 3, 20) {
			s.Versions = append(s.Versions, rollout.Version{
				ID: fmt.Sprintf("s%d", k), Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(-k), Metadata: labels(),
				TargetSelector: expression(oneOf(t, "of", ofResource, all, append([]string{"version.metadata['blob']"}, ofResource...))),
			})
		}
		var policies []rollout.Policy
		for k := range between(t, "policies", 1, 5) {
			rule := rollout.Rule{ID: fmt.Sprintf("r%d", k), AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(1)}}
			policies = append(policies, rollout.Policy{Name: fmt.Sprintf("p%d", k), Selector: expression(all), Rules: []rollout.Rule{rule}})
		}
		for k := range oneOf(t, "pools", 0, 3, 20) { // few are asked about every resource
			pool := &concurrency.Rule{GroupSelector: expression(ofResource), Limit: concurrency.Count(between(t, "limit", 0, 1)), GroupBy: pick("by", "", "resource.metadata['team']")}
			if chance(t, "shared", 30) {
				*pool = concurrency.Rule{GroupSelector: pool.GroupSelector, Limit: concurrency.Count(1), SharedPool: "shared"}
			}
			p := &policies[uniform(t, "policy", len(policies))]
			p.Rules = append(p.Rules, rollout.Rule{ID: fmt.Sprintf("c%d", k), ResourceConcurrency: pool})
		}
		if chance(t, "bracket", 30) {
			p := &policies[uniform(t, "bracketed", len(policies))]
			p.Rules = append(p.Rules, rollout.Rule{ID: "bracket", DeploymentBracket: &bracket.Rule{DeploymentSelector: "true", ReadinessMode: bracket.Immediate, MemberRoles: &bracket.MemberRoles{}}})
		}
		for k := range oneOf(t, "dependencies", 0, 3, 20) { // of few rules all are asked about all deployments
			d := &rollout.DeploymentDependency{DependsOn: expression(oneOf(t, "names", all, append([]string{"version.id"}, all...))), AnyEnvironment: chance(t, "anyEnvironment", 30)}
			if chance(t, "appliesTo", 70) {
				d.AppliesTo = expression(all)
			}
			if chance(t, "all", 30) {
				d.Match = rollout.MatchAll
			}
			p := &policies[uniform(t, "policy", len(policies))]
			p.Rules = append(p.Rules, rollout.Rule{ID: fmt.Sprintf("d%d", k), DeploymentDependency: d})
		}
		says := func(compiler rollout.Compiler) string {
			set, err := rollout.Compile(policies, compiler)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := set.Plan(s, minute(1))
			if cycle, members := new(*rollout.CycleError), new(*bracket.CycleError); errors.As(err, cycle) || errors.As(err, members) {
				seen["cycle"]++
				return err.Error()
			}
			findings, lintErr := set.Lint(s, minute(1), time.Hour, rollout.LintOptions{})
			keys, failed := set.PoolKeys(s.Resources)
			if err := errors.Join(err, lintErr); err != nil {
				t.Fatal(err)
			}
			for _, d := range plan.Diagnostics {
				seen[string(d.Code)]++
			}
			for waiting := range plan.Waiting.All() {
				for _, verdict := range waiting.Blockers {
					seen[string(verdict.Reason)]++
				}
			}
			return text(t, plan) + text(t, findings) + fmt.Sprint(keys, failed)
		}
		few, many := 0, 0
		if diff := cmp.Diff(says(silent{env, &many}), says(counting{env, &few})); diff != "" {
			t.Fatalf("%s: %s", text(t, policies), diff)
		}
		if few > many {
			t.Fatalf("%d questions, without what is required %d", few, many)
		}
		if few < many {
			seen["saved"]++
		}
	}, "missing_key", "selector_error", "scope_missing_key", "saved", "cycle", string(rollout.ReasonDependencyUnmet))
}

// TestScopesOfLongTexts: where a text of the version, its deployment or the environment is so long
// that an expression fails, it fails on every resource, also where it would say no of another text.
func TestScopesOfLongTexts(t *testing.T) {
	long := map[string]string{"blob": strings.Repeat("a", 200_000)}
	for _, of := range []string{"version", "deployment", "environment", "resource"} {
		s := apart(1, 1, 12)
		for k := range s.Resources {
			own := rollout.Version{ID: fmt.Sprintf("s%02d", k), Deployment: "d0000", Status: rollout.VersionReady, CreatedAt: t0.Add(30 * time.Second),
				TargetSelector: fmt.Sprintf("%[1]s.metadata['blob'].contains('b') && resource.id == '%[2]s'", of, s.Resources[k].ID)}

			if of == "version" {
				own.Metadata = long
			}
			if of == "resource" {
				s.Resources[k].Metadata = long
			}
			s.Versions = append(s.Versions, own)
		}
		if of == "deployment" {
			s.Deployments[0].Metadata = long
		}
		if of == "environment" {
			s.Environments[0].Metadata = long
		}
		says := func(compiler rollout.Compiler) rollout.Plan {
			set, err := rollout.Load([]byte(policy(`{"anyApproval":{"minApprovals":1}}`)), compiler)
			if err != nil {
				t.Fatal(err)
			}
			return mustPlan(t, set, s, t0.Add(time.Minute))
		}
		n := 0
		want := says(silent{newEnv(t), &n})
		if diff := cmp.Diff(text(t, want), text(t, says(newEnv(t)))); diff != "" || len(want.Diagnostics) != 12 || want.Diagnostics[0].Count != 12 {
			t.Errorf("%s: %v %s", of, want.Diagnostics, diff)
		}
	}
}

// TestDependenciesOfLongTexts: where a text of a deployment or the environment is so long that the
// expression of a dependency rule fails, it fails whatever deployment it requires.
func TestDependenciesOfLongTexts(t *testing.T) {
	const many = 12
	long := map[string]string{"blob": strings.Repeat("a", 200_000)}
	for _, of := range []string{"deployment", "environment"} {
		for _, rule := range []string{
			`{"deploymentDependency":{"appliesTo":"%[1]s.metadata['blob'].contains('b') && deployment.id == '%[2]s'","dependsOn":"true"}}`,
			`{"deploymentDependency":{"dependsOn":"%[1]s.metadata['blob'].contains('b') && deployment.id == '%[2]s'"}}`,
		} {
			versions := map[string][]string{}
			var rules []string
			for k := range many {
				id := fmt.Sprint("d", k)
				versions[id], rules = []string{"v1", "v2"}, append(rules, fmt.Sprintf(rule, of, id))
			}
			s := fleet(1, "v1", versions)
			for k := range s.Deployments {
				s.Deployments[k].Metadata = map[string]string{"blob": "a"}
			}
			if of == "deployment" {
				s.Deployments[0].Metadata = long
			} else {
				s.Environments[0].Metadata = long
			}
			failsAlike(t, of+", "+rule, policy(strings.Join(rules, ",")), s, many)
		}
	}
}

// failsAlike makes sure that so many expressions fail in a plan, at least, and that it is the same
// plan where expressions do not tell what they require.
func failsAlike(t *testing.T, what, policies string, s rollout.Snapshot, many int) {
	t.Helper()
	says := func(compiler rollout.Compiler) string {
		set, err := rollout.Load([]byte(policies), compiler)
		if err != nil {
			t.Fatal(err)
		}
		return text(t, mustPlan(t, set, s, t0.Add(time.Minute)))
	}
	n := 0
	want := says(silent{newEnv(t), &n})
	if failed := strings.Count(want, string(rollout.ReasonSelectorError)); failed < many {
		t.Errorf("%s: %d expressions fail", what, failed)
	}
	if diff := cmp.Diff(want, says(newEnv(t))); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// TestPoliciesOfLongTexts: where a text of a deployment, an environment or a resource is so long that
// the selector of a policy fails, it fails whichever of them it requires, also on the last.
func TestPoliciesOfLongTexts(t *testing.T) {
	const many = 12
	long := map[string]string{"blob": strings.Repeat("a", 200_000)}
	for _, of := range []string{"deployment", "environment", "resource"} {
		var policies []string
		for k := range many {
			policies = append(policies, fmt.Sprintf(`{"name":"p%[2]d","selector":"%[1]s.metadata['blob'].contains('b') && %[1]s.id == '%[2]d'","rules":[{"anyApproval":{"minApprovals":1}}]}`, of, k))
		}
		s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), "qa")
		switch of {
		case "deployment":
			s.Deployments[1].Metadata = long
		case "environment":
			s.Environments[1].Metadata = long
		case "resource":
			s.Resources[1].Metadata = long
		}
		failsAlike(t, of, "["+strings.Join(policies, ",")+"]", s, many)
	}
}

// TestOwnPolicies: of many policies that are about one deployment, one environment or one resource
// each, a plan and Lint ask about each of these only its own, and so it is with pools and with scopes
// of versions. Who lacks the label that they are about is asked all.
func TestOwnPolicies(t *testing.T) {
	const few, factor = 50, 4
	for _, row := range []struct {
		why, selector string
		pools         bool // of that selector, too
		fleet         func(n int) rollout.Snapshot
	}{
		{"versions for resources by label", "environment.id == 'e%04d'", false, func(n int) rollout.Snapshot {
			s := apart(1, 1, n)
			for k := range n {
				s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprintf("t%04d", k)}
				own := rollout.Version{ID: fmt.Sprintf("s%04d", k), Deployment: "d0000", Status: rollout.VersionReady, CreatedAt: t0, TargetSelector: fmt.Sprintf("resource.metadata['tenant'] == 't%04d'", k)}
				s.Versions = append(s.Versions, own)
			}
			return s
		}},
		{"deployments by id", "deployment.id == 'd%04d'", false, func(n int) rollout.Snapshot { return apart(1, n, 2) }},
		{"deployments by label, among others", "resource.metadata['x'] != 'y' && deployment.metadata['team'] in ['t%04d', 'x']", false, func(n int) rollout.Snapshot {
			s := apart(1, n, 2)
			for k := range s.Deployments[1:] { // the first has none
				s.Deployments[k+1].Metadata = map[string]string{"team": fmt.Sprintf("t%04d", k+1)}
			}
			return s
		}},
		{"resources by label, in one environment", "resource.metadata['tenant'] == 't%04d' && environment.id.startsWith('e')", false, func(n int) rollout.Snapshot {
			s := apart(1, 1, n)
			for k := range s.Resources[1:] { // the first has none
				s.Resources[k+1].Metadata = map[string]string{"tenant": fmt.Sprintf("t%04d", k+1)}
			}
			return s
		}},
		{"resources by one of two ids", "resource.id in ['r-0000-0000-%05[1]d', 'x', 'r-0000-0000-%05[1]d'] || resource.id == 'y'", false, func(n int) rollout.Snapshot { return apart(1, 1, n) }},
		{"pools of resources by label", "resource.metadata['tenant'] == 't%04d'", true, func(n int) rollout.Snapshot {
			s := apart(1, 1, n)
			for k := range s.Resources[1:] { // the first has none
				s.Resources[k+1].Metadata = map[string]string{"tenant": fmt.Sprintf("t%04d", k+1)}
			}
			return s
		}},
		{"environments by id", "environment.id == 'e%04d' && deployment.id != 'x'", false, func(n int) rollout.Snapshot { return apart(n, 1, 2) }},
	} {
		cost := func(n int) (asked int) {
			var policies []rollout.Policy
			for k := range n {
				rule := rollout.Rule{ID: fmt.Sprint(k), AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(1)}}
				if row.pools {
					rule = rollout.Rule{ID: fmt.Sprint(k), ResourceConcurrency: &concurrency.Rule{GroupSelector: fmt.Sprintf(row.selector, k), Limit: concurrency.Count(1)}}
				}
				policies = append(policies, rollout.Policy{Name: fmt.Sprint(k), Selector: fmt.Sprintf(row.selector, k), Rules: []rollout.Rule{rule}})
			}
			set, err := rollout.Compile(policies, counting{newEnv(t), &asked})
			if err != nil {
				t.Fatal(err)
			}
			s := row.fleet(n)
			mustPlan(t, set, s, t0.Add(time.Minute))
			if _, err := set.Lint(s, t0.Add(time.Minute), time.Hour, rollout.LintOptions{}); err != nil {
				t.Fatal(err)
			}
			return asked
		}
		if asked, more := cost(few), cost(few*factor); asked == 0 || more > asked*factor*3/2 {
			t.Errorf("%s: %d times as many policies ask %d questions instead of %d", row.why, factor, more, asked)
		}
	}
}

// repeating compiles expressions that say what they require twice.
type repeating struct{ *selector.Env }

type repeatingMatcher struct{ *selector.Selector }

func (c repeating) Matcher(expression string) (rollout.Matcher, error) {
	s, err := c.Compile(expression)
	return repeatingMatcher{s}, err
}

func (m repeatingMatcher) Requires(prefix string) (variable, key string, values []string) {
	variable, key, values = m.Selector.Requires(prefix)
	return variable, key, append(values, values...)
}

// TestRequiredTwice: a matcher of another package may list a value twice. The policy governed twice,
// and each of its rules blocked twice. Of many dependencies each would name a deployment twice.
func TestRequiredTwice(t *testing.T) {
	set, err := rollout.Load([]byte(`{"name":"p","selector":"deployment.id == 'a'","rules":[{"id":"A","anyApproval":{"minApprovals":1}}]}`), repeating{newEnv(t)})
	if err != nil {
		t.Fatal(err)
	}
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
	if err != nil || strings.Join(e.Policies, " ") != "p" || strings.Join(blockers(plan), " ") != "r1/a@v2: approval_missing" {
		t.Errorf("governed by %v: %v, %v", e.Policies, blockers(plan), err)
	}
	var rules []string
	for k := range 10 {
		rules = append(rules, dependency("a", "b", fmt.Sprintf(" && version.tag == 'v%d'", k+10)))
	}
	if set, err = rollout.Load([]byte(policy(strings.Join(rules, ","))), repeating{newEnv(t)}); err != nil {
		t.Fatal(err)
	}
	plan = mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}}), t0)
	for waiting := range plan.Waiting.All() {
		for _, verdict := range waiting.Blockers {
			if verdict.Reason != rollout.ReasonDependencyUnmet || strings.Join(verdict.Data.Names, " ") != "b" || len(verdict.On) != 2 {
				t.Errorf("%s waits for %v", waiting.TargetID, verdict)
			}
		}
		if len(waiting.Blockers) != len(rules) {
			t.Errorf("%d of %d rules are not met", len(waiting.Blockers), len(rules))
		}
	}
	if plan.Waiting.Len() != 1 {
		t.Errorf("%d wait", plan.Waiting.Len())
	}
}

// bare compiles expressions that say nothing of themselves.
type bare struct{ *selector.Env }

type bareMatcher struct{ s *selector.Selector }

func (c bare) Matcher(expression string) (rollout.Matcher, error) {
	s, err := c.Compile(expression)
	return bareMatcher{s}, err
}

func (m bareMatcher) Match(vars interface{ Lookup(string) (any, bool) }) (bool, error) {
	return m.s.Match(vars)
}

// TestLintOfBareMatchers: an expression that does not say which variables it reads may read a key that
// nobody has.
func TestLintOfBareMatchers(t *testing.T) {
	for _, compiler := range []rollout.Compiler{newEnv(t), bare{newEnv(t)}} {
		set, err := rollout.Load([]byte(policy(`{"id":"d","deploymentDependency":{"appliesTo":"deployment.name == 'a'","dependsOn":"deployment.name == 'b' && version.metadata['soak'] == 'done'"}}`)), compiler)
		if err != nil {
			t.Fatal(err)
		}
		findings, err := set.Lint(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}}), t0, time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.Code == rollout.LintSelectorUnknownKeys }) {
			t.Errorf("%T: nobody has the key: %v", compiler, findings)
		}
	}
}
