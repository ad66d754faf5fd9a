package rollout

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
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
	// preceded by [1]. if several policies were compiled; versions[db@v2].targetSelector, state or
	// targets if it is in the snapshot.
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
		fmt.Fprintf(&b, " %s", textlist.Name(f.Path))
	}
	fmt.Fprintf(&b, ": %s", textlist.Name(f.Detail))
	switch {
	case f.Targets > 1:
		fmt.Fprintf(&b, " (%d targets, such as %s)", f.Targets, f.Example)
	case f.Targets == 1:
		fmt.Fprintf(&b, " (%s)", f.Example)
	}
	fmt.Fprintf(&b, "; %s", textlist.Name(f.Fix))
	return b.String()
}

// Lint returns what can never finish, or is likely to surprise, when these policies are applied to
// this fleet. No finding is an error for [Compile]; when a policy is edited, a host refuses it for
// findings of [SeverityError], or shows these in red. It compares them with the findings before the
// edit: what was wrong then, such as targets that another policy is still to govern, is no reason
// to refuse the edit. Where rules have ids of their own, Code, Policy and Rule tell which are the
// same; Path and the texts may differ once a rule was inserted or the fleet has changed. Lint looks
// at the windows within [now, now+horizon); horizon must be greater than 0. A version that is not
// deployable within that time, such as one that was withdrawn or is still being built, has no
// findings of its own; [PolicySet.Check] looks at its dependencies all the same. Nor has a
// [Freeze], which is no policy and will be over; a closing window may have findings. If the fleet
// has no targets, Lint judges the policies by themselves.
//
// Findings such as [LintPolicyDisabledState] are about the State of the snapshot, and there are none
// without it: a host with a [Planner] takes it from a plan of [Planner.Look].
//
// Findings are freshly allocated and in order of severity, code, policy, rule and path, whatever
// the order of the input. The error is one of [PolicySet.Plan], or joins a *[FieldError] for each
// argument that is out of range. Time grows with the number of targets, times the rules that govern
// them.
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
	missed := map[string][]string{}
	for key := range w.diagnostics { // so far only policies have been asked
		if key.code == DiagnosticMissingKey {
			missed[key.rule] = append(missed[key.rule], key.detail)
		}
	}
	w.openPools()
	l := &lint{w: w, horizon: horizon, until: addTime(now, horizon), options: options, missed: missed}
	l.classifyTargets()
	if err := l.findBrackets(); err != nil {
		return nil, err
	}
	for _, look := range []func(){
		l.lookAtWindows, l.lookAtCurves, l.lookAtClocks,
		l.lookAtPools, l.lookAtOverlaps,
		l.lookAtCycles, l.lookAtDependencies, l.lookAtVersionDependencies, l.lookAtProgressions, l.lookAtApprovals, l.lookAtCooldowns,
		l.lookAtBrackets, l.lookAtFailures,
		l.lookAtFailingSelectors, l.lookAtFailingVersionSelectors, l.lookAtSelectors, l.lookAtKeys, l.lookAtTargetSelectors, l.lookAtDerived, l.lookAtState,
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

// lint is one call of Lint.
type lint struct {
	w       *work
	horizon time.Duration
	until   time.Time // the first instant that is not looked at
	options LintOptions

	policyReach   map[*compiledPolicy]reach
	classes       []targetClass
	classesOf     [][]int32                        // per pair: indices in classes
	under         map[*compiledPolicy][]int32      // indices in classes of those that a policy governs
	brackets      []*lintBracket                   // by policy and environment; only those with members
	bracketsOf    map[*compiledRule][]*lintBracket // the same by their rules
	bracketOf     []*lintBracket                   // per target; nil: it is no member
	usersOf       []*lintBracket                   // per pool, see poolUsers; nil: not asked for yet
	circular      map[int32]bool                   // environments whose dependencies Plan refuses
	medians       map[int32]estimate
	keys          map[string]map[string]bool // variable → keys that some entity has
	satisfied     map[viewQuestion]bool      // answers of ruleSatisfiable
	proofs        map[questionKey]proof      // of progressions that ask for as much
	verifiedPairs map[int32]bool             // per pair, of those asked for: jobs of it are verified
	proving       map[ruleOnPair]bool        // per progression and pair, of those asked for: versions have something to prove
	missed        map[string][]string        // policy → the keys that its selector missed, as its matcher names them

	findings  []Finding
	concerned []reach // per finding
	index     map[findingKey]int
}

// targetClass is the targets of a (deployment, environment) with the same view: the same rules
// govern them. There is at least one.
type targetClass struct {
	pair    int32
	view    *view
	targets []int32
}

type findingKey struct {
	code                      LintCode
	severity                  Severity
	policy, rule, path, about string
}

// classifyTargets divides the targets into classes, and counts those that each policy governs.
func (l *lint) classifyTargets() {
	w := l.w
	l.policyReach = map[*compiledPolicy]reach{}
	l.classesOf = make([][]int32, len(w.pairs))
	byView := map[int32]int32{} // of one pair: indices in classes
	for p := range w.pairs {
		clear(byView)
		for _, i := range w.pairs[p].targets {
			k, known := byView[w.view[i]]
			if !known {
				k = int32(len(l.classes))
				byView[w.view[i]] = k
				l.classesOf[p] = append(l.classesOf[p], k)
				l.classes = append(l.classes, targetClass{pair: int32(p), view: w.viewOf(i)})
			}
			l.classes[k].targets = append(l.classes[k].targets, i)
		}
	}
	l.under = map[*compiledPolicy][]int32{}
	for n, c := range l.classes {
		for _, p := range c.view.policies {
			own := l.policyReach[p]
			own.merge(reachOf(c.targets))
			l.policyReach[p] = own
			l.under[p] = append(l.under[p], int32(n))
		}
	}
}

// governed yields the classes of targets that a rule governs or, if rule is nil, all.
func (l *lint) governed(rule *compiledRule) iter.Seq[targetClass] {
	if rule == nil {
		return slices.Values(l.classes)
	}
	return func(yield func(targetClass) bool) {
		for _, n := range l.under[rule.policy] {
			if !yield(l.classes[n]) {
				return
			}
		}
	}
}

// governedPairs yields the pairs in which a rule governs targets, in their order, and these targets,
// the first of them first.
func (l *lint) governedPairs(rule *compiledRule) iter.Seq2[int32, []int32] {
	return func(yield func(int32, []int32) bool) {
		kinds := l.under[rule.policy]
		for len(kinds) > 0 {
			first, n := &l.classes[kinds[0]], 1
			targets := slices.Clip(first.targets)
			for ; n < len(kinds) && l.classes[kinds[n]].pair == first.pair; n++ {
				targets = append(targets, l.classes[kinds[n]].targets...)
			}
			if !yield(first.pair, targets) {
				return
			}
			kinds = kinds[n:]
		}
	}
}

// findingOf begins a finding about a field of a rule; an empty field means the rule as a whole.
func findingOf(rule *compiledRule, field string) Finding {
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
		put(&l.index, key, k)
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
