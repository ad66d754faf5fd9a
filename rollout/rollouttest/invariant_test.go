package rollouttest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestLimitIsExact: pool P has a lease of r1, and may have one. A start is a fault where it puts
// another resource into the pool, whatever it says of itself, and none where its resource is there
// already or may come in beside the limit. Texts are of the form "pool resource/deployment".
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
		{why: "what is claimed counts, although no lease of it was saved", before: []string{"P r1/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"}, fault: true},
		{why: "a start that needs no slot here, where the limit is lower by now", before: []string{"P r1/a", "P r3/a"}, after: []string{"Q r2/a"}, starts: map[string]rollout.Reason{"Q r2/a": "slot_free"}},
		{why: "a claim in another pool is no place", before: []string{"P r1/a", "Q r2/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"}, fault: true},
		{why: "the resource is down for somebody else", before: []string{"P r1/a", "P r2/a"}, after: []string{"P r2/b"}, starts: map[string]rollout.Reason{"P r2/b": "slot_already_down"}},
		{why: "and needs a slot of another pool", before: []string{"P r1/a", "P r2/a"}, after: []string{"P r2/b"}, starts: map[string]rollout.Reason{"P r2/b": "slot_free"}},
		{why: "it broke", before: []string{"P r1/a"}, after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"},
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable = []string{"r2"} }},
		{why: "so many broke that nobody begins", after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_already_down"}, fault: true,
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable, s.Plan.Pools[0].Halted = []string{"r2"}, true }},
		{why: "nor where nothing broke", after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": "slot_free"}, fault: true,
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable, s.Plan.Pools[0].Halted = []string{"r1"}, true }},
		{why: "but what is at work goes on", before: []string{"P r1/a"}, starts: map[string]rollout.Reason{"P r1/a": "slot_held"},
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable, s.Plan.Pools[0].Halted = []string{"r1"}, true }},
		{why: "and what else comes there", before: []string{"P r1/a"}, after: []string{"P r1/b"}, starts: map[string]rollout.Reason{"P r1/b": "slot_already_down"},
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable, s.Plan.Pools[0].Halted = []string{"r1"}, true }},
		{why: "unless an operator lets it past", after: []string{"P r2/a"}, starts: map[string]rollout.Reason{"P r2/a": rollout.ReasonOverridden},
			edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Unavailable, s.Plan.Pools[0].Halted = []string{"r2"}, true }},
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
		{why: "which it does as soon as something else starts there", before: []string{"P r1/a"}, after: []string{"P r1/b", "P r2/a"},
			starts: map[string]rollout.Reason{"P r1/b": "slot_free", "P r2/a": "slot_free"},
			edit: func(s *rollouttest.Step) {
				s.Plan.Pools[0].Quarantined, s.Plan.Pools[0].Active = s.Plan.Pools[0].Holders, 2
			}},
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

// TestExclusiveIsExact: pool P is exclusive, and its plan has some starts. Texts are of the form
// "resource/deployment".
func TestExclusiveIsExact(t *testing.T) {
	t.Parallel()
	held := rollout.Reason(concurrency.SlotHeld)
	for _, row := range []struct {
		why     string
		holders []string
		starts  []string
		reason  rollout.Reason
		edit    func(*rollouttest.Step)
		fault   bool
	}{
		{why: "nobody is there", starts: []string{"r1/a", "r2/b"}},
		{why: "somebody is", holders: []string{"r1/b"}, starts: []string{"r1/a"}, fault: true},
		{why: "elsewhere", holders: []string{"r2/b"}, starts: []string{"r1/a"}},
		{why: "it is the group itself", holders: []string{"r1/a"}, starts: []string{"r1/a"}},
		{why: "and another one, from before it was exclusive", holders: []string{"r1/a", "r1/b"}, starts: []string{"r1/a"}},
		{why: "two begin there", starts: []string{"r1/a", "r1/b"}, fault: true},
		{why: "twice the same", starts: []string{"r1/a", "r1/a"}},
		{why: "it is at work in another pool", holders: []string{"r1/b"}, starts: []string{"r1/a"}, reason: held},
		{why: "the host counts somebody there", starts: []string{"r1/a"}, fault: true, edit: func(s *rollouttest.Step) {
			s.Snapshot.Active = map[string][]concurrency.Holder{"P": {{Resource: "r1", Group: "by hand"}}}
		}},
		{why: "a job is in progress there", starts: []string{"r1/a"}, fault: true, edit: func(s *rollouttest.Step) {
			id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"}
			s.Snapshot.Targets = []rollout.Target{{TargetID: id, Jobs: []rollout.Job{{Run: "b", Status: rollout.JobInProgress}}}}
			s.Dispatched = map[string]rollout.Start{"b": {TargetID: id, Run: "b", Group: "target/prod/b", Claims: []rollout.Claim{{Pool: "P"}}}}
		}},
		{why: "it is not exclusive", holders: []string{"r1/b"}, starts: []string{"r1/a"}, edit: func(s *rollouttest.Step) { s.Plan.Pools[0].Exclusive = false }},
	} {
		holder := func(text string) concurrency.Holder {
			resource, deployment, _ := strings.Cut(text, "/")
			return concurrency.Holder{Resource: resource, Group: "target/prod/" + deployment}
		}
		s := rollouttest.Step{Plan: rollout.Plan{Pools: []rollout.Pool{{Key: "P", Max: 5, Exclusive: true}}}}
		for _, text := range row.holders {
			s.Plan.Pools[0].Holders = append(s.Plan.Pools[0].Holders, holder(text))
		}
		for _, text := range row.starts {
			h := holder(text)
			s.Plan.Start = append(s.Plan.Start, rollout.Start{TargetID: rollout.TargetID{Resource: h.Resource, Environment: "prod"}, Group: h.Group, Reason: row.reason, Claims: []rollout.Claim{{Pool: "P"}}})
		}
		if row.edit != nil {
			row.edit(&s)
		}
		for _, invariant := range rollouttest.Invariants() {
			if err := invariant.Check(s); invariant.Name == "exclusive" && (err != nil) != row.fault {
				t.Errorf("%s: %v", row.why, err)
			}
		}
	}
}

// TestLockedIsExact: b2 is frozen for b in an execution of group R/prod/1 on r1, which has locked
// it, and starts.
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
		{why: "the target may run it by a start that the view does not show yet",
			edit: func(s *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) {
				s.Lagging, g.Members[0].Locks[0].ID = true, "b3"
				s.Dispatched = map[string]rollout.Start{"other": {TargetID: s.Plan.Start[0].TargetID, Run: "other", Version: "b2"}}
			}},
		{why: "but not in a view that shows everything", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(s *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) {
				g.Members[0].Locks[0].ID = "b3"
				s.Dispatched = map[string]rollout.Start{"other": {TargetID: s.Plan.Start[0].TargetID, Run: "other", Version: "b2"}}
			}},
		{why: "and not by this very start, nor on another target, nor another version", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(s *rollouttest.Step, g *bracket.Group, _ *bracket.Execution) {
				s.Lagging, g.Members[0].Locks[0].ID = true, "b3"
				own := s.Plan.Start[0]
				s.Dispatched = map[string]rollout.Start{own.Run: own, "x": {TargetID: rollout.TargetID{Resource: "r2"}, Run: "x", Version: "b2"}, "y": {TargetID: own.TargetID, Run: "y", Version: "b3"}}
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
		{why: "but nothing else", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(s *rollouttest.Step, g *bracket.Group, x *bracket.Execution) {
				s.Snapshot.Targets[0].Current, g.Members[0].Locks = "b3", nil
				x.Members[0].Role, x.Members[0].Action, x.Members[0].From = bracket.Pre, bracket.ActionRun, "b1"
			}},
		{why: "a main has no business with it", fault: "starts b2, which is neither current nor locked by R/prod/1",
			edit: func(s *rollouttest.Step, g *bracket.Group, x *bracket.Execution) {
				s.Snapshot.Targets[0].Current, g.Members[0].Locks, x.Members[0].From = "b3", nil, "b2"
			}},
		{why: "a group that was merged into it may have locked it, and is not kept any more",
			edit: func(_ *rollouttest.Step, g *bracket.Group, x *bracket.Execution) {
				g.Members[0].Locks[0].ID, x.Merged = "b3", []string{"R/prod/2"}
			}},
		{why: "but not if it is kept", fault: "starts b2, which is neither current nor locked by R/prod/1, R/prod/2",
			edit: func(s *rollouttest.Step, g *bracket.Group, x *bracket.Execution) {
				g.Members[0].Locks[0].ID, x.Merged = "b3", []string{"R/prod/2"}
				s.Plan.State.Brackets[0].Closed = append(s.Plan.State.Brackets[0].Closed, &bracket.Group{ID: "R/prod/2"})
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

// TestStepFindsEachViolation: a plan that keeps every promise, of which a row spoils one thing. b2
// starts on r1 in group R/prod/1, whose pre a has succeeded and whose post c waits; d is no member
// and runs the newest version. What Check finds is named, and nothing else is found: a check that
// cannot fail checks nothing.
func TestStepFindsEachViolation(t *testing.T) {
	t.Parallel()
	now, begun := at(2, 9, 0), at(2, 8, 0)
	id := func(deployment string) rollout.TargetID {
		return rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: deployment}
	}
	type world struct {
		*rollouttest.Step
		group     *bracket.Group
		execution *bracket.Execution
	}
	target := func(w world, deployment string) *rollout.Target {
		for i := range w.Snapshot.Targets {
			if t := &w.Snapshot.Targets[i]; t.Deployment == deployment {
				return t
			}
		}
		return nil
	}
	member := func(w world, deployment string) *bracket.ExecutionMember {
		for i := range w.execution.Members {
			if m := &w.execution.Members[i]; m.Deployment == deployment {
				return m
			}
		}
		return nil
	}
	starts := func(w world) *rollout.Start { return &w.Plan.Start[0] }
	outside := func(w world) { starts(w).Group, starts(w).Claims = "target/prod/b", nil } // of brackets
	waits := func(w world, edit func(*rollout.Waiting)) {
		var list []rollout.Waiting
		for one := range w.Plan.Waiting.All() {
			edit(&one)
			list = append(list, one)
		}
		w.Plan.Waiting = rollout.NewWaitingList(list...)
	}
	blocked := func(v rollout.Verdict) func(world) {
		return func(w world) {
			waits(w, func(one *rollout.Waiting) { one.Blockers = []rollout.Verdict{v} })
		}
	}
	running := func(w world, run string) rollout.Job {
		return rollout.Job{Run: run, Version: "b2", Status: rollout.JobInProgress, CreatedAt: begun}
	}
	// The post c starts in place of b, which has succeeded.
	last := func(w world) {
		target(w, "b").Current = "b2"
		target(w, "b").Jobs = []rollout.Job{{Run: "b-run", Version: "b2", Status: rollout.JobSuccessful, CreatedAt: begun}}
		member(w, "b").Status, member(w, "c").Status = bracket.MemberSucceeded, bracket.MemberRunning
		*starts(w) = rollout.Start{TargetID: id("c"), Version: "c1", Group: "R/prod/1", Run: "c-run", Purpose: rollout.PurposeDeploy, Claims: starts(w).Claims}
		w.Plan.Waiting, w.Plan.Keep = rollout.WaitingList{}, rollout.Keep{Current: 3}
	}
	elsewhere := func(w world) {
		other := rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "b"}
		w.Snapshot.Targets = append(w.Snapshot.Targets, rollout.Target{TargetID: other, Current: "b1", Jobs: []rollout.Job{running(w, "x")}})
		w.Dispatched["x"] = rollout.Start{TargetID: other, Group: "target/prod/b", Claims: []rollout.Claim{{Pool: "P", Token: 9}}}
		w.Plan.Keep.Started = 1
	}
	// And an operator has said something about that job's execution.
	says := func(c bracket.Command) func(world) {
		return func(w world) {
			elsewhere(w)
			if c.At.IsZero() {
				c.At = now
			}
			c.ID, w.Snapshot.Commands = "c1", []bracket.Command{c}
		}
	}
	and := func(edits ...func(world)) func(world) {
		return func(w world) {
			for _, edit := range edits {
				edit(w)
			}
		}
	}
	freeze := func(edits ...func(*rollout.Freeze)) rollout.Freeze {
		z := rollout.Freeze{ID: "z", CreatedAt: begun, CreatedBy: "bob", Reason: "INC-7"}
		for _, edit := range edits {
			edit(&z)
		}
		return z
	}
	freezes := func(list ...rollout.Freeze) func(world) {
		return func(w world) { w.Snapshot.Freezes = list }
	}
	named := func(id string) func(*rollout.Freeze) { return func(z *rollout.Freeze) { z.ID = id } }
	finishing := func(z *rollout.Freeze) { z.FinishBegun = true }
	beginsNow := func(w world) {
		w.execution.StartedAt, member(w, "a").Status = now, bracket.MemberSkipped
	}
	failed := func(w world) {
		target(w, "b").Jobs = []rollout.Job{{Run: "x", Version: "b2", Status: rollout.JobFailure, CreatedAt: begun}}
	}
	goesBack := func(w world) {
		outside(w)
		starts(w).Purpose, starts(w).Version, target(w, "b").Current = rollout.PurposeRollback, "b1", "b2"
	}
	for _, row := range []struct {
		why   string
		edit  func(world)
		fault string // the invariant, and what it says; empty: nothing is found
	}{
		{"all is well", func(world) {}, ""},
		{"the post, after the main", last, ""},

		{"a start without execution", func(w world) { w.Plan.State.Executions[0].Open = nil }, "locked: b on r1: there is no open execution of R/prod/1"},
		{"a start of no member", func(w world) { w.execution.Members = w.execution.Members[:1] }, "locked: b on r1: it is no member of the execution of R/prod/1"},
		{"a start of no member, behind one that is of no bracket and one that is all right", func(w world) {
			own, none := rollout.Start{TargetID: id("a"), Version: "a1", Run: "a-run-2", Group: "target/prod/a"}, *starts(w)
			none.TargetID, none.Version, none.Run = id("d"), "d2", "d-run"
			w.Plan.Start, w.Plan.Keep.Current = []rollout.Start{own, *starts(w), none}, 0
		}, "locked: d on r1: it is no member of the execution of R/prod/1"},
		{"back to what it came from", func(w world) {
			starts(w).Purpose, starts(w).Version, target(w, "b").Current = rollout.PurposeRollback, "b1", "b2"
		}, ""},
		{"back to something else", func(w world) {
			starts(w).Purpose, starts(w).Version = rollout.PurposeRollback, "b0"
		}, "locked: b on r1: rolls back to b0, it came from b1"},
		{"the version is locked, for another member", func(w world) {
			w.group.Members[0].Deployment = "a"
		}, "locked: b on r1: starts b2, which is neither current nor locked by R/prod/1"},
		{"what it runs, by its jobs", func(w world) {
			w.group.Members[0].Locks = nil
			target(w, "b").Current, target(w, "b").Jobs = "", []rollout.Job{{Run: "x", Version: "b1", Status: rollout.JobSuccessful, CreatedAt: at(1, 8, 0)},
				{Run: "y", Version: "b2", Status: rollout.JobSuccessful, CreatedAt: begun}, {Run: "z", Version: "b1", Status: rollout.JobFailure, CreatedAt: now}}
		}, ""},
		{"what it ran, by its jobs", func(w world) {
			w.group.Members[0].Locks = nil
			target(w, "b").Current, target(w, "b").Jobs = "", []rollout.Job{{Run: "y", Version: "b2", Status: rollout.JobSuccessful, CreatedAt: begun}, {Run: "x", Version: "b1", Status: rollout.JobSuccessful, CreatedAt: now}}
		}, "locked: b on r1: starts b2, which is neither current nor locked by R/prod/1"},

		{"whatever their order", func(w world) {
			w.group.Members[0].Locks = nil
			target(w, "b").Current, target(w, "b").Jobs = "", []rollout.Job{{Run: "x", Version: "b1", Status: rollout.JobSuccessful, CreatedAt: now}, {Run: "y", Version: "b2", Status: rollout.JobSuccessful, CreatedAt: begun}}
		}, "locked: b on r1: starts b2, which is neither current nor locked by R/prod/1"},
		{"of one instant, a rollback is the last", func(w world) {
			w.group.Members[0].Locks = nil
			target(w, "b").Current, target(w, "b").Jobs = "", []rollout.Job{{Run: "a/rollback", Version: "b1", Status: rollout.JobSuccessful, CreatedAt: begun}, {Run: "y", Version: "b2", Status: rollout.JobSuccessful, CreatedAt: begun}}
		}, "locked: b on r1: starts b2, which is neither current nor locked by R/prod/1"},

		{"before the pre", func(w world) { member(w, "a").Status = bracket.MemberRunning }, "order: b on r1: starts while a is running"},
		{"the pre has failed, and the execution recovers", func(w world) {
			member(w, "a").Status, w.execution.Recovery = bracket.MemberFailed, "run_post"
		}, ""},
		{"the pre was skipped", func(w world) { member(w, "a").Status, target(w, "a").Jobs = bracket.MemberSkipped, nil }, ""},
		{"the pre was cancelled", func(w world) { member(w, "a").Status, target(w, "a").Jobs = bracket.MemberCancelled, nil }, ""},
		{"the pre went back", func(w world) { member(w, "a").Status, target(w, "a").Jobs = bracket.MemberRolledBack, nil }, ""},
		{"the pre is said to have succeeded, and no job did", func(w world) { target(w, "a").Jobs = nil }, "order: b on r1: starts while a is succeeded"},
		{"which a view that lags does not show yet", func(w world) { target(w, "a").Jobs, w.Lagging = nil, true }, ""},
		{"its job has failed", func(w world) { target(w, "a").Jobs[0].Status = rollout.JobFailure }, "order: b on r1: starts while a is succeeded"},
		{"its job was before the execution", func(w world) { target(w, "a").Jobs[0].CreatedAt = begun.Add(-1) }, "order: b on r1: starts while a is succeeded"},
		{"its job was of the version of a group before, which a merge may leave", func(w world) { target(w, "a").Jobs[0].Version = "a0" }, ""},
		{"the pre was removed since", func(w world) {
			w.Snapshot.Targets, w.Plan.Keep.Current = w.Snapshot.Targets[1:], 1
		}, ""},
		{"the post before the main", and(last, func(w world) {
			member(w, "b").Status = bracket.MemberWaiting
		}), "order: c on r1: starts while b is waiting"},
		{"the main has succeeded with another version", and(last, func(w world) {
			target(w, "b").Jobs[0].Version = "b1"
		}), "order: c on r1: starts while b is succeeded"},
		{"a main before another one that it needs", func(w world) {
			member(w, "b").Needs = []string{"c"}
			member(w, "c").Role = bracket.Main
		}, "order: b on r1: starts while c is waiting"},
		{"a main beside another one", func(w world) { member(w, "c").Role = bracket.Main }, ""},

		{"a job of another resource has a place in the pool", elsewhere, "limit: pool P has 2 members in disruption and admits only 1: r1, r2"},
		{"it has ended", and(elsewhere, func(w world) { w.Snapshot.Targets[4].Jobs[0].Status = rollout.JobFailure }), ""},
		{"it may have ended", and(elsewhere, func(w world) { w.Lagging = true }), ""},
		{"its resource is deleted", and(elsewhere, func(w world) {
			w.Snapshot.DeletedResources, w.Plan.Keep.Started = []string{"r2"}, 0
		}), ""},
		{"it was started without a claim there", and(elsewhere, func(w world) { w.Dispatched["x"] = rollout.Start{} }), ""},
		{"an operator has resolved its execution", says(bracket.Command{Kind: bracket.Resolve, Group: "target/prod/b", Resource: "r2"}), ""},
		{"in the future", says(bracket.Command{Kind: bracket.Resolve, Group: "target/prod/b", Resource: "r2", At: now.Add(1)}), "limit: pool P has 2 members"},
		{"of another resource", says(bracket.Command{Kind: bracket.Resolve, Group: "target/prod/b", Resource: "r1"}), "limit: pool P has 2 members"},
		{"of another group", says(bracket.Command{Kind: bracket.Resolve, Group: "R/prod/1", Resource: "r2"}), "limit: pool P has 2 members"},
		{"an operator has skipped its member", says(bracket.Command{Kind: bracket.Skip, Group: "target/prod/b", Resource: "r2", Deployment: "b"}), ""},
		{"or another one", says(bracket.Command{Kind: bracket.Skip, Group: "target/prod/b", Resource: "r2", Deployment: "a"}), "limit: pool P has 2 members"},
		{"an operator has it repeated", says(bracket.Command{Kind: bracket.Retry, Group: "target/prod/b", Resource: "r2", Deployment: "b"}), "limit: pool P has 2 members"},
		{"an operator has abandoned its execution, which frees no slot", says(bracket.Command{Kind: bracket.Abandon, Group: "target/prod/b", Resource: "r2"}), "limit: pool P has 2 members"},
		{"a lease of another resource is saved", func(w world) {
			w.Plan.State.Pools[0].Leases = append(w.Plan.State.Pools[0].Leases, concurrency.Lease{Pool: "P", Holder: concurrency.Holder{Resource: "r2", Group: "x"}, Token: 2})
		}, "limit: pool P has 2 members in disruption and admits only 1: r1, r2"},
		{"in another pool", func(w world) {
			w.Plan.State.Pools = append(w.Plan.State.Pools, concurrency.Record{Key: "Q", Leases: []concurrency.Lease{{Pool: "Q", Holder: concurrency.Holder{Resource: "r2", Group: "x"}, Token: 2}}})
		}, ""},
		{"the plan counts as many as it admits", func(w world) { w.Plan.Pools[0].Active = 1 }, ""},
		{"it counts one more", func(w world) { w.Plan.Pools[0].Active = 2 }, "limit: pool P: the plan itself counts 2 active and admits only 1"},
		{"and lets nobody in", func(w world) {
			w.Plan.Pools[0].Active, w.Plan.Pools[0].Holders = 2, []concurrency.Holder{{Resource: "r1", Group: "R/prod/1"}}
		}, ""},

		{"no run id", func(w world) { starts(w).Run = "" }, "once: a start of b on r1 has no run id"},
		{"for a target that is not there", func(w world) {
			w.Snapshot.Targets = append(w.Snapshot.Targets[:1:1], w.Snapshot.Targets[2:]...)
			w.Plan.Keep.Current = 1
		}, "once: run b-run is for a target that does not exist"},
		{"its job was observed", func(w world) {
			job := running(w, "b-run")
			job.Status = rollout.JobFailure
			target(w, "b").Jobs = []rollout.Job{job}
		}, "once: run b-run is offered although its job was observed"},
		{"the same run for two targets", func(w world) {
			second := *starts(w)
			second.TargetID, second.Group = id("d"), "target/prod/d"
			second.Claims = nil
			w.Plan.Start, w.Plan.Keep.Current = append(w.Plan.Start, second), 1
		}, "once: run b-run is offered twice in one plan"},
		{"it was dispatched as it is", func(w world) { w.Dispatched["b-run"] = *starts(w) }, ""},
		{"it was dispatched with another version", func(w world) {
			old := *starts(w)
			old.Version = "b3"
			w.Dispatched["b-run"] = old
		}, "once: run b-run was dispatched for b b3 and is now offered for b b2"},
		{"it was dispatched for another purpose", func(w world) {
			old := *starts(w)
			old.Purpose = rollout.PurposeRollback
			w.Dispatched["b-run"] = old
		}, "once: run b-run was dispatched for b b2 and is now offered for b b2"},
		{"it was dispatched for another target", func(w world) {
			old := *starts(w)
			old.TargetID = id("a")
			w.Dispatched["b-run"] = old
		}, "once: run b-run was dispatched for a b2 and is now offered for b b2"},

		{"a version that is older than what it has", func(w world) {
			target(w, "b").Current = "b3"
		}, "forward: b on r1: starts b2, and has the newer b3"},
		{"whatever the view", func(w world) { target(w, "b").Current, w.Lagging = "b3", true }, "forward: b on r1: starts b2, and has the newer b3"},
		{"of the same instant, and a smaller id", func(w world) {
			target(w, "b").Current = "b3"
			for i := range w.Snapshot.Versions {
				w.Snapshot.Versions[i].CreatedAt = begun
			}
		}, "forward: b on r1: starts b2, and has the newer b3"},
		{"of the same instant, and a greater id", func(w world) {
			for i := range w.Snapshot.Versions {
				w.Snapshot.Versions[i].CreatedAt = begun
			}
		}, ""},
		{"what it has is not known any more", func(w world) { target(w, "b").Current = "b9" }, ""},
		{"older than what it has begun with, which failed", func(w world) {
			outside(w)
			target(w, "b").Jobs = []rollout.Job{{Run: "b3-run", Version: "b3", Status: rollout.JobFailure, CreatedAt: begun, CompletedAt: begun}}
		}, "forward: b on r1: starts b2, and has begun with the newer b3"},
		{"and with an older one before that", func(w world) {
			outside(w)
			target(w, "b").Jobs = []rollout.Job{
				{Run: "b1-run", Version: "b1", Status: rollout.JobFailure, CreatedAt: begun, CompletedAt: begun},
				{Run: "b3-run", Version: "b3", Status: rollout.JobFailure, CreatedAt: begun.Add(1), CompletedAt: begun.Add(1)},
			}
		}, "forward: b on r1: starts b2, and has begun with the newer b3"},
		{"and from which it was taken back since", func(w world) {
			outside(w)
			target(w, "b").Jobs = []rollout.Job{
				{Run: "r1/prod/b/b1/2/rollback", Version: "b1", Status: rollout.JobFailure, CreatedAt: begun.Add(1), CompletedAt: begun.Add(1)},
				{Run: "b3-run", Version: "b3", Status: rollout.JobFailure, CreatedAt: begun, CompletedAt: begun},
			}
		}, ""},
		{"in a bracket, which looks at what the target has: somebody has ended the execution that failed", func(w world) {
			target(w, "b").Jobs = []rollout.Job{{Run: "b3-run", Version: "b3", Status: rollout.JobFailure, CreatedAt: begun, CompletedAt: begun}}
		}, ""},
		{"taken back, and begun with it again", func(w world) {
			outside(w)
			target(w, "b").Jobs = []rollout.Job{
				{Run: "r1/prod/b/b1/2/rollback", Version: "b1", Status: rollout.JobSuccessful, CreatedAt: begun, CompletedAt: begun},
				{Run: "b3-run", Version: "b3", Status: rollout.JobFailure, CreatedAt: begun.Add(1), CompletedAt: begun.Add(1)},
			}
		}, "forward: b on r1: starts b2, and has begun with the newer b3"},
		{"a version that does not exist", func(w world) { w.Snapshot.Versions = w.Snapshot.Versions[:1] }, "forward: b on r1: starts b2, which does not exist"},
		{"which a view that lags does not show yet", func(w world) { w.Snapshot.Versions, w.Lagging = w.Snapshot.Versions[:1], true }, ""},
		{"which was deleted after the execution had begun with it", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Purpose: rollout.PurposeDeploy}
		}, ""},
		{"which was deleted after its start had been saved, and before that was dispatched", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			w.Snapshot.State.Executions = []*bracket.ExecutionRecord{{Rule: "R", Resource: "r1", Open: w.execution}}
		}, ""},
		{"where another execution was open before", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			w.Snapshot.State.Executions = []*bracket.ExecutionRecord{{Rule: "R", Resource: "r1", Open: &bracket.Execution{Group: "R/prod/0"}}}
		}, "forward: b on r1: starts b2, which does not exist"},
		{"where that execution was open on another resource", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			w.Snapshot.State.Executions = []*bracket.ExecutionRecord{{Rule: "R", Resource: "r1"}, {Rule: "R", Resource: "r2", Open: w.execution}}
		}, "forward: b on r1: starts b2, which does not exist"},
		{"outside of every execution", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			outside(w)
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "target/prod/b", Purpose: rollout.PurposeDeploy}
		}, "forward: b on r1: starts b2, which does not exist"},
		{"of no member", func(w world) {
			w.Snapshot.Versions, w.execution.Members = w.Snapshot.Versions[:1], w.execution.Members[:1]
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Purpose: rollout.PurposeDeploy}
		}, "locked: b on r1: it is no member of the execution of R/prod/1; order: b on r1: it is no member of the execution of R/prod/1; forward: b on r1: starts b2, which does not exist"},
		{"or that the execution does not bring any more", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			member(w, "b").Version, member(w, "b").RunVersion = "b3", "b2"
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Purpose: rollout.PurposeDeploy}
		}, "forward: b on r1: starts b2, which does not exist"},
		{"and that was begun on another resource alone", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			w.Dispatched["other"] = rollout.Start{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"}, Group: "R/prod/1"}
		}, "forward: b on r1: starts b2, which does not exist"},
		{"or in another group", func(w world) {
			w.Snapshot.Versions = w.Snapshot.Versions[:1]
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Group: "R/prod/0"}
		}, "forward: b on r1: starts b2, which does not exist"},

		{"a job is in progress", func(w world) { target(w, "b").Jobs = []rollout.Job{running(w, "x")} }, "alone: b on r1: starts while x is inProgress"},
		{"which a view that lags still shows, of the same group", func(w world) {
			target(w, "b").Jobs, w.Lagging = []rollout.Job{running(w, "x")}, true
			w.Dispatched["x"] = rollout.Start{TargetID: id("b"), Group: "R/prod/1"}
		}, ""},
		{"and nobody else", func(w world) {
			target(w, "b").Jobs = []rollout.Job{running(w, "x")}
			w.Dispatched["x"] = rollout.Start{TargetID: id("b"), Group: "R/prod/1"}
		}, "alone: b on r1: starts while x is inProgress"},
		{"of another group", func(w world) {
			target(w, "b").Jobs, w.Lagging = []rollout.Job{running(w, "x")}, true
			w.Dispatched["x"] = rollout.Start{TargetID: id("b"), Group: "R/prod/0"}
		}, "alone: b on r1: starts while x is inProgress"},
		{"two at once", func(w world) {
			second := *starts(w)
			second.Run = "b-run-2"
			w.Plan.Start = append(w.Plan.Start, second)
		}, "alone: b on r1: b-run and b-run-2 start at once"},

		{"under a freeze", freezes(freeze()), "frozen: b on r1: starts b2 under freeze z"},
		{"under two", freezes(freeze(), freeze(named("y"))), "frozen: b on r1: starts b2 under freeze z\nb on r1: starts b2 under freeze y"},
		{"before it begins", freezes(freeze(func(z *rollout.Freeze) { z.CreatedAt = now.Add(1) })), ""},
		{"when it begins", freezes(freeze(func(z *rollout.Freeze) { z.CreatedAt = now })), "frozen: b on r1: starts b2 under freeze z"},
		{"when it is over", freezes(freeze(func(z *rollout.Freeze) { z.ExpiresAt = now })), ""},
		{"just before that", freezes(freeze(func(z *rollout.Freeze) { z.ExpiresAt = now.Add(1) })), "frozen: b on r1: starts b2 under freeze z"},
		{"an end in the year 0 is none", freezes(freeze(func(z *rollout.Freeze) { z.ExpiresAt = time.Time{}.AddDate(-1, 0, 0) })), "frozen: b on r1: starts b2 under freeze z"},
		{"of another resource", freezes(freeze(func(z *rollout.Freeze) { z.Resource = "r2" })), ""},
		{"of another environment", freezes(freeze(func(z *rollout.Freeze) { z.Environment = "staging" })), ""},
		{"of another deployment", freezes(freeze(func(z *rollout.Freeze) { z.Deployment = "a" })), ""},
		{"of this very target", freezes(freeze(func(z *rollout.Freeze) { z.Resource, z.Environment, z.Deployment = "r1", "prod", "b" })), "frozen: b on r1: starts b2 under freeze z"},
		{"an execution that has begun is finished", freezes(freeze(finishing)), ""},
		{"one that begins now is not", and(freezes(freeze(finishing)), beginsNow), "frozen: b on r1: starts b2 under freeze z"},
		{"unless a start of it was dispatched at this instant", and(freezes(freeze(finishing)), beginsNow, func(w world) {
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Run: "a-run"}
		}), ""},
		{"or another planner may have done so", and(freezes(freeze(finishing)), beginsNow, func(w world) { w.Lagging = true }), ""},
		{"the first job of a version is no attempt that has begun", and(freezes(freeze(finishing)), outside), "frozen: b on r1: starts b2 under freeze z"},
		{"the second one is", and(freezes(freeze(finishing)), outside, failed), ""},
		{"but not without leave", and(freezes(freeze()), outside, failed), "frozen: b on r1: starts b2 under freeze z"},
		{"but not of another version", and(freezes(freeze(finishing)), outside, failed, func(w world) { target(w, "b").Jobs[0].Version = "b0" }), "frozen: b on r1: starts b2 under freeze z"},
		{"nor of what it runs", and(freezes(freeze(finishing)), outside, failed, func(w world) { target(w, "b").Current = "b2" }), "frozen: b on r1: starts b2 under freeze z"},
		{"the way back is finished", and(freezes(freeze(finishing)), goesBack), ""},
		{"but not without leave", and(freezes(freeze()), goesBack), "frozen: b on r1: starts b1 under freeze z"},

		{"Next is now", func(w world) { w.Plan.Next = now }, "next: the plan's Next is 2026-03-11T09:00:00Z, which is not after now"},
		{"a wait ends before Next", and(blocked(rollout.Verdict{Status: rollout.Pending, Reason: "x", Until: now.Add(1)}), func(w world) {
			w.Plan.Next = now.Add(2)
		}), "next: c on r1: waits until 2026-03-11T09:00:00.000000001Z, and Next is 2026-03-11T09:00:00.000000002Z"},
		{"a wait ends, and there is no Next", blocked(rollout.Verdict{Status: rollout.Pending, Reason: "x", Until: now.Add(1)}),
			"next: c on r1: waits until 2026-03-11T09:00:00.000000001Z, and Next is 0001-01-01T00:00:00Z"},
		{"a wait ends at Next", and(blocked(rollout.Verdict{Status: rollout.Pending, Reason: "x", Until: now.Add(1)}), func(w world) {
			w.Plan.Next = now.Add(1)
		}), ""},
		{"a wait without a reason", func(w world) { waits(w, func(one *rollout.Waiting) { one.Blockers = nil }) }, "wakeup: c on r1: waits for no reason"},
		{"a reason that allows", blocked(rollout.Verdict{Status: rollout.Allowed, Reason: "x"}), "wakeup: c on r1: x is a reason to wait and allows"},
		{"a reason that is over", blocked(rollout.Verdict{Status: rollout.Pending, Reason: "x", Until: now}), "wakeup: c on r1: x waits until 2026-03-11T09:00:00Z, which is not after now"},
		{"a reason that nothing ends", blocked(rollout.Verdict{Status: rollout.Pending, Reason: "x"}), "wakeup: c on r1: x names neither an instant nor an event"},
		{"a denial needs no end", blocked(rollout.Verdict{Status: rollout.Denied, Reason: "x"}), ""},

		{"a claim that was not saved", func(w world) { w.Plan.State.Pools[0].Leases = nil }, "lease: b on r1: claims pool P with token 1, and the saved state has token 0"},
		{"a claim with another token", func(w world) { starts(w).Claims[0].Token = 2 }, "lease: b on r1: claims pool P with token 2, and the saved state has token 1"},
		{"a claim in a pool of which nothing was saved", func(w world) { starts(w).Claims = []rollout.Claim{{Pool: "Q"}} }, "lease: b on r1: claims pool Q with token 0, and the saved state has token 0"},
		{"the slot of a run is gone", func(w world) {
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Claims: []rollout.Claim{{Pool: "Q", Token: 1}}}
		}, "lease: a-run: its execution is open and its slot in pool Q is gone"},
		{"several slots are gone, and are told in order", func(w world) {
			for _, run := range []string{"a-9", "a-3", "a-7", "a-1", "a-5", "a-2", "a-8", "a-4", "a-6"} {
				w.Dispatched[run] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Run: run, Claims: []rollout.Claim{{Pool: "Q", Token: 1}}}
			}
		}, "lease: " + strings.Join([]string{"a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8", "a-9"}, ": its execution is open and its slot in pool Q is gone\n")},
		{"which a view that lags may have given back", func(w world) {
			w.Lagging = true
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/1", Claims: []rollout.Claim{{Pool: "Q", Token: 1}}}
		}, ""},
		{"and the one of an execution that is over", func(w world) {
			w.Dispatched["a-run"] = rollout.Start{TargetID: id("a"), Version: "a1", Group: "R/prod/0", Claims: []rollout.Claim{{Pool: "Q", Token: 1}}}
		}, ""},

		{"nothing is said about a target", func(w world) { w.Plan.Keep.Current-- }, "complete: of 4 targets 2 start or wait and 1 are kept"},
		{"a target is kept twice", func(w world) { w.Plan.Keep.Started++ }, "complete: of 4 targets 2 start or wait and 3 are kept"},
		{"it starts and waits", func(w world) {
			waits(w, func(one *rollout.Waiting) { one.TargetID, one.Version = id("b"), "b2" })
		}, "complete: b on r1: b2 both starts and waits, or waits twice"},
		{"it waits twice", func(w world) {
			var list []rollout.Waiting
			for one := range w.Plan.Waiting.All() {
				list = append(list, one, one)
			}
			w.Plan.Waiting, w.Plan.Keep.Current = rollout.NewWaitingList(list...), 1
		}, "complete: c on r1: c1 both starts and waits, or waits twice"},
		{"it starts, and a newer version waits", func(w world) {
			waits(w, func(one *rollout.Waiting) { one.TargetID, one.Version = id("b"), "b3" })
			w.Plan.Keep.Current++
		}, ""},
		{"the resource is deleted, and its targets still listed", func(w world) {
			w.Snapshot.Targets = append(w.Snapshot.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "b"}})
			w.Snapshot.DeletedResources = []string{"r2"}
		}, ""},
	} {
		version := func(deployment, id string, day int) rollout.Version {
			return rollout.Version{ID: id, Deployment: deployment, Status: rollout.VersionReady, CreatedAt: at(day, 0, 0)}
		}
		step := rollouttest.Step{Dispatched: map[string]rollout.Start{}}
		step.Snapshot.Versions = []rollout.Version{version("b", "b1", 0), version("b", "b2", 1), version("b", "b3", 2), version("a", "a1", 0), version("c", "c1", 0), version("d", "d2", 0)}
		step.Snapshot.Targets = []rollout.Target{
			{TargetID: id("a"), Current: "a1", Jobs: []rollout.Job{{Run: "a-run", Version: "a1", Status: rollout.JobSuccessful, CreatedAt: begun}}},
			{TargetID: id("b"), Current: "b1"}, {TargetID: id("c"), Current: "c1"}, {TargetID: id("d"), Current: "d2"},
		}
		group := &bracket.Group{ID: "R/prod/1", Members: []bracket.GroupMember{{Deployment: "b", Role: bracket.Main, Locks: []bracket.VersionMark{{ID: "b2"}}}}}
		execution := &bracket.Execution{Group: "R/prod/1", Environment: "prod", StartedAt: begun, Members: []bracket.ExecutionMember{
			{Deployment: "a", Role: bracket.Pre, Action: bracket.ActionRun, Version: "a1", From: "a1", Status: bracket.MemberSucceeded},
			{Deployment: "b", Role: bracket.Main, Action: bracket.ActionDeploy, Version: "b2", From: "b1", Status: bracket.MemberRunning},
			{Deployment: "c", Role: bracket.Post, Action: bracket.ActionRun, Version: "c1", From: "c1", Status: bracket.MemberWaiting},
		}}
		record, err := concurrency.NewRecord("P").Claim(concurrency.Claim{Token: 1}, concurrency.Holder{Resource: "r1", Group: "R/prod/1"}, begun)
		if err != nil {
			t.Fatal(err)
		}
		step.Plan = rollout.Plan{
			Now:     now,
			Start:   []rollout.Start{{TargetID: id("b"), Version: "b2", Group: "R/prod/1", Run: "b-run", Purpose: rollout.PurposeDeploy, Reason: "slot_free", Claims: []rollout.Claim{{Pool: "P", Token: 1}}}},
			Waiting: rollout.NewWaitingList(rollout.Waiting{TargetID: id("c"), Version: "c1", Blockers: []rollout.Verdict{{Status: rollout.Pending, Reason: "x", On: []rollout.Condition{{Kind: rollout.OnOperator}}}}}),
			Keep:    rollout.Keep{Current: 2},
			Pools:   []rollout.Pool{{Key: "P", Max: 1}},
		}
		step.Plan.State.Pools = []concurrency.Record{record}
		step.Plan.State.Brackets = []*bracket.GroupRecord{{Rule: "R", Environment: "prod", Number: 1, Closed: []*bracket.Group{group}}}
		step.Plan.State.Executions = []*bracket.ExecutionRecord{{Rule: "R", Resource: "r1", Open: execution}}
		row.edit(world{Step: &step, group: group, execution: execution})
		var given [][]rollout.Job
		for _, t := range step.Snapshot.Targets {
			given = append(given, slices.Clone(t.Jobs))
		}
		var found []string
		for _, invariant := range rollouttest.Invariants() {
			if err := invariant.Check(step); err != nil {
				found = append(found, invariant.Name+": "+err.Error())
			}
		}
		if got := strings.Join(found, "; "); !strings.HasPrefix(got, row.fault) || row.fault == "" && got != "" {
			t.Errorf("%s: got %q, want %q", row.why, got, row.fault)
		}
		if err := step.Check(); (err != nil) != (row.fault != "") {
			t.Errorf("%s: Check says %v", row.why, err)
		}
		for k, jobs := range given {
			if !slices.EqualFunc(jobs, step.Snapshot.Targets[k].Jobs, func(a, b rollout.Job) bool { return a.Run == b.Run }) {
				t.Errorf("%s: Check has put the jobs of target %d in another order", row.why, k)
			}
		}
	}
}
