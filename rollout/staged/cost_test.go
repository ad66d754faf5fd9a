package staged_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestVerdictsCostTheSame: what keeps a run from going on is found without looking at the whole
// fleet, however many failed in whatever way.
func TestVerdictsCostTheSame(t *testing.T) {
	testkit.NeedCPUTime(t)
	targets := func(n int) (fleet staged.Fleet, names []string) {
		fleet.Version = "v2"
		for i := range n {
			names = append(names, fmt.Sprintf("c%05d", i))
			fleet.Targets = append(fleet.Targets, staged.Target{Name: names[i]})
		}
		return fleet, names
	}
	for _, row := range []struct {
		why  string
		held string
		of   func(n int) *staged.Run
	}{
		{"all failed, and can be retried", "skip, retry or cancel", func(n int) *staged.Run {
			fleet, _ := targets(n)
			stage := all("st", 1)
			stage.MaxConcurrency = concurrency.Percent(100)
			run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleet, staged.Options{OnFailure: staged.Hold})
			if err != nil {
				t.Fatal(err)
			}
			run, result := step(t, run, staged.Input{}, benchStart)
			run, _ = step(t, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthFailed)}, benchStart)
			return run
		}},
		{"all left, which counts as a failure, and are to be removed: none can be retried", "skip or cancel", func(n int) *staged.Run {
			fleet, names := targets(n)
			run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, benchSpec(), fleet, staged.Options{OnFailure: staged.Hold, Removed: staged.Fail, LateLeaving: staged.Clean})
			if err != nil {
				t.Fatal(err)
			}
			run, _ = step(t, run, staged.Input{Leaving: names}, benchStart)
			return run
		}},
	} {
		of := func(n int) func() {
			run := row.of(n)
			return func() {
				for range 20 {
					v, ok := run.Waits()
					if !ok || v.Data.Total != n || v.On[0].Detail != row.held {
						t.Fatalf("%s: %s", row.why, v)
					}
				}
			}
		}
		testkit.CompareCost(t, row.why, 20, of(100), of(20_000))
	}
}

// TestEqualNamesCostTheSame: a stored run in which all members have one name is refused, and that
// costs no more than reading one in which each has its own.
func TestEqualNamesCostTheSame(t *testing.T) {
	testkit.NeedCPUTime(t)
	const n = 50_000
	fleet := staged.Fleet{Version: "v2"}
	for i := range n {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: fmt.Sprintf("c%05d", i)})
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, benchSpec(), fleet, staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	own := encode(t, run)
	equal := regexp.MustCompile(`"c[0-9]{5}"`).ReplaceAll(own, []byte(`"c00000"`))
	if len(equal) != len(own) || bytes.Count(equal, []byte(`"c00000"`)) != n {
		t.Fatalf("%d names are equal", bytes.Count(equal, []byte(`"c00000"`)))
	}
	read := func(stored []byte, valid bool) func() {
		return func() {
			if err := json.Unmarshal(stored, new(staged.Run)); (err == nil) != valid {
				t.Fatalf("%v", err)
			}
		}
	}
	testkit.CompareCost(t, "equal names", 5, read(own, true), read(equal, false))
}
