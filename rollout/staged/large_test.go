package staged_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// TestLargeReference compares with the dumb version on fleets that need every level of the tree,
// with members that join across the borders of its nodes, and with everything in progress or little
// of it.
func TestLargeReference(t *testing.T) {
	none := concurrency.Limit{}
	for _, c := range []struct {
		members, joining int
		limit            concurrency.Limit
		perGroup         concurrency.Limit
	}{{1100, 40, concurrency.Percent(40), concurrency.Percent(20)}, {700, 200, concurrency.Count(40), concurrency.Count(1)}, {31, 5, concurrency.Count(3), none}, {32, 40, concurrency.Percent(50), none}, {1020, 10, concurrency.Percent(10), none}, {1100, 3, concurrency.Percent(100), none}, {1500, 0, concurrency.Count(40), none}} {
		t.Run(fmt.Sprint(c.members, "+", c.joining, " at ", c.limit, " ", c.perGroup), func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, uint64(c.members)))
			strategy := staged.Strategy{ProgressDeadline: staged.For(20 * time.Minute), MinSuccessTime: staged.For(time.Minute), MaxFailures: concurrency.Percent(100)}
			for _, ring := range []string{"a", "b"} {
				stage := staged.Stage{Name: ring, MaxConcurrency: c.limit, LabelSelector: &selector.LabelSelector{MatchLabels: map[string]string{"ring": ring}}}
				if c.perGroup != none {
					stage.GroupBy, stage.MaxConcurrencyPerGroup = "zone", c.perGroup
				}
				strategy.Stages = append(strategy.Stages, stage)
			}
			options := staged.Options{Added: staged.Append, LateLeaving: staged.Clean, VerifyDone: staged.Always, OnRegression: staged.Note}
			fleet := staged.Fleet{Version: "v2"}
			target := func(i int) staged.Target {
				return staged.Target{Name: fmt.Sprintf("c%05d", i), Labels: map[string]string{"ring": string("ab"[i%10/7]), "zone": fmt.Sprint(i * i % 101)}}
			}
			for i := range c.members {
				fleet.Targets = append(fleet.Targets, target(i))
			}
			run, err := staged.Compile(strategy, benchSpec(), fleet, options)
			if err != nil {
				t.Fatal(err)
			}
			ref := newReference(run, strategy, options)
			now := benchStart
			known := c.members
			var actions []staged.Action
			for n := range 40 {
				now = now.Add(time.Duration(random.IntN(90)) * time.Second)
				var in staged.Input
				for _, a := range actions {
					if random.IntN(3) > 0 {
						in.Observations = append(in.Observations, staged.Observation{Target: a.Target, Version: a.Version, Health: staged.HealthReady, Token: a.Token, Gone: a.Kind == staged.Remove})
					}
				}
				for range c.members / 20 {
					in.Observations = append(in.Observations, staged.Observation{Target: fmt.Sprintf("c%05d", random.IntN(known)), Version: "v2",
						Health: []staged.Health{staged.HealthReady, staged.HealthReady, staged.HealthFailing, staged.HealthFailed}[random.IntN(4)]})
				}
				if known < c.members+c.joining {
					in.Added = append(in.Added, target(known))
					known++
				}
				if n%10 == 9 {
					in.Leaving = append(in.Leaving, fmt.Sprintf("c%05d", random.IntN(known)))
				}
				for range c.members / 50 {
					kind := staged.CommandSuspend
					if n >= 15 {
						kind = staged.CommandResume
					}
					in.Commands = append(in.Commands, staged.Command{Kind: kind, Target: fmt.Sprintf("c%05d", random.IntN(known)), Reason: []string{"", "closed", "in repair"}[random.IntN(3)]})
				}
				for s := range run.Stages() {
					for target := range run.Targets(s.Index) {
						if n == 25 && target.SuspendedBy != nil {
							in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandResume, Target: target.Name})
						}
					}
				}
				before, was := run, encode(t, run)
				var result staged.Result
				if run, result, err = staged.Step(before, in, now); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(was, encode(t, before)) { // only here do runs share nodes that have children
					t.Fatalf("step %d: the argument changed", n)
				}
				wantActions, next := ref.step(in, now)
				actions = result.Actions
				if !reflect.DeepEqual(ref.picture(), pictureOf(run)) || !next.Equal(result.Next) {
					t.Fatalf("step %d: next %v, want %v: %s", n, result.Next, next, gocmp.Diff(ref.picture(), pictureOf(run), cmpopts.EquateEmpty()))
				}
				if diff := gocmp.Diff(wantActions, actions, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("step %d: actions: %s", n, diff)
				}
				if n%20 == 10 { // go on from the stored form
					var copied staged.Run
					if err := json.Unmarshal(encode(t, run), &copied); err != nil {
						t.Fatal(err)
					}
					run = &copied
				}
			}
			if n := ref.current(); n == 0 && c.limit.Value() > 40 {
				t.Errorf("still in the first stage\n%s", run)
			}
		})
	}
}

// TestStepAllocatesTheSame: a step of a fixed size allocates no more at 100,000 targets than at
// 1,000, but for the levels of the tree that it copies on its way down.
func TestStepAllocatesTheSame(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	measure := func(n int, groups bool) (allocations, bytes float64) {
		start, done := compileBench(t, n, concurrency.Count(10)), n
		if groups {
			start, done = compileGroups(t, n), n/2
		}
		run, result, now := midway(t, start, done)
		in := staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)[:10]}
		allocations = testing.AllocsPerRun(20, func() { step(t, run, in, now.Add(time.Second)) })
		const steps = 200
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range steps {
			step(t, run, in, now.Add(time.Second))
		}
		runtime.ReadMemStats(&after)
		return allocations, float64(after.TotalAlloc-before.TotalAlloc) / steps
	}
	for _, groups := range []bool{false, true} {
		few, fewBytes := measure(1_000, groups)
		many, manyBytes := measure(100_000, groups)
		t.Logf("1,000: %.0f allocations, %.0f bytes; 100,000: %.0f, %.0f", few, fewBytes, many, manyBytes)
		// Two levels more, of two allocations and at most 600 bytes each, for the two ends of the
		// window. With groups each of the twenty changes is far from the others, in its own part of
		// the tree and in its own line, which has a level more.
		more, moreBytes := 8.0, 8*300.0
		if groups {
			more, moreBytes = 20*4, 20*1200
		}
		if many > few+more || manyBytes > fewBytes+moreBytes {
			t.Errorf("a step grows with the fleet: groups %t", groups)
		}
	}
}

// TestJoiningAllocatesTheSame: a target that joins costs what it costs in a run compiled with as
// many, however many have joined before it.
func TestJoiningAllocatesTheSame(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	const joined = 300
	measure := func(compiled int) float64 {
		var names []string
		for i := range joined + 1 {
			names = append(names, fmt.Sprintf("c%03d", i))
		}
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, staged.Options{Added: staged.Append}, names[:compiled])
		for _, name := range names[compiled:joined] {
			s.step(staged.Input{Added: []staged.Target{{Name: name}}})
		}
		one := staged.Input{Added: []staged.Target{{Name: names[joined]}}}
		if run, _ := step(t, s.run, one, s.now); run.Counts().Members != joined+1 {
			t.Fatal(run)
		}
		return testing.AllocsPerRun(20, func() { step(t, s.run, one, s.now) })
	}
	if before, after := measure(joined), measure(1); after > before+8 {
		t.Errorf("behind %d that joined: %.0f allocations instead of %.0f", joined-1, after, before)
	}
}

// nameBytes is what a name takes in a run: the header of its string, and its part of the text in
// which all names stand.
const nameBytes = 16 + float64(len("cluster-00000000"))

// TestMemory: under 40 bytes per target beside its name.
func TestMemory(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector takes memory")
	}
	if got := memory(t, 50_000) - nameBytes; got >= 40 {
		t.Errorf("%.1f bytes per target beside the name", got)
	}
}
