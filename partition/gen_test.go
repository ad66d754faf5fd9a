package partition_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// Small pools, so that things collide.

func genState() *rapid.Generator[partition.State] {
	version := rapid.SampledFrom([]string{"", "v1", "v2"})
	return rapid.Custom(func(t *rapid.T) partition.State {
		s := partition.State{
			Released: version.Draw(t, "released"), Applied: version.Draw(t, "applied"), Ready: rapid.Bool().Draw(t, "ready"),
			Paused: rapid.IntRange(0, 5).Draw(t, "paused") == 3, Offline: rapid.IntRange(0, 5).Draw(t, "offline") == 3,
		}
		if rapid.Bool().Draw(t, "staged") {
			s.Staged = version.Draw(t, "stagedVersion")
		}
		return s
	})
}

func genFleet(t *rapid.T, most int) partition.Fleet {
	fleet := partition.Fleet{
		Groups: map[string]map[string]string{"g1": {"region": "eu"}, "g2": {"region": "us", "tier": "gold"}},
		Paused: rapid.IntRange(0, 9).Draw(t, "bundlePaused") == 7,
	}
	n := rapid.SampledFrom([]int{most, 2, most - 1, 0, 1, most / 2}).Draw(t, "clusters")
	states := rapid.SliceOfN(genState(), n, n).Draw(t, "states")
	for i, k := range rapid.Permutation(numbers(n)).Draw(t, "order") {
		c := partition.Cluster{
			Namespace: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "namespace"), Name: fmt.Sprintf("c%d", k),
			Wanted: rapid.SampledFrom([]string{"v2", "v2", "v2", "v1"}).Draw(t, "wanted"), State: states[i], Labels: map[string]string{},
		}
		if k%5 == 4 { // the same name in another namespace
			c.Namespace, c.Name = "z", fmt.Sprintf("c%d", k-1)
		}
		for _, key := range []string{"env", "ring", partition.DisplayNameLabel} {
			if value := rapid.SampledFrom([]string{"x", "y", "-", "", "c1"}).Draw(t, key); value != "-" {
				c.Labels[key] = value
			}
		}
		for _, group := range []string{"g1", "", "g2", "g3"} { // the empty one is none
			if rapid.Bool().Draw(t, group) {
				c.Groups = append(c.Groups, group)
			}
		}
		fleet.Clusters = append(fleet.Clusters, c)
	}
	return fleet
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// genLimit draws a limit; wrong ones only if asked for.
func genLimit(t *rapid.T, label string, wrong bool) partition.IntOrString {
	texts := []string{"0%", "10%", "25%", "33.3%", "50%", "66.66%", "100%", "250%", "3", "+1", "007", ".5%"}
	if wrong {
		texts = append(texts, "0", "-1", "-10%", "", "abc", "abc%", "10%%", "5 %", "NaN%", "Inf%", "1e1%", "0x1p5%", "5_0%", "99999999999999999999", "1234567890%", "5.%", "%")
	}
	switch rapid.IntRange(0, 3).Draw(t, label+"Form") {
	case 3:
		return partition.IntOrString{}
	case 0, 1:
		return partition.FromInt(int32(rapid.IntRange(-1, 6).Draw(t, label+"Int")))
	}
	return partition.FromString(rapid.SampledFrom(texts).Draw(t, label+"Text"))
}

func genSelector(t *rapid.T, label string, keys []string, wrong bool) *selector.LabelSelector {
	s := &selector.LabelSelector{}
	value := rapid.SampledFrom([]string{"x", "eu", "y", "us", "", "gold"})
	for _, key := range keys {
		switch rapid.IntRange(0, 6).Draw(t, label+key) {
		case 0, 1:
			if s.MatchLabels == nil {
				s.MatchLabels = map[string]string{}
			}
			s.MatchLabels[key] = value.Draw(t, label+"Value")
		case 2:
			s.MatchExpressions = append(s.MatchExpressions, selector.LabelRequirement{Key: key, Operator: selector.In, Values: rapid.SliceOfN(value, 1, 3).Draw(t, label+"In")})
		case 3:
			s.MatchExpressions = append(s.MatchExpressions, selector.LabelRequirement{Key: key, Operator: selector.NotIn, Values: rapid.SliceOfN(value, 1, 2).Draw(t, label+"NotIn")})
		case 4:
			s.MatchExpressions = append(s.MatchExpressions, selector.LabelRequirement{Key: key, Operator: rapid.SampledFrom([]selector.LabelOperator{selector.Exists, selector.DoesNotExist}).Draw(t, label+"Operator")})
		case 5:
			if wrong {
				s.MatchExpressions = append(s.MatchExpressions, selector.LabelRequirement{Key: key, Operator: "Near"})
			}
		}
	}
	return s
}

func genStrategy(t *rapid.T, wrong bool) partition.Strategy {
	s := partition.Strategy{
		MaxUnavailable:           genLimit(t, "maxUnavailable", wrong),
		MaxUnavailablePartitions: genLimit(t, "maxUnavailablePartitions", wrong),
		AutoPartitionSize:        genLimit(t, "autoPartitionSize", wrong),
	}
	if rapid.Bool().Draw(t, "threshold") {
		n := rapid.IntRange(-1, 8).Draw(t, "autoPartitionThreshold")
		s.AutoPartitionThreshold = &n
	}
	if rapid.Bool().Draw(t, "batch") {
		low := 1
		if wrong {
			low = -1
		}
		n := rapid.IntRange(low, 5).Draw(t, "maxNew")
		s.MaxNew = &n
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "partitions") {
		d := partition.Definition{Name: rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "name"), MaxUnavailable: genLimit(t, fmt.Sprint("own", i), wrong)}
		if rapid.IntRange(0, 7).Draw(t, "byName") == 3 {
			d.ClusterName = rapid.SampledFrom([]string{"c0", "c1", "x"}).Draw(t, "clusterName")
		}
		if rapid.IntRange(0, 3).Draw(t, "bySelector") > 0 {
			d.ClusterSelector = genSelector(t, "selector", []string{"env", "ring"}, wrong)
		}
		if rapid.IntRange(0, 5).Draw(t, "byGroup") == 3 {
			d.ClusterGroup = rapid.SampledFrom([]string{"g1", "g3"}).Draw(t, "clusterGroup")
		}
		if rapid.IntRange(0, 5).Draw(t, "byGroupSelector") == 3 {
			d.ClusterGroupSelector = genSelector(t, "groupSelector", []string{"region", "tier"}, wrong)
		}
		s.Partitions = append(s.Partitions, d)
	}
	return s
}

func genOptions(t *rapid.T, mode partition.Mode) partition.Options {
	o := partition.Options{
		Mode:      mode,
		Leftovers: rapid.SampledFrom([]partition.Leftovers{"", partition.ExcludeLeftovers, partition.AppendLeftovers}).Draw(t, "leftovers"),
		Paused:    rapid.SampledFrom([]partition.Paused{"", partition.SkipPaused, partition.BlockPaused}).Draw(t, "pausedOption"),
		Offline:   rapid.SampledFrom([]partition.Offline{"", partition.CountOffline, partition.ExcludeOffline}).Draw(t, "offlineOption"),
		Releases:  rapid.SampledFrom([]partition.Releases{"", partition.ByBatch, partition.ByBudget}).Draw(t, "releases"),
	}
	if rapid.Bool().Draw(t, "perStep") {
		o.MaxPerStep = count(rapid.IntRange(1, 6).Draw(t, "maxPerStep"))
	}
	if rapid.Bool().Draw(t, "display") {
		label := rapid.SampledFrom([]string{"", "env"}).Draw(t, "displayNameLabel")
		o.DisplayNameLabel = &label
	}
	return o
}
