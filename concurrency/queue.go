package concurrency

import (
	"container/heap"
	"fmt"
	"strconv"
	"time"
)

// Queue is [Plan] made incremental: it keeps the waiting candidates and the leases of all pools
// between events, so that the end of a lease or a new candidate costs no pass over the fleet.
// [Queue.Admit] admits exactly the candidates that Plan would admit on the same leases and the same
// waiting candidates.
//
// A Queue follows two kinds of events, a new candidate and the end of a lease. After any other
// change (a limit, a total, an unavailable resource, a stuck lease, a [Rate] that lets members begin
// again, a conflict in the store) make a new Queue, as at the start. What its own admissions use of
// a Rate stays used. It never forgets a resource that had a place: where resources come and go by
// the million, make a new Queue now and then, too. A Queue is not safe for concurrent use, and the
// zero value is not valid.
//
// Candidates that need the same places wait in one line, and a line that cannot move waits at the
// pool that refuses it. An event looks only at the waiting candidates of its own resource, all of
// them, and, at the pools in which a place became free, at the heads of the lines. So a Queue is
// for resources of which each has tens of candidates, each with tens of pools; where one has
// thousands, use [Plan]. In lines with a strict pool, reservations are made anew each time, which
// costs a step per place that is left or reserved.
type Queue struct {
	ledger  *ledger
	keys    []string         // of the pools
	waiting []waiting        // by id; ids are reused after the candidate has left
	unused  []int32          // ids that no candidate has
	same    map[string]int32 // resource → its first waiting candidate
	lines   map[string]*line // by what its candidates need
	live    map[*line]bool   // lines that may move
	spots   []spot           // lines that wait: per pool, then per family
	open    []int            // spots where a place may have become free
	opened  []bool           // of spots: it is among open
	free    *line            // line of the candidates that consume nothing
	empty   []*line          // lines that may be empty
	walk    *walk            // during Admit

	excluded *line // line of those that an exclusive pool keeps out: it never moves, they leave it
}

// NewQueue returns a queue without candidates, on the snapshot's leases. The snapshot is neither
// modified nor kept. The error joins one *[FieldError] per contradiction in it, or for a missing
// now, as that of [Plan] does.
func NewQueue(snapshot Snapshot, now time.Time) (*Queue, error) {
	if err := snapshot.validate(now); err != nil {
		return nil, err
	}
	l := newLedger(snapshot, nil, now)
	q := &Queue{
		ledger: l,
		same:   make(map[string]int32),
		lines:  make(map[string]*line),
		live:   make(map[*line]bool),
		spots:  make([]spot, len(l.pools)+len(l.families)),
		opened: make([]bool, len(l.pools)+len(l.families)),
	}
	l.summaries = nil // a queue does not report them
	for i := range snapshot.Pools {
		q.keys = append(q.keys, snapshot.Pools[i].Key)
	}
	q.free = &line{q: q, spot: -1, from: -1, at: -1}
	q.excluded = &line{q: q, key: excluded, spot: -1, from: -1, at: -1}
	return q, nil
}

// Len returns how many candidates wait.
func (q *Queue) Len() int { return len(q.waiting) - len(q.unused) }

// Add adds a waiting candidate and returns its id, which no other candidate has until this one is
// admitted or removed. The Queue keeps its Needs, which must not be modified until then. The error
// joins one *[FieldError] per fault of the candidate.
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
	q.sort(c.Resource, none)
	q.sweep()
	return id, nil
}

// Remove removes a waiting candidate. If no candidate has the id, the error is a *[FieldError].
func (q *Queue) Remove(id int32) error {
	if id < 0 || int(id) >= len(q.waiting) || q.waiting[id].line == nil {
		return &FieldError{Path: "id", Code: CodeUnknownValue, Value: strconv.Itoa(int(id)), Hint: "no candidate waits with it"}
	}
	resource := q.waiting[id].Resource
	q.leave(id)
	q.forget(id)
	q.sort(resource, none)
	q.sweep()
	return nil
}

// Release ends the holder's lease in a pool, or its job without a lease. The claims of later
// admissions carry revision, at which the record without the lease was stored. The error is
// [ErrFenced] if the holder holds nothing there, and a *[FieldError] if the index names no pool.
func (q *Queue) Release(pool int32, h Holder, revision uint64) error {
	if err := q.checkPool(pool); err != nil {
		return err
	}
	p := &q.ledger.pools[pool]
	active, keyed := p.active, p.keyed
	covered, held := q.ledger.release(pool, h)
	if !held {
		return fmt.Errorf("%w: %s holds nothing in pool %s", ErrFenced, h, q.keys[pool])
	}
	p.revision = revision
	if p.active < active || p.keyed < keyed {
		q.wake(int(pool), p.keyed == 0)
	}
	q.sort(h.Resource, none)
	if covered != "" { // its lease counts no more
		q.sort(covered, none)
	}
	q.sweep()
	return nil
}

// Stored sets the revision at which a pool's record was stored with the admissions so far: the
// claims of later admissions carry it. If the index names no pool, the error is a *[FieldError].
func (q *Queue) Stored(pool int32, revision uint64) error {
	if err := q.checkPool(pool); err != nil {
		return err
	}
	q.ledger.pools[pool].revision = revision
	return nil
}

func (q *Queue) checkPool(pool int32) error {
	if uint(pool) >= uint(len(q.ledger.pools)) {
		return &FieldError{Path: "pool", Code: CodeOutOfRange, Value: strconv.Itoa(int(pool)), Hint: fmt.Sprintf("must be an index of the %d pools", len(q.ledger.pools))}
	}
	return nil
}

// Admit returns the candidates that [Plan] would admit now, in the same order. They hold their
// leases from now on and wait no more. The Candidate of each is the id that [Queue.Add] returned.
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
	}
	for l := range q.live {
		q.touch(l)
	}
	w.sortStarted()
	for w.next() {
		w.step(w.lines[0])
	}
	q.walk = nil
	for _, id := range w.back {
		heap.Push(q.waiting[id].line, id)
	}
	q.ledger.settle()
	w.sortStarted()
	q.sweep()
	return w.admitted
}
