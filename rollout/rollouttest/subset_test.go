package rollouttest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestDrawnSubsets: in worlds that nobody thought of, a host that carries out any of the starts and
// then sleeps as long as NextAfter says misses nothing: no plan that sees them would have it look
// earlier, and none starts what the plan before did not offer, unless NextAfter says at once. Now and
// then a host stops after it has saved starts and before it has dispatched them, and up to an instant
// the rules allow more.
func TestDrawnSubsets(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, world, accepted := d.governed(compiler, seen)
		if !accepted {
			return
		}
		d.pastLimits(&world.Fleet, world.Policies.Policies())
		salt, loses, edited := rapid.Uint32().Draw(t, "salt"), uint32(d.number(0, 10, 50)), d.when()
		lax, err := rollout.ParsePolicies([]byte(strings.NewReplacer(`"limit":1`, `"limit":3`, `,"maxActiveKeys":1`, `,"maxActiveKeys":2`).Replace(text)))
		if err != nil {
			t.Fatal(err)
		}
		before, err := rollout.Compile(lax, compiler)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		drawn := func(of any, now time.Time) uint32 {
			h := fnv.New32a()
			fmt.Fprint(h, salt, of, now.UnixNano())
			return h.Sum32()
		}
		var state rollout.State
		world.Trust = true
		world.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
			s.State = state
			set := world.Policies
			if now.Before(edited) {
				set = before
			}
			plan, err := set.Plan(s, now)
			if err != nil {
				return plan, err
			}
			if isFrozen(plan) {
				seen["frozen"]++
			}
			for _, all := range []bool{true, false} {
				var some []rollout.Start
				for _, start := range plan.Start {
					if all || drawn(start.Run, now)%2 == 0 {
						some = append(some, start)
					}
				}
				if len(some) > 0 {
					sleeps(t, seen, set, s, &plan, some, text)
				}
			}
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
			plan.Start = slices.DeleteFunc(slices.Clone(plan.Start), func(start rollout.Start) bool {
				lost := drawn(start, now)%100 < loses
				if lost {
					seen["lost"]++
				}
				return lost
			})
			return plan, err
		}
		if _, err := world.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
	}, "at once", "earlier than Next", "never", "lost", "frozen")
}

// isFrozen reports whether anybody waits for the end of a freeze.
func isFrozen(plan rollout.Plan) bool {
	for w := range plan.Waiting.All() {
		if slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonFrozen }) {
			return true
		}
	}
	return false
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
func sleeps(t *rapid.T, seen testkit.Tally, set *rollout.PolicySet, s rollout.Snapshot, plan *rollout.Plan, some []rollout.Start, policies string) {
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
