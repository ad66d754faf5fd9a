package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Freeze keeps targets from starting anything for a time: a node while somebody works on it, an
// environment during an incident, or in an emergency everything. It is active from CreatedAt until
// just before ExpiresAt. A target that it keeps from a start waits with [ReasonFrozen], which says
// who froze it and why. Where it keeps a group from being merged into an execution that has failed,
// the target waits as in that execution, and the freeze is among the events that help, [OnFreeze].
// No [Override] lets a version past a freeze, and several freezes of one target must all be over.
//
//   - Nothing is taken back. A job in progress goes on to its end, and its slots stay taken. The
//     starts that a host has saved and not yet dispatched may still be dispatched; a host that asks
//     [Freeze.Holds] before it creates a job drops these as well, and the next plans offer them
//     again once the freeze is over.
//   - A frozen member keeps an execution of its bracket from beginning on the resource, so nothing
//     is drained to wait for it. An execution that is open stops between two of its members and
//     keeps its slots; meanwhile nothing of it counts as stuck except a run that is in progress, or
//     was saved and may be. With FinishBegun it goes on to its end, and no later group with a
//     frozen member is merged into it.
//   - A frozen target keeps its place everywhere: in the order and size of a curve, in the percentage
//     of an environmentProgression, as a member of its pools. It takes no slot while it waits, and
//     holds up no other target. To leave what is broken out of a percentage, leave its targets out of
//     the snapshot, as if they were gone; not all of an environment, where nobody then has to prove
//     anything.
//   - Time goes on. A bracket collects and closes its groups, a backoff and a soak end, and without
//     PauseCurves a curve runs: after a long freeze all targets whose turn has come start at once, as
//     far as limits and rates allow. For a freeze that is planned there is the deploymentWindow.
//   - Commands take effect, and approvals and overrides of rules count: what they let start starts
//     when the freeze is over.
//
// The deployment freezes of other systems are of this kind; neither RFC of ctrlplane has them.
type Freeze struct {
	ID string `json:"id"` // required and unique

	// Deployment, Environment and Resource narrow the freeze. Empty: every deployment, every
	// environment, every resource. With all three empty, everything is frozen.
	Deployment  string `json:"deploymentId,omitempty"`
	Environment string `json:"environmentId,omitempty"`
	Resource    string `json:"resourceId,omitempty"`

	// FinishBegun lets what has begun come to its end: the other members of an open execution,
	// rollbacks, and the next attempt where one has failed, at a version or at a run for the
	// present [Target.OutdatedAt]. False: nothing starts.
	FinishBegun bool `json:"finishBegun,omitempty"`

	// PauseCurves stops the curves of what the freeze names, gradual rollouts in brackets included:
	// the time from CreatedAt to ExpiresAt counts for none of them, as the time outside a
	// deploymentWindow does not, so each goes on where it stopped. Before CreatedAt no turn is told
	// with it. It counts for as long as the snapshot holds the freeze: to lift it, set ExpiresAt, and
	// leave it out once the rollouts that it stopped are over. If it is left out before, their turns
	// come as if it had never been. A freeze with a Resource must not have it: a curve is that of a
	// deployment in an environment.
	PauseCurves bool `json:"pauseCurves,omitempty"`

	CreatedAt time.Time `json:"createdAt"`          // required; in the future: the freeze has yet to begin
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // after CreatedAt; zero: it lasts until it is left out of the snapshot
	CreatedBy string    `json:"createdBy"`          // required, as Reason is, for those who wait; not interpreted
	Reason    string    `json:"reason"`
}

// Holds reports whether the freeze is active at an instant and concerns a target. A host that
// dispatches a start late asks once more and drops the start, unless the freeze has FinishBegun:
// what was saved has begun. A plan has taken its freezes into account already.
func (z Freeze) Holds(target TargetID, at time.Time) bool {
	return !at.Before(z.CreatedAt) && !expired(z.ExpiresAt, at) && (z.Resource == "" || z.Resource == target.Resource) && z.covers(target)
}

// covers reports whether a target is of the deployment and in the environment of a freeze.
func (z *Freeze) covers(target TargetID) bool {
	return (z.Environment == "" || z.Environment == target.Environment) && (z.Deployment == "" || z.Deployment == target.Deployment)
}

// UnmarshalJSON decodes a freeze strictly, since one whose environmentId is misspelt would hold all
// environments: unknown fields, fields given twice and values of the wrong type are errors, all of
// them reported, joined, each a *[FieldError]. The freeze is then unchanged. A type that adds
// fields must hold the freeze in a named field: embedding it would promote this method.
func (z *Freeze) UnmarshalJSON(data []byte) error {
	type plain Freeze
	return fieldErrors(strictjson.Unmarshal(data, (*plain)(z)))
}

// Validate reports every fault of the freeze by itself, joined, each a *[FieldError]. A host calls
// it before it stores a freeze, for a plan refuses a snapshot that holds one with a fault. A freeze
// without a fault that holds no target, because of what it names, is a diagnostic of the plan, see
// [DiagnosticFreezeWithoutEffect].
func (z Freeze) Validate() error {
	var f faults
	z.validate("", &f)
	return f.err()
}

func (z *Freeze) validate(path string, f *faults) {
	f.required(join(path, "id"), z.ID, "a freeze is named by what waits for it")
	f.required(join(path, "createdBy"), z.CreatedBy, "whom to ask")
	f.required(join(path, "reason"), z.Reason, "why nothing may start")
	f.inForce(path, z.CreatedAt, z.ExpiresAt, "the freeze")
	if z.PauseCurves && z.Resource != "" {
		f.add(join(path, "pauseCurves"), CodeConflict, nil, "must be left out with resourceId: a curve is that of all resources of a deployment in an environment")
	}
}

func (z *Freeze) id() string { return z.ID }

// freezing holds the active freezes.
type freezing struct {
	frozenResources map[int32]bool               // resources that some of them name
	freezesByScope  map[TargetID][]*activeFreeze // by what they name; an empty id where they name nothing
	frozenPairs     map[int32]frozenPair         // those that name no resource, for a deployment in an environment, as far as they were asked for
}

type frozenPair struct {
	freezes  []*activeFreeze // the earliest created first
	verdicts []Verdict       // what they say, shared by all targets that wait for nothing else
}

// activeFreeze is an active freeze and what it says to every target.
type activeFreeze struct {
	*Freeze
	verdict Verdict
}

// freeze collects the active freezes.
func (w *work) freeze(list []Freeze) {
	for i := range list {
		z := &list[i]
		if z.PauseCurves {
			w.addPause(z)
		}
		if expired(z.ExpiresAt, w.now) {
			continue
		}
		until := endOf(z.ExpiresAt)
		if why := w.freezesNothing(z); why != "" {
			w.diagnose(DiagnosticFreezeWithoutEffect, "", z.ID+": "+why, TargetID{Resource: z.Resource, Environment: z.Environment, Deployment: z.Deployment})
			w.wake(until) // from then on it is not reported
			continue
		}
		if w.now.Before(z.CreatedAt) {
			w.wake(z.CreatedAt)
			continue
		}
		w.wake(until)
		own := &activeFreeze{z, Verdict{
			Status: Pending, Reason: ReasonFrozen, Until: reportable(until), On: []Condition{{Kind: OnFreeze, Freeze: z.ID}}, Data: &Data{Names: []string{z.CreatedBy}, Detail: z.Reason},
		}}
		at := TargetID{z.Resource, z.Environment, z.Deployment}
		put(&w.freezesByScope, at, append(w.freezesByScope[at], own))
		if z.Resource != "" {
			r, _ := w.resource(z.Resource) // it is known, see freezesNothing
			put(&w.frozenResources, r, true)
		}
	}
}

func (z *activeFreeze) compare(other *activeFreeze) int {
	return cmp.Or(z.CreatedAt.Compare(other.CreatedAt), strings.Compare(z.ID, other.ID))
}

// freezesNothing says why a freeze holds no target; "" if it holds one.
func (w *work) freezesNothing(z *Freeze) string {
	if why := w.unknown(z.Resource, z.Environment, z.Deployment); why != "" {
		return why
	}
	if z.Resource == "" {
		if w.anyIn(z.Environment, z.Deployment) {
			return ""
		}
	} else {
		r, _ := w.resource(z.Resource)
		d, one := w.deployment(z.Deployment)
		for from, to := range w.everywhere(r) {
			if at := w.targets[from].Environment; (z.Environment == "" || z.Environment == at) && (!one || w.among(from, to, d) != none) {
				return ""
			}
		}
	}
	return noSuchTarget
}

// anyIn reports whether there is a target of a deployment in an environment. An empty id stands for any
// of them.
func (w *work) anyIn(environment, deployment string) bool {
	e, one := w.environment(environment) // an empty id comes before the first
	d, alone := w.deployment(deployment)
	environments, deployments := int32(len(w.environments)), int32(len(w.deployments))
	if one {
		environments = e + 1
	}
	if alone {
		deployments = d + 1
	}
	for ; e < environments; e++ {
		for k := d; k < deployments; k++ {
			if len(w.targetsIn(e, k)) > 0 {
				return true
			}
		}
	}
	return false
}

// freezeBlockers appends what the active freezes say to target i, unless the blockers hold it: what
// several members of a bracket wait for is listed once for their resource. begun says that the
// target would only finish what it has begun.
func (w *work) freezeBlockers(blockers []Verdict, i int32, begun bool) []Verdict {
	pair, said := w.frozenBroadly(i), newListedFreezes(blockers)
	add := func(z *activeFreeze) {
		if (!begun || !z.FinishBegun) && !said.has(z) {
			blockers = w.appendVerdict(blockers, z.verdict)
		}
	}
	if len(blockers) == 0 && !begun {
		blockers = pair.verdicts
	} else {
		for _, z := range pair.freezes {
			add(z)
		}
	}
	if t := &w.targets[i]; w.frozenAlone(t) {
		for _, z := range w.freezesOf(t.Resource, t) {
			add(z)
		}
	}
	return blockers
}

// listedFreezes tells which freezes some blockers are of. What a freeze says has data of its own,
// so nothing else need be compared.
type listedFreezes struct {
	blockers []Verdict
	data     map[*Data]bool // nil if they are few
}

func newListedFreezes(blockers []Verdict) listedFreezes {
	if len(blockers) < 16 {
		return listedFreezes{blockers: blockers}
	}
	s := listedFreezes{data: make(map[*Data]bool, len(blockers))}
	for k := range blockers {
		s.data[blockers[k].Data] = true
	}
	return s
}

// from reports whether one of the blockers is that of a freeze.
func (s *listedFreezes) has(z *activeFreeze) bool {
	for k := range s.blockers { // a verdict is large: this loop copies none
		if s.blockers[k].Data == z.verdict.Data {
			return true
		}
	}
	return s.data[z.verdict.Data]
}

// frozenAt reports whether a freeze may hold target i.
func (w *work) frozenAt(i int32) bool {
	return w.frozenAlone(&w.targets[i]) || len(w.frozenBroadly(i).freezes) > 0
}

// frozenAlone reports whether a freeze of its resource may hold a target.
func (w *work) frozenAlone(t *target) bool {
	return w.frozenResources != nil && w.frozenResources[t.resource]
}

// frozenBroadly returns the freezes that hold target i and all others of its deployment and
// environment.
func (w *work) frozenBroadly(i int32) frozenPair {
	if len(w.freezesByScope) == 0 {
		return frozenPair{}
	}
	t := &w.targets[i]
	number := w.pairOf(t)
	own, asked := w.frozenPairs[number]
	if !asked {
		own.freezes = w.freezesOf("", t)
		for _, z := range own.freezes {
			own.verdicts = append(own.verdicts, z.verdict)
		}
		put(&w.frozenPairs, number, own)
	}
	return own
}

// freezesOf lists the freezes that name a resource, or with an empty id none, and that hold a
// target there, the earliest created first.
func (w *work) freezesOf(resource string, t *target) (list []*activeFreeze) {
	for _, environment := range [...]string{"", t.Environment} {
		for _, deployment := range [...]string{"", t.Deployment} {
			list = append(list, w.freezesByScope[TargetID{resource, environment, deployment}]...)
		}
	}
	slices.SortFunc(list, (*activeFreeze).compare)
	return list
}
