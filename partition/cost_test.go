package partition_test

import (
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// TestCompileIsNoSquare: eight times as many clusters, partitions and groups cost about eight times as
// much where each cluster is in one partition and one group. A square would cost 64 times as much.
func TestCompileIsNoSquare(t *testing.T) {
	testkit.NeedCPUTime(t)
	is := func(key, value string) *selector.LabelSelector {
		return &selector.LabelSelector{MatchLabels: map[string]string{key: value}}
	}
	for _, row := range []struct {
		why string
		of  func(i int) partition.Definition
	}{
		{"by a label of their own", func(i int) partition.Definition {
			return partition.Definition{ClusterSelector: is("own", fmt.Sprint(i))}
		}},
		{"by a key of their own", func(i int) partition.Definition {
			return partition.Definition{ClusterSelector: is(fmt.Sprintf("own%d", i), "yes")}
		}},
		{"by a group of their own", func(i int) partition.Definition {
			return partition.Definition{ClusterGroup: fmt.Sprintf("g%d", i), ClusterGroupSelector: is("all", "yes")}
		}},
		{"by a label of their own group", func(i int) partition.Definition {
			return partition.Definition{ClusterGroupSelector: is("own", fmt.Sprint(i))}
		}},
		{"by name, and by a label that all groups have", func(i int) partition.Definition {
			return partition.Definition{ClusterName: fmt.Sprintf("c%05d", i), ClusterGroupSelector: is("all", "yes")}
		}},
		{"by name, and by what no group must have", func(i int) partition.Definition {
			return partition.Definition{ClusterName: fmt.Sprintf("c%05d", i), ClusterGroupSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "none", Operator: selector.DoesNotExist}}}}
		}},
	} {
		of := func(n int) func() {
			var strategy partition.Strategy
			fleet := partition.Fleet{Groups: map[string]map[string]string{}}
			for i := range n {
				group, own := fmt.Sprintf("g%d", i), fmt.Sprint(i)
				strategy.Partitions = append(strategy.Partitions, row.of(i))
				fleet.Groups[group] = map[string]string{"all": "yes", "own": own}
				fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: fmt.Sprintf("c%05d", i), Wanted: "v2", Groups: []string{group},
					Labels: map[string]string{"own": own, "own" + own: "yes"}})
			}
			return func() {
				compiled, err := partition.Compile(strategy, fleet, partition.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if members, err := compiled.Members(n - 1); err != nil || len(members) != 1 || members[0].Index != n-1 {
					t.Fatalf("%s: the last partition has %v, %v", row.why, members, err)
				}
			}
		}
		testkit.CompareCost(t, row.why, 30, of(500), of(4000)) // up to 16 times, because the few are done before a collection
	}
}
