package rollout

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// A plan that comes late finds the groups of a bracket that one in time would have found, as long as
// somebody needs them still. Where roles are derived, a group has those of when it closed, but a member
// that a version has made a hook since then opens none any more.

// decideFrom decides from a state that was read, or made up in its place. Package bracket opens and
// closes all groups that are due by now, but knows of one scope of a version only, that of now. A
// group that closed before a version that some targets might have came into scope for others has
// not locked it for these. So if groups open or close, the state is first brought to just before
// each such instant. No execution begins or ends in this.
func (w *work) decideFrom(b *bracketWork, state bracket.State) error {
	b.state = state
	widenings := b.widenings()
	since := w.checkpoint()
	if err := w.decide(b); err != nil {
		return err
	}
	if len(widenings) == 0 || !b.happened(bracket.GroupOpened, bracket.GroupClosed) {
		return nil
	}
	b.state = state
	w.giveUp(since)
	var events []bracket.Event
	changes := w.scopeChanges(b, widenings)
	for len(widenings) > 0 {
		k, next, news, err := w.firstNews(b, widenings, changes)
		if err != nil {
			return err
		}
		if k == len(widenings) || !slices.Equal(next.Executions, state.Executions) {
			break // nothing happened by then, or a target of an open execution is gone, which is news of now
		}
		b.state, events, widenings = next, append(events, news...), widenings[k+1:]
	}
	b.observation.Versions, b.observation.Targets = w.observed(b, w.now)
	if err := w.decide(b); err != nil {
		return err
	}
	b.plan.Events = slices.Concat(events, b.plan.Events)
	return nil
}

// checkpoint is where a decision about a bracket begins that may be given up for another one.
type checkpoint struct {
	next   time.Time
	stored int
}

func (w *work) checkpoint() checkpoint { return checkpoint{next: w.next, stored: len(w.stored)} }

// giveUp takes back what a decision leaves in the plan besides the bracket's own: when it wakes the
// host, and the rollouts that its groups began. Another group that closes under the number of one of
// these begins anew.
func (w *work) giveUp(since checkpoint) {
	for _, key := range w.stored[since.stored:] {
		delete(w.rollouts, key)
	}
	w.next, w.stored = since.next, w.stored[:since.stored]
}

// scopeChange is an instant at which targets get to see a version, or are there for the first time.
type scopeChange struct {
	at                 time.Time
	deployment, number int32 // none if the targets are new, or outdated
}

// scopeChanges lists the changes from the first of some instants on, in order of time. It lists none
// if there is only one instant.
func (w *work) scopeChanges(b *bracketWork, instants []time.Time) (changes []scopeChange) {
	if len(instants) < 2 {
		return nil
	}
	add := func(at time.Time, deployment, number int32) {
		if !at.Before(instants[0]) {
			changes = append(changes, scopeChange{at, deployment, number})
		}
	}
	for _, kind := range b.kinds.list {
		for number := range w.versions[kind.deployment].list {
			if g := w.gateAt(kind.first, int32(number)); len(g.blockers) == 0 {
				eligible, _ := w.eligible(b, kind.targetKind, kind.first, g)
				add(eligible, kind.deployment, int32(number))
			}
		}
	}
	for _, i := range b.targets {
		if t := &w.targets[i]; t.placed || t.outdated {
			add(t.JoinedAt, none, none)
			add(t.OutdatedAt, none, none)
		}
	}
	slices.SortFunc(changes, func(a, b scopeChange) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.deployment, b.deployment), cmp.Compare(a.number, b.number))
	})
	return changes
}

// firstNews returns the index of the first of some instants by which something happens in a bracket,
// with the state just before that instant and what has happened; the number of the instants if
// nothing does by the last.
//
// It need not look at all of them, of which there may be as many as targets. As long as one version
// alone gets to more targets, these come to need a run one after the other, or one after the other
// need none any more, but not both: what has happened by one instant has happened by all later ones,
// perhaps otherwise. Between two versions that does not hold. A target that needs a run because of
// the first may need none because of the second, which a group has locked.
func (w *work) firstNews(b *bracketWork, instants []time.Time, changes []scopeChange) (first int, state bracket.State, events []bracket.Event, err error) {
	before := func(k int) bool {
		at := instants[k].Add(-1)
		then := bracket.Observation{
			Members:          b.observation.Members,
			DeletedResources: b.observation.DeletedResources,
			Due:              func(p bracket.PendingGroup) []time.Time { return make([]time.Time, len(p.Resources)) },
		}
		then.Versions, then.Targets = w.observed(b, at)
		next, plan, failed := bracket.Step(b.ruleInForce, b.state, then, at)
		if failed != nil {
			err = failed
			return true
		}
		happens := len(plan.Events) > 0 || next.Group != b.state.Group
		if happens {
			first, state, events = k, next, plan.Events // of all that are looked at, the last for which this holds is the first
		}
		return happens
	}
	first = len(instants)
	for from := 0; from < len(instants); from++ {
		if before(from) {
			break
		}
		last := from + untilAnother(instants[from:], changes)
		if last > from && before(last) {
			sort.Search(last-from-1, func(k int) bool { return before(from + 1 + k) })
			break
		}
		from = last
	}
	return first, state, events, err
}

// untilAnother returns the index of the last of some instants before which all changes since the
// first of them are of one version.
func untilAnother(instants []time.Time, changes []scopeChange) int {
	from, _ := slices.BinarySearchFunc(changes, instants[0], func(c scopeChange, at time.Time) int { return c.at.Compare(at) })
	for _, c := range changes[from:] {
		if one := changes[from]; c.deployment == one.deployment && c.number == one.number && c.number != none {
			continue
		}
		last, known := slices.BinarySearchFunc(instants, c.at, time.Time.Compare)
		if !known {
			last-- // c is not before the first of them
		}
		return last
	}
	return len(instants) - 1
}

// widenings returns the instants, ascending, at which a version came into scope for more targets
// since a group last opened or closed.
func (b *bracketWork) widenings() []time.Time {
	if b.rule == nil || b.unclear != nil {
		return nil
	}
	var since time.Time
	if c := b.state.Group.Collecting; c != nil {
		since = c.OpenedAt
	} else if latest := b.latest(); latest != nil {
		since = latest.ReadyAt
	}
	var instants []time.Time
	for _, at := range b.observation.Targets.(*observedTargets).widened {
		if at.After(since) {
			instants = append(instants, at)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	return slices.CompactFunc(instants, time.Time.Equal)
}
