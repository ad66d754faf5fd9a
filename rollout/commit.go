package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/runid"
)

// Commit returns the state that follows when starts of the plan, all of them or any subset in any
// order, are carried out at now. In that state bracket runs are marked as started and slots are
// claimed. The host saves it, on condition that what it read has not changed, and only then
// dispatches.
//
// Each call begins with the plan's own state, which it does not modify, so pass all starts that are
// carried out to one call. Without starts, Commit returns that state as it is, whatever now is.
//
// The plan must be the one that [PolicySet.Plan] returned: for starts of a decoded copy the error
// is [ErrDecodedPlan]. Starts are identified by their run ids; for one that the plan does not hold
// the error is [bracket.ErrStale]. A now that is zero, or beyond 2262, is a *[FieldError].
func (p *Plan) Commit(starts []Start, now time.Time) (State, error) {
	next := p.State
	if len(starts) == 0 {
		return next, nil
	}
	if p.work == nil {
		return State{}, ErrDecodedPlan
	}
	if err := validateNow(now); err != nil { // a lease taken at a zero one would be the oldest of all
		return State{}, err
	}
	offered := make(map[string]*Start, len(p.Start))
	for i := range p.Start {
		offered[p.Start[i].Run] = &p.Start[i]
	}
	runs := map[string]bool{}
	for _, start := range starts {
		if offered[start.Run] == nil {
			return State{}, stale("the plan offers no start with the run id %q", start.Run)
		}
		runs[start.Run] = true
	}
	var err error
	if next.Brackets, next.Executions, err = p.commitBrackets(runs, now); err != nil {
		return State{}, err
	}
	if next.Pools, err = p.claim(runs, now); err != nil {
		return State{}, err
	}
	return next, nil
}

// distinctStarts returns the starts in their order, each run once: Commit takes them for a set too.
// The list is the host's, and is left as it is.
func distinctStarts(starts []Start) []Start {
	seen := make(map[string]bool, len(starts))
	return slices.DeleteFunc(slices.Clone(starts), func(start Start) bool {
		before := seen[start.Run]
		seen[start.Run] = true
		return before
	})
}

// staleError is [bracket.ErrStale] about a start that need not be of a bracket: a host looks for one
// sentinel, but the text of that one speaks of brackets.
type staleError string

func stale(format string, about ...any) error {
	return staleError("rollout: " + fmt.Sprintf(format, about...))
}

func (e staleError) Error() string { return string(e) }
func (e staleError) Unwrap() error { return bracket.ErrStale }

func (p *Plan) commitBrackets(runs map[string]bool, now time.Time) ([]*bracket.GroupRecord, []*bracket.ExecutionRecord, error) {
	groups := slices.Clone(p.State.Brackets)
	places := make(map[*bracket.GroupRecord]int, len(groups))
	for k, record := range groups {
		places[record] = k
	}
	records := slices.SortedFunc(slices.Values(p.State.Executions), compareExecutions)
	var changed []*bracket.ExecutionRecord
	for _, b := range p.work.stepped {
		own := runsIn(runs, b.plan.Start)
		if len(own) == 0 {
			continue
		}
		// A rule may have as many environments as records: each gets only those that it changes.
		state := b.state
		state.Executions = recordsOf(records, b.id, own)
		next, err := b.plan.Commit(state, own, now)
		if err != nil {
			return nil, nil, err
		}
		changed = append(changed, next.Executions...)
		if k, stored := places[b.state.Group]; stored {
			groups[k] = next.Group
		}
	}
	slices.SortFunc(changed, compareExecutions)
	return groups, withExecutions(records, changed), nil
}

// recordsOf returns the records of a rule on the resources of some runs, in order of the resources.
func recordsOf(records []*bracket.ExecutionRecord, rule string, runs []bracket.Run) (own []*bracket.ExecutionRecord) {
	for _, run := range runs {
		at := &bracket.ExecutionRecord{Rule: rule, Resource: run.Resource}
		if k, known := slices.BinarySearchFunc(records, at, compareExecutions); known {
			own = append(own, records[k])
		}
	}
	slices.SortFunc(own, compareExecutions)
	return slices.Compact(own)
}

// runsIn returns those runs of a bracket's starts whose ids are in a set.
func runsIn(set map[string]bool, lists ...[]bracket.Start) []bracket.Run {
	var own []bracket.Run
	for _, list := range lists {
		for k := range list {
			if run := list[k].Run; set[run.String()] {
				own = append(own, run)
			}
		}
	}
	return own
}

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
// For a plan that does not come from [PolicySet.Plan], such as a decoded one, NextAfter returns Now,
// so that the host looks again at once. Starts that the plan does not hold count for nothing.
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

// claiming holds the records of a plan's pools while starts claim their places in them.
type claiming struct {
	*Plan
	records  []concurrency.Record // by key; one for each record of the plan until the families are confirmed
	own      []bool               // per record: whether its leases are a copy of this call
	starts   []*Start
	admitted []concurrency.Admitted // per start: its claims, with the indices of the records
}

// claim adds the leases of the starts to the records of their pools.
func (p *Plan) claim(runs map[string]bool, now time.Time) ([]concurrency.Record, error) {
	c := claiming{Plan: p, records: slices.Clone(p.State.Pools), own: make([]bool, len(p.State.Pools))}
	snapshot := concurrency.Snapshot{Pools: make([]concurrency.Pool, len(c.records))}
	for k, record := range c.records {
		snapshot.Pools[k] = concurrency.Pool{Key: record.Key, Record: record}
	}
	var candidates []concurrency.Candidate
	for i := range p.Start {
		start := &p.Start[i]
		if !runs[start.Run] {
			continue
		}
		own := concurrency.Admitted{Candidate: int32(len(candidates))}
		for _, claim := range start.Claims {
			k, known := poolAt(c.records, claim.Pool)
			if !known {
				return nil, stale("start %s claims pool %s, which the plan's state does not hold", start.Run, claim.Pool)
			}
			own.Claims = append(own.Claims, concurrency.Claim{Pool: int32(k), Revision: claim.Revision, Token: claim.Token, PeriodSeconds: claim.PeriodSeconds})
		}
		candidates = append(candidates, concurrency.Candidate{Resource: start.Resource, Group: start.Group})
		c.starts, c.admitted = append(c.starts, start), append(c.admitted, own)
	}
	changed, err := concurrency.Apply(snapshot, candidates, c.admitted, now)
	if err != nil {
		return nil, err
	}
	for _, record := range changed {
		k, _ := poolAt(c.records, record.Key)
		c.records[k], c.own[k] = record, true
	}
	if err := c.again(); err != nil {
		return nil, err
	}
	c.mark()
	c.activate()
	return c.records, nil
}

// lease returns the lease that a holder has in a pool; the caller may change it.
func (c *claiming) lease(pool int32, h concurrency.Holder) *concurrency.Lease {
	record := &c.records[pool]
	if !c.own[pool] {
		record.Leases, c.own[pool] = slices.Clone(record.Leases), true
	}
	return &record.Leases[leaseAt(record.Leases, h)]
}

// holder returns the holder of the slots of a start.
func (s *Start) holder() concurrency.Holder {
	return concurrency.Holder{Resource: s.Resource, Group: s.Group}
}

// executes reports whether a start is of an execution that was open before it.
func (p *Plan) executes(start *Start) bool {
	rule, _, _, _ := bracket.ParseGroupID(start.Group) // the group of a target outside brackets yields a rule without executions
	record := p.work.execution(rule, start.Resource)
	return record != nil && record.Open != nil
}

// again notes in the leases that were held already that their holders start under them once more.
// Such a holder is a target outside brackets, or an execution that begins after a host claimed for
// it and stopped before it saved it. From then on jobs seen before prove neither that the group has
// ended nor that nobody uses the lease. Otherwise a planner would give away the slot of a running
// job if it still saw only the old jobs, under policies or labels by which nothing is left to
// repeat, or still took the lease for an orphan. The note is a nanosecond late, which tells the
// start from an end at the same instant; see [proves]. For the same reason the note, also in a new
// lease, is no earlier than the ends that the start follows, which may lie ahead of a clock that is
// behind.
func (c *claiming) again() error {
	for n, start := range c.starts {
		if c.executes(start) {
			continue
		}
		var jobs history // of the target
		if strings.HasPrefix(start.Group, runid.Reserved+"/") {
			i := c.work.target(start.TargetID)
			if i == none { // the host has changed the start in the plan
				return stale("start %s is on %s, which the snapshot does not hold", start.Run, start.TargetID)
			}
			jobs = c.work.targets[i].history()
		}
		for _, claim := range c.admitted[n].Claims {
			_, held := c.State.Pools[claim.Pool].Lease(start.holder())
			if !held && jobs.len() == 0 {
				continue
			}
			before, _ := c.records[claim.Pool].Lease(start.holder())
			seen := lastEnd(jobs, before.Since)
			if held {
				if seen = later(seen, c.Now.Add(1)); before.ProgressAt.After(seen) {
					seen = before.ProgressAt.Add(1) // by a clock that is ahead; Release sees a use only if it is noted
				}
			}
			stuck := before.Reason == reasonStuck // by a job that has vanished: the start is progress
			if !before.ProgressAt.Before(seen) && !stuck {
				continue
			}
			lease := c.lease(claim.Pool, start.holder())
			lease.ProgressAt = later(lease.ProgressAt, seen)
			if stuck {
				lease.State, lease.Reason = concurrency.Active, ""
			}
		}
	}
	return nil
}

// lastEnd returns the instant from which the jobs that pass for jobs of a lease prove nothing; zero
// if there are none. All of them have ended, because their target starts.
func lastEnd(jobs history, since time.Time) (last time.Time) {
	for k := range jobs.len() {
		job := jobs.at(k)
		if job.CreatedAt.Before(since) {
			continue
		}
		after := job.CompletedAt.Add(1)
		if !job.CompletedAt.After(job.CreatedAt) {
			after = job.CreatedAt.Add(atOnce(jobs, job.CreatedAt) + 1)
		}
		if after.After(last) {
			last = after.UTC()
		}
	}
	return last
}
