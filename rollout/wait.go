package rollout

import (
	"math"
	"time"
)

// awaiting is what the targets wait for, in the few bytes that a plan keeps.
type awaiting struct {
	waits      []wait              // per target
	waiting    int                 // how many are set
	blockers   [][]Verdict         // the lists that they refer to
	turns      chunks[compactTurn] // the lists that are nothing but a turn
	turnKinds  []turnKind          // of the turns
	turnKindOf map[turnKind]int32  // as in compactTurn
	unlisted   map[int32]string    // candidates that the snapshot no longer holds
	olderWaits []olderWait         // targets that wait with a version that is not the newest one, and would start with it
}

// wait is what one target waits for, in few bytes: there may be a million.
type wait struct {
	version  int32 // number of the candidate; none or missing
	blockers blockerList
	start    int32 // one more than the index of its start in the plan; 0: it does not start
}

// blockerList stands for the blockers of a target, in four bytes; work.blockersOf returns them. Its
// value says where they are:
//
//	0                   there are none: the target does not wait
//	1, 2, ...           in work.blockers, counted from its first list
//	from firstMember    it is a member of an open execution, and waits for others of it: those of the
//	                    bracket in work.stepped, counted from its first
//	from firstFollower  it is in an execution that starts, and waits for others of it: see followerOf
//	-1, -2, ...         it has a turn, in work.turns, counted from its first
//	below derivedBelow  it has a turn that is worked out when it is read; what is above math.MinInt32
//	                    is the number of the kind of the turn
type blockerList int32

const (
	firstFollower blockerList = 1 << 30
	firstMember   blockerList = 1 << 29
	derivedBelow  blockerList = math.MinInt32 / 2
)

// compactTurn is a list of a single blocker: the turn of the target, or of its resource, that comes
// at a certain instant. Most targets of a rollout wait for nothing else, each for its own turn,
// which is 24 bytes here and 200 as a verdict.
type compactTurn struct {
	seconds     int64 // since 1970
	nanoseconds int32
	position    int32
	kind        int32 // one more than the index in awaiting.turnKinds; less than zero: the blockerList of a turn that is worked out when it is read; 0: there is no turn
}

// turnKind is what the turns of one rollout have in common.
type turnKind struct {
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
	blockers        blockerList
}

// wait says why the newest candidate of a target does not start.
func (w *work) wait(i int32, version string, blockers []Verdict) {
	n := w.number(i, version)
	if n == missing && w.waits[i].blockers == 0 {
		put(&w.unlisted, i, version)
	}
	w.waitNumber(i, n, blockers)
}

// waitWithOlder is wait for a version that may be older than another one with which the target waits.
func (w *work) waitWithOlder(i, n int32, version string, blockers []Verdict) {
	if w.waits[i].blockers != 0 {
		w.olderWaits = push(w.olderWaits, olderWait{i, n, w.list(blockers)})
	}
	w.wait(i, version, blockers)
}

// waitNumber is wait for a version that is known by its number.
func (w *work) waitNumber(i, version int32, blockers []Verdict) {
	w.waitFor(i, version, w.list(blockers))
}

// waitFor is wait for blockers that list has kept. The first call for a target counts: it is about
// the newest candidate.
func (w *work) waitFor(i, version int32, blockers blockerList) {
	own := &w.waits[i]
	if w.startsForFormer(i) || own.blockers != 0 {
		return
	}
	own.version, own.blockers = version, blockers
	w.waiting++
}

// list keeps blockers. The caller no longer uses them. Targets of one resource mostly wait for the
// same reasons, one after the other: neighbours share an entry.
func (w *work) list(blockers []Verdict) blockerList {
	if isTurn(blockers) {
		v := &blockers[0]
		turn := compactTurn{v.Until.Unix(), int32(v.Until.Nanosecond()), int32(v.Data.Position), w.turnKindNumber(turnKind{reason: v.Reason, rule: v.Rule, population: v.Data.Population})}
		w.forget(blockers)
		return w.listTurn(turn)
	}
	if n := len(w.blockers); n == 0 || &w.blockers[n-1][0] != &blockers[0] || len(w.blockers[n-1]) != len(blockers) {
		w.blockers = push(w.blockers, blockers)
	}
	return blockerList(len(w.blockers))
}

// turnIn returns the turn of a position in a rollout.
func (w *work) turnIn(r *rollout, due time.Time, position int32) compactTurn {
	if r.turnKind == 0 {
		r.turnKind = w.turnKindNumber(turnKind{reason: ReasonRolloutNotDue, rule: r.rule.id, population: r.record.Founders})
	}
	return compactTurn{due.Unix(), int32(due.Nanosecond()), position, r.turnKind}
}

// derivedTurn returns the turn of a position in a rollout outside windows that is known to wait. It
// takes no room: what it says is worked out when it is read.
func (w *work) derivedTurn(r *rollout, position int32) compactTurn {
	if position < r.soonest {
		r.soonest = position
		due, _ := r.due(position, nil) // below r.fits, so it does not overflow
		w.wake(due)
	}
	if r.derivedKind == 0 {
		r.derivedKind = math.MinInt32 + w.turnKindNumber(turnKind{reason: ReasonRolloutNotDue, rule: r.rule.id, population: r.record.Founders, rollout: r})
	}
	return compactTurn{kind: r.derivedKind}
}

// turnKindNumber returns the number of a kind, as in compactTurn.
func (w *work) turnKindNumber(own turnKind) int32 {
	number := w.turnKindOf[own]
	if number == 0 {
		w.turnKinds = append(w.turnKinds, own)
		number = int32(len(w.turnKinds))
		put(&w.turnKindOf, own, number)
	}
	return number
}

// listTurn is list for a turn.
func (w *work) listTurn(turn compactTurn) blockerList {
	if turn.kind < 0 {
		return blockerList(turn.kind)
	}
	w.turns.push(turn)
	return -blockerList(w.turns.len())
}

// blockersOf returns the blockers of target i for which listed stands.
func (w *work) blockersOf(i int32, listed blockerList) []Verdict {
	switch {
	case listed >= firstFollower:
		return w.followerOf(listed)
	case listed >= firstMember:
		return w.memberOf(i, listed)
	case listed > 0:
		return w.blockers[listed-1]
	}
	var kind *turnKind
	var position int32
	var until time.Time
	if listed < derivedBelow {
		kind = &w.turnKinds[listed-math.MinInt32-1]
		position = w.positionIn(kind.rollout, i)
		until, _ = kind.rollout.due(position, nil)
	} else {
		own := w.turns.at(int32(-listed) - 1)
		kind, position, until = &w.turnKinds[own.kind-1], own.position, time.Unix(own.seconds, int64(own.nanoseconds))
	}
	return []Verdict{{
		Status: Pending, Reason: kind.reason, Rule: kind.rule, Until: until.UTC(), Data: &Data{Position: int(position), Population: kind.population},
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
