package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestHalted: v2 of a and b is to come to four nodes, of which more are down than the pool lets be
// so. Nothing begins there but what an override lets past, and what has begun goes on.
func TestHalted(t *testing.T) {
	t.Parallel()
	const (
		limited = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":3,"haltAboveUnavailable":1}}`
		zones   = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":3,"haltAboveUnavailable":"50%","groupBy":"resource.metadata['zone']"}}`
		bracket = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"order","deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`
	)
	down := func(ids ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Unavailable = ids }
	}
	past := func(ids ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for _, id := range ids {
				s.Overrides = append(s.Overrides, override("P", only(id), of("a"), func(o *rollout.Override) { o.ID = id }))
			}
		}
	}
	lease := func(resource, reason string) func(*rollout.Snapshot) { // of a, which was never dispatched
		return func(s *rollout.Snapshot) {
			record := concurrency.NewRecord("P")
			record.NextToken, record.Leases = 2, []concurrency.Lease{{Pool: "P", Holder: concurrency.Holder{Resource: resource, Group: "target/prod/a"}, Token: 1, State: concurrency.Active, Since: t0, ProgressAt: t0, Reason: reason}}
			s.State.Pools = []concurrency.Record{record}
		}
	}
	working := func(s *rollout.Snapshot) { // b on r1, and nobody knows of a slot of it
		s.Targets[1].Jobs = []rollout.Job{{Run: "by hand", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
	}
	counted := func(s *rollout.Snapshot) {
		s.Active = map[string][]concurrency.Holder{"P": {{Resource: "r1", Group: "by hand"}}}
	}
	for _, row := range []struct {
		why    string
		rules  string
		edits  []func(*rollout.Snapshot)
		starts string
		waits  string // of a
	}{
		{"one may be down, and is repaired", limited, []func(*rollout.Snapshot){down("r1")},
			"r1/a r1/b r2/a r2/b r3/a r3/b", "r4 slot_full"},
		{"of two it may be the view that is broken: nobody begins, neither where something is down nor elsewhere", limited, []func(*rollout.Snapshot){down("r1", "r2")},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"who is listed twice, or is no resource, does not halt it", limited, []func(*rollout.Snapshot){down("r1", "r1", "r9")},
			"r1/a r1/b r2/a r2/b r3/a r3/b", "r4 slot_full"},
		{"what is at work goes on, and what else is to come there disrupts nothing more", limited, []func(*rollout.Snapshot){down("r1", "r2"), counted},
			"r1/a r1/b", "r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"a job that may be over lets nobody in", limited, []func(*rollout.Snapshot){down("r1", "r2"), working},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"also where it is not known to be down otherwise", limited, []func(*rollout.Snapshot){down("r2", "r3"), working},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"a slot that is held is one", limited, []func(*rollout.Snapshot){down("r1", "r2"), lease("r1", "")},
			"r1/a r1/b", "r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"but not one that an override gave, and which nobody has used", limited, []func(*rollout.Snapshot){down("r1", "r2"), lease("r1", "overridden")},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"also where the node is up", limited, []func(*rollout.Snapshot){down("r1", "r2"), lease("r3", "overridden")},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"an override lets past, to what is down as well as to what is up, and nobody else with it", limited, []func(*rollout.Snapshot){down("r1", "r2"), past("r1", "r3")},
			"r1/a r3/a", "r2 slot_halted, r4 slot_halted"},
		{"only one zone is dark", zones, []func(*rollout.Snapshot){down("r1", "r2")},
			"r3/a r3/b r4/a r4/b", "r1 slot_halted, r2 slot_halted"},
		{"half of a zone is not more than half of it", zones, []func(*rollout.Snapshot){down("r1", "r4")},
			"r1/a r1/b r4/a r4/b r2/a r2/b r3/a r3/b", ""},
		{"no execution of a bracket begins", bracket + "," + limited, []func(*rollout.Snapshot){down("r1", "r2")},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted"},
		{"another pool that refuses is named as well", limited + `,{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name == 'r4'","limit":0}}`, []func(*rollout.Snapshot){down("r1", "r2")},
			"", "r1 slot_halted, r2 slot_halted, r3 slot_halted, r4 slot_halted slot_paused"},
	} {
		s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		for k, zone := range []string{"east", "east", "west", "west"} {
			s.Resources[k].Metadata = map[string]string{"zone": zone}
		}
		for _, edit := range row.edits {
			edit(&s)
		}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, t0)
		got := strings.ReplaceAll(strings.Join(started(plan), " "), "@v2", "")
		var waits []string
		for _, line := range blockers(plan) {
			if resource, reasons, is := strings.Cut(line, "/a@v2: "); is {
				waits = append(waits, resource+" "+reasons)
			}
		}
		for _, pool := range mustCommit(t, plan, t0).Pools { // under a lease that an override gave nobody else may come in
			for _, l := range pool.Leases {
				start := slices.IndexFunc(plan.Start, func(s rollout.Start) bool { return s.Resource == l.Resource && s.Group == l.Group })
				if forced := start >= 0 && plan.Start[start].Reason == rollout.ReasonOverridden; forced && l.Reason != "overridden" {
					t.Errorf("%s: %+v is not marked", row.why, l)
				}
			}
		}
		if got != row.starts || strings.Join(waits, ", ") != row.waits {
			t.Errorf("%s:\n\tstarts %q, want %q\n\twaits %q, want %q", row.why, got, row.starts, strings.Join(waits, ", "), row.waits)
		}
	}
}

// TestHaltedInMidExecution: a bracket that has begun ends, whatever is down meanwhile, and the
// forced start of a pool that is halted leaves no way in for others.
func TestHaltedInMidExecution(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"haltAboveUnavailable":0}},{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"order","deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	if len(plan.Start) != 1 {
		t.Fatalf("starts %q", started(plan))
	}
	first := plan.Start[0].Resource
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	s.Unavailable = []string{first} // it is drained
	plan = mustPlan(t, set, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{first + "/b@v2"}) || !plan.Pools[0].Halted {
		t.Fatalf("starts %q, %v", got, plan.Pools)
	}
	if got, want := plan.Pools[0].String(), "P: 1 of 1 active, halted, 1 down: "+first+"; 1 in the queue"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	carryOut(t, &s, plan, minute(1), rollout.JobSuccessful)
	plan = mustPlan(t, set, s, minute(2))
	waiting := slices.Collect(plan.Waiting.All())
	if len(plan.Start) > 0 || len(waiting) != 2 || len(waiting[0].Blockers) == 0 {
		t.Fatalf("%v", plan)
	}
	v := waiting[0].Blockers[0]
	if got, want := v.String(), "slot_halted (1 down, 0 may be), waits for members of P that come up"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if actors := v.Actors(); !slices.Equal(actors, []rollout.Actor{rollout.ActorFleet}) {
		t.Errorf("%v", actors)
	}
	s.Unavailable = nil
	if got := started(mustPlan(t, set, s, minute(3))); len(got) != 1 {
		t.Errorf("it is up again: starts %q", got)
	}
}
