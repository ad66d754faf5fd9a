package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// Each test of this file is a mistake that a planner of this kind makes easily, its own earlier
// versions and its peers included.

// inEnvironments puts every target of a snapshot into further environments too.
func inEnvironments(s rollout.Snapshot, more ...string) rollout.Snapshot {
	first := len(s.Targets)
	for _, id := range more {
		s.Environments = append(s.Environments, rollout.Environment{ID: id, Name: id})
		for _, target := range s.Targets[:first] {
			target.Environment = id
			s.Targets = append(s.Targets, target)
		}
	}
	return s
}

// carryOut commits all starts of a plan and records a job with this status for each.
func carryOut(t testing.TB, s *rollout.Snapshot, plan rollout.Plan, now time.Time, status rollout.JobStatus) {
	t.Helper()
	s.State = mustCommit(t, plan, now)
	for _, start := range plan.Start {
		add(s, start, job(start, now, status))
	}
}

// TestFirstOfTwoEnvironments: the groups of two environments are due on one node at the same
// instant. The first in turn needs a slot and the other one does not, but is governed by no limit:
// that does not let it go first. What starts outside the bracket has no part in it.
func TestFirstOfTwoEnvironments(t *testing.T) {
	set := compile(t, `[{"name":"p","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}}]},
		{"name":"q","selector":"environment.name == 'prod'","rules":[{"resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`)
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}, "z": {"v1", "v2"}}), "staging")
	plan := mustPlan(t, set, s, t0)
	var got []string
	for _, start := range plan.Start {
		got = append(got, start.Environment+" "+start.Deployment)
	}
	slices.Sort(got)
	if want := []string{"prod a", "prod m", "prod z", "staging m", "staging z"}; !slices.Equal(got, want) {
		t.Errorf("starts %q", got)
	}
	if w, waits := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "staging", Deployment: "a"}); !waits || w.Blockers[0].Reason != "bracket_queued" {
		t.Errorf("the other one: %+v", w)
	}
}

// TestDefectTwoEnvironmentsOnOneResource: the groups of two environments are due on one node at the
// same instant. Only one of them may begin there; the other waits for its end, and then has its
// turn.
func TestDefectTwoEnvironmentsOnOneResource(t *testing.T) {
	s := inEnvironments(nodeFleet(1), "staging")
	set := compile(t, nodeLifecycle(t))
	now := day2
	plan := mustPlan(t, set, s, now)
	if got := started(plan); !slices.Equal(got, []string{"node-0/node-drain@drain"}) || plan.Start[0].Environment != "prod" {
		t.Fatalf("starts %q in %s", got, plan.Start[0].Environment)
	}
	queued := 0
	for w := range plan.Waiting.All() {
		if w.Environment == "staging" {
			queued++
			if b := w.Blockers[0]; b.Reason != "bracket_queued" || b.On[0].Kind != rollout.OnExecutionEnd || b.On[0].Resource != "node-0" || b.Rule == "" || b.Rule != b.On[0].Rule {
				t.Errorf("%s: %v", w.Deployment, b)
			}
		}
	}
	if queued != 5 {
		t.Errorf("%d targets of staging are queued, want all 5", queued)
	}
	var order []string
	for range 20 {
		carryOut(t, &s, plan, now, rollout.JobSuccessful)
		for _, start := range plan.Start {
			order = append(order, start.Environment+" "+start.Deployment)
		}
		now = now.Add(time.Minute)
		if plan = mustPlan(t, set, s, now); len(plan.Start) == 0 {
			break
		}
	}
	want := []string{
		"prod node-drain", "prod os-patch", "prod containerd-upgrade", "prod kubelet-upgrade", "prod node-uncordon",
		"staging node-drain", "staging os-patch", "staging containerd-upgrade", "staging kubelet-upgrade", "staging node-uncordon",
	}
	if !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

// TestDefectCrashBeforeDispatch: the state was saved and the host stopped before it dispatched. The
// run is offered again under the same id and in the same slot, until its job is seen; otherwise the
// node would stay half drained for ever.
func TestDefectCrashBeforeDispatch(t *testing.T) {
	s := nodeFleet(2)
	set := compile(t, nodeLifecycle(t))
	plan := mustPlan(t, set, s, day2)
	s.State = mustCommit(t, plan, day2)
	again := mustPlan(t, set, s, day2.Add(time.Minute))
	if len(again.Start) != 1 || again.Start[0].Run != plan.Start[0].Run || again.Start[0].Reason != "slot_held" || again.Start[0].Claims[0].Token != plan.Start[0].Claims[0].Token {
		t.Fatalf("started %+v, then %+v", plan.Start, again.Start)
	}
	s.State = mustCommit(t, again, day2.Add(time.Minute))
	add(&s, again.Start[0], job(again.Start[0], day2.Add(time.Minute), rollout.JobInProgress))
	if plan := mustPlan(t, set, s, day2.Add(2*time.Minute)); len(plan.Start) != 0 {
		t.Errorf("the job is there, and again %q start", started(plan))
	}
}

// TestDefectCrashBeforeRollbackIsDispatched: so is a rollback, towards the version that the target
// came from.
func TestDefectCrashBeforeRollbackIsDispatched(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_all"}}`))
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobFailure)
	s.Targets[0].Current = "v1"
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if len(plan.Start) != 1 || plan.Start[0].Purpose != rollout.PurposeRollback || plan.Start[0].Version != "v1" {
		t.Fatalf("after the failure %+v", plan.Start)
	}
	s.State = mustCommit(t, plan, t0.Add(time.Minute))
	s.Versions = s.Versions[1:] // without v1: it is the way back all the same
	again := mustPlan(t, set, s, t0.Add(2*time.Minute))
	if len(again.Start) != 1 || again.Start[0].Run != plan.Start[0].Run || again.Start[0].Version != "v1" || again.Start[0].Purpose != rollout.PurposeRollback {
		t.Errorf("started %+v, then %+v", plan.Start, again.Start)
	}
}

// TestDefectStaleStart: a start that the plan does not hold commits nothing.
func TestDefectStaleStart(t *testing.T) {
	s := nodeFleet(1)
	plan := mustPlan(t, compile(t, nodeLifecycle(t)), s, day2)
	foreign := plan.Start[0]
	foreign.Run += "0"
	if _, err := plan.Commit([]rollout.Start{plan.Start[0], foreign}, day2); !errors.Is(err, bracket.ErrStale) {
		t.Errorf("got %v", err)
	}
	if _, err := plan.Commit([]rollout.Start{{}}, day2); !errors.Is(err, bracket.ErrStale) || !strings.Contains(err.Error(), `run id ""`) {
		t.Errorf("a start without a run id: %v, want an error that shows that it has none", err)
	}
}

// halfWay is a node whose drain has succeeded and whose upgrades have not begun.
func halfWay(t testing.TB, set *rollout.PolicySet, nodes int) rollout.Snapshot {
	t.Helper()
	s := nodeFleet(nodes)
	carryOut(t, &s, mustPlan(t, set, s, day2), day2, rollout.JobSuccessful)
	return s
}

// runDown lets everything succeed, one minute after the other, and says what started.
func runDown(t testing.TB, set *rollout.PolicySet, s *rollout.Snapshot, now time.Time) (order []string) {
	t.Helper()
	for range 30 {
		plan := mustPlan(t, set, *s, now)
		for _, start := range plan.Start {
			order = append(order, start.Resource+" "+start.Deployment+"@"+start.Version+" "+map[bool]string{true: "alone", false: "bracket"}[strings.HasPrefix(start.Group, "target/")])
		}
		if len(plan.Start) == 0 {
			break
		}
		carryOut(t, s, plan, now, rollout.JobSuccessful)
		now = now.Add(time.Minute)
	}
	return order
}

var restOfNode = []string{
	"node-0 os-patch@2026-03 bracket", "node-0 containerd-upgrade@v1.7.3 bracket", "node-0 kubelet-upgrade@v1.29.2 bracket", "node-0 node-uncordon@uncordon bracket",
}

// TestDefectMembersChangeHalfWay: what was drained is finished, whatever is edited meanwhile, and
// nobody else starts anything on its targets.
func TestDefectMembersChangeHalfWay(t *testing.T) {
	lifecycle := nodeLifecycle(t)
	for _, row := range []struct {
		why    string
		policy string
		edit   func(*rollout.Snapshot)
		then   []string // what starts once the node is finished
	}{
		{"the rule is gone", "[]", nil, nil},
		{"the policy is disabled", strings.Replace(lifecycle, `"name"`, `"enabled":false,"name"`, 1), nil, nil},
		{"the rule has another id now", strings.Replace(lifecycle, `"deploymentBracket"`, `"id":"renamed","deploymentBracket"`, 1), nil, nil},
		{"a deployment leaves the bracket, and what it then may have besides", lifecycle, func(s *rollout.Snapshot) {
			s.Deployments[1].Metadata = nil
			s.Versions = append(s.Versions, rollout.Version{ID: "v1.29.3", Deployment: "kubelet-upgrade", Status: rollout.VersionReady, CreatedAt: day2})
		}, []string{"node-0 kubelet-upgrade@v1.29.3 alone"}},
		{"all deployments leave", lifecycle, func(s *rollout.Snapshot) {
			for i := range s.Deployments {
				s.Deployments[i].Metadata = nil
			}
		}, nil},
		{"the node leaves the policy", strings.Replace(lifecycle, `"selector": "deployment.metadata['layer'] == 'node'"`, `"selector": "deployment.metadata['layer'] == 'node' && resource.metadata['cluster'] == 'prod-east'"`, 1),
			func(s *rollout.Snapshot) { s.Resources[0].Metadata = map[string]string{"cluster": "lab"} }, nil},
	} {
		s := halfWay(t, compile(t, lifecycle), 1)
		if row.edit != nil {
			row.edit(&s)
		}
		want := slices.Concat(restOfNode, row.then)
		set := compile(t, row.policy)
		if got := runDown(t, set, &s, day2.Add(time.Minute)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", row.why, got, want)
		}
		for _, p := range mustPlan(t, set, s, day2.Add(time.Hour)).State.Pools {
			if len(p.Leases) > 0 {
				t.Errorf("%s: %+v holds its slot for ever", row.why, p.Leases)
			}
		}
	}
}

// TestDefectNewRuleOnDrainedNode: the bracket got another id while a node is half way. The new rule
// starts elsewhere, and on that node only when it is done.
func TestDefectNewRuleOnDrainedNode(t *testing.T) {
	lifecycle := strings.Replace(nodeLifecycle(t), `"limitValue": 20`, `"limitValue": 100`, 1)
	s := halfWay(t, compile(t, lifecycle), 2) // node-1 is first, and half way
	drained := s.State.Executions[0].Resource
	renamed := compile(t, strings.Replace(lifecycle, `"deploymentBracket"`, `"id":"renamed","deploymentBracket"`, 1))
	s.Versions = append(s.Versions, rollout.Version{ID: "v1.29.3", Deployment: "kubelet-upgrade", Status: rollout.VersionReady, CreatedAt: day2})
	now := day2.Add(25 * time.Hour) // the renamed rule collected and closed
	plan := mustPlan(t, renamed, s, now)
	for _, start := range plan.Start {
		if start.Resource == drained && start.Deployment != "os-patch" {
			t.Errorf("%s starts on the drained node", start.Deployment)
		}
	}
	waits := 0
	for w := range plan.Waiting.All() {
		for _, b := range w.Blockers {
			if w.Resource == drained && b.Reason == "bracket_queued" && strings.HasPrefix(b.Rule, "Node Lifecycle/") {
				waits++
			}
		}
	}
	if waits == 0 {
		t.Errorf("nothing says that the node waits for the old rule: %q", blockers(plan))
	}
	order := runDown(t, renamed, &s, now)
	at := func(what string) int { return slices.Index(order, what) }
	if uncordon, next := at(drained+" node-uncordon@uncordon bracket"), at(drained+" kubelet-upgrade@v1.29.3 bracket"); uncordon < 0 || next < uncordon {
		t.Errorf("order %q", order)
	}
}

// TestDefectZeroCreation: a version without an instant of creation would wait for a rollout that
// nothing starts.
func TestDefectZeroCreation(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v1"}})
	s.Versions[0].CreatedAt = time.Time{}
	_, err := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`)).Plan(s, t0)
	var fault *rollout.FieldError
	if !errors.As(err, &fault) || fault.Path != "versions[0].createdAt" {
		t.Errorf("got %v", err)
	}
}

// TestDefectReservedRuleID: a bracket rule called "target" would share its slots with a target
// outside brackets.
func TestDefectReservedRuleID(t *testing.T) {
	parsed, err := rollout.ParsePolicies([]byte(policy(`{"id":"target","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate"}}`)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = rollout.Compile(parsed, newEnv(t))
	var fault *rollout.FieldError
	if !errors.As(err, &fault) || fault.Path != "rules[0].id" {
		t.Errorf("got %v", err)
	}
}

// TestDefectJobsOfOneInstant: two jobs without run ids that were created together are told apart by
// what they are, not by their order.
func TestDefectJobsOfOneInstant(t *testing.T) {
	jobs := []rollout.Job{
		{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}, {Version: "v2", Status: rollout.JobSuccessful, CreatedAt: t0},
		{Version: "v2", Status: rollout.JobFailure, CreatedAt: t0}, {Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0.Add(time.Hour)},
	}
	set := compile(t, policy(`{"retry":{"maxRetries":5,"backoffSeconds":60}}`))
	seen := map[string]bool{}
	for i := range jobs {
		for k := range jobs {
			s := fleet(1, "", map[string][]string{"api": {"v1", "v2"}})
			s.Targets[0].Jobs = slices.Concat(jobs[i:], jobs[:i])
			s.Targets[0].Jobs[0], s.Targets[0].Jobs[k] = s.Targets[0].Jobs[k], s.Targets[0].Jobs[0]
			plan := mustPlan(t, set, s, t0)
			seen[fmt.Sprint(started(plan), waitingOf(plan), plan.Keep)] = true
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d results: %v", len(seen), seen)
	}
}

// TestDefectEverybodyIsSpokenOf: a target is started, waits, or is kept; never two of the latter,
// never none.
func TestDefectEverybodyIsSpokenOf(t *testing.T) {
	for _, row := range []struct {
		why      string
		versions []string
		current  string
		status   rollout.VersionStatus // of the newest
		jobs     []rollout.Job
		keep     rollout.Keep
		waiting  int
	}{
		{"nothing to have", nil, "", "", nil, rollout.Keep{Current: 1}, 0},
		{"has the newest", []string{"v1"}, "v1", rollout.VersionReady, nil, rollout.Keep{Current: 1}, 0},
		{"waits for the newest and keeps what it has", []string{"v1", "v2"}, "v1", rollout.VersionPaused, nil, rollout.Keep{}, 1},
		{"has succeeded with the newest, which the host has not noted yet", []string{"v1", "v2"}, "v1", rollout.VersionReady, []rollout.Job{ran("v2", rollout.JobSuccessful, -1)}, rollout.Keep{Current: 1}, 0},
		{"works on the newest", []string{"v1"}, "", rollout.VersionReady, []rollout.Job{{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}, rollout.Keep{Started: 1}, 0},
	} {
		s := fleet(1, row.current, map[string][]string{"api": row.versions})
		if n := len(s.Versions); n > 0 {
			s.Versions[n-1].Status = row.status
		}
		s.Targets[0].Jobs = row.jobs
		plan := mustPlan(t, compile(t, "[]"), s, t0)
		if plan.Keep != row.keep || plan.Waiting.Len() != row.waiting || len(plan.Start) != 0 {
			t.Errorf("%s: keeps %+v, waiting %q, starts %q", row.why, plan.Keep, blockers(plan), started(plan))
		}
	}
}

// TestDefectStartOnDeletedResource: what is proved gone gets no job, even if targets on it are
// still listed.
func TestDefectStartOnDeletedResource(t *testing.T) {
	for _, policies := range []string{"[]", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)} {
		s := fleet(2, "", map[string][]string{"api": {"v1"}})
		s.DeletedResources = []string{"r1"}
		if got := started(mustPlan(t, compile(t, policies), s, t0)); !slices.Equal(got, []string{"r2/api@v1"}) {
			t.Errorf("%s: starts %q", policies, got)
		}
	}
}

// TestDefectVersionFromTheFuture: a clock that is behind does not take back what a target runs
// already.
func TestDefectVersionFromTheFuture(t *testing.T) {
	for _, policies := range []string{"[]", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)} {
		s := fleet(1, "v2", map[string][]string{"api": {"v1", "v2"}})
		if plan := mustPlan(t, compile(t, policies), s, t0.Add(-time.Minute)); len(plan.Start) != 0 {
			t.Errorf("%s: starts %q", policies, started(plan))
		}
	}
}

// TestDefectUnknownVersionInBracket: nobody can say whether the lock is newer than what the target
// runs, so the whole execution waits and says why.
func TestDefectUnknownVersionInBracket(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v1"}, "web": {"v1"}})
	s.Targets[0].Current = "gone"
	plan := mustPlan(t, compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)), s, t0)
	want := []string{"r1/api@v1: bracket_not_due version_unknown", "r1/web@v1: bracket_not_due version_unknown"}
	if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, want) {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}

// TestDefectRepeatKeepsItsTurn: a repetition that became due earlier than another target's turn
// goes first whenever the plan is made.
func TestDefectRepeatKeepsItsTurn(t *testing.T) {
	s := fleet(2, "", map[string][]string{"api": {"v1"}})
	s.Targets[1].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobFailure, CreatedAt: t0.Add(-2 * time.Minute), CompletedAt: t0.Add(-2 * time.Minute)}}
	set := compile(t, policy(`{"retry":{"maxRetries":1,"backoffSeconds":60}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for _, after := range []time.Duration{0, 1, time.Hour} {
		if got := started(mustPlan(t, set, s, t0.Add(after))); !slices.Equal(got, []string{"r2/api@v1"}) {
			t.Errorf("after %v %q start", after, got)
		}
	}
	s.Targets[1].Jobs[0].CreatedAt, s.Targets[1].Jobs[0].CompletedAt = t0.Add(-time.Second), t0.Add(-time.Second)
	if got := started(mustPlan(t, set, s, t0.Add(time.Hour))); !slices.Equal(got, []string{"r1/api@v1"}) {
		t.Errorf("%q start, and the delay ended after the turn of the other", got)
	}
}

// TestDefectEndInAnotherEnvironment: an execution ends in the environment that is asked last, and
// frees its node for the one that was asked first in the very same plan: nothing else would wake
// the host.
func TestDefectEndInAnotherEnvironment(t *testing.T) {
	s := inEnvironments(fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), "staging")
	for i := range s.Targets {
		if s.Targets[i].Environment == "prod" {
			s.Targets[i].Current = "v2"
		}
	}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	plan := mustPlan(t, set, s, t0)
	if len(plan.Start) != 1 || plan.Start[0].Environment != "staging" {
		t.Fatalf("starts %+v", plan.Start)
	}
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0})
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if len(plan.Start) != 1 || plan.Start[0].Environment != "prod" {
		t.Errorf("starts %+v, waits %q", plan.Start, blockers(plan))
	}
	ends := 0
	for _, e := range plan.Events {
		if e.Kind == bracket.ExecutionEnded {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d ends in %+v", ends, plan.Events)
	}
}

// TestDefectRolesUnknown: where an expression for the roles fails, nobody knows that the drain
// comes first. It used to become one of the mains, and nodes were upgraded beside it.
func TestDefectRolesUnknown(t *testing.T) {
	const first = "int(deployment.metadata['phase']) == 0"
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"`+first+`"}}}`))
	nodes := func() rollout.Snapshot {
		return fleet(1, "v1", map[string][]string{"drain": {"v1"}, "os": {"v1", "v2"}})
	}
	phases := func(s rollout.Snapshot, drain, os map[string]string) rollout.Snapshot {
		s.Deployments = []rollout.Deployment{{ID: "drain", Metadata: drain}, {ID: "os", Metadata: os}}
		return s
	}
	zero, one := map[string]string{"phase": "0"}, map[string]string{"phase": "1"}
	typo := phases(nodes(), map[string]string{"phase": "O"}, one)
	plan := mustPlan(t, set, typo, t0)
	if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, []string{"r1/os@v2: selector_error"}) || waitingOf(plan)[0].Blockers[0].On[0].Rule != "b" {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
	if d := plan.Diagnostics; len(d) != 1 || d[0].Code != rollout.DiagnosticSelectorError || d[0].Example.Deployment != "drain" {
		t.Errorf("diagnostics %+v", d)
	}
	typo.State = plan.State
	if got := runDown(t, set, pointer(phases(typo, zero, one)), t0); !slices.Equal(got, []string{"r1 drain@v1 bracket", "r1 os@v2 bracket"}) {
		t.Errorf("the label mended: %q", got)
	}
	plan = mustPlan(t, set, phases(nodes(), zero, nil), t0)
	if d := plan.Diagnostics; !slices.Equal(started(plan), []string{"r1/drain@v1"}) || len(d) != 1 || d[0].Code != rollout.DiagnosticMissingKey || d[0].Example.Deployment != "os" {
		t.Errorf("a missing key is no match: starts %q, diagnostics %+v", started(plan), d)
	}
	both := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.id == 'drain'","post":"deployment.id == 'drain'"}}}`))
	if got := started(mustPlan(t, both, nodes(), t0)); !slices.Equal(got, []string{"r1/drain@v1"}) {
		t.Errorf("who has both roles comes first: starts %q", got)
	}
	open := phases(nodes(), zero, one)
	carryOut(t, &open, mustPlan(t, set, open, t0), t0, rollout.JobSuccessful)
	open = phases(open, map[string]string{"phase": "O"}, one)
	if got := started(mustPlan(t, set, open, t0.Add(time.Minute))); !slices.Equal(got, []string{"r1/os@v2"}) {
		t.Errorf("what is open has its roles and runs on: %q", got)
	}
}

// TestDefectOrderUnknown: a dependency of which an expression fails for one member used to order
// the others without it.
func TestDefectOrderUnknown(t *testing.T) {
	bracketed := func(dependsOn string) *rollout.PolicySet {
		return compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
			{"id":"d","deploymentDependency":{"dependsOn":"`+dependsOn+`","appliesTo":"deployment.name == 'x'"}}`))
	}
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "x": {"v1", "v2"}})
	for i := range s.Deployments {
		s.Deployments[i].Metadata = map[string]string{"n": []string{"1", "two", "9"}[i]}
	}
	plan := mustPlan(t, bracketed("int(deployment.metadata['n']) < 3"), s, t0)
	if got := blockers(plan); len(plan.Start) != 0 || !slices.Equal(got, []string{"r1/a@v2: bracket_not_due selector_error", "r1/b@v2: bracket_not_due selector_error", "r1/x@v2: bracket_not_due selector_error"}) {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
	s.Deployments[1].Metadata = nil
	set := bracketed("int(deployment.metadata['n']) < 3")
	if plan := mustPlan(t, set, s, t0); len(plan.Diagnostics) != 1 || plan.Diagnostics[0].Code != rollout.DiagnosticMissingKey || plan.Diagnostics[0].Example.Deployment != "b" {
		t.Errorf("a missing key is no match, and counted: %+v", plan.Diagnostics)
	}
	for i := range s.Versions {
		s.Versions[i].Metadata = map[string]string{"n": map[string]string{"a v1": "1", "a v2": "two", "b v1": "1"}[s.Versions[i].Deployment+" "+s.Versions[i].ID]}
	}
	s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "b" && v.ID == "v2" })].Metadata = nil
	plan = mustPlan(t, bracketed("deployment.name in ['a', 'b'] && int(version.metadata['n']) == 2"), s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2", "r1/b@v2"}) {
		t.Errorf("starts %q", got)
	}
	if on := waitingOf(plan)[0].Blockers[0].On; waitingOf(plan)[0].Deployment != "x" || len(on) != 1 || on[0].Kind != rollout.OnMember || on[0].Deployment != "a" {
		t.Errorf("a version that cannot be judged is waited for, one without the key is not: %v", on)
	}
}

// TestDefectPausedEnvironment: an environment whose limit is 0 used to keep the place of a resource
// from another environment, which then waited for the end of an execution that never began.
func TestDefectPausedEnvironment(t *testing.T) {
	s := inEnvironments(fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}}), "staging")
	set := compile(t, `[{"name":"all","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
			{"resourceConcurrency":{"groupSelector":"true","limit":1}}]},
		{"name":"paused","selector":"environment.name == 'prod'","rules":[{"id":"pause","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":0}}]}]`)
	plan := mustPlan(t, set, s, t0)
	var got []string
	for _, start := range plan.Start {
		got = append(got, start.Environment+" "+start.Resource)
	}
	for w := range plan.Waiting.All() {
		got = append(got, w.Environment+" "+w.Resource+" "+string(w.Blockers[0].Reason)+" "+w.Blockers[0].Rule)
	}
	want := []string{"staging r1", "prod r1 slot_paused pause", "prod r2 slot_full all/resourceConcurrency/0", "staging r2 slot_full all/resourceConcurrency/0"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestDefectHeldByWhatWentBack: under rollback_member an execution stays open once the member that
// failed is back, although nobody in it waits or has failed any more. Somebody has to be told that
// only an operator ends it, also when the next group is queued behind it.
func TestDefectHeldByWhatWentBack(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_member"}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
	now := t0
	for _, step := range []struct {
		starts, waits []string
		status        rollout.JobStatus
	}{
		{[]string{"r1/a@v2"}, nil, rollout.JobFailure},
		{[]string{"r1/a@v1"}, nil, rollout.JobSuccessful},
		{nil, []string{"r1/a@v2: bracket_failed_holding"}, ""},
		{nil, []string{"r1/a@v2: bracket_failed_holding", "r1/b@v2: bracket_queued"}, ""},
	} {
		if len(step.waits) == 2 {
			s.Versions = append(s.Versions, rollout.Version{ID: "v2", Deployment: "b", Status: rollout.VersionReady, CreatedAt: now}, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: now})
		}
		plan := mustPlan(t, set, s, now)
		if got := started(plan); !slices.Equal(got, step.starts) {
			t.Fatalf("starts %q, want %q", got, step.starts)
		}
		if got := blockers(plan); !slices.Equal(got, step.waits) {
			t.Errorf("waits %q, want %q", got, step.waits)
		}
		for w := range plan.Waiting.All() {
			if x := w.Blockers[0]; x.Reason == "bracket_failed_holding" && !slices.Equal(x.Actors(), []rollout.Actor{rollout.ActorOperator}) {
				t.Errorf("%v is opened by %v", x, x.Actors())
			}
			if x := w.Blockers[0]; x.Reason == "bracket_queued" && x.String() != "bracket_queued (a failed): it went back, so skip it by name or end the execution, waits for the end of the bracket on r1" {
				t.Errorf("who is queued behind what has failed is told %q", x)
			}
			if x, err := plan.Explain(w.TargetID); err != nil || x.Waits() == nil || len(x.Waits().Blockers()) != 1 || x.Waits().Blockers()[0].Reason != w.Blockers[0].Reason {
				t.Errorf("explained as\n%v%v", x, err)
			}
		}
		s.State = plan.State
		carryOut(t, &s, plan, now, step.status)
		now = now.Add(time.Minute)
	}
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "b/prod/1", Resource: "r1"}}
	if got := started(mustPlan(t, set, s, now)); !slices.Equal(got, []string{"r1/a@v3", "r1/b@v2"}) {
		t.Errorf("once it is resolved %q start", got)
	}
}

// TestDefectGroupLostWithItsRule: the record of a group is lost while an execution of it is open,
// and its rule or its environment is gone as well. The execution is finished as it was frozen all
// the same, or ended by an operator: nothing would ever look at it otherwise, and it would keep its
// slot.
func TestDefectGroupLostWithItsRule(t *testing.T) {
	const slots = `{"id":"p","resourceConcurrency":{"groupSelector":"true","limit":2}}`
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}},`+slots))
	begun := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &begun, mustPlan(t, set, begun, t0), t0, rollout.JobSuccessful)
	begun.State.Brackets = nil

	s, now := begun, t0.Add(time.Minute)
	without := compile(t, policy(slots))
	plan := mustPlan(t, without, s, now)
	if len(plan.Start) != 2 || plan.Start[0].Group != "b/prod/1" || plan.Start[0].Reason != "slot_held" { // each once
		t.Fatalf("starts %+v, waits %q", plan.Start, blockers(plan))
	}
	carryOut(t, &s, plan, now, rollout.JobSuccessful)
	plan = mustPlan(t, without, s, now.Add(time.Minute))
	if len(plan.Start) > 0 || plan.State.Executions[0].Open != nil || len(leases(plan.State)) > 0 || len(plan.State.Brackets) > 0 {
		t.Errorf("starts %q; of the state there is left %+v", started(plan), plan.State)
	}

	s = begun
	s.Environments, s.Targets = []rollout.Environment{{ID: "other"}}, nil
	if plan = mustPlan(t, set, s, now); plan.State.Executions[0].Open == nil || len(plan.State.Brackets) > 0 {
		t.Errorf("without its environment: %+v", plan.State)
	}
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "b/prod/1", Resource: "r1"}}
	if plan = mustPlan(t, set, s, now); plan.State.Executions[0].Open != nil || !slices.Equal(leases(plan.State), []string{"p r2 active"}) {
		t.Errorf("resolved without its environment: %+v", plan.State)
	}
}

// TestDefectBackToTheLocked: an execution used to take a target back to the version that it had
// locked, where somebody had brought a newer one there while the node was being drained.
func TestDefectBackToTheLocked(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "os": {"v1", "v2"}, "uncordon": {"v1"}})
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	bringByHand(&s, "os")
	plan = mustPlan(t, set, s, minute(3))
	if got := started(plan); !slices.Equal(got, []string{"r1/uncordon@v1"}) {
		t.Errorf("starts %q: os has v3, so that only the uncordon is left", got)
	}
}

// bringByHand deploys a version of a deployment that no policy lets anybody have.
func bringByHand(s *rollout.Snapshot, deployment string) {
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: deployment, Status: rollout.VersionPaused, CreatedAt: minute(1)})
	for i := range s.Targets {
		if target := &s.Targets[i]; target.Deployment == deployment {
			target.Current = "v3"
			target.Jobs = []rollout.Job{{Version: "v3", Status: rollout.JobSuccessful, CreatedAt: minute(1), CompletedAt: minute(2)}}
		}
	}
}

// TestDefectFailedElsewhere: who waited for an execution of another environment used to be told
// that it had failed by the second plan after the failure only, if its own environment was decided
// before.
func TestDefectFailedElsewhere(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), "staging")
	s.Versions[1].TargetSelector = "environment.id == 'staging'"
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
	for k := range 2 {
		plan := mustPlan(t, set, s, minute(2))
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
		if got, want := fmt.Sprint(wait.Blockers), "[bracket_queued (a failed), waits for the end of the bracket on r1]"; got != want {
			t.Errorf("plan %d: %s, want %s", k, got, want)
		}
		s.State = plan.State
	}
}

// TestDefectBackToTheUndispatched: a start that was saved, and that the host did not get to
// dispatch, used to be offered again where somebody had brought a newer version meanwhile.
func TestDefectBackToTheUndispatched(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(1, "v1", map[string][]string{"os": {"v1", "v2"}, "kubelet": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	s.State = mustCommit(t, plan, t0)
	plan = mustPlan(t, set, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r1/kubelet@v2", "r1/os@v2"}) {
		t.Errorf("starts %q: nothing was dispatched", got)
	}
	bringByHand(&s, "os")
	plan = mustPlan(t, set, s, minute(3))
	if got := started(plan); !slices.Equal(got, []string{"r1/kubelet@v2"}) {
		t.Errorf("starts %q: os has v3", got)
	}
	carryOut(t, &s, plan, minute(3), rollout.JobSuccessful)
	if plan = mustPlan(t, set, s, minute(9)); len(plan.State.Pools[0].Leases) != 0 {
		t.Errorf("the execution goes on: %+v", plan.State)
	}
}

// TestDefectMergedWithoutItsDrain: a version that needs the next drain was merged into an execution
// that had drained already, and that keeps its drain. So the node stayed drained until an operator
// came. The group waits now, and brings both once the execution has ended.
func TestDefectMergedWithoutItsDrain(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,
		"memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "os": {"v1", "v2"}, "uncordon": {"v1"}})
	s.Environments = append(s.Environments, rollout.Environment{ID: "dev"}) // it comes before prod, and has no targets
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	s.Versions = append(s.Versions,
		rollout.Version{ID: "v2", Deployment: "drain", Status: rollout.VersionReady, CreatedAt: minute(1)},
		rollout.Version{ID: "v3", Deployment: "os", Status: rollout.VersionReady, CreatedAt: minute(1),
			Dependencies: []rollout.VersionDependency{{Deployment: "drain", VersionSelector: "version.id == 'v2'"}}})
	at := minute(10)
	for _, want := range []string{"r1/os@v2", "r1/uncordon@v1", "r1/drain@v2", "r1/os@v3", "r1/uncordon@v1"} {
		plan := mustPlan(t, set, s, at)
		if got := started(plan); !slices.Equal(got, []string{want}) {
			t.Fatalf("starts %q, want %s", got, want)
		}
		carryOut(t, &s, plan, at, rollout.JobSuccessful)
		at = at.Add(10 * time.Minute)
	}
}

// TestDefectOrderOfThoseWhoLeft: a rule orders the members of a bracket, and r1, which lacks the
// one that is to go first, is drained. Then somebody edits who is a member. For the execution that
// is open the rule is still an order, and satisfied there, instead of a dependency on what the
// resource will never have.
func TestDefectOrderOfThoseWhoLeft(t *testing.T) {
	const policies = `[{"id":"p","name":"p","selector":"true","rules":[{"id":"%s","deploymentBracket":{"deploymentSelector":"%s","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'd'"}}},
		{"id":"order","deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'%s"}}]},
		{"id":"q","name":"q","selector":"true","rules":[%s]}]`
	const needs = `{"id":"other","deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
	bracketed := func(id, members, version, other string) *rollout.PolicySet {
		return compile(t, fmt.Sprintf(policies, id, members, version, other))
	}
	const calm = `{"retry":{"maxRetries":0}}`
	unbracketed := func(version string) *rollout.PolicySet {
		return compile(t, policy(`{"id":"order","deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'`+version+`"}}`))
	}
	const onVersion = ` && version.tag in ['v1', 'v9']`
	for _, row := range []struct {
		why     string
		version string // what the rule asks of the version of a besides
		edited  *rollout.PolicySet
		want    []string
	}{
		{"nothing is edited", "", bracketed("b", "true", "", calm), []string{"r1/b@v2"}},
		{"the member that waits leaves", "", bracketed("b", "deployment.name != 'b'", "", calm), []string{"r1/b@v2"}},
		{"the member that it waits for leaves", "", bracketed("b", "deployment.name != 'a'", "", calm), []string{"r1/b@v2"}},
		{"both leave", "", bracketed("b", "deployment.name == 'd'", "", calm), []string{"r1/b@v2"}},
		{"the rule of the bracket gets another id", "", bracketed("c", "true", "", calm), []string{"r1/b@v2"}},
		{"the bracket is gone", "", unbracketed(""), []string{"r1/b@v2"}},
		{"the order is by version, and the member that waits leaves", onVersion, bracketed("b", "deployment.name != 'b'", onVersion, calm), []string{"r1/b@v2"}},
		{"the order is by version, and the bracket is gone", onVersion, unbracketed(onVersion), []string{"r1/b@v2"}},
		{"another policy, which orders nobody, now asks for what is not there", "", bracketed("b", "deployment.name != 'b'", "", needs), nil},
		{"a rule that is new asks for more than the order did", "", bracketed("b", "deployment.name != 'b'", ` && version.tag == 'v9'`, calm), nil},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1"}, "b": {"v1", "v2"}, "d": {"v1"}})
		s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r1" && x.Deployment == "a" })
		plan := mustPlan(t, bracketed("b", "true", row.version, calm), s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r1/d@v1", "r2/d@v1"}) {
			t.Fatalf("%s: starts %q, waits %q", row.why, got, blockers(plan))
		}
		carryOut(t, &s, plan, t0, rollout.JobSuccessful)
		plan = mustPlan(t, row.edited, s, minute(1))
		if got := slices.DeleteFunc(started(plan), func(start string) bool { return !strings.HasPrefix(start, "r1/b@") }); !slices.Equal(got, row.want) && len(got)+len(row.want) > 0 {
			t.Errorf("%s: on r1 %q start, waits %q", row.why, got, blockers(plan))
		}
	}
}
