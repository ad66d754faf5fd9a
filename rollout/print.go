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
// the first ten and counts the rest. Of pools it shows first those that starts wait for, then those
// that are full, then those in use; it counts the idle ones, and shows one only if it is the only
// one. Waits are described as by [WaitingList.String]. The text does not end with a newline.
func (p Plan) String() string {
	head := fmt.Sprintf("plan at %s: %d start, %d wait, %d in progress, %d current", p.Now.UTC().Format(time.RFC3339), len(p.Start), p.Waiting.Len(), p.Keep.Started, p.Keep.Current)
	if !p.Next.IsZero() {
		head += ", next " + p.Next.UTC().Format(time.RFC3339Nano)
	}
	lines := textlist.Lines([]string{head}, "start      ", p.Start)
	for _, kind := range p.Waiting.kinds() {
		lines = append(lines, "wait       "+kind)
	}
	lines = poolLines(lines, "pool       ", p.Pools)
	lines = textlist.Lines(lines, "stuck      ", p.Stuck)
	lines = textlist.Lines(lines, "orphan     ", orphansOf(p.Orphans))
	lines = textlist.Lines(lines, "event      ", p.Events)
	lines = textlist.Lines(lines, "diagnostic ", p.Diagnostics)
	return strings.Join(lines, "\n")
}

// poolLines appends to the lines one for each of the first pools, in the order of what a reader may
// have to act on, and one that counts the others. A fleet may have a pool for each of a thousand
// zones, of which few are in use.
func poolLines(lines []string, label string, pools []Pool) []string {
	var inTurn [poolIdle + 1][]Pool
	for _, p := range pools {
		inTurn[p.use()] = append(inTurn[p.use()], p)
	}
	unused := len(inTurn[poolIdle])
	shown := slices.Concat(inTurn[:poolIdle]...)
	if unused == 1 && len(shown) < textlist.Shown { // its line is as short as its count
		shown, unused = append(shown, inTurn[poolIdle]...), 0
	}
	for _, p := range shown[:min(len(shown), textlist.Shown)] {
		lines = append(lines, label+p.String())
	}
	var rest []string
	if more := len(shown) - textlist.Shown; more > 0 {
		rest = append(rest, fmt.Sprintf("%d more", more))
	}
	if unused > 0 {
		rest = append(rest, textlist.Counted(unused, "idle one"))
	}
	switch {
	case len(rest) == 0:
		return lines
	case len(shown) == 0:
		return append(lines, fmt.Sprintf("%s%d, all idle", label, unused))
	}
	return append(lines, label+"and "+strings.Join(rest, " and "))
}

// poolUse says how much a pool matters to who reads a plan; what matters most comes first.
type poolUse int

const (
	poolWaitedFor poolUse = iota
	poolFull
	poolInUse
	poolIdle
)

func (p *Pool) use() poolUse {
	switch {
	case p.Waiting > 0:
		return poolWaitedFor
	case p.Active == 0 && len(p.Holders) == 0 && len(p.Unavailable) == 0: // also if its limit is 0
		return poolIdle
	case p.Active >= p.Max:
		return poolFull
	}
	return poolInUse
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
