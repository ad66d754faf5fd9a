package rollout_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
)

// TestGroupBy: a pool is cut by every string variable of a resource, and by nothing else.
func TestGroupBy(t *testing.T) {
	rules := func(variable string) string {
		return policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"` + strings.ReplaceAll(variable, `"`, `\"`) + `"}}`)
	}
	for _, row := range []struct {
		variable string
		differ   func(r *rollout.Resource, name string) // makes the two resources differ
	}{
		{"resource.id", func(r *rollout.Resource, name string) {}}, // they do
		{"resource.name", func(r *rollout.Resource, name string) { r.Name = name }},
		{"resource.kind", func(r *rollout.Resource, name string) { r.Kind = name }},
		{"resource.identifier", func(r *rollout.Resource, name string) { r.Identifier = name }},
		{"resource.version", func(r *rollout.Resource, name string) { r.Version = name }},
		{"resource.metadata['my zone']", func(r *rollout.Resource, name string) { r.Metadata = map[string]string{"my zone": name} }},
		{`resource.metadata["it's"]`, func(r *rollout.Resource, name string) { r.Metadata = map[string]string{"it's": name} }},
		{"resource.metadata._azAZ09", func(r *rollout.Resource, name string) { r.Metadata = map[string]string{"_azAZ09": name} }},
		{"resource.metadata.z", func(r *rollout.Resource, name string) { r.Metadata = map[string]string{"z": name} }},
		{"resource.metadata.A", func(r *rollout.Resource, name string) { r.Metadata = map[string]string{"A": name} }},
	} {
		set := compile(t, rules(row.variable))
		for _, apart := range []bool{false, true} {
			s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
			for k := range s.Resources {
				s.Resources[k].Name = "same"
				if apart {
					row.differ(&s.Resources[k], s.Resources[k].ID)
				}
			}
			want := 1
			if apart || row.variable == "resource.id" {
				want = 2
			}
			if got := started(mustPlan(t, set, s, t0)); len(got) != want {
				t.Errorf("%s, apart %v: starts %q", row.variable, apart, got)
			}
		}
	}
	for _, variable := range []string{"", "zone", "deployment.name", "resource.", "resource.size", "resource.metadata", "resource.metadata.", "resource.metadata.9a", "resource.metadata.a-b", "resource.metadata.a/b",
		"resource.metadata.a:b", "resource.metadata.a@b", "resource.metadata.a[b", "resource.metadata.a`b", "resource.metadata.a{b", "resource.metadata['']", "resource.metadata['a", "resource.metadata[a]", `resource.metadata['a"]`,
		"resource.metadata['a'b']", "resource.metadata['a'] "} {
		parsed, err := rollout.ParsePolicies([]byte(rules(variable)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = rollout.Compile(parsed, newEnv(t))
		var fault *rollout.FieldError
		if variable == "" {
			if err != nil {
				t.Errorf("no groupBy: %v", err)
			}
		} else if !errors.As(err, &fault) || fault.Path != "rules[0].resourceConcurrency.groupBy" {
			t.Errorf("%q: %v", variable, err)
		}
	}
}
