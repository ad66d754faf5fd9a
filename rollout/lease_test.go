package rollout_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/rollout"
)

func leases(s rollout.State) (list []string) {
	for _, record := range s.Pools {
		for _, lease := range record.Leases {
			list = append(list, record.Key+" "+lease.Resource+" "+string(lease.State))
		}
	}
	return list
}

func orphans(p rollout.Plan) (list []string) {
	for _, lease := range p.Orphans {
		list = append(list, lease.Resource)
	}
	return list
}

// TestLeases follows the slot of one target: it is given back on proof only.
func TestLeases(t *testing.T) {
	minute := time.Minute
	deleted := func(s *rollout.Snapshot) { // r1 runs v0, which nobody lists, and ran v1 before
		x := &s.Targets[0]
		before := x.Jobs[0]
		before.Run, before.CreatedAt, before.CompletedAt, before.Status = "before", t0.Add(-2*minute), t0.Add(-minute), rollout.JobSuccessful
		x.Jobs[0].Version, x.Current = "v0", "v0"
		x.Jobs = append(x.Jobs, before)
	}
	for _, row := range []struct {
		why    string
		rule   string // of the pool, besides its limit
		retry  string
		status rollout.JobStatus // of the job; empty: there is none
		after  time.Duration     // from the start of the job to the plan
		edit   func(*rollout.Snapshot)
		lease  string // what is held afterwards
		orphan bool
		start  bool
	}{
		{why: "a job in progress holds it", status: rollout.JobInProgress, after: minute, lease: "pool r1 active"},
		{why: "a status that nobody knows holds it", status: "warming-up", after: minute, lease: "pool r1 active"},
		{why: "a success gives it back", status: rollout.JobSuccessful, after: minute},
		{why: "so does a failure that is not repeated", status: rollout.JobFailure, after: minute},
		{why: "one that will be keeps it", retry: `,{"retry":{"maxRetries":1,"backoffSeconds":600}}`, status: rollout.JobFailure, after: minute, lease: "pool r1 active"},
		{why: "and is repeated in it", retry: `,{"retry":{"maxRetries":1,"backoffSeconds":600}}`, status: rollout.JobFailure, after: time.Hour, lease: "pool r1 active", start: true},
		{why: "a start that was never dispatched is offered in it again", after: minute, lease: "pool r1 active", start: true},
		{why: "the version is withdrawn before that: nobody answers for it, and it is listed", after: minute, lease: "pool r1 active", orphan: true,
			edit: func(s *rollout.Snapshot) { s.Versions[0].Status = "withdrawn" }},
		{why: "in the order of the pools", retry: `,{"id":"also","resourceConcurrency":{"groupSelector":"true","limit":1}}`, after: minute, lease: "also r1 active, pool r1 active", orphan: true,
			edit: func(s *rollout.Snapshot) { s.Versions[0].Status = "withdrawn" }},
		{why: "a target that vanished proves nothing", status: rollout.JobInProgress, after: minute, lease: "pool r1 active", orphan: true,
			edit: func(s *rollout.Snapshot) { s.Targets = nil }},
		{why: "nor does a resource that vanished", status: rollout.JobInProgress, after: minute, lease: "pool r1 active", orphan: true,
			edit: func(s *rollout.Snapshot) { s.Targets, s.Resources = nil, s.Resources[1:] }},
		{why: "a success of a version that is deleted meanwhile gives it back, whatever is listed of what ran before", status: rollout.JobSuccessful, after: minute, edit: deleted},
		{why: "a failure of one does not: what is to be repeated is known when it is listed again", status: rollout.JobFailure, after: minute, lease: "pool r1 active", orphan: true, edit: deleted},
		{why: "whatever another one has to repeat", retry: `,{"retry":{"maxRetries":1,"backoffSeconds":600}}`, status: rollout.JobInProgress, after: minute, lease: "pool r1 active", orphan: true,
			edit: func(s *rollout.Snapshot) {
				s.Targets, s.Resources = s.Targets[1:], s.Resources[1:]
				s.Targets[0].Current, s.Targets[0].Jobs = "", []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0}}
			}},
		{why: "nor does a resource that vanished, whatever the one in its place did", status: rollout.JobInProgress, after: minute, lease: "pool r1 active", orphan: true,
			edit: func(s *rollout.Snapshot) {
				s.Targets, s.Resources = s.Targets[1:], s.Resources[1:]
				s.Targets[0].Current, s.Targets[0].Jobs = "", []rollout.Job{{Run: "x", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0, CompletedAt: t0}}
			}},
		{why: "there is nothing to take a failure back to", retry: `,{"retry":{"maxRetries":1,"backoffSeconds":600}},{"rollback":{"onJobStatuses":["failure"]}}`, status: rollout.JobFailure, after: minute},
		{why: "a success that is still being verified keeps it", retry: `,{"rollback":{"onVerificationFailure":true}}`, status: rollout.JobSuccessful, after: minute, lease: "pool r1 active",
			edit: func(s *rollout.Snapshot) { s.Targets[0].Jobs[0].Verification = rollout.VerificationRunning }},
		{why: "a resource that is proved gone gives it back", status: rollout.JobInProgress, after: minute,
			edit: func(s *rollout.Snapshot) { s.DeletedResources = []string{"r1"} }},
		{why: "a job that hangs is listed and holds it", rule: `,"stuckAfterSeconds":60`, status: rollout.JobInProgress, after: minute, lease: "pool r1 active"},
		{why: "or is quarantined, and holds it all the same", rule: `,"stuckAfterSeconds":60,"onStuck":"quarantine"`, status: rollout.JobInProgress, after: minute, lease: "pool r1 quarantined"},
		{why: "not a moment earlier", rule: `,"stuckAfterSeconds":60,"onStuck":"quarantine"`, status: rollout.JobInProgress, after: minute - 1, lease: "pool r1 active"},
	} {
		s := fleet(2, "", map[string][]string{"api": {"v1"}})
		s.Targets[1].Current = "v1"
		set := compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1`+row.rule+`}}`+row.retry))
		plan := mustPlan(t, set, s, t0)
		s.State = mustCommit(t, plan, t0)
		if row.status != "" {
			add(&s, plan.Start[0], job(plan.Start[0], t0, row.status))
		}
		if row.edit != nil {
			row.edit(&s)
		}
		plan = mustPlan(t, set, s, t0.Add(row.after))
		if got := strings.Join(leases(plan.State), ", "); got != row.lease {
			t.Errorf("%s: holds %q, want %q", row.why, got, row.lease)
		}
		if row.rule != "" && row.after < minute && !plan.Next.Equal(t0.Add(minute)) {
			t.Errorf("%s: looks again at %v", row.why, plan.Next)
		}
		ordered := slices.IsSortedFunc(plan.Orphans, func(a, b concurrency.Lease) int { return strings.Compare(a.Pool, b.Pool) })
		if got := len(orphans(plan)) > 0; got != row.orphan || !ordered || len(plan.Start) > 0 != row.start {
			t.Errorf("%s: orphans %q, starts %q", row.why, orphans(plan), started(plan))
		}
		var stuck []rollout.Stuck
		if row.rule != "" && row.after == minute {
			stuck = []rollout.Stuck{{Resource: "r1", Group: "target/prod/api", Pool: "pool", Since: t0.Add(minute)}}
		}
		if !slices.Equal(plan.Stuck, stuck) {
			t.Errorf("%s: stuck %+v", row.why, plan.Stuck)
		}
	}
}

// TestLeasesOfOneResource: each target answers for its own lease, also one that has joined a
// bracket since, which repeats its runs in its own way.
func TestLeasesOfOneResource(t *testing.T) {
	t.Parallel()
	const pool = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},{"retry":{"maxRetries":1,"backoffSeconds":600}}`
	s := fleet(1, "", map[string][]string{"a": {"v1"}, "b": {"v1"}})
	carryOut(t, &s, mustPlan(t, compile(t, policy(pool)), s, t0), t0, rollout.JobInProgress)
	for k, status := range []rollout.JobStatus{rollout.JobSuccessful, rollout.JobFailure} {
		s.Targets[k].Jobs[0].Status, s.Targets[k].Jobs[0].CompletedAt = status, minute(5)
	}
	for _, row := range []struct {
		why, rules string
		at         int
		want       []string
		next       int
	}{
		{"a is done, whatever its clock says, and b ends in a while", "", 1, []string{"target/prod/b"}, 5},
		{"a is done, and b is to be repeated", "", 6, []string{"target/prod/b"}, 15},
		{"b is a bracket's by now", `{"deploymentBracket":{"deploymentSelector":"deployment.name == 'b'","readinessMode":"immediate","memberRoles":{}}},`, 6, nil, 0},
	} {
		plan := mustPlan(t, compile(t, policy(row.rules+pool)), s, minute(row.at))
		var got []string
		for _, lease := range plan.State.Pools[0].Leases {
			got = append(got, lease.Group)
		}
		if !slices.Equal(got, row.want) || row.next > 0 && !plan.Next.Equal(minute(row.next)) || len(plan.Orphans) > 0 {
			t.Errorf("%s: holds %q, orphans %q, looks again at %v", row.why, got, orphans(plan), plan.Next)
		}
	}
}

// TestPoolKeys lists the pools of the resources that are in one, and no error for a label that is
// missing.
func TestPoolKeys(t *testing.T) {
	t.Parallel()
	s := fleet(5, "", map[string][]string{"api": {"v1"}})
	for k, zone := range []string{"west", "east", "west", "north"} { // the fifth has none
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	set := compile(t, policy(`{"id":"z","resourceConcurrency":{"groupSelector":"resource.id == 'r1'","limit":1}},
		{"id":"p","resourceConcurrency":{"groupSelector":"resource.metadata['zone'] != 'north'","limit":1,"groupBy":"resource.metadata['zone']"}}`))
	keys, err := set.PoolKeys(s.Resources)
	if err != nil || !slices.Equal(keys, []string{"p/east", "p/west", "z"}) {
		t.Errorf("%q, %v", keys, err)
	}
	// The first rule fails on the second resource, the second one on the first.
	s.Resources[0].Metadata["n"], s.Resources[1].Metadata["n"], s.Resources[2].Metadata["n"] = "1", "x", "3"
	set = compile(t, policy(`{"id":"z","resourceConcurrency":{"groupSelector":"int(resource.metadata['n']) > 0","limit":1}},
		{"id":"p","resourceConcurrency":{"groupSelector":"resource.id != 'r1' || int(resource.metadata['zone']) > 0","limit":1,"groupBy":"resource.id"}}`))
	keys, err = set.PoolKeys(s.Resources[:3])
	if want := "rollout: p: groupSelector on resource r1: "; err == nil || !strings.HasPrefix(err.Error(), want) || !slices.Equal(keys, []string{"p/r2", "p/r3", "z"}) {
		t.Errorf("%q, %v, want %s", keys, err, want)
	}
}

// TestGroupByOfNoText: JSON cannot store the key of a pool whose value is not UTF-8. With the lease
// lost, or two records under one key, everybody would wait for what one label says.
func TestGroupByOfNoText(t *testing.T) {
	t.Parallel()
	s := fleet(4, "v1", map[string][]string{"api": {"v1", "v2"}})
	for k, zone := range []string{"a\xff", "a\xfe", "a\xff", "a"} {
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	set := compile(t, policy(`{"id":"p","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']"}}`))
	keys, err := set.PoolKeys(s.Resources)
	if want := `rollout: p: groupBy on resource r1: resource.metadata['zone'] is "a\xff", and must be UTF-8: JSON would store another text`; err == nil || err.Error() != want || !slices.Equal(keys, []string{"p/a"}) {
		t.Errorf("%q, %v, want %s", keys, err, want)
	}
	for range 2 {
		plan := mustPlan(t, set, s, t0.Add(time.Hour))
		if got, want := blockers(plan), []string{"r1/api@: selector_error", "r2/api@: selector_error", "r3/api@: selector_error"}; !slices.Equal(got, want) || !slices.Equal(started(plan), []string{"r4/api@v2"}) {
			t.Errorf("starts %q, waits %q, want %q", started(plan), got, want)
		}
		if err := json.Unmarshal([]byte(text(t, mustCommit(t, plan, plan.Now))), &s.State); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeaseOfAnExecution follows the slot of a bracket's group: a has succeeded half a minute ago,
// and b is still to run.
func TestLeaseOfAnExecution(t *testing.T) {
	t.Parallel()
	const (
		rule = `{"id":"g","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
		held = "g/prod/1 active 0s"
	)
	half := t0.Add(30 * time.Second)
	of := func(group string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.State.Pools[0].Leases[0].Group = group }
	}
	// Another host has saved the end of the execution, and stopped before it gave the slot back.
	end := func(status bracket.Status, group string, merged ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			record := *s.State.Executions[0]
			record.Open, record.Last = nil, map[string]*bracket.EndedExecution{"prod": {Group: record.Open.Group, Merged: merged, Status: status, EndedAt: half}}
			s.State.Executions = []*bracket.ExecutionRecord{&record}
			of(group)(s)
		}
	}
	merged := func(into, group string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			record := *s.State.Executions[0]
			open := *record.Open
			open.Merged, open.Generation, record.Open = []string{into}, 2, &open
			s.State.Executions = []*bracket.ExecutionRecord{&record}
			of(group)(s)
		}
	}
	abandoned := func(s *rollout.Snapshot) {
		s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Abandon, Group: "g/prod/1", Resource: "r1", At: half}}
		s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = rollout.JobInProgress, time.Time{}
	}
	for _, row := range []struct {
		why     string
		rule    string // of the pool, besides its limit
		renamed bool   // the pool is another one by now
		edit    func(*rollout.Snapshot)
		want    string
		orphan  bool
	}{
		{why: "progress of no use to anybody is not written down", want: held},
		{why: "nor in a pool that no rule has any more", renamed: true, rule: `,"stuckAfterSeconds":600`, want: held},
		{why: "it is where a lease may be stuck", rule: `,"stuckAfterSeconds":600`, want: "g/prod/1 active 30s"},
		{why: "a job by hand is not the group's", rule: `,"stuckAfterSeconds":600`, want: held, edit: func(s *rollout.Snapshot) { s.Targets[0].Jobs[0].Run = "by hand" }},
		{why: "it is given up while its job is still at work", edit: abandoned, want: "g/prod/1 quarantined 0s", orphan: false},
		{why: "its execution was never saved, and its job says that it runs", want: held, edit: func(s *rollout.Snapshot) { s.State.Executions = nil }},
		{why: "a failure holds it, and nobody has to look after it but for that", rule: `,"stuckAfterSeconds":20`, want: "g/prod/1 active 30s", edit: func(s *rollout.Snapshot) { s.Targets[0].Jobs[0].Status = rollout.JobFailure }},
		{why: "taken for a group that the execution has taken over", edit: merged("g/prod/2", "g/prod/2"), want: "g/prod/2 active 0s"},
		{why: "for one that cannot begin any more, since the execution has taken over a later one", edit: merged("g/prod/3", "g/prod/2")},
		{why: "for a group that has not begun yet, and may be about to", edit: of("g/prod/2"), want: "g/prod/2 active 0s", orphan: true},
		{why: "for one that cannot begin any more, since a later one has", edit: of("g/prod/0")},
		{why: "for one in another environment", edit: of("g/test/0"), want: "g/test/0 active 0s", orphan: true},
		{why: "for one of another rule", edit: of("h/prod/0"), want: "h/prod/0 active 0s", orphan: true},
		{why: "for one that no plan would name", edit: of("g/prod/x"), want: "g/prod/x active 0s", orphan: true},
		{why: "its execution has ended", edit: end(bracket.StatusCompleted, "g/prod/1")},
		{why: "and a later one", edit: end(bracket.StatusCompleted, "g/prod/0")},
		{why: "that of one that it had taken over", edit: end(bracket.StatusCompleted, "g/prod/3", "g/prod/3")},
		{why: "or that came before that", edit: end(bracket.StatusCompleted, "g/prod/2", "g/prod/3")},
		{why: "it was resolved while its job is at work still: who is at work holds it", want: held, edit: func(s *rollout.Snapshot) {
			end(bracket.StatusCompleted, "g/prod/1")(s)
			s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = rollout.JobInProgress, time.Time{}
		}},
		{why: "what was given up is an operator's, whatever has ended there since", want: "g/prod/0 quarantined 0s", orphan: true, edit: func(s *rollout.Snapshot) {
			end(bracket.StatusCompleted, "g/prod/0")(s)
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "abandoned"
		}},
		{why: "a stuck one is taken back by the run that follows", rule: `,"stuckAfterSeconds":600`, want: "g/prod/1 active 40s", edit: func(s *rollout.Snapshot) {
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "stuck"
			s.Targets[1].Jobs = []rollout.Job{{Run: "g%2Fprod%2F1/r1/b/1/1/deploy", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0.Add(40 * time.Second)}}
		}},
		{why: "nobody knows what became of it on a node that is in no list", rule: `,"stuckAfterSeconds":20`, want: "g/prod/1 quarantined 0s", edit: func(s *rollout.Snapshot) {
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "stuck"
			s.Resources, s.Targets = nil, nil
		}},
		{why: "a node in its place has nothing to do with it", rule: `,"stuckAfterSeconds":20`, want: "g/prod/1 quarantined 0s", edit: func(s *rollout.Snapshot) {
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "stuck"
			s.Resources[0].ID, s.Targets[0].Resource, s.Targets[1].Resource = "r2", "r2", "r2"
		}},
		{why: "between its runs nothing is stuck", rule: `,"stuckAfterSeconds":20`, want: "g/prod/1 active 30s"},
		{why: "nothing moves, and it stays quarantined", rule: `,"stuckAfterSeconds":20`, want: "g/prod/1 quarantined 0s", edit: func(s *rollout.Snapshot) {
			s.Targets[0].Jobs[0].Run = "by hand"
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "stuck"
		}},
		{why: "progress takes nothing back that was given up", rule: `,"stuckAfterSeconds":600`, want: "g/prod/1 quarantined 30s", edit: func(s *rollout.Snapshot) {
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "abandoned"
		}},
		{why: "it is resolved in an environment that is gone: a lease that was stuck is given back as well", edit: func(s *rollout.Snapshot) {
			s.Environments, s.Targets = nil, nil
			s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "g/prod/1", Resource: "r1", At: half}}
			s.State.Pools[0].Leases[0].State, s.State.Pools[0].Leases[0].Reason = concurrency.Quarantined, "stuck"
		}},
		{why: "it was given up", edit: end(bracket.StatusCancelled, "g/prod/1"), want: "g/prod/1 quarantined 30s", orphan: true},
		{why: "a later one was given up", edit: end(bracket.StatusCancelled, "g/prod/0")},
		{why: "one before it was", edit: end(bracket.StatusCancelled, "g/prod/2"), want: "g/prod/2 active 0s", orphan: true},
	} {
		pool := func(id string) *rollout.PolicySet {
			return compile(t, policy(rule+`,{"id":"`+id+`","resourceConcurrency":{"groupSelector":"true","limit":1`+row.rule+`}}`))
		}
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := pool("P")
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.Targets[0].Jobs[0].CompletedAt = half
		if row.edit != nil {
			row.edit(&s)
		}
		if row.renamed {
			set = pool("Q")
		}
		plan := mustPlan(t, set, s, minute(1))
		got := ""
		for _, record := range plan.State.Pools {
			for _, lease := range record.Leases {
				got += lease.Group + " " + string(lease.State) + " " + lease.ProgressAt.Sub(t0).String()
			}
		}
		if got != row.want || len(plan.Orphans) > 0 != row.orphan || len(plan.Stuck) > 0 {
			t.Errorf("%s: holds %q, want %q; orphans %q, stuck %+v", row.why, got, row.want, orphans(plan), plan.Stuck)
		}
	}
}

// TestLeaseOfAnotherStart: a target is repeated under the lease it has. Whoever sees only the job
// before, and by a policy that was edited nothing to repeat, does not give the slot of the running
// one away; its own end does, also at once or at an unknown instant.
func TestLeaseOfAnotherStart(t *testing.T) {
	pool := `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	repeats, once := compile(t, policy(pool+`,{"retry":{"maxRetries":1}}`)), compile(t, policy(pool))
	s := fleet(1, "", map[string][]string{"api": {"v1"}})
	plan := mustPlan(t, repeats, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobFailure)
	first := t0.Add(time.Minute)
	s.Targets[0].Jobs[0].CompletedAt = first
	for _, row := range []struct {
		why    string
		free   bool              // the first start needed no lease
		after  time.Duration     // from the end of the first job to the second start
		status rollout.JobStatus // of the second job; empty: not seen
		took   time.Duration
		held   bool
	}{
		{why: "the second job is not seen", after: time.Minute, held: true},
		{why: "also if it started when the first ended", held: true},
		{why: "and the lease was taken then", free: true, held: true},
		{why: "it is at work", status: rollout.JobInProgress, held: true},
		{why: "it failed", status: rollout.JobFailure, took: time.Second},
		{why: "it failed at once", status: rollout.JobFailure},
		{why: "it failed, and nobody knows when", status: rollout.JobFailure, took: -1},
	} {
		s, now := s, first.Add(row.after)
		s.Targets = slices.Clone(s.Targets)
		if row.free {
			s.State = rollout.State{}
		}
		plan := mustPlan(t, repeats, s, now)
		if len(plan.Start) != 1 {
			t.Fatalf("%s: starts %q", row.why, started(plan))
		}
		s.State = mustCommit(t, plan, now)
		if row.status != "" {
			second := job(plan.Start[0], now, row.status)
			if second.CompletedAt = (time.Time{}); row.took >= 0 && row.status.Terminal() {
				second.CompletedAt = now.Add(row.took)
			}
			s.Targets[0].Jobs = append(slices.Clone(s.Targets[0].Jobs), second)
		}
		plan = mustPlan(t, once, s, now.Add(time.Minute))
		if got := leases(plan.State); len(got) > 0 != row.held || len(plan.Orphans) > 0 != (row.held && row.status == "") {
			t.Errorf("%s: holds %q, orphans %q", row.why, got, orphans(plan))
		}
	}
}

// TestLeasesOfOneInstant: a target is started, ends and is started again in one instant of the
// clocks, which may tell whole seconds. Whoever sees only what was seen before gives nothing away;
// one more job that has ended is the proof, also where the lease was given back in between and
// taken anew.
func TestLeasesOfOneInstant(t *testing.T) {
	t.Parallel()
	pool := `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	repeats, once := compile(t, policy(pool+`,{"retry":{"maxRetries":5}}`)), compile(t, policy(pool))
	for _, row := range []struct {
		why    string
		before int  // jobs of that instant
		older  bool // one that ended at another instant is forgotten in between
		renew  bool
		ended  rollout.JobStatus // of these
		status rollout.JobStatus // of the last one; empty: not seen
		took   time.Duration     // negative: nobody knows
		held   bool
	}{
		{why: "the last start is not seen", before: 1, ended: rollout.JobFailure, held: true},
		{why: "nor after two others", before: 2, ended: rollout.JobFailure, held: true},
		{why: "it is at work", before: 2, ended: rollout.JobFailure, status: rollout.JobInProgress, held: true},
		{why: "it ended at once", before: 1, ended: rollout.JobFailure, status: rollout.JobFailure},
		{why: "as all of them did", before: 3, ended: rollout.JobFailure, status: rollout.JobFailure},
		{why: "an older one, which was no proof, is forgotten", before: 1, older: true, ended: rollout.JobFailure, status: rollout.JobFailure},
		{why: "nobody knows when it ended", before: 2, ended: rollout.JobFailure, status: rollout.JobFailure, took: -1},
		{why: "it ended after a second", before: 2, ended: rollout.JobFailure, status: rollout.JobSuccessful, took: time.Second},
		{why: "a release under a new lease is not seen", before: 1, renew: true, ended: rollout.JobSuccessful, held: true},
		{why: "it is at work, too", before: 1, renew: true, ended: rollout.JobSuccessful, status: rollout.JobInProgress, held: true},
		{why: "it ended at once, too", before: 1, renew: true, ended: rollout.JobSuccessful, status: rollout.JobSuccessful},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1"}})
		if row.older {
			s.Targets[0].Jobs = []rollout.Job{{Run: "older", Version: "v1", Status: rollout.JobCancelled, CreatedAt: minute(-1), CompletedAt: minute(-1)}}
		}
		for range row.before {
			carryOut(t, &s, mustPlan(t, repeats, s, t0), t0, row.ended)
		}
		if row.renew {
			s.State = mustPlan(t, repeats, s, t0).State
			if got := leases(s.State); len(got) > 0 {
				t.Fatalf("%s: holds %q before", row.why, got)
			}
			s.Versions = append(s.Versions, rollout.Version{ID: "v2", Tag: "v2", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0})
		}
		plan := mustPlan(t, repeats, s, t0)
		if row.older {
			s.Targets[0].Jobs = s.Targets[0].Jobs[1:]
		}
		if len(plan.Start) != 1 || len(s.Targets[0].Jobs) != row.before {
			t.Fatalf("%s: starts %q", row.why, started(plan))
		}
		s.State = mustCommit(t, plan, t0)
		if row.status != "" {
			last := job(plan.Start[0], t0, row.status)
			if last.CompletedAt = (time.Time{}); row.took >= 0 && row.status.Terminal() {
				last.CompletedAt = t0.Add(row.took)
			}
			add(&s, plan.Start[0], last)
		}
		if got := leases(mustPlan(t, once, s, minute(1)).State); len(got) > 0 != row.held {
			t.Errorf("%s: holds %q", row.why, got)
		}
	}
}

// TestWaitNamesOrphans: whoever waits for a slot is told of the orphans that have taken such slots,
// and of no others: giving those back would not help.
func TestWaitNamesOrphans(t *testing.T) {
	t.Parallel()
	const (
		pools = `{"id":"A","resourceConcurrency":{"groupSelector":"resource.id <= 'r2'","limit":1}},{"id":"B","resourceConcurrency":{"groupSelector":"resource.id > 'r2'","limit":1}}`
		keys  = `{"id":"Z","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`
	)
	orphan := func(pool, resource, group string) concurrency.Lease {
		return concurrency.Lease{Pool: pool, Holder: concurrency.Holder{Resource: resource, Group: group}, Token: 1, State: concurrency.Active, Since: t0, ProgressAt: t0}
	}
	for _, row := range []struct {
		why, rules string
		orphans    []concurrency.Lease
		want       []string // who waits, and for what
	}{
		{"the pool of r1 has one, and that of r3 a node that is at work", pools, []concurrency.Lease{orphan("A", "r9", "target/prod/api")},
			[]string{"r1: slot A, orphan A", "r2: slot A, orphan A", "r4: slot B"}},
		{"a pool that is paused is opened by its rule alone", strings.Replace(pools, `"limit":1`, `"limit":0`, 1), []concurrency.Lease{orphan("A", "r9", "target/prod/api")},
			[]string{"r1: config A", "r2: config A", "r4: slot B"}},
		{"between those that wait for the same there is one that waits for another pool besides", `{"id":"A","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"B","resourceConcurrency":{"groupSelector":"resource.id == 'r2'","limit":0}}`,
			[]concurrency.Lease{orphan("A", "r9", "target/prod/api")}, []string{"r1: slot A, orphan A", "r2: slot A, orphan A", "r3: slot A, orphan A", "r4: slot A, orphan A"}},
		{"two of one value take one key", keys, []concurrency.Lease{orphan("Z/west", "r8", "target/prod/api"), orphan("Z/west", "r9", "target/prod/api")},
			[]string{"r1: slot Z/west, orphan Z/west", "r2: slot Z/west, orphan Z/west", "r3: slot Z/west, orphan Z/west", "r4: slot Z/west, orphan Z/west"}},
		{"one in a pool that no rule has takes none", keys + `,{"id":"also","resourceConcurrency":{"groupSelector":"true","limit":9}}`, []concurrency.Lease{orphan("gone", "r9", "target/prod/api")}, []string{"r3: slot Z/east", "r4: slot Z/east"}},
		{"nor does it concern anybody where there are no pools", `{"retry":{"maxRetries":0}}`, []concurrency.Lease{orphan("gone", "r9", "target/prod/api")}, nil},
	} {
		s := fleet(4, "", map[string][]string{"api": {"v1"}})
		for k := range s.Resources {
			s.Resources[k].Metadata["zone"] = "east"
		}
		records := map[string]*concurrency.Record{}
		for _, lease := range row.orphans {
			if records[lease.Pool] == nil {
				record := concurrency.NewRecord(lease.Pool)
				records[lease.Pool] = &record
			}
			record := records[lease.Pool]
			lease.Token, record.NextToken = record.NextToken, record.NextToken+1
			record.Leases = append(record.Leases, lease)
		}
		for _, record := range records {
			s.State.Pools = append(s.State.Pools, *record)
		}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, minute(1))
		var got []string
		for wait := range plan.Waiting.All() {
			line := wait.Resource + ":"
			for k, on := range wait.Blockers[0].On {
				line += strings.Repeat(",", min(k, 1)) + " " + string(on.Kind) + " " + on.Pool
			}
			got = append(got, line)
		}
		if !slices.Equal(got, row.want) || len(plan.Orphans) != len(row.orphans) {
			t.Errorf("%s: %q, orphans %+v", row.why, got, plan.Orphans)
		}
	}
}

// TestQuarantineEnds: a holder that makes progress again holds its slot as before, and an allowance
// lets one more in meanwhile.
func TestQuarantineEnds(t *testing.T) {
	s := fleet(2, "", map[string][]string{"api": {"v1"}})
	set := compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":60,"onStuck":"quarantine","quarantineAllowance":1}},{"retry":{"maxRetries":3,"backoffSeconds":60}}`))
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	plan := mustPlan(t, set, s, t0.Add(time.Minute))
	s.State = plan.State
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if got := started(plan); !slices.Equal(got, []string{"r2/api@v1"}) {
		t.Errorf("with the allowance %q start, %q wait", got, blockers(plan))
	}
	last := &s.Targets[0].Jobs[0]
	last.Status, last.CompletedAt = rollout.JobFailure, t0.Add(61*time.Second) // it is there again, and will be tried again
	plan = mustPlan(t, set, s, t0.Add(62*time.Second))
	if got := leases(plan.State); !slices.Equal(got, []string{"pool r1 active"}) || len(plan.Start) != 0 {
		t.Errorf("holds %q, starts %q", got, started(plan))
	}
}

// TestQuarantineKeepsItsReason: a lease that is given up and stuck as well was not quarantined for
// being stuck, so progress does not make it active again.
func TestQuarantineKeepsItsReason(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v1"}})
	set := compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":60,"onStuck":"quarantine"}}`))
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	lease := &s.State.Pools[0].Leases[0]
	lease.State, lease.Reason = concurrency.Quarantined, "abandoned"
	plan := mustPlan(t, set, s, minute(2))
	if own := plan.State.Pools[0].Leases[0]; len(plan.Stuck) != 1 || own.State != concurrency.Quarantined || own.Reason != "abandoned" {
		t.Errorf("stuck %v, the lease is %+v", plan.Stuck, own)
	}
}

// TestQuarantineOutlived: a slot is quarantined because a run hung. The run comes back and ends the
// execution, and the host stops between saving that and the pool: the end of the execution proves
// that nobody is at work, whatever the lease says, and the next plan gives the slot to the next
// node.
func TestQuarantineOutlived(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":60,"onStuck":"quarantine"}}`))
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.State = mustPlan(t, set, s, t0.Add(time.Minute)).State
	if got := leases(s.State); !slices.Equal(got, []string{"pool r1 quarantined"}) {
		t.Fatalf("holds %q", got)
	}
	x := &s.Targets[0]
	x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, t0.Add(2*time.Minute), "v2"
	ended := mustPlan(t, set, s, t0.Add(2*time.Minute)).State
	ended.Pools = s.State.Pools
	s.State = ended
	plan := mustPlan(t, set, s, t0.Add(2*time.Minute))
	if got := started(plan); !slices.Equal(got, []string{"r2/api@v2"}) || len(plan.Orphans) > 0 {
		t.Errorf("starts %q, waits %q, orphans %q", got, blockers(plan), orphans(plan))
	}
}

// TestStuckAndStartedAgain: the job of r1 is stuck, its lease is forgiven, and r2 has its place.
// Then that job ends, and r1 is at work again under its lease: that counts, so r3 waits when r2 is
// done.
func TestStuckAndStartedAgain(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":60,"onStuck":"quarantine","quarantineAllowance":1}},{"id":"R","retry":{"maxRetries":2}}`))
	for _, row := range []struct {
		why   string
		end   func(*rollout.Target)
		lease string // of r1 before the second start
	}{
		{"it has failed", func(x *rollout.Target) { x.Jobs[0].Status, x.Jobs[0].CompletedAt = rollout.JobFailure, minute(3) }, "active"},
		{"it has failed, nobody knows when: an end is progress", func(x *rollout.Target) { x.Jobs[0].Status = rollout.JobFailure }, "active"},
		{"it has vanished, which proves nothing: the start is progress", func(x *rollout.Target) { x.Jobs = nil }, "quarantined"},
	} {
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		carryOut(t, &s, mustPlan(t, set, s, minute(2)), minute(2), rollout.JobInProgress)
		if got := leases(s.State); !slices.Equal(got, []string{"P r1 quarantined", "P r2 active"}) {
			t.Fatalf("holds %q", got)
		}
		s.Targets[0].Jobs = slices.Clone(s.Targets[0].Jobs)
		row.end(&s.Targets[0])
		plan := mustPlan(t, set, s, minute(3))
		if got := leases(plan.State); !slices.Equal(started(plan), []string{"r1/a@v2"}) || got[0] != "P r1 "+row.lease {
			t.Errorf("%s: starts %q, holds %q", row.why, started(plan), got)
			continue
		}
		carryOut(t, &s, plan, minute(3), rollout.JobInProgress)
		x := &s.Targets[1]
		x.Jobs = slices.Clone(x.Jobs)
		x.Jobs[0].Status, x.Jobs[0].CompletedAt = rollout.JobSuccessful, minute(3)
		plan = mustPlan(t, set, s, minute(3))
		if got := leases(plan.State); len(plan.Start) > 0 || !slices.Equal(got, []string{"P r1 active"}) || plan.Pools[0].Active != 1 {
			t.Errorf("%s: then starts %q, holds %q", row.why, started(plan), got)
		}
	}
}

// TestFullOfWhatHolds: who waits for a pool of which every slot is held by what has failed and holds,
// or is stuck, is told of the operator, because no job frees a slot by itself. One holder at work is
// enough to wait for.
func TestFullOfWhatHolds(t *testing.T) {
	const (
		slot    = "a free slot in P"
		command = slot + " or an operator's command for b/prod/1 on r1"
		ends    = slot + " or an operator who ends what is stuck"
	)
	bracketed := func(reaction string) string {
		return `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"` + reaction + `"}},`
	}
	for _, row := range []struct {
		why           string
		rules, limit  string
		first, second rollout.JobStatus // of the jobs on r1 and r2; empty: none, and the slot is not taken
		minute        int
		edit          func(*rollout.Snapshot)
		want          string
	}{
		{"it has failed and holds", bracketed("hold"), `"limit":1`, rollout.JobFailure, "", 1, nil, command},
		{"both hold: the first is named", bracketed("hold"), `"limit":2`, rollout.JobFailure, rollout.JobFailure, 1, nil, command},
		{"another one begins in this plan, and will end", bracketed("hold"), `"limit":2`, rollout.JobFailure, "", 1, nil, slot},
		{"one of them is at work", bracketed("hold"), `"limit":2`, rollout.JobFailure, rollout.JobInProgress, 1, nil, slot},
		{"it is at work", bracketed("hold"), `"limit":1`, rollout.JobInProgress, "", 1, nil, slot},
		{"it goes back by itself", bracketed("rollback_all"), `"limit":1`, rollout.JobFailure, "", 1, nil, slot},
		{"what failed is drained", bracketed("hold"), `"limit":1`, rollout.JobFailure, "", 1, func(s *rollout.Snapshot) { s.Unavailable = []string{"r1"} }, command},
		{"another one is down, and may come up", bracketed("hold"), `"limit":2`, rollout.JobFailure, "", 1, func(s *rollout.Snapshot) { s.Unavailable = []string{"r2"} }, slot},
		{"also where nothing is left to start on it", bracketed("hold"), `"limit":2`, rollout.JobFailure, "", 1, func(s *rollout.Snapshot) { s.Unavailable, s.Targets[1].Current = []string{"r2"}, "v2" }, slot},
		{"a job of the host, which may end", bracketed("hold"), `"limit":2`, rollout.JobFailure, "", 1, func(s *rollout.Snapshot) {
			s.Active = map[string][]concurrency.Holder{"P": {{Resource: "r2", Group: "x"}}}
		}, slot},
		{"not stuck yet", "", `"limit":1,"stuckAfterSeconds":600`, rollout.JobInProgress, "", 9, nil, slot},
		{"stuck", "", `"limit":1,"stuckAfterSeconds":600`, rollout.JobInProgress, "", 10, nil, ends},
		{"stuck and quarantined", "", `"limit":1,"stuckAfterSeconds":600,"onStuck":"quarantine"`, rollout.JobInProgress, "", 10, nil, ends},
		{"one is stuck, and one holds", bracketed("hold"), `"limit":2,"stuckAfterSeconds":600`, rollout.JobFailure, rollout.JobInProgress, 20, nil, command},
		{"one is stuck, and one is an orphan", "", `"limit":2,"stuckAfterSeconds":600`, rollout.JobInProgress, rollout.JobFailure, 20, func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r2" })
		}, slot + " or the release of an orphan in P or an operator who ends what is stuck"},
	} {
		s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}})
		set := compile(t, policy(row.rules+`{"id":"P","resourceConcurrency":{"groupSelector":"true",`+row.limit+`}}`))
		plan := mustPlan(t, set, s, t0)
		status := map[string]rollout.JobStatus{"r1": row.first, "r2": row.second}
		plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return status[start.Resource] == "" })
		s.State = mustCommit(t, plan, t0)
		for _, start := range plan.Start {
			add(&s, start, job(start, t0, status[start.Resource]))
		}
		if row.edit != nil {
			row.edit(&s)
		}
		plan = mustPlan(t, set, s, minute(row.minute))
		var shared *rollout.Condition
		for _, resource := range []string{"r3", "r4"} {
			wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "a"})
			if len(wait.Blockers) != 1 || wait.Blockers[0].String() != "slot_full, waits for "+row.want {
				t.Errorf("%s: %v, want %q", row.why, wait, row.want)
				continue
			}
			v := wait.Blockers[0]
			if operator := slices.Contains(v.Actors(), rollout.ActorOperator); operator != (row.want != slot) || !slices.Contains(v.Actors(), rollout.ActorFleet) {
				t.Errorf("%s: opened by %q", row.why, v.Actors())
			}
			if shared != nil && shared != &v.On[0] {
				t.Errorf("%s: the waits for one pool do not share their events", row.why)
			}
			shared = &v.On[0]
		}
		queue, err := plan.Queue()
		if err != nil || len(queue) == 0 || slices.ContainsFunc(queue, func(q rollout.Queued) bool { return !slices.Equal(q.Pools, []string{"P"}) }) {
			t.Errorf("%s: in the queue are %v (%v)", row.why, queue, err)
		}
	}
}

// TestInUseByWhatHolds: where only so many zones may be in use at once, one node that has failed and
// holds keeps its zone for ever, whoever else is at work there. Who waits is told of the operator if
// that is so in every zone that is in use.
func TestInUseByWhatHolds(t *testing.T) {
	t.Parallel()
	const (
		one     = "an empty P/a"
		two     = one + " or an empty P/b"
		command = " or an operator's command for b/prod/1 on r1"
		ends    = " or an operator who ends what is stuck"
		failed  = rollout.JobFailure
		works   = rollout.JobInProgress
	)
	for _, row := range []struct {
		why     string
		members bool // of a bracket that holds what has failed
		limit   string
		jobs    map[string]rollout.JobStatus // by node: r1 and r2 are in zone a, r3 and r4 in b, r5 in c
		minute  int
		edit    func(*rollout.Snapshot)
		want    string
	}{
		{"it has failed and holds", true, `"maxActiveKeys":1`, map[string]rollout.JobStatus{"r1": failed}, 1, nil, one + command},
		{"another one in its zone is at work", true, `"maxActiveKeys":1`, map[string]rollout.JobStatus{"r1": failed, "r2": works}, 1, nil, one + command},
		{"nobody has failed", true, `"maxActiveKeys":1`, map[string]rollout.JobStatus{"r1": works, "r2": works}, 1, nil, one},
		{"the other zone may be empty soon", true, `"maxActiveKeys":2`, map[string]rollout.JobStatus{"r1": failed, "r3": works}, 1, nil, two},
		{"somebody holds each of two zones: the first is named", true, `"maxActiveKeys":2`, map[string]rollout.JobStatus{"r1": failed, "r2": failed, "r3": failed, "r4": works}, 1, nil, two + command},
		{"one zone is held by what is stuck, and the other by what has failed", true, `"maxActiveKeys":2,"stuckAfterSeconds":600`, map[string]rollout.JobStatus{"r3": works, "r1": failed}, 20, nil, two + command},
		{"it is not stuck yet", false, `"maxActiveKeys":1,"stuckAfterSeconds":600`, map[string]rollout.JobStatus{"r1": works}, 9, nil, one},
		{"it is stuck", false, `"maxActiveKeys":1,"stuckAfterSeconds":600`, map[string]rollout.JobStatus{"r1": works}, 10, nil, one + ends},
		{"it is stuck and quarantined", false, `"maxActiveKeys":1,"stuckAfterSeconds":600,"onStuck":"quarantine"`, map[string]rollout.JobStatus{"r1": works}, 10, nil, one + ends},
		{"more than an allowance covers is quarantined", false, `"maxActiveKeys":1,"stuckAfterSeconds":600,"onStuck":"quarantine","quarantineAllowance":1`, map[string]rollout.JobStatus{"r1": works, "r2": works}, 10, nil, one},
		{"what has failed is not what an allowance covers", true, `"maxActiveKeys":1,"stuckAfterSeconds":600,"onStuck":"quarantine","quarantineAllowance":1`, map[string]rollout.JobStatus{"r1": failed}, 10, nil, one + command},
		{"a node has moved to another zone, and holds that one, too", true, `"maxActiveKeys":1`, map[string]rollout.JobStatus{"r1": failed, "r2": works}, 1, func(s *rollout.Snapshot) {
			s.Resources[0].Metadata = map[string]string{"zone": "b"}
		}, two + command},
		{"only an orphan holds it", false, `"maxActiveKeys":1`, map[string]rollout.JobStatus{"r1": failed}, 1, func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r1" })
		}, one + " or the release of an orphan in P/a"},
		{"one zone is held by an orphan, and the other by what is stuck", false, `"maxActiveKeys":2,"stuckAfterSeconds":600`, map[string]rollout.JobStatus{"r1": failed, "r3": works}, 20, func(s *rollout.Snapshot) {
			s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r1" })
		}, two + " or the release of an orphan in P/a" + ends},
	} {
		rules := ""
		if row.members {
			rules = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`
		}
		s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}})
		for i, zone := range []string{"a", "a", "b", "b", "c"} {
			s.Resources[i].Metadata = map[string]string{"zone": zone}
		}
		set := compile(t, policy(rules+`{"id":"P","resourceConcurrency":{"groupSelector":"true","groupBy":"resource.metadata['zone']","limit":2,`+row.limit+`}}`))
		plan := mustPlan(t, set, s, t0)
		plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return row.jobs[start.Resource] == "" })
		if len(plan.Start) != len(row.jobs) {
			t.Fatalf("%s: starts %q", row.why, started(plan))
		}
		s.State = mustCommit(t, plan, t0)
		for _, start := range plan.Start {
			add(&s, start, job(start, t0, row.jobs[start.Resource]))
		}
		if row.edit != nil {
			row.edit(&s)
		}
		plan = mustPlan(t, set, s, minute(row.minute))
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r5", Environment: "prod", Deployment: "a"})
		if want := "slot_keys_full in P/c, waits for " + row.want; len(wait.Blockers) != 1 || wait.Blockers[0].String() != want {
			t.Errorf("%s: %v, want %q", row.why, wait, want)
		}
	}
}

// TestFullOfWhatIsStillAtWork: an execution that has failed frees its slot by itself while a member
// is at work or goes back, and holds it for ever while the others wait for what has failed.
func TestFullOfWhatIsStillAtWork(t *testing.T) {
	const slot, command = "slot_full, waits for a free slot in P", " or an operator's command for b/prod/1 on r1"
	for _, row := range []struct {
		why, reaction, rules string
		b                    rollout.JobStatus // of the job of b on r1, which that of a fails beside; empty: there is none
		want                 string
	}{
		{"the other member is at work", "hold", "", rollout.JobInProgress, slot},
		{"the other member is done", "hold", "", rollout.JobSuccessful, slot + command},
		{"the other member waits for what has failed", "hold", `,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`, "", slot + command},
		{"the other member goes back", "rollback_all", "", rollout.JobSuccessful, slot},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"`+row.reaction+`"}},
			{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`+row.rules))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		s.State = mustCommit(t, plan, t0)
		for _, start := range plan.Start {
			status := rollout.JobFailure
			if start.Deployment == "b" {
				status = row.b
			}
			add(&s, start, job(start, t0, status))
		}
		for m := 1; m <= 2; m++ { // in the second the run back is in progress
			plan = mustPlan(t, set, s, minute(m))
			wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"})
			if len(wait.Blockers) != 1 || wait.Blockers[0].String() != row.want {
				t.Errorf("%s, round %d: %v, want %q\n%v", row.why, m, wait, row.want, plan)
			}
			carryOut(t, &s, plan, minute(m), rollout.JobInProgress)
		}
	}
}

// TestAbandonedLease: an operator gives an execution up; its slot is quarantined and still counts,
// and a record of a pool that no rule has any more is kept with it.
func TestAbandonedLease(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	rules := func(pool string) string {
		return `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"` + pool + `","resourceConcurrency":{"groupSelector":"true","limit":1}}`
	}
	set := compile(t, policy(rules("pool")))
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobFailure)
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Abandon, Group: plan.Start[0].Group, Resource: plan.Start[0].Resource, At: t0.Add(time.Minute)}}
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if got := leases(plan.State); len(got) != 1 || !strings.HasSuffix(got[0], "quarantined") || len(plan.Start) != 0 {
		t.Errorf("holds %q, starts %q", got, started(plan))
	}
	saved := s // nothing happens after that, so nobody would look again: the plan that ends the execution says itself that the lease is an orphan
	saved.State = plan.State
	if again := mustPlan(t, set, saved, t0.Add(time.Minute)); len(plan.Orphans) != 1 || !slices.Equal(plan.Orphans, again.Orphans) {
		t.Errorf("orphans %+v, and once that is saved %+v", plan.Orphans, again.Orphans)
	}
	stopped := s // between saving the end of the execution and the pool
	stopped.State = plan.State
	stopped.State.Pools = s.State.Pools
	if got := leases(mustPlan(t, set, stopped, t0.Add(2*time.Minute)).State); len(got) != 1 || !strings.HasSuffix(got[0], "quarantined") {
		t.Errorf("after a stop before the pool was saved: holds %q", got)
	}
	s.State = plan.State
	plan = mustPlan(t, compile(t, policy(rules("other"))), s, t0.Add(2*time.Minute))
	if got := leases(plan.State); len(got) != 1 || len(plan.Start) != 0 || len(orphans(plan)) != 1 {
		t.Errorf("under another pool nobody has repaired the node: holds %q, starts %q, orphans %q", got, started(plan), orphans(plan))
	}
	released, err := plan.State.Pools[1].Release(plan.Orphans[0].Holder, plan.Orphans[0].Token)
	if err != nil {
		t.Fatal(err)
	}
	s.State = plan.State
	s.State.Pools = []concurrency.Record{released}
	if plan = mustPlan(t, compile(t, policy(rules("other"))), s, t0.Add(2*time.Minute)); len(plan.Start) != 1 || len(plan.Orphans) != 0 {
		t.Errorf("once the host has released the lease: starts %q, orphans %q", started(plan), orphans(plan))
	}
}

// TestDeletedMembers: a resource that is proved gone and still listed is not a part of which half
// may be down, nor is it down itself.
func TestDeletedMembers(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":"50%"}}`))
	s := fleet(4, "", map[string][]string{"api": {"v1"}})
	s.DeletedResources, s.Unavailable = []string{"r3", "r4"}, []string{"r4"}
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v1"}) || plan.Pools[0].Total != 2 || plan.Pools[0].Max != 1 || len(plan.Pools[0].Unavailable) > 0 {
		t.Errorf("starts %q in %+v", got, plan.Pools)
	}
}

// TestPools counts who may start at once.
func TestPools(t *testing.T) {
	for _, row := range []struct {
		why    string
		rule   string
		down   []string
		active map[string][]concurrency.Holder
		want   int
		reason rollout.Reason // of whoever waits
	}{
		{"a count", `"limit":2`, nil, nil, 2, "slot_full"},
		{"a percentage is rounded up", `"limitType":"percentage","limitValue":20`, nil, nil, 2, "slot_full"},
		{"or down", `"limit":"20%","rounding":"floor"`, nil, nil, 1, "slot_full"},
		{"but for one", `"limit":"1%","rounding":"floor_min_1"`, nil, nil, 1, "slot_full"},
		{"rounded down to nobody", `"limit":"1%","rounding":"floor"`, nil, nil, 0, "slot_paused"},
		{"zero is paused, and not unlimited", `"limit":0`, nil, nil, 0, "slot_paused"},
		{"so is 0 %", `"limit":"0%"`, nil, nil, 0, "slot_paused"},
		{"more than there are", `"limit":100`, nil, nil, 6, ""},
		{"one per value", `"limit":1,"groupBy":"resource.metadata['zone']"`, nil, nil, 3, "slot_full"},
		{"one value at a time", `"limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1`, nil, nil, 2, "slot_keys_full"},
		{"who is down takes a place, and may be repaired", `"limit":2`, []string{"r6"}, nil, 2, "slot_full"},
		{"two are down: they alone may start", `"limit":2`, []string{"r5", "r6"}, nil, 2, "slot_full"},
		{"jobs of the host count", `"limit":2`, nil, map[string][]concurrency.Holder{"pool": {{Resource: "elsewhere", Group: "x"}}}, 1, "slot_full"},
	} {
		s := fleet(6, "", map[string][]string{"api": {"v1"}})
		for i := range s.Resources {
			s.Resources[i].Metadata = map[string]string{"zone": "abc"[i%3 : i%3+1]}
		}
		s.Unavailable, s.Active = row.down, row.active
		plan := mustPlan(t, compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true",`+row.rule+`}}`)), s, t0)
		if len(plan.Start) != row.want || len(plan.Start)+plan.Waiting.Len() != 6 {
			t.Errorf("%s: starts %q, waits %q, want %d", row.why, started(plan), blockers(plan), row.want)
		}
		down := 0
		for _, pool := range plan.Pools {
			down += len(pool.Unavailable)
		}
		if down != len(row.down) {
			t.Errorf("%s: %d are down in %+v", row.why, down, plan.Pools)
		}
		found := row.reason == ""
		for w := range plan.Waiting.All() {
			found = found || w.Blockers[0].Reason == row.reason
		}
		if !found {
			t.Errorf("%s: waits %q, want %s", row.why, blockers(plan), row.reason)
		}
	}
}

// TestTargetOf: the holders that plans name are found again, whatever is in the ids, and no others.
func TestTargetOf(t *testing.T) {
	t.Parallel()
	s := fleet(1, "v1", map[string][]string{"a/b%": {"v1", "v2"}})
	plan := mustPlan(t, compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, t0)
	start := plan.Start[0]
	if id, outside := rollout.TargetOf(concurrency.Holder{Resource: start.Resource, Group: start.Group}); !outside || id != start.TargetID {
		t.Errorf("%+v, %t, want %+v", id, outside, start.TargetID)
	}
	for _, group := range []string{"", "target", "target/prod", "target/prod/a/b", "target/prod/%zz", "B/prod/1"} {
		if id, outside := rollout.TargetOf(concurrency.Holder{Resource: "r1", Group: group}); outside || id != (rollout.TargetID{}) {
			t.Errorf("%s: %+v, %t", group, id, outside)
		}
	}
}

// TestQuarantineOfADeletedResource: a slot whose holder was given up is kept, because nobody knows
// how the resource is, until it is proved gone.
func TestQuarantineOfADeletedResource(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	s.State = mustPlan(t, set, s, minute(1)).State
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Abandon, Group: "B/prod/1", Resource: "r1", At: minute(2)}}
	plan := mustPlan(t, set, s, minute(2))
	if lease := plan.State.Pools[0].Leases; len(lease) != 1 || lease[0].State != concurrency.Quarantined || lease[0].Reason != "abandoned" {
		t.Fatalf("leases %+v", lease)
	}
	s.State, s.DeletedResources = plan.State, []string{"r1"}
	if got := started(mustPlan(t, set, s, minute(3))); !slices.Equal(got, []string{"r2/a@v2"}) {
		t.Errorf("starts %q", got)
	}
}

// TestBackingOffIsNotStuck: a target that waits for its next attempt has no job at work, so its
// lease is not stuck, however long it waits; in a bracket another member may be at work under the
// lease. LintStuckBeforeRetry is about the second case.
func TestBackingOffIsNotStuck(t *testing.T) {
	const rules = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":300,"onStuck":"quarantine"}},{"retry":{"maxRetries":2,"backoffSeconds":6000}}`
	for _, row := range []struct {
		why, rules  string
		deployments map[string][]string
		stuck       int
	}{
		{"outside brackets", rules, map[string][]string{"a": {"v1", "v2"}}, 0},
		{"in a bracket whose other member is at work", rules + `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}, 1},
		{"in a bracket of one", rules + `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, map[string][]string{"a": {"v1", "v2"}}, 0},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(1, "v1", row.deployments)
		plan := mustPlan(t, set, s, t0)
		for _, start := range plan.Start {
			status, ended := rollout.JobInProgress, time.Time{}
			if start.Deployment == "a" {
				status, ended = rollout.JobFailure, minute(1)
			}
			one := job(start, t0, status)
			one.CompletedAt = ended
			add(&s, start, one)
		}
		s.State = mustCommit(t, plan, t0)
		plan = mustPlan(t, set, s, minute(2))
		s.State = mustCommit(t, plan, minute(2))
		if plan = mustPlan(t, set, s, minute(20)); len(plan.Stuck) != row.stuck {
			t.Errorf("%s: stuck %+v, starts %q, waits %q", row.why, plan.Stuck, started(plan), blockers(plan))
		}
	}
}

// TestEveryLeaseHasAHolder: whatever was committed and begun, by whatever clocks, and whatever
// policies and labels have become meanwhile, the slot of a start is not given back before the end
// of its job is seen; and of every slot somebody can say who will give it back: its holder starts,
// waits, is at work or is being verified, or the plan lists the slot as an orphan, also to those
// who wait for it.
func TestEveryLeaseHasAHolder(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	holder := func(s rollout.Snapshot, plan rollout.Plan, lease concurrency.Lease) string {
		active := func(x rollout.Target, prefix string) bool {
			return slices.ContainsFunc(x.Jobs, func(j rollout.Job) bool {
				judged := slices.Contains([]rollout.Verification{"", rollout.VerificationPassed, rollout.VerificationFailed}, j.Verification)
				return strings.HasPrefix(j.Run, prefix) && (!j.Status.Terminal() || prefix == "" && !judged)
			})
		}
		id, outside := rollout.TargetOf(lease.Holder)
		_, waits := plan.Waiting.Of(id)
		switch {
		case slices.ContainsFunc(plan.Start, func(x rollout.Start) bool { return x.Resource == lease.Resource && x.Group == lease.Group }):
			return "starts"
		case slices.Contains(plan.Orphans, lease):
			return "is gone"
		case outside && waits:
			return "waits"
		case outside && slices.ContainsFunc(s.Targets, func(x rollout.Target) bool { return x.TargetID == id && active(x, "") }):
			return "is at work"
		case !outside && slices.ContainsFunc(plan.State.Executions, func(x *bracket.ExecutionRecord) bool {
			return x.Resource == lease.Resource && x.Open != nil && (x.Open.Group == lease.Group || slices.Contains(x.Open.Merged, lease.Group))
		}):
			return "is open"
		case !outside && slices.ContainsFunc(s.Targets, func(x rollout.Target) bool {
			return x.Resource == lease.Resource && active(x, textkey.Join(lease.Group)+"/")
		}):
			return "runs"
		}
		return ""
	}
	seconds := func(t *rapid.T, label string, from int) time.Duration {
		return time.Duration(between(t, label, from, 600)) * time.Second
	}
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		some := subset(t, w.plan.Start)
		s, set := cloneFleet(w.s), w.set
		var err error
		if s.State, err = w.plan.Commit(some, w.now.Add(seconds(t, "committed", 0))); err != nil {
			t.Fatal(err)
		}
		if chance(t, "relabelled", 30) {
			for k := range s.Resources {
				s.Resources[k].Metadata = map[string]string{"zone": oneOf(t, "zone", "a", "b"), "n": oneOf(t, "n", "1", "2", "x")}
			}
		}
		if chance(t, "policies gone", 30) {
			if set, err = rollout.Compile(w.policies[:uniform(t, "left", len(w.policies)+1)], env, w.options...); err != nil {
				return // it has a rule of the host for what is gone
			}
		}
		if chance(t, "begun", 70) {
			for _, start := range some {
				add(&s, start, job(start, w.now.Add(seconds(t, "created", -600)), rollout.JobInProgress))
			}
		}
		plan, planned := planIfAny(t, set, s, w.now.Add(seconds(t, "planned", -600)))
		if !planned {
			return
		}
		for _, start := range some {
			for _, claim := range start.Claims {
				k := slices.IndexFunc(plan.State.Pools, func(r concurrency.Record) bool { return r.Key == claim.Pool })
				if !slices.Contains(s.DeletedResources, start.Resource) && (k < 0 || start.Held(plan.State.Pools[k]) != nil) {
					t.Fatalf("the slot of %v in %s is gone\n%v\n%v", start, claim.Pool, plan, w)
				}
			}
		}
		for _, record := range plan.State.Pools {
			for _, lease := range record.Leases {
				does := holder(s, plan, lease)
				if does == "" {
					t.Fatalf("nobody has the slot %v\n%v\n%v", lease, plan, w)
				}
				seen["the holder "+does]++
			}
		}
		for _, wait := range waitingOf(plan) {
			for _, v := range wait.Blockers {
				if v.Reason != "slot_full" {
					continue
				}
				orphan := slices.ContainsFunc(plan.Orphans, func(l concurrency.Lease) bool { return l.Pool == v.On[0].Pool })
				if named := slices.ContainsFunc(v.On, func(c rollout.Condition) bool { return c.Kind == rollout.OnOrphan }); named != orphan {
					t.Fatalf("%v waits for %v, orphans are %v\n%v", wait.TargetID, v, plan.Orphans, w)
				}
			}
		}
	}, "the holder starts", "the holder is gone", "the holder waits", "the holder is at work", "the holder is open")
}

// TestNewerVersionInPlaceOfACancelledJob: a job is queued, and a newer version waits for it alone.
// Once the host has called the job off, the newer version starts in its slot.
func TestNewerVersionInPlaceOfACancelledJob(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},{"retry":{"maxRetries":3}},{"failureBudget":{"maxFailures":0}}`))
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobQueued)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(1)})
	plan = mustPlan(t, set, s, minute(2))
	if got := blockers(plan); !slices.Equal(got, []string{"r1/api@v3: target_busy", "r2/api@v3: slot_full"}) {
		t.Errorf("while it is queued, waits %q", got)
	}
	s.State = plan.State
	s.Targets[0].Jobs[0].Status = rollout.JobCancelled
	plan = mustPlan(t, set, s, minute(3))
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v3"}) || plan.Start[0].Reason != rollout.Reason(concurrency.SlotHeld) {
		t.Errorf("once it is cancelled, %+v starts", plan.Start)
	}
}
