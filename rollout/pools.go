package rollout

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
)

// capacity holds the pools that the resourceConcurrency rules make of a fleet. All starts of a plan
// ask for their places in one batch: separate requests would each get the last free place.
type capacity struct {
	snapshot     concurrency.Snapshot
	members      []membership           // of one resource after the other, in the order of their rules
	begins       []int32                // per resource number, and after the last: where its members begin; nil if there are none
	keys         map[string]int32       // pool key → index in snapshot.Pools
	owner        []string               // per pool: id of the first rule that has it
	otherRecords []concurrency.Record   // by key: records of families, and of pools that no rule has any more
	observed     [][]string             // per pool: the resources of active jobs that have no lease in it, once for each
	near         []int                  // per pool: where hold looked for a lease last; holders mostly come in order
	restsOn      map[poolPlace][]string // places that count because of other records than the pool's, with the keys of those records
}

// membership says in which pool of a rule a resource is.
type membership struct{ rule, pool int32 }

// resourceIn is a membership of a resource.
type resourceIn struct {
	resource int32
	membership
}

// openPools evaluates each group selector once per resource that it may match.
func (w *work) openPools() {
	c := &w.capacity
	var list []resourceIn // of one rule after the other, in the order of the resources
	if len(w.set.concurrency) > 0 {
		list = make([]resourceIn, 0, len(w.resources))
	}
	b := new(bound) // one for all: a value in an interface is allocated
	for n, concerned := range w.set.concerned(w.resources) {
		rule := w.set.concurrency[n]
		byValue := map[string]int32{}
		for r := range concerned {
			resource := &w.resources[r]
			b.resource = resource
			ok, err := rule.group.Match(b)
			if err != nil {
				w.groupSelectorFailed(rule, r, err)
				continue
			}
			if !ok {
				continue
			}
			value := rule.groupBy.of(resource)
			index, known := byValue[value]
			if !known {
				if err := rule.unstorable(value); err != nil {
					w.groupSelectorFailed(rule, r, err)
					continue
				}
				index = c.pool(rule, value)
				byValue[value] = index
			}
			list = push(list, resourceIn{r, membership{int32(n), index}})
		}
	}
	w.fileMembers(list)
	w.openVacated()
	w.occupy()
}

// fileMembers files memberships under their resources, and counts the members of each pool.
func (w *work) fileMembers(list []resourceIn) {
	if len(list) == 0 {
		return
	}
	c := &w.capacity
	order, begins := grouped(len(list), len(w.resources), func(k int32) int32 { return list[k].resource })
	c.members, c.begins = make([]membership, len(list)), begins
	for at, k := range order {
		c.members[at] = list[k].membership
	}
	for r := range int32(len(w.resources)) {
		own := c.of(r)
		for k, m := range own {
			shared := w.set.concurrency[m.rule].pool.SharedPool != ""
			if !shared || !slices.ContainsFunc(own[:k], func(o membership) bool { return o.pool == m.pool }) {
				c.snapshot.Pools[m.pool].Total++
			}
		}
	}
}

// of returns the memberships of a resource, in the order of the rules.
func (c *capacity) of(resource int32) []membership {
	if c.begins == nil {
		return nil
	}
	return c.members[c.begins[resource]:c.begins[resource+1]]
}

// under returns the pool in which a resource is under a rule, or none.
func (c *capacity) under(rule *compiledRule, resource int32) int32 {
	for _, m := range c.of(resource) {
		if m.rule == rule.number {
			return m.pool
		}
	}
	return none
}

// concerned returns, for each concurrency rule, the resources about which its group selector has to
// be asked, by number.
func (s *PolicySet) concerned(resources []Resource) []iter.Seq[int32] {
	all := func(yield func(int32) bool) {
		for r := range int32(len(resources)) {
			if !yield(r) {
				return
			}
		}
	}
	concerned := slices.Repeat([]iter.Seq[int32]{all}, len(s.concurrency))
	if len(s.askingGroups.some) <= fewSelectors {
		return concerned
	}
	asked := make([][]int32, len(s.concurrency))
	b := new(bound)
	var about []int32
	for r := range resources {
		b.resource = &resources[r]
		about = s.askingGroups.someAbout(about[:0], b, resources[r].isLong())
		for _, n := range about {
			asked[n] = append(asked[n], int32(r))
		}
	}
	for _, n := range s.askingGroups.some {
		concerned[n] = slices.Values(asked[n])
	}
	return concerned
}

// openVacated makes the pools that have leases although no resource has their value of groupBy any
// more: the node was relabelled, or is in no list this time, or this host has not read it. Nothing
// can start in such a pool, but it may be one of the active pools of its family.
func (w *work) openVacated() {
	families := w.set.families()
	if len(families) == 0 {
		return
	}
	for _, record := range w.snapshot.State.Pools {
		var name, value string
		if len(record.Leases) == 0 || !textkey.Scan(record.Key, &name, &value) {
			continue
		}
		if rule := families[textkey.Join(name)]; rule != nil {
			w.capacity.pool(rule, value)
		}
	}
}

// PoolKeys returns, in ascending order, the keys of the pools that the concurrency rules make of
// these resources. A [concurrency.JobCounter] is asked about these keys. To learn which resources a
// pool covers, a counter asks for the keys of one resource at a time. If the groupSelector of a rule
// fails on resources, or their value of groupBy is not UTF-8, the error names the first of them, and
// the rule adds no keys for them. A plan holds the targets on such a resource, and counts it in no
// pool of the rule. For a set that was not compiled the error is [ErrNoPolicies].
func (s *PolicySet) PoolKeys(resources []Resource) ([]string, error) {
	if s == nil || s.compiler == nil { // without keys a host would count no job
		return nil, ErrNoPolicies
	}
	var keys []string
	var failed error
	first := int32(len(resources)) // on which an expression fails
	b := new(bound)
	for n, concerned := range s.concerned(resources) {
		rule := s.concurrency[n]
		listed := map[string]bool{} // values
		for k := range concerned {
			b.resource = &resources[k]
			ok, err := rule.group.Match(b)
			value, field := rule.groupBy.of(&resources[k]), "groupSelector"
			if err == nil && ok && !listed[value] {
				err, field = rule.unstorable(value), "groupBy"
			}
			if _, missing := missingKey(err); err != nil && !missing && k < first {
				failed, first = fmt.Errorf("rollout: %s: %s on resource %s: %w", rule.id, field, resources[k].ID, err), k
			}
			if err != nil || !ok || listed[value] {
				continue
			}
			listed[value] = true
			keys = append(keys, rule.pool.PoolKey(rule.id, value))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), failed
}

// families returns the rules that limit how many of their pools may be active at once, by the keys
// of the records that relate these pools. Of rules that share their pools it is the first.
func (s *PolicySet) families() map[string]*compiledRule {
	families := map[string]*compiledRule{}
	for _, rule := range s.concurrency {
		if family := rule.family(); family != "" && families[family] == nil {
			families[family] = rule
		}
	}
	return families
}

// family returns the key of the record that relates the pools of a concurrency rule, or "" if any
// number of them may be active.
func (r *compiledRule) family() string { return r.pool.Pool(r.id, "", 0).Family }

// pool finds or makes the pool of a rule and a value. Rules with a shared pool agree on everything;
// Compile has checked that.
func (c *capacity) pool(rule *compiledRule, value string) int32 {
	key := rule.pool.PoolKey(rule.id, value)
	index, known := c.keys[key]
	if !known {
		index = int32(len(c.snapshot.Pools))
		c.snapshot.Pools = append(c.snapshot.Pools, rule.pool.Pool(rule.id, value, 0))
		c.owner = append(c.owner, rule.id)
		put(&c.keys, key, index)
	}
	return index
}

// unstorable returns an error for a value of groupBy that is not UTF-8: JSON would store the record
// of its pool under another key, and so lose the leases, or give two records one key.
func (r *compiledRule) unstorable(value string) error {
	if utf8.ValidString(value) {
		return nil
	}
	return fmt.Errorf("%s is %q, and must be UTF-8: JSON would store another text", r.pool.GroupBy, value)
}

// groupSelectorFailed handles a resource on which a group selector or groupBy fails. A resource that
// lacks a key is no member; after any other failure the targets on the resource must not start.
func (w *work) groupSelectorFailed(rule *compiledRule, r int32, err error) {
	verdict, fails := w.fails(rule.id, err, TargetID{Resource: w.resources[r].ID})
	if !fails {
		return
	}
	for from, to := range w.everywhere(r) {
		for i := from; i < to; i++ {
			if w.viewOf(i).has(rule) {
				put(&w.held, i, append(w.held[i], verdict))
			}
		}
	}
}

// occupy adds what is in the pools already: leases, jobs that the host counts, resources that are
// down.
func (w *work) occupy() {
	c := &w.capacity
	for i := range c.snapshot.Pools {
		p := &c.snapshot.Pools[i]
		p.Record = concurrency.NewRecord(p.Key)
		p.Jobs = slices.Clip(w.snapshot.Active[p.Key]) // clipped, because incumbents are appended
	}
	for key, holders := range w.snapshot.Active {
		if _, known := c.keys[key]; known || len(holders) == 0 {
			continue
		}
		first := slices.MinFunc(holders, compareHolders)
		for range holders {
			w.diagnose(DiagnosticActiveWithoutEffect, "", key, TargetID{Resource: first.Resource})
		}
	}
	for _, record := range w.snapshot.State.Pools {
		if index, known := c.keys[record.Key]; known {
			c.snapshot.Pools[index].Record = record
		} else {
			c.otherRecords = append(c.otherRecords, record)
		}
	}
	slices.SortFunc(c.otherRecords, comparePools)
	for _, id := range w.unavailable {
		r, known := w.resource(id)
		if !known {
			continue
		}
		for _, m := range c.of(r) {
			p := &c.snapshot.Pools[m.pool]
			p.Unavailable = append(p.Unavailable, id) // package concurrency counts each once
		}
	}
}

// validateOtherRecords checks the records that no pool of the plan has; package concurrency checks the
// others.
func (c *capacity) validateOtherRecords() error {
	var f faults
	for k := range c.otherRecords {
		f.under(join("state.pools", fmt.Sprintf("[%q]", c.otherRecords[k].Key)), c.otherRecords[k].Validate())
	}
	return f.few()
}

// targetNeeds appends the pools in which target i needs a place. Those of this target begin at
// start.
func (w *work) targetNeeds(slab []int32, start int, i int32) []int32 {
	own := w.capacity.of(w.targets[i].resource)
	for _, rule := range w.viewOf(i).concurrency { // which have ascending numbers, too
		for len(own) > 0 && own[0].rule < rule.number {
			own = own[1:]
		}
		if len(own) > 0 && own[0].rule == rule.number && !slices.Contains(slab[start:], own[0].pool) {
			slab = append(slab, own[0].pool)
		}
	}
	return slab
}

// pools describes the pools and what is stuck in them, and puts their records into the state.
func (w *work) pools() {
	for k := range w.admission.Pools {
		p, summary := &w.capacity.snapshot.Pools[k], &w.admission.Pools[k]
		if len(w.overrides) > 0 { // a forced candidate holds nothing yet
			summary.Holders = slices.DeleteFunc(summary.Holders, func(h concurrency.Holder) bool {
				group, lent := w.forcedPlaces[poolPlace{int32(k), h.Resource}]
				return lent && h.Group == group
			})
		}
		if summary.Total == 0 && len(summary.Holders) == 0 {
			continue // the plan gives back the last lease of a pool without members: the next plan does not know it
		}
		w.plan.Pools = append(w.plan.Pools, Pool{
			Key: p.Key, Active: summary.Active, Max: summary.Max, Total: summary.Total, Exclusive: p.Exclusive, Halted: summary.Halted, Waiting: int(w.queuedIn[k]),
			Holders: summary.Holders, Quarantined: summary.Quarantined, Unavailable: summary.Unavailable,
		})
	}
	slices.SortFunc(w.plan.Pools, func(a, b Pool) int { return strings.Compare(a.Key, b.Key) })
	w.stuck()
	for k := range w.capacity.snapshot.Pools {
		w.plan.State.Pools = append(w.plan.State.Pools, w.capacity.snapshot.Pools[k].Record)
	}
	w.plan.State.Pools = append(w.plan.State.Pools, w.capacity.otherRecords...)
	slices.SortFunc(w.plan.State.Pools, comparePools)
}

// stuck lists the leases without progress, and quarantines those whose pools want it so.
func (w *work) stuck() {
	copied := int32(none) // the pool whose leases are a copy already; the stuck leases come pool by pool
	for _, stuck := range w.admission.Stuck {
		p := &w.capacity.snapshot.Pools[stuck.Pool]
		w.plan.Stuck = append(w.plan.Stuck, Stuck{Resource: stuck.Lease.Resource, Group: stuck.Lease.Group, Pool: p.Key, Since: stuck.At})
		if p.OnStuck != concurrency.Quarantine || stuck.Lease.State != concurrency.Active {
			continue
		}
		if copied != stuck.Pool {
			copied, p.Record.Leases = stuck.Pool, slices.Clone(p.Record.Leases)
		}
		lease := &p.Record.Leases[leaseAt(p.Record.Leases, stuck.Lease.Holder)]
		lease.State, lease.Reason = concurrency.Quarantined, reasonStuck
	}
	slices.SortFunc(w.plan.Stuck, func(a, b Stuck) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Group, b.Group), strings.Compare(a.Run, b.Run), strings.Compare(a.Pool, b.Pool))
	})
}
