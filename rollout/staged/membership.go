package staged

import (
	"slices"
	"strings"
)

// membership applies the changes of the fleet. It never looks at the labels of a member again: a
// relabelled member stays where it is.
//
// The three lists apply in the order of a target's life: added, leaving, removed. To apply removals
// first, because they free slots, would be wrong: a target that came and went between two steps
// would join and be started. It would gain nothing either, because nothing starts before all three
// lists are applied.
func (e *edit) membership(in *Input) {
	added := slices.Clone(in.Added)
	slices.SortStableFunc(added, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
	for i := range added {
		if i+1 == len(added) || added[i+1].Name != added[i].Name { // the last one counts
			e.join(&added[i])
		}
	}
	for _, name := range once(in.Leaving) {
		e.leave(name)
	}
	for _, name := range once(in.Removed) {
		if at, ok := e.run.find(name); ok {
			e.vanish(int(at.stage), int(at.member))
		} else {
			e.event(Event{Kind: EventMembershipIgnored, Stage: -1, Target: name, Reason: ReasonUnknownTarget})
		}
	}
}

func once(names []string) []string { return slices.Compact(slices.Sorted(slices.Values(names))) }

// vanish settles a target that no longer exists. A target of the cleanup is then done. A settled
// target stays as it was.
func (e *edit) vanish(k, i int) {
	rec, _ := e.run.stage(k).tree.at(i)
	switch {
	case rec.state.Settled():
	case e.plan.stages[k].cleanup:
		e.settleTarget(k, i, *rec, Done, noCause)
	case e.plan.options.Removed == Fail:
		e.settleTarget(k, i, *rec, Failed, gone)
	default:
		e.settleTarget(k, i, *rec, Removed, noCause)
	}
}

// leave takes a target out of its stage and, if the options say so, adds it to the cleanup.
func (e *edit) leave(name string) {
	at, known := e.run.find(name)
	cleanup := e.run.count() - 1
	if known && int(at.stage) == cleanup {
		return
	}
	var held *Decision
	if known {
		k, i := int(at.stage), int(at.member)
		held = e.run.stage(k).suspendedBy(i)
		e.vanish(k, i)
	}
	switch {
	case e.plan.options.LateLeaving != Clean:
		e.event(Event{Kind: EventMembershipIgnored, Stage: cleanup, Target: name, Reason: ReasonFrozen})
	case e.run.stage(cleanup).phase != StagePending:
		e.event(Event{Kind: EventMembershipIgnored, Stage: cleanup, Target: name, Reason: ReasonTooLate})
	default:
		e.add(cleanup, name, "")
		if held != nil { // what is not to be touched for now is not to be removed either
			e.suspendAt(cleanup, e.run.stage(cleanup).tree.size-1, held)
		}
	}
}

// join makes a new target the last member of the first stage that matches it and is not closing.
// The target needs no sorting label, because it comes after all others.
func (e *edit) join(t *Target) {
	why := ReasonFrozen
	if _, known := e.run.find(t.Name); known {
		why = ReasonKnown
	} else if e.plan.options.Added == Append {
		stages := e.plan.matcher.all(t, nil)
		if len(stages) == 0 && e.plan.options.Unmatched == Last {
			stages = append(stages, int32(e.run.count()-2))
		}
		if why = ReasonUnmatched; len(stages) > 0 {
			why = ReasonTooLate
		}
		slices.Sort(stages)
		for _, k := range stages {
			switch e.run.stage(int(k)).phase {
			case StagePending, StageWaitingBefore, StageUpdating:
				e.add(int(k), t.Name, t.Labels[e.plan.stages[k].groupBy])
				return
			}
		}
	}
	e.event(Event{Kind: EventMembershipIgnored, Stage: -1, Target: t.Name, Reason: why})
}

// add appends a waiting member to a stage, and to the group of a value if the stage has groups.
// Percentages of the stage are of one more member from then on, and so are those of the group.
func (e *edit) add(k int, name, group string) {
	s := e.stage(k)
	at := place{int32(k), int32(s.tree.size)}
	is, moves := e.run.residence(name)
	if is.at = at; moves {
		home, i := int(is.home.stage), int(is.home.member)
		rec, _ := e.run.stage(home).tree.at(i)
		r := *rec
		r.marks |= moved
		e.put(home, i, r)
	} else {
		is.home = at
	}
	e.run.joined = e.run.joined.put(name, hash(name), is)
	fresh := record{attempt: 1}
	s.tree.add(name, fresh, e.owner)
	if s.groups != nil {
		s.groups = s.groups.add(int(at.member), group, &fresh, k, e.plan, e.owner)
	}
	for _, t := range e.tallies(k) {
		t.count(&fresh, 1)
	}
	e.updateOver(k)
	e.note(s)
	e.event(Event{Kind: EventJoined, Stage: k, Target: name})
}
