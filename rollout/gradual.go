package rollout

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// RolloutRecord holds when a rollout started and how many elements it then counted. A rollout keeps
// it from its first plan on, so that nothing that happens later moves a target that has its place.
// Outside brackets there is one record per rule and version. In a bracket there is one per rule and
// group. If the targets of the group are ranked individually, there is one per deployment, and a
// further one for each older version that the group has locked. A record is dropped once the
// snapshot no longer holds the version, or the state no longer holds the group.
type RolloutRecord struct {
	Schema      int       `json:"schema"` // 1
	Rule        string    `json:"rule"`
	Environment string    `json:"environment"`
	Deployment  string    `json:"deployment,omitempty"` // empty where the resources of a group are ranked
	Version     string    `json:"version,omitempty"`    // of a group: empty for the newest that it has locked
	Group       string    `json:"group,omitempty"`      // empty outside brackets
	StartAt     time.Time `json:"startAt"`              // when the gates opened for the first target of those that are ranked together, or when the group was ready
	Founders    int       `json:"n0"`                   // population at the start, targets already done included
}

type rolloutKey struct{ rule, environment, deployment, version, group string }

func (r RolloutRecord) key() rolloutKey {
	return rolloutKey{r.Rule, r.Environment, r.Deployment, r.Version, r.Group}
}

func compareRollouts(a, b RolloutRecord) int {
	return cmp.Or(
		strings.Compare(a.Rule, b.Rule), strings.Compare(a.Environment, b.Environment), strings.Compare(a.Deployment, b.Deployment),
		strings.Compare(a.Version, b.Version), strings.Compare(a.Group, b.Group),
	)
}

// rolling holds the rollouts of versions and groups.
type rolling struct {
	rollouts map[rolloutKey]RolloutRecord // kept and new
	bases    map[rolloutKey]time.Time     // of versions: when rollouts without a record begin
	begun    map[rolloutKey]*rollout      // of versions: the rollout, once it was ranked
	rosters  map[rosterKey]*roster        // of rules that do not rank by target
}

func newRolling(records []RolloutRecord) rolling {
	r := rolling{rollouts: make(map[rolloutKey]RolloutRecord, len(records)), bases: map[rolloutKey]time.Time{}, begun: map[rolloutKey]*rollout{}, rosters: map[rosterKey]*roster{}}
	for _, record := range records {
		r.rollouts[record.key()] = record
	}
	return r
}

// keepRollouts lists the records that the state keeps.
func (w *work) keepRollouts() {
	groups := map[string]bool{}
	for _, record := range w.plan.State.Brackets {
		for _, group := range record.Closed {
			groups[group.ID] = true
		}
	}
	for _, record := range w.rollouts {
		if w.needed(record, groups) {
			w.plan.State.Rollouts = append(w.plan.State.Rollouts, record)
		}
	}
	slices.SortFunc(w.plan.State.Rollouts, compareRollouts)
}

// needed reports whether a rollout can still place a target: its version, or its group, exists.
func (w *work) needed(record RolloutRecord, groups map[string]bool) bool {
	if record.Group != "" {
		return groups[record.Group]
	}
	d, known := w.deployment(record.Deployment)
	return known && w.versions[d].number(record.Version) != missing
}

// rollout is one gradual rollout at work.
type rollout struct {
	rule       *compiledRule
	record     RolloutRecord
	positions  positions // of its elements; see work.positionIn
	curve      curve
	room       time.Duration         // from its start to the last instant that there is
	timetables map[*hours]*timetable // per calendar
	order      int32                 // of its turns under windows, as in ahead; 0: there was none so far
	later      int32                 // of its turns outside windows, as in ahead; 0: there was none so far
	dated      bool                  // a target joined later: the positions depend on the start

	// Where there are no windows, turns come in the order of the positions. So it is known of most
	// targets that they wait before it is worked out until when.
	reached int32 // positions below it are due by now
	fits    int32 // positions below it are due at some instant, those from it on overflow
	soonest int32 // the lowest position that is known to wait
}

// startAt sets when the rollout starts.
func (r *rollout) startAt(at, now time.Time) {
	r.record.StartAt, r.room, r.timetables = at, lastInstant().Sub(at), nil
	r.fits = int32(r.curve.within(r.positions.count, r.room))
	r.reached = int32(r.curve.within(int(r.fits), now.Sub(at)))
	r.soonest = math.MaxInt32
}

// timetable holds when positions are due in the open time of a calendar.
type timetable struct {
	dues  []time.Time // by position, up to the first that is never due; nil as long as positions are found one by one
	err   error       // why that position, and those behind it, are never due
	asked int         // how many positions were found one by one
}

// due returns when a position may start: the start of the rollout plus the offset of the position,
// in time that counts only while the windows are open. The start may lie outside of them, because
// closed time does not count.
func (r *rollout) due(position int32, h *hours) (time.Time, error) {
	offset, err := r.curve.offset(int(position))
	if err != nil {
		return time.Time{}, err
	}
	if h != nil {
		return r.open(position, h)
	}
	if offset > r.room {
		return time.Time{}, ErrOverflow
	}
	return r.record.StartAt.Add(offset), nil
}

// element numbers what a gradual rule ranks: the targets of one (deployment, environment), or the
// resources.
func (w *work) element(rule *compiledRule, i int32) int32 {
	if rule.gradual.OrderKey == OrderByTarget {
		return w.ordinal[i]
	}
	return w.targets[i].resource
}

// positionIn returns the position of target i, or of its resource, in a rollout.
func (w *work) positionIn(r *rollout, i int32) int32 { return r.positions.of(w.element(r.rule, i)) }

// gradualOfGate returns the k-th gradual rule of the view of a gate.
func (w *work) gradualOfGate(g *gate, k int) *compiledRule { return w.views.list[g.view].gradual[k] }

// rolloutOf returns the rollout of the gate's version under the k-th gradual rule of its view.
func (w *work) rolloutOf(g *gate, k int, t *target) *rollout {
	if g.rollouts[k] == nil {
		rule := w.gradualOfGate(g, k)
		version := w.versions[t.deployment].list[g.version].ID
		key := rolloutKey{rule: rule.id, environment: t.Environment, deployment: t.Deployment, version: version}
		begin := func(base time.Time, store bool) *rollout {
			return w.begin(rule, key, rule.hash(version, ""), base, w.rosterOf(rule, w.pairOf(t), g.version), store)
		}
		if g.whole == nil {
			// Targets under other policies may have begun it. There may be many such policies, and
			// all targets are ranked together, from one start.
			if g.rollouts[k] = w.begun[key]; g.rollouts[k] == nil {
				base := g.base
				if _, started := w.rollouts[key]; !started { // else the gates no longer matter, nor when they will open
					base = w.baseOf(key, rule, g, t)
				}
				g.rollouts[k] = begin(base, true)
				w.begun[key] = g.rollouts[k]
			}
		} else {
			g.rollouts[k] = g.whole.begunAside(k, g.base.UTC(), w.now, begin)
		}
	}
	return g.rollouts[k]
}

// baseOf returns when a rollout without a record begins: when the gates of its version open for the
// first of the targets that are ranked together; zero while they are shut for all. Targets under
// other policies may have other gates, and a first plan that comes late may find all of them open.
// A gate that an override opened for one resource alone does not count.
func (w *work) baseOf(key rolloutKey, rule *compiledRule, g *gate, t *target) time.Time {
	first, known := w.bases[key]
	if known {
		return first
	}
	first = g.base
	unseen := w.rulesIn(rule) // views
	unseen[g.view] = false
	for _, i := range w.pairs[w.pairOf(t)].targets {
		view := w.view[i]
		if !unseen[view] {
			continue
		}
		if base := w.gateOf(i, g.version).base; base.IsZero() || !first.IsZero() && !base.Before(first) {
			unseen[view] = false // not earlier, whether in scope or not
		} else if w.inScope(i, g.version) {
			first, unseen[view] = base, false
		}
	}
	w.bases[key] = first
	return first
}

// placeOf returns when target i is due in the rollout of the gate's version, its position there,
// and the rollout. A target for which an override opened the gate earlier than for the others has a
// rollout of its own. Once the rollout of the others has started, or can start, the earlier of the
// two turns counts: the others do not take away a turn that an override gave, and an override
// delays no target.
func (w *work) placeOf(g *gate, k int, i int32) (due time.Time, position int32, r *rollout, err error) {
	if g.whole == nil {
		return w.placeIn(g, k, i)
	}
	rule, t := w.gradualOfGate(g, k), &w.targets[i]
	key := rolloutKey{rule: rule.id, environment: t.Environment, deployment: t.Deployment, version: g.created.ID}
	base := w.baseOf(key, rule, g.whole, t)
	if _, started := w.rollouts[key]; !started && base.IsZero() {
		return w.placeIn(g, k, i)
	}
	due, position, r, err = w.placeIn(g.whole, k, i)
	if err == nil && !r.record.StartAt.After(g.base) {
		return due, position, r, nil // the rollout of all began no later
	}
	if own, place, aside, failed := w.placeIn(g, k, i); failed == nil && (err != nil || own.Before(due)) {
		return own, place, aside, nil
	}
	return due, position, r, err
}

// placeIn is placeOf in the rollout of one gate.
func (w *work) placeIn(g *gate, k int, i int32) (due time.Time, position int32, r *rollout, err error) {
	r = w.rolloutOf(g, k, &w.targets[i])
	position = w.positionIn(r, i)
	due, err = r.due(position, w.hoursOf(i, g.version))
	return due, position, r, err
}

// aside identifies a rollout of one target alone: by the index of its gradual rule, and its start.
type aside struct {
	rule int
	base time.Time // zero: the rollout from which the others are copied
}

// begunAside returns the rollout of targets for which an override opened the gate at base. There
// may be as many such rollouts as targets, each with its own base. The ranks depend on the base
// only if targets joined later; otherwise all these rollouts share them.
func (g *gate) begunAside(k int, base, now time.Time, begin func(base time.Time, store bool) *rollout) *rollout {
	if r, known := g.aside[aside{k, base}]; known {
		return r
	}
	first := g.aside[aside{rule: k}]
	if first == nil || first.dated {
		r := begin(base, false)
		if g.aside == nil {
			g.aside = map[aside]*rollout{}
		}
		g.aside[aside{k, base}], g.aside[aside{rule: k}] = r, r
		return r
	}
	own := *first
	own.startAt(base, now)
	g.aside[aside{k, base}] = &own
	return &own
}

// hash returns how a gradual rule orders one rollout of a version or of a bracket group.
func (r *compiledRule) hash(version, group string) orderHash {
	h := orderHash{key: r.gradual.OrderKey, legacy: r.gradual.OrderHash == HashLegacy, rule: r.bracketID}
	switch {
	case h.legacy || r.gradual.OrderSalt == SaltByVersion:
		h.salt = version
	case r.gradual.OrderSalt == SaltByGroup:
		h.salt = group
	}
	return h
}

// population returns the targets that a gradual rule ranks together. If it ranks by target, these
// are the targets of the pair that it governs and that are in the version's scope; else all that it
// governs in the pair's environment.
func (w *work) population(rule *compiledRule, pair, version int32) []int32 {
	if rule.gradual.OrderKey == OrderByTarget {
		return w.within(w.governed(rule, w.pairs[pair].targets), version)
	}
	var all []int32
	d := int32(len(w.deployments))
	for p := pair / d * d; p < pair/d*d+d; p++ {
		all = append(all, w.pairs[p].targets...)
	}
	slices.Sort(all) // targets of one resource are neighbours again
	return w.governed(rule, all)
}

// within leaves out the targets for which a version does not exist.
func (w *work) within(targets []int32, version int32) []int32 {
	if len(targets) == 0 || version < 0 || !w.scoped[w.targets[targets[0]].deployment] {
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

func (w *work) governed(rule *compiledRule, targets []int32) []int32 {
	has := w.rulesIn(rule)
	if !slices.ContainsFunc(targets, func(i int32) bool { return !has[w.view[i]] }) {
		return targets
	}
	return slices.DeleteFunc(slices.Clone(targets), func(i int32) bool { return !has[w.view[i]] })
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

// roster is who is ranked together. The targets of one resource are one element, unless the rule
// ranks by target.
type roster struct {
	heads  []int32 // the first target of each element, in order of their ids
	places []place // of the elements; nil: no target has a priority or joined later
	dated  bool    // a target joined later: the positions depend on the start

	ranked map[orderHash]positions // those that depend on nothing but the hash; nil if no other rollout will ask for them
}

// rosterOf returns whom the rollout of a version ranks. If the rule does not rank by target, that
// is the same for all versions of all deployments in an environment, and so are their positions
// unless each version has an order of its own.
func (w *work) rosterOf(rule *compiledRule, pair, version int32) *roster {
	if rule.gradual.OrderKey == OrderByTarget {
		return w.roster(w.population(rule, pair, version), true)
	}
	key := rosterKey{rule, pair / int32(len(w.deployments))}
	r, known := w.rosters[key]
	if !known {
		r = w.roster(w.population(rule, pair, none), false)
		r.ranked = map[orderHash]positions{}
		w.rosters[key] = r
	}
	return r
}

type rosterKey struct {
	rule        *compiledRule
	environment int32
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

// begin ranks a roster. A rollout that started before keeps its record; otherwise it gets one,
// which is stored from base on if store is set.
func (w *work) begin(rule *compiledRule, key rolloutKey, hash orderHash, base time.Time, roster *roster, store bool) *rollout {
	record, kept := w.rollouts[key]
	if !kept || !store { // a rollout that is not stored is one beside that of the others
		record = RolloutRecord{
			Schema: 1, Rule: key.rule, Environment: key.environment, Deployment: key.deployment, Version: key.version, Group: key.group,
			StartAt: base.UTC(), Founders: len(roster.heads),
		}
		if store && !w.now.Before(base) {
			w.rollouts[key] = record
		}
	}
	own, known := roster.ranked[hash]
	if !known {
		own = w.rank(rule, hash, roster, record.StartAt)
		if roster.ranked != nil && !roster.dated {
			roster.ranked[hash] = own
		}
	}
	r := &rollout{rule: rule, record: record, positions: own, curve: rule.gradual.curve(record.Founders), dated: roster.dated}
	r.startAt(record.StartAt, w.now)
	return r
}

// positions holds a position for each element. In many environments few of the resources are
// elements, and a list of all for each of them would cost the product.
type positions struct {
	list     []int32 // by element or, if elements is not nil, by its index there
	elements []int32 // ascending
	count    int     // of the elements
}

func (p *positions) of(element int32) int32 {
	if p.elements == nil {
		return p.list[element]
	}
	k, ranked := slices.BinarySearch(p.elements, element)
	if !ranked { // nobody asks; in the list of all it would be the same
		return 0
	}
	return p.list[k]
}

// rank returns the positions of a roster in a rollout from start on.
func (w *work) rank(rule *compiledRule, hash orderHash, roster *roster, start time.Time) positions {
	heads, size := roster.heads, len(w.resources)
	var keys []uint64
	if len(heads) > 0 { // targets that are ranked by target are of one environment and deployment
		first := w.id(heads[0])
		keys = hash.of(len(heads), func(k int) string { return w.resources[w.targets[heads[k]].resource].ID }, first.Environment, first.Deployment)
	}
	ranks := rank(keys, roster.places, start)
	if hash.key == OrderByTarget {
		if size = len(w.pairs[w.pairOf(&w.targets[heads[0]])].targets); size == len(ranks) {
			return positions{list: ranks, count: len(ranks)}
		}
	}
	if len(heads) < size/8 {
		elements := make([]int32, len(heads))
		for k, i := range heads {
			elements[k] = w.element(rule, i)
		}
		return positions{ranks, elements, len(ranks)}
	}
	list := make([]int32, size)
	for k, i := range heads {
		list[w.element(rule, i)] = ranks[k]
	}
	return positions{list: list, count: len(ranks)}
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

// merge returns the place of a resource whose targets are ranked as one: the higher priority and
// the earlier arrival.
func (p place) merge(other place) place {
	if other.joined.Before(p.joined) {
		p.joined = other.joined
	}
	p.priority = max(p.priority, other.priority)
	return p
}
