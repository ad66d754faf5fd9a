package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// The host's loop, once: load the policies, plan on what was observed, save what follows from the
// starts, and only then dispatch them.
func ExamplePolicySet_Plan() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{"name": "slowly", "selector": "true", "rules": [
		{"id": "turns", "gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 600}}]}`), env, rollout.WithZones(time.LoadLocation))
	if err != nil {
		log.Fatal(err)
	}

	now := time.Date(2025, 1, 1, 9, 0, 0, 0, time.UTC)
	snapshot := rollout.Snapshot{
		Resources:    []rollout.Resource{{ID: "n1"}, {ID: "n2"}},
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "web"}},
		Versions: []rollout.Version{
			{ID: "v1", Deployment: "web", Status: rollout.VersionReady, CreatedAt: now.Add(-24 * time.Hour)},
			{ID: "v2", Deployment: "web", Status: rollout.VersionReady, CreatedAt: now},
		},
		Targets: []rollout.Target{
			{TargetID: rollout.TargetID{Resource: "n1", Environment: "prod", Deployment: "web"}, Current: "v1"},
			{TargetID: rollout.TargetID{Resource: "n2", Environment: "prod", Deployment: "web"}, Current: "v1"},
		},
	}
	plan, err := set.Plan(snapshot, now)
	if err != nil {
		log.Fatal(err)
	}
	snapshot.State, err = plan.Commit(plan.Start, now) // save it, under the condition that nobody else saved
	if err != nil {
		log.Fatal(err)
	}
	for _, start := range plan.Start {
		fmt.Println("dispatch", start.Version, "to", start.Resource, "unless there is a job", start.Run)
	}
	for wait := range plan.Waiting.All() {
		fmt.Println(wait.Resource, "waits:", wait.Blockers[0])
	}
	fmt.Println("look again at", plan.Next.Format(time.TimeOnly))

	fmt.Println("\nThe same in a log:")
	fmt.Println(plan)
	// Output:
	// dispatch v2 to n1 unless there is a job n1/prod/web/v2/1
	// n2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T09:10:00Z
	// look again at 09:10:00
	//
	// The same in a log:
	// plan at 2025-01-01T09:00:00Z: 1 start, 1 wait, 0 in progress, 0 current, next 2025-01-01T09:10:00Z
	// start      n1 / prod / web: deploy v2 as n1/prod/web/v2/1, rule_not_applicable
	// wait       n2 / prod / web: v2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T09:10:00Z
}

// Whatever is wrong with a document is reported at once, each fault with its path, its code and
// what to write instead.
func ExampleLoad() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = rollout.Load([]byte(`{"name": "web", "selector": "deployment.name = 'web'", "rules": [
		{"gradualRollout": {"rolloutType": "cubic", "timeScaleInterval": 60}},
		{"retry": {"maxRetry": 3}},
		{}
	]}`), env)
	if faults, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range faults.Unwrap() {
			var fault *rollout.FieldError
			if errors.As(one, &fault) {
				fmt.Printf("%s %s: %s\n", fault.Path, fault.Code, fault.Hint)
			}
		}
	}
	// Output:
	// rules[1].retry.maxRetry unknown_field: unknown field
	// rules[0].gradualRollout.rolloutType unknown_value: must be "linear", "linear-normalized", "exponential" or "waves"
	// rules[1].retry.maxRetries required: is required: how many attempts may follow the first
	// rules[2] required: must hold one kind of rule, such as deploymentBracket or resourceConcurrency
	// selector expression: 1:17: syntax error at = (write == for =)
}

// exampleNow is when the examples plan.
var exampleNow = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// exampleSet loads policies.
func exampleSet(policies string) *rollout.PolicySet {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(policies), env)
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
			{ID: "v1", Deployment: "web", Status: rollout.VersionReady, CreatedAt: exampleNow.Add(-time.Hour)},
			{ID: "v2", Deployment: "web", Status: rollout.VersionReady, CreatedAt: exampleNow},
		},
	}
	for _, r := range s.Resources {
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: "prod", Deployment: "web"}, Current: "v1"})
	}
	return s
}

// ExampleParsePolicies has every kind of rule once, with the fields that are needed most. Each has
// an id of its own, because state is stored under it.
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
			{"id": "few-failures", "failureBudget": {"maxFailures": "5%"}},
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
	// services few-failures failureBudget
	// services four-eyes anyApproval
	// services staging-first environmentProgression
	// services once-a-day versionCooldown
	// services office-hours deploymentWindow
	// services again retry
	// services back rollback
}

// An exponential curve: the first waits are the longest, and all targets are due within an hour.
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

// remembering compiles every expression once. A host lets it forget those of versions that are gone,
// and guards it with a lock if it plans concurrently.
type remembering struct {
	*selector.Env
	known map[string]rollout.Matcher
	asked int
}

func (c *remembering) Matcher(expression string) (rollout.Matcher, error) {
	if known, ok := c.known[expression]; ok {
		return known, nil
	}
	c.asked++
	compiled, err := c.Env.Matcher(expression)
	if err == nil {
		c.known[expression] = compiled
	}
	return compiled, err
}

// Every plan compiles the expressions of the versions in its snapshot, unless the compiler remembers
// them.
func ExampleCompiler() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		panic(err)
	}
	compiler := &remembering{Env: env, known: map[string]rollout.Matcher{}}
	set, err := rollout.Load([]byte(`{"name": "all", "selector": "true", "rules": [{"anyApproval": {"minApprovals": 1}}]}`), compiler)
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 11, 9, 0, 0, 0, time.UTC)
	snapshot := rollout.Snapshot{
		Resources:    []rollout.Resource{{ID: "node-1", Metadata: map[string]string{"tenant": "acme"}}},
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "api"}},
		Versions: []rollout.Version{
			{ID: "v2-acme", Deployment: "api", Status: rollout.VersionReady, CreatedAt: now, TargetSelector: "resource.metadata['tenant'] == 'acme'"},
		},
		Targets: []rollout.Target{{TargetID: rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "api"}}},
	}
	for range 3 {
		plan, err := set.Plan(snapshot, now)
		if err != nil {
			panic(err)
		}
		fmt.Println(plan.Waiting.Len(), "waits,", compiler.asked, "compiled")
	}
	// Output:
	// 1 waits, 2 compiled
	// 1 waits, 2 compiled
	// 1 waits, 2 compiled
}

// ExamplePlan_Explain asks why a node does not get v2.
func ExamplePlan_Explain() {
	set := exampleSet(`{"name":"office hours","selector":"true","rules":[
		{"id":"four-eyes","anyApproval":{"minApprovals":2}},
		{"id":"day","deploymentWindow":{"weekly":{"days":["mon","tue","wed","thu","fri"],"start":"09:00","end":"17:00"}}},
		{"id":"slowly","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	s := exampleFleet()
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved, At: exampleNow}}
	plan, err := set.Plan(s, exampleNow)
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
	before, err := set.Plan(s, exampleNow)
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

// ExamplePolicySet_Replay writes a decision to a log, and asks later what another policy would have
// decided.
func ExamplePolicySet_Replay() {
	s := exampleFleet()
	plan, err := exampleSet(`{"name":"all at once","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":0}}]}`).Plan(s, exampleNow)
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

// ExampleOverride lets a hotfix past a window that closes over New Year, on one node, for an hour.
func ExampleOverride() {
	set := exampleSet(`{"name":"holidays","selector":"true","rules":[
		{"id":"new-year","deploymentWindow":{"from":"2024-12-20T00:00:00Z","until":"2025-01-07T00:00:00Z","allowWindow":false}}]}`)
	s := exampleFleet()
	s.Overrides = []rollout.Override{{
		ID: "CHG-17", Rule: "new-year", Version: "v2", Resource: "n1", CreatedAt: exampleNow, ExpiresAt: exampleNow.Add(time.Hour), CreatedBy: "ann", Reason: "payments fail on n1",
	}}
	plan, err := set.Plan(s, exampleNow)
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

// ExampleFreeze keeps a node out of a rollout while its disk is replaced, and then everything, because
// nobody knows yet what is wrong. Who waits is told whom to ask.
func ExampleFreeze() {
	set := exampleSet(`{"name":"one at a time","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1}}]}`)
	s := exampleFleet()
	disk := rollout.Freeze{
		ID: "disk-n1", Resource: "n1", CreatedAt: exampleNow, ExpiresAt: exampleNow.Add(6 * time.Hour), CreatedBy: "ann", Reason: "its disk is replaced",
	}
	incident := rollout.Freeze{ID: "INC-7", CreatedAt: exampleNow, CreatedBy: "bob", Reason: "payments fail"}
	for _, s.Freezes = range [][]rollout.Freeze{{disk}, {disk, incident}} {
		plan, err := set.Plan(s, exampleNow)
		if err != nil {
			log.Fatal(err)
		}
		for _, start := range plan.Start {
			fmt.Println(start.Resource, "starts", start.Version)
		}
		for wait := range plan.Waiting.All() {
			fmt.Println(wait)
		}
		fmt.Println("look again at", plan.Next.Format(time.TimeOnly))
	}
	// Output:
	// n2 starts v2
	// n1 / prod / web: v2 waits: frozen by ann (its disk is replaced) until 2025-01-01T06:00:00Z, waits for the end of freeze disk-n1
	// look again at 06:00:00
	// n1 / prod / web: v2 waits: frozen by bob (payments fail), waits for the end of freeze INC-7; frozen by ann (its disk is replaced) until 2025-01-01T06:00:00Z, waits for the end of freeze disk-n1
	// n2 / prod / web: v2 waits: frozen by bob (payments fail), waits for the end of freeze INC-7
	// look again at 06:00:00
}

// ExampleFreeze_pauseCurves lifts a freeze that began after five minutes of a rollout with a turn
// every ten. Two hours later, the second node still has five minutes to wait.
func ExampleFreeze_pauseCurves() {
	set := exampleSet(`{"name":"slowly","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	s := exampleFleet()
	incident := rollout.Freeze{ID: "INC-7", CreatedAt: exampleNow.Add(5 * time.Minute), CreatedBy: "bob", Reason: "payments fail", PauseCurves: true}
	now := exampleNow
	for _, step := range []string{"begins", "frozen", "lifted"} {
		switch step {
		case "frozen":
			now = incident.CreatedAt
			s.Freezes = []rollout.Freeze{incident}
		case "lifted": // and not left out: then the second node would be due
			now = now.Add(2 * time.Hour)
			s.Freezes[0].ExpiresAt = now
		}
		plan, err := set.Plan(s, now)
		if err != nil {
			log.Fatal(err)
		}
		s.State = plan.State
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "n2", Environment: "prod", Deployment: "web"})
		fmt.Println(now.Format(time.TimeOnly), wait)
	}
	// Output:
	// 00:00:00 n2 / prod / web: v2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T00:10:00Z
	// 00:05:00 n2 / prod / web: v2 waits: rollout_not_due (turn 2 of 2), waits for the end of freeze INC-7; frozen by bob (payments fail), waits for the end of freeze INC-7
	// 02:05:00 n2 / prod / web: v2 waits: rollout_not_due (turn 2 of 2) until 2025-01-01T02:10:00Z
}

// A host without Planner keeps the whole state as one JSON value, under the revision that it read.
// Of two hosts that read the same state one saves and dispatches; the other begins again.
func ExampleState() {
	ctx := context.Background()
	set := exampleSet(`{"name":"web","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1}}]}`)
	var store bracket.MemoryStore // or a row with a column for the revision

	type read struct {
		plan     rollout.Plan
		revision int64
	}
	observe := func() (read, error) {
		snapshot := exampleFleet()
		value, revision, err := store.Load(ctx, "state")
		if err == nil {
			err = json.Unmarshal(value, &snapshot.State)
		} else if errors.Is(err, bracket.ErrNotFound) {
			err = nil // nothing was ever saved: the zero State under revision 0
		}
		if err != nil {
			return read{}, err
		}
		plan, err := set.Plan(snapshot, exampleNow)
		return read{plan, revision}, err
	}
	save := func(r read) error {
		state, err := r.plan.Commit(r.plan.Start, exampleNow)
		if err != nil {
			return err
		}
		value, err := json.Marshal(state)
		if err == nil {
			_, err = store.Save(ctx, "state", value, r.revision)
		}
		return err
	}

	first, err := observe()
	if err != nil {
		log.Fatal(err)
	}
	second, err := observe()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("first:", save(first), first.plan.Start)
	fmt.Println("second:", save(second))
	if second, err = observe(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("second:", save(second), second.plan.Start)
	// Output:
	// first: <nil> [n1 / prod / web: deploy v2 as n1/prod/web/v2/1, slot_free]
	// second: bracket: value changed since it was read
	// second: <nil> [n1 / prod / web: deploy v2 as n1/prod/web/v2/1, slot_held]
}

// A host without Planner gives back the slot of a start that was saved and never dispatched: here
// the node was gone before the host came back. The host is sure that no job can still be created.
func ExampleState_release() {
	set := exampleSet(`{"name":"web","selector":"true","rules":[{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`)
	s := exampleFleet()
	plan, err := set.Plan(s, exampleNow)
	if err != nil {
		log.Fatal(err)
	}
	if s.State, err = plan.Commit(plan.Start, exampleNow); err != nil {
		log.Fatal(err)
	}
	s.Resources, s.Targets = s.Resources[1:], s.Targets[1:] // and not in DeletedResources: then nothing would be left to give back
	for range 2 {
		if plan, err = set.Plan(s, exampleNow.Add(time.Minute)); err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan.Start, plan.Orphans)
		s.State = plan.State
		s.State.Pools = slices.Clone(plan.State.Pools) // the records belong to the plan as well
		for _, orphan := range plan.Orphans {
			i := slices.IndexFunc(s.State.Pools, func(r concurrency.Record) bool { return r.Key == orphan.Pool })
			if s.State.Pools[i], err = s.State.Pools[i].Release(orphan.Holder, orphan.Token); err != nil {
				log.Fatal(err)
			}
		}
		// save it, under the condition that nobody else saved
	}
	// Output:
	// [] [n1 for target/prod/web in pool one, token 1, active since 2025-01-01T00:00:00Z]
	// [n2 / prod / web: deploy v2 as n2/prod/web/v2/1, slot_free] []
}

// The planner loads the state, plans, commits all starts and saves, in one call.
func ExamplePlanner_Plan() {
	planner := rollout.Planner{Policies: exampleSet(`{"name":"web","selector":"true","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1}}]}`),
		Store: &bracket.MemoryStore{}, Clock: clock.NewFake(exampleNow)}
	plan, err := planner.Plan(context.Background(), exampleFleet())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, start := range plan.Start { // saved already: dispatch each, create-if-absent by its run id
		fmt.Println("start", start.Run, "with token", start.Claims[0].Token)
	}
	for wait := range plan.Waiting.All() {
		fmt.Println(wait)
	}
	// Output:
	// start n1/prod/web/v2/1 with token 1
	// n2 / prod / web: v2 waits: slot_full, waits for a free slot in web/resourceConcurrency/0
}

// A host whose jobs live beside the records refuses a job if its start has lost a slot meanwhile:
// this host slept between Plan and dispatch, until another one gave the slot back as left behind.
func ExampleStart_Held() {
	ctx, store := context.Background(), &bracket.MemoryStore{}
	planner := rollout.Planner{Policies: exampleSet(`{"name":"web","selector":"true","rules":[{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`),
		Store: store, Clock: clock.NewFake(exampleNow)}
	plan, err := planner.Plan(ctx, exampleFleet())
	if err != nil {
		log.Fatal(err)
	}
	start := plan.Start[0]
	held := func() error { // in the transaction that creates the job, if there is none with the id start.Run
		for _, claim := range start.Claims {
			value, _, err := store.Load(ctx, rollout.PoolRecordKey(claim.Pool))
			if err != nil {
				return err
			}
			record, err := concurrency.ParseRecord(value)
			if err != nil {
				return err
			}
			if err := start.Held(record); err != nil {
				return err
			}
		}
		return nil
	}
	fmt.Println(held())

	withdrawn := exampleFleet()
	for i := range withdrawn.Versions {
		withdrawn.Versions[i].Status = rollout.VersionPaused
	}
	if plan, err = planner.Look(ctx, withdrawn); err != nil {
		log.Fatal(err)
	}
	for _, orphan := range plan.Orphans {
		if err := planner.Release(ctx, orphan); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(held())
	// Output:
	// <nil>
	// rollout: run n1/prod/web/v2/1: the slot in pool one with token 1 was given back: concurrency: token of a lost lease
}

// ExamplePolicySet_rate starts no more than two nodes per hour, although four may be at work at
// once. The host wakes only at NextAfter.
func ExamplePolicySet_rate() {
	fleet := exampleFleet()
	for _, id := range []string{"n3", "n4", "n5"} {
		fleet.Resources = append(fleet.Resources, rollout.Resource{ID: id})
		fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"}, Current: "v1"})
	}
	set := exampleSet(`{"name":"web","selector":"true","rules":[
		{"id":"nodes","resourceConcurrency":{"groupSelector":"true","limit":4,"rate":{"limit":2,"periodSeconds":3600}}}]}`)
	for now := exampleNow; !now.IsZero(); {
		plan, err := set.Plan(fleet, now)
		if err != nil {
			log.Fatal(err)
		}
		if fleet.State, err = plan.Commit(plan.Start, now); err != nil {
			log.Fatal(err)
		}
		for _, start := range plan.Start {
			fmt.Println(now.Format(time.TimeOnly), "start", start.Run)
			i := slices.IndexFunc(fleet.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })
			fleet.Targets[i].Jobs = []rollout.Job{{Run: start.Run, Version: start.Version, Status: rollout.JobSuccessful, CreatedAt: now, CompletedAt: now.Add(time.Minute)}}
			fleet.Targets[i].Current = start.Version
		}
		now = plan.NextAfter(plan.Start)
	}
	// Output:
	// 00:00:00 start n1/prod/web/v2/1
	// 00:00:00 start n2/prod/web/v2/1
	// 01:00:00 start n3/prod/web/v2/1
	// 01:00:00 start n4/prod/web/v2/1
	// 02:00:00 start n5/prod/web/v2/1
}

// ExamplePolicySet_halt has two slots for five nodes. A node that is down is repaired without one.
// But once more than two look down, nothing begins: perhaps it is the network.
func ExamplePolicySet_halt() {
	fleet := exampleFleet()
	for _, id := range []string{"n3", "n4", "n5"} {
		fleet.Resources = append(fleet.Resources, rollout.Resource{ID: id})
		fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"}, Current: "v1"})
	}
	set := exampleSet(`{"name":"web","selector":"true","rules":[
		{"id":"nodes","resourceConcurrency":{"groupSelector":"true","limit":2,"haltAboveUnavailable":"40%"}}]}`)
	for _, down := range [][]string{{"n3"}, {"n3", "n4", "n5"}} {
		fleet.Unavailable = down
		plan, err := set.Plan(fleet, exampleNow)
		if err != nil {
			log.Fatal(err)
		}
		for _, start := range plan.Start {
			fmt.Println(start)
		}
		fmt.Println(plan.Waiting)
		fmt.Println(plan.Pools[0])
	}
	// Output:
	// n3 / prod / web: deploy v2 as n3/prod/web/v2/1, slot_already_down
	// n1 / prod / web: deploy v2 as n1/prod/web/v2/1, slot_free
	// n2 / prod / web: v2 waits: slot_full, waits for a free slot in nodes; and 2 more likewise
	// nodes: 2 of 2 active: n3; 3 in the queue
	// n1 / prod / web: v2 waits: slot_halted (3 down, 2 may be), waits for members of nodes that come up; and 4 more likewise
	// nodes: 3 of 2 active, halted, 3 down: n3, n4, n5; 5 in the queue
}

// ExamplePolicySet_schedule has one slot by day and three at night. A limit that depends on the time
// is one rule under one id in two sets: the host plans with the set of the hour, and wakes when the
// other one's begins as well. What is at work then goes on, and counts against the new limit.
func ExamplePolicySet_schedule() {
	limited := func(limit int) *rollout.PolicySet {
		return exampleSet(fmt.Sprintf(`{"name":"web","selector":"true","rules":[{"id":"nodes","resourceConcurrency":{"groupSelector":"true","limit":%d}}]}`, limit))
	}
	day, night := limited(1), limited(3)
	window, err := clock.ParseWindow([]byte(`{"rrule":"FREQ=DAILY;BYHOUR=22","durationMinutes":360}`))
	if err != nil {
		log.Fatal(err)
	}
	nights, err := clock.NewCalendar([]clock.Window{window}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fleet := exampleFleet()
	for _, id := range []string{"n3", "n4", "n5", "n6"} {
		fleet.Resources = append(fleet.Resources, rollout.Resource{ID: id})
		fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"}, Current: "v1"})
	}
	for now := exampleNow.Add(20*time.Hour + 30*time.Minute); ; {
		left, wake := 0, now.Add(time.Hour) // when the jobs end that start now
		for i := range fleet.Targets {
			if t := &fleet.Targets[i]; len(t.Jobs) == 0 {
				left++
			} else if ends := t.Jobs[0].CreatedAt.Add(time.Hour); !now.Before(ends) { // each job takes an hour
				t.Jobs[0].Status, t.Jobs[0].CompletedAt, t.Current = rollout.JobSuccessful, ends, "v2"
			} else if ends.Before(wake) {
				wake = ends
			}
		}
		if left == 0 {
			break
		}
		set, other := day, nights.NextClose(now)
		if nights.Open(now) {
			set = night
		} else if other, err = nights.NextOpen(now); err != nil {
			log.Fatal(err)
		}
		plan, err := set.Plan(fleet, now)
		if err != nil {
			log.Fatal(err)
		}
		if fleet.State, err = plan.Commit(plan.Start, now); err != nil {
			log.Fatal(err)
		}
		for _, start := range plan.Start {
			fmt.Println(now.Format("15:04"), "start", start.Resource)
			i := slices.IndexFunc(fleet.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })
			fleet.Targets[i].Jobs = []rollout.Job{{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: now}}
		}
		for _, at := range []time.Time{plan.NextAfter(plan.Start), other} {
			if !at.IsZero() && at.Before(wake) {
				wake = at
			}
		}
		now = wake
	}
	// Output:
	// 20:30 start n1
	// 21:30 start n2
	// 22:00 start n3
	// 22:00 start n4
	// 22:30 start n5
	// 23:00 start n6
}

// ExampleVersion_priority gives the only slot of a pool to a security fix that was published a minute
// ago, although version v2 of web has been due on two nodes for longer.
func ExampleVersion_priority() {
	fleet := exampleFleet()
	fleet.Resources = append(fleet.Resources, rollout.Resource{ID: "n3"})
	fleet.Deployments = append(fleet.Deployments, rollout.Deployment{ID: "sshd"})
	fleet.Versions = append(fleet.Versions,
		rollout.Version{ID: "v1", Deployment: "sshd", Status: rollout.VersionReady, CreatedAt: exampleNow.Add(-time.Hour)},
		rollout.Version{ID: "v1-fixed", Deployment: "sshd", Status: rollout.VersionReady, CreatedAt: exampleNow.Add(time.Minute), Priority: 10},
	)
	fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "n3", Environment: "prod", Deployment: "sshd"}, Current: "v1"})
	set := exampleSet(`{"name":"nodes","selector":"true","rules":[{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`)
	plan, err := set.Plan(fleet, exampleNow.Add(2*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.Start[0])
	fmt.Println(plan.Waiting)
	// Output:
	// n3 / prod / sshd: deploy v1-fixed as n3/prod/sshd/v1-fixed/1, slot_free
	// n1 / prod / web: v2 waits: slot_full, waits for a free slot in one; and 1 more likewise
}

// Who is next? Two nodes have a newer version of web to come, and the pool of all nodes is full: one
// of them is down.
func ExamplePlan_Queue() {
	fleet := exampleFleet()
	fleet.Unavailable = []string{"n3"}
	fleet.Resources = append(fleet.Resources, rollout.Resource{ID: "n3"})
	set := exampleSet(`{"name":"nodes","selector":"true","rules":[{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`)
	plan, err := set.Plan(fleet, exampleNow)
	if err != nil {
		log.Fatal(err)
	}
	queue, err := plan.Queue()
	if err != nil {
		log.Fatal(err)
	}
	for k, next := range queue {
		fmt.Printf("%d. %s\n", k+1, next)
	}
	explanation, err := plan.Explain(rollout.TargetID{Resource: "n2", Environment: "prod", Deployment: "web"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(explanation.Queue)
	// Output:
	// 1. n1 / prod / web: deploy v2, due since 2025-01-01T00:00:00Z, for one
	// 2. n2 / prod / web: deploy v2, due since 2025-01-01T00:00:00Z, for one
	// [one: 2 of 2]
}

// ExamplePlanner_choose takes back one node at a time: rollbacks wait for no curve and no window, so
// all of them are offered at once.
func ExamplePlanner_choose() {
	planner := rollout.Planner{Policies: exampleSet(`{"name":"web","selector":"true","rules":[{"rollback":{"onJobStatuses":["failure"]}}]}`),
		Store: &bracket.MemoryStore{}, Clock: clock.NewFake(exampleNow)}
	planner.Choose = func(plan *rollout.Plan) (chosen []rollout.Start) {
		back := 0
		for _, start := range plan.Start {
			if start.Purpose == rollout.PurposeRollback {
				back++
			}
			if start.Purpose != rollout.PurposeRollback || back == 1 {
				chosen = append(chosen, start)
			}
		}
		return chosen
	}
	s := exampleFleet()
	for i := range s.Targets {
		s.Targets[i].Jobs = []rollout.Job{{Run: "job", Version: "v2", Status: rollout.JobFailure, CreatedAt: exampleNow}}
	}
	plan, err := planner.Plan(context.Background(), s)
	if err != nil {
		log.Fatal(err)
	}
	for _, start := range plan.Start {
		fmt.Println(start)
	}
	// Output:
	// n1 / prod / web: rollback v1 as n1/prod/web/v1/1/rollback, rule_not_applicable
}

// A WaitingList is read from the first target to the last, or asked about one target.
func ExampleWaitingList() {
	set := exampleSet(`{"name":"slowly","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`)
	s := exampleFleet()
	plan, err := set.Plan(s, exampleNow)
	if err != nil {
		log.Fatal(err)
	}
	for _, target := range s.Targets {
		if wait, waits := plan.Waiting.Of(target.TargetID); waits {
			fmt.Println(wait.Resource, "waits with", wait.Version, "until", wait.Blockers[0].Until.Format(time.TimeOnly))
		}
	}
	fmt.Println(plan.Waiting.Len(), "of", len(s.Targets))
	// Output:
	// n2 waits with v2 until 00:10:00
	// 1 of 2
}

// What a dashboard shows: how many wait, by the first thing that is in their way.
func ExampleWaitingList_All() {
	set := exampleSet(`{"name":"checked","selector":"true","rules":[{"anyApproval":{"minApprovals":1}}]}`)
	plan, err := set.Plan(exampleFleet(), exampleNow)
	if err != nil {
		log.Fatal(err)
	}
	gauge := map[rollout.Reason]int{}
	for wait := range plan.Waiting.All() {
		gauge[wait.Blockers[0].Reason]++
	}
	for _, reason := range slices.Sorted(maps.Keys(gauge)) {
		fmt.Println(reason, gauge[reason])
	}
	// Output:
	// approval_missing 2
}

// ExampleFailureBudget stops a release at its second failure: one target may fail. The targets that
// have begun may be tried again; no other target gets it. The fix is another version, with a budget
// and a curve of its own.
func ExampleFailureBudget() {
	set := exampleSet(`{"name":"slowly","selector":"true","rules":[
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}, {"id":"halt","failureBudget":{"maxFailures":1}}]}`)
	s := exampleFleet()
	for _, id := range []string{"n3", "n4"} {
		s.Resources = append(s.Resources, rollout.Resource{ID: id})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"}, Current: "v1"})
	}
	for turn := range 4 {
		now := exampleNow.Add(time.Duration(turn) * 10 * time.Minute)
		if turn == 3 {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: now})
		}
		plan, err := set.Plan(s, now)
		if err != nil {
			log.Fatal(err)
		}
		if s.State, err = plan.Commit(plan.Start, now); err != nil {
			log.Fatal(err)
		}
		for _, start := range plan.Start {
			fmt.Println(now.Format(time.TimeOnly), start.Resource, "starts", start.Version)
			i := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })
			s.Targets[i].Jobs = []rollout.Job{{Run: start.Run, Version: start.Version, Status: rollout.JobFailure, CreatedAt: now, CompletedAt: now.Add(time.Minute)}}
		}
		for wait := range plan.Waiting.All() {
			if turn == 2 {
				fmt.Println(now.Format(time.TimeOnly), wait.Resource, "waits:", wait.Blockers[0])
			}
		}
	}
	// Output:
	// 00:00:00 n1 starts v2
	// 00:10:00 n4 starts v2
	// 00:20:00 n1 waits: retry_exhausted (1 of 1 attempts failed), waits for an operator or a version of web
	// 00:20:00 n2 waits: failure_budget_exceeded (2 targets failed, 1 may: n1, n4), waits for an operator's override or a version of web or successes of web v2 in prod
	// 00:20:00 n3 waits: failure_budget_exceeded (2 targets failed, 1 may: n1, n4), waits for an operator's override or a version of web or successes of web v2 in prod
	// 00:20:00 n4 waits: retry_exhausted (1 of 1 attempts failed), waits for an operator or a version of web
	// 00:30:00 n2 starts v3
}

// ExampleFailureBudget_rate stops a release that fails often, long before it has failed on a share of
// the whole fleet: of a hundred clusters, the second failure among the first five is enough.
func ExampleFailureBudget_rate() {
	set := exampleSet(`{"name":"fleet","selector":"true","rules":[
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}},
		{"id":"often","failureBudget":{"maxFailures":"10%","maxFailureRate":"20%","minimumSample":5}}]}`)
	s := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "web"}},
		Versions: []rollout.Version{{ID: "v2", Deployment: "web", Status: rollout.VersionReady, CreatedAt: exampleNow}},
	}
	for k := range 100 {
		id := fmt.Sprintf("c%02d", k)
		s.Resources = append(s.Resources, rollout.Resource{ID: id})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"}})
	}
	for turn := 0; ; turn++ {
		now := exampleNow.Add(time.Duration(turn) * 10 * time.Minute)
		plan, err := set.Plan(s, now)
		if err != nil {
			log.Fatal(err)
		}
		if s.State, err = plan.Commit(plan.Start, now); err != nil {
			log.Fatal(err)
		}
		if len(plan.Start) == 0 {
			for wait := range plan.Waiting.All() {
				if wait.Blockers[0].Reason == rollout.ReasonFailureBudget {
					fmt.Println(turn, "clusters have it:", wait.Blockers[0])
					return
				}
			}
		}
		for _, start := range plan.Start {
			job := rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobSuccessful, CreatedAt: now, CompletedAt: now.Add(time.Minute)}
			if turn%2 == 1 {
				job.Status = rollout.JobFailure
			}
			i := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })
			s.Targets[i].Jobs = []rollout.Job{job}
		}
	}
	// Output:
	// 5 clusters have it: failure_budget_exceeded (2 targets of 5 failed, 1 may: c54, c56), waits for an operator's override or a version of web or successes of web v2 in prod
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
		plan, err := set.Plan(s, exampleNow)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(len(plan.Start), "start,", plan.Waiting.Len(), "wait")
		for wait := range plan.Waiting.All() {
			fmt.Println(wait.Resource, "waits:", wait.Blockers[0])
		}
		s.Versions[1].Metadata = map[string]string{"ticket": "CHG-17"}
	}
	// Output:
	// 0 start, 2 wait
	// n1 waits: no_ticket, waits for a version of web
	// n2 waits: no_ticket, waits for a version of web
	// 2 start, 0 wait
}
