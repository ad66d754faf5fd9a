package bracket_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
)

// exampleRecords are the records that one turn has read, with their revisions.
type exampleRecords struct {
	store     bracket.Store
	revisions map[string]int64
}

// load decodes a record. Without one it leaves the record as it is, and the revision is 0.
func (r exampleRecords) load(ctx context.Context, key string, record any) error {
	value, revision, err := r.store.Load(ctx, key)
	if errors.Is(err, bracket.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(value, record)
	}
	r.revisions[key] = revision
	return err
}

func (r exampleRecords) save(ctx context.Context, key string, record any) error {
	value, err := json.Marshal(record)
	if err == nil {
		r.revisions[key], err = r.store.Save(ctx, key, value, r.revisions[key])
	}
	return err
}

var exampleRule = bracket.Rule{DeploymentSelector: "true", ReadinessMode: bracket.Immediate, StuckAfterSeconds: 600}

// exampleHost is a host with one rule and one limit. Its jobs succeed at once.
type exampleHost struct {
	store    bracket.Store // the host's own client of it
	observe  func() bracket.Observation
	dispatch func(bracket.Start, time.Time) // create-if-absent by Run.String
	rule     bracket.Rule
}

// turn is one round of the loop. After any error the next turn repairs what this one has left.
func (h exampleHost) turn(ctx context.Context, now time.Time) (next time.Time, err error) {
	// Read the slots, then the state, then what is observed: see "The host's loop".
	pool := concurrency.Pool{Key: "nodes", Limit: concurrency.Count(1), Total: 2}
	records := exampleRecords{h.store, map[string]int64{}}
	if err := records.load(ctx, "pool/nodes", &pool.Record); err != nil {
		return now, err
	}
	pool.Record.Revision = uint64(records.revisions["pool/nodes"])
	state := bracket.NewState("node lifecycle", "prod")
	groupKey := bracket.GroupKey(state.Group.Rule, state.Group.Environment)
	if err := records.load(ctx, groupKey, state.Group); err != nil {
		return now, err
	}
	entries, err := h.store.List(ctx, bracket.ExecutionKey(state.Group.Rule, "")) // of all resources
	if err != nil {
		return now, err
	}
	for _, entry := range entries {
		record := new(bracket.ExecutionRecord)
		if err := json.Unmarshal(entry.Value, record); err != nil {
			return now, err
		}
		records.revisions[entry.Key] = entry.Revision
		state.Executions = append(state.Executions, record)
	}
	slices.SortFunc(state.Executions, func(a, b *bracket.ExecutionRecord) int { return strings.Compare(a.Resource, b.Resource) })

	stepped, plan, err := bracket.Step(h.rule, state, h.observe(), now)
	if err != nil {
		return now, err
	}

	// Open executions hold a slot whether or not their lease is there.
	live := make([]concurrency.Holder, 0)
	for _, record := range stepped.Executions {
		if record.Open != nil {
			live = append(live, concurrency.Holder{Resource: record.Resource, Group: record.Open.Group})
		}
	}
	pool.Jobs = slices.Clone(live)
	snapshot := concurrency.Snapshot{Pools: []concurrency.Pool{pool}}
	candidates := make([]concurrency.Candidate, len(plan.Start)) // one per start, at the same index
	for i, start := range plan.Start {
		live = append(live, concurrency.Holder{Resource: start.Run.Resource, Group: start.Run.Group})
		candidates[i] = concurrency.Candidate{Resource: start.Run.Resource, Group: start.Run.Group, Rank: i, Needs: []int32{0}, Begins: start.First}
	}
	slots, err := concurrency.Plan(snapshot, candidates, now)
	if err != nil {
		return now, err
	}
	var starts []bracket.Start
	var runs []bracket.Run
	for _, admitted := range slots.Admitted {
		starts = append(starts, plan.Start[admitted.Candidate])
		runs = append(runs, plan.Start[admitted.Candidate].Run)
	}
	committed, err := plan.Commit(stepped, runs, now)
	if err != nil {
		return now, err
	}

	// Save the group, the slots, the executions, and only then dispatch.
	group, executions := committed.Changed(state)
	if group != nil {
		if err := records.save(ctx, groupKey, group); err != nil {
			return now, err
		}
	}
	// An execution that goes on without a lease was taken up from a run; or the list was stale, and it
	// has ended. Only the first can be saved, and may claim: the place of the other one is taken.
	for _, start := range starts {
		if _, held := pool.Record.Lease(concurrency.Holder{Resource: start.Run.Resource, Group: start.Run.Group}); held || start.First {
			continue
		}
		for _, record := range stepped.Executions {
			if record.Resource != start.Run.Resource {
				continue
			}
			if err := records.save(ctx, bracket.ExecutionKey(record.Rule, record.Resource), record); err != nil {
				return now, err
			}
		}
	}
	claimed, err := concurrency.Apply(snapshot, candidates, slots.Admitted, now)
	if err != nil {
		return now, err
	}
	for _, record := range claimed {
		if err := records.save(ctx, "pool/"+record.Key, record); err != nil {
			return now, err
		}
		pool.Record = record
	}
	for _, record := range executions {
		if err := records.save(ctx, bracket.ExecutionKey(record.Rule, record.Resource), record); err != nil {
			return now, err
		}
	}
	for _, start := range slices.Concat(starts, plan.Redispatch) {
		h.dispatch(start, now)
	}

	// Give back the leases of executions that have ended, and of those that never began and are not
	// offered any more. Saving the record of the execution first keeps a planner that still means to
	// begin under the lease from doing so. (A host that takes the command Abandon would quarantine the
	// lease of each event with Quarantine before it saved the execution, and keep it here.)
	orphans := pool.Record.Orphans(live)
	for _, lease := range orphans {
		record := &bracket.ExecutionRecord{Schema: 1, Rule: state.Group.Rule, Resource: lease.Resource}
		for _, r := range committed.Executions {
			if r.Resource == lease.Resource {
				record = r
			}
		}
		if err := records.save(ctx, bracket.ExecutionKey(record.Rule, record.Resource), record); err != nil {
			return now, err
		}
		if pool.Record, err = pool.Record.Release(lease.Holder, lease.Token); err != nil {
			return now, err
		}
	}
	if len(orphans) > 0 {
		if err := records.save(ctx, "pool/nodes", pool.Record); err != nil {
			return now, err
		}
		return now, nil // a slot is free: look again
	}
	for _, start := range plan.Redispatch {
		runs = append(runs, start.Run) // it may hang as well
	}
	next = plan.NextAfter(stepped, runs)
	if !slots.Next.IsZero() && (next.IsZero() || slots.Next.Before(next)) {
		next = slots.Next
	}
	return next, nil
}

var exampleDay = time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)

// exampleWorld is a new kubelet for two nodes, with the jobs that were created.
type exampleWorld struct {
	bracket.Observation
	current map[string]string // by resource/deployment
	log     []string
}

func newExampleWorld() *exampleWorld {
	return &exampleWorld{
		Observation: bracket.Observation{
			Members: []bracket.Member{
				{Deployment: "drain"},
				{Deployment: "kubelet", Needs: []string{"drain"}},
				{Deployment: "uncordon", Needs: []string{"kubelet"}},
			},
			Versions: []bracket.Version{{Deployment: "kubelet", ID: "v2", CreatedAt: exampleDay, EligibleAt: exampleDay}},
		},
		current: map[string]string{},
	}
}

func (w *exampleWorld) observe() bracket.Observation {
	o := w.Observation
	o.Versions, o.Runs = slices.Clone(w.Versions), slices.Clone(w.Runs)
	var targets bracket.TargetList
	for _, node := range []string{"node/1", "node/2"} {
		for _, m := range w.Members {
			current, ok := w.current[node+"/"+m.Deployment]
			if !ok {
				current = "v1"
			}
			targets = append(targets, bracket.Target{Resource: node, Deployment: m.Deployment, Current: current})
		}
	}
	o.Targets = targets
	return o
}

func (w *exampleWorld) dispatch(start bracket.Start, now time.Time) {
	if slices.ContainsFunc(w.Runs, func(f bracket.RunFact) bool { return f.Run == start.Run }) {
		return // it exists, whether it is at work or has ended
	}
	w.log = append(w.log, start.Run.Resource+" "+start.Run.Deployment)
	w.current[start.Run.Resource+"/"+start.Run.Deployment] = start.Version
	w.Runs = append(w.Runs, bracket.RunFact{Run: start.Run, Status: bracket.RunSucceeded, StartedAt: now, EndedAt: now, Version: start.Version})
}

// A whole host: its records are in a Store, one node at a time has a slot. The first planner stops
// after two writes, when it has claimed the slot and has not saved the execution. The second one
// goes on from there.
func Example_host() {
	ctx := context.Background()
	var store bracket.MemoryStore
	world := newExampleWorld()
	first := exampleHost{brackettest.NewFaultStore(&store, brackettest.CrashAfter(2)), world.observe, world.dispatch, exampleRule}
	_, err := first.turn(ctx, exampleDay)
	fmt.Println(err, len(world.log))
	second := exampleHost{&store, world.observe, world.dispatch, exampleRule}
	for seen := -1; seen < len(world.log); { // every job that ends is a reason to look again
		seen = len(world.log)
		for next := exampleDay; !next.IsZero() && !next.After(exampleDay); {
			if next, err = second.turn(ctx, exampleDay); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	fmt.Println(strings.Join(world.log, "\n"))
	// Output:
	// brackettest: crashed 0
	// node/1 drain
	// node/1 kubelet
	// node/1 uncordon
	// node/2 drain
	// node/2 kubelet
	// node/2 uncordon
}
