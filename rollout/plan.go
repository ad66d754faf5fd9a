package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// ErrDecodedPlan is returned by [Plan.Commit], [Plan.Explain] and [Plan.Queue] for a plan that does
// not come from [PolicySet.Plan], such as a decoded one: it lacks what these methods need.
// [PolicySet.Replay] makes the plan of a [Recording] again.
var ErrDecodedPlan = errors.New("rollout: the plan is a copy: ask the one that PolicySet.Plan returned, or have PolicySet.Replay make it again")

// Plan says what may start now, and why everything else waits. It is freshly allocated, ordered,
// and the same for every order of the input. Any subset of its starts may be carried out, in any
// order, before the next plan. Its methods must not be called concurrently on one plan, because they
// remember what they have found out.
type Plan struct {
	Now time.Time `json:"now"`

	// Start lists the jobs that may be dispatched, in the order in which they were given their
	// slots. First come the starts that need no further slot, or that an [Override] lets past a
	// limit. Among these, and then among the others, rollbacks come first, then a higher priority of
	// the version, then whatever is due for longer. A start is due since its turn in the curves, the
	// opening of its gates, or the end of a retry's delay. Before dispatch, starts must be committed
	// with [Plan.Commit] and the state saved. A repeated start has the same run id, so dispatch is
	// create-if-absent.
	Start []Start `json:"start,omitempty"`

	// Waiting lists every target whose newest candidate may not start, with all blockers, ordered
	// by resource, environment and deployment. An older candidate of the target may be in Start.
	// What holds back an older one beside it, such as a further run of the version that a rollback
	// took the target back to, is in the [Explanation].
	Waiting WaitingList `json:"waiting,omitzero"`

	// Keep counts the targets for which there is nothing to do.
	Keep Keep `json:"keep"`

	Pools []Pool  `json:"pools,omitempty"` // ordered by key
	Stuck []Stuck `json:"stuck,omitempty"` // runs and leases without progress for too long, ordered by resource, group, run and pool

	// Orphans are leases whose holder is not at work, ordered by pool, resource and group. They
	// still count, and so may keep other targets waiting for ever. No plan gives them back, because
	// it cannot know whether their jobs are about to be dispatched. The host gives them back with
	// [Planner.Release], or in a state of its own with [concurrency.Record.Release], once it is
	// sure that no dispatch is under way. Beware of jobs on targets that the snapshot does not
	// list: no plan sees them. Quarantined leases are often those of an execution that was
	// abandoned ([bracket.Abandon]): give them back once the resource serves again, or is given up.
	// A lease whose job still hangs is no orphan: end the job first, see [Stuck].
	Orphans []concurrency.Lease `json:"orphans,omitempty"`

	// Events are the changes in the brackets since the state of the snapshot; those of one bracket
	// are in the order in which they happened. Once the state of a plan is saved, even in part, no
	// later plan reports the events that it holds: a host that stops before it has read them does
	// not see them again. Read what must not be missed from State.
	Events []Event `json:"events,omitempty"`

	Diagnostics []Diagnostic `json:"diagnostics,omitempty"` // oddities that did not prevent the plan, ordered by code, rule and detail

	// Next is the earliest instant after Now at which another plan could differ without a new
	// observation. Between the two nothing changes. Zero: only a new observation can change the
	// plan. Once jobs have been started, [Plan.NextAfter] says when to look again.
	Next time.Time `json:"next,omitzero"`

	// State goes into the next snapshot if nothing is started; [Plan.Commit] returns the state
	// after the starts.
	State State `json:"state,omitzero"`

	work *work // for Commit, NextAfter and Explain
}

// Start is a job to dispatch. If several controllers plan outside brackets from observations of
// different age, two of them may offer different versions for one target, and the later start may
// be of the older version. Such a host creates the job in a transaction that reads the jobs of the
// target again. If there is a job, active or ended, that the snapshot lacks, the host drops the
// start and plans again.
type Start struct {
	TargetID
	Version string `json:"version"`
	// Run is the identity of the job: create the job only if there is none with this id. (A host
	// with several planners checks more, see [Start].) It consists of ids joined by slashes; a
	// slash or % inside an id is written %2F or %25. Where the names of jobs are restricted in
	// length or characters, use a hash of it as the name, and keep the id itself beside the job:
	// [Job.Run] must equal it.
	Run     string  `json:"run"`
	Purpose Purpose `json:"purpose"`

	// Group and the resource are the holder of the slot. Group is a bracket's version group, or the
	// release target.
	Group string `json:"group"`

	// Claims are the leases that the start needs, one per pool, ordered by pool key. Whatever acts
	// for the job carries their tokens. [Start.Held] tells whether a claim still holds.
	Claims []Claim `json:"claims,omitempty"`

	Reason Reason `json:"reason"` // how it got its slot: slot_free, slot_held, slot_already_down, rule_not_applicable or overridden

	Scoped bool `json:"scoped,omitempty"` // the version is not for every target: it has a targetSelector
}

// String returns "target: purpose version as run, reason", for logs.
func (s Start) String() string {
	return fmt.Sprintf("%s: %s %s as %s, %s", s.TargetID, textlist.Name(s.Purpose), textlist.Name(s.Version), textlist.Name(s.Run), textlist.Name(s.Reason))
}

// Purpose says why a job runs.
type Purpose string

const (
	PurposeDeploy   Purpose = "deploy"   // towards the chosen version
	PurposeRollback Purpose = "rollback" // back to the version before, in a bracket that failed or by a rollback rule
)

// Claim is a place in a pool, valid at one revision of the pool's record.
type Claim struct {
	Pool     string `json:"pool"`     // key
	Revision uint64 `json:"revision"` // of the record that the plan read
	Token    uint64 `json:"token"`    // of the lease: greater than that of every earlier lease of the pool
	// PeriodSeconds is how long the record remembers that the resource begins in the pool: the
	// period of its [concurrency.Rate]. 0: the start makes nothing begin there, or there is no
	// rate.
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
}

// Keep counts targets that need nothing now.
type Keep struct {
	Current int `json:"current"` // targets that run the newest version they may have, including those whose last job is still being verified and keeps its slot
	Started int `json:"started"` // targets with a job in progress for which nothing newer waits: others are in Waiting
}

// Pool describes a pool. Active counts the starts of the plan, and Waiting what waits for a place
// after them; all other fields are as they were before them. A rule under a new name has a new
// pool: while planners work with both names, each pool keeps only its own limit, and the starts of
// the two add up. With MaxActiveKeys a pool without holders is also active if a member is
// unavailable.
type Pool struct {
	Key         string               `json:"key"`
	Active      int                  `json:"active"`                // distinct resources that are being disrupted, also those that are no members any more
	Max         int                  `json:"max"`                   // how many may be disrupted
	Total       int                  `json:"total"`                 // members
	Exclusive   bool                 `json:"exclusive,omitempty"`   // one group at a time is at work on a member
	Halted      bool                 `json:"halted,omitempty"`      // nothing begins: more members are down than haltAboveUnavailable says
	Waiting     int                  `json:"waiting,omitempty"`     // starts that [Plan.Queue] lists for the pool
	Holders     []concurrency.Holder `json:"holders,omitempty"`     // who holds a slot, quarantined or not
	Quarantined []concurrency.Holder `json:"quarantined,omitempty"` // those of Holders whose slots are quarantined
	Unavailable []string             `json:"unavailable,omitempty"` // members that the host reports as down
}

// String describes the pool on one line, with the first ten resources that hold a slot or are down.
func (p Pool) String() string {
	names := p.resources()
	text := fmt.Sprintf("%s: %d of %d active", poolName(p.Key), p.Active, p.Max)
	if p.Halted {
		text += fmt.Sprintf(", halted, %d down", len(p.Unavailable))
	}
	waiting := ""
	if p.Waiting > 0 {
		waiting = fmt.Sprintf("; %d in the queue", p.Waiting)
	}
	if len(names) == 0 {
		return text + waiting
	}
	const most = 10
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	shown := textlist.Names(names)
	for k, name := range names {
		if slices.ContainsFunc(p.Quarantined, func(h concurrency.Holder) bool { return h.Resource == name }) {
			shown[k] += " (quarantined)"
		}
	}
	return text + ": " + strings.Join(shown, ", ") + more + waiting
}

// resources returns the resources that hold a slot of the pool or are down, sorted.
func (p *Pool) resources() []string {
	names := slices.Clone(p.Unavailable)
	for _, h := range p.Holders {
		names = append(names, h.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Stuck is a run or a lease without progress for longer than its rule allows. It keeps its slot,
// even a quarantined one, while a job of it is at work: the lease is no orphan. Whoever wants the
// slot back ends that job first and reports its end; then the next plan goes on under the slot,
// frees it, or lists it in Orphans.
type Stuck struct {
	Resource string    `json:"resource"`
	Group    string    `json:"group"`
	Run      string    `json:"run,omitempty"`  // set for a bracket's stuckAfterSeconds
	Pool     string    `json:"pool,omitempty"` // set for stuckAfterSeconds of a concurrency rule
	Since    time.Time `json:"since"`          // since when it counts as stuck
}

// String describes the run or lease on one line.
func (s Stuck) String() string { return textlist.Name(s.Resource) + ": " + s.text() }

// text is String without the resource.
func (s *Stuck) text() string {
	what, then := textlist.Name(s.Run), ""
	if what == "" {
		what, then = fmt.Sprintf("the slot of %s in %s", textlist.Name(s.Group), poolName(s.Pool)), ": it is not free before its job has ended"
	}
	return fmt.Sprintf("%s is stuck since %s%s", what, s.Since.UTC().Format(time.RFC3339), then)
}

// Event is a change in a bracket.
type Event struct {
	Kind        bracket.EventKind `json:"kind"`
	Rule        string            `json:"rule"`
	Environment string            `json:"environment"`
	Group       string            `json:"group"`
	Resource    string            `json:"resource,omitempty"` // empty for events of a group
	At          time.Time         `json:"at"`                 // when it took effect, which may be before Now
	Status      bracket.Status    `json:"status"`             // of the group or execution afterwards
	Into        string            `json:"into,omitempty"`     // the group whose execution took this one over
}

// String describes the event on one line.
func (e Event) String() string {
	text := fmt.Sprintf("%s: %s", textlist.Name(e.Kind), textlist.Name(e.Group))
	if e.Resource != "" {
		text += " on " + textlist.Name(e.Resource)
	}
	if e.Into != "" {
		text += " into " + textlist.Name(e.Into)
	}
	return fmt.Sprintf("%s, %s at %s", text, textlist.Name(e.Status), e.At.UTC().Format(time.RFC3339))
}

// Plan decides which targets may start now and why all others wait. It changes nothing: the state
// to store is in the result.
//
// Rules are asked in the order of the chain in the package documentation, and all that block are
// returned. A version that a bracket collects, or keeps for its next group, is not asked yet what its
// execution is asked: dependencies, cooldowns, windows and curves are listed once the group has
// closed. Capacity is asked last, in one batch, and only for what passes everything else.
//
// The error joins one *[FieldError] per contradiction in the snapshot, or is one for a now that is
// zero or beyond 2262, or a [*CycleError], or an error of package bracket or concurrency about the
// state or about overlapping brackets; then there is no plan. An expression that fails on a target
// holds that target only, and is in its blockers.
//
// Time and memory grow with the number of targets, plus a sort of what is ranked. No plan builds on
// the one before: after a single event it costs as much as the first, so where events come faster
// than plans are made, make one plan of all that have come.
func (s *PolicySet) Plan(snapshot Snapshot, now time.Time) (Plan, error) {
	w, err := s.begin(&snapshot, now)
	if err != nil {
		return Plan{}, err
	}
	if err := w.cycles(); err != nil {
		return Plan{}, err
	}
	for _, cycle := range w.versionCycles() {
		w.diagnose(DiagnosticVersionCycle, "", cycle.Error(), TargetID{})
	}
	w.strangeJobs()
	w.openPools()
	if err := w.capacity.validateOtherRecords(); err != nil {
		return Plan{}, err
	}
	if err := w.brackets(); err != nil {
		return Plan{}, err
	}
	w.settle()
	w.incumbents()
	w.unconfirmed()
	w.reportBrackets()
	w.choose()
	if err := w.admit(); err != nil {
		return Plan{}, err
	}
	w.listOrphans()
	w.nameOrphans()
	w.nameHeld()
	w.keepRollouts()
	w.unheeded()
	w.plan.Next, w.plan.Diagnostics = w.next, w.diagnosed()
	w.release()
	w.plan.work, w.plan.Waiting = w, WaitingList{plan: w}
	return w.plan, nil
}
