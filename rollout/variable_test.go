package rollout_test

import (
	"errors"
	"slices"
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

// TestVariables: every expression sees every variable of what it is asked about. One that holds,
// and one that does not, is put into each place in turn: whether v2 of api starts on r1 says what
// came out.
func TestVariables(t *testing.T) {
	t.Parallel()
	const (
		resources    = "resource.id == 'r1', resource.name == 'node-1', resource.kind == 'Node', resource.identifier == 'i-1', resource.version == 'os-1', resource.metadata['zone'] == 'east'"
		environments = "environment.id == 'prod', environment.name == 'Production', environment.metadata['tier'] == 'gold'"
		deployments  = "deployment.id == 'api', deployment.name == 'API', deployment.slug == 'the-api', deployment.metadata['layer'] == 'web'"
		versions     = "version.id == 'v2', version.name == 'second', version.tag == '2.0', version.status == 'ready', version.createdAt == timestamp('2025-01-01T00:00:00Z'), version.metadata['channel'] == 'stable'"
		others       = "deployment.id == 'db', deployment.name == 'DB', deployment.slug == 'the-db', deployment.metadata['layer'] == 'data'"
		theirs       = "version.id == 'v1', version.name == 'first', version.tag == '1.0', version.status == 'ready', version.createdAt == timestamp('2025-01-01T00:00:00Z'), version.metadata['channel'] == 'old'"
		qa           = "environment.id == 'qa', environment.name == 'Quality', environment.metadata['tier'] == 'tin'"
		paused       = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}`
	)
	for _, row := range []struct {
		why       string
		variables []string
		policies  string // with EXPR where the expression belongs
		scope     string // of v2
		needs     string // of v2 from db
		refuses   bool   // it does not start if the expression holds, instead of if it does not
	}{
		{why: "policy selector", variables: []string{resources, environments, deployments}, policies: `[{"name":"p","selector":"EXPR","rules":[` + paused + `]}]`, refuses: true},
		{why: "versionSelector", variables: []string{resources, environments, deployments, versions}, policies: policy(`{"versionSelector":{"selector":"EXPR"}}`)},
		{why: "targetSelector", variables: []string{resources, environments, deployments, versions}, policies: "[]", scope: "EXPR"},
		{why: "dependsOn", variables: []string{resources, environments, others, theirs}, policies: policy(`{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && EXPR"}}`)},
		{why: "appliesTo", variables: []string{resources, environments, deployments}, policies: policy(`{"deploymentDependency":{"appliesTo":"EXPR","dependsOn":"deployment.id == 'db' && version.tag == '3.0'"}}`), refuses: true},
		{why: "dependencies of a version", variables: []string{resources, environments, others, theirs}, policies: "[]", needs: "EXPR"},
		{why: "dependsOnEnvironmentSelector", variables: []string{qa, deployments}, policies: policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'qa' && EXPR"}}`)},
		{why: "groupSelector", variables: []string{resources}, policies: policy(`{"id":"P","resourceConcurrency":{"groupSelector":"EXPR","limit":0}}`), refuses: true},
		{why: "deploymentSelector, of a bracket that is collecting", variables: []string{deployments}, policies: policy(`{"deploymentBracket":{"deploymentSelector":"EXPR","readinessWindowSeconds":600}}`), refuses: true},
		{why: "memberRoles, of who drains the node before it", variables: []string{others}, policies: policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.id == 'db' && EXPR"}}}`), refuses: true},
		{why: "dependsOn among members", variables: []string{environments, others, theirs}, refuses: false,
			policies: policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"deploymentDependency":{"appliesTo":"deployment.id == 'api'","dependsOn":"deployment.id == 'db' && EXPR"}}`)},
	} {
		for _, list := range row.variables {
			for expression := range strings.SplitSeq(list, ", ") {
				for _, holds := range []bool{true, false} {
					asked := expression
					if !holds {
						asked = strings.Replace(expression, "==", "!=", 1)
					}
					s := rollout.Snapshot{
						Resources:    []rollout.Resource{{ID: "r1", Name: "node-1", Kind: "Node", Identifier: "i-1", Version: "os-1", Metadata: map[string]string{"zone": "east"}}},
						Environments: []rollout.Environment{{ID: "prod", Name: "Production", Metadata: map[string]string{"tier": "gold"}}, {ID: "qa", Name: "Quality", Metadata: map[string]string{"tier": "tin"}}},
						Deployments: []rollout.Deployment{{ID: "api", Name: "API", Slug: "the-api", Metadata: map[string]string{"layer": "web"}},
							{ID: "db", Name: "DB", Slug: "the-db", Metadata: map[string]string{"layer": "data"}}},
						Versions: []rollout.Version{{ID: "v2", Name: "second", Tag: "2.0", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0, Metadata: map[string]string{"channel": "stable"}},
							{ID: "v1", Name: "first", Tag: "1.0", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0, Metadata: map[string]string{"channel": "old"}}},
						Targets: []rollout.Target{{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}},
							{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "db"}, Current: "v1"}},
					}
					s.Versions[0].TargetSelector = strings.ReplaceAll(row.scope, "EXPR", asked)
					if row.needs != "" {
						s.Versions[0].Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: asked}}
					}
					plan := mustPlan(t, compile(t, strings.ReplaceAll(row.policies, "EXPR", asked)), s, minute(1))
					starts := slices.Contains(started(plan), "r1/api@v2")
					if starts == (holds == row.refuses) {
						t.Errorf("%s: %s: starts %q, waits %q, tells %+v", row.why, asked, started(plan), blockers(plan), plan.Diagnostics)
					}
				}
			}
		}
	}
}
