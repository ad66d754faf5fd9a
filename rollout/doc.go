// Package rollout puts policies over a fleet and decides, in one plan, which release targets may start which version now, which must wait, until
// when, and why. [ParsePolicies] reads policies, [Compile] checks and compiles them once, and [PolicySet.Plan] plans on a [Snapshot] of the
// fleet, as often as something happens; [Plan.Commit] says what state follows. For a host that wants the state loaded and saved, [Planner.Plan]
// does all of that in one call.
//
//	set, err := rollout.Compile(policies, env)   // env: a *selector.Env of selector.DefaultSchema
//	plan, err := set.Plan(snapshot, now)
//	state, err := plan.Commit(plan.Start, now)   // or any part of Start; save the state, then dispatch
//
// It never deploys anything, never decides health, performs no I/O, starts no goroutine and reads no clock; Planner is the one exception, and
// nothing but a shell.
//
// The designs it follows are the deployment bracket RFC of ctrlplane (brackets, resource concurrency, scoped dependencies, one rollout position
// for a whole bracket) and the policy rules of that system as far as they are pure planning.
//
// # The chain
//
// Versions that are not for a target do not exist for it: the targetSelector of a version is asked before everything else, so that it gives no
// denial, asks for no approval and counts in nobody's percentage. A policy governs the targets that its selector matches; every policy that
// governs a target must allow its start. The rules are asked in this order and all that block are reported, each with a stable code, the
// instant at which looking again can help and the events that can:
//
//  1. the status of the version
//  2. versionSelector
//  3. anyApproval
//  4. environmentProgression: it succeeded elsewhere, on enough targets and for long enough
//  5. deploymentBracket: members are chosen, ordered and locked by package bracket
//  6. deploymentDependency, and the dependencies of the version itself
//  7. versionCooldown
//  8. deploymentWindow: the windows of one policy are one calendar of package clock, several policies must all be open
//  9. gradualRollout, which advances in open time only: what a window interrupts goes on where it stopped
//  10. rollback, retry, rules of the host ([WithRule]), and a target that is busy
//  11. resourceConcurrency: asked last, in one batch, only for what passed everything else
//
// The newest version that all rules allow is chosen. What a target runs, or has begun, is never taken back because of a wait; a rollback rule alone
// takes it back, once. That holds for what the snapshot shows: a start that comes late may be of an older version than what others have deployed
// meanwhile, so a host with several planners creates the job only if no job has come to the target that the snapshot did not have. An execution of a bracket starts only when all its members may run, so that nothing is drained to wait; from then on
// only its own order, dependencies outside it and busy targets are asked. An [Override] lets one version past one rule for a time.
//
// [Plan.Explain] says what every rule thinks of every version of one target, [Plan.Changes] what is different from an earlier plan,
// [PolicySet.Lint] what can never finish. A [Recording] is a plan with all that it was made from, for a log of decisions; [PolicySet.Replay] makes it
// again, by a later version of this package or under other policies.
//
// # Positions
//
// A position is a rank by hash, computed once per rollout, so it never depends on the order of the input, and close version ids give
// different orders. A target that joins after the start ranks after those that were there, and moves none of them: everybody whom a curve
// governs has a place, and none is refused for want of one. The hashes are frozen by golden vectors.
//
// # Editing a policy while it is at work
//
// Policies and fleets may change at any time; every plan goes by what it is given, and by the state. What is decided already stays, what has not begun
// follows the edit at once:
//
//   - An execution of a bracket that has begun is finished as it was frozen, with the copy of the rule that its group took: its versions, order and
//     onMemberFailure stay, also where the version is withdrawn or deleted meanwhile, the rule is removed, or another bracket has taken over the
//     targets, which then waits. To end it earlier takes a [bracket.Command]. Dependencies outside the bracket and busy targets are asked of it still,
//     by the rules of now: where a dependency is added on what only the next group brings, the two wait for one another until the execution is ended.
//     A member of which the target is removed is cancelled for good if it waits: a node of which the uncordon is taken away while it is drained is
//     not uncordoned, not even once the uncordon is back. Where its run is in progress, or the resource or the environment is missing as a whole, the
//     execution stays open, see [DiagnosticExecutionUnseen].
//   - State hangs on the ids of rules, see [LintPolicyDisabledState]. A bracket rule that is renamed collects anew under its new id. One that is removed
//     and put back collects anew what had not begun, and so tries again where an execution of that group had failed.
//     While it is away its targets are only as limited as what governs them still: with no policy at all, everything that is ready starts at once. Pause
//     with a limit of 0 or a closed window, not by disabling the policy.
//   - An execution that is open waits for no further pool: a member that a merge or an edit brings starts in a pool that is new to it, whatever the limit.
//   - A slot stays with its holder. Lowering a limit takes nothing back; a pool that is new, renamed or grouped otherwise counts who is at work on what it
//     governs. The lease that was taken under the old key counts there until its group ends; those that nobody uses are in [Plan.Orphans].
//   - A curve keeps the start and the size that its rollout had when it began, by the id of its rule; intervals, types, keys and salts are those of now,
//     so another orderKey or orderSalt changes who is next. A renamed curve begins anew at the same base.
//   - Bracket members: of a version that may be deployed only after a newer one was locked nothing is new, but for targets that are approved later than
//     others; and who is given a version by an edit after its execution has ended waits for the next group. A [Target.OutdatedAt] opens that at once.
//     Such a group is like any other: wherever the one before has not begun it takes its place, with a curve that begins anew at its own close, so
//     outdating one target in the middle of a long curve delays those who are behind it.
//   - A version that became current or started is never taken back by an edit. One that changes its CreatedAt changes the order of versions, and
//     what is older than what: publish another id instead.
//   - Where the state is lost, the jobs say which group they were of: executions go on if it can be closed again as it was and no later one has
//     been at work on the resource; where it cannot, the next group takes a number that no job has. Slots are counted from active jobs and open
//     executions until they are taken again. What only the state knew is gone: that an execution was given up, or which commands it has had. An execution
//     that a backup has open goes on; if a later group has been at work there since, resolve it, for a retry would deploy the older version once more.
//
// [PolicySet.Replay] says beforehand what an edit would have changed in recorded plans, and [Plan.Changes] afterwards what it did.
//
// # Invariants
//
//	I1   a plan is a function of its input; the order of the input changes nothing
//	I2   planning again after any subset of a plan was carried out starts nothing of it twice
//	I3   no target is given a version older than its current or started one, except by a rollback, which is never rolled back
//	I4   what a target runs is never cleared
//	I5   capacity aside, whoever is allowed stays so while time passes inside an open window, but for maximumAgeHours and overrides
//	I6   Next is after now, and between the two the plan stays the same
//	I7   capacity aside, no allowed target waits because another one joins, leaves or is relabelled, unless a progression counts it or a dependency names it
//	I8   due times are monotone in the position, and open instants
//	I9   the open time between two due times is the difference of their offsets
//	I10  a waiting target lists every rule that blocks it: without these, of which the allowing windows of a policy are one, it would start
//	I11  capacity aside, adding a rule admits nobody; but retry, a further allowing window in a policy that has one, and a bracket that changes an implied orderKey can,
//	     and a rollback rule takes back
//	I12  capacity aside, an expression that fails on a target changes the plan of no other; one about the roles of a bracket's members holds the bracket
//	I13  every start carries the claims to the slots that it needs
//	I15  what Compile accepts can be planned with, and every pending verdict names a time or an event
//	I16  the members of a bracket on one resource share one position and one due time
//	I17  hashes, orders and offsets are the same on every platform
//
// # Where the designs are not followed
//
// An expression that does not compile is an error, never a policy that silently does not apply. Nothing is cleared when no version may
// start. Two approval rules, one of them unmet, do not let a version start. A slot belongs to (resource, group) and not to a running job. A
// status that nobody knows is an active job. Backoff and offsets are integers that saturate or fail, and never wrap. A targetSelector that
// fails reaches nobody, unless [WithScopeErrors] says so. A cooldown is counted per target. The soak of a progression counts from the first
// success, so a redeployment does not begin it anew. A rollout that closed windows interrupt does not make up for them in a burst.
package rollout
