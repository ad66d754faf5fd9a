package concurrency

import (
	"fmt"
	"time"
)

// Pool is a set of resources that a limit covers, with everything that was observed of it.
// [Rule.Pool] makes one from a rule.
type Pool struct {
	// Key names the pool and its Record. It is required; see [Rule.PoolKey].
	Key string
	// Limit is how many members may be active at once. It is required; 0 pauses the pool. Rounding
	// applies to a percentage; unset means Ceil.
	Limit    Limit
	Rounding Rounding
	// Total is the number of members now, the candidates' resources included. The greatest number
	// of active members is min(Total, Limit.Of(Total, Rounding)). With Total 0, whatever the limit,
	// only holders start, and candidates whose resource is down already; others are refused with
	// SlotPaused.
	Total int
	// Rate is how many members may begin per period; the zero value is no rate. One that amounts to 0
	// pauses the pool, as a Limit of 0 does.
	Rate Rate
	// Strict lets a refused candidate that needs this pool reserve a place in all pools it needs,
	// for the rest of the batch.
	Strict bool
	// Exclusive lets only one group be at work on a member at a time: while one has a lease there, or
	// a job, the candidates of others are refused with SlotExclusive, however many places are free.
	Exclusive bool

	// Family relates the pools of one rule with GroupBy: at most MaxActiveKeys of them may have an
	// active member at once. Pools of one family have the same MaxActiveKeys, at least 1. Both are
	// zero if there is no such limit.
	Family        string
	MaxActiveKeys int

	// StuckAfter is how long a running holder may be without progress; 0 is off. OnStuck says what
	// its lease becomes then.
	StuckAfter time.Duration
	OnStuck    OnStuck
	// QuarantineAllowance is how many quarantined leases do not count; a percentage of Total is
	// rounded down. Unset means 0.
	QuarantineAllowance Limit
	// HaltAboveUnavailable is how many members may be unavailable before the pool halts: while more
	// are, only holders start in it, and candidates whose resource has a lease there; those whose
	// resource is merely unavailable are refused, too, with SlotHalted. All of Unavailable count,
	// also those that have a lease. A percentage of Total need not be rounded: more members than
	// that are more than its floor. Unset means that the pool never halts.
	HaltAboveUnavailable Limit

	// Unknown says that the host knows only the key of the pool, for example because no rule makes
	// it any more. Only holders start in it; all fields but Key are ignored.
	Unknown bool
	// Record is the stored record. The zero value stands for a pool that was never used.
	Record Record
	// Keyless are holders whose lease in Record was claimed but never used for a dispatch. Their
	// places count, but do not make the pool one of the active ones of its Family: their candidates
	// with Begins set need no place, but the key like any other. A holder that is also among Jobs
	// is not keyless. Without a Family the field means nothing.
	Keyless []Holder
	// Jobs are holders known by their active jobs, as a [JobCounter] reports them. Those with a
	// lease in Record are counted once; the others hold without a token. Read Jobs and Unavailable
	// after Record, never before: any candidate may start on a resource that is down without a
	// further place. If the resource came back between the two reads, its place may have been given
	// to another one.
	Jobs []Holder
	// Unavailable are the members that are down as the host observed it: not ready, cordoned,
	// drained by hand. They count, and a start on one of them takes no further place, in a pool that
	// is full or paused as well, but not in one that is halted: see HaltAboveUnavailable. The host
	// leaves out the candidates of those that are to be left alone.
	Unavailable []string
	// Departed are resources with a lease in Record that were observed to be members no longer,
	// such as after a change of label: their leases stay but do not count. A resource that merely
	// vanished is not departed; its lease counts.
	Departed []string
}

// max returns how many members may be active at once.
func (p *Pool) max() int {
	if !p.Rate.IsZero() && p.Rate.Limit.Of(p.Total, p.Rounding) == 0 {
		return 0
	}
	return min(p.Total, p.Limit.Of(p.Total, p.Rounding))
}

// Halted reports whether more of the pool's members are unavailable than HaltAboveUnavailable says.
func (p *Pool) Halted() bool { return p.haltsAt(len(sortedTexts(p.Unavailable))) }

// haltsAt reports whether the pool halts if so many members are unavailable.
func (p *Pool) haltsAt(unavailable int) bool {
	return !p.HaltAboveUnavailable.IsZero() && unavailable > p.HaltAboveUnavailable.Of(p.Total, Floor)
}

// record returns the stored record, or the first one of a pool that was never used.
func (p *Pool) record() Record {
	if p.untouched() {
		r := NewRecord(p.Key)
		r.Revision = p.Record.Revision
		return r
	}
	return p.Record
}

func (p *Pool) untouched() bool {
	r := &p.Record
	return r.Schema == 0 && r.Key == "" && r.NextToken == 0 && len(r.Leases) == 0 && len(r.Begun) == 0
}

// Snapshot is what [Plan] decides on: all pools that candidates need, read at one time.
type Snapshot struct {
	// Pools are in any order and have distinct keys. Candidates refer to them by index.
	Pools []Pool
	// Running are the holders with a run that has no outcome yet. Only their leases can be stuck: a
	// holder that waits for a window, an approval or a dependency is not.
	Running []Holder
}

// Candidate is a request for a start.
type Candidate struct {
	// Resource and Group are the [Holder] of the leases that the start takes. Resource is required;
	// Group may be empty.
	Resource string
	Group    string
	// Rank is the place in the order of the rollout, ascending. Ties are broken by Resource and
	// then Group.
	Rank int
	// Needs are the pools the resource is a member of, as indices into the snapshot's pools,
	// without repetition, in any order. The slice stays the caller's; the slices of many candidates
	// may share one array.
	Needs []int32
	// Begins says that no work is going on under the leases that the candidate holds: they were
	// claimed and nothing was dispatched, or they are left over from earlier starts. Such a
	// candidate is a holder only in the pools of these leases; in its other pools it needs a place
	// like any other. If its lease makes no pool active in a Family, since it is among Keyless of
	// the [Pool] or the allowance covers it, the candidate needs the key, too. If Begins is false, a
	// candidate that holds a lease in one pool is refused in none.
	Begins bool
}

// validate reports all faults of the snapshot, and of the instant at which it is to be planned on.
func (s Snapshot) validate(now time.Time) error {
	var f faults
	f.present(now, "at the zero time no lease is ever stuck")
	var keys map[string]int // nil while the keys ascend, as they usually do
	families := make(map[string]int)
	for i := range s.Pools {
		p := &s.Pools[i]
		at := func(field string) string { return fmt.Sprintf("pools[%d].%s", i, field) }
		if p.Key == "" {
			f.add(at("key"), CodeRequired, nil, "is required")
		}
		if keys == nil && i > 0 && p.Key <= s.Pools[i-1].Key {
			keys = make(map[string]int, len(s.Pools))
			for j := range s.Pools[:i] {
				keys[s.Pools[j].Key] = j
			}
		}
		if keys != nil {
			if j, ok := keys[p.Key]; ok {
				f.add(at("key"), CodeDuplicate, p.Key, "is also the key of pools[%d]", j)
			}
			keys[p.Key] = i
		}
		if p.Unknown {
			continue
		}
		p.check(&f, at)
		if p.Family != "" && p.MaxActiveKeys > 0 {
			if j, ok := families[p.Family]; !ok {
				families[p.Family] = i
			} else if s.Pools[j].MaxActiveKeys != p.MaxActiveKeys {
				f.add(at("maxActiveKeys"), CodeConflict, p.MaxActiveKeys, "must be %d as in pools[%d] of the same family", s.Pools[j].MaxActiveKeys, j)
			}
		}
	}
	return f.err()
}

// check adds the faults of a pool by itself.
func (p *Pool) check(f *faults, at func(field string) string) {
	if err := p.Limit.Validate(); err != nil {
		f.under(at("limit"), err)
	}
	if !p.Rounding.known() {
		f.add(at("rounding"), CodeUnknownValue, p.Rounding, hintRounding)
	}
	if !p.Rate.IsZero() {
		if err := p.Rate.Validate(); err != nil {
			f.under(at("rate"), err)
		}
	}
	if p.Total < 0 {
		f.add(at("total"), CodeOutOfRange, p.Total, "must not be negative")
	}
	if p.StuckAfter < 0 {
		f.add(at("stuckAfter"), CodeOutOfRange, p.StuckAfter, "must not be negative")
	}
	if !p.OnStuck.known() {
		f.add(at("onStuck"), CodeUnknownValue, p.OnStuck, hintOnStuck)
	}
	if (p.Family == "") != (p.MaxActiveKeys == 0) || p.MaxActiveKeys < 0 {
		f.add(at("maxActiveKeys"), CodeConflict, p.MaxActiveKeys, "must be at least 1 with a family (%q) and 0 without", p.Family)
	}
	if p.untouched() {
		return
	}
	if p.Record.Key != p.Key {
		f.add(at("record.key"), CodeConflict, p.Record.Key, "must be the pool's key %q", p.Key)
	}
	if err := p.Record.Validate(); err != nil {
		f.under(at("record"), err)
	}
}

// Summary describes a pool, once and not per candidate. Holders, Quarantined, Unavailable and Stuck
// are as observed, ascending and distinct. They are read-only: Unavailable is the snapshot's own
// list if that is ascending and distinct. Active counts the plan's admissions too.
type Summary struct {
	Active    int  // distinct members that hold a counting lease or are unavailable, after the plan's admissions
	Starts    int  // leases that the plan's admissions add
	KeyActive bool // the pool is among the active ones of its Family, after the plan's admissions

	Total  int  // members
	Halted bool // more members are unavailable than HaltAboveUnavailable of the [Pool] says
	Max    int  // a start that consumes is admitted only while Active is below it

	// RateOpens is the instant from which the pool's Rate lets one more member begin, by what the
	// Record remembers, if candidates wait for that. It is zero if none do, and if they wait only
	// for the plan's own admissions: then the rate opens one period after these are carried out.
	// After a clock has been set back, that instant may also come before RateOpens.
	RateOpens time.Time

	Holders     []Holder // with a lease, or with an active job alone
	Quarantined []Holder // those of Holders whose lease is quarantined, whether it counts or not
	Unavailable []string // resources
	Stuck       []Holder // those of Holders whose lease is stuck
}

// Stuck is a lease without progress for too long.
type Stuck struct {
	Pool  int32     // index of the snapshot's pool
	Lease Lease     // as stored
	At    time.Time // when it became stuck, at or before now
}
