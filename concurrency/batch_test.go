package concurrency

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// A batch looks at a block of candidates before it decides on them. What makes it give up may come
// after it has decided on others.
const (
	orderly  = "orderly"
	disorder = "disorder" // the rank of one is below that of all before
	exempt   = "exempt"   // one is a member of no pool
	wrong    = "wrong"    // one needs a pool that there is not
)

// longBatch draws candidates for several blocks, of which the one at index odd is out of the
// ordinary.
func longBatch(t *rapid.T, s Snapshot, what string) (candidates []Candidate, odd int) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	n := 1 + r.IntN(300)
	odd = r.IntN(n)
	resources := rapid.SampledFrom([]int{5, 80, 1000}).Draw(t, "resources")
	for i := range n {
		c := Candidate{Resource: fmt.Sprint("n", r.IntN(resources)), Group: []string{"a", "b"}[r.IntN(2)], Rank: i}
		for k, p := range s.Pools {
			if r.IntN(3) > 0 && !slices.Contains(p.Departed, c.Resource) {
				c.Needs = append(c.Needs, int32(k))
			}
		}
		if len(c.Needs) == 0 {
			continue
		}
		candidates = append(candidates, c)
	}
	if len(candidates) == 0 {
		t.Skip("nobody needs a place")
	}
	odd = min(odd, len(candidates)-1)
	switch c := &candidates[odd]; what {
	case disorder:
		c.Rank = -1
	case exempt:
		c.Needs = nil
	case wrong:
		c.Needs = []int32{int32(len(s.Pools))}
	}
	return candidates, odd
}

// TestLongBatches: however much was decided before a candidate turned up that is out of the
// ordinary, the result is that of the reference.
func TestLongBatches(t *testing.T) {
	wanted := []string{string(SlotFree), string(SlotHeld), string(SlotAlreadyDown), string(RuleNotApplicable)}
	for _, what := range []string{orderly, disorder, exempt, wrong} {
		wanted = append(wanted, what+" late, idle true", what+" late, idle false")
	}
	tally := testkit.Tally{}
	tally.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t, epoch)
		idle := rapid.Bool().Draw(t, "idle")
		for i := range s.Pools {
			p := &s.Pools[i]
			p.Total, p.Limit = 200, Count(rapid.SampledFrom([]int{3, 60, 100, 200}).Draw(t, "places"))
			if idle {
				p.Record, p.Jobs, p.Unavailable, p.Departed = NewRecord(p.Key), nil, nil, nil
			}
		}
		for range 2 {
			what := rapid.SampledFrom([]string{orderly, disorder, exempt, wrong}).Draw(t, "what")
			candidates, odd := longBatch(t, s, what)
			if odd >= len(batch{}.hashes) {
				tally[fmt.Sprint(what, " late, idle ", idle)]++
			}
			result, err := Plan(s, candidates, epoch)
			if (err != nil) != (what == wrong) {
				t.Fatal(what, err)
			}
			if err != nil {
				continue
			}
			want := newReference(s, epoch).plan(candidates)
			if diff := cmp.Diff(want, say(s, candidates, result), cmp.AllowUnexported(verdicts{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatal(diff)
			}
			for _, a := range result.Admitted {
				tally[string(a.Reason)]++
			}
			for _, answer := range result.Refusals {
				tally["answers"]++
				if len(answer) == 0 {
					t.Fatal("refused by nobody")
				}
			}
			tally["refused"] += len(result.Refused)
		}
	}, wanted...)
	if 2*tally["answers"] > tally["refused"] {
		t.Errorf("%d answers for %d who were refused: equal ones are not shared", tally["answers"], tally["refused"])
	}
}

// TestSortedInputIsNotSortedAgain: candidates in the order of admission are taken as they are, in
// one run over them; of others only an order is made.
func TestSortedInputIsNotSortedAgain(t *testing.T) {
	pools := newScene(ten(Count(3)), Pool{Key: "zone", Limit: Count(2), Total: 5})
	broken := newScene(ten(Count(3)), Pool{Key: "zone", Limit: Count(2), Total: 5}).unavailable("nodes", "n9")
	candidate := func(rank int, resource, group string, needs ...int32) Candidate {
		return Candidate{Resource: resource, Group: group, Rank: rank, Needs: needs}
	}
	begins := candidate(1, "n1", "a", 0)
	begins.Begins = true
	for _, row := range []struct {
		why        string
		scene      *scene
		candidates []Candidate
		once       bool // one run does it
		sorted     bool
	}{
		{"by rank", pools, []Candidate{candidate(1, "n2", "g", 0), candidate(2, "n1", "g", 0)}, true, true},
		{"by resource", pools, []Candidate{candidate(1, "n1", "g", 0), candidate(1, "n2", "a", 0)}, true, true},
		{"by group", pools, []Candidate{candidate(1, "n1", "a", 0), candidate(1, "n1", "b", 0)}, true, true},
		{"who begins comes last", pools, []Candidate{candidate(1, "n1", "a", 0), begins}, true, true},
		{"the same again", pools, []Candidate{candidate(1, "n1", "a", 0), candidate(1, "n1", "a", 0)}, true, true},
		{"somebody is down", broken, []Candidate{candidate(1, "n2", "g", 0), candidate(2, "n9", "g", 0, 1)}, true, true},
		{"who needs nothing comes first, so they have to be counted", pools, []Candidate{candidate(1, "n2", "g", 0), candidate(2, "n1", "g")}, false, true},
		{"not by rank", pools, []Candidate{candidate(2, "n1", "g", 0), candidate(1, "n2", "g", 0)}, false, false},
		{"not by resource", pools, []Candidate{candidate(1, "n2", "a", 0), candidate(1, "n1", "g", 0)}, false, false},
		{"somebody is down, and they are not", broken, []Candidate{candidate(2, "n1", "g", 0), candidate(1, "n9", "g", 0)}, false, false},
	} {
		b := newBatch(newLedger(row.scene.Snapshot, row.candidates, epoch), row.candidates)
		if once := b.run(); once != row.once {
			t.Errorf("%s: one run is enough: %v", row.why, once)
		}
		b = newBatch(newLedger(row.scene.Snapshot, row.candidates, epoch), row.candidates)
		if b.prepare(); (b.order == nil) != row.sorted {
			t.Errorf("%s: the order is %v", row.why, b.order)
		}
	}
}
