package rollout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestStartHeld: a start may be dispatched as long as its holder has the lease with the token that
// it claimed, whatever else has become of the record.
func TestStartHeld(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}},{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	plan, err := set.Plan(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	if err != nil || len(plan.Start) != 1 || len(plan.Start[0].Claims) != 2 {
		t.Fatalf("%v, starts %+v: must claim two pools", err, plan.Start)
	}
	start := plan.Start[0]
	state, err := plan.Commit(plan.Start, t0)
	if err != nil {
		t.Fatal(err)
	}
	p, q := state.Pools[0], state.Pools[1]
	must := func(record concurrency.Record, err error) concurrency.Record {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return record
	}
	me := concurrency.Holder{Resource: start.Resource, Group: start.Group}
	released := must(p.Release(me, 1))
	for _, row := range []struct {
		name   string
		record concurrency.Record
		want   string
		fenced bool
		why    string
	}{
		{"saved", p, "", false, "the record as it was saved before the dispatch"},
		{"the other pool", q, "", false, "each record is asked about its own claim"},
		{"later revision", concurrency.Record{Schema: 1, Key: "P", Revision: 9, NextToken: 2, Leases: p.Leases}, "", false, "other holders may have saved the record meanwhile"},
		{"another holder", must(p.Claim(concurrency.Claim{Token: 2}, concurrency.Holder{Resource: "r2", Group: "g"}, t0)), "", false, "the lease of another holder takes nothing away"},
		{"quarantined", must(p.Quarantine(me, 1, "stuck")), "", false, "a quarantined lease is still that of its holder"},
		{"released", released, "rollout: run r1/prod/a/v2/1: the slot in pool P with token 1 was given back: concurrency: token of a lost lease", true,
			"somebody took the slot for left behind"},
		{"claimed again", must(released.Claim(concurrency.Claim{Token: 2}, me, t0.Add(time.Minute))),
			"rollout: run r1/prod/a/v2/1: the slot in pool P is held with token 2, not 1: concurrency: token of a lost lease", true,
			"a newer start of the same holder has the slot: this one is late"},
		{"never saved", concurrency.NewRecord("P"), "rollout: run r1/prod/a/v2/1: pool P never issued token 1: the state with this start was not saved: concurrency: token of a lost lease", true,
			"a host that dispatches before it saves has no slot"},
		{"somebody else saved first", must(concurrency.NewRecord("P").Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r2", Group: "g"}, t0)),
			"rollout: run r1/prod/a/v2/1: pool P issued token 1 to r2 for g: the state with this start was not saved: concurrency: token of a lost lease", true,
			"of two planners that claim on one record each plans with the same token: nothing was given back"},
		{"not claimed", concurrency.NewRecord("R"), "rollout: run r1/prod/a/v2/1: the start claims nothing in pool R", false,
			"the record of another pool proves nothing: a mix-up of the host must not pass, and planning again does not mend it"},
		{"no record", concurrency.Record{}, "rollout: run r1/prod/a/v2/1: the start claims nothing in pool ", false, "nor does the zero record"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := ""
			err := start.Held(row.record)
			if err != nil {
				got = err.Error()
			}
			if got != row.want || errors.Is(err, concurrency.ErrFenced) != row.fenced {
				t.Errorf("%s:\n got %q, fenced %t\nwant %q, fenced %t", row.why, got, errors.Is(err, concurrency.ErrFenced), row.want, row.fenced)
			}
		})
	}
	if err := (rollout.Start{}).Held(p); err == nil || errors.Is(err, concurrency.ErrFenced) {
		t.Errorf("%v: a start without claims has nothing to prove", err)
	}
}
