package bracket

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// String describes the plan for people: a line for each start, each run to dispatch again, whatever
// waits, each stuck run, each event, each unknown run and each refused command, and at last when to
// look again. Of each of these lists it shows the first ten entries and counts the rest. A plan that
// has none of these is "nothing". The text does not end with a newline.
func (p Plan) String() string {
	var lines []string
	lines = textlist.Lines(lines, "start: ", p.Start)
	lines = textlist.Lines(lines, "redispatch: ", p.Redispatch)
	lines = textlist.Lines(lines, "waits: ", slices.Collect(p.Waits()))
	lines = textlist.Lines(lines, "stuck: ", p.Stuck)
	lines = textlist.Lines(lines, "event: ", p.Events)
	lines = textlist.Lines(lines, "unknown: ", p.Unknown)
	lines = textlist.Lines(lines, "refused: ", p.Refused)
	if !p.Next.IsZero() {
		lines = append(lines, "next: "+stamp(p.Next))
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// String returns "resource/deployment (role): purpose version as run", whether the run takes the
// lease, and since when it is due.
func (s Start) String() string {
	text := fmt.Sprintf("%s/%s (%s): %s %s as %s", textlist.Name(s.Run.Resource), textlist.Name(s.Run.Deployment), s.Role, s.Run.Purpose, textlist.Name(s.Version), textlist.Name(s.Run.String()))
	if s.First {
		text += ", takes the lease"
	}
	return text + ", due since " + stamp(s.DueAt)
}

// String returns what waits, for what reason, until when and for what.
func (w Wait) String() string {
	var about string
	switch {
	case w.Resource == "":
		about = textlist.Name(w.Group)
	case w.Deployment == "":
		about = fmt.Sprintf("%s: %s", textlist.Name(w.Resource), textlist.Name(w.Group))
	default:
		about = fmt.Sprintf("%s/%s: %s", textlist.Name(w.Resource), textlist.Name(w.Deployment), textlist.Name(w.Group))
	}
	return about + ": " + because(w.Reason, w.Until, w.On())
}

// String returns the reason with its status, of which group it is, until when it holds and what can
// end it.
func (v Verdict) String() string {
	text := string(v.Reason.Status()) + ": "
	if v.Group != "" {
		text += textlist.Name(v.Group) + ": "
	}
	return text + because(v.Reason, v.Until, v.On)
}

// because puts a reason into words.
func because(reason Reason, until time.Time, on []Condition) string {
	text := string(reason)
	if !until.IsZero() {
		text += " until " + stamp(until)
	}
	if len(on) == 0 {
		return text
	}
	events := make([]string, len(on))
	for i, one := range on {
		events[i] = one.String()
	}
	text += ", waits for "
	for i, one := range textlist.Few(events) { // the list has all of them
		switch {
		case i == 0:
		case reason == ReasonHookWithoutVersion, on[i-1].Kind == OnMember && on[i].Kind == OnMember:
			text += " and " // the version comes before the group that takes it along; all these members must end
		default:
			text += " or "
		}
		text += one
	}
	return text
}

// String names the event in a few words.
func (c Condition) String() string {
	switch c.Kind {
	case OnMember:
		return fmt.Sprintf("%s on %s", textlist.Name(c.Deployment), textlist.Name(c.Resource))
	case OnExecutionEnd:
		return fmt.Sprintf("the end of the execution on %s", textlist.Name(c.Resource))
	case OnGroupClose:
		return fmt.Sprintf("the next group in %s", textlist.Name(c.Environment))
	case OnVersion:
		return fmt.Sprintf("a version of %s", textlist.Name(c.Deployment))
	case OnConfig:
		return "a change of the configuration"
	case OnOperator:
		if c.Group != "" {
			return fmt.Sprintf("a command for %s on %s", textlist.Name(c.Group), textlist.Name(c.Resource))
		}
		return "an operator"
	}
	return string(c.Kind)
}

// String describes the run on one line.
func (s Stuck) String() string {
	return fmt.Sprintf("%s/%s: %s is stuck since %s, started %s", textlist.Name(s.Run.Resource), textlist.Name(s.Run.Deployment), textlist.Name(s.Run.String()), stamp(s.Since), stamp(s.StartedAt))
}

// String describes the event on one line.
func (e Event) String() string {
	text := fmt.Sprintf("%s: %s", e.Kind, textlist.Name(e.Group))
	if e.Resource != "" {
		text += " on " + textlist.Name(e.Resource)
	}
	if e.Into != "" {
		text += " into " + textlist.Name(e.Into)
	}
	text = fmt.Sprintf("%s, %s at %s", text, e.Status, stamp(e.At))
	if e.Quarantine {
		text += ", quarantines the lease"
	}
	return text
}

// String returns the id and what the command does to which execution, followed by who gave it, when
// and why, as far as it says, on one line.
func (c Command) String() string {
	text := textlist.Name(c.Kind)
	if c.Deployment != "" {
		text += " " + textlist.Name(c.Deployment)
	}
	text = fmt.Sprintf("%s: %s for %s", textlist.Name(c.ID), text, textlist.Name(c.Group))
	if c.Resource != "" {
		text += " on " + textlist.Name(c.Resource)
	}
	if who := textlist.Remark(c.By); who != "" {
		text += " by " + who
	}
	if !instant.Unset(c.At) {
		text += " at " + stamp(c.At)
	}
	if why := textlist.Remark(c.Reason); why != "" {
		text += ": " + why
	}
	return text
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
