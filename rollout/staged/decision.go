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
	if e.decision != nil || e.run.stage(k).told.find(i) != nil {
		s := e.stage(k)
		s.told = s.told.put(i, e.decision, i)
	}
}

// decisions is a persistent map from the positions of members to decisions about them; nil is
// empty. Each node holds one position, and has a child for each value of the next four bits. Most
// stages have none, so records have no room for them.
type decisions struct {
	at   int
	is   *Decision
	kids [16]*decisions
}

// find returns the decision about a member, or nil.
func (t *decisions) find(i int) *Decision {
	for bits := i; t != nil; bits >>= 4 {
		if t.at == i {
			return t.is
		}
		t = t.kids[bits&15]
	}
	return nil
}

// put returns a map in which the decision about a member is replaced, and leaves t unchanged. bits
// are those of the position that lead on from t.
func (t *decisions) put(i int, is *Decision, bits int) *decisions {
	if t == nil {
		return &decisions{at: i, is: is}
	}
	copied := *t
	if t.at == i {
		copied.is = is
	} else {
		copied.kids[bits&15] = t.kids[bits&15].put(i, is, bits>>4)
	}
	return &copied
}
