package rollout_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// TestRulesDecode: every field of every kind has the name of the API that it comes from, the fields
// of a window stand beside one another, and what is encoded decodes to the same.
func TestRulesDecode(t *testing.T) {
	for _, row := range []struct {
		in   string
		want rollout.Rule
	}{
		{`{"id":"a","createdAt":"2025-01-01T00:00:00Z","environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSuccessPercentage":99.5,"minimumSoakTimeMinutes":30,"maximumAgeHours":24,"successStatuses":["successful","skipped"],"requireVerificationPassed":true}}`,
			rollout.Rule{ID: "a", CreatedAt: t0, EnvironmentProgression: &rollout.EnvironmentProgression{
				DependsOnEnvironmentSelector: "true", MinimumSuccessPercentage: pointer(99.5), MinimumSoakTimeMinutes: 30, MaximumAgeHours: pointer[int64](24),
				SuccessStatuses: []rollout.JobStatus{"successful", "skipped"}, RequireVerificationPassed: true,
			}}},
		{`{"versionCooldown":{"intervalSeconds":0}}`, rollout.Rule{VersionCooldown: &rollout.VersionCooldown{IntervalSeconds: new(int64)}}},
		{`{"deploymentWindow":{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9","durationMinutes":60,"timezone":"Europe/Berlin","allowWindow":false,"anchor":"2025-01-06T09:00","gap":"skip","overlap":"last","firstDeploy":"apply","minimumRemainingMinutes":15}}`,
			rollout.Rule{DeploymentWindow: &rollout.DeploymentWindow{
				Window:      clock.Window{RRule: "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9", DurationMinutes: 60, Timezone: "Europe/Berlin", AllowWindow: pointer(false), Anchor: "2025-01-06T09:00", Gap: "skip", Overlap: "last"},
				FirstDeploy: "apply", MinimumRemainingMinutes: 15,
			}}},
		{`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"22:00","end":"04:00","everyWeeks":2},"anchor":"2025-01-06T09:00"}}`,
			rollout.Rule{DeploymentWindow: &rollout.DeploymentWindow{Window: clock.Window{Weekly: &clock.Weekly{Days: []string{"mon"}, Start: "22:00", End: "04:00", EveryWeeks: 2}, Anchor: "2025-01-06T09:00"}}}},
		{`{"deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-02T00:00:00Z"}}`,
			rollout.Rule{DeploymentWindow: &rollout.DeploymentWindow{Window: clock.Window{From: t0, Until: t0.AddDate(0, 0, 1)}}}},
		{`{"rollback":{"onVersionStatuses":["rejected"],"onFailureBudget":true}}`,
			rollout.Rule{Rollback: &rollout.Rollback{OnVersionStatuses: []rollout.VersionStatus{"rejected"}, OnFailureBudget: true}}},
		{`{"rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`,
			rollout.Rule{Rollback: &rollout.Rollback{OnJobStatuses: []rollout.JobStatus{"failure"}, OnVerificationFailure: true}}},
	} {
		list, err := rollout.ParsePolicies([]byte(policy(row.in)))
		if err != nil {
			t.Errorf("%s: %v", row.in, err)
			continue
		}
		if diff := cmp.Diff(row.want, list[0].Rules[0]); diff != "" {
			t.Errorf("%s:\n%s", row.in, diff)
		}
		if err := list[0].Validate(); err != nil {
			t.Errorf("%s: %v", row.in, err)
		}
		data, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		again, err := rollout.ParsePolicies(data)
		if diff := cmp.Diff(list, again); err != nil || diff != "" {
			t.Errorf("%s decodes to something else: %v\n%s", data, err, diff)
		}
	}
}

// TestBadRules: every fault of the rules about time and other environments is named with its path.
func TestBadRules(t *testing.T) {
	for _, row := range []struct {
		why, in string
		want    []string
	}{
		{"unknown fields", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"true","soak":1}},{"versionCooldown":{"interval":1}},{"deploymentWindow":{"rule":"x"}},{"rollback":{"on":[]}}`),
			[]string{"unknown_field rules[0].environmentProgression.soak: unknown field", "unknown_field rules[1].versionCooldown.interval: unknown field", "unknown_field rules[2].deploymentWindow.rule: unknown field", "unknown_field rules[3].rollback.on: unknown field"}},
		{"a budget without a number", policy(`{"failureBudget":{}}`), []string{"required rules[0].failureBudget.maxFailures: is required: on how many targets a version may fail"}},
		{"budgets that cannot be read", policy(`{"failureBudget":{"maxFailures":-1}},{"failureBudget":{"maxFailures":"1"}},{"failureBudget":{"maxFailures":0.5}}`),
			[]string{"type rules[0].failureBudget.maxFailures: -1: must be a count from 0, without quotes, or a percentage", `type rules[1].failureBudget.maxFailures: "1": must be a count from 0`, "type rules[2].failureBudget.maxFailures: 0.5: must be a count from 0"}},
		{"budgets that are none", policy(`{"failureBudget":{"maxFailures":"101%"}},{"failureBudget":{"maxFailures":null}}`),
			[]string{`out_of_range rules[0].failureBudget.maxFailures: "101%": must be a count from 0, without quotes, or a percentage from "0%" to "100%"`, "required rules[1].failureBudget.maxFailures: "}},
		{"budgets that are given twice, and are right by themselves", policy(`{"failureBudget":{"maxFailures":1,"maxFailures":2}},{"failureBudget":{"maxFailureRate":"1%","maxFailureRate":"2%","minimumSample":5}}`),
			[]string{"duplicate rules[0].failureBudget.maxFailures: given twice", "duplicate rules[1].failureBudget.maxFailureRate: given twice"}},
		{"a budget of everything, and one of nothing", policy(`{"failureBudget":{"maxFailures":"100%"}},{"failureBudget":{"maxFailures":0}},{"failureBudget":{"maxFailures":1000}},{"failureBudget":{"maxFailures":"0%","onJobStatuses":["failure","cancelled"],"onVerificationFailure":true,"anyEnvironment":true}}`), nil},
		{"budgets by a rate", policy(`{"failureBudget":{"maxFailureRate":"20%","minimumSample":5}},{"failureBudget":{"maxFailures":0,"maxFailureRate":"0%","minimumSample":1}},{"failureBudget":{"maxFailureRate":"100%","minimumSample":1000000}}`), nil},
		{"rates that cannot be read", policy(`{"failureBudget":{"maxFailureRate":"x","minimumSample":"5"}},{"failureBudget":{"maxFailureRate":-1,"minimumSample":0.5}},{"failureBudget":{"maxFailureRate":"10.5%","minimumSample":5}}`),
			[]string{`type rules[0].failureBudget.maxFailureRate: "x": must be a whole percentage from "0%" to "100%"`, `type rules[0].failureBudget.minimumSample: `, `type rules[1].failureBudget.maxFailureRate: -1: must be a whole percentage from "0%" to "100%"`, `type rules[1].failureBudget.minimumSample: must be a whole number, not 0.5`,
				`type rules[2].failureBudget.maxFailureRate: "10.5%": must be a whole percentage from "0%" to "100%"`}},
		{"rates that are none, and without a sample", policy(`{"failureBudget":{"maxFailureRate":"101%"}},{"failureBudget":{"maxFailureRate":5,"minimumSample":-1}}`),
			[]string{`out_of_range rules[0].failureBudget.maxFailureRate: "101%": must be a whole percentage from "0%" to "100%"`, `required rules[0].failureBudget.minimumSample: is required: on how many targets a version must have come to an end before its rate counts`,
				`out_of_range rules[1].failureBudget.maxFailureRate: 5: must be a whole percentage`, `out_of_range rules[1].failureBudget.minimumSample: -1: must be at least 1`}},
		{"a sample for nothing", policy(`{"failureBudget":{"maxFailures":1,"minimumSample":5}},{"failureBudget":{"maxFailures":1,"minimumSample":-1}}`),
			[]string{`conflict rules[0].failureBudget.minimumSample: 5: is that of a maxFailureRate: give one, or leave this out`, `conflict rules[1].failureBudget.minimumSample: -1: is that of a maxFailureRate`}},
		{"a budget for what is no failure", policy(`{"failureBudget":{"maxFailures":1,"onJobStatuses":["successful","inProgress"]}}`),
			[]string{`conflict rules[0].failureBudget.onJobStatuses[0]: "successful": is no failure: use onVerificationFailure`, `unknown_value rules[0].failureBudget.onJobStatuses[1]: "inProgress"`}},
		{"every fault of a progression", policy(`{"environmentProgression":{"minimumSuccessPercentage":100.5,"minimumSoakTimeMinutes":-1,"maximumAgeHours":0,"successStatuses":["inProgress","odd"]}}`),
			[]string{"required rules[0].environmentProgression.dependsOnEnvironmentSelector: is required", "out_of_range rules[0].environmentProgression.minimumSuccessPercentage: 100.5", "out_of_range rules[0].environmentProgression.minimumSoakTimeMinutes: -1",
				"out_of_range rules[0].environmentProgression.maximumAgeHours: 0", `unknown_value rules[0].environmentProgression.successStatuses[0]: "inProgress"`, `unknown_value rules[0].environmentProgression.successStatuses[1]: "odd": is not a status of an ended job, such as successful, failure, cancelled`}},
		{"shares below nothing, and finer than anybody means", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSuccessPercentage":-1}},{"environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSuccessPercentage":0.0000000001}}`),
			[]string{"out_of_range rules[0].environmentProgression.minimumSuccessPercentage: -1", "out_of_range rules[1].environmentProgression.minimumSuccessPercentage: 1e-10"}},
		{"what overflows", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSoakTimeMinutes":153722868,"maximumAgeHours":2562048}},{"versionCooldown":{"intervalSeconds":9223372037}},{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"minimumRemainingMinutes":153722868}}`),
			[]string{"out_of_range rules[0].environmentProgression.minimumSoakTimeMinutes: 153722868: must be from 0 to 153722867 minutes", "out_of_range rules[0].environmentProgression.maximumAgeHours: 2562048: must be from 1 to 2562047 hours", "out_of_range rules[1].versionCooldown.intervalSeconds: 9223372037: must be from 0 to 9223372036 seconds",
				"out_of_range rules[2].deploymentWindow.minimumRemainingMinutes: 153722868: must be from 0 to 153722867 minutes"}},
		{"the longest durations, and the finest share", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"true","minimumSoakTimeMinutes":153722867,"maximumAgeHours":2562047,"minimumSuccessPercentage":33.333333333}},{"versionCooldown":{"intervalSeconds":9223372036}},{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"minimumRemainingMinutes":153722867}}`), nil},
		{"a progression that looks at versions", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"version.tag == 'v1'"}}`), []string{"expression rules[0].environmentProgression.dependsOnEnvironmentSelector: \"version.tag\": is not known here"}},
		{"a progression that does not compile", policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.nme == 'x'"}}`), []string{"expression rules[0].environmentProgression.dependsOnEnvironmentSelector: "}},
		{"cooldowns", policy(`{"versionCooldown":{}},{"versionCooldown":{"intervalSeconds":-1}}`), []string{"required rules[0].versionCooldown.intervalSeconds: is required", "out_of_range rules[1].versionCooldown.intervalSeconds: -1"}},
		{"a window of nothing", policy(`{"deploymentWindow":{}}`), []string{"empty_window rules[0].deploymentWindow"}},
		{"a window with a choice that nobody knows", policy(`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"firstDeploy":"maybe","minimumRemainingMinutes":-1}}`),
			[]string{`unknown_value rules[0].deploymentWindow.firstDeploy: "maybe"`, "out_of_range rules[0].deploymentWindow.minimumRemainingMinutes: -1"}},
		{"a day that is none", policy(`{"deploymentWindow":{"weekly":{"days":["monday"],"start":"09:00","end":"10:00"}}}`), []string{"day_invalid rules[0].deploymentWindow.weekly.days[0]: "}},
		{"a zone that is none is not UTC", policy(`{"deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"10:00"},"timezone":"Mars/Olympus"}}`), []string{"timezone_unknown rules[0].deploymentWindow.timezone: "}},
		{"a phase without anchor", policy(`{"deploymentWindow":{"rrule":"FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=9","durationMinutes":60}}`), []string{"anchor_required rules[0].deploymentWindow.anchor: "}},
		{"no length", policy(`{"deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=9"}}`), []string{"duration_invalid rules[0].deploymentWindow.durationMinutes: "}},
		{"a rollback that nothing triggers", policy(`{"rollback":{}}`), []string{"required rules[0].rollback.onJobStatuses: nothing triggers"}},
		{"a rollback of a version that stays where it is", policy(`{"rollback":{"onVersionStatuses":["rejected","ready","paused",""]}}`), []string{`out_of_range rules[0].rollback.onVersionStatuses[1]: "ready": must be a status by which a version is taken back`, `out_of_range rules[0].rollback.onVersionStatuses[2]: "paused"`, `required rules[0].rollback.onVersionStatuses[3]: must be a status of versions`}},
		{"a rollback on what is none", policy(`{"rollback":{"onJobStatuses":["successful","inProgress"]}}`), []string{`conflict rules[0].rollback.onJobStatuses[0]: "successful"`, `unknown_value rules[0].rollback.onJobStatuses[1]: "inProgress": is not a status of an ended job, such as failure, cancelled, skipped, invalidJobAgent, invalidIntegration or externalRunNotFound`}},
	} {
		checkFaults(t, row.why, row.in, row.want)
	}
}

// TestZonesAreTheHosts: without a loader only UTC is known; with one each zone is loaded once.
func TestZonesAreTheHosts(t *testing.T) {
	parsed, err := rollout.ParsePolicies([]byte(policy(weekly("a", "09:00", "17:00", `"timezone":"Europe/Berlin"`) + "," + weekly("b", "09:00", "17:00", `"timezone":"Europe/Berlin"`))))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rollout.Compile(parsed, newEnv(t)); err == nil || !strings.Contains(err.Error(), "rules[0].deploymentWindow.timezone") {
		t.Errorf("without a loader: %v", err)
	}
	loaded := 0
	_, err = rollout.Compile(parsed, newEnv(t), rollout.WithZones(func(name string) (*time.Location, error) {
		loaded++
		return time.LoadLocation(name)
	}))
	if err != nil || loaded != 1 {
		t.Errorf("loaded %d times, %v", loaded, err)
	}
}
