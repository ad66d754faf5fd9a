package partition_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// TestMemberships: whatever the partitions are filed under, and however many there are of them, the
// members are those that trying every selector on every cluster finds.
func TestMemberships(t *testing.T) {
	in := func(key string, values ...string) *selector.LabelSelector {
		return &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: key, Operator: selector.In, Values: values}}}
	}
	value := func(i int) string { return fmt.Sprint("v", i%150) }
	// Clusters with every value, with one that nobody asks for, and without the label; in up to
	// three groups, known, unknown and twice.
	fleet := partition.Fleet{Groups: map[string]map[string]string{}}
	for g := range 150 {
		fleet.Groups[value(g)] = map[string]string{"ring": value(g)}
	}
	for i := range 300 {
		c := partition.Cluster{Name: fmt.Sprintf("c%03d", i), Wanted: newVersion, Labels: map[string]string{"k": value(i), "m": value(i / 2), "shown": value(7 * i)}}
		for extra := range i % 6 {
			c.Labels[value(i+extra)] = "set"
		}
		switch i % 7 {
		case 0:
			delete(c.Labels, "k")
		case 1:
			c.Labels["k"] = "nobody's"
		}
		for g := range i % 4 {
			c.Groups = append(c.Groups, value(i+50*g))
		}
		switch i % 11 {
		case 0:
			c.Groups = append(c.Groups, "unknown")
		case 1:
			c.Groups = append(c.Groups, value(i))
		}
		fleet.Clusters = append(fleet.Clusters, c)
	}
	shown := "shown"
	for _, row := range []struct {
		kind string
		of   func(i int) partition.Definition
	}{
		{"one label", func(i int) partition.Definition { return partition.Definition{ClusterSelector: in("k", value(i))} }},
		{"one label, overlapping", func(i int) partition.Definition {
			return partition.Definition{ClusterSelector: in("k", value(i), value(i+1), value(3*i), value(0))}
		}},
		{"two labels", func(i int) partition.Definition {
			return partition.Definition{ClusterSelector: in([]string{"k", "m"}[i%2], value(i), value(i/3))}
		}},
		{"as many labels as partitions", func(i int) partition.Definition {
			return partition.Definition{ClusterSelector: in([]string{"k", "m", value(i), value(i + 1)}[i%4], value(i), "set")}
		}},
		{"a label and its presence", func(i int) partition.Definition {
			if i%5 == 0 {
				return partition.Definition{ClusterSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.Exists}}}}
			}
			return partition.Definition{ClusterSelector: in("k", value(i))}
		}},
		{"groups by label", func(i int) partition.Definition {
			return partition.Definition{ClusterGroupSelector: in("ring", value(i))}
		}},
		{"groups by label, overlapping", func(i int) partition.Definition {
			return partition.Definition{ClusterGroupSelector: in("ring", value(i), value(i+50), value(i+100), value(1))}
		}},
		{"groups by name", func(i int) partition.Definition {
			return partition.Definition{ClusterGroup: []string{value(i), "unknown"}[i%2]}
		}},
		{"groups by name and label", func(i int) partition.Definition { // both hold for one group, or for two
			return partition.Definition{ClusterGroup: value(i), ClusterGroupSelector: in("ring", value(i+50*(i%2)), value(i+1))}
		}},
		{"groups without a label", func(i int) partition.Definition {
			return partition.Definition{ClusterGroupSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "ring", Operator: selector.NotIn, Values: []string{value(i)}}}}}
		}},
		{"groups and labels", func(i int) partition.Definition {
			return partition.Definition{ClusterGroup: value(i), ClusterSelector: in("m", value(i/2), value(i))}
		}},
		{"some by group and some by label", func(i int) partition.Definition {
			if i%2 == 0 {
				return partition.Definition{ClusterGroup: value(i)}
			}
			return partition.Definition{ClusterSelector: in("k", value(i))}
		}},
		{"names", func(i int) partition.Definition {
			return partition.Definition{ClusterName: []string{fmt.Sprintf("c%03d", i), value(i)}[i%2]}
		}},
		{"both names of the same cluster", func(i int) partition.Definition {
			return partition.Definition{ClusterName: []string{fmt.Sprintf("c%03d", i/2), value(7 * (i / 2))}[i%2]}
		}},
		{"names and labels", func(i int) partition.Definition {
			if i%2 == 0 {
				return partition.Definition{ClusterName: fmt.Sprintf("c%03d", i)}
			}
			return partition.Definition{ClusterSelector: in("k", value(i))}
		}},
		{"several requirements", func(i int) partition.Definition {
			own := in("shown", value(7*i), value(14*i))
			own.MatchLabels = map[string]string{"k": value(i), "m": value(i / 2)}
			return partition.Definition{ClusterSelector: own}
		}},
		{"names and groups", func(i int) partition.Definition {
			return partition.Definition{ClusterName: fmt.Sprintf("c%03d", i), ClusterGroup: value(i)}
		}},
		{"names, some of them in groups", func(i int) partition.Definition {
			if i%2 == 0 {
				return partition.Definition{ClusterName: fmt.Sprintf("c%03d", i), ClusterGroup: value(i)}
			}
			return partition.Definition{ClusterName: fmt.Sprintf("c%03d", i)}
		}},
		{"everything, nothing and the rest", func(i int) partition.Definition {
			return []partition.Definition{{ClusterSelector: &selector.LabelSelector{}}, {},
				{ClusterSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.DoesNotExist}}}}}[i%3]
		}},
	} {
		for _, n := range []int{1, 2, 63, 64, 65, 140} { // groups are united as bits of one word if there are at most 64 partitions
			var strategy partition.Strategy
			for i := range n {
				d := row.of(i)
				d.Name = fmt.Sprint(row.kind, " ", i, " of ", n)
				strategy.Partitions = append(strategy.Partitions, d)
			}
			for _, mode := range modes() {
				options := partition.Options{Mode: mode, DisplayNameLabel: &shown}
				display := shown
				if mode == partition.FleetController {
					display = partition.DisplayNameLabel
				}
				compiled, err := partition.Compile(strategy, fleet, options)
				if err != nil {
					t.Fatal(err)
				}
				if diff := compareMembers(t, mode, display, strategy, fleet, compiled); diff != "" {
					t.Errorf("%s: %s", mode, diff)
				}
				in := make([][]int, len(fleet.Clusters))
				for p := range n {
					members, err := compiled.Members(p)
					if err != nil {
						t.Fatal(err)
					}
					for _, id := range members {
						in[id.Index] = append(in[id.Index], p)
					}
				}
				for i := range fleet.Clusters {
					if got, err := compiled.Partitions(i); err != nil || !slices.Equal(got, in[i]) {
						t.Errorf("%s, %s: cluster %d is in %v, %v, and a member of %v", row.kind, mode, i, got, err, in[i])
					}
				}
			}
		}
	}
}

// TestNoGroupHasNoLabels: Fleet's controller tries a cluster in no group with an empty name and no
// labels. A group of that name in the table is not this one: no cluster group can have it. Nor is a
// cluster in a group because its list has an empty name, as a list has that was split from no text.
func TestNoGroupHasNoLabels(t *testing.T) {
	fleet := partition.Fleet{
		Clusters: []partition.Cluster{{Name: "a", Wanted: newVersion}, {Name: "b", Wanted: newVersion, Groups: []string{"g"}},
			{Name: "c", Wanted: newVersion, Groups: []string{""}}, {Name: "d", Wanted: newVersion, Groups: []string{"", "g"}}},
		Groups: map[string]map[string]string{"": {"region": "eu"}, "g": {"region": "eu"}},
	}
	region := func(operator selector.LabelOperator) partition.Definition {
		return partition.Definition{ClusterGroupSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "region", Operator: operator}}}}
	}
	strategy := partition.Strategy{Partitions: []partition.Definition{region(selector.Exists), region(selector.DoesNotExist)}}
	for _, row := range []struct {
		mode partition.Mode
		want [][]string
		why  string
	}{
		{partition.FleetController, [][]string{{"b", "d"}, {"a", "c"}}, "a and c have no group, so their group has no region"},
		{partition.Default, [][]string{{"b", "d"}, nil}, "a and c have no group, so no criterion about groups holds"},
	} {
		compiled, err := partition.Compile(strategy, fleet, partition.Options{Mode: row.mode})
		if err != nil {
			t.Fatal(err)
		}
		for p, want := range row.want {
			members, err := compiled.Members(p)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, id := range members {
				got = append(got, id.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, partition %d: got %v, want %v: %s", row.mode, p, got, want, row.why)
			}
		}
	}
}

// TestManyPartitions: partitions that overlap completely, and more of them than fit a scan.
func TestManyPartitions(t *testing.T) {
	var strategy partition.Strategy
	strategy.MaxUnavailablePartitions = partition.FromString("100%")
	values := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}
	for _, v := range values {
		strategy.Partitions = append(strategy.Partitions,
			partition.Definition{Name: "In", ClusterSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.In, Values: []string{v, "z"}}}}},
			partition.Definition{Name: "NotIn", ClusterSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.NotIn, Values: []string{v}}}}},
			partition.Definition{Name: "Exists", ClusterSelector: &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.Exists}}}},
			partition.Definition{Name: "both", ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"k": v, "m": "1"}}},
			partition.Definition{Name: "never", ClusterSelector: &selector.LabelSelector{MatchLabels: map[string]string{"k": v},
				MatchExpressions: []selector.LabelRequirement{{Key: "k", Operator: selector.In, Values: []string{"z"}}}}})
	}
	var fleet partition.Fleet
	for i, v := range append(values, "z", "") {
		labels := map[string]string{"k": v}
		if i%2 == 0 {
			labels["m"] = "1"
		}
		fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: "c" + v, Labels: labels, Wanted: newVersion})
	}
	fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: "none", Wanted: newVersion})
	compiled, err := partition.Compile(strategy, fleet, partition.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := compiled.Plan()
	if diff := compareMembers(t, partition.Default, "", strategy, fleet, compiled); diff != "" {
		t.Error(diff)
	}
	if len(p.Partitions) != 5*len(values) {
		t.Errorf("%d partitions", len(p.Partitions))
	}
}

// TestManyGroups: a group is not tried with the partitions that name another one, or select another
// one by its labels. Sixteen times as many of both cost 20 to 40 times the processor time, and trying
// all with all would be 256 times.
func TestManyGroups(t *testing.T) {
	t.Run("named", func(t *testing.T) {
		manyGroups(t, func(group string) partition.Definition { return partition.Definition{ClusterGroup: group} })
	})
	t.Run("selected", func(t *testing.T) {
		manyGroups(t, func(group string) partition.Definition {
			return partition.Definition{ClusterGroupSelector: &selector.LabelSelector{
				MatchLabels:      map[string]string{"id": group},
				MatchExpressions: []selector.LabelRequirement{{Key: "ring", Operator: selector.Exists}},
			}}
		})
	})
}

func manyGroups(t *testing.T, of func(group string) partition.Definition) {
	compile := func(n int) func() {
		var strategy partition.Strategy
		fleet := partition.Fleet{Groups: map[string]map[string]string{}}
		for i := range n {
			group := fmt.Sprint("g", i)
			fleet.Groups[group] = map[string]string{"ring": fmt.Sprint(i % 2), "id": group}
			fleet.Clusters = append(fleet.Clusters, partition.Cluster{Name: fmt.Sprint("c", i), Groups: []string{group}, Wanted: newVersion})
			strategy.Partitions = append(strategy.Partitions, of(group))
		}
		strategy.Partitions[n-1] = partition.Definition{ClusterGroupSelector: &selector.LabelSelector{MatchLabels: map[string]string{"ring": "1"}}}
		return func() {
			compiled, err := partition.Compile(strategy, fleet, partition.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range []struct {
				partition, want int
				why             string
			}{{0, 1, "a group of its own"}, {n - 2, 1, "one as well"}, {n - 1, n / 2, "every other group"}} {
				if members, err := compiled.Members(row.partition); err != nil || len(members) != row.want {
					t.Errorf("%s: %d members of partition %d, want %d, %v", row.why, len(members), row.partition, row.want, err)
				}
			}
		}
	}
	testkit.CompareCost(t, "sixteen times as many groups and partitions", 100, compile(1000), compile(16_000))
}

// compareMembers compares memberships with trying every selector on every cluster.
func compareMembers(t *testing.T, mode partition.Mode, display string, strategy partition.Strategy, fleet partition.Fleet, compiled *partition.Compiled) string {
	t.Helper()
	for i := range strategy.Partitions {
		members, err := compiled.Members(i)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for k := range fleet.Clusters {
			if refMember(mode == partition.FleetController, &strategy.Partitions[i], &fleet.Clusters[k], fleet.Groups, display) {
				want = append(want, fleet.Clusters[k].Name)
			}
		}
		got := idNames(members)
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			return strategy.Partitions[i].Name + ": got " + strings.Join(got, " ") + ", want " + strings.Join(want, " ")
		}
	}
	return ""
}
