package rollouttest_test

import (
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// BenchmarkRun lets the RFC's first example take its course on clusters of n nodes, five
// deployments each: with the planner, its store and all checks, as a test does it; with the planner
// and its store alone; and on a state that is a value, as the trials of a forecast do. Each job
// ends at an instant of its own or with a few others, and every such instant takes a plan of the
// whole fleet.
func BenchmarkRun(b *testing.B) {
	for _, mode := range []struct {
		name        string
		trust, pure bool
	}{{"checked", false, false}, {"trusted", true, false}, {"pure", true, true}} {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", mode.name, n), func(b *testing.B) {
				world := rfcWorld(b, n)
				world.Trust, world.Pure = mode.trust, mode.pure
				starts := 0
				for b.Loop() {
					timeline, err := world.Run(b.Context())
					if err != nil || !timeline.Done {
						b.Fatalf("%v\n%s", err, timeline.Summary())
					}
					for _, e := range timeline.Entries {
						if e.Kind == rollouttest.Start {
							starts++
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(starts), "ns/start")
			})
		}
	}
}

// BenchmarkForecast is the same where only the outcome of many trials is asked for: ten of them, of
// which the first is checked unless the world is trusted.
func BenchmarkForecast(b *testing.B) {
	for _, n := range []int{10, 100} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			world := rfcWorld(b, n)
			world.Trust = true
			samples := map[string][]rollouttest.Outcome{drain: {{After: minutes(8)}, {After: minutes(9)}, {After: minutes(20)}}}
			const trials = 10
			for b.Loop() {
				prediction, err := rollouttest.Forecast(b.Context(), world, rollouttest.Samples{Jobs: samples}, trials, 1)
				if err != nil || prediction.Halted() != 0 {
					b.Fatalf("%v\n%s", err, prediction)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/trials, "ns/trial")
		})
	}
}

// BenchmarkExplore tries every single fault in the RFC's first example: ten times as many worlds as
// nodes, since each of five jobs may fail or hang.
func BenchmarkExplore(b *testing.B) {
	for _, n := range []int{10, 30} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			world := rfcWorld(b, n)
			world.Trust, world.Pure = true, true
			for b.Loop() {
				e, err := rollouttest.Explore(b.Context(), world, nil, 1)
				if err != nil || len(e.Consequences) != 10*n {
					b.Fatalf("%v\n%s", err, e)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(10*n), "ns/world")
		})
	}
}
