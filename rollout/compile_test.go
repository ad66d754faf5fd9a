package rollout

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
)

// always is a compiler of which every expression is true.
type always struct{}

func (always) Matcher(string) (Matcher, error) { return always{}, nil }

func (always) Match(interface {
	Lookup(name string) (any, bool)
}) (bool, error) {
	return true, nil
}

// TestPoliciesAreNotRetained: whoever goes on editing the policies, in place and behind every
// pointer, or edits those that the set says it was built from, does not edit the policy set.
func TestPoliciesAreNotRetained(t *testing.T) {
	policies, err := ParsePolicies([]byte(`{"name":"p","selector":"true","enabled":true,"rules":[
		{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":60,"memberRoles":{"pre":"a","post":"b"},"hooksIdempotent":true,"overlapStrategy":"merge","preparedStatePersists":true,"maxMerges":2}},
		{"resourceConcurrency":{"groupSelector":"true","limitType":"count","limitValue":2,"rate":{"limit":1,"periodSeconds":60}}},
		{"gradualRollout":{"rolloutType":"waves","timeScaleInterval":60,"waves":[1,"50%"]}},
		{"deploymentDependency":{"dependsOn":"true","appliesTo":"a"}},
		{"versionSelector":{"selector":"true"}},
		{"failureBudget":{"maxFailures":2,"onJobStatuses":["failure"]}},
		{"anyApproval":{"minApprovals":2}},
		{"environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSuccessPercentage":50,"maximumAgeHours":5,"successStatuses":["successful"]}},
		{"versionCooldown":{"intervalSeconds":60}},
		{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"17:00"},"allowWindow":false}},
		{"retry":{"maxRetries":2,"maxBackoffSeconds":60,"retryOnStatuses":["failure"]}},
		{"rollback":{"onJobStatuses":["failure"],"onVersionStatuses":["rejected"]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := Compile(policies, always{})
	if err != nil {
		t.Fatal(err)
	}
	held := func() (kinds []string) {
		for _, r := range set.policies[0].rules {
			data, err := json.Marshal(Rule{
				DeploymentBracket: r.bracket, ResourceConcurrency: r.pool, GradualRollout: r.gradual, DeploymentDependency: r.dependency,
				FailureBudget: r.budget, AnyApproval: r.approval, EnvironmentProgression: r.progression, VersionCooldown: r.cooldown,
				DeploymentWindow: r.window, Retry: r.retry, Rollback: r.rollback,
			})
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, string(data))
		}
		return kinds
	}
	before := held()
	given := func() string {
		data, err := json.Marshal(set.Policies())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	unedited, err := json.Marshal(policies)
	if err != nil {
		t.Fatal(err)
	}
	edited := 0
	edit(reflect.ValueOf(policies), &edited)
	edit(reflect.ValueOf(set.Policies()), new(int))
	if given() != string(unedited) {
		t.Errorf("the set was built from %s, and says %s", unedited, given())
	}
	for k, after := range held() {
		if after != before[k] {
			t.Errorf("the set holds %s, and after an edit of the policies %s", before[k], after)
		}
	}
	if edited < 50 {
		t.Errorf("only %d values were edited", edited)
	}
	for _, rule := range policies[0].Rules {
		for _, k := range rule.kinds() {
			if k.set {
				for _, field := range unset(reflect.ValueOf(k.rule).Elem()) {
					t.Errorf("no value was edited behind %s of %s: give it one above", field, k.name)
				}
			}
		}
	}
}

// unset lists the fields of a struct, and of those in it, behind which there could be values that a
// copy shares, and are none.
func unset(v reflect.Value) (fields []string) {
	for k := range v.NumField() {
		field := v.Field(k)
		if !v.Type().Field(k).IsExported() {
			continue // such as those of a time, which nobody edits
		}
		switch kind := field.Kind(); {
		case (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map) && field.IsNil():
			fields = append(fields, v.Type().Field(k).Name)
		case kind == reflect.Struct:
			fields = append(fields, unset(field)...)
		case kind == reflect.Pointer && field.Type().Elem().Kind() == reflect.Struct:
			fields = append(fields, unset(field.Elem())...)
		}
	}
	return fields
}

// edit changes every value that can be reached.
func edit(v reflect.Value, edited *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			edit(v.Elem(), edited)
		}
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[time.Time]():
			return
		case reflect.TypeFor[concurrency.Limit]():
			v.Set(reflect.ValueOf(concurrency.Count(97)))
			return
		}
		for k := range v.NumField() {
			if v.Field(k).CanSet() {
				edit(v.Field(k), edited)
			}
		}
	case reflect.Slice:
		for k := range v.Len() {
			edit(v.Index(k), edited)
		}
	default:
		*edited++
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "!")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Float64:
			v.SetFloat(v.Float() + 1)
		default:
			*edited--
		}
	}
}
