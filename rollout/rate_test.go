package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

const onePerTenMinutes = `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":"100%","rate":{"limit":1,"periodSeconds":600}}}`

// begins plays a fleet whose jobs succeed after two minutes, waking only when NextAfter says or a
// job ends, and lists who starts when.
func begins(t *testing.T, set *rollout.PolicySet, s rollout.Snapshot, steps int) (lines []string) {
	t.Helper()
	now := t0
	for range steps {
		plan := mustPlan(t, set, s, now)
		next := plan.NextAfter(plan.Start)
		s.State = mustCommit(t, plan, now)
		for _, start := range plan.Start {
			lines = append(lines, fmt.Sprintf("%s %s@%s", now.Format("15:04"), start.Resource+"/"+start.Deployment, start.Version))
			add(&s, start, job(start, now, rollout.JobInProgress))
		}
		for _, target := range s.Targets {
			for _, j := range target.Jobs {
				if end := j.CreatedAt.Add(2 * time.Minute); j.Status == rollout.JobInProgress && (next.IsZero() || end.Before(next)) {
					next = end
				}
			}
		}
		if next.IsZero() {
			break
		}
		now = next
		for i := range s.Targets {
			for k := range s.Targets[i].Jobs {
				if j := &s.Targets[i].Jobs[k]; j.Status == rollout.JobInProgress && !j.CreatedAt.Add(2*time.Minute).After(now) {
					j.Status, j.CompletedAt = rollout.JobSuccessful, now
				}
			}
		}
	}
	return lines
}

func TestRate(t *testing.T) {
	t.Parallel()
	const bracket = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'a'"}}}`
	for _, row := range []struct {
		why, rules string
		fleet      map[string][]string
		want       []string
	}{
		{"one begins in ten minutes, although each is done after two", onePerTenMinutes, map[string][]string{"a": {"v1", "v2"}},
			[]string{"00:00 r1/a@v2", "00:10 r2/a@v2", "00:20 r3/a@v2"}},
		{"a second deployment begins nothing on a node that is down", onePerTenMinutes, map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}},
			[]string{"00:00 r1/a@v2", "00:00 r1/c@v2", "00:10 r2/a@v2", "00:10 r2/c@v2", "00:20 r3/a@v2", "00:20 r3/c@v2"}},
		{"nor does a member of a bracket that goes on", bracket + "," + onePerTenMinutes, map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}},
			[]string{"00:00 r1/a@v2", "00:02 r1/c@v2", "00:10 r2/a@v2", "00:12 r2/c@v2", "00:20 r3/a@v2", "00:22 r3/c@v2"}},
		{"each value has a rate of its own", strings.Replace(onePerTenMinutes, `"true"`, `"true","groupBy":"resource.name"`, 1), map[string][]string{"a": {"v1", "v2"}},
			[]string{"00:00 r1/a@v2", "00:00 r2/a@v2", "00:00 r3/a@v2"}},
		{"and so has each of two pools", onePerTenMinutes + `,{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name != 'r1'","limit":2,"rate":{"limit":1,"periodSeconds":1800}}}`, map[string][]string{"a": {"v1", "v2"}},
			[]string{"00:00 r1/a@v2", "00:10 r2/a@v2", "00:40 r3/a@v2"}},
	} {
		got := begins(t, compile(t, policy(row.rules)), fleet(3, "v1", row.fleet), 30)
		if row.fleet["c"] != nil { // those of one instant by name
			slices.Sort(got)
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestRateSays: what waits for a rate is told until when, by the next plan at the latest, and Next
// is that instant.
func TestRateSays(t *testing.T) {
	t.Parallel()
	set, s := compile(t, policy(onePerTenMinutes)), fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	says := func(plan rollout.Plan) string {
		w, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"})
		return fmt.Sprint(w.Blockers[0], " ", w.Blockers[0].Actors(), " next ", plan.Next.Format(time.TimeOnly), " ", plan.NextAfter(plan.Start).Format(time.TimeOnly))
	}
	plan := mustPlan(t, set, s, t0)
	if got, want := says(plan), "slot_rate_full, waits for the rate of P [time] next 00:00:00 00:10:00"; got != want || !plan.Next.IsZero() {
		t.Errorf("the instant depends on when r1 starts: %s, want %s", got, want)
	}
	state := mustCommit(t, plan, minute(1))
	if diff := cmp.Diff([]concurrency.Begun{{At: minute(1), Count: 1}}, state.Pools[0].Begun); diff != "" {
		t.Error(diff)
	}
	s.State = state
	add(&s, plan.Start[0], job(plan.Start[0], minute(1), rollout.JobSuccessful))
	plan = mustPlan(t, set, s, minute(2))
	if got, want := says(plan), "slot_rate_full until 2025-01-01T00:11:00Z, waits for the rate of P [time] next 00:11:00 00:11:00"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if len(plan.State.Pools[0].Leases) != 0 {
		t.Errorf("the slot has been given back: %v", plan.State.Pools[0].Leases)
	}
	if e, err := plan.Explain(rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "a"}); err != nil || !strings.Contains(e.String(), "slot_rate_full until 2025-01-01T00:11:00Z") {
		t.Errorf("%v %v", e, err)
	}
	if plan = mustPlan(t, set, s, minute(11)); !slices.Equal(started(plan), []string{"r2/a@v2"}) {
		t.Errorf("starts %v", started(plan))
	}
	// Nothing waits any more: no reason to wake.
	s.State = mustCommit(t, plan, minute(11))
	add(&s, plan.Start[0], job(plan.Start[0], minute(11), rollout.JobSuccessful))
	if plan = mustPlan(t, set, s, minute(12)); !plan.Next.IsZero() {
		t.Errorf("next %v", plan.Next)
	}
}

// TestRateOfNobody: a rate that rounds to 0 pauses its pool. Who waits is told that it is the rate,
// and not the limit beside it, unless that is 0 as well.
func TestRateOfNobody(t *testing.T) {
	t.Parallel()
	const limit, rate = "slot_paused, waits for a change of the limit of P", "slot_paused: its rate lets none of its members begin, waits for a change of the rate of P"
	for _, row := range []struct{ why, limits, want string }{
		{"a percentage of few", `"limit":5,"rate":{"limit":"10%","periodSeconds":60},"rounding":"floor"`, rate},
		{"a percentage that would let one of more begin", `"limit":"50%","rate":{"limit":"49%","periodSeconds":60},"rounding":"floor"`, rate},
		{"no rate", `"limit":0`, limit},
		{"a limit of 0 beside a rate of 0", `"limit":0,"rate":{"limit":"10%","periodSeconds":60},"rounding":"floor"`, limit},
		{"a limit of 0 beside a rate", `"limit":"10%","rate":{"limit":1,"periodSeconds":60},"rounding":"floor"`, limit},
	} {
		plan := mustPlan(t, compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true",`+row.limits+`}}`)), fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
		if len(plan.Start) > 0 || len(wait.Blockers) != 1 || wait.Blockers[0].String() != row.want || !slices.Equal(wait.Blockers[0].Actors(), []rollout.Actor{rollout.ActorPolicy}) {
			t.Errorf("%s: starts %q, %v, want %q", row.why, started(plan), wait, row.want)
		}
		if queue, err := plan.Queue(); err != nil || len(queue) != 2 || !slices.Equal(queue[0].Pools, []string{"P"}) {
			t.Errorf("%s: in the queue are %v (%v)", row.why, queue, err)
		}
	}
}

// TestRateDoesNotPromiseItsPlaces: two wait for the one place that a rate has next, so no text says
// of either that it starts then.
func TestRateDoesNotPromiseItsPlaces(t *testing.T) {
	t.Parallel()
	set, s := compile(t, policy(onePerTenMinutes)), fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	plan := mustPlan(t, set, s, minute(2))
	if plan.Waiting.Len() != 2 {
		t.Fatalf("waits %q", blockers(plan))
	}
	for wait := range plan.Waiting.All() {
		if e, err := plan.Explain(wait.TargetID); err != nil || !strings.Contains(e.String(), "opens by itself not before 2025-01-01T00:10:00Z") {
			t.Errorf("%v %v", e, err)
		}
	}
}

// TestRateOfOverrides: an override of the rule lets a version past its rate as well, and who begins
// that way counts for those that come later.
func TestRateOfOverrides(t *testing.T) {
	t.Parallel()
	rules := func(perPeriod int) *rollout.PolicySet {
		return compile(t, policy(strings.Replace(onePerTenMinutes, `"rate":{"limit":1`, fmt.Sprintf(`"rate":{"limit":%d`, perPeriod), 1)))
	}
	forced := func() rollout.Snapshot {
		s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Overrides = []rollout.Override{override("P", only("r3"))}
		return s
	}
	s := forced()
	plan := mustPlan(t, rules(1), s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r3/a@v2", "r1/a@v2"}) || plan.Start[0].Reason != rollout.ReasonOverridden {
		t.Errorf("r3 and the first of the others: %v", got)
	}
	for _, start := range plan.Start {
		if start.Claims[0].PeriodSeconds != 600 {
			t.Errorf("%s is not remembered: %+v", start.Run, start.Claims)
		}
	}
	if diff := cmp.Diff([]concurrency.Begun{{At: t0, Count: 2}}, mustCommit(t, plan, t0).Pools[0].Begun); diff != "" {
		t.Error(diff)
	}
	var err error
	if s.State, err = plan.Commit(plan.Start[:1], t0); err != nil {
		t.Fatal(err)
	}
	if plan = mustPlan(t, rules(1), s, t0); !slices.Equal(started(plan), []string{"r3/a@v2"}) || waits(plan) != "slot_rate_full P 01 00:10:00" {
		t.Errorf("r1, which the host left out, comes after r3: %v, %s", started(plan), waits(plan))
	}
	s = forced()
	s.State.Pools = []concurrency.Record{concurrency.NewRecord("P")}
	s.State.Pools[0].Begun = []concurrency.Begun{{At: minute(-4), Count: 1}, {At: t0.Add(-1), Count: 1}}
	before := text(t, s)
	if plan = mustPlan(t, rules(1), s, t0); !slices.Equal(started(plan), []string{"r3/a@v2"}) || waits(plan) != "slot_rate_full P 01 00:09:59.999999999" {
		t.Errorf("it is past a rate that is used up: %v, %s", started(plan), waits(plan))
	}
	if diff := cmp.Diff([]concurrency.Begun{{At: minute(-4), Count: 1}, {At: t0.Add(-1), Count: 1}, {At: t0, Count: 1}}, mustCommit(t, plan, t0).Pools[0].Begun); diff != "" {
		t.Error(diff)
	}
	if after := text(t, s); after != before {
		t.Errorf("the plan wrote to the snapshot: %s", cmp.Diff(before, after))
	}
	s.Overrides[0].Resource = ""
	if plan = mustPlan(t, rules(1), s, t0); len(plan.Start) != 4 {
		t.Errorf("one for all: %v", started(plan))
	}
	if diff := cmp.Diff([]concurrency.Begun{{At: minute(-4), Count: 1}, {At: t0.Add(-1), Count: 1}, {At: t0, Count: 4}}, mustCommit(t, plan, t0).Pools[0].Begun); diff != "" {
		t.Error(diff)
	}
}

// TestRateOfAStartGivenAgain: a planner that stopped before it dispatched offers the start once
// more, and that begins nothing; nor does a slot that was lost come back.
func TestRateOfAStartGivenAgain(t *testing.T) {
	t.Parallel()
	set, s := compile(t, policy(onePerTenMinutes)), fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.State = mustCommit(t, mustPlan(t, set, s, t0), t0)
	plan := mustPlan(t, set, s, minute(1))
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) || plan.Start[0].Claims[0].PeriodSeconds != 0 {
		t.Errorf("%v %+v", got, plan.Start[0].Claims)
	}
	if diff := cmp.Diff([]concurrency.Begun{{At: t0, Count: 1}}, mustCommit(t, plan, minute(1)).Pools[0].Begun); diff != "" {
		t.Error(diff)
	}
}

// TestRateStarvesWhoIsLast: releases come as fast as one of two nodes begins, so the group of each
// supersedes the one before on the second node, which is what Lint says of it. With orderSalt group
// another one is last.
func TestRateStarvesWhoIsLast(t *testing.T) {
	t.Parallel()
	const rules = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2,"rate":{"limit":1,"periodSeconds":3600}}}`
	for _, row := range []struct {
		rules string
		least int // how often the node that begins more rarely does so
		lint  bool
	}{
		{rules, 0, true},
		{rules + `,{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":0,"orderKey":"resource_bracket","orderSalt":"group"}}`, 3, false},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(2, "v00", map[string][]string{"a": {"v00"}})
		count := map[string]int{"r1": 0, "r2": 0}
		for hour := range 24 {
			now := t0.Add(time.Duration(hour) * time.Hour)
			s.Versions = append(slices.Clip(s.Versions), rollout.Version{ID: fmt.Sprintf("v%02d", hour+1), Deployment: "a", Status: rollout.VersionReady, CreatedAt: now})
			plan := mustPlan(t, set, s, now)
			for _, start := range plan.Start {
				count[start.Resource]++
			}
			carryOut(t, &s, plan, now, rollout.JobSuccessful)
			if plan = mustPlan(t, set, s, now.Add(time.Minute)); len(plan.Start) != 0 {
				t.Fatalf("%v start within the hour", started(plan))
			}
			s.State = plan.State
		}
		if least := min(count["r1"], count["r2"]); count["r1"]+count["r2"] != 24 || least < row.least || row.lint != (least == 0) {
			t.Errorf("%v begin, lint says they starve: %v", count, row.lint)
		}
		findings, err := set.Lint(s, t0.Add(24*time.Hour), 24*time.Hour, rollout.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if found := slices.ContainsFunc(findings, func(f rollout.Finding) bool { return f.Code == rollout.LintImmediateStarves }); found != row.lint {
			t.Errorf("found %v, want %v: %v", found, row.lint, findings)
		}
	}
}

// TestRateBesideAForcedStart: an override lets one version past a rate that is used up. The host may
// leave that start out, so what begins nothing beside it is not offered yet: carried out alone, it
// was past the rate without an override. It starts next, and a host that sleeps until NextAfter does
// not miss it.
func TestRateBesideAForcedStart(t *testing.T) {
	t.Parallel()
	begun := func(list ...concurrency.Begun) []concurrency.Begun { return list }
	for _, row := range []struct {
		why             string
		begun           []concurrency.Begun
		more            bool // another resource waits as well
		start           []string
		waits           string // what r1/c waits for
		next, nextAfter time.Time
	}{
		{"used up", begun(concurrency.Begun{At: minute(-1), Count: 1}), false, []string{"r1/a@v2"}, "slot_rate_full 2025-01-01T00:09:00Z", minute(9), t0.Add(1)},
		{"used up, which others wait for as well", begun(concurrency.Begun{At: minute(-1), Count: 1}), true, []string{"r1/a@v2"}, "slot_rate_full 2025-01-01T00:09:00Z", minute(9), t0.Add(1)},
		{"more than used up: all but none must be over", begun(concurrency.Begun{At: minute(-9), Count: 1}, concurrency.Begun{At: minute(-1), Count: 1}), false,
			[]string{"r1/a@v2"}, "slot_rate_full 2025-01-01T00:09:00Z", minute(9), t0.Add(1)},
		{"by a clock that has been set back", begun(concurrency.Begun{At: minute(5), Count: 1}), false, []string{"r1/a@v2"}, "slot_rate_full 2025-01-01T00:15:00Z", minute(15), t0.Add(1)},
		{"another resource begins", nil, true, []string{"r1/a@v2", "r2/a@v2", "r2/c@v2"}, "slot_rate_full 0001-01-01T00:00:00Z", time.Time{}, t0.Add(1)},
		{"there is room", nil, false, []string{"r1/a@v2", "r1/c@v2"}, "", time.Time{}, time.Time{}},
		{"it is over", begun(concurrency.Begun{At: minute(-10), Count: 1}), false, []string{"r1/a@v2", "r1/c@v2"}, "", time.Time{}, time.Time{}},
	} {
		set := compile(t, policy(onePerTenMinutes))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
		if !row.more {
			s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r2" })
		}
		s.Overrides = []rollout.Override{override("P", only("r1"), of("a"))}
		s.State.Pools = []concurrency.Record{concurrency.NewRecord("P")}
		s.State.Pools[0].Begun = row.begun
		plan := mustPlan(t, set, s, t0)
		got := ""
		if w, waits := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "c"}); waits {
			got = string(w.Blockers[0].Reason) + " " + w.Blockers[0].Until.Format(time.RFC3339)
		}
		if !slices.Equal(started(plan), row.start) || got != row.waits || !plan.Next.Equal(row.next) || !plan.NextAfter(plan.Start).Equal(row.nextAfter) {
			t.Errorf("%s: %v start, %s, next %v, after them %v", row.why, started(plan), got, plan.Next, plan.NextAfter(plan.Start))
		}
		for _, start := range plan.Start { // alone
			state, err := plan.Commit([]rollout.Start{start}, t0)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(state.Pools[0].Begun); start.Reason != rollout.ReasonOverridden && (n == 0 || state.Pools[0].Begun[n-1] != concurrency.Begun{At: t0, Count: 1}) {
				t.Errorf("%s: %s begins alone, and the record has %v", row.why, start.Run, state.Pools[0].Begun)
			}
		}
		if row.waits == "" {
			continue
		}
		if !row.next.IsZero() {
			if early, then := mustPlan(t, set, s, row.next.Add(-1)), mustPlan(t, set, s, row.next); !slices.Equal(started(early), row.start) || len(then.Start) <= len(row.start) {
				t.Errorf("%s: before Next %v start, then %v", row.why, started(early), started(then))
			}
		}
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
		if then := mustPlan(t, set, s, t0.Add(1)); !slices.Equal(started(then), []string{"r1/c@v2"}) {
			t.Errorf("%s: then %v start", row.why, started(then))
		}
	}
}

// TestRateOfAnotherPool: who begins in another pool takes nothing from the rate of this one, also
// where an override lets a start past it.
func TestRateOfAnotherPool(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"resource.name == 'r2'","limit":1,"rate":{"limit":2,"periodSeconds":600}}},
		{"id":"Q","resourceConcurrency":{"groupSelector":"resource.name != 'r2'","limit":9,"rate":{"limit":9,"periodSeconds":600}}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	s.Overrides = []rollout.Override{override("P", only("r2"), of("a"))}
	plan := mustPlan(t, set, s, t0)
	got := started(plan)
	slices.Sort(got)
	if want := []string{"r1/a@v2", "r1/b@v2", "r2/a@v2", "r2/b@v2", "r3/a@v2", "r3/b@v2"}; !slices.Equal(got, want) {
		t.Errorf("starts %v, want %v: %v", got, want, blockers(plan))
	}
	begun := map[string][]concurrency.Begun{}
	for _, record := range mustCommit(t, plan, t0).Pools {
		begun[record.Key] = record.Begun
	}
	if diff := cmp.Diff(map[string][]concurrency.Begun{"P": {{At: t0, Count: 1}}, "Q": {{At: t0, Count: 2}}}, begun); diff != "" {
		t.Error(diff)
	}
}

// TestRatesBesideAForcedStart: who begins uses up the rates of all its pools, and so c on r1, which may
// not begin in the places that count for a forced start alone, waits for both.
func TestRatesBesideAForcedStart(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(onePerTenMinutes+","+strings.Replace(onePerTenMinutes, `"P"`, `"Q"`, 1)))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
	s.Overrides = []rollout.Override{override("P", only("r1"), of("a")), override("Q", only("r1"), of("a"), func(o *rollout.Override) { o.ID = "q" })}
	plan := mustPlan(t, set, s, t0)
	if got, want := blockers(plan), []string{"r1/c@v2: slot_rate_full slot_rate_full"}; !slices.Equal(got, want) || !slices.Equal(started(plan), []string{"r1/a@v2", "r2/a@v2", "r2/c@v2"}) {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}

// TestRateUsedUpBeside: who waits for another pool comes to wait for a rate as well, if starts of the
// same plan use it up. A host that carries them out is told when that is over.
func TestRateUsedUpBeside(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why    string
		rate   int
		others int // nodes outside the pool that is full; all but the first are frozen until minute 4
		at     int // minute of the plan that is looked at
		want   time.Time
	}{
		{"the only start of the period", 1, 1, 0, minute(10)},
		{"a start is left", 2, 1, 0, minute(30)},
		{"the start before is over first", 2, 2, 4, minute(10)},
		{"nothing is used up before the freeze is over", 2, 2, 0, minute(4)},
		{"both starts are left of four", 4, 2, 4, minute(30)},
		{"two at once, after one", 3, 3, 4, minute(10)},
		{"one more than that", 4, 3, 4, minute(30)},
	} {
		set := compile(t, policy(fmt.Sprintf(`{"id":"C","resourceConcurrency":{"groupSelector":"true","limit":9,"rate":{"limit":%d,"periodSeconds":600}}},
			{"id":"Z","resourceConcurrency":{"groupSelector":"resource.name in ['r1', 'r2']","limit":1}}`, row.rate)))
		s := fleet(2+row.others, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(-60)}}
		s.Freezes = []rollout.Freeze{{ID: "z", Resource: "r2", CreatedAt: minute(30), CreatedBy: "ann", Reason: "its disk"}} // for which a host looks again if for nothing else
		for k := range row.others - 1 {
			s.Freezes = append(s.Freezes, rollout.Freeze{ID: s.Resources[3+k].ID, Resource: s.Resources[3+k].ID, CreatedAt: minute(-60), ExpiresAt: minute(4), CreatedBy: "ann", Reason: "its disk"})
		}
		now := minute(row.at)
		if row.at > 0 {
			carryOut(t, &s, mustPlan(t, set, s, minute(0)), minute(0), rollout.JobInProgress)
		}
		plan := mustPlan(t, set, s, now)
		if got := plan.NextAfter(plan.Start); len(plan.Start) == 0 || !got.Equal(row.want) {
			t.Errorf("%s: %v start, and the host looks again at %v, want %v", row.why, started(plan), got, row.want)
		}
		carryOut(t, &s, plan, now, rollout.JobInProgress)
		if then := mustPlan(t, set, s, now); !then.Next.Equal(row.want) || len(then.Start) > 0 {
			t.Errorf("%s: then %v start, and the host looks again at %v, want %v: %v", row.why, started(then), then.Next, row.want, blockers(then))
		}
	}
}
