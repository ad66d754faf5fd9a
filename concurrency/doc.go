// Package concurrency decides how many resources may be disrupted at once: who may take a slot now,
// and who waits for which pool. Describe the pools in a [Snapshot] and those who ask as a list of
// [Candidate], and call [Plan]; [Apply] gives the records to store before anything is dispatched.
//
// It never decides health, never frees a slot on its own, performs no I/O, starts no goroutine and
// reads no clock.
//
// It follows the resource concurrency of the deployment bracket RFC of ctrlplane. It also answers
// what that draft leaves open: whose slot it is, what several rules on one resource mean, and what
// happens to a slot that nobody gives back.
//
// A [Rule] covers members with one [Pool], or with one pool per value of a variable. A slot of a
// pool is a [Lease]. A resource holds it for a group, from the group's first start on the resource
// to the group's end: it stays between two jobs, while one is repeated and during a rollback.
// [Plan] admits a batch of candidates against one [Snapshot]; [Apply] turns what the host carries
// out into records to be written under the condition that nobody else has written. The host
// dispatches after that.
//
//	plan, err := concurrency.Plan(snapshot, candidates, now)
//	records, err := concurrency.Apply(snapshot, candidates, plan.Admitted, now)
//	for _, r := range records { save(r.Key, r, r.Revision) }   // compare-and-swap: in one transaction, or in this order, see Apply
//	dispatch(plan.Admitted)                                    // each job carries the tokens of its claims
//
// Between plans a host need not go through its fleet for every event. A [Queue] keeps the leases
// and who waits. When a lease ends or a candidate comes, it admits whom Plan would admit, at a cost
// that depends on who may start now and not on how many wait.
//
// What is active: active(pool) is the number of distinct members that hold a counting lease or are
// observed to be unavailable. A start whose resource is active in a pool already consumes nothing
// there; nor does one whose resource is down with a quarantined lease that the allowance covers. At
// most max(pool) = min(total, limit of total) may be active.
//
// These invariants hold in every state, and the tests refer to them by number:
//
//	I1   After any part of a batch is carried out, active ≤ max, or it has started none but
//	     holders and resources that were disrupted already.
//	I2   A holder is never refused, not even above the limit, in a paused pool or in an unknown
//	     one, unless it only begins, see Candidate.
//	I3   An admitted candidate fits all its pools; without strict a refused one took nothing.
//	I4   The order of the input changes nothing.
//	I5   Planning again on what a plan led to admits nothing more that consumes, as long as no
//	     holder asked twice.
//	I6   No lease disappears without release; no plan pre-empts.
//	I7   With one pool per candidate a higher limit refuses nobody who was admitted. A pool nobody
//	     needs changes nothing.
//	I8   Quarantine adds no more holders than its allowance.
//	I9   The tokens of a pool strictly increase; a holder has at most one that is valid, and every
//	     other is refused.
//	I10  Under any interleaving of planners, claims, crashes and stale snapshots active exceeds
//	     max only because max has shrunk since, or because of holders.
//	I11  Every refusal names a pool and an event that can end it.
//	I12  If every holder ends and limits are at least 1, every candidate is admitted in the end;
//	     with strict, in order among those that need the same pools.
//
// Waiting is never an error. Errors are for configuration ([FieldError]), for contradictory input,
// and for records that changed ([ErrConflict]) or leases that were lost ([ErrFenced]).
package concurrency
