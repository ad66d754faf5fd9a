package selector_test

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/tranche-dev/tranche/selector"
)

const scanned = "resource.metadata['cluster'] == 'cluster-7' && resource.metadata['region'].startsWith('us-')"

// fleet makes resources of which one in a hundred is in cluster-7, with 16 labels each.
func fleet(n int) []*boxed {
	var names, values [16]string
	for k := range names {
		names[k], values[k] = fmt.Sprintf("key-%d", k), fmt.Sprintf("value-%d", k)
	}
	kind := any("Node")
	list := make([]*boxed, n)
	for i := range list {
		metadata := make(map[string]string, 16)
		metadata["cluster"] = fmt.Sprintf("cluster-%d", i%100)
		metadata["region"] = "us-east-1"
		for k := 2; k < 16; k++ {
			metadata[names[k]] = values[(k+i)%16]
		}
		id := fmt.Sprintf("r-%d", i)
		list[i] = &boxed{id: id, name: id, kind: kind, metadata: metadata}
	}
	return list
}

func indexOf(b *testing.B, list []*boxed) *selector.Index {
	index := selector.NewIndex("resource.metadata")
	for i, r := range list {
		if err := index.Put(i, r); err != nil {
			b.Fatal(err)
		}
	}
	return index
}

// BenchmarkScan finds the matches among 10,000 resources in every way there is.
func BenchmarkScan(b *testing.B) {
	const n = 10_000
	list := fleet(n)
	env := testEnv(b)
	sel := must(env.Compile(scanned))
	library := must(env.CompileCEL(scanned))
	labels := must(selector.LabelSelector{MatchLabels: map[string]string{"cluster": "cluster-7"}}.Compile())
	scan := func(b *testing.B, find func() int) {
		b.ReportAllocs()
		found := 0
		for b.Loop() {
			found = find()
		}
		if found != n/100 {
			b.Fatal(found)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/resource")
	}
	b.Run(fmt.Sprintf("n=%d/map-each-time", n), func(b *testing.B) {
		nested := must(cel.NewEnv(cel.Variable("resource", cel.MapType(cel.StringType, cel.DynType))))
		checked, issues := nested.Compile(scanned)
		if issues.Err() != nil {
			b.Fatal(issues.Err())
		}
		p := must(nested.Program(checked, cel.EvalOptions(cel.OptOptimize)))
		scan(b, func() int {
			found := 0
			for _, r := range list {
				out, _, _ := p.Eval(toMap(&node{ID: r.id.(string), Name: r.name.(string), Kind: r.kind.(string), Metadata: r.metadata.(map[string]string)}))
				if out == types.True {
					found++
				}
			}
			return found
		})
	})
	match := func(s *selector.Selector) func() int {
		return func() int {
			found := 0
			for _, r := range list {
				if ok, _ := s.Match(r); ok {
					found++
				}
			}
			return found
		}
	}
	b.Run(fmt.Sprintf("n=%d/selector-cel", n), func(b *testing.B) { scan(b, match(library)) })
	b.Run(fmt.Sprintf("n=%d/selector", n), func(b *testing.B) { scan(b, match(sel)) })
	b.Run(fmt.Sprintf("n=%d/selector-values", n), func(b *testing.B) {
		vars := env.NewValues()
		scan(b, func() int {
			found := 0
			for _, r := range list {
				vars.Set("resource.metadata", r.metadata)
				if ok, _ := sel.Match(vars); ok {
					found++
				}
			}
			return found
		})
	})
	b.Run(fmt.Sprintf("n=%d/labels", n), func(b *testing.B) {
		scan(b, func() int {
			found := 0
			for _, r := range list {
				if labels.Match(r.metadata.(map[string]string)) {
					found++
				}
			}
			return found
		})
	})
	b.Run(fmt.Sprintf("n=%d/index", n), func(b *testing.B) {
		index := indexOf(b, list)
		scan(b, func() int {
			found := 0
			for range index.Match(sel, func(i int) selector.Vars { return list[i] }) {
				found++
			}
			return found
		})
	})
}

// BenchmarkIndex shows what an index costs to build, to keep up to date, and to ask, as it grows.
func BenchmarkIndex(b *testing.B) {
	env := testEnv(b)
	sel := must(env.Compile(scanned))
	labels := must(selector.LabelSelector{MatchLabels: map[string]string{"cluster": "cluster-7", "region": "us-east-1"}}.Compile())
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		if n > 10_000 && testing.Short() {
			continue
		}
		list := fleet(n)
		b.Run(fmt.Sprintf("n=%d/build", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				indexOf(b, list)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/resource")
		})
		index := indexOf(b, list)
		b.Run(fmt.Sprintf("n=%d/update", n), func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7919) % n
				index.Put(i, list[i])
			}
		})
		b.Run(fmt.Sprintf("n=%d/query", n), func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				found = 0
				for range index.Match(sel, func(i int) selector.Vars { return list[i] }) {
					found++
				}
			}
			if found != n/100 {
				b.Fatal(found)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(found), "ns/match")
		})
		// The same, but every candidate is looked at.
		b.Run(fmt.Sprintf("n=%d/query-and-evaluate", n), func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				found = 0
				for i := range index.Candidates(sel.Terms()) {
					if ok, _ := sel.Match(list[i]); ok {
						found++
					}
				}
			}
			if found != n/100 {
				b.Fatal(found)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(found), "ns/match")
		})
		b.Run(fmt.Sprintf("n=%d/query-labels", n), func(b *testing.B) {
			plain := selector.NewIndex(selector.LabelsVariable)
			for i, r := range list {
				if err := plain.Put(i, selector.LabelMap(r.metadata.(map[string]string))); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				found = 0
				for range plain.MatchLabels(labels, func(i int) map[string]string { return list[i].metadata.(map[string]string) }) {
					found++
				}
			}
			if found != n/100 {
				b.Fatal(found)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(found), "ns/match")
		})
	}
}

// BenchmarkCompile shows what an expression costs before it is ever matched.
func BenchmarkCompile(b *testing.B) {
	env := testEnv(b)
	for _, w := range workloads() {
		b.Run(w.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := env.Compile(w.expr); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("new-env", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			testEnv(b)
		}
	})
	b.Run("labels", func(b *testing.B) {
		l := selector.LabelSelector{MatchLabels: map[string]string{"a": "b", "c": "d"}}
		b.ReportAllocs()
		for b.Loop() {
			must(l.Compile())
		}
	})
}
