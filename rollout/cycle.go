package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// CycleError says that deployments on one resource wait for one another in a circle, so that none
// of them can be the first to start there.
type CycleError struct {
	Path  []string // ids of deployments, or "deployment@version" for versions; each needs the next, and the last needs the first
	Rules []string // ids of the rules that make the edges; empty for dependencies of versions
}

// Error names the deployments in the order of Path, the rules and the remedy. Of a long path it names
// the beginning and the end, and of many rules the first.
func (e *CycleError) Error() string {
	text := "rollout: dependency cycle: " + e.around()
	if len(e.Rules) == 0 {
		return text + ": publish a version without one of these dependencies"
	}
	return text + " (rules " + strings.Join(textlist.Few(e.Rules), ", ") + "): remove one of these dependencies, or narrow it with appliesTo"
}

// around names the members of the circle, each with what it needs, and the first once more at the
// end. Of a long one it names the first and the last members.
func (e *CycleError) around() string {
	return strings.Join(textlist.Ends(slices.Concat(e.Path, e.Path[:min(1, len(e.Path))])), " needs ")
}

// cycles refuses dependencies by which deployments wait for one another for ever, because none of
// them could be the first to start on a resource on which nothing runs yet. Such deployments are
// what is left after everything that can start has started.
func (w *work) cycles() error {
	for e := range w.environments {
		if err := w.deploymentCycle(int32(e)); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) deploymentCycle(e int32) error {
	if len(w.set.dependencies) == 0 {
		return nil
	}
	s := newStarting(len(w.deployments))
	for _, p := range w.preconditionsByName(e) {
		s.require(p)
	}
	all := make([]int32, len(w.deployments))
	for d := range all {
		all[d] = int32(d)
	}
	if len(s.run(all)) > 0 {
		return w.circleOnResource(e, s)
	}
	return nil
}

// preconditionsByName returns what the dependency rules that govern targets of an environment ask for,
// whatever the resource and the versions are.
func (w *work) preconditionsByName(e int32) (list []*precondition) {
	byRule := map[*compiledRule]*precondition{} // nil: it asks for nothing
	for d := range int32(len(w.deployments)) {
		for _, policy := range w.policiesWithDependencies(e, d) {
			for _, k := range w.concerning(policy, e, d) {
				rule := policy.dependencies[k]
				p, known := byRule[rule]
				if !known {
					if providers := w.providersByName(rule, e); len(providers) > 0 {
						p = &precondition{rule: rule, providers: providers}
						list = append(list, p)
					}
					byRule[rule] = p
				}
				if p != nil && (len(p.providers) > 1 || p.providers[0] != d) {
					p.of = append(p.of, d)
				}
			}
		}
	}
	return list
}

// policiesWithDependencies lists, in no order, the policies with dependency rules that govern a target
// of a deployment in an environment.
func (w *work) policiesWithDependencies(e, d int32) (list []*compiledPolicy) {
	var seen map[int32]bool // views
	var listed map[*compiledPolicy]bool
	for _, i := range w.targetsIn(e, d) {
		view := w.view[i]
		if len(w.views.list[view].dependencies) == 0 || seen[view] {
			continue
		}
		put(&seen, view, true)
		for _, policy := range w.views.list[view].policies {
			if len(policy.dependencies) > 0 && !listed[policy] {
				put(&listed, policy, true)
				list = append(list, policy)
			}
		}
	}
	return list
}

// circleOnResource looks for a resource on which deployments wait for one another. The rules of all
// resources together may make a circle that exists on none of them: a rule may concern only some
// resources, a deployment may be on only some, and another environment or a version may be a way
// out. The deployments of such a circle are those that cannot start.
func (w *work) circleOnResource(e int32, s *starting) error {
	for d := range s.can {
		s.needs[d], s.unmet[d], s.wanted[d] = nil, 0, nil
	}
	for from, end := w.firstIn(e), w.firstIn(e+1); from < end; {
		_, to := w.siblings(from)
		var here []int32
		for i := from; i < to; i++ {
			if k := w.targets[i].deployment; !s.can[k] {
				here = append(here, k)
				for _, p := range w.preconditionsOf(i) {
					s.require(p)
				}
			}
		}
		if left := s.run(slices.Clone(here)); len(left) > 0 {
			return w.circle(left[0], s)
		}
		for _, d := range here {
			s.can[d], s.needs[d], s.wanted[d] = false, nil, nil
		}
		from = to
	}
	return nil
}

// preconditionsOf returns what target i itself needs of the other targets on its resource. Unless it
// asks for all providers, a rule that a version or another environment may satisfy requires
// nothing. A rule that fails requires nothing either: it holds the target by itself.
func (w *work) preconditionsOf(i int32) []*precondition {
	t := &w.targets[i]
	var own []*precondition
	for _, rule := range w.blockingRules(i, nil) {
		if applies, _ := w.applies(rule, i); !applies {
			continue
		}
		p := &precondition{rule: rule, of: []int32{t.deployment}}
		elsewhere := false
		for _, k := range w.nameable(nil, rule, i) {
			b := w.bound(k)
			switch answer := ask(rule.dependsOn, &b); {
			case answer == yes && w.targets[k].environment == t.environment:
				p.providers = append(p.providers, w.targets[k].deployment)
			case answer == yes, answer == undecided && rule.readsVersion:
				elsewhere = true
			}
		}
		if len(p.providers) > 0 && (p.all() || !elsewhere) {
			own = append(own, p)
		}
	}
	return own
}

// circle follows preconditions that are not met until it comes to a deployment again. Every
// deployment that is left has such a one, and each names another deployment that is left.
func (w *work) circle(first int32, s *starting) *CycleError {
	unmet := func(d int32) *precondition {
		return s.needs[d][slices.IndexFunc(s.needs[d], func(p *precondition) bool { return !p.met })]
	}
	cycle := &CycleError{}
	for _, d := range circleFrom(first, map[int32]bool{}, func(d int32) int32 {
		providers := unmet(d).providers
		return providers[slices.IndexFunc(providers, func(p int32) bool { return !s.can[p] })] // preconditionsOf leaves out the deployment itself
	}) {
		cycle.Path, cycle.Rules = append(cycle.Path, w.deployments[d].ID), append(cycle.Rules, unmet(d).rule.id)
	}
	slices.Sort(cycle.Rules)
	cycle.Rules = slices.Compact(cycle.Rules)
	return cycle
}

// circleFrom goes from one place to the next until it comes to one that was visited. If that is on
// its way, it returns the ring that begins there; else nothing, because an earlier way led there.
func circleFrom[T comparable](at T, visited map[T]bool, next func(T) T) []T {
	var path []T
	for !visited[at] {
		visited[at] = true
		path, at = append(path, at), next(at)
	}
	if from := slices.Index(path, at); from >= 0 {
		return path[from:]
	}
	return nil
}

// providersByName lists the deployments with targets in the environment that a rule names whatever
// their version. A rule that looks at versions, or at the resource, can be satisfied by what is
// there already and makes no circle by itself.
func (w *work) providersByName(rule *compiledRule, e int32) []int32 {
	return slices.DeleteFunc(slices.Clone(w.providersIn(rule, e)), func(d int32) bool {
		other := w.boundIn(e, d)
		return ask(rule.dependsOn, &other) != yes
	})
}
