package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/internal/strictjson"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/partition"
)

// warn tells what the author of the strategy may not have meant.
func (w *world) warn(out io.Writer) {
	for _, warning := range w.warnings {
		warning.Path = strictjson.Path("rolloutStrategy", warning.Path)
		warning.Text = strings.Replace(warning.Text, "choose releases: ", "choose -releases ", 1) // what is an option there is a flag here
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
}

// report plays the rollout and draws it: the partitions, a line for each batch, a line for each
// change of what the rollout waits for, the sum of it all, and who is not done.
func (w *world) report(out io.Writer) error {
	moments, err := w.play()
	if err != nil {
		return err
	}
	first := moments[0].plan
	fmt.Fprintf(out, "%s, partitions: %d, of which at most %d may be not ready\n", textlist.Counted(len(w.clusters)-len(first.Unmatched), "cluster"), len(first.Partitions), first.MaxNotReadyPartitions)
	for _, p := range first.Partitions {
		fmt.Fprintf(out, "  %d %s: %s, at most %d NotReady\n", p.Index, named(p.Name), textlist.Counted(p.Count, "cluster"), p.MaxUnavailable)
	}
	if n := len(first.Unmatched); n > 0 {
		fmt.Fprintf(out, "  in no partition: %d, %s\n", n, span(first.Unmatched[0], first.Unmatched[n-1], n))
	}
	var pause partition.Verdict
	most, steps := 0, 0
	last := moments[0]
	for _, m := range moments {
		for i, b := range m.batches {
			if i == 0 || b.step != m.batches[i-1].step {
				steps++
			}
			fmt.Fprintf(out, "%s  partition %d releases %d: %s\n", clock(m.at), b.partition, b.count, span(b.first, b.last, b.count))
		}
		why, now := waitsFor(&m.plan)
		if now != pause && why != "" {
			fmt.Fprintf(out, "%s  pauses: %s\n", clock(m.at), why)
		}
		pause = now
		most = max(most, m.notReady)
		if m.done != last.done || m.released > 0 {
			last = m
		}
	}
	end := moments[len(moments)-1]
	what := "done"
	if left := len(w.clusters) - end.done; left > 0 {
		what = fmt.Sprintf("ends with %d not done", left)
	}
	fmt.Fprintf(out, "%s  %s: %s, at most %s NotReady at once\n", clock(last.at), what, textlist.Counted(steps, "step"), textlist.Counted(most, "cluster"))
	for _, l := range leftovers(&end.plan) {
		fmt.Fprintf(out, "  %s: %d, %s\n", l.code, len(l.ids), names(l.ids))
	}
	return nil
}

// waitsFor says what keeps a rollout from going on; empty if nothing does. A pause goes on as long
// as the same partition causes it for the same reason, whatever the numbers.
func waitsFor(plan *partition.Result) (why string, pause partition.Verdict) {
	var waiting *partition.Waiting
	for i := range plan.Waiting {
		switch plan.Waiting[i].Reason {
		case partition.Unmatched, partition.ClusterPaused, partition.ClusterOffline:
			continue
		}
		// The partition that closed the gate explains more than those behind it.
		if waiting == nil || waiting.Reason == partition.Gate && plan.Waiting[i].Reason != partition.Gate {
			waiting = &plan.Waiting[i]
		}
	}
	if waiting == nil {
		return "", pause
	}
	why, pause = waiting.Verdict.String(), waiting.Verdict
	pause.Count, pause.Limit = 0, 0
	at := -1 // the partition whose members are to blame
	switch waiting.Reason {
	case partition.Gate:
		at = waiting.ClosedBy
	case partition.Threshold, partition.Budget:
		at = waiting.Partition
	}
	if at >= 0 {
		if ids := plan.Partitions[at].Blockers; len(ids) > 0 {
			why += "; first NotReady member: " + ids[0].String()
		}
	}
	return why, pause
}

// leftover is who never got the version for one reason, in cluster order.
type leftover struct {
	code string
	ids  []partition.ID
}

// leftovers lists who is not done, by reason.
func leftovers(plan *partition.Result) []leftover {
	var list []leftover
	add := func(code string, id partition.ID) {
		at := slices.IndexFunc(list, func(l leftover) bool { return l.code == code })
		if at < 0 {
			at = len(list)
			list = append(list, leftover{code: code})
		}
		list[at].ids = append(list[at].ids, id)
	}
	for _, u := range plan.Unready {
		add(u.Why.String(), u.ID)
	}
	for _, w := range plan.Waiting {
		add(string(w.Reason), w.ID)
	}
	return list
}

// names lists clusters one by one if they are few, or else by the first and the last of them.
func names(ids []partition.ID) string {
	const few = 4
	first, last := ids[0], ids[len(ids)-1]
	if len(ids) > few || last.Index-first.Index == len(ids)-1 {
		return span(first, last, len(ids))
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return strings.Join(texts, ", ")
}

func named(name string) string {
	if name == "" {
		return "(no name)"
	}
	return name
}

// span names so many clusters by the first and the last of them, and says if others lie between.
func span(first, last partition.ID, count int) string {
	switch between := last.Index - first.Index + 1; {
	case count == 1:
		return first.String()
	case count < between:
		return first.String() + " … " + last.String() + ", with gaps"
	}
	return first.String() + " … " + last.String()
}

func clock(d time.Duration) string {
	minutes := int(d / time.Minute)
	return fmt.Sprintf("%02d:%02d:%02d", minutes/60, minutes%60, int(d/time.Second)%60)
}

// sideBySide prints two columns, lines of the same instant beside each other.
func sideBySide(out io.Writer, leftTitle, left, rightTitle, right string) {
	a, b := strings.Split(strings.TrimRight(left, "\n"), "\n"), strings.Split(strings.TrimRight(right, "\n"), "\n")
	width := utf8.RuneCountInString(leftTitle)
	for _, line := range a {
		width = max(width, utf8.RuneCountInString(line))
	}
	row := func(l, r string) {
		fmt.Fprintln(out, strings.TrimRight(l+strings.Repeat(" ", width-utf8.RuneCountInString(l))+" | "+r, " "))
	}
	row(leftTitle, rightTitle)
	for len(a) > 0 || len(b) > 0 {
		var l, r string
		switch {
		case len(b) == 0, len(a) > 0 && instant(a[0]) < instant(b[0]):
			l, a = a[0], a[1:]
		case len(a) == 0, instant(b[0]) < instant(a[0]):
			r, b = b[0], b[1:]
		default:
			l, r, a, b = a[0], b[0], a[1:], b[1:]
		}
		row(l, r)
	}
}

// instant is the clock at the beginning of a line; empty, and so before any, for a line without.
func instant(line string) string {
	if len(line) > 8 && line[2] == ':' && line[5] == ':' {
		return line[:8]
	}
	return ""
}
