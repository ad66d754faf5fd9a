package rollout

// LintCode names a kind of finding. Codes are part of the compatibility promise. The comment at
// each says what it means, how severe it is and what corrects it.
type LintCode string

// Windows.
const (
	// LintWindowNeverOpens: within the horizon, the windows of the policies that govern some
	// targets are never open for as long as minimumRemainingMinutes asks, even without the closing
	// windows. Or the windows of a bracket's members never meet. An error if a target waits for
	// them; a warning if none does, or if some of the members can go alone. Windows that open and
	// then never again are no finding, although a version that is released, approved or due after
	// the last opening waits for ever. Add an opening, or ask for less remaining time.
	LintWindowNeverOpens LintCode = "window_never_opens"
	// LintFreezeCoversOpenings: as [LintWindowNeverOpens], but the closing windows are the reason.
	// Shorten them.
	LintFreezeCoversOpenings LintCode = "freeze_covers_openings"
	// LintWindowShorterThanBracket: on the critical path of its members' durations, an execution
	// takes longer than the windows are ever open at a stretch within the horizon, so it ends
	// outside of them. An error if even a single main member with its hooks takes so long, a
	// warning if only all members together do. Widen the windows, or split the bracket.
	LintWindowShorterThanBracket LintCode = "window_shorter_than_bracket"
	// LintCurveLongerThanWindowPeriod, a warning: one rollout needs more open time than one period
	// of the windows offers, so it is interrupted, for a day or a week each time. Widen the windows
	// or shorten the curve.
	LintCurveLongerThanWindowPeriod LintCode = "curve_longer_than_window_period"
	// LintCurveOverflows, an error: the last positions of a gradual rollout are due later than
	// 2262, which is as far as instants reach, and so never. Shorten the curve.
	LintCurveOverflows LintCode = "curve_overflows"
	// LintWindowClockChange, information: within the horizon an occurrence of a window begins or
	// ends at a reading that the clock of its zone skips or shows twice. Move it, or write gap and
	// overlap.
	LintWindowClockChange LintCode = "window_clock_change"
)

// Capacity.
const (
	// LintLimitZero, an error: a pool has members and lets none of them start, because its limit,
	// or the limit of its rate, is 0 or is rounded down to 0. A warning if no target is governed.
	// Write a count, or round up.
	LintLimitZero LintCode = "limit_zero"
	// LintPoolEmpty, a warning: a concurrency rule limits nothing, because its group has no member,
	// or none with a target that the policy governs. Correct groupSelector.
	LintPoolEmpty LintCode = "pool_empty"
	// LintOnStuckNever, a warning: a concurrency rule quarantines leases that are stuck, but its
	// stuckAfterSeconds is unset or 0, so none ever is. Set it, or leave onStuck out.
	LintOnStuckNever LintCode = "on_stuck_never"
	// LintPoolWithoutValue, a warning: a concurrency rule limits members that have no value of its
	// groupBy. They are one pool, whose key ends in a slash, with a limit of its own, so more
	// resources start at once than the values say. Give them a value, or leave it if that is meant.
	LintPoolWithoutValue LintCode = "pool_without_value"
	// LintCeilExceedsPercent, information: rounded up, a percentage lets more start than it says:
	// 20 % of 3 is 1 of 3. Use floor or floor_min_1, or a count.
	LintCeilExceedsPercent LintCode = "ceil_exceeds_percent"
	// LintHaltNever, a warning: no pool of a concurrency rule, or not each, has more members than may
	// be unavailable by its haltAboveUnavailable, so it never halts: perhaps a count of 40 was meant
	// to be 40 %. Write a percentage below 100, or a smaller count.
	LintHaltNever LintCode = "halt_never"
	// LintPoolsOverlapUnshared: two pools have a common member and each allows its own maximum. A
	// warning if only one of them limits some target there, because then the two maxima add up;
	// else information. Give both rules one sharedPool, or let them govern the same targets. Where a
	// resource is in more than eight pools, each rule is told of together with one other.
	LintPoolsOverlapUnshared LintCode = "pools_overlap_unshared"
)

// Dependencies between deployments, versions and environments.
const (
	// LintDependencyCycle, an error: deployments, versions or both wait for one another in a
	// circle. If deployments do so whatever their versions, nothing at all is planned while they
	// do. A bracket that waits for what it would bring itself is a circle, too, but a warning if
	// something else might still come first. Remove one of the edges, or narrow it with appliesTo.
	LintDependencyCycle LintCode = "dependency_cycle"
	// LintDependencyUnmatched: an error if a dependency, of a rule or of a version, names no
	// deployment that has a target on the resource in the environment or, with anyEnvironment, in
	// any. A warning if it names one, but no version of that deployment satisfies it, neither the
	// one that is there nor one that may come by its status and the version selectors. A version
	// that satisfies it counts even if a newer one overtakes it, or a group is locked without it.
	// Three cases are warnings all the same: the execution that brings the version that waits would
	// also bring such a newer one, which does not satisfy it; or a version depends on an earlier one
	// of its own deployment, and an execution would bring it at once, without that earlier one; or,
	// outside brackets, a target that is needed surely goes on to a newer one, past those that
	// satisfy it, because nothing, such as a curve, lets an older version through before a newer
	// one. Correct dependsOn, set anyEnvironment, narrow appliesTo, publish the version, let it
	// through, or pause the one that must come after it.
	LintDependencyUnmatched LintCode = "dependency_unmatched"
	// LintDependencyAcrossRoles, an error: a member of a bracket needs one that runs after it, as
	// a pre hook does that needs a main member, or a main member that needs a post hook. Nothing at
	// all is planned while it does. Change memberRoles, or narrow appliesTo.
	LintDependencyAcrossRoles LintCode = "dependency_across_roles"
	// LintAppliesToUnmatched, a warning: a dependency concerns no target. Correct appliesTo.
	LintAppliesToUnmatched LintCode = "applies_to_unmatched"
	// LintProgressionCycle, an error: environments wait for one another's success, with a version
	// that is for all targets and has succeeded nowhere yet. Narrow one of the policies.
	LintProgressionCycle LintCode = "progression_cycle"
	// LintProgressionNoEnvironment, an error: a progression names no other environment. Often the
	// first environment is governed by the rule that is meant for the others. Correct the
	// expression, or leave that environment out of the policy.
	LintProgressionNoEnvironment LintCode = "progression_no_environment"
	// LintProgressionWithoutProof, information: in none of the environments that a progression names
	// has the deployment of some targets a target, so that nobody proves anything for these. That is
	// as it should be if the deployment is here alone. Else correct the expression, or list the
	// targets there.
	LintProgressionWithoutProof LintCode = "progression_without_proof"
	// LintProgressionUnreachable, a warning: the version that targets would get next has not
	// succeeded where a progression wants it to, and can no longer succeed on as many targets as it
	// asks for. Targets there run it and no job says that it succeeded, as after a fleet was
	// adopted. Or they went on to a newer version, are refused this one, or failed with it and are
	// not tried again. Or its successes are older than maximumAgeHours. Lint judges only the next
	// version of each target, and does not foresee that it is overtaken there later. Record the
	// jobs, deploy the version there (again where it failed), or override the rule for it.
	LintProgressionUnreachable LintCode = "progression_unreachable"
	// LintProgressionUnverified, a warning: jobs in the environments that a progression names are
	// verified, and it does not ask for that: a job counts from its end on, even if its
	// verification then fails. Write requireVerificationPassed.
	LintProgressionUnverified LintCode = "progression_unverified"
	// LintDeadlineBelowSoak: maximumAgeHours is over before minimumSoakTimeMinutes is. An error if
	// every target must have succeeded and no bracket runs one of them again with its version, so
	// that no younger success can come; else a warning. A version that is for none of these targets
	// has nothing to prove there, and passes. Raise maximumAgeHours or lower the soak.
	LintDeadlineBelowSoak LintCode = "deadline_below_soak"
	// LintDeadlineBelowCurve, a warning: maximumAgeHours is over before a curve, which begins no
	// earlier than minimumSoakTimeMinutes ends, has come to its last turn. So each rollout stops half
	// way, unless a target there succeeds late, or once more. Raise maximumAgeHours or shorten the
	// curve.
	LintDeadlineBelowCurve LintCode = "deadline_below_curve"
	// LintApprovalUnreachable, an error: a rule asks for more approvals than there are known
	// approvers; a warning if it governs no target. Versions that are older than the rule pass all
	// the same. Name more approvers, or ask for fewer approvals.
	LintApprovalUnreachable LintCode = "approval_unreachable"
)

// Brackets.
const (
	// LintBracketNoMain, an error: all members are hooks, so nothing ever opens a group. Widen
	// deploymentSelector or narrow memberRoles.
	LintBracketNoMain LintCode = "bracket_no_main"
	// LintBracketHookWithoutVersion, an error: a hook runs nothing and has no version that may be
	// deployed, so no execution starts on its resource. Any version that may be deployed ends this
	// finding, even if it comes too late for a group that was closed before, or if a group passes
	// it over for a newer one that is not for this resource. Publish a version of the hook before
	// the first version of a main. One that comes after the close of a group is for the next group,
	// which only another version of a main, or a [Target.OutdatedAt], opens.
	LintBracketHookWithoutVersion LintCode = "bracket_hook_without_version"
	// LintBracketOverlapping, an error: two brackets claim one target. Nothing at all is planned
	// while they do. Narrow one of them.
	LintBracketOverlapping LintCode = "bracket_overlapping"
	// LintBracketsSideBySide, information: two brackets have hooks on the same resources. Different
	// brackets do not wait for each other: both may be at work on a resource at once, the second with
	// no slot of its own, and a hook that runs last in one, such as an uncordon, may undo what a hook
	// that runs first in the other, such as a drain, has done. Put what must not meet on a resource
	// into one bracket, or have both need a place in one pool that is exclusive.
	LintBracketsSideBySide LintCode = "brackets_side_by_side"
	// LintImmediateStarves, a warning: groups that close at once come faster than the curve is
	// long, or than a rate, or the slots, let their resources begin. A curve advances, and a slot is
	// taken, only while windows are open; how long a slot is kept is known if the durations are. So
	// the last positions are superseded before their turn, and they are the same each time. Set
	// orderSalt to group, shorten the curve, raise the rate or the limit, widen the windows, or
	// collect for longer.
	LintImmediateStarves LintCode = "immediate_starves"
	// LintOrderStarves, a warning: as [LintImmediateStarves], but with groups that are collected.
	LintOrderStarves LintCode = "order_starves"
	// LintHoldWithoutRetry, a warning: a member that fails once holds its execution, and its slot,
	// until an operator acts, and no rule retries it, or one of several allows no retry. Add a retry
	// rule, raise its maxRetries, or write another onMemberFailure.
	LintHoldWithoutRetry LintCode = "hold_without_retry"
	// LintRollbackWithHold, a warning: a rollback rule governs members of a bracket that holds
	// after a failure, so nothing is rolled back. Set onMemberFailure to rollback_member or
	// rollback_all.
	LintRollbackWithHold LintCode = "rollback_with_hold"
	// LintStuckBeforeRetry: in a bracket with several members stuckAfterSeconds is not above the
	// longest delay before a retry, so a lease or an execution with another job still at work can be
	// called stuck before the next attempt. A warning if the lease is then quarantined, else
	// information.
	LintStuckBeforeRetry LintCode = "stuck_before_retry"
	// LintRollbackBeforeRetry, a warning: a rollback rule takes the first failure for a final one,
	// so that a retry rule has nothing to try again. Leave the status out of onJobStatuses or out
	// of retryOnStatuses.
	LintRollbackBeforeRetry LintCode = "rollback_before_retry"
	// LintRetryWithoutEnd, a warning: outside brackets jobs may fail with a status that no retry rule
	// of their target counts as an attempt, because all of them have retryOnStatuses without it.
	// After such a job the version is started again at once, without delay or limit. Add the status,
	// or leave retryOnStatuses out. Cancelled and skipped jobs are no failures.
	LintRetryWithoutEnd LintCode = "retry_without_end"
	// LintRollbackWithoutBudget, a warning: a rollback rule takes back what is over a failure budget,
	// and no failure budget governs some of its targets. Add one for them.
	LintRollbackWithoutBudget LintCode = "rollback_without_budget"
	// LintRollbackSparesMembers, information: a rollback rule takes back versions, and governs members
	// of a bracket, of which those that have succeeded keep the version. To have them change, publish
	// a newer version.
	LintRollbackSparesMembers LintCode = "rollback_spares_members"
	// LintFailureBudgetUnreachable, a warning: a failure budget allows as many failures as any
	// deployment that it governs has targets, or a rate of 100%, or it needs a larger sample than
	// there are targets, so it never holds anything. Lower maxFailures, maxFailureRate or
	// minimumSample.
	LintFailureBudgetUnreachable LintCode = "failure_budget_unreachable"
	// LintFailureBudgetUnpaced, a warning: targets under a failure budget have neither a curve nor
	// a pool, or only a first wave of all or a pool with room for all, so all of them start at once,
	// before any failure is known. Add one of the two. With anyEnvironment a progression or an
	// approval will do as well, because the failures in one environment hold the next. There is no
	// finding beside a [CustomRule], which may spread the starts.
	LintFailureBudgetUnpaced LintCode = "failure_budget_unpaced"
	// LintFailureBudgetMissing, information: nothing stops a version that fails. Targets have no
	// failure budget, and either all of them start at once, or a curve or pool goes on to the next
	// whatever became of the last. There is no finding for a deployment of which an environment waits
	// for the success of another, for members of a bracket that holds after a failure and has a pool,
	// or beside a [CustomRule]. Add a failureBudget, and what spreads the starts.
	LintFailureBudgetMissing LintCode = "failure_budget_missing"
	// LintBracketRolesDerived: only the dependencies decide which members are hooks. A warning if
	// they make hooks, or make none only because a member has no dependency; information if they
	// make none anyway. Write memberRoles.
	LintBracketRolesDerived LintCode = "bracket_roles_derived"
	// LintMergeBudgetUnused, information: collection windows are so much longer than a rollout that
	// in no environment groups ever meet, and nothing is ever merged. Lint looks for it only where
	// all durations are known, nothing but the curve and the slots delays a start, and nothing but
	// the bracket takes the slots. Use queue, or shorter windows.
	LintMergeBudgetUnused LintCode = "merge_budget_unused"
)

// Pace, names and selectors.
const (
	// LintCooldownLongerThanReleases, a warning: versions that are deployable are usually released
	// at shorter intervals than the cooldown lets pass, so that some are skipped everywhere. Only
	// those that are for a target count there, by their targetSelector. Shorten the interval, or
	// release less often.
	LintCooldownLongerThanReleases LintCode = "cooldown_longer_than_releases"
	// LintOrderKeyImplied, a warning: a gradual rollout beside a bracket does not say what it
	// ranks. Write orderKey: without it, adding or removing the bracket changes what is ranked.
	LintOrderKeyImplied LintCode = "order_key_implied"
	// LintRuleIDMissing, a warning: stored state and overrides refer to an id that is derived from
	// the place of the rule. Write the id.
	LintRuleIDMissing LintCode = "rule_id_missing"
	// LintSelectorMatchesNothing, a warning: an expression matches nothing, probably because of a
	// typo.
	LintSelectorMatchesNothing LintCode = "selector_matches_nothing"
	// LintSelectorMatchesEverything, information: an expression makes a distinction and yet matches
	// all that it is asked about, which are at least two. Write "true" if that is meant.
	LintSelectorMatchesEverything LintCode = "selector_matches_everything"
	// LintSelectorFails: an expression fails on something that it is asked about, such as int() of
	// a text that is no number. An error if that holds targets, so that nothing newer, or not the
	// version that would be next, ever starts there. A warning if the versions of other deployments
	// decide whether it fails, if it holds no target yet, and for a targetSelector, which leaves
	// the target out or, under [ScopeInclude], takes it in. Correct the expression, or what it
	// reads.
	LintSelectorFails LintCode = "selector_fails"
	// LintSelectorUnknownKeys, a warning: an expression reads a key that no entity has: probably a
	// typo. The expressions of versions that no target can get any more are not looked at.
	LintSelectorUnknownKeys LintCode = "selector_unknown_keys"
	// LintTargetsUnmatched, a warning: targets that no policy governs start as soon as there is a
	// version, unless a rule of the host holds them back. An error under [WithUngovernedHeld], where
	// nothing newer starts on them. Govern them.
	LintTargetsUnmatched LintCode = "targets_unmatched"
	// LintPolicyDisabledState: the state of a rule that is in no enabled policy, or of a pool that
	// no rule has any more, is still there. A warning if slots or executions are open under it,
	// else information. Let them end, or give them back; enabling the policy takes the state up
	// again. What is left of a rule that never comes back can be deleted: the records of [State]
	// whose Rule it is, and those of its pools. A host with a [Planner] finds them in the State of
	// [Planner.Look], and in its Store under [bracket.GroupKey], [bracket.ExecutionKey],
	// [RolloutRecordKey] and [PoolRecordKey].
	LintPolicyDisabledState LintCode = "policy_disabled_state"
)
