package concurrency

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Holder is the holder of a slot: a resource, for a group. The group is the id of a bracket's
// version group, or the text key of a release target outside brackets. A slot belongs to the
// holder, not to a job: the holder keeps it between two jobs of one group.
type Holder struct {
	Resource string `json:"resource"`
	Group    string `json:"group"`
}

func (h Holder) compare(o Holder) int {
	return cmp.Or(cmp.Compare(h.Resource, o.Resource), cmp.Compare(h.Group, o.Group))
}

func holderSet(list []Holder) map[Holder]bool {
	set := make(map[Holder]bool, len(list))
	for _, h := range list {
		set[h] = true
	}
	return set
}

// Lease is a slot of a pool that a holder has, from the first start of its group on the resource to
// the end of the group.
type Lease struct {
	Pool string `json:"pool"` // key of the pool
	Holder
	// Token is greater than the token of every lease that the pool gave before. Work for the holder
	// carries it: see [ErrFenced].
	Token uint64     `json:"token"`
	State LeaseState `json:"state"`
	// Since is the instant at which the lease was taken. Since and ProgressAt are in UTC, so that a
	// record comes back from a store as it was written.
	Since time.Time `json:"since"`
	// ProgressAt is the newest observed event (start, heartbeat, end) of the holder's runs.
	ProgressAt time.Time `json:"progressAt"`
	// Reason says why the lease is quarantined. In an active lease it is empty or, until the next
	// [Record.Renew], says why the lease was given although the pool was full.
	Reason string `json:"reason,omitempty"`
}

// LeaseState is the state of a lease. Both states count, except for the quarantined leases that a
// pool's allowance covers.
type LeaseState string

const (
	Active      LeaseState = "active"      // in ordinary use
	Quarantined LeaseState = "quarantined" // stuck or abandoned, see [Record.Quarantine]
)

// schema is the version of the stored form of a record.
const schema = 1

// Record is what a store keeps of one pool: its leases. It is a value: methods return a changed
// record and leave the old one as it is. The host writes the new record on condition that the
// stored one has not changed.
//
// The methods do not change Revision, which is the stored revision at which the record was read.
// The store gives the next revision when it accepts a write, and refuses a write from an older one.
// It is part of the JSON, so a host that saves only the records whose JSON has changed sets
// Revision to 0 in what it compares: otherwise every save is the reason for the next.
type Record struct {
	Schema   int    `json:"schema"` // 1
	Key      string `json:"key"`    // of the pool
	Revision uint64 `json:"revision"`
	// NextToken is greater than every token ever issued in the pool, also of leases that are gone.
	// Tokens begin at 1.
	NextToken uint64 `json:"nextToken"`
	// Leases are in ascending order of (resource, group), one per holder.
	Leases []Lease `json:"leases"`
	// Confirmed is used only in the record under the key of a Family. It lists, in ascending order,
	// the leases of the family's pools under which something was dispatched, or is about to be. The
	// host claims its leases in the pools, adds them here, and dispatches only then, so a lease
	// that is not listed was claimed but never used. Nil means that no list is kept.
	//
	// Planners that claim in different pools of a family change different records: this one alone
	// lets one notice the other. The host reads it before those of the pools, or all at one moment,
	// and adds to the list on condition that the record has not changed since. After a conflict it
	// dispatches nothing and plans again, with the leases that are not listed as Keyless of [Pool]
	// and Begins of [Candidate] set. It stores an empty list before the first claim. Leases that are
	// gone may be left out. Where all records are one value, with one revision, no list is needed.
	Confirmed []Confirmation `json:"confirmed,omitzero"`
	// Begun is used only in the record of a pool with a [Rate]. It counts the members that began, in
	// ascending order of the instants, as far back as the period of the rate was when the last one
	// began. [Record.Claim] and [Apply] write it. A member whose lease is released stays counted.
	Begun []Begun `json:"begun,omitzero"`
}

// Confirmation names a lease: no other lease of the pool ever has its token.
type Confirmation struct {
	Pool  string `json:"pool"` // key
	Token uint64 `json:"token"`
}

// Compare is the order of confirmations: by pool, then by token.
func (c Confirmation) Compare(o Confirmation) int {
	return cmp.Or(cmp.Compare(c.Pool, o.Pool), cmp.Compare(c.Token, o.Token))
}

// Confirms reports whether a lease is listed in Confirmed, or no list is kept.
func (r Record) Confirms(l Lease) bool {
	if r.Confirmed == nil {
		return true
	}
	_, listed := slices.BinarySearchFunc(r.Confirmed, Confirmation{l.Pool, l.Token}, Confirmation.Compare)
	return listed
}

// NewRecord returns the record of a pool that was never used, at revision 0.
func NewRecord(key string) Record {
	return Record{Schema: schema, Key: key, NextToken: 1, Leases: []Lease{}}
}

// ParseRecord decodes a stored record and validates it. Unknown fields and schemas are errors. All
// faults are reported, joined, each a *[FieldError]: values of the wrong form or, if there are
// none, what Validate reports.
func ParseRecord(data []byte) (Record, error) {
	var r Record
	if err := r.UnmarshalJSON(data); err != nil {
		return Record{}, err
	}
	if err := r.Validate(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// UnmarshalJSON decodes a record strictly: unknown fields, fields given twice and values of the
// wrong form are errors, all of them reported, joined, each a *[FieldError]. The record is then
// unchanged. Values are checked by [Record.Validate].
func (r *Record) UnmarshalJSON(data []byte) error {
	type plain Record
	var f faults
	f.under("", strictjson.Unmarshal(data, (*plain)(r)))
	return f.err()
}

// Validate reports every fault of the record, joined, each a *[FieldError]: it contradicts itself,
// or it was not written by this package.
func (r Record) Validate() error {
	var f faults
	if r.Schema != schema {
		f.add("schema", CodeUnknownValue, r.Schema, "must be %d: written by another release of the library", schema)
	}
	if r.Key == "" {
		f.add("key", CodeRequired, nil, "is required")
	}
	if r.NextToken == 0 {
		f.add("nextToken", CodeOutOfRange, 0, "must be at least 1 and greater than every token issued")
	}
	var tokens map[uint64]int
	if len(r.Leases) > 0 {
		tokens = make(map[uint64]int, len(r.Leases))
	}
	for i, l := range r.Leases {
		at := func(field string) string { return fmt.Sprintf("leases[%d].%s", i, field) }
		if l.Pool != r.Key {
			f.add(at("pool"), CodeConflict, l.Pool, "must be the record's key %q", r.Key)
		}
		if l.Resource == "" {
			f.add(at("resource"), CodeRequired, nil, "is required")
		}
		if l.Token == 0 || l.Token >= r.NextToken {
			f.add(at("token"), CodeOutOfRange, l.Token, "must be from 1 to below nextToken %d", r.NextToken)
		} else if other, taken := tokens[l.Token]; taken {
			f.add(at("token"), CodeDuplicate, l.Token, "is also the token of leases[%d]", other)
		}
		tokens[l.Token] = i
		if l.State != Active && l.State != Quarantined {
			f.add(at("state"), CodeUnknownValue, l.State, hintState)
		}
		if instant.Unset(l.Since) {
			f.set(at("since"), l.Since, "must be the instant at which the lease was taken")
		}
		if instant.Unset(l.ProgressAt) { // such a lease would be stuck as soon as its holder runs
			f.set(at("progressAt"), l.ProgressAt, "must be the instant of the newest progress, at first that of since")
		}
		if i > 0 && r.Leases[i-1].Holder.compare(l.Holder) >= 0 {
			f.add(fmt.Sprintf("leases[%d]", i), CodeConflict, nil, "%s: leases must be in ascending order of resource and group, one per holder", l.Holder)
		}
	}
	checkBegun(&f, r.Begun)
	for i, c := range r.Confirmed {
		if c.Pool == "" || c.Token == 0 {
			f.add(fmt.Sprintf("confirmed[%d]", i), CodeRequired, nil, "must name a pool and a token from 1 on")
		}
		if i > 0 && r.Confirmed[i-1].Compare(c) >= 0 {
			f.add(fmt.Sprintf("confirmed[%d]", i), CodeConflict, nil, "%s %d: leases must be in ascending order of pool and token, each once", c.Pool, c.Token)
		}
	}
	return f.err()
}

// Lease returns the holder's lease, and whether there is one. It is a binary search.
func (r Record) Lease(h Holder) (Lease, bool) {
	i, ok := r.find(h)
	if !ok {
		return Lease{}, false
	}
	return r.Leases[i], true
}

func (r Record) find(h Holder) (int, bool) {
	return slices.BinarySearchFunc(r.Leases, h, func(l Lease, h Holder) int { return l.Holder.compare(h) })
}

// held returns the index of the holder's lease, and [ErrFenced] if there is none with the token.
func (r Record) held(h Holder, token uint64) (int, error) {
	i, ok := r.find(h)
	if !ok {
		// A mix-up of holders, pools or records is told from a slot that was lost.
		what := "was given up"
		other := slices.IndexFunc(r.Leases, func(l Lease) bool { return l.Token == token })
		switch {
		case other >= 0:
			what = "is that of " + r.Leases[other].Holder.String()
		case token == 0 || token >= r.NextToken:
			what = "was never issued"
		}
		return 0, fmt.Errorf("%w: %s holds nothing in pool %s, where token %d %s", ErrFenced, h, r.Key, token, what)
	}
	return i, r.Leases[i].proves(token)
}

// proves returns [ErrFenced] for a token that is not the lease's.
func (l Lease) proves(token uint64) error {
	if l.Token != token {
		return fmt.Errorf("%w: %s holds pool %s with token %d, not %d", ErrFenced, l.Holder, l.Pool, l.Token, token)
	}
	return nil
}

// Claim returns the record with the lease that a claim of [Plan] asks for.
//
// If the holder has a lease, Claim returns the record as it is: claiming is re-entrant, and
// repeating a claim that was cut off is harmless. The error is [ErrFenced] if the token of that
// lease is not the claim's.
//
// A new lease needs a record at the claim's revision, else the error is [ErrConflict]: plan again.
// For a claim with a token below NextToken the error is [ErrFenced]. It is a *[FieldError] for a
// holder without a resource, a record without a key, a name or a key that is not UTF-8, and a
// record that [NewRecord] did not make, because none of these could be read again. A now that is
// not in the years 1 to 9999 is a *[FieldError] in any case.
//
// Apply the claims that one plan makes on one record in the order of the plan, then write the
// record once. Any of them may be left out, but of several with one token, which are those of one
// holder, not the first: behind greater tokens that token is refused. [Apply] does all this for a
// whole plan, and takes any part of it in any order.
func (r Record) Claim(c Claim, h Holder, now time.Time) (Record, error) {
	if err := checkClaiming(now); err != nil {
		return r, err
	}
	if held, ok := r.Lease(h); ok {
		return r, held.proves(c.Token)
	}
	switch {
	case h.Resource == "":
		return r, &FieldError{Path: "resource", Code: CodeRequired, Hint: "is required: a lease without one could not be read again"}
	case r.Schema != schema:
		return r, &FieldError{Path: "schema", Code: CodeUnknownValue, Value: strconv.Itoa(r.Schema), Hint: fmt.Sprintf("must be %d: a record of a pool that nobody ever used is made by NewRecord", schema)}
	case c.Revision != r.Revision:
		return r, fmt.Errorf("%w: pool %s is at revision %d, the claim of %s was planned at %d", ErrConflict, r.Key, r.Revision, h, c.Revision)
	}
	next, err := r.claim([]Lease{newLease(r.Key, h, c.Token, now)})
	if err == nil && r.begins(c, h.Resource) {
		next.Begun = next.begin(1, c.PeriodSeconds, now)
	}
	return next, err
}

func newLease(pool string, h Holder, token uint64, now time.Time) Lease {
	return Lease{Pool: pool, Holder: h, Token: token, State: Active, Since: now.UTC(), ProgressAt: now.UTC()}
}

// checkClaiming refuses the instant of a clock that was never set, or that no record can hold, also
// where no lease would be added: whether it is refused must not depend on what others hold.
func checkClaiming(now time.Time) error {
	var f faults
	return f.present(now, "a lease since the zero time would be stuck at once, and older than every job").storable("now", now).err()
}

// claim adds leases, in the order of their tokens, of holders that have none. It takes the slice
// over. The error is [ErrFenced] if a token was issued before, or if two of them have one token or
// one holder.
func (r Record) claim(added []Lease) (Record, error) {
	if first := added[0].Token; first < r.NextToken {
		return r, fmt.Errorf("%w: pool %s issued token %d already", ErrFenced, r.Key, first)
	}
	last := added[len(added)-1].Token
	if last == math.MaxUint64 {
		return r, fmt.Errorf("concurrency: pool %s has issued every token there is", r.Key)
	}
	var f faults
	switch {
	case r.Key == "":
		f.add("key", CodeRequired, nil, "is required: a record without one could not be read again")
	case !utf8.ValidString(r.Key):
		f.add("key", CodeType, r.Key, "must be UTF-8: a record with another key could not be read again")
	}
	for _, l := range added {
		for _, name := range []struct{ field, value string }{{"resource", l.Resource}, {"group", l.Group}} {
			if !utf8.ValidString(name.value) { // JSON would change the name, and perhaps make two names equal
				f.add(name.field, CodeType, name.value, "must be UTF-8: a lease with another name could not be read again")
			}
		}
	}
	if len(f) > 0 {
		return r, f.err()
	}
	for i := 1; i < len(added); i++ {
		if a, b := added[i-1], added[i]; a.Token == b.Token {
			return r, fmt.Errorf("%w: %s and %s claim pool %s with the same token %d", ErrFenced, a.Holder, b.Holder, r.Key, a.Token)
		}
	}
	byHolder := func(a, b Lease) int { return a.Holder.compare(b.Holder) }
	slices.SortFunc(added, byHolder)
	for i := 1; i < len(added); i++ {
		if a, b := added[i-1], added[i]; a.Holder == b.Holder {
			return r, fmt.Errorf("%w: %s claims pool %s with the tokens %d and %d", ErrFenced, a.Holder, r.Key, min(a.Token, b.Token), max(a.Token, b.Token))
		}
	}
	merged := make([]Lease, 0, len(r.Leases)+len(added))
	old := r.Leases
	for _, l := range added {
		i, _ := slices.BinarySearchFunc(old, l, byHolder)
		merged = append(append(merged, old[:i]...), l)
		old = old[i:]
	}
	r.NextToken = last + 1
	r.Leases = append(merged, old...)
	return r, nil
}

// Release returns the record without the holder's lease: its group has ended, its resource is
// proved to be deleted, or an operator gave the lease up. If the token is not the lease's or the
// lease is gone, the error is [ErrFenced].
func (r Record) Release(h Holder, token uint64) (Record, error) {
	i, err := r.held(h, token)
	if err != nil {
		return r, err
	}
	r.Leases = slices.Delete(slices.Clone(r.Leases), i, i+1) // never nil, so that an empty list is written as []
	return r, nil
}

// Renew returns the record after progress of the holder (start, heartbeat or end of a run) at the
// given instant. The newest progress counts, in whatever order reports arrive. With it a quarantined
// lease becomes active again. A report of an instant that is not after ProgressAt is no news and
// changes nothing, so a host may report all it sees each time it looks. If the token is not the
// lease's or the lease is gone, the error is [ErrFenced]; for an instant that is not in the years 1
// to 9999 it is a *[FieldError].
func (r Record) Renew(h Holder, token uint64, at time.Time) (Record, error) {
	i, err := r.held(h, token)
	if err != nil {
		return r, err
	}
	var f faults
	f.set("at", at, "must be the instant of the progress") // else it would end a quarantine without any progress
	if f.storable("at", at); len(f) > 0 {
		return r, f.err()
	}
	l := r.Leases[i]
	if !at.After(l.ProgressAt) {
		return r, nil
	}
	l.State, l.Reason, l.ProgressAt = Active, "", at.UTC()
	return r.with(i, l), nil
}

// Quarantine returns the record with the holder's lease quarantined: it is stuck and the rule says
// so, or its execution was abandoned. reason is for people to read. The lease still counts, unless
// the pool's allowance covers it. If the token is not the lease's or the lease is gone, the error
// is [ErrFenced].
func (r Record) Quarantine(h Holder, token uint64, reason string) (Record, error) {
	i, err := r.held(h, token)
	if err != nil {
		return r, err
	}
	l := r.Leases[i]
	l.State, l.Reason = Quarantined, reason
	return r.with(i, l), nil
}

// with returns the record with another lease at an index.
func (r Record) with(i int, l Lease) Record {
	r.Leases = slices.Clone(r.Leases)
	r.Leases[i] = l
	return r
}

// Orphans returns the leases whose holder is not among live, the holders that have an open
// execution or an active job. The host releases them by their token once it knows that the group
// has ended or never begins; no plan ever does. That nothing is seen of a holder does not say so: a
// planner may have claimed the lease and be about to dispatch. So first save a record that it must
// save before it dispatches, or refuse every dispatch whose token is not that of a lease any more.
func (r Record) Orphans(live []Holder) []Lease {
	alive := holderSet(live)
	var orphans []Lease
	for _, l := range r.Leases {
		if !alive[l.Holder] {
			orphans = append(orphans, l)
		}
	}
	return orphans
}
