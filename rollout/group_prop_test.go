package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// referenceVersion is a version as a bracket sees it: e is since when it may be deployed; zero: it
// may not.
type referenceVersion struct {
	rollout.Version
	e time.Time
}

// referenceMember is a member of a bracket in one environment.
type referenceMember struct {
	deployment string
	role       bracket.Role
	versions   []referenceVersion // oldest first
	runs       []int              // per target, the place of the version that it runs; -1: none, or one that nobody lists
	outdated   []time.Time
	mark       int // place of the newest version that was locked; -1
}

// members are those of a bracket; false if the gates of one of them differ from target to target,
// or a version is not for all of them.
func (r *reference) members(policy int, environment string) (members []*referenceMember, alike bool) {
	rule := r.rulesOf(policy)[0]
	byID := map[string]*referenceMember{}
	deployments := slices.Clone(r.s.Deployments)
	slices.SortFunc(deployments, func(a, b rollout.Deployment) int { return strings.Compare(a.ID, b.ID) })
	for _, d := range deployments {
		if ok, _, _ := r.match(rule.DeploymentBracket.DeploymentSelector, vars{}.deployment(d)); !ok {
			continue
		}
		for _, t := range r.s.Targets {
			rules, _ := r.governing(t)
			if t.Deployment != d.ID || t.Environment != environment || !slices.ContainsFunc(rules, func(x namedRule) bool { return x.id == rule.id }) {
				continue
			}
			if slices.ContainsFunc(rules, func(x namedRule) bool {
				return x.VersionSelector != nil && strings.Contains(x.VersionSelector.Selector, "resource.")
			}) {
				return nil, false // it decides whom a version is for
			}
			var seen []referenceVersion
			for _, v := range r.versions(d.ID) {
				own := referenceVersion{Version: v}
				if v.TargetSelector != "" {
					return nil, false
				}
				if blockers, since, _, private := r.gate(t, v, rules); private {
					return nil, false
				} else if len(blockers) == 0 && !v.CreatedAt.After(r.now) {
					own.e = since
					for _, x := range rules { // a rollout does not start from these, but a group does
						shut := x.VersionSelector != nil && r.versionSelector(x, t, v) != "" || x.FailureBudget != nil && r.overBudget(x, v, t.Environment)
						if o := r.override(x.id, v.ID, t); o != nil && shut {
							own.e = later(own.e, o.CreatedAt)
						}
					}
				}
				seen = append(seen, own)
			}
			m := byID[d.ID]
			if m == nil {
				m = &referenceMember{deployment: d.ID, role: bracket.Main, versions: seen, mark: -1}
				if roles := rule.DeploymentBracket.MemberRoles; roles.Pre != "" && d.Name == "a" {
					m.role = bracket.Pre
				} else if roles.Post != "" && d.Name == "c" {
					m.role = bracket.Post
				}
				byID[d.ID] = m
				members = append(members, m)
			}
			if fmt.Sprint(m.versions) != fmt.Sprint(seen) {
				return nil, false
			}
			current := currentOf(t)
			m.runs = append(m.runs, place(r.versions(d.ID), current))
			renewed := slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool {
				return j.Status == rollout.JobSuccessful && j.Version == current && !j.CreatedAt.Before(t.OutdatedAt)
			})
			if !t.OutdatedAt.IsZero() && !renewed {
				m.outdated = append(m.outdated, t.OutdatedAt)
			}
		}
	}
	return members, true
}

// earliest is the earlier of two instants; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// groups opens and closes groups from the first version on, however much time has passed, and
// describes the last one that closed and the one that collects.
func (r *reference) groups(rule *bracket.Rule, members []*referenceMember) (closed, collecting string) {
	var last time.Time // close of the latest group
	window := time.Duration(0)
	if rule.ReadinessWindowSeconds != nil {
		window = time.Duration(*rule.ReadinessWindowSeconds) * time.Second
	}
	for number := 1; ; number++ {
		var trigger, first, all time.Time // first: E, all: A
		complete := true
		for _, m := range members {
			if m.role != bracket.Main {
				continue
			}
			var own time.Time
			for n, v := range m.versions {
				if n <= m.mark || !slices.ContainsFunc(m.runs, func(runs int) bool { return runs < n }) {
					continue
				}
				own = earliest(own, v.e)
				if rule.TriggerOn == bracket.Published {
					trigger = earliest(trigger, v.CreatedAt)
				} else {
					trigger = earliest(trigger, v.e)
				}
			}
			for _, at := range m.outdated {
				if at.After(last) {
					own, trigger = earliest(own, at), earliest(trigger, at)
				}
			}
			complete = complete && !own.IsZero()
			first, all = earliest(first, own), later(all, own)
		}
		opened := later(trigger, last)
		if trigger.IsZero() || opened.After(r.now) {
			return closed, ""
		}
		collecting = fmt.Sprintf("%d %v", number, opened)
		if first.IsZero() {
			return closed, collecting
		}
		first, all = later(first, opened), later(all, opened)
		end := opened.Add(window)
		at, timedOut, strategy := later(end, first), false, rule.UnchangedMemberStrategy
		switch {
		case rule.ReadinessMode == bracket.Immediate:
			at = first
		case rule.ReadinessMode == bracket.WaitForAll && complete && !all.After(end):
			at = all
		case rule.ReadinessMode == bracket.WaitForAll:
			timedOut = true
		case strategy != bracket.RequireAll:
		case complete && !all.After(end):
			at = end
		default:
			longer := end.Add(time.Duration(rule.RequireAllTimeoutSeconds) * time.Second)
			if complete && !all.After(longer) {
				at = all
			} else {
				at, timedOut = later(longer, first), true
			}
		}
		if timedOut && strategy == bracket.RequireAll {
			strategy = bracket.SkipUnchanged
		}
		if at.After(r.now) {
			return closed, collecting
		}
		closed = fmt.Sprintf("%d %v %v %v %v", number, opened, at, timedOut, strategy)
		for _, m := range members {
			closed += " " + m.deployment + " " + string(m.role)
			for n := len(m.versions) - 1; n >= 0; n-- {
				if v := m.versions[n]; !v.e.IsZero() && !v.e.After(at) {
					closed += "@" + v.ID
					m.mark = max(m.mark, n)
					break
				}
			}
		}
		last = at
	}
}

// TestGroups: the groups that a first plan finds, however late it comes, are those that follow from
// the versions and from when their gates opened.
func TestGroups(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		fleet := genFleet(t)
		for range 4 {
			s := cloneFleet(fleet)
			p := genBracket(t, oneOf(t, "governs", "true", "true", "environment.name == 'prod' || resource.kind == 'Node'"), oneOf(t, "members", "true", "true", "deployment.name != 'b'"))
			rule := p.Rules[0].DeploymentBracket
			rule.MemberRoles = oneOf(t, "hooks", &bracket.MemberRoles{}, &bracket.MemberRoles{}, &bracket.MemberRoles{Pre: "deployment.name == 'a'"}, &bracket.MemberRoles{Post: "deployment.name == 'c'"})
			if rule.ReadinessMode == bracket.CollectionWindow && chance(t, "patient", 50) {
				rule.UnchangedMemberStrategy, rule.RequireAllTimeoutSeconds = bracket.RequireAll, oneOf[int64](t, "timeout", 0, 60, 180)
			}
			policies := append(genPolicies(t), p)
			if chance(t, "unscoped", 70) {
				for k := range s.Versions {
					s.Versions[k].TargetSelector = ""
				}
			}
			if chance(t, "overridden", 30) {
				s.Overrides = genOverrides(t, idsOf(policies, rollout.KindBracket))
			}
			set, err := rollout.Compile(policies, env)
			if err != nil {
				t.Fatal(err)
			}
			r := newReference(policies, env)
			now := minute(between(t, "now", -2, 10)).Add(oneOf(t, "and", 0, 0, -1, 30*time.Second))
			plan, planned := planIfAny(t, set, s, now)
			if !planned {
				seen["contradiction"]++
				continue
			}
			s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(x rollout.Target) bool { return slices.Contains(s.DeletedResources, x.Resource) })
			s.Resources = slices.DeleteFunc(slices.Clone(s.Resources), func(x rollout.Resource) bool { return slices.Contains(s.DeletedResources, x.ID) })
			r.s, r.now = &s, now
			for _, e := range s.Environments {
				members, alike := r.members(len(policies)-1, e.ID)
				if !alike {
					seen["uneven"]++
					continue
				}
				closed, collecting := r.groups(rule, members)
				gotClosed, gotCollecting := "", ""
				for _, record := range plan.State.Brackets {
					if record.Environment != e.ID {
						continue
					}
					if c := record.Collecting; c != nil {
						gotCollecting = fmt.Sprintf("%s %v", c.ID[len(bracket.GroupID(record.Rule, e.ID, 0))-1:], c.OpenedAt)
					}
					for _, group := range record.Closed {
						gotClosed = fmt.Sprintf("%s %v %v %v %v", group.ID[len(bracket.GroupID(record.Rule, e.ID, 0))-1:], group.OpenedAt, group.ReadyAt, group.TimedOut, group.Strategy)
						for _, m := range group.Members {
							gotClosed += " " + m.Deployment + " " + string(m.Role)
							for _, lock := range m.Locks {
								gotClosed += "@" + lock.ID
							}
						}
						if group.TimedOut {
							seen["timed out"]++
						}
					}
					if record.Number > 1 {
						seen["several"]++
					}
				}
				if diff := cmp.Diff([]string{closed, collecting}, []string{gotClosed, gotCollecting}); diff != "" {
					t.Fatalf("reference (-) and plan (+) differ in %s:\n%s\n%v", e.ID, diff, &world{policies: policies, s: s, now: now})
				}
				seen[fmt.Sprintf("closed %v, collects %v", closed != "", collecting != "")]++
			}
		}
	}, "several", "timed out", "closed true, collects false", "closed true, collects true", "closed false, collects true", "closed false, collects false")
}
