package rollout_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestIncumbentsInTheirPools: whoever is at work while the limits are edited counts where its own
// targets need a place, and nowhere else.
func TestIncumbentsInTheirPools(t *testing.T) {
	t.Parallel()
	const bracketed = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	pool := func(id, more string) string {
		return `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"true","limit":2` + more + `}}`
	}
	zones := func(s *rollout.Snapshot, names ...string) {
		for k, zone := range names {
			s.Resources[k].Metadata = map[string]string{"zone": zone}
		}
	}
	resolved := func(resource string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "B/prod/1", Resource: resource}}
		}
	}
	const byZone = `,"groupBy":"resource.metadata['zone']"`
	const others = `,{"name":"q","selector":"deployment.name == 'b'","rules":[{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":2}}]}`
	for _, row := range []struct {
		why           string
		before, after string                  // rules, and whole policies behind them
		fleet, edit   func(*rollout.Snapshot) // edit: once the jobs have begun
		status        rollout.JobStatus       // of these
		want          string                  // who holds what
	}{
		{"two executions, each in its zone", policy(bracketed + "," + pool("P", "")), policy(bracketed + "," + pool("Q", byZone)), func(s *rollout.Snapshot) { zones(s, "west", "east", "west") }, nil, rollout.JobInProgress,
			"Q/east: r2, Q/west: r1"},
		{"a member that does not run needs no place", policy(bracketed + "," + pool("P", "")), policy(bracketed+","+pool("P", "")) + others, func(s *rollout.Snapshot) {
			s.Deployments = append(s.Deployments, rollout.Deployment{ID: "b", Name: "b"})
			s.Versions = append(s.Versions, rollout.Version{ID: "v1", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(-60)})
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"}, Current: "v1"})
		}, nil, rollout.JobInProgress, "P: r1 r2, Q:"},
		{"the job of an execution that was resolved, behind one that is open", policy(bracketed + "," + pool("P", "")), policy(bracketed + "," + pool("Q", "")), nil, resolved("r2"), rollout.JobInProgress, "Q: r1 r2"},
		{"before one that is open", policy(bracketed + "," + pool("P", "")), policy(bracketed + "," + pool("Q", "")), nil, resolved("r1"), rollout.JobInProgress, "Q: r1 r2"},
		{"between two attempts in the zone that the second node has come to", policy(pool("P", byZone) + `,{"retry":{"maxRetries":1,"backoffSeconds":600}}`), policy(pool("P", byZone) + `,{"retry":{"maxRetries":1,"backoffSeconds":600}}`),
			func(s *rollout.Snapshot) {
				zones(s, "west", "west", "east")
				s.Targets[0].Current, s.Targets[2].Current = "v2", "v2"
			}, func(s *rollout.Snapshot) { zones(s, "west", "east") }, rollout.JobFailure, "P/east: r2, P/west: r2"},
	} {
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		if row.fleet != nil {
			row.fleet(&s)
		}
		before := compile(t, "["+row.before+"]")
		carryOut(t, &s, mustPlan(t, before, s, t0), t0, row.status)
		if row.edit != nil {
			row.edit(&s)
			if len(s.Commands) > 0 {
				s.State = mustPlan(t, before, s, minute(1)).State
			}
		}
		plan := mustPlan(t, compile(t, "["+row.after+"]"), s, minute(1))
		var got []string
		for _, p := range plan.Pools {
			line := p.Key + ":"
			for _, holder := range p.Holders {
				line += " " + holder.Resource
			}
			got = append(got, line)
		}
		if strings.Join(got, ", ") != row.want {
			t.Errorf("%s: %q, want %s", row.why, got, row.want)
		}
	}
}

// TestIncumbents edits the limits while r1 is at work: r2 does not take the place of a node that is
// down already, and r1 is finished whatever the new pool says.
func TestIncumbents(t *testing.T) {
	t.Parallel()
	const bracketed = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
	const retried = `{"id":"R","retry":{"maxRetries":1,"backoffSeconds":600}}`
	limit := func(id, more string) string {
		return `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"true",` + more + `}}`
	}
	zone := func(id string, k int) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Resources[k].Metadata = map[string]string{"zone": id} }
	}
	for _, row := range []struct {
		why           string
		rules         string // in force besides the limits
		before, after string // limits
		fleet         func(*rollout.Snapshot)
		edit          func(*rollout.Snapshot)
		ended         rollout.JobStatus // of the job on r1, when the rules are edited
		wait          string            // reason of r2 after that
		then          string            // starts once that job has succeeded
		reason        rollout.Reason    // of the first of them
	}{
		{why: "the rule is renamed", rules: bracketed, before: limit("P", `"limit":1`), after: limit("Q", `"limit":1`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "it joins a shared pool", rules: bracketed, before: limit("P", `"limit":1`), after: limit("P", `"limit":1,"sharedPool":"s"`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "it makes a pool of each zone", rules: bracketed, before: limit("P", `"limit":1`), after: limit("P", `"limit":1,"groupBy":"resource.metadata['zone']"`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "it is new", rules: bracketed, before: `{"versionCooldown":{"intervalSeconds":0}}`, after: limit("P", `"limit":1`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "a rename that is also a pause: what was drained is finished", rules: bracketed, before: limit("P", `"limit":1`), after: limit("Q", `"limit":0`), wait: "slot_paused", then: "r1/b@v2", reason: "slot_held"},
		{why: "the node moves to the zone of another one", rules: bracketed, before: limit("P", `"limit":1,"groupBy":"resource.metadata['zone']"`), fleet: zone("west", 1), edit: zone("west", 0),
			wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "the records of the pools are lost", rules: bracketed, before: limit("P", `"limit":1`), edit: func(s *rollout.Snapshot) { s.State.Pools = nil }, wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "outside brackets, too", rules: retried, before: limit("P", `"limit":1`), after: limit("Q", `"limit":1`), wait: "slot_full", then: "r2/a@v2", reason: "slot_free"},
		{why: "where all state is lost", rules: retried, before: limit("P", `"limit":1`), edit: func(s *rollout.Snapshot) { s.State = rollout.State{} }, wait: "slot_full", then: "r2/a@v2", reason: "slot_free"},
		{why: "between two attempts the lease of the old pool says so", rules: retried, before: limit("P", `"limit":1`), after: limit("Q", `"limit":1`), ended: rollout.JobFailure, wait: "slot_full"},
		{why: "so does one of the zone that the node has left", rules: retried, before: limit("P", `"limit":1,"groupBy":"resource.metadata['zone']"`), fleet: zone("west", 1), edit: zone("west", 0), ended: rollout.JobFailure, wait: "slot_full"},
		{why: "and where others are left in the zone", rules: retried, before: limit("P", `"limit":1,"groupBy":"resource.metadata['zone']"`), fleet: func(s *rollout.Snapshot) {
			zone("west", 1)(s)
			s.Resources = append(s.Resources, rollout.Resource{ID: "r3", Name: "r3", Metadata: s.Resources[0].Metadata})
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r3", Environment: "prod", Deployment: "a"}, Current: "v2"})
		}, edit: zone("west", 0), ended: rollout.JobFailure, wait: "slot_full"},
		{why: "a pool that comes beside the old one does not count who waits between two attempts: its lease may be left over", rules: retried, before: limit("P", `"limit":2`),
			after: limit("P", `"limit":2`) + "," + limit("Q", `"limit":1`), ended: rollout.JobFailure},
		{why: "and counts who is at work", rules: retried, before: limit("P", `"limit":2`), after: limit("P", `"limit":2`) + "," + limit("Q", `"limit":1`), wait: "slot_full", then: "r2/a@v2", reason: "slot_free"},
		{why: "a job that the rule does not govern does not count", rules: retried, before: `{"versionCooldown":{"intervalSeconds":0}}`, after: limit("P", `"limit":1`),
			edit: func(s *rollout.Snapshot) {
				s.Targets[0].Environment, s.Environments = "test", append(s.Environments, rollout.Environment{ID: "test"})
			}},
	} {
		t.Run(row.why, func(t *testing.T) {
			rules := func(limits string) *rollout.PolicySet {
				return compile(t, `{"name":"p","selector":"environment.id == 'prod'","rules":[`+strings.Join([]string{row.rules, limits}, ",")+`]}`)
			}
			versions := map[string][]string{"a": {"v1", "v2"}}
			if row.rules == bracketed {
				versions["b"] = []string{"v1", "v2"}
			}
			s := fleet(2, "v1", versions)
			if row.fleet != nil {
				row.fleet(&s)
			}
			plan := mustPlan(t, rules(row.before), s, t0)
			plan.Start = slices.DeleteFunc(plan.Start, func(s rollout.Start) bool { return s.Resource != "r1" }) // the host is slow with the others
			carryOut(t, &s, plan, t0, rollout.JobInProgress)
			end := func(status rollout.JobStatus, at int) {
				for k := range s.Targets {
					for j := range s.Targets[k].Jobs {
						if job := &s.Targets[k].Jobs[j]; status != "" {
							job.Status, job.CompletedAt = status, minute(at)
						}
					}
				}
			}
			end(row.ended, 1)
			if row.edit != nil {
				row.edit(&s)
			}
			if row.after == "" {
				row.after = row.before
			}
			plan = mustPlan(t, rules(row.after), s, minute(2))
			waits := map[rollout.Reason]bool{}
			for wait := range plan.Waiting.All() {
				for _, b := range wait.Blockers {
					waits[b.Reason] = waits[b.Reason] || wait.Resource == "r2"
				}
			}
			if row.wait == "" && len(plan.Start) != 1 || row.wait != "" && (len(plan.Start) > 0 || !waits[rollout.Reason(row.wait)]) {
				t.Fatalf("starts %q, waits %q", started(plan), blockers(plan))
			}
			if row.then == "" {
				return
			}
			end(rollout.JobSuccessful, 3)
			s.State = plan.State
			if plan = mustPlan(t, rules(row.after), s, minute(3)); !slices.Equal(started(plan), []string{row.then}) || plan.Start[0].Reason != row.reason {
				t.Errorf("then starts %q, waits %q", started(plan), blockers(plan))
			}
		})
	}
}

// TestIncumbentsAreNotTheHosts: who is at work without a lease is counted beside the jobs that the
// host lists as Active, and not written into the room behind them.
func TestIncumbentsAreNotTheHosts(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	late := rollout.Start{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}, Run: "r1/prod/a/v2/1", Version: "v2"}
	add(&s, late, job(late, t0, rollout.JobInProgress))
	listed := append(make([]concurrency.Holder, 0, 4), concurrency.Holder{Resource: "r2", Group: "by hand"})
	s.Active = map[string][]concurrency.Holder{"P": listed}
	plan := mustPlan(t, compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`)), s, minute(1))
	if active := plan.Pools[0].Active; active != 2 || slices.ContainsFunc(listed[1:4], func(h concurrency.Holder) bool { return h != concurrency.Holder{} }) {
		t.Errorf("%d active, want 2; the host's list is %q", active, listed[:4])
	}
}

// TestIncumbentsHoldOnePlace: the pool is new, and lists who is at work on r1 and r2: an execution
// whatever its runs, and a target of its own only for a job that is none of these.
func TestIncumbentsHoldOnePlace(t *testing.T) {
	t.Parallel()
	bracketed := func(id, member string) string {
		return `{"name":"` + id + `","selector":"true","rules":[{"id":"` + id + `","deploymentBracket":{"deploymentSelector":"deployment.name == '` + member + `'","readinessMode":"immediate","memberRoles":{}}}]}`
	}
	const pool = `{"name":"P","selector":"true","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":9}}]}`
	byHand := rollout.Job{Run: "by hand", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}
	over := byHand
	over.Status, over.CreatedAt, over.CompletedAt = rollout.JobFailure, minute(-60), minute(-60)
	for _, row := range []struct {
		why      string
		brackets []string // members
		jobs     map[string][]rollout.Job
		want     []string
	}{
		{"two executions on each", []string{"a", "b"}, nil, []string{"r1 Ba/prod/1", "r1 Bb/prod/1", "r2 Ba/prod/1", "r2 Bb/prod/1"}},
		{"a job that is over", []string{"a"}, map[string][]rollout.Job{"r2/a": {over}}, []string{"r1 Ba/prod/1", "r2 Ba/prod/1"}},
		{"somebody is at work on a member by hand", []string{"a"}, map[string][]rollout.Job{"r1/a": {byHand}}, []string{"r1 Ba/prod/1", "r1 target/prod/a", "r2 Ba/prod/1"}},
		{"and on a target outside", []string{"b"}, map[string][]rollout.Job{"r1/a": {byHand}, "r2/a": {byHand}}, []string{"r1 Bb/prod/1", "r1 target/prod/a", "r2 Bb/prod/1", "r2 target/prod/a"}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		var policies []string
		for _, member := range row.brackets {
			policies = append(policies, bracketed("B"+member, member))
		}
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
			return !slices.Contains(row.brackets, t.Deployment) && row.jobs[t.Resource+"/"+t.Deployment] == nil
		})
		plan := mustPlan(t, compile(t, "["+strings.Join(policies, ",")+"]"), s, t0)
		plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return strings.HasPrefix(start.Group, "target/") })
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
		for k := range s.Targets {
			s.Targets[k].Jobs = append(s.Targets[k].Jobs, row.jobs[s.Targets[k].Resource+"/"+s.Targets[k].Deployment]...)
		}
		var got []string
		for _, holder := range mustPlan(t, compile(t, "["+strings.Join(append(policies, pool), ",")+"]"), s, minute(1)).Pools[0].Holders {
			got = append(got, holder.Resource+" "+holder.Group)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestLeasesOfAnotherPool: who has a lease in a pool that no rule has any more counts in the one
// that is there now, if anybody may be at work under it.
func TestLeasesOfAnotherPool(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":9}}`))
	for _, row := range []struct {
		why, resource, group string
		state                concurrency.LeaseState
		want                 int
	}{
		{"a target", "r2", "target/prod/b", concurrency.Active, 1},
		{"an execution that was given up", "r2", "B/prod/1", concurrency.Quarantined, 1},
		{"one that was never saved: nothing of it has been dispatched", "r2", "B/prod/1", concurrency.Active, 0},
		{"a target that is gone", "r2", "target/prod/c", concurrency.Active, 0},
		{"a resource that is gone", "r3", "target/prod/b", concurrency.Active, 0},
		{"one that would come first", "r0", "target/prod/b", concurrency.Active, 0},
		{"an environment that would come first", "r2", "target/dev/b", concurrency.Active, 0},
		{"an environment that is gone", "r2", "target/test/b", concurrency.Active, 0},
		{"nobody that a plan would name", "r2", "target/prod", concurrency.Active, 0},
	} {
		s := fleet(2, "", map[string][]string{"a": nil, "b": nil})
		record := concurrency.NewRecord("P")
		record.Leases = []concurrency.Lease{{Pool: "P", Holder: concurrency.Holder{Resource: row.resource, Group: row.group}, Token: 1, State: row.state, Since: t0, ProgressAt: t0}}
		record.NextToken++
		s.State.Pools = []concurrency.Record{record}
		if pool := mustPlan(t, set, s, minute(1)).Pools[0]; pool.Active != row.want {
			t.Errorf("%s: %+v", row.why, pool)
		}
	}
}

// TestObservedJobs: r1/a holds a slot, and a job is seen on r3/a that holds none. The snapshot is
// older than the records: the job may be over, and its place given to r1. So it takes a place as
// long as it is seen, and r3/b gets one with it only where nobody loses by that.
func TestObservedJobs(t *testing.T) {
	t.Parallel()
	limit := func(id, more string) string {
		return `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"true",` + more + `}}`
	}
	held := concurrency.Holder{Resource: "r3", Group: "by hand"}
	lease := func(h concurrency.Holder) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			record := &s.State.Pools[0]
			record.Leases = append(slices.Clip(record.Leases), concurrency.Lease{Pool: record.Key, Holder: h, Token: record.NextToken, State: concurrency.Active, Since: t0, ProgressAt: t0})
			record.NextToken++
		}
	}
	for _, row := range []struct {
		why    string
		limits string
		only   string // limits that the job on r3/a has nothing to do with
		edit   func(*rollout.Snapshot)
		waits  string // why r3/b does; empty: it starts
		reason rollout.Reason
	}{
		{why: "the place may have been given away", limits: limit("P", `"limit":1`), waits: "slot_full"},
		{why: "there is a place for both", limits: limit("P", `"limit":2`), reason: "slot_already_down"},
		{why: "a pool that is paused has none", limits: limit("P", `"limit":0`), waits: "slot_paused"},
		{why: "nor has one whose keys are all taken", limits: limit("P", `"limit":9,"groupBy":"resource.metadata['zone']","maxActiveKeys":1`), waits: "slot_keys_full"},
		{why: "a key for both", limits: limit("P", `"limit":9,"groupBy":"resource.metadata['zone']","maxActiveKeys":2`), reason: "slot_already_down"},
		{why: "one of two pools is overfull", limits: limit("O", `"limit":2`) + "," + limit("P", `"limit":1`), waits: "slot_full"},
		{why: "another pool is full, too: both are named", limits: limit("P", `"limit":1`), only: limit("Q", `"limit":0`), waits: "slot_full slot_paused"},
		{why: "another pool is full alone", limits: limit("P", `"limit":2`), only: limit("Q", `"limit":0`), waits: "slot_paused"},
		{why: "pools are named by their keys", limits: limit("P", `"limit":1`), only: limit("O", `"limit":0`), waits: "slot_paused slot_full"},
		{why: "the counter has seen it later", limits: limit("P", `"limit":1`), edit: func(s *rollout.Snapshot) { s.Active = map[string][]concurrency.Holder{"P": {held}} }, reason: "slot_already_down"},
		{why: "somebody holds a slot on the resource", limits: limit("P", `"limit":1`), edit: lease(held), reason: "slot_already_down"},
		{why: "it holds one itself", limits: limit("P", `"limit":1`), edit: lease(concurrency.Holder{Resource: "r3", Group: "target/prod/b"}), reason: "slot_held"},
		{why: "it is down whoever works on it", limits: limit("P", `"limit":1`), edit: func(s *rollout.Snapshot) { s.Unavailable = []string{"r3"} }, reason: "slot_already_down"},
		{why: "an operator lets it past", limits: limit("P", `"limit":1`),
			edit: func(s *rollout.Snapshot) {
				s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Resource: "r3", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
			}, reason: "overridden"},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
			for k := range s.Resources {
				s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
			}
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource != "r3" && t.Deployment == "b" })
			policies := policy(row.limits)
			if row.only != "" {
				policies = "[" + named("p", row.limits) + `,{"name":"q","selector":"deployment.name == 'b'","rules":[` + row.only + "]}]"
			}
			first := mustPlan(t, compile(t, strings.ReplaceAll(policies, `"limit":0`, `"limit":1`)), s, t0)
			first.Start = first.Start[:1]
			carryOut(t, &s, first, t0, rollout.JobInProgress)
			late := rollout.Start{TargetID: rollout.TargetID{Resource: "r3", Environment: "prod", Deployment: "a"}, Run: "r3/prod/a/v2/1", Version: "v2"}
			add(&s, late, job(late, t0, rollout.JobInProgress))
			if row.edit != nil {
				row.edit(&s)
			}
			plan := mustPlan(t, compile(t, policies), s, minute(1))
			at := slices.IndexFunc(plan.Start, func(s rollout.Start) bool { return s.Resource == "r3" })
			switch {
			case row.waits == "" && (at < 0 || plan.Start[at].Reason != row.reason):
				t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
			case row.waits != "" && (at >= 0 || !slices.Contains(blockers(plan), "r3/b@v2: "+row.waits)):
				t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
			}
			for _, start := range plan.Start {
				for _, claim := range start.Claims {
					pool := slices.IndexFunc(plan.State.Pools, func(r concurrency.Record) bool { return r.Key == claim.Pool })
					if claim.Token > plan.State.Pools[pool].NextToken+uint64(len(plan.Start))-1 {
						t.Errorf("%s claims token %d: who waits must take none", start.Run, claim.Token)
					}
				}
			}
		})
	}
}

// TestObservedJobsElsewhere: r1/b is refused because of such a job, and would have taken the place
// in another pool that lets r1/d in. As it does not, r2/c gets that place, and r1/d hears of both
// pools.
func TestObservedJobsElsewhere(t *testing.T) {
	set := compile(t, `[{"name":"p","selector":"deployment.name != 'c'","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}]},
		{"name":"q","selector":"deployment.name != 'a'","rules":[{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`)
	for _, row := range []struct {
		without string // a target
		want    []string
	}{
		{"", []string{"r1/b@v2: slot_full", "r1/d@v2: slot_full slot_full", "r2/c@v2"}},
		{"r2/c", []string{"r1/b@v2: slot_full", "r1/d@v2: slot_full"}},
		{"r2/a", []string{"r2/c@v2: slot_full", "r1/b@v2", "r1/d@v2"}},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}})
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
			id := t.Resource + "/" + t.Deployment
			return id == "r1/c" || id == "r2/b" || id == "r2/d" || id == row.without
		})
		for k := range s.Targets {
			if x := &s.Targets[k]; x.Deployment == "a" {
				x.Jobs = []rollout.Job{{Run: "by hand", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
			}
		}
		for k := range s.Versions {
			s.Versions[k].CreatedAt = minute(int(s.Versions[k].Deployment[0]) - 200) // the order in which they are due
		}
		plan := mustPlan(t, set, s, t0)
		if got := append(blockers(plan), started(plan)...); !slices.Equal(got, row.want) {
			t.Errorf("without %q: %q, want %q", row.without, got, row.want)
		}
	}
}

// TestObservedKeys: one zone may be active at once, r1 is at work in east, and a job is seen on r2
// in west that holds nothing: it may be over, and east have become the active zone since. So west
// keeps others out as long as the job is seen, and r3 begins there only if somebody is known to be
// at work.
func TestObservedKeys(t *testing.T) {
	t.Parallel()
	lease := func(deployment string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for k, record := range s.State.Pools {
				if record.Key != "P/west" {
					continue
				}
				var err error
				if s.State.Pools[k], err = record.Claim(concurrency.Claim{Revision: record.Revision, Token: record.NextToken}, concurrency.Holder{Resource: "r2", Group: "target/prod/" + deployment}, t0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	job2 := rollout.Start{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"}, Run: "r2/prod/a/v2/1", Version: "v2"}
	for _, row := range []struct {
		why    string
		keys   int
		edit   func(*rollout.Snapshot)
		reason rollout.Reason // of the start of r3; empty: it waits for a key
	}{
		{why: "the job may be over", keys: 1},
		{why: "both zones may be active", keys: 2, reason: "slot_free"},
		{why: "the counter has seen it later", keys: 1, reason: "slot_free",
			edit: func(s *rollout.Snapshot) {
				s.Active = map[string][]concurrency.Holder{"P/west": {{Resource: "r2", Group: "target/prod/a"}}}
			}},
		{why: "its slot is on record", keys: 1, reason: "slot_free", edit: lease("a")},
		{why: "its slot is on record for another target, which is not at work", keys: 1, edit: lease("c")},
		{why: "a member is down whoever works on it", keys: 1, edit: func(s *rollout.Snapshot) { s.Unavailable = []string{"r2"} }, reason: "slot_free"},
	} {
		set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":9,"groupBy":"resource.metadata['zone']","maxActiveKeys":`+strconv.Itoa(row.keys)+`}}`))
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k, zone := range []string{"east", "west", "west"} {
			s.Resources[k].Metadata = map[string]string{"zone": zone}
		}
		first := mustPlan(t, set, s, t0)
		first.Start = slices.DeleteFunc(first.Start, func(s rollout.Start) bool { return s.Resource != "r1" })
		carryOut(t, &s, first, t0, rollout.JobInProgress)
		add(&s, job2, job(job2, t0, rollout.JobInProgress))
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, set, s, minute(1))
		at := slices.IndexFunc(plan.Start, func(s rollout.Start) bool { return s.Resource == "r3" })
		switch {
		case row.reason != "" && (at < 0 || plan.Start[at].Reason != row.reason):
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		case row.reason == "" && (at >= 0 || !slices.Contains(blockers(plan), "r3/a@v2: slot_keys_full")):
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestUnbegun: somebody claimed in P and never began, for the planner was cut off before it claimed
// in Q, or Q had gone to r3 by then.
func TestUnbegun(t *testing.T) {
	t.Parallel()
	limit := func(id, more string) string {
		return `,{"id":"` + id + `","resourceConcurrency":{"groupSelector":"true",` + more + `}}`
	}
	const single = `{"id":"R","retry":{"maxRetries":1}}`
	const bracketed = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	const zones = `"limit":9,"groupBy":"resource.metadata['zone']","maxActiveKeys":1`
	for _, row := range []struct {
		why    string
		rule   string
		limits string // of P and Q
		claim  int    // so many resources in P
		given  bool   // r3 has a place in Q
		starts []string
		waits  []string
	}{
		{why: "there is a place", rule: single, limits: limit("P", `"limit":2`) + limit("Q", `"limit":2`), claim: 1, given: true, starts: []string{"r1/a@v2", "r1/b@v2"}, waits: []string{"r2/a@v2: slot_full", "r2/b@v2: slot_full"}},
		{why: "there is none", rule: single, limits: limit("P", `"limit":2`) + limit("Q", `"limit":1`), claim: 1, given: true, waits: []string{"r1/a@v2: slot_full", "r1/b@v2: slot_full", "r2/a@v2: slot_full", "r2/b@v2: slot_full"}},
		{why: "none for an execution with two members", rule: bracketed, limits: limit("P", `"limit":2`) + limit("Q", `"limit":1`), claim: 1, given: true, waits: []string{"r1/a@v2: slot_full", "r1/b@v2: slot_full", "r2/a@v2: slot_full", "r2/b@v2: slot_full"}},
		{why: "the one that comes first gets the last place", rule: bracketed, limits: limit("P", `"limit":2`) + limit("Q", `"limit":1`), claim: 2, starts: []string{"r1/a@v2", "r1/b@v2"}, waits: []string{"r2/a@v2: slot_full", "r2/b@v2: slot_full"}},
		{why: "a paused pool has none", rule: bracketed, limits: limit("P", `"limit":2`) + limit("Q", `"limit":0`), claim: 1, waits: []string{"r1/a@v2: slot_paused", "r1/b@v2: slot_paused", "r2/a@v2: slot_paused", "r2/b@v2: slot_paused"}},
		{why: "the only key is taken", rule: bracketed, limits: limit("P", `"limit":2`) + limit("Q", zones), claim: 1, given: true, waits: []string{"r1/a@v2: slot_keys_full", "r1/b@v2: slot_keys_full", "r2/a@v2: slot_keys_full", "r2/b@v2: slot_keys_full"}},
		{why: "one key for two", rule: bracketed, limits: limit("P", `"limit":2`) + limit("Q", zones), claim: 2, starts: []string{"r1/a@v2", "r1/b@v2"}, waits: []string{"r2/a@v2: slot_keys_full", "r2/b@v2: slot_keys_full"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			set := compile(t, policy(row.rule+row.limits))
			s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
			for k := range s.Resources {
				s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
			}
			for k := range s.Targets {
				if s.Targets[k].Resource == "r3" {
					s.Targets[k].Current = "v2" // it takes no part
				}
			}
			whole := compile(t, policy(row.rule+limit("P", `"limit":2`)+limit("Q", `"limit":2`)))
			first := mustPlan(t, whole, s, t0)
			first.Start = slices.DeleteFunc(first.Start, func(s rollout.Start) bool { return s.Resource > "r"+strconv.Itoa(row.claim) })
			cut := mustCommit(t, first, t0)
			s.State = first.State // but for what is cut off
			s.State.Pools = []concurrency.Record{cut.Pools[0]}
			if s.State.Pools[0].Key != "P" || len(s.State.Pools[0].Leases) < row.claim {
				t.Fatalf("claimed %+v", cut.Pools)
			}
			if row.given {
				key := "Q"
				if strings.Contains(row.limits, "groupBy") {
					key = "Q/r3"
				}
				record, err := concurrency.NewRecord(key).Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r3", Group: "by hand"}, t0)
				if err != nil {
					t.Fatal(err)
				}
				s.State.Pools = append(s.State.Pools, record)
			}
			plan := mustPlan(t, set, s, minute(1))
			if got := started(plan); !slices.Equal(got, row.starts) {
				t.Errorf("starts %q, want %q", got, row.starts)
			}
			if got := blockers(plan); !slices.Equal(got, row.waits) {
				t.Errorf("waits %q, want %q", got, row.waits)
			}
		})
	}
}
