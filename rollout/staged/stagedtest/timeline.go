package stagedtest

import (
	"time"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// Timeline is what happened in a world. It is plain data: without its Entries it prints the stages
// and the end alone.
type Timeline struct {
	Start   time.Time   `json:"start"`
	Entries []Entry     `json:"entries,omitempty"` // in the order in which things happened
	Stages  []Span      `json:"stages,omitempty"`  // in order, the cleanup last
	Run     *staged.Run `json:"run,omitempty"`     // as it was at the end
	Ended   time.Time   `json:"ended,omitzero"`    // when the run was over; zero if it never was
	CutOff  bool        `json:"cutOff,omitempty"`  // the world stopped before its time: at World.End, or with an error
}

// Done reports whether the run went through all its stages: it has succeeded, with or without targets
// that failed or were skipped.
func (t Timeline) Done() bool {
	return t.Run != nil && (t.Run.Phase() == staged.PhaseSucceeded || t.Run.Phase() == staged.PhasePartiallySucceeded)
}

// Entry is something that happened: an event of the run, or a change in the world.
type Entry struct {
	At    time.Time    `json:"at"`
	Stage string       `json:"stage,omitempty"` // name of the stage of the event; empty if it is about none, or one that the run does not have
	Event staged.Event `json:"event,omitzero"`  // zero for a change in the world
	What  string       `json:"what,omitempty"`  // the What of the change
}

// Span is how long one stage took.
type Span struct {
	Name    string            `json:"name"`
	Cleanup bool              `json:"cleanup,omitempty"` // the removal of leaving targets
	Phase   staged.StagePhase `json:"phase"`             // at the end
	Start   time.Time         `json:"start,omitzero"`    // see [staged.StageStatus].Start, also before the start of the world
	End     time.Time         `json:"end,omitzero"`      // see [staged.StageStatus].End
	Peak    int               `json:"peak,omitempty"`    // targets in progress at once, at most, after any step of the world
	Counts  staged.Counts     `json:"counts"`            // at the end
}

// timelineFrom returns the timeline of a run to which nothing has happened yet.
func timelineFrom(start time.Time, run *staged.Run) Timeline {
	t := Timeline{Start: start}
	for s := range run.Stages() {
		t.Stages = append(t.Stages, Span{Name: s.Name, Cleanup: s.Cleanup})
	}
	return t
}

// knows reports whether a run has the stages of the one that the world began with.
func (t *Timeline) knows(run *staged.Run) bool {
	names := t.Stages
	for s := range run.Stages() {
		if len(names) == 0 || names[0].Name != s.Name {
			return false
		}
		names = names[1:]
	}
	return len(names) == 0
}

// record writes what a step has changed and ignored, and how many targets are in progress after it:
// no other stage but the current one has any.
func (t *Timeline) record(at time.Time, run *staged.Run, events []staged.Event) {
	for _, e := range events {
		own := Entry{At: at, Event: e}
		if e.Stage >= 0 && e.Stage < len(t.Stages) { // a command that is ignored may name any
			own.Stage = t.Stages[e.Stage].Name
		}
		t.Entries = append(t.Entries, own)
	}
	if current := run.Current(); current < len(t.Stages) {
		own, all := &t.Stages[current], run.Counts()
		own.Peak = max(own.Peak, all.Starting+all.Updating+all.Soaking)
	}
}

// change writes that something has changed in the world.
func (t *Timeline) change(at time.Time, what string) {
	if what != "" {
		t.Entries = append(t.Entries, Entry{At: at, What: what})
	}
}

// finish writes how the world ended.
func (t *Timeline) finish(run *staged.Run) {
	t.Run = run
	if run.Phase().Terminal() {
		t.Ended = run.PhaseSince()
	}
	for s := range run.Stages() {
		own := &t.Stages[s.Index]
		own.Phase, own.Start, own.End, own.Counts = s.Phase, s.Start, s.End, s.Counts
	}
}
