package rollout_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

func reread(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, r rollout.Recording) rollout.Recording {
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := rollout.ParseRecording(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(data) {
		t.Fatalf("a recording changes when it is read:\n%s\n%s", data, again)
	}
	return decoded
}

// TestEmptyStateIsNone: a state whose lists are empty, as Forget may leave it, is written like one
// that was never there. It was written as {} and then read as none, so a recording changed when it
// was read.
func TestEmptyStateIsNone(t *testing.T) {
	for _, text := range []string{`{}`, `{"rollouts":[]}`, `{"brackets":[],"executions":[],"pools":[]}`} {
		var s rollout.Snapshot
		if err := json.Unmarshal([]byte(`{"state":`+text+`}`), &s); err != nil {
			t.Fatal(err)
		}
		if data, err := json.Marshal(s); err != nil || !s.State.IsZero() || strings.Contains(string(data), "state") {
			t.Errorf("%s: %s %v", text, data, err)
		}
	}
	for _, s := range []rollout.State{{Brackets: []*bracket.GroupRecord{nil}}, {Executions: []*bracket.ExecutionRecord{nil}}, {Rollouts: make([]rollout.RolloutRecord, 1)}, {Pools: make([]concurrency.Record, 1)}} {
		if s.IsZero() {
			t.Errorf("%+v holds something", s)
		}
	}
}

// TestRecordingsSurvive: whatever the world, a recording that was written and read is planned again
// to the last byte.
func TestRecordingsSurvive(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 50, nil, func(t *rapid.T, w *world) {
		r := reread(t, rollout.Recording{Schema: 1, Policies: w.policies, Snapshot: w.s, Plan: w.plan})
		set, err := rollout.Compile(r.Policies, env, w.options...)
		if err != nil {
			t.Fatal(err)
		}
		plan, changes, err := set.Replay(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) > 0 {
			t.Fatalf("the same policies decide otherwise: %v", changes)
		}
		if got, want := text(t, plan), text(t, w.plan); got != want {
			t.Fatalf("replayed\n%s\nrecorded\n%s", got, want)
		}
		if len(w.plan.Start) > 0 && len(w.s.State.Pools) > 0 {
			seen["starts on a state"]++
		}
		if len(w.s.State.Executions) > 0 {
			seen["executions"]++
		}
	}, "starts on a state", "executions")
}

// TestReplay: a recording tells what other policies would have decided in its situation.
func TestReplay(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	plan := mustPlan(t, compile(t, "[]"), s, t0)
	r := reread(t, rollout.Recording{Schema: 1, Snapshot: s, Plan: plan})
	_, changes, err := compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}}`)).Replay(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes) != 1 || changes[0].Before.Start != "v2" || changes[0].After.Start != "" || changes[0].After.Blockers[0].Reason != "slot_full" {
		t.Errorf("with room for one of two: %v", changes)
	}
}

func TestParseRecordingErrors(t *testing.T) {
	const plan = `"plan":{"now":"2026-03-10T09:00:00Z","keep":{"current":0,"started":0}}`
	const none = `"resources":[],"environments":[],"deployments":[],"versions":[],"targets":[]`
	for _, row := range []struct{ why, text, want string }{
		{"no object", `[]`, "must be an object"},
		{"half a recording", `{"schema":1`, "line 1, column 12: unexpected EOF"},
		{"another schema may mean anything", `{"schema":2,"snapshot":{` + none + `},` + plan + `}`, "schema: 2: must be 1"},
		{"no schema is none", `{"snapshot":{` + none + `},` + plan + `}`, "schema: 0: must be 1"},
		{"a plan of no instant cannot be made again", `{"schema":1,"snapshot":{` + none + `},"plan":{}}`, "plan.now: is required"},
		{"a misspelt field would be lost", `{"schema":1,"snapshot":{` + none + `,"approvels":[]},` + plan + `}`, "snapshot.approvels"},
		{"nor is one lost in the list of who waits", `{"schema":1,"snapshot":{` + none + `},"plan":{"now":"2026-03-10T09:00:00Z","keep":{"current":0,"started":0},"waiting":[{"resource":"r","environment":"e","deployment":"d","blockers":[{"status":"pending","reason":"slot_full","untli":"x"}]}]}}`, "plan.waiting[0].blockers[0].untli: "},
		{"who waits twice has two entries with half of the blockers", `{"schema":1,"snapshot":{` + none + `},"plan":{"now":"2026-03-10T09:00:00Z","keep":{"current":0,"started":0},"waiting":[{"resource":"r","environment":"e","deployment":"d","blockers":[]},{"resource":"r","environment":"e","deployment":"d","blockers":[]}]}}`, "plan.waiting[1]: \""},
		{"all faults are told", `{"schema":"1","snapshot":{"targets":{}},` + plan + `}`, "schema: \nsnapshot.targets"},
	} {
		_, err := rollout.ParseRecording([]byte(row.text))
		var fault *rollout.FieldError
		if !errors.As(err, &fault) {
			t.Errorf("%s: %v, want a FieldError", row.why, err)
			continue
		}
		if strings.HasPrefix(err.Error(), ":") {
			t.Errorf("%s: %q begins with a path of nothing", row.why, err)
		}
		for part := range strings.SplitSeq(row.want, "\n") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", row.why, err, part)
			}
		}
	}
	good := `{"schema":1,"snapshot":{` + none + `},` + plan + `}`
	if _, err := rollout.ParseRecording([]byte(good)); err != nil {
		t.Errorf("a recording of an empty world: %v", err)
	}
	set := compile(t, "[]")
	if _, _, err := set.Replay(rollout.Recording{Schema: 1}); !errors.As(err, new(*rollout.FieldError)) {
		t.Errorf("a recording without an instant is replayed: %v", err)
	}
	if _, _, err := set.Replay(rollout.Recording{Schema: 2, Plan: rollout.Plan{Now: t0}}); !errors.As(err, new(*rollout.FieldError)) {
		t.Errorf("a recording of another schema, which a host decoded by itself, is replayed: %v", err)
	}
	twice := rollout.Recording{Schema: 1, Snapshot: rollout.Snapshot{Resources: []rollout.Resource{{ID: "r"}, {ID: "r"}}}, Plan: rollout.Plan{Now: t0}}
	if _, _, err := set.Replay(twice); !errors.As(err, new(*rollout.FieldError)) {
		t.Errorf("a contradictory snapshot is replayed: %v", err)
	}
}

// TestPlannerRecords: the planner hands over what it planned on, the stored state included, and
// only plans that were saved.
func TestPlannerRecords(t *testing.T) {
	set := compile(t, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	fake := clock.NewFake(t0)
	var log []string
	planner := rollout.Planner{Policies: set, Store: &bracket.MemoryStore{}, Clock: fake, Recorder: func(r rollout.Recording) {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, string(data))
	}}
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	for range 2 {
		plan, err := planner.Plan(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		for _, start := range plan.Start {
			for i := range s.Targets {
				if s.Targets[i].TargetID == start.TargetID {
					s.Targets[i].Jobs = []rollout.Job{job(start, fake.Now(), rollout.JobInProgress)}
				}
			}
		}
		fake.Advance(time.Minute)
	}
	if len(log) != 2 {
		t.Fatalf("%d recordings of 2 plans", len(log))
	}
	for k, line := range log {
		r, err := rollout.ParseRecording([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if leases := len(r.Snapshot.State.Pools); leases != k {
			t.Errorf("recording %d was planned on the records of %d pools, want %d", k, leases, k)
		}
		if _, changes, err := set.Replay(r); err != nil || len(changes) > 0 {
			t.Errorf("recording %d: %v, %v", k, changes, err)
		}
	}
	planner.Store = refusing{&bracket.MemoryStore{}}
	s.Targets[0].Jobs = nil // its place is free again
	if _, err := planner.Plan(context.Background(), s); !errors.Is(err, bracket.ErrConflict) || len(log) != 2 {
		t.Errorf("a plan that was never saved: %v, and %d recordings", err, len(log))
	}
}

// refusing is a store in which somebody else always saves first.
type refusing struct{ bracket.Store }

func (refusing) Save(context.Context, string, []byte, int64) (int64, error) {
	return 0, bracket.ErrConflict
}

func FuzzParseRecording(f *testing.F) {
	set := compile(f, policy(`{"resourceConcurrency":{"groupSelector":"true","limit":1}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}}) // small: what is long takes the fuzzer minutes to shorten
	plan := mustPlan(f, set, s, t0)
	var err error
	s.State = mustCommit(f, plan, t0)
	data, err := json.Marshal(rollout.Recording{Schema: 1, Snapshot: s, Plan: mustPlan(f, set, s, t0.Add(time.Minute))})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := rollout.ParseRecording(data)
		if err != nil {
			return
		}
		plan, _, err := set.Replay(r)
		if err != nil {
			return // contradictions are told
		}
		r.Plan = plan
		if _, changes, err := set.Replay(reread(t, r)); err != nil || len(changes) > 0 {
			t.Fatalf("replayed twice: %v, %v", changes, err)
		}
	})
}
