package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textkey"
)

// obstacles appends what keeps a member from running besides its bracket, its turn and capacity: a
// failed expression, a job that is not the bracket's, and, unless the run goes back to what was
// there before, a dependency outside the bracket. runs are those of an execution that has not
// begun, whose versions count as present; nil: the execution has begun, and brings them in order.
func (w *work) obstacles(b *bracketWork, blockers []Verdict, i, version int32, runs []pendingRun, back bool) []Verdict {
	for _, verdict := range w.held[i] { // no override lets a version past an expression of a policy or a pool that has no answer
		blockers = w.appendDistinct(blockers, verdict)
	}
	if !w.mayBeOverridden(i, version) || len(blockers) == 0 {
		return w.dropOverridden(w.obstaclesOf(b, blockers, i, version, runs, back), i, version)
	}
	list := newDistinct(w, blockers)
	for _, verdict := range w.dropOverridden(w.obstaclesOf(b, nil, i, version, runs, back), i, version) {
		list.add(verdict) // the earlier blockers are of other versions
	}
	return list.blockers
}

func (w *work) obstaclesOf(b *bracketWork, blockers []Verdict, i, version int32, runs []pendingRun, back bool) []Verdict {
	t, begun := &w.targets[i], runs == nil
	if !begun && t.current == missing {
		blockers = w.appendVerdict(blockers, w.unknownVersion(t))
	}
	if !back {
		blockers = w.dependencies(blockers, i, b, begun)
		if !begun && len(b.orders) > 0 {
			blockers = w.unordered(blockers, i, b, runs)
		}
		switch {
		case !w.dependent[t.deployment] || version < 0:
		case !begun:
			blockers = w.versionDependencies(blockers, i, w.version(i, version), runs)
		default:
			from, _ := w.siblings(i)
			open := b.open(t.Resource)
			for _, verdict := range w.inOrder(i, version, bringer{open: open, from: from}) {
				if verdict.Data.Detail == absentHere { // its version is locked: a newer one waits for the end of the execution
					verdict.On[0] = Condition{Kind: OnOperator, Group: open.Group, Resource: t.Resource}
				}
				blockers = w.appendDistinct(blockers, verdict)
			}
		}
		if !begun && version >= 0 && len(w.set.customs) > 0 {
			blockers = w.custom(blockers, i, version)
		}
	}
	blockers = w.freezeBlockers(blockers, i, begun)
	if b.atOtherWork(t, begun) {
		blockers = w.appendVerdict(blockers, busy(t))
	}
	return blockers
}

// isUnopposed reports whether no rule can be an obstacle for a target, whatever its resource and
// version. For most members the answer is found once for all targets.
func (s *schedule) isUnopposed(i int32) bool {
	w, members := s.w, s.bracket.deployments
	view, d := w.view[i], w.targets[i].deployment
	if len(members) == 0 || d < members[0] || d > members[len(members)-1] { // it is no member any more
		return s.findUnopposed(i)
	}
	known := s.unopposed[view]
	if known == nil {
		known = slices.Repeat([]answer{undecided}, int(members[len(members)-1]-members[0])+1)
		s.unopposed[view] = known
	}
	own := &known[d-members[0]]
	if *own == undecided {
		*own = no
		if s.findUnopposed(i) {
			*own = yes
		}
	}
	return *own == yes
}

func (s *schedule) findUnopposed(i int32) bool {
	w, b := s.w, s.bracket
	return len(w.held) == 0 && len(w.set.customs) == 0 && !w.dependent[w.targets[i].deployment] && len(w.blockingRules(i, b)) == 0 && !w.orderedForSomeVersions(i, b)
}

// orderedForSomeVersions reports whether a dependency rule orders a member for some versions only.
func (w *work) orderedForSomeVersions(i int32, b *bracketWork) bool {
	return slices.ContainsFunc(b.orders[w.targets[i].deployment], func(o order) bool { return !o.always && w.viewOf(i).has(o.rule) })
}

// atOtherWork reports whether a job is active on a member's target that is no run of the bracket's
// open execution. Before a group is merged into that execution, its runs are no obstacle: the group
// waits for them where it must. If begun, the next of these runs starts: all others are over as far
// as the bracket knows, and an active one means that the host has changed what it reports.
func (b *bracketWork) atOtherWork(t *target, begun bool) bool {
	if !t.busy {
		return false
	}
	open := b.open(t.Resource)
	if open == nil {
		return true
	}
	prefix := textkey.Join(open.Group) + "/"
	return slices.ContainsFunc(t.Jobs, func(job Job) bool { return !job.Status.Terminal() && (begun || !strings.HasPrefix(job.Run, prefix)) })
}
