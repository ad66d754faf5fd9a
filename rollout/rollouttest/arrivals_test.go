package rollouttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestArrivals: everything that is dated after the start comes at its instant, is told then and
// counts from then on. What is dated before is there from the start, and nobody is told.
func TestArrivals(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, `{"id":"ok","anyApproval":{"minApprovals":1}}`)
	w.Fleet.Approvals = []rollout.Approval{
		{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(1, 9, 30)},
		{Version: "v1", Deployment: "web", Environment: "prod", By: "bob", Status: rollout.Rejected, At: at(0, 9, 30)},
	}
	w.Fleet.Commands = []bracket.Command{
		{ID: "late", Kind: bracket.Skip, Group: "g", Resource: "c-0", Deployment: "web", By: "ann", At: at(1, 9, 40)},
		{ID: "early", Kind: bracket.Resolve, Group: "g", Resource: "c-0", By: "ann", At: at(0, 9, 40)},
	}
	shown := false
	planned := pure(w.Policies, func(*rollout.Plan) {})
	w.Plan = func(ctx context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		if !shown && (len(s.Versions) != 1 || len(s.Approvals) != 1 || len(s.Commands) != 1 || s.Commands[0].ID != "early") {
			t.Errorf("at the start there are %d versions, the approvals %v and the commands %v", len(s.Versions), s.Approvals, s.Commands)
		}
		shown = true
		return planned(ctx, s, now)
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = `2026-03-10
  09:00:00  web v2 published
  09:00:00  c-0: web v2: approval_missing (0 of 1 needed), waits for an approval of v2 in prod
  09:30:00  web v2 approved in prod by ann
  09:30:00  c-0: start web v2
  09:33:00  c-0: web v2 ended: successful
  09:40:00  command late: skip on c-0 web, by ann
`
	if diff := cmp.Diff(want, timeline.Trace()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestWhatComesTooLate: nobody can plan at an instant after the last one, so what is dated after it
// never comes. The world went there all the same, and said that the planner had broken a promise.
func TestWhatComesTooLate(t *testing.T) {
	t.Parallel()
	last := time.Unix(0, math.MaxInt64).UTC()
	for _, row := range []struct {
		why  string
		at   time.Time
		want string // the last line of the trace
	}{
		{"at the last instant", last, "  23:47:16  it ends"},
		{"after it", last.Add(1), "  09:03:00  c-0: web v2 ended: successful"},
		{"long after it", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), "  09:03:00  c-0: web v2 ended: successful"},
	} {
		w := webWorld(t, 1, oneByOne)
		w.Changes = []rollouttest.Change{{At: row.at, What: "it ends", Do: func(*rollout.Snapshot) {}}}
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		lines := strings.Split(strings.TrimSuffix(timeline.Trace(), "\n"), "\n")
		if got := lines[len(lines)-1]; got != row.want || !timeline.Done {
			t.Errorf("%s: the last line is %q, done: %v", row.why, got, timeline.Done)
		}
	}
}

// TestResourcesJoin: a resource comes with the first of its targets, which is told once; one of which
// a target is there from the start, or which has none, is there from the start.
func TestResourcesJoin(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 0, `{"id":"all","resourceConcurrency":{"groupSelector":"true","limit":9}}`)
	w.Fleet.Environments = append(w.Fleet.Environments, rollout.Environment{ID: "test"})
	for _, row := range []struct {
		resource string
		joined   map[string]time.Time // by environment
	}{
		{"later", map[string]time.Time{"prod": at(1, 11, 0), "test": at(1, 10, 0)}},
		{"latest", map[string]time.Time{"prod": at(1, 12, 0), "test": at(1, 12, 30)}},
		{"half", map[string]time.Time{"prod": at(1, 13, 0), "test": {}}},
		{"halves", map[string]time.Time{"prod": {}, "test": at(1, 13, 30)}},
		{"first", map[string]time.Time{"prod": at(1, 8, 0)}},
		{"idle", nil},
	} {
		w.Fleet.Resources = append(w.Fleet.Resources, rollout.Resource{ID: row.resource})
		for _, environment := range []string{"prod", "test"} {
			if at, is := row.joined[environment]; is {
				w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: row.resource, Environment: environment, Deployment: "web"}, JoinedAt: at})
			}
		}
	}
	seen := map[string]time.Time{} // when a pool had so many members for the first time
	w.Plan = pure(w.Policies, func(p *rollout.Plan) {
		if total := strings.Repeat("I", p.Pools[0].Total); seen[total].IsZero() {
			seen[total] = p.Now
		}
	})
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]time.Time{"IIII": at(1, 8, 0), "IIIII": at(1, 10, 0), "IIIIII": at(1, 12, 0)}, seen); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	var got []string
	for _, e := range timeline.Entries {
		switch {
		case e.Kind == rollouttest.Arrival && strings.HasSuffix(e.Note, " joined"):
			got = append(got, e.At.Format("15:04 ")+e.Note)
		case e.Kind == rollouttest.Start && e.Version == "v2":
			got = append(got, e.At.Format("15:04 ")+e.Resource+" "+e.Environment)
		}
	}
	want := []string{
		"09:00 first prod", "09:00 half test", "09:00 halves prod", "10:00 later joined", "10:00 later test", "11:00 later prod",
		"12:00 latest joined", "12:00 latest prod", "12:30 latest test", "13:00 half prod", "13:30 halves test",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestChangesInOrder: changes happen in the order of their instants, those of one instant in the
// order of the list, behind what the fleet brings; and both At and Do are needed.
func TestChangesInOrder(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, oneByOne)
	var got []string
	change := func(hour int, what string) rollouttest.Change {
		return rollouttest.Change{At: at(1, hour, 0), What: what, Do: func(s *rollout.Snapshot) {
			got = append(got, what)
			if hour == 9 && len(s.Versions) != 2 {
				t.Errorf("%s before v2 is published", what)
			}
		}}
	}
	w.Changes = []rollouttest.Change{change(12, "last"), change(9, "first"), change(9, "second"), change(10, "")}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "second", "", "last"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if trace := timeline.Trace(); !strings.HasPrefix(trace, "2026-03-10\n  09:00:00  web v2 published\n  09:00:00  first\n  09:00:00  second\n  09:00:00  c-0: start") || strings.Contains(trace, "10:00:00") {
		t.Errorf("what happens without a word is not told, and the rest is\n%s", trace)
	}
	for _, wrong := range []rollouttest.Change{{Do: func(*rollout.Snapshot) {}}, {At: at(1, 9, 0)}} {
		w.Changes = []rollouttest.Change{change(9, "first"), wrong}
		if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "World.Changes[1]: its At and Do must be set") {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// TestRunLeavesTheWorldAlone: whatever changes set, append and remove, and whatever jobs do.
func TestRunLeavesTheWorldAlone(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 3, oneByOne)
	w.Fleet.Targets[2].JoinedAt = at(1, 10, 0)
	for k := range w.Fleet.Targets {
		w.Fleet.Targets[k].Jobs = append(make([]rollout.Job, 0, 9), w.Fleet.Targets[k].Jobs...) // room that an append would write to
	}
	w.Fleet.Targets[1].Jobs = append(w.Fleet.Targets[1].Jobs, rollout.Job{Run: "at work", Version: "v1", Status: rollout.JobInProgress, CreatedAt: at(1, 8, 0)})
	w.Fleet.Unavailable, w.Fleet.DeletedResources = []string{"c-2"}, []string{"gone"}
	w.Changes = []rollouttest.Change{{At: at(1, 9, 30), What: "everything changes", Do: func(s *rollout.Snapshot) {
		s.Environments[0].Name, s.Deployments[0].Name, s.Resources[0].Name = "other", "other", "other"
		s.Versions[0].Name, s.Targets[0].Priority = "other", 1
		s.Unavailable[0], s.DeletedResources[0] = "c-0", "other"
		for k := range s.Targets {
			s.Targets[k].Jobs[0].Run += "!"
		}
	}}, {At: at(1, 10, 30), What: "once more", Do: func(s *rollout.Snapshot) {
		for k := range s.Targets {
			s.Targets[k].Jobs[0].Run += "!"
		}
	}}}
	text := func() string {
		for k := range w.Fleet.Targets {
			jobs := w.Fleet.Targets[k].Jobs
			w.Fleet.Targets[k].Jobs = jobs[:cap(jobs)]
			defer func() { w.Fleet.Targets[k].Jobs = jobs }()
		}
		data, err := json.Marshal(w.Fleet)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := text()
	first, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, text()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	second, err := w.Run(t.Context())
	if diff := cmp.Diff(first.String(), second.String()); diff != "" || err != nil {
		t.Errorf("%v, and the second run differs:\n%s", err, diff)
	}
}

// TestTargetsLeave: a job on a target that leaves is not heard of again, also if a target of that
// name comes back; and who stays is not taken for another one.
func TestTargetsLeave(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 3, `{"id":"none","retry":{"maxRetries":0}}`)
	without := func(gone ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return slices.Contains(gone, t.Resource) })
		}
	}
	again := w.Fleet.Targets[1]
	w.Changes = []rollouttest.Change{
		{At: at(1, 9, 0), What: "c-0 leaves", Do: without("c-0")},
		{At: at(1, 9, 1), What: "c-1 leaves", Do: without("c-1")},
		{At: at(1, 9, 2), What: "and comes back with another version", Do: func(s *rollout.Snapshot) {
			again.Current, again.Jobs = "v2", nil
			s.Targets = append(s.Targets, again)
		}},
		{At: at(1, 9, 30), What: "v3 is published", Do: func(s *rollout.Snapshot) { s.Versions = append(s.Versions, version("web", "v3", at(1, 9, 30))) }},
		{At: at(1, 9, 31), What: "all leave", Do: without("c-1", "c-2")},
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = `2026-03-10
  09:00:00  web v2 published
  09:00:00  c-0 leaves
  09:00:00  c-1: start web v2
  09:00:00  c-2: start web v2
  09:01:00  c-1 leaves
  09:02:00  and comes back with another version
  09:03:00  c-2: web v2 ended: successful
  09:30:00  v3 is published
  09:30:00  c-1: start web v3
  09:30:00  c-2: start web v3
  09:31:00  all leave
`
	if diff := cmp.Diff(want, timeline.Trace()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestJobsAreKnownByTheirRuns: a host may correct when a job was created, and it ends all the same.
func TestJobsAreKnownByTheirRuns(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, oneByOne)
	w.Changes = []rollouttest.Change{{At: at(1, 9, 1), Do: func(s *rollout.Snapshot) {
		job := &s.Targets[0].Jobs[1]
		job.CreatedAt = job.CreatedAt.Add(time.Second)
	}}}
	if timeline, err := w.Run(t.Context()); err != nil || !timeline.Done || !timeline.Finish.Equal(at(1, 9, 3)) {
		t.Errorf("%v\n%v", err, timeline)
	}
}

// TestWhatThePlannerIsShown: of jobs that hang, the status that they hang with; and what a target
// runs, if its host says that.
func TestWhatThePlannerIsShown(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 2, `{"id":"none","retry":{"maxRetries":0}}`)
	w.Fleet.Targets[1].Current = "v1"
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Version == "v3" {
			return rollouttest.Outcome{Status: rollout.JobActionRequired}
		}
		return rollouttest.Outcome{After: time.Minute}
	}
	w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 10, 0)))
	var last rollout.Snapshot
	var state rollout.State
	w.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		last, s.State = s, state
		plan, err := w.Policies.Plan(s, now)
		if err == nil {
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
		}
		return plan, err
	}
	if _, err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, target := range last.Targets {
		got = append(got, fmt.Sprintf("%s runs %q", target.Resource, target.Current))
		for _, job := range target.Jobs {
			got = append(got, fmt.Sprintf("%s %s", job.Version, job.Status))
		}
	}
	want := []string{`c-0 runs ""`, "v1 successful", "v2 successful", "v3 actionRequired", `c-1 runs "v2"`, "v1 successful", "v2 successful", "v3 actionRequired"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDispatch: a job is created once for its run id, whatever a plan says, and none where there is
// no target. One that takes no time is in flight at its instant.
func TestDispatch(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 2, `{"id":"none","retry":{"maxRetries":0}}`)
	w.Trust, w.Job = true, rollouttest.Durations(nil)
	w.Plan = pure(w.Policies, func(p *rollout.Plan) { p.Start = append(p.Start, p.Start...) })
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	starts := 0
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Start {
			starts++
		}
	}
	if starts != 2 || timeline.InFlight != 2 || !timeline.Done {
		t.Errorf("%d starts, %d in flight, done %t; want 2, 2", starts, timeline.InFlight, timeline.Done)
	}
	w.Plan = pure(w.Policies, func(p *rollout.Plan) {
		for k := range p.Start {
			p.Start[k].Resource = "nowhere"
		}
	})
	if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "rollouttest: plan at 2026-03-10T09:00:00Z starts c-0/prod/web/v2/1 on a target that does not exist") {
		t.Errorf("a start on no target: %v", err)
	}
}

// TestHoldersAreNamed: of a wait for a slot, those that have the slots of that pool, each once.
func TestHoldersAreNamed(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 5, `{"id":"a","resourceConcurrency":{"groupSelector":"resource.id in ['c-0', 'c-1', 'c-2']","limit":2}},{"id":"b","resourceConcurrency":{"groupSelector":"resource.id in ['c-3', 'c-4']","limit":1}}`)
	w.Fleet.Unavailable = []string{"c-0"}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"c-2: web v2: slot_full in a, held by c-0, c-1\n", "c-4: web v2: slot_full in b, held by c-3\n", "c-0: start web v2, it is down anyway\n"} {
		if !strings.Contains(timeline.Trace(), want) {
			t.Errorf("no %s in\n%s", want, timeline.Trace())
		}
	}
	if p := timeline.Pools[1]; p.Active != 1 || !p.At.Equal(at(1, 9, 0)) {
		t.Errorf("the peak of b is %+v, want that of the first instant", p)
	}
}

// TestHeldResourcesAreInFlight: a node that is held after a failure is disrupted, although nothing
// runs there.
func TestHeldResourcesAreInFlight(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 2)
	w.Policies = policyFile(t, "node-policy.json", func(policies []rollout.Policy) { policies[0].Rules = slices.Delete(policies[0].Rules, 1, 2) })
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Deployment == drain {
			return rollouttest.Outcome{After: minutes(1), Status: rollout.JobFailure}
		}
		return rollouttest.Outcome{}
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if timeline.InFlight != 2 || len(timeline.Pools) != 0 {
		t.Errorf("%d in flight; two drains have failed, five minutes apart:\n%v", timeline.InFlight, timeline)
	}
}

// TestStartAndEnd: a world begins when its oldest version was created, unless it says when, and ends
// when it says. What comes later does not make it done.
func TestStartAndEnd(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 1, oneByOne)
	w.End = at(1, 8, 30)
	if timeline, err := w.Run(t.Context()); err != nil || timeline.Done || !timeline.CutOff {
		t.Errorf("v2 is still to come: done %t, cut off %t, %v", timeline.Done, timeline.CutOff, err)
	}
	w.End = w.Start
	if timeline, err := w.Run(t.Context()); err != nil || !timeline.CutOff {
		t.Errorf("an end at the start: cut off %t, %v", timeline.CutOff, err)
	}
	w.Start, w.End = w.Start.In(time.FixedZone("", 3600)), time.Time{}
	if timeline, err := w.Run(t.Context()); err != nil || timeline.Start != at(1, 8, 0) {
		t.Errorf("a start in another zone: %v, %v", timeline.Start, err)
	}
	for name, order := range map[string][]int{"oldest first": {0, 1}, "oldest last": {1, 0}} {
		own := w
		own.Start, own.Fleet.Versions = time.Time{}, []rollout.Version{w.Fleet.Versions[order[0]], w.Fleet.Versions[order[1]]}
		if timeline, err := own.Run(t.Context()); err != nil || !timeline.Start.Equal(at(-20, 9, 0)) {
			t.Errorf("%s: it begins at %v, %v", name, timeline.Start, err)
		}
	}
	w.Start, w.Fleet.Versions[1].CreatedAt = time.Time{}, time.Time{}
	if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "versions[1].createdAt: is required") {
		t.Errorf("a version that was never created: %v", err)
	}
}

// TestArrivalsWithoutEffect: what a plan says of an arrival that changes nothing is in the timeline,
// once, although every plan says it again, and at whatever instant it came.
func TestArrivalsWithoutEffect(t *testing.T) {
	t.Parallel()
	w := webWorld(t, 3, oneByOne)
	w.Fleet.Commands = []bracket.Command{{ID: "c1", Kind: bracket.Close, Group: "b/prod/1", By: "ann", At: at(1, 9, 1)}}
	w.Fleet.Overrides = []rollout.Override{{ID: "o1", Rule: "on", Version: "v2", CreatedAt: at(1, 9, 2), CreatedBy: "ann", Reason: "in a hurry"}}
	w.Fleet.Freezes = []rollout.Freeze{{ID: "z1", Resource: "c-9", CreatedAt: at(1, 9, 2), CreatedBy: "ann", Reason: "its disk"}}
	w.Fleet.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "production", By: "ann", Status: rollout.Approved, At: at(1, 9, 4)}}
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Resource == "c-2" {
			return rollouttest.Outcome{Status: "sucessful"} // it hangs
		}
		return rollouttest.Outcome{After: minutes(3)}
	}
	w.Changes = []rollouttest.Change{{At: at(1, 9, 5), Do: func(s *rollout.Snapshot) {
		s.Approvals = append(slices.Clone(s.Approvals), s.Approvals[0])
		s.Approvals[1].By = "bob"
	}}, {At: at(1, 9, 8), Do: func(s *rollout.Snapshot) { s.Approvals = nil }}}
	for _, pure := range []bool{false, true} {
		w.Pure = pure
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range timeline.Diagnostics {
			got = append(got, fmt.Sprintf("%s %d", d.Code, d.Count))
		}
		want := []string{"approval_without_effect 2", "command_without_effect 1", "freeze_without_effect 1", "job_status_unknown 1", "override_without_effect 1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pure %t: (-want +got):\n%s\n%s", pure, diff, timeline)
		}
	}
}
