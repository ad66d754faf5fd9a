package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// The node fleet of the bracket RFC: ten nodes, five deployments, every version published before
// the window closes.
var (
	day1 = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	day2 = day1.Add(24 * time.Hour)
)

func nodeFleet(nodes int) rollout.Snapshot {
	s := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod", Name: "prod"}}}
	for i := range nodes {
		s.Resources = append(s.Resources, rollout.Resource{ID: fmt.Sprintf("node-%d", i), Kind: "Node", Metadata: map[string]string{"cluster": "prod-east"}})
	}
	for _, d := range []struct{ name, old, new string }{
		{"containerd-upgrade", "v1.7.2", "v1.7.3"}, {"kubelet-upgrade", "v1.29.1", "v1.29.2"}, {"node-drain", "drain", ""}, {"node-uncordon", "uncordon", ""}, {"os-patch", "2026-02", "2026-03"},
	} {
		s.Deployments = append(s.Deployments, rollout.Deployment{ID: d.name, Name: d.name, Metadata: map[string]string{"layer": "node"}})
		s.Versions = append(s.Versions, rollout.Version{ID: d.old, Tag: d.old, Deployment: d.name, Status: rollout.VersionReady, CreatedAt: day1.AddDate(0, 0, -90)})
		if d.new != "" {
			at := map[string]time.Duration{"kubelet-upgrade": 0, "containerd-upgrade": 5 * time.Hour, "os-patch": 13 * time.Hour}[d.name]
			s.Versions = append(s.Versions, rollout.Version{ID: d.new, Tag: d.new, Deployment: d.name, Status: rollout.VersionReady, CreatedAt: day1.Add(at)})
		}
		for i := range nodes {
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: fmt.Sprintf("node-%d", i), Environment: "prod", Deployment: d.name}, Current: d.old})
		}
	}
	return s
}

func minutes(deployment string) time.Duration {
	return map[string]time.Duration{"node-drain": 8, "node-uncordon": 1}[deployment]*time.Minute + map[bool]time.Duration{true: 3 * time.Minute}[!strings.HasPrefix(deployment, "node-")]
}

// replay is the host's loop over the pure API: plan, commit everything, carry it out, sleep until
// Next or the end of a job.
func replay(t *testing.T, set *rollout.PolicySet, s rollout.Snapshot, from, until time.Time, each func(rollout.Plan)) (log []string) {
	t.Helper()
	running := map[rollout.TargetID]rollout.Start{}
	ends := map[rollout.TargetID]time.Time{}
	for now, steps := from, 0; !now.After(until); steps++ {
		if steps > 10000 {
			t.Fatal("the replay does not end")
		}
		for id, start := range running {
			if !ends[id].After(now) {
				for i := range s.Targets {
					target := &s.Targets[i]
					if target.TargetID == id {
						last := &target.Jobs[len(target.Jobs)-1]
						last.Status, last.CompletedAt = rollout.JobSuccessful, ends[id]
						target.Current = start.Version
					}
				}
				delete(running, id)
			}
		}
		plan := mustPlan(t, set, s, now)
		if each != nil {
			each(plan)
		}
		s.State = mustCommit(t, plan, now)
		for _, start := range plan.Start {
			if _, twice := running[start.TargetID]; twice {
				t.Fatalf("%v: %s started twice", now, start.Run)
			}
			log = append(log, fmt.Sprintf("%v %s %s@%s", now.Sub(day2).Minutes(), start.Resource, start.Deployment, start.Version))
			add(&s, start, job(start, now, rollout.JobInProgress))
			running[start.TargetID], ends[start.TargetID] = start, now.Add(minutes(start.Deployment))
		}
		if len(plan.Start) > 0 {
			continue
		}
		next := plan.Next
		for _, end := range ends {
			if end.After(now) && (next.IsZero() || end.Before(next)) {
				next = end
			}
		}
		if next.IsZero() {
			return log
		}
		if !next.After(now) {
			t.Fatalf("next %v is not after %v", next, now)
		}
		now = next
	}
	return log
}

func TestRFCReplayOfTenNodes(t *testing.T) {
	peak := 0
	log := replay(t, compile(t, nodeLifecycle(t)), nodeFleet(10), day1, day2.Add(3*time.Hour), func(p rollout.Plan) {
		if len(p.Pools) != 1 || p.Pools[0].Max != 2 || p.Pools[0].Total != 10 {
			t.Fatalf("pools %+v", p.Pools)
		}
		peak = max(peak, p.Pools[0].Active)
	})
	if peak != 2 {
		t.Errorf("%d nodes were in flight at most, want 2", peak)
	}
	order := []int{1, 3, 8, 7, 2, 0, 9, 4, 5, 6}
	starts := []int{0, 5, 15, 20, 30, 35, 45, 50, 60, 65}
	var want []string
	for k, node := range order {
		for _, run := range []struct {
			after int
			name  string
		}{{0, "node-drain@drain"}, {8, "os-patch@2026-03"}, {11, "containerd-upgrade@v1.7.3"}, {11, "kubelet-upgrade@v1.29.2"}, {14, "node-uncordon@uncordon"}} {
			want = append(want, fmt.Sprintf("%d node-%d %s", starts[k]+run.after, node, run.name))
		}
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(log))
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
