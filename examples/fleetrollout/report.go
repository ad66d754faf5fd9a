package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/partition"
)

// report plays the rollout and draws it: the partitions, a line for each batch, a line for each
// change of what the rollout waits for, and the sum of it all.
func (w *world) report(out io.Writer) {
	moments, err := w.play()
	if err != nil {
		fmt.Fprintln(out, err)
		return
	}
	first := moments[0].plan
	for _, warning := range w.warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	fmt.Fprintf(out, "%s, partitions: %d, of which at most %d may be not ready\n", counted(len(w.clusters)-len(first.Unmatched), "cluster"), len(first.Partitions), first.MaxNotReadyPartitions)
	for _, p := range first.Partitions {
		fmt.Fprintf(out, "  %d %s: %s, at most %d NotReady\n", p.Index, named(p.Name), counted(p.Count, "cluster"), p.MaxUnavailable)
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
	switch left := len(w.clusters) - end.done; {
	case left == 0:
		fmt.Fprintf(out, "%s  done: ", clock(last.at))
	default:
		fmt.Fprintf(out, "%s  ends with %d not done (%s): ", clock(last.at), left, leftovers(&end.plan))
	}
	fmt.Fprintf(out, "%s, at most %s NotReady at once\n", counted(steps, "step"), counted(most, "cluster"))
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

// leftovers counts what never got the version, by reason.
func leftovers(plan *partition.Result) string {
	counts := map[string]int{}
	var order []string
	count := func(code string) {
		if counts[code] == 0 {
			order = append(order, code)
		}
		counts[code]++
	}
	for _, u := range plan.Unready {
		count(u.Why.String())
	}
	for _, w := range plan.Waiting {
		count(string(w.Reason))
	}
	var parts []string
	for _, code := range order {
		parts = append(parts, fmt.Sprintf("%d %s", counts[code], code))
	}
	return strings.Join(parts, ", ")
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

func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
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
