package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// EnvironmentProgression lets a version start in an environment only after it has succeeded in
// another one, for long enough and on enough targets. If several environments match, success in one
// of them is enough.
//
// An environment in which the version is for no target of its deployment proves nothing: it is passed
// over, and if all that match are such, nothing has to be proved and the rule is satisfied, with
// [ReasonNotApplicable] in the [Explanation]. So a deployment that is in production alone is not held
// for ever, and neither is a version whose targetSelector names production alone. A host that could
// not read the targets of staging must not plan without them.
//
// What a version waits for is listed for each environment: a thousand environments that all wait for
// all others take half a second and 650 MB, and half as many a quarter of that.
//
// (Environment progression of ctrlplane's policy rules. There an environment without targets satisfies
// the rule also beside others in which the version has failed.)
type EnvironmentProgression struct {
	// DependsOnEnvironmentSelector is required: CEL on the other environment. A missing key is no
	// match; an environment never depends on itself.
	DependsOnEnvironmentSelector string `json:"dependsOnEnvironmentSelector"`

	// MinimumSuccessPercentage is the percentage of the deployment's targets there, among those in
	// the version's scope, on which the version must have succeeded. It is from 0 to 100 with at
	// most 9 decimals, and is read as the decimal number that is written. Nil: 100. 0 requires one
	// target.
	MinimumSuccessPercentage *float64 `json:"minimumSuccessPercentage,omitempty"`

	// MinimumSoakTimeMinutes is how long ago that success must be. It counts from the instant at
	// which the percentage was first reached; a redeployment of the version does not restart it.
	// Whether the version still runs there is not asked: one that was replaced, or taken back,
	// meanwhile has succeeded all the same. To stop it, set it to paused. Unset or 0: no soak.
	MinimumSoakTimeMinutes int64 `json:"minimumSoakTimeMinutes,omitempty"`

	// MaximumAgeHours refuses a version whose newest success there is this old or older, also one
	// that has not soaked for long enough yet. It is asked until the last target has begun: one whose
	// turn in a curve, window or slot comes later does not get the version, unless it succeeds there
	// once more. So let it be longer than the soak and the whole rollout together. Nil: no limit.
	MaximumAgeHours *int64 `json:"maximumAgeHours,omitempty"`

	// SuccessStatuses are the job statuses that count as success. None: successful.
	SuccessStatuses []JobStatus `json:"successStatuses,omitempty"`

	// RequireVerificationPassed counts a job only once its verification passed. Without it the
	// verification is not asked: a job counts from its end on, even if its verification fails. So
	// set it wherever jobs are verified.
	RequireVerificationPassed bool `json:"requireVerificationPassed,omitempty"`
}

// Validate reports every fault, joined, each a *[FieldError].
func (p EnvironmentProgression) Validate() error {
	var f faults
	f.required("dependsOnEnvironmentSelector", p.DependsOnEnvironmentSelector, "an expression such as environment.name == 'staging'")
	if share := p.MinimumSuccessPercentage; share != nil {
		if _, err := billionths(*share); err != nil {
			f.add("minimumSuccessPercentage", CodeOutOfRange, *share, "%v", err)
		}
	}
	f.within("minimumSoakTimeMinutes", p.MinimumSoakTimeMinutes, 0, maxSeconds/60, "minutes")
	if n := p.MaximumAgeHours; n != nil {
		f.within("maximumAgeHours", *n, 1, maxSeconds/3600, "hours; leave it out for no limit")
	}
	for i, status := range p.SuccessStatuses {
		f.terminal(fmt.Sprintf("successStatuses[%d]", i), status, JobSuccessful)
	}
	return f.err()
}

// billionths reads a percentage as the shortest decimal that means the same float, which is what a
// person wrote, in units of 10⁻⁹ percent.
func billionths(share float64) (uint64, error) {
	if math.IsNaN(share) || share < 0 || share > 100 {
		return 0, errors.New("must be from 0 to 100")
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(math.Abs(share), 'f', -1, 64), ".") // Abs: -0 is 0, too
	if len(fraction) > 9 {
		return 0, errors.New("must have at most 9 decimals")
	}
	units, err := strconv.ParseUint(whole+fraction+strings.Repeat("0", 9-len(fraction)), 10, 64)
	return units, err
}

// share returns the percentage in billionths.
func (p *EnvironmentProgression) share() uint64 {
	units := uint64(100_000_000_000)
	if p.MinimumSuccessPercentage != nil {
		units, _ = billionths(*p.MinimumSuccessPercentage) // Validate passed
	}
	return units
}

// required is how many of n targets must have succeeded: at least 1, rounded up.
func (p *EnvironmentProgression) required(n int) int {
	high, low := bits.Mul64(uint64(n), p.share())
	share, rest := bits.Div64(high, low, 100_000_000_000)
	if rest > 0 {
		share++
	}
	return max(1, int(share))
}

// success reports whether the rule counts a job as a success.
func (p *EnvironmentProgression) success(job *Job) bool {
	return p.counts(job.Status) && (!p.RequireVerificationPassed || job.Verification == VerificationPassed)
}

// unverified reports whether the rule counts a job as a success once its verification passes. The
// host may verify it late, also after the target has gone on.
func (p *EnvironmentProgression) unverified(job *Job) bool {
	return p.counts(job.Status) && p.RequireVerificationPassed && job.Verification != VerificationPassed && job.Verification != VerificationFailed
}

// read goes through the jobs of a version on a target. It calls success with the end of each that is
// one, and reports whether there are any, whether one is at work, and whether one is a success once
// its verification passes.
func (p *EnvironmentProgression) read(jobs []Job, version string, success func(end time.Time)) (tried, active, unverified bool) {
	for k := range jobs {
		job := &jobs[k]
		if job.Version != version {
			continue
		}
		if tried = true; p.success(job) {
			success(job.end())
		} else {
			active, unverified = active || !job.Status.Terminal(), unverified || p.unverified(job)
		}
	}
	return tried, active, unverified
}

func (p *EnvironmentProgression) counts(status JobStatus) bool {
	if len(p.SuccessStatuses) == 0 {
		return status == JobSuccessful
	}
	return slices.Contains(p.SuccessStatuses, status)
}

// source is an environment that a progression rule matches, or cannot judge. There may be as many
// environments as branches, so each is asked once, and not again for every other one.
type source struct {
	environment int32
	matches     bool
	missing     string // the key for want of which the expression does not match, if any
	told        bool   // the missing key is reported
	err         error  // why the expression has no answer
}

// sourcesOf lists the sources of a progression rule for one deployment, in order.
func (w *work) sourcesOf(rule *compiledRule, deployment int32) []source {
	key := questionKey{rule: rule, environment: none, deployment: deployment, version: none}
	sources, known := w.sources[key]
	if known {
		return sources
	}
	for e := range w.environments {
		b := w.boundIn(int32(e), deployment)
		ok, err := rule.selector.Match(&b)
		lacks, missing := missingKey(err)
		if missing {
			err = nil
		}
		if ok || missing || err != nil {
			sources = append(sources, source{environment: int32(e), matches: ok, missing: lacks, err: err})
		}
	}
	put(&w.sources, key, sources)
	return sources
}

// progression returns the instant since which a rule lets version n of the deployment of t start in
// the environment of t, or zero and why it does not. Environments in which the version is for no
// target prove nothing: they are passed over, unless all that the rule names are such.
func (w *work) progression(rule *compiledRule, t *target, n int32) (time.Time, Verdict) {
	v := w.versions[t.deployment].list[n]
	var found elsewhere
	sources := w.sourcesOf(rule, t.deployment)
	for k := range sources {
		s := &sources[k]
		switch {
		case s.environment == t.environment:
		case s.err != nil:
			return time.Time{}, failing(rule.id, s.err)
		case s.matches:
			found.add(v, w.environments[s.environment].ID, w.askEnvironment(s.environment, rule, t.deployment, n))
		case !s.told:
			s.told = true
			w.diagnose(DiagnosticMissingKey, rule.id, s.missing, TargetID{Environment: w.environments[s.environment].ID, Deployment: t.Deployment})
		}
	}
	return found.answer(rule, v)
}

// elsewhere is what a progression rule finds for a version in the environments that it names.
type elsewhere struct {
	since      time.Time   // since when the success in one of them suffices; zero: it does in none
	until      time.Time   // when the first of the others opens by time alone; zero: none does
	on         []Condition // a success in any of the others can help, also in one where the last success is too old
	nothing    []string    // environments in which there is nothing to prove
	tooOld     *Verdict    // of an environment where the success is too old, if there is one
	waits      Data        // the environments where it is not, with the counts of that which lacks the fewest
	unverified []string    // in which environments how many await their verification
	lost       string      // why no success comes by itself, in the first environment where none does
	reachable  bool        // in one of them a success may come by itself
}

// add adds what the rule finds in one environment.
func (e *elsewhere) add(v *Version, environment string, own environmentAnswer) {
	switch {
	case own.verdict.Reason == ReasonNotApplicable:
		e.nothing = append(e.nothing, environment)
		return
	case !own.since.IsZero():
		e.since = sooner(e.since, own.since)
		return
	}
	e.on = append(e.on, Condition{Kind: OnJob, Deployment: v.Deployment, Environment: environment, Version: v.ID})
	e.until = sooner(e.until, own.verdict.Until)
	e.reachable = e.reachable || own.lost == ""
	if own.verdict.Reason == ReasonProgressionTooOld {
		tooOld := own.verdict
		e.tooOld = &tooOld
		return
	}
	data := own.verdict.Data
	e.waits.Names = append(e.waits.Names, environment)
	if e.waits.Allowed == 0 || data.Allowed-data.Attempt < e.waits.Allowed-e.waits.Attempt {
		e.waits.Attempt, e.waits.Allowed = data.Attempt, data.Allowed
	}
	if own.unverified > 0 {
		e.unverified = append(e.unverified, fmt.Sprintf("%d awaiting verification in %s", own.unverified, textlist.Name(environment)))
	}
	e.lost = cmp.Or(e.lost, own.lost)
}

// answer returns the instant since which the rule lets the version start, or zero and why it does
// not.
func (e *elsewhere) answer(rule *compiledRule, v *Version) (time.Time, Verdict) {
	switch {
	case !e.since.IsZero():
		return e.since, Verdict{}
	case len(e.on) == 0 && len(e.nothing) > 0:
		return v.CreatedAt.UTC(), Verdict{
			Status: Allowed, Reason: ReasonNotApplicable, Rule: rule.id,
			Data: &Data{Detail: "the version is for no target in " + strings.Join(textlist.Names(e.nothing), " or ")},
		}
	case len(e.on) == 0:
		return time.Time{}, Verdict{Status: Denied, Reason: ReasonProgressionNoEnvironment, Rule: rule.id, On: onConfig(rule.id)}
	case len(e.waits.Names) == 0:
		e.tooOld.Until, e.tooOld.On = e.until, append(onConfig(rule.id), e.on...)
		return time.Time{}, *e.tooOld
	}
	waits, data := Verdict{Status: Pending, Reason: ReasonProgressionWaiting, Rule: rule.id, Until: e.until, On: e.on}, e.waits
	if e.until.IsZero() { // else it only soaks
		data.Detail = strings.Join(textlist.Few(e.unverified), ", ")
		if !e.reachable { // no success comes by itself; one that is brought about still helps
			waits.On = append([]Condition{{Kind: OnOperator}, {Kind: OnVersion, Deployment: v.Deployment}}, e.on...)
			data.Detail = strings.TrimPrefix(data.Detail+"; "+e.lost, "; ")
		}
	}
	waits.Data = &data
	return time.Time{}, waits
}

// environmentAnswer is what a progression rule finds for a version in one environment.
type environmentAnswer struct {
	since      time.Time // since when its success suffices; zero: it does not
	until      time.Time // from when on it is too old, unless it succeeds once more; zero: never
	verdict    Verdict   // why it does not; [ReasonNotApplicable]: the version is for no target there
	unverified int       // targets without a success yet that have one if a verification passes
	lost       string    // why no success comes by itself; empty if one may
}

// askEnvironment returns what a progression rule finds for a version in one environment.
func (w *work) askEnvironment(environment int32, rule *compiledRule, deployment, n int32) environmentAnswer {
	key := questionKey{rule.asMuch, environment, deployment, n}
	found, known := w.environmentAnswers[key]
	if !known {
		found = w.judgeEnvironment(rule, w.versions[deployment].list[n], n, w.targetsIn(environment, deployment))
		put(&w.environmentAnswers, key, found)
	}
	if found.verdict.Rule != "" {
		found.verdict.Rule = rule.id
	}
	return found
}

// askAsMuch finds the progression rules that ask for as much of an environment. Each of thousands of
// tenants may have one of its own, and they are answered together.
func askAsMuch(rules []*compiledRule) {
	type demand struct {
		share             uint64
		soak, age         int64
		statuses          string
		everAfter, passed bool
	}
	first := map[demand]*compiledRule{}
	for _, rule := range rules {
		p := rule.progression
		own := demand{share: p.share(), soak: p.MinimumSoakTimeMinutes, everAfter: p.MaximumAgeHours == nil, passed: p.RequireVerificationPassed}
		if p.MaximumAgeHours != nil {
			own.age = *p.MaximumAgeHours
		}
		for _, status := range p.SuccessStatuses {
			own.statuses += strconv.Quote(string(status))
		}
		if first[own] == nil {
			first[own] = rule
		}
		rule.asMuch = first[own]
	}
}

// results is what a version has come to on those targets of an environment that it is for.
type results struct {
	population int
	firsts     []time.Time // the first success of each target, also of the future
	proven     int         // targets that have succeeded by now
	newest     time.Time   // of all successes by now
	ahead      []time.Time // all successes of the future
	unverified int         // targets without a success yet that have one if a verification passes
	open       bool        // a job is at work, or may still be verified
	lost       outOfReach  // targets that do not succeed by themselves
}

// resultsOf reads the jobs of version n on some targets, as a rule counts them.
func (w *work) resultsOf(p *EnvironmentProgression, n int32, targets []int32) (all results) {
	for _, i := range targets {
		if !w.inScope(i, n) {
			continue
		}
		all.population++
		t := &w.targets[i]
		var first time.Time
		tried, active, unverified := p.read(t.Jobs, w.version(i, n).ID, func(end time.Time) {
			first = sooner(first, end)
			if end.After(w.now) {
				w.wake(end)
				all.ahead = append(all.ahead, end)
			} else {
				all.newest = later(all.newest, end)
			}
		})
		all.open = all.open || t.busy || unverified
		switch {
		case !first.IsZero():
			all.firsts = append(all.firsts, first)
			if !first.After(w.now) {
				all.proven++
			}
		case unverified:
			all.unverified++
		case active: // whatever the target has gone on to
		case t.floor() > n:
			if !tried && t.current != n || !w.runsAgain(i, n) {
				all.lost.passed++
			}
		case w.failedForGood(i, n):
			all.lost.failed++
		case w.adopted(i, n):
			all.lost.adopted++
		}
	}
	return all
}

// judgeEnvironment judges one environment. First successes count, so a redeployment never moves the
// instant.
func (w *work) judgeEnvironment(rule *compiledRule, v *Version, n int32, targets []int32) environmentAnswer {
	p, all := rule.progression, w.resultsOf(rule.progression, n, targets)
	if all.population == 0 {
		return environmentAnswer{verdict: Verdict{Reason: ReasonNotApplicable}}
	}
	required := p.required(all.population)
	own := environmentAnswer{
		verdict:    Verdict{Status: Pending, Reason: ReasonProgressionWaiting, Rule: rule.id, Data: &Data{Attempt: all.proven, Allowed: required}},
		unverified: all.unverified,
	}
	if len(all.firsts) < required {
		own.lost = all.lost.unless(all.population, required)
		return own
	}
	slices.SortFunc(all.firsts, time.Time.Compare)
	at := addTime(all.firsts[required-1], p.soak())
	opens := p.opens(w.now, at, all.newest, all.ahead)
	if opens.IsZero() && !all.open && len(all.firsts)+all.lost.count() == all.population &&
		!slices.ContainsFunc(targets, func(i int32) bool { return w.inScope(i, n) && w.runsAgain(i, n) }) { // else another success may come, which is younger
		own.lost = "the newest success there is too old before the soak ends"
	}
	var old time.Time
	if p.MaximumAgeHours != nil && all.proven >= required {
		if !p.young(all.newest, w.now) {
			own.verdict = Verdict{
				Status: Denied, Reason: ReasonProgressionTooOld, Rule: rule.id, Until: opens, Data: &Data{Detail: all.newest.UTC().Format(time.RFC3339)},
			}
			return own
		}
		old = addTime(all.newest, p.maximumAge())
		w.wake(old)
	}
	if !w.now.Before(at) {
		own.until = old
		own.since = later(at, v.CreatedAt).UTC()
		return own
	}
	own.verdict.Until = opens
	w.wake(opens)
	return own
}

// opens returns the first instant after now at which the soak, which ends at the instant soaked, is
// over and the newest success young enough: the end of the soak, or a success of the future behind
// it. It is zero if there is none.
func (p *EnvironmentProgression) opens(now, soaked, newest time.Time, ahead []time.Time) time.Time {
	var next time.Time // the first success behind the end of the soak
	for _, end := range ahead {
		if end.After(soaked) {
			next = sooner(next, end)
		} else {
			newest = later(newest, end)
		}
	}
	if soaked.After(now) && p.young(newest, soaked) {
		return soaked
	}
	if next.IsZero() {
		return next
	}
	return next.UTC()
}

// young reports whether a success is young enough at an instant.
func (p *EnvironmentProgression) young(success, at time.Time) bool {
	return p.MaximumAgeHours == nil || at.Before(addTime(success, p.maximumAge()))
}

func (p *EnvironmentProgression) maximumAge() time.Duration {
	return time.Duration(*p.MaximumAgeHours) * time.Hour
}

func (p *EnvironmentProgression) soak() time.Duration {
	return time.Duration(p.MinimumSoakTimeMinutes) * time.Minute
}
