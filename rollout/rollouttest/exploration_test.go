package rollouttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestExploration: what one fault, or two, do to a rollout, told by hand.
func TestExploration(t *testing.T) {
	t.Parallel()
	retry := func(w *rollouttest.World) {
		w.Policies = compiled(t, `{"name": "p", "selector": "true", "rules": [{"retry": {"maxRetries": 1}}]}`)
	}
	nodes := func(w *rollouttest.World, zones ...string) {
		w.Fleet.Resources, w.Fleet.Targets = nil, nil
		for k, zone := range zones {
			id := fmt.Sprintf("node-%d", k+1)
			w.Fleet.Resources = append(w.Fleet.Resources, rollout.Resource{ID: id, Metadata: map[string]string{"zone": zone}})
			w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "kubelet"}})
		}
	}
	zones := func(w *rollouttest.World) { // in each of which one is let in at a time
		nodes(w, "a", "b", "b", "c", "c")
		w.Policies = compiled(t, `{"name": "p", "selector": "true", "rules": [{"resourceConcurrency": {"groupSelector": "true", "limit": 1, "groupBy": "resource.metadata['zone']"}}]}`)
	}
	hang := func(rollout.Start, int) []rollouttest.Outcome {
		return []rollouttest.Outcome{{Status: rollout.JobInProgress}}
	}
	for _, row := range []struct {
		why    string
		edit   func(*rollouttest.World)
		others func(rollout.Start, int) []rollouttest.Outcome
		depth  int
		want   string
	}{
		{"a node that fails gives its slot back, and one that hangs keeps it: the first one holds the other", func(*rollouttest.World) {}, nil, 1,
			`4 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:02:00 (+2m)
kubelet fails (2 trials): never done: retry_exhausted in 2 trials; 1 resource held
kubelet hangs (2 trials): never done: an unfinished job in 2 trials, slot_full in 1 trial; 1 to 2 resources held, most by the fault on node-1; 1 resource left in disruption`},
		{"two faults: the second is of a job that comes after the first, and there is none after a job that hangs", func(*rollouttest.World) {}, nil, 2,
			`6 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:02:00 (+2m)
kubelet fails (2 trials): never done: retry_exhausted in 2 trials; 1 resource held
kubelet hangs (2 trials): never done: an unfinished job in 2 trials, slot_full in 1 trial; 1 to 2 resources held, most by the fault on node-1; 1 resource left in disruption
kubelet fails and kubelet fails (1 trial): never done: retry_exhausted in 1 trial; 2 resources held
kubelet fails and kubelet hangs (1 trial): never done: an unfinished job in 1 trial, retry_exhausted in 1 trial; 2 resources held; 1 resource left in disruption`},
		{"a failure is repeated, and only two of them on one node are for good", func(w *rollouttest.World) {
			retry(w)
			w.Fleet.Targets = w.Fleet.Targets[:1]
		}, func(start rollout.Start, _ int) []rollouttest.Outcome {
			return []rollouttest.Outcome{{After: minutes(3), Status: rollout.JobFailure}}
		}, 3,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet fails (1 trial): done at 2026-03-10 12:04:00 (+4m)
kubelet fails and attempt 2 of kubelet fails (1 trial): never done: retry_exhausted in 1 trial; 1 resource held`},
		{"other outcomes have words, too; what is as expected is no fault", retry, func(start rollout.Start, _ int) []rollouttest.Outcome {
			return []rollouttest.Outcome{
				{After: minutes(1), Status: rollout.JobSuccessful}, {After: minutes(90)}, {After: minutes(90), Status: rollout.JobCancelled},
				{After: minutes(1), Verification: rollout.VerificationFailed, VerifiedAfter: minutes(1)}, {After: minutes(1), Verification: rollout.VerificationRunning},
				{After: minutes(80), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(10)}, {Status: rollout.JobActionRequired},
			}
		}, 1,
			`12 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet takes 1h30m (4 trials): done at 2026-03-10 13:30:00 (+1h30m)
kubelet ends as cancelled (2 trials): done at 2026-03-10 13:31:00 (+1h31m)
kubelet fails its checks (2 trials): done at 2026-03-10 12:02:00 (+2m)
kubelet is never verified (2 trials): never done: an unfinished job in 2 trials; 1 resource held
kubelet hangs (2 trials): never done: an unfinished job in 2 trials; 1 resource held; 1 resource left in disruption`},
		{"faults that lead to the same share a line", func(w *rollouttest.World) { w.Fleet.Targets = w.Fleet.Targets[:1] }, func(start rollout.Start, _ int) []rollouttest.Outcome {
			return []rollouttest.Outcome{{Status: rollout.JobFailure}, {Status: rollout.JobInvalidAgent}}
		}, 1,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet fails, kubelet ends as invalidJobAgent (1 trial each): never done: retry_exhausted in 1 trial; 1 resource held`},
		{"a job that hangs anyway does not hang otherwise for having an end that never comes", func(w *rollouttest.World) {
			w.Fleet.Targets = w.Fleet.Targets[:1]
			w.Job = func(rollout.Start, int) rollouttest.Outcome {
				return rollouttest.Outcome{After: minutes(3), Status: rollout.JobInProgress}
			}
		}, nil, 1,
			`1 trial with faults from 2026-03-10 12:00:00 on
without faults: never done: an unfinished job in 1 trial
kubelet fails (1 trial): never done: retry_exhausted in 1 trial`},
		{"a job that the world finds can fail as well, and what was held before is no consequence", func(w *rollouttest.World) {
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v2", Status: rollout.JobInProgress, CreatedAt: noon}}
			w.Fleet.Targets[1].Jobs = []rollout.Job{{Run: "b", Version: "v2", Status: rollout.JobFailure, CreatedAt: noon, CompletedAt: noon}}
		}, nil, 1,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: never done: retry_exhausted in 1 trial
kubelet fails (1 trial): never done: retry_exhausted in 1 trial; 1 resource held
kubelet hangs (1 trial): never done: an unfinished job in 1 trial, retry_exhausted in 1 trial; 1 resource held; 1 resource left in disruption`},
		{"what was in disruption before is no consequence either", func(w *rollouttest.World) {
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v2", Status: rollout.JobInProgress, CreatedAt: noon}}
			w.Fleet.Targets[1].Jobs = []rollout.Job{{Run: "b", Version: "v2", Status: rollout.JobActionRequired, CreatedAt: noon}}
		}, nil, 1,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: never done: an unfinished job in 1 trial
kubelet fails (1 trial): never done: an unfinished job in 1 trial, retry_exhausted in 1 trial; 1 resource held
kubelet hangs (1 trial): never done: an unfinished job in 1 trial; 1 resource held; 1 resource left in disruption`},
		{"of jobs without run ids, only that of one target has the fault", func(w *rollouttest.World) {
			for i := range w.Fleet.Targets {
				w.Fleet.Targets[i].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: noon}}
			}
		}, nil, 1,
			`4 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet fails (2 trials): never done: retry_exhausted in 2 trials; 1 resource held
kubelet hangs (2 trials): never done: an unfinished job in 2 trials; 1 resource held; 1 resource left in disruption`},
		{"a rollback comes about by a fault, and may fail itself", func(w *rollouttest.World) {
			w.Policies = compiled(t, `{"name": "p", "selector": "true", "rules": [{"rollback": {"onJobStatuses": ["failure"]}}]}`)
			w.Fleet.Versions = append(w.Fleet.Versions, rollout.Version{ID: "v1", Deployment: "kubelet", Status: rollout.VersionReady, CreatedAt: noon.Add(-minutes(60))})
			w.Fleet.Targets = w.Fleet.Targets[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: noon.Add(-minutes(30)), CompletedAt: noon.Add(-minutes(29))}}
			w.Start = noon
		}, func(rollout.Start, int) []rollouttest.Outcome {
			return []rollouttest.Outcome{{After: minutes(1), Status: rollout.JobFailure}}
		}, 2,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet fails (1 trial): never done: rollback_triggered in 1 trial; 1 resource held
kubelet fails and the rollback of kubelet fails (1 trial): never done: rollback_failed in 1 trial; 1 resource held`},
		{"a job that has succeeded does not fail any more: only its checks do", func(w *rollouttest.World) {
			w.Fleet.Targets = w.Fleet.Targets[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v2", Status: rollout.JobSuccessful, CreatedAt: noon, CompletedAt: noon, Verification: rollout.VerificationRunning}}
			w.Job = func(rollout.Start, int) rollouttest.Outcome {
				return rollouttest.Outcome{After: minutes(1), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(4)}
			}
		}, nil, 1,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:04:00 (+4m)
kubelet fails its checks (1 trial): done at 2026-03-10 12:04:00 (+4m)
kubelet is never verified (1 trial): never done: an unfinished job in 1 trial; 1 resource held`},
		{"what somebody says of such a job counts as far as it concerns the checks", func(w *rollouttest.World) {
			w.Fleet.Targets = w.Fleet.Targets[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobSuccessful, CreatedAt: noon, CompletedAt: noon, Verification: rollout.VerificationRunning}}
		}, func(rollout.Start, int) []rollouttest.Outcome {
			return []rollouttest.Outcome{
				{Status: rollout.JobFailure}, {Status: rollout.JobInProgress}, {After: minutes(90)}, {Verification: rollout.VerificationRunning},
				{After: minutes(1), Verification: rollout.VerificationFailed, VerifiedAfter: minutes(3)}, {After: minutes(1), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(3)},
			}
		}, 1,
			`2 trials with faults from 2026-03-10 12:00:00 on
without faults: never done: an unfinished job in 1 trial
kubelet fails its checks, kubelet takes 4m (1 trial each): done at 2026-03-10 12:03:00 (+3m)`},
		{"faults that lead to the same share no line if one has more trials", func(w *rollouttest.World) {
			retry(w)
			w.Fleet.Deployments = append(w.Fleet.Deployments, rollout.Deployment{ID: "os"})
			w.Fleet.Versions = append(w.Fleet.Versions, rollout.Version{ID: "o2", Deployment: "os", Status: rollout.VersionReady, CreatedAt: noon})
			w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "os"}})
		}, func(rollout.Start, int) []rollouttest.Outcome {
			return []rollouttest.Outcome{{After: minutes(5)}}
		}, 1,
			`3 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet takes 5m (2 trials): done at 2026-03-10 12:05:00 (+5m)
os takes 5m (1 trial): done at 2026-03-10 12:05:00 (+5m)`},
		{"what somebody says of such a job is left out if it does not succeed, also where its checks would come to an end", func(w *rollouttest.World) {
			w.Fleet.Targets = w.Fleet.Targets[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v2", Status: rollout.JobSuccessful, CreatedAt: noon, CompletedAt: noon, Verification: rollout.VerificationRunning}}
			w.Job = func(rollout.Start, int) rollouttest.Outcome {
				return rollouttest.Outcome{After: minutes(1), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(4)}
			}
		}, func(rollout.Start, int) []rollouttest.Outcome {
			return []rollouttest.Outcome{{Status: rollout.JobFailure}, {Status: rollout.JobInProgress}, {Verification: rollout.VerificationFailed, VerifiedAfter: minutes(3)}}
		}, 1,
			`1 trial with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:04:00 (+4m)
kubelet fails its checks (1 trial): done at 2026-03-10 12:03:00 (+3m)`},
		{"the first of the faults that hold the most is named, though it is not the first of all", zones, hang, 1,
			`5 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:02:00 (+2m)
kubelet hangs (5 trials): never done: an unfinished job in 5 trials, slot_full in 2 trials; 1 to 2 resources held, most by the fault on node-2; 1 resource left in disruption`},
		{"two faults that hold the most are named both", zones, hang, 2,
			`13 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:02:00 (+2m)
kubelet hangs (5 trials): never done: an unfinished job in 5 trials, slot_full in 2 trials; 1 to 2 resources held, most by the fault on node-2; 1 resource left in disruption
kubelet hangs and kubelet hangs (8 trials): never done: an unfinished job in 8 trials, slot_full in 5 trials; 2 to 4 resources held, most by the faults on node-2 and node-4; 2 resources left in disruption`},
		{"some trials are done, the first of them last, and the others never are", func(w *rollouttest.World) {
			nodes(w, "a", "a", "b")
			w.Policies = compiled(t, `{"name": "p", "selector": "resource.metadata['zone'] == 'a'", "rules": [{"retry": {"maxRetries": 1}}]}`)
		}, func(start rollout.Start, _ int) []rollouttest.Outcome {
			after := minutes(5)
			if start.Resource == "node-1" {
				after = minutes(30)
			}
			return []rollouttest.Outcome{{After: after, Status: rollout.JobFailure}}
		}, 1,
			`3 trials with faults from 2026-03-10 12:00:00 on
without faults: done at 2026-03-10 12:01:00 (+1m)
kubelet fails (3 trials): done at 2026-03-10 12:31:00 (+31m); never done in 1 trial: retry_exhausted in 1 trial; 0 to 1 resource held, most by the fault on node-3`},
	} {
		w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
		row.edit(&w)
		e, err := rollouttest.Explore(t.Context(), w, row.others, row.depth)
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		if diff := cmp.Diff(row.want, e.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.why, diff)
		}
		for k := range 3 {
			again, err := rollouttest.Explore(t.Context(), w, row.others, row.depth)
			if diff := cmp.Diff(e, again); diff != "" || err != nil {
				t.Fatalf("%s: exploration %d is another one: %v\n%s", row.why, k, err, diff)
			}
		}
	}
}

// TestConsequenceIsTold: whoever looks for the one fault that matters reads each consequence alone.
// Before it had a String, package fmt printed its fields.
func TestConsequenceIsTold(t *testing.T) {
	t.Parallel()
	on := func(resource string, outcome rollouttest.Outcome) rollouttest.Fault {
		return rollouttest.Fault{TargetID: rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "kubelet"}, Version: "v2", Attempt: 1, Outcome: outcome}
	}
	fails, hangs := rollouttest.Outcome{Status: rollout.JobFailure}, rollouttest.Outcome{Status: rollout.JobInProgress}
	var many []string
	for k := range 12 {
		many = append(many, fmt.Sprintf("n%d", k))
	}
	for _, row := range []struct {
		why  string
		c    rollouttest.Consequence
		want string
	}{
		{"it is done, at an instant in UTC", rollouttest.Consequence{Faults: []rollouttest.Fault{on("n1", fails)}, Trial: rollouttest.Trial{Done: true, Finish: noon.In(time.FixedZone("", 3600))}},
			"kubelet fails on n1 in prod (v2): done at 2026-03-10 12:00:00"},
		{"what it waits for, holds and leaves", rollouttest.Consequence{
			Faults: []rollouttest.Fault{on("n1", fails), on("n2", hangs)},
			Trial:  rollouttest.Trial{Left: []rollout.Reason{rollout.ReasonRetryExhausted}, Hanging: true, CutOff: true},
			Held:   []string{"n1", "n2"}, Disrupted: []string{"n2"},
		}, "kubelet fails on n1 in prod (v2) and kubelet hangs on n2 in prod (v2): not done: retry_exhausted, an unfinished job, World.End came first; n1, n2 held; n2 left in disruption"},
		{"a large fleet does not fill the screen", rollouttest.Consequence{Faults: []rollouttest.Fault{on("n1", hangs)}, Trial: rollouttest.Trial{Hanging: true}, Held: many},
			"kubelet hangs on n1 in prod (v2): never done: an unfinished job; n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and 2 more held"},
	} {
		if got := fmt.Sprint(row.c); got != row.want {
			t.Errorf("%s\nwant %s\ngot  %s", row.why, row.want, got)
		}
	}
}

// TestWithKeepsItsFaults: a world is a plain value, so what becomes of the list that its faults came
// in is nothing to it.
func TestWithKeepsItsFaults(t *testing.T) {
	t.Parallel()
	w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
	e, err := rollouttest.Explore(t.Context(), w, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	faults := slices.Clone(e.Consequences[0].Faults)
	w = w.With(faults...)
	clear(faults)
	if timeline, err := w.Run(t.Context()); err != nil || timeline.Done {
		t.Errorf("%v: %v", err, timeline)
	}
}

// TestExplorationOfAKnownState: whoever goes on from a state need not know that it takes a world that
// is Pure.
func TestExplorationOfAKnownState(t *testing.T) {
	t.Parallel()
	w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
	plan, err := w.Policies.Plan(w.Fleet, noon)
	if err != nil {
		t.Fatal(err)
	}
	if w.Fleet.State, err = plan.Commit(plan.Start, noon); err != nil || len(w.Fleet.State.Pools) == 0 {
		t.Fatalf("%v, %v", w.Fleet.State, err)
	}
	if e, err := rollouttest.Explore(t.Context(), w, nil, 1); err != nil || len(e.Consequences) != 4 {
		t.Errorf("%v: %v", err, e)
	}
}

func TestExplorationIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		edit   func(*rollouttest.World)
		others func(rollout.Start, int) []rollouttest.Outcome
		depth  int
		want   string
	}{
		{"no depth", func(*rollouttest.World) {}, nil, 0, "a depth of 0: at least 1 is needed"},
		{"a store that all worlds would share", func(w *rollouttest.World) { w.Store = &bracket.MemoryStore{} }, nil, 1, "World.Store must be nil in an exploration"},
		{"a world that does not run", func(w *rollouttest.World) { w.Policies = nil }, nil, 1, "World.Policies is required"},
		{"an outcome that cannot be", func(*rollouttest.World) {}, func(rollout.Start, int) []rollouttest.Outcome {
			return []rollouttest.Outcome{{After: -time.Minute}}
		}, 1, "rollouttest: others lets attempt 1 of kubelet on node-1 end 1m0s before it starts (kubelet takes -1m on node-1 in prod (v2))"},
		{"an outcome that cannot be, of the job itself", func(w *rollouttest.World) {
			w.Job = func(rollout.Start, int) rollouttest.Outcome { return rollouttest.Outcome{After: -time.Minute} }
		}, nil, 1, "rollouttest: World.Job lets attempt 1 of kubelet on node-1 end 1m0s before it starts"},
		{"one that cannot be, of another job than the first", func(*rollouttest.World) {}, func(start rollout.Start, _ int) []rollouttest.Outcome {
			if start.Resource == "node-1" {
				return []rollouttest.Outcome{{Status: rollout.JobFailure}}
			}
			return []rollouttest.Outcome{{Verification: "passd"}}
		}, 1, `others lets attempt 1 of kubelet on node-2 have the verification "passd": use passed, failed or running (`},
		{"a promise that is broken only after a failure", func(w *rollouttest.World) {
			w.Plan = pure(w.Policies, func(p *rollout.Plan) {
				for waiting := range p.Waiting.All() {
					if waiting.Blockers[0].Reason == rollout.ReasonRetryExhausted {
						p.Now = p.Now.Add(1)
					}
				}
			})
		}, nil, 1, "(kubelet fails on node-1 in prod (v2))"},
	} {
		w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
		row.edit(&w)
		e, err := rollouttest.Explore(t.Context(), w, row.others, row.depth)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.why, err, row.want)
		}
		if got := e.String(); got != "nothing was explored" {
			t.Errorf("%s: it says that %s", row.why, got)
		}
	}
}

// TestStopped: whoever has waited long enough gets an error and no half of an answer, also from worlds
// that call no store.
func TestStopped(t *testing.T) {
	t.Parallel()
	w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet(), Pure: true}
	ctx, cancel := context.WithCancel(t.Context())
	worlds := 0
	others := func(rollout.Start, int) []rollouttest.Outcome {
		cancel() // the world without faults is over
		worlds++
		return []rollouttest.Outcome{{Status: rollout.JobFailure}}
	}
	e, err := rollouttest.Explore(ctx, w, others, 1)
	if !errors.Is(err, context.Canceled) || e.String() != "nothing was explored" || worlds != 2 {
		t.Errorf("explored: %v, %v", e, err)
	}
	if _, err := w.Run(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped at 2026-03-10T12:00:00Z") {
		t.Errorf("run: %v", err)
	}
	if p, err := rollouttest.Forecast(ctx, w, rollouttest.Samples{}, 3, 1); !errors.Is(err, context.Canceled) || p.String() != "0 trials: nothing was predicted" {
		t.Errorf("forecast: %v, %v", p, err)
	}
}

// TestFaultIsOfOneAttempt: a fault is that of one attempt, also where a fleet has jobs without run ids,
// which are told apart by everything else.
func TestFaultIsOfOneAttempt(t *testing.T) {
	t.Parallel()
	own := rollouttest.Fault{
		TargetID: rollout.TargetID{Resource: "node-1", Environment: "prod", Deployment: "kubelet"}, Version: "v2", Purpose: rollout.PurposeDeploy, Attempt: 1,
		Outcome: rollouttest.Outcome{After: minutes(9)},
	}
	start := rollout.Start{TargetID: own.TargetID, Version: "v2", Purpose: rollout.PurposeDeploy}
	for _, row := range []struct {
		why  string
		edit func(*rollouttest.Fault)
		want time.Duration
	}{
		{"the same", func(*rollouttest.Fault) {}, minutes(9)},
		{"of a run with an id", func(f *rollouttest.Fault) { f.Run = "r" }, minutes(1)},
		{"on another target", func(f *rollouttest.Fault) { f.Resource = "node-2" }, minutes(1)},
		{"of another version", func(f *rollouttest.Fault) { f.Version = "v1" }, minutes(1)},
		{"of a rollback", func(f *rollouttest.Fault) { f.Purpose = rollout.PurposeRollback }, minutes(1)},
		{"of a later attempt", func(f *rollouttest.Fault) { f.Attempt = 2 }, minutes(1)},
	} {
		fault := own
		row.edit(&fault)
		if got := (rollouttest.World{}).With(fault).Job(start, 1).After; got != row.want {
			t.Errorf("%s: the job takes %v, want %v", row.why, got, row.want)
		}
	}
}

// TestExplorationIsThatOfRuns: each consequence is what a run gives in which somebody has changed the
// outcomes by hand, and no job is left out.
func TestExplorationIsThatOfRuns(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{2, 3} {
		w := rfcWorld(t, nodes)
		e, err := rollouttest.Explore(t.Context(), w, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		type job struct {
			rollout.TargetID
			run string
		}
		single := map[job]int{}
		pairs := map[string]bool{}
		for i, c := range e.Consequences {
			if i%7 != 0 && len(c.Faults) > 1 {
				continue // each takes as long as a world
			}
			other := w
			other.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
				for _, f := range c.Faults {
					if f.Run == start.Run {
						return f.Outcome
					}
				}
				return w.Job(start, attempt)
			}
			if i%5 == 0 {
				other = w.With(c.Faults...)
			}
			timeline, err := other.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held, open := map[string]bool{}, map[string]bool{}
			for _, waiting := range timeline.Left {
				held[waiting.Resource] = true
			}
			for _, entry := range timeline.Entries {
				switch {
				case entry.Kind == rollouttest.Start:
					open[entry.Resource] = true
				case entry.Event == bracket.ExecutionEnded:
					delete(open, entry.Resource)
				}
				if slices.Contains(timeline.Running, entry.Run) {
					held[entry.Resource] = true
				}
			}
			if c.Done != timeline.Done || !c.Finish.Equal(timeline.Finish) && !timeline.Finish.IsZero() || c.InFlight != timeline.InFlight || c.Drains != timeline.Drains ||
				c.Hanging != (len(timeline.Running) > 0) || !slices.Equal(c.Held, sortedKeys(held)) || !slices.Equal(c.Disrupted, sortedKeys(open)) {
				t.Errorf("%v: %+v\nheld %v, in disruption %v:\n%s", c.Faults, c, sortedKeys(held), sortedKeys(open), timeline)
			}
			if len(c.Faults) == 1 {
				single[job{c.Faults[0].TargetID, c.Faults[0].Run}]++
			}
		}
		for _, c := range e.Consequences {
			key := fmt.Sprint(c.Faults)
			if pairs[key] {
				t.Errorf("twice: %s", key)
			}
			pairs[key] = true
		}
		if len(single) != 5*nodes {
			t.Errorf("%d jobs can fail, of %d", len(single), 5*nodes)
		}
		for own, n := range single {
			if n != 2 {
				t.Errorf("%v: %d faults, not one of each kind", own, n)
			}
		}
		if len(pairs) == 10*nodes {
			t.Error("no two faults at once")
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back rollouttest.Exploration
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e.String(), back.String()); diff != "" {
			t.Errorf("JSON does not carry it:\n%s", diff)
		}
	}
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// TestDrawnFaults: in worlds that nobody thought of, every promise holds whichever job fails or hangs;
// a few jobs of each world are tried. Worlds that are trusted leave out plans, and come to the same
// end.
func TestDrawnFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, dozens of times each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, world, accepted := d.governed(compiler, seen)
		if !accepted {
			return
		}
		salt := rapid.Uint32().Draw(t, "salt")
		others := func(start rollout.Start, attempt int) []rollouttest.Outcome {
			h := fnv.New32a()
			fmt.Fprint(h, salt, start.Run, attempt)
			switch h.Sum32() % 12 {
			case 0:
				return []rollouttest.Outcome{{After: minutes(3), Status: rollout.JobFailure}}
			case 1:
				return []rollouttest.Outcome{{Status: rollout.JobInProgress}}
			}
			return nil
		}
		e, err := rollouttest.Explore(context.Background(), world, others, 1)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		world.Trust = true
		trusted, err := rollouttest.Explore(context.Background(), world, others, 1)
		if diff := cmp.Diff(e, trusted); diff != "" || err != nil {
			t.Fatalf("trusted, it is another one: %v\n%s\n%s", err, diff, text)
		}
		for _, c := range e.Consequences {
			switch {
			case c.Done:
				seen["done all the same"]++
			case len(c.Disrupted) > 0:
				seen["left in disruption"]++
			}
			if len(c.Held) > 1 {
				seen["holds others"]++
			}
		}
	}, "done all the same", "left in disruption", "holds others")
}
