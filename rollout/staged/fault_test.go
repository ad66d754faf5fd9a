package staged_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// host is a whole deployment system around a run: a store, targets that take time, people who
// approve, and the faults that it survives. Each tick steps, stores, acts; after a crash it reads
// the run from the bytes that it stored.
type host struct {
	run      *staged.Run
	restart  bool
	now      time.Time
	fleet    map[string]*machine
	history  []staged.Action // everything that was ever issued and stored
	done     map[staged.Token]bool
	pending  []staged.Command
	requests map[string]bool
	reads    [][]staged.Observation // every look at the fleet, the oldest first
	final    *staged.Run
}

type machine struct {
	version string
	since   time.Time
	token   staged.Token
	attempt int // how often it was really started
	bad     int // so many attempts fail
	removed bool
	leaving bool
}

func newHost(t *rapid.T, run *staged.Run, bad map[string]int) *host {
	h := &host{run: run, now: benchStart, fleet: map[string]*machine{}, done: map[staged.Token]bool{}, requests: map[string]bool{}}
	for s := range run.Stages() {
		for target := range run.Targets(s.Index) {
			h.fleet[target.Name] = &machine{version: "v1", bad: bad[target.Name], leaving: s.Cleanup}
		}
	}
	return h
}

func (h *host) load(t *rapid.T) *staged.Run {
	if !h.restart {
		return h.run
	}
	h.restart = false
	var run staged.Run
	if err := json.Unmarshal(encode(t, h.run), &run); err != nil {
		t.Fatal(err)
	}
	return &run
}

func (h *host) observe() (list []staged.Observation) {
	for _, name := range slices.Sorted(maps.Keys(h.fleet)) {
		m := h.fleet[name]
		o := staged.Observation{Target: name, Version: m.version, Health: staged.HealthReady, Token: m.token, Gone: m.removed}
		if m.version == "v2" {
			switch {
			case h.now.Sub(m.since) < 3*time.Minute:
				o.Health = staged.HealthProgressing
			case m.attempt <= m.bad:
				o.Health = staged.HealthFailed
			}
		}
		list = append(list, o)
	}
	return list
}

// act carries an action out, once per token.
func (h *host) act(t *rapid.T, a staged.Action, run *staged.Run) {
	switch a.Kind {
	case staged.RequestApproval:
		h.requests[a.Name] = true
	default:
		if h.done[a.Token] {
			return
		}
		if status, _ := run.Target(a.Target); status.Start.IsZero() || status.Attempt != a.Token.Attempt {
			t.Fatalf("%v is carried out and the stored run does not know of it: %+v", a, status)
		}
		h.done[a.Token] = true
		m := h.fleet[a.Target]
		m.token, m.since = a.Token, h.now
		m.attempt++
		if m.attempt != a.Token.Attempt {
			t.Fatalf("%s is started %d times for attempt %d", a.Target, m.attempt, a.Token.Attempt)
		}
		if m.removed = a.Kind == staged.Remove; !m.removed {
			m.version = a.Version
		}
	}
}

// faults says what goes wrong in a tick.
type faults struct {
	lose, crash, drop, replay, stale, twice bool
	state                                   staged.State
}

func (h *host) tick(t *rapid.T, f faults, seen testkit.Tally) {
	h.now = h.now.Add(time.Minute)
	run := h.load(t)
	fresh := h.observe()
	in := staged.Input{State: f.state, Commands: h.pending, Observations: fresh}
	if f.stale && len(h.reads) > 0 {
		old := h.reads[rapid.IntRange(0, len(h.reads)-1).Draw(t, "read")]
		in.Observations = append(slices.Clone(old), fresh...) // the newest counts
		if !run.Time().IsZero() {
			in.Observations = slices.DeleteFunc(slices.Clone(old), func(o staged.Observation) bool {
				status, _ := run.Target(o.Target)
				before := o.Token == (staged.Token{}) && !status.Start.IsZero()
				if before {
					seen["left out: from before the action"]++
				}
				return before
			})
			seen["stale read"]++
		}
	}
	if f.twice {
		in.Observations = append(in.Observations, in.Observations...)
		in.Commands = append(slices.Clone(in.Commands), in.Commands...)
		seen["input twice"]++
	}
	h.reads = append(h.reads, fresh)
	next, result, err := staged.Step(run, in, h.now)
	if err != nil {
		t.Fatal(err)
	}
	if f.lose {
		seen["lost step"]++
		h.restart = true
		return // commands stay pending
	}
	h.run, h.pending = next, nil
	h.history = append(h.history, result.Actions...)
	if f.crash {
		seen["crash before acting"]++
		h.restart = true
		return
	}
	for i, a := range result.Actions {
		if f.drop && i%2 == 0 {
			seen["dropped action"]++
			continue
		}
		h.act(t, a, next)
	}
	if f.replay {
		for _, a := range h.history {
			if h.done[a.Token] {
				h.act(t, a, next)
				seen["replayed action"]++
			}
		}
	}
	for s := range next.Stages() {
		for _, side := range []staged.Side{staged.Before, staged.After} {
			if h.requests[staged.ApprovalName("run", side, s.Name)] && (side == staged.Before && s.Before.State == staged.ApprovalRequested || side == staged.After && s.After.State == staged.ApprovalRequested) {
				h.pending = append(h.pending, staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: s.Index, Side: side})
			}
		}
		for target := range next.Targets(s.Index) {
			if target.State == staged.Failed {
				h.pending = append(h.pending, staged.Command{Kind: staged.CommandRetry, Target: target.Name, Attempt: target.Attempt})
			}
		}
	}
	h.final = next
}

// TestI8FaultsMakeNoDifference: with steps lost before and after they were stored, actions dropped
// and replayed, inputs doubled, reads of any age and stops, a run ends as it does without: same
// phase, same states, same attempts, and no target started twice for one.
func TestI8FaultsMakeNoDifference(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		strategy := genStrategy(t)
		// Delays must not fail what is only late, and nothing may close over a failure before the
		// host has retried it.
		strategy.ProgressDeadline, strategy.MaxFailures = staged.Duration{}, concurrency.Limit{}
		for i := range strategy.Stages {
			s := &strategy.Stages[i]
			s.ProgressDeadline, s.MaxFailures = staged.Duration{}, concurrency.Limit{}
		}
		options := staged.Options{Unmatched: staged.Last, Overlap: staged.First, OnFailure: staged.Hold, WaitDuringStop: pick(t, "freeze", "", staged.Freeze)}
		fleet := genFleet(t)
		bad := map[string]int{}
		for _, target := range fleet.Targets {
			if rapid.IntRange(0, 5).Draw(t, "bad") == 0 {
				bad[target.Name] = rapid.IntRange(1, 2).Draw(t, "attempts")
			}
		}
		spec := staged.Spec{Name: "run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun}
		run, err := staged.Compile(strategy, spec, fleet, options)
		if err != nil {
			t.Fatal(err)
		}
		finish := func(h *host) *staged.Run {
			for range 600 {
				if h.final != nil && h.final.Phase().Terminal() {
					return h.final
				}
				h.tick(t, faults{state: staged.StateRun}, seen)
			}
			t.Fatalf("does not end:\n%s", h.final)
			return nil
		}
		calm := finish(newHost(t, run, bad))
		rough := newHost(t, run, bad)
		for range rapid.IntRange(5, 40).Draw(t, "ticks") {
			is := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) == 0 }
			f := faults{lose: is("lose"), crash: is("crash"), drop: is("drop"), replay: is("replay"), stale: is("stale"), twice: is("twice")}
			switch {
			case is("stop"):
				f.state = staged.StateStop
				seen["stop"]++
			case is("resume"):
				f.state = staged.StateRun
			}
			rough.tick(t, f, seen)
		}
		wild := finish(rough)
		if calm.Phase() != wild.Phase() {
			t.Fatalf("ends as %s, without faults as %s\n%s\n%s", wild.Phase(), calm.Phase(), wild, calm)
		}
		ends := func(run *staged.Run) (list []string) {
			for s := range run.Stages() {
				list = append(list, fmt.Sprint(s.Name, " ", s.Phase))
				for target := range run.Targets(s.Index) {
					list = append(list, fmt.Sprint(target.Name, " ", target.State, " ", target.Attempt))
				}
			}
			return list
		}
		if a, b := ends(calm), ends(wild); !slices.Equal(a, b) {
			t.Fatalf("ends with\n%v\nwithout faults with\n%v", b, a)
		}
		for name := range bad {
			if status, _ := wild.Target(name); status.Attempt > 1 {
				seen["retried"]++
			}
		}
		seen[string(wild.Phase())]++
	}, "Succeeded", "lost step", "crash before acting", "dropped action", "replayed action", "stale read", "left out: from before the action", "input twice", "stop", "retried")
}

// TestStaleRunRepeatsEarlierToken: a host that keeps one token beside each target and reads an old
// run gets the action of an attempt that is over, from a step that changes nothing, so that no
// compare-and-swap stops it. The order of tokens in the third duty does. A host that compares for
// equality alone points the target once more, and the run waits for it for good.
func TestStaleRunRepeatsEarlierToken(t *testing.T) {
	later := func(a, b staged.Token) bool { return a.Stage > b.Stage || a.Stage == b.Stage && a.Attempt > b.Attempt }
	for _, row := range []struct {
		why  string
		does func(beside, token staged.Token) bool
		want staged.TargetState
	}{
		{"an earlier token is not carried out", func(beside, token staged.Token) bool { return later(token, beside) }, staged.Done},
		{"an earlier token comes back", func(beside, token staged.Token) bool { return token != beside }, staged.Updating},
	} {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1"), staged.Options{OnFailure: staged.Hold})
		if err != nil {
			t.Fatal(err)
		}
		beside, now := staged.Token{Stage: -1}, benchStart
		tick := func(run *staged.Run, in staged.Input) (*staged.Run, staged.Result) {
			now = now.Add(time.Second)
			run, result := step(t, run, in, now)
			for _, a := range result.Actions {
				if row.does(beside, a.Token) {
					beside = a.Token
				}
			}
			return run, result
		}
		see := func(health staged.Health) staged.Input {
			return staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: health, Token: beside}}}
		}
		old, _ := tick(run, staged.Input{})
		run, _ = tick(old, see(staged.HealthFailed))
		run, _ = tick(run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}})
		run, _ = tick(run, see(staged.HealthProgressing))
		if _, result := tick(old, see(staged.HealthProgressing)); result.Changed || len(result.Actions) != 1 {
			t.Errorf("%s: the old run gives %v", row.why, result)
		}
		run, _ = tick(run, see(staged.HealthReady))
		if got, _ := run.Target("c1"); got.State != row.want {
			t.Errorf("%s: got %v, want %v", row.why, got, row.want)
		}
	}
}
