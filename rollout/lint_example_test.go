package rollout_test

import (
	"fmt"
	"log"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// A policy that compiles, plans, and never upgrades anything: one fifth of three nodes, rounded
// down, is none.
func ExamplePolicySet_Lint() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{
		"name": "nodes", "selector": "true",
		"rules": [
			{"id": "slots", "resourceConcurrency": {"groupSelector": "true", "limit": "20%", "rounding": "floor"}},
			{"id": "people", "anyApproval": {"minApprovals": 2}}
		]
	}`), env)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	fleet := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "kubelet"}},
	}
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		fleet.Resources = append(fleet.Resources, rollout.Resource{ID: node})
		fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: node, Environment: "prod", Deployment: "kubelet"}})
	}
	findings, err := set.Lint(fleet, now, 90*24*time.Hour, rollout.LintOptions{Approvers: []string{"ann"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range findings {
		fmt.Printf("%s %s\n  at  %s\n  is  %s\n  fix %s\n", f.Severity, f.Code, f.Path, f.Detail, f.Fix)
	}
	// Output:
	// error approval_unreachable
	//   at  rules[1].anyApproval.minApprovals
	//   is  it asks for 2 approvals, of 1 known approver
	//   fix ask for fewer, or name more approvers
	// error limit_zero
	//   at  rules[0].resourceConcurrency.limit
	//   is  20% of 3, rounded by floor, is 0: nobody starts
	//   fix round by ceil or floor_min_1, or write a count
	// info failure_budget_missing
	//   at  rules[0].resourceConcurrency
	//   is  a version goes on to the next target however many have failed: a curve advances with time alone, and a job that has failed gives its slot back
	//   fix add a failureBudget for them
}
