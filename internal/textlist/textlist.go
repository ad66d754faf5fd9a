// Package textlist keeps the texts of results short: a plan for a large fleet has an entry for each
// target, and is still read by people.
package textlist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shown is how many entries of one kind are shown; the rest is counted.
const Shown = 10

// Lines appends to the lines one for each of the first entries, each behind the label and as [Name]
// shows it, and one that says how many more there are.
func Lines[T fmt.Stringer](lines []string, label string, entries []T) []string {
	for _, entry := range entries[:min(len(entries), Shown)] {
		lines = append(lines, label+Name(entry.String()))
	}
	if more := len(entries) - Shown; more > 0 {
		lines = append(lines, fmt.Sprintf("%sand %d more", label, more))
	}
	return lines
}

// Few returns the first entries of a list and, behind them, how many others there are.
func Few(list []string) []string {
	if more := len(list) - Shown; more > 1 {
		return append(slices.Clone(list[:Shown]), fmt.Sprintf("%d others", more))
	}
	return list
}

// Ends returns the first and the last entries of a list in which each follows from the one before,
// and between them how many more there are.
func Ends(list []string) []string {
	if more := len(list) - 2*Shown; more > 1 {
		return slices.Concat(list[:Shown], []string{fmt.Sprintf("(%d more)", more)}, list[len(list)-Shown:])
	}
	return list
}

// Counted returns a number of things whose plural ends with an s.
func Counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Duration returns a duration as people write it: without units that are zero behind others, such
// as 24h for 24h0m0s.
func Duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Likewise groups entries that are alike: those with one key. The zero value is empty.
type Likewise[K comparable, T fmt.Stringer] struct {
	groups map[K]*alikes[T]
	order  []*alikes[T] // by their first entry
}

// alikes are entries with one key.
type alikes[T fmt.Stringer] struct {
	first  T
	count  int
	owners []string // the first of them, and one more if there are others
}

// Add adds an entry. The owner is what may differ between entries that are alike; it is empty where
// nothing does.
func (l *Likewise[K, T]) Add(key K, entry T, owner string) {
	own := l.groups[key]
	if own == nil {
		if own = (&alikes[T]{first: entry}); l.groups == nil {
			l.groups = map[K]*alikes[T]{}
		}
		l.groups[key] = own
		l.order = append(l.order, own)
	}
	own.count++
	if len(own.owners) <= Shown && !slices.Contains(own.owners, owner) {
		own.owners = append(own.owners, owner)
	}
}

// Lines appends to the lines one for each group, behind the label, the largest group first: its
// first entry, how many more there are, and the owners if there are several. Of the groups beyond
// the first ones it counts the entries and the groups, in the words of rest.
func (l *Likewise[K, T]) Lines(lines []string, label, rest string) []string {
	slices.SortStableFunc(l.order, func(a, b *alikes[T]) int { return cmp.Compare(b.count, a.count) })
	for k, own := range l.order {
		if k == Shown {
			more := 0
			for _, rare := range l.order[k:] {
				more += rare.count
			}
			return append(lines, label+fmt.Sprintf(rest, more, len(l.order)-k))
		}
		line := label + own.first.String()
		if own.count > 1 {
			line += fmt.Sprintf("; and %d more likewise", own.count-1)
			if n := len(own.owners); n > 1 {
				line += ", of " + strings.Join(Names(own.owners[:min(n, Shown)]), ", ")
				if n > Shown {
					line += " and others"
				}
			}
		}
		lines = append(lines, line)
	}
	return lines
}
