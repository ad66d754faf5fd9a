package partition_test

import (
	"encoding/json"
	"math/rand"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/partition"
)

// question is all that a plan is made from.
type question struct {
	Strategy partition.Strategy `json:"strategy"`
	Fleet    partition.Fleet    `json:"fleet"`
	Options  partition.Options  `json:"options"`
}

// TestHostileInput: whatever a strategy, a fleet and options say, nothing panics: there is an
// error, or a plan that explains every cluster.
func TestHostileInput(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]partition.Mode{partition.Default, partition.FleetController}).Draw(t, "mode")
		data, err := json.Marshal(question{genStrategy(t, false), genFleet(t, 8), genOptions(t, mode)})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		for range 10 {
			seen[survives(t, testkit.Spoil(r, data, 1+r.Intn(4)))]++
		}
	}, "not decoded", "refused", "released", "nothing to do")
}

func survives(t *rapid.T, data []byte) string {
	t.Logf("%s", data) // shown if what follows fails
	var q question
	if err := json.Unmarshal(data, &q); err != nil {
		return "not decoded"
	}
	compiled, err := partition.Compile(q.Strategy, q.Fleet, q.Options)
	if err != nil {
		if err.Error() == "" {
			t.Fatal("an error without a text")
		}
		return "refused"
	}
	plan := compiled.Plan()
	_ = plan.String()
	for i := range compiled.Len() {
		if _, _, err := compiled.Explain(i); err != nil {
			t.Fatalf("cluster %d is not explained: %v", i, err)
		}
	}
	if _, err := json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Releases) > 0 {
		return "released"
	}
	return "nothing to do"
}
