package rollout

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// pairing holds the targets by deployment and environment.
type pairing struct {
	pairs   []pair  // per (environment, deployment)
	ordinal []int32 // per target: its number among those of its pair

	ranges   []int32 // the first target of each resource in each environment, by resource; nil: not asked for yet
	rangesOf []int32 // per resource: where its ranges begin
}

// pair is a deployment in an environment.
type pair struct {
	targets []int32 // in order of their resources
	views   []pairView
	places  map[int32]int // the indices in views of the views, once there are more than a few
	asked   int           // index in views of the view that was asked for last
	group   string        // lease group of its targets outside brackets
}

// pairView is what is known about the targets of a pair that have one view.
type pairView struct {
	view     int32
	gates    []*gate // of the versions, the newest first; nil: not asked for
	blocking []blocking
}

// fewViews is the number of views up to which to look through them is fast enough.
const fewViews = 8

// in returns what is known about the targets of the pair that have a view. There may be as many views
// as targets.
func (p *pair) in(view int32) *pairView {
	if p.asked >= len(p.views) || p.views[p.asked].view != view { // neighbours mostly have the same view
		p.asked = p.place(view)
	}
	return &p.views[p.asked]
}

// place returns the index in views of a view, which it adds if it is new.
func (p *pair) place(view int32) int {
	if k, known := p.places[view]; known {
		return k
	}
	if p.places == nil {
		if k := slices.IndexFunc(p.views, func(own pairView) bool { return own.view == view }); k >= 0 {
			return k
		}
	}
	p.views = append(p.views, pairView{view: view})
	if p.places != nil {
		p.places[view] = len(p.views) - 1
	} else if len(p.views) > fewViews {
		p.places = map[int32]int{}
		for k, own := range p.views {
			p.places[own.view] = k
		}
	}
	return len(p.views) - 1
}

// gate returns the place of the gate of a version, given how many newer ones there are.
func (p *pairView) gate(newer int) **gate {
	for newer >= len(p.gates) {
		p.gates = append(p.gates, nil)
	}
	return &p.gates[newer]
}

func (w *work) pairOf(t *target) int32 { return w.pairAt(t.environment, t.deployment) }

func (w *work) pairAt(environment, deployment int32) int32 {
	return environment*int32(len(w.deployments)) + deployment
}

// splitPair returns the environment and the deployment of a pair.
func (w *work) splitPair(pair int32) (environment, deployment int32) {
	d := int32(len(w.deployments))
	return pair / d, pair % d
}

// targetsIn are the targets of a deployment in an environment.
func (w *work) targetsIn(environment, deployment int32) []int32 {
	return w.pairs[w.pairAt(environment, deployment)].targets
}

func (w *work) pair() {
	w.pairs, w.ordinal = make([]pair, len(w.environments)*len(w.deployments)), make([]int32, len(w.targets))
	list, begins := grouped(len(w.targets), len(w.pairs), func(i int32) int32 { return w.pairOf(&w.targets[i]) })
	for k := range w.pairs {
		own := list[begins[k]:begins[k+1]:begins[k+1]]
		w.pairs[k].targets = own
		for n, i := range own {
			w.ordinal[i] = int32(n)
		}
	}
}

// firstIn returns the first target of an environment or, if it has none, of those behind it. The
// targets of an environment are together.
func (w *work) firstIn(environment int32) int32 {
	return int32(sort.Search(len(w.targets), func(i int) bool { return w.targets[i].environment >= environment }))
}

// siblings returns the half-open range of targets that share the resource and the environment of
// target i. There are at most as many as deployments.
func (w *work) siblings(i int32) (from, to int32) {
	t := &w.targets[i]
	return w.siblingsNear(int(i), t.environment, t.resource)
}

// siblingsIn returns the range of targets of a resource in an environment.
func (w *work) siblingsIn(environment, resource int32) (from, to int32) {
	return w.siblingsNear(0, environment, resource)
}

// everywhere yields the ranges of targets of a resource, one for each environment that it is in, in
// their order.
func (w *work) everywhere(resource int32) iter.Seq2[int32, int32] {
	if w.ranges == nil {
		w.findRanges()
	}
	return func(yield func(from, to int32) bool) {
		for _, from := range w.ranges[w.rangesOf[resource]:w.rangesOf[resource+1]] {
			to := seek(len(w.targets), int(from), func(k int) bool { return k < int(from) || w.targets[k].together(&w.targets[from]) })
			if !yield(from, int32(to)) {
				return
			}
		}
	}
}

// findRanges finds the ranges of all resources. Most plans do not need them.
func (w *work) findRanges() {
	var firsts []int32
	for i := range w.targets {
		if i == 0 || !w.targets[i].together(&w.targets[i-1]) {
			firsts = push(firsts, int32(i))
		}
	}
	w.ranges, w.rangesOf = grouped(len(firsts), len(w.resources), func(k int32) int32 { return w.targets[firsts[k]].resource })
	for at, k := range w.ranges {
		w.ranges[at] = firsts[k]
	}
}

// together reports whether two targets share their resource and their environment.
func (t *target) together(other *target) bool {
	return t.resource == other.resource && t.environment == other.environment
}

// siblingsNear is siblingsIn with a search that begins at a target that is mostly near.
func (w *work) siblingsNear(near int, environment, resource int32) (from, to int32) {
	before := func(resource int32) func(k int) bool {
		return func(k int) bool {
			t := &w.targets[k]
			return t.environment < environment || t.environment == environment && t.resource < resource
		}
	}
	first := seek(len(w.targets), near, before(resource))
	return int32(first), int32(seek(len(w.targets), first, before(resource+1)))
}

// among returns the target of a deployment in a range of siblings, or none.
func (w *work) among(from, to, deployment int32) int32 {
	k, there := slices.BinarySearchFunc(w.targets[from:to], deployment, func(t target, d int32) int { return int(t.deployment - d) })
	if !there {
		return none
	}
	return from + int32(k)
}

// common appends those of a range of siblings whose deployments are listed, in order. The
// deployments are ascending. Either may be many more than the other.
func (w *work) common(list []int32, from, to int32, deployments []int32) []int32 {
	if int(to-from) < len(deployments) {
		for k := from; k < to; k++ {
			if _, listed := slices.BinarySearch(deployments, w.targets[k].deployment); listed {
				list = append(list, k)
			}
		}
		return list
	}
	for _, d := range deployments {
		if k := w.among(from, to, d); k != none {
			list = append(list, k)
		}
	}
	return list
}

// sibling returns the target of a deployment on the resource and in the environment of target i, or
// none.
func (w *work) sibling(i int32, deployment string) int32 {
	d, known := w.deployment(deployment)
	if !known {
		return none
	}
	from, to := w.siblings(i)
	return w.among(from, to, d)
}

// target returns the target with an id, or none.
func (w *work) target(id TargetID) int32 {
	e, known := w.environment(id.Environment)
	r, listed := w.resource(id.Resource)
	d, deployed := w.deployment(id.Deployment)
	if !known || !listed || !deployed {
		return none
	}
	k, there := slices.BinarySearchFunc(w.targets, target{environment: e, resource: r, deployment: d}, func(a, b target) int {
		return cmp.Or(int(a.environment-b.environment), int(a.resource-b.resource), int(a.deployment-b.deployment))
	})
	if !there {
		return none
	}
	return int32(k)
}
