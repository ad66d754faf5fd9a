package staged

import (
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

	groupBy  string            // the label of the groups; empty if there are none
	perGroup concurrency.Limit // valid if there are
}

// Phase is where a run stands.
type Phase string

// The phases of a run. KubeFleet shows Progressing as UpdateRunProgressing, and so on for Waiting,
// Stopping, Stopped, Failed and Succeeded; it has no name for the others.
const (
	PhaseInitialized        Phase = "Initialized"        // the order is fixed, nothing has started
	PhaseProgressing        Phase = "Progressing"        // targets are being updated
	PhaseWaiting            Phase = "Waiting"            // the current stage waits for an approval, a wait or a regressed target, or all that is left of it is suspended
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
