package rollout_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestChanges: what two plans say differently, target by target, and nothing that they say alike.
func TestChanges(t *testing.T) {
	env, seen := newEnv(t), testkit.Tally{}
	checkWorlds(t, env, seen, 40, nil, func(t *rapid.T, w *world) {
		if got := w.plan.Changes(&w.plan); len(got) != 0 {
			t.Fatalf("a plan differs from itself: %v", got)
		}
		s := w.s
		s.State = w.plan.State
		later, err := w.set.Plan(s, w.now.Add(time.Duration(between(t, "later", 1, 6))*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		changes := later.Changes(&w.plan)
		if !slices.IsSortedFunc(changes, func(a, b rollout.Change) int {
			return slices.Compare([]string{a.Resource, a.Environment, a.Deployment}, []string{b.Resource, b.Environment, b.Deployment})
		}) {
			t.Fatalf("not in order: %v", changes)
		}
		told := map[rollout.TargetID]rollout.Change{}
		for _, change := range changes {
			told[change.TargetID] = change
		}
		if len(told) != len(changes) {
			t.Fatalf("a target is told twice: %v", changes)
		}
		before, after := byTarget(w.plan), byTarget(later)
		for _, target := range w.s.Targets {
			id := target.TargetID
			change, is := told[id]
			switch {
			case before[id] != after[id] && !is:
				t.Fatalf("%v started %q and now %q, and nobody tells", id, before[id], after[id])
			case is && (change.Before.Start != before[id] || change.After.Start != after[id]):
				t.Fatalf("%v: it started %q and now %q", change, before[id], after[id])
			case is:
				seen["told"]++
			}
		}
		var copied rollout.Plan
		data, err := json.Marshal(w.plan)
		if err == nil {
			err = json.Unmarshal(data, &copied)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := copied.Changes(&w.plan); len(got) != 0 {
			t.Fatalf("a decoded copy differs: %v", got)
		}
		seen["the same"]++
	}, "told", "the same")
}

// TestChangesFromTheStart: before the first plan of all nothing was said.
func TestChangesFromTheStart(t *testing.T) {
	plan := mustPlan(t, compile(t, `[]`), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	if got, want := plan.Changes(nil), plan.Changes(&rollout.Plan{}); len(got) != 1 || !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestChangesOfAVerdict: whoever waits for something else is told, and nobody because of a fact
// that a verdict mentions.
func TestChangesOfAVerdict(t *testing.T) {
	type wait struct {
		rollout.Verdict
		version string
		more    []rollout.Verdict
	}
	plan := func(change func(*wait)) *rollout.Plan {
		own := wait{rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Rule: "w", Until: minute(1), Data: &rollout.Data{Detail: "one"}}, "v2", nil}
		change(&own)
		id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}
		return &rollout.Plan{Waiting: rollout.NewWaitingList(rollout.Waiting{TargetID: id, Version: own.version, Blockers: append(own.more, own.Verdict)})}
	}
	for _, row := range []struct {
		why    string
		change func(*wait)
		want   int
	}{
		{"nothing is changed", func(*wait) {}, 0},
		{"another status", func(v *wait) { v.Status = rollout.Denied }, 1},
		{"another reason", func(v *wait) { v.Reason = rollout.ReasonWindowTooShort }, 1},
		{"another rule", func(v *wait) { v.Rule = "x" }, 1},
		{"another time", func(v *wait) { v.Until = minute(2) }, 1},
		{"another version, which waits for the same", func(v *wait) { v.version = "v3" }, 1},
		{"the same time in another zone", func(v *wait) { v.Until = v.Until.In(time.FixedZone("", 3600)) }, 0},
		{"another fact", func(v *wait) { v.Data = &rollout.Data{Detail: "two"} }, 0},
		{"another place in the same queue", func(v *wait) { v.Data = &rollout.Data{Position: 2} }, 0},
		{"a further event, as when a slot that it waits for is found to be an orphan's", func(v *wait) { v.On = []rollout.Condition{{Kind: rollout.OnOrphan, Pool: "P"}} }, 0},
		{"two members of a bracket wait for the same rule, each with a fact of its own", func(v *wait) {
			v.more = []rollout.Verdict{v.Verdict}
			v.more[0].Data = &rollout.Data{Detail: "two"}
		}, 0},
		{"another rule besides", func(v *wait) {
			v.more = []rollout.Verdict{v.Verdict}
			v.more[0].Rule = "x"
		}, 1},
	} {
		if got := plan(row.change).Changes(plan(func(*wait) {})); len(got) != row.want {
			t.Errorf("%s: %v", row.why, got)
		}
	}
}

// TestChangesOfTheOrder: what the members of a bracket wait for is collected from one after the other.
// Once a needs nothing, b has its own two blockers the other way round, and waits for nothing else. It
// was listed as changed, from two reasons to the same two.
func TestChangesOfTheOrder(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'b']","readinessMode":"immediate","memberRoles":{}}},
		{"id":"db","deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v2'","appliesTo":"deployment.name == 'b'"}},
		{"id":"lib","deploymentDependency":{"dependsOn":"deployment.name == 'lib' && version.tag == 'v2'","appliesTo":"deployment.name in ['a', 'b']"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "db": {"v1"}, "lib": {"v1"}})
	before := mustPlan(t, set, s, t0)
	s.State = before.State
	s.Targets = slices.Clone(s.Targets)
	id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}
	for i := range s.Targets {
		if s.Targets[i].TargetID == id {
			s.Targets[i].Current = "v2"
		}
	}
	after := mustPlan(t, set, s, t0)
	rules := func(plan rollout.Plan) (list []string) {
		b, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "b"})
		for _, verdict := range b.Blockers {
			list = append(list, verdict.Rule)
		}
		return list
	}
	if a, b := rules(before), rules(after); !slices.Equal(a, []string{"B", "lib", "db"}) || !slices.Equal(b, []string{"B", "db", "lib"}) {
		t.Fatalf("b waits for %q and then for %q: this test is about another order", a, b)
	}
	if changes := after.Changes(&before); len(changes) != 1 || changes[0].TargetID != id {
		t.Errorf("only a has nothing left to do:\n%s", changes)
	}
}

// TestExplainErrors: a decoded copy explains nothing, and neither does a plan about a target that
// it does not know.
func TestExplainErrors(t *testing.T) {
	plan := mustPlan(t, compile(t, "[]"), fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	for _, id := range []rollout.TargetID{{}, {Resource: "r9", Environment: "prod", Deployment: "api"}, {Resource: "r1", Environment: "qa", Deployment: "api"}, {Resource: "r1", Environment: "prod", Deployment: "web"}} {
		if _, err := plan.Explain(id); err == nil {
			t.Errorf("%v is explained", id)
		}
	}
	if _, err := (&rollout.Plan{}).Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}); !errors.Is(err, rollout.ErrDecodedPlan) || !strings.Contains(err.Error(), "PolicySet.Replay") {
		t.Errorf("a copy explains, or does not say what does: %v", err)
	}
}

// TestCommitOfACopy: a decoded plan does not know its brackets any more. To claim the slots of a
// start and to leave out its execution would be worse than to refuse.
func TestCommitOfACopy(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	var decoded rollout.Plan
	if err := json.Unmarshal([]byte(text(t, plan)), &decoded); err != nil || len(decoded.Start) != 1 {
		t.Fatalf("%v, %+v", err, decoded)
	}
	if state, err := decoded.Commit(decoded.Start, t0); !errors.Is(err, rollout.ErrDecodedPlan) || len(state.Pools) != 0 {
		t.Errorf("a copy commits: %+v, %v", state, err)
	}
	if _, err := decoded.Explain(plan.Start[0].TargetID); !errors.Is(err, rollout.ErrDecodedPlan) {
		t.Errorf("a copy explains: %v", err)
	}
	if state, err := decoded.Commit(nil, t0); err != nil || text(t, state) != text(t, plan.State) {
		t.Errorf("nothing was started, and the state is %+v, %v", state, err)
	}
	copied := plan // in memory it is the same plan
	if state, err := copied.Commit(decoded.Start, t0); err != nil || len(state.Executions) != 1 || len(state.Pools[0].Leases) != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}
