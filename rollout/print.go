package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// String describes the plan for people: a line with its counts, and a line for each start, kind of
// wait, pool, stuck run, orphan, event and diagnostic. Of starts and of what else is long it shows
// the first ten and counts the rest. Waits are described as by [WaitingList.String]. The text does
// not end with a newline.
func (p Plan) String() string {
	head := fmt.Sprintf("plan at %s: %d start, %d wait, %d in progress, %d current", p.Now.UTC().Format(time.RFC3339), len(p.Start), p.Waiting.Len(), p.Keep.Started, p.Keep.Current)
	if !p.Next.IsZero() {
		head += ", next " + p.Next.UTC().Format(time.RFC3339Nano)
	}
	lines := textlist.Lines([]string{head}, "start      ", p.Start)
	for _, kind := range p.Waiting.kinds() {
		lines = append(lines, "wait       "+kind)
	}
	lines = textlist.Lines(lines, "pool       ", p.Pools)
	lines = textlist.Lines(lines, "stuck      ", p.Stuck)
	lines = textlist.Lines(lines, "orphan     ", orphansOf(p.Orphans))
	lines = textlist.Lines(lines, "event      ", p.Events)
	lines = textlist.Lines(lines, "diagnostic ", p.Diagnostics)
	return strings.Join(lines, "\n")
}

// orphan is a lease that prints the name of its pool as the other lines of a plan do.
type orphan concurrency.Lease

func (o orphan) String() string {
	o.Pool = textkey.Plain(o.Pool)
	return concurrency.Lease(o).String()
}

func orphansOf(leases []concurrency.Lease) []orphan {
	list := make([]orphan, len(leases))
	for k := range leases {
		list[k] = orphan(leases[k])
	}
	return list
}

// String describes the list for people. Targets that wait for the same reasons of the same rules
// and freezes share a line, which shows the first of them and counts the others. If these are of
// several deployments, it names them: what the first waits for, such as an approval, may be another
// one there. The most frequent reasons come first. The text does not end with a newline, and is
// empty if nothing waits.
func (l WaitingList) String() string { return strings.Join(l.kinds(), "\n") }

// kinds returns a line for each set of reasons, but of the rarest only how many there are.
func (l WaitingList) kinds() []string {
	var groups textlist.Likewise[string, Waiting]
	var key strings.Builder
	for w := range l.All() {
		key.Reset()
		writeReasons(&key, w.Blockers)
		groups.Add(key.String(), w, w.Deployment)
	}
	return groups.Lines(nil, "", "and %d more, for %d other sets of reasons")
}

// String describes the changes for people. Targets share a line if they start, or no longer start,
// the same version, have or had the same version in progress, and wait or waited with the same
// version for the same reasons of the same rules and freezes. The line shows the first of them and
// counts the others, so most of its instants are those of the first. The most frequent changes come
// first; of more than ten kinds it shows ten and counts the rest. The text does not end with a
// newline, and is empty if nothing has changed.
func (c Changes) String() string {
	var groups textlist.Likewise[string, Change]
	var key strings.Builder
	for _, change := range c {
		key.Reset()
		for _, s := range [...]Situation{change.Before, change.After} {
			fmt.Fprintf(&key, "%q %q %q ", s.Start, s.Running, s.Wait)
			writeReasons(&key, s.Blockers)
			key.WriteByte('>')
		}
		groups.Add(key.String(), change, change.Deployment)
	}
	return strings.Join(groups.Lines(nil, "", "and %d more, of %d other kinds"), "\n")
}

// writeReasons writes the reasons, with their rules and freezes, in an order of their own: what the
// members of a bracket wait for comes in that of the members.
func writeReasons(b *strings.Builder, blockers []Verdict) {
	if len(blockers) > 1 {
		blockers = slices.SortedFunc(slices.Values(blockers), func(a, b Verdict) int {
			return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.freeze(), b.freeze()))
		})
	}
	for _, verdict := range blockers {
		fmt.Fprintf(b, "%q %q ", verdict.Reason, verdict.Rule)
		if freeze := verdict.freeze(); freeze != "" {
			fmt.Fprintf(b, "%q ", freeze)
		}
	}
}

// String returns what the target runs and its newest job. Without it the String of the embedded id
// would be promoted.
func (t Target) String() string {
	runs := textlist.Name(t.Current)
	switch {
	case runs != "":
	case len(t.Jobs) == 0:
		runs = "nothing"
	default:
		runs = "what succeeded last"
	}
	text := fmt.Sprintf("%s runs %s", t.TargetID, runs)
	if len(t.Jobs) > 0 {
		newest := slices.MinFunc(t.Jobs, func(a, b Job) int { return newer(&a, &b) })
		text += fmt.Sprintf(", newest job of %d: %s, %s, created %s", len(t.Jobs), textlist.Name(newest.Version), textlist.Name(newest.Status), newest.CreatedAt.UTC().Format(time.RFC3339))
	}
	return text
}
