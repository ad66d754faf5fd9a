package rollout_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestForeignJobInsideAnExecution: an execution is at work, and a job that the host made by hand is
// active on the target of the member that is next. The member waits for it, whether its run is
// still to be offered or was offered before and has no job; then it runs.
func TestForeignJobInsideAnExecution(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`))
	byHand := rollout.Job{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(time.Minute)}
	for _, offered := range []bool{false, true} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.Targets[0].Current = "v2"
		if offered {
			plan := mustPlan(t, set, s, t0.Add(time.Second))
			state, err := plan.Commit(plan.Start, t0.Add(time.Second))
			if err != nil || len(plan.Start) != 1 {
				t.Fatal(started(plan), err)
			}
			s.State = state
		}
		s.Targets[1].Jobs = []rollout.Job{byHand}
		plan := mustPlan(t, set, s, t0.Add(2*time.Minute))
		if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, []string{"r1/b@v2: target_busy"}) {
			t.Errorf("offered %t: starts %q, waits %q", offered, started(plan), got)
		}
		s.Targets[1].Jobs[0].Status, s.Targets[1].Jobs[0].CompletedAt = rollout.JobSuccessful, t0.Add(3*time.Minute)
		if plan := mustPlan(t, set, s, t0.Add(3*time.Minute)); !slices.Equal(started(plan), []string{"r1/b@v2"}) {
			t.Errorf("offered %t, and then: starts %q, waits %q", offered, started(plan), blockers(plan))
		}
	}
}

// TestRunThatIsNotOverAfterAll: the host said that a run had failed, and takes it back. The bracket
// has noted the failure, and merges the next group into the halted execution: its run waits for the
// job that is active, and comes when that has ended.
func TestRunThatIsNotOverAfterAll(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"hold","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	if plan := mustPlan(t, set, s, minute(1)); len(plan.Start) != 0 {
		t.Fatalf("starts %q", started(plan))
	} else {
		s.State = plan.State
	}
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(2)},
		rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(2)})
	again := &s.Targets[0].Jobs[0]
	again.Status, again.CompletedAt = rollout.JobInProgress, time.Time{}
	for n := 2; n < 5; n++ {
		plan := mustPlan(t, set, s, minute(n))
		if got := blockers(plan); !slices.Equal(got, []string{"r1/a@v3: target_busy"}) || !slices.Equal(started(plan), []string{"r1/b@v3"}) {
			t.Fatalf("minute %d: starts %q, waits %q", n, started(plan), got)
		}
		s.State = plan.State
	}
	again.Status, again.CompletedAt = rollout.JobFailure, minute(5)
	if got := started(mustPlan(t, set, s, minute(5))); !slices.Equal(got, []string{"r1/a@v3", "r1/b@v3"}) {
		t.Errorf("and then starts %q", got)
	}
}

// TestStuckRunOfABracket: a run that has had no outcome for too long is listed, and says whose it
// is and since when; not a moment earlier.
func TestStuckRunOfABracket(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","stuckAfterSeconds":60,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	start := plan.Start[0]
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	if got := mustPlan(t, set, s, t0.Add(time.Minute-1)).Stuck; len(got) != 0 {
		t.Errorf("early: %+v", got)
	}
	want := []rollout.Stuck{{Resource: "r1", Group: start.Group, Run: start.Run, Since: t0.Add(time.Minute)}}
	if got := mustPlan(t, set, s, t0.Add(time.Minute)).Stuck; !slices.Equal(got, want) || start.Group == "" || start.Run == "" {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestStartsInOrderOfPosition: of executions that are due at one time the first in the order of the
// rollout get what slots there are.
func TestStartsInOrderOfPosition(t *testing.T) {
	curve := func(seconds string) string {
		return `,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":` + seconds + `}}`
	}
	s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}})
	order := orderOf(t, mustPlan(t, compile(t, policy(alone+curve("60"))), s, t0), 5)
	plan := mustPlan(t, compile(t, policy(alone+curve("0")+`,{"resourceConcurrency":{"groupSelector":"true","limit":3}}`)), s, t0)
	var got []string
	for _, start := range plan.Start {
		got = append(got, start.Resource)
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(order[:3])); !slices.Equal(got, want) {
		t.Errorf("starts %q, the order is %q", got, order)
	}
}

// TestStartsWithoutATarget: an execution is at work, and the target of the member that is next is
// not in the snapshot, whether its resource is or not. There is nothing to start it on, and the
// others go on.
func TestStartsWithoutATarget(t *testing.T) {
	set := compile(t, policy(alone+`,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`))
	for _, row := range []struct {
		why  string
		gone func(rollout.Target) bool
	}{
		{"the resource is missing", func(x rollout.Target) bool { return x.Resource == "r1" }},
		{"the target alone is", func(x rollout.Target) bool { return x.Resource == "r1" && x.Deployment == "b" }},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.State = mustPlan(t, set, s, t0).State // which knows that the first is done
		s.Targets = slices.DeleteFunc(s.Targets, row.gone)
		if !slices.ContainsFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r1" }) {
			s.Resources = s.Resources[1:]
		}
		if plan := mustPlan(t, set, s, t0.Add(time.Minute)); !slices.Equal(started(plan), []string{"r2/b@v2"}) {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestHookOfferedAgain: the run of a hook was offered and has no job, and meanwhile the next group
// is ready, with the same version of the hook. The run is offered again, and so the hook does not
// wait; the member does.
func TestHookOfferedAgain(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"d"}, "m": {"v1", "v2"}})
	s.Targets[0].Current = "d"
	plan := mustPlan(t, set, s, t0)
	s.State = mustCommit(t, plan, t0)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "m", Status: rollout.VersionReady, CreatedAt: t0.Add(time.Minute)})
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if !slices.Equal(started(plan), []string{"r1/drain@d"}) || !slices.Equal(blockers(plan), []string{"r1/m@v2: bracket_waits_for_members"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
	// The drain is done: the member starts in the old version, and waits in the new one, of which
	// the group comes next.
	add(&s, plan.Start[0], job(plan.Start[0], t0.Add(2*time.Minute), rollout.JobSuccessful))
	plan = mustPlan(t, set, s, t0.Add(2*time.Minute))
	if !slices.Equal(started(plan), []string{"r1/m@v2"}) || !slices.Contains(blockers(plan), "r1/m@v3: bracket_queued") {
		t.Errorf("then: starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestBackToWhatTheNextGroupHas: a member failed and goes back, and its version was paused
// meanwhile. So the next group, which waits for the end of the execution, has for it the version
// that it goes back to. The member does not wait for that version: it gets it now, also when that
// run is offered again. The other member waits.
func TestBackToWhatTheNextGroupHas(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"rollback_member","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	for k := range s.Targets {
		if x := &s.Targets[k]; x.Deployment == "a" {
			x.Jobs[0].Status = rollout.JobFailure
		} else {
			x.Current = "v2"
		}
	}
	for k := range s.Versions {
		if v := &s.Versions[k]; v.Deployment == "a" && v.ID == "v2" {
			v.Status = rollout.VersionPaused
		}
	}
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(1)})
	for _, when := range []string{"offered", "offered again"} {
		plan = mustPlan(t, set, s, minute(1))
		if !slices.Equal(started(plan), []string{"r1/a@v1"}) || !slices.Equal(blockers(plan), []string{"r1/b@v3: bracket_queued"}) {
			t.Errorf("%s: starts %q, waits %q", when, started(plan), blockers(plan))
		}
		state, err := plan.Commit(plan.Start, minute(1))
		if err != nil {
			t.Fatal(err)
		}
		s.State = state
	}
}

// TestEndedJobOfTheVersion: a job of the version that is collected failed before, and another job
// is active. The version waits: it is not at work.
func TestEndedJobOfTheVersion(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":3600,"memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{
		{Run: "by hand 2", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0},
		{Run: "by hand 1", Version: "v2", Status: rollout.JobFailure, CreatedAt: t0.Add(-time.Minute), CompletedAt: t0},
	}
	if got := blockers(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r1/a@v2: bracket_collecting"}) {
		t.Errorf("waits %q", got)
	}
}

// TestFirstVersionIsCollected: the first version that a deployment ever has waits in the window as
// later ones do, where it is meant to run.
func TestFirstVersionIsCollected(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":3600,"memberRoles":{}}}`))
	s := fleet(2, "", map[string][]string{"a": {"v1"}})
	s.Versions[0].TargetSelector = "resource.name == 'r1'"
	if got := blockers(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r1/a@v1: bracket_collecting"}) {
		t.Errorf("waits %q", got)
	}
}

// TestOpinionsOfTheirOwn: of targets that run the same each is told what holds itself: its
// deployment, its version, the policies and overrides for its resource.
func TestOpinionsOfTheirOwn(t *testing.T) {
	const window = `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'x'","readinessMode":"collection_window","readinessWindowSeconds":3600,"memberRoles":{}}}`
	const approval = `{"id":"ok","anyApproval":{"minApprovals":1}}`
	for _, row := range []struct {
		why, policies string
		change        func(*rollout.Snapshot)
		want          []string // what r1/a, r1/m, r2/a, r2/m wait for besides their bracket
	}{
		{"each deployment needs an approval of its own", policy(window + "," + approval), func(*rollout.Snapshot) {}, []string{
			"approval_missing:a/v2", "approval_missing:m/v2", "approval_missing:a/v2", "approval_missing:m/v2"}},
		{"each version does", policy(window + "," + approval), func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0, TargetSelector: "resource.name == 'r2'"})
		}, []string{"approval_missing:a/v2", "approval_missing:m/v2", "approval_missing:a/v3", "approval_missing:m/v2"}},
		{"another policy is for the second only", `[` + policy(window) + `,{"name":"q","selector":"resource.name == 'r2'","rules":[` + approval + `]}]`, func(*rollout.Snapshot) {},
			[]string{"", "", "approval_missing:a/v2", "approval_missing:m/v2"}},
		{"an override lets the first pass", policy(window + "," + approval), func(s *rollout.Snapshot) { s.Overrides = []rollout.Override{override("ok", only("r1"))} },
			[]string{"", "", "approval_missing:a/v2", "approval_missing:m/v2"}},
		{"an expression that reads the resource", policy(window + `,{"id":"v","versionSelector":{"selector":"resource.name == 'r2'"}}`), func(*rollout.Snapshot) {},
			[]string{"selector_no_match", "selector_no_match", "", ""}},
		{"and an override of that for the first", policy(window + `,{"id":"v","versionSelector":{"selector":"resource.name == 'r3'"}}`), func(s *rollout.Snapshot) { s.Overrides = []rollout.Override{override("v", only("r1"))} },
			[]string{"", "", "selector_no_match", "selector_no_match"}},
		{"an expression that fails on the first", policy(window + `,{"id":"l","resourceConcurrency":{"groupSelector":"int(resource.metadata['rack']) > 0","limit":1}}`), func(s *rollout.Snapshot) {
			s.Resources[0].Metadata, s.Resources[1].Metadata = map[string]string{"rack": "west"}, map[string]string{"rack": "1"}
		}, []string{"selector_error", "selector_error", "", ""}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}, "x": {"v1"}})
		row.change(&s)
		plan := mustPlan(t, compile(t, row.policies), s, t0)
		var got []string
		for _, resource := range []string{"r1", "r2"} {
			for _, deployment := range []string{"a", "m"} {
				wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: resource, Environment: "prod", Deployment: deployment})
				var list []string
				for _, b := range wait.Blockers {
					text := string(b.Reason)
					if strings.HasPrefix(text, "bracket_") {
						continue
					}
					for _, c := range b.On {
						if c.Kind == rollout.OnApproval {
							text += ":" + c.Deployment + "/" + c.Version
						}
					}
					list = append(list, text)
				}
				got = append(got, strings.Join(list, " "))
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: wait for %q, want %q; %q", row.why, got, row.want, blockers(plan))
		}
	}
}

// TestQueuedBehindWhatHoldsItToo: the next group waits for the end of the execution on its
// resource, and its first run for something else as well. Each says what ends it.
func TestQueuedBehindWhatHoldsItToo(t *testing.T) {
	set := compile(t, policy(strings.Replace(alone, `"true"`, `"deployment.name == 'a'"`, 1)+`,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'x' && version.tag == 'v1'"}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "x": {"v0", "v1"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0.Add(time.Minute)})
	s.Targets[1].Current = "v0"
	plan := mustPlan(t, set, s, t0.Add(time.Minute))
	wait, _ := plan.Waiting.Of(s.Targets[0].TargetID)
	if len(wait.Blockers) != 2 || wait.Blockers[0].Reason != "bracket_queued" || wait.Blockers[0].On[0].Kind != rollout.OnExecutionEnd || wait.Blockers[1].Reason != rollout.ReasonDependencyUnmet {
		t.Errorf("waits for %+v", wait)
	}
}

// TestQueuedBehindWhom: the next group waits for the end of the execution on its resource. Whose
// failure holds that one up is told beside the turn that the group has there, and nothing as long as
// it is at work.
func TestQueuedBehindWhom(t *testing.T) {
	for _, row := range []struct {
		why, curve string
		status     rollout.JobStatus
		want       *rollout.Data
	}{
		{"at work", "", rollout.JobInProgress, nil},
		{"failed", "", rollout.JobFailure, &rollout.Data{Names: []string{"a"}}},
		{"at work, under a curve", `,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"group"}}`, rollout.JobInProgress, &rollout.Data{Position: 1, Population: 2}},
		{"failed, under a curve", `,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"group"}}`, rollout.JobFailure, &rollout.Data{Names: []string{"a"}, Position: 1, Population: 2}},
	} {
		set := compile(t, policy(alone+row.curve))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		first := rollout.TargetID{Resource: plan.Start[0].Resource, Environment: "prod", Deployment: "b"}
		plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Resource != first.Resource })
		carryOut(t, &s, plan, t0, rollout.JobSuccessful)
		for k := range s.Targets {
			if x := &s.Targets[k]; x.Resource == first.Resource && x.Deployment == "a" {
				if x.Jobs[0].Status = row.status; row.status == rollout.JobInProgress {
					x.Jobs[0].CompletedAt = time.Time{}
				}
			}
		}
		var wait rollout.Waiting
		for n := 1; n < 20; n++ { // until a group has its second turn there
			at := minute(n * 10)
			s.Versions = append(s.Versions, rollout.Version{ID: fmt.Sprintf("w%02d", n), Deployment: "b", Status: rollout.VersionReady, CreatedAt: at})
			plan = mustPlan(t, set, s, at)
			s.State = plan.State
			if wait, _ = plan.Waiting.Of(first); row.want == nil || row.want.Population == 0 || wait.Blockers[0].Data != nil && wait.Blockers[0].Data.Position == 1 {
				break
			}
		}
		if b := wait.Blockers; len(b) != 1 || b[0].Reason != "bracket_queued" || !reflect.DeepEqual(b[0].Data, row.want) {
			t.Errorf("%s: waits for %+v", row.why, b)
		}
	}
}

// TestNotDueUntilTheLastRuleOpens: two rules of the host hold an execution until some instant each.
// The later one is when looking again can help.
func TestNotDueUntilTheLastRuleOpens(t *testing.T) {
	for _, hours := range [][2]time.Duration{{1, 2}, {2, 1}} {
		set := compile(t, policy(alone), rollout.WithRule(hostRule{"first", frozenUntil(t0.Add(hours[0] * time.Hour))}), rollout.WithRule(hostRule{"second", frozenUntil(t0.Add(hours[1] * time.Hour))}))
		plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
		if own := waitingOf(plan)[0].Blockers[0]; own.Reason != "bracket_not_due" || !own.Until.Equal(t0.Add(2*time.Hour)) || len(own.On) > 0 {
			t.Errorf("%v: %+v", hours, own)
		}
	}
}

// TestWaitsOfAnOpenExecution: a member says whom it waits for, and of which group, also when the
// rule is gone meanwhile; what is at work is counted as started.
func TestWaitsOfAnOpenExecution(t *testing.T) {
	rules := alone + `,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, compile(t, policy(rules)), s, t0), t0, rollout.JobInProgress)
	want := []rollout.Condition{{Kind: rollout.OnMember, Group: "b/prod/1", Resource: "r2", Deployment: "a"}}
	for _, row := range []struct{ why, policies string }{{"the rule is there", policy(rules)}, {"the rule is gone", `[]`}} {
		plan := mustPlan(t, compile(t, row.policies), s, t0.Add(time.Minute))
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "b"})
		if wait.Version != "v2" || len(wait.Blockers) != 1 || !slices.Equal(wait.Blockers[0].On, want) || wait.Blockers[0].Reason != "bracket_waits_for_members" {
			t.Errorf("%s: %+v", row.why, wait)
		}
		if plan.Keep.Started != 2 || plan.Keep.Current != 0 || len(plan.Start) > 0 {
			t.Errorf("%s: keeps %+v, starts %q, waits %q", row.why, plan.Keep, started(plan), blockers(plan))
		}
	}
}

// TestWhoHaltsAnExecution: two members failed and went back, and one of them could not. That one
// halts the execution; where all are back, they do.
func TestWhoHaltsAnExecution(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_member"}}`))
	for _, row := range []struct {
		back []rollout.JobStatus // of a and of m
		want []string
	}{
		{[]rollout.JobStatus{rollout.JobSuccessful, rollout.JobFailure}, []string{"m"}},
		{[]rollout.JobStatus{rollout.JobSuccessful, rollout.JobSuccessful}, []string{"a", "m"}},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
		plan := mustPlan(t, set, s, t0.Add(time.Minute))
		state, err := plan.Commit(plan.Start, plan.Now)
		if err != nil || len(plan.Start) != 2 {
			t.Fatal(started(plan), err)
		}
		s.State = state
		for k, start := range plan.Start {
			j := job(start, plan.Now, row.back[k])
			for i := range s.Targets {
				if s.Targets[i].TargetID == start.TargetID {
					s.Targets[i].Jobs = append(s.Targets[i].Jobs, j)
				}
			}
		}
		plan = mustPlan(t, set, s, t0.Add(2*time.Minute))
		found := false
		for _, wait := range waitingOf(plan) {
			for _, b := range wait.Blockers {
				if b.Reason == "bracket_failed_holding" {
					if found = true; b.Data == nil || !slices.Equal(b.Data.Names, row.want) {
						t.Errorf("%v: %+v %+v", row.back, b, b.Data)
					}
				}
			}
		}
		if !found {
			t.Errorf("%v: starts %q, waits %q", row.back, started(plan), blockers(plan))
		}
	}
}
