package rollout_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

func nodeLifecycle(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/node-lifecycle.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRFCPolicyDecodes: the node policy of the bracket RFC is accepted as it is printed there.
func TestRFCPolicyDecodes(t *testing.T) {
	policies, err := rollout.ParsePolicies([]byte(nodeLifecycle(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollout.Compile(policies, newEnv(t)); err != nil {
		t.Fatal(err)
	}
	p := policies[0]
	var kinds []rollout.RuleKind
	for _, r := range p.Rules {
		kinds = append(kinds, r.Kind())
	}
	want := []rollout.RuleKind{rollout.KindBracket, rollout.KindConcurrency, rollout.KindGradualRollout, rollout.KindDependency, rollout.KindDependency, rollout.KindDependency}
	if p.Name != "Node Lifecycle" || !slices.Equal(kinds, want) {
		t.Errorf("%s with rules %v", p.Name, kinds)
	}
	if r := p.Rules[0].DeploymentBracket; *r.ReadinessWindowSeconds != 86400 || r.OverlapStrategy != bracket.Queue {
		t.Errorf("bracket %+v", r)
	}
	if got := p.Rules[1].ResourceConcurrency.Max(); got != concurrency.Percent(20) {
		t.Errorf("limit %v", got)
	}
	if r := p.Rules[2].GradualRollout; r.RolloutType != rollout.Linear || *r.TimeScaleInterval != 300 {
		t.Errorf("curve %+v", r)
	}
	if d := p.Rules[4].DeploymentDependency; d.DependsOn != "deployment.name == 'os-patch'" {
		t.Errorf("dependency %+v", d)
	}
}

// TestRFCPolicyWithAND: the second example of the RFC joins conditions with AND, which is not CEL.
// It is rejected with the position and the remedy, and not taken for a policy that matches nothing.
func TestRFCPolicyWithAND(t *testing.T) {
	policies, err := rollout.ParsePolicies([]byte(`[{
		"name": "Staging Node Lifecycle",
		"selector": "deployment.metadata['layer'] == 'node' AND resource.metadata['cluster'] == 'staging'",
		"rules": [
			{"deploymentBracket": {"readinessMode": "immediate", "deploymentSelector": "deployment.metadata['layer'] == 'node'"}},
			{"resourceConcurrency": {"groupSelector": "resource.metadata['cluster'] == 'staging'", "limitType": "percentage", "limitValue": 50}}
		]}, {
		"name": "Prod Node Lifecycle",
		"selector": "deployment.metadata['layer'] == 'node' AND resource.metadata['cluster'] == 'prod-east'",
		"rules": [
			{"deploymentBracket": {"readinessMode": "collection_window", "readinessWindowSeconds": 86400, "deploymentSelector": "deployment.metadata['layer'] == 'node'"}},
			{"resourceConcurrency": {"groupSelector": "resource.metadata['cluster'] == 'prod-east'", "limitType": "percentage", "limitValue": 20}}
		]}]`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = rollout.Compile(policies, newEnv(t))
	var paths []string
	for _, one := range joined(err) {
		var fault *rollout.FieldError
		var position *selector.CompileError
		if !errors.As(one, &fault) || !errors.As(one, &position) {
			t.Fatalf("%v is no fault with a path and a position", one)
		}
		paths = append(paths, fault.Path)
		if position.Line != 1 || position.Col != 40 || !strings.Contains(fault.Error(), "&&") {
			t.Errorf("%v: want line 1, column 40 and the hint &&", fault)
		}
	}
	if want := []string{"[0].selector", "[1].selector"}; !slices.Equal(paths, want) {
		t.Errorf("faults at %v, want %v", paths, want)
	}
}

func joined(err error) []error {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range list.Unwrap() {
			all = append(all, joined(one)...)
		}
		return all
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// TestPolicyIDsAreUTF8: no document holds another text, but a policy may be made in Go, and state
// hangs on these ids.
func TestPolicyIDsAreUTF8(t *testing.T) {
	for _, row := range []struct {
		why            string
		name, id, rule string
		want           []string
	}{
		{"all of them", "p\xff", "q\xff", "r\xff", []string{"name", "id", "rules[0].id"}},
		{"the name alone", "p\xff", "q", "r", []string{"name"}},
		{"the id alone", "p", "q\xff", "r", []string{"id"}},
	} {
		err := rollout.Policy{Name: row.name, ID: row.id, Selector: "true", Rules: []rollout.Rule{{ID: row.rule, AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(1)}}}}.Validate()
		var paths []string
		for _, fault := range joined(err) {
			if field := new(rollout.FieldError); errors.As(fault, &field) && field.Code == rollout.CodeType && strings.HasPrefix(field.Hint, "must be UTF-8") {
				paths = append(paths, field.Path)
			}
		}
		if !slices.Equal(paths, row.want) {
			t.Errorf("%s: %v, want faults at %v", row.why, err, row.want)
		}
	}
}

// TestBadPolicies: every fault is named with its path and its remedy, all of them at once, and
// nothing is guessed.
func TestBadPolicies(t *testing.T) {
	for _, row := range []struct {
		why, in string
		want    []string // code, path and the beginning of the text
	}{
		{"nothing given", `{}`, []string{"required name: is required", "required selector: is required", "required rules: is required"}},
		{"unknown field", `{"name":"p","selector":"true","rules":[{"gradualRollout":{"rolloutTyp":"linear","timeScaleInterval":1}}]}`,
			[]string{`unknown_field rules[0].gradualRollout.rolloutTyp: unknown field; did you mean "rolloutType"?`}},
		{"unknown kind", policy(`{"deploymentFreeze":{}}`), []string{`unknown_field rules[0].deploymentFreeze: unknown field`}},
		{"unknown kind that resembles none", policy(`{"freeze":{}}`), []string{`unknown_field rules[0].freeze: unknown field: besides id and createdAt a rule holds one of deploymentBracket, resourceConcurrency, gradualRollout, `}},
		{"in a list, and beside one that is nearly right", "[" + policy(`{"anyAproval":{"minApprovals":1}},{"freeze":[]}`) + "]", []string{`unknown_field [0].rules[0].anyAproval: unknown field; did you mean "anyApproval"?`,
			`unknown_field [0].rules[1].freeze: unknown field: besides id and createdAt a rule holds one of `}},
		{"what ctrlplane's API answers around a policy", `{"id":"p","name":"p","description":"","createdAt":"2026-01-01T00:00:00Z","metadata":{},"priority":0,"workspaceId":"w","enabled":true,"selector":"true","rules":[{"id":"r","policyId":"p","anyApproval":{"minApprovals":1}}]}`, []string{
			"unknown_field createdAt: unknown field: leave it out", "unknown_field description: unknown field: leave it out", "unknown_field metadata: unknown field: leave it out", "unknown_field priority: unknown field: leave it out",
			"unknown_field rules[0].policyId: unknown field: leave it out, because no plan depends on it", "unknown_field workspaceId: unknown field: leave it out"}},
		{"a rule of ctrlplane for what is measured after a job", `{"name":"p","selector":"true","rules":[{"id":"r","verification":{"metrics":[],"triggerOn":"jobSuccess"}},{"rollback":{"verification":true}}]}`, []string{
			"unknown_field rules[0].verification: unknown field: leave the rule out: the host measures, and reports the result in the verification of a job", `unknown_field rules[1].rollback.verification: unknown field`}},
		{"what its documentation writes: selectors that must all match, and labels", `[{"name":"p","selectors":[{"environment":"environment.name == 'prod'"}],"rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":{"matchLabels":{}}}},{"versionSelector":{"selector":{"matchExpression":[]}}}]}]`, []string{
			"type [0].rules[0].environmentProgression.dependsOnEnvironmentSelector: must be a string, not an object: write an expression",
			"type [0].rules[1].versionSelector.selector: must be a string, not an object: write an expression", `unknown_field [0].selectors: unknown field: write one selector, with "&&" between several`}},
		{"a selector of labels of the policy itself", `{"name":"p","selector":{"matchLabels":{}},"rules":[]}`, []string{"type selector: must be a string, not an object: write an expression"}},
		{"what a dependency names", `{"name":"p","selector":"true","rules":[{"deploymentDependency":{"dependsOn":{"name":"db"},"appliesTo":{}}}]}`,
			[]string{"type rules[0].deploymentDependency.appliesTo: must be a string, not an object: write an expression", "type rules[0].deploymentDependency.dependsOn: must be a string, not an object: write an expression"}},
		{"and in a list", `[{"name":"p","selector":{"matchLabels":{}},"rules":[]}]`, []string{"type [0].selector: must be a string, not an object: write an expression"}},
		{"its file of policies", `{"policies":[]}`, []string{"unknown_field policies: unknown field: decode what is below it"}},
		{"a manifest of its command line", `{"type":"Policy","name":"p","selector":"true","rules":[]}`, []string{"unknown_field type: unknown field: leave it out"}},
		{"no kind", policy(`{"id":"x"}`), []string{"required rules[0]: must hold one kind"}},
		{"two kinds", policy(`{"retry":{"maxRetries":1},"anyApproval":{"minApprovals":1}}`), []string{"conflict rules[0]: must hold only one kind of rule: make a rule of each"}},
		{"wrong type", policy(`{"resourceConcurrency":{"groupSelector":"true","limitType":"count","limitValue":"5"}}`), []string{"type rules[0].resourceConcurrency.limitValue: must be"}},
		{"negative limit", policy(`{"resourceConcurrency":{"groupSelector":"true","limitType":"count","limitValue":-5}}`), []string{"out_of_range rules[0].resourceConcurrency.limitValue: -5"}},
		{"fraction of a percent", policy(`{"resourceConcurrency":{"groupSelector":"true","limit":"12.5%"}}`), []string{"type rules[0].resourceConcurrency.limit: "}},
		{"negative window", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":-1}}`), []string{"out_of_range rules[0].deploymentBracket.readinessWindowSeconds: "}},
		{"window beyond ten years", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":9223372036}}`), []string{"out_of_range rules[0].deploymentBracket.readinessWindowSeconds: "}},
		{"window beyond 64 bits", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":99999999999999999999}}`), []string{"type rules[0].deploymentBracket.readinessWindowSeconds: must be a whole number"}},
		{"unknown strategy", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1,"overlapStrategy":"replace"}}`), []string{"unknown_value rules[0].deploymentBracket.overlapStrategy: "}},
		{"fields of another curve, which would do nothing", policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"positionGrowthFactor":2,"waves":[1]}},{"gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":1,"waves":[1]}},
			{"gradualRollout":{"rolloutType":"exponential","timeScaleInterval":1,"positionGrowthFactor":2,"waves":[1]}},{"gradualRollout":{"rolloutType":"waves","timeScaleInterval":1,"positionGrowthFactor":2,"waves":[1]}}`),
			[]string{"conflict rules[0].gradualRollout.positionGrowthFactor: 2: must be left out", "conflict rules[0].gradualRollout.waves: must be left out", "conflict rules[1].gradualRollout.waves: must be left out",
				"conflict rules[2].gradualRollout.waves: must be left out", "conflict rules[3].gradualRollout.positionGrowthFactor: 2: must be left out"}},
		{"typo in a selector", policy(`{"resourceConcurrency":{"groupSelector":"resource.knd == 'x'","limit":1}}`), []string{"expression rules[0].resourceConcurrency.groupSelector: "}},
		{"a selector that is no condition", `{"name":"p","selector":"resource.name","rules":[{"retry":{"maxRetries":1}}]}`, []string{"expression selector: "}},
		{"a group of resources that looks at deployments", policy(`{"resourceConcurrency":{"groupSelector":"deployment.name == 'x'","limit":1}}`),
			[]string{"expression rules[0].resourceConcurrency.groupSelector: \"deployment.name\": is not known here"}},
		{"a group of resources that looks at environments, of which the pool knows none", policy(`{"resourceConcurrency":{"groupSelector":"environment.name == 'x'","limit":1}}`),
			[]string{"expression rules[0].resourceConcurrency.groupSelector: \"environment.name\": is not known here"}},
		{"who is governed does not depend on the version, and neither does whom a dependency concerns", `{"name":"p","selector":"version.tag == 'v1'","rules":[{"deploymentDependency":{"appliesTo":"version.tag == 'v1'","dependsOn":"true"}}]}`,
			[]string{"expression selector: \"version.tag\": is not known here", "expression rules[0].deploymentDependency.appliesTo: \"version.tag\": is not known here"}},
		{"members that look at resources", policy(`{"deploymentBracket":{"deploymentSelector":"resource.name == 'x'","readinessWindowSeconds":1}}`),
			[]string{"expression rules[0].deploymentBracket.deploymentSelector: \"resource.name\": is not known here"}},
		{"declared roles that do not compile", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1,"memberRoles":{"pre":"1","post":"x"}}}`),
			[]string{"expression rules[0].deploymentBracket.memberRoles.pre: ", "expression rules[0].deploymentBracket.memberRoles.post: "}},
		{"groupBy that names no variable", policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"zone"}}`), []string{"expression rules[0].resourceConcurrency.groupBy: "}},
		{"two brackets in one policy", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1}},{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1}}`),
			[]string{"duplicate rules[1].deploymentBracket: must be in a second policy"}},
		{"turns that split a bracket", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderKey":"target","orderSalt":"version"}}`),
			[]string{"conflict rules[1].gradualRollout.orderKey: ", "conflict rules[1].gradualRollout.orderSalt: "}},
		{"an order by bracket without one", policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"orderKey":"resource_bracket","orderSalt":"group"}}`),
			[]string{"conflict rules[0].gradualRollout.orderKey: ", "conflict rules[0].gradualRollout.orderSalt: "}},
		{"every fault of a curve", policy(`{"gradualRollout":{"rolloutType":"cubic","timeScaleInterval":-1,"positionGrowthFactor":2,"waves":[0],"orderKey":"x","orderSalt":"y","orderHash":"z"}}`),
			[]string{"unknown_value rules[0].gradualRollout.rolloutType: ", "out_of_range rules[0].gradualRollout.timeScaleInterval: ",
				"out_of_range rules[0].gradualRollout.waves[0]: ", "unknown_value rules[0].gradualRollout.orderKey: ", "unknown_value rules[0].gradualRollout.orderSalt: ", "unknown_value rules[0].gradualRollout.orderHash: "}},
		{"which fields belong to a type that there is not, nobody can say", policy(`{"gradualRollout":{"rolloutType":"wave","timeScaleInterval":1,"waves":[1],"positionGrowthFactor":2}},{"gradualRollout":{"timeScaleInterval":1,"waves":[1]}}`),
			[]string{"unknown_value rules[0].gradualRollout.rolloutType: ", "required rules[1].gradualRollout.rolloutType: "}},
		{"fields of another type", policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1,"waves":[1],"positionGrowthFactor":2}}`),
			[]string{"conflict rules[0].gradualRollout.positionGrowthFactor: ", "conflict rules[0].gradualRollout.waves: "}},
		{"a growth below zero", policy(`{"gradualRollout":{"rolloutType":"exponential","timeScaleInterval":1,"positionGrowthFactor":-1}}`), []string{"out_of_range rules[0].gradualRollout.positionGrowthFactor: -1: must be at least 1"}},
		{"curves without what they need", policy(`{"gradualRollout":{"rolloutType":"exponential","timeScaleInterval":1}},{"gradualRollout":{"rolloutType":"waves","timeScaleInterval":9223372037}},{"gradualRollout":{}}`),
			[]string{"required rules[0].gradualRollout.positionGrowthFactor: ", "out_of_range rules[1].gradualRollout.timeScaleInterval: 9223372037: must be from 0 to 9223372036 seconds", "required rules[1].gradualRollout.waves: ", "required rules[2].gradualRollout.rolloutType: is required", "required rules[2].gradualRollout.timeScaleInterval: is required"}},
		{"every fault of a retry", policy(`{"retry":{"maxRetries":-1,"backoffSeconds":-1,"maxBackoffSeconds":9223372037,"backoffStrategy":"x","retryOnStatuses":["successful","queued"]}},{"retry":{}}`),
			[]string{"out_of_range rules[0].retry.maxRetries: ", "out_of_range rules[0].retry.backoffSeconds: ", "out_of_range rules[0].retry.maxBackoffSeconds: ", "unknown_value rules[0].retry.backoffStrategy: ", "conflict rules[0].retry.retryOnStatuses[0]: ", "unknown_value rules[0].retry.retryOnStatuses[1]: ", "required rules[1].retry.maxRetries: is required"}},
		{"approvals", policy(`{"anyApproval":{}},{"anyApproval":{"minApprovals":-1}}`), []string{"required rules[0].anyApproval.minApprovals: is required", "out_of_range rules[1].anyApproval.minApprovals: -1"}},
		{"dependencies", policy(`{"deploymentDependency":{"match":"most"}}`), []string{"required rules[0].deploymentDependency.dependsOn: is required", `unknown_value rules[0].deploymentDependency.match: "most"`}},
		{"an empty expression matches nothing by mistake", policy(`{"versionSelector":{"selector":""}}`), []string{"required rules[0].versionSelector.selector: is required"}},
		{"ids are unique", policy(`{"id":"a","retry":{"maxRetries":1}},{"id":"a","retry":{"maxRetries":1}}`), []string{`duplicate rules[1].id: "a": is the id of rules[0] too`}},
		{"also between policies", `[` + policy(`{"id":"a","retry":{"maxRetries":1}}`) + `,{"name":"q","selector":"true","rules":[{"id":"a","retry":{"maxRetries":1}}]}]`,
			[]string{`duplicate [1].rules[0].id: "a": is the id of [0].rules[0] too`}},
		{"also the id of a rule that holds no kind, or two", `[` + policy(`{"id":"a","retry":{"maxRetries":1}},{"id":"b"}`) + `,{"name":"q","selector":"true","rules":[{"id":"a"},{"id":"b","retry":{"maxRetries":1}},{"id":"b","retry":{"maxRetries":1},"anyApproval":{"minApprovals":1}}]}]`,
			[]string{`required [0].rules[1]: must hold one kind`, `required [1].rules[0]: must hold one kind`, `duplicate [1].rules[2].id: "b": is the id of rules[1] too`, `conflict [1].rules[2]: must hold only one kind`,
				`duplicate [1].rules[0].id: "a": is the id of [0].rules[0] too`, `duplicate [1].rules[1].id: "b": is the id of [0].rules[1] too`}},
		{"also derived ones", `[` + policy(`{"retry":{"maxRetries":1}}`) + `,{"name":"q","selector":"true","rules":[{"id":"p/retry/0","retry":{"maxRetries":1}}]}]`,
			[]string{`duplicate [1].rules[0].id: "p/retry/0": is the id of [0].rules[0] too`}},
		{"also one that is derived before in the same policy", policy(`{"retry":{"maxRetries":1}},{"id":"p/retry/0","retry":{"maxRetries":2}}`), []string{`duplicate rules[1].id: "p/retry/0": is the id of rules[0] too`}},
		{"a derived one counts the rules of its kind, those with an id among them", policy(`{"id":"p/retry/1","retry":{"maxRetries":1}},{"retry":{"maxRetries":2}}`),
			[]string{`duplicate rules[1]: "p/retry/1": is derived as its id, and is the id of rules[0]`}},
		{"policies too", `[` + policy(`{"retry":{"maxRetries":1}}`) + `,{"id":"p","name":"q","selector":"true","rules":[{"retry":{"maxRetries":1}}]}]`,
			[]string{`duplicate [1].id: "p": is the id of [0] too`, `duplicate [1].rules[0]: "p/retry/0": is derived as its id, and is the id of [0].rules[0]`}},
		{"rules that share a pool agree", policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}},{"resourceConcurrency":{"groupSelector":"true","limit":2,"sharedPool":"s"}}`),
			[]string{`conflict rules[1].resourceConcurrency.limit: 2`}},
		{"a shared pool is not another rule's own", policy(`{"id":"s","resourceConcurrency":{"groupSelector":"true","limit":1}},{"resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}`),
			[]string{`duplicate rules[1].resourceConcurrency.sharedPool: "s": is the id of rules[0]`}},
		{"nor is it that of a rule that is disabled, whose leases would count in it", `[{"name":"p","enabled":false,"selector":"true","rules":[{"id":"s","resourceConcurrency":{"groupSelector":"true","limit":1}}]},
			{"name":"q","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1,"sharedPool":"s"}}]}]`,
			[]string{`duplicate [1].rules[0].resourceConcurrency.sharedPool: "s": is the id of [0].rules[0]`}},
		{"not JSON", `{"name":`, []string{"syntax line 1, column 9"}},
		{"a disabled policy is checked as well", `{"name":"p","enabled":false,"selector":"resource.knd == 'x'","rules":[{"retry":{"maxRetries":1}}]}`, []string{"expression selector: "}},
	} {
		checkFaults(t, row.why, row.in, row.want)
	}
}

// checkFaults fails unless policies are refused with exactly these faults, in any order, each
// given by the beginning of its code and text.
func checkFaults(t *testing.T, why, document string, want []string) {
	t.Helper()
	policies, err := rollout.ParsePolicies([]byte(document))
	if err == nil {
		_, err = rollout.Compile(policies, newEnv(t), withZones())
	} else if policies != nil {
		t.Errorf("%s: there are faults, and yet policies: %v", why, policies)
	}
	var got []string
	for _, one := range joined(err) {
		var fault *rollout.FieldError
		if !errors.As(one, &fault) {
			t.Errorf("%s: %v (%T) is no *FieldError", why, one, one)
			continue
		}
		got = append(got, string(fault.Code)+" "+strings.ReplaceAll(one.Error(), "\n", " "))
	}
	slices.Sort(got)
	slices.Sort(want)
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		ok = strings.HasPrefix(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s: got\n\t%s\nwant\n\t%s", why, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

func TestCompileNeedsACompiler(t *testing.T) {
	if _, err := rollout.Compile(nil, nil); err == nil {
		t.Error("compiled without a compiler")
	}
}

// TestValidateIsPure: a faulty policy is left as it is, and a sound one has no fault.
func TestValidateIsPure(t *testing.T) {
	policies, err := rollout.ParsePolicies([]byte(nodeLifecycle(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := policies[0].Validate(); err != nil {
		t.Error(err)
	}
	if policies[0].Rules[2].GradualRollout.OrderKey != "" {
		t.Error("Validate wrote a default into its input")
	}
	policies[0].Rules = append(policies[0].Rules, rollout.Rule{})
	if policies[0].Validate() == nil {
		t.Error("a rule without a kind has no fault")
	}
}

func FuzzParsePolicies(f *testing.F) {
	f.Add([]byte(nodeLifecycle(f)))
	f.Add([]byte(`[{"name":"p","selector":"true","rules":[{"retry":{"maxRetries":1}}]}]`))
	f.Add([]byte(policy(`{"gradualRollout":{"rolloutType":"waves","timeScaleInterval":1,"waves":["10%",2]}}`)))
	env := newEnv(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		policies, err := rollout.ParsePolicies(data)
		if err != nil {
			return
		}
		set, err := rollout.Compile(policies, env)
		for _, p := range policies {
			if p.Validate() != nil && err == nil {
				t.Fatalf("Compile accepts what Validate refuses: %s", data)
			}
		}
		if err == nil {
			// I15: what is accepted can be planned with.
			if _, err := set.Plan(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}}), t0); err != nil {
				var cycle *rollout.CycleError
				if !errors.As(err, &cycle) && !errors.As(err, new(*bracket.CycleError)) && !errors.As(err, new(*bracket.OverlapError)) {
					t.Fatalf("accepted, but not planned: %v", err)
				}
			}
		}
	})
}

// TestFaultsThatFollow: what follows from another fault is not reported beside it, whoever made the
// policies.
func TestFaultsThatFollow(t *testing.T) {
	one, bad := 1, int64(-1)
	retry := []rollout.Rule{{Retry: &rollout.Retry{MaxRetries: &one}}}
	pool := func(limit int64) []rollout.Rule {
		own := concurrency.Rule{GroupSelector: "true", SharedPool: "s", LimitType: "count", LimitValue: &limit}
		return []rollout.Rule{{ResourceConcurrency: &own}}
	}
	for _, row := range []struct {
		why      string
		policies []rollout.Policy
		want     []string
	}{
		{"policies without a name have no id in common", []rollout.Policy{{Selector: "true", Rules: retry}, {Selector: "true", Rules: retry}}, []string{"required [0].name: ", "required [1].name: "}},
		{"a limit that is none contradicts nobody", []rollout.Policy{{Name: "a", Selector: "true", Rules: pool(bad)}, {Name: "b", Selector: "true", Rules: pool(2)}}, []string{"out_of_range [0].rules[0].resourceConcurrency.limitValue: "}},
		{"whichever comes first", []rollout.Policy{{Name: "a", Selector: "true", Rules: pool(2)}, {Name: "b", Selector: "true", Rules: pool(bad)}}, []string{"out_of_range [1].rules[0].resourceConcurrency.limitValue: "}},
	} {
		_, err := rollout.Compile(row.policies, newEnv(t))
		got := coded(err)
		same := len(got) == len(row.want)
		for k := range min(len(got), len(row.want)) {
			same = same && strings.HasPrefix(got[k], row.want[k])
		}
		if !same {
			t.Errorf("%s: got %q, want %q", row.why, got, row.want)
		}
	}
}

// TestLargerSchema: a variable that the host's schema adds is nothing that a policy can ask. It is
// refused, for no target would ever have a value for it.
func TestLargerSchema(t *testing.T) {
	env, err := selector.NewEnv(append(selector.DefaultSchema(), selector.Variable{Name: "resource.zone", Type: selector.String}), selector.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollout.Load([]byte(policy(`{"resourceConcurrency":{"groupSelector":"resource.kind == 'Node'","limit":1}}`)), env); err != nil {
		t.Errorf("what the schema adds is not in the way of the rest: %v", err)
	}
	_, err = rollout.Load([]byte(policy(`{"resourceConcurrency":{"groupSelector":"resource.zone == 'a'","limit":1}}`)), env)
	var fault *rollout.FieldError
	if !errors.As(err, &fault) || fault.Code != rollout.CodeExpression || fault.Value != `"resource.zone"` || !strings.Contains(fault.Hint, "resource.metadata['zone']") {
		t.Errorf("got %v", err)
	}
}
