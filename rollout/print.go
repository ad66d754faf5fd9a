package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// String describes the plan for people: a line with its counts, and a line for each start, kind of
// wait, pool, stuck run, orphan, event and diagnostic. Of starts and of what else is long it shows
// the first ten and counts the rest. Waits are told as [WaitingList.String] does. The text does not
// end with a newline.
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
	lines = textlist.Lines(lines, "orphan     ", p.Orphans)
	lines = textlist.Lines(lines, "event      ", p.Events)
	lines = textlist.Lines(lines, "diagnostic ", p.Diagnostics)
	return strings.Join(lines, "\n")
}

// String describes the list for people. Targets that wait for the same reasons of the same rules
// share a line, which shows the first of them and counts the others. If these are of several
// deployments, it names them: what the first waits for, such as an approval, may be another one
// there. The most frequent reasons come first. The text does not end with a newline, and is empty
// if nothing waits.
func (l WaitingList) String() string { return strings.Join(l.kinds(), "\n") }

// kinds returns a line for each set of reasons, but of the rarest only how many there are.
func (l WaitingList) kinds() (lines []string) {
	type kind struct {
		first       Waiting
		count       int
		deployments []string // the first of them, and one more if there are others
	}
	byReasons := map[string]*kind{}
	var order []*kind
	var key strings.Builder
	for w := range l.All() {
		key.Reset()
		for _, verdict := range w.Blockers {
			fmt.Fprintf(&key, "%q %q ", verdict.Reason, verdict.Rule)
		}
		own := byReasons[key.String()]
		if own == nil {
			own = &kind{first: w}
			byReasons[key.String()] = own
			order = append(order, own)
		}
		own.count++
		if len(own.deployments) <= textlist.Shown && !slices.Contains(own.deployments, w.Deployment) {
			own.deployments = append(own.deployments, w.Deployment)
		}
	}
	slices.SortStableFunc(order, func(a, b *kind) int { return cmp.Compare(b.count, a.count) })
	for k, own := range order {
		if k == textlist.Shown {
			rest := 0
			for _, rare := range order[k:] {
				rest += rare.count
			}
			return append(lines, fmt.Sprintf("and %d more, for %d other sets of reasons", rest, len(order)-k))
		}
		line := own.first.String()
		if own.count > 1 {
			line += fmt.Sprintf("; and %d more likewise", own.count-1)
			if n := len(own.deployments); n > 1 {
				line += ", of " + strings.Join(own.deployments[:min(n, textlist.Shown)], ", ")
				if n > textlist.Shown {
					line += " and others"
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// String returns what the target runs and its newest job. Without it the String of the embedded id
// would be promoted.
func (t Target) String() string {
	runs := t.Current
	switch {
	case runs != "":
	case len(t.Jobs) == 0:
		runs = "nothing"
	default:
		runs = "what succeeded last"
	}
	text := fmt.Sprintf("%s runs %s", t.TargetID, runs)
	if len(t.Jobs) > 0 {
		newest := slices.MinFunc(t.Jobs, newer)
		text += fmt.Sprintf(", newest job of %d: %s, %s, created %s", len(t.Jobs), newest.Version, newest.Status, newest.CreatedAt.UTC().Format(time.RFC3339))
	}
	return text
}
