package concurrency

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// storeModel is a store of pool records with compare and swap, several planners with snapshots of
// any age, and resources that really are disrupted from dispatch to end.
type storeModel struct {
	t        *rapid.T
	now      time.Time
	pools    []Pool // configuration; the records are the stored ones
	planners [3]storePlanner
	ceiling  []int               // how many counted when the limit last shrank, while they still do
	issued   []map[uint64]Holder // every token ever issued, per pool
	gone     []map[uint64]Holder // those given up
	tally    testkit.Tally
}

type storePlanner struct {
	snapshot   Snapshot
	candidates []Candidate
	plan       Result
}

func (m *storeModel) needs(resource int) []int32 {
	needs := []int32{0}
	if resource%2 == 1 {
		needs = append(needs, 1)
	}
	if resource%3 == 1 {
		needs = append(needs, 2)
	}
	return needs
}

func (m *storeModel) planner() *storePlanner {
	return &m.planners[rapid.IntRange(0, len(m.planners)-1).Draw(m.t, "planner")]
}

// counting is how many members have a lease that counts. Who is down without one is the host's
// observation, which no store protects.
func (m *storeModel) counting(pool int) int {
	p := m.pools[pool]
	p.Unavailable = nil
	r, err := Plan(Snapshot{Pools: []Pool{p}, Running: storeHolders}, nil, m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	return r.Pools[0].Active
}

// storeHolders are all that there can be: each of them is at work whenever it holds something.
var storeHolders = func() (list []Holder) {
	for i := range 6 {
		list = append(list, Holder{fmt.Sprint("n", i), "a"}, Holder{fmt.Sprint("n", i), "b"})
	}
	return list
}()

// save is the store's compare and swap.
func (m *storeModel) save(pool int, r Record) bool {
	if m.pools[pool].Record.Revision != r.Revision {
		m.tally["conflict"]++
		return false
	}
	for _, l := range r.Leases {
		old, known := m.issued[pool][l.Token]
		if known && old != l.Holder {
			m.t.Fatalf("I9: token %d of %v was issued to %v", l.Token, l.Holder, old)
		}
		if _, ok := m.gone[pool][l.Token]; ok {
			m.t.Fatalf("I9: token %d came back", l.Token)
		}
		if !known {
			for token := range m.issued[pool] {
				if token >= l.Token && m.pools[pool].Record.NextToken > l.Token {
					m.t.Fatalf("I9: token %d issued after %d", l.Token, token)
				}
			}
		}
	}
	for _, l := range r.Leases {
		m.issued[pool][l.Token] = l.Holder
	}
	for _, l := range m.pools[pool].Record.Leases {
		if kept, ok := r.Lease(l.Holder); !ok || kept.Token != l.Token {
			m.gone[pool][l.Token] = l.Holder
		}
	}
	r.Revision++
	m.pools[pool].Record = r
	return true
}

// read takes a snapshot and plans on it; it may be carried out much later. Of a pool whose record
// it does not find it knows nothing but the key.
func (m *storeModel) read(*rapid.T) {
	p := m.planner()
	p.snapshot = Snapshot{Pools: slices.Clone(m.pools), Running: storeHolders}
	if lost := rapid.IntRange(0, 19).Draw(m.t, "lost"); lost < 2 {
		p.snapshot.Pools[lost] = Pool{Key: m.pools[lost].Key, Unknown: true}
	}
	p.candidates = nil
	for i := range 6 {
		if rapid.Bool().Draw(m.t, "asks") {
			c := Candidate{Resource: fmt.Sprint("n", i), Group: rapid.SampledFrom([]string{"a", "a", "b"}).Draw(m.t, "group"), Rank: i, Needs: m.needs(i), Begins: rapid.IntRange(0, 3).Draw(m.t, "begins") == 3}
			if rapid.IntRange(0, 9).Draw(m.t, "needs nothing") == 9 {
				c.Needs = nil
			}
			p.candidates = append(p.candidates, c)
		}
	}
	var err error
	if p.plan, err = Plan(p.snapshot, p.candidates, m.now); err != nil {
		m.t.Fatal(err)
	}
	for _, a := range p.plan.Admitted {
		m.tally[string(a.Reason)]++
	}
	for _, r := range p.plan.Refused {
		for _, refusal := range p.plan.Refusals[r.Why] {
			m.tally[string(refusal.Reason)]++
		}
	}
}

// quarantine stores what a plan says of the leases that are stuck. It changes nothing of what
// counts.
func (m *storeModel) quarantine(*rapid.T) {
	plan, err := Plan(Snapshot{Pools: m.pools, Running: storeHolders}, nil, m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, stuck := range plan.Stuck {
		m.tally["stuck"]++
		if p := &m.pools[int(stuck.Pool)]; p.OnStuck == Quarantine && stuck.Lease.State == Active {
			before := m.counting(int(stuck.Pool))
			r, err := p.Record.Quarantine(stuck.Lease.Holder, stuck.Lease.Token, "stuck")
			if err != nil {
				m.t.Fatal(err)
			}
			m.save(int(stuck.Pool), r)
			if n := m.counting(int(stuck.Pool)); n != before {
				m.t.Fatalf("%d count in %s, and %d once it is stored that %v is quarantined", before, p.Key, n, stuck.Lease.Holder)
			}
			m.tally["quarantined"]++
		}
	}
}

// progress renews a lease. If it was forgiven it counts again, whatever the limit.
func (m *storeModel) progress(*rapid.T) {
	pool := rapid.IntRange(0, len(m.pools)-1).Draw(m.t, "pool")
	leases := m.pools[pool].Record.Leases
	if len(leases) == 0 {
		return
	}
	l, before := rapid.SampledFrom(leases).Draw(m.t, "lease"), m.counting(pool)
	r, err := m.pools[pool].Record.Renew(l.Holder, l.Token, m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	m.save(pool, r)
	n := m.counting(pool)
	if n > before+1 {
		m.t.Fatalf("progress of %v makes %d of %d count", l.Holder, n, before)
	}
	if l.State == Quarantined {
		m.tally["recovered"]++
	}
	m.ceiling[pool] = max(m.ceiling[pool], n)
}

// wait lets leases become stuck. Time alone makes nobody count but where the allowance goes from
// one lease to an older one, of a resource that another group holds as well: then the first counts
// again, and so does the resource.
func (m *storeModel) wait(*rapid.T) {
	before := make([]int, len(m.pools))
	for i := range m.pools {
		before[i] = m.counting(i)
	}
	m.now = m.now.Add(time.Minute)
	for i, p := range m.pools {
		twice := false
		for k, l := range p.Record.Leases {
			twice = twice || k > 0 && l.Resource == p.Record.Leases[k-1].Resource
		}
		n := m.counting(i)
		if n > before[i] && !(twice && n <= before[i]+p.QuarantineAllowance.Value()) {
			m.t.Fatalf("%d count in %s, and %d after a while", before[i], p.Key, n)
		}
		m.ceiling[i] = max(m.ceiling[i], n)
	}
}

// breaks makes a resource unavailable, or available again, wherever it is a member.
func (m *storeModel) breaks(*rapid.T) {
	i := rapid.IntRange(0, 5).Draw(m.t, "breaks")
	id := fmt.Sprint("n", i)
	for _, pool := range m.needs(i) {
		p := &m.pools[pool]
		if down := slices.DeleteFunc(slices.Clone(p.Unavailable), func(x string) bool { return x == id }); len(down) < len(p.Unavailable) {
			p.Unavailable = down
		} else {
			p.Unavailable = append(down, id)
		}
	}
}

// act carries out any part of a plan: claims record by record, and may crash in between.
func (m *storeModel) act(*rapid.T) {
	p := m.planner()
	some := subset(m.t, p.plan.Admitted)
	records, err := Apply(p.snapshot, p.candidates, some, m.now)
	if err != nil {
		m.t.Fatal(err)
	}
	p.plan.Admitted = nil
	for _, r := range records {
		if rapid.IntRange(0, 9).Draw(m.t, "crash") == 9 {
			m.tally["crash"]++
			return
		}
		pool := slices.IndexFunc(m.pools, func(p Pool) bool { return p.Key == r.Key })
		before, limit := m.counting(pool), p.snapshot.Pools[pool].max()
		if !m.save(pool, r) {
			return // what was claimed before stays: it over-counts, and is found again
		}
		m.alone(p, pool, r, some)
		held := 0 // came in above the limit, as they may: holders that are at work, and who is down there already
		reference := newReference(p.snapshot, m.now)
		for _, a := range some {
			if c := p.candidates[a.Candidate]; !c.Begins && reference.holds(c) || reference.downIn(pool, c.Resource) {
				held++
			}
		}
		if n := m.counting(pool); n > max(before, limit)+held {
			m.t.Fatalf("I10: %d count in %s, %d before, limit %d, %d holders", n, r.Key, before, limit, held)
		} else if n > m.pools[pool].max() {
			m.ceiling[pool] = max(m.ceiling[pool], n)
			m.tally["above"]++
		}
		m.tally["claimed"]++
	}
}

// alone: who has a new lease in an exclusive pool has the resource for itself, or was at work there.
func (m *storeModel) alone(p *storePlanner, pool int, r Record, some []Admitted) {
	before := p.snapshot.Pools[pool]
	reference := newReference(p.snapshot, m.now)
	for _, l := range r.Leases {
		_, had := before.Record.Lease(l.Holder)
		holder := slices.ContainsFunc(some, func(a Admitted) bool {
			c := p.candidates[a.Candidate]
			return Holder{c.Resource, c.Group} == l.Holder && !c.Begins && reference.holds(c)
		})
		if !before.Exclusive || had || holder {
			continue
		}
		if slices.ContainsFunc(r.Leases, func(o Lease) bool { return o.Resource == l.Resource && o.Group != l.Group }) {
			m.t.Fatalf("I14: %v begins in %s beside others: %v", l.Holder, r.Key, r.Leases)
		}
		m.tally["alone"]++
	}
}

func (m *storeModel) end(*rapid.T) {
	pool := rapid.IntRange(0, len(m.pools)-1).Draw(m.t, "pool")
	leases := m.pools[pool].Record.Leases
	if len(leases) == 0 {
		return
	}
	l := rapid.SampledFrom(leases).Draw(m.t, "lease")
	r, err := m.pools[pool].Record.Release(l.Holder, l.Token)
	if err != nil {
		m.t.Fatal(err)
	}
	m.save(pool, r)
	m.tally["ended"]++
}

// ghost acts on a slot that was lost.
func (m *storeModel) ghost(*rapid.T) {
	pool := rapid.IntRange(0, len(m.pools)-1).Draw(m.t, "pool")
	record := m.pools[pool].Record
	for token, h := range m.gone[pool] {
		_, err1 := record.Release(h, token)
		_, err2 := record.Renew(h, token, epoch)
		_, err3 := record.Quarantine(h, token, "ghost")
		_, err4 := record.Claim(Claim{Revision: record.Revision, Token: token}, h, epoch)
		if !errors.Is(err1, ErrFenced) || !errors.Is(err2, ErrFenced) || !errors.Is(err3, ErrFenced) || !errors.Is(err4, ErrFenced) {
			m.t.Fatalf("I9: token %d of %v: %v, %v, %v, %v", token, h, err1, err2, err3, err4)
		}
		m.tally["fenced"]++
	}
}

func (m *storeModel) resize(*rapid.T) {
	pool := rapid.IntRange(0, len(m.pools)-1).Draw(m.t, "pool")
	m.pools[pool].Limit = Count(rapid.IntRange(0, 3).Draw(m.t, "limit"))
	m.ceiling[pool] = max(m.ceiling[pool], m.counting(pool))
	m.tally["resized"]++
}

// check: I10 as a state.
func (m *storeModel) check(t *rapid.T) {
	for i := range m.pools {
		n := m.counting(i)
		m.ceiling[i] = min(m.ceiling[i], n)
		if n > max(m.pools[i].max(), m.ceiling[i]) {
			t.Fatalf("I10: %d count in %s of at most %d", n, m.pools[i].Key, m.pools[i].max())
		}
		if err := m.pools[i].Record.Validate(); err != nil {
			t.Fatal(err)
		}
	}
}

func propStore(tally testkit.Tally) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &storeModel{t: t, now: epoch, tally: tally}
		keys := rapid.IntRange(0, 2).Draw(t, "keys")
		for i := range 3 {
			key := fmt.Sprint("p", i)
			p := Pool{
				Key: key, Limit: Count(rapid.IntRange(1, 3).Draw(t, "limit")), Total: 6, Record: NewRecord(key), Strict: rapid.Bool().Draw(t, "strict"), Exclusive: rapid.Bool().Draw(t, "exclusive"),
				StuckAfter: time.Duration(rapid.IntRange(0, 2).Draw(t, "stuck after")) * time.Minute, OnStuck: rapid.SampledFrom([]OnStuck{Hold, Quarantine}).Draw(t, "on stuck"),
				QuarantineAllowance: Count(rapid.IntRange(0, 1).Draw(t, "allowance")),
			}
			if i > 0 && keys > 0 { // a resource may need both
				p.Family, p.MaxActiveKeys = "f", keys
			}
			m.pools = append(m.pools, p)
			m.ceiling = append(m.ceiling, 0)
			m.issued = append(m.issued, map[uint64]Holder{})
			m.gone = append(m.gone, map[uint64]Holder{})
		}
		t.Repeat(map[string]func(*rapid.T){
			"read": m.read, "read again": m.read, "act": m.act, "act again": m.act, "end": m.end, "ghost": m.ghost, "resize": m.resize,
			"wait": m.wait, "quarantine": m.quarantine, "progress": m.progress, "breaks": m.breaks, "": m.check,
		})
	}
}

// TestI9I10AndI14 runs planners with snapshots of any age over one store.
func TestI9I10AndI14(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, propStore(seen), string(SlotExclusive), "alone", "claimed", "conflict", "crash", "ended", "fenced", "resized", "above", "stuck", "quarantined", "recovered",
		string(SlotFree), string(SlotHeld), string(SlotAlreadyDown), string(RuleNotApplicable), string(SlotFull), string(SlotPaused), string(SlotKeysFull), string(SlotReserved), string(PoolUnknown))
}

// TestHeldStartsChangeNoRecord: the lease of a start that holds its slot may be given back, and the
// place be another one's, before the host dispatches. Nothing is to be written, so the host asks for
// the lease once more, in one of the ways that Apply tells.
func TestHeldStartsChangeNoRecord(t *testing.T) {
	holder, other := Holder{"n1", "app"}, Holder{"n2", "app"}
	stored, err := NewRecord("p").Claim(Claim{Token: 1}, holder, epoch)
	if err != nil {
		t.Fatal(err)
	}
	stored.Revision = 1
	plan := func(h Holder) (Snapshot, []Candidate, Result) {
		s, candidates := Snapshot{Pools: []Pool{{Key: "p", Limit: Count(1), Total: 2, Record: stored}}}, []Candidate{{Resource: h.Resource, Group: h.Group, Needs: []int32{0}, Begins: true}}
		r, err := Plan(s, candidates, epoch)
		if err != nil || len(r.Admitted) != 1 {
			t.Fatalf("%v, %v", r, err)
		}
		return s, candidates, r
	}
	s, candidates, held := plan(holder)
	records, err := Apply(s, candidates, held.Admitted, epoch)
	if err != nil || len(records) != 0 || held.Admitted[0].Reason != SlotHeld {
		t.Fatalf("%v: %v, %v", held.Admitted, records, err)
	}
	if stored, err = stored.Release(holder, 1); err != nil {
		t.Fatal(err)
	}
	stored.Revision++
	again, waiting, free := plan(other)
	if records, err = Apply(again, waiting, free.Admitted, epoch); err != nil || len(records) != 1 {
		t.Fatalf("%v, %v", records, err)
	}
	stored = records[0]
	stored.Revision++
	if s.Pools[0].Record.Revision == stored.Revision {
		t.Error("the record as it was read would be written")
	}
	if lease, ok := stored.Lease(holder); ok {
		t.Errorf("a dispatch finds %v", lease)
	}
	if _, err := stored.Claim(held.Admitted[0].Claims[0], holder, epoch); !errors.Is(err, ErrConflict) {
		t.Errorf("claimed once more: %v", err)
	}
}

// TestRecordsOfAllPoolsAsOneValue: a store without transactions keeps the records of all pools in
// one value, under one revision. Then a claim of several pools is one write.
func TestRecordsOfAllPoolsAsOneValue(t *testing.T) {
	at := time.Date(2026, 3, 11, 9, 0, 0, 0, time.UTC)
	stored, revision := map[string]Record{}, uint64(0)
	read := func() Snapshot {
		s := Snapshot{Pools: []Pool{{Key: "a", Limit: Count(1), Total: 3}, {Key: "b", Limit: Count(1), Total: 3}}}
		for i, p := range s.Pools {
			r, ok := stored[p.Key]
			if !ok {
				r = NewRecord(p.Key)
			}
			r.Revision = revision // of the value, for a new record as well
			s.Pools[i].Record = r
		}
		return s
	}
	turn := func(s Snapshot, c Candidate) error {
		candidates := []Candidate{c}
		plan, err := Plan(s, candidates, at)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Admitted) == 0 {
			return nil
		}
		records, err := Apply(s, candidates, plan.Admitted, at)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(records, func(r Record) bool { return r.Revision != revision }) {
			return ErrConflict
		}
		for _, r := range records {
			stored[r.Key] = r
		}
		revision++
		return nil
	}
	holders := func() string {
		return fmt.Sprint(stored["a"].Leases, stored["b"].Leases)
	}
	seed, both, second := Candidate{Resource: "n0", Needs: []int32{0}}, Candidate{Resource: "n1", Needs: []int32{0, 1}}, Candidate{Resource: "n2", Needs: []int32{1}}
	if err := turn(read(), seed); err != nil || len(stored) != 1 {
		t.Fatalf("%v: %s", err, holders())
	}
	record, err := stored["a"].Release(Holder{Resource: "n0"}, 1)
	if err != nil {
		t.Fatal(err)
	}
	stored["a"] = record
	revision++ // b, which nobody has used, has no record yet
	first, other := read(), read()
	if err := turn(first, both); err != nil {
		t.Fatal(err)
	}
	if _, ok := stored["b"].Lease(Holder{Resource: "n1"}); !ok || len(stored["a"].Leases) != 1 {
		t.Errorf("%s, want n1 in both pools", holders())
	}
	before := holders()
	if err := turn(other, second); !errors.Is(err, ErrConflict) {
		t.Errorf("a plan on the value before: %v, want a conflict", err)
	}
	if err := turn(read(), second); err != nil || holders() != before {
		t.Errorf("%v: %s, want that n2 waits", err, holders())
	}
}
