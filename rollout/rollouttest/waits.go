package rollouttest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/rollout"
)

// waitingOf lists the targets that wait. A plan makes the entries as they are read, so they are
// read once.
func waitingOf(plan *rollout.Plan) []rollout.Waiting {
	return slices.AppendSeq(slices.Grow([]rollout.Waiting(nil), plan.Waiting.Len()), plan.Waiting.All())
}

// compareTargets is the order of a plan's waits.
func compareTargets(a, b rollout.TargetID) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Environment, b.Environment), strings.Compare(a.Deployment, b.Deployment))
}

// sameWait reports whether a target waits for the same as before, in every field.
func sameWait(w, before *rollout.Waiting) bool {
	return w.TargetID == before.TargetID && w.Version == before.Version && slices.EqualFunc(w.Blockers, before.Blockers, rollout.Verdict.Equal)
}

// readsSame reports whether a wait reads as before. Nearly always it is the same in every field,
// and comparing these takes a fraction of the time of making the text.
func readsSame(w, before *rollout.Waiting) bool {
	return sameWait(w, before) || w.Version == before.Version && blockersText(w.Blockers) == blockersText(before.Blockers)
}

func blockersText(blockers []rollout.Verdict) string {
	texts := make([]string, len(blockers))
	for i, v := range blockers {
		texts[i] = v.String()
	}
	return strings.Join(texts, "; ")
}

// lasting returns the reasons of some blockers that time alone does not open.
func lasting(blockers []rollout.Verdict) (reasons []rollout.Reason) {
	for _, v := range blockers {
		if v.Until.IsZero() {
			reasons = append(reasons, v.Reason)
		}
	}
	return reasons
}
