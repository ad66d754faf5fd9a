package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// String draws the explanation as a tree, with a line per rule: + is satisfied, ~ is pending and -
// is denied. The reason follows, then the id of the rule in brackets, and after an arrow who can
// open it. What runs, is in progress or is stuck, and what holds the target whatever the version,
// with the id of the rule or policy, stands before the versions. The text does not end with a
// newline.
func (e Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s\n", e.TargetID, e.Now.UTC().Format(time.RFC3339))
	line := func(label, text string) { fmt.Fprintf(&b, "  %-9s %s\n", label, text) }
	if e.Current == "" {
		line("runs", "nothing")
	} else {
		line("runs", textlist.Name(e.Current))
	}
	if e.Started != "" {
		line("begun", textlist.Name(e.Started))
	}
	for _, job := range e.Jobs {
		text := fmt.Sprintf("%s %s since %s", textlist.Name(job.Version), textlist.Name(cmp.Or(job.Status, "without status")), job.CreatedAt.UTC().Format(time.RFC3339))
		if job.Run != "" {
			text += " as " + textlist.Name(job.Run)
		}
		line("job", text)
	}
	for _, s := range e.Stuck {
		line("stuck", s.text())
	}
	if len(e.Policies) > 0 {
		line("policies", strings.Join(textlist.Names(e.Policies), ", "))
	} else {
		line("policies", "none")
	}
	if e.Bracket != "" {
		line("bracket", textlist.Name(e.Bracket))
	}
	if e.Group != "" {
		line("group", textlist.Name(e.Group))
	}
	if e.Collecting != "" {
		line("collects", textlist.Name(e.Collecting))
	}
	for _, verdict := range e.Held {
		line("held", verdict.String()+verdict.sourceText())
	}
	for _, v := range e.Versions {
		v.draw(&b)
	}
	for _, place := range e.Queue {
		line("queue", place.String())
	}
	for k := range e.Pools {
		line("pool", e.Pools[k].String())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (v *VersionExplanation) draw(b *strings.Builder) {
	name := textlist.Name(cmp.Or(v.Version, "without version"))
	if v.Tag != "" && v.Tag != v.Version {
		name += " (" + textlist.Name(v.Tag) + ")"
	}
	if v.Scoped {
		name += ", scoped"
	}
	fmt.Fprintf(b, "  %s: %s", name, strings.ReplaceAll(string(v.Prospect), "_", " "))
	if v.Fault != "" {
		fmt.Fprintf(b, ", its targetSelector has no answer: %s", textlist.Name(v.Fault))
	}
	b.WriteByte('\n')
	for k, r := range v.Rules {
		branch := "├─"
		if k == len(v.Rules)-1 {
			branch = "└─"
		}
		mark := map[VerdictStatus]string{Allowed: "+", Pending: "~", Denied: "-"}[r.Status]
		fmt.Fprintf(b, "    %s %s %-22s %s", branch, mark, textlist.Name(r.Kind), r.Verdict)
		if !r.Since.IsZero() {
			fmt.Fprintf(b, " since %s", r.Since.UTC().Format(time.RFC3339))
		}
		b.WriteString(r.sourceText())
		b.WriteByte('\n')
	}
	if until := v.Until(); !until.IsZero() {
		at := "at"
		if v.mayWait(until) {
			at = "not before"
		}
		fmt.Fprintf(b, "       opens by itself %s %s\n", at, until.UTC().Format(time.RFC3339))
	}
}

// mayWait reports whether the version may be blocked at an instant by which time alone has opened
// every blocker once: by a window that does not open just then, by a rule whose override is over,
// by a rule that is not asked about a version of the future, by a curve that only starts then, by
// others that take the places which a rate has then, or by the bracket, which has more to say once
// a group has closed or a turn has come. The next attempt of a member is the last that a bracket
// waits for.
func (v *VersionExplanation) mayWait(until time.Time) bool {
	return v.Prospect == ProspectFuture || slices.ContainsFunc(v.Rules, func(r RuleVerdict) bool {
		switch r.Reason {
		case ReasonNotApplicable:
			return false
		case ReasonOverridden:
			return !r.Until.IsZero() && !r.Until.After(until)
		case ReasonRolloutNotStarted:
			return true
		}
		switch r.Kind {
		case KindWindow:
			return !r.Until.Equal(until)
		case KindConcurrency:
			return r.Status != Allowed
		case KindBracket:
			return r.Status != Allowed && r.Reason != Reason(bracket.ReasonWaitsForMembers)
		}
		return false
	})
}

// String returns "kind: verdict [rule]". Without it the String of the embedded verdict would be
// promoted, and a log line would not say who spoke.
func (r RuleVerdict) String() string {
	text := fmt.Sprintf("%s: %s", textlist.Name(r.Kind), r.Verdict)
	if r.Rule != "" {
		text += " [" + textlist.Name(r.Rule) + "]"
	}
	return text
}

// sourceText says in brackets whose verdict it is, and after an arrow who can open it.
func (v Verdict) sourceText() string {
	text := ""
	if v.Rule != "" {
		text = "  [" + textlist.Name(v.Rule) + "]"
	}
	if actors := v.Actors(); len(actors) > 0 {
		names := make([]string, len(actors))
		for k, a := range actors {
			names[k] = string(a)
		}
		text += "  <- " + strings.Join(names, ", ")
	}
	return text
}
