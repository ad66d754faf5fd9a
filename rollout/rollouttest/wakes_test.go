package rollouttest_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestWaitsSayWhatEndsThem: whoever looks at a waiting target again at the Until of its blockers,
// and at the events in their On, and at no other time, misses nothing. In drawn worlds every target
// is watched by somebody who does so, and is asleep in between: no version that waits starts while
// its watcher sleeps. Left out are edits of the fleet, which wake everybody, and overrides. A
// version older than the one of which the plan lists the blockers may start meanwhile.
func TestWaitsSayWhatEndsThem(t *testing.T) {
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		text, world, accepted := drawn{t}.governed(compiler, seen)
		if !accepted {
			return
		}
		world.Fleet.Overrides, world.Trust = nil, true
		watches := map[rollout.TargetID]*glance{} // when it was looked at last
		var state rollout.State
		edits := 0
		for k, change := range world.Changes {
			if change.What == lift {
				continue // whoever is frozen waits for it
			}
			world.Changes[k].Do = func(s *rollout.Snapshot) {
				edits++
				change.Do(s)
			}
		}
		world.Plan = func(_ context.Context, s rollout.Snapshot, now time.Time) (rollout.Plan, error) {
			s.State = state
			plan, err := world.Policies.Plan(s, now)
			if err != nil {
				return plan, err
			}
			if plan.State, err = plan.Commit(plan.Start, now); err != nil {
				return plan, err
			}
			state = plan.State
			after := look(s, plan, edits)
			for id := range after.targets {
				if g := watches[id]; g != nil && g.edits == after.edits && len(g.waiting[id].Blockers) > 0 && !g.wakes(id, after, seen) {
					if seen["sleeps"]++; after.starts[id] != "" && after.starts[id] == g.waiting[id].Version {
						missed := fmt.Sprintf("at %s %s %s waits for %+v; at %s it starts", g.now, id, g.waiting[id].Version, g.waiting[id].Blockers, now)
						world.Plan, world.Pure = nil, true
						timeline, _ := world.Run(context.Background())
						t.Fatalf("%s\n%v\n%s", missed, timeline.About(id.Resource), text)
					}
					continue
				}
				watches[id] = after
			}
			return plan, nil
		}
		if _, err := world.Run(context.Background()); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}, "sleeps", "until", "another group", "on approval", "on job", "on dependency", "on member", "on execution_end", "on group_close", "on slot", "on rate", "on version", "on freeze", "halt over by group_close")
}

// glance is what could be seen at one plan.
type glance struct {
	now     time.Time
	edits   string // of what may change anything
	waiting map[rollout.TargetID]rollout.Waiting
	starts  map[rollout.TargetID]string   // their versions
	targets map[rollout.TargetID]string   // what is known of their jobs
	ran     map[rollout.TargetID][]string // the versions of these
	plan    rollout.Plan
	s       rollout.Snapshot
}

func look(s rollout.Snapshot, plan rollout.Plan, edits int) *glance {
	g := &glance{now: plan.Now, waiting: map[rollout.TargetID]rollout.Waiting{}, starts: map[rollout.TargetID]string{}, targets: map[rollout.TargetID]string{}, ran: map[rollout.TargetID][]string{}, plan: plan, s: s}
	g.s.Approvals, g.s.Versions = slices.Clone(s.Approvals), slices.Clone(s.Versions)
	for w := range plan.Waiting.All() {
		g.waiting[w.TargetID] = w
	}
	for _, start := range plan.Start {
		g.starts[start.TargetID] = start.Version
	}
	var ids []rollout.TargetID
	for _, t := range s.Targets {
		g.targets[t.TargetID] = fmt.Sprintf("%s %+v", t.Current, t.Jobs)
		for _, job := range t.Jobs {
			g.ran[t.TargetID] = append(g.ran[t.TargetID], job.Version)
		}
		ids = append(ids, t.TargetID)
	}
	g.edits = fmt.Sprint(edits, ids) // and who has joined
	return g
}

// wakes reports whether anything has happened since of that for which one of the verdicts waits.
// What a group waits for is over when the next one has closed, which is told as an event; a halt by a
// failure names that itself. A hook waits for what the mains on its resource wait for, which say so.
func (g *glance) wakes(id rollout.TargetID, after *glance, seen testkit.Tally) (woken bool) {
	blockers := g.waiting[id].Blockers
	for main, wait := range g.waiting {
		hook := func(v rollout.Verdict) bool { return v.Reason == "bracket_hook_waits_for_main" }
		if main.Resource == id.Resource && main.Environment == id.Environment && slices.ContainsFunc(g.waiting[id].Blockers, hook) && !slices.ContainsFunc(wait.Blockers, hook) {
			blockers = slices.Concat(blockers, wait.Blockers)
			// An older version of a main may start meanwhile, of which its blockers say nothing, and
			// the version of a hook is the same with either.
			woken = woken || after.starts[main]+after.waiting[main].Version != wait.Version
		}
	}
	// An older version that starts on the target meanwhile changes what it is asked, such as which
	// windows are for it.
	if v := g.waiting[id].Version; g.others(id, v) != after.others(id, v) || g.starts[id] != "" {
		woken = true
		seen["it starts an older one"]++
	}
	// What an execution waits for ends if the member that it waits for leaves, as the doc of Verdict
	// says.
	left := func(list []rollout.Verdict) bool {
		return slices.ContainsFunc(list, func(v rollout.Verdict) bool {
			return v.Reason == rollout.ReasonFailureBudget || v.Reason == rollout.ReasonProgressionTooOld
		})
	}
	for member, wait := range g.waiting {
		if member != id && member.Resource == id.Resource && member.Environment == id.Environment &&
			after.starts[member] == "" && left(after.waiting[member].Blockers) && !left(wait.Blockers) {
			woken = true
			seen["a member leaves"]++
		}
	}
	for _, v := range blockers {
		if strings.HasPrefix(string(v.Reason), "bracket_") && v.Reason != "bracket_failed_holding" &&
			g.happened(rollout.Condition{Kind: rollout.OnGroupClose, Rule: v.Rule, Environment: id.Environment}, after) {
			woken = true
			seen["another group"]++
		}
		if !v.Until.IsZero() && !v.Until.After(after.now) {
			woken = true
			seen["until"]++
		}
		for _, on := range v.On {
			if g.happened(on, after) {
				woken = true
				seen["on "+string(on.Kind)]++
				if v.Reason == "bracket_failed_holding" {
					seen["halt over by "+string(on.Kind)]++
				}
			}
		}
	}
	return woken
}

// others returns how many jobs of a target are of other versions than one.
func (g *glance) others(id rollout.TargetID, version string) (n int) {
	for _, v := range g.ran[id] {
		if v != version {
			n++
		}
	}
	return n
}

func (g *glance) happened(on rollout.Condition, after *glance) bool {
	worked := func(is func(rollout.TargetID) bool) bool {
		for id := range after.targets {
			if is(id) && after.targets[id] != g.targets[id] {
				return true
			}
		}
		return false
	}
	switch on.Kind {
	case rollout.OnApproval:
		return slices.ContainsFunc(after.s.Approvals[len(g.s.Approvals):], func(a rollout.Approval) bool {
			return a.Deployment == on.Deployment && a.Version == on.Version && a.Environment == on.Environment
		})
	case rollout.OnJob, rollout.OnDependency, rollout.OnMember:
		return worked(func(id rollout.TargetID) bool {
			return id.Deployment == on.Deployment && (on.Resource == "" || id.Resource == on.Resource) && (on.Environment == "" || id.Environment == on.Environment)
		})
	case rollout.OnFreeze:
		return !slices.ContainsFunc(after.s.Freezes, func(z rollout.Freeze) bool { return z.ID == on.Freeze })
	case rollout.OnExecutionEnd:
		open := func(p rollout.Plan) string {
			for _, record := range p.State.Executions {
				if record.Rule == on.Rule && record.Resource == on.Resource && record.Open != nil {
					return record.Open.Group
				}
			}
			return ""
		}
		return open(g.plan) != open(after.plan)
	case rollout.OnGroupClose:
		closed := func(p rollout.Plan) string {
			for _, record := range p.State.Brackets {
				if record.Rule == on.Rule && record.Environment == on.Environment && len(record.Closed) > 0 {
					return record.Closed[len(record.Closed)-1].ID
				}
			}
			return ""
		}
		return closed(g.plan) != closed(after.plan)
	case rollout.OnRate: // without Until: a period after what the plan starts
		return slices.ContainsFunc(g.plan.Start, func(start rollout.Start) bool {
			return slices.ContainsFunc(start.Claims, func(c rollout.Claim) bool {
				return c.Pool == on.Pool && c.PeriodSeconds > 0 && !after.now.Before(g.now.Add(time.Duration(c.PeriodSeconds)*time.Second))
			})
		})
	case rollout.OnSlot:
		pool := func(p rollout.Plan) (leases []concurrency.Lease) {
			for _, own := range p.State.Pools {
				if own.Key == on.Pool {
					leases = append(leases, own.Leases...)
				}
			}
			return leases
		}
		return !reflect.DeepEqual(pool(g.plan), pool(after.plan))
	case rollout.OnVersion:
		versions := func(s rollout.Snapshot) (list []rollout.Version) {
			for _, v := range s.Versions {
				if v.Deployment == on.Deployment {
					list = append(list, v)
				}
			}
			return list
		}
		return !reflect.DeepEqual(versions(g.s), versions(after.s))
	}
	return false
}
