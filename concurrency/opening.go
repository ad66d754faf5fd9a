package concurrency

import (
	"cmp"
	"slices"
	"time"
)

// How a ledger is opened with what a snapshot says.

// newLedger returns the ledger of a valid snapshot. It only estimates from the candidates how many
// starts to make room for.
func newLedger(s Snapshot, candidates []Candidate, now time.Time) *ledger {
	pools := make([]poolState, len(s.Pools))
	places, holds, resources, room := 0, 0, 0, 0
	for i := range s.Pools {
		p := &s.Pools[i]
		leases := len(p.Record.Leases) + len(p.Jobs)
		holds += leases
		places += leases + len(p.Unavailable) + len(p.Departed)
		resources = max(resources, leases+len(p.Unavailable))
		if !p.Unknown {
			pools[i].max = p.max()
			room += min(len(candidates), max(0, pools[i].max-leases-len(p.Unavailable)))
		}
	}
	l := &ledger{
		pools:     pools,
		summaries: make([]Summary, len(s.Pools)),
		places:    make([]place, 0, places),
		holds:     make([]hold, 0, holds),
		width:     width(candidates, len(s.Pools)),
		unused:    none,
	}
	l.room = min(len(candidates), room/l.width)
	l.resources = newRegistry(resources, l.room)
	running := holderSet(s.Running)
	families := make(map[string]int32)
	ascending := true // the keys, as they usually are
	for i := range s.Pools {
		ascending = ascending && (i == 0 || s.Pools[i-1].Key < s.Pools[i].Key)
		l.pools[i].order = int32(i)
		l.open(int32(i), &s.Pools[i], families, now)
		if !s.Pools[i].Unknown {
			l.count(int32(i), &s.Pools[i], running, now)
		}
	}
	if !ascending {
		l.orderByKey(s.Pools)
	}
	slices.SortFunc(l.stuck, func(a, b Stuck) int {
		return cmp.Or(cmp.Compare(l.pools[a.Pool].order, l.pools[b.Pool].order), a.Lease.Holder.compare(b.Lease.Holder))
	})
	return l
}

// orderByKey numbers the pools in the ascending order of their keys.
func (l *ledger) orderByKey(pools []Pool) {
	byKey := make([]int32, len(pools))
	for i := range byKey {
		byKey[i] = int32(i)
	}
	slices.SortFunc(byKey, func(a, b int32) int { return cmp.Compare(pools[a].Key, pools[b].Key) })
	for order, i := range byKey {
		l.pools[i].order = int32(order)
	}
}

// width estimates from a sample the mean number of pools that the candidates need; at least 1.
func width(candidates []Candidate, pools int) int {
	const looks = 64
	sum, n := 0, 0
	for i := 0; i < len(candidates); i += 1 + len(candidates)/looks {
		sum += min(len(candidates[i].Needs), pools)
		n++
	}
	return max(1, (sum+n-1)/max(1, n))
}

func (l *ledger) open(i int32, p *Pool, families map[string]int32, now time.Time) {
	state := &l.pools[i]
	state.family, state.unknown = none, p.Unknown
	if p.Unknown {
		return
	}
	state.strict, state.exclusive = p.Strict, p.Exclusive
	state.rate, state.period = p.Rate.left(p, now), int32(p.Rate.PeriodSeconds)
	l.strict = l.strict || p.Strict
	l.summaries[i].Total, l.summaries[i].Max = p.Total, state.max
	state.revision, state.token = p.Record.Revision, max(1, p.Record.NextToken) // the record of a pool that was never used is zero
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
	for _, resource := range p.Departed {
		l.places[l.place(l.resource(resource), i)].departed = true
	}
	summary := &l.summaries[i]
	summary.Holders = []Holder{}
	if len(p.Record.Leases)+len(p.Jobs) > 0 {
		l.countHolders(i, p, running, now)
	}
	if len(p.Unavailable) == 0 {
		return
	}
	summary.Unavailable = sortedTexts(p.Unavailable)
	summary.Halted = p.haltsAt(len(summary.Unavailable))
	l.pools[i].halted = summary.Halted
	for _, resource := range summary.Unavailable {
		at := l.place(l.resource(resource), i)
		l.places[at].unavailable, l.places[at].halted = true, summary.Halted
		l.recount(at)
	}
}

func (l *ledger) countHolders(i int32, p *Pool, running map[Holder]bool, now time.Time) {
	summary := &l.summaries[i]
	summary.Holders = make([]Holder, 0, len(p.Record.Leases)+len(p.Jobs))
	var stalled []quarantined
	keyless := holderSet(p.Keyless)
	for _, lease := range p.Record.Leases {
		holder := lease.Holder
		summary.Holders = append(summary.Holders, holder)
		at := l.place(l.resource(lease.Resource), i)
		h := l.hold(at, lease.Group, lease.Token)
		l.holds[h].stored, l.holds[h].keyless = true, keyless[holder]
		if l.isQuarantined(i, p, lease, running, now) {
			summary.Quarantined = append(summary.Quarantined, holder)
			if !l.places[at].departed {
				stalled = append(stalled, quarantined{at, h, lease.Since, holder})
				l.holds[h].quarantined = true
			}
		}
		l.recount(at)
	}
	slices.SortFunc(stalled, func(a, b quarantined) int {
		return cmp.Or(a.since.Compare(b.since), a.holder.compare(b.holder))
	})
	covered := min(p.QuarantineAllowance.Of(p.Total, Floor), len(stalled))
	for i := range stalled[:covered] {
		l.forgive(&stalled[i])
	}
	if covered < len(stalled) {
		if l.uncovered == nil {
			l.uncovered = make(map[int32][]quarantined)
		}
		l.uncovered[i] = stalled[covered:]
	}
	for _, h := range p.Jobs {
		at := l.place(l.resource(h.Resource), i)
		held := l.heldBy(at, h.Group)
		if held == none {
			summary.Holders = append(summary.Holders, h)
			held = l.hold(at, h.Group, 0)
			l.holds[held].stored = true
		}
		l.holds[held].keyless = false
		l.recount(at)
	}
	if len(p.Jobs) > 0 {
		slices.SortFunc(summary.Holders, Holder.compare)
	}
}

// isQuarantined reports whether the lease is quarantined now, and lists it if it is stuck. That
// includes a lease that is quarantined already: otherwise it would cease to be listed once the host
// has stored what a plan says.
func (l *ledger) isQuarantined(i int32, p *Pool, lease Lease, running map[Holder]bool, now time.Time) bool {
	quarantined := lease.State == Quarantined
	if p.StuckAfter == 0 || !running[lease.Holder] {
		return quarantined
	}
	at := lease.ProgressAt.Add(p.StuckAfter)
	if at.After(now) {
		if l.next.IsZero() || at.Before(l.next) {
			l.next = at
		}
		return quarantined
	}
	l.summaries[i].Stuck = append(l.summaries[i].Stuck, lease.Holder)
	l.stuck = append(l.stuck, Stuck{Pool: i, Lease: lease, At: at})
	return quarantined || p.OnStuck == Quarantine
}
