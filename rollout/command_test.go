package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestCommandWithoutEffect: an operator who misspells the execution, or asks for what it cannot do,
// is told so. A command that was carried out may be listed for ever, and nothing is said of it,
// whatever other environments the rule has.
func TestCommandWithoutEffect(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	base := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}), "test") // in both environments the execution on r1 fails
	base.Targets = slices.DeleteFunc(base.Targets, func(t rollout.Target) bool { return (t.Resource == "r2") == (t.Environment == "prod") })
	carryOut(t, &base, mustPlan(t, set, base, t0), t0, rollout.JobFailure)
	base.State = mustPlan(t, set, base, minute(1)).State

	command := func(kind bracket.CommandKind, group, resource, deployment string) bracket.Command {
		return bracket.Command{ID: "c", Kind: kind, Group: group, Resource: resource, Deployment: deployment, At: minute(2)}
	}
	for _, row := range []struct {
		why         string
		command     bracket.Command
		told, later string // by the plan that sees it first, and by the one after
	}{
		{"it repeats the run", command(bracket.Retry, "B/prod/1", "r1", ""), "", ""},
		{"so does one for the other environment", command(bracket.Retry, "B/test/1", "r2", "a"), "", ""},
		{"it ends the execution, and is listed on", command(bracket.Resolve, "B/prod/1", "r1", ""), "", ""},
		{"there is no such deployment", command(bracket.Retry, "B/prod/1", "r1", "b"), "B c: retry did not apply to the execution of B/prod/1 on r1 when it was heard, and never will: b is no member of it", "B c: retry did not apply to the execution of B/prod/1 on r1 when it was heard, and never will: b is no member of it"},
		{"no such group", command(bracket.Retry, "B/prod/2", "r1", ""), "B c: no execution of B/prod/2 has begun on r1", "B c: no execution of B/prod/2 has begun on r1"},
		{"no such environment", command(bracket.Retry, "B/dev/1", "r1", ""), "B c: no execution of B/dev/1 has begun on r1", "B c: no execution of B/dev/1 has begun on r1"},
		{"no such rule", command(bracket.Skip, "D/prod/1", "r1", ""), "D c: no execution of D/prod/1 has begun on r1", "D c: no execution of D/prod/1 has begun on r1"},
		{"no such resource", command(bracket.Abandon, "B/prod/1", "r7", ""), "B c: no execution of B/prod/1 has begun on r7", "B c: no execution of B/prod/1 has begun on r7"},
		{"groups are counted from 1", command(bracket.Retry, "B/prod/0", "r1", ""), "B c: no execution of B/prod/0 has begun on r1", "B c: no execution of B/prod/0 has begun on r1"},
		{"it is no group at all", command(bracket.Skip, "prod", "r1", ""), " c: no execution of prod has begun on r1", " c: no execution of prod has begun on r1"},
	} {
		s := base
		s.Commands = []bracket.Command{row.command}
		for k, want := range []string{row.told, row.later, row.later} {
			plan := mustPlan(t, set, s, minute(2+k))
			got := ""
			for _, d := range plan.Diagnostics {
				if d.Code != rollout.DiagnosticCommandWithoutEffect || d.Example.Resource != row.command.Resource || d.Example.Deployment != row.command.Deployment {
					t.Errorf("%s: %+v", row.why, d)
				}
				got += fmt.Sprintf("%s %s", d.Rule, d.Detail)
			}
			if got != want {
				t.Errorf("%s: plan %d says %q, want %q", row.why, k+1, got, want)
			}
			s.State = plan.State
		}
	}
}

// TestCommandWithoutEffectSaysWhatItIsFor: an operator who is told that a command did nothing learns
// what it would have done something to.
func TestCommandWithoutEffectSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		failure string // onMemberFailure
		status  rollout.JobStatus
		kind    bracket.CommandKind
		member  string
		want    string
	}{
		{"the job hangs, which is no failure", "hold", rollout.JobInProgress, bracket.Retry, "a", "only members that have failed are repeated"},
		{"no name, no failure", "hold", rollout.JobInProgress, bracket.Retry, "", "only members that have failed are repeated"},
		{"without a name only failures are meant", "hold", rollout.JobInProgress, bracket.Skip, "", "only members that have failed are skipped, unless one is named"},
		{"a member that has succeeded", "hold", rollout.JobSuccessful, bracket.Skip, "a", "only a member that is not done is skipped"},
		{"it went to the post members, and what failed before them stays as it is", "run_post", rollout.JobFailure, bracket.Retry, "a", "once the reaction to a failure has begun, only post members and rollbacks that have failed are repeated"},
	} {
		set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"`+row.failure+
			`","memberRoles":{"post":"deployment.id == 'z'"}}}`))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "z": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, row.status)
		s.State = mustPlan(t, set, s, minute(1)).State
		if row.failure == "run_post" {
			carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
		}
		s.Commands = []bracket.Command{{ID: "c", Kind: row.kind, Group: "B/prod/1", Resource: "r1", Deployment: row.member, At: minute(2)}}
		plan := mustPlan(t, set, s, minute(2))
		want := []string{"c: " + string(row.kind) + " did not apply to the execution of B/prod/1 on r1 when it was heard, and never will: " + row.want}
		var got []string
		for _, d := range plan.Diagnostics {
			got = append(got, d.Detail)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", row.why, got, want)
		}
	}
}

// TestCommandOfAnotherEnvironment: groups are numbered per environment. What the first group of one
// did on a node says nothing of the first group of another.
func TestCommandOfAnotherEnvironment(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), "test")
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment != "prod" })
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	s.State = mustPlan(t, set, s, minute(1)).State
	for environment, want := range map[string]int{"prod": 0, "test": 1} {
		s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Retry, Group: "B/" + environment + "/1", Resource: "r1", At: minute(2)}}
		if plan := mustPlan(t, set, s, minute(2)); len(plan.Diagnostics) != want {
			t.Errorf("%s: %+v", environment, plan.Diagnostics)
		}
	}
}

// TestCommandElsewhere: a command names a group that was merged into the execution of another one,
// or an execution in an environment that the snapshot does not hold. The first does nothing; the
// second is heard all the same, and told if it does not apply.
func TestCommandElsewhere(t *testing.T) {
	said := func(p rollout.Plan) (told []string) {
		for _, d := range p.Diagnostics {
			if d.Code == rollout.DiagnosticCommandWithoutEffect {
				told = append(told, d.Detail)
			}
		}
		return told
	}
	merging := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"web": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, merging, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: minute(1)})
	s.State = mustPlan(t, merging, s, minute(1)).State
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "B/prod/2", Resource: "r1", At: minute(2)}}
	if got, want := said(mustPlan(t, merging, s, minute(2))), []string{"c: the execution on r1 is that of B/prod/1 by now"}; !slices.Equal(got, want) {
		t.Errorf("taken over: %q, want %q", got, want)
	}

	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s = inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), "test")
	s.Targets = s.Targets[:1]
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	s.State = mustPlan(t, set, s, minute(1)).State
	gone := s.Targets[0].Environment
	s.Environments = slices.DeleteFunc(slices.Clone(s.Environments), func(e rollout.Environment) bool { return e.ID == gone })
	s.Targets = nil
	for _, row := range []struct {
		why        string
		deployment string
		kind       bracket.CommandKind
		told       []string
	}{
		{"it ends the execution", "", bracket.Resolve, nil},
		{"there is no such member", "b", bracket.Skip, []string{"c: skip did not apply to the execution of B/" + gone + "/1 on r1 when it was heard, and never will: b is no member of it"}},
	} {
		s.Commands = []bracket.Command{{ID: "c", Kind: row.kind, Group: "B/" + gone + "/1", Resource: "r1", Deployment: row.deployment, At: minute(2)}}
		if got := said(mustPlan(t, set, s, minute(2))); !slices.Equal(got, row.told) {
			t.Errorf("%s: %q, want %q", row.why, got, row.told)
		}
	}
}

// TestDiagnosticTellsItself: on one line, with what there is of rule, place and number.
func TestDiagnosticTellsItself(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]rollout.Diagnostic{
		"missing_key [P]: resource.metadata['zone'] (3 times, such as r1)": {Code: rollout.DiagnosticMissingKey, Rule: "P", Detail: "resource.metadata['zone']", Count: 3, Example: rollout.TargetID{Resource: "r1"}},
		"missing_key: k (3 times)":                          {Code: rollout.DiagnosticMissingKey, Detail: "k", Count: 3},
		"override_without_effect [freeze]: o-1 (r1 / prod)": {Code: rollout.DiagnosticOverrideWithoutEffect, Rule: "freeze", Detail: "o-1", Count: 1, Example: rollout.TargetID{Resource: "r1", Environment: "prod"}},
		"version_cycle: a@1 needs b@1":                      {Code: rollout.DiagnosticVersionCycle, Detail: "a@1 needs b@1", Count: 1},
		"job_status_unknown: sucessful is no known status, so such a job counts as active (2 times)":                    {Code: rollout.DiagnosticJobStatusUnknown, Detail: "sucessful", Count: 2},
		"verification_unknown: Passed is no known verification, so such a job counts as neither passed nor failed (r1)": {Code: rollout.DiagnosticVerificationUnknown, Detail: "Passed", Count: 1, Example: rollout.TargetID{Resource: "r1"}},
		"unknown_run [B]: x is of a group that the state does not know (r1)":                                            {Code: rollout.DiagnosticUnknownRun, Rule: "B", Detail: "x", Count: 1, Example: rollout.TargetID{Resource: "r1"}},
		"host_code: ": {Code: "host_code"},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestCommandsAreValidated: a command that nobody can make sense of is a fault of the snapshot,
// also where no policy has a bracket that would look at it, and all are told with their places in
// the host's list.
func TestCommandsAreValidated(t *testing.T) {
	t.Parallel()
	s := fleet(1, "v1", map[string][]string{"a": {"v1"}})
	s.Commands = []bracket.Command{
		{Kind: bracket.Retry, Group: "B/prod/1", Resource: "r1"},
		{Kind: bracket.Retry, Group: "B/prod/1", Resource: "r1"}, // lacks an id as well: that is one fault, and not two commands of one id
		{ID: "c", Kind: "again", Group: "B/prod/1"},
		{ID: "c", Kind: bracket.Resolve, Group: "B/prod/1", Resource: "r1", Deployment: "a"},
	}
	_, err := compile(t, policy(`{"retry":{"maxRetries":1}}`)).Plan(s, t0)
	var got []string
	for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
		var fault *rollout.FieldError
		if !errors.As(one, &fault) {
			t.Fatal(one)
		}
		got = append(got, fmt.Sprintf("%s %s", fault.Path, fault.Code))
	}
	if want := []string{"commands[0].id required", "commands[1].id required", "commands[2].resource required", "commands[2].kind unknown_value", "commands[3].deployment conflict", "commands[3].id duplicate"}; !slices.Equal(got, want) {
		t.Errorf("%q\n%v", got, err)
	}
}
