package concurrency

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// queueModel keeps what a host keeps without a queue, the records and the waiting candidates, and
// plans from scratch.
type queueModel struct {
	snapshot Snapshot
	waiting  map[int32]Candidate
	queue    *Queue
	tally    testkit.Tally
}

func (m *queueModel) ids() []int32 { return slices.Sorted(maps.Keys(m.waiting)) }

func (m *queueModel) add(t *rapid.T) {
	for _, c := range drawCandidates(t, m.snapshot) {
		id, err := m.queue.Add(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, taken := m.waiting[id]; taken {
			t.Fatalf("id %d given twice", id)
		}
		m.waiting[id] = c
	}
}

func (m *queueModel) remove(t *rapid.T) {
	if len(m.waiting) == 0 {
		if m.queue.Remove(0) == nil {
			t.Fatal("removed a candidate that does not wait")
		}
		return
	}
	id := rapid.SampledFrom(m.ids()).Draw(t, "id")
	if err := m.queue.Remove(id); err != nil {
		t.Fatal(err)
	}
	delete(m.waiting, id)
	m.tally["removed"]++
}

func (m *queueModel) release(t *rapid.T) {
	pool := rapid.IntRange(0, len(m.snapshot.Pools)-1).Draw(t, "pool")
	p := &m.snapshot.Pools[pool]
	holders := append([]Holder(nil), p.Jobs...)
	for _, l := range p.Record.Leases {
		holders = append(holders, l.Holder)
	}
	if len(holders) == 0 || p.Unknown {
		if m.queue.Release(int32(pool), Holder{"n0", "nobody"}, 9) == nil {
			t.Fatal("released what nobody holds")
		}
		return
	}
	h := rapid.SampledFrom(holders).Draw(t, "holder")
	if l, ok := p.Record.Lease(h); ok {
		record, err := p.Record.Release(h, l.Token)
		if err != nil {
			t.Fatal(err)
		}
		record.Revision++
		p.Record = record
	}
	p.Jobs = slices.DeleteFunc(slices.Clone(p.Jobs), func(j Holder) bool { return j == h })
	p.Keyless = slices.DeleteFunc(slices.Clone(p.Keyless), func(j Holder) bool { return j == h })
	if err := m.queue.Release(int32(pool), h, p.Record.Revision); err != nil {
		t.Fatal(err)
	}
	m.tally["released"]++
	if len(p.Record.Leases) > 16 {
		m.tally["released in a crowd"]++
	}
}

func (m *queueModel) admit(t *rapid.T) {
	ids := m.ids()
	var candidates []Candidate
	for _, id := range ids {
		candidates = append(candidates, m.waiting[id])
	}
	plan, err := Plan(m.snapshot, candidates, epoch)
	if err != nil {
		t.Fatal(err)
	}
	want := say(m.snapshot, candidates, plan)
	byID := make([]Candidate, 1+slices.Max(append(ids, 0)))
	for id, c := range m.waiting {
		byID[id] = c
	}
	admitted := m.queue.Admit()
	got := say(m.snapshot, byID, Result{Admitted: admitted})
	if diff := cmp.Diff(want.admitted, got.admitted, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("plan (-) and queue (+) differ: %s", diff)
	}
	for i, a := range admitted {
		for k, claim := range a.Claims {
			if claim.Revision != plan.Admitted[i].Claims[k].Revision {
				t.Fatalf("claim %+v, planned %+v", claim, plan.Admitted[i].Claims[k])
			}
		}
		delete(m.waiting, a.Candidate)
		m.tally[string(a.Reason)]++
	}
	for _, r := range plan.Refused {
		for _, refusal := range plan.Refusals[r.Why] {
			m.tally[string(refusal.Reason)]++
		}
	}
	records, err := Apply(m.snapshot, candidates, plan.Admitted, epoch)
	if err != nil {
		t.Fatal(err)
	}
	m.store(t, records)
	begun(m.snapshot, candidates, plan.Admitted)
	if m.queue.Len() != len(m.waiting) {
		t.Fatalf("%d wait, want %d", m.queue.Len(), len(m.waiting))
	}
}

func (m *queueModel) store(t *rapid.T, records []Record) {
	for _, record := range records {
		for i := range m.snapshot.Pools {
			if m.snapshot.Pools[i].Key == record.Key {
				record.Revision++
				m.snapshot.Pools[i].Record = record
				if err := m.queue.Stored(int32(i), record.Revision); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func propQueue(tally testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &queueModel{snapshot: drawSnapshot(t, epoch), waiting: map[int32]Candidate{}, tally: tally}
		var err error
		if m.queue, err = NewQueue(m.snapshot, epoch); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": m.add, "admit": m.admit, "release": m.release, "remove": m.remove,
		})
		m.admit(t)
	}
}

func TestQueueIsPlan(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propQueue(seen), string(SlotFree), string(SlotHeld), string(SlotAlreadyDown), string(RuleNotApplicable), string(SlotFull), string(SlotPaused),
		string(SlotHalted), string(SlotExclusive), string(SlotKeysFull), string(SlotReserved), string(PoolUnknown), "removed", "released", "released in a crowd")
}

// propQueueLines has full pools whose places become free many at a time, while candidates with ever
// other needs wait for them: who stands for whom in a walk is decided anew at each start.
func propQueueLines(tally testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &queueModel{waiting: map[int32]Candidate{}, tally: tally}
		for key := range 4 {
			p := Pool{Key: fmt.Sprint(key), Limit: Count(rapid.IntRange(1, 4).Draw(t, "limit")), Total: 20, Strict: rapid.IntRange(0, 9).Draw(t, "strict") == 0}
			for i := range p.Limit.Value() {
				p.Jobs = append(p.Jobs, Holder{fmt.Sprintf("old%d", i), fmt.Sprint(key)})
			}
			m.snapshot.Pools = append(m.snapshot.Pools, p)
		}
		var err error
		if m.queue, err = NewQueue(m.snapshot, epoch); err != nil {
			t.Fatal(err)
		}
		for round := range rapid.IntRange(1, 4).Draw(t, "rounds") {
			for i := range rapid.IntRange(1, 12).Draw(t, "candidates") {
				c := Candidate{fmt.Sprintf("new%d", rapid.IntRange(0, 15).Draw(t, "resource")), fmt.Sprint(round, i), rapid.IntRange(0, 20).Draw(t, "rank"),
					rapid.SliceOfNDistinct(rapid.Int32Range(0, 3), 1, 4, rapid.ID[int32]).Draw(t, "needs"), false}
				id, err := m.queue.Add(c)
				if err != nil {
					t.Fatal(err)
				}
				m.waiting[id] = c
			}
			for range rapid.IntRange(0, 8).Draw(t, "ends") {
				m.release(t)
			}
			m.admit(t)
		}
	}
}

func TestQueueLines(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propQueueLines(seen), string(SlotFree), string(SlotAlreadyDown), string(SlotFull), string(SlotReserved), "released")
}

// TestQueueStandIns: of the lines that wait at one pool the first stands for the others.
func TestQueueStandIns(t *testing.T) {
	full := func() *scene {
		return newScene(Pool{Key: "all", Limit: Count(2), Total: 9}, Pool{Key: "a", Limit: Count(1), Total: 9}, Pool{Key: "b", Limit: Count(1), Total: 9}).
			lease("all", "o1", "g", 0).lease("all", "o2", "g", 0)
	}
	ask := func(resource string, needs ...int32) Candidate { return Candidate{resource, "g", 0, needs, false} }
	both := []string{"all o1", "all o2"}
	runQueue(t, full(), []queueStep{
		{add: []Candidate{ask("n1", 0), ask("n2", 0, 1), ask("n3", 0)}, why: "no place"},
		{release: both, want: []string{"n1", "n2"}, why: "n2 is in another line than n1 and n3, and between them"},
	})
	runQueue(t, full(), []queueStep{
		{add: []Candidate{ask("n1", 0), ask("n2", 0, 1)}, why: "no place"},
		{release: both, want: []string{"n1", "n2"}, why: "nobody is left in the line of n1"},
	})
	runQueue(t, full().lease("a", "o3", "g", 0), []queueStep{
		{add: []Candidate{ask("n1", 0, 1), ask("n2", 0, 2), ask("n3", 0)}, why: "no place"},
		{release: both, want: []string{"n2", "n3"}, why: "n1 finds the next pool full"},
	})
	runQueue(t, full(), []queueStep{
		{add: []Candidate{ask("n1", 0), {"n1", "h", 1, []int32{0, 1}, false}, {"n2", "g", 2, []int32{0, 1}, false}, {"n3", "g", 3, []int32{0, 2}, false}}, why: "no place"},
		{release: both, want: []string{"n1", "n1", "n3"}, why: "the start of n1 takes its other candidate out of the line of n2, and this takes the place in a"},
	})
}

// TestQueueAllowanceMoves: when a forgiven lease ends the allowance goes to the next one, whose
// place becomes free.
func TestQueueAllowanceMoves(t *testing.T) {
	s := newScene(stuck(1, Quarantine)).lease("nodes", "n1", "g", 3*time.Hour).lease("nodes", "n2", "g", 2*time.Hour).lease("nodes", "n3", "g", 0).
		running("n1", "g").running("n2", "g")
	q, err := NewQueue(s.Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"n4", "n5"} {
		if _, err := q.Add(Candidate{Resource: resource, Group: "g", Needs: []int32{0}}); err != nil {
			t.Fatal(err)
		}
	}
	if a := q.Admit(); len(a) != 0 {
		t.Fatalf("n2 and n3 count: %v", a)
	}
	for _, c := range []struct {
		ends string
		want int
		why  string
	}{
		{"n1", 1, "n2 is forgiven now, n3 counts: one place"},
		{"n2", 0, "who was forgiven frees nothing when it ends"},
		{"n3", 1, "a place"},
	} {
		if err := q.Release(0, Holder{c.ends, "g"}, 7); err != nil {
			t.Fatal(err)
		}
		a := q.Admit()
		if len(a) != c.want || c.want == 1 && a[0].Claims[0].Revision != 7 {
			t.Errorf("%s ended: %v, want %d: %s", c.ends, a, c.want, c.why)
		}
	}
	if q.Len() != 0 {
		t.Errorf("%d wait", q.Len())
	}
}

// TestQueueAllowanceSkips: an allowance that moves passes over a lease that has ended since, whose
// number in the ledger a new lease has by then.
func TestQueueAllowanceSkips(t *testing.T) {
	s := newScene(stuck(1, Quarantine))
	for i, resource := range []string{"n1", "n2", "n3"} {
		s.lease("nodes", resource, "g", time.Duration(5-i)*time.Hour).running(resource, "g")
	}
	var waiting []Candidate
	for i, resource := range []string{"n4", "n5", "n6"} {
		waiting = append(waiting, Candidate{Resource: resource, Group: "g", Rank: i, Needs: []int32{0}})
	}
	runQueue(t, s, []queueStep{
		{add: waiting, why: "n1 is forgiven, n2 and n3 count"},
		{release: []string{"nodes n2"}, want: []string{"n4"}, why: "n2 counted"},
		{release: []string{"nodes n1"}, want: []string{"n5"}, why: "n3 is forgiven now, and n4 counts"},
		{release: []string{"nodes n3"}, why: "who was forgiven frees nothing when it ends"},
		{release: []string{"nodes n4"}, want: []string{"n6"}, why: "n4 counted"},
	})
}

// TestQueueNewHead: a candidate that comes before the one for whom a place was reserved takes it,
// although all who need the same were refused.
func TestQueueNewHead(t *testing.T) {
	s := newScene(Pool{Key: "zone", Limit: Count(1), Total: 9}, Pool{Key: "rack", Limit: Count(1), Total: 9, Strict: true}).lease("rack", "r", "x", 0)
	q, err := NewQueue(s.Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		candidate Candidate
		want      int
		why       string
	}{
		{Candidate{"n1", "g", 1, []int32{0, 1}, false}, 0, "the rack is full; the zone's place is reserved"},
		{Candidate{"n2", "g", 2, []int32{0}, false}, 0, "comes after the reservation"},
		{Candidate{"n0", "g", 0, []int32{0}, false}, 1, "comes before it"},
	} {
		if _, err := q.Add(c.candidate); err != nil {
			t.Fatal(err)
		}
		if got := q.Admit(); len(got) != c.want {
			t.Errorf("%s: %v: %s", c.candidate.Resource, got, c.why)
		}
	}
}

// queueStep is what happens to a queue, and who starts then.
type queueStep struct {
	add     []Candidate
	remove  []string // resources, each of one candidate
	release []string // "pool resource", of group g
	want    []string // resources that start
	why     string
}

func runQueue(t *testing.T, s *scene, steps []queueStep) {
	q, err := NewQueue(s.Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int32]string{}
	for _, step := range steps {
		for _, c := range step.add {
			id, err := q.Add(c)
			if err != nil {
				t.Fatal(err)
			}
			names[id] = c.Resource
		}
		for id, resource := range names {
			if slices.Contains(step.remove, resource) {
				if err := q.Remove(id); err != nil {
					t.Fatal(err)
				}
				delete(names, id)
			}
		}
		for _, r := range step.release {
			key, resource, _ := strings.Cut(r, " ")
			pool := slices.IndexFunc(s.Pools, func(p Pool) bool { return p.Key == key })
			if err := q.Release(int32(pool), Holder{resource, "g"}, 1); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, a := range q.Admit() {
			got = append(got, names[a.Candidate])
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.why, diff)
		}
	}
}

// families are two rules with a pool per zone, of which one may be active, and a pool beside them.
func families() *scene {
	zone := func(key, family string) Pool {
		return Pool{Key: key, Limit: Count(2), Total: 3, Family: family, MaxActiveKeys: 1}
	}
	return newScene(zone("a", "F"), zone("b", "F"), zone("c", "G"), zone("d", "G"), zone("e", "G"), Pool{Key: "p", Limit: Count(1), Total: 9}).
		lease("a", "a1", "g", 0).lease("c", "c1", "g", 0).lease("p", "p1", "g", 0)
}

func TestQueueKeys(t *testing.T) {
	ask := func(resource string, rank int, needs ...int32) Candidate {
		return Candidate{resource, "g", rank, needs, false}
	}
	waiting := queueStep{
		add: []Candidate{ask("b1", 1, 1), ask("d1", 2, 3), ask("e1", 3, 4), ask("p2", 9, 5)},
		why: "a zone of each family is active, the pool is full",
	}
	runQueue(t, families(), []queueStep{waiting,
		{release: []string{"a a1"}, want: []string{"b1"}, why: "the first family has its key back"},
		{release: []string{"c c1"}, want: []string{"d1"}, why: "the second family too, for one zone"},
		{release: []string{"d d1"}, want: []string{"e1"}, why: "the next zone"},
	})
	runQueue(t, families(), []queueStep{waiting,
		{release: []string{"c c1", "p p1"}, want: []string{"d1", "p2"}, why: "that e1 finds no key is nothing to p2"},
	})
	runQueue(t, families(), []queueStep{
		{add: []Candidate{ask("ab1", 1, 0, 1), ask("b1", 2, 1)}, why: "a zone is active"},
		{release: []string{"a a1"}, want: []string{"b1"}, why: "one key is not enough for the first, who needs two zones, and enough for the second"},
	})
	runQueue(t, families(), []queueStep{waiting,
		{add: []Candidate{ask("p1", 8, 5, 3)}, want: []string{"p1", "d1"}, why: "the holder makes its zone active without asking for a key, and leaves one place"},
	})
	strict := newScene(Pool{Key: "a", Limit: Count(1), Total: 3, Strict: true, Family: "F", MaxActiveKeys: 1}, Pool{Key: "b", Limit: Count(3), Total: 3, Family: "F", MaxActiveKeys: 1}, Pool{Key: "p", Limit: Count(9), Total: 9}).
		lease("a", "a1", "g", 0)
	runQueue(t, strict, []queueStep{
		{add: []Candidate{ask("ab1", 1, 0, 1), ask("b1", 2, 1)}, why: "a zone is active"},
		{release: []string{"a a1"}, why: "one key is not enough for the first, for whom it is reserved with the place in a"},
		{add: []Candidate{ask("b2", 0, 1, 2)}, want: []string{"b2", "b1"}, why: "the key goes to one who comes before the reservation, and for b1, in another line, the zone is active too"},
	})
	begin := func(resource string, rank int, needs ...int32) Candidate {
		return Candidate{resource, "g", rank, needs, true}
	}
	claimed := zones(1).lease("a", "a1", "g", 0).lease("b", "b1", "g", 0).keyless("a", "a1").keyless("b", "b1")
	runQueue(t, claimed, []queueStep{
		{add: []Candidate{begin("a1", 2, 0), begin("b1", 1, 1), ask("b2", 3, 1)}, want: []string{"b1"}, why: "two claims, and one key"},
		{release: []string{"b b1"}, want: []string{"a1"}, why: "it goes to the other one"},
		{release: []string{"a a1"}, want: []string{"b2"}, why: "and is there for everybody"},
	})
	zone := func(key string, limit int) Pool {
		return Pool{Key: key, Limit: Count(limit), Total: 3, Family: "F", MaxActiveKeys: 1, StuckAfter: time.Hour, OnStuck: Quarantine, QuarantineAllowance: Count(1)}
	}
	for _, full := range []int{0, 1} {
		s := newScene(zone("a", full), zone("b", 1)).lease("a", "a1", "x", 2*time.Hour).running("a1", "x").lease("b", "b1", "g", 0)
		runQueue(t, s, []queueStep{
			{add: []Candidate{ask("a1", 2, 0)}, why: "it is down already, and its lease is forgiven: it needs no place but the key, which the other zone has"},
			{add: []Candidate{ask("b1", 1, 0, 1)}, want: []string{"b1", "a1"}, why: "the holder makes the zone active; that it is full by that, or paused, is nothing to who is down there"},
		})
	}
}

// TestQueueOwnReservation: a place is reserved for a resource, and another candidate of it starts
// there, although it comes after one of another resource that needs the same and waits.
func TestQueueOwnReservation(t *testing.T) {
	s := newScene(Pool{Key: "zone", Limit: Count(1), Total: 9}, Pool{Key: "rack", Limit: Count(1), Total: 9, Strict: true}).lease("rack", "r", "g", 0)
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"n1", "g", 1, []int32{0, 1}, false}, {"n2", "g", 2, []int32{0}, false}}, why: "the rack is full, and the zone's place is reserved for n1"},
		{add: []Candidate{{"n1", "h", 3, []int32{0}, false}}, want: []string{"n1"}, why: "n1 by another group, behind n2, which is still refused"},
		{release: []string{"rack r"}, want: []string{"n1"}, why: "the first one needs no more than the rack now"},
	})
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"n1", "h", 5, []int32{0}, false}, {"n1", "g", 1, []int32{0, 1}, false}, {"n1", "i", 4, []int32{0}, false}, {"n2", "g", 2, []int32{0}, false}},
			want: []string{"n1", "n1"}, why: "both others of n1, although the first and the last that came need the same"},
	})
	two := newScene(Pool{Key: "zone", Limit: Count(2), Total: 9}, Pool{Key: "rack", Limit: Count(1), Total: 9, Strict: true}).lease("rack", "r", "g", 0)
	runQueue(t, two, []queueStep{
		{add: []Candidate{{"n1", "g", 1, []int32{0, 1}, false}, {"n1", "h", 2, []int32{0}, false}, {"n2", "g", 3, []int32{0}, false}}, want: []string{"n1", "n2"}, why: "who starts in the place that was reserved for it takes no other one"},
	})
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"n1", "g", 1, []int32{0, 1}, false}, {"n2", "g", 2, []int32{0}, false}}, why: "the place is reserved for n1"},
		{remove: []string{"n1"}, want: []string{"n2"}, why: "nobody wants it any more"},
	})
}

// TestQueueStrictLines: who waits for the same places reserves them or not, depending on a strict
// pool in which one of them is down already.
func TestQueueStrictLines(t *testing.T) {
	pool := func(key string) Pool { return Pool{Key: key, Limit: Count(1), Total: 9, Strict: key == "rack"} }
	s := newScene(pool("zone"), pool("other"), pool("rack")).lease("zone", "z", "g", 0).lease("rack", "n2", "b", 0)
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"n1", "g", 1, []int32{0, 1}, false}, {"n2", "g", 2, []int32{0, 1, 2}, false}, {"n3", "g", 3, []int32{1}, false}}, why: "n1 and n2 wait for the zone; n2 alone reserves the other place"},
		{release: []string{"zone z"}, want: []string{"n1"}, why: "the first of them takes both places"},
	})
	two := newScene(Pool{Key: "zone", Limit: Count(2), Total: 9}, Pool{Key: "rack", Limit: Count(1), Total: 9, Strict: true}).lease("rack", "r", "g", 0)
	runQueue(t, two, []queueStep{
		{add: []Candidate{{"n1", "g", 1, []int32{0, 1}, false}, {"n2", "g", 2, []int32{0, 1}, false}, {"n3", "g", 3, []int32{0}, false}},
			why: "who waits in one line reserves a place each, as long as there are any"},
	})
}

// TestQueueHeads: lines that wait at one pool go on in the order of their heads, also after one of
// these was taken back.
func TestQueueHeads(t *testing.T) {
	pool := func(key string, limit int) Pool { return Pool{Key: key, Limit: Count(limit), Total: 9} }
	s := newScene(pool("zone", 1), pool("p", 9), pool("q", 9)).lease("zone", "z", "g", 0)
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"n5", "g", 5, []int32{0, 1}, false}, {"n9", "g", 9, []int32{0, 1}, false}, {"n6", "g", 6, []int32{0, 2}, false}}, why: "two lines wait at the zone"},
		{remove: []string{"n5"}, release: []string{"zone z"}, add: []Candidate{{"n7", "g", 7, []int32{0}, false}}, want: []string{"n6"}, why: "n9 is the head of the first line now, and comes last"},
		{release: []string{"zone n6"}, want: []string{"n7"}, why: "the next"},
		{release: []string{"zone n7"}, want: []string{"n9"}, why: "the last"},
	})
}

// TestQueueIDs: ids are given again, so that a queue through which many go takes no more room than
// those that wait at one time.
func TestQueueIDs(t *testing.T) {
	q, err := NewQueue(newScene(ten(Count(1))).Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		id, err := q.Add(Candidate{Resource: fmt.Sprint("n", i), Group: "g", Needs: []int32{0}})
		if err != nil || id != 0 {
			t.Fatalf("%d: id %d, %v", i, id, err)
		}
		if err := q.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
}

// TestQueueAllowanceTakesAKey: the allowance that moves to a lease which counted makes its zone
// quiet, and who would have started there for nothing needs the key.
func TestQueueAllowanceTakesAKey(t *testing.T) {
	zone := func(key string) Pool {
		return Pool{Key: key, Limit: Count(2), Total: 3, Family: "F", MaxActiveKeys: 1, QuarantineAllowance: Count(1)}
	}
	s := newScene(zone("a"), zone("b")).lease("b", "n1", "g", 2*time.Hour).lease("b", "n2", "g", time.Hour).quarantined("b", "n1", "n2")
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"n2", "fix", 5, []int32{1}, false}, {"a1", "g", 1, []int32{0}, false}}, release: []string{"b n1"}, want: []string{"a1"}, why: "n2 is covered now, and a1 comes first"},
		{release: []string{"a a1"}, want: []string{"n2"}, why: "the key is free"},
	})
}

// TestQueueGetsAKeyBack: the lease ends under which somebody was at work, and a claim on the same
// resource stays: no place becomes free, but the key does.
func TestQueueGetsAKeyBack(t *testing.T) {
	for _, rate := range []Rate{{}, {Count(1), 3600}} {
		for i, zone := range []string{"a", "b"} {
			s := zones(1).lease(zone, "n1", "g", 0).lease(zone, "n1", "h", 0)
			s.Pools[i].Keyless, s.Pools[i].Rate = []Holder{{"n1", "h"}}, rate
			runQueue(t, s, []queueStep{
				{add: []Candidate{{"c1", "g", 1, []int32{2}, false}}, why: "another zone is active"},
				{release: []string{zone + " n1"}, want: []string{"c1"}, why: "zone " + zone + " is not, any more, however many may begin there: " + rate.String()},
			})
		}
	}
}

// TestQueueKeysOfOthers: who is down already and needs a key alone holds up nobody who is down
// already and needs the key of another rule.
func TestQueueKeysOfOthers(t *testing.T) {
	zone := func(key, family string) Pool {
		return Pool{Key: key, Limit: Count(1), Total: 3, Family: family, MaxActiveKeys: 1, QuarantineAllowance: Count(1)}
	}
	s := newScene(zone("a", "F"), zone("b", "F"), zone("c", "G")).
		lease("a", "a1", "g", 0).lease("b", "b1", "g", 0).lease("c", "c1", "g", 0).quarantined("b", "b1").quarantined("c", "c1")
	runQueue(t, s, []queueStep{
		{add: []Candidate{{"b1", "fix", 1, []int32{1}, false}, {"c1", "fix", 2, []int32{2}, false}}, want: []string{"c1"}, why: "a zone of the first rule is active, none of the second"},
		{release: []string{"a a1"}, want: []string{"b1"}, why: "the first rule has its key back"},
	})
}

// TestQueueOfManyPools: who waits for one pool holds up nobody who waits for another, whatever
// their numbers have in common.
func TestQueueOfManyPools(t *testing.T) {
	for shift := 8; shift <= 16; shift += 8 {
		s := Snapshot{Pools: make([]Pool, 1<<shift+1)}
		for i := range s.Pools {
			s.Pools[i] = Pool{Key: fmt.Sprintf("%06d", i), Limit: Count(1), Total: 9}
		}
		s.Pools[0].Unavailable = []string{"n9"}
		q, err := NewQueue(s, epoch)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []Candidate{{"n1", "g", 1, []int32{0}, false}, {"n2", "g", 2, []int32{1 << shift}, false}} {
			if id, err := q.Add(c); err != nil || int(id) != i {
				t.Fatal(id, err)
			}
		}
		if got := q.Admit(); len(got) != 1 || got[0].Candidate != 1 {
			t.Errorf("pools 0 and %d: starts %+v", 1<<shift, got)
		}
	}
}

// TestQueueLooksWhereAPlaceIsFree: an event does not even pass over the lines that wait at other
// pools, of which there may be as many as resources.
func TestQueueLooksWhereAPlaceIsFree(t *testing.T) {
	var s Snapshot
	for i := range 5 {
		s.Pools = append(s.Pools, Pool{Key: fmt.Sprint("zone-", i), Limit: Count(1), Total: 9})
	}
	q, err := NewQueue(s, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 15 {
		if _, err := q.Add(Candidate{Resource: fmt.Sprint("n", i), Group: "g", Rank: i, Needs: []int32{int32(i % 5)}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.Admit(); len(got) != 5 {
		t.Fatalf("%d start, want one per pool", len(got))
	}
	const nowhere = -7 // taking a line out of this heap, or moving it there, panics
	for pool := 1; pool < 5; pool++ {
		if len(q.spots[pool]) != 1 {
			t.Fatalf("%d lines wait at pool %d", len(q.spots[pool]), pool)
		}
		q.spots[pool][0].spot, q.spots[pool][0].at = nowhere, nowhere
	}
	if err := q.Release(0, Holder{"n0", "g"}, 1); err != nil {
		t.Fatal(err)
	}
	if got := q.Admit(); len(got) != 1 || got[0].Candidate != 5 {
		t.Errorf("starts %+v, want the next of the first pool", got)
	}
	if len(q.Admit()) != 0 {
		t.Error("a start without a place")
	}
}

// TestQueueForgetsLines: when nobody waits any more, by admission or removal, no line is left.
func TestQueueForgetsLines(t *testing.T) {
	s := newScene(ten(Count(1)), Pool{Key: "zone", Limit: Count(1), Total: 3, Strict: true})
	q, err := NewQueue(s.Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	for i, needs := range [][]int32{{0}, {0}, {1}, {0, 1}, {1}, {}} {
		if _, err := q.Add(Candidate{Resource: fmt.Sprint("n", i), Group: "g", Rank: i, Needs: needs}); err != nil {
			t.Fatal(err)
		}
	}
	if got := q.Admit(); len(got) != 3 || len(q.lines) != 3 {
		t.Errorf("%d start, %d lines are left", len(got), len(q.lines))
	}
	for id := range int32(6) {
		q.Remove(id) // of those who started it is an error
	}
	waiting := 0
	for i := range q.spots {
		waiting += len(q.spots[i])
	}
	if q.Len() != 0 || len(q.lines)+len(q.live)+len(q.same)+len(q.empty)+waiting != 0 {
		t.Errorf("%d wait, %d lines, %d live, %d resources, %d empty, %d at pools", q.Len(), len(q.lines), len(q.live), len(q.same), len(q.empty), waiting)
	}
}

func TestQueueRefuses(t *testing.T) {
	s := newScene(ten(Count(1))).lease("nodes", "n1", "g", 0)
	q, err := NewQueue(s.Snapshot, epoch)
	if err != nil {
		t.Fatal(err)
	}
	fault := func(err error) bool {
		var f *FieldError
		return errors.As(err, &f) && f.Path != "" && f.Code != "" && f.Hint != ""
	}
	for _, c := range []Candidate{{}, {Resource: "n", Needs: []int32{1}}, {Resource: "n", Needs: []int32{-1}}, {Resource: "n", Needs: []int32{0, 0}}} {
		if _, err := q.Add(c); !fault(err) {
			t.Errorf("%+v was added: %v", c, err)
		}
	}
	for _, h := range []Holder{{"n1", "h"}, {"n2", "g"}} {
		if err := q.Release(0, h, 1); !errors.Is(err, ErrFenced) {
			t.Errorf("%+v was released: %v", h, err)
		}
	}
	for _, pool := range []int32{1, -1} {
		if err := q.Release(pool, Holder{"n1", "g"}, 1); !fault(err) {
			t.Errorf("release in pool %d: %v", pool, err)
		}
		if err := q.Stored(pool, 1); !fault(err) {
			t.Errorf("stored pool %d: %v", pool, err)
		}
	}
	if !fault(q.Remove(0)) || !fault(q.Remove(-1)) || q.Len() != 0 {
		t.Error("what is not there was changed")
	}
	id, err := q.Add(Candidate{Resource: "n2", Group: "g", Needs: []int32{0}})
	if err != nil {
		t.Fatal(err)
	}
	if q.Len() != 1 || q.Remove(id+1) == nil || q.Len() != 1 {
		t.Error("one waits, and nobody with another id")
	}
	if err := q.Remove(id); err != nil {
		t.Fatal(err)
	}
	if q.Len() != 0 || q.Remove(id) == nil {
		t.Error("a removed candidate waits")
	}
	if err := q.Stored(0, 4); err != nil {
		t.Fatal(err)
	}
	if err := q.Release(0, Holder{"n1", "g"}, 5); err != nil {
		t.Fatal(err)
	}
	if q.Release(0, Holder{"n1", "g"}, 6) == nil {
		t.Error("released twice")
	}
}
