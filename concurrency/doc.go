// Package concurrency limits how many resources may be disrupted at once, and how many may begin to
// be disrupted in a period: it decides which candidates may take a slot now, and which wait for
// which pool. Describe the pools in a [Snapshot] and the requested starts as a list of [Candidate],
// and call [Plan]. [Apply] returns the records to store before anything is dispatched.
//
// It never decides health, never frees a slot on its own, performs no I/O, starts no goroutine and
// reads no clock.
//
// It follows the resource concurrency of the deployment bracket RFC of ctrlplane. It also answers
// what that draft leaves open: who holds a slot, what several rules on one resource mean, and what
// happens to a slot that is never released.
//
// A [Rule] covers members with one [Pool], or with one pool per value of a variable. A slot of a
// pool is a [Lease]. A resource holds it for a group, from the group's first start on the resource
// to the group's end: it keeps the lease between two jobs, while a job is repeated and during a
// rollback. [Plan] admits a batch of candidates against one [Snapshot]. [Apply] turns the starts
// that the host carries out into records, to be written by compare-and-swap. The host dispatches
// after that.
//
//	plan, err := concurrency.Plan(snapshot, candidates, now)
//	log(plan.Describe(snapshot, candidates))                   // who may start, and who waits for which pools
//	records, err := concurrency.Apply(snapshot, candidates, plan.Admitted, now)
//	for _, r := range records { save(r.Key, r, r.Revision) }   // compare-and-swap: in one transaction, or in this order, see Apply
//	dispatch(plan.Admitted)                                    // each job carries the tokens of its claims
//
// A [Queue] saves a pass over the fleet for every event between plans. It keeps the leases and the
// waiting candidates. When a lease ends or a candidate is added, it admits the candidates that Plan
// would admit, at a cost that depends on how many may start now, not on how many wait.
//
// The number active(pool) counts the distinct members that hold a counting lease or are observed to
// be unavailable. A start whose resource is active in a pool already consumes nothing there; nor
// does a start whose resource is down with a quarantined lease that the allowance covers. At most
// max(pool) = min(total, limit of total) may be active. A start that consumes makes its resource
// begin in the pool; a [Rate] limits how many begin within its period.
//
// So what is broken can always be repaired. But if a fault of the network makes half of a fleet look
// down, that half may start at once: HaltAboveUnavailable of a [Rule] says when nothing begins any
// more.
//
// These invariants hold in every state, and the tests refer to them by number:
//
//	I1   After any part of a batch is carried out, active ≤ max, or that part started only
//	     holders and resources that were disrupted already.
//	I2   A holder is never refused, not even above the limit, in a paused pool, a halted or an
//	     unknown one, unless Begins is set, see Candidate.
//	I3   An admitted candidate fits all its pools; without strict a refused one took nothing.
//	I4   The order of the input changes nothing.
//	I5   Planning again after a plan is carried out admits nothing more that consumes, as long as
//	     no holder asked twice.
//	I6   No lease disappears without release; no plan pre-empts.
//	I7   With one pool per candidate a higher limit refuses no candidate that was admitted. A pool
//	     that no candidate needs changes nothing.
//	I8   Quarantine adds no more holders than its allowance.
//	I9   The tokens of a pool strictly increase; a holder has at most one valid token, and every
//	     other is refused.
//	I10  Under any interleaving of planners, claims, crashes and stale snapshots, active exceeds
//	     max only because max has shrunk since, or because of holders.
//	I11  Every refusal names a pool and an event that can end it.
//	I12  If every holder ends, time passes and limits are at least 1, every candidate is admitted in
//	     the end; with strict, in order among those that need the same pools.
//	I13  In every half-open interval as long as the period of a Rate at most as many members begin
//	     as its limit allows, whichever part of a plan is carried out, holders aside and resources
//	     that were disrupted already.
//	I14  In an Exclusive pool no group begins on a resource on which another one holds, whichever
//	     part of a plan is carried out, holders aside.
//
// Waiting is never an error. Errors are for configuration and arguments that are wrong or contradict
// one another ([FieldError]), for records that changed ([ErrConflict]), and for leases that were lost
// ([ErrFenced]).
package concurrency
