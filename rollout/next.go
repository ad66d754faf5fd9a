package rollout

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// NextAfter returns when a host that has carried out starts of the plan, all of them or any subset,
// should look again: at Next, or earlier if one of these comes before it:
//
//   - One of the jobs, should it hang, or its lease begins to count as stuck.
//   - The starts no longer count against the rate of a pool, for which others wait; or, if they use
//     it up, those before them no longer do.
//   - The cooldown of a version that starts is over, and a newer one may follow.
//   - The wait is over that a [CustomRule] imposes on a newer version when it sees the job in
//     progress.
//   - A nanosecond after Now, if an [Override] lets one of the starts past a full pool or a rate
//     that is used up, or if one brings a pool back into use while more pools are active than
//     maxActiveKeys allows. Once the job of that start is observed, others may start beside it. The
//     plan does not offer these, because the host may leave that start out. Nor does it offer what
//     waits for a place that is reserved in a strict pool for a group that must wait as soon as one
//     of the starts begins the execution of another environment on its resource, nor what the place
//     of an Override keeps out that would be given if another group of its rule did not begin.
//
// The jobs are taken to begin at Now; if they begin later, that is early enough. Zero: nothing
// happens by itself. Without starts it is Next.
//
// A host that sees its own jobs late, as through a cache, looks again when it sees them. If it
// looks at that nanosecond and does not see them yet, the plan offers the same starts again and
// NextAfter is a nanosecond later once more, and so on until the cache has caught up.
//
// For a plan that does not come from [PolicySet.Plan], such as a decoded one, NextAfter returns
// Now, so that the host looks again at once. Starts that the plan does not hold count for nothing.
func (p *Plan) NextAfter(starts []Start) time.Time {
	if len(starts) == 0 {
		return p.Next
	}
	if p.work == nil {
		return p.Now
	}
	next := wakeup{now: p.Now, next: p.Next}
	runs := make(map[string]bool, len(starts))
	for _, start := range starts {
		runs[start.Run] = true
	}
	for _, b := range p.work.stepped {
		next.wake(b.plan.NextAfter(b.state, runsIn(runs, b.plan.Start, b.plan.Redispatch)))
	}
	holders := map[concurrency.Holder]bool{}
	begin := map[int32]map[string]bool{}
	for i := range p.Start {
		if start := &p.Start[i]; runs[start.Run] {
			holders[start.holder()] = true
			p.afterClaims(start, &next, begin)
			p.work.coolsDown(start, next.wake)
			p.work.judgedAfter(start, next.wake)
		}
	}
	pools := p.work.capacity.snapshot.Pools
	for pool, resources := range begin { // who waits for another pool waits for the rate as well once it is used up
		if lets, opens := pools[pool].RateLets(len(resources)+1, p.Now); !lets {
			next.wake(opens)
			next.wake(p.Now.Add(time.Duration(pools[pool].Rate.PeriodSeconds) * time.Second))
		}
	}
	for i := range pools { // a start makes progress with all leases of its holder, also with one that it does not need
		if pool := &pools[i]; pool.StuckAfter > 0 && slices.ContainsFunc(pool.Record.Leases, func(l concurrency.Lease) bool { return holders[l.Holder] }) {
			next.wake(p.Now.Add(pool.StuckAfter))
		}
	}
	return next.next
}

// afterClaims wakes the host for what the claims of a start keep from others for a time. begin
// gets, by pool with a rate that others need, the resources that begin.
func (p *Plan) afterClaims(start *Start, next *wakeup, begin map[int32]map[string]bool) {
	if p.work.groupVetoed || p.work.freeing[start.holder()] {
		next.wake(p.Now.Add(1))
	}
	for _, claim := range start.Claims {
		pool, known := p.work.capacity.keys[claim.Pool]
		if !known {
			continue
		}
		next.wake(p.Now.Add(p.work.capacity.snapshot.Pools[pool].StuckAfter))
		if claim.PeriodSeconds > 0 && p.work.ratesUsed[pool] {
			next.wake(p.Now.Add(time.Duration(claim.PeriodSeconds) * time.Second))
		}
		if claim.PeriodSeconds > 0 && p.work.ratesNeeded[pool] {
			if begin[pool] == nil {
				begin[pool] = map[string]bool{}
			}
			begin[pool][start.Resource] = true
		}
		if at := (poolPlace{pool, start.Resource}); p.work.beyondLimit[at] || p.work.beyondRate[at] || p.work.reactivated[pool] {
			next.wake(p.Now.Add(1)) // nobody is let in beside a lease beyond the limit until its job is seen
		}
	}
}
