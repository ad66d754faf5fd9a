package rollout_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// noRule stands where a policy needs a rule and the test does not.
const noRule = `{"anyApproval":{"minApprovals":0}}`

// freeze is one of everything from t0 on.
func freeze(change ...func(*rollout.Freeze)) rollout.Freeze {
	z := rollout.Freeze{ID: "z", CreatedAt: t0, CreatedBy: "bob", Reason: "INC-7"}
	for _, f := range change {
		f(&z)
	}
	return z
}

func frozenOn(resource string) func(*rollout.Freeze) {
	return func(z *rollout.Freeze) { z.Resource = resource }
}

func frozenIn(environment string) func(*rollout.Freeze) {
	return func(z *rollout.Freeze) { z.Environment = environment }
}

func frozenOf(deployment string) func(*rollout.Freeze) {
	return func(z *rollout.Freeze) { z.Deployment = deployment }
}

func thaws(at time.Time) func(*rollout.Freeze) {
	return func(z *rollout.Freeze) { z.ExpiresAt = at }
}

func finishing(z *rollout.Freeze) { z.FinishBegun = true }

// TestFreezeIsActive: from its creation to before its expiry, for what it names only.
func TestFreezeIsActive(t *testing.T) {
	for _, row := range []struct {
		why    string
		freeze rollout.Freeze
		now    time.Time
		waits  bool
		next   time.Time
	}{
		{"before it begins", freeze(), t0.Add(-1), false, t0},
		{"at its beginning", freeze(), t0, true, time.Time{}},
		{"without end", freeze(), t0.AddDate(10, 0, 0), true, time.Time{}},
		{"without end, which is missing as some databases write it", freeze(thaws(time.Time{}.Add(-time.Hour))), t0, true, time.Time{}},
		{"before it ends", freeze(thaws(minute(5))), minute(5).Add(-1), true, minute(5)},
		{"when it ends", freeze(thaws(minute(5))), minute(5), false, time.Time{}},
		{"its environment", freeze(frozenIn("prod")), t0, true, time.Time{}},
		{"another one", freeze(frozenIn("staging")), t0, false, time.Time{}},
		{"its deployment", freeze(frozenOf("api")), t0, true, time.Time{}},
		{"another one", freeze(frozenOf("web")), t0, false, time.Time{}},
		{"its deployment in another environment", freeze(frozenOf("api"), frozenIn("staging")), t0, false, time.Time{}},
		{"its resource", freeze(frozenOn("r1")), t0, true, time.Time{}},
		{"another one", freeze(frozenOn("r2")), t0, false, time.Time{}},
		{"its resource in its environment", freeze(frozenOn("r1"), frozenIn("prod")), t0, true, time.Time{}},
		{"its resource in another one", freeze(frozenOn("r1"), frozenIn("staging")), t0, false, time.Time{}},
		{"what nobody knows, while that is reported", freeze(frozenOn("r9"), thaws(minute(5))), t0, false, minute(5)},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			s.Environments = append(s.Environments, rollout.Environment{ID: "staging"})
			s.Deployments = append(s.Deployments, rollout.Deployment{ID: "web"})
			s.Resources = append(s.Resources, rollout.Resource{ID: "r2"})
			for _, other := range []rollout.TargetID{{Resource: "r2", Environment: "prod", Deployment: "web"}, {Resource: "r2", Environment: "staging", Deployment: "api"}, {Resource: "r1", Environment: "staging", Deployment: "web"}} {
				s.Targets = append(s.Targets, rollout.Target{TargetID: other, Current: "v2"})
			}
			s.Versions = append(s.Versions, rollout.Version{ID: "v2", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0})
			for k := range s.Versions {
				s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(-time.Hour)
			}
			s.Freezes = []rollout.Freeze{row.freeze}
			plan := mustPlan(t, compile(t, policy(noRule)), s, row.now)
			if holds := row.freeze.Holds(s.Targets[0].TargetID, row.now); holds != row.waits {
				t.Errorf("holds the target: %v", holds)
			}
			if waits := len(plan.Start) == 0; waits != row.waits || plan.Waiting.Len() > 1 || !plan.Next.Equal(row.next) {
				t.Errorf("starts %q, waits %q, next %v, want %v", started(plan), blockers(plan), plan.Next, row.next)
			}
		})
	}
}

// TestFreeze: what a freeze of everything keeps from starting, and what it does not touch.
func TestFreeze(t *testing.T) {
	ok, failure, running := rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress
	const retry, back = `{"retry":{"maxRetries":3}}`, `{"id":"x","rollback":{"onJobStatuses":["failure"]}}`
	for _, row := range []struct {
		why, rules string
		change     func(*rollout.Target)
		waits      string // under the freeze
		finishes   string // what starts if it finishes what has begun
	}{
		{"a new version", "", func(x *rollout.Target) { x.Current = "v1" }, "r1/api@v2: frozen", ""},
		{"the first version", "", func(*rollout.Target) {}, "r1/api@v2: frozen", ""},
		{"nothing to do: nothing waits", "", func(x *rollout.Target) { x.Current = "v2" }, "", ""},
		{"a job in progress goes on", "", func(x *rollout.Target) { x.Jobs = []rollout.Job{{Version: "v2", Status: running, CreatedAt: t0}} }, "", ""},
		{"with every other reason", `{"anyApproval":{"minApprovals":1}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":9}}`, func(x *rollout.Target) { x.Current = "v1" },
			"r1/api@v2: approval_missing rollout_not_started frozen", ""},
		{"behind a job of another version", "", func(x *rollout.Target) { x.Jobs = []rollout.Job{{Version: "v1", Status: running, CreatedAt: t0}} }, "r1/api@v2: frozen target_busy", ""},
		{"what is held for another reason", "", func(x *rollout.Target) { x.Current = "v0" }, "r1/api@: version_unknown frozen", ""},
		{"the next attempt", retry, func(x *rollout.Target) { x.Jobs = []rollout.Job{ran("v2", failure, -5)} }, "r1/api@v2: frozen", "r1/api@v2"},
		{"an attempt that is not due yet", `{"retry":{"maxRetries":3,"backoffSeconds":3600}}`, func(x *rollout.Target) { x.Jobs = []rollout.Job{ran("v2", failure, -5)} }, "r1/api@v2: retry_backoff frozen", ""},
		{"attempts that are used up", "", func(x *rollout.Target) { x.Jobs = []rollout.Job{ran("v2", failure, -5)} }, "r1/api@v2: retry_exhausted frozen", ""},
		{"what is outdated has not begun anything", "", func(x *rollout.Target) { x.Jobs, x.OutdatedAt = []rollout.Job{ran("v2", ok, -5)}, minute(-2) }, "r1/api@v2: frozen", ""},
		{"the next attempt at a run for that", retry, func(x *rollout.Target) {
			x.Jobs, x.OutdatedAt = []rollout.Job{ran("v2", ok, -9), ran("v2", failure, -1)}, minute(-2) // when that job was created
		}, "r1/api@v2: frozen", "r1/api@v2"},
		{"and not after a failure before it", retry, func(x *rollout.Target) {
			x.Jobs, x.OutdatedAt = []rollout.Job{ran("v2", ok, -9), ran("v2", failure, -7)}, minute(-2)
		}, "r1/api@v2: frozen", ""},
		{"the way back", back, func(x *rollout.Target) { x.Jobs = []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)} }, "r1/api@v1: frozen", "r1/api@v1"},
		{"the way back that has failed", back, func(x *rollout.Target) {
			x.Jobs = []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3)}
		}, "r1/api@v2: rollback_failed", ""},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1", "v2"}})
		row.change(&s.Targets[0])
		set := compile(t, policy(cmp.Or(row.rules, noRule)))
		for _, finish := range []bool{false, true} {
			z := freeze()
			z.FinishBegun = finish
			s.Freezes = []rollout.Freeze{z}
			plan := mustPlan(t, set, s, t0)
			wantStart, wantWait := []string(nil), []string{row.waits}
			if finish && row.finishes != "" {
				wantStart, wantWait = []string{row.finishes}, nil
			}
			if finish && strings.HasPrefix(row.waits, "r1/api@v2: retry_") {
				wantWait = []string{strings.TrimSuffix(row.waits, " frozen")}
			}
			if row.waits == "" {
				wantWait = nil
			}
			if !slices.Equal(started(plan), wantStart) || !slices.Equal(blockers(plan), wantWait) {
				t.Errorf("%s, finishing %v: starts %q, waits %q, want %q, %q", row.why, finish, started(plan), blockers(plan), wantStart, wantWait)
			}
			e, err := plan.Explain(s.Targets[0].TargetID)
			if err != nil {
				t.Fatal(err)
			}
			for wait := range plan.Waiting.All() {
				own := e.Waits()
				if wait.Version == "" && len(e.Held) > 0 {
					continue
				}
				if own == nil || own.Version != wait.Version || len(own.Blockers()) != len(wait.Blockers) {
					t.Errorf("%s, finishing %v: waits for %v\n%s", row.why, finish, wait, e)
					continue
				}
				for _, b := range own.Blockers() {
					if (b.Reason == rollout.ReasonFrozen) != (b.Kind == "freeze") {
						t.Errorf("%s, finishing %v: %v is of kind %s", row.why, finish, b.Verdict, b.Kind)
					}
				}
			}
		}
	}
}

// TestFreezeOfARollback: what keeps a target from going back is explained, also where a newer version
// waits for something else.
func TestFreezeOfARollback(t *testing.T) {
	set := compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}},{"id":"a","versionSelector":{"selector":"version.tag != 'v3'"}}`))
	s := fleet(1, "", map[string][]string{"api": {"v1", "v2", "v3"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, -5)}
	s.Freezes = []rollout.Freeze{freeze()}
	plan := mustPlan(t, set, s, t0)
	e, err := plan.Explain(s.Targets[0].TargetID)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, v := range e.Versions {
		for _, b := range v.Blockers() {
			said[v.Version] += " " + string(b.Reason)
		}
	}
	if want := map[string]string{"v3": " selector_no_match frozen", "v2": " rollback_triggered", "v1": " frozen"}; fmt.Sprint(said) != fmt.Sprint(want) || len(plan.Start) > 0 {
		t.Errorf("%v, want %v\n%s", said, want, e)
	}
}

// TestFreezeBeyondAllPlans: the end of a freeze by which nobody can plan any more is none that a wait
// could name, least of all one in the year 10000, of which there is no JSON.
func TestFreezeBeyondAllPlans(t *testing.T) {
	set := compile(t, policy(`{"id":"a","anyApproval":{"minApprovals":1}}`))
	west := time.FixedZone("", -3600)
	for _, row := range []struct {
		end  time.Time
		told bool
	}{
		{time.Date(2262, 1, 1, 0, 0, 0, 0, west), true},
		{time.Unix(0, math.MaxInt64), true},
		{time.Date(2263, 1, 1, 0, 0, 0, 0, west), false},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, west), false},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Freezes = []rollout.Freeze{freeze(thaws(row.end))}
		s.Overrides = []rollout.Override{override("a", func(o *rollout.Override) { o.ExpiresAt = row.end })}
		plan := mustPlan(t, set, s, t0)
		want := time.Time{}
		if row.told {
			want = row.end.UTC()
		}
		if wait := waitingOf(plan)[0]; len(wait.Blockers) != 1 || wait.Blockers[0].Until != want || plan.Next != want || !s.Freezes[0].Holds(wait.TargetID, row.end.Add(-1)) {
			t.Errorf("%v: waits %v, next %v", row.end, wait, plan.Next)
		}
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		for _, said := range []any{plan, e} {
			if _, err := json.Marshal(said); err != nil {
				t.Errorf("%v: %v", row.end, err)
			}
		}
	}
}

// TestFreezesAreToldApart: targets that are frozen by different people share no line, and a freeze in
// the place of another one is a change.
func TestFreezesAreToldApart(t *testing.T) {
	set := compile(t, policy(noRule))
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	disk := freeze(frozenOn("r1"), func(z *rollout.Freeze) { z.ID, z.CreatedBy, z.Reason = "disk", "ann", "the disk is replaced" })
	s.Freezes = []rollout.Freeze{disk, freeze(frozenOn("r2")), freeze(frozenOn("r3"), func(z *rollout.Freeze) { z.ID = "y" })}
	apart := mustPlan(t, set, s, t0)
	const want = `r1 / prod / api: v2 waits: frozen by ann (the disk is replaced), waits for the end of freeze disk
r2 / prod / api: v2 waits: frozen by bob (INC-7), waits for the end of freeze z
r3 / prod / api: v2 waits: frozen by bob (INC-7), waits for the end of freeze y`
	if got := apart.Waiting.String(); got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	s.Freezes = []rollout.Freeze{freeze()}
	together := mustPlan(t, set, s, t0)
	const likewise = "r1 / prod / api: v2 waits: frozen by bob (INC-7), waits for the end of freeze z; and 2 more likewise"
	if got := together.Waiting.String(); got != likewise {
		t.Errorf("printed\n%s\nwant\n%s", got, likewise)
	}
	own := rollout.NewWaitingList(rollout.Waiting{TargetID: s.Targets[0].TargetID, Version: "v2", Blockers: []rollout.Verdict{{Status: rollout.Denied, Reason: "frozen", Rule: "host"}}})
	if got := own.String(); got != "r1 / prod / api: v2 waits: frozen" {
		t.Errorf("a rule of the host's that has the same reason: %s", got)
	}
	var changed []string
	for _, change := range together.Changes(&apart) {
		changed = append(changed, change.Resource)
	}
	if !slices.Equal(changed, []string{"r1", "r3"}) {
		t.Errorf("%q have changed", changed)
	}
}

// TestFreezeIsExplained: who froze the target, why and until when, and who can act; of several
// freezes each, those of more than one resource first, and then the older ones.
func TestFreezeIsExplained(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Freezes = []rollout.Freeze{
		freeze(frozenOn("r1"), func(z *rollout.Freeze) { z.ID, z.CreatedBy, z.Reason = "disk", "ann", "the disk is being replaced" }),
		freeze(func(z *rollout.Freeze) { z.ID, z.Reason = "b", "INC-8" }),
		freeze(thaws(minute(90)), func(z *rollout.Freeze) { z.ID = "a" }),
		freeze(frozenIn("prod"), func(z *rollout.Freeze) { z.ID, z.Reason, z.CreatedAt = "c", "INC-6", minute(-1) }),
	}
	// No override lets anything past a freeze: it is no rule.
	s.Overrides = []rollout.Override{override("z"), override("disk")}
	plan := mustPlan(t, compile(t, policy(noRule)), s, t0)
	var got []string
	for _, verdict := range waitingOf(plan)[0].Blockers {
		got = append(got, fmt.Sprint(verdict, " <- ", verdict.Actors()))
	}
	want := []string{
		"frozen by bob (INC-6), waits for the end of freeze c <- [an operator]",
		"frozen by bob (INC-7) until 2025-01-01T01:30:00Z, waits for the end of freeze a <- [time an operator]",
		"frozen by bob (INC-8), waits for the end of freeze b <- [an operator]",
		"frozen by ann (the disk is being replaced), waits for the end of freeze disk <- [an operator]",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	for _, d := range plan.Diagnostics {
		if d.Code != rollout.DiagnosticOverrideWithoutEffect {
			t.Errorf("unexpected: %v", d)
		}
	}
}

// TestFreezeTakesNoSlot: a frozen target holds up nobody else, neither by a place in a pool nor by a
// turn, and keeps the slot that it holds between two attempts.
func TestFreezeTakesNoSlot(t *testing.T) {
	limit := `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"strict":true}},{"retry":{"maxRetries":3}}`
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(limit))
	first := mustPlan(t, set, s, t0)
	held := first.Start[0]
	s.Freezes = []rollout.Freeze{freeze(frozenOn(held.Resource))}
	plan := mustPlan(t, set, s, t0)
	if len(plan.Start) != 1 || plan.Start[0].Resource == held.Resource {
		t.Fatalf("starts %q beside %s", started(plan), held.Resource)
	}
	s.Freezes = nil
	carryOut(t, &s, first, t0, rollout.JobFailure)
	s.Freezes = []rollout.Freeze{freeze(frozenOn(held.Resource))}
	plan = mustPlan(t, set, s, minute(5))
	if len(plan.Start) > 0 || len(plan.Orphans) > 0 || len(leases(plan.State)) != 1 {
		t.Errorf("between two attempts: starts %q, orphans %v, leases %v", started(plan), plan.Orphans, leases(plan.State))
	}
	s.Freezes[0].FinishBegun = true
	if got := started(mustPlan(t, set, s, minute(5))); !slices.Equal(got, []string{held.Resource + "/api@v2"}) {
		t.Errorf("the attempt that has begun: %q", got)
	}
}

// TestFreezeKeepsTheOrder: a curve and a percentage count a frozen target as any other.
func TestFreezeKeepsTheOrder(t *testing.T) {
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":400,"orderKey":"resource"}}`))
	s := fleet(4, "v1", map[string][]string{"api": {"v1", "v2"}})
	turns := func() map[string]time.Time {
		at := map[string]time.Time{}
		for wait := range mustPlan(t, set, s, t0).Waiting.All() {
			for _, b := range wait.Blockers {
				if b.Reason == rollout.ReasonRolloutNotDue {
					at[wait.Resource] = b.Until
				}
			}
		}
		return at
	}
	before := turns()
	s.Freezes = []rollout.Freeze{freeze(frozenOn("r1"))}
	if after := turns(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("turns %v, before the freeze %v", after, before)
	}
	for _, frozen := range []string{"r1", "r2", "r3", "r4"} {
		s.Freezes = []rollout.Freeze{freeze(frozenOn(frozen))}
		wait, _ := mustPlan(t, set, s, t0).Waiting.Of(rollout.TargetID{Resource: frozen, Environment: "prod", Deployment: "api"})
		want := "rollout_not_due frozen"
		if before[frozen].IsZero() { // the first in turn
			want = "frozen"
		}
		if got := waitingText(wait); got != want {
			t.Errorf("%s is frozen before its turn: %s, want %s", frozen, got, want)
		}
		plan := mustPlan(t, set, s, minute(60))
		if len(plan.Start) != 3 || !slices.Equal(blockers(plan), []string{frozen + "/api@v2: frozen"}) {
			t.Errorf("%s is frozen: starts %q, waits %q", frozen, started(plan), blockers(plan))
		}
	}
}

// TestFreezeInABracket: no execution begins for a frozen member, one that is open stops where it is
// with its slots, and goes on with the next member when the freeze is over.
func TestFreezeInABracket(t *testing.T) {
	set := compile(t, nodeLifecycle(t))
	t.Run("before it begins", func(t *testing.T) {
		s := nodeFleet(2)
		first := mustPlan(t, set, s, day2).Start[0].Resource
		for _, z := range []rollout.Freeze{freeze(frozenOn(first)), freeze(frozenOn(first), finishing), freeze(frozenOn(first), frozenOf("kubelet-upgrade"))} {
			s.Freezes = []rollout.Freeze{z}
			plan := mustPlan(t, set, s, day2)
			waits := 0
			for wait := range plan.Waiting.All() {
				if wait.Resource == first {
					waits++
					if got := waitingText(wait); got != "bracket_not_due frozen" {
						t.Errorf("%v: %s waits: %s", z, wait.Deployment, got)
					}
				}
			}
			if len(started(plan)) != 0 || waits != 5 { // the other node's turn comes later
				t.Errorf("%v: starts %q, %d members wait", z, started(plan), waits)
			}
			later := mustPlan(t, set, s, day2.Add(time.Hour))
			if len(later.Start) != 1 || later.Start[0].Resource == first {
				t.Errorf("%v: in its turn the other node starts %q", z, started(later))
			}
		}
	})
	t.Run("by many people", func(t *testing.T) { // each of whom the members of a node hear once
		s := nodeFleet(1)
		want := "bracket_not_due"
		for k := range 40 {
			s.Freezes = append(s.Freezes, freeze(func(z *rollout.Freeze) { z.ID = fmt.Sprint("z", k) }))
			want += " frozen"
		}
		for wait := range mustPlan(t, set, s, day2).Waiting.All() {
			if got := waitingText(wait); got != want {
				t.Errorf("%s waits: %s", wait.Deployment, got)
			}
		}
	})
	t.Run("behind a job of the host's own", func(t *testing.T) {
		s := nodeFleet(1)
		s.Targets[0].Jobs = []rollout.Job{{Version: s.Targets[0].Current, Status: rollout.JobInProgress, CreatedAt: day1}}
		s.Freezes = []rollout.Freeze{freeze()}
		plan := mustPlan(t, set, s, day2)
		for wait := range plan.Waiting.All() {
			if got := waitingText(wait); got != "bracket_not_due frozen target_busy" {
				t.Errorf("%s waits: %s", wait.Deployment, got)
			}
			e, err := plan.Explain(wait.TargetID)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range e.Waits().Blockers() {
				if (b.Reason == rollout.ReasonFrozen) != (b.Kind == "freeze") {
					t.Errorf("%v is of kind %s", b.Verdict, b.Kind)
				}
			}
		}
	})
	t.Run("half way", func(t *testing.T) {
		s := halfWay(t, set, 1)
		now := day2.Add(time.Minute)
		s.Freezes = []rollout.Freeze{freeze()}
		plan := mustPlan(t, set, s, now.Add(48*time.Hour))
		if len(plan.Start) > 0 || len(plan.Stuck) > 0 || len(leases(plan.State)) != 1 {
			t.Errorf("starts %q, stuck %v, leases %v", started(plan), plan.Stuck, leases(plan.State))
		}
		if got := strings.Join(blockers(plan), "\n"); got != "node-0/containerd-upgrade@v1.7.3: bracket_waits_for_members\nnode-0/kubelet-upgrade@v1.29.2: bracket_waits_for_members\nnode-0/node-uncordon@uncordon: bracket_waits_for_members\nnode-0/os-patch@2026-03: frozen" {
			t.Errorf("waits\n%s", got)
		}
		s.Freezes[0].FinishBegun = true
		finished := s
		if got := runDown(t, set, &finished, now); !slices.Equal(got, restOfNode) {
			t.Errorf("what has begun is finished: %q", got)
		}
	})
	t.Run("stuck", func(t *testing.T) {
		timed := compile(t, strings.NewReplacer(`"deploymentBracket": {`, `"deploymentBracket": {"stuckAfterSeconds":600,`, `"resourceConcurrency": {`, `"resourceConcurrency": {"stuckAfterSeconds":600,`).Replace(nodeLifecycle(t)))
		between, undispatched, running := halfWay(t, timed, 1), nodeFleet(1), nodeFleet(1)
		undispatched.State = mustCommit(t, mustPlan(t, timed, undispatched, day2), day2)
		carryOut(t, &running, mustPlan(t, timed, running, day2), day2, rollout.JobInProgress)
		for _, row := range []struct {
			why   string
			s     rollout.Snapshot
			stuck []string
		}{
			{"between two members nobody is late", between, nil},
			{"a run that was saved may have been dispatched, and its job not been seen", undispatched, []string{"run"}},
			{"a job in progress, and its slot, as without a freeze", running, []string{"slot", "run"}},
		} {
			row.s.Freezes = []rollout.Freeze{freeze()}
			var got []string
			for _, stuck := range mustPlan(t, timed, row.s, day2.Add(48*time.Hour)).Stuck {
				got = append(got, map[bool]string{true: "run", false: "slot"}[stuck.Run != ""])
			}
			if !slices.Equal(got, row.stuck) {
				t.Errorf("%s: %q are stuck, want %q", row.why, got, row.stuck)
			}
		}
	})
	t.Run("thawed", func(t *testing.T) {
		s := halfWay(t, set, 1)
		s.Freezes = []rollout.Freeze{freeze()}
		plan := mustPlan(t, set, s, day2.Add(time.Minute))
		s.State = plan.State
		s.Freezes = nil
		if got := runDown(t, set, &s, day2.Add(time.Hour)); !slices.Equal(got, restOfNode) {
			t.Errorf("%q", got)
		}
	})
	t.Run("the other member of a layer goes on", func(t *testing.T) {
		s := halfWay(t, set, 1)
		plan := mustPlan(t, set, s, day2.Add(time.Minute))
		carryOut(t, &s, plan, day2.Add(time.Minute), rollout.JobSuccessful) // os-patch
		s.Freezes = []rollout.Freeze{freeze(frozenOf("kubelet-upgrade"))}
		plan = mustPlan(t, set, s, day2.Add(2*time.Minute))
		if got := started(plan); !slices.Equal(got, []string{"node-0/containerd-upgrade@v1.7.3"}) {
			t.Errorf("starts %q, waits %q", got, blockers(plan))
		}
	})
	t.Run("saved and not dispatched", func(t *testing.T) {
		s := nodeFleet(1)
		plan := mustPlan(t, set, s, day2)
		s.State = mustCommit(t, plan, day2) // and the host stops
		s.Freezes = []rollout.Freeze{freeze()}
		plan = mustPlan(t, set, s, day2.Add(time.Minute))
		if got := blockers(plan); len(plan.Start) > 0 || !slices.Contains(got, "node-0/node-drain@drain: frozen") {
			t.Errorf("starts %q, waits %q", started(plan), got)
		}
		s.Freezes = []rollout.Freeze{freeze(finishing)}
		if got := started(mustPlan(t, set, s, day2.Add(time.Minute))); !slices.Equal(got, []string{"node-0/node-drain@drain"}) {
			t.Errorf("what has begun is finished: %q", got)
		}
		for k := range s.Targets {
			if s.Targets[k].Deployment == "node-drain" { // a job of the host's own
				s.Targets[k].Jobs = []rollout.Job{{Version: "drain", Status: rollout.JobInProgress, CreatedAt: day1}}
			}
		}
		s.Freezes = []rollout.Freeze{freeze()}
		if got := blockers(mustPlan(t, set, s, day2.Add(time.Minute))); !slices.Contains(got, "node-0/node-drain@drain: frozen target_busy") {
			t.Errorf("behind a job of the host's own: waits %q", got)
		}
	})
	t.Run("while it collects", func(t *testing.T) {
		s := nodeFleet(3)
		now := s.Versions[len(s.Versions)-1].CreatedAt.Add(time.Minute)
		before := mustPlan(t, set, s, now)
		for _, z := range []rollout.Freeze{freeze(frozenOn("node-1")), freeze()} {
			s.Freezes = []rollout.Freeze{z}
			plan := mustPlan(t, set, s, now)
			frozen := 0
			for wait := range plan.Waiting.All() {
				if waitingText(wait) == "bracket_collecting frozen" && (z.Resource == "" || wait.Resource == z.Resource) {
					frozen++
				}
			}
			if want := before.Waiting.Len() / 3 * map[bool]int{true: 3, false: 1}[z.Resource == ""]; frozen != want || want == 0 || plan.Waiting.Len() != before.Waiting.Len() || !plan.Next.Equal(before.Next) {
				t.Errorf("%v: %d are frozen, want %d: %q", z, frozen, want, blockers(plan))
			}
		}
	})
}

func waitingText(w rollout.Waiting) string {
	var reasons []string
	for _, b := range w.Blockers {
		reasons = append(reasons, string(b.Reason))
	}
	return strings.Join(reasons, " ")
}

// TestFreezeOpensTheTurn: an execution that waits for the end of a freeze, and for nothing that needs
// more than time, is told when that is; beside a dependency it is not.
func TestFreezeOpensTheTurn(t *testing.T) {
	const bracketed = `{"deploymentBracket":{"deploymentSelector":"deployment.name == 'app'","readinessMode":"immediate","memberRoles":{}}}`
	for _, row := range []struct {
		why, more string
		thaws     []time.Time // of its freezes
		want      string
	}{
		{"one that ends", "", []time.Time{minute(9)}, "bracket_not_due until 2025-01-01T00:09:00Z, waits for the end of freeze 0"},
		{"two, of which the last counts", "", []time.Time{minute(9), minute(5)}, "bracket_not_due until 2025-01-01T00:09:00Z, waits for the end of freeze 0 and the end of freeze 1"},
		{"one that has no end", "", []time.Time{minute(9), {}}, "bracket_not_due, waits for the end of freeze 0 and the end of freeze 1"},
		{"two of one, and one of another member that has no end", "", []time.Time{{}, minute(9), minute(5)}, "bracket_not_due, waits for the end of freeze 0 and the end of freeze 1 and the end of freeze 2"},
		{"beside a dependency", `,{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'","appliesTo":"deployment.name == 'app'"}}`, []time.Time{minute(9)},
			"bracket_not_due, waits for a new version of base or base on r1 or the end of freeze 0"},
	} {
		s := fleet(1, "v1", map[string][]string{"app": {"v1", "v2"}, "base": {"v1"}})
		for k, at := range row.thaws {
			s.Freezes = append(s.Freezes, freeze(thaws(at), func(z *rollout.Freeze) { z.ID = fmt.Sprint(k) }))
		}
		plan := mustPlan(t, compile(t, policy(bracketed+row.more)), s, t0)
		if got := waitingOf(plan)[0].Blockers[0].String(); got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
	}
}

// TestFreezeOfARollbackInABracket: a member is taken back only when the freeze is over, unless what
// has begun is finished.
func TestFreezeOfARollbackInABracket(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"rollback_member","memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	s.Freezes = []rollout.Freeze{freeze()}
	plan := mustPlan(t, set, s, minute(1))
	if got := blockers(plan); len(plan.Start) > 0 || !slices.Equal(got, []string{"r1/api@v1: frozen"}) {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
	s.Freezes[0].FinishBegun = true
	if plan = mustPlan(t, set, s, minute(1)); !slices.Equal(started(plan), []string{"r1/api@v1"}) || plan.Start[0].Purpose != rollout.PurposeRollback {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestFreezeWithoutEffect: a freeze that holds nothing is reported until it expires, even before it
// begins, and says what there is not.
func TestFreezeWithoutEffect(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1"}, "db": {"v1"}})
	s.Environments = append(s.Environments, rollout.Environment{ID: "empty"})
	s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == "r2" && x.Deployment == "db" })
	named := func(id string, change ...func(*rollout.Freeze)) rollout.Freeze {
		z := freeze(change...)
		z.ID = id
		return z
	}
	s.Freezes = []rollout.Freeze{
		named("resource", frozenOn("r9")), named("environment", frozenIn("prd")), named("deployment", frozenOf("ap")),
		named("pair", frozenIn("empty")), named("target", frozenOn("r2"), frozenOf("db")), named("elsewhere", frozenOn("r1"), frozenIn("empty")),
		named("later", frozenOn("r9"), func(z *rollout.Freeze) { z.CreatedAt = minute(5) }), named("over", frozenOn("r9"), func(z *rollout.Freeze) { z.CreatedAt, z.ExpiresAt = minute(-9), t0 }),
		named("all"), named("one", frozenOn("r2"), frozenOf("api"), frozenIn("prod")),
	}
	var got []string
	for _, d := range mustPlan(t, compile(t, policy(noRule)), s, t0).Diagnostics {
		got = append(got, d.String())
	}
	want := []string{
		"freeze_without_effect: deployment: there is no such deployment (ap)",
		"freeze_without_effect: elsewhere: there is no such target (r1 / empty)",
		"freeze_without_effect: environment: there is no such environment (prd)",
		"freeze_without_effect: later: there is no such resource (r9)",
		"freeze_without_effect: pair: there is no such target (empty)",
		"freeze_without_effect: resource: there is no such resource (r9)",
		"freeze_without_effect: target: there is no such target (r2 / db)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
}

// TestFreezesHold: in worlds of all kinds nothing starts on a frozen target, but what finishes what
// has begun where that is allowed; who would have started says that it is frozen; and when the
// freeze is over everything is as if there had been none, unless a group could have been merged into
// an execution that is over by then.
func TestFreezesHold(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		s := w.s
		z := genFreeze(t, "freeze")
		z.CreatedAt, z.ExpiresAt = w.now, time.Time{}
		goesBack := func(start rollout.Start) bool { return start.Purpose == rollout.PurposeRollback }
		if slices.ContainsFunc(w.plan.Start, goesBack) && chance(t, "lets it go back", 50) { // few worlds have one
			z.Resource, z.Environment, z.Deployment, z.FinishBegun = "", "", "", true
		}
		s.Freezes = append(slices.Clone(w.s.Freezes), z)
		plan, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		started := byTarget(plan)
		for _, start := range plan.Start {
			if !freezesTarget(z, start.TargetID) {
				seen["beside it"]++
				continue
			}
			if !z.FinishBegun {
				t.Fatalf("%v is frozen\n%v", start, w)
			}
			target := find(s.Targets, func(x rollout.Target) rollout.TargetID { return x.TargetID }, start.TargetID)
			open := slices.ContainsFunc(executionsOf(&plan, target), func(x *bracket.Execution) bool { return x.Group == start.Group })
			tried := slices.ContainsFunc(target.Jobs, func(job rollout.Job) bool { return job.Version == start.Version })
			switch {
			case open:
				seen["finishes an execution"]++
			case start.Purpose == rollout.PurposeRollback:
				seen["goes back"]++
			case tried && !strings.HasPrefix(start.Group, "bracket/"):
				seen["tries again"]++
			default:
				t.Fatalf("%v is frozen, and begins\n%v", start, w)
			}
		}
		for _, start := range w.plan.Start {
			if !freezesTarget(z, start.TargetID) || started[start.TargetID] != "" {
				continue
			}
			wait, waits := plan.Waiting.Of(start.TargetID)
			if !waits || wait.Version == start.Version && !slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool {
				// A merge that would end a halt is not of the execution that halts: its freeze is
				// one of the events for which that waits.
				return v.Reason == rollout.ReasonFrozen || v.Reason == "bracket_failed_holding" && slices.Contains(v.On, rollout.Condition{Kind: rollout.OnFreeze, Freeze: z.ID})
			}) {
				t.Fatalf("%v would start, and waits %v\n%v", start, wait, w)
			}
			seen["held"]++
		}
		if slices.ContainsFunc(w.plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupMerged }) {
			seen["merged"]++
			return
		}
		over := w.s
		over.State = plan.State
		thawed, err := w.set.Plan(over, w.now)
		if err != nil {
			t.Fatal(err)
		}
		without := w.s
		without.State = w.plan.State
		settled, err := w.set.Plan(without, w.now)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := fmt.Sprint(byTarget(thawed)), fmt.Sprint(byTarget(settled)); a != b {
			t.Fatalf("thawed: starts %s, without the freeze %s\n%v", a, b, w)
		}
		seen["thawed"]++
	}, "held", "beside it", "finishes an execution", "goes back", "tries again", "thawed")
}
