package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// GradualRollout spreads the starts of a version over time: each target has a position, and a curve
// says how long after the start of the rollout that position is due.
//
// A curve, waves included, advances with time alone: jobs that failed earlier in it hold no target
// back. Only a [FailureBudget] does, once too many have failed. To stop a rollout by hand, set the
// version to paused; to stop its curve as well, close a window, or freeze it with PauseCurves of
// [Freeze]. To let success decide what is next, use an EnvironmentProgression between environments,
// package staged for stages with gates between them, or a [CustomRule].
type GradualRollout struct {
	RolloutType RolloutType `json:"rolloutType"` // required

	// TimeScaleInterval is the unit of the curve in seconds, at least 0; required. 0 makes every
	// target due at once.
	TimeScaleInterval *int64 `json:"timeScaleInterval" unit:"seconds"`

	// PositionGrowthFactor is the number of positions after which 1/e of the interval is left; at
	// least 1. Required for exponential, and left out otherwise.
	PositionGrowthFactor int64 `json:"positionGrowthFactor,omitempty"`

	// Waves are the sizes of the waves, counts or percents of the targets at the start, each at
	// least 1; the last size repeats. Required for waves, and left out otherwise.
	Waves []concurrency.Limit `json:"waves,omitempty"`

	OrderKey  OrderKey  `json:"orderKey,omitempty"`  // unset: resource_bracket in a policy with a bracket, else target
	OrderSalt OrderSalt `json:"orderSalt,omitempty"` // unset: version for target, else none
	OrderHash OrderHash `json:"orderHash,omitempty"` // unset: v1
}

// Validate reports every fault, joined, each a *[FieldError].
func (g GradualRollout) Validate() error {
	var f faults
	f.required("rolloutType", string(g.RolloutType), strictjson.Choice(Linear, LinearNormalized, Exponential, Waves))
	oneOf(&f, "rolloutType", g.RolloutType, Linear, LinearNormalized, Exponential, Waves)
	if i := g.TimeScaleInterval; i == nil {
		f.add("timeScaleInterval", CodeRequired, nil, "is required: the unit of the curve in seconds")
	} else {
		f.within("timeScaleInterval", *i, 0, maxSeconds, "seconds")
	}
	known := g.RolloutType.known() // otherwise it is unknown which fields belong to it
	switch growth := g.PositionGrowthFactor; {
	case g.RolloutType == Exponential && growth == 0:
		f.add("positionGrowthFactor", CodeRequired, nil, "is required with rolloutType %s: at least 1", Exponential).reading("rolloutType")
	case g.RolloutType == Exponential && growth < 1:
		f.add("positionGrowthFactor", CodeOutOfRange, growth, "must be at least 1").reading("rolloutType")
	case known && g.RolloutType != Exponential && growth != 0:
		f.add("positionGrowthFactor", CodeConflict, growth, "must be left out unless rolloutType is %s", Exponential).reading("rolloutType")
	}
	switch {
	case g.RolloutType == Waves && len(g.Waves) == 0:
		f.add("waves", CodeRequired, nil, "is required with rolloutType %s: at least one size", Waves).reading("rolloutType")
	case known && g.RolloutType != Waves && len(g.Waves) != 0:
		f.add("waves", CodeConflict, nil, "must be left out unless rolloutType is %s", Waves).reading("rolloutType")
	}
	for i, size := range g.Waves {
		if at := fmt.Sprintf("waves[%d]", i); size.IsZero() {
			f.add(at, CodeRequired, nil, "%s", hintWave)
		} else if size.Value() < 1 {
			f.add(at, CodeOutOfRange, size, "%s", hintWave)
		}
	}
	oneOf(&f, "orderKey", g.OrderKey, OrderByTarget, OrderByResource, OrderByBracket)
	oneOf(&f, "orderSalt", g.OrderSalt, SaltNone, SaltByVersion, SaltByGroup)
	oneOf(&f, "orderHash", g.OrderHash, HashV1, HashLegacy)
	return f.err()
}

const hintWave = `must be a count of at least 1, without quotes, or a percentage from "1%" to "1000%"`

// RolloutType names a curve of [GradualRollout].
type RolloutType string

const (
	Linear           RolloutType = "linear"            // one position per interval
	LinearNormalized RolloutType = "linear-normalized" // all positions within one interval, evenly
	Exponential      RolloutType = "exponential"       // all positions within one interval, ever closer together
	Waves            RolloutType = "waves"             // one wave per interval
)

func (t RolloutType) known() bool {
	return t == Linear || t == LinearNormalized || t == Exponential || t == Waves
}

// OrderKey says what is ranked, and so which targets share a turn.
type OrderKey string

const (
	OrderByTarget   OrderKey = "target"           // every release target of a (deployment, environment) on its own; the default without a bracket
	OrderByResource OrderKey = "resource"         // the resources that the rule governs in an environment
	OrderByBracket  OrderKey = "resource_bracket" // the resources of all members of the policy's bracket; the default with one
)

// OrderSalt says what shuffles the order.
type OrderSalt string

const (
	SaltNone      OrderSalt = "none"    // the same order every time: stable canaries. The default of resource and resource_bracket
	SaltByVersion OrderSalt = "version" // another order for every version; the default of target
	SaltByGroup   OrderSalt = "group"   // another order for every bracket group
)

// OrderHash names the hash that makes the order.
type OrderHash string

const (
	HashV1     OrderHash = "v1"     // the default; frozen by golden vectors
	HashLegacy OrderHash = "legacy" // FNV-1a 64 of the concatenated ids, for migrations; close version ids give the same order
)

// validateOrder checks the order against the presence of a bracket in the policy: the members of a
// bracket must share one turn on a resource.
func (g *GradualRollout) validateOrder(path string, bracketed bool, kinds string, f *faults) {
	switch key := join(path, "orderKey"); {
	case bracketed && g.OrderKey == OrderByTarget:
		f.add(key, CodeConflict, OrderByTarget, "gives the members of a bracket different turns on one resource: use %q or %q", OrderByBracket, OrderByResource)
	case !bracketed && g.OrderKey == OrderByBracket:
		f.add(key, CodeConflict, OrderByBracket, "needs a %s rule in the same policy: add one, or use %q", KindBracket, OrderByTarget).reading(kinds)
	}
	switch salt := join(path, "orderSalt"); {
	case bracketed && g.OrderSalt == SaltByVersion:
		f.add(salt, CodeConflict, SaltByVersion, "gives the members of a bracket different turns on one resource: use %q or %q", SaltNone, SaltByGroup)
	case !bracketed && g.OrderSalt == SaltByGroup:
		f.add(salt, CodeConflict, SaltByGroup, "needs a %s rule in the same policy: use %q or %q", KindBracket, SaltNone, SaltByVersion).reading(kinds)
	}
}

// withDefaults returns a copy of g with the defaults that depend on the rest of the rule or of the
// policy. The copy shares the waves of g.
func (g *GradualRollout) withDefaults(bracketed bool) *GradualRollout {
	full := *g
	if full.OrderKey == "" {
		full.OrderKey = OrderByTarget
		if bracketed {
			full.OrderKey = OrderByBracket
		}
	}
	if full.OrderSalt == "" && full.OrderKey == OrderByTarget {
		full.OrderSalt = SaltByVersion
	}
	return &full
}

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
	rule       *compiledRule
	record     RolloutRecord
	positions  positions // of its elements; see work.positionIn
	curve      curve
	room       time.Duration         // from its start to the last instant that there is
	timetables map[*hours]*timetable // per calendar
	order      int32                 // of its turns under windows or with pauses, as in ahead; 0: there was none so far
	later      int32                 // of its turns without either, as in ahead; 0: there was none so far
	dated      bool                  // a target joined later: the positions depend on the start
	beside     bool                  // it is of few targets, beside that of the others
	pause      *pause                // time that does not count; nil: there is none

	// Where there are no windows and no pauses, turns come in the order of the positions. So it is
	// known of most targets that they wait before it is worked out until when. With a pause they are
	// 0.
	reached int32 // positions below it are due by now
	fits    int32 // positions below it are due at some instant, those from it on overflow
	soonest int32 // the lowest position that is known to wait
}

// startAt sets when the rollout starts.
func (r *rollout) startAt(at, now time.Time) {
	r.record.StartAt, r.room, r.timetables = at, lastInstant().Sub(at), nil
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
	key := rolloutKey{rule: rule.id, environment: t.Environment, deployment: t.Deployment, version: g.created.ID}
	begin := func(base time.Time, store bool) *rollout {
		return w.begin(rule, key, rule.hash(key.version, ""), base, w.rosterOf(rule, w.pairOf(t), g.version), w.pauseIn(t.Environment, t.Deployment), store)
	}
	switch begun := w.begun[key]; {
	case g.whole != nil:
		g.rollouts[k] = g.whole.begunAside(k, g.base.UTC(), w.now, begin)
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
	put(&w.bases, key, first)
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
		put(&g.aside, aside{k, base}, r)
		put(&g.aside, aside{rule: k}, r)
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

// begin ranks a roster. A rollout that started before keeps its record; otherwise it gets one,
// which is stored from base on if store is set.
func (w *work) begin(rule *compiledRule, key rolloutKey, hash orderHash, base time.Time, roster *roster, pause *pause, store bool) *rollout {
	record, kept := w.rollouts[key]
	if !kept || !store { // a rollout that is not stored is one beside that of the others
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
		own = w.rank(rule, hash, roster, record.StartAt)
		if roster.ranked != nil && !roster.dated {
			roster.ranked[hash] = own
		}
	}
	r := &rollout{rule: rule, record: record, positions: own, curve: rule.gradual.curve(record.Founders), dated: roster.dated, beside: !store, pause: pause}
	r.startAt(record.StartAt, w.now)
	return r
}
