package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestLostRun: a member's run of which nobody will ever hear again has failed: it is repeated like
// any other, and without a rule an operator decides.
func TestLostRun(t *testing.T) {
	t.Parallel()
	const bracketed = `{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	for _, row := range []struct {
		why, rules string
		want       []string
	}{
		{"it may be repeated", bracketed + `,{"retry":{"maxRetries":1}}`, []string{"g%2Fprod%2F1/r1/a/1/2/deploy"}},
		{"it may not", bracketed, nil},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobExternalRunNotFound)
		plan := mustPlan(t, set, s, minute(1))
		var got []string
		for _, start := range plan.Start {
			got = append(got, start.Run)
		}
		if waits := blockers(plan); !slices.Equal(got, row.want) || len(got) == 0 && !strings.Contains(strings.Join(waits, ""), "bracket_failed_holding") {
			t.Errorf("%s: starts %q, waits %q", row.why, got, waits)
		}
	}
}

// TestAttemptsOfAMember: attempts count for one version that a member was given, and one direction.
// A merge gives a member that waits to be repeated all its attempts anew, and so does the way back.
func TestAttemptsOfAMember(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why, rule string
		newer     bool // b gets another version after the first failure
		want      string
	}{
		{"after a merge", `,"overlapStrategy":"merge","preparedStatePersists":true`, true, "1/1/deploy 2/1/deploy 2/2/deploy"},
		{"on the way back", `,"onMemberFailure":"rollback_member"`, false, "1/1/deploy 1/2/deploy 1/1/rollback 1/2/rollback"},
	} {
		set := compile(t, policy(`{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}`+row.rule+`}},{"retry":{"maxRetries":1}}`))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		var got []string // runs of a, which all fail
		for m := range 8 {
			plan := mustPlan(t, set, s, minute(m))
			carryOut(t, &s, plan, minute(m), rollout.JobInProgress)
			for _, start := range plan.Start {
				if run, of := strings.CutPrefix(start.Run, "g%2Fprod%2F1/r1/a/"); of {
					got = append(got, run)
				}
			}
			if m == 0 && row.newer {
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(1)})
			}
			for k, status := range []rollout.JobStatus{rollout.JobFailure, rollout.JobSuccessful} {
				for j := range s.Targets[k].Jobs {
					if job := &s.Targets[k].Jobs[j]; !job.Status.Terminal() && (k == 0 || m > 0) {
						job.Status, job.CompletedAt = status, minute(m)
					}
				}
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestUnknownRuns: a job under an id that begins with that of a group and is none of its runs
// counts for nothing, and is told.
func TestUnknownRuns(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	for _, row := range []struct {
		why, run string
		told     bool
	}{
		{"its own", "r1/b/1/1/deploy", false},
		{"that of another target", "r1/a/1/1/deploy", true},
		{"of another resource", "r2/b/1/1/deploy", true},
		{"a part is missing", "r1/b/1/1", true},
		{"one too many", "r1/b/1/1/deploy/2", true},
		{"the generation is no number", "r1/b/one/1/deploy", true},
		{"nor is the attempt", "r1/b/1/one/deploy", true},
		{"one number has one text", "r1/b/01/1/deploy", true},
		{"which has no sign", "r1/b/1/+1/deploy", true},
		{"it is not escaped as an id is", "r1/%b/1/1/deploy", true},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		plan.Start = plan.Start[:1] // a
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
		own := rollout.Job{Run: "g%2Fprod%2F1/" + row.run, Version: "v2", Status: rollout.JobSuccessful, CreatedAt: minute(1), CompletedAt: minute(1)}
		s.Targets[1].Jobs = []rollout.Job{own}
		plan = mustPlan(t, set, s, minute(2))
		told := false
		for _, d := range plan.Diagnostics {
			told = told || d.Code == rollout.DiagnosticUnknownRun && d.Rule == "g" && d.Detail == own.Run && d.Example == s.Targets[1].TargetID
		}
		if told != row.told || len(plan.Start) == 1 != row.told { // b's run is offered as long as it is not seen
			t.Errorf("%s: starts %q, tells %+v", row.why, started(plan), plan.Diagnostics)
		}
	}
}

// TestUnknownRunsWhereAllHasEnded: a job that is on the wrong target is told also where the
// execution has ended, as long as one is open somewhere else, which may wait for it.
func TestUnknownRunsWhereAllHasEnded(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	own := s.Targets[1].Jobs
	s.Targets[1].Jobs = nil
	s.Targets[0].Jobs = append(s.Targets[0].Jobs, own...)
	for _, row := range []struct {
		why  string
		jobs []rollout.Job // of r2
		told bool
		open int
	}{
		{"the job of r2 is on r1", nil, true, 1},
		{"also once r1 has ended", nil, true, 1},
		{"and in the plan in which r2 ends", own, true, 0},
		{"nobody waits any more", own, false, 0},
	} {
		s.Targets[1].Jobs = row.jobs
		plan := mustPlan(t, set, s, minute(1))
		s.State = plan.State
		open := 0
		for _, record := range s.State.Executions {
			if record.Open != nil {
				open++
			}
		}
		told := slices.ContainsFunc(plan.Diagnostics, func(d rollout.Diagnostic) bool {
			return d.Code == rollout.DiagnosticUnknownRun && d.Rule == "g" && d.Detail == own[0].Run && d.Example == s.Targets[0].TargetID
		})
		if told != row.told || open != row.open || len(plan.Start) != row.open { // r2's run is offered as long as it is not seen
			t.Errorf("%s: starts %q, %d executions are open, tells %+v", row.why, started(plan), open, plan.Diagnostics)
		}
	}
}

// TestStatusesThatNobodyKnows: a status with a typo keeps its job active for ever, and is told once
// with the number of jobs that have it. Those that are known are not, whether they say that a job
// has ended or not.
func TestStatusesThatNobodyKnows(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"anyApproval":{"minApprovals":0}}`))
	s := fleet(4, "v1", map[string][]string{"web": {"v1", "v2"}})
	for k, status := range []rollout.JobStatus{rollout.JobActionRequired, "sucessful", "sucessful", rollout.JobQueued} {
		s.Targets[k].Jobs = []rollout.Job{{Run: "1", Version: "v2", Status: status, CreatedAt: t0, CompletedAt: t0}, {Run: "0", Version: "v1", Status: rollout.JobSkipped, CreatedAt: t0.Add(-1)}}
	}
	slices.Reverse(s.Targets)
	plan := mustPlan(t, set, s, minute(1))
	want := []rollout.Diagnostic{{Code: rollout.DiagnosticJobStatusUnknown, Detail: "sucessful", Count: 2, Example: s.Targets[2].TargetID}}
	if !slices.Equal(plan.Diagnostics, want) || len(plan.Start) > 0 {
		t.Errorf("starts %q, tells %+v", started(plan), plan.Diagnostics)
	}
}

// TestVerificationsThatNobodyKnows: a verification with a typo never passes, so what requires one waits
// for ever, and is told once with the number of jobs that have it, whatever their status and however
// old they are. Those that are known are not.
func TestVerificationsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	set := compile(t, `{"name":"p","selector":"environment.name == 'qa'","rules":[{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'prod'","requireVerificationPassed":true}}]}`)
	s := inEnvironments(fleet(4, "v1", map[string][]string{"web": {"v1", "v2"}}), "qa")
	for k, verification := range []rollout.Verification{"", rollout.VerificationRunning, rollout.VerificationPassed, rollout.VerificationFailed} {
		s.Targets[k].Jobs = []rollout.Job{{Run: "1", Version: "v2", Status: rollout.JobSuccessful, CreatedAt: t0, CompletedAt: t0, Verification: verification}}
	}
	if told := mustPlan(t, set, s, minute(1)).Diagnostics; len(told) > 0 {
		t.Errorf("known ones are told: %+v", told)
	}
	for k := range s.Targets[:4] {
		s.Targets[k].Jobs[0].Verification = "Passed"
	}
	s.Targets[3].Jobs[0].Status = rollout.JobFailure
	s.Targets[2].Jobs = append(s.Targets[2].Jobs, rollout.Job{Run: "0", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-1), Verification: "ok"})
	slices.Reverse(s.Targets)
	plan := mustPlan(t, set, s, minute(1))
	want := []rollout.Diagnostic{
		{Code: rollout.DiagnosticVerificationUnknown, Detail: "Passed", Count: 4, Example: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "web"}},
		{Code: rollout.DiagnosticVerificationUnknown, Detail: "ok", Count: 1, Example: rollout.TargetID{Resource: "r3", Environment: "prod", Deployment: "web"}},
	}
	if !slices.Equal(plan.Diagnostics, want) || slices.ContainsFunc(plan.Start, func(start rollout.Start) bool { return start.Environment == "qa" }) {
		t.Errorf("starts %q, tells %+v", started(plan), plan.Diagnostics)
	}
}

// TestApprovalWithoutEffect: an approval that names what the snapshot does not list is told, since
// whoever gave it waits for what it approves; one of a version that is gone is not.
func TestApprovalWithoutEffect(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	for _, a := range []rollout.Approval{
		{Version: "v2", Deployment: "a", Environment: "Production"}, {Version: "v3", Deployment: "a", Environment: "Production"},
		{Version: "v2", Deployment: "Service A", Environment: "prod"},
		{Version: "v0", Deployment: "a", Environment: "prod"},
	} {
		a.By, a.Status = "ann", rollout.Approved
		s.Approvals = append(s.Approvals, a)
	}
	plan := mustPlan(t, compile(t, policy(`{"anyApproval":{"minApprovals":1}}`)), s, t0)
	want := []rollout.Diagnostic{
		{Code: rollout.DiagnosticApprovalWithoutEffect, Detail: `there is no deployment "Service A"`, Count: 1, Example: rollout.TargetID{Environment: "prod", Deployment: "Service A"}},
		{Code: rollout.DiagnosticApprovalWithoutEffect, Detail: `there is no environment "Production"`, Count: 2, Example: rollout.TargetID{Environment: "Production", Deployment: "a"}},
	}
	if !slices.Equal(plan.Diagnostics, want) || len(plan.Start) > 0 {
		t.Errorf("starts %q, tells %+v", started(plan), plan.Diagnostics)
	}
}

// TestActiveWithoutEffect: jobs under the key of no pool are told, since whoever reports them means
// them to count; a key without jobs is not, and neither is one of a pool.
func TestActiveWithoutEffect(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Resources[0].Metadata, s.Resources[1].Metadata = map[string]string{"zone": "east"}, map[string]string{"zone": "west"}
	s.Active = map[string][]concurrency.Holder{
		"P/east": {{Resource: "x", Group: "by hand"}}, // in the way of r1
		"P/West": {{Resource: "y2", Group: "by hand"}, {Resource: "y1", Group: "by hand"}},
		"P/EAST": {},
	}
	plan := mustPlan(t, set, s, t0)
	want := []rollout.Diagnostic{{Code: rollout.DiagnosticActiveWithoutEffect, Detail: "P/West", Count: 2, Example: rollout.TargetID{Resource: "y1"}}}
	if !slices.Equal(plan.Diagnostics, want) || !slices.Equal(started(plan), []string{"r2/a@v2"}) {
		t.Errorf("starts %q, tells %+v", started(plan), plan.Diagnostics)
	}
	if text, want := plan.Diagnostics[0].String(), "active_without_effect: P/West is the key of no pool that has members, so what is active under it does not count (2 times, such as y1)"; text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}

// TestApprovalStatusUnknown: an approval that does not count because of a typo is told.
func TestApprovalStatusUnknown(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	for _, status := range []rollout.ApprovalStatus{"aproved", rollout.Rejected, "aproved", rollout.Approved} {
		s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: "a", Environment: "prod", By: "ann", Status: status})
	}
	plan := mustPlan(t, compile(t, policy(`{"anyApproval":{"minApprovals":2}}`)), s, t0)
	want := []rollout.Diagnostic{{Code: rollout.DiagnosticApprovalStatusUnknown, Detail: "aproved", Count: 2, Example: rollout.TargetID{Environment: "prod", Deployment: "a"}}}
	if !slices.Equal(plan.Diagnostics, want) {
		t.Fatalf("%v, want %v", plan.Diagnostics, want)
	}
	s.Approvals = []rollout.Approval{
		{Version: "v2", Deployment: "a", Environment: "qa", By: "ann", Status: "aproved"}, {Version: "v2", Deployment: "a", Environment: "prod", By: "ann", Status: "aproved"},
	}
	if got := mustPlan(t, compile(t, policy(`{"anyApproval":{"minApprovals":2}}`)), s, t0).Diagnostics; !slices.Equal(got, want) {
		t.Errorf("%v, want %v whatever the order of the approvals", got, want)
	}
	if text := plan.Diagnostics[0].String(); !strings.Contains(text, "aproved is no known status, so such an approval does not count (2 times, such as prod / a)") {
		t.Error(text)
	}
}

// TestHookWhoseVersionCameTooLate: the version of a hook that came after the group had closed is for
// the next one. No condition names the hook then, so the verdict does, beside the turn.
func TestHookWhoseVersionCameTooLate(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}},
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":0,"orderKey":"resource_bracket"}}`))
	s := fleet(1, "", map[string][]string{"app": {"v1"}, "drain": {}, "uncordon": {"u1"}})
	plan := mustPlan(t, set, s, minute(1))
	s.State = plan.State
	s.Versions = append(s.Versions, rollout.Version{ID: "d1", Deployment: "drain", Status: rollout.VersionReady, CreatedAt: minute(2)})
	plan = mustPlan(t, set, s, minute(2))
	w, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "app"})
	if got, want := w.Blockers[0].String(), "bracket_hook_without_version drain, waits for the next group in prod"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if d := w.Blockers[0].Data; d == nil || d.Population != 1 {
		t.Errorf("%+v: the turn is missing", d)
	}
}

// TestHookWhoseLockedVersionIsHeld: a hook without a version, of which the group has locked one that
// may not be deployed at the moment, waits for what that version waits for as well. When it may be,
// the group goes on with it; no other group is needed.
func TestHookWhoseLockedVersionIsHeld(t *testing.T) {
	t.Parallel()
	const bracketed = `{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"},"onMemberFailure":"hold"}},
		{"resourceConcurrency":{"groupSelector":"true","limit":1}},{"retry":{"maxRetries":1,"backoffSeconds":120}}`
	approve := func(minutes int) rollout.Approval {
		return rollout.Approval{Version: "d1", Deployment: "drain", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(minutes)}
	}
	hold := func(s *rollout.Snapshot, status rollout.VersionStatus) {
		for i := range s.Versions {
			if s.Versions[i].Deployment == "drain" {
				s.Versions[i].Status = status
			}
		}
	}
	for _, row := range []struct {
		why, rules    string
		outcome       rollout.JobStatus       // of the drain of r1
		change, opens func(*rollout.Snapshot) // after that outcome; in the end
		want          string
	}{
		{"it failed elsewhere, and succeeds when it is repeated", `,{"id":"f","failureBudget":{"maxFailures":0}}`, rollout.JobFailure, nil,
			func(s *rollout.Snapshot) {
				add(s, rollout.Start{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "drain"}}, rollout.Job{Run: "again", Version: "d1", Status: rollout.JobSuccessful, CreatedAt: minute(2), CompletedAt: minute(2)})
			}, "bracket_hook_without_version, waits for a version of drain and the next group in prod, or for an operator's override or successes of drain d1 in prod"},
		{"its approval was taken back", `,{"id":"a","anyApproval":{"minApprovals":1}}`, rollout.JobSuccessful,
			func(s *rollout.Snapshot) {
				s.Approvals = slices.DeleteFunc(s.Approvals, func(a rollout.Approval) bool { return a.Deployment == "drain" })
			},
			func(s *rollout.Snapshot) { s.Approvals = append(s.Approvals, approve(1)) },
			"bracket_hook_without_version, waits for a version of drain and the next group in prod, or for an approval of d1 in prod"},
		{"its approval does not count yet", `,{"id":"a","anyApproval":{"minApprovals":1}}`, rollout.JobSuccessful,
			func(s *rollout.Snapshot) {
				s.Approvals = append(slices.DeleteFunc(s.Approvals, func(a rollout.Approval) bool { return a.Deployment == "drain" }), approve(3))
			}, nil,
			"bracket_hook_without_version until 2025-01-01T00:03:00Z, waits for a version of drain and the next group in prod, or for an approval of d1 in prod"},
		{"it is paused", "", rollout.JobSuccessful, func(s *rollout.Snapshot) { hold(s, rollout.VersionPaused) }, func(s *rollout.Snapshot) { hold(s, rollout.VersionReady) },
			"bracket_hook_without_version, waits for a version of drain and the next group in prod"},
	} {
		set := compile(t, policy(bracketed+row.rules))
		s := fleet(2, "", map[string][]string{"app": {"v1"}, "drain": {"d1"}})
		s.Approvals = []rollout.Approval{approve(0), {Version: "v1", Deployment: "app", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(0)}}
		carryOut(t, &s, mustPlan(t, set, s, minute(0)), minute(0), row.outcome)
		carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobSuccessful) // app, where the drain succeeded
		if row.change != nil {
			row.change(&s)
		}
		said := func(plan rollout.Plan) string {
			w, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "app"})
			for _, b := range w.Blockers {
				if strings.HasPrefix(string(b.Reason), "bracket_hook") {
					return b.String()
				}
			}
			return ""
		}
		plan := mustPlan(t, set, s, minute(2))
		if got := said(plan); got != row.want {
			t.Errorf("%s: %s\n%s", row.why, got, plan)
		}
		s.State = mustCommit(t, plan, minute(2))
		if row.opens != nil {
			row.opens(&s)
		}
		if got := said(mustPlan(t, set, s, minute(3))); got != "" {
			t.Errorf("%s: it is over, but %s", row.why, got)
		}
	}
}
