package concurrency

import (
	"cmp"
	"math"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// Rule is the policy rule resourceConcurrency of the bracket RFC: it limits how many members of a
// set of resources may be disrupted at once. Members are the resources that GroupSelector matches;
// the caller evaluates it.
//
// Leases are filed under the key of the pool, which is the rule's id or SharedPool and, with
// GroupBy, the value: see [Rule.PoolKey]. A rule under another name, or with another GroupBy or
// none, has other pools: while planners work with both, each pool keeps the limit by itself, and
// together they may admit twice as many. So keep the name and GroupBy when you change a limit, and
// before you change either, let the old leases end.
type Rule struct {
	// GroupSelector is an expression over a resource. It is required; this package never compiles
	// it.
	GroupSelector string `json:"groupSelector"`

	// Limit is the greatest number of active members. Exactly one of Limit and the pair LimitType,
	// LimitValue must be given.
	Limit Limit `json:"limit,omitzero"`
	// LimitType is "count" or "percentage", the RFC's way to write a limit; empty if Limit is
	// given.
	LimitType string `json:"limitType,omitempty"`
	// LimitValue belongs to LimitType; nil if Limit is given.
	LimitValue *int64 `json:"limitValue,omitempty"`
	// Rounding applies to a percentage. Unset means Ceil, as in the RFC.
	Rounding Rounding `json:"rounding,omitzero"`

	// Rate is how many members may begin to be disrupted per period, such as 5 an hour, besides how
	// many may be so at once. Nil means any number. With GroupBy every value has this rate by itself.
	Rate *Rate `json:"rate,omitempty"`

	// GroupBy names a string variable of the resource, such as resource.metadata['zone']: every
	// value gets a pool of its own with this limit. Resources without the variable share one pool,
	// whose value is empty. If GroupBy is empty, all members are in one pool.
	GroupBy string `json:"groupBy,omitempty"`
	// MaxActiveKeys is how many values of GroupBy may have an active member at once: a count of at
	// least 1. Unset means any number. A member that is merely unavailable makes its value active,
	// too: with a count of 1, while one node of a zone is broken, new starts stay within that zone.
	// If nodes of several zones are broken, starts go on within each of these, up to its limit: a
	// host that must not take down more in any of them freezes them all until enough serve again.
	// A lease that was claimed but never used for a dispatch does not make its value active. For
	// that distinction the host, after it wrote the records of the pools and before it dispatches,
	// lists the leases in the record under the rule's own key: see Confirmed in [Record]. Without
	// that list two planners may make two values active at a time, because these have a record each
	// and neither planner meets a conflict.
	MaxActiveKeys Limit `json:"maxActiveKeys,omitzero"`
	// SharedPool names a pool that all rules with this name share: members are united, leases
	// counted together. If it is empty, the rule has a pool of its own. The name must not be the id
	// of a rule without SharedPool, because both would have the same key.
	SharedPool string `json:"sharedPool,omitempty"`

	// Strict makes a waiting candidate reserve its place in all its pools, so that later candidates
	// cannot pass it.
	Strict bool `json:"strict,omitempty"`
	// Exclusive lets only one group be at work on a member at a time: one execution of a bracket or,
	// outside brackets, one target. Those of others wait for its end. Without it two brackets on one
	// node drain it side by side, since it is down already for the second one, and the first to end
	// brings it back while the other is still at work. The groups must be of rules that share the
	// pool. It is not of the RFC: the plans of Rancher's system-upgrade-controller have it.
	Exclusive bool `json:"exclusive,omitempty"`
	// StuckAfterSeconds is how long a running holder may be without progress before its lease is
	// stuck. 0 switches this off.
	StuckAfterSeconds int64 `json:"stuckAfterSeconds,omitempty"`
	// OnStuck is what a stuck lease becomes. Unset means Hold. While StuckAfterSeconds is 0 it
	// means nothing, because no lease is stuck.
	OnStuck OnStuck `json:"onStuck,omitzero"`
	// QuarantineAllowance is how many quarantined leases, the oldest first, do not count; a
	// percentage of the members is rounded down. Unset means 0: every quarantined lease counts.
	QuarantineAllowance Limit `json:"quarantineAllowance,omitzero"`
	// HaltAboveUnavailable is how many members may be unavailable before the pool halts: while more
	// are, nothing begins in it but what is at work goes on, because a host that sees so many down may
	// itself be cut off, or what it rolls out may be the cause. Without it all that look down may
	// start at once, whatever the limit. Members that a start has made unavailable count, too: a
	// value below the limit holds starts back that the limit allows. What would repair them waits as
	// well, such as a way back to an older version: the host decides whom it lets past, in package
	// rollout by an Override of the rule. With 0 a single one halts the pool. With GroupBy every
	// value has this by itself. Unset means that the pool never halts. It is not of the RFC: Cluster
	// API stops repairing machines in the same way.
	HaltAboveUnavailable Limit `json:"haltAboveUnavailable,omitzero"`
}

// ParseRule decodes a rule and validates it. Unknown fields are errors. All faults are reported,
// joined, each a *[FieldError]: values of the wrong form or, if there are none, what Validate
// reports.
func ParseRule(data []byte) (Rule, error) {
	var r Rule
	if err := r.UnmarshalJSON(data); err != nil {
		return Rule{}, err
	}
	if err := r.Validate(); err != nil {
		return Rule{}, err
	}
	return r, nil
}

// UnmarshalJSON decodes a rule strictly: unknown fields, fields given twice and values of the wrong
// form are errors, all of them reported, joined, each a *[FieldError]. The rule is then unchanged.
// Values are checked by [Rule.Validate].
func (r *Rule) UnmarshalJSON(data []byte) error {
	type plain Rule
	var f faults
	f.under("", strictjson.Unmarshal(data, (*plain)(r)))
	for _, fault := range f {
		if fault, ok := fault.(*FieldError); ok && fault.Path == "maxActiveKeys" && fault.Code == CodeType {
			fault.Hint = hintActiveKeys // that of a limit names values that Validate refuses
		}
	}
	return f.err()
}

// Validate reports every fault of the rule, joined, each a *[FieldError] whose Path is the JSON
// name of the field.
func (r Rule) Validate() error {
	var f faults
	if strings.TrimSpace(r.GroupSelector) == "" {
		f.add("groupSelector", CodeRequired, nil, "is required: an expression that matches the members, such as resource.metadata['cluster'] == 'prod'")
	}
	for _, name := range []struct{ field, value string }{{"groupBy", r.GroupBy}, {"sharedPool", r.SharedPool}} {
		if strings.TrimSpace(name.value) != name.value {
			f.add(name.field, CodeType, name.value, "must not begin or end with a blank: it would name another one than without")
		}
	}
	r.validateLimit(&f)
	if !r.Rounding.known() {
		f.add("rounding", CodeUnknownValue, r.Rounding, hintRounding)
	}
	if r.Rate != nil {
		f.under("rate", r.Rate.Validate())
	}
	if k := r.MaxActiveKeys; !k.IsZero() {
		if k.IsPercent() || k.Value() == 0 {
			f.add("maxActiveKeys", CodeOutOfRange, k, hintActiveKeys)
		}
		if r.GroupBy == "" {
			f.add("maxActiveKeys", CodeConflict, k, "needs groupBy, the variable whose values are counted").reading("groupBy")
		}
	}
	if s := r.StuckAfterSeconds; s < 0 || s > maxSeconds {
		f.add("stuckAfterSeconds", CodeOutOfRange, s, "must be from 0 (off) to %d", maxSeconds)
	}
	if !r.OnStuck.known() {
		f.add("onStuck", CodeUnknownValue, r.OnStuck, hintOnStuck)
	}
	return f.err()
}

const maxSeconds = int64(math.MaxInt64 / time.Second)

func (r Rule) validateLimit(f *faults) {
	var pair []string // those of limitType and limitValue that are given
	if r.LimitType != "" {
		pair = append(pair, "limitType")
	}
	if r.LimitValue != nil {
		pair = append(pair, "limitValue")
	}
	switch {
	case !r.Limit.IsZero() && len(pair) > 0:
		f.add("limit", CodeConflict, r.Limit, "must not be given together with limitType and limitValue: write one of them").reading(pair...)
		return
	case !r.Limit.IsZero():
		return
	case len(pair) == 0:
		f.add("limit", CodeRequired, nil, "is required, or limitType and limitValue: %s; 0 pauses", hintLimit).reading("limitType", "limitValue")
		return
	}
	bound, hint := int64(maxCount), hintCount
	switch r.LimitType {
	case "count":
	case "percentage":
		bound, hint = maxPercent, "must be a whole number from 0 to 1000, in percent"
	case "":
		f.add("limitType", CodeRequired, nil, `is required beside limitValue: "count" or "percentage"`).reading("limit", "limitValue")
	default:
		f.add("limitType", CodeUnknownValue, r.LimitType, `must be "count" or "percentage"`).reading("limit")
	}
	if r.LimitValue == nil {
		f.add("limitValue", CodeRequired, nil, "is required beside limitType: %s", hint).reading("limit", "limitType")
	} else if v := *r.LimitValue; v < 0 || v > bound {
		f.add("limitValue", CodeOutOfRange, v, "%s", hint).reading("limit", "limitType")
	}
}

// Max returns the rule's limit, in whichever form it is written, or an unset limit if the rule has
// no valid one.
func (r Rule) Max() Limit {
	var f faults
	r.validateLimit(&f)
	switch {
	case len(f) > 0:
		return Limit{}
	case !r.Limit.IsZero():
		return r.Limit
	case r.LimitType == "percentage":
		return Percent(int(*r.LimitValue))
	}
	return Count(int(*r.LimitValue))
}

// ValidateShared reports every setting but the GroupSelector in which r differs from first, the
// first rule with the same SharedPool, joined, each a *[FieldError]. A pool has one limit and one
// way to treat its leases, whichever rules refer to it. Both rules must be valid. If the rules do
// not share a pool, ValidateShared returns nil.
func (r Rule) ValidateShared(first Rule) error {
	if r.SharedPool == "" || r.SharedPool != first.SharedPool {
		return nil
	}
	var f faults
	equal := func(path string, value, want any) {
		if value != want { // both rules are valid: a rule that contradicts itself, such as by a limit given twice, has nothing to compare
			place := ""
			if path == "limit" && r.LimitType != "" {
				place = ", in place of limitType and limitValue,"
			}
			f.add(path, CodeConflict, value, "must be %s%s as in the first rule of the shared pool %q", strictjson.Value(want), place, r.SharedPool).reading("sharedPool", "limit", "limitType", "limitValue", "groupBy", "maxActiveKeys")
		}
	}
	allowance := func(l Limit) Limit { // unset means 0
		if l.Value() == 0 {
			return Count(0)
		}
		return l
	}
	equal("limit", r.Max(), first.Max())
	equal("rounding", cmp.Or(r.Rounding, Ceil), cmp.Or(first.Rounding, Ceil))
	equal("rate", r.rate(), first.rate())
	equal("groupBy", r.GroupBy, first.GroupBy)
	equal("maxActiveKeys", r.MaxActiveKeys, first.MaxActiveKeys)
	equal("strict", r.Strict, first.Strict)
	equal("exclusive", r.Exclusive, first.Exclusive)
	equal("stuckAfterSeconds", r.StuckAfterSeconds, first.StuckAfterSeconds)
	equal("onStuck", cmp.Or(r.OnStuck, Hold), cmp.Or(first.OnStuck, Hold))
	equal("haltAboveUnavailable", r.HaltAboveUnavailable, first.HaltAboveUnavailable)
	equal("quarantineAllowance", allowance(r.QuarantineAllowance), allowance(first.QuarantineAllowance))
	return f.err()
}

// rate returns the rate of the rule's pools.
func (r Rule) rate() Rate {
	if r.Rate == nil {
		return Rate{}
	}
	return *r.Rate
}

// PoolKey returns the key of the rule's pool: the shared pool's name or else id, the rule's id;
// with GroupBy also value, the resource's value of that variable (empty if it has none). Parts are
// joined by "/", and "%" and "/" inside a part are written "%25" and "%2F", so that different pools
// never get one key.
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

// Pool returns the rule's pool for a value of GroupBy (ignored without GroupBy), with total members
// and an empty record. The caller adds what it observed: Record, Keyless, Jobs, Unavailable,
// Departed. r must be valid.
func (r Rule) Pool(id, value string, total int) Pool {
	p := Pool{
		Key:                  r.PoolKey(id, value),
		Limit:                r.Max(),
		Rounding:             r.Rounding,
		Rate:                 r.rate(),
		Total:                total,
		Strict:               r.Strict,
		Exclusive:            r.Exclusive,
		StuckAfter:           time.Duration(r.StuckAfterSeconds) * time.Second,
		OnStuck:              r.OnStuck,
		QuarantineAllowance:  r.QuarantineAllowance,
		HaltAboveUnavailable: r.HaltAboveUnavailable,
	}
	if !r.MaxActiveKeys.IsZero() {
		family := r
		family.GroupBy = ""
		p.Family, p.MaxActiveKeys = family.PoolKey(id, ""), r.MaxActiveKeys.Value()
	}
	return p
}

// OnStuck says what a stuck lease becomes. Empty means Hold.
type OnStuck string

const (
	Hold       OnStuck = "hold"       // the lease stays active; it is listed as stuck
	Quarantine OnStuck = "quarantine" // the lease becomes quarantined: it still counts, unless the pool's allowance covers it
)

func (o OnStuck) known() bool { return o == "" || o == Hold || o == Quarantine }
