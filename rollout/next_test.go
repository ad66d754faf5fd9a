package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestNextAfter: a host that has started what the plan offers and then sleeps misses nothing, even if
// none of the jobs is ever heard of again.
func TestNextAfter(t *testing.T) {
	t.Parallel()
	const (
		limit = `{"id":"L","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":3600}}`
		wide  = `{"id":"W","resourceConcurrency":{"groupSelector":"true","limit":2,"stuckAfterSeconds":1800}}`
		unit  = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"stuckAfterSeconds":600}}`
		curve = `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":900}}`
	)
	for _, row := range []struct {
		why         string
		rules       string
		next, after time.Time
	}{
		{"nothing happens by itself", `{"id":"L","resourceConcurrency":{"groupSelector":"true","limit":1}}`, time.Time{}, time.Time{}},
		{"the slot of what hangs is stuck some day", limit, time.Time{}, minute(60)},
		{"of several pools, the first to call it stuck counts", limit + "," + wide, time.Time{}, minute(30)},
		{"a member of a bracket is stuck, whatever its slot", unit + "," + limit, time.Time{}, minute(10)},
		{"the next turn comes before", limit + "," + curve, minute(15), minute(15)},
		{"the next turn comes after it", unit + "," + curve, minute(15), minute(10)},
	} {
		set := compile(t, policy(row.rules))
		s := fleet(2, "v1", map[string][]string{"web": {"v1", "v2"}})
		for i := range s.Versions {
			s.Versions[i].CreatedAt = t0.Add(time.Duration(i-1) * time.Hour)
		}
		plan := mustPlan(t, set, s, t0)
		if len(plan.Start) == 0 || !plan.Next.Equal(row.next) || !plan.NextAfter(plan.Start).Equal(row.after) || !plan.NextAfter(nil).Equal(row.next) {
			t.Errorf("%s: %d starts, next %v, after them %v, after none %v", row.why, len(plan.Start), plan.Next, plan.NextAfter(plan.Start), plan.NextAfter(nil))
		}
		if strange := plan.NextAfter([]rollout.Start{{Run: "mine"}}); !strange.Equal(row.next) {
			t.Errorf("%s: after a start that was not offered %v", row.why, strange)
		}
		decoded := rollout.Plan{Now: plan.Now, Start: plan.Start, Next: plan.Next}
		if at := decoded.NextAfter(decoded.Start); !at.Equal(t0) || !decoded.NextAfter(nil).Equal(row.next) {
			t.Errorf("%s: a copy knows nothing, and says %v", row.why, at)
		}
		planner := rollout.Planner{Policies: set, Store: new(bracket.MemoryStore), Clock: clock.NewFake(t0)}
		saved, err := planner.Plan(t.Context(), s)
		if err != nil || !saved.Next.Equal(row.after) {
			t.Errorf("%s: a planner says %v, %v", row.why, saved.Next, err)
		}
		planner.Choose = func(*rollout.Plan) []rollout.Start { return nil }
		planner.Store = new(bracket.MemoryStore)
		if saved, err = planner.Plan(t.Context(), s); err != nil || !saved.Next.Equal(row.next) {
			t.Errorf("%s: a planner that starts nothing says %v, %v", row.why, saved.Next, err)
		}
		s.State = mustCommit(t, plan, t0)
		for _, start := range plan.Start {
			add(&s, start, job(start, t0, rollout.JobInProgress))
		}
		if seen := mustPlan(t, set, s, t0); !seen.Next.Equal(row.after) {
			t.Errorf("%s: a plan that sees the starts says %v", row.why, seen.Next)
		}
	}
}

// TestNextAfterAnOlderVersion: while v3 waits for an approval, v2 starts, which was published an hour
// ago. Then v3 waits for the cooldown of v2 as well, which ends in an hour. Nobody knew of that
// instant before.
func TestNextAfterAnOlderVersion(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"versionSelector":{"selector":"version.tag != 'v3'"}},{"versionCooldown":{"intervalSeconds":7200}}`))
	s := fleet(1, "v1", map[string][]string{"web": {"v1", "v2", "v3"}})
	for i, hours := range []int{-9, -1, 0} {
		s.Versions[i].Tag, s.Versions[i].CreatedAt = s.Versions[i].ID, t0.Add(time.Duration(hours)*time.Hour)
	}
	plan := mustPlan(t, set, s, t0)
	if len(plan.Start) != 1 || plan.Start[0].Version != "v2" || !plan.Next.IsZero() || !plan.NextAfter(plan.Start).Equal(minute(60)) {
		t.Errorf("%v, next %v, after the start %v", plan.Start, plan.Next, plan.NextAfter(plan.Start))
	}
	s.Versions[2].CreatedAt = minute(300) // then it waits for the cooldown of no version
	if plan := mustPlan(t, set, s, t0); len(plan.Start) != 1 || !plan.Next.Equal(minute(300)) || !plan.NextAfter(plan.Start).Equal(minute(300)) {
		t.Errorf("the newer one is not published: %v, next %v, after the start %v", plan.Start, plan.Next, plan.NextAfter(plan.Start))
	}
	s.Versions = s.Versions[:2] // nobody waits for the cooldown
	if plan := mustPlan(t, set, s, t0); len(plan.Start) != 1 || !plan.NextAfter(plan.Start).IsZero() {
		t.Errorf("the newest: %v, after the start %v", plan.Start, plan.NextAfter(plan.Start))
	}
	s.Versions, s.Targets[0].Current = slices.Concat(s.Versions[1:], []rollout.Version{{ID: "v3", Tag: "v3", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0}}), ""
	if plan := mustPlan(t, set, s, t0); len(plan.Start) != 1 || plan.Start[0].Version != "v2" || !plan.NextAfter(plan.Start).Equal(minute(60)) {
		t.Errorf("the oldest: %v, after the start %v", plan.Start, plan.NextAfter(plan.Start))
	}
}

// TestNextAfterAStartBeyondALimit: what an override lets past takes its resource down, or opens a key,
// and then others may start there that nobody had let past. The plan that offers the start cannot offer
// them, since the host may leave it out. By its Next, a host that had carried it out slept through
// their turn.
func TestNextAfterAStartBeyondALimit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ why, limit, then string }{
		{"the other deployment of the resource", `"limit":1`, "r2 b2 slot_already_down"},
		{"the resource next to it, too, whose key is in use now", `"limit":2,"groupBy":"resource.metadata['zone']","maxActiveKeys":1`, "r2 b2 slot_already_down, r3 a2 slot_free, r3 b2 slot_already_down"},
	} {
		set := compile(t, policy(`{"id":"L","resourceConcurrency":{"groupSelector":"true",`+row.limit+`}}`))
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "a2"}, "b": {"v1", "b2"}})
		for i, zone := range []string{"north", "south", "south"} {
			s.Resources[i].Metadata = map[string]string{"zone": zone}
		}
		carryOut := func(plan rollout.Plan, now time.Time) {
			s.State = mustCommit(t, plan, now)
			for _, start := range plan.Start {
				add(&s, start, job(start, now, rollout.JobInProgress))
			}
		}
		carryOut(mustPlan(t, set, s, t0), t0)
		if full := mustPlan(t, set, s, t0); len(full.Start) > 0 || !full.Next.IsZero() {
			t.Fatalf("%s: %v", row.why, full)
		}
		s.Overrides = []rollout.Override{{ID: "o", Rule: "L", Version: "a2", Resource: "r2", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
		past := mustPlan(t, set, s, minute(1))
		if at := past.NextAfter(past.Start); len(past.Start) != 1 || past.Start[0].Reason != rollout.ReasonOverridden || !at.Equal(minute(1).Add(1)) || !past.NextAfter(nil).IsZero() {
			t.Errorf("%s: %v, after the start %v, after none %v", row.why, past.Start, at, past.NextAfter(nil))
		}
		carryOut(past, minute(1))
		var then []string
		after := mustPlan(t, set, s, minute(1))
		for _, start := range after.Start {
			then = append(then, start.Resource+" "+start.Version+" "+string(start.Reason))
		}
		if got := strings.Join(then, ", "); got != row.then || !after.NextAfter(after.Start).IsZero() {
			t.Errorf("%s: then %s start, want %s; after them %v", row.why, got, row.then, after.NextAfter(after.Start))
		}
	}
}

// TestNextAfterALateDispatch: a run was saved as started, and its host stopped before it dispatched. By
// the time it is dispatched it counts as stuck. Its job may hang, too, and is stuck later.
func TestNextAfterALateDispatch(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"stuckAfterSeconds":600}}`))
	s := fleet(1, "v1", map[string][]string{"web": {"v1", "v2"}})
	s.State = mustCommit(t, mustPlan(t, set, s, t0), t0)
	late := mustPlan(t, set, s, minute(15))
	if len(late.Start) != 1 || len(late.Stuck) != 1 || !late.Next.IsZero() || !late.NextAfter(late.Start).Equal(minute(25)) {
		t.Errorf("%v, next %v, after the start %v", late, late.Next, late.NextAfter(late.Start))
	}
	s.State = mustCommit(t, late, minute(15))
	add(&s, late.Start[0], job(late.Start[0], minute(15), rollout.JobInProgress))
	if seen := mustPlan(t, set, s, minute(15)); len(seen.Stuck) > 0 || !seen.Next.Equal(minute(25)) {
		t.Errorf("a plan that sees the start says %v, next %v", seen, seen.Next)
	}
}

// TestNextAfterAKeyComesBack: two zones were at work when the rule came to allow one. Whoever had begun
// in them goes on, and nobody begins beside leases of which no use is seen. Once a job is seen again,
// its zone is in use, and others begin there.
func TestNextAfterAKeyComesBack(t *testing.T) {
	t.Parallel()
	zones := func(rules string) *rollout.PolicySet {
		return compile(t, policy(`{"retry":{"maxRetries":3}},{"id":"Z","resourceConcurrency":{"groupSelector":"true","limit":2,"groupBy":"resource.metadata['zone']"`+rules+`}}`))
	}
	now := minute(5)
	for _, row := range []struct {
		why, rules string
		after      time.Time // all starts
		then       []string
	}{
		{"more zones have leases than may be active", `,"maxActiveKeys":1`, now.Add(1), []string{"r3/a@v2", "r4/a@v2"}},
		{"as many as may be", `,"maxActiveKeys":2`, time.Time{}, nil},
		{"no zone needs the others", ``, time.Time{}, nil},
	} {
		s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}})
		for i, zone := range []string{"north", "south", "north", "south"} {
			s.Resources[i].Metadata = map[string]string{"zone": zone}
		}
		first := mustPlan(t, zones(`,"maxActiveKeys":2`), s, t0)
		var err error
		if s.State, err = first.Commit(first.Start[:2], t0); err != nil {
			t.Fatal(err)
		}
		for _, start := range first.Start[:2] {
			add(&s, start, job(start, t0, rollout.JobFailure))
		}
		set := zones(row.rules)
		north := s
		north.Targets = slices.Clone(s.Targets)
		north.Targets[0].Jobs = []rollout.Job{job(first.Start[0], t0, rollout.JobInProgress)}
		if half := mustPlan(t, set, north, now); !slices.Equal(started(half)[:2], []string{"r2/a@v2", "r3/a@v2"}) || !half.NextAfter(half.Start[:1]).Equal(row.after) || !half.NextAfter(half.Start[1:2]).IsZero() {
			t.Errorf("%s, north is in use: starts %q, after r2 %v, after r3 %v", row.why, started(half), half.NextAfter(half.Start[:1]), half.NextAfter(half.Start[1:2]))
		}
		plan := mustPlan(t, set, s, now)
		if got := started(plan); !slices.Equal(got[:2], []string{"r1/a@v2", "r2/a@v2"}) || !plan.Next.IsZero() || !plan.NextAfter(plan.Start).Equal(row.after) || !plan.NextAfter(plan.Start[:1]).Equal(row.after) {
			t.Errorf("%s: starts %q, next %v, after all %v, after one %v", row.why, got, plan.Next, plan.NextAfter(plan.Start), plan.NextAfter(plan.Start[:1]))
		}
		s.State = mustCommit(t, plan, now)
		for _, start := range plan.Start {
			add(&s, start, job(start, now, rollout.JobInProgress))
		}
		seen := mustPlan(t, set, s, now)
		if got := started(seen); !slices.Equal(got, row.then) || !seen.NextAfter(seen.Start).IsZero() {
			t.Errorf("%s: then %q start, want %q; after them %v", row.why, got, row.then, seen.NextAfter(seen.Start))
		}
	}
}

// TestNextAfterWhatAHostSays: v2 starts while v3 waits for something else. A rule of the host wants an
// hour between two jobs of one target, so v3 waits for that as well once the job is seen. A world under
// such a rule blamed the planner for it.
func TestNextAfterWhatAHostSays(t *testing.T) {
	t.Parallel()
	var saw [][]rollout.Job // by the plan and by NextAfter
	var judged []string     // the versions
	set := compile(t, policy(`{"versionSelector":{"selector":"version.tag != 'v3'"}}`), rollout.WithRule(hostRule{"apart", func(c rollout.Candidate) rollout.Verdict {
		saw, judged = append(saw, c.Target.Jobs), append(judged, c.Version.ID)
		if len(c.Target.Jobs) == 0 || c.Now.Sub(c.Target.Jobs[0].CreatedAt) >= time.Hour {
			return rollout.Verdict{Status: rollout.Allowed}
		}
		return rollout.Verdict{Status: rollout.Pending, Reason: "too_soon", Until: c.Target.Jobs[0].CreatedAt.Add(time.Hour).In(time.FixedZone("", 3600))}
	}}))
	s := fleet(1, "v1", map[string][]string{"web": {"v1", "v2", "v3", "v4"}})
	s.Versions[3].CreatedAt = minute(600) // nobody knows of it
	old := rollout.Job{Run: "old", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-300), CompletedAt: minute(-299)}
	s.Targets[0].Jobs = append(make([]rollout.Job, 0, 2), old) // there is room for the job of the start
	plan := mustPlan(t, set, s, t0)
	asked := len(saw)
	if plan.NextAfter(plan.Start); !slices.Equal(judged[asked:], []string{"v3"}) {
		t.Errorf("about %q it was asked: of what is to be seen, only v3 is newer than the start", judged[asked:])
	}
	if len(plan.Start) != 1 || plan.Start[0].Version != "v2" || !plan.Next.Equal(minute(600)) || !plan.NextAfter(plan.Start).Equal(minute(60)) || !plan.NextAfter(nil).Equal(minute(600)) {
		t.Errorf("%v, next %v, after the start %v", plan.Start, plan.Next, plan.NextAfter(plan.Start))
	}
	if at := plan.NextAfter(plan.Start); at.Location() != time.UTC {
		t.Errorf("after the start %v, in the zone of the rule: all instants of a plan are in UTC", at)
	}
	want := rollout.Job{Run: plan.Start[0].Run, Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0}
	if len(saw) == asked || !slices.Equal(saw[asked], []rollout.Job{want, old}) {
		t.Errorf("the rule saw %v", saw[asked:])
	}
	if !slices.Equal(s.Targets[0].Jobs, []rollout.Job{old}) {
		t.Errorf("the job of the start is in the snapshot, which is the host's: %v", s.Targets[0].Jobs)
	}
	edited := slices.Clone(plan.Start)
	edited[0].Resource = "nowhere"
	strange := plan
	if strange.Start = edited; !strange.NextAfter(edited).Equal(minute(600)) {
		t.Errorf("after a start on a resource that does not exist %v", strange.NextAfter(edited))
	}
	edited[0].Resource, edited[0].Version = plan.Start[0].Resource, "v9"
	if !strange.NextAfter(edited).Equal(minute(60)) {
		t.Errorf("after a start of a version that does not exist, of which all others may be newer, %v", strange.NextAfter(edited))
	}
	older := s
	older.Versions = s.Versions[:3]
	if all := mustPlan(t, set, older, t0); !all.NextAfter(all.Start).Equal(minute(60)) {
		t.Errorf("if v3 is the newest: after the start %v", all.NextAfter(all.Start))
	}
	s.State = mustCommit(t, plan, t0)
	add(&s, plan.Start[0], want)
	if seen := mustPlan(t, set, s, t0); !seen.Next.Equal(minute(60)) {
		t.Errorf("a plan that sees the start says %v", seen.Next)
	}
}

// TestNextAfterAVersionThatIsGone: a bracket carries out what it has locked, also if the host has
// deleted the version since. No cooldown counts from a version of which only the id is known; NextAfter
// looked for it among those of the snapshot and panicked, and so did every Planner.
func TestNextAfterAVersionThatIsGone(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}},
		{"versionCooldown":{"intervalSeconds":7200}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"v1", "v2"}, "os": {"v1", "v2"}})
	for i := range s.Versions {
		s.Versions[i].CreatedAt = t0.Add(time.Duration(i%2-1) * 24 * time.Hour)
	}
	drain := mustPlan(t, set, s, t0)
	s.State = mustCommit(t, drain, t0)
	add(&s, drain.Start[0], job(drain.Start[0], t0, rollout.JobSuccessful))
	s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "os" && v.ID == "v2" })
	os := mustPlan(t, set, s, minute(5))
	if len(os.Start) != 1 || os.Start[0].Version != "v2" || !os.NextAfter(os.Start).Equal(os.Next) {
		t.Errorf("%v, next %v, after the start %v", os.Start, os.Next, os.NextAfter(os.Start))
	}
}

// TestNextAfterAnEditedStart: a plan is plain data, and its starts are the caller's. NextAfter panicked
// if one of them named a target or a version that the snapshot does not have.
func TestNextAfterAnEditedStart(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"versionSelector":{"selector":"version.id != 'v3'"}},{"versionCooldown":{"intervalSeconds":7200}}`))
	s := fleet(1, "v1", map[string][]string{"web": {"v1", "v2", "v3"}})
	for i, hours := range []int{-9, -1, 0} {
		s.Versions[i].CreatedAt = t0.Add(time.Duration(hours) * time.Hour)
	}
	for _, row := range []struct {
		why  string
		edit func(*rollout.Start)
		want time.Time
	}{
		{"as it was offered", func(*rollout.Start) {}, minute(60)},
		{"on a resource that does not exist", func(s *rollout.Start) { s.Resource = "nowhere" }, time.Time{}},
		{"of a deployment that does not exist", func(s *rollout.Start) { s.Deployment = "nothing" }, time.Time{}},
		{"of a version that does not exist", func(s *rollout.Start) { s.Version = "v9" }, time.Time{}},
		{"of no version", func(s *rollout.Start) { s.Version = "" }, time.Time{}},
		{"that claims a pool that does not exist", func(s *rollout.Start) { s.Claims = []rollout.Claim{{Pool: "none"}} }, minute(60)},
	} {
		plan := mustPlan(t, set, s, t0)
		row.edit(&plan.Start[0])
		if next := plan.NextAfter(plan.Start); !next.Equal(row.want) {
			t.Errorf("a start %s: %v, want %v", row.why, next, row.want)
		}
	}
}

// TestNextAfterAMemberWithoutPool: the lease of an execution is for all of its members. It may be stuck
// while one runs that needs no pool.
func TestNextAfterAMemberWithoutPool(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"unit","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}]},
		{"name":"drains","selector":"deployment.name == 'drain'","rules":[{"id":"L","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":3600}}]}]`)
	s := fleet(1, "v1", map[string][]string{"drain": {"v1", "v2"}, "os": {"v1", "v2"}})
	for i := range s.Versions {
		s.Versions[i].CreatedAt = t0
	}
	drain := mustPlan(t, set, s, t0)
	s.State = mustCommit(t, drain, t0)
	add(&s, drain.Start[0], job(drain.Start[0], t0, rollout.JobSuccessful))
	s.Targets[0].Jobs[0].CompletedAt = minute(5)
	os := mustPlan(t, set, s, minute(5))
	if len(os.Start) != 1 || os.Start[0].Deployment != "os" || len(os.Start[0].Claims) != 0 || !os.Next.IsZero() || !os.NextAfter(os.Start).Equal(minute(65)) {
		t.Errorf("%v, next %v, after the start %v", os.Start, os.Next, os.NextAfter(os.Start))
	}
}

// TestNextAfterAnySubset: whichever starts are carried out, no plan that sees them would have its
// host look earlier.
func TestNextAfterAnySubset(t *testing.T) {
	set := compile(t, policy(strings.Join([]string{
		`{"id":"L","resourceConcurrency":{"groupSelector":"resource.name != 'r2'","limit":2,"stuckAfterSeconds":3600}}`,
		`{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name != 'web'","readinessMode":"immediate","memberRoles":{},"stuckAfterSeconds":5400}}`,
		`{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":4000}}`,
	}, ",")))
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "web": {"v1", "v2"}})
		now := t0
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			for i := range s.Targets {
				if target := &s.Targets[i]; len(target.Jobs) > 0 && !target.Jobs[0].Status.Terminal() && rapid.Bool().Draw(t, "ends") {
					target.Jobs = slices.Clone(target.Jobs)
					target.Jobs[0].Status, target.Jobs[0].CompletedAt, target.Current = rollout.JobSuccessful, now, target.Jobs[0].Version
				}
			}
			plan, err := set.Plan(s, now)
			if err != nil {
				t.Fatal(err)
			}
			var some []rollout.Start
			for _, start := range plan.Start {
				if rapid.Bool().Draw(t, "starts") {
					some = append(some, start)
				}
			}
			next := plan.NextAfter(some)
			if s.State, err = plan.Commit(some, now); err != nil {
				t.Fatal(err)
			}
			for _, start := range some {
				add(&s, start, job(start, now, rollout.JobInProgress))
			}
			switch {
			case len(some) == 0:
				seen["none"]++
			case len(some) < len(plan.Start):
				seen["some"]++
			default:
				seen["all"]++
			}
			if len(some) > 0 && !next.Equal(plan.Next) {
				seen["earlier than Next"]++
			}
			again, err := set.Plan(s, now)
			if err != nil {
				t.Fatal(err)
			}
			if !again.Next.IsZero() && (next.IsZero() || again.Next.Before(next)) {
				t.Fatalf("after %v the host looks at %v, and should at %v", some, next, again.Next)
			}
		}
	}, "none", "some", "all", "earlier than Next")
}

// TestNextAfterAHookThatIsOutdatedLater: nothing depends on when the target of a hook becomes outdated
// while its job is in progress. A rule that asked whether the version had failed there for good had the
// plan after the start wake for it, and the plan that started the job did not know of that.
func TestNextAfterAHookThatIsOutdatedLater(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"nodes","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}]},
		{"name":"gate","selector":"environment.name == 'prod'","rules":[{"id":"P","environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'"}}]}]`)
	s := fleet(1, "v1", map[string][]string{"drain": {"v1", "v2"}, "os": {"v1", "v2"}})
	s.Environments = append(s.Environments, rollout.Environment{ID: "staging", Name: "staging"})
	for _, target := range s.Targets[:2] {
		target.Environment = "staging"
		s.Targets = append(s.Targets, target)
	}
	for i := range s.Versions {
		s.Versions[i].CreatedAt = t0
	}
	s.Targets[2].OutdatedAt = minute(5)
	plan := mustPlan(t, set, s, t0)
	if len(plan.Start) != 1 || plan.Start[0].TargetID != s.Targets[2].TargetID {
		t.Fatalf("starts %v", plan.Start)
	}
	next := plan.NextAfter(plan.Start)
	s.State = mustCommit(t, plan, t0)
	add(&s, plan.Start[0], job(plan.Start[0], t0, rollout.JobInProgress))
	if again := mustPlan(t, set, s, t0); !next.IsZero() || !again.Next.IsZero() {
		t.Errorf("the host is to look at %v, and with the job in sight at %v", next, again.Next)
	}
}
