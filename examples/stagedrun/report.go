package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/examples/internal/program"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// say prints a line with the time since the beginning.
func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.out, "%10s  %s\n", w.since(w.now), fmt.Sprintf(format, args...))
}

// since is a time as it is printed: counted from the beginning.
func (w *world) since(t time.Time) string {
	d := t.Sub(w.start)
	return fmt.Sprintf("%dh%02dm%02ds", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second)
}

// report prints what a step changed and, if that is new, what the run waits for.
func (w *world) report(run *staged.Run, events []staged.Event) {
	var stages []staged.StageStatus
	for s := range run.Stages() {
		stages = append(stages, s)
	}
	last := map[int]int{} // stage → the last event that changed its counts
	for i, e := range events {
		if e.Kind == staged.EventTarget && e.To != "updating" {
			last[e.Stage] = i
		}
	}
	for i, e := range events {
		name, starts, done := "", "starts", e.To
		if e.Stage >= 0 {
			name = stages[e.Stage].Name
			if stages[e.Stage].Cleanup {
				name, starts = "deleteStage", "is being removed" // without the domain in front of the name
				if e.To == "done" {
					done = "gone"
				}
			}
		}
		switch e.Kind {
		case staged.EventStage:
			w.say("%s: %s", name, e.To)
		case staged.EventTarget:
			switch e.To {
			case "starting":
				w.say("%s:   %s %s", name, e.Target, starts)
			case "updating": // the same start, acknowledged
			case "waiting":
				w.say("%s:   %s is retried%s", name, e.Target, decided(e.Decision))
			default:
				w.say("%s:   %s is %s%s", name, e.Target, done, because(e.Reason))
			}
			if at, ok := last[e.Stage]; ok && i == at {
				w.say("%s:   %s", name, progress(&stages[e.Stage]))
			}
		case staged.EventApproval:
			is := e.To
			if is == string(staged.ApprovalNone) {
				is = "not needed any more"
			}
			w.say("%s: approval %s is %s%s", name, staged.ApprovalName(run.Spec().Name, e.Side, stages[e.Stage].Name), is, decided(e.Decision))
		case staged.EventWait:
			if s := &stages[e.Stage]; e.To == "elapsed" {
				w.say("%s: the wait is over%s", name, ended(s.WaitEndedBy))
			} else {
				w.say("%s: wait of %s, until %s", name, staged.For(s.Wait), w.since(s.WaitUntil))
			}
		case staged.EventStuck:
			not := "ready"
			if e.Stage >= 0 && stages[e.Stage].Cleanup {
				not = "gone"
			}
			w.say("%s:   %s is stuck: not %s after %s", name, e.Target, not, program.Short(w.now.Sub(started(run, e.Target))))
		case staged.EventRun:
			w.say("run: %s", e.To)
		case staged.EventCommandIgnored, staged.EventMembershipIgnored, staged.EventRegressed, staged.EventRecovered, staged.EventJoined:
			w.say("%s", e)
		}
	}
	waits := ""
	if !run.Phase().Terminal() && run.Phase() != staged.PhaseProgressing {
		waits = w.waits(run)
	}
	if waits != w.shown && waits != "" {
		fmt.Fprintf(w.out, "            waits: %s\n", waits)
	}
	w.shown = waits
}

// started is when the present attempt at a cluster was started.
func started(run *staged.Run, name string) time.Time {
	t, _ := run.Target(name)
	return t.Start
}

// waits says what the run waits for.
func (w *world) waits(run *staged.Run) string {
	v, _ := run.Waits()
	text := v.String()
	if !v.Until.IsZero() {
		text = strings.ReplaceAll(text, v.Until.Format(time.RFC3339), w.since(v.Until))
	}
	return w.counted(text, v.Data.Decision)
}

// counted is a text of the library with the times of decisions as everything else is printed here.
func (w *world) counted(text string, decisions ...*staged.Decision) string {
	for _, d := range decisions {
		if d != nil {
			text = strings.ReplaceAll(text, " at "+d.At.Format(time.RFC3339), " at "+w.since(d.At))
		}
	}
	return text
}

func because(reason staged.Reason) string {
	if reason == "" {
		return ""
	}
	return " (" + string(reason) + ")"
}

// decided says who gave the command and why. When, is in front of the line.
func decided(d *staged.Decision) string {
	if d == nil {
		return ""
	}
	text := " by " + d.By
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	return text
}

// ended says who ended a wait before its time.
func ended(d *staged.Decision) string {
	if d == nil {
		return ""
	}
	return ", ended" + decided(d)
}

// progress says how far a stage is.
func progress(s *staged.StageStatus) string {
	c := s.Counts
	text := fmt.Sprintf("%d of %d done", c.Done, c.Members)
	if n := c.Starting + c.Updating + c.Soaking; n > 0 {
		text += fmt.Sprintf(", %d in progress", n)
	}
	if n := c.Failed + c.TimedOut; n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	return text
}

// summary prints the run as it ended.
func (w *world) summary(run *staged.Run) {
	text := run.String()
	for s := range run.Stages() {
		text = w.counted(text, s.Before.Decision, s.After.Decision, s.WaitEndedBy)
		for t := range run.Targets(s.Index) {
			text = w.counted(text, t.Decision)
		}
	}
	fmt.Fprintln(w.out, text)
}
