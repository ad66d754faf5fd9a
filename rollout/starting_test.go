package rollout

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestStarting compares who can start with what going round and round finds, until nothing changes.
func TestStarting(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 7).Draw(t, "deployments")
		deployments := func(label string) []int32 {
			list := rapid.SliceOfNDistinct(rapid.Int32Range(0, n-1), 1, int(n), rapid.ID).Draw(t, label)
			slices.Sort(list)
			return list
		}
		s, can := newStarting(int(n)), make([]bool, n)
		for d := range n {
			can[d] = rapid.IntRange(0, 7).Draw(t, "can") == 0
			s.can[d] = can[d]
		}
		var list []*precondition
		for range rapid.IntRange(0, 6).Draw(t, "preconditions") {
			p := &precondition{rule: &compiledRule{dependency: &DeploymentDependency{}}, providers: deployments("providers")}
			if rapid.Bool().Draw(t, "all") {
				p.rule.dependency.Match = MatchAll
			}
			for _, d := range deployments("of") {
				if !can[d] && (len(p.providers) > 1 || p.providers[0] != d) { // what can start is asked nothing, and nobody needs only itself
					p.of = append(p.of, d)
				}
			}
			list = append(list, p)
			s.require(p)
		}
		var among []int32
		for d := range n {
			if !can[d] {
				among = append(among, d)
			}
		}
		met := func(p *precondition, self int32) bool {
			if p.all() {
				return !slices.ContainsFunc(p.providers, func(other int32) bool { return other != self && !can[other] })
			}
			return slices.ContainsFunc(p.providers, func(other int32) bool { return other != self && can[other] })
		}
		want := slices.Clone(among)
		for changed := true; changed; {
			changed = false
			want = slices.DeleteFunc(want, func(d int32) bool {
				can[d] = !slices.ContainsFunc(list, func(p *precondition) bool { return slices.Contains(p.of, d) && !met(p, d) })
				changed = changed || can[d]
				return can[d]
			})
		}
		got := s.run(slices.Clone(among))
		if !slices.Equal(got, want) || !slices.Equal(s.can, can) {
			t.Fatalf("%v are left, not %v; %v can start, not %v", got, want, s.can, can)
		}
		for _, d := range got {
			if !slices.ContainsFunc(s.needs[d], func(p *precondition) bool { return !p.met && !met(p, d) }) {
				t.Fatalf("%d is left, and nothing says why", d)
			}
		}
		for _, p := range list {
			if p.alone >= 0 {
				seen["alone"]++
				if p.met {
					seen["alone, then met for others"]++
				}
			}
		}
		if len(got) > 0 {
			seen["left"]++
		}
		if len(got) < len(among) {
			seen["start"]++
		}
	}, "alone", "alone, then met for others", "left", "start")
}
