package rollout_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestPlanPrints: fmt shows of a plan what a person asks, in a length that does not grow with the
// fleet.
func TestPlanPrints(t *testing.T) {
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"none"}},{"id":"p","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(5, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1"}})
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: "aproved", At: t0}}
	for _, row := range []struct {
		why  string
		edit func(*rollout.Snapshot)
		want string
	}{
		{"waits for the same reasons share a line, the most frequent first", func(*rollout.Snapshot) {}, `plan at 2025-01-01T00:01:01Z: 1 start, 4 wait, 0 in progress, 5 current, next 2025-01-01T00:02:00Z
start      r1 / prod / api: deploy v2 as r1/prod/api/v2/1, slot_free
wait       r3 / prod / api: v2 waits: rollout_not_due (turn 4 of 5) until 2025-01-01T00:03:00Z; and 2 more likewise
wait       r2 / prod / api: v2 waits: slot_full, waits for a free slot in p
pool       p: 1 of 1 active; 1 in the queue
diagnostic approval_status_unknown: aproved is no known status, so such an approval does not count (prod / api)`},
		{"nothing is left to do", func(s *rollout.Snapshot) {
			s.Approvals = nil
			for k := range s.Targets {
				s.Targets[k].Current, s.Targets[k].Jobs = map[string]string{"api": "v2", "web": "v1"}[s.Targets[k].Deployment], nil
			}
		}, `plan at 2025-01-01T00:01:01Z: 0 start, 0 wait, 0 in progress, 10 current
pool       p: 0 of 1 active`},
	} {
		s := s
		row.edit(&s)
		if got := fmt.Sprint(mustPlan(t, set, s, minute(1).Add(time.Second))); got != row.want {
			t.Errorf("%s: printed\n%s\nwant\n%s", row.why, got, row.want)
		}
	}

	var long rollout.Plan
	var waiting []rollout.Waiting
	for k := range 25 {
		id := rollout.TargetID{Resource: fmt.Sprintf("r%02d", k), Environment: "prod", Deployment: "api"}
		long.Start = append(long.Start, rollout.Start{TargetID: id, Version: "v2"})
		long.Orphans = append(long.Orphans, concurrency.Lease{Holder: concurrency.Holder{Resource: id.Resource}})
		long.Stuck = append(long.Stuck, rollout.Stuck{})
		long.Events = append(long.Events, rollout.Event{})
		for n := range 2 {
			id.Deployment = fmt.Sprint("d", n)
			waiting = append(waiting, rollout.Waiting{TargetID: id, Blockers: []rollout.Verdict{{Reason: rollout.Reason(fmt.Sprint("reason_", k/2))}}})
		}
	}
	long.Waiting = rollout.NewWaitingList(waiting...)
	text := long.String()
	if n := strings.Count(text, "\n"); n != 5*11 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, want := range []string{
		"\nstart      and 15 more\n", "\nstuck      and 15 more\n", "\norphan     and 15 more\n", "\nevent      and 15 more",
		"\nwait       r00 / prod / d0: waits: reason_0; and 3 more likewise, of d0, d1\n", "\nwait       and 10 more, for 3 other sets of reasons\n", // two resources of two targets each, three times, but one in the last
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	const alike = "r00 / prod / d0: waits: reason_0; and 1 more likewise, of d0, d1\nr01 / prod / d0: waits: reason_0"
	waiting = []rollout.Waiting{waiting[0], waiting[1], waiting[2]}
	waiting[2].Blockers = []rollout.Verdict{{Reason: "reason_0", Rule: "another"}}
	if text := fmt.Sprint(rollout.NewWaitingList(waiting...)); text != alike {
		t.Errorf("the same reason of another rule: printed\n%s\nwant\n%s", text, alike)
	}
	closed := rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Rule: "weekdays", Until: t0}
	friday := closed
	friday.Rule = "friday"
	waiting = []rollout.Waiting{{TargetID: waiting[0].TargetID, Blockers: []rollout.Verdict{closed, {Reason: "reason_0"}, friday}}}
	if text, want := fmt.Sprint(rollout.NewWaitingList(waiting...)), "r00 / prod / d0: waits: window_closed until 2025-01-01T00:00:00Z; reason_0"; text != want {
		t.Errorf("two windows that open at one instant: printed\n%s\nwant\n%s", text, want)
	}
	waiting = nil
	for n := range 11 {
		waiting = append(waiting, rollout.Waiting{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: fmt.Sprintf("d%02d", n)}, Blockers: []rollout.Verdict{{Reason: "reason_0"}}})
	}
	if text, want := fmt.Sprint(rollout.NewWaitingList(waiting...)), "r1 / prod / d00: waits: reason_0; and 10 more likewise, of d00, d01, d02, d03, d04, d05, d06, d07, d08, d09 and others"; text != want {
		t.Errorf("many deployments: printed\n%s\nwant\n%s", text, want)
	}
	if text := fmt.Sprint(rollout.NewWaitingList(waiting[:10]...)); !strings.HasSuffix(text, "; and 9 more likewise, of d00, d01, d02, d03, d04, d05, d06, d07, d08, d09") {
		t.Errorf("ten deployments are shown, and there are no others: %s", text)
	}
	if text := fmt.Sprint(rollout.WaitingList{}); text != "" {
		t.Errorf("an empty list prints %q", text)
	}
}

// TestPlanPrintsPoolsByUse: of many pools a reader sees those that something waits for, those that
// are full and those in use. The idle ones, which may come first by their keys, are counted.
func TestPlanPrintsPoolsByUse(t *testing.T) {
	busy := func(key string, active, most, waiting int) rollout.Pool {
		p := rollout.Pool{Key: key, Active: active, Max: most, Total: 5, Waiting: waiting}
		for k := range active {
			p.Holders = append(p.Holders, concurrency.Holder{Resource: fmt.Sprint("r", k)})
		}
		return p
	}
	many := func(n int, prefix string, active, waiting int) (list []rollout.Pool) {
		for k := range n {
			list = append(list, busy(fmt.Sprintf("%s%02d", prefix, k), active, 2, waiting))
		}
		return list
	}
	quarantined := rollout.Pool{Key: "q", Max: 1, Total: 1, Holders: []concurrency.Holder{{Resource: "r9"}}, Quarantined: []concurrency.Holder{{Resource: "r9"}}} // it does not count
	for _, row := range []struct {
		why   string
		pools []rollout.Pool
		want  string
	}{
		{"no pools", nil, ""},
		{"one that is idle is shown", many(1, "a", 0, 0), "a00: 0 of 2 active"},
		{"several are counted", many(12, "a", 0, 0), "12, all idle"},
		{"by what matters, and by key where that is alike", slices.Concat(many(12, "a", 0, 0), []rollout.Pool{busy("b", 1, 2, 0), busy("c", 2, 2, 0), busy("d", 3, 2, 0), busy("e", 1, 1, 1), busy("f", 0, 0, 4), {Key: "g", Total: 1}, busy("h", 1, 2, 0), quarantined}),
			`e: 1 of 1 active: r0; 1 in the queue
f: 0 of 0 active; 4 in the queue
c: 2 of 2 active: r0, r1
d: 3 of 2 active: r0, r1, r2
b: 1 of 2 active: r0
h: 1 of 2 active: r0
q: 0 of 1 active: r9 (quarantined)
and 13 idle ones`},
		{"one idle pool behind others is shown as well", slices.Concat(many(1, "a", 0, 0), many(1, "b", 1, 0)), "b00: 1 of 2 active: r0\na00: 0 of 2 active"},
		{"unless the others fill the list", slices.Concat(many(1, "a", 0, 0), many(10, "b", 0, 1)), queuedLines(10) + "and 1 idle one"},
		{"what is down is in use", []rollout.Pool{{Key: "a", Max: 1}, {Key: "b", Max: 1}, {Key: "c", Max: 2, Active: 1, Unavailable: []string{"r1"}}}, "c: 1 of 2 active: r1\nand 2 idle ones"},
		{"more than are shown", many(12, "b", 0, 1), queuedLines(10) + "and 2 more"},
		{"more than are shown, and idle ones", slices.Concat(many(3, "a", 0, 0), many(12, "b", 0, 1)), queuedLines(10) + "and 2 more and 3 idle ones"},
	} {
		before := slices.Clone(row.pools)
		_, text, _ := strings.Cut(rollout.Plan{Pools: row.pools}.String(), "\npool       ")
		if got := strings.ReplaceAll(text, "\npool       ", "\n"); got != row.want {
			t.Errorf("%s: printed\n%s\nwant\n%s", row.why, got, row.want)
		}
		if !reflect.DeepEqual(before, row.pools) {
			t.Errorf("%s: printing changed the order of the plan's own list", row.why)
		}
	}

	set := compile(t, policy(`{"id":"slots","resourceConcurrency":{"groupSelector":"true","limit":1,"groupBy":"resource.metadata['z']"}}`))
	s := fleet(24, "v2", map[string][]string{"api": {"v1", "v2"}})
	for k := range s.Resources {
		s.Resources[k].Metadata = map[string]string{"z": fmt.Sprintf("z%02d", k/2)}
	}
	for k := range s.Targets {
		if slices.Contains([]string{s.Resources[22].ID, s.Resources[23].ID}, s.Targets[k].Resource) {
			s.Targets[k].Current, s.Targets[k].Jobs = "v1", nil
		}
	}
	if text, want := mustPlan(t, set, s, t0).String(), "\npool       slots/z11: 1 of 1 active; 1 in the queue\npool       and 11 idle ones"; !strings.HasSuffix(text, want) {
		t.Errorf("the pool that a target waits for is the last by its key: printed\n%s\nwant at the end%s", text, want)
	}
}

func queuedLines(n int) string {
	var b strings.Builder
	for k := range n {
		fmt.Fprintf(&b, "b%02d: 0 of 2 active; 1 in the queue\n", k)
	}
	return b.String()
}

// TestPlanPrintsPoolsAlike: a pool has one name in all lines of a plan. The key of one that is named
// after a rule without an id has escapes, which the orphans alone would show.
func TestPlanPrintsPoolsAlike(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s.State = mustCommit(t, mustPlan(t, set, s, t0), t0) // and nothing is dispatched
	s.Versions[1].Status = rollout.VersionPaused
	plan := mustPlan(t, set, s, minute(1))
	if len(plan.Orphans) != 1 || plan.Orphans[0].Pool != "p%2FresourceConcurrency%2F0" {
		t.Fatalf("orphans: %v", plan.Orphans)
	}
	text := plan.String()
	for _, line := range []string{"\npool       p/resourceConcurrency/0: 1 of 1 active: r1", "\norphan     r1 for target/prod/api in pool p/resourceConcurrency/0, token 1, active since 2025-01-01T00:00:00Z"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// TestPlanPrintsAMissingStatus: a job or an approval without a status is told as such, and not as one
// whose name is empty.
func TestPlanPrintsAMissingStatus(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Version: "v2", CreatedAt: t0}}
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", At: t0}}
	text := mustPlan(t, compile(t, policy(`{"id":"a","anyApproval":{"minApprovals":1}}`)), s, minute(1)).String()
	for _, line := range []string{"\ndiagnostic approval_status_unknown: an approval without a status does not count (prod / api)", "\ndiagnostic job_status_unknown: a job without a status counts as active (r1 / prod / api)"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// TestChangesPrint: what changes alike for many targets is told once, and nothing is told as alike
// that a reader would want to know apart.
func TestChangesPrint(t *testing.T) {
	closed := rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Rule: "w", Until: minute(60)}
	change := func(resource int, deployment string, before, after rollout.Situation) rollout.Change {
		return rollout.Change{TargetID: rollout.TargetID{Resource: fmt.Sprintf("r%02d", resource), Environment: "prod", Deployment: deployment}, Before: before, After: after}
	}
	waits := func(version string, why ...rollout.Verdict) rollout.Situation {
		return rollout.Situation{Wait: version, Blockers: why}
	}
	turn := func(at int) rollout.Verdict {
		return rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonRolloutNotDue, Rule: "g", Until: minute(at), Data: &rollout.Data{Position: at - 60, Population: 48}}
	}
	starts, works, nothing := rollout.Situation{Start: "v2"}, rollout.Situation{Running: "v2"}, rollout.Situation{}
	opens, kinds := rollout.Changes{}, rollout.Changes{}
	for k := range 48 {
		opens = append(opens, change(k, []string{"api", "web"}[k/40], waits("v2", closed, turn(60+k)), waits("v2", turn(60+k))))
		kinds = append(kinds, change(k, "api", nothing, waits(fmt.Sprint("v", min(k, 13)), closed)))
	}
	opens[0].After = starts
	for _, row := range []struct {
		why     string
		changes rollout.Changes
		want    string
	}{
		{"nothing", nil, ""},
		{"one", rollout.Changes{change(1, "api", waits("v2", closed), starts)}, "r01 / prod / api: v2 waits: window_closed until 2025-01-01T01:00:00Z -> starts v2"},
		{"a window that opens for a whole fleet, each target with its own turn", opens,
			"r01 / prod / api: v2 waits: window_closed until 2025-01-01T01:00:00Z; rollout_not_due (turn 2 of 48) until 2025-01-01T01:01:00Z -> v2 waits: rollout_not_due (turn 2 of 48) until 2025-01-01T01:01:00Z; and 46 more likewise, of api, web\n" +
				"r00 / prod / api: v2 waits: window_closed until 2025-01-01T01:00:00Z; rollout_not_due (turn 1 of 48) until 2025-01-01T01:00:00Z -> starts v2"},
		{"another version", rollout.Changes{change(1, "api", nothing, starts), change(2, "api", nothing, rollout.Situation{Start: "v3"})}, "r01 / prod / api: nothing to do -> starts v2\nr02 / prod / api: nothing to do -> starts v3"},
		{"what is in progress, and what was", rollout.Changes{change(1, "api", starts, works), change(2, "api", starts, works), change(3, "api", works, nothing), change(4, "api", starts, nothing), change(5, "api", starts, rollout.Situation{Running: "v3", Wait: "v2", Blockers: []rollout.Verdict{closed}})},
			"r01 / prod / api: starts v2 -> v2 in progress; and 1 more likewise\nr03 / prod / api: v2 in progress -> nothing to do\nr04 / prod / api: starts v2 -> nothing to do\n" +
				"r05 / prod / api: starts v2 -> v3 in progress, v2 waits: window_closed until 2025-01-01T01:00:00Z"},
		{"there and back", rollout.Changes{change(1, "api", waits("v2", closed), nothing), change(2, "api", nothing, waits("v2", closed))},
			"r01 / prod / api: v2 waits: window_closed until 2025-01-01T01:00:00Z -> nothing to do\nr02 / prod / api: nothing to do -> v2 waits: window_closed until 2025-01-01T01:00:00Z"},
	} {
		if got := fmt.Sprint(row.changes); got != row.want {
			t.Errorf("%s: printed\n%s\nwant\n%s", row.why, got, row.want)
		}
	}
	text := strings.Split(kinds.String(), "\n")
	if len(text) != 11 || !strings.HasPrefix(text[0], "r13 / prod / api: nothing to do -> v13 waits") || !strings.HasSuffix(text[0], "; and 34 more likewise") || text[10] != "and 4 more, of 4 other kinds" {
		t.Errorf("of fourteen kinds are printed\n%s", strings.Join(text, "\n"))
	}
}

// TestReasonsInAnyOrderPrintOnce: what the members of a bracket wait for comes in the order of the
// members. Targets with the same reasons of the same rules share a line all the same; they had as many
// lines as there were orders, each of which said the same.
func TestReasonsInAnyOrderPrintOnce(t *testing.T) {
	wait := func(resource string, rules ...string) rollout.Waiting {
		w := rollout.Waiting{TargetID: rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "api"}, Version: "v2"}
		for _, rule := range rules {
			w.Blockers = append(w.Blockers, rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonDependencyUnmet, Rule: rule, On: []rollout.Condition{{Kind: rollout.OnDependency, Deployment: rule, Resource: resource}}})
		}
		return w
	}
	plan := rollout.Plan{Waiting: rollout.NewWaitingList(wait("r1", "db", "lib"), wait("r2", "lib", "db"), wait("r3", "lib"))}
	want := "r1 / prod / api: v2 waits: dependency_unmet, waits for db on r1; dependency_unmet, waits for lib on r1; and 1 more likewise\nr3 / prod / api: v2 waits: dependency_unmet, waits for lib on r3"
	if got := plan.Waiting.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = "r1 / prod / api: nothing to do -> v2 waits: dependency_unmet, waits for db on r1; dependency_unmet, waits for lib on r1; and 1 more likewise\nr3 / prod / api: nothing to do -> v2 waits: dependency_unmet, waits for lib on r3"
	if got := plan.Changes(nil).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if first, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "api"}); first.Blockers[0].Rule != "lib" {
		t.Errorf("printing a list puts it into another order: %v", first)
	}
}

// TestTargetPrints: a target says more than its id.
func TestTargetPrints(t *testing.T) {
	id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}
	jobs := []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}, {Version: "v2", Status: "in_progress", CreatedAt: minute(1)}}
	for _, row := range []struct {
		in   rollout.Target
		want string
	}{
		{rollout.Target{TargetID: id}, "r1 / prod / api runs nothing"},
		{rollout.Target{TargetID: id, Current: "v1"}, "r1 / prod / api runs v1"},
		{rollout.Target{TargetID: id, Jobs: jobs}, "r1 / prod / api runs what succeeded last, newest job of 2: v2, in_progress, created 2025-01-01T00:01:00Z"},
		{rollout.Target{TargetID: id, Current: "v0", Jobs: jobs[:1]}, "r1 / prod / api runs v0, newest job of 1: v1, successful, created 2025-01-01T00:00:00Z"},
	} {
		if got := fmt.Sprint(row.in); got != row.want {
			t.Errorf("printed %q, want %q", got, row.want)
		}
	}
}
