package staged

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Verdict says why a target or a run does not go on. Its shape is that of the verdicts of package
// rollout.
//
// On lists a command only where the run, or a suspended target, does not go on without one: that
// [CommandEndWait] ends a wait before its time, or [CommandSkip] an attempt in progress, is no
// event that is waited for. Nor is a change of the fleet, such as that the target itself leaves or
// is observed to be gone.
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
	ReasonStopped     Reason = "stopped"     // or stopping; if resuming would hold or fail the run, Data says why, as for ReasonHeld, and On what undoes it
	// ReasonHeld: if a budget is exceeded, Data.Detail is "budget", Data.Names are failed targets,
	// Data.Total is the number of all that failed, and Data.Allowed is how many may fail. The
	// budget is that of Data.Stage or, if no stage is over its own, that of the run. Otherwise
	// Data.Detail is "rejected", Data.Names holds the name of the approval request, and
	// Data.Decision says who rejected it.
	ReasonHeld Reason = "held"
	// ReasonSuspended: Data.Names are suspended, and if Data.Total is 1, Data.Decision says by whom
	// and since when. As the reason of a target it is about that target alone, whether its turn has
	// come or not. As that of a run, or behind [ReasonStage], all that is left of the stage is
	// suspended.
	ReasonSuspended  Reason = "suspended"
	ReasonStage      Reason = "stage"      // an earlier stage, Data.Stage, is open; Data.Behind says what it waits for
	ReasonApproval   Reason = "approval"   // an approval of Data.Stage is open; if Until is set, so is the wait beside it
	ReasonWait       Reason = "wait"       // the wait after Data.Stage is open until Until
	ReasonRegression Reason = "regression" // Data.Names are regressed; ReasonApproval and ReasonWait list them as well
	// ReasonGroup: the group Data.Detail of Data.Stage is full. Data.Names hold its slots, Data.Total
	// of Data.Allowed; one becomes free at Until. As the reason of a target it is about the target's
	// own group, also if all slots of the stage are taken. As that of a run, or behind [ReasonStage],
	// the stage has free slots, and all that waits is in groups that are full: the group is that of
	// the target whose turn it would be, while Until and On are about all groups.
	ReasonGroup Reason = "group"
	ReasonSlot  Reason = "slot" // Data.Names hold slots; Data.Total slots are taken, of Data.Allowed; one becomes free at Until
)

// Data holds the facts of a verdict. The reason determines which fields are set.
type Data struct {
	Position int       `json:"position"`           // of the target within its stage, from 0; 0 if the verdict is that of a run
	Stage    int       `json:"stage"`              // index of the stage that is waited for, else of the target's own or the current one
	Behind   Reason    `json:"behind,omitempty"`   // what that stage waits for
	Allowed  int       `json:"allowed,omitempty"`  // slots of that stage or group, or failures that a budget allows
	Total    int       `json:"total,omitempty"`    // how many Names there are in all
	Names    []string  `json:"names,omitempty"`    // the first ten of them
	Since    time.Time `json:"since,omitzero"`     // the start of the present attempt
	Stuck    bool      `json:"stuck,omitempty"`    // it has been starting or updating for stuckAfter
	Detail   string    `json:"detail,omitempty"`   // what the reason says it is
	Decision *Decision `json:"decision,omitempty"` // who cancelled the run, rejected the approval, or suspended the target; nil if the command did not say
}

// ConditionKind says what kind of event a verdict waits for.
type ConditionKind string

// The kinds of events.
const (
	OnApproval    ConditionKind = "approval"    // the approval request Name is approved
	OnObservation ConditionKind = "observation" // Target is observed
	OnSlot        ConditionKind = "slot"        // a target of Stage is settled or, where the run is stopping, failing or cancelling, ready
	OnGroup       ConditionKind = "group"       // a target of the group Name of Stage is settled
	OnOperator    ConditionKind = "operator"    // a command or another desired state
)

// Condition is an event that can change a verdict. The kind determines which fields are set.
type Condition struct {
	Kind   ConditionKind `json:"kind"`
	Stage  int           `json:"stage"` // index
	Target string        `json:"target,omitempty"`
	Name   string        `json:"name,omitempty"`   // of the approval request, or of the group: its value of the label
	Detail string        `json:"detail,omitempty"` // what an operator can do
}

// String describes the verdict for people.
func (v Verdict) String() string {
	var b strings.Builder
	b.WriteString(textlist.Name(v.Reason))
	until := "until"
	if d := v.Data; d != nil {
		code := v.Reason
		if d.Behind != "" {
			fmt.Fprintf(&b, " %d: %s", d.Stage, textlist.Name(d.Behind))
			code = d.Behind
		}
		if d.Detail != "" && code != ReasonGroup {
			fmt.Fprintf(&b, " (%s)", textlist.Name(d.Detail))
		}
		b.WriteString(d.about(code, !v.Until.IsZero()))
		b.WriteString(d.Decision.shown())
		switch {
		case code == ReasonStopped || code == ReasonFailing || code == ReasonCancelling:
			until = "settling until"
		case code == ReasonInProgress && d.Detail != Soaking.String():
			until = "times out at"
		}
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

// about says what a reason is about, beside the detail. timed reports whether time ends it, too.
func (d *Data) about(code Reason, timed bool) string {
	var b strings.Builder
	switch {
	case code == ReasonGroup:
		fmt.Fprintf(&b, " %s, %d of %d in progress", shownGroup(d.Detail), d.Total, d.Allowed)
	case code == ReasonSlot:
		fmt.Fprintf(&b, ", %d of %d in progress", d.Total, d.Allowed)
	case d.Detail == "budget":
		fmt.Fprintf(&b, ", %d of at most %d failed", d.Total, d.Allowed)
	case code == ReasonInProgress:
		fmt.Fprintf(&b, " since %s", d.Since.Format(time.RFC3339))
		if d.Stuck {
			b.WriteString(", stuck")
		}
	case code == ReasonApproval || code == ReasonWait:
		if code == ReasonApproval && timed {
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
	return b.String()
}

// shownGroup shows an empty value as such.
func shownGroup(value string) string { return cmp.Or(textlist.Name(value), `""`) }

// String names the event in a few words.
func (c Condition) String() string {
	switch c.Kind {
	case OnApproval:
		return "the approval " + textlist.Name(c.Name)
	case OnObservation:
		return "an observation of " + textlist.Name(c.Target)
	case OnSlot:
		return "a target to be settled"
	case OnGroup:
		return "a target of group " + shownGroup(c.Name) + " to be settled"
	case OnOperator:
		return "an operator to " + textlist.Name(c.Detail)
	}
	return textlist.Name(c.Kind)
}
