package staged

import (
	"iter"
	"slices"
)

// StagePhase is where a stage stands. KubeFleet shows WaitingBefore and WaitingAfter as
// StageUpdatingWaiting, and Skipped as StageUpdatingSkippedNoClusters or, of the cleanup, as
// StageUpdatingSucceeded. While the run is Stopping or Stopped, it shows the current stage as
// StageUpdatingStopping or StageUpdatingStopped; here no stop changes the phase of a stage.
type StagePhase string

// The phases of a stage, in order. A stage goes back only from WaitingAfter to Updating, when a
// target is retried.
const (
	StagePending       StagePhase = "Pending"       // its turn has not come
	StageWaitingBefore StagePhase = "WaitingBefore" // the approval before it is open
	StageUpdating      StagePhase = "Updating"      // members start as slots become free
	StageWaitingAfter  StagePhase = "WaitingAfter"  // all are settled, and the tasks after it, if any, are open
	StageSucceeded     StagePhase = "Succeeded"     // closed
	StageSkipped       StagePhase = "Skipped"       // closed with all its tasks, because it had no member to update when its turn came
	StageFailed        StagePhase = "Failed"        // it was open when the run failed
)

// finished reports whether the next stage may start.
func (p StagePhase) finished() bool { return p == StageSucceeded || p == StageSkipped }

// ended reports whether the stage is closed or failed.
func (p StagePhase) ended() bool { return p.finished() || p == StageFailed }

// stage is the part of a stage that changes.
type stage struct {
	owner     *owner
	tree      tree
	groups    *grouping // of the tree; nil if the stage does not limit its groups
	tally               // of the tree
	phase     StagePhase
	before    approval
	after     approval
	decisions *trie[int, *Decision] // who skipped or retried members, by position
	holds     *trie[int, *Decision] // who suspended members, by position; valid for those that are, and never nil then
	start     noted                 // when it began to update
	end       noted                 // when it was closed or failed
	since     noted                 // when it came into its phase, unless it is pending or ended
	settled   noted                 // when its last member was settled, or when it began if that was later, unless a member is open: the wait counts from here
	paused    int64                 // how much stops have added to the wait
	elapsed   bool                  // the wait is over, for good
	ended     noted                 // when a command ended the wait, if one did
	endedBy   *Decision             // what that command said; never nil then
}

// chunk is a section of the list of stages, so that a step does not copy the list of a hundred
// thousand decision groups.
type chunk struct {
	owner  *owner
	tally  // of the stages
	stages []*stage
}

const chunkSize = 256

func (r *Run) count() int {
	if r.plan == nil {
		return 0
	}
	return len(r.plan.stages)
}

// stage returns a stage to read.
func (r *Run) stage(k int) *stage { return r.stages[k/chunkSize].stages[k%chunkSize] }

// setStages is for a run that has no other reader yet.
func (r *Run) setStages(list []*stage) {
	for group := range slices.Chunk(list, chunkSize) {
		c := &chunk{stages: group}
		for _, s := range group {
			c.tally.sum(&s.tally)
		}
		r.all.sum(&c.tally)
		r.stages = append(r.stages, c)
	}
}

// having yields the stages in [from, to) of which the tally counts something, in order. A chunk
// without such a stage is passed over at once.
func (r *Run) having(of func(*tally) int, from, to int) iter.Seq2[int, *stage] {
	return func(yield func(int, *stage) bool) {
		for k := from; k < to; k++ {
			if c := r.stages[k/chunkSize]; of(&c.tally) == 0 {
				k |= chunkSize - 1
			} else if s := c.stages[k%chunkSize]; of(&s.tally) > 0 && !yield(k, s) {
				return
			}
		}
	}
}

func (s *stage) memberSettled(i int) bool {
	rec, _ := s.tree.at(i)
	return rec.state.Settled()
}

// standsIdle reports whether the stage updates and all that is left of it is suspended, so that it
// waits for a command alone.
func (s *stage) standsIdle() bool {
	return s.phase == StageUpdating && s.suspended > 0 && s.suspended == s.number[Waiting] && s.inProgress() == 0
}

// waiting reports whether the wait has started and has ended, or will. A stage that failed before
// the end of its wait, or with its last member, waits for nothing.
func (s *stage) waiting() bool { return s.phase == StageWaitingAfter || s.elapsed }

// waitUntil is when the wait ends, or ended, by itself or by a command.
func (s *stage) waitUntil(p *stagePlan) int64 {
	if s.ended.known() {
		return s.ended.instant()
	}
	return s.lastsUntil(p)
}

// lastsUntil is when the wait ends by itself.
func (s *stage) lastsUntil(p *stagePlan) int64 {
	return after(after(s.settled.instant(), p.wait), s.paused)
}
