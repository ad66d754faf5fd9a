package rollout

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// LintOptions is what a host knows beyond the snapshot. The zero value is a host that knows nothing
// more.
type LintOptions struct {
	// Durations is how long a job takes, by deployment id; at least 0. For a deployment that is not
	// listed it is the median of its successful jobs in the snapshot that say when they completed.
	// Without such a job the duration is unknown and counts as 0, so that no finding rests on a
	// guess.
	Durations map[string]time.Duration

	// Approvers are the people who may approve at all; a name given twice is one person. If it is
	// nil, they are not known, and Lint does not look for [LintApprovalUnreachable]. If it is empty
	// and not nil, nobody may approve.
	Approvers []string
}

// Severity says how bad a finding is.
type Severity string

const (
	// SeverityError means that something never starts, or never finishes, as things are. Neither
	// time nor a successful job helps; a new configuration, version or entity might, or an
	// [Override]. Slots and executions that are held already do not count.
	SeverityError Severity = "error"
	// SeverityWarning means that it works, but surely not as a reader of the policy expects.
	SeverityWarning Severity = "warning"
	// SeverityInfo means that it is worth knowing, and perhaps meant.
	SeverityInfo Severity = "info"
)

func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityInfo}, s)
}

// Finding is something that a policy does to a fleet and that was probably not meant.
type Finding struct {
	Code     LintCode `json:"code"`
	Severity Severity `json:"severity"`
	Policy   string   `json:"policy,omitempty"` // id; empty if it is about no policy
	Rule     string   `json:"rule,omitempty"`   // id; empty if it is about no single rule

	// Path is the field to look at, as in [FieldError]: rules[2].resourceConcurrency.limitValue,
	// preceded by [1]. if several policies were compiled; versions[db@v2].targetSelector,
	// state.pools or targets if it is in the snapshot.
	Path string `json:"path,omitempty"`

	Detail string `json:"detail"` // what happens, with the numbers; for people
	Fix    string `json:"fix"`    // what to write instead; for people

	// Targets is how many release targets it concerns now, and Example the first of them by
	// environment, resource and deployment. Both are zero where it is not about targets.
	Targets int      `json:"targets,omitempty"`
	Example TargetID `json:"example,omitzero"`
}

// String returns the finding on one line.
func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", f.Severity, f.Code)
	if f.Path != "" {
		fmt.Fprintf(&b, " %s", f.Path)
	}
	fmt.Fprintf(&b, ": %s", f.Detail)
	switch {
	case f.Targets > 1:
		fmt.Fprintf(&b, " (%d targets, such as %s)", f.Targets, f.Example)
	case f.Targets == 1:
		fmt.Fprintf(&b, " (%s)", f.Example)
	}
	fmt.Fprintf(&b, "; %s", f.Fix)
	return b.String()
}

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
	// LintLimitZero, an error: a pool has members and lets none of them start, because its limit is
	// 0 or is rounded down to 0. A warning if no target is governed. Write a count, or round up.
	LintLimitZero LintCode = "limit_zero"
	// LintPoolEmpty, a warning: a concurrency rule limits nothing, because its group has no member,
	// or none with a target that the policy governs. Correct groupSelector.
	LintPoolEmpty LintCode = "pool_empty"
	// LintPoolWithoutValue, a warning: a concurrency rule limits members that have no value of its
	// groupBy. They are one pool, whose key ends in a slash, with a limit of its own, so more
	// resources start at once than the values say. Give them a value, or leave it if that is meant.
	LintPoolWithoutValue LintCode = "pool_without_value"
	// LintCeilExceedsPercent, information: rounded up, a percentage lets more start than it says:
	// 20 % of 3 is 1 of 3. Use floor or floor_min_1, or a count.
	LintCeilExceedsPercent LintCode = "ceil_exceeds_percent"
	// LintPoolsOverlapUnshared: two pools have a common member and each allows its own maximum. A
	// warning if only one of them limits some target there, because then the two maxima add up;
	// else information. Give both rules one sharedPool, or let them govern the same targets.
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
	// deployment that has a target on the resource. A warning if it names one, but no existing
	// version of that deployment satisfies it. A version that satisfies it counts even if a newer
	// one overtakes it, or a group is locked without it. It does not count for a version whose
	// execution would bring that newer one; that is a warning, too. Correct dependsOn, narrow
	// appliesTo, or publish the version.
	LintDependencyUnmatched LintCode = "dependency_unmatched"
	// LintDependencyAcrossRoles, an error: a hook of a bracket needs a member that runs after it.
	// Nothing at all is planned while it does. Change memberRoles, or narrow appliesTo.
	LintDependencyAcrossRoles LintCode = "dependency_across_roles"
	// LintAppliesToUnmatched, a warning: a dependency concerns no target. Correct appliesTo.
	LintAppliesToUnmatched LintCode = "applies_to_unmatched"
	// LintProgressionCycle, an error: environments wait for one another's success. Narrow one of
	// the policies.
	LintProgressionCycle LintCode = "progression_cycle"
	// LintProgressionNoEnvironment, an error: a progression names no other environment. Often the
	// first environment is governed by the rule that is meant for the others. Correct the
	// expression, or leave that environment out of the policy.
	LintProgressionNoEnvironment LintCode = "progression_no_environment"
	// LintProgressionUnreachable, a warning: the version that targets would get next has not
	// succeeded where a progression wants it to, and can no longer succeed on as many targets as it
	// asks for. Targets there run it and no job says that it succeeded, as after a fleet was
	// adopted. Or they went on to a newer version, are refused this one, or failed with it and are
	// not tried again. Or its successes are older than maximumAgeHours. Lint judges only the next
	// version of each target, and does not foresee that it is overtaken there later. Record the
	// jobs, let the version be deployed there, once more where it failed, or override the rule for
	// it.
	LintProgressionUnreachable LintCode = "progression_unreachable"
	// LintDeadlineBelowSoak: maximumAgeHours is over before minimumSoakTimeMinutes is. An error if
	// every target must have succeeded and no bracket gives one its version again, so that no
	// younger success can come; else a warning. Raise maximumAgeHours or lower the soak.
	LintDeadlineBelowSoak LintCode = "deadline_below_soak"
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
	// which takes another version of a main, or a [Target.OutdatedAt].
	LintBracketHookWithoutVersion LintCode = "bracket_hook_without_version"
	// LintBracketOverlapping, an error: two brackets claim one target. Nothing at all is planned
	// while they do. Narrow one of them.
	LintBracketOverlapping LintCode = "bracket_overlapping"
	// LintImmediateStarves, a warning: groups that close at once come faster than the curve is
	// long, so the last positions are superseded before their turn, and they are the same each
	// time. Set orderSalt to group, shorten the curve, or collect for longer.
	LintImmediateStarves LintCode = "immediate_starves"
	// LintOrderStarves, a warning: as [LintImmediateStarves], but with groups that are collected.
	LintOrderStarves LintCode = "order_starves"
	// LintHoldWithoutRetry, a warning: a member that fails once holds its execution, and its slot,
	// until an operator acts, and no rule retries it. Add a retry rule, or another onMemberFailure.
	LintHoldWithoutRetry LintCode = "hold_without_retry"
	// LintRollbackWithHold, a warning: a rollback rule governs members of a bracket that holds
	// after a failure, so nothing is rolled back. Set onMemberFailure to rollback_member or
	// rollback_all.
	LintRollbackWithHold LintCode = "rollback_with_hold"
	// LintStuckBeforeRetry: stuckAfterSeconds is not above the longest delay before a retry, so a
	// lease or an execution with another job still at work can be called stuck before the next
	// attempt. A warning if the lease is then quarantined, else information.
	LintStuckBeforeRetry LintCode = "stuck_before_retry"
	// LintRollbackBeforeRetry, a warning: a rollback rule takes the first failure for a final one,
	// so that a retry rule has nothing to try again. Leave the status out of onJobStatuses or out
	// of retryOnStatuses.
	LintRollbackBeforeRetry LintCode = "rollback_before_retry"
	// LintBracketRolesDerived: only the dependencies decide which members are hooks. A warning if
	// they make hooks, or make none only because a member has no dependency; information if they
	// make none anyway. Write memberRoles.
	LintBracketRolesDerived LintCode = "bracket_roles_derived"
	// LintMergeBudgetUnused, information: collection windows are so much longer than a rollout that
	// groups never meet and nothing is ever merged. Lint looks for it only where all durations are
	// known and nothing but the curve and the slots delays a start. Use queue, or shorter windows.
	LintMergeBudgetUnused LintCode = "merge_budget_unused"
)

// Pace, names and selectors.
const (
	// LintCooldownLongerThanReleases, a warning: versions are usually released at shorter intervals
	// than the cooldown lets pass, so that some are skipped everywhere. Shorten the interval, or
	// release less often.
	LintCooldownLongerThanReleases LintCode = "cooldown_longer_than_releases"
	// LintOrderKeyImplied, a warning: a gradual rollout beside a bracket does not say what it
	// ranks. Write orderKey, or else adding or removing the bracket changes it.
	LintOrderKeyImplied LintCode = "order_key_implied"
	// LintRuleIDMissing, a warning: stored state and overrides hang on an id that is derived from
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
	// the target out. Correct the expression, or what it reads.
	LintSelectorFails LintCode = "selector_fails"
	// LintSelectorUnknownKeys, a warning: an expression reads a key that no entity has: probably a
	// typo.
	LintSelectorUnknownKeys LintCode = "selector_unknown_keys"
	// LintTargetsUnmatched, a warning: targets that no policy governs start as soon as there is a
	// version. Govern them.
	LintTargetsUnmatched LintCode = "targets_unmatched"
	// LintPolicyDisabledState: the state of a rule that is in no enabled policy is still there. A
	// warning if slots or executions are open under it, else information. Let them end, or give
	// them back; enabling the policy takes the state up again.
	LintPolicyDisabledState LintCode = "policy_disabled_state"
)

// Lint returns what can never finish, or surely surprises, when these policies are applied to this
// fleet. No finding is an error for [Compile]; when a policy is edited, a host refuses it for
// findings of [SeverityError], or shows these in red. Lint looks at the windows within [now,
// now+horizon); horizon must be greater than 0. If the fleet has no targets, Lint looks at the
// policies for themselves.
//
// Findings are freshly allocated and in order of severity, code, policy, rule and path, whatever
// the order of the input. The error is one of [PolicySet.Plan], or joins a *[FieldError] for each
// argument that is out of range. Time grows with the
// number of targets, times the rules that govern them.
func (s *PolicySet) Lint(snapshot Snapshot, now time.Time, horizon time.Duration, options LintOptions) ([]Finding, error) {
	var f faults
	if horizon <= 0 {
		f.add("horizon", CodeOutOfRange, horizon, "must be greater than 0, such as %v", 90*24*time.Hour)
	}
	for _, id := range slices.Sorted(maps.Keys(options.Durations)) {
		if d := options.Durations[id]; d < 0 {
			f.add(fmt.Sprintf("durations[%s]", id), CodeOutOfRange, d, "must be at least 0")
		}
	}
	if err := f.few(); err != nil {
		return nil, err
	}
	w, err := s.begin(&snapshot, now)
	if err != nil {
		return nil, err
	}
	w.openPools()
	l := &lint{
		w: w, horizon: horizon, until: addTime(now, horizon), options: options,
		index: map[findingKey]int{}, medians: map[int32]known{}, circular: map[int32]bool{}, keys: map[string]map[string]bool{},
	}
	l.survey()
	if err := l.frame(); err != nil {
		return nil, err
	}
	for _, look := range []func(){
		l.lookAtWindows, l.lookAtCurves, l.lookAtClocks,
		l.lookAtPools, l.lookAtOverlaps,
		l.lookAtCycles, l.lookAtDependencies, l.lookAtVersions, l.lookAtProgressions, l.lookAtApprovals, l.lookAtCooldowns,
		l.lookAtBrackets, l.lookAtFailures,
		l.lookAtHeld, l.lookAtSelected, l.lookAtSelectors, l.lookAtKeys, l.lookAtNames, l.lookAtState,
	} {
		look()
	}
	slices.SortFunc(l.findings, compareFindings)
	return l.findings, nil
}

func compareFindings(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.Code, b.Code), strings.Compare(a.Policy, b.Policy),
		strings.Compare(a.Rule, b.Rule), strings.Compare(a.Path, b.Path), strings.Compare(a.Detail, b.Detail),
	)
}

// counted formats a number of things whose plural ends with an s.
func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// lint is one call of Lint.
type lint struct {
	w       *work
	horizon time.Duration
	until   time.Time // the first instant that is not looked at
	options LintOptions

	reach    map[*compiledPolicy]reach
	kinds    []kind
	kindsOf  [][]int32      // per pair: indices in kinds
	frames   []*frame       // by policy and environment; only those with members
	frameOf  []*frame       // per target; nil: it is no member
	circular map[int32]bool // environments whose dependencies Plan refuses
	medians  map[int32]known
	keys     map[string]map[string]bool // variable → keys that some entity has

	findings  []Finding
	concerned []reach // per finding
	index     map[findingKey]int
}

// reach is how many targets something concerns, and the first of them.
type reach struct {
	targets int
	first   int32 // none if there are none
}

// reachOf returns the reach of targets, in order, of which there is at least one.
func reachOf(targets []int32) reach { return reach{len(targets), targets[0]} }

func (r reach) some() bool { return r.targets > 0 }

func (r *reach) add(i int32) {
	if !r.some() {
		r.first = i
	}
	r.targets++
}

func (r *reach) merge(other reach) {
	if other.some() && (!r.some() || other.first < r.first) {
		r.first = other.first
	}
	r.targets += other.targets
}

// reaches holds the reach of each of several things.
type reaches[K comparable] struct {
	keys []K // in the order in which they were found
	of   map[K]*reach
}

func (r *reaches[K]) at(key K) *reach {
	own := r.of[key]
	if own == nil {
		if r.of == nil {
			r.of = map[K]*reach{}
		}
		own = &reach{}
		r.keys, r.of[key] = append(r.keys, key), own
	}
	return own
}

// kind is the targets of a (deployment, environment) with the same view, of which there is at least
// one.
type kind struct {
	pair, view int32
	targets    []int32
}

// known is a duration, if it is known.
type known struct {
	duration time.Duration
	is       bool
}

type findingKey struct {
	code                      LintCode
	severity                  Severity
	policy, rule, path, about string
}

// survey counts the targets of each kind, and those that each policy governs.
func (l *lint) survey() {
	w := l.w
	l.reach = map[*compiledPolicy]reach{}
	l.kindsOf = make([][]int32, len(w.pairs))
	for p := range w.pairs {
		for _, i := range w.pairs[p].targets {
			at := slices.IndexFunc(l.kindsOf[p], func(k int32) bool { return l.kinds[k].view == w.view[i] })
			if at < 0 {
				at = len(l.kindsOf[p])
				l.kindsOf[p] = append(l.kindsOf[p], int32(len(l.kinds)))
				l.kinds = append(l.kinds, kind{pair: int32(p), view: w.view[i]})
			}
			own := &l.kinds[l.kindsOf[p][at]]
			own.targets = append(own.targets, i)
		}
	}
	for _, k := range l.kinds {
		for _, p := range w.views.list[k.view].policies {
			own := l.reach[p]
			own.merge(reachOf(k.targets))
			l.reach[p] = own
		}
	}
}

// governed yields the kinds of targets that a rule governs or, if rule is nil, all.
func (l *lint) governed(rule *compiledRule) iter.Seq[kind] {
	return func(yield func(kind) bool) {
		for _, k := range l.kinds {
			if (rule == nil || l.w.views.list[k.view].has(rule)) && !yield(k) {
				return
			}
		}
	}
}

// pairOf splits a pair into its environment and its deployment.
func (l *lint) pairOf(p int32) (environment, deployment int32) {
	d := int32(len(l.w.deployments))
	return p / d, p % d
}

// at begins a finding about a field of a rule; an empty field means the rule as a whole.
func at(rule *compiledRule, field string) Finding {
	return Finding{Policy: rule.policy.id, Rule: rule.id, Path: join(rule.path, field)}
}

// add keeps a finding. Several findings about one field become one, whose targets are added up;
// they must be about different targets.
func (l *lint) add(f Finding, code LintCode, severity Severity, concerns reach, detail, fix string) {
	l.addApart(f, "", code, severity, concerns, detail, fix)
}

// addApart is add for findings about one field that stay apart; about is what else they are about.
func (l *lint) addApart(f Finding, about string, code LintCode, severity Severity, concerns reach, detail, fix string) {
	f.Code, f.Severity, f.Detail, f.Fix = code, severity, detail, fix
	key := findingKey{code, severity, f.Policy, f.Rule, f.Path, about}
	k, known := l.index[key]
	if !known {
		k = len(l.findings)
		l.index[key] = k
		l.findings, l.concerned = append(l.findings, f), append(l.concerned, reach{})
	}
	if l.concerned[k].merge(concerns); l.concerned[k].some() {
		l.findings[k].Targets, l.findings[k].Example = l.concerned[k].targets, l.w.targets[l.concerned[k].first].TargetID
	}
}

// neverOr returns SeverityError if targets are concerned, else SeverityWarning: a rule that governs
// no target does no harm yet.
func neverOr(concerns reach) Severity {
	if !concerns.some() {
		return SeverityWarning
	}
	return SeverityError
}

// duration is how long a job of a deployment takes.
func (l *lint) duration(d int32) known {
	if given, ok := l.options.Durations[l.w.deployments[d].ID]; ok {
		return known{given, true}
	}
	if median, ok := l.medians[d]; ok {
		return median
	}
	var all []time.Duration
	for e := range l.w.environments {
		for _, i := range l.w.targetsIn(int32(e), d) {
			for _, job := range l.w.targets[i].Jobs {
				if job.Status == JobSuccessful && !job.CompletedAt.Before(job.CreatedAt) { // else its end is missing, or impossible
					all = append(all, job.CompletedAt.Sub(job.CreatedAt))
				}
			}
		}
	}
	own := known{median(all), len(all) > 0}
	l.medians[d] = own
	return own
}

// median returns the middle one, and of two in the middle the greater one; 0 if there is none. It
// reorders the slice.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// cadence returns the usual time between releases, which is known if there were at least three.
func cadence(instants []time.Time) known {
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)
	var gaps []time.Duration
	for k := 1; k < len(instants); k++ {
		gaps = append(gaps, instants[k].Sub(instants[k-1]))
	}
	return known{median(gaps), len(gaps) >= 2}
}
