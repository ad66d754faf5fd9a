package rollouttest_test

import (
	"context"
	"fmt"
	"log"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
	"github.com/tranche-dev/tranche/selector"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// exampleSet lets one node at a time be disrupted.
func exampleSet() *rollout.PolicySet { return exampleSetOf(1) }

// exampleSetOf lets so many nodes at a time be disrupted.
func exampleSetOf(limit int) *rollout.PolicySet {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load(fmt.Appendf(nil, `{"name": "few at a time", "selector": "true", "rules": [
		{"id": "nodes", "resourceConcurrency": {"groupSelector": "true", "limit": %d}}]}`, limit), env)
	if err != nil {
		log.Fatal(err)
	}
	return set
}

// exampleFleet is two nodes, and a kubelet that was published at noon.
func exampleFleet() rollout.Snapshot {
	return rollout.Snapshot{
		Resources:    []rollout.Resource{{ID: "node-1"}, {ID: "node-2"}},
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "kubelet"}},
		Versions:     []rollout.Version{{ID: "v2", Deployment: "kubelet", Status: rollout.VersionReady, CreatedAt: noon}},
		Targets: []rollout.Target{
			{TargetID: rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "kubelet"}},
			{TargetID: rollout.TargetID{Resource: "node-2", Environment: "prod", Deployment: "kubelet"}},
		},
	}
}

// A world is run from the release of a version until nothing is left to do: everything that
// happens, what it costs, and a picture.
func Example() {
	world := rollouttest.World{
		Policies: exampleSet(),
		Fleet:    exampleFleet(),
		Job:      rollouttest.Durations(map[string]time.Duration{"kubelet": 3 * time.Minute}),
	}
	timeline, err := world.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(timeline)
	fmt.Print(timeline.Chart(time.Minute))
	// Output:
	// 2026-03-10
	//   12:00:00  node-1: start kubelet v2
	//   12:00:00  node-2: kubelet v2: slot_full in nodes, held by node-1
	//   12:03:00  node-1: kubelet v2 ended: successful
	//   12:03:00  node-2: start kubelet v2
	//   12:06:00  node-2: kubelet v2 ended: successful
	// done at 2026-03-10 12:06:00
	// at most 1 resource in flight at once
	// nodes: at most 1 of 2 active, 1 allowed
	// 1m = 1 column, from 2026-03-10 12:00:00
	// k kubelet  # several  - slot held
	//        +0s
	// node-1 kkk...
	// node-2 ...kkk
}

// What does a host lose if it polls every five minutes, instead of being woken by the end of a job?
// The first kubelet is upgraded after three minutes, which is noticed two minutes later.
func ExampleWorld_every() {
	world := rollouttest.World{
		Policies: exampleSet(),
		Fleet:    exampleFleet(),
		Job:      rollouttest.Durations(map[string]time.Duration{"kubelet": 3 * time.Minute}),
		Every:    5 * time.Minute,
	}
	timeline, err := world.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(timeline.Chart(time.Minute))
	fmt.Println("done at", timeline.Finish.Format(time.TimeOnly))
	// Output:
	// 1m = 1 column, from 2026-03-10 12:00:00
	// k kubelet  # several  - slot held
	//        +0s
	// node-1 kkk.....
	// node-2 .....kkk
	// done at 12:08:00
}

// When is it done if somebody has to approve? Two of three times the answer came within the hour.
func ExampleForecast_approvals() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{"name": "one at a time, approved", "selector": "true", "rules": [
		{"id": "ok", "anyApproval": {"minApprovals": 1}},
		{"id": "nodes", "resourceConcurrency": {"groupSelector": "true", "limit": 1}}]}`), env)
	if err != nil {
		log.Fatal(err)
	}
	samples := rollouttest.Samples{
		Jobs:      map[string][]rollouttest.Outcome{"kubelet": {{After: 3 * time.Minute}, {After: 3 * time.Minute}, {After: 10 * time.Minute}}},
		Approvals: map[string][]rollouttest.Answer{"prod": {{After: 20 * time.Minute}, {After: time.Hour}, {After: 16 * time.Hour}}},
	}
	prediction, err := rollouttest.Forecast(context.Background(), rollouttest.World{Policies: set, Fleet: exampleFleet()}, samples, 200, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, q := range []float64{0.25, 0.5, 0.9} {
		at, _ := prediction.Finish(q)
		fmt.Printf("%.0f%% of the trials are done by %s\n", 100*q, at.Format("Jan _2 15:04"))
	}
	fmt.Printf("done today: %.0f%%\n", 100*prediction.DoneBy(noon.Add(12*time.Hour)))
	// Output:
	// 25% of the trials are done by Mar 10 12:33
	// 50% of the trials are done by Mar 10 13:13
	// 90% of the trials are done by Mar 11 04:13
	// done today: 65%
}

// What becomes of a version that only fails on some nodes? Here the third failure exceeds the budget:
// it goes no further, and the nodes that have it go back to the version before, one after the other.
func ExampleWorld_rollback() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{"name": "agents", "selector": "true", "rules": [
		{"id": "curve", "gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 300}},
		{"id": "budget", "failureBudget": {"maxFailures": 2}},
		{"id": "back", "rollback": {"onFailureBudget": true}},
		{"id": "nodes", "resourceConcurrency": {"groupSelector": "true", "limit": 1}}]}`), env)
	if err != nil {
		log.Fatal(err)
	}
	fleet := exampleAgents(8)
	timeline, err := rollouttest.World{
		Policies: set, Fleet: fleet, Start: noon,
		Job: func(start rollout.Start, _ int) rollouttest.Outcome {
			if start.Version == "v2" && slices.Contains([]string{"node-1", "node-2", "node-3"}, start.Resource) {
				return rollouttest.Outcome{After: 2 * time.Minute, Status: rollout.JobFailure}
			}
			return rollouttest.Outcome{After: 3 * time.Minute}
		},
	}.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(timeline.Chart(time.Minute))
	fmt.Println(timeline.Left[4])
	fmt.Println(timeline.Left[5])
	// Output:
	// 1m = 1 column, from 2026-03-10 12:00:00
	// a agent  # several  - slot held
	//        +0s       +10m      +20m      +30m      +40m      +50m
	// node-7 aaa................................aaa...............
	// node-6 .....aaa..............................aaa............
	// node-3 ..........aa.............................aaa.........
	// node-0 ...............aaa..........................aaa......
	// node-4 ....................aaa........................aaa...
	// node-1 .........................aa.......................aaa
	// node-2 ..............................aaaaa..................
	// node-4 / prod / agent: v2 waits: rollback_triggered (back to v1): over failureBudget budget, waits for an operator's override or a version of agent
	// node-5 / prod / agent: v2 waits: failure_budget_exceeded (3 targets failed, 2 may: node-1, node-2, node-3), waits for an operator's override or a version of agent or successes of agent v2 in prod
}

// What if somebody watches? Here whoever is on call rejects a version ten minutes after its second
// failure. Until then it goes on, because no budget stops it; then it leaves the nodes that have it.
func ExampleWorld_react() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{"name": "agents", "selector": "true", "rules": [
		{"id": "curve", "gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 300}},
		{"id": "back", "rollback": {"onVersionStatuses": ["rejected"]}}]}`), env)
	if err != nil {
		log.Fatal(err)
	}
	fleet := exampleAgents(8)
	timeline, err := rollouttest.World{
		Policies: set, Fleet: fleet, Start: noon,
		Job: func(start rollout.Start, _ int) rollouttest.Outcome {
			if start.Version == "v2" && slices.Contains([]string{"node-3", "node-4"}, start.Resource) {
				return rollouttest.Outcome{After: 2 * time.Minute, Status: rollout.JobFailure}
			}
			return rollouttest.Outcome{After: 3 * time.Minute}
		},
		React: func(step rollouttest.Step, news []rollouttest.Entry) (changes []rollouttest.Change) {
			for _, entry := range news {
				if entry.Kind != rollouttest.End || entry.Status != string(rollout.JobFailure) {
					continue
				}
				failed := 0
				for _, target := range step.Snapshot.Targets {
					for _, job := range target.Jobs {
						if job.Version == entry.Version && job.Status == rollout.JobFailure {
							failed++
						}
					}
				}
				if failed == 2 {
					changes = append(changes, rollouttest.Change{
						At: entry.At.Add(10 * time.Minute), What: "on call: " + entry.Version + " is rejected",
						Do: func(s *rollout.Snapshot) {
							for k := range s.Versions {
								if s.Versions[k].ID == entry.Version {
									s.Versions[k].Status = "rejected"
								}
							}
						},
					})
				}
			}
			return changes
		},
	}.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range timeline.Entries {
		if entry.Note != "" || entry.Status == string(rollout.JobFailure) {
			fmt.Println(entry.At.Format("15:04"), strings.TrimSpace(entry.Resource+" "+entry.Status+entry.Note))
		}
	}
	fmt.Print(timeline.Chart(time.Minute))
	// Output:
	// 12:12 node-3 failure
	// 12:22 node-4 failure
	// 12:32 on call: v2 is rejected
	// 1m = 1 column, from 2026-03-10 12:00:00
	// a agent  # several  - slot held
	//        +0s       +10m      +20m      +30m
	// node-7 aaa.............................aaa.
	// node-6 .....aaa........................aaa.
	// node-3 ..........aa....................aaa.
	// node-0 ...............aaa..............aaa.
	// node-4 ....................aa..........aaa.
	// node-1 .........................aaa....aaa.
	// node-2 ..............................aaaaaa
}

// When is it done? Every job takes as long as one of the past ones, drawn at random: most took
// three minutes, one in four took ten.
func ExampleForecast() {
	world := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
	past := map[string][]rollouttest.Outcome{"kubelet": {{After: 3 * time.Minute}, {After: 3 * time.Minute}, {After: 3 * time.Minute}, {After: 10 * time.Minute}}}
	prediction, err := rollouttest.Forecast(context.Background(), world, rollouttest.Samples{Jobs: past}, 1000, 1)
	if err != nil {
		log.Fatal(err)
	}
	median, _ := prediction.Finish(0.5)
	late, _ := prediction.Finish(0.95)
	fmt.Println("half of the trials are done at", median.Format(time.TimeOnly), "and 95% of them at", late.Format(time.TimeOnly))
	fmt.Printf("a freeze at 12:15 leaves a chance of %.0f%%\n", 100*prediction.DoneBy(noon.Add(15*time.Minute)))
	// Output:
	// half of the trials are done at 12:06:00 and 95% of them at 12:20:00
	// a freeze at 12:15 leaves a chance of 93%
}

// What is gained by two nodes at a time? Both forecasts draw the same durations for the same jobs, so
// they are compared trial by trial: the difference is that of the policies alone.
func ExampleForecast_compare() {
	past := map[string][]rollouttest.Outcome{"kubelet": {{After: 3 * time.Minute}, {After: 3 * time.Minute}, {After: 3 * time.Minute}, {After: 10 * time.Minute}}}
	var predictions [2]rollouttest.Prediction
	for k := range predictions {
		world := rollouttest.World{Policies: exampleSetOf(k + 1), Fleet: exampleFleet()}
		var err error
		if predictions[k], err = rollouttest.Forecast(context.Background(), world, rollouttest.Samples{Jobs: past}, 1000, 1); err != nil {
			log.Fatal(err)
		}
	}
	gains := map[time.Duration]int{}
	for k, before := range predictions[0].Trials {
		gains[before.Finish.Sub(predictions[1].Trials[k].Finish)]++
	}
	for _, gain := range slices.Sorted(maps.Keys(gains)) {
		fmt.Printf("%v earlier in %d of 1000 trials\n", gain, gains[gain])
	}
	// Output:
	// 3m0s earlier in 934 of 1000 trials
	// 10m0s earlier in 66 of 1000 trials
}

// What does a job that fails, or one that hangs, do to the rollout? Every job is tried. A node that
// fails gives its slot to the next one. A node that hangs keeps it, and if it comes first, both are
// held: a stuckAfterSeconds in the limit would help.
func ExampleExplore() {
	world := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
	exploration, err := rollouttest.Explore(context.Background(), world, nil, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(exploration)
	for _, c := range exploration.Consequences {
		if len(c.Held) > 1 {
			fmt.Println(c)
			timeline, err := world.With(c.Faults...).Run(context.Background())
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(timeline.Trace())
		}
	}
	// Output:
	// 4 trials with faults from 2026-03-10 12:00:00 on
	// without faults: done at 2026-03-10 12:02:00 (+2m)
	// kubelet fails (2 trials): never done: retry_exhausted in 2 trials; 1 resource held
	// kubelet hangs (2 trials): never done: an unfinished job in 2 trials, slot_full in 1 trial; 1 to 2 resources held, most by the fault on node-1; 1 resource left in disruption
	// kubelet hangs on node-1 in prod (v2): never done: slot_full, an unfinished job; node-1, node-2 held; node-1 left in disruption
	// 2026-03-10
	//   12:00:00  node-1: start kubelet v2
	//   12:00:00  node-2: kubelet v2: slot_full in nodes, held by node-1
}

// When does the kubelet come to prod? It is asked at ten past twelve, in the middle of the rollout.
// On node-2 v2 has failed, and no rule repeats that, so the fleet is never done. On node-1 it has
// been at work for five minutes, so it takes as long as one of the past jobs that took longer.
func ExamplePrediction_About() {
	fleet := exampleFleet()
	fleet.Targets[0].Jobs = []rollout.Job{{Run: "b", Version: "v2", Status: rollout.JobInProgress, CreatedAt: noon.Add(5 * time.Minute)}}
	fleet.Targets[1].Jobs = []rollout.Job{{Run: "a", Version: "v2", Status: rollout.JobFailure, CreatedAt: noon, CompletedAt: noon.Add(5 * time.Minute)}}
	world := rollouttest.World{Policies: exampleSet(), Fleet: fleet, Start: noon.Add(10 * time.Minute)}
	past := map[string][]rollouttest.Outcome{"kubelet": {{After: 3 * time.Minute}, {After: 8 * time.Minute}, {After: 10 * time.Minute}}}
	prediction, err := rollouttest.Forecast(context.Background(), world, rollouttest.Samples{Jobs: past}, 100, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(prediction)

	kubelet := rollouttest.Goal{Deployment: "kubelet", Environment: "prod", Version: "v2"}
	_, all := prediction.About(kubelet, 0).Finish(0.9)
	latest, most := prediction.About(kubelet, 1).Finish(1)
	fmt.Println("on all nodes:", all)
	fmt.Println("on all but one:", most, "at", latest.Format(time.TimeOnly))
	fmt.Printf("by 12:13 with a chance of %.0f%%\n", 100*prediction.About(kubelet, 1).DoneBy(noon.Add(13*time.Minute)))
	// Output:
	// 100 trials from 2026-03-10 12:10:00 on
	// never done: 100 %: retry_exhausted in 100 trials
	// at most 1 resource in flight at once
	// kubelet v2 in prod: all but 1 of 2 targets, median 2026-03-10 12:15:00 (+5m), 90 % 2026-03-10 12:15:00 (+5m); not all in 100 trials: retry_exhausted in 100 trials
	// on all nodes: false
	// on all but one: true at 12:15:00
	// by 12:13 with a chance of 49%
}

// A host's own test checks each of its plans. Here somebody waits, and the plan does not say for
// what.
func ExampleStep_Check() {
	target := rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "kubelet"}
	observed := rollout.Snapshot{Targets: []rollout.Target{{TargetID: target}}}
	plan := rollout.Plan{Now: noon, Waiting: rollout.NewWaitingList(rollout.Waiting{
		TargetID: target, Version: "v2", Blockers: []rollout.Verdict{{Status: rollout.Pending, Reason: "slot_full"}},
	})}
	fmt.Println(rollouttest.Step{Snapshot: observed, Plan: plan}.Check())
	// Output:
	// rollouttest: invariant wakeup is broken at 2026-03-10T12:00:00Z: kubelet on node-1: slot_full names neither an instant nor an event
}

// exampleAgents is a fleet of nodes that run v1 of an agent, of which v2 comes out at noon.
func exampleAgents(nodes int) rollout.Snapshot {
	fleet := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod"}},
		Deployments:  []rollout.Deployment{{ID: "agent"}},
		Versions: []rollout.Version{
			{ID: "v1", Deployment: "agent", Status: rollout.VersionReady, CreatedAt: noon.Add(-time.Hour)},
			{ID: "v2", Deployment: "agent", Status: rollout.VersionReady, CreatedAt: noon},
		},
	}
	for k := range nodes {
		id := fmt.Sprintf("node-%d", k)
		fleet.Resources = append(fleet.Resources, rollout.Resource{ID: id})
		fleet.Targets = append(fleet.Targets, rollout.Target{
			TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "agent"},
			Jobs:     []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: noon.Add(-time.Hour)}},
		})
	}
	return fleet
}

// Two teams upgrade the same nodes, each with a bracket that drains a node and brings it back. By one
// slot alone both would be at work on a node at once, and the first to end would uncordon it under
// the other. In an exclusive pool that both share they take turns, whoever comes first.
func ExampleWorld_exclusive() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	policy := func(team string) string {
		return strings.ReplaceAll(`{"name": "TEAM", "selector": "deployment.metadata['team'] == 'TEAM'", "rules": [
			{"id": "TEAM", "deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate",
				"memberRoles": {"pre": "deployment.name == 'TEAM-drain'", "post": "deployment.name == 'TEAM-uncordon'"}}},
			{"id": "TEAM-nodes", "resourceConcurrency": {"groupSelector": "true", "limit": 1, "sharedPool": "nodes", "exclusive": true}}]}`, "TEAM", team)
	}
	set, err := rollout.Load(fmt.Appendf(nil, "[%s, %s]", policy("os"), policy("gpu")), env)
	if err != nil {
		log.Fatal(err)
	}
	fleet := rollout.Snapshot{Resources: []rollout.Resource{{ID: "node-1"}, {ID: "node-2"}}, Environments: []rollout.Environment{{ID: "prod"}}}
	durations := map[string]time.Duration{}
	for _, team := range []string{"os", "gpu"} {
		for work, minutes := range map[string]int{"drain": 4, "upgrade": 6, "uncordon": 1} {
			name := team + "-" + work
			durations[name] = time.Duration(minutes) * time.Minute
			fleet.Deployments = append(fleet.Deployments, rollout.Deployment{ID: name, Name: name, Metadata: map[string]string{"team": team}})
			fleet.Versions = append(fleet.Versions, rollout.Version{ID: name + "-2", Deployment: name, Status: rollout.VersionReady, CreatedAt: noon})
			for _, resource := range fleet.Resources {
				fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: resource.ID, Environment: "prod", Deployment: name}})
			}
		}
	}
	timeline, err := rollouttest.World{Policies: set, Fleet: fleet, Job: rollouttest.Durations(durations)}.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(timeline.Chart(time.Minute))
	// Output:
	// 1m = 1 column, from 2026-03-10 12:00:00
	// g gpu-drain  p gpu-upgrade  u gpu-uncordon  o os-drain  s os-upgrade  n os-uncordon  # several  - slot held
	//        +0s       +10m      +20m      +30m      +40m
	// node-1 ggggppppppuoooossssssn......................
	// node-2 ......................ggggppppppuoooossssssn
}

// An upgrade breaks on node-5. Its bracket uncordons it and ends as failed, and the others go on.
// Once these are done node-5 is repaired, and an operator asks for one more run: kubelet is outdated
// there. The group that this opens need not collect for a quarter of an hour, so it is closed by a
// command, and overrides spare node-5 its turn. Before the others have begun, its curve would begin
// anew for them.
func ExampleWorld_tryAgain() {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	set, err := rollout.Load([]byte(`{"name": "nodes", "selector": "true", "rules": [
		{"id": "bracket", "deploymentBracket": {"deploymentSelector": "true", "readinessWindowSeconds": 900, "onMemberFailure": "run_post",
			"memberRoles": {"pre": "deployment.id == 'drain'", "post": "deployment.id == 'uncordon'"}}},
		{"id": "curve", "gradualRollout": {"rolloutType": "linear", "timeScaleInterval": 1800, "orderKey": "resource_bracket"}}]}`), env)
	if err != nil {
		log.Fatal(err)
	}
	fleet := rollout.Snapshot{Environments: []rollout.Environment{{ID: "prod"}}}
	release := func(deployment, id string, at time.Time) {
		fleet.Versions = append(fleet.Versions, rollout.Version{ID: id, Deployment: deployment, Status: rollout.VersionReady, CreatedAt: at})
	}
	deployments := []string{"drain", "kubelet", "uncordon"}
	for _, d := range deployments {
		fleet.Deployments = append(fleet.Deployments, rollout.Deployment{ID: d})
		release(d, "v1", noon.AddDate(0, -1, 0))
	}
	release("kubelet", "v2", noon.Add(-15*time.Minute))
	for n := range 6 {
		node := fmt.Sprint("node-", n)
		fleet.Resources = append(fleet.Resources, rollout.Resource{ID: node})
		for _, d := range deployments {
			id := rollout.TargetID{Resource: node, Environment: "prod", Deployment: d}
			fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: id, Current: "v1"})
		}
	}
	repaired := noon.Add(3 * time.Hour)
	broken := rollout.TargetID{Resource: "node-5", Environment: "prod", Deployment: "kubelet"}
	world := rollouttest.World{
		Policies: set,
		Fleet:    fleet,
		Start:    noon,
		Job: func(start rollout.Start, _ int) rollouttest.Outcome {
			if start.TargetID == broken && start.Group == bracket.GroupID("bracket", "prod", 1) {
				return rollouttest.Outcome{After: 5 * time.Minute, Status: rollout.JobFailure}
			}
			return rollouttest.Outcome{After: 5 * time.Minute}
		},
		Changes: []rollouttest.Change{{At: repaired, What: "node-5 is repaired", Do: func(s *rollout.Snapshot) {
			for k := range s.Targets {
				if s.Targets[k].TargetID == broken {
					s.Targets[k].OutdatedAt = repaired
				}
			}
			s.Commands = append(s.Commands, bracket.Command{ID: "again", Kind: bracket.Close, Group: bracket.GroupID("bracket", "prod", 2), By: "ann", At: repaired})
			for deployment, version := range map[string]string{"drain": "v1", "kubelet": "v2", "uncordon": "v1"} {
				s.Overrides = append(s.Overrides, rollout.Override{
					ID: "again " + deployment, Rule: "curve", Deployment: deployment, Version: version, Resource: "node-5",
					CreatedAt: repaired, CreatedBy: "ann", Reason: "repaired",
				})
			}
		}}},
	}
	timeline, err := world.Run(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range timeline.Entries {
		switch {
		case e.Kind == rollouttest.Start && e.Deployment == "drain":
			fmt.Println(e.At.Format("15:04"), e.Group, "begins on", e.Resource)
		case e.Kind == rollouttest.End && e.Status == string(rollout.JobFailure):
			fmt.Println(e.At.Format("15:04"), e.Deployment, "fails on", e.Resource)
		case e.Event == bracket.GroupClosed:
			fmt.Println(e.At.Format("15:04"), e.Group, "has closed")
		}
	}
	fmt.Println("done at", timeline.Finish.Format("15:04"))
	// Output:
	// 12:00 bracket/prod/1 has closed
	// 12:00 bracket/prod/1 begins on node-3
	// 12:30 bracket/prod/1 begins on node-5
	// 12:40 kubelet fails on node-5
	// 13:00 bracket/prod/1 begins on node-2
	// 13:30 bracket/prod/1 begins on node-1
	// 14:00 bracket/prod/1 begins on node-0
	// 14:30 bracket/prod/1 begins on node-4
	// 15:00 bracket/prod/2 has closed
	// 15:00 bracket/prod/2 begins on node-5
	// done at 15:15
}
