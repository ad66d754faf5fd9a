package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
)

// Where many executions start or are open, most of what waits are members that wait for others of
// their execution. What each waits for would take 300 bytes, and is worked out when it is read.

// memberOf returns the blockers of target i, a member of an open execution.
func (w *work) memberOf(i int32, listed blockerList) []Verdict {
	b, id := w.stepped[listed-firstMember], w.id(i)
	said := b.plan.Evaluate(b.state, id.Resource, id.Deployment, w.waitingVersion(i), w.now)
	verdict := Verdict{Status: VerdictStatus(said.Reason.Status()), Reason: Reason(said.Reason), Rule: b.id, Until: said.Until}
	for _, c := range said.On {
		verdict.On = append(verdict.On, conditionOf(c))
	}
	verdict.On = slices.Clip(verdict.On)
	return []Verdict{verdict}
}

// followAll lists the members that wait for others of the executions that start.
func (w *work) followAll() {
	next := int32(firstFollower)
	for _, b := range w.stepped {
		n := 0
		for k := range b.pending {
			if p := &b.pending[k]; p.starts {
				n += len(b.runsOn(p))
			}
		}
		b.firstFollower, b.following = next, make([]pendingRun, 0, n)
		for k := range b.pending {
			if b.pending[k].starts {
				w.follow(b, &b.pending[k])
			}
		}
		next += int32(n)
	}
}

// follow lists the members that wait for others of the execution that starts on their resource.
func (w *work) follow(b *bracketWork, p *pendingResource) {
	runs, first := b.runsOn(p), b.firstFollower+int32(len(b.following))
	b.following = append(b.following, runs...)
	for k, run := range runs {
		if w.waits[run.target].start != 0 {
			continue
		}
		if !slices.ContainsFunc(*b.needs.at(w.targets[run.target].deployment), func(need memberNeed) bool { return w.comesWith(runs, need) }) {
			if blockers := w.afterOthers(b, p, run.target, run.version); len(blockers) > 0 {
				w.waitNumber(run.target, run.version, blockers)
				continue
			}
		}
		w.waitFor(run.target, run.version, blockerList(first+int32(k)))
	}
}

// followerOf returns the blockers of a run that waits for others of the execution that starts.
func (w *work) followerOf(listed blockerList) []Verdict {
	k := slices.IndexFunc(w.stepped, func(b *bracketWork) bool { return int32(listed) < b.firstFollower+int32(len(b.following)) })
	b := w.stepped[k]
	at := int32(listed) - b.firstFollower
	run, from := b.following[at], at // what a run needs comes before it
	resource := w.targets[run.target].resource
	for from > 0 && w.targets[b.following[from-1].target].resource == resource {
		from--
	}
	verdict := Verdict{Status: Pending, Reason: Reason(bracket.ReasonWaitsForMembers), Rule: b.id}
	for _, need := range *b.needs.at(w.targets[run.target].deployment) {
		if w.comesWith(b.following[from:at], need) {
			verdict.On = append(verdict.On, Condition{
				Kind: OnMember, Group: b.group.ID, Resource: w.resources[resource].ID, Deployment: w.deployments[need.deployment].ID,
			})
		}
	}
	slices.SortFunc(verdict.On, func(a, b Condition) int { return strings.Compare(a.Deployment, b.Deployment) })
	verdict.On = slices.Clip(slices.Compact(verdict.On)) // a member may be needed by its role and by a rule
	return []Verdict{verdict}
}

// afterOthers returns what keeps back a member that could be among the first of its execution,
// until the execution has brought what its version needs.
func (w *work) afterOthers(b *bracketWork, p *pendingResource, i, version int32) []Verdict {
	if !w.dependent[w.targets[i].deployment] || version < 0 {
		return nil
	}
	return w.dropOverridden(w.inOrder(i, version, bringer{bracket: b, begins: p}), i, version)
}

// comesWith reports whether one of the runs of an execution is what a member needs.
func (w *work) comesWith(runs []pendingRun, need memberNeed) bool {
	return slices.ContainsFunc(runs, func(other pendingRun) bool { return w.fulfils(other, need) })
}

// fulfils reports whether a run is what a member needs.
func (w *work) fulfils(run pendingRun, need memberNeed) bool {
	d := w.targets[run.target].deployment
	return d == need.deployment && (need.versions == nil || slices.Contains(need.versions, w.versions[d].list[run.version].ID))
}
