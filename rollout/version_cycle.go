package rollout

import (
	"cmp"
	"maps"
	"slices"
)

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
	unmet := map[released]int{} // how many of its dependencies no version satisfies that has started
	wants := map[VersionDependency]*want{}
	wanted := map[released][]*want{} // which of these a version satisfies
	stuck := map[released]bool{}
	for d := range w.versions {
		for n, v := range w.versions[d].list {
			node := released{int32(d), int32(n)}
			if int32(n) <= oldest[d] || runs[node] || len(v.Dependencies) == 0 || !comes(v) {
				continue
			}
			waiting, stuck[node], unmet[node] = append(waiting, node), true, len(v.Dependencies)
			for _, dependency := range v.Dependencies {
				satisfying := w.satisfying(dependency)
				options[node] = append(options[node], satisfying)
				beside[node] = append(beside[node], len(satisfying) > 0 && w.inOneExecution(e, int32(d), satisfying[0].deployment, together))
				own := wants[dependency]
				if own == nil {
					own = &want{}
					wants[dependency] = own
					for _, v := range satisfying {
						wanted[v] = append(wanted[v], own)
					}
				}
				own.of = append(own.of, node)
			}
		}
	}
	var next []released // versions that can start
	started := func(v released) {
		delete(stuck, v)
		for _, own := range wanted[v] {
			for _, node := range own.of {
				if unmet[node]--; unmet[node] == 0 {
					next = append(next, node)
				}
			}
			own.of = nil
		}
	}
	for v := range wanted {
		if !stuck[v] {
			started(v)
		}
	}
	for {
		for len(next) > 0 {
			last := len(next) - 1
			v := next[last]
			next = next[:last]
			started(v)
		}
		// Find the versions that can start together once all that are not stuck have started. Of
		// the stuck versions, one drops out if one of its dependencies is met by no version that
		// has started and, in one execution, by none that is left.
		coming := maps.Clone(stuck)
		for n := -1; n != len(coming); {
			n = len(coming)
			for node := range stuck {
				for k, option := range options[node] {
					if !slices.ContainsFunc(option, func(v released) bool { return !stuck[v] || beside[node][k] && coming[v] }) {
						delete(coming, node)
					}
				}
			}
		}
		if len(coming) == 0 {
			return w.circles(e, waiting, stuck, options)
		}
		next = slices.Collect(maps.Keys(coming))
	}
}

// want is a dependency that no version satisfies yet that has started.
type want struct {
	of []released // versions that have it, as often as they do; nil: it is satisfied
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

// circles walks the stuck versions depth first and reports each circle it runs into; every version
// is in at most one report. A circle of versions that no target of the environment could get keeps
// nobody waiting: one of them that is for a target waits in vain, whatever the scopes of the others.
func (w *work) circles(e int32, waiting []released, stuck map[released]bool, options map[released][][]released) []*CycleError {
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
					ring := path[slices.Index(path, next):]
					if !slices.ContainsFunc(ring, func(v released) bool { return w.anyGets(e, v) }) {
						continue
					}
					first := slices.Index(ring, slices.MinFunc(ring, func(a, b released) int { // whichever way led into the circle, so that it is known again in another environment
						return cmp.Or(cmp.Compare(a.deployment, b.deployment), cmp.Compare(a.version, b.version))
					}))
					cycle := &CycleError{}
					for _, member := range slices.Concat(ring[first:], ring[:first]) {
						cycle.Path = append(cycle.Path, w.versions[member.deployment].list[member.version].named())
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

// anyGets reports whether any target of an environment could get a version: it is for the target,
// and newer than what the target has.
func (w *work) anyGets(e int32, v released) bool {
	return slices.ContainsFunc(w.targetsIn(e, v.deployment), func(i int32) bool {
		return v.version > w.targets[i].floor() && w.inScope(i, v.version)
	})
}
