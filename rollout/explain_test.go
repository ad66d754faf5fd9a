package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestExplanationReads: the tree says everything that the data hold, and nothing that they do not.
func TestExplanationReads(t *testing.T) {
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.FixedZone("", 3600))
	rule := func(kind rollout.RuleKind, id string, v rollout.Verdict) rollout.RuleVerdict {
		v.Rule = id
		return rollout.RuleVerdict{Kind: kind, Verdict: v}
	}
	since := rule("anyApproval", "a", rollout.Verdict{Status: rollout.Allowed, Reason: rollout.ReasonAllowed})
	since.Since = now
	window := rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Until: now.Add(2 * time.Hour)}
	cooldown := rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonCooldown, Until: now.Add(time.Hour), Data: &rollout.Data{Names: []string{"v1"}}}
	shut := rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "api"}}, Data: &rollout.Data{Detail: "paused"}}
	e := rollout.Explanation{
		TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}, Now: now,
		Versions: []rollout.VersionExplanation{
			{Version: "v3", Tag: "v3", Prospect: rollout.ProspectWaits, Rules: []rollout.RuleVerdict{rule("version", "", shut)}},
			{Version: "v2", Tag: "2.0", Scoped: true, Prospect: rollout.ProspectWaits, Listed: true, Rules: []rollout.RuleVerdict{since, rule("deploymentWindow", "w", window), rule("versionCooldown", "c", cooldown)}},
			{Version: "v1", Prospect: rollout.ProspectOutOfScope},
			{Prospect: rollout.ProspectWaits, Rules: []rollout.RuleVerdict{rule("deploymentBracket", "b", rollout.Verdict{Status: rollout.Pending, Reason: rollout.Reason(bracket.ReasonHookWithoutVersion)})}},
		},
	}
	const versions = `  v3: waits
    └─ - version                version_not_deployable: paused, waits for a version of api  <- the release
  v2 (2.0), scoped: waits
    ├─ + anyApproval            allowed since 2026-03-10T08:00:00Z  [a]
    ├─ ~ deploymentWindow       window_closed until 2026-03-10T10:00:00Z  [w]  <- time
    └─ - versionCooldown        cooldown after v1 until 2026-03-10T09:00:00Z  [c]  <- time
       opens by itself at 2026-03-10T10:00:00Z
  v1: out of scope
  without version: waits
    └─ ~ deploymentBracket      bracket_hook_without_version  [b]`
	if got, want := e.String(), "r1 / prod / api at 2026-03-10T08:00:00Z\n  runs      nothing\n  policies  none\n"+versions; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	e.Current, e.Started, e.Policies, e.Bracket, e.Held = "v1", "v2", []string{"p", "q"}, "b", []rollout.Verdict{{Reason: rollout.ReasonSelectorError}}
	if got, want := e.String(), "r1 / prod / api at 2026-03-10T08:00:00Z\n  runs      v1\n  begun     v2\n  policies  p, q\n  bracket   b\n  held      selector_error\n"+versions; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	e.Group = "b/prod/2"
	e.Jobs = []rollout.Job{{Run: "b%2Fprod%2F2/r1/api/1/1/deploy", Version: "v2", Status: rollout.JobInProgress, CreatedAt: now}, {Version: "v1", CreatedAt: now.Add(-time.Hour)}}
	e.Stuck = []rollout.Stuck{{Resource: "r1", Group: "b/prod/2", Run: "b%2Fprod%2F2/r1/api/1/1/deploy", Since: now}, {Resource: "r1", Group: "b/prod/2", Pool: "P/zone/a", Since: now}}
	if got, want := e.String(), `
  begun     v2
  job       v2 inProgress since 2026-03-10T08:00:00Z as b%2Fprod%2F2/r1/api/1/1/deploy
  job       v1 without status since 2026-03-10T07:00:00Z
  stuck     b%2Fprod%2F2/r1/api/1/1/deploy is stuck since 2026-03-10T08:00:00Z
  stuck     the slot of b/prod/2 in P/zone/a is stuck since 2026-03-10T08:00:00Z: it is not free before its job has ended
  policies  p, q
  bracket   b
  group     b/prod/2
  held      selector_error
`; !strings.Contains(got, want) {
		t.Errorf("what is in progress has a line for each job: got\n%s\nwant\n%s", got, want)
	}

	e.Held[0] = rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonSelectorError, Rule: "q", On: []rollout.Condition{{Kind: rollout.OnConfig, Rule: "q"}}}
	if got, want := e.String(), "\n  held      selector_error, waits for a change of the policy  [q]  <- the policy owner\n"; !strings.Contains(got, want) {
		t.Errorf("what holds the target says whose it is and who can change it: got\n%s\nwant\n%s", got, want)
	}

	if v := e.Waits(); v != &e.Versions[1] {
		t.Errorf("the listed one waits: %+v", v)
	}
	e.Versions[1].Listed = false
	if v := e.Waits(); v != &e.Versions[0] {
		t.Errorf("none is listed, so the newest waits: %+v", v)
	}
	e.Versions = e.Versions[2:3]
	if v := e.Waits(); v != nil {
		t.Errorf("nobody waits: %+v", v)
	}
}

// prospects are the versions of an explanation with their prospects and the reasons why they wait.
func prospects(e rollout.Explanation) (list []string) {
	for _, v := range e.Versions {
		line := v.Version + " " + string(v.Prospect)
		for _, b := range v.Blockers() {
			line += " " + string(b.Reason)
		}
		list = append(list, line)
	}
	return list
}

// TestExplainTellsWhoIsChosen: the newest version that every rule allows is the one that asks for a
// slot. Nothing blocks those below it, and they do not wait for anything.
func TestExplainTellsWhoIsChosen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why      string
		rules    string
		resource string
		outdated bool
		want     []string
	}{
		{"what is blocked waits, though a newer one starts", `{"id":"s","versionSelector":{"selector":"version.tag != 'v2'"}}`, "r1", false, []string{"v3 starts", "v2 waits selector_no_match", "v1 kept"}},
		{"so does what runs and would be due again", `{"id":"r","retry":{"maxRetries":1,"backoffSeconds":60}}`, "failed", true, []string{"v3 starts", "v2 superseded", "v1 waits retry_backoff"}},
		{"a target that is held begins nothing, so that nothing is superseded", `{"id":"r","retry":{"maxRetries":1}}]},{"name":"q","selector":"int(resource.name) == 3","rules":[{"retry":{"maxRetries":1}}`, "r1", true,
			[]string{"v3 waits", "v2 waits", "v1 waits"}},
		{"it has its slot", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r1", false, []string{"v3 starts", "v2 superseded", "v1 kept"}},
		{"it waits for one", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", false, []string{"v3 waits slot_full", "v2 superseded", "v1 kept"}},
		{"the version that runs would be due again", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r1", true, []string{"v3 starts", "v2 superseded", "v1 superseded"}},
		{"also while it waits", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", true, []string{"v3 waits slot_full", "v2 superseded", "v1 superseded"}},
		{"an older one is chosen", `{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}}`, "r1", false, []string{"v3 waits selector_no_match", "v2 starts", "v1 kept"}},
		{"an older one is, and waits for a slot, which the plan does not list", `{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", false,
			[]string{"v3 waits selector_no_match", "v2 waits slot_full", "v1 kept"}},
		{"so does the one that runs, and is due again", `{"id":"s","versionSelector":{"selector":"version.tag == 'v1'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", true,
			[]string{"v3 waits selector_no_match", "v2 waits selector_no_match", "v1 waits slot_full"}},
		{"none is", `{"id":"s","versionSelector":{"selector":"version.tag == 'v1'"}}`, "r1", false, []string{"v3 waits selector_no_match", "v2 waits selector_no_match", "v1 kept"}},
	} {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
		if row.outdated {
			s.Targets[0].OutdatedAt, s.Targets[1].OutdatedAt = t0, t0
		}
		resource := row.resource
		if resource == "failed" {
			resource = "r1"
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: "v1", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0}}
		}
		plan := mustPlan(t, compile(t, "["+policy(row.rules)+"]"), s, t0)
		e, err := plan.Explain(rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "api"})
		if err != nil {
			t.Fatal(err)
		}
		if got := prospects(e); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestExplainTellsARollbackBesideANewerVersion: the plan lists what the newest version waits for,
// also while a rollback waits for its slot. Only the explanation tells that it does, so it must not
// leave out the version that the target goes back to.
func TestExplainTellsARollbackBesideANewerVersion(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"back","rollback":{"onJobStatuses":["failure"]}},{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for _, row := range []struct {
		why      string
		versions []string
		outdate  bool
		want     []string
	}{
		{"the way back is the newest that waits", []string{"v1", "v2"}, false, []string{"v2 waits rollback_triggered", "v1 waits slot_full"}},
		{"a newer version waits as well", []string{"v1", "v2", "v3"}, false, []string{"v3 waits selector_no_match", "v2 waits rollback_triggered", "v1 waits slot_full"}},
		{"it has gone back, and what it runs is to run again", []string{"v1", "v2", "v3"}, true, []string{"v3 waits selector_no_match", "v2 waits rollback_triggered", "v1 waits slot_full"}},
	} {
		s := fleet(2, "", map[string][]string{"api": row.versions})
		s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, 5)}
		s.Targets[1].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30), {Run: "r2/prod/api/v2/1", Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(5)}}
		if row.outdate {
			s.Targets[0].Jobs = append(s.Targets[0].Jobs, ran("v1", rollout.JobSuccessful, 6))
			s.Targets[0].OutdatedAt = minute(8)
		}
		plan := mustPlan(t, set, s, minute(9))
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if got := prospects(e); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestExplainTellsItsOwnSlotsAlone: two environments have an execution on one node, and the slots of
// both are stuck. A member that has not begun tells that of its own execution.
func TestExplainTellsItsOwnSlotsAlone(t *testing.T) {
	t.Parallel()
	own := func(environment string) string {
		return strings.ReplaceAll(`{"name":"ENV","selector":"environment.id == 'ENV'","rules":[{"id":"b-ENV","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
			{"id":"d-ENV","deploymentDependency":{"dependsOn":"deployment.id == 'api'","appliesTo":"deployment.id == 'web'"}}]}`, "ENV", environment)
	}
	set := compile(t, "["+own("prod")+","+own("qa")+`,{"name":"all","selector":"true","rules":[{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":2,"stuckAfterSeconds":60}}]}]`)
	s := inEnvironments(fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2"}}), "qa")
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	plan := mustPlan(t, set, s, minute(2))
	for environment, want := range map[string]string{"prod": "b-prod/prod/1", "qa": "b-qa/qa/1"} {
		e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: environment, Deployment: "web"})
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Stuck) < 2 || len(e.Stuck) != 1 || e.Stuck[0].Group != want || e.Stuck[0].Pool == "" {
			t.Errorf("%s tells %v of %v", environment, e.Stuck, plan.Stuck)
		}
	}
}

// TestExplainTellsWhatARollbackCameTo: the version that a target goes back to is listed while the
// rollback waits, so it is while the rollback runs, too, and afterwards, when the target keeps that
// version. Without it the only line says that a version waits, of a target that does not.
func TestExplainTellsWhatARollbackCameTo(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"back","rollback":{"onJobStatuses":["failure"]}}`))
	back := func(status rollout.JobStatus) rollout.Job {
		return rollout.Job{Run: "r1/prod/api/v1/2/rollback", Version: "v1", Status: status, CreatedAt: minute(6)}
	}
	for _, row := range []struct {
		why     string
		current string
		jobs    []rollout.Job
		want    []string
		says    string // the last line
	}{
		{"it runs", "", []rollout.Job{back(rollout.JobInProgress)}, []string{"v2 waits rollback_triggered target_busy", "v1 kept"}, "+ target                 started"},
		{"it has succeeded", "", []rollout.Job{back(rollout.JobSuccessful)}, []string{"v2 waits rollback_triggered", "v1 kept"}, "+ target                 current"},
		{"the host still calls the other one current", "v2", []rollout.Job{back(rollout.JobSuccessful)}, []string{"v2 waits rollback_triggered", "v1 kept"}, "+ target                 already_done"},
		{"the host went on from there", "v1b", []rollout.Job{back(rollout.JobSuccessful)}, []string{"v2 waits rollback_triggered", "v1b kept"}, "+ target                 current"},
		{"it has failed, so that nobody knows what is there", "", []rollout.Job{back(rollout.JobFailure)}, []string{"v2 waits rollback_failed"}, "an operator, the release"},
		{"it has failed, and the host went back by a job of its own", "", []rollout.Job{back(rollout.JobFailure), {Version: "v0", Status: rollout.JobSuccessful, CreatedAt: minute(7)}},
			[]string{"v2 waits rollback_triggered", "v0 kept"}, "+ target                 current"},
	} {
		s := fleet(1, row.current, map[string][]string{"api": {"v0", "v1", "v1b", "v2"}}) // v0 is older than all that the target had
		s.Targets[0].Jobs = append([]rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, 5)}, row.jobs...)
		plan := mustPlan(t, set, s, minute(9))
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if got := prospects(e); !slices.Equal(got, row.want) || !strings.HasSuffix(e.String(), row.says) {
			t.Errorf("%s: %q, want %q and %q\n%s", row.why, got, row.want, row.says, e)
		}
	}
}

// TestExplainTellsWhoWaitsOutOfTurn: whoever is chosen with an older version waits for its slot in
// the order of a rollout, which is not that of the targets. Each has the older version that is for
// it.
func TestExplainTellsWhoWaitsOutOfTurn(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":0}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s := fleet(8, "v0", map[string][]string{"api": {"v0", "v1", "v2", "v3"}})
	s.Versions[2].TargetSelector = "resource.id in ['r2', 'r5', 'r8']"
	plan := mustPlan(t, set, s, t0.Add(time.Hour))
	s.State = plan.State
	plan = mustPlan(t, set, s, t0.Add(2*time.Hour))
	for _, target := range s.Targets {
		e, err := plan.Explain(target.TargetID)
		if err != nil {
			t.Fatal(err)
		}
		older := e.Versions[1]
		if older.Prospect == rollout.ProspectOutOfScope {
			older = e.Versions[2]
		}
		if blockers := older.Blockers(); len(blockers) != 1 || blockers[0].Reason != "slot_paused" {
			t.Errorf("%s: %s: %+v", target.Resource, older.Version, blockers)
		}
	}
}

// TestExplainTellsWhatRuns: it is named also if the snapshot does not hold that version any more.
func TestExplainTellsWhatRuns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		current string
		jobs    []rollout.Job
		want    string
	}{
		{"nothing", "", nil, ""},
		{"what the host says", "v1", nil, "v1"},
		{"what it says, and nobody knows", "v0", nil, "v0"},
		{"what succeeded last", "", []rollout.Job{{Run: "3", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(-1)}, {Run: "2", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-2)}}, "v1"},
		{"what did, and nobody knows", "", []rollout.Job{{Run: "3", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(-1)}, {Run: "2", Version: "v0", Status: rollout.JobSuccessful, CreatedAt: minute(-2)}}, "v0"},
	} {
		s := fleet(1, row.current, map[string][]string{"api": {"v1", "v2"}})
		s.Targets[0].Jobs = row.jobs
		plan := mustPlan(t, compile(t, policy(`{"id":"r","retry":{"maxRetries":0}}`)), s, t0)
		if e, err := plan.Explain(s.Targets[0].TargetID); err != nil || e.Current != row.want {
			t.Errorf("%s: %q, %v", row.why, e.Current, err)
		}
	}
}

// TestExplainTellsWhatIsInProgress: the jobs of a target that have not ended, as which run and since
// when, and what of it is stuck. An explanation of a target at work said of all that only that its
// version was begun.
func TestExplainTellsWhatIsInProgress(t *testing.T) {
	t.Parallel()
	const pool = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":3,"stuckAfterSeconds":60}}`
	const both = `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","stuckAfterSeconds":120,"memberRoles":{"post":"deployment.name == 'b'"}}}`
	const run, slot = "B%2Fprod%2F1/r1/a/1/1/deploy is stuck since 2025-01-01T00:02:00Z", "the slot of B/prod/1 in P is stuck since 2025-01-01T00:01:00Z: it is not free before its job has ended"
	for _, row := range []struct {
		why, rules, deployment string
		status                 rollout.JobStatus // of all jobs that the first plan starts; empty: they are not to be seen
		now                    int
		more                   []rollout.Job // of the target, besides
		jobs, stuck            []string
	}{
		{why: "nothing runs", rules: pool, deployment: "c", status: rollout.JobSuccessful, now: 5},
		{why: "a job that waits for its agent is in progress, too", rules: pool, deployment: "c", status: rollout.JobQueued, now: 0, jobs: []string{"r1/prod/c/v2/1"}},
		{why: "so is one with a status that nobody knows", rules: pool, deployment: "c", status: "thinking", now: 0, jobs: []string{"r1/prod/c/v2/1"}},
		{why: "and what no plan started; the newest comes first", rules: pool, deployment: "c", status: rollout.JobInProgress, now: 0,
			more: []rollout.Job{{Version: "v1", Status: rollout.JobPending, CreatedAt: minute(-1)}, ran("v1", rollout.JobFailure, -5)}, jobs: []string{"r1/prod/c/v2/1", ""}},
		{why: "its slot is stuck, which is no other's concern", rules: pool, deployment: "c", status: rollout.JobInProgress, now: 1, jobs: []string{"r1/prod/c/v2/1"}, stuck: []string{"the slot of target/prod/c in P is stuck since 2025-01-01T00:01:00Z: it is not free before its job has ended"}},
		{why: "the slot of an execution is, and then the run of the member", rules: both + "," + pool, deployment: "a", status: rollout.JobInProgress, now: 2, jobs: []string{"B%2Fprod%2F1/r1/a/1/1/deploy"}, stuck: []string{slot, run}},
		{why: "a member that waits for the one that hangs has the slot in common with it, and not the run", rules: both + "," + pool, deployment: "b", status: rollout.JobInProgress, now: 2, stuck: []string{slot}},
		{why: "a target on the same resource outside of the bracket has neither", rules: both + "," + pool, deployment: "c", status: rollout.JobInProgress, now: 2, jobs: []string{"r1/prod/c/v2/1"}, stuck: []string{"the slot of target/prod/c in P is stuck since 2025-01-01T00:01:00Z: it is not free before its job has ended"}},
		{why: "a run whose job is not to be seen is stuck all the same", rules: both, deployment: "a", now: 2, stuck: []string{run}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
		set := compile(t, policy(row.rules))
		plan := mustPlan(t, set, s, t0)
		if row.status == "" {
			s.State = mustCommit(t, plan, t0)
		} else {
			carryOut(t, &s, plan, t0, row.status)
		}
		id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: row.deployment}
		for k := range s.Targets {
			if s.Targets[k].TargetID == id {
				s.Targets[k].Jobs = append(s.Targets[k].Jobs, row.more...)
			}
		}
		for k := range s.Targets { // the zone in which a host writes an instant, also for none, is not told
			for n := range s.Targets[k].Jobs {
				job := &s.Targets[k].Jobs[n]
				job.CreatedAt, job.CompletedAt = job.CreatedAt.In(time.FixedZone("", 3600)), job.CompletedAt.In(time.FixedZone("", -3600))
			}
		}
		plan = mustPlan(t, set, s, minute(row.now))
		e, err := plan.Explain(id)
		if err != nil {
			t.Fatal(err)
		}
		var jobs, stuck []string
		for _, job := range e.Jobs {
			jobs = append(jobs, job.Run)
			if job.CreatedAt.Location() != time.UTC || job.CompletedAt != (time.Time{}) {
				t.Errorf("%s: %+v", row.why, job)
			}
		}
		for _, one := range e.Stuck {
			stuck = append(stuck, strings.TrimPrefix(one.String(), "r1: "))
		}
		slices.Sort(stuck)
		slices.Sort(row.stuck)
		if !slices.Equal(jobs, row.jobs) || !slices.Equal(stuck, row.stuck) {
			t.Errorf("%s: jobs %q, stuck %q, want %q, %q\n%s\n%s", row.why, jobs, stuck, row.jobs, row.stuck, e, plan)
		}
	}
}

// TestExplainTellsTheGroupOfACommand: an operator's command names an execution by its group, which
// no answer about a target told.
func TestExplainTellsTheGroupOfACommand(t *testing.T) {
	t.Parallel()
	const rules = `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","memberRoles":{"post":"deployment.name == 'b'"}}}`
	for _, row := range []struct {
		why, deployment, want string
		status                rollout.JobStatus // of the first run; empty: it does not start
		gone                  bool              // the rule, by now
		deaf                  bool              // a command does nothing, for the run has not failed
	}{
		{why: "an execution that only could begin has nothing to be told yet", deployment: "a"},
		{why: "it is at work", deployment: "a", want: "B/prod/1", status: rollout.JobInProgress, deaf: true},
		{why: "it has failed, and holds", deployment: "a", want: "B/prod/1", status: rollout.JobFailure},
		{why: "of a member that waits for another one it is the same", deployment: "b", want: "B/prod/1", status: rollout.JobFailure},
		{why: "what is no member has none", deployment: "c", status: rollout.JobFailure},
		{why: "it goes on when its rule is gone", deployment: "a", want: "B/prod/1", status: rollout.JobFailure, gone: true},
	} {
		set, s := compile(t, policy(rules)), fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
		if row.status != "" {
			carryOut(t, &s, mustPlan(t, set, s, t0), t0, row.status)
		}
		if row.gone {
			set = compile(t, `[]`)
		}
		id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: row.deployment}
		plan := mustPlan(t, set, s, minute(1))
		e, err := plan.Explain(id)
		if err != nil || e.Group != row.want {
			t.Errorf("%s: %q, %v, want %q\n%s", row.why, e.Group, err, row.want, e)
		}
		if row.want == "" {
			continue
		}
		s.State, s.Commands = plan.State, []bracket.Command{{ID: "c", Kind: bracket.Retry, Group: e.Group, Resource: id.Resource, At: minute(1)}}
		again := mustPlan(t, set, s, minute(2))
		if heard := len(again.Diagnostics) == 0; heard == row.deaf {
			t.Errorf("%s: a command for it: %v\n%s", row.why, heard, again)
		}
	}
}

// TestExplainTellsWhyNothingIsToBeDone: a version is kept because it runs, because a job of it is
// at work, or because it was run again since the target was outdated.
func TestExplainTellsWhyNothingIsToBeDone(t *testing.T) {
	t.Parallel()
	job := func(status rollout.JobStatus, at time.Time) []rollout.Job {
		return []rollout.Job{{Run: "1", Version: "v1", Status: status, CreatedAt: at, CompletedAt: at}}
	}
	for _, row := range []struct {
		why      string
		current  string // as the host says
		outdated time.Time
		jobs     []rollout.Job
		want     rollout.Reason
	}{
		{"it runs", "v1", time.Time{}, job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonCurrent},
		{"it was run again at the very instant", "v1", t0.Add(-time.Hour), job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonAlreadyDone},
		{"it is being run again", "v1", t0.Add(-time.Hour), job(rollout.JobInProgress, t0.Add(-time.Minute)), rollout.ReasonStarted},
		{"it is to be run again", "v1", t0.Add(-time.Minute), job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonAllowed},
		{"it succeeded, and the host still calls the one before current", "v0", time.Time{}, job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonAlreadyDone},
		{"it runs, and the job at work is the host's own, of the version before", "v1", time.Time{},
			append(job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.Job{Version: "v0", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Minute)}), rollout.ReasonCurrent},
		{"it succeeded and was taken back, and the job at work is of the version before", "", time.Time{},
			append(job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.Job{Version: "v0", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-30 * time.Minute)},
				rollout.Job{Version: "v0", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Minute)}), rollout.ReasonAlreadyDone},
	} {
		s := fleet(1, row.current, map[string][]string{"api": {"v0", "v1"}})
		s.Targets[0].OutdatedAt, s.Targets[0].Jobs = row.outdated, row.jobs
		plan := mustPlan(t, compile(t, policy(`{"id":"r","retry":{"maxRetries":0}}`)), s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Versions[0]; !slices.ContainsFunc(v.Rules, func(r rollout.RuleVerdict) bool { return r.Reason == row.want }) || (v.Prospect == rollout.ProspectKept) != (row.want != rollout.ReasonAllowed) {
			t.Errorf("%s: want %s\n%s", row.why, row.want, e)
		}
	}
}

// TestExplainTellsAFirstDeployment: why a shut window does not hold a target that runs nothing yet.
func TestExplainTellsAFirstDeployment(t *testing.T) {
	t.Parallel()
	const first = "rule_not_applicable: a first deployment, which the rule lets past"
	for _, row := range []struct{ why, current, more, want string }{
		{"nothing runs", "", "", first},
		{"the same with the default written out", "", `"firstDeploy":"bypass"`, first},
		{"nothing runs, but the window applies", "", `"firstDeploy":"apply"`, "window_closed until 2025-01-01T09:00:00Z"},
		{"something runs", "v1", "", "window_closed until 2025-01-01T09:00:00Z"},
	} {
		s := fleet(1, row.current, map[string][]string{"api": {"v1", "v2"}})
		plan := mustPlan(t, compile(t, policy(weekly("w", "09:00", "17:00", row.more))), s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Versions[0].Rules; len(got) == 0 || !slices.ContainsFunc(got, func(r rollout.RuleVerdict) bool {
			return r.Kind == rollout.KindWindow && r.Verdict.String() == row.want
		}) {
			t.Errorf("%s: %v, want %s", row.why, got, row.want)
		}
	}
}

// TestExplainAsksNothingOfWhatIsKept: what a member of a bracket runs, or has begun, stays when its
// approval is taken back or it is withdrawn.
func TestExplainAsksNothingOfWhatIsKept(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"anyApproval":{"minApprovals":1}}`))
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: t0}}
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	for _, ended := range []bool{false, true} {
		if ended {
			x := &s.Targets[0]
			x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, minute(1), "v2"
			s.State = mustPlan(t, set, s, minute(1)).State
		}
		s.Approvals, s.Versions[1].Status = nil, rollout.VersionPaused
		plan := mustPlan(t, set, s, minute(2))
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Keep.Current+plan.Keep.Started != 1 || e.Versions[0].Version != "v2" || e.Versions[0].Prospect != rollout.ProspectKept || len(e.Versions[0].Blockers()) > 0 {
			t.Errorf("ended %v: keeps %+v\n%s", ended, plan.Keep, e)
		}
	}
}

// TestExplainTellsWhatIsBegun: the newest version of which there is a job, whatever became of it,
// unless what runs is as new.
func TestExplainTellsWhatIsBegun(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ why, current, version, want string }{
		{"nothing", "v1", "", ""},
		{"the first version there ever was", "", "v1", "v1"},
		{"a newer one", "v1", "v2", "v2"},
		{"the one that runs, once more", "v2", "v2", ""},
		{"an older one, by hand", "v2", "v1", ""},
		{"one that nobody knows", "v1", "v9", ""},
	} {
		s := fleet(1, row.current, map[string][]string{"api": {"v1", "v2"}})
		if row.version != "" {
			s.Targets[0].Jobs = []rollout.Job{{Run: "1", Version: row.version, Status: rollout.JobInProgress, CreatedAt: t0}}
		}
		plan := mustPlan(t, compile(t, policy(`{"id":"r","retry":{"maxRetries":0}}`)), s, t0)
		if e, err := plan.Explain(s.Targets[0].TargetID); err != nil || e.Started != row.want {
			t.Errorf("%s: begun %q, want %q, %v", row.why, e.Started, row.want, err)
		}
	}
}

// TestExplainOwnsItsLists: what holds a target is a list of the explanation's own. A program that
// edits it for display does not edit the plan.
func TestExplainOwnsItsLists(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"p","selector":"int(resource.name) > 1","rules":[{"retry":{"maxRetries":0}}]}]`)
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	before := blockers(plan)
	e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
	if err != nil || len(e.Held) != 1 || len(before) != 1 {
		t.Fatalf("%v, held by %v, waits %q", err, e.Held, before)
	}
	e.Held[0] = rollout.Verdict{}
	if after := blockers(plan); !slices.Equal(after, before) {
		t.Errorf("waits %q, before %q", after, before)
	}
}

// TestExplainUnknownTarget: whoever asks for what is not there is told so, whichever part of the
// name it is.
func TestExplainUnknownTarget(t *testing.T) {
	t.Parallel()
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}})
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r1" && t.Deployment == "db" })
	plan := mustPlan(t, compile(t, policy(weekly("w", "09:00", "17:00", ""))), s, t0)
	for _, id := range []rollout.TargetID{
		{}, {Resource: "gone", Environment: "prod", Deployment: "api"}, {Resource: "r1", Environment: "gone", Deployment: "api"}, {Resource: "r1", Environment: "prod", Deployment: "gone"},
		{Resource: "r1", Environment: "prod", Deployment: "db"}, {Resource: "r0", Environment: "prod", Deployment: "api"}, {Resource: "r1", Environment: "p", Deployment: "api"},
		{Resource: "r1", Environment: "prod", Deployment: "ap"},
	} {
		if e, err := plan.Explain(id); !errors.Is(err, rollout.ErrUnknownTarget) || len(e.Versions) > 0 {
			t.Errorf("%+v: %+v, %v", id, e, err)
		}
		if wait, waits := plan.Waiting.Of(id); waits {
			t.Errorf("%+v waits: %+v", id, wait)
		}
	}
}

// TestExplainMembers: what a group has locked, and what a member runs, is explained whatever is
// said of the version by now, also an older one that it goes back to; what the snapshot no longer
// holds is named.
func TestExplainMembers(t *testing.T) {
	t.Parallel()
	const rule = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_member"}}`
	const ordered = `,{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
	nowhere := func(s *rollout.Snapshot, id string) {
		for k := range s.Versions {
			if s.Versions[k].ID == id && s.Versions[k].Deployment == "b" {
				s.Versions[k].TargetSelector = "false"
			}
		}
	}
	vanish := func(s *rollout.Snapshot) {
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.ID == "v2" && v.Deployment == "b" })
	}
	for _, row := range []struct {
		why   string
		rules string
		ran   rollout.JobStatus // of a, which is first; empty: nothing was started
		edit  func(*rollout.Snapshot)
		of    string
		want  []string
	}{
		{"a goes back", rule, rollout.JobFailure, nil, "a", []string{"v2 waits bracket_ended", "v1 starts"}},
		{"b waits for a", rule, rollout.JobInProgress, nil, "b", []string{"v2 waits bracket_waits_for_members", "v1 kept"}},
		{"it does when its version is meant for others by now", rule, rollout.JobInProgress, func(s *rollout.Snapshot) { nowhere(s, "v2") }, "b", []string{"v2 waits bracket_waits_for_members", "v1 kept"}},
		{"and starts", rule, rollout.JobSuccessful, func(s *rollout.Snapshot) { nowhere(s, "v2") }, "b", []string{"v2 starts", "v1 kept"}},
		{"what it runs is kept when that is meant for others by now", rule, rollout.JobInProgress, func(s *rollout.Snapshot) { nowhere(s, "v1") }, "b", []string{"v2 waits bracket_waits_for_members", "v1 kept"}},
		{"so is what the host itself is running there", rule, "", func(s *rollout.Snapshot) {
			nowhere(s, "v2")
			s.Targets[1].Jobs = []rollout.Job{{Run: "own", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
		}, "b", []string{"v2 kept"}},
		{"but not what it ran in vain", rule, "", func(s *rollout.Snapshot) {
			nowhere(s, "v2")
			s.Targets[1].Jobs = []rollout.Job{{Run: "own", Version: "v2", Status: rollout.JobFailure, CreatedAt: t0}}
		}, "b", []string{"v2 out_of_scope"}},
		{"a version that is deleted while b waits for a", rule, rollout.JobInProgress, vanish, "b", []string{"v1 kept", "v2 waits bracket_waits_for_members"}},
		{"and when it starts", rule, rollout.JobSuccessful, vanish, "b", []string{"v1 kept", "v2 starts"}},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := compile(t, policy(row.rules+ordered))
		if row.ran != "" {
			carryOut(t, &s, mustPlan(t, set, s, t0), t0, row.ran)
		}
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, set, s, minute(1))
		e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: row.of})
		if err != nil {
			t.Fatal(err)
		}
		if got := prospects(e); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q; starts %q, waits %q\n%s", row.why, got, row.want, started(plan), blockers(plan), e)
		}
		for _, v := range e.Versions {
			if runs := "+ deploymentBracket      bracket_run  [b]"; (v.Prospect == rollout.ProspectStarts) != strings.Contains((&rollout.Explanation{Versions: []rollout.VersionExplanation{v}}).String(), runs) {
				t.Errorf("%s: who starts is told so by its bracket\n%s", row.why, e)
			}
		}
	}
}

// TestUntilAsksEveryBlocker: a version opens by itself only if time opens everything that blocks
// it, and then when the last has.
func TestUntilAsksEveryBlocker(t *testing.T) {
	blocked := func(until ...time.Time) *rollout.VersionExplanation {
		var v rollout.VersionExplanation
		for _, at := range until {
			v.Rules = append(v.Rules, rollout.RuleVerdict{Verdict: rollout.Verdict{Status: rollout.Pending, Until: at}})
		}
		return &v
	}
	for _, row := range []struct {
		why   string
		until []time.Time
		want  time.Time
	}{
		{"nothing blocks", nil, time.Time{}},
		{"the last counts", []time.Time{minute(2), minute(3), minute(1)}, minute(3)},
		{"one needs somebody", []time.Time{minute(2), {}}, time.Time{}},
		{"whichever it is", []time.Time{{}, minute(2)}, time.Time{}},
	} {
		if got := blocked(row.until...).Until(); !got.Equal(row.want) {
			t.Errorf("%s: %v, want %v", row.why, got, row.want)
		}
	}
}

// TestExplainDoesNotPromiseAnOpening: a version for which time alone does everything opens at an
// instant that is named, but no text says so if a window or an override may be over by then.
func TestExplainDoesNotPromiseAnOpening(t *testing.T) {
	t.Parallel()
	hour := func(at string) string {
		return weekly("W"+at, at+":00", at+":20", `"firstDeploy":"apply"`)
	}
	const retry, curve = `{"id":"R","retry":{"maxRetries":2,"backoffSeconds":5400}}`, `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":1800,"orderKey":"resource"}}`
	failed := []rollout.Job{{Version: "v1", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0}}
	override := func(rule string, expires time.Time) []rollout.Override {
		return []rollout.Override{{ID: "o", Rule: rule, Version: "v1", CreatedAt: t0, ExpiresAt: expires, CreatedBy: "ann", Reason: "INC-1"}}
	}
	for _, row := range []struct {
		why       string
		rules     string
		jobs      []rollout.Job
		overrides []rollout.Override
		want      string
		starts    bool // at that instant
	}{
		{why: "the backoff alone", rules: retry, jobs: failed, want: "opens by itself at 2025-01-01T01:30:00Z", starts: true},
		{why: "a window that opens last", rules: retry + "," + hour("02"), jobs: failed, want: "opens by itself at 2025-01-01T02:00:00Z", starts: true},
		{why: "a window that is over before the backoff is", rules: retry + "," + hour("01"), jobs: failed, want: "opens by itself not before 2025-01-01T01:30:00Z"},
		{why: "a window that is open now", rules: retry + "," + hour("00"), jobs: failed, want: "opens by itself not before 2025-01-01T01:30:00Z"},
		{why: "a window that somebody lets the version past for as long", rules: retry + "," + hour("03"), jobs: failed, overrides: override("W03", minute(120)), want: "opens by itself at 2025-01-01T01:30:00Z", starts: true},
		{why: "and not for as long", rules: retry + "," + hour("03"), jobs: failed, overrides: override("W03", minute(90)), want: "opens by itself not before 2025-01-01T01:30:00Z"},
		{why: "another rule, likewise", rules: curve + `,{"id":"A","anyApproval":{"minApprovals":1}}`, overrides: override("A", minute(30)), want: "opens by itself not before 2025-01-01T00:30:00Z"},
		{why: "a window that does not concern the target", rules: retry + "," + strings.Replace(hour("01"), "apply", "bypass", 1), jobs: failed, want: "opens by itself at 2025-01-01T01:30:00Z", starts: true},
	} {
		s := fleet(2, "", map[string][]string{"api": {"v1"}})
		for k := range s.Targets {
			s.Targets[k].Jobs = row.jobs
		}
		s.Overrides = row.overrides
		set := compile(t, policy(row.rules))
		plan := mustPlan(t, set, s, minute(5))
		k := slices.IndexFunc(s.Targets, func(target rollout.Target) bool { _, waits := plan.Waiting.Of(target.TargetID); return waits })
		e, err := plan.Explain(s.Targets[k].TargetID)
		if err != nil || !strings.Contains(e.String()+"\n", row.want+"\n") {
			t.Errorf("%s: want %q, got %v\n%s", row.why, row.want, err, e)
			continue
		}
		s.State = plan.State
		then := mustPlan(t, set, s, e.Waits().Until())
		if starts := slices.ContainsFunc(then.Start, func(start rollout.Start) bool { return start.TargetID == e.TargetID }); starts != row.starts {
			t.Errorf("%s: it starts then: %v, want %v", row.why, starts, row.starts)
		}
	}
}

// TestExplainDoesNotPromiseATurn: once a soak is over the curve starts, and the turn of the target
// has to come.
func TestExplainDoesNotPromiseATurn(t *testing.T) {
	t.Parallel()
	soak := `{"name":"p","selector":"environment.id == 'prod'","rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSoakTimeMinutes":30}}CURVE]}`
	for curve, want := range map[string]string{
		"": "opens by itself at 2025-01-01T00:35:00Z",
		`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`: "opens by itself not before 2025-01-01T00:35:00Z",
	} {
		s := inEnvironments(fleet(2, "", map[string][]string{"api": {"v1"}}), "staging")
		for k := range s.Targets {
			if s.Targets[k].Environment == "staging" {
				s.Targets[k].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, 5)}
			}
		}
		set := compile(t, strings.Replace(soak, "CURVE", curve, 1))
		plan := mustPlan(t, set, s, minute(10))
		if plan.Waiting.Len() != 2 {
			t.Fatalf("waits %q", blockers(plan))
		}
		for wait := range plan.Waiting.All() {
			if e, err := plan.Explain(wait.TargetID); err != nil || !strings.Contains(e.String()+"\n", want+"\n") {
				t.Errorf("want %q, got %v\n%s", want, err, e)
			}
		}
	}
}

// TestExplainDoesNotPromiseWhatABracketHasYetToSay: once a group has closed its turn has to come, and
// in its turn the members come one after the other; and no rule has been asked about a version of
// the future. So no text says that such a version opens when what is listed is over.
func TestExplainDoesNotPromiseWhatABracketHasYetToSay(t *testing.T) {
	t.Parallel()
	const (
		immediate = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.id == 'drain'"}}}`
		collected = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":600,"memberRoles":{"pre":"deployment.id == 'drain'"}}}`
		curve     = `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":1800,"orderKey":"resource_bracket"}}`
	)
	for _, row := range []struct {
		why        string
		rules      string
		deployment string
		created    time.Time // of v2
		failed     bool      // the job that the first plan starts
		want       string
		starts     bool // then
	}{
		{why: "a main member, which comes after the drain", rules: collected, deployment: "api", want: "not before 2025-01-01T00:10:00Z"},
		{why: "a main member in its turn", rules: immediate + "," + curve, deployment: "api", want: "not before 2025-01-01T00:30:00Z"},
		{why: "what was drained is finished", rules: immediate + `,{"id":"R","retry":{"maxRetries":2,"backoffSeconds":600}}`, deployment: "drain", failed: true, want: "at 2025-01-01T00:11:00Z", starts: true},
		{why: "a version of the future, which has to be approved", rules: `{"id":"A","anyApproval":{"minApprovals":1}}`, deployment: "api", created: minute(20), want: "not before 2025-01-01T00:20:00Z"},
	} {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "drain": {"v1"}})
		for k := range s.Versions {
			if v := &s.Versions[k]; v.ID == "v1" {
				v.CreatedAt = t0.Add(-time.Hour)
			} else {
				v.CreatedAt = t0
				if !row.created.IsZero() {
					v.CreatedAt = row.created
				}
			}
		}
		set, now := compile(t, policy(row.rules)), t0
		plan := mustPlan(t, set, s, now)
		if row.failed {
			s.State = mustCommit(t, plan, now)
			for _, start := range plan.Start {
				for k := range s.Targets {
					if s.Targets[k].TargetID == start.TargetID {
						s.Targets[k].Jobs = []rollout.Job{{Run: start.Run, Version: start.Version, Status: rollout.JobFailure, CreatedAt: now, CompletedAt: minute(1)}}
					}
				}
			}
			now = minute(1)
			plan = mustPlan(t, set, s, now)
		}
		k := slices.IndexFunc(s.Targets, func(target rollout.Target) bool {
			e, err := plan.Explain(target.TargetID)
			return err == nil && target.Deployment == row.deployment && len(e.Versions) > 0 && !e.Versions[0].Until().IsZero()
		})
		if k < 0 {
			t.Errorf("%s: nothing opens by itself: %v", row.why, &plan)
			continue
		}
		e, err := plan.Explain(s.Targets[k].TargetID)
		if err != nil || !strings.Contains(e.String()+"\n", "opens by itself "+row.want+"\n") {
			t.Errorf("%s: want %q, got %v\n%s", row.why, row.want, err, e)
		}
		s.State = plan.State
		then := mustPlan(t, set, s, e.Versions[0].Until())
		if starts := slices.ContainsFunc(then.Start, func(start rollout.Start) bool { return start.TargetID == e.TargetID }); starts != row.starts {
			t.Errorf("%s: it starts then: %v, want %v", row.why, starts, row.starts)
		}
	}
}

// TestExplainTellsWhichPoolIsOverridden: an override of one concurrency rule lets a version start,
// and the explanation does not say of the other pools, which have room, that somebody let it past
// them. An override for one member of a bracket is for its execution, whoever asks.
func TestExplainTellsWhichPoolIsOverridden(t *testing.T) {
	t.Parallel()
	const pools = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}},{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	for _, row := range []struct {
		why   string
		rules string
		of    string // the deployment of the override
		want  []string
	}{
		{"outside brackets", pools, "api", []string{"P overridden", "Q allowed"}},
		{"in a bracket, with an override for another member", `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + pools, "db", []string{"P overridden", "Q allowed"}},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2"}})
		s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Deployment: row.of, CreatedAt: t0, CreatedBy: "ann", Reason: "INC-1"}}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, minute(5))
		e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"})
		if err != nil || len(e.Versions) == 0 || e.Versions[0].Prospect != rollout.ProspectStarts {
			t.Errorf("%s: it does not start: %v\n%s", row.why, err, e)
			continue
		}
		var got []string
		for _, r := range e.Versions[0].Rules {
			if r.Kind == rollout.KindConcurrency {
				got = append(got, r.Rule+" "+string(r.Reason))
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestExplanationNamesTheHolders: the line of a pool names each resource once, in order, and ten of
// them at most. Who asks for the text changes nothing.
func TestExplanationNamesTheHolders(t *testing.T) {
	pool := func(down []string, held ...string) rollout.Pool {
		p := rollout.Pool{Key: "P/east", Active: 2, Max: 2, Unavailable: down}
		for _, id := range held {
			p.Holders = append(p.Holders, concurrency.Holder{Resource: id, Group: "g"})
		}
		return p
	}
	names := strings.Split("r01 r02 r03 r04 r05 r06 r07 r08 r09 r10 r11 r12", " ")
	for _, row := range []struct {
		why  string
		pool rollout.Pool
		want string
	}{
		{"nobody", pool(nil), "P/east: 2 of 2 active"},
		{"who is down and who holds a slot, in one order", pool([]string{"r2", "r4"}, "r1", "r3"), "P/east: 2 of 2 active: r1, r2, r3, r4"},
		{"who is down and holds one, and who holds two", pool([]string{"r1"}, "r1", "r2", "r2"), "P/east: 2 of 2 active: r1, r2"},
		{"who was given up holds it until somebody gives it back", rollout.Pool{Key: "P/east", Active: 1, Max: 1, Holders: []concurrency.Holder{{Resource: "r1", Group: "g"}},
			Quarantined: []concurrency.Holder{{Resource: "r1", Group: "g"}}}, "P/east: 1 of 1 active: r1 (quarantined)"},
		{"ten", pool(nil, names[:10]...), "P/east: 2 of 2 active: r01, r02, r03, r04, r05, r06, r07, r08, r09, r10"},
		{"twelve", pool(nil, names...), "P/east: 2 of 2 active: r01, r02, r03, r04, r05, r06, r07, r08, r09, r10 and 2 more"},
	} {
		row.pool.Unavailable = append(make([]string, 0, 16), row.pool.Unavailable...) // as it is in a plan: there is room behind it
		down := slices.Clone(row.pool.Unavailable)
		e := rollout.Explanation{Pools: []rollout.Pool{row.pool}}
		if text := e.String(); !strings.HasSuffix(text, "\n  pool      "+row.want) || !slices.Equal(e.Pools[0].Unavailable, down) {
			t.Errorf("%s: %s, down %q", row.why, text, e.Pools[0].Unavailable)
		}
	}
}

// TestExplainNamesPools: the pools that block, in the order of their keys, each with whoever holds
// a slot there or gets one in the plan, and with nobody else. A pool that only a rule of the host
// speaks of is left out.
func TestExplainNamesPools(t *testing.T) {
	t.Parallel()
	elsewhere := hostRule{"x", func(c rollout.Candidate) rollout.Verdict {
		if c.Target.Resource != "r4" {
			return rollout.Verdict{Status: rollout.Allowed}
		}
		return rollout.Verdict{Status: rollout.Pending, Reason: "busy_elsewhere", On: []rollout.Condition{{Kind: rollout.OnSlot, Pool: "Z"}, {Kind: rollout.OnSlot, Pool: "M"}, {Kind: rollout.OnSlot, Pool: "A"}}}
	}}
	limit := func(id, deployment string, n int) string {
		return fmt.Sprintf(`{"name":%q,"selector":"deployment.name == '%s'","rules":[{"id":%q,"resourceConcurrency":{"groupSelector":"true","limit":%d}}]}`, id, deployment, id, n)
	}
	set := compile(t, "["+limit("Z", "web", 2)+","+limit("A", "web", 2)+`,{"name":"r","selector":"true","rules":[{"retry":{"maxRetries":3}}]}]`, rollout.WithRule(elsewhere))
	s := fleet(5, "v1", map[string][]string{"db": {"v1", "v2"}, "web": {"v1", "v2"}})
	alone := s
	alone.Targets = []rollout.Target{s.Targets[slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r3" && t.Deployment == "web" })]}
	first := mustPlan(t, set, alone, t0)
	if got := started(first); !slices.Equal(got, []string{"r3/web@v2"}) {
		t.Fatalf("starts %q", got)
	}
	carryOut(t, &s, first, t0, rollout.JobFailure) // r3 keeps its slots, and starts once more
	plan := mustPlan(t, set, s, t0)
	before := fmt.Sprint(plan.Pools)
	for _, row := range []struct {
		resource string
		want     string
	}{
		{"r2", "A [r1 r3], Z [r1 r3]"},
		{"r5", "A [r1 r3], Z [r1 r3]"},
		{"r4", "A [r1 r3], Z [r1 r3]"},
	} {
		e, err := plan.Explain(rollout.TargetID{Resource: row.resource, Environment: "prod", Deployment: "web"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, pool := range e.Pools {
			var holders []string
			for _, h := range pool.Holders {
				holders = append(holders, h.Resource)
				if h.Group != "target/prod/web" {
					t.Errorf("%s: %+v", row.resource, h)
				}
			}
			got = append(got, fmt.Sprint(pool.Key, " ", holders))
		}
		if text := strings.Join(got, ", "); text != row.want {
			t.Errorf("%s: %q, want %q; starts %q, waits %q", row.resource, text, row.want, started(plan), blockers(plan))
		}
	}
	if after := fmt.Sprint(plan.Pools); after != before {
		t.Errorf("who asks changes the plan: %s, was %s", after, before)
	}
}

// TestActors: every condition is somebody's to open.
func TestActors(t *testing.T) {
	verdict := func(status rollout.VerdictStatus, until time.Time, kinds ...rollout.ConditionKind) rollout.Verdict {
		v := rollout.Verdict{Status: status, Until: until}
		for _, kind := range kinds {
			v.On = append(v.On, rollout.Condition{Kind: kind})
		}
		return v
	}
	for _, row := range []struct {
		why  string
		in   rollout.Verdict
		want []rollout.Actor
	}{
		{"nobody has to do anything for what is allowed", verdict(rollout.Allowed, t0, rollout.OnOperator), nil},
		{"time comes first", verdict(rollout.Pending, t0, rollout.OnApproval, rollout.OnVersion, rollout.OnConfig, rollout.OnOperator),
			[]rollout.Actor{rollout.ActorTime, rollout.ActorApprover, rollout.ActorPublish, rollout.ActorPolicy, rollout.ActorOperator}},
		{"all that runs is the fleet, said once", verdict(rollout.Denied, time.Time{}, rollout.OnJob, rollout.OnDependency, rollout.OnMember, rollout.OnExecutionEnd, rollout.OnSlot),
			[]rollout.Actor{rollout.ActorFleet}},
		{"no job that ends opens the next group: a version does", verdict(rollout.Pending, time.Time{}, rollout.OnGroupClose), []rollout.Actor{rollout.ActorPublish}},
		{"an execution that has failed may not end by itself", rollout.Verdict{Status: rollout.Pending, Reason: "bracket_queued", On: []rollout.Condition{{Kind: rollout.OnExecutionEnd}},
			Data: &rollout.Data{Names: []string{"kubelet"}}}, []rollout.Actor{rollout.ActorFleet, rollout.ActorOperator}},
		{"one of which no member has failed does", rollout.Verdict{Status: rollout.Pending, Reason: "bracket_queued", On: []rollout.Condition{{Kind: rollout.OnExecutionEnd}},
			Data: &rollout.Data{}}, []rollout.Actor{rollout.ActorFleet}},
		{"nothing is known to help", verdict(rollout.Denied, time.Time{}), nil},
	} {
		if got := row.in.Actors(); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestChangesRead: what changed, in one line per target.
func TestChangesRead(t *testing.T) {
	id := func(resource string) rollout.TargetID {
		return rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "api"}
	}
	wait := func(resource, version string, reasons ...rollout.Reason) rollout.Waiting {
		w := rollout.Waiting{TargetID: id(resource), Version: version}
		for _, r := range reasons {
			w.Blockers = append(w.Blockers, rollout.Verdict{Reason: r, Data: &rollout.Data{Attempt: len(version)}})
		}
		return w
	}
	start := func(resource, version string) rollout.Start {
		return rollout.Start{TargetID: id(resource), Version: version}
	}
	before := rollout.Plan{
		Waiting: rollout.NewWaitingList(wait("r2", "v2", rollout.ReasonWindowClosed, rollout.ReasonTargetBusy), wait("r3", "v2", rollout.ReasonWindowClosed), wait("r4", "", rollout.ReasonSelectorError)),
		Start:   []rollout.Start{start("r1", "v2")},
	}
	after := rollout.Plan{
		Waiting: rollout.NewWaitingList(wait("r3", "v2", rollout.ReasonWindowClosed), wait("r4", "v2", rollout.ReasonSelectorError), wait("r5", "v3", rollout.ReasonWindowClosed)),
		Start:   []rollout.Start{start("r2", "v2"), start("r5", "v2")},
	}
	for _, row := range []struct {
		why           string
		before, after rollout.Plan
		want          []string
	}{
		{"nothing", before, before, nil},
		{"who started, who starts now, who waits with another version, and who waits for a newer one while an older one starts", before, after, []string{
			"r1 / prod / api: starts v2 -> nothing to do",
			"r2 / prod / api: v2 waits: window_closed; target_busy -> starts v2",
			"r4 / prod / api: waits: selector_error -> v2 waits: selector_error",
			"r5 / prod / api: nothing to do -> starts v2, v3 waits: window_closed",
		}},
		{"all are new", rollout.Plan{}, rollout.Plan{Start: []rollout.Start{start("r1", "v2")}}, []string{"r1 / prod / api: nothing to do -> starts v2"}},
		{"all are done", rollout.Plan{Start: []rollout.Start{start("r1", "v2")}}, rollout.Plan{}, []string{"r1 / prod / api: starts v2 -> nothing to do"}},
		{"another version starts", rollout.Plan{Start: []rollout.Start{start("r1", "v2")}}, rollout.Plan{Start: []rollout.Start{start("r1", "v3")}}, []string{"r1 / prod / api: starts v2 -> starts v3"}},
	} {
		var got []string
		for _, c := range row.after.Changes(&row.before) {
			got = append(got, c.String())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s:\n%s\nwant\n%s", row.why, strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
}

// TestExplainSharesPools: whoever asks for thousands that wait for one pool has it described once,
// with those who start among its holders.
func TestExplainSharesPools(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`))
	plan := mustPlan(t, set, fleet(4, "v1", map[string][]string{"web": {"v1", "v2"}}), t0)
	var first *concurrency.Holder
	for _, id := range []string{"r3", "r4"} {
		e, err := plan.Explain(rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"})
		if err != nil || len(e.Pools) != 1 || len(e.Pools[0].Holders) != 2 || e.Pools[0].Holders[0].Resource != "r1" || e.Pools[0].Holders[1].Resource != "r2" {
			t.Fatalf("%s: %+v, %v", id, e.Pools, err)
		}
		if first == nil {
			first = &e.Pools[0].Holders[0]
		}
		if first != &e.Pools[0].Holders[0] {
			t.Errorf("%s has a list of its own", id)
		}
	}
	if len(plan.Pools[0].Holders) != 0 {
		t.Errorf("the plan has got holders: %+v", plan.Pools[0])
	}
}

// TestExplainPoolOfOwnStarts: who starts in the plan is among the holders of the pools that the
// start has claimed, and of no other.
func TestExplainPoolOfOwnStarts(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']"}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"zone": []string{"x", "y", "y"}[k]}
	}
	plan := mustPlan(t, set, s, t0)
	e, err := plan.Explain(rollout.TargetID{Resource: "r3", Environment: "prod", Deployment: "a"})
	if err != nil || len(plan.Start) != 2 || len(e.Pools) != 1 || len(e.Pools[0].Holders) != 1 || e.Pools[0].Holders[0].Resource != "r2" {
		t.Errorf("%v, starts %q, %+v", err, started(plan), e.Pools)
	}
}

// TestExplainPoolOfStartsWhereItIsDown: a start on a resource that is down takes no further place,
// but its holder is among those of the pool.
func TestExplainPoolOfStartsWhereItIsDown(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Unavailable = []string{"r1"}
	plan := mustPlan(t, set, s, t0)
	e, err := plan.Explain(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"})
	if got := started(plan); err != nil || !slices.Equal(got, []string{"r1/a@v2"}) || len(e.Pools) != 1 {
		t.Fatalf("%v, starts %q, %+v", err, got, e.Pools)
	}
	if p := e.Pools[0]; p.Active != 1 || !slices.Equal(p.Unavailable, []string{"r1"}) || len(p.Holders) != 1 || p.Holders[0].Resource != "r1" {
		t.Errorf("%+v", p)
	}
}

// TestRuleVerdictReads: a rule's verdict says which rule gave it.
func TestRuleVerdictReads(t *testing.T) {
	for want, own := range map[string]rollout.RuleVerdict{
		"versionCooldown: cooldown [c]": {Kind: rollout.KindCooldown, Verdict: rollout.Verdict{Reason: rollout.ReasonCooldown, Rule: "c"}},
		"target: current":               {Kind: "target", Verdict: rollout.Verdict{Reason: rollout.ReasonCurrent}},
	} {
		if got := own.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
