package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
)

// Pools are saved one after the other. A planner that is cut off in between, or comes too late for the second one, has claimed a slot for somebody who
// never began. Its holder goes on with it, and keeps others out; but it has no right to a place in the other pools, as those have whose
// resource is disrupted already: these may have been given to others meanwhile.

// unbegun takes the turn from holders that have not begun and were admitted to a pool that has no place for them, and reports whether there were any: then
// the slots have to be given anew. Those that came first keep what there is.
func (w *work) unbegun(result concurrency.Result) bool {
	if !slices.ContainsFunc(w.overfull(result), func(r concurrency.Reason) bool { return r != "" }) {
		return false
	}
	takes := map[concurrency.Holder][]poolPlace{} // by those that have not begun, where nobody on the resource was before
	places := map[poolPlace]bool{}                // the same; true: given to one of them
	for _, admitted := range result.Admitted {
		c := &w.candidates[w.turns[admitted.Candidate]]
		if c.forced || admitted.Reason != concurrency.SlotHeld || w.disrupting(c) {
			continue
		}
		h := w.holder(c)
		for _, claim := range admitted.Claims {
			if at := (poolPlace{claim.Pool, c.resource}); !w.occupied(at) && !slices.Contains(takes[h], at) {
				takes[h], places[at] = append(takes[h], at), false
			}
		}
	}
	if len(takes) == 0 {
		return false
	}
	room := w.without(places, result)
	blockers := map[concurrency.Holder][]Verdict{}
	refused := map[int32]bool{}
	for _, admitted := range result.Admitted {
		turn := w.turns[admitted.Candidate]
		c := &w.candidates[turn]
		h := w.holder(c)
		if wanted := takes[h]; wanted != nil { // it is its turn: there may be several starts
			delete(takes, h)
			for _, at := range wanted {
				if reason := room.refuses(at.pool); reason != "" && !places[at] {
					blockers[h] = append(blockers[h], w.slotVerdict(concurrency.Refusal{Pool: at.pool, Reason: reason}))
				}
			}
			for _, at := range wanted {
				if blockers[h] == nil && !places[at] {
					places[at] = true
					room.take(at.pool)
				}
			}
		}
		if blockers[h] != nil {
			refused[turn] = true
			w.refuse(c, blockers[h])
		}
	}
	w.turns = slices.DeleteFunc(w.turns, func(k int32) bool { return refused[k] })
	return len(refused) > 0
}

// room counts what is active, to give places one by one.
type room struct {
	pools  []concurrency.Pool
	active []int
	most   []int
	keys   map[string]int // pools of a family with an active member
}

// without counts what is active after a batch but for some places.
func (w *work) without(places map[poolPlace]bool, result concurrency.Result) room {
	r := room{pools: w.capacity.snapshot.Pools, keys: map[string]int{}}
	for k := range r.pools {
		r.active, r.most = append(r.active, result.Pools[k].Active), append(r.most, result.Pools[k].Max)
	}
	for at := range places {
		r.active[at.pool]--
	}
	for k := range r.pools {
		if r.active[k] > 0 {
			r.keys[r.pools[k].Family]++
		}
	}
	return r
}

func (r *room) refuses(pool int32) concurrency.Reason {
	p := &r.pools[pool]
	switch {
	case r.most[pool] == 0:
		return concurrency.SlotPaused
	case r.active[pool] >= r.most[pool]:
		return concurrency.SlotFull
	case p.Family != "" && r.active[pool] == 0 && r.keys[p.Family] >= p.MaxActiveKeys:
		return concurrency.SlotKeysFull
	}
	return ""
}

func (r *room) take(pool int32) {
	if r.active[pool]++; r.active[pool] == 1 {
		r.keys[r.pools[pool].Family]++
	}
}

func (w *work) holder(c *candidate) concurrency.Holder {
	return concurrency.Holder{Resource: c.resource, Group: w.group(c)}
}

// disrupting reports whether the holder that a candidate starts for is at work already: its execution is open, a job was created under its lease, or the
// host counts one.
func (w *work) disrupting(c *candidate) bool {
	if c.member != nil && c.member.pending == nil {
		return true
	}
	h := w.holder(c)
	leased, began := false, false
	look := func(record *concurrency.Record) {
		lease, held := record.Lease(h)
		leased = leased || held
		began = began || held && c.member == nil && slices.ContainsFunc(w.targets[c.target].Jobs, func(job Job) bool { return !job.CreatedAt.Before(lease.Since) })
	}
	for k := range w.capacity.snapshot.Pools {
		look(&w.capacity.snapshot.Pools[k].Record)
	}
	for k := range w.capacity.foreign {
		look(&w.capacity.foreign[k])
	}
	return !leased || began || w.capacity.unleased().holders[h]
}

// occupied reports whether somebody on the resource has had the place before this plan.
func (w *work) occupied(at poolPlace) bool {
	leases := w.capacity.snapshot.Pools[at.pool].Record.Leases
	_, held := slices.BinarySearchFunc(leases, at.resource, func(l concurrency.Lease, id string) int { return strings.Compare(l.Resource, id) })
	return held || w.capacity.unleased().places[at]
}

// unleased is who is down otherwise than by a lease.
type unleased struct {
	holders map[concurrency.Holder]bool
	places  map[poolPlace]bool
}

// unleased lists them when it is asked first.
func (c *capacity) unleased() *unleased {
	if c.down != nil {
		return c.down
	}
	c.down = &unleased{map[concurrency.Holder]bool{}, map[poolPlace]bool{}}
	for k := range c.snapshot.Pools {
		for _, holder := range c.snapshot.Pools[k].Jobs {
			c.down.holders[holder], c.down.places[poolPlace{int32(k), holder.Resource}] = true, true
		}
		for _, resource := range c.snapshot.Pools[k].Unavailable {
			c.down.places[poolPlace{int32(k), resource}] = true
		}
	}
	return c.down
}
