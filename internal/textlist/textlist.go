// Package textlist keeps the texts of results short: a plan for a large fleet has an entry for each
// target, and is still read by people.
package textlist

import "fmt"

// Shown is how many entries of one kind are shown; the rest is counted.
const Shown = 10

// Lines appends to the lines one for each of the first entries, each behind the label, and one that
// says how many more there are.
func Lines[T fmt.Stringer](lines []string, label string, entries []T) []string {
	for _, entry := range entries[:min(len(entries), Shown)] {
		lines = append(lines, label+entry.String())
	}
	if more := len(entries) - Shown; more > 0 {
		lines = append(lines, fmt.Sprintf("%sand %d more", label, more))
	}
	return lines
}
