package rollout

import (
	"fmt"
	"slices"
	"strings"
)

// progressionStages are the targets of a deployment, by classes, among which some can start before
// the others.
type progressionStages struct {
	*lint
	deployment int32
	starts     map[int32]bool // classes
	able       map[int32]int  // per pair: targets of these
}

// proved reports whether enough targets in an environment can start for a progression.
func (s progressionStages) proved(rule *compiledRule, e int32) bool {
	pair := s.w.pairAt(e, s.deployment)
	n := len(s.w.pairs[pair].targets)
	return n == 0 || s.able[pair] >= rule.progression.required(n)
}

// unmet returns the first progression that keeps a class from starting, and the environments that
// it names; nil if there is none. A rule that names no environment counts as met, so that an
// environment that only waits for its victims is not called a circle.
func (s progressionStages) unmet(k int32) (*compiledRule, []int32) {
	e, _ := s.w.splitPair(s.classes[k].pair)
	for _, rule := range s.classes[k].view.progressions {
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
		own = append(own, l.classesOf[w.pairAt(int32(e), d)]...)
	}
	s := progressionStages{l, d, map[int32]bool{}, map[int32]int{}}
	for changed := true; changed; {
		changed = false
		for _, k := range own {
			if s.starts[k] {
				continue
			}
			if rule, _ := s.unmet(k); rule == nil {
				s.starts[k], changed = true, true
				s.able[l.classes[k].pair] += len(l.classes[k].targets)
			}
		}
	}
	visited := map[int32]bool{}
	for _, k := range own {
		if s.starts[k] {
			continue
		}
		if ring := circleFrom(k, visited, s.next); ring != nil {
			s.reportCircle(ring)
		}
	}
}

// next returns the first class that one that does not start waits for.
func (s progressionStages) next(k int32) int32 {
	_, environments := s.unmet(k)
	// Each of these environments is unproved, so each has targets that do not start.
	there := s.classesOf[s.w.pairAt(environments[0], s.deployment)]
	return there[slices.IndexFunc(there, func(other int32) bool { return !s.starts[other] })]
}

func (s progressionStages) reportCircle(ring []int32) {
	var names []string
	var concerns reach
	var first *compiledRule
	for _, k := range ring {
		e, _ := s.w.splitPair(s.classes[k].pair)
		names = append(names, s.w.environments[e].ID)
		concerns.merge(reachOf(s.classes[k].targets))
		if rule, _ := s.unmet(k); first == nil || strings.Compare(rule.id, first.id) < 0 {
			first = rule
		}
	}
	s.add(findingOf(first, "dependsOnEnvironmentSelector"), LintProgressionCycle, SeverityError, concerns,
		fmt.Sprintf("environments wait for one another, for example with %s: %s", s.w.deployments[s.deployment].ID, strings.Join(append(names, names[0]), " waits for ")),
		"leave the environment that comes first out of the policy, or narrow the expression")
}
