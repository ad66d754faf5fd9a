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

// next returns when the next of it comes, and whether anything does. What should have happened before
// now happens now.
func (a agenda) next(now time.Time) (at time.Time, any bool) {
	switch {
	case len(a) == 0:
		return time.Time{}, false
	case a[0].at.Before(now):
		return now, true
	}
	return a[0].at, true
}

// await puts something on the agenda.
func (r *running) await(at time.Time, h happening) {
	r.numbered++
	h.at, h.number = at, r.numbered
	heap.Push(&r.coming, h)
}

// happen collects what is due for the next step. What targets do is observed in the order of their
// names, and what changes show after it.
func (r *running) happen() staged.Input {
	seen := r.seen
	r.seen = nil
	var answers []staged.Command
	var changes []happening
	for len(r.coming) > 0 && !r.coming[0].at.After(r.now) {
		switch due := heap.Pop(&r.coming).(happening); {
		case due.change != nil:
			changes = append(changes, due)
		case due.answer.Kind != "":
			answers = append(answers, due.answer)
		default:
			if own := r.attempts[due.ends.Target]; own.token == due.ends {
				seen = append(seen, r.observed(own.token, own.outcome))
			}
		}
	}
	var changed staged.Input
	for k, due := range changes {
		more := due.change.Do(r.run)
		if more.State != "" && changed.State != "" && more.State != changed.State {
			for _, rest := range changes[k:] {
				heap.Push(&r.coming, rest)
			}
			break
		}
		r.change(r.now, due.change.What)
		changed.State = cmp.Or(more.State, changed.State)
		changed.Commands = append(changed.Commands, more.Commands...)
		changed.Added = append(changed.Added, more.Added...)
		changed.Leaving = append(changed.Leaving, more.Leaving...)
		changed.Removed = append(changed.Removed, more.Removed...)
		changed.Observations = append(changed.Observations, more.Observations...)
	}
	return r.input(seen, answers, changed)
}

// input joins what targets and people do with what changes.
func (r *running) input(seen []staged.Observation, answers []staged.Command, changed staged.Input) staged.Input {
	slices.SortStableFunc(seen, func(a, b staged.Observation) int { return strings.Compare(a.Target, b.Target) })
	changed.Commands = append(answers, changed.Commands...)
	changed.Observations = append(seen, changed.Observations...)
	return changed
}
