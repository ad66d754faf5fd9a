package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// others lists the other environments that a progression names for a deployment in environment e, or
// of these the ones in which the deployment has targets, if there are any: the others prove nothing.
// failed is why it has no answer for one of them, which holds the targets in e.
func (l *lint) others(rule *compiledRule, d, e int32) (environments []int32, failed error) {
	for _, s := range l.w.sourcesOf(rule, d) {
		switch {
		case s.environment == e: // it is not asked about its own
		case s.err != nil:
			failed = s.err
		case s.matches:
			environments = append(environments, s.environment)
		}
	}
	empty := func(e int32) bool { return len(l.w.targetsIn(e, d)) == 0 }
	if slices.ContainsFunc(environments, empty) && slices.ContainsFunc(environments, func(e int32) bool { return !empty(e) }) {
		environments = slices.DeleteFunc(environments, empty)
	}
	return environments, failed
}

// lookAtProgressions looks at what a new version, meant for every target, would wait for.
func (l *lint) lookAtProgressions() {
	if len(l.w.set.progressions) == 0 {
		return
	}
	for _, rule := range l.w.set.progressions {
		l.lookAtProgression(rule)
		l.lookAtProof(rule)
	}
	for d := range l.w.deployments {
		l.lookAtStages(int32(d))
	}
}

func (l *lint) lookAtProgression(rule *compiledRule) {
	w := l.w
	var nowhere, never, seldom, failing, unverified, unproved reach
	failure := ""
	var soaks, often *compiledRule // rules with a soak that is too long for targets of never, and of seldom
	for k := range l.governed(rule) {
		e, d := w.splitPair(k.pair)
		environments, failed := l.others(rule, d, e)
		if failed != nil {
			failing.merge(reachOf(k.targets))
			failure = failed.Error()
			continue
		}
		if len(environments) == 0 {
			nowhere.merge(reachOf(k.targets))
			continue
		}
		if len(w.targetsIn(environments[0], d)) == 0 { // else others would have left it out
			unproved.merge(reachOf(k.targets))
		}
		if !rule.progression.RequireVerificationPassed && slices.ContainsFunc(environments, func(other int32) bool { return l.verifies(w.pairAt(other, d)) }) {
			unverified.merge(reachOf(k.targets))
		}
		var surely, mostly *compiledRule // the first rules whose soak is too long
		if rule.progression.MaximumAgeHours != nil {
			for _, other := range w.views.list[k.view].progressions {
				outlives, always := l.outlives(rule, other, d, e)
				if always {
					surely = other
					break
				}
				if outlives {
					mostly = cmp.Or(mostly, other)
				}
			}
		}
		switch {
		case surely != nil:
			never.merge(reachOf(k.targets))
			soaks = cmp.Or(soaks, surely)
		case mostly != nil:
			seldom.merge(reachOf(k.targets))
			often = cmp.Or(often, mostly)
		}
	}
	if failing.some() {
		l.failed(findingOf(rule, "dependsOnEnvironmentSelector"), SeverityError, failing, failure, "nothing newer starts as long as it does")
	}
	if nowhere.some() {
		l.add(findingOf(rule, "dependsOnEnvironmentSelector"), LintProgressionNoEnvironment, SeverityError, nowhere,
			"it names no other environment: no new version ever starts on these targets",
			"correct the expression, or leave their environment out of the policy: the first environment has none before it")
	}
	if unproved.some() {
		l.add(findingOf(rule, "dependsOnEnvironmentSelector"), LintProgressionWithoutProof, SeverityInfo, unproved,
			"their deployments have no target in any environment that it names: new versions start on them without a proof",
			"list the targets there, or leave it if they are deployed here alone")
	}
	if unverified.some() {
		l.add(findingOf(rule, "requireVerificationPassed"), LintProgressionUnverified, SeverityWarning, unverified,
			"jobs in the environments that it names are verified, and count although their verification is not over or has failed",
			"write true, or leave it if the end of a job is enough")
	}
	detail := func(soaks *compiledRule, end string) string {
		whose := ""
		if soaks != rule {
			whose = fmt.Sprintf(" of %q", soaks.id)
		}
		return fmt.Sprintf("maximumAgeHours %d is over before minimumSoakTimeMinutes %d%s: a version is too old before it may start, unless %s",
			*rule.progression.MaximumAgeHours, soaks.progression.MinimumSoakTimeMinutes, whose, end)
	}
	if never.some() {
		l.add(findingOf(rule, "maximumAgeHours"), LintDeadlineBelowSoak, SeverityError, never, detail(soaks, "a target gets it once more"), "let maximumAgeHours be longer than the soak")
	}
	if seldom.some() {
		l.add(findingOf(rule, "maximumAgeHours"), LintDeadlineBelowSoak, SeverityWarning, seldom, detail(often, "one of the targets there gets it late, or once more"), "let maximumAgeHours be longer than the soak")
	}
}

// verifies reports whether any job on the targets of a pair is verified.
func (l *lint) verifies(pair int32) bool {
	known, asked := l.verified[pair]
	if !asked {
		known = slices.ContainsFunc(l.w.pairs[pair].targets, func(i int32) bool {
			return slices.ContainsFunc(l.w.targets[i].Jobs, func(job Job) bool { return job.Verification != "" })
		})
		put(&l.verified, pair, known)
	}
	return known
}

// outlives reports whether the soak of one rule is as long as the age that another one allows,
// where both wait for the same environments. It also reports whether that is so always: if all
// targets must have succeeded, and no bracket gives one of them its version again, no younger
// success can come.
func (l *lint) outlives(age, soak *compiledRule, d, e int32) (is, always bool) {
	w := l.w
	if time.Duration(*age.progression.MaximumAgeHours)*time.Hour > time.Duration(soak.progression.MinimumSoakTimeMinutes)*time.Minute {
		return false, false
	}
	environments, _ := l.others(age, d, e)
	if age != soak {
		// With several environments each rule may be satisfied by another one.
		if others, _ := l.others(soak, d, e); len(environments) != 1 || !slices.Equal(environments, others) {
			return false, false
		}
	}
	always = true
	for _, other := range environments {
		targets := w.targetsIn(other, d)
		n := len(targets)
		if n == 0 {
			return false, false // nothing is to be proved there
		}
		always = always && age.progression.required(n) == n && soak.progression.required(n) == n && !slices.ContainsFunc(targets, l.repeats)
	}
	return true, always
}

// repeats reports whether a bracket may run the version of a target again: that of a hook always,
// that of a main member if its rule says so.
func (l *lint) repeats(i int32) bool {
	f := l.frameOf[i]
	return f != nil && (f.roles[l.w.targets[i].deployment] != bracket.Main || f.rule.bracket.UnchangedMemberStrategy == bracket.RedeployCurrent)
}

// proof is what a version has shown in an environment, and what it still can.
type proof struct {
	environment      int32
	population       int // targets there that it is meant for
	required, able   int // of them: successes asked for, and at most possible
	adopted          int // run it, and no job says that it succeeded
	refused, passed  int // may not have it; went on to a newer one
	failed           int // failed for good
	tooOld, unproved bool
}

// lookAtProof finds versions that targets would get next and that can no longer succeed on as many
// other targets as a progression asks for. It judges the version that is next now, and only by
// which targets can have it at all, not by what else holds it back there.
func (l *lint) lookAtProof(rule *compiledRule) {
	w := l.w
	type question struct{ pair, n int32 }
	answers := map[question]proof{}
	var concerns reach
	var detail, fix string // of the example
	for k := range l.governed(rule) {
		e, d := w.splitPair(k.pair)
		for _, i := range k.targets {
			n := l.newest(i, w.targets[i].floor(), l.obtainable)
			if n < 0 || w.overriddenAt(rule.id, i, n) != nil {
				continue
			}
			q := question{k.pair, n}
			p, known := answers[q]
			if !known {
				p = l.proof(rule, d, e, n)
				answers[q] = p
			}
			if p.unproved && concerns.add(i) {
				detail = fmt.Sprintf("%s %s does not get to %s: %s", w.deployments[d].ID, w.versions[d].list[n].ID, w.environments[e].ID, p.why(w.environments[p.environment].ID, rule.progression))
				if fix = "record the jobs that brought it, let it be deployed there, or once more where it failed, ask for a smaller minimumSuccessPercentage"; p.tooOld {
					fix = "let it be deployed there once more, raise maximumAgeHours"
				}
			}
		}
	}
	if concerns.some() {
		l.add(findingOf(rule, "dependsOnEnvironmentSelector"), LintProgressionUnreachable, SeverityWarning, concerns, detail,
			fix+", or override the rule for this version; a later version is not concerned")
	}
}

// why says what an environment lacks.
func (p proof) why(environment string, rule *EnvironmentProgression) string {
	if p.tooOld {
		return fmt.Sprintf("its newest success in %s is older than maximumAgeHours %d", environment, *rule.MaximumAgeHours)
	}
	text := fmt.Sprintf("of %s in %s %d must have succeeded, and at most %d can", textlist.Counted(p.population, "target"), environment, p.required, p.able)
	if p.adopted > 0 {
		text += fmt.Sprintf("; %d run it and no job says that it succeeded", p.adopted)
	}
	if p.refused > 0 {
		text += fmt.Sprintf("; for %d a version selector is in the way", p.refused)
	}
	if p.passed > 0 {
		text += fmt.Sprintf("; %d went on to a newer version", p.passed)
	}
	if p.failed > 0 {
		text += fmt.Sprintf("; %d failed for good", p.failed)
	}
	return text
}

// proof looks at all environments that a rule names, by what a version has shown in each where it is
// for any target. If the version can be proved in none of them, it returns the proof of the one that
// comes closest.
func (l *lint) proof(rule *compiledRule, d, e, n int32) proof {
	environments, failed := l.others(rule, d, e)
	if failed != nil {
		return proof{} // another finding
	}
	best := proof{}
	for _, other := range environments {
		key := questionKey{rule.asMuch, other, d, n}
		own, known := l.proofs[key] // many other environments, and many rules, may look at it
		if !known {
			own = l.proofIn(rule, d, other, n)
			put(&l.proofs, key, own)
		}
		switch {
		case own.population == 0:
			continue
		case !own.unproved:
			return proof{}
		}
		if !best.unproved || own.required-own.able < best.required-best.able {
			best = own
		}
	}
	return best
}

func (l *lint) proofIn(rule *compiledRule, d, e, n int32) proof {
	w := l.w
	own := proof{environment: e}
	version := w.versions[d].list[n].ID
	var newest time.Time
	open := false // a target may still succeed
	for _, i := range w.targetsIn(e, d) {
		if !w.inScope(i, n) {
			continue
		}
		own.population++
		t := &w.targets[i]
		proved, floor := false, t.floor()
		_, active, unverified := rule.progression.read(t.Jobs, version, func(end time.Time) { proved, newest = true, later(newest, end) })
		pending := active || unverified
		failed := !pending && !l.repeats(i) && w.failedForGood(i, n)
		can := pending || !failed && floor == n && (l.repeats(i) || t.outdated || t.started == n) || floor < n && l.selected(i, n) || floor > n && w.runsAgain(i, n)
		switch {
		case proved || can:
			own.able++
		case failed:
			own.failed++
		case floor == n:
			own.adopted++
		case floor > n:
			own.passed++
		default:
			own.refused++
		}
		open = open || can
	}
	if own.population == 0 {
		return proof{} // nothing is to be proved there
	}
	own.required = rule.progression.required(own.population)
	if age := rule.progression.MaximumAgeHours; age != nil && !open && own.able >= own.required {
		own.tooOld = !w.now.Before(addTime(newest, time.Duration(*age)*time.Hour))
	}
	own.unproved = own.able < own.required || own.tooOld
	return own
}

// stages are the targets of a deployment, by kinds, among which some can start before the others.
type stages struct {
	*lint
	deployment int32
	starts     map[int32]bool // kinds
	able       map[int32]int  // per pair: targets of these
}

// proved reports whether enough targets in an environment can start for a progression.
func (s stages) proved(rule *compiledRule, e int32) bool {
	pair := s.w.pairAt(e, s.deployment)
	n := len(s.w.pairs[pair].targets)
	return n == 0 || s.able[pair] >= rule.progression.required(n)
}

// unmet returns the first progression that keeps a kind from starting, and the environments that it
// names; nil if there is none. A rule that names no environment counts as met, so that an
// environment that only waits for its victims is not called a circle.
func (s stages) unmet(k int32) (*compiledRule, []int32) {
	e, _ := s.w.splitPair(s.kinds[k].pair)
	for _, rule := range s.w.views.list[s.kinds[k].view].progressions {
		environments, failed := s.others(rule, s.deployment, e)
		if failed == nil && len(environments) > 0 && !slices.ContainsFunc(environments, func(other int32) bool { return s.proved(rule, other) }) {
			return rule, environments
		}
	}
	return nil, nil
}

// lookAtStages finds environments of a deployment that wait for one another: what is left when
// everything that can start has started.
func (l *lint) lookAtStages(d int32) {
	w := l.w
	var own []int32
	for e := range w.environments {
		own = append(own, l.kindsOf[w.pairAt(int32(e), d)]...)
	}
	s := stages{l, d, map[int32]bool{}, map[int32]int{}}
	for changed := true; changed; {
		changed = false
		for _, k := range own {
			if s.starts[k] {
				continue
			}
			if rule, _ := s.unmet(k); rule == nil {
				s.starts[k], changed = true, true
				s.able[l.kinds[k].pair] += len(l.kinds[k].targets)
			}
		}
	}
	visited := map[int32]bool{}
	for _, k := range own {
		if s.starts[k] {
			continue
		}
		if ring := ringFrom(k, visited, s.next); ring != nil {
			s.circle(ring)
		}
	}
}

// next returns the first kind that one that does not start waits for.
func (s stages) next(k int32) int32 {
	_, environments := s.unmet(k)
	// Each of these environments is unproved, so each has targets that do not start.
	there := s.kindsOf[s.w.pairAt(environments[0], s.deployment)]
	return there[slices.IndexFunc(there, func(other int32) bool { return !s.starts[other] })]
}

func (s stages) circle(ring []int32) {
	var names []string
	var concerns reach
	var first *compiledRule
	for _, k := range ring {
		e, _ := s.w.splitPair(s.kinds[k].pair)
		names = append(names, s.w.environments[e].ID)
		concerns.merge(reachOf(s.kinds[k].targets))
		if rule, _ := s.unmet(k); first == nil || strings.Compare(rule.id, first.id) < 0 {
			first = rule
		}
	}
	s.add(findingOf(first, "dependsOnEnvironmentSelector"), LintProgressionCycle, SeverityError, concerns,
		fmt.Sprintf("environments wait for one another, for example with %s: %s", s.w.deployments[s.deployment].ID, strings.Join(append(names, names[0]), " waits for ")),
		"leave the environment that comes first out of the policy, or narrow the expression")
}
