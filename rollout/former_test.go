package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestFormerMembers: an execution that is open when its rule goes holds the targets of its members,
// and nobody else's, until it ends.
func TestFormerMembers(t *testing.T) {
	const rules = `{"deploymentBracket":{"deploymentSelector":"deployment.name != 'c'","readinessMode":"immediate","memberRoles":{}}},{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}, "c": {"v1"}})
	plan := mustPlan(t, compile(t, policy(rules)), s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) {
		t.Fatalf("starts %q", got)
	}
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	now := t0.Add(time.Minute)
	s.Versions = append(s.Versions, rollout.Version{ID: "v4", Tag: "v4", Deployment: "c", Status: rollout.VersionReady, CreatedAt: t0},
		rollout.Version{ID: "v5", Tag: "v5", Deployment: "b", Status: rollout.VersionReady, CreatedAt: t0})
	without := compile(t, policy(`{"retry":{"maxRetries":1}}`))
	plan = mustPlan(t, without, s, now)
	if got := started(plan); !slices.Equal(got, []string{"r1/c@v4"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
	if got := blockers(plan); !slices.Equal(got, []string{"r1/b@v3: bracket_waits_for_members"}) {
		t.Errorf("waits %q", got)
	}
	for k := range s.Targets { // a ends: b follows with the version that was locked, and only then takes the newest
		if jobs := s.Targets[k].Jobs; s.Targets[k].Deployment == "a" {
			jobs[0].Status, jobs[0].CompletedAt = rollout.JobSuccessful, now
			s.Targets[k].Current = "v2"
		}
	}
	if got := started(mustPlan(t, without, s, now.Add(time.Minute))); !slices.Contains(got, "r1/b@v3") || slices.Contains(got, "r1/b@v5") {
		t.Errorf("starts %q", got)
	}
}

// TestFormerMemberGetsNothingNew: a resource that leaves the policy while its execution is open is
// finished with what was frozen. A newer group, which would be merged into the execution, is for
// those who are members still.
func TestFormerMemberGetsNothingNew(t *testing.T) {
	const policy = `{"name":"p","selector":"resource.metadata['cluster'] == 'east'","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",
		"memberRoles":{},"overlapStrategy":"merge","preparedStatePersists":true}},{"deploymentDependency":{"appliesTo":"deployment.name == '%s'","dependsOn":"deployment.name == '%s'"}}]}`
	for _, row := range []struct {
		why, cluster  string
		waits, before string
		want          []string
	}{
		{"a member waits for the newer version, which the execution has taken over", "east", "b", "a", []string{"r1/b@v3: bracket_waits_for_members"}},
		{"a former member for the one that was frozen", "west", "b", "a", []string{"r1/b@v2: bracket_waits_for_members"}},
		{"and so does the first of two", "west", "a", "b", []string{"r1/a@v2: bracket_waits_for_members"}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := compile(t, fmt.Sprintf(policy, row.waits, row.before))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		now := t0.Add(time.Minute)
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: row.waits, Status: rollout.VersionReady, CreatedAt: now})
		s.Resources[0].Metadata = map[string]string{"cluster": row.cluster}
		if got := blockers(mustPlan(t, set, s, now)); !slices.Equal(got, append(row.want, "r2/"+row.waits+"@v3: bracket_waits_for_members")) {
			t.Errorf("%s: %q", row.why, got)
		}
	}
}

// TestDefectFormerMemberTakenBack: somebody takes a target to a newer version by hand while the
// execution that is to deploy the older one is open. Nothing takes the target back, also where the
// target has left the bracket and no member of its deployment is left.
func TestDefectFormerMemberTakenBack(t *testing.T) {
	for _, row := range []struct{ why, id, selector string }{
		{"the target is a member", "B", "true"},
		{"it has left the bracket, which has no members any more", "B", "false"},
		{"the rule is gone", "", "true"},
		{"the rule is renamed, so that the target is a member of another bracket", "C", "true"},
	} {
		for _, names := range [][2]string{{"a", "b"}, {"b", "a"}} { // what runs first, and what waits for it
			bracketed := func(id, selector string) string {
				return fmt.Sprintf(`{"name":"p","selector":"%s","rules":[{"id":"%s","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
					{"deploymentDependency":{"appliesTo":"deployment.name == '%s'","dependsOn":"deployment.name == '%s'"}}]}`, selector, id, names[1], names[0])
			}
			s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
			carryOut(t, &s, mustPlan(t, compile(t, bracketed("B", "true")), s, t0), t0, rollout.JobInProgress)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: names[1], Status: rollout.VersionReady, CreatedAt: minute(1)})
			for k := range s.Targets {
				target := &s.Targets[k]
				if target.Deployment == names[1] {
					target.Current = "v3"
					continue
				}
				target.Jobs[0].Status, target.Jobs[0].CompletedAt, target.Current = rollout.JobSuccessful, minute(2), "v2"
			}
			after := policy(`{"retry":{"maxRetries":1}}`)
			if row.id != "" {
				after = bracketed(row.id, row.selector)
			}
			if plan := mustPlan(t, compile(t, after), s, minute(3)); len(plan.Start)+plan.Waiting.Len() > 0 {
				t.Errorf("%s, %s: starts %q, waits %q", row.why, names[1], started(plan), blockers(plan))
			}
		}
	}
}

// TestDefectFormerMemberOutdated: a target that has left its bracket becomes outdated while its
// execution is open. That opens no group, which would take the place of the one whose turn on the
// members is still to come.
func TestDefectFormerMemberOutdated(t *testing.T) {
	const policy = `{"name":"p","selector":"resource.metadata['cluster'] == 'east'","rules":[
		{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":60,"memberRoles":{}}},
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderKey":"resource"}}]}`
	set := compile(t, policy)
	for _, row := range []struct {
		why, cluster string
		groups       int
	}{
		{"a member that becomes outdated opens a group", "east", 1},
		{"a former member opens none", "west", 0},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.State = mustPlan(t, set, s, t0).State
		plan := mustPlan(t, set, s, minute(1))
		if len(plan.Start) != 1 {
			t.Fatalf("%s: starts %q", row.why, started(plan))
		}
		carryOut(t, &s, plan, minute(1), rollout.JobInProgress)
		for k := range s.Targets {
			if s.Targets[k].Resource == plan.Start[0].Resource {
				s.Targets[k].OutdatedAt = minute(2)
				s.Resources[k].Metadata = map[string]string{"cluster": row.cluster}
			}
		}
		opened := 0
		for _, event := range mustPlan(t, set, s, minute(3)).Events {
			if event.Kind == bracket.GroupOpened {
				opened++
			}
		}
		if opened != row.groups {
			t.Errorf("%s: %d opened", row.why, opened)
		}
	}
}

// TestFormerMemberSaysThatItWaits: who is no member any more, and has its run behind it, waits from
// the instant at which there is a newer version, and the plan before is looked at again then.
func TestFormerMemberSaysThatItWaits(t *testing.T) {
	const rule = `{"id":"b","deploymentBracket":{"deploymentSelector":"%s","readinessMode":"immediate","memberRoles":{}}}`
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
	set := compile(t, policy(fmt.Sprintf(rule, "true")))
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	published := t0.Add(30 * time.Minute)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: published})
	set = compile(t, policy(fmt.Sprintf(rule, "deployment.name == 'a'")))
	plan := mustPlan(t, set, s, t0.Add(time.Minute))
	if plan.Waiting.Len() > 0 || !plan.Next.Equal(published) {
		t.Errorf("waits %q, looks again at %v", blockers(plan), plan.Next)
	}
	if plan = mustPlan(t, set, s, published); len(plan.Start) > 0 || plan.Waiting.Len() != 1 {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestMemberWaitsForWhatItWillRun: the wait names the version that was frozen, also when the
// snapshot does not hold it any more, and on the way back the version that the member returns to.
func TestMemberWaitsForWhatItWillRun(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_all"}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	pruned := s
	pruned.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.Deployment == "b" && v.ID == "v2" })
	if got := blockers(mustPlan(t, set, pruned, t0.Add(time.Minute))); !slices.Equal(got, []string{"r1/b@v2: bracket_waits_for_members"}) {
		t.Errorf("the version is gone: %q", got)
	}
	end := func(status rollout.JobStatus, now time.Time) rollout.Plan {
		for k := range s.Targets {
			if jobs := s.Targets[k].Jobs; len(jobs) > 0 && jobs[len(jobs)-1].Status == rollout.JobInProgress {
				jobs[len(jobs)-1].Status, jobs[len(jobs)-1].CompletedAt = status, now
			}
		}
		plan := mustPlan(t, set, s, now)
		carryOut(t, &s, plan, now, rollout.JobInProgress)
		return plan
	}
	end(rollout.JobSuccessful, t0.Add(2*time.Minute))
	s.Targets[0].Current = "v2"
	plan := end(rollout.JobFailure, t0.Add(3*time.Minute))
	if got := started(plan); !slices.Equal(got, []string{"r1/b@v1"}) {
		t.Errorf("after the failure starts %q", got)
	}
	plan = mustPlan(t, set, s, t0.Add(4*time.Minute))
	if got := blockers(plan); !slices.Contains(got, "r1/a@v1: bracket_waits_for_members") {
		t.Errorf("on the way back: %q", got)
	}
}

// TestFormerMemberOpensNoGate: what nobody may have who is still a member is not collected because
// a former member is outside the policy and its gates: once it is approved, it opens a group of its
// own.
func TestFormerMemberOpensNoGate(t *testing.T) {
	set := compile(t, `{"name":"p","selector":"resource.metadata['cluster'] == 'east'","rules":[{"anyApproval":{"minApprovals":1}},
		{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}`)
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	approve := func(deployment, version string, at time.Time) {
		s.Approvals = append(s.Approvals, rollout.Approval{Version: version, Deployment: deployment, Environment: "prod", By: "ann", Status: rollout.Approved, At: at})
	}
	approve("a", "v2", t0)
	approve("b", "v2", t0)
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	s.Targets[0].Jobs[0].Status = rollout.JobInProgress // r1/a
	s.Resources[0].Metadata = map[string]string{"cluster": "west"}
	now := minute(1)
	for _, d := range []string{"a", "b"} {
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: d, Status: rollout.VersionReady, CreatedAt: now})
	}
	approve("b", "v3", now)
	plan := mustPlan(t, set, s, now)
	if got := started(plan); !slices.Equal(got, []string{"r2/b@v3"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
	carryOut(t, &s, plan, now, rollout.JobSuccessful)
	s.Targets[0].Jobs[0].Status = rollout.JobInProgress
	approve("a", "v3", minute(2))
	if plan = mustPlan(t, set, s, minute(2)); !slices.Equal(started(plan), []string{"r2/a@v3"}) {
		t.Errorf("approved: starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestFormerMemberOpensNoWindow: nor does it open a window at the instant from which it might have had
// the version: that of who is still a member is as long as ever.
func TestFormerMemberOpensNoWindow(t *testing.T) {
	set := compile(t, `{"name":"p","selector":"resource.metadata['cluster'] == 'east'","rules":[{"anyApproval":{"minApprovals":1}},
		{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}]}`)
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	approve := func(version string, at time.Time) {
		s.Approvals = append(s.Approvals, rollout.Approval{Version: version, Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: at})
	}
	approve("v2", t0)
	s.State = mustPlan(t, set, s, t0).State
	carryOut(t, &s, mustPlan(t, set, s, minute(10)), minute(10), rollout.JobSuccessful)
	s.Targets[0].Jobs[0].Status = rollout.JobInProgress // r1, which has left
	s.Resources[0].Metadata = map[string]string{"cluster": "west"}
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(11)})
	approve("v3", minute(40))
	plan := mustPlan(t, set, s, minute(41))
	if c := plan.State.Brackets[0].Collecting; c == nil || !c.OpenedAt.Equal(minute(40)) || len(plan.Start) > 0 {
		t.Errorf("starts %q, waits %q: %v", started(plan), blockers(plan), plan.Events)
	}
}

// TestFormerMemberOfTheNextGroup: a deployment left the bracket while the execution ran, and after
// the next group had closed with it. When the execution ends the next one begins without it in the
// same plan, which says one thing of the target: it is kept.
func TestFormerMemberOfTheNextGroup(t *testing.T) {
	rules := func(members string) *rollout.PolicySet {
		return compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"`+members+`","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}`))
	}
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
	carryOut(t, &s, mustPlan(t, rules("true"), s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
	s.State = mustPlan(t, rules("true"), s, minute(1)).State
	for k := range s.Targets {
		j := &s.Targets[k].Jobs[0]
		j.Status, j.CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, minute(2), j.Version
	}
	left := rules("deployment.name != 'b'")
	plan := mustPlan(t, left, s, minute(2))
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v3"}) || plan.Waiting.Len() > 0 || plan.Keep.Current != 1 {
		t.Fatalf("starts %q, waits %q, keeps %+v", got, blockers(plan), plan.Keep)
	}
	carryOut(t, &s, plan, minute(2), rollout.JobInProgress)
	if plan = mustPlan(t, left, s, minute(3)); len(plan.Start)+plan.Waiting.Len() > 0 || plan.Keep.Current != 1 || plan.Keep.Started != 1 {
		t.Errorf("afterwards: starts %q, waits %q, keeps %+v", started(plan), blockers(plan), plan.Keep)
	}
}

// TestHandedOver: somebody splits a policy while r1 is at work, and its targets are members of
// another bracket by now. The execution that is open there is finished by the rule that began it;
// the other bracket waits for its end, and goes on in the very plan that ends it.
func TestHandedOver(t *testing.T) {
	bracketed := func(name, selector string) string {
		return `{"name":"` + name + `","selector":"` + selector + `","rules":[{"id":"B` + name + `","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
			{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}]}`
	}
	join := func(policies ...string) string { return "[" + strings.Join(policies, ",") + "]" }
	for _, row := range []struct {
		why           string
		before, after string
	}{
		{"a second policy takes r1", join(bracketed("m", "true")), join(bracketed("m", "resource.id != 'r1'"), bracketed("z", "resource.id == 'r1'"))},
		{"one that is asked before the other", join(bracketed("m", "true")), join(bracketed("m", "resource.id != 'r1'"), bracketed("a", "resource.id == 'r1'"))},
		{"both exchange what they govern", join(bracketed("m", "resource.id == 'r1'"), bracketed("z", "resource.id != 'r1'")), join(bracketed("m", "resource.id != 'r1'"), bracketed("z", "resource.id == 'r1'"))},
		{"the rule is renamed", join(bracketed("m", "true")), join(bracketed("z", "true"))},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := compile(t, row.before)
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		set = compile(t, row.after)
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(1)})
		plan := mustPlan(t, set, s, minute(1))
		s.State = plan.State
		if got := blockers(plan); len(plan.Start) > 0 || !slices.Contains(got, "r1/b@v2: bracket_waits_for_members") {
			t.Fatalf("%s: starts %q, waits %q", row.why, started(plan), got)
		}
		end := func(now time.Time) {
			for k := range s.Targets {
				for j := range s.Targets[k].Jobs {
					if job := &s.Targets[k].Jobs[j]; !job.Status.Terminal() {
						job.Status, job.CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, now, job.Version
					}
				}
			}
		}
		end(minute(2))
		plan = mustPlan(t, set, s, minute(2))
		if got := started(plan); !slices.Contains(got, "r1/b@v2") || len(plan.Start)+plan.Waiting.Len()+plan.Keep.Current+plan.Keep.Started < 4 {
			t.Fatalf("%s: starts %q, waits %q", row.why, got, blockers(plan))
		}
		carryOut(t, &s, plan, minute(2), rollout.JobInProgress)
		end(minute(3))
		plan = mustPlan(t, set, s, minute(3))
		if got := started(plan); !slices.Equal(got, []string{"r1/b@v3", "r2/b@v3"}) || strings.HasPrefix(plan.Start[0].Group, "target/") {
			t.Fatalf("%s: starts %q, the first for %s, waits %q", row.why, got, plan.Start[0].Group, blockers(plan))
		}
		carryOut(t, &s, plan, minute(3), rollout.JobSuccessful)
		s.State = mustPlan(t, set, s, minute(4)).State
		if plan = mustPlan(t, set, s, minute(4)); len(plan.Start)+plan.Waiting.Len() > 0 {
			t.Errorf("%s: in the end starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestHandedOverByTwo: two brackets are at work on r1 when a third takes over what each of them has
// there. It waits for both: nothing begins on a node on which an execution is still open, whichever
// of them ends first.
func TestHandedOverByTwo(t *testing.T) {
	t.Parallel()
	bracketed := func(name, members string) string {
		return `{"name":"` + name + `","selector":"true","rules":[{"id":"B` + name + `","deploymentBracket":{"deploymentSelector":"deployment.name in [` + members + `]","readinessMode":"immediate","memberRoles":{}}}]}`
	}
	join := func(policies ...string) string { return "[" + strings.Join(policies, ",") + "]" }
	for _, order := range [][]string{{"m", "n"}, {"n", "m"}} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1"}, "x": {"v1"}, "y": {"v1"}})
		carryOut(t, &s, mustPlan(t, compile(t, join(bracketed("m", "'a', 'b', 'x'"), bracketed("n", "'c', 'y'"))), s, t0), t0, rollout.JobFailure)
		s.Versions = append(s.Versions, rollout.Version{ID: "v2", Tag: "v2", Deployment: "d", Status: rollout.VersionReady, CreatedAt: t0})
		set := compile(t, join(bracketed("m", "'x'"), bracketed("n", "'y'"), bracketed("z", "'a', 'b', 'c', 'd'")))
		var rules []string // for which d waits
		plan := mustPlan(t, set, s, t0)
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "d"})
		for _, v := range wait.Blockers {
			if v.Reason == "bracket_queued" {
				rules = append(rules, v.Rule)
			}
		}
		if !slices.Equal(rules, []string{"Bm", "Bn"}) {
			t.Errorf("waits for %q", rules)
		}
		for k, want := range [][]string{nil, {"r1/a@v2", "r1/b@v2", "r1/c@v2", "r1/d@v2"}} { // an operator ends one after the other
			s.Commands = append(s.Commands, bracket.Command{ID: order[k], Kind: bracket.Resolve, Group: "B" + order[k] + "/prod/1", Resource: "r1", At: minute(1 + k)})
			plan := mustPlan(t, set, s, minute(1+k))
			if s.State = plan.State; !slices.Equal(started(plan), want) {
				t.Errorf("%s has ended: starts %q, waits %q", order[:1+k], started(plan), blockers(plan))
			}
		}
	}
}

// TestLeftForNobody: a member leaves a bracket while its execution is open, and no other bracket
// takes it. Those that have other targets on the node wait for nobody.
func TestLeftForNobody(t *testing.T) {
	t.Parallel()
	bracketed := func(name, members string) string {
		return `{"name":"` + name + `","selector":"true","rules":[{"id":"B` + name + `","deploymentBracket":{"deploymentSelector":"deployment.name in [` + members + `]","readinessMode":"immediate","memberRoles":{}}}]}`
	}
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1"}})
	carryOut(t, &s, mustPlan(t, compile(t, bracketed("m", "'a', 'b'")), s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v2", Tag: "v2", Deployment: "c", Status: rollout.VersionReady, CreatedAt: minute(1)})
	plan := mustPlan(t, compile(t, `[`+bracketed("m", "'a'")+`,`+bracketed("z", "'c'")+`]`), s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r1/c@v2"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
}

// TestHandedOverInPart: of two members on r1 another bracket takes one while the execution is open.
// The rule that began it keeps the other, and gives it what is next in the very plan that ends the
// execution, without waiting for itself.
func TestHandedOverInPart(t *testing.T) {
	t.Parallel()
	bracketed := func(name, members, overlap string) string {
		return `{"name":"` + name + `","selector":"true","rules":[{"id":"B` + name + `","deploymentBracket":{"deploymentSelector":"deployment.name in [` + members + `]",` + overlap + `"readinessMode":"immediate","memberRoles":{}}}]}`
	}
	for _, row := range []struct {
		overlap string
		before  []string // what waits while the execution is open
	}{
		{"", []string{"r1/c@v3: bracket_queued"}},
		{`"overlapStrategy":"merge","preparedStatePersists":true,`, []string{"r1/c@v3: bracket_waits_for_members"}},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, compile(t, bracketed("m", "'a', 'c'", row.overlap)), s, t0), t0, rollout.JobInProgress)
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "c", Status: rollout.VersionReady, CreatedAt: minute(1)})
		set := compile(t, `[`+bracketed("m", "'c'", row.overlap)+`,`+bracketed("z", "'a'", "")+`]`)
		plan := mustPlan(t, set, s, minute(1))
		if got := blockers(plan); len(plan.Start) > 0 || !slices.Equal(got, row.before) {
			t.Errorf("%q: starts %q, waits %q, want %q", row.overlap, started(plan), got, row.before)
		}
		s.State = plan.State
		for k := range s.Targets {
			s.Targets[k].Jobs[0].Status, s.Targets[k].Jobs[0].CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, minute(2), "v2"
		}
		if plan = mustPlan(t, set, s, minute(2)); !slices.Equal(started(plan), []string{"r1/c@v3"}) {
			t.Errorf("%q: in the end starts %q, waits %q", row.overlap, started(plan), blockers(plan))
		}
	}
}

// TestSuccessorSaysWhomItWaitsFor: what begins on a resource under another rule names the rule, and
// the resource, of the execution that is still open there.
func TestSuccessorSaysWhomItWaitsFor(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
	rule := func(id, members string) *rollout.PolicySet {
		return compile(t, policy(`{"id":"`+id+`","deploymentBracket":{"deploymentSelector":"`+members+`","readinessMode":"immediate","memberRoles":{}}}`))
	}
	plan := mustPlan(t, rule("old", "deployment.name == 'a'"), s, t0)
	plan.Start = slices.DeleteFunc(plan.Start, func(s rollout.Start) bool { return s.Resource != "r1" || s.Deployment != "a" })
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	plan = mustPlan(t, rule("new", "true"), s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r2/a@v2", "r2/c@v2"}) || plan.Waiting.Len() != 1 {
		t.Fatalf("starts %q, waits %q", got, blockers(plan))
	}
	wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "c"})
	own := wait.Blockers
	queued := slices.IndexFunc(own, func(v rollout.Verdict) bool { return v.Reason == "bracket_queued" })
	if queued < 0 || own[queued].Status != rollout.Pending || own[queued].Rule != "old" || !slices.Equal(own[queued].On, []rollout.Condition{{Kind: rollout.OnExecutionEnd, Rule: "old", Resource: "r1"}}) {
		t.Errorf("r1/c waits for %+v", own)
	}
}

// TestFormerMemberIsCountedOnce: a hook that waits in the execution of a rule which is gone is not
// counted among those that have nothing to do, although the next bracket has nothing for it.
func TestFormerMemberIsCountedOnce(t *testing.T) {
	rule := func(id string) *rollout.PolicySet {
		return compile(t, policy(`{"id":"`+id+`","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'd'","post":"deployment.name == 'u'"}}}`))
	}
	s := fleet(1, "v1", map[string][]string{"d": {"v1"}, "m": {"v1", "v2"}, "u": {"v1"}})
	carryOut(t, &s, mustPlan(t, rule("old"), s, t0), t0, rollout.JobSuccessful)
	carryOut(t, &s, mustPlan(t, rule("old"), s, minute(1)), minute(1), rollout.JobSuccessful)
	for i := range s.Targets {
		switch target := &s.Targets[i]; target.Deployment {
		case "m":
			target.Current = "v2"
		case "u": // somebody uncordons it by hand
			target.Jobs = append(target.Jobs, rollout.Job{Version: "v1", Status: rollout.JobInProgress, CreatedAt: minute(2)})
		}
	}
	plan := mustPlan(t, rule("new"), s, minute(3))
	if got := blockers(plan); !slices.Equal(got, []string{"r1/u@v1: target_busy"}) || plan.Keep != (rollout.Keep{Current: 2}) {
		t.Errorf("waits %q, keeps %+v", got, plan.Keep)
	}
}

// TestRuleComesBack: a rule is away for a while, in which nobody may start. What had not begun
// under it is cancelled, and once it is back begins in a group of its own: the versions are new
// again wherever they do not run.
func TestRuleComesBack(t *testing.T) {
	const pause = `{"name":"pause","selector":"true","rules":[{"id":"pause","resourceConcurrency":{"groupSelector":"true","limit":0}}]}`
	rules := func(enabled bool) *rollout.PolicySet {
		text := `{"name":"p","enabled":` + map[bool]string{true: "true", false: "false"}[enabled] + `,"selector":"true","rules":[
			{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"l","resourceConcurrency":{"groupSelector":"true","limit":1}}]}`
		if !enabled {
			text += "," + pause
		}
		return compile(t, "["+text+"]")
	}
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, rules(true), s, t0), t0, rollout.JobSuccessful)
	plan := mustPlan(t, rules(false), s, minute(1))
	if len(plan.Start) > 0 {
		t.Fatalf("starts %q", started(plan))
	}
	s.State = plan.State
	if plan = mustPlan(t, rules(true), s, minute(2)); !slices.Equal(started(plan), []string{"r2/a@v2"}) || !strings.HasSuffix(plan.Start[0].Group, "/2") {
		t.Fatalf("starts %q, waits %q", started(plan), blockers(plan))
	}
	carryOut(t, &s, plan, minute(2), rollout.JobSuccessful)
	if plan = mustPlan(t, rules(true), s, minute(3)); len(plan.Start)+plan.Waiting.Len() > 0 || plan.Keep.Current != 2 {
		t.Errorf("in the end starts %q, waits %q", started(plan), blockers(plan))
	}
	s.State = plan.State
	s.State = mustPlan(t, rules(false), s, minute(4)).State
	if plan = mustPlan(t, rules(true), s, minute(5)); len(plan.Events) > 0 {
		t.Errorf("where all have the version nothing is new: %+v", plan.Events)
	}
}

// TestFormerHookHasNoTurn: a group that waits behind an open execution runs a hook that has left
// all policies meanwhile, with what it has. No curve governs the hook any more, so it has no place
// in one.
func TestFormerHookHasNoTurn(t *testing.T) {
	const policies = `[{"name":"p","selector":"%[1]s","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}]},
		{"name":"q","selector":"%[1]s","rules":[{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"target"}}]}]`
	s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "app": {"v1", "v2"}})
	set := compile(t, fmt.Sprintf(policies, "true"))
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "app", Status: rollout.VersionReady, CreatedAt: minute(1)})
	s.State = mustPlan(t, set, s, minute(1)).State
	plan := mustPlan(t, compile(t, fmt.Sprintf(policies, "deployment.name == 'app'")), s, minute(2))
	if got := blockers(plan); !slices.Equal(got, []string{"r1/app@v2: bracket_waits_for_members"}) {
		t.Errorf("waits %q, starts %q", got, started(plan))
	}
}
