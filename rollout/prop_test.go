package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// The properties of this file carry the numbers of the invariants in the package comment. Worlds
// are small, so that things collide: up to five resources, three environments, three deployments,
// three versions each, and instants on a grid of whole minutes around t0.

func minute(n int) time.Time { return t0.Add(time.Duration(n) * time.Minute) }

// uniform draws a number below n. The generator prefers small numbers, which would make the rare
// branches of a choice frequent and its last ones rare, so the number is mixed; 0 stays 0, so that
// failures shrink to the first choice.
func uniform(t *rapid.T, label string, n int) int {
	v := rapid.Uint64().Draw(t, label)
	v ^= v >> 33
	v *= 0xff51afd7ed558ccd
	v ^= v >> 33
	return int(v % uint64(n))
}

func oneOf[T any](t *rapid.T, label string, list ...T) T { return list[uniform(t, label, len(list))] }

func between(t *rapid.T, label string, low, high int) int { return low + uniform(t, label, high-low+1) }

func chance(t *rapid.T, label string, percent int) bool {
	return uniform(t, label, 100) >= 100-percent
}

// genFleet draws everything but policies and state.
func genFleet(t *rapid.T) rollout.Snapshot {
	var s rollout.Snapshot
	for k := range between(t, "resources", 1, 5) {
		r := rollout.Resource{ID: fmt.Sprint("r", k+1), Name: fmt.Sprint("r", k+1), Kind: oneOf(t, "kind", "Node", "VM"), Metadata: map[string]string{}}
		if zone := oneOf(t, "zone", "a", "b", ""); zone != "" {
			r.Metadata["zone"] = zone
		}
		if n := oneOf(t, "n", "1", "2", "x", ""); n != "" {
			r.Metadata["n"] = n
		}
		s.Resources = append(s.Resources, r)
	}
	for _, id := range []string{"prod", "staging", "qa"}[:between(t, "environments", 1, 3)] {
		s.Environments = append(s.Environments, rollout.Environment{ID: id, Name: id})
	}
	for k := range between(t, "deployments", 1, 3) {
		d := rollout.Deployment{ID: string(rune('a' + k)), Name: string(rune('a' + k))}
		if tier := oneOf(t, "tier", "1", "2", "2", "x", "", ""); tier != "" {
			d.Metadata = map[string]string{"tier": tier}
		}
		s.Deployments = append(s.Deployments, d)
		for n := range between(t, "versions", 0, 3) {
			v := rollout.Version{
				ID: fmt.Sprint("v", n+1), Tag: fmt.Sprint("v", n+1), Deployment: d.ID, CreatedAt: minute(between(t, "created", -6, 6)),
				Status:   oneOf[rollout.VersionStatus](t, "status", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "ready", "paused", "building", "rejected"),
				Priority: oneOf(t, "urgent", 0, 0, 0, 0, 1, -1),
			}
			if chance(t, "scoped", 15) {
				v.TargetSelector = oneOf(t, "scope", "resource.kind == 'Node'", "environment.name == 'prod'", "resource.metadata['zone'] == 'a'", "int(resource.metadata['n']) > 1",
					"resource.knd == 'x'", "version.tag == 'v1' || resource.kind == 'VM'", "environment.metadata['tier'] == 'x'")
			}
			if chance(t, "needs", 8) {
				v.Dependencies = []rollout.VersionDependency{{
					Deployment:      oneOf(t, "needed", "a", "b", "nobody"),
					VersionSelector: oneOf(t, "needed version", "true", "version.tag == 'v1'", "version.tag != 'v1'", "version.metadata['x'] == 'y'"),
				}}
			}
			s.Versions = append(s.Versions, v)
		}
	}
	for _, r := range s.Resources {
		for _, e := range s.Environments {
			for _, d := range s.Deployments {
				if chance(t, "target", 80) {
					s.Targets = append(s.Targets, genTarget(t, s, rollout.TargetID{Resource: r.ID, Environment: e.ID, Deployment: d.ID}))
				}
			}
		}
	}
	for range between(t, "approvals", 0, 6) {
		s.Approvals = append(s.Approvals, rollout.Approval{
			Version: oneOf(t, "approved", "v1", "v2", "v3"), Deployment: oneOf(t, "of", "a", "b"), Environment: oneOf(t, "in", "prod", "staging"),
			By: oneOf(t, "by", "ann", "bob"), Status: oneOf(t, "word", rollout.Approved, rollout.Approved, rollout.Rejected), At: minute(between(t, "at", -6, 6)),
		})
	}
	if chance(t, "down", 30) {
		for range between(t, "how many", 1, 2) {
			s.Unavailable = append(s.Unavailable, oneOf(t, "who", "r1", "r2", "r9"))
		}
	}
	for _, pool := range []string{"shared", "p2/resourceConcurrency/0", "p3-0"} {
		if chance(t, "busy elsewhere", 50) {
			s.Active = map[string][]concurrency.Holder{pool: {{Resource: oneOf(t, "holder", "r1", "r2"), Group: oneOf(t, "holds for", "target/prod/a", "target/prod/b", "other")}}}
		}
	}
	if chance(t, "gone", 10) {
		s.DeletedResources = []string{oneOf(t, "which", "r1", "r9")}
	}
	return s
}

func genTarget(t *rapid.T, s rollout.Snapshot, id rollout.TargetID) rollout.Target {
	target := rollout.Target{TargetID: id, Priority: oneOf(t, "priority", 0, 0, 0, 1, -1)}
	var versions []string
	for _, v := range s.Versions {
		if v.Deployment == id.Deployment {
			versions = append(versions, v.ID)
		}
	}
	if len(versions) > 0 && chance(t, "runs", 50) {
		target.Current = versions[0]
		if chance(t, "unknown", 5) {
			target.Current = "v0"
		}
	}
	if len(versions) > 0 && chance(t, "has jobs", 30) {
		for range between(t, "jobs", 1, 3) {
			at := minute(between(t, "created", -4, 0))
			if chance(t, "long ago", 15) {
				at = at.Add(-time.Hour)
			}
			job := rollout.Job{Version: oneOf(t, "version", versions...), CreatedAt: at,
				Status: oneOf[rollout.JobStatus](t, "job", "successful", "failure", "failure", "failure", "cancelled", "skipped", "inProgress", "queued", "externalRunNotFound", "news")}
			if chance(t, "of another version", 4) {
				job.Version = "v0"
			}
			if job.Status.Terminal() && chance(t, "completed", 80) {
				job.CompletedAt = at.Add(time.Minute)
			}
			if job.Status == rollout.JobSuccessful && chance(t, "verified", 40) {
				job.Verification = oneOf[rollout.Verification](t, "verification", "passed", "failed", "running", "odd")
			}
			target.Jobs = append(target.Jobs, job)
		}
	}
	if len(versions) > 0 && id.Environment != "prod" && chance(t, "long there", 20) {
		target.Jobs = append(target.Jobs, rollout.Job{Version: oneOf(t, "which", versions...), Status: rollout.JobSuccessful, CreatedAt: minute(-62)})
	}
	if r := (&reference{s: &s}); len(versions) > 1 && chance(t, "went wrong", 12) { // a success, a failure, and perhaps the way back
		list := r.versions(id.Deployment)
		target.Current, target.Jobs = "", []rollout.Job{
			{Version: list[0].ID, Status: rollout.JobSuccessful, CreatedAt: minute(-7)},
			{Version: list[1].ID, Status: oneOf(t, "failed", rollout.JobFailure, rollout.JobFailure, rollout.JobSuccessful), Verification: oneOf(t, "and", "", rollout.VerificationFailed), CreatedAt: minute(-6)},
		}
		if status := oneOf(t, "way back", "", "", rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress); status != "" {
			back := rollout.Job{Version: list[0].ID, Status: status, CreatedAt: minute(-5)}
			if chance(t, "by a plan", 60) {
				back.Run = strings.Join([]string{id.Resource, id.Environment, id.Deployment, back.Version, "2", "rollback"}, "/")
			}
			target.Jobs = append(target.Jobs, back)
		}
	}
	if chance(t, "joined", 20) {
		target.JoinedAt = minute(between(t, "joinedAt", -6, 0))
	}
	if chance(t, "outdated", 10) {
		target.OutdatedAt = minute(between(t, "outdatedAt", -6, 6))
	}
	return target
}

func pointer[T any](v T) *T { return &v }

// genRule draws one rule of those that need no bracket.
func genRule(t *rapid.T) rollout.Rule {
	switch oneOf(t, "kind", "gradual", "gradual", "pool", "pool", "dependency", "selector", "approval", "retry", "retry", "retry", "progression", "cooldown", "cooldown", "window", "window", "rollback", "budget") {
	case "gradual":
		return rollout.Rule{GradualRollout: genGradual(t, rollout.OrderByTarget, rollout.OrderByResource)}
	case "pool":
		return rollout.Rule{ResourceConcurrency: genPool(t)}
	case "dependency":
		return rollout.Rule{DeploymentDependency: &rollout.DeploymentDependency{
			DependsOn: oneOf(t, "depends on", "deployment.name == 'a'", "deployment.name in ['a', 'b']", "deployment.name == 'b' && version.tag == 'v1'", "version.tag == 'v1'",
				"deployment.metadata['tier'] == '1'", "resource.kind == 'Node' && deployment.name == 'a'", "int(resource.metadata['n']) > 1"),
			AppliesTo: oneOf(t, "applies to", "", "deployment.name == 'c'", "deployment.name != 'a'", "deployment.metadata['tier'] == '2'", "resource.metadata['zone'] == 'a'", "int(resource.metadata['n']) > 1"),
			Match:     oneOf(t, "match", "", rollout.MatchAny, rollout.MatchAll), AnyEnvironment: rapid.Bool().Draw(t, "any environment"),
		}}
	case "selector":
		return rollout.Rule{VersionSelector: &rollout.VersionSelector{Selector: oneOf(t, "version selector",
			"true", "version.tag != 'v2'", "version.tag == 'v1' || resource.kind == 'Node'", "version.metadata['stable'] == 'yes'", "int(version.tag) > 1",
			"environment.name == 'prod' || version.tag == 'v3'")}}
	case "progression":
		p := &rollout.EnvironmentProgression{
			DependsOnEnvironmentSelector: oneOf(t, "other environment", "environment.name == 'staging'", "environment.name != 'staging'", "true", "environment.name != 'prod'", "environment.metadata['x'] == 'y'", "int(environment.name) > 1"),
			MinimumSoakTimeMinutes:       oneOf[int64](t, "soak", 0, 0, 2, 5), RequireVerificationPassed: chance(t, "verified", 15),
			MinimumSuccessPercentage: oneOf(t, "share", nil, pointer(0.0), pointer(0.0), pointer(33.4), pointer(50.0), pointer(99.5)),
		}
		if chance(t, "aging", 60) {
			p.MaximumAgeHours = pointer[int64](1)
		}
		if chance(t, "which successes", 20) {
			p.SuccessStatuses = oneOf(t, "these", []rollout.JobStatus{rollout.JobSuccessful, rollout.JobCancelled}, []rollout.JobStatus{rollout.JobFailure})
		}
		return rollout.Rule{EnvironmentProgression: p}
	case "cooldown":
		return rollout.Rule{VersionCooldown: &rollout.VersionCooldown{IntervalSeconds: pointer(oneOf[int64](t, "cooldown", 0, 120, 600, 3600))}}
	case "window":
		return rollout.Rule{DeploymentWindow: genWindow(t)}
	case "rollback":
		r := &rollout.Rollback{OnVerificationFailure: chance(t, "on verification", 50), OnFailureBudget: chance(t, "on the budget", 40)}
		if chance(t, "on a version's status", 40) {
			r.OnVersionStatuses = []rollout.VersionStatus{"rejected"}
		}
		if !r.OnVerificationFailure && !r.OnFailureBudget && r.OnVersionStatuses == nil || chance(t, "on statuses", 50) {
			r.OnJobStatuses = []rollout.JobStatus{rollout.JobFailure}
		}
		return rollout.Rule{Rollback: r}
	case "budget":
		b := &rollout.FailureBudget{
			MaxFailures: oneOf(t, "failures", concurrency.Count(0), concurrency.Count(0), concurrency.Count(1), concurrency.Percent(34), concurrency.Percent(50)), AnyEnvironment: chance(t, "everywhere", 30),
			OnVerificationFailure: chance(t, "verified", 40),
		}
		if chance(t, "rated", 40) {
			b.MaxFailureRate, b.MinimumSample = oneOf(t, "failure rate", concurrency.Percent(0), concurrency.Percent(34), concurrency.Percent(50), concurrency.Percent(99)), between(t, "sample", 1, 3)
			if chance(t, "by the rate alone", 60) {
				b.MaxFailures = concurrency.Limit{}
			}
		}
		if chance(t, "which failures", 30) {
			b.OnJobStatuses = oneOf(t, "these", []rollout.JobStatus{rollout.JobFailure}, []rollout.JobStatus{rollout.JobCancelled, rollout.JobExternalRunNotFound})
		}
		return rollout.Rule{FailureBudget: b}
	case "approval":
		return rollout.Rule{CreatedAt: oneOf(t, "rule created", time.Time{}, minute(-2)), AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(between(t, "approvals", 0, 2))}}
	}
	r := &rollout.Retry{MaxRetries: pointer(between(t, "retries", 0, 4)), BackoffSeconds: oneOf[int64](t, "backoff", 0, 60, 120, 600, 600, 600),
		BackoffStrategy: oneOf(t, "strategy", "", rollout.BackoffLinear, rollout.BackoffExponential)}
	if chance(t, "capped", 20) {
		r.MaxBackoffSeconds = pointer[int64](90)
	}
	if chance(t, "statuses", 20) {
		r.RetryOnStatuses = []rollout.JobStatus{rollout.JobFailure, rollout.JobCancelled}
	}
	return rollout.Rule{Retry: r}
}

// genWindow draws a window that begins and ends at whole minutes around midnight: once, or several
// times a day.
func genWindow(t *rapid.T) *rollout.DeploymentWindow {
	w := &rollout.DeploymentWindow{
		FirstDeploy: oneOf(t, "first", "", rollout.FirstDeployBypass, rollout.FirstDeployApply), MinimumRemainingMinutes: oneOf[int64](t, "remaining", 0, 1, 2),
	}
	if chance(t, "denies", 40) {
		w.AllowWindow = pointer(false)
	}
	if chance(t, "once", 40) {
		from := between(t, "from", -6, 6)
		w.From, w.Until = minute(from), minute(from+between(t, "length", 1, 8))
		return w
	}
	w.RRule = "FREQ=DAILY;BYHOUR=0,23;BYMINUTE=" + oneOf(t, "minutes", "0,5,10,15,20,25,30,35,40,45,50,55", "2,6,10,14,18,22,26,30,34,38,42,46,50,54,58", "0,30") + ";BYSECOND=0"
	w.DurationMinutes = clock.Minutes(between(t, "minutes open", 1, 4))
	return w
}

// genOverrides draws overrides of rules with these ids.
func genOverrides(t *rapid.T, rules []string) (list []rollout.Override) {
	for k := range between(t, "overrides", 0, 3) {
		o := rollout.Override{
			ID: fmt.Sprint("o", k), Rule: oneOf(t, "rule", append(rules, "nobody")...), Version: oneOf(t, "version", "v1", "v2", "v3"), CreatedAt: minute(between(t, "created", -5, 5)), CreatedBy: "ann", Reason: "urgent",
			Environment: oneOf(t, "environment", "", "", "prod"), Deployment: oneOf(t, "deployment", "", "", "a", "b"), Resource: oneOf(t, "resource", "", "r1", "r2", "r9"),
		}
		if k > 0 && chance(t, "again", 40) {
			o.Rule, o.Version = list[k-1].Rule, list[k-1].Version
		}
		if chance(t, "expires", 50) {
			o.ExpiresAt = o.CreatedAt.Add(time.Duration(between(t, "after", 1, 6)) * time.Minute)
		}
		list = append(list, o)
	}
	return list
}

// genFreezes draws freezes, more of them of some of the targets than of all.
func genFreezes(t *rapid.T) (list []rollout.Freeze) {
	for k := range between(t, "freezes", 1, 3) {
		list = append(list, genFreeze(t, fmt.Sprint("z", k)))
	}
	return list
}

func genFreeze(t *rapid.T, id string) rollout.Freeze {
	z := rollout.Freeze{
		ID: id, CreatedAt: minute(between(t, "frozen", -5, 5)), CreatedBy: "bob", Reason: "INC-7", FinishBegun: chance(t, "finishes", 40),
		Environment: oneOf(t, "freezes environment", "", "", "prod", "staging"), Deployment: oneOf(t, "freezes deployment", "", "", "a", "b"), Resource: oneOf(t, "freezes resource", "", "r1", "r1", "r2", "r9"),
	}
	if chance(t, "thaws", 60) {
		z.ExpiresAt = z.CreatedAt.Add(time.Duration(between(t, "for", 1, 8)) * time.Minute)
	}
	z.PauseCurves = z.Resource == "" && chance(t, "pauses", 50)
	return z
}

// idsOf lists the ids of rules, but for those of some kinds.
func idsOf(policies []rollout.Policy, but ...rollout.RuleKind) (ids []string) {
	r := &reference{policies: policies}
	for k := range policies {
		for _, rule := range r.rulesOf(k) {
			if !slices.Contains(but, rule.Kind()) {
				ids = append(ids, rule.id)
			}
		}
	}
	return ids
}

func genGradual(t *rapid.T, keys ...rollout.OrderKey) *rollout.GradualRollout {
	g := &rollout.GradualRollout{
		RolloutType: oneOf(t, "curve", rollout.Linear, rollout.LinearNormalized, rollout.Exponential, rollout.Waves), TimeScaleInterval: pointer(oneOf[int64](t, "interval", 0, 60, 180)),
		OrderKey: oneOf(t, "order key", keys...), OrderHash: oneOf(t, "hash", "", "", rollout.HashV1, rollout.HashLegacy),
	}
	if g.OrderKey == rollout.OrderByTarget || g.OrderKey == rollout.OrderByResource {
		g.OrderSalt = oneOf(t, "salt", "", rollout.SaltNone, rollout.SaltByVersion)
		if g.OrderKey == rollout.OrderByTarget {
			g.OrderSalt = oneOf(t, "salt of targets", "", rollout.SaltNone, rollout.SaltByVersion)
		}
	}
	switch g.RolloutType {
	case rollout.Exponential:
		g.PositionGrowthFactor = int64(between(t, "growth", 1, 4))
	case rollout.Waves:
		g.Waves = []concurrency.Limit{oneOf(t, "first wave", concurrency.Count(1), concurrency.Percent(20)), oneOf(t, "last wave", concurrency.Count(2), concurrency.Percent(50))}
	}
	return g
}

func genPool(t *rapid.T) *concurrency.Rule {
	r := &concurrency.Rule{
		GroupSelector: oneOf(t, "members", "true", "true", "resource.kind == 'Node'", "resource.metadata['zone'] == 'a'", "int(resource.metadata['n']) > 0"),
		Limit:         oneOf(t, "limit", concurrency.Count(0), concurrency.Count(1), concurrency.Count(2), concurrency.Percent(20), concurrency.Percent(50), concurrency.Percent(100)),
		Rounding:      oneOf(t, "rounding", concurrency.Ceil, concurrency.Ceil, concurrency.Floor, concurrency.FloorMin1),
		GroupBy:       oneOf(t, "group by", "", "", "resource.kind", "resource.metadata['zone']"),
	}
	if chance(t, "strict", 30) {
		r.Strict = true
	}
	if r.GroupBy != "" && chance(t, "keys", 60) {
		r.MaxActiveKeys = concurrency.Count(between(t, "active keys", 1, 2))
	}
	if chance(t, "may be stuck", 40) {
		r.StuckAfterSeconds = oneOf[int64](t, "stuck after", 60, 120, 300)
		r.OnStuck = oneOf(t, "on stuck", "", concurrency.Hold, concurrency.Quarantine, concurrency.Quarantine)
		r.QuarantineAllowance = oneOf(t, "allowance", concurrency.Limit{}, concurrency.Count(1), concurrency.Percent(50))
	}
	if chance(t, "exclusive", 30) {
		r.Exclusive = true
	}
	if chance(t, "halts", 30) {
		r.HaltAboveUnavailable = oneOf(t, "above", concurrency.Count(0), concurrency.Count(0), concurrency.Count(1), concurrency.Percent(30))
	}
	if chance(t, "rate", 30) {
		r.Rate = &concurrency.Rate{Limit: oneOf(t, "per period", concurrency.Count(1), concurrency.Count(2), concurrency.Percent(30)), PeriodSeconds: oneOf[int64](t, "period", 60, 180, 600)}
	}
	if chance(t, "shared", 30) {
		*r = concurrency.Rule{GroupSelector: r.GroupSelector, SharedPool: "shared", Limit: concurrency.Count(2), Rounding: concurrency.Ceil}
	}
	return r
}

// genPolicies draws policies without brackets.
func genPolicies(t *rapid.T) []rollout.Policy {
	var list []rollout.Policy
	for k := range between(t, "policies", 0, 2) {
		p := rollout.Policy{Name: fmt.Sprint("p", 3-k), Selector: oneOf(t, "selector",
			"true", "true", "environment.name == 'prod'", "deployment.name != 'b'", "deployment.metadata['tier'] == '1'", "resource.kind == 'Node'", "true", "true", "int(resource.metadata['n']) < 3 || deployment.name == 'a'")}
		if chance(t, "disabled", 5) {
			p.Enabled = pointer(false)
		}
		for range between(t, "rules", 1, 3) {
			p.Rules = append(p.Rules, genRule(t))
		}
		list = append(list, p)
	}
	return list
}

// genState carries out a part of an earlier plan, so that there are leases, rollouts and jobs of
// the planner's own.
func genState(t *rapid.T, set *rollout.PolicySet, s *rollout.Snapshot) error {
	for _, at := range []int{-4, -2}[:between(t, "plans before", 0, 2)] {
		plan, err := set.Plan(*s, minute(at))
		if err != nil {
			return err
		}
		starts := subset(t, plan.Start)
		if s.State, err = plan.Commit(starts, minute(at)); err != nil {
			return err
		}
		for _, start := range starts {
			if status := oneOf[rollout.JobStatus](t, "ran", "successful", "failure", "failure", "inProgress", "", "", ""); status != "" {
				j := job(start, minute(at), status)
				if status.Terminal() {
					j.CompletedAt = minute(at + 1)
				}
				if status == rollout.JobSuccessful && chance(t, "is verified", 30) {
					j.Verification = oneOf[rollout.Verification](t, "as", "passed", "failed", "running")
				}
				add(s, start, j)
			}
		}
	}
	return nil
}

func subset[T any](t *rapid.T, list []T) (some []T) {
	for _, item := range list {
		if chance(t, "in", 60) {
			some = append(some, item)
		}
	}
	return some
}

// TestReference compares plans without brackets with those of the slow and obvious planner.
func TestReference(t *testing.T) {
	env := newRemembering(t)
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		crowd := chance(t, "crowded", 30)
		fleet, crowded := genFleet(t), []rollout.Policy(nil)
		if crowd {
			fleet, crowded = genCrowd(t)
		}
		for range 8 {
			policies := append(slices.Clone(crowded), genPolicies(t)...)
			switch uniform(t, "story", 7) {
			case 1:
				policies = append(policies, rollout.Policy{Name: "p0", Selector: "true", Rules: []rollout.Rule{{Rollback: &rollout.Rollback{OnJobStatuses: []rollout.JobStatus{rollout.JobFailure}, OnVerificationFailure: true}}}})
			case 4: // a version is taken back everywhere
				policies = append(policies, rollout.Policy{Name: "p0", Selector: oneOf(t, "of whom", "true", "environment.name == 'prod'"), Rules: []rollout.Rule{
					{Rollback: &rollout.Rollback{OnVersionStatuses: []rollout.VersionStatus{"rejected"}, OnFailureBudget: true}}, {FailureBudget: &rollout.FailureBudget{MaxFailures: concurrency.Count(0)}},
				}})
			case 2:
				policies = append(policies, rollout.Policy{Name: "p0", Selector: "environment.name == 'prod'", Rules: []rollout.Rule{{EnvironmentProgression: &rollout.EnvironmentProgression{
					DependsOnEnvironmentSelector: "environment.name == 'staging'", MinimumSuccessPercentage: pointer(0.0), MaximumAgeHours: pointer[int64](1),
				}}}})
			case 3: // some of those that are ranked together have a gate that the others do not have
				policies = append(policies,
					rollout.Policy{Name: "p0", Selector: oneOf(t, "gated", "resource.name == 'r1'", "resource.name != 'r1'"), Rules: []rollout.Rule{{AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(1)}}}},
					rollout.Policy{Name: "p00", Selector: "true", Rules: []rollout.Rule{{GradualRollout: &rollout.GradualRollout{RolloutType: rollout.Linear, TimeScaleInterval: pointer[int64](60)}}}})
			}
			var options []rollout.Option
			custom := chance(t, "custom", 30)
			if custom {
				options = append(options, rollout.WithRule(host))
			}
			include, held := chance(t, "include", 20), chance(t, "ungoverned held", 20)
			if include {
				options = append(options, rollout.WithScopeErrors(rollout.ScopeInclude))
			}
			if held {
				options = append(options, rollout.WithUngovernedHeld())
			}
			set, err := rollout.Compile(policies, env, options...)
			if err != nil {
				t.Fatal(err)
			}
			s := cloneFleet(fleet)
			if chance(t, "overridden", 50) {
				s.Overrides = genOverrides(t, append(idsOf(policies, rollout.KindConcurrency), "host"))
			}
			if chance(t, "frozen", 25) {
				s.Freezes = genFreezes(t)
			}
			err = genState(t, set, &s)
			for range 2 {
				now := minute(between(t, "now", -2, 8)).Add(oneOf(t, "and", 0, 0, 0, -1, 30*time.Second))
				var plan rollout.Plan
				if err == nil {
					plan, err = set.Plan(s, now)
				}
				if cycle := (*rollout.CycleError)(nil); errors.As(err, &cycle) {
					seen["cycle"]++
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				r := newReference(policies, env)
				r.custom, r.include, r.held = custom, include, held
				want, got := r.plan(s, now), describe(plan)
				if hasWindows(policies) { // a change that a window may bring is looked for earlier: TestI6NextIsExact says that it is not missed
					if !r.next.IsZero() && (plan.Next.IsZero() || plan.Next.After(r.next)) {
						t.Fatalf("next is %v, the reference looks again at %v", plan.Next, r.next)
					}
					want.Next = got.Next
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("reference (-) and plan (+) differ:\n%s\n%v", diff, &world{policies: policies, s: s, now: now})
				}
				count(seen, plan)
				for wait := range plan.Waiting.All() {
					for _, b := range wait.Blockers {
						if b.Reason == rollout.ReasonRollbackTriggered {
							seen["rollback: "+strings.Fields(b.Data.Detail)[0]]++
						}
					}
				}
				seen["overtaken"] += r.overtaken
			}
		}
	}, "overtaken", "version_not_deployable", "selector_no_match", "selector_missing_key", "selector_error", "approval_missing", "dependency_unmatched", "dependency_unmet",
		"version_dependency_unmet", "rollout_not_started", "rollout_not_due", "retry_backoff", "retry_exhausted", "target_busy", "version_unknown",
		"slot_free", "slot_already_down", "slot_held", "rule_not_applicable", "slot_full", "slot_rate_full", "slot_paused", "slot_halted", "slot_exclusive", "slot_keys_full", "slot_reserved",
		"progression_no_environment", "progression_waiting", "progression_too_old", "cooldown", "window_closed", "window_too_short", "rollback_triggered", "rollback_failed",
		"host_freeze", "host_denies", "not_governed", "start to go back", "start scoped", "frozen", "curve stands still",
		"rollback: failure", "rollback: verification", "rollback: version", "rollback: over", "rollback: taken")
}

// TestReferenceSlots compares them where many hold something in pools that overlap: by a lease in
// all of them or in some, begun or not, by a job that the snapshot shows, by hand.
func TestReferenceSlots(t *testing.T) {
	env := newRemembering(t)
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := fleet(between(t, "resources", 2, 4), "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		for k := range s.Versions {
			s.Versions[k].Priority = oneOf(t, "urgent", 0, 0, 1)
		}
		var rules []rollout.Rule
		pools := between(t, "pools", 1, 3)
		for range pools {
			rules = append(rules, rollout.Rule{ResourceConcurrency: &concurrency.Rule{
				GroupSelector: oneOf(t, "members", "true", "true", "resource.name != 'r1'", "resource.name != 'r2'"),
				Limit:         concurrency.Count(oneOf(t, "limit", 0, 1, 1, 2, 3)),
			}})
		}
		if chance(t, "repeated", 50) {
			rules = append(rules, rollout.Rule{Retry: &rollout.Retry{MaxRetries: pointer(2)}})
		}
		policies := []rollout.Policy{{Name: "p", Selector: oneOf(t, "governs", "true", "true", "deployment.name == 'a'"), Rules: rules}}
		set, err := rollout.Compile(policies, env)
		if err != nil {
			t.Fatal(err)
		}
		for k := range pools {
			s.State.Pools = append(s.State.Pools, concurrency.NewRecord(fmt.Sprintf("p%%2FresourceConcurrency%%2F%d", k)))
		}
		claim := func(h concurrency.Holder) {
			for k := range s.State.Pools {
				if record := s.State.Pools[k]; chance(t, "leased", 50) {
					var err error
					if s.State.Pools[k], err = record.Claim(concurrency.Claim{Token: record.NextToken}, h, minute(-1)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for i := range s.Targets {
			target := &s.Targets[i]
			switch oneOf(t, "story", "", "", "claimed", "claimed", "runs", "ran", "seen") {
			case "claimed":
				claim(concurrency.Holder{Resource: target.Resource, Group: "target/prod/" + target.Deployment})
			case "runs":
				claim(concurrency.Holder{Resource: target.Resource, Group: "target/prod/" + target.Deployment})
				target.Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(-1)}}
			case "ran": // an older version, and v2 is next
				claim(concurrency.Holder{Resource: target.Resource, Group: "target/prod/" + target.Deployment})
				target.Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobFailure, CreatedAt: minute(-1)}}
			case "seen":
				target.Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(-2)}}
			}
		}
		for _, resource := range s.Resources {
			switch oneOf(t, "by hand", "", "", "", "lease", "down") {
			case "lease":
				claim(concurrency.Holder{Resource: resource.ID, Group: "by hand"})
			case "down":
				s.Unavailable = append(s.Unavailable, resource.ID)
			}
		}
		plan, err := set.Plan(s, t0)
		if err != nil {
			t.Fatal(err)
		}
		r := newReference(policies, env)
		want, got := r.plan(s, t0), describe(plan)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("reference (-) and plan (+) differ:\n%s\n%v", diff, &world{policies: policies, s: s, now: t0})
		}
		count(seen, plan)
		seen["claimed in vain"] += r.claimed
		for _, start := range plan.Start {
			seen[string(start.Reason)]++
		}
	}, "claimed in vain", "slot_free", "slot_held", "slot_already_down", "slot_full", "slot_paused", "rule_not_applicable")
}

func hasWindows(policies []rollout.Policy) bool {
	return slices.ContainsFunc(policies, func(p rollout.Policy) bool {
		return slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool { return r.DeploymentWindow != nil })
	})
}

// count notes the reasons for which a plan makes targets wait.
func count(seen testkit.Tally, plan rollout.Plan) {
	for w := range plan.Waiting.All() {
		for _, b := range w.Blockers {
			seen[string(b.Reason)]++
			if b.Reason == rollout.ReasonRolloutNotDue && b.Until.IsZero() {
				seen["curve stands still"]++
			}
		}
	}
	for _, start := range plan.Start {
		seen[string(start.Reason)]++
		if start.Scoped {
			seen["start scoped"]++
		}
		if start.Purpose == rollout.PurposeRollback {
			seen["start to go back"]++
		}
		if strings.HasPrefix(start.Group, "target/") {
			seen["start alone"]++
		} else {
			seen["start in bracket"]++
		}
	}
}

// cloneFleet copies what tests change.
func cloneFleet(s rollout.Snapshot) rollout.Snapshot {
	s.Resources, s.Environments, s.Deployments = slices.Clone(s.Resources), slices.Clone(s.Environments), slices.Clone(s.Deployments)
	s.Versions, s.Targets, s.Approvals = slices.Clone(s.Versions), slices.Clone(s.Targets), slices.Clone(s.Approvals)
	s.Unavailable, s.DeletedResources, s.Commands = slices.Clone(s.Unavailable), slices.Clone(s.DeletedResources), slices.Clone(s.Commands)
	for i := range s.Targets {
		s.Targets[i].Jobs = slices.Clone(s.Targets[i].Jobs)
	}
	return s
}

// genBracket draws a policy with a bracket over deployments, and what else may stand beside it.
func genBracket(t *rapid.T, selector, members string) rollout.Policy {
	rule := &bracket.Rule{
		DeploymentSelector: members, ReadinessMode: oneOf(t, "mode", bracket.CollectionWindow, bracket.WaitForAll, bracket.Immediate, bracket.Immediate),
		UnchangedMemberStrategy: oneOf(t, "unchanged", bracket.SkipUnchanged, bracket.SkipUnchanged, bracket.RedeployCurrent),
		OnMemberFailure:         oneOf(t, "on failure", bracket.Hold, bracket.RunPost, bracket.RollbackMember, bracket.RollbackAll),
		TriggerOn:               oneOf(t, "trigger", "", bracket.Published),
	}
	if rule.ReadinessMode != bracket.Immediate {
		rule.ReadinessWindowSeconds = pointer(oneOf[int64](t, "window", 0, 60, 180))
		if chance(t, "all required", 20) {
			rule.UnchangedMemberStrategy = bracket.RequireAll
		}
	}
	switch oneOf(t, "roles", "none", "derived", "declared", "by tier") {
	case "none":
		rule.MemberRoles = &bracket.MemberRoles{}
	case "by tier": // which some have not, and of some is no number
		rule.MemberRoles = &bracket.MemberRoles{Pre: "int(deployment.metadata['tier']) == 1"}
	case "declared":
		rule.MemberRoles = &bracket.MemberRoles{Pre: "deployment.name == 'a'", Post: "deployment.name == 'c'"}
	}
	if chance(t, "merge", 40) {
		rule.OverlapStrategy, rule.PreparedStatePersists = bracket.Merge, true
	}
	p := rollout.Policy{Name: "n" + members, Selector: selector, Rules: []rollout.Rule{{DeploymentBracket: rule}}}
	for range between(t, "rules beside", 0, 4) {
		r := genRule(t)
		if r.GradualRollout != nil {
			r.GradualRollout = genGradual(t, "", rollout.OrderByResource, rollout.OrderByBracket)
			r.GradualRollout.OrderSalt = oneOf(t, "salt in a bracket", "", rollout.SaltNone, rollout.SaltByGroup)
		}
		p.Rules = append(p.Rules, r)
	}
	if chance(t, "ordered", 60) {
		p.Rules = append(p.Rules, rollout.Rule{DeploymentDependency: &rollout.DeploymentDependency{
			DependsOn: oneOf(t, "order", "deployment.name == 'a'", "deployment.name == 'a'", "deployment.name == 'a' && version.tag != 'v1'", "deployment.name != 'c' && int(deployment.metadata['tier']) == 1"),
			AppliesTo: "deployment.name != 'a'",
		}})
	}
	return p
}

// world is everything a plan is made of.
type world struct {
	policies []rollout.Policy
	options  []rollout.Option
	set      *rollout.PolicySet
	s        rollout.Snapshot
	now      time.Time
	plan     rollout.Plan
}

// genWorld draws a world, with or without brackets, and its plan; nil if the policies contradict
// themselves there.
func genWorld(t *rapid.T, env rollout.Compiler, seen testkit.Tally, brackets bool, adapt func([]rollout.Policy) []rollout.Policy) *world {
	w := &world{s: genFleet(t), policies: genPolicies(t), now: minute(between(t, "now", -2, 8))}
	crowded := adapt == nil && chance(t, "crowded", 30)
	if crowded {
		w.s, w.policies = genCrowd(t)
	}
	if brackets {
		switch uniform(t, "brackets", 3) {
		case 0:
			w.policies = append(w.policies, genBracket(t, "true", "true"))
		case 1:
			w.policies = append(w.policies, genBracket(t, "environment.name == 'prod' || resource.kind == 'Node'", "true"))
		case 2:
			w.policies = append(w.policies, genBracket(t, "true", "deployment.name in ['a', 'b']"), genBracket(t, "true", "deployment.name == 'c'"))
		}
	}
	for i := range w.policies {
		for k := range w.policies[i].Rules { // ids of their own, so that removing one does not rename the others
			w.policies[i].Rules[k].ID = fmt.Sprint(w.policies[i].Name, "-", k)
		}
	}
	if adapt != nil {
		w.policies = adapt(w.policies)
	}
	if chance(t, "custom", 25) {
		w.options = append(w.options, rollout.WithRule(host))
	}
	if chance(t, "overridden", 35) {
		w.s.Overrides = genOverrides(t, append(idsOf(w.policies), "host"))
	}
	if crowded && chance(t, "let past", 50) {
		w.s.Overrides = genOverrides(t, append(idsOf(w.policies, rollout.KindBracket, rollout.KindRetry), "host"))
	}
	if chance(t, "frozen", 15) {
		w.s.Freezes = genFreezes(t)
	}
	var err error
	if w.set, err = rollout.Compile(w.policies, env, w.options...); err != nil {
		t.Fatal(err)
	}
	if err = genState(t, w.set, &w.s); err == nil {
		w.plan, err = w.set.Plan(w.s, w.now)
	}
	if contradicts(err) {
		seen["contradiction"]++
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	if crowded {
		countCrowd(seen, w.plan)
	}
	count(seen, w.plan)
	return w
}

// genCrowd draws a fleet in which everybody wants a newer version, and policies of little more than
// pools: so the pools are full, and their settings decide who starts.
func genCrowd(t *rapid.T) (s rollout.Snapshot, policies []rollout.Policy) {
	deployments := map[string][]string{"a": {"v1", "v2"}}
	if chance(t, "two deployments", 60) {
		deployments["b"] = []string{"v1", "v2"}
	}
	s = fleet(between(t, "resources", 2, 5), "v1", deployments)
	for k := range s.Resources {
		s.Resources[k].Kind = oneOf(t, "kind", "Node", "VM")
		s.Resources[k].Metadata = map[string]string{"zone": oneOf(t, "zone", "a", "b", "c"), "n": "1"}
	}
	for k := range s.Versions { // before all plans
		s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(-time.Hour)
	}
	for k := range s.Targets {
		if chance(t, "there already", 15) {
			s.Targets[k].Current = "v2"
		}
	}
	switch oneOf(t, "by hand", "", "", "down", "counted") {
	case "down":
		for range between(t, "how many", 1, 2) {
			s.Unavailable = append(s.Unavailable, oneOf(t, "who", s.Resources...).ID)
		}
	case "counted":
		s.Active = map[string][]concurrency.Holder{oneOf(t, "where", "shared", "p1-0", "p1-0/a", "p1-0/Node"): {{Resource: oneOf(t, "holder", s.Resources...).ID, Group: "by hand"}}}
	}
	p := rollout.Policy{Name: "p1", Selector: "true"}
	for range between(t, "pools", 1, 3) {
		p.Rules = append(p.Rules, rollout.Rule{ResourceConcurrency: genPool(t)})
	}
	if chance(t, "repeated", 50) {
		p.Rules = append(p.Rules, rollout.Rule{Retry: &rollout.Retry{MaxRetries: pointer(3)}})
	}
	return s, []rollout.Policy{p}
}

// countCrowd notes what pools came to.
func countCrowd(seen testkit.Tally, plan rollout.Plan) {
	for _, p := range plan.Pools {
		if len(p.Quarantined) > 0 {
			seen["quarantined"]++
		}
	}
	if len(plan.Stuck) > 0 {
		seen["stuck"]++
	}
	if len(plan.Orphans) > 0 {
		seen["orphan"]++
	}
	for _, start := range plan.Start {
		if start.Reason == rollout.ReasonOverridden {
			seen["let past"]++
		}
	}
}

// checkWorlds checks a property in several worlds at a time, until all outcomes came about.
func checkWorlds(t *testing.T, env rollout.Compiler, seen testkit.Tally, bracketed int, adapt func([]rollout.Policy) []rollout.Policy, property func(*rapid.T, *world), outcomes ...string) {
	seen.Check(t, func(t *rapid.T) {
		for range 4 {
			if w := genWorld(t, env, seen, chance(t, "bracketed", bracketed), adapt); w != nil {
				property(t, w)
			}
		}
	}, outcomes...)
}

// contradicts reports an error that a drawn world may have: a cycle, a dependency against the
// roles, a target in two brackets.
func contradicts(err error) bool {
	var outside *rollout.CycleError
	var inside *bracket.CycleError
	var roles *bracket.RoleError
	return errors.As(err, &outside) || errors.As(err, &inside) || errors.As(err, &roles)
}

// planIfAny returns the plan, and false if the world contradicts itself.
func planIfAny(t *rapid.T, set *rollout.PolicySet, s rollout.Snapshot, now time.Time) (plan rollout.Plan, planned bool) {
	plan, err := set.Plan(s, now)
	if contradicts(err) {
		return plan, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return plan, true
}

// without drops the rules of some kinds.
func without(kinds ...rollout.RuleKind) func([]rollout.Policy) []rollout.Policy {
	return func(list []rollout.Policy) []rollout.Policy {
		var kept []rollout.Policy
		for _, p := range list {
			p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r rollout.Rule) bool { return slices.Contains(kinds, r.Kind()) })
			if len(p.Rules) > 0 {
				kept = append(kept, p)
			}
		}
		return kept
	}
}

func text(t interface{ Fatal(...any) }, said any) string {
	data, err := json.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func shuffled[T any](r *rand.Rand, list []T) []T {
	list = slices.Clone(list)
	r.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
	return list
}

// rezone puts every instant into some zone or other: it stays the same instant. One that is not set
// becomes one of the year 0, which is not set either.
func rezone(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for k := range v.Len() {
			rezone(r, v.Index(k))
		}
	case reflect.Struct:
		if at, is := v.Interface().(time.Time); is {
			if at.IsZero() {
				at = at.Add(-time.Duration(r.Int64N(int64(48 * time.Hour))))
			}
			v.Set(reflect.ValueOf(at.In(time.FixedZone("", 1800*(r.IntN(49)-24)))))
			return
		}
		for k := range v.NumField() {
			rezone(r, v.Field(k))
		}
	}
}

// TestI1OrderOfInput: shuffling every list of the input changes no byte of the output, and neither
// does another zone in which the host reads its clocks, or the year 0 where it knows no instant.
func TestI1OrderOfInput(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 3 {
			s := w.s
			s.Resources, s.Environments, s.Deployments = shuffled(r, s.Resources), shuffled(r, s.Environments), shuffled(r, s.Deployments)
			s.Versions, s.Targets, s.Approvals = shuffled(r, s.Versions), shuffled(r, s.Targets), shuffled(r, s.Approvals)
			s.Unavailable, s.DeletedResources, s.Overrides = shuffled(r, s.Unavailable), shuffled(r, s.DeletedResources), shuffled(r, s.Overrides)
			s.Freezes = shuffled(r, s.Freezes)
			for i := range s.Targets {
				s.Targets[i].Jobs = shuffled(r, s.Targets[i].Jobs)
			}
			s.State.Brackets, s.State.Executions = shuffled(r, s.State.Brackets), shuffled(r, s.State.Executions)
			s.State.Rollouts, s.State.Pools = shuffled(r, s.State.Rollouts), shuffled(r, s.State.Pools)
			s.Commands = shuffled(r, s.Commands)
			now := w.now
			for _, instants := range []any{&s.Versions, &s.Targets, &s.Approvals, &s.Overrides, &s.Freezes, &s.Commands, &now} {
				rezone(r, reflect.ValueOf(instants).Elem())
			}
			set, err := rollout.Compile(shuffled(r, w.policies), env, w.options...)
			if err != nil {
				t.Fatal(err)
			}
			given := text(t, s)
			plan, err := set.Plan(s, now)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(text(t, w.plan), text(t, plan)); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff(given, text(t, s)); diff != "" {
				t.Fatalf("the snapshot was modified: %s", diff)
			}
			if len(s.Targets) > 0 {
				id := s.Targets[0].TargetID
				before, err := w.plan.Explain(id)
				after, failed := plan.Explain(id)
				if (err == nil) != (failed == nil) {
					t.Fatal(err, failed)
				}
				if diff := cmp.Diff(text(t, before), text(t, after)); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	}, "start alone", "start in bracket", "bracket_collecting", "bracket_not_due", "slot_full")
}

// TestI2ApplyAndPlanAgain: whatever part of a plan is carried out, none of it is started again, and
// all of it leaves nothing to start.
func TestI2ApplyAndPlanAgain(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		all := chance(t, "all", 50)
		starts := w.plan.Start
		if !all {
			starts = subset(t, starts)
			starts = shuffled(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), starts)
		}
		s := cloneFleet(w.s)
		said := text(t, w.plan)
		var err error
		if s.State, err = w.plan.Commit(starts, w.now); err != nil {
			t.Fatalf("commit %q: %v", started(rollout.Plan{Start: starts}), err)
		}
		if diff := cmp.Diff(said, text(t, w.plan)); diff != "" {
			t.Fatalf("the plan was modified: %s", diff)
		}
		for _, start := range starts {
			add(&s, start, job(start, w.now, rollout.JobInProgress))
		}
		again, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range again.Start {
			if slices.ContainsFunc(starts, func(x rollout.Start) bool { return x.Run == start.Run || x.TargetID == start.TargetID }) {
				t.Fatalf("%s starts again", start.Run)
			}
			seen["more later"]++
		}
		begun, past := map[string]bool{}, map[string]bool{} // pools in which somebody began; families in which an override let somebody begin
		family := func(pool string) string { return strings.Split(pool, "/")[0] }
		for _, x := range w.plan.Start {
			for _, claim := range x.Claims {
				begun[claim.Pool] = true
				past[family(claim.Pool)] = past[family(claim.Pool)] || x.Reason == rollout.ReasonOverridden
			}
		}
		later := slices.DeleteFunc(slices.Clone(again.Start), func(start rollout.Start) bool {
			// Who is down already lets others follow on its resource, also those whose lease an
			// override gave them that has expired. Where an override alone took it down they wait
			// until that is at work: it might have been left out.
			byOverride := start.Reason == "slot_held" && slices.ContainsFunc(w.s.State.Pools, func(p concurrency.Record) bool {
				lease, held := p.Lease(concurrency.Holder{Resource: start.Resource, Group: start.Group})
				return held && lease.Reason == string(rollout.ReasonOverridden)
			})
			if (start.Reason == "slot_already_down" || byOverride) && slices.ContainsFunc(w.plan.Start, func(x rollout.Start) bool {
				return x.Resource == start.Resource && x.Reason == rollout.ReasonOverridden
			}) {
				return true
			}
			// So it is with keys. Where an override took one more, who waited for nothing but keys
			// follows those who began there, and by now are at work.
			wait, waited := w.plan.Waiting.Of(start.TargetID)
			follows := waited && wait.Version == start.Version && !slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool {
				return v.Reason != "slot_keys_full" || !begun[ownPool(v)] || !past[family(ownPool(v))]
			})
			if follows {
				seen["by a key of an override"]++
			}
			return follows
		})
		if all && len(later) > 0 {
			t.Fatalf("the whole plan %q was carried out, and %q start\n%v", started(w.plan), started(again), w)
		}
		if len(starts) > 0 {
			seen["applied"]++
		}
	}, "applied", "more later", "start alone", "start in bracket", "slot_keys_full", "slot_reserved", "let past", "quarantined")
}

// shareRate reports whether two starts begin in one pool that has a rate.
func shareRate(a, b rollout.Start) bool {
	return slices.ContainsFunc(a.Claims, func(own rollout.Claim) bool {
		return own.PeriodSeconds > 0 && slices.ContainsFunc(b.Claims, func(other rollout.Claim) bool { return other.Pool == own.Pool && other.PeriodSeconds > 0 })
	})
}

// waitsForRate reports whether a start of another plan waits for a rate in this one.
func waitsForRate(plan rollout.Plan, start rollout.Start) bool {
	waiting, _ := plan.Waiting.Of(start.TargetID)
	return slices.ContainsFunc(waiting.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.Reason(concurrency.SlotRateFull) })
}

// TestLostStartsAreOfferedAgain: whatever part of a plan was saved and never dispatched, and
// wherever the save was cut off, the next plan offers what that one did, with the slots that are
// taken by then. Where an override lets somebody past a limit it may offer more: places that were
// given first are as good as any. Where it lets somebody past a rate it may offer less: the beginning
// counts for later starts, although it took nothing from those of its own plan.
func TestLostStartsAreOfferedAgain(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		some := subset(t, w.plan.Start)
		if len(some) == 0 {
			return
		}
		saved, err := w.plan.Commit(some, w.now)
		if err != nil {
			t.Fatal(err)
		}
		s := w.s
		s.State = saved
		cut := oneOf(t, "cut", "after all", "before executions", "between pools")
		if cut != "after all" {
			s.State.Executions = nil // those that ended come before the pools, all others after them
			for _, record := range saved.Executions {
				k := slices.IndexFunc(w.s.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Rule == record.Rule && r.Resource == record.Resource })
				switch {
				case record.Open == nil:
					s.State.Executions = append(s.State.Executions, record)
				case k >= 0 && w.s.State.Executions[k].Open != nil && w.s.State.Executions[k].Open.Group != record.Open.Group:
					ended := *record
					ended.Open = nil
					s.State.Executions = append(s.State.Executions, &ended)
				case k >= 0:
					s.State.Executions = append(s.State.Executions, w.s.State.Executions[k])
				}
			}
		}
		if cut == "between pools" {
			s.State.Pools = nil
			for _, record := range saved.Pools {
				k := slices.IndexFunc(w.s.State.Pools, func(r concurrency.Record) bool { return r.Key == record.Key })
				family := len(record.Leases) == 0 && record.Confirmed != nil // comes last, and the first time with an empty list before all
				switch {
				case !family && chance(t, "written", 50):
					s.State.Pools = append(s.State.Pools, record)
				case k >= 0:
					s.State.Pools = append(s.State.Pools, w.s.State.Pools[k])
				case family:
					record.Confirmed = []concurrency.Confirmation{}
					s.State.Pools = append(s.State.Pools, record)
				}
			}
		}
		again, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		of := func(list []rollout.Start, run string) int {
			return slices.IndexFunc(list, func(x rollout.Start) bool { return x.Run == run })
		}
		for _, start := range w.plan.Start {
			switch {
			case of(again.Start, start.Run) >= 0:
			case waitsForRate(again, start) && slices.ContainsFunc(some, func(x rollout.Start) bool { return x.Reason == rollout.ReasonOverridden && shareRate(x, start) }):
				seen["its rate is used up by an override"]++
			default:
				t.Fatalf("saved %v, cut off %s, and %v is not offered again, but %v\n%v", some, cut, start, again.Start, w)
			}
		}
		past := slices.ContainsFunc(w.plan.Start, func(x rollout.Start) bool { return x.Reason == rollout.ReasonOverridden })
		for _, start := range again.Start {
			if !past && of(w.plan.Start, start.Run) < 0 {
				t.Fatalf("saved %v, cut off %s, and %v is offered, too\n%v", some, cut, start, w)
			}
			k := of(some, start.Run)
			if k < 0 || cut == "between pools" {
				continue
			}
			for _, claim := range start.Claims { // a run of an execution that is open by now claims only what it needs itself
				if !slices.ContainsFunc(some[k].Claims, func(c rollout.Claim) bool { return c.Pool == claim.Pool && c.Token == claim.Token }) {
					t.Fatalf("%v claims %v, and then %v\n%v", start, some[k].Claims, start.Claims, w)
				}
				seen["same slot"]++
			}
		}
		seen["cut off "+cut]++
	}, "cut off after all", "cut off before executions", "cut off between pools", "same slot", "start in bracket", "slot_keys_full")
}

// TestI3NeverOlder: no start is older than what the target has or has begun, but for a rollback.
func TestI3NeverOlder(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		r := &reference{s: &w.s}
		for _, start := range w.plan.Start {
			target := find(w.s.Targets, func(x rollout.Target) rollout.TargetID { return x.TargetID }, start.TargetID)
			versions := r.versions(start.Deployment)
			_, floor := r.floor(target)
			switch n := place(versions, start.Version) - place(versions, floor); {
			case start.Purpose == rollout.PurposeRollback:
				seen["rollback"]++
			case n < 0 && strings.HasPrefix(start.Group, "target/") && !target.OutdatedAt.IsZero() && start.Version == currentOf(target):
				seen["went back, and is outdated"]++
			case n < 0 && strings.HasPrefix(start.Group, "target/") && target.OutdatedAt.IsZero() && repeatsWayBack(target, start.Version, floor, versions):
				seen["went back, and a further job failed"]++
			case n < 0 && strings.HasPrefix(start.Group, "target/"):
				t.Fatalf("%s starts, the target has %s\n%v", start.Run, floor, w)
			case n < 0 && roleOf(w.plan, start) != bracket.Main:
				seen["hook"]++ // a hook runs the version that is locked: it is never upgraded, only run
			case n < 0 && place(versions, start.Version) < place(versions, currentOf(target)):
				t.Fatalf("%s starts %s, the target runs %s\n%v", start.Run, start.Version, currentOf(target), w)
			case n == 0:
				seen["same again"]++
			default:
				seen["newer"]++
			}
		}
	}, "same again", "newer", "start in bracket")
}

// roleOf is the role of a member in the group of a start.
func roleOf(plan rollout.Plan, start rollout.Start) bracket.Role {
	for _, record := range plan.State.Brackets {
		for _, group := range record.Closed {
			for _, m := range group.Members {
				if group.ID == start.Group && m.Deployment == start.Deployment {
					return m.Role
				}
			}
		}
	}
	return bracket.Main
}

// TestI6NextIsExact: between now and Next a plan says the same, whenever it is asked.
func TestI6NextIsExact(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		w.s.State = w.plan.State
		settled, err := w.set.Plan(w.s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		next := settled.Next
		if !next.IsZero() && !next.After(w.now) {
			t.Fatalf("next %v is not after %v", next, w.now)
		}
		last := w.now.AddDate(1, 0, 0)
		if !next.IsZero() {
			seen["next"]++
			last = next.Add(-1)
		}
		settled.Now = time.Time{}
		for _, at := range []time.Time{w.now.Add(1), w.now.Add(last.Sub(w.now) / 3), last} {
			if !at.After(w.now) || !next.IsZero() && !at.Before(next) {
				continue
			}
			plan, err := w.set.Plan(w.s, at)
			if err != nil {
				t.Fatal(err)
			}
			plan.Now = time.Time{}
			if diff := cmp.Diff(text(t, settled), text(t, plan)); diff != "" {
				t.Fatalf("at %v, next is %v:\n%s", at, next, diff)
			}
		}
	}, "next", "start alone", "start in bracket", "rollout_not_due", "bracket_collecting", "bracket_not_due")
}

// TestI15EveryWaitCanEnd: every verdict that is pending names an instant after now or an event,
// nobody waits for nothing, and each target is spoken of once. What a reason means for whoever
// reads it, its status and the kinds of what can change it, is the same everywhere.
func TestI15EveryWaitCanEnd(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		said := map[rollout.TargetID]bool{}
		for _, start := range w.plan.Start {
			if said[start.TargetID] {
				t.Fatalf("%v starts twice", start.TargetID)
			}
			said[start.TargetID] = true
		}
		for wait := range w.plan.Waiting.All() {
			said[wait.TargetID] = true
			if len(wait.Blockers) == 0 {
				t.Fatalf("%v waits for nothing", wait.TargetID)
			}
			for _, b := range wait.Blockers {
				switch {
				case b.Status == rollout.Allowed:
					t.Fatalf("%v waits although it is allowed: %v", wait.TargetID, b)
				case !b.Until.IsZero() && !b.Until.After(w.now):
					t.Fatalf("%v waits until %v, now is %v: %v", wait.TargetID, b.Until, w.now, b)
				case b.Status == rollout.Pending && b.Until.IsZero() && len(b.On) == 0:
					t.Fatalf("%v waits for ever: %v", wait.TargetID, b)
				case b.Until.After(w.now) && (w.plan.Next.IsZero() || w.plan.Next.After(b.Until)):
					t.Fatalf("%v waits until %v, next is %v", wait.TargetID, b.Until, w.plan.Next)
				}
				if fault := formFault(b); fault != "" {
					t.Fatalf("%v waits for %+v: %s\n%v", wait.TargetID, b, fault, w)
				}
			}
		}
		there := 0
		for _, target := range w.s.Targets {
			if !slices.Contains(w.s.DeletedResources, target.Resource) {
				there++
			}
		}
		if n := len(said) + w.plan.Keep.Current + w.plan.Keep.Started; n != there {
			t.Fatalf("%d targets, %d start or wait, %+v are kept", len(w.s.Targets), len(said), w.plan.Keep)
		}
	}, "start alone", "start in bracket", "bracket_collecting", "bracket_not_due", "bracket_waits_for_members", "slot_full", "slot_rate_full", "slot_exclusive", "slot_halted", "slot_paused", "slot_keys_full", "slot_reserved",
		"version_not_deployable", "selector_no_match", "approval_missing", "progression_waiting", "progression_no_environment", "dependency_unmatched", "dependency_unmet", "cooldown",
		"window_closed", "rollout_not_started", "rollout_not_due", "rollback_triggered", "retry_backoff", "retry_exhausted", "target_busy")
}

// String shows a world that broke a promise.
func (w *world) String() string {
	policies, err := json.Marshal(w.policies)
	if err != nil {
		return err.Error()
	}
	s, err := json.Marshal(w.s)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("at %v\npolicies %s\nsnapshot %s", w.now, policies, s)
}

// byTarget lists what starts.
func byTarget(plan rollout.Plan) map[rollout.TargetID]string {
	starts := map[rollout.TargetID]string{}
	for _, s := range plan.Start {
		starts[s.TargetID] = s.Version
	}
	return starts
}

// TestI7JoinersAndLeavers: capacity aside, who comes, goes or gets other labels turns nobody from
// allowed to waiting. A progression is about shares of what is there, so there a joiner may; it is
// left out. A failure budget is about a share as well, and counts who failed: only a joiner, which
// has not, takes nothing from it.
func TestI7JoinersAndLeavers(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 0, without(rollout.KindConcurrency, rollout.KindProgression), func(t *rapid.T, w *world) {
		before := byTarget(w.plan)
		s := cloneFleet(w.s)
		s.State.Rollouts = w.plan.State.Rollouts          // the order is frozen from the first plan on
		gone, joins := "", later(w.now, minute(0)).Add(1) // after all who are there
		what := oneOf(t, "what", "leaves", "joins", "relabelled")
		if slices.ContainsFunc(w.policies, func(p rollout.Policy) bool {
			return slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool { return r.FailureBudget != nil })
		}) {
			what = "joins"
			seen["under a budget"]++
		}
		switch what {
		case "leaves":
			gone = oneOf(t, "who", s.Resources...).ID
			s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == gone })
			seen["left"]++
		case "relabelled":
			r := &s.Resources[uniform(t, "who", len(s.Resources))]
			gone, r.Kind, r.Metadata = r.ID, oneOf(t, "now", "Node", "VM"), map[string]string{"zone": oneOf(t, "now in", "a", "b", "c"), "n": oneOf(t, "number", "1", "2", "x")}
			for k := range s.Targets { // which may bring it into scope, and that is when it joins
				if s.Targets[k].Resource == gone {
					s.Targets[k].JoinedAt = joins
				}
			}
			seen["relabelled"]++
		default:
			s.Resources = append(s.Resources, rollout.Resource{ID: "a-joiner", Kind: "Node"})
			for _, e := range s.Environments {
				for _, d := range s.Deployments {
					s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "a-joiner", Environment: e.ID, Deployment: d.ID}, JoinedAt: joins, Priority: 9})
				}
			}
			seen["joined"]++
		}
		plan, planned := planIfAny(t, w.set, s, w.now)
		if !planned {
			return
		}
		after := byTarget(plan)
		for id, version := range before {
			if after[id] == "" && id.Resource != gone { // a leaver may move it forward to a newer version
				t.Fatalf("%v started %s, and now waits\n%v", id, version, w)
			}
			seen["allowed"]++
		}
	}, "left", "joined", "relabelled", "under a budget", "allowed")
}

// TestI10AllBlockers: without the rules that a waiting target names, and only those, it is allowed.
func TestI10AllBlockers(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 0, without(rollout.KindConcurrency), func(t *rapid.T, w *world) {
		for wait := range w.plan.Waiting.All() {
			s := cloneFleet(w.s)
			named := map[string]bool{}
			for _, b := range wait.Blockers {
				switch b.Reason {
				case rollout.ReasonVersionNotDeployable:
					for i := range s.Versions {
						if s.Versions[i].Deployment == wait.Deployment && s.Versions[i].ID == wait.Version {
							s.Versions[i].Status = rollout.VersionReady
						}
					}
				case rollout.ReasonFrozen:
					s.Freezes = slices.DeleteFunc(slices.Clone(s.Freezes), func(z rollout.Freeze) bool { return z.ID == b.On[0].Freeze })
				case rollout.ReasonVersionUnmet:
					for i := range s.Versions {
						s.Versions[i].Dependencies = nil
					}
				case rollout.ReasonTargetBusy:
					for i := range s.Targets {
						if s.Targets[i].TargetID == wait.TargetID {
							for k := range s.Targets[i].Jobs {
								if j := &s.Targets[i].Jobs[k]; !j.Status.Terminal() {
									j.Status = rollout.JobCancelled
								}
							}
						}
					}
				}
				named[b.Rule] = true
			}
			if wait.Version == "" || named[""] && slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool {
				return b.Reason == rollout.ReasonRetryExhausted || b.Reason == rollout.ReasonRetryBackoff || b.Rule == "" && b.Reason == rollout.ReasonSelectorError
			}) || slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool { return strings.HasPrefix(string(b.Reason), "retry_") }) {
				continue // held as a whole, or by what a removed rule makes stricter
			}
			if _, floor := (&reference{s: &s}).floor(find(s.Targets, func(x rollout.Target) rollout.TargetID { return x.TargetID }, wait.TargetID)); floor == wait.Version {
				continue // to be repeated, which depends on its jobs and not on rules
			}
			// A cooldown refers to the active job: without that it refers to another version, and
			// what it says of this one is another matter.
			busy := slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool { return b.Reason == rollout.ReasonTargetBusy })
			var policies []rollout.Policy
			for _, p := range w.policies {
				union := slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool {
					return named[r.ID] && r.DeploymentWindow != nil && allows(namedRule{Rule: r})
				})
				p.Rules = slices.DeleteFunc(slices.Clone(p.Rules), func(r rollout.Rule) bool {
					// The allowing windows of a policy are one: without the one that is open for
					// too short a time the others would be in the way.
					return named[r.ID] || busy && r.VersionCooldown != nil || union && r.DeploymentWindow != nil && allows(namedRule{Rule: r})
				})
				if len(p.Rules) > 0 {
					policies = append(policies, p)
				}
			}
			options := w.options
			if named["host"] {
				options = nil
			}
			set, err := rollout.Compile(policies, env, options...)
			if err != nil {
				t.Fatal(err)
			}
			plan, planned := planIfAny(t, set, s, w.now)
			if !planned {
				continue
			}
			if got := byTarget(plan)[wait.TargetID]; got != wait.Version {
				t.Fatalf("%v waited for %s: %v; without these it starts %q and waits %q\n%v", wait.TargetID, wait.Version, wait.Blockers, got, blockers(plan), w)
			}
			seen[fmt.Sprint(min(3, len(wait.Blockers)), " blockers")]++
		}
	}, "1 blockers", "2 blockers", "3 blockers")
}

// TestI11RulesOnlyRestrict: capacity and retries aside, one more rule starts nothing that did not
// start without it; but a rule of rollback takes back, so does one with onFailureBudget once a budget
// is added, and a window that allows is united with others of its policy.
func TestI11RulesOnlyRestrict(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 0, without(rollout.KindConcurrency, rollout.KindRetry), func(t *rapid.T, w *world) {
		rule := genRule(t)
		if rule.Retry != nil || rule.ResourceConcurrency != nil || len(w.policies) == 0 {
			return
		}
		rule.ID = "added"
		policies := slices.Clone(w.policies)
		k := uniform(t, "policy", len(policies))
		if d := rule.DeploymentWindow; d != nil && (d.AllowWindow == nil || *d.AllowWindow) && slices.ContainsFunc(policies[k].Rules, func(r rollout.Rule) bool { return r.DeploymentWindow != nil }) {
			return // one more window of a policy is united with the others
		}
		policies[k].Rules = append(slices.Clone(policies[k].Rules), rule)
		set, err := rollout.Compile(policies, env, w.options...)
		if err != nil {
			t.Fatal(err)
		}
		plan, planned := planIfAny(t, set, w.s, w.now)
		if !planned {
			return
		}
		heeded := rule.FailureBudget != nil && slices.ContainsFunc(policies, func(p rollout.Policy) bool {
			return slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool { return r.Rollback != nil && r.Rollback.OnFailureBudget })
		})
		if rule.Rollback != nil || heeded {
			plan.Start = slices.DeleteFunc(plan.Start, func(s rollout.Start) bool {
				target := find(w.s.Targets, func(x rollout.Target) rollout.TargetID { return x.TargetID }, s.TargetID)
				back := s.Purpose == rollout.PurposeRollback || s.Version == currentOf(target) // what it went back to may be outdated
				if back {
					seen["back"]++
				}
				return back
			})
		}
		before, after := byTarget(w.plan), byTarget(plan)
		for id := range after {
			if _, allowed := before[id]; !allowed {
				t.Fatalf("%v starts because of %+v\n%v", id, rule, w)
			}
		}
		if len(after) < len(before) {
			seen["fewer"]++
		} else {
			seen["as many"]++
		}
	}, "fewer", "as many")
}

// TestI12ErrorsStayAtHome: capacity aside, an expression that fails on one resource changes nothing
// for the others, compared with one that has no answer there; and nothing starts where a policy or
// a pool could not be asked. But a group of a bracket has nothing for a target that is held, and so
// may never close, which is what the hooks on other resources wait for.
func TestI12ErrorsStayAtHome(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 40, without(rollout.KindConcurrency), func(t *rapid.T, w *world) {
		plans := map[string]rollout.Plan{}
		for _, value := range []string{"x", ""} {
			s := cloneFleet(w.s)
			s.Resources[0].Metadata = map[string]string{"n": value, "zone": s.Resources[0].Metadata["zone"]}
			if value == "" {
				delete(s.Resources[0].Metadata, "n")
			}
			plan, planned := planIfAny(t, w.set, s, w.now)
			if !planned {
				return
			}
			others := rollout.Plan{}
			var waiting []rollout.Waiting
			for _, start := range plan.Start {
				if start.Resource != s.Resources[0].ID {
					others.Start = append(others.Start, start)
				}
			}
			for wait := range plan.Waiting.All() {
				if wait.Resource != s.Resources[0].ID {
					wait.Blockers = slices.Clone(wait.Blockers)
					for k := range wait.Blockers {
						if v := &wait.Blockers[k]; v.Reason == rollout.Reason(bracket.ReasonHookWaitsForMain) {
							v.Until = time.Time{}
						}
					}
					waiting = append(waiting, wait)
				} else if wait.Version == "" && wait.Blockers[0].Reason == rollout.ReasonSelectorError {
					seen["held"]++
					if _, starts := byTarget(plan)[wait.TargetID]; starts {
						t.Fatalf("%v starts although %v", wait.TargetID, wait.Blockers)
					}
				}
			}
			others.Waiting = rollout.NewWaitingList(waiting...)
			plans[value] = others
		}
		if diff := cmp.Diff(text(t, plans["x"]), text(t, plans[""])); diff != "" {
			t.Fatalf("%s\n%v", diff, w)
		}
	}, "held", "start alone", "start in bracket")
}
