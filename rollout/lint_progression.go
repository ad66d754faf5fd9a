package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
		l.lookAtDeadline(rule)
		l.lookAtProof(rule)
	}
	l.lookAtLastTurns()
	for d := range l.w.deployments {
		l.lookAtStages(int32(d))
	}
}

// lookAtProgression looks at the environments that a progression names.
func (l *lint) lookAtProgression(rule *compiledRule) {
	w := l.w
	var nowhere, failing, unverified, unproved reach
	failure := ""
	for c := range l.governed(rule) {
		e, d := w.splitPair(c.pair)
		environments, failed := l.others(rule, d, e)
		if failed != nil {
			failing.merge(reachOf(c.targets))
			failure = failed.Error()
			continue
		}
		if len(environments) == 0 {
			nowhere.merge(reachOf(c.targets))
			continue
		}
		if len(w.targetsIn(environments[0], d)) == 0 { // else others would have left it out
			unproved.merge(reachOf(c.targets))
		}
		if !rule.progression.RequireVerificationPassed && slices.ContainsFunc(environments, func(other int32) bool { return l.verifies(w.pairAt(other, d)) }) {
			unverified.merge(reachOf(c.targets))
		}
	}
	if failing.some() {
		l.reportFailing(findingOf(rule, "dependsOnEnvironmentSelector"), SeverityError, failing, failure, "nothing newer starts as long as it does")
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
}

// lookAtDeadline compares the age that a progression allows with the soaks, its own and those of
// the other progressions that govern the same targets.
func (l *lint) lookAtDeadline(rule *compiledRule) {
	if rule.progression.MaximumAgeHours == nil {
		return
	}
	w := l.w
	var never, seldom reach
	var soaks, often *compiledRule // rules with a soak that is too long for targets of never, and of seldom
	for c := range l.governed(rule) {
		e, d := w.splitPair(c.pair)
		if environments, failed := l.others(rule, d, e); failed != nil || len(environments) == 0 {
			continue // another finding
		}
		switch soak, always := l.longerSoak(rule, c.view.progressions, d, e); {
		case soak == nil:
		case always:
			never.merge(reachOf(c.targets))
			soaks = cmp.Or(soaks, soak)
		default:
			seldom.merge(reachOf(c.targets))
			often = cmp.Or(often, soak)
		}
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

// lookAtLastTurns compares the curves with the ages that progressions allow on their targets: the last
// turn of a curve comes no earlier than all of it after the soak.
func (l *lint) lookAtLastTurns() {
	w := l.w
	for _, gradual := range w.set.gradual {
		var late reaches[*compiledRule]    // targets of the rollouts that are too long for a progression
		longest := map[*compiledRule]int{} // → the largest population among these
		for _, own := range l.populations(gradual) {
			length := curveLength(gradual, own.founders)
			for _, i := range own.targets {
				for _, rule := range w.viewOf(i).progressions {
					if rule.progression.endsBefore(length) && l.proves(rule, w.pairOf(&w.targets[i])) {
						late.at(rule).add(i)
						longest[rule] = max(longest[rule], own.founders)
					}
				}
			}
		}
		for _, rule := range late.keys {
			begins := "with the success"
			if soak := rule.progression.soak(); soak > 0 {
				begins = textlist.Duration(soak) + " after the success"
			}
			l.add(findingOf(rule, "maximumAgeHours"), LintDeadlineBelowCurve, SeverityWarning, *late.at(rule),
				fmt.Sprintf("a rollout to %d takes %v under %q, and begins %s at the earliest: the last turns come when the version is too old for maximumAgeHours %d, unless a target gets it late, or once more",
					longest[rule], textlist.Duration(curveLength(gradual, longest[rule])), gradual.id, begins, *rule.progression.MaximumAgeHours),
				"let maximumAgeHours be longer than the soak and the curve together, or shorten the curve")
		}
	}
}

// endsBefore reports whether a version is too old before a curve that begins after the soak is over.
// A soak that is as long, and a curve that never ends, are other findings.
func (p *EnvironmentProgression) endsBefore(length time.Duration) bool {
	if p.MaximumAgeHours == nil || length == math.MaxInt64 {
		return false
	}
	return p.soak() < p.maximumAge() && saturatingSum(p.soak(), length) >= p.maximumAge()
}

// proves reports whether the versions of a pair have something to prove under a progression.
func (l *lint) proves(rule *compiledRule, pair int32) bool {
	own := ruleOnPair{rule, pair}
	does, asked := l.proving[own]
	if !asked {
		e, d := l.w.splitPair(pair)
		environments, failed := l.others(rule, d, e)
		does = failed == nil && len(environments) > 0 && len(l.w.targetsIn(environments[0], d)) > 0
		put(&l.proving, own, does)
	}
	return does
}

// ruleOnPair is a rule on the targets of a pair.
type ruleOnPair struct {
	rule *compiledRule
	pair int32
}

// longerSoak returns the first of some rules whose soak outlives the age that a rule allows: of
// those that always do or, if there is none, of all; nil if none does.
func (l *lint) longerSoak(age *compiledRule, rules []*compiledRule, d, e int32) (soak *compiledRule, always bool) {
	for _, rule := range rules {
		outlives, always := l.outlives(age, rule, d, e)
		if always {
			return rule, true
		}
		if outlives {
			soak = cmp.Or(soak, rule)
		}
	}
	return soak, false
}

// verifies reports whether any job on the targets of a pair is verified.
func (l *lint) verifies(pair int32) bool {
	known, asked := l.verifiedPairs[pair]
	if !asked {
		known = slices.ContainsFunc(l.w.pairs[pair].targets, func(i int32) bool {
			return slices.ContainsFunc(l.w.targets[i].Jobs, func(job Job) bool { return job.Verification != "" })
		})
		put(&l.verifiedPairs, pair, known)
	}
	return known
}

// outlives reports whether the soak of one rule is as long as the age that another one allows,
// where both wait for the same environments. It also reports whether that is so always: if all
// targets must have succeeded, and no bracket gives one of them its version again, no younger
// success can come.
func (l *lint) outlives(age, soak *compiledRule, d, e int32) (is, always bool) {
	w := l.w
	if age.progression.maximumAge() > soak.progression.soak() {
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
	b := l.bracketOf[i]
	return b != nil && (!b.isMain(&l.w.targets[i]) || b.rule.bracket.UnchangedMemberStrategy == bracket.RedeployCurrent)
}
