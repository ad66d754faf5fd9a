package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestChoose decides about a single target under one policy each time.
func TestChoose(t *testing.T) {
	minute := time.Minute
	failed := func(version string, at time.Duration) rollout.Job {
		return rollout.Job{Version: version, Status: rollout.JobFailure, CreatedAt: t0.Add(at), CompletedAt: t0.Add(at)}
	}
	succeeded := func(version string, at time.Duration) rollout.Job {
		return rollout.Job{Version: version, Status: rollout.JobSuccessful, CreatedAt: t0.Add(at), CompletedAt: t0.Add(at)}
	}
	with := func(j rollout.Job, status rollout.JobStatus) rollout.Job { j.Status = status; return j }
	for _, row := range []struct {
		why      string
		rules    string // of the policy; empty: no policy at all
		versions []string
		status   map[string]rollout.VersionStatus
		current  string
		jobs     []rollout.Job
		outdated time.Duration // after t0
		approved []time.Duration
		at       time.Duration // now, after t0
		start    string
		wait     string
		next     time.Duration
	}{
		{why: "without a policy the newest version starts", versions: []string{"v1", "v2"}, current: "v1", start: "r1/api@v2"},
		{why: "an empty target gets the newest version", versions: []string{"v1", "v2"}, start: "r1/api@v2"},
		{why: "nothing newer: nothing to do", versions: []string{"v1", "v2"}, current: "v2"},
		{why: "no versions at all", versions: nil},
		{why: "an older version is never chosen", versions: []string{"v1", "v2"}, current: "v2", status: map[string]rollout.VersionStatus{"v2": "rejected"}},
		{why: "the newest allowed one is chosen, the newest is explained", versions: []string{"v1", "v2", "v3"}, current: "v1",
			status: map[string]rollout.VersionStatus{"v3": "building"}, start: "r1/api@v2", wait: "r1/api@v3: version_not_deployable"},
		{why: "an unknown status is not deployable", versions: []string{"v1", "v2"}, current: "v1", status: map[string]rollout.VersionStatus{"v2": ""}, wait: "r1/api@v2: version_not_deployable"},
		{why: "a paused version does not start where it is new", versions: []string{"v1", "v2"}, current: "v1",
			status: map[string]rollout.VersionStatus{"v2": rollout.VersionPaused}, wait: "r1/api@v2: version_not_deployable"},
		{why: "a paused version that was started is tried again", rules: `{"retry":{"maxRetries":1}}`, versions: []string{"v1", "v2"}, current: "v1",
			status: map[string]rollout.VersionStatus{"v2": rollout.VersionPaused}, jobs: []rollout.Job{failed("v2", minute)}, at: minute, start: "r1/api@v2"},
		{why: "a failed version is not tried again without a retry rule, and an older one does not take its place",
			versions: []string{"v1", "v2"}, jobs: []rollout.Job{succeeded("v1", 0), failed("v2", minute)}, at: minute, wait: "r1/api@v2: retry_exhausted"},
		{why: "a newer version supersedes the failed one", versions: []string{"v1", "v2", "v3"}, jobs: []rollout.Job{succeeded("v1", 0), failed("v2", minute)}, at: minute, start: "r1/api@v3"},
		{why: "backoff counts from the end of the attempt", rules: `{"retry":{"maxRetries":3,"backoffSeconds":60}}`, versions: []string{"v1"},
			jobs: []rollout.Job{failed("v1", minute)}, at: minute, wait: "r1/api@v1: retry_backoff", next: 2 * minute},
		{why: "and is over exactly at its end", rules: `{"retry":{"maxRetries":3,"backoffSeconds":60}}`, versions: []string{"v1"},
			jobs: []rollout.Job{failed("v1", minute)}, at: 2 * minute, start: "r1/api@v1"},
		{why: "the smallest number of retries counts", rules: `{"retry":{"maxRetries":3}},{"retry":{"maxRetries":0}}`, versions: []string{"v1"},
			jobs: []rollout.Job{failed("v1", minute)}, at: minute, wait: "r1/api@v1: retry_exhausted"},
		{why: "and the longest delay, with each rule until its own is over", rules: `{"retry":{"maxRetries":3,"backoffSeconds":60}},{"retry":{"maxRetries":3,"backoffSeconds":120}}`, versions: []string{"v1"},
			jobs: []rollout.Job{failed("v1", minute)}, at: minute, wait: "r1/api@v1: retry_backoff retry_backoff", next: 2 * minute},
		{why: "a job of another version ends the row of attempts", rules: `{"retry":{"maxRetries":1}}`, versions: []string{"v1", "v2"},
			jobs: []rollout.Job{failed("v2", minute), succeeded("v1", 2*minute), failed("v2", 3*minute)}, at: 3 * minute, start: "r1/api@v2"},
		{why: "a cancelled job is one if the rule names that status, so that an operator can stop a version", rules: `{"retry":{"maxRetries":0,"retryOnStatuses":["failure","cancelled"]}}`, versions: []string{"v1"},
			jobs: []rollout.Job{with(failed("v1", minute), rollout.JobCancelled)}, at: minute, wait: "r1/api@v1: retry_exhausted"},
		{why: "a cancelled job is no attempt", rules: `{"retry":{"maxRetries":0}}`, versions: []string{"v1"},
			jobs: []rollout.Job{with(failed("v1", minute), rollout.JobCancelled)}, at: minute, start: "r1/api@v1"},
		{why: "and it ends the row of those before", rules: `{"retry":{"maxRetries":1}}`, versions: []string{"v1"},
			jobs: []rollout.Job{failed("v1", minute), with(failed("v1", 2*minute), rollout.JobCancelled), failed("v1", 3*minute)}, at: 3 * minute, start: "r1/api@v1"},
		{why: "nor is a skipped one", rules: `{"retry":{"maxRetries":0}}`, versions: []string{"v1"},
			jobs: []rollout.Job{with(failed("v1", minute), rollout.JobSkipped)}, at: minute, start: "r1/api@v1"},
		{why: "a success is not repeated, whatever the rule", rules: `{"retry":{"maxRetries":9}}`, versions: []string{"v1"}, jobs: []rollout.Job{succeeded("v1", 0)}},
		{why: "a target that became outdated is run again", versions: []string{"v1"}, jobs: []rollout.Job{succeeded("v1", 0)}, outdated: minute, at: minute, start: "r1/api@v1"},
		{why: "but not before it is", versions: []string{"v1"}, jobs: []rollout.Job{succeeded("v1", 0)}, outdated: 2 * minute, at: minute, next: 2 * minute},
		{why: "and not twice", versions: []string{"v1"}, jobs: []rollout.Job{succeeded("v1", 0), succeeded("v1", 2*minute)}, outdated: minute, at: 2 * minute},
		{why: "a run that began before it and ended after it is not enough", versions: []string{"v1"}, outdated: minute, at: 2 * minute, start: "r1/api@v1",
			jobs: []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0, CompletedAt: t0.Add(2 * minute)}}},
		{why: "a job in progress is left alone", versions: []string{"v1"}, jobs: []rollout.Job{with(failed("v1", 0), rollout.JobInProgress)}},
		{why: "a status nobody knows is active", versions: []string{"v1"}, jobs: []rollout.Job{with(failed("v1", 0), "warming-up")}},
		{why: "a newer version waits for the job of an older one", versions: []string{"v1", "v2"}, jobs: []rollout.Job{with(failed("v1", 0), rollout.JobQueued)}, wait: "r1/api@v2: target_busy"},
		{why: "a current version that nobody knows holds the target", versions: []string{"v1"}, current: "gone", wait: "r1/api@: version_unknown"},
		{why: "a version from the future does not exist yet", versions: []string{"v1", "v2"}, current: "v1", at: -time.Second, next: 0},
		{why: "a version selector denies", rules: `{"versionSelector":{"selector":"version.tag == 'v1'"}}`, versions: []string{"v1", "v2"}, current: "v1", wait: "r1/api@v2: selector_no_match"},
		{why: "a missing key denies and says so", rules: `{"versionSelector":{"selector":"version.metadata['stable'] == 'yes'"}}`, versions: []string{"v1"}, wait: "r1/api@v1: selector_missing_key"},
		{why: "an evaluation error denies and says so", rules: `{"versionSelector":{"selector":"int(version.tag) > 1"}}`, versions: []string{"v1"}, wait: "r1/api@v1: selector_error"},
		{why: "a version selector may look at the resource", rules: `{"versionSelector":{"selector":"resource.kind == 'VM' || version.tag == 'v1'"}}`, versions: []string{"v1", "v2"}, wait: "r1/api@v2: selector_no_match", start: "r1/api@v1"},
		{why: "all blockers are returned, in the order of the chain",
			rules:    `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}},{"anyApproval":{"minApprovals":1}},{"versionSelector":{"selector":"version.tag == 'v9'"}}`,
			versions: []string{"v1"}, status: map[string]rollout.VersionStatus{"v1": "paused"},
			wait: "r1/api@v1: version_not_deployable selector_no_match approval_missing rollout_not_started"},
		{why: "also where a version selector is asked per resource",
			rules:    `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}},{"anyApproval":{"minApprovals":1}},{"versionSelector":{"selector":"resource.kind == 'VM'"}}`,
			versions: []string{"v1"}, wait: "r1/api@v1: selector_no_match approval_missing rollout_not_started"},
		{why: "which is asked after the status of the version and the selectors that are asked once",
			rules:    `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}},{"anyApproval":{"minApprovals":1}},{"versionSelector":{"selector":"int(version.tag) > 1"}},{"versionSelector":{"selector":"resource.kind == 'VM'"}}`,
			versions: []string{"v1"}, status: map[string]rollout.VersionStatus{"v1": "paused"},
			wait: "r1/api@v1: version_not_deployable selector_error selector_no_match approval_missing rollout_not_started"},
		{why: "enough approvals", rules: `{"anyApproval":{"minApprovals":2}}`, versions: []string{"v1"}, approved: []time.Duration{0, minute}, at: minute, start: "r1/api@v1"},
		{why: "an approval from the future counts when its time has come", rules: `{"anyApproval":{"minApprovals":2}}`, versions: []string{"v1"},
			approved: []time.Duration{0, minute}, at: 0, wait: "r1/api@v1: approval_missing", next: minute},
		{why: "nobody needs to approve", rules: `{"anyApproval":{"minApprovals":0}}`, versions: []string{"v1"}, start: "r1/api@v1"},
		{why: "versions from before the rule need no approval", rules: `{"createdAt":"2025-01-02T00:00:00Z","anyApproval":{"minApprovals":1}}`, versions: []string{"v1"}, start: "r1/api@v1"},
		{why: "two approval rules, one unmet: no start, and the curve does not run", rules: `{"anyApproval":{"minApprovals":1}},{"anyApproval":{"minApprovals":2}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`,
			versions: []string{"v1"}, approved: []time.Duration{0}, at: time.Hour, wait: "r1/api@v1: approval_missing rollout_not_started"},
	} {
		s := fleet(1, row.current, map[string][]string{"api": row.versions})
		for i := range s.Versions {
			if status, ok := row.status[s.Versions[i].ID]; ok {
				s.Versions[i].Status = status
			}
		}
		s.Targets[0].Jobs = row.jobs
		if row.outdated != 0 {
			s.Targets[0].OutdatedAt = t0.Add(row.outdated)
		}
		for i, at := range row.approved {
			v := s.Versions[len(s.Versions)-1].ID
			s.Approvals = append(s.Approvals, rollout.Approval{Version: v, Deployment: "api", Environment: "prod", By: fmt.Sprint("a", i), Status: rollout.Approved, At: t0.Add(at)})
		}
		policies := "[]"
		if row.rules != "" {
			policies = policy(row.rules)
		}
		now := t0.Add(row.at)
		plan := mustPlan(t, compile(t, policies), s, now)
		var start, wait []string
		if row.start != "" {
			start = []string{row.start}
		}
		if row.wait != "" {
			wait = []string{row.wait}
		}
		if got := started(plan); !slices.Equal(got, start) {
			t.Errorf("%s: starts %q, want %q", row.why, got, start)
		}
		if got := blockers(plan); !slices.Equal(got, wait) {
			t.Errorf("%s: waits %q, want %q", row.why, got, wait)
		}
		next := time.Time{}
		if row.next != 0 || row.at < 0 {
			next = t0.Add(row.next)
		}
		if !plan.Next.Equal(next) {
			t.Errorf("%s: next %v, want %v", row.why, plan.Next, next)
		}
	}
}

// TestEventsOfARolloutThatHasNotStarted: a curve waits for the events of all gates that are shut, and
// an event that opens several of them is one event. Gates that are no gates of the curve, and open
// ones, have no part in it.
func TestEventsOfARolloutThatHasNotStarted(t *testing.T) {
	approval := rollout.Condition{Kind: rollout.OnApproval, Version: "v1", Deployment: "api", Environment: "prod"}
	success := rollout.Condition{Kind: rollout.OnJob, Version: "v1", Deployment: "api", Environment: "staging"}
	const one, two = `{"anyApproval":{"minApprovals":1}}`, `{"anyApproval":{"minApprovals":2}}`
	const proved, soaked = `{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'"}}`, `{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'","minimumSoakTimeMinutes":5}}`
	const begun = `{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'qa'","minimumSoakTimeMinutes":5}}` // it has succeeded there just now
	const refused = `{"versionSelector":{"selector":"version.tag == 'v2'"}}`
	for _, row := range []struct {
		why   string
		rules []string
		want  []rollout.Condition
	}{
		{"one rule", []string{one}, []rollout.Condition{approval}},
		{"two of which one is satisfied", []string{one, `{"anyApproval":{"minApprovals":0}}`}, []rollout.Condition{approval}},
		{"two that wait for the same people", []string{one, two}, []rollout.Condition{approval}},
		{"two that wait for the same successes, and for people", []string{proved, one, soaked}, []rollout.Condition{approval, success}},
		{"beside one that only soaks: no success is missing", []string{begun, one}, []rollout.Condition{approval}},
		{"unless all of them only soak, where a success elsewhere could come first", []string{begun}, []rollout.Condition{{Kind: rollout.OnJob, Version: "v1", Deployment: "api", Environment: "qa"}}},
		{"beside what is no gate of a curve", []string{refused, two, one}, []rollout.Condition{approval}},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1"}})
		s.Environments = append(s.Environments, rollout.Environment{ID: "staging", Name: "staging"}, rollout.Environment{ID: "qa", Name: "qa"})
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "staging", Deployment: "api"}},
			rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "qa", Deployment: "api"}, Jobs: []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0, CompletedAt: t0}}})
		plan := mustPlan(t, compile(t, policy(strings.Join(row.rules, ",")+`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`)), s, t0)
		wait, _ := plan.Waiting.Of(s.Targets[0].TargetID)
		k := slices.IndexFunc(wait.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonRolloutNotStarted })
		if k < 0 {
			t.Errorf("%s: %v", row.why, wait)
		} else if got := wait.Blockers[k].On; !slices.Equal(got, row.want) {
			t.Errorf("%s: waits for %v, want %v", row.why, got, row.want)
		}
	}
}

func TestApprovers(t *testing.T) {
	voice := func(by, version, environment string, status rollout.ApprovalStatus) rollout.Approval {
		return rollout.Approval{Version: version, Deployment: "api", Environment: environment, By: by, Status: status, At: t0}
	}
	for _, row := range []struct {
		why       string
		approvals []rollout.Approval
		start     bool
	}{
		{"two people", []rollout.Approval{voice("a", "v1", "prod", "approved"), voice("b", "v1", "prod", "approved")}, true},
		{"one person twice is one", []rollout.Approval{voice("a", "v1", "prod", "approved"), voice("a", "v1", "prod", "approved")}, false},
		{"a rejection approves nothing", []rollout.Approval{voice("a", "v1", "prod", "approved"), voice("b", "v1", "prod", "rejected")}, false},
		{"a word that nobody knows approves nothing", []rollout.Approval{voice("a", "v1", "prod", "approved"), voice("b", "v1", "prod", "requested"), voice("c", "v1", "prod", "")}, false},
		{"another environment", []rollout.Approval{voice("a", "v1", "prod", "approved"), voice("b", "v1", "staging", "approved")}, false},
		{"another version", []rollout.Approval{voice("a", "v1", "prod", "approved"), voice("b", "v0", "prod", "approved")}, false},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1"}})
		s.Approvals = row.approvals
		plan := mustPlan(t, compile(t, policy(`{"anyApproval":{"minApprovals":2}}`)), s, t0)
		if got := len(plan.Start) == 1; got != row.start {
			t.Errorf("%s: started %v, want %v; %v", row.why, got, row.start, blockers(plan))
		}
	}
}

// TestApprovedSince: the instant from which an approval rule lets a version start is that of the
// approval that is the last one needed.
func TestApprovedSince(t *testing.T) {
	voice := func(by string, at time.Time) rollout.Approval {
		return rollout.Approval{Version: "v1", Deployment: "api", Environment: "prod", By: by, Status: rollout.Approved, At: at}
	}
	for _, row := range []struct {
		why, rule string
		approvals []rollout.Approval
		since     int // minutes after the creation of the version
	}{
		{"the second of three", `"anyApproval":{"minApprovals":2}`, []rollout.Approval{voice("c", minute(9)), voice("a", minute(3)), voice("b", minute(5))}, 5},
		{"of one person the first word counts", `"anyApproval":{"minApprovals":2}`, []rollout.Approval{voice("a", minute(1)), voice("b", minute(4)), voice("b", minute(9))}, 4},
		{"wherever it stands", `"anyApproval":{"minApprovals":2}`, []rollout.Approval{voice("b", minute(9)), voice("b", minute(4)), voice("a", minute(1))}, 4},
		{"who approves beforehand approves at the creation", `"anyApproval":{"minApprovals":1}`, []rollout.Approval{voice("a", minute(-5))}, 0},
		{"so does who gives no instant", `"anyApproval":{"minApprovals":1}`, []rollout.Approval{voice("a", time.Time{})}, 0},
		{"nobody is asked", `"anyApproval":{"minApprovals":0}`, []rollout.Approval{voice("a", minute(3))}, 0},
		{"a version that is older than the rule needs nobody", `"createdAt":"2025-01-01T00:00:00.000000001Z","anyApproval":{"minApprovals":1}`, []rollout.Approval{voice("a", minute(3))}, 0},
		{"one that is as old does", `"createdAt":"2025-01-01T00:00:00Z","anyApproval":{"minApprovals":1}`, []rollout.Approval{voice("a", minute(3))}, 3},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1"}})
		s.Approvals = row.approvals
		plan := mustPlan(t, compile(t, policy("{"+row.rule+`},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`)), s, minute(30))
		if r := plan.State.Rollouts; len(r) != 1 || !r[0].StartAt.Equal(minute(row.since)) {
			t.Errorf("%s: rollouts %+v, want one since minute %d", row.why, r, row.since)
		}
	}
}

// TestCurveStartsAtTheLastGate: the curve runs from the latest of all approvals, not from the first
// or from the creation.
func TestCurveStartsAtTheLastGate(t *testing.T) {
	s := fleet(2, "", map[string][]string{"api": {"v1"}})
	for i, by := range []string{"a", "b"} {
		s.Approvals = append(s.Approvals, rollout.Approval{Version: "v1", Deployment: "api", Environment: "prod", By: by, Status: rollout.Approved, At: t0.Add(time.Duration(i+1) * time.Hour)})
	}
	set := compile(t, policy(`{"anyApproval":{"minApprovals":1}},{"anyApproval":{"minApprovals":2}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	plan := mustPlan(t, set, s, t0.Add(2*time.Hour))
	if len(plan.Start) != 1 || !plan.Next.Equal(t0.Add(2*time.Hour+10*time.Minute)) {
		t.Errorf("at the second approval: starts %v, next %v", started(plan), plan.Next)
	}
	if r := plan.State.Rollouts; len(r) != 1 || !r[0].StartAt.Equal(t0.Add(2*time.Hour)) || r[0].Founders != 2 {
		t.Errorf("rollout record %+v", r)
	}
}

// TestCurveStartsForWhomeverItMay: a policy of its own asks for approval on r1, the first in the
// order of ids. Everybody else may go from the creation of the version on, and is due as early
// where the first plan comes after the approval as where it comes in time.
func TestCurveStartsForWhomeverItMay(t *testing.T) {
	set := compile(t, `[{"name":"all","selector":"true","rules":[{"id":"curve","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]},
		{"name":"first","selector":"resource.name == 'r1'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	approved := rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(60)}
	inTime := s
	inTime.State = mustPlan(t, set, s, t0).State
	for _, s := range []rollout.Snapshot{s, inTime} {
		s.Approvals = []rollout.Approval{approved}
		plan := mustPlan(t, set, s, minute(61))
		if len(plan.Start) != 3 || len(plan.State.Rollouts) != 1 || !plan.State.Rollouts[0].StartAt.Equal(t0) {
			t.Errorf("starts %q, rollouts %+v", started(plan), plan.State.Rollouts)
		}
	}
}

// TestStartKeepsItsInstant: what a rollout has begun with stays, also if the approval that began it
// is taken down with another instant, or with none.
func TestStartKeepsItsInstant(t *testing.T) {
	s := fleet(3, "", map[string][]string{"api": {"v1"}})
	voice := rollout.Approval{Version: "v1", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(2)}
	s.Approvals = []rollout.Approval{voice}
	set := compile(t, policy(`{"anyApproval":{"minApprovals":1}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	s.State = mustPlan(t, set, s, minute(2)).State
	for _, at := range []time.Time{minute(9), {}} {
		s.Approvals[0].At = at
		if plan := mustPlan(t, set, s, minute(9)); !plan.Next.Equal(minute(12)) || !plan.State.Rollouts[0].StartAt.Equal(minute(2)) {
			t.Errorf("approved at %v: next %v, rollouts %+v", at, plan.Next, plan.State.Rollouts)
		}
	}
}

// TestTurnsForASlot: capacity goes to who is due first, to the nanosecond and under all curves
// together; then by position, and then by ids.
func TestTurnsForASlot(t *testing.T) {
	const one = `{"resourceConcurrency":{"groupSelector":"true","limit":9}}`
	const normalized, stable = `{"gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":1,"orderKey":"target","orderSalt":"none"}}`, `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":%s,"orderKey":"%s","orderSalt":"none"}}`
	order := func(rules string) []string {
		s := fleet(4, "v1", map[string][]string{"api": {"v1", "v2"}})
		return started(mustPlan(t, compile(t, policy(one+","+rules)), s, t0.Add(time.Hour)))
	}
	byTarget, byResource := order(normalized), order(fmt.Sprintf(stable, "1", "resource"))
	if slices.Equal(byTarget, byResource) || slices.IsSorted(byTarget) {
		t.Fatalf("%q and %q cannot be told apart", byTarget, byResource)
	}
	if got := order(fmt.Sprintf(stable, "0", "resource") + "," + normalized); !slices.Equal(got, byTarget) {
		t.Errorf("the second curve decides when who is due: starts %q, want %q", got, byTarget)
	}
	if got := order(normalized + "," + fmt.Sprintf(stable, "0", "resource")); !slices.Equal(got, byTarget) {
		t.Errorf("the first curve decides when who is due: starts %q, want %q", got, byTarget)
	}
	if got := order(fmt.Sprintf(stable, "0", "target")); !slices.Equal(got, byTarget) {
		t.Errorf("all are due at once: starts %q, want the order of their positions, %q", got, byTarget)
	}
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2"}, "web": {"v1", "v2"}})
	slices.Reverse(s.Targets)
	if got, want := started(mustPlan(t, compile(t, policy(one)), s, t0)), []string{"r1/api@v2", "r1/db@v2", "r1/web@v2", "r2/api@v2", "r2/db@v2", "r2/web@v2"}; !slices.Equal(got, want) {
		t.Errorf("without curves starts %q, want %q", got, want)
	}
}

// TestStartsInOrderOfIDs: who is due at the same time asks for capacity in the order of the ids,
// and not of texts that are made of them: a "." comes before the "/" behind an id.
func TestStartsInOrderOfIDs(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Resources[1].ID, s.Targets[1].Resource = "r1.b", "r1.b"
	plan := mustPlan(t, compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, t0)
	if got := started(plan); len(got) != 1 || got[0] != "r1/api@v2" {
		t.Errorf("starts %q", got)
	}
}

// TestRepeatedInOrderOfTheirEnds: of two jobs to repeat, the one that ended first gets the slot.
// That its target is outdated too, or will be, does not move it behind the other one.
func TestRepeatedInOrderOfTheirEnds(t *testing.T) {
	set := compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}},{"retry":{"maxRetries":1}}`))
	for _, outdated := range []time.Time{{}, minute(4), minute(60)} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k := range s.Targets {
			s.Targets[k].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: minute(1 + k)}}
		}
		s.Targets[0].OutdatedAt = outdated
		if got := started(mustPlan(t, set, s, minute(5))); !slices.Equal(got, []string{"r1/a@v2"}) {
			t.Errorf("outdated at %v: starts %q", outdated, got)
		}
	}
}

// TestAttemptsOfOneInstant: a clock tells only seconds, and many attempts fit into one. The tenth
// comes behind the ninth: it succeeded, so the version is done, also for a host that has not noted
// yet that it is current.
func TestAttemptsOfOneInstant(t *testing.T) {
	for _, row := range []struct{ why, rule, runs string }{
		{"outside brackets", `{"retry":{"maxRetries":20}}`, "r1/prod/a/v2/%d"},
		{"a success is not rolled back", `{"rollback":{"onJobStatuses":["failure"]}}`, "r1/prod/a/v2/%d"},
		{"in a bracket that is gone", `{"retry":{"maxRetries":20}}`, "B%%2Fprod%%2F1/r1/a/1/%d/deploy"},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		for n := range 10 {
			s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Run: fmt.Sprintf(row.runs, n+1), Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0})
		}
		s.Targets[0].Jobs[9].Status = rollout.JobSuccessful
		if plan := mustPlan(t, compile(t, policy(row.rule)), s, minute(1)); len(plan.Start) > 0 || plan.Waiting.Len() > 0 {
			t.Errorf("%s: starts %v, waits %q", row.why, plan.Start, blockers(plan))
		}
	}
}

// TestGroupsOfOneInstant: a bracket that waits for nothing closes two groups within a second, and the
// clock of the jobs tells only seconds. What the tenth group brought is current, and not what the
// ninth did.
func TestGroupsOfOneInstant(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2", "v3"}})
	s.Targets[0].Current = ""
	for n, version := range []string{"v2", "v3"} {
		run := fmt.Sprintf("B%%2Fprod%%2F%d/r1/a/1/1/deploy", 9+n)
		s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Run: run, Version: version, Status: rollout.JobSuccessful, CreatedAt: minute(1), CompletedAt: minute(1)})
	}
	plan := mustPlan(t, compile(t, policy(`{"retry":{"maxRetries":1}}`)), s, minute(2))
	if len(plan.Start) > 0 || plan.Waiting.Len() > 0 {
		t.Errorf("starts %v, waits %q", plan.Start, blockers(plan))
	}
}

// TestOutdatedSinceNever: a database writes the year 0 for a missing date. Such a target is not
// outdated, neither in a bracket nor outside.
func TestOutdatedSinceNever(t *testing.T) {
	for _, rule := range []string{`{"retry":{"maxRetries":1}}`, `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1"}})
		s.Targets[0].OutdatedAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
		plan := mustPlan(t, compile(t, policy(rule)), s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if got := started(plan); len(got) > 0 || plan.Waiting.Len() > 0 || !strings.Contains(e.String(), "current") {
			t.Errorf("%s: starts %q, waits %q: %v", rule, got, blockers(plan), e)
		}
	}
}

// TestOutdatedAndAnotherVersionSucceeded: a target needs another run of what it has. That another
// version succeeded there since does not count for it.
func TestOutdatedAndAnotherVersionSucceeded(t *testing.T) {
	s := fleet(1, "v2", map[string][]string{"a": {"v1", "v2"}})
	s.Targets[0].OutdatedAt = t0.Add(-time.Hour)
	s.Targets[0].Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-time.Minute), CompletedAt: t0}}
	for _, row := range []struct {
		version string
		starts  []string
	}{{"v1", []string{"r1/a@v2"}}, {"v2", nil}} {
		s.Targets[0].Jobs[0].Version = row.version
		if got := started(mustPlan(t, compile(t, `[]`), s, t0)); !slices.Equal(got, row.starts) {
			t.Errorf("%s succeeded: starts %q, want %q", row.version, got, row.starts)
		}
	}
}

// TestTakenBackByHand: a host goes back to an older version by a job of its own, as one does in an
// emergency. The newer version has succeeded there, so it is done: it is not started again until a
// newer one comes, or the target is outdated.
func TestTakenBackByHand(t *testing.T) {
	v2 := rollout.Job{Run: "r1/prod/a/v2/1", Version: "v2", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-time.Hour)}
	v1 := rollout.Job{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-time.Minute)}
	for _, row := range []struct {
		why    string
		change func(*rollout.Target, []rollout.Job)
		starts []string
	}{
		{"taken back", func(*rollout.Target, []rollout.Job) {}, nil},
		{"taken back, and the host says so", func(x *rollout.Target, _ []rollout.Job) { x.Current = "v1" }, nil},
		{"outdated before that, and since", func(x *rollout.Target, _ []rollout.Job) { x.OutdatedAt = t0.Add(-2 * time.Hour) }, nil},
		{"outdated since: what the target was to have is run again", func(x *rollout.Target, _ []rollout.Job) { x.OutdatedAt = t0 }, []string{"r1/a@v2"}},
		{"it did not pass its checks, and so was taken back", func(_ *rollout.Target, jobs []rollout.Job) { jobs[0].Verification = rollout.VerificationFailed }, nil},
		{"a run of a plan that came late is made good", func(_ *rollout.Target, jobs []rollout.Job) { jobs[1].Run = "r1/prod/a/v1/1" }, []string{"r1/a@v2"}},
		{"the way back failed, and the host says that what it was to bring runs all the same: nobody has taken anything back", func(x *rollout.Target, jobs []rollout.Job) {
			x.Current, jobs[1].Status = "v1", rollout.JobFailure
		}, []string{"r1/a@v2"}},
		{"a job of the host's own runs what the target went back to once more, and is at work", func(x *rollout.Target, _ []rollout.Job) {
			x.Jobs = append(x.Jobs, rollout.Job{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Second)})
		}, nil},
		{"that job failed: it takes nothing back to the newer version", func(x *rollout.Target, _ []rollout.Job) {
			x.Jobs = append(x.Jobs, rollout.Job{Version: "v1", Status: rollout.JobFailure, CreatedAt: t0.Add(-time.Second)})
		}, nil},
		{"a job of the host's own tried the newer version again, and failed: the target is still where it was taken back to", func(x *rollout.Target, _ []rollout.Job) {
			x.Jobs = append(x.Jobs, rollout.Job{Version: "v2", Status: rollout.JobFailure, CreatedAt: t0.Add(-time.Second)})
		}, nil},
		{"taken there by a job of the host's own, too, and the host says that the older version runs: nobody has taken anything back", func(x *rollout.Target, jobs []rollout.Job) {
			x.Current, jobs[0].Run, jobs[1].Status = "v1", "", rollout.JobFailure
		}, []string{"r1/a@v2"}},
		{"the way back failed: the newer version still runs", func(_ *rollout.Target, jobs []rollout.Job) { jobs[1].Status = rollout.JobFailure }, nil},
	} {
		s := fleet(1, "", map[string][]string{"a": {"v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{v2, v1}
		row.change(&s.Targets[0], s.Targets[0].Jobs)
		plan := mustPlan(t, compile(t, `[]`), s, t0)
		if got := started(plan); !slices.Equal(got, row.starts) || plan.Waiting.Len() > 0 {
			t.Errorf("%s: starts %q and waits %q, want %q", row.why, got, blockers(plan), row.starts)
		}
		if row.starts != nil || s.Targets[0].Jobs[1].Status != rollout.JobSuccessful {
			continue
		}
		if e, err := plan.Explain(s.Targets[0].TargetID); err != nil || len(e.Versions) == 0 || e.Versions[0].Rules[0].Reason != rollout.ReasonAlreadyDone {
			t.Errorf("%s: explained as\n%v (%v)", row.why, e, err)
		}
		if plan.Keep.Started > 0 {
			continue // a job is at work
		}
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0})
		if got := started(mustPlan(t, compile(t, `[]`), s, t0)); !slices.Equal(got, []string{"r1/a@v3"}) {
			t.Errorf("%s, and then there is a newer one: starts %q", row.why, got)
		}
	}
}

// TestGivenUpByHand: a host goes back to an older version by a job of its own after the newer one has
// come to nothing, or while it is repeated. No attempt at that is left then, until somebody asks for
// one. That what an operator has undone is done once more at once is what argoproj/argo-rollouts#2929
// and openshift/origin#8256 are about.
func TestGivenUpByHand(t *testing.T) {
	const once, often = `{"id":"R","retry":{"maxRetries":0}}`, `{"id":"R","retry":{"maxRetries":3}}`
	const rejected = often + `,{"id":"B","rollback":{"onVersionStatuses":["withdrawn"]}}`
	ago := func(d time.Duration) time.Time { return t0.Add(-d) }
	lift := func(rule string, since time.Time) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: rule, Version: "v2", Deployment: "a", CreatedAt: since, CreatedBy: "ann", Reason: "again"}}
		}
	}
	outdated := func(at time.Time) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Targets[0].OutdatedAt = at }
	}
	more := func(jobs ...rollout.Job) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Targets[0].Jobs = append(s.Targets[0].Jobs, jobs...) }
	}
	edit := func(change func(newer, back *rollout.Job)) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { change(&s.Targets[0].Jobs[1], &s.Targets[0].Jobs[2]) }
	}
	for _, row := range []struct {
		why    string
		rules  string
		change func(*rollout.Snapshot)
		want   string
	}{
		{"no attempt was left", once, nil, "r1/a@v2: retry_exhausted"},
		{"some were left", often, nil, "r1/a@v2: retry_exhausted"},
		{"there is no rule", `{"id":"W","anyApproval":{"minApprovals":0}}`, nil, "r1/a@v2: retry_exhausted"},
		{"each rule says so", often + `,{"id":"S","retry":{"maxRetries":1}}`, nil, "r1/a@v2: retry_exhausted retry_exhausted"},
		{"the host says so, too", often, func(s *rollout.Snapshot) { s.Targets[0].Current = "v1" }, "r1/a@v2: retry_exhausted"},
		{"the host says that the newer version runs: then it needs no job", often, func(s *rollout.Snapshot) { s.Targets[0].Current = "v2" }, ""},
		{"the job was cancelled before, which is no attempt", often, edit(func(newer, _ *rollout.Job) { newer.Status = rollout.JobCancelled }), "r1/a@v2: retry_exhausted"},
		{"that job was the host's own as well", often, edit(func(newer, _ *rollout.Job) { newer.Run = "" }), "r1/a@v2: retry_exhausted"},
		{"the version is withdrawn", often, func(s *rollout.Snapshot) { s.Versions[1].Status = "withdrawn" }, "r1/a@v2: retry_exhausted"},
		{"a rule takes it back everywhere", rejected, func(s *rollout.Snapshot) { s.Versions[1].Status = "withdrawn" }, "r1/a@v2: rollback_triggered"},
		{"a further job of what the host went back to failed", often, more(rollout.Job{Version: "v1", Status: rollout.JobFailure, CreatedAt: ago(time.Second)}), "r1/a@v2: retry_exhausted"},
		{"a further one is at work", often, more(rollout.Job{Version: "v1", Status: rollout.JobInProgress, CreatedAt: ago(time.Second)}), "r1/a@v2: retry_exhausted target_busy"},
		{"there and back by the host alone", often, more(rollout.Job{Version: "v2", Status: rollout.JobFailure, CreatedAt: ago(3 * time.Second)}, rollout.Job{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: ago(time.Second)}), "r1/a@v2: retry_exhausted"},

		{"it was tried again since, which failed: that is the first attempt", often, more(rollout.Job{Version: "v2", Status: rollout.JobFailure, CreatedAt: ago(time.Second)}), "starts r1/a@v2"},
		{"and the last one, if there is but one", once, more(rollout.Job{Version: "v2", Status: rollout.JobFailure, CreatedAt: ago(time.Second)}), "r1/a@v2: retry_exhausted"},
		{"the way back failed: attempts are left", often, edit(func(_, back *rollout.Job) { back.Status = rollout.JobFailure }), "starts r1/a@v2"},
		{"the way back failed: no attempt is left", once, edit(func(_, back *rollout.Job) { back.Status = rollout.JobFailure }), "r1/a@v2: retry_exhausted"},
		{"the way back is at work: no attempt is left", once, edit(func(_, back *rollout.Job) { back.Status = rollout.JobInProgress }), "r1/a@v2: retry_exhausted target_busy"},
		{"a run of a plan that came late is made good", once, edit(func(_, back *rollout.Job) { back.Run = "r1/prod/a/v1/2" }), "starts r1/a@v2"},
		{"and ends the row of attempts also behind a job that failed", once, func(s *rollout.Snapshot) {
			s.Targets[0].Jobs[2].Run = "r1/prod/a/v1/2"
			s.Targets[0].Jobs = append(s.Targets[0].Jobs, rollout.Job{Version: "v1", Status: rollout.JobFailure, CreatedAt: ago(time.Second)})
		}, "starts r1/a@v2"},

		{"an override of the retry rule before it", often, lift("R", ago(2*time.Minute)), "r1/a@v2: retry_exhausted"},
		{"an override of the retry rule at its instant", often, lift("R", ago(time.Minute)), "starts r1/a@v2"},
		{"an override of the retry rule since", once, lift("R", t0), "starts r1/a@v2"},
		{"an override of a rollback rule before it", rejected, lift("B", ago(2*time.Minute)), "r1/a@v2: retry_exhausted"},
		{"an override of a rollback rule since", rejected, lift("B", t0), "starts r1/a@v2"},
		{"an override of a rollback rule since, whatever was attempted before", once + `,{"id":"B","rollback":{"onVersionStatuses":["withdrawn"]}}`, lift("B", t0), "starts r1/a@v2"},
		{"outdated before it", often, outdated(ago(2 * time.Minute)), "r1/a@v2: retry_exhausted"},
		{"the newer version had succeeded, and was outdated before it was taken back", often, func(s *rollout.Snapshot) {
			s.Targets[0].Jobs[1].Status, s.Targets[0].OutdatedAt = rollout.JobSuccessful, ago(2*time.Minute)
		}, "r1/a@v2: retry_exhausted"},
		{"outdated at its instant", often, outdated(ago(time.Minute)), "starts r1/a@v2"},
		{"outdated since, whatever was attempted before", once, outdated(t0), "starts r1/a@v2"},
		{"outdated in a minute", once, outdated(t0.Add(time.Minute)), "r1/a@v2: retry_exhausted, again after 1m0s"},
		{"outdated since, and frozen but for what has begun", often, func(s *rollout.Snapshot) {
			s.Targets[0].OutdatedAt = t0
			s.Freezes = []rollout.Freeze{{ID: "f", FinishBegun: true, CreatedAt: t0, CreatedBy: "ann", Reason: "fair"}}
		}, "r1/a@v2: frozen"},
	} {
		s := fleet(1, "", map[string][]string{"a": {"v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{
			{Run: "r1/prod/a/v1/1", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: ago(2 * time.Hour)},
			{Run: "r1/prod/a/v2/1", Version: "v2", Status: rollout.JobFailure, CreatedAt: ago(time.Hour)},
			{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: ago(time.Minute)},
		}
		if row.change != nil {
			row.change(&s)
		}
		set := compile(t, policy(row.rules))
		plan := mustPlan(t, set, s, t0)
		got := strings.Join(blockers(plan), " ")
		for _, start := range started(plan) {
			got += "starts " + start
		}
		if !plan.Next.IsZero() {
			got += ", again after " + plan.Next.Sub(t0).String()
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
		if plan.Waiting.Len() == 0 {
			continue
		}
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0})
		s.Freezes = nil
		for k := range s.Targets[0].Jobs {
			if own := &s.Targets[0].Jobs[k]; !own.Status.Terminal() {
				own.Status = rollout.JobSuccessful
			}
		}
		if got := started(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r1/a@v3"}) {
			t.Errorf("%s, and then there is a newer one: starts %q", row.why, got)
		}
	}
}
