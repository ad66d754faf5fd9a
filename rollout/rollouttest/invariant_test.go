package rollouttest_test

import (
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestLimitIsExact: pool P has a lease of r1, and may have one. A start is a fault where it puts another resource into the pool, whatever it says of itself, and
// none where its resource is there already or may come in beside the limit. Texts are of the form "pool resource/deployment".
func TestLimitIsExact(t *testing.T) {
	t.Parallel()
	holder := func(text string) (pool, deployment string, h concurrency.Holder) {
		pool, name, _ := strings.Cut(text, " ")
		resource, deployment, _ := strings.Cut(name, "/")
		return pool, deployment, concurrency.Holder{Resource: resource, Group: "target/prod/" + deployment}
	}
	for _, row := range []struct {
		why    string
		before []string // leases that were there
		after  []string // and these are saved, too
		starts map[string]rollout.Reason
		edit   func(*rollouttest.Step)
		fault  bool
	}{
		{why: "nobody starts", before: []string{"P r1/a", "P r2/a"}},
		{why: "another resource takes a slot", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"}, fault: true},
		{why: "a second start finds it down that the first one takes", before: []string{"P r1/a"}, after: []string{"P r2/a", "P r2/b"},
			starts: map[string]rollout.Reason{"P r2/a": "slot_free", "P r2/b": "slot_already_down"}, fault: true},
		{why: "it is said to be down, and is not", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_already_down"}, fault: true},
		{why: "who took it in part goes on, and the limit is lower by now", before: []string{"P r1/a", "P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"}},
		{why: "a claim in another pool is no place", before: []string{"P r1/a", "Q r2/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"}, fault: true},
		{why: "the resource is down for somebody else", before: []string{"P r1/a", "P r2/a"}, after: []string{"P r2/b"}, starts: map[string]rollout.Reason{"P r2/b": "slot_already_down"}},
		{why: "and needs a slot of another pool", before: []string{"P r1/a", "P r2/a"}, after: []string{"P r2/b"}, starts: map[string]rollout.Reason{"P r2/b": "slot_free"}},
		{why: "it broke", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"},
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable = []string{"r2"} }},
		{why: "the host counts a job there", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"},
			edit: func(s *rollouttest.Step) {
				s.Snapshot.Active = map[string][]concurrency.Holder{"P": {{Resource: "r2", Group: "by hand"}}}
			}},
		{why: "who is at work there needs the pool as well", before: []string{"P r1/a", "Q r2/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_held"}},
		{why: "and others come in with it", before: []string{"P r1/a", "Q r2/a"}, after: []string{"P r2/a", "P r2/b"},
			starts: map[string]rollout.Reason{"P r2/a": "slot_held", "P r2/b": "slot_free"}},
		{why: "an operator lets it past", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": rollout.ReasonOverridden}},
		{why: "there is room for one that is quarantined", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"},
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Quarantined = s.Plan.Pools[0].Holders }},
		{why: "unless the plan counts it itself", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"},
			edit: func(s *rollouttest.Step) {
				s.Plan.Pools[0].Quarantined, s.Plan.Pools[0].Active = s.Plan.Pools[0].Holders, 2
			}, fault: true},
	} {
		var s rollouttest.Step
		records := map[string]*concurrency.Record{}
		for _, key := range []string{"P", "Q"} {
			s.Plan.Pools = append(s.Plan.Pools, rollout.Pool{Key: key, Max: 1})
			record := concurrency.NewRecord(key)
			records[key] = &record
		}
		for k, text := range append(row.before, row.after...) {
			key, _, h := holder(text)
			record, err := records[key].Claim(concurrency.Claim{Token: records[key].NextToken}, h, at(2, 9, 0))
			if err != nil {
				t.Fatal(err)
			}
			if *records[key] = record; k >= len(row.before) {
				continue
			}
			for p := range s.Plan.Pools {
				if s.Plan.Pools[p].Key == key {
					s.Plan.Pools[p].Holders = append(s.Plan.Pools[p].Holders, h)
				}
			}
		}
		s.Plan.State.Pools = []concurrency.Record{*records["P"], *records["Q"]}
		for text, reason := range row.starts {
			key, deployment, h := holder(text)
			lease, _ := records[key].Lease(h)
			s.Plan.Start = append(s.Plan.Start, rollout.Start{TargetID: rollout.TargetID{Resource: h.Resource, Environment: "prod", Deployment: deployment},
				Group: h.Group, Reason: reason, Claims: []rollout.Claim{{Pool: key, Token: lease.Token}}})
		}
		if row.edit != nil {
			row.edit(&s)
		}
		for _, invariant := range rollouttest.Invariants() {
			if err := invariant.Check(s); invariant.Name == "limit" && (err != nil) != row.fault {
				t.Errorf("%s: %v", row.why, err)
			}
		}
	}
}

// TestLockedIsExact: b2 is frozen for b in an execution of group R/prod/1 on r1, which has locked it, and starts.
func TestLockedIsExact(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why   string
		edit  func(s *rollouttest.Step, group *bracket.Group, execution *bracket.Execution)
		fault string
	}{
		{why: "what the group has locked"},
		{why: "another version is frozen", fault: "starts b2, frozen is b3",
			edit: func(_ *rollouttest.Step, _ *bracket.Group, x *bracket.Execution) { x.Members[0].Version = "b3" }},
		{why: "a run that a merge has outdated before anybody saw it dispatched is offered again as it was",
			edit: func(_ *rollouttest.Step, _ *bracket.Group, x *bracket.Execution) {
				x.Members[0].Version, x.Members[0].RunVersion = "b3", "b2"
			}},
		{why: "until it has ended nothing else is", fault: "starts b2, frozen is b1",
			edit: func(_ *rollouttest.Step, _ *bracket.Group, x *bracket.Execution) { x.Members[0].RunVersion = "b1" }},
		{why: "the group has locked another one", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(_ *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) { g.Members[0].Locks[0].ID = "b3" }},
		{why: "whatever the view", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(s *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) {
				s.Lagging, g.Members[0].Locks[0].ID = true, "b3"
			}},
		{why: "the target runs it already",
			edit: func(s *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) {
				s.Snapshot.Targets[0].Current, g.Members[0].Locks[0].ID = "b2", "b3"
			}},
		{why: "a hook without a lock keeps what it ran when the execution began, whatever others have deployed since",
			edit: func(s *rollouttest.Step, g *bracket.Group, x *bracket.Execution) {
				s.Snapshot.Targets[0].Current, g.Members[0].Locks = "b3", nil
				x.Members[0].Role, x.Members[0].Action, x.Members[0].From = bracket.Pre, bracket.ActionRun, "b2"
			}},
		{why: "a main has no business with it", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(s *rollouttest.Step, g *bracket.Group, x *bracket.Execution) {
				s.Snapshot.Targets[0].Current, g.Members[0].Locks, x.Members[0].From = "b3", nil, "b2"
			}},
		{why: "the group of an open execution is gone, and this host has seen everything", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(_ *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) { g.ID = "R/prod/2" }},
		{why: "another host has seen the execution end, closed the next group, and stopped before it saved the end",
			edit: func(s *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) { s.Lagging, g.ID = true, "R/prod/2" }},
	} {
		id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"}
		group := &bracket.Group{ID: "R/prod/1", Members: []bracket.GroupMember{{Deployment: "b", Role: bracket.Main, Locks: []bracket.VersionMark{{ID: "b2"}}}}}
		execution := &bracket.Execution{Group: "R/prod/1", Environment: "prod", Members: []bracket.ExecutionMember{
			{Deployment: "b", Role: bracket.Main, Action: bracket.ActionDeploy, Version: "b2", From: "b1", Status: bracket.MemberRunning},
		}}
		s := rollouttest.Step{Snapshot: rollout.Snapshot{Targets: []rollout.Target{{TargetID: id, Current: "b1"}}}}
		s.Plan.Start = []rollout.Start{{TargetID: id, Version: "b2", Group: "R/prod/1", Run: "R%2Fprod%2F1/r1/b/1/1/deploy", Purpose: rollout.PurposeDeploy}}
		s.Plan.State.Brackets = []*bracket.GroupRecord{{Rule: "R", Environment: "prod", Number: 1, Closed: []*bracket.Group{group}}}
		s.Plan.State.Executions = []*bracket.ExecutionRecord{{Rule: "R", Resource: "r1", Open: execution}}
		if row.edit != nil {
			row.edit(&s, group, execution)
		}
		for _, i := range rollouttest.Invariants() {
			if i.Name != "locked" {
				continue
			}
			if err := i.Check(s); (err != nil) != (row.fault != "") || err != nil && !strings.Contains(err.Error(), row.fault) {
				t.Errorf("%s: %v, want a fault %q", row.why, err, row.fault)
			}
		}
	}
}

// TestOrderIsExact: b starts in an execution of which the pre a waits.
func TestOrderIsExact(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why   string
		edit  func(execution *bracket.Execution)
		fault bool
	}{
		{why: "a main before its pre", edit: func(*bracket.Execution) {}, fault: true},
		{why: "a merge has added the pre, and the run began before that", edit: func(x *bracket.Execution) { x.Generation, x.Members[1].Generation = 2, 1 }},
		{why: "it begins after the merge", edit: func(x *bracket.Execution) { x.Generation = 2 }, fault: true},
	} {
		id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"}
		execution := &bracket.Execution{Group: "R/prod/1", Environment: "prod", Generation: 1, Members: []bracket.ExecutionMember{
			{Deployment: "a", Role: bracket.Pre, Action: bracket.ActionRun, Version: "a1", Status: bracket.MemberWaiting},
			{Deployment: "b", Role: bracket.Main, Action: bracket.ActionDeploy, Version: "b2", Status: bracket.MemberRunning, Needs: []string{"a"}},
		}}
		row.edit(execution)
		s := rollouttest.Step{Snapshot: rollout.Snapshot{Targets: []rollout.Target{{TargetID: id, Current: "b1"}}}}
		s.Plan.Start = []rollout.Start{{TargetID: id, Version: "b2", Group: "R/prod/1", Run: "R%2Fprod%2F1/r1/b/1/1/deploy", Purpose: rollout.PurposeDeploy}}
		s.Plan.State.Executions = []*bracket.ExecutionRecord{{Rule: "R", Resource: "r1", Open: execution}}
		for _, i := range rollouttest.Invariants() {
			if err := i.Check(s); i.Name == "order" && (err != nil) != row.fault {
				t.Errorf("%s: %v", row.why, err)
			}
		}
	}
}
