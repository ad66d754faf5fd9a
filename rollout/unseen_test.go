package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestUnseen takes things out of the snapshot while r1 is at work. That is no proof of anything, so
// the execution stays open and its slot taken, and the plan says so; who knows better says it with
// a command or a deletion.
func TestUnseen(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`))
	without := func(what func(rollout.Target) bool) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Targets = slices.DeleteFunc(s.Targets, what) }
	}
	environment := func(s *rollout.Snapshot) {
		without(func(t rollout.Target) bool { return t.Environment == "prod" })(s)
		s.Environments = slices.DeleteFunc(s.Environments, func(e rollout.Environment) bool { return e.ID == "prod" })
	}
	node := func(s *rollout.Snapshot) {
		without(func(t rollout.Target) bool { return t.Resource == "r1" })(s)
		s.Resources = slices.DeleteFunc(s.Resources, func(r rollout.Resource) bool { return r.ID == "r1" })
	}
	command := func(kind bracket.CommandKind) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Commands = []bracket.Command{{ID: "c", Kind: kind, Group: "B/prod/1", Resource: "r1", At: minute(2)}}
		}
	}
	for _, row := range []struct {
		why      string
		ran      rollout.JobStatus // of the first job, before anything is taken; empty: in progress
		take     func(*rollout.Snapshot)
		unseen   bool
		then     func(*rollout.Snapshot)
		want     string         // starts after that
		reason   rollout.Reason // how that got its slot
		holds    []string
		unhealed bool // it is unseen still
		ended    bracket.Status
	}{
		{why: "the environment", take: environment, unseen: true, then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the environment, and it is resolved: the other environment has the node", take: environment, unseen: true, then: command(bracket.Resolve), want: "r1/a@v2", reason: "slot_free", ended: bracket.StatusCompleted},
		{why: "the environment, and it is abandoned: the slot is quarantined, and the node itself may be repaired", take: environment, unseen: true, then: command(bracket.Abandon), want: "r1/a@v2", reason: "slot_already_down", holds: []string{"P r1 quarantined"}, ended: bracket.StatusCancelled},
		{why: "the environment, and the node is deleted", take: environment, unseen: true, then: func(s *rollout.Snapshot) { s.DeletedResources = []string{"r1"} }, ended: bracket.StatusCancelled},
		{why: "the environment, and a command for another group", take: environment, unseen: true, then: func(s *rollout.Snapshot) {
			command(bracket.Resolve)(s)
			s.Commands[0].Group = "B/prod/2"
		}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the environment, and a command for another node", take: environment, unseen: true, then: func(s *rollout.Snapshot) {
			command(bracket.Resolve)(s)
			s.Commands[0].Resource = "r2"
		}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the environment, and it is back: the execution goes on as if nothing had been", take: environment, unseen: true, then: nil, want: "r1/b@v2", reason: "slot_held", holds: []string{"P r1 active"}},
		{why: "the node as a whole", take: node, unseen: true, then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the node as a whole, and it is deleted", take: node, unseen: true, then: func(s *rollout.Snapshot) { s.DeletedResources = []string{"r1"} }, ended: bracket.StatusCancelled},
		{why: "the node as a whole, and it is back: no member was cancelled meanwhile", take: node, unseen: true, then: nil, want: "r1/b@v2", reason: "slot_held", holds: []string{"P r1 active"}},
		{why: "the node, and what ran on it, as a whole", take: func(s *rollout.Snapshot) {
			node(s)
			s.Deployments, s.Versions = nil, nil
		}, unseen: true, then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the node as a whole, and a version is published: it is for those that are there", take: func(s *rollout.Snapshot) {
			node(s)
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0})
		}, unseen: true, then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the node while none of its members runs", ran: rollout.JobFailure, take: node, unseen: true, then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the environment meanwhile", ran: rollout.JobFailure, take: environment, unseen: true, then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}, unhealed: true},
		{why: "the target of a member that has failed: nobody waits for it", ran: rollout.JobFailure, take: without(func(t rollout.Target) bool { return t.Environment == "prod" && t.Deployment == "a" }),
			then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}},
		{why: "the target of the run in progress", take: without(func(t rollout.Target) bool { return t.Environment == "prod" && t.Deployment == "a" }), unseen: true, then: command(bracket.Resolve), want: "r1/a@v2", reason: "slot_free", ended: bracket.StatusCompleted},
		{why: "that of a member that waits: it is cancelled, and nobody misses it", take: without(func(t rollout.Target) bool { return t.Environment == "prod" && t.Deployment == "b" }),
			then: func(*rollout.Snapshot) {}, holds: []string{"P r1 active"}},
	} {
		s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), "test")
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		if row.ran != "" {
			s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = row.ran, t0
			s.State = mustPlan(t, set, s, t0).State
		}
		whole := cloneFleet(s)
		row.take(&s)
		unseen := func(p rollout.Plan) bool {
			return slices.ContainsFunc(p.Diagnostics, func(d rollout.Diagnostic) bool {
				return d.Code == rollout.DiagnosticExecutionUnseen && d.Rule == "B" && d.Detail == "B/prod/1" && strings.Contains(d.String(), "B/prod/1 is open where the snapshot holds nothing, and keeps its slots (r1 / prod / a)") && d.Count == 1 && d.Example == (rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
			})
		}
		plan := mustPlan(t, set, s, minute(1))
		if len(plan.Start) > 0 || len(plan.Orphans) > 0 || unseen(plan) != row.unseen || !slices.Equal(leases(plan.State), []string{"P r1 active"}) {
			t.Fatalf("%s: starts %q, holds %q, orphans %+v, diagnoses %+v", row.why, started(plan), leases(plan.State), plan.Orphans, plan.Diagnostics)
		}
		state := plan.State
		if row.then == nil {
			s = whole
			s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt, s.Targets[0].Current = rollout.JobSuccessful, minute(1), "v2"
		} else {
			row.then(&s)
		}
		s.State = state
		plan = mustPlan(t, set, s, minute(2))
		if got := started(plan); row.want == "" && len(got) > 0 || row.want != "" && (!slices.Contains(got, row.want) || plan.Start[0].Reason != row.reason) || unseen(plan) != row.unhealed || !slices.Equal(leases(plan.State), row.holds) {
			t.Errorf("%s: then starts %q, waits %q, holds %q, diagnoses %+v", row.why, got, blockers(plan), leases(plan.State), plan.Diagnostics)
		}
		if quarantined := len(plan.Pools) > 0 && len(plan.Pools[0].Quarantined) > 0; quarantined != (len(row.holds) > 0 && strings.HasSuffix(row.holds[0], "quarantined")) {
			t.Errorf("%s: %+v", row.why, plan.Pools)
		}
		var ended []rollout.Event
		for _, e := range plan.Events {
			if e.Kind == bracket.ExecutionEnded {
				ended = append(ended, e)
			}
		}
		var want []rollout.Event
		if row.ended != "" {
			want = []rollout.Event{{Kind: bracket.ExecutionEnded, Rule: "B", Environment: "prod", Group: "B/prod/1", Resource: "r1", At: minute(2), Status: row.ended}}
		}
		if !slices.Equal(ended, want) {
			t.Errorf("%s: ended %+v, want %+v", row.why, ended, want)
		}
	}
}

// TestUnseenIsNotMergedInto: nothing is meant for a node that is not there, so a group that closes
// meanwhile is merged into no execution on it.
func TestUnseenIsNotMergedInto(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{}}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
	whole := cloneFleet(s)
	s.Resources, s.Targets = s.Resources[1:], s.Targets[1:]
	merged := func(s rollout.Snapshot) []string {
		return mustPlan(t, set, s, minute(1)).State.Executions[0].Open.Merged
	}
	if away, back := merged(s), merged(whole); len(away) != 0 || len(back) != 1 {
		t.Errorf("%q are merged while the node is away, %q if it is there", away, back)
	}
	odd := mustPlan(t, set, s, minute(1)).Diagnostics
	if want := (rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}); len(odd) != 1 || odd[0].Code != rollout.DiagnosticExecutionUnseen || odd[0].Example != want {
		t.Errorf("%v: the execution of the next node is not that of the one which is away", odd)
	}
	if events := mustPlan(t, set, whole, minute(1)).Events; !slices.ContainsFunc(events, func(e rollout.Event) bool { return e.Group == "B/prod/2" && e.Into == "B/prod/1" }) {
		t.Errorf("nobody tells into which execution it is merged: %v", events)
	}
}

// TestUnseenOnTheWayBack: the target of a run that takes its member back is in no list: it is not
// over, and the plan says so.
func TestUnseenOnTheWayBack(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_member"}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
	s.Targets = nil
	plan := mustPlan(t, set, s, minute(2))
	if len(plan.Diagnostics) != 1 || plan.Diagnostics[0].Code != rollout.DiagnosticExecutionUnseen || plan.Diagnostics[0].Example.Deployment != "a" {
		t.Errorf("diagnoses %+v", plan.Diagnostics)
	}
}

// TestUnseenAmongOthers: in the environment that is missing two executions are open and one has
// ended, and another one of the rule is open elsewhere. Whoever resolves the first ends that one
// alone: the second is finished once its node is back.
func TestUnseenAmongOthers(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":9}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`))
	s := inEnvironments(fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), "test")
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
		return (t.Resource == "r3") != (t.Environment == "test") || t.Resource == "r2" && t.Deployment == "b"
	})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	succeed := func(s *rollout.Snapshot, resource string, at int) {
		for k := range s.Targets {
			if x := &s.Targets[k]; x.Resource == resource && len(x.Jobs) > 0 {
				x.Jobs = slices.Clone(x.Jobs)
				x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, minute(at), "v2"
			}
		}
	}
	succeed(&s, "r2", 1)
	s.State = mustPlan(t, set, s, minute(1)).State
	if got := leases(s.State); !slices.Equal(got, []string{"P r1 active", "P r3 active", "P r4 active"}) {
		t.Fatalf("holds %q", got)
	}
	whole := cloneFleet(s)
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "prod" })
	s.Environments = slices.DeleteFunc(s.Environments, func(e rollout.Environment) bool { return e.ID == "prod" })
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "B/prod/1", Resource: "r1", At: minute(2)}}
	plan := mustPlan(t, set, s, minute(2))
	if got := leases(plan.State); !slices.Equal(got, []string{"P r3 active", "P r4 active"}) {
		t.Errorf("holds %q", got)
	}
	if !slices.EqualFunc(plan.State.Brackets, s.State.Brackets, func(a, b *bracket.GroupRecord) bool { return a.Environment == b.Environment && a.Number == b.Number }) {
		t.Errorf("the groups are %+v, and were %+v", plan.State.Brackets, s.State.Brackets)
	}
	if len(plan.Events) != 1 || plan.Events[0].Resource != "r1" || plan.Events[0].Kind != bracket.ExecutionEnded {
		t.Errorf("events %+v", plan.Events)
	}
	s.State = plan.State
	if plan = mustPlan(t, set, s, minute(3)); len(plan.Events) > 0 || len(plan.Diagnostics) != 1 || plan.Diagnostics[0].Example.Resource != "r4" {
		t.Errorf("a command is carried out once: events %+v, diagnoses %+v", plan.Events, plan.Diagnostics)
	}
	whole.State, whole.Commands = plan.State, s.Commands
	succeed(&whole, "r4", 4)
	if plan = mustPlan(t, set, whole, minute(4)); !slices.Contains(started(plan), "r4/b@v2") {
		t.Errorf("it is back: starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestFaultOfARecordOfWhatIsGone: a group record that no rule can have is refused, also where its
// environment is gone.
func TestFaultOfARecordOfWhatIsGone(t *testing.T) {
	t.Parallel()
	for _, environment := range []string{"prod", "gone"} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.State.Brackets = []*bracket.GroupRecord{bracket.NewState("", environment).Group}
		plan, err := compile(t, policy(`{"retry":{"maxRetries":1}}`)).Plan(s, t0)
		if err == nil || err.Error() != "state.group.rule: must not be empty: start with NewState" {
			t.Errorf("%s: %v, starts %q", environment, err, started(plan))
		}
	}
}

// TestGroupOfWhoIsGone: a group has closed, and the member that was to come first is gone altogether
// before the group begins. Another one, whatever its id, is not taken for it: what needs the version
// of one that comes after the gone one still comes after that.
func TestGroupOfWhoIsGone(t *testing.T) {
	for _, gone := range []string{"a", "c", "z"} {
		set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == '`+gone+`'"}}}`))
		s := fleet(1, "v1", map[string][]string{"b": {"v1", "v2"}, "d": {"v1", "v2"}, gone: {"v1", "v2"}})
		for k := range s.Versions {
			if v := &s.Versions[k]; v.Deployment == "d" && v.ID == "v2" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: "b", VersionSelector: "version.tag == 'v2'"}}
			}
		}
		s.State = mustPlan(t, set, s, t0).State
		s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == gone })
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == gone })
		s.Deployments = slices.DeleteFunc(s.Deployments, func(d rollout.Deployment) bool { return d.ID == gone })
		plan := mustPlan(t, set, s, minute(1))
		if !slices.Equal(started(plan), []string{"r1/b@v2"}) || !slices.Equal(blockers(plan), []string{"r1/d@v2: version_dependency_unmet"}) {
			t.Errorf("%s is gone: starts %q, waits %q", gone, started(plan), blockers(plan))
		}
	}
}
