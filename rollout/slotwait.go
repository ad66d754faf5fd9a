package rollout

import (
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
)

// What a wait for a slot waits for beside jobs that end: somebody who releases orphans, and an operator
// where no job frees the slot by itself.

// nameOrphans adds to each wait for a slot the orphans that hold such slots: no holder at work will
// free these.
func (w *work) nameOrphans() {
	if len(w.plan.Orphans) == 0 {
		return
	}
	inPool, inFamily := map[string]bool{}, map[string][]string{} // pools with an orphan
	on := map[Condition]bool{}                                   // the slots of orphans, as exclusive pools name them
	for _, lease := range w.plan.Orphans {
		on[Condition{Kind: OnSlot, Pool: lease.Pool, Resource: lease.Resource}] = true
		if k, known := w.capacity.keys[lease.Pool]; known && !inPool[lease.Pool] {
			inPool[lease.Pool] = true
			family := w.capacity.snapshot.Pools[k].Family
			inFamily[family] = append(inFamily[family], lease.Pool)
		}
	}
	families := map[*Condition][]Condition{} // first condition of a shared list → the list with the orphans
	for _, list := range w.blockers {
		for n := range list {
			v := &list[n]
			if len(v.On) == 0 || v.On[0].Kind != OnSlot || v.On[len(v.On)-1].Kind == OnOrphan { // two entries may share a list, which may have its orphans already
				continue
			}
			key := v.On[0].Pool
			pool, known := w.capacity.keys[key]
			switch {
			case !known: // a rule of the host may name whatever it likes
			case v.Reason != Reason(concurrency.SlotKeysFull):
				if inPool[key] && (v.Reason != Reason(concurrency.SlotExclusive) || on[v.On[0]]) {
					v.On = withOrphans(v.On, key)
				}
			default:
				if pools := inFamily[w.capacity.snapshot.Pools[pool].Family]; len(pools) > 0 {
					shared := &v.On[0]
					if families[shared] == nil {
						families[shared] = withOrphans(v.On, pools...)
					}
					v.On = families[shared]
				}
			}
		}
	}
}

// nameHeld adds an operator to each wait for a pool that no job frees by itself: of those who hold a
// full one, or the resource in an exclusive one, each has failed and holds, is stuck or quarantined,
// or is an orphan; in each of those that have to become empty at least one has.
func (w *work) nameHeld() {
	orphans := map[poolHolder]bool{}
	for _, lease := range w.plan.Orphans {
		orphans[poolHolder{lease.Pool, lease.Holder}] = true
	}
	held := map[string][]Condition{} // by pool: what its waits wait for
	for k, waiting := range w.queuedIn {
		if waiting > 0 {
			if on := w.onlyByOperator(int32(k), orphans); on != nil {
				held[w.capacity.snapshot.Pools[k].Key] = on
			}
		}
	}
	if len(held) == 0 && len(w.inUse) == 0 && !w.exclusive {
		return
	}
	keys := map[*Condition][]Condition{} // first condition of a shared list of pools in use → what its waits wait for
	for _, list := range w.blockers {
		for n := range list {
			v := &list[n]
			if len(v.On) == 0 || v.On[0].Kind != OnSlot {
				continue
			}
			pool, known := w.capacity.keys[v.On[0].Pool]
			if !known || v.Rule != w.capacity.owner[pool] { // a rule of the host says so
				continue
			}
			switch v.Reason {
			case Reason(concurrency.SlotFull):
				if on := held[v.On[0].Pool]; on != nil {
					v.On = on
				}
			case Reason(concurrency.SlotExclusive):
				if v.On[len(v.On)-1].Kind == OnOperator { // two entries may share a list
					continue
				}
				if help := w.exclusiveByOperator(pool, v.On[0].Resource, orphans); help.Kind != "" {
					v.On = append(slices.Clip(v.On), help)
				}
			case Reason(concurrency.SlotKeysFull):
				shared := &v.On[0]
				if keys[shared] == nil {
					keys[shared] = w.emptyByOperator(v.On, orphans)
				}
				v.On = keys[shared]
			}
		}
	}
}

// emptyByOperator returns what waits for pools that have to become empty wait for: an operator as
// well if none of them can without one. Of all who hold them it names one, as onlyByOperator does.
func (w *work) emptyByOperator(on []Condition, orphans map[poolHolder]bool) []Condition {
	var help Condition
	for _, event := range on {
		pool := w.capacity.keys[event.Pool]
		if event.Kind != OnSlot || !w.admission.Pools[pool].KeyActive {
			continue // an orphan in one of them, or one that nobody uses yet
		}
		needed, kept := w.keptInUse(pool, orphans)
		if !kept {
			return on
		}
		if help.Group == "" && needed.Kind != "" {
			help = needed
		}
	}
	if help.Kind == "" {
		return on
	}
	return append(slices.Clip(on), help)
}

// keptInUse reports whether a pool stays in use whatever jobs do, and what an operator has to do
// about one of those who keep it so, if it is no orphan.
func (w *work) keptInUse(pool int32, orphans map[poolHolder]bool) (help Condition, kept bool) {
	p := &w.capacity.snapshot.Pools[pool]
	for _, h := range w.admission.Pools[pool].Holders {
		needed, held := w.operatorFor(pool, h)
		switch {
		case needed.Group == "" && !p.QuarantineAllowance.IsZero(): // it may be forgiven
		case orphans[poolHolder{p.Key, h}]:
			kept = true
		case held:
			kept = true
			if help.Group == "" {
				help = needed
			}
		}
	}
	return help, kept
}

// exclusiveByOperator returns what an operator has to do before a resource is free in an exclusive
// pool, if nobody who is at work there makes it so.
func (w *work) exclusiveByOperator(pool int32, resource string, orphans map[poolHolder]bool) (help Condition) {
	key, holders := w.capacity.snapshot.Pools[pool].Key, w.admission.Pools[pool].Holders
	first, _ := slices.BinarySearchFunc(holders, concurrency.Holder{Resource: resource}, compareHolders)
	for _, h := range holders[first:] {
		if h.Resource != resource {
			break
		}
		if orphans[poolHolder{key, h}] {
			continue
		}
		needed, held := w.operatorFor(pool, h)
		if !held {
			return Condition{}
		}
		if help.Group == "" {
			help = needed
		}
	}
	return help
}

// onlyByOperator returns what waits for a full pool wait for if only an operator can free a place,
// or nil: first a command for an execution that holds or, if there is none, the end of what is
// stuck. Of many it names one, because all who wait share the list.
func (w *work) onlyByOperator(pool int32, orphans map[poolHolder]bool) []Condition {
	summary, key := &w.admission.Pools[pool], w.capacity.snapshot.Pools[pool].Key
	help, on := Condition{}, []Condition{{Kind: OnSlot, Pool: key}}
	for _, h := range summary.Holders {
		if orphans[poolHolder{key, h}] {
			on = withOrphans(on[:1], key)
			continue
		}
		needed, held := w.operatorFor(pool, h)
		if !held {
			return nil
		}
		if help.Group == "" {
			help = needed
		}
	}
	down := slices.ContainsFunc(summary.Unavailable, func(id string) bool { // without a slot: it may come up again
		_, holds := slices.BinarySearchFunc(summary.Holders, id, func(h concurrency.Holder, id string) int { return strings.Compare(h.Resource, id) })
		return !holds
	})
	if help.Kind == "" || down || summary.Starts > 0 {
		return nil
	}
	return append(on, help)
}

// operatorFor returns what an operator has to do before a holder gives its slot back, and whether
// nobody else can make it do so: a command for an execution that holds, or the end of what is stuck.
func (w *work) operatorFor(pool int32, h concurrency.Holder) (Condition, bool) {
	if x := w.openExecution(h); x != nil && holds(x) {
		return Condition{Kind: OnOperator, Group: x.Group, Resource: h.Resource}, true
	}
	summary := &w.admission.Pools[pool]
	_, stuck := slices.BinarySearchFunc(summary.Stuck, h, compareHolders)
	_, quarantined := slices.BinarySearchFunc(summary.Quarantined, h, compareHolders)
	return Condition{Kind: OnOperator}, stuck || quarantined
}

// withOrphans appends the orphans of some pools to events.
func withOrphans(on []Condition, pools ...string) []Condition {
	on = slices.Clip(on)
	for _, pool := range pools {
		on = append(on, Condition{Kind: OnOrphan, Pool: pool})
	}
	return on
}
