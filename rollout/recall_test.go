package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// wentBack is a job by which a plan took a target back.
func wentBack(version string, status rollout.JobStatus, minutes int) rollout.Job {
	j := ran(version, status, minutes)
	j.Run = "r1/prod/api/" + version + "/2/rollback"
	return j
}

// TestRollbackOfAVersion: what becomes of a target whose version is taken back everywhere by its
// status. v0 to v2 are hours apart, and the rule takes back what is rejected.
func TestRollbackOfAVersion(t *testing.T) {
	const rule = `{"id":"x","rollback":{"onVersionStatuses":["rejected"]}}`
	ok, failure, running := rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress
	rejected := func(ids ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if slices.Contains(ids, s.Versions[i].ID) {
					s.Versions[i].Status = "rejected"
				}
			}
		}
	}
	overridden := func(change func(*rollout.Snapshot)) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			change(s)
			s.Overrides = append(s.Overrides, override("x", func(o *rollout.Override) { o.CreatedAt = minute(-1) }))
		}
	}
	atWork := rollout.Job{Version: "v2", Status: running, CreatedAt: minute(-5)}
	for _, row := range []struct {
		why, rules string
		jobs       []rollout.Job // oldest first
		change     func(*rollout.Snapshot)
		start      string // version and purpose
		waits      string
	}{
		{"it succeeded here", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, rejected("v2"), "v1 rollback", ""},
		{"it was begun here and failed, which alone triggers nothing", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, rejected("v2"), "v1 rollback", ""},
		{"whatever became of its job", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", rollout.JobCancelled, -5)}, rejected("v2"), "v1 rollback", ""},
		{"its job is at work, and awaited", rule, []rollout.Job{ran("v1", ok, -30), atWork}, rejected("v2"), "", "rollback_triggered x; target_busy"},
		{"it was never begun here", rule, []rollout.Job{ran("v1", ok, -30)}, rejected("v2"), "", "version_not_deployable"},
		{"another status takes nothing back", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, func(s *rollout.Snapshot) { s.Versions[2].Status = "withdrawn" }, "", ""},
		{"nor does a version that the target had before", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, rejected("v1"), "", ""},
		{"the one before is rejected, too: back to the one before that", rule, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", ok, -5)}, rejected("v1", "v2"), "v0 rollback", ""},
		{"it has begun a newer version since, and that failed: nobody knows what is there", rule, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", failure, -5)}, rejected("v1"), "", "retry_exhausted"},
		{"so that one is to be taken back, too", rule, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", failure, -5)}, rejected("v1", "v2"), "v0 rollback", ""},
		{"a newer version waits for a slot alone, and comes in its place", rule + `,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}`, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30)}, rejected("v1"), "", "slot_paused P"},
		{"a newer version waits for anything else", rule + `,{"id":"ok","versionSelector":{"selector":"version.id != 'v2'"}}`, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30)}, rejected("v1"), "v0 rollback", "selector_no_match ok"},
		{"there is none before", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, rejected("v1", "v2"), "", "rollback_triggered x"},
		{"what failed its verification before is no good if a rule says so", rule + `,{"id":"y","rollback":{"onVerificationFailure":true}}`,
			[]rollout.Job{ran("v0", ok, -60), verified(ran("v1", ok, -30), "failed"), ran("v2", ok, -5)}, rejected("v2"), "v0 rollback", ""},
		{"the host alone knows what ran before", rule, []rollout.Job{ran("v2", failure, -5)}, func(s *rollout.Snapshot) { rejected("v2")(s); s.Targets[0].Current = "v1" }, "v1 rollback", ""},
		{"and that is rejected, too", rule, []rollout.Job{ran("v2", failure, -5)}, func(s *rollout.Snapshot) { rejected("v1", "v2")(s); s.Targets[0].Current = "v1" }, "", "rollback_triggered x"},
		{"it runs here without a job: nobody knows what ran before", rule, []rollout.Job{ran("v1", ok, -30)}, func(s *rollout.Snapshot) { rejected("v2")(s); s.Targets[0].Current = "v2" }, "", "rollback_triggered x"},
		{"the way back is under way", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), wentBack("v1", running, -5)}, rejected("v2"), "", ""},
		{"the way back failed, and is not tried again", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), wentBack("v1", failure, -5)}, rejected("v2"), "", "rollback_failed x"},
		{"it went back", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), wentBack("v1", ok, -5)}, rejected("v2"), "", "rollback_triggered x"},
		{"what it went back to stays, also if that is rejected by then", rule, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", ok, -9), wentBack("v1", ok, -5)}, rejected("v1", "v2"), "", "rollback_triggered x"},
		{"it is ready again before anything went back", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, rejected(), "", ""},
		{"it is ready again only after that", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), wentBack("v1", ok, -5)}, rejected(), "", "rollback_triggered x"},
		{"an override brings it back then", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), wentBack("v1", ok, -5)}, overridden(rejected()), "v2 deploy", ""},
		{"an override keeps it where it is", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, overridden(rejected("v2")), "", ""},
		{"somebody went back by hand, and it is ready again: what was meant stays", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), ran("v1", ok, -5)}, rejected(), "", ""},
		{"a way back for another rule's job is that rule's", rule + `,{"id":"y","rollback":{"onJobStatuses":["failure"]}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), wentBack("v1", ok, -5)}, rejected(), "", "rollback_triggered y"},
		{"a rule that looks at jobs alone, and no longer at this one: it starts again", `{"id":"x","rollback":{"onJobStatuses":["cancelled"]}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), wentBack("v1", ok, -5)}, rejected(), "v2 deploy", ""},
		{"a newer version goes past", rule, []rollout.Job{ran("v0", ok, -30), ran("v1", ok, -5)}, rejected("v1"), "v2 deploy", ""},
		{"neither a window nor a cooldown holds it up", rule + "," + weekly("w", "01:00", "02:00", "") + `,{"versionCooldown":{"intervalSeconds":864000}}`,
			[]rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, rejected("v2"), "v1 rollback", ""},
		{"a freeze does", rule, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, func(s *rollout.Snapshot) { rejected("v2")(s); s.Freezes = []rollout.Freeze{freeze()} }, "", "frozen"},
		{"a full pool does", rule + `,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -5)}, rejected("v2"), "", "slot_paused P"},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(1, "", map[string][]string{"api": {"v0", "v1", "v2"}})
			s.Targets[0].Jobs = row.jobs
			row.change(&s)
			set := compile(t, policy(row.rules))
			plan := mustPlan(t, set, s, t0)
			start := ""
			for _, one := range plan.Start {
				start = one.Version + " " + string(one.Purpose)
			}
			if got := waits(plan); start != row.start || got != row.waits {
				t.Errorf("starts %q, waits for %q; want %q, %q", start, got, row.start, row.waits)
			}
			carryOut(t, &s, plan, t0, running)
			if again := mustPlan(t, set, s, t0.Add(time.Second)); len(again.Start) != 0 {
				t.Errorf("starts %q again", started(again))
			}
		})
	}
}

// TestRollbackOnFailureBudget: a version that fails on too many targets leaves all of them, as far as
// they have or have begun it, and does not come back once fewer have failed.
func TestRollbackOnFailureBudget(t *testing.T) {
	const rules = `{"id":"budget","failureBudget":{"maxFailures":1}},{"id":"x","rollback":{"onFailureBudget":true}}`
	ok, failure, running := rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress
	world := func() rollout.Snapshot {
		s := fleet(6, "", map[string][]string{"api": {"v1", "v2"}})
		for k, job := range []rollout.Job{ran("v2", failure, -9), ran("v2", failure, -8), ran("v2", ok, -7), {Version: "v2", Status: running, CreatedAt: minute(-6)}, {}, ran("v2", rollout.JobCancelled, -5)} {
			s.Targets[k].Jobs = append(s.Targets[k].Jobs, ran("v1", ok, -30))
			if job.Version != "" {
				s.Targets[k].Jobs = append(s.Targets[k].Jobs, job)
			}
		}
		return s
	}
	back := func(plan rollout.Plan) (list []string) {
		for _, start := range plan.Start {
			if start.Purpose == rollout.PurposeRollback {
				list = append(list, start.Resource+" "+start.Version)
			}
		}
		slices.Sort(list)
		return list
	}
	set := compile(t, policy(rules))
	s := world()
	plan := mustPlan(t, set, s, t0)
	if got, want := back(plan), []string{"r1 v1", "r2 v1", "r3 v1", "r6 v1"}; !slices.Equal(got, want) {
		t.Errorf("%q go back, want %q", got, want)
	}
	if got, want := blockers(plan), []string{"r4/api@v2: rollback_triggered target_busy", "r5/api@v2: failure_budget_exceeded"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for wait := range plan.Waiting.All() {
		if wait.Resource != "r4" {
			continue
		}
		own := wait.Blockers[0]
		if own.Rule != "x" || own.Data.Detail != "over failureBudget budget" || !slices.Equal(own.Data.Names, []string{"v1"}) {
			t.Errorf("%+v %+v", own, own.Data)
		}
		if !slices.ContainsFunc(own.On, func(on rollout.Condition) bool { return on.Kind == rollout.OnJob && on.Version == "v2" }) {
			t.Errorf("a success elsewhere is not named: %+v", own.On)
		}
	}

	// Under the same failures, without the budget's rule or with an override of it, nobody goes back.
	if got := back(mustPlan(t, compile(t, policy(strings.Replace(rules, `"maxFailures":1`, `"maxFailures":2`, 1))), s, t0)); got != nil {
		t.Errorf("within the budget: %q go back", got)
	}
	let := world()
	let.Overrides = []rollout.Override{override("budget", func(o *rollout.Override) { o.CreatedAt, o.Resource = minute(-1), "r3" })}
	if got, want := back(mustPlan(t, set, let, t0)), []string{"r1 v1", "r2 v1", "r6 v1"}; !slices.Equal(got, want) {
		t.Errorf("with an override of the budget on r3: %q go back, want %q", got, want)
	}

	// Everybody goes back. Then a host adds a success of v2 where it had failed, which brings the
	// version within its budget: it goes on where it has not been, and not where it was taken back.
	carryOut(t, &s, plan, t0, ok)
	s.Targets[3].Jobs[1].Status, s.Targets[3].Jobs[1].CompletedAt = ok, minute(1)
	plan = mustPlan(t, set, s, minute(2))
	if got, want := back(plan), []string{"r4 v1"}; !slices.Equal(got, want) {
		t.Errorf("%q go back, want %q", got, want)
	}
	for wait := range plan.Waiting.All() {
		if own := wait.Blockers[0]; wait.Resource == "r1" && len(own.On) != 2 {
			t.Errorf("a success elsewhere does not bring it back: %+v", own.On)
		}
	}
	carryOut(t, &s, plan, minute(2), ok)
	if plan = mustPlan(t, set, s, minute(3)); len(plan.Start) != 0 {
		t.Errorf("starts %q after all went back", started(plan))
	}
	s.Targets[0].Jobs = append(s.Targets[0].Jobs, ran("v2", ok, 4))
	plan = mustPlan(t, set, s, minute(5))
	if got, want := started(plan), []string{"r5/api@v2"}; !slices.Equal(got, want) {
		t.Errorf("starts %q within the budget, want %q", got, want)
	}
	if got, want := blockers(plan), []string{"r2/api@v2: rollback_triggered", "r3/api@v2: rollback_triggered", "r4/api@v2: rollback_triggered", "r6/api@v2: rollback_triggered"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestVersionStaysInItsBracket: a member that has succeeded keeps its version also when that is taken
// back, so nothing brings staging back to v1, and production is told that nobody proves it there any
// more. The same target outside a bracket goes back, and then runs v1 once more.
func TestVersionStaysInItsBracket(t *testing.T) {
	const rules = `{"id":"x","rollback":{"onVersionStatuses":["rejected"]}}`
	for _, row := range []struct {
		why, rules string
		jobs       []rollout.Job
		starts     string
		lost       bool
		ready      bool // it is not taken back
	}{
		{"outside brackets", rules, []rollout.Job{verified(ran("v1", rollout.JobSuccessful, -30), "failed"), ran("v2", rollout.JobSuccessful, -5)}, "v1", false, false},
		{"a member", rules + `,{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}`,
			[]rollout.Job{verified(ran("v1", rollout.JobSuccessful, -30), "failed"), ran("v2", rollout.JobSuccessful, -5)}, "", true, false},
		{"a member that its bracket took back", rules + `,{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}`,
			[]rollout.Job{verified(ran("v1", rollout.JobSuccessful, -30), "failed"), ran("v2", rollout.JobFailure, -9), verified(wentBack("v1", rollout.JobSuccessful, -5), "failed")}, "", true, false},
		{"a member that its bracket took back, from a version that may come again", rules + `,{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}`,
			[]rollout.Job{verified(ran("v1", rollout.JobSuccessful, -30), "failed"), ran("v2", rollout.JobFailure, -9), verified(wentBack("v1", rollout.JobSuccessful, -5), "failed")}, "v2", false, true},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v0", "v1", "v2"}})
		if !row.ready {
			s.Versions[2].Status = "rejected"
		}
		s.Environments = append(s.Environments, rollout.Environment{ID: "staging", Name: "staging"})
		own := s.Targets[0]
		own.Environment, own.Jobs = "staging", row.jobs
		s.Targets[0].Current = "v0"
		s.Targets = append(s.Targets, own)
		set := compile(t, `[{"id":"s","name":"s","selector":"environment.id == 'staging'","rules":[`+row.rules+`]},
			{"id":"p","name":"p","selector":"environment.id == 'prod'","rules":[{"id":"e","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","requireVerificationPassed":true}}]}]`)
		plan := mustPlan(t, set, s, t0)
		starts := ""
		for _, start := range plan.Start {
			starts += start.Version
		}
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		lost, asked := false, false
		for _, v := range e.Versions {
			for _, rule := range v.Rules {
				if v.Version == "v1" && rule.Kind == rollout.KindProgression {
					asked, lost = true, strings.Contains(rule.Data.Detail, "went on to a newer version")
				}
			}
		}
		if starts != row.starts || !asked || lost != row.lost {
			t.Errorf("%s: starts %q, lost is %v; want %q, %v\n%s", row.why, starts, lost, row.starts, row.lost, e)
		}
	}
}

// TestRollbackAsksNoMoreThanItNeeds: where a target's own job takes it back, the budget need not be
// asked, nor is there anything to wait for that would change its answer. (Found by TestReference,
// -rapid.seed=1178044: the plan was to be made again when a job of the future ends.)
func TestRollbackAsksNoMoreThanItNeeds(t *testing.T) {
	s := fleet(2, "", map[string][]string{"api": {"v1", "v2"}})
	late := ran("v2", rollout.JobFailure, -5)
	late.CompletedAt = minute(1)
	s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, -5)}
	s.Targets[1].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30), late}
	plan := mustPlan(t, compile(t, policy(`{"failureBudget":{"maxFailures":0}},{"rollback":{"onJobStatuses":["failure"],"onFailureBudget":true}}`)), s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v1", "r2/api@v1"}) || !plan.Next.IsZero() {
		t.Errorf("starts %q, next is %v", got, plan.Next)
	}
}

// TestVersionTakenBackInABracket: of a version that is taken back when the end of its run is seen, a
// member tries nothing again, and its bracket reacts to the failure. What has succeeded counts as a success, and the execution goes on.
func TestVersionTakenBackInABracket(t *testing.T) {
	const rules = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_all"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}},
		{"retry":{"maxRetries":5}},{"id":"x","rollback":{"onVersionStatuses":["rejected"]}}`
	for _, row := range []struct {
		why    string
		status rollout.JobStatus // of the job of a v2
		change func(*rollout.Snapshot)
		want   []string
	}{
		{"it failed, and is tried again", rollout.JobFailure, func(*rollout.Snapshot) {}, []string{"r1/a@v2"}},
		{"it failed and is rejected: the resource goes back", rollout.JobFailure, func(s *rollout.Snapshot) { s.Versions[1].Status = "rejected" }, []string{"r1/a@v1"}},
		{"an override of the rule has it tried again", rollout.JobFailure, func(s *rollout.Snapshot) {
			s.Versions[1].Status, s.Overrides = "rejected", []rollout.Override{override("x")}
		}, []string{"r1/a@v2"}},
		{"it succeeded and is rejected: the next member runs", rollout.JobSuccessful, func(s *rollout.Snapshot) { s.Versions[1].Status = "rejected" }, []string{"r1/b@v2"}},
		{"it failed and is deleted: nobody says that it is taken back", rollout.JobFailure, func(s *rollout.Snapshot) { s.Versions = slices.Delete(s.Versions, 1, 2) }, []string{"r1/a@v2"}},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		if s.Versions[1].Deployment != "a" || s.Versions[1].ID != "v2" {
			t.Fatalf("%v", s.Versions)
		}
		set := compile(t, policy(rules))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, row.status)
		row.change(&s)
		plan := mustPlan(t, set, s, minute(1))
		if got := started(plan); !slices.Equal(got, row.want) {
			t.Errorf("%s: starts %q, want %q; waits %q", row.why, got, row.want, blockers(plan))
		}
	}
}

// TestVersionComesBackByAnOverride: a version that an override of the rollback rule, or of the budget
// that it asks, has brought back leaves its target once more when the override expires and it is still
// taken back. Each run has an id of its own.
func TestVersionComesBackByAnOverride(t *testing.T) {
	ok, failure := rollout.JobSuccessful, rollout.JobFailure
	for _, row := range []struct {
		why, rules, overridden string
		meanwhile              func(*rollout.Snapshot)
		last                   []string // what starts when the override expires
	}{
		{"by its status", `{"id":"x","rollback":{"onVersionStatuses":["rejected"]}}`, "x", func(*rollout.Snapshot) {}, []string{"r1/prod/api/v1/3/rollback"}},
		{"by its status, which it has no longer", `{"id":"x","rollback":{"onVersionStatuses":["rejected"]}}`, "x", func(s *rollout.Snapshot) { s.Versions[1].Status = rollout.VersionReady }, nil},
		{"by its job, which succeeds meanwhile", `{"id":"x","rollback":{"onVerificationFailure":true}}`, "x", func(*rollout.Snapshot) {}, nil},
		{"by its job, which goes wrong once more", `{"id":"x","rollback":{"onVerificationFailure":true}}`, "x", func(s *rollout.Snapshot) {
			jobs := s.Targets[0].Jobs
			jobs[len(jobs)-1].Verification = rollout.VerificationFailed
		}, []string{"r1/prod/api/v1/3/rollback"}},
		{"by a budget", `{"id":"x","rollback":{"onFailureBudget":true}},{"id":"b","failureBudget":{"maxFailures":0}}`, "x", func(*rollout.Snapshot) {}, []string{"r1/prod/api/v1/3/rollback"}},
	} {
		s := fleet(2, "", map[string][]string{"api": {"v1", "v2"}})
		s.Versions[1].Status = "rejected"
		s.Targets[0].Jobs = []rollout.Job{ran("v1", ok, -30), verified(ran("v2", ok, -20), "failed")}
		s.Targets[1].Jobs = []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -20)}
		set := compile(t, policy(row.rules))
		at := t0
		next := func(want ...string) {
			t.Helper()
			plan := mustPlan(t, set, s, at)
			var runs []string
			for _, start := range plan.Start {
				if start.Resource == "r1" {
					runs = append(runs, start.Run)
				}
			}
			if !slices.Equal(runs, want) {
				t.Errorf("%s: %q start at %v, want %q", row.why, runs, at, want)
			}
			carryOut(t, &s, plan, at, ok)
			at = at.Add(time.Minute)
		}
		next("r1/prod/api/v1/2/rollback")
		next()
		s.Overrides = []rollout.Override{override(row.overridden, func(o *rollout.Override) { o.CreatedAt, o.ExpiresAt, o.Resource = at, minute(10), "r1" })}
		next("r1/prod/api/v2/2")
		row.meanwhile(&s)
		plan := mustPlan(t, set, s, at)
		if len(plan.Start) != 0 || !plan.Next.Equal(minute(10)) {
			t.Errorf("%s: starts %q while the override lasts, next is %v", row.why, started(plan), plan.Next)
		}
		at = minute(10)
		next(row.last...)
		next()
	}
}
