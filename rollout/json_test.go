package rollout_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/partition"
	"github.com/tranche-dev/tranche/rollout"
	stages "github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
	"github.com/tranche-dev/tranche/surge"
)

// TestJSONNames: the names under which policies are written, and states and decision logs are
// stored, stay what they are. Those of policies, versions, overrides and verdicts are the ones of
// the designs. A ! follows what is never left out, and a + precedes what stands beside the other
// fields.
func TestJSONNames(t *testing.T) {
	for _, row := range []struct {
		of    any
		names string
	}{
		{rollout.Policy{}, "id name! enabled selector! rules!"},
		{rollout.Rule{}, "id createdAt deploymentBracket resourceConcurrency gradualRollout deploymentDependency versionSelector failureBudget anyApproval environmentProgression versionCooldown deploymentWindow retry rollback"},
		{rollout.GradualRollout{}, "rolloutType! timeScaleInterval! positionGrowthFactor waves orderKey orderSalt orderHash"},
		{rollout.DeploymentDependency{}, "dependsOn! appliesTo match anyEnvironment"},
		{rollout.VersionSelector{}, "selector! description"},
		{rollout.FailureBudget{}, "maxFailures maxFailureRate minimumSample anyEnvironment onJobStatuses onVerificationFailure"},
		{rollout.AnyApproval{}, "minApprovals!"},
		{rollout.EnvironmentProgression{}, "dependsOnEnvironmentSelector! minimumSuccessPercentage minimumSoakTimeMinutes maximumAgeHours successStatuses requireVerificationPassed"},
		{rollout.VersionCooldown{}, "intervalSeconds!"},
		{rollout.DeploymentWindow{}, "+Window firstDeploy minimumRemainingMinutes"},
		{rollout.Retry{}, "maxRetries! backoffSeconds backoffStrategy maxBackoffSeconds retryOnStatuses"},
		{rollout.Rollback{}, "onJobStatuses onVerificationFailure onVersionStatuses onFailureBudget"},
		{rollout.Snapshot{}, "resources! environments! deployments! versions! targets! approvals overrides freezes unavailable active deletedResources commands state"},
		{rollout.Resource{}, "id! name kind identifier version metadata"},
		{rollout.Environment{}, "id! name metadata"},
		{rollout.Deployment{}, "id! name slug metadata"},
		{rollout.Version{}, "id! deployment! name tag status! createdAt! metadata priority targetSelector dependencies"},
		{rollout.VersionDependency{}, "deployment! versionSelector!"},
		{rollout.Target{}, "+TargetID current jobs joinedAt outdatedAt priority"},
		{rollout.TargetID{}, "resource! environment! deployment!"},
		{rollout.Job{}, "run version! status! createdAt! completedAt verification"},
		{rollout.Approval{}, "version! deployment! environment! by! status! at!"},
		{rollout.Freeze{}, "id! deploymentId environmentId resourceId finishBegun pauseCurves createdAt! expiresAt createdBy! reason!"},
		{rollout.Override{}, "id! ruleId! versionId! deploymentId environmentId resourceId createdAt! expiresAt createdBy! reason!"},
		{rollout.State{}, "brackets executions rollouts pools"},
		{rollout.RolloutRecord{}, "schema! rule! environment! deployment version group startAt! n0!"},
		{rollout.Plan{}, "now! start waiting keep! pools stuck orphans events diagnostics next state"},
		{rollout.Start{}, "+TargetID version! run! purpose! group! claims reason! scoped"},
		{rollout.Claim{}, "pool! revision! token! periodSeconds"},
		{rollout.Waiting{}, "+TargetID version blockers!"},
		{rollout.Queued{}, "+TargetID version! purpose! group! priority due pools!"},
		{rollout.QueuePlace{}, "pool! before! of!"},
		{rollout.Keep{}, "current! started!"},
		{rollout.Pool{}, "key! active! max! total! exclusive halted waiting holders quarantined unavailable"},
		{rollout.Stuck{}, "resource! group! run pool since!"},
		{rollout.Event{}, "kind! rule! environment! group! resource at! status! into"},
		{rollout.Diagnostic{}, "code! rule detail! count! example"},
		{rollout.Verdict{}, "status! reason! rule until on data"},
		{rollout.Condition{}, "kind! rule environment deployment resource version group pool freeze"},
		{rollout.Data{}, "position population attempt allowed names detail"},
		{rollout.Explanation{}, "+TargetID now! current started jobs stuck policies bracket group collecting held versions queue pools"},
		{rollout.VersionExplanation{}, "version! tag prospect! scoped fault listed rules"},
		{rollout.RuleVerdict{}, "kind! +Verdict since"},
		{rollout.Change{}, "+TargetID before! after!"},
		{rollout.Situation{}, "start running wait blockers"},
		{rollout.Recording{}, "schema! policies snapshot! plan!"},
		{rollout.Finding{}, "code! severity! policy rule path detail! fix! targets example"},
	} {
		of := reflect.TypeOf(row.of)
		var names []string
		for k := range of.NumField() {
			field := of.Field(k)
			switch name, options, _ := strings.Cut(field.Tag.Get("json"), ","); {
			case field.Anonymous:
				names = append(names, "+"+field.Name)
			case !field.IsExported() || name == "-":
			case options == "":
				names = append(names, name+"!")
			default:
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != row.names {
			t.Errorf("%s is written as\n\t%s, want\n\t%s", of.Name(), got, row.names)
		}
	}
}

// TestStrictWhoeverDecodes: json.Unmarshal refuses what a misspelt field would silently widen, as
// the parsers do, and leaves the value as it was.
func TestStrictWhoeverDecodes(t *testing.T) {
	decodes := func(into any, kept string) func(string) (error, bool) {
		return func(text string) (error, bool) {
			if err := json.Unmarshal([]byte(kept), into); err != nil {
				t.Fatal(err)
			}
			before := reflect.ValueOf(into).Elem().Interface()
			err := json.Unmarshal([]byte(text), into)
			return err, reflect.DeepEqual(before, reflect.ValueOf(into).Elem().Interface())
		}
	}
	policy := decodes(new(rollout.Policy), `{"name":"kept","selector":"true","rules":[]}`)
	policies := decodes(new([]rollout.Policy), `[{"name":"kept","selector":"true","rules":[]}]`)
	version := decodes(new(rollout.Version), `{"id":"kept","deployment":"d","status":"ready","createdAt":"2026-03-01T00:00:00Z"}`)
	override := decodes(new(rollout.Override), `{"id":"kept","ruleId":"r","versionId":"v","createdAt":"2026-03-01T00:00:00Z","createdBy":"ann","reason":"urgent"}`)
	freeze := decodes(new(rollout.Freeze), `{"id":"kept","createdAt":"2026-03-01T00:00:00Z","createdBy":"ann","reason":"incident"}`)
	approval := decodes(new(rollout.Approval), `{"version":"kept","deployment":"d","environment":"e","by":"ann","status":"approved","at":"2026-03-01T00:00:00Z"}`)
	snapshot := decodes(new(rollout.Snapshot), `{"resources":[{"id":"kept"}],"environments":[],"deployments":[],"versions":[],"targets":[]}`)
	pool := decodes(new(concurrency.Rule), `{"groupSelector":"kept"}`)
	state := decodes(new(rollout.State), `{"rollouts":[{"schema":1,"rule":"kept","environment":"e","startAt":"2026-03-01T00:00:00Z","n0":1}]}`)
	begun := decodes(new(rollout.RolloutRecord), `{"schema":1,"rule":"kept","environment":"e","startAt":"2026-03-01T00:00:00Z","n0":1}`)
	leases := decodes(new(concurrency.Record), `{"schema":1,"key":"kept","revision":3,"nextToken":1,"leases":[]}`)
	recording := decodes(new(rollout.Recording), `{"schema":1,"snapshot":{"resources":[{"id":"kept"}],"environments":[],"deployments":[],"versions":[],"targets":[]},"plan":{"now":"2026-03-01T00:00:00Z","keep":{}}}`)
	for _, row := range []struct {
		why    string
		decode func(string) (error, bool)
		in     string
		want   string
	}{
		{"a policy that would be enabled", policy, `{"name":"p","selector":"true","rules":[],"enable":false}`, `enable: unknown field; did you mean "enabled"?`},
		{"letters count", policy, `{"Name":"p"}`, `Name: unknown field; did you mean "name"?`},
		{"a kind that is nearly right: the others are not listed", policy, `{"rules":[{"anyAproval":{}}]}`, `rules[0].anyAproval: unknown field; did you mean "anyApproval"?`},
		{"a field that resembles none, beside the rules and inside one: no kind is meant", policy, `{"xyz":1,"rules":[{"retry":{"xyz":1}}]}`, "xyz: unknown field\nrules[0].retry.xyz: unknown field"},
		{"paths lead into the rules", policy, `{"rules":[{"retry":{"maxRetries":"3"}}]}`, "rules[0].retry.maxRetries: must be a whole number, not a string: leave the quotes out"},
		{"all faults are told", policy, `{"name":1,"rules":{}}`, "name: must be a string, not 1: put it in quotes\nrules: must be a list, not an object"},
		{"a version that would be for every target", version, `{"id":"v","targetSelecter":"false"}`, `targetSelecter: unknown field; did you mean "targetSelector"?`},
		{"one field twice", version, `{"id":"v","status":"paused","status":"ready"}`, "status: given twice"},
		{"an override that would count everywhere", override, `{"id":"o","environment":"prod"}`, `environment: unknown field; did you mean "environmentId"?`},
		{"a freeze of everything that was meant for one node", freeze, `{"id":"z","resource":"n1"}`, `resource: unknown field; did you mean "resourceId"?`},
		{"one that would begin in the morning", snapshot, `{"freezes":[{"id":"z","startsAt":"2026-03-01T00:00:00Z"}]}`, "freezes[0].startsAt: unknown field"},
		{"an approval that would count before its time", approval, `{"version":"v","deployment":"d","environment":"e","by":"ann","status":"approved","createdAt":"2026-03-02T00:00:00Z"}`, "createdAt: unknown field"},
		{"no override", override, `null`, "must be an object, not null"},
		{"a snapshot without its state would drain nodes again", snapshot, `{"resources":[],"State":{}}`, `State: unknown field; did you mean "state"?`},
		{"paths lead into the versions", snapshot, `{"versions":[{"id":"v"},{"id":"w","targetSelecter":"false"}]}`, `versions[1].targetSelecter: unknown field; did you mean "targetSelector"?`},
		{"and into the targets", snapshot, `{"targets":[{"resource":"r","jobs":[{"run":5}]}]}`, "targets[0].jobs[0].run: must be a string, not 5: put it in quotes"},
		{"a pool that would be paused for nobody", pool, `{"groupSelector":"true","limits":0}`, `limits: unknown field; did you mean "limit"?`},
		{"a limit that is none", pool, `{"groupSelector":"true","limit":"many"}`, `limit: "many": must be a count from 0 to 2147483647 such as 5, or a percentage from "0%" to "1000%" such as "20%"`},
		{"a state whose slots would be lost", state, `{"pool":[]}`, `pool: unknown field; did you mean "pools"?`},
		{"what a later release keeps of a pool would be lost with the next save", state, `{"pools":[{"schema":1,"key":"k","nextToken":1,"leases":[],"paused":true}]}`, "pools[0].paused: unknown field"},
		{"and of a rollout", state, `{"rollouts":[{"schema":1,"order":"hash"}]}`, "rollouts[0].order: unknown field"},
		{"a record of a rollout by itself", begun, `{"schema":1,"order":"hash"}`, "order: unknown field"},
		{"a record of a bracket in a state", state, `{"brackets":[{"schema":1,"rule":"r","environment":"e","number":0,"marks":{},"closed":[],"collect":null}]}`, `brackets[0].collect: unknown field; did you mean "collecting"?`},
		{"a record of a pool by itself", leases, `{"schema":1,"key":"k","nextToken":1,"leases":[],"confirmd":[]}`, `confirmd: unknown field; did you mean "confirmed"?`},
		{"a recording in a log of the host's own", recording, `{"schema":1,"snapshot":{"state":{"pool":[]}},"plan":{"now":"2026-03-01T00:00:00Z"}}`, `snapshot.state.pool: unknown field; did you mean "pools"?`},
	} {
		if err, kept := row.decode(row.in); err == nil || err.Error() != row.want || !kept {
			t.Errorf("%s: %v, kept %v, want\n%s", row.why, err, kept, row.want)
		} else if fault := fieldError(err); fault == nil {
			t.Errorf("%s: %T is no field error", row.why, err)
		}
	}
	if err, kept := policies(`[{"name":"p","rules":[],"selecter":"true"}]`); err == nil || !kept {
		t.Errorf("a list: %v, kept %v", err, kept)
	}
}

// fieldError returns the first field error of an error, or nil.
func fieldError(err error) error {
	if own := (*rollout.FieldError)(nil); errors.As(err, &own) {
		return own
	}
	if own := (*concurrency.FieldError)(nil); errors.As(err, &own) {
		return own
	}
	return nil
}

// TestFieldErrorsAreAlike: a fault of any package has the same fields with the same names in JSON,
// so that a host shows and stores all of them alike.
func TestFieldErrorsAreAlike(t *testing.T) {
	const want = `{"path":"a.b","code":"odd","value":"5","hint":"must be even"}`
	for _, empty := range []error{
		&clock.FieldError{}, &selector.FieldError{}, &concurrency.FieldError{}, &bracket.FieldError{}, &partition.FieldError{}, &surge.FieldError{},
		&rollout.FieldError{Err: errors.New("the cause is for errors.Is and errors.As")}, &stages.FieldError{},
	} {
		fault := reflect.ValueOf(empty).Elem()
		for field, value := range map[string]string{"Path": "a.b", "Code": "odd", "Value": "5", "Hint": "must be even"} {
			fault.FieldByName(field).SetString(value)
		}
		if got, err := json.Marshal(empty); err != nil || string(got) != want || empty.Error() != "a.b: 5: must be even" {
			t.Errorf("%T is written as %s, %v, and says %s", empty, got, err, empty)
		}
	}
}
