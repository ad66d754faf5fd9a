package rollout_test

import (
	"encoding/json"
	"math"
	"math/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestHostileRecordings: whatever a snapshot, its stored state and the policies say, nothing panics
// and nothing takes for ever: there is an error, or a plan whose every method works.
func TestHostileRecordings(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 60, nil, func(t *rapid.T, w *world) {
		data, err := json.Marshal(rollout.Recording{Schema: 1, Policies: w.policies, Snapshot: w.s, Plan: rollout.Plan{Now: w.plan.Now}})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 3 {
			seen[survives(t, env, w, testkit.Spoil(r, data, 1+r.Intn(4)))]++
		}
	}, "not decoded", "not compiled", "not planned", "planned", "started")
}

// survives takes a recording through all that can be done with it and says how far it came.
func survives(t *rapid.T, env rollout.Compiler, w *world, data []byte) string {
	t.Logf("%s", data) // shown if what follows fails
	recording, err := rollout.ParseRecording(data)
	if err != nil {
		return "not decoded"
	}
	set, err := rollout.Compile(recording.Policies, env, w.options...)
	if err != nil {
		return "not compiled"
	}
	if _, err := set.Lint(recording.Snapshot, recording.Plan.Now, 24*time.Hour, rollout.LintOptions{}); err != nil && err.Error() == "" {
		t.Fatal("an error without a text")
	}
	plan, _, err := set.Replay(recording)
	if err != nil {
		return "not planned"
	}
	for _, target := range recording.Snapshot.Targets {
		if explanation, err := plan.Explain(target.TargetID); err == nil {
			_ = explanation.String()
		}
	}
	state, err := plan.Commit(plan.Start, plan.Now)
	if err != nil {
		t.Fatalf("the starts of the plan itself are refused: %v\n%s", err, data)
	}
	if len(plan.Start) == 0 {
		return "planned"
	}
	recording.Snapshot.State = state
	next := plan.Now.Add(time.Minute)
	if last := time.Unix(0, math.MaxInt64).Truncate(time.Second); next.After(last) { // as far as instants reach
		next = last
	}
	if _, err := set.Plan(recording.Snapshot, next); err != nil {
		t.Fatalf("the state of a commit is refused: %v\n%s", err, data)
	}
	return "started"
}
