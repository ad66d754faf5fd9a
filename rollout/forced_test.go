package rollout_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestForcedLeaseThatNobodyUses: r1 is at work, and v2 of a was let past the limit on r2. Its lease
// is saved, and it has not been dispatched. Under that lease, and on that resource, nobody begins
// above the limit whom no override names.
func TestForcedLeaseThatNobodyUses(t *testing.T) {
	t.Parallel()
	release := func(deployment string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Versions = append(slices.Clip(s.Versions), rollout.Version{ID: "v3", Tag: "v3", Deployment: deployment, Status: rollout.VersionReady, CreatedAt: t0})
		}
	}
	jobOf := func(resource string, status rollout.JobStatus) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			start := rollout.Start{TargetID: rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "a"}, Run: resource + "/prod/a/v2/1", Version: "v2"}
			add(s, start, job(start, minute(1), status))
		}
	}
	ended := func(s *rollout.Snapshot) {
		s.Targets[0].Jobs = slices.Clone(s.Targets[0].Jobs)
		s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = rollout.JobSuccessful, minute(1)
	}
	expired := func(s *rollout.Snapshot) { s.Overrides = nil }
	own := func(s *rollout.Snapshot) {
		s.Overrides = append(s.Overrides, override("P", only("r2"), func(o *rollout.Override) { o.ID, o.Version = "own", "v3" }))
	}
	lease := func(resource, deployment string, token uint64, reason string) func(*rollout.Snapshot) { // instead of the one that there is
		return func(s *rollout.Snapshot) {
			record := &s.State.Pools[0]
			own := concurrency.Lease{Pool: "P", Holder: concurrency.Holder{Resource: resource, Group: "target/prod/" + deployment}, Token: token, State: concurrency.Active, Since: minute(1), ProgressAt: minute(1), Reason: reason}
			record.Leases = append(slices.DeleteFunc(slices.Clone(record.Leases), func(l concurrency.Lease) bool { return l.Holder == own.Holder }), own)
			slices.SortFunc(record.Leases, func(a, b concurrency.Lease) int { return strings.Compare(a.Resource+a.Group, b.Resource+b.Group) })
			record.NextToken = max(record.NextToken, token+1)
		}
	}
	byHand := func(s *rollout.Snapshot) {
		s.Active = map[string][]concurrency.Holder{"P": {{Resource: "r2", Group: "by hand"}}}
	}
	working := func(s *rollout.Snapshot) {
		s.Targets[3].Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
	}
	for _, row := range []struct {
		why    string
		forced []string // resources; empty: r2
		limit  string   // in the end; empty: 1
		rules  string   // more of them in the end
		edits  []func(*rollout.Snapshot)
		starts string // elsewhere than on r1, as waits
		waits  string
	}{
		{why: "the version that was let past goes on", starts: "r2/a@v2 overridden"},
		{why: "a newer one was not", edits: []func(*rollout.Snapshot){release("a")}, waits: "r2/a@v3: slot_full"},
		{why: "it has an override of its own", edits: []func(*rollout.Snapshot){release("a"), own}, starts: "r2/a@v3 overridden"},
		{why: "the override has expired before anything began", edits: []func(*rollout.Snapshot){expired}, waits: "r2/a@v2: slot_full"},
		{why: "there is room by now", edits: []func(*rollout.Snapshot){release("a"), expired, ended}, starts: "r2/a@v3 slot_held"},
		{why: "a pool that is paused has none", limit: "0", edits: []func(*rollout.Snapshot){release("a"), ended}, waits: "r2/a@v3: slot_paused"},
		{why: "it has begun and failed, and is repeated after the override", edits: []func(*rollout.Snapshot){jobOf("r2", rollout.JobFailure), expired}, starts: "r2/a@v2 slot_held"},
		{why: "or replaced: the resource is down already", edits: []func(*rollout.Snapshot){jobOf("r2", rollout.JobFailure), release("a")}, starts: "r2/a@v3 slot_held"},
		{why: "a job that was seen before the start under it says nothing, whatever its clock", edits: []func(*rollout.Snapshot){jobOf("r2", rollout.JobFailure), expired, func(s *rollout.Snapshot) {
			for k := range s.State.Pools[0].Leases {
				s.State.Pools[0].Leases[k].ProgressAt = minute(1).Add(2)
			}
		}}, waits: "r2/a@v2: slot_full"},
		{why: "others on the resource wait until it begins", edits: []func(*rollout.Snapshot){release("b")}, starts: "r2/a@v2 overridden", waits: "r2/b@v3: slot_full"},
		{why: "and no longer", edits: []func(*rollout.Snapshot){release("b"), jobOf("r2", rollout.JobInProgress)}, starts: "r2/b@v3 slot_already_down"},
		{why: "a job that is seen on another target there may be over", edits: []func(*rollout.Snapshot){release("a"), working}, waits: "r2/a@v3: slot_full"},
		{why: "one that the host counts is at work", edits: []func(*rollout.Snapshot){release("a"), byHand}, starts: "r2/a@v3 slot_held"},
		{why: "also beside one that is seen in another pool", rules: `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":5}}`, edits: []func(*rollout.Snapshot){release("a"), working, byHand}, starts: "r2/a@v3 slot_already_down"},
		{why: "whoever else has a lease there was not let past: it is down for them", edits: []func(*rollout.Snapshot){release("a"), lease("r2", "b", 9, "")}, starts: "r2/a@v3 slot_held"},
		{why: "the node is down whoever works on it", edits: []func(*rollout.Snapshot){release("a"), func(s *rollout.Snapshot) { s.Unavailable = []string{"r2"} }}, starts: "r2/a@v3 slot_held"},
		{why: "of two the first has the room that there is", forced: []string{"r2", "r3"}, edits: []func(*rollout.Snapshot){release("a"), expired, ended}, starts: "r2/a@v3 slot_held", waits: "r3/a@v3: slot_full"},
		{why: "also where another one was let past there later", forced: []string{"r2", "r3"}, edits: []func(*rollout.Snapshot){release("a"), expired, ended, lease("r2", "b", 9, "overridden")}, starts: "r2/a@v3 slot_held", waits: "r3/a@v3: slot_full"},
		{why: "or has a lease of that name first", forced: []string{"r2", "r3"}, edits: []func(*rollout.Snapshot){release("a"), expired, ended, lease("r2", "a", 9, "overridden"), lease("r2", "b", 2, "overridden")}, starts: "r2/a@v3 slot_held", waits: "r3/a@v3: slot_full"},
		{why: "what another pool gave beyond its limit makes no room in this one", rules: `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":5}}`, edits: []func(*rollout.Snapshot){release("a"), func(s *rollout.Snapshot) {
			own := s.State.Pools[0].Leases[1]
			own.Pool, own.Resource, own.Token = "Q", "r3", 9
			record := concurrency.NewRecord("Q")
			record.NextToken, record.Leases = 10, []concurrency.Lease{own}
			s.State.Pools = append(s.State.Pools, record)
		}}, waits: "r2/a@v3: slot_full"},
	} {
		pool := func(limit, rules string) *rollout.PolicySet {
			return compile(t, policy(`{"id":"R","retry":{"maxRetries":1}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":`+limit+`}}`+rules))
		}
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
		set := pool("1", "")
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		if row.forced == nil {
			row.forced = []string{"r2"}
		}
		for _, resource := range row.forced {
			s.Overrides = append(s.Overrides, override("P", only(resource), func(o *rollout.Override) { o.ID = resource }))
		}
		plan := mustPlan(t, set, s, minute(1))
		if len(plan.Start) != len(row.forced) {
			t.Fatalf("starts %q, waits %q", started(plan), blockers(plan))
		}
		s.State = mustCommit(t, plan, minute(1))
		for _, edit := range row.edits {
			edit(&s)
		}
		plan = mustPlan(t, pool(cmp.Or(row.limit, "1"), row.rules), s, minute(3))
		var starts []string
		for k, text := range started(plan) {
			if plan.Start[k].Resource != "r1" {
				starts = append(starts, text+" "+string(plan.Start[k].Reason))
			}
		}
		waits := slices.DeleteFunc(blockers(plan), func(line string) bool {
			return !slices.ContainsFunc(row.forced, func(id string) bool { return strings.HasPrefix(line, id) })
		})
		if got := strings.Join(starts, ", "); got != row.starts || strings.Join(waits, ", ") != row.waits {
			t.Errorf("%s: starts %q, waits %q", row.why, got, waits)
		}
	}
}

// TestForcedLeaseIsMarked: the record says which leases were given beyond the limit, and by whose
// leave. All others are as good as any.
func TestForcedLeaseIsMarked(t *testing.T) {
	t.Parallel()
	const limit1, zones = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`, `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":5,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`
	for _, row := range []struct {
		why      string
		rules    string
		begun    []string // resources on which a starts a minute earlier
		override []string // rule/resource: a is let past the rule there
		starts   []string
		marked   []string // pool/resource
		active   []string // resources that the host counts in P
	}{
		{"there was room", limit1, nil, []string{"P/r1"}, []string{"r1/a@v2"}, nil, nil},
		{"there was none, and who had found room is not marked with it", limit1, []string{"r1"}, []string{"P/r2"}, []string{"r2/a@v2"}, []string{"P/r2"}, nil},
		{"another pool had room", limit1 + `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":5}}`, []string{"r1"}, []string{"P/r2"}, []string{"r2/a@v2"}, []string{"P/r2"}, nil},
		{"another one starts beside it, in a pool that had room",
			`{"id":"P","resourceConcurrency":{"groupSelector":"resource.name != 'r3'","limit":1}},{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name == 'r3'","limit":1}}`,
			[]string{"r1"}, []string{"P/r2"}, []string{"r2/a@v2", "r3/a@v2"}, []string{"P/r2"}, nil},
		{"the zone of r2 was not active", zones, []string{"r1"}, []string{"P/r2"}, []string{"r2/a@v2"}, []string{"P/y/r2"}, nil},
		{"it was, and another pool had no room", strings.ReplaceAll(zones, `"true"`, `"resource.name != 'r1'"`) + `,{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name != 'r1'","limit":1}}`, []string{"r2"}, []string{"P/r3", "Q/r3"}, []string{"r3/a@v2"}, []string{"Q/r3"}, nil},
		{"in one of two full pools r2 counted already", `{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}},` + limit1, []string{"r1"}, []string{"P/r2", "Q/r2"}, []string{"r2/a@v2"}, []string{"Q/r2"}, []string{"r2"}},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"zone": []string{"x", "y", "y"}[k]}
		}
		commit := func(plan rollout.Plan, want []string) []rollout.Start {
			starts := slices.DeleteFunc(slices.Clone(plan.Start), func(start rollout.Start) bool {
				return !slices.Contains(want, start.Resource+"/"+start.Deployment+"@"+start.Version)
			})
			state, err := plan.Commit(starts, plan.Now)
			if err != nil || len(starts) != len(want) {
				t.Fatalf("%s: starts %q, %v", row.why, started(plan), err)
			}
			s.State = state
			return starts
		}
		for _, resource := range row.begun {
			for _, start := range commit(mustPlan(t, set, s, t0), []string{resource + "/a@v2"}) {
				add(&s, start, job(start, t0, rollout.JobInProgress))
			}
		}
		for _, past := range row.override {
			rule, resource, _ := strings.Cut(past, "/")
			s.Overrides = append(s.Overrides, override(rule, only(resource), func(o *rollout.Override) { o.ID = past }))
		}
		for _, resource := range row.active {
			s.Active = map[string][]concurrency.Holder{"P": {{Resource: resource, Group: "by hand"}}}
		}
		commit(mustPlan(t, set, s, minute(1)), row.starts)
		var marked []string
		for _, record := range s.State.Pools {
			for _, lease := range record.Leases {
				if lease.Reason != "" {
					marked = append(marked, record.Key+"/"+lease.Resource)
				}
			}
		}
		if !slices.Equal(marked, row.marked) {
			t.Errorf("%s: %q are marked", row.why, marked)
		}
	}
}

// TestForcedWithinTheLimit: r2 was let past a limit that it did not reach, and r3 past it. Neither
// has been dispatched, and a newer version needs no override on r2.
func TestForcedWithinTheLimit(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
	for _, resource := range []string{"r2", "r3"} {
		s.Overrides = []rollout.Override{override("P", only(resource))}
		plan := mustPlan(t, set, s, t0)
		if !slices.Equal(started(plan), []string{resource + "/a@v2"}) && resource == "r2" {
			t.Fatalf("starts %q", started(plan))
		}
		at := slices.IndexFunc(plan.Start, func(s rollout.Start) bool { return s.Resource == resource })
		var err error
		if s.State, err = plan.Commit(plan.Start[at:at+1], t0); err != nil {
			t.Fatal(err)
		}
	}
	s.Overrides = nil
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0})
	plan := mustPlan(t, set, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r2/a@v3"}) || !slices.Contains(blockers(plan), "r3/a@v3: slot_full") {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
	if got := orphans(plan); !slices.Equal(got, []string{"r3"}) {
		t.Errorf("nobody is about to use the leases of %q", got)
	}
}

// TestForcedPlaceIsLent: r1 is at work in all pools, and v2 of a is let past the full ones on r2.
// Nobody else begins there on the places that count for that start alone, since it may be left out:
// every pool is asked, and an override of one of them says nothing about the others.
func TestForcedPlaceIsLent(t *testing.T) {
	t.Parallel()
	overrideOf := func(rule, version string) rollout.Override {
		return override(rule, only("r2"), func(o *rollout.Override) { o.ID, o.Version = rule+version, version })
	}
	pool := func(id, limit, selector string) string {
		return `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"` + selector + `","limit":` + limit + `}}`
	}
	for _, row := range []struct {
		why       string
		rules     string // of all
		b         string // of b
		overrides []rollout.Override
		starts    []string
		waits     []string
	}{
		{why: "the first of two pools has room", rules: pool("A", "9", "true") + "," + pool("B", "1", "true"), overrides: []rollout.Override{overrideOf("A", "v2"), overrideOf("B", "v2")},
			starts: []string{"r2/a@v2"}, waits: []string{"r2/b@v3: slot_full"}},
		{why: "both are full", rules: pool("A", "1", "true") + "," + pool("B", "1", "true"), overrides: []rollout.Override{overrideOf("A", "v2"), overrideOf("B", "v2")},
			starts: []string{"r2/a@v2"}, waits: []string{"r2/b@v3: slot_full slot_full"}},
		{why: "b is let past the first one only", rules: pool("A", "1", "true") + "," + pool("B", "1", "true"), overrides: []rollout.Override{overrideOf("A", "v2"), overrideOf("B", "v2"), overrideOf("A", "v3")},
			starts: []string{"r2/a@v2"}, waits: []string{"r2/b@v3: slot_full"}},
		{why: "b is let past both", rules: pool("A", "1", "true") + "," + pool("B", "1", "true"), overrides: []rollout.Override{overrideOf("A", "v2"), overrideOf("B", "v2"), overrideOf("A", "v3"), overrideOf("B", "v3")},
			starts: []string{"r2/a@v2", "r2/b@v3"}},
		{why: "in a paused pool nobody waits for a slot", rules: pool("A", "0", "resource.name != 'r1'"), overrides: []rollout.Override{overrideOf("A", "v2")},
			starts: []string{"r2/a@v2"}, waits: []string{"r2/b@v3: slot_paused"}},
		{why: "who waits takes no place of another pool: b on r2 comes before b on r3", rules: pool("A", "1", "resource.name != 'r3'"), b: pool("B", "1", "resource.name != 'r1'"), overrides: []rollout.Override{overrideOf("A", "v2")},
			starts: []string{"r2/a@v2", "r3/b@v3"}, waits: []string{"r2/b@v3: slot_full"}},
	} {
		set := compile(t, `[`+policy(row.rules)+`,{"name":"q","selector":"deployment.name == 'b'","rules":[`+cmp.Or(row.b, `{"retry":{"maxRetries":0}}`)+`]}]`)
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
		for k := range s.Targets { // the others are done
			switch id := s.Targets[k].TargetID; {
			case id.Resource == "r3" && id.Deployment == "a":
				s.Targets[k].Current = "v2"
			case id.Resource == "r1" && id.Deployment == "b", id.Resource == "r3" && row.b == "":
				s.Targets[k].Current = "v3"
			}
		}
		first := mustPlan(t, set, s, t0)
		at := slices.IndexFunc(first.Start, func(s rollout.Start) bool { return s.Resource == "r1" })
		first.Start = first.Start[at : at+1]
		carryOut(t, &s, first, t0, rollout.JobInProgress)
		s.Overrides = row.overrides
		plan := mustPlan(t, set, s, minute(1))
		if got := started(plan); !slices.Equal(got, row.starts) || !slices.Equal(blockers(plan), row.waits) {
			t.Errorf("%s: starts %q, waits %q", row.why, got, blockers(plan))
		}
	}
}

// TestForcedElsewhere: an override of one pool proves nothing in another one. There r2 counts for a
// job that the snapshot shows and nothing else, and r1 is at work.
func TestForcedElsewhere(t *testing.T) {
	set := compile(t, policy(`{"id":"A","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"B","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Targets[3].Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
	for _, row := range []struct {
		why       string
		overrides []rollout.Override
		starts    []string
		waits     []string
	}{
		{"no override", nil, nil, []string{"r2/a@v2: slot_full slot_full"}},
		{"of one pool", []rollout.Override{override("A")}, nil, []string{"r2/a@v2: slot_full"}},
		{"of both", []rollout.Override{override("A"), override("B")}, []string{"r2/a@v2"}, nil},
	} {
		s.Overrides = row.overrides
		if plan := mustPlan(t, set, s, minute(1)); !slices.Equal(started(plan), row.starts) || !slices.Equal(blockers(plan), row.waits) {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestForcedKey: one zone at a time may be active, and an override makes another one active. Nobody
// follows it there as long as it has not begun, for it may be left out. Once it is at work its zone
// is an active one, and has places for others.
func TestForcedKey(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`))
	s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k, zone := range []string{"east", "west", "west", "north"} {
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	s.Unavailable = []string{"r1"}
	s.Targets[0].Current = "v2"
	s.Overrides = []rollout.Override{override("P", only("r2"))}
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r2/a@v2"}) || !slices.Equal(blockers(plan), []string{"r3/a@v2: slot_keys_full", "r4/a@v2: slot_keys_full"}) {
		t.Fatalf("starts %q, waits %q", got, blockers(plan))
	}
	start := plan.Start[0]
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	plan = mustPlan(t, set, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r3/a@v2"}) || !slices.Equal(blockers(plan), []string{"r4/a@v2: slot_keys_full"}) {
		t.Errorf("%s is at work: starts %q, waits %q", start.Run, got, blockers(plan))
	}
}

// TestForcedWhereSomebodyWas: r1 is at work, and v2 is let past the limit on r2, where the place
// seems to be taken already. It is saved, and not dispatched. Nobody begins under that lease
// without an override of its own: what had the place gave it to nobody.
func TestForcedWhereSomebodyWas(t *testing.T) {
	t.Parallel()
	const (
		limit = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`
		keys  = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`
	)
	claim := func(deployment string) func(*testing.T, *rollout.Snapshot) {
		return func(t *testing.T, s *rollout.Snapshot) { // a planner has claimed and stopped before the record of the family
			k := slices.IndexFunc(s.State.Pools, func(r concurrency.Record) bool { return r.Key == "P/r2" })
			record, err := s.State.Pools[k].Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r2", Group: "target/prod/" + deployment}, t0)
			if err != nil {
				t.Fatal(err)
			}
			s.State.Pools = slices.Clone(s.State.Pools)
			s.State.Pools[k] = record
		}
	}
	for _, row := range []struct {
		why, rules    string
		before, after func(*testing.T, *rollout.Snapshot)
		waits         []string
	}{
		{"its own claim, which was never confirmed, has no key", keys, claim("a"), nil, []string{"r1/a@v3: target_busy", "r2/a@v3: slot_keys_full"}},
		{"nor has that of another target", keys, claim("b"), nil, []string{"r1/a@v3: target_busy", "r2/a@v3: slot_keys_full"}},
		{"a job that was seen there is over", limit,
			func(_ *testing.T, s *rollout.Snapshot) {
				s.Targets[3].Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
			},
			func(_ *testing.T, s *rollout.Snapshot) { s.Targets[3].Jobs = nil }, []string{"r1/a@v3: target_busy", "r2/a@v3: slot_full"}},
		{"another target was let past, and has not begun either", limit,
			func(t *testing.T, s *rollout.Snapshot) {
				s.Versions = append(slices.Clip(s.Versions), rollout.Version{ID: "w", Tag: "w", Deployment: "b", Status: rollout.VersionReady, CreatedAt: t0})
				s.Targets[1].Current = "w" // on r1 nobody wants it
				s.Overrides = []rollout.Override{override("P", only("r2"), func(o *rollout.Override) { o.Version = "w" })}
				plan := mustPlan(t, compile(t, policy(limit)), *s, minute(1))
				if got := started(plan); !slices.Equal(got, []string{"r2/b@w"}) {
					t.Fatalf("starts %q", got)
				}
				s.State = mustCommit(t, plan, minute(1))
			}, nil, []string{"r1/a@v3: target_busy", "r2/a@v3: slot_full", "r2/b@w: slot_full"}},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
		}
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		row.before(t, &s)
		s.Overrides = []rollout.Override{override("P", only("r2"))}
		plan := mustPlan(t, set, s, minute(2))
		if got := started(plan); !slices.Equal(got, []string{"r2/a@v2"}) || plan.Start[0].Reason != rollout.ReasonOverridden {
			t.Fatalf("%s: starts %q", row.why, got)
		}
		s.State = mustCommit(t, plan, minute(2))
		if row.after != nil {
			row.after(t, &s)
		}
		s.Overrides = nil
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(2)})
		plan = mustPlan(t, set, s, minute(3))
		if len(plan.Start) > 0 || !slices.Equal(blockers(plan), row.waits) {
			t.Errorf("%s: then starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestForcedKeyIsOneMore: one zone at a time may be active, and that of r1 is: a is to begin there
// once more. An override makes another one active. Now b of r1 does not begin because a may: that
// may be left out, and there is a key too many. Once a is at work b follows.
func TestForcedKeyIsOneMore(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
	}
	s.Targets[3].Current = "v3"
	first := mustPlan(t, set, s, t0)
	var err error
	if s.State, err = first.Commit(first.Start[:1], t0); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		why           string
		overrides     []rollout.Override
		starts, waits []string
	}{
		{"without an override", nil, []string{"r1/a@v2", "r1/b@v3"}, []string{"r2/a@v2: slot_keys_full"}},
		{"with one", []rollout.Override{override("P", only("r2"))}, []string{"r1/a@v2", "r2/a@v2"}, []string{"r1/b@v3: slot_keys_full"}},
	} {
		s.Overrides = row.overrides
		plan := mustPlan(t, set, s, minute(1))
		if got := started(plan); !slices.Equal(got, row.starts) || !slices.Equal(blockers(plan), row.waits) {
			t.Errorf("%s: starts %q, waits %q", row.why, got, blockers(plan))
		}
	}
	carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
	if got := started(mustPlan(t, set, s, minute(2))); !slices.Equal(got, []string{"r1/b@v3"}) {
		t.Errorf("then starts %q", got)
	}
}

// TestForcedExecution: a bracket is let past the limit for one version, and its planner stops
// before it saves the execution. The lease is the group's; whoever begins under it needs the
// override, too.
func TestForcedExecution(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	first := mustPlan(t, set, s, t0)
	carryOut(t, &s, first, t0, rollout.JobInProgress)
	s.Overrides = []rollout.Override{override("P", only("r2"))}
	forced := mustPlan(t, set, s, minute(1))
	next, err := forced.Commit(forced.Start, minute(1))
	if err != nil || len(forced.Start) != 2 {
		t.Fatalf("starts %q, %v", started(forced), err)
	}
	s.State.Pools = next.Pools
	for _, row := range []struct {
		why       string
		overrides []rollout.Override
		starts    []string
	}{
		{"the override holds", s.Overrides, []string{"r2/a@v2", "r2/b@v3"}},
		{"it has expired", nil, nil},
	} {
		s.Overrides = row.overrides
		if plan := mustPlan(t, set, s, minute(2)); !slices.Equal(started(plan), row.starts) || len(row.starts) == 0 && !slices.Contains(blockers(plan), "r2/a@v2: slot_full") {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestNotForcedBesideAForcedStart: two nodes have slots that overrides gave and that nobody used,
// and the pool has room for the first of them. b begins there without an override, beside a start
// that has one: its slot is as good as any, and stays so when the others are given back.
func TestNotForcedBesideAForcedStart(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r2" && t.Deployment == "b" })
	record := concurrency.NewRecord("P")
	for _, resource := range []string{"r1", "r2"} {
		record.Leases = append(record.Leases, concurrency.Lease{
			Pool: "P", Holder: concurrency.Holder{Resource: resource, Group: "target/prod/a"}, Token: record.NextToken, State: concurrency.Active, Since: t0, ProgressAt: t0, Reason: "overridden",
		})
		record.NextToken++
	}
	s.State.Pools = []concurrency.Record{record}
	s.Overrides = []rollout.Override{override("P", only("r1"), expires(minute(2)))}
	plan := mustPlan(t, set, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2", "r1/b@v3"}) {
		t.Fatalf("starts %q, waits %q", got, blockers(plan))
	}
	var err error
	if s.State, err = plan.Commit(plan.Start, minute(1)); err != nil { // and stops before it dispatches
		t.Fatal(err)
	}
	lease, _ := s.State.Pools[0].Lease(concurrency.Holder{Resource: "r1", Group: "target/prod/a"})
	if s.State.Pools[0], err = s.State.Pools[0].Release(lease.Holder, lease.Token); err != nil {
		t.Fatal(err)
	}
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r1" && t.Deployment == "a" })
	if plan = mustPlan(t, set, s, minute(3)); !slices.Equal(started(plan), []string{"r1/b@v3"}) {
		t.Errorf("without an override starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestForcedWhereItIsDown: r1 is not ready, so any fix may start there although the pool is paused.
// That an override lets one version past the pool as well takes nothing from the others.
func TestForcedWhereItIsDown(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	s.Unavailable = []string{"r1"}
	s.Overrides = []rollout.Override{override("P")}
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2", "r1/b@v3"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
}

// TestForcedPlaceIsLentOnce: a on r1 and r2 is let past P, and Q has one place, which r1 gets. So
// r2 has no place in P to lend to b, and P says so to b once.
func TestForcedPlaceIsLentOnce(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}},{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	for k := range s.Versions {
		if s.Versions[k].ID == "v3" {
			s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(-time.Second)
		}
	}
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r1" && t.Deployment == "b" })
	s.Overrides = []rollout.Override{override("P")}
	plan := mustPlan(t, set, s, t0)
	if got := blockers(plan); !slices.Equal(started(plan), []string{"r1/a@v2"}) || !slices.Equal(got, []string{"r2/a@v2: slot_full", "r2/b@v3: slot_paused"}) {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}
