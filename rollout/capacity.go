package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
)

// capacity turns the resourceConcurrency rules into pools and asks for all starts of a plan in one batch: separate questions would each get
// the last free place.
type capacity struct {
	snapshot concurrency.Snapshot
	byRule   map[*compiledRule][]int32 // per resource number: its pool under the rule, or none
	keys     map[string]int32          // pool key → index in snapshot.Pools
	owner    []string                  // per pool: id of the first rule that has it
	foreign  []concurrency.Record      // records of pools that no rule has any more
}

// openPools evaluates each group selector once per resource.
func (w *work) openPools(s *Snapshot) {
	c := &w.capacity
	c.byRule, c.keys = map[*compiledRule][]int32{}, map[string]int32{}
	members := map[int32][]bool{} // shared pools: who is counted already
	for _, policy := range w.set.policies {
		for _, rule := range policy.concurrency {
			pools := make([]int32, len(w.resources))
			byValue := map[string]int32{}
			b := new(bound) // one for all: what an interface holds is allocated
			for r := range w.resources {
				pools[r] = none
				resource := &w.resources[r]
				b.resource = resource
				ok, err := rule.group.Match(b)
				if err != nil {
					w.groupSelectorFailed(rule, int32(r), err)
					continue
				}
				if !ok {
					continue
				}
				value := ""
				if rule.groupBy != nil {
					value = rule.groupBy.of(resource)
				}
				index, known := byValue[value]
				if !known {
					index = c.pool(rule, value)
					byValue[value] = index
				}
				pools[r] = index
				if rule.pool.SharedPool != "" {
					seen := members[index]
					if seen == nil {
						seen = make([]bool, len(w.resources))
						members[index] = seen
					}
					if seen[r] {
						continue
					}
					seen[r] = true
				}
				c.snapshot.Pools[index].Total++
			}
			c.byRule[rule] = pools
		}
	}
	w.occupy(s)
}

// PoolKeys returns the keys of the pools that the policies' concurrency rules make of these resources, ascending: those that a
// [concurrency.JobCounter] is asked about. An expression that fails on a resource is an error.
func (s *PolicySet) PoolKeys(resources []Resource) ([]string, error) {
	var keys []string
	for _, policy := range s.policies {
		for _, rule := range policy.concurrency {
			for k := range resources {
				ok, err := rule.group.Match(&bound{resource: &resources[k]})
				if _, missing := missingKey(err); err != nil && !missing {
					return nil, fmt.Errorf("rollout: %s: groupSelector on resource %s: %w", rule.id, resources[k].ID, err)
				}
				if !ok {
					continue
				}
				value := ""
				if rule.groupBy != nil {
					value = rule.groupBy.of(&resources[k])
				}
				keys = append(keys, rule.pool.PoolKey(rule.id, value))
				if rule.groupBy == nil {
					break
				}
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// pool finds or makes the pool of a rule and a value; rules with a shared pool agree on everything, which Compile checked.
func (c *capacity) pool(rule *compiledRule, value string) int32 {
	key := rule.pool.PoolKey(rule.id, value)
	index, known := c.keys[key]
	if !known {
		index = int32(len(c.snapshot.Pools))
		c.snapshot.Pools = append(c.snapshot.Pools, rule.pool.Pool(rule.id, value, 0))
		c.owner = append(c.owner, rule.id)
		c.keys[key] = index
	}
	return index
}

// groupSelectorFailed: who misses a key is no member; whoever cannot be judged at all must not start.
func (w *work) groupSelectorFailed(rule *compiledRule, r int32, err error) {
	id := TargetID{Resource: w.resources[r].ID}
	if key, missing := missingKey(err); missing {
		w.diagnose(DiagnosticMissingKey, rule.id, key, id)
		return
	}
	w.diagnose(DiagnosticSelectorError, rule.id, err.Error(), id)
	verdict := Verdict{Status: Denied, Reason: ReasonSelectorError, Rule: rule.id, On: onConfig(rule.id), Data: &Data{Detail: err.Error()}}
	for i := range w.targets {
		if w.targets[i].resource == r && w.views.list[w.view[i]].has(rule) {
			w.held[int32(i)] = append(w.held[int32(i)], verdict)
		}
	}
}

// occupy adds who is in the pools already: leases, jobs that the host counts, resources that are down.
func (w *work) occupy(s *Snapshot) {
	c := &w.capacity
	for i := range c.snapshot.Pools {
		p := &c.snapshot.Pools[i]
		p.Record = concurrency.NewRecord(p.Key)
		p.Jobs = s.Active[p.Key]
	}
	for _, record := range s.State.Pools {
		if index, known := c.keys[record.Key]; known {
			c.snapshot.Pools[index].Record = record
		} else {
			c.foreign = append(c.foreign, record)
		}
	}
	if len(w.unavailable) == 0 {
		return
	}
	down := make([]int32, 0, len(w.unavailable))
	for _, id := range w.unavailable {
		if r, known := w.resource(id); known {
			down = append(down, r)
		}
	}
	for _, policy := range w.set.policies {
		for _, rule := range policy.concurrency {
			for _, r := range down {
				if index := c.byRule[rule][r]; index != none {
					p := &c.snapshot.Pools[index]
					if id := w.resources[r].ID; !slices.Contains(p.Unavailable[max(0, len(p.Unavailable)-1):], id) {
						p.Unavailable = append(p.Unavailable, id)
					}
				}
			}
		}
	}
}

// needs appends the pools that a target must have a place in.
func (w *work) needs(slab []int32, start int, i int32) []int32 {
	for _, rule := range w.views.list[w.view[i]].concurrency {
		if index := w.capacity.byRule[rule][w.targets[i].resource]; index != none && !slices.Contains(slab[start:], index) {
			slab = append(slab, index)
		}
	}
	return slab
}

// turnOrder is the order in which starts ask for capacity: those that take a target back first, then by due time, position and ids. Small entries are sorted instead of candidates, and
// ids are compared only where the rest is equal.
func (w *work) turnOrder() []candidate {
	type entry struct {
		seconds     int64
		nanoseconds int32
		position    int32
		index       int32
	}
	entries := make([]entry, len(w.candidates))
	for k := range w.candidates {
		c := &w.candidates[k]
		entries[k] = entry{c.due.Unix(), int32(c.due.Nanosecond()), c.position, int32(k)}
		if c.revert {
			entries[k].seconds += math.MinInt64 / 2 // before everybody else, and by due time among themselves
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case a.seconds != b.seconds:
			return cmp.Compare(a.seconds, b.seconds)
		case a.nanoseconds != b.nanoseconds:
			return cmp.Compare(a.nanoseconds, b.nanoseconds)
		case a.position != b.position:
			return cmp.Compare(a.position, b.position)
		}
		return w.compareIDs(&w.candidates[a.index], &w.candidates[b.index])
	})
	// In place, one circle of the permutation after the other: candidates are large.
	for k := range entries {
		if entries[k].index == int32(k) {
			continue
		}
		first, at := w.candidates[k], int32(k)
		for entries[at].index != int32(k) {
			from := entries[at].index
			w.candidates[at], entries[at].index = w.candidates[from], at
			at = from
		}
		w.candidates[at], entries[at].index = first, at
	}
	return w.candidates
}

func (w *work) compareIDs(a, b *candidate) int {
	ta, tb := &w.targets[a.target], &w.targets[b.target]
	return cmp.Or(
		cmp.Compare(ta.resource, tb.resource), cmp.Compare(ta.environment, tb.environment), cmp.Compare(ta.deployment, tb.deployment),
		strings.Compare(a.run, b.run),
	)
}

// onePerResource lets one group of a bracket rule begin on a resource, whatever the environment: the one whose turn comes first. Each environment
// was asked on its own and knows nothing of the others, so it is here that these wait for the end of the execution.
func (w *work) onePerResource(ordered []candidate) []candidate {
	if len(w.environments) < 2 {
		return ordered
	}
	type place struct {
		rule     string
		resource int32
	}
	first := map[place]*pendingResource{}
	kept := ordered[:0]
	for _, c := range ordered {
		m := c.member
		if m == nil || m.pending == nil {
			kept = append(kept, c)
			continue
		}
		at := place{m.bracket.id, m.pending.resource}
		switch first[at] {
		case nil:
			first[at] = m.pending
			kept = append(kept, c)
		case m.pending:
			kept = append(kept, c)
		default:
			blockers := []Verdict{{
				Status: Pending, Reason: Reason(bracket.ReasonQueued), Rule: m.bracket.id,
				On: []Condition{{Kind: OnExecutionEnd, Rule: m.bracket.id, Resource: w.resources[m.pending.resource].ID}},
			}}
			for _, run := range m.bracket.runs[m.pending.from:m.pending.to] {
				w.waitNumber(run.target, run.version, blockers)
			}
		}
	}
	return kept
}

// admit asks for all candidates at once and turns the answer into starts and waits.
func (w *work) admit() error {
	w.candidates = w.onePerResource(w.turnOrder())
	asked := make([]concurrency.Candidate, len(w.candidates))
	var slab []int32
	for k := range w.candidates {
		c := &w.candidates[k]
		start := len(slab)
		if m := c.member; m != nil && m.pending != nil {
			// One lease covers the whole execution, so its first start needs a place wherever one of its runs will.
			view := int32(none)
			for _, run := range m.bracket.runs[m.pending.from:m.pending.to] {
				if w.view[run.target] != view { // those that the same policies govern need the same
					view = w.view[run.target]
					slab = w.needs(slab, start, run.target)
				}
			}
		} else {
			slab = w.needs(slab, start, c.target)
		}
		asked[k] = concurrency.Candidate{
			Resource: w.resources[w.targets[c.target].resource].ID, Group: c.group, Rank: k, Needs: slab[start:len(slab):len(slab)],
		}
	}
	var result concurrency.Result
	var counted map[poolPlace]bool
	given := map[int32]bool{} // forced somewhere, and refused by a pool elsewhere
	for again := true; again; {
		var restore func()
		var err error
		restore, counted = w.force(asked, given)
		result, err = concurrency.Plan(w.capacity.snapshot, asked, w.now)
		restore()
		if err != nil {
			return err
		}
		again = false
		for _, refused := range result.Refused {
			if w.candidates[refused.Candidate].forced {
				given[refused.Candidate], again = true, true // its place must not count, since it does not start
			}
		}
	}
	w.wake(result.Next)
	w.starts(result, counted)
	w.refused(result)
	w.pools(result)
	return nil
}

// poolPlace is a resource in a pool.
type poolPlace struct {
	pool     int32
	resource string
}

// force lets the candidates start for which an override lets their version past a concurrency rule: their resource counts as down in the pool
// before the batch, so that it is admitted whatever the limit, and counts. restore gives the records their leases back. The resources that
// only count for this are returned: nobody else may start on them on that account, since the start that is forced may be left out.
func (w *work) force(asked []concurrency.Candidate, but map[int32]bool) (restore func(), counted map[poolPlace]bool) {
	if len(w.overrides) == 0 {
		return func() {}, nil
	}
	pools := w.capacity.snapshot.Pools
	before := make([]concurrency.Record, len(pools))
	for k := range pools {
		before[k] = pools[k].Record
	}
	counted = map[poolPlace]bool{}
	for k := range w.candidates {
		c := &w.candidates[k]
		c.forced = false
		for _, pool := range asked[k].Needs {
			if but[int32(k)] || !w.forced(c, pool) {
				continue
			}
			c.forced = true
			at := poolPlace{pool, asked[k].Resource}
			record := &pools[pool].Record
			first, _ := slices.BinarySearchFunc(record.Leases, at.resource, func(l concurrency.Lease, id string) int { return strings.Compare(l.Resource, id) })
			down := first < len(record.Leases) && record.Leases[first].Resource == at.resource ||
				slices.ContainsFunc(pools[pool].Jobs, func(h concurrency.Holder) bool { return h.Resource == at.resource })
			if down || counted[at] {
				continue // held already, by this group or another: nobody is refused
			}
			counted[at] = true
			lease := concurrency.Lease{
				Pool: record.Key, Resource: at.resource, Group: reservedID, Token: record.NextToken, State: concurrency.Active, Since: w.now, ProgressAt: w.now,
			}
			record.NextToken++
			record.Leases = slices.Insert(slices.Clone(record.Leases), first, lease)
		}
	}
	return func() {
		for k := range pools {
			pools[k].Record = before[k]
		}
	}, counted
}

// borrowed reports whether a candidate was admitted on a place that counts only because another start is forced there.
func (w *work) borrowed(c *candidate, claims []concurrency.Claim, counted map[poolPlace]bool) (pool int32, is bool) {
	if c.forced || len(counted) == 0 {
		return 0, false
	}
	for _, claim := range claims {
		if counted[poolPlace{claim.Pool, w.targets[c.target].Resource}] {
			return claim.Pool, true
		}
	}
	return 0, false
}

// forced reports whether an override lets a candidate, or for the first start of an execution any of its runs, past a rule of the pool.
func (w *work) forced(c *candidate, pool int32) bool {
	let := func(i, n int32) bool {
		return slices.ContainsFunc(w.views.list[w.view[i]].concurrency, func(rule *compiledRule) bool {
			return w.capacity.byRule[rule][w.targets[i].resource] == pool && w.overriddenAt(rule.id, i, n) != nil
		})
	}
	if m := c.member; m != nil && m.pending != nil {
		return slices.ContainsFunc(m.bracket.runs[m.pending.from:m.pending.to], func(run pendingRun) bool { return let(run.target, run.version) })
	}
	return let(c.target, w.versions[w.targets[c.target].deployment].number(c.version))
}

func (w *work) starts(result concurrency.Result, counted map[poolPlace]bool) {
	w.plan.Start = make([]Start, 0, len(result.Admitted))
	claims := 0
	for _, admitted := range result.Admitted {
		claims += len(admitted.Claims)
	}
	slab := make([]Claim, 0, claims)
	pools := w.capacity.snapshot.Pools
	for _, admitted := range result.Admitted {
		c := &w.candidates[admitted.Candidate]
		if pool, is := w.borrowed(c, admitted.Claims, counted); is && result.Pools[pool].Active > result.Pools[pool].Max {
			w.waitFor(c, []Verdict{w.slotVerdict(concurrency.Refusal{Pool: pool, Reason: concurrency.SlotFull})})
			continue
		}
		start := Start{
			TargetID: w.id(c.target), Version: c.version, Run: c.run, Purpose: PurposeDeploy, Group: c.group, Reason: Reason(admitted.Reason),
			Scoped: w.isScoped(w.targets[c.target].deployment, c.version),
		}
		if c.revert || c.member != nil && c.member.start.Run.Purpose == bracket.Rollback {
			start.Purpose = PurposeRollback
		}
		if c.forced {
			start.Reason = ReasonOverridden
		}
		from := len(slab)
		for _, claim := range admitted.Claims {
			slab = append(slab, Claim{Pool: pools[claim.Pool].Key, Revision: claim.Revision, Token: claim.Token})
		}
		start.Claims = slab[from:len(slab):len(slab)]
		w.plan.Start = append(w.plan.Start, start)
		w.waits[c.target].start = int32(len(w.plan.Start))
		if m := c.member; m != nil && m.pending != nil {
			m.pending.starts = true
		}
	}
	for _, b := range w.plan.brackets {
		for k := range b.pending {
			if b.pending[k].starts {
				w.follow(b, &b.pending[k])
			}
		}
	}
}

// refused lists who waits for a slot. A refused first start of a bracket keeps all members of its resource waiting.
func (w *work) refused(result concurrency.Result) {
	shared := make([][]Verdict, len(result.Refusals))
	for _, refused := range result.Refused {
		c := &w.candidates[refused.Candidate]
		blockers := shared[refused.Why]
		if blockers == nil {
			refusals := result.Refusals[refused.Why]
			if len(w.overrides) > 0 { // pools that an override forces are not in the way, unless no other one is
				if others := slices.DeleteFunc(slices.Clone(refusals), func(r concurrency.Refusal) bool { return w.forced(c, r.Pool) }); len(others) > 0 {
					refusals = others
				}
			}
			for _, refusal := range refusals {
				blockers = append(blockers, w.slotVerdict(refusal))
			}
			if len(w.overrides) == 0 {
				shared[refused.Why] = blockers
			}
		}
		w.waitFor(c, blockers)
	}
}

func (w *work) slotVerdict(refusal concurrency.Refusal) Verdict {
	return Verdict{
		Status: Pending, Reason: Reason(refusal.Reason), Rule: w.capacity.owner[refusal.Pool],
		On: []Condition{{Kind: ConditionKind(refusal.Reason.On()), Pool: w.capacity.snapshot.Pools[refusal.Pool].Key}},
	}
}

// waitFor says why a candidate that only capacity refuses does not start: all that its execution would run waits with it.
func (w *work) waitFor(c *candidate, blockers []Verdict) {
	if m := c.member; m != nil && m.pending != nil {
		for _, run := range m.bracket.runs[m.pending.from:m.pending.to] {
			w.waitNumber(run.target, run.version, blockers)
		}
		return
	}
	w.wait(c.target, c.version, blockers)
}

func (w *work) pools(result concurrency.Result) {
	for k, summary := range result.Pools {
		p := &w.capacity.snapshot.Pools[k]
		if len(w.overrides) > 0 { // who is forced holds nothing yet
			summary.Holders = slices.DeleteFunc(summary.Holders, func(h concurrency.Holder) bool { return h.Group == reservedID })
		}
		w.plan.Pools = append(w.plan.Pools, Pool{
			Key: p.Key, Active: summary.Active, Max: summary.Max, Total: summary.Total,
			Holders: summary.Holders, Quarantined: summary.Quarantined, Unavailable: summary.Unavailable,
		})
	}
	slices.SortFunc(w.plan.Pools, func(a, b Pool) int { return strings.Compare(a.Key, b.Key) })
	for _, stuck := range result.Stuck {
		p := &w.capacity.snapshot.Pools[stuck.Pool]
		w.plan.Stuck = append(w.plan.Stuck, Stuck{Resource: stuck.Lease.Resource, Group: stuck.Lease.Group, Pool: p.Key, Since: stuck.At})
		if p.OnStuck == concurrency.Quarantine && stuck.Lease.State == concurrency.Active {
			// The holder and its token come from the record itself, so they cannot be refused.
			if record, err := p.Record.Quarantine(stuck.Lease.Holder(), stuck.Lease.Token, reasonStuck); err == nil {
				p.Record = record
			}
		}
	}
	slices.SortFunc(w.plan.Stuck, func(a, b Stuck) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Group, b.Group), strings.Compare(a.Run, b.Run), strings.Compare(a.Pool, b.Pool))
	})
	known := w.capacity.keys
	for k := range w.capacity.snapshot.Pools {
		w.plan.State.Pools = append(w.plan.State.Pools, w.capacity.snapshot.Pools[k].Record)
	}
	for _, record := range w.capacity.foreign {
		if _, twice := known[record.Key]; !twice {
			w.plan.State.Pools = append(w.plan.State.Pools, record)
		}
	}
	slices.SortFunc(w.plan.State.Pools, func(a, b concurrency.Record) int { return strings.Compare(a.Key, b.Key) })
}
