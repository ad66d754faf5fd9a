package rollouttest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
)

func Example() {
	env, _ := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	policies, _ := rollout.ParsePolicies([]byte(`{"name": "one at a time", "selector": "true", "rules": [
		{"id": "nodes", "resourceConcurrency": {"groupSelector": "true", "limitType": "count", "limitValue": 1}}]}`))
	set, err := rollout.Compile(policies, env)
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	fleet := rollout.Snapshot{
		Resources:    []rollout.Resource{{ID: "node-1"}, {ID: "node-2"}},
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "kubelet"}},
		Versions:     []rollout.Version{{ID: "v2", Deployment: "kubelet", Status: rollout.VersionReady, CreatedAt: noon}},
		Targets: []rollout.Target{
			{TargetID: rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "kubelet"}},
			{TargetID: rollout.TargetID{Resource: "node-2", Environment: "prod", Deployment: "kubelet"}},
		},
	}
	world := rollouttest.World{Policies: set, Fleet: fleet, Job: rollouttest.Durations(map[string]time.Duration{"kubelet": 3 * time.Minute})}
	timeline, err := world.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(timeline)
	fmt.Print(timeline.Chart(time.Minute))
	// Output:
	// 2026-03-10
	//   12:00:00  node-1: start kubelet v2
	//   12:00:00  node-2: kubelet v2: slot_full in nodes, held by node-1
	//   12:03:00  node-1: kubelet v2 ended: successful
	//   12:03:00  node-2: start kubelet v2
	//   12:06:00  node-2: kubelet v2 ended: successful
	// done at 2026-03-10 12:06:00
	// at most 1 resource in flight at once
	// nodes: at most 1 of 2 active, 1 allowed
	// 1m = 1 column, from 2026-03-10 12:00:00
	// k kubelet  # several  - slot held
	//        +0s
	// node-1 kkk...
	// node-2 ...kkk
}

// A host's own test puts each of its plans to the test.
func ExampleStep_Check() {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	target := rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "kubelet"}
	observed := rollout.Snapshot{Targets: []rollout.Target{{TargetID: target}}}
	plan := rollout.Plan{Now: now, Waiting: rollout.NewWaitingList(rollout.Waiting{
		TargetID: target, Version: "v2", Blockers: []rollout.Verdict{{Status: rollout.Pending, Reason: "slot_full"}},
	})}
	fmt.Println(rollouttest.Step{Snapshot: observed, Plan: plan}.Check())
	// Output:
	// rollouttest: invariant wakeup is broken at 2026-03-10T12:00:00Z: kubelet on node-1: slot_full names neither an instant nor an event
}
