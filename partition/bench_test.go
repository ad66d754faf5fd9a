package partition_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/selector"
)

// benchFleet has clusters of 10 labels, spread evenly over 20 values of env, and in three of 20
// groups each. Every cluster has strings and maps of its own, as after decoding.
func benchFleet(n int, state partition.State) partition.Fleet {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	fleet := partition.Fleet{Groups: map[string]map[string]string{}, Clusters: make([]partition.Cluster, n)}
	for g := range 20 {
		fleet.Groups[fmt.Sprintf("group-%d", g)] = map[string]string{"ring": fmt.Sprintf("ring-%d", g), "kind": "edge"}
	}
	for i := range fleet.Clusters {
		labels := map[string]string{"env": fmt.Sprintf("env-%d", i%20)}
		for k := range 9 {
			labels[fmt.Sprintf("label-%d.example.com/name", k)] = fmt.Sprintf("value-%d", random.IntN(50))
		}
		c := partition.Cluster{Namespace: "fleet-default", Name: fmt.Sprintf("cluster-%07d", i), Labels: labels, Wanted: newVersion, State: state}
		for g := range 3 {
			c.Groups = append(c.Groups, fmt.Sprintf("group-%d", (i+7*g)%20))
		}
		fleet.Clusters[i] = c
	}
	return fleet
}

// benchStrategy has so many manual partitions, which share all clusters between them.
func benchStrategy(kind string, partitions int) partition.Strategy {
	s := partition.Strategy{MaxUnavailable: partition.FromString("10%")}
	for p := range partitions {
		var envs, rings []string
		for v := p; v < 20; v += partitions {
			envs = append(envs, fmt.Sprintf("env-%d", v))
			rings = append(rings, fmt.Sprintf("ring-%d", v))
		}
		d := partition.Definition{Name: fmt.Sprint(p)}
		switch kind {
		case "matchLabels":
			d.ClusterSelector = &selector.LabelSelector{MatchLabels: map[string]string{"env": envs[0]}}
		case "keys":
			d.ClusterSelector = &selector.LabelSelector{MatchLabels: map[string]string{fmt.Sprintf("label-%d.example.com/name", p): "value-7"}}
		case "In":
			d.ClusterSelector = &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "env", Operator: selector.In, Values: envs}}}
		case "groups":
			d.ClusterGroupSelector = &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "ring", Operator: selector.In, Values: rings}}}
		}
		s.Partitions = append(s.Partitions, d)
	}
	return s
}

func sizes(b *testing.B, run func(b *testing.B, n int)) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { run(b, n) })
	}
}

func perCluster(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/cluster")
}

var (
	benchCompiled *partition.Compiled
	benchStep     partition.Step
	benchResult   partition.Result
	benchCount    int
	benchMembers  [][]*partition.Cluster
	benchClasses  []partition.Classes
)

// fleetMatcher is one partition as Fleet's code has it: a list of criteria, each a function of the
// cluster and of one of its groups, and a selector of requirements that look a label up twice.
type fleetMatcher struct {
	criteria []func(name, group string, groupLabels, labels map[string]string) bool
}

func fleetRequirement(r selector.LabelRequirement, labels map[string]string) bool {
	_, has := labels[r.Key]
	switch r.Operator {
	case selector.In:
		return has && slices.Contains(r.Values, labels[r.Key])
	case selector.NotIn:
		return !has || !slices.Contains(r.Values, labels[r.Key])
	case selector.Exists:
		return has
	}
	return !has
}

func newFleetMatcher(d partition.Definition) (m fleetMatcher) {
	requirements := func(l *selector.LabelSelector) (list []selector.LabelRequirement) {
		for k, v := range l.MatchLabels {
			list = append(list, selector.LabelRequirement{Key: k, Operator: selector.In, Values: []string{v}})
		}
		return append(list, l.MatchExpressions...)
	}
	all := func(list []selector.LabelRequirement, labels map[string]string) bool {
		for _, r := range list {
			if !fleetRequirement(r, labels) {
				return false
			}
		}
		return true
	}
	if d.ClusterGroupSelector != nil {
		list := requirements(d.ClusterGroupSelector)
		m.criteria = append(m.criteria, func(_, _ string, groupLabels, _ map[string]string) bool { return all(list, groupLabels) })
	}
	if d.ClusterSelector != nil {
		list := requirements(d.ClusterSelector)
		m.criteria = append(m.criteria, func(_, _ string, _, labels map[string]string) bool { return all(list, labels) })
	}
	return m
}

func (m fleetMatcher) match(c *partition.Cluster, groups map[string]map[string]string) bool {
	one := func(group string, groupLabels map[string]string) bool {
		for _, criterion := range m.criteria {
			if !criterion(c.Name, group, groupLabels, c.Labels) {
				return false
			}
		}
		return len(m.criteria) > 0
	}
	if len(c.Groups) == 0 {
		return one("", nil)
	}
	for _, group := range c.Groups {
		if one(group, groups[group]) {
			return true
		}
	}
	return false
}

// fleetMembers evaluates every selector for every cluster, partition by partition.
func fleetMembers(strategy partition.Strategy, fleet partition.Fleet) [][]*partition.Cluster {
	var parts [][]*partition.Cluster
	for _, d := range strategy.Partitions {
		m := newFleetMatcher(d)
		var members []*partition.Cluster
		for i := range fleet.Clusters {
			if m.match(&fleet.Clusters[i], fleet.Groups) {
				members = append(members, &fleet.Clusters[i])
			}
		}
		parts = append(parts, members)
	}
	return parts
}

// BenchmarkMembers finds the members of manual partitions, compilation of the selectors included,
// beside a reference that evaluates every selector for every cluster. The two take turns, so that
// whatever else the machine does slows down both, and the best of each counts: give it a -benchtime
// of at least 6x.
func BenchmarkMembers(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		fleet := benchFleet(n, healthy(oldVersion))
		bare := fleet
		bare.Clusters = slices.Clone(fleet.Clusters)
		for i := range bare.Clusters {
			bare.Clusters[i].Groups = nil
		}
		for _, row := range []struct {
			kind       string
			partitions int
			fleet      partition.Fleet
		}{{"matchLabels", 4, bare}, {"matchLabels", 20, bare}, {"matchLabels+3groups", 4, fleet}, {"In", 4, bare}, {"In", 20, bare}, {"groups", 4, fleet}, {"groups", 20, fleet}, {"keys", 20, bare}, {"keys", 100, bare}} {
			kind := row.kind
			if kind == "matchLabels+3groups" {
				kind = "matchLabels"
			}
			strategy := benchStrategy(kind, row.partitions)
			b.Run(fmt.Sprintf("%s/partitions=%d", row.kind, row.partitions), func(b *testing.B) {
				m := partition.NewMembers(strategy, row.fleet)
				own, reference := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
				for b.Loop() {
					start := time.Now()
					benchCount = m.Find()
					middle := time.Now()
					benchMembers = fleetMembers(strategy, row.fleet)
					own, reference = min(own, middle.Sub(start)), min(reference, time.Since(middle))
				}
				b.ReportMetric(0, "ns/op") // of both together: of no use
				b.ReportMetric(float64(own.Nanoseconds())/float64(n), "ns/cluster")
				b.ReportMetric(float64(reference.Nanoseconds())/float64(n), "reference-ns/cluster")
				b.ReportMetric(float64(reference)/float64(own), "times-faster")
				b.ReportMetric(testing.AllocsPerRun(1, func() { m.Find() }), "allocs")
			})
		}
	})
}

// BenchmarkCompile is everything: order, members, limits, counts. Automatic, and manual with 4 and
// 20 partitions.
func BenchmarkCompile(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		fleet := benchFleet(n, healthy(oldVersion))
		for _, row := range []struct {
			name     string
			strategy partition.Strategy
		}{{"automatic", partition.Strategy{MaxUnavailable: partition.FromString("10%")}}, {"manual=4", benchStrategy("matchLabels", 4)}, {"manual=20", benchStrategy("matchLabels", 20)}} {
			b.Run(row.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if benchCompiled, err = partition.Compile(row.strategy, fleet, partition.Options{}); err != nil {
						b.Fatal(err)
					}
				}
				perCluster(b, n)
			})
		}
	})
}

func benchCompile(b *testing.B, strategy partition.Strategy, fleet partition.Fleet) *partition.Compiled {
	b.Helper()
	compiled, err := partition.Compile(strategy, fleet, partition.Options{})
	if err != nil {
		b.Fatal(err)
	}
	return compiled
}

// plainCount classifies every cluster and counts by automatic partition, as one would without a
// compiled plan.
func plainCount(clusters []partition.Cluster, size int) []partition.Classes {
	parts := make([]partition.Classes, (len(clusters)+size-1)/size)
	for i := range clusters {
		p, s, wanted := &parts[i/size], &clusters[i].State, clusters[i].Wanted
		switch {
		case s.Released == wanted && s.Applied == wanted && s.Ready && !s.Offline:
			p.Done++
		case s.Paused:
			p.Held++
		case s.Released == wanted:
			p.Updating++
		case s.Released == "":
			p.Pending++
		case s.Applied != s.Released || !s.Ready || s.Offline:
			p.Broken++
		default:
			p.OutOfSync++
		}
	}
	return parts
}

// BenchmarkCount recounts all classes of automatic partitions and passes the gate: from what the
// plan knows, from a complete list of states, and beside them from the clusters themselves; up to
// date and half-way through an update.
func BenchmarkCount(b *testing.B) {
	automatic := partition.Strategy{}
	sizes(b, func(b *testing.B, n int) {
		fleet := fleetOf(n, healthy(newVersion))
		states := make([]partition.State, n)
		for _, row := range []struct {
			name string
			half partition.State
		}{{"uptodate", healthy(newVersion)}, {"updating", healthy(oldVersion)}} {
			for i := range states {
				states[i] = healthy(newVersion)
				if i >= n/2 {
					states[i] = row.half
				}
				fleet.Clusters[i].State = states[i]
			}
			compiled := benchCompile(b, automatic, fleet)
			b.Run(row.name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					compiled.Recount()
					compiled.Step(&benchStep)
				}
				perCluster(b, n)
			})
			b.Run(row.name+"/reference", func(b *testing.B) {
				for b.Loop() {
					benchClasses = plainCount(fleet.Clusters, (n+3)/4)
				}
				perCluster(b, n)
			})
			b.Run(row.name+"/relist", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := compiled.UpdateAll(states); err != nil {
						b.Fatal(err)
					}
					compiled.Step(&benchStep)
				}
				perCluster(b, n)
			})
		}
	})
}

// BenchmarkUpdate is one event of a cluster on a compiled plan, anywhere in the fleet.
func BenchmarkUpdate(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		fleet := benchFleet(n, healthy(oldVersion))
		random := rand.New(rand.NewPCG(2, 2))
		order := make([]int, 4096)
		for i := range order {
			order[i] = random.IntN(n)
		}
		for _, row := range []struct {
			name     string
			strategy partition.Strategy
		}{{"automatic", partition.Strategy{}}, {"manual=4", benchStrategy("In", 4)}, {"manual=20", benchStrategy("In", 20)}} {
			compiled := benchCompile(b, row.strategy, fleet)
			b.Run(row.name, func(b *testing.B) {
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					state := healthy(oldVersion)
					state.Ready = i&4096 != 0
					if _, err := compiled.Update(order[i&4095], state); err != nil {
						b.Fatal(err)
					}
					i++
				}
			})
		}
	})
}

// BenchmarkStep asks for the next batch of 50, and whether there is more.
func BenchmarkStep(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		fleet := benchFleet(n, healthy(oldVersion))
		for _, partitions := range []int{4, 20} {
			compiled := benchCompile(b, benchStrategy("In", partitions), fleet)
			b.Run(fmt.Sprintf("manual=%d", partitions), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					compiled.Step(&benchStep)
				}
				b.ReportMetric(float64(len(benchStep.Releases)), "releases")
			})
		}
	})
}

// BenchmarkPlan has the reasons, too: one for nearly every cluster.
func BenchmarkPlan(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		compiled := benchCompile(b, partition.Strategy{MaxUnavailable: partition.FromString("10%")}, fleetOf(n, healthy(oldVersion)))
		b.ReportAllocs()
		for b.Loop() {
			benchResult = compiled.Plan()
		}
		perCluster(b, n)
	})
}
