package rollout_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestChanges: what two plans say differently, target by target, and nothing that they say alike.
func TestChanges(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 40, nil, func(t *rapid.T, w *world) {
		if got := w.plan.Changes(&w.plan); len(got) != 0 {
			t.Fatalf("a plan differs from itself: %v", got)
		}
		s := w.s
		s.State, s.Targets = mustCommit(t, w.plan, w.now), slices.Clone(s.Targets)
		begun := subset(t, w.plan.Start)
		for k := range s.Targets { // some jobs end, and some starts become jobs
			target := &s.Targets[k]
			target.Jobs = slices.Clone(target.Jobs)
			for n := range target.Jobs {
				if job := &target.Jobs[n]; !job.Status.Terminal() && chance(t, "ends", 50) {
					job.Status, job.CompletedAt = rollout.JobFailure, w.now
				}
			}
			for _, start := range begun {
				if start.TargetID == target.TargetID {
					target.Jobs = append(target.Jobs, job(start, w.now, rollout.JobInProgress))
				}
			}
		}
		later, planned := planIfAny(t, w.set, s, w.now.Add(time.Duration(between(t, "later", 1, 6))*time.Minute))
		if !planned { // a version has come by which the members contradict their roles, or one another
			seen["contradiction"]++
			return
		}
		changes := later.Changes(&w.plan)
		if !slices.IsSortedFunc(changes, func(a, b rollout.Change) int {
			return slices.Compare([]string{a.Resource, a.Environment, a.Deployment}, []string{b.Resource, b.Environment, b.Deployment})
		}) {
			t.Fatalf("not in order: %v", changes)
		}
		told := map[rollout.TargetID]rollout.Change{}
		for _, change := range changes {
			told[change.TargetID] = change
		}
		if len(told) != len(changes) {
			t.Fatalf("a target is told twice: %v", changes)
		}
		before, after := byTarget(w.plan), byTarget(later)
		for _, target := range w.s.Targets {
			id := target.TargetID
			change, is := told[id]
			ran, runs := inProgress(t, w.plan, id), inProgress(t, later, id)
			switch {
			case before[id] != after[id] && !is:
				t.Fatalf("%v started %q and now %q, and nobody tells", id, before[id], after[id])
			case is && (change.Before.Start != before[id] || change.After.Start != after[id]):
				t.Fatalf("%v: it started %q and now %q", change, before[id], after[id])
			case ran != runs && !is:
				t.Fatalf("%v had %q in progress and now %q, and nobody tells", id, ran, runs)
			case is && (change.Before.Running != ran || change.After.Running != runs):
				t.Fatalf("%v: it had %q in progress and now %q", change, ran, runs)
			case ran != runs && ran == "":
				seen["begun"]++
			case ran != runs && runs == "":
				seen["ended"]++
			case is:
				seen["told"]++
			}
		}
		var copied rollout.Plan
		data, err := json.Marshal(w.plan)
		if err == nil {
			err = json.Unmarshal(data, &copied)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := copied.Changes(&w.plan); len(got) != 0 {
			t.Fatalf("a decoded copy differs: %v", got)
		}
		seen["the same"]++
		for _, change := range later.Changes(&copied) { // the copy knows no jobs, and does not tell each of them as new
			before, after := change.Before, change.After
			alike := func(a, b rollout.Verdict) bool { return a.Rule == b.Rule && a.String() == b.String() }
			if before.Running != "" || before.Start == after.Start && before.Wait == after.Wait && slices.EqualFunc(before.Blockers, after.Blockers, alike) {
				t.Fatalf("%v is no change from a copy", change)
			}
			seen["told from a copy"]++
		}
	}, "told", "the same", "begun", "ended", "told from a copy")
}

// inProgress returns the version that a plan's explanation says is in progress; empty if none is, or
// the target is gone.
func inProgress(t *rapid.T, plan rollout.Plan, id rollout.TargetID) string {
	e, err := plan.Explain(id)
	if err != nil && !errors.Is(err, rollout.ErrUnknownTarget) {
		t.Fatal(err)
	}
	if len(e.Jobs) == 0 {
		return ""
	}
	return e.Jobs[0].Version
}

// TestChangesOfAJob: a start that has become a job is in progress until the job ends. It was told as
// nothing to do, as if it were done.
func TestChangesOfAJob(t *testing.T) {
	set := compile(t, policy(`{"id":"R","retry":{"maxRetries":2,"backoffSeconds":600}}`))
	work := func(version string, status rollout.JobStatus, at int) rollout.Job {
		own := rollout.Job{Run: "r1/prod/api/" + version + "/1", Version: version, Status: status, CreatedAt: minute(at)}
		if status.Terminal() {
			own.CompletedAt = minute(at + 1)
		}
		return own
	}
	const newest = 2 // v3 is created at t0, and v2 an hour before
	for _, row := range []struct {
		why           string
		without       int // how many of the versions there are not, the newest first
		before, after []rollout.Job
		later         int // how many of the versions come until the second plan
		want          string
		copied        string // from a decoded copy of the first plan
	}{
		{"a start becomes a job", 1, nil, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, 0, "starts v2 -> v2 in progress", "starts v2 -> v2 in progress"},
		{"it goes on", 1, []rollout.Job{work("v2", rollout.JobQueued, 1)}, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, 0, "", ""},
		{"it has succeeded, which a copy cannot tell from before", 1, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, []rollout.Job{work("v2", rollout.JobSuccessful, 1)}, 0, "v2 in progress -> nothing to do", ""},
		{"it has failed", 1, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, []rollout.Job{work("v2", rollout.JobFailure, 1)}, 0,
			"v2 in progress -> v2 waits: retry_backoff (1 of 3 attempts failed) until 2025-01-01T00:12:00Z", "nothing to do -> v2 waits: retry_backoff (1 of 3 attempts failed) until 2025-01-01T00:12:00Z"},
		{"a newer version comes meanwhile", 1, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, 1,
			"v2 in progress -> v2 in progress, v3 waits: target_busy, waits for the end of a job of api on r1", "nothing to do -> v2 in progress, v3 waits: target_busy, waits for the end of a job of api on r1"},
		{"another version is in progress: the newest job counts", 0, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, []rollout.Job{work("v2", rollout.JobInProgress, 1), work("v3", rollout.JobInProgress, 2)}, 0,
			"v2 in progress, v3 waits: target_busy, waits for the end of a job of api on r1 -> v3 in progress", "v3 waits: target_busy, waits for the end of a job of api on r1 -> v3 in progress"},
		{"it has succeeded, and the next version is in progress already", 1, []rollout.Job{work("v2", rollout.JobInProgress, 1)}, []rollout.Job{work("v2", rollout.JobSuccessful, 1), work("v3", rollout.JobInProgress, 3)}, 1,
			"v2 in progress -> v3 in progress", ""},
	} {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
		s.Targets = s.Targets[:1]
		versions := s.Versions
		s.Versions = versions[:newest+1-row.without]
		s.Targets[0].Jobs = row.before
		before := mustPlan(t, set, s, minute(5))
		s.Targets = slices.Clone(s.Targets)
		s.Versions = versions[:newest+1-row.without+row.later]
		s.Targets[0].Jobs = row.after
		if slices.ContainsFunc(row.after, func(job rollout.Job) bool { return job.Status == rollout.JobSuccessful }) {
			s.Targets[0].Current = "v2"
		}
		after := mustPlan(t, set, s, minute(5))
		var copied rollout.Plan
		if err := json.Unmarshal([]byte(text(t, before)), &copied); err != nil {
			t.Fatal(err)
		}
		for from, want := range map[*rollout.Plan]string{&before: row.want, &copied: row.copied} {
			if want != "" {
				want = "r1 / prod / api: " + want
			}
			if got := after.Changes(from).String(); got != want {
				t.Errorf("%s, from a copy %v: %s, want %s", row.why, from == &copied, got, want)
			}
		}
	}
}

// TestReplayOfAJobInProgress: a decoded recording does not know which jobs are in progress. Its
// snapshot does, so that they are no difference, and are told on both sides of one.
func TestReplayOfAJobInProgress(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	s.Targets[0].Jobs = []rollout.Job{{Run: "r1/prod/api/v2/1", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
	set := compile(t, `[]`)
	recording := rollout.Recording{Schema: 1, Snapshot: s, Plan: mustPlan(t, set, s, minute(1))}
	decoded, err := rollout.ParseRecording([]byte(text(t, recording)))
	if err != nil {
		t.Fatal(err)
	}
	other := compile(t, policy(`{"id":"A","anyApproval":{"minApprovals":1}}`))
	const busy, missing = "target_busy, waits for the end of a job of api on r1", "approval_missing (0 of 1 needed), waits for an approval of v3 in prod"
	for _, r := range []rollout.Recording{recording, decoded} {
		if _, changes, err := set.Replay(r); err != nil || len(changes) != 0 {
			t.Errorf("the same policies decide differently: %v, %v", changes, err)
		}
		want := "r1 / prod / api: v2 in progress, v3 waits: " + busy + " -> v2 in progress, v3 waits: " + missing + "; " + busy + "\nr2 / prod / api: starts v3 -> v3 waits: " + missing
		if _, changes, err := other.Replay(r); err != nil || changes.String() != want {
			t.Errorf("%v, got\n%s\nwant\n%s", err, changes, want)
		}
	}
}

// TestChangesAllocations: a target with a job in progress about which nothing has changed allocates
// nothing.
func TestChangesAllocations(t *testing.T) {
	set := compile(t, `[]`)
	var counts []float64
	for _, n := range []int{10, 10_000} {
		s := fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}})
		plan := mustPlan(t, set, atWork(t, set, s, t0), minute(1))
		if plan.Keep.Started != n {
			t.Fatalf("%d of %d are at work", plan.Keep.Started, n)
		}
		counts = append(counts, testing.AllocsPerRun(5, func() {
			if changes := plan.Changes(&plan); len(changes) > 0 {
				t.Fatal(changes)
			}
		}))
	}
	if counts[1] > counts[0] {
		t.Errorf("%v allocations in a small fleet, %v in a large one", counts[0], counts[1])
	}
}

// TestChangesFromTheStart: before the first plan of all nothing was said.
func TestChangesFromTheStart(t *testing.T) {
	plan := mustPlan(t, compile(t, `[]`), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	if got, want := plan.Changes(nil), plan.Changes(&rollout.Plan{}); len(got) != 1 || !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestChangesOfAVerdict: whoever waits for something else is told, and nobody because of a fact
// that a verdict mentions.
func TestChangesOfAVerdict(t *testing.T) {
	type wait struct {
		rollout.Verdict
		version string
		more    []rollout.Verdict
	}
	plan := func(change func(*wait)) *rollout.Plan {
		own := wait{rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Rule: "w", Until: minute(1), Data: &rollout.Data{Detail: "one"}}, "v2", nil}
		change(&own)
		id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}
		return &rollout.Plan{Waiting: rollout.NewWaitingList(rollout.Waiting{TargetID: id, Version: own.version, Blockers: append(own.more, own.Verdict)})}
	}
	for _, row := range []struct {
		why    string
		change func(*wait)
		want   int
	}{
		{"nothing is changed", func(*wait) {}, 0},
		{"another status", func(v *wait) { v.Status = rollout.Denied }, 1},
		{"another reason", func(v *wait) { v.Reason = rollout.ReasonWindowTooShort }, 1},
		{"another rule", func(v *wait) { v.Rule = "x" }, 1},
		{"another time", func(v *wait) { v.Until = minute(2) }, 1},
		{"another version, which waits for the same", func(v *wait) { v.version = "v3" }, 1},
		{"the same time in another zone", func(v *wait) { v.Until = v.Until.In(time.FixedZone("", 3600)) }, 0},
		{"another fact", func(v *wait) { v.Data = &rollout.Data{Detail: "two"} }, 0},
		{"another place in the same queue", func(v *wait) { v.Data = &rollout.Data{Position: 2} }, 0},
		{"a further event, as when a slot that it waits for is found to be an orphan's", func(v *wait) { v.On = []rollout.Condition{{Kind: rollout.OnOrphan, Pool: "P"}} }, 0},
		{"two members of a bracket wait for the same rule, each with a fact of its own", func(v *wait) {
			v.more = []rollout.Verdict{v.Verdict}
			v.more[0].Data = &rollout.Data{Detail: "two"}
		}, 0},
		{"another rule besides", func(v *wait) {
			v.more = []rollout.Verdict{v.Verdict}
			v.more[0].Rule = "x"
		}, 1},
	} {
		if got := plan(row.change).Changes(plan(func(*wait) {})); len(got) != row.want {
			t.Errorf("%s: %v", row.why, got)
		}
	}
}

// TestChangesOfTheOrder: what the members of a bracket wait for is collected from one after the other.
// Once a needs nothing, b has its own two blockers the other way round, and waits for nothing else. It
// was listed as changed, from two reasons to the same two.
func TestChangesOfTheOrder(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","memberRoles":{}}},
		{"id":"db","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'b'"}},
		{"id":"lib","deploymentDependency":{"dependsOn":"deployment.name == 'lib' && version.tag == 'v2'","appliesTo":"deployment.name in ['a', 'b']"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "db": {"v1"}, "lib": {"v1"}})
	before := mustPlan(t, set, s, t0)
	s.State = before.State
	s.Targets = slices.Clone(s.Targets)
	id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}
	for i := range s.Targets {
		if s.Targets[i].TargetID == id {
			s.Targets[i].Current = "v2"
		}
	}
	after := mustPlan(t, set, s, t0)
	rules := func(plan rollout.Plan) (list []string) {
		b, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"})
		for _, verdict := range b.Blockers {
			list = append(list, verdict.Rule)
		}
		return list
	}
	if a, b := rules(before), rules(after); !slices.Equal(a, []string{"B", "lib", "db"}) || !slices.Equal(b, []string{"B", "db", "lib"}) {
		t.Fatalf("b waits for %q and then for %q: this test is about another order", a, b)
	}
	if changes := after.Changes(&before); len(changes) != 1 || changes[0].TargetID != id {
		t.Errorf("only a has nothing left to do:\n%s", changes)
	}
}

// TestExplainErrors: a decoded copy explains nothing, and neither does a plan about a target that
// it does not know.
func TestExplainErrors(t *testing.T) {
	plan := mustPlan(t, compile(t, "[]"), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	for _, id := range []rollout.TargetID{{}, {Resource: "r9", Environment: "prod", Deployment: "api"}, {Resource: "r1", Environment: "qa", Deployment: "api"}, {Resource: "r1", Environment: "prod", Deployment: "web"}} {
		if _, err := plan.Explain(id); err == nil {
			t.Errorf("%v is explained", id)
		}
	}
	if _, err := (&rollout.Plan{}).Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}); !errors.Is(err, rollout.ErrDecodedPlan) || !strings.Contains(err.Error(), "PolicySet.Replay") {
		t.Errorf("a copy explains, or does not say what does: %v", err)
	}
}

// TestCommitOfACopy: a decoded plan does not know its brackets any more. To claim the slots of a
// start and to leave out its execution would be worse than to refuse.
func TestCommitOfACopy(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	var decoded rollout.Plan
	if err := json.Unmarshal([]byte(text(t, plan)), &decoded); err != nil || len(decoded.Start) != 1 {
		t.Fatalf("%v, %+v", err, decoded)
	}
	if state, err := decoded.Commit(decoded.Start, t0); !errors.Is(err, rollout.ErrDecodedPlan) || len(state.Pools) != 0 {
		t.Errorf("a copy commits: %+v, %v", state, err)
	}
	if _, err := decoded.Explain(plan.Start[0].TargetID); !errors.Is(err, rollout.ErrDecodedPlan) {
		t.Errorf("a copy explains: %v", err)
	}
	if state, err := decoded.Commit(nil, time.Time{}); err != nil || text(t, state) != text(t, plan.State) {
		t.Errorf("no starts need no instant: %v, %v", state, err)
	}
	if state, err := decoded.Commit(nil, t0); err != nil || text(t, state) != text(t, plan.State) {
		t.Errorf("nothing was started, and the state is %+v, %v", state, err)
	}
	copied := plan // in memory it is the same plan
	if state, err := copied.Commit(decoded.Start, t0); err != nil || len(state.Executions) != 1 || len(state.Pools[0].Leases) != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestChangesBesideJobs: of several targets at work those about which nothing is new are passed over
// together, and no other is passed over with them.
func TestChangesBesideJobs(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"R","retry":{"maxRetries":2,"backoffSeconds":600}}`))
	work := func(resource, version string, status rollout.JobStatus) []rollout.Job {
		own := rollout.Job{Run: resource + "/prod/api/" + version + "/1", Version: version, Status: status, CreatedAt: minute(1)}
		if status.Terminal() {
			own.CompletedAt = minute(2)
		}
		return []rollout.Job{own}
	}
	all := []string{"r1", "r2", "r3", "r4"}
	for _, row := range []struct {
		why  string
		edit func(s *rollout.Snapshot) // of the second snapshot
		want []string
	}{
		{"nothing is new", func(*rollout.Snapshot) {}, nil},
		{"another version is in progress on one", func(s *rollout.Snapshot) { s.Targets[2].Jobs = work("r3", "v2", rollout.JobInProgress) }, []string{"r3: v3 in progress -> v2 in progress, v3 waits: target_busy, waits for the end of a job of api on r3"}},
		{"and on the last", func(s *rollout.Snapshot) { s.Targets[3].Jobs = work("r4", "v4", rollout.JobInProgress) }, []string{"r4: v3 in progress -> v4 in progress"}},
		{"one has failed", func(s *rollout.Snapshot) { s.Targets[1].Jobs = work("r2", "v3", rollout.JobFailure) }, []string{"r2: v3 in progress -> v3 waits: retry_backoff (1 of 3 attempts failed) until 2025-01-01T00:12:00Z"}},
		{"one is gone", func(s *rollout.Snapshot) { s.Targets = append(s.Targets[:1], s.Targets[2:]...) }, []string{"r2: v3 in progress -> nothing to do"}},
		{"the last is gone", func(s *rollout.Snapshot) { s.Targets = s.Targets[:3] }, []string{"r4: v3 in progress -> nothing to do"}},
		{"two in a row, and the one between them stays", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs, s.Targets[3].Jobs = work("r2", "v4", rollout.JobInProgress), work("r4", "v4", rollout.JobInProgress)
		}, []string{"r2: v3 in progress -> v4 in progress; and 1 more likewise"}},
	} {
		s := fleet(len(all), "v1", map[string][]string{"api": {"v1", "v2", "v3", "v4"}})
		s.Versions[3].CreatedAt = minute(60) // nobody waits for it yet
		for k, r := range all {
			s.Targets[k].Jobs = work(r, "v3", rollout.JobInProgress)
		}
		before := mustPlan(t, set, s, minute(5))
		s.Targets = slices.Clone(s.Targets)
		row.edit(&s)
		after := mustPlan(t, set, s, minute(5))
		var want []string
		for _, text := range row.want {
			want = append(want, strings.Replace(text, ":", " / prod / api:", 1))
		}
		if got := after.Changes(&before).String(); got != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", row.why, got, strings.Join(want, "\n"))
		}
	}
	// One of them waits for a newer version besides, in the first plan or in the second.
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	for k, r := range all[:2] {
		s.Targets[k].Jobs = work(r, "v2", rollout.JobInProgress)
	}
	less := s
	less.Versions = s.Versions[:2]
	s.Versions = slices.Clone(s.Versions)
	s.Versions[2].TargetSelector = "resource.id == 'r2'"
	waits, busy := mustPlan(t, set, s, minute(5)), mustPlan(t, set, less, minute(5))
	const alone, besides = "v2 in progress", "v2 in progress, v3 waits: target_busy, waits for the end of a job of api on r2"
	if got := waits.Changes(&busy).String(); got != "r2 / prod / api: "+alone+" -> "+besides {
		t.Errorf("a newer version has come: %s", got)
	}
	if got := busy.Changes(&waits).String(); got != "r2 / prod / api: "+besides+" -> "+alone {
		t.Errorf("it is gone again: %s", got)
	}
}
