package concurrency

import (
	"cmp"
	"slices"
	"time"
)

// none ends a linked list.
const none = int32(-1)

// ledger is the state of all pools while it is decided who starts: what a batch counts in, and what a [Queue] keeps between
// events. Resources and pools go by number; lists are linked by index in two slabs, so that a start costs no allocation of its own.
type ledger struct {
	pools    []poolState
	observed []observed // of the same pools
	families []family
	down     registry // resources with a place
	places   []place
	holds    []hold
	strict   bool  // some pool is
	unused   int32 // first of the holds that were given up

	reservations []int32 // places with a reservation, or once with one
	added        []int32 // holds that the batch added

	room    int // estimate of the starts that the pools have room for
	scratch []int32
	stuck   []Stuck
	next    time.Time
}

// poolState counts in one pool. It fits into a line of the cache: most of the time of a batch goes by here.
type poolState struct {
	max      int
	active   int    // resources with a counting place
	reserved int    // places kept for earlier candidates of the batch; active + reserved ≤ max when one is added
	token    uint64 // the next one
	revision uint64
	starts   int
	order    int32 // place in the ascending order of keys
	family   int32 // none: no limit on keys
	unknown  bool
	strict   bool
}

// observed is what the snapshot says of a pool, and is seldom asked for.
type observed struct {
	key        string
	total      int
	allowance  int          // so many of quarantine, from the front, do not count
	quarantine []quarantine // oldest first

	holders, quarantined, stuck []Holder
	unavailable                 []string
}

// family counts the pools of one rule that have an active member.
type family struct {
	max      int
	active   int // pools with active > 0
	reserved int // pools with active = 0 and reserved > 0
}

// place is one resource in one pool.
type place struct {
	next        int32 // the resource's place in another pool, or none
	pool        int32
	holds       int32 // first lease, or none
	unavailable bool
	departed    bool // no member: its leases do not count
	down        bool // unavailable, or a member with a lease, counting or not
	counting    bool // it is in the pool's active
	reserved    bool // it is in the pool's reserved
}

// hold is a lease, or an active job without one.
type hold struct {
	next     int32
	group    string
	token    uint64 // 0: an active job alone
	stored   bool   // known before this batch: only such a lease makes a holder
	forgiven bool   // quarantined, and covered by the allowance
}

// quarantine is a quarantined lease of a member.
type quarantine struct {
	place, hold int32
	since       time.Time
	holder      Holder
}

// newLedger counts a valid snapshot. It makes room for the starts of a batch: how many there may be is told by needed, the number
// of candidates by their first pool, or nil.
func newLedger(s Snapshot, needed []int, now time.Time) *ledger {
	places, holds, resources := 0, 0, 0
	for i := range s.Pools {
		p := &s.Pools[i]
		leases := len(p.Record.Leases) + len(p.Jobs)
		holds += leases
		places += leases + len(p.Unavailable) + len(p.Departed)
		resources = max(resources, leases+len(p.Unavailable))
	}
	l := &ledger{
		pools:    make([]poolState, len(s.Pools)),
		observed: make([]observed, len(s.Pools)),
		places:   make([]place, 0, places),
		holds:    make([]hold, 0, holds),
		unused:   none,
	}
	for i, n := range needed {
		if p := &s.Pools[i]; !p.Unknown {
			l.room += max(0, min(n, p.max()-len(p.Record.Leases)-len(p.Unavailable)))
		}
	}
	l.down = newRegistry(resources + l.room)
	l.down.entries = make([]entry, 0, resources)
	running := make(map[Holder]bool, len(s.Running))
	for _, h := range s.Running {
		running[h] = true
	}
	families := make(map[string]int32)
	byKey := make([]int32, len(s.Pools))
	for i := range s.Pools {
		byKey[i] = int32(i)
		l.open(int32(i), &s.Pools[i], families)
		if !s.Pools[i].Unknown {
			l.count(int32(i), &s.Pools[i], running, now)
		}
	}
	slices.SortFunc(byKey, func(a, b int32) int { return cmp.Compare(s.Pools[a].Key, s.Pools[b].Key) })
	for order, i := range byKey {
		l.pools[i].order = int32(order)
	}
	slices.SortFunc(l.stuck, func(a, b Stuck) int {
		return cmp.Or(cmp.Compare(l.pools[a.Pool].order, l.pools[b.Pool].order), a.Lease.Holder().compare(b.Lease.Holder()))
	})
	return l
}

func (l *ledger) open(i int32, p *Pool, families map[string]int32) {
	l.observed[i].key = p.Key
	state := &l.pools[i]
	state.family, state.unknown = none, p.Unknown
	if p.Unknown {
		return
	}
	state.strict, state.max = p.Strict, p.max()
	l.strict = l.strict || p.Strict
	l.observed[i].total, l.observed[i].allowance = p.Total, p.QuarantineAllowance.Of(p.Total, Floor)
	state.revision, state.token = p.Record.Revision, p.record().NextToken
	if p.Family != "" {
		f, ok := families[p.Family]
		if !ok {
			f = int32(len(l.families))
			families[p.Family] = f
			l.families = append(l.families, family{max: p.MaxActiveKeys})
		}
		state.family = f
	}
}

// count enters what the snapshot says of one pool.
func (l *ledger) count(i int32, p *Pool, running map[Holder]bool, now time.Time) {
	seen := &l.observed[i]
	for _, resource := range p.Departed {
		l.places[l.place(l.resource(resource), i)].departed = true
	}
	seen.holders = make([]Holder, 0, len(p.Record.Leases)+len(p.Jobs))
	for _, lease := range p.Record.Leases {
		holder := lease.Holder()
		seen.holders = append(seen.holders, holder)
		at := l.place(l.resource(lease.Resource), i)
		h := l.hold(at, lease.Group, lease.Token)
		l.holds[h].stored = true
		if l.isQuarantined(i, p, lease, running, now) {
			seen.quarantined = append(seen.quarantined, holder)
			if !l.places[at].departed {
				seen.quarantine = append(seen.quarantine, quarantine{at, h, lease.Since, holder})
			}
		}
		l.recount(at)
	}
	slices.SortFunc(seen.quarantine, func(a, b quarantine) int {
		return cmp.Or(a.since.Compare(b.since), a.holder.compare(b.holder))
	})
	l.forgive(seen)
	for _, h := range p.Jobs {
		at := l.place(l.resource(h.Resource), i)
		if l.heldBy(at, h.Group) == none {
			seen.holders = append(seen.holders, h)
			l.holds[l.hold(at, h.Group, 0)].stored = true
			l.recount(at)
		}
	}
	if len(p.Jobs) > 0 {
		slices.SortFunc(seen.holders, Holder.compare)
	}
	seen.unavailable = slices.Clone(p.Unavailable)
	sortTexts(seen.unavailable)
	seen.unavailable = slices.Compact(seen.unavailable)
	for _, resource := range seen.unavailable {
		at := l.place(l.resource(resource), i)
		l.places[at].unavailable = true
		l.recount(at)
	}
}

// isQuarantined decides what the lease is now, and lists it if it is stuck.
func (l *ledger) isQuarantined(i int32, p *Pool, lease Lease, running map[Holder]bool, now time.Time) bool {
	if lease.State == Quarantined {
		return true
	}
	if p.StuckAfter == 0 || !running[lease.Holder()] {
		return false
	}
	at := lease.ProgressAt.Add(p.StuckAfter)
	if at.After(now) {
		if l.next.IsZero() || at.Before(l.next) {
			l.next = at
		}
		return false
	}
	l.observed[i].stuck = append(l.observed[i].stuck, lease.Holder())
	l.stuck = append(l.stuck, Stuck{Pool: int(i), Lease: lease, At: at})
	return p.OnStuck == Quarantine
}

// forgive lets the oldest quarantined leases not count, as many as the allowance covers.
func (l *ledger) forgive(seen *observed) {
	for _, q := range seen.quarantine[:min(seen.allowance, len(seen.quarantine))] {
		l.holds[q.hold].forgiven = true
		l.recount(q.place)
	}
}

// recount derives from a place's leases whether it is down and whether it counts.
func (l *ledger) recount(at int32) {
	place := &l.places[at]
	counting := place.unavailable
	place.down = counting || place.holds != none && !place.departed
	for h := place.holds; h != none && place.down && !counting; h = l.holds[h].next {
		counting = !l.holds[h].forgiven
	}
	if counting == place.counting {
		return
	}
	place.counting = counting
	p := &l.pools[place.pool]
	if counting {
		p.active++
		if p.active == 1 {
			l.key(p, 1)
		}
		return
	}
	p.active--
	if p.active == 0 {
		l.key(p, -1)
	}
}

// key enters a pool into its family's active pools (1) or takes it away (-1). An active pool needs no reservation.
func (l *ledger) key(p *poolState, n int) {
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
	who := l.down.find(name, h)
	if who == none {
		who = l.down.add(name, h)
	}
	return who
}

// place finds or makes the place of a resource in a pool.
func (l *ledger) place(who, pool int32) int32 {
	at := l.placeIn(who, pool)
	if at == none {
		at = int32(len(l.places))
		l.places = append(l.places, place{next: l.down.entries[who].first, pool: pool, holds: none})
		l.down.entries[who].first = at
	}
	return at
}

// placeIn returns the place of a resource in a pool, or none; who is none for a resource without places.
func (l *ledger) placeIn(who, pool int32) int32 {
	if who == none {
		return none
	}
	at := l.down.entries[who].first
	for at != none && l.places[at].pool != pool {
		at = l.places[at].next
	}
	return at
}

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
	return h
}

func (l *ledger) heldBy(at int32, group string) int32 {
	h := l.places[at].holds
	for h != none && l.holds[h].group != group {
		h = l.holds[h].next
	}
	return h
}

// release ends the lease of a holder, and reports whether there was one.
func (l *ledger) release(pool int32, holder Holder) bool {
	at := l.placeIn(l.down.find(holder.Resource, hash(holder.Resource)), pool)
	if at == none {
		return false
	}
	h := l.heldBy(at, holder.Group)
	if h == none {
		return false
	}
	link := &l.places[at].holds
	for *link != h {
		link = &l.holds[*link].next
	}
	*link = l.holds[h].next
	l.holds[h] = hold{next: l.unused}
	l.unused = h
	seen := &l.observed[pool]
	seen.quarantine = slices.DeleteFunc(seen.quarantine, func(q quarantine) bool { return q.hold == h })
	l.recount(at)
	l.forgive(seen) // the next one may have come under the allowance
	return true
}

func (l *ledger) summaries() []Summary {
	summaries := make([]Summary, len(l.pools))
	for i := range l.pools {
		p, seen := &l.pools[i], &l.observed[i]
		summaries[i] = Summary{
			Active: p.active, Starts: p.starts, Total: seen.total, Max: p.max,
			Holders: seen.holders, Quarantined: seen.quarantined, Unavailable: seen.unavailable, Stuck: seen.stuck,
		}
	}
	return summaries
}
