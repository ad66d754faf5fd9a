package rollout

import (
	"cmp"
	"maps"
	"slices"
)

// numbered is a version of a deployment, by the numbers of both.
type numbered struct{ deployment, version int32 }

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
		for _, cycle := range w.versionCyclesIn(int32(e), func(*Version) bool { return true }) {
			if !slices.ContainsFunc(found, func(known *CycleError) bool { return slices.Equal(known.Path, cycle.Path) }) {
				found = append(found, cycle)
			}
		}
	}
	return found
}

// versionCyclesIn finds the circles of one environment, among the versions that come.
func (w *work) versionCyclesIn(e int32, comes func(*Version) bool) []*CycleError {
	g := w.versionGraph(e, comes)
	g.start(slices.DeleteFunc(slices.Collect(maps.Keys(g.wanted)), func(v numbered) bool { return g.stuck[v] }))
	for next := g.startTogether(); len(next) > 0; next = g.startTogether() {
		g.start(next)
	}
	return g.circles()
}

// versionGraph holds the versions of an environment that have dependencies and may still come, and
// what they wait for.
type versionGraph struct {
	*work
	environment int32
	waiting     []numbered                  // these versions, in order
	stuck       map[numbered]bool           // those of them that are not known to start
	needs       map[numbered][]alternatives // by one of them: per dependency
	unmet       map[numbered]int            // by one of them: how many of its dependencies no version satisfies that has started
	wanted      map[numbered][]*want        // by any version: the dependencies that it satisfies
	beside      map[[2]int32]bool           // answers of inOneExecution
}

// alternatives are the versions that satisfy a dependency.
type alternatives struct {
	versions []numbered
	beside   bool // they may come in one execution with the version that has the dependency
}

// want is a dependency that no version satisfies yet that has started.
type want struct {
	of []numbered // versions that have it, as often as they do; nil: it is satisfied
}

func (w *work) versionGraph(e int32, comes func(*Version) bool) *versionGraph {
	g := &versionGraph{
		work: w, environment: e, stuck: map[numbered]bool{}, needs: map[numbered][]alternatives{}, unmet: map[numbered]int{}, wanted: map[numbered][]*want{}, beside: map[[2]int32]bool{},
	}
	runs := map[numbered]bool{}
	wants := map[VersionDependency]*want{}
	for d := range int32(len(w.versions)) {
		oldest := int32(len(w.versions[d].list)) // the oldest floor: a version that is not newer is never chosen
		for _, i := range w.targetsIn(e, d) {
			t := &w.targets[i]
			oldest = min(oldest, t.floor())
			runs[numbered{d, t.current}], runs[numbered{d, t.started}] = true, true
		}
		for n, v := range w.versions[d].list {
			node := numbered{d, int32(n)}
			if node.version <= oldest || runs[node] || len(v.Dependencies) == 0 || !comes(v) {
				continue
			}
			g.waiting, g.stuck[node], g.unmet[node] = append(g.waiting, node), true, len(v.Dependencies)
			for _, dependency := range v.Dependencies {
				satisfying := w.satisfying(dependency)
				g.needs[node] = append(g.needs[node], alternatives{satisfying, len(satisfying) > 0 && g.inOneExecution(d, satisfying[0].deployment)})
				own := wants[dependency]
				if own == nil {
					own = &want{}
					wants[dependency] = own
					for _, v := range satisfying {
						g.wanted[v] = append(g.wanted[v], own)
					}
				}
				own.of = append(own.of, node)
			}
		}
	}
	return g
}

// start notes that some versions start, and then all that can start because of them.
func (g *versionGraph) start(next []numbered) {
	for len(next) > 0 {
		last := len(next) - 1
		v := next[last]
		next = next[:last]
		delete(g.stuck, v)
		for _, own := range g.wanted[v] {
			for _, node := range own.of {
				if g.unmet[node]--; g.unmet[node] == 0 {
					next = append(next, node)
				}
			}
			own.of = nil
		}
	}
}

// startTogether returns the versions that can start together once all that are not stuck have
// started. Of the stuck versions, one drops out if one of its dependencies is met by no version that
// has started and, in one execution, by none that is left.
func (g *versionGraph) startTogether() []numbered {
	coming := maps.Clone(g.stuck)
	for n := -1; n != len(coming); {
		n = len(coming)
		for node := range g.stuck {
			for _, need := range g.needs[node] {
				if !slices.ContainsFunc(need.versions, func(v numbered) bool { return !g.stuck[v] || need.beside && coming[v] }) {
					delete(coming, node)
				}
			}
		}
	}
	return slices.Collect(maps.Keys(coming))
}

// inOneExecution reports whether two deployments are members of one bracket on some resource of the
// environment. An execution of both brings the versions of both, and a dependency looks at what
// runs after the execution, see obstacles.
func (g *versionGraph) inOneExecution(a, b int32) bool {
	if a == b {
		return false // a version that its own deployment needs must run before
	}
	key := [2]int32{a, b}
	if known, asked := g.beside[key]; asked {
		return known
	}
	g.beside[key] = slices.ContainsFunc(g.set.brackets, func(rule *compiledRule) bool {
		if ask(rule.members, &bound{deployment: &g.deployments[a]}) != yes || ask(rule.members, &bound{deployment: &g.deployments[b]}) != yes {
			return false
		}
		governs := func(i int32) bool { return g.viewOf(i).has(rule) }
		return slices.ContainsFunc(g.targetsIn(g.environment, a), func(i int32) bool {
			from, to := g.siblings(i)
			k := g.among(from, to, b)
			return k != none && governs(i) && governs(k)
		})
	})
	return g.beside[key]
}

// circles walks the stuck versions depth first and reports each circle it runs into; every version
// is in at most one report. A circle of versions that no target of the environment could get keeps
// nobody waiting: one of them that is for a target waits in vain, whatever the scopes of the others.
func (g *versionGraph) circles() []*CycleError {
	var found []*CycleError
	const open, done = 1, 2
	state := map[numbered]int{}
	var path []numbered
	var visit func(node numbered) bool
	visit = func(node numbered) bool {
		state[node] = open
		path = append(path, node)
		defer func() {
			state[node] = done
			path = path[:len(path)-1]
		}()
		for _, need := range g.needs[node] {
			for _, next := range need.versions {
				switch {
				case !g.stuck[next] || state[next] == done:
				case state[next] == open:
					circle := path[slices.Index(path, next):]
					if !slices.ContainsFunc(circle, g.anyGets) {
						continue
					}
					found = append(found, g.cycleOf(circle))
					return true
				case visit(next):
					return true
				}
			}
		}
		return false
	}
	for _, node := range g.waiting {
		if state[node] == 0 {
			visit(node)
		}
	}
	return found
}

// cycleOf returns a circle as an error. It begins with the same version whichever way led into the
// circle, so that it is known again in another environment.
func (g *versionGraph) cycleOf(circle []numbered) *CycleError {
	first := slices.Index(circle, slices.MinFunc(circle, func(a, b numbered) int {
		return cmp.Or(cmp.Compare(a.deployment, b.deployment), cmp.Compare(a.version, b.version))
	}))
	cycle := &CycleError{}
	for _, member := range slices.Concat(circle[first:], circle[:first]) {
		cycle.Path = append(cycle.Path, g.versions[member.deployment].list[member.version].named())
	}
	return cycle
}

// anyGets reports whether any target of the environment could get a version: it is for the target,
// and newer than what the target has.
func (g *versionGraph) anyGets(v numbered) bool {
	return slices.ContainsFunc(g.targetsIn(g.environment, v.deployment), func(i int32) bool {
		return v.version > g.targets[i].floor() && g.inScope(i, v.version)
	})
}
