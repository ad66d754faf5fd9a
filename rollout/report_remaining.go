package rollout

import "github.com/tranche-dev/tranche/bracket"

// reportRemaining reports what blocks the newest version on every target of a bracket that has not
// been reported on yet.
func (w *work) reportRemaining(b *bracketWork, reported reportedTargets) {
	blockersOf := w.newMemberBlockers(b)
	for _, i := range b.targets {
		if reported.has(i) || b.takenOver[i] {
			continue
		}
		if b.rule == nil {
			if !b.former[i] {
				w.countKept(i)
			}
			continue
		}
		t := &w.targets[i]
		n := w.newestFor(i)
		var blockers blockerList
		if n >= 0 && n > t.current && !t.running(w.version(i, n).ID) {
			blockers = blockersOf(i, n)
		}
		if blockers != 0 {
			w.waitFor(i, n, blockers)
		} else {
			w.countKept(i)
		}
	}
}

// newestFor returns the number of the newest version that exists by now for a target of a bracket, or
// none.
func (w *work) newestFor(i int32) int32 {
	versions := w.versions[w.targets[i].deployment].list
	n := int32(len(versions)) - 1
	for ; n >= 0; n-- {
		if at := versions[n].CreatedAt; at.After(w.now) {
			w.wake(at) // a former member gets nothing new, but from then on that is reported
		} else if w.inScope(i, n) {
			break
		}
	}
	return n
}

// newMemberBlockers returns a function that lists what blocks a version on a target, and returns 0
// if nothing does. On a resource that never had an execution, and has none pending, the answer is
// the same for all targets that run the same version. Targets are asked for in order.
func (w *work) newMemberBlockers(b *bracketWork) func(i, n int32) blockerList {
	type like struct{ deployment, current, candidate, view int32 }
	answers := map[like]blockerList{}
	records, pending := b.state.Executions, b.pending
	ask := func(i, n int32) blockerList {
		if list := w.memberBlockers(b, i, n); list != nil {
			return w.list(list)
		}
		return 0
	}
	return func(i, n int32) blockerList {
		t := &w.targets[i]
		resource := w.resources[t.resource].ID
		for len(records) > 0 && records[0].Resource < resource {
			records = records[1:]
		}
		for len(pending) > 0 && pending[0].resource < t.resource {
			pending = pending[1:]
		}
		if t.outdated || t.current == missing || len(w.held) > 0 || w.frozenAlone(t) || len(w.gateOf(i, n).perResource) > 0 || w.namedByOverride(t) != none ||
			len(records) > 0 && records[0].Resource == resource || len(pending) > 0 && pending[0].resource == t.resource {
			return ask(i, n)
		}
		alike := like{t.deployment, t.current, n, w.view[i]}
		listed, known := answers[alike]
		if !known {
			listed = ask(i, n)
			answers[alike] = listed
		}
		return listed
	}
}

// memberBlockers returns what blocks a version on a bracket's target, or nil if nothing does.
func (w *work) memberBlockers(b *bracketWork, i, n int32) []Verdict {
	t := &w.targets[i]
	verdict := b.plan.Evaluate(b.state, t.Resource, t.Deployment, w.version(i, n).ID, w.now)
	unasked := b.unclear != nil && verdict.Reason == bracket.ReasonNotApplicable
	if verdict.Reason.Status() == bracket.Allowed && !unasked {
		return nil
	}
	blockers := w.gateBlockers(w.gateAt(i, n), i, n)
	if !unasked {
		blockers = w.appendVerdict(blockers, w.evaluated(b, t, verdict))
	}
	if b.unclear != nil {
		blockers = w.appendVerdict(blockers, *b.unclear)
	}
	for _, held := range w.held[i] {
		blockers = w.appendVerdict(blockers, held)
	}
	if t.current == missing {
		blockers = w.appendVerdict(blockers, w.unknownVersion(t))
	}
	return w.freezeBlockers(blockers, i, false)
}
