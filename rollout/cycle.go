package rollout

import (
	"slices"
	"strings"
)

// CycleError says that deployments on one resource wait for one another in a circle, so that none
// of them can be the first to start there.
type CycleError struct {
	Path  []string // ids of deployments, or "deployment@version" for versions; each needs the next, and the last needs the first
	Rules []string // ids of the rules that make the edges; empty for dependencies of versions
}

// Error names the deployments in the order of Path, the rules and the remedy.
func (e *CycleError) Error() string {
	text := "rollout: dependency cycle: " + e.around()
	if len(e.Rules) == 0 {
		return text + ": publish a version without one of these dependencies"
	}
	return text + " (rules " + strings.Join(e.Rules, ", ") + "): remove one of these dependencies, or narrow it with appliesTo"
}

// around names the members of the circle, each with what it needs, and the first once more at the
// end.
func (e *CycleError) around() string {
	return strings.Join(slices.Concat(e.Path, e.Path[:min(1, len(e.Path))]), " needs ")
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

// requirement is what one rule asks of a deployment: that one of the other providers has started,
// or that all have.
type requirement struct {
	rule      *compiledRule
	self      int32
	providers []int32 // deployment numbers; shared, and self may be among them
	all       bool
}

func (w *work) deploymentCycle(e int32) error {
	if len(w.set.dependencies) == 0 {
		return nil
	}
	requirements := make([][]requirement, len(w.deployments))
	providers := map[*compiledRule][]int32{}
	for k := range w.deployments {
		requirements[k] = w.requirementsByName(e, int32(k), providers)
	}
	startable := make([]bool, len(w.deployments))
	all := make([]int32, len(w.deployments))
	for k := range all {
		all[k] = int32(k)
	}
	if left := stuck(all, startable, requirements); len(left) > 0 {
		return w.circleOnResource(e, startable, requirements)
	}
	return nil
}

// requirementsByName returns what the dependency rules that govern targets of a deployment ask for,
// whatever the resource and the versions are. providers keeps the providers of each rule.
func (w *work) requirementsByName(e, d int32, providers map[*compiledRule][]int32) (own []requirement) {
	seen := map[int32]bool{} // views
	asked := map[*compiledRule]bool{}
	for _, i := range w.targetsIn(e, d) {
		if seen[w.view[i]] {
			continue
		}
		seen[w.view[i]] = true
		for _, rule := range w.viewOf(i).dependencies {
			if asked[rule] {
				continue
			}
			asked[rule] = true
			at := w.boundIn(e, d)
			if rule.appliesTo != nil && ask(rule.appliesTo, &at) == no {
				continue
			}
			list, known := providers[rule]
			if !known {
				list = w.providersByName(rule, e)
				providers[rule] = list
			}
			if len(list) > 1 || len(list) == 1 && list[0] != d {
				own = append(own, requirement{rule, d, list, rule.dependency.Match == MatchAll})
			}
		}
	}
	return own
}

// stuck marks, among the deployments in left, those that can be the first to start and those that
// can start once these have. It returns the others, in the same slice.
func stuck(left []int32, startable []bool, requirements [][]requirement) []int32 {
	for n := -1; n != len(left); {
		n = len(left)
		left = slices.DeleteFunc(left, func(k int32) bool {
			startable[k] = !slices.ContainsFunc(requirements[k], func(r requirement) bool { return !r.met(startable) })
			return startable[k]
		})
	}
	return left
}

// circleOnResource looks for a resource on which deployments wait for one another. The rules of all
// resources together may make a circle that exists on none of them: a rule may concern only some
// resources, a deployment may be on only some, and another environment or a version may be a way
// out. The deployments of such a circle are those that are not startable. circleOnResource
// overwrites requirements.
func (w *work) circleOnResource(e int32, startable []bool, requirements [][]requirement) error {
	for from, end := w.firstIn(e), w.firstIn(e+1); from < end; {
		_, to := w.siblings(from)
		var here []int32
		for i := from; i < to; i++ {
			if k := w.targets[i].deployment; !startable[k] {
				here = append(here, k)
				requirements[k] = w.requirementsOf(i)
			}
		}
		if left := stuck(slices.Clone(here), startable, requirements); len(left) > 0 {
			return w.circle(left[0], startable, requirements)
		}
		for _, k := range here {
			startable[k] = false
		}
		from = to
	}
	return nil
}

// requirementsOf returns what target i itself needs of the other targets on its resource. Unless it
// asks for all providers, a rule that a version or another environment may satisfy requires
// nothing. A rule that fails requires nothing either: it holds the target by itself.
func (w *work) requirementsOf(i int32) []requirement {
	t := &w.targets[i]
	var own []requirement
	for _, rule := range w.viewOf(i).dependencies {
		if applies, _ := w.applies(rule, i); !applies {
			continue
		}
		r := requirement{rule: rule, self: t.deployment, all: rule.dependency.Match == MatchAll}
		elsewhere := false
		for _, k := range w.nameable(nil, rule, i) {
			b := w.bound(k)
			switch answer := ask(rule.dependsOn, &b); {
			case answer == yes && w.targets[k].environment == t.environment:
				r.providers = append(r.providers, w.targets[k].deployment)
			case answer == yes, answer == undecided && rule.readsVersion:
				elsewhere = true
			}
		}
		if len(r.providers) > 0 && (r.all || !elsewhere) {
			own = append(own, r)
		}
	}
	return own
}

// circle follows requirements that are not met until it comes to a deployment again. Every
// deployment that is left has such a requirement, and each requirement names another one that is
// left.
func (w *work) circle(first int32, startable []bool, requirements [][]requirement) *CycleError {
	unmet := func(k int32) requirement {
		return requirements[k][slices.IndexFunc(requirements[k], func(r requirement) bool { return !r.met(startable) })]
	}
	cycle := &CycleError{}
	for _, k := range ringFrom(first, map[int32]bool{}, func(k int32) int32 {
		providers := unmet(k).providers
		return providers[slices.IndexFunc(providers, func(p int32) bool { return !startable[p] })] // requirementsOf leaves out the deployment itself
	}) {
		cycle.Path, cycle.Rules = append(cycle.Path, w.deployments[k].ID), append(cycle.Rules, unmet(k).rule.id)
	}
	slices.Sort(cycle.Rules)
	cycle.Rules = slices.Compact(cycle.Rules)
	return cycle
}

// ringFrom goes from one place to the next until it comes to one that was visited. If that is on its
// way, it returns the ring that begins there; else nothing, because an earlier way led there.
func ringFrom[T comparable](at T, visited map[T]bool, next func(T) T) []T {
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

func (r requirement) met(startable []bool) bool {
	if r.all {
		return !slices.ContainsFunc(r.providers, func(p int32) bool { return p != r.self && !startable[p] })
	}
	return slices.ContainsFunc(r.providers, func(p int32) bool { return startable[p] }) // self is not startable as long as it needs something
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
