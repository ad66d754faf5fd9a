package rollout_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestI4NeverCleared: every target that has a version, or has begun one, keeps it whatever rules
// say: a plan only ever starts, waits or keeps, and what it starts is not older, but for a way back
// to what succeeded there.
func TestI4NeverCleared(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 0, nil, func(t *rapid.T, w *world) {
		r := &reference{s: &w.s}
		starts := map[rollout.TargetID]rollout.Start{}
		for _, start := range w.plan.Start {
			starts[start.TargetID] = start
		}
		for _, target := range w.s.Targets {
			versions := r.versions(target.Deployment)
			_, floor := r.floor(target)
			start, is := starts[target.TargetID]
			switch {
			case floor == "":
				seen["nothing yet"]++
			case !is:
				seen["kept or waits"]++
			case start.Purpose == rollout.PurposeRollback:
				succeeded := start.Version == target.Current || slices.ContainsFunc(target.Jobs, func(j rollout.Job) bool { return j.Version == start.Version && j.Status == rollout.JobSuccessful })
				if !succeeded || place(versions, start.Version) >= place(versions, floor) {
					t.Fatalf("%s goes back to what never succeeded there\n%v", start.Run, w)
				}
				seen["back"]++
			case place(versions, start.Version) < place(versions, floor) && !repeatsWayBack(target, start.Version, floor, versions):
				t.Fatalf("%s is older than %s\n%v", start.Run, floor, w)
			default:
				seen["forward"]++
			}
		}
	}, "nothing yet", "kept or waits", "forward")
}

// repeatsWayBack reports whether a version that a target went back to, as it has succeeded there, has
// to run again: the target is outdated, or its newest job failed and is a further one of the version, or
// one by hand of another version that is older than the one from which the target went back.
func repeatsWayBack(target rollout.Target, version, from string, versions []rollout.Version) bool {
	succeeded, newest := false, rollout.Job{}
	for _, j := range target.Jobs {
		succeeded = succeeded || j.Version == version && j.Status == rollout.JobSuccessful
		if j.CreatedAt.After(newest.CreatedAt) { // of several of one instant the one that is listed first
			newest = j
		}
	}
	return succeeded && (!target.OutdatedAt.IsZero() || (newest.Version == version || place(versions, newest.Version) < place(versions, from)) && newest.Status.Terminal() && newest.Status != rollout.JobSuccessful)
}

// TestI5AllowedStaysAllowed: capacity aside, what may start may still start later, as long as
// nothing happens, nothing newer takes its place, no window shuts, no override ends, no success grows
// too old, and no job whose end was recorded for later fails: that may exceed a failure budget.
func TestI5AllowedStaysAllowed(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	steady := func(list []rollout.Policy) []rollout.Policy {
		list = without(rollout.KindConcurrency, rollout.KindWindow)(list)
		for i := range list {
			for k := range list[i].Rules {
				if p := list[i].Rules[k].EnvironmentProgression; p != nil {
					p.MaximumAgeHours = nil
				}
			}
		}
		return list
	}
	checkWorlds(t, env, seen, 0, steady, func(t *rapid.T, w *world) {
		s := cloneFleet(w.s)
		s.State = w.plan.State
		for k := range s.Overrides {
			s.Overrides[k].ExpiresAt = time.Time{}
		}
		s.Freezes = slices.DeleteFunc(s.Freezes, func(z rollout.Freeze) bool { return z.CreatedAt.After(w.now) })
		if slices.ContainsFunc(w.policies, func(p rollout.Policy) bool {
			return slices.ContainsFunc(p.Rules, func(r rollout.Rule) bool { return r.FailureBudget != nil })
		}) {
			seen["under a budget"]++
			endAll(s.Targets, w.now)
		}
		plan, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(s.Overrides, func(o rollout.Override) bool { return o.CreatedAt.After(w.now) }) { // one of a rollback rule, once it is in force, takes nobody back
			plan.Start = slices.DeleteFunc(plan.Start, func(start rollout.Start) bool { return start.Purpose == rollout.PurposeRollback })
		}
		before := byTarget(plan)
		later, err := w.set.Plan(s, w.now.Add(time.Duration(between(t, "later", 1, 12))*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		after := byTarget(later)
		for id, version := range before {
			if after[id] == "" {
				t.Fatalf("%v may start %s, and later waits: %q\n%v", id, version, blockers(later), w)
			}
			seen["still"]++
		}
		if len(after) > len(before) {
			seen["more"]++
		}
	}, "still", "more", "under a budget")
}

// endAll lets every job that is recorded as ended have ended by an instant.
func endAll(targets []rollout.Target, at time.Time) {
	for k := range targets {
		for n := range targets[k].Jobs {
			if job := &targets[k].Jobs[n]; job.Status.Terminal() && (job.CreatedAt.After(at) || job.CompletedAt.After(at)) {
				job.CompletedAt = at
			}
		}
	}
}

// openTime counts minute by minute how long it is open between two instants.
func (o openings) openTime(from, to time.Time) (sum time.Duration) {
	for m := from; m.Before(to); m = nextMinute(m) {
		if end := nextMinute(m); o.open(m) {
			if end.After(to) {
				end = to
			}
			sum += end.Sub(m)
		}
	}
	return sum
}

// TestI8I9DueTimes: in the open time of windows due times are monotone, lie at open instants not
// before the start, and are as far apart as the offsets of their positions.
func TestI8I9DueTimes(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		for range 4 {
			g := genGradual(t, rollout.OrderByTarget)
			n := between(t, "targets", 1, 7)
			s := fleet(n, "v1", map[string][]string{"api": {"v1", "v2"}})
			start := minute(between(t, "start", -6, 6)).Add(time.Duration(between(t, "seconds", 0, 59)) * time.Second)
			for k := range s.Versions {
				s.Versions[k].CreatedAt = start.Add(time.Duration(k-1) * time.Hour)
			}
			p := rollout.Policy{Name: "p", Selector: "true", Rules: []rollout.Rule{{GradualRollout: g}}}
			q := rollout.Policy{Name: "q", Selector: "true", Rules: []rollout.Rule{{DeploymentWindow: genWindow(t)}}}
			for range between(t, "more windows", 0, 2) {
				p.Rules = append(p.Rules, rollout.Rule{DeploymentWindow: genWindow(t)})
			}
			policies := []rollout.Policy{p, q}
			set, err := rollout.Compile(policies, env)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := set.Plan(s, start)
			if err != nil {
				t.Fatal(err)
			}
			r := &reference{policies: policies, s: &s, now: start}
			open := r.openings(s.Targets[0], "v2", append(r.rulesOf(0), r.rulesOf(1)...))
			dues := make([]time.Time, n)
			never := n
			placed := 0
			for wait := range plan.Waiting.All() {
				for _, b := range wait.Blockers {
					switch b.Reason {
					case rollout.ReasonRolloutNotDue:
						dues[b.Data.Position] = b.Until
						placed++
					case rollout.ReasonRolloutOverflow:
						never = min(never, b.Data.Position)
					}
				}
			}
			if never < n {
				seen["never"]++
				continue
			}
			for k := range dues { // those that are not said to be later are due at the start
				if dues[k].IsZero() {
					dues[k] = start
				}
			}
			for k := range dues {
				offset, err := g.Offset(k, n)
				if err != nil {
					t.Fatal(err)
				}
				if dues[k].Before(start) || k > 0 && dues[k].Before(dues[k-1]) || !open.open(dues[k]) {
					t.Fatalf("start %v, due %v: %+v", start, dues, policies)
				}
				if got := open.openTime(start, dues[k]); got != offset {
					t.Fatalf("position %d is due after %v of open time and not after %v: start %v, due %v", k, got, offset, start, dues)
				}
				if !dues[k].Equal(start.Add(offset)) {
					seen["moved by a window"]++
				} else {
					seen["as it would be"]++
				}
			}
		}
	}, "moved by a window", "as it would be", "never")
}

// TestExplanationAgrees: what a plan does and what its explanations say is the same, for every
// target, with and without brackets.
func TestExplanationAgrees(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		starts := byTarget(w.plan)
		waiting := map[rollout.TargetID]rollout.Waiting{}
		for wait := range w.plan.Waiting.All() {
			waiting[wait.TargetID] = wait
		}
		before := text(t, w.plan)
		for _, target := range w.s.Targets {
			e, err := w.plan.Explain(target.TargetID)
			if slices.Contains(w.s.DeletedResources, target.Resource) {
				if err == nil {
					t.Fatalf("%v is gone and explained", target.TargetID)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			fail := func(format string, args ...any) {
				t.Fatalf("%s\nstarts %q, waits %+v\n%s\n%v", fmt.Sprintf(format, args...), starts[target.TargetID], waiting[target.TargetID], e, w)
			}
			explained := ""
			for _, v := range e.Versions {
				if slices.ContainsFunc(v.Rules, func(r rollout.RuleVerdict) bool { return r.Reason == rollout.ReasonOverridden }) {
					seen["overridden"]++
				}
				if v.Prospect == rollout.ProspectStarts {
					if explained != "" {
						fail("two versions start")
					}
					explained = v.Version
				}
			}
			if explained != starts[target.TargetID] {
				fail("explained as starting: %q", explained)
			}
			if explained != "" {
				seen["starts"]++
			}
			wait, is := waiting[target.TargetID]
			own := e.Waits()
			switch {
			case is && wait.Version == "" && (own == nil || !own.Listed):
				if len(e.Held) == 0 {
					fail("held, and not explained so")
				}
				seen["held"]++
				continue
			case len(e.Held) > 0:
				continue // a member that is held may wait for its bracket first
			case !is && explained != "":
				continue // older ones were not asked by the plan
			case !is && own != nil && !slices.ContainsFunc(own.Rules, func(r rollout.RuleVerdict) bool { return r.Reason == rollout.ReasonTargetBusy }): // it may be on its way back
				fail("explained as waiting, and the plan does not list it")
			case !is:
				seen["not listed"]++
				continue
			case own == nil:
				fail("not explained as waiting")
			case own.Version != wait.Version:
				fail("explained as waiting for %s", own.Version)
			}
			want, got := map[string]bool{}, map[string]bool{}
			for _, b := range wait.Blockers {
				want[fmt.Sprint(b.Reason, " ", b.Rule, " ", b.Until)] = true
			}
			for _, b := range own.Blockers() {
				got[fmt.Sprint(b.Reason, " ", b.Rule, " ", b.Until)] = true
			}
			if fmt.Sprint(slices.Sorted(maps.Keys(want))) != fmt.Sprint(slices.Sorted(maps.Keys(got))) {
				fail("blockers %q, explained %q", slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
			}
			seen["waits"]++
		}
		if text(t, w.plan) != before {
			t.Fatal("an explanation changes the plan")
		}
	}, "starts", "waits", "held", "overridden", "start alone", "start in bracket")
}

// TestExplanationOfWhatIsInProgress: what an explanation says is in progress are exactly the active
// jobs of the target, and what it says is stuck is in the plan, and concerns the target.
func TestExplanationOfWhatIsInProgress(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, soonStuck, func(t *rapid.T, w *world) {
		for _, target := range w.s.Targets {
			if slices.Contains(w.s.DeletedResources, target.Resource) {
				continue
			}
			e, err := w.plan.Explain(target.TargetID)
			if err != nil {
				t.Fatal(err)
			}
			open := executionsOf(&w.plan, target)
			if e.Group != "" && !slices.ContainsFunc(open, func(x *bracket.Execution) bool { return x.Group == e.Group }) || e.Group == "" && len(open) > 0 {
				t.Fatalf("its execution is that of %q\n%s\n%v", e.Group, e, w)
			} else if len(open) > 0 {
				seen["an execution is open"]++
			}
			jobs, stuck := activeJobs(target), stuckOn(&w.plan, target)
			newestFirst := slices.IsSortedFunc(e.Jobs, func(a, b rollout.Job) int { return b.CreatedAt.Compare(a.CreatedAt) })
			if told := slices.SortedFunc(slices.Values(e.Jobs), byText); !newestFirst || !slices.Equal(told, jobs) || !slices.Equal(e.Stuck, stuck) {
				t.Fatalf("want jobs %+v, and of %v are stuck %v\n%s\n%v", jobs, w.plan.Stuck, stuck, e, w)
			}
			if len(jobs) > 0 {
				seen["in progress"]++
			}
			for _, s := range stuck {
				if s.Run != "" {
					seen["a run is stuck"]++
				} else if strings.HasPrefix(s.Group, "target/") {
					seen["a slot is stuck"]++
				} else {
					seen["a slot of an execution is stuck"]++
				}
			}
		}
	}, "an execution is open", "in progress", "a run is stuck", "a slot is stuck", "a slot of an execution is stuck")
}

// soonStuck lets the runs of brackets count as stuck after a minute, and the slots of a pool that
// covers everything.
func soonStuck(policies []rollout.Policy) []rollout.Policy {
	for _, p := range policies {
		for k := range p.Rules {
			if rule := p.Rules[k].DeploymentBracket; rule != nil {
				rule.StuckAfterSeconds = 60
			}
		}
	}
	pool := rollout.Rule{ID: "all-0", ResourceConcurrency: &concurrency.Rule{GroupSelector: "true", Limit: concurrency.Percent(100), StuckAfterSeconds: 60}}
	return append(policies, rollout.Policy{Name: "all", Selector: "true", Rules: []rollout.Rule{pool}})
}

func byText(a, b rollout.Job) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }

// activeJobs returns the jobs of a target that have not ended, in an order that is no matter.
func activeJobs(target rollout.Target) (active []rollout.Job) {
	for _, job := range target.Jobs {
		if !job.Status.Terminal() {
			active = append(active, job)
		}
	}
	slices.SortFunc(active, byText)
	return active
}

// executionsOf returns the open executions of a plan's state of which a target is a member.
func executionsOf(plan *rollout.Plan, target rollout.Target) (open []*bracket.Execution) {
	for _, record := range plan.State.Executions {
		x := record.Open
		if x != nil && record.Resource == target.Resource && x.Environment == target.Environment &&
			slices.ContainsFunc(x.Members, func(m bracket.ExecutionMember) bool { return m.Deployment == target.Deployment }) {
			open = append(open, x)
		}
	}
	return open
}

// stuckOn returns which of the stuck runs and slots of a plan are a target's. The ids of the worlds
// that are drawn have no slashes.
func stuckOn(plan *rollout.Plan, target rollout.Target) (list []rollout.Stuck) {
	for _, s := range plan.Stuck {
		_, environment, _, bracketed := bracket.ParseGroupID(s.Group)
		own, runs := s.Resource == target.Resource, strings.ReplaceAll(s.Group, "/", "%2F")+"/" // what the runs of the group begin with
		switch {
		case s.Run != "":
			own = own && environment == target.Environment && strings.HasPrefix(s.Run, runs+target.Resource+"/"+target.Deployment+"/")
		case !bracketed:
			own = own && s.Group == "target/"+target.Environment+"/"+target.Deployment
		default:
			own = own && (slices.ContainsFunc(activeJobs(target), func(job rollout.Job) bool { return strings.HasPrefix(job.Run, runs) }) ||
				slices.ContainsFunc(executionsOf(plan, target), func(x *bracket.Execution) bool {
					return x.Group == s.Group || slices.Contains(x.Merged, s.Group)
				}))
		}
		if own {
			list = append(list, s)
		}
	}
	return list
}

// TestReasonsHaveOneStatus: whoever branches on a code knows the status, which is the documented
// one, in plans and in explanations.
func TestReasonsHaveOneStatus(t *testing.T) {
	source, err := os.ReadFile("verdict.go")
	if err != nil {
		t.Fatal(err)
	}
	statuses := map[rollout.Reason]rollout.VerdictStatus{}
	for _, m := range regexp.MustCompile(`(?m)^\tReason\w+ +Reason = "(\w+)" +// (denied|pending): `).FindAllStringSubmatch(string(source), -1) {
		statuses[rollout.Reason(m[1])] = rollout.VerdictStatus(m[2])
	}
	if len(statuses) < 25 {
		t.Fatalf("only %d reasons", len(statuses))
	}
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		check := func(id rollout.TargetID, v rollout.Verdict) {
			if want := statuses[v.Reason]; want != "" && v.Status != want {
				t.Fatalf("%v: %v is %s, want %s\n%v", id, v, v.Status, want, w)
			}
		}
		for wait := range w.plan.Waiting.All() {
			for _, v := range wait.Blockers {
				check(wait.TargetID, v)
			}
		}
		for _, target := range w.s.Targets {
			e, err := w.plan.Explain(target.TargetID)
			if slices.Contains(w.s.DeletedResources, target.Resource) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range e.Held {
				check(e.TargetID, v)
			}
			for _, version := range e.Versions {
				if version.Prospect == rollout.ProspectFuture {
					seen["future"]++
				}
				for _, r := range version.Rules {
					check(e.TargetID, r.Verdict)
				}
			}
		}
	}, "future", "selector_error", "approval_missing", "progression_waiting", "cooldown", "retry_backoff", "rollback_triggered", "start alone", "start in bracket")
}

// TestOverridesOnlyHelp: capacity and rollback aside, an override lets start and holds nobody up.
func TestOverridesOnlyHelp(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 0, without(rollout.KindConcurrency, rollout.KindRollback), func(t *rapid.T, w *world) {
		s := w.s
		s.Overrides = append(slices.Clone(s.Overrides), rollout.Override{
			ID: "added", Rule: oneOf(t, "rule", append(idsOf(w.policies), "host")...), Version: oneOf(t, "version", "v1", "v2", "v3"), CreatedAt: minute(between(t, "created", -6, -2)), CreatedBy: "ann", Reason: "urgent",
			Resource: oneOf(t, "resource", "", "r1", "r2"),
		})
		plan, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		before, after := byTarget(w.plan), byTarget(plan)
		for id := range before {
			if after[id] == "" {
				t.Fatalf("%v waits because of the override %+v: %q\n%v", id, s.Overrides[len(s.Overrides)-1], blockers(plan), w)
			}
		}
		if len(after) > len(before) {
			seen["more"]++
		} else {
			seen["as many"]++
		}
	}, "more", "as many")
}

// TestOverrideWithoutEffectHasNone: an override is told to have no effect exactly if its rule governs no
// target that it is for. Then nothing is ever said to be due to it, and without it the plan is the
// same.
func TestOverrideWithoutEffectHasNone(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		s := w.s
		s.Overrides = slices.Clone(s.Overrides)
		for k := range between(t, "more", 1, 4) {
			o := rollout.Override{
				ID: fmt.Sprint("more", k), Rule: oneOf(t, "rule", append(idsOf(w.policies), "host")...), Version: oneOf(t, "version", "v1", "v2", "v2", "v3"), CreatedAt: minute(between(t, "created", -8, 10)), CreatedBy: "ann", Reason: "urgent",
				Environment: oneOf(t, "environment", "", "", "prod", "staging", "qa"), Deployment: oneOf(t, "deployment", "", "", "a", "b", "c"), Resource: oneOf(t, "resource", "", "", "r1", "r2", "r5"),
			}
			if chance(t, "expires", 30) {
				o.ExpiresAt = o.CreatedAt.Add(time.Duration(between(t, "after", 1, 9)) * time.Minute)
			}
			s.Overrides = append(s.Overrides, o)
		}
		plan, planned := planIfAny(t, w.set, s, w.now)
		if !planned {
			return
		}
		told := map[string]string{}
		for _, d := range plan.Diagnostics {
			if d.Code == rollout.DiagnosticOverrideWithoutEffect {
				id, why, _ := strings.Cut(d.Detail, ": ")
				told[id] = why
			}
		}
		there := s
		there.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(t rollout.Target) bool { return slices.Contains(s.DeletedResources, t.Resource) })
		r := newReference(w.policies, env)
		r.s, r.custom = &there, len(w.options) > 0
		expire := false // some of those that are told
		for _, o := range s.Overrides {
			why, is := told[o.ID]
			expired := !o.ExpiresAt.IsZero() && !w.now.Before(o.ExpiresAt)
			if is != (!expired && !r.lets(o)) {
				t.Fatalf("%+v is told: %t, %q\n%v", o, is, why, w)
			}
			if is {
				why, _, _ = strings.Cut(why, "\"")
				seen[why]++
				expire = expire || !o.ExpiresAt.IsZero()
			}
			if is && w.now.Before(o.CreatedAt) {
				seen["not active yet"]++
			}
		}
		for _, target := range there.Targets {
			e, err := plan.Explain(target.TargetID)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range e.Versions {
				for _, rule := range v.Rules {
					if rule.Reason != rollout.ReasonOverridden || rule.Data == nil { // of another rule that shares the pool, or for another member
						continue
					}
					if why, is := told[rule.Data.Detail]; is {
						t.Fatalf("%s is let past %s by %s, of which is told: %s\n%v", target.TargetID, rule.Rule, rule.Data.Detail, why, w)
					}
					seen["let past"]++
				}
			}
		}
		s.Overrides = slices.DeleteFunc(slices.Clone(s.Overrides), func(o rollout.Override) bool { _, is := told[o.ID]; return is })
		without, err := w.set.Plan(s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		if !expire && !plan.Next.Equal(without.Next) {
			t.Fatalf("next is %v, and %v without %v\n%v", plan.Next, without.Next, told, w)
		}
		plan.Diagnostics = slices.DeleteFunc(slices.Clone(plan.Diagnostics), func(d rollout.Diagnostic) bool { return d.Code == rollout.DiagnosticOverrideWithoutEffect })
		without.Next = plan.Next // until one that is told expires
		if diff := cmp.Diff(text(t, without), text(t, plan)); diff != "" {
			t.Fatalf("without %v (-), and with them (+):\n%s\n%v", told, diff, w)
		}
		if len(told) == 0 {
			seen["all have an effect"]++
		}
	}, "the rule governs none of its targets", "there is no such target", "there is no such target whose deployment has a version ", "no version is let out of its bracket",
		"no enabled policy has this rule", "not active yet", "let past", "overridden", "all have an effect")
}

// TestEveryKindInMinutes lets random worlds run on nothing but Next and the ends of jobs: they come
// to rest, and Next never stands still.
func TestEveryKindInMinutes(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 30, nil, func(t *rapid.T, w *world) {
		s := cloneFleet(w.s)
		now := clock.NewFake(w.now)
		end := w.now.Add(12 * time.Hour)
		for round := 0; now.Now().Before(end); round++ {
			if round > 1000 {
				t.Fatalf("after %d rounds, at %v, there is no end\n%v", round, now.Now(), w)
			}
			plan, planned := planIfAny(t, w.set, s, now.Now())
			if !planned {
				return
			}
			s.State = mustCommit(t, plan, now.Now())
			for _, start := range plan.Start {
				j := job(start, now.Now(), oneOf(t, "ends", rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobSuccessful, rollout.JobFailure))
				if j.Status == rollout.JobSuccessful && chance(t, "verified", 20) {
					j.Verification = oneOf(t, "as", rollout.VerificationPassed, rollout.VerificationFailed)
				}
				add(&s, start, j)
				seen["started"]++
			}
			switch {
			case len(plan.Start) > 0:
				now.Advance(time.Second)
			case plan.Next.IsZero():
				seen["at rest"]++
				return
			default:
				now.Set(plan.Next)
				seen["woken"]++
			}
		}
		seen["goes on"]++
	}, "started", "at rest", "woken")
}
