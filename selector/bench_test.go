package selector_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/tranche-dev/tranche/selector"
)

// node is what a host has: a struct with a map of labels.
type node struct {
	ID, Name, Kind string
	Metadata       map[string]string
	Labels         []string
}

// aNode has strings of its own, as after decoding: keys that a program and its data share are found
// sooner.
func aNode() *node {
	n := &node{ID: "r-17", Name: "web-17", Kind: "Cluster", Metadata: map[string]string{}, Labels: []string{"a", "b", "c", "d", "team-x"}}
	for _, pair := range []string{"cluster=prod-east", "tier=gold", "region=us-east-1", "canary=true"} {
		key, value, _ := strings.Cut(pair, "=")
		n.Metadata[key] = value
	}
	for i := len(n.Metadata); i < 16; i++ {
		n.Metadata[fmt.Sprintf("key-%d", i)] = fmt.Sprintf("value-%d", i)
	}
	return n
}

// boxed is how a host binds its struct without allocating: what is not a pointer inside is put into
// an interface once.
type boxed struct {
	id, name, kind, metadata, labels any
}

func box(n *node) *boxed { return &boxed{n.ID, n.Name, n.Kind, n.Metadata, n.Labels} }

func (b *boxed) Lookup(name string) (any, bool) {
	switch name {
	case "resource.kind":
		return b.kind, true
	case "resource.metadata":
		return b.metadata, true
	case "resource.name":
		return b.name, true
	case "resource.id":
		return b.id, true
	case "resource.labels":
		return b.labels, true
	}
	return nil, false
}

// flat and celBoxed are the same two things as activations of the CEL library, without this package
// in between.
type flat struct{ *node }

func (f *flat) Parent() interpreter.Activation { return nil }

func (f *flat) ResolveName(name string) (any, bool) {
	switch name {
	case "resource.kind":
		return f.Kind, true
	case "resource.metadata":
		return f.Metadata, true
	case "resource.name":
		return f.Name, true
	case "resource.labels":
		return f.Labels, true
	}
	return nil, false
}

type celBoxed struct{ kind, name, metadata, labels any }

func (f *celBoxed) Parent() interpreter.Activation { return nil }

func (f *celBoxed) ResolveName(name string) (any, bool) {
	switch name {
	case "resource.kind":
		return f.kind, true
	case "resource.metadata":
		return f.metadata, true
	case "resource.name":
		return f.name, true
	case "resource.labels":
		return f.labels, true
	}
	return nil, false
}

func toMap(n *node) map[string]any {
	metadata := make(map[string]any, len(n.Metadata))
	for k, v := range n.Metadata {
		metadata[k] = v
	}
	return map[string]any{"resource": map[string]any{"id": n.ID, "name": n.Name, "kind": n.Kind, "metadata": metadata, "labels": n.Labels}}
}

var (
	sink    bool
	sinkErr error
	pattern = regexp.MustCompile(`^web-[0-9]+$`)
)

type workload struct {
	name   string
	expr   string
	hand   func(n *node) bool
	labels *selector.LabelSelector
}

func workloads() []workload {
	return []workload{
		{"kind", "resource.kind == 'Cluster'", func(n *node) bool { return n.Kind == "Cluster" }, nil},
		{"key", "resource.metadata['cluster'] == 'prod-east'", func(n *node) bool { v, ok := n.Metadata["cluster"]; return ok && v == "prod-east" },
			&selector.LabelSelector{MatchLabels: map[string]string{"cluster": "prod-east"}}},
		{"and3", "resource.kind == 'Cluster' && resource.metadata['cluster'] == 'prod-east' && resource.metadata['tier'] == 'gold'",
			func(n *node) bool {
				if n.Kind != "Cluster" {
					return false
				}
				if v, ok := n.Metadata["cluster"]; !ok || v != "prod-east" {
					return false
				}
				v, ok := n.Metadata["tier"]
				return ok && v == "gold"
			}, &selector.LabelSelector{MatchLabels: map[string]string{"cluster": "prod-east", "tier": "gold", "canary": "true"}}},
		{"in3", "resource.metadata['tier'] in ['bronze', 'silver', 'gold']", func(n *node) bool {
			switch n.Metadata["tier"] {
			case "bronze", "silver", "gold":
				return true
			}
			return false
		}, &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "tier", Operator: selector.In, Values: []string{"bronze", "silver", "gold"}}}}},
		{"canary", "'canary' in resource.metadata && resource.metadata['canary'] == 'true'", func(n *node) bool {
			v, ok := n.Metadata["canary"]
			return ok && v == "true"
		}, &selector.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}},
		{"prefix", "resource.metadata['region'].startsWith('us-')", func(n *node) bool { return strings.HasPrefix(n.Metadata["region"], "us-") }, nil},
		{"regex", "resource.name.matches('^web-[0-9]+$')", func(n *node) bool { return pattern.MatchString(n.Name) }, nil},
		{"exists", "resource.labels.exists(l, l.startsWith('team-'))", func(n *node) bool {
			for _, l := range n.Labels {
				if strings.HasPrefix(l, "team-") {
					return true
				}
			}
			return false
		}, nil},
	}
}

func testEnv(tb testing.TB) *selector.Env {
	tb.Helper()
	schema := append(selector.DefaultSchema(), selector.Variable{Name: "resource.labels", Type: selector.StringList})
	env, err := selector.NewEnv(schema, selector.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return env
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// BenchmarkMatch shows one evaluation in every way there is: the first four columns are the CEL
// library as others use it, the next three this package on it and beside it, the last two what a
// label selector and a predicate written by hand cost.
func BenchmarkMatch(b *testing.B) {
	env := testEnv(b)
	nested := must(cel.NewEnv(cel.Variable("resource", cel.MapType(cel.StringType, cel.DynType))))
	flatEnv := must(cel.NewEnv(cel.Variable("resource.kind", cel.StringType), cel.Variable("resource.name", cel.StringType),
		cel.Variable("resource.metadata", cel.MapType(cel.StringType, cel.StringType)), cel.Variable("resource.labels", cel.ListType(cel.StringType))))
	plan := func(e *cel.Env, text string) cel.Program {
		checked, issues := e.Compile(text)
		if issues.Err() != nil {
			b.Fatal(issues.Err())
		}
		return must(e.Program(checked, cel.EvalOptions(cel.OptOptimize)))
	}
	n := aNode()
	eval := func(b *testing.B, p cel.Program, vars func() any) {
		b.ReportAllocs()
		for b.Loop() {
			out, _, err := p.Eval(vars())
			sink, sinkErr = out == types.True, err
		}
		if !sink || sinkErr != nil {
			b.Fatal(sink, sinkErr)
		}
	}
	for _, w := range workloads() {
		match := func(b *testing.B, s *selector.Selector, vars selector.Vars) {
			b.ReportAllocs()
			for b.Loop() {
				ok, err := s.Match(vars)
				if err != nil {
					b.Fatal(err)
				}
				sink = ok
			}
			if !sink {
				b.Fatal("no match")
			}
		}
		b.Run(w.name+"/map-prebuilt", func(b *testing.B) {
			vars := toMap(n)
			eval(b, plan(nested, w.expr), func() any { return vars })
		})
		b.Run(w.name+"/map-each-time", func(b *testing.B) {
			eval(b, plan(nested, w.expr), func() any { return toMap(n) })
		})
		b.Run(w.name+"/flat", func(b *testing.B) {
			vars := &flat{n}
			eval(b, plan(flatEnv, w.expr), func() any { return vars })
		})
		b.Run(w.name+"/flat-boxed", func(b *testing.B) {
			metadata := map[ref.Val]ref.Val{}
			for k, v := range n.Metadata {
				metadata[types.String(k)] = types.String(v)
			}
			vars := &celBoxed{types.String(n.Kind), types.String(n.Name), types.NewRefValMap(types.DefaultTypeAdapter, metadata),
				types.NewStringList(types.DefaultTypeAdapter, n.Labels)}
			eval(b, plan(flatEnv, w.expr), func() any { return vars })
		})
		values := env.NewValues()
		for name, value := range map[string]any{"resource.kind": n.Kind, "resource.name": n.Name, "resource.metadata": n.Metadata, "resource.labels": n.Labels} {
			if err := values.Set(name, value); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(w.name+"/selector-cel-values", func(b *testing.B) { match(b, must(env.CompileCEL(w.expr)), values) })
		b.Run(w.name+"/selector-cel", func(b *testing.B) { match(b, must(env.CompileCEL(w.expr)), box(n)) })
		if s := must(env.Compile(w.expr)); s.Native() {
			b.Run(w.name+"/selector", func(b *testing.B) { match(b, s, box(n)) })
			b.Run(w.name+"/selector-values", func(b *testing.B) { match(b, s, values) })
		}
		if w.labels != nil {
			b.Run(w.name+"/labels", func(b *testing.B) {
				l := must(w.labels.Compile())
				b.ReportAllocs()
				for b.Loop() {
					sink = l.Match(n.Metadata)
				}
			})
		}
		b.Run(w.name+"/by-hand", func(b *testing.B) {
			hand := w.hand
			b.ReportAllocs()
			for b.Loop() {
				sink = hand(n)
			}
			if !sink {
				b.Fatal("no match")
			}
		})
	}
}
