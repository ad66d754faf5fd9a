package rollout_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/selector"
)

// What follows, up to the line of slashes, stands in README.md.

// Host is yours.
type Host interface {
	Observe() (rollout.Snapshot, error) // your entities, jobs and approvals, and the state that was saved last
	Save(rollout.State) error           // compare-and-swap: an error if somebody else saved since Observe

	// Dispatch creates the job with the id s.Run, unless it exists. A start that is dispatched late
	// may carry an older version: with several planners, create the job only if the target has no
	// job that Observe did not see.
	Dispatch(rollout.Start) error
}

// Policies reads the JSON of the RFC. Whatever is wrong with it is reported at once, each fault
// with its path.
func Policies(file []byte) (*rollout.PolicySet, error) {
	env, err := selector.NewEnv(selector.DefaultSchema(), selector.Limits{})
	if err != nil {
		return nil, err
	}
	return rollout.Load(file, env, rollout.WithZones(time.LoadLocation))
}

// Turn is one round of the loop. Take the next one at the instant that it returns, or as soon as
// something happens. After an error, start over.
func Turn(set *rollout.PolicySet, host Host, now time.Time) (next time.Time, err error) {
	snapshot, err := host.Observe()
	if err != nil {
		return now, err
	}
	plan, err := set.Plan(snapshot, now) // pure: same input, same plan
	if err != nil {
		return now, err
	}
	state, err := plan.Commit(plan.Start, now) // all starts, or any subset
	if err != nil {
		return now, err
	}
	if err := host.Save(state); err != nil { // before anything is dispatched
		return now, err
	}
	for _, s := range plan.Start {
		if err := host.Dispatch(s); err != nil {
			return now, err
		}
	}
	return plan.NextAfter(plan.Start), nil // nothing changes by itself before; zero: nothing ever does
}

////////////////////////////////////////////////////////////////////////////////

// readmeHost is a fleet in memory on which every job succeeds at once.
type readmeHost struct {
	snapshot   rollout.Snapshot
	now        time.Time
	dispatched []string
}

func (h *readmeHost) Observe() (rollout.Snapshot, error) {
	s := h.snapshot
	s.Targets = slices.Clone(s.Targets)
	return s, nil
}

func (h *readmeHost) Save(state rollout.State) error {
	h.snapshot.State = state
	return nil
}

func (h *readmeHost) Dispatch(s rollout.Start) error {
	for i := range h.snapshot.Targets {
		if t := &h.snapshot.Targets[i]; t.TargetID == s.TargetID {
			t.Current = s.Version
			t.Jobs = append(slices.Clone(t.Jobs), rollout.Job{Run: s.Run, Version: s.Version, Status: rollout.JobSuccessful, CreatedAt: h.now, CompletedAt: h.now})
		}
	}
	h.dispatched = append(h.dispatched, h.now.Format(time.TimeOnly)+" "+s.Version+" on "+s.Resource)
	return nil
}

// The loop that README.md shows is this file's, and rolls a version out.
func TestReadme(t *testing.T) {
	own, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(own), "// Host is yours.")
	code, _, found := strings.Cut("// Host is yours."+code, "\n"+strings.Repeat("/", 80)+"\n")
	if !found {
		t.Fatal("the end of the part that stands in README.md is not marked")
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	if diff := cmp.Diff(strings.TrimSpace(code), strings.TrimSpace(shown)); diff != "" {
		t.Errorf("the code in README.md is not the one that is tested (- tested, + shown):\n%s", diff)
	}

	set, err := Policies([]byte(`{"name":"slowly","selector":"true","rules":[{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	host := &readmeHost{snapshot: exampleFleet(), now: t0}
	for turns := 0; !host.now.IsZero(); turns++ {
		if turns == 10 {
			t.Fatal("the loop does not come to an end")
		}
		if host.now, err = Turn(set, host, host.now); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"00:00:00 v2 on n1", "00:10:00 v2 on n2"}
	if diff := cmp.Diff(want, host.dispatched); diff != "" {
		t.Errorf("dispatched (- want, + got):\n%s", diff)
	}
}

// TestExampleHasEveryKind: README.md sends a reader to the example of ParsePolicies for every kind.
func TestExampleHasEveryKind(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(source), "func ExampleParsePolicies() {")
	example, _, _ = strings.Cut(example, "\n}\n")
	for _, constant := range testkit.Constants(t, ".", "RuleKind") {
		_, kind, _ := strings.Cut(constant, " ")
		if n := strings.Count(example, `"`+kind+`": {`); n != 1 {
			t.Errorf("%s stands in it %d times, want once", kind, n)
		}
	}
}
