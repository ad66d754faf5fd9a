package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Explanation is the whole answer to "why does this target get what it gets": every version it
// could have, newest first, and what every rule says about each. It is plain data for JSON, and
// String draws it for people.
type Explanation struct {
	TargetID
	Now      time.Time `json:"now"`
	Current  string    `json:"current,omitempty"`  // id of the version that runs
	Started  string    `json:"started,omitempty"`  // id of the newest version that was begun and is newer than Current
	Jobs     []Job     `json:"jobs,omitempty"`     // those that have not ended, newest first: what is in progress, since when, and as which run
	Stuck    []Stuck   `json:"stuck,omitempty"`    // those of [Plan.Stuck] that are runs of the target, or the slot of the target, of its open execution or of the execution that a job in Jobs is a run of
	Policies []string  `json:"policies,omitempty"` // ids of those that govern the target, in ascending order
	Bracket  string    `json:"bracket,omitempty"`  // id of the bracket rule of which the target is a member
	Group    string    `json:"group,omitempty"`    // group of the open execution of which it is a member; a [bracket.Command] names it, the resource and the deployment

	// Collecting is the group that its bracket is collecting, in the environment of the target; the
	// command [bracket.Close] names it.
	Collecting string `json:"collecting,omitempty"`

	Held     []Verdict            `json:"held,omitempty"`     // what holds the target whatever the version
	Versions []VersionExplanation `json:"versions,omitempty"` // newest first, down to the one that the target keeps, and any older one that it goes back to
	Queue    []QueuePlace         `json:"queue,omitempty"`    // where its start stands among those that wait for the pools that refuse it, by key; empty if other rules block it
	Pools    []Pool               `json:"pools,omitempty"`    // those that its blockers name, by key, with the holders of starts in the plan; their lists are shared, do not modify
}

// Prospect is what becomes of a version on a target.
type Prospect string

const (
	ProspectStarts     Prospect = "starts"       // the plan holds a start of it
	ProspectWaits      Prospect = "waits"        // at least one rule blocks it
	ProspectSuperseded Prospect = "superseded"   // nothing blocks it, but a newer one starts, or will as soon as it has its slots
	ProspectOutOfScope Prospect = "out_of_scope" // its targetSelector, or [WithMaxScope], leaves the target out
	ProspectFuture     Prospect = "future"       // it is created after now
	ProspectKept       Prospect = "kept"         // the target runs it, or has begun it, and needs no further job
)

// VersionExplanation is what every rule says about one version on the target.
type VersionExplanation struct {
	Version  string        `json:"version"` // empty for a hook of a bracket whose deployment has no version
	Tag      string        `json:"tag,omitempty"`
	Prospect Prospect      `json:"prospect"`
	Scoped   bool          `json:"scoped,omitempty"` // it has a targetSelector
	Fault    string        `json:"fault,omitempty"`  // why its targetSelector has no answer for the target, which is why it is out of scope
	Listed   bool          `json:"listed,omitempty"` // the plan lists its blockers: it is the newest that waits, or in a bracket the one of the group
	Rules    []RuleVerdict `json:"rules,omitempty"`  // in the order of the chain; empty if no rule was asked
}

// RuleVerdict is what one rule says, for or against the version.
type RuleVerdict struct {
	Kind RuleKind `json:"kind"` // that of the rule; or policy, version, versionDependencies, target, freeze or custom for what is no rule of a policy
	Verdict
	Since time.Time `json:"since,omitzero"` // when an approval, a progression or an override was satisfied
}

// ErrUnknownTarget is returned for a release target that the snapshot of a plan does not hold.
var ErrUnknownTarget = errors.New("rollout: the snapshot does not hold this release target")

// Explain returns what every rule says about every version that the target could have. It agrees
// with the plan: a version that starts or waits there does so here, for the same reasons. The cost
// depends on the versions and rules of the one target, not on the fleet; only the first explanation
// that names a pool collects its holders, and the first of all goes through the queue.
//
// The plan must be the one that [PolicySet.Plan] returned, and the snapshot that it was made from
// must not have been modified. For a decoded copy the error is [ErrDecodedPlan], for a target that
// the snapshot does not hold it is [ErrUnknownTarget]. Explain must not be called concurrently on
// one plan.
func (p *Plan) Explain(id TargetID) (Explanation, error) {
	if p.work == nil {
		return Explanation{}, fmt.Errorf("%w: explain %s", ErrDecodedPlan, id)
	}
	w := p.work
	i := w.target(id)
	if i == none {
		return Explanation{}, fmt.Errorf("%w: %s", ErrUnknownTarget, id)
	}
	t := &w.targets[i]
	e := Explanation{TargetID: t.TargetID, Now: p.Now, Current: w.currentID(t), Held: slices.Clone(w.held[i])}
	if t.started >= 0 {
		e.Started = w.version(i, t.started).ID
	}
	for _, policy := range w.viewOf(i).policies {
		e.Policies = append(e.Policies, policy.id)
	}
	if t.current == missing {
		e.Held = append(e.Held, w.unknownVersion(t))
	}
	if b := w.bracketAt(i); b != nil {
		e.Bracket = b.id
		e.Versions = w.versionsOfMember(b, i)
		if c := b.state.Group.Collecting; c != nil {
			e.Collecting = c.ID
		}
	} else {
		e.Versions = w.versionsAlone(i, len(e.Held) > 0)
	}
	e.Queue, e.Pools = w.placesOf(i), w.poolsOf(e.Versions)
	jobs := t.history()
	for k := range jobs.len() {
		if job := jobs.at(k); !job.Status.Terminal() {
			e.Jobs = append(e.Jobs, job.inUTC())
		}
	}
	x := w.executionOf(t)
	if x != nil {
		e.Group = x.Group
	}
	e.Stuck = w.stuckOn(t, e.Jobs, x)
	return e, nil
}

// versionsAlone explains the versions of a target outside brackets, the newest first.
func (w *work) versionsAlone(i int32, held bool) (list []VersionExplanation) {
	t := &w.targets[i]
	floor, chosen := t.floor(), false
	back := int32(none) // what a rollback has taken the target back to
	if s := w.wayBackOf(i, floor); s != nil {
		back = s.keeps(t, floor)
	}
	for n := int32(len(w.versions[t.deployment].list)) - 1; n >= 0; n-- {
		own, starts := w.explained(i, n)
		switch {
		case n < floor && n == back:
			own.Rules, own.Prospect = w.repeatRules(i, n, starts)
		case n < floor && !starts && len(w.waitingFor(i, own.Version)) == 0:
			continue
		case n < floor:
			own.Rules, own.Prospect = w.backRules(i, floor, own.Version, starts)
		case n == floor:
			own.Rules, own.Prospect = w.floorRules(i, n, starts)
			own.supersede(chosen)
		case w.absent(&own, i, n):
		default:
			own.Rules, own.Prospect = w.chain(i, n), prospect(starts)
			own.supersede(chosen)
			if !own.blocked() { // the first that every rule allows is the one that asks for a slot
				own.Rules = append(own.Rules, w.slotRules(i, own.Version)...)
				chosen = !held
			}
		}
		list = append(list, own)
	}
	return list
}

// versionsOfMember explains the versions of a member of a bracket, the newest first, and then runs
// without a version in the snapshot.
func (w *work) versionsOfMember(b *bracketWork, i int32) (list []VersionExplanation) {
	t := &w.targets[i]
	floor := t.floor()
	for n := int32(len(w.versions[t.deployment].list)) - 1; n >= 0; n-- {
		own, starts := w.explained(i, n)
		locked := starts || own.Listed // a group that is locked runs its versions, whatever is said of them by now
		if n < floor && !locked {
			continue
		}
		if n == t.current || t.running(own.Version) || locked || !w.absent(&own, i, n) {
			own.Rules, own.Prospect = w.memberRules(b, i, n, starts)
		}
		if own.Prospect == ProspectWaits && !own.blocked() {
			own.Prospect = ProspectKept
		}
		list = append(list, own)
	}
	return append(list, w.unversioned(b, i)...)
}

// explained returns what is known about version n of a target before any rule is asked, and whether
// the plan starts it.
func (w *work) explained(i, n int32) (_ VersionExplanation, starts bool) {
	v, wait := w.version(i, n), w.waits[i]
	starts = wait.start > 0 && w.plan.Start[wait.start-1].Version == v.ID
	return VersionExplanation{Version: v.ID, Tag: v.Tag, Scoped: v.TargetSelector != "", Listed: wait.blockers != 0 && wait.version == n}, starts
}

// absent reports whether version n does not exist for a target, because it is of the future or out
// of scope there, and if so says why in own.
func (w *work) absent(own *VersionExplanation, i, n int32) bool {
	switch created := w.version(i, n).CreatedAt; {
	case created.After(w.now):
		own.Prospect = ProspectFuture
		own.Rules = []RuleVerdict{{Kind: kindStatus, Verdict: Verdict{Status: Denied, Reason: ReasonVersionNotDeployable, Until: created.UTC()}}}
	case !w.inScope(i, n):
		own.Prospect, own.Fault = ProspectOutOfScope, w.scopeFault(i, n)
	default:
		return false
	}
	return true
}

// unversioned explains a run of a bracket whose version the snapshot does not hold: a hook without
// a version, or a version that has vanished.
func (w *work) unversioned(b *bracketWork, i int32) []VersionExplanation {
	var list []VersionExplanation
	wait := w.waits[i]
	if k := wait.start; k > 0 && w.number(i, w.plan.Start[k-1].Version) < 0 {
		own := VersionExplanation{Version: w.plan.Start[k-1].Version, Prospect: ProspectStarts}
		own.Rules = w.startRules(b, i, own.Version)
		list = append(list, own)
	}
	if wait.blockers != 0 && wait.version < 0 {
		list = append(list, VersionExplanation{
			Version: w.waitingVersion(i), Prospect: ProspectWaits, Listed: true, Rules: w.answers(w.blockersOf(i, wait.blockers)),
		})
	}
	return list
}

// supersede notes that a newer version was chosen, if nothing else keeps this one from starting.
func (v *VersionExplanation) supersede(chosen bool) {
	if chosen && v.Prospect == ProspectWaits && !v.blocked() {
		v.Prospect = ProspectSuperseded
	}
}

func (v *VersionExplanation) blocked() bool {
	return slices.ContainsFunc(v.Rules, func(r RuleVerdict) bool { return r.Status != Allowed })
}

// prospect is what becomes of a version for which the target has a use.
func prospect(starts bool) Prospect {
	if starts {
		return ProspectStarts
	}
	return ProspectWaits
}

// bracketAt returns the bracket of which a target is a member, or nil.
func (w *work) bracketAt(i int32) *bracketWork {
	if !w.members[i] {
		return nil
	}
	for _, b := range w.stepped {
		if b.environment != w.targets[i].environment { // most of them
			continue
		}
		if _, member := slices.BinarySearch(b.targets, i); member {
			return b
		}
	}
	return nil
}

// Waits returns the waiting version whose blockers the plan lists. If the plan lists none, Waits
// returns the newest version that waits, or nil.
func (e *Explanation) Waits() *VersionExplanation {
	for k := range e.Versions {
		if e.Versions[k].Listed {
			return &e.Versions[k]
		}
	}
	for k := range e.Versions {
		if e.Versions[k].Prospect == ProspectWaits {
			return &e.Versions[k]
		}
	}
	return nil
}

// Blockers returns the rules that block the version, in the order of the chain: without them it
// starts, capacity aside. The allowing windows of a policy count as one. Some may disappear
// together with another one: [ReasonRolloutNotStarted] with the gate that it waits for, and
// [ReasonRolloutNotDue] with a closed window, or a [Freeze], that has stopped its curve. For a
// version that a [Rollback] denies no other rule is asked: without the denial a window or its
// attempts may hold it.
func (v *VersionExplanation) Blockers() []RuleVerdict {
	var blockers []RuleVerdict
	for _, r := range v.Rules {
		if r.Status != Allowed {
			blockers = append(blockers, r)
		}
	}
	return blockers
}

// Until returns the instant by which time alone has opened every blocker once; zero if a blocker
// needs more than time, or if there is none. It does not foresee what closes before that instant: a
// window, a rule whose [Override] expires, or an [EnvironmentProgression] whose success is too old
// by then; nor who takes the places that a rate has then, an Override or a [Freeze] that becomes
// active before it, what the rules say of a version whose creation is still in the future, the turn
// in a curve that only starts then, or what a bracket says next: after a group has closed its turn
// has to come, and in its turn one member waits for another, unless the next group closes before
// and takes its place. A plan at that instant tells; [Plan.Next] misses none of these.
func (v *VersionExplanation) Until() time.Time {
	var until time.Time
	for _, r := range v.Blockers() {
		if r.Until.IsZero() {
			return time.Time{}
		}
		until = later(until, r.Until)
	}
	return until
}

// explaining holds what explanations of one plan share.
type explaining struct {
	pools   map[string]Pool    // by key, with the holders of starts in the plan
	claimed map[string][]int32 // per key of a pool: the indices of the starts in the plan that claim a place in it
}

// poolsOf returns the pools that the verdicts wait for, by key.
func (w *work) poolsOf(versions []VersionExplanation) (pools []Pool) {
	var keys []string
	for k := range versions {
		for _, r := range versions[k].Blockers() {
			for _, on := range r.On {
				keys = append(keys, on.Pool)
			}
		}
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		i, known := slices.BinarySearchFunc(w.plan.Pools, key, func(own Pool, key string) int { return strings.Compare(own.Key, key) })
		if !known {
			continue // no pool, or one that a rule of the host names
		}
		pool, told := w.explaining.pools[key]
		if !told {
			pool = w.withStarts(w.plan.Pools[i])
			put(&w.explaining.pools, key, pool)
		}
		pools = append(pools, pool)
	}
	return pools
}

// withStarts adds the holders of starts in the plan to a pool: they hold no lease yet, but they
// count.
func (w *work) withStarts(pool Pool) Pool {
	if w.claimed == nil { // there may be as many starts as targets, and as many pools as resources
		w.claimed = map[string][]int32{}
		for k := range w.plan.Start {
			for _, c := range w.plan.Start[k].Claims {
				w.claimed[c.Pool] = append(w.claimed[c.Pool], int32(k))
			}
		}
	}
	pool.Holders = slices.Clone(pool.Holders)
	for _, k := range w.claimed[pool.Key] {
		pool.Holders = append(pool.Holders, w.plan.Start[k].holder())
	}
	slices.SortFunc(pool.Holders, compareHolders)
	pool.Holders = slices.Compact(pool.Holders)
	return pool
}
