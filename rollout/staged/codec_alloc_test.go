package staged_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestStoredFormAllocates: writing and reading a run costs memory by stage and not by target. Names
// without escapes and short numbers are what makes the difference: all others take the long way
// through encoding/json.
func TestStoredFormAllocates(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector allocates")
	}
	const n = 4000
	f := staged.Fleet{Version: "v2"}
	var in staged.Input
	for i := range n {
		name := fmt.Sprintf("az~0-%04d", i) // the last letter, digit and sign that need no escape
		f.Targets = append(f.Targets, staged.Target{Name: name})
		if i%3 > 0 {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: staged.HealthReady})
		}
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", n)}}, benchSpec(), f, staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, _ = step(t, run, staged.Input{}, benchStart)
	run, _ = step(t, run, in, benchStart.Add(1234567890))
	data := encode(t, run)
	for name, work := range map[string]func(){
		"writing": func() { encode(t, run) },
		"reading": func() {
			if err := json.Unmarshal(data, new(staged.Run)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if allocs := testing.AllocsPerRun(3, work); allocs > n/2 {
			t.Errorf("%s %d targets allocates %v times", name, n, allocs)
		}
	}
}
