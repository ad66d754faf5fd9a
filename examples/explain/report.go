package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// String is the answer for people.
func (a answer) String() string {
	var b strings.Builder
	if a.Target != nil {
		a.Target.write(&b)
	} else {
		a.summary(&b)
	}
	if a.compared {
		b.WriteString("\nwhat is different\n")
		b.WriteString(differences(a.Changes))
		if len(a.Changes) == 0 {
			b.WriteString("  nothing\n")
		}
	}
	if len(a.Diagnostics) > 0 && a.Target == nil {
		b.WriteString("\ndiagnostics of this plan\n")
		for _, d := range a.Diagnostics {
			fmt.Fprintf(&b, "  %s\n", d)
		}
	}
	b.WriteString("\n" + a.heading() + "\n")
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "  %s %s", f.Severity, f.Code)
		if f.Path != "" {
			fmt.Fprintf(&b, " at %s", f.Path)
		}
		if f.Rule != "" {
			fmt.Fprintf(&b, " [%s]", f.Rule)
		}
		fmt.Fprintf(&b, "\n    %s", f.Detail)
		switch {
		case f.Targets > 1:
			fmt.Fprintf(&b, " (%d targets, such as %s)", f.Targets, f.Example)
		case f.Targets == 1:
			fmt.Fprintf(&b, " (%s)", f.Example)
		}
		fmt.Fprintf(&b, "\n    -> %s\n", f.Fix)
	}
	if len(a.Findings) == 0 {
		b.WriteString("  none\n")
	}
	return b.String()
}

func (a answer) heading() string {
	if a.Target != nil {
		return "findings about its policies"
	}
	return "findings about the policies"
}

// differences lists what is no longer so and what is new, once for all targets of a deployment in
// an environment for which it is the same.
func differences(changes []rollout.Change) string {
	type key struct{ environment, deployment, text string }
	var order []key
	resources := map[key][]string{}
	for _, c := range changes {
		text := ""
		for _, side := range []struct {
			mark      string
			one, rest rollout.Situation
		}{{"-", c.Before, c.After}, {"+", c.After, c.Before}} {
			for _, line := range only(side.one, side.rest) {
				text += "    " + side.mark + " " + line + "\n"
			}
		}
		at := key{c.Environment, c.Deployment, text}
		if resources[at] == nil {
			order = append(order, at)
		}
		resources[at] = append(resources[at], c.Resource)
	}
	var b strings.Builder
	for _, at := range order {
		fmt.Fprintf(&b, "  %s in %s on %s\n%s", at.deployment, at.environment, some(resources[at]), at.text)
	}
	return b.String()
}

// only says what is so in one situation and not in the other. As in [rollout.Plan.Changes] a
// verdict is another one if its reason, rule, freeze or instant is.
func only(one, other rollout.Situation) []string {
	var lines []string
	if one.Start != "" && one.Start != other.Start {
		lines = append(lines, "starts "+one.Start)
	}
	if one.Running != "" && one.Running != other.Running {
		lines = append(lines, one.Running+" in progress")
	}
	for _, v := range one.Blockers {
		if one.Wait != other.Wait || !slices.ContainsFunc(other.Blockers, func(o rollout.Verdict) bool {
			return o.Status == v.Status && o.Reason == v.Reason && source(o) == source(v) && o.Until.Equal(v.Until)
		}) {
			lines = append(lines, one.Wait+" waits: "+v.String())
		}
	}
	if one.Start == "" && one.Running == "" && len(one.Blockers) == 0 {
		lines = append(lines, "nothing to do")
	}
	return lines
}

// write draws the tree of a target, and then what follows from it.
func (e *explained) write(b *strings.Builder) {
	b.WriteString(e.Explanation.String() + "\n")
	b.WriteString("  (+ does not stand in the way, ~ not now, - not this version unless something changes; <- who or what can change it)\n")
	v := e.Waits()
	if v == nil && len(e.Held) == 0 {
		b.WriteString("\nnothing stands in the way\n")
		return
	}
	version := "anything"
	if v != nil {
		version = v.Version
	}
	fmt.Fprintf(b, "\nin the way of %s: %s\n", version, must(len(e.Blockers)))
	for _, blocker := range e.Blockers {
		who := make([]string, 0, 2)
		for _, actor := range blocker.Actors() {
			who = append(who, string(actor))
		}
		fmt.Fprintf(b, "  %-22s opened by %s\n", cmp.Or(blocker.Rule, string(blocker.Kind)), strings.Join(who, ", "))
	}
	if e.Until.IsZero() {
		b.WriteString("time alone does not open them\n")
	} else {
		fmt.Fprintf(b, "by itself it opens at %s\n", e.Until.UTC().Format(time.RFC3339))
	}
}

// summary lists who starts, and who waits by reason. A target with several blockers is listed under
// each of them.
func (a answer) summary(b *strings.Builder) {
	fmt.Fprintf(b, "at %s: %s, %s, %s", a.Now.UTC().Format(time.RFC3339), does(len(a.Start), "starts", "start"), does(len(a.Waiting), "waits", "wait"),
		does(a.Keep.Current+a.Keep.Started, "needs nothing", "need nothing"))
	if !a.Next.IsZero() {
		fmt.Fprintf(b, "; look again at %s", a.Next.UTC().Format(time.RFC3339))
	}
	b.WriteString("\n\nstarts\n")
	type row struct{ what, environment, how string }
	var order []row
	resources := map[row][]string{}
	for _, s := range a.Start {
		own := row{s.Deployment + " " + s.Version, s.Environment, a.let[s.TargetID]}
		if s.Purpose == rollout.PurposeRollback {
			own.what = s.Deployment + " back to " + s.Version
		}
		if s.Reason != rollout.ReasonNotApplicable { // no rule limits it: there is nothing to say
			own.how = ", " + string(s.Reason) + own.how
		}
		if resources[own] == nil {
			order = append(order, own)
		}
		resources[own] = append(resources[own], s.Resource)
	}
	for _, own := range order {
		fmt.Fprintf(b, "  %s in %s on %s%s\n", own.what, own.environment, some(resources[own]), own.how)
	}
	if len(a.Start) == 0 {
		b.WriteString("  nobody\n")
	}
	b.WriteString("\nwaits, by reason\n")
	for _, g := range groups(a.Waiting) {
		alone := ""
		if g.alone > 0 {
			alone = fmt.Sprintf(", the only one in the way of %d", g.alone)
		}
		fmt.Fprintf(b, "  %s: %s%s; opened by %s\n", g.reason, textlist.Counted(g.targets, "target"), alone, strings.Join(g.actors, ", "))
		for _, line := range g.lines {
			fmt.Fprintf(b, "    %s\n", line)
		}
	}
	if len(a.Waiting) == 0 {
		b.WriteString("  nobody\n")
	}
	if len(a.Queue) > 0 {
		b.WriteString("\nnext, as soon as there are slots\n")
	}
	for k, q := range a.Queue {
		if k == few {
			fmt.Fprintf(b, "  and %d more\n", len(a.Queue)-few)
			break
		}
		fmt.Fprintf(b, "  %d. %s\n", k+1, q)
	}
}

// group is what waits for one reason.
type group struct {
	reason         rollout.Reason
	targets, alone int
	actors         []string
	lines          []*line
}

// line is what one rule, or one freeze, holds of one version in one environment.
type line struct {
	version, environment, source string

	resources   []string
	first, last time.Time
}

// groups puts waits together by reason, the most frequent one first.
func groups(waiting []rollout.Waiting) []*group {
	var list []*group
	for _, w := range waiting {
		var counted []*group
		for _, verdict := range w.Blockers {
			k := slices.IndexFunc(list, func(g *group) bool { return g.reason == verdict.Reason })
			if k < 0 {
				k = len(list)
				list = append(list, &group{reason: verdict.Reason})
			}
			g := list[k]
			if !slices.Contains(counted, g) {
				counted = append(counted, g)
				g.targets++
				if len(w.Blockers) == 1 {
					g.alone++
				}
			}
			for _, actor := range verdict.Actors() {
				if !slices.Contains(g.actors, string(actor)) {
					g.actors = append(g.actors, string(actor))
				}
			}
			g.add(w, verdict)
		}
	}
	slices.SortStableFunc(list, func(x, y *group) int {
		return cmp.Or(y.targets-x.targets, strings.Compare(string(x.reason), string(y.reason)))
	})
	return list
}

// add puts the target on its line. The lines stay sorted.
func (g *group) add(w rollout.Waiting, verdict rollout.Verdict) {
	own := &line{version: strings.TrimSpace(w.Deployment + " " + w.Version), environment: w.Environment, source: source(verdict)}
	k, found := slices.BinarySearchFunc(g.lines, own, func(x, y *line) int {
		return cmp.Or(strings.Compare(x.version, y.version), strings.Compare(x.environment, y.environment), strings.Compare(x.source, y.source))
	})
	if !found {
		g.lines = slices.Insert(g.lines, k, own)
	}
	l := g.lines[k]
	l.resources = append(l.resources, w.Resource)
	if until := verdict.Until; !until.IsZero() {
		if l.first.IsZero() || until.Before(l.first) {
			l.first = until
		}
		if until.After(l.last) {
			l.last = until
		}
	}
}

// source is the rule behind a verdict, or who has frozen the target, and why.
func source(v rollout.Verdict) string {
	if v.Reason == rollout.ReasonFrozen {
		return fmt.Sprintf("%s by %s: %s", v.On[0].Freeze, strings.Join(v.Data.Names, ", "), v.Data.Detail)
	}
	return v.Rule
}

func (l *line) String() string {
	text := fmt.Sprintf("%s in %s on %s", l.version, l.environment, some(l.resources))
	if l.source != "" {
		text += "  [" + l.source + "]"
	}
	switch {
	case l.first.IsZero():
		return text
	case l.first.Equal(l.last):
		return text + " until " + l.first.UTC().Format(time.RFC3339)
	}
	return text + fmt.Sprintf(" until %s the first, %s the last", l.first.UTC().Format(time.RFC3339), l.last.UTC().Format(time.RFC3339))
}

// few is how many of a long list are shown.
const few = 8

// some names the first few.
func some(names []string) string {
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// must says that no smaller set of blockers would do.
func must(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules, and every one must open", n)
}

func does(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
