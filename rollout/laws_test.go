package rollout_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/rollout"
)

// The tests of this file compare the plans of two worlds that say the same in other words.

var instants = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)

// moved moves every instant of a text, but for what was never.
func moved(text string, by time.Duration) string {
	return instants.ReplaceAllStringFunc(text, func(instant string) string {
		at, err := time.Parse(time.RFC3339Nano, instant)
		if err != nil || at.IsZero() {
			return instant
		}
		return at.Add(by).Format(time.RFC3339Nano)
	})
}

// TestNoInstantIsSpecial: a world that is the same at another time has the same plans and
// explanations then.
func TestNoInstantIsSpecial(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		if len(w.options) > 0 { // which look at the clock
			return
		}
		by := time.Duration(between(t, "seconds", -40_000_000, 90_000_000)) * time.Second
		if said := text(t, w.policies); strings.Contains(said, "FREQ=") {
			by = by.Truncate(24 * time.Hour)
			seen["recurring"]++
		}
		policies, err := rollout.ParsePolicies([]byte(moved(text(t, append([]rollout.Policy{}, w.policies...)), by)))
		if err != nil {
			t.Fatal(err)
		}
		set, err := rollout.Compile(policies, env)
		if err != nil {
			t.Fatal(err)
		}
		var s rollout.Snapshot
		if err := json.Unmarshal([]byte(moved(text(t, w.s), by)), &s); err != nil {
			t.Fatal(err)
		}
		plan, err := set.Plan(s, w.now.Add(by))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(moved(text(t, w.plan), by), text(t, plan)); diff != "" {
			t.Fatalf("%v later: %s\n%v", by, diff, w)
		}
		for _, target := range w.s.Targets {
			before, err := w.plan.Explain(target.TargetID)
			after, failed := plan.Explain(target.TargetID)
			if (err == nil) != (failed == nil) { // on a resource that is gone both do
				t.Fatal(err, failed)
			}
			if diff := cmp.Diff(moved(text(t, before), by), text(t, after)); diff != "" {
				t.Fatalf("%v later: %s\n%v", by, diff, w)
			}
		}
	}, "recurring", "start alone", "start in bracket", "bracket_collecting", "rollout_not_due", "window_closed", "cooldown", "retry_backoff", "progression_waiting")
}

// names are what the ids of a world become.
type names struct{ resource, environment, deployment, version func(string) string }

// prefix puts something before an id. The order of ids stays.
func prefix(with string) func(string) string {
	return func(id string) string {
		if id == "" {
			return ""
		}
		return with + id
	}
}

var (
	itself = names{prefix(""), prefix(""), prefix(""), prefix("")}
	odd    = names{prefix("rack 1/%2F"), prefix("\u00e9|"), prefix("/.."), prefix("%")}
)

func (n names) target(id rollout.TargetID) rollout.TargetID {
	return rollout.TargetID{Resource: n.resource(id.Resource), Environment: n.environment(id.Environment), Deployment: n.deployment(id.Deployment)}
}

// fleet renames everything, and forgets what the planner knew: its jobs become those of the host.
func (n names) fleet(s rollout.Snapshot) rollout.Snapshot {
	s = cloneFleet(s)
	s.State = rollout.State{}
	s.Overrides, s.Freezes = slices.Clone(s.Overrides), slices.Clone(s.Freezes)
	for k := range s.Resources {
		s.Resources[k].ID = n.resource(s.Resources[k].ID)
	}
	for k := range s.Environments {
		s.Environments[k].ID = n.environment(s.Environments[k].ID)
	}
	for k := range s.Deployments {
		s.Deployments[k].ID = n.deployment(s.Deployments[k].ID)
	}
	for k := range s.Versions {
		v := &s.Versions[k]
		v.ID, v.Deployment, v.Dependencies = n.version(v.ID), n.deployment(v.Deployment), slices.Clone(v.Dependencies)
		for i := range v.Dependencies {
			v.Dependencies[i].Deployment = n.deployment(v.Dependencies[i].Deployment)
		}
	}
	for k := range s.Targets {
		t := &s.Targets[k]
		t.TargetID, t.Current = n.target(t.TargetID), n.version(t.Current)
		for i := range t.Jobs {
			t.Jobs[i].Version, t.Jobs[i].Run = n.version(t.Jobs[i].Version), ""
		}
	}
	for k := range s.Approvals {
		a := &s.Approvals[k]
		a.Version, a.Deployment, a.Environment = n.version(a.Version), n.deployment(a.Deployment), n.environment(a.Environment)
	}
	for k := range s.Overrides {
		o := &s.Overrides[k]
		o.Version, o.Deployment, o.Environment, o.Resource = n.version(o.Version), n.deployment(o.Deployment), n.environment(o.Environment), n.resource(o.Resource)
	}
	for k := range s.Freezes {
		z := &s.Freezes[k]
		z.Deployment, z.Environment, z.Resource = n.deployment(z.Deployment), n.environment(z.Environment), n.resource(z.Resource)
	}
	for k := range s.Unavailable {
		s.Unavailable[k] = n.resource(s.Unavailable[k])
	}
	for k := range s.DeletedResources {
		s.DeletedResources[k] = n.resource(s.DeletedResources[k])
	}
	active := map[string][]concurrency.Holder{}
	for pool, holders := range s.Active {
		for _, holder := range holders {
			if target, outside := rollout.TargetOf(holder); outside {
				id := n.target(target)
				holder.Group = textkey.Join("target", id.Environment, id.Deployment)
			}
			active[pool] = append(active[pool], concurrency.Holder{Resource: n.resource(holder.Resource), Group: holder.Group})
		}
	}
	s.Active = active
	return s
}

// says lists what a plan decides, with other names.
func (n names) says(plan rollout.Plan) (list []string) {
	for _, x := range plan.Start {
		line := fmt.Sprintf("%s of %v starts: %s, %s,", n.version(x.Version), n.target(x.TargetID), x.Purpose, x.Reason)
		for _, claim := range x.Claims {
			line += fmt.Sprint(" ", claim.Pool, claim.Token)
		}
		list = append(list, line)
	}
	for w := range plan.Waiting.All() {
		line := fmt.Sprintf("%s of %v waits:", n.version(w.Version), n.target(w.TargetID))
		for _, v := range w.Blockers {
			line += fmt.Sprint(" ", v.Status, v.Reason, v.Rule, v.Until)
			for _, on := range v.On {
				line += fmt.Sprint(" on ", on.Kind)
			}
			if v.Data != nil {
				line += fmt.Sprint(" ", v.Data.Attempt, v.Data.Allowed, len(v.Data.Names))
			}
		}
		list = append(list, line)
	}
	for _, p := range plan.Pools {
		list = append(list, fmt.Sprint("pool ", p.Key, " ", p.Active, p.Total, p.Max, p.Waiting, len(p.Holders), len(p.Quarantined)))
	}
	for _, e := range plan.Events {
		list = append(list, fmt.Sprint("event ", e.Kind, " ", e.Rule, n.environment(e.Environment), n.resource(e.Resource), e.At, e.Status))
	}
	for _, x := range plan.Stuck {
		list = append(list, fmt.Sprint("stuck ", n.resource(x.Resource), " since ", x.Since))
	}
	for _, x := range plan.Orphans {
		list = append(list, fmt.Sprint("orphan ", n.resource(x.Resource), " in ", x.Pool, x.Token))
	}
	return list
}

// TestNoNameIsSpecial: a fleet whose ids are others, in the same order and however odd, is deployed
// in the same way. Only curves order by ids.
func TestNoNameIsSpecial(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, without(rollout.KindGradualRollout), func(t *rapid.T, w *world) {
		if len(w.options) > 0 { // which know some by their ids
			return
		}
		fleets := [2]rollout.Snapshot{itself.fleet(w.s), odd.fleet(w.s)}
		for at := w.now; at.Before(w.now.Add(4 * time.Minute)); at = at.Add(time.Minute) {
			var plans [2]rollout.Plan
			for k := range fleets {
				var planned bool
				if plans[k], planned = planIfAny(t, w.set, fleets[k], at); !planned {
					return
				}
			}
			if diff := cmp.Diff(odd.says(plans[0]), itself.says(plans[1])); diff != "" {
				t.Fatalf("%s\n%v", diff, w)
			}
			if a, b := plans[0], plans[1]; a.Keep != b.Keep || !a.Next.Equal(b.Next) || len(a.Diagnostics) != len(b.Diagnostics) {
				t.Fatalf("%v\nand\n%v\n%v", a, b, w)
			}
			count(seen, plans[0])
			for i := range plans[0].Start {
				outcome := oneOf(t, "outcome", "", rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress)
				for k, plan := range plans {
					if start := plan.Start[i]; outcome != "" {
						add(&fleets[k], start, job(start, at, outcome))
					}
				}
			}
			for k, plan := range plans {
				var err error
				if fleets[k].State, err = plan.Commit(plan.Start, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}, "start alone", "start in bracket", "bracket_collecting", "slot_full")
}

// TestPoliciesMayBeSplit: rules that govern the same targets say the same in one policy and in
// several. But windows of one policy are one calendar, a curve takes its order from the bracket
// beside it, and the bracket its own from the dependencies.
func TestPoliciesMayBeSplit(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	together := []rollout.RuleKind{rollout.KindWindow, rollout.KindBracket, rollout.KindGradualRollout, rollout.KindDependency}
	isTogether := func(r rollout.Rule) bool { return slices.Contains(together, r.Kind()) }
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		var whole, split []rollout.Policy
		for _, p := range w.policies {
			var rules []rollout.Rule // those that stay together come first
			for _, first := range []bool{true, false} {
				for _, r := range p.Rules {
					if isTogether(r) == first {
						rules = append(rules, r)
					}
				}
			}
			p.Rules = rules
			whole = append(whole, p)
			mayFail := strings.Contains(p.Selector, "int(") // and then the policy blocks by its name
			begin, name := 0, p.Name
			for k := range rules {
				if k+1 < len(rules) && (isTogether(rules[k+1]) || mayFail || chance(t, "on", 40)) {
					continue
				}
				p.Name, p.Rules = name+strings.Repeat("~", begin), rules[begin:k+1]
				split, begin = append(split, p), k+1
			}
		}
		if len(split) > len(whole) {
			seen["split"]++
		}
		var plans []rollout.Plan
		for _, policies := range [][]rollout.Policy{whole, split} {
			set, err := rollout.Compile(policies, env, w.options...)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := set.Plan(w.s, w.now)
			if err != nil {
				t.Fatal(err)
			}
			plan.Diagnostics = nil // count what is asked
			plans = append(plans, plan)
		}
		if diff := cmp.Diff(text(t, plans[0]), text(t, plans[1])); diff != "" {
			t.Fatalf("%s\n%v\nsplit: %s", diff, w, text(t, split))
		}
	}, "split", "start alone", "start in bracket", "bracket_collecting", "slot_full")
}

// ownPolicies lets policies govern only the resources of a tenant, under names of its own.
func ownPolicies(policies []rollout.Policy, tenant string) (own []rollout.Policy) {
	only := fmt.Sprintf(" && resource.metadata['tenant'] == '%s'", tenant)
	for _, p := range policies {
		p.Name, p.Selector, p.Rules = tenant+p.Name, "("+p.Selector+")"+only, slices.Clone(p.Rules)
		for k := range p.Rules {
			p.Rules[k].ID = tenant + p.Rules[k].ID
			if r := p.Rules[k].ResourceConcurrency; r != nil {
				pool := *r
				pool.GroupSelector = "(" + pool.GroupSelector + ")" + only
				if pool.SharedPool != "" {
					pool.SharedPool = tenant + pool.SharedPool
				}
				p.Rules[k].ResourceConcurrency = &pool
			}
		}
		own = append(own, p)
	}
	return own
}

// TestTenantsDoNotMeet: two fleets that share nothing are planned together as each of them alone.
func TestTenantsDoNotMeet(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	tenants := []string{"A", "B"}
	alone := func(t *rapid.T, tenant string) (policies []rollout.Policy, s rollout.Snapshot, now time.Time) {
		// A progression looks at all environments that its selector matches.
		w := genWorld(t, env, seen, chance(t, "bracketed", 60), without(rollout.KindProgression))
		if w == nil || len(w.options) > 0 {
			return nil, s, now
		}
		s = map[string]names{"A": itself, "B": odd}[tenant].fleet(w.s)
		for k := range s.Resources {
			r := &s.Resources[k]
			r.Metadata = maps.Clone(r.Metadata)
			if r.Metadata == nil {
				r.Metadata = map[string]string{}
			}
			r.Metadata["tenant"] = tenant
		}
		for k := range s.Overrides {
			s.Overrides[k].ID, s.Overrides[k].Rule = tenant+s.Overrides[k].ID, tenant+s.Overrides[k].Rule
		}
		s.Freezes = slices.DeleteFunc(s.Freezes, func(z rollout.Freeze) bool { return z.Environment+z.Deployment+z.Resource == "" })
		for k := range s.Freezes {
			s.Freezes[k].ID = tenant + s.Freezes[k].ID
		}
		active := map[string][]concurrency.Holder{}
		for pool, holders := range s.Active {
			active[tenant+pool] = holders
		}
		s.Active = active
		return ownPolicies(w.policies, tenant), s, w.now
	}
	plan := func(t *rapid.T, policies []rollout.Policy, s rollout.Snapshot, now time.Time) (plan rollout.Plan, planned bool) {
		set, err := rollout.Compile(policies, env)
		if err != nil {
			t.Fatal(err)
		}
		return planIfAny(t, set, s, now)
	}
	seen.Check(t, func(t *rapid.T) {
		var policies [3][]rollout.Policy // of both, and of each
		var fleets [3]rollout.Snapshot
		var now time.Time
		for k, tenant := range tenants {
			own, s, at := alone(t, tenant)
			if at.IsZero() {
				return
			}
			policies[k+1], fleets[k+1], now = own, s, at
		}
		policies[0], fleets[0] = slices.Concat(policies[1], policies[2]), union(fleets[1], fleets[2])
		for range 4 {
			var plans [3]rollout.Plan
			for k := range plans {
				var planned bool
				if plans[k], planned = plan(t, policies[k], fleets[k], now); !planned {
					return
				}
			}
			together, apart := itself.says(plans[0]), append(itself.says(plans[1]), itself.says(plans[2])...)
			slices.Sort(together)
			slices.Sort(apart)
			if diff := cmp.Diff(apart, together); diff != "" {
				t.Fatalf("%s\nat %v\npolicies %s\nsnapshot %s", diff, now, text(t, policies[0]), text(t, fleets[0]))
			}
			next := plans[1].Next
			if at := plans[2].Next; next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
			keep := rollout.Keep{Current: plans[1].Keep.Current + plans[2].Keep.Current, Started: plans[1].Keep.Started + plans[2].Keep.Started}
			if plans[0].Keep != keep || !plans[0].Next.Equal(next) {
				t.Fatalf("%v\nand not keep %v, next %v", plans[0], keep, next)
			}
			count(seen, plans[0])
			outcome := map[string]rollout.JobStatus{}
			for _, start := range plans[0].Start {
				outcome[start.Run] = oneOf(t, "outcome", "", rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress)
			}
			for k, plan := range plans {
				var err error
				if fleets[k].State, err = plan.Commit(plan.Start, now); err != nil {
					t.Fatal(err)
				}
				for _, start := range plan.Start {
					if status := outcome[start.Run]; status != "" {
						add(&fleets[k], start, job(start, now, status))
					}
				}
			}
			now = now.Add(time.Minute)
		}
		seen["both"]++
	}, "both", "start alone", "start in bracket", "bracket_collecting", "slot_full", "rollout_not_due")
}

// union is two fleets in one.
func union(a, b rollout.Snapshot) rollout.Snapshot {
	a = cloneFleet(a)
	a.Resources, a.Environments, a.Deployments = append(a.Resources, b.Resources...), append(a.Environments, b.Environments...), append(a.Deployments, b.Deployments...)
	a.Versions, a.Targets, a.Approvals = append(a.Versions, b.Versions...), append(a.Targets, b.Targets...), append(a.Approvals, b.Approvals...)
	a.Unavailable, a.DeletedResources = append(a.Unavailable, b.Unavailable...), append(a.DeletedResources, b.DeletedResources...)
	a.Overrides, a.Freezes = slices.Concat(a.Overrides, b.Overrides), slices.Concat(a.Freezes, b.Freezes)
	a.Active = maps.Clone(a.Active)
	maps.Copy(a.Active, b.Active)
	return a
}

// idle is a rule of the host that allows everything.
type idle struct{}

func (idle) ID() string                              { return "idle" }
func (idle) Judge(rollout.Candidate) rollout.Verdict { return rollout.Verdict{Status: rollout.Allowed} }

// worded is what a plan is made of, to be said in other words.
type worded struct {
	s        rollout.Snapshot
	policies []rollout.Policy
	options  []rollout.Option
	now      time.Time
}

// with adds a policy of one rule that governs everything.
func (x *worded) with(rule rollout.Rule) {
	rule.ID = "idle"
	x.policies = append(slices.Clone(x.policies), rollout.Policy{Name: "more", Selector: "true", Rules: []rollout.Rule{rule}})
}

// meaningless lists what by the documentation changes no plan, by the sentence that says so. An edit
// returns false if there is nothing to change.
func meaningless() map[string]func(*worded) bool {
	over := func(x *worded, at time.Time) bool { return !at.IsZero() && !at.After(x.now) }
	return map[string]func(*worded) bool{
		"a deleted resource that is listed, and its targets, are ignored": func(x *worded) bool {
			gone := func(id string) bool { return slices.Contains(x.s.DeletedResources, id) }
			n := len(x.s.Resources)
			x.s.Resources = slices.DeleteFunc(x.s.Resources, func(r rollout.Resource) bool { return gone(r.ID) })
			x.s.Targets = slices.DeleteFunc(x.s.Targets, func(t rollout.Target) bool { return gone(t.Resource) })
			return len(x.s.Resources) < n
		},
		"a disabled policy governs nothing": func(x *worded) bool {
			x.with(rollout.Rule{VersionSelector: &rollout.VersionSelector{Selector: "false"}})
			x.policies[len(x.policies)-1].Enabled = pointer(false)
			return true
		},
		"a freeze that is over holds nothing, unless it pauses curves": func(x *worded) bool {
			n := len(x.s.Freezes)
			x.s.Freezes = slices.DeleteFunc(slices.Clone(x.s.Freezes), func(z rollout.Freeze) bool { return !z.PauseCurves && over(x, z.ExpiresAt) })
			return len(x.s.Freezes) < n
		},
		"an override that has expired lets nothing past": func(x *worded) bool {
			n := len(x.s.Overrides)
			x.s.Overrides = slices.DeleteFunc(slices.Clone(x.s.Overrides), func(o rollout.Override) bool { return over(x, o.ExpiresAt) })
			remembers := func(r rollout.Rule) bool { return r.DeploymentBracket != nil || r.Retry != nil }
			return len(x.s.Overrides) < n && !slices.ContainsFunc(x.policies, func(p rollout.Policy) bool { return slices.ContainsFunc(p.Rules, remembers) })
		},
		"a resource that is listed twice counts once, and an unknown one is passed over": func(x *worded) bool {
			x.s.Unavailable = slices.Concat(x.s.Unavailable, x.s.Unavailable, []string{"nobody"})
			x.s.DeletedResources = slices.Concat(x.s.DeletedResources, x.s.DeletedResources, []string{"nobody"})
			x.s.Active = maps.Clone(x.s.Active)
			for pool, holders := range x.s.Active {
				x.s.Active[pool] = slices.Concat(holders, holders)
			}
			return true
		},
		"an instant before the year 1 counts as missing": func(x *worded) bool {
			unset := func(at *time.Time) {
				if at.IsZero() {
					*at = time.Date(0, 6, 1, 0, 0, 0, 0, time.UTC)
				}
			}
			x.s.Overrides, x.s.Freezes, x.policies = slices.Clone(x.s.Overrides), slices.Clone(x.s.Freezes), slices.Clone(x.policies)
			for i := range x.s.Targets {
				t := &x.s.Targets[i]
				unset(&t.JoinedAt)
				unset(&t.OutdatedAt)
				for k := range t.Jobs {
					unset(&t.Jobs[k].CompletedAt)
				}
			}
			for k := range x.s.Overrides {
				unset(&x.s.Overrides[k].ExpiresAt)
			}
			for k := range x.s.Freezes {
				unset(&x.s.Freezes[k].ExpiresAt)
			}
			for i := range x.policies {
				x.policies[i].Rules = slices.Clone(x.policies[i].Rules)
				for k := range x.policies[i].Rules {
					unset(&x.policies[i].Rules[k].CreatedAt)
				}
			}
			return true
		},
		"an ended job without an end has ended when it was created": func(x *worded) bool {
			edited := false
			for i := range x.s.Targets {
				for k := range x.s.Targets[i].Jobs {
					if j := &x.s.Targets[i].Jobs[k]; j.Status.Terminal() && j.CompletedAt.IsZero() {
						j.CompletedAt, edited = j.CreatedAt, true
					}
				}
			}
			return edited
		},
		"the rule of a host that allows everything": func(x *worded) bool {
			x.options = append(slices.Clone(x.options), rollout.WithRule(idle{}))
			return true
		},
		"the widest scope": func(x *worded) bool {
			x.options = append(slices.Clone(x.options), rollout.WithMaxScope(func(rollout.Version, rollout.TargetID) bool { return true }))
			return true
		},
		"no approvals are needed": func(x *worded) bool {
			x.with(rollout.Rule{AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(0)}})
			return true
		},
		"every version is selected": func(x *worded) bool {
			x.with(rollout.Rule{VersionSelector: &rollout.VersionSelector{Selector: "true"}})
			return true
		},
		"all may fail": func(x *worded) bool {
			x.with(rollout.Rule{FailureBudget: &rollout.FailureBudget{MaxFailures: concurrency.Percent(100)}})
			return true
		},
		"all of a sample may fail": func(x *worded) bool {
			x.with(rollout.Rule{FailureBudget: &rollout.FailureBudget{MaxFailureRate: concurrency.Percent(100), MinimumSample: 1}})
			return true
		},
		"a sample is larger than the fleet": func(x *worded) bool {
			x.with(rollout.Rule{FailureBudget: &rollout.FailureBudget{MaxFailureRate: concurrency.Percent(0), MinimumSample: 1000}})
			return true
		},
	}
}

// TestWhatChangesNothing: what by the documentation changes no plan changes none, whatever else
// there is. Only diagnostics tell of it.
func TestWhatChangesNothing(t *testing.T) {
	t.Parallel()
	env, seen, edits := newRemembering(t), testkit.Tally{}, meaningless()
	names := slices.Sorted(maps.Keys(edits))
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		for _, name := range names {
			x := &worded{s: cloneFleet(w.s), policies: w.policies, options: w.options, now: w.now}
			if !chance(t, name, 40) || !edits[name](x) {
				continue
			}
			seen[name]++
			set, err := rollout.Compile(x.policies, env, x.options...)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := set.Plan(x.s, x.now)
			if err != nil {
				t.Fatal(err)
			}
			before := w.plan
			before.Diagnostics, plan.Diagnostics = nil, nil
			before.Next, plan.Next = time.Time{}, time.Time{} // a further rule may have something to look at then
			if diff := cmp.Diff(text(t, before), text(t, plan)); diff != "" {
				t.Fatalf("%s: %s\n%v", name, diff, w)
			}
		}
	}, names...)
}
