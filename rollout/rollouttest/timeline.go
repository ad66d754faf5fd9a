package rollouttest

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// Timeline is what happened in a world, in order, and what it cost. It prints itself, see
// [Timeline.String] and [Timeline.Chart].
type Timeline struct {
	Start   time.Time `json:"start"`
	Entries []Entry   `json:"entries"`

	// Finish is when the last job or its verification ended, or a change ended it, but not before
	// Start; zero if none did. Compare two worlds by it only if both are done: one that stops half way
	// finishes earlier.
	Finish time.Time `json:"finish,omitzero"`

	// Done says that at the end nothing waited, ran or hung. Otherwise see Left, Running, CutOff.
	Done bool `json:"done"`

	// CutOff says that World.End, or an error of Run, came before the world was at rest.
	CutOff bool `json:"cutOff,omitempty"`

	// Left lists the targets that still waited at the end, and why.
	Left []rollout.Waiting `json:"left,omitempty"`

	// Running lists the runs that had not ended at the end, or were still being verified, in the
	// order of their start. The fleet's own jobs without a run id are listed by their target. What
	// runs on a target that leaves is not listed: nobody reports it any more.
	Running []string `json:"running,omitempty"`

	// Pools gives the greatest use of every pool, in the order of their keys.
	Pools []Peak `json:"pools,omitempty"`

	// InFlight is the greatest number of resources that were being disrupted at once, whatever the
	// pools: those with a job in progress or an open bracket execution.
	InFlight int `json:"inFlight"`

	// Drains is how many runs of pre members there were, several attempts counted once.
	Drains int `json:"drains"`

	// DrainsSaved is how many more drains there would have been if every upgrade of a main member
	// had brought its own. What was drained for an upgrade before the start needs no other drain.
	DrainsSaved int `json:"drainsSaved"`

	// Diagnostics are the oddities that the plans met, each once, with its greatest count, ordered by
	// code, rule and detail. A command, an override, a freeze or an approval among them had no effect
	// just then, mostly because of a wrong id.
	Diagnostics []rollout.Diagnostic `json:"diagnostics,omitempty"`
}

// Peak is the greatest use of a pool.
type Peak struct {
	Pool   string    `json:"pool"`
	Active int       `json:"active"` // members being disrupted, at most
	Max    int       `json:"max"`    // how many were allowed then
	Total  int       `json:"total"`  // members then
	At     time.Time `json:"at"`     // when it was first reached
	// Began is how many members began within the period of the pool's rate, at most, and
	// PeriodSeconds is that period, see [concurrency.Rate]. Both are zero for a pool without a rate.
	Began         int   `json:"began,omitempty"`
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
}

// Kind is the kind of an entry.
type Kind string

const (
	Arrival Kind = "arrival" // something came into the world or changed in it: Note
	Bracket Kind = "bracket" // a bracket event, see Event; Locks if a group closed
	Found   Kind = "found"   // a job of the fleet was at work at the start, or being verified, with Status; Note says since when
	Start   Kind = "start"   // a job was dispatched
	End     Kind = "end"     // a job ended, with Status; Note says if it is being verified
	Verify  Kind = "verify"  // the verification of a job ended, with Status
	Wait    Kind = "wait"    // a target waits, with Blockers; reported again only when these change
	Stuck   Kind = "stuck"   // a run or a lease without progress for too long; Note names the pool of a lease
)

// Entry is one line of a timeline. Which fields are set follows from the kind.
type Entry struct {
	At          time.Time         `json:"at"` // when it happened
	Kind        Kind              `json:"kind"`
	Resource    string            `json:"resource,omitempty"`
	Environment string            `json:"environment,omitempty"`
	Deployment  string            `json:"deployment,omitempty"`
	Version     string            `json:"version,omitempty"`
	Run         string            `json:"run,omitempty"`
	Attempt     int               `json:"attempt,omitempty"` // of a start, or of a job that was found, from 1
	Purpose     rollout.Purpose   `json:"purpose,omitempty"`
	Role        bracket.Role      `json:"role,omitempty"`   // of the member that a start or an end is about; empty outside brackets
	Group       string            `json:"group,omitempty"`  // id of the bracket group, or holder of the slot
	Reason      rollout.Reason    `json:"reason,omitempty"` // how a start got its slot
	Event       bracket.EventKind `json:"event,omitempty"`
	Status      string            `json:"status,omitempty"` // of a job when it was found, of the job or verification that ended, or of the group or execution after the event
	Into        string            `json:"into,omitempty"`   // the group that another one was merged into
	Locks       map[string]string `json:"locks,omitempty"`  // deployment → version that the group locked first
	TimedOut    bool              `json:"timedOut,omitempty"`
	Blockers    []rollout.Verdict `json:"blockers,omitempty"`
	Holders     []string          `json:"holders,omitempty"` // of a wait for a slot: the resources that had the slots when it began
	Note        string            `json:"note,omitempty"`    // what arrived; since when a job was at work that was found; the pool of a stuck lease; since when an event holds that was noticed late
}

// About returns the timeline with the entries of one resource, and those that concern no resource.
func (t Timeline) About(resource string) Timeline {
	t.Entries = slices.DeleteFunc(slices.Clone(t.Entries), func(e Entry) bool { return e.Resource != "" && e.Resource != resource })
	return t
}
