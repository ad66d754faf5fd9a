package stagedtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// BenchmarkWorld plays runs in one stage, of which one target in a hundred is in progress at a time,
// each for another number of seconds: so almost every end of an attempt is an instant of its own.
func BenchmarkWorld(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		world := stagedtest.World{StagedRun: large(b, n), Start: t0, Target: spread}
		for _, trust := range []bool{true, false} {
			world.Trust = trust
			b.Run(fmt.Sprintf("trust=%v/n=%d", trust, n), func(b *testing.B) {
				perTarget(b, n, func() *staged.Run {
					timeline, err := world.Run(context.Background())
					if err != nil {
						b.Fatal(err)
					}
					return timeline.Run
				})
			})
		}
	}
}

// BenchmarkPolling plays the same runs as the plain reference does: a host that looks at every target
// in every minute.
func BenchmarkPolling(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		run := large(b, n)
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			perTarget(b, n, func() *staged.Run { return poll(b, run) })
		})
	}
}

// perTarget measures a way to play a run to its end.
func perTarget(b *testing.B, n int, play func() *staged.Run) {
	b.ReportAllocs()
	for b.Loop() {
		if run := play(); run.Phase() != staged.PhaseSucceeded {
			b.Fatal(run.Phase())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/target")
}

// spread lets attempts take from one to 61 minutes, to the second.
func spread(action staged.Action) stagedtest.Outcome {
	sum := 0
	for _, c := range action.Target {
		sum = (sum*31 + int(c)) % 3600
	}
	return stagedtest.Outcome{After: time.Duration(60+sum) * time.Second}
}

func poll(b *testing.B, run *staged.Run) *staged.Run {
	type attempt struct {
		token staged.Token
		ready time.Time
	}
	attempts := map[string]attempt{}
	for now := t0; !run.Phase().Terminal(); now = now.Add(time.Minute) {
		var in staged.Input
		for name, own := range attempts {
			health := staged.HealthProgressing
			if !own.ready.After(now) {
				health = staged.HealthReady
			}
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: run.Version(), Health: health, Token: own.token})
		}
		next, result, err := staged.Step(run, in, now)
		if err != nil {
			b.Fatal(err)
		}
		run = next
		for _, action := range result.Actions {
			attempts[action.Target] = attempt{action.Token, now.Add(spread(action).After)}
		}
	}
	return run
}

// large returns a run of n targets in one stage, one in a hundred of them at a time.
func large(tb testing.TB, n int) *staged.Run {
	tb.Helper()
	var fleet staged.Fleet
	for i := range n {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: fmt.Sprintf("cluster-%07d", i)})
	}
	limit := concurrency.Percent(1)
	return compile(tb, staged.Strategy{Stages: []staged.Stage{all("all", limit)}}, fleet, staged.Options{})
}
