package rollouttest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/internal/textlist"
	"github.com/tranche-dev/tranche/rollout"
)

// diagnostic is an oddity that some of several trials met.
type diagnostic struct {
	rollout.Diagnostic
	in, of int // trials; with all of them it says nothing of trials
}

// diagnosed returns the diagnostics of trials, each once, with its greatest count, in their order.
func diagnosed(trials []Trial) []diagnostic {
	var all []rollout.Diagnostic
	for _, trial := range trials {
		all = merged(all, trial.Diagnostics)
	}
	list := make([]diagnostic, len(all))
	for k, d := range all {
		list[k] = diagnostic{Diagnostic: d, of: len(trials)}
	}
	for _, trial := range trials {
		for _, d := range trial.Diagnostics {
			k, _ := slices.BinarySearchFunc(all, d, compareDiagnostics)
			list[k].in++
		}
	}
	return list
}

// writeDiagnostics writes a line for each of the first five, and says how many others there are.
func writeDiagnostics(b *strings.Builder, list []diagnostic) {
	for _, d := range list[:min(len(list), 5)] {
		where := ""
		if d.in != d.of {
			where = " in " + textlist.Counted(d.in, "trial")
		}
		fmt.Fprintf(b, "diagnostic%s: %s\n", where, d.Diagnostic)
	}
	if n := len(list) - 5; n > 0 {
		fmt.Fprintf(b, "and %s\n", textlist.Counted(n, "other diagnostic"))
	}
}

// merged adds diagnostics to a list that has each once, with its greatest count, in their order.
func merged(list, others []rollout.Diagnostic) []rollout.Diagnostic {
	for _, d := range others {
		switch k, known := slices.BinarySearchFunc(list, d, compareDiagnostics); {
		case !known:
			list = slices.Insert(list, k, d)
		case d.Count > list[k].Count:
			list[k] = d
		}
	}
	return list
}

// compareDiagnostics is the order of a plan's diagnostics. How many an oddity is about, and which of
// them comes first, differs from plan to plan.
func compareDiagnostics(a, b rollout.Diagnostic) int {
	return cmp.Or(strings.Compare(string(a.Code), string(b.Code)), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Detail, b.Detail))
}
