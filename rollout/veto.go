package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
)

// The pools admit candidates on what the plan knows, and some of that is not proved: that a job is
// still at work, that a lease is used, or that a start which lends a place will be carried out. A
// candidate that would find no place without it is vetoed: it is refused although the pools would
// admit it.

// changeVetoes finds out from the answer of the pools who else has to be vetoed, or no longer, and
// reports whether there is anybody; the slots must then be given anew.
func (w *work) changeVetoes() bool {
	return w.vetoOn(w.unprovedPlaces()) || w.vetoOn(w.unusedPlaces()) || w.vetoOn(w.lentPlaces()) || w.keyless() || w.vetoFirst() || w.dropForeseen()
}

// vetoOn vetoes the candidates that were admitted, without an override of their own, on one of the
// places, in pools that have no other place. The place of an open execution counts for itself.
// vetoOn reports whether it vetoed any.
func (w *work) vetoOn(places map[poolPlace]concurrency.Reason) bool {
	return len(places) > 0 && w.veto(func(c *candidate, pool int32) concurrency.Reason {
		if w.forced(c, pool) {
			return ""
		}
		return places[poolPlace{pool, w.resourceOf(c)}]
	})
}

// veto notes the admitted candidates that are refused all the same, because why returns a reason
// for one of their pools. It reports whether there are any.
func (w *work) veto(why func(c *candidate, pool int32) concurrency.Reason) (anybody bool) {
	for _, admitted := range w.admission.Admitted {
		k := w.batch[admitted.Candidate]
		c := w.candidates.at(k)
		for _, claim := range admitted.Claims {
			if reason := why(c, claim.Pool); reason != "" {
				put(&w.vetoed, k, append(w.vetoed[k], concurrency.Refusal{Pool: claim.Pool, Reason: reason}))
				anybody = true
			}
		}
	}
	return anybody
}

// overfull returns, for each pool that has more than its rule allows, or is paused or halted, what it
// would answer to one more candidate; for the others, the empty reason.
func (w *work) overfull() []concurrency.Reason {
	pools := w.capacity.snapshot.Pools
	keys := w.activeKeys()
	reasons := make([]concurrency.Reason, len(pools))
	for k := range pools {
		switch pool := &w.admission.Pools[k]; {
		case pool.Max == 0, pool.Halted, pool.Active > pool.Max:
			reasons[k] = noRoom(pool)
		case keys[pools[k].Family] > pools[k].MaxActiveKeys:
			reasons[k] = concurrency.SlotKeysFull
		}
	}
	return reasons
}

// activeKeys counts the active pools of each family. A pool without a family is not among them.
func (w *work) activeKeys() map[string]int {
	keys := map[string]int{}
	for k, p := range w.capacity.snapshot.Pools {
		if w.admission.Pools[k].KeyActive {
			keys[p.Family]++
		}
	}
	return keys
}

// unprovedPlaces returns the places in overfull pools that count only for jobs that the snapshot
// shows on targets, with what the pool says to a candidate that would start on one. A host sees the
// jobs before the records are read: a job may have ended meanwhile, its lease may have been given
// back, and another holder may have the place. So such a job keeps other candidates out, but lets
// none in that would find no place without it.
func (w *work) unprovedPlaces() map[poolPlace]concurrency.Reason {
	var places map[poolPlace]concurrency.Reason
	var overfull []concurrency.Reason
	for k, observed := range w.capacity.observed {
		if len(observed) == 0 {
			continue
		}
		if overfull == nil {
			overfull, places = w.overfull(), map[poolPlace]concurrency.Reason{}
		}
		if overfull[k] == "" {
			continue
		}
		for _, resource := range observed {
			places[poolPlace{int32(k), resource}] = overfull[k]
		}
		for _, at := range w.inUseBesides(int32(k), nil) {
			delete(places, at)
		}
	}
	return places
}

// allRefusals returns the refusals of a candidate, one for each pool: what the pools said, why the
// candidate was vetoed, and why it would be vetoed if the others were gone, as is a foreseen
// veto. own reports whether there are any of the last two kinds. refusals is shared, and
// allRefusals does not write to it.
func (w *work) allRefusals(refusals []concurrency.Refusal, k int32, c *concurrency.Candidate, places map[poolPlace]concurrency.Reason, unkeyed func(*candidate, int32) bool) (_ []concurrency.Refusal, own bool) {
	all, vetoed := refusals, w.vetoed[k]
	if own = vetoed != nil; !own && len(places) == 0 && unkeyed == nil {
		return all, false
	}
	pools := w.capacity.snapshot.Pools
	if own {
		all = slices.DeleteFunc(slices.Clone(refusals), func(r concurrency.Refusal) bool { return int(r.Pool) == len(pools) })
		if w.foreseen[k] {
			vetoed = nil
		}
		for _, r := range vetoed { // the pool may itself refuse it by now, because the start that lent the place was refused elsewhere
			if !slices.ContainsFunc(all, func(o concurrency.Refusal) bool { return o.Pool == r.Pool }) {
				all = append(all, r)
			}
		}
	}
	for _, pool := range c.Needs {
		if int(pool) == len(pools) || slices.ContainsFunc(all, func(r concurrency.Refusal) bool { return r.Pool == pool }) {
			continue
		}
		reason := places[poolPlace{pool, c.Resource}]
		if reason == "" && unkeyed != nil && unkeyed(w.candidates.at(k), pool) {
			reason = concurrency.SlotKeysFull
		}
		if reason != "" {
			all, own = append(slices.Clip(all), concurrency.Refusal{Pool: pool, Reason: reason}), true
		}
	}
	if own {
		slices.SortStableFunc(all, func(a, b concurrency.Refusal) int { return strings.Compare(pools[a.Pool].Key, pools[b.Pool].Key) })
	}
	return all, own
}
