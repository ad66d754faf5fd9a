package concurrency

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

var epoch = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)

// drawSnapshot draws a small snapshot in which everything collides.
func drawSnapshot(t *rapid.T, now time.Time) Snapshot {
	var s Snapshot
	small := func(label string, n int) int { return rapid.IntRange(0, n).Draw(t, label) }
	resource := rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4"})
	group := rapid.SampledFrom([]string{"a", "b"})
	keys := map[string]int{"f": 1 + small("keys of f", 1), "g": 1}
	for i := range 1 + small("pools", 3) {
		p := Pool{Key: fmt.Sprintf("p%d", 9-i), Total: 5, Limit: Count(rapid.SampledFrom([]int{1, 2, 1, 2, 3, 0}).Draw(t, "limit")), Strict: rapid.Bool().Draw(t, "strict")}
		if small("percent", 3) == 0 {
			p.Limit, p.Rounding = Percent(20*small("percentage", 5)), rapid.SampledFrom([]Rounding{Ceil, Floor, FloorMin1, ""}).Draw(t, "rounding")
		}
		p.Exclusive = small("exclusive", 3) == 3
		if small("unknown", 9) == 7 {
			p.Unknown = true
		}
		if rapid.Bool().Draw(t, "family") {
			p.Family = rapid.SampledFrom([]string{"f", "f", "g"}).Draw(t, "of")
			p.MaxActiveKeys = keys[p.Family]
		}
		p.OnStuck = rapid.SampledFrom([]OnStuck{Hold, Quarantine, ""}).Draw(t, "onStuck")
		p.StuckAfter = time.Duration(small("stuckAfter", 1)) * 3 * time.Minute
		if n := small("allowance", 2); n > 0 {
			p.QuarantineAllowance = Count(n)
		}
		p.Record = NewRecord(p.Key)
		p.Record.Revision = uint64(small("revision", 3))
		if small("rate", 2) == 2 {
			p.Rate = Rate{Count(1 + small("per period", 2)), 120}
			if small("percent of them", 3) == 3 {
				p.Rate.Limit = Percent(10 + 20*small("percentage", 2))
			}
			at := now.Add(-3 * time.Minute)
			for range small("begun", 3) {
				at = at.Add(time.Duration(1+small("later", 5)) * 30 * time.Second)
				p.Record.Begun = append(p.Record.Begun, Begun{at, 1 + small("more", 1)})
			}
		}
		for range rapid.SampledFrom([]int{0, 1, 0, 2, 3}).Draw(t, "leases") {
			h := Holder{resource.Draw(t, "holder"), group.Draw(t, "group")}
			if _, ok := p.Record.Lease(h); ok {
				continue
			}
			since := now.Add(-time.Duration(small("age", 5)) * time.Minute)
			var err error
			if p.Record, err = p.Record.Claim(Claim{Revision: p.Record.Revision, Token: p.Record.NextToken}, h, since); err != nil {
				t.Fatal(err)
			}
			if small("quarantined", 2) == 0 {
				if p.Record, err = p.Record.Quarantine(h, p.Record.NextToken-1, "drawn"); err != nil {
					t.Fatal(err)
				}
			}
		}
		if small("jobs", 6) == 3 {
			p.Jobs = append(p.Jobs, Holder{resource.Draw(t, "worker"), group.Draw(t, "group")})
		}
		for _, l := range p.Record.Leases {
			if small("keyless", 3) == 3 {
				p.Keyless = append(p.Keyless, l.Holder)
			}
		}
		if small("unavailable", 5) == 3 {
			p.Unavailable = append(p.Unavailable, resource.Draw(t, "down"))
		}
		if small("departed", 6) == 3 && len(p.Record.Leases) > 0 {
			p.Departed = append(p.Departed, p.Record.Leases[0].Resource)
		}
		if small("crowd of facts", 2) == 2 {
			for range small("more jobs", 3) {
				p.Jobs = append(p.Jobs, Holder{resource.Draw(t, "worker"), group.Draw(t, "group")})
			}
			for range small("more down", 2) {
				p.Unavailable = append(p.Unavailable, resource.Draw(t, "down"))
			}
			for range small("more departed", 2) {
				if len(p.Record.Leases) > 0 {
					p.Departed = append(p.Departed, rapid.SampledFrom(p.Record.Leases).Draw(t, "left").Resource)
				}
			}
		}
		if len(p.Unavailable) > 0 && small("halts", 2) == 2 {
			p.HaltAboveUnavailable = rapid.SampledFrom([]Limit{Count(0), Count(1), Percent(20), Percent(39)}).Draw(t, "above")
		}
		s.Pools = append(s.Pools, p)
	}
	for range small("running", 3) {
		s.Running = append(s.Running, Holder{resource.Draw(t, "running"), group.Draw(t, "group")})
	}
	return s
}

func drawCandidates(t *rapid.T, s Snapshot) []Candidate {
	candidates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Candidate {
		c := Candidate{
			Resource: rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4"}).Draw(t, "resource"),
			Group:    rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"),
			Rank:     rapid.IntRange(0, 5).Draw(t, "rank"),
			Begins:   rapid.IntRange(0, 2).Draw(t, "begins") == 2,
		}
		for i, p := range s.Pools {
			// Who needs a pool is a member: it has not departed.
			if rapid.SampledFrom([]bool{true, false, true}).Draw(t, "needs") && !slices.Contains(p.Departed, c.Resource) {
				c.Needs = append(c.Needs, int32(i))
			}
		}
		return c
	}), 0, 9).Draw(t, "candidates")
	if len(candidates) > 0 && rapid.IntRange(0, 7).Draw(t, "crowd") == 7 { // as many deployments of one cluster
		for k := range 20 {
			c := candidates[0]
			c.Group = strconv.Itoa(k)
			candidates = append(candidates, c)
		}
	}
	return candidates
}

func mustPlan(t *rapid.T, s Snapshot, candidates []Candidate) Result {
	r, err := Plan(s, candidates, epoch)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// begun takes those who start off the lists of the keyless.
func begun(s Snapshot, candidates []Candidate, starts []Admitted) {
	for _, a := range starts {
		c := &candidates[a.Candidate]
		for _, claim := range a.Claims {
			p := &s.Pools[claim.Pool]
			p.Keyless = slices.DeleteFunc(slices.Clone(p.Keyless), func(h Holder) bool { return h == Holder{c.Resource, c.Group} })
		}
	}
}

// apply carries out starts and returns the snapshot afterwards.
func apply(t *rapid.T, s Snapshot, candidates []Candidate, starts []Admitted) Snapshot {
	records, err := Apply(s, candidates, starts, epoch)
	if err != nil {
		t.Fatal(err)
	}
	s.Pools = slices.Clone(s.Pools)
	begun(s, candidates, starts)
	for _, r := range records {
		for i := range s.Pools {
			if s.Pools[i].Key == r.Key {
				r.Revision++
				s.Pools[i].Record = r
			}
		}
	}
	return s
}

func subset(t *rapid.T, admitted []Admitted) []Admitted {
	var some []Admitted
	for _, a := range admitted {
		if rapid.Bool().Draw(t, "carried out") {
			some = append(some, a)
		}
	}
	return some
}

// disrupted: a resource that holds a lease in some pool, or is down, is so before anything starts.
func disrupted(s Snapshot, resource string) bool {
	r := newReference(s, epoch)
	for i := range s.Pools {
		for h := range r.leases[i] {
			if h.Resource == resource {
				return true
			}
		}
		if r.downIn(i, resource) {
			return true
		}
	}
	return false
}

// TestI1AndI8: after any part of a batch more than max are active only where that many were before,
// or where a holder or a resource that was disrupted already came in; and holders exceed that by no
// more than the allowance.
func TestI1AndI8(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		candidates := drawCandidates(t, s)
		r := mustPlan(t, s, candidates)
		some := subset(t, r.Admitted)
		after := mustPlan(t, apply(t, s, candidates, some), nil)
		before := mustPlan(t, s, nil)
		for i := range s.Pools {
			free := map[string]bool{} // resources that were disrupted before, and came into this pool
			for _, a := range some {
				resource := candidates[a.Candidate].Resource
				if disrupted(s, resource) {
					free[resource] = true
				}
			}
			got, limit := after.Pools[i].Active, max(before.Pools[i].Active, before.Pools[i].Max)
			if got > limit+len(free) {
				t.Fatalf("I1: %d active in %s, max %d, before %d, %d came in free", got, s.Pools[i].Key, before.Pools[i].Max, before.Pools[i].Active, len(free))
			}
			if got > before.Pools[i].Max {
				seen["above the limit"]++
			}
			allowance := s.Pools[i].QuarantineAllowance.Of(5, Floor)
			if !s.Pools[i].Unknown {
				holders := map[string]bool{}
				for _, h := range after.Pools[i].Holders {
					if !slices.Contains(s.Pools[i].Departed, h.Resource) {
						holders[h.Resource] = true
					}
				}
				if len(holders) > max(got, limit)+allowance {
					t.Fatalf("I8: %d hold %s, %d active, allowance %d", len(holders), s.Pools[i].Key, got, allowance)
				}
			}
		}
	}, "above the limit")
}

// TestI2: a holder is never refused.
func TestI2(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		candidates := drawCandidates(t, s)
		for _, refused := range mustPlan(t, s, candidates).Refused {
			if c := candidates[refused.Candidate]; !c.Begins && newReference(s, epoch).holds(c) {
				t.Fatalf("I2: %+v", refused)
			}
		}
		for _, c := range candidates {
			if newReference(s, epoch).holds(c) {
				seen["a holder asks"]++
			}
		}
	}, "a holder asks")
}

// TestI4: the order of candidates, of pools and of every list in the snapshot is nothing.
func TestI4(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		candidates := drawCandidates(t, s)
		want := say(s, candidates, mustPlan(t, s, candidates))
		place := rapid.Permutation(indices(len(s.Pools))).Draw(t, "pools")
		other := Snapshot{Pools: make([]Pool, len(s.Pools)), Running: slices.Clone(s.Running)}
		slices.Reverse(other.Running)
		for i, p := range s.Pools {
			p.Jobs, p.Unavailable, p.Departed, p.Keyless = slices.Clone(p.Jobs), slices.Clone(p.Unavailable), slices.Clone(p.Departed), slices.Clone(p.Keyless)
			slices.Reverse(p.Jobs)
			slices.Reverse(p.Unavailable)
			slices.Reverse(p.Departed)
			slices.Reverse(p.Keyless)
			other.Pools[place[i]] = p
		}
		moved := make([]Candidate, len(candidates))
		for i, c := range candidates {
			c.Needs = slices.Clone(c.Needs)
			for k, n := range c.Needs {
				c.Needs[k] = int32(place[n])
			}
			moved[i] = c
		}
		if len(moved) > 0 {
			moved = rapid.Permutation(moved).Draw(t, "candidates")
		}
		got := say(other, moved, mustPlan(t, other, moved))
		for i := range s.Pools {
			if got.active[place[i]] != want.active[i] || got.opens[place[i]] != want.opens[i] || got.keys[place[i]] != want.keys[i] || got.halted[place[i]] != want.halted[i] {
				t.Fatalf("I4: active %v %v, want %v %v", got.active, got.keys, want.active, want.keys)
			}
		}
		got.active, want.active, got.keys, want.keys, got.opens, want.opens, got.halted, want.halted = nil, nil, nil, nil, nil, nil, nil, nil
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(verdicts{})); diff != "" {
			t.Fatal("I4: ", diff)
		}
	})
}

// TestI4ListsAreSets: what a snapshot lists twice, or in another order, is the same.
func TestI4ListsAreSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		name := rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4", "n5"})
		holder := rapid.Custom(func(t *rapid.T) Holder {
			return Holder{name.Draw(t, "r"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "g")}
		})
		for i := range s.Pools {
			p := &s.Pools[i]
			p.Jobs = rapid.SliceOfN(holder, 0, 4).Draw(t, "jobs")
			p.Unavailable = rapid.SliceOfN(name, 0, 3).Draw(t, "down")
			p.Keyless = append(p.Keyless, rapid.SliceOfN(holder, 0, 2).Draw(t, "keyless")...)
			p.Departed = rapid.SliceOfN(name, 0, 3).Draw(t, "departed")
		}
		candidates := drawCandidates(t, s)
		want := mustPlan(t, s, candidates)
		other := Snapshot{Pools: slices.Clone(s.Pools), Running: append(slices.Clone(s.Running), s.Running...)}
		for i := range other.Pools {
			p := &other.Pools[i]
			mix := func(n int) []int { return rapid.Permutation(indices(2*n)).Draw(t, "order") }
			p.Jobs = shuffled(p.Jobs, mix(len(p.Jobs)))
			p.Unavailable = shuffled(p.Unavailable, mix(len(p.Unavailable)))
			p.Departed = shuffled(p.Departed, mix(len(p.Departed)))
			p.Keyless = shuffled(p.Keyless, mix(len(p.Keyless)))
		}
		if diff := cmp.Diff(want, mustPlan(t, other, candidates)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// shuffled returns each entry of a list twice, in some order.
func shuffled[T any](list []T, order []int) []T {
	var twice []T
	for _, i := range order {
		twice = append(twice, list[i%len(list)])
	}
	return twice
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// TestI5AndI6: planning on what a plan led to starts nothing more that consumes, and no lease has
// gone. One candidate per holder: a holder that asks twice, for different pools, is let into the
// second above its limit, and that may help another candidate of its resource.
func TestI5AndI6(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		candidates := drawCandidates(t, s)
		asked := map[Holder]bool{}
		candidates = slices.DeleteFunc(candidates, func(c Candidate) bool {
			h := Holder{c.Resource, c.Group}
			defer func() { asked[h] = true }()
			return asked[h]
		})
		r := mustPlan(t, s, candidates)
		after := apply(t, s, candidates, r.Admitted)
		for _, a := range mustPlan(t, after, candidates).Admitted {
			if a.Reason == SlotFree {
				t.Fatalf("I5: %+v", candidates[a.Candidate])
			}
		}
		for i, p := range s.Pools {
			for _, l := range p.Record.Leases {
				if kept, ok := after.Pools[i].Record.Lease(l.Holder); !ok || kept != l {
					t.Fatalf("I6: %+v became %+v", l, kept)
				}
			}
		}
		seen["started"] += len(r.Admitted)
	}, "started")
}

// TestI7: with one pool per candidate a higher limit refuses nobody who was admitted, and a pool
// nobody needs changes nothing.
func TestI7(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		for i := range s.Pools {
			s.Pools[i].Family, s.Pools[i].MaxActiveKeys = "", 0 // pools of one family are not independent
		}
		candidates := drawCandidates(t, s)
		for i := range candidates {
			if c := &candidates[i]; len(c.Needs) > 1 {
				c.Needs = c.Needs[:1]
			}
		}
		before := mustPlan(t, s, candidates)
		raised := Snapshot{Pools: slices.Clone(s.Pools), Running: s.Running}
		p := &raised.Pools[rapid.IntRange(0, len(s.Pools)-1).Draw(t, "raised")]
		p.Limit = Count(p.max() + 1)
		raised.Pools = append(raised.Pools, Pool{Key: "unneeded", Limit: Count(0), Total: 9, Strict: true, Unavailable: []string{"n0"}})
		after := mustPlan(t, raised, candidates)
		for _, a := range before.Admitted {
			if !slices.ContainsFunc(after.Admitted, func(b Admitted) bool { return a.Candidate == b.Candidate }) {
				t.Fatalf("I7: %+v is refused", candidates[a.Candidate])
			}
		}
		seen["admitted by a higher limit"] += len(after.Admitted) - len(before.Admitted)
	}, "admitted by a higher limit")
}

// TestI12: if every holder ends and limits are at least one, everybody starts; with strict pools
// alone in order of rank per pool.
func TestI12(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strict := rapid.Bool().Draw(t, "strict")
		var s Snapshot
		for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
			s.Pools = append(s.Pools, Pool{Key: fmt.Sprint("p", i), Limit: Count(rapid.IntRange(1, 3).Draw(t, "limit")), Total: 9, Strict: strict})
		}
		if len(s.Pools) > 1 && rapid.Bool().Draw(t, "keys") { // one value per candidate, as a resource has
			s.Pools[0].Family, s.Pools[0].MaxActiveKeys = "f", 1
			s.Pools[1].Family, s.Pools[1].MaxActiveKeys = "f", 1
		}
		var waiting []Candidate
		for i := range rapid.IntRange(1, 9).Draw(t, "candidates") {
			c := Candidate{Resource: fmt.Sprint("n", i), Group: "g", Rank: rapid.IntRange(0, 9).Draw(t, "rank")}
			for p := range s.Pools {
				if rapid.Bool().Draw(t, "needs") && !(p == 1 && s.Pools[1].Family != "" && slices.Contains(c.Needs, 0)) {
					c.Needs = append(c.Needs, int32(p))
				}
			}
			waiting = append(waiting, c)
		}
		for round := 0; len(waiting) > 0; round++ {
			if round > 100 {
				t.Fatalf("I12: %+v never start", waiting)
			}
			r := mustPlan(t, s, waiting)
			started := make([]bool, len(waiting))
			for _, a := range r.Admitted {
				started[a.Candidate] = true
			}
			s = apply(t, s, waiting, r.Admitted)
			var rest []Candidate
			for i, c := range waiting {
				if !started[i] {
					rest = append(rest, c)
				}
				for k, later := range waiting {
					// Whoever needs the same pools and comes later in a strict world does not start
					// before.
					if strict && started[k] && !started[i] && slices.Equal(c.Needs, later.Needs) &&
						compareCandidates(newLedger(s, nil, epoch), &c, &later) < 0 {
						t.Fatalf("I12: %+v started before %+v", later, c)
					}
				}
			}
			waiting = rest
			for i := range s.Pools { // one holder ends, in all its pools
				if leases := s.Pools[i].Record.Leases; len(leases) > 0 {
					s = end(t, s, rapid.SampledFrom(leases).Draw(t, "ends").Holder)
				}
			}
		}
	})
}

// end releases the holder's leases in all pools.
func end(t *rapid.T, s Snapshot, h Holder) Snapshot {
	s.Pools = slices.Clone(s.Pools)
	for i := range s.Pools {
		if l, ok := s.Pools[i].Record.Lease(h); ok {
			r, err := s.Pools[i].Record.Release(h, l.Token)
			if err != nil {
				t.Fatal(err)
			}
			r.Revision++
			s.Pools[i].Record = r
		}
	}
	return s
}

func TestPlanAgainstReference(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		for range 10 {
			candidates := drawCandidates(t, s)
			got := mustPlan(t, s, candidates)
			want := newReference(s, epoch).plan(candidates)
			if diff := cmp.Diff(want, say(s, candidates, got), cmp.AllowUnexported(verdicts{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			for _, a := range got.Admitted {
				seen[string(a.Reason)]++
			}
			for _, a := range got.Refused {
				for _, refusal := range got.Refusals[a.Why] {
					seen[string(refusal.Reason)]++
				}
			}
		}
	}, string(SlotFree), string(SlotHeld), string(SlotAlreadyDown), string(RuleNotApplicable), string(SlotFull), string(SlotRateFull), string(SlotPaused), string(SlotHalted), string(SlotExclusive), string(SlotKeysFull), string(SlotReserved), string(PoolUnknown))
}

// TestNothingChangesBeforeNext: until the instant that a plan gives, and ever if it gives none, the
// same question has the same answer.
func TestNothingChangesBeforeNext(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		candidates := drawCandidates(t, s)
		first := mustPlan(t, s, candidates)
		last := epoch.Add(24 * time.Hour)
		if !first.Next.IsZero() {
			if !first.Next.After(epoch) {
				t.Fatalf("next is %v, which is not after now", first.Next)
			}
			last = first.Next.Add(-1)
		}
		at := epoch.Add(time.Duration(rapid.Int64Range(0, int64(last.Sub(epoch))).Draw(t, "later")))
		for _, at := range []time.Time{at, last} {
			later, err := Plan(s, candidates, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(first, later); diff != "" {
				t.Fatalf("at %v, before next: %s", at, diff)
			}
		}
		if first.Next.IsZero() {
			seen["no next"]++
			return
		}
		changed, err := Plan(s, candidates, first.Next)
		if err != nil {
			t.Fatal(err)
		}
		if len(changed.Admitted) > len(first.Admitted) {
			seen["more start at next"]++
		}
		if len(changed.Stuck) > len(first.Stuck) {
			seen["another is stuck at next"]++
		}
		if changed.Next.Equal(first.Next) {
			t.Fatalf("at %v the next is the same", first.Next)
		}
	}, "no next", "more start at next", "another is stuck at next")
}
