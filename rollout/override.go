package rollout

import (
	"cmp"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Override lets one version past one rule for a time, such as a hotfix that must not wait for a
// window. It is active from CreatedAt until just before ExpiresAt. The rule then counts as
// satisfied since CreatedAt, or since the creation of the version if that is later, but never later
// than without the override. What was started under an override stays when it expires, except under
// one of a rollback rule, or of a failure budget that such a rule asks, see below. No override lets
// anything past a [Freeze], which is no rule, nor past a selector of a policy or a groupSelector
// that fails on the target: nobody knows what governs it. (Ctrlplane calls overrides policy skips.)
//
// Its effect depends on the rule:
//
//   - An execution of a bracket starts only when every member may run, hooks included, and each
//     member has its own version. So an override of a window, a cooldown or a gradual rollout is
//     needed for the version of every member that the rule holds: [Plan.Waiting] tells which
//     version each member, hooks too, waits with. A concurrency rule needs only one override, for
//     the version of any member.
//   - A deployment window that allows counts as open, so the other allowing windows of the policy
//     do not block either. A curve advances meanwhile, but not for good: once the override has
//     expired, its time counts as closed. So the first turns of a later one are those that were
//     taken under the first, and if it is as short, it starts nobody else: let it last for all turns
//     that are to come, or override the curve as well.
//   - A concurrency rule lets the target start although the pool is full or halted, or its rate is
//     used up, but not while another group is at work on the resource of an exclusive pool; its
//     lease still counts, and so does its beginning for later starts, even for one that the
//     same plan offered and the host left out. Once its job is seen, its resource is down, and
//     other targets on that resource may start without a further slot. With maxActiveKeys the value
//     of the resource is then active, so other resources with this value may start, up to the limit
//     of their pool. If the start was saved and never dispatched, its lease is listed in
//     [Plan.Orphans] and lets no other target in: without an active override every version, this
//     one included, waits for room in the pool.
//   - A version selector that is overridden late opens the collection window of a bracket at that
//     time, unless the selector had let other targets of the bracket have the version before: then
//     their group takes in the targets that may have it later. Outside brackets a curve counts from
//     approvals and progressions alone: the targets whose turn has come since the version was
//     created start at once, as far as the limits allow.
//   - A retry rule forgets the attempts before CreatedAt; of several overrides the last counts. In a
//     bracket the rule is asked when the end of a run is seen, so a member that already waits for
//     its next attempt, or has failed for good, needs a [bracket.Command].
//   - A rollback rule is asked again once the override has expired: a version of which the newest
//     job went wrong meanwhile, or that still has the status or is over the budget for which the
//     rule takes it back, leaves the target once more.
//   - A dependency rule that orders the members of a bracket goes on ordering them; to count a
//     member as done in one execution, use [bracket.Skip]. A dependency on something outside the
//     bracket counts as satisfied.
//   - For a bracket rule an override has no effect and is reported as a diagnostic: letting a
//     member out of its bracket would drain the resource once more. To end a collection early,
//     give the command [bracket.Close].
type Override struct {
	ID      string `json:"id"`        // required and unique
	Rule    string `json:"ruleId"`    // required
	Version string `json:"versionId"` // required

	// Deployment, Environment and Resource narrow the override. Empty: every deployment that has a
	// version with this id, every environment, every resource.
	Deployment  string `json:"deploymentId,omitempty"`
	Environment string `json:"environmentId,omitempty"`
	Resource    string `json:"resourceId,omitempty"`

	CreatedAt time.Time `json:"createdAt"`          // required
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // after CreatedAt; zero: never
	CreatedBy string    `json:"createdBy"`          // required, as Reason is, for those who read the record later; not interpreted
	Reason    string    `json:"reason"`
}

// UnmarshalJSON decodes an override strictly, since one whose environmentId is misspelt would count
// in all environments: unknown fields, fields given twice and values of the wrong type are errors,
// all of them reported, joined, each a *[FieldError]. The override is then unchanged. A type that
// adds fields must hold the override in a named field: embedding it would promote this method.
func (o *Override) UnmarshalJSON(data []byte) error {
	type plain Override
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(o)))
}

// Validate reports every fault of the override by itself, joined, each a *[FieldError]. A host
// calls it before it stores an override, for a plan refuses a snapshot that holds one with a fault.
// An override without a fault that can never have an effect is a diagnostic of the plan, see
// [DiagnosticOverrideWithoutEffect].
func (o Override) Validate() error {
	var f faults
	o.validate("", &f)
	return f.err()
}

func (o *Override) validate(path string, f *faults) {
	f.required(join(path, "id"), o.ID, "an override is named in what it let pass")
	f.required(join(path, "ruleId"), o.Rule, "an override is of one rule")
	f.required(join(path, "versionId"), o.Version, "an override is for one version")
	f.required(join(path, "createdBy"), o.CreatedBy, "who decided")
	f.required(join(path, "reason"), o.Reason, "why the rule does not count this time")
	f.inForce(path, o.CreatedAt, o.ExpiresAt, "the override")
}

func (o *Override) id() string { return o.ID }

// overriding holds the active overrides.
type overriding struct {
	overrides           map[overrideKey]*inForce
	extents             [][]extent // per deployment and version number, of all rules; nil: none of a deployment
	overriddenResources []bool     // per resource: one of them names it; nil: none does
}

// extent says whom the overrides of some rules for one version are for.
type extent uint8

const (
	forSome extent = 1 << iota // resources that they name
	forAll                     // every resource
)

type overrideKey struct{ rule, version string }

// inForce holds the active overrides of one rule for one version.
type inForce struct {
	all    overrideList            // for every resource
	single map[string]overrideList // by the resource that they name
}

// overrideList holds overrides of one rule for one version and the same resources.
type overrideList struct {
	list []*Override // in any order

	// ends has the first and the last of the list by the environment and the deployment that they
	// name, if there are many: one for each of thousands of deployments that share a version id.
	// Else it is nil.
	ends map[TargetID]overrideEnds
}

// overrideEnds are the first and the last of some overrides, nil if there is none.
type overrideEnds struct{ first, last *Override }

// and returns the ends of both together.
func (e overrideEnds) and(other overrideEnds) overrideEnds {
	if e.first == nil || other.first != nil && other.first.compare(e.first) < 0 {
		e.first = other.first
	}
	if e.last == nil || other.last != nil && other.last.compare(e.last) > 0 {
		e.last = other.last
	}
	return e
}

// fewOverrides is how many are gone through one by one.
const fewOverrides = 4

// override collects the active overrides by rule and version. Those that can have no effect are left
// out, so nothing is ever said to be due to one.
func (w *work) override(list []Override) {
	if len(list) == 0 {
		return
	}
	w.overrides = map[overrideKey]*inForce{}
	extents := map[string]extent{} // by version
	effects := w.newEffects(list)
	for i := range list {
		o := &list[i]
		if expired(o.ExpiresAt, w.now) {
			continue
		}
		switch why := effects.ineffective(o); {
		case why != "":
			w.diagnose(DiagnosticOverrideWithoutEffect, o.Rule, o.ID+": "+why, TargetID{Resource: o.Resource, Environment: o.Environment, Deployment: o.Deployment})
			w.wake(o.ExpiresAt) // from then on it is not reported
		case w.now.Before(o.CreatedAt):
			w.wake(o.CreatedAt)
		default:
			w.wake(o.ExpiresAt)
			extents[o.Version] |= w.addOverride(o)
		}
	}
	w.extend(extents)
	for _, own := range w.overrides {
		own.all.index()
		for resource, single := range own.single {
			single.index()
			own.single[resource] = single
		}
	}
}

// addOverride notes an override that is in force, and returns whom it is for.
func (w *work) addOverride(o *Override) extent {
	key := overrideKey{o.Rule, o.Version}
	own := w.overrides[key]
	if own == nil {
		own = &inForce{}
		w.overrides[key] = own
	}
	if o.Resource == "" {
		own.all.list = append(own.all.list, o)
		return forAll
	}
	single := own.single[o.Resource]
	single.list = append(single.list, o)
	put(&own.single, o.Resource, single)
	if w.overriddenResources == nil {
		w.overriddenResources = make([]bool, len(w.resources))
	}
	r, _ := w.resource(o.Resource) // it is known, see ineffective
	w.overriddenResources[r] = true
	return forSome
}

// extend notes for which of their targets versions have overrides.
func (w *work) extend(extents map[string]extent) {
	w.extents = make([][]extent, len(w.versions))
	for d := range w.versions {
		for n, v := range w.versions[d].list {
			if own := extents[v.ID]; own != 0 {
				if w.extents[d] == nil {
					w.extents[d] = make([]extent, len(w.versions[d].list))
				}
				w.extents[d][n] = own
			}
		}
	}
}

// index prepares a list for in, once it is complete.
func (l *overrideList) index() {
	if len(l.list) > fewOverrides {
		l.ends = make(map[TargetID]overrideEnds, len(l.list))
		for _, o := range l.list {
			scope := TargetID{Environment: o.Environment, Deployment: o.Deployment}
			l.ends[scope] = l.ends[scope].and(overrideEnds{o, o})
		}
	}
}

// overridesFor returns the ends of all active overrides of a rule for a version on a target. An
// empty rule, that of a verdict which no rule gives, has no override. An empty resource asks for
// overrides that hold for all resources.
func (w *work) overridesFor(rule string, v *Version, environment, resource string) overrideEnds {
	if len(w.overrides) == 0 {
		return overrideEnds{}
	}
	own := w.overrides[overrideKey{rule, v.ID}]
	if own == nil {
		return overrideEnds{}
	}
	single := own.single[resource] // no override names an empty resource
	return own.all.in(environment, v.Deployment).and(single.in(environment, v.Deployment))
}

// in returns the ends of the overrides that hold in an environment for a deployment.
func (l *overrideList) in(environment, deployment string) (ends overrideEnds) {
	if l.ends == nil {
		for _, o := range l.list {
			if o.in(environment, deployment) {
				ends = ends.and(overrideEnds{o, o})
			}
		}
		return ends
	}
	for _, scope := range [...]TargetID{{}, {Environment: environment}, {Deployment: deployment}, {Environment: environment, Deployment: deployment}} {
		ends = ends.and(l.ends[scope])
	}
	return ends
}

// in reports whether an override holds in an environment for a deployment.
func (o *Override) in(environment, deployment string) bool {
	return (o.Environment == "" || o.Environment == environment) && (o.Deployment == "" || o.Deployment == deployment)
}

func (o *Override) compare(other *Override) int {
	return cmp.Or(o.CreatedAt.Compare(other.CreatedAt), strings.Compare(o.ID, other.ID))
}

// namedByOverride returns the resource of a target if an active override names it, else none.
func (w *work) namedByOverride(t *target) int32 {
	if w.overriddenResources != nil && w.overriddenResources[t.resource] {
		return t.resource
	}
	return none
}

// mayBeOverridden reports whether an override of any rule may hold for version n on target i. Most
// targets have none, even if there are thousands, and learn it here without a search.
func (w *work) mayBeOverridden(i, n int32) bool { return w.mayBeOverriddenFor(forAll, i, n) }

// mayBeOverriddenAlone is mayBeOverridden for overrides that name the resource.
func (w *work) mayBeOverriddenAlone(i, n int32) bool { return w.mayBeOverriddenFor(0, i, n) }

func (w *work) mayBeOverriddenFor(enough extent, i, n int32) bool {
	if len(w.overrides) == 0 || n < 0 {
		return false
	}
	t := &w.targets[i]
	own := w.extents[t.deployment]
	return own != nil && (own[n]&enough != 0 || own[n]&forSome != 0 && w.overriddenResources[t.resource])
}

// overriddenAt returns the first active override of a rule for version n on target i, or nil.
func (w *work) overriddenAt(rule string, i, n int32) *Override {
	return w.overridesAt(rule, i, n).first
}

// overridesAt is overridesFor for version n on target i.
func (w *work) overridesAt(rule string, i, n int32) overrideEnds {
	if !w.mayBeOverridden(i, n) {
		return overrideEnds{}
	}
	t := &w.targets[i]
	return w.overridesFor(rule, w.version(i, n), t.Environment, t.Resource)
}

// satisfied returns the instant since which the overridden rule counts as satisfied.
func (o *Override) satisfied(v *Version) time.Time {
	return later(o.CreatedAt, v.CreatedAt).UTC()
}

// dropOverridden drops the verdicts of rules that are overridden for version n on target i. It does
// not write to the list, which may be shared.
func (w *work) dropOverridden(blockers []Verdict, i, n int32) []Verdict {
	if !w.mayBeOverridden(i, n) {
		return blockers
	}
	var kept []Verdict
	for k, verdict := range blockers {
		if w.overriddenAt(verdict.Rule, i, n) != nil {
			if kept == nil {
				kept = append([]Verdict{}, blockers[:k]...)
			}
		} else if kept != nil {
			kept = append(kept, verdict)
		}
	}
	if kept != nil {
		return kept
	}
	return blockers
}
