package rollout_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestRelease: a planner stops between saving and dispatching, and what it claimed a slot for is
// withdrawn. Nobody starts until the host gives the slot back.
func TestRelease(t *testing.T) {
	fake := clock.NewFake(t0)
	p := &rollout.Planner{
		Policies: compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`)),
		Store:    new(bracket.MemoryStore), Clock: fake,
	}
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	plan := func() rollout.Plan {
		t.Helper()
		fake.Advance(time.Minute)
		plan, err := p.Plan(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	if got := started(plan()); !slices.Equal(got, []string{"r1/a@v2"}) {
		t.Fatalf("starts %q", got)
	}
	s.Versions[1].TargetSelector = "resource.name != 'r1'"
	stuck := plan()
	if len(stuck.Start) != 0 || len(stuck.Orphans) != 1 {
		t.Fatalf("starts %q, orphans %+v", started(stuck), stuck.Orphans)
	}
	wait, _ := stuck.Waiting.Of(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"})
	if got := wait.Blockers[0]; got.String() != "slot_full, waits for a free slot in P or the release of an orphan in P" || !slices.Equal(got.Actors(), []rollout.Actor{rollout.ActorFleet, rollout.ActorOperator}) {
		t.Errorf("%v: nobody at work will free the slot: %q", got, got.Actors())
	}
	if e, err := stuck.Explain(wait.TargetID); err != nil || len(e.Pools) != 1 {
		t.Errorf("%v, %+v: it waits for one pool", err, e.Pools)
	}
	orphan := stuck.Orphans[0]
	other := orphan
	other.Token++
	if err := p.Release(t.Context(), other); !errors.Is(err, concurrency.ErrFenced) {
		t.Errorf("another token: %v", err)
	}
	other.ProgressAt = other.ProgressAt.Add(-time.Minute)
	if err := p.Release(t.Context(), other); !errors.Is(err, concurrency.ErrFenced) || errors.Is(err, bracket.ErrConflict) {
		t.Errorf("the holder's later lease is not the orphan in use: %v", err)
	}
	other.Pool = "Q"
	if err := p.Release(t.Context(), other); !errors.Is(err, bracket.ErrNotFound) {
		t.Errorf("another pool: %v", err)
	}

	// The version is for everybody again, and another planner goes on with what the first one had
	// begun.
	s.Versions[1].TargetSelector = ""
	if again := plan(); !slices.Equal(started(again), []string{"r1/a@v2"}) || again.Start[0].Claims[0].Token != orphan.Token {
		t.Fatalf("starts %+v", again.Start)
	}
	if err := p.Release(t.Context(), orphan); !errors.Is(err, bracket.ErrConflict) {
		t.Errorf("a lease under which somebody has started since: %v", err)
	}

	s.Versions[1].TargetSelector = "resource.name != 'r1'"
	orphan, memory := plan().Orphans[0], p.Store
	p.Store = &interruptedSave{Store: memory, key: rollout.PoolRecordKey("P"), turn: func() error { // somebody saves the record in between
		value, revision, _ := memory.Load(t.Context(), rollout.PoolRecordKey("P"))
		_, err := memory.Save(t.Context(), rollout.PoolRecordKey("P"), value, revision)
		return err
	}}
	if err := p.Release(t.Context(), orphan); !errors.Is(err, bracket.ErrConflict) {
		t.Errorf("a record that was saved in between: %v", err)
	}
	if err := p.Release(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	if after := plan(); !slices.Equal(started(after), []string{"r2/a@v2"}) || len(after.Orphans) != 0 {
		t.Errorf("starts %q, orphans %+v", started(after), after.Orphans)
	}
	if err := p.Release(t.Context(), orphan); !errors.Is(err, concurrency.ErrFenced) {
		t.Errorf("a lease that is gone: %v", err)
	}
}

// TestReleaseOfNoLease: a lease that no plan can have listed is refused by what it lacks, before the
// store is asked. The group is not missed: another program may hold slots without one.
func TestReleaseOfNoLease(t *testing.T) {
	whole := concurrency.Lease{Pool: "P", Holder: concurrency.Holder{Resource: "r1", Group: "g"}, Token: 1}
	for _, row := range []struct {
		why     string
		edit    func(*concurrency.Lease)
		missing []string
	}{
		{"a zero lease", func(l *concurrency.Lease) { *l = concurrency.Lease{} }, []string{"pool", "resource", "token"}},
		{"one without pool", func(l *concurrency.Lease) { l.Pool = "" }, []string{"pool"}},
		{"one without resource", func(l *concurrency.Lease) { l.Resource = "" }, []string{"resource"}},
		{"one without token", func(l *concurrency.Lease) { l.Token = 0 }, []string{"token"}},
	} {
		lease := whole
		row.edit(&lease)
		err := new(rollout.Planner).Release(t.Context(), lease)
		var want []string
		for _, field := range row.missing {
			want = append(want, field+": is required: pass a lease that Plan.Orphans lists")
		}
		var fault *rollout.FieldError
		if text := "rollout: release a lease: " + strings.Join(want, "\n"); !errors.As(err, &fault) || fault.Code != rollout.CodeRequired || err.Error() != text {
			t.Errorf("%s: %v, want %s", row.why, err, text)
		}
	}
	whole.Group = ""
	if err := (&rollout.Planner{Store: new(bracket.MemoryStore)}).Release(t.Context(), whole); !errors.Is(err, bracket.ErrNotFound) {
		t.Errorf("one without group: %v", err)
	}
}

// Where the record of a pool cannot be read, a release says so, and not that somebody else has the
// slot: the operator has to look at the record.
func TestReleaseFromABrokenRecord(t *testing.T) {
	store := new(bracket.MemoryStore)
	if _, err := store.Save(t.Context(), rollout.PoolRecordKey("P"), []byte(`{"schema":9}`), 0); err != nil {
		t.Fatal(err)
	}
	var fault *rollout.FieldError // of what the host was given
	err := (&rollout.Planner{Store: store}).Release(t.Context(), concurrency.Lease{Pool: "P", Holder: concurrency.Holder{Resource: "r1", Group: "g"}, Token: 1})
	if err == nil || errors.As(err, &fault) || errors.Is(err, concurrency.ErrFenced) || !strings.Contains(err.Error(), rollout.PoolRecordKey("P")+": ") {
		t.Error(err)
	}
}

// An orphan may keep a key of groupBy active, and so everybody of another key waiting, whose own
// pool is empty.
func TestOrphanOfAnotherKey(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['zone']","maxActiveKeys":1}},
		{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"zone": []string{"x", "y", "y"}[k]}
	}
	saved := func(plan rollout.Plan) rollout.State {
		state := mustCommit(t, plan, plan.Now)
		return state
	}
	plan := mustPlan(t, set, s, t0)
	start := plan.Start[0]
	s.State = saved(plan)
	s.Targets[0].Jobs = []rollout.Job{job(start, t0.Add(time.Second), rollout.JobInProgress)}
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	s.State = saved(plan)
	s.Targets = s.Targets[1:] // it was taken away while a job ran on it
	plan = mustPlan(t, set, s, t0.Add(2*time.Minute))
	if len(plan.Start) != 0 || plan.Waiting.Len() != 2 || len(plan.Orphans) != 2 {
		t.Fatalf("starts %q, %d wait, orphans %+v", started(plan), plan.Waiting.Len(), plan.Orphans)
	}
	want := []string{
		"slot_keys_full in P/y, waits for an empty P/x or the release of an orphan in P/x",
		"slot_full, waits for a free slot in Q or the release of an orphan in Q",
	}
	for wait := range plan.Waiting.All() {
		var got []string
		for _, v := range wait.Blockers {
			got = append(got, v.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v: %q", wait.TargetID, got)
		}
		explanation, err := plan.Explain(wait.TargetID)
		if err != nil || !strings.Contains(explanation.String(), "an operator") {
			t.Errorf("%v\n%v", err, explanation)
		}
	}
}
