// Package rollout puts policies over a fleet and decides, in one plan, which release targets may
// start which version now, which must wait, until when, and why. [Load] reads policies, checks and
// compiles them once, and [PolicySet.Plan] plans on a [Snapshot] of the fleet, whenever something
// happens; [Plan.Commit] returns the state that follows. For a host that wants its state loaded and
// saved, [Planner.Plan] does all of that in one call, and [Planner.Look] only loads and plans.
//
//	set, err := rollout.Load(file, env, rollout.WithZones(time.LoadLocation)) // env: a *selector.Env of selector.DefaultSchema
//	plan, err := set.Plan(snapshot, now)
//	state, err := plan.Commit(plan.Start, now)   // or any part of Start; save the state, then dispatch
//
// It never deploys anything, never decides health, performs no I/O, starts no goroutine and reads
// no clock. The one exception is Planner, a thin shell over a store and a clock.
//
// It follows two designs of ctrlplane. One is the deployment bracket RFC: brackets, resource
// concurrency, scoped dependencies, one rollout position for a whole bracket. The other is that
// system's policy rules, as far as they are pure planning.
//
// # The chain
//
// Versions that are not for a target do not exist for it. The targetSelector of a version is
// evaluated before everything else: on a target that it leaves out, the version is not denied,
// needs no approval and counts in no percentage. A policy governs the targets that its selector
// matches; every policy that governs a target must allow its start. The rules are asked in this
// order. Every rule that blocks is reported, with a stable code, the instant at which looking again
// can help and the events that can:
//
//  1. the status of the version
//  2. versionSelector, and failureBudget: the version has not failed on too many targets
//  3. anyApproval
//  4. environmentProgression: the version succeeded elsewhere, on enough targets and long enough
//     ago
//  5. deploymentBracket: members are chosen, ordered and locked by package bracket
//  6. deploymentDependency, and the dependencies of the version itself
//  7. versionCooldown
//  8. deploymentWindow: the windows of one policy are one calendar of package clock; if several
//     policies have windows, all their calendars must be open
//  9. gradualRollout, which advances in open time only: a rollout that a closed window, or a Freeze
//     with PauseCurves, interrupts goes on where it stopped
//  10. rollback, retry, rules of the host ([WithRule]), a [Freeze], and a target that is busy
//  11. resourceConcurrency: asked last, in one batch, only for what passed everything else, in the
//     order of the priorities of the versions and then of the instants since which they are due
//
// Rules 1 to 4 are the gates of a version. The newest version that all rules allow is chosen. What
// a target runs, or has begun, is never taken back because of a wait; only a rollback rule takes it
// back, once. That holds for what the snapshot shows. A start that is dispatched late may carry an
// older version than another planner has deployed meanwhile. So a host with several planners
// creates the job only if the target has no job that was missing in the snapshot.
//
// An execution of a bracket starts only when all its members may run, so that no node is drained
// only to wait. From then on only the order and the failures of its members, dependencies on
// deployments outside it, busy targets and a Freeze can hold it up. Different brackets do not wait
// for each other: two that have members on one resource may be at work there at once, with one slot,
// and one may uncordon what the other has drained. So what must not meet on a resource belongs into
// one bracket, or both need a place in one pool that is exclusive; see [LintBracketsSideBySide].
//
// An [Override] lets one version past one rule for a time. A Freeze keeps targets from starting
// anything for a time, whatever the rules say.
//
// [Plan.Explain] says what every rule decides about every version of one target, [Plan.Queue] who
// gets the next slots, [Plan.Changes] what differs from an earlier plan, [PolicySet.Lint] what can
// never finish. A [Recording] is a plan with everything it was made from, for a log of decisions;
// [PolicySet.Replay] makes the plan again, with a later version of this package or under other
// policies.
//
// # What is checked when
//
//	a document is read      ParsePolicies            its form: unknown fields, wrong types
//	a policy is edited      Policy.Validate          what can be seen without compiling expressions
//	                        Load, Compile            all of that, the expressions, and what several policies say together
//	                        PolicySet.Check          whether they fit the fleet: circles, overlaps, members that no order fits
//	                        PolicySet.Lint           what can never finish, or is likely to surprise; nothing that it finds stops a plan
//	a version is published  PolicySet.CheckVersion   the expressions that it carries
//	                        PolicySet.Check          whether versions wait for one another
//	a decision is given     Approval.Validate        what is missing or contradictory in it: with such a fault in the snapshot nothing is planned for anybody
//	                        Override.Validate
//	                        Freeze.Validate
//	                        bracket.Command.Validate
//	                        PolicySet.Plan           that it has an effect, on a snapshot with it: see Plan.Diagnostics
//	always                  PolicySet.Plan           the snapshot
//
// # Positions
//
// A position is a rank by hash, computed once per rollout, so it never depends on the order of the
// input, and close version ids give different orders. A target that joins after the start ranks
// after those that were there, and moves none of them, so every target that a curve governs has a
// place. The hashes are frozen by golden vectors.
//
// # Editing a policy while it is at work
//
// Policies and fleets may change at any time; every plan is made from the policies, the snapshot
// and the state that it is given. What has begun is finished under the rule it began with. What has
// not begun follows the edit at once. [PolicySet.Replay] shows beforehand what an edit would have
// changed in recorded plans, and [Plan.Changes] afterwards what it did. In particular:
//
// Open executions of a bracket:
//
//   - An execution keeps the copy of the rule that its group took when it closed: versions, order
//     and onMemberFailure. It keeps them when a version is withdrawn or deleted, when the rule is
//     removed, and when another bracket takes over the targets; that bracket then waits. Only a
//     [bracket.Command] ends the execution earlier.
//   - A dependency that ordered the members of an execution goes on ordering them, even when some
//     of them have left the bracket.
//   - Dependencies on deployments outside the bracket, busy targets and freezes still hold it up,
//     under the rules as they are now. If somebody adds a dependency on a version that only the
//     next group brings, the execution and that group wait for each other until a command ends the
//     execution.
//   - The host may take one of its targets to a newer version by a job of its own. The execution
//     does not take the target back: a main member has nothing left to do, and a hook runs the
//     version that the target has. Only a run of the execution that a snapshot has shown by then
//     goes on.
//   - An open execution waits for no further pool: a member that a merge or an edit adds starts
//     even if it needs a full pool in which the execution holds no slot.
//   - A member whose target is removed is cancelled for good if it has not started. If the uncordon
//     is taken away while a node is drained, the node is not uncordoned, not even once the uncordon
//     is back. If a run of the member is in progress, or if the whole resource or environment is
//     missing, the execution stays open; see [DiagnosticExecutionUnseen].
//
// Bracket rules and their groups:
//
//   - State is stored under the ids of rules; see [LintPolicyDisabledState]. A bracket rule that is
//     renamed collects anew under its new id. One that is removed and put back collects anew what
//     had not begun, and so tries again where an execution had failed.
//   - While a policy is disabled or removed, its targets are limited only by the policies that
//     still govern them: with no policy at all, everything that is ready starts at once. To pause,
//     freeze the targets, set a limit of 0, with which only resources that are down still start,
//     or close a window; do not disable the policy.
//   - A collection window that is made shorter ends where the shorter one would have ended, and the
//     curve of its group begins there. If the new end lies far in the past, all turns since then
//     come at once, and versions that appeared after it need another group. For a hotfix that must
//     not wait, give the command [bracket.Close] instead.
//   - A version that becomes deployable after a newer one was locked opens no group, except for
//     targets that are approved later than others. If an edit makes a target need a version after
//     the execution there has ended, the target waits for the next group. No command begins an
//     ended execution again; a [Target.OutdatedAt] opens the next group, and so does a
//     [Target.JoinedAt] after the end, for a node that was rebuilt under its old name.
//   - A group that closes replaces the one before it on every resource of the environment where the
//     earlier one has not begun, and the curve of the new group begins when it closes. So every new
//     version delays all resources whose turn has not come, even a hotfix whose targetSelector
//     names one node; and so does a [Target.OutdatedAt], which opens a group at once. See
//     [LintOrderStarves].
//
// Slots and curves:
//
//   - A slot stays with its holder, and lowering a limit takes nothing back. A pool that is new,
//     renamed or grouped by another key counts the executions and jobs in progress on its members.
//     A lease under the old key counts in the old pool until its group ends; leases without a
//     holder at work are listed in [Plan.Orphans].
//   - A rate counts the resources that the records of its pools remember to have begun. They are
//     remembered for the period that the rate had when they began: a rate that is new, or whose
//     pool was renamed, knows of none before, and one whose period was made longer of none in the
//     part that was added. A resource that is down by itself, or by a job without a lease, has not
//     begun.
//   - A curve keeps the start and the size that its rollout had when it began, stored under the id
//     of its rule; a renamed curve begins anew, counted from the same instant. Interval, type, key
//     and salt follow an edit at once, so another orderKey or orderSalt changes who is next.
//
// Versions:
//
//   - No edit takes back a version that is current or started, except that of its status where a
//     [Rollback] names the new one, and of that rule itself. Changing the CreatedAt of a version
//     changes which versions are older than it: publish another id instead.
//   - A host may take a target back to an older version by a job of its own, one without a run id.
//     The target stays there while a job of the newer version is listed in Target.Jobs, until a
//     newer one comes or a later Target.OutdatedAt asks for a run. If the newer version has not
//     succeeded there, the target waits with [ReasonRetryExhausted], and a later [Override] of a
//     retry or rollback rule has it tried again, too. To keep it from the rest of the fleet as well,
//     set it to paused. In a bracket the target stays there until a group brings it a version that
//     is newer than the one that it runs.
//   - A bracket goes by what a target runs, not by what it has begun. So where an operator has
//     ended an execution that failed, and its version is withdrawn, the next group may bring a
//     version that is older than the withdrawn one, if it is newer than the current one. Outside
//     brackets the target waits for one that is newer than the one that failed.
//   - A version that is paused, or whose approval is taken back, stops where it is, and its curve
//     runs on. Once it may go on, all targets whose turn has come meanwhile start at once, as far
//     as the limits allow. A closed deployment window stops the curve, too, and so does a [Freeze]
//     with PauseCurves. Where the version has begun and failed, it is tried again all the same, see
//     [Retry]. An execution of a bracket that begins meanwhile leaves the version out for good, and
//     its target waits for the next group.
//
// Lost state:
//
//   - The run ids of the jobs name their groups. An execution goes on if its group can be closed
//     again as it was, and no later group has been at work on the resource. If the group cannot be
//     restored, the next one takes a number that no job has. One that [bracket.Close] closed is not
//     restored. What had begun in it stays as it is until the next group closes: give the command for
//     that one, too.
//   - Slots are counted from active jobs and open executions until they are taken again. So outside
//     brackets a slot is lost that its resource keeps between two attempts, or while its job is
//     being verified, and another resource may start meanwhile. Rates know of nothing that began
//     before.
//   - What only the state knew is lost: that an execution was given up, and which commands it has
//     received. An execution that is open in a restored backup goes on; if a later group has been
//     at work there since, resolve it by a command, because a retry would deploy the older version
//     once more.
//
// # Invariants
//
//	I1   a plan is a function of its input; the order of the input changes nothing
//	I2   planning again after any subset of a plan was carried out starts nothing of it twice
//	I3   no target is given a version older than its current one, or outside brackets its started
//	     one, except by a rollback, which is never rolled back
//	I4   what a target runs is never cleared
//	I5   capacity aside, a target that is allowed stays so while its windows are open, unless
//	     maximumAgeHours or an override expires, an override of a rollback rule ends its way back, a
//	     freeze begins, or the instant comes for which the end of a job was recorded ahead, and with
//	     it the failures exceed a failureBudget
//	I6   Next is after now, and between the two the plan stays the same
//	I7   capacity aside, no allowed target waits because another one joins, leaves or is
//	     relabelled, unless a progression or a failureBudget counts it or a dependency names it
//	I8   due times never decrease with the position, and are open instants
//	I9   the open time between two due times is the difference of their offsets
//	I10  a waiting target lists every rule and freeze that blocks it, and would start without these;
//	     the allowing windows of a policy count as one rule. What an execution of a bracket is asked
//	     before it begins is listed only once its group has closed
//	I11  capacity aside, adding a rule admits nobody, except retry, a further allowing window in a
//	     policy that has one, a bracket that changes an implied orderKey, and a rollback rule,
//	     which starts the way back
//	I12  capacity aside, an expression that fails on a target changes the plan of no other; one
//	     about the roles of a bracket's members holds the bracket
//	I13  every start has passed all rules that are asked about it, and carries the claims to the slots
//	     that it needs
//	I14  what packages bracket and concurrency promise holds for every plan
//	I15  what Compile accepts can be planned with, and every pending verdict names a time or an event
//	I16  the members of a bracket on one resource share one position and one due time
//	I17  hashes, orders and offsets are the same on every platform
//
// # Where the designs are not followed
//
// An expression that does not compile is an error, never a policy that silently does not apply; so
// is the second example of the bracket RFC, which writes AND where CEL has &&. Nothing is cleared
// when no version may start. Two approval rules, one of them unmet, do not let a version start. A
// slot belongs to (resource, group) and not to a running job. A status that nobody knows is an
// active job. Backoff and offsets are integers that saturate or fail, and never wrap. A version
// whose targetSelector fails reaches no target, unless [WithScopeErrors] says so. A cooldown is
// counted per target. The soak of a progression counts from the first success, so a redeployment
// does not begin it anew, and an environment without targets for the version proves nothing beside
// one that has some. A rollout that was interrupted by closed windows does not catch up in a
// burst.
package rollout
