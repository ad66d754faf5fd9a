package staged

import (
	"cmp"
	"iter"
	"time"
)

// StageStatus describes one stage.
type StageStatus struct {
	Index int        `json:"index"`
	Name  string     `json:"name"`
	Phase StagePhase `json:"phase"`
	// PhaseSince is when the stage came into its present phase, which after a retry is later than
	// Start. It is End if the stage is closed or failed, and zero while it is Pending, or if an older
	// version of this package made the step, which did not store it.
	PhaseSince time.Time `json:"phaseSince,omitzero"`
	Cleanup    bool      `json:"cleanup,omitempty"` // the removal of leaving targets
	Counts     Counts    `json:"counts"`
	Limit      int       `json:"limit"`  // how many members may be in progress
	Budget     int       `json:"budget"` // how many members may fail; -1 if only the run has a budget
	// Before and After are the approvals around the stage. KubeFleet shows a requested one as
	// ApprovalRequestCreated, an approved one as ApprovalRequestApproved as well, and a wait that is
	// over as WaitTimeElapsed. The package comment has a table of all conditions.
	Before Gate `json:"before"`
	After  Gate `json:"after"`
	// Start is when the stage began to update its members, once the approval before it was given; a
	// retry does not change it. End is when the stage was closed, or failed with the run. Both are
	// zero before that; Start stays zero if the stage was skipped, or failed before it began. They
	// are KubeFleet's startTime and endTime of a stage, of which a skipped one has both there.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Wait is the length of the wait; zero if there is none. WaitFrom is when the wait started,
	// WaitUntil is when it is over; both are zero before it has started, and if the stage failed
	// before it was over. WaitUntil is also zero while a stop freezes the wait, and if it is after
	// the year 2261. Once the wait is over, WaitUntil is when it ended, frozen time included, which
	// can be earlier than the step that found it. WaitEndedBy is not nil if a [CommandEndWait]
	// ended it before its time: it says who, when and why, or only when, if the command does not
	// say.
	Wait        time.Duration `json:"wait,omitempty"`
	WaitFrom    time.Time     `json:"waitFrom,omitzero"`
	WaitUntil   time.Time     `json:"waitUntil,omitzero"`
	Waited      bool          `json:"waited,omitempty"` // the wait is over
	WaitEndedBy *Decision     `json:"waitEndedBy,omitempty"`
}

// Counts are numbers of members. Members is the sum over the states and never falls. Regressed
// counts some of those in Done, Stuck some of those in Starting and Updating, and Suspended some of
// those in Waiting.
type Counts struct {
	Members   int `json:"members"`
	Waiting   int `json:"waiting,omitempty"`
	Starting  int `json:"starting,omitempty"`
	Updating  int `json:"updating,omitempty"`
	Soaking   int `json:"soaking,omitempty"`
	Done      int `json:"done,omitempty"`
	Failed    int `json:"failed,omitempty"`
	TimedOut  int `json:"timedOut,omitempty"`
	Skipped   int `json:"skipped,omitempty"`
	Removed   int `json:"removed,omitempty"`
	Regressed int `json:"regressed,omitempty"`
	Stuck     int `json:"stuck,omitempty"`
	Suspended int `json:"suspended,omitempty"`
}

// TargetStatus describes one target.
type TargetStatus struct {
	Name     string `json:"name"`
	Stage    int    `json:"stage"`    // index
	Position int    `json:"position"` // within the stage, from 0
	// Group is its value of the label by which the stage groups, see [Stage]; empty if the stage has
	// no groups, and for the group of those without the label.
	Group     string      `json:"group,omitempty"`
	State     TargetState `json:"state"`
	Attempt   int         `json:"attempt"`             // from 1
	Current   bool        `json:"current,omitempty"`   // waiting, and already ready at the version: it will be done without a slot
	Regressed bool        `json:"regressed,omitempty"` // done, and found unhealthy or at another version
	Stuck     bool        `json:"stuck,omitempty"`     // has been starting or updating for stuckAfter
	Reason    Reason      `json:"reason,omitempty"`    // why it failed or regressed
	Start     time.Time   `json:"start,omitzero"`      // of this attempt; zero if it was not started
	End       time.Time   `json:"end,omitzero"`        // when it was settled, or when a soaking target became ready
	// Decision says who skipped the target or, unless it is skipped, who retried it last, when and
	// why; nil if the command did not say, or there was none.
	Decision *Decision `json:"decision,omitempty"`
	// SuspendedBy is not nil if the target is suspended: it says who did that, when and why, or only
	// when, if the command does not say.
	SuspendedBy *Decision `json:"suspendedBy,omitempty"`
}

// Stages yields all stages in order. The last one is the cleanup, with or without members.
func (r *Run) Stages() iter.Seq[StageStatus] {
	return func(yield func(StageStatus) bool) {
		for k := range r.count() {
			if !yield(r.status(k)) {
				return
			}
		}
	}
}

// Counts returns the sums over all stages, the cleanup included: a target that moved from its stage
// to the cleanup is counted in both.
func (r *Run) Counts() Counts {
	return r.all.counts()
}

// Targets yields the members of a stage in order, and none if there is no such stage.
func (r *Run) Targets(stage int) iter.Seq[TargetStatus] {
	return func(yield func(TargetStatus) bool) {
		if stage < 0 || stage >= r.count() {
			return
		}
		r.stage(stage).tree.all(func(i int, rec *record, name string) bool { return yield(r.target(stage, i, rec, name)) })
	}
}

// Target finds a target by name. A target that moved from its stage to the cleanup is found in the
// cleanup.
func (r *Run) Target(name string) (TargetStatus, bool) {
	at, ok := r.find(name)
	if !ok {
		return TargetStatus{}, false
	}
	rec, name := r.stage(int(at.stage)).tree.at(int(at.member))
	return r.target(int(at.stage), int(at.member), rec, name), true
}

func (r *Run) target(stage, i int, rec *record, name string) TargetStatus {
	s := TargetStatus{
		Name: name, Stage: stage, Position: i, State: rec.state, Attempt: int(rec.attempt), Reason: rec.cause.reason(), Decision: r.stage(stage).decision(i).copied(),
		Current: rec.marks.has(current), Regressed: rec.marks.has(regressed), Stuck: rec.marks.has(stuck),
	}
	if groups := r.stage(stage).groups; groups != nil {
		s.Group = groups.of(i).value
	}
	if rec.marks.has(suspended) {
		s.SuspendedBy = r.stage(stage).suspendedBy(i).copied()
	}
	if rec.marks.has(started) {
		s.Start = timeOf(rec.start)
	}
	if rec.state.Settled() || rec.state == Soaking {
		s.End = timeOf(rec.end)
	}
	return s
}

func (r *Run) status(k int) StageStatus {
	st, p := r.stage(k), &r.plan.stages[k]
	s := StageStatus{
		Index: k, Name: p.name, Phase: st.phase, Cleanup: p.cleanup, Counts: st.counts(),
		Limit: r.plan.limitOf(k, st), Budget: -1,
		Before: st.before.gate(p.before), After: st.after.gate(p.after), PhaseSince: cmp.Or(st.since, st.end).time(), Start: st.start.time(), End: st.end.time(),
	}
	if !p.budget.IsZero() {
		s.Budget = r.plan.share(p.budget, st.tree.size)
	}
	if p.waits {
		s.Wait = time.Duration(p.wait)
		s.Waited, s.WaitEndedBy = st.elapsed, st.endedBy.copied()
		if st.waiting() {
			s.WaitFrom = st.settled.time()
			if until := st.waitUntil(p); until != never && (st.elapsed || !r.frozen()) {
				s.WaitUntil = timeOf(until)
			}
		}
	}
	return s
}
