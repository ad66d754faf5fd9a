package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/concurrency"
)

// onePerResource lets only one group of a bracket rule begin on a resource, whatever the
// environment: of those that got their slots, the one that asks first. Those behind it wait
// for the end of its execution, also if they got no slot: with a place they would not begin, and
// must not reserve one. One that comes before it waits for its slot alone: with a place it would
// begin instead. Each environment was stepped on its own and does not know of the others.
// onePerResource reports whether any group waits; the slots must then be given anew.
func (w *work) onePerResource() bool {
	w.freeing = nil
	if len(w.environments) < 2 {
		return false
	}
	first := w.firstToBegin()
	if len(first) == 0 {
		return false
	}
	waits, before := map[*pendingResource]bool{}, len(w.behind) // by the first rank of each
	for rank := range int32(len(w.batch)) {
		at, own := w.wouldBegin(rank)
		taken, known := first[at]
		if _, judged := waits[own]; own == nil || !known || judged {
			continue
		}
		_, beginning := w.wouldBegin(taken)
		waits[own] = own != beginning && rank > taken
		if own != beginning && rank < taken && slices.ContainsFunc(w.requests[rank].Needs, w.isStrict) {
			put(&w.freeing, concurrency.Holder{Resource: w.requests[taken].Resource, Group: w.requests[taken].Group}, true)
		}
		if waits[own] {
			w.behind = append(w.behind, behind{w.batch[rank], w.batch[taken]})
		}
	}
	if len(w.behind) == before {
		return false
	}
	w.batch = slices.DeleteFunc(slices.Clone(w.batch), func(k int32) bool {
		m := w.candidates.at(k).member
		return m != nil && waits[m.pending]
	})
	return true
}

// ruleOn is a bracket rule on a resource.
type ruleOn struct {
	rule     string
	resource int32
}

// wouldBegin returns the group whose execution would begin with the candidate of a rank, and
// where; nil if it would begin none.
func (w *work) wouldBegin(rank int32) (at ruleOn, own *pendingResource) {
	if m := w.candidates.at(w.batch[rank]).member; m != nil && m.pending != nil {
		return ruleOn{m.bracket.id, m.pending.resource}, m.pending
	}
	return at, nil
}

// firstToBegin returns, for each bracket rule on each resource, the first rank with which an
// execution would begin there, of those that got their slots.
func (w *work) firstToBegin() map[ruleOn]int32 {
	first := map[ruleOn]int32{}
	n, rankOf := w.starting()
	for k := range n {
		rank := rankOf(k)
		if at, own := w.wouldBegin(rank); own != nil {
			if before, known := first[at]; !known || rank < before {
				first[at] = rank
			}
		}
	}
	return first
}

// behind is a group that waits, and the one whose execution begins before it: the first candidates
// of both.
type behind struct{ waits, begins int32 }

// isStrict reports whether a pool is strict. The shut pool is not.
func (w *work) isStrict(pool int32) bool {
	pools := w.capacity.snapshot.Pools
	return int(pool) < len(pools) && pools[pool].Strict
}

// vetoFirst vetoes the candidates that others wait for and that got no slots once these did not
// ask. One of these had lent the place by its override, or had kept out a start that an override lets
// past. vetoFirst reports whether it vetoed any.
func (w *work) vetoFirst() (anybody bool) {
	begins := map[int32]bool{}
	for _, b := range w.behind {
		begins[b.begins] = true
	}
	for _, refused := range w.admission.Refused {
		if k := w.batch[refused.Candidate]; begins[k] {
			put(&w.vetoed, k, slices.Clone(w.admission.Refusals[refused.Why]))
			anybody, w.groupVetoed = true, true
		}
	}
	return anybody
}

// waitBehind notes what the groups wait for that onePerResource lets wait.
func (w *work) waitBehind() {
	for _, b := range w.behind {
		c := w.candidates.at(b.waits)
		w.refuse(c, []Verdict{w.queued(c.member.bracket.id, c.member.pending.resource)})
	}
}
