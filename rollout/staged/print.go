package staged

import (
	"fmt"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// shownTargets is how many targets of a stage are printed, the first of them. Of the others as many
// are that are in progress, failed, regressed or suspended as a verdict names.
const shownTargets = 12

// String describes the run for people: its phase, its budget if it has one, what it waits for, and
// each stage with its limits, its gates and its targets. Of many targets it shows the first twelve
// and, of the others, the first ten that are in progress, that failed, that regressed and that are
// suspended. For a run that has not begun this is the preview. The text does not end with a
// newline.
func (r Run) String() string {
	if r.plan == nil {
		return "no run"
	}
	var b strings.Builder
	all := r.Counts()
	fmt.Fprintf(&b, "run %s: %s, version %s of %s, %d of %d targets done", textlist.Name(r.plan.spec.Name), r.phase, textlist.Name(r.plan.version), textlist.Name(r.plan.spec.PlacementName), all.Done, all.Members)
	if !r.plan.budget.IsZero() {
		_, allowed := r.budget()
		b.WriteString(shownBudget(allowed))
	}
	if v, _ := r.Waits(); !r.phase.Terminal() {
		fmt.Fprintf(&b, "\n  waits: %s", v)
	} else if v.Data.Detail != "" || v.Data.Decision != nil {
		fmt.Fprintf(&b, "\n  %s", v)
	}
	b.WriteByte('\n')
	for s := range r.Stages() {
		if !s.Cleanup || s.Counts.Members > 0 {
			r.printStage(&b, &s)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (r *Run) printStage(b *strings.Builder, s *StageStatus) {
	fmt.Fprintf(b, "  stage %d %s: %s, %d at a time", s.Index, s.Name, s.Phase, s.Limit)
	if p := &r.plan.stages[s.Index]; p.groupBy != "" {
		fmt.Fprintf(b, ", %s per %s", p.perGroup, p.groupBy)
	}
	if s.Budget >= 0 {
		b.WriteString(shownBudget(s.Budget))
	}
	timing := &r.plan.stages[s.Index].timing
	if timing.deadline != never {
		fmt.Fprintf(b, ", deadline %s", For(time.Duration(timing.deadline)))
	}
	if timing.soak > 0 {
		fmt.Fprintf(b, ", soak %s", For(time.Duration(timing.soak)))
	}
	b.WriteByte('\n')
	if s.Before.Required {
		fmt.Fprintf(b, "    before: approval %s%s\n", ApprovalName(r.plan.spec.Name, Before, s.Name), shownApproval(s.Before))
	}
	var names []string
	for t := range r.Targets(s.Index) {
		if len(names) == shownTargets {
			names = append(names, fmt.Sprintf("and %d more", s.Counts.Members-shownTargets))
			break
		}
		names = append(names, t.String())
	}
	if len(names) == 0 {
		names = []string{"none"}
	}
	fmt.Fprintf(b, "    targets: %s\n", strings.Join(names, ", "))
	if s.Counts.Members > shownTargets && (s.Counts.Waiting < s.Counts.Members || s.Counts.Suspended > 0) {
		fmt.Fprintf(b, "    counts: %s\n", s.Counts)
		c := &s.Counts
		r.printOthers(b, s.Index, "in progress", isActive, c.Starting+c.Updating+c.Soaking)
		r.printOthers(b, s.Index, "failed", isFailed, c.Failed+c.TimedOut)
		r.printOthers(b, s.Index, "regressed", isRegressed, c.Regressed)
		r.printOthers(b, s.Index, "suspended", isSuspended, c.Suspended)
	}
	if groups := r.stage(s.Index).groups; groups != nil && s.Counts.Members > 0 && !s.Phase.ended() {
		fmt.Fprintf(b, "    in progress by %s: %s\n", r.plan.stages[s.Index].groupBy, groups)
	}
	if s.Wait > 0 {
		fmt.Fprintf(b, "    after: wait %s", For(s.Wait))
		switch {
		case s.WaitEndedBy != nil:
			b.WriteString(", ended" + s.WaitEndedBy.shown())
		case s.Waited:
			b.WriteString(", over")
		case !s.WaitUntil.IsZero():
			fmt.Fprintf(b, ", until %s", s.WaitUntil.Format(time.RFC3339))
		case s.WaitFrom.IsZero():
		case r.frozen():
			b.WriteString(", frozen")
		default:
			b.WriteString(", until after 2261")
		}
		b.WriteByte('\n')
	}
	if s.After.Required {
		fmt.Fprintf(b, "    after: approval %s%s\n", ApprovalName(r.plan.spec.Name, After, s.Name), shownApproval(s.After))
	}
}

// String says of the first groups how many of each are in progress, of at most how many, and how
// large it is.
func (g *grouping) String() string {
	var list []string
	for n := range min(g.groups.size, shownTargets) {
		of := g.group(n)
		list = append(list, fmt.Sprintf("%s %d of %d (%s)", shownGroup(of.value), of.inProgress, of.limit, textlist.Counted(of.line.size, "target")))
	}
	if more := g.groups.size - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// printOthers prints the first members of a class that are not among the first of their stage.
// number is how many the class has in the stage.
func (r *Run) printOthers(b *strings.Builder, k int, are string, c class, number int) {
	var list []string
	r.stage(k).tree.each(c, func(i int, rec *record, name string) bool {
		if i < shownTargets {
			number--
		} else {
			list = append(list, r.target(k, i, rec, name).String())
		}
		return len(list) < shownNames
	})
	if len(list) == 0 {
		return
	}
	if more := number - len(list); more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(b, "    others %s: %s\n", are, strings.Join(list, ", "))
}

func shownBudget(failures int) string {
	return ", at most " + textlist.Counted(failures, "failure")
}

func shownApproval(g Gate) string {
	if g.State == ApprovalNone {
		return ""
	}
	return ", " + string(g.State) + g.Decision.shown()
}

// String returns a line for each action and each event, the instant of Next, and "changed" if the
// run has to be stored. Of many actions and events it shows the first ten and counts the rest, but
// the new phase of the run is always told. It returns "nothing" if there is none of these. The text
// does not end with a newline.
func (r Result) String() string {
	lines := textlist.Lines(nil, "", r.Actions)
	events, phase := r.Events, []Event(nil)
	if last := len(events) - 1; last >= 0 && events[last].Kind == EventRun { // a step tells it last
		events, phase = events[:last], events[last:]
	}
	lines = textlist.Lines(lines, "event: ", events)
	lines = textlist.Lines(lines, "event: ", phase)
	if !r.Next.IsZero() {
		lines = append(lines, "next: "+r.Next.UTC().Format(time.RFC3339))
	}
	if r.Changed {
		lines = append(lines, "changed")
	}
	if len(lines) == 0 {
		return "nothing"
	}
	return strings.Join(lines, "\n")
}

// String returns the name, and the state unless the target just waits, or that it is suspended and
// by whom. Who skipped or retried the target follows, and at the end the reason why it failed or
// regressed.
func (t TargetStatus) String() string {
	text := textlist.Name(t.Name)
	if t.State != Waiting {
		text += " " + t.State.String()
	}
	for _, mark := range []struct {
		set  bool
		name string
	}{{t.Current, " current"}, {t.Regressed, " regressed"}, {t.Stuck, " stuck"}, {t.SuspendedBy != nil, " suspended" + t.SuspendedBy.shown()}} {
		if mark.set {
			text += mark.name
		}
	}
	if t.Attempt > 1 {
		text += fmt.Sprintf(" attempt %d", t.Attempt)
	}
	text += t.Decision.shown()
	if t.Reason != "" {
		text += " (" + string(t.Reason) + ")"
	}
	return text
}

// String lists the numbers that are not zero.
func (c Counts) String() string {
	var list []string
	for _, n := range []struct {
		count int
		name  string
	}{
		{c.Waiting, "waiting"}, {c.Starting, "starting"}, {c.Updating, "updating"}, {c.Soaking, "soaking"}, {c.Done, "done"}, {c.Failed, "failed"},
		{c.TimedOut, "timed out"}, {c.Skipped, "skipped"}, {c.Removed, "removed"}, {c.Regressed, "regressed"}, {c.Stuck, "stuck"}, {c.Suspended, "suspended"},
	} {
		if n.count > 0 {
			list = append(list, fmt.Sprintf("%d %s", n.count, n.name))
		}
	}
	return strings.Join(list, ", ")
}
