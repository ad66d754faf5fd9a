package staged

import (
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// Decision says who gave a [Command], when and why. A decision that a run or a step returns is a
// copy and belongs to the caller.
type Decision struct {
	By     string    `json:"by,omitempty"`
	At     time.Time `json:"at"` // in UTC; the now of the step if the command did not say
	Reason string    `json:"reason,omitempty"`
}

// String returns "by who at when: why" on one line, without what is empty.
func (d Decision) String() string {
	text := "at " + d.At.UTC().Format(time.RFC3339)
	if who := textlist.Remark(d.By); who != "" {
		text = "by " + who + " " + text
	}
	if why := textlist.Remark(d.Reason); why != "" {
		text += ": " + why
	}
	return text
}

// shown returns the decision as a remark, and nothing if there is none.
func (d *Decision) shown() string {
	if d == nil {
		return ""
	}
	return " (" + d.String() + ")"
}

// copied keeps what a run holds out of the reach of its callers.
func (d *Decision) copied() *Decision {
	if d == nil {
		return nil
	}
	own := *d
	return &own
}

// decision returns who decided, when and why; nil if the command does not say.
func (c *Command) decision(now int64) *Decision {
	if c.By == "" && c.Reason == "" && c.At.IsZero() {
		return nil
	}
	d := &Decision{By: c.By, At: timeOf(now), Reason: c.Reason}
	if instant, fault := instantOf(c.At); fault == nil {
		d.At = timeOf(instant) // as it is read back from a stored run
	}
	return d
}

// explain records that the command at hand is why a target was skipped or retried. What an earlier
// command said of the target does not explain it any more.
func (e *edit) explain(k, i int) {
	if e.decision != nil || e.run.stage(k).decision(i) != nil {
		s := e.stage(k)
		s.decisions = s.decisions.put(i, uint64(i), e.decision)
	}
}

// suspendedBy returns what the command said that suspended a member, or nil if the member is not
// suspended.
func (s *stage) suspendedBy(i int) *Decision {
	if rec, _ := s.tree.at(i); !rec.marks.has(suspended) {
		return nil
	}
	return s.holds.find(i, uint64(i)).value
}

// decision returns what was said of a member last, or nil.
func (s *stage) decision(i int) *Decision {
	if node := s.decisions.find(i, uint64(i)); node != nil {
		return node.value
	}
	return nil
}
