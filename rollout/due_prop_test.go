package rollout_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// execution is what a bracket would run on a resource, as a plan tells of it.
type execution struct {
	rule, environment string
	group             *bracket.Group
	runs              []rollout.Waiting // with the blockers of the whole execution, unless it starts
	starts            bool
}

// pending lists the executions that have not begun: those that start now, and those that wait for
// their turn.
func pending(plan rollout.Plan) (list []*execution) {
	open := func(rule, resource string) bool {
		return slices.ContainsFunc(plan.State.Executions, func(r *bracket.ExecutionRecord) bool {
			return r.Rule == rule && r.Resource == resource && r.Open != nil
		})
	}
	at := map[string]*execution{}
	add := func(rule string, run rollout.Waiting) *execution {
		key := fmt.Sprint(rule, "|", run.Resource, "|", run.Environment)
		if at[key] == nil {
			at[key] = &execution{rule: rule, environment: run.Environment}
			for _, record := range plan.State.Brackets {
				if record.Rule == rule && record.Environment == run.Environment {
					at[key].group = record.Closed[len(record.Closed)-1]
				}
			}
			list = append(list, at[key])
		}
		at[key].runs = append(at[key].runs, run)
		return at[key]
	}
	for _, start := range plan.Start {
		for _, record := range plan.State.Brackets {
			mine := slices.ContainsFunc(record.Closed, func(g *bracket.Group) bool { return g.ID == start.Group })
			if mine && !open(record.Rule, start.Resource) {
				add(record.Rule, rollout.Waiting{TargetID: start.TargetID, Version: start.Version}).starts = true
			}
		}
	}
	for wait := range plan.Waiting.All() {
		switch b := wait.Blockers[0]; {
		case open(b.Rule, wait.Resource):
		case b.Reason == "bracket_not_due":
			add(b.Rule, wait)
		case b.Reason == "bracket_waits_for_members": // of those that start
			add(b.Rule, rollout.Waiting{TargetID: wait.TargetID, Version: wait.Version})
		}
	}
	return list
}

// memberPopulation lists what a gradual rule ranks for a run of a bracket's execution.
func (r *reference) memberPopulation(rule namedRule, x *execution, t rollout.Target, version string) []ranked {
	g := rule.GradualRollout
	bracketID, selector := "", ""
	for _, own := range r.rulesOf(rule.policy) {
		if own.DeploymentBracket != nil {
			bracketID, selector = own.id, own.DeploymentBracket.DeploymentSelector
		}
	}
	key := g.OrderKey
	if key == "" {
		key = rollout.OrderByTarget
		if bracketID != "" {
			key = rollout.OrderByBracket
		}
	}
	salt := ""
	switch {
	case g.OrderSalt == rollout.SaltByGroup:
		salt = x.group.ID
	case key == rollout.OrderByTarget && g.OrderSalt != rollout.SaltNone:
		salt = version
	}
	legacy := g.OrderHash == rollout.HashLegacy
	list := map[string]ranked{}
	for _, o := range r.s.Targets {
		if o.Environment != t.Environment || key == rollout.OrderByTarget && o.Deployment != t.Deployment {
			continue
		}
		if rules, _ := r.governing(o); !slices.ContainsFunc(rules, func(n namedRule) bool { return n.id == rule.id }) {
			continue
		}
		if key == rollout.OrderByBracket && bracketID == x.rule {
			if ok, _, _ := r.match(selector, vars{}.deployment(r.deployment(o.Deployment))); !ok {
				continue
			}
		}
		if key == rollout.OrderByTarget && version != "" {
			v := find(r.versions(t.Deployment), func(v rollout.Version) string { return v.ID }, version)
			if v.ID != "" && !r.inScope(v, o) && currentOf(o) != version {
				continue
			}
		}
		one := ranked{id: o.TargetID, priority: o.Priority, joined: o.JoinedAt}
		if key != rollout.OrderByTarget {
			one.id = rollout.TargetID{Resource: o.Resource}
		}
		switch {
		case legacy && key == rollout.OrderByTarget:
			one.hash = hashLegacy(o.Resource + "-" + o.Environment + "-" + o.Deployment + version)
		case legacy && key == rollout.OrderByBracket:
			one.hash = hashLegacy(o.Resource + bracketID)
		case legacy:
			one.hash = hashLegacy(o.Resource)
		case key == rollout.OrderByTarget:
			one.hash = hashV1("position/1", "target", salt, o.Resource, o.Environment, o.Deployment)
		case key == rollout.OrderByBracket:
			one.hash = hashV1("position/1", "resource_bracket", salt, o.Resource, bracketID)
		default:
			one.hash = hashV1("position/1", "resource", salt, o.Resource)
		}
		rank(list, fmt.Sprint(one.id), one)
	}
	return slices.Collect(maps.Values(list))
}

// record is that of a gradual rule for a run of a bracket's group: one for all that run, or where
// targets are ranked on their own one per member, and for some versions one of their own.
func (x *execution) record(records []rollout.RolloutRecord, rule string, run rollout.Waiting) *rollout.RolloutRecord {
	var found *rollout.RolloutRecord
	for k := range records {
		own := &records[k]
		if own.Rule != rule || own.Environment != x.environment || own.Group != x.group.ID || own.Deployment != "" && own.Deployment != run.Deployment {
			continue
		}
		if own.Version == run.Version || own.Version == "" && found == nil {
			found = own
		}
	}
	return found
}

// due is the first instant, from now on if it is past and a window is shut, at which rules 7 to 9
// of the chain let all run; false if there is none.
func (r *reference) due(t *rapid.T, x *execution, records []rollout.RolloutRecord) (due time.Time, ever bool, why []string) {
	due = x.group.ReadyAt
	shut := false
	type hours struct {
		openings
		longest time.Duration
	}
	var all []hours
	for _, run := range x.runs {
		target := find(r.s.Targets, func(o rollout.Target) rollout.TargetID { return o.TargetID }, run.TargetID)
		rules, _ := r.governing(target)
		for _, rule := range rules {
			switch {
			case rule.VersionCooldown != nil && r.override(rule.id, run.Version, target) == nil:
				v := find(r.versions(target.Deployment), func(v rollout.Version) string { return v.ID }, run.Version)
				if until, blocks := r.cooldown(rule, target, v); run.Version != "" && v.ID != "" && blocks {
					due = later(due, until)
					why = append(why, "cooldown")
				}
			case rule.GradualRollout != nil && r.override(rule.id, run.Version, target) == nil:
				population := r.memberPopulation(rule, x, target, run.Version)
				record := x.record(records, rule.id, run)
				if record == nil {
					t.Fatalf("no record of %s for %v@%s: %+v", rule.id, run.TargetID, run.Version, records)
				}
				position := 0
				self := slices.IndexFunc(population, func(o ranked) bool {
					return o.id.Resource == target.Resource && (o.id.Deployment == "" || o.id == target.TargetID)
				})
				for _, o := range population {
					if o.before(population[self], record.StartAt) {
						position++
					}
				}
				offset, ok := referenceOffset(*rule.GradualRollout, position, record.Founders)
				if !ok {
					return due, false, why
				}
				at := record.StartAt.Add(offset)
				curveOf := []string{target.Deployment}
				if rule.GradualRollout.OrderKey != rollout.OrderByTarget { // the group has one
					curveOf = nil
					for _, m := range x.group.Members {
						curveOf = append(curveOf, m.Deployment)
					}
				}
				from := r.openingsFrom(target, run.Version, rules, curveOf...)
				if from.timed() {
					if at, ok = from.addOpen(record.StartAt, offset); !ok {
						return due, false, why
					}
				}
				if at.After(r.now) {
					why = append(why, "turn")
				}
				due = later(due, at)
			}
		}
		own := hours{openings: r.openings(target, run.Version, rules)}
		for _, rule := range own.rules {
			own.longest = max(own.longest, time.Duration(rule.DeploymentWindow.MinimumRemainingMinutes)*time.Minute)
		}
		all = append(all, own)
		shut = shut || !own.fits(r.now, own.longest)
	}
	if shut {
		why = append(why, "window")
	}
	if !shut && !due.After(r.now) {
		return due, true, why
	}
	at := later(due, r.now)
	for at.Before(soon(later(due, r.now)).AddDate(0, 0, 1)) {
		if !slices.ContainsFunc(all, func(h hours) bool { return !h.fits(at, h.longest) }) {
			return at, true, why
		}
		at = nextMinute(at)
	}
	return due, false, why
}

// TestDueOfExecutions: an execution is due at the first instant at which the cooldowns, windows and
// curves of all that it will run let them, neither sooner nor later; and where nothing else is in
// the way it waits for no other.
func TestDueOfExecutions(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 100, nil, func(t *rapid.T, w *world) {
		s := w.s
		s.State = w.plan.State
		if chance(t, "stands still", 15) {
			s.Freezes = append(slices.Clip(s.Freezes), rollout.Freeze{
				ID: "still", CreatedAt: minute(between(t, "since", -5, 5)), CreatedBy: "bob", Reason: "INC-7", PauseCurves: true, Environment: oneOf(t, "where", "", "prod"),
			})
		}
		plan, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(x rollout.Target) bool { return slices.Contains(s.DeletedResources, x.Resource) })
		s.Resources = slices.DeleteFunc(slices.Clone(s.Resources), func(x rollout.Resource) bool { return slices.Contains(s.DeletedResources, x.ID) })
		r := newReference(w.policies, env)
		r.s, r.now = &s, w.now
		for _, x := range pending(plan) {
			due, ever, why := r.due(t, x, plan.State.Rollouts)
			var blockers []rollout.Verdict
			for _, run := range x.runs {
				blockers = append(blockers, run.Blockers...)
			}
			said := time.Time{}
			other := false // something but time is in the way
			if len(blockers) > 0 {
				said = blockers[0].Until
				for _, b := range blockers[1:] {
					switch b.Reason {
					case "bracket_not_due", rollout.ReasonCooldown, rollout.ReasonWindowTooShort:
					case rollout.ReasonWindowClosed, rollout.ReasonRolloutNotDue:
						other = other || b.Until.IsZero()
					default:
						other = true
					}
				}
			}
			for _, k := range why {
				seen[k]++
			}
			if len(why) > 1 {
				seen["several"]++
			}
			fail := func(format string, args ...any) {
				t.Fatalf("%s\n%+v due %v %v %v, said %v: %+v\n%v", fmt.Sprintf(format, args...), x, due, ever, why, said, blockers, w)
			}
			switch {
			case x.starts && (!ever || due.After(w.now)):
				fail("starts too early")
			case x.starts:
				seen["starts"]++
			case !ever && len(blockers) > 0 && !slices.ContainsFunc(blockers, func(b rollout.Verdict) bool {
				return b.Reason == rollout.ReasonRolloutOverflow || b.Until.IsZero() && (b.Reason == rollout.ReasonWindowClosed || b.Reason == rollout.ReasonRolloutNotDue)
			}):
				fail("never due, and does not say so")
			case !ever:
				seen["never"]++
			case other:
				seen["obstacle"]++
			case len(blockers) == 0: // it only waits for its slot
			case !said.Equal(due):
				fail("due at another time")
			default:
				seen["due later"]++
			}
		}
	}, "starts", "due later", "cooldown", "turn", "window", "several", "obstacle", "never", "curve stands still")
}
