package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// An execution keeps the members it began with. If a selector, a label or a policy is changed
// meanwhile, or the rule is removed, the targets of its members may no longer be members of the
// bracket. The drained node is finished all the same, and nothing else starts on these targets
// until it is.

// openTargets yields the targets of the members of every execution that is open in the bracket's
// environment.
func (w *work) openTargets(b *bracketWork, yield func(i int32)) {
	w.eachOpen(w.executionsIn(b.id, b.environment), w.environments[b.environment].ID, func(o opened) {
		for i := o.from; i < o.to; i++ {
			if w.member(o, i) != nil {
				yield(i)
			}
		}
	})
}

// nonMembers yields those targets of openTargets that are not members of the bracket now.
func (w *work) nonMembers(b *bracketWork, yield func(i int32)) {
	members, at := b.targets, 0 // as they are before yield adds to them
	w.eachOpen(w.executionsIn(b.id, b.environment), w.environments[b.environment].ID, func(o opened) {
		for i := o.from; i < o.to; i++ {
			at = seek(len(members), at, func(k int) bool { return members[k] < i })
			if (at == len(members) || members[at] != i) && w.member(o, i) != nil { // asked last: an execution is far away in memory
				yield(i)
			}
		}
	})
}

// addFormer adds the targets of open executions that are not, or no longer, members of the bracket.
// A target that is a member of another bracket by now is reported by that bracket, which waits for
// the end of the execution.
func (w *work) addFormer(b *bracketWork) {
	w.nonMembers(b, func(i int32) {
		if w.members[i] {
			put(&b.takenOver, i, true)
			if b.losesTargets {
				put(&w.formerBrackets, i, append(w.formerBrackets[i], b))
			}
		}
		w.members[i] = true
		put(&b.former, i, true)
		b.targets = append(b.targets, i)
	})
	if b.former != nil {
		slices.Sort(b.targets)
	}
}

// losingFirst moves to the front the brackets that have an execution open on targets which another
// bracket has taken over, such as after a policy was split. It blocks the resources of these
// targets to other brackets until the execution ends.
func (w *work) losingFirst(works []*bracketWork) []*bracketWork {
	if len(works) < 2 {
		return works
	}
	var first, others []*bracketWork
	for _, b := range works {
		w.nonMembers(b, func(i int32) {
			if w.members[i] {
				b.losesTargets = true
				w.block(w.targets[i].resource, b.id)
			}
		})
		if b.losesTargets {
			first = append(first, b)
		} else {
			others = append(others, b)
		}
	}
	return append(first, others...)
}

// block keeps every other bracket from beginning anything on a resource until an execution of a
// rule has ended there.
func (w *work) block(resource int32, rule string) {
	if !slices.Contains(w.blockedBy[resource], rule) {
		put(&w.blockedBy, resource, append(w.blockedBy[resource], rule))
	}
}

// unblock opens the resources on which an execution of the bracket has ended in this very plan to
// the other brackets, and reports whether there are any.
func (w *work) unblock(b *bracketWork) bool {
	if b.takenOver == nil {
		return false
	}
	open := map[int32]bool{}
	w.openTargets(b, func(i int32) { open[w.targets[i].resource] = true })
	unblocked := false
	for i := range b.takenOver {
		r := w.targets[i].resource
		if !open[r] {
			w.blockedBy[r] = slices.DeleteFunc(w.blockedBy[r], func(rule string) bool { return rule == b.id })
			unblocked = true
		}
	}
	return unblocked
}

// lostGroups returns new records in place of those that were lost although an execution is open. If
// the rule is gone, or the snapshot does not hold the environment, the execution is stepped only by
// such a record; without one it would stay open for ever.
func (w *work) lostGroups() (lost []*bracket.GroupRecord) {
	found := map[ruleIn]bool{}
	for _, record := range w.snapshot.State.Executions {
		if record.Open == nil {
			continue
		}
		in := ruleIn{record.Rule, record.Open.Environment}
		if !found[in] && w.groups[in] == nil {
			found[in] = true
			lost = append(lost, bracket.NewState(in.rule, in.environment).Group)
		}
	}
	return lost
}

// dropFormer removes the former members whose execution has ended. The bracket was stepped with
// them, so the next group on the resource may have them as members. It must begin without them, so
// the bracket is stepped once more.
func (w *work) dropFormer(b *bracketWork) error {
	if b.former == nil {
		return nil
	}
	open := map[int32]bool{}
	w.openTargets(b, func(i int32) { open[i] = true })
	before := len(b.targets)
	b.targets = slices.DeleteFunc(b.targets, func(i int32) bool {
		if !b.former[i] || open[i] {
			return false
		}
		w.members[i] = b.takenOver[i]
		return true
	})
	if len(b.targets) == before {
		return nil
	}
	b.kinds = w.kindsOf(b)
	b.observation.Versions, b.observation.Targets = w.observed(b, w.now)
	return w.decideAgain(b)
}

// keepAbandoned keeps the targets of the open executions of a bracket whose rule is gone. A target
// that has become a member of another bracket is reported by that bracket, which waits for the end
// of the execution.
func (w *work) keepAbandoned(b *bracketWork) {
	b.targets, b.former = nil, map[int32]bool{}
	w.openTargets(b, func(i int32) {
		b.targets = append(b.targets, i)
		b.former[i] = w.members[i]
		w.members[i] = true
		w.block(w.targets[i].resource, b.id)
		put(&w.formerBrackets, i, append(w.formerBrackets[i], b))
	})
}

// startsForFormer reports whether an execution of a rule that is gone, or that had the target
// before, starts something on it now.
func (w *work) startsForFormer(i int32) bool {
	return slices.ContainsFunc(w.formerBrackets[i], func(b *bracketWork) bool {
		_, starts := b.started[i]
		return starts
	})
}

// resourceBlockers adds the blockers that keep a bracket from beginning anything on a resource:
// executions that are still open there, of a rule that is gone or that had the targets before.
func (w *work) resourceBlockers(blockers []Verdict, resource int32, b *bracketWork) []Verdict {
	for _, rule := range w.blockedBy[resource] {
		if rule != b.id {
			blockers = w.appendVerdict(blockers, w.queued(rule, resource))
		}
	}
	return blockers
}

// queued is the verdict on a resource where an execution of a rule has to end first.
func (w *work) queued(rule string, resource int32) Verdict {
	return Verdict{
		Status: Pending, Reason: Reason(bracket.ReasonQueued), Rule: rule,
		On: []Condition{{Kind: OnExecutionEnd, Rule: rule, Resource: w.resources[resource].ID}},
	}
}

// allVersions lists every version of a deployment. All are out of scope for a former member, which
// gets nothing new.
func (w *work) allVersions(deployment int32) []string {
	ids := make([]string, 0, len(w.versions[deployment].list))
	for _, v := range w.versions[deployment].list {
		ids = append(ids, v.ID)
	}
	return ids
}
