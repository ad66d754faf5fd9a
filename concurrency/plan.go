package concurrency

import (
	"fmt"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Result is what [Plan] decided. It shares nothing with the input but strings and, see [Summary],
// lists of them.
type Result struct {
	// Admitted are the candidates that may start now, in the order of admission: first those that
	// consume nothing whatever else starts, then by rank. The host may leave out any of them.
	Admitted []Admitted
	// Refused are the candidates that wait, by rank.
	Refused []Refused
	// Refusals are the different answers that refused candidates got, each once, because most
	// candidates wait for the same reasons as others. An answer lists all pools that refuse, in
	// ascending order of their keys.
	Refusals [][]Refusal
	// Pools describes the snapshot's pools, at the same indices.
	Pools []Summary
	// Stuck are the leases without progress for too long, by pool key, resource and group. If
	// OnStuck of the pool is Quarantine, Plan has treated them as quarantined. The host stores that
	// with [Record.Quarantine]; they stay listed.
	Stuck []Stuck
	// Next is the earliest instant after now at which another lease becomes stuck, or the [Rate] of a
	// pool that refuses a candidate lets one more member begin (RateOpens of its [Summary]). Until
	// then, and without a new observation, the result stays the same. Zero means that it never changes
	// by itself. A start is a new observation: it may be stuck StuckAfter of its pools later, and
	// counts in their rates for a period.
	Next time.Time
}

// Admitted is a candidate that may start.
type Admitted struct {
	Candidate int32 // index of the candidate
	Reason    Reason
	// Claims are the leases that the start needs, one per known pool, in ascending order of the
	// pools' keys. The host claims them before it dispatches anything: see [Apply].
	Claims []Claim
}

// Claim is the right to one place in a pool, valid at one revision of its record.
type Claim struct {
	Pool int32 // index of the snapshot's pool
	// PeriodSeconds is the period of the pool's [Rate] if the resource begins in it by this claim or
	// by another one of the plan. The record remembers for so long that it did. It is 0 if the
	// resource was active already, or the pool has no rate.
	PeriodSeconds int32
	Revision      uint64 // of the record that the decision is based on
	Token         uint64 // of the present lease for a holder that has one, else a new one
}

// Refused is a candidate that may not start now.
type Refused struct {
	Candidate int32 // index of the candidate
	Why       int32 // index of the result's Refusals
}

// Refusal is one pool that has no place for a candidate, and why.
type Refusal struct {
	Pool   int32 // index of the snapshot's pool
	Reason Reason
}

// Plan decides in one batch which candidates may start now.
//
// The order of candidates is ascending (rank, resource, group), whatever the order of the input.
// Candidates that are in this order already are not sorted again.
//
// First, by the leases as they were read, Plan admits every candidate that consumes nothing: a
// holder of a lease in any pool, which is never refused; a candidate whose resource is active or
// unavailable in every pool it needs, unless it is merely unavailable in a pool that is halted; and
// a candidate that needs no pool. With Begins set, see [Candidate], a candidate is a holder only in
// the pools of its leases. A resource that may need the key of a Family, see [Pool], takes its turn
// with the others, and so does a group without a lease in an Exclusive pool.
//
// Then, in order, Plan admits a candidate if and only if every pool in which its resource is not
// active yet has a place left, and no other group is at work on it in an Exclusive pool. An
// admission counts at once: a further start of the same resource consumes nothing where the first
// one did. Admission is all or nothing. A refused candidate takes nothing, unless a pool it needs
// is strict. Then it reserves the place that it would have taken in each pool, and with the place
// the key, except while one of the refusing pools is paused, halted or unknown. In a pool where it
// needs no place it reserves nothing.
//
// Only what was held before the batch makes a holder. A start is therefore safe to carry out
// without any other start of the plan: it disrupts no further resource beyond the limits. But a
// holder may come into a further pool above the limits, and then the other candidates of its
// resource, which is disrupted already, may come in as well, even if the holder is left out.
//
// A refusal is not an error. If the input contradicts itself, or now is missing, Plan decides
// nothing and returns one *[FieldError] per fault, joined; for candidates it returns only the first
// ten or so. The input is neither modified nor kept.
//
// The cost is linear in candidates × needed pools plus the leases and unavailable resources. The
// number of allocations depends on the pools and on how many different answers there are, not on
// the number of candidates.
func Plan(snapshot Snapshot, candidates []Candidate, now time.Time) (Result, error) {
	if err := snapshot.validate(now); err != nil {
		return Result{}, strictjson.Join(err, checkCandidates(candidates, len(snapshot.Pools)))
	}
	b := newBatch(newLedger(snapshot, candidates, now), candidates)
	if !b.run() {
		if err := checkCandidates(candidates, len(snapshot.Pools)); err != nil {
			return Result{}, err
		}
		l := b.ledger
		if len(b.admitted)+len(b.refused) > 0 {
			l = newLedger(snapshot, candidates, now)
		}
		b = newBatch(l, candidates)
		b.prepare()
		b.run()
	}
	pools := b.summarize()
	b.openRates(snapshot.Pools, now)
	return Result{Admitted: b.admitted, Refused: b.refused, Refusals: b.answers.list, Pools: pools, Stuck: b.stuck, Next: b.next}, nil
}

// maxFaults bounds the reported faults of candidates: a wrong index usually is in all of them.
const maxFaults = 10

// checkCandidates reports the faults of candidates, given the number of pools.
func checkCandidates(candidates []Candidate, pools int) error {
	var f faults
	for i := range candidates {
		c := &candidates[i]
		if c.valid(pools) {
			continue
		}
		for k, p := range c.Needs {
			at := fmt.Sprintf("candidates[%d].needs[%d]", i, k)
			switch {
			case uint(p) >= uint(pools):
				f.add(at, CodeOutOfRange, p, "must be an index of the %d pools; a pool without record is one with Unknown set", pools)
			case slices.Contains(c.Needs[:k], p):
				f.add(at, CodeDuplicate, p, "is listed twice")
			}
		}
		if c.Resource == "" {
			f.add(fmt.Sprintf("candidates[%d].resource", i), CodeRequired, nil, "is required")
		}
		if len(f) >= maxFaults {
			break
		}
	}
	return f.err()
}

// valid reports whether the candidate has a resource, and needs existing pools only, each once.
func (c *Candidate) valid(pools int) bool {
	for k, p := range c.Needs {
		if uint(p) >= uint(pools) || k > 0 && c.Needs[k-1] >= p && slices.Contains(c.Needs[:k], p) {
			return false
		}
	}
	return c.Resource != ""
}
