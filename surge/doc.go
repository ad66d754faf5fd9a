// Package surge plans rolling updates over numbered replicas: which indices may be created and
// which may be deleted now. Call [Plan] with a [Spec] and what exists, one [Slot] per index, carry
// out the actions that it returns, and plan again until the result is Converged. [PlanSet] does the
// same for a Grove PodCliqueSet: its replicas, their scaling groups and their pods.
// [ParsePodCliqueSet] reads the manifest of a PodCliqueSet.
//
// The package performs no I/O, starts no goroutine, reads no clock and remembers nothing between
// calls.
//
// The R replicas of a set are numbered from 0. At rest exactly the indices [0, R) exist; they are
// the base. During an update up to S extra replicas may exist in the surge range [R, R+S). At the
// end they are gone and no index is missing. The update may take away at most U replicas of the
// base, so the floor is R-U available replicas. The semantics are those of Grove's update strategy,
// which no released system implements. Nothing in them is specific to Grove: shards or members of a
// database have the same shape.
//
// # A host's duties
//
//  1. Decide which replicas are available, and which run the target revision. What is available is
//     taken as proof, and the next one goes at once. So count a replica only once it has been ready
//     for as long as a bad revision may take until it shows, as minReadySeconds does, and a member
//     of a database only once it has caught up with the others. If a replica consists of several
//     pods, [Fold] makes one slot of them. A plan then creates and deletes it as a whole: pods that
//     a live replica lacks, because one was lost or a creation failed half-way, are for the host to
//     create, at the replica's own revision, unless the plan deletes the replica.
//  2. Show every replica, terminating ones included, and carry out any part of the plan, in any
//     order. For a grace period after a failure, do not carry out a deletion with the reason
//     [OutdatedUnavailable] yet.
//  3. Plan again whenever something has changed. If the observation may be older than the calls
//     made since, plan on what [Apply] makes of it with these calls. Apply labels a creation as its
//     plan did, so after a new revision label anew what was created before, or wait until it is
//     observed; otherwise a recreated replica may mix the two.
//  4. If a plan is empty and the slots stay the same for too long, ask [Diagnose], or [DiagnoseSet]
//     for a set, what it waits for; they cannot know for how long. A stuck surge that is deleted by
//     hand is created again while it is needed; maxSurge 0 frees the update, together with the
//     MaxUnavailable of the [Diagnosis].
//  5. Enumerate gangs with [Gangs], up to the highest index in use, and suspend gang termination
//     if [Spec.Warnings] says BelowMinAvailable.
//
// A new revision is a change of labels: a replica is old if it is not at the target. A rollback, a
// scale, another budget and a crash in the middle are ordinary inputs as well, because nothing is
// remembered. So is a replica that has to move, as from a node that is drained: shown as old, it is
// replaced within the budgets, unless it is below the partition.
//
// # What a plan keeps, in every state, reachable or not
//
//	I0  only live replicas are deleted
//	I1  replicas are created only on free indices, and a terminating replica holds its index; so at
//	    most R+S exist in [0, R+S)
//	I2  if an available replica is deleted, at least R-U available replicas are left after the whole
//	    plan
//	I3  nothing is created at or above R+S
//	I4  nothing below the partition is deleted
//	I5  no base replica at the target is deleted, available or not: whatever restarts replicas
//	    restarts it
//	I6  every hole of the base is filled by the same plan; unless it is paused, a set has converged
//	    if its plan is empty and no replica is unavailable or terminating
//	I9  after the whole plan is carried out, the next plan is empty
//	IE  a surge is created only while an available outdated replica waits, and then there are at
//	    most as many surges as the floor minus the available base replicas that stay
//	IR  below the partition replicas are created at the stable revision, all others at the target
//
// # What an update keeps, unless it is paused
//
// Let f be the number of unavailable base replicas that the planner may not replace: those at the
// target, and those below the partition.
//
//	IL  after finitely many failures the update ends: steps of plans, carried out in any part and
//	    order, and steps of the world never form a cycle
//	I7  the update stops before the end only if f ≥ U+S, or if f ≥ U and a surge is not available
//	I8  at the end nothing is left at or above R, unless f > U and what is left keeps the floor
//	IG  there is no deadlock even if indices at or above MinAvailable become available only after all
//	    indices below it
//	IX  if a plan is empty and the set has not converged, Result.Blocked says what it waits for
//
// If a set is healthy when a revision arrives that never becomes ready, at most U+S replicas run
// that revision, U of them in the base, and it costs at most U available replicas. Old replicas
// that fail meanwhile are replaced as well. Then, without gangs and Force, at most U+S replicas of
// the base and S surges run the revision, and it still costs at most U available replicas. A
// revision that breaks after it was available has gone on until then: see duty 1.
//
// # How it plans
//
//  1. Deleting a replica that is not available is free. Deleting an available one costs one unit of
//     the budget, which is the number of available replicas above the floor.
//  2. Free deletions are those of unavailable replicas above the surge range, of unavailable surges
//     of an old revision, and of unavailable outdated base replicas. Of the last, at most U+S are
//     in replacement at a time, never-scheduled ones first. Members of the base gang do not wait
//     for this window, because all other gangs wait for them, and Force lifts it.
//  3. The budget goes first to available leftovers above the surge range, highest first, then to
//     outdated replicas in the order of the Spec.
//  4. The number of surges follows the need: none if no available outdated replica waits, else what
//     the floor lacks once all waiting replicas are gone. Surges above the need are retired:
//     unavailable ones, then old ones, then those at the target, each highest first.
//  5. Holes are filled, then the lowest free surge indices.
//
// # A set of sets
//
//	H1  under RollingUpdate at most one replica of the set runs more than one revision
//	H2  under ReplicaRecreate no replica ever does
//	H3  under ReplicaRecreate I2 holds for whole replicas
//	H4  the only stalls are a broken old unit in a held replica, and those of I7 in the current one
//	H5  without failures, at most one base replica at a time is neither wholly old and available nor
//	    complete, apart from replicas and units that scaling adds or takes away, and from a replica
//	    above which the partition is raised
//	H6  after the whole plan is carried out, nothing is left to do in a replica whose role stays
//	H7  under RollingUpdate a plan takes no base replica down but the current one, and none above the
//	    base unless all replicas but one serve after it
//
// H1 and H2 are about updates that start without mixed replicas. There may be a second mixed
// replica if one is scaled away and back during an update, or if the partition is raised above it:
// that replica is held as it is, and the update goes on with the next one, even while the units that
// were just deleted in the first are created again.
//
// All replicas have the components of the [SetSpec]. If autoscalers scale the components of each
// replica apart, as those of Grove do, say so in the Replicas of [Units]: what a replica has beyond
// the number that it should have is deleted.
//
// This package decides four things that Grove's design leaves open. A replica in the middle of its
// update stays current even if another replica has a unit too many, for example after an autoscaler
// has lowered a component's replicas. A replica that is not current keeps the units that it needs to
// serve, whatever the budgets of its components: an extra one stays while it stands in for a broken
// one. A replica below the partition of which nothing is left is created again at the stable
// revision. If a component shrinks under ReplicaRecreate, an extra available unit is deleted only
// while as many others are available as the component should have.
//
// # Beside other planners
//
// The table shows what the decision logic of other planners guarantees. For each "no" with a
// footnote, TestPeers has a shortest counter-example: its state goes in, and the wrong move does
// not come out.
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
//	 5  excess goes by count: if 0, 1 and 3 exist of 2 replicas, it deletes 2, which does not exist, and 3 stays for good
//	 6  terminating pods are not counted (kubernetes/kubernetes#95498; KEP-5882 proposes a policy)
//	 7  the index is free at once: two pods with one host name
//	 8  partition and reclaim spend one budget twice (4/3/2 OONtnNN: 5 available become 1, the floor is 2)
//	 9  all that are not ready and one more go (R=2, oO: both); since 2026 it keeps minAvailable, so a clique at its default, where
//	    that is all of its pods, never begins (R=2, OO: nothing)
//	10  kubernetes/kubernetes#67250         11  kubernetes-sigs/lws#567
//	12  it reclaims by index (2/2/0 oNnN: 3 goes, which serves, and 2 stays, which does not)
//	13  the API of 2026 has maxUnavailable per component, a count; by its proposal (GREP-0741) nothing is repaired while a
//	    replacement is not ready (3/0/2 noO: nothing)
package surge
