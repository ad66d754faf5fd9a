package concurrency_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

var now = time.Date(2026, 3, 11, 9, 0, 0, 0, time.UTC)

func printPlan(s concurrency.Snapshot, candidates []concurrency.Candidate, plan concurrency.Result) {
	for _, a := range plan.Admitted {
		fmt.Println("start", candidates[a.Candidate].Resource, a.Reason)
	}
	for _, r := range plan.Refused {
		fmt.Print("wait  ", candidates[r.Candidate].Resource)
		for _, refusal := range plan.Refusals[r.Why] {
			fmt.Printf(" %s:%s", s.Pools[refusal.Pool].Key, refusal.Reason)
		}
		fmt.Println()
	}
	for i, p := range plan.Pools {
		fmt.Printf("pool  %s %d of %d active, %d members\n", s.Pools[i].Key, p.Active, p.Max, p.Total)
	}
}

// The bracket RFC's rule: at most 20 % of ten nodes at a time. Ten separate checks would all pass;
// a batch counts what it admits.
func ExamplePlan() {
	rule, err := concurrency.ParseRule([]byte(`{"groupSelector":"resource.metadata['cluster'] == 'prod-east'","limitType":"percentage","limitValue":20}`))
	if err != nil {
		panic(err)
	}
	snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{rule.Pool("prod-east-nodes", "", 10)}}
	var candidates []concurrency.Candidate
	for i := range 4 {
		candidates = append(candidates, concurrency.Candidate{Resource: fmt.Sprint("node-", i), Group: "group-7", Rank: i, Needs: []int32{0}})
	}
	plan, err := concurrency.Plan(snapshot, candidates, now)
	if err != nil {
		panic(err)
	}
	fmt.Println(plan.Describe(snapshot, candidates))
	// Output:
	// 2 candidates may start, 2 must wait
	// node-0 for group-7 may start: slot_free, pool prod-east-nodes with token 1
	// node-1 for group-7 may start: slot_free, pool prod-east-nodes with token 2
	// node-2 for group-7 must wait: slot_full in pool prod-east-nodes; and 1 more likewise
	// pool prod-east-nodes: 2 of at most 2 active, 10 members, 2 new leases
}

// Two rules cover n2: the cluster has a place left, its zone has not. n5 needs the cluster alone
// and passes, unless the pools are strict.
func ExamplePlan_overlap() {
	for _, strict := range []bool{false, true} {
		cluster := concurrency.Pool{Key: "cluster", Limit: concurrency.Count(2), Total: 6, Strict: strict, Jobs: []concurrency.Holder{{Resource: "n1", Group: "g"}}}
		zone := concurrency.Pool{Key: "zone-a", Limit: concurrency.Count(1), Total: 3, Strict: strict, Jobs: []concurrency.Holder{{Resource: "n1", Group: "g"}}}
		snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{cluster, zone}}
		candidates := []concurrency.Candidate{
			{Resource: "n2", Group: "g", Rank: 2, Needs: []int32{0, 1}},
			{Resource: "n5", Group: "g", Rank: 5, Needs: []int32{0}},
		}
		plan, err := concurrency.Plan(snapshot, candidates, now)
		if err != nil {
			panic(err)
		}
		printPlan(snapshot, candidates, plan)
	}
	// Output:
	// start n5 slot_free
	// wait  n2 zone-a:slot_full
	// pool  cluster 2 of 2 active, 6 members
	// pool  zone-a 1 of 1 active, 3 members
	// wait  n2 zone-a:slot_full
	// wait  n5 cluster:slot_reserved
	// pool  cluster 1 of 2 active, 6 members
	// pool  zone-a 1 of 1 active, 3 members
}

// The host's side: claim, dispatch, renew, release. A controller that was paused meanwhile cannot
// act on the slot it lost.
func ExampleApply() {
	snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{{Key: "nodes", Limit: concurrency.Count(1), Total: 10}}}
	candidates := []concurrency.Candidate{{Resource: "node-3", Group: "group-7", Needs: []int32{0}}}
	plan, err := concurrency.Plan(snapshot, candidates, now)
	if err != nil {
		panic(err)
	}
	records, err := concurrency.Apply(snapshot, candidates, plan.Admitted, now)
	if err != nil {
		panic(err)
	}
	stored := records[0] // written only if the stored revision is still records[0].Revision
	stored.Revision++

	holder := concurrency.Holder{Resource: "node-3", Group: "group-7"}
	token := plan.Admitted[0].Claims[0].Token
	stored, _ = stored.Renew(holder, token, now.Add(5*time.Minute))
	lease, _ := stored.Lease(holder)
	fmt.Println("token", lease.Token, "progress", lease.ProgressAt.Format(time.TimeOnly))

	stored, _ = stored.Release(holder, token)
	_, err = stored.Renew(holder, token, now.Add(time.Hour))
	fmt.Println(errors.Is(err, concurrency.ErrFenced))
	// Output:
	// token 1 progress 09:05:00
	// true
}

// Two controllers share records that are kept as JSON: at most 10 % of the nodes under maintenance
// and one per zone. Both plan on the same records. The second write is refused, and its controller
// plans again on what is stored by then. What it releases later needs the token of the lease alone.
func ExampleApply_conflict() {
	fleet := concurrency.Rule{GroupSelector: "true", Limit: concurrency.Percent(10)}
	zone := concurrency.Rule{GroupSelector: "true", Limit: concurrency.Count(1), GroupBy: "resource.metadata['zone']"}
	files := map[string][]byte{} // by key of the pool; a host locks them, or has a database
	read := func(pool concurrency.Pool) concurrency.Pool {
		if file, ok := files[pool.Key]; ok {
			record, err := concurrency.ParseRecord(file)
			if err != nil {
				panic(err)
			}
			pool.Record = record
		}
		return pool
	}
	write := func(records []concurrency.Record) error { // in one transaction
		for _, r := range records {
			if stored := read(concurrency.Pool{Key: r.Key}).Record.Revision; stored != r.Revision {
				return fmt.Errorf("%w: %s is at revision %d, not %d", concurrency.ErrConflict, r.Key, stored, r.Revision)
			}
		}
		for _, r := range records {
			r.Revision++
			file, err := json.Marshal(r)
			if err != nil {
				return err
			}
			files[r.Key] = file
		}
		return nil
	}
	observe := func() concurrency.Snapshot {
		return concurrency.Snapshot{Pools: []concurrency.Pool{read(fleet.Pool("fleet", "", 20)), read(zone.Pool("zone", "a", 10)), read(zone.Pool("zone", "b", 10))}}
	}
	turn := func(name string, snapshot concurrency.Snapshot, candidates ...concurrency.Candidate) {
		plan, err := concurrency.Plan(snapshot, candidates, now)
		if err != nil {
			panic(err)
		}
		fmt.Println(name)
		printPlan(snapshot, candidates, plan)
		records, err := concurrency.Apply(snapshot, candidates, plan.Admitted, now)
		if err != nil {
			panic(err)
		}
		fmt.Println("error:", write(records))
	}
	n1 := concurrency.Candidate{Resource: "n1", Group: "patch", Rank: 1, Needs: []int32{0, 1}}
	n2 := concurrency.Candidate{Resource: "n2", Group: "patch", Rank: 2, Needs: []int32{0, 1}}
	before := observe()
	turn("first controller", before, n1)
	turn("second controller", before, n2)
	turn("second controller, once more", observe(), n2)

	for _, pool := range observe().Pools { // n1 is done
		holder := concurrency.Holder{Resource: "n1", Group: "patch"}
		lease, ok := pool.Record.Lease(holder)
		if !ok {
			continue
		}
		record, err := pool.Record.Release(holder, lease.Token)
		if err != nil {
			panic(err)
		}
		fmt.Println("released", record.Key, write([]concurrency.Record{record}))
	}
	fmt.Println(string(files["zone/a"]))
	// Output:
	// first controller
	// start n1 slot_free
	// pool  fleet 1 of 2 active, 20 members
	// pool  zone/a 1 of 1 active, 10 members
	// pool  zone/b 0 of 1 active, 10 members
	// error: <nil>
	// second controller
	// start n2 slot_free
	// pool  fleet 1 of 2 active, 20 members
	// pool  zone/a 1 of 1 active, 10 members
	// pool  zone/b 0 of 1 active, 10 members
	// error: concurrency: record changed since it was read: fleet is at revision 1, not 0
	// second controller, once more
	// wait  n2 zone/a:slot_full
	// pool  fleet 1 of 2 active, 20 members
	// pool  zone/a 1 of 1 active, 10 members
	// pool  zone/b 0 of 1 active, 10 members
	// error: <nil>
	// released fleet <nil>
	// released zone/a <nil>
	// {"schema":1,"key":"zone/a","revision":2,"nextToken":2,"leases":[]}
}

// A lease without progress for an hour is quarantined. It still counts; only the allowance lets the
// rollout pass it, and not if the resource is seen to be down.
func ExamplePlan_quarantine() {
	record := concurrency.NewRecord("nodes")
	for i, since := range []time.Time{now.Add(-2 * time.Hour), now} {
		var err error
		claim := concurrency.Claim{Token: record.NextToken}
		if record, err = record.Claim(claim, concurrency.Holder{Resource: fmt.Sprint("n", i+1), Group: "g"}, since); err != nil {
			panic(err)
		}
	}
	pool := concurrency.Pool{Key: "nodes", Limit: concurrency.Count(2), Total: 10, StuckAfter: time.Hour, OnStuck: concurrency.Quarantine, Record: record}
	candidates := []concurrency.Candidate{{Resource: "n3", Group: "g", Needs: []int32{0}}}
	show := func(what string, pool concurrency.Pool) {
		snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{pool}, Running: []concurrency.Holder{{Resource: "n1", Group: "g"}}}
		plan, err := concurrency.Plan(snapshot, candidates, now)
		if err != nil {
			panic(err)
		}
		fmt.Println(what, len(plan.Admitted), "start, quarantined", plan.Pools[0].Quarantined)
	}
	show("no allowance:", pool)
	pool.QuarantineAllowance = concurrency.Count(1)
	show("allowance 1: ", pool)
	pool.Unavailable = []string{"n1"}
	show("and n1 down: ", pool)
	// Output:
	// no allowance: 0 start, quarantined [n1 for g]
	// allowance 1:  1 start, quarantined [n1 for g]
	// and n1 down:  0 start, quarantined [n1 for g]
}

// At most two nodes an hour begin, however soon they are done. The record of the pool remembers them.
func ExamplePlan_rate() {
	pool := concurrency.Pool{Key: "nodes", Limit: concurrency.Percent(100), Total: 10, Rate: concurrency.Rate{Limit: concurrency.Count(2), PeriodSeconds: 3600}}
	candidates := []concurrency.Candidate{
		{Resource: "n1", Group: "g", Rank: 0, Needs: []int32{0}},
		{Resource: "n2", Group: "g", Rank: 1, Needs: []int32{0}},
		{Resource: "n3", Group: "g", Rank: 2, Needs: []int32{0}},
	}
	for _, at := range []time.Time{now, now.Add(5 * time.Minute), now.Add(time.Hour)} {
		snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{pool}}
		plan, err := concurrency.Plan(snapshot, candidates, at)
		if err != nil {
			panic(err)
		}
		fmt.Println(at.Format(time.TimeOnly))
		fmt.Println(plan.Describe(snapshot, candidates))
		records, err := concurrency.Apply(snapshot, candidates, plan.Admitted, at)
		if err != nil {
			panic(err)
		}
		for _, record := range records {
			pool.Record = record
		}
		for _, a := range plan.Admitted { // each is done at once
			c := candidates[a.Candidate]
			if pool.Record, err = pool.Record.Release(concurrency.Holder{Resource: c.Resource, Group: c.Group}, a.Claims[0].Token); err != nil {
				panic(err)
			}
		}
		candidates = candidates[len(plan.Admitted):]
	}
	// Output:
	// 09:00:00
	// 2 candidates may start, 1 must wait
	// n1 for g may start: slot_free, pool nodes with token 1
	// n2 for g may start: slot_free, pool nodes with token 2
	// n3 for g must wait: slot_rate_full in pool nodes
	// pool nodes: 2 of at most 10 active, 10 members, 2 new leases
	// 09:05:00
	// 0 candidates may start, 1 must wait
	// n3 for g must wait: slot_rate_full in pool nodes
	// pool nodes: 0 of at most 10 active, 10 members, rate opens at 2026-03-11T10:00:00Z
	// next: 2026-03-11T10:00:00Z
	// 10:00:00
	// 1 candidate may start, 0 must wait
	// n3 for g may start: slot_free, pool nodes with token 3
	// pool nodes: 1 of at most 10 active, 10 members, 1 new lease
}

// One node in one zone at a time: a pool per zone, and one active zone.
func ExampleRule_Pool() {
	one := int64(1)
	rule := concurrency.Rule{GroupSelector: "resource.kind == 'Node'", LimitType: "count", LimitValue: &one, GroupBy: "resource.metadata['zone']", MaxActiveKeys: concurrency.Count(1)}
	if err := rule.Validate(); err != nil {
		panic(err)
	}
	snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{rule.Pool("nodes", "a", 2), rule.Pool("nodes", "b", 2)}}
	candidates := []concurrency.Candidate{
		{Resource: "a1", Group: "g", Rank: 0, Needs: []int32{0}},
		{Resource: "b1", Group: "g", Rank: 1, Needs: []int32{1}},
		{Resource: "a2", Group: "g", Rank: 2, Needs: []int32{0}},
	}
	plan, err := concurrency.Plan(snapshot, candidates, now)
	if err != nil {
		panic(err)
	}
	printPlan(snapshot, candidates, plan)
	// Output:
	// start a1 slot_free
	// wait  b1 nodes/b:slot_keys_full
	// wait  a2 nodes/a:slot_full
	// pool  nodes/a 1 of 1 active, 2 members
	// pool  nodes/b 0 of 1 active, 2 members
}

// Events without planning anew: a candidate waits, a holder ends, the candidate starts.
func ExampleQueue() {
	snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{{Key: "nodes", Limit: concurrency.Count(1), Total: 10}}}
	queue, err := concurrency.NewQueue(snapshot, now)
	if err != nil {
		panic(err)
	}
	names := map[int32]string{}
	for i := range 3 {
		name := fmt.Sprint("node-", i)
		id, err := queue.Add(concurrency.Candidate{Resource: name, Group: "g", Rank: i, Needs: []int32{0}})
		if err != nil {
			panic(err)
		}
		names[id] = name
	}
	for queue.Len() > 0 {
		for _, a := range queue.Admit() {
			fmt.Println("start", names[a.Candidate], "token", a.Claims[0].Token)
			claim := a.Claims[0]
			if err := queue.Release(claim.Pool, concurrency.Holder{Resource: names[a.Candidate], Group: "g"}, claim.Revision+1); err != nil {
				panic(err)
			}
		}
	}
	// Output:
	// start node-0 token 1
	// start node-1 token 2
	// start node-2 token 3
}

// Every system rounds a percentage differently, so the rounding is written where the limit is used.
func ExampleLimit_Of() {
	limit, err := concurrency.ParseLimit("33%")
	if err != nil {
		panic(err)
	}
	fmt.Println(limit.Of(10, concurrency.Ceil), limit.Of(10, concurrency.Floor), limit.Of(2, concurrency.Floor), limit.Of(2, concurrency.FloorMin1))
	_, err = concurrency.ParseLimit("12.5%")
	fmt.Println(err)
	// Output:
	// 4 3 0 1
	// "12.5%": must be a whole percentage from 0% to 1000%, such as 20%
}
