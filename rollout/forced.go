package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// An override of a concurrency rule lets only one version past a full pool. But the lease that its
// start takes belongs to the target, or to the group of a bracket, whatever that runs. If the start
// is never dispatched, a later version would begin under the lease, and others would begin on the
// resource because of it, above the limit and without an override. So such a lease is marked when
// it is given. Until a job is at work under it, only a start that an override lets past begins on
// its place. Other starts wait for room in the pool; once there is room, the place is as good as
// any.

// reasonOverridden is why a lease was given beyond the limit.
const reasonOverridden = "overridden"

// noteBeyondLimit notes the places that the plan gives only because of an override, and that were
// not in use: beyond a limit, or in a pool that has a key for no other reason. A lease that is
// marked or was never confirmed may hold such a place all the same, or a job that may be over may
// count there.
func (w *work) noteBeyondLimit() {
	if len(w.overrides) == 0 {
		return
	}
	pools := w.capacity.snapshot.Pools
	keys := w.activeKeys()
	marked := w.marked()
	inUse := map[int32]map[poolPlace]bool{} // by pool
	for _, admitted := range w.admission.Admitted {
		c := w.candidates.at(w.batch[admitted.Candidate])
		if !c.forced {
			continue
		}
		for _, claim := range admitted.Claims {
			p, summary := &pools[claim.Pool], &w.admission.Pools[claim.Pool]
			full, locked := summary.Halted || summary.Active > summary.Max, keys[p.Family] > p.MaxActiveKeys // without a family 0 > 0
			if !full && !locked || !w.forced(c, claim.Pool) {
				continue
			}
			used, known := inUse[claim.Pool]
			if !known {
				if locked {
					for _, holder := range p.Keyless {
						marked[poolHolder{p.Key, holder}] = true
					}
				}
				used = map[poolPlace]bool{}
				for _, at := range w.inUseBesides(claim.Pool, marked) {
					used[at] = true
				}
				inUse[claim.Pool] = used
			}
			if at := (poolPlace{claim.Pool, w.resourceOf(c)}); !used[at] {
				put(&w.beyondLimit, at, true)
			}
		}
	}
}

// marked returns the holders of marked leases under which no job is seen. A quarantined lease has
// another reason.
func (w *work) marked() map[poolHolder]bool {
	marked := map[poolHolder]bool{}
	for _, lease := range w.idle {
		if !lease.used && lease.Reason == reasonOverridden {
			marked[poolHolder{lease.Pool, lease.Holder}] = true
		}
	}
	return marked
}

// mark marks the leases of forced starts in the places that the plan noted.
func (c *claiming) mark() {
	if len(c.work.beyondLimit) == 0 {
		return
	}
	for n, start := range c.starts {
		for _, claim := range c.admitted[n].Claims {
			pool := c.work.capacity.keys[c.records[claim.Pool].Key]
			if start.Reason == ReasonOverridden && c.work.beyondLimit[poolPlace{pool, start.Resource}] {
				c.lease(claim.Pool, start.holder()).Reason = reasonOverridden
			}
		}
	}
}

// lentPlaces returns the places that count only because a start is forced there, in pools that are
// above their limit, halted, or have no room in their rate, with what the pool says to other
// candidates. The host may leave the forced start out.
func (w *work) lentPlaces() map[poolPlace]concurrency.Reason {
	places := map[poolPlace]concurrency.Reason{}
	rates := w.lentRates()
	for at := range w.forcedPlaces {
		switch pool := &w.admission.Pools[at.pool]; {
		case pool.Halted, pool.Active > pool.Max:
			places[at] = noRoom(pool)
		case !rates[at.pool].lets:
			places[at] = concurrency.SlotRateFull
		}
	}
	return places
}

// lentRate is what the rate of a pool says to as many resources as begin by the plan and in places
// that count only because a start is forced there.
type lentRate struct {
	lets  bool
	opens time.Time // from when on it lets them, by the record alone; zero if it lets them now, or never all at once
}

// lentRates returns what the rates of the pools with such places say.
func (w *work) lentRates() map[int32]lentRate {
	forced := map[int32]int{} // how many there are
	for at := range w.forcedPlaces {
		forced[at.pool]++
	}
	if len(forced) == 0 {
		return nil
	}
	begin := map[poolPlace]bool{}
	for _, admitted := range w.admission.Admitted {
		for _, claim := range admitted.Claims {
			if at := (poolPlace{claim.Pool, w.requests[admitted.Candidate].Resource}); claim.PeriodSeconds > 0 && forced[claim.Pool] > 0 && !begin[at] {
				begin[at] = true
				forced[claim.Pool]++
			}
		}
	}
	rates := map[int32]lentRate{}
	for pool, n := range forced {
		lets, opens := w.capacity.snapshot.Pools[pool].RateLets(n, w.now)
		rates[pool] = lentRate{lets, opens}
	}
	return rates
}

// noRoom returns what a pool says that lets nobody begin.
func noRoom(pool *concurrency.Summary) concurrency.Reason {
	switch {
	case pool.Max == 0:
		return concurrency.SlotPaused
	case pool.Halted:
		return concurrency.SlotHalted
	}
	return concurrency.SlotFull
}

// unusedPlaces returns the places of marked leases for which the pool has no room, with what the
// pool says. The places that were given first get the room that there is, so that two of them do
// not wait for one another.
func (w *work) unusedPlaces() map[poolPlace]concurrency.Reason {
	c := &w.capacity
	given := map[int32]map[string]uint64{} // by pool and resource the first token: it tells which place was given first
	marked := w.marked()
	for _, lease := range w.idle {
		index, known := c.keys[lease.Pool]
		if !known || !marked[poolHolder{lease.Pool, lease.Holder}] {
			continue
		}
		if given[index] == nil {
			given[index] = map[string]uint64{}
		}
		if token, is := given[index][lease.Resource]; !is || lease.Token < token {
			given[index][lease.Resource] = lease.Token
		}
	}
	if len(given) == 0 {
		return nil
	}
	beyond := map[poolPlace]concurrency.Reason{}
	for k, first := range given {
		summary := &w.admission.Pools[k]
		for _, at := range w.inUseBesides(k, marked) {
			delete(first, at.resource)
		}
		places := slices.SortedFunc(maps.Keys(first), func(a, b string) int { return cmp.Compare(first[a], first[b]) })
		room := min(len(places), max(0, summary.Max-(summary.Active-len(places))))
		if summary.Halted {
			room = 0
		}
		for _, resource := range places[room:] {
			beyond[poolPlace{k, resource}] = noRoom(summary)
		}
	}
	return beyond
}

// inUseBesides returns the places of a pool on which a start disrupts nothing more, for something
// else than the marked leases and the jobs that the snapshot shows.
func (w *work) inUseBesides(pool int32, marked map[poolHolder]bool) (places []poolPlace) {
	p := &w.capacity.snapshot.Pools[pool]
	observed := map[string]int{}
	for _, resource := range w.capacity.observed[pool] {
		observed[resource]++
	}
	for _, lease := range p.Record.Leases {
		if !marked[poolHolder{p.Key, lease.Holder}] {
			places = append(places, poolPlace{pool, lease.Resource})
		}
	}
	for _, holder := range p.Jobs {
		if observed[holder.Resource]--; observed[holder.Resource] < 0 {
			places = append(places, poolPlace{pool, holder.Resource})
		}
	}
	if !w.admission.Pools[pool].Halted {
		for _, resource := range p.Unavailable {
			places = append(places, poolPlace{pool, resource})
		}
	}
	return places
}
