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
func (t Timeline) Done() bool { return done(t.Run) }

func done(run *staged.Run) bool {
	return run != nil && (run.Phase() == staged.PhaseSucceeded || run.Phase() == staged.PhasePartiallySucceeded)
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

// recorder writes the timeline.
type recorder struct {
	timeline Timeline
	spans    []Span
}

func (c *recorder) begin(start time.Time, run *staged.Run) {
	c.timeline.Start = start
	for s := range run.Stages() {
		c.spans = append(c.spans, Span{Name: s.Name, Cleanup: s.Cleanup})
	}
}

// knows reports whether a run has the stages of the one that the world began with.
func (c *recorder) knows(run *staged.Run) bool {
	names := c.spans
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
func (c *recorder) record(at time.Time, run *staged.Run, events []staged.Event) {
	for _, e := range events {
		own := Entry{At: at, Event: e}
		if e.Stage >= 0 && e.Stage < len(c.spans) { // a command that is ignored may name any
			own.Stage = c.spans[e.Stage].Name
		}
		c.timeline.Entries = append(c.timeline.Entries, own)
	}
	if current := run.Current(); current < len(c.spans) {
		own, all := &c.spans[current], run.Counts()
		own.Peak = max(own.Peak, all.Starting+all.Updating+all.Soaking)
	}
}

// change writes that something has changed in the world.
func (c *recorder) change(at time.Time, what string) {
	if what != "" {
		c.timeline.Entries = append(c.timeline.Entries, Entry{At: at, What: what})
	}
}

// finish writes how the world ended.
func (c *recorder) finish(run *staged.Run) {
	t := &c.timeline
	t.Run = run
	if run.Phase().Terminal() {
		t.Ended = run.PhaseSince()
	}
	for s := range run.Stages() {
		own := &c.spans[s.Index]
		own.Phase, own.Start, own.End, own.Counts = s.Phase, s.Start, s.End, s.Counts
	}
	t.Stages = c.spans
}
