package partition_test

import (
	"testing"

	"github.com/tranche-dev/tranche/partition"
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
