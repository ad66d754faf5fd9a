package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// budget is a policy of one failure budget, and of what else it says.
func budget(fields string, more ...string) string {
	return policy(`{"id":"L","failureBudget":{` + fields + `}}` + strings.Join(more, ""))
}

// tried is a fleet of one deployment that runs v1 and gets v2. The first targets have jobs.
func tried(targets int, jobs ...[]rollout.Job) rollout.Snapshot {
	s := fleet(targets, "v1", map[string][]string{"api": {"v1", "v2"}})
	for k := range jobs {
		s.Targets[k].Jobs = jobs[k]
	}
	return s
}

// lasting is a job that ended some minutes after t0, as it began.
func lasting(version string, status rollout.JobStatus, from, until int) rollout.Job {
	return rollout.Job{Version: version, Status: status, CreatedAt: minute(from), CompletedAt: minute(until)}
}

// TestFailureBudget: which failures hold a version back from those that have not begun it.
func TestFailureBudget(t *testing.T) {
	const ok, failure = rollout.JobSuccessful, rollout.JobFailure
	failed := []rollout.Job{ran("v2", failure, 1)}
	bad := []rollout.Job{verified(ran("v2", ok, 1), "failed")}
	after := func(first rollout.Job, jobs ...rollout.Job) []rollout.Job {
		return append([]rollout.Job{first}, jobs...)
	}
	back := ran("v2", failure, 1)
	back.Run = "r1/prod/api/v2/1/rollback"
	for _, row := range []struct {
		why, fields string
		jobs        [][]rollout.Job
		targets     int
		want        string // failed and allowed; empty: the others start
	}{
		{"nobody has failed", `"maxFailures":0`, nil, 3, ""},
		{"none may", `"maxFailures":0`, [][]rollout.Job{failed}, 3, "1 of 0 r1"},
		{"as many as may", `"maxFailures":2`, [][]rollout.Job{failed, failed}, 4, ""},
		{"one more", `"maxFailures":2`, [][]rollout.Job{failed, failed, failed}, 4, "3 of 2 r1 r2 r3"},
		{"a target counts once, however often it failed", `"maxFailures":1`, [][]rollout.Job{{ran("v2", failure, 1), ran("v2", failure, 3), ran("v2", failure, 5)}}, 3, ""},
		{"a percentage is of all targets", `"maxFailures":"50%"`, [][]rollout.Job{failed, failed}, 4, ""},
		{"and is exceeded", `"maxFailures":"49%"`, [][]rollout.Job{failed, failed}, 4, "2 of 1 r1 r2"},
		{"and rounded down", `"maxFailures":"10%"`, [][]rollout.Job{failed}, 9, "1 of 0 r1"},
		{"of ten it is one", `"maxFailures":"10%"`, [][]rollout.Job{failed}, 10, ""},
		{"all may fail", `"maxFailures":"100%"`, [][]rollout.Job{failed, failed}, 3, ""},
		{"a later success makes up for it", `"maxFailures":0`, [][]rollout.Job{after(ran("v2", ok, 5), failed...)}, 3, ""},
		{"an earlier one does not", `"maxFailures":0`, [][]rollout.Job{after(ran("v2", ok, 0), failed...)}, 3, "1 of 0 r1"},
		{"the next attempt does not, before it has succeeded", `"maxFailures":0`, [][]rollout.Job{after(rollout.Job{Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(5)}, failed...)}, 3, "1 of 0 r1"},
		{"nor does one that was called off", `"maxFailures":0`, [][]rollout.Job{after(ran("v2", rollout.JobCancelled, 5), failed...)}, 3, "1 of 0 r1"},
		{"nor the success of another version", `"maxFailures":0`, [][]rollout.Job{after(ran("v1", ok, 5), failed...)}, 3, "1 of 0 r1"},
		{"what another version did is no failure of this one", `"maxFailures":0`, [][]rollout.Job{{ran("v1", failure, 1)}}, 3, ""},
		{"a version that nobody lists has no failures", `"maxFailures":0`, [][]rollout.Job{{ran("v0", failure, 1)}}, 3, ""},
		{"what was called off or left out is no failure", `"maxFailures":0`, [][]rollout.Job{{ran("v2", rollout.JobCancelled, 1)}, {ran("v2", rollout.JobSkipped, 1)}}, 3, ""},
		{"every other end is", `"maxFailures":2`, [][]rollout.Job{{ran("v2", rollout.JobInvalidAgent, 1)}, {ran("v2", rollout.JobInvalidIntegration, 1)}, {ran("v2", rollout.JobExternalRunNotFound, 1)}}, 4, "3 of 2 r1 r2 r3"},
		{"a job that is active has not failed", `"maxFailures":0`, [][]rollout.Job{{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(1)}}}, 3, ""},
		{"statuses may be named", `"maxFailures":0,"onJobStatuses":["cancelled"]`, [][]rollout.Job{{ran("v2", rollout.JobCancelled, 1)}}, 3, "1 of 0 r1"},
		{"and then only they count", `"maxFailures":0,"onJobStatuses":["cancelled"]`, [][]rollout.Job{failed}, 3, ""},
		{"the way back to a version says nothing about it", `"maxFailures":0`, [][]rollout.Job{{back}}, 3, ""},
		{"a verification is not asked", `"maxFailures":0`, [][]rollout.Job{bad}, 3, ""},
		{"nor one that runs: the success makes up for the failure before it", `"maxFailures":0`, [][]rollout.Job{after(verified(ran("v2", ok, 5), "running"), failed...)}, 3, ""},
		{"a job that is active has not failed, whatever is said of it", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{{{Version: "v2", Status: rollout.JobInProgress, Verification: "failed", CreatedAt: minute(1)}}}, 3, ""},
		{"unless it counts", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{bad}, 3, "1 of 0 r1"},
		{"one that runs has not failed", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{{verified(ran("v2", ok, 1), "running")}}, 3, ""},
		{"and has not passed: the failure before it stands", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{after(verified(ran("v2", ok, 5), "running"), failed...)}, 3, "1 of 0 r1"},
		{"it makes up for it once it has passed", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{after(verified(ran("v2", ok, 5), "passed"), failed...)}, 3, ""},
		{"or is not verified at all", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{after(ran("v2", ok, 5), failed...)}, 3, ""},
		{"jobs that failed count besides", `"maxFailures":0,"onVerificationFailure":true`, [][]rollout.Job{failed}, 3, "1 of 0 r1"},
		{"a job that ends later has not failed yet", `"maxFailures":0`, [][]rollout.Job{{ran("v2", failure, 61)}}, 3, ""},
		{"nor has one made up for it that ends later", `"maxFailures":0`, [][]rollout.Job{after(ran("v2", ok, 61), failed...)}, 3, "1 of 0 r1"},
		{"a rate is of those on which the version has come to an end", `"maxFailureRate":"50%","minimumSample":3`, [][]rollout.Job{failed, failed, {ran("v2", ok, 1)}}, 5, "2 of 1 in 3 r1 r2"},
		{"as many as the rate allows", `"maxFailureRate":"50%","minimumSample":2`, [][]rollout.Job{failed, {ran("v2", ok, 1)}}, 5, ""},
		{"it is rounded down", `"maxFailureRate":"66%","minimumSample":3`, [][]rollout.Job{failed, failed, {ran("v2", ok, 1)}}, 5, "2 of 1 in 3 r1 r2"},
		{"and does not count before the sample is there", `"maxFailureRate":"0%","minimumSample":3`, [][]rollout.Job{failed, failed}, 5, ""},
		{"what is still at work is not in the sample", `"maxFailureRate":"0%","minimumSample":3`, [][]rollout.Job{failed, failed, {{Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(1)}}}, 5, ""},
		{"nor is what another version did", `"maxFailureRate":"0%","minimumSample":3`, [][]rollout.Job{failed, failed, {ran("v1", ok, 1)}}, 5, ""},
		{"nor what was called off", `"maxFailureRate":"0%","minimumSample":3`, [][]rollout.Job{failed, failed, {ran("v2", rollout.JobCancelled, 1)}}, 5, ""},
		{"a target is in the sample once, with what came of it last", `"maxFailureRate":"49%","minimumSample":2`, [][]rollout.Job{after(ran("v2", ok, 9), ran("v2", failure, 1), ran("v2", ok, 0)), failed}, 4, "1 of 0 in 2 r2"},
		{"what succeeds later is not in it yet", `"maxFailureRate":"50%","minimumSample":1`, [][]rollout.Job{failed, {ran("v2", ok, 61)}}, 4, "1 of 0 in 1 r1"},
		{"a success that is being verified is not, where that counts", `"maxFailureRate":"0%","minimumSample":2,"onVerificationFailure":true`, [][]rollout.Job{failed, {verified(ran("v2", ok, 1), "running")}}, 4, ""},
		{"none may fail of a sample of one", `"maxFailureRate":"0%","minimumSample":1`, [][]rollout.Job{failed}, 3, "1 of 0 in 1 r1"},
		{"all of a sample may", `"maxFailureRate":"100%","minimumSample":1`, [][]rollout.Job{failed, failed}, 3, ""},
		{"beside a number the rate may hold first", `"maxFailures":2,"maxFailureRate":"50%","minimumSample":2`, [][]rollout.Job{failed, failed}, 4, "2 of 1 in 2 r1 r2"},
		{"where both allow as many, the number is told", `"maxFailures":1,"maxFailureRate":"50%","minimumSample":2`, [][]rollout.Job{failed, failed}, 4, "2 of 1 r1 r2"},
		{"and the number", `"maxFailures":1,"maxFailureRate":"90%","minimumSample":10`, [][]rollout.Job{failed, failed}, 4, "2 of 1 r1 r2"},
		{"what allows fewer is told", `"maxFailures":0,"maxFailureRate":"50%","minimumSample":2`, [][]rollout.Job{failed, failed, {ran("v2", ok, 1)}}, 4, "2 of 0 r1 r2"},
		{"both are exceeded, and the rate allows fewer", `"maxFailures":1,"maxFailureRate":"0%","minimumSample":2`, [][]rollout.Job{failed, failed}, 4, "2 of 0 in 2 r1 r2"},
		{"a success stands whatever ends later of what was begun before it", `"maxFailures":0`, [][]rollout.Job{after(ran("v2", ok, 10), lasting("v2", failure, 5, 80), failed[0])}, 3, ""},
		{"the end is included", `"maxFailures":0`, [][]rollout.Job{{ran("v2", failure, 60)}}, 3, "1 of 0 r1"},
	} {
		s := tried(row.targets, row.jobs...)
		plan := mustPlan(t, compile(t, budget(row.fields)), s, minute(60))
		got := ""
		for _, wait := range waitingOf(plan) {
			k := slices.IndexFunc(wait.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonFailureBudget })
			if k < 0 {
				continue
			}
			data := wait.Blockers[k].Data
			of := ""
			if data.Detail != "" {
				of = " in " + data.Detail
			}
			if own := fmt.Sprintf("%d of %d%s %s", data.Attempt, data.Allowed, of, strings.Join(data.Names, " ")); got == "" || got == own {
				got = own
			} else {
				t.Errorf("%s: %s is told %s, others %s", row.why, wait.Resource, own, got)
			}
		}
		var want []string
		for k := len(row.jobs); k < row.targets && row.want == ""; k++ {
			want = append(want, fmt.Sprintf("r%d/api@v2", k+1))
		}
		var begin []string // what has begun is not held
		for _, start := range plan.Start {
			if k := slices.IndexFunc(s.Targets, func(o rollout.Target) bool { return o.TargetID == start.TargetID }); len(s.Targets[k].Jobs) == 0 {
				begin = append(begin, start.Resource+"/api@"+start.Version)
			}
		}
		if slices.Sort(want); got != row.want || !slices.Equal(sorted(begin), want) {
			t.Errorf("%s: waits %q, want %q; %q start, want %q", row.why, got, row.want, begin, want)
		}
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestFailureBudgetChanges: what ends the wait, and what does not.
func TestFailureBudgetChanges(t *testing.T) {
	failed := []rollout.Job{ran("v2", rollout.JobFailure, 1)}
	type change = func(*rollout.Snapshot)
	for _, row := range []struct {
		why, policy string
		change      change
		want        []string // what starts
	}{
		{"nothing", budget(`"maxFailures":0`), nil, nil},
		{"whoever has begun is tried again", budget(`"maxFailures":0`, `,{"retry":{"maxRetries":3}}`), nil, []string{"r1/api@v2"}},
		{"the fix has a budget of its own", budget(`"maxFailures":0`), func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(30)})
		}, []string{"r1/api@v3", "r2/api@v3", "r3/api@v3"}},
		{"an override", budget(`"maxFailures":0`), func(s *rollout.Snapshot) { s.Overrides = []rollout.Override{override("L")} }, []string{"r2/api@v2", "r3/api@v2"}},
		{"an override of one resource", budget(`"maxFailures":0`), func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{override("L", func(o *rollout.Override) { o.Resource = "r3" })}
		}, []string{"r3/api@v2"}},
		{"a newer version that is held gives way to the one before", policy(`{"id":"L","failureBudget":{"maxFailures":0}},{"versionSelector":{"selector":"true"}}`), func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(30)})
			s.Targets[0].Jobs = []rollout.Job{ran("v3", rollout.JobFailure, 31)}
		}, []string{"r2/api@v2", "r3/api@v2"}},
		{"a failed target that the rule does not govern", strings.Replace(budget(`"maxFailures":0`), `"true"`, `"resource.id != 'r1'"`, 1), nil, []string{"r2/api@v2", "r3/api@v2"}},
		{"a failed target that is not in scope any more", budget(`"maxFailures":0`), func(s *rollout.Snapshot) {
			s.Versions[1].TargetSelector = "resource.id != 'r1'"
		}, []string{"r2/api@v2", "r3/api@v2"}},
		{"a failed job of a version that nobody lists, beside scoped ones", budget(`"maxFailures":0`), func(s *rollout.Snapshot) {
			s.Versions[1].TargetSelector, s.Targets[0].Jobs = "true", []rollout.Job{ran("v0", rollout.JobFailure, 1)}
		}, []string{"r1/api@v2", "r2/api@v2", "r3/api@v2"}},
		{"the first version of all", budget(`"maxFailures":0`), func(s *rollout.Snapshot) {
			s.Versions = s.Versions[:1]
			for k := range s.Targets {
				s.Targets[k].Current = ""
			}
			s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobFailure, 1)}
		}, nil},
		{"of three targets in scope one may fail", budget(`"maxFailures":"34%"`), func(s *rollout.Snapshot) { s.Versions[1].TargetSelector = "resource.id != 'r3'" }, nil}, // 34% of two are none
		{"one with another job that failed", budget(`"maxFailures":1`), func(s *rollout.Snapshot) { s.Targets[1].Jobs = failed }, nil},
	} {
		s := tried(3, failed)
		if row.change != nil {
			row.change(&s)
		}
		plan := mustPlan(t, compile(t, row.policy), s, minute(60))
		if got := sorted(started(plan)); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q start, want %q; wait %q", row.why, got, row.want, blockers(plan))
		}
	}
}

// TestFailureBudgetCountsThoseThatAreThere: a percentage is of the targets that there are by now, so
// one that leaves may hold the others. One that joins, and has not failed, never does.
func TestFailureBudgetCountsThoseThatAreThere(t *testing.T) {
	set := compile(t, budget(`"maxFailures":"10%"`))
	for _, row := range []struct{ targets, start int }{{9, 0}, {10, 9}, {11, 10}} {
		if got := started(mustPlan(t, set, tried(row.targets, []rollout.Job{ran("v2", rollout.JobFailure, 1)}), minute(60))); len(got) != row.start {
			t.Errorf("of %d targets %q start, want %d", row.targets, got, row.start)
		}
	}
}

// TestFailureBudgetAfterSelectors: blockers are in the order of the rules, also where a selector that
// reads the resource is asked for each target, after the gate.
func TestFailureBudgetAfterSelectors(t *testing.T) {
	for _, selector := range []string{"version.tag == 'none'", "resource.id == 'none'"} {
		set := compile(t, budget(`"maxFailures":0`, `,{"id":"S","versionSelector":{"selector":"`+selector+`"}},{"anyApproval":{"minApprovals":1}}`))
		plan := mustPlan(t, set, tried(2, []rollout.Job{ran("v2", rollout.JobFailure, 1)}), minute(60))
		if got, want := blockers(plan), "r2/api@v2: selector_no_match failure_budget_exceeded approval_missing"; !slices.Contains(got, want) {
			t.Errorf("%s: %q, want among them %s", selector, got, want)
		}
	}
}

// TestFailureBudgetOfEnvironments: each environment has its budget, or all of them have one.
func TestFailureBudgetOfEnvironments(t *testing.T) {
	for _, row := range []struct {
		why, fields string
		failed      []string
		want        []string // where it goes on
		on          string   // the environment whose jobs can change it
	}{
		{"each its own", `"maxFailures":0`, []string{"staging0"}, []string{"prod0", "qa0"}, "staging"},
		{"one for all", `"maxFailures":0,"anyEnvironment":true`, []string{"staging0"}, nil, ""},
		{"two failures, each in an environment", `"maxFailures":1`, []string{"staging0", "qa0"}, []string{"prod0", "staging1"}, ""},
		{"two failures are two for all", `"maxFailures":1,"anyEnvironment":true`, []string{"staging0", "qa0"}, nil, ""},
		{"a third of four targets is one", `"maxFailures":"34%","anyEnvironment":true`, []string{"staging0"}, []string{"prod0", "qa0", "staging1"}, ""},
		{"a third of two targets is none", `"maxFailures":"34%"`, []string{"staging0"}, []string{"prod0", "qa0"}, "staging"},
	} {
		s := staged(times(2), times(1))
		for k := range s.Targets {
			if slices.Contains(row.failed, s.Targets[k].Resource) {
				s.Targets[k].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, 1)}
			}
		}
		plan := mustPlan(t, compile(t, budget(row.fields)), s, minute(60))
		var got []string
		for _, start := range plan.Start {
			got = append(got, start.Resource)
		}
		if !slices.Equal(sorted(got), row.want) {
			t.Errorf("%s: goes on at %q, want %q; %q wait", row.why, got, row.want, blockers(plan))
		}
		for _, wait := range waitingOf(plan) {
			for _, b := range wait.Blockers {
				if want := (rollout.Condition{Kind: rollout.OnJob, Environment: row.on, Deployment: "api", Version: "v2"}); b.Reason == rollout.ReasonFailureBudget && !slices.Contains(b.On, want) {
					t.Errorf("%s: waits on %+v, want among them %+v", row.why, b.On, want)
				}
			}
		}
	}
}

// TestFailureBudgetNamesResources: in order, and each once, wherever it failed.
func TestFailureBudgetNamesResources(t *testing.T) {
	s := inEnvironments(fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}), "dev")
	for k := range s.Targets {
		if target := &s.Targets[k]; target.Resource == "r2" || target.Resource == "r1" && target.Environment == "prod" {
			target.Jobs = []rollout.Job{ran("v2", rollout.JobFailure, 1)}
		}
	}
	plan := mustPlan(t, compile(t, budget(`"maxFailures":1,"anyEnvironment":true`)), s, minute(60))
	for _, wait := range waitingOf(plan) {
		if wait.Resource == "r3" && !strings.HasPrefix(wait.Blockers[0].String(), "failure_budget_exceeded (3 targets failed, 1 may: r1, r2), waits for ") {
			t.Errorf("%s: %s", wait.Environment, wait.Blockers[0])
		}
	}
	if len(plan.Start) > 0 {
		t.Errorf("%q start", started(plan))
	}
}

// TestFailureBudgetWakes: a job whose end is recorded for later counts from then on, and the host is
// woken for that. Nothing else about a budget is a matter of time.
func TestFailureBudgetWakes(t *testing.T) {
	set := compile(t, budget(`"maxFailures":0`))
	held := started(mustPlan(t, set, tried(2, []rollout.Job{ran("v2", rollout.JobFailure, 70)}), minute(70)))
	if len(held) > 0 {
		t.Errorf("%q start once it has failed", held)
	}
	for _, row := range []struct {
		why  string
		jobs []rollout.Job
		next int // minutes after t0; 0: never
		more []rollout.Job
	}{
		{"it fails later", []rollout.Job{ran("v2", rollout.JobFailure, 70)}, 70, nil},
		{"it makes up for a failure later", []rollout.Job{ran("v2", rollout.JobSuccessful, 80), ran("v2", rollout.JobFailure, 1)}, 80, nil},
		{"it has failed", []rollout.Job{ran("v2", rollout.JobFailure, 1)}, 0, nil},
		{"the first of several", []rollout.Job{ran("v2", rollout.JobSuccessful, 90), ran("v2", rollout.JobSuccessful, 80), ran("v2", rollout.JobFailure, 1)}, 80, nil},
		{"there is nothing to make up for", []rollout.Job{ran("v2", rollout.JobSuccessful, 80)}, 0, nil},
		{"no target asks for the version that fails later", []rollout.Job{ran("v1", rollout.JobFailure, 70)}, 0, nil},
		{"nor is there where it was another version that failed", []rollout.Job{ran("v2", rollout.JobSuccessful, 80), ran("v1", rollout.JobFailure, 1)}, 0, nil},
		{"it fails later, and elsewhere it has failed twice", []rollout.Job{ran("v2", rollout.JobFailure, 70)}, 70, []rollout.Job{ran("v2", rollout.JobFailure, 5), ran("v2", rollout.JobFailure, 1)}},
		{"nor on another target", []rollout.Job{ran("v2", rollout.JobSuccessful, 80), ran("v1", rollout.JobFailure, 1)}, 0, []rollout.Job{ran("v2", rollout.JobFailure, 1)}},
		{"the first to end, which is the newer", []rollout.Job{lasting("v2", rollout.JobSuccessful, 9, 70), lasting("v2", rollout.JobSuccessful, 8, 90), ran("v2", rollout.JobFailure, 1)}, 70, nil},
		{"a newer job stands, however what was begun before it ends", []rollout.Job{ran("v2", rollout.JobSuccessful, 10), lasting("v2", rollout.JobFailure, 5, 80)}, 0, nil},
		{"what has made up for a failure does so once more (TestReference, -rapid.seed=400288)", []rollout.Job{ran("v2", rollout.JobSuccessful, 80), ran("v2", rollout.JobSuccessful, 10), ran("v2", rollout.JobFailure, 1)}, 0, nil},
		{"it is made up for already, by what is newer", []rollout.Job{ran("v2", rollout.JobSuccessful, 10), lasting("v2", rollout.JobSuccessful, 5, 80), ran("v2", rollout.JobFailure, 1)}, 0, nil},
	} {
		plan := mustPlan(t, set, tried(3, row.jobs, row.more), minute(60))
		if want := minute(row.next); row.next == 0 && !plan.Next.IsZero() || row.next != 0 && !plan.Next.Equal(want) {
			t.Errorf("%s: next %v, want %d minutes after", row.why, plan.Next, row.next)
		}
	}
}

// TestFailureBudgetBySample: the job that completes the sample holds the version, also one that
// succeeds; and the host is woken for it where it is recorded for later.
func TestFailureBudgetBySample(t *testing.T) {
	for _, row := range []struct {
		why, fields string
		jobs        []rollout.Job // of r3, after two failures
		next        int           // minutes after t0; 0: never
		before, at  int           // how many of r4 and r5 start before and at Next
	}{
		{"a success", `"maxFailureRate":"50%","minimumSample":3`, []rollout.Job{ran("v2", rollout.JobSuccessful, 70)}, 70, 2, 0},
		{"a failure", `"maxFailureRate":"50%","minimumSample":3`, []rollout.Job{ran("v2", rollout.JobFailure, 70)}, 70, 2, 0},
		{"a success makes the rate smaller", `"maxFailureRate":"67%","minimumSample":2`, []rollout.Job{ran("v2", rollout.JobSuccessful, 70)}, 70, 0, 2},
		{"what is called off does nothing", `"maxFailureRate":"50%","minimumSample":3`, []rollout.Job{ran("v2", rollout.JobCancelled, 70)}, 0, 2, 2},
		{"nor does another version", `"maxFailureRate":"50%","minimumSample":3`, []rollout.Job{ran("v1", rollout.JobSuccessful, 70)}, 0, 2, 2},
		{"the first end of two", `"maxFailureRate":"50%","minimumSample":3`, []rollout.Job{ran("v2", rollout.JobSuccessful, 90), ran("v2", rollout.JobFailure, 80)}, 80, 2, 0},
		{"a failure that is made up for later", `"maxFailureRate":"67%","minimumSample":2`, []rollout.Job{ran("v2", rollout.JobSuccessful, 80), ran("v2", rollout.JobFailure, 1)}, 80, 0, 2},
		{"a success that fails later", `"maxFailureRate":"67%","minimumSample":2`, []rollout.Job{ran("v2", rollout.JobFailure, 80), ran("v2", rollout.JobSuccessful, 1)}, 80, 2, 0},
	} {
		failed := []rollout.Job{ran("v2", rollout.JobFailure, 1)}
		set, s := compile(t, budget(row.fields)), tried(5, failed, failed, row.jobs)
		begin := func(m int) (plan rollout.Plan, n int) {
			plan = mustPlan(t, set, s, minute(m))
			for _, start := range plan.Start {
				if start.Resource == "r4" || start.Resource == "r5" {
					n++
				}
			}
			return plan, n
		}
		plan, before := begin(60)
		want := minute(row.next)
		if row.next == 0 {
			want = time.Time{}
		}
		if _, at := begin(max(row.next, 100)); !plan.Next.Equal(want) || before != row.before || row.next == 0 && at != row.at {
			t.Errorf("%s: %d start, next %v, want %d and %v", row.why, before, plan.Next, row.before, want)
		}
		if row.next > 0 {
			_, before = begin(row.next - 1)
			if _, at := begin(row.next); before != row.before || at != row.at {
				t.Errorf("%s: before Next %d start, then %d, want %d and %d", row.why, before, at, row.before, row.at)
			}
		}
	}
}

// TestFailureBudgetAndCurve: the rollout has begun, so a target that waits for its turn does not say
// that it had not; when failures are made up for, everybody starts whose turn has come.
func TestFailureBudgetAndCurve(t *testing.T) {
	set := compile(t, budget(`"maxFailures":0`, `,{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	s := tried(4)
	first := mustPlan(t, set, s, t0)
	if len(first.Start) != 1 {
		t.Fatalf("%q start", started(first))
	}
	s.State = mustCommit(t, first, t0)
	add(&s, first.Start[0], ran("v2", rollout.JobFailure, 5))
	at := slices.IndexFunc(s.Targets, func(o rollout.Target) bool { return o.TargetID == first.Start[0].TargetID })
	s.Targets[at].Jobs[0].Run = first.Start[0].Run
	plan := mustPlan(t, set, s, minute(15))
	reasons := map[string]int{}
	for _, wait := range waitingOf(plan) {
		for _, b := range wait.Blockers {
			reasons[string(b.Reason)]++
		}
	}
	if want := map[string]int{"retry_exhausted": 1, "failure_budget_exceeded": 3, "rollout_not_due": 2}; len(plan.Start) > 0 || !cmp.Equal(reasons, want) {
		t.Errorf("%q start, %v, want %v", started(plan), reasons, want)
	}
	s.Targets[at].Jobs = append(s.Targets[at].Jobs, ran("v2", rollout.JobSuccessful, 25))
	s.State = plan.State
	if plan = mustPlan(t, set, s, minute(25)); len(plan.Start) != 2 {
		t.Errorf("once the job was repeated %q start: two whose turn came meanwhile", started(plan))
	}
}

// TestFailureBudgetInABracket: executions of a closed group that begin later leave out a version that
// is over its budget, and run the rest. What is open is finished.
func TestFailureBudgetInABracket(t *testing.T) {
	const (
		closed = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"hold"}}`
		slots  = `,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`
		own    = `,{"id":"L","failureBudget":{"maxFailures":0}}`
	)
	set := compile(t, policy(closed+slots+own))
	s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	if got, want := started(plan), []string{"r1/a@v2", "r1/b@v2", "r2/a@v2", "r2/b@v2"}; !slices.Equal(sorted(got), want) {
		t.Fatalf("%q start, want %q", got, want)
	}
	s.State = mustCommit(t, plan, t0)
	for _, start := range plan.Start {
		switch start.Resource + start.Deployment {
		case "r1a":
			add(&s, start, job(start, minute(5), rollout.JobFailure))
		case "r2b":
			add(&s, start, job(start, minute(5), rollout.JobInProgress))
		default:
			add(&s, start, job(start, minute(5), rollout.JobSuccessful))
		}
	}
	set = compile(t, policy(closed+strings.Replace(slots, `"limit":2`, `"limit":4`, 1)+own))
	plan = mustPlan(t, set, s, minute(6))
	for _, line := range blockers(plan) {
		if want := strings.HasPrefix(line, "r3/a") || strings.HasPrefix(line, "r4/a"); strings.Contains(line, "failure_budget_exceeded") != want {
			t.Errorf("%s: the budget holds the runs of a that have not begun", line)
		}
	}
	if got := started(plan); !slices.Equal(got, []string{"r3/b@v2", "r4/b@v2"}) {
		t.Errorf("%q start: b alone", got)
	}
	explained, err := plan.Explain(rollout.TargetID{Resource: "r3", Environment: "prod", Deployment: "a"})
	if err != nil {
		t.Fatal(err)
	}
	k := slices.IndexFunc(explained.Versions[0].Rules, func(r rollout.RuleVerdict) bool { return r.Rule == "L" })
	if k < 0 || explained.Versions[0].Rules[k].Kind != rollout.KindFailureBudget || explained.Versions[0].Rules[k].Reason != rollout.ReasonFailureBudget {
		t.Errorf("Explain says %+v", explained.Versions[0].Rules)
	}
	s.Overrides = []rollout.Override{override("L", func(o *rollout.Override) { o.Deployment = "a" })}
	if got := started(mustPlan(t, set, s, minute(6))); !slices.Contains(got, "r3/a@v2") {
		t.Errorf("under an override %q start", got)
	}
	s.Overrides = nil
	needs := `,{"deploymentDependency":{"appliesTo":"deployment.id == 'b'","dependsOn":"deployment.id == 'a' && version.tag == 'v2'"}}`
	set = compile(t, policy(closed+own+needs))
	if plan = mustPlan(t, set, s, minute(6)); len(plan.Start) > 0 {
		t.Errorf("%q start, although b needs a", started(plan))
	}
}

// TestFailureBudgetLeavesOut: what executions ran without a version waits for the next group when its
// failures are made up for. An override opens that group, and so does an instant since which the
// target is outdated.
func TestFailureBudgetLeavesOut(t *testing.T) {
	limited := func(limit int) *rollout.PolicySet {
		return compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"hold"}},`+
			fmt.Sprintf(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":%d}},{"id":"L","failureBudget":{"maxFailures":0}}`, limit)))
	}
	set := limited(1)
	for _, row := range []struct {
		why, wait string
		change    func(*rollout.Snapshot)
		want      []string
	}{
		{"still over the budget", "r2/a@v2: failure_budget_exceeded bracket_not_locked", func(s *rollout.Snapshot) {
			s.Targets[0].Jobs, s.Targets[0].Current = s.Targets[0].Jobs[:1], "v1"
		}, nil},
		{"made up for", "r2/a@v2: bracket_ended", func(*rollout.Snapshot) {}, nil},
		{"an override that begins after the end", "", func(s *rollout.Snapshot) {
			s.Targets[0].Jobs, s.Targets[0].Current = s.Targets[0].Jobs[:1], "v1"
			s.Overrides = []rollout.Override{override("L", func(o *rollout.Override) { o.Deployment, o.CreatedAt = "a", minute(30) })}
		}, []string{"r1/a@v2", "r2/a@v2"}},
		{"one from before, of which no plan had been told", "r2/a@v2: bracket_ended", func(s *rollout.Snapshot) {
			s.Targets[0].Jobs, s.Targets[0].Current = s.Targets[0].Jobs[:1], "v1"
			s.Overrides = []rollout.Override{override("L", func(o *rollout.Override) { o.Deployment, o.CreatedAt = "a", minute(4) })}
		}, nil},
		{"and a second one after the end", "", func(s *rollout.Snapshot) {
			s.Targets[0].Jobs, s.Targets[0].Current = s.Targets[0].Jobs[:1], "v1"
			s.Overrides = []rollout.Override{
				override("L", func(o *rollout.Override) { o.Deployment, o.CreatedAt = "a", minute(4) }),
				override("L", func(o *rollout.Override) { o.ID, o.Deployment, o.CreatedAt = "second", "a", minute(30) }),
			}
		}, []string{"r1/a@v2", "r2/a@v2"}},
		{"outdated after the end", "", func(s *rollout.Snapshot) {
			k := slices.IndexFunc(s.Targets, func(o rollout.Target) bool { return o.Resource == "r2" && o.Deployment == "a" })
			s.Targets[k].OutdatedAt = minute(30)
		}, []string{"r2/a@v2"}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		s.State = mustCommit(t, plan, t0)
		for _, start := range plan.Start {
			status := rollout.JobSuccessful
			if start.Deployment == "a" {
				status = rollout.JobFailure
			}
			add(&s, start, job(start, minute(5), status))
		}
		s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: plan.Start[0].Group, Resource: "r1", At: minute(6), By: "ann", Reason: "on to the next"}}
		for m := 6; m < 20; m += 5 {
			plan = mustPlan(t, set, s, minute(m))
			s.State = mustCommit(t, plan, minute(m))
			for _, start := range plan.Start {
				add(&s, start, job(start, minute(m+1), rollout.JobSuccessful))
			}
		}
		s.Targets[0].Jobs = append(s.Targets[0].Jobs, ran("v2", rollout.JobSuccessful, 25))
		s.Targets[0].Current = "v2"
		row.change(&s)
		plan = mustPlan(t, limited(2), s, minute(30))
		if got := started(plan); !slices.Equal(got, row.want) || row.wait != "" && !slices.Contains(blockers(plan), row.wait) {
			t.Errorf("%s: %q start, want %q; wait %q", row.why, got, row.want, blockers(plan))
		}
	}
}
