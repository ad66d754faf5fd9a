package selector_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/selector"
)

// Compile once, match often. The third answer, a missing key, is the caller's to interpret.
func Example() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		panic(err)
	}
	sel, err := env.Compile("resource.metadata['tier'] == 'gold' && resource.kind in ['Node', 'VM']")
	if err != nil {
		panic(err)
	}
	vars := env.NewValues()
	for _, resource := range []struct {
		name, kind string
		metadata   map[string]string
	}{
		{"node-1", "Node", map[string]string{"tier": "gold"}},
		{"node-2", "Node", map[string]string{"tier": "silver"}},
		{"node-3", "Node", nil},
	} {
		if err := errors.Join(vars.SetString("resource.kind", resource.kind), vars.Set("resource.metadata", resource.metadata)); err != nil {
			panic(err)
		}
		ok, err := sel.Match(vars)
		fmt.Println(resource.name, ok, errors.Is(err, selector.ErrMissingKey))
	}
	fmt.Println("reads", sel.Variables())
	fmt.Println("implies", sel.Terms())
	// Output:
	// node-1 true false
	// node-2 false false
	// node-3 false true
	// reads [resource.kind resource.metadata]
	// implies [resource.kind in ['Node', 'VM'] resource.metadata['tier'] in ['gold']]
}

// Whatever is wrong is found when compiling, with its place and a remedy.
func ExampleEnv_Compile_errors() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		panic(err)
	}
	for _, text := range []string{
		"deployment.metadata['layer'] == 'node' AND resource.metadata['cluster'] == 'prod-east'",
		"resource.knd == 'Node'",
		"resource.name",
		"has(resource.metadata['team'])",
		"resource.metadata.exists(key, key == 'team')",
		"resource.name.matches('web-(')",
	} {
		_, err := env.Compile(text)
		fmt.Println(err)
	}
	// Output:
	// selector: 1:40: syntax error at AND (write && for AND)
	// selector: 1:1: resource.knd is not declared (did you mean resource.kind?)
	// selector: 1:1: the result is not a bool (compare it, as in resource.name == '…')
	// selector: 1:1: has() takes a selection such as m.key (write has(m.key) or 'key' in m)
	// selector: 1:1: resource.metadata can only be asked for keys (use resource.metadata['key'], 'key' in resource.metadata or has(resource.metadata.key))
	// selector: 1:23: invalid regular expression: missing closing ): `web-(` (the syntax is that of RE2)
}

// machine is a host's own type. What is no map is put into an interface once, so that looking it up
// allocates nothing.
type machine struct {
	name, kind, createdAt any
	labels                map[string]string
}

// Lookup makes a machine the variables of an expression, without this package being imported.
func (m *machine) Lookup(name string) (any, bool) {
	switch name {
	case "machine.name":
		return m.name, true
	case "machine.kind":
		return m.kind, true
	case "machine.createdAt":
		return m.createdAt, true
	case "machine.labels":
		return m.labels, true
	}
	return nil, false
}

// A host declares its own variables and binds its own type.
func ExampleNewEnv_ownVariables() {
	env, err := selector.NewEnv(selector.Schema{
		{Name: "machine.name", Type: selector.String},
		{Name: "machine.kind", Type: selector.String},
		{Name: "machine.createdAt", Type: selector.Timestamp},
		{Name: "machine.labels", Type: selector.StringMap},
	}, selector.Limits{})
	if err != nil {
		panic(err)
	}
	sel, err := env.Compile("machine.createdAt < timestamp('2026-01-01T00:00:00Z') && !('pinned' in machine.labels)")
	if err != nil {
		panic(err)
	}
	old := &machine{name: "m-1", kind: "vm", createdAt: time.Date(2025, 6, 1, 0, 0, 0, 0, time.UTC)}
	fmt.Println(sel.Match(old))
	// Output: true <nil>
}

// A call site that knows resources and nothing else says so in its schema.
func ExampleSchema_Only() {
	schema, err := selector.DefaultSchema().Only("resource")
	if err != nil {
		panic(err)
	}
	env, err := selector.NewEnv(schema, selector.Limits{})
	if err != nil {
		panic(err)
	}
	_, err = env.Compile("resource.kind == 'Node' && deployment.name == 'kubelet'")
	fmt.Println(err)
	// Output: selector: 1:28: deployment.name is not declared (names begin with resource)
}

// Label selectors over plain maps, as Kubernetes writes them.
func ExampleLabelSelector() {
	var l selector.LabelSelector
	err := json.Unmarshal([]byte(`{
		"matchLabels": {"env": "prod"},
		"matchExpressions": [{"key": "canary", "operator": "DoesNotExist"}, {"key": "region", "operator": "In", "values": ["us", "eu"]}]
	}`), &l)
	if err != nil {
		panic(err)
	}
	labels, err := l.Compile()
	if err != nil {
		panic(err)
	}
	fmt.Println(labels)
	fmt.Println(labels.Match(map[string]string{"env": "prod", "region": "eu"}))
	fmt.Println(labels.Match(map[string]string{"env": "prod", "region": "eu", "canary": ""}))

	// The same over a variable of a schema is an ordinary selector.
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		panic(err)
	}
	sel, err := env.CompileLabels("resource.metadata", l)
	if err != nil {
		panic(err)
	}
	fmt.Println(sel)
	// Output:
	// env=prod,!canary,region in (eu,us)
	// true
	// false
	// "env" in resource.metadata && resource.metadata["env"] == "prod" && !("canary" in resource.metadata) && "region" in resource.metadata && resource.metadata["region"] in ["eu", "us"]
}

// An index finds the few clusters that a selector can match, among however many.
func ExampleIndex() {
	clusters := []map[string]string{
		{"env": "prod", "region": "us"},
		{"env": "prod", "region": "eu"},
		{"env": "staging", "region": "eu"},
	}
	index := selector.NewIndex(selector.LabelsVariable)
	for i, labels := range clusters {
		if err := index.Put(i, selector.LabelMap(labels)); err != nil {
			panic(err)
		}
	}
	sel, err := selector.LabelSelector{MatchLabels: map[string]string{"env": "prod", "region": "eu"}}.Compile()
	if err != nil {
		panic(err)
	}
	for i := range index.Candidates(sel.Terms()) {
		fmt.Println("candidate", i, sel.Match(clusters[i]))
	}
	// Output:
	// candidate 0 false
	// candidate 1 true
}
