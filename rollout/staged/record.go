package staged

import "math"

// record is what a run keeps of a target besides its name, in 24 bytes.
type record struct {
	start   int64  // nanoseconds since 1970, of this attempt; valid if started
	end     int64  // when it was settled, or for a soaking target when it became ready; valid for these
	attempt uint32 // from 1
	state   TargetState
	marks   marks
	cause   cause
}

type marks uint8

const (
	started   marks = 1 << iota // this attempt was started, so it has a token and a start
	current                     // waiting, and seen ready at the version
	regressed                   // done, and seen unhealthy or at another version
	stuck                       // starting or updating for stuckAfter; follows from the times
	moved                       // on to the cleanup, where commands mean it; settled here
	suspended                   // waiting, and not to be started before it is resumed
)

// retryable reports whether a retry would be for a failed member, if its stage is open. A command
// means the present place of a target.
func (r *record) retryable() bool {
	return failed(r.state) && r.attempt < math.MaxInt32 && !r.marks.has(moved)
}

func (m marks) has(one marks) bool { return m&one != 0 }

// cause says why a target failed or regressed.
type cause uint8

const (
	noCause    cause = iota
	reported         // its health was failed
	superseded       // it was at another version
	gone             // it left the fleet
	unhealthy        // its health was failing
	causes
)

func (c cause) reason() Reason {
	switch c {
	case reported:
		return ReasonReported
	case superseded:
		return ReasonSuperseded
	case gone:
		return ReasonGone
	case unhealthy:
		return ReasonUnhealthy
	}
	return ""
}

// class is a set of records that the tree of a stage finds without looking at others.
type class uint8

const (
	isCurrent   class = iota // waiting and seen ready at the version
	isRetried                // waiting to be started, not for the first time
	isWaiting                // waiting to be started
	isSuspended              // waiting, but not to be started
	isStarting               // has an action
	isActive                 // in progress
	isRegressed
	isFailed // failed or timed out
	classes  // as many as a set has bits
)

// classes returns one bit per class.
func (r *record) classes() (set uint8) {
	switch r.state {
	case Waiting:
		if set = 1 << isWaiting; r.attempt > 1 {
			set |= 1 << isRetried
		}
		if r.marks.has(suspended) {
			set = 1 << isSuspended
		}
		if r.marks.has(current) {
			set |= 1 << isCurrent
		}
	case Starting:
		set = 1<<isStarting | 1<<isActive
	case Updating, Soaking:
		set = 1 << isActive
	case Done:
		if r.marks.has(regressed) {
			set = 1 << isRegressed
		}
	case Failed, TimedOut:
		set = 1 << isFailed
	}
	return set
}
