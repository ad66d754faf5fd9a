package rollout

import (
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

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
	for c := range l.governed(rule) {
		e, d := w.splitPair(c.pair)
		for _, i := range c.targets {
			n := l.newest(i, w.targets[i].floor(), l.obtainable)
			if n < 0 || w.overriddenAt(rule.id, i, n) != nil {
				continue
			}
			q := question{c.pair, n}
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

// proof looks at all environments that a rule names, by what a version has shown in each where it
// is for any target. If the version can be proved in none of them, it returns the proof of the one
// that comes closest.
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
	own.tooOld = !open && own.able >= own.required && !rule.progression.young(newest, w.now)
	own.unproved = own.able < own.required || own.tooOld
	return own
}
