package rollout_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// perTarget evaluates the node policy of the bracket RFC as the RFC sketches it: every release
// target on its own, each evaluation looking up the members of the concurrency group and the rank
// of its resource again. It is the quadratic reference of the benchmark, written plainly, for a
// group that has just closed and of which nothing has started.
type perTarget struct {
	fleet            *rollout.Snapshot
	deployments      map[string]*rollout.Deployment
	siblings         map[string][]*rollout.Target // by resource
	busy             map[string]bool              // by resource
	locks            map[string]string            // by deployment
	policy, group    rollout.Matcher
	dependsOn, apply []rollout.Matcher
	closes           time.Time
	interval         time.Duration
}

type lookup map[string]any

func (l lookup) Lookup(name string) (any, bool) {
	value, ok := l[name]
	return value, ok
}

func newPerTarget(t testing.TB, s *rollout.Snapshot) *perTarget {
	env := newRemembering(t)
	must := func(text string) rollout.Matcher {
		m, err := env.Matcher(text)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	policies, err := rollout.ParsePolicies([]byte(nodeLifecycle(t)))
	if err != nil {
		t.Fatal(err)
	}
	p := &perTarget{
		fleet: s, deployments: map[string]*rollout.Deployment{}, siblings: map[string][]*rollout.Target{}, busy: map[string]bool{}, locks: map[string]string{},
		policy: must(policies[0].Selector), closes: day2,
	}
	for _, r := range policies[0].Rules {
		switch {
		case r.ResourceConcurrency != nil:
			p.group = must(r.ResourceConcurrency.GroupSelector)
		case r.GradualRollout != nil:
			p.interval = time.Duration(*r.GradualRollout.TimeScaleInterval) * time.Second
		case r.DeploymentDependency != nil:
			p.dependsOn = append(p.dependsOn, must(r.DeploymentDependency.DependsOn))
			p.apply = append(p.apply, must(r.DeploymentDependency.AppliesTo))
		}
	}
	for i := range s.Deployments {
		p.deployments[s.Deployments[i].ID] = &s.Deployments[i]
	}
	for _, v := range s.Versions {
		p.locks[v.Deployment] = v.ID // the newest comes last
	}
	for i := range s.Targets {
		p.siblings[s.Targets[i].Resource] = append(p.siblings[s.Targets[i].Resource], &s.Targets[i])
		for _, j := range s.Targets[i].Jobs {
			p.busy[s.Targets[i].Resource] = p.busy[s.Targets[i].Resource] || !j.Status.Terminal()
		}
	}
	return p
}

func match(m rollout.Matcher, vars lookup) bool {
	ok, err := m.Match(vars)
	return ok && err == nil
}

func (p *perTarget) allowed(t *rollout.Target, now time.Time) bool {
	d := p.deployments[t.Deployment]
	deployment := lookup{"deployment.name": d.Name, "deployment.metadata": d.Metadata}
	if !match(p.policy, deployment) || now.Before(p.closes) || p.locks[t.Deployment] == "" {
		return false
	}
	total, active := 0, 0
	for i := range p.fleet.Resources {
		if r := &p.fleet.Resources[i]; match(p.group, lookup{"resource.metadata": r.Metadata}) {
			total++
			if p.busy[r.ID] {
				active++
			}
		}
	}
	if active >= (total*20+99)/100 {
		return false
	}
	key := func(resource string) uint64 {
		h := fnv.New64a()
		fmt.Fprint(h, resource, "Node Lifecycle/deploymentBracket/0")
		return h.Sum64()
	}
	own, position := key(t.Resource), 0
	for i := range p.fleet.Resources {
		if key(p.fleet.Resources[i].ID) < own {
			position++
		}
	}
	if now.Before(p.closes.Add(time.Duration(position) * p.interval)) {
		return false
	}
	for k, apply := range p.apply {
		if match(apply, deployment) && slices.ContainsFunc(p.siblings[t.Resource], func(other *rollout.Target) bool {
			o := p.deployments[other.Deployment]
			return match(p.dependsOn[k], lookup{"deployment.name": o.Name, "deployment.metadata": o.Metadata})
		}) {
			return false // nothing of this group has succeeded yet
		}
	}
	return true
}

func (p *perTarget) plan(now time.Time) (start []*rollout.Target) {
	for i := range p.fleet.Targets {
		if p.allowed(&p.fleet.Targets[i], now) {
			start = append(start, &p.fleet.Targets[i])
		}
	}
	return start
}

// TestPerTargetReference: the reference measures the same job: it lets the drains of as many nodes
// start as are due.
func TestPerTargetReference(t *testing.T) {
	s := largeFleet(100)
	for _, due := range []int{1, 3} {
		now := day2.Add(time.Duration(due-1) * 5 * time.Minute)
		plan := mustPlan(t, compile(t, nodeLifecycle(t)), s, now)
		start := newPerTarget(t, &s).plan(now)
		if len(start) != due || len(plan.Start) != due || start[0].Deployment != "node-drain" || plan.Start[0].Deployment != "node-drain" {
			t.Errorf("%d due: the reference starts %d, the plan %v", due, len(start), started(plan))
		}
	}
}

// BenchmarkPerTarget is the quadratic column beside BenchmarkPlan/fresh.
func BenchmarkPerTarget(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		s := largeFleet(n)
		p := newPerTarget(b, &s)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if len(p.plan(day2)) != 1 {
					b.Fatal("one drain is due")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
		})
	}
}
