package staged_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

func sizes(most int) []int {
	var list []int
	for n := 1000; n <= most; n *= 10 {
		list = append(list, n)
	}
	return list
}

// cpu reports the processor time per operation.
func cpu(b *testing.B) func() {
	before := testkit.CPUTime()
	return func() { b.ReportMetric(float64(testkit.CPUTime()-before)/float64(b.N), "cpu-ns/op") }
}

func benchFleet(n int) staged.Fleet {
	f := staged.Fleet{Version: "v2", Targets: make([]staged.Target, n)}
	rings := []map[string]string{{"ring": "canary"}, {"ring": "staging"}, {"ring": "production"}}
	for i := range f.Targets {
		ring := 2
		switch {
		case i%20 == 0:
			ring = 0
		case i%10 == 1:
			ring = 1
		}
		f.Targets[i] = staged.Target{Name: fmt.Sprintf("cluster-%08d", (i*7919)%n), Labels: rings[ring]}
	}
	return f
}

func benchStrategy(limit concurrency.Limit) staged.Strategy {
	var s staged.Strategy
	for _, ring := range []string{"canary", "staging", "production"} {
		s.Stages = append(s.Stages, staged.Stage{Name: ring, MaxConcurrency: limit, MaxFailures: concurrency.Percent(100), ProgressDeadline: staged.For(time.Hour),
			LabelSelector: &selector.LabelSelector{MatchLabels: map[string]string{"ring": ring}}})
	}
	return s
}

func benchSpec() staged.Spec {
	return staged.Spec{Name: "run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun}
}

func compileBench(tb testing.TB, n int, limit concurrency.Limit) *staged.Run {
	tb.Helper()
	run, err := staged.Compile(benchStrategy(limit), benchSpec(), benchFleet(n), staged.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

var benchStart = time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)

func step(tb testing.TB, run *staged.Run, in staged.Input, now time.Time) (*staged.Run, staged.Result) {
	tb.Helper()
	next, result, err := staged.Step(run, in, now)
	if err != nil {
		tb.Fatal(err)
	}
	return next, result
}

// acknowledge answers actions with what a target looks like that did as it was told.
func acknowledge(actions []staged.Action, health staged.Health) []staged.Observation {
	var list []staged.Observation
	for _, a := range actions {
		switch a.Kind {
		case staged.Start:
			list = append(list, staged.Observation{Target: a.Target, Version: a.Version, Health: health, Token: a.Token})
		case staged.Remove:
			list = append(list, staged.Observation{Target: a.Target, Gone: true, Token: a.Token})
		}
	}
	return list
}

// midway runs until half of the fleet is done, with ten or more targets in progress.
func midway(tb testing.TB, run *staged.Run, n int) (*staged.Run, staged.Result, time.Time) {
	tb.Helper()
	now := benchStart
	run, result := step(tb, run, staged.Input{}, now)
	for done := 0; done < n/2; {
		now = now.Add(time.Second)
		list := acknowledge(result.Actions, staged.HealthReady)
		done += len(list)
		run, result = step(tb, run, staged.Input{Observations: list}, now)
	}
	return run, result, now
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		fleet := benchFleet(n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if _, err := staged.Compile(benchStrategy(concurrency.Count(10)), benchSpec(), fleet, staged.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
		})
	}
}

// BenchmarkStep makes ten targets ready, so that ten others start, midway in a run: twenty changes
// of state.
func BenchmarkStep(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		run, result, now := midway(b, compileBench(b, n, concurrency.Count(10)), n)
		in := staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)[:10]}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				step(b, run, in, now.Add(time.Second))
			}
		})
	}
}

// BenchmarkStepGroups is BenchmarkStep with a hundred groups, of each of which one may be in progress,
// and of which the first has as many members as all others, in front of them.
func BenchmarkStepGroups(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		run, result, now := midway(b, compileGroups(b, n), n/2)
		in := staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)[:10]}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				step(b, run, in, now.Add(time.Second))
			}
		})
	}
}

func compileGroups(tb testing.TB, n int) *staged.Run {
	tb.Helper()
	fleet := benchFleet(n)
	for i := range fleet.Targets {
		zone := fmt.Sprint("zone", i%99)
		if fleet.Targets[i].Name < fmt.Sprintf("cluster-%08d", n/2) {
			zone = "crowd"
		}
		fleet.Targets[i].Labels = map[string]string{"zone": zone}
	}
	stage := all("all", 10)
	stage.MaxFailures, stage.ProgressDeadline = concurrency.Percent(100), staged.For(time.Hour)
	stage.GroupBy, stage.MaxConcurrencyPerGroup = "zone", concurrency.Count(1)
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleet, staged.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

// BenchmarkStepScattered makes ten targets ready that are far from each other, while everything is
// in progress.
func BenchmarkStepScattered(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		run, result := step(b, compileBench(b, n, concurrency.Percent(100)), staged.Input{}, benchStart)
		all := acknowledge(result.Actions, staged.HealthProgressing)
		run, _ = step(b, run, staged.Input{Observations: all}, benchStart)
		var in staged.Input
		for i := range 10 {
			o := all[i*len(all)/10]
			o.Health = staged.HealthReady
			in.Observations = append(in.Observations, o)
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				step(b, run, in, benchStart.Add(time.Second))
			}
		})
	}
}

// BenchmarkIdle is a step in which nothing happens.
func BenchmarkIdle(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		run, result, now := midway(b, compileBench(b, n, concurrency.Count(10)), n)
		run, _ = step(b, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthProgressing)}, now)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				step(b, run, staged.Input{}, now)
			}
		})
	}
}

// BenchmarkWhole plays a whole run, a hundred at a time, and reports the time per target.
func BenchmarkWhole(b *testing.B) {
	for _, n := range sizes(100_000) {
		start := compileBench(b, n, concurrency.Count(100))
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				run, result := step(b, start, staged.Input{}, benchStart)
				for !run.Phase().Terminal() {
					run, result = step(b, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)}, benchStart)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
		})
	}
}

func BenchmarkExplain(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		run, _, _ := midway(b, compileBench(b, n, concurrency.Count(10)), n)
		name := ""
		for t := range run.Targets(2) {
			name = t.Name // the last one waits
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if _, ok := run.Explain(name); !ok {
					b.Fatal(name)
				}
			}
		})
	}
}

// BenchmarkCounts reads the counters of a run.
func BenchmarkCounts(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		run, _, _ := midway(b, compileBench(b, n, concurrency.Count(10)), n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				if run.Counts().Members != n {
					b.Fatal(run)
				}
			}
		})
	}
}

// finishedRun records both times of each target, all different.
func finishedRun(tb testing.TB, n int) *staged.Run {
	run, result := step(tb, compileBench(tb, n, concurrency.Count(10)), staged.Input{}, benchStart)
	now := benchStart
	for i := 0; !run.Phase().Terminal(); i++ {
		now = now.Add(37_123_456_789*time.Nanosecond + time.Duration(i)*1_000_003%900_000_007)
		run, result = step(tb, run, staged.Input{Observations: acknowledge(result.Actions[i%len(result.Actions):][:1], staged.HealthReady)}, now)
	}
	return run
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range sizes(100_000) {
		run := finishedRun(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			size := 0
			for b.Loop() {
				data, err := json.Marshal(run)
				if err != nil {
					b.Fatal(err)
				}
				size = len(data)
			}
			b.ReportMetric(float64(size)/float64(n), "bytes/target")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range sizes(100_000) {
		data, err := json.Marshal(finishedRun(b, n))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			defer cpu(b)()
			for b.Loop() {
				var run staged.Run
				if err := json.Unmarshal(data, &run); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
		})
	}
}

// memory is what a run holds per target beside the text of the names, which belongs to the fleet.
func memory(tb testing.TB, n int) float64 {
	fleet := benchFleet(n)
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	run, err := staged.Compile(benchStrategy(concurrency.Count(10)), benchSpec(), fleet, staged.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	after := heap()
	runtime.KeepAlive(run)
	runtime.KeepAlive(fleet)
	return float64(after-before) / float64(n)
}

func BenchmarkMemory(b *testing.B) {
	for _, n := range sizes(1_000_000) {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				bytes = memory(b, n)
			}
			b.ReportMetric(bytes, "bytes/target")
			b.ReportMetric(bytes-nameBytes, "beside-name-bytes/target")
		})
	}
}
