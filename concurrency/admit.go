package concurrency

import (
	"cmp"
	"slices"
)

// What a ledger answers to a candidate: whether it consumes, which pools refuse it, what it
// reserves and what it takes.

// free returns why the candidate consumes nothing. It returns empty if the candidate consumes, or
// may consume. who is its resource, or none if the resource has no place.
//
// Only what was held before the batch makes a holder. It is tempting to count a start of this batch
// as a lease that opens every other pool. But the host may leave that start out and carry out the
// next one, which would then have taken a place that it was never given.
func (l *ledger) free(who int32, c *Candidate) Reason {
	if len(c.Needs) == 0 {
		return RuleNotApplicable
	}
	if who == none {
		return ""
	}
	for at := l.resources.entries[who].first; at != none && !c.Begins; at = l.places[at].next {
		if h := l.heldBy(at, c.Group); h != none && l.holds[h].stored {
			return SlotHeld
		}
	}
	for _, pool := range c.Needs {
		at := l.placeIn(who, pool)
		if at == none || !l.places[at].down() {
			return ""
		}
		if !l.places[at].keyed && l.pools[pool].family != none {
			return "" // it needs no place, but perhaps a key, because it makes the key active from now on
		}
		if l.pools[pool].exclusive && l.heldBy(at, c.Group) == none {
			return "" // another group is at work there, or may begin before it
		}
	}
	return l.reason(who, c)
}

// reason returns why a candidate that needs pools may start, if none of them refuses it. What it
// holds in others makes no difference.
func (l *ledger) reason(who int32, c *Candidate) Reason {
	reason := SlotHeld
	for _, pool := range c.Needs {
		at := l.placeIn(who, pool)
		if at == none || !l.places[at].down() {
			return SlotFree
		}
		if l.heldBy(at, c.Group) == none {
			reason = SlotAlreadyDown
		}
	}
	return reason
}

// ordered returns needs in ascending order of the pools' keys. The result is valid until the next
// call.
func (l *ledger) ordered(needs []int32) []int32 {
	for k := 1; k < len(needs); k++ {
		if l.pools[needs[k-1]].order > l.pools[needs[k]].order {
			l.scratch = append(l.scratch[:0], needs...)
			slices.SortFunc(l.scratch, func(a, b int32) int { return cmp.Compare(l.pools[a].order, l.pools[b].order) })
			return l.scratch
		}
	}
	return needs
}

func (l *ledger) compareNeeds(a, b []int32) int {
	if slices.Equal(a, b) {
		return 0
	}
	a = slices.Clone(l.ordered(a))
	return slices.CompareFunc(a, l.ordered(b), func(x, y int32) int { return cmp.Compare(l.pools[x].order, l.pools[y].order) })
}

// ask appends the pools that refuse the candidate. who is its resource, or none if the resource has
// no place.
func (l *ledger) ask(refusals []Refusal, who int32, c *Candidate) []Refusal {
	needs := l.ordered(c.Needs)
	for k, pool := range needs {
		p := &l.pools[pool]
		if p.open() && !p.exclusive {
			continue
		}
		reason := l.refusal(p, l.placeIn(who, pool), c.Group)
		if reason == "" && p.family != none && p.keyed == 0 {
			reason = l.keyRefusal(p, needs[:k]) // also for a resource that is down without a key: from now on it needs one
		}
		if reason != "" {
			refusals = append(refusals, Refusal{Pool: pool, Reason: reason})
		}
	}
	return refusals
}

// refusal returns why the pool has no place for a candidate of a group, empty if it has one or the
// candidate needs none. at is the place of its resource, or none.
func (l *ledger) refusal(p *poolState, at int32, group string) Reason {
	switch {
	case at == none:
		return p.refusal(false)
	case p.exclusive && l.excludes(at, group):
		return SlotExclusive
	case l.places[at].down():
		return ""
	}
	own := l.places[at].reserved && (!p.exclusive || l.reservedFor[at] == group)
	reason := p.refusal(own)
	if reason == "" && l.places[at].reserved && !own {
		return SlotReserved
	}
	return reason
}

// open reports whether the pool has a place and a key for every resource.
func (p *poolState) open() bool {
	return p.active+int(p.reserved) < p.max && p.reserved < p.rate && !p.halted && (p.family == none || p.keyed > 0)
}

// refusal returns why the pool has no place for one more resource, empty if it has one. own says
// that a place is reserved for this very resource.
func (p *poolState) refusal(own bool) Reason {
	switch {
	case p.unknown:
		return PoolUnknown
	case p.max == 0:
		return SlotPaused
	case p.halted:
		return SlotHalted
	case p.active >= p.max:
		return SlotFull
	case p.rate <= 0:
		return SlotRateFull
	case (p.active+int(p.reserved) >= p.max || p.reserved >= p.rate) && !own:
		return SlotReserved
	}
	return ""
}

// keyRefusal returns why a pool without an active member must not get one, empty if it may. before
// are the pools that the candidate needs and that precede this one: those of the same family may
// need a key too.
func (l *ledger) keyRefusal(p *poolState, before []int32) Reason {
	f := &l.families[p.family]
	keys := f.active
	for _, other := range before {
		if o := &l.pools[other]; o.family == p.family && o.keyed == 0 {
			keys++
		}
	}
	switch {
	case keys >= f.max:
		return SlotKeysFull
	case keys+f.reserved >= f.max && p.reserved == 0:
		return SlotReserved
	}
	return ""
}

// hasRoom reports whether the pool has a place, and a key, that is neither taken nor reserved.
func (l *ledger) hasRoom(p *poolState) bool {
	return p.refusal(false) == "" && (p.family == none || p.keyed > 0 || l.keyRefusal(p, nil) == "")
}

// reserve keeps for a refused candidate, if one of its pools is strict, the places that it would
// have taken.
//
// A place is kept for the resource, not for the candidate: another candidate of the same resource
// may start on it, in an exclusive pool one of the same group. Where no place is left nothing is
// kept: that would change no decision, and so the cost is bounded by the number of places.
func (l *ledger) reserve(who int32, c *Candidate, refusals []Refusal) {
	if !l.strict || !l.strictIn(c.Needs) {
		return
	}
	if slices.ContainsFunc(refusals, func(r Refusal) bool { return r.Reason.isLasting() }) {
		return
	}
	for _, pool := range l.ordered(c.Needs) {
		p := &l.pools[pool]
		if at := l.placeIn(who, pool); at != none && (l.places[at].down() || l.places[at].reserved) {
			continue
		}
		if !l.hasRoom(p) {
			continue
		}
		if who == none {
			who = l.resource(c.Resource)
		}
		at := l.place(who, pool)
		l.places[at].reserved = true
		l.reservations = append(l.reservations, at)
		if p.exclusive {
			if l.reservedFor == nil {
				l.reservedFor = make(map[int32]string)
			}
			l.reservedFor[at] = c.Group
		}
		if p.family != none && p.keyed == 0 && p.reserved == 0 {
			l.families[p.family].reserved++
		}
		p.reserved++
	}
}

// strictIn reports whether any of some pools is strict.
func (l *ledger) strictIn(pools []int32) bool {
	return slices.ContainsFunc(pools, func(pool int32) bool { return l.pools[pool].strict })
}

// takeNew is take for a resource without any place. It enters nothing: the caller must be able to
// enter the claims when the resource comes up again.
func (l *ledger) takeNew(claims []Claim, c *Candidate) []Claim {
	for _, pool := range l.ordered(c.Needs) {
		p := &l.pools[pool]
		claim := l.issue(pool)
		claim.PeriodSeconds = p.period
		claims = append(claims, claim)
		p.active++
		l.spendRate(p)
		l.addKeyed(p)
	}
	return claims
}

// takeDown is take for a resource that is down and keyed in all pools it needs; ok is false if it
// is not. It enters nothing, not even new leases: the caller must be able to enter them when the
// resource comes up again. added reports whether there are new leases.
func (l *ledger) takeDown(claims []Claim, who int32, c *Candidate) (_ []Claim, ok, added bool) {
	before := len(claims)
	for _, pool := range l.ordered(c.Needs) {
		claim := Claim{Pool: pool}
		at := l.placeIn(who, pool)
		if at == none || !l.places[at].keyed {
			return claims[:before], false, false
		}
		if h := l.heldBy(at, c.Group); h != none {
			if claim.Token = l.holds[h].token; claim.Token == 0 {
				return claims[:before], false, false // an active job alone: from now on it has a lease
			}
		}
		claims = append(claims, claim)
	}
	for k := range claims[before:] {
		claim := &claims[before+k]
		if claim.Token == 0 {
			*claim, added = l.issue(claim.Pool), true
		} else {
			claim.Revision = l.pools[claim.Pool].revision
		}
	}
	return claims, true, added
}

// issue makes a claim with the pool's next token.
func (l *ledger) issue(pool int32) Claim {
	p := &l.pools[pool]
	p.token++
	p.starts++
	return Claim{Pool: pool, Revision: p.revision, Token: p.token - 1}
}

// enter enters the claims that takeNew or takeDown did not enter.
func (l *ledger) enter(who int32, group string, claims []Claim) {
	for _, claim := range claims {
		at := l.place(who, claim.Pool)
		if l.heldBy(at, group) == none {
			l.places[at].begun = !l.places[at].disrupted()
			l.hold(at, group, claim.Token)
			l.places[at].counting, l.places[at].keyed = true, true
		}
	}
}

// take gives the candidate its places and appends its claims. who is its resource, or none if the
// resource has no place. The caller has checked that there is room.
func (l *ledger) take(claims []Claim, who int32, c *Candidate) []Claim {
	for _, pool := range l.ordered(c.Needs) {
		p := &l.pools[pool]
		if p.unknown {
			continue // only a holder comes here; there is no record to claim in
		}
		if who == none {
			who = l.resource(c.Resource)
		}
		at := l.place(who, pool)
		h := l.heldBy(at, c.Group)
		if h == none {
			if p.period > 0 && !l.places[at].disrupted() {
				l.places[at].begun = true
				l.begun = append(l.begun, at)
				l.spendRate(p)
			}
			h = l.hold(at, c.Group, 0)
			l.added = append(l.added, h)
		}
		l.holds[h].keyless = false
		claim := Claim{Pool: pool, Revision: p.revision, Token: l.holds[h].token}
		if claim.Token == 0 {
			claim = l.issue(pool)
			l.holds[h].token = claim.Token
		}
		if l.places[at].begun {
			claim.PeriodSeconds = p.period
		}
		l.unreserve(at)
		l.places[at].departed = false // it needs the pool, so it is a member
		l.recount(at)
		claims = append(claims, claim)
	}
	return claims
}

// unreserve gives a reserved place back.
func (l *ledger) unreserve(at int32) {
	if !l.places[at].reserved {
		return
	}
	l.places[at].reserved = false
	p := &l.pools[l.places[at].pool]
	p.reserved--
	if p.family != none && p.keyed == 0 && p.reserved == 0 {
		l.families[p.family].reserved--
	}
}

// settle ends the batch for a ledger that is kept: it drops the reservations and makes holders of
// the candidates that started.
func (l *ledger) settle() {
	for _, at := range l.reservations {
		l.unreserve(at)
	}
	for _, h := range l.added {
		l.holds[h].stored = true
	}
	for _, at := range l.begun {
		l.places[at].begun = false
	}
	l.reservations, l.added, l.begun = l.reservations[:0], l.added[:0], l.begun[:0]
}
