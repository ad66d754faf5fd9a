// Package surge plans rolling updates over numbered replicas: which indices may be created and
// which may be deleted now. Call [Plan] with a [Spec] and what exists, one [Slot] per index; carry
// out the actions that it returns, and plan again, until the result is Converged. [PlanSet] does
// the same for a Grove PodCliqueSet: its replicas, their scaling groups and their pods.
// [ParsePodCliqueSet] reads the manifest of one.
//
// It performs no I/O, starts no goroutine, reads no clock and remembers nothing between calls.
//
// A set of R replicas is numbered from 0; at rest exactly the indices [0, R), its base, exist.
// During an update up to S extra replicas may exist in the surge range [R, R+S); at the end they
// are gone and no index is missing. At most U of the base may be missing on the update's account,
// so the floor is R-U available replicas. The semantics are those of Grove's update strategy, which
// no released system implements. Nothing in them is specific to Grove: shards or members of a
// database have the same shape.
//
// # A host's duties
//
//  1. Decide which replicas are available, and which run the target revision. Where a replica is
//     made of several pods, [Fold] makes one slot of them.
//  2. Show every replica, a terminating one included, and execute any part of the plan, in any
//     order. A grace period for replicas that just failed is a deletion with the reason
//     [OutdatedUnavailable] that is not executed yet.
//  3. Plan again whenever something changed. If the observation may be older than the calls made
//     since, plan on [Apply] of them.
//  4. If a plan is empty and stays so for too long, ask [Diagnose] what it waits for. A surge that
//     is stuck and deleted by hand is created again while it is needed; maxSurge 0 with
//     maxUnavailable 1 frees the update. In a set, ask about the components of the current replica,
//     see [Component.Flat].
//  5. Enumerate gangs by [Gangs], up to the highest index in use, and suspend gang termination
//     where [Spec.Warnings] says BelowMinAvailable.
//
// A new revision is a change of labels: old is whatever is not the target. A rollback, a scale,
// another budget, a crash in the middle are ordinary inputs as well, because nothing is remembered.
//
// # What a plan keeps, in every state, reachable or not
//
//	I0  only live replicas are deleted
//	I1  only free indices are created on, and a terminating replica holds its index; so no more
//	    than R+S exist in [0, R+S)
//	I2  if an available replica is deleted, at least R-U available ones are left after the whole plan
//	I3  nothing is created at or above R+S
//	I4  nothing below the partition is deleted
//	I5  no base replica at the target is deleted, available or not: whoever restarts replicas will
//	    restart it
//	I6  every hole of the base is filled by the same plan; unless it is paused, a set in which
//	    nothing is broken, on its way or planned has converged
//	I9  after the whole plan, the next one is empty
//	IE  a surge is created only while an available outdated replica waits, and never more than floor minus those that stay
//	IR  below the partition replicas are created at the stable revision, all others at the target
//
// # What an update keeps, unless it is paused
//
// Let f be the number of unavailable base replicas that are not the planner's to replace: at the
// target, or below the partition.
//
//	IL  after finitely many failures it ends: steps of plans, in any part and order, and of the world never form a cycle
//	I7  it stops before the end only if f ≥ U+S, or if f ≥ U and a surge is not available
//	I8  nothing is left at or above R, unless f > U and what is left keeps the floor
//	IG  if indices at or above MinAvailable become available only after all below, there is still no deadlock
//	IX  an empty plan of a set that has not converged says what it waits for, in Result.Blocked
//
// If all was healthy when a revision came that never becomes ready, at most U+S replicas run it, U
// of them in the base, and it costs at most U available ones. Old replicas that fail meanwhile are
// replaced as well. Then, without gangs and Force, at most U+S replicas of the base and S surges
// run it, and it still costs at most U available ones.
//
// # How it plans
//
//  1. Deletions of replicas that serve nobody are free; those of available ones cost one unit each
//     of what is available above the floor.
//  2. Free: what is unavailable above the surge range, surges of an old revision that are not
//     available, and outdated base replicas that are not available. Of the last at most U+S are in
//     replacement at a time, never scheduled ones first. Members of the base gang do not wait for
//     this window, for everybody else waits for them, and Force lifts it.
//  3. The budget goes to available leftovers above the surge range, highest first, then to outdated
//     replicas in the order of the Spec.
//  4. Surges are sized by need: none if nobody waits that serves, else what the floor lacks once
//     all who wait are gone. Those above need are retired: unavailable, then old, then current
//     ones, highest first.
//  5. Holes are filled, then the lowest free surge indices.
//
// # A set of sets
//
//	H1  under RollingUpdate at most one replica of the set runs more than one revision
//	H2  under ReplicaRecreate none ever does
//	H3  under ReplicaRecreate I2 holds for whole replicas
//	H4  there is no stall but for a broken old unit in a replica that is held, or those of I7 in the current one
//	H5  without failures, one base replica at a time is neither wholly old and available nor complete; a scale-out adds its own
//	H6  after the whole plan nothing is left to do in a replica whose role stays
//
// H1 and H2 speak of updates that start without mixed replicas. There may be a second one where a
// mixed replica is scaled away and back in mid-update, or where the partition is raised above it:
// that one is held as it is.
//
// Three things are decided here that Grove's design leaves open. A replica that runs several
// revisions stays current even if another one has a unit too many, as after a component's replicas
// were lowered. Below the partition, a replica of which nothing is left comes back at the stable
// revision. Of a component that shrinks under ReplicaRecreate, an extra unit that serves goes only
// while as many others serve as the component is to have.
//
// # Beside other planners
//
// What the decision logic of others guarantees. Where a footnote says no, TestPeers holds a
// shortest counter-example: the state goes in, the wrong move does not come out.
//
//	                                         surge    Deployment  StatefulSet¹  LeaderWorkerSet  CloneSet²  Grove³
//	stable indices                           yes      no          yes           yes              no         yes
//	surge                                    yes      yes         no            yes              yes        no
//	exactly [0, R) exist at the end          yes      –           yes           no⁴              –          no⁵
//	a terminating replica holds its place    yes      no⁶         yes           yes              –          no⁷
//	floor of available replicas kept         yes      yes         yes           no⁸              yes        no⁹
//	a broken old replica never blocks        yes      yes         no¹⁰          no¹¹             yes        yes
//	broken ones are replaced                 U+S      within the  –             –                all at     all at
//	                                         at once  budget                                     once       once
//	unready surge goes before a ready one    yes      yes         –             no¹²             yes        –
//	partition                                yes      no          yes           yes              yes        no
//	base gang is repaired first              yes      –           –             –                –          no
//	budgets on                               3 levels 1 level     1 level       1 level          1 level    none, one at a time¹³
//
//	 1  with maxUnavailable                  2  of OpenKruise      3  as released; its update strategy's design is what this package plans
//	 4  a surge stays while the partition is above 0 (2/1/0, P=1, ONN: nothing goes)
//	 5  excess by count: where 0, 1 and 3 exist of 2, it deletes 2, which does not, and 3 stays for good
//	 6  terminating pods are not counted (kubernetes/kubernetes#95498; KEP-5882 proposes a policy)
//	 7  the index is free at once: two pods with one host name
//	 8  partition and reclaim spend one budget twice (4/3/2 OONtnNN: 5 available become 1, the floor is 2)
//	 9  all that are not ready and one more (R=2, oO: both go); since 2026 it keeps minAvailable, with which a clique at its default,
//	    where that is all of them, never begins (R=2, OO: nothing)
//	10  kubernetes/kubernetes#67250         11  kubernetes-sigs/lws#567
//	12  it reclaims by index (2/2/0 oNnN: 3 goes, which serves, and 2 stays, which does not)
//	13  the API of 2026 has maxUnavailable per component, a count; by its proposal (GREP-0741) nothing is repaired while a
//	    replacement is not ready (3/0/2 noO: nothing)
package surge
