package rollout

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// waits are the targets that dependencies block although some version could satisfy each of them.
type waits struct {
	l           *lint
	blocked     map[int32][]*compiledRule // target → the rules that are not satisfied now
	order       []int32
	satisfiable map[dependencyKey]bool
	later       bool // also hold a member's execution for what it may get once others approved, it succeeded elsewhere, or it is released
}

// lookAtBlocked finds targets that wait for one another's newer versions: what is left when everything has started that can. A dependency that
// nobody could satisfy is a finding of its own and counts as met here, so that whoever waits for its victims is in no circle.
// Whether a member of a bracket has something to run is certain only if it may have it by now, and has had it for as long as whoever would start with
// it: what is found on the assumption that it will, is a warning.
func (l *lint) lookAtBlocked(s waits) {
	supposed := s
	supposed.later, supposed.blocked, supposed.order = true, maps.Clone(s.blocked), slices.Clone(s.order)
	certain := map[int32]bool{}
	for _, path := range s.rings() {
		l.ring(path, SeverityError)
	}
	for i := range s.blocked {
		certain[i] = true
	}
	for _, path := range supposed.rings() {
		if !slices.ContainsFunc(path, func(step waitStep) bool { return certain[step.target] }) {
			l.ring(path, SeverityWarning)
		}
	}
}

// rings takes away who can start, again and again, and returns the circles in what is left.
func (s waits) rings() [][]waitStep {
	var rings [][]waitStep
	left := s.order
	for changed := true; changed; {
		changed = false
		left = slices.DeleteFunc(left, func(i int32) bool {
			if rule, _ := s.unmet(i); rule != nil {
				return false
			}
			delete(s.blocked, i)
			changed = true
			return true
		})
	}
	visited := map[int32]bool{}
	for _, i := range left {
		var path []waitStep
		for s.blocked[i] != nil && !visited[i] {
			visited[i] = true
			step := waitStep{target: i}
			step.rule, step.provider = s.unmet(i)
			step.next = s.held(step.provider)
			path = append(path, step)
			i = step.next
		}
		if from := slices.IndexFunc(path, func(step waitStep) bool { return step.target == i }); from >= 0 {
			rings = append(rings, path[from:])
		}
	}
	return rings
}

// waitStep is one edge of a circle: a target needs a provider, and that one waits itself, or starts only together with who does.
type waitStep struct {
	target         int32
	rule           *compiledRule
	provider, next int32
}

// unmet is the first rule that keeps a target waiting, and somebody who could satisfy it and waits himself.
func (s waits) unmet(i int32) (rule *compiledRule, provider int32) {
	for _, rule := range s.blocked[i] {
		provider = none
		met := s.l.couldMeet(rule, i, func(k int32) bool {
			if _, already, _ := s.l.w.provider(rule, &s.l.w.targets[k]); already {
				return true
			}
			if !s.l.satisfiable(rule, k, s.satisfiable) {
				return false
			}
			if s.held(k) == none {
				return true
			}
			if provider == none {
				provider = k
			}
			return false
		})
		if !met {
			return rule, provider
		}
	}
	return nil, none
}

// held is who keeps a target from getting anything newer: itself, or a member of its bracket that is blocked and would be part of the same
// execution, which starts only when all of its runs may. None if nobody does.
func (s waits) held(k int32) int32 {
	if s.blocked[k] != nil {
		return k
	}
	f := s.l.frameOf[k]
	if f == nil || f.group == nil {
		return none
	}
	from, to := s.l.w.siblings(k)
	for i := from; i < to; i++ {
		if s.blocked[i] != nil && s.l.frameOf[i] == f && s.l.included(f, i, s.later) && (s.later || s.l.together(f, i, k)) {
			return i
		}
	}
	return none
}

// together reports whether no group can bring a member a newer version without the other: none was locked after the member had one and before the other
// did.
func (l *lint) together(f *frame, other, member int32) bool {
	w := l.w
	o := &w.targets[other]
	if l.always(f, other) {
		return true
	}
	var since time.Time
	for n := int32(len(w.versions[o.deployment].list)) - 1; n > o.current && n >= 0; n-- {
		if l.usable(other, n) {
			since = sooner(since, w.gateAt(other, n).base)
		}
	}
	hook := f.roles[w.targets[member].deployment] != bracket.Main
	from, to := w.siblings(member)
	for i := from; i < to; i++ {
		t := &w.targets[i]
		if i != member && !hook || l.frameOf[i] != f || f.roles[t.deployment] != bracket.Main {
			continue
		}
		for n, v := range w.versions[t.deployment].list {
			if int32(n) > t.current && v.CreatedAt.Before(since) && w.inScope(i, int32(n)) {
				return false
			}
		}
	}
	return true
}

// usable reports whether a target may have a version by now.
func (l *lint) usable(i, n int32) bool {
	w := l.w
	return w.inScope(i, n) && l.selected(i, n) && !w.version(i, n).CreatedAt.After(w.now) && len(w.gateAt(i, n).blockers) == 0
}

// always reports whether a member is part of every execution on its resource, whatever there is to deploy: a hook, or a main that runs what it has again.
func (l *lint) always(f *frame, i int32) bool {
	t := &l.w.targets[i]
	return f.roles[t.deployment] != bracket.Main || t.current >= 0 && f.rule.bracket.UnchangedMemberStrategy == bracket.RedeployCurrent
}

// included reports whether a member would be part of any execution on its resource: one that always is, or a main that may have a newer version by now, or
// later.
func (l *lint) included(f *frame, i int32, later bool) bool {
	return l.always(f, i) || l.newest(i, l.w.targets[i].current, func(i, n int32) bool {
		return l.usable(i, n) || later && l.obtainable(i, n)
	}) != none
}

// ring reports targets of which each waits for a newer version of the next.
func (l *lint) ring(path []waitStep, severity Severity) {
	w := l.w
	var edges []string
	var concerns reach
	first := path[0].rule
	for _, step := range path {
		edge := w.targets[step.target].Deployment + " needs " + w.targets[step.provider].Deployment
		if step.next != step.provider {
			edge += ", which its bracket starts only together with " + w.targets[step.next].Deployment
		}
		edges = append(edges, edge)
		concerns.merge(reach{1, step.target})
		if strings.Compare(step.rule.id, first.id) < 0 {
			first = step.rule
		}
	}
	l.add(at(first, "dependsOn"), LintDependencyCycle, severity, concerns,
		"targets of one resource wait for versions that the others do not get: "+strings.Join(edges, ", "),
		"remove one of these dependencies or narrow it with appliesTo, let it be satisfied by an older version, or move it into the policy of the bracket, where it orders the members")
}
