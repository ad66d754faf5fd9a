package rollout

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// A lease belongs to the pool in which it was taken. If a concurrency rule is renamed, added or
// grouped otherwise, or a resource is relabelled, a holder at work has no lease in the pool that it
// needs by now, and gets one only with its next start. Until then it would count nowhere: others
// would take the places of resources that are down already, and the holders of these would wait,
// drained, although a holder never waits. So a holder at work counts in every pool that it needs,
// as the host's own jobs do, and has a place there.
//
// A target outside brackets that waits for its next attempt is at work by its lease alone. If the
// pool of the lease is gone, or no longer has the resource, the target counts in the pools that
// came instead. In a pool that a rule adds beside the old one, the target does not count and must
// find a place before the next attempt. It is tempting to count it there. But after a planner gave
// back the leases in two pools and stopped in between, the lease in the remaining pool looks the
// same: a planner that still sees the failed job would then use a place that another holder has by
// now.

// incumbents adds to the pools the holders that are at work under their rules and have no lease
// there: open executions, targets with an active job, and holders of leases in pools that no longer
// count them.
func (w *work) incumbents() {
	if len(w.capacity.snapshot.Pools) == 0 {
		return
	}
	w.capacity.near = make([]int, len(w.capacity.snapshot.Pools))
	w.holdActive(w.holdExecuting())
	w.carryAll()
}

// holdExecuting counts the open executions and returns them in the order of their targets.
func (w *work) holdExecuting() []opened {
	var needs []int32
	w.eachOpen(w.plan.State.Executions, "", func(o opened) {
		needs = needs[:0]
		for i := o.from; i < o.to; i++ {
			more := w.targetNeeds(needs, 0, i)
			if len(more) == len(needs) {
				continue // mostly: the members on one resource need the same pools
			}
			if m := w.member(o, i); m != nil && m.Action != bracket.ActionSkip {
				needs = more
			}
		}
		places := w.hold(concurrency.Holder{Resource: o.record.Resource, Group: o.record.Open.Group}, needs)
		if len(places) > 0 {
			w.restOn(bracket.ExecutionKey(o.record.Rule, o.record.Resource), places)
		}
	})
	executing := slices.Clone(w.opened)
	slices.SortStableFunc(executing, func(a, b opened) int { return cmp.Compare(a.from, b.from) })
	return executing
}

// holdActive counts the targets with an active job that is no run of an execution in executing.
func (w *work) holdActive(executing []opened) {
	w.capacity.observed = make([][]string, len(w.capacity.snapshot.Pools))
	var needs []int32
	var group, prefix string // a group, and what the ids of its runs begin with
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
		if needs = w.targetNeeds(needs[:0], 0, int32(i)); len(needs) > 0 {
			for _, at := range w.hold(concurrency.Holder{Resource: t.Resource, Group: w.groupOf(t)}, needs) {
				w.capacity.observed[at.pool] = append(w.capacity.observed[at.pool], at.resource)
			}
		}
	}
}

// carryAll carries the leases whose pool is gone or no longer has their resource.
func (w *work) carryAll() {
	c := &w.capacity
	for k := range c.otherRecords {
		for _, lease := range c.otherRecords[k].Leases {
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
	return slices.ContainsFunc(w.capacity.of(resource), func(m membership) bool { return m.pool == pool })
}

// carry counts the holder of a lease whose pool no longer has its resource in the pools that the
// holder needs. The holder is a target outside brackets between two jobs, or an execution that was
// given up. An open execution is counted already.
func (w *work) carry(lease concurrency.Lease) {
	var needs []int32
	switch i, outside := w.single(lease.Holder); {
	case i != none:
		needs = w.targetNeeds(nil, 0, i)
	case !outside && lease.State == concurrency.Quarantined:
		_, environment, _, _ := bracket.ParseGroupID(lease.Group)
		r, known := w.resource(lease.Resource)
		e, there := w.environment(environment)
		if !known || !there {
			return
		}
		from, to := w.siblingsIn(e, r)
		for i := from; i < to; i++ {
			if w.members[i] {
				needs = w.targetNeeds(needs, 0, i)
			}
		}
	}
	w.restOn(PoolRecordKey(lease.Pool), w.hold(lease.Holder, needs))
}

// hold counts a holder in those of the pools in which it has no lease, and returns these places.
func (w *work) hold(h concurrency.Holder, pools []int32) (places []poolPlace) {
	for _, index := range pools {
		p := &w.capacity.snapshot.Pools[index]
		leases, near := p.Record.Leases, &w.capacity.near[index]
		*near = seek(len(leases), *near, func(k int) bool { return compareHolders(leases[k].Holder, h) < 0 })
		if *near == len(leases) || leases[*near].Holder != h {
			p.Jobs = append(p.Jobs, h)
			places = append(places, poolPlace{index, h.Resource})
		}
	}
	return places
}

// restOn notes that places in pools count because of another record than that of the pool.
func (w *work) restOn(record string, places []poolPlace) {
	c := &w.capacity
	for _, at := range places {
		put(&c.restsOn, at, append(c.restsOn[at], record))
	}
}

// restsOn returns the keys of the records, other than those of the pools, because of which the
// plan's starts found their resource in a pool. Saving the pool does not prove that these records
// were read as they are: the store may have listed an execution that is over and whose place
// another holder has by now.
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
