package concurrency

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
)

// Rate is how many members of a pool may begin to be disrupted in a period, besides the [Limit] of
// how many may be so at once: "at most 5 nodes an hour". A member begins where it takes a lease and
// is not active in the pool already. So a further group on the same resource, a start on a resource
// that is down and a start of a holder that has its lease begin nothing, and a lease that is given
// back leaves its beginning behind. The zero value is no rate.
//
// In any half-open interval of PeriodSeconds at most Limit members begin, except for those that are
// never refused: a holder takes the lease of a further pool whatever its rate, and that counts. The
// host needs no start log, because the [Record] of the pool remembers: see its Begun. A record that
// is lost, or whose pool had no rate until now, knows of nothing before; one whose pool had a
// shorter period may know of no more than that.
//
// A member begins at the instant that the host passes to [Apply], by a clock that may be set back.
// Where the clocks of several hosts differ, or one was ahead for a while, the intervals that hold
// at most Limit are shorter than PeriodSeconds by the greatest difference: what is over by a clock
// that is ahead is forgotten.
//
// (The RFC has no rates. Users of Karpenter ask for them in kubernetes-sigs/karpenter#1089.)
type Rate struct {
	// Limit is how many members may begin: a count of at least 1, or a percentage of the members,
	// rounded as the pool's Rounding says. One that amounts to 0 pauses the pool.
	Limit Limit `json:"limit,omitzero"`
	// PeriodSeconds is from 1 to 2147483647.
	PeriodSeconds int64 `json:"periodSeconds,omitempty"`
}

// IsZero reports whether there is no rate.
func (r Rate) IsZero() bool { return r == Rate{} }

// String returns the rate as it is written in JSON, or "unset".
func (r Rate) String() string {
	if r.IsZero() {
		return "unset"
	}
	text, _ := json.Marshal(r) // of a limit and a number, which cannot fail
	return string(text)
}

// Validate reports every fault, joined, each a *[FieldError]. The zero value has two faults: where
// a rate is optional, ask [Rate.IsZero] first.
func (r Rate) Validate() error {
	var f faults
	switch {
	case r.Limit.IsZero():
		f.add("limit", CodeRequired, nil, "is required: %s", hintRate)
	case r.Limit.Value() == 0:
		f.add("limit", CodeOutOfRange, r.Limit, "%s; to pause, write 0 as the limit on how many may be disrupted at once", hintRate)
	}
	switch s := r.PeriodSeconds; {
	case s == 0:
		f.add("periodSeconds", CodeRequired, nil, "is required: %s", hintPeriod)
	case s < 0 || s > maxPeriod:
		f.add("periodSeconds", CodeOutOfRange, s, "%s", hintPeriod)
	}
	return f.err()
}

const (
	hintRate   = `must be a count of at least 1 such as 5, or a percentage of at least "1%"`
	hintPeriod = "must be a whole number of seconds from 1 to 2147483647, such as 3600"
	maxPeriod  = math.MaxInt32
)

func (r Rate) period() time.Duration { return time.Duration(r.PeriodSeconds) * time.Second }

// Begun is how many members of a pool began at an instant.
type Begun struct {
	At    time.Time `json:"at"`    // in UTC
	Count int       `json:"count"` // at least 1
}

// recent returns those of the beginnings that count at now. One that lies ahead, by a clock that
// has been set back since, counts until a period after it.
func (r Rate) recent(begun []Begun, now time.Time) []Begun {
	first := 0
	for first < len(begun) && !begun[first].At.Add(r.period()).After(now) {
		first++
	}
	return begun[first:]
}

// left returns how many more members may begin at now in a pool with this rate, or without one.
// Those that are never refused may have brought it below 0.
func (r Rate) left(p *Pool, now time.Time) int32 {
	if r.IsZero() {
		return math.MaxInt32
	}
	left := int64(min(r.Limit.Of(p.Total, p.Rounding), math.MaxInt32))
	for _, b := range r.recent(p.Record.Begun, now) {
		left -= int64(b.Count)
	}
	return int32(max(left, math.MinInt32/2)) // a batch may count on
}

// RateLets reports whether n more members may begin at now by the pool's Rate and what its Record
// remembers. If not, at is the instant from which they may, or zero if they never all may at once.
func (p *Pool) RateLets(n int, now time.Time) (lets bool, at time.Time) {
	n = min(max(n, math.MinInt32), math.MaxInt32) // no rate lets more begin, and no sum overflows
	missing := int64(n) - int64(p.Rate.left(p, now))
	if missing <= 0 || p.Rate.IsZero() {
		return true, time.Time{}
	}
	return false, p.Rate.opens(p, missing-1, now)
}

// opens returns the instant at which one more than over of the members that count have begun a
// period ago, by the record alone: those of a plan are not over before they are carried out. If the
// record has not as many, opens returns the zero time.
func (r Rate) opens(p *Pool, over int64, now time.Time) time.Time {
	for _, b := range r.recent(p.Record.Begun, now) {
		if over -= int64(b.Count); over < 0 {
			return b.At.Add(r.period())
		}
	}
	return time.Time{}
}

// openRates completes the summaries, and Next, by the instants at which rates let members begin for
// which candidates wait.
func (b *batch) openRates(pools []Pool, now time.Time) {
	for i, waits := range b.waitForRates() {
		if !waits {
			continue
		}
		at := pools[i].Rate.opens(&pools[i], int64(max(0, -b.pools[i].rate)), now)
		b.summaries[i].RateOpens = at
		if !at.IsZero() && (b.next.IsZero() || at.Before(b.next)) {
			b.next = at
		}
	}
}

// waitForRates reports for each pool whether a candidate waits for its rate; nil if none does
// anywhere.
func (b *batch) waitForRates() []bool {
	var waits []bool
	for _, answer := range b.answers.list {
		for _, r := range answer {
			if p := &b.pools[r.Pool]; r.Reason == SlotRateFull || r.Reason == SlotReserved && p.rate <= p.reserved && p.max > 0 { // of a paused pool only the key can be reserved
				if waits == nil {
					waits = make([]bool, len(b.pools))
				}
				waits[r.Pool] = true
			}
		}
	}
	return waits
}

// spendRate counts a resource that begins.
func (l *ledger) spendRate(p *poolState) {
	if p.period > 0 {
		p.rate--
	}
}

// begins reports whether a new lease for a claim makes its resource begin. The first of two leases
// for one resource does, in whatever order they are claimed, and if the other one never is.
func (r Record) begins(c Claim, resource string) bool {
	if c.PeriodSeconds == 0 {
		return false
	}
	at, _ := slices.BinarySearchFunc(r.Leases, resource, func(l Lease, resource string) int { return strings.Compare(l.Resource, resource) })
	return at == len(r.Leases) || r.Leases[at].Resource != resource
}

// begin returns Begun with n more beginnings, and without those that are over by the period.
func (r Record) begin(n int, seconds int32, now time.Time) []Begun {
	begun := slices.Clone(Rate{PeriodSeconds: int64(seconds)}.recent(r.Begun, now))
	at, found := slices.BinarySearchFunc(begun, now, func(b Begun, now time.Time) int { return b.At.Compare(now) })
	if found {
		begun[at].Count += min(n, maxCount-begun[at].Count)
		return begun
	}
	return slices.Insert(begun, at, Begun{At: now.UTC(), Count: n})
}

// checkBegun adds the faults of the beginnings of a record.
func checkBegun(f *faults, begun []Begun) {
	for i, b := range begun {
		at := func(field string) string { return fmt.Sprintf("begun[%d].%s", i, field) }
		if b.Count < 1 || b.Count > maxCount {
			f.add(at("count"), CodeOutOfRange, b.Count, "must be from 1 to %d", maxCount)
		}
		f.set(at("at"), b.At, "must be the instant at which the members began").storable(at("at"), b.At)
		if i > 0 && !instant.Unset(b.At) && !begun[i-1].At.Before(b.At) {
			f.add(at("at"), CodeConflict, stamp(b.At), "must come after that of begun[%d]", i-1)
		}
	}
}
