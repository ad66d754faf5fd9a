package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// sink keeps results alive.
var sink rollout.Plan

func sizes() []int { return []int{1_000, 10_000, 100_000, 1_000_000} }

// largeFleet is nodeFleet with ids that sort as their numbers do, as those of a database would.
func largeFleet(targets int) rollout.Snapshot {
	nodes := targets / 5
	s := nodeFleet(0)
	for i := range nodes {
		id := fmt.Sprintf("node-%07d", i)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Kind: "Node", Metadata: map[string]string{"cluster": "prod-east", "zone": "abc"[i%3 : i%3+1]}})
		for _, d := range s.Deployments {
			current := map[string]string{"containerd-upgrade": "v1.7.2", "kubelet-upgrade": "v1.29.1", "node-drain": "drain", "node-uncordon": "uncordon", "os-patch": "2026-02"}[d.ID]
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: d.ID}, Current: current})
		}
	}
	return s
}

func benchmarkPlan(b *testing.B, set *rollout.PolicySet, s rollout.Snapshot, now time.Time) {
	b.ReportAllocs()
	for b.Loop() {
		plan, err := set.Plan(s, now)
		if err != nil {
			b.Fatal(err)
		}
		sink = plan
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.Targets)), "ns/target")
}

// BenchmarkPlan is a full plan under the node policy of the bracket RFC: while the group collects; when it has just closed and the first node is
// due; half of the curve later, as if nobody had planned since, with a fifth of the fleet to start at once; and with that fifth at work.
func BenchmarkPlan(b *testing.B) {
	set := compile(b, nodeLifecycle(b))
	for _, n := range sizes() {
		s := largeFleet(n)
		b.Run(fmt.Sprintf("collecting/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, s, day2.Add(-time.Minute)) })
		b.Run(fmt.Sprintf("fresh/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, s, day2) })
		half := day2.Add(time.Duration(n/5/2) * 300 * time.Second)
		closed := mustPlan(b, set, s, half)
		b.Run(fmt.Sprintf("half/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, s, half) })
		state, err := closed.Commit(closed.Start, half)
		if err != nil {
			b.Fatal(err)
		}
		middle := s
		middle.State = state
		middle.Targets = append([]rollout.Target(nil), s.Targets...)
		at := map[rollout.TargetID]int{}
		for i := range middle.Targets {
			at[middle.Targets[i].TargetID] = i
		}
		for _, start := range closed.Start {
			middle.Targets[at[start.TargetID]].Jobs = []rollout.Job{job(start, half, rollout.JobInProgress)}
		}
		b.Run(fmt.Sprintf("atwork/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, middle, half.Add(time.Minute)) })
	}
}

// BenchmarkCurve is a full plan of one deployment under a gradual rollout alone: half of the targets are due.
func BenchmarkCurve(b *testing.B) {
	set := compile(b, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1}}`))
	for _, n := range sizes() {
		s := rollout.Snapshot{
			Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "api"}},
			Versions: []rollout.Version{
				{ID: "v1", Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1.Add(-time.Hour)},
				{ID: "v2", Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1},
			},
		}
		for i := range n {
			id := fmt.Sprintf("cluster-%07d", i)
			s.Resources = append(s.Resources, rollout.Resource{ID: id})
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "api"}, Current: "v1"})
		}
		now := day1.Add(time.Duration(n/2) * time.Second)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, s, now) })
	}
}
