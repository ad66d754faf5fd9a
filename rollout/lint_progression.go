package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// others are the environments, besides its own, that a progression names for a deployment.
type others struct {
	environments []int32
	failed       bool // the expression has no answer somewhere, and so holds everybody
}

// stages answers for which environments a progression waits, each question once.
type stages struct {
	l       *lint
	answers map[stageKey]others
}

type stageKey struct {
	rule       *compiledRule
	deployment int32
}

// of lists the environments that a rule names for a deployment in environment e.
func (s stages) of(rule *compiledRule, d, e int32) (environments []int32, failed bool) {
	w := s.l.w
	key := stageKey{rule, d}
	all, known := s.answers[key]
	if !known {
		for e := range w.environments {
			ok, err := rule.selector.Match(&bound{environment: &w.environments[e], deployment: &w.deployments[d]})
			if _, missing := missingKey(err); err != nil && !missing {
				all.failed = true
			}
			if ok {
				all.environments = append(all.environments, int32(e))
			}
		}
		s.answers[key] = all
	}
	return slices.DeleteFunc(slices.Clone(all.environments), func(other int32) bool { return other == e }), all.failed
}

// lookAtProgressions looks at what a new version, meant for every target, would wait for.
func (l *lint) lookAtProgressions() {
	s := stages{l, map[stageKey]others{}}
	for _, p := range l.w.set.policies {
		for _, rule := range p.progressions {
			l.lookAtProgression(s, rule)
		}
	}
	for d := range l.w.deployments {
		l.lookAtStages(s, int32(d))
	}
}

func (l *lint) lookAtProgression(s stages, rule *compiledRule) {
	w := l.w
	var nowhere, never, seldom reach
	soaks := rule
	for _, k := range l.kinds {
		view := w.views.list[k.view]
		if !view.has(rule) {
			continue
		}
		e, d := l.pairOf(k.pair)
		environments, failed := s.of(rule, d, e)
		if failed {
			continue
		}
		if len(environments) == 0 {
			nowhere.merge(k.reach)
			continue
		}
		for _, other := range view.progressions {
			if outlives, always := l.outlives(s, rule, other, d, e); outlives {
				soaks = other
				if always {
					never.merge(k.reach)
				} else {
					seldom.merge(k.reach)
				}
				break
			}
		}
	}
	if nowhere.targets > 0 {
		l.add(at(rule, "dependsOnEnvironmentSelector"), LintProgressionNoEnvironment, SeverityError, nowhere,
			"it names no other environment: no new version ever starts on these targets",
			"correct the expression, or leave their environment out of the policy: the first environment has none before it")
	}
	detail := func(end string) string {
		whose := ""
		if soaks != rule {
			whose = fmt.Sprintf(" of %q", soaks.id)
		}
		return fmt.Sprintf("maximumAgeHours %d is over before minimumSoakTimeMinutes %d%s: a version is too old before it may start, unless %s",
			*rule.progression.MaximumAgeHours, soaks.progression.MinimumSoakTimeMinutes, whose, end)
	}
	if never.targets > 0 {
		l.add(at(rule, "maximumAgeHours"), LintDeadlineBelowSoak, SeverityError, never, detail("a target gets it once more"), "let maximumAgeHours be longer than the soak")
	}
	if seldom.targets > 0 {
		l.add(at(rule, "maximumAgeHours"), LintDeadlineBelowSoak, SeverityWarning, seldom, detail("one of the other targets gets it late"), "let maximumAgeHours be longer than the soak")
	}
}

// outlives reports whether the soak of one rule is as long as the age that another one allows, where both wait for the same environments, and
// whether that is fatal: if all targets must have succeeded there is none left whose success could be younger.
func (l *lint) outlives(s stages, age, soak *compiledRule, d, e int32) (is, always bool) {
	w := l.w
	if age.progression.MaximumAgeHours == nil || time.Duration(*age.progression.MaximumAgeHours)*time.Hour > time.Duration(soak.progression.MinimumSoakTimeMinutes)*time.Minute {
		return false, false
	}
	environments, _ := s.of(age, d, e)
	if age != soak {
		// With several environments each rule may be satisfied by another one.
		if others, failed := s.of(soak, d, e); failed || len(environments) != 1 || !slices.Equal(environments, others) {
			return false, false
		}
	}
	always = true
	for _, other := range environments {
		n := len(w.pairs[int(other)*len(w.deployments)+int(d)].targets)
		if n == 0 {
			return false, false // nothing is to be proved there
		}
		always = always && age.progression.required(n) == n && soak.progression.required(n) == n
	}
	return true, always
}

// lookAtStages finds environments of a deployment that wait for one another: what is left when everything that can start has started. A rule
// that names nobody counts as met, so that what only waits for its victims is not called a circle.
func (l *lint) lookAtStages(s stages, d int32) {
	w := l.w
	var own []int32
	constrained := false
	for e := range w.environments {
		for _, k := range l.kindsOf[e*len(w.deployments)+int(d)] {
			own = append(own, k)
			constrained = constrained || len(w.views.list[l.kinds[k].view].progressions) > 0
		}
	}
	if !constrained {
		return
	}
	starts := map[int32]bool{}
	proved := func(rule *compiledRule, e int32) bool {
		p := e*int32(len(w.deployments)) + d
		able := 0
		for _, k := range l.kindsOf[p] {
			if starts[k] {
				able += l.kinds[k].targets
			}
		}
		n := len(w.pairs[p].targets)
		return n == 0 || able >= rule.progression.required(n)
	}
	met := func(rule *compiledRule, e int32) bool {
		environments, failed := s.of(rule, d, e)
		return failed || len(environments) == 0 || slices.ContainsFunc(environments, func(other int32) bool { return proved(rule, other) })
	}
	unmet := func(k int32) *compiledRule {
		e, _ := l.pairOf(l.kinds[k].pair)
		rules := w.views.list[l.kinds[k].view].progressions
		if at := slices.IndexFunc(rules, func(rule *compiledRule) bool { return !met(rule, e) }); at >= 0 {
			return rules[at]
		}
		return nil
	}
	for changed := true; changed; {
		changed = false
		for _, k := range own {
			if !starts[k] && unmet(k) == nil {
				starts[k], changed = true, true
			}
		}
	}
	visited := map[int32]bool{}
	for _, k := range own {
		var path []int32
		var rules []*compiledRule
		for !starts[k] && !visited[k] {
			visited[k] = true
			rule := unmet(k)
			path, rules = append(path, k), append(rules, rule)
			e, _ := l.pairOf(l.kinds[k].pair)
			environments, _ := s.of(rule, d, e)
			// Every one of them is unproved, so every one has somebody who does not start.
			next := l.kindsOf[environments[0]*int32(len(w.deployments))+d]
			k = next[slices.IndexFunc(next, func(other int32) bool { return !starts[other] })]
		}
		if from := slices.Index(path, k); from >= 0 {
			l.circle(path[from:], rules[from:], d)
		}
	}
}

func (l *lint) circle(path []int32, rules []*compiledRule, d int32) {
	var names []string
	var concerns reach
	for _, k := range append(slices.Clone(path), path[0]) {
		e, _ := l.pairOf(l.kinds[k].pair)
		names = append(names, l.w.environments[e].ID)
	}
	first := rules[0]
	for n, k := range path {
		concerns.merge(l.kinds[k].reach)
		if strings.Compare(rules[n].id, first.id) < 0 {
			first = rules[n]
		}
	}
	l.add(at(first, "dependsOnEnvironmentSelector"), LintProgressionCycle, SeverityError, concerns,
		fmt.Sprintf("environments wait for one another, for example with %s: %s", l.w.deployments[d].ID, strings.Join(names, " waits for ")),
		"leave the environment that comes first out of the policy, or narrow the expression")
}
