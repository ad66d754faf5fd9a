package rollout_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestPlannersShareKeys: one zone at a time may be active, and each zone has a record of its own.
// Two planners that have read that none is active, of which each prefers another zone, must not
// make both active, whatever one of them does between two calls of the other, or where it stops.
func TestPlannersShareKeys(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
	}
	only := func(k int) rollout.Snapshot { // in which the other one has not heard of v2
		own := s
		own.Targets = slices.Clone(s.Targets)
		own.Targets[1-k].Current = "v2"
		return own
	}
	reached := map[int]bool{}
	for first := range 2 {
		for calls := range 12 { // after so many calls of the first the other one has its turn
			for _, crashes := range []bool{false, true} {
				inner := &bracket.MemoryStore{}
				var active []string
				turn := func(store bracket.Store, k int) {
					plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(t0)}).Plan(t.Context(), only(k))
					if err == nil {
						active = append(active, started(plan)...)
					}
				}
				n := 0
				turn(brackettest.NewFaultStore(inner, func(brackettest.Call) brackettest.Fault {
					if n++; n == calls {
						reached[calls] = true
						turn(inner, 1-first)
						if crashes {
							return brackettest.Crash
						}
					}
					return brackettest.None
				}), first)
				turn(inner, 1-first)
				turn(inner, first)
				slices.Sort(active)
				if active = slices.Compact(active); len(active) > 1 {
					t.Errorf("the other one comes before call %d of the one that wants r%d, crash %v: %q start", calls, first+1, crashes, active)
				}
			}
		}
	}
	if len(reached) < 5 {
		t.Errorf("%d calls", len(reached))
	}
}

// TestPlannersStopBetweenKeys: two planners claim in different zones, where one zone may be active,
// and each stops after some of its writes, the second one between two of the first. Whatever they
// leave, the fleet goes on: one zone after the other, and nobody has to give anything back.
func TestPlannersStopBetweenKeys(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`))
	both := false // zones were left with claims that nobody had confirmed
	for _, used := range []bool{false, true} {
		for at := range 6 * 6 * 6 {
			between, first, second := at%6, at/6%6, at/36 // writes of the first before the turn of the second, and of each before it stops
			inner, now := &bracket.MemoryStore{}, clock.NewFake(t0)
			s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
			for k := range s.Resources {
				s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
			}
			turn := func(store bracket.Store, s rollout.Snapshot) []rollout.Start {
				plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: now}).Plan(t.Context(), s)
				if err != nil && !errors.Is(err, brackettest.ErrCrashed) {
					t.Fatal(err)
				}
				return plan.Start
			}
			only := func(resource string) rollout.Snapshot {
				own := s
				own.Targets = slices.Clone(s.Targets)
				for k := range own.Targets {
					if own.Targets[k].Resource != resource {
						own.Targets[k].Current = "v2"
					}
				}
				return own
			}
			if used { // somebody was here before
				start := turn(inner, only("r3"))[0]
				add(&s, start, job(start, t0, rollout.JobSuccessful))
			}
			var confirmed []rollout.Start
			now.Advance(time.Minute)
			confirmed = append(turn(brackettest.NewFaultStore(inner, func(c brackettest.Call) brackettest.Fault {
				if c.Method == "Save" && c.Write == between {
					confirmed = turn(brackettest.NewFaultStore(inner, brackettest.CrashAfter(second)), only("r2"))
				}
				return brackettest.CrashAfter(first)(c)
			}), only("r1")), confirmed...)
			if len(confirmed) > 1 {
				t.Fatalf("writes %d, %d, %d, somebody before %v: both begin", between, first, second, used)
			}
			idle := 0
			for _, zone := range []string{"r1", "r2"} {
				value, _, err := inner.Load(t.Context(), rollout.PoolRecordKey("P/"+zone))
				if err == nil && strings.Contains(string(value), `"resource"`) && !slices.ContainsFunc(storedPool(t, inner, "P").Confirmed, func(c concurrency.Confirmation) bool { return c.Pool == "P/"+zone }) {
					idle++
				}
			}
			both = both || idle == 2
			for round := 0; len(s.Targets[0].Jobs)+len(s.Targets[1].Jobs)+len(s.Targets[2].Jobs) < 3; round++ {
				now.Advance(time.Minute)
				list := turn(inner, s)
				if len(list) != 1 || round == 0 && len(confirmed) > 0 && list[0].Run != confirmed[0].Run {
					t.Fatalf("writes %d, %d, %d, somebody before %v: round %d starts %+v, beside %+v", between, first, second, used, round, list, confirmed)
				}
				add(&s, list[0], job(list[0], now.Now(), rollout.JobSuccessful))
			}
		}
	}
	if !both {
		t.Error("they never stopped both between their claims and the record of the family")
	}
}

// TestKeysActiveBeyondLimit: two planners have claimed in two zones, where one may be active.
// Whoever would begin on a claim alone waits; who is at work, or was under the claim that it has,
// goes on.
func TestKeysActiveBeyondLimit(t *testing.T) {
	t.Parallel()
	const zones = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`
	jobOf := func(resource string, status rollout.JobStatus, at int) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			start := rollout.Start{TargetID: rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "a"}, Run: resource + "/prod/a/v2/1", Version: "v2"}
			add(s, start, job(start, minute(at), status))
		}
	}
	confirm := func(zones ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			family := concurrency.NewRecord("P")
			family.Confirmed = []concurrency.Confirmation{}
			for _, zone := range zones {
				family.Confirmed = append(family.Confirmed, concurrency.Confirmation{Pool: "P/" + zone, Token: 1})
			}
			s.State.Pools = append(s.State.Pools, family)
		}
	}
	both := func(edits ...func(*rollout.Snapshot)) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for _, edit := range edits {
				edit(s)
			}
		}
	}
	beside := func(s *rollout.Snapshot) { // r3 is in the zone of r1, and has not run v2
		s.Resources[2].Metadata, s.Targets[2].Current = s.Resources[0].Metadata, "v1"
	}
	for _, row := range []struct {
		why   string
		group string // that has claimed; empty: those of the targets
		rules string // more of them
		halts string // more of that of the zones
		edit  func(*rollout.Snapshot)
		want  string // what starts, and what waits
	}{
		{why: "nobody has begun", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2"},
		{why: "one has begun", want: "r2 slot_keys_full P/r2", edit: jobOf("r1", rollout.JobInProgress, 1)},
		{why: "one has failed under its claim, and is tried again", want: "r2 slot_held, r1 slot_keys_full P/r1", edit: jobOf("r2", rollout.JobFailure, 1)},
		{why: "one had failed before it", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", edit: jobOf("r2", rollout.JobFailure, -1)},
		{why: "one had failed before it, and its clock was ahead", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", edit: func(s *rollout.Snapshot) {
			jobOf("r2", rollout.JobFailure, 1)(s)
			lease := &s.State.Pools[1].Leases[0]
			lease.ProgressAt = minute(1).Add(2) // behind all that was seen when it was taken
		}},
		{why: "one had begun before it, and its end is seen after it", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", edit: func(s *rollout.Snapshot) {
			jobOf("r2", rollout.JobFailure, -1)(s)
			s.Targets[1].Jobs[0].CompletedAt = minute(1)
		}},
		{why: "one has begun at the very instant of its claim", want: "r2 slot_held, r1 slot_keys_full P/r1", edit: jobOf("r2", rollout.JobFailure, 0)},
		{why: "a node is down", want: "r2 slot_held, r1 slot_keys_full P/r1", edit: func(s *rollout.Snapshot) { s.Unavailable = []string{"r2"} }},
		{why: "a node is down, and its zone halted", halts: `,"haltAboveUnavailable":0`, want: "r2 slot_held, r1 slot_keys_full P/r1", edit: func(s *rollout.Snapshot) { s.Unavailable = []string{"r2"} }},
		{why: "the host counts a job", want: "r2 slot_held, r1 slot_keys_full P/r1", edit: func(s *rollout.Snapshot) {
			s.Active = map[string][]concurrency.Holder{"P/r2": {{Resource: "r2", Group: "by hand"}}}
		}},
		{why: "an override", want: "r2 overridden, r1 slot_keys_full P/r1", edit: func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Resource: "r2", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
		}},
		{why: "nobody has confirmed a claim", edit: confirm(), want: "r1 slot_held, r2 slot_keys_full P/r2"},
		{why: "one has", edit: confirm("r2"), want: "r2 slot_held, r1 slot_keys_full P/r1"},
		{why: "both have, when two could be active", edit: confirm("r1", "r2"), want: "r1 slot_held, r2 slot_held"},
		{why: "and one beside them has no claim, though it ran once", edit: both(confirm("r1", "r2"), beside, jobOf("r3", rollout.JobFailure, -1)), want: "r1 slot_held, r2 slot_held, r3 slot_keys_full P/r1"},
		{why: "or one that it never confirmed", edit: both(confirm("r1", "r2"), beside, func(s *rollout.Snapshot) {
			record, err := s.State.Pools[0].Claim(concurrency.Claim{Token: 2}, concurrency.Holder{Resource: "r3", Group: "target/prod/a"}, t0)
			if err != nil {
				t.Fatal(err)
			}
			s.State.Pools[0] = record
		}), want: "r1 slot_held, r2 slot_held, r3 slot_keys_full P/r1"},
		{why: "what is left of a rule that has gone is no list", edit: both(confirm("r2"), func(s *rollout.Snapshot) {
			s.State.Pools = slices.Insert(s.State.Pools, 0, concurrency.NewRecord("A"))
		}), want: "r2 slot_held, r1 slot_keys_full P/r1"},
		{why: "nor does a claim under it say anything of this one", edit: both(confirm("r1", "r2"), func(s *rollout.Snapshot) {
			record, err := concurrency.NewRecord("A").Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r1", Group: "target/prod/a"}, t0)
			if err != nil {
				t.Fatal(err)
			}
			s.State.Pools = slices.Insert(s.State.Pools, 0, record)
		}), want: "r1 slot_held, r2 slot_held"},
		{why: "one that had a job under it needs no confirmation", edit: both(confirm(), jobOf("r2", rollout.JobFailure, 1)), want: "r2 slot_held, r1 slot_keys_full P/r1"},
		{why: "nor does one that is at work", edit: both(confirm(), jobOf("r2", rollout.JobInProgress, 1)), want: "r1 slot_keys_full P/r1"},
		{why: "one that was given up counts", edit: both(confirm(), func(s *rollout.Snapshot) {
			s.State.Pools[1].Leases[0].State, s.State.Pools[1].Leases[0].Reason = concurrency.Quarantined, "abandoned"
		}), want: "r2 slot_held, r1 slot_keys_full P/r1"},
		{why: "an override confirms it", edit: both(confirm(), func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Resource: "r2", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
		}), want: "r2 overridden, r1 slot_keys_full P/r1"},
		{why: "a key that an override took is one more: who has confirmed goes on, and who was let past waits once the override is over", edit: both(confirm("r1", "r2"), func(s *rollout.Snapshot) {
			s.State.Pools[1].Leases[0].Reason = "overridden"
		}), want: "r1 slot_held, r2 slot_keys_full P/r2"},
		{why: "executions that have not begun, nor been confirmed", group: "B/prod/1", edit: confirm(), want: "r1 slot_held, r2 slot_keys_full P/r2", rules: `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`},
		{why: "executions that have not begun", group: "B/prod/1", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", rules: `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`},
		{why: "a job by hand is none of theirs", group: "B/prod/1", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", rules: `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`, edit: jobOf("r2", rollout.JobFailure, 1)},
		{why: "another pool", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", rules: `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":2}}`},
		{why: "another pool that has no place: all that refuse are named", want: "r1 slot_keys_full P/r1, r1 slot_paused Q, r2 slot_keys_full P/r2, r2 slot_paused Q", rules: `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":0}}`},
		{why: "an override of another pool gives no key", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", rules: `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":0}}`, edit: func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{override("Q")}
		}},
		{why: "another family that is not full", want: "r1 slot_keys_full P/r1, r2 slot_keys_full P/r2", rules: `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":2}}`},
	} {
		set := compile(t, policy(`{"id":"R","retry":{"maxRetries":1}},`+strings.Replace(zones, `"maxActiveKeys":1`, `"maxActiveKeys":1`+row.halts, 1)+row.rules))
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Targets[2].Current = "v2"
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
		}
		for _, zone := range []string{"r1", "r2"} {
			record, err := concurrency.NewRecord("P/"+zone).Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: zone, Group: cmp.Or(row.group, "target/prod/a")}, t0)
			if err != nil {
				t.Fatal(err)
			}
			s.State.Pools = append(s.State.Pools, record)
		}
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, set, s, minute(2))
		starts, waits := []string{}, []string{}
		for _, start := range plan.Start {
			starts = append(starts, start.Resource+" "+string(start.Reason))
		}
		for wait := range plan.Waiting.All() {
			for _, b := range wait.Blockers {
				waits = append(waits, wait.Resource+" "+string(b.Reason)+" "+ownPool(b))
			}
		}
		if got := strings.Join(slices.Concat(starts, waits), ", "); got != row.want {
			t.Errorf("%s: %s", row.why, got)
		}
	}
}

// ownPool is the pool of the target that a verdict is about.
func ownPool(v rollout.Verdict) string {
	if v.Reason == rollout.Reason(concurrency.SlotKeysFull) {
		return v.Data.Names[0]
	}
	return v.On[0].Pool
}

// TestKeysFullNamesActivePools: nothing that happens in a pool without anybody lets its members in
// while the keys are taken. The pools that are active are named, for whoever wakes up by events,
// and for whoever asks which node holds up the others.
func TestKeysFullNamesActivePools(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why  string
		keys int
		busy []string // nodes that are at work
		down []string
		want string // what r4 says, in zone d
	}{
		{"one at work", 1, []string{"r2"}, nil, "slot_keys_full in P/d, waits for an empty P/b"},
		{"one that is down holds the key as well", 1, nil, []string{"r3"}, "slot_keys_full in P/d, waits for an empty P/c"},
		{"any of two", 2, []string{"r3"}, []string{"r1"}, "slot_keys_full in P/d, waits for an empty P/a or an empty P/c"},
		{"one that the plan itself begins", 1, nil, nil, "slot_keys_full in P/d, waits for an empty P/a"},
	} {
		set := compile(t, policy(fmt.Sprintf(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":%d}}`, row.keys)))
		s := fleet(4, "v1", map[string][]string{"web": {"v1", "v2"}})
		for k, zone := range []string{"a", "b", "c", "d"} {
			s.Resources[k].Metadata["zone"] = zone
			if slices.Contains(row.busy, s.Resources[k].ID) {
				s.Targets[k].Jobs = []rollout.Job{{Run: "x", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
			}
		}
		s.Unavailable = row.down
		plan := mustPlan(t, set, s, minute(1))
		wait, waits := plan.Waiting.Of(rollout.TargetID{Resource: "r4", Environment: "prod", Deployment: "web"})
		if !waits || wait.Blockers[0].String() != row.want {
			t.Errorf("%s: %v", row.why, wait.Blockers)
			continue
		}
		active := map[string]bool{}
		for _, p := range plan.Pools {
			active[p.Key] = p.Active > 0
		}
		for _, on := range wait.Blockers[0].On {
			if on.Kind != rollout.OnSlot || !active[on.Pool] {
				t.Errorf("%s: waits for %+v, which is not active", row.why, on)
			}
		}
	}
}

// TestKeysFullSharesEvents: a thousand values of groupBy that wait for a hundred that are active,
// one of them held by an orphan, share one list of events. A list for each would grow with the
// product.
func TestKeysFullSharesEvents(t *testing.T) {
	const values, keys = 1000, 100
	set := compile(t, policy(fmt.Sprintf(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":%d}}`, keys)))
	s := fleet(values, "v1", map[string][]string{"web": {"v1", "v2"}})
	for k := range s.Resources {
		s.Resources[k].Metadata["zone"] = s.Resources[k].ID
		if k < keys {
			s.Targets[k].Jobs = []rollout.Job{{Run: "x", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
		}
	}
	record, err := concurrency.NewRecord("P/"+s.Resources[0].ID).Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: s.Resources[0].ID, Group: "target/gone/web"}, t0)
	if err != nil {
		t.Fatal(err)
	}
	s.State.Pools = []concurrency.Record{record}
	plan := mustPlan(t, set, s, minute(1))
	var first *rollout.Condition
	for wait := range plan.Waiting.All() {
		on := wait.Blockers[0].On
		if wait.Blockers[0].Reason != "slot_keys_full" {
			continue
		}
		if first == nil {
			first = &on[0]
		}
		if len(on) != keys+1 || on[keys].Kind != rollout.OnOrphan || &on[0] != first {
			t.Fatalf("%s waits for %d events, the last a %s, of its own: %t", wait.Resource, len(on), on[len(on)-1].Kind, &on[0] != first)
		}
	}
	if first == nil {
		t.Error("nobody waits for a key")
	}
}

// TestConfirmedClaims: the record of a family lists the claims under which somebody has begun, and
// those that were there before anybody kept the list. Whoever begins writes it, an execution with
// its first run only.
func TestConfirmedClaims(t *testing.T) {
	t.Parallel()
	const zones = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":5,"groupBy":"resource.metadata['zone']","maxActiveKeys":2}},{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":5}}`
	family := func(state rollout.State) *concurrency.Record {
		return &state.Pools[slices.IndexFunc(state.Pools, func(r concurrency.Record) bool { return r.Key == "P" })]
	}
	world := func(deployments map[string][]string) rollout.Snapshot {
		s := fleet(3, "v1", deployments)
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"zone": []string{"x", "x", "y"}[k]}
		}
		return s
	}
	begin := func(set *rollout.PolicySet, s rollout.Snapshot, at int, start string) rollout.State {
		t.Helper()
		plan := mustPlan(t, set, s, minute(at))
		k := slices.Index(started(plan), start)
		if k < 0 {
			t.Fatalf("starts %q", started(plan))
		}
		state, err := plan.Commit(plan.Start[k:k+1], minute(at))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	set, s := compile(t, policy(zones)), world(map[string][]string{"a": {"v1", "v2"}})
	for _, pool := range []string{"P/x", "Q"} { // r2 began when nobody kept a list
		record, err := concurrency.NewRecord(pool).Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r2", Group: "target/prod/a"}, t0)
		if err != nil {
			t.Fatal(err)
		}
		s.State.Pools = append(s.State.Pools, record)
	}
	s.Targets[1].Jobs = []rollout.Job{{Run: "r2/prod/a/v2/1", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
	var got []string
	for k, starts := range []string{"r1/a@v2", "r3/a@v2"} {
		state := begin(set, s, k, starts)
		if err := family(state).Validate(); err != nil {
			t.Error(err)
		}
		got = append(got, text(t, family(state).Confirmed))
		s.State = state
		family(s.State).NextToken = math.MaxUint64 // there is no greater one; from here on the list alone tells the records apart
	}
	want := []string{`[{"pool":"P/x","token":1},{"pool":"P/x","token":2}]`, `[{"pool":"P/x","token":1},{"pool":"P/x","token":2},{"pool":"P/y","token":1}]`}
	if !slices.Equal(got, want) {
		t.Errorf("confirmed %q", got)
	}

	set, s = compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`+zones)), world(map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	var tokens []uint64
	for k, starts := range []string{"r1/a@v2", "r1/b@v3"} {
		state := begin(set, s, k, starts)
		tokens = append(tokens, family(state).NextToken)
		s.State = state
	}
	if tokens[0] != tokens[1] {
		t.Errorf("the second run of an execution writes the family's record, for nothing: %d", tokens)
	}
}

// A key stays active as long as somebody holds a lease there, also when no resource that the host
// lists has the key any more: the node may be at work all the same.
func TestKeyThatNobodyHasAnyMore(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k, zone := range []string{"x/1", "y"} {
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) {
		t.Fatalf("starts %q", got)
	}
	state := mustCommit(t, plan, t0)
	s.State, s.Resources, s.Targets = state, s.Resources[1:], s.Targets[1:]
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if wait, waits := plan.Waiting.Of(s.Targets[0].TargetID); !waits || wait.Blockers[0].Reason != "slot_keys_full" || len(plan.Orphans) != 1 {
		t.Errorf("r1 is in no list this time, which proves nothing: starts %q, %v", started(plan), wait.Blockers)
	}
	if k := slices.IndexFunc(plan.Pools, func(p rollout.Pool) bool { return p.Key == "P/x%2F1" }); k < 0 || plan.Pools[k].Active != 1 || plan.Pools[k].Total != 0 {
		t.Errorf("the pool is not shown: %+v", plan.Pools)
	}
	s.DeletedResources = []string{"r1"}
	if plan = mustPlan(t, set, s, t0.Add(time.Minute)); !slices.Equal(started(plan), []string{"r2/a@v2"}) {
		t.Errorf("r1 is deleted: starts %q", started(plan))
	}
	if len(plan.Pools) != 1 || plan.Pools[0].Key != "P/y" {
		t.Errorf("with its lease the pool is gone, as it is for the next plan: %+v", plan.Pools)
	}
}

// TestForeseenVetoHidesNothing: overrides let three begin in a zone of two, and one in another
// zone, where one may be active. Who has its turn before these, and no override, waits for a place
// in the first zone, though it is vetoed together with r5, which would begin in the other zone
// without a key.
func TestForeseenVetoHidesNothing(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}},
		{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"anyApproval":{"minApprovals":1}}`))
	s := inEnvironments(fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}}), "staging")
	for k, zone := range []string{"y", "y", "y", "x", "x"} {
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "staging" && t.Resource != "r1" })
	for k, environment := range []string{"prod", "staging"} { // so the group of staging comes after that of prod
		s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: "a", Environment: environment, By: "ann", Status: rollout.Approved, At: minute(k - 2)})
		s.Versions[k].CreatedAt = minute(k - 5)
	}
	for k, environment := range []string{"staging", "prod", "prod", "prod"} {
		s.Overrides = append(s.Overrides, override("P", only(s.Resources[k].ID), in(environment), func(o *rollout.Override) { o.ID = fmt.Sprint(k) }))
	}
	waits := []string{}
	for wait := range mustPlan(t, set, s, t0).Waiting.All() {
		for _, b := range wait.Blockers {
			waits = append(waits, wait.Resource+" "+string(b.Reason)+" "+ownPool(b))
		}
	}
	if got, want := strings.Join(waits, ", "), "r1 slot_full P/y, r5 slot_keys_full P/x"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestForeseenVetoKeepsStrictOrder: who waits for a key reserves its place in a strict pool, also
// while another candidate would begin without a key and is vetoed: r5 does not pass r4.
func TestForeseenVetoKeepsStrictOrder(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"resource.metadata['zone'] != 'none'","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}},
		{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":3,"strict":true}}`))
	s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k, zone := range []string{"x", "y", "y", "z", "none"} {
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	for k, resource := range []string{"r1", "r2"} {
		s.Overrides = append(s.Overrides, override("P", only(resource), func(o *rollout.Override) { o.ID = fmt.Sprint(k) }))
	}
	plan := mustPlan(t, set, s, t0)
	waits := []string{}
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			waits = append(waits, wait.Resource+" "+string(b.Reason)+" "+ownPool(b))
		}
	}
	if got, want := strings.Join(waits, ", "), "r3 slot_keys_full P/y, r4 slot_keys_full P/z, r5 slot_reserved Q"; got != want || len(plan.Start) != 2 {
		t.Errorf("%d start, and %s, want %s", len(plan.Start), got, want)
	}
}

// TestForeseenVetoIsTakenBack: r2 would begin in zone x, which is active only for a claim that
// nobody uses, while an override lets r4 begin in zone y. So r2 is vetoed, and r5 with it, which
// waits behind it. But then r3 gets the places that r2 leaves and r4 needs, and y stays without a
// start: nothing is left that vetoes r5.
func TestForeseenVetoIsTakenBack(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"resource.metadata['zone'] != 'none'","limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}},
		{"id":"Q","resourceConcurrency":{"groupSelector":"resource.id in ['r3', 'r4']","limit":1}},{"id":"R","resourceConcurrency":{"groupSelector":"resource.id in ['r2', 'r3']","limit":1}}`))
	s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k, zone := range []string{"x", "x", "none", "y", "x"} {
		s.Resources[k].Metadata = map[string]string{"zone": zone}
	}
	plan := mustPlan(t, set, s, t0)
	state, err := plan.Commit(plan.Start[:1], t0)
	if err != nil || plan.Start[0].Resource != "r1" {
		t.Fatal(plan.Start, err)
	}
	s.State, s.Overrides = state, []rollout.Override{override("P", only("r4"))}
	plan = mustPlan(t, set, s, minute(1))
	waits := []string{}
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			waits = append(waits, wait.Resource+" "+string(b.Reason)+" "+ownPool(b))
		}
	}
	if got, want := strings.Join(waits, ", "), "r2 slot_keys_full P/x, r4 slot_full Q"; got != want || !slices.Equal(started(plan), []string{"r1/a@v2", "r3/a@v2", "r5/a@v2"}) {
		t.Errorf("%q start, and %s, want %s", started(plan), got, want)
	}
}
