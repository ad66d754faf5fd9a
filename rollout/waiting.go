package rollout

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/internal/strictjson"
)

// Waiting is a target whose newest candidate may not start now.
type Waiting struct {
	TargetID
	Version  string    `json:"version,omitempty"` // the candidate, or what a rollback takes the target back to; empty if the target itself is held
	Blockers []Verdict `json:"blockers"`          // all of them, in the order of the rules, for an execution of a bracket member by member; may be shared, do not modify
}

// String returns "target: version waits: blockers". Without it the String of the embedded id would
// be promoted, and a log line would not say why.
func (w Waiting) String() string {
	return fmt.Sprintf("%s: %s", w.TargetID, Situation{Wait: w.Version, Blockers: w.Blockers})
}

// WaitingList holds every target whose newest candidate may not start, with all its blockers,
// ordered by resource, environment and deployment, each target once. In JSON it is a list. The zero
// WaitingList is empty.
//
// The entries are made as they are read, from the few bytes that the plan keeps of each target. A
// host that starts what may start and sleeps until [Plan.Next] pays nothing for the reasons of a
// million others. So a list refers to the snapshot of its plan, which must not be modified while
// the list is read. To keep a list for longer, copy it with
// NewWaitingList(slices.Collect(list.All())...). Several goroutines may read one list, but not
// while [Plan.Explain] runs.
type WaitingList struct {
	plan *work     // nil: the list is a decoded copy
	copy []Waiting // in order
}

// NewWaitingList returns the list of these targets, each of which must occur once, for tests of
// code that reads plans. It copies the slice, but not the blockers.
func NewWaitingList(waiting ...Waiting) WaitingList {
	list := slices.Clone(waiting)
	slices.SortStableFunc(list, func(a, b Waiting) int { return a.compare(b.TargetID) })
	return WaitingList{copy: list}
}

// Len returns how many targets wait.
func (l WaitingList) Len() int {
	if l.plan == nil {
		return len(l.copy)
	}
	return l.plan.waiting
}

// IsZero reports whether no target waits.
func (l WaitingList) IsZero() bool { return l.Len() == 0 }

// All yields the targets that wait, in order.
func (l WaitingList) All() iter.Seq[Waiting] {
	if l.plan == nil {
		return slices.Values(l.copy)
	}
	w := l.plan
	return func(yield func(Waiting) bool) {
		for i := range w.byResource() {
			if w.waits[i].blockers != 0 && !yield(w.waitOf(i)) {
				return
			}
		}
	}
}

// Of returns what one target waits for; false if it does not wait, or the plan does not have it.
func (l WaitingList) Of(id TargetID) (Waiting, bool) {
	if l.plan == nil {
		k, found := slices.BinarySearchFunc(l.copy, id, func(w Waiting, id TargetID) int { return w.compare(id) })
		if !found {
			return Waiting{}, false
		}
		return l.copy[k], true
	}
	i := l.plan.target(id)
	if i == none || l.plan.waits[i].blockers == 0 {
		return Waiting{}, false
	}
	return l.plan.waitOf(i), true
}

// MarshalJSON writes the list as an array.
func (l WaitingList) MarshalJSON() ([]byte, error) {
	return json.Marshal(slices.AppendSeq(make([]Waiting, 0, l.Len()), l.All()))
}

// UnmarshalJSON reads what MarshalJSON wrote, in any order. Unknown fields, values of the wrong
// type and targets that are listed twice are errors, all of them reported, each a *[FieldError];
// the list is then unchanged.
func (l *WaitingList) UnmarshalJSON(data []byte) error {
	var list []Waiting
	var f faults
	f.under("", strictjson.Unmarshal(data, &list)) // an error leaves the list empty
	seen := make(map[TargetID]bool, len(list))
	for k := range list {
		if id := list[k].TargetID; seen[id] {
			f.add(fmt.Sprintf("[%d]", k), CodeDuplicate, id.String(), "is a target that is listed twice: one entry holds all its blockers")
		} else {
			seen[id] = true
		}
	}
	if err := f.few(); err != nil {
		return err
	}
	*l = NewWaitingList(list...)
	return nil
}

// byResource yields the targets by resource, environment and deployment. It sorts the targets,
// which are ordered by environment, by counting those of each resource.
func (w *work) byResource() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if len(w.environments) == 1 {
			for i := range w.targets {
				if !yield(int32(i)) {
					return
				}
			}
			return
		}
		ends := make([]int32, len(w.resources)+1)
		for i := range w.targets {
			ends[w.targets[i].resource+1]++
		}
		for r := range w.resources {
			ends[r+1] += ends[r]
		}
		order := make([]int32, len(w.targets))
		for i := range w.targets {
			r := w.targets[i].resource
			order[ends[r]] = int32(i)
			ends[r]++
		}
		for _, i := range order {
			if !yield(i) {
				return
			}
		}
	}
}

func (w *work) waitOf(i int32) Waiting {
	return Waiting{TargetID: w.id(i), Version: w.waitingVersion(i), Blockers: w.blockersOf(i, w.waits[i].blockers)}
}

// waitingVersion returns the version with which a target waits; empty if the target itself is held.
func (w *work) waitingVersion(i int32) string {
	if n := w.waits[i].version; n >= 0 {
		return w.version(i, n).ID
	}
	return w.vanished[i]
}

// awaiting is what the targets wait for, in the few bytes that a plan keeps.
type awaiting struct {
	waits      []wait           // per target
	waiting    int              // how many are set
	blockers   [][]Verdict      // the lists that they refer to
	turnsAhead [][]ahead        // the lists that are nothing but a turn: turnsTogether in each slice but the last
	orders     []order          // of the turns ahead
	orderOf    map[order]int32  // as in ahead
	lastOrder  int32            // the number that was asked for last
	vanished   map[int32]string // candidates that the snapshot no longer holds
	older      []olderWait      // targets that wait with a version that is not the newest one, and would start with it
}

// wait is what one target waits for, in few bytes: there may be a million.
type wait struct {
	version  int32 // number of the candidate; none or missing
	blockers int32 // as work.list returns it, or from firstMember or firstFollower on; 0: the target does not wait
	start    int32 // one more than the index of its start in the plan; 0: it does not start
}

// ahead is a list of a single blocker: the turn of the target, or of its resource, that comes at a
// certain instant. Most targets of a rollout wait for nothing else, each for its own turn, which is
// 24 bytes here and 200 as a verdict.
type ahead struct {
	seconds     int64 // since 1970
	nanoseconds int32
	position    int32
	order       int32 // one more than the index in awaiting.orders; less than zero: a turn as turnLater returns it; 0: there is no turn
}

// turnsTogether is how many turns one slice holds. A single slice of all turns would be copied as
// it grows.
const turnsTogether = 4096

// order is what the turns of one rollout have in common.
type order struct {
	reason     Reason
	rule       string
	population int

	rollout *rollout // one outside brackets, windows and pauses, of which position and instant follow from the target; else nil
}

// olderWait is a target with an older version that waits for nothing but its slots, that it would go
// back to but for a freeze, or that it went back to and has to run again. The plan lists what the
// newest version waits for; olderWait is for [Plan.Explain].
type olderWait struct {
	target, version int32
	blockers        int32 // as work.list returns it
}

// wait says why the newest candidate of a target does not start.
func (w *work) wait(i int32, version string, blockers []Verdict) {
	n := w.number(i, version)
	if n == missing && w.waits[i].blockers == 0 {
		put(&w.vanished, i, version)
	}
	w.waitNumber(i, n, blockers)
}

// waitWithOlder is wait for a version that may be older than another one with which the target waits.
func (w *work) waitWithOlder(i, n int32, version string, blockers []Verdict) {
	if w.waits[i].blockers != 0 {
		w.older = push(w.older, olderWait{i, n, w.list(blockers)})
	}
	w.wait(i, version, blockers)
}

// waitNumber is wait for a version that is known by its number.
func (w *work) waitNumber(i, version int32, blockers []Verdict) {
	w.waitFor(i, version, w.list(blockers))
}

// waitFor is wait for blockers that list has kept. The first call for a target counts: it is about
// the newest candidate.
func (w *work) waitFor(i, version, blockers int32) {
	own := &w.waits[i]
	if w.leaves(i) || own.blockers != 0 {
		return
	}
	own.version, own.blockers = version, blockers
	w.waiting++
}

// list keeps blockers, and returns a number by which blockersOf finds them: one more than the index
// in work.blockers, or less than zero for a turn. The caller no longer uses the blockers. Targets
// of one resource mostly wait for the same reasons, one after the other: neighbours share an entry.
func (w *work) list(blockers []Verdict) int32 {
	if isTurn(blockers) {
		v := &blockers[0]
		turn := ahead{v.Until.Unix(), int32(v.Until.Nanosecond()), int32(v.Data.Position), w.orderNumber(order{reason: v.Reason, rule: v.Rule, population: v.Data.Population})}
		w.forget(blockers)
		return w.listTurn(turn)
	}
	if n := len(w.blockers); n == 0 || &w.blockers[n-1][0] != &blockers[0] || len(w.blockers[n-1]) != len(blockers) {
		w.blockers = push(w.blockers, blockers)
	}
	return int32(len(w.blockers))
}

// turnIn returns the turn of a position in a rollout.
func (w *work) turnIn(r *rollout, due time.Time, position int32) ahead {
	if r.order == 0 {
		r.order = w.orderNumber(order{reason: ReasonRolloutNotDue, rule: r.rule.id, population: r.record.Founders})
	}
	return ahead{due.Unix(), int32(due.Nanosecond()), position, r.order}
}

// derivedBelow separates the numbers of turns that are listed from those, below it, of turns that
// follow from the target.
const derivedBelow = math.MinInt32 / 2

// turnLater returns the turn of a position in a rollout outside windows that is known to wait. It
// takes no room: what it says is worked out when it is read.
func (w *work) turnLater(r *rollout, position int32) ahead {
	if position < r.soonest {
		r.soonest = position
		due, _ := r.due(position, nil) // below r.fits, so it does not overflow
		w.wake(due)
	}
	if r.later == 0 {
		r.later = math.MinInt32 + w.orderNumber(order{reason: ReasonRolloutNotDue, rule: r.rule.id, population: r.record.Founders, rollout: r})
	}
	return ahead{order: r.later}
}

// orderNumber returns the number of an order, as in ahead. Neighbours mostly share one.
func (w *work) orderNumber(own order) int32 {
	if w.lastOrder == 0 || w.orders[w.lastOrder-1] != own {
		number := w.orderOf[own]
		if number == 0 {
			w.orders = append(w.orders, own)
			number = int32(len(w.orders))
			put(&w.orderOf, own, number)
		}
		w.lastOrder = number
	}
	return w.lastOrder
}

// listTurn is list for a turn.
func (w *work) listTurn(turn ahead) int32 {
	if turn.order < 0 {
		return turn.order
	}
	n := len(w.turnsAhead) - 1
	switch {
	case n < 0:
		w.turnsAhead, n = [][]ahead{nil}, 0
	case len(w.turnsAhead[n]) == turnsTogether:
		w.turnsAhead, n = append(w.turnsAhead, make([]ahead, 0, turnsTogether)), n+1
	}
	w.turnsAhead[n] = push(w.turnsAhead[n], turn)
	return -int32(n*turnsTogether + len(w.turnsAhead[n]))
}

// blockersOf returns the blockers of target i that list kept.
func (w *work) blockersOf(i, listed int32) []Verdict {
	switch {
	case listed >= firstFollower:
		return w.followerOf(listed)
	case listed >= firstMember:
		return w.memberOf(i, listed)
	case listed > 0:
		return w.blockers[listed-1]
	}
	var order *order
	var position int32
	var until time.Time
	if listed < derivedBelow {
		order = &w.orders[listed-math.MinInt32-1]
		position = w.positionIn(order.rollout, i)
		until, _ = order.rollout.due(position, nil)
	} else {
		n := int(-listed - 1)
		own := &w.turnsAhead[n/turnsTogether][n%turnsTogether]
		order, position, until = &w.orders[own.order-1], own.position, time.Unix(own.seconds, int64(own.nanoseconds))
	}
	return []Verdict{{
		Status: Pending, Reason: order.reason, Rule: order.rule, Until: until.UTC(), Data: &Data{Position: int(position), Population: order.population},
	}}
}

// isTurn reports whether blockers are nothing but a turn that comes at a certain instant.
func isTurn(blockers []Verdict) bool {
	if len(blockers) != 1 || blockers[0].Data == nil || blockers[0].Until.IsZero() || len(blockers[0].On) > 0 || blockers[0].Status != Pending {
		return false
	}
	d := blockers[0].Data
	return d.Attempt == 0 && d.Allowed == 0 && d.Names == nil && d.Detail == "" && int(int32(d.Position)) == d.Position // a host's rule may say anything
}

// forget frees the room of a turn that is not reported, or that is kept in fewer bytes. Nothing
// else refers to the turn: a verdict that many targets share is never one.
func (w *work) forget(blockers []Verdict) {
	if !isTurn(blockers) {
		return
	}
	if n := len(w.verdicts); n > 0 && &w.verdicts[n-1] == &blockers[0] {
		if m := len(w.data); m > 0 && &w.data[m-1] == blockers[0].Data {
			w.data = w.data[:m-1]
		}
		w.verdicts = w.verdicts[:n-1]
	}
}
