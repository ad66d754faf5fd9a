package staged

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Verdict says why a target or a run does not go on. Its shape is that of the verdicts of package
// rollout.
//
// Until is zero and On is empty where the run starts the target no more, because it is failing,
// cancelling or over. They are as well before the first step of a run whose state is Run or Stop:
// that step changes the reason.
type Verdict struct {
	Status VerdictStatus `json:"status"`         // always Pending: a target that is denied for good is settled, and has no verdict
	Reason Reason        `json:"reason"`         // the first that applies
	Until  time.Time     `json:"until,omitzero"` // the instant at which looking again can help; zero if at most an event can
	On     []Condition   `json:"on,omitempty"`   // the events that can change it
	Data   *Data         `json:"data,omitempty"` // the facts behind the reason
}

// VerdictStatus is the status of a verdict, as in the other packages.
type VerdictStatus string

// Pending is the only status of a verdict in this package: not now, but time or an event can change
// it, unless the run is ending or over.
const Pending VerdictStatus = "pending"

// Reasons why a target waits, in the order in which they are tried.
const (
	ReasonEnded       Reason = "ended"       // the run is over; if it failed, Data says why, as for ReasonHeld, and if it was cancelled, by whom; also of commands that come too late
	ReasonInProgress  Reason = "in_progress" // Data has Since and Stuck, and the state as Detail; Until is the end of a soak, else the deadline
	ReasonCancelling  Reason = "cancelling"  // Data says by whom: the run starts nothing more
	ReasonFailing     Reason = "failing"     // Data says why, as for ReasonHeld, unless a skip or an approval has undone that: the run fails all the same
	ReasonInitialized Reason = "initialized" // the state is Initialize, or the first step is still to come
	ReasonStopped     Reason = "stopped"     // or stopping
	// ReasonHeld: if a budget is exceeded, Data.Detail is "budget", Data.Names are failed targets,
	// Data.Total is the number of all that failed, and Data.Allowed is how many may fail. The
	// budget is that of Data.Stage or, if no stage is over its own, that of the run. Otherwise
	// Data.Detail is "rejected", Data.Names holds the name of the approval request, and
	// Data.Decision says who rejected it.
	ReasonHeld       Reason = "held"
	ReasonStage      Reason = "stage"      // an earlier stage, Data.Stage, is open; Data.Behind says what it waits for
	ReasonApproval   Reason = "approval"   // an approval of Data.Stage is open; if Until is set, so is the wait beside it
	ReasonWait       Reason = "wait"       // the wait after Data.Stage is open until Until
	ReasonRegression Reason = "regression" // Data.Names are regressed; ReasonApproval and ReasonWait list them as well
	ReasonSlot       Reason = "slot"       // Data.Names hold slots; Data.Total slots are taken, of Data.Allowed; one becomes free at Until
)

// Data holds the facts of a verdict. The reason determines which fields are set.
type Data struct {
	Position int       `json:"position"`          // of the target within its stage, from 0
	Stage    int       `json:"stage"`             // the stage that the target waits for
	Behind   Reason    `json:"behind,omitempty"`  // what that stage waits for
	Allowed  int       `json:"allowed,omitempty"` // slots of that stage, or failures that a budget allows
	Total    int       `json:"total,omitempty"`   // how many Names there are in all
	Names    []string  `json:"names,omitempty"`   // the first ten of them
	Since    time.Time `json:"since,omitzero"`
	Stuck    bool      `json:"stuck,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Decision *Decision `json:"decision,omitempty"` // who cancelled the run, or rejected the approval; nil if the command did not say
}

// ConditionKind says what kind of event a verdict waits for.
type ConditionKind string

// The kinds of events.
const (
	OnApproval    ConditionKind = "approval"    // the approval request Name is approved
	OnObservation ConditionKind = "observation" // Target is observed
	OnSlot        ConditionKind = "slot"        // a target of Stage is settled
	OnOperator    ConditionKind = "operator"    // a command or another desired state
)

// Condition is an event that can change a verdict. The kind determines which fields are set.
type Condition struct {
	Kind   ConditionKind `json:"kind"`
	Stage  int           `json:"stage"`
	Target string        `json:"target,omitempty"`
	Name   string        `json:"name,omitempty"`   // of the approval request
	Detail string        `json:"detail,omitempty"` // what an operator can do
}

// shownNames is how many names a verdict lists.
const shownNames = 10

// Explain says why a target is not settled. It returns false if the target is settled or unknown.
// It looks only at what it explains, not at the whole fleet.
func (r *Run) Explain(target string) (Verdict, bool) {
	at, ok := r.find(target)
	if !ok {
		return Verdict{}, false
	}
	k, i := int(at.stage), int(at.member)
	rec, name := r.stage(k).tree.at(i)
	if rec.state.Settled() {
		return Verdict{}, false
	}
	v := Verdict{Status: Pending, Data: &Data{Position: i, Stage: k}}
	if rec.state.inProgress() && !r.phase.Terminal() {
		v.Reason = ReasonInProgress
		v.Data.Since, v.Data.Stuck, v.Data.Detail = timeOf(rec.start), rec.marks.has(stuck), rec.state.String()
		v.until(r.plan.stages[k].timing.instants(rec).free)
		v.On = append(v.On, Condition{Kind: OnObservation, Stage: k, Target: name})
		return v, true
	}
	if !r.halted(&v) {
		if r.waits(&v); k != r.current {
			v.Data.Behind, v.Reason = v.Reason, ReasonStage
		}
	}
	return v, true
}

// Waits says what the run waits for: what its current stage waits for, or what keeps that stage
// from going on. If the run is stopping, failing or cancelling, On also has the event that can end
// that, and Until is the next instant at which a target in progress changes by itself, if only from
// soaking to done, or at which the grace is over. Waits returns false only for the zero Run.
func (r *Run) Waits() (Verdict, bool) {
	if r.plan == nil {
		return Verdict{}, false
	}
	v := Verdict{Status: Pending, Data: &Data{Stage: r.current}}
	if !r.halted(&v) {
		r.waits(&v)
	}
	if r.phase.ending() { // the phase has not ended, so a target is in progress
		v.until(min(after(r.since, r.plan.grace), r.stage(r.current).tree.root.first.due))
		v.On = append(v.On, Condition{Kind: OnSlot, Stage: r.current})
	}
	return v, true
}

func (v *Verdict) until(instant int64) {
	if instant != never {
		v.Until = timeOf(instant)
	}
}

// halted fills in why no stage goes on, and reports whether that is so.
func (r *Run) halted(v *Verdict) bool {
	operator := func(can string) {
		v.On = append(v.On, Condition{Kind: OnOperator, Stage: r.current, Detail: can})
	}
	switch r.phase {
	case PhaseCancelling:
		v.Reason, v.Data.Decision = ReasonCancelling, r.cancelled.copied()
	case PhaseFailing:
		v.Reason = ReasonFailing
		r.faulted(v)
	case PhaseInitialized:
		v.Reason = ReasonInitialized
		if r.desired == StateInitialize {
			operator("set state Run")
		} else {
			v.Data.Detail = "the first step is still to come"
		}
	case PhaseStopping, PhaseStopped:
		v.Reason = ReasonStopped
		operator("set state Run")
	case PhaseHeld:
		v.Reason = ReasonHeld
		r.faulted(v)
		if r.rejected() {
			operator("approve or cancel")
		}
		switch {
		case !r.overBudget():
		case r.canRetry(v.Data.Stage):
			operator("skip, retry or cancel")
		default: // their stage is closed, or they are leaving
			operator("skip or cancel")
		}
	default:
		if !r.phase.Terminal() {
			return false
		}
		if v.Reason = ReasonEnded; r.phase == PhaseFailed {
			r.faulted(v)
		} else if r.phase == PhaseCancelled {
			v.Data.Decision = r.cancelled.copied()
		}
	}
	return true
}

// canRetry reports whether a retry would be accepted for a member that counts against an exceeded
// budget: that of the stage over or, if no stage is over its own, that of the run.
func (r *Run) canRetry(over int) bool {
	from, to := over, over+1
	if r.totals.over == 0 {
		from, to = r.current, r.count()-1 // without what is closed, and without the cleanup
	}
	found := false
	for k := from; k < to && !found; k++ {
		s := r.stage(k)
		if s.phase.finished() {
			continue // whoever failed in it
		}
		s.tree.each(isFailed, func(i int, rec *record, name string) bool {
			at, _ := r.find(name) // elsewhere if it moved to the cleanup: a command then means its place there
			found = at == place{int32(k), int32(i)} && s.noRetry(rec) == ""
			return !found
		})
	}
	return found
}

// faulted fills in the exceeded budget and the failed targets, or the rejected approval.
func (r *Run) faulted(v *Verdict) {
	switch d := v.Data; {
	case r.totals.over > 0:
		k := r.current
		for !r.plan.over(k, r.stage(k)) { // else an earlier stage, after a regression
			k = (k + 1) % r.count()
		}
		s := r.stage(k)
		d.Detail, d.Stage, d.Total, d.Allowed = "budget", k, s.failures(), r.plan.budgetOf(r.plan.stages[k].budget, s.tree.size)
		v.names(s, isFailed)
	case r.overBudget():
		d.Detail, d.Total, d.Allowed = "budget", r.totals.failures, r.plan.budgetOf(r.plan.budget, r.totals.members)
		for k := 0; len(d.Names) < min(shownNames, d.Total); k++ {
			v.names(r.stage(k), isFailed)
		}
	case r.rejected():
		side, s := After, r.stage(r.current)
		d.Decision = s.after.by.copied()
		if s.before.state == ApprovalRejected {
			side, d.Decision = Before, s.before.by.copied()
		}
		d.Detail, d.Total = "rejected", 1
		d.Names = append(d.Names, ApprovalName(r.plan.spec.Name, side, r.plan.stages[r.current].name))
	}
}

// names adds the members of a class until shownNames names are listed.
func (v *Verdict) names(s *stage, c class) {
	s.tree.each(c, func(_ int, _ *record, name string) bool {
		if len(v.Data.Names) < shownNames {
			v.Data.Names = append(v.Data.Names, name)
		}
		return len(v.Data.Names) < shownNames
	})
}

// waits fills in what the current stage waits for: the first reason, and all events.
func (r *Run) waits(v *Verdict) {
	k := r.current
	s, p := r.stage(k), &r.plan.stages[k]
	v.Data.Stage = k
	reason := func(code Reason) {
		if v.Reason == "" {
			v.Reason = code
		}
	}
	approval := func(side Side) {
		reason(ReasonApproval)
		v.On = append(v.On, Condition{Kind: OnApproval, Stage: k, Name: ApprovalName(r.plan.spec.Name, side, p.name)})
	}
	switch s.phase {
	case StageWaitingBefore:
		approval(Before)
	case StageUpdating:
		reason(ReasonSlot)
		v.names(s, isActive)
		v.Data.Allowed, v.Data.Total = r.plan.limitOf(k, s.tree.size), s.inProgress()
		v.until(s.tree.root.first.free)
		v.On = append(v.On, Condition{Kind: OnSlot, Stage: k})
	case StageWaitingAfter:
		if p.after && s.after.state != ApprovalApproved {
			approval(After)
		}
		if p.waits && !s.elapsed {
			reason(ReasonWait)
			v.until(s.waitUntil(p))
		}
		if r.blocked(k) {
			reason(ReasonRegression)
			first := k
			if r.plan.options.VerifyDone == Always {
				first = 0
			}
			v.On = append(v.On, Condition{Kind: OnOperator, Stage: k, Detail: "skip"})
			for j := first; j <= k; j++ {
				before := len(v.Data.Names)
				v.Data.Total += r.stage(j).regressed
				v.names(r.stage(j), isRegressed)
				for _, name := range v.Data.Names[before:] {
					if at, _ := r.find(name); int(at.stage) != j && !r.stillHome(int(at.stage), int(at.member)) {
						continue // what is observed now is another target
					}
					v.On = append(v.On, Condition{Kind: OnObservation, Stage: j, Target: name})
				}
			}
		}
	}
}

// String describes the verdict for people.
func (v Verdict) String() string {
	var b strings.Builder
	b.WriteString(textlist.Name(v.Reason))
	code, until := v.Reason, "until"
	if d := v.Data; d != nil {
		if d.Behind != "" {
			fmt.Fprintf(&b, " %d: %s", d.Stage, textlist.Name(d.Behind))
			code = d.Behind
		}
		if d.Detail != "" {
			fmt.Fprintf(&b, " (%s)", textlist.Name(d.Detail))
		}
		if code == ReasonStopped || code == ReasonFailing || code == ReasonCancelling {
			until = "settling until"
		}
		switch {
		case code == ReasonSlot:
			fmt.Fprintf(&b, ", %d of %d in progress", d.Total, d.Allowed)
		case d.Detail == "budget":
			fmt.Fprintf(&b, ", %d of at most %d failed", d.Total, d.Allowed)
		case code == ReasonInProgress:
			fmt.Fprintf(&b, " since %s", d.Since.Format(time.RFC3339))
			if d.Stuck {
				b.WriteString(", stuck")
			}
			if d.Detail != Soaking.String() {
				until = "times out at"
			}
		case code == ReasonApproval || code == ReasonWait:
			if code == ReasonApproval && !v.Until.IsZero() {
				b.WriteString(" and wait")
			}
			if len(d.Names) > 0 {
				b.WriteString(" and regression")
			}
		}
		if len(d.Names) > 0 {
			fmt.Fprintf(&b, ": %s", strings.Join(textlist.Names(d.Names), ", "))
			if more := d.Total - len(d.Names); more > 0 {
				fmt.Fprintf(&b, " and %d more", more)
			}
		}
		b.WriteString(d.Decision.shown())
	}
	if !v.Until.IsZero() {
		fmt.Fprintf(&b, ", %s %s", until, v.Until.Format(time.RFC3339))
	}
	for i, on := range v.On {
		switch {
		case i == 0:
			b.WriteString(", waits for ")
		case on.Kind == OnObservation && v.On[i-1].Kind == OnObservation:
			b.WriteString(" and " + textlist.Name(on.Target)) // of each of them
			continue
		case v.On[i-1].Kind == OnApproval, on.Kind == OnOperator:
			b.WriteString(" and ") // both are needed
		default:
			b.WriteString(" or ")
		}
		b.WriteString(on.String())
	}
	return b.String()
}

// String names the event in a few words.
func (c Condition) String() string {
	switch c.Kind {
	case OnApproval:
		return "the approval " + textlist.Name(c.Name)
	case OnObservation:
		return "an observation of " + textlist.Name(c.Target)
	case OnSlot:
		return "a target to be settled"
	case OnOperator:
		return "an operator to " + textlist.Name(c.Detail)
	}
	return textlist.Name(c.Kind)
}

// Conflicts lists the targets that are unsettled in both runs, sorted by name. Each run would point
// them at its own version, and the run that loses a target sees it superseded. The error is
// [ErrNoRun] if a run is nil or zero. It is a *[FieldError], returned with the list, if the two
// runs must not exist at the same time: runs of one placement must have identical strategies.
//
// Runs of different placements have no conflicts, nor do two runs of which one is over.
func Conflicts(a, b *Run) ([]string, error) {
	if a == nil || b == nil || a.plan == nil || b.plan == nil {
		return nil, ErrNoRun
	}
	s, t := &a.plan.spec, &b.plan.spec
	if a.phase.Terminal() || b.phase.Terminal() || s.PlacementName != t.PlacementName || s.Namespace != t.Namespace {
		return nil, nil
	}
	var both []string
	for k := range a.count() {
		tree := &a.stage(k).tree
		for _, c := range []class{isWaiting, isActive} {
			tree.each(c, func(_ int, _ *record, name string) bool {
				if at, ok := b.find(name); ok && !b.stage(int(at.stage)).memberSettled(int(at.member)) {
					both = append(both, name)
				}
				return true
			})
		}
	}
	slices.Sort(both)
	if a.plan.hash != b.plan.hash {
		return both, &FieldError{Code: CodeConflict, Path: "placementName", Value: strconv.Quote(s.PlacementName),
			Hint: fmt.Sprintf("runs %s and %s have different strategies: let one end first", s.Name, t.Name)}
	}
	return both, nil
}
