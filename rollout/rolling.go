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
	stored   []rolloutKey                 // of the new ones, in the order in which they began
	bases    map[rolloutKey]time.Time     // of versions: when rollouts without a record begin
	begun    map[rolloutKey]*rollout      // of versions: the rollout, once it was ranked
	rosters  map[rosterKey]*roster        // of rules that do not rank by target
}

func newRolling(records []RolloutRecord) rolling {
	r := rolling{rollouts: make(map[rolloutKey]RolloutRecord, len(records))}
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
	rule        *compiledRule
	record      RolloutRecord
	positions   positions // of its elements; see work.positionIn
	curve       curve
	room        time.Duration         // from its start to the last instant that there is
	timetables  map[*hours]*timetable // per calendar
	turnKind    int32                 // of its turns under windows or with pauses, as in compactTurn; 0: there was none so far
	derivedKind int32                 // of its turns without either, as in compactTurn; 0: there was none so far
	dated       bool                  // a target joined later: the positions depend on the start
	separate    bool                  // it is of few targets, for which an override opened the gate
	pause       *pause                // time that does not count; nil: there is none
	unpaused    *rollout              // the same without it, once it was asked for

	// Where there are no windows and no pauses, turns come in the order of the positions. So it is
	// known of most targets that they wait before it is worked out until when. With a pause they are
	// 0.
	reached int32 // positions below it are due by now
	fits    int32 // positions below it are due at some instant, those from it on overflow
	soonest int32 // the lowest position that is known to wait
}

// startAt sets when the rollout starts.
func (r *rollout) startAt(at, now time.Time) {
	r.record.StartAt, r.room, r.timetables, r.unpaused = at, lastInstant().Sub(at), nil, nil
	r.soonest = math.MaxInt32
	if r.pause == nil {
		r.fits = int32(r.curve.within(r.positions.count, r.room))
		r.reached = int32(r.curve.within(int(r.fits), now.Sub(at)))
	}
}

// due returns when a position may start: the start of the rollout plus the offset of the position,
// in time that counts only while the windows are open and the curve is not paused. The start may lie
// outside of them, because closed time does not count.
func (r *rollout) due(position int32, h *hours) (time.Time, error) {
	offset, err := r.curve.offset(int(position))
	if err != nil {
		return time.Time{}, err
	}
	if h != nil || r.pause != nil {
		return r.dueIn(position, h)
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
	if g.rollouts[k] != nil {
		return g.rollouts[k]
	}
	rule := w.gradualOfGate(g, k)
	key := g.rolloutKey(rule, t)
	begin := func(base time.Time, store bool) *rollout {
		return w.begin(rule, key, rule.hash(key.version, ""), base, w.rosterOf(rule, w.pairOf(t), g.number), w.pauseIn(t.Environment, t.Deployment), store)
	}
	switch begun := w.begun[key]; {
	case g.shared != nil:
		g.rollouts[k] = g.shared.separateRollout(k, g.base.UTC(), w.now, begin)
	case begun != nil:
		// By targets under other policies. There may be many such policies, and all targets are
		// ranked together, from one start.
		g.rollouts[k] = begun
	default:
		base := g.base
		if _, started := w.rollouts[key]; !started { // else the gates no longer matter, nor when they will open
			base = w.baseOf(key, rule, g, t)
		}
		g.rollouts[k] = begin(base, true)
		put(&w.begun, key, g.rollouts[k])
	}
	return g.rollouts[k]
}

// rolloutKey returns the key of the rollout of the gate's version under a gradual rule.
func (g *gate) rolloutKey(rule *compiledRule, t *target) rolloutKey {
	return rolloutKey{rule: rule.id, environment: t.Environment, deployment: t.Deployment, version: g.version.ID}
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
	var seen []bool // the other views; nil: there was none so far
	for _, i := range w.governed(rule, w.pairs[w.pairOf(t)].targets) {
		view := w.view[i]
		if view == g.view || seen != nil && seen[view] {
			continue
		}
		if seen == nil {
			seen = make([]bool, len(w.views.list))
		}
		if base := w.gateOf(i, g.number).base; base.IsZero() || !first.IsZero() && !base.Before(first) {
			seen[view] = true // not earlier, whether in scope or not
		} else if w.inScope(i, g.number) {
			first, seen[view] = base, true
		}
	}
	put(&w.bases, key, first)
	return first
}

// placeOf returns when target i is due in the rollout of the gate's version, its position there,
// and the rollout. A target for which an override opened the gate earlier than for the others has a
// rollout of its own. Once the rollout of the others has started, or can start, the earlier of the
// two turns counts: the others do not take away a turn that an override gave, and an override
// delays no target.
func (w *work) placeOf(g *gate, k int, i int32) (due time.Time, position int32, r *rollout, err error) {
	if g.shared == nil {
		return w.placeIn(g, k, i)
	}
	rule, t := w.gradualOfGate(g, k), &w.targets[i]
	key := g.rolloutKey(rule, t)
	base := w.baseOf(key, rule, g.shared, t)
	if _, started := w.rollouts[key]; !started && base.IsZero() {
		return w.placeIn(g, k, i)
	}
	due, position, r, err = w.placeIn(g.shared, k, i)
	if err == nil && !r.record.StartAt.After(g.base) {
		return due, position, r, nil // the rollout of all began no later
	}
	if own, place, separate, failed := w.placeIn(g, k, i); failed == nil && (err != nil || own.Before(due)) {
		return own, place, separate, nil
	}
	return due, position, r, err
}

// placeIn is placeOf in the rollout of one gate.
func (w *work) placeIn(g *gate, k int, i int32) (due time.Time, position int32, r *rollout, err error) {
	r = w.rolloutOf(g, k, &w.targets[i])
	position = w.positionIn(r, i)
	due, err = r.due(position, w.hoursOf(i, g.number))
	return due, position, r, err
}

// separateKey identifies a rollout of targets for which an override opened the gate: by the index
// of its gradual rule, and its start.
type separateKey struct {
	rule int
	base time.Time // zero: the rollout from which the others are copied
}

// separateRollout returns the rollout of targets for which an override opened the gate at base.
// There may be as many such rollouts as targets, each with its own base. The ranks depend on the
// base only if targets joined later; otherwise all these rollouts share them.
func (g *gate) separateRollout(k int, base, now time.Time, begin func(base time.Time, store bool) *rollout) *rollout {
	if r, known := g.separate[separateKey{k, base}]; known {
		return r
	}
	first := g.separate[separateKey{rule: k}]
	if first == nil || first.dated {
		r := begin(base, false)
		put(&g.separate, separateKey{k, base}, r)
		put(&g.separate, separateKey{rule: k}, r)
		return r
	}
	own := *first
	own.startAt(base, now)
	g.separate[separateKey{k, base}] = &own
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

// begin ranks a roster. A rollout that started before keeps its record; otherwise it gets one,
// which is stored from base on if store is set.
func (w *work) begin(rule *compiledRule, key rolloutKey, hash orderHash, base time.Time, roster *roster, pause *pause, store bool) *rollout {
	record, kept := w.rollouts[key]
	if !kept || !store { // a rollout that is not stored is a separate one
		record = RolloutRecord{
			Schema: 1, Rule: key.rule, Environment: key.environment, Deployment: key.deployment, Version: key.version, Group: key.group,
			StartAt: base.UTC(), Founders: len(roster.heads),
		}
		if store && !w.now.Before(base) {
			w.rollouts[key] = record
			w.stored = append(w.stored, key)
		}
	}
	own, known := roster.ranked[hash]
	if !known {
		own = w.positionsOf(rule, hash, roster, record.StartAt)
		if roster.ranked != nil && !roster.dated {
			roster.ranked[hash] = own
		}
	}
	r := &rollout{rule: rule, record: record, positions: own, curve: rule.gradual.curve(record.Founders), dated: roster.dated, separate: !store, pause: pause}
	r.startAt(record.StartAt, w.now)
	return r
}
