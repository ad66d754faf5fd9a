package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/bracket/brackettest"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// recordingStore notes what is written, in order.
type recordingStore struct {
	bracket.Store
	writes []string
}

func (r *recordingStore) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	r.writes = append(r.writes, "save "+key)
	return r.Store.Save(ctx, key, value, revision)
}

func (r *recordingStore) Delete(ctx context.Context, key string, revision int64) error {
	r.writes = append(r.writes, "delete "+key)
	return r.Store.Delete(ctx, key, revision)
}

func kinds(writes []string) (list []string) {
	for _, w := range writes {
		parts := strings.Split(strings.Replace(w, "bracket/", "", 1), "/")
		list = append(list, parts[0])
	}
	return slices.Compact(list)
}

// TestPlannerSavesInOrder: groups, rollouts, slots, executions: a crash in between leaves too much
// claimed, never too little.
func TestPlannerSavesInOrder(t *testing.T) {
	store := &recordingStore{Store: &bracket.MemoryStore{}}
	now := clock.NewFake(day2)
	planner := rollout.Planner{Policies: compile(t, nodeLifecycle(t)), Store: store, Clock: now}
	s := nodeFleet(10)
	plan, err := planner.Plan(context.Background(), s)
	if err != nil || len(plan.Start) != 1 {
		t.Fatal(started(plan), err)
	}
	if got, want := kinds(store.writes), []string{"save group", "save rollout", "save pool", "save execution"}; !slices.Equal(got, want) {
		t.Errorf("writes %q, want %q", store.writes, want)
	}
	store.writes = nil
	add(&s, plan.Start[0], job(plan.Start[0], day2, rollout.JobInProgress))
	plan, err = planner.Plan(context.Background(), s)
	if err != nil || len(plan.Start) != 0 || len(store.writes) > 1 { // the job that was seen for the first time is noted
		t.Errorf("nothing new: starts %q, writes %q, %v", started(plan), store.writes, err)
	}
	store.writes = nil
	if plan, err = planner.Plan(context.Background(), s); err != nil || len(plan.Start) != 0 || len(store.writes) != 0 {
		t.Errorf("nothing changed: starts %q, writes %q, %v", started(plan), store.writes, err)
	}
}

// TestPlannerSavesPools: the record of a pool is written when its leases change, and then only; who
// claims names the revision that was read.
func TestPlannerSavesPools(t *testing.T) {
	t.Parallel()
	store := &recordingStore{Store: &bracket.MemoryStore{}}
	now := clock.NewFake(t0)
	planner := rollout.Planner{Store: store, Clock: now,
		Policies: compile(t, `[{"name":"p","selector":"true","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":600}}]},
			{"name":"nobody's","selector":"false","rules":[{"id":"empty","resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`)}
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	run := func(status rollout.JobStatus, ended time.Time) func() {
		return func() {
			s.Targets[0].Jobs = []rollout.Job{{Run: "r1/prod/api/v2/1", Version: "v2", Status: status, CreatedAt: minute(1), CompletedAt: ended}}
		}
	}
	revision := uint64(0) // that was written last
	for at, row := range []struct {
		why    string
		edit   func()
		writes []string
		starts int
	}{
		{"a lease is taken", nil, []string{"save pool/P"}, 1},
		{"its holder is seen at work", run(rollout.JobInProgress, time.Time{}), []string{"save pool/P"}, 0},
		{"and once more", nil, nil, 0},
		{"the lease is given back", run(rollout.JobSuccessful, minute(3)), []string{"save pool/P"}, 0},
		{"nobody has one", nil, nil, 0},
		{"another one is taken", func() {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: t0})
		}, []string{"save pool/P"}, 1},
	} {
		now.Set(minute(at))
		if row.edit != nil {
			row.edit()
		}
		store.writes = nil
		plan, err := planner.Plan(t.Context(), s)
		if err != nil || !slices.Equal(store.writes, row.writes) || len(plan.Start) != row.starts {
			t.Errorf("%s: starts %q, writes %q, %v", row.why, started(plan), store.writes, err)
		}
		for _, start := range plan.Start {
			if start.Claims[0].Revision != revision {
				t.Errorf("%s: claims revision %d, and %d was read", row.why, start.Claims[0].Revision, revision)
			}
		}
		_, stored, err := store.Load(t.Context(), rollout.PoolRecordKey("P"))
		if err != nil {
			t.Fatal(err)
		}
		revision = uint64(stored)
	}
}

// TestPlannerReadsPoolsInOrder: the store lists the records by the texts of their keys, in which
// P-x comes after P/east. A record that did not change is found all the same, and not written.
func TestPlannerReadsPoolsInOrder(t *testing.T) {
	store := &recordingStore{Store: &bracket.MemoryStore{}}
	planner := rollout.Planner{Store: store, Clock: clock.NewFake(t0), Policies: compile(t, policy(`{"id":"P-x","resourceConcurrency":{"groupSelector":"true","limit":1}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['cluster']"}}`))}
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	plan, err := planner.Plan(t.Context(), s)
	if want := []string{"save pool/P-x", "save pool/P%2Feast"}; err != nil || !slices.Equal(store.writes, want) {
		t.Fatalf("writes %q, want %q, %v", store.writes, want, err)
	}
	add(&s, plan.Start[0], job(plan.Start[0], t0, rollout.JobInProgress))
	store.writes = nil
	if _, err := planner.Plan(t.Context(), s); err != nil || len(store.writes) > 0 {
		t.Errorf("nothing changed: writes %q, %v", store.writes, err)
	}
}

// TestPlannerWithoutAPlan: whatever write fails, and whatever is wrong with what is to be planned,
// there is an error and no plan. A record that somebody else has deleted is gone.
func TestPlannerWithoutAPlan(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"m","selector":"deployment.name == 'a'","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}]},
		{"name":"g","selector":"deployment.name == 'c'","rules":[{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}]`)
	// world is where the next plan writes one of each: an execution has ended, another one begins,
	// and a version is replaced.
	world := func() (bracket.Store, rollout.Snapshot) {
		store := &bracket.MemoryStore{}
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
		plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(t0)}).Plan(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range plan.Start {
			add(&s, start, job(start, t0, rollout.JobSuccessful))
		}
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "c" && v.ID == "v2" })
		for _, deployment := range []string{"a", "c"} {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: deployment, Status: rollout.VersionReady, CreatedAt: t0})
		}
		return store, s
	}
	plan := func(store bracket.Store, s rollout.Snapshot) (rollout.Plan, error) {
		return (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(minute(1))}).Plan(t.Context(), s)
	}
	seen := map[string]bool{}
	for n := 0; ; n++ {
		writes, failed := 0, false
		inner, s := world()
		got, err := plan(brackettest.NewFaultStore(inner, func(c brackettest.Call) brackettest.Fault {
			if c.Method != "Save" && c.Method != "Delete" {
				return brackettest.None
			}
			if writes++; writes != n+1 {
				return brackettest.None
			}
			failed = true
			seen[kinds([]string{strings.ToLower(c.Method) + " " + c.Key})[0]] = true
			return brackettest.Lose
		}), s)
		if !failed {
			break
		}
		if !errors.Is(err, brackettest.ErrInjected) || len(got.Start) > 0 || !got.Now.IsZero() {
			t.Errorf("write %d is lost: starts %q, %v", n+1, started(got), err)
		}
	}
	for _, kind := range []string{"save group", "save rollout", "save execution", "save pool", "delete rollout"} {
		if !seen[kind] {
			t.Errorf("no %s was lost", kind)
		}
	}
	inner, s := world()
	gone := &deletedStore{Store: inner}
	if got, err := plan(gone, s); err != nil || gone.deletes == 0 || len(got.Start) == 0 {
		t.Errorf("it is deleted already: starts %q, %d deletes, %v", started(got), gone.deletes, err)
	}
	s.Targets = append(s.Targets, s.Targets[0])
	var fault *rollout.FieldError
	if got, err := plan(inner, s); !errors.As(err, &fault) || len(got.Start) > 0 {
		t.Errorf("a target is listed twice: starts %q, %v", started(got), err)
	}
}

// deletedStore has no record any more that is to be deleted.
type deletedStore struct {
	bracket.Store
	deletes int
}

func (d *deletedStore) Delete(context.Context, string, int64) error {
	d.deletes++
	return bracket.ErrNotFound
}

// TestPlannerForgets: the record of a rollout goes with its version.
func TestPlannerForgets(t *testing.T) {
	store := &recordingStore{Store: &bracket.MemoryStore{}}
	planner := rollout.Planner{Policies: compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`)), Store: store, Clock: clock.NewFake(t0)}
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	if _, err := planner.Plan(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	s.Versions = s.Versions[:1]
	store.writes = nil
	plan, err := planner.Plan(context.Background(), s)
	if err != nil || len(plan.State.Rollouts) != 0 || len(store.writes) != 1 || !strings.HasPrefix(store.writes[0], "delete rollout/") {
		t.Errorf("records %+v, writes %q, %v", plan.State.Rollouts, store.writes, err)
	}
}

// TestHostForgetsResources: the record of the executions on a resource outlives it. In a fleet whose
// nodes come and go under ids of their own, a host deletes the record once the resource is gone.
// Nothing that is planned afterwards differs for that, whether the planner had read the record
// before or not, and whether the host still says that the resource was deleted or not.
func TestHostForgetsResources(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.id == 'a'"}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`))
	play := func(forgets, tells bool) (log []string, records int) {
		store := &bracket.MemoryStore{}
		now := clock.NewFake(t0)
		planner := rollout.Planner{Policies: set, Store: store, Clock: now}
		s := fleet(2, "v1", map[string][]string{"a": {"v1"}, "b": {"v1", "v2"}})
		for k := range 24 {
			now.Set(minute(k))
			if k%6 == 3 { // the older node is gone, in the midst of its execution or after it, and a new one is there
				gone, fresh := s.Resources[0].ID, fmt.Sprintf("n%d", k)
				s.Resources = append(slices.Clone(s.Resources[1:]), rollout.Resource{ID: fresh})
				s.Targets = slices.Clone(s.Targets)
				for i := range s.Targets {
					if s.Targets[i].Resource == gone {
						s.Targets[i] = rollout.Target{TargetID: rollout.TargetID{Resource: fresh, Environment: "prod", Deployment: s.Targets[i].Deployment}, JoinedAt: minute(k)}
					}
				}
				s.DeletedResources = append(slices.Clone(s.DeletedResources), gone)
			}
			if k%6 == 5 {
				s.Versions = append(slices.Clone(s.Versions), rollout.Version{ID: fmt.Sprint("w", k), Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(k)})
			}
			plan, err := planner.Plan(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			log = append(log, plan.String())
			for i := range s.Targets { // what was at work is done
				for j := range s.Targets[i].Jobs {
					if at := &s.Targets[i].Jobs[j]; at.Status == rollout.JobInProgress {
						at.Status, at.CompletedAt = rollout.JobSuccessful, minute(k)
					}
				}
			}
			for _, start := range plan.Start {
				add(&s, start, job(start, minute(k), rollout.JobInProgress))
			}
			for _, record := range plan.State.Executions {
				if forgets && record.Open == nil && slices.Contains(s.DeletedResources, record.Resource) {
					key := bracket.ExecutionKey(record.Rule, record.Resource)
					if _, revision, err := store.Load(t.Context(), key); err != nil {
						t.Fatal(err)
					} else if err := store.Delete(t.Context(), key, revision); err != nil {
						t.Fatal(err)
					}
				}
			}
			if !tells && k%6 == 4 {
				s.DeletedResources = nil
			}
			records = len(plan.State.Executions)
		}
		return log, records
	}
	want, all := play(false, true)
	if text := strings.Join(want, "\n"); !strings.Contains(text, ", cancelled at") || !strings.Contains(text, ", completed at") {
		t.Errorf("no node left in the midst of its execution, or after it:\n%s", text)
	}
	for _, tells := range []bool{true, false} {
		got, few := play(true, tells)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tells %v: the plans differ (-keeping +forgetting):\n%s", tells, diff)
		}
		if all < 6 || few > 3 {
			t.Errorf("tells %v: %d records are kept, and %d of a host that forgets", tells, all, few)
		}
	}
}

// TestPlannerConflicts: a decision on state that somebody else changed is made again, three times
// in all; every other error is returned at once.
func TestPlannerConflicts(t *testing.T) {
	for _, row := range []struct {
		why    string
		faults []brackettest.Fault // of the saves, one after the other
		tries  int                 // how often a group was to be saved
		want   error
	}{
		{"no conflict", nil, 1, nil},
		{"one conflict", []brackettest.Fault{brackettest.Conflict}, 2, nil},
		{"two conflicts", []brackettest.Fault{brackettest.Conflict, brackettest.Conflict}, 3, nil},
		{"three conflicts: somebody else does the work", []brackettest.Fault{brackettest.Conflict, brackettest.Conflict, brackettest.Conflict}, 3, bracket.ErrConflict},
		{"a lost save is no conflict", []brackettest.Fault{brackettest.Lose}, 1, brackettest.ErrInjected},
		{"a lost answer neither", []brackettest.Fault{brackettest.LoseAnswer}, 1, brackettest.ErrInjected},
		{"a crash", []brackettest.Fault{brackettest.Crash}, 1, brackettest.ErrCrashed},
	} {
		faults, tries := row.faults, 0
		store := brackettest.NewFaultStore(&bracket.MemoryStore{}, func(c brackettest.Call) brackettest.Fault {
			if c.Method != "Save" {
				return brackettest.None
			}
			if strings.HasPrefix(c.Key, "bracket/group/") {
				tries++
			}
			if len(faults) == 0 {
				return brackettest.None
			}
			fault := faults[0]
			faults = faults[1:]
			return fault
		})
		planner := rollout.Planner{Policies: compile(t, nodeLifecycle(t)), Store: store, Clock: clock.NewFake(day2)}
		plan, err := planner.Plan(context.Background(), nodeFleet(10))
		if !errors.Is(err, row.want) || (err == nil) != (row.want == nil) || tries != row.tries {
			t.Errorf("%s: %v after %d tries, want %v after %d", row.why, err, tries, row.want, row.tries)
		}
		if err != nil && (len(plan.Start) > 0 || !plan.Now.IsZero()) {
			t.Errorf("%s: an error and a plan: %+v", row.why, plan)
		}
		if err == nil && len(plan.Start) != 1 {
			t.Errorf("%s: starts %q", row.why, started(plan))
		}
	}
}

// TestPlannerFirstList: leases of a family were given when nobody kept a list of those that are
// confirmed. The first plan that starts there saves a list of them before it claims anything: were
// it to stop in between, what it claims and never confirms would pass for one of those. From then
// on there is a list, and no plan that starts nothing writes it.
func TestPlannerFirstList(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":2}}`))
	for _, listed := range []bool{false, true} { // a record of the family, without a list
		inner, now := &bracket.MemoryStore{}, clock.NewFake(t0)
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k := range s.Resources {
			s.Resources[k].Metadata = map[string]string{"zone": s.Resources[k].ID}
		}
		save := func(record concurrency.Record) {
			if _, err := inner.Save(t.Context(), rollout.PoolRecordKey(record.Key), []byte(text(t, record)), 0); err != nil {
				t.Fatal(err)
			}
		}
		old, err := concurrency.NewRecord("P/r2").Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r2", Group: "target/prod/a"}, t0)
		if err != nil {
			t.Fatal(err)
		}
		save(old)
		if listed {
			save(concurrency.NewRecord("P"))
		}
		s.Targets[1].Jobs = []rollout.Job{{Run: "r2/prod/a/v2/1", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}}
		var lists []string
		plan := func(s rollout.Snapshot) []string {
			lists = nil
			store := &recordingStore{Store: inner}
			planner := rollout.Planner{Policies: set, Clock: now, Store: brackettest.NewFaultStore(store, func(c brackettest.Call) brackettest.Fault {
				if c.Method == "Save" && c.Key == rollout.PoolRecordKey("P/r1") {
					lists = append(lists, text(t, storedPool(t, inner, "P").Confirmed))
				}
				return brackettest.None
			})}
			plan, err := planner.Plan(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			carryOut(t, &s, plan, now.Now(), rollout.JobInProgress)
			return store.writes
		}
		idle := s
		idle.Targets = s.Targets[1:2]
		if writes := plan(idle); slices.Contains(writes, "save "+rollout.PoolRecordKey("P")) {
			t.Errorf("record %v: nobody starts, and a list is saved: %q", listed, writes)
		}
		want := []string{rollout.PoolRecordKey("P"), rollout.PoolRecordKey("P/r1"), rollout.PoolRecordKey("P")}
		var pools []string
		for _, w := range plan(s) {
			if key, saved := strings.CutPrefix(w, "save "); saved && strings.HasPrefix(key, "pool/") {
				pools = append(pools, key)
			}
		}
		if got := text(t, storedPool(t, inner, "P").Confirmed); !slices.Equal(pools, want) || !slices.Equal(lists, []string{`[{"pool":"P/r2","token":1}]`}) || got != `[{"pool":"P/r1","token":1},{"pool":"P/r2","token":1}]` {
			t.Errorf("record %v: saves %q, with the list %q, then %s", listed, pools, lists, got)
		}
		now.Advance(time.Minute)
		if writes := plan(s); slices.ContainsFunc(writes, func(w string) bool { return strings.HasPrefix(w, "save pool/") }) {
			t.Errorf("record %v: nothing is new, and it saves %q", listed, writes)
		}
	}
}

// ticking is a clock that goes on a second whenever it is looked at.
type ticking struct{ now *clock.Fake }

func (c ticking) Now() time.Time {
	c.now.Set(c.now.Now().Add(time.Second))
	return c.now.Now()
}

// TestPlannerPassesEventsOn: somebody else saves a record first when a planner has saved what is
// before it. It plans again, a little later, and finds its own groups closed and its own executions
// ended; the plan that it returns tells of them nevertheless, once, whatever record was the one,
// also if that happens twice.
func TestPlannerPassesEventsOn(t *testing.T) {
	const pool = `,{"resourceConcurrency":{"groupSelector":"true","limit":1}}`
	members := func(more string) string {
		return `{"id":"b","deploymentBracket":{"deploymentSelector":"true","memberRoles":{},` + more + `}}`
	}
	publish := func(s *rollout.Snapshot, at time.Time) {
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "api", Status: rollout.VersionReady, CreatedAt: at})
	}
	for _, row := range []struct {
		why, rules string
		resources  int
		then       func(planner *rollout.Planner, s *rollout.Snapshot, plan rollout.Plan) // between two plans
		want       []string
	}{
		{"an execution ends, and a group follows", members(`"readinessMode":"immediate"`) + pool, 1, func(_ *rollout.Planner, s *rollout.Snapshot, plan rollout.Plan) {
			add(s, plan.Start[0], job(plan.Start[0], t0, rollout.JobSuccessful))
			publish(s, t0)
		}, []string{"execution_ended b/prod/1", "group_closed b/prod/2", "group_opened b/prod/2", "group_superseded b/prod/1"}},
		{"an execution ends, and its group goes on", members(`"readinessMode":"immediate"`) + pool, 2, func(_ *rollout.Planner, s *rollout.Snapshot, plan rollout.Plan) {
			add(s, plan.Start[0], job(plan.Start[0], t0, rollout.JobSuccessful))
		}, []string{"execution_ended b/prod/1"}},
		{"the only version of a group is withdrawn", members(`"readinessWindowSeconds":3600`), 1, func(_ *rollout.Planner, s *rollout.Snapshot, _ rollout.Plan) {
			s.Versions = s.Versions[:1]
		}, []string{"group_cancelled b/prod/1"}},
		{"an execution ends, and the next one is found at work: the state is older than the jobs", members(`"readinessMode":"immediate"`) + pool, 1, func(planner *rollout.Planner, s *rollout.Snapshot, plan rollout.Plan) {
			add(s, plan.Start[0], job(plan.Start[0], t0, rollout.JobSuccessful))
			publish(s, t0)
			next, err := planner.Look(t.Context(), *s)
			if err != nil || len(next.Start) != 1 {
				t.Fatal(started(next), err)
			}
			add(s, next.Start[0], job(next.Start[0], minute(1), rollout.JobInProgress))
		}, []string{"execution_ended b/prod/1", "execution_started b/prod/2", "group_closed b/prod/2", "group_opened b/prod/2", "group_superseded b/prod/1"}},
	} {
		set := compile(t, policy(row.rules))
		saves := 0
		plan := func(conflicts ...int) {
			memory, now := &bracket.MemoryStore{}, clock.NewFake(t0)
			s := fleet(row.resources, "v1", map[string][]string{"api": {"v1", "v2"}})
			planner := rollout.Planner{Policies: set, Store: memory, Clock: ticking{now}}
			plan, err := planner.Plan(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			now.Set(minute(1))
			row.then(&planner, &s, plan)
			saves = 0
			planner.Store = brackettest.NewFaultStore(memory, func(c brackettest.Call) brackettest.Fault {
				if c.Method == "Save" {
					if saves++; slices.Contains(conflicts, saves) {
						return brackettest.Conflict
					}
				}
				return brackettest.None
			})
			plan, err = planner.Plan(t.Context(), s)
			var got []string
			for _, e := range plan.Events {
				got = append(got, string(e.Kind)+" "+e.Group)
			}
			slices.Sort(got)
			if err != nil || !slices.Equal(got, row.want) {
				t.Errorf("%s, conflict at save %v: tells %q, want %q, %v", row.why, conflicts, got, row.want, err)
			}
		}
		plan()
		for all, first := saves, 1; first <= all; first++ {
			plan(first)
			for second := first + 1; second <= first+all; second++ { // in the next round, or never
				plan(first, second)
			}
		}
	}
}

// TestPlannerCrashes: whatever was saved when the planner died, the next one offers the same run,
// in the same slot, and only one node is drained.
func TestPlannerCrashes(t *testing.T) {
	want := ""
	for n := 0; ; n++ {
		inner := &bracket.MemoryStore{}
		store := brackettest.NewFaultStore(inner, brackettest.CrashAfter(n))
		set := compile(t, nodeLifecycle(t))
		_, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(day2)}).Plan(context.Background(), nodeFleet(10))
		survived := err == nil
		if !survived && !errors.Is(err, brackettest.ErrCrashed) {
			t.Fatal(err)
		}
		plan, err := (&rollout.Planner{Policies: set, Store: inner, Clock: clock.NewFake(day2.Add(time.Minute))}).Plan(context.Background(), nodeFleet(10))
		if err != nil || len(plan.Start) != 1 || len(plan.State.Pools) != 1 || len(plan.State.Pools[0].Leases) != 1 {
			t.Fatalf("crash after %d writes: starts %q, pools %+v, %v", n, started(plan), plan.State.Pools, err)
		}
		if want == "" {
			want = plan.Start[0].Run
		}
		if plan.Start[0].Run != want || plan.Start[0].Claims[0].Token != 1 {
			t.Errorf("crash after %d writes: %+v", n, plan.Start[0])
		}
		if survived {
			if n < 4 {
				t.Errorf("only %d writes", n)
			}
			return
		}
	}
}

// TestPlannerAtOnce: one planner, asked by many at once, gives nobody's place away, and its memory
// of what it has read is nobody's alone.
func TestPlannerAtOnce(t *testing.T) {
	t.Parallel()
	store, s := &bracket.MemoryStore{}, nodeFleet(10)
	planner := &rollout.Planner{Policies: compile(t, nodeLifecycle(t)), Store: store, Clock: clock.NewFake(day2.Add(time.Hour))}
	var group sync.WaitGroup
	plans := make([]rollout.Plan, 8)
	failed := make([]error, len(plans))
	for k := range plans {
		group.Go(func() {
			for range 5 {
				if plans[k], failed[k] = planner.Plan(t.Context(), s); !errors.Is(failed[k], bracket.ErrConflict) {
					return
				}
			}
		})
	}
	group.Wait()
	resources := map[string]bool{}
	for k, plan := range plans {
		if failed[k] != nil {
			t.Fatal(failed[k])
		}
		for _, start := range plan.Start {
			resources[start.Resource] = true
		}
	}
	if len(resources) != 2 { // 20 % of ten
		t.Errorf("starts on %d resources", len(resources))
	}
}

// counter answers for a JobCounter.
type counter struct {
	holders map[string][]concurrency.Holder
	err     error
}

func (c counter) Active(_ context.Context, pool string) ([]concurrency.Holder, error) {
	return c.holders[pool], c.err
}

// TestI12PlannerCounter: a label that an expression cannot read holds the targets of its resource,
// and nobody else's, also where jobs are counted.
func TestI12PlannerCounter(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Resources[0].Metadata["rack"], s.Resources[1].Metadata["rack"] = "four", "4"
	racks := compile(t, policy(`{"id":"racks","resourceConcurrency":{"groupSelector":"int(resource.metadata['rack']) > 3","limit":1}}`))
	if keys, err := racks.PoolKeys(s.Resources); !slices.Equal(keys, []string{"racks"}) || err == nil || !strings.Contains(err.Error(), "racks: groupSelector on resource r1") {
		t.Errorf("pools %q, %v", keys, err)
	}
	planner := rollout.Planner{Policies: racks, Store: &bracket.MemoryStore{}, Clock: clock.NewFake(t0), JobCounter: counter{}}
	if plan, err := planner.Plan(context.Background(), s); err != nil || !slices.Equal(started(plan), []string{"r2/api@v2"}) {
		t.Errorf("starts %q, %v", started(plan), err)
	}
}

// TestPlannerCounter: jobs that hold no lease take places too, and a counter that cannot answer is
// an error, never nobody.
func TestPlannerCounter(t *testing.T) {
	set := compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":2}}`))
	s := fleet(4, "", map[string][]string{"api": {"v1"}})
	for _, row := range []struct {
		why  string
		jobs []concurrency.Holder
		want int
	}{
		{"nobody else", nil, 2},
		{"one place is taken", []concurrency.Holder{{Resource: "r4", Group: "by hand"}}, 2}, // r4 itself is down already and takes none
		{"somebody who is not started", []concurrency.Holder{{Resource: "r9", Group: "by hand"}}, 1},
		{"both are taken", []concurrency.Holder{{Resource: "r8", Group: "by hand"}, {Resource: "r9", Group: "by hand"}}, 0},
		{"two jobs of one resource are one", []concurrency.Holder{{Resource: "r9", Group: "a"}, {Resource: "r9", Group: "b"}}, 1},
	} {
		planner := rollout.Planner{Policies: set, Store: &bracket.MemoryStore{}, Clock: clock.NewFake(t0), JobCounter: counter{holders: map[string][]concurrency.Holder{"pool": row.jobs}}}
		plan, err := planner.Plan(context.Background(), s)
		if err != nil || len(plan.Start) != row.want {
			t.Errorf("%s: starts %q, want %d, %v", row.why, started(plan), row.want, err)
		}
	}
	broken := errors.New("no connection")
	planner := rollout.Planner{Policies: set, Store: &bracket.MemoryStore{}, Clock: clock.NewFake(t0), JobCounter: counter{err: broken}}
	if plan, err := planner.Plan(context.Background(), s); !errors.Is(err, broken) || len(plan.Start) > 0 {
		t.Errorf("starts %q, %v", started(plan), err)
	}
}

// TestPlannerRace: two planners that saw the same give the last place to one node only.
func TestPlannerRace(t *testing.T) {
	store := &bracket.MemoryStore{}
	set := compile(t, policy(`{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(4, "", map[string][]string{"api": {"v1"}})
	runs := map[string]bool{}
	for i := range 2 {
		plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(t0.Add(time.Duration(i) * time.Second))}).Plan(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range plan.Start {
			runs[start.Run] = true
		}
	}
	if len(runs) != 1 {
		t.Errorf("runs %v", runs)
	}
}

// interruptedSave does something before a key is saved for the first time, and may crash there.
type interruptedSave struct {
	bracket.Store
	key  string
	turn func() error
}

func (s *interruptedSave) Save(ctx context.Context, key string, value []byte, revision int64) (int64, error) {
	if key == s.key && s.turn != nil {
		turn := s.turn
		s.turn = nil
		if err := turn(); err != nil {
			return 0, err
		}
	}
	return s.Store.Save(ctx, key, value, revision)
}

// TestPlannerHoldsPart: r1 needs a place in P and one in Q. Between the two saves r2, which needs Q
// alone, takes its only place. What r1 has claimed in P by then is a claim, and nobody is at work
// under it: it must not get into Q above the limit. r1 begins once r2 has ended.
func TestPlannerHoldsPart(t *testing.T) {
	const limits = `"resourceConcurrency":{"groupSelector":"true","limit":1}}`
	for _, bracketed := range []bool{false, true} {
		rules := `{"id":"P",` + limits
		if bracketed {
			rules += `,{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
		}
		set := compile(t, `[{"name":"p","selector":"deployment.name == 'a'","rules":[`+rules+`]},{"name":"q","selector":"true","rules":[{"id":"Q",`+limits+`]}]`)
		for _, crash := range []error{nil, brackettest.ErrCrashed} {
			inner, now := &bracket.MemoryStore{}, clock.NewFake(t0)
			s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return (t.Deployment == "a") != (t.Resource == "r1") })
			others := s // which do not know r1
			others.Targets = s.Targets[1:]
			var start rollout.Start
			turn := func(store bracket.Store, s rollout.Snapshot, want ...string) rollout.Plan {
				t.Helper()
				plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: now}).Plan(t.Context(), s)
				if crash != nil && errors.Is(err, crash) {
					return plan
				}
				if err != nil || !slices.Equal(started(plan), want) {
					t.Fatalf("bracket %v, crash %v: starts %q, want %q, %v", bracketed, crash, started(plan), want, err)
				}
				return plan
			}
			turn(&interruptedSave{Store: inner, key: rollout.PoolRecordKey("Q"), turn: func() error {
				start = turn(inner, others, "r2/b@v2").Start[0]
				return crash
			}}, s, "r2/b@v2") // the same run once more
			add(&s, start, job(start, t0, rollout.JobInProgress))
			turn(inner, s)
			now.Set(minute(1))
			s.Targets[1].Jobs[0].Status, s.Targets[1].Jobs[0].CompletedAt = rollout.JobSuccessful, minute(1)
			plan := turn(inner, s, "r1/a@v2")
			if plan.Start[0].Reason != "slot_free" || plan.Start[0].Claims[0].Token != 1 {
				t.Errorf("bracket %v, crash %v: %+v", bracketed, crash, plan.Start[0])
			}
		}
	}
}

// interruptedStore lets somebody else have a turn after the n-th list.
type interruptedStore struct {
	bracket.Store
	lists, after int
	turn         func()
}

func (s *interruptedStore) List(ctx context.Context, prefix string) ([]bracket.Entry, error) {
	entries, err := s.Store.List(ctx, prefix)
	if s.lists++; s.lists == s.after {
		s.turn()
	}
	return entries, err
}

func storedPool(t *testing.T, store bracket.Store, key string) concurrency.Record {
	t.Helper()
	value, _, err := store.Load(t.Context(), rollout.PoolRecordKey(key))
	if err != nil {
		t.Fatal(err)
	}
	record, err := concurrency.ParseRecord(value)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// oldList is a client of a store that is answered once, as soon as old is set, with the records of
// a prefix as it has seen them first.
func oldList(inner bracket.Store, prefix string) (client bracket.Store, old *bool) {
	old = new(bool)
	return brackettest.NewFaultStore(inner, func(c brackettest.Call) brackettest.Fault {
		if !*old || c.Method != "List" || c.Key != prefix {
			return brackettest.None
		}
		*old = false
		return brackettest.Stale
	}), old
}

// unpublished is a fleet of two, and the same where v2 of c is not published yet.
func unpublished() (s, others rollout.Snapshot) {
	s = fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
	others = s
	others.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.Deployment == "c" && v.ID == "v2" })
	others.Targets = slices.Clone(s.Targets)
	return s, others
}

// TestPlannerReadsPoolsFirst: while a planner that has seen r1 at work reads the state, another one
// gives the place of r1 to r2. Whatever it has read by then, the first must not take r1 for down
// and begin something else there.
func TestPlannerReadsPoolsFirst(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for after := range 5 {
		for _, jobs := range []rollout.JobStatus{rollout.JobInProgress, rollout.JobSuccessful} { // as the first has seen them
			inner := &bracket.MemoryStore{}
			s, others := unpublished()
			plan := planAt(t, inner, set, others, t0)
			if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) {
				t.Fatalf("starts %q", got)
			}
			add(&others, plan.Start[0], job(plan.Start[0], t0, rollout.JobInProgress))
			planAt(t, inner, set, others, t0) // it sees the job
			add(&s, plan.Start[0], job(plan.Start[0], t0, jobs))
			others.Targets[0].Jobs[0].Status, others.Targets[0].Jobs[0].CompletedAt = rollout.JobSuccessful, minute(1)
			other := func() {
				if got := started(planAt(t, inner, set, others, minute(1))); !slices.Equal(got, []string{"r2/a@v2"}) {
					t.Errorf("the other one starts %q", got)
				}
			}
			store := &interruptedStore{Store: inner, after: after, turn: other}
			if after == 0 {
				other()
			}
			first := started(planAt(t, store, set, s, minute(1)))
			record := storedPool(t, inner, "P")
			disrupted := map[string]bool{}
			for _, lease := range record.Leases {
				disrupted[lease.Resource] = true
			}
			if len(disrupted) != 1 {
				t.Errorf("after %d lists, with a job seen %s: starts %q, %d resources hold a slot", after, jobs, first, len(disrupted))
			}
		}
	}
}

// TestPlannerReadsOldExecutions: a planner reads the pool as it is, in which r2 has the only place,
// and of executions a list from when r1 had it. Nobody starts on r1 because of that, whatever the
// planner knows of the job there.
func TestPlannerReadsOldExecutions(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for _, seen := range []rollout.JobStatus{"", rollout.JobInProgress, rollout.JobSuccessful} {
		inner := &bracket.MemoryStore{}
		client, old := oldList(inner, "bracket/execution/")
		s, others := unpublished()
		plan := planAt(t, client, set, others, t0)
		add(&others, plan.Start[0], job(plan.Start[0], t0, rollout.JobInProgress))
		planAt(t, inner, set, others, t0)
		if seen != "" {
			add(&s, plan.Start[0], job(plan.Start[0], t0, seen))
		}
		others.Targets[0].Jobs[0].Status, others.Targets[0].Jobs[0].CompletedAt = rollout.JobSuccessful, minute(1)
		if got := started(planAt(t, inner, set, others, minute(1))); !slices.Equal(got, []string{"r2/a@v2"}) {
			t.Fatalf("the other one starts %q", got)
		}
		*old = true
		first := started(planAt(t, client, set, s, minute(1)))
		if *old {
			t.Fatal("nothing old was read")
		}
		for _, lease := range storedPool(t, inner, "P").Leases {
			if lease.Resource != "r2" {
				t.Errorf("with a job seen %q: starts %q, and %s holds a slot", seen, first, lease.Resource)
			}
		}
	}
}

// TestPlannerReadsAnOldPool: the rule P is called Q by now. A planner reads Q as it is, in which r2
// has the only place, and P from when r1 had a lease there, which would give it a place in Q as
// long as it is held.
func TestPlannerReadsAnOldPool(t *testing.T) {
	t.Parallel()
	limit := func(id string) *rollout.PolicySet {
		return compile(t, policy(`{"id":"`+id+`","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"again","retry":{"maxRetries":3}}`))
	}
	inner := &bracket.MemoryStore{}
	client, old := oldList(inner, "pool/")
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	plan := planAt(t, client, limit("P"), s, t0)
	add(&s, plan.Start[0], job(plan.Start[0], t0, rollout.JobFailure))
	others := s
	others.Targets = slices.Clone(s.Targets)
	again := planAt(t, inner, limit("P"), others, t0).Start[0]
	add(&others, again, job(again, minute(1), rollout.JobSuccessful))
	if got := started(planAt(t, inner, limit("Q"), others, minute(1))); !slices.Equal(got, []string{"r2/a@v2"}) {
		t.Fatalf("the other one starts %q", got)
	}
	*old = true
	if got := started(planAt(t, client, limit("Q"), s, minute(1))); !slices.Equal(got, []string{"r2/a@v2"}) {
		t.Errorf("starts %q", got)
	}
	if *old {
		t.Error("nothing old was read")
	}
}

// TestPlannerConfirmsWhatItChanges: an execution is open, and a pool comes that it counts in
// because of its record alone. Its next start confirms that record and then changes it: the planner
// must not take its own confirmation for somebody else's save.
func TestPlannerConfirmsWhatItChanges(t *testing.T) {
	t.Parallel()
	const members = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"D","deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`
	store := &bracket.MemoryStore{}
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	first := planAt(t, store, compile(t, policy(members)), s, t0)
	if got := started(first); !slices.Equal(got, []string{"r1/a@v2"}) {
		t.Fatalf("starts %q", got)
	}
	add(&s, first.Start[0], job(first.Start[0], t0, rollout.JobSuccessful))
	limited := compile(t, policy(members+`,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	rounds := 0
	plan := planAt(t, brackettest.NewFaultStore(store, func(c brackettest.Call) brackettest.Fault {
		if c.Method == "List" && c.Key == "pool/" {
			rounds++
		}
		return brackettest.None
	}), limited, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r1/b@v2"}) || rounds != 1 {
		t.Errorf("starts %q after %d rounds", got, rounds)
	}
}

// TestPlannerCommitsAtItsNow: a host may stamp its jobs with the now of the plan, although the
// clock has gone on when the plan is committed. A lease that was younger than its job would never
// be given back for the end of it.
func TestPlannerCommitsAtItsNow(t *testing.T) {
	t.Parallel()
	store := &bracket.MemoryStore{}
	planner := rollout.Planner{Policies: compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`)), Store: store, Clock: ticking{clock.NewFake(t0)}}
	plan, err := planner.Plan(t.Context(), fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}))
	if err != nil {
		t.Fatal(err)
	}
	if leases := storedPool(t, store, "P").Leases; len(leases) != 1 || !leases[0].Since.Equal(plan.Now) {
		t.Errorf("planned at %v, leases %+v", plan.Now, leases)
	}
}

// TestPlannerReadsAgain: a planner that keeps what it has read plans as one that has read nothing,
// whatever becomes of the records in between.
func TestPlannerReadsAgain(t *testing.T) {
	t.Parallel()
	set := compile(t, nodeLifecycle(t))
	kept := &rollout.Planner{Policies: set, Clock: clock.NewFake(day2.Add(20 * time.Minute))}
	s := nodeFleet(10)
	first := &bracket.MemoryStore{}
	kept.Store = first
	plan, err := kept.Plan(t.Context(), s)
	if err != nil || len(plan.Start) == 0 {
		t.Fatal(started(plan), err)
	}
	begun := plan.Start[0]
	same := func(why string, store bracket.Store) rollout.Plan {
		t.Helper()
		kept.Store = store
		plan, err := kept.Look(t.Context(), s)
		fresh, other := (&rollout.Planner{Policies: set, Store: store, Clock: kept.Clock}).Look(t.Context(), s)
		if err != nil || other != nil {
			t.Fatal(why, err, other)
		}
		if diff := cmp.Diff(text(t, fresh), text(t, plan)); diff != "" {
			t.Errorf("%s (-read anew +kept):\n%s", why, diff)
		}
		return plan
	}
	same("nothing has changed", first)
	add(&s, begun, job(begun, day2.Add(20*time.Minute), rollout.JobInProgress))
	if _, err := (&rollout.Planner{Policies: set, Store: first, Clock: kept.Clock}).Plan(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if before := same("somebody else has saved", first); len(before.State.Executions) == 0 {
		t.Error("no execution is open")
	}
	key := bracket.ExecutionKey("Node Lifecycle/deploymentBracket/0", begun.Resource)
	_, revision, err := first.Load(t.Context(), key)
	if err == nil {
		err = first.Delete(t.Context(), key, revision)
	}
	if err != nil {
		t.Fatal(key, err)
	}
	same("a record is gone", first)
	restored := &bracket.MemoryStore{} // in which revisions begin again
	if _, err := (&rollout.Planner{Policies: set, Store: restored, Clock: clock.NewFake(day2.Add(10 * time.Minute))}).Plan(t.Context(), nodeFleet(7)); err != nil {
		t.Fatal(err)
	}
	same("the store was restored", restored)
	if _, err := restored.Save(t.Context(), "pool/x", []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := kept.Look(t.Context(), s); err == nil || !strings.Contains(err.Error(), "pool/x") {
			t.Errorf("a record that is none: %v", err)
		}
	}
}

// TestPlannerDecodesChanges: what is as it was is not decoded again, neither its texts nor its
// lists.
func TestPlannerDecodesChanges(t *testing.T) {
	store, set, s := &bracket.MemoryStore{}, compile(t, nodeLifecycle(t)), nodeFleet(200)
	fake := clock.NewFake(day2.AddDate(0, 0, 1))
	kept := &rollout.Planner{Policies: set, Store: store, Clock: fake}
	plan, err := kept.Plan(t.Context(), s)
	if err != nil || len(plan.Start) < 30 {
		t.Fatalf("%d starts, %v", len(plan.Start), err)
	}
	for _, start := range plan.Start {
		add(&s, start, job(start, fake.Now(), rollout.JobInProgress))
	}
	look := func(p *rollout.Planner) {
		if _, err := p.Look(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	look(kept)
	again := testing.AllocsPerRun(5, func() { look(kept) })
	anew := testing.AllocsPerRun(5, func() { look(&rollout.Planner{Policies: set, Store: store, Clock: fake}) })
	if again > anew/3 {
		t.Errorf("%.0f allocations, and %.0f by a planner that has read nothing before", again, anew)
	}
}

// TestPlannerCancelled: a context that is done is the error.
func TestPlannerCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	planner := rollout.Planner{Policies: compile(t, "[]"), Store: &bracket.MemoryStore{}, Clock: clock.NewFake(t0)}
	if _, err := planner.Plan(ctx, fleet(1, "", map[string][]string{"api": {"v1"}})); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestPlannerRefusesGarbage: a record that no planner wrote is an error that names its key. It is
// no FieldError: the host would look for the fault in its snapshot. It tells what is wrong with the
// record, not that what was not read belongs under another key.
func TestPlannerRefusesGarbage(t *testing.T) {
	started := `"rule":"r","environment":"prod","startAt":"2025-01-01T00:00:00Z"`
	for _, row := range [][2]string{
		{"rollout/x", `{"schema":99}`}, {"pool/x", `{"schema":99}`}, {bracket.GroupKey("r", "prod"), `{"schema":99}`}, {bracket.ExecutionKey("r", "n"), `{"schema":99}`},
		{"rollout/r/prod///", `{"schema":2,` + started + `,"n0":1}`}, {"rollout/r/prod///", `{` + started + `,"n0":1}`}, {"rollout/r/staging///", `{"schema":1,` + started + `,"n0":1}`},
		{"rollout/r/prod///", `{"schema":1,` + started + `,"n0":-1}`}, {"rollout/r/prod///", `{"schema":1,"rule":"r","environment":"prod","startAt":"0001-01-01T00:00:00Z","n0":1}`},
		{"rollout/r/prod///", `{"schema":1,` + started + `,"n0":1,"order":[]}`},
		{"rollout/r/prod///", "null"}, {"pool/x", "null"}, {bracket.GroupKey("r", "prod"), "null"}, {bracket.ExecutionKey("r", "n"), "null"},
	} {
		key := row[0]
		store := &bracket.MemoryStore{}
		if _, err := store.Save(context.Background(), key, []byte(row[1]), 0); err != nil {
			t.Fatal(err)
		}
		planner := rollout.Planner{Policies: compile(t, "[]"), Store: store, Clock: clock.NewFake(t0)}
		var fault *rollout.FieldError
		if _, err := planner.Plan(context.Background(), fleet(1, "", map[string][]string{"api": {"v1"}})); err == nil || !strings.Contains(err.Error(), key) || errors.As(err, &fault) || strings.Contains(err.Error(), "belongs under") != (key == "rollout/r/staging///") {
			t.Errorf("%s %s: %v", key, row[1], err)
		}
	}
}

// TestKeysOfRecords: a host that wants to delete what is left of a rule finds every record in the
// state of a plan that only looks, and knows the key under which the store has it.
func TestKeysOfRecords(t *testing.T) {
	const rules = `{"id":"B/1","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`
	store := &bracket.MemoryStore{}
	planner := rollout.Planner{Policies: compile(t, policy(rules)), Store: store, Clock: clock.NewFake(t0)}
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	if _, err := planner.Plan(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	planner.Policies = compile(t, `[]`) // all rules are gone
	plan, err := planner.Look(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, record := range plan.State.Brackets {
		keys = append(keys, bracket.GroupKey(record.Rule, record.Environment))
	}
	for _, record := range plan.State.Executions {
		keys = append(keys, bracket.ExecutionKey(record.Rule, record.Resource))
	}
	for _, record := range plan.State.Rollouts {
		keys = append(keys, rollout.RolloutRecordKey(record))
	}
	for _, record := range plan.State.Pools {
		keys = append(keys, rollout.PoolRecordKey(record.Key))
	}
	slices.Sort(keys)
	entries, err := store.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var stored []string
	for _, entry := range entries {
		stored = append(stored, entry.Key)
	}
	if !slices.Equal(keys, stored) || len(plan.State.Brackets)*len(plan.State.Executions)*len(plan.State.Rollouts)*len(plan.State.Pools) == 0 {
		t.Errorf("the state has %q, the store %q; there must be some of each kind", keys, stored)
	}
}

// TestDefectRecordUnderAnotherKey: a record under a key that is not its own is an error that names
// both. Only those of rollouts were refused so. Any other was taken as it is, the next change was
// saved under the right key, and from then on nobody could plan with the two of them.
func TestDefectRecordUnderAnotherKey(t *testing.T) {
	record := func(v any) []byte {
		value, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	pool := concurrency.NewRecord("P")
	for _, row := range []struct {
		why, key, own string
		value         []byte
	}{
		{"a pool", rollout.PoolRecordKey("Q"), rollout.PoolRecordKey("P"), record(pool)},
		{"a pool of one part, where its key has two", "pool/P/east", rollout.PoolRecordKey("P/east"), record(concurrency.NewRecord("P/east"))},
		{"a group of another environment", bracket.GroupKey("B", "staging"), bracket.GroupKey("B", "prod"), record(bracket.NewState("B", "prod").Group)},
		{"a group of another rule", bracket.GroupKey("C", "prod"), bracket.GroupKey("B", "prod"), record(bracket.NewState("B", "prod").Group)},
		{"executions on another resource", bracket.ExecutionKey("B", "r2"), bracket.ExecutionKey("B", "r1"), record(bracket.ExecutionRecord{Schema: 1, Rule: "B", Resource: "r1"})},
		{"a rollout of another deployment", "rollout/g/prod/web/v1/", "rollout/g/prod/api/v1/",
			record(rollout.RolloutRecord{Schema: 1, Rule: "g", Environment: "prod", Deployment: "api", Version: "v1", StartAt: t0, Founders: 1})},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1"}})
		for key, refused := range map[string]bool{row.own: false, row.key: true} {
			store := &bracket.MemoryStore{}
			if _, err := store.Save(t.Context(), key, row.value, 0); err != nil {
				t.Fatal(err)
			}
			planner := rollout.Planner{Policies: compile(t, "[]"), Store: store, Clock: clock.NewFake(t0)}
			for _, read := range []string{"first", "again"} {
				_, err := planner.Plan(t.Context(), s)
				if got := err != nil && strings.HasSuffix(err.Error(), row.key+": the record belongs under the key "+row.own); got != refused || err != nil && !refused {
					t.Errorf("%s under %s, read %s: %v", row.why, key, read, err)
				}
			}
		}
	}
	store := &bracket.MemoryStore{}
	if _, err := store.Save(t.Context(), rollout.PoolRecordKey("Q"), record(pool), 0); err != nil {
		t.Fatal(err)
	}
	err := (&rollout.Planner{Store: store}).Release(t.Context(), concurrency.Lease{Pool: "Q", Holder: concurrency.Holder{Resource: "r1", Group: "g"}, Token: 1})
	if err == nil || errors.Is(err, concurrency.ErrFenced) || !strings.HasSuffix(err.Error(), "pool/Q: the record belongs under the key pool/P") {
		t.Errorf("release: %v", err)
	}
}

// TestPlannerSavesEndsBeforeSlots: in one plan the execution of one environment ends on r1, that of
// another one begins there, and what the first held is given to r2. Wherever the planner stops,
// nobody finds an execution that is open and has lost its slot to somebody else.
func TestPlannerSavesEndsBeforeSlots(t *testing.T) {
	set := compile(t, `[{"name":"b","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]},
		{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}]}]`)
	for writes := 0; ; writes++ {
		inner := &bracket.MemoryStore{}
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Environments = append(s.Environments, rollout.Environment{ID: "staging", Name: "staging"})
		first := planAt(t, inner, set, s, t0)
		if len(first.Start) != 1 || first.Start[0].Resource != "r1" {
			t.Fatalf("starts %q", started(first))
		}
		ended := job(first.Start[0], t0, rollout.JobInProgress)
		ended.Status, ended.CompletedAt = rollout.JobSuccessful, minute(1)
		add(&s, first.Start[0], ended)
		s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "staging", Deployment: "a"}, Current: "v1"})
		store := brackettest.NewFaultStore(inner, brackettest.CrashAfter(writes))
		plan, err := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(minute(2))}).Plan(t.Context(), s)
		if err == nil {
			value, _, _ := inner.Load(t.Context(), bracket.ExecutionKey("B", "r1"))
			if got := started(plan); len(got) != 2 || writes < 4 || !strings.Contains(string(value), `"open":{"group":"B/staging/1"`) {
				t.Errorf("starts %q, %d writes, and saves %s", got, writes, value)
			}
			break
		}
		record := storedPool(t, inner, "P")
		value, _, err := inner.Load(t.Context(), bracket.ExecutionKey("B", "r1"))
		if err != nil {
			t.Fatal(err)
		}
		open := strings.Contains(string(value), `"open":{"group":"B/prod/1"`)
		if _, held := record.Lease(concurrency.Holder{Resource: "r1", Group: "B/prod/1"}); open && !held {
			t.Errorf("after %d writes it is open, and its slot is somebody else's: %+v", writes, record.Leases)
		}
		begun := strings.Contains(string(value), `"open":{"group":"B/staging/1"`)
		if _, given := record.Lease(concurrency.Holder{Resource: "r2", Group: "B/prod/1"}); begun && !given {
			t.Errorf("after %d writes the next one is open before the slots of the plan are saved: %s", writes, value)
		}
	}
}

// TestPlannerSavesMerges: an execution goes on with what it takes over of the next group. Nobody
// ever finds it ended, wherever the planner stops: its node is drained.
func TestPlannerSavesMerges(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{}}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	for writes := 0; ; writes++ {
		inner := &bracket.MemoryStore{}
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		first := planAt(t, inner, set, s, t0)
		if len(first.Start) != 1 || first.Start[0].Deployment != "a" {
			t.Fatalf("starts %q", started(first))
		}
		add(&s, first.Start[0], job(first.Start[0], t0, rollout.JobInProgress))
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(1)})
		store := brackettest.NewFaultStore(inner, brackettest.CrashAfter(writes))
		_, crash := (&rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(minute(1))}).Plan(t.Context(), s)
		value, _, err := inner.Load(t.Context(), bracket.ExecutionKey("B", "r1"))
		if err != nil || !strings.Contains(string(value), `"open":{"group":`) {
			t.Errorf("after %d writes the execution is over: %s, %v", writes, value, err)
		}
		if crash == nil {
			if !strings.Contains(string(value), `"merged":["B/prod/2"]`) || writes < 2 {
				t.Errorf("%d writes, and nothing is taken over: %s", writes, value)
			}
			break
		}
	}
}

// TestNoNow: at the zero time no version exists yet, so a clock that nobody set would start nobody
// and let nobody wait, without a word. A slot that was claimed then would be older than everything
// else: stuck at once, and proved to be given back by every job that ever ended. At the other end of
// time every soak, cooldown and delay would be over.
func TestNoNow(t *testing.T) {
	t.Parallel()
	s, set := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), compile(t, `[]`)
	last := time.Unix(0, math.MaxInt64).UTC()
	for _, row := range []struct {
		why  string
		now  time.Time
		code rollout.Code // empty: it is accepted
	}{
		{"none", time.Time{}, rollout.CodeRequired},
		{"one of the year 0, which some databases write for none", time.Time{}.Add(-1), rollout.CodeOutOfRange},
		{"one at which every wait would be over", last.Add(1), rollout.CodeOutOfRange},
		{"the last one", last, ""},
	} {
		_, direct := set.Plan(s, row.now)
		_, looked := (&rollout.Planner{Policies: set, Store: new(bracket.MemoryStore), Clock: clock.NewFake(row.now)}).Look(t.Context(), s)
		_, linted := set.Lint(s, row.now, time.Hour, rollout.LintOptions{})
		plan := mustPlan(t, compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, t0)
		_, committed := plan.Commit(plan.Start, row.now)
		for what, err := range map[string]error{"Plan": direct, "Look": looked, "Lint": linted, "Commit": committed} {
			var fault *rollout.FieldError
			if errors.As(err, &fault) != (row.code != "") || fault != nil && (fault.Path != "now" || fault.Code != row.code) {
				t.Errorf("%s at %s: %v", what, row.why, err)
			}
		}
	}
}

// TestNoPolicies: a policy set that nobody compiled plans nothing, where an empty list of policies
// lets everybody start.
func TestNoPolicies(t *testing.T) {
	t.Parallel()
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	for name, set := range map[string]*rollout.PolicySet{"nil": nil, "zero": {}} {
		plan, err := set.Plan(s, t0)
		if !errors.Is(err, rollout.ErrNoPolicies) || len(plan.Start) > 0 {
			t.Errorf("%s: %d starts, %v", name, len(plan.Start), err)
		}
		_, lint := set.Lint(s, t0, time.Hour, rollout.LintOptions{})
		_, keys := set.PoolKeys(s.Resources)
		for _, err := range []error{set.Check(s), set.CheckVersion(s.Versions[0]), lint, keys} {
			if !errors.Is(err, rollout.ErrNoPolicies) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if plan, err := compile(t, `[]`).Plan(s, t0); err != nil || len(plan.Start) == 0 {
		t.Errorf("an empty list: %d starts, %v", len(plan.Start), err)
	}
	for _, planner := range []*rollout.Planner{{}, {Policies: compile(t, `[]`), Store: new(bracket.MemoryStore)}, {Store: new(bracket.MemoryStore), Clock: clock.NewFake(t0)}, {Policies: compile(t, `[]`), Clock: clock.NewFake(t0)}} {
		if _, err := planner.Plan(t.Context(), s); err == nil || !strings.Contains(err.Error(), "must have Policies, a Store and a Clock") {
			t.Errorf("%+v: %v", planner, err)
		}
	}
	if err := (&rollout.Planner{}).Release(t.Context(), concurrency.Lease{}); err == nil {
		t.Error("a lease was given back to no store")
	}
}

// TestPlannerLooks: who only asks changes nothing, is told what the next plan would be, of the
// state as it is stored, and of the host's own jobs. What the planner at work starts afterwards is
// the same.
func TestPlannerLooks(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`))
	s := fleet(3, "v1", map[string][]string{"web": {"v1", "v2"}})
	var store bracket.MemoryStore
	var jobs concurrency.MemoryJobs
	if err := errors.Join(jobs.SetPool(t.Context(), "P", []string{"r3"}), jobs.PutJob(t.Context(), concurrency.Job{ID: "1", Resource: "r3", Group: "by hand", Status: "inProgress"})); err != nil {
		t.Fatal(err)
	}
	recorded := 0
	planner := rollout.Planner{Policies: set, Store: &store, Clock: clock.NewFake(minute(1)), JobCounter: &jobs, Recorder: func(rollout.Recording) { recorded++ }}
	looked, err := planner.Look(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := store.List(t.Context(), ""); err != nil || len(entries) != 0 || recorded != 0 {
		t.Errorf("it saved %v, %v and recorded %d", entries, err, recorded)
	}
	plan, err := planner.Plan(t.Context(), s)
	if err != nil || !slices.Equal(started(looked), started(plan)) || len(plan.Start) == 0 {
		t.Errorf("looked %q, started %q, %v", started(looked), started(plan), err)
	}
	explanation, err := looked.Explain(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "web"})
	if err != nil || !strings.HasSuffix(explanation.String(), "pool      P: 2 of 2 active: r1, r3; 1 in the queue") { // r1 starts in this plan
		t.Errorf("%v\n%v", explanation, err)
	}
	if after, err := planner.Look(t.Context(), s); err != nil || !slices.Equal(slices.Sorted(slices.Values(started(after))), slices.Sorted(slices.Values(started(plan)))) || len(after.State.Pools) == 0 {
		t.Errorf("nothing was dispatched, so it is offered again: %q, %v", started(after), err)
	}
	if _, err := new(rollout.Planner).Look(t.Context(), s); err == nil {
		t.Error("a planner without parts looks")
	}
}

// TestPlannerChooses: a host carries out any of the starts, or none of them in an emergency. Only
// those are committed and returned; the rest is offered again, and the log has them all.
func TestPlannerChooses(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":3}}`))
	s := fleet(4, "v1", map[string][]string{"web": {"v1", "v2"}})
	most := 0
	var log []rollout.Recording
	planner := rollout.Planner{
		Policies: set, Store: new(bracket.MemoryStore), Clock: clock.NewFake(minute(1)),
		Choose:   func(plan *rollout.Plan) []rollout.Start { return plan.Start[:min(most, len(plan.Start))] },
		Recorder: func(r rollout.Recording) { log = append(log, r) },
	}
	leases := 0
	for most = range 3 {
		plan, err := planner.Plan(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Start) != most {
			t.Errorf("at most %d: %v", most, started(plan))
		}
		for _, pool := range plan.State.Pools {
			leases = len(pool.Leases)
		}
		if leases != most { // what was claimed before is offered again, first of all
			t.Errorf("at most %d: %d leases", most, leases)
		}
		if offered := log[most].Plan.Start; len(offered) != 3 {
			t.Errorf("at most %d: the log has %d starts", most, len(offered))
		}
		if _, changes, err := set.Replay(log[most]); err != nil || len(changes) > 0 {
			t.Errorf("at most %d: replayed, %v, %v", most, changes, err)
		}
	}
	planner.Choose = func(*rollout.Plan) []rollout.Start { return []rollout.Start{{Run: "mine"}} }
	if _, err := planner.Plan(t.Context(), s); !errors.Is(err, bracket.ErrStale) {
		t.Errorf("a start that was not offered: %v", err)
	}
}

// TestPlannerChoosesTwice: who returns a start twice, as one does who goes through two lists, must
// not dispatch it twice. Each is carried out once, where it stands first, and the host's list stays
// as it is.
func TestPlannerChoosesTwice(t *testing.T) {
	var chosen []rollout.Start
	planner := rollout.Planner{
		Policies: compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":3}}`)), Store: new(bracket.MemoryStore), Clock: clock.NewFake(minute(1)),
		Choose: func(plan *rollout.Plan) []rollout.Start {
			chosen = []rollout.Start{plan.Start[2], plan.Start[0], plan.Start[2], plan.Start[0]}
			return chosen
		},
	}
	plan, err := planner.Plan(t.Context(), fleet(3, "v1", map[string][]string{"web": {"v1", "v2"}}))
	if got, want := started(plan), []string{"r3/web@v2", "r1/web@v2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("starts %q, want %q, %v", got, want, err)
	}
	if leases := plan.State.Pools[0].Leases; len(leases) != 2 {
		t.Errorf("leases %+v, want 2", leases)
	}
	if got, want := started(rollout.Plan{Start: chosen}), []string{"r3/web@v2", "r1/web@v2", "r3/web@v2", "r1/web@v2"}; !slices.Equal(got, want) {
		t.Errorf("the list is now %q", got)
	}
}

// TestPlannerWithoutParts: the error names what is missing, and only that.
func TestPlannerWithoutParts(t *testing.T) {
	set, store, now := compile(t, `[]`), new(bracket.MemoryStore), clock.NewFake(t0)
	for _, row := range []struct {
		planner *rollout.Planner
		missing string
	}{
		{&rollout.Planner{}, "no Policies, no Store, no Clock"},
		{&rollout.Planner{Store: store, Clock: now}, "no Policies"},
		{&rollout.Planner{Policies: set, Clock: now}, "no Store"},
		{&rollout.Planner{Policies: set, Store: store}, "no Clock"},
		{&rollout.Planner{Store: store}, "no Policies, no Clock"},
	} {
		want := "rollout: a Planner must have Policies, a Store and a Clock: this one has " + row.missing
		_, planned := row.planner.Plan(t.Context(), rollout.Snapshot{})
		_, looked := row.planner.Look(t.Context(), rollout.Snapshot{})
		for _, err := range []error{planned, looked} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}
