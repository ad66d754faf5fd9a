package rollout_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

func queueOf(t interface{ Fatal(...any) }, plan rollout.Plan) []rollout.Queued {
	queue, err := plan.Queue()
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

func explain(t interface{ Fatal(...any) }, plan rollout.Plan, id rollout.TargetID) rollout.Explanation {
	e, err := plan.Explain(id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestQueue: two of a to c want v2 on r1 to r3. One resource may be down at a time.
func TestQueue(t *testing.T) {
	t.Parallel()
	const (
		everybody = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
		two       = `,{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":2}}`
		zones     = `{"id":"Z","resourceConcurrency":{"groupSelector":"true","limit":9,"groupBy":"resource.id","maxActiveKeys":1}}`
		curve     = `,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"target"}}`
	)
	urgent := func(s *rollout.Snapshot) {
		for k := range s.Versions {
			if v := &s.Versions[k]; v.Deployment == "b" && v.ID == "v2" {
				v.Priority = 7
			}
		}
	}
	for _, row := range []struct {
		why, rules string
		edit       func(*rollout.Snapshot)
		want       []string
	}{
		{"nobody waits", `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":3}}`, nil, nil},
		{"by ids, if nothing else decides", oneAtATime, nil, []string{
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r2 / prod / b: deploy v2, due since 2025-01-01T00:00:00Z, for P",
			"r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / b: deploy v2, due since 2025-01-01T00:00:00Z, for P",
		}},
		{"those with a priority first", oneAtATime, urgent, []string{
			"r2 / prod / b: deploy v2, priority 7, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / b: deploy v2, priority 7, due since 2025-01-01T00:00:00Z, for P",
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P",
		}},
		{"what has failed goes back before them", oneAtATime + `,{"rollback":{"onJobStatuses":["failure"]}}`, func(s *rollout.Snapshot) {
			urgent(s)
			s.Targets[len(s.Targets)-1].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: minute(1)}}
			s.Unavailable = []string{"r1"} // nothing starts but there
		}, []string{
			"r3 / prod / b: rollback v1, due since 2025-01-01T00:01:00Z, for P",
			"r2 / prod / b: deploy v2, priority 7, due since 2025-01-01T00:00:00Z, for P",
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P",
		}},
		{"an execution stands once, however many of its members would begin", everybody + "," + oneAtATime, nil, []string{
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P",
		}},
		{"with the highest priority of what it brings", everybody + "," + oneAtATime, urgent, []string{
			"r2 / prod / a: deploy v2, priority 7, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / a: deploy v2, priority 7, due since 2025-01-01T00:00:00Z, for P",
		}},
		{"who waits for two pools", oneAtATime + two, func(s *rollout.Snapshot) { s.Unavailable = []string{"r1", "r2"} }, []string{
			"r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P and Q", "r3 / prod / b: deploy v2, due since 2025-01-01T00:00:00Z, for P and Q",
		}},
		{"its own pool, and not those that have to become idle", zones, nil, []string{
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for Z/r2", "r2 / prod / b: deploy v2, due since 2025-01-01T00:00:00Z, for Z/r2",
			"r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for Z/r3", "r3 / prod / b: deploy v2, due since 2025-01-01T00:00:00Z, for Z/r3",
		}},
		{"nobody whose turn has still to come, as that of one resource each", oneAtATime + curve, nil, []string{
			"r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P",
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:01:00Z, for P", "r3 / prod / b: deploy v2, due since 2025-01-01T00:01:00Z, for P",
		}},
		{"nobody who is frozen", oneAtATime, func(s *rollout.Snapshot) {
			s.Freezes = []rollout.Freeze{{ID: "z", Resource: "r2", CreatedAt: t0, CreatedBy: "ann", Reason: "INC-7"}}
		}, []string{
			"r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / b: deploy v2, due since 2025-01-01T00:00:00Z, for P",
		}},
		{"nobody whom an override lets past the limit", oneAtATime, func(s *rollout.Snapshot) {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Deployment: "b", Version: "v2", CreatedAt: t0, CreatedBy: "ann", Reason: "INC-7"}}
		}, []string{
			"r1 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P",
			"r2 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P", "r3 / prod / a: deploy v2, due since 2025-01-01T00:00:00Z, for P",
		}},
	} {
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, minute(1))
		var got []string
		for _, q := range queueOf(t, plan) {
			got = append(got, q.String())
		}
		if diff := gocmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s:\n%s", row.why, diff)
		}
	}
}

// TestQueueOfExecution: a and c would begin an execution on r2, after which z is needed no more. They
// have the same due time as b, which is no member, and a is asked before b and c after it: the
// execution has the place of a, although its bracket offers c first.
func TestQueueOfExecution(t *testing.T) {
	t.Parallel()
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "z": {"v1", "v2"}})
	s.Targets[len(s.Targets)-1].Current = "v2" // z on r2
	plan := mustPlan(t, compile(t, `[
		{"name":"members","selector":"deployment.id != 'b'","rules":[
			{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
			{"deploymentDependency":{"appliesTo":"deployment.id == 'a'","dependsOn":"deployment.id == 'z'"}}]},
		{"name":"all","selector":"true","rules":[`+oneAtATime+`]}]`), s, minute(1))
	var got []string
	for _, q := range queueOf(t, plan) {
		got = append(got, q.Deployment)
	}
	if diff := gocmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Error(diff)
	}
	for deployment, before := range map[string]int{"a": 0, "b": 1, "c": 0} {
		want := []rollout.QueuePlace{{Pool: "P", Before: before, Of: 2}}
		if got := explain(t, plan, rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: deployment}).Queue; !slices.Equal(got, want) {
			t.Errorf("%s is at %v", deployment, got)
		}
	}
}

// TestQueueHoldsWhatWaitsForCapacity: a start is in the queue if and only if pools alone refuse it,
// in the order in which slots are given, and every pool and explanation counts it.
func TestQueueHoldsWhatWaitsForCapacity(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 40, nil, func(t *rapid.T, w *world) {
		queue := queueOf(t, w.plan)
		if !slices.IsSortedFunc(queue, func(a, b rollout.Queued) int {
			back := func(q rollout.Queued) int { return strings.Compare(string(rollout.PurposeRollback), string(q.Purpose)) }
			return cmp.Or(cmp.Compare(back(a), back(b)), cmp.Compare(b.Priority, a.Priority), a.Due.Compare(b.Due))
		}) {
			t.Fatalf("not in turn: %v\n%v", queue, w)
		}
		per, at := map[string][]rollout.TargetID{}, map[rollout.TargetID]rollout.Queued{}
		for _, q := range queue {
			if _, again := at[q.TargetID]; again || len(q.Pools) == 0 || !slices.IsSorted(q.Pools) {
				t.Fatalf("%v is twice in the queue, or for no pool\n%v", q, w)
			}
			at[q.TargetID] = q
			for _, key := range q.Pools {
				per[key] = append(per[key], q.TargetID)
			}
			e := explain(t, w.plan, q.TargetID)
			k := slices.IndexFunc(e.Versions, func(v rollout.VersionExplanation) bool { return v.Version == q.Version })
			if k < 0 || e.Versions[k].Prospect != rollout.ProspectWaits {
				t.Fatalf("%v does not wait:\n%v\n%v", q, e, w)
			}
			var pools []string
			for _, r := range e.Versions[k].Blockers() {
				if !strings.HasPrefix(string(r.Reason), "slot_") {
					t.Fatalf("%v waits for something else:\n%v\n%v", q, e, w)
				}
				if r.Reason == "slot_keys_full" {
					pools = append(pools, r.Data.Names...)
				} else {
					pools = append(pools, r.On[0].Pool)
				}
			}
			if !slices.Equal(pools, q.Pools) {
				t.Fatalf("%v waits for %v:\n%v\n%v", q, pools, e, w)
			}
			seen[string("queued to "+q.Purpose)]++
			if e.Bracket != "" {
				seen["queued in a bracket"]++
			}
			if !e.Versions[k].Listed {
				seen["queued behind a newer version"]++
			}
		}
		for _, p := range w.plan.Pools {
			if p.Waiting != len(per[p.Key]) {
				t.Fatalf("%v: %v are queued\n%v", p, per[p.Key], w)
			}
			delete(per, p.Key)
		}
		if len(per) > 0 {
			t.Fatalf("the plan does not list the pools of %v\n%v", per, w)
		}
		for _, target := range w.s.Targets {
			e, err := w.plan.Explain(target.TargetID)
			if errors.Is(err, rollout.ErrUnknownTarget) {
				continue // its resource, environment or deployment is in no list
			}
			wait, waits := w.plan.Waiting.Of(target.TargetID)
			own, queued := at[target.TargetID]
			if !queued && e.Bracket != "" { // a member with which its execution does not begin
				k := slices.IndexFunc(queue, func(q rollout.Queued) bool {
					return q.Resource == target.Resource && q.Environment == target.Environment && explain(t, w.plan, q.TargetID).Bracket == e.Bracket
				})
				if k >= 0 {
					first, _ := w.plan.Waiting.Of(queue[k].TargetID)
					if queued = waits && slices.EqualFunc(wait.Blockers, first.Blockers, rollout.Verdict.Equal); queued {
						own = queue[k]
						seen["with another member"]++
					} else {
						seen["no part of the execution"]++
					}
				}
			}
			if slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool { return v.Reason == "slot_exclusive" }) { // no place would help
				if len(e.Queue) > 0 {
					t.Fatalf("%v is queued: %v\n%v", wait, e.Queue, w)
				}
				seen["kept out by another group"]++
				continue
			}
			if !queued && waits && !slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool { return !strings.HasPrefix(string(v.Reason), "slot_") }) {
				t.Fatalf("%v is not queued: %v\n%v", wait, queue, w)
			}
			var want []rollout.QueuePlace
			for _, key := range own.Pools {
				place := rollout.QueuePlace{Pool: key}
				for _, q := range queue {
					if q.TargetID == own.TargetID {
						place.Before = place.Of
					}
					if slices.Contains(q.Pools, key) {
						place.Of++
					}
				}
				want = append(want, place)
				seen["place"]++
			}
			if !slices.Equal(e.Queue, want) {
				t.Fatalf("%v explains %v, want %v\n%v", target.TargetID, e.Queue, want, w)
			}
		}
	}, "queued to deploy", "queued in a bracket", "queued behind a newer version", "with another member", "no part of the execution", "place", "kept out by another group")
}

// TestFirstInQueueIsNext: with one more place in the only pool, and everything else as it was, the
// first in the queue starts.
func TestFirstInQueueIsNext(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 30, nil, func(t *rapid.T, w *world) {
		queue := queueOf(t, w.plan)
		if len(queue) == 0 || len(w.plan.Pools) != 1 || w.plan.Pools[0].Halted || w.plan.Pools[0].Active != w.plan.Pools[0].Max || w.plan.Pools[0].Max == w.plan.Pools[0].Total {
			return
		}
		for i := range w.policies {
			w.policies[i].Rules = slices.Clone(w.policies[i].Rules)
			for k := range w.policies[i].Rules {
				if before := w.policies[i].Rules[k].ResourceConcurrency; before != nil {
					if before.Rate != nil || len(w.plan.Pools[0].Quarantined) > 0 {
						return
					}
					wider := *before
					wider.Limit = concurrency.Count(w.plan.Pools[0].Max + 1)
					w.policies[i].Rules[k].ResourceConcurrency = &wider
				}
			}
		}
		set, err := rollout.Compile(w.policies, env, w.options...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := set.Plan(w.s, w.now)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(plan.Start, func(s rollout.Start) bool {
			return s.TargetID == queue[0].TargetID && s.Version == queue[0].Version && s.Purpose == queue[0].Purpose && s.Group == queue[0].Group
		}) {
			t.Fatalf("with one more place %v does not start, but %v\n%v", queue[0], plan.Start, w)
		}
		seen["next to "+string(queue[0].Purpose)]++
		if len(queue) > 1 {
			seen["before others"]++
		}
	}, "next to deploy", "before others")
}

// TestQueueOfCopy: what a decoded plan lacks is asked of the plan itself.
func TestQueueOfCopy(t *testing.T) {
	t.Parallel()
	if list, err := new(rollout.Plan).Queue(); !errors.Is(err, rollout.ErrDecodedPlan) || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// TestQueuedGroup: with its resource, what is queued names the holder that it would be.
func TestQueuedGroup(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		oneAtATime: "target/prod/a",
		`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},` + oneAtATime: "B/prod/1",
	} {
		plan := mustPlan(t, compile(t, policy(rules)), fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
		if queue := queueOf(t, plan); len(queue) != 1 || queue[0].Group != want || plan.Start[0].Group != want {
			t.Errorf("%+v, want %s, as for %v", queue, want, plan.Start[0])
		}
	}
}

// TestQueueIsForCapacityAlone: where an execution begins, what another environment would begin on the
// resource waits for its end if its turn is later, whether it has a slot or not. It used to be queued
// if it had none, reserved its place in strict pools, and did not start when there was room for it.
// If its turn comes first, it would begin instead if it had a slot, so it is queued.
func TestQueueIsForCapacityAlone(t *testing.T) {
	t.Parallel()
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	s = inEnvironments(s, "qa")
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
		return (t.Deployment == "a") != (t.Environment == "prod") || t.Environment == "qa" && t.Resource == "r1"
	})
	for _, row := range []struct {
		first string // deployment
		limit int    // of a
		want  string
	}{
		{"a", 0, "r2 qa b; r1 prod a: slot_paused, queued; r2 prod a: slot_paused, queued"},
		{"a", 1, "r1 prod a, r2 qa b; r2 prod a: slot_full, queued"},
		{"a", 2, "r1 prod a, r2 prod a; r2 qa b: bracket_queued"},
		{"b", 0, "r2 qa b; r1 prod a: slot_paused, queued; r2 prod a: bracket_queued"},
		{"b", 1, "r1 prod a, r2 qa b; r2 prod a: bracket_queued"},
		{"b", 2, "r1 prod a, r2 qa b; r2 prod a: bracket_queued"},
	} {
		set := compile(t, fmt.Sprintf(`[{"name":"p","selector":"deployment.name == 'a'","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":%d}}]},
			{"name":"b","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}]`, row.limit))
		s.Versions = slices.Clone(s.Versions)
		for k := range s.Versions {
			s.Versions[k].Priority = map[bool]int{true: 1}[s.Versions[k].Deployment == row.first]
		}
		plan := mustPlan(t, set, s, t0)
		queue := queueOf(t, plan)
		var starts, waits []string
		for _, start := range plan.Start {
			starts = append(starts, fmt.Sprintf("%s %s %s", start.Resource, start.Environment, start.Deployment))
		}
		slices.Sort(starts)
		for w := range plan.Waiting.All() {
			text := fmt.Sprintf("%s %s %s: %s", w.Resource, w.Environment, w.Deployment, w.Blockers[0].Reason)
			if slices.ContainsFunc(queue, func(q rollout.Queued) bool { return q.TargetID == w.TargetID }) {
				text += ", queued"
			}
			waits = append(waits, text)
		}
		got := strings.Join(append([]string{strings.Join(starts, ", ")}, waits...), "; ")
		if got != row.want || plan.Pools[0].Waiting != len(queue) {
			t.Errorf("%s first, limit %d: %s, want %s; %d wait for the pool, %d are queued", row.first, row.limit, got, row.want, plan.Pools[0].Waiting, len(queue))
		}
	}
}

// TestPlacesAreCountedOnce: of many explanations that say a place, only the first goes through the
// queue.
func TestPlacesAreCountedOnce(t *testing.T) {
	const n = 2000
	plan := mustPlan(t, compile(t, policy(oneAtATime)), fleet(n, "v1", map[string][]string{"a": {"v1", "v2"}}), t0)
	last := queueOf(t, plan)[n-2].TargetID
	if got := explain(t, plan, last).Queue; !slices.Equal(got, []rollout.QueuePlace{{Pool: "P", Before: n - 2, Of: n - 1}}) {
		t.Errorf("%v", got)
	}
	if allocated := testing.AllocsPerRun(10, func() { explain(t, plan, last) }); allocated > 100 {
		t.Errorf("%v allocations with %d in the queue", allocated, n-1)
	}
}

// TestQueuedBehindTheRefused: an override lends the group of prod a place in a paused pool, but where
// the override is does not start unless prod waits. So prod begins nothing, and no group waits for
// the end of what does not begin: that of qa starts.
func TestQueuedBehindTheRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		past string // the deployment that the override is for
		want []string
	}{
		{"c", []string{"r1/b@v2", "r1/c@v2"}}, // c may be left out, so prod has no place
		{"b", []string{"r1/b@v2"}},            // b would wait for prod, and lend it nothing
	} {
		s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}}), "qa")
		s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return (t.Deployment == "b") != (t.Environment == "qa") })
		s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Deployment: row.past, CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
		for k := range s.Versions {
			s.Versions[k].Priority = map[string]int{"a": 2, "b": 1}[s.Versions[k].Deployment]
		}
		limited := map[string]string{"c": "deployment.name != 'b'", "b": "true"}[row.past]
		set := compile(t, fmt.Sprintf(`[{"name":"p","selector":"%s","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}]},
			{"name":"b","selector":"deployment.name != 'c'","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}]`, limited))
		plan := mustPlan(t, set, s, t0)
		starts := started(plan)
		slices.Sort(starts)
		w, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
		if !slices.Equal(starts, row.want) || len(w.Blockers) != 1 || w.Blockers[0].Reason != "slot_paused" {
			t.Errorf("past %s: starts %q, want %q; a waits for %v", row.past, starts, row.want, w.Blockers)
		}
	}
}

// TestReservedForOneThatMustWait: a of prod comes first on r1 and reserves its place in the strict
// pool P while Q is full. Meanwhile b of qa begins there, and then a waits for its end and reserves
// nothing: the place is free for r2 at once, and a host that has begun b looks at once.
func TestReservedForOneThatMustWait(t *testing.T) {
	t.Parallel()
	s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), "qa")
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
		return t.Resource+t.Environment+t.Deployment != "r1proda" && t.Resource+t.Environment+t.Deployment != "r1qab" && t.Resource+t.Environment+t.Deployment != "r2qaa"
	})
	for k := range s.Versions {
		s.Versions[k].Priority = map[string]int{"a": 1}[s.Versions[k].Deployment]
	}
	s.Active = map[string][]concurrency.Holder{"Q": {{Resource: "r3", Group: "by hand"}}}
	for _, strict := range []bool{true, false} {
		set := compile(t, fmt.Sprintf(`[{"name":"p","selector":"deployment.name == 'a'","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"strict":%t}}]},
			{"name":"q","selector":"environment.name == 'prod'","rules":[{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":1}}]},
			{"name":"b","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}]`, strict))
		s := s
		s.Targets = slices.Clone(s.Targets)
		plan := mustPlan(t, set, s, t0)
		first, then, next := []string{"r1/b@v2", "r2/a@v2"}, []string(nil), time.Time{}
		if strict {
			first, then, next = first[:1], first[1:], t0.Add(1)
		}
		starts := started(plan)
		slices.Sort(starts)
		if at := plan.NextAfter(plan.Start); !slices.Equal(starts, first) || !at.Equal(next) {
			t.Errorf("strict %t: starts %q and looks at %v, want %q and %v", strict, starts, at, first, next)
		}
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
		if again := mustPlan(t, set, s, t0); !slices.Equal(started(again), then) {
			t.Errorf("strict %t: %q start then, want %q", strict, started(again), then)
		}
	}
}

// TestVetoOnTheFirst: a, b and d are on r1, and c on r2. If a of prod begins, b of qa waits for it
// and leaves its rate to c, which an override lets take the only place. So a is vetoed and b begins.
// But a host that carries out d alone, which is in no bracket and on r1 too, has taken the place for
// r1, and then a can begin: it looks at once.
func TestVetoOnTheFirst(t *testing.T) {
	t.Parallel()
	s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}, "d": {"v1", "v2"}}), "qa")
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool {
		return !slices.Contains([]string{"r1 prod a", "r1 qa b", "r2 qa c", "r1 prod d"}, t.Resource+" "+t.Environment+" "+t.Deployment)
	})
	s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Resource: "r2", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
	for k := range s.Versions {
		s.Versions[k].Priority = map[string]int{"a": 3, "b": 2, "c": 1}[s.Versions[k].Deployment]
	}
	set := compile(t, `[{"name":"p","selector":"true","rules":[{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"strict":true}}]},
		{"name":"q","selector":"environment.name == 'qa'","rules":[{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":3,"strict":true,"rate":{"limit":1,"periodSeconds":600}}}]},
		{"name":"b","selector":"deployment.name != 'd'","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]}]`)
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/b@v2", "r1/d@v2"}) {
		t.Fatalf("starts %q", got)
	}
	plan.Start = plan.Start[1:]
	next := plan.NextAfter(plan.Start)
	carryOut(t, &s, plan, t0, rollout.JobInProgress)
	if again := mustPlan(t, set, s, t0); !slices.Equal(started(again), []string{"r1/a@v2", "r2/c@v2"}) || !next.Equal(t0.Add(1)) {
		t.Errorf("after d alone %q start, and the host looks at %v", started(again), next)
	}
}
