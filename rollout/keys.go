package rollout

import (
	"maps"
	"math"
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
)

// Of the pools of a rule with maxActiveKeys only so many may be active at once. Each pool has a
// record of its own, so two planners that make different pools active would not notice one another.
// So there is one more record, of the family. A planner that begins something writes it last of
// all, on condition that no other planner did since it was read, and lists there the leases under
// which it begins. A planner that meets a conflict there, or stops before it, leaves leases that
// are not listed. Nothing is dispatched under them, and nothing will be: if their planner is only
// slow, it meets the conflict as soon as another one begins something. These leases keep their
// places, but make no pool active; their holders ask for a key like all others.
//
// It would be simpler to take such leases for active as well. But two planners that stop so at the
// same time would leave more active pools than there may be, and nothing could ever begin. It is
// tempting to give them back. But their planner may only be slow, and confirm them a moment later.

// family returns the record that relates the pools of one family, as it was read. No pool has its
// key: Compile refuses a shared pool with the name of a rule.
func (w *work) family(key string) concurrency.Record {
	k, known := poolAt(w.capacity.otherRecords, key)
	if !known {
		return concurrency.Record{}
	}
	return w.capacity.otherRecords[k]
}

// unconfirmed finds the leases that give their holders no key.
func (w *work) unconfirmed() {
	for _, lease := range w.idle {
		index, known := w.capacity.keys[lease.Pool]
		if !known || lease.used || lease.State != concurrency.Active {
			continue
		}
		p := &w.capacity.snapshot.Pools[index]
		if !w.family(p.Family).Confirms(lease.Lease) { // a pool without a family has no list, which confirms all
			p.Keyless = append(p.Keyless, lease.Holder)
		}
	}
}

// keyless vetoes the candidates that would begin in a pool without a key. Such a pool counts as
// active only for claims and jobs of which no use is seen any more, while more pools of its family
// are active than may be. A candidate that has confirmed its own claim is not vetoed, because
// there was a key for it. keyless reports whether it vetoed any.
//
// The places of those that it vetoes go to others that need the same pools, which would be vetoed
// in their turn, a few in each round. So it vetoes them with the first, but for those that need a
// strict pool: there nobody starts before who waits, and who is vetoed does not hold up others.
func (w *work) keyless() bool {
	unkeyed := w.unkeyed()
	if unkeyed == nil {
		return false
	}
	anybody := w.veto(func(c *candidate, pool int32) concurrency.Reason {
		if unkeyed(c, pool) {
			return concurrency.SlotKeysFull
		}
		return ""
	})
	if !anybody || w.oneByOne {
		return anybody
	}
	for _, refused := range w.admission.Refused {
		k := w.batch[refused.Candidate]
		needs := w.requests[refused.Candidate].Needs
		if w.vetoed[k] != nil || slices.ContainsFunc(needs, w.isStrict) {
			continue
		}
		c := w.candidates.at(k)
		for _, pool := range needs {
			if unkeyed(c, pool) {
				put(&w.vetoed, k, append(w.vetoed[k], concurrency.Refusal{Pool: pool, Reason: concurrency.SlotKeysFull}))
				put(&w.foreseen, k, true)
			}
		}
	}
	return true
}

// dropForeseen takes back the vetoes that keyless foresaw if one of them has come to nothing,
// because a start that made one pool more active is refused after all. From then on those are
// vetoed that are admitted. dropForeseen reports whether it took back any.
func (w *work) dropForeseen() bool {
	unkeyed := w.unkeyed()
	for k := range w.foreseen {
		stands := func(r concurrency.Refusal) bool { return unkeyed != nil && unkeyed(w.candidates.at(k), r.Pool) }
		if slices.ContainsFunc(w.vetoed[k], stands) {
			continue
		}
		for k := range w.foreseen {
			delete(w.vetoed, k)
		}
		w.foreseen, w.oneByOne = nil, true
		return true
	}
	return false
}

// unkeyed returns a function that reports whether a candidate would be vetoed in a pool for want
// of a key. It returns nil if no family has more active pools than it may have.
func (w *work) unkeyed() func(c *candidate, pool int32) bool {
	unused := w.unusedKeys()
	if unused == nil {
		return nil
	}
	return func(c *candidate, pool int32) bool {
		return unused(pool) && !w.keyHeld(c, &w.capacity.snapshot.Pools[pool]) && !w.forced(c, pool)
	}
}

// unusedKeys returns a function that reports whether a pool counts as active only for leases that
// nobody is seen to use, in a family with more active pools than it may have. It returns nil if
// there is no such family.
func (w *work) unusedKeys() func(pool int32) bool {
	pools := w.capacity.snapshot.Pools
	keys := w.activeKeys()
	if !slices.ContainsFunc(pools, func(p concurrency.Pool) bool { return keys[p.Family] > p.MaxActiveKeys }) {
		return nil
	}
	idle := map[poolHolder]bool{} // an open execution uses its own leases
	for _, lease := range w.idle {
		idle[poolHolder{lease.Pool, lease.Holder}] = true
	}
	inUse := map[int32]bool{}
	return func(pool int32) bool {
		p := &pools[pool]
		if keys[p.Family] <= p.MaxActiveKeys {
			return false
		}
		used, known := inUse[pool]
		if !known {
			used = len(w.inUseBesides(pool, idle)) > 0 || len(p.Unavailable) > 0
			inUse[pool] = used
		}
		return !used
	}
}

// noteReactivated notes the pools without a key that a start brings back into use, under a lease
// that had one.
func (w *work) noteReactivated() {
	unused := w.unusedKeys()
	if unused == nil {
		return
	}
	w.reactivated = map[int32]bool{}
	for _, admitted := range w.admission.Admitted {
		for _, claim := range admitted.Claims {
			if unused(claim.Pool) {
				w.reactivated[claim.Pool] = true
			}
		}
	}
}

type poolHolder struct {
	pool string
	concurrency.Holder
}

// keyHeld reports whether a candidate has had a key by the lease that it has in a pool: the lease
// was confirmed while there was a key, or a target outside brackets had a job under the lease as it
// is. A job that was seen before the last start under the lease says nothing, whatever instant it
// was created at, because the clocks of planners differ. In doubt keyHeld reports false: then all
// wait until the leases are given back.
func (w *work) keyHeld(c *candidate, p *concurrency.Pool) bool {
	lease, held := p.Record.Lease(concurrency.Holder{Resource: w.resourceOf(c), Group: w.group(c)})
	if !held {
		return false
	}
	if family := w.family(p.Family); family.Confirmed != nil && family.Confirms(lease) && lease.Reason != reasonOverridden {
		return true
	}
	if c.member != nil {
		return false
	}
	jobs := w.targets[c.target].history()
	for k := range jobs.len() {
		if !jobs.at(k).CreatedAt.Before(lease.Since) && proves(jobs, k, lease.ProgressAt) {
			return true
		}
	}
	return false
}

// activate confirms, in the records of the families, the leases under which starts begin.
func (c *claiming) activate() {
	begun := map[string][]concurrency.Confirmation{} // by family
	for n, start := range c.starts {
		for _, claim := range c.admitted[n].Claims {
			key := c.State.Pools[claim.Pool].Key
			family := c.work.capacity.snapshot.Pools[c.work.capacity.keys[key]].Family
			if family == "" || c.executes(start) {
				continue
			}
			begun[family] = append(begun[family], concurrency.Confirmation{Pool: key, Token: claim.Token})
		}
	}
	for _, family := range slices.Sorted(maps.Keys(begun)) {
		k, known := poolAt(c.records, family)
		if !known {
			c.records = slices.Insert(c.records, k, concurrency.NewRecord(family))
		}
		record := &c.records[k]
		if record.NextToken < math.MaxUint64 {
			record.NextToken++
		}
		record.Confirmed = c.confirm(*record, begun[family])
	}
}

// confirm returns the leases that the record of a family confirms and that have not been given back
// since, with those under which something begins now. If the list was not kept so far, it confirms
// every lease, because the holder of each may have begun under it.
func (p *Plan) confirm(family concurrency.Record, begun []concurrency.Confirmation) []concurrency.Confirmation {
	list := []concurrency.Confirmation{}
	for _, record := range poolsOf(p.State.Pools, family.Key) {
		for _, lease := range record.Leases {
			if family.Confirms(lease) {
				list = append(list, concurrency.Confirmation{Pool: lease.Pool, Token: lease.Token})
			}
		}
	}
	list = append(list, begun...)
	slices.SortFunc(list, concurrency.Confirmation.Compare)
	return slices.Compact(list)
}
