package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestTurnAndCooldown: an execution waits for its turn and for the cooldowns of its members, whichever is later, and an override of the cooldown leaves the turn.
func TestTurnAndCooldown(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"c","versionCooldown":{"intervalSeconds":7200}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":14400}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	due := func(plan rollout.Plan) (list []string) {
		for _, wait := range waitingOf(plan) {
			list = append(list, wait.Blockers[0].Until.Format(time.TimeOnly))
		}
		slices.Sort(list)
		return list
	}
	plan := mustPlan(t, set, s, t0)
	if got := due(plan); len(plan.Start) != 0 || !slices.Equal(got, []string{"01:00:00", "04:00:00"}) {
		t.Errorf("starts %q, due %q: the first after its cooldown, the other in its turn", started(plan), got)
	}
	s.Overrides = []rollout.Override{override("c")}
	plan = mustPlan(t, set, s, t0)
	if got := due(plan); len(plan.Start) != 1 || !slices.Equal(got, []string{"04:00:00"}) {
		t.Errorf("an override lets the cooldown pass: starts %q, due %q", started(plan), got)
	}
}

// TestTurnInAWindowThatIsOver: the turn came while the window was open, and the first plan comes after it was shut. Nothing starts before it opens again.
func TestTurnInAWindowThatIsOver(t *testing.T) {
	now := instantOf(t, "2025-01-06T20:00:00Z")
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Versions {
		s.Versions[k].CreatedAt = now.Add(time.Duration(k-5) * time.Hour) // v2 at 16:00
	}
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`+weekly("w", "09:00", "17:00", "")))
	plan := mustPlan(t, set, s, now)
	if got := waits(plan); got != "bracket_not_due b 07 09:00:00; window_closed w 07 09:00:00" || len(plan.Start) != 0 {
		t.Errorf("starts %q, waits for %q", started(plan), got)
	}
}

// TestTurnWithoutAMember: a group waits for its turn and one of its members is deleted, wherever it stands in the list of deployments. The others run in their
// turn, and nobody is taken for it. Whom it was to run after, or before, is no longer asked.
func TestTurnWithoutAMember(t *testing.T) {
	const alone = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`
	const needs = alone + `,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'm'"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'm'","appliesTo":"deployment.name == 'z'"}}`
	for _, row := range []struct {
		why, rules, gone string
		starts, waits    []string
	}{
		{"the first", alone, "a", []string{"m", "z"}, nil},
		{"one between", alone, "m", []string{"a", "z"}, nil},
		{"the last", alone, "z", []string{"a", "m"}, nil},
		{"one that another needs: the dependency has no match and holds the resource", needs, "a", nil, []string{"m@v2: bracket_not_due dependency_unmatched", "z@v2: bracket_not_due dependency_unmatched"}},
		{"one that needs another, and that another needs", needs, "m", nil, []string{"a@v2: bracket_not_due dependency_unmatched", "z@v2: bracket_not_due dependency_unmatched"}},
		{"one that needs another", needs, "z", []string{"a"}, []string{"m@v2: bracket_waits_for_members"}},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}, "z": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		s.State = plan.State
		first := plan.Start[0].Resource
		s.Deployments = slices.DeleteFunc(s.Deployments, func(d rollout.Deployment) bool { return d.ID == row.gone })
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == row.gone })
		s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Deployment == row.gone })
		plan = mustPlan(t, set, s, t0.Add(time.Hour))
		var starts, waits []string
		for _, start := range plan.Start {
			if start.Resource != first {
				starts = append(starts, start.Deployment)
			}
		}
		for _, line := range blockers(plan) {
			if resource, rest, _ := strings.Cut(line, "/"); resource != first {
				waits = append(waits, rest)
			}
		}
		if !slices.Equal(starts, row.starts) || !slices.Equal(waits, row.waits) {
			t.Errorf("%s: starts %q, waits %q", row.why, starts, waits)
		}
	}
}

// TestTurnsOfTargetsInABracket: where a curve of another policy ranks targets on their own, an execution waits for the last turn of its members.
func TestTurnsOfTargetsInABracket(t *testing.T) {
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderKey":"target","orderSalt":"none"}}`
	place := map[string]int{}
	for _, deployment := range []string{"a", "m"} {
		plan := mustPlan(t, compile(t, policy(curve)), fleet(5, "v1", map[string][]string{deployment: {"v1", "v2"}}), t0)
		for k, resource := range orderOf(t, plan, 5) {
			place[resource] = max(place[resource], k)
		}
	}
	set := compile(t, `[`+policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)+`,{"name":"q","selector":"true","rules":[`+curve+`]}]`)
	plan := mustPlan(t, set, fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}}), t0)
	for _, wait := range waitingOf(plan) {
		own, want := wait.Blockers[0], place[wait.Resource]
		if own.Reason != "bracket_not_due" || own.Data.Position != want || own.Data.Population != 5 || !own.Until.Equal(t0.Add(time.Duration(want)*time.Hour)) {
			t.Errorf("%s/%s: %+v %+v, want place %d", wait.Resource, wait.Deployment, own, own.Data, want)
		}
	}
	if plan.Waiting.Len() < 8 {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestTurnsOfTenants: one bracket, and a curve for each of two tenants. Everybody waits for the curve of their own, and an override of one leaves the other.
func TestTurnsOfTenants(t *testing.T) {
	set := compile(t, `[`+policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`)+`,
		{"name":"p1","selector":"resource.name in ['r1', 'r2']","rules":[{"id":"g1","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}]},
		{"name":"p2","selector":"resource.name in ['r3', 'r4']","rules":[{"id":"g2","gradualRollout":{"rolloutType":"linear","timeScaleInterval":36000}}]}]`)
	s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}}) // r5 is no tenant's
	for _, row := range []struct {
		why       string
		overrides []rollout.Override
		starts    int
		want      []string
	}{
		{"a curve each", nil, 3, []string{"01:00:00", "10:00:00"}},
		{"all of the first go", []rollout.Override{override("g1")}, 4, []string{"10:00:00"}},
		{"all of the second", []rollout.Override{override("g2")}, 4, []string{"01:00:00"}},
	} {
		s.Overrides = row.overrides
		plan := mustPlan(t, set, s, t0)
		var got []string
		for _, wait := range waitingOf(plan) {
			got = append(got, wait.Blockers[0].Until.Format(time.TimeOnly))
		}
		slices.Sort(got)
		if len(plan.Start) != row.starts || !slices.Equal(got, row.want) {
			t.Errorf("%s: starts %q, waits until %q: %q", row.why, started(plan), got, blockers(plan))
		}
	}
}
