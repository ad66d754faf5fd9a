package concurrency

import "time"

// none ends a linked list.
const none = int32(-1)

// ledger is the state of all pools during decisions: a batch counts in it, and a [Queue] keeps it
// between events. Resources and pools are identified by number. Lists are linked by index in two
// slabs, so that a start costs no allocation of its own.
type ledger struct {
	pools     []poolState
	summaries []Summary               // of the same pools; Active and Starts are filled in last
	uncovered map[int32][]quarantined // by pool, leases that the allowance does not cover, oldest first; some may have ended
	families  []family
	resources registry // those that have or had a place
	places    []place
	holds     []hold
	crowds    map[placeGroup]int32 // holds of crowded places
	strict    bool                 // some pool is strict
	unused    int32                // first of the released holds

	reservations []int32          // places that have or had a reservation
	reservedFor  map[int32]string // places of exclusive pools that are or were reserved, with the groups
	begun        []int32          // places that are begun
	added        []int32          // holds that the batch added

	width   int // estimate of the pools that a start needs
	room    int // estimate of the starts that the pools have room for
	scratch []int32
	stuck   []Stuck
	next    time.Time
}

// poolState holds the counts of one pool. It fits into a cache line, because a batch spends most of
// its time here.
type poolState struct {
	max                                int
	active                             int    // resources with a counting place
	token                              uint64 // the next one
	revision                           uint64
	reserved                           int32 // places kept for earlier candidates of the batch; active + reserved ≤ max and reserved ≤ rate when one is added
	rate                               int32 // how many more resources may begin; negative after those that are never refused
	period                             int32 // of the rate, in seconds; 0: there is none
	starts                             int32
	order                              int32 // place in the ascending order of keys
	family                             int32 // none: no limit on keys
	keyed                              int32 // resources with a keyed place: with one the pool is among the active ones of its family
	unknown, strict, exclusive, halted bool
}

// family counts the pools of one rule that have an active member.
type family struct {
	max      int
	active   int // pools with keyed > 0
	reserved int // pools with keyed = 0 and reserved > 0
}

// place is one resource in one pool.
type place struct {
	next        int32 // the resource's place in another pool, or none
	pool        int32
	holds       int32 // first lease, or none
	unavailable bool
	halted      bool // it is unavailable in a pool that is halted: that makes it count, but lets nobody start
	departed    bool // no member: its leases do not count
	counting    bool // it is in the pool's active
	keyed       bool // it counts, by more than leases of keyless holders
	reserved    bool // it is in the pool's reserved
	begun       bool // its resource began in this batch; not noted everywhere if the pool has no rate
	crowded     bool // its leases are in ledger.crowds
}

// disrupted reports whether the resource is unavailable, or a member with a lease, counting or not:
// a start does not make it begin.
func (p *place) disrupted() bool { return p.unavailable || p.holds != none && !p.departed }

// down reports whether a start on the resource needs no place: it is disrupted, and not merely
// unavailable in a pool that is halted.
func (p *place) down() bool {
	return p.unavailable && !p.halted || p.holds != none && !p.departed
}

// hold is a lease, or an active job without one.
type hold struct {
	next        int32
	group       string
	token       uint64 // 0: an active job alone
	stored      bool   // known before this batch: only such a lease makes a holder
	quarantined bool   // since the ledger was opened, and of a member
	forgiven    bool   // quarantined, and covered by the allowance
	keyless     bool   // its holder claimed it and never used it
}

// quarantined is a quarantined lease of a member.
type quarantined struct {
	place, hold int32
	since       time.Time
	holder      Holder
}

// forgive stops counting a quarantined lease, which the allowance covers.
func (l *ledger) forgive(q *quarantined) {
	l.holds[q.hold].forgiven = true
	l.recount(q.place)
}

// recount derives from a place's leases whether it is down, whether it counts, and whether it makes
// a key active.
func (l *ledger) recount(at int32) {
	place := &l.places[at]
	counting, keyed := place.unavailable, place.unavailable
	for h := place.holds; h != none && !place.departed && !keyed; h = l.holds[h].next {
		counting = counting || !l.holds[h].forgiven
		keyed = counting && !l.holds[h].forgiven && !l.holds[h].keyless
	}
	p := &l.pools[place.pool]
	if counting != place.counting {
		place.counting = counting
		if counting {
			p.active++
		} else {
			p.active--
		}
	}
	switch {
	case keyed == place.keyed:
	case keyed:
		l.addKeyed(p)
	default:
		if p.keyed--; p.keyed == 0 {
			l.countKey(p, -1)
		}
	}
	place.keyed = keyed
}

// addKeyed counts one more keyed place.
func (l *ledger) addKeyed(p *poolState) {
	if p.keyed++; p.keyed == 1 {
		l.countKey(p, 1)
	}
}

// countKey enters a pool into its family's active pools (1) or takes it away (-1). An active pool
// needs no reservation.
func (l *ledger) countKey(p *poolState, n int) {
	if p.family == none {
		return
	}
	l.families[p.family].active += n
	if p.reserved > 0 {
		l.families[p.family].reserved -= n
	}
}

// resource finds or makes the number of a resource.
func (l *ledger) resource(name string) int32 {
	h := hash(name)
	who := l.resources.find(name, h)
	if who == none {
		who = l.resources.add(name, h)
	}
	return who
}

// place finds or makes the place of a resource in a pool.
func (l *ledger) place(who, pool int32) int32 {
	at := l.placeIn(who, pool)
	if at == none {
		at = int32(len(l.places))
		l.places = append(l.places, place{next: l.resources.entries[who].first, pool: pool, holds: none})
		l.resources.entries[who].first = at
	}
	return at
}

// placeIn returns the place of a resource in a pool, or none; who is none for a resource without
// places.
func (l *ledger) placeIn(who, pool int32) int32 {
	if who == none {
		return none
	}
	at := l.resources.entries[who].first
	for at != none && l.places[at].pool != pool {
		at = l.places[at].next
	}
	return at
}

// hold enters a lease of a group that has none in the place.
func (l *ledger) hold(at int32, group string, token uint64) int32 {
	h := l.unused
	if h == none {
		h = int32(len(l.holds))
		l.holds = append(l.holds, hold{})
	} else {
		l.unused = l.holds[h].next
	}
	l.holds[h] = hold{next: l.places[at].holds, group: group, token: token}
	l.places[at].holds = h
	if l.places[at].crowded {
		l.crowds[placeGroup{at, group}] = h
	}
	return h
}

// heldBy returns the lease of a group in a place, or none. A place mostly has one lease, as for a
// node that is being upgraded; but a cluster has as many as deployments.
func (l *ledger) heldBy(at int32, group string) int32 {
	const few = 16
	h := l.places[at].holds
	for n := 0; h != none && l.holds[h].group != group; n++ {
		if n == few {
			return l.inCrowd(at, group)
		}
		h = l.holds[h].next
	}
	return h
}

// excludes reports whether a place keeps a group out, because another one has a lease there, or a
// job. A group that has one as well is a holder.
func (l *ledger) excludes(at int32, group string) bool {
	return l.places[at].holds != none && l.heldBy(at, group) == none
}

type placeGroup struct {
	place int32
	group string
}

// inCrowd is heldBy for a place with many leases.
func (l *ledger) inCrowd(at int32, group string) int32 {
	if !l.places[at].crowded {
		l.places[at].crowded = true
		if l.crowds == nil {
			l.crowds = make(map[placeGroup]int32)
		}
		for h := l.places[at].holds; h != none; h = l.holds[h].next {
			l.crowds[placeGroup{at, l.holds[h].group}] = h
		}
	}
	if h, held := l.crowds[placeGroup{at, group}]; held {
		return h
	}
	return none
}

// release ends the lease of a holder, and reports whether there was one. The allowance may cover
// another quarantined lease instead, that of the resource covered; empty if it does not.
func (l *ledger) release(pool int32, holder Holder) (covered string, ok bool) {
	at := l.placeIn(l.resources.find(holder.Resource, hash(holder.Resource)), pool)
	if at == none {
		return "", false
	}
	h := l.heldBy(at, holder.Group)
	if h == none {
		return "", false
	}
	link := &l.places[at].holds
	for *link != h {
		link = &l.holds[*link].next
	}
	*link = l.holds[h].next
	if l.places[at].crowded {
		delete(l.crowds, placeGroup{at, holder.Group})
	}
	forgiven := l.holds[h].forgiven
	l.holds[h] = hold{next: l.unused}
	l.unused = h
	l.recount(at)
	for forgiven && len(l.uncovered[pool]) > 0 {
		next := &l.uncovered[pool][0]
		l.uncovered[pool] = l.uncovered[pool][1:]
		if l.holds[next.hold].quarantined { // else it has ended, and a new lease may have its number
			l.forgive(next)
			return next.holder.Resource, true
		}
	}
	return "", true
}

// summarize completes the summaries.
func (l *ledger) summarize() []Summary {
	for i := range l.pools {
		l.summaries[i].Active, l.summaries[i].Starts = l.pools[i].active, int(l.pools[i].starts)
		l.summaries[i].KeyActive = l.pools[i].family != none && l.pools[i].keyed > 0
	}
	return l.summaries
}
