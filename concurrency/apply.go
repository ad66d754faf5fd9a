package concurrency

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Apply returns, in ascending order of the pools' keys, the changed records of the pools in which
// the starts take new leases. starts are any of the plan's Admitted, in any order; candidates and
// snapshot are those of the plan.
//
// The host writes each record on condition that the stored one is still at its Revision, all in one
// transaction or one by one in the order given. It dispatches only after the last write. A host
// that is cut off in between has claimed too much, never too little: the next plan finds the
// holders, or [Record.Orphans] lists them.
//
// A lease that a start has already changes no record. So no write tells the host that it was given
// back meanwhile, and that another resource may have the place. Where another planner can give it
// back, the host writes that record as it is, on the same condition, or refuses at the dispatch a
// token that is not that of a lease any more.
//
// Writing one by one is for a host whose candidates no other planner starts. If a later record is
// refused because the stored one has changed, it releases the leases already written. Another
// planner that starts the same candidate has the same leases, with the same tokens, and could be at
// work under one that is released here. If candidates may be started by several planners, a paused
// one and its successor included, use a transaction. A store that saves one value at a time has the
// same if the records of all pools are one value: the Revision of each record, also of a new one,
// is then that of the value.
//
// Where pools overlap, use a transaction, or set Begins in the next plan's [Candidate]. Otherwise a
// candidate that got the lease of one pool is a holder: the next plan admits it to the other pools,
// even if their places have been taken meanwhile.
//
// With an error Apply returns no records. The error is [ErrConflict] or [ErrFenced] if the
// snapshot's records are not those of the plan, and [ErrFenced] if the starts are those of several
// plans, so that two holders would have one token, or one holder two. It is a *[FieldError] for a
// name or key that is not UTF-8, a now that is not in the years 1 to 9999, or a start of a
// candidate or pool that is not there.
func Apply(snapshot Snapshot, candidates []Candidate, starts []Admitted, now time.Time) ([]Record, error) {
	if err := checkClaiming(now); err != nil {
		return nil, err
	}
	added := make([][]Lease, len(snapshot.Pools))
	begun := make([]beginnings, len(snapshot.Pools))
	for i, s := range starts {
		if s.Candidate < 0 || int(s.Candidate) >= len(candidates) {
			var f faults
			return nil, f.add(fmt.Sprintf("starts[%d].candidate", i), CodeOutOfRange, s.Candidate, "must be an index of the %d candidates, which must be those of the plan", len(candidates)).err()
		}
		c := &candidates[s.Candidate]
		for k, claim := range s.Claims {
			if claim.Pool < 0 || int(claim.Pool) >= len(added) {
				var f faults
				return nil, f.add(fmt.Sprintf("starts[%d].claims[%d].pool", i, k), CodeOutOfRange, claim.Pool, "must be an index of the %d pools of the snapshot, which must be that of the plan", len(added)).err()
			}
			p := &snapshot.Pools[claim.Pool]
			held, ok := p.Record.Lease(Holder{c.Resource, c.Group})
			if ok && held.Token == claim.Token {
				continue
			}
			if claim.Revision != p.Record.Revision {
				return nil, fmt.Errorf("%w: pool %s is at revision %d, the start of %s was planned at %d", ErrConflict, p.Key, p.Record.Revision, Holder{c.Resource, c.Group}, claim.Revision)
			}
			if ok {
				return nil, held.proves(claim.Token)
			}
			added[claim.Pool] = append(added[claim.Pool], newLease(p.Key, Holder{c.Resource, c.Group}, claim.Token, now))
			if p.Record.begins(claim, c.Resource) {
				begun[claim.Pool].add(c.Resource, claim.PeriodSeconds)
			}
		}
	}
	var records []Record
	for i, leases := range added {
		if len(leases) == 0 {
			continue
		}
		slices.SortFunc(leases, func(a, b Lease) int { return cmp.Compare(a.Token, b.Token) })
		leases = slices.Compact(leases) // several candidates of one holder may have the same lease
		record, err := snapshot.Pools[i].record().claim(leases)
		if err != nil {
			return nil, err
		}
		if b := &begun[i]; len(b.resources) > 0 {
			record.Begun = record.begin(len(b.resources), b.seconds, now)
		}
		records = append(records, record)
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Key, b.Key) })
	return records, nil
}

// beginnings are the resources that begin in a pool by some starts.
type beginnings struct {
	resources map[string]bool
	seconds   int32 // of the pool's Rate
}

func (b *beginnings) add(resource string, seconds int32) {
	if b.resources == nil {
		b.resources = map[string]bool{}
	}
	b.resources[resource], b.seconds = true, seconds
}
