package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// machine is a host with bad luck: it carries out parts of plans, stops between saving and
// dispatching, plans on what it saw a while ago, edits its policies and is frozen at the worst
// moment, and loses nodes. Its store is one value that is replaced under the condition that nobody
// replaced it before.
type machine struct {
	set  map[string]*rollout.PolicySet
	seen testkit.Tally

	variant    string
	s          rollout.Snapshot // what is true, with the state that is stored
	now        time.Time
	revision   int
	old        []memory
	dispatched map[string]rollout.Start
	saved      map[string]bool // runs that were committed, dispatched or not
	versions   int
	freezes    int
	raced      bool // what was observed was older than the state once: slots are safe still, but nobody can say what is newest
	deleted    map[string]bool
}

// memory is what a slow host still believes.
type memory struct {
	s        rollout.Snapshot
	revision int
	now      time.Time
}

// machinePolicies are the policies of the machine and its edits of them. a drains, b and c upgrade,
// d restores; x stands outside and needs b.
func machinePolicies(t *rapid.T, env rollout.Compiler) map[string]*rollout.PolicySet {
	rule := bracket.Rule{
		DeploymentSelector: "deployment.metadata['in'] == 'yes'", ReadinessMode: oneOf(t, "mode", bracket.Immediate, bracket.CollectionWindow, bracket.WaitForAll),
		UnchangedMemberStrategy: oneOf(t, "unchanged", bracket.SkipUnchanged, bracket.RedeployCurrent), OnMemberFailure: oneOf(t, "failure", bracket.Hold, bracket.RunPost, bracket.RollbackMember, bracket.RollbackAll),
		MemberRoles: &bracket.MemberRoles{Pre: "deployment.id == 'a'", Post: "deployment.id == 'd'"}, StuckAfterSeconds: 600,
	}
	if rule.ReadinessMode != bracket.Immediate {
		rule.ReadinessWindowSeconds = pointer[int64](120)
	}
	if chance(t, "merge", 50) {
		rule.OverlapStrategy, rule.PreparedStatePersists = bracket.Merge, true
	}
	limit := oneOf(t, "limit", concurrency.Count(1), concurrency.Count(2), concurrency.Percent(50))
	var inner, outer []rollout.Rule // what else there may be
	var more []rollout.Policy
	if chance(t, "approved", 30) {
		inner = append(inner, rollout.Rule{AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(1)}})
	}
	if chance(t, "windows", 30) {
		inner = append(inner, rollout.Rule{DeploymentWindow: machineWindow()})
	}
	if chance(t, "approved outside", 30) {
		outer = append(outer, rollout.Rule{AnyApproval: &rollout.AnyApproval{MinApprovals: pointer(1)}})
	}
	if chance(t, "progression", 30) {
		more = append(more, rollout.Policy{Name: "after", Selector: "deployment.id == 'x' && environment.id == 'prod'", Rules: []rollout.Rule{
			{EnvironmentProgression: &rollout.EnvironmentProgression{DependsOnEnvironmentSelector: "environment.id == 'staging'", MinimumSoakTimeMinutes: 2, MinimumSuccessPercentage: pointer(50.0)}},
		}})
	}
	if chance(t, "windows outside", 30) {
		outer = append(outer, rollout.Rule{DeploymentWindow: machineWindow()})
	}
	if chance(t, "back", 30) {
		outer = append(outer, rollout.Rule{Rollback: &rollout.Rollback{OnJobStatuses: []rollout.JobStatus{rollout.JobFailure}}})
	}
	if chance(t, "cooldown", 30) {
		outer = append(outer, rollout.Rule{VersionCooldown: &rollout.VersionCooldown{IntervalSeconds: pointer[int64](120)}})
	}
	interval := oneOf[int64](t, "interval", 0, 60)
	make := func(id string, limit concurrency.Limit) []rollout.Policy {
		pool := func() rollout.Rule {
			return rollout.Rule{ResourceConcurrency: &concurrency.Rule{GroupSelector: "true", SharedPool: "all", Limit: limit}}
		}
		inside := rollout.Policy{Name: "inside", Selector: "deployment.id != 'x'", Rules: []rollout.Rule{
			pool(), {Retry: &rollout.Retry{MaxRetries: pointer(1), BackoffSeconds: 60}},
			{GradualRollout: &rollout.GradualRollout{RolloutType: rollout.Linear, TimeScaleInterval: &interval, OrderKey: rollout.OrderByResource}},
			{DeploymentDependency: &rollout.DeploymentDependency{DependsOn: "deployment.id == 'b'", AppliesTo: "deployment.id == 'c'"}},
		}}
		inside.Rules = append(inside.Rules, inner...)
		if id != "" {
			own := rule
			inside.Rules = append(inside.Rules, rollout.Rule{ID: id, DeploymentBracket: &own})
		}
		outside := rollout.Policy{Name: "outside", Selector: "deployment.id == 'x'", Rules: []rollout.Rule{
			pool(), {Retry: &rollout.Retry{MaxRetries: pointer(2), BackoffSeconds: 60, BackoffStrategy: rollout.BackoffExponential}},
			{GradualRollout: &rollout.GradualRollout{RolloutType: rollout.Linear, TimeScaleInterval: pointer[int64](60)}},
			{DeploymentDependency: &rollout.DeploymentDependency{DependsOn: "deployment.id == 'b'"}},
		}}
		outside.Rules = append(outside.Rules, outer...)
		return append([]rollout.Policy{inside, outside}, more...)
	}
	sets := map[string]*rollout.PolicySet{}
	for name, policies := range map[string][]rollout.Policy{
		"full": make("b", limit), "renamed": make("b2", limit), "removed": make("", limit), "paused": make("b", concurrency.Count(0)),
	} {
		var err error
		if sets[name], err = rollout.Compile(policies, env); err != nil {
			t.Fatal(err)
		}
	}
	return sets
}

// machineWindow is open for three minutes of each ten.
func machineWindow() *rollout.DeploymentWindow {
	w := &rollout.DeploymentWindow{FirstDeploy: rollout.FirstDeployApply}
	w.RRule, w.DurationMinutes = "FREQ=DAILY;BYHOUR=0,1,2,3;BYMINUTE=0,10,20,30,40,50;BYSECOND=0", clock.Minutes(3)
	return w
}

func newMachine(t *rapid.T, env rollout.Compiler, seen testkit.Tally) *machine {
	m := &machine{set: machinePolicies(t, env), seen: seen, variant: "full", now: t0, dispatched: map[string]rollout.Start{}, saved: map[string]bool{}, deleted: map[string]bool{}, versions: 1}
	m.s.Environments = []rollout.Environment{{ID: "prod"}, {ID: "staging"}}[:between(t, "environments", 1, 2)]
	for _, id := range []string{"a", "b", "c", "d", "x"} {
		m.s.Deployments = append(m.s.Deployments, rollout.Deployment{ID: id, Metadata: map[string]string{"in": map[bool]string{true: "yes", false: "no"}[id != "x"]}})
		m.s.Versions = append(m.s.Versions, rollout.Version{ID: "v1", Deployment: id, Status: rollout.VersionReady, CreatedAt: t0.Add(-time.Hour)})
	}
	for range between(t, "resources", 2, 3) {
		m.join("v1")
	}
	m.newVersion(t)
	return m
}

func (m *machine) join(current string) {
	id := fmt.Sprint("n", len(m.s.Resources)+len(m.deleted)+1)
	m.s.Resources = append(slices.Clone(m.s.Resources), rollout.Resource{ID: id})
	for _, e := range m.s.Environments {
		for _, d := range m.s.Deployments {
			m.s.Targets = append(slices.Clone(m.s.Targets), rollout.Target{
				TargetID: rollout.TargetID{Resource: id, Environment: e.ID, Deployment: d.ID}, Current: current, JoinedAt: m.now,
			})
		}
	}
}

func (m *machine) newVersion(t *rapid.T) {
	m.versions++
	d := oneOf(t, "released", "b", "c", "x", "a")
	m.s.Versions = append(slices.Clone(m.s.Versions), rollout.Version{ID: fmt.Sprint("v", m.versions), Deployment: d, Status: rollout.VersionReady, CreatedAt: m.now})
	if chance(t, "scoped", 20) {
		m.s.Versions[len(m.s.Versions)-1].TargetSelector = oneOf(t, "scope", "resource.id == 'n1'", "environment.id == 'prod'")
		m.seen["scoped"]++
	}
}

func (m *machine) Release(t *rapid.T) {
	if m.versions < 6 {
		m.newVersion(t)
	}
}

// Approve gives what versions may wait for.
func (m *machine) Approve(t *rapid.T) {
	v := oneOf(t, "approved", m.s.Versions...)
	m.approve(v, oneOf(t, "in", m.s.Environments...).ID)
}

func (m *machine) approve(v rollout.Version, environment string) {
	m.s.Approvals = append(slices.Clone(m.s.Approvals), rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: environment, By: "ann", Status: rollout.Approved, At: m.now})
}

// Outdate asks for another run of what a target has.
func (m *machine) Outdate(t *rapid.T) {
	if k := uniform(t, "outdated", len(m.s.Targets)); chance(t, "seldom", 30) {
		m.s.Targets = slices.Clone(m.s.Targets)
		m.s.Targets[k].OutdatedAt = m.now
		m.seen["outdated"]++
	}
}

// Close closes a group that is collecting.
func (m *machine) Close(t *rapid.T) {
	for _, group := range m.s.State.Brackets {
		if group.Collecting != nil && chance(t, "closed", 40) {
			m.s.Commands = append(slices.Clone(m.s.Commands), bracket.Command{ID: fmt.Sprint("c", len(m.s.Commands)), Kind: bracket.Close, Group: group.Collecting.ID, At: m.now})
			m.seen["closed"]++
		}
	}
}

// Override lets a version past a rule for a while.
func (m *machine) Override(t *rapid.T) {
	v := oneOf(t, "version", m.s.Versions...)
	m.s.Overrides = append(slices.Clone(m.s.Overrides), rollout.Override{
		ID: fmt.Sprint("o", len(m.s.Overrides)), Version: v.ID, CreatedAt: m.now, ExpiresAt: m.now.Add(3 * time.Minute), CreatedBy: "ann", Reason: "urgent",
		Rule: oneOf(t, "rule", "outside/gradualRollout/0", "outside/resourceConcurrency/0", "inside/gradualRollout/0", "outside/retry/0", "outside/deploymentDependency/0"),
	})
}

// Freeze keeps targets from starting anything, for a while or until somebody thaws them.
func (m *machine) Freeze(t *rapid.T) {
	if !chance(t, "seldom", 60) {
		return
	}
	m.freezes++
	z := rollout.Freeze{
		ID: fmt.Sprint("z", m.freezes), CreatedAt: m.now, CreatedBy: "bob", Reason: "INC-7", FinishBegun: chance(t, "finishes", 50),
		Resource: oneOf(t, "freezes", "", "n1", "n2"), Deployment: oneOf(t, "freezes of", "", "", "", "b", "d", "x"),
	}
	if chance(t, "thaws", 60) {
		z.ExpiresAt = m.now.Add(time.Duration(between(t, "for", 1, 5)) * time.Minute)
	}
	m.s.Freezes = append(slices.Clone(m.s.Freezes), z)
}

func (m *machine) Thaw(t *rapid.T) {
	if n := len(m.s.Freezes); n > 0 {
		k := uniform(t, "thawed", n)
		m.s.Freezes = slices.Delete(slices.Clone(m.s.Freezes), k, k+1)
	}
}

func (m *machine) Advance(t *rapid.T) {
	m.now = m.now.Add(time.Duration(between(t, "minutes", 1, 3)) * time.Minute)
}

func (m *machine) remember() {
	m.old = append(m.old, memory{cloneFleet(m.s), m.revision, m.now})
}

// Plan plans on the truth, saves, and dispatches what bad luck lets through.
func (m *machine) Plan(t *rapid.T) {
	m.remember()
	m.planOn(t, m.s, m.revision, 30, false)
}

func (m *machine) PlanAgain(t *rapid.T) { m.planOn(t, m.s, m.revision, 0, false) }

// Work is a while without bad luck: plans are carried out as a whole, and what ends succeeds.
func (m *machine) Work(t *rapid.T) {
	for range between(t, "rounds", 1, 4) {
		m.planOn(t, m.s, m.revision, 0, false)
		if chance(t, "they end", 70) {
			m.finish(t, chance(t, "well", 80))
		}
		if chance(t, "time passes", 30) {
			m.now = m.now.Add(time.Minute)
		}
	}
}

// PlanStale plans on what was true a while ago: all of it, and the store refuses; or only what was
// observed, with the state as it is now.
func (m *machine) PlanStale(t *rapid.T) {
	if len(m.old) == 0 {
		return
	}
	from := m.old[max(0, len(m.old)-1-uniform(t, "how old", 4))]
	s := cloneFleet(from.s)
	if chance(t, "state is fresh", 60) {
		s.State = m.s.State
		m.seen["stale observation"]++
		m.planOn(t, s, m.revision, 30, true)
		return
	}
	m.planOn(t, s, from.revision, 30, true)
}

func (m *machine) planOn(t *rapid.T, s rollout.Snapshot, revision, lost int, stale bool) {
	plan, err := m.set[m.variant].Plan(s, m.now)
	if err != nil {
		t.Fatalf("plan: %v", err)
	}
	count(m.seen, plan)
	starts := plan.Start
	if lost > 0 {
		starts = shuffled(rand.New(rand.NewPCG(uint64(len(m.dispatched)), 1)), subset(t, starts))
	}
	state, err := plan.Commit(starts, m.now)
	if err != nil {
		t.Fatalf("commit %q: %v", started(plan), err)
	}
	if revision != m.revision {
		m.seen["conflict"]++
		return
	}
	m.raced = m.raced || stale
	whole := len(starts) == len(plan.Start)
	plan.Start, plan.State = starts, state
	for _, invariant := range rollouttest.Invariants() {
		if invariant.Name == "complete" && !whole {
			continue // what is not carried out is not spoken of
		}
		if invariant.Name == "alone" && stale {
			continue // the repeated run is not made twice, which dispatch checks
		}
		step := rollouttest.Step{Snapshot: s, Plan: plan, Dispatched: m.dispatched}
		step.Snapshot.Versions = m.s.Versions
		if invariant.Name == "limit" {
			step.Snapshot = m.s
		}
		if m.raced && slices.Contains([]string{"forward", "order", "locked"}, invariant.Name) {
			continue
		}
		if invariant.Name == "forward" { // a hook runs the version that is locked: it is never upgraded, only run
			step.Plan.Start = slices.DeleteFunc(slices.Clone(starts), func(s rollout.Start) bool { return roleOf(plan, s) != bracket.Main })
		}
		if invariant.Name == "order" || invariant.Name == "locked" {
			// What is true counts, seen or not; and a run that was saved and not dispatched goes on
			// as if it had been, whatever was merged meanwhile.
			step.Snapshot = m.s
			step.Plan.Start = slices.DeleteFunc(slices.Clone(starts), func(s rollout.Start) bool { return m.saved[s.Run] })
		}
		if err := invariant.Check(step); err != nil {
			t.Fatalf("%s: %v\nat %v under %s policies: starts %q, waits %q, keeps %+v, events %+v", invariant.Name, err, m.now, m.variant, started(plan), blockers(plan), plan.Keep, plan.Events)
		}
	}
	m.limit(t, plan)
	m.s.State = state
	m.revision++
	for _, start := range starts {
		m.saved[start.Run] = true
		if slices.ContainsFunc(s.Freezes, func(z rollout.Freeze) bool {
			return freezesTarget(z, start.TargetID) && !m.now.Before(z.CreatedAt) && (z.ExpiresAt.IsZero() || m.now.Before(z.ExpiresAt))
		}) {
			m.seen["finished under a freeze"]++ // or else the invariant is broken
		}
	}
	for _, e := range plan.Events {
		m.seen[string(e.Kind)]++
	}
	for _, start := range starts {
		if lost > 0 && chance(t, "lost", lost) {
			m.seen["crash before dispatch"]++
			continue
		}
		m.dispatch(t, start, stale)
	}
}

// dispatch is create-if-absent by the run id, on a target that still exists and has nothing else to
// do.
func (m *machine) dispatch(t *rapid.T, start rollout.Start, stale bool) {
	if first, twice := m.dispatched[start.Run]; twice {
		if first.TargetID != start.TargetID || first.Version != start.Version || first.Purpose != start.Purpose {
			t.Fatalf("run %s denotes %+v and %+v", start.Run, first, start)
		}
		m.seen["dispatched again"]++
		return
	}
	for i := range m.s.Targets {
		target := &m.s.Targets[i]
		if target.TargetID != start.TargetID {
			continue
		}
		if active(*target) {
			if !stale {
				t.Fatalf("%s starts on a target with an active job: %+v", start.Run, target.Jobs)
			}
			m.seen["refused by the target"]++ // a planner that did not see the job cannot know; whoever dispatches does
			return
		}
		m.dispatched[start.Run] = start
		target.Jobs = append(slices.Clone(target.Jobs), job(start, m.now, rollout.JobInProgress))
		m.seen["purpose "+string(start.Purpose)]++
	}
}

// limit counts who is in a pool after a plan that let somebody in.
func (m *machine) limit(t *rapid.T, plan rollout.Plan) {
	for _, pool := range plan.Pools {
		in := map[string]bool{}
		for _, record := range plan.State.Pools {
			if record.Key == pool.Key {
				for _, lease := range record.Leases {
					in[lease.Resource] = true
				}
			}
		}
		for _, id := range pool.Unavailable {
			in[id] = true
		}
		if free := slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.Reason == "slot_free" }); free && len(in) > pool.Max {
			t.Fatalf("%d of %d in %s: %v", len(in), pool.Max, pool.Key, in)
		}
	}
}

func (m *machine) Finish(t *rapid.T) { m.finish(t, false) }

func (m *machine) finish(t *rapid.T, well bool) (finished int) {
	m.now = m.now.Add(time.Second) // no job takes no time, or two starts on a target could not be told apart by their instants
	for i := range m.s.Targets {
		target := &m.s.Targets[i]
		for k := range target.Jobs {
			if target.Jobs[k].Status.Terminal() || !well && chance(t, "goes on", 50) {
				continue
			}
			status := rollout.JobSuccessful
			if !well {
				status = oneOf(t, "outcome", rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobFailure, rollout.JobExternalRunNotFound, rollout.JobCancelled)
			}
			target.Jobs = slices.Clone(target.Jobs)
			target.Jobs[k].Status, target.Jobs[k].CompletedAt = status, m.now
			if status == rollout.JobSuccessful {
				target.Current = target.Jobs[k].Version
			}
			m.seen["job "+string(status)]++
			finished++
		}
	}
	return finished
}

func (m *machine) Edit(t *rapid.T) {
	m.variant = oneOf(t, "policies", "full", "full", "renamed", "removed", "paused")
}

// Relabel lets a deployment leave the bracket, or come back.
func (m *machine) Relabel(t *rapid.T) {
	m.s.Deployments = slices.Clone(m.s.Deployments)
	d := &m.s.Deployments[oneOf(t, "relabelled", 1, 2)]
	d.Metadata = map[string]string{"in": map[string]string{"yes": "no", "no": "yes"}[d.Metadata["in"]]}
}

func (m *machine) Join(t *rapid.T) {
	if len(m.s.Resources) < 4 {
		m.join("v1")
	}
}

// Leave removes a resource: proved to be gone, or merely not seen any more.
func (m *machine) Leave(t *rapid.T) {
	if len(m.s.Resources) < 2 {
		return
	}
	k := uniform(t, "who", len(m.s.Resources))
	id := m.s.Resources[k].ID
	m.s.Resources = slices.Delete(slices.Clone(m.s.Resources), k, k+1)
	m.s.Targets = slices.DeleteFunc(slices.Clone(m.s.Targets), func(x rollout.Target) bool { return x.Resource == id })
	m.deleted[id] = true
	if chance(t, "proved", 50) {
		m.s.DeletedResources = append(slices.Clone(m.s.DeletedResources), id)
	}
	m.seen["left"]++
}

func (m *machine) Break(t *rapid.T) {
	m.s.Unavailable = nil
	if chance(t, "down", 50) {
		m.s.Unavailable = []string{oneOf(t, "down", m.s.Resources...).ID}
	}
}

// Check holds what is true at any time: who works has the slots that it was given.
func (m *machine) Check(t *rapid.T) {
	for _, target := range m.s.Targets {
		working := 0
		for _, j := range target.Jobs {
			if j.Status.Terminal() {
				continue
			}
			working++
			start := m.dispatched[j.Run]
			for _, claim := range start.Claims {
				held := false
				for _, record := range m.s.State.Pools {
					for _, lease := range record.Leases {
						held = held || record.Key == claim.Pool && lease.Resource == start.Resource && lease.Group == start.Group && lease.Token == claim.Token
					}
				}
				if !held {
					t.Fatalf("%s works and has no slot %d in %s", j.Run, claim.Token, claim.Pool)
				}
			}
		}
		if working > 1 {
			t.Fatalf("%d jobs at once: %+v", working, target)
		}
	}
	for i, record := range m.s.State.Executions {
		if i > 0 && record.Rule == m.s.State.Executions[i-1].Rule && record.Resource == m.s.State.Executions[i-1].Resource {
			t.Fatalf("two records of %s on %s", record.Rule, record.Resource)
		}
	}
}

// calm ends all bad luck: nothing arrives any more, every job succeeds, an operator ends what is
// held. Then everything must come to rest.
func (m *machine) calm(t *rapid.T) {
	m.variant, m.s.Unavailable, m.s.Freezes = "full", nil, nil
	for id := range m.deleted {
		m.s.DeletedResources = append(m.s.DeletedResources, id)
	}
	for i := range m.s.Deployments {
		if m.s.Deployments[i].ID != "x" {
			m.s.Deployments[i].Metadata = map[string]string{"in": "yes"}
		}
	}
	for _, v := range m.s.Versions {
		for _, e := range m.s.Environments {
			m.approve(v, e.ID)
		}
	}
	idle := 0
	for range 1000 {
		plan, err := m.set[m.variant].Plan(m.s, m.now)
		if err != nil {
			t.Fatal(err)
		}
		m.s.State = mustCommit(t, plan, m.now)
		for _, start := range plan.Start {
			m.dispatch(t, start, false)
		}
		finished := m.finish(t, true)
		if finished > 0 || len(plan.Start) > 0 {
			idle = 0
			continue
		}
		closed := slices.ContainsFunc(blockers(plan), func(s string) bool { return strings.Contains(s, string(rollout.ReasonWindowClosed)) })
		if idle++; !plan.Next.IsZero() && (idle < 40 || idle < 80 && closed) { // windows open and shut for ever: what waits in the end waits inside them
			m.now = plan.Next
			continue
		}
		held := 0
		idle = 0
		for _, record := range m.s.State.Executions {
			if record.Open != nil && record.Open.Status == bracket.StatusFailed {
				held++
				m.s.Commands = append(m.s.Commands, bracket.Command{ID: fmt.Sprint("c", len(m.s.Commands)), Kind: bracket.Resolve, Group: record.Open.Group, Resource: record.Resource, At: m.now})
			}
		}
		if held == 0 {
			m.rest(t, plan)
			return
		}
		m.seen["held"]++
	}
	plan, err := m.set[m.variant].Plan(m.s, m.now)
	if err != nil {
		t.Fatal(err)
	}
	t.Fatalf("does not come to rest: at %v starts %q, waits %q, next %v, orphans %+v", m.now, started(plan), blockers(plan), plan.Next, plan.Orphans)
}

// rest checks the end: nobody holds anything, and everybody has the newest version or a reason that
// only a person can remove.
func (m *machine) rest(t *rapid.T, plan rollout.Plan) {
	for _, record := range plan.State.Executions {
		if record.Open != nil {
			t.Fatalf("%s on %s is open for ever: %+v\nwaiting %q", record.Open.Group, record.Resource, record.Open.Members, blockers(plan))
		}
	}
	for _, record := range plan.State.Pools {
		for _, lease := range record.Leases {
			if !slices.Contains(plan.Orphans, lease) {
				t.Fatalf("%+v is held for ever, and nobody says so: %+v", lease, plan.Orphans)
			}
			m.seen["orphan"]++
		}
	}
	for w := range plan.Waiting.All() {
		if slices.ContainsFunc(w.Blockers, func(b rollout.Verdict) bool {
			return b.Reason == rollout.ReasonProgressionNoEnvironment || b.Reason == rollout.ReasonProgressionWaiting && b.Until.IsZero()
		}) {
			m.seen["waits for staging"]++ // which is not there, or where it failed for good
			continue
		}
		for _, b := range w.Blockers {
			switch b.Reason {
			case rollout.ReasonRetryExhausted, "bracket_ended", "bracket_not_locked", "bracket_hook_waits_for_main", rollout.ReasonDependencyUnmet,
				rollout.ReasonRollbackTriggered, rollout.ReasonRollbackFailed:
				m.seen["given up"]++
			default:
				if b.Reason != "slot_full" && b.Reason != "bracket_queued" || len(plan.Orphans) == 0 {
					t.Fatalf("%v waits for ever: %v by %s\nall %q\n%+v\nevents %+v", w.TargetID, w.Blockers, w.Blockers[0].Rule, blockers(plan), plan.Diagnostics, plan.Events)
				}
			}
		}
	}
	m.seen["rest"]++
}

// TestI14Machine drives the pure planner through bad luck, and then lets it come to rest.
func TestI14Machine(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		m := newMachine(t, env, seen)
		t.Repeat(map[string]func(*rapid.T){
			"": m.Check, "Advance": m.Advance, "Approve": m.Approve, "Outdate": m.Outdate, "Override": m.Override, "Break": m.Break, "Close": m.Close, "Edit": m.Edit, "Finish": m.Finish, "Freeze": m.Freeze, "Thaw": m.Thaw, "Join": m.Join, "Leave": m.Leave, "Plan": m.Plan, "PlanAgain": m.PlanAgain,
			"PlanStale": m.PlanStale, "Relabel": m.Relabel, "Release": m.Release, "Work": m.Work, "Work on": m.Work,
		})
		m.calm(t)
	}, "rest", "closed", "conflict", "stale observation", "crash before dispatch", "dispatched again", "execution_ended", "start alone", "start in bracket",
		"job failure", "job externalRunNotFound", "left", "frozen", "finished under a freeze")
}
