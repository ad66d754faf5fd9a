package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestStateLost loses the state, or goes back to an older one, while the jobs are still known.
func TestStateLost(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	// run lets every job succeed after a minute until one of a version has started on a deployment,
	// and returns the states that were saved.
	run := func(s *rollout.Snapshot, now *time.Time, until string) (saved []rollout.State) {
		for range 50 {
			plan := mustPlan(t, set, *s, *now)
			carryOut(t, s, plan, *now, rollout.JobInProgress)
			saved = append(saved, s.State)
			if until != "" && slices.Contains(started(plan), until) {
				return saved
			}
			*now = now.Add(time.Minute)
			for k := range s.Targets {
				for j := range s.Targets[k].Jobs {
					if job := &s.Targets[k].Jobs[j]; !job.Status.Terminal() {
						job.Status, job.CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, *now, job.Version
					}
				}
			}
		}
		return saved
	}
	ran := func(s rollout.Snapshot, from time.Time) string {
		var jobs []rollout.Job
		for _, target := range s.Targets {
			for _, job := range target.Jobs {
				if job.Run += " " + job.Version; !job.CreatedAt.Before(from) && target.Resource == "r1" {
					jobs = append(jobs, job)
				}
			}
		}
		slices.SortFunc(jobs, func(a, b rollout.Job) int { return a.CreatedAt.Compare(b.CreatedAt) })
		var list []string
		for _, job := range jobs {
			list = append(list, strings.TrimPrefix(job.Run, "B%2Fprod%2F"))
		}
		return strings.Join(list, ", ")
	}
	for _, row := range []struct {
		why   string
		first string // starts before the state goes
		then  string // another version is released once all is done, and this starts before the state goes; none: it goes first
		lose  func(saved []rollout.State) rollout.State
		want  string // runs on r1 from then on
	}{
		{"it is lost while the node is being drained: the execution goes on", "r1/drain@v1", "", func([]rollout.State) rollout.State { return rollout.State{} },
			"1/r1/drain/1/1/deploy v1, 1/r1/a/1/1/deploy v2, 1/r1/uncordon/1/1/deploy v1"},
		{"while the drained node is upgraded: it is not drained twice, and gets back into use", "r1/a@v2", "", func([]rollout.State) rollout.State { return rollout.State{} },
			"1/r1/a/1/1/deploy v2, 1/r1/uncordon/1/1/deploy v1"},
		{"in a later group: what ran under the number that comes first is of another one, and what ran under the last is its own", "r1/uncordon@v1", "r1/drain@v1",
			func([]rollout.State) rollout.State { return rollout.State{} }, "2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
		{"when only the uncordon was left of a later group", "r1/uncordon@v1", "r1/uncordon@v1",
			func([]rollout.State) rollout.State { return rollout.State{} }, "2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
		{"before the release of another version: what was done long ago is no run of its group, which takes a number that nobody had", "r1/uncordon@v1", "none",
			func([]rollout.State) rollout.State { return rollout.State{} }, "2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
		{"a backup from before the group: it is closed once more, and goes on", "r1/uncordon@v1", "r1/a@v3", func(saved []rollout.State) rollout.State { return saved[0] },
			"2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
	} {
		s, now := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}, "uncordon": {"v1"}}), t0
		saved, from := run(&s, &now, row.first), now
		if row.then != "" {
			run(&s, &now, "")
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: now})
			saved, from = []rollout.State{s.State}, now
			if row.then != "none" {
				run(&s, &now, row.then)
			}
		}
		s.State = row.lose(saved)
		run(&s, &now, "")
		if got := ran(s, from); got != row.want {
			t.Errorf("%s: ran %s", row.why, got)
		}
	}
}

// TestStateLostBetweenAttempts: outside brackets the jobs do not tell that a resource keeps its slot
// while it backs off or is being verified; an active job does.
func TestStateLostBetweenAttempts(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},{"retry":{"maxRetries":1,"backoffSeconds":600}}`))
	for _, row := range []struct {
		why  string
		job  rollout.Job
		lost bool
	}{
		{"in progress", rollout.Job{Status: rollout.JobInProgress}, false},
		{"between two attempts", rollout.Job{Status: rollout.JobFailure, CompletedAt: minute(1)}, true},
		{"being verified", rollout.Job{Status: rollout.JobSuccessful, CompletedAt: minute(1), Verification: rollout.VerificationRunning}, true},
	} {
		s := fleet(2, "", map[string][]string{"a": {"v1"}})
		first := mustPlan(t, set, s, t0)
		s.State = mustCommit(t, first, t0)
		row.job.Run, row.job.Version, row.job.CreatedAt = first.Start[0].Run, "v1", t0
		for k := range s.Targets {
			if s.Targets[k].TargetID == first.Start[0].TargetID {
				s.Targets[k].Jobs = []rollout.Job{row.job}
			}
		}
		if plan := mustPlan(t, set, s, minute(2)); len(plan.Start) != 0 {
			t.Errorf("%s: starts %v beside the slot that is held", row.why, plan.Start)
		}
		s.State = rollout.State{}
		if plan := mustPlan(t, set, s, minute(2)); (len(plan.Start) != 0) != row.lost {
			t.Errorf("%s: without the state it starts %v", row.why, plan.Start)
		}
	}
}

// TestStateLostInTwoEnvironments: the environment that is asked first does not begin anything on a
// node on which an execution of the other one is found again: it could not be committed.
func TestStateLostInTwoEnvironments(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}}), "staging")
	prod := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "prod" && t.Deployment == "a" })
	s.Targets[prod].Current = "v2"
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.State, s.Targets[prod].Current = rollout.State{}, "v1"
	plan := mustPlan(t, set, s, minute(1))
	if got := blockers(plan); len(plan.Start) > 0 || !slices.Contains(got, "r1/a@v2: bracket_queued") || !slices.Contains(got, "r1/a@v2: bracket_waits_for_members") {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}

// TestStateRestoredInTwoEnvironments: a backup has an execution of one environment open that has
// ended since, and the jobs say that another environment has begun on the node after it. Who is
// asked in between offers nothing there: it could not be committed.
func TestStateRestoredInTwoEnvironments(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), "staging")
	s.Targets[0].Current = "v2" // in prod
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	backup := s.State
	job := &s.Targets[1].Jobs[0]
	job.Status, job.CompletedAt, s.Targets[1].Current = rollout.JobSuccessful, minute(1), "v2"
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(2)})
	plan := mustPlan(t, set, s, minute(2))
	if len(plan.Start) != 1 || plan.Start[0].Environment != "prod" {
		t.Fatalf("%v start", plan.Start)
	}
	carryOut(t, &s, plan, minute(2), rollout.JobInProgress)
	s.State = backup
	plan = mustPlan(t, set, s, minute(3))
	if _, err := plan.Commit(plan.Start, minute(3)); err != nil || len(plan.Start) > 0 {
		t.Errorf("%q start: %v", started(plan), err)
	}
}

// TestStateLostBeforeALaterGroup: the state is lost while a second group is at work, of which the
// release has been dated anew, so that only the first one closes again. Its execution is over,
// although the jobs of one member are forgotten: that member is not given the first group's version
// after the second one's.
func TestStateLostBeforeALaterGroup(t *testing.T) {
	t.Parallel()
	for _, backup := range []bool{false, true} { // all is lost, or what came after the close of the first group
		set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1200}}`))
		s := fleet(3, "", map[string][]string{"a": {"v1"}, "d": {"v1"}})
		if backup {
			s.State = mustPlan(t, set, s, minute(20)).State
		}
		s.Versions = append(s.Versions, rollout.Version{ID: "v2", Tag: "v2", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(46)})
		work := func(resource, deployment string, current string, job rollout.Job) {
			for i := range s.Targets {
				if target := &s.Targets[i]; target.Resource == resource && target.Deployment == deployment {
					target.Current, target.Jobs = current, []rollout.Job{job}
				}
			}
		}
		done := rollout.Job{Run: "B%2Fprod%2F1/r1/d/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(20), CompletedAt: minute(21)}
		later := rollout.Job{Run: "B%2Fprod%2F2/r1/a/1/1/deploy", Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(45)}
		work("r1", "d", "v1", done)
		work("r1", "a", "", later)
		done.Run, later.Run = "B%2Fprod%2F1/r3/d/1/1/deploy", "B%2Fprod%2F2/r3/a/1/1/deploy"
		work("r3", "d", "v1", done)
		work("r3", "a", "", later)
		done.Run, later.Run = "B%2Fprod%2F1/r2/d/1/1/deploy", "B%2Fprod%2F2/r1/a/1/1/deploy"
		work("r2", "d", "v1", done) // here nothing is later: the execution goes on
		if backup {                 // and its runs are known
			done.Status, done.CompletedAt = rollout.JobInProgress, time.Time{}
			work("r2", "d", "", done)
		}
		plan := mustPlan(t, set, s, minute(47))
		if got := started(plan); !slices.Equal(got, []string{"r2/a@v1"}) {
			t.Errorf("backup %v: starts %q, waits %q", backup, got, blockers(plan))
		}
		for _, record := range plan.State.Executions {
			if record.Open != nil && record.Resource != "r2" {
				t.Errorf("backup %v: an execution is open again on %s", backup, record.Resource)
			}
		}
		carryOut(t, &s, plan, minute(47), rollout.JobInProgress)
		later.Status, later.CompletedAt = rollout.JobSuccessful, minute(48)
		work("r1", "a", "v2", later)
		later.Run = "B%2Fprod%2F2/r3/a/1/1/deploy"
		work("r3", "a", "v2", later)
		plan = mustPlan(t, set, s, minute(48))
		if got := started(plan); len(got) > 0 {
			t.Errorf("backup %v: after the job of the second group: starts %q", backup, got)
		}
	}
}

// TestStateRestoredBeforeALaterGroup: a backup has an execution of the first group open, which has
// ended since, and a second group has been at work there. What the jobs of the first one say ends
// the execution: none of its versions is deployed after the second one's.
func TestStateRestoredBeforeALaterGroup(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	end := func(at time.Time) {
		target := &s.Targets[0]
		job := &target.Jobs[len(target.Jobs)-1]
		job.Status, job.CompletedAt, target.Current = rollout.JobSuccessful, at, job.Version
	}
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	backup := s.State
	end(minute(1))
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(2)})
	plan := mustPlan(t, set, s, minute(2))
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v3"}) {
		t.Fatalf("starts %q", got)
	}
	carryOut(t, &s, plan, minute(2), rollout.JobInProgress)
	end(minute(3))
	s.State = backup
	for k := range 3 {
		plan = mustPlan(t, set, s, minute(4+k))
		if s.State = plan.State; len(plan.Start) > 0 {
			t.Errorf("starts %q", started(plan))
		}
	}
	for _, record := range s.State.Executions {
		if record.Open != nil {
			t.Errorf("the execution of %s is open", record.Open.Group)
		}
	}
}

// TestStateRestoredBeforeTwoLaterGroups: a backup has an execution of the first group open and the
// second one waiting. Both have ended since, the second one with a failure that an operator
// resolved, and a third one is at work. What failed is not open again when the first one ends:
// nobody would end it.
func TestStateRestoredBeforeTwoLaterGroups(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":600,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	release := func(id string, at int) {
		s.Versions = append(s.Versions, rollout.Version{ID: id, Tag: id, Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(at)})
	}
	carryOut(t, &s, mustPlan(t, set, s, minute(10)), minute(10), rollout.JobInProgress)
	release("v3", 11)
	s.State = mustPlan(t, set, s, minute(21)).State
	release("v4", 46) // dated anew: its group has not closed yet
	x := &s.Targets[0]
	x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, minute(22), "v2"
	x.Jobs = append(x.Jobs,
		rollout.Job{Run: "B%2Fprod%2F2/r1/a/1/1/deploy", Version: "v3", Status: rollout.JobFailure, CreatedAt: minute(23), CompletedAt: minute(24)},
		rollout.Job{Run: "B%2Fprod%2F3/r1/a/1/1/deploy", Version: "v4", Status: rollout.JobInProgress, CreatedAt: minute(45)})
	plan := mustPlan(t, set, s, minute(47))
	if open := plan.State.Executions[0].Open; len(plan.Start) > 0 || open != nil {
		t.Errorf("starts %q, waits %q, open is %+v", started(plan), blockers(plan), open)
	}
}

// TestStateRestoredBeforeAMerge: a backup has an execution open into which a second group was merged
// later, and a job of that is at work. If the group that closes now is the same one, it goes on. If
// it brings a third version, its run does not get the id of that job, for the version would be taken
// for deployed. It waits for the end of the job, and the node is restored after it.
func TestStateRestoredBeforeAMerge(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,
		"memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'undrain'"}}}`))
	for _, last := range []string{"v3", "v4"} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}, "undrain": {"v1"}})
		release := func(id string, at int) {
			s.Versions = append(s.Versions, rollout.Version{ID: id, Tag: id, Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(at)})
		}
		var runs []string
		work := func(at int, well bool) { // the jobs at work succeed, and what the plan says starts
			for i := range s.Targets {
				x := &s.Targets[i]
				for k := range x.Jobs {
					if job := &x.Jobs[k]; well && !job.Status.Terminal() {
						job.Status, job.CompletedAt, x.Current = rollout.JobSuccessful, minute(at), job.Version
					}
				}
			}
			plan := mustPlan(t, set, s, minute(at))
			carryOut(t, &s, plan, minute(at), rollout.JobInProgress)
			for _, start := range plan.Start {
				runs = append(runs, start.Deployment+"@"+start.Version+" "+start.Run)
			}
		}
		work(0, true) // drain
		work(1, true) // v2
		backup := s.State
		release("v3", 2)
		work(2, false) // is merged
		work(3, true)
		if got := runs[len(runs)-1]; got != "a@v3 B%2Fprod%2F1/r1/a/2/1/deploy" {
			t.Fatalf("starts %q", got)
		}
		s.State = backup
		if last != "v3" {
			release(last, 4)
		}
		for at := 4; at < 12; at++ {
			work(at, at > 4)
		}
		want := []string{"drain@v1 B%2Fprod%2F1/r1/drain/1/1/deploy", "a@v2 B%2Fprod%2F1/r1/a/1/1/deploy", "a@v3 B%2Fprod%2F1/r1/a/2/1/deploy"}
		if last == "v3" {
			want = append(want, "undrain@v1 B%2Fprod%2F1/r1/undrain/2/1/deploy")
		} else {
			want = append(want, "a@v4 B%2Fprod%2F1/r1/a/3/1/deploy", "undrain@v1 B%2Fprod%2F1/r1/undrain/3/1/deploy")
		}
		if !slices.Equal(runs, want) {
			t.Errorf("%s: starts %q, want %q", last, runs, want)
		}
	}
}

// TestStateRestoredWhileCollecting: a backup has a group that still collects. Its number has been
// used by now, for another version, so it closes under one that nobody had, and no job of the other
// is taken for one of its own.
func TestStateRestoredWhileCollecting(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":600,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.State = mustPlan(t, set, s, t0).State
	s.Targets[0].Jobs = []rollout.Job{{Run: "B%2Fprod%2F1/r1/a/1/1/deploy", Version: "v0", Status: rollout.JobFailure, CreatedAt: minute(11), CompletedAt: minute(12)}}
	if plan := mustPlan(t, set, s, minute(20)); !slices.Equal(started(plan), []string{"r1/a@v2"}) || plan.Start[0].Group != "B/prod/2" {
		t.Errorf("starts %+v", plan.Start)
	}
}

// TestStateLostAfterALaterGroup: the group that closes first once the state is lost has still
// something to do where a later one has been at work. Its run ids are used there, so it is not
// taken for the one that had them: it would be given runs that ended long ago, and main members
// without their drain.
func TestStateLostAfterALaterGroup(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}})
	drain := &s.Targets[slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Deployment == "drain" })]
	drain.Jobs = []rollout.Job{
		{Run: "B%2Fprod%2F1/r1/drain/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(1), CompletedAt: minute(2)},
		{Run: "B%2Fprod%2F2/r1/drain/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(5), CompletedAt: minute(6)},
	}
	plan := mustPlan(t, set, s, minute(10))
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) || plan.Start[0].Run != "B%2Fprod%2F2/r1/a/1/1/deploy" {
		t.Errorf("the last group is drained already: %q start, %q wait", got, blockers(plan))
	}
	drain.Jobs[1].CreatedAt = t0.Add(-time.Minute) // of a group that cannot have been this one
	plan = mustPlan(t, set, s, minute(10))
	if got := started(plan); !slices.Equal(got, []string{"r1/drain@v1"}) || plan.Start[0].Run != "B%2Fprod%2F3/r1/drain/1/1/deploy" {
		t.Errorf("it takes a number that nobody had: %q start, %q wait", got, blockers(plan))
	}
}

// TestRunsOfALostGroup: the state is lost and a job says that it is of the first group. If it may
// be what the group that closes now has dispatched that goes on under this number; otherwise it was
// another one, and this takes a number that nobody had. Jobs by hand of which the id is a number,
// or has one that no group could follow, are of no group.
func TestRunsOfALostGroup(t *testing.T) {
	t.Parallel()
	const redeploy = `,"unchangedMemberStrategy":"redeploy_current"`
	const deploy, rollback = "/1/1/deploy", "/1/1/rollback"
	for _, row := range []struct {
		why     string
		bracket string // more of the rule
		window  bool   // it is collecting still
		group   string // number
		of      string // deployment
		run     string
		version string
		created int
		want    string // the number of the group that closes
		found   bool   // the execution on r1 is open since the job was created
	}{
		{why: "a version that it has locked: its execution has been open since then", group: "1", of: "a", run: deploy, version: "v2", created: 3, want: "1", found: true},
		{why: "another one", group: "1", of: "a", run: deploy, version: "v1", want: "2"},
		{why: "before it closed", group: "1", of: "a", run: deploy, version: "v2", created: -1, want: "2"},
		{why: "a way back", group: "1", of: "a", run: rollback, version: "v1", want: "1"},
		{why: "a main without a new version runs the current one again", bracket: redeploy, group: "1", of: "b", run: deploy, version: "v1", want: "1"},
		{why: "but no other one", bracket: redeploy, group: "1", of: "b", run: deploy, version: "v9", want: "2"},
		{why: "nor if it is left out", group: "1", of: "b", run: deploy, version: "v1", want: "2"},
		{why: "a hook runs what it has by then", group: "1", of: "drain", run: deploy, version: "v2", want: "1"},
		{why: "who is no member: nobody asks", group: "1", of: "c", run: deploy, version: "v1", want: "1"},
		{why: "while the group collects nobody asks", window: true, group: "1", of: "a", run: deploy, version: "v1", want: "1"},
		{why: "a later group has been there", group: "2", of: "a", run: deploy, version: "v2", want: "1"},
		{why: "an id that is none of its runs", group: "one", of: "a", run: deploy, version: "v1", want: "1"},
	} {
		set := compile(t, policy(`{"versionSelector":{"selector":"!(deployment.name == 'b' && version.tag == 'v1')"}},{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name != 'c'","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}`+row.bracket+`}}`))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v0", "v1"}, "c": {"v1"}, "drain": {"v1"}})
		add(&s, rollout.Start{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"}},
			rollout.Job{Run: "7", Version: "v1", Status: rollout.JobCancelled, CreatedAt: minute(-60), CompletedAt: minute(-60)})
		for _, number := range []string{"9999999999999999999999", "2147483647"} {
			add(&s, rollout.Start{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "b"}},
				rollout.Job{Run: "B%2Fprod%2F" + number + "/x", Version: "v1", Status: rollout.JobCancelled, CreatedAt: minute(-60), CompletedAt: minute(-60)})
		}
		add(&s, rollout.Start{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: row.of}},
			rollout.Job{Run: "B%2Fprod%2F" + row.group + "/r1/" + row.of + row.run, Version: row.version, Status: rollout.JobInProgress, CreatedAt: minute(row.created)})
		if row.window {
			set = compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name != 'c'","readinessWindowSeconds":3600,"memberRoles":{}}}`))
		}
		plan := mustPlan(t, set, s, minute(10))
		if row.found && !slices.ContainsFunc(plan.Events, func(e rollout.Event) bool {
			return e.Kind == bracket.ExecutionStarted && e.Resource == "r1" && e.At.Equal(minute(row.created))
		}) {
			t.Errorf("%s: %+v", row.why, plan.Events)
		}
		record := plan.State.Brackets[0]
		var got string
		if row.window {
			got = record.Collecting.ID
		} else {
			got = record.Closed[len(record.Closed)-1].ID
		}
		if got != "B/prod/"+row.want {
			t.Errorf("%s: group %s", row.why, got)
		}
	}
}

// TestStateLostAfterARedeployment: a bracket runs again what has no new version, and the state is
// lost before its last run. What was run again tells that the group is the same, so nothing is
// drained twice. Of what is current only the jobs tell.
func TestStateLostAfterARedeployment(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":0,"unchangedMemberStrategy":"redeploy_current","memberRoles":{"pre":"deployment.name == 'drain'"}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`))
	s, now := fleet(1, "", map[string][]string{"a": {"v1"}, "b": {"v1", "v2"}, "drain": {"v1"}}), t0
	s.Versions[0].Status = rollout.VersionPaused // the group does not lock the version of a
	for k := range s.Targets {
		s.Targets[k].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: now.Add(-time.Hour)}}
	}
	for k, want := range []string{"B%2Fprod%2F1/r1/drain/1/1/deploy", "B%2Fprod%2F1/r1/a/1/1/deploy", "B%2Fprod%2F1/r1/b/1/1/deploy"} {
		if k == 2 {
			s.State = rollout.State{}
		}
		plan := mustPlan(t, set, s, now)
		if len(plan.Start) != 1 || plan.Start[0].Run != want {
			t.Fatalf("starts %v, want %s", plan.Start, want)
		}
		carryOut(t, &s, plan, now, rollout.JobSuccessful)
		now = now.Add(time.Minute)
	}
}

// TestStateLostAfterTheNextRelease: a version is released while the last hook of a group is still
// to run, and then the state is lost. The group that closes is that of the release: the hook, which
// ran after it, is not its own, for what ran before it is not.
func TestStateLostAfterTheNextRelease(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"post":"deployment.name == 'uncordon'"}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "uncordon": {"v1"}})
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(2)})
	s.Targets[0].Current = "v2"
	s.Targets[0].Jobs = []rollout.Job{{Run: "B%2Fprod%2F1/r1/a/1/1/deploy", Version: "v2", Status: rollout.JobSuccessful, CreatedAt: t0, CompletedAt: minute(1)}}
	s.Targets[1].Jobs = []rollout.Job{{Run: "B%2Fprod%2F1/r1/uncordon/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(3), CompletedAt: minute(4)}}
	plan := mustPlan(t, set, s, minute(5))
	if len(plan.Start) != 1 || plan.Start[0].Run != "B%2Fprod%2F2/r1/a/1/1/deploy" {
		t.Errorf("starts %+v, waits %q", plan.Start, blockers(plan))
	}
}

// TestGroupLostAndAMemberHasLeft: the record of the groups alone is lost, and a deployment is no
// member any more. What is open goes on as it was frozen, with that deployment, and the group that
// closes is another one.
func TestGroupLostAndAMemberHasLeft(t *testing.T) {
	t.Parallel()
	rules := func(members string) *rollout.PolicySet {
		return compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"`+members+`","readinessMode":"immediate","memberRoles":{}}},
			{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`))
	}
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, rules("true"), s, t0), t0, rollout.JobSuccessful)
	carryOut(t, &s, mustPlan(t, rules("true"), s, minute(1)), minute(1), rollout.JobFailure)
	s.State.Brackets = nil
	for stays, want := range map[string][]string{
		"a": {"r1/a@v3: bracket_queued", "r1/b@v2: bracket_failed_holding", "r2/a@v3: bracket_queued", "r2/b@v2: bracket_failed_holding"},
		"b": {"r1/b@v2: bracket_failed_holding", "r2/b@v2: bracket_failed_holding"},
	} {
		s := cloneFleet(s)
		if stays == "a" { // which has v2
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(2)})
		}
		plan := mustPlan(t, rules("deployment.name == '"+stays+"'"), s, minute(2))
		if got := blockers(plan); len(plan.Start) > 0 || !slices.Equal(got, want) {
			t.Errorf("%s stays: starts %q, waits %q", stays, started(plan), got)
		}
		if got := plan.State.Brackets[0].Number; got != 2 {
			t.Errorf("%s stays: the group that closes has number %d", stays, got)
		}
	}
}

// TestStateLostInOneEnvironment: the group that closes again takes another number, and what is open
// in the other environment of the rule stays as it is.
func TestStateLostInOneEnvironment(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}), "test")
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return (t.Resource == "r2") != (t.Environment == "test") })
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.State.Brackets = slices.DeleteFunc(slices.Clone(s.State.Brackets), func(r *bracket.GroupRecord) bool { return r.Environment == "prod" })
	s.State.Executions = slices.DeleteFunc(slices.Clone(s.State.Executions), func(r *bracket.ExecutionRecord) bool { return r.Resource == "r1" })
	k := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r1" })
	s.Targets[k].Jobs = []rollout.Job{{Run: "B%2Fprod%2F1/r1/a/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-30), CompletedAt: minute(-29)}}
	plan := mustPlan(t, set, s, minute(1))
	if len(plan.Start) != 1 || plan.Start[0].Group != "B/prod/2" {
		t.Fatalf("%+v start", plan.Start)
	}
	if at := slices.IndexFunc(plan.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Resource == "r2" }); at < 0 || plan.State.Executions[at].Open == nil {
		t.Errorf("open is %+v", plan.State.Executions)
	}
}

// TestStateLostAndOutdated: a target that was outdated has had its run since, in a group or without
// one. It does not need another when the state is lost.
func TestStateLostAndOutdated(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1"}})
	s.Targets[0].OutdatedAt = minute(1)
	for _, row := range []struct {
		why  string
		jobs []rollout.Job
		want []string
	}{
		{"it has not run since", nil, []string{"r1/a@v1"}},
		{"it failed", []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobFailure, CreatedAt: minute(1)}}, []string{"r1/a@v1"}},
		{"what succeeded began before", []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}}, []string{"r1/a@v1"}},
		{"it did outside brackets", []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(1)}}, nil},
		{"it did in two groups, of which the state has gone", []rollout.Job{
			{Run: "B%2Fprod%2F2/r1/a/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(3)},
			{Run: "B%2Fprod%2F1/r1/a/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(1)},
		}, nil},
	} {
		s.Targets[0].Jobs = row.jobs
		if plan := mustPlan(t, set, s, minute(10)); !slices.Equal(started(plan), row.want) {
			t.Errorf("%s: %q start, %q wait", row.why, started(plan), blockers(plan))
		}
	}
}

// TestPlannedAgain: what a plan finds out on the way is in that very plan: once it is saved, the
// next one at the same instant says the same and is looked at no sooner.
func TestPlannedAgain(t *testing.T) {
	t.Parallel()
	window := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":600,"memberRoles":{}}}`))
	immediate := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	succeed := func(s *rollout.Snapshot, k int, at time.Time) {
		job := &s.Targets[k].Jobs[0]
		job.Status, job.CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, at, job.Version
	}
	for _, row := range []struct {
		why  string
		set  *rollout.PolicySet
		play func(s *rollout.Snapshot) (now time.Time)
		want func(p rollout.Plan) bool
	}{
		{"a target is another one by now, and the execution that it was in ends in this plan", window, func(s *rollout.Snapshot) time.Time {
			x := &s.Targets[1]
			x.Current = "v2"
			carryOut(t, s, mustPlan(t, window, *s, minute(10)), minute(10), rollout.JobInProgress)
			succeed(s, 0, minute(11))
			x.Current, x.Jobs, x.JoinedAt = "", nil, minute(12)
			return minute(12)
		}, func(p rollout.Plan) bool { return p.Next.Equal(minute(22)) }},
		{"it is the first one that is asked", window, func(s *rollout.Snapshot) time.Time {
			x := &s.Targets[0]
			x.Current = "v2"
			carryOut(t, s, mustPlan(t, window, *s, minute(10)), minute(10), rollout.JobInProgress)
			succeed(s, 1, minute(11))
			x.Current, x.Jobs, x.JoinedAt = "", nil, minute(12)
			return minute(12)
		}, func(p rollout.Plan) bool { return p.Next.Equal(minute(22)) }},
		{"the record of an execution is lost, and its job is no longer in the way of the next group but its own", immediate, func(s *rollout.Snapshot) time.Time {
			carryOut(t, s, mustPlan(t, immediate, *s, minute(0)), minute(0), rollout.JobInProgress)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
			s.State.Executions = nil
			return minute(2)
		}, func(p rollout.Plan) bool {
			return !slices.ContainsFunc(blockers(p), func(b string) bool { return strings.Contains(b, "target_busy") })
		}},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		now := row.play(&s)
		plan := mustPlan(t, row.set, s, now)
		s.State = plan.State
		again := mustPlan(t, row.set, s, now)
		if !row.want(plan) || !slices.Equal(blockers(plan), blockers(again)) || !slices.Equal(started(plan), started(again)) || !plan.Next.Equal(again.Next) {
			t.Errorf("%s: starts %q, waits %q, until %v; and then %q, %q, %v", row.why, started(plan), blockers(plan), plan.Next, started(again), blockers(again), again.Next)
		}
	}
}

// TestRolloutOfAGroupThatIsGivenUp: a backup has a group that still collects, whose first version
// is gone by now. It closes, and a second one after it; but a job says that the first number has been
// another group's. So one group is found instead, with the number of the second and another end: its
// turns count from that, not from the end of the group that has been given up.
func TestRolloutOfAGroupThatIsGivenUp(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":3600,"memberRoles":{}}},
		{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	s := fleet(2, "v0", map[string][]string{"a": {"v0", "v1", "v2", "v3"}})
	for k, at := range []int{-60, 0, 50, 70} { // the window of v1 is over before v3 comes, that of v2 is not
		s.Versions[k].CreatedAt = minute(at)
	}
	early := s
	early.Versions = s.Versions[:2]
	s.State = mustPlan(t, set, early, t0).State
	s.Versions[1].Status = "withdrawn"
	add(&s, rollout.Start{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}},
		rollout.Job{Run: "B%2Fprod%2F1/r1/a/1/1/deploy", Version: "v0", Status: rollout.JobFailure, CreatedAt: minute(1), CompletedAt: minute(2)})
	plan := mustPlan(t, set, s, minute(200))
	groups := plan.State.Brackets[0].Closed
	last := groups[len(groups)-1]
	if last.ID != "B/prod/2" || !last.ReadyAt.Equal(minute(110)) {
		t.Fatalf("the last group is %s, ready at %v: this tests nothing", last.ID, last.ReadyAt)
	}
	for _, record := range plan.State.Rollouts {
		if record.Group != last.ID || !record.StartAt.Equal(last.ReadyAt) {
			t.Errorf("the rollout of %s starts at %v, and %s was ready at %v", record.Group, record.StartAt, last.ID, last.ReadyAt)
		}
	}
	// While the second window of the group that is given up is open, nothing waits for its end.
	if plan := mustPlan(t, set, s, minute(125)); len(plan.Start) != 2 || !plan.Next.IsZero() {
		t.Errorf("starts %q, and wakes the host at %v", started(plan), plan.Next)
	}
}

// TestWindowAfterAGroupThatIsGivenUp: a window that is open closes before the next turn comes, which
// moves that turn. The host is woken for it although the decision that asked for the windows first has
// been given up, by a late plan as well as by one that finds runs of another group.
func TestWindowAfterAGroupThatIsGivenUp(t *testing.T) {
	t.Parallel()
	const rest = `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":24000}},
		{"id":"W","deploymentWindow":{"allowWindow":false,"from":"2025-01-01T03:30:00Z","until":"2025-01-01T14:00:00Z"}}`
	late := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	late.Resources[1].Metadata = map[string]string{"cluster": "west"}
	late.Targets[0].Current = "v2"
	late.Versions[2].CreatedAt = minute(10)
	late.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(40)}}
	found := fleet(2, "v0", map[string][]string{"api": {"v0", "v1"}})
	add(&found, rollout.Start{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}},
		rollout.Job{Run: "b%2Fprod%2F1/r1/api/1/1/deploy", Version: "v0", Status: rollout.JobFailure, CreatedAt: minute(1), CompletedAt: minute(2)})
	for _, row := range []struct {
		why, policies string
		s             rollout.Snapshot
	}{
		{"group 1 closed before v2 came into scope for both", `[{"name":"all","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + rest + `]},
			{"name":"west","selector":"resource.metadata['cluster'] == 'west'","rules":[{"anyApproval":{"minApprovals":1}}]}]`, late},
		{"another group had the number", policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + rest), found},
	} {
		set := compile(t, row.policies)
		plan := mustPlan(t, set, row.s, minute(60))
		again := row.s
		again.State = plan.State
		next := mustPlan(t, set, again, minute(60)).Next
		if plan.Waiting.Len() == 0 || !next.Equal(minute(210)) {
			t.Errorf("%s: the plan after it wakes the host at %v: this tests nothing\n%v", row.why, next, plan)
		}
		if !plan.Next.Equal(next) {
			t.Errorf("%s: next %v, and the plan after it %v", row.why, plan.Next, next)
		}
	}
}

// TestUnknownRunBesideAGroupThatIsFound: the runs of a bracket are looked at once more when a lost
// group is found. A job of a group that is open, with a run id that is none, is counted once all
// the same.
func TestUnknownRunBesideAGroupThatIsFound(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(2, "v0", map[string][]string{"a": {"v0", "v1", "v2"}})
	s.Versions[2].CreatedAt = minute(10)
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	r1 := &s.Targets[0]
	r1.Current, r1.Jobs[0].Status, r1.Jobs[0].CompletedAt = "v1", rollout.JobSuccessful, minute(1)
	s.State = mustPlan(t, set, s, minute(2)).State // on r2 group 1 is open
	for _, run := range []string{"B%2Fprod%2F1/another/a/1/1/deploy", "B%2Fprod%2F2/r1/a/1/1/deploy"} {
		add(&s, rollout.Start{TargetID: r1.TargetID}, rollout.Job{Run: run, Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(11), CompletedAt: minute(12)})
	}
	for _, when := range []string{"in the plan that finds group 2", "in the next one"} {
		plan := mustPlan(t, set, s, minute(20))
		if list := plan.Diagnostics; len(list) != 1 || list[0].Code != rollout.DiagnosticUnknownRun || list[0].Count != 1 || len(plan.State.Brackets[0].Closed) != 2 {
			t.Errorf("%s: %v\n%v", when, list, plan)
		}
		s.State = plan.State
	}
}
