package rollout_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestRelease: a planner stops between saving and dispatching, and what it claimed a slot for is withdrawn. Nobody starts until the host gives the slot back.
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
	orphan := stuck.Orphans[0]
	other := orphan
	other.Token++
	if err := p.Release(t.Context(), other); !errors.Is(err, concurrency.ErrFenced) {
		t.Errorf("another token: %v", err)
	}
	other.Pool = "Q"
	if err := p.Release(t.Context(), other); !errors.Is(err, bracket.ErrNotFound) {
		t.Errorf("another pool: %v", err)
	}

	// The version is for everybody again, and another planner goes on with what the first one had begun.
	s.Versions[1].TargetSelector = ""
	if again := plan(); !slices.Equal(started(again), []string{"r1/a@v2"}) || again.Start[0].Claims[0].Token != orphan.Token {
		t.Fatalf("starts %+v", again.Start)
	}
	if err := p.Release(t.Context(), orphan); !errors.Is(err, bracket.ErrConflict) {
		t.Errorf("a lease under which somebody has started since: %v", err)
	}

	s.Versions[1].TargetSelector = "resource.name != 'r1'"
	if err := p.Release(t.Context(), plan().Orphans[0]); err != nil {
		t.Fatal(err)
	}
	if after := plan(); !slices.Equal(started(after), []string{"r2/a@v2"}) || len(after.Orphans) != 0 {
		t.Errorf("starts %q, orphans %+v", started(after), after.Orphans)
	}
	if err := p.Release(t.Context(), orphan); !errors.Is(err, concurrency.ErrFenced) {
		t.Errorf("a lease that is gone: %v", err)
	}
}
