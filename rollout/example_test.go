package rollout_test

import (
	"fmt"
	"log"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

func exampleSet(policies string) *rollout.PolicySet {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	parsed, err := rollout.ParsePolicies([]byte(policies))
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Compile(parsed, env)
	if err != nil {
		log.Fatal(err)
	}
	return set
}

// ExampleParsePolicies has every kind of rule once, with the fields that are needed most. Each has an id of its own, for stored state hangs on it.
func ExampleParsePolicies() {
	policies, err := rollout.ParsePolicies([]byte(`[
		{"name": "nodes", "selector": "deployment.metadata['layer'] == 'node'", "rules": [
			{"id": "together", "deploymentBracket": {
				"deploymentSelector": "true", "readinessMode": "collection_window", "readinessWindowSeconds": 86400,
				"memberRoles": {"pre": "deployment.name == 'drain'", "post": "deployment.name == 'uncordon'"},
				"overlapStrategy": "queue", "onMemberFailure": "hold"}},
			{"id": "one-fifth", "resourceConcurrency": {"groupSelector": "resource.kind == 'Node'", "limit": "20%"}},
			{"id": "one-by-one", "gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 300, "orderKey": "resource_bracket"}},
			{"id": "os-first", "deploymentDependency": {"appliesTo": "deployment.name == 'kubelet'", "dependsOn": "deployment.name == 'os'"}}
		]},
		{"name": "services", "selector": "deployment.metadata['layer'] == 'service'", "rules": [
			{"id": "stable", "versionSelector": {"selector": "version.metadata['channel'] == 'stable'", "description": "nothing but stable releases"}},
			{"id": "four-eyes", "anyApproval": {"minApprovals": 2}},
			{"id": "staging-first", "environmentProgression": {
				"dependsOnEnvironmentSelector": "environment.name == 'staging'", "minimumSuccessPercentage": 90, "minimumSoakTimeMinutes": 60}},
			{"id": "once-a-day", "versionCooldown": {"intervalSeconds": 86400}},
			{"id": "office-hours", "deploymentWindow": {
				"weekly": {"days": ["mon", "tue", "wed", "thu"], "start": "09:00", "end": "16:00"}, "timezone": "Europe/Berlin"}},
			{"id": "again", "retry": {"maxRetries": 2, "backoffSeconds": 60, "backoffStrategy": "exponential", "maxBackoffSeconds": 3600}},
			{"id": "back", "rollback": {"onVerificationFailure": true}}
		]}
	]`))
	if err != nil {
		log.Fatal(err)
	}
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := rollout.Compile(policies, env, rollout.WithZones(time.LoadLocation)); err != nil {
		log.Fatal(err)
	}
	for _, policy := range policies {
		for _, rule := range policy.Rules {
			fmt.Println(policy.Name, rule.ID, rule.Kind())
		}
	}
	// Output:
	// nodes together deploymentBracket
	// nodes one-fifth resourceConcurrency
	// nodes one-by-one gradualRollout
	// nodes os-first deploymentDependency
	// services stable versionSelector
	// services four-eyes anyApproval
	// services staging-first environmentProgression
	// services once-a-day versionCooldown
	// services office-hours deploymentWindow
	// services again retry
	// services back rollback
}

// exampleFleet is two nodes that run v1 of web, of which v2 has just been released.
func exampleFleet() rollout.Snapshot {
	s := rollout.Snapshot{
		Resources:    []rollout.Resource{{ID: "n1"}, {ID: "n2"}},
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "web"}},
		Versions: []rollout.Version{
			{ID: "v1", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Hour)},
			{ID: "v2", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0},
		},
	}
	for _, r := range s.Resources {
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: "prod", Deployment: "web"}, Current: "v1"})
	}
	return s
}

func ExamplePolicySet_Plan() {
	set := exampleSet(`{"name":"slowly","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	s := exampleFleet()
	plan, err := set.Plan(s, t0)
	if err != nil {
		log.Fatal(err)
	}
	for _, start := range plan.Start {
		fmt.Println("start", start.Version, "on", start.Resource)
	}
	for wait := range plan.Waiting.All() {
		fmt.Println(wait.Resource, "waits:", wait.Blockers[0])
	}
	fmt.Println("look again at", plan.Next.Format(time.TimeOnly))

	// Save what follows from the starts, under the condition that nobody else did, and only then dispatch them.
	if s.State, err = plan.Commit(plan.Start, t0); err != nil {
		log.Fatal(err)
	}
	// Output:
	// start v2 on n1
	// n2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T00:10:00Z
	// look again at 00:10:00
}

func ExampleGradualRollout_Offset() {
	interval := int64(3600)
	g := rollout.GradualRollout{RolloutType: rollout.Exponential, TimeScaleInterval: &interval, PositionGrowthFactor: 2}
	for position := range 4 {
		offset, err := g.Offset(position, 4)
		fmt.Println(position, offset.Round(time.Second), err)
	}
	// Output:
	// 0 0s <nil>
	// 1 23m36s <nil>
	// 2 37m56s <nil>
	// 3 46m37s <nil>
}

func ExampleCompile_errors() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	zero, minus := int64(60), -1
	_, err = rollout.Compile([]rollout.Policy{{
		Name: "web", Selector: "deployment.name = 'web'",
		Rules: []rollout.Rule{
			{GradualRollout: &rollout.GradualRollout{RolloutType: "cubic", TimeScaleInterval: &zero}},
			{Retry: &rollout.Retry{MaxRetries: &minus}},
			{},
		},
	}}, env)
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range list.Unwrap() {
			fmt.Println(one.(*rollout.FieldError).Path)
		}
	}
	// Output:
	// rules[0].gradualRollout.rolloutType
	// rules[1].retry.maxRetries
	// rules[2]
	// selector
}
