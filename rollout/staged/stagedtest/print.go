package stagedtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// String returns a line for everything that happened, with the time since the start, but for starts
// that are acknowledged and the phases of stages without targets; targets to which the same happened
// at once, and nothing else in between, share a line, which names the first ten. Then come a line for
// each stage that has targets, and how the run ended, or what it waits for. Instants are in UTC. The
// text does not end with a newline.
func (t Timeline) String() string {
	lines := []string{"from " + t.Start.UTC().Format(layout) + " on"}
	started := map[[2]string]bool{} // by stage and target: the start is not acknowledged yet
	for k := 0; k < len(t.Entries); {
		e := &t.Entries[k]
		if e.Event.To == staged.Updating.String() && started[[2]string{e.Stage, e.Event.Target}] {
			delete(started, [2]string{e.Stage, e.Event.Target})
			k++ // the same start, acknowledged
			continue
		}
		if e.Event.Kind == staged.EventStage && t.empty(e.Event.Stage) {
			k++ // it is passed over
			continue
		}
		var names []string
		from := k
		for ; k < len(t.Entries) && alike(e, &t.Entries[k]) && (k == from || e.Event.Target != ""); k++ {
			own := t.Entries[k].Event
			names = append(names, textlist.Name(own.Target))
			if own.Kind == staged.EventTarget {
				started[[2]string{e.Stage, own.Target}] = own.To == staged.Starting.String()
			}
		}
		lines = append(lines, fmt.Sprintf("%10s  %s", t.since(e.At), t.sentence(e, names)))
	}
	for k := range t.Stages {
		if !t.empty(k) {
			lines = append(lines, t.line(&t.Stages[k]))
		}
	}
	return strings.Join(append(lines, t.ending()), "\n")
}

// empty reports whether a stage has no targets.
func (t *Timeline) empty(stage int) bool {
	return stage >= 0 && stage < len(t.Stages) && t.Stages[stage].Counts.Members == 0
}

const layout = "2006-01-02 15:04:05"

// alike reports whether two entries differ in the target alone.
func alike(a, b *Entry) bool {
	x, y := a.Event, b.Event
	same := x.Decision == y.Decision || x.Decision != nil && y.Decision != nil && *x.Decision == *y.Decision
	y.Target, y.Decision = x.Target, x.Decision
	return same && a.At.Equal(b.At) && a.Stage == b.Stage && a.What == b.What && x == y
}

// since is an instant as it is printed: counted from the start.
func (t *Timeline) since(at time.Time) string {
	if at.Before(t.Start) {
		return "-" + textlist.Duration(t.Start.Sub(at))
	}
	return "+" + textlist.Duration(at.Sub(t.Start))
}

// sentence says what happened, to all the targets that are named.
func (t *Timeline) sentence(e *Entry, targets []string) string {
	own := &e.Event
	text := ""
	if e.Stage != "" {
		text = textlist.Name(e.Stage) + ": "
	}
	names := strings.Join(textlist.Few(targets), ", ")
	switch own.Kind {
	case "":
		return textlist.Remark(e.What)
	case staged.EventRun:
		text = "run: " + own.To
	case staged.EventStage:
		text += own.To
	case staged.EventTarget:
		text += names + " " + t.became(own)
	case staged.EventApproval:
		text += "approval " + string(own.Side) + " " + own.To
	case staged.EventWait:
		text += "wait " + own.To
	case staged.EventStuck, staged.EventRegressed, staged.EventRecovered, staged.EventSuspended, staged.EventResumed, staged.EventJoined:
		text += names + " " + string(own.Kind)
	default: // it was ignored
		if e.Stage == "" && own.Stage >= 0 {
			text = fmt.Sprintf("stage %d: ", own.Stage)
		}
		text += string(own.Kind)
		for _, word := range []string{textlist.Name(string(own.Side)), names, textlist.Name(own.To)} {
			if word != "" {
				text += " " + word
			}
		}
	}
	if own.Reason != "" {
		text += " (" + string(own.Reason) + ")"
	}
	if own.Decision != nil {
		text += " (" + own.Decision.String() + ")"
	}
	return text
}

// became says in which state a target is now.
func (t *Timeline) became(e *staged.Event) string {
	cleanup := e.Stage >= 0 && e.Stage < len(t.Stages) && t.Stages[e.Stage].Cleanup
	switch {
	case e.To == staged.Waiting.String():
		return "retried"
	case e.To == staged.Starting.String() && cleanup:
		return "being removed"
	case e.To == staged.Starting.String():
		return "started"
	case e.To == staged.Done.String() && cleanup:
		return "gone"
	}
	return e.To
}

// line says how long a stage took, and how far it is.
func (t *Timeline) line(s *Span) string {
	text := fmt.Sprintf("%s: %s, %s", textlist.Name(s.Name), s.Phase, s.Counts)
	if !s.Start.IsZero() {
		text += ", from " + t.since(s.Start)
	}
	switch {
	case s.End.IsZero():
	case s.Start.IsZero():
		text += ", until " + t.since(s.End)
	default:
		text += " to " + t.since(s.End)
	}
	if s.Peak > 0 {
		text += fmt.Sprintf(", at most %d at once", s.Peak)
	}
	return text
}

// ending says how the run ended, or what it waits for.
func (t *Timeline) ending() string {
	switch {
	case t.Run == nil:
		return "no run"
	case t.Ended.Before(t.Start) && !t.Ended.IsZero():
		return fmt.Sprintf("%s %s before the start", t.Run.Phase(), textlist.Duration(t.Start.Sub(t.Ended)))
	case !t.Ended.IsZero():
		return fmt.Sprintf("%s after %s", t.Run.Phase(), strings.TrimPrefix(t.since(t.Ended), "+"))
	case t.CutOff:
		return fmt.Sprintf("%s: the world stopped before the run was over", t.Run.Phase())
	}
	v, _ := t.Run.Waits()
	return fmt.Sprintf("%s: nothing more will happen by itself: %s", t.Run.Phase(), v)
}
