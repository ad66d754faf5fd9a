package staged_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tranche-dev/tranche/rollout/staged"
)

// seedObjects reads the objects of KubeFleet's document through the plain way from YAML to JSON.
func seedObjects(t *testing.T) (strategies map[string]staged.Strategy, specs map[string]staged.Spec) {
	t.Helper()
	data, err := os.ReadFile("testdata/seed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	strategies, specs = map[string]staged.Strategy{}, map[string]staged.Spec{}
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document map[string]any
		if err := dec.Decode(&document); errors.Is(err, io.EOF) {
			return strategies, specs
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		var strategy staged.Strategy
		var spec staged.Spec
		switch document["kind"] {
		case "ClusterStagedUpdateStrategy", "StagedUpdateStrategy":
			err = json.Unmarshal(text, &strategy)
			strategies[strategy.Name] = strategy
		default:
			err = json.Unmarshal(text, &spec)
			specs[spec.Name] = spec
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestSeed compiles the strategies and runs of KubeFleet's document, and checks what the document
// says of them.
func TestSeed(t *testing.T) {
	strategies, specs := seedObjects(t)
	if len(strategies) != 3 || len(specs) != 3 {
		t.Fatalf("%d strategies, %d runs", len(strategies), len(specs))
	}
	fleet := staged.Fleet{Version: "latest"}
	for i, env := range []string{"staging", "staging", "staging", "canary", "canary", "production", "production", "production", "production", "development", "development", "development", "development"} {
		name := string(rune('a'+i)) + "-" + env
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"environment": env, "order": string(rune('9' - i%10)), "deployment-order": "1"}})
	}
	for name, want := range map[string]struct {
		run    string
		limits []int
		gates  []string
		order  string // the first target of the last stage
	}{
		"production-rollout":      {"example-run", []int{2, 1, 2}, []string{"before wait", "before after", "before wait after"}, "f-production"},
		"cluster-config-strategy": {"example-run-latest", []int{2, 1, 2}, []string{"wait", "before after", "wait after"}, "i-production"},
		"app-rollout-strategy":    {"app-rollout-v1-2-3", []int{3, 1}, []string{"wait", "after"}, "f-production"},
	} {
		run, err := staged.Compile(strategies[name], specs[want.run], fleet, staged.Options{Unmatched: staged.Ignore})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var limits []int
		var gates []string
		for s := range run.Stages() {
			if s.Cleanup {
				continue
			}
			limits = append(limits, s.Limit)
			text := ""
			for _, gate := range []struct {
				there bool
				name  string
			}{{s.Before.Required, " before"}, {s.Wait > 0, " wait"}, {s.After.Required, " after"}} {
				if gate.there {
					text += gate.name
				}
			}
			gates = append(gates, text[1:])
		}
		if !slices.Equal(limits, want.limits) || !slices.Equal(gates, want.gates) {
			t.Errorf("%s: limits %v, gates %v", name, limits, gates)
		}
		for target := range run.Targets(len(limits) - 1) {
			if target.Name != want.order {
				t.Errorf("%s: the last stage begins with %s, not %s", name, target.Name, want.order)
			}
			break
		}
		next, result := step(t, run, staged.Input{}, benchStart)
		switch name {
		case "production-rollout":
			if len(result.Actions) != 1 || result.Actions[0].Name != "example-run-before-staging" {
				t.Errorf("%v", result.Actions)
			}
		case "app-rollout-strategy":
			if next.Phase() != staged.PhaseInitialized || next.Spec().Namespace != "my-app-namespace" || next.Version() != "latest" {
				t.Errorf("%s %+v", next.Phase(), next.Spec())
			}
		}
	}
}
