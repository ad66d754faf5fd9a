package partition_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/partition"
)

// A rolloutStrategy decodes as it is in fleet.yaml, once YAML is converted to JSON. A batch of 50
// is not limited by maxUnavailable; the next one is due when at most that many clusters are
// NotReady.
func ExamplePlan() {
	var strategy partition.Strategy
	if err := json.Unmarshal([]byte(`{"maxUnavailable": "10%"}`), &strategy); err != nil {
		fmt.Println(err)
		return
	}
	var fleet partition.Fleet
	for i := range 100 {
		fleet.Clusters = append(fleet.Clusters, partition.Cluster{Namespace: "fleet", Name: fmt.Sprintf("edge-%03d", i), Wanted: "v2"})
	}
	plan, err := partition.Plan(strategy, fleet, partition.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(plan.Releases), "released, the first is", plan.Releases[0].ID)
	fmt.Println(plan) // every reason, whatever the size of the fleet
	// Output:
	// 50 released, the first is fleet/edge-000
	// partition 0 "All": 100 members, 0 done, 50 waiting, 50 NotReady of at most 10 (fleet/edge-000, fleet/edge-001, fleet/edge-002, …), 50 released, not ready
	// gate: closed by partition 0, 1 of at most 0 partitions not ready
	// release: fleet/edge-000 from partition 0, the first deployment; and 49 more likewise
	// waits: fleet/edge-050: the batch of 50 is full; and 49 more likewise
}

// exampleFleet is n clusters in one state.
func exampleFleet(n int, state partition.State) partition.Fleet {
	var fleet partition.Fleet
	for i := range n {
		fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: fmt.Sprintf("edge-%06d", i), Wanted: "v2", State: state})
	}
	return fleet
}

// What Fleet's controller would do today with the same strategy: an update at 10% releases 5 of 50,
// where the document promises all.
func ExamplePlan_fleetController() {
	strategy := partition.Strategy{MaxUnavailable: partition.FromString("10%")}
	fleet := exampleFleet(50, partition.State{Released: "v1", Applied: "v1", Ready: true})
	for _, mode := range []partition.Mode{partition.Default, partition.FleetController} {
		plan, err := partition.Plan(strategy, fleet, partition.Options{Mode: mode})
		fmt.Println(mode, len(plan.Releases), err)
		if len(plan.Waiting) > 0 {
			fmt.Println(plan.Waiting[0])
		}
	}
	// Output:
	// default 50 <nil>
	// fleet_controller 5 <nil>
	// edge-000005: partition 0 has no room for updates: 5 members are unavailable, at most 5 may be
}

// A large fleet is compiled once. Events update counts in constant time, and a step costs what it
// releases.
func ExampleCompile() {
	strategy := partition.Strategy{AutoPartitionSize: partition.FromInt(1000), MaxUnavailable: partition.FromInt(0)}
	compiled, err := partition.Compile(strategy, exampleFleet(100_000, partition.State{}), partition.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var step partition.Step
	for range 3 {
		compiled.Step(&step)
		fmt.Println(len(step.Releases), "released")
		for _, r := range step.Releases {
			// Here the cluster is pointed at the version, and becomes ready sooner or later.
			if _, err := compiled.Update(r.Index, partition.State{Released: "v2", Applied: "v2", Ready: true}); err != nil {
				fmt.Println(err)
			}
		}
	}
	verdict, waits, err := compiled.Explain(99_999)
	fmt.Println(verdict, waits, err)
	// Output:
	// 50 released
	// 50 released
	// 50 released
	// partition 99 is not reached: partition 0 closed the gate, 1 partition is not ready, at most 0 may be true <nil>
}

// soak holds back the releases of a partition until every one before it has been done for a while.
// Any part of a plan may be carried out, so a delay needs no support of the planner: only the
// instant at which each partition was last seen to become done. It returns what to release now, and
// when to look again if time alone holds something back.
func soak(plan partition.Result, doneSince map[int]time.Time, wait time.Duration, now time.Time) (due []partition.Release, until time.Time) {
	opens := time.Time{} // when the partitions so far have soaked
	openFor := make([]time.Time, len(plan.Partitions))
	for i, s := range plan.Partitions {
		openFor[i] = opens
		if s.Done+s.Held < s.Count {
			delete(doneSince, i)
			opens = now.Add(wait) // at best
			continue
		}
		if _, ok := doneSince[i]; !ok {
			doneSince[i] = now
		}
		if end := doneSince[i].Add(wait); end.After(opens) {
			opens = end
		}
	}
	for _, r := range plan.Releases {
		if at := openFor[r.Partition]; at.After(now) {
			if until.IsZero() || at.Before(until) {
				until = at
			}
			continue
		}
		due = append(due, r)
	}
	return due, until
}

// Soaking between partitions, as users of Fleet ask for: canaries run for an hour before everybody
// else gets the version.
func ExamplePlan_soak() {
	var strategy partition.Strategy
	if err := json.Unmarshal([]byte(`{"maxUnavailable": 0, "partitions": [
		{"name": "canary", "clusterSelector": {"matchLabels": {"stage": "canary"}}},
		{"name": "stable", "clusterSelector": {"matchLabels": {"stage": "stable"}}}]}`), &strategy); err != nil {
		fmt.Println(err)
		return
	}
	var fleet partition.Fleet
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		labels := map[string]string{"stage": "canary"}
		if i >= 2 {
			labels["stage"] = "stable"
		}
		fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: name, Labels: labels, Wanted: "v2", State: partition.State{Released: "v1", Applied: "v1", Ready: true}})
	}
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	doneSince := map[int]time.Time{}
	for range 6 {
		plan, err := partition.Plan(strategy, fleet, partition.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		due, until := soak(plan, doneSince, time.Hour, now)
		fmt.Print(now.Format("15:04"), " release")
		for _, r := range due {
			fmt.Print(" ", r.Name)
			// The clusters are given in cluster order, so that an index is the place among them,
			// too.
			fleet.Clusters[r.Index].State = partition.State{Released: "v2", Applied: "v2", Ready: true} // by the time of the next step
		}
		if until.IsZero() {
			fmt.Println()
			now = now.Add(5 * time.Minute)
			if len(plan.Releases) == 0 {
				break
			}
		} else {
			fmt.Println(" nothing until", until.Format("15:04"))
			now = until
		}
	}
	// Output:
	// 09:00 release a b
	// 09:05 release nothing until 10:05
	// 10:05 release c d e
	// 10:10 release
}
