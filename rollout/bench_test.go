package rollout_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
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
	runtime.GC() // of what was made before
	spent := testkit.CPUTime()
	for b.Loop() {
		plan, err := set.Plan(s, now)
		if err != nil {
			b.Fatal(err)
		}
		sink = plan
	}
	spent = testkit.CPUTime() - spent
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(s.Targets)), "ns/target")
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N)/float64(len(s.Targets)), "cpu-ns/target") // of all cores, the collector's included
	held := heap()
	sink = rollout.Plan{}
	b.ReportMetric(float64(held-heap())/float64(len(s.Targets)), "kept-B/target")
}

// heap returns the bytes that are in use. What a plan keeps is less without it.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// BenchmarkPlan is a full plan under the node policy of the bracket RFC: while the group collects;
// when it has just closed and the first node is due; half of the curve later, as if nobody had
// planned since, with a fifth of the fleet to start at once; and with that fifth at work, the state
// being the one that Commit returned or, as most hosts have it, one that was stored and decoded.
func BenchmarkPlan(b *testing.B) {
	set := compile(b, nodeLifecycle(b))
	for _, n := range sizes() {
		half := day2.Add(time.Duration(n/5/2) * 300 * time.Second)
		fleet := sync.OnceValue(func() rollout.Snapshot { return largeFleet(n) })
		b.Run(fmt.Sprintf("collecting/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, fleet(), day2.Add(-time.Minute)) })
		b.Run(fmt.Sprintf("fresh/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, fleet(), day2) })
		b.Run(fmt.Sprintf("half/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, fleet(), half) })
		b.Run(fmt.Sprintf("atwork/n=%d", n), func(b *testing.B) {
			benchmarkPlan(b, set, atWork(b, set, fleet(), half), half.Add(time.Minute))
		})
		b.Run(fmt.Sprintf("stored/n=%d", n), func(b *testing.B) {
			s := atWork(b, set, fleet(), half)
			stored := text(b, s.State)
			s.State = rollout.State{}
			if err := json.Unmarshal([]byte(stored), &s.State); err != nil {
				b.Fatal(err)
			}
			benchmarkPlan(b, set, s, half.Add(time.Minute))
		})
	}
}

// atWork starts everything that may start at an instant.
func atWork(tb testing.TB, set *rollout.PolicySet, s rollout.Snapshot, now time.Time) rollout.Snapshot {
	plan := mustPlan(tb, set, s, now)
	s.State, s.Targets = mustCommit(tb, plan, now), slices.Clone(s.Targets)
	at := map[rollout.TargetID]int{}
	for i := range s.Targets {
		at[s.Targets[i].TargetID] = i
	}
	for _, start := range plan.Start {
		s.Targets[at[start.TargetID]].Jobs = []rollout.Job{job(start, now, rollout.JobInProgress)}
	}
	return s
}

// BenchmarkDone is the same when it is over: the group has come everywhere, every execution has
// ended, and every target has the job of it. That is how a fleet is for most of its time.
func BenchmarkDone(b *testing.B) {
	set := compile(b, nodeLifecycle(b))
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s, now := doneFleet(b, n)
			benchmarkPlan(b, set, s, now)
		})
	}
}

// doneFleet carries out everything that the node policy starts on so many targets, all nodes at
// once, and says when.
func doneFleet(tb testing.TB, targets int) (rollout.Snapshot, time.Time) {
	set := compile(tb, strings.Replace(nodeLifecycle(tb), `"limitValue": 20`, `"limitValue": 100`, 1))
	s := largeFleet(targets)
	at := map[rollout.TargetID]int{}
	for i := range s.Targets {
		at[s.Targets[i].TargetID] = i
	}
	now := day2
	s.State = mustPlan(tb, set, s, now).State
	now = now.Add(time.Duration(targets/5) * 300 * time.Second) // the end of the curve
	for {
		plan := mustPlan(tb, set, s, now)
		s.State = mustCommit(tb, plan, now)
		if len(plan.Start) == 0 {
			if plan.Keep.Current != targets {
				tb.Fatalf("%d of %d targets have nothing to do", plan.Keep.Current, targets)
			}
			return s, now
		}
		for _, start := range plan.Start {
			t := &s.Targets[at[start.TargetID]]
			t.Current, t.Jobs = start.Version, []rollout.Job{job(start, now, rollout.JobSuccessful)}
		}
		now = now.Add(time.Minute)
	}
}

// withHistory gives every target the two jobs that a host of some age would list.
func withHistory(s rollout.Snapshot) rollout.Snapshot {
	for i := range s.Targets {
		t := &s.Targets[i]
		for k := range 2 {
			at := day1.Add(-time.Duration(k+1) * 24 * time.Hour)
			t.Jobs = append(t.Jobs, rollout.Job{Run: fmt.Sprintf("r%d-%d", i, k), Version: t.Current, Status: rollout.JobSuccessful, CreatedAt: at, CompletedAt: at.Add(time.Minute)})
		}
	}
	return s
}

// BenchmarkHistory is "fresh" of BenchmarkPlan with a history, of which a host lists the newest
// jobs first, or the oldest.
func BenchmarkHistory(b *testing.B) {
	set := compile(b, nodeLifecycle(b))
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("newest first/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, withHistory(largeFleet(n)), day2) })
		b.Run(fmt.Sprintf("oldest first/n=%d", n), func(b *testing.B) {
			s := withHistory(largeFleet(n))
			for i := range s.Targets {
				slices.Reverse(s.Targets[i].Jobs)
			}
			benchmarkPlan(b, set, s, day2)
		})
	}
}

// clusters are n resources with one deployment, of which v2 is due from day1 on.
func clusters(n int) rollout.Snapshot {
	s := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "api"}},
		Versions: []rollout.Version{
			{ID: "v1", Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1.Add(-time.Hour)},
			{ID: "v2", Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1},
		},
	}
	for i := range n {
		id := fmt.Sprintf("cluster-%07d", i)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Metadata: map[string]string{"region": []string{"us-east", "us-west", "eu-north", "eu-south", "asia"}[i%5]}})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "api"}, Current: "v1"})
	}
	return s
}

const curveAlone = `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1}}`

// BenchmarkCurve is a full plan of one deployment under a gradual rollout alone, a resource per
// target: the first is due; half of them are, as if nobody had planned since; and the first half is
// done.
func BenchmarkCurve(b *testing.B) {
	set := compile(b, policy(curveAlone))
	for _, n := range sizes() {
		half := day1.Add(time.Duration(n/2) * time.Second)
		b.Run(fmt.Sprintf("first/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, clusters(n), day1) })
		b.Run(fmt.Sprintf("half/n=%d", n), func(b *testing.B) { benchmarkPlan(b, set, clusters(n), half) })
		b.Run(fmt.Sprintf("done/n=%d", n), func(b *testing.B) {
			s := clusters(n)
			plan := mustPlan(b, set, s, half)
			for _, start := range plan.Start {
				var i int
				if _, err := fmt.Sscanf(start.Resource, "cluster-%d", &i); err != nil {
					b.Fatal(err)
				}
				s.Targets[i].Current = "v2"
			}
			s.State = plan.State
			benchmarkPlan(b, set, s, half.Add(time.Second))
		})
	}
}

// BenchmarkScoped is the same with a hotfix after v2 that is for one region of five, and a change
// after it that is for another.
func BenchmarkScoped(b *testing.B) {
	set := compile(b, policy(curveAlone))
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s := clusters(n)
			s.Versions = append(s.Versions,
				rollout.Version{ID: "v2-hotfix", Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1.Add(time.Minute), TargetSelector: "resource.metadata['region'] == 'us-east'"},
				rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1.Add(2 * time.Minute), TargetSelector: "resource.metadata['region'].startsWith('eu-')"},
			)
			benchmarkPlan(b, set, s, day1.Add(2*time.Minute))
		})
	}
}

// BenchmarkShuffled is "fresh" of BenchmarkPlan with everything listed in no order, as a cache in
// memory lists it.
func BenchmarkShuffled(b *testing.B) {
	set := compile(b, nodeLifecycle(b))
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s := largeFleet(n)
			r := rand.New(rand.NewPCG(1, 2))
			r.Shuffle(len(s.Targets), func(i, k int) { s.Targets[i], s.Targets[k] = s.Targets[k], s.Targets[i] })
			r.Shuffle(len(s.Resources), func(i, k int) { s.Resources[i], s.Resources[k] = s.Resources[k], s.Resources[i] })
			benchmarkPlan(b, set, s, day2)
		})
	}
}

// BenchmarkApart is a fleet of 20,000 targets, of one deployment in one environment, or divided
// among many that share no resource. Half of the curve of an hour has passed.
func BenchmarkApart(b *testing.B) {
	half := `{"gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":3600%s}}`
	for _, rule := range []struct{ name, rules string }{
		{"target", fmt.Sprintf(half, "")},
		{"resource", fmt.Sprintf(half, `,"orderKey":"resource"`)},
		{"bracket", `{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + fmt.Sprintf(half, "")},
		{"dependency", `{"deploymentDependency":{"dependsOn":"deployment.id == 'd0000'","appliesTo":"deployment.id != 'd0000'","anyEnvironment":true}},` + fmt.Sprintf(half, "")},
	} {
		set := compile(b, policy(rule.rules))
		for _, shape := range [][2]int{{1, 1}, {1, 20}, {1, 200}, {1, 2000}, {20, 1}, {200, 1}, {2000, 1}} {
			b.Run(fmt.Sprintf("%s/environments=%d/deployments=%d", rule.name, shape[0], shape[1]), func(b *testing.B) {
				benchmarkPlan(b, set, apart(shape[0], shape[1], 20_000/shape[0]/shape[1]), t0.Add(30*time.Minute))
			})
		}
	}
}

// BenchmarkVersions is the first plan of 10,000 clusters under a bracket that waits for nothing, for
// so many versions, one per hour, that were published before. Each has been a group of its own. One
// in the middle is for one region of five.
func BenchmarkVersions(b *testing.B) {
	set := compile(b, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	for _, versions := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprintf("versions=%d", versions), func(b *testing.B) {
			s := clusters(10_000)
			for v := range versions {
				s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("w%d", v), Deployment: "api", Status: rollout.VersionReady, CreatedAt: day1.Add(time.Duration(v) * time.Hour)})
			}
			s.Versions[len(s.Versions)-versions/2].TargetSelector = "resource.metadata['region'] == 'us-east'"
			benchmarkPlan(b, set, s, day1.Add(time.Duration(versions)*time.Hour))
		})
	}
}

// BenchmarkPlanner is load, plan and save where a fifth of the nodes are at work, by a planner that
// has read their records before, and by one that decodes them all.
func BenchmarkPlanner(b *testing.B) {
	set := compile(b, nodeLifecycle(b))
	for _, n := range []int{10_000, 100_000} {
		s := largeFleet(n)
		half := day2.Add(time.Duration(n/5/2) * 300 * time.Second)
		fake := clock.NewFake(half)
		p := &rollout.Planner{Policies: set, Store: new(bracket.MemoryStore), Clock: fake}
		plan, err := p.Plan(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		at := map[rollout.TargetID]int{}
		for i := range s.Targets {
			at[s.Targets[i].TargetID] = i
		}
		for _, start := range plan.Start {
			s.Targets[at[start.TargetID]].Jobs = []rollout.Job{job(start, half, rollout.JobInProgress)}
		}
		fake.Advance(time.Minute)
		for _, kept := range []bool{true, false} {
			b.Run(fmt.Sprintf("kept=%t/n=%d", kept, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if !kept {
						p = &rollout.Planner{Policies: p.Policies, Store: p.Store, Clock: p.Clock}
					}
					if sink, err = p.Plan(b.Context(), s); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
				b.ReportMetric(float64(len(plan.Start)), "executions")
			})
		}
	}
}

// BenchmarkChanges compares two plans of a fleet that is wholly at work, a minute apart, about which
// nothing has changed: from one snapshot, and from two that a host has read one after the other.
func BenchmarkChanges(b *testing.B) {
	set := compile(b, `[]`)
	for _, n := range []int{1_000, 10_000, 100_000} {
		read := func() rollout.Snapshot { return atWork(b, set, clusters(n), day1) }
		s, again := read(), read()
		before := mustPlan(b, set, s, day1.Add(time.Minute))
		if before.Keep.Started != n {
			b.Fatalf("%d of %d are at work", before.Keep.Started, n)
		}
		for _, from := range []struct {
			name string
			s    rollout.Snapshot
		}{{"one snapshot", s}, {"two snapshots", again}} {
			after := mustPlan(b, set, from.s, day1.Add(2*time.Minute))
			b.Run(fmt.Sprintf("%s/n=%d", from.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if changes := after.Changes(&before); len(changes) > 0 {
						b.Fatal(changes)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
			})
		}
	}
}

// BenchmarkWindowTooShort is a plan of three targets under a window that opens every hour, and never
// for as long as a job takes: the plan says so after a search of five years.
func BenchmarkWindowTooShort(b *testing.B) {
	for _, zone := range []string{"UTC", "Europe/Berlin"} {
		b.Run(zone, func(b *testing.B) {
			set := compile(b, policy(`{"deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23;BYMINUTE=0",
				"durationMinutes":20,"minimumRemainingMinutes":60,"timezone":"`+zone+`"}}`), withZones())
			s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
			b.ReportAllocs()
			for b.Loop() {
				sink = mustPlan(b, set, s, t0)
			}
		})
	}
}
