package staged_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// TestMembershipEvents: what became of the fleet is told target by target, all kinds at once.
func TestMembershipEvents(t *testing.T) {
	stage := all("only", 2)
	stage.LabelSelector.MatchLabels = map[string]string{"ring": "a"}
	in := func(name, ring string) staged.Target {
		return staged.Target{Name: name, Labels: map[string]string{"ring": ring}}
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), staged.Fleet{Version: "v2",
		Targets: []staged.Target{in("c1", "a"), in("c2", "a"), in("c3", "a")}}, staged.Options{Unmatched: staged.Ignore, Added: staged.Append, LateLeaving: staged.Clean})
	if err != nil {
		t.Fatal(err)
	}
	run, _ = step(t, run, staged.Input{}, benchStart)
	joined := func(stage int, name string) staged.Event {
		return staged.Event{Kind: staged.EventJoined, Stage: stage, Target: name}
	}
	ignored := func(stage int, name string, why staged.Reason) staged.Event {
		return staged.Event{Kind: staged.EventMembershipIgnored, Stage: stage, Target: name, Reason: why}
	}
	removed := func(name string) staged.Event {
		return staged.Event{Kind: staged.EventTarget, Stage: 0, Target: name, To: "removed"}
	}
	starts := func(stage int, name string) staged.Event {
		return staged.Event{Kind: staged.EventTarget, Stage: stage, Target: name, To: "starting"}
	}
	for _, row := range []struct {
		why   string
		input staged.Input
		want  []staged.Event
	}{
		{"one is gone and another leaves", staged.Input{Removed: []string{"c3"}, Leaving: []string{"c2"}}, []staged.Event{removed("c2"), joined(1, "c2"), removed("c3")}},
		{"one is gone and another comes: c3 was there before for the free slot", staged.Input{Removed: []string{"c2"}, Added: []staged.Target{in("c4", "a")}}, []staged.Event{joined(0, "c4"), removed("c2"), starts(0, "c3")}},
		{"one comes and goes between two steps: it must not be started", staged.Input{Removed: []string{"c1", "c2", "c4"}, Added: []staged.Target{in("c4", "a")}},
			[]staged.Event{joined(0, "c4"), removed("c1"), removed("c2"), removed("c4"), starts(0, "c3")}},
		{"one comes and leaves between two steps", staged.Input{Leaving: []string{"c4"}, Added: []staged.Target{in("c4", "a")}}, []staged.Event{joined(0, "c4"), removed("c4"), joined(1, "c4")}},
		{"one leaves and is gone between two steps: nothing is left to be removed", staged.Input{Removed: []string{"c2"}, Leaving: []string{"c2"}},
			[]staged.Event{removed("c2"), joined(1, "c2"), {Kind: staged.EventTarget, Stage: 1, Target: "c2", To: "done"}, starts(0, "c3")}},
		{"one of nobody, twice", staged.Input{Removed: []string{"z", "z"}}, []staged.Event{ignored(-1, "z", staged.ReasonUnknownTarget)}},
		{"one that is known comes", staged.Input{Added: []staged.Target{in("c1", "a")}}, []staged.Event{ignored(-1, "c1", staged.ReasonKnown)}},
		{"one of no stage comes", staged.Input{Added: []staged.Target{in("c4", "b")}}, []staged.Event{ignored(-1, "c4", staged.ReasonUnmatched)}},
		{"one comes twice, and the last word counts", staged.Input{Added: []staged.Target{in("c4", "b"), in("c4", "a")}}, []staged.Event{joined(0, "c4")}},
		{"the other way round", staged.Input{Added: []staged.Target{in("c4", "a"), in("c4", "b")}}, []staged.Event{ignored(-1, "c4", staged.ReasonUnmatched)}},
	} {
		if _, result := step(t, run, row.input, benchStart); !slices.Equal(result.Events, row.want) {
			t.Errorf("%s: got %v, want %v", row.why, result.Events, row.want)
		}
	}
	frozen, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), staged.Fleet{Version: "v2", Targets: []staged.Target{in("c1", "a"), in("c2", "a")}}, staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []staged.Event{ignored(-1, "c4", staged.ReasonFrozen), removed("c1"), ignored(1, "c1", staged.ReasonFrozen), ignored(1, "z", staged.ReasonFrozen)}
	frozen, _ = step(t, frozen, staged.Input{}, benchStart)
	if _, result := step(t, frozen, staged.Input{Leaving: []string{"z", "c1"}, Added: []staged.Target{in("c4", "a")}}, benchStart); !slices.Equal(result.Events, want) {
		t.Errorf("by default nobody joins: got %v, want %v", result.Events, want)
	}
	see := func(health staged.Health) (in staged.Input) {
		for _, name := range []string{"c1", "c2", "c3"} {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
		}
		return in
	}
	for range 2 {
		run, _ = step(t, run, see(staged.HealthReady), benchStart)
	}
	if _, result := step(t, run, staged.Input{Added: []staged.Target{in("c4", "a")}}, benchStart); len(result.Events) != 0 || run.Phase() != staged.PhaseSucceeded {
		t.Errorf("a run that is over takes nobody in: %v, %s", result.Events, run.Phase())
	}
}

// TestTooLateToJoin: whoever comes after its stage has settled all members joins a later one that
// matches it, and otherwise none: the stage of the rest is for those that no other matches.
func TestTooLateToJoin(t *testing.T) {
	first, second := all("first", 1), all("second", 1)
	first.LabelSelector.MatchLabels = map[string]string{"ring": "c"}
	second.LabelSelector.MatchExpressions = []selector.LabelRequirement{{Key: "both", Operator: selector.Exists}}
	first.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	options := staged.Options{Overlap: staged.First, Unmatched: staged.Last, Added: staged.Append}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{first, second}}, options, []string{"c1"}).see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done")
	for _, row := range []struct {
		why    string
		labels map[string]string
		want   staged.Event
	}{
		{"its stage is closing", map[string]string{"ring": "c"}, staged.Event{Kind: staged.EventMembershipIgnored, Stage: -1, Target: "c2", Reason: staged.ReasonTooLate}},
		{"a later stage takes it", map[string]string{"ring": "c", "both": ""}, staged.Event{Kind: staged.EventJoined, Stage: 1, Target: "c2"}},
		{"it belongs to the rest", map[string]string{"ring": "e"}, staged.Event{Kind: staged.EventJoined, Stage: 2, Target: "c2"}},
	} {
		if _, result := step(t, s.run, staged.Input{Added: []staged.Target{{Name: "c2", Labels: row.labels}}}, s.now); !slices.Equal(result.Events, []staged.Event{row.want}) {
			t.Errorf("%s: got %v, want %v", row.why, result.Events, row.want)
		}
	}
}

// TestBudgetsGrowWithTheFleet: a percentage of failures is of all that ever were members, and one
// who joins is one.
func TestBudgetsGrowWithTheFleet(t *testing.T) {
	stage := all("only", 4)
	stage.MaxFailures = concurrency.Count(4)
	strategy := staged.Strategy{Stages: []staged.Stage{stage}, MaxFailures: concurrency.Percent(50)}
	run, err := staged.Compile(strategy, benchSpec(), fleetOf("c1", "c2"), staged.Options{Added: staged.Append})
	if err != nil {
		t.Fatal(err)
	}
	fails := func(name string) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: name, Version: "v2", Health: staged.HealthFailed}}}
	}
	run, _ = step(t, run, staged.Input{}, benchStart)
	run, _ = step(t, run, fails("c1"), benchStart)
	run, result := step(t, run, staged.Input{Added: []staged.Target{{Name: "c3"}, {Name: "c4"}}}, benchStart)
	if run.Phase() != staged.PhaseProgressing || len(result.Actions) != 3 {
		t.Fatalf("%s, %v: one of two may fail, and who joins an open stage starts at once", run.Phase(), result.Actions)
	}
	if run, _ = step(t, run, fails("c2"), benchStart); run.Phase() != staged.PhaseProgressing {
		t.Errorf("%s: two of four may fail", run.Phase())
	}
	if run, _ = step(t, run, fails("c3"), benchStart); run.Phase() == staged.PhaseProgressing {
		t.Errorf("%s: three of four may not", run.Phase())
	}
}

// TestStagesAreFoundAsByTrying: stages that select by different labels, by exclusion or by name are
// found as if each were tried.
func TestStagesAreFoundAsByTrying(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		keys, values := []string{"ring", "region", "tier"}, []string{"a", "b", "c"}
		var stages []staged.Stage
		for k := range rapid.IntRange(1, 5).Draw(t, "stages") {
			stage := staged.Stage{Name: fmt.Sprint("s", k), LabelSelector: &selector.LabelSelector{}}
			requirement := selector.LabelRequirement{Key: pick(t, "key", keys...)}
			switch requirement.Operator = pick(t, "operator", selector.In, selector.NotIn, selector.Exists, selector.DoesNotExist); requirement.Operator {
			case selector.In, selector.NotIn:
				requirement.Values = rapid.SliceOfNDistinct(rapid.SampledFrom(values), 1, 2, rapid.ID[string]).Draw(t, "values")
			}
			switch pick(t, "form", "label", "expression", "both", "names") {
			case "label":
				stage.LabelSelector.MatchLabels = map[string]string{pick(t, "key", keys...): pick(t, "value", values...)}
			case "both":
				stage.LabelSelector.MatchLabels = map[string]string{pick(t, "key", keys...): pick(t, "value", values...)}
				fallthrough
			case "expression":
				stage.LabelSelector.MatchExpressions = []selector.LabelRequirement{requirement}
			case "names":
				stage.LabelSelector, stage.Targets = nil, []string{"c1", "c3"}
			}
			stages = append(stages, stage)
		}
		f := staged.Fleet{Version: "v2", Leaving: []string{"d1"}}
		want := make([][]string, len(stages)+1) // the last: of none
		for i := range 6 {
			target := staged.Target{Name: fmt.Sprint("c", i), Labels: map[string]string{}}
			for _, key := range keys {
				if value := pick(t, "label", append([]string{""}, values...)...); value != "" {
					target.Labels[key] = value
				}
			}
			f.Targets = append(f.Targets, target)
			home := len(stages)
			for k := len(stages) - 1; k >= 0; k-- {
				matches := slices.Contains(stages[k].Targets, target.Name)
				if stages[k].LabelSelector != nil {
					labels, err := stages[k].LabelSelector.Compile()
					if err != nil {
						t.Fatal(err)
					}
					matches = labels.Match(target.Labels)
				}
				if matches {
					if home < len(stages) {
						seen["several"]++
					}
					home = k
				}
			}
			if home == len(stages) {
				seen["none"]++
			}
			want[home] = append(want[home], target.Name)
		}
		run, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), f, staged.Options{Overlap: staged.First, Unmatched: staged.Ignore})
		if err != nil {
			t.Fatal(err)
		}
		for k := range stages {
			var got []string
			for target := range run.Targets(k) {
				got = append(got, target.Name)
			}
			if !slices.Equal(got, want[k]) {
				t.Fatalf("stage %d has %v, want %v: %+v", k, got, want[k], stages[k])
			}
		}
	}, "several", "none")
}

// halfMayFail returns strategies of one stage with n targets at a time, by what the budget is of.
func halfMayFail(n int) map[string]staged.Strategy {
	stage, run := staged.Strategy{Stages: []staged.Stage{all("only", n)}}, staged.Strategy{Stages: []staged.Stage{all("only", n)}}
	stage.Stages[0].MaxFailures, run.MaxFailures = concurrency.Percent(50), concurrency.Percent(50)
	return map[string]staged.Strategy{"of the stage": stage, "of the run": run}
}

// TestBudgetsGrowWithTheirStage: a percentage is of the members, so that one who joins brings a held
// run back within its budget, be it that of the stage or that of the run.
func TestBudgetsGrowWithTheirStage(t *testing.T) {
	for why, strategy := range halfMayFail(1) {
		s := newScene(t, strategy, staged.Options{OnFailure: staged.Hold, Added: staged.Append}, []string{"c1"})
		s.see(staged.HealthFailed, "c1").want(staged.PhaseHeld, "c1 failed (reported_failed)")
		s.step(staged.Input{Added: []staged.Target{{Name: "c2"}}}).want(staged.PhaseProgressing, "c1 failed (reported_failed), c2 starting")
		if v, _ := s.run.Waits(); v.Reason != staged.ReasonSlot {
			t.Errorf("%s: %s", why, v)
		}
	}
}

// TestBudgetsDoNotShrinkWithTheFleet: who was removed or skipped was a member, and a percentage
// counts such a one, so that nobody else's failure exceeds a budget because somebody left.
func TestBudgetsDoNotShrinkWithTheFleet(t *testing.T) {
	for why, strategy := range halfMayFail(4) {
		s := newScene(t, strategy, staged.Options{}, []string{"c1", "c2", "c3", "c4"})
		s.step(staged.Input{Removed: []string{"c3"}, Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c4"}}})
		if s.see(staged.HealthFailed, "c1", "c2"); s.run.Phase() != staged.PhasePartiallySucceeded {
			t.Errorf("%s: %s: two of the four that ever were members may fail", why, s.run.Phase())
		}
	}
}

// TestGoneBeforeItsRemovalIsAskedFor: a target that is gone before its turn is done without a slot,
// and a host that attaches tokens has for it that of its start alone. Once there is an action in
// the cleanup, that is of before.
func TestGoneBeforeItsRemovalIsAskedFor(t *testing.T) {
	one := staged.Cleanup{MaxConcurrency: concurrency.Count(1)}
	gated := staged.DeleteStage{BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}
	approve := staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before}}}
	start := func(target string, attempt int) staged.Token {
		return staged.Token{Run: "run", Stage: 0, Target: target, Attempt: attempt, Kind: staged.Start}
	}
	for _, row := range []struct {
		why     string
		cleanup staged.DeleteStage
		until   func(s *scene)
		target  string
		token   staged.Token
		want    string // of the cleanup
		stale   bool
	}{
		{"the cleanup is still to come", staged.DeleteStage{}, func(*scene) {}, "c1", start("c1", 1), "c1 done, c2", false},
		{"what is observed of another attempt is stale there, too", staged.DeleteStage{}, func(*scene) {}, "c1", start("c1", 2), "c1, c2", true},
		{"it was never started: there is no token of it", staged.DeleteStage{}, func(s *scene) { s.step(staged.Input{Leaving: []string{"c5"}}) }, "c5", start("c5", 1), "c1, c2, c5", true},
		{"somebody is asked whether it may be removed", gated, func(s *scene) { s.see(staged.HealthReady, "c3", "c4", "c5") }, "c2", start("c2", 1), "c1, c2 done", false},
		{"it waits for a slot", gated, func(s *scene) { s.see(staged.HealthReady, "c3", "c4", "c5").step(approve) }, "c2", start("c2", 1), "c1 starting, c2 done", false},
		{"its removal is asked for: this was seen before", gated, func(s *scene) { s.see(staged.HealthReady, "c3", "c4", "c5").step(approve) }, "c1", start("c1", 1), "c1 starting, c2", true},
		{"its removal failed, and another attempt was made since its start", staged.DeleteStage{}, func(s *scene) {
			s.see(staged.HealthReady, "c3", "c4", "c5").see(staged.HealthFailed, "c1")
			s.step(staged.Input{State: staged.StateStop, Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}})
		}, "c1", start("c1", 1), "c1 attempt 2, c2", true},
	} {
		strategy := staged.Strategy{Stages: []staged.Stage{all("only", 2)}, DeleteStage: row.cleanup}
		s := newScene(t, strategy, staged.Options{LateLeaving: staged.Clean, OnFailure: staged.Hold, Cleanup: one}, []string{"c1", "c2", "c3", "c4", "c5"})
		s.see(staged.HealthReady, "c1", "c2").step(staged.Input{Leaving: []string{"c1", "c2"}})
		row.until(s)
		s.step(staged.Input{Observations: []staged.Observation{{Target: row.target, Gone: true, Token: row.token}}})
		var got []string
		for target := range s.run.Targets(1) {
			got = append(got, target.String())
		}
		stale := slices.ContainsFunc(s.result.Events, func(e staged.Event) bool { return e.Reason == staged.ReasonStaleToken })
		if have := strings.Join(got, ", "); have != row.want || stale != row.stale {
			t.Errorf("%s: %s, stale %v, want %s, stale %v", row.why, have, stale, row.want, row.stale)
		}
	}

	// The request for approval is withdrawn once nobody is left.
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 3)}, DeleteStage: gated}, staged.Options{LateLeaving: staged.Clean}, []string{"c1"})
	s.step(staged.Input{Leaving: []string{"c1"}}).want(staged.PhaseWaiting, "c1 removed, c1")
	s.step(staged.Input{Observations: []staged.Observation{{Target: "c1", Gone: true, Token: start("c1", 1)}}}).want(staged.PhaseSucceeded, "c1 removed, c1 done")
}

// TestLimitsOfAStage: how many members may be in progress, and how many may fail. A count is taken
// as it is, also above the number of members; a percentage rounds down, of concurrency to at least
// 1, or up.
func TestLimitsOfAStage(t *testing.T) {
	for _, row := range []struct {
		members          int
		limit            concurrency.Limit
		down, up         int // in progress
		failDown, failUp int // may fail
	}{
		{10, concurrency.Count(3), 3, 3, 3, 3},
		{10, concurrency.Count(15), 15, 15, 15, 15},
		{3, concurrency.Percent(50), 1, 2, 1, 2},
		{3, concurrency.Percent(75), 2, 3, 2, 3},
		{10, concurrency.Percent(33), 3, 4, 3, 4},
		{100, concurrency.Percent(99), 99, 99, 99, 99},
		{1, concurrency.Percent(10), 1, 1, 0, 1},
		{0, concurrency.Percent(50), 1, 1, 0, 0},
		{7, concurrency.Percent(100), 7, 7, 7, 7},
		{5, concurrency.Limit{}, 1, 1, 0, 0},
	} {
		for rounding, want := range map[staged.Choice][2]int{staged.Down: {row.down, row.failDown}, staged.Up: {row.up, row.failUp}} {
			stage := staged.Stage{Name: "a", MaxConcurrency: row.limit, MaxFailures: row.limit}
			fleet := staged.Fleet{Version: "v2", Leaving: []string{"leaves"}} // which is no member of the stage
			for i := range row.members {
				fleet.Targets = append(fleet.Targets, staged.Target{Name: fmt.Sprint("c", i)})
				stage.Targets = append(stage.Targets, fleet.Targets[i].Name)
			}
			run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleet, staged.Options{Rounding: rounding})
			if err != nil {
				t.Fatal(err)
			}
			for s := range run.Stages() {
				if got := [2]int{s.Limit, s.Budget}; !s.Cleanup && got != want {
					t.Errorf("%s of %d, rounded %s: got %v, want %v", row.limit, row.members, rounding, got, want)
				}
			}
		}
	}
}

// TestEverybodyGone: a host whose cache is still empty after a restart, and which takes that for the
// fleet, ends the run: nothing was updated, nothing failed, and it does not go on when the targets
// are seen. So Input says that what a cache does not have is not yet gone.
func TestEverybodyGone(t *testing.T) {
	for removed, want := range map[staged.Choice]staged.Phase{staged.Skip: staged.PhaseSucceeded, staged.Fail: staged.PhaseFailed} {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{Removed: removed})
		if err != nil {
			t.Fatal(err)
		}
		run, _ = step(t, run, staged.Input{Removed: []string{"c1", "c2"}}, benchStart)
		run, result := step(t, run, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v1", Health: staged.HealthReady}}}, benchStart)
		if run.Phase() != want || len(result.Actions) > 0 {
			t.Errorf("with %s: got %v with %v, want %v", removed, run.Phase(), result, want)
		}
	}
}
