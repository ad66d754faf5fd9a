package concurrency

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// Rule is the policy rule resourceConcurrency of the bracket RFC: at most so many members of a group of resources may be
// disrupted at once. Members are the resources that GroupSelector matches; the caller evaluates it.
type Rule struct {
	// GroupSelector is an expression over a resource. It is required; this package never compiles it.
	GroupSelector string `json:"groupSelector"`

	// Limit is the greatest number of active members. Exactly one of Limit and the pair LimitType, LimitValue is given.
	Limit Limit `json:"limit,omitzero"`
	// LimitType is "count" or "percentage", the RFC's way to write a limit; empty if Limit is given.
	LimitType string `json:"limitType,omitempty"`
	// LimitValue belongs to LimitType; nil if Limit is given.
	LimitValue *int64 `json:"limitValue,omitempty"`
	// Rounding applies to a percentage. The zero value is Ceil, as in the RFC.
	Rounding Rounding `json:"rounding,omitzero"`

	// GroupBy names a string variable of the resource, such as resource.metadata['zone']: every value gets a pool of its
	// own with this limit. Resources without it share one pool, whose value is empty. Empty: one pool for all members.
	GroupBy string `json:"groupBy,omitempty"`
	// MaxActiveKeys is how many values of GroupBy may have an active member at once: a count of at least 1. Unset: any number.
	MaxActiveKeys Limit `json:"maxActiveKeys,omitzero"`
	// SharedPool names a pool that all rules with this name share: members are united, leases counted together. Empty: the
	// rule has a pool of its own. The name must not be the id of a rule without one, since both make the key.
	SharedPool string `json:"sharedPool,omitempty"`

	// Strict makes a waiting candidate reserve its place in all its pools, so that later candidates cannot pass it.
	Strict bool `json:"strict,omitempty"`
	// StuckAfterSeconds is how long a running holder may be without progress before its lease is stuck. 0 switches this off.
	StuckAfterSeconds int64 `json:"stuckAfterSeconds,omitempty"`
	// OnStuck is what a stuck lease becomes. The zero value is Hold.
	OnStuck OnStuck `json:"onStuck,omitzero"`
	// QuarantineAllowance is how many quarantined leases, the oldest first, do not count; a percentage of the members is
	// rounded down. Unset is 0: every quarantined lease counts.
	QuarantineAllowance Limit `json:"quarantineAllowance,omitzero"`
}

// ParseRule decodes a rule and validates it. Unknown fields are errors, and all faults are reported.
func ParseRule(data []byte) (Rule, error) {
	var r Rule
	if err := strictjson.Unmarshal(data, &r); err != nil {
		return Rule{}, err
	}
	if err := r.Validate(); err != nil {
		return Rule{}, err
	}
	return r, nil
}

// Validate returns all faults of the rule, joined, each a *[FieldError] whose Path is the JSON name of the field.
func (r Rule) Validate() error {
	var faults []error
	fault := func(path, value, hint string) {
		faults = append(faults, &FieldError{Path: path, Value: value, Hint: hint})
	}
	if r.GroupSelector == "" {
		fault("groupSelector", "", "is required: an expression that matches the members, such as resource.metadata['cluster'] == 'prod'")
	}
	r.validateLimit(fault)
	if r.Rounding > FloorMin1 {
		fault("rounding", r.Rounding.String(), hintRounding)
	}
	if k := r.MaxActiveKeys; !k.IsZero() {
		if k.IsPercent() || k.Value() == 0 {
			fault("maxActiveKeys", k.String(), "must be a count of at least 1; leave it out for any number")
		}
		if r.GroupBy == "" {
			fault("maxActiveKeys", k.String(), "needs groupBy, the variable whose values are counted")
		}
	}
	if s := r.StuckAfterSeconds; s < 0 || s > maxSeconds {
		fault("stuckAfterSeconds", strconv.FormatInt(s, 10), "must be from 0 (off) to "+strconv.FormatInt(maxSeconds, 10))
	}
	if r.OnStuck > Quarantine {
		fault("onStuck", r.OnStuck.String(), hintOnStuck)
	}
	return errors.Join(faults...)
}

const maxSeconds = int64(math.MaxInt64 / time.Second)

func (r Rule) validateLimit(fault func(path, value, hint string)) {
	pair := r.LimitType != "" || r.LimitValue != nil
	switch {
	case !r.Limit.IsZero() && pair:
		fault("limit", r.Limit.String(), "must not be given together with limitType and limitValue: write one of them")
		return
	case !r.Limit.IsZero():
		return
	case !pair:
		fault("limit", "", "is required, or limitType and limitValue: "+hintLimit+"; 0 pauses")
		return
	}
	bound, hint := int64(maxCount), hintCount
	switch r.LimitType {
	case "count":
	case "percentage":
		bound, hint = maxPercent, "must be a whole number from 0 to 1000, in percent"
	case "":
		fault("limitType", "", `is required beside limitValue: "count" or "percentage"`)
	default:
		fault("limitType", strconv.Quote(r.LimitType), `must be "count" or "percentage"`)
	}
	if r.LimitValue == nil {
		fault("limitValue", "", "is required beside limitType: "+hint)
	} else if v := *r.LimitValue; v < 0 || v > bound {
		fault("limitValue", strconv.FormatInt(v, 10), hint)
	}
}

// Max returns the rule's limit, however it is written; it is unset if the rule has none that is valid.
func (r Rule) Max() Limit {
	valid := true
	r.validateLimit(func(_, _, _ string) { valid = false })
	switch {
	case !valid:
		return Limit{}
	case !r.Limit.IsZero():
		return r.Limit
	case r.LimitType == "percentage":
		return Percent(int(*r.LimitValue))
	}
	return Count(int(*r.LimitValue))
}

// ValidateShared returns all settings, joined, in which r differs from first, the first rule with the same SharedPool: a
// pool has one limit and one way to treat its leases, whoever refers to it. Each is a *[FieldError]. Rules that do not
// share a pool have nothing to agree on: nil.
func (r Rule) ValidateShared(first Rule) error {
	if r.SharedPool == "" || r.SharedPool != first.SharedPool {
		return nil
	}
	var faults []error
	equal := func(path, value, want string) {
		if value != want {
			faults = append(faults, &FieldError{Path: path, Value: value, Hint: "must be " + want + " as in the first rule of the shared pool " + strconv.Quote(r.SharedPool)})
		}
	}
	zero := func(l Limit) string { // an allowance that is not written is 0
		if l.Value() == 0 {
			return "0"
		}
		return l.String()
	}
	equal("limit", r.Max().String(), first.Max().String())
	equal("rounding", r.Rounding.String(), first.Rounding.String())
	equal("groupBy", strconv.Quote(r.GroupBy), strconv.Quote(first.GroupBy))
	equal("maxActiveKeys", r.MaxActiveKeys.String(), first.MaxActiveKeys.String())
	equal("strict", strconv.FormatBool(r.Strict), strconv.FormatBool(first.Strict))
	equal("stuckAfterSeconds", strconv.FormatInt(r.StuckAfterSeconds, 10), strconv.FormatInt(first.StuckAfterSeconds, 10))
	equal("onStuck", r.OnStuck.String(), first.OnStuck.String())
	equal("quarantineAllowance", zero(r.QuarantineAllowance), zero(first.QuarantineAllowance))
	return errors.Join(faults...)
}

// PoolKey returns the key of the rule's pool: the shared pool's name or else id, the rule's id; with GroupBy also value,
// the resource's value of that variable (empty if it has none). Parts are joined by "/", and "%" and "/" inside a part
// are written "%25" and "%2F", so that different pools never get one key.
func (r Rule) PoolKey(id, value string) string {
	name := id
	if r.SharedPool != "" {
		name = r.SharedPool
	}
	if r.GroupBy == "" {
		return textkey.Join(name)
	}
	return textkey.Join(name, value)
}

// Pool returns the rule's pool for a value of GroupBy (ignored without GroupBy), with total members and an empty record.
// The caller adds what it observed: Record, Jobs, Unavailable, Departed. r must be valid.
func (r Rule) Pool(id, value string, total int) Pool {
	p := Pool{
		Key:                 r.PoolKey(id, value),
		Limit:               r.Max(),
		Rounding:            r.Rounding,
		Total:               total,
		Strict:              r.Strict,
		StuckAfter:          time.Duration(r.StuckAfterSeconds) * time.Second,
		OnStuck:             r.OnStuck,
		QuarantineAllowance: r.QuarantineAllowance,
	}
	if !r.MaxActiveKeys.IsZero() {
		family := r
		family.GroupBy = ""
		p.Family, p.MaxActiveKeys = family.PoolKey(id, ""), r.MaxActiveKeys.Value()
	}
	return p
}

// OnStuck says what a stuck lease becomes.
type OnStuck uint8

const (
	// Hold leaves the lease active; it is listed as stuck. The default.
	Hold OnStuck = iota
	// Quarantine makes the lease quarantined: it still counts, unless the pool's allowance covers it.
	Quarantine
)

const hintOnStuck = `must be "hold" or "quarantine"`

// String returns the JSON name: "hold", "quarantine".
func (o OnStuck) String() string {
	switch o {
	case Hold:
		return "hold"
	case Quarantine:
		return "quarantine"
	}
	return "OnStuck(" + strconv.Itoa(int(o)) + ")"
}

// MarshalText returns the JSON name; an unknown value is a *[FieldError].
func (o OnStuck) MarshalText() ([]byte, error) {
	if o > Quarantine {
		return nil, &FieldError{Value: o.String(), Hint: hintOnStuck}
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads the JSON name; an unknown one is a *[FieldError] and leaves the value unchanged.
func (o *OnStuck) UnmarshalText(text []byte) error {
	for v := Hold; v <= Quarantine; v++ {
		if v.String() == string(text) {
			*o = v
			return nil
		}
	}
	return &FieldError{Value: strconv.Quote(string(text)), Hint: hintOnStuck}
}
