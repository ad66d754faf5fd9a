package staged

import (
	"cmp"
	"iter"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/selector"
)

// Run takes one version through the stages of a strategy. [Compile] makes a Run. It is a value:
// [Step] leaves its argument unchanged and returns the next Run, and both share what did not
// change. Several goroutines may read a Run at once. A Run is stored as JSON and read back.
type Run struct {
	plan    *plan
	stages  []*chunk                 // all stages in order, the cleanup last
	joined  *trie[string, residence] // targets that joined after Compile, or moved on to the cleanup
	desired State
	phase   Phase
	begun   bool  // a step was made, so time is set
	time    int64 // of the last step
	since   int64 // when stopping, failing or cancelling began; valid in these phases, and in those that they end in
	first   noted // time of the first step
	phased  noted // when the run came into its phase, which is later than since once a stop is complete
	current int   // the first stage that is not finished; the number of stages if there is none, and then the run is over
	all     tally // of all stages

	cancelled *Decision // who cancelled it, if the command said
}

// plan is what never changes in a run. It is shared by all values of the run.
type plan struct {
	id       string
	spec     Spec
	version  string
	strategy Strategy
	options  Options
	hash     string
	stages   []stagePlan
	index    *index
	matcher  *matcher          // nil if no target can join
	budget   concurrency.Limit // of the run
	grace    int64
}

// stagePlan is what never changes in a stage.
type stagePlan struct {
	name    string
	labels  *selector.Labels // nil if it does not select by labels
	cleanup bool
	limit   concurrency.Limit
	budget  concurrency.Limit // unset if it does not bind
	timing  timing
	before  bool // there is an approval before the stage
	after   bool // and one after it
	wait    int64
	waits   bool
}

// Phase is where a run stands.
type Phase string

// The phases of a run. KubeFleet shows Progressing as UpdateRunProgressing, and so on for Waiting,
// Stopping, Stopped, Failed and Succeeded; it has no name for the others.
const (
	PhaseInitialized        Phase = "Initialized"        // the order is fixed, nothing has started
	PhaseProgressing        Phase = "Progressing"        // targets are being updated
	PhaseWaiting            Phase = "Waiting"            // the current stage waits for an approval, a wait or a regressed target
	PhaseHeld               Phase = "Held"               // a budget is exceeded or an approval rejected, and the options say hold
	PhaseStopping           Phase = "Stopping"           // nothing starts; targets in progress settle
	PhaseStopped            Phase = "Stopped"            // nothing starts; every target in progress is stuck or ready, or the grace has passed
	PhaseFailing            Phase = "Failing"            // nothing starts ever again; targets in progress settle
	PhaseCancelling         Phase = "Cancelling"         // the same, after a cancel
	PhaseSucceeded          Phase = "Succeeded"          // terminal: every target is done or was removed
	PhasePartiallySucceeded Phase = "PartiallySucceeded" // terminal: all stages closed, and a target is failed, timed out or skipped
	PhaseFailed             Phase = "Failed"             // terminal
	PhaseCancelled          Phase = "Cancelled"          // terminal
)

// Terminal reports whether a run in this phase never changes again.
func (p Phase) Terminal() bool {
	return p == PhaseSucceeded || p == PhasePartiallySucceeded || p == PhaseFailed || p == PhaseCancelled
}

// ending reports whether the phase lasts only as long as it waits for targets in progress.
func (p Phase) ending() bool {
	return p == PhaseStopping || p == PhaseFailing || p == PhaseCancelling
}

// halting reports whether Run.since is valid in the phase.
func (p Phase) halting() bool {
	return p.ending() || p == PhaseStopped || p == PhaseFailed || p == PhaseCancelled
}

// Phase returns the phase of the run. It is empty for the zero Run.
func (r *Run) Phase() Phase { return r.phase }

// State returns what the user wants of the run. It is empty for the zero Run.
func (r *Run) State() State { return r.desired }

// Spec returns what the run was compiled with: its State is the one that the run was created with,
// and its ID is never empty. It is the zero Spec for the zero Run.
func (r *Run) Spec() Spec {
	if r.plan == nil {
		return Spec{}
	}
	return r.plan.spec
}

// Strategy returns the strategy that the run was compiled with, and keeps whatever becomes of the
// strategy's object: what KubeFleet shows as stagedUpdateStrategySnapshot. It is a copy and belongs
// to the caller. Its Name and Namespace are not stored with a run. It is the zero Strategy for the
// zero Run.
func (r *Run) Strategy() Strategy {
	if r.plan == nil {
		return Strategy{}
	}
	return r.plan.strategy.clone()
}

// Options returns the options that the run was compiled with. It is the zero Options for the zero
// Run.
func (r *Run) Options() Options {
	if r.plan == nil {
		return Options{}
	}
	return r.plan.options
}

// Version returns the version that targets are pointed at. It is empty for the zero Run.
func (r *Run) Version() string {
	if r.plan == nil {
		return ""
	}
	return r.plan.version
}

// Time returns the time of the last step, or the zero time before the first.
func (r *Run) Time() time.Time {
	if !r.begun {
		return time.Time{}
	}
	return timeOf(r.time)
}

// Begun returns the time of the first step. It is zero before that step, and if an older version of
// this package made it, which did not store it.
func (r *Run) Begun() time.Time { return r.first.time() }

// PhaseSince returns when the run came into its present phase: the time of the last step with an
// [EventRun], or of the first step if there was none. It is zero before the first step, and if the
// phase is one that an older version of this package found, which did not store it.
func (r *Run) PhaseSince() time.Time { return r.phased.time() }

// Current returns the index of the first stage that is not finished, or the number of stages if
// there is none.
func (r *Run) Current() int { return r.current }

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
// counts some of those in Done, and Stuck some of those in Starting and Updating.
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
}

// TargetStatus describes one target.
type TargetStatus struct {
	Name      string      `json:"name"`
	Stage     int         `json:"stage"`    // index
	Position  int         `json:"position"` // within the stage, from 0
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

func (r *Run) find(name string) (place, bool) {
	is, ok := r.residence(name)
	return is.at, ok
}

// home returns the place of a target of the run before it moved to the cleanup. If it did not move,
// that is its present place.
func (r *Run) home(name string) place {
	is, _ := r.residence(name)
	return is.home
}

func (r *Run) residence(name string) (residence, bool) {
	if r.plan == nil {
		return residence{}, false
	}
	h := hash(name)
	if node := r.joined.find(name, h); node != nil {
		return node.value, true
	}
	at, ok := r.plan.index.find(name, h)
	return residence{at, at}, ok
}

// frozen reports whether waits stand still. If a run ends while its desired state is Stop, its
// waits stand still for ever.
func (r *Run) frozen() bool {
	return r.desired == StateStop && r.plan.options.WaitDuringStop == Freeze
}

// limitOf returns how many members of a stage may be in progress.
func (p *plan) limitOf(k int, s *stage) int {
	return max(1, p.share(p.stages[k].limit, s.tree.size))
}

// share returns how many of n members a limit allows.
func (p *plan) share(limit concurrency.Limit, n int) int {
	rounding := concurrency.Floor
	if p.options.Rounding == Up {
		rounding = concurrency.Ceil
	}
	return limit.Of(n, rounding)
}
