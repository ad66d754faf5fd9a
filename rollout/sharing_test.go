package rollout_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout"
)

// TestDecodedStatesShare: what many records repeat is there once, as in the state that was encoded,
// whose texts and rules they all have from the same group.
func TestDecodedStatesShare(t *testing.T) {
	set, start := compile(t, nodeLifecycle(t)), day2.Add(10*300*time.Second)
	for _, row := range []struct {
		why string
		of  func(t *testing.T, s rollout.State) (decoded rollout.State)
	}{
		{"as a whole", decoded},
		{"without its group, which may be forgotten before its last execution ends", func(t *testing.T, s rollout.State) rollout.State {
			s.Brackets = nil
			return decoded(t, s)
		}},
		{"record by record", func(t *testing.T, s rollout.State) rollout.State {
			_, look := reading(t, set, s, start)
			return look()
		}},
	} {
		s := atWork(t, set, largeFleet(100), start)
		decoded := row.of(t, s.State)
		executions, leases, group := decoded.Executions, decoded.Pools[0].Leases, (*bracket.Group)(nil)
		if len(decoded.Brackets) > 0 {
			group = decoded.Brackets[0].Closed[0]
		}
		if len(executions) != 4 {
			t.Fatalf("%s: %d executions are open, want 4", row.why, len(executions))
		}
		if diff := cmp.Diff(s.State.Executions, executions); diff != "" {
			t.Errorf("%s: another state (-encoded +decoded):\n%s", row.why, diff)
		}
		first := executions[0].Open
		for _, record := range executions[1:] {
			if record.Open.Rule != first.Rule {
				t.Errorf("%s: %s has a copy of the rule", row.why, record.Resource)
			}
			sameText(t, row.why, record.Rule, executions[0].Rule)
			sameText(t, row.why, record.Open.Group, first.Group)
			sameText(t, row.why, record.Open.Environment, first.Environment)
			sameText(t, row.why, string(record.Open.Status), string(first.Status))
			for i, m := range record.Open.Members {
				o := first.Members[i]
				sameText(t, row.why, m.Deployment, o.Deployment)
				sameText(t, row.why, m.Version, o.Version)
				sameText(t, row.why, m.From, o.From)
				sameText(t, row.why, string(m.Role), string(o.Role))
				sameText(t, row.why, string(m.Action), string(o.Action))
				sameText(t, row.why, string(m.Status), string(o.Status))
				for k, need := range m.Needs {
					sameText(t, row.why, need, o.Needs[k])
				}
			}
		}
		for _, lease := range leases {
			sameText(t, row.why, lease.Pool, leases[0].Pool)
			sameText(t, row.why, string(lease.State), string(leases[0].State))
			sameText(t, row.why, lease.Group, first.Group)
		}
		if len(leases) != 4 {
			t.Errorf("%s: %d leases, want 4", row.why, len(leases))
		}
		if group != nil && first.Rule != &group.Rule {
			t.Errorf("%s: the rule of the group is there twice", row.why)
		}
	}
}

func decoded(t *testing.T, s rollout.State) (again rollout.State) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, s)), &again); err != nil {
		t.Fatal(err)
	}
	return again
}

// TestEndedExecutionsShare: they are as many as the resources, for ever.
func TestEndedExecutionsShare(t *testing.T) {
	s, _ := doneFleet(t, 20)
	decoded := decoded(t, s.State)
	if diff := cmp.Diff(s.State, decoded); diff != "" || len(decoded.Executions) != 4 {
		t.Errorf("%d executions, want 4; another state (-encoded +decoded):\n%s", len(decoded.Executions), diff)
	}
	keys := map[*byte]bool{}
	for _, record := range decoded.Executions {
		last, first := record.Last["prod"], decoded.Executions[0].Last["prod"]
		sameText(t, "ended", last.Group, first.Group)
		sameText(t, "ended", string(last.Status), string(first.Status))
		for environment := range record.Last {
			keys[unsafe.StringData(environment)] = true
		}
	}
	if len(keys) != 1 {
		t.Errorf("the id of the environment is there %d times", len(keys))
	}
}

// reading saves a state record by record, and returns the store and a planner that reads it.
func reading(t *testing.T, set *rollout.PolicySet, s rollout.State, now time.Time) (bracket.Store, func() rollout.State) {
	t.Helper()
	store := new(bracket.MemoryStore)
	for _, record := range s.Brackets {
		save(t, store, bracket.GroupKey(record.Rule, record.Environment), record)
	}
	for _, record := range s.Executions {
		save(t, store, bracket.ExecutionKey(record.Rule, record.Resource), record)
	}
	for _, record := range s.Pools {
		save(t, store, rollout.PoolRecordKey(record.Key), record)
	}
	planner := &rollout.Planner{Policies: set, Store: store, Clock: clock.NewFake(now)}
	return store, func() rollout.State {
		plan, err := planner.Look(t.Context(), rollout.Snapshot{})
		if err != nil {
			t.Fatal(err)
		}
		return plan.State
	}
}

func save(t *testing.T, store bracket.Store, key string, record any) {
	t.Helper()
	if _, err := store.Save(t.Context(), key, []byte(text(t, record)), 0); err != nil {
		t.Fatal(err)
	}
}

// TestRecordsReadLaterShare: an execution that is read when the others are known already has the
// rule and the versions of the group that was read with them.
func TestRecordsReadLaterShare(t *testing.T) {
	set, start := compile(t, nodeLifecycle(t)), day2.Add(10*300*time.Second)
	s := atWork(t, set, largeFleet(100), start).State
	last := s.Executions[3]
	s.Executions = s.Executions[:3]
	store, look := reading(t, set, s, start)
	before := look().Executions[0].Open
	save(t, store, bracket.ExecutionKey(last.Rule, last.Resource), last)
	after := look()
	if len(after.Executions) != 4 || after.Executions[0].Open != before {
		t.Fatal("want one execution more, and the others as they were read")
	}
	later := after.Executions[3].Open
	if later.Rule != before.Rule {
		t.Error("the rule is there twice")
	}
	for i, m := range later.Members {
		sameText(t, "read later", m.Deployment, before.Members[i].Deployment)
		if m.Role == bracket.Main { // hooks run what is there, which no group locks
			sameText(t, "read later", m.Version, before.Members[i].Version)
		}
	}
}

func sameText(t *testing.T, why, a, b string) {
	t.Helper()
	if a != b || a != "" && unsafe.StringData(a) != unsafe.StringData(b) {
		t.Errorf("%s: %q is there twice", why, a)
	}
}

// TestOtherRulesAreKept: a rule that differs from the one of its group, as after a restore of older
// records, is not replaced by it.
func TestOtherRulesAreKept(t *testing.T) {
	s := atWork(t, compile(t, nodeLifecycle(t)), largeFleet(100), day2.Add(10*300*time.Second)).State
	own := *s.Executions[1]
	open, rule := *own.Open, *own.Open.Rule
	rule.StuckAfterSeconds = 77
	open.Rule, own.Open, s.Executions[1] = &rule, &open, &own
	decoded := decoded(t, s)
	if got := decoded.Executions[1].Open.Rule; got.StuckAfterSeconds != 77 || reflect.DeepEqual(got, decoded.Executions[0].Open.Rule) {
		t.Errorf("the rule is another one: %+v", got)
	}
}
