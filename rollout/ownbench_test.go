package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// Fleets in which many tenants or deployments have something of their own. What a plan costs must not
// be the product of the two.

// BenchmarkTenants plans and lints 20,000 resources of so many tenants, each of which has a policy for
// its own, and a pool.
func BenchmarkTenants(b *testing.B) {
	for _, n := range []int{10, 100, 1_000, 2_000} {
		s := apart(1, 1, 20_000)
		var policies []rollout.Policy
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprintf("t%04d", k%n)}
		}
		for k := range n {
			selector := fmt.Sprintf("resource.metadata['tenant'] == 't%04d'", k)
			policies = append(policies, rollout.Policy{Name: fmt.Sprintf("p%04d", k), Selector: selector, Rules: []rollout.Rule{
				{VersionCooldown: &rollout.VersionCooldown{IntervalSeconds: pointer[int64](600)}},
				{ResourceConcurrency: &concurrency.Rule{GroupSelector: selector, Limit: concurrency.Percent(20)}},
			}})
		}
		set, err := rollout.Compile(policies, newEnv(b))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("plan/tenants=%d", n), func(b *testing.B) { benchmarkPlan(b, set, s, t0.Add(time.Minute)) })
		b.Run(fmt.Sprintf("lint/tenants=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := set.Lint(s, t0.Add(time.Minute), 24*time.Hour, rollout.LintOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTenantVersions plans 10,000 resources of so many tenants, each of which has a version for
// its own, newer than the one for everybody, along a curve or in a bracket.
func BenchmarkTenantVersions(b *testing.B) {
	curve := rollout.Rule{GradualRollout: &rollout.GradualRollout{RolloutType: rollout.Linear, TimeScaleInterval: pointer[int64](60), OrderKey: rollout.OrderByResource}}
	inBracket := rollout.Rule{DeploymentBracket: &bracket.Rule{DeploymentSelector: "true", ReadinessMode: bracket.Immediate, MemberRoles: &bracket.MemberRoles{}}}
	for _, n := range []int{10, 100, 1_000} {
		s := apart(1, 1, 10_000)
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"tenant": fmt.Sprintf("t%04d", k%n)}
		}
		for k := range n {
			s.Versions = append(s.Versions, rollout.Version{
				ID: fmt.Sprintf("s%04d", k), Deployment: "d0000", Status: rollout.VersionReady, CreatedAt: t0.Add(time.Duration(k) * time.Millisecond),
				TargetSelector: fmt.Sprintf("resource.metadata['tenant'] == 't%04d'", k),
			})
		}
		for _, with := range []struct {
			name  string
			rules []rollout.Rule
		}{{"curve", []rollout.Rule{curve}}, {"bracket", []rollout.Rule{curve, inBracket}}} {
			set, err := rollout.Compile([]rollout.Policy{{Name: "p", Selector: "true", Rules: with.rules}}, newEnv(b))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/tenants=%d", with.name, n), func(b *testing.B) { benchmarkPlan(b, set, s, t0.Add(time.Minute)) })
		}
	}
}

// BenchmarkDependencies plans and lints so many deployments on two resources, each of which depends on
// the next one by a rule of its own. To compare, it plans with expressions that do not say what they
// require, so that each rule is asked about each deployment.
func BenchmarkDependencies(b *testing.B) {
	for _, n := range []int{100, 1_000, 2_000, 10_000} {
		versions := map[string][]string{"d0": {"v1", "v2"}}
		var rules []rollout.Rule
		for k := range n - 1 {
			versions[fmt.Sprint("d", k+1)] = []string{"v1", "v2"}
			rules = append(rules, rollout.Rule{DeploymentDependency: &rollout.DeploymentDependency{
				AppliesTo: fmt.Sprintf("deployment.name == 'd%d'", k), DependsOn: fmt.Sprintf("deployment.name == 'd%d' && version.tag == 'v1'", k+1),
			}})
		}
		s := fleet(2, "v1", versions)
		for _, with := range []struct {
			name     string
			compiler rollout.Compiler
			most     int
		}{{"plan", newEnv(b), 10_000}, {"all asked", silent{newEnv(b), new(int)}, 2_000}} {
			if n > with.most {
				continue
			}
			set, err := rollout.Compile([]rollout.Policy{{Name: "p", Selector: "true", Rules: rules}}, with.compiler)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/deployments=%d", with.name, n), func(b *testing.B) { benchmarkPlan(b, set, s, t0.Add(time.Minute)) })
			if with.name == "plan" {
				b.Run(fmt.Sprintf("lint/deployments=%d", n), func(b *testing.B) {
					for b.Loop() {
						if _, err := set.Lint(s, t0.Add(time.Minute), 24*time.Hour, rollout.LintOptions{}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkOwnPolicies plans and lints 4,000 deployments with two targets each, of which so many have
// a policy of their own, which names the deployment, or the value of a label that it alone has. Of a
// label that no deployment has, each is asked by each policy, because that is counted. The policies
// are a cooldown, or by the id of the deployment also a curve or a bracket.
func BenchmarkOwnPolicies(b *testing.B) {
	const deployments = 4_000
	s := apart(1, deployments, 2)
	for k := range s.Deployments {
		s.Deployments[k].Metadata = map[string]string{"team": fmt.Sprintf("t%04d", k)}
	}
	cooldown := rollout.Rule{VersionCooldown: &rollout.VersionCooldown{IntervalSeconds: pointer[int64](600)}}
	for _, by := range []struct {
		name, selector string
		own            rollout.Rule
	}{
		{"id", "deployment.id == 'd%04d'", cooldown},
		{"label", "deployment.metadata['team'] == 't%04d'", cooldown},
		{"missing", "deployment.metadata['squad'] == 't%04d'", cooldown},
		{"curve", "deployment.id == 'd%04d'", rollout.Rule{GradualRollout: &rollout.GradualRollout{RolloutType: rollout.Linear, TimeScaleInterval: pointer[int64](60), OrderKey: rollout.OrderByTarget}}},
		{"bracket", "deployment.id == 'd%04d'", rollout.Rule{DeploymentBracket: &bracket.Rule{DeploymentSelector: "true", ReadinessMode: bracket.Immediate, MemberRoles: &bracket.MemberRoles{}}}},
	} {
		for _, n := range []int{1_000, 2_000, 4_000} {
			if by.name == "missing" && n > 2_000 {
				continue // a square
			}
			var policies []rollout.Policy
			for k := range n {
				policies = append(policies, rollout.Policy{Name: fmt.Sprintf("p%04d", k), Selector: fmt.Sprintf(by.selector, k), Rules: []rollout.Rule{by.own}})
			}
			set, err := rollout.Compile(policies, newEnv(b))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("plan/%s/policies=%d", by.name, n), func(b *testing.B) { benchmarkPlan(b, set, s, t0.Add(time.Minute)) })
			b.Run(fmt.Sprintf("lint/%s/policies=%d", by.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := set.Lint(s, t0.Add(time.Minute), time.Hour, rollout.LintOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
