package concurrency

import (
	"container/heap"
	"slices"
)

// walk is one call of Admit.
type walk struct {
	*Queue
	lines    spot
	back     []int32 // refused with a reservation: they go back into their lines
	started  []string
	admitted []Admitted
}

// next brings to the top the line whose head comes first, among the live lines and those that wait
// where a place is free, and reports whether there is one. It does not look at lines that wait
// where no place is left.
func (w *walk) next() bool {
	for len(w.open) > 0 {
		last := len(w.open) - 1
		at := w.open[last]
		w.open, w.opened[at] = w.open[:last], false
		w.look(at)
	}
	return len(w.lines) > 0
}

// look revives the lines that wait at a spot: for a key all of them, and for a place the first one,
// which stands for the others until it is no longer before them: see touch.
func (w *walk) look(at int) {
	if at >= len(w.ledger.pools) {
		for len(w.spots[at]) > 0 {
			l := w.spots[at][0]
			w.revive(l)
			w.touch(l)
		}
		return
	}
	if len(w.spots[at]) > 0 && w.ledger.pools[at].refusal(false) == "" {
		l := w.spots[at][0]
		w.revive(l)
		l.from = at
		w.touch(l)
	}
}

// step decides on the first candidate of the first line.
func (w *walk) step(l *line) {
	id := l.ids[0]
	c := &w.waiting[id].Candidate
	who := w.resource(c.Resource)
	if refusals := w.ledger.ask(nil, who, c); len(refusals) > 0 {
		w.refuse(l, id, who, refusals)
		return
	}
	w.take(l)
	before := w.places(c.Needs)
	w.admit(id, w.reason(id))
	w.forget(id)
	w.started = append(w.started, c.Resource)
	if w.places(c.Needs) != before {
		// What the start took is free for other candidates of the resource, or an exclusive pool
		// keeps them out. Candidates before it have had their turn.
		w.sort(c.Resource, id)
	}
}

// sortStarted sorts the candidates that wait on resources with a start, once per resource, because
// several candidates of one may have started.
func (w *walk) sortStarted() {
	slices.Sort(w.started)
	w.started = slices.Compact(w.started)
	for _, resource := range w.started {
		w.sort(resource, none)
	}
}

// places returns how many places and keyed places are taken in some pools, and how many leases in
// exclusive ones. A start that takes none does not change what any other candidate needs.
func (q *Queue) places(pools []int32) int {
	n := 0
	for _, pool := range pools {
		p := &q.ledger.pools[pool]
		if n += p.active + int(p.keyed); p.exclusive {
			n += int(p.starts)
		}
	}
	return n
}

func (w *walk) refuse(l *line, id, who int32, refusals []Refusal) {
	hopeless := slices.ContainsFunc(refusals, func(r Refusal) bool { return r.Reason.isLasting() })
	if hopeless || !l.strict && !l.alone {
		w.park(l, refusals[0])
		return
	}
	w.take(l)
	w.back = append(w.back, id)
	w.ledger.reserve(who, &w.waiting[id].Candidate, refusals)
	if l.at >= 0 && !slices.ContainsFunc(l.needs, func(pool int32) bool {
		return w.ledger.hasRoom(&w.ledger.pools[pool])
	}) {
		heap.Remove(&w.lines, l.at) // nothing is left to be reserved
	}
}

func (w *walk) admit(id int32, reason Reason) {
	c := &w.waiting[id].Candidate
	for _, pool := range c.Needs {
		if p := &w.ledger.pools[pool]; p.family != none && p.keyed == 0 {
			w.wakeAt(len(w.ledger.pools) + int(p.family)) // who waits for the key of this pool needs none any more
		}
	}
	claims := w.ledger.take(nil, w.resource(c.Resource), c)
	w.admitted = append(w.admitted, Admitted{Candidate: id, Reason: reason, Claims: claims})
}

// reason returns why a candidate may start, if it may.
func (q *Queue) reason(id int32) Reason {
	c := &q.waiting[id].Candidate
	who := q.resource(c.Resource)
	if reason := q.ledger.free(who, c); reason != "" {
		return reason
	}
	return q.ledger.reason(who, c)
}

// resource returns the number of a resource with places, or none.
func (q *Queue) resource(name string) int32 {
	return q.ledger.resources.find(name, hash(name))
}
