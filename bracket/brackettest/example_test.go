package brackettest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// The test of a store is one call. In a package of your own it stands in a func TestStore(t
// *testing.T).
func ExampleRun() {
	test := func(t *testing.T) {
		brackettest.Run(t, func(*testing.T) bracket.Store { return new(bracket.MemoryStore) })
	}
	_ = test
}

// Two processes share a storage; each is a client. In a real test, servers and connections are
// killed meanwhile, and each client is one of a process of its own.
func ExampleHistory() {
	ctx, storage := context.Background(), new(bracket.MemoryStore)
	var history brackettest.History
	var processes sync.WaitGroup
	for p := range 2 {
		client := history.Record(storage) // in a real test: a client with a connection of its own
		processes.Go(func() {
			for i := range 100 {
				_, revision, err := client.Load(ctx, "slots")
				if err != nil && !errors.Is(err, bracket.ErrNotFound) {
					continue // the server is away
				}
				// Whether this is lost or refused shows in what later calls return.
				_, _ = client.Save(ctx, "slots", fmt.Appendf(nil, "%d by %d", i, p), revision)
			}
		})
	}
	processes.Wait()
	fmt.Println(history.Check())
	// Output:
	// <nil>
}

// A planner is stopped before each of its writes in turn. Whatever it had saved by then, the next
// plan offers the same run.
func ExampleCrashAfter() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{"name": "nodes", "selector": "true", "rules": [
		{"id": "turns", "gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 600}},
		{"id": "slots", "resourceConcurrency": {"groupSelector": "true", "limit": 1}}]}`), env)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	snapshot := rollout.Snapshot{
		Resources:    []rollout.Resource{{ID: "n1"}},
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "kubelet"}},
		Versions:     []rollout.Version{{ID: "v2", Deployment: "kubelet", Status: rollout.VersionReady, CreatedAt: now}},
		Targets:      []rollout.Target{{TargetID: rollout.TargetID{Resource: "n1", Environment: "prod", Deployment: "kubelet"}}},
	}
	for n := 0; ; n++ {
		store := brackettest.NewFaultStore(new(bracket.MemoryStore), brackettest.CrashAfter(n))
		planner := rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(now)}
		plan, err := planner.Plan(context.Background(), snapshot)
		if !store.Crashed() {
			fmt.Println("not stopped:", plan.Start[0].Run, err)
			return
		}
		store.Restart(nil)
		plan, err = planner.Plan(context.Background(), snapshot)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("stopped after %d writes, then: %s\n", n, plan.Start[0].Run)
	}
	// Output:
	// stopped after 0 writes, then: n1/prod/kubelet/v2/1
	// stopped after 1 writes, then: n1/prod/kubelet/v2/1
	// not stopped: n1/prod/kubelet/v2/1 <nil>
}
