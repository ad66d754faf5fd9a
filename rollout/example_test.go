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
