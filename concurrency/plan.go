package concurrency

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Result is what [Plan] decided. It is freshly allocated and shares nothing with the input but strings.
type Result struct {
	// Admitted may start now, in the order of admission: first those that consume nothing, then by rank. Any of them may be left
	// out.
	Admitted []Admitted
	// Refused wait, by rank.
	Refused []Refused
	// Pools describes the snapshot's pools, at the same indices.
	Pools []Summary
	// Stuck are the leases without progress for too long, by pool key, resource and group. Where the pool says Quarantine
	// they were treated as quarantined; the host stores that with [Record.Quarantine].
	Stuck []Stuck
	// Next is the earliest instant after now at which another lease becomes stuck. Until then, and without a new observation,
	// the result stays the same. Zero: it never changes by itself.
	Next time.Time
}

// Admitted is a candidate that may start.
type Admitted struct {
	Candidate int // index of the candidate
	Reason    Reason
	// Claims are the leases the start needs, one per known pool, in ascending order of the pools' keys. They are claimed before anything
	// is dispatched, see [Apply].
	Claims []Claim
}

// Claim is the right to one place in a pool, valid at one revision of its record.
type Claim struct {
	Pool     int32  // index of the snapshot's pool
	Revision uint64 // of the record that the decision is based on
	Token    uint64 // of the present lease for a holder that has one, else a new one
}

// Refused is a candidate that waits.
type Refused struct {
	Candidate int // index of the candidate
	// Refusals are all pools that refuse it, in ascending order of their keys. Candidates that wait for the same reasons may share one
	// slice: it is to be read only.
	Refusals []Refusal
}

// Refusal is a pool's no.
type Refusal struct {
	Pool   int32 // index of the snapshot's pool
	Reason Reason
}

// Plan decides in one batch which candidates may start now.
//
// The order is ascending (rank, resource, group), whatever the order of the input; candidates that are in order already are
// not sorted again. First, on the leases as they were read, every candidate is admitted that consumes nothing: holders of a
// lease in any pool, who are never refused, resources that are active or unavailable in every pool they need, and those that
// need none. Then, in order, a candidate is admitted iff every pool in which its resource is not active yet has a place left, and
// it counts at once: a further start of the same resource consumes nothing where the first one did. Admission is all or
// nothing; a refused candidate takes nothing, unless a pool it needs is strict: then it reserves the place it would have taken
// in each pool, except while one of the refusing pools is paused or unknown.
//
// Only who held before the batch is a holder. A start is therefore safe to carry out without any other start of the plan.
//
// A refusal is not an error. The error reports what is contradictory in the input, all of it: then nothing is decided.
// The input is neither modified nor kept.
//
// The cost is linear in candidates × needed pools plus the leases and unavailable resources, with a number of allocations that
// does not depend on the number of candidates.
func Plan(snapshot Snapshot, candidates []Candidate, now time.Time) (Result, error) {
	v := survey{pools: len(snapshot.Pools), first: make([]int, len(snapshot.Pools))}
	if err := errors.Join(snapshot.validate(), v.look(candidates)); err != nil {
		return Result{}, err
	}
	l := newLedger(snapshot, v.first, now)
	b := newBatch(l, candidates)
	b.exempt = v.exempt
	if !v.sorted {
		b.order = sortedOrder(l, candidates)
	}
	b.admitFree()
	b.admitInOrder()
	return Result{Admitted: b.admitted, Refused: b.refused, Pools: l.summaries(), Stuck: l.stuck, Next: l.next}, nil
}

// maxFaults bounds the candidates that are reported: a caller with a wrong index usually has it everywhere.
const maxFaults = 10

// survey is what one pass over the candidates tells. The pass is the only one but for the admission itself: a million of them do not
// fit into a cache.
type survey struct {
	pools  int
	first  []int // per pool: how many candidates need it first
	exempt int   // how many need none
	sorted bool  // each candidate comes after the one before, or is the same
}

// look fills the rest of the survey and reports all faults.
func (v *survey) look(candidates []Candidate) error {
	var faults []error
	v.sorted = true
	for i := range candidates {
		c := &candidates[i]
		if c.Resource == "" || !v.needs(c.Needs) {
			if faults = append(faults, v.fault(i, c)); len(faults) == maxFaults {
				break
			}
			continue
		}
		if len(c.Needs) == 0 {
			v.exempt++
		} else {
			v.first[c.Needs[0]]++
		}
		if i > 0 && v.sorted {
			before := &candidates[i-1]
			v.sorted = before.Rank < c.Rank || before.Rank == c.Rank &&
				(before.Resource < c.Resource || before.Resource == c.Resource &&
					(before.Group < c.Group || before.Group == c.Group && slices.Equal(before.Needs, c.Needs)))
		}
	}
	return errors.Join(faults...)
}

// needs reports whether the indices are those of pools, each once.
func (v *survey) needs(needs []int32) bool {
	for k, p := range needs {
		if uint(p) >= uint(v.pools) || k > 0 && needs[k-1] >= p && slices.Contains(needs[:k], p) {
			return false
		}
	}
	return true
}

// fault says what is wrong with a candidate.
func (v *survey) fault(i int, c *Candidate) error {
	var faults []error
	for k, p := range c.Needs {
		switch {
		case uint(p) >= uint(v.pools):
			faults = append(faults, fmt.Errorf("concurrency: candidates[%d].needs[%d]: %d: must be an index of the %d pools; a pool without record is one with Unknown set", i, k, p, v.pools))
		case slices.Contains(c.Needs[:k], p):
			faults = append(faults, fmt.Errorf("concurrency: candidates[%d].needs[%d]: %d: is listed twice", i, k, p))
		}
	}
	if c.Resource == "" {
		faults = append(faults, fmt.Errorf("concurrency: candidates[%d].resource: is required", i))
	}
	return errors.Join(faults...)
}

// sortedOrder returns the order of admission as indices.
func sortedOrder(l *ledger, candidates []Candidate) []int32 {
	order := make([]int32, len(candidates))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return compareCandidates(l, &candidates[a], &candidates[b]) })
	return order
}

// compareCandidates is the order of admission.
func compareCandidates(l *ledger, a, b *Candidate) int {
	if c := cmp.Compare(a.Rank, b.Rank); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Resource, b.Resource); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Group, b.Group); c != 0 {
		return c
	}
	return l.compareNeeds(a.Needs, b.Needs)
}

// batch is one run over the candidates.
type batch struct {
	*ledger
	candidates []Candidate
	order      []int32 // nil: as they are
	free       []free  // who consumes nothing, ascending

	starts   starts // of resources without places, into admitted
	admitted []Admitted
	refused  []Refused
	claims   []Claim   // slab of admitted
	refusals []Refusal // slab of refused
	// latest holds, per pool, the refusals of the last candidate whose last refusing pool it is. Most neighbours wait for the
	// same reasons: they share one slice.
	latest [][]Refusal
	codes  []Refusal // scratch
	width  int       // needs of a typical candidate
	exempt int       // candidates that need nothing
}

// free is a candidate that consumes nothing.
type free struct {
	at     int32 // its place in the order
	first  int32 // first place of its resource, or none
	reason Reason
}

func newBatch(l *ledger, candidates []Candidate) *batch {
	b := &batch{ledger: l, candidates: candidates, latest: make([][]Refusal, len(l.pools))}
	if len(candidates) > 0 {
		b.width = len(candidates[0].Needs)
	}
	return b
}

func (b *batch) at(i int) int {
	if b.order == nil {
		return i
	}
	return int(b.order[i])
}

// first returns the first place of a resource, counting in what the batch itself started, or none.
func (b *batch) first(resource string, h uint64) int32 {
	if first := b.down.find(resource, h); first != none {
		return first
	}
	k := b.starts.find(h, func(k int) bool { return b.candidates[b.admitted[k].Candidate].Resource == resource })
	if k < 0 {
		return none
	}
	// The resource of an earlier start comes up again, so its places are needed. From now on it is found in down.
	b.enter(&b.candidates[b.admitted[k].Candidate], b.admitted[k].Claims)
	return b.down.find(resource, hash(resource))
}

// admitFree admits, on the snapshot as it was read, everybody who consumes nothing.
func (b *batch) admitFree() {
	if len(b.down.entries) > 0 || b.exempt > 0 {
		b.free = make([]free, 0, min(len(b.candidates), 2*len(b.down.entries)+b.exempt))
		for i := range b.candidates {
			c := &b.candidates[b.at(i)]
			own := free{at: int32(i), first: none, reason: RuleNotApplicable}
			if len(c.Needs) > 0 {
				if own.first = b.down.find(c.Resource, hash(c.Resource)); own.first == none {
					continue
				}
				own.reason = b.ledger.free(own.first, c)
			}
			if own.reason != "" {
				b.free = append(b.free, own)
			}
		}
		b.holds = slices.Grow(b.holds, len(b.free)*b.width)
	}
	starts := min(len(b.candidates), len(b.free)+b.room)
	b.admitted = make([]Admitted, 0, starts)
	b.claims = make([]Claim, 0, starts*b.width)
	b.starts = newStarts(starts - len(b.free))
	// Only now are they counted: what a holder adds to a pool was not there for the others.
	for _, own := range b.free {
		index := b.at(int(own.at))
		if own.first == none { // an earlier one of these may have made a place for its resource
			own.first = b.down.find(b.candidates[index].Resource, hash(b.candidates[index].Resource))
		}
		b.admit(index, own.first, own.reason)
	}
}

// admitInOrder goes through the others by rank.
func (b *batch) admitInOrder() {
	b.refused = make([]Refused, 0, len(b.candidates)-len(b.admitted))
	free := b.free
	for i := range b.candidates {
		if len(free) > 0 && int(free[0].at) == i {
			free = free[1:]
			continue
		}
		index := b.at(i)
		c := &b.candidates[index]
		h := hash(c.Resource)
		first := b.first(c.Resource, h)
		b.codes = b.ask(b.codes[:0], first, c)
		switch {
		case len(b.codes) > 0:
			b.refuse(index)
			b.reserve(first, c, b.codes)
		case first == none:
			b.admitNew(index, h)
		default:
			b.admit(index, first, b.reason(first, c))
		}
	}
}

func (b *batch) admit(index int, first int32, reason Reason) {
	start := len(b.claims)
	b.claims = b.take(b.claims, first, &b.candidates[index])
	b.admitted = append(b.admitted, Admitted{Candidate: index, Reason: reason, Claims: b.claims[start:len(b.claims):len(b.claims)]})
}

// admitNew is admit for a resource without places. They are entered if it comes up again, which it rarely does.
func (b *batch) admitNew(index int, h uint64) {
	c := &b.candidates[index]
	start := len(b.claims)
	b.claims = b.takeNew(b.claims, c)
	if !b.starts.add(h, len(b.admitted)) {
		b.enter(c, b.claims[start:])
	}
	b.admitted = append(b.admitted, Admitted{Candidate: index, Reason: SlotFree, Claims: b.claims[start:len(b.claims):len(b.claims)]})
}

func (b *batch) refuse(index int) {
	last := b.codes[len(b.codes)-1].Pool
	shared := b.latest[last]
	if !slices.Equal(shared, b.codes) {
		start := len(b.refusals)
		b.refusals = append(b.refusals, b.codes...)
		shared = b.refusals[start:len(b.refusals):len(b.refusals)]
		b.latest[last] = shared
	}
	b.refused = append(b.refused, Refused{Candidate: index, Refusals: shared})
}

// Apply returns the records of the snapshot in which the starts took leases that they did not have, in ascending order of the
// pools' keys. The starts are any of a plan's Admitted, in any order; candidates are those of the plan. A pool in which no
// lease is new is left out.
//
// The host writes each record under the condition that the stored one is still at its Revision: all in one transaction, or in the
// order given, releasing what was written when a later one is refused with [ErrConflict]. Only then it dispatches. A
// host that is cut off in between has claimed too much, never too little: the next plan finds the holders, or
// [Record.Orphans] lists them.
func Apply(snapshot Snapshot, candidates []Candidate, starts []Admitted, now time.Time) ([]Record, error) {
	added := make([][]Lease, len(snapshot.Pools))
	for _, s := range starts {
		if s.Candidate < 0 || s.Candidate >= len(candidates) {
			return nil, fmt.Errorf("concurrency: a start names candidate %d of %d: the candidates must be those of the plan", s.Candidate, len(candidates))
		}
		c := &candidates[s.Candidate]
		for _, claim := range s.Claims {
			if claim.Pool < 0 || int(claim.Pool) >= len(added) {
				return nil, fmt.Errorf("concurrency: a start of %s names pool %d of %d: the snapshot must be that of the plan", c.Resource, claim.Pool, len(added))
			}
			p := &snapshot.Pools[claim.Pool]
			if held, ok := p.Record.Lease(Holder{c.Resource, c.Group}); ok && held.Token == claim.Token {
				continue
			}
			if claim.Revision != p.Record.Revision {
				return nil, fmt.Errorf("%w: pool %s is at revision %d, the start of %s %s was planned at %d", ErrConflict, p.Key, p.Record.Revision, c.Resource, c.Group, claim.Revision)
			}
			added[claim.Pool] = append(added[claim.Pool], Lease{Pool: p.Key, Resource: c.Resource, Group: c.Group, Token: claim.Token, Since: now, ProgressAt: now})
		}
	}
	var records []Record
	for i, leases := range added {
		if len(leases) == 0 {
			continue
		}
		slices.SortFunc(leases, func(a, b Lease) int { return cmp.Compare(a.Token, b.Token) })
		leases = slices.Compact(leases) // one start may have been listed for several candidates of one holder
		record := snapshot.Pools[i].record()
		if leases[0].Token < record.NextToken {
			return nil, fmt.Errorf("%w: pool %s issued token %d already", ErrFenced, record.Key, leases[0].Token)
		}
		record, err := record.claim(leases)
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Key, b.Key) })
	return records, nil
}
