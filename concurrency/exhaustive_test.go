package concurrency

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

// The small world: resources r0, r1, r2; pool a has all three, pool b has r1 and r2; limits move
// between 0 and 2; two planners plan, claim record by record, crash, come late and roll back;
// leases end, become stuck and recover.
//
// A state holds no numbers that only grow. Of a claim only this matters: is its revision the
// record's (fresh), is its token the one of the present lease (equal), or neither (dead, and dead
// it stays). So the world is finite and visited completely; every kind of step runs the real Plan,
// Claim, Release, Renew and Quarantine.
type world struct {
	leases   [2][3]uint8 // per pool and resource: lease
	limit    [2]uint8
	ceiling  [2]uint8 // how many may count although the limit is lower: it shrank since, or holders came
	planners [2]planner
}

const ( // lease
	noLease = iota
	activeLease
	quarantinedLease
)

type planner struct {
	phase    uint8
	resource uint8
	claims   [2]uint8
	max      [2]uint8 // of the plan
	holder   bool     // the plan's reason is slot_held
}

// code numbers the planner in 15 bits.
func (p planner) code() uint64 {
	code := uint64(p.phase)<<2 | uint64(p.resource)
	code = code<<6 | uint64(p.claims[0])<<3 | uint64(p.claims[1])
	code = code<<4 | uint64(p.max[0])<<2 | uint64(p.max[1])
	code <<= 1
	if p.holder {
		code |= 1
	}
	return code
}

// code numbers the state in 50 bits.
func (w *world) code() uint64 {
	code := w.planners[0].code()<<15 | w.planners[1].code()
	for p := range w.leases {
		for _, s := range w.leases[p] {
			code = code<<2 | uint64(s)
		}
		code = code<<4 | uint64(w.limit[p])<<2 | uint64(w.ceiling[p])
	}
	return code
}

const ( // phase
	idle = iota
	claiming
	rollingBack
)

const ( // claim
	notNeeded = iota
	fresh     // at the record's revision
	equal     // with the token of the present lease of the same holder
	dead      // neither: to be refused for ever
	mine      // claimed: the lease is new
	lost      // claimed, and the lease is gone since
	kept      // claimed: the lease was there
)

var members = [2][]uint8{{0, 1, 2}, {1, 2}}

const (
	worldRevision = 5
	worldNext     = 20
)

func worldHolder(r uint8) Holder { return Holder{[]string{"r0", "r1", "r2"}[r], "g"} }

// operation is one call on a record. The methods of a record are functions of their arguments, so
// that each distinct call is made once, for real, and remembered.
type operation struct {
	kind   uint8
	pool   int
	leases [3]uint8
	holder uint8
	claim  Claim // kind doClaim; for the others only the token counts
}

const ( // kind
	doClaim = iota
	doRelease
	doQuarantine
	doRenew
)

type outcome struct {
	leases   [3]uint8
	err      error
	token    uint64 // of the lease afterwards
	nextFrom uint64
	next     uint64
}

func (e *explorer) do(o operation) outcome {
	if known, ok := e.done[o]; ok {
		return known
	}
	w := world{}
	w.leases[o.pool] = o.leases
	record, h := w.record(o.pool), worldHolder(o.holder)
	var after Record
	var err error
	switch o.kind {
	case doClaim:
		after, err = record.Claim(o.claim, h, epoch)
	case doRelease:
		after, err = record.Release(h, o.claim.Token)
	case doQuarantine:
		after, err = record.Quarantine(h, o.claim.Token, "stuck")
	case doRenew:
		after, err = record.Renew(h, o.claim.Token, epoch.Add(time.Hour))
	}
	if v := after.Validate(); v != nil {
		e.t.Fatal(v)
	}
	out := outcome{err: err, nextFrom: record.NextToken, next: after.NextToken}
	for _, l := range after.Leases {
		s := uint8(activeLease)
		if l.State == Quarantined {
			s = quarantinedLease
		}
		out.leases[l.Resource[1]-'0'] = s
	}
	if l, ok := after.Lease(h); ok {
		out.token = l.Token
	}
	e.done[o] = out
	return out
}

// record is the stored record of a pool in this state, with numbers made up.
func (w *world) record(pool int) Record {
	r := Record{Schema: 1, Key: string(rune('a' + pool)), Revision: worldRevision, NextToken: worldNext, Leases: []Lease{}}
	for _, m := range members[pool] {
		if s := w.leases[pool][m]; s != noLease {
			h := worldHolder(m)
			l := Lease{Pool: r.Key, Holder: h, Token: 10 + uint64(m), State: Active, Since: epoch, ProgressAt: epoch}
			if s == quarantinedLease {
				l.State, l.Reason = Quarantined, "stuck"
			}
			r.Leases = append(r.Leases, l)
		}
	}
	return r
}

// absorb puts a changed record back into the state.
func (w *world) absorb(pool int, leases [3]uint8) {
	before := w.leases[pool]
	w.leases[pool] = leases
	for k := range w.planners {
		p := &w.planners[k]
		now, had := w.leases[pool][p.resource] != noLease, before[p.resource] != noLease
		switch c := &p.claims[pool]; {
		case p.phase == idle:
		case *c == fresh && now && !had:
			*c = equal // the other planner claimed for the same holder, with the same token of the same plan
		case *c == fresh:
			*c = dead
		case *c == equal && !now:
			*c = dead
		case (*c == mine || *c == kept) && !now:
			*c = lost
		}
	}
}

// counting is how many members count in a pool, by the letter.
func (w *world) counting(pool, allowance int) int {
	active, quarantined := 0, 0
	for _, s := range w.leases[pool] {
		switch s {
		case activeLease:
			active++
		case quarantinedLease:
			quarantined++
		}
	}
	if pool == 1 {
		allowance = 0
	}
	return active + max(0, quarantined-allowance)
}

func (w *world) holders(pool int) int {
	n := 0
	for _, s := range w.leases[pool] {
		if s != noLease {
			n++
		}
	}
	return n
}

// settle forgets a ceiling that is needed no more and orders the planners, who are alike.
func (w *world) settle(allowance int) {
	for p := range w.limit {
		if n := uint8(w.counting(p, allowance)); n < w.ceiling[p] {
			w.ceiling[p] = n
		}
		if w.ceiling[p] <= w.limit[p] {
			w.ceiling[p] = 0
		}
	}
	for k := range w.planners {
		p := &w.planners[k]
		if p.phase == idle {
			*p = planner{}
		}
		for pool, c := range p.claims {
			if c != fresh {
				p.max[pool] = 0
			}
			if p.phase == rollingBack && c != mine && c != lost {
				p.claims[pool] = notNeeded
			}
		}
		p.holder = p.holder && slices.Contains(p.claims[:], fresh)
	}
	if w.planners[0].code() > w.planners[1].code() {
		w.planners[0], w.planners[1] = w.planners[1], w.planners[0]
	}
}

// explorer visits all states from one beginning.
type explorer struct {
	t         *testing.T
	allowance int
	strict    bool
	seen      map[uint64]bool // by code
	done      map[operation]outcome
	todo      []world
	plans     map[world][]planner // what can be planned; planners and ceilings are zero in the key
	tried     map[world]bool      // leases against which every wrong token was tried
	tally     map[string]int
}

func (e *explorer) fail(w world, format string, args ...any) {
	e.t.Helper()
	e.t.Fatalf("%+v\n%s", w, fmt.Sprintf(format, args...))
}

func (e *explorer) visit(w world, event string) {
	e.tally[event]++
	w.settle(e.allowance)
	for p := range w.limit {
		// I10: nobody counts beyond the limit but those who did before it shrank, and holders. I8:
		// quarantine adds no more than its allowance.
		bound := max(w.limit[p], w.ceiling[p])
		if n := w.counting(p, e.allowance); n > int(bound) {
			e.fail(w, "I10: %d count in pool %d after %s", n, p, event)
		}
		if n := w.holders(p); n > int(bound)+e.allowance {
			e.fail(w, "I8: %d hold pool %d after %s", n, p, event)
		}
		if w.ceiling[p] > 0 {
			e.tally["above the limit"]++
		}
	}
	if code := w.code(); !e.seen[code] {
		e.seen[code] = true
		e.todo = append(e.todo, w)
	}
}

func (e *explorer) snapshot(w *world) Snapshot {
	s := Snapshot{}
	for p := range w.limit {
		s.Pools = append(s.Pools, Pool{Key: string(rune('a' + p)), Limit: Count(int(w.limit[p])), Total: len(members[p]), Record: w.record(p), Strict: e.strict})
	}
	s.Pools[0].QuarantineAllowance = Count(e.allowance)
	return s
}

var worldCandidates = []Candidate{
	{Resource: "r0", Group: "g", Rank: 0, Needs: []int32{0}},
	{Resource: "r1", Group: "g", Rank: 1, Needs: []int32{0, 1}},
	{Resource: "r2", Group: "g", Rank: 2, Needs: []int32{0, 1}},
}

// plan returns what a planner may set out to do in this state, after checking all that the plan
// promises.
func (e *explorer) plan(w world) []planner {
	key := world{leases: w.leases, limit: w.limit}
	if starts, ok := e.plans[key]; ok {
		return starts
	}
	s := e.snapshot(&w)
	starts := []planner{}
	for subset := 1; subset < 1<<len(worldCandidates); subset++ { // who wants to start is up to the world
		var candidates []Candidate
		for i, c := range worldCandidates {
			if subset&(1<<i) != 0 {
				candidates = append(candidates, c)
			}
		}
		for _, start := range e.planFor(w, s, candidates) {
			if !slices.Contains(starts, start) {
				starts = append(starts, start)
			}
		}
	}
	e.plans[key] = starts
	return starts
}

func (e *explorer) planFor(w world, s Snapshot, candidates []Candidate) (starts []planner) {
	result, err := Plan(s, candidates, epoch)
	if err != nil {
		e.fail(w, "%v", err)
	}
	e.checkPlan(w, s, candidates, result)
	for _, a := range result.Admitted {
		resource := candidates[a.Candidate].Resource[1] - '0'
		p := planner{phase: claiming, resource: resource, max: w.limit, holder: a.Reason == SlotHeld}
		adds := false
		for _, c := range a.Claims {
			p.claims[c.Pool] = fresh
			if w.leases[c.Pool][resource] != noLease {
				p.claims[c.Pool] = equal
			} else {
				adds = true
			}
		}
		if adds {
			starts = append(starts, p)
		}
		e.tally[string(a.Reason)]++
	}
	for _, r := range result.Refused {
		for _, refusal := range result.Refusals[r.Why] {
			e.tally[string(refusal.Reason)]++
		}
	}
	return starts
}

// checkPlan holds a result against I1 to I7.
func (e *explorer) checkPlan(w world, s Snapshot, candidates []Candidate, result Result) {
	e.tally["plans"]++
	admitted := map[int32]Reason{}
	var holdersAdded [2]bool
	for _, a := range result.Admitted {
		admitted[a.Candidate] = a.Reason
		for _, c := range a.Claims {
			if a.Reason != SlotFree {
				holdersAdded[c.Pool] = true
			}
		}
	}
	for p, summary := range result.Pools {
		before := w.counting(p, e.allowance)
		if summary.Active > summary.Max && summary.Active > before && !holdersAdded[p] {
			e.fail(w, "I1: %d active of %d in pool %d", summary.Active, summary.Max, p)
		}
	}
	for i, c := range candidates {
		_, a := s.Pools[0].Record.Lease(Holder{c.Resource, c.Group})
		_, b := s.Pools[1].Record.Lease(Holder{c.Resource, c.Group})
		if (a || b) && admitted[int32(i)] != SlotHeld {
			e.fail(w, "I2: holder %s is %q", c.Resource, admitted[int32(i)])
		}
	}
	for _, r := range result.Refused {
		for _, refusal := range result.Refusals[r.Why] {
			// I11: every refusal names a pool that the candidate needs, and an event.
			if !slices.Contains(candidates[r.Candidate].Needs, refusal.Pool) || refusal.Reason.On() == "" || len(result.Refusals[r.Why]) == 0 {
				e.fail(w, "I11: %+v", r)
			}
		}
	}
	want := newReference(s, epoch).plan(candidates)
	if got := say(s, candidates, result); !slices.Equal(got.admitted, want.admitted) || !slices.Equal(got.refused, want.refused) {
		e.fail(w, "I3: %v %v, want %v %v", got.admitted, got.refused, want.admitted, want.refused)
	}
	reversed := slices.Clone(candidates)
	slices.Reverse(reversed)
	other, err := Plan(s, reversed, epoch)
	if err != nil || !slices.Equal(say(s, reversed, other).admitted, want.admitted) || !slices.Equal(say(s, reversed, other).refused, want.refused) {
		e.fail(w, "I4: %v", other)
	}
	records, err := Apply(s, candidates, result.Admitted, epoch)
	if err != nil {
		e.fail(w, "%v", err)
	}
	after := Snapshot{Pools: slices.Clone(s.Pools)}
	for _, r := range records {
		r.Revision++
		after.Pools[r.Key[0]-'a'].Record = r
	}
	for p := range s.Pools {
		for _, l := range s.Pools[p].Record.Leases {
			if kept, ok := after.Pools[p].Record.Lease(l.Holder); !ok || kept != l {
				e.fail(w, "I6: %+v became %+v", l, kept)
			}
		}
	}
	again, err := Plan(after, candidates, epoch)
	if err != nil {
		e.fail(w, "%v", err)
	}
	for _, a := range again.Admitted {
		if a.Reason == SlotFree {
			e.fail(w, "I5: %+v", a)
		}
	}
}

// fenced tries everything with every token that is not the lease's.
func (e *explorer) fenced(w world) {
	key := world{leases: w.leases}
	if e.tried[key] {
		return
	}
	e.tried[key] = true
	for p := range w.leases {
		record := w.record(p)
		for _, m := range members[p] {
			h := worldHolder(m)
			held, _ := record.Lease(h)
			for _, token := range []uint64{0, 3, 10, 11, 12, 19, worldNext} {
				if held.Token == token && token != 0 {
					continue
				}
				_, err1 := record.Release(h, token)
				_, err2 := record.Renew(h, token, epoch.Add(time.Hour))
				_, err3 := record.Quarantine(h, token, "late")
				if !errors.Is(err1, ErrFenced) || !errors.Is(err2, ErrFenced) || !errors.Is(err3, ErrFenced) {
					e.fail(w, "I9: token %d of %v in pool %d: %v, %v, %v", token, h, p, err1, err2, err3)
				}
				e.tally["fenced"]++
			}
		}
	}
}

// step visits every successor.
func (e *explorer) step(w world) {
	e.fenced(w)
	for p := range w.limit {
		for _, change := range []int{-1, 1} {
			next := w
			if limit := int(w.limit[p]) + change; limit >= 0 && limit <= 2 {
				next.limit[p] = uint8(limit)
				if change < 0 {
					next.ceiling[p] = max(next.ceiling[p], uint8(w.counting(p, e.allowance)))
				}
				e.visit(next, map[int]string{-1: "shrink", 1: "grow"}[change])
			}
		}
		for _, m := range members[p] {
			e.leaseEvents(w, p, m)
		}
	}
	for k := range w.planners {
		e.plannerEvents(w, k)
	}
}

func (e *explorer) leaseEvents(w world, p int, m uint8) {
	state := w.leases[p][m]
	if state == noLease {
		return
	}
	change := func(event string, kind uint8) {
		out := e.do(operation{kind, p, w.leases[p], m, Claim{Token: 10 + uint64(m)}})
		if out.err != nil {
			e.fail(w, "%s: %v", event, out.err)
		}
		next := w
		next.absorb(p, out.leases)
		if n := uint8(next.counting(p, e.allowance)); n > next.limit[p] {
			next.ceiling[p] = max(next.ceiling[p], n) // recovered from the allowance, or the allowance went to another one
		}
		e.visit(next, event)
	}
	change("end", doRelease)
	switch {
	case p == 0 && state == activeLease:
		change("stuck", doQuarantine)
	case state == quarantinedLease:
		change("recover", doRenew)
	}
}

func (e *explorer) plannerEvents(w world, k int) {
	p := w.planners[k]
	with := func(event string, q planner) {
		next := w
		next.planners[k] = q
		e.visit(next, event)
	}
	switch p.phase {
	case idle:
		for _, start := range e.plan(w) {
			with("plan", start)
		}
		return
	case rollingBack:
		e.rollBack(w, k)
	case claiming:
		pool := slices.IndexFunc(p.claims[:], func(c uint8) bool { return c == fresh || c == equal || c == dead })
		if pool < 0 {
			with("dispatch", planner{})
			return
		}
		e.claim(w, k, pool)
	}
	with("crash", planner{})
}

func (e *explorer) claim(w world, k, pool int) {
	p := w.planners[k]
	held := w.leases[pool][p.resource] != noLease
	c := Claim{Revision: 1, Token: 3}
	switch p.claims[pool] {
	case fresh:
		c.Revision, c.Token = worldRevision, worldNext
	case equal:
		c.Token = 10 + uint64(p.resource)
	}
	out := e.do(operation{doClaim, pool, w.leases[pool], p.resource, c})
	next := w
	q := &next.planners[k]
	switch {
	case p.claims[pool] == dead:
		if held && !errors.Is(out.err, ErrFenced) || !held && !errors.Is(out.err, ErrConflict) {
			e.fail(w, "I9: a claim of the past in pool %d: %v", pool, out.err)
		}
		*q = planner{}
		if slices.Contains(p.claims[:], mine) || slices.Contains(p.claims[:], lost) {
			*q = p
			q.phase = rollingBack
		}
		e.visit(next, "late claim refused")
	case out.err != nil:
		e.fail(w, "claim: %v", out.err)
	case p.claims[pool] == equal:
		if out.leases != w.leases[pool] {
			e.fail(w, "claiming again changed the record")
		}
		q.claims[pool] = kept
		e.visit(next, "claim again")
	default:
		if out.token < out.nextFrom || out.next <= out.token {
			e.fail(w, "I9: token %d, next %d after %d", out.token, out.next, out.nextFrom)
		}
		q.claims[pool] = mine
		next.absorb(pool, out.leases)
		n := uint8(next.counting(pool, e.allowance))
		switch {
		case p.holder:
			next.ceiling[pool] = max(next.ceiling[pool], n)
			e.visit(next, "claim by holder")
		case n > p.max[pool]:
			e.fail(w, "I10: a claim makes %d of %d", n, p.max[pool])
		default:
			if n > next.limit[pool] { // planned before the limit shrank
				next.ceiling[pool] = max(next.ceiling[pool], n)
			}
			e.visit(next, "claim")
		}
	}
}

// rollBack releases what was claimed before a later record was refused.
func (e *explorer) rollBack(w world, k int) {
	next := w
	p := w.planners[k]
	next.planners[k] = planner{}
	for pool, c := range p.claims {
		switch c {
		case mine:
			out := e.do(operation{doRelease, pool, w.leases[pool], p.resource, Claim{Token: 10 + uint64(p.resource)}})
			if out.err != nil {
				e.fail(w, "roll back: %v", out.err)
			}
			next.absorb(pool, out.leases)
			if n := uint8(next.counting(pool, e.allowance)); n > next.limit[pool] {
				next.ceiling[pool] = max(next.ceiling[pool], n)
			}
		case lost:
			if out := e.do(operation{doRelease, pool, w.leases[pool], p.resource, Claim{Token: 3}}); !errors.Is(out.err, ErrFenced) {
				e.fail(w, "I9: release with the token of a lost lease: %v", out.err)
			}
			e.tally["roll back of a lost lease"]++
		}
	}
	e.visit(next, "roll back")
}

var allWorlds = flag.Bool("world.all", false, "explore the small world with every combination of its parameters")

// TestWorld visits every state of the small world: I1 to I11 hold in each.
func TestWorld(t *testing.T) {
	for _, allowance := range []int{0, 1} {
		for _, strict := range []bool{false, true} {
			if (allowance == 1) != strict && !*allWorlds {
				continue // strict changes whom one plan admits, not what may happen afterwards
			}
			if testing.Short() {
				t.Skip("the small world takes seconds")
			}
			t.Run(fmt.Sprintf("allowance=%d,strict=%v", allowance, strict), func(t *testing.T) {
				t.Parallel()
				e := &explorer{t: t, allowance: allowance, strict: strict, seen: map[uint64]bool{}, done: map[operation]outcome{}, plans: map[world][]planner{}, tried: map[world]bool{}, tally: map[string]int{}}
				e.visit(world{}, "begin")
				for len(e.todo) > 0 {
					w := e.todo[len(e.todo)-1]
					e.todo = e.todo[:len(e.todo)-1]
					e.step(w)
				}
				t.Logf("%d states, %v", len(e.seen), e.tally)
				want := []string{"plan", "claim", "claim again", "claim by holder", "late claim refused", "roll back", "dispatch", "crash", "end",
					"stuck", "recover", "shrink", "grow", "fenced", "above the limit", string(SlotFree), string(SlotHeld), string(SlotFull), string(SlotPaused)}
				if strict {
					want = append(want, string(SlotReserved))
				}
				for _, event := range want {
					if e.tally[event] == 0 {
						t.Errorf("%q never happened", event)
					}
				}
			})
		}
	}
}
