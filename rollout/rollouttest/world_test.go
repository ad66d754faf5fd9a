package rollouttest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// pure plans without a store, and lets a plan be broken before the world sees it.
func pure(set *rollout.PolicySet, spoil func(*rollout.Plan)) func(context.Context, rollout.Snapshot, time.Time) (rollout.Plan, error) {
	var state rollout.State
	return func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		s.State = state
		plan, err := set.Plan(s, now)
		if err != nil {
			return plan, err
		}
		if plan.State, err = plan.Commit(plan.Start, now); err != nil {
			return plan, err
		}
		state = plan.State
		spoil(&plan)
		return plan, nil
	}
}

// TestBrokenPlannersAreCaught: each row breaks one promise, and the world names it.
func TestBrokenPlannersAreCaught(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		invariant, why string
		spoil          func(*rollout.Plan)
	}{
		{"limit", "a pool that admits nobody has a start that took a slot", func(p *rollout.Plan) {
			for i := range p.Pools {
				p.Pools[i].Max = 0
			}
		}},
		{"limit", "one more than the pool says that it admits", func(p *rollout.Plan) {
			for i := range p.Pools {
				p.Pools[i].Max--
			}
		}},
		{"locked", "another version than the frozen one", func(p *rollout.Plan) {
			for i := range p.Start {
				if p.Start[i].Deployment == kubelet {
					p.Start[i].Version = "v1.29.1"
				}
			}
		}},
		{"order", "a post together with the pre", func(p *rollout.Plan) {
			if len(p.Start) > 0 && p.Start[0].Deployment == drain {
				post := p.Start[0]
				post.Deployment, post.Run = uncordon, post.Run+"x"
				p.Start = append(p.Start, post)
			}
		}},
		{"once", "one run twice in a plan", func(p *rollout.Plan) { p.Start = append(p.Start, p.Start...) }},
		{"once", "the id of a run that another target had", func() func(*rollout.Plan) {
			taken := ""
			return func(p *rollout.Plan) {
				for i := range p.Start {
					if taken == "" {
						taken = p.Start[i].Run
					} else {
						p.Start[i].Run = taken
					}
				}
			}
		}()},
		{"forward", "an older version than the target runs", func(p *rollout.Plan) {
			for i := range p.Start {
				if p.Start[i].Deployment == osPatch {
					p.Start[i].Version = "2026-01"
				}
			}
		}},
		{"alone", "a second job on a target that is busy", func() func(*rollout.Plan) {
			var first *rollout.Start
			return func(p *rollout.Plan) {
				if first != nil && len(p.Start) == 0 {
					again := *first
					again.Run += "x"
					p.Start = append(p.Start, again)
				}
				if len(p.Start) > 0 {
					first = &p.Start[0]
				}
			}
		}()},
		{"next", "a wake-up that has passed", func(p *rollout.Plan) { p.Next = p.Now }},
		{"next", "a wake-up later than a wait", func(p *rollout.Plan) {
			if !p.Next.IsZero() {
				p.Next = p.Next.Add(time.Second)
			}
		}},
		{"wakeup", "a wait without an end", func(p *rollout.Plan) {
			list := waitingOf(*p)
			for i := range list {
				list[i].Blockers = []rollout.Verdict{{Status: rollout.Pending, Reason: "slot_full"}}
			}
			p.Waiting = rollout.NewWaitingList(list...)
		}},
		{"wakeup", "a wait without a reason", func(p *rollout.Plan) {
			list := waitingOf(*p)
			for i := range list {
				list[i].Blockers = nil
			}
			p.Waiting = rollout.NewWaitingList(list...)
		}},
		{"lease", "a claim that was not saved", func(p *rollout.Plan) {
			for i := range p.State.Pools {
				p.State.Pools[i].Leases = nil
			}
		}},
		{"complete", "a target that nothing is said about", func(p *rollout.Plan) { p.Keep.Current = 0; p.Keep.Started = 0 }},
		{"quiet", "no wake-up at all, and no wait that would tell", func(p *rollout.Plan) {
			if !p.Next.IsZero() {
				p.Keep.Current += p.Waiting.Len()
				p.Next, p.Waiting = time.Time{}, rollout.WaitingList{}
			}
		}},
		{"quiet", "another reason than the plans say that nobody sees", func(p *rollout.Plan) {
			list := slices.Collect(p.Waiting.All())
			if len(list) > 0 {
				list[0].Blockers = slices.Clone(list[0].Blockers)
				list[0].Blockers[0].Rule = "another"
			}
			p.Waiting = rollout.NewWaitingList(list...)
		}},
		{"quiet", "an event that the words of a wait do not tell", func(p *rollout.Plan) {
			list := slices.Collect(p.Waiting.All())
			if len(list) > 0 && len(list[0].Blockers[0].On) > 0 && !list[0].Blockers[0].Until.IsZero() && list[0].Blockers[0].Reason == "bracket_collecting" {
				list[0].Blockers = slices.Clone(list[0].Blockers)
				list[0].Blockers[0].On = append(slices.Clone(list[0].Blockers[0].On), rollout.Condition{Kind: rollout.OnConfig})
			}
			p.Waiting = rollout.NewWaitingList(list...)
		}},
		{"quiet", "a wait too few", func(p *rollout.Plan) {
			if list := slices.Collect(p.Waiting.All()); len(p.Start) == 0 && len(list) > 0 {
				p.Waiting = rollout.NewWaitingList(list[:len(list)-1]...)
				p.Keep.Current++
			}
		}},
		{"again", "a plan for another instant", func(p *rollout.Plan) { p.Now = p.Now.Add(1) }},
		{"again", "what was started is started again under another name", func() func(*rollout.Plan) {
			var first *rollout.Start
			return func(p *rollout.Plan) {
				if first != nil && len(p.Start) == 0 {
					again := *first
					again.Resource, again.Run = "node-0", again.Run+"x"
					p.Start = append(p.Start, again)
				}
				if len(p.Start) > 0 {
					first = &p.Start[0]
				}
			}
		}()},
	} {
		t.Run(row.invariant+": "+row.why, func(t *testing.T) {
			t.Parallel()
			w := rfcWorld(t, 10)
			w.Plan = pure(w.Policies, row.spoil)
			_, err := w.Run(t.Context())
			var violation *rollouttest.Violation
			if !errors.As(err, &violation) {
				t.Fatalf("got %v, want a violation", err)
			}
			if !strings.Contains(err.Error(), "invariant "+row.invariant+" ") || !errors.Is(err, violation.Err) {
				t.Errorf("got %v, want a violation of %s", err, row.invariant)
			}
			if row.invariant != "wakeup" {
				return // without checks a planner that starts the same again and again runs for long
			}
			w.Plan, w.Trust = pure(w.Policies, row.spoil), true
			if _, err := w.Run(t.Context()); errors.As(err, &violation) {
				t.Errorf("a world that trusts its planner checks it all the same: %v", err)
			}
		})
	}
}

// TestInvariantsAreNamed: every invariant has a name of its own and says what it promises.
func TestInvariantsAreNamed(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, i := range rollouttest.Invariants() {
		if i.Name == "" || i.Promise == "" || seen[i.Name] {
			t.Errorf("%q: %q", i.Name, i.Promise)
		}
		seen[i.Name] = true
	}
}

// TestPureAndPlannerAgree: the shell around the planner changes nothing, and a world repeats
// itself.
func TestPureAndPlannerAgree(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	shell, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Pure = true
	for range 2 {
		alone, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(shell.String(), alone.String()); diff != "" {
			t.Errorf("(-planner +pure):\n%s", diff)
		}
	}
}

// TestTwoClusters is the RFC's second example, in CEL: the same deployments in two clusters with
// different policies.
func TestTwoClusters(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	w.Policies = policyFile(t, "two-clusters.json")
	w.Fleet.Environments = append(w.Fleet.Environments, rollout.Environment{ID: "staging", Name: "staging"})
	for _, id := range []string{"stage-0", "stage-1", "stage-2", "stage-3", "stage-4"} {
		w.Fleet.Resources = append(w.Fleet.Resources, rollout.Resource{ID: id, Name: id, Kind: "Node", Metadata: map[string]string{"cluster": "staging"}})
		for _, target := range nodes(1).Targets {
			target.Resource, target.Environment = id, "staging"
			w.Fleet.Targets = append(w.Fleet.Targets, target)
		}
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !timeline.Done {
		t.Fatalf("not done: %s", timeline.Summary())
	}
	closed := map[string]time.Time{} // the first group of each environment
	for _, e := range timeline.Entries {
		if e.Event == bracket.GroupClosed && closed[e.Environment].IsZero() {
			closed[e.Environment] = e.At
		}
		if e.Kind == rollouttest.Start && !strings.Contains(e.Group, e.Environment) {
			t.Errorf("%s starts in group %s", e.Resource, e.Group)
		}
	}
	if !closed["staging"].Equal(at(1, 9, 0)) || !closed["prod"].Equal(at(2, 9, 0)) {
		t.Errorf("the groups close at %v, want staging at once and prod after a day", closed)
	}
	want := []rollouttest.Peak{
		{Pool: "Prod Node Lifecycle%2FresourceConcurrency%2F0", Active: 2, Max: 2, Total: 10}, {Pool: "Staging Node Lifecycle%2FresourceConcurrency%2F0", Active: 3, Max: 3, Total: 5},
	}
	for i := range timeline.Pools {
		timeline.Pools[i].At = time.Time{}
	}
	if diff := cmp.Diff(want, timeline.Pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
}

// TestJoinLeaveHang: nodes come and go, one job hangs; everybody else is upgraded, and the timeline
// says what is left.
func TestJoinLeaveHang(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	for i := range w.Fleet.Targets {
		if w.Fleet.Targets[i].Resource == "node-6" {
			w.Fleet.Targets[i].JoinedAt = at(2, 9, 30)
		}
	}
	w.Changes = []rollouttest.Change{{At: at(2, 9, 2), What: "node-4 left", Do: func(s *rollout.Snapshot) {
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "node-4" })
		s.Resources = slices.DeleteFunc(s.Resources, func(r rollout.Resource) bool { return r.ID == "node-4" })
	}}}
	durations := w.Job
	w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
		outcome := durations(start, attempt)
		if start.Resource == "node-8" && start.Deployment == osPatch {
			outcome.Status = rollout.JobInProgress
		}
		return outcome
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]bool{}
	for _, e := range timeline.Entries {
		if e.Event == bracket.ExecutionEnded {
			ended[e.Resource] = true
		}
	}
	if len(ended) != 8 || !ended["node-6"] || ended["node-4"] || ended["node-8"] {
		t.Errorf("upgraded %v, want all but node-4, which left, and node-8, which hangs", ended)
	}
	if timeline.Done || len(timeline.Running) != 1 || !strings.Contains(timeline.Running[0], "/node-8/os-patch/") {
		t.Errorf("done %t, running %v; want the os-patch of node-8 to run for ever", timeline.Done, timeline.Running)
	}
}

// TestDeletedWhileListed: a host that proves a node deleted may list its targets for a while. The
// plan ignores them, and no promise is broken by that.
func TestDeletedWhileListed(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	w.Changes = []rollouttest.Change{{At: at(2, 9, 2), What: "node-1 is deleted", Do: func(s *rollout.Snapshot) { s.DeletedResources = append(s.DeletedResources, "node-1") }}}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string][]string{}
	for _, e := range timeline.Entries {
		if e.Event == bracket.ExecutionEnded {
			ended[e.Status] = append(ended[e.Status], e.Resource)
		}
	}
	if !slices.Equal(ended[string(bracket.StatusCancelled)], []string{"node-1"}) || len(ended[string(bracket.StatusCompleted)]) != 9 || !timeline.Done {
		t.Errorf("ended %v, done %t; want node-1 given up, and the slot that it held given to the others", ended, timeline.Done)
	}
}

// TestVersionDeletedMeanwhile: a version is deleted while it is on its way to a node. What has
// begun is finished with it, which breaks no promise; for the other nodes it does not exist any
// more.
func TestVersionDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	w.Changes = []rollouttest.Change{{At: at(2, 9, 2), What: "the new kubelet is deleted", Do: func(s *rollout.Snapshot) {
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == kubelet && v.ID == "v1.29.2" })
	}}}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Start && e.Version == "v1.29.2" {
			got = append(got, e.Resource)
		}
	}
	if !slices.Equal(got, []string{"node-1"}) {
		t.Errorf("v1.29.2 starts on %v, want it on node-1 alone, which had been drained for it", got)
	}
}

// TestOperatorsEndWhatStillRuns: an operator resolves the execution of node-0, or skips its drain,
// while the drain still runs. That gives the slot back, and the next node starts: no promise is
// broken by that. Where the drain needs a slot itself, it keeps one to its end.
func TestOperatorsEndWhatStillRuns(t *testing.T) {
	t.Parallel()
	const members = `{"name":"members","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",
		"memberRoles":{"pre":"deployment.name == 'node-drain'","post":"deployment.name == 'node-uncordon'"}}}]}`
	for _, row := range []struct {
		why     string
		kind    bracket.CommandKind
		slotted string // which deployments need a slot
		next    time.Time
	}{
		{"resolved, and only the patch needs a slot", bracket.Resolve, "deployment.name == 'os-patch'", at(1, 9, 10)},
		{"skipped, and only the patch needs a slot", bracket.Skip, "deployment.name == 'os-patch'", at(1, 9, 14)},
		{"resolved, and the drain needs a slot as well", bracket.Resolve, "true", at(1, 9, 30)},
		{"abandoned, which gives nothing back", bracket.Abandon, "deployment.name == 'os-patch'", time.Time{}},
	} {
		w := rfcWorld(t, 2)
		w.Policies = compiled(t, `[`+members+`,{"name":"slots","selector":"`+row.slotted+`","rules":[{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`)
		w.Fleet.Versions = append(nodes(2).Versions, version(osPatch, "2026-03", at(1, 9, 0)))
		w.Job = rollouttest.Durations(map[string]time.Duration{drain: minutes(30), osPatch: minutes(3), uncordon: minutes(1)})
		command := bracket.Command{ID: "c1", Kind: row.kind, Group: bracket.GroupID("b", "prod", 1), Resource: "node-0", By: "ops", At: at(1, 9, 10)}
		if row.kind == bracket.Skip {
			command.Deployment = drain
		}
		w.Fleet.Commands = []bracket.Command{command}
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
		var next time.Time
		for _, e := range timeline.Entries {
			if e.Kind == rollouttest.Start && e.Resource == "node-1" && next.IsZero() {
				next = e.At
			}
		}
		if !next.Equal(row.next) {
			t.Errorf("%s: node-1 starts at %v, want %v", row.why, next, row.next)
		}
	}
}

func TestWorldIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why  string
		edit func(*rollouttest.World)
		want string
	}{
		{"no policies", func(w *rollouttest.World) { w.Policies = nil }, "World.Policies"},
		{"a state of its own beside the planner's", func(w *rollouttest.World) { w.Fleet.State.Rollouts = make([]rollout.RolloutRecord, 1) }, "World.Fleet.State needs Pure"},
		{"a state of which only pools are known", func(w *rollouttest.World) { w.Fleet.State.Pools = make([]concurrency.Record, 1) }, "World.Fleet.State needs Pure"},
		{"only executions", func(w *rollouttest.World) { w.Fleet.State.Executions = make([]*bracket.ExecutionRecord, 1) }, "World.Fleet.State needs Pure"},
		{"only brackets", func(w *rollouttest.World) { w.Fleet.State.Brackets = make([]*bracket.GroupRecord, 1) }, "World.Fleet.State needs Pure"},
		{"a state beside that of another planner", func(w *rollouttest.World) {
			w.Fleet.State.Rollouts, w.Pure, w.Plan = make([]rollout.RolloutRecord, 1), true, pure(w.Policies, func(*rollout.Plan) {})
		}, "World.Fleet.State needs Pure"},
		{"what is active elsewhere", func(w *rollouttest.World) {
			w.Fleet.Active = map[string][]concurrency.Holder{"P": {{Resource: "node-0"}}}
		}, "World.Fleet.Active"},
		{"a host that looks back in time", func(w *rollouttest.World) { w.Every = -time.Minute }, "World.Every, -1m0s, must not be negative"},
		{"a change without instant", func(w *rollouttest.World) { w.Changes = []rollouttest.Change{{Do: func(*rollout.Snapshot) {}}} }, "World.Changes[0]"},
		{"a change of the year 0", func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: time.Time{}.Add(-1), Do: func(*rollout.Snapshot) {}}}
		}, "World.Changes[0]"},
		{"a job that ends before it starts", func(w *rollouttest.World) {
			w.Job = func(rollout.Start, int) rollouttest.Outcome { return rollouttest.Outcome{After: -time.Second} }
		}, "World.Job"},
		{"a contradiction in the fleet", func(w *rollouttest.World) { w.Fleet.Resources = append(w.Fleet.Resources, w.Fleet.Resources[0]) }, "is the id of resources[0] too"},
		{"a contradiction in the fleet, without a planner around", func(w *rollouttest.World) {
			w.Pure, w.Fleet.Resources = true, append(w.Fleet.Resources, w.Fleet.Resources[0])
		}, "is the id of resources[0] too"},
	} {
		w := rfcWorld(t, 2)
		row.edit(&w)
		if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v, want an error that names %s", row.why, err, row.want)
		}
	}
}

// TestWorldKeepsItsRecords: a world that is given a store keeps its state there, for whoever looks
// at it afterwards. A pure one has none.
func TestWorldKeepsItsRecords(t *testing.T) {
	t.Parallel()
	for _, pure := range []bool{false, true} {
		store := new(bracket.MemoryStore)
		w := rfcWorld(t, 1)
		w.Store, w.Pure = store, pure
		if _, err := w.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		records, err := store.List(t.Context(), "")
		if err != nil || (len(records) == 0) != pure {
			t.Errorf("pure %t: %d records, %v", pure, len(records), err)
		}
	}
}

// TestBriefWorlds: a world of which nobody reads the waits leaves out the plans that would only tell
// them, and ends like any other.
func TestBriefWorlds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		edit   func(*rollouttest.World)
		done   bool
		finish time.Time
		spared int // plans
	}{
		{"one plan for each job that takes time", func(*rollouttest.World) {}, true, noon.Add(minutes(2)), 2},
		{"the world ends before the second job does", func(w *rollouttest.World) { w.End = noon.Add(90 * time.Second) }, false, noon.Add(minutes(1)), 1},
		{"it ends at the end of the job, which belongs to it", func(w *rollouttest.World) { w.End = noon.Add(minutes(2)) }, true, noon.Add(minutes(2)), 2},
		{"a job takes no time", func(w *rollouttest.World) { w.Job = rollouttest.Durations(nil) }, true, noon, 0},
		{"a job hangs, and nothing happens any more", func(w *rollouttest.World) {
			w.Job = func(rollout.Start, int) rollouttest.Outcome {
				return rollouttest.Outcome{Status: rollout.JobInProgress}
			}
		}, false, time.Time{}, 0},
		{"beside a start past a full pool others start at the same instant", func(w *rollouttest.World) {
			w.Fleet.Deployments = append(w.Fleet.Deployments, rollout.Deployment{ID: "cni"})
			w.Fleet.Versions = append(w.Fleet.Versions, version("cni", "v2", noon))
			for _, node := range []string{"node-1", "node-2"} {
				w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: node, Environment: "prod", Deployment: "cni"}})
			}
			w.Fleet.Overrides = []rollout.Override{{ID: "o", Rule: "nodes", Version: "v2", Deployment: "kubelet", CreatedAt: noon, CreatedBy: "ann", Reason: "urgent"}}
		}, true, noon.Add(minutes(1)), 1},
	} {
		w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet(), Start: noon, Trust: true}
		row.edit(&w)
		plans := 0
		counted := func() rollouttest.World {
			own := w
			plan := pure(w.Policies, func(*rollout.Plan) {})
			own.Plan = func(ctx context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
				plans++
				return plan(ctx, s, now)
			}
			return own
		}
		timeline, err := counted().Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		all := plans
		plans = 0
		e, err := rollouttest.Explore(t.Context(), counted(), func(rollout.Start, int) []rollouttest.Outcome { return nil }, 1)
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		if brief := e.Without; brief.Done != row.done || timeline.Done != row.done || !timeline.Finish.Equal(row.finish) || row.done && !brief.Finish.Equal(row.finish) || all-plans != row.spared {
			t.Errorf("%s: done %t at %v, in brief %t at %v; %d plans, in brief %d", row.why, timeline.Done, timeline.Finish, brief.Done, brief.Finish, all, plans)
		}
	}
}

// TestWorldEnds: an end cuts the world off, and says so.
func TestWorldEnds(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	w.End = at(2, 9, 17)
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if timeline.Done || !timeline.CutOff || !timeline.Finish.Equal(at(2, 9, 16)) || len(timeline.Running) != 3 {
		t.Errorf("done %t, cut off %t, finish %v, running %v", timeline.Done, timeline.CutOff, timeline.Finish, timeline.Running)
	}
	w.End = at(2, 9, 16) // what happens at the end belongs to it
	if timeline, err = w.Run(t.Context()); err != nil || !timeline.CutOff || !timeline.Finish.Equal(at(2, 9, 16)) {
		t.Errorf("%v, cut off %t, finish %v", err, timeline.CutOff, timeline.Finish)
	}
}

// TestErrorsCutOff: a world that an error stops is not done, even if by then nothing waited: what was
// still to come is not known.
func TestErrorsCutOff(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, row := range []struct {
		why     string
		ctx     context.Context
		edit    func(*rollouttest.World)
		entries bool
	}{
		{"the context is done before the first plan", over, func(*rollouttest.World) {}, false},
		{"the first plan is refused", t.Context(), func(w *rollouttest.World) { w.Fleet.Targets = append(w.Fleet.Targets, w.Fleet.Targets[0]) }, false},
		{"the world is refused", t.Context(), func(w *rollouttest.World) { w.Policies = nil }, false},
		{"a job of the fleet cannot end", t.Context(), func(w *rollouttest.World) {
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: noon}}
			w.Job = func(rollout.Start, int) rollouttest.Outcome { return rollouttest.Outcome{After: -1} }
		}, true},
		{"a later plan is refused, when everything is done", t.Context(), func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: noon.Add(minutes(9)), Do: func(s *rollout.Snapshot) { s.Targets = append(s.Targets, s.Targets[0]) }}}
		}, true},
	} {
		w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet(), Start: noon}
		row.edit(&w)
		timeline, err := w.Run(row.ctx)
		if err == nil || timeline.Done || !timeline.CutOff || (len(timeline.Entries) > 0) != row.entries || !strings.HasPrefix(timeline.Summary(), "not done when it was cut off\n") {
			t.Errorf("%s: %v, done %t, cut off %t, %s", row.why, err, timeline.Done, timeline.CutOff, timeline)
		}
	}
}

// TestAttemptsWithoutEnd: a job that is repeated for ever never lets a world come to rest. Before it
// takes hours, the world says so, unless it has an end. One that is repeated at one instant for ever
// never comes to that end.
func TestAttemptsWithoutEnd(t *testing.T) {
	t.Parallel()
	const says = "1001 attempts of kubelet v2 on node-1, and no end: the world may never come to rest: give it World.End"
	const stands = "1001 attempts of kubelet v2 on node-1 at 2026-03-10T12:00:00Z: the clock stands still, so no World.End ever comes: let them take time"
	for _, row := range []struct {
		why    string
		rules  string
		status rollout.JobStatus
		after  time.Duration
		end    time.Time
		says   string
	}{
		{"retries without limit", `{"retry":{"maxRetries":2147483647,"backoffSeconds":60}}`, rollout.JobFailure, minutes(1), time.Time{}, says},
		{"a cancelled job is tried again without any rule and, if it takes no time, at one instant for ever; in a forecast as well", oneByOne, rollout.JobCancelled, 0, time.Time{}, stands},
		{"the end does not come, either", oneByOne, rollout.JobCancelled, 0, noon.Add(minutes(5)), stands},
		{"as many as are allowed", `{"retry":{"maxRetries":999}}`, rollout.JobFailure, minutes(1), time.Time{}, ""},
		{"more, up to an end", oneByOne, rollout.JobCancelled, minutes(1), noon.Add(minutes(1100)), ""},
	} {
		w := rollouttest.World{
			Policies: compiled(t, `{"name":"p","selector":"true","rules":[`+row.rules+`]}`), Fleet: exampleFleet(), Start: noon, End: row.end, Pure: true, Trust: true,
		}
		w.Fleet.Targets = w.Fleet.Targets[:1]
		outcome := rollouttest.Outcome{After: row.after, Status: row.status}
		w.Job = func(rollout.Start, int) rollouttest.Outcome { return outcome }
		_, err := w.Run(t.Context())
		if row.after == 0 && err != nil {
			_, err = rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{"kubelet": {outcome}}}, 1, 1)
		}
		if row.says == "" && err != nil || row.says != "" && (err == nil || !strings.Contains(err.Error(), row.says)) {
			t.Errorf("%s: %v, want %q", row.why, err, row.says)
		}
	}
}

// TestEndsBeyondAllInstants: what would end later than any plan can be made never does, and raises no
// alarm; what ends at the last instant of all is seen.
func TestEndsBeyondAllInstants(t *testing.T) {
	t.Parallel()
	last := time.Unix(0, math.MaxInt64).UTC()
	for _, row := range []struct {
		why     string
		start   time.Time
		outcome rollouttest.Outcome
		finish  time.Time
		done    bool
	}{
		{"a job that takes three centuries", at(1, 9, 0), rollouttest.Outcome{After: math.MaxInt64}, time.Time{}, false},
		{"so do its checks", at(1, 9, 0), rollouttest.Outcome{After: minutes(3), Verification: rollout.VerificationPassed, VerifiedAfter: math.MaxInt64}, at(1, 9, 3), false},
		{"there is no plan after the last instant", last.Add(-time.Minute), rollouttest.Outcome{After: minutes(1) + 1}, time.Time{}, false},
		{"and one at it", last.Add(-time.Minute), rollouttest.Outcome{After: minutes(1)}, last, true},
	} {
		w := webWorld(t, 1, oneByOne)
		w.Start = row.start
		w.Job = func(rollout.Start, int) rollouttest.Outcome { return row.outcome }
		timeline, err := w.Run(t.Context())
		if err != nil || timeline.Done != row.done || !timeline.Finish.Equal(row.finish) || len(timeline.Running) == 0 != row.done {
			t.Errorf("%s: %v, done %t at %v, %q runs", row.why, err, timeline.Done, timeline.Finish, timeline.Running)
		}
	}
}

// TestWorldBegunHalfWay: jobs that are in the fleet from the beginning are at work like any other,
// and nobody knows when they end. Instants are told in UTC.
func TestWorldBegunHalfWay(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	world := func() rollouttest.World {
		fleet := rollout.Snapshot{
			Resources: []rollout.Resource{{ID: "r1"}, {ID: "r2"}}, Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "api"}},
			Versions: []rollout.Version{
				{ID: "v1", Deployment: "api", Status: rollout.VersionReady, CreatedAt: start},
				{ID: "v2", Deployment: "api", Status: rollout.VersionReady, CreatedAt: start.Add(time.Hour).In(time.FixedZone("", 3600))},
			},
		}
		for _, r := range fleet.Resources {
			fleet.Targets = append(fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: "prod", Deployment: "api"}, Current: "v1"})
		}
		return rollouttest.World{Policies: compiled(t, `{"name":"p","selector":"true","rules":[{"retry":{"maxRetries":1}}]}`), Fleet: fleet, Start: start}
	}
	for _, row := range []struct {
		why      string
		edit     func(*rollouttest.World)
		running  []string
		inFlight int
	}{
		{"nothing runs", func(*rollouttest.World) {}, nil, 2},
		{"jobs, and one that is being verified", func(w *rollouttest.World) {
			w.Fleet.Versions = w.Fleet.Versions[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobQueued, CreatedAt: start}}
			w.Fleet.Targets[1].Jobs = []rollout.Job{{Run: "b", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: start.Add(-time.Hour), Verification: rollout.VerificationRunning}}
		}, []string{"b"}, 1},
		{"the older one is told first", func(w *rollouttest.World) {
			w.Fleet.Versions = w.Fleet.Versions[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v1", Status: rollout.JobActionRequired, CreatedAt: start.Add(-time.Minute)}}
			w.Fleet.Targets[1].Jobs = []rollout.Job{{Run: "b", Version: "v1", Status: rollout.JobActionRequired, CreatedAt: start.Add(-time.Hour)}}
		}, []string{"b", "a"}, 2},
		{"a job that failed, whatever is said of its checks", func(w *rollouttest.World) {
			w.Fleet.Versions = w.Fleet.Versions[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "a", Version: "v1", Status: rollout.JobFailure, CreatedAt: start.Add(-time.Hour), Verification: rollout.VerificationRunning}}
		}, nil, 0},
		{"a job that waits for somebody", func(w *rollouttest.World) {
			w.Fleet.Versions = w.Fleet.Versions[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobActionRequired, CreatedAt: start}}
		}, []string{"r1 / prod / api"}, 1},
		{"a change begins another one, while the first is at work and nothing starts", func(w *rollouttest.World) {
			w.Fleet.Versions = w.Fleet.Versions[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobQueued, CreatedAt: start}}
			w.Changes = []rollouttest.Change{
				{At: start.Add(30 * time.Second), What: "somebody deploys by hand", Do: func(s *rollout.Snapshot) {
					s.Targets[1].Jobs = append(s.Targets[1].Jobs, rollout.Job{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: start.Add(30 * time.Second)})
				}},
				{At: start.Add(2 * time.Minute), What: "it ends", Do: func(s *rollout.Snapshot) { s.Targets[1].Jobs[0].Status = rollout.JobSuccessful }},
			}
		}, nil, 2},
		{"a change ends it", func(w *rollouttest.World) {
			w.Fleet.Versions = w.Fleet.Versions[:1]
			w.Fleet.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobQueued, CreatedAt: start}}
			w.Changes = []rollouttest.Change{{At: start.Add(time.Minute), What: "it ends", Do: func(s *rollout.Snapshot) { s.Targets[0].Jobs[0].Status = rollout.JobSuccessful }}}
		}, nil, 1},
	} {
		w := world()
		row.edit(&w)
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", row.why, err)
		}
		if !slices.Equal(timeline.Running, row.running) || timeline.Done != (row.running == nil) || timeline.InFlight != row.inFlight {
			t.Errorf("%s: runs %q, done %t, %d in flight; want %q, %d", row.why, timeline.Running, timeline.Done, timeline.InFlight, row.running, row.inFlight)
		}
		for _, e := range timeline.Entries {
			if e.At.Location() != time.UTC {
				t.Errorf("%s: %+v is told at %v", row.why, e.Kind, e.At)
			}
		}
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 10)
	samples := map[string][]rollouttest.Outcome{drain: {{After: minutes(8)}, {After: minutes(20)}}}
	first, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	second, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the same seed gives another prediction:\n%s", diff)
	}
	other, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 9, 4)
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(first, other) {
		t.Error("another seed gives the same prediction")
	}
	earliest, _ := first.Finish(0)
	median, _ := first.Finish(0.5)
	latest, ok := first.Finish(1)
	if !ok || earliest.Before(at(2, 10, 20)) || earliest.After(median) || !median.Before(latest) || first.DoneBy(latest) != 1 || first.DoneBy(earliest.Add(-1)) != 0 {
		t.Errorf("earliest %v, median %v, latest %v", earliest, median, latest)
	}
	if len(first.Unsampled) != 4 || slices.Contains(first.Unsampled, drain) || !strings.Contains(first.String(), "\nno samples, so World.Job decides: "+strings.Join(first.Unsampled, ", ")) {
		t.Errorf("four deployments had no samples, a misspelt one would be among them: %q\n%v", first.Unsampled, first)
	}
	if first.Peak(1) != 2 || first.Halted() != 0 {
		t.Errorf("peak %d, halted %v", first.Peak(1), first.Halted())
	}
	samples[drain] = append(samples[drain], rollouttest.Outcome{Status: rollout.JobFailure})
	held, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 9, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := held.Finish(1); ok || held.Halted() == 0 {
		t.Errorf("a third of the drains fail without retry, and the forecast ends all the same: %v", held)
	}
	if text := held.String(); !strings.Contains(text, "%: bracket_failed_holding in ") || strings.Contains(text, "unfinished") {
		t.Errorf("nobody learns why: %s", text)
	}
	if _, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 0, 3); err == nil {
		t.Error("no trials, no error")
	}
	w.End = at(1, 0, 0)
	if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "World.End, ") {
		t.Errorf("a world that ends before it starts: %v", err)
	}
	if timeline, err := (rollouttest.World{Policies: w.Policies}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "World.Start is required") || timeline.Done {
		t.Errorf("a world that nobody says when to begin: done %v, %v", timeline.Done, err)
	}
}

// TestWorldOfTheYearZero: where a file says the year 0 for none, a world begins when its oldest version
// was created, and has no end.
func TestWorldOfTheYearZero(t *testing.T) {
	t.Parallel()
	w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet()}
	want, err := w.Run(t.Context())
	if err != nil || !want.Done {
		t.Fatal(want, err)
	}
	w.Start, w.End = time.Time{}.Add(-time.Hour), time.Time{}.Add(-time.Minute)
	if got, err := w.Run(t.Context()); err != nil || got.String() != want.String() {
		t.Errorf("%v\n%v\nwant\n%v", err, got, want)
	}
}

// TestForecastTellsWhyItHalts: of the trials that were never done, what they ended with, and how
// many of them.
func TestForecastTellsWhyItHalts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		sample rollouttest.Outcome
		end    time.Time
		want   string
	}{
		{"all is done", rollouttest.Outcome{After: minutes(8)}, time.Time{}, "never done: 0 %\nat most 2 resources in flight at once\nno samples, so World.Job decides: "},
		{"nobody repeats a failure", rollouttest.Outcome{After: minutes(8), Status: rollout.JobFailure}, time.Time{}, "never done: 100 %: bracket_failed_holding in 2 trials, slot_full in 2 trials"},
		{"a job hangs", rollouttest.Outcome{Status: rollout.JobInProgress}, time.Time{}, "never done: 100 %: an unfinished job in 2 trials, bracket_waits_for_members in 2 trials, slot_full in 2 trials"},
		{"the world ends before its time", rollouttest.Outcome{After: minutes(8)}, at(2, 9, 30), "not done: 100 %: World.End came first in 2 trials, an unfinished job in 2 trials, bracket_waits_for_members in 2 trials, slot_full in 2 trials\n"},
	} {
		w := rfcWorld(t, 10)
		w.End = row.end
		p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{drain: {row.sample}}}, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		if text := p.String(); !strings.Contains(text, row.want) {
			t.Errorf("%s: got\n%s\nwant %s", row.why, text, row.want)
		}
		for _, trial := range p.Trials {
			if hung := row.sample.Status == rollout.JobInProgress; !hung && !trial.Finish.After(p.Start) {
				t.Errorf("%s: the last job ended at %s", row.why, trial.Finish)
			}
		}
	}
}

// TestWaitsThatAreSaidAgain: a wait is told when it begins and whenever it reads otherwise than at
// the instant before, also in its version alone; and for each target of a resource on its own.
func TestWaitsThatAreSaidAgain(t *testing.T) {
	t.Parallel()
	wait := func(environment, version string) rollout.Waiting {
		blocker := rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonApprovalMissing, On: []rollout.Condition{{Kind: rollout.OnOperator}}}
		return rollout.Waiting{
			TargetID: rollout.TargetID{Resource: "r1", Environment: environment, Deployment: "web"}, Version: version, Blockers: []rollout.Verdict{blocker},
		}
	}
	plans := [][]rollout.Waiting{
		{wait("prod", "v2"), wait("stage", "v2")},
		{wait("prod", "v2"), wait("stage", "v2")},
		{wait("prod", "v3"), wait("stage", "v2")},
		{wait("stage", "v2")},
		{wait("prod", "v2"), wait("stage", "v2")}, // as the next target waits
	}
	w := webWorld(t, 1, rollback)
	w.Start, w.Trust = at(1, 9, 0), true
	w.Plan = func(_ context.Context, _ rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		plan := rollout.Plan{Now: now, Waiting: rollout.NewWaitingList(plans[0]...)}
		if plans = plans[1:]; len(plans) > 0 {
			plan.Next = now.Add(time.Minute)
		}
		return plan, nil
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Wait {
			got = append(got, fmt.Sprintf("%v %s %s", e.At.Sub(w.Start), e.Environment, e.Version))
		}
	}
	if want := []string{"0s prod v2", "0s stage v2", "2m0s prod v3", "4m0s prod v2"}; !slices.Equal(got, want) {
		t.Errorf("said %q, want %q", got, want)
	}
	if len(timeline.Left) != 2 || timeline.Done {
		t.Errorf("done %v, left %v", timeline.Done, timeline.Left)
	}
}

// TestForecastNamesAllThatRanWithoutSamples: also what ran only in a trial before the last one.
func TestForecastNamesAllThatRanWithoutSamples(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 1)
	samples := map[string][]rollouttest.Outcome{drain: {{After: minutes(8)}, {After: minutes(8), Status: rollout.JobFailure}}}
	for seed := range uint64(20) {
		p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 2, seed)
		if err != nil {
			t.Fatal(err)
		}
		if p.Trials[0].Done && !p.Trials[1].Done {
			if len(p.Unsampled) != 4 {
				t.Errorf("the last trial failed at the drain, and of what ran before it says %q", p.Unsampled)
			}
			return
		}
	}
	t.Error("no seed lets the second trial fail alone")
}

// TestForecastSideBySide: trials that run at once come to what they come to one after the other,
// and of several that go wrong the first is told. A world with a Plan of its own runs them in turn,
// for that may keep a state, as the one here does.
func TestForecastSideBySide(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 6)
	inTurn := w
	var state rollout.State
	busy := false
	inTurn.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		if busy {
			t.Error("two plans of a world with a planner of its own are made at once")
		}
		busy = true
		defer func() { busy = false }()
		if s.State = state; now.Equal(w.Start) {
			s.State = rollout.State{}
		}
		plan, err := w.Policies.Plan(s, now)
		if err == nil {
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
		}
		return plan, err
	}
	samples := map[string][]rollouttest.Outcome{drain: {{After: minutes(8)}, {After: minutes(20)}, {After: minutes(90), Status: rollout.JobFailure}}}
	want, err := rollouttest.Forecast(t.Context(), inTurn, rollouttest.Samples{Jobs: samples}, 24, 5)
	if err != nil {
		t.Fatal(err)
	}
	got, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 24, 5)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, in turn and side by side:\n%s", err, diff)
	}
	if want.Halted() == 0 || want.Halted() == 1 || len(want.Unsampled) != 4 {
		t.Errorf("the trials are all alike: %v", want)
	}
	for seed := range uint64(20) {
		samples[drain] = slices.Repeat(samples[drain][:1], 60)
		samples[drain][0].After = -minutes(1)
		_, want := rollouttest.Forecast(t.Context(), inTurn, rollouttest.Samples{Jobs: samples}, 24, seed)
		_, got := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 24, seed)
		if want == nil || got == nil || want.Error() != got.Error() {
			t.Errorf("in turn: %v, side by side: %v", want, got)
		}
	}
}

// TestTraceTellsLikeWaitsTogether: who begins to wait at one instant for the same reasons shares a
// line, whoever is listed between them, and what two rules say in the same words is said once.
func TestTraceTellsLikeWaitsTogether(t *testing.T) {
	t.Parallel()
	wait := func(resource, deployment string, reasons ...rollout.Reason) rollouttest.Entry {
		e := rollouttest.Entry{At: at(1, 9, 0), Kind: rollouttest.Wait, Resource: resource, Deployment: deployment, Version: "v2"}
		for _, reason := range reasons {
			e.Blockers = append(e.Blockers, rollout.Verdict{Status: rollout.Pending, Reason: reason, Until: at(1, 10, 0)})
		}
		return e
	}
	timeline := rollouttest.Timeline{Entries: []rollouttest.Entry{
		wait("r1", "api", rollout.ReasonWindowClosed, rollout.ReasonWindowClosed),
		wait("r1", "web", rollout.ReasonCooldown),
		wait("r2", "api", rollout.ReasonWindowClosed),
		wait("r2", "web", rollout.ReasonCooldown),
		{At: at(1, 9, 0), Kind: rollouttest.Arrival, Note: "somebody speaks"},
		wait("r3", "api", rollout.ReasonWindowClosed),
		{At: at(2, 9, 0), Kind: rollouttest.Arrival, Note: "and again"},
		wait("r2", "api", rollout.ReasonWindowClosed),
		wait("r2", "web", rollout.ReasonWindowClosed),
		wait("r4", "api", rollout.ReasonWindowClosed),
		wait("r5", "api", rollout.ReasonWindowClosed),
		wait("r5", "web", rollout.ReasonWindowClosed),
	}}
	for k := range 5 {
		timeline.Entries[len(timeline.Entries)-1-k].At = at(2, 9, 0)
	}
	for k := range 12 {
		later := wait(fmt.Sprint("s", k), "api", rollout.ReasonCooldown)
		later.At = at(2, 10, 0)
		timeline.Entries = append(timeline.Entries, later)
	}
	const want = `2026-03-10
  09:00:00  r1, r2: api v2: window_closed until 2026-03-10 10:00:00
  09:00:00  r1, r2: web v2: cooldown until 2026-03-10 10:00:00
  09:00:00  somebody speaks
  09:00:00  r3: api v2: window_closed until 2026-03-10 10:00:00
2026-03-11
  09:00:00  and again
  09:00:00  r2, r5: api v2, web v2; r4: api v2: window_closed until 2026-03-10 10:00:00
  10:00:00  s0, s1, s2, s3, s4, s5, s6, s7, s8, s9 and 2 more: api v2: cooldown until 2026-03-10 10:00:00
`
	if diff := cmp.Diff(want, timeline.Trace()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTraceTellsEnvironmentsApart: a resource that is in two of them is named with the one that is
// meant, and no other.
func TestTraceTellsEnvironmentsApart(t *testing.T) {
	t.Parallel()
	start := func(resource, environment string) rollouttest.Entry {
		return rollouttest.Entry{At: at(1, 9, 0), Kind: rollouttest.Start, Resource: resource, Environment: environment, Deployment: "api", Version: "v2"}
	}
	timeline := rollouttest.Timeline{Entries: []rollouttest.Entry{
		start("r1", "prod"), start("r2", "prod"), start("r1", "staging"),
		{At: at(1, 9, 0), Kind: rollouttest.Stuck, Resource: "r1", Note: "all"}, // a slot is of no environment
	}}
	const want = `2026-03-10
  09:00:00  r1 in prod: start api v2
  09:00:00  r2: start api v2
  09:00:00  r1 in staging: start api v2
  09:00:00  r1: stuck, its slot in all sees no progress
`
	if diff := cmp.Diff(want, timeline.Trace()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if timeline.Entries[0].Resource != "r1" {
		t.Error("the entries were changed")
	}
}

// waitingOf lists who waits in a plan.
func waitingOf(plan rollout.Plan) []rollout.Waiting { return slices.Collect(plan.Waiting.All()) }
