package concurrency

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Queue is [Plan] kept between events: it holds the candidates that wait and the leases of all pools, so that one end or one new
// candidate costs no pass over the fleet. [Queue.Admit] admits exactly whom Plan would admit on the same leases and the
// same waiting candidates.
//
// It knows two kinds of events, a new candidate and the end of a lease. After any other (a limit, a total, an unavailable
// resource, a stuck lease, a conflict in the store) a new Queue is made, as it is at the start. A Queue is for one goroutine.
//
// Candidates that need the same places wait in one line, and a line that cannot move waits at the pool that refuses it.
// An event looks only at the lines of the pools in which a place became free, and at the head of each. Lines with a
// strict pool are the exception: their reservations are made anew each time, which costs a step per place that is left or
// reserved.
type Queue struct {
	ledger  *ledger
	keys    []string  // of the pools
	waiting []waiting // by id; ids are given again after the candidate has left
	unused  []int32
	same    map[string]int32 // resource → its first waiting candidate
	lines   map[string]*line // by what its candidates need
	live    map[*line]bool   // those that may move
	spots   []spot           // those that wait: per pool, then per family
	open    []int            // spots where a place may have become free
	free    *line            // of those who consume nothing
	empty   []*line          // those that may be empty
	walk    *walk            // during Admit
	count   int
}

// waiting is a candidate in a line.
type waiting struct {
	Candidate
	line   *line
	at     int   // index in the line's heap; -1: taken out for the moment
	before int32 // another candidate of the resource
	key    string
}

// line is a heap of candidates that need places in the same pools, the first in order on top.
type line struct {
	q      *Queue
	ids    []int32
	key    string
	needs  []int32 // pools in which they consume, by key; empty: the line of those who consume nothing
	strict bool
	alone  bool // of one candidate, which may start on a place reserved for another one of its resource
	spot   int  // where it waits; -1: it is live
	at     int  // index in the heap of a walk or of its spot; -1: in none
}

// NewQueue returns a queue without candidates, on the snapshot's leases. The snapshot is neither modified nor kept.
func NewQueue(snapshot Snapshot, now time.Time) (*Queue, error) {
	if err := snapshot.validate(); err != nil {
		return nil, err
	}
	l := newLedger(snapshot, nil, now)
	q := &Queue{
		ledger: l,
		same:   make(map[string]int32),
		lines:  make(map[string]*line),
		live:   make(map[*line]bool),
		spots:  make([]spot, len(l.pools)+len(l.families)),
	}
	for i := range snapshot.Pools {
		q.keys = append(q.keys, snapshot.Pools[i].Key)
	}
	q.free = &line{q: q, spot: -1, at: -1}
	return q, nil
}

// Len returns how many candidates wait.
func (q *Queue) Len() int { return q.count }

// Waiting returns a candidate that waits, by the id that Add gave.
func (q *Queue) Waiting(id int32) (Candidate, bool) {
	if id < 0 || int(id) >= len(q.waiting) || q.waiting[id].line == nil {
		return Candidate{}, false
	}
	return q.waiting[id].Candidate, true
}

// Add lets a candidate wait and returns its id, which is its own until it is admitted or removed. Needs are kept and must not be
// modified until then.
func (q *Queue) Add(c Candidate) (int32, error) {
	if err := checkCandidates([]Candidate{c}, len(q.ledger.pools)); err != nil {
		return 0, err
	}
	var id int32
	if n := len(q.unused); n > 0 {
		id, q.unused = q.unused[n-1], q.unused[:n-1]
	} else {
		id = int32(len(q.waiting))
		q.waiting = append(q.waiting, waiting{})
	}
	first, ok := q.same[c.Resource]
	if !ok {
		first = none
	}
	q.waiting[id] = waiting{Candidate: c, before: first}
	q.same[c.Resource] = id
	q.count++
	q.sort(c.Resource, none)
	q.sweep()
	return id, nil
}

// Remove takes back a candidate that waits. An id that is not in use is an error.
func (q *Queue) Remove(id int32) error {
	if _, ok := q.Waiting(id); !ok {
		return fmt.Errorf("concurrency: no candidate waits with id %d", id)
	}
	resource := q.waiting[id].Resource
	q.leave(id)
	q.forget(id)
	q.sort(resource, none)
	q.sweep()
	return nil
}

// Release ends the holder's lease, or its job without a lease, in a pool, and tells the revision at which the record without
// it was stored: the claims of later admissions carry it. A holder that is not there is an error.
func (q *Queue) Release(pool int, h Holder, revision uint64) error {
	if pool < 0 || pool >= len(q.ledger.pools) {
		return fmt.Errorf("concurrency: no pool %d of %d", pool, len(q.ledger.pools))
	}
	p := &q.ledger.pools[pool]
	before := p.active
	if !q.ledger.release(int32(pool), h) {
		return fmt.Errorf("%w: %s %s holds nothing in pool %s", ErrFenced, h.Resource, h.Group, q.keys[pool])
	}
	p.revision = revision
	if p.active < before {
		q.wake(pool, p.active == 0)
	}
	q.sort(h.Resource, none)
	if q.ledger.stalled != nil {
		for _, other := range q.ledger.stalled[pool].leases { // the allowance may have gone to the next one, which counts no more
			q.sort(other.holder.Resource, none)
		}
	}
	q.sweep()
	return nil
}

// Stored tells the revision at which a pool's record was stored with the admissions so far: the claims of later admissions
// carry it. An index that names no pool is an error.
func (q *Queue) Stored(pool int, revision uint64) error {
	if pool < 0 || pool >= len(q.ledger.pools) {
		return errors.New("concurrency: no such pool")
	}
	q.ledger.pools[pool].revision = revision
	return nil
}

// Admit returns whom [Plan] would admit now, in the same order. They hold their leases from now on and wait no more; their
// Candidate is the id that Add gave.
func (q *Queue) Admit() []Admitted {
	w := &walk{Queue: q}
	q.walk = w
	var ids []int32
	var reasons []Reason
	for len(q.free.ids) > 0 {
		ids = append(ids, q.take(q.free))
		reasons = append(reasons, q.reason(ids[len(ids)-1]))
	}
	for i, id := range ids {
		w.admit(id, reasons[i])
		w.started = append(w.started, q.waiting[id].Resource)
		q.forget(id)
		for _, pool := range q.waiting[id].Needs {
			if f := q.ledger.pools[pool].family; f != none {
				q.wakeAt(len(q.ledger.pools) + int(f)) // it may have made a key active without asking for it
			}
		}
	}
	for l := range q.live {
		q.touch(l)
	}
	w.inOrder = true
	for _, resource := range w.started {
		q.sort(resource, none)
	}
	for w.next() {
		w.step(w.lines[0])
	}
	q.walk, q.open = nil, q.open[:0]
	for _, id := range w.back {
		heap.Push(q.waiting[id].line, id)
	}
	q.ledger.settle()
	for _, resource := range w.started {
		q.sort(resource, none)
	}
	q.sweep()
	return w.admitted
}

// walk is one Admit.
type walk struct {
	*Queue
	lines    spot
	back     []int32 // refused with a reservation: they go back into their lines
	started  []string
	inOrder  bool // those who consume nothing on the leases from before are through
	admitted []Admitted
}

// next brings the line with the first head of all to the top: of those that are live, and of those that wait where a place is free.
// Where no place is left they go on waiting, unseen.
func (w *walk) next() bool {
	for i := 0; i < len(w.open); i++ {
		at := w.open[i]
		waiting := &w.spots[at]
		for len(*waiting) > 0 && (at >= len(w.ledger.pools) || w.ledger.pools[at].refusal(false) == "") {
			l := (*waiting)[0]
			if len(w.lines) > 0 && at < len(w.ledger.pools) && w.compare(w.lines[0].ids[0], l.ids[0]) < 0 {
				break
			}
			w.revive(l)
			w.touch(l)
		}
	}
	return len(w.lines) > 0
}

// step decides on the first candidate of the first line.
func (w *walk) step(l *line) {
	id := l.ids[0]
	c := &w.waiting[id].Candidate
	who := w.resource(c.Resource)
	reason := w.reason(id)
	if refusals := w.ledger.ask(nil, who, c); len(refusals) > 0 {
		w.refuse(l, id, who, refusals)
		return
	}
	w.take(l)
	w.admit(id, reason)
	w.forget(id)
	// What the start took is free for other candidates of the resource. Those who came before it have had their turn.
	w.started = append(w.started, c.Resource)
	w.sort(c.Resource, id)
}

func (w *walk) refuse(l *line, id, who int32, refusals []Refusal) {
	hopeless := slices.ContainsFunc(refusals, func(r Refusal) bool { return r.Reason.On() == "config" })
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
	claims := w.ledger.take(nil, w.resource(c.Resource), c)
	w.admitted = append(w.admitted, Admitted{Candidate: id, Reason: reason, Claims: claims})
}

// touch follows a change of a line's head, or that it became live or was parked.
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
	switch {
	case stays && l.at < 0:
		heap.Push(&w.lines, l)
	case stays:
		heap.Fix(&w.lines, l.at)
	case l.at >= 0:
		heap.Remove(&w.lines, l.at)
	}
}

// reason is why a candidate that is refused nowhere may start.
func (q *Queue) reason(id int32) Reason {
	c := &q.waiting[id].Candidate
	who := q.resource(c.Resource)
	if who != none && len(c.Needs) > 0 {
		if reason := q.ledger.free(who, c); reason != "" {
			return reason
		}
	}
	return q.ledger.reason(who, c)
}

// resource returns the number of a resource with places, or none.
func (q *Queue) resource(name string) int32 {
	return q.ledger.down.find(name, hash(name))
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

// thin follows the departure of a candidate from a line.
func (q *Queue) thin(l *line) {
	q.touch(l)
	if len(l.ids) == 0 && l != q.free {
		q.empty = append(q.empty, l)
	}
}

// sweep removes the lines that stayed empty.
func (q *Queue) sweep() {
	for _, l := range q.empty {
		if len(l.ids) == 0 && q.lines[l.key] == l {
			q.unpark(l)
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
	q.count--
	q.unused = append(q.unused, id)
}

// wake lets the next walk look at the lines that wait at the pool or, if a key became free, at its family.
func (q *Queue) wake(pool int, key bool) {
	q.wakeAt(pool)
	if f := q.ledger.pools[pool].family; key && f != none {
		q.wakeAt(len(q.ledger.pools) + int(f))
	}
}

func (q *Queue) wakeAt(spot int) {
	if !slices.Contains(q.open, spot) {
		q.open = append(q.open, spot)
	}
}

func (q *Queue) revive(l *line) {
	q.unpark(l)
	q.live[l] = true
}

func (q *Queue) park(l *line, r Refusal) {
	heap.Remove(&q.walk.lines, l.at)
	delete(q.live, l)
	l.spot = int(r.Pool)
	if p := &q.ledger.pools[r.Pool]; p.refusal(false) == "" {
		l.spot = len(q.ledger.pools) + int(p.family)
		// All keys are taken: nobody who waits for one is to be seen again in this walk.
		q.open = slices.DeleteFunc(q.open, func(spot int) bool { return spot == l.spot })
	}
	heap.Push(&q.spots[l.spot], l)
}

func (q *Queue) unpark(l *line) {
	if l.spot >= 0 {
		heap.Remove(&q.spots[l.spot], l.at)
		l.spot = -1
	}
}

// sort puts the waiting candidates of a resource into the lines they belong to: all of them, or those after the one with id cursor.
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
		strict = strict || q.strict(w)
		mixed = mixed || w.key != q.waiting[head].key
	}
	for id := head; id != none; id = q.waiting[id].before {
		w := &q.waiting[id]
		if cursor != none && q.compare(id, cursor) < 0 {
			if w.at >= 0 { // had its turn: it must not get another one with its needs as they are now
				heap.Remove(w.line, w.at)
				w.at = -1
				q.thin(w.line)
				q.walk.back = append(q.walk.back, id)
			}
			continue
		}
		key, alone := w.key, mixed && strict && w.key != ""
		if alone {
			key += fmt.Sprintf("#%d", id)
		}
		if w.line != nil && w.line.key == key && w.at >= 0 {
			continue
		}
		q.leave(id)
		w.line = q.lineOf(key, w, alone)
		heap.Push(w.line, id)
		if w.at == 0 && w.line.spot >= 0 { // it comes before those for whom a place was reserved
			q.revive(w.line)
		}
		q.touch(w.line)
	}
}

// lineOf finds or makes the line of a candidate.
func (q *Queue) lineOf(key string, w *waiting, alone bool) *line {
	if key == "" {
		return q.free
	}
	l, ok := q.lines[key]
	if !ok {
		l = &line{q: q, key: key, needs: q.consumes(w), strict: q.strict(w), alone: alone, spot: -1, at: -1}
		q.lines[key] = l
		q.live[l] = true
	}
	return l
}

// consumes returns the pools in which the candidate takes a place, by key.
func (q *Queue) consumes(w *waiting) []int32 {
	who := q.resource(w.Resource)
	var pools []int32
	for _, pool := range q.ledger.ordered(w.Needs) {
		if at := q.ledger.placeIn(who, pool); at == none || !q.ledger.places[at].down {
			pools = append(pools, pool)
		}
	}
	return pools
}

// key says what a candidate needs; empty: nothing.
func (q *Queue) key(who int32, w *waiting) string {
	free := len(w.Needs) == 0 || who != none && q.ledger.free(who, &w.Candidate) != ""
	if free && (q.walk == nil || !q.walk.inOrder) {
		return ""
	}
	key := []byte{'.'}
	if q.strict(w) {
		key[0] = '!'
	}
	for _, pool := range q.ledger.ordered(w.Needs) {
		kind := byte('+')
		if at := q.ledger.placeIn(who, pool); at != none && q.ledger.places[at].down {
			if q.ledger.places[at].counting {
				continue
			}
			kind = '=' // takes no place, but may need a key
		}
		key = append(key, kind, byte(pool), byte(pool>>8), byte(pool>>16), byte(pool>>24))
	}
	if len(key) == 1 {
		return ""
	}
	return string(key)
}

func (q *Queue) strict(w *waiting) bool {
	return slices.ContainsFunc(w.Needs, func(pool int32) bool { return q.ledger.pools[pool].strict })
}

// compare is the order of admission.
func (q *Queue) compare(a, b int32) int {
	x, y := &q.waiting[a], &q.waiting[b]
	return cmp.Or(compareCandidates(q.ledger, &x.Candidate, &y.Candidate), cmp.Compare(a, b))
}

// The heap of a line.

func (l *line) Len() int           { return len(l.ids) }
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

// spot is a heap of lines, by their heads.
type spot []*line

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
