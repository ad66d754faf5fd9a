package rollout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// goneFleet plays a bracket on three nodes: r1 is done, r2 is at work, r3 waits. Then all are gone
// but r3.
func goneFleet(t *testing.T) (*rollout.Planner, rollout.Snapshot) {
	t.Helper()
	planner := &rollout.Planner{Store: &bracket.MemoryStore{}, Clock: clock.NewFake(t0),
		Policies: compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))}
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
	for _, status := range []rollout.JobStatus{rollout.JobSuccessful, rollout.JobInProgress, ""} {
		plan, err := planner.Plan(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range plan.Start {
			add(&s, start, job(start, t0, status))
		}
	}
	return planner, s
}

// recordsOf lists the resources of the execution records, with a star for those that are open.
func recordsOf(s rollout.State) (list []string) {
	for _, record := range s.Executions {
		text := record.Resource
		if record.Open != nil {
			text += "*"
		}
		list = append(list, text)
	}
	return list
}

func TestForget(t *testing.T) {
	t.Parallel()
	planner, s := goneFleet(t)
	look := func() rollout.State {
		plan, err := planner.Look(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return plan.State
	}
	before := look()
	if got := recordsOf(before); !slices.Equal(got, []string{"r1", "r2*"}) {
		t.Fatalf("%v", got)
	}
	all := []string{"r2", "r9", "r1", "r1"}
	if got := recordsOf(before.Forget(all)); !slices.Equal(got, []string{"r2*"}) || len(before.Executions) != 2 {
		t.Errorf("an open execution stays, and so does the state that was given: %v, %v", got, recordsOf(before))
	}
	if got := before.Forget([]string{"r3"}); text(t, got) != text(t, before) {
		t.Errorf("nothing is known of r3: %s", text(t, got))
	}
	if err := planner.Forget(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	entries, err := planner.Store.List(t.Context(), bracket.ExecutionKey("b", ""))
	if err != nil || len(entries) != 1 || entries[0].Key != bracket.ExecutionKey("b", "r2") {
		t.Errorf("the store has %v, %v", entries, err)
	}
	if got := recordsOf(look()); !slices.Equal(got, []string{"r1", "r2*"}) {
		t.Errorf("r1 is still in the snapshot, so it is learnt anew from its jobs: %v", got)
	}
	s.DeletedResources = []string{"r1", "r2"}
	if _, err := planner.Plan(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.Resources, s.Targets, s.DeletedResources = s.Resources[2:], s.Targets[2:], nil
	for range 2 { // twice is as good as once
		if err := planner.Forget(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	if got := recordsOf(look()); slices.ContainsFunc(got, func(r string) bool { return strings.HasPrefix(r, "r1") || strings.HasPrefix(r, "r2") }) {
		t.Errorf("%v", got)
	}
}

// TestForgetWhatWasGivenUp: that an execution was given up only its record knows. While its jobs are
// in the snapshot, a resource that is planned for again takes it up again, with what had failed.
func TestForgetWhatWasGivenUp(t *testing.T) {
	t.Parallel()
	planner := &rollout.Planner{Store: &bracket.MemoryStore{}, Clock: clock.NewFake(t0),
		Policies: compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))}
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	plan, err := planner.Plan(t.Context(), s)
	if err != nil || len(plan.Start) != 1 {
		t.Fatal(plan, err)
	}
	start := plan.Start[0]
	add(&s, start, job(start, t0, rollout.JobFailure))
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: start.Group, Resource: start.Resource, By: "ann", Reason: "INC-7", At: t0}}
	for _, row := range []struct{ why, want string }{{"given up", "r1"}, {"it stays so", "r1"}, {"forgotten", "r1*"}} {
		if row.why == "forgotten" {
			if err := planner.Forget(t.Context(), []string{"r1"}); err != nil {
				t.Fatal(err)
			}
		}
		if plan, err = planner.Plan(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := recordsOf(plan.State); !slices.Equal(got, []string{row.want}) {
			t.Errorf("%s: %v, want %s", row.why, got, row.want)
		}
		s.Commands = nil
	}
}

// failingDelete is a store in which somebody saves every record before it is deleted, or deletes it.
type failingDelete struct {
	bracket.Store
	before func(key string, revision int64)
}

func (f failingDelete) Delete(ctx context.Context, key string, revision int64) error {
	f.before(key, revision)
	return f.Store.Delete(ctx, key, revision)
}

func TestForgetFaults(t *testing.T) {
	t.Parallel()
	planner, _ := goneFleet(t)
	store := planner.Store
	planner.Store = failingDelete{store, func(key string, revision int64) {
		value, _, err := store.Load(t.Context(), key)
		if err == nil {
			_, err = store.Save(t.Context(), key, value, revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
	if err := planner.Forget(t.Context(), []string{"r1"}); !errors.Is(err, bracket.ErrConflict) || err.Error() != "rollout: forget executions: bracket/execution/b/r1: bracket: value changed since it was read" {
		t.Errorf("%v", err)
	}
	planner.Store = failingDelete{store, func(key string, revision int64) {
		if err := store.Delete(t.Context(), key, revision); err != nil {
			t.Fatal(err)
		}
	}}
	if err := planner.Forget(t.Context(), []string{"r1"}); err != nil {
		t.Errorf("somebody else has deleted it: %v", err)
	}
	if err := new(rollout.Planner).Forget(t.Context(), nil); err == nil || err.Error() != "rollout: forget executions: the Planner has no Store" {
		t.Errorf("%v", err)
	}
	for _, row := range []struct{ value, want string }{
		{"null", "rollout: forget executions: bracket/execution/b/r7: "},
		{`{"schema":1,"rule":"b","resource":"r8"}`, "rollout: forget executions: bracket/execution/b/r7: "},
	} {
		store := &bracket.MemoryStore{}
		if _, err := store.Save(t.Context(), bracket.ExecutionKey("b", "r7"), []byte(row.value), 0); err != nil {
			t.Fatal(err)
		}
		broken := rollout.Planner{Store: store}
		if err := broken.Forget(t.Context(), []string{"r6"}); err != nil {
			t.Errorf("that of another resource is not read: %v", err)
		}
		if err := broken.Forget(t.Context(), []string{"r7"}); err == nil || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%s: %v", row.value, err)
		}
	}
}
