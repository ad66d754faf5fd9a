package rollout_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestExclusive: v2 of a, b, c and d is to come to two nodes, on each of which only one group may be
// at work at a time.
func TestExclusive(t *testing.T) {
	t.Parallel()
	const (
		limited = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true}}`
		single  = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"exclusive":true}}`
		first   = `{"id":"A","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","memberRoles":{}}}`
		second  = `]},{"name":"q","selector":"true","rules":[{"id":"C","deploymentBracket":{"deploymentSelector":"deployment.name in ['c', 'd']","readinessMode":"immediate","memberRoles":{}}}`
	)
	busy := func(status rollout.JobStatus) func(*rollout.Snapshot) { // b on r1, of which no slot is known
		return func(s *rollout.Snapshot) {
			for k := range s.Targets {
				if t := &s.Targets[k]; t.Resource == "r1" && t.Deployment == "b" {
					t.Jobs = []rollout.Job{{Run: "by hand", Version: "v2", Status: status, CreatedAt: t0}}
				}
			}
		}
	}
	past := func(deployments ...string) func(*rollout.Snapshot) { // on r1
		return func(s *rollout.Snapshot) {
			for _, name := range deployments {
				s.Overrides = append(s.Overrides, override("P", only("r1"), of(name), func(o *rollout.Override) { o.ID = name }))
			}
		}
	}
	counted := func(resource string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Active = map[string][]concurrency.Holder{"P": {{Resource: resource, Group: "by hand"}}}
		}
	}
	down := func(s *rollout.Snapshot) { s.Unavailable = []string{"r1"} }
	for _, row := range []struct {
		why    string
		rules  string
		edits  []func(*rollout.Snapshot)
		starts string
		waits  string // on r1
	}{
		{"outside brackets one target after the other", limited, nil,
			"r1/a r2/a", "b slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"a bracket is one group", first + "," + limited, nil,
			"r1/a r1/b r2/a r2/b", "c slot_exclusive, d slot_exclusive"},
		{"two brackets do not meet", first + "," + limited + second, nil,
			"r1/a r1/b r2/a r2/b", "c slot_exclusive, d slot_exclusive"},
		{"a job of which no slot is known is at work", limited, []func(*rollout.Snapshot){busy(rollout.JobInProgress)},
			"r2/a", "a slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"and one that has ended is not", limited, []func(*rollout.Snapshot){busy(rollout.JobFailure)},
			"r1/a r2/a", "b retry_exhausted, c slot_exclusive, d slot_exclusive"},
		{"whoever the host counts is at work", limited, []func(*rollout.Snapshot){counted("r1")},
			"r2/a", "a slot_exclusive, b slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"what is down is repaired by one at a time, and takes no slot", single, []func(*rollout.Snapshot){down},
			"r1/a", "b slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"where there is no place the others are not told of one another", single, []func(*rollout.Snapshot){counted("r2")},
			"", "a slot_full, b slot_full, c slot_full, d slot_full"},
		{"an override lets past the limit", single, []func(*rollout.Snapshot){counted("r2"), past("b")},
			"r1/b", "a slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"two let one past", single, []func(*rollout.Snapshot){counted("r2"), past("b", "c")},
			"r1/b", "a slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"but none lets past who is at work there", single, []func(*rollout.Snapshot){counted("r1"), past("b")},
			"", "a slot_exclusive, b slot_exclusive, c slot_exclusive, d slot_exclusive"},
		{"another pool that has no place is named as well, whatever an override says", single + `,{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":0}}`, []func(*rollout.Snapshot){counted("r1"), past("b")},
			"", "a slot_exclusive slot_paused, b slot_exclusive slot_paused, c slot_exclusive slot_paused, d slot_exclusive slot_paused"},
		{"an override of the other pool does not help", single + `,{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name == 'r1'","limit":0}}`, []func(*rollout.Snapshot){counted("r1"), func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{override("Q", of("b"))}
		}}, "", "a slot_exclusive slot_paused, b slot_exclusive, c slot_exclusive slot_paused, d slot_exclusive slot_paused"},
		{"an override and what is down", single, []func(*rollout.Snapshot){down, past("d")},
			"r1/a", "b slot_exclusive, c slot_exclusive, d slot_exclusive"},
	} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}})
		for _, edit := range row.edits {
			edit(&s)
		}
		plan := mustPlan(t, compile(t, "["+policy(row.rules)+"]"), s, minute(1))
		got := strings.ReplaceAll(strings.Join(started(plan), " "), "@v2", "")
		var waits []string
		for _, line := range blockers(plan) {
			if rest, is := strings.CutPrefix(line, "r1/"); is {
				waits = append(waits, strings.Replace(rest, "@v2:", "", 1))
			}
		}
		if got != row.starts || strings.Join(waits, ", ") != row.waits {
			t.Errorf("%s:\n\tstarts %q, want %q\n\twaits %q, want %q", row.why, got, row.starts, strings.Join(waits, ", "), row.waits)
		}
		for w := range plan.Waiting.All() {
			for _, v := range w.Blockers {
				if v.Reason == "slot_exclusive" && (len(v.On) != 1 || v.On[0] != rollout.Condition{Kind: rollout.OnSlot, Pool: "P", Resource: w.Resource}) {
					t.Errorf("%s: %v waits for %v", row.why, w.TargetID, v.On)
				}
			}
		}
		at := map[string]string{}
		for _, l := range mustCommit(t, plan, minute(1)).Pools[0].Leases {
			if group := at[l.Resource]; group != "" && group != l.Group {
				t.Errorf("%s: %s and %s are at work on %s", row.why, group, l.Group, l.Resource)
			}
			at[l.Resource] = l.Group
		}
		for _, p := range plan.Pools { // nobody holds what was only lent
			for _, h := range p.Holders {
				if h.Group != "by hand" && h.Group != "target/prod/b" {
					t.Errorf("%s: %v holds %s", row.why, h, p.Key)
				}
			}
		}
	}
}

// TestExclusiveUntilTheEnd: who waits for the group that is at work on r1 is told how that ends,
// whoever is at work on r2.
func TestExclusiveUntilTheEnd(t *testing.T) {
	t.Parallel()
	set := compile(t, `[`+policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"exclusive":true,"stuckAfterSeconds":600}},{"id":"A","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","memberRoles":{}}}`)+`,{"name":"q","selector":"true","rules":[{"id":"C","deploymentBracket":{"deploymentSelector":"deployment.name == 'c'","readinessMode":"immediate","memberRoles":{}}}]}]`)
	begun := func(status rollout.JobStatus) rollout.Snapshot {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r1/a@v2", "r1/b@v2", "r2/a@v2", "r2/b@v2"}) {
			t.Fatalf("starts %q", got)
		}
		s.State = mustCommit(t, plan, t0)
		for _, start := range plan.Start {
			add(&s, start, job(start, t0, map[string]rollout.JobStatus{"r1": status, "r2": rollout.JobInProgress}[start.Resource]))
		}
		return s
	}
	says := func(plan rollout.Plan) string {
		w, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "c"})
		if len(w.Blockers) != 1 {
			t.Fatalf("%v", plan)
		}
		return w.Blockers[0].String()
	}
	const end = "slot_exclusive, waits for the end of what is at work on r1 in P"
	s := begun(rollout.JobInProgress)
	if got := says(mustPlan(t, set, s, minute(1))); got != end {
		t.Errorf("at work: %q", got)
	}
	if got := says(mustPlan(t, set, s, minute(11))); got != end+" or an operator who ends what is stuck" {
		t.Errorf("stuck: %q", got)
	}
	s = begun(rollout.JobFailure)
	plan := mustPlan(t, set, s, minute(1))
	if got, want := says(plan), end+" or an operator's command for A/prod/1 on r1"; got != want {
		t.Errorf("failed: %q, want %q", got, want)
	}
	group := plan.State.Executions[0].Open.Group
	s.Commands = []bracket.Command{{ID: "1", Kind: bracket.Resolve, Group: group, Resource: "r1"}}
	if got := started(mustPlan(t, set, s, minute(2))); !slices.Equal(got, []string{"r1/c@v2"}) {
		t.Errorf("resolved: starts %q", got)
	}
	s = begun(rollout.JobSuccessful)
	if got := started(mustPlan(t, set, s, minute(2))); !slices.Equal(got, []string{"r1/c@v2"}) {
		t.Errorf("done: starts %q", got)
	}
	s.State.Pools[0].Leases[0].Group = "A/prod/9" // of which nothing is known
	plan = mustPlan(t, set, s, minute(2))
	if got, want := says(plan), end+" or the release of an orphan in P"; got != want || len(plan.Orphans) != 1 {
		t.Errorf("orphan: %q, want %q, %v", got, want, plan.Orphans)
	}
	record := &s.State.Pools[0] // an orphan elsewhere is none of its business
	last := record.Leases[0]
	last.Resource, last.Token = "r9", record.NextToken
	record.Leases = append(record.Leases, last)
	record.NextToken++
	s.Active = map[string][]concurrency.Holder{"P": {{Resource: "r1", Group: "by hand"}}}
	s.State.Pools[0].Leases = s.State.Pools[0].Leases[1:]
	if plan = mustPlan(t, set, s, minute(2)); says(plan) != end || len(plan.Orphans) != 1 {
		t.Errorf("an orphan elsewhere: %q, %v", says(plan), plan.Orphans)
	}
}

// TestExclusiveEach: two pools are exclusive on one node, for different deployments. Each speaks of
// its own group alone.
func TestExclusiveEach(t *testing.T) {
	t.Parallel()
	of := func(name, deployments string) string {
		return `{"name":"` + name + `","selector":"deployment.name in [` + deployments + `]","rules":[{"id":"` + name + `","resourceConcurrency":{"groupSelector":"true","limit":1,"exclusive":true}}]}`
	}
	set := compile(t, "["+of("P", "'a', 'b'")+","+of("Q", "'c', 'd'")+"]")
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}}), t0)
	var waits []string
	for w := range plan.Waiting.All() {
		for _, v := range w.Blockers {
			waits = append(waits, w.Deployment+" "+string(v.Reason)+" "+v.Rule+" "+v.On[0].Pool)
		}
	}
	if want := []string{"b slot_exclusive P P", "d slot_exclusive Q Q"}; !slices.Equal(started(plan), []string{"r1/a@v2", "r1/c@v2"}) || !slices.Equal(waits, want) {
		t.Errorf("starts %q, waits %q, want %q", started(plan), waits, want)
	}
}

// TestExclusiveNamesTheOperatorOnce: three targets of a node wait for what has failed there, and the
// one between the others for a second pool as well. What is said of the node is shared by the others,
// and said once.
func TestExclusiveNamesTheOperatorOnce(t *testing.T) {
	t.Parallel()
	set := compile(t, "["+policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"exclusive":true}},{"id":"A","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}}`)+
		`,{"name":"q","selector":"deployment.name == 'd'","rules":[{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":0}}]}]`)
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}, "e": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	told := map[string]int{}
	for w := range mustPlan(t, set, s, minute(1)).Waiting.All() {
		want := []rollout.Condition{{Kind: rollout.OnSlot, Pool: "P", Resource: "r1"}, {Kind: rollout.OnOperator, Group: "A/prod/1", Resource: "r1"}}
		if told[w.Deployment] = len(w.Blockers); w.Deployment != "a" && !slices.Equal(w.Blockers[0].On, want) {
			t.Errorf("%v waits for %v", w.TargetID, w.Blockers)
		}
	}
	if want := map[string]int{"a": 1, "c": 1, "d": 2, "e": 1}; !maps.Equal(told, want) {
		t.Errorf("%v, want %v", told, want)
	}
}
