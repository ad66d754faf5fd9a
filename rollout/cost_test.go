package rollout_test

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// counting counts how often expressions are asked.
type counting struct {
	*selector.Env
	asked *int
}

func (c counting) Matcher(expression string) (rollout.Matcher, error) {
	s, err := c.Compile(expression)
	return counted{s, c.asked}, err
}

type counted struct {
	*selector.Selector
	asked *int
}

func (c counted) Match(vars interface{ Lookup(string) (any, bool) }) (bool, error) {
	*c.asked++
	return c.Selector.Match(vars)
}

// TestCostGrowsWithTheWork: four times as much of anything that a host may have much of costs about
// four times as much, in bytes and in expressions that are asked. A square would be sixteen times.
func TestCostGrowsWithTheWork(t *testing.T) {
	const few, factor = 100, 4
	members := `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
	curve := `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`
	retries := `{"retry":{"maxRetries":1000000}}`
	resources := func(n int) rollout.Snapshot { return fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}}) }
	deployments := func(n int) rollout.Snapshot {
		versions := map[string][]string{}
		for k := range n {
			versions[fmt.Sprintf("d%d", k)] = []string{"v1", "v2"}
		}
		return fleet(2, "v1", versions)
	}
	overridden := func(n int) rollout.Snapshot {
		s := resources(n)
		for k, r := range s.Resources {
			at := t0.Add(time.Duration(k))
			s.Overrides = append(s.Overrides, override("rule", only(r.ID), func(o *rollout.Override) { o.ID, o.CreatedAt = r.ID, at }))
		}
		return s
	}
	byResource := `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`
	limit := `{"resourceConcurrency":{"groupSelector":"true","limit":1}}`
	kinds := `{"id":"rule","resourceConcurrency":{"groupSelector":"true","groupBy":"resource.kind","maxActiveKeys":1,"limit":"100%"}}`
	stuck := `{"resourceConcurrency":{"groupSelector":"true","limit":"100%","stuckAfterSeconds":60,"onStuck":"quarantine"}}`
	for _, row := range []struct {
		why   string
		rules string
		fleet func(n int) rollout.Snapshot
	}{
		{"deployments of one resource that have slots", limit, func(n int) rollout.Snapshot {
			s := deployments(4 * n) // few would cost less than the rest of the plan, even squared
			plan := mustPlan(t, compile(t, policy(limit)), s, t0)
			s.State = mustCommit(t, plan, t0)
			return s
		}},
		{"resources that are stuck at once", stuck, func(n int) rollout.Snapshot {
			return atWork(t, compile(t, policy(stuck)), resources(8*n), t0) // as above
		}},
		{"targets under a curve", curve, resources},
		{"deployments that depend on one of them", `{"deploymentDependency":{"dependsOn":"deployment.name == 'd0'","appliesTo":"deployment.name != 'd0'"}}`, deployments},
		{"deployments with versions for others", curve, func(n int) rollout.Snapshot {
			s := deployments(4 * n) // as above
			for k := range 4 * n {
				for v := range 8 {
					s.Versions = append(s.Versions, rollout.Version{
						ID: fmt.Sprintf("v3.%d", v), Deployment: fmt.Sprintf("d%d", k), Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(v)), TargetSelector: "resource.name == 'nobody'",
					})
				}
			}
			return s
		}},
		{"deployments that share no resources", byResource, func(n int) rollout.Snapshot { return apart(1, 8*n, 2) }},
		{"environments that share no resources", byResource, func(n int) rollout.Snapshot { return apart(8*n, 1, 2) }},
		{"environments of a bracket that share no resources", members + curve, func(n int) rollout.Snapshot { return apart(8*n, 1, 2) }},
		{"members of a bracket that depend on one of them", members + `{"deploymentDependency":{"dependsOn":"deployment.name == 'd0'","appliesTo":"deployment.name != 'd0'"}}`, deployments},
		{"environments of a bracket", members + curve, func(n int) rollout.Snapshot {
			var more []string
			for k := range n {
				more = append(more, fmt.Sprintf("e%d", k))
			}
			return inEnvironments(resources(2), more...)
		}},
		{"attempts of a member", members + retries, func(n int) rollout.Snapshot {
			s := resources(1)
			plan := mustPlan(t, compile(t, policy(members+retries)), s, t0)
			s.State = mustCommit(t, plan, t0)
			first := strings.TrimSuffix(plan.Start[0].Run, "1/deploy")
			for k := range 8 * n { // few would cost less than the rest of the plan
				s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{
					Run: fmt.Sprint(first, k+1, "/deploy"), Version: "v2", Status: rollout.JobFailure, CreatedAt: t0.Add(time.Duration(k + 1)),
				})
			}
			return s
		}},
		{"environments of a bracket, and resources that are gone", members + curve, func(n int) rollout.Snapshot {
			s := apart(8*n, 1, 1)
			for k := range 16 * n {
				s.DeletedResources = append(s.DeletedResources, fmt.Sprintf("gone-%d", k))
			}
			return s
		}},
		{"environments of a bracket that a host has not read", members + curve, func(n int) rollout.Snapshot {
			s := atWork(t, compile(t, policy(members[:len(members)-1])), apart(8*n, 1, 1), t0.Add(time.Minute))
			s.Environments, s.Resources, s.Targets = s.Environments[:4*n], s.Resources[:4*n], s.Targets[:4*n]
			return s
		}},
		{"environments of a bracket, and commands", members + curve, func(n int) rollout.Snapshot {
			s := apart(8*n, 1, 1)
			for k := range n {
				s.Commands = append(s.Commands, bracket.Command{
					ID: fmt.Sprint(k), Kind: bracket.Abandon, By: "ann", Group: bracket.GroupID("p/deploymentBracket/0", fmt.Sprintf("e%04d", k), 9), Resource: s.Resources[k].ID,
				})
			}
			return s
		}},
		{"environments that wait for one of them", `{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'prod'"}}`, func(n int) rollout.Snapshot {
			var more []string
			for k := range n {
				more = append(more, fmt.Sprintf("e%d", k))
			}
			return inEnvironments(resources(2), more...)
		}},
		{"resources that went on to what failed, from what awaits its verification, and from what may be gone back to", `{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'","requireVerificationPassed":true}},{"rollback":{"onJobStatuses":["failure"]}}`, func(n int) rollout.Snapshot {
			s := inEnvironments(fleet(2*n, "v1", map[string][]string{"api": {"v1", "v2", "v3"}}), "staging")
			for k := range s.Targets[2*n:] {
				before := verified(ran("v2", rollout.JobSuccessful, 1), []rollout.Verification{"", rollout.VerificationFailed}[k%2])
				s.Targets[2*n+k].Jobs = []rollout.Job{before, ran("v3", rollout.JobFailure, 3)}
			}
			return s
		}},
		{"resources that a pool cannot judge", `{"resourceConcurrency":{"groupSelector":"int(resource.metadata['cluster']) == 1","limit":1}}`, resources},
		{"overrides of an approval", `{"id":"rule","anyApproval":{"minApprovals":1}},` + curve, overridden},
		{"overrides of an approval in a bracket", `{"id":"rule","anyApproval":{"minApprovals":1}},` + members + curve, overridden},
		{"overrides of an approval in a bracket that collects", `{"id":"rule","anyApproval":{"minApprovals":1}},{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":600,"memberRoles":{}}},` + curve, overridden},
		{"overrides of a limit", `{"id":"rule","resourceConcurrency":{"groupSelector":"true","limit":1}}`, overridden},
		{"an override of a limit for all that are beyond it", `{"id":"rule","resourceConcurrency":{"groupSelector":"true","limit":1}}`, func(n int) rollout.Snapshot {
			s := resources(8 * n)
			for _, r := range s.Resources[:4*n] {
				s.Unavailable = append(s.Unavailable, r.ID)
			}
			s.Overrides = append(s.Overrides, override("rule"))
			return s
		}},
		{"resources of zones in use for an override alone, of which one may be", `{"id":"rule","resourceConcurrency":{"groupSelector":"true","groupBy":"resource.metadata['zone']","maxActiveKeys":1,"limit":2}}`, func(n int) rollout.Snapshot {
			s := resources(n)
			for k := range s.Resources {
				s.Resources[k].Metadata = map[string]string{"zone": "ab"[k%2 : k%2+1]}
			}
			for k, r := range s.Resources[:2] {
				s.Overrides = append(s.Overrides, override("rule", only(r.ID), func(o *rollout.Override) { o.ID = fmt.Sprint(k) }))
			}
			return s
		}},
		{"places that were claimed without a key and never used, and an override of their limit", kinds, func(n int) rollout.Snapshot {
			s := resources(4 * n)
			plan := mustPlan(t, compile(t, policy(kinds)), s, t0)
			s.State = mustCommit(t, plan, t0)
			for k := range s.State.Pools {
				if family := &s.State.Pools[k]; family.Confirmed != nil {
					family.Confirmed = []concurrency.Confirmation{}
				}
			}
			s.Overrides = append(s.Overrides, override("rule"))
			return s
		}},
		{"overrides of a window", `{"id":"rule","deploymentWindow":{"from":"2030-01-01T00:00:00Z","until":"2030-01-02T00:00:00Z"}},` + curve, overridden},
		{"versions for others", members + curve, func(n int) rollout.Snapshot {
			s := resources(20)
			for k := range n {
				s.Versions = append(s.Versions, rollout.Version{
					ID: fmt.Sprintf("v3.%d", k), Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(k)), TargetSelector: "resource.metadata['cluster'] == 'west'",
				})
			}
			return s
		}},
	} {
		parsed, err := rollout.ParsePolicies([]byte(policy(row.rules)))
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		set, err := rollout.Compile(parsed, counting{newEnv(t), &asked})
		if err != nil {
			t.Fatal(err)
		}
		cost := func(n int) (bytes, expressions float64) {
			s := row.fleet(n)
			asked = 0
			_, bytes = planCost(t, set, s, t0.Add(time.Hour))
			return bytes, float64(asked)
		}
		cost(few) // what is made once
		bytes, expressions := cost(few)
		moreBytes, moreExpressions := cost(factor * few)
		if moreBytes > 2*factor*bytes || moreExpressions > 2*factor*(expressions+few) {
			t.Errorf("%s: %d times as many take %.1f times the bytes (%.0f and %.0f), and ask %.0f instead of %.0f expressions", row.why, factor, moreBytes/bytes, bytes, moreBytes, moreExpressions, expressions)
		}
	}
}

// planCost plans, and returns how many bytes that allocates. mustPlan writes the state down, too, into
// buffers that encoding/json keeps or makes anew as it likes.
func planCost(t *testing.T, set *rollout.PolicySet, s rollout.Snapshot, now time.Time) (rollout.Plan, float64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	plan, err := set.Plan(s, now)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	return plan, float64(after.TotalAlloc - before.TotalAlloc)
}

// dependency is a rule by which one deployment depends on another one.
func dependency(from, to, version string) string {
	return fmt.Sprintf(`{"deploymentDependency":{"appliesTo":"deployment.name == '%s'","dependsOn":"deployment.name == '%s'%s"}}`, from, to, version)
}

// TestDependenciesAskWhomTheyMayBeAbout: where each deployment has a dependency of its own, neither a
// plan nor Lint asks rules about deployments with other names.
func TestDependenciesAskWhomTheyMayBeAbout(t *testing.T) {
	const few, factor = 50, 8
	bracketed := `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	for _, row := range []struct {
		why      string
		policies func(rules []string) string
	}{
		{"in one policy", func(rules []string) string { return policy(strings.Join(rules, ",")) }},
		{"in a policy each", func(rules []string) string {
			for k, rule := range rules {
				rules[k] = fmt.Sprintf(`{"name":"own-%d","selector":"deployment.name == 'd%d'","rules":[%s]}`, k, k, rule)
			}
			return "[" + strings.Join(rules, ",") + "]"
		}},
		{"in one policy, between members of a bracket", func(rules []string) string {
			return policy(strings.Join(append(rules, bracketed), ","))
		}},
	} {
		for _, version := range []string{"", " && version.tag == 'v1'", " && version.tag == 'v2'"} {
			cost := func(n int) int {
				versions := map[string][]string{"d0": {"v1", "v2"}}
				var rules []string
				for k := range n - 1 {
					versions[fmt.Sprint("d", k+1)] = []string{"v1", "v2"}
					rules = append(rules, dependency(fmt.Sprint("d", k), fmt.Sprint("d", k+1), version))
				}
				asked := 0
				set, err := rollout.Load([]byte(row.policies(rules)), counting{newEnv(t), &asked})
				if err != nil {
					t.Fatal(err)
				}
				s := fleet(2, "v1", versions)
				plan := mustPlan(t, set, s, t0.Add(time.Hour))
				if _, err := set.Lint(s, t0.Add(time.Hour), time.Hour, rollout.LintOptions{}); err != nil {
					t.Fatal(err)
				}
				if starts := len(plan.Start); starts == 0 || starts+plan.Waiting.Len() != 2*n {
					t.Errorf("%s%s: %d start and %d wait", row.why, version, starts, plan.Waiting.Len())
				}
				return asked
			}
			if asked, more := cost(few), cost(factor*few); asked < few || float64(more) > 1.1*factor*float64(asked) {
				t.Errorf("%s%s: %d times as many ask %d expressions instead of %d", row.why, version, factor, more, asked)
			}
		}
	}
}

// TestVersionsThatDependAreAskedOnce: which versions satisfy a dependency is not asked again for every
// environment and for every version that has the same one.
func TestVersionsThatDependAreAskedOnce(t *testing.T) {
	asked := 0
	set, err := rollout.Load([]byte(policy(noRule)), counting{newEnv(t), &asked})
	if err != nil {
		t.Fatal(err)
	}
	var releases, more []string
	for k := range 20 {
		releases, more = append(releases, fmt.Sprint("v", k)), append(more, fmt.Sprint("e", k))
	}
	s := inEnvironments(fleet(1, "", map[string][]string{"api": releases, "db": releases}), more...)
	for k := range s.Versions {
		if v := &s.Versions[k]; v.Deployment == "api" {
			v.Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.tag == 'v0'"}}
		}
	}
	mustPlan(t, set, s, t0)
	if most := len(s.Targets) + len(releases); asked > most {
		t.Errorf("%d questions, not at most %d: a policy once for each target, and the dependency once for each version", asked, most)
	}
}

// TestCostOfComparing: what is looked up for each of many is not compared with all the others, which
// costs no bytes and asks no expression. Four times as many cost about four times the processor time,
// and squares would be sixteen times.
func TestCostOfComparing(t *testing.T) {
	const few, factor, most = 5000, 4, 9
	const bracketed = `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	deployments := func(n int) rollout.Snapshot {
		versions := map[string][]string{}
		for k := range n {
			versions[fmt.Sprint("d", k)] = []string{"v1", "v2"}
		}
		return fleet(1, "v1", versions)
	}
	frozen := func(s rollout.Snapshot, n int, deployment func(k int) string) rollout.Snapshot {
		for k := range n {
			s.Freezes = append(s.Freezes, freeze(func(z *rollout.Freeze) { z.ID = fmt.Sprint(k) }, frozenOf(deployment(k))))
		}
		return s
	}
	chain := func(n int, more, version string) string { // each of n deployments depends on the next one
		var rules []string
		if more != "" {
			rules = append(rules, more)
		}
		for k := range n - 1 {
			rules = append(rules, dependency(fmt.Sprint("d", k), fmt.Sprint("d", k+1), version))
		}
		return policy(strings.Join(rules, ","))
	}
	for _, row := range []struct {
		why  string
		of   func(n int) (*rollout.PolicySet, rollout.Snapshot)
		want func(plan rollout.Plan, n int) bool
	}{
		{"freezes of one member of a bracket", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			return compile(t, policy(bracketed)), frozen(deployments(2), n, func(int) string { return "d0" })
		}, func(plan rollout.Plan, _ int) bool { return plan.Waiting.Len() == 2 }},
		{"freezes of all members of a bracket", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			return compile(t, policy(bracketed)), frozen(deployments(10), n, func(int) string { return "" })
		}, func(plan rollout.Plan, _ int) bool { return plan.Waiting.Len() == 10 }},
		{"freezes of a deployment each", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			return compile(t, policy(noRule)), frozen(deployments(n), n, func(k int) string { return fmt.Sprint("d", k) })
		}, func(plan rollout.Plan, n int) bool { return plan.Waiting.Len() == n }},
		{"overrides of one rule and one version id, for a deployment each", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			s := deployments(n)
			for k := range n {
				s.Overrides = append(s.Overrides, rollout.Override{ID: fmt.Sprint("o", k), Rule: "ok", Version: "v2", Deployment: fmt.Sprint("d", k), CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"})
			}
			return compile(t, policy(`{"id":"ok","anyApproval":{"minApprovals":1}}`)), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == n }},
		{"overrides of one resource, for a deployment each", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			s := deployments(n)
			for k := range n {
				s.Overrides = append(s.Overrides, override("ok", only("r1"), func(o *rollout.Override) { o.ID, o.Deployment = fmt.Sprint(k), fmt.Sprint("d", k) }))
			}
			return compile(t, policy(`{"id":"ok","anyApproval":{"minApprovals":1}}`)), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == n }},
		{"overrides for all deployments, each of a rule that governs one", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			s := deployments(n / 10)
			var policies []string
			for k := range n / 10 {
				policies = append(policies, fmt.Sprintf(`{"name":"of %d","selector":"deployment.name == 'd%d'","rules":[{"id":"r%d","anyApproval":{"minApprovals":1}}]}`, k, k, k))
				s.Overrides = append(s.Overrides, override(fmt.Sprint("r", k)))
			}
			return compile(t, "["+strings.Join(policies, ",")+"]"), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == n/10 && len(plan.Diagnostics) == 0 }},
		{"overrides for all deployments of a resource, of a rule that governs none of them", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			s := deployments(n)
			s.Resources = append(s.Resources, rollout.Resource{ID: "r2", Name: "r2"})
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "d0"}, Current: "v2"})
			for k := range n {
				s.Overrides = append(s.Overrides, override("ok", only("r1"), func(o *rollout.Override) { o.ID = fmt.Sprint(k) }))
			}
			return compile(t, `{"name":"p","selector":"resource.name == 'r2'","rules":[{"id":"ok","anyApproval":{"minApprovals":1}}]}`), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == n && len(plan.Diagnostics) == n }},
		{"overrides for all targets, each for a version of its own, of a rule that governs none of them", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			versions := []string{"v1"}
			for k := range n {
				versions = append(versions, fmt.Sprint("w", k))
			}
			s := fleet(n, "v1", map[string][]string{"api": versions, "web": {"v1"}})
			s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == "web" && target.Resource != "r1" })
			for k := range n {
				s.Overrides = append(s.Overrides, override("ok", func(o *rollout.Override) { o.ID, o.Version = fmt.Sprint(k), fmt.Sprint("w", k) }))
			}
			return compile(t, `{"name":"p","selector":"deployment.name == 'web'","rules":[{"id":"ok","anyApproval":{"minApprovals":1}}]}`), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == n && len(plan.Diagnostics) == n }},
		{"versions each of which needs the next one", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			s := deployments(n / 5)
			for k := range s.Versions {
				v := &s.Versions[k]
				if d, _ := strconv.Atoi(v.Deployment[1:]); v.ID == "v2" && d+1 < n/5 {
					v.Dependencies = []rollout.VersionDependency{{Deployment: fmt.Sprint("d", d+1), VersionSelector: "version.tag == 'v2'"}}
				}
			}
			return compile(t, policy(noRule)), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == 1 && plan.Waiting.Len() == n/5-1 }},
		{"deployments each of which depends on the next one", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			return compile(t, chain(n/5, "", "")), deployments(n / 5)
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == n/5 }},
		{"members of a bracket each of which depends on the next one", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			return compile(t, chain(n/20, bracketed, "")), deployments(n / 20)
		}, func(plan rollout.Plan, _ int) bool { return len(plan.Start) == 1 }},
		{"members of a bracket each of which depends on a version of the next one", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			return compile(t, chain(n/20, bracketed, " && version.tag == 'v2'")), deployments(n / 20)
		}, func(plan rollout.Plan, _ int) bool { return len(plan.Start) == 1 }},
		{"resources on which deployments would wait for one another if the rules were for all of them", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			s := fleet(n, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
			for k := range s.Resources {
				s.Resources[k].Kind = "xy"[k%2 : k%2+1]
			}
			rule := `{"deploymentDependency":{"appliesTo":"deployment.name == '%s' && resource.kind == '%s'","dependsOn":"deployment.name == '%s'"}}`
			return compile(t, policy(fmt.Sprintf(rule, "a", "x", "b")+","+fmt.Sprintf(rule, "b", "y", "a"))), s
		}, func(plan rollout.Plan, n int) bool { return len(plan.Start) == 2*n }},
		{"policies that have no part in what the resources of a bracket wait for", func(n int) (*rollout.PolicySet, rollout.Snapshot) {
			policies := []string{`{"name":"p","selector":"true","rules":[` + bracketed + `,{"id":"x","deploymentDependency":{"dependsOn":"false"}}]}`}
			for k := range n / 5 {
				policies = append(policies, fmt.Sprintf(`{"name":"of %d","selector":"environment.name == 'e%d'","rules":[{"id":"r%d","anyApproval":{"minApprovals":0}}]}`, k, k, k))
			}
			s := fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}})
			s.Freezes = []rollout.Freeze{freeze()}
			return compile(t, "["+strings.Join(policies, ",")+"]"), s
		}, func(plan rollout.Plan, n int) bool { return plan.Waiting.Len() == n }},
	} {
		of := func(n int) func() {
			set, s := row.of(n)
			return func() {
				plan := mustPlan(t, set, s, t0.Add(time.Hour))
				if !row.want(plan, n) {
					t.Fatalf("%s: %d start and %d wait", row.why, len(plan.Start), plan.Waiting.Len())
				}
			}
		}
		testkit.CompareCost(t, row.why, most, of(few), of(factor*few))
	}
}

// TestCostOfManyOfOneTarget: what many rules, freezes, versions or dependencies say of one target is
// planned, told and looked at without comparing each with all others, as are the members of a bracket
// on one resource, and a demand that thousands of tenants have alike is answered once. Four times as
// many cost about four times the processor time.
func TestCostOfManyOfOneTarget(t *testing.T) {
	const few, factor, most = 2000, 4, 9
	const bracketed = `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	rules := func(n int, rule string) string {
		list := make([]string, n)
		for k := range list {
			list[k] = fmt.Sprintf(rule, k, k+1)
		}
		return policy(strings.Join(list, ","))
	}
	plan := func(set *rollout.PolicySet, s rollout.Snapshot) rollout.Plan {
		plan, err := set.Plan(s, t0.Add(time.Hour)) // mustPlan writes the state down, too
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	only := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "d0"}
	one := func() rollout.Snapshot { return fleet(1, "v1", map[string][]string{"d0": {"v1", "v2"}}) }
	needs := func(n int, version string) rollout.Snapshot {
		versions := map[string][]string{"d0": {"v1", "v2"}}
		for k := range n {
			versions[fmt.Sprint("e", k)] = []string{"v1"}
		}
		s := fleet(1, "v1", versions)
		if version != "" {
			for k := range n {
				s.Versions[1].Dependencies = append(s.Versions[1].Dependencies, rollout.VersionDependency{Deployment: fmt.Sprint("e", k), VersionSelector: version})
			}
		}
		return s
	}
	tenants := func(n int) (*rollout.PolicySet, rollout.Snapshot) {
		var policies []string
		for k := range n {
			policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"environment.name == 'prod' && resource.name == 'r%d'","rules":[{"id":"x%d","environmentProgression":{
				"dependsOnEnvironmentSelector":"environment.name == 'staging'","minimumSoakTimeMinutes":5}}]}`, k, k+1, k))
		}
		return compile(t, "["+strings.Join(policies, ",")+"]"), inEnvironments(fleet(n, "v1", map[string][]string{"d0": {"v1", "v2"}}), "staging")
	}
	for _, row := range []struct {
		why string
		of  func(n int) func()
	}{
		{"texts of rules that hold a target", func(n int) func() {
			p := plan(compile(t, rules(n, `{"id":"a%d","anyApproval":{"minApprovals":%d}}`)), one())
			return func() {
				if wait, _ := p.Waiting.Of(only); strings.Count(wait.String(), "approval_missing") != n {
					t.Fatal(wait)
				}
			}
		}},
		{"rules that ask for approvals, and people who gave one", func(n int) func() {
			set, s := compile(t, rules(n/4, `{"id":"a%d","anyApproval":{"minApprovals":1000%d}}`)), one()
			for k := range n / 4 {
				s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: "d0", Environment: "prod", By: fmt.Sprint("u", k), Status: rollout.Approved, At: t0})
			}
			return func() {
				if wait, _ := plan(set, s).Waiting.Of(only); len(wait.Blockers) != n/4 || len(wait.Blockers[0].Data.Names) != n/4 {
					t.Fatal(len(wait.Blockers))
				}
			}
		}},
		{"texts of a rule that names deployments of which no version will do", func(n int) func() {
			p := plan(compile(t, policy(`{"id":"x","deploymentDependency":{"appliesTo":"deployment.name == 'd0'","dependsOn":"version.tag == 'v3'"}}`)), needs(2*n, ""))
			return func() {
				if wait, _ := p.Waiting.Of(only); len(wait.Blockers) != 1 || len(wait.Blockers[0].On) != 4*n || !strings.Contains(wait.String(), "a new version of e0 or") {
					t.Fatal(wait)
				}
			}
		}},
		{"deployments in two environments, of which no version will do", func(n int) func() {
			set := compile(t, policy(`{"id":"x","deploymentDependency":{"appliesTo":"deployment.name == 'd0'","dependsOn":"version.tag == 'v3'","anyEnvironment":true}}`))
			s := needs(2*n, "")
			s.Environments = append(s.Environments, rollout.Environment{ID: "staging"})
			for k := range s.Targets[1:] {
				s.Targets[k+1].Environment = []string{"prod", "staging"}[k%2]
			}
			return func() {
				if wait, _ := plan(set, s).Waiting.Of(only); len(wait.Blockers) != 1 || len(wait.Blockers[0].Data.Names) != 2*n {
					t.Fatal(wait)
				}
			}
		}},
		{"attempts of a member of a bracket that failed, and were forgiven once", func(n int) func() {
			set := compile(t, policy(bracketed+`,{"id":"again","retry":{"maxRetries":1000000}}`))
			s := one()
			first := mustPlan(t, set, s, t0)
			s.State = mustCommit(t, first, t0)
			for k := range 2 * n {
				s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{
					Run: fmt.Sprint(strings.TrimSuffix(first.Start[0].Run, "1/deploy"), k+1, "/deploy"), Version: "v2", Status: rollout.JobFailure, CreatedAt: t0.Add(time.Duration(k+1) * time.Millisecond),
				})
			}
			s.Overrides = append(s.Overrides, override("again", func(o *rollout.Override) { o.CreatedAt = t0.Add(time.Second) }))
			return func() {
				if p := plan(set, s); len(p.Start) != 1 {
					t.Fatal(p)
				}
			}
		}},
		{"dependencies of one version", func(n int) func() {
			set, s := compile(t, policy(noRule)), needs(n, "version.tag == 'v3'")
			return func() {
				if wait, _ := plan(set, s).Waiting.Of(only); len(wait.Blockers) != n {
					t.Fatal(wait)
				}
			}
		}},
		{"rules of the host's own that hold a target, also as a member of a bracket", func(n int) func() {
			var options []rollout.Option
			for k := range 4 * n { // few would cost less than the rest of the plan, even squared
				id := fmt.Sprint("own ", k)
				options = append(options, rollout.WithRule(hostRule{id, func(rollout.Candidate) rollout.Verdict {
					return rollout.Verdict{Status: rollout.Denied, Reason: "ticket", On: []rollout.Condition{{Kind: rollout.OnConfig, Rule: id}}}
				}}))
			}
			alone, member := compile(t, policy(noRule), options...), compile(t, policy(bracketed), options...)
			s := one()
			return func() {
				for _, set := range [...]*rollout.PolicySet{alone, member} {
					p := plan(set, s)
					wait, _ := p.Waiting.Of(only)
					explained, err := p.Explain(only)
					if err != nil || len(wait.Blockers) < 4*n || len(explained.Versions) == 0 {
						t.Fatal(len(wait.Blockers), err)
					}
				}
			}
		}},
		{"members of one bracket: Lint", func(n int) func() {
			set, s := compile(t, policy(bracketed)), needs(n, "")
			return func() {
				if findings, err := set.Lint(s, t0.Add(time.Hour), time.Hour, rollout.LintOptions{}); err != nil || len(findings) > 9 {
					t.Fatal(findings, err)
				}
			}
		}},
		{"members of one execution, which has heard a command for each of them", func(n int) func() {
			now := t0.Add(time.Hour)
			set, s := compile(t, policy(bracketed)), needs(n, "")
			for k := range s.Targets {
				s.Targets[k].Current = "" // all members run
			}
			s = atWork(t, set, s, now)
			for k := range s.Targets {
				s.Targets[k].Jobs[0].Status = rollout.JobFailure
				s.Commands = append(s.Commands, bracket.Command{ID: fmt.Sprint(k), Kind: bracket.Retry, By: "ann", Group: s.State.Executions[0].Open.Group, Resource: "r1", Deployment: s.Targets[k].Deployment})
			}
			s.State = plan(set, s).State
			return func() {
				if p := plan(set, s); len(p.Start) != n+1 || len(p.Diagnostics) != 0 {
					t.Fatal(len(p.Start), p.Waiting.Len(), len(p.Diagnostics))
				}
			}
		}},
		{"tenants who ask for as much of another environment: a plan", func(n int) func() {
			set, s := tenants(n)
			return func() {
				if p := plan(set, s); p.Waiting.Len() != n || len(p.Start) != n {
					t.Fatal(p)
				}
			}
		}},
		{"tenants who ask for as much of another environment: Lint", func(n int) func() {
			set, s := tenants(n)
			return func() {
				if findings, err := set.Lint(s, t0.Add(time.Hour), time.Hour, rollout.LintOptions{}); err != nil || len(findings) > n {
					t.Fatal(findings, err)
				}
			}
		}},
	} {
		testkit.CompareCost(t, row.why, most, row.of(few), row.of(factor*few))
	}
}

// TestPoliciesOfTenants: a curve, a progression and a failure budget over everybody are worked out
// once, and not once more for every tenant with a policy of its own; and policies that govern all
// but one cost what they are, not what all sets on the way to them would be.
func TestPoliciesOfTenants(t *testing.T) {
	const nodes = 1000
	s := inEnvironments(fleet(nodes, "v1", map[string][]string{"api": {"v1", "v2"}}), "staging")
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprint(k % 100)}
	}
	cost := func(tenants int, selector string) float64 {
		parsed, err := rollout.ParsePolicies([]byte(policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}},
			{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'","minimumSuccessPercentage":50}}, {"failureBudget":{"maxFailures":"50%"}}`)))
		if err != nil {
			t.Fatal(err)
		}
		for k := range tenants {
			own := rollout.Rule{VersionCooldown: &rollout.VersionCooldown{IntervalSeconds: pointer[int64](0)}}
			parsed = append(parsed, rollout.Policy{Name: fmt.Sprint("of ", k), Selector: fmt.Sprintf(selector, k), Rules: []rollout.Rule{own}})
		}
		set, err := rollout.Compile(parsed, newEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		_, bytes := planCost(t, set, s, t0.Add(time.Hour))
		return bytes
	}
	cost(1, "resource.metadata['tenant'] == '%d'") // what is made once
	for _, selector := range []string{"resource.metadata['tenant'] == '%d'", "resource.metadata['tenant'] != '%d'"} {
		few, many := cost(25, selector), cost(100, selector)
		if many > 3*few {
			t.Errorf("%s: 100 tenants take %.1f times the bytes of 25", selector, many/few)
		}
	}
}

// TestCurvesOfTenants: a curve over the resources of one tenant looks at these, and does not list those
// of all others for each of the tenants.
func TestCurvesOfTenants(t *testing.T) {
	const nodes = 4000
	cost := func(tenants int) float64 {
		s := fleet(nodes, "v1", map[string][]string{"api": {"v1", "v2"}})
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprint(k % tenants)}
		}
		var policies []string
		for k := range tenants {
			policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"resource.metadata['tenant'] == '%d'","rules":[
				{"id":"c%d","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}]}`, k, k, k))
		}
		set := compile(t, "["+strings.Join(policies, ",")+"]")
		plan, bytes := planCost(t, set, s, t0)
		if len(plan.Start) != tenants {
			t.Fatalf("%d start, the first of each of %d tenants would", len(plan.Start), tenants)
		}
		return bytes
	}
	cost(50) // what is made once
	if few, many := cost(50), cost(400); many > 3*few {
		t.Errorf("400 tenants take %.1f times the bytes of 50", many/few)
	}
}

// TestVersionsOfTenants: in a bracket the resources of one tenant share what says which versions are
// not for them. With a list of its own each would have the versions of all other tenants in it.
func TestVersionsOfTenants(t *testing.T) {
	const tenants, few, many = 200, 1_000, 4_000
	set := compile(t, `[{"name":"p","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}]`)
	cost := func(n int) float64 {
		s := apart(1, 1, n)
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprint(k % tenants)}
		}
		for k := range tenants {
			s.Versions = append(s.Versions, rollout.Version{
				ID: fmt.Sprintf("s%04d", k), Deployment: "d0000", Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(k+1) * time.Millisecond),
				TargetSelector: fmt.Sprintf("resource.metadata['tenant'] == '%d'", k),
			})
		}
		plan, bytes := planCost(t, set, s, t0.Add(time.Minute))
		if len(plan.Start) != n || !plan.Start[0].Scoped {
			t.Fatalf("%d of %d start", len(plan.Start), n)
		}
		return bytes
	}
	each := (cost(many) - cost(few)) / (many - few)
	if each > 8*tenants {
		t.Errorf("one more resource takes %.0f bytes, of which the versions of %d tenants would be %d", each, tenants, 16*tenants)
	}
}

// TestKeysOfTenants: a rule that limits how many zones of one tenant may be in use at once looks at
// the pools of this tenant, and not at those of all others.
func TestKeysOfTenants(t *testing.T) {
	cost := func(tenants int) float64 {
		s := fleet(2*tenants, "v1", map[string][]string{"api": {"v1", "v2"}})
		var policies []string
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprint(k / 2), "zone": fmt.Sprint(k % 2)}
		}
		for k := range tenants {
			policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"resource.metadata['tenant'] == '%d'","rules":[{"id":"zones-in-use-of-the-tenant-%d","resourceConcurrency":{
				"groupSelector":"resource.metadata['tenant'] == '%d'","groupBy":"resource.metadata['zone']","maxActiveKeys":1,"limit":1}}]}`, k, k, k, k))
		}
		set := compile(t, "["+strings.Join(policies, ",")+"]")
		plan := mustPlan(t, set, s, t0)
		if len(plan.Start) != tenants || plan.Waiting.Len() != tenants {
			t.Fatalf("%d start and %d wait, one of each of %d tenants would", len(plan.Start), plan.Waiting.Len(), tenants)
		}
		s.State = mustCommit(t, plan, t0)
		_, bytes := planCost(t, set, s, t0)
		return bytes
	}
	cost(50) // what is made once
	if few, many := cost(50), cost(400); many > 12*few {
		t.Errorf("400 tenants take %.1f times the bytes of 50", many/few)
	}
}

// TestApprovalsOneByOne: where an override stands for the approval of each resource, each has a
// rollout of its own. Its turn is found alone, without those of all others, whose time windows or a
// freeze have stopped.
func TestApprovalsOneByOne(t *testing.T) {
	stop := minute(5)
	for why, rest := range map[string]struct {
		rules   string
		freezes []rollout.Freeze
	}{
		"a window": {rules: `,{"id":"w","deploymentWindow":{"from":"2025-01-01T00:05:00Z","until":"2025-01-01T00:06:00Z","allowWindow":false}}`},
		"a freeze": {freezes: []rollout.Freeze{{ID: "z", PauseCurves: true, CreatedAt: stop, ExpiresAt: stop.Add(time.Minute), CreatedBy: "ann", Reason: "INC-7"}}},
	} {
		set := compile(t, policy(`{"id":"A","anyApproval":{"minApprovals":1}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`+rest.rules))
		cost := func(n int) float64 {
			s := fleet(n, "v1", map[string][]string{"a": {"v1", "v2"}})
			s.Freezes = rest.freezes
			for k, r := range s.Resources {
				s.Overrides = append(s.Overrides, rollout.Override{
					ID: r.ID, Rule: "A", Version: "v2", Resource: r.ID, CreatedAt: t0.Add(time.Duration(k) * time.Millisecond), CreatedBy: "ann", Reason: "seen",
				})
			}
			_, bytes := planCost(t, set, s, minute(10))
			return bytes
		}
		cost(200) // what is made once
		if few, many := cost(200), cost(1600); many > 16*few {
			t.Errorf("%s: 1600 resources take %.1f times the bytes of 200", why, many/few)
		}
	}
}

// TestBracketsOfTenants: a bracket that governs one environment costs nothing in the others, of which
// each tenant has one.
func TestBracketsOfTenants(t *testing.T) {
	cost := func(tenants int) (plan, check int) {
		var policies []string
		for k := range tenants {
			policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"environment.id == 'e%04d'","rules":[
				{"id":"b%d","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}`, k, k, k))
		}
		asked := 0
		set, err := rollout.Load([]byte("["+strings.Join(policies, ",")+"]"), counting{newEnv(t), &asked})
		if err != nil {
			t.Fatal(err)
		}
		s := apart(tenants, 1, 2)
		if plan := mustPlan(t, set, s, t0.Add(time.Hour)); len(plan.Start) != len(s.Targets) {
			t.Fatalf("%d of %d start", len(plan.Start), len(s.Targets))
		}
		plan, asked = asked, 0
		if err := set.Check(s); err != nil {
			t.Fatal(err)
		}
		return plan, asked
	}
	plan, check := cost(20)
	more, recheck := cost(80)
	if more > 5*plan || recheck > 5*check {
		t.Errorf("80 tenants ask %d and %d expressions, 20 ask %d and %d", more, recheck, plan, check)
	}
}

// TestCommitOfManyEnvironments: what starts in one environment of a bracket is committed without
// going through the records of all others.
func TestCommitOfManyEnvironments(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	now := t0.Add(time.Hour)
	cost := func(environments int) float64 {
		s := apart(environments, 1, 2)
		plan := mustPlan(t, set, s, now)
		if len(plan.Start) != len(s.Targets) {
			t.Fatalf("%d of %d start", len(plan.Start), len(s.Targets))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		state := mustCommit(t, plan, now)
		runtime.ReadMemStats(&after)
		if len(state.Executions) != len(plan.Start) {
			t.Fatalf("%d of %d executions", len(state.Executions), len(plan.Start))
		}
		return float64(after.TotalAlloc - before.TotalAlloc)
	}
	cost(100) // what is made once
	if few, many := cost(100), cost(1600); many > 24*few {
		t.Errorf("the commit of 1600 environments takes %.1f times the bytes of 100", many/few)
	}
}

// TestLintCostGrowsWithTheFleet: four times as much of two things at once, of which each is looked at
// for itself, costs Lint about four times as much. A square would be sixteen times.
func TestLintCostGrowsWithTheFleet(t *testing.T) {
	const few, factor = 50, 4
	branches := func(n int) (s rollout.Snapshot) { // a branch for each of n environments beside staging
		s = fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Environments[0] = rollout.Environment{ID: "staging", Name: "staging"}
		for i := range n {
			s.Targets[i].Environment = "staging"
			branch := s.Targets[i]
			branch.Environment = fmt.Sprintf("branch-%d", i)
			s.Environments, s.Targets = append(s.Environments, rollout.Environment{ID: branch.Environment}), append(s.Targets, branch)
		}
		return s
	}
	for _, row := range []struct {
		why   string
		rules string
		fleet func(n int) rollout.Snapshot
	}{
		{"environments that all ask the one with most targets", `{"id":"x","environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'"}}`, branches},
		{"releases, and environments that get them", `{"id":"x","versionCooldown":{"intervalSeconds":1}}`, func(n int) rollout.Snapshot {
			s := branches(n)
			for k := range n {
				s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("old-%d", k), Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Duration(k+2) * time.Hour)})
			}
			return s
		}},
		{"targets, and scopes of versions that nobody gets any more", `{"id":"x","versionCooldown":{"intervalSeconds":1}}`, func(n int) rollout.Snapshot {
			s := fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}})
			for k := range n {
				s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("old-%d", k), Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Duration(k+2) * time.Hour), TargetSelector: "resource.name != 'r1'"})
			}
			return s
		}},
	} {
		cost := func(n int) (asked, allocated float64) {
			expressions, scopes := 0, 0
			set, err := rollout.Load([]byte(policy(row.rules)), counting{newEnv(t), &expressions}, rollout.WithMaxScope(func(rollout.Version, rollout.TargetID) bool { scopes++; return true }))
			if err != nil {
				t.Fatal(err)
			}
			s := row.fleet(n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := set.Lint(s, t0, time.Hour, rollout.LintOptions{}); err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			return float64(expressions + scopes), float64(after.TotalAlloc - before.TotalAlloc)
		}
		cost(few) // what is made once
		asked, allocated := cost(few)
		askedMore, allocatedMore := cost(few * factor)
		if askedMore > asked*factor*1.5 || allocatedMore > allocated*factor*1.5 {
			t.Errorf("%s: %d times as many cost %.1f times the questions and %.1f times the bytes", row.why, factor, askedMore/asked, allocatedMore/allocated)
		}
	}
}

// TestLintOfManyRetries: where many rules retry what many rules take back, Lint tells of each that takes
// back, and not of every pair, which nobody would read, and does not ask about every pair on every
// target.
func TestLintOfManyRetries(t *testing.T) {
	lint := func(rules, targets int) (findings []rollout.Finding, allocated float64) {
		var list []string
		for k := range rules {
			list = append(list, fmt.Sprintf(`{"id":"back-%03d","rollback":{"onJobStatuses":["failure"]}},{"id":"again-%03d","retry":{"maxRetries":2}}`, k, k))
		}
		set := compile(t, policy(strings.Join(list, ",")))
		s := fleet(targets, "v1", map[string][]string{"api": {"v1", "v2"}})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		all, err := set.Lint(s, t0, time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		for _, f := range all {
			if f.Code == rollout.LintRollbackBeforeRetry {
				findings = append(findings, f)
			}
		}
		return findings, float64(after.TotalAlloc - before.TotalAlloc)
	}
	findings, _ := lint(100, 20)
	if len(findings) != 100 {
		t.Fatalf("%d findings", len(findings))
	}
	const says = `a job that ends as failure has failed for good: the rules "again-000", "again-001", `
	if f := findings[99]; f.Rule != "back-099" || f.Targets != 20 || !strings.HasPrefix(f.Detail, says) || len(f.Detail) > 500 {
		t.Errorf("%s", f)
	}
	_, few := lint(100, 20)
	if _, many := lint(100, 80); many > 2*few {
		t.Errorf("four times the targets cost %.1f times the bytes", many/few)
	}
}

// TestLintOfManyPools: where many rules limit the same resources, Lint tells of each together with one
// other, and not of every pair, which nobody would read.
func TestLintOfManyPools(t *testing.T) {
	const deployments, resources = 300, 4
	versions := map[string][]string{}
	var policies []string
	for k := range deployments {
		id := fmt.Sprintf("d%03d", k)
		versions[id] = []string{"v1", "v2"}
		policies = append(policies, fmt.Sprintf(`{"name":"p%03d","selector":"deployment.id == '%s'","rules":[{"id":"r%03d","resourceConcurrency":{"groupSelector":"resource.id != 'r1'","limit":1}}]}`, k, id, k))
	}
	set := compile(t, "["+strings.Join(policies, ",")+"]")
	s := fleet(resources, "v1", versions)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	findings, err := set.Lint(s, t0, time.Hour, rollout.LintOptions{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for _, f := range findings {
		if f.Code != rollout.LintPoolsOverlapUnshared {
			continue
		}
		told++
		want := `its pools and those of "r000" have 3 resources in common, such as r2, where 298 other rules have pools, too: each allows its own maximum, and there are targets that only one of them limits`
		if f.Detail != want || f.Targets != 2*(resources-1) {
			t.Errorf("%s %d, want %s", f.Detail, f.Targets, want)
		}
	}
	if bytes := after.TotalAlloc - before.TotalAlloc; told != deployments-1 || bytes > 20_000_000 {
		t.Errorf("%d findings, and %d bytes", told, bytes)
	}
}

// TestLintOfTenants: a progression is asked about the deployments that its policy governs, and not
// about those of all tenants.
func TestLintOfTenants(t *testing.T) {
	cost := func(tenants int) int {
		var policies []string
		for k := range tenants {
			policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"deployment.id == 'd%04d'","rules":[{"id":"r%d","environmentProgression":{"dependsOnEnvironmentSelector":"environment.metadata['tier'] == 'first'"}}]}`, k, k, k))
		}
		asked := 0
		set, err := rollout.Load([]byte("["+strings.Join(policies, ",")+"]"), counting{newEnv(t), &asked})
		if err != nil {
			t.Fatal(err)
		}
		findings, err := set.Lint(apart(1, tenants, 2), t0, time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		unknown := 0
		for _, f := range findings {
			if f.Code == rollout.LintSelectorUnknownKeys {
				unknown++
			}
		}
		if unknown != tenants {
			t.Fatalf("%d findings about a key that no environment has, of %d rules that read it", unknown, tenants)
		}
		return asked
	}
	if few, many := cost(20), cost(80); many > 5*few {
		t.Errorf("80 tenants ask %d expressions, 20 ask %d", many, few)
	}
}

// TestLintAsksPoliciesOnce: Lint asks whom a policy governs no more often than a plan does. It was
// asked a second time about every target, for the keys that it misses.
func TestLintAsksPoliciesOnce(t *testing.T) {
	asked := 0
	set, err := rollout.Load([]byte(`{"name":"p","selector":"resource.metadata['zone'] == 'a' || deployment.metadata['team'] == 'x'","rules":[{"id":"r","anyApproval":{"minApprovals":1}}]}`), counting{newEnv(t), &asked})
	if err != nil {
		t.Fatal(err)
	}
	s := fleet(20, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2"}})
	s.Deployments[1].Metadata = map[string]string{"team": "x"}
	mustPlan(t, set, s, t0)
	planned := asked
	findings, err := set.Lint(s, t0, time.Hour, rollout.LintOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if planned != 22 || asked != 2*planned { // two deployments, and each target of the one that lacks the label
		t.Errorf("a plan asks %d times, Lint %d", planned, asked-planned)
	}
	if !slices.ContainsFunc(findings, func(f rollout.Finding) bool {
		return f.Code == rollout.LintSelectorUnknownKeys && strings.Contains(f.Detail, "zone")
	}) {
		t.Errorf("no resource has the key: %v", findings)
	}
}

// TestBracketsAskAboutWhatTheyGovern: the expression of a bracket is asked about the deployments that
// its policy governs in an environment, and about no others, of which there may be thousands.
func TestBracketsAskAboutWhatTheyGovern(t *testing.T) {
	const many, each = 40, 3
	asked := 0
	var policies []string
	versions := map[string][]string{}
	for k := range many {
		policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":"deployment.metadata['team'] == 't%d'","rules":[{"id":"b%d","deploymentBracket":{"deploymentSelector":"deployment.slug != 'x'","readinessMode":"immediate","memberRoles":{}}}]}`, k, k, k))
		for n := range each {
			versions[fmt.Sprintf("d%d-%d", k, n)] = []string{"v1", "v2"}
		}
	}
	set, err := rollout.Load([]byte("["+strings.Join(policies, ",")+"]"), counting{newEnv(t), &asked})
	if err != nil {
		t.Fatal(err)
	}
	s := inEnvironments(fleet(2, "v1", versions), "staging")
	for k := range s.Deployments {
		team, _, _ := strings.Cut(strings.TrimPrefix(s.Deployments[k].ID, "d"), "-")
		s.Deployments[k].Metadata = map[string]string{"team": "t" + team}
	}
	plan := mustPlan(t, set, s, t0.Add(time.Hour))
	if most := 2 * 2 * many * each; asked > most || len(plan.Start) != len(s.Targets)/2 { // a resource is drained for one environment at a time
		t.Errorf("%d questions, not at most %d: of a policy and of a bracket about each deployment in each of two environments; %d start", asked, most, len(plan.Start))
	}
}

// TestPoliciesOfResourcesAskOncePerResource: a policy that reads nothing but the resource is asked
// about it once in each environment, and not for each deployment on it. What it misses is counted for
// every target all the same, and what it cannot answer holds every one of them.
func TestPoliciesOfResourcesAskOncePerResource(t *testing.T) {
	const nodes, deployments = 10, 3
	for _, row := range []struct {
		why, selector string
		questions     int
		starts, held  int // targets, as missing
		missing       int
	}{
		{"half of them are governed and wait for an approval; the others have another zone and are not asked about", "resource.metadata['zone'] == 'a'", nodes, deployments * nodes, 0, 0},
		{"a key that half of them lack", "resource.metadata['ring'] == 'b'", nodes, 2 * deployments * nodes, 0, deployments * nodes},
		{"no answer where the key is no number", "int(resource.metadata['zone']) == 1", 2 * nodes, 0, 2 * deployments * nodes, 0},
	} {
		asked := 0
		set, err := rollout.Load([]byte(fmt.Sprintf(`{"name":"p","selector":%q,"rules":[{"id":"ok","anyApproval":{"minApprovals":1}}]}`, row.selector)), counting{newEnv(t), &asked})
		if err != nil {
			t.Fatal(err)
		}
		s := inEnvironments(fleet(nodes, "v1", map[string][]string{"x": {"v1", "v2"}, "y": {"v1", "v2"}, "z": {"v1", "v2"}}), "staging")
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"zone": []string{"a", "b"}[k%2]}
			if k%2 == 0 {
				s.Resources[k].Metadata["ring"] = "a"
			}
		}
		plan := mustPlan(t, set, s, t0.Add(time.Hour))
		held, missing := 0, 0
		for wait := range plan.Waiting.All() {
			if wait.Blockers[0].Reason == rollout.ReasonSelectorError {
				held++
			}
		}
		for _, d := range plan.Diagnostics {
			if d.Code == rollout.DiagnosticMissingKey {
				missing += d.Count
			}
		}
		if asked != row.questions || len(plan.Start) != row.starts || held != row.held || missing != row.missing {
			t.Errorf("%s: %d questions, %d start, %d are held, %d lack a key", row.why, asked, len(plan.Start), held, missing)
		}
	}
}

// TestCostOfPoliciesOfFewTargets: there may be as many policies as targets, each for few of them.
// Eight times as many of both cost about eight times the bytes: a list of all targets, or of all
// sets of policies, for each policy would be many more.
func TestCostOfPoliciesOfFewTargets(t *testing.T) {
	const few, factor = 400, 8
	bracket := policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)
	curve := `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`
	byResource := `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`
	resources := func(n int) rollout.Snapshot { return fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}}) }
	for _, row := range []struct {
		why    string
		common string // a policy for all
		own    string // the rules of a policy for one resource, or one deployment
		fleet  func(n int) rollout.Snapshot
	}{
		{"each with a curve", "", curve, resources},
		{"each with a curve that ranks resources", "", byResource, resources},
		{"each with a curve, in one bracket", bracket, curve, resources},
		{"under one curve", policy(curve), `{"anyApproval":{"minApprovals":0}}`, func(n int) rollout.Snapshot { return apart(1, n, 1) }},
	} {
		cost := func(n int) float64 {
			s := row.fleet(n)
			var texts []string
			if row.common != "" {
				texts = append(texts, row.common)
			}
			for k := range n {
				at := fmt.Sprintf("resource.id == 'r%d'", k+1)
				if len(s.Deployments) > 1 {
					at = fmt.Sprintf("deployment.id == 'd%04d'", k)
				}
				texts = append(texts, fmt.Sprintf(`{"name":"own-%d","selector":%q,"rules":[%s]}`, k, at, row.own))
			}
			set := compile(t, "["+strings.Join(texts, ",")+"]")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			mustPlan(t, set, s, t0.Add(time.Hour))
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		cost(few) // what is made once
		if bytes, more := cost(few), cost(factor*few); more > 1.4*factor*bytes {
			t.Errorf("%s: %d times as many take %.1f times the bytes (%.0f and %.0f)", row.why, factor, more/bytes, bytes, more)
		}
	}
}
