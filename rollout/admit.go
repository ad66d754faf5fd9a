package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/runid"
)

// admitting holds the candidates that ask for slots, and the answers.
type admitting struct {
	candidates chunks[candidate]
	batch      []int32                         // indices of the candidates, in the order in which they ask for capacity; a rank is an index in it
	behind     []behind                        // who does not ask, see onePerResource
	vetoed     map[int32][]concurrency.Refusal // by candidate index: why a candidate is refused although the pools would admit it
	foreseen   map[int32]bool                  // those of them that were not admitted, see keyless
	oneByOne   bool                            // nobody is vetoed any more who is not admitted
	exclusive  bool                            // somebody waits for the group that is at work on its resource
	slotless   map[int32]bool                  // targets outside brackets that wait for a slot

	requests     []concurrency.Candidate // per rank: as the candidate asked for its slots last
	admission    concurrency.Result      // what the pools said to these
	forcedPlaces map[poolPlace]string    // places that count in admission only because an override forces a start there, see lentPlaces; with the group that has the lease
	inUse        map[string][]Condition  // by family, if a verdict needs them: the pools that are active, see activePools
}

// granting holds what has to be known of the starts after the plan is made.
type granting struct {
	beyondLimit map[poolPlace]bool          // places beyond a limit that the plan gives because of an override
	letPast     map[int32][]int32           // per start, as in wait.start: the pools past whose rules an override lets it
	freeing     map[concurrency.Holder]bool // whose execution begins where another group has reserved places, which it then gives up, see onePerResource
	groupVetoed bool                        // a group is vetoed that could begin after a part of the plan, see vetoFirst
	reactivated map[int32]bool              // pools that are in use again once a start of the plan is carried out, see noteReactivated
	ratesUsed   map[int32]bool              // pools whose rates the starts of the plan use up, and for which others wait
	ratesNeeded map[int32]bool              // pools with a rate that somebody needs who waits for another one
	beyondRate  map[poolPlace]bool          // places in which an override lets a start begin beyond a rate
}

// admit asks for the slots of all candidates at once, and makes starts and waits of the answer.
func (w *work) admit() error {
	w.sortBatch()
	everybody := w.batch
	for done := false; !done; {
		if err := w.ask(); err != nil {
			return err
		}
		switch {
		case w.onePerResource():
		case w.changeVetoes():
			w.batch, w.behind = everybody, nil // nobody waits for an execution that is vetoed and does not begin
		default:
			done = true
		}
	}
	w.waitBehind()
	w.wake(w.admission.Next)
	w.starts()
	w.refused()
	slices.SortFunc(w.olderWaits, func(a, b olderWait) int { return cmp.Compare(a.target, b.target) })
	w.pools()
	return nil
}

// byCandidate turns a list of n answers around: per candidate, one more than the index of the
// answer to it, or 0. rankOf says which rank in the batch an answer is about. Neighbours among the
// candidates are about neighbours in memory, while the batch goes all over the fleet: what is done
// in its order waits for memory most of the time.
func (w *work) byCandidate(n int, rankOf func(k int) int32) []int32 {
	list := make([]int32, w.candidates.len())
	for k := range n {
		list[w.batch[rankOf(k)]] = int32(k) + 1
	}
	return list
}

// unlimited reports whether there is no pool. Then all candidates start, and nobody is asked.
func (w *work) unlimited() bool { return len(w.capacity.snapshot.Pools) == 0 }

// starting returns how many candidates start, and the rank of each.
func (w *work) starting() (n int, rankOf func(k int) int32) {
	if w.unlimited() {
		return len(w.batch), func(k int) int32 { return int32(k) }
	}
	return len(w.admission.Admitted), func(k int) int32 { return w.admission.Admitted[k].Candidate }
}

// request makes the requests of all candidates.
func (w *work) request() {
	w.requests = make([]concurrency.Candidate, len(w.batch))
	var slab []int32
	for at, rank := range w.byCandidate(len(w.batch), func(k int) int32 { return int32(k) }) {
		if rank == 0 {
			continue
		}
		c, start := w.candidates.at(int32(at)), len(slab)
		slab = w.candidateNeeds(slab, c)
		if w.vetoed[int32(at)] != nil {
			slab = append(slab, int32(len(w.capacity.snapshot.Pools)))
		}
		// Only a run of an open execution never waits, because its execution is at work. Any other
		// candidate may hold a part of what it needs only because a planner stopped, or met a
		// conflict, while it claimed or gave back one pool after the other. Another holder may have
		// got the last place of another pool since.
		w.requests[rank-1] = concurrency.Candidate{
			Resource: w.resourceOf(c), Group: w.group(c), Rank: int(rank), Needs: slab[start:len(slab):len(slab)], Begins: c.member == nil || c.brings() != nil,
		}
	}
}

// candidateNeeds appends the pools in which a candidate needs a place. One lease covers a whole
// execution, so its first start needs a place in every pool that one of its runs needs.
func (w *work) candidateNeeds(slab []int32, c *candidate) []int32 {
	start, runs := len(slab), c.brings()
	if runs == nil {
		return w.targetNeeds(slab, start, c.target)
	}
	view := int32(none)
	for _, run := range runs {
		if w.view[run.target] != view { // targets of one resource with the same view need the same pools
			view = w.view[run.target]
			slab = w.targetNeeds(slab, start, run.target)
		}
	}
	return slab
}

// ask asks for the slots of all candidates in one batch.
func (w *work) ask() error {
	if w.unlimited() {
		return nil
	}
	w.request()
	given := map[int32]bool{} // ranks that are forced in one pool and refused by another
	for again := true; again; {
		restore := w.force(given)
		answer, err := concurrency.Plan(w.poolsAsked(), w.requests, w.now)
		restore()
		if err != nil {
			return err
		}
		answer.Pools = answer.Pools[:len(w.capacity.snapshot.Pools)]
		w.admission, again = answer, false
		for _, refused := range answer.Refused {
			if w.candidates.at(w.batch[refused.Candidate]).forced {
				given[refused.Candidate], again = true, true // its place must not count, since it does not start
			}
		}
	}
	return nil
}

// poolsAsked returns the pools, followed by a shut one if any candidate is vetoed. A vetoed
// candidate needs the shut pool too, so it is refused and still learns what the other pools say.
func (w *work) poolsAsked() concurrency.Snapshot {
	s := w.capacity.snapshot
	if len(w.vetoed) > 0 {
		key := "shut" // made different from the keys of all pools
		for k := range s.Pools {
			key = max(key, s.Pools[k].Key+"/")
		}
		s.Pools = append(slices.Clip(s.Pools), concurrency.Pool{Key: key, Limit: concurrency.Count(0)})
	}
	return s
}

// poolPlace is a resource in a pool.
type poolPlace struct {
	pool     int32
	resource string
}

// force lets a candidate start if an override lets its version past a concurrency rule, except for
// the ranks in but. The candidate's resource counts as down in the pool before the batch, so the
// candidate is admitted whatever the limit, and its place counts. In an exclusive pool, past which
// no override lets while another group is at work on the resource, the lease is the candidate's own:
// it keeps the others out. restore puts the leases of the records back.
func (w *work) force(but map[int32]bool) (restore func()) {
	if len(w.overrides) == 0 {
		return func() {}
	}
	pools := w.capacity.snapshot.Pools
	before := slices.Clone(pools)
	w.forcedPlaces = map[poolPlace]string{}
	down := w.downWithoutLease()
	keyed := map[poolPlace]bool{}             // places on which no key refuses a forced candidate
	taken := map[int32][]concurrency.Holder{} // by pool: on the resources of the others, in the order of the batch
	for k, at := range w.batch {
		c := w.candidates.at(at)
		c.forced = false
		for _, pool := range w.requests[k].Needs {
			if but[int32(k)] || !w.forced(c, pool) {
				continue
			}
			c.forced = true
			at := poolPlace{pool, w.requests[k].Resource}
			if _, lent := w.forcedPlaces[at]; lent || down[at] || leasedOn(pools[pool].Record.Leases, at.resource) {
				// Down already, for this group or another, or by itself: no limit refuses the
				// candidate, and the key must not either.
				keyed[at] = true
				continue
			}
			group := runid.Reserved
			if pools[pool].Exclusive {
				group = w.requests[k].Group
			}
			w.forcedPlaces[at] = group
			taken[pool] = append(taken[pool], concurrency.Holder{Resource: at.resource, Group: group})
		}
	}
	for k := range pools {
		if len(keyed) > 0 && len(pools[k].Keyless) > 0 {
			pools[k].Keyless = slices.DeleteFunc(slices.Clone(pools[k].Keyless), func(h concurrency.Holder) bool { return keyed[poolPlace{int32(k), h.Resource}] })
		}
	}
	for pool, holders := range taken {
		w.lend(&pools[pool].Record, holders)
	}
	return func() { copy(pools, before) }
}

// downWithoutLease returns the places without a lease on which no limit refuses a start: those of
// jobs, and of what is unavailable in pools that are not halted.
func (w *work) downWithoutLease() map[poolPlace]bool {
	down, pools := map[poolPlace]bool{}, w.capacity.snapshot.Pools
	for k := range pools {
		for _, holder := range pools[k].Jobs {
			down[poolPlace{int32(k), holder.Resource}] = true
		}
		if pools[k].Halted() {
			continue
		}
		for _, resource := range pools[k].Unavailable {
			down[poolPlace{int32(k), resource}] = true
		}
	}
	return down
}

// lend adds leases to the record of a pool, so that their resources count as down.
func (w *work) lend(record *concurrency.Record, holders []concurrency.Holder) {
	leases := slices.Clone(record.Leases)
	for _, holder := range holders {
		leases = append(leases, concurrency.Lease{
			Pool: record.Key, Holder: holder, Token: record.NextToken, State: concurrency.Active,
			Since: w.now, ProgressAt: w.now,
		})
		record.NextToken++
	}
	slices.SortFunc(leases, func(a, b concurrency.Lease) int { return compareHolders(a.Holder, b.Holder) })
	record.Leases = leases
}

// forced reports whether an override lets a candidate past a rule of the pool. For the first start
// of an execution, an override for any of its runs is enough.
func (w *work) forced(c *candidate, pool int32) bool {
	return c.anyRun(func(i, n int32) bool {
		return slices.ContainsFunc(w.viewOf(i).concurrency, func(rule *compiledRule) bool {
			return w.capacity.under(rule, w.targets[i].resource) == pool && w.overriddenAt(rule.id, i, n) != nil
		})
	})
}

// noteLetPast notes the pools past whose rules an override lets a start.
func (w *work) noteLetPast(c *candidate, start int32) {
	for _, claim := range w.admission.Admitted[start-1].Claims {
		if w.forced(c, claim.Pool) {
			put(&w.letPast, start, append(w.letPast[start], claim.Pool))
		}
	}
}

// starts lists the admitted candidates in the order of the batch.
func (w *work) starts() {
	n, rankOf := w.starting()
	w.plan.Start = make([]Start, n)
	w.noteBeyondLimit()
	w.noteReactivated()
	w.listClaims()
	for k, place := range w.byCandidate(n, rankOf) {
		if place == 0 {
			continue
		}
		c, start := w.candidates.at(int32(k)), &w.plan.Start[place-1]
		start.TargetID, start.Version, start.Run, start.Group = w.id(c.target), w.versionID(c), w.run(c), w.group(c)
		start.Scoped = w.isScoped(w.targets[c.target].deployment, c.version)
		switch {
		case c.forced:
			start.Reason = ReasonOverridden
			w.noteLetPast(c, place)
		case w.unlimited():
			start.Reason = Reason(concurrency.RuleNotApplicable)
		}
		start.Purpose = purpose(c.goesBack())
		w.waits[c.target].start = place
		if m := c.member; m != nil && m.pending != nil {
			m.pending.starts = true
		}
	}
	w.followAll()
}

// listClaims gives the starts the reasons and the claims with which the pools admitted them.
func (w *work) listClaims() {
	list, pools := w.admission.Admitted, w.capacity.snapshot.Pools
	claims := 0
	for k := range list {
		claims += len(list[k].Claims)
	}
	slab := make([]Claim, 0, claims)
	for k := range list {
		from := len(slab)
		for _, claim := range list[k].Claims {
			own := Claim{Pool: pools[claim.Pool].Key, Revision: claim.Revision, Token: claim.Token, PeriodSeconds: claim.PeriodSeconds}
			if _, lent := w.forcedPlaces[poolPlace{claim.Pool, w.requests[list[k].Candidate].Resource}]; lent { // it is not down, although it counted as if it were
				own.PeriodSeconds = int32(pools[claim.Pool].Rate.PeriodSeconds)
			}
			slab = append(slab, own)
		}
		start := &w.plan.Start[k]
		start.Reason, start.Claims = Reason(list[k].Reason), slab[from:len(slab):len(slab)]
	}
}

// refused lists the candidates that wait for a slot. A refused first start of an execution keeps
// all members on its resource waiting.
func (w *work) refused() {
	shared := make([][]Verdict, len(w.admission.Refusals))
	places := map[poolPlace]concurrency.Reason{}
	for _, some := range [...]map[poolPlace]concurrency.Reason{w.lentPlaces(), w.unprovedPlaces(), w.unusedPlaces()} {
		maps.Copy(places, some)
	}
	for at, reason := range places {
		if reason == concurrency.SlotRateFull {
			put(&w.beyondRate, at, true)
		}
	}
	w.queue, w.queuedIn = make([]queued, len(w.admission.Refused)), make([]int32, len(w.capacity.snapshot.Pools))
	type answerOn struct {
		why      int32 // as in concurrency.Refused
		resource string
	}
	busy := map[answerOn][]Verdict{} // answers in which an exclusive pool speaks of a resource
	rates := slices.ContainsFunc(w.capacity.snapshot.Pools, func(p concurrency.Pool) bool { return !p.Rate.IsZero() })
	unkeyed := w.unkeyed()
	lent := w.lentRates()
	for k, place := range w.byCandidate(len(w.admission.Refused), func(k int) int32 { return w.admission.Refused[k].Candidate }) {
		if place == 0 {
			continue
		}
		c, refused := w.candidates.at(int32(k)), w.admission.Refused[place-1]
		if rates { // else what was asked, which is far away in memory, is mostly not looked at
			w.shareRates(&w.requests[refused.Candidate])
		}
		refusals, own := w.allRefusals(w.admission.Refusals[refused.Why], int32(k), &w.requests[refused.Candidate], places, unkeyed)
		let := c.anyRun(w.mayBeOverridden)  // past some pool, perhaps
		alike, resource := !let && !own, "" // which is named only where an exclusive pool refuses
		if slices.ContainsFunc(refusals, isExclusive) {
			resource = w.requests[refused.Candidate].Resource
		}
		var blockers []Verdict
		switch {
		case !alike:
		case resource == "":
			blockers = shared[refused.Why]
		default:
			blockers = busy[answerOn{refused.Why, resource}]
		}
		if blockers == nil {
			if let { // a pool that an override forces is no blocker, unless it is the only one
				if others := slices.DeleteFunc(slices.Clone(refusals), func(r concurrency.Refusal) bool { return !isExclusive(r) && w.forced(c, r.Pool) }); len(others) > 0 {
					refusals = others
				}
			}
			for _, refusal := range refusals {
				blockers = append(blockers, w.slotVerdict(refusal, resource, lent))
			}
			switch {
			case !alike:
			case resource == "":
				shared[refused.Why] = blockers
			default:
				busy[answerOn{refused.Why, resource}] = blockers
			}
		}
		w.refuse(c, blockers)
		if resource == "" { // else no place is what it waits for
			w.enqueue(place-1, c, blockers, refusals)
		}
	}
	w.queue = slices.DeleteFunc(w.queue, func(q queued) bool { return q.blockers == 0 })
}

// shareRates notes the pools with a rate that a refused candidate needs, whichever pool refuses it:
// starts that ask after it may use the rate up.
func (w *work) shareRates(c *concurrency.Candidate) {
	pools := w.capacity.snapshot.Pools
	for _, pool := range c.Needs {
		if int(pool) == len(pools) || pools[pool].Rate.IsZero() { // the last one is that of the vetoed
			continue
		}
		put(&w.ratesNeeded, pool, true)
	}
}

// rateIsZero says that it is the rate which pauses a pool, and not the limit beside it.
const rateIsZero = "its rate lets none of its members begin"

// isExclusive reports whether a pool refuses because another group is at work on the resource.
func isExclusive(r concurrency.Refusal) bool { return r.Reason == concurrency.SlotExclusive }

// slotVerdict returns the verdict of a pool that refuses a candidate, on a resource if the pool is
// exclusive. If it refuses only because its value of groupBy is not among the active ones, no event
// in the pool can help: the events are then those of the active pools of its family.
func (w *work) slotVerdict(refusal concurrency.Refusal, resource string, lent map[int32]lentRate) Verdict {
	own := &w.capacity.snapshot.Pools[refusal.Pool]
	v := Verdict{
		Status: Pending, Reason: Reason(refusal.Reason), Rule: w.capacity.owner[refusal.Pool],
		On: []Condition{{Kind: ConditionKind(refusal.Reason.On()), Pool: own.Key}},
	}
	switch opens := w.admission.Pools[refusal.Pool].RateOpens; refusal.Reason {
	case concurrency.SlotRateFull, concurrency.SlotReserved:
		if opens.IsZero() && refusal.Reason == concurrency.SlotRateFull { // only candidates wait that were vetoed
			opens = lent[refusal.Pool].opens
			w.wake(opens)
		}
		if v.Until = opens; !own.Rate.IsZero() {
			put(&w.ratesUsed, refusal.Pool, true)
		}
	case concurrency.SlotKeysFull:
		if w.inUse == nil {
			w.inUse = w.activePools()
		}
		v.Data = &Data{Names: []string{own.Key}}
		if events := w.inUse[own.Family]; len(events) > 0 { // else its place is reserved for another candidate that waits
			v.On = events
		}
	case concurrency.SlotExclusive:
		v.On[0].Resource = resource
		w.exclusive = true
	case concurrency.SlotHalted:
		v.Data = &Data{Attempt: len(w.admission.Pools[refusal.Pool].Unavailable), Allowed: own.HaltAboveUnavailable.Of(own.Total, concurrency.Floor)}
	case concurrency.SlotPaused:
		if min(own.Total, own.Limit.Of(own.Total, own.Rounding)) > 0 { // nothing else is left that pauses it
			v.Data = &Data{Detail: rateIsZero}
		}
	}
	return v
}

// activePools lists, by family, the pools that are active, or would be as soon as one of their
// holders begins, sorted by key.
func (w *work) activePools() map[string][]Condition {
	on := map[string][]Condition{}
	pools := w.capacity.snapshot.Pools
	for k := range pools {
		if family := pools[k].Family; family != "" && (w.admission.Pools[k].KeyActive || len(w.admission.Pools[k].Holders) > 0) {
			on[family] = append(on[family], Condition{Kind: OnSlot, Pool: pools[k].Key})
		}
	}
	for _, list := range on {
		slices.SortFunc(list, func(a, b Condition) int { return strings.Compare(a.Pool, b.Pool) })
	}
	return on
}

// refuse lists the blockers of a candidate that every rule allows, and that does not start all the
// same. Everything that its execution would run waits with it.
func (w *work) refuse(c *candidate, blockers []Verdict) {
	if runs := c.brings(); runs != nil {
		for _, run := range runs {
			w.waitNumber(run.target, run.version, blockers)
		}
		return
	}
	if c.member == nil {
		put(&w.slotless, c.target, true)
	}
	w.waitWithOlder(c.target, c.version, w.versionID(c), blockers)
}
