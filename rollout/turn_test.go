package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// TestTurnAndCooldown: an execution waits for its turn and for the cooldowns of its members,
// whichever is later, and an override of the cooldown leaves the turn.
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

// TestTurnInAWindowThatIsOver: the turn came while the window was open, and the first plan comes
// after it was shut. Nothing starts before it opens again.
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

// TestTurnIsNotAllThatHolds: a target that waits for its turn says what else holds it, although the
// targets before it wait for nothing but theirs.
func TestTurnIsNotAllThatHolds(t *testing.T) {
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderSalt":"none"}}`
	for _, row := range []struct {
		why, rules string
		change     func(s *rollout.Snapshot, api, db *rollout.Target) // what holds a target
		want       rollout.Reason
	}{
		{"what its version needs", curve, func(s *rollout.Snapshot, _, db *rollout.Target) { db.Current = "" }, rollout.ReasonVersionUnmet},
		{"what its deployment needs", curve + `,{"id":"d","deploymentDependency":{"dependsOn":"deployment.id == 'db'","appliesTo":"deployment.id == 'api'"}}`,
			func(s *rollout.Snapshot, _, db *rollout.Target) { db.Current = "" }, rollout.ReasonDependencyUnmet},
		{"a cooldown", curve + `,{"id":"c","versionCooldown":{"intervalSeconds":864000}}`, func(s *rollout.Snapshot, api, _ *rollout.Target) { api.Current = "v1" }, rollout.ReasonCooldown},
		{"a selector that reads its resource", curve + `,{"id":"v","versionSelector":{"selector":"resource.name != 'held'"}}`, func(s *rollout.Snapshot, api, _ *rollout.Target) {
			s.Resources[slices.IndexFunc(s.Resources, func(r rollout.Resource) bool { return r.ID == api.Resource })].Name = "held"
		}, rollout.ReasonSelectorNoMatch},
		{"a job", curve, func(s *rollout.Snapshot, api, _ *rollout.Target) {
			api.Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
		}, rollout.ReasonTargetBusy},
	} {
		s := fleet(6, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}})
		v2 := slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "api" && v.ID == "v2" })
		if row.want == rollout.ReasonVersionUnmet {
			s.Versions[v2].Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "true"}}
		}
		find := func(resource, deployment string) *rollout.Target {
			return &s.Targets[slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == resource && t.Deployment == deployment })]
		}
		for _, target := range s.Targets {
			if target.Deployment == "api" {
				find(target.Resource, "api").Current = ""
				if target.Resource >= "r4" {
					row.change(&s, find(target.Resource, "api"), find(target.Resource, "db"))
				}
			}
		}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, s.Versions[v2].CreatedAt)
		for wait := range plan.Waiting.All() {
			turn := slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool { return b.Reason == rollout.ReasonRolloutNotDue })
			held := slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool { return b.Reason == row.want })
			if wait.Deployment == "api" && held != (wait.Resource >= "r4") || !turn && !held {
				t.Errorf("%s: %v", row.why, wait)
			}
		}
		if plan.Waiting.Len() < 5 {
			t.Errorf("%s: %q", row.why, blockers(plan))
		}
	}
}

// TestTurnWithoutAMember: a group waits for its turn and one of its members is deleted, wherever it
// stands in the list of deployments. The others run in their turn, and nobody is taken for it. Whom
// it was to run after, or before, is no longer asked.
func TestTurnWithoutAMember(t *testing.T) {
	const curve = alone + `,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`
	const needs = curve + `,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'm'"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'm'","appliesTo":"deployment.name == 'z'"}}`
	for _, row := range []struct {
		why, rules, gone string
		starts, waits    []string
	}{
		{"the first", curve, "a", []string{"m", "z"}, nil},
		{"one between", curve, "m", []string{"a", "z"}, nil},
		{"the last", curve, "z", []string{"a", "m"}, nil},
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

// TestTurnsOfTargetsInABracket: where a curve of another policy ranks targets on their own, an
// execution waits for the last turn of its members.
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

// TestTurnsOfTenants: one bracket, and a curve for each of two tenants. Everybody waits for the
// curve of their own, and an override of one leaves the other.
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

// alone is a bracket of all deployments that closes at once.
const alone = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`

// reasonsOn lists what a release target waits for, as waits does.
func reasonsOn(plan rollout.Plan, resource, deployment string) string {
	wait, waiting := plan.Waiting.Of(rollout.TargetID{Resource: resource, Environment: "prod", Deployment: deployment})
	if !waiting {
		return ""
	}
	return waits(rollout.Plan{Waiting: rollout.NewWaitingList(wait)})
}

// TestTurnBehindAWindow: a cooldown ends after the window that is open now has shut. The execution
// is due when the next one opens, not when the cooldown ends.
func TestTurnBehindAWindow(t *testing.T) {
	now := instantOf(t, "2025-01-06T16:00:00Z")
	for _, row := range []struct{ why, window, want string }{
		{"open now, shut when the cooldown ends", weekly("w", "09:00", "17:00", ""), "bracket_not_due b 07 09:00:00; cooldown c 06 17:30:00"},
		{"open then", weekly("w", "09:00", "18:00", ""), "bracket_not_due b 06 17:30:00; cooldown c 06 17:30:00"},
		{"open then, but not for long enough", weekly("w", "09:00", "18:00", `"minimumRemainingMinutes":60`), "bracket_not_due b 07 09:00:00; cooldown c 06 17:30:00"},
		{"never again: that the cooldown lasts is told as well", `{"id":"w","deploymentWindow":{"from":"2025-01-06T09:00:00Z","until":"2025-01-06T17:00:00Z"}}`,
			"bracket_not_due b; cooldown c 06 17:30:00; window_closed w"},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k := range s.Versions {
			s.Versions[k].CreatedAt = now.Add(time.Duration(k-1) * 30 * time.Minute)
		}
		plan := mustPlan(t, compile(t, policy(alone+`,{"id":"c","versionCooldown":{"intervalSeconds":7200}},`+row.window)), s, now)
		if got := waits(plan); got != row.want || len(plan.Start) > 0 {
			t.Errorf("%s: starts %q, waits for %q, want %q", row.why, started(plan), got, row.want)
		}
	}
}

// TestTurnShortlyBeforeAWindowShuts: the window is open now, and by the turn too little of it is
// left. The execution is due when it opens again.
func TestTurnShortlyBeforeAWindowShuts(t *testing.T) {
	now := instantOf(t, "2025-01-06T15:30:00Z")
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Versions {
		s.Versions[k].CreatedAt = now.Add(time.Duration(k-1) * time.Hour)
	}
	plan := mustPlan(t, compile(t, policy(alone+`,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}},`+weekly("w", "09:00", "17:00", `"minimumRemainingMinutes":60`))), s, now)
	if got := waits(plan); len(plan.Start) != 1 || got != "bracket_not_due b 07 09:00:00" {
		t.Errorf("starts %q, waits for %q", started(plan), got)
	}
}

// TestTurnsWhereWindowsMeet: an execution of several members is due when the windows of all of them
// are open together. What holds on one resource says nothing about another one, where others are
// members or the turn comes earlier.
func TestTurnsWhereWindowsMeet(t *testing.T) {
	now := instantOf(t, "2025-01-06T00:00:00Z")
	between := func(id, from, until string) string {
		return `{"id":"` + id + `","deploymentWindow":{"from":"2025-01-` + from + `:00Z","until":"2025-01-` + until + `:00Z"}}`
	}
	of := func(name, selector, rules string) string {
		return `,{"name":"` + name + `","selector":"` + selector + `","rules":[` + rules + `]}`
	}
	type where struct{ resource, want string }
	for _, row := range []struct {
		why, policies string
		lack          string // the resource without m
		want          []where
	}{
		{"never on one, and at once where only one of them is a member",
			of("pa", "deployment.name == 'a'", weekly("day", "09:00", "12:00", "")) + of("pm", "deployment.name == 'm'", weekly("night", "20:00", "22:00", "")), "r2",
			[]where{{"r1", "bracket_not_due b; window_closed day; window_closed night"}, {"r2", "bracket_not_due b 06 09:00:00; window_closed day 06 09:00:00"}}},
		{"the later window is shut by the time the earlier one opens again",
			of("pa", "deployment.name == 'a'", weekly("early", "09:00", "10:00", "")+","+weekly("late", "14:00", "16:00", "")) + of("pm", "deployment.name == 'm'", weekly("noon", "11:00", "15:00", "")), "",
			[]where{{"r1", "bracket_not_due b 06 14:00:00; window_closed early 06 09:00:00; window_closed late 06 09:00:00; window_closed noon 06 11:00:00"}}},
		{"a window that both have is told once",
			`,` + strings.ReplaceAll(policy(weekly("all", "09:00", "12:00", "")), `"p"`, `"all"`) + of("pm", "deployment.name == 'm'", weekly("some", "08:00", "11:00", "")), "",
			[]where{{"r1", "bracket_not_due b 06 09:00:00; window_closed all 06 09:00:00; window_closed some 06 09:00:00"}}},
		{"never because of two windows, and a third that both have is told once",
			`,` + strings.ReplaceAll(policy(weekly("all", "09:00", "22:00", "")), `"p"`, `"all"`) + of("pa", "deployment.name == 'a'", weekly("day", "09:00", "12:00", "")) + of("pm", "deployment.name == 'm'", weekly("night", "20:00", "22:00", "")), "",
			[]where{{"r1", "bracket_not_due b; window_closed all; window_closed day; window_closed night"}}},
		{"never because of one, whatever the other does", of("pa", "deployment.name == 'a'", weekly("day", "09:00", "12:00", "")) + of("pm", "deployment.name == 'm'", between("wm", "05T09:00", "05T12:00")), "",
			[]where{{"r1", "bracket_not_due b; window_closed day 06 09:00:00; window_closed wm"}}},
		{"once, and where the cooldown ends later never again",
			of("pa", "deployment.name == 'a'", between("wa", "06T09:00", "06T12:00")) + of("pm", "deployment.name == 'm'", between("wm", "06T10:00", "06T13:00")), "",
			[]where{{"r1", "bracket_not_due b; cooldown c 06 23:00:00; window_closed wa; window_closed wm"},
				{"r2", "bracket_not_due b 06 10:00:00; window_closed wa 06 09:00:00; window_closed wm 06 10:00:00"}}},
	} {
		cooldown := ""
		if strings.Contains(row.want[0].want, "cooldown") {
			cooldown = `,{"id":"c","versionCooldown":{"intervalSeconds":86400}}`
		}
		s := fleet(2, "v1", map[string][]string{"a": {"v0", "v1", "v2"}, "m": {"v0", "v1", "v2"}})
		for k := range s.Versions {
			s.Versions[k].CreatedAt = now.Add(time.Duration(map[string]int{"v0": -48, "v1": -1, "v2": 0}[s.Versions[k].ID]) * time.Hour)
		}
		s.Targets[2].Current, s.Targets[3].Current = "v0", "v0"
		s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == row.lack && x.Deployment == "m" })
		plan := mustPlan(t, compile(t, `[`+policy(alone+cooldown)+row.policies+`]`), s, now)
		for _, w := range row.want {
			if got := reasonsOn(plan, w.resource, "a"); got != w.want {
				t.Errorf("%s: %s waits for %q, want %q", row.why, w.resource, got, w.want)
			}
		}
	}
}

// TestGroupIsDueWhenItIsReady: the turn of a group comes when it has collected, and not when it began
// to: whoever is outside of it and was due in between begins before it.
func TestGroupIsDueWhenItIsReady(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"collection_window","readinessWindowSeconds":3600,"memberRoles":{}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "z": {"v1", "v2"}})
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return (t.Resource == "r1") != (t.Deployment == "a") })
	for k := range s.Versions {
		if v := &s.Versions[k]; v.ID == "v2" {
			v.CreatedAt = minute(map[string]int{"a": 0, "z": 30}[v.Deployment])
		}
	}
	s.State = mustPlan(t, set, s, t0).State
	if plan := mustPlan(t, set, s, minute(60)); !slices.Equal(started(plan), []string{"r2/z@v2"}) || !slices.Equal(blockers(plan), []string{"r1/a@v2: slot_full"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestMeetingsThatNeverCome: what is said of windows that never meet stays the same until one of
// them opens. Five years are no whole number of fortnights, so where a search for a meeting ends
// moves from one window to the other at instants at which neither changes.
func TestMeetingsThatNeverCome(t *testing.T) {
	window := func(deployment, day string) string {
		return fmt.Sprintf(`{"name":"p-%[1]s","selector":"deployment.name == '%[1]s'","rules":[{"id":"w-%[1]s","deploymentWindow":{"weekly":{"days":[%[2]q],"start":"09:00","end":"10:00","everyWeeks":2},"anchor":"2025-01-06T00:00:00"}}]}`, deployment, day)
	}
	set := compile(t, "["+policy(alone)+","+window("a", "mon")+","+window("m", "thu")+"]")
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}})
	now := instantOf(t, "2025-01-09T12:00:00Z") // the first Thursday is over
	plan := mustPlan(t, set, s, now)
	s.State = plan.State
	if want := instantOf(t, "2025-01-20T09:00:00Z"); !plan.Next.Equal(want) {
		t.Fatalf("next is %v, want %v", plan.Next, want)
	}
	const want = "bracket_not_due b; window_closed w-a; window_closed w-m"
	for at := now; at.Before(plan.Next); at = at.Add(time.Hour) {
		if got := reasonsOn(mustPlan(t, set, s, at), "r1", "a"); got != want {
			t.Fatalf("at %v it waits for %q, want %q", at, got, want)
		}
	}
	long := func(name, deployment, from, to string, minutes int) string {
		return fmt.Sprintf(`,{"name":%q,"selector":"deployment.name == '%s'","rules":[%s]}`, name, deployment, weekly("w-"+deployment, from, to, fmt.Sprintf(`"minimumRemainingMinutes":%d`, minutes)))
	}
	set = compile(t, "["+policy(alone)+long("z", "a", "09:00", "12:00", 60)+long("o", "m", "20:00", "23:00", 120)+"]")
	s.State = rollout.State{}
	wait, _ := mustPlan(t, set, s, now).Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
	told := 0
	for _, v := range wait.Blockers {
		if v.Reason == rollout.ReasonWindowClosed && v.Until.IsZero() {
			if told++; v.Data == nil || v.Data.Detail != "the windows of o, z are never open together for 2h within 5 years" {
				t.Errorf("what starts together has to fit into the longest of what is asked, and policies are named in order: %v", v)
			}
		}
	}
	if told != 2 {
		t.Errorf("want both windows: %v", wait)
	}
}

// TestShutForGoodWhileAnotherIs: the windows of one policy are never open for as long as a rule of it
// asks, and the only window of another one soon will not be either. From then on both are in the
// way, and the plan wakes its host to say so.
func TestShutForGoodWhileAnotherIs(t *testing.T) {
	now := instantOf(t, "2025-01-06T10:30:00Z")
	set := compile(t, "["+policy(alone+","+weekly("short", "09:00", "10:00", `"minimumRemainingMinutes":120`))+`,
		{"name":"q","selector":"true","rules":[{"id":"once","deploymentWindow":{"from":"2025-01-06T00:00:00Z","until":"2025-01-06T14:00:00Z"}}]}]`)
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	for _, want := range []string{
		"2025-01-06 10:30 bracket_not_due b; window_closed short, next 2025-01-06T12:00:00.000000001Z",
		"2025-01-06 12:00 bracket_not_due b; window_closed short; window_closed once, next 2025-01-06T14:00:00Z",
	} {
		plan := mustPlan(t, set, s, now)
		if got := fmt.Sprintf("%s %s, next %s", now.Format("2006-01-02 15:04"), reasonsOn(plan, "r1", "a"), plan.Next.Format(time.RFC3339Nano)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		s.State, now = plan.State, plan.Next
	}
}

// TestDueLongAgoInAnOpenWindow: two executions came due at different times, and the window was open
// since. The one that has been due for longer goes first.
func TestDueLongAgoInAnOpenWindow(t *testing.T) {
	set := compile(t, `[`+policy(alone+`,{"id":"l","resourceConcurrency":{"groupSelector":"true","limit":3}},`+
		`{"id":"w","deploymentWindow":{"from":"2020-01-01T00:00:00Z","until":"2040-01-01T00:00:00Z"}}`)+`,
		{"name":"p1","selector":"resource.name in ['r1', 'r2']","rules":[{"id":"g1","gradualRollout":{"rolloutType":"linear","timeScaleInterval":36000}}]},
		{"name":"p2","selector":"resource.name in ['r3', 'r4']","rules":[{"id":"g2","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}]}]`)
	plan := mustPlan(t, set, fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}}), t0.Add(11*time.Hour))
	if list := waitingOf(plan); len(plan.Start) != 3 || len(list) != 1 || list[0].Resource > "r2" {
		t.Errorf("starts %q, waits %q: due since ten hours, four of them, and since one", started(plan), blockers(plan))
	}
}

// TestTurnsOfMembers: the members of one execution are not always due together; it waits for the
// last of them, and no member waits for a curve that is not its.
func TestTurnsOfMembers(t *testing.T) {
	curve := func(id, seconds string) string {
		return `{"id":"` + id + `","gradualRollout":{"rolloutType":"linear","timeScaleInterval":` + seconds + `}}`
	}
	afternoon := instantOf(t, "2025-01-06T16:50:00Z")
	past := func(version string) []rollout.Override {
		o := override("g", func(o *rollout.Override) { o.Version, o.CreatedAt = version, afternoon })
		return []rollout.Override{o}
	}
	type turn struct {
		at   string
		data bool // with its place
	}
	for _, row := range []struct {
		why, policies string
		m             []string // versions of m
		fresh         string   // the deployment that runs nothing yet
		overrides     []rollout.Override
		want          []turn // of the two that come last
	}{
		{"of two curves the later turn counts", policy(alone + `,` + curve("g", "7200") + `,` + curve("h", "3600")), nil, "", nil, []turn{{"06 18:50", true}, {"06 20:50", true}}},
		{"wherever it stands", policy(alone + `,` + curve("g", "3600") + `,` + curve("h", "7200")), nil, "", nil, []turn{{"06 18:50", true}, {"06 20:50", true}}},
		{"the curve of the first member", `[` + policy(alone) + `,{"name":"q","selector":"deployment.name == 'a'","rules":[` + curve("g", "3600") + `]}]`, nil, "", nil, []turn{{"06 17:50", true}, {"06 18:50", true}}},
		{"the curve of the last", `[` + policy(alone) + `,{"name":"q","selector":"deployment.name == 'm'","rules":[` + curve("g", "3600") + `]}]`, nil, "", nil, []turn{{"06 17:50", true}, {"06 18:50", true}}},
		{"the curve of one that has nothing to run", `[` + policy(alone) + `,{"name":"q","selector":"deployment.name == 'm'","rules":[` + curve("g", "3600") + `]}]`, []string{"v1"}, "", nil, nil},
		{"the first member is past the curve", policy(alone + `,` + curve("g", "3600")), nil, "", past("v2"), []turn{{"06 17:50", true}, {"06 18:50", true}}},
		{"the last is", policy(alone + `,` + curve("g", "3600")), nil, "", past("v3"), []turn{{"06 17:50", true}, {"06 18:50", true}}},
		{"the first member's first run does not heed the window", policy(alone + `,` + curve("g", "360") + `,` + weekly("w", "09:00", "17:00", "")), nil, "a", nil, []turn{{"06 16:56", true}, {"07 09:02", true}}},
		{"the last one's", policy(alone + `,` + curve("g", "360") + `,` + weekly("w", "09:00", "17:00", "")), nil, "m", nil, []turn{{"06 16:56", true}, {"07 09:02", true}}},
	} {
		m := row.m
		if m == nil {
			m = []string{"v1", "v3"}
		}
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "m": m})
		for k := range s.Versions {
			if s.Versions[k].CreatedAt = afternoon; s.Versions[k].ID == "v1" {
				s.Versions[k].CreatedAt = afternoon.AddDate(0, 0, -9)
			}
		}
		for k := range s.Targets {
			if s.Targets[k].Deployment == row.fresh {
				s.Targets[k].Current = ""
			}
		}
		s.Overrides = row.overrides
		plan := mustPlan(t, compile(t, row.policies), s, afternoon)
		var got []turn
		for _, wait := range waitingOf(plan) {
			if own := wait.Blockers[0]; wait.Deployment == "a" && own.Reason == "bracket_not_due" {
				got = append(got, turn{own.Until.Format("02 15:04"), own.Data != nil && own.Data.Population == 3 && own.Data.Position > 0})
			}
		}
		slices.SortFunc(got, func(a, b turn) int { return strings.Compare(a.at, b.at) })
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: starts %q, waits %v, want %v", row.why, started(plan), got, row.want)
		}
	}
}

// TestRecordsOfAGroup: the rollouts of a bracket's group are recorded when it is ready, each with
// whom it counts, and whoever has nothing to run is counted too.
func TestRecordsOfAGroup(t *testing.T) {
	world := func() rollout.Snapshot {
		s := fleet(4, "", map[string][]string{"a": {"v1"}, "m": {"w1"}, "z": {"u1", "u2"}})
		for k := range s.Versions {
			if s.Versions[k].ID == "v1" {
				s.Versions[k].TargetSelector = "resource.name != 'r3'"
			}
		}
		for k := range s.Targets {
			switch s.Targets[k].Deployment {
			case "m":
				s.Targets[k].Current = "w1"
			case "z":
				s.Targets[k].Current = "u1"
			}
		}
		s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r4" && x.Deployment != "m" })
		return s
	}
	record := func(deployment string, founders int) rollout.RolloutRecord {
		return rollout.RolloutRecord{Schema: 1, Rule: "g", Environment: "prod", Deployment: deployment, Group: "b/prod/1", StartAt: t0, Founders: founders}
	}
	const all = `"selector":"true"`
	for _, row := range []struct {
		why, policies string
		want          []rollout.RolloutRecord
	}{
		{"resources", `[` + policy(alone+`,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`) + `]`, []rollout.RolloutRecord{record("", 4)}},
		{"targets on their own: a version has those in its scope, and one that is everywhere already has all",
			`[` + policy(alone) + `,{"name":"q",` + all + `,"rules":[{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"target"}}]}]`,
			[]rollout.RolloutRecord{record("a", 2), record("m", 4), record("z", 3)}},
		{"by the bracket of another policy: the rule ranks whom it governs",
			`[` + policy(strings.Replace(alone, `"deploymentSelector":"true"`, `"deploymentSelector":"deployment.name == 'a'"`, 1)) + `,{"name":"q",` + all + `,"rules":[
				{"id":"c","deploymentBracket":{"deploymentSelector":"deployment.name == 'm'","readinessMode":"collection_window","readinessWindowSeconds":60,"memberRoles":{}}},
				{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]}]`, []rollout.RolloutRecord{record("", 4)}},
	} {
		plan := mustPlan(t, compile(t, row.policies), world(), t0)
		got := slices.DeleteFunc(slices.Clone(plan.State.Rollouts), func(r rollout.RolloutRecord) bool { return r.Group == "" })
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestTurnsOfAnOlderLock: a group has locked two versions of a member, and the newest is not for
// everybody. The others have the older one in their turn, in a rollout of its own.
func TestTurnsOfAnOlderLock(t *testing.T) {
	set := compile(t, `[`+policy(alone)+`,{"name":"q","selector":"true","rules":[{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderKey":"target"}}]}]`)
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2", "v3"}})
	s.Versions[2].TargetSelector = "resource.name == 'r1'"
	plan := mustPlan(t, set, s, t0)
	founders := map[string]int{}
	for _, r := range plan.State.Rollouts {
		founders[r.Version] = r.Founders
	}
	if len(founders) != 2 || founders[""] != 1 || founders["v2"] != 3 || len(plan.Start)+plan.Waiting.Len() != 3 || plan.Waiting.Len() == 0 {
		t.Errorf("rollouts %v, starts %q, waits %q", founders, started(plan), blockers(plan))
	}
	for _, wait := range waitingOf(plan) {
		if own := wait.Blockers[0]; wait.Version != "v2" || own.Data == nil || !own.Until.Equal(t0.Add(time.Duration(own.Data.Position)*time.Hour)) {
			t.Errorf("%s@%s: %+v", wait.Resource, wait.Version, own)
		}
	}
}

// TestObstaclesOfSeveralMembers: what holds one member holds the execution, and an override for the
// version of another member does not change that.
func TestObstaclesOfSeveralMembers(t *testing.T) {
	needs := func(id, deployment string) string {
		return `,{"id":"` + id + `","deploymentDependency":{"dependsOn":"deployment.name == 'x' && version.tag == 'v9'","appliesTo":"deployment.name in ['` + deployment + `']"}}`
	}
	members := strings.Replace(alone, `"deploymentSelector":"true"`, `"deploymentSelector":"deployment.name != 'x'"`, 1)
	of := func(rule, version string) rollout.Override {
		return override(rule, func(o *rollout.Override) { o.Version = version })
	}
	for _, row := range []struct {
		why, rules string
		overrides  []rollout.Override
		want       string // what r1 waits for; empty: it starts
	}{
		{"one rule holds both, and is told once", members + needs("d", "a','m"), nil, "bracket_not_due b; dependency_unmet d"},
		{"the last is let past it", members + needs("d", "a','m"), []rollout.Override{of("d", "v3")}, "bracket_not_due b; dependency_unmet d"},
		{"the first is", members + needs("d", "a','m"), []rollout.Override{of("d", "v2")}, "bracket_not_due b; dependency_unmet d"},
		{"both are", members + needs("d", "a','m"), []rollout.Override{of("d", "v2"), of("d", "v3")}, ""},
		{"a rule for each, and an override for neither", members + needs("d", "a") + needs("e", "m"), []rollout.Override{of("d", "v1")}, "bracket_not_due b; dependency_unmet d; dependency_unmet e"},
		{"for the first", members + needs("d", "a") + needs("e", "m"), []rollout.Override{of("d", "v2")}, "bracket_not_due b; dependency_unmet e"},
		{"for the last", members + needs("d", "a") + needs("e", "m"), []rollout.Override{of("e", "v3")}, "bracket_not_due b; dependency_unmet d"},
		{"for the rule of the first, and the version of the last", members + needs("d", "a") + needs("e", "m"), []rollout.Override{of("d", "v3")}, "bracket_not_due b; dependency_unmet d; dependency_unmet e"},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v3"}, "x": {"v1"}})
		for k := range row.overrides {
			row.overrides[k].ID += string(rune('0' + k))
		}
		s.Overrides = row.overrides
		plan := mustPlan(t, compile(t, policy(row.rules)), s, t0)
		if got := reasonsOn(plan, "r1", "a"); got != row.want || (len(plan.Start) > 0) != (row.want == "") {
			t.Errorf("%s: starts %q, waits for %q, want %q", row.why, started(plan), got, row.want)
		}
	}
}

// TestObstacleOfOneTarget: the only target that a failed expression holds is held, also in a bracket
// of which nothing else is in the way.
func TestObstacleOfOneTarget(t *testing.T) {
	set := compile(t, `[`+policy(alone)+`,{"name":"q","selector":"int(resource.id) > 1","rules":[{"retry":{"maxRetries":0}}]}]`)
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	if got := waits(plan); len(plan.Start) > 0 || got != "bracket_not_due b; selector_error q" {
		t.Errorf("starts %q, waits for %q", started(plan), got)
	}
}

// TestObstaclesOfTheFirstVersion: the first version that a deployment ever has is asked for
// everything that later ones are.
func TestObstaclesOfTheFirstVersion(t *testing.T) {
	s := fleet(1, "", map[string][]string{"a": {"v1"}, "x": {"v1"}})
	s.Targets[1].Current = "v1"
	members := policy(strings.Replace(alone, `"deploymentSelector":"true"`, `"deploymentSelector":"deployment.name == 'a'"`, 1))
	s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "a" })].Dependencies = []rollout.VersionDependency{{Deployment: "x", VersionSelector: "version.tag == 'v9'"}}
	if got := waits(mustPlan(t, compile(t, members), s, t0)); got != "bracket_not_due b; version_dependency_unmet" {
		t.Errorf("waits for %q", got)
	}
	for k := range s.Versions {
		s.Versions[k].Dependencies = nil
	}
	set := compile(t, members, rollout.WithRule(hostRule{"host", frozenUntil(t0.Add(time.Hour))}))
	if got := reasonsOn(mustPlan(t, set, s, t0), "r1", "a"); !strings.HasPrefix(got, "bracket_not_due b ") || !strings.Contains(got, " host ") {
		t.Errorf("waits for %q", got)
	}
}

// TestUnknownCurrentVersion: nothing begins on a resource where a target runs a version that the
// snapshot does not hold; where an execution is at work already, what was drained is finished.
func TestUnknownCurrentVersion(t *testing.T) {
	set := compile(t, policy(alone+`,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'm'"}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "m": {"v1", "v2"}})
	unknown := s
	unknown.Targets = slices.Clone(s.Targets)
	unknown.Targets[1].Current = "v0"
	if plan := mustPlan(t, set, unknown, t0); len(plan.Start) > 0 || !strings.Contains(waits(plan), "version_unknown") {
		t.Errorf("starts %q, waits for %q", started(plan), waits(plan))
	}
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	s.Targets[1].Current = "v0"
	if plan := mustPlan(t, set, s, t0.Add(time.Minute)); !slices.Equal(started(plan), []string{"r1/m@v2"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestWhomAMemberWaitsFor: a member names those that it needs of all that start with it: not one
// that is deleted, nor one that it needs only where that runs another version, nor what is needed
// by somebody else.
func TestWhomAMemberWaitsFor(t *testing.T) {
	needs := func(member, on string) string {
		return `,{"deploymentDependency":{"dependsOn":"` + on + `","appliesTo":"deployment.name == '` + member + `'"}}`
	}
	on := func(plan rollout.Plan, resource string) (names []string) {
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "z"})
		for _, b := range wait.Blockers {
			if b.Reason == "bracket_waits_for_members" {
				for _, c := range b.On {
					names = append(names, string(c.Kind)+" "+c.Deployment)
				}
			}
		}
		return names
	}
	for _, need := range []string{"deployment.name in ['k', 'm']", "deployment.name in ['k', 'm'] && version.tag in ['v2', 'v4']"} {
		set := compile(t, policy(alone+needs("m", "deployment.name == 'a'")+needs("z", need)+`,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "k": {"v1", "v2"}, "m": {"v1", "v4"}, "z": {"v1", "v2"}})
		plan := mustPlan(t, set, s, t0)
		s.State = plan.State
		first := plan.Start[0].Resource
		gone := func(id string) bool { return id == "m" }
		s.Deployments = slices.DeleteFunc(s.Deployments, func(d rollout.Deployment) bool { return gone(d.ID) })
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return gone(v.Deployment) })
		s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return gone(x.Deployment) || x.Resource == first })
		plan = mustPlan(t, set, s, t0.Add(time.Hour))
		if got := on(plan, s.Targets[0].Resource); !slices.Equal(got, []string{"member k"}) {
			t.Errorf("m is deleted, %s: z waits for %q; starts %q, waits %q", need, got, started(plan), blockers(plan))
		}
	}
	t.Run("a need for some versions only", func(t *testing.T) {
		set := compile(t, policy(alone+needs("z", "deployment.name == 'k' && version.tag == 'v3' || deployment.name == 'a' && version.tag == 'v2'")))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "k": {"v1", "v2", "v3"}, "z": {"v1", "v2"}})
		for k := range s.Versions {
			if s.Versions[k].ID == "v3" {
				s.Versions[k].TargetSelector = "resource.name == 'r1'"
			}
		}
		plan := mustPlan(t, set, s, t0)
		if got := on(plan, "r1"); !slices.Equal(got, []string{"member a", "member k"}) {
			t.Errorf("where k gets v3 z waits for %q; starts %q, waits %q", got, started(plan), blockers(plan))
		}
		if got := on(plan, "r2"); !slices.Equal(got, []string{"member a"}) {
			t.Errorf("where k gets v2 z waits for %q; starts %q, waits %q", got, started(plan), blockers(plan))
		}
	})
}

// TestOverflowIsToldOnce: members whose own places in a curve differ say once that the turn of their
// execution never comes.
func TestOverflowIsToldOnce(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"b","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]},
		{"name":"g","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":9223372036,"orderKey":"target"}}]}]`)
	s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
	told := map[int]int{} // how many waits say it how often
	for wait := range mustPlan(t, set, s, t0).Waiting.All() {
		times := 0
		for _, b := range wait.Blockers {
			if b.Reason == rollout.ReasonRolloutOverflow {
				times++
			}
		}
		told[times]++
	}
	if told[1] == 0 || len(told) > 2 || told[0]+told[1] != 12 {
		t.Errorf("of so many: %v", told)
	}
}

// TestEveryCurveWithoutEndIsTold: the turn of a resource never comes by two curves. Both are
// listed, as outside brackets: without the first one alone nothing would start.
func TestEveryCurveWithoutEndIsTold(t *testing.T) {
	t.Parallel()
	curve := func(id string) string {
		return fmt.Sprintf(`{"name":%[1]q,"selector":"true","rules":[{"id":%[1]q,"gradualRollout":{"rolloutType":"linear","timeScaleInterval":9000000000,"orderKey":"resource"}}]}`, id)
	}
	for _, row := range []struct{ why, members string }{
		{"in a bracket", policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`) + ","},
		{"outside brackets", ""},
	} {
		waits := waitingOf(mustPlan(t, compile(t, `[`+row.members+curve("x")+`,`+curve("y")+`]`), fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}), t0))
		if len(waits) != 2 {
			t.Fatalf("%s: %v", row.why, waits)
		}
		for _, wait := range waits {
			var rules []string
			for _, b := range wait.Blockers {
				if b.Reason == rollout.ReasonRolloutOverflow {
					rules = append(rules, b.Rule)
				}
			}
			if !slices.Equal(rules, []string{"x", "y"}) {
				t.Errorf("%s: %s waits for %v", row.why, wait.TargetID, wait.Blockers)
			}
		}
	}
}

// TestNotDueUntilTheLastOfAll: an execution that a freeze keeps from its start, and that neither
// its turn, nor a window, nor a cooldown would let start when the freeze is over, is told the
// instant at which all of them do.
func TestNotDueUntilTheLastOfAll(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why, rule string
		want      int // minute
	}{
		{"the turn comes later", `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":7200}}`, 120},
		{"the turn comes before", `{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`, 30},
		{"the window opens later", `{"deploymentWindow":{"from":"2025-01-01T02:00:00Z","until":"2025-01-01T03:00:00Z"}}`, 120},
		{"the window is open now, and shut when the freeze is over", `{"deploymentWindow":{"weekly":{"days":["wed"],"start":"00:00","end":"00:20"}}}`, 7 * 24 * 60},
		{"the window does not open again: then there is only the end of the freeze to tell", `{"deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T00:20:00Z"}}`, 30},
		{"the cooldown is over later", `{"versionCooldown":{"intervalSeconds":10800}}`, 120},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`+row.rule))
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Freezes = []rollout.Freeze{freeze(thaws(minute(30)))}
		latest := 0.0
		for wait := range mustPlan(t, set, s, minute(1)).Waiting.All() {
			if b := wait.Blockers[0]; string(b.Reason) != string(bracket.ReasonNotDue) || b.Until.IsZero() {
				t.Errorf("%s: %v", row.why, wait)
			} else {
				latest = max(latest, b.Until.Sub(t0).Minutes())
			}
		}
		if latest != float64(row.want) {
			t.Errorf("%s: until minute %v, want %d", row.why, latest, row.want)
		}
	}
}
