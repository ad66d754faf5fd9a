package bracket

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// Wait is a reason why something does not start. With a Deployment it concerns that member of an
// open execution; without one, every run of the group on the resource; without a Resource, every
// new version of a member on any resource.
type Wait struct {
	Group, Resource, Deployment string
	Reason                      Reason    // a pending one
	Until                       time.Time // after now; zero if only an event can help

	of    *view
	entry waitEntry
}

// Waits iterates over the reasons why runs of needed executions do not start now, in the order of
// Start. Resources that need nothing have no entry. While a group collects, one entry without a
// Resource says until when. [Plan.Evaluate] gives the verdict on any one candidate.
func (p Plan) Waits() iter.Seq[Wait] {
	return func(yield func(Wait) bool) {
		if p.view == nil {
			return
		}
		for _, e := range p.view.waits {
			if !yield(p.view.wait(e)) {
				return
			}
		}
	}
}

// On returns the events that can end the wait; where it names several members, it takes all of them.
// An operator is listed only where an execution is halted, or waits for a version of a hook: a skip,
// a retry or a close may end other waits early. The list may be shared and must not be modified. A
// fleet at work has hundreds of thousands of waits, and of few somebody asks, so lists are made then,
// from what the plan refers to: see [Observation].
func (w Wait) On() []Condition {
	if w.of == nil {
		return nil
	}
	return w.of.endsOf(w.entry)
}

// waitEntry is a wait in short. There may be one per target, so it is small.
type waitEntry struct {
	at     int32 // in works for a member, else in pending
	member int32 // of the execution, -1 for a resource
	kind   waitKind
}

// waitKind is the reason of a wait.
type waitKind uint8

const (
	waitCollecting waitKind = iota
	waitNotDue
	waitQueued
	waitMergeBudget
	waitHookWithoutVersion
	waitForMembers
	waitFailedHolding
)

func (k waitKind) reason() Reason {
	return [...]Reason{ReasonCollecting, ReasonNotDue, ReasonQueued, ReasonMergeBudget, ReasonHookWithoutVersion, ReasonWaitsForMembers, ReasonFailedHolding}[k]
}

// wait tells a wait in full.
func (v *view) wait(e waitEntry) Wait {
	w := Wait{Reason: e.kind.reason(), of: v, entry: e}
	switch {
	case e.kind == waitCollecting:
		w.Group, w.Until = v.collecting, v.closes
	case e.member < 0:
		w.Group, w.Resource = v.latest.ID, v.resources[v.pending[e.at]]
		switch e.kind {
		case waitNotDue:
			w.Until = v.dueAt(int(e.at))
		case waitHookWithoutVersion:
			w.Until, _ = v.latest.onHook(v, v.latest.idleHook(v, v.span(v.pending[e.at])), v.now)
		case waitQueued:
			w.Until, _ = v.endOfQueue(v.openOn(v.pending[e.at]), w.Resource, v.dueAt(int(e.at)))
		}
	default:
		x := &v.works[e.at]
		m := &x.Members[e.member]
		w.Group, w.Resource, w.Deployment = x.Group, x.name, m.Deployment
		switch e.kind {
		case waitForMembers:
			w.Until = after(m.RetryAt, v.now)
		case waitFailedHolding:
			_, w.Until, _ = v.nextRun(x, int(e.member), v.now)
		}
	}
	return w
}

// endsOf returns what can end a wait.
func (v *view) endsOf(e waitEntry) []Condition {
	switch {
	case e.kind == waitCollecting:
		return v.onVersions
	case e.kind == waitNotDue:
		if v.dueAt(int(e.at)).IsZero() {
			return v.onConfig
		}
		return nil
	case e.member >= 0:
		x := &v.works[e.at]
		_, _, on := v.nextRun(x, int(e.member), v.now)
		return on
	case e.kind == waitHookWithoutVersion:
		_, on := v.latest.onHook(v, v.latest.idleHook(v, v.span(v.pending[e.at])), v.now)
		return on
	}
	_, on := v.endOfQueue(v.openOn(v.pending[e.at]), v.resources[v.pending[e.at]], v.dueAt(int(e.at)))
	return on
}

// openOn returns the open execution of the environment on a resource, nil if there is none.
func (v *view) openOn(resource int32) *work {
	k, open := slices.BinarySearchFunc(v.works, v.resources[resource], func(w work, name string) int { return strings.Compare(w.name, name) })
	if !open {
		return nil
	}
	return &v.works[k]
}

// nextRun decides about the next run of the k-th member of an execution, which waits or has failed:
// what it waits for, until when, and what can help.
func (v *view) nextRun(w *work, k int, now time.Time) (reason Reason, until time.Time, on []Condition) {
	h := w.halted()
	reason, blockers := w.verdict(k, h, nil, now, nil)
	switch reason {
	case ReasonFailedHolding:
		until, on = v.haltOf(w, h, now)
	case ReasonHookWithoutVersion:
		on = []Condition{w.onOperator()}
	case ReasonWaitsForMembers:
		until = after(w.Members[k].RetryAt, now)
		for _, i := range blockers {
			on = append(on, w.onMember(i))
		}
	}
	return reason, until, on
}

// after returns at if it is after now, else zero.
func after(at, now time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return time.Time{}
}
