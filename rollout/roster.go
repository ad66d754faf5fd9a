package rollout

import (
	"slices"
)

// roster is who is ranked together. The targets of one resource are one element, unless the rule
// ranks by target.
type roster struct {
	heads  []int32 // the first target of each element, in order of their ids
	places []place // of the elements; nil: no target has a priority or joined later
	dated  bool    // a target joined later: the positions depend on the start

	ranked map[orderHash]positions // those that depend on nothing but the hash; nil if no other rollout will ask for them
}

// roster makes a roster of a population of targets, given in order of their ids.
func (w *work) roster(population []int32, byTarget bool) *roster {
	r := &roster{heads: population}
	if !byTarget {
		r.heads = w.heads(population)
	}
	if slices.ContainsFunc(population, func(i int32) bool { return w.targets[i].placed }) {
		r.places = w.places(population, r.heads, byTarget)
		r.dated = slices.ContainsFunc(r.places, func(p place) bool { return !p.joined.IsZero() })
	}
	return r
}

type rosterKey struct {
	rule        *compiledRule
	environment int32
}

// rosterOf returns whom the rollout of a version ranks. If the rule does not rank by target, that
// is the same for all versions of all deployments in an environment, and so are their positions
// unless each version has an order of its own.
func (w *work) rosterOf(rule *compiledRule, pair, version int32) *roster {
	if rule.gradual.OrderKey == OrderByTarget {
		return w.roster(w.population(rule, pair, version), true)
	}
	e, _ := w.splitPair(pair)
	key := rosterKey{rule, e}
	r, known := w.rosters[key]
	if !known {
		r = w.roster(w.population(rule, pair, none), false)
		r.ranked = map[orderHash]positions{}
		put(&w.rosters, key, r)
	}
	return r
}

// population returns the targets that a gradual rule ranks together. If it ranks by target, these
// are the targets of the pair that it governs and that are in the version's scope; else all that it
// governs in the pair's environment.
func (w *work) population(rule *compiledRule, pair, version int32) []int32 {
	if rule.gradual.OrderKey == OrderByTarget {
		return w.within(w.governed(rule, w.pairs[pair].targets), version)
	}
	e, _ := w.splitPair(pair)
	from, to := w.firstIn(e), w.firstIn(e+1)
	if few, are := w.governedIfFew(rule, int(to-from)); are {
		return slices.DeleteFunc(few, func(i int32) bool { return i < from || i >= to })
	}
	governs := w.governs(rule)
	var own []int32
	for i := from; i < to; i++ {
		if governs(i) {
			own = append(own, i)
		}
	}
	return own
}

// within leaves out the targets for which a version does not exist.
func (w *work) within(targets []int32, version int32) []int32 {
	if version < 0 || !w.scoped[w.targets[targets[0]].deployment] {
		return targets
	}
	s := w.scopeOf(w.targets[targets[0]].deployment, version)
	if s.everyone {
		return targets
	}
	own := make([]int32, 0, len(targets))
	for _, i := range targets {
		if w.has(s, i) {
			own = append(own, i)
		}
	}
	return own
}

// governed returns those targets of a pair that a rule governs; targets are all of the pair.
func (w *work) governed(rule *compiledRule, targets []int32) []int32 {
	if few, are := w.governedIfFew(rule, len(targets)); are {
		pair := w.pairOf(&w.targets[targets[0]])
		return slices.DeleteFunc(few, func(i int32) bool { return w.pairOf(&w.targets[i]) != pair })
	}
	governs := w.governs(rule)
	if !slices.ContainsFunc(targets, func(i int32) bool { return !governs(i) }) {
		return targets
	}
	return slices.DeleteFunc(slices.Clone(targets), func(i int32) bool { return !governs(i) })
}

// governs returns a function that reports whether a rule governs a target. Targets beside one
// another mostly have the same view.
func (w *work) governs(rule *compiledRule) func(i int32) bool {
	last, has := int32(none), false
	return func(i int32) bool {
		if view := w.view[i]; view != last {
			last, has = view, w.views.list[view].has(rule)
		}
		return has
	}
}

// gradualOf lists the gradual rules that govern any of some targets, in the order in which they are
// met.
func (w *work) gradualOf(targets []int32) (rules []*compiledRule) {
	met := make([]bool, len(w.views.list))
	listed := map[*compiledRule]bool{}
	for _, i := range targets {
		if met[w.view[i]] {
			continue
		}
		met[w.view[i]] = true
		for _, rule := range w.viewOf(i).gradual {
			if !listed[rule] {
				listed[rule] = true
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// heads lists the first target of each resource.
func (w *work) heads(population []int32) []int32 {
	heads := make([]int32, 0, min(len(population), len(w.resources)))
	last := int32(none)
	for _, i := range population {
		if resource := w.targets[i].resource; resource != last {
			heads, last = append(heads, i), resource
		}
	}
	return heads
}

// places lists the place of each element: of a target, or of a resource and all its targets in the
// population.
func (w *work) places(population, heads []int32, byTarget bool) []place {
	places := make([]place, 0, len(heads))
	for _, i := range population {
		t := &w.targets[i]
		own := place{t.Priority, t.JoinedAt}
		if n := len(places); !byTarget && n > 0 && w.targets[heads[n-1]].resource == t.resource {
			places[n-1] = places[n-1].merge(own)
			continue
		}
		places = append(places, own)
	}
	return places
}
