package bracket

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// naiveVerdicts is the RFC's evaluator written plainly: every release target is asked on its own,
// and finds its group, its siblings on the resource and their runs by looking through everything
// there is. It answers for one moment of the simplest case (a closed group, no failures, no merges)
// and is the yardstick of the benchmark, and an oracle for that case.
func naiveVerdicts(f *fleet, g *Group, now time.Time) (run, wait int) {
	due := f.obs.Due(PendingGroup{Group: g, Resources: naivePending(f, g)})
	order := make(map[string]time.Time)
	for i, r := range naivePending(f, g) {
		order[r] = due[i]
	}
	for i := range f.targets {
		t := &f.targets[i]
		var member *GroupMember
		for k := range g.Members {
			if g.Members[k].Deployment == t.Deployment {
				member = &g.Members[k]
			}
		}
		if at, pending := order[t.Resource]; !pending || at.After(now) || member.Role == Main && t.Current == member.Locks[0].ID {
			continue
		}
		blocked := false
		for _, need := range member.Needs {
			for k := range f.targets { // the siblings, among all targets
				s := &f.targets[k]
				if s.Resource == t.Resource && s.Deployment == need {
					blocked = blocked || naiveRuns(f, g, s)
				}
			}
		}
		if blocked {
			wait++
		} else {
			run++
		}
	}
	return run, wait
}

// naiveRuns reports whether a target has still to run in the group.
func naiveRuns(f *fleet, g *Group, t *Target) bool {
	for _, m := range g.Members {
		if m.Deployment == t.Deployment {
			return m.Role != Main || t.Current != m.Locks[0].ID
		}
	}
	return false
}

func naivePending(f *fleet, g *Group) []string {
	var list []string
	for i := range f.targets {
		t := &f.targets[i]
		ended := false
		for _, r := range f.state.Executions {
			ended = ended || r.Resource == t.Resource
		}
		for _, m := range g.Members {
			if !ended && m.Deployment == t.Deployment && m.Role == Main && t.Current != m.Locks[0].ID {
				if len(list) == 0 || list[len(list)-1] != t.Resource {
					list = append(list, t.Resource)
				}
			}
		}
	}
	return list
}

func TestStepMatchesTheNaiveEvaluation(t *testing.T) {
	f := newFleet(t, 500, 5, 0)
	for _, after := range []time.Duration{0, 10 * time.Second, time.Hour} {
		now := f.now.Add(after)
		_, plan, err := Step(f.rule, f.state, f.obs, now)
		if err != nil {
			t.Fatal(err)
		}
		run, _ := naiveVerdicts(f, f.state.Group.Closed[0], now)
		if run != len(plan.Start) || after == time.Hour && run != 50 {
			t.Errorf("after %v %d starts, the naive evaluation says %d", after, len(plan.Start), run)
		}
	}
}

func BenchmarkNaive(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("alldue/n=%d", n), func(b *testing.B) {
			f := newFleet(b, n, 5, 0)
			now := f.now.Add(24 * time.Hour * 365)
			b.ReportAllocs()
			for b.Loop() {
				naiveVerdicts(f, f.state.Group.Closed[0], now)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
		})
	}
}

var sinkVerdict Verdict

// One question about one target must not cost a pass over the fleet.
func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{1_000, 1_000_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			f := newFleet(b, n, 5, n/100)
			state, plan, err := Step(f.rule, f.state, f.obs, f.now)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				t := &f.targets[i]
				i = (i + 9973) % len(f.targets)
				sinkVerdict = plan.Evaluate(state, t.Resource, t.Deployment, "new", f.now)
			}
		})
	}
}

// Allocations grow with the work that there is, not with the targets, and a target by itself takes
// as little memory as the doc of Step says.
func TestStepAllocations(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	allocations := func(targets, done, open int) float64 {
		f := newFleet(t, targets, done, open)
		return testing.AllocsPerRun(5, func() {
			_, plan, err := Step(f.rule, f.state, f.obs, f.now)
			if err != nil {
				t.Fatal(err)
			}
			sinkPlan = plan
		})
	}
	quiet := newFleet(t, 50_000, 10, 0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, plan, err := Step(quiet.rule, quiet.state, quiet.obs, quiet.now); err != nil || len(plan.Start)+len(slices.Collect(plan.Waits())) > 0 {
		t.Fatal(plan, err)
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / uint64(len(quiet.targets)); bytes > 20 {
		t.Errorf("nothing to do: %d bytes for each target", bytes)
	}
	small, large := allocations(1000, 10, 0), allocations(50_000, 10, 0)
	if large > small+5 {
		t.Errorf("nothing to do: %v allocations for 1,000 targets, %v for 50,000", small, large)
	}
	small, large = allocations(1000, 5, 0), allocations(50_000, 5, 0)
	if large > small+40 { // lists of indices that grow by doubling
		t.Errorf("half of them waiting: %v allocations for 1,000 targets, %v for 50,000", small, large)
	}
	scoped := func(targets int) float64 {
		f := newFleet(t, targets, 10, 0)
		for i := range f.targets {
			f.targets[i].OutOfScope = []string{"hotfix of another region"}
		}
		return testing.AllocsPerRun(5, func() {
			if _, _, err := Step(f.rule, f.state, f.obs, f.now); err != nil {
				t.Fatal(err)
			}
		})
	}
	small, large = scoped(1000), scoped(50_000)
	if large > small+40 {
		t.Errorf("a version is out of scope for all of them: %v allocations for 1,000 targets, %v for 50,000", small, large)
	}
	few, many := allocations(50_000, 5, 100), allocations(50_000, 5, 1100)
	if perOpen := (many - few) / 1000; perOpen > 8 {
		t.Errorf("%v allocations per open execution", perOpen)
	}
}
