package rollouttest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// known is what a host knew at a plan, before the plan or after it.
type known struct {
	at    time.Time
	fleet rollout.Snapshot
}

// watched runs a world and returns what was known at each of its plans: twice per plan, without the
// starts and with those that were saved and not dispatched, as after a crash.
func watched(w rollouttest.World) (rollouttest.Timeline, []known, error) {
	var plans []known
	var state rollout.State
	w.Pure, w.Trust = false, true
	w.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
		fleet := s // of which the changes to come modify the lists
		fleet.Targets, fleet.Resources, fleet.Versions = slices.Clone(s.Targets), slices.Clone(s.Resources), slices.Clone(s.Versions)
		fleet.Unavailable, fleet.DeletedResources = slices.Clone(s.Unavailable), slices.Clone(s.DeletedResources)
		for k := range fleet.Targets {
			fleet.Targets[k].Jobs = slices.Clone(fleet.Targets[k].Jobs)
		}
		fleet.State = state
		plans = append(plans, known{now, fleet})
		plan, err := w.Policies.Plan(fleet, now)
		if err == nil {
			plan.State, err = plan.Commit(plan.Start, now)
			state = plan.State
		}
		fleet.State = state
		plans = append(plans, known{now, fleet})
		return plan, err
	}
	timeline, err := w.Run(context.Background())
	return timeline, plans, err
}

// from returns the world as it goes on from what was known: what exists later is still to come.
func (k known) from(w rollouttest.World) rollouttest.World {
	later := func(at time.Time) bool { return at.After(k.at) }
	f, all := k.fleet, w.Fleet
	for _, v := range all.Versions {
		if later(v.CreatedAt) {
			f.Versions = append(slices.Clip(f.Versions), v)
		}
	}
	for _, a := range all.Approvals {
		if later(a.At) {
			f.Approvals = append(slices.Clip(f.Approvals), a)
		}
	}
	for _, o := range all.Overrides {
		if later(o.CreatedAt) {
			f.Overrides = append(slices.Clip(f.Overrides), o)
		}
	}
	for _, z := range all.Freezes {
		if later(z.CreatedAt) {
			f.Freezes = append(slices.Clip(f.Freezes), z)
		}
	}
	for _, t := range all.Targets {
		if !later(t.JoinedAt) {
			continue
		}
		f.Targets = append(slices.Clip(f.Targets), t)
		if !slices.ContainsFunc(f.Resources, func(r rollout.Resource) bool { return r.ID == t.Resource }) {
			n := slices.IndexFunc(all.Resources, func(r rollout.Resource) bool { return r.ID == t.Resource })
			f.Resources = append(slices.Clip(f.Resources), all.Resources[n])
		}
	}
	w.Fleet, w.Start, w.Pure = f, k.at, true
	w.Changes = slices.DeleteFunc(slices.Clone(w.Changes), func(c rollouttest.Change) bool { return !later(c.At) })
	return w
}

// fromAtWork runs a world from the first plan at which a job was at work.
func fromAtWork(t *testing.T, w rollouttest.World) rollouttest.Timeline {
	t.Helper()
	_, plans, err := watched(w)
	if err != nil {
		t.Fatal(err)
	}
	busy := plans[slices.IndexFunc(plans, func(k known) bool { return k.doing("at work") })]
	timeline, err := busy.from(w).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return timeline
}

// doing reports whether a job is at work, or being verified.
func (k known) doing(what string) bool {
	return slices.ContainsFunc(k.fleet.Targets, func(t rollout.Target) bool {
		return slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool {
			if what == "at work" {
				return job.Status == rollout.JobInProgress
			}
			return job.Verification == rollout.VerificationRunning
		})
	})
}

// rest is what became of the jobs from an instant on, those left out that had begun by then.
func (k known) rest(t rollouttest.Timeline) []string {
	var rest []string
	there := map[string]bool{}
	for _, t := range k.fleet.Targets {
		there[t.Resource] = true
	}
	for _, e := range t.Entries {
		if !e.At.After(k.at) && !there[e.Resource] {
			continue // its job ended before it left
		}
		old := slices.ContainsFunc(k.fleet.Targets, func(t rollout.Target) bool {
			return slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool {
				return job.Run == e.Run && (e.Kind == rollouttest.Start || e.Kind == rollouttest.End && job.Status.Terminal() || job.Verification != "" && job.Verification != rollout.VerificationRunning)
			})
		})
		if e.Kind == rollouttest.Verify {
			e.Role, e.Group = "", "" // the execution may have ended, and then no state tells of it
		}
		if !old && (e.Kind == rollouttest.Start || e.Kind == rollouttest.End || e.Kind == rollouttest.Verify) {
			rest = append(rest, fmt.Sprintf("%s %s %s %s attempt %d: %s %s as %s in %s", e.At.Format(time.RFC3339), e.Kind, e.Run, e.Purpose, e.Attempt, e.Status, e.Note, e.Role, e.Group))
		}
	}
	slices.Sort(rest) // at one instant, jobs end in the order of their start, of which a fleet does not tell all
	return rest
}

// TestWorldGoesOn: a world that is begun again from what was known at any of its plans goes on as it
// did. The jobs that are at work then end when they would have.
func TestWorldGoesOn(t *testing.T) {
	t.Parallel()
	checks := webWorld(t, 4, rollback+`,{"id":"again","retry":{"maxRetries":2,"backoffSeconds":60}}`, version("web", "v3", at(1, 12, 0)))
	checked(&checks, map[string]rollout.Verification{"c-1": rollout.VerificationFailed, "c-2": rollout.VerificationRunning})
	checks.Job = func(job func(rollout.Start, int) rollouttest.Outcome) func(rollout.Start, int) rollouttest.Outcome {
		return func(start rollout.Start, attempt int) rollouttest.Outcome {
			if start.Resource == "c-3" && attempt < 3 {
				return rollouttest.Outcome{After: minutes(attempt), Status: rollout.JobFailure}
			}
			return job(start, attempt)
		}
	}(checks.Job)
	for _, row := range []struct {
		name string
		why  string
		w    rollouttest.World
	}{
		{"brackets", "executions go on with the members that are at work", rfcWorld(t, 4)},
		{"checks and attempts", "verifications go on, one of them hangs, and attempts are counted on", checks},
	} {
		whole, plans, err := watched(row.w)
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range plans {
			timeline, err := own.from(row.w).Run(t.Context())
			if err != nil {
				t.Fatalf("%s from %s: %v", row.name, own.at, err)
			}
			if diff := gocmp.Diff(own.rest(whole), own.rest(timeline)); diff != "" {
				t.Fatalf("%s: %s, but from %s (-whole +rest):\n%s", row.name, row.why, own.at, diff)
			}
			if !timeline.Finish.IsZero() && !timeline.Finish.Equal(whole.Finish) || timeline.Done != whole.Done || len(timeline.Running) != len(whole.Running) {
				t.Fatalf("%s from %s: done %t at %s with %q running, want %t at %s with %q", row.name, own.at, timeline.Done, timeline.Finish, timeline.Running, whole.Done, whole.Finish, whole.Running)
			}
		}
	}
}

// TestDrawnWorldsGoOn: so does every world that nobody thought of.
func TestDrawnWorldsGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, twice each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, world, accepted := d.governed(compiler, seen)
		if !accepted {
			return
		}
		whole, plans, err := watched(world)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		for _, doing := range []string{"at work", "being verified"} {
			if busy := slices.DeleteFunc(slices.Clone(plans), func(k known) bool { return !k.doing(doing) }); len(busy) > 0 && d.chance(50) {
				plans = busy
			}
		}
		own := rapid.SampledFrom(plans).Draw(t, "from")
		timeline, err := own.from(world).Run(context.Background())
		if err != nil {
			t.Fatalf("from %s: %v\n%s", own.at, err, text)
		}
		for _, doing := range []string{"at work", "being verified"} {
			if own.doing(doing) {
				seen[doing]++
			}
		}
		if slices.ContainsFunc(own.fleet.Freezes, func(z rollout.Freeze) bool { return z.ExpiresAt.IsZero() || z.ExpiresAt.After(own.at) }) {
			seen["frozen"]++
		}
		if diff := gocmp.Diff(own.rest(whole), own.rest(timeline)); diff != "" {
			t.Fatalf("from %s (-whole +rest):\n%s\n%s", own.at, diff, text)
		}
	}, "at work", "being verified", "frozen")
}

// atWork is a web world with one job on each cluster, begun ten minutes before its start.
func atWork(tb testing.TB, clusters int, edit func(*rollout.Job)) rollouttest.World {
	w := webWorld(tb, clusters, `{"id":"again","retry":{"maxRetries":0}}`)
	w.Start = at(1, 9, 10)
	for i := range w.Fleet.Targets {
		target := &w.Fleet.Targets[i]
		job := rollout.Job{Run: "v2 on " + target.Resource, Version: "v2", Status: rollout.JobInProgress, CreatedAt: at(1, 9, 0)}
		if edit(&job); job.Verification != "" {
			job.Status = rollout.JobSuccessful
		}
		target.Jobs = append(target.Jobs, job)
	}
	return w
}

// TestFoundJobs: how a job ends that the world has not started.
func TestFoundJobs(t *testing.T) {
	t.Parallel()
	running, passed := rollout.VerificationRunning, rollout.VerificationPassed
	ended := func(minute int, job *rollout.Job) {
		job.Verification, job.CompletedAt = running, at(1, 9, minute)
	}
	names := map[string]bool{}
	for _, row := range []struct {
		name, why string
		edit      func(*rollout.Job)
		outcome   rollouttest.Outcome
		finish    time.Time // zero: never
	}{
		{"half way", "it ends when it would have, had the world started it", func(*rollout.Job) {}, rollouttest.Outcome{After: minutes(12)}, at(1, 9, 12)},
		{"overdue", "what is due ends at the start, and not before", func(*rollout.Job) {}, rollouttest.Outcome{After: minutes(3)}, at(1, 9, 10)},
		{"queued", "it has an age like any other", func(job *rollout.Job) { job.Status = rollout.JobQueued }, rollouttest.Outcome{After: minutes(12)}, at(1, 9, 12)},
		{"pending", "it has an age like any other", func(job *rollout.Job) { job.Status = rollout.JobPending }, rollouttest.Outcome{After: minutes(12)}, at(1, 9, 12)},
		{"action required", "nobody has said that somebody acts", func(job *rollout.Job) { job.Status = rollout.JobActionRequired }, rollouttest.Outcome{After: minutes(12)}, time.Time{}},
		{"misspelt", "nobody knows what it is doing", func(job *rollout.Job) { job.Status = "runing" }, rollouttest.Outcome{After: minutes(12)}, time.Time{}},
		{"hangs", "so it does for the world's own jobs", func(*rollout.Job) {}, rollouttest.Outcome{Status: rollout.JobInProgress}, time.Time{}},
		{"without run", "a job that no plan started ends like others", func(job *rollout.Job) { job.Run = "" }, rollouttest.Outcome{After: minutes(12)}, at(1, 9, 12)},
		{"by hand", "what somebody calls a rollback is none", func(job *rollout.Job) { job.Run = "by hand/rollback" }, rollouttest.Outcome{After: minutes(12)}, at(1, 9, 12)},
		{"checks to come", "its checks follow its end", func(*rollout.Job) {}, rollouttest.Outcome{After: minutes(12), Verification: passed, VerifiedAfter: minutes(5)}, at(1, 9, 17)},
		{"in its checks", "their time counts from the end of the job", func(job *rollout.Job) { ended(8, job) }, rollouttest.Outcome{After: minutes(1), Verification: passed, VerifiedAfter: minutes(5)}, at(1, 9, 13)},
		{"checks overdue", "what is due ends at the start, and not before", func(job *rollout.Job) { ended(2, job) }, rollouttest.Outcome{Verification: passed, VerifiedAfter: minutes(5)}, at(1, 9, 10)},
		{"checks without end of the job", "the job ended when it was created", func(job *rollout.Job) { job.Verification = running }, rollouttest.Outcome{Verification: passed, VerifiedAfter: minutes(12)}, at(1, 9, 12)},
		{"checks without end of the job, in the words of some databases", "the year 0 is no end either", func(job *rollout.Job) {
			job.Verification, job.CompletedAt = running, time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
		}, rollouttest.Outcome{Verification: passed, VerifiedAfter: minutes(12)}, at(1, 9, 12)},
		{"checks without outcome", "Job tells no end", func(job *rollout.Job) { ended(8, job) }, rollouttest.Outcome{After: minutes(12)}, time.Time{}},
		{"checks hang", "Job tells no end", func(job *rollout.Job) { ended(8, job) }, rollouttest.Outcome{Verification: running}, time.Time{}},
	} {
		if row.why == "" || names[row.name] {
			t.Fatalf("%q has no reason or is there twice", row.name)
		}
		names[row.name] = true
		w := atWork(t, 1, row.edit)
		if jobs := w.Fleet.Targets[0].Jobs; jobs[1].Run == "" {
			jobs[0].Run = "" // it is told apart by its instant
		}
		asked := 0
		w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
			asked++
			if start.Version != "v2" || attempt != 1 || start.Purpose != rollout.PurposeDeploy {
				t.Errorf("%s: asked for attempt %d of %v", row.name, attempt, start)
			}
			return row.outcome
		}
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if waits := row.name == "action required" || row.name == "misspelt"; waits != (asked == 0) {
			t.Errorf("%s: asked %d times how it ends", row.name, asked)
		}
		if timeline.Done != !row.finish.IsZero() || timeline.Done && (!timeline.Finish.Equal(row.finish) || len(timeline.Running) > 0) {
			t.Errorf("%s: %s, but done %t at %s, running %q; want %s", row.name, row.why, timeline.Done, timeline.Finish, timeline.Running, row.finish)
		}
	}
}

// TestFoundJobsAreTold: the timeline tells what was at work at the start, and the chart draws it from
// there on: whether it ends, hangs, waits for somebody or has no run id, and not if it is being
// verified.
func TestFoundJobsAreTold(t *testing.T) {
	t.Parallel()
	w := atWork(t, 6, func(*rollout.Job) {})
	job := func(k int) *rollout.Job { return &w.Fleet.Targets[k].Jobs[1] }
	job(1).Status, job(2).Run = rollout.JobActionRequired, ""
	w.Fleet.Targets[2].Jobs[0].Run = ""
	job(3).Status, job(3).Verification, job(3).CompletedAt = rollout.JobSuccessful, rollout.VerificationRunning, at(1, 9, 8)
	job(4).CreatedAt = at(1, 9, 5)
	w.Fleet.Targets[4].Jobs = append(w.Fleet.Targets[4].Jobs, rollout.Job{Run: "earlier", Version: "v2", Status: rollout.JobFailure, CreatedAt: at(1, 9, 0), CompletedAt: at(1, 9, 2)})
	w.Fleet.Targets[5].Jobs = w.Fleet.Targets[5].Jobs[:1]
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Resource == "c-0" {
			return rollouttest.Outcome{Status: rollout.JobInProgress}
		}
		return rollouttest.Outcome{After: minutes(15), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(3)}
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const want = `2026-03-10
  09:10:00  c-2: web v2 is inProgress, since 2026-03-10 09:00:00
  09:10:00  c-0: web v2 is inProgress, since 2026-03-10 09:00:00
  09:10:00  c-1: web v2 is actionRequired, since 2026-03-10 09:00:00
  09:10:00  c-3: web v2 is successful, being verified since 2026-03-10 09:08:00
  09:10:00  c-4: web v2 is inProgress, attempt 2, since 2026-03-10 09:05:00
  09:10:00  c-5: start web v2
  09:11:00  c-3: verification of web v2: passed
  09:15:00  c-2: web v2 ended: successful, being verified
  09:18:00  c-2: verification of web v2: passed
  09:20:00  c-4: web v2 ended: successful, being verified
  09:23:00  c-4: verification of web v2: passed
  09:25:00  c-5: web v2 ended: successful, being verified
  09:28:00  c-5: verification of web v2: passed
not done, and nothing will happen any more
at most 5 resources in flight at once
still running: v2 on c-0, v2 on c-1

1m = 1 column, from 2026-03-10 09:10:00
w web  # several  - slot held
    +0s       +10m
c-2 wwwww.............
c-0 wwwwwwwwwwwwwwwwww
c-1 wwwwwwwwwwwwwwwwww
c-4 wwwwwwwwww........
c-5 wwwwwwwwwwwwwww...
`
	if diff := gocmp.Diff(want, timeline.String()+"\n\n"+timeline.Chart(time.Minute)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFoundMembersAreTold: of a member of a bracket, the state tells the role, and the slot is drawn
// as held between its jobs.
func TestFoundMembersAreTold(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 1)
	timeline := fromAtWork(t, w)
	first := timeline.Entries[0]
	if want := bracket.GroupID("Node Lifecycle/deploymentBracket/0", "prod", 1); first.Kind != rollouttest.Found || first.Role != bracket.Pre || first.Group != want || first.Attempt != 1 || first.Purpose != rollout.PurposeDeploy {
		t.Errorf("of the drain it says %+v", first)
	}
	for _, e := range timeline.Entries {
		if want := map[string]bracket.Role{drain: bracket.Pre, kubelet: bracket.Main, uncordon: bracket.Post}[e.Deployment]; e.Kind == rollouttest.End && want != "" && (e.Role != want || e.Group != first.Group) {
			t.Errorf("of the end of %s it says %+v", e.Deployment, e)
		}
	}
	if chart := timeline.Chart(time.Minute); !strings.HasSuffix(chart, "\nnode-0 ddddddddooo###u\n") {
		t.Errorf("it is drawn as\n%s", chart)
	}
}

// TestFoundExecutionGoesOn: a world begins with an execution that brings a version which has been
// deleted meanwhile. It is finished with that, and no promise is broken: the state says that it had
// begun.
func TestFoundExecutionGoesOn(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 1)
	_, plans, err := watched(w)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, own := range plans {
		if !own.at.Equal(at(2, 9, 11)) {
			continue // the kubelet starts then
		}
		rest := own.from(w)
		rest.Fleet.Versions = slices.DeleteFunc(slices.Clone(rest.Fleet.Versions), func(v rollout.Version) bool { return v.ID == "v1.29.2" })
		if timeline, err := rest.Run(t.Context()); err != nil || !timeline.Finish.Equal(at(2, 9, 15)) {
			t.Errorf("%v\n%v", err, timeline)
		}
		tried++
	}
	if tried == 0 {
		t.Error("no plan was made at that instant")
	}
}

// TestFoundJobFails: it is an attempt like others, and the next one is counted on.
func TestFoundJobFails(t *testing.T) {
	t.Parallel()
	w := atWork(t, 1, func(*rollout.Job) {})
	w.Policies = compiled(t, `{"name":"Web","selector":"true","rules":[{"id":"again","retry":{"maxRetries":1}}]}`)
	w.Fleet.Targets[0].Jobs[1].Run = "rollout/c-0/web/1/1/deploy" // not what the planner calls it: the group differs
	var asked []string
	w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
		asked = append(asked, fmt.Sprintf("%d of %s in %s", attempt, start.Purpose, cmp.Or(start.Group, "none")))
		status := rollout.JobFailure
		if start.Group != "rollout" {
			status = rollout.JobSuccessful
		}
		return rollouttest.Outcome{After: minutes(12), Status: status}
	}
	if timeline, err := w.Run(t.Context()); err != nil || !timeline.Done {
		t.Errorf("done %t, %v", timeline.Done, err)
	}
	if want := []string{"1 of deploy in rollout", "1 of deploy in "}; len(asked) != 2 || asked[0] != want[0] || !strings.HasPrefix(asked[1], want[1]) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	w.Job = func(rollout.Start, int) rollouttest.Outcome { return rollouttest.Outcome{After: -1} }
	if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "World.Job lets attempt 1 of web on c-0 end 1ns before it starts") {
		t.Errorf("an outcome that cannot be: %v", err)
	}
}

// TestAttemptsAreTold: of a found job its run id tells the group and the purpose, and attempts are
// counted for each of them. Of the world's own jobs the start tells, whatever the ids are.
func TestAttemptsAreTold(t *testing.T) {
	t.Parallel()
	w := atWork(t, 2, func(*rollout.Job) {})
	w.Policies = compiled(t, `{"name":"Web","selector":"true","rules":[{"id":"again","retry":{"maxRetries":9}},{"id":"undo","rollback":{"onJobStatuses":["failure"]}}]}`)
	for k, id := range []string{"c-0", "c-1"} {
		w.Fleet.Targets[k].Jobs[0].Run = id + "/prod/web/v1/1"
		w.Fleet.Targets[k].Jobs[1].Run = id + "/prod/web/v2/1"
	}
	back := &w.Fleet.Targets[1] // c-1 is on its way back
	back.Jobs[1].Status, back.Jobs[1].CompletedAt = rollout.JobFailure, at(1, 9, 5)
	back.Jobs = append(back.Jobs, rollout.Job{Run: "c-1/prod/web/v1/2/rollback", Version: "v1", Status: rollout.JobInProgress, CreatedAt: at(1, 9, 5)})
	var asked []string
	w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
		asked = append(asked, fmt.Sprintf("attempt %d to %s %s on %s in %s", attempt, start.Purpose, start.Version, start.Resource, start.Group))
		status := rollout.JobSuccessful
		if start.Purpose == rollout.PurposeDeploy {
			status = rollout.JobFailure
		}
		return rollouttest.Outcome{After: minutes(12), Status: status}
	}
	if _, err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"attempt 1 to deploy v2 on c-0 in target/prod/web", "attempt 1 to rollback v1 on c-1 in target/prod/web", "attempt 1 to rollback v1 on c-0 in target/prod/web",
	}
	if diff := gocmp.Diff(want, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	own := webWorld(t, 1, `{"id":"again","retry":{"maxRetries":2,"backoffSeconds":60}}`)
	starts := 0
	own.Plan = pure(own.Policies, func(p *rollout.Plan) {
		for k := range p.Start {
			starts++
			p.Start[k].Run = fmt.Sprint("job ", starts)
		}
	})
	asked = nil
	own.Job = w.Job
	if _, err := own.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = []string{"attempt 1 to deploy v2 on c-0 in target/prod/web", "attempt 2 to deploy v2 on c-0 in target/prod/web", "attempt 3 to deploy v2 on c-0 in target/prod/web"}
	if diff := gocmp.Diff(want, asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFoundAttemptsOfOneInstant: a clock tells only seconds, and many attempts fit into one. The
// tenth is told as the tenth, although the letters of its id come before those of the second.
func TestFoundAttemptsOfOneInstant(t *testing.T) {
	t.Parallel()
	w := atWork(t, 1, func(*rollout.Job) {})
	jobs := w.Fleet.Targets[0].Jobs[:1]
	for n := range 10 {
		jobs = append(jobs, rollout.Job{Run: fmt.Sprintf("c-0/prod/web/v2/%d", n+1), Version: "v2", Status: rollout.JobFailure, CreatedAt: at(1, 9, 0), CompletedAt: at(1, 9, 0)})
	}
	jobs[10].Status, jobs[10].CompletedAt = rollout.JobInProgress, time.Time{}
	w.Fleet.Targets[0].Jobs = jobs
	var asked []int
	w.Job = func(_ rollout.Start, attempt int) rollouttest.Outcome {
		asked = append(asked, attempt)
		return rollouttest.Outcome{After: minutes(12)}
	}
	if _, err := w.Run(t.Context()); err != nil || !slices.Equal(asked, []int{10}) {
		t.Errorf("asked for the attempts %v, %v", asked, err)
	}
}

// TestDrainsBeforeTheStart: a drain that the world has found serves the first upgrade, and is not
// saved; one whose upgrade was before the start, too, has nothing to do with those to come.
func TestDrainsBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 2)
	w.Policies = policyFile(t, "node-policy.json", withRules(`{"id":"again","retry":{"maxRetries":1}}`))
	for i := range w.Fleet.Targets { // what ran long before is of another group, and no drain or upgrade of this one
		target := &w.Fleet.Targets[i]
		target.Jobs = []rollout.Job{{Run: "set up " + target.String(), Version: target.Current, Status: rollout.JobSuccessful, CreatedAt: at(-20, 10, 0), CompletedAt: at(-20, 10, 1)}}
	}
	_, plans, err := watched(w)
	if err != nil {
		t.Fatal(err)
	}
	drained := map[[3]int]bool{}
	twice := false // a drain that was at work at the start failed, and the node was drained once more
	for _, own := range plans {
		for _, state := range []string{"known", "lost", "known, and what drains fails"} {
			rest := own.from(w)
			switch state {
			case "lost":
				rest.Fleet.State = rollout.State{}
			case "known, and what drains fails":
				rest.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
					outcome := w.Job(start, attempt)
					if start.Deployment == drain && attempt == 1 {
						outcome.Status = rollout.JobFailure
					}
					return outcome
				}
			}
			timeline, err := rest.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before, upgraded, upgrades := map[string]bool{}, map[string]bool{}, 0
			for _, target := range own.fleet.Targets {
				switch {
				case len(target.Jobs) == 1:
				case target.Deployment == drain:
					before[target.Resource] = true
				case target.Deployment != uncordon:
					upgraded[target.Resource] = true
				}
			}
			free, again := map[string]bool{}, map[string]bool{}
			for _, e := range timeline.Entries {
				switch {
				case e.Kind != rollouttest.Start:
				case e.Role == bracket.Pre:
					again[e.Resource] = true // which is among the drains of this world
					twice = twice || before[e.Resource]
				case e.Role == bracket.Main:
					upgrades++
					free[e.Resource] = before[e.Resource] && !upgraded[e.Resource] && !again[e.Resource]
				}
			}
			served := 0
			for _, yes := range free {
				if yes {
					served++
				}
			}
			if want := upgrades - served - timeline.Drains; timeline.DrainsSaved != want {
				t.Errorf("from %s, with the state %s: %d drains and %d upgrades, the first of %d behind a drain of before: %d saved, want %d", own.at, state, timeline.Drains, upgrades, served, timeline.DrainsSaved, want)
			}
			drained[[3]int{timeline.Drains, upgrades, served}] = true
		}
	}
	for _, want := range [][3]int{{2, 6, 0}, {1, 6, 1}, {1, 5, 0}, {0, 3, 1}} {
		if !drained[want] {
			t.Errorf("no world of %d drains, %d upgrades and %d drained before: %v", want[0], want[1], want[2], drained)
		}
	}
	if !twice {
		t.Error("no world has a node that was drained before and is drained again")
	}
}

// TestWhatWasBeforeTheStart: what the first plan finds out of the time before the start is told before
// what happened at the start.
func TestWhatWasBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 1)
	w.Fleet.Versions = w.Fleet.Versions[:5]
	w.Fleet.Targets[0].Jobs = []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobInProgress, CreatedAt: at(1, 7, 30)}}
	w.Changes = []rollouttest.Change{{At: at(1, 8, 0), What: "second", Do: func(*rollout.Snapshot) {}}, {At: at(1, 7, 0), What: "first", Do: func(*rollout.Snapshot) {}}}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k := 1; k < len(timeline.Entries); k++ {
		if timeline.Entries[k].At.Before(timeline.Entries[k-1].At) {
			t.Errorf("entry %d is not in order:\n%s", k, timeline)
		}
	}
	if first := timeline.Entries[0]; !first.At.Before(w.Start) || first.Kind == rollouttest.Found {
		t.Errorf("nothing was before the start:\n%s", timeline)
	}
}

// TestChangesEndJobs: what a change has ended stays so, whoever started it, and its end by World.Job
// does not come any more.
func TestChangesEndJobs(t *testing.T) {
	t.Parallel()
	w := atWork(t, 1, func(*rollout.Job) {})
	w.Job = rollouttest.Durations(map[string]time.Duration{"web": minutes(30)})
	kill := func(s *rollout.Snapshot) {
		job := &s.Targets[0].Jobs[len(s.Targets[0].Jobs)-1]
		job.Status, job.CompletedAt = rollout.JobFailure, at(1, 9, 20)
	}
	for _, whose := range []string{"found", "started"} {
		if whose == "started" {
			w.Fleet.Targets[0].Jobs = w.Fleet.Targets[0].Jobs[:1]
		}
		w.Changes = []rollouttest.Change{{At: at(1, 9, 20), What: "somebody kills it", Do: kill}}
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(timeline.Running) > 0 || len(timeline.Left) != 1 || timeline.Left[0].Blockers[0].Reason != rollout.ReasonRetryExhausted {
			t.Errorf("%s: runs %q, waits %v", whose, timeline.Running, timeline.Left)
		}
		if slices.ContainsFunc(timeline.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.End }) {
			t.Errorf("%s: it ends once more: %v", whose, timeline)
		}
	}
}

// TestChangesEndVerifications: so does what the checks found out by then.
func TestChangesEndVerifications(t *testing.T) {
	t.Parallel()
	w := atWork(t, 1, func(job *rollout.Job) { job.Verification = rollout.VerificationRunning })
	w.Policies = compiled(t, `{"name":"Web","selector":"true","rules":[`+rollback+`]}`)
	w.Job = func(rollout.Start, int) rollouttest.Outcome {
		return rollouttest.Outcome{After: minutes(3), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(30)}
	}
	w.Changes = []rollouttest.Change{{At: at(1, 9, 20), What: "it does not work", Do: func(s *rollout.Snapshot) {
		s.Targets[0].Jobs[1].Verification = rollout.VerificationFailed
	}}}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Verify && e.Version == "v2" {
			t.Errorf("its checks end once more: %v", timeline)
		}
	}
	if len(timeline.Running) > 0 || len(timeline.Left) != 1 || timeline.Left[0].Blockers[0].Reason != rollout.ReasonRollbackTriggered {
		t.Errorf("runs %q, waits %v", timeline.Running, timeline.Left)
	}
}

// TestChangesEndWhatHangs: what would not have ended by itself is over once a change has ended it, and
// the last of them is the end of the rollout.
func TestChangesEndWhatHangs(t *testing.T) {
	t.Parallel()
	hangs, unverified := rollouttest.Outcome{Status: rollout.JobInProgress}, rollouttest.Outcome{After: minutes(3), Verification: rollout.VerificationRunning}
	of := func(do func(*rollout.Job)) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { do(&s.Targets[0].Jobs[len(s.Targets[0].Jobs)-1]) }
	}
	succeeds := of(func(job *rollout.Job) { job.Status, job.CompletedAt = rollout.JobSuccessful, at(1, 9, 20) })
	passes := of(func(job *rollout.Job) { job.Verification = rollout.VerificationPassed })
	begins := of(func(job *rollout.Job) {
		job.Status, job.Verification, job.CompletedAt = rollout.JobSuccessful, rollout.VerificationRunning, at(1, 9, 20)
	})
	started, found := webWorld(t, 1, `{"id":"none","retry":{"maxRetries":0}}`), atWork(t, 1, func(*rollout.Job) {})
	nameless := atWork(t, 1, func(*rollout.Job) {})
	nameless.Fleet.Targets[0].Jobs[0].Run, nameless.Fleet.Targets[0].Jobs[1].Run = "", ""
	for _, row := range []struct {
		name, why string
		w         rollouttest.World
		outcome   rollouttest.Outcome
		every     time.Duration
		changes   []func(*rollout.Snapshot) // at 09:20, 09:21 …
		running   int
		finish    time.Time
	}{
		{"job", "it is not running any more", started, hangs, 0, []func(*rollout.Snapshot){succeeds}, 0, at(1, 9, 20)},
		{"found job", "nor is one of the fleet", found, hangs, 0, []func(*rollout.Snapshot){succeeds}, 0, at(1, 9, 20)},
		{"found job without run", "it is not taken for the one before it", nameless, hangs, 0, []func(*rollout.Snapshot){func(*rollout.Snapshot) {}, succeeds}, 0, at(1, 9, 21)},
		{"checks", "they are not running any more", started, unverified, 0, []func(*rollout.Snapshot){passes}, 0, at(1, 9, 20)},
		{"before its time", "there was something to do", started, rollouttest.Outcome{After: time.Hour}, 0, []func(*rollout.Snapshot){succeeds}, 0, at(1, 9, 20)},
		{"before its time, with checks", "a change has begun checks of which nobody tells the end", started, rollouttest.Outcome{After: time.Hour}, 0, []func(*rollout.Snapshot){begins}, 1, time.Time{}},
		{"seen late", "it ended when the change came", started, hangs, time.Hour, []func(*rollout.Snapshot){succeeds, func(*rollout.Snapshot) {}}, 0, at(1, 9, 20)},
		{"another change", "it ends nothing", started, hangs, 0, []func(*rollout.Snapshot){func(*rollout.Snapshot) {}}, 1, time.Time{}},
	} {
		w := row.w
		w.Every, w.Changes = row.every, nil
		w.Job = func(rollout.Start, int) rollouttest.Outcome { return row.outcome }
		for k, do := range row.changes {
			w.Changes = append(w.Changes, rollouttest.Change{At: at(1, 9, 20+k), What: "somebody acts", Do: do})
		}
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if len(timeline.Running) != row.running || timeline.Done != (row.running == 0) || !timeline.Finish.Equal(row.finish) {
			t.Errorf("%s: %s, but done %t at %v, and %q runs", row.name, row.why, timeline.Done, timeline.Finish, timeline.Running)
		}
	}
}

// TestTargetsLeaveWithTheirJobs: what runs on a target that leaves is not reported any more, whoever
// started it, so that nothing is left running, and nothing has ended.
func TestTargetsLeaveWithTheirJobs(t *testing.T) {
	t.Parallel()
	started, found := webWorld(t, 1, `{"id":"none","retry":{"maxRetries":0}}`), atWork(t, 1, func(*rollout.Job) {})
	nothing := func(*rollout.Snapshot) {}
	var away []rollout.Target
	for _, row := range []struct {
		why    string
		w      rollouttest.World
		change func(*rollout.Snapshot)
		next   func(*rollout.Snapshot) // at the same instant
		done   bool
	}{
		{"the target of a job that the world has started", started, func(s *rollout.Snapshot) { s.Targets = nil }, nothing, true},
		{"of one that it has found", found, func(s *rollout.Snapshot) { s.Targets = nil }, nothing, true},
		{"the target stays, and comes without the jobs that it had", found, func(s *rollout.Snapshot) { s.Targets[0].Current, s.Targets[0].Jobs = "v2", nil }, nothing, true},
		{"another change", started, nothing, nothing, false},
		{"who leaves and comes back in one instant was never seen to be away", started, func(s *rollout.Snapshot) { away, s.Targets = s.Targets, nil }, func(s *rollout.Snapshot) { s.Targets = away }, false},
	} {
		w := row.w
		w.Job = func(rollout.Start, int) rollouttest.Outcome {
			return rollouttest.Outcome{Status: rollout.JobInProgress}
		}
		w.Changes = []rollouttest.Change{{At: at(1, 9, 20), What: "a node leaves", Do: row.change}, {At: at(1, 9, 20), Do: row.next}}
		timeline, err := w.Run(t.Context())
		if err != nil || timeline.Done != row.done || len(timeline.Running) == 0 != row.done || !timeline.Finish.IsZero() {
			t.Errorf("%s: %v, done %t at %v, and %q runs", row.why, err, timeline.Done, timeline.Finish, timeline.Running)
		}
	}
}

// TestChangesEndJobsBeforeTheStart: a job of the fleet that a change ends before the start of the world
// does not end the rollout before it has begun.
func TestChangesEndJobsBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := atWork(t, 1, func(*rollout.Job) {})
	w.Changes = []rollouttest.Change{{At: at(1, 9, 5), Do: func(s *rollout.Snapshot) {
		job := &s.Targets[0].Jobs[len(s.Targets[0].Jobs)-1]
		job.Status, job.CompletedAt = rollout.JobSuccessful, at(1, 9, 5)
	}}}
	timeline, err := w.Run(t.Context())
	if err != nil || !timeline.Done || !timeline.Finish.Equal(w.Start) {
		t.Errorf("done %t at %v, and the start is at %v: %v", timeline.Done, timeline.Finish, w.Start, err)
	}
	forecast, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{}, 1, 1)
	if err != nil || !forecast.Trials[0].Finish.Equal(w.Start) {
		t.Errorf("a forecast: %v, %v", forecast, err)
	}
}

// TestForecastOfFoundJobs: what has taken long already is drawn from what took longer.
func TestForecastOfFoundJobs(t *testing.T) {
	t.Parallel()
	short, long, hung := rollouttest.Outcome{After: minutes(3)}, rollouttest.Outcome{After: minutes(30)}, rollouttest.Outcome{Status: rollout.JobInProgress}
	exact := rollouttest.Outcome{After: minutes(10)}
	passes := func(m int) rollouttest.Outcome {
		return rollouttest.Outcome{After: minutes(1), Verification: rollout.VerificationPassed, VerifiedAfter: minutes(m)}
	}
	checks := func(job *rollout.Job) {
		job.Verification, job.CompletedAt = rollout.VerificationRunning, at(1, 9, 5)
	}
	work := func(*rollout.Job) {}
	names := map[string]bool{}
	for _, row := range []struct {
		name, why string
		edit      func(*rollout.Job)
		samples   []rollouttest.Outcome
		finish    time.Time // of every trial; zero: never done
		overdue   bool
	}{
		{"longer", "samples that the job has outlived say nothing", work, []rollouttest.Outcome{short, long, short, exact}, at(1, 9, 30), false},
		{"all shorter", "the longest counts, and the job is overdue", work, []rollouttest.Outcome{short, {After: minutes(5)}}, at(1, 9, 10), true},
		{"the shorter ones failed", "the outcome is that of the longest too", work, []rollouttest.Outcome{{After: minutes(3), Status: rollout.JobFailure}, {After: minutes(5)}}, at(1, 9, 10), true},
		{"exactly as old", "it is due now", work, []rollouttest.Outcome{short, exact}, at(1, 9, 10), true},
		{"only hung ones are longer", "what no job that ended took, is taken by one that hangs", work, []rollouttest.Outcome{short, hung}, time.Time{}, false},
		{"no samples", "World.Job says", work, nil, at(1, 9, 10), false},
		{"checks", "the age of the checks counts", checks, []rollouttest.Outcome{passes(2), passes(12), long}, at(1, 9, 17), false},
		{"checks overdue", "the longest counts", checks, []rollouttest.Outcome{passes(2), passes(4)}, at(1, 9, 10), true},
		{"checks that no sample had", "nobody knows when they end", checks, []rollouttest.Outcome{short, long}, time.Time{}, false},
		{"checks without samples", "World.Job says nothing of checks", checks, nil, time.Time{}, false},
		{"checks that hang", "they outlast all", checks, []rollouttest.Outcome{passes(2), {Verification: rollout.VerificationRunning}}, time.Time{}, false},
	} {
		if row.why == "" || names[row.name] {
			t.Fatalf("%q has no reason or is there twice", row.name)
		}
		names[row.name] = true
		p, err := rollouttest.Forecast(t.Context(), atWork(t, 2, row.edit), rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{"web": row.samples}}, 8, 1)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		for _, trial := range p.Trials {
			if trial.Done != !row.finish.IsZero() || trial.Done && !trial.Finish.Equal(row.finish) || trial.Hanging != !trial.Done {
				t.Errorf("%s: %s, but done %t at %s, want %s", row.name, row.why, trial.Done, trial.Finish, row.finish)
				break
			}
		}
		var want []string
		if row.overdue {
			want = []string{"v2 on c-0", "v2 on c-1"}
		}
		if says := strings.Contains(p.String(), "longer in progress than any sample, and taken to end at once: v2 on c-0, v2 on c-1"); !slices.Equal(p.Overdue, want) || says != row.overdue {
			t.Errorf("%s: %s, but overdue are %q:\n%v", row.name, row.why, p.Overdue, p)
		}
	}
}

// TestForecastOfFoundJobsIsSeeded: the same seed draws the same, whatever the order of the fleet,
// and what remains of the samples is drawn evenly.
func TestForecastOfFoundJobsIsSeeded(t *testing.T) {
	t.Parallel()
	w := atWork(t, 3, func(*rollout.Job) {})
	samples := map[string][]rollouttest.Outcome{"web": {{After: minutes(1)}, {After: minutes(20)}, {After: minutes(40)}}}
	first, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 400, 7)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(w.Fleet.Targets)
	second, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 400, 7)
	if diff := gocmp.Diff(first, second); err != nil || diff != "" {
		t.Errorf("%v, backwards:\n%s", err, diff)
	}
	// Three jobs of which each takes 20 or 40 minutes are over after 20 in one trial of eight.
	if share := first.DoneBy(at(1, 9, 20)); share < 0.08 || share > 0.17 || first.DoneBy(at(1, 9, 40)) != 1 {
		t.Errorf("%v are done after 20 minutes, %v after 40", share, first.DoneBy(at(1, 9, 40)))
	}
}
