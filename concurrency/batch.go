package concurrency

import (
	"cmp"
	"slices"
)

// batch is one run over the candidates.
//
// A million candidates do not fit into a cache, so a run does not check them all beforehand. It
// assumes that they are valid, in order and, if no resource is down, each with needs. It checks a
// block of them before it decides about that block, and gives up where the assumption is wrong.
type batch struct {
	*ledger
	candidates []Candidate
	prepared   bool    // all candidates have been checked
	order      []int32 // nil: the candidates are in order
	exempt     int     // how many need nothing; unknown while it is 0
	freeFirst  bool    // there may be candidates that consume nothing
	hashes     [64]uint64
	later      []free // candidates that consume nothing and could not be admitted at once

	admitted []Admitted
	free     int // how many of admitted consume nothing
	refused  []Refused
	claims   []Claim   // slab of the Claims of admitted
	answers  answers   // to the refused candidates
	answer   []Refusal // scratch
}

// free is a candidate that consumes nothing.
type free struct {
	index  int32
	who    int32 // its resource, or none
	reason Reason
}

func newBatch(l *ledger, candidates []Candidate) *batch {
	b := &batch{ledger: l, candidates: candidates, answers: answers{latest: make([]int32, len(l.pools))}}
	l.resources.starter = func(start int32) string { return b.candidates[b.admitted[start].Candidate].Resource }
	return b
}

// prepare makes the batch run with any valid candidates.
func (b *batch) prepare() {
	b.prepared = true
	sorted := true
	for i := range b.candidates {
		c := &b.candidates[i]
		if len(c.Needs) == 0 {
			b.exempt++
		}
		sorted = sorted && b.follows(i, c)
	}
	if sorted {
		return
	}
	type turn struct { // the rank, which nearly always decides, is next to the index
		rank  int
		index int32
	}
	turns := make([]turn, len(b.candidates))
	for i := range turns {
		turns[i] = turn{b.candidates[i].Rank, int32(i)}
	}
	slices.SortFunc(turns, func(x, y turn) int {
		if x.rank != y.rank {
			return cmp.Compare(x.rank, y.rank)
		}
		return compareCandidates(b.ledger, &b.candidates[x.index], &b.candidates[y.index])
	})
	b.order = make([]int32, len(turns))
	for i := range turns {
		b.order[i] = turns[i].index
	}
}

// run decides about the candidates. It returns false if they are not as a run without prepare
// assumes.
func (b *batch) run() bool {
	down := len(b.resources.entries)
	starts := min(len(b.candidates), b.exempt+down+b.room)
	b.admitted = make([]Admitted, 0, starts)
	b.claims = make([]Claim, 0, starts*b.width)
	if b.freeFirst = down+b.exempt > 0; b.freeFirst {
		if !b.admitFree() {
			return false
		}
		b.prepared = true
	}
	return b.admitInOrder()
}

func (b *batch) at(i int) int32 {
	if b.order == nil {
		return int32(i)
	}
	return b.order[i]
}

// look hashes the next candidates' resources, from the i-th on in the order, and reports whether
// the run can go on with these candidates. Looking at many at a time lets memory accesses overlap.
func (b *batch) look(i int) bool {
	for k := range min(len(b.hashes), len(b.candidates)-i) {
		c := &b.candidates[b.at(i+k)]
		if !b.prepared && !(c.valid(len(b.pools)) && (len(c.Needs) > 0 || b.freeFirst) && b.follows(i+k, c)) {
			return false
		}
		b.hashes[k] = hash(c.Resource)
	}
	return true
}

// follows reports whether the candidate comes after the one before, or is the same.
func (b *batch) follows(i int, c *Candidate) bool {
	if i == 0 {
		return true
	}
	before := &b.candidates[i-1]
	return before.Rank < c.Rank || compareCandidates(b.ledger, before, c) <= 0
}

// resource returns the number of a resource that has places, those of the batch's own starts
// included, or none.
func (b *batch) resource(name string, h uint64) int32 {
	slot := b.resources.seek(name, h)
	if slot == none {
		return none
	}
	if start, is := startOf(b.resources.slots[slot]); is {
		who := b.resources.enter(slot, name)
		b.enter(who, start)
		return who
	}
	who := entryOf(b.resources.slots[slot])
	b.catchUp(who)
	return who
}

// catchUp enters the leases of the resource's start, if they have not been entered yet.
func (b *batch) catchUp(who int32) {
	if who != none && b.resources.entries[who].start != 0 {
		start := b.resources.entries[who].start - 1
		b.resources.entries[who].start = 0
		b.enter(who, start)
	}
}

func (b *batch) enter(who, start int32) {
	a := &b.admitted[start]
	b.ledger.enter(who, b.candidates[a.Candidate].Group, a.Claims)
}

// admitFree admits, on the snapshot as it was read, every candidate that consumes nothing.
func (b *batch) admitFree() bool {
	for i := range b.candidates {
		if i%len(b.hashes) == 0 && !b.look(i) {
			return false
		}
		index := b.at(i)
		c := &b.candidates[index]
		own := free{index: index, who: none}
		if len(c.Needs) > 0 {
			own.who = b.resources.find(c.Resource, b.hashes[i%len(b.hashes)])
		}
		own.reason = b.ledger.free(own.who, c)
		if own.reason != "" && (len(b.later) > 0 || !b.admitDown(own, c)) {
			b.later = append(b.later, own)
		}
	}
	// They are counted only now: what a holder adds to a pool must not make others consume nothing
	// there.
	for _, own := range b.later {
		b.catchUp(own.who)
		b.admit(own.index, own.who, own.reason)
	}
	b.free = len(b.admitted)
	return true
}

// admitDown admits a candidate if that changes nothing for any other resource, and reports whether
// it did.
func (b *batch) admitDown(own free, c *Candidate) bool {
	start := len(b.claims)
	if own.who == none {
		b.start(own.index, own.reason, start)
		return true
	}
	if b.resources.entries[own.who].start != 0 {
		return false
	}
	claims, ok, added := b.takeDown(b.claims, own.who, c)
	if !ok {
		return false
	}
	b.claims = claims
	b.start(own.index, own.reason, start)
	if added {
		b.resources.entries[own.who].start = int32(len(b.admitted))
	}
	return true
}

// admitInOrder decides about the other candidates by rank.
func (b *batch) admitInOrder() bool {
	b.refused = make([]Refused, 0, len(b.candidates)-b.free)
	free := b.admitted[:b.free]
	for i := range b.candidates {
		if i%len(b.hashes) == 0 && !b.look(i) {
			return false
		}
		index := b.at(i)
		if len(free) > 0 && free[0].Candidate == index {
			free = free[1:]
			continue
		}
		c := &b.candidates[index]
		h := b.hashes[i%len(b.hashes)]
		who := b.resource(c.Resource, h)
		b.answer = b.ask(b.answer[:0], who, c)
		switch {
		case len(b.answer) > 0:
			b.refuse(index)
			b.reserve(who, c, b.answer)
		case who == none:
			b.resources.addStart(h, len(b.admitted))
			start := len(b.claims)
			b.claims = b.takeNew(b.claims, c)
			b.start(index, SlotFree, start)
		default:
			b.admit(index, who, b.reason(who, c))
		}
	}
	return true
}

func (b *batch) admit(index, who int32, reason Reason) {
	start := len(b.claims)
	b.claims = b.take(b.claims, who, &b.candidates[index])
	b.start(index, reason, start)
}

// start lists a candidate as admitted, with the claims from the given index on.
func (b *batch) start(index int32, reason Reason, claims int) {
	b.admitted = append(b.admitted, Admitted{Candidate: index, Reason: reason, Claims: b.claims[claims:len(b.claims):len(b.claims)]})
}

func (b *batch) refuse(index int32) {
	b.refused = append(b.refused, Refused{Candidate: index, Why: b.answers.number(b.answer, len(b.candidates))})
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
	if a.Begins != b.Begins {
		if b.Begins {
			return -1
		}
		return 1
	}
	return l.compareNeeds(a.Needs, b.Needs)
}
