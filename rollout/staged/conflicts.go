package staged

import (
	"fmt"
	"slices"
	"strconv"
)

// Conflicts lists the targets that are unsettled in both runs, sorted by name. Each run would point
// them at its own version, and the run that loses a target sees it superseded. The error is
// [ErrNoRun] if a run is nil or zero. It is a *[FieldError], returned with the list, if the two
// runs must not exist at the same time: runs of one placement must have identical strategies.
//
// Runs of different placements have no conflicts, nor do two runs of which one is over.
func Conflicts(a, b *Run) ([]string, error) {
	if a == nil || b == nil || a.plan == nil || b.plan == nil {
		return nil, ErrNoRun
	}
	s, t := &a.plan.spec, &b.plan.spec
	if a.phase.Terminal() || b.phase.Terminal() || s.PlacementName != t.PlacementName || s.Namespace != t.Namespace {
		return nil, nil
	}
	var both []string
	for k := range a.count() {
		tree := &a.stage(k).tree
		for _, c := range []class{isWaiting, isSuspended, isActive} {
			tree.each(c, func(_ int, _ *record, name string) bool {
				if at, ok := b.find(name); ok && !b.stage(int(at.stage)).memberSettled(int(at.member)) {
					both = append(both, name)
				}
				return true
			})
		}
	}
	slices.Sort(both)
	if a.plan.hash != b.plan.hash {
		return both, &FieldError{Code: CodeConflict, Path: "placementName", Value: strconv.Quote(s.PlacementName),
			Hint: fmt.Sprintf("runs %s and %s have different strategies: let one end first", s.Name, t.Name)}
	}
	return both, nil
}
