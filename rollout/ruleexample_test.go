package rollout_test

import (
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// ExamplePlan_Explain asks why a node does not get v2.
func ExamplePlan_Explain() {
	set := exampleSet(`{"name":"office hours","selector":"true","rules":[
		{"id":"four-eyes","anyApproval":{"minApprovals":2}},
		{"id":"day","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00"}}},
		{"id":"slowly","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	s := exampleFleet()
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved, At: t0}}
	plan, err := set.Plan(s, t0)
	if err != nil {
		log.Fatal(err)
	}
	explanation, err := plan.Explain(rollout.TargetID{Resource: "n2", Environment: "prod", Deployment: "web"})
	if err != nil {
		log.Fatal(err)
	}
	for _, blocker := range explanation.Waits().Blockers() {
		fmt.Println(blocker.Rule, blocker.Reason, blocker.Actors())
	}
	// Output:
	// four-eyes approval_missing [an approver]
	// day window_closed [time]
	// slowly rollout_not_started [an approver]
}

// ExamplePlan_Changes tells what ten minutes have changed.
func ExamplePlan_Changes() {
	set := exampleSet(`{"name":"slowly","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	s := exampleFleet()
	before, err := set.Plan(s, t0)
	if err != nil {
		log.Fatal(err)
	}
	after, err := set.Plan(s, before.Next)
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range after.Changes(&before) {
		fmt.Println(change.Resource, "then:", change.Before)
		fmt.Println(change.Resource, "now: ", change.After)
	}
	// Output:
	// n2 then: v2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T00:10:00Z
	// n2 now:  starts v2
}

// ExamplePolicySet_Replay writes a decision to a log, and asks later what another policy would have decided.
func ExamplePolicySet_Replay() {
	s := exampleFleet()
	plan, err := exampleSet(`{"name":"all at once","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":0}}]}`).Plan(s, t0)
	if err != nil {
		log.Fatal(err)
	}
	line, err := json.Marshal(rollout.Recording{Schema: 1, Snapshot: s, Plan: plan})
	if err != nil {
		log.Fatal(err)
	}

	recording, err := rollout.ParseRecording(line)
	if err != nil {
		log.Fatal(err)
	}
	slowly := exampleSet(`{"name":"slowly","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	_, changes, err := slowly.Replay(recording)
	if err != nil {
		log.Fatal(err)
	}
	for _, change := range changes {
		fmt.Println(change.Resource, "was:  ", change.Before)
		fmt.Println(change.Resource, "would:", change.After)
	}
	// Output:
	// n2 was:   starts v2
	// n2 would: v2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T00:10:00Z
}

// ExampleOverride lets a hotfix past a freeze, on one node, for an hour.
func ExampleOverride() {
	set := exampleSet(`{"name":"freeze","selector":"true","rules":[
		{"id":"new-year","deploymentWindow":{"from":"2024-12-20T00:00:00Z","until":"2025-01-07T00:00:00Z","allowWindow":false}}]}`)
	s := exampleFleet()
	s.Overrides = []rollout.Override{{
		ID: "CHG-17", Rule: "new-year", Version: "v2", Resource: "n1", CreatedAt: t0, ExpiresAt: t0.Add(time.Hour), CreatedBy: "ann", Reason: "payments fail on n1",
	}}
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
	// Output:
	// start v2 on n1
	// n2 waits: window_closed until 2025-01-07T00:00:00Z
	// look again at 01:00:00
}

// ticket is a rule that asks for a change ticket on the version.
type ticket struct{}

func (ticket) ID() string { return "change-ticket" }

func (ticket) Judge(c rollout.Candidate) rollout.Verdict {
	if c.Version.Metadata["ticket"] != "" {
		return rollout.Verdict{Status: rollout.Allowed}
	}
	return rollout.Verdict{Status: rollout.Pending, Reason: "no_ticket", On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: c.Deployment.ID}}}
}

// ExampleWithRule adds a rule of the host's own.
func ExampleWithRule() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Compile(nil, env, rollout.WithRule(ticket{}))
	if err != nil {
		log.Fatal(err)
	}
	s := exampleFleet()
	for range 2 {
		plan, err := set.Plan(s, t0)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(plan.Start), "start,", plan.Waiting.Len(), "wait")
		if plan.Waiting.Len() > 0 {
			fmt.Println(waitingOf(plan)[0].Blockers[0])
		}
		s.Versions[1].Metadata = map[string]string{"ticket": "CHG-17"}
	}
	// Output:
	// 0 start, 2 wait
	// no_ticket, waits for a version of web
	// 2 start, 0 wait
}
