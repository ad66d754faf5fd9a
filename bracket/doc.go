// Package bracket decides which versions of several deployments belong together, and in which order
// they run on each resource as one unit: drain once, upgrade everything, uncordon once. Call [Step]
// with a [Rule], a [State] (initially that of [NewState]), an [Observation] and the current time.
// It returns the next state and a [Plan] of the runs that may start now.
//
// It never deploys anything, performs no I/O, starts no goroutine and reads no clock: Step is a
// pure function.
//
// It follows the deployment bracket RFC of ctrlplane. A bracket rule selects member deployments.
// New versions of its main members open a group, a window collects further ones, and when the
// window is over, or an operator ends it by [Close], the group locks one version per member, the
// same for all resources of the environment. An execution is one group on one resource: its pre
// members (drain) run first, then its mains along their dependencies, then its post members
// (uncordon), all under one lease.
//
// # The host's loop
//
//	read the leases, then the state, then the observation
//	next, plan, err := bracket.Step(rule, state, observation, now)  // what may start, what waits and why, when to look again
//	next, err = plan.Commit(next, runs, now)                        // any subset of plan.Start, in any order
//	save next.Group, if it changed                                  // every save by compare-and-swap; State.Changed names what to save
//	claim a lease for each run with First, quarantine abandoned ones
//	save the changed executions
//	dispatch the runs and plan.Redispatch, create-if-absent by Run.String
//	release the leases of executions that ended
//
// The example "host" is this loop, with the limits of package concurrency.
//
// A crash between any two of these is repaired by the next Step. A stale state does no harm,
// because every save is conditional. Stale versions do no harm to groups: if a planner closes a
// group before it has read a version, a planner that has read it opens one more group. They can
// harm executions: see Due in [Observation]. So can an observation that is older than the state: an
// execution that begins takes for From what a target ran before the execution that the state says
// has ended, and a rollback then goes back too far. And leases are read before the state, or an
// execution that the state shows open, and that has ended since, may claim again what it gave back.
// Where a [Store] lists what is stale that order is not enough: before a host claims a lease for an
// execution that is open already, it saves the execution record once more, which fails if the record
// is stale. Nothing would start under that lease, but the next group would on the same resource,
// beyond the limit, because a resource that is down needs no further slot.
//
// Leases are claimed before the execution is saved, and released after. If a lease were released
// earlier and the save then conflicted, because another planner has merged a group into the
// execution, the execution would go on without a lease. A crash can leave an active lease behind
// although the execution record says that the group has ended on the resource: the host then
// releases the lease. It can also leave one of an execution that never began and, if the group is
// superseded or its version withdrawn, never will. Another planner may be about to begin it, though.
// So before the host releases such a lease, it saves the execution record once more, as it was read;
// if there is none, one with nothing but Schema 1, Rule and Resource. Who planned before then fails
// to save. An execution that was taken up from a run, see [ExecutionStarted], has no lease until the
// host claims one.
//
// A planner that was paused after its saves dispatches late. The id of a job must therefore stay
// taken when the job has ended, and a dispatch be refused if its lease has gone meanwhile.
//
// The record of a resource that is gone stays until the host deletes it. It must not while the
// execution is open, while a planner still lists the resource, or, if the name may come back, while
// jobs of it are known: on a resource without a record the latest group has not run yet.
//
// # Invariants
//
// In every reachable state, whatever the order of calls, crashes and stale reads:
//
//	I1   only the version frozen for a member (or its From, under rollback) is ever started; if its
//	     target is taken to a newer one by other means before its run is seen, a main is skipped,
//	     and a hook runs that newer version
//	I2   at most one execution is open per (rule, resource)
//	I3   no main starts before every pre is satisfied, no post before every main is, except as
//	     OnMemberFailure states
//	I4   in one execution each pre succeeds at most once and each post at most once, whatever merges
//	I5   locks of a closed group only shrink
//	I6   Evaluate changes nothing; a Step repeated with the same input changes nothing more
//	I7   after Commit of a plan and the matching observation, the next plan offers none of its
//	     runs again
//	I8   the order of the input never matters
//	I9   if versions only appear and no command closes a group, one late Step yields the same groups
//	     and locks as many timely ones; except that a member which only versions make a hook, where
//	     roles are derived, opens no group late for versions of its own from before that
//	I10  a lease is active exactly while its execution is open (abandon leaves a quarantined one)
//	I11  every pending verdict has Until after now or a non-empty On; between now and Next the
//	     plan does not change
//	I12  under hold a failed member never leads to a post run
//	I13  an execution absorbs at most maxMerges groups, none after a post started
//	I14  a superseded execution never starts
//	I15  there is no group without a new version
//	I16  if all runs succeed, slots are granted and versions stop arriving, every needed execution
//	     completes
//	I17  from a crash after any prefix of the side effects the same final versions are reached,
//	     and no run id is dispatched twice
//	I18  with a lease ledger of limit k never more than k resources are open or quarantined
//
// # Where the RFC's sketch is not followed
//
// Evaluating writes nothing (the sketch creates groups while it evaluates). The version that a
// target runs already is always allowed. A group opens for a new version only, and its window
// starts at the version's own instant, not at the first call that sees it. Versions are locked when
// the window closes, from those eligible then; a member without a lock allows only its current
// version. A merge takes over the locks of a closed group; it does not let arbitrary versions in,
// nor anything after a post member has started. A hook that only the older of the two groups has
// stays and runs: a drained resource is uncordoned even if the newer group has no such hook. A
// require_all that times out becomes skip_unchanged instead of denying for ever. Groups belong to
// the environment, so that all resources lock the same versions. A group collects while an earlier
// one executes.
package bracket
