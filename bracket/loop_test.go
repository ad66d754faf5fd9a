package bracket_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/concurrency"
)

// TestConflictsOfStores: a host that keeps pools in a Store looks for the conflict of the Store,
// and not for that of the records, as the docs of both say.
func TestConflictsOfStores(t *testing.T) {
	var store bracket.MemoryStore
	_, err := store.Save(t.Context(), "pool/nodes", nil, 7)
	if !errors.Is(err, bracket.ErrConflict) || errors.Is(err, concurrency.ErrConflict) {
		t.Errorf("Save: %v", err)
	}
	_, err = concurrency.NewRecord("nodes").Claim(concurrency.Claim{Revision: 7, Token: 1}, concurrency.Holder{Resource: "n1"}, time.Unix(1, 0))
	if !errors.Is(err, concurrency.ErrConflict) || errors.Is(err, bracket.ErrConflict) {
		t.Errorf("Claim: %v", err)
	}
}

// TestExampleHostStopsAnywhere: from a crash after any prefix of its writes the host of the example
// reaches the same end, one node at a time.
func TestExampleHostStopsAnywhere(t *testing.T) {
	want := []string{"node/1 drain", "node/1 kubelet", "node/1 uncordon", "node/2 drain", "node/2 kubelet", "node/2 uncordon"}
	crashes := 0
	for n, crashed := 0, true; crashed; n++ {
		crashed = false
		var store bracket.MemoryStore
		client := brackettest.NewFaultStore(&store, brackettest.CrashAfter(n))
		world := newExampleWorld()
		host := exampleHost{client, world.observe, world.dispatch, exampleRule}
		for range 30 {
			_, err := host.turn(context.Background(), exampleDay)
			if errors.Is(err, brackettest.ErrCrashed) {
				client.Restart(nil)
				crashed, err = true, nil
				crashes++
			}
			if err != nil {
				t.Fatalf("crash after %d writes: %v", n, err)
			}
		}
		if !slices.Equal(world.log, want) {
			t.Errorf("crash after %d writes: %v, want %v", n, world.log, want)
		}
		if leases := leasesOf(t, &store); len(leases) > 0 {
			t.Errorf("crash after %d writes: %v", n, leases)
		}
	}
	if crashes < 15 {
		t.Errorf("%d crashes, want one before each write", crashes)
	}
}

// TestExecutionDoesNotBeginUnderAReleasedLease: a planner stops for a while between the claim of
// its slot and the save of its execution. Meanwhile the version is withdrawn, and another planner
// gives back the slot of an execution that never began. Only because that planner saved the
// execution record first, the first one cannot begin without a slot.
func TestExecutionDoesNotBeginUnderAReleasedLease(t *testing.T) {
	ctx := context.Background()
	var store bracket.MemoryStore
	world := newExampleWorld()
	other := exampleHost{&store, world.observe, world.dispatch, exampleRule}
	paused := false
	client := brackettest.NewFaultStore(&store, func(c brackettest.Call) brackettest.Fault {
		if c.Method != "Save" || !strings.HasPrefix(c.Key, bracket.ExecutionKey("node lifecycle", "")) || paused {
			return brackettest.None
		}
		paused = true
		if leases := leasesOf(t, &store); len(leases) != 1 {
			t.Fatalf("leases %v, want that of the first planner", leases)
		}
		world.Versions[0].EligibleAt = time.Time{}
		if _, err := other.turn(ctx, exampleDay.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if leases := leasesOf(t, &store); len(leases) != 0 {
			t.Fatalf("leases %v, want none: nothing can begin", leases)
		}
		return brackettest.None
	})
	if _, err := (exampleHost{client, world.observe, world.dispatch, exampleRule}).turn(ctx, exampleDay); !errors.Is(err, bracket.ErrConflict) {
		t.Errorf("error %v, want a conflict", err)
	}
	if !paused || len(world.log) > 0 {
		t.Errorf("paused %v, dispatched %v, want nothing", paused, world.log)
	}

	// The record that was saved says nothing: the version comes back, and everything runs.
	world.Versions = append(world.Versions, bracket.Version{Deployment: "kubelet", ID: "v3", CreatedAt: exampleDay.Add(time.Hour), EligibleAt: exampleDay.Add(time.Hour)})
	for range 20 {
		if _, err := other.turn(ctx, exampleDay.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if len(world.log) != 6 {
		t.Errorf("dispatched %v, want three jobs on each of two nodes", world.log)
	}
}

// TestExampleHostLooksAtWhatItDispatchedAgain: a planner stops before it dispatches the run that it
// has saved, and another one finds that run when it is stuck already. What that planner dispatches
// may hang, too: it must look again when the new run is stuck, although the plan has no other instant.
func TestExampleHostLooksAtWhatItDispatchedAgain(t *testing.T) {
	ctx := context.Background()
	var store bracket.MemoryStore
	world := newExampleWorld()
	stopped := exampleHost{&store, world.observe, func(bracket.Start, time.Time) {}, exampleRule}
	if _, err := stopped.turn(ctx, exampleDay); err != nil {
		t.Fatal(err)
	}
	second := exampleHost{&store, world.observe, func(s bracket.Start, now time.Time) {
		world.Runs = append(world.Runs, bracket.RunFact{Run: s.Run, Status: bracket.RunRunning, StartedAt: now})
	}, exampleRule}
	late := exampleDay.Add(time.Hour)
	next, err := second.turn(ctx, late)
	if want := late.Add(10 * time.Minute); err != nil || !next.Equal(want) || len(world.Runs) != 1 {
		t.Errorf("next %v, %v, after %d dispatched runs, want %v after one", next, err, len(world.Runs), want)
	}
}

// TestStaleListTakesNoSlot: an execution that the list shows open, and that has ended since, goes on
// if a newer group can be merged into it. Had the planner claimed a lease for it before it failed to
// save it, the next group would begin on that resource beside the one whose turn it is, because a
// start on a resource that is down already needs no further slot.
func TestStaleListTakesNoSlot(t *testing.T) {
	ctx := context.Background()
	var store bracket.MemoryStore
	world := newExampleWorld()
	merging := exampleRule
	merging.OverlapStrategy, merging.PreparedStatePersists = bracket.Merge, true
	other := exampleHost{&store, world.observe, world.dispatch, merging}
	turn := func() {
		t.Helper()
		if _, err := other.turn(ctx, exampleDay); err != nil {
			t.Fatal(err)
		}
		entries, err := store.List(ctx, bracket.ExecutionKey("node lifecycle", ""))
		if err != nil {
			t.Fatal(err)
		}
		var open []string
		for _, e := range entries {
			var record bracket.ExecutionRecord
			if err := json.Unmarshal(e.Value, &record); err != nil {
				t.Fatal(err)
			}
			if record.Open != nil {
				open = append(open, record.Resource)
			}
		}
		if len(open) > 1 {
			t.Errorf("%v are open at once, one may be: %v", open, world.log)
		}
	}
	publish := func(id string) {
		world.Versions = append(world.Versions, bracket.Version{Deployment: "kubelet", ID: id, CreatedAt: exampleDay, EligibleAt: exampleDay})
	}
	turn() // drains node/1
	client := brackettest.NewFaultStore(&store, func(c brackettest.Call) brackettest.Fault {
		if c.Method == "List" {
			return brackettest.Stale
		}
		return brackettest.None
	})
	if _, err := client.List(ctx, bracket.ExecutionKey("node lifecycle", "")); err != nil {
		t.Fatal(err)
	}
	publish("v3") // is merged there
	for len(world.log) < 4 {
		turn() // until node/2 is drained
	}
	publish("v4")
	if _, err := (exampleHost{client, world.observe, world.dispatch, merging}).turn(ctx, exampleDay); !errors.Is(err, bracket.ErrConflict) {
		t.Errorf("error %v, want a conflict", err)
	}
	for _, lease := range leasesOf(t, &store) {
		if lease.Resource != "node/2" {
			t.Errorf("the stale planner has taken %v", lease)
		}
	}
	for range 30 {
		turn()
	}
	for _, node := range []string{"node/1", "node/2"} {
		if got := world.current[node+"/kubelet"]; got != "v4" {
			t.Errorf("%s runs %s in the end, want v4", node, got)
		}
	}
}

func leasesOf(t *testing.T, store bracket.Store) []concurrency.Lease {
	var record concurrency.Record
	if err := (exampleRecords{store, map[string]int64{}}).load(context.Background(), "pool/nodes", &record); err != nil {
		t.Fatal(err)
	}
	return record.Leases
}

// TestRollbackGoesWhereTheObservationWas: From is what the observation shows when the execution
// begins. A host that observes before it reads the state may show what the target ran before an
// execution that the state says has ended, and a rollback then returns too far.
func TestRollbackGoesWhereTheObservationWas(t *testing.T) {
	rule := bracket.Rule{DeploymentSelector: "true", ReadinessMode: bracket.Immediate, OnMemberFailure: bracket.RollbackMember}
	for _, c := range []struct {
		name  string
		stale bool
		want  string
	}{
		{"the state is read first", false, "v2"},
		{"the observation is older than the state", true, "v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := exampleDay
			state := bracket.NewState("r", "prod")
			turn := func(o bracket.Observation) bracket.Plan {
				t.Helper()
				now = now.Add(time.Minute)
				next, plan, err := bracket.Step(rule, state, o, now)
				if err != nil {
					t.Fatal(err)
				}
				var runs []bracket.Run
				for _, s := range plan.Start {
					runs = append(runs, s.Run)
				}
				if state, err = plan.Commit(next, runs, now); err != nil {
					t.Fatal(err)
				}
				return plan
			}
			version := func(id string) bracket.Version {
				return bracket.Version{Deployment: "os", ID: id, CreatedAt: now, EligibleAt: now}
			}
			observed := func(current string, versions []bracket.Version, runs ...bracket.RunFact) bracket.Observation {
				return bracket.Observation{Members: []bracket.Member{{Deployment: "os"}}, Versions: versions, Runs: runs,
					Targets: bracket.TargetList{{Resource: "n1", Deployment: "os", Current: current}}}
			}
			versions := []bracket.Version{version("v2")}
			run := turn(observed("v1", versions)).Start[0].Run
			at := now
			running := bracket.RunFact{Run: run, Status: bracket.RunRunning, StartedAt: at}
			done := bracket.RunFact{Run: run, Status: bracket.RunSucceeded, StartedAt: at, EndedAt: at}
			turn(observed("v2", versions, done))

			versions = append(versions, version("v3"))
			begin := observed("v2", versions, done)
			if c.stale {
				begin = observed("v1", versions, running)
			}
			failed := bracket.RunFact{Run: turn(begin).Start[0].Run, Status: bracket.RunFailed, StartedAt: now, EndedAt: now}
			start := turn(observed("v2", versions, done, failed)).Start
			if len(start) != 1 || start[0].Run.Purpose != bracket.Rollback || start[0].Version != c.want {
				t.Errorf("start %v, want a rollback to %s", start, c.want)
			}
		})
	}
}

// TestListedExecutionsAreNotInOrder: keys escape, so a Store lists records in an order of its own.
func TestListedExecutionsAreNotInOrder(t *testing.T) {
	rule := bracket.Rule{DeploymentSelector: "true", ReadinessMode: bracket.Immediate}
	state := bracket.NewState("r", "prod")
	if bracket.ExecutionKey("r", "a/b") > bracket.ExecutionKey("r", "a.b") {
		t.Fatal("the keys have the order of the resources")
	}
	state.Executions = []*bracket.ExecutionRecord{{Schema: 1, Rule: "r", Resource: "a/b"}, {Schema: 1, Rule: "r", Resource: "a.b"}}
	var fault *bracket.FieldError
	if _, _, err := bracket.Step(rule, state, bracket.Observation{}, exampleDay); !errors.As(err, &fault) || fault.Path != "state.executions[1].resource" {
		t.Errorf("error %v, want that of the order", err)
	}
	slices.Reverse(state.Executions)
	if _, _, err := bracket.Step(rule, state, bracket.Observation{}, exampleDay); err != nil {
		t.Error(err)
	}
}

// TestStaleListStartsNothing: a planner whose list of executions is stale may claim a lease for one
// that is open or has ended, but it saves no execution, so that it starts nothing, and the lease
// is given back.
func TestStaleListStartsNothing(t *testing.T) {
	ctx := context.Background()
	conflicts := 0
	for seen := range 14 {
		for later := 1; later < 14; later++ {
			var store bracket.MemoryStore
			world := newExampleWorld()
			stale := false
			client := brackettest.NewFaultStore(&store, func(c brackettest.Call) brackettest.Fault {
				if stale && c.Method == "List" {
					return brackettest.Stale
				}
				return brackettest.None
			})
			other := exampleHost{&store, world.observe, world.dispatch, exampleRule}
			turns := func(n int) {
				for range n {
					if _, err := other.turn(ctx, exampleDay); err != nil {
						t.Fatal(err)
					}
				}
			}
			turns(seen)
			if _, err := client.List(ctx, bracket.ExecutionKey("node lifecycle", "")); err != nil {
				t.Fatal(err)
			}
			turns(later)
			stale = true
			before := len(world.log)
			_, err := (exampleHost{client, world.observe, world.dispatch, exampleRule}).turn(ctx, exampleDay)
			if err != nil && !errors.Is(err, bracket.ErrConflict) {
				t.Fatal(err)
			}
			if err != nil {
				conflicts++
				if len(world.log) > before {
					t.Errorf("read after %d turns and used %d turns later: dispatched %v", seen, later, world.log[before:])
				}
			}
			turns(30)
			want := []string{"node/1 drain", "node/1 kubelet", "node/1 uncordon", "node/2 drain", "node/2 kubelet", "node/2 uncordon"}
			if leases := leasesOf(t, &store); !slices.Equal(world.log, want) || len(leases) > 0 {
				t.Errorf("read after %d turns and used %d turns later: %v with leases %v, want %v without any", seen, later, world.log, leases, want)
			}
		}
	}
	if conflicts == 0 {
		t.Error("no stale list was ever noticed")
	}
}
