package surge_test

import (
	"encoding/json"
	"math/rand"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/surge"
)

// TestHostileInput: whatever a set's spec and state say, nothing panics: there is an error, or a
// plan that can be carried out.
func TestHostileInput(t *testing.T) {
	const spec = `{"replicas":3,"partition":1,"paused":false,
		"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":1,"maxSurge":"34%"}},
		"components":[
			{"name":"leader","replicas":1,"minAvailable":1},
			{"name":"worker","replicas":4,"minAvailable":2,"updateStrategy":{"maxUnavailable":"50%","maxSurge":1}}]}`
	const state = `[[{"slots":["O"],"revisions":["r1"]},{"slots":["O","o","N","."],"revisions":["r1","r0","",""]}],[{"slots":["N"]},{"slots":["N","N","n","N"]}]]`
	var sample surge.SetSpec
	var there surge.SetState
	if err := json.Unmarshal([]byte(spec), &sample); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(state), &there); err != nil {
		t.Fatal(err)
	}
	if _, err := surge.PlanSet(sample, there); err != nil {
		t.Fatal(err)
	}
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 5 {
			seen[survives(t, testkit.Spoil(r, []byte(spec), r.Intn(4)), testkit.Spoil(r, []byte(state), r.Intn(4)))]++
		}
	}, "not decoded", "refused", "acted")
}

func survives(t *rapid.T, spec, state []byte) string {
	t.Logf("%s\n%s", spec, state) // shown if what follows fails
	var s surge.SetSpec
	var there surge.SetState
	if json.Unmarshal(spec, &s) != nil || json.Unmarshal(state, &there) != nil {
		return "not decoded"
	}
	if s.Validate() != nil {
		return "refused" // what is not valid is planned too, but a thousand million replicas take their time and memory
	}
	plan, err := surge.PlanSet(s, there)
	if err != nil {
		if err.Error() == "" {
			t.Fatal("an error without a text")
		}
		return "refused"
	}
	_, _, _ = plan.String(), s.Warnings(), plan.Progress(s)
	if stuck, err := surge.DiagnoseSet(s, there, everyUnit); err != nil || len(stuck) > 0 && (plan.Converged || !plan.Empty()) {
		t.Fatalf("stuck at %v, %v with %v", stuck, err, plan)
	}
	if _, err := surge.PlanSet(s, there.Apply(plan)); err != nil {
		t.Fatalf("the state that the plan leads to is refused: %v", err)
	}
	if plan.Empty() {
		return "nothing to do"
	}
	return "acted"
}
