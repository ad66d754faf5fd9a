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
	l.survey()
	if err := l.frame(); err != nil {
		return nil, err
	}
	for _, look := range []func(){
		l.lookAtWindows, l.lookAtCurves, l.lookAtClocks,
		l.lookAtPools, l.lookAtOverlaps,
		l.lookAtCycles, l.lookAtDependencies, l.lookAtVersions, l.lookAtProgressions, l.lookAtApprovals, l.lookAtCooldowns,
		l.lookAtBrackets, l.lookAtFailures,
		l.lookAtHeld, l.lookAtSelected, l.lookAtSelectors, l.lookAtKeys, l.lookAtTargetSelectors, l.lookAtNames, l.lookAtState,
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

	reach     map[*compiledPolicy]reach
	kinds     []kind
	kindsOf   [][]int32                   // per pair: indices in kinds
	under     map[*compiledPolicy][]int32 // indices in kinds of those that a policy governs
	frames    []*frame                    // by policy and environment; only those with members
	framesOf  map[*compiledRule][]*frame  // the same by their rules
	frameOf   []*frame                    // per target; nil: it is no member
	usersOf   []*frame                    // per pool, see users; nil: not asked for yet
	circular  map[int32]bool              // environments whose dependencies Plan refuses
	medians   map[int32]estimate
	keys      map[string]map[string]bool // variable → keys that some entity has
	satisfied map[viewQuestion]bool      // answers of satisfiable
	proofs    map[questionKey]proof      // of progressions that ask for as much
	verified  map[int32]bool             // per pair, of those asked for: jobs of it are verified
	missed    map[string][]string        // policy → the keys that its selector missed, as its matcher names them

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

// add counts one more target, and reports whether it is now the first.
func (r *reach) add(i int32) (first bool) {
	if first = !r.some() || i < r.first; first {
		r.first = i
	}
	r.targets++
	return first
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
		own = &reach{}
		r.keys = append(r.keys, key)
		put(&r.of, key, own)
	}
	return own
}

// kind is the targets of a (deployment, environment) with the same view, of which there is at least
// one.
type kind struct {
	pair, view int32
	targets    []int32
}

// estimate is a duration, if it is known.
type estimate struct {
	duration time.Duration
	known    bool
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
	byView := map[int32]int32{} // of one pair: indices in kinds
	for p := range w.pairs {
		clear(byView)
		for _, i := range w.pairs[p].targets {
			k, known := byView[w.view[i]]
			if !known {
				k = int32(len(l.kinds))
				byView[w.view[i]] = k
				l.kindsOf[p] = append(l.kindsOf[p], k)
				l.kinds = append(l.kinds, kind{pair: int32(p), view: w.view[i]})
			}
			l.kinds[k].targets = append(l.kinds[k].targets, i)
		}
	}
	l.under = map[*compiledPolicy][]int32{}
	for n, k := range l.kinds {
		for _, p := range w.views.list[k.view].policies {
			own := l.reach[p]
			own.merge(reachOf(k.targets))
			l.reach[p] = own
			l.under[p] = append(l.under[p], int32(n))
		}
	}
}

// governed yields the kinds of targets that a rule governs or, if rule is nil, all.
func (l *lint) governed(rule *compiledRule) iter.Seq[kind] {
	return func(yield func(kind) bool) {
		if rule == nil {
			slices.Values(l.kinds)(yield)
			return
		}
		for _, n := range l.under[rule.policy] {
			if !yield(l.kinds[n]) {
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
			first, n := &l.kinds[kinds[0]], 1
			targets := slices.Clip(first.targets)
			for ; n < len(kinds) && l.kinds[kinds[n]].pair == first.pair; n++ {
				targets = append(targets, l.kinds[kinds[n]].targets...)
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

// duration is how long a job of a deployment takes.
func (l *lint) duration(d int32) estimate {
	if given, ok := l.options.Durations[l.w.deployments[d].ID]; ok {
		return estimate{given, true}
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
	own := estimate{median(all), len(all) > 0}
	put(&l.medians, d, own)
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
func cadence(instants []time.Time) estimate {
	slices.SortFunc(instants, time.Time.Compare)
	instants = slices.CompactFunc(instants, time.Time.Equal)
	var gaps []time.Duration
	for k := 1; k < len(instants); k++ {
		gaps = append(gaps, instants[k].Sub(instants[k-1]))
	}
	return estimate{median(gaps), len(gaps) >= 2}
}
