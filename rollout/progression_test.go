package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// ran is a job of a version that ended some minutes after t0.
func ran(version string, status rollout.JobStatus, end int) rollout.Job {
	return rollout.Job{Version: version, Status: status, CreatedAt: minute(end - 1), CompletedAt: minute(end)}
}

func verified(job rollout.Job, as rollout.Verification) rollout.Job {
	job.Verification = as
	return job
}

// staged is a fleet with one target in prod and others in staging and qa, each with its jobs; v2
// was created at t0, v1 before.
func staged(staging, qa [][]rollout.Job) rollout.Snapshot {
	s := rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod"}, {ID: "qa"}, {ID: "staging"}},
		Deployments:  []rollout.Deployment{{ID: "api"}},
		Versions: []rollout.Version{
			{ID: "v1", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Hour)},
			{ID: "v2", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0},
		},
	}
	place := func(environment string, lists [][]rollout.Job) {
		for k, jobs := range lists {
			r := rollout.Resource{ID: fmt.Sprint(environment, k), Metadata: map[string]string{"n": fmt.Sprint(k % 2)}}
			s.Resources = append(s.Resources, r)
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r.ID, Environment: environment, Deployment: "api"}, Current: "v1", Jobs: jobs})
		}
	}
	place("prod", [][]rollout.Job{nil})
	place("staging", staging)
	place("qa", qa)
	for k := range s.Targets {
		if len(s.Targets[k].Jobs) > 0 {
			s.Targets[k].Current = ""
		}
	}
	return s
}

func times(n int, jobs ...rollout.Job) (lists [][]rollout.Job) {
	for range n {
		lists = append(lists, jobs)
	}
	return lists
}

// progress is a progression of prod on staging with further fields.
func progress(more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'"` + more + `}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}`
}

// TestProgression: when a version may go on to the next environment.
func TestProgression(t *testing.T) {
	ok := func(at int) []rollout.Job { return []rollout.Job{ran("v2", rollout.JobSuccessful, at)} }
	either := `"dependsOnEnvironmentSelector":"environment.id in ['staging','qa']"`
	for _, row := range []struct {
		why, policies string
		staging, qa   [][]rollout.Job
		now           int // minutes after t0
		waits         string
		since         int // start of the rollout in minutes after t0
		next          string
	}{
		{"every target is asked for by default", progress(""), [][]rollout.Job{ok(1), nil}, nil, 10, "progression_waiting e 1 of 2; rollout_not_started g", 0, ""},
		{"and nearly all are not enough", progress(""), append(times(999, ok(1)...), nil), nil, 10, "progression_waiting e 999 of 1000; rollout_not_started g", 0, ""},
		{"and the last of them decides", progress(""), [][]rollout.Job{ok(1), ok(7)}, nil, 10, "", 7, ""},
		{"later successes than are asked for do not matter", progress(`"minimumSuccessPercentage":50`), [][]rollout.Job{ok(9), ok(1), ok(4)}, nil, 10, "", 4, ""},
		{"the first success is the one that ended first, whichever began first", progress(""), [][]rollout.Job{
			{{Version: "v2", Status: rollout.JobSuccessful, CreatedAt: minute(0), CompletedAt: minute(9)}, {Version: "v2", Status: rollout.JobSuccessful, CreatedAt: minute(2), CompletedAt: minute(5)}}}, nil, 10, "", 5, ""},
		{"a success before the version was there, by another clock, starts nothing before it", progress(""), [][]rollout.Job{ok(-5)}, nil, 10, "", 0, ""},
		{"half of three is two", progress(`"minimumSuccessPercentage":50`), [][]rollout.Job{ok(1), ok(4), nil}, nil, 10, "", 4, ""},
		{"0 percent ask for one", progress(`"minimumSuccessPercentage":0`), times(3), nil, 10, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"which is enough", progress(`"minimumSuccessPercentage":0`), [][]rollout.Job{nil, ok(5), nil}, nil, 10, "", 5, ""},
		{"so does what JSON writes as -0", progress(`"minimumSuccessPercentage":-0`), [][]rollout.Job{nil, ok(5), nil}, nil, 10, "", 5, ""},
		{"33.4 percent of 3 are more than 1", progress(`"minimumSuccessPercentage":33.4`), [][]rollout.Job{ok(1), nil, nil}, nil, 10, "progression_waiting e 1 of 2; rollout_not_started g", 0, ""},
		{"33.3 percent of 3 are 1", progress(`"minimumSuccessPercentage":33.3`), [][]rollout.Job{ok(1), nil, nil}, nil, 10, "", 1, ""},
		{"99.5 percent of 200 are 199", progress(`"minimumSuccessPercentage":99.5`), append(times(199, ok(1)...), nil), nil, 10, "", 1, ""},
		{"99.5 percent of 199 are all", progress(`"minimumSuccessPercentage":99.5`), append(times(198, ok(1)...), nil), nil, 10, "progression_waiting e 198 of 199; rollout_not_started g", 0, ""},
		{"0.1 percent of 1000 is 1: a tenth is read as it is written", progress(`"minimumSuccessPercentage":0.1`), append(times(999), ok(2)), nil, 10, "", 2, ""},
		{"the soak counts from the instant at which the percentage was reached", progress(`"minimumSuccessPercentage":50,"minimumSoakTimeMinutes":30`), [][]rollout.Job{ok(1), ok(4), nil}, nil, 33,
			"progression_waiting e 2 of 2 until 34; rollout_not_started g until 34", 0, "34"},
		{"and is over at its end", progress(`"minimumSuccessPercentage":50,"minimumSoakTimeMinutes":30`), [][]rollout.Job{ok(1), ok(4), nil}, nil, 34, "", 34, ""},
		{"a redeployment does not begin it anew", progress(`"minimumSoakTimeMinutes":30`), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobSuccessful, 25)}}, nil, 31, "", 31, ""},
		{"nor does a failure after the success", progress(""), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobFailure, 5)}}, nil, 10, "", 1, ""},
		{"the success of another version says nothing", progress(`"minimumSoakTimeMinutes":30`), [][]rollout.Job{{ran("v1", rollout.JobSuccessful, -200), ran("v2", rollout.JobInProgress, 1)}}, nil, 10,
			"progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"a job counts when it has ended, not when it began", progress(""), [][]rollout.Job{ok(9)}, nil, 9, "", 9, ""},
		{"one that ends in the future is awaited", progress(""), [][]rollout.Job{ok(9)}, nil, 8, "progression_waiting e 0 of 1 until 9; rollout_not_started g until 9", 0, "9"},
		{"and then soaks", progress(`"minimumSoakTimeMinutes":30`), [][]rollout.Job{ok(9)}, nil, 8, "progression_waiting e 0 of 1 until 39; rollout_not_started g until 39", 0, "9"},
		{"beside one that has ended", progress(""), [][]rollout.Job{ok(1), ok(9)}, nil, 8, "progression_waiting e 1 of 2 until 9; rollout_not_started g until 9", 0, "9"},
		{"alone it is too few", progress(""), [][]rollout.Job{nil, ok(9)}, nil, 8, "progression_waiting e 0 of 2; rollout_not_started g", 0, "9"},
		{"a version may be too old", progress(`"maximumAgeHours":1`), [][]rollout.Job{ok(1)}, nil, 61, "progression_too_old e; rollout_not_started g", 0, ""},
		{"until the next success, which is recorded already", progress(`"maximumAgeHours":1`), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobSuccessful, 70)}}, nil, 65,
			"progression_too_old e until 70; rollout_not_started g until 70", 0, "70"},
		{"which need not be the first one", progress(`"maximumAgeHours":1`), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobSuccessful, 80), ran("v2", rollout.JobSuccessful, 70)}}, nil, 65,
			"progression_too_old e until 70; rollout_not_started g until 70", 0, "70"},
		{"until then it is not", progress(`"maximumAgeHours":1`), [][]rollout.Job{ok(1)}, nil, 60, "", 1, "61"},
		{"the newest success counts for that", progress(`"maximumAgeHours":1`), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobSuccessful, 30)}}, nil, 61, "", 1, "90"},
		{"on whichever target", progress(`"maximumAgeHours":1`), [][]rollout.Job{ok(1), ok(30), ok(2)}, nil, 61, "", 30, "90"},
		{"too few successes are awaited, however old they are", progress(`"maximumAgeHours":1`), [][]rollout.Job{ok(1), nil}, nil, 65, "progression_waiting e 1 of 2; rollout_not_started g", 0, ""},
		{"also where the last of them is recorded already", progress(`"maximumAgeHours":1`), [][]rollout.Job{ok(1), ok(80)}, nil, 65, "progression_waiting e 1 of 2 until 80; rollout_not_started g until 80", 0, "80"},
		{"one that is too old before it has soaked has no end of the soak to wait for", progress(`"maximumAgeHours":1,"minimumSoakTimeMinutes":60`), [][]rollout.Job{ok(1)}, nil, 10, "progression_waiting e 1 of 1; rollout_not_started g", 0, "61"},
		{"a younger success beside it lets it soak to the end", progress(`"maximumAgeHours":1,"minimumSoakTimeMinutes":60,"minimumSuccessPercentage":50`), [][]rollout.Job{ok(1), ok(2)}, nil, 10,
			"progression_waiting e 2 of 1 until 61; rollout_not_started g until 61", 0, "61"},
		{"so does one that is recorded already, and ends before the soak does", progress(`"maximumAgeHours":1,"minimumSoakTimeMinutes":60`), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobSuccessful, 20)}}, nil, 10,
			"progression_waiting e 1 of 1 until 61; rollout_not_started g until 61", 0, "20"},
		{"one that ends after the soak opens it then", progress(`"maximumAgeHours":1,"minimumSoakTimeMinutes":60`), [][]rollout.Job{{ran("v2", rollout.JobSuccessful, 1), ran("v2", rollout.JobSuccessful, 70)}}, nil, 10,
			"progression_waiting e 1 of 1 until 70; rollout_not_started g until 70", 0, "61"},
		{"statuses may be named", progress(`"successStatuses":["skipped","successful"]`), [][]rollout.Job{{ran("v2", rollout.JobSkipped, 3)}}, nil, 10, "", 3, ""},
		{"and then only they count", progress(`"successStatuses":["skipped"]`), [][]rollout.Job{ok(3)}, nil, 10, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"a success that is not verified is none where verification is asked for", progress(`"requireVerificationPassed":true`), [][]rollout.Job{{verified(ran("v2", rollout.JobSuccessful, 3), "running")}}, nil, 10,
			"progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"nor is one without verification", progress(`"requireVerificationPassed":true`), [][]rollout.Job{ok(3)}, nil, 10, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"one that passed is", progress(`"requireVerificationPassed":true`), [][]rollout.Job{{verified(ran("v2", rollout.JobSuccessful, 3), "passed")}}, nil, 10, "", 3, ""},
		{"a failed verification counts where none is asked for", progress(""), [][]rollout.Job{{verified(ran("v2", rollout.JobSuccessful, 3), "failed")}}, nil, 10, "", 3, ""},
		{"an environment without targets has nothing to prove", progress(""), nil, nil, 10, "", 0, ""},
		{"nor have two", replaced(progress(""), either), nil, nil, 10, "", 0, ""},
		{"it proves nothing: another one still has to", replaced(progress(""), either), [][]rollout.Job{nil}, nil, 10, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"whichever comes first of the two", replaced(progress(""), either), nil, [][]rollout.Job{nil}, 10, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"and to be young enough", replaced(progress(`"maximumAgeHours":1`), either), [][]rollout.Job{ok(1)}, nil, 61, "progression_too_old e; rollout_not_started g", 0, ""},
		{"once that has succeeded it may go on", replaced(progress(""), either), [][]rollout.Job{ok(3)}, nil, 10, "", 3, ""},
		{"no environment is an error of the policy", `{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'stagign'"}}]}`, nil, nil, 10,
			"progression_no_environment e", 0, ""},
		{"an environment does not wait for itself", `{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'prod'"}}]}`, nil, nil, 10,
			"progression_no_environment e", 0, ""},
		{"a key that is missing is no match", `{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.metadata['tier'] == 'pre'"}}]}`, nil, nil, 10,
			"progression_no_environment e", 0, ""},
		{"an expression that fails denies", `{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"int(environment.id) > 1"}}]}`, nil, nil, 10,
			"selector_error e", 0, ""},
		{"of two environments one is enough", replaced(progress(`"minimumSoakTimeMinutes":5`), either), [][]rollout.Job{nil}, [][]rollout.Job{ok(3)}, 10, "", 8, ""},
		{"the earlier of two", replaced(progress(""), either), [][]rollout.Job{ok(4)}, [][]rollout.Job{ok(6)}, 10, "", 4, ""},
		{"whichever that is", replaced(progress(""), either), [][]rollout.Job{ok(6)}, [][]rollout.Job{ok(4)}, 10, "", 4, ""},
		{"too old in one, waiting in the other", replaced(progress(`"maximumAgeHours":1`), either), [][]rollout.Job{ok(4)}, [][]rollout.Job{nil}, 100, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"said of the one that lacks least", replaced(progress(""), either), [][]rollout.Job{ok(3), nil, nil}, [][]rollout.Job{ok(3), ok(3), nil}, 10, "progression_waiting e 2 of 3; rollout_not_started g", 0, ""},
		{"whichever comes first", replaced(progress(""), either), [][]rollout.Job{ok(3), ok(3), nil}, [][]rollout.Job{ok(3), nil, nil}, 10, "progression_waiting e 2 of 3; rollout_not_started g", 0, ""},
		{"and of the first of two that lack the same", replaced(progress(""), either), [][]rollout.Job{ok(3), ok(3), nil}, [][]rollout.Job{nil}, 10, "progression_waiting e 0 of 1; rollout_not_started g", 0, ""},
		{"of two rules the one that soaks longer: when time alone has opened both the rollout has its start", `{"name":"p","selector":"environment.id == 'prod'","rules":[
			{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSoakTimeMinutes":60}},
			{"id":"f","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSoakTimeMinutes":30}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}`,
			[][]rollout.Job{ok(1)}, nil, 10, "progression_waiting e 1 of 1 until 61; progression_waiting f 1 of 1 until 31; rollout_not_started g until 61", 0, "31"},
		{"one that needs more than time leaves it without an instant", `{"name":"p","selector":"environment.id == 'prod'","rules":[
			{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSoakTimeMinutes":60}},
			{"id":"a","anyApproval":{"minApprovals":1}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}`,
			[][]rollout.Job{ok(1)}, nil, 10, "approval_missing a; progression_waiting e 1 of 1 until 61; rollout_not_started g", 0, "61"},
		{"the earlier soak of two", replaced(progress(`"minimumSoakTimeMinutes":30`), either), [][]rollout.Job{ok(4)}, [][]rollout.Job{ok(2)}, 10, "progression_waiting e 1 of 1 until 32; rollout_not_started g until 32", 0, "32"},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := staged(row.staging, row.qa)
			plan := mustPlan(t, compile(t, row.policies), s, minute(row.now))
			var got []string
			for wait := range plan.Waiting.All() {
				if wait.Environment != "prod" {
					continue
				}
				for _, b := range wait.Blockers {
					text := string(b.Reason) + " " + b.Rule
					if b.Reason == rollout.ReasonProgressionWaiting {
						text += fmt.Sprintf(" %d of %d", b.Data.Attempt, b.Data.Allowed)
					}
					if !b.Until.IsZero() {
						text += fmt.Sprint(" until ", b.Until.Sub(t0).Minutes())
					}
					if fault := formFault(b); fault != "" {
						t.Errorf("%+v: %s", b, fault)
					}
					got = append(got, text)
				}
			}
			starts := slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Environment == "prod" && s.Version == "v2" })
			if text := strings.Join(got, "; "); text != row.waits || starts != (row.waits == "") {
				t.Errorf("waits for %q, starts %v, want %q", text, starts, row.waits)
			}
			if row.waits == "" && len(plan.State.Rollouts) > 0 && !plan.State.Rollouts[0].StartAt.Equal(minute(row.since)) {
				t.Errorf("the rollout starts at %v, want minute %d", plan.State.Rollouts[0].StartAt, row.since)
			}
			for _, start := range plan.Start {
				if start.Environment == "prod" && start.Version == "v2" {
					if got := progressedSince(t, &plan, start); !got.Equal(minute(row.since)) {
						t.Errorf("%s: explained as satisfied since %v, want minute %d", start.TargetID, got, row.since)
					}
				}
			}
			next := ""
			if !plan.Next.IsZero() {
				next = fmt.Sprint(plan.Next.Sub(t0).Minutes())
			}
			if next != row.next {
				t.Errorf("next is minute %s, want %q", next, row.next)
			}
		})
	}
}

// progressedSince returns since when all progressions of a start are satisfied, as it is explained.
func progressedSince(t *testing.T, plan *rollout.Plan, start rollout.Start) (since time.Time) {
	t.Helper()
	e, err := plan.Explain(start.TargetID)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range e.Versions {
		for _, rule := range v.Rules {
			if v.Version == start.Version && rule.Kind == rollout.KindProgression && rule.Since.After(since) {
				since = rule.Since
			}
		}
	}
	return since
}

// TestProgressionOfTheDeployment: what another deployment did there does not count.
func TestProgressionOfTheDeployment(t *testing.T) {
	s := inEnvironments(fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2"}, "web": {"v1", "v2"}}), "staging")
	for k := range s.Targets {
		if target := &s.Targets[k]; target.Environment == "staging" && target.Deployment == "db" {
			target.Current, target.Jobs = "", []rollout.Job{ran("v2", rollout.JobSuccessful, -1)}
		}
	}
	plan := mustPlan(t, compile(t, progress("")), s, t0)
	var got []string
	for _, start := range plan.Start {
		if start.Environment == "prod" {
			got = append(got, start.Deployment)
		}
	}
	if !slices.Equal(got, []string{"db"}) {
		t.Errorf("starts %q", got)
	}
}

func replaced(policy, selector string) string {
	return strings.Replace(policy, `"dependsOnEnvironmentSelector":"environment.id == 'staging'"`, selector, 1)
}

// TestProgressionOfScopedVersions: the scope counts on both sides.
func TestProgressionOfScopedVersions(t *testing.T) {
	ok := []rollout.Job{ran("v2", rollout.JobSuccessful, 1)}
	for _, row := range []struct {
		why, scope string
		staging    [][]rollout.Job
		starts     bool
	}{
		{"only targets in scope are asked for", "resource.metadata['n'] == '0'", [][]rollout.Job{ok, nil, ok, nil}, true},
		{"of which one is missing", "resource.metadata['n'] == '0'", [][]rollout.Job{ok, nil, nil, nil}, false},
		{"a success out of scope does not count", "resource.metadata['n'] == '0'", [][]rollout.Job{nil, ok}, false},
		{"a version for prod alone has nothing to prove elsewhere", "environment.id == 'prod'", times(3), true},
		{"nor where no target is in its scope, though there are targets", "resource.metadata['n'] == '9' || environment.id == 'prod'", times(3, ok...), true},
		{"a version for staging alone does not exist in prod", "environment.id == 'staging'", times(1, ok...), false},
	} {
		s := staged(row.staging, nil)
		s.Versions[1].TargetSelector = row.scope
		plan := mustPlan(t, compile(t, progress("")), s, minute(10))
		if got := slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Environment == "prod" }); got != row.starts {
			t.Errorf("%s: starts %v; waits %q", row.why, got, blockers(plan))
		}
	}
}

// TestProgressionOutOfReach: targets that went on to a newer version will never have this one, and
// those that failed for good do not get it again by themselves. While they are too many it is said,
// and that an operator or another version helps: the verdict alone would look as if somebody only
// had to wait.
func TestProgressionOutOfReach(t *testing.T) {
	ok := []rollout.Job{ran("v2", rollout.JobSuccessful, 1)}
	checked := verified(ok[0], rollout.VerificationRunning)
	hotfix := []rollout.Job{ran("v3", rollout.JobSuccessful, 3)}
	begun := []rollout.Job{ran("v3", rollout.JobInProgress, 3)}
	failed := []rollout.Job{ran("v2", rollout.JobFailure, 1)}
	bad := []rollout.Job{verified(ran("v2", rollout.JobSuccessful, 1), rollout.VerificationFailed)}
	either := `"dependsOnEnvironmentSelector":"environment.id in ['staging','qa']"`
	verifying := progress(`"requireVerificationPassed":true`)
	with := func(prod, rule string) string {
		return "[" + prod + `,{"name":"q","selector":"environment.id == 'staging'","rules":[` + rule + `]}]`
	}
	once, back := `{"id":"r","retry":{"maxRetries":1,"backoffSeconds":3600}}`, `{"id":"b","rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`
	override := func(rule string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: rule, Version: "v2", CreatedAt: minute(5), CreatedBy: "ann", Reason: "mended"}}
		}
	}
	adopted := func(s *rollout.Snapshot) { s.Targets[2].Current = "v2" }
	const one = "1 of 2 targets there went on to a newer version without this one, so that it cannot be reached any more"
	const failure = "1 of 2 targets there failed for good, so that it cannot be reached without an operator"
	for _, row := range []struct {
		why, policies string
		staging, qa   [][]rollout.Job
		edit          func(*rollout.Snapshot)
		detail        string
	}{
		{"the hotfix passed it by on one of two", progress(""), [][]rollout.Job{ok, hotfix}, nil, nil, one},
		{"or is about to", progress(""), [][]rollout.Job{ok, begun}, nil, nil, one},
		{"it is at work there", progress(""), [][]rollout.Job{ok, {ran("v2", rollout.JobInProgress, 1)}}, nil, nil, ""},
		{"whoever had it first has proved it", progress(""), [][]rollout.Job{nil, append(slices.Clone(ok), hotfix...)}, nil, nil, ""},
		{"the others are enough", progress(`"minimumSuccessPercentage":50`), [][]rollout.Job{nil, nil, hotfix}, nil, nil, ""},
		{"in the other environment it can", replaced(progress(""), either), [][]rollout.Job{ok, hotfix}, [][]rollout.Job{nil, nil}, nil, ""},
		{"whichever is asked first", replaced(progress(""), either), [][]rollout.Job{nil, nil}, [][]rollout.Job{ok, hotfix}, nil, ""},
		{"in neither", replaced(progress(""), either), [][]rollout.Job{ok, hotfix}, [][]rollout.Job{nil, hotfix}, nil, one},
		{"it failed, and without a retry rule nobody tries again", progress(""), [][]rollout.Job{ok, failed}, nil, nil, failure},
		{"the others are enough for what failed, too", progress(`"minimumSuccessPercentage":50`), [][]rollout.Job{nil, nil, failed}, nil, nil, ""},
		{"one attempt is left", with(progress(""), once), [][]rollout.Job{ok, failed}, nil, nil, ""},
		{"none is", with(progress(""), once), [][]rollout.Job{ok, {ran("v2", rollout.JobFailure, 1), ran("v2", rollout.JobFailure, 3)}}, nil, nil, failure},
		{"an operator has forgiven them", with(progress(""), once), [][]rollout.Job{ok, {ran("v2", rollout.JobFailure, 1), ran("v2", rollout.JobFailure, 3)}}, nil, override("r"), ""},
		{"it was cancelled, which is no attempt", progress(""), [][]rollout.Job{ok, {ran("v2", rollout.JobCancelled, 1)}}, nil, nil, ""},
		{"it is to be taken back", with(progress(""), back), [][]rollout.Job{ok, failed}, nil, nil, failure},
		{"it was, because it does not work", with(verifying, back), [][]rollout.Job{nil, append(slices.Clone(bad), ran("v1", rollout.JobSuccessful, 3))}, nil, nil, failure},
		{"it does not work, and nothing takes it back", verifying, [][]rollout.Job{{verified(ran("v2", rollout.JobSuccessful, 1), rollout.VerificationPassed)}, bad}, nil, nil, failure},
		{"it is being checked", verifying, [][]rollout.Job{nil, {checked}}, nil, nil, "1 awaiting verification in staging"},
		{"it may still be", verifying, [][]rollout.Job{nil, ok}, nil, nil, "1 awaiting verification in staging"},
		{"or its checks have a state that nobody knows", verifying, [][]rollout.Job{nil, {verified(checked, "ok")}}, nil, nil, "1 awaiting verification in staging"},
		{"two are, of which one succeeds twice", verifying, [][]rollout.Job{append(slices.Clone(ok), checked), ok, nil, {verified(checked, rollout.VerificationPassed)}}, nil, nil, "2 awaiting verification in staging"},
		{"one whose checks passed awaits none, whatever became of a later job", verifying, [][]rollout.Job{{verified(ran("v2", rollout.JobSuccessful, 1), rollout.VerificationPassed), ran("v2", rollout.JobSuccessful, 3)}, nil}, nil, nil, ""},
		{"each of two environments has one", replaced(verifying, either), [][]rollout.Job{ok, nil}, [][]rollout.Job{ok}, nil, "1 awaiting verification in qa, 1 awaiting verification in staging"},
		{"only the soak is left: what is being checked is not what it waits for", progress(`"requireVerificationPassed":true,"minimumSuccessPercentage":50,"minimumSoakTimeMinutes":60`), [][]rollout.Job{{verified(checked, rollout.VerificationPassed)}, {checked}}, nil, nil, ""},
		{"another status is asked for, and to be verified", progress(`"successStatuses":["skipped"],"requireVerificationPassed":true`), [][]rollout.Job{nil, {ran("v2", rollout.JobSkipped, 1)}}, nil, nil, "1 awaiting verification in staging"},
		{"of two one may still be, and the other failed", verifying, [][]rollout.Job{ok, failed}, nil, nil, "1 awaiting verification in staging; " + failure},
		{"the first attempt may still be, and the next one failed", verifying, [][]rollout.Job{nil, {checked, ran("v2", rollout.JobFailure, 3)}}, nil, nil, "1 awaiting verification in staging"},
		{"and a rollback rule refuses it", with(verifying, back), [][]rollout.Job{nil, {checked, ran("v2", rollout.JobFailure, 3)}}, nil, nil, "1 awaiting verification in staging"},
		{"and took it back, to what failed then", with(verifying, back), [][]rollout.Job{nil, {checked, ran("v2", rollout.JobFailure, 3), ran("v1", rollout.JobFailure, 5)}}, nil, nil, "1 awaiting verification in staging"},
		{"the host took it back, says what runs, and verifies it all the same", verifying, [][]rollout.Job{nil, {checked, ran("v1", rollout.JobSuccessful, 3)}}, nil, adopted, "1 awaiting verification in staging"},
		{"the hotfix came before it was verified", verifying, [][]rollout.Job{nil, append([]rollout.Job{checked}, hotfix...)}, nil, nil, "1 awaiting verification in staging"},
		{"or before it ended", progress(""), [][]rollout.Job{ok, append([]rollout.Job{ran("v2", rollout.JobInProgress, 1)}, hotfix...)}, nil, nil, ""},
		{"the hotfix failed, and a rollback rule takes it back to this one", with(progress(""), back), [][]rollout.Job{ok, {ran("v3", rollout.JobFailure, 3)}}, nil, adopted, ""},
		{"the hotfix is about to fail", with(progress(""), back), [][]rollout.Job{ok, begun}, nil, adopted, ""},
		{"or a bracket that goes back", with(progress(""), `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_member"}}`), [][]rollout.Job{ok, begun}, nil, adopted, ""},
		{"or about to go back to what succeeded here, by a rule that does not ask whether it works", with(verifying, `{"id":"b","rollback":{"onJobStatuses":["failure"]}}`), [][]rollout.Job{{verified(checked, rollout.VerificationPassed)}, append(slices.Clone(bad), begun...)}, nil, nil, ""},
		{"the rule asks that, too", with(verifying, back), [][]rollout.Job{{verified(checked, rollout.VerificationPassed)}, append(slices.Clone(bad), begun...)}, nil, nil, one},
		{"and no rule takes it back", progress(""), [][]rollout.Job{ok, begun}, nil, adopted, one},
		{"the hotfix failed, but this one does not work, and so it goes back further", with(verifying, back), [][]rollout.Job{{verified(checked, rollout.VerificationPassed)}, append(slices.Clone(bad), ran("v3", rollout.JobFailure, 3))}, nil, nil, one},
		{"the success is too old before the soak ends", progress(`"maximumAgeHours":1,"minimumSoakTimeMinutes":60`), [][]rollout.Job{ok}, nil, nil, "the newest success there is too old before the soak ends"},
		{"it is run once more, and that success is younger", progress(`"maximumAgeHours":1,"minimumSoakTimeMinutes":60`), [][]rollout.Job{ok}, nil, func(s *rollout.Snapshot) { s.Targets[1].OutdatedAt = minute(4) }, ""},
		{"it was outdated when no attempt is left", progress(""), [][]rollout.Job{ok, failed}, nil, func(s *rollout.Snapshot) { adopted(s); s.Targets[2].OutdatedAt = minute(-4) }, failure},
		{"it is to be outdated, which begins anew", progress(""), [][]rollout.Job{ok, failed}, nil, func(s *rollout.Snapshot) { adopted(s); s.Targets[2].OutdatedAt = minute(40) }, ""},
		{"it is run once more because something changed, and may work then", verifying, [][]rollout.Job{nil, bad}, nil, func(s *rollout.Snapshot) { s.Targets[2].OutdatedAt = minute(4) }, ""},
		{"the rule does not ask whether it works", progress(""), [][]rollout.Job{nil, bad}, nil, nil, ""},
		{"it went on to what was cancelled, and is not what it would go back to", with(verifying, back), [][]rollout.Job{{verified(ran("v2", rollout.JobSuccessful, 1), rollout.VerificationPassed)}, append(slices.Clone(bad), ran("v3", rollout.JobCancelled, 2))}, nil, nil,
			"1 of 2 targets there went on to a newer version without this one, so that it cannot be reached any more"},
		{"the newer version that it went on to is run once more later, and goes back to it if that fails", with(progress(""), back), [][]rollout.Job{ok, {ran("v3", rollout.JobSuccessful, 2)}}, nil,
			func(s *rollout.Snapshot) { s.Targets[2].Current, s.Targets[2].OutdatedAt = "v2", minute(20) }, ""},
		{"another status is asked for", progress(`"successStatuses":["skipped"]`), [][]rollout.Job{nil, ok}, nil, nil, failure},
		{"an operator lets it stay", with(progress(""), back+","+once), [][]rollout.Job{ok, failed}, nil, override("b"), ""},
		{"a change made it outdated, but no attempt is left either", progress(""), [][]rollout.Job{ok, failed}, nil, func(s *rollout.Snapshot) { s.Targets[2].OutdatedAt = minute(4) }, failure},
		{"some went on and some failed", progress(`"minimumSuccessPercentage":75`), [][]rollout.Job{ok, failed, failed, hotfix}, nil, nil,
			"1 of 4 targets there went on to a newer version without this one and 2 failed for good, so that it cannot be reached without an operator"},
		{"and so many went on that to mend the others is not enough", progress(""), [][]rollout.Job{failed, hotfix}, nil, nil,
			"1 of 2 targets there went on to a newer version without this one and 1 failed for good, so that it cannot be reached any more"},
		{"it runs where the host says so, and no job tells that it succeeded", progress(""), [][]rollout.Job{ok, nil}, nil, adopted, "1 of 2 targets there run it without a job that succeeded, so that it cannot be reached without an operator"},
		{"it is run once more, because something changed", progress(""), [][]rollout.Job{ok, nil}, nil, func(s *rollout.Snapshot) { adopted(s); s.Targets[2].OutdatedAt = minute(4) }, ""},
		{"the host knows no instant at which it changed, and says so in the year 0", progress(""), [][]rollout.Job{ok, nil}, nil, func(s *rollout.Snapshot) { adopted(s); s.Targets[2].OutdatedAt = time.Time{}.Add(-time.Hour) },
			"1 of 2 targets there run it without a job that succeeded, so that it cannot be reached without an operator"},
		{"some went on, some failed and some were adopted", progress(""), [][]rollout.Job{hotfix, nil, failed, nil}, nil, adopted,
			"1 of 4 targets there went on to a newer version without this one and 1 failed for good and 1 run it without a job that succeeded, so that it cannot be reached any more"},
		{"it failed in one environment, and can be proved in the other", replaced(progress(""), either), [][]rollout.Job{ok, failed}, [][]rollout.Job{nil}, nil, ""},
	} {
		s := staged(row.staging, row.qa)
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(2), TargetSelector: "environment.id != 'prod'"})
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, compile(t, row.policies), s, minute(10))
		k := slices.IndexFunc(waitingOf(plan), func(w rollout.Waiting) bool { return w.Environment == "prod" })
		if k < 0 || waitingOf(plan)[k].Blockers[0].Reason != rollout.ReasonProgressionWaiting {
			t.Errorf("%s: prod does not wait for the others: %q", row.why, blockers(plan))
			continue
		}
		for _, verdict := range waitingOf(plan)[k].Blockers { // the rollout waits for the same
			if fault := formFault(verdict); fault != "" {
				t.Errorf("%s: %s: %s", row.why, verdict, fault)
			}
			want := []rollout.Actor{rollout.ActorFleet}
			if strings.Contains(row.detail, "cannot") || strings.Contains(row.detail, "too old") {
				want = []rollout.Actor{rollout.ActorOperator, rollout.ActorPublish, rollout.ActorFleet}
			}
			if !verdict.Until.IsZero() {
				want = append([]rollout.Actor{rollout.ActorTime}, want...)
			}
			if got := verdict.Actors(); !slices.Equal(got, want) {
				t.Errorf("%s: %s: %q can help, want %q", row.why, verdict.Reason, got, want)
			}
		}
		if got := waitingOf(plan)[k].Blockers[0].Data.Detail; got != row.detail {
			t.Errorf("%s: %q, want %q", row.why, got, row.detail)
		}
	}
}

// TestProgressionAfterABracketFailed: of members, too, it is said that nobody tries again.
func TestProgressionAfterABracketFailed(t *testing.T) {
	const failure = "1 of 2 targets there failed for good, so that it cannot be reached without an operator"
	for _, row := range []struct {
		why, more string
		first     rollout.JobStatus // of the first of the two
		detail    string
		outdated  int // the minute since which the first is; 0: never
	}{
		{"it is held", `"onMemberFailure":"hold"}}`, rollout.JobFailure, failure, 0},
		{"it is over", `"onMemberFailure":"run_post"}}`, rollout.JobFailure, failure, 0},
		{"it is taken back", `"onMemberFailure":"rollback_all"}}`, rollout.JobFailure, failure, 0},
		{"somebody cancelled it, which in a bracket is final", `"onMemberFailure":"hold"}}`, rollout.JobCancelled, failure, 0},
		{"another attempt is left", `"onMemberFailure":"hold"}},{"id":"r","retry":{"maxRetries":1,"backoffSeconds":3600}}`, rollout.JobFailure, "", 0},
		{"it is at work", `"onMemberFailure":"hold"}}`, rollout.JobInProgress, "", 0},
		{"a rollback rule takes it back, whatever attempts are left", `"onMemberFailure":"hold"}},{"id":"r","retry":{"maxRetries":1,"backoffSeconds":3600}},{"id":"b","rollback":{"onJobStatuses":["failure"]}}`, rollout.JobFailure, failure, 0},
		{"the next group brings it once more", `"onMemberFailure":"run_post"}}`, rollout.JobFailure, "", 2},
		{"it is being verified", `"onMemberFailure":"hold"}}`, rollout.JobSuccessful, "1 awaiting verification in staging", 0},
	} {
		s := staged(times(2), nil)
		for k := range s.Targets {
			s.Targets[k].Current, s.Targets[k].Jobs = "", []rollout.Job{ran("v1", rollout.JobSuccessful, -30)}
		}
		set := compile(t, "["+progress(`"requireVerificationPassed":true`)+`,{"name":"q","selector":"environment.id == 'staging'","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},`+row.more+`]}]`)
		plan := mustPlan(t, set, s, minute(1))
		if len(plan.Start) != 2 {
			t.Fatalf("%s: %d start", row.why, len(plan.Start))
		}
		s.State = mustCommit(t, plan, minute(1))
		first, second := job(plan.Start[0], minute(1), row.first), verified(job(plan.Start[1], minute(1), rollout.JobSuccessful), rollout.VerificationPassed)
		if row.first == rollout.JobSuccessful {
			first.Verification = rollout.VerificationRunning
		}
		add(&s, plan.Start[0], first)
		add(&s, plan.Start[1], second)
		for k := range s.Targets {
			if s.Targets[k].TargetID == plan.Start[0].TargetID && row.outdated > 0 {
				s.Targets[k].OutdatedAt = minute(row.outdated)
			}
		}
		for _, now := range []int{2, 3} { // whether the state has heard of it or not
			plan = mustPlan(t, set, s, minute(now))
			wait, _ := plan.Waiting.Of(s.Targets[0].TargetID)
			if len(wait.Blockers) == 0 || wait.Blockers[0].Data.Detail != row.detail {
				t.Errorf("%s: in minute %d: %s, want %q", row.why, now, wait, row.detail)
			}
			s.State = plan.State
		}
	}
}

// TestProgressionOutOfReachIsSo: where it is said that an operator is needed, successes without end
// do not let the version go on, not even those whose checks pass, and neither do the jobs that are
// at work or await their verification; where it is not said, they do, unless they get too old.
func TestProgressionOutOfReachIsSo(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(rt *rapid.T) {
		draw := func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(rt, label) }
		rules := []string{`{"id":"s","versionSelector":{"selector":"true"}}`}
		if draw(2, "retry") == 0 {
			rules = append(rules, fmt.Sprintf(`{"id":"r","retry":{"maxRetries":%d,"backoffSeconds":%d}}`, draw(3, "retries"), 120*draw(2, "backoff")))
		}
		if draw(3, "rollback") == 0 {
			rules = append(rules, `{"id":"b","rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`)
		}
		verifies := draw(2, "verifies") == 0
		ages, last := draw(4, "ages") == 0, minute(60)
		more := fmt.Sprintf(`"minimumSuccessPercentage":%d,"requireVerificationPassed":%t`, 25*draw(5, "percentage"), verifies)
		if ages {
			more, last = more+`,"maximumAgeHours":1,"minimumSoakTimeMinutes":60`, minute(130)
		}
		policies := progress(more)
		set := compile(t, "["+policies+`,{"name":"q","selector":"environment.id == 'staging'","rules":[`+strings.Join(rules, ",")+`]}]`)
		unsure := false // a job is at work whose end may take the target elsewhere
		lists := make([][]rollout.Job, 4)
		if ages {
			lists = lists[:1+draw(2, "more targets")]
		}
		for k := range lists {
			for at := range draw(4, "jobs") {
				one := ran([]string{"v1", "v2", "v2", "v2", "v3"}[draw(5, "version")], []rollout.JobStatus{rollout.JobFailure, rollout.JobFailure, rollout.JobCancelled, rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobInProgress}[draw(6, "status")], at)
				switch one.Status {
				case rollout.JobInProgress:
					one.CompletedAt = time.Time{}
				case rollout.JobSuccessful:
					one.Verification = []rollout.Verification{"", rollout.VerificationRunning, rollout.VerificationPassed, rollout.VerificationFailed}[draw(4, "verification")]
				}
				unsure = unsure || one.Status == rollout.JobInProgress && one.Version == "v1" || at > 0 && lists[k][at-1].Status == rollout.JobInProgress
				lists[k] = append(lists[k], one)
			}
		}
		s := staged(lists, nil)
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionPaused, CreatedAt: minute(0).Add(1), TargetSelector: "environment.id != 'prod'"})
		for k := range s.Targets {
			if draw(6, "outdated") == 0 {
				s.Targets[k].OutdatedAt = minute(2 + 3*draw(2, "when"))
			}
			if t := &s.Targets[k]; t.Environment == "staging" && draw(3, "adopted") == 0 {
				t.Current = "v2"
			}
		}
		for _, t := range s.Targets { // it may fail, and a rollback rule takes it back
			unsure = unsure || t.Current == "v2" && slices.ContainsFunc(t.Jobs, func(job rollout.Job) bool { return job.Version == "v3" })
		}
		unreachable, waits, starts, detail := false, false, false, ""
		world := fmt.Sprintf("policies %s, rules %s", policies, rules)
		for _, t := range s.Targets[1:] {
			world += fmt.Sprintf("; current %q, outdated at %v, jobs %v", t.Current, t.OutdatedAt, t.Jobs)
		}
		ends := minute(5 + 4*draw(2, "ends")) // when what is at work ends, and is verified
		fails := draw(3, "v3 fails") == 0
		outcome := func(version string) rollout.JobStatus {
			if fails && version == "v3" {
				return rollout.JobFailure
			}
			return rollout.JobSuccessful
		}
		for now := minute(4); now.Before(last); now = now.Add(time.Minute) {
			for k := range s.Targets {
				for j := range s.Targets[k].Jobs {
					one := &s.Targets[k].Jobs[j]
					if now.Before(ends) {
						continue
					}
					if one.Status == rollout.JobInProgress {
						if one.Status, one.CompletedAt = outcome(one.Version), now; one.Status == rollout.JobSuccessful {
							s.Targets[k].Current = one.Version
						}
					}
					if one.Status == rollout.JobSuccessful && one.Verification != rollout.VerificationFailed {
						one.Verification = rollout.VerificationPassed
					}
				}
			}
			plan, err := set.Plan(s, now)
			if err != nil {
				rt.Fatal(err)
			}
			if now.Equal(minute(4)) {
				wait, _ := plan.Waiting.Of(s.Targets[0].TargetID)
				for _, verdict := range wait.Blockers {
					if verdict.Reason == rollout.ReasonProgressionWaiting && wait.Version == "v2" {
						waits, detail = true, verdict.Data.Detail
						unreachable = slices.ContainsFunc(verdict.On, func(c rollout.Condition) bool { return c.Kind == rollout.OnOperator })
					}
				}
			}
			starts = starts || slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Environment == "prod" && s.Version == "v2" })
			if s.State, err = plan.Commit(plan.Start, now); err != nil {
				rt.Fatal(err)
			}
			for _, start := range plan.Start {
				one := job(start, now, outcome(start.Version))
				if one.Status == rollout.JobSuccessful {
					one.Verification = rollout.VerificationPassed
				}
				add(&s, start, one)
			}
		}
		if !waits {
			return
		}
		if unreachable && starts || !unreachable && !starts && !ages && !unsure && !fails {
			rt.Fatalf("an operator is said to be needed: %v (%s); without one it starts: %v; %s", unreachable, detail, starts, world)
		}
		if !unreachable {
			seen["nothing"]++
		}
		for _, word := range []string{"awaiting", "went on", "for good", "without a job", "too old"} {
			if strings.Contains(detail, word) {
				seen[word]++
			}
		}
	}, "nothing", "awaiting", "went on", "for good", "without a job", "too old")
}

// TestProgressionThreeStages: a version goes on from stage to stage, driven by nothing but Next and
// the ends of jobs.
func TestProgressionThreeStages(t *testing.T) {
	s := staged(times(2), times(2))
	set := compile(t, `[{"name":"prod","selector":"environment.id == 'prod'","rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSoakTimeMinutes":60}}]},
		{"name":"staging","selector":"environment.id == 'staging'","rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'qa'","minimumSoakTimeMinutes":30}}]}]`)
	var order []string
	for now := t0; !now.IsZero(); {
		plan := mustPlan(t, set, s, now)
		carryOut(t, &s, plan, now, rollout.JobSuccessful)
		for _, start := range plan.Start {
			order = append(order, fmt.Sprint(start.Resource, " ", now.Sub(t0).Minutes()))
		}
		if now = plan.Next; len(plan.Start) > 0 { // the end of a job is an event
			now = mustPlan(t, set, s, plan.Now).Next
		}
	}
	if want := []string{"qa0 0", "qa1 0", "staging0 30", "staging1 30", "prod0 90"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

// TestProgressionWithoutKey: an environment that lacks a key is told once, however many others ask,
// and not at all if nobody but itself would.
func TestProgressionWithoutKey(t *testing.T) {
	set := compile(t, policy(`{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.metadata['tier'] == '1'"}}`))
	for _, row := range []struct {
		why   string
		tiers map[string]string // of environments; empty: no such key
		want  []string
	}{
		{"two ask one without", map[string]string{"prod": "2", "dev": "", "staging": "1"}, []string{"missing_key [p/environmentProgression/0]: environment.metadata['tier'] (dev / api)"}},
		{"each of two without asks the other", map[string]string{"prod": "", "dev": "", "staging": "1"}, []string{"missing_key [p/environmentProgression/0]: environment.metadata['tier'] (2 times, such as prod / api)"}},
		{"it is alone", map[string]string{"prod": ""}, nil},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		if len(row.tiers) > 1 {
			s = inEnvironments(s, "dev", "staging")
		}
		for i := range s.Environments {
			if tier := row.tiers[s.Environments[i].ID]; tier != "" {
				s.Environments[i].Metadata = map[string]string{"tier": tier}
			}
		}
		var got []string
		for _, d := range mustPlan(t, set, s, t0).Diagnostics {
			got = append(got, d.String())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestProgressionNamesEveryEnvironment: whoever waits is woken by a success in any of the
// environments that the rule asks, also in one where the last success is too old: the next one is
// not.
func TestProgressionNamesEveryEnvironment(t *testing.T) {
	set := compile(t, `{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id != 'prod'","maximumAgeHours":1}}]}`)
	at := func(environment string, jobs ...rollout.Job) rollout.Target {
		return rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: environment, Deployment: "api"}, Jobs: jobs}
	}
	old := ran("v1", rollout.JobSuccessful, -100)
	for _, row := range []struct {
		why    string
		reason rollout.Reason
		qa     []rollout.Job
		want   string
	}{
		{"too old in one, waiting in the other", rollout.ReasonProgressionWaiting, nil, "[job api@v1/dev job api@v1/qa]"},
		{"too old in both", rollout.ReasonProgressionTooOld, []rollout.Job{old}, "[config @/ job api@v1/dev job api@v1/qa]"},
	} {
		s := rollout.Snapshot{
			Resources:    []rollout.Resource{{ID: "r1"}},
			Environments: []rollout.Environment{{ID: "dev"}, {ID: "prod"}, {ID: "qa"}},
			Deployments:  []rollout.Deployment{{ID: "api"}},
			Versions:     []rollout.Version{{ID: "v1", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(-200)}},
			Targets:      []rollout.Target{at("dev", old), at("qa", row.qa...), at("prod")},
		}
		plan := mustPlan(t, set, s, t0)
		waiting, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"})
		if len(waiting.Blockers) != 1 || waiting.Blockers[0].Reason != row.reason {
			t.Errorf("%s: waits for %v", row.why, waiting)
			continue
		}
		var on []string
		for _, c := range waiting.Blockers[0].On {
			on = append(on, fmt.Sprintf("%s %s@%s/%s", c.Kind, c.Deployment, c.Version, c.Environment))
		}
		if got := fmt.Sprint(on); got != row.want {
			t.Errorf("%s: on %s, want %s", row.why, got, row.want)
		}
	}
}

// TestNothingToProve: where a version is for no target of the environments before, the explanation says
// that nobody has proved it.
func TestNothingToProve(t *testing.T) {
	s := staged(times(2), nil)
	s.Versions[1].TargetSelector = "environment.id == 'prod'"
	either := replaced(progress(""), `"dependsOnEnvironmentSelector":"environment.id in ['staging','qa']"`)
	plan := mustPlan(t, compile(t, either), s, minute(10))
	e, err := plan.Explain(plan.Start[0].TargetID)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range e.Versions[0].Rules {
		if rule.Kind != rollout.KindProgression {
			continue
		}
		if !rule.Since.Equal(s.Versions[1].CreatedAt) || rule.Status != rollout.Allowed {
			t.Errorf("%+v", rule)
		}
		if got, want := rule.Verdict.String(), "rule_not_applicable: the version is for no target in qa or staging"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		return
	}
	t.Error("the rule is not listed")
}

// TestProgressionWakesForNothing: a change that outdates a target later is no instant to look again
// at, where the target gets a newer version: the old one, whose success in its environment the other
// target may wait for, is not run there again. (Found by TestReference, RAPID_SEED=251030: the question
// whether it is noted the instant.)
func TestProgressionWakesForNothing(t *testing.T) {
	for _, row := range []struct {
		why  string
		jobs []rollout.Job
		next time.Time
	}{
		{"it runs v1 without a job", nil, time.Time{}},
		{"v1 failed for good", []rollout.Job{ran("v1", rollout.JobFailure, -9)}, time.Time{}},
	} {
		s := rollout.Snapshot{
			Resources: []rollout.Resource{{ID: "r1"}}, Environments: []rollout.Environment{{ID: "prod"}, {ID: "staging"}}, Deployments: []rollout.Deployment{{ID: "api"}},
			Versions: []rollout.Version{{ID: "v1", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(-6)}, {ID: "v2", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(-6)}},
			Targets: []rollout.Target{{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}},
				{TargetID: rollout.TargetID{Resource: "r1", Environment: "staging", Deployment: "api"}, Current: "v1", OutdatedAt: minute(1), Jobs: row.jobs}},
		}
		plan := mustPlan(t, compile(t, `{"name":"P","selector":"environment.id == 'prod'","rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSuccessPercentage":0,"maximumAgeHours":1}}]}`), s, minute(-2))
		if len(plan.Start) != 1 || plan.Start[0].Environment != "staging" || plan.Start[0].Version != "v2" {
			t.Fatalf("%s: %v", row.why, plan)
		}
		if !plan.Next.Equal(row.next) {
			t.Errorf("%s: next is %v, want %v", row.why, plan.Next, row.next)
		}
	}
}
