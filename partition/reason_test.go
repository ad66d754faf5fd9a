package partition_test

import (
	"testing"

	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// TestReasonReads: every reason says in one line what it is about, with its numbers.
func TestReasonReads(t *testing.T) {
	for _, row := range []struct {
		reason partition.Reason
		want   string
	}{
		{partition.BundlePaused, "the bundle is paused"},
		{partition.ClusterPaused, "the cluster is paused"},
		{partition.ClusterOffline, "the cluster is offline"},
		{partition.Gate, "partition 3 is not reached: partition 1 closed the gate, 5 partitions are not ready, at most 2 may be"},
		{partition.Threshold, "partition 3 waits: 5 members are NotReady, at most 2 may be"},
		{partition.Budget, "partition 3 has no room for updates: 5 members are unavailable, at most 2 may be"},
		{partition.TotalBudget, "all targets together have no room for updates: 5 are unavailable, at most 2 may be"},
		{partition.StepLimit, "the step has its 2 releases"},
		{partition.Batch, "the batch of 2 is full"},
		{partition.Unmatched, "the cluster is in no partition"},
		{"late", "late"},
	} {
		v := partition.Verdict{Reason: row.reason, Partition: 3, ClosedBy: 1, Count: 5, Limit: 2}
		if got := v.String(); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// TestBudgetOfNone: where no member may be unavailable, Fleet's controller updates no healthy cluster
// of the partition, whether others are unavailable or not.
func TestBudgetOfNone(t *testing.T) {
	strategy := partition.Strategy{MaxUnavailable: partition.FromInt(5), Partitions: stage("a")}
	strategy.Partitions[0].MaxUnavailable = partition.FromInt(0)
	strategy.Partitions[0].ClusterSelector = &selector.LabelSelector{}
	for _, ready := range []bool{false, true} {
		fleet := fleetOf(3, healthy(oldVersion))
		fleet.Clusters[0].State = partition.State{Released: newVersion, Applied: newVersion, Ready: ready}
		plan, err := partition.Plan(strategy, fleet, partition.Options{Mode: partition.FleetController})
		if err != nil || len(plan.Waiting) != 2 {
			t.Fatalf("got %v (%v)", plan, err)
		}
		if got, want := plan.Waiting[0].Verdict.String(), "partition 0 never updates a healthy cluster: at most 0 members may be unavailable"; got != want {
			t.Errorf("the first one ready %v: got %q, want %q", ready, got, want)
		}
	}
}

// TestTotalBudgetOfNone: where no target may be unavailable, Fleet's controller updates no healthy
// cluster, whether others are unavailable or not. A text that names one of these sends its reader
// to a cluster whose recovery changes nothing.
func TestTotalBudgetOfNone(t *testing.T) {
	strategy := partition.Strategy{MaxUnavailable: partition.FromInt(0), Partitions: stage("a")}
	strategy.Partitions[0].MaxUnavailable = partition.FromInt(5)
	strategy.Partitions[0].ClusterSelector = &selector.LabelSelector{}
	for _, ready := range []bool{false, true} { // 1 target is unavailable, or none
		fleet := fleetOf(3, healthy(oldVersion))
		fleet.Clusters[0].State = partition.State{Released: newVersion, Applied: newVersion, Ready: ready}
		plan, err := partition.Plan(strategy, fleet, partition.Options{Mode: partition.FleetController})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Waiting) != 2 {
			t.Fatalf("got %v", plan)
		}
		if got, want := plan.Waiting[0].Verdict.String(), "no healthy cluster is ever updated: at most 0 of all targets may be unavailable"; got != want {
			t.Errorf("the first one ready %v: got %q, want %q", ready, got, want)
		}
	}
}

// TestTotalBudgetEndsElsewhere: a target of another partition, or of none, ends the wait for the
// budget of all targets, and all members of the own partition are ready.
func TestTotalBudgetEndsElsewhere(t *testing.T) {
	strategy := partition.Strategy{MaxUnavailable: partition.FromInt(1), MaxUnavailablePartitions: partition.FromInt(1), Partitions: []partition.Definition{{ClusterName: "a"}, {ClusterName: "b"}}}
	for _, down := range []string{"a", "none"} {
		fleet := partition.Fleet{}
		for _, name := range []string{"a", "b", "none"} {
			c := partition.Cluster{Name: name, Wanted: newVersion, State: partition.State{Released: newVersion, Applied: newVersion, Ready: name != down}}
			if name == "b" {
				c.State = healthy(oldVersion)
			}
			fleet.Clusters = append(fleet.Clusters, c)
		}
		planned := func() partition.Result {
			plan, err := partition.Plan(strategy, fleet, partition.Options{Mode: partition.FleetController})
			if err != nil {
				t.Fatal(err)
			}
			return plan
		}
		if plan := planned(); len(plan.Releases) > 0 || len(plan.Waiting) != 1 || plan.Waiting[0].Name != "b" || plan.Waiting[0].Reason != partition.TotalBudget {
			t.Fatalf("%s is down: %v", down, plan)
		}
		for i := range fleet.Clusters {
			fleet.Clusters[i].Ready = true
		}
		if plan := planned(); len(plan.Releases) != 1 || plan.Releases[0].Name != "b" {
			t.Errorf("%s became ready: %v", down, plan)
		}
	}
}

// TestNamesOfOneLine: a line break in a name ends no line.
func TestNamesOfOneLine(t *testing.T) {
	id := partition.ID{Namespace: "a\n", Name: "b\n"}
	result := partition.Result{
		Step:     partition.Step{Releases: []partition.Release{{ID: id}}},
		Waiting:  []partition.Waiting{{ID: id, Verdict: partition.Verdict{Reason: partition.ClusterPaused}}},
		Unready:  []partition.Unready{{ID: partition.ID{Index: 1, Name: "b\n"}, Why: partition.NotReady}},
		Warnings: []partition.Warning{{Path: "a\n", Text: "b", Code: "c"}},
	}
	const want = `gate: closed by partition 0, 0 of at most 0 partitions not ready
release: "a\n"/"b\n" from partition 0
waits: "a\n"/"b\n": the cluster is paused
not ready: "b\n": not_ready
warning: "a\n: b (c)"`
	if got := result.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
