package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/runid"
)

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
