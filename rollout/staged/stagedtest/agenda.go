package stagedtest

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// happening is something that is to come: the end of an attempt, an answer, or a change.
type happening struct {
	at     time.Time
	number int // in the order in which they were put on the agenda
	ends   staged.Token
	answer staged.Command
	change *Change
}

// agenda is what is to come, the next first: a heap.
type agenda []happening

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, k int) { a[i], a[k] = a[k], a[i] }
func (a agenda) Less(i, k int) bool {
	return cmp.Or(a[i].at.Compare(a[k].at), cmp.Compare(a[i].number, a[k].number)) < 0
}
func (a *agenda) Push(x any) { *a = append(*a, x.(happening)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// due reports whether the next of it comes at an instant, or should have come before.
func (a agenda) due(now time.Time) bool { return len(a) > 0 && !a[0].at.After(now) }

// await puts something on its agenda.
func (r *running) await(at time.Time, h happening) {
	r.numbered++
	h.at, h.number = at, r.numbered
	if h.change != nil {
		heap.Push(&r.changing, h)
	} else {
		heap.Push(&r.coming, h)
	}
}

// next returns when the next thing happens, and whether anything does. What should have happened
// before now happens now.
func (r *running) next() (at time.Time, any bool) {
	for _, list := range [...]agenda{r.coming, r.changing} {
		switch {
		case list.due(r.now):
			return r.now, true
		case len(list) > 0 && (!any || list[0].at.Before(at)):
			at, any = list[0].at, true
		}
	}
	return at, any
}

// happen collects what is due for the next step. What targets do is observed in the order of their
// names, and what changes show after it.
func (r *running) happen() staged.Input {
	seen := r.seen
	r.seen = nil
	var answers []staged.Command
	for r.coming.due(r.now) {
		if due := heap.Pop(&r.coming).(happening); due.answer.Kind != "" {
			answers = append(answers, due.answer)
		} else if own := r.attempts[due.ends.Target]; own.token == due.ends {
			seen = append(seen, r.observed(own.token, own.outcome))
		}
	}
	var changed staged.Input
	for r.changing.due(r.now) {
		due := r.changing[0].change
		more := due.Do(r.run)
		if more.State != "" && changed.State != "" && more.State != changed.State {
			break // it stays on the agenda for a further step
		}
		heap.Pop(&r.changing)
		r.timeline.change(r.now, due.What)
		changed.State = cmp.Or(more.State, changed.State)
		changed.Commands = append(changed.Commands, more.Commands...)
		changed.Added = append(changed.Added, more.Added...)
		changed.Leaving = append(changed.Leaving, more.Leaving...)
		changed.Removed = append(changed.Removed, more.Removed...)
		changed.Observations = append(changed.Observations, more.Observations...)
	}
	slices.SortStableFunc(seen, func(a, b staged.Observation) int { return strings.Compare(a.Target, b.Target) })
	changed.Commands = append(answers, changed.Commands...)
	changed.Observations = append(seen, changed.Observations...)
	return changed
}
