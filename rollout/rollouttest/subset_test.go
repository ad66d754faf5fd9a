package rollouttest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testseed"
	"github.com/tranche-dev/tranche/rollout"
)

// TestDrawnSubsets: in worlds that nobody thought of, a host that carries out any of the starts and
// then sleeps as long as NextAfter says misses nothing: no plan that sees them would have it look
// earlier, and none starts what the plan before did not offer, unless NextAfter says at once.
func TestDrawnSubsets(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds")
	}
	seen := testseed.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, world, accepted := d.governed(compiler, seen)
		if !accepted {
			return
		}
		d.pastLimits(&world.Fleet, world.Policies.Policies())
		salt := rapid.Uint32().Draw(t, "salt")
		var state rollout.State
		world.Trust = true
		world.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
			s.State = state
			plan, err := world.Policies.Plan(s, now)
			if err != nil {
				return plan, err
			}
			for _, all := range []bool{true, false} {
				var some []rollout.Start
				for _, start := range plan.Start {
					h := fnv.New32a()
					fmt.Fprint(h, salt, start.Run, now.UnixNano())
					if all || h.Sum32()%2 == 0 {
						some = append(some, start)
					}
				}
				if len(some) > 0 {
					sleeps(t, seen, world.Policies, s, &plan, some, text)
				}
			}
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
			return plan, err
		}
		if _, err := world.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}, "at once", "earlier than Next", "never")
}

// pastLimits draws overrides of concurrency rules, which lets starts past full pools.
func (d drawn) pastLimits(f *rollout.Snapshot, policies []rollout.Policy) {
	for _, policy := range policies {
		for _, rule := range policy.Rules {
			if rule.ResourceConcurrency == nil || !d.chance(60) {
				continue
			}
			o := rollout.Override{ID: "past " + rule.ID, Rule: rule.ID, Version: rapid.SampledFrom(f.Versions).Draw(d.T, "let past").ID, CreatedAt: at(1, 8, 0), CreatedBy: "ann", Reason: "urgent"}
			if d.chance(50) {
				o.Resource = d.of("r0", "r1")
			}
			f.Overrides = append(f.Overrides, o)
		}
	}
}

// sleeps checks what NextAfter says of some of the starts of a plan.
func sleeps(t *rapid.T, seen testseed.Tally, set *rollout.PolicySet, s rollout.Snapshot, plan *rollout.Plan, some []rollout.Start, policies string) {
	next, now := plan.NextAfter(some), plan.Now
	var err error
	if s.State, err = plan.Commit(some, now); err != nil {
		t.Fatal(err)
	}
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		target := &s.Targets[i]
		for _, start := range some {
			if start.TargetID == target.TargetID {
				target.Jobs = append(slices.Clone(target.Jobs), rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: now})
			}
		}
	}
	again, err := set.Plan(s, now)
	if err != nil {
		t.Fatal(err)
	}
	atOnce := next.Equal(now.Add(1))
	switch {
	case atOnce:
		seen["at once"]++
	case next.IsZero():
		seen["never"]++
	case plan.Next.IsZero() || next.Before(plan.Next):
		seen["earlier than Next"]++
	}
	if !again.Next.IsZero() && (next.IsZero() || again.Next.Before(next)) {
		t.Fatalf("at %s, after %v, the host looks at %v, and should at %v\n%v\n%s", now, some, next, again.Next, again, policies)
	}
	for _, start := range again.Start {
		if !atOnce && !slices.ContainsFunc(plan.Start, func(offered rollout.Start) bool { return offered.Run == start.Run }) {
			t.Fatalf("at %s, after %v, the host looks at %v, and by then %v could start\n%v\n%s", now, some, next, start, plan, policies)
		}
	}
}
