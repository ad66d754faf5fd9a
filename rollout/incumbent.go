package rollout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// A lease belongs to the pool that it was taken in. When somebody renames a concurrency rule, adds
// one, changes what it groups by, or relabels a resource, whoever is at work has no lease in the
// pool that it needs by now, and gets one with its next start only. Until then it would count
// nowhere: others would take the places of those who are down already, and these would wait for
// them, drained, although a holder never waits. So whoever is at work counts in every pool that it
// needs, as the host's own jobs do, and holds a place there.
//
// A target outside brackets that waits for its next attempt is at work by its lease alone. If the
// pool of that has gone, or has left its resource, it counts in those that came instead. In one
// that a rule adds beside it does not, and has to find a place there before the next attempt. To
// count it would be tempting, but a lease in one pool of two looks the same after a planner that
// gave both back was stopped in between: whoever still sees the failed job would then have a place
// that is somebody else's by now.

// incumbents adds to the pools who is at work under their rules and has no lease in them: open
// executions, targets with an active job, and holders of leases in pools that do not count them any
// more.
func (w *work) incumbents() {
	if len(w.capacity.snapshot.Pools) == 0 {
		return
	}
	w.holdActive(w.holdExecuting())
	w.carryAll()
}

// holdExecuting counts the executions that are open, and returns them by their targets.
func (w *work) holdExecuting() (executing []opened) {
	var needs []int32
	w.eachOpen(w.plan.State.Executions, "", func(o opened) {
		needs = needs[:0]
		for i := o.from; i < o.to; i++ {
			if m := w.member(o, i); m != nil && m.Action != bracket.ActionSkip {
				needs = w.needs(needs, 0, i)
			}
		}
		places := w.hold(concurrency.Holder{Resource: o.record.Resource, Group: o.record.Open.Group}, needs)
		w.restOn(bracket.ExecutionKey(o.record.Rule, o.record.Resource), places)
		executing = push(executing, o)
	})
	slices.SortStableFunc(executing, func(a, b opened) int { return cmp.Compare(a.from, b.from) })
	return executing
}

// holdActive counts the targets with an active job that is no run of one of these executions.
func (w *work) holdActive(executing []opened) {
	var needs []int32
	var group, prefix string // what the ids of the runs of a group begin with
	executes := func(job Job) bool {
		for k := range executing {
			if executing[k].from != executing[0].from {
				break
			}
			if own := executing[k].record.Open.Group; own != group {
				group, prefix = own, textkey.Join(own)+"/"
			}
			if strings.HasPrefix(job.Run, prefix) {
				return true
			}
		}
		return false
	}
	for i := range w.targets {
		t := &w.targets[i]
		if !t.busy {
			continue
		}
		for len(executing) > 0 && executing[0].to <= int32(i) {
			executing = executing[1:]
		}
		if len(executing) > 0 && executing[0].from <= int32(i) &&
			!slices.ContainsFunc(t.Jobs, func(job Job) bool { return !job.Status.Terminal() && !executes(job) }) {
			continue
		}
		if needs = w.needs(needs[:0], 0, int32(i)); len(needs) > 0 {
			w.capacity.observed = append(w.capacity.observed, w.hold(concurrency.Holder{Resource: t.Resource, Group: w.groupOf(t)}, needs)...)
		}
	}
}

// carryAll carries the leases of which the pool has gone, or has left their resource.
func (w *work) carryAll() {
	c := &w.capacity
	for k := range c.foreign {
		for _, lease := range c.foreign[k].Leases {
			w.carry(lease)
		}
	}
	for k := range c.snapshot.Pools {
		r := 0
		for _, lease := range c.snapshot.Pools[k].Record.Leases {
			r = seek(len(w.resources), r, func(k int) bool { return w.resources[k].ID < lease.Resource })
			if r < len(w.resources) && w.resources[r].ID == lease.Resource && !w.inPool(int32(r), int32(k)) {
				w.carry(lease)
			}
		}
	}
}

// inPool reports whether a resource is a member of a pool.
func (w *work) inPool(resource, pool int32) bool {
	for _, pools := range w.capacity.byRule {
		if pools[resource] == pool {
			return true
		}
	}
	return false
}

// carry counts the holder of a lease whose pool does not have its resource any more, in the pools
// of what it is at work on: a target outside brackets between two jobs, or an execution that was
// given up. One that is open is counted already.
func (w *work) carry(lease concurrency.Lease) {
	var needs []int32
	switch i, outside := w.single(lease.Holder); {
	case i != none:
		needs = w.needs(nil, 0, i)
	case !outside && lease.State == concurrency.Quarantined:
		_, environment, _, _ := groupNumber(lease.Group)
		r, known := w.resource(lease.Resource)
		e, there := w.environment(environment)
		if !known || !there {
			return
		}
		from, to := w.siblingsIn(e, r)
		for i := from; i < to; i++ {
			if w.members[i] {
				needs = w.needs(needs, 0, i)
			}
		}
	}
	w.restOn(PoolRecordKey(lease.Pool), w.hold(lease.Holder, needs))
}

// hold counts a holder in those of some pools in which it has no lease, and returns these places.
func (w *work) hold(h concurrency.Holder, pools []int32) (places []poolPlace) {
	for _, index := range pools {
		p := &w.capacity.snapshot.Pools[index]
		if _, holds := p.Record.Lease(h); !holds {
			p.Jobs = append(p.Jobs, h)
			places = append(places, poolPlace{index, h.Resource})
		}
	}
	return places
}

// restOn notes that places in pools count because of what a record says that is not the pool's.
func (w *work) restOn(record string, places []poolPlace) {
	c := &w.capacity
	for _, at := range places {
		if c.restsOn == nil {
			c.restsOn = map[poolPlace][]string{}
		}
		c.restsOn[at] = append(c.restsOn[at], record)
	}
}

// restsOn are the keys of the records, other than those of the pools, because of which the plan's
// starts found their resource in a pool. Saving the pool does not prove that they were read as they
// are: the store may have listed an execution that is over, and whose place is somebody else's by
// now.
func (p *Plan) restsOn() []string {
	c := &p.work.capacity
	if len(c.restsOn) == 0 {
		return nil
	}
	var records []string
	for k := range p.Start {
		start := &p.Start[k]
		for _, claim := range start.Claims {
			pool := c.keys[claim.Pool]
			if _, held := c.snapshot.Pools[pool].Record.Lease(start.holder()); !held {
				records = append(records, c.restsOn[poolPlace{pool, start.Resource}]...)
			}
		}
	}
	slices.Sort(records)
	return slices.Compact(records)
}

// doubtOn doubts whoever was admitted, without an override of its own, on one of some places, in
// pools that have no other. An execution that is open has a place that counts for itself. It
// reports whether there was anybody: then the slots have to be given anew.
func (w *work) doubtOn(places map[poolPlace]concurrency.Reason) bool {
	return len(places) > 0 && w.doubt(func(c *candidate, pool int32) concurrency.Reason {
		if w.forced(c, pool) {
			return ""
		}
		return places[poolPlace{pool, c.resource}]
	})
}

// doubt notes who is refused although the pools would admit them, and what these pools say.
func (w *work) doubt(why func(c *candidate, pool int32) concurrency.Reason) (anybody bool) {
	for _, admitted := range w.answer.Admitted {
		k := w.turns[admitted.Candidate]
		c := &w.candidates[k]
		for _, claim := range admitted.Claims {
			if reason := why(c, claim.Pool); reason != "" {
				if w.doubted == nil {
					w.doubted = map[int32][]concurrency.Refusal{}
				}
				w.doubted[k] = append(w.doubted[k], concurrency.Refusal{Pool: claim.Pool, Reason: reason})
				anybody = true
			}
		}
	}
	return anybody
}

// overfull says of each pool that has more than its rule allows, or is paused, what it would answer
// to one more; empty: it is neither.
func (w *work) overfull() []concurrency.Reason {
	pools := w.capacity.snapshot.Pools
	keys := w.activeKeys()
	reasons := make([]concurrency.Reason, len(pools))
	for k := range pools {
		switch pool := &w.answer.Pools[k]; {
		case pool.Max == 0, pool.Active > pool.Max:
			reasons[k] = noRoom(pool)
		case keys[pools[k].Family] > pools[k].MaxActiveKeys:
			reasons[k] = concurrency.SlotKeysFull
		}
	}
	return reasons
}

// activeKeys counts the pools of each family that are among the active ones. A pool without family
// is among none.
func (w *work) activeKeys() map[string]int {
	keys := map[string]int{}
	for k, p := range w.capacity.snapshot.Pools {
		if w.answer.Pools[k].KeyActive {
			keys[p.Family]++
		}
	}
	return keys
}

// unprovedPlaces are the places in overfull pools that count for nothing but jobs that the snapshot
// shows on targets, and what the pool says to whoever would start on one. A host sees the jobs
// before the records are read: the job may have ended meanwhile, its lease been given back, and the
// place be somebody else's. So such a job keeps others out, and lets nobody in who would find no
// place without it.
func (w *work) unprovedPlaces() map[poolPlace]concurrency.Reason {
	c := &w.capacity
	if len(c.observed) == 0 {
		return nil
	}
	overfull := w.overfull()
	others := map[poolPlace]int{} // what a place counts for besides
	for _, at := range c.observed {
		if overfull[at.pool] != "" {
			others[at]-- // it is one of the pool's jobs
		}
	}
	if len(others) == 0 {
		return nil
	}
	for k := range c.snapshot.Pools {
		if overfull[k] == "" {
			continue
		}
		count := func(resource string) {
			at := poolPlace{int32(k), resource}
			if n, observed := others[at]; observed {
				others[at] = n + 1
			}
		}
		p := &c.snapshot.Pools[k]
		for _, holder := range p.Jobs {
			count(holder.Resource)
		}
		for _, lease := range p.Record.Leases {
			count(lease.Resource)
		}
		for _, resource := range p.Unavailable {
			count(resource)
		}
	}
	alone := map[poolPlace]concurrency.Reason{}
	for at, n := range others {
		if n == 0 {
			alone[at] = overfull[at.pool]
		}
	}
	return alone
}

// allOf are the refusals of a candidate, those for which it was doubted included, and those for
// which it would be if the others were gone, one for each pool; own says that there are such. What
// the pools said is shared: it is not written to.
func (w *work) allOf(refusals []concurrency.Refusal, k int32, c *concurrency.Candidate, places map[poolPlace]concurrency.Reason, unkeyed func(*candidate, int32) bool) (_ []concurrency.Refusal, own bool) {
	all, doubted := refusals, w.doubted[k]
	if own = doubted != nil; !own && len(places) == 0 && unkeyed == nil {
		return all, false
	}
	pools := w.capacity.snapshot.Pools
	if own {
		all = slices.DeleteFunc(slices.Clone(refusals), func(r concurrency.Refusal) bool { return int(r.Pool) == len(pools) })
		for _, r := range doubted { // the pool may have refused it by itself since, for the start that lent the place was refused elsewhere
			if !slices.ContainsFunc(all, func(o concurrency.Refusal) bool { return o.Pool == r.Pool }) {
				all = append(all, r)
			}
		}
	}
	for _, pool := range c.Needs {
		if int(pool) == len(pools) || slices.ContainsFunc(all, func(r concurrency.Refusal) bool { return r.Pool == pool }) {
			continue
		}
		reason := places[poolPlace{pool, c.Resource}]
		if reason == "" && unkeyed != nil && unkeyed(&w.candidates[k], pool) {
			reason = concurrency.SlotKeysFull
		}
		if reason != "" {
			all, own = append(slices.Clip(all), concurrency.Refusal{Pool: pool, Reason: reason}), true
		}
	}
	if own {
		slices.SortStableFunc(all, func(a, b concurrency.Refusal) int { return strings.Compare(pools[a.Pool].Key, pools[b.Pool].Key) })
	}
	return all, own
}
