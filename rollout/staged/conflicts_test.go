package staged_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestTwoRunsOfOnePlacement: a second run is detected by the strategy's hash before it starts, and
// by version and token while both run; what one run started is never taken for the other's.
func TestTwoRunsOfOnePlacement(t *testing.T) {
	compile := func(id, version string, most int) *staged.Run {
		spec := benchSpec()
		spec.Name, spec.ID = id, id
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("st", most)}}, spec, staged.Fleet{Version: version, Targets: []staged.Target{{Name: "c1"}, {Name: "c2"}}}, staged.Options{OnFailure: staged.Hold})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	a, b, other := compile("a", "v1", 1), compile("b", "v2", 1), compile("c", "v3", 2)
	if names, err := staged.Conflicts(a, b); err != nil || !slices.Equal(names, []string{"c1", "c2"}) {
		t.Errorf("%v %v", names, err)
	}
	const text = `placementName: "p": runs a and c have different strategies: let one end first`
	if names, err := staged.Conflicts(a, other); !slices.Equal(rules(err), []staged.Code{staged.CodeConflict}) || len(names) != 2 || err.Error() != text {
		t.Errorf("%v %v, want %s", names, err, text)
	}
	a, started := step(t, a, staged.Input{}, benchStart)
	b, taken := step(t, b, staged.Input{}, benchStart)
	// The token of the other run does not acknowledge, even at the version of this one.
	b, result := step(t, b, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady, Token: started.Actions[0].Token}}}, benchStart)
	if status, _ := b.Target("c1"); status.State != staged.Starting || result.Events[0].Reason != staged.ReasonStaleToken {
		t.Errorf("%+v %v", status, result.Events)
	}
	b, _ = step(t, b, staged.Input{Observations: acknowledge(taken.Actions, staged.HealthReady)}, benchStart)
	// Nor does it show the takeover to the run that lost the target: a host that keeps one token
	// beside a target, of whichever run, hides it.
	a, result = step(t, a, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady, Token: taken.Actions[0].Token}}}, benchStart)
	if status, _ := a.Target("c1"); status.State != staged.Starting || result.Events[0].Reason != staged.ReasonStaleToken {
		t.Errorf("%+v %v", status, result.Events)
	}
	a, _ = step(t, a, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady, Token: started.Actions[0].Token}}}, benchStart)
	if status, _ := a.Target("c1"); status.Reason != staged.ReasonSuperseded || a.Phase() != staged.PhaseHeld {
		t.Errorf("%+v\n%s", status, a)
	}
	if names, err := staged.Conflicts(a, b); err != nil || !slices.Equal(names, []string{"c2"}) {
		t.Errorf("%v %v", names, err)
	}
	for _, of := range []func(*staged.Spec){func(s *staged.Spec) { s.Namespace = "team" }, func(s *staged.Spec) { s.PlacementName = "q" }} {
		elsewhere := benchSpec()
		of(&elsewhere)
		far, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("st", 7)}}, elsewhere, staged.Fleet{Version: "v1", Targets: []staged.Target{{Name: "c2"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if names, err := staged.Conflicts(a, far); err != nil || len(names) > 0 {
			t.Errorf("another placement, %+v: %v %v", elsewhere, names, err)
		}
	}
	ended, _ := step(t, a, staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}, benchStart)
	if names, err := staged.Conflicts(other, ended); err != nil || len(names) > 0 {
		t.Errorf("in the other order: %v %v", names, err)
	}
	if names, err := staged.Conflicts(ended, other); err != nil || len(names) > 0 || ended.Phase() != staged.PhaseCancelled {
		t.Errorf("an ended run: %v %v", names, err)
	}
	for _, none := range []*staged.Run{nil, new(staged.Run)} {
		for _, runs := range [][2]*staged.Run{{a, none}, {none, a}} {
			if _, err := staged.Conflicts(runs[0], runs[1]); !errors.Is(err, staged.ErrNoRun) {
				t.Errorf("%v is no run: %v", none, err)
			}
		}
	}
}

// TestConflictsByName: what is waiting, in progress or to be removed in both runs is listed by
// name, once; what either of them has settled is not.
func TestConflictsByName(t *testing.T) {
	strategy := staged.Strategy{Stages: []staged.Stage{{Name: "first", Targets: []string{"z1", "z2", "z3"}, MaxConcurrency: concurrency.Count(3)}, {Name: "second", Targets: []string{"a1", "a2"}}}}
	compile := func(version string) *scene {
		run, err := staged.Compile(strategy, benchSpec(), staged.Fleet{Version: version, Leaving: []string{"m1"},
			Targets: []staged.Target{{Name: "z1"}, {Name: "z2"}, {Name: "z3"}, {Name: "a1"}, {Name: "a2"}}}, staged.Options{LateLeaving: staged.Clean})
		if err != nil {
			t.Fatal(err)
		}
		return &scene{t: t, run: run, now: benchStart, tokens: map[string]staged.Token{}}
	}
	a, b := compile("v2"), compile("v3")
	want := func(names ...string) {
		t.Helper()
		for _, runs := range [][2]*staged.Run{{a.run, b.run}, {b.run, a.run}} {
			if got, err := staged.Conflicts(runs[0], runs[1]); err != nil || !slices.Equal(got, names) {
				t.Errorf("got %v, %v, want %v", got, err, names)
			}
		}
	}
	want("a1", "a2", "m1", "z1", "z2", "z3")
	a.step(staged.Input{}) // z1 to z3 are in progress
	want("a1", "a2", "m1", "z1", "z2", "z3")
	a.see(staged.HealthReady, "z1")
	b.step(staged.Input{Leaving: []string{"a1"}, Removed: []string{"z2", "m1"}}) // a1 moves on to the cleanup of one of them
	want("a1", "a2", "z3")
	a.step(staged.Input{Leaving: []string{"a1"}})
	want("a1", "a2", "z3")
}

// TestConflictsOfPartsOfAFleet: a target that only one of two runs has is in no conflict, whatever
// the other does with its own.
func TestConflictsOfPartsOfAFleet(t *testing.T) {
	compile := func(names ...string) *staged.Run {
		fleet := staged.Fleet{Version: "v2"}
		for _, name := range names {
			fleet.Targets = append(fleet.Targets, staged.Target{Name: name})
		}
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, benchSpec(), fleet, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	for _, row := range []struct{ a, b, want []string }{
		{[]string{"c1", "c2"}, []string{"c3"}, nil},
		{[]string{"c1", "c2"}, []string{"c3", "c2", "c4"}, []string{"c2"}},
	} {
		a, b := compile(row.a...), compile(row.b...)
		for _, runs := range [][2]*staged.Run{{a, b}, {b, a}} {
			if got, err := staged.Conflicts(runs[0], runs[1]); err != nil || !slices.Equal(got, row.want) {
				t.Errorf("%v and %v: got %v, %v, want %v", row.a, row.b, got, err, row.want)
			}
		}
	}
}

// TestIdenticalStrategies: any difference in what two strategies say is a conflict of runs of one
// placement, and nothing else is.
func TestIdenticalStrategies(t *testing.T) {
	compile := func(of func(*staged.Strategy), options staged.Options) *staged.Run {
		stage := func(name string) staged.Stage {
			s := all(name, 2)
			s.LabelSelector.MatchLabels = map[string]string{"ring": name}
			return s
		}
		strategy := staged.Strategy{Name: "s", Stages: []staged.Stage{stage("a"), stage("b")}, ProgressDeadline: staged.For(90 * time.Minute)}
		of(&strategy)
		run, err := staged.Compile(strategy, benchSpec(), staged.Fleet{Version: "v2", Leaving: []string{"d1"}}, options)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	task := []staged.Task{{Type: staged.Approval}}
	first := compile(func(*staged.Strategy) {}, staged.Options{})
	for _, row := range []struct {
		why     string
		of      func(*staged.Strategy)
		options staged.Options
		same    bool
	}{
		{"nothing", func(*staged.Strategy) {}, staged.Options{}, true},
		{"the name is for display", func(s *staged.Strategy) { s.Name, s.Namespace = "t", "team" }, staged.Options{}, true},
		{"options are no part of it", func(*staged.Strategy) {}, staged.Options{OnFailure: staged.Hold}, true},
		{"the same in other words", func(s *staged.Strategy) { s.ProgressDeadline, _ = staged.ParseDuration("1h30m") }, staged.Options{}, true},
		{"failures of the run", func(s *staged.Strategy) { s.MaxFailures = concurrency.Count(1) }, staged.Options{}, false},
		{"the deadline", func(s *staged.Strategy) { s.ProgressDeadline = staged.None() }, staged.Options{}, false},
		{"the soak", func(s *staged.Strategy) { s.MinSuccessTime = staged.For(1) }, staged.Options{}, false},
		{"the approval before the cleanup", func(s *staged.Strategy) { s.DeleteStage.BeforeStageTasks = task }, staged.Options{}, false},
		{"a stage more", func(s *staged.Strategy) { s.Stages = append(s.Stages, staged.Stage{Name: "c"}) }, staged.Options{}, false},
		{"their order", func(s *staged.Strategy) { slices.Reverse(s.Stages) }, staged.Options{}, false},
		{"the name of a stage", func(s *staged.Strategy) { s.Stages[1].Name = "c" }, staged.Options{}, false},
		{"who is in it", func(s *staged.Strategy) { s.Stages[1].LabelSelector.MatchLabels["ring"] = "c" }, staged.Options{}, false},
		{"nobody is in it, for everybody", func(s *staged.Strategy) { s.Stages[1].LabelSelector = nil }, staged.Options{}, false},
		{"names for labels", func(s *staged.Strategy) { s.Stages[1].LabelSelector, s.Stages[1].Targets = nil, []string{"b"} }, staged.Options{}, false},
		{"the order within a stage", func(s *staged.Strategy) { s.Stages[1].SortingLabelKey = "order" }, staged.Options{}, false},
		{"how many at a time", func(s *staged.Strategy) { s.Stages[1].MaxConcurrency = concurrency.Percent(2) }, staged.Options{}, false},
		{"failures of a stage", func(s *staged.Strategy) { s.Stages[1].MaxFailures = concurrency.Count(0) }, staged.Options{}, false},
		{"the deadline of a stage", func(s *staged.Strategy) { s.Stages[1].ProgressDeadline = staged.None() }, staged.Options{}, false},
		{"the soak of a stage", func(s *staged.Strategy) { s.Stages[1].MinSuccessTime = staged.For(0) }, staged.Options{}, false},
		{"an approval before it", func(s *staged.Strategy) { s.Stages[1].BeforeStageTasks = task }, staged.Options{}, false},
		{"an approval after it", func(s *staged.Strategy) { s.Stages[1].AfterStageTasks = task }, staged.Options{}, false},
	} {
		if _, err := staged.Conflicts(first, compile(row.of, row.options)); (err == nil) != row.same {
			t.Errorf("%s: %v", row.why, err)
		}
	}
}

// TestIdentity: tokens and approvals are of the run's id, which need not be its name; requests are
// named after the name.
func TestIdentity(t *testing.T) {
	stage := all("st", 1)
	stage.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	spec := benchSpec()
	spec.ID = "a2f6-11"
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, spec, fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := (&scene{t: t, run: run, now: benchStart, tokens: map[string]staged.Token{}}).step(staged.Input{})
	if a := s.result.Actions; len(a) != 1 || a[0].Run != spec.ID || a[0].Name != "run-before-st" {
		t.Errorf("%+v", a)
	}
	approve := func(id string) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: id, Side: staged.Before}}}
	}
	s.step(approve(spec.Name)).want(staged.PhaseWaiting, "c1").step(approve(spec.ID)).want(staged.PhaseProgressing, "c1 starting")
	if token := (staged.Token{Run: spec.ID, Target: "c1", Attempt: 1, Kind: staged.Start}); s.tokens["c1"] != token {
		t.Errorf("%+v", s.tokens)
	}
}
