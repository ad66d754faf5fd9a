package rollout

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/strictjson"
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
	if len(e.Rules) > 0 {
		text += " (rules " + strings.Join(e.Rules, ", ") + ")"
	}
	return text + ": remove one of these dependencies, or narrow it with appliesTo"
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
	d := len(w.deployments)
	requirements := make([][]requirement, d)
	providers := map[*compiledRule][]int32{}
	constrained := false
	for k := range w.deployments {
		targets := w.targetsIn(e, int32(k))
		seen := map[int32]bool{}
		asked := map[*compiledRule]bool{}
		for _, i := range targets {
			if seen[w.view[i]] {
				continue
			}
			seen[w.view[i]] = true
			for _, rule := range w.viewOf(i).dependencies {
				if asked[rule] {
					continue
				}
				asked[rule] = true
				own := w.boundIn(e, int32(k))
				if rule.appliesTo != nil && ask(rule.appliesTo, &own) == no {
					continue
				}
				list, known := providers[rule]
				if !known {
					list = w.providersByName(rule, e)
					providers[rule] = list
				}
				if r := (requirement{rule, int32(k), list, rule.dependency.Match == MatchAll}); len(list) > 1 || len(list) == 1 && list[0] != r.self {
					requirements[k] = append(requirements[k], r)
					constrained = true
				}
			}
		}
	}
	if !constrained {
		return nil
	}
	startable := make([]bool, d)
	all := make([]int32, d)
	for k := range all {
		all[k] = int32(k)
	}
	if left := stuck(all, startable, requirements); len(left) > 0 {
		return w.circleOnResource(e, startable, requirements)
	}
	return nil
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
	from := sort.Search(len(w.targets), func(i int) bool { return w.targets[i].environment >= e })
	for from < len(w.targets) && w.targets[from].environment == e {
		_, to := w.siblings(int32(from))
		var here []int32
		for i := int32(from); i < to; i++ {
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
		from = int(to)
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
	cycle := &CycleError{}
	visited := map[int32]int{}
	var path []int32
	var rules []string
	for k := first; ; {
		if start, again := visited[k]; again {
			path, rules = path[start:], rules[start:]
			break
		}
		visited[k] = len(path)
		path = append(path, k)
		for _, r := range requirements[k] {
			if !r.met(startable) {
				rules = append(rules, r.rule.id)
				k = r.providers[slices.IndexFunc(r.providers, func(p int32) bool { return !startable[p] })] // requirementsOf leaves out the deployment itself
				break
			}
		}
	}
	for _, k := range path {
		cycle.Path = append(cycle.Path, w.deployments[k].ID)
	}
	slices.Sort(rules)
	cycle.Rules = slices.Compact(rules)
	return cycle
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

// Check reports what is wrong with the fleet under these policies before anything is planned. Like
// [PolicySet.Plan], it refuses contradictions in the snapshot ([*FieldError]), deployments that
// wait for one another ([*CycleError]), targets that two brackets claim ([*bracket.OverlapError]),
// and members that no order fits ([*bracket.RoleError], [*bracket.CycleError]).
//
// Check also reports versions that wait for one another, and dependencies of versions with a
// selector that does not compile or on a deployment that does not exist. In a plan such a version
// only waits, because it must not hold up the rest of the fleet; the plan lists circles as
// diagnostics. Call Check when a policy is edited or a version is published.
func (s *PolicySet) Check(snapshot Snapshot) error {
	w, err := s.begin(&snapshot, lastInstant())
	if err != nil {
		return err
	}
	var f faults
	for d := range w.versions {
		for _, v := range w.versions[d].list {
			for k, dependency := range v.Dependencies {
				at := fmt.Sprintf("versions[%s@%s].dependencies[%d]", v.Deployment, v.ID, k)
				if _, err := w.expression(dependency.VersionSelector); err != nil {
					f.expression(at+".versionSelector", err)
				}
				if _, known := w.deployment(dependency.Deployment); !known {
					f.add(at+".deployment", CodeUnknownValue, dependency.Deployment, "is not the id of a deployment")
				}
			}
		}
	}
	for _, cycle := range w.versionCycles() {
		f.list = append(f.list, cycle)
	}
	return errors.Join(w.cycles(), w.bracketFaults(), errors.Join(f.list...))
}

// bracketFaults returns what package bracket would refuse of the members, and targets that are
// members twice: for each two brackets, the first such target.
func (w *work) bracketFaults() error {
	var found []error
	var works []*bracketWork
	overlaps := map[[2]string]bool{}
	faulty := map[string]bool{} // by bracket: what is wrong in one environment is mostly wrong in all
	for _, rule := range w.set.brackets {
		for e := range w.environments {
			b, err := w.membersOf(rule, int32(e), works)
			var overlap *bracket.OverlapError
			if errors.As(err, &overlap) {
				if !overlaps[overlap.Brackets] {
					found = append(found, err)
				}
				overlaps[overlap.Brackets] = true
				continue
			}
			works = append(works, b)
			if faulty[b.id] {
				continue
			}
			for _, fault := range strictjson.Parts(bracket.Check(bracket.Bracket{ID: b.id, Rule: *b.rule.bracket, Members: w.edgesOf(b)})) {
				var roles *bracket.RoleError
				var circle *bracket.CycleError
				if errors.As(fault, &roles) || errors.As(fault, &circle) {
					found = append(found, fault)
					faulty[b.id] = true
				}
			}
		}
	}
	return errors.Join(found...)
}

// released is a version of a deployment in the graph of version dependencies.
type released struct{ deployment, version int32 }

// versionCycles finds the versions that could still be chosen somewhere and wait for one another
// there, whatever else starts. A dependency that no version satisfies is no circle: a version that
// satisfies it may be published later. Each circle is reported once, even if it is in several
// environments.
func (w *work) versionCycles() []*CycleError {
	if !slices.Contains(w.dependent, true) {
		return nil
	}
	var found []*CycleError
	for e := range w.environments {
		for _, cycle := range w.versionCyclesIn(int32(e)) {
			if !slices.ContainsFunc(found, func(known *CycleError) bool { return slices.Equal(known.Path, cycle.Path) }) {
				found = append(found, cycle)
			}
		}
	}
	return found
}

func (w *work) versionCyclesIn(e int32) []*CycleError {
	oldest := make([]int32, len(w.deployments)) // the oldest floor of each deployment: a version that is not newer is never chosen
	runs := map[released]bool{}
	for d := range oldest {
		oldest[d] = int32(len(w.versions[d].list))
		for _, i := range w.targetsIn(e, int32(d)) {
			t := &w.targets[i]
			oldest[d] = min(oldest[d], t.floor())
			runs[released{t.deployment, t.current}], runs[released{t.deployment, t.started}] = true, true
		}
	}
	var waiting []released
	options := map[released][][]released{} // per dependency: the versions that satisfy it
	beside := map[released][]bool{}        // per dependency: those versions may come in one execution with the version that has it
	together := map[[2]int32]bool{}
	for d := range w.versions {
		for n, v := range w.versions[d].list {
			node := released{int32(d), int32(n)}
			if int32(n) <= oldest[d] || runs[node] || len(v.Dependencies) == 0 {
				continue
			}
			waiting = append(waiting, node)
			for _, dependency := range v.Dependencies {
				own := w.satisfying(dependency)
				options[node] = append(options[node], own)
				beside[node] = append(beside[node], len(own) > 0 && w.inOneExecution(e, int32(d), own[0].deployment, together))
			}
		}
	}
	stuck := map[released]bool{}
	for _, node := range waiting {
		stuck[node] = true
	}
	for {
		// Find the versions that can start together once all that are not stuck have started. Of
		// the stuck versions, one drops out if one of its dependencies is met by no version that
		// has started and, in one execution, by none that is left.
		coming := maps.Clone(stuck)
		for n := -1; n != len(coming); {
			n = len(coming)
			for _, node := range waiting {
				for k, option := range options[node] {
					if !slices.ContainsFunc(option, func(v released) bool { return !stuck[v] || beside[node][k] && coming[v] }) {
						delete(coming, node)
					}
				}
			}
		}
		if len(coming) == 0 {
			return w.circles(waiting, stuck, options)
		}
		maps.DeleteFunc(stuck, func(node released, _ bool) bool { return coming[node] })
	}
}

// inOneExecution reports whether two deployments are members of one bracket on some resource of an
// environment. An execution of both brings the versions of both, and a dependency looks at what
// runs after the execution, see obstacles.
func (w *work) inOneExecution(e, a, b int32, answers map[[2]int32]bool) bool {
	if a == b {
		return false // a version that its own deployment needs must run before
	}
	key := [2]int32{a, b}
	if known, asked := answers[key]; asked {
		return known
	}
	answers[key] = slices.ContainsFunc(w.set.brackets, func(rule *compiledRule) bool {
		if ask(rule.members, &bound{deployment: &w.deployments[a]}) != yes || ask(rule.members, &bound{deployment: &w.deployments[b]}) != yes {
			return false
		}
		governs := func(i int32) bool { return w.viewOf(i).has(rule) }
		return slices.ContainsFunc(w.targetsIn(e, a), func(i int32) bool {
			from, to := w.siblings(i)
			k := w.among(from, to, b)
			return k != none && governs(i) && governs(k)
		})
	})
	return answers[key]
}

// satisfying lists the versions for which a dependency may hold. A selector that fails on a
// version, or cannot be decided by the version and its deployment alone, may hold for it.
func (w *work) satisfying(dependency VersionDependency) []released {
	d, known := w.deployment(dependency.Deployment)
	matcher, err := w.expression(dependency.VersionSelector)
	if !known || err != nil {
		return nil
	}
	var list []released
	for n, v := range w.versions[d].list {
		b := bound{version: v, deployment: &w.deployments[d]}
		if ask(matcher, &b) != no {
			list = append(list, released{d, int32(n)})
		}
	}
	return list
}

// circles walks the stuck versions depth first and reports each circle it runs into; every version
// is in at most one report.
func (w *work) circles(waiting []released, stuck map[released]bool, options map[released][][]released) []*CycleError {
	var found []*CycleError
	const open, done = 1, 2
	state := map[released]int{}
	var path []released
	var visit func(node released) bool
	visit = func(node released) bool {
		state[node] = open
		path = append(path, node)
		defer func() {
			state[node] = done
			path = path[:len(path)-1]
		}()
		for _, option := range options[node] {
			for _, next := range option {
				switch {
				case !stuck[next] || state[next] == done:
				case state[next] == open:
					cycle := &CycleError{}
					for _, member := range path[slices.Index(path, next):] {
						cycle.Path = append(cycle.Path, w.deployments[member.deployment].ID+"@"+w.versions[member.deployment].list[member.version].ID)
					}
					found = append(found, cycle)
					return true
				case visit(next):
					return true
				}
			}
		}
		return false
	}
	for _, node := range waiting {
		if state[node] == 0 {
			visit(node)
		}
	}
	return found
}
