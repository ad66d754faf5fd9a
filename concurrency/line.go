package concurrency

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
)

// waiting is a candidate in a line.
type waiting struct {
	Candidate
	line   *line
	at     int   // index in the line's heap; -1: taken out for the moment
	before int32 // the resource's candidate added before, or none
	key    string
}

// line is a heap of candidates that need places in the same pools, the first in order on top.
type line struct {
	q      *Queue
	ids    []int32
	key    string
	needs  []int32 // pools in which its candidates take a place, by key; empty for candidates that consume nothing
	strict bool
	alone  bool // it has one candidate, which may start on a place reserved for another candidate of its resource
	spot   int  // index of the spot where it waits; -1: it is live
	from   int  // index of the pool's spot where the others wait for which it stands in a walk; -1: there are none
	at     int  // index in the heap of a walk or of its spot; -1: in none
}

// spot is a heap of lines, ordered by their heads.
type spot []*line

// sort puts the waiting candidates of a resource into the lines they belong to: all of them, or, if
// cursor is not none, those from the candidate with id cursor on.
func (q *Queue) sort(resource string, cursor int32) {
	head, ok := q.same[resource]
	if !ok {
		return
	}
	who := q.resource(resource)
	strict, mixed := false, false
	for id := head; id != none; id = q.waiting[id].before {
		w := &q.waiting[id]
		w.key = q.key(who, w)
		strict = strict || q.ledger.strictIn(w.Needs)
		mixed = mixed || w.key != q.waiting[head].key
	}
	for id := head; id != none; id = q.waiting[id].before {
		w := &q.waiting[id]
		if cursor != none && q.compare(id, cursor) < 0 {
			continue // had its turn: it must not get another one with its needs as they are now
		}
		key, alone := w.key, mixed && strict && w.key != "" && w.key != excluded
		if alone {
			key += fmt.Sprintf("#%d", id)
		}
		if w.line != nil && w.line.key == key && w.at >= 0 {
			continue
		}
		q.leave(id)
		w.line = q.lineOf(key, w, alone)
		heap.Push(w.line, id)
		if w.at == 0 && w.line.spot >= 0 { // it comes before the candidates for which a place was reserved
			q.revive(w.line)
		}
		q.touch(w.line)
	}
}

// lineOf finds or makes the line of a candidate.
func (q *Queue) lineOf(key string, w *waiting, alone bool) *line {
	switch key {
	case "":
		return q.free
	case excluded:
		return q.excluded
	}
	l, ok := q.lines[key]
	if !ok {
		l = &line{q: q, key: key, needs: q.consumes(w), strict: q.ledger.strictIn(w.Needs), alone: alone, spot: -1, from: -1, at: -1}
		q.lines[key] = l
		q.live[l] = true
	}
	return l
}

// excluded is the key of the candidates that wait for the group that is at work on their resource.
const excluded = "-"

// key encodes what a candidate needs, empty if nothing.
func (q *Queue) key(who int32, w *waiting) string {
	if q.ledger.free(who, &w.Candidate) != "" {
		return ""
	}
	for _, pool := range w.Needs {
		if at := q.ledger.placeIn(who, pool); at != none && q.ledger.pools[pool].exclusive && q.ledger.excludes(at, w.Group) {
			return excluded
		}
	}
	key := []byte{'.'}
	if q.ledger.strictIn(w.Needs) {
		key[0] = '!'
	}
	for _, pool := range q.ledger.ordered(w.Needs) {
		kind := byte('+')
		if at := q.ledger.placeIn(who, pool); at != none && q.ledger.places[at].down() {
			if q.ledger.places[at].keyed || q.ledger.pools[pool].family == none {
				continue
			}
			kind = '=' // takes no place, but may need a key
		}
		key = append(key, kind, byte(pool), byte(pool>>8), byte(pool>>16), byte(pool>>24))
	}
	return string(key) // at least one pool is in it, or the candidate would be free
}

// consumes returns the pools in which the candidate takes a place, by key.
func (q *Queue) consumes(w *waiting) []int32 {
	who := q.resource(w.Resource)
	var pools []int32
	for _, pool := range q.ledger.ordered(w.Needs) {
		if at := q.ledger.placeIn(who, pool); at == none || !q.ledger.places[at].down() {
			pools = append(pools, pool)
		}
	}
	return pools
}

// compare is the order of admission.
func (q *Queue) compare(a, b int32) int {
	x, y := &q.waiting[a], &q.waiting[b]
	return cmp.Or(compareCandidates(q.ledger, &x.Candidate, &y.Candidate), cmp.Compare(a, b))
}

// take takes the first candidate out of its line.
func (q *Queue) take(l *line) int32 {
	id := heap.Pop(l).(int32)
	q.waiting[id].at = -1
	q.thin(l)
	return id
}

// leave takes a candidate out of its line wherever it is. What it may have reserved becomes free.
func (q *Queue) leave(id int32) {
	w := &q.waiting[id]
	l := w.line
	if l == nil || w.at < 0 {
		return
	}
	heap.Remove(l, w.at)
	w.at = -1
	q.thin(l)
	if l.strict {
		for _, pool := range l.needs {
			q.wake(int(pool), true)
		}
	}
}

// thin updates what depends on a line after a candidate left it.
func (q *Queue) thin(l *line) {
	q.touch(l)
	if len(l.ids) == 0 {
		q.empty = append(q.empty, l)
	}
}

// sweep removes the lines that stayed empty.
func (q *Queue) sweep() {
	for _, l := range q.empty {
		if len(l.ids) == 0 && q.lines[l.key] == l { // and it waits at no pool: see touch
			delete(q.live, l)
			delete(q.lines, l.key)
		}
	}
	q.empty = q.empty[:0]
}

// forget removes a candidate that is in no line any more.
func (q *Queue) forget(id int32) {
	w := &q.waiting[id]
	if q.same[w.Resource] == id {
		if w.before == none {
			delete(q.same, w.Resource)
		} else {
			q.same[w.Resource] = w.before
		}
	} else {
		at := q.same[w.Resource]
		for q.waiting[at].before != id {
			at = q.waiting[at].before
		}
		q.waiting[at].before = w.before
	}
	w.line = nil
	q.unused = append(q.unused, id)
}

// touch updates the heap that a line is in, after its head changed or it became live or was parked.
func (q *Queue) touch(l *line) {
	if l.spot >= 0 {
		if len(l.ids) > 0 {
			heap.Fix(&q.spots[l.spot], l.at)
			return
		}
		q.revive(l) // an empty line has no head to be ordered by
	}
	w := q.walk
	if w == nil {
		return
	}
	stays := len(l.ids) > 0 && (q.live[l] || l == q.free)
	if l.from >= 0 && !(stays && q.leads(l)) {
		q.stepDown(l)
	}
	switch {
	case stays && l.at < 0:
		heap.Push(&w.lines, l)
	case stays:
		heap.Fix(&w.lines, l.at)
	case l.at >= 0:
		heap.Remove(&w.lines, l.at)
	}
}

// wake lets the next walk look at the lines that wait at the pool and, if a key became free, at
// those that wait at its family.
func (q *Queue) wake(pool int, key bool) {
	q.wakeAt(pool)
	if f := q.ledger.pools[pool].family; key && f != none {
		q.wakeAt(len(q.ledger.pools) + int(f))
	}
}

func (q *Queue) wakeAt(spot int) {
	if !q.opened[spot] {
		q.open, q.opened[spot] = append(q.open, spot), true
	}
}

// revive takes a line from where it waits.
func (q *Queue) revive(l *line) {
	heap.Remove(&q.spots[l.spot], l.at)
	l.spot = -1
	q.live[l] = true
}

// park lets a line wait for a place in the pool that refuses it, or for a key of the pool's family.
func (q *Queue) park(l *line, r Refusal) {
	heap.Remove(&q.walk.lines, l.at)
	delete(q.live, l)
	q.stepDown(l)
	l.spot = int(r.Pool)
	p := &q.ledger.pools[r.Pool]
	if takes := slices.Contains(l.needs, r.Pool); !takes || p.refusal(false) == "" { // a line that takes no place there waits for a key, however full the pool is
		l.spot = len(q.ledger.pools) + int(p.family)
	}
	heap.Push(&q.spots[l.spot], l)
}

// leads reports whether a line comes before those for which it stands.
func (q *Queue) leads(l *line) bool {
	behind := q.spots[l.from]
	return len(behind) == 0 || q.compare(l.ids[0], behind[0].ids[0]) < 0
}

// stepDown lets the walk look again at the lines for which a line stood.
func (q *Queue) stepDown(l *line) {
	if l.from >= 0 {
		q.wakeAt(l.from)
		l.from = -1
	}
}

// The heap of a line.

func (l *line) Len() int { return len(l.ids) }

func (l *line) Less(i, j int) bool { return l.q.compare(l.ids[i], l.ids[j]) < 0 }

func (l *line) Swap(i, j int) {
	l.ids[i], l.ids[j] = l.ids[j], l.ids[i]
	l.q.waiting[l.ids[i]].at, l.q.waiting[l.ids[j]].at = i, j
}

func (l *line) Push(id any) {
	l.q.waiting[id.(int32)].at = len(l.ids)
	l.ids = append(l.ids, id.(int32))
}

func (l *line) Pop() any {
	id := l.ids[len(l.ids)-1]
	l.ids = l.ids[:len(l.ids)-1]
	return id
}

func (s spot) Len() int { return len(s) }

func (s spot) Less(i, j int) bool {
	return s[i].q.compare(s[i].ids[0], s[j].ids[0]) < 0
}

func (s spot) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].at, s[j].at = i, j
}

func (s *spot) Push(l any) {
	l.(*line).at = len(*s)
	*s = append(*s, l.(*line))
}

func (s *spot) Pop() any {
	l := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	l.at = -1
	return l
}
