package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// lookAtCycles reports every circle that [PolicySet.Check] would refuse.
func (l *lint) lookAtCycles() {
	w := l.w
	for e := range w.environments {
		var cycle *CycleError
		if err := w.deploymentCycle(int32(e)); !errors.As(err, &cycle) {
			continue
		}
		rule := w.set.rule(cycle.Rules[0])
		var concerns reach
		for _, id := range cycle.Path {
			if d, known := w.deployment(id); known {
				for _, i := range w.pairs[e*len(w.deployments)+int(d)].targets {
					concerns.merge(reach{1, i})
				}
			}
		}
		detail := fmt.Sprintf("in %s %s, and nothing is planned as long as they do", w.environments[e].ID, strings.Join(append(slices.Clone(cycle.Path), cycle.Path[0]), " needs "))
		if len(cycle.Rules) > 1 {
			detail += "; rules " + strings.Join(cycle.Rules, ", ")
		}
		l.addApart(at(rule, "dependsOn"), strings.Join(cycle.Path, "\n"), LintDependencyCycle, SeverityError, concerns, detail,
			"remove one of these dependencies, or narrow it with appliesTo")
	}
	for _, cycle := range w.versionCycles() {
		l.add(Finding{Path: "versions[" + cycle.Path[0] + "].dependencies"}, LintDependencyCycle, SeverityError, reach{},
			strings.Join(append(slices.Clone(cycle.Path), cycle.Path[0]), " needs ")+": none of these versions can ever be the first to start",
			"publish a version without one of these dependencies")
	}
}

// tally is what became of one dependency rule on all targets.
type tally struct {
	concerned bool  // it applies to somebody
	unmatched reach // it names nobody there
	wanting   reach // it names somebody, and no version that exists satisfies it
	names     map[string]bool
}

// lookAtDependencies asks every dependency rule about every target that it may block.
func (l *lint) lookAtDependencies() {
	w := l.w
	tallies := map[*compiledRule]*tally{}
	of := func(rule *compiledRule) *tally {
		if tallies[rule] == nil {
			tallies[rule] = &tally{names: map[string]bool{}}
		}
		return tallies[rule]
	}
	for _, f := range l.frames {
		for e := range f.edges {
			of(e.rule).concerned = true
		}
	}
	satisfiable := map[dependencyKey]bool{}
	for i := range w.targets {
		t := int32(i)
		for _, rule := range w.blockingRules(t, bracketOfFrame(l.frameOf[i])) {
			if applies, err := w.applies(rule, t); err != nil || !applies {
				continue
			}
			own := of(rule)
			own.concerned = true
			verdict, ok, err := w.dependency(rule, t)
			switch {
			case err != nil || ok:
			case verdict.Reason == ReasonDependencyUnmatched:
				own.unmatched.add(t)
			case l.wanting(rule, t, satisfiable):
				own.wanting.add(t)
				for _, name := range verdict.Data.Names {
					own.names[name] = true
				}
			}
		}
	}
	for _, p := range w.set.policies {
		for _, rule := range p.dependencies {
			own := of(rule)
			if !own.concerned && l.reach[p].targets > 0 {
				l.add(at(rule, "appliesTo"), LintAppliesToUnmatched, SeverityWarning, reach{},
					fmt.Sprintf("it matches none of the %d targets that the policy governs: the dependency concerns nobody", l.reach[p].targets),
					"correct the expression, or remove the rule")
			}
			if own.unmatched.targets > 0 {
				l.add(at(rule, "dependsOn"), LintDependencyUnmatched, SeverityError, own.unmatched,
					"it names no other deployment with a target on the same resource: nothing newer ever starts there",
					"correct the expression, or leave these targets out with appliesTo")
			}
			if own.wanting.targets > 0 {
				l.add(at(rule, "dependsOn"), LintDependencyUnmatched, SeverityWarning, own.wanting,
					"no version that exists satisfies it, of "+strings.Join(sortedKeys(own.names), ", "),
					"publish one that does, or correct the expression")
			}
		}
	}
}

// wanting reports whether a dependency that names somebody can be satisfied by no version that exists.
func (l *lint) wanting(rule *compiledRule, i int32, satisfiable map[dependencyKey]bool) bool {
	w := l.w
	t := &w.targets[i]
	named, able := 0, 0
	look := func(from, to int32) {
		for k := from; k < to; k++ {
			other := &w.targets[k]
			if other.deployment == t.deployment {
				continue
			}
			if is, _, err := w.provider(rule, other); err != nil || !is {
				continue
			}
			named++
			if l.satisfiable(rule, k, satisfiable) {
				able++
			}
		}
	}
	look(w.siblings(i))
	if rule.dependency.AnyEnvironment {
		for e := range w.environments {
			if int32(e) != t.environment {
				look(w.siblingsIn(int32(e), t.resource))
			}
		}
	}
	if rule.dependency.Match == MatchAll {
		return able < named
	}
	return able == 0
}

// satisfiable reports whether the version that target k runs, or one that it may get, satisfies a rule that names it.
func (l *lint) satisfiable(rule *compiledRule, k int32, answers map[dependencyKey]bool) bool {
	w := l.w
	t := &w.targets[k]
	alike := !rule.readsResource && !w.scoped[t.deployment]
	key := dependencyKey{rule, t.environment, t.deployment, t.current}
	if answer, known := answers[key]; known && alike {
		return answer
	}
	_, able, _ := w.provider(rule, t)
	versions := w.versions[t.deployment].list
	b := w.bound(k)
	for n := int32(len(versions)) - 1; n > t.current && n >= 0 && !able; n-- {
		if versions[n].Status != VersionReady || !versions[n].CreatedAt.Before(l.until) || !w.inScope(k, n) {
			continue
		}
		b.version = versions[n]
		able = ask(rule.dependsOn, &b) == yes
	}
	answers[key] = able
	return able
}

// lookAtVersions finds versions that depend on a deployment which is not there.
func (l *lint) lookAtVersions() {
	w := l.w
	for i := range w.targets {
		t := &w.targets[i]
		if !w.dependent[t.deployment] || t.current == missing {
			continue
		}
		versions := w.versions[t.deployment].list
		for n := int32(len(versions)) - 1; n > t.floor(); n-- {
			for k, d := range versions[n].Dependencies {
				from, to := w.siblings(int32(i))
				if !w.inScope(int32(i), n) || slices.ContainsFunc(w.targets[from:to], func(other target) bool { return other.Deployment == d.Deployment }) {
					continue
				}
				l.add(Finding{Path: fmt.Sprintf("versions[%s@%s].dependencies[%d].deployment", t.Deployment, versions[n].ID, k)}, LintDependencyUnmatched, SeverityError, reach{1, int32(i)},
					fmt.Sprintf("%q has no target on the same resource: the version never starts there", d.Deployment),
					"correct the id, or leave these targets out with targetSelector")
			}
		}
	}
}

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
	tooOld := rule.progression.MaximumAgeHours != nil && time.Duration(*rule.progression.MaximumAgeHours)*time.Hour <= time.Duration(rule.progression.MinimumSoakTimeMinutes)*time.Minute
	for _, k := range l.kinds {
		if !w.views.list[k.view].has(rule) {
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
		if !tooOld {
			continue
		}
		free, whole := false, true
		for _, other := range environments {
			n := len(w.pairs[int(other)*len(w.deployments)+int(d)].targets)
			free = free || n == 0 // nothing is to be proved there
			whole = whole && rule.progression.required(n) == n
		}
		switch {
		case free:
		case whole:
			never.merge(k.reach)
		default:
			seldom.merge(k.reach)
		}
	}
	if nowhere.targets > 0 {
		l.add(at(rule, "dependsOnEnvironmentSelector"), LintProgressionNoEnvironment, SeverityError, nowhere,
			"it names no other environment: no new version ever starts on these targets",
			"correct the expression, or leave their environment out of the policy: the first environment has none before it")
	}
	detail := func(end string) string {
		return fmt.Sprintf("maximumAgeHours %d is over before minimumSoakTimeMinutes %d: %s", *rule.progression.MaximumAgeHours, rule.progression.MinimumSoakTimeMinutes, end)
	}
	if never.targets > 0 {
		l.add(at(rule, "maximumAgeHours"), LintDeadlineBelowSoak, SeverityError, never,
			detail("a version is too old before it may start, unless a target gets it once more"), "let maximumAgeHours be longer than the soak")
	}
	if seldom.targets > 0 {
		l.add(at(rule, "maximumAgeHours"), LintDeadlineBelowSoak, SeverityWarning, seldom,
			detail("a version is too old before it may start, unless one of the other targets gets it late"), "let maximumAgeHours be longer than the soak")
	}
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

// lookAtApprovals compares what is asked for with who there is.
func (l *lint) lookAtApprovals() {
	if l.options.Approvers == nil {
		return
	}
	people := slices.Clone(l.options.Approvers)
	slices.Sort(people)
	people = slices.Compact(people)
	for _, p := range l.w.set.policies {
		for _, rule := range p.approvals {
			if need := *rule.approval.MinApprovals; need > len(people) {
				l.add(at(rule, "minApprovals"), LintApprovalUnreachable, neverOr(l.reach[p]), l.reach[p],
					fmt.Sprintf("%d approvals are asked for, and there are %d approvers", need, len(people)), "ask for fewer, or name more approvers")
			}
		}
	}
}

// lookAtCooldowns compares each interval with how often the governed deployments are released.
func (l *lint) lookAtCooldowns() {
	w := l.w
	for _, p := range w.set.policies {
		for _, rule := range p.cooldowns {
			interval := time.Duration(*rule.cooldown.IntervalSeconds) * time.Second
			var concerns reach
			names := map[string]bool{}
			var fastest time.Duration
			for _, k := range l.kinds {
				_, d := l.pairOf(k.pair)
				if !w.views.list[k.view].has(rule) {
					continue
				}
				var releases []time.Time
				for _, v := range w.versions[d].list {
					releases = append(releases, v.CreatedAt)
				}
				if between := cadence(releases); between.is && between.duration < interval {
					if len(names) == 0 || between.duration < fastest {
						fastest = between.duration
					}
					names[w.deployments[d].ID] = true
					concerns.merge(k.reach)
				}
			}
			if len(names) > 0 {
				l.add(at(rule, "intervalSeconds"), LintCooldownLongerThanReleases, SeverityWarning, concerns,
					fmt.Sprintf("versions stand for %v, but are released every %v or so: some of them are skipped, of %s", interval, fastest, strings.Join(sortedKeys(names), ", ")),
					"shorten the interval, or release less often, unless versions are meant to be skipped")
			}
		}
	}
}
