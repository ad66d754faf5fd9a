package bracket_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// A node is drained once for an upgrade of its kubelet, which becomes ready when the collection
// window closes.
func Example() {
	window := int64(3600)
	rule := bracket.Rule{DeploymentSelector: "true", ReadinessWindowSeconds: &window}
	if err := rule.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	day := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	observation := bracket.Observation{
		Members: []bracket.Member{
			{Deployment: "drain"},
			{Deployment: "kubelet", Needs: []string{"drain"}},
			{Deployment: "uncordon", Needs: []string{"kubelet"}},
		},
		Versions: []bracket.Version{
			{Deployment: "kubelet", ID: "v1.29.2", CreatedAt: day, EligibleAt: day},
		},
		Targets: bracket.TargetList{
			{Resource: "node-3", Deployment: "drain", Current: "d1"},
			{Resource: "node-3", Deployment: "kubelet", Current: "v1.29.1"},
			{Resource: "node-3", Deployment: "uncordon", Current: "u1"},
		},
	}
	state := bracket.NewState("node lifecycle", "prod")

	for _, now := range []time.Time{day, day.Add(time.Hour)} {
		next, plan, err := bracket.Step(rule, state, observation, now)
		if err != nil {
			fmt.Println(err)
			return
		}
		for wait := range plan.Waits() {
			fmt.Println(now.Format("15:04"), wait.Reason, "until", wait.Until.Format("15:04"))
		}
		var runs []bracket.Run
		for _, start := range plan.Start {
			fmt.Println(now.Format("15:04"), "start", start.Run)
			runs = append(runs, start.Run)
		}
		if state, err = plan.Commit(next, runs, now); err != nil {
			fmt.Println(err)
			return
		}
		verdict := plan.Evaluate(state, "node-3", "kubelet", "v1.29.2", now)
		fmt.Println(now.Format("15:04"), "kubelet v1.29.2:", verdict.Reason.Status(), verdict.Reason)
	}
	// Output:
	// 09:00 bracket_collecting until 10:00
	// 09:00 kubelet v1.29.2: pending bracket_collecting
	// 10:00 start node lifecycle%2Fprod%2F1/node-3/drain/1/1/deploy
	// 10:00 kubelet v1.29.2: pending bracket_waits_for_members
}

// Every fault of a rule is reported at once, each with its path.
func ExampleRule_Validate() {
	var rule bracket.Rule
	err := json.Unmarshal([]byte(`{"deploymentSelector":"true","readinessMode":"immediate","readinessWindowSeconds":-1,"overlapStrategy":"merge"}`), &rule)
	fmt.Println(err)
	fmt.Println(rule.Validate())
	// Output:
	// <nil>
	// readinessWindowSeconds: -1: must be from 0 to 316224000 seconds, 10 years
	// preparedStatePersists: false: must be true with overlapStrategy merge: a merged group relies on the pre members of an earlier one
}

// Dependencies that could never be met are found before anything runs.
func ExampleCheck() {
	fmt.Println(bracket.Check(bracket.Bracket{ID: "node lifecycle", Members: []bracket.Member{
		{Deployment: "kubelet", Needs: []string{"os-patch"}},
		{Deployment: "os-patch", Needs: []string{"kubelet"}},
	}}))
	// Output:
	// bracket: "node lifecycle": dependency cycle kubelet -> os-patch -> kubelet: remove one of these dependencies
}

// Only what changed is saved, each record under the revision that was loaded.
func ExampleState_Changed() {
	ctx := context.Background()
	var store bracket.MemoryStore
	window := int64(0)
	rule := bracket.Rule{DeploymentSelector: "true", ReadinessWindowSeconds: &window}
	day := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	observation := bracket.Observation{
		Members:  []bracket.Member{{Deployment: "agent"}},
		Versions: []bracket.Version{{Deployment: "agent", ID: "v2", CreatedAt: day, EligibleAt: day}},
		Targets:  bracket.TargetList{{Resource: "a", Deployment: "agent", Current: "v1"}, {Resource: "b", Deployment: "agent", Current: "v1"}},
	}
	state := bracket.NewState("rule", "prod")
	next, plan, err := bracket.Step(rule, state, observation, day)
	if err == nil {
		next, err = plan.Commit(next, []bracket.Run{plan.Start[1].Run}, day)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	group, executions := next.Changed(state)
	save := func(key string, record any) {
		value, err := json.Marshal(record)
		if err == nil {
			_, err = store.Save(ctx, key, value, 0)
		}
		fmt.Println(key, err)
	}
	save(bracket.GroupKey(group.Rule, group.Environment), group)
	for _, execution := range executions {
		save(bracket.ExecutionKey(execution.Rule, execution.Resource), execution)
	}
	// Output:
	// bracket/group/rule/prod <nil>
	// bracket/execution/rule/b <nil>
}
