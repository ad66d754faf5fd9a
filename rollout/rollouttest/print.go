package rollouttest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// String returns [Timeline.Trace], followed by [Timeline.Summary]. The text does not end with a
// newline.
func (t Timeline) String() string { return strings.TrimSuffix(t.Trace()+t.Summary(), "\n") }

// Trace returns what happened, in order, one line per entry, under a line per day; instants are in
// UTC. Targets that begin to wait at one instant for the same reasons share a line. If a resource
// has entries of several environments, its name is followed by that of the environment. A name with
// a line break or another control character is quoted, here and in the other texts of this package.
func (t Timeline) Trace() string {
	var b strings.Builder
	day := ""
	for entries := t.shownEntries(); len(entries) > 0; {
		at := entries[0].At.UTC()
		if d := at.Format("2006-01-02"); d != day {
			day = d
			fmt.Fprintf(&b, "%s\n", d)
		}
		n := waitsAtOneInstant(entries)
		for _, same := range alike(entries[:n]) {
			fmt.Fprintf(&b, "  %s  %s\n", at.Format("15:04:05"), entryText(same))
		}
		entries = entries[n:]
	}
	return b.String()
}

// Summary returns in a few lines how the world ended, what it cost, and what is left; instants are
// in UTC.
func (t Timeline) Summary() string {
	var b strings.Builder
	switch {
	case t.Done && t.Finish.IsZero():
		b.WriteString("nothing to do\n")
	case t.Done:
		fmt.Fprintf(&b, "done at %s\n", instantText(t.Finish))
	case t.CutOff:
		b.WriteString("not done when it was cut off\n")
	default:
		b.WriteString("not done, and nothing will happen any more\n")
	}
	fmt.Fprintf(&b, "at most %s in flight at once\n", textlist.Counted(t.InFlight, "resource"))
	for _, p := range t.Pools {
		fmt.Fprintf(&b, "%s: at most %d of %d active, %d allowed", poolName(p.Pool), p.Active, p.Total, p.Max)
		if p.Began > 0 {
			fmt.Fprintf(&b, "; at most %d began within %s", p.Began, textlist.Duration(time.Duration(p.PeriodSeconds)*time.Second))
		}
		b.WriteString("\n")
	}
	if t.Drains > 0 {
		fmt.Fprintf(&b, "drains: %d", t.Drains)
		if t.DrainsSaved > 0 {
			fmt.Fprintf(&b, " instead of %d (one for each upgrade)", t.Drains+t.DrainsSaved)
		}
		b.WriteString("\n")
	}
	if len(t.Running) > 0 {
		fmt.Fprintf(&b, "still running: %s\n", firstNames(t.Running, 5))
	}
	if n := len(t.Left); n > 0 {
		fmt.Fprintf(&b, "still waiting: %s\n", textlist.Counted(n, "target"))
		groups := alike(t.leftEntries())
		for _, same := range groups[:min(len(groups), 5)] {
			fmt.Fprintf(&b, "  %s\n", entryText(same))
		}
		if n := len(groups) - 5; n > 0 {
			fmt.Fprintf(&b, "  and others, for %s\n", textlist.Counted(n, "other reason"))
		}
	}
	writeDiagnostics(&b, diagnosed([]Trial{{Diagnostics: t.Diagnostics}}))
	return b.String()
}

// leftEntries returns what still waited at the end as entries.
func (t Timeline) leftEntries() []Entry {
	entries := make([]Entry, len(t.Left))
	for k, w := range t.Left {
		entries[k] = Entry{Kind: Wait, Resource: w.Resource, Environment: w.Environment, Deployment: w.Deployment, Version: w.Version, Blockers: w.Blockers}
	}
	return Timeline{Entries: entries}.shownEntries()
}

// firstNames lists the first few of some names.
func firstNames(names []string, most int) string {
	text := strings.Join(textlist.Names(names[:min(len(names), most)]), ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// instantText returns an instant as the texts of this package tell it, in UTC.
func instantText(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05") }

// exactText returns an instant to the nanosecond, in UTC, for errors.
func exactText(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// poolName returns the key of a pool as people read it.
func poolName(key string) string { return textlist.Name(textkey.Plain(key)) }

// shownEntries returns the entries with their names as a line shows them, and with the environment
// behind the name of every resource that has entries of several environments.
func (t Timeline) shownEntries() []Entry {
	in, several := map[string]string{}, map[string]bool{}
	for _, e := range t.Entries {
		if e.Resource == "" || e.Environment == "" {
			continue
		}
		if first, known := in[e.Resource]; known && first != e.Environment {
			several[e.Resource] = true
		}
		in[e.Resource] = e.Environment
	}
	entries := slices.Clone(t.Entries)
	for k := range entries {
		e := &entries[k]
		apart := several[e.Resource] && e.Environment != ""
		for _, text := range [...]*string{&e.Resource, &e.Environment, &e.Deployment, &e.Version, &e.Run, &e.Status} {
			*text = textlist.Name(*text)
		}
		if apart {
			e.Resource += " in " + e.Environment
		}
	}
	return entries
}

// waitsAtOneInstant returns how many entries from the first on are waits that begin at one instant,
// or 1 if the first entry is no wait.
func waitsAtOneInstant(entries []Entry) int {
	n := 1
	for entries[0].Kind == Wait && n < len(entries) && entries[n].Kind == Wait && entries[n].At.Equal(entries[0].At) {
		n++
	}
	return n
}

// alike divides entries into those that share a line: waits for the same reasons, in the order of
// the first of each.
func alike(entries []Entry) [][]Entry {
	if len(entries) == 1 {
		return [][]Entry{entries}
	}
	var groups [][]Entry
	known := map[string]int{}
	for _, e := range entries {
		text := waitText(e)
		k, seen := known[text]
		if !seen {
			k = len(groups)
			known[text], groups = k, append(groups, nil)
		}
		groups[k] = append(groups[k], e)
	}
	return groups
}

// waitText returns the text of a wait, without its target. What several rules say in the same words
// is said once.
func waitText(e Entry) string {
	var texts []string
	for _, v := range e.Blockers {
		if text := verdictText(v, e.Deployment); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	text := strings.Join(texts, "; ")
	if len(e.Holders) > 0 {
		text += ", held by " + firstNames(e.Holders, 10)
	}
	return text
}

// verdictText returns a text shorter than [rollout.Verdict.String]: an instant says more than the
// events that might come before it.
func verdictText(v rollout.Verdict, deployment string) string {
	until, on := v.Until, v.On
	var needs, pools []string
	members, commands := 0, false
	for _, c := range on {
		switch c.Kind {
		case rollout.OnMember:
			need := textlist.Name(c.Deployment) // as that of the entry is
			if need == deployment {
				need, v.Data = "the end of its own run", nil // an earlier line says of which version it is
			}
			members++
			if !slices.Contains(needs, need) {
				needs = append(needs, need)
			}
		case rollout.OnSlot, rollout.OnRate, rollout.OnAvailable:
			pools = append(pools, poolName(c.Pool))
		case rollout.OnOperator:
			commands = true
		}
	}
	if commands { // the line names the resource, and an earlier line the group that began there
		v.On = slices.Clone(on)
		for k := range v.On {
			if v.On[k].Kind == rollout.OnOperator {
				v.On[k] = rollout.Condition{Kind: rollout.OnOperator}
			}
		}
	}
	held := commands && v.Reason == rollout.Reason(concurrency.SlotFull) // by whom is told with the line
	if !until.IsZero() || held || members+len(pools) == len(on) || v.Reason == rollout.ReasonRolloutNotStarted {
		v.On = nil // the rules that keep a rollout from starting are blockers of their own, listed beside it
	}
	text := v.String()
	if !until.IsZero() { // with which the text ends
		text = strings.TrimSuffix(text, " until "+until.UTC().Format(time.RFC3339))
	} else if v.On == nil && len(needs) > 0 {
		text += ", needs " + strings.Join(needs, ", ")
	}
	if v.On == nil && len(pools) > 0 {
		where := " in "
		if v.Reason == rollout.Reason(concurrency.SlotKeysFull) {
			where = " beside "
		}
		text += where + strings.Join(pools, ", ")
	}
	if held {
		text += ", waits for an operator"
	}
	if !until.IsZero() {
		text += " until " + instantText(until)
	}
	return text
}

func entryText(same []Entry) string {
	e := same[0]
	switch e.Kind {
	case Arrival:
		return textlist.Name(e.Note)
	case Bracket:
		if e.Note != "" {
			return eventText(e) + ", " + textlist.Name(e.Note)
		}
		return eventText(e)
	case Found:
		text := fmt.Sprintf("%s: %s %s is %s", e.Resource, e.Deployment, e.Version, e.Status)
		if e.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", e.Attempt)
		}
		return text + ", " + textlist.Name(e.Note)
	case Start:
		text := fmt.Sprintf("%s: start %s %s", e.Resource, e.Deployment, e.Version)
		if e.Purpose == rollout.PurposeRollback {
			text = fmt.Sprintf("%s: roll %s back to %s", e.Resource, e.Deployment, e.Version)
		}
		if e.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", e.Attempt)
		}
		if e.Reason == rollout.Reason(concurrency.SlotAlreadyDown) {
			text += ", it is down anyway"
		}
		return text
	case End:
		text := fmt.Sprintf("%s: %s %s ended: %s", e.Resource, e.Deployment, e.Version, e.Status)
		if e.Note != "" {
			text += ", " + textlist.Name(e.Note)
		}
		return text
	case Verify:
		return fmt.Sprintf("%s: verification of %s %s: %s", e.Resource, e.Deployment, e.Version, e.Status)
	case Wait:
		return fmt.Sprintf("%s: %s", targetsText(same), waitText(e))
	case Stuck:
		if e.Note != "" {
			return fmt.Sprintf("%s: stuck, its slot in %s sees no progress", e.Resource, poolName(e.Note))
		}
		return fmt.Sprintf("%s: stuck, no outcome of %s", e.Resource, e.Run)
	}
	return textlist.Name(e.Kind)
}

// targetsText names the targets of several waits: resources with the same deployments are listed
// together.
func targetsText(waits []Entry) string {
	var resources []string
	of := map[string][]string{}
	for _, e := range waits {
		if len(of[e.Resource]) == 0 {
			resources = append(resources, e.Resource)
		}
		of[e.Resource] = append(of[e.Resource], strings.TrimSpace(e.Deployment+" "+e.Version))
	}
	var parts []string
	for len(resources) > 0 {
		what := strings.Join(of[resources[0]], ", ")
		var same []string
		resources = slices.DeleteFunc(resources, func(r string) bool {
			if strings.Join(of[r], ", ") != what {
				return false
			}
			same = append(same, r)
			return true
		})
		parts = append(parts, fmt.Sprintf("%s: %s", firstNames(same, 10), what))
	}
	return strings.Join(parts, "; ")
}

func eventText(e Entry) string {
	group := groupName(e.Group)
	switch e.Event {
	case bracket.GroupClosed:
		locks := make([]string, 0, len(e.Locks))
		for deployment, version := range e.Locks {
			locks = append(locks, textlist.Name(deployment)+" "+textlist.Name(version))
		}
		slices.Sort(locks)
		text := group + " closed"
		if e.TimedOut {
			text += ", timed out"
		}
		if len(locks) == 0 {
			return text + ", nothing locked"
		}
		return text + ", locked " + strings.Join(locks, ", ")
	case bracket.GroupMerged:
		return fmt.Sprintf("%s: %s merged into %s", e.Resource, group, groupName(e.Into))
	case bracket.ExecutionEnded:
		return fmt.Sprintf("%s: %s ended: %s", e.Resource, group, e.Status)
	}
	text := strings.TrimPrefix(strings.TrimPrefix(textlist.Name(e.Event), "execution_"), "group_")
	text = strings.ReplaceAll(text, "_", " ")
	if e.Resource != "" {
		return fmt.Sprintf("%s: %s %s", e.Resource, group, text)
	}
	return group + " " + text
}

// groupName returns the number of a group and its environment, from its id.
func groupName(id string) string {
	_, environment, number, ok := bracket.ParseGroupID(id)
	if !ok {
		return "group " + textlist.Name(id)
	}
	return fmt.Sprintf("group %d in %s", number, textlist.Name(environment))
}
