package rollouttest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// Chart draws one row per resource, in the order of their first jobs, and one column per step of
// time. A letter stands for the job that ran then, # for several at once, and - for a slot that is
// held between jobs. What was at work at the start is drawn from there on, and what has not ended to
// the end, if it began there in one more column. With a step of zero, Chart chooses one that fits a
// page. At most 10,000 columns are drawn: with a step that takes more, a column is the least multiple
// of it with which they suffice. The first line says how long one is.
func (t Timeline) Chart(step time.Duration) string {
	spans := t.spans()
	if len(spans) == 0 {
		return ""
	}
	from, to := spans[0].from, spans[0].to
	for _, s := range spans {
		if s.to.After(to) {
			to = s.to
		}
	}
	if step <= 0 {
		step = fitting(to.Sub(from))
	}
	if d := to.Sub(from); d/maxColumns >= step {
		step *= time.Duration(ceiling(d, step*maxColumns))
	}
	columns := int(ceiling(to.Sub(from), step))
	letters, legend := t.letters()
	resources, cells := drawn(spans, step, columns, letters)
	width := 0
	for _, resource := range resources {
		width = max(width, utf8.RuneCountInString(textlist.Name(resource)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s = 1 column, from %s\n%s\n", shortDuration(step), instantText(from), legend)
	fmt.Fprintf(&b, "%-*s %s\n", width, "", axis(columns, step))
	for _, resource := range resources {
		fmt.Fprintf(&b, "%-*s %s\n", width, textlist.Name(resource), cells[resource])
	}
	return b.String()
}

// drawn returns the resources of some spans, in their order, and the cells of each.
func drawn(spans []span, step time.Duration, columns int, letters map[string]byte) (resources []string, cells map[string][]byte) {
	cells = map[string][]byte{}
	owners := map[string][]string{} // the deployment of each cell, since some share a letter
	from := spans[0].from
	for _, s := range spans {
		row, of := cells[s.resource], owners[s.resource]
		if row == nil {
			row, of = []byte(strings.Repeat(".", columns)), make([]string, columns)
			cells[s.resource], owners[s.resource] = row, of
			resources = append(resources, s.resource)
		}
		first, last := int(s.from.Sub(from)/step), int(ceiling(s.to.Sub(from), step))
		for c := first; c < last; c++ {
			switch {
			case s.deployment == "":
				if row[c] == '.' {
					row[c] = '-'
				}
			case row[c] == '.' || row[c] == '-' || of[c] == s.deployment:
				row[c], of[c] = letters[s.deployment], s.deployment
			default:
				row[c], of[c] = '#', ""
			}
		}
	}
	return resources, cells
}

// maxColumns bounds what a chart takes: of a short step in a long timeline there may be more than
// there is memory for.
const maxColumns = 10_000

// span is a job, or a bracket execution if it has no deployment, from its start to its end or to
// the end of the timeline.
type span struct {
	resource, deployment string
	from, to             time.Time
}

func (t Timeline) spans() []span {
	var spans []span
	open := map[string]int{} // run or execution → index
	until := t.Start
	for _, e := range t.Entries {
		if e.At.After(until) {
			until = e.At
		}
		execution := e.Group + " " + e.Resource
		job := cmp.Or(e.Run, rollout.TargetID{Resource: e.Resource, Environment: e.Environment, Deployment: e.Deployment}.String())
		switch {
		case e.begins():
			if _, known := open[execution]; !known && e.Role != "" {
				open[execution] = len(spans)
				spans = append(spans, span{resource: e.Resource, from: e.At})
			}
			open[job] = len(spans)
			spans = append(spans, span{resource: e.Resource, deployment: e.Deployment, from: e.At})
		case e.Kind == End:
			if k, known := open[job]; known {
				spans[k].to = e.At
			}
		case e.Event == bracket.ExecutionEnded:
			if k, known := open[execution]; known {
				spans[k].to = e.At
			}
		}
	}
	if slices.ContainsFunc(spans, func(s span) bool { return s.to.IsZero() && s.from.Equal(until) }) {
		until = until.Add(1) // or else what hangs since the last instant would not be seen
	}
	for k := range spans {
		if spans[k].to.IsZero() {
			spans[k].to = until
		}
	}
	return spans
}

// begins reports whether a job is at work from an entry on.
func (e *Entry) begins() bool {
	return e.Kind == Start || e.Kind == Found && !rollout.JobStatus(e.Status).Terminal()
}

// fitting returns the shortest round step that draws a duration in at most 100 columns.
func fitting(d time.Duration) time.Duration {
	for _, step := range [...]time.Duration{
		time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute,
		15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	} {
		if d <= 100*step {
			return step
		}
	}
	return time.Duration(ceiling(d, 100*24*time.Hour)) * 24 * time.Hour
}

// ceiling returns how many steps a duration takes, the last one perhaps in part.
func ceiling(d, step time.Duration) int64 {
	steps := int64(d / step)
	if d%step > 0 {
		steps++
	}
	return steps
}

// axis marks every tenth column with the time since the first, where the mark before it leaves room.
func axis(columns int, step time.Duration) string {
	var b strings.Builder
	width := 0
	for c := 0; c < columns; c += 10 {
		if c == 0 || width < c {
			mark := "+" + shortDuration(time.Duration(c)*step)
			fmt.Fprintf(&b, "%*s%s", c-width, "", mark)
			width = c + utf8.RuneCountInString(mark)
		}
	}
	return b.String()
}

// shortDuration leaves out zero minutes and seconds at the end, and counts whole days.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return textlist.Duration(d)
}

// letters gives every deployment that ran a letter: the initial of its first word that no other
// deployment has, if that is free.
func (t Timeline) letters() (map[string]byte, string) {
	var names []string
	words := map[string]int{}
	for _, e := range t.Entries {
		if e.begins() && !slices.Contains(names, e.Deployment) {
			names = append(names, e.Deployment)
			for word := range strings.SplitSeq(e.Deployment, "-") {
				words[word]++
			}
		}
	}
	letters := map[string]byte{}
	taken := map[byte]bool{'#': true, '-': true, '.': true, '?': true}
	var legend []string
	for _, name := range names {
		choices := ""
		for word := range strings.SplitSeq(name, "-") {
			if word != "" && words[word] == 1 {
				choices += word[:1]
			}
		}
		letters[name] = '?'
		for _, letter := range []byte(choices + name + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
			if letter > ' ' && letter < 127 && !taken[letter] {
				letters[name], taken[letter] = letter, true
				break
			}
		}
		legend = append(legend, fmt.Sprintf("%c %s", letters[name], textlist.Name(name)))
	}
	return letters, strings.Join(append(legend, "# several", "- slot held"), "  ")
}
