package staged_test

import (
	"encoding/json"
	"math/rand"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestHostileRuns: whatever a stored run and an input say, nothing panics: there is an error, or a
// run that can be stored, read and stepped again.
func TestHostileRuns(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		drive(t, func(m *moment) {
			input, err := json.Marshal(m.input)
			if err != nil {
				t.Fatal(err)
			}
			stored := encode(t, m.before)
			for range 3 {
				seen[survives(t, m, testkit.Spoil(r, stored, 1+r.Intn(3)), testkit.Spoil(r, input, r.Intn(3)))]++
			}
		})
	}, "run refused", "input refused", "step refused", "acted", "nothing to do")
}

func survives(t *rapid.T, m *moment, stored, given []byte) string {
	t.Logf("%s\n%s\n%v", stored, given, m.now) // shown if what follows fails
	var run staged.Run
	if err := json.Unmarshal(stored, &run); err != nil {
		return "run refused"
	}
	var input staged.Input
	if err := json.Unmarshal(given, &input); err != nil {
		return "input refused"
	}
	next, result, err := staged.Step(&run, input, m.now)
	if err != nil {
		return "step refused"
	}
	_ = next.String()
	for stage := range next.Stages() {
		_ = stage
	}
	var again staged.Run
	if err := json.Unmarshal(encode(t, next), &again); err != nil {
		t.Fatalf("what a step returns is refused when it is read again: %v", err)
	}
	if _, _, err := staged.Step(&again, staged.Input{}, m.now); err != nil {
		t.Fatalf("what a step returns cannot be stepped: %v", err)
	}
	if len(result.Actions) > 0 {
		return "acted"
	}
	return "nothing to do"
}
