package concurrency

// Reason is the stable code of a verdict on a candidate. Codes are part of the compatibility
// promise.
type Reason string

// Reasons of admitted candidates. Only SlotFree consumes a place.
const (
	SlotFree          Reason = "slot_free"           // takes a place in at least one of its pools
	SlotHeld          Reason = "slot_held"           // the same resource and group hold a lease already
	SlotAlreadyDown   Reason = "slot_already_down"   // the resource is active in every pool it needs, by another group or as unavailable
	RuleNotApplicable Reason = "rule_not_applicable" // the candidate is a member of no pool
)

// Reasons of refused candidates: all of them mean "wait", none is an error.
const (
	SlotFull      Reason = "slot_full"      // the greatest permitted number of members is active
	SlotPaused    Reason = "slot_paused"    // the pool's limit is 0, or amounts to 0 of its members, or that of its Rate does
	SlotExclusive Reason = "slot_exclusive" // another group is at work on the resource, in an Exclusive pool
	SlotHalted    Reason = "slot_halted"    // more members are unavailable than HaltAboveUnavailable of the pool says
	SlotKeysFull  Reason = "slot_keys_full" // MaxActiveKeys pools of the Family are active already, and this one is not among them
	SlotRateFull  Reason = "slot_rate_full" // as many members have begun as the pool's Rate lets begin in its period
	SlotReserved  Reason = "slot_reserved"  // the places left, or that of the resource in an Exclusive pool, are reserved for earlier candidates (strict)
	PoolUnknown   Reason = "pool_unknown"   // the snapshot says that the pool is Unknown
)

// ConditionKind says what kind of event can end the waiting of a refused candidate.
type ConditionKind string

const (
	OnSlot      ConditionKind = "slot"      // a place in the pool becomes free
	OnConfig    ConditionKind = "config"    // the pool's limit, or the pool itself, is configured
	OnAvailable ConditionKind = "available" // members of the pool become available again
	OnRate      ConditionKind = "rate"      // the pool's Rate lets one more member begin: at RateOpens of its Summary, or a period after the plan's admissions are carried out
)

// On returns the kind of event that can end the wait, empty for the reason of an admitted candidate
// and for an unknown value.
func (r Reason) On() ConditionKind {
	switch r {
	case SlotFull, SlotKeysFull, SlotReserved, SlotExclusive:
		return OnSlot
	case SlotPaused, PoolUnknown:
		return OnConfig
	case SlotHalted:
		return OnAvailable
	case SlotRateFull:
		return OnRate
	}
	return ""
}

// isLasting reports whether a candidate that is refused for the reason may wait for longer than for
// a place: it reserves nothing, because others would wait for it in vain.
func (r Reason) isLasting() bool {
	return r == SlotPaused || r == SlotHalted || r == SlotExclusive || r == PoolUnknown
}
