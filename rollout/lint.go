package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// LintOptions is what a host knows beyond the snapshot. The zero value is a host that knows nothing
// more.
type LintOptions struct {
	// Durations says how long a job takes, by deployment id; at least 0. A deployment that is not
	// listed takes the median of the snapshot's successful jobs that say when they completed. One
	// without such a job is unknown and counts as 0, so that no finding rests on a guess.
	Durations map[string]time.Duration

	// Approvers are the people who may approve at all; a name given twice is one person. Nil: they
	// are not known, and [LintApprovalUnreachable] is not looked for. Empty and not nil: nobody
	// may.
	Approvers []string
}

// Severity says how bad a finding is.
type Severity string

const (
	// SeverityError: something never starts, or never finishes, as things are. Time does not help,
	// nor does any job that succeeds; a new configuration, version or entity might, or an
	// [Override]. Slots and executions that are held already do not count.
	SeverityError Severity = "error"
	// SeverityWarning: it works, but surely not as a reader of the policy expects.
	SeverityWarning Severity = "warning"
	// SeverityInfo: worth knowing, and perhaps meant.
	SeverityInfo Severity = "info"
)

func (s Severity) rank() int {
	switch s {
	case SeverityError:
		return 0
	case SeverityWarning:
		return 1
	}
	return 2
}

// Finding is something that a policy does to a fleet although nobody can have wanted it.
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

// String is the finding on one line.
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
	// ones. Or the windows of a bracket's members never meet. An error where a target waits for
	// them. Else, or if some of the members can go alone, a warning. Windows that open and then
	// never again are no finding, although what is released, approved or due after their last
	// opening waits for ever. Add an opening, or ask for less remaining time.
	LintWindowNeverOpens LintCode = "window_never_opens"
	// LintFreezeCoversOpenings: the same, and the closing windows are the reason. Shorten them.
	LintFreezeCoversOpenings LintCode = "freeze_covers_openings"
	// LintWindowShorterThanBracket: an execution takes longer, on the critical path of its members'
	// durations, than the windows are open at a stretch at any time within the horizon, so that it
	// ends outside of them. An error if that is so with a single main member, a warning if only
	// with all. Widen the windows, or split the bracket.
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
	// overlap down.
	LintWindowClockChange LintCode = "window_clock_change"
)

// Capacity.
const (
	// LintLimitZero, an error: a pool has members and lets none of them start, because its limit is
	// 0 or is rounded down to 0. A warning where no target is governed. Write a count, or round up.
	LintLimitZero LintCode = "limit_zero"
	// LintPoolEmpty, a warning: a concurrency rule limits nothing, because its group has no member,
	// or none with a target that the policy governs. Correct groupSelector.
	LintPoolEmpty LintCode = "pool_empty"
	// LintCeilExceedsPercent, information: rounded up, a percentage lets more start than it says:
	// 20 % of 3 is 1 of 3. Use floor or floor_min_1, or a count.
	LintCeilExceedsPercent LintCode = "ceil_exceeds_percent"
	// LintPoolsOverlapUnshared: two pools have a common member and each allows its own maximum. A
	// warning if there is a target there that only one of them limits, since then both numbers add
	// up; else information. Give both rules one sharedPool, or govern the same targets.
	LintPoolsOverlapUnshared LintCode = "pools_overlap_unshared"
)

// Dependencies between deployments, versions and environments.
const (
	// LintDependencyCycle, an error: deployments, or versions, or some of both, wait for one
	// another in a circle. If they do so whatever their versions, nothing at all is planned while
	// there is one. A bracket that waits for what it would bring itself is one, too; there it is a
	// warning if something else might still come first. Remove one of the edges, or narrow it with
	// appliesTo.
	LintDependencyCycle LintCode = "dependency_cycle"
	// LintDependencyUnmatched: an error if a dependency, of a rule or of a version, names no
	// deployment that has a target on the resource. A warning if it names one of which no version
	// that exists now satisfies it. A version that does counts even if a newer one overtakes it, or
	// a group is locked without it. It does not count for a version whose execution would bring
	// that newer one with it; that is a warning, too. Correct dependsOn, narrow appliesTo, or
	// publish the version.
	LintDependencyUnmatched LintCode = "dependency_unmatched"
	// LintDependencyAcrossRoles, an error: a hook of a bracket needs a member that runs after it.
	// Nothing at all is planned while there is one. Change memberRoles, or narrow appliesTo.
	LintDependencyAcrossRoles LintCode = "dependency_across_roles"
	// LintAppliesToUnmatched, a warning: a dependency concerns nobody. Correct appliesTo.
	LintAppliesToUnmatched LintCode = "applies_to_unmatched"
	// LintProgressionCycle, an error: environments wait for one another's success. Narrow one of
	// the policies.
	LintProgressionCycle LintCode = "progression_cycle"
	// LintProgressionNoEnvironment, an error: a progression names no other environment. Often the
	// first environment is governed by the rule that is meant for the others. Correct the
	// expression, or leave that environment out of the policy.
	LintProgressionNoEnvironment LintCode = "progression_no_environment"
	// LintProgressionUnreachable, a warning: the version that targets would get next has not
	// succeeded where a progression wants it to, and cannot any more on as many targets as it asks
	// for. These run it and no job says that it succeeded, as after a fleet was adopted. Or they
	// went on to a newer version, or are refused this one. Or its successes are older than
	// maximumAgeHours. Only the next version of each target is judged, and that it is overtaken
	// there later is not foreseen. Record the jobs, let the version be deployed there, or override
	// the rule for it.
	LintProgressionUnreachable LintCode = "progression_unreachable"
	// LintDeadlineBelowSoak: maximumAgeHours is over before minimumSoakTimeMinutes is. An error
	// where every target must have succeeded and none is given its version again by a bracket, so
	// that nothing younger can come; else a warning. Raise the one or lower the other.
	LintDeadlineBelowSoak LintCode = "deadline_below_soak"
	// LintApprovalUnreachable, an error: more approvals are asked for than there are known
	// approvers; a warning where no target is governed. Versions that are older than the rule pass
	// all the same. Name more approvers, or ask for fewer approvals.
	LintApprovalUnreachable LintCode = "approval_unreachable"
)

// Brackets.
const (
	// LintBracketNoMain, an error: all members are hooks, so nothing ever opens a group. Widen
	// deploymentSelector or narrow memberRoles.
	LintBracketNoMain LintCode = "bracket_no_main"
	// LintBracketHookWithoutVersion, an error: a hook runs nothing and has no version that may be
	// deployed, so no execution starts on its resource. A version that may be deployed is enough
	// for this finding to go, even if it comes too late for a group that was closed before, or if a
	// group passes it over for a newer one that is not for this resource. Publish one before the
	// first version of a main. One that comes after the close of a group is for the next group,
	// which takes another version of a main, or a [Target.OutdatedAt].
	LintBracketHookWithoutVersion LintCode = "bracket_hook_without_version"
	// LintBracketOverlapping, an error: two brackets claim one target. Nothing at all is planned
	// while they do. Narrow one of them.
	LintBracketOverlapping LintCode = "bracket_overlapping"
	// LintImmediateStarves, a warning: groups that close at once come faster than the curve is
	// long, so the last positions are superseded before their turn, and they are the same each
	// time. Set orderSalt to group, shorten the curve, or collect for longer.
	LintImmediateStarves LintCode = "immediate_starves"
	// LintOrderStarves, a warning: the same with groups that are collected.
	LintOrderStarves LintCode = "order_starves"
	// LintHoldWithoutRetry, a warning: a member that fails once holds its execution, and its slot,
	// until somebody acts, and no rule retries it. Add a retry rule, or another onMemberFailure.
	LintHoldWithoutRetry LintCode = "hold_without_retry"
	// LintRollbackWithHold, a warning: a rollback rule governs members of a bracket that holds
	// after a failure, so nothing is rolled back. Set onMemberFailure to rollback_member or
	// rollback_all.
	LintRollbackWithHold LintCode = "rollback_with_hold"
	// LintStuckBeforeRetry: stuckAfterSeconds is not above the longest delay before a retry, so
	// that a lease, or an execution, of which another job is still at work can be called stuck
	// before the next attempt. A warning if the lease is quarantined then, else information.
	LintStuckBeforeRetry LintCode = "stuck_before_retry"
	// LintRollbackBeforeRetry, a warning: a rollback rule takes the first failure for a final one,
	// so that a retry rule has nothing to try again. Leave the status out of onJobStatuses or out
	// of retryOnStatuses.
	LintRollbackBeforeRetry LintCode = "rollback_before_retry"
	// LintBracketRolesDerived: hooks are what the dependencies happen to make them: a warning, also
	// if they make none because of a member without any, or information if they make none anyway.
	// Write memberRoles.
	LintBracketRolesDerived LintCode = "bracket_roles_derived"
	// LintMergeBudgetUnused, information: collection windows are so much longer than a rollout that
	// groups never meet and nothing is ever merged. It is looked for only where all durations are
	// known and nothing else delays a start. Use queue, or shorter windows.
	LintMergeBudgetUnused LintCode = "merge_budget_unused"
)

// Pace, names and selectors.
const (
	// LintCooldownLongerThanReleases, a warning: versions are usually released at shorter intervals
	// than the cooldown lets pass, so that some are skipped everywhere. Shorten the interval, or
	// release less often.
	LintCooldownLongerThanReleases LintCode = "cooldown_longer_than_releases"
	// LintOrderKeyImplied, a warning: a gradual rollout beside a bracket does not say what it
	// ranks. Write orderKey, or adding or removing the bracket changes it.
	LintOrderKeyImplied LintCode = "order_key_implied"
	// LintRuleIDMissing, a warning: stored state and overrides hang on an id that is derived from
	// the place of the rule. Write it.
	LintRuleIDMissing LintCode = "rule_id_missing"
	// LintSelectorMatchesNothing, a warning: probably a typo.
	LintSelectorMatchesNothing LintCode = "selector_matches_nothing"
	// LintSelectorMatchesEverything, information: an expression makes a distinction and yet matches
	// all of at least two. Write "true" if that is meant.
	LintSelectorMatchesEverything LintCode = "selector_matches_everything"
	// LintSelectorFails: an expression fails on something that it is asked about, such as int() of
	// what is no number. An error if that holds targets, so that nothing newer, or not the version
	// that would be next, ever starts there. A warning where the versions of others decide whether
	// it fails, where it holds nobody yet, and for a targetSelector, which leaves the target out.
	// Correct the expression, or what it reads.
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

// Lint looks for what can never finish, or surely surprises, when these policies are applied to
// this fleet. Nothing that it finds is an error for [Compile]; those of the error severity are what
// a host refuses, or shows in red, when a policy is edited. It looks at the windows within [now,
// now+horizon); horizon must be greater than 0. A fleet without targets is governed by nothing:
// then the policies are looked at for themselves.
//
// Findings are freshly allocated and in order of severity, code, policy, rule and path, whatever
// the order of the input. The error is one of the snapshot or of the arguments. Time grows with the
// number of targets, times the rules that govern them.
func (s *PolicySet) Lint(snapshot Snapshot, now time.Time, horizon time.Duration, options LintOptions) ([]Finding, error) {
	if horizon <= 0 {
		return nil, fmt.Errorf("rollout: lint: horizon %v: must be greater than 0, such as %v", horizon, 90*24*time.Hour)
	}
	for _, id := range slices.Sorted(maps.Keys(options.Durations)) {
		if d := options.Durations[id]; d < 0 {
			return nil, fmt.Errorf("rollout: lint: durations[%s]: %v is negative: use at least 0", id, d)
		}
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

// counted is a number of things, of which the plural ends with an s.
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
	circular map[int32]bool // environments of which Plan refuses the dependencies
	medians  map[int32]known
	keys     map[string]map[string]bool // variable → keys that some entity has

	findings  []Finding
	concerned []reach // by each of them
	index     map[findingKey]int
}

// reach is whom something concerns.
type reach struct {
	targets int
	first   int32 // none if there are none
}

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

// reaches is whom each of several things concerns.
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

// kind is the targets of a (deployment, environment) that are governed alike.
type kind struct {
	pair, view int32
	reach
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

// survey counts who is governed by what.
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
			l.kinds[l.kindsOf[p][at]].add(i)
		}
	}
	for _, k := range l.kinds {
		for _, p := range w.views.list[k.view].policies {
			own := l.reach[p]
			own.merge(k.reach)
			l.reach[p] = own
		}
	}
}

// pairOf takes a pair apart.
func (l *lint) pairOf(p int32) (environment, deployment int32) {
	d := int32(len(l.w.deployments))
	return p / d, p % d
}

// at begins a finding about a field of a rule; an empty field means the rule as a whole.
func at(rule *compiledRule, field string) Finding {
	return Finding{Policy: rule.policy.id, Rule: rule.id, Path: join(rule.path, field)}
}

// add keeps a finding. Several about one field are one: its targets are added up, which supposes
// that they are others.
func (l *lint) add(f Finding, code LintCode, severity Severity, concerns reach, detail, fix string) {
	l.addApart(f, "", code, severity, concerns, detail, fix)
}

// addApart is add where several about one field stay several, told apart by what else they are
// about.
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

// neverOr is the error severity if targets are concerned, else a warning: what governs nobody harms
// nobody yet.
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
				if job.Status == JobSuccessful && !job.CompletedAt.Before(job.CreatedAt) { // else it does not say when it ended, or nothing that can be
					all = append(all, job.CompletedAt.Sub(job.CreatedAt))
				}
			}
		}
	}
	own := known{median(all), len(all) > 0}
	l.medians[d] = own
	return own
}

// median is the middle one, and of two in the middle the greater one; 0 of none. The slice is
// reordered.
func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// cadence is the usual time between releases, if there were enough of them to say: three.
func cadence(instants []time.Time) known {
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)
	var gaps []time.Duration
	for k := 1; k < len(instants); k++ {
		gaps = append(gaps, instants[k].Sub(instants[k-1]))
	}
	return known{median(gaps), len(gaps) >= 2}
}
