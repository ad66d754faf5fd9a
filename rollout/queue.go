package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// Queued is a start that every rule allows, and that waits for capacity alone. The first start of an
// execution of a bracket stands for the whole execution: what else that would run on the resource
// waits with it.
type Queued struct {
	TargetID
	Version string  `json:"version"`
	Purpose Purpose `json:"purpose"`
	Group   string  `json:"group"` // with the resource, the holder that it would be

	// What decides about its place, besides Purpose: the priority of its version, or the highest of
	// those that its execution brings, and since when it is due, as [Plan.Start] has it. Due is zero
	// if it never had to wait for anything.
	Priority int       `json:"priority,omitempty"`
	Due      time.Time `json:"due,omitzero"`

	Pools []string `json:"pools"` // keys of those that have no place for it, in ascending order
}

// String returns "target: purpose version, for pools", for logs.
func (q Queued) String() string {
	text := fmt.Sprintf("%s: %s %s", q.TargetID, textlist.Name(q.Purpose), textlist.Name(q.Version))
	if q.Priority != 0 {
		text += fmt.Sprintf(", priority %d", q.Priority)
	}
	if !q.Due.IsZero() {
		text += ", due since " + q.Due.UTC().Format(time.RFC3339)
	}
	names := make([]string, len(q.Pools))
	for k, key := range q.Pools {
		names[k] = poolName(key)
	}
	return text + ", for " + strings.Join(names, " and ")
}

// QueuePlace is where a start stands among those that wait for one pool.
type QueuePlace struct {
	Pool   string `json:"pool"`   // key
	Before int    `json:"before"` // how many are asked before it: 0 if it is the next
	Of     int    `json:"of"`     // how many wait for the pool, as Waiting of the [Pool] says
}

// String returns "pool: place of how many", counted from 1.
func (p QueuePlace) String() string {
	return fmt.Sprintf("%s: %d of %d", poolName(p.Pool), p.Before+1, p.Of)
}

// Queue returns what waits for capacity alone, in the order in which it is asked: that of
// [Plan.Start]. Who waits for one pool is whoever has its key in Pools. What becomes free goes to
// the first for which it is enough: one that waits for another pool as well is passed over, and
// keeps its place, unless the pool is strict. Who waits for the group that is at work on its
// resource, in an exclusive pool, is not in it. The order is that of this plan. In the next one
// whatever is due by then stands in its own place, such as a version with a higher priority before
// all others with a lower one.
//
// The plan must be the one that [PolicySet.Plan] returned, and its snapshot must not have been
// modified: for a decoded copy the error is [ErrDecodedPlan]. The list is made at each call, and the
// caller owns it. Like [Plan.Explain], Queue must not be called concurrently on one plan.
func (p *Plan) Queue() ([]Queued, error) {
	if p.work == nil {
		return nil, fmt.Errorf("%w: list what is queued", ErrDecodedPlan)
	}
	w := p.work
	list := make([]Queued, len(w.queue))
	for k := range w.queue {
		list[k] = w.queuedAt(k)
	}
	return list, nil
}

// queueing is what waits for capacity alone, in the few bytes that a plan keeps.
type queueing struct {
	queue    []queued // in the order of the batch
	queuedIn []int32  // per pool: how many of them wait for it

	// made for the first explanation that needs them
	queueAt   map[queueKey]int32 // index in queue
	queuedFor map[string][]int32 // per key of a pool: the indices of those that wait for it, ascending
}

// queued is a candidate that capacity refuses.
type queued struct {
	seconds     int64 // due time, as in candidate
	nanoseconds int32
	class       int32 // as work.class returns it
	target      int32
	version     int32
	blockers    blockerList // all of them are about pools
	goesBack    bool
	start       *bracket.Start // nil outside brackets
	execution   *bracketWork   // the bracket of the execution that would begin; else nil
}

// queueKey is what a start in the queue stands for: a target, or a resource of a bracket.
type queueKey struct {
	execution *bracketWork
	at        int32
}

// enqueue notes that capacity refuses a candidate, which in the order of the batch is the at-th of
// those. Of the candidates that would begin one execution, the first is the start: between them may
// be others, of targets on the resource that are no members.
func (w *work) enqueue(at int32, c *candidate, blockers []Verdict, refusals []concurrency.Refusal) {
	own := queued{seconds: c.seconds, nanoseconds: c.nanoseconds, class: w.class(c), target: c.target, version: c.version, goesBack: c.goesBack()}
	if m := c.member; m != nil {
		own.start = m.start
		if m.pending != nil {
			own.execution = m.bracket
			before := m.pending.queued - 1
			if before >= 0 && before < at {
				return
			}
			m.pending.queued = at + 1
			if before >= 0 {
				own.blockers = w.queue[before].blockers
				w.queue[at], w.queue[before] = own, queued{}
				return
			}
		}
	}
	own.blockers = w.list(blockers)
	w.queue[at] = own
	for _, r := range refusals {
		w.queuedIn[r.Pool]++
	}
}

func (w *work) queuedAt(k int) Queued {
	own := &w.queue[k]
	q := Queued{TargetID: w.id(own.target), Purpose: purpose(own.goesBack), Due: time.Unix(own.seconds, int64(own.nanoseconds)).UTC(), Pools: w.poolsOfQueued(own)}
	if own.start != nil {
		q.Version, q.Group = own.start.Version, own.start.Run.Group
	} else {
		q.Version, q.Group = w.version(own.target, own.version).ID, w.groupOf(&w.targets[own.target])
	}
	if own.class > 0 && len(w.priorities) > 0 {
		q.Priority = w.priorities[own.class-1]
	}
	return q
}

// poolsOfQueued returns the keys of the pools that refuse a start, in ascending order.
func (w *work) poolsOfQueued(q *queued) []string {
	blockers := w.blockersOf(q.target, q.blockers)
	keys := make([]string, len(blockers))
	for k := range blockers {
		keys[k] = blockers[k].pool()
	}
	return keys
}

// pool returns the key of the pool that a verdict of slotVerdict is about.
func (v *Verdict) pool() string {
	if v.Reason == Reason(concurrency.SlotKeysFull) { // its events may be those of other pools
		return v.Data.Names[0]
	}
	return v.On[0].Pool
}

// placesOf returns where the start for which a target waits, by itself or as a member, stands in the
// queue, per pool.
func (w *work) placesOf(i int32) (list []QueuePlace) {
	if len(w.queue) == 0 {
		return nil
	}
	if w.queueAt == nil {
		w.indexQueue()
	}
	at, waits := w.queueAt[queueKey{nil, i}]
	if b := w.bracketAt(i); b != nil && !waits {
		at, waits = w.queueAt[queueKey{b, w.targets[i].resource}]
		waits = waits && w.waits[i].blockers == w.queue[at].blockers // else it is no part of the execution
	}
	if !waits {
		return nil
	}
	for _, key := range w.poolsOfQueued(&w.queue[at]) {
		before, _ := slices.BinarySearch(w.queuedFor[key], at)
		list = append(list, QueuePlace{Pool: key, Before: before, Of: len(w.queuedFor[key])})
	}
	return list
}

func (w *work) indexQueue() {
	w.queueAt, w.queuedFor = make(map[queueKey]int32, len(w.queue)), map[string][]int32{}
	for k := range w.queue {
		own := &w.queue[k]
		place := queueKey{own.execution, own.target}
		if own.execution != nil {
			place.at = w.targets[own.target].resource
		}
		w.queueAt[place] = int32(k)
		for _, key := range w.poolsOfQueued(own) {
			w.queuedFor[key] = append(w.queuedFor[key], int32(k))
		}
	}
}
