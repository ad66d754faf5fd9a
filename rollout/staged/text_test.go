package staged_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

func fleetOf(names ...string) staged.Fleet {
	f := staged.Fleet{Version: "v2"}
	for _, name := range names {
		f.Targets = append(f.Targets, staged.Target{Name: name})
	}
	return f
}

func TestEventString(t *testing.T) {
	for _, row := range []struct {
		event staged.Event
		want  string
		why   string
	}{
		{staged.Event{Kind: staged.EventRun, Stage: -1, To: "Held"}, "run Held", "about no stage"},
		{staged.Event{Kind: staged.EventStage, Stage: 0, To: "Updating"}, "stage 0 Updating", "the first stage is one, and the word is said once"},
		{staged.Event{Kind: staged.EventApproval, Stage: 1, Side: staged.Before, To: "approved"}, "approval stage 1 before approved", "which of the two"},
		{staged.Event{Kind: staged.EventTarget, Stage: 2, Target: "c1", To: "failed", Reason: staged.ReasonReported}, "target stage 2 c1 failed (reported_failed)", "and why"},
	} {
		if got := row.event.String(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.why, got, row.want)
		}
	}
}

// TestFirstEvents: a step tells all that it changed, in the order in which it did, and at last what
// that makes of the run.
func TestFirstEvents(t *testing.T) {
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, result := step(t, run, staged.Input{}, benchStart)
	want := []staged.Event{
		{Kind: staged.EventStage, Stage: 0, To: "Updating"},
		{Kind: staged.EventTarget, Stage: 0, Target: "c1", To: "starting"},
		{Kind: staged.EventRun, Stage: -1, To: "Progressing"},
	}
	if !slices.Equal(result.Events, want) {
		t.Errorf("got %v, want %v", result.Events, want)
	}
}

// TestOneStepInOrder: where an input says several things, what is said first in the order of a step
// decides.
func TestOneStepInOrder(t *testing.T) {
	command := func(kinds ...staged.CommandKind) (in staged.Input) {
		for _, kind := range kinds {
			c := staged.Command{Kind: kind, Run: "run"}
			switch kind {
			case staged.CommandSkip:
				c.Target = "c1"
			case staged.CommandRetry:
				c.Target, c.Attempt = "c1", 1
			default:
				c.Side = staged.After
			}
			in.Commands = append(in.Commands, c)
		}
		return in
	}
	removed, ready := command(staged.CommandSkip), staged.Input{}
	removed.Removed = []string{"c1"}
	ready.Observations = []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady}}
	gone := ready
	gone.Leaving = []string{"c1"}
	both := ready
	both.Commands = command(staged.CommandSkip).Commands
	failed := staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthFailed}}}
	asked := []staged.Input{ready}
	for _, row := range []struct {
		why   string
		first []staged.Input
		input staged.Input
		after time.Duration
		want  string // of c1 and of the approval behind the stage
	}{
		{"a command comes before the fleet", nil, removed, 0, "c1 skipped, requested"},
		{"and before what is observed", nil, both, 0, "c1 skipped, requested"},
		{"the fleet comes before what is observed", nil, gone, 0, "c1 removed, requested"},
		{"what is observed comes before the deadline", nil, ready, time.Minute, "c1 done, requested"},
		{"even what is only in time in the order of a step", nil, ready, time.Hour, "c1 done, requested"},
		{"nobody has seen it, and the deadline is over", nil, staged.Input{}, time.Minute, "c1 timedOut, none"},
		{"a retry comes before a skip, if it is said before it", []staged.Input{failed}, command(staged.CommandRetry, staged.CommandSkip), 0, "c1 skipped attempt 2, requested"},
		{"and a skip before a retry", []staged.Input{failed}, command(staged.CommandSkip, staged.CommandRetry), 0, "c1 skipped, requested"},
		{"no, and then yes", asked, command(staged.CommandReject, staged.CommandApprove), 0, "c1 done, approved"},
		{"yes is final", asked, command(staged.CommandApprove, staged.CommandReject), 0, "c1 done, approved"},
	} {
		stage := all("only", 1)
		stage.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
		stage.ProgressDeadline = staged.For(time.Minute)
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{OnFailure: staged.Hold, OnReject: staged.Hold}, []string{"c1"})
		for _, in := range row.first {
			s.step(in)
		}
		s.after(row.after).step(row.input)
		target, _ := s.run.Target("c1")
		for stage := range s.run.Stages() {
			if got := fmt.Sprint(target, ", ", stage.After.State); got != row.want {
				t.Errorf("%s: got %s, want %s", row.why, got, row.want)
			}
			break
		}
	}
}

// TestActionsWhileEnding: an action that nobody acknowledged may have had its effect, so that it is
// repeated in every phase but the terminal ones.
func TestActionsWhileEnding(t *testing.T) {
	fail := staged.Input{Observations: []staged.Observation{{Target: "c2", Version: "v2", Health: staged.HealthFailed}}}
	for _, row := range []struct {
		phase   staged.Phase
		options staged.Options
		input   staged.Input
	}{
		{staged.PhaseProgressing, staged.Options{}, staged.Input{}},
		{staged.PhaseHeld, staged.Options{OnFailure: staged.Hold}, fail},
		{staged.PhaseStopping, staged.Options{}, staged.Input{State: staged.StateStop}},
		{staged.PhaseStopped, staged.Options{StopGrace: staged.For(0)}, staged.Input{State: staged.StateStop}},
		{staged.PhaseFailing, staged.Options{}, fail},
		{staged.PhaseFailed, staged.Options{StopGrace: staged.For(0)}, fail},
		{staged.PhaseCancelling, staged.Options{}, staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}},
		{staged.PhaseCancelled, staged.Options{StopGrace: staged.For(0)}, staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}},
	} {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}}, row.options, []string{"c1", "c2"})
		token := s.tokens["c1"]
		s.step(row.input).step(staged.Input{})
		repeated := slices.ContainsFunc(s.result.Actions, func(a staged.Action) bool { return a.Kind == staged.Start && a.Token == token })
		if s.run.Phase() != row.phase || repeated == row.phase.Terminal() {
			t.Errorf("%s, want %s: %v", s.run.Phase(), row.phase, s.result.Actions)
		}
		why := staged.ReasonInProgress // before all that keeps others from starting
		if row.phase.Terminal() {
			why = staged.ReasonEnded
		}
		if v, ok := s.run.Explain("c1"); !ok || v.Reason != why {
			t.Errorf("%s: c1 is explained by %s, want %s", row.phase, v, why)
		}
	}
}

// TestRetryWhileEnding: a run that is failing or cancelling takes nobody back.
func TestRetryWhileEnding(t *testing.T) {
	for _, most := range []int{0, 1} {
		stage := all("only", 2)
		stage.MaxFailures = concurrency.Count(most)
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{}, []string{"c1", "c2"}).see(staged.HealthFailed, "c2")
		want := staged.PhaseFailing
		if most > 0 {
			want = staged.PhaseCancelling
			s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}})
		}
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c2", Attempt: 1}}}).want(want, "c1 starting, c2 failed (reported_failed)")
		if e := s.result.Events; len(e) != 1 || e[0].Reason != staged.ReasonEnding {
			t.Errorf("%s: %v", want, e)
		}
	}
}

// TestGraceIsNotExtended: what stops a run that is ending already does not give it more time.
func TestGraceIsNotExtended(t *testing.T) {
	for _, ending := range []staged.Phase{staged.PhaseFailing, staged.PhaseCancelling} {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}}, staged.Options{StopGrace: staged.For(2 * time.Minute)}, []string{"c1", "c2"})
		end := staged.PhaseCancelled
		if ending == staged.PhaseFailing {
			end = staged.PhaseFailed
			s.see(staged.HealthFailed, "c1")
		} else {
			s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}})
		}
		s.left(2 * time.Minute).after(time.Minute).step(staged.Input{State: staged.StateStop}).left(time.Minute)
		if s.run.Phase() != ending {
			t.Errorf("%s: %s", ending, s.run.Phase())
		}
		if s.after(time.Minute).step(staged.Input{}); s.run.Phase() != end {
			t.Errorf("%s: %s after its grace", ending, s.run.Phase())
		}
	}
}

// TestIgnoredCommands: an event says what was ignored, of which stage or target, and why.
func TestIgnoredCommands(t *testing.T) {
	run := midRun(t)
	approve := staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before}
	change := func(of func(*staged.Command)) staged.Command {
		c := approve
		of(&c)
		return c
	}
	for _, row := range []struct {
		why     string
		command staged.Command
		want    staged.Event
	}{
		{"approved already", approve, staged.Event{Stage: 1, Side: staged.Before, Reason: staged.ReasonAlready}},
		{"of another run", change(func(c *staged.Command) { c.Run = "other" }), staged.Event{Stage: 1, Side: staged.Before, Reason: staged.ReasonOtherRun}},
		{"not asked for", change(func(c *staged.Command) { c.Side = staged.After }), staged.Event{Stage: 1, Side: staged.After, Reason: staged.ReasonNotRequested}},
		{"a stage behind the last", change(func(c *staged.Command) { c.Stage = 3 }), staged.Event{Stage: 3, Side: staged.Before, Reason: staged.ReasonUnknownStage}},
		{"a skip for another run", staged.Command{Kind: staged.CommandSkip, Run: "other", Target: "b1"}, staged.Event{Stage: -1, Target: "b1", Reason: staged.ReasonOtherRun}},
		{"a retry for another run", staged.Command{Kind: staged.CommandRetry, Run: "other", Target: "a2", Attempt: 1}, staged.Event{Stage: -1, Target: "a2", Reason: staged.ReasonOtherRun}},
		{"a cancel of another run", staged.Command{Kind: staged.CommandCancel, Run: "other"}, staged.Event{Stage: -1, Reason: staged.ReasonOtherRun}},
		{"an approval of no run", change(func(c *staged.Command) { c.Run = "" }), staged.Event{Stage: 1, Side: staged.Before, Reason: staged.ReasonOtherRun}},
		{"the end of a wait of no run", staged.Command{Kind: staged.CommandEndWait, Stage: 1}, staged.Event{Stage: 1, Reason: staged.ReasonOtherRun}},
		{"the end of a wait of another run", staged.Command{Kind: staged.CommandEndWait, Run: "other", Stage: 1}, staged.Event{Stage: 1, Reason: staged.ReasonOtherRun}},
		{"the end of a wait behind the last stage", staged.Command{Kind: staged.CommandEndWait, Run: "run", Stage: 3}, staged.Event{Stage: 3, Reason: staged.ReasonUnknownStage}},
		{"the end of a wait before the first stage", staged.Command{Kind: staged.CommandEndWait, Run: "run", Stage: -1}, staged.Event{Stage: -1, Reason: staged.ReasonUnknownStage}},
		{"the end of a wait that is over", staged.Command{Kind: staged.CommandEndWait, Run: "run"}, staged.Event{Reason: staged.ReasonAlready}},
		{"the end of a wait that the stage does not have", staged.Command{Kind: staged.CommandEndWait, Run: "run", Stage: 1}, staged.Event{Stage: 1, Reason: staged.ReasonNotWaiting}},
		{"a stage before the first", change(func(c *staged.Command) { c.Stage = -1 }), staged.Event{Stage: -1, Side: staged.Before, Reason: staged.ReasonUnknownStage}},
		{"a target of nobody", staged.Command{Kind: staged.CommandSkip, Target: "z1"}, staged.Event{Stage: -1, Target: "z1", Reason: staged.ReasonUnknownTarget}},
		{"a target that is done is not skipped", staged.Command{Kind: staged.CommandSkip, Target: "a1"}, staged.Event{Stage: -1, Target: "a1", Reason: staged.ReasonAlready}},
		{"a target that is done", staged.Command{Kind: staged.CommandRetry, Target: "a1", Attempt: 1}, staged.Event{Stage: -1, Target: "a1", Reason: staged.ReasonNotFailed}},
	} {
		row.want.Kind, row.want.To = staged.EventCommandIgnored, string(row.command.Kind)
		_, result := step(t, run, staged.Input{Commands: []staged.Command{row.command}}, run.Time())
		if !slices.Equal(result.Events, []staged.Event{row.want}) {
			t.Errorf("%s: got %+v, want %+v", row.why, result.Events, row.want)
		}
	}
}

// TestEventsOfAWait: that it runs is told when the last member is settled, and that it is over when
// it is.
func TestEventsOfAWait(t *testing.T) {
	s := newScene(t, waiting(time.Hour, all("only", 1)), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1")
	want := []staged.Event{
		{Kind: staged.EventTarget, Target: "c1", To: "done"}, {Kind: staged.EventStage, To: "WaitingAfter"}, {Kind: staged.EventWait, To: "running"}, {Kind: staged.EventRun, Stage: -1, To: "Waiting"},
	}
	if !slices.Equal(s.result.Events, want) {
		t.Errorf("got %v, want %v", s.result.Events, want)
	}
	want = []staged.Event{{Kind: staged.EventWait, To: "elapsed"}, {Kind: staged.EventStage, To: "Succeeded"}, {Kind: staged.EventStage, Stage: 1, To: "Skipped"}, {Kind: staged.EventRun, Stage: -1, To: "Succeeded"}}
	if s.after(time.Hour).step(staged.Input{}); !slices.Equal(s.result.Events, want) {
		t.Errorf("got %v, want %v", s.result.Events, want)
	}
	asks := all("only", 1)
	asks.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	s = newScene(t, staged.Strategy{Stages: []staged.Stage{asks}}, staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1")
	if slices.ContainsFunc(s.result.Events, func(e staged.Event) bool { return e.Kind == staged.EventWait }) {
		t.Errorf("there is no wait: %v", s.result.Events)
	}
}

// TestNobody: what is observed of a target that the run does not have is ignored, once for each,
// and there is nothing to be told of it.
func TestNobody(t *testing.T) {
	run := midRun(t)
	_, result := step(t, run, staged.Input{Observations: []staged.Observation{{Target: "z2"}, {Target: "z1"}, {Target: "z2", Gone: true}}}, run.Time())
	var want []staged.Event
	for _, name := range []string{"z1", "z2"} {
		want = append(want, staged.Event{Kind: staged.EventObservationIgnored, Stage: -1, Target: name, Reason: staged.ReasonUnknownTarget})
	}
	if !slices.Equal(result.Events, want) || result.Changed {
		t.Errorf("got %v, want %v", result.Events, want)
	}
	status, known := run.Target("z1")
	if _, explained := run.Explain("z1"); known || explained || status != (staged.TargetStatus{}) {
		t.Errorf("%+v is known", status)
	}
}

// TestCommandsThatHaveAnEffect: nothing is said to be ignored of a command that was carried out,
// and a second one like it is.
func TestCommandsThatHaveAnEffect(t *testing.T) {
	for _, c := range []staged.Command{
		{Kind: staged.CommandCancel}, {Kind: staged.CommandCancel, Run: "run"}, {Kind: staged.CommandSkip, Run: "run", Target: "b1"}, {Kind: staged.CommandSkip, Target: "b1"}, {Kind: staged.CommandSkip, Target: "b3"}, {Kind: staged.CommandSkip, Target: "a2"}, {Kind: staged.CommandSkip, Target: "d1"},
	} {
		ignored := staged.Event{Kind: staged.EventCommandIgnored, Stage: -1, Target: c.Target, To: string(c.Kind), Reason: staged.ReasonAlready}
		run := midRun(t)
		if _, result := step(t, run, staged.Input{Commands: []staged.Command{c}}, run.Time()); slices.Contains(result.Events, ignored) {
			t.Errorf("%+v: %v", c, result.Events)
		}
		_, result := step(t, run, staged.Input{Commands: []staged.Command{c, c}}, run.Time())
		if n := len(slices.DeleteFunc(result.Events, func(e staged.Event) bool { return e != ignored })); n != 1 {
			t.Errorf("%+v, twice: said to be ignored %d times", c, n)
		}
	}
	// One that left its stage as a failure, and is skipped there and in the cleanup.
	stage := all("only", 1)
	stage.MaxFailures = concurrency.Count(1)
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{LateLeaving: staged.Clean}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1").step(staged.Input{Leaving: []string{"c1"}})
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}})
	if len(s.result.Events) != 2 || s.result.Events[0].To != "skipped" || s.result.Events[1].To != "skipped" {
		t.Errorf("got %v, want it skipped twice", s.result.Events)
	}
}

// TestVerdictsNameTen: a verdict names the first ten and counts the others.
func TestVerdictsNameTen(t *testing.T) {
	for _, row := range []struct {
		limit int
		want  string
	}{
		{1, "slot, 1 of 1 in progress: c01, waits for a target to be settled"},
		{10, "slot, 10 of 10 in progress: c01, c02, c03, c04, c05, c06, c07, c08, c09, c10, waits for a target to be settled"},
		{12, "slot, 12 of 12 in progress: c01, c02, c03, c04, c05, c06, c07, c08, c09, c10 and 2 more, waits for a target to be settled"},
	} {
		stage := all("all", row.limit)
		var names []string
		for i := range 14 {
			names = append(names, fmt.Sprintf("c%02d", i+1))
		}
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf(names...), staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, _ = step(t, run, staged.Input{}, benchStart)
		v, waits := run.Explain("c14")
		v.Until = time.Time{}
		if !waits || v.String() != row.want {
			t.Errorf("got  %s\nwant %s", v, row.want)
		}
	}
}

// TestRegressedAcrossStages: what regressed in several stages is named in order, ten at most.
func TestRegressedAcrossStages(t *testing.T) {
	for _, row := range []struct {
		sizes [2]int
		want  string
	}{
		{[2]int{7, 7}, "a0, a1, a2, a3, a4, a5, a6, b0, b1, b2 and 4 more"},
		{[2]int{10, 2}, "a0, a1, a2, a3, a4, a5, a6, a7, a8, a9 and 2 more"},
	} {
		var stages []staged.Stage
		var names []string
		f := staged.Fleet{Version: "v2"}
		for k, ring := range []string{"a", "b"} {
			stage := all(fmt.Sprint("s", k), 20)
			stage.LabelSelector.MatchLabels = map[string]string{"ring": ring}
			stages = append(stages, stage)
			for i := range row.sizes[k] {
				names = append(names, fmt.Sprint(ring, i))
				f.Targets = append(f.Targets, staged.Target{Name: fmt.Sprint(ring, i), Labels: map[string]string{"ring": ring}})
			}
		}
		stages[1].AfterStageTasks = []staged.Task{{Type: staged.Approval}}
		see := func(health staged.Health) (in staged.Input) {
			for _, name := range names {
				in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
			}
			return in
		}
		run, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), f, staged.Options{VerifyDone: staged.Always, OnRegression: staged.Block})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range []staged.Input{{}, see(staged.HealthReady), see(staged.HealthReady), see(staged.HealthFailing)} {
			run, _ = step(t, run, in, benchStart)
		}
		v, waits := run.Waits()
		if !waits || !strings.Contains(v.String(), row.want) || len(v.Data.Names) != 10 || v.Data.Total != len(names) {
			t.Errorf("got %s, want %s", v, row.want)
		}
	}
}

// TestNamesInFaults: ten are shown.
func TestNamesInFaults(t *testing.T) {
	for n, want := range map[int]string{
		1:  "targets: 1: in no stage: c00: change",
		10: "targets: 10: in no stage: c00, c01, c02, c03, c04, c05, c06, c07, c08, c09: change",
		11: "c08, c09 and 1 more: change",
		13: "c08, c09 and 3 more: change",
	} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("c%02d", i))
		}
		stage := all("some", 1)
		stage.LabelSelector.MatchLabels = map[string]string{"ring": "a"}
		_, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf(names...), staged.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: got %v, want %s", n, err, want)
		}
	}
}

// TestNamelessInFaults: a target without a name is an entry of the list, not just a comma.
func TestNamelessInFaults(t *testing.T) {
	stages := []staged.Stage{{Name: "a", Targets: []string{"c1"}}}
	_, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleetOf("c1", "c2", ""), staged.Options{})
	if want := `targets: 2: in no stage: "", c2: change`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOverlapsInFaults: all targets of two stages are counted, and the others are none.
func TestOverlapsInFaults(t *testing.T) {
	stages := []staged.Stage{{Name: "a", Targets: []string{"c1", "c2", "c4"}}, {Name: "b", Targets: []string{"c1", "c3", "c4"}}}
	_, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleetOf("c1", "c2", "c3", "c4"), staged.Options{})
	if want := `targets: 2: in more than one stage: c1, c4: change the selectors, or choose overlap "first"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestOverlapsHideNoOtherFault: a target of two stages is reported for each of them that cannot
// sort it, in the same breath as the overlap.
func TestOverlapsHideNoOtherFault(t *testing.T) {
	stages := []staged.Stage{{Name: "a", Targets: []string{"c1", "c2"}, SortingLabelKey: "order"}, {Name: "b", Targets: []string{"c1"}}, {Name: "c", Targets: []string{"c1", "c2"}, SortingLabelKey: "wave"}}
	fleet := staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "c2", Labels: map[string]string{"order": "1", "wave": "2"}}, {Name: "c1", Labels: map[string]string{"wave": "x"}}}}
	_, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleet, staged.Options{})
	want := `targets["c1"].labels["order"]: must be there, because stages[0].sortingLabelKey sorts by it, or choose missingSortKey "last"
targets["c1"].labels["wave"]: "x": must be a whole number from 0 to 9223372036854775807, in digits: stages[2].sortingLabelKey sorts by it
targets: 2: in more than one stage: c1, c2: change the selectors, or choose overlap "first"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	fleet.Targets[1].Labels["order"] = "2"
	if _, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleet, staged.Options{Overlap: staged.First}); err != nil {
		t.Errorf("only the first counts by the options, and that can sort it: %v", err)
	}
}

// TestNameOfTheRest: the stage of those that no other takes has a name of its own.
func TestNameOfTheRest(t *testing.T) {
	for want, taken := range map[string][]string{"unmatched": {"a"}, "unmatched2": {"unmatched"}, "unmatched4": {"unmatched2", "unmatched", "unmatched3"}} {
		var stages []staged.Stage
		for _, name := range taken {
			stage := all(name, 1)
			stage.LabelSelector.MatchLabels = map[string]string{"ring": name}
			stages = append(stages, stage)
		}
		run, err := staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleetOf("c1"), staged.Options{Unmatched: staged.Last})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for s := range run.Stages() {
			names = append(names, s.Name)
		}
		if len(names) != len(taken)+2 || names[len(taken)] != want {
			t.Errorf("got %v, want %s behind the stages of the strategy", names, want)
		}
	}
}

// TestRunShowsTwelve: of a larger stage a run shows the first twelve, and counts of the states as
// soon as there is more than one.
func TestRunShowsTwelve(t *testing.T) {
	for n, want := range map[int][2]string{
		12: {"c11, c12\n", "c11, c12\n"},
		13: {"c12, and 1 more\n", "c12, and 1 more\n    counts: 11 waiting, 2 starting\n"},
		15: {"c12, and 3 more\n", "c12, and 3 more\n    counts: 13 waiting, 2 starting\n"},
	} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("c%02d", i+1))
		}
		fresh, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("all", 2)}}, benchSpec(), fleetOf(names...), staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		begun, _ := step(t, fresh, staged.Input{}, benchStart)
		for i, run := range []*staged.Run{fresh, begun} {
			if text := run.String(); !strings.HasSuffix(text+"\n", want[i]) {
				t.Errorf("%d targets: got\n%s\nwant at the end %q", n, text, want[i])
			}
		}
	}
}

// TestRunShowsWhoIsInTrouble: who is in progress, failed or regressed is told by name, the first
// ten of each, wherever in the stage they are; and none of them twice.
func TestRunShowsWhoIsInTrouble(t *testing.T) {
	var names, many []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("c%02d", i+1))
	}
	for i := range 200 {
		many = append(many, fmt.Sprintf("m%03d", i+1))
	}
	stage := all("all", 15)
	stage.MaxFailures = concurrency.Count(40)
	strategy := staged.Strategy{Stages: []staged.Stage{stage}}
	gatedStage := all("all", 15)
	gatedStage.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	start := func() *scene { return newScene(t, strategy, staged.Options{VerifyDone: staged.Always}, names) }
	for _, c := range []struct {
		why   string
		scene *scene
		want  string
	}{
		{"all of whom are among the first twelve", start().see(staged.HealthReady, names[5:15]...).see(staged.HealthReady, names[15:]...).see(staged.HealthReady, names[30:]...).see(staged.HealthFailed, "c01"),
			"and 28 more\n    counts: 4 starting, 35 done, 1 failed"},
		{"three of fifteen are not among the first twelve, one of whom is stuck", start().after(5*time.Minute-1).see(staged.HealthProgressing, "c14").see(staged.HealthReady, "c13").after(1).step(staged.Input{}),
			"and 28 more\n    counts: 24 waiting, 14 starting, 1 updating, 1 done, 14 stuck\n    others in progress: c14 updating stuck, c15 starting stuck, c16 starting"},
		{"more than ten are being updated", start().see(staged.HealthReady, names[:12]...).see(staged.HealthProgressing, names[12:25]...),
			"and 28 more\n    counts: 13 waiting, 2 starting, 13 updating, 12 done\n    others in progress: c13 updating, c14 updating, c15 updating, c16 updating, c17 updating, c18 updating, c19 updating, c20 updating, c21 updating, c22 updating, and 5 more"},
		{"ten of many more, which are stored apart", newScene(t, staged.Strategy{Stages: []staged.Stage{all("all", 200)}}, staged.Options{}, many),
			"and 188 more\n    counts: 200 starting\n    others in progress: m013 starting, m014 starting, m015 starting, m016 starting, m017 starting, m018 starting, m019 starting, m020 starting, m021 starting, m022 starting, and 178 more"},
		{"all of them failed, and fifteen others are in progress", start().see(staged.HealthFailed, names[:15]...),
			"and 28 more\n    counts: 10 waiting, 15 starting, 15 failed\n    others in progress: c16 starting, c17 starting, c18 starting, c19 starting, c20 starting, c21 starting, c22 starting, c23 starting, c24 starting, c25 starting, and 5 more\n" +
				"    others failed: c13 failed (reported_failed), c14 failed (reported_failed), c15 failed (reported_failed)"},
		{"one failed and was retried, and two regressed", start().see(staged.HealthReady, names[:12]...).see(staged.HealthReady, "c13", "c14").see(staged.HealthFailed, "c15").
			step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c15", Attempt: 1}}}).see(staged.HealthFailing, "c01", "c13", "c14"),
			"and 28 more\n    counts: 11 waiting, 15 starting, 14 done, 3 regressed\n    others in progress: c16 starting, c17 starting, c18 starting, c19 starting, c20 starting, c21 starting, c22 starting, c23 starting, c24 starting, c25 starting, and 5 more\n" +
				"    others regressed: c13 done regressed (unhealthy), c14 done regressed (unhealthy)"},
		{"nobody has started, and twelve of those behind the first twelve are suspended", newScene(t, staged.Strategy{Stages: []staged.Stage{gatedStage}}, staged.Options{}, names).step(suspend(names[10:24]...)),
			"c11 suspended" + byAnn + ", c12 suspended" + byAnn + ", and 28 more\n    counts: 40 waiting, 14 suspended\n    others suspended: c13 suspended" + byAnn + ", c14 suspended" + byAnn + ", c15 suspended" + byAnn +
				", c16 suspended" + byAnn + ", c17 suspended" + byAnn + ", c18 suspended" + byAnn + ", c19 suspended" + byAnn + ", c20 suspended" + byAnn + ", c21 suspended" + byAnn + ", c22 suspended" + byAnn + ", and 2 more"},
	} {
		if text := c.scene.run.String(); !strings.HasSuffix(text, c.want) {
			t.Errorf("%s: got\n%s\nwant at the end\n%s", c.why, text, c.want)
		}
	}
}

// TestNoSuchStage: a stage that the run does not have has no targets; a host may have its index from
// an event, where -1 means no stage.
func TestNoSuchStage(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1"})
	for _, stage := range []int{-1, 2} {
		for target := range s.run.Targets(stage) {
			t.Errorf("stage %d has %s", stage, target)
		}
	}
}

// TestRefusedStates: the value is quoted, as that of a state that does not exist is, and the hint says
// what may follow.
func TestRefusedStates(t *testing.T) {
	for _, row := range []struct {
		from, to staged.State
		hint     string
	}{
		{staged.StateInitialize, staged.StateStop, `state: "Stop": must be "Run" first`},
		{staged.StateRun, staged.StateInitialize, `state: "Initialize": must be "Run" or "Stop"`},
		{staged.StateStop, staged.StateInitialize, `state: "Initialize": must be "Run" or "Stop"`},
	} {
		from, to := benchSpec(), benchSpec()
		from.State, to.State = row.from, row.to
		if err := from.ValidateUpdate(to); err == nil || !strings.Contains(err.Error(), row.hint) {
			t.Errorf("%s to %s: %v", row.from, row.to, err)
		}
	}
}

// TestTargetStates: each has a name by which it is found again, and is settled or not; what is no
// state has neither.
func TestTargetStates(t *testing.T) {
	settled := map[string]bool{"waiting": false, "starting": false, "updating": false, "soaking": false, "done": true, "failed": true, "timedOut": true, "skipped": true, "removed": true}
	for state := staged.Waiting; state <= staged.Removed; state++ {
		text, err := state.MarshalText()
		want, named := settled[string(text)]
		back := staged.TargetState(99)
		if err2 := back.UnmarshalText(text); err != nil || err2 != nil || back != state || !named || state.Settled() != want {
			t.Errorf("%d: %s, %v, came back as %s, %v; settled %t", state, text, err, back, err2, state.Settled())
		}
		delete(settled, string(text))
	}
	unknown := staged.Removed + 1
	if _, err := unknown.MarshalText(); err == nil || unknown.Settled() || len(settled) > 0 {
		t.Errorf("%s is settled %t, has a text: %v; missing %v", unknown, unknown.Settled(), err, settled)
	}
	state := staged.Done
	const hint = `: must be "waiting", "starting", "updating", "soaking", "done", "failed", "timedOut", "skipped" or "removed"`
	for _, text := range []string{"", "Done", "TargetState(9)", "finished"} {
		if err := state.UnmarshalText([]byte(text)); err == nil || state != staged.Done || err.Error() != strconv.Quote(text)+hint {
			t.Errorf("%q is read as %s: %v", text, state, err)
		}
	}
}

// TestYears: a run keeps nanoseconds, so the years are bounded; outside of them a step is an error
// and no wrap.
func TestYears(t *testing.T) {
	run := midRun(t)
	fresh, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		now time.Time
		ok  bool
	}{
		{time.Date(1969, 12, 31, 23, 59, 59, 999_999_999, time.UTC), false},
		{time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), true},
		{time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC), true},
		{time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), false},
		{time.Date(2262, 1, 1, 0, 59, 59, 0, time.FixedZone("east", 3600)), true}, // an hour before it is that in Greenwich
		{time.Date(2261, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -3600)), false},
	} {
		for _, one := range []*staged.Run{run, fresh} {
			next, _, err := staged.Step(one, staged.Input{}, row.now)
			if (err == nil) != row.ok || err != nil && next != one {
				t.Errorf("%v: %v", row.now, err)
			}
			if err == nil && next.Time().Before(one.Time()) {
				t.Errorf("%v: the time of the run goes back to %v", row.now, next.Time())
			}
		}
	}
}

// TestCenturiesBetweenSteps: however long nobody steps, the run can be stored and read.
func TestCenturiesBetweenSteps(t *testing.T) {
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, result := step(t, run, staged.Input{}, time.Unix(0, 0))
	run, _ = step(t, run, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: run.Version(), Health: staged.HealthReady, Token: result.Actions[0].Token}}},
		time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC))
	var stored staged.Run
	if err := json.Unmarshal(encode(t, run), &stored); err != nil {
		t.Fatal(err)
	}
	first, _ := stored.Target("c1")
	second, _ := stored.Target("c2")
	if !first.Start.Equal(time.Unix(0, 0)) || !first.End.Equal(run.Time()) || !second.Start.Equal(run.Time()) {
		t.Errorf("%+v, %+v", first, second)
	}
}

// TestLongestDeadlines: an instant that nothing can hold is never.
func TestLongestDeadlines(t *testing.T) {
	for _, deadline := range []time.Duration{1<<63 - 1, 1<<63 - 2, 280 * 365 * 24 * time.Hour} {
		stage := all("only", 1)
		stage.ProgressDeadline = staged.For(deadline)
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf("c1"), staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, _ = step(t, run, staged.Input{}, benchStart)
		for _, now := range []time.Time{benchStart.Add(time.Hour), time.Date(2261, 12, 31, 0, 0, 0, 0, time.UTC)} {
			var result staged.Result
			if run, result = step(t, run, staged.Input{}, now); run.Phase() != staged.PhaseProgressing || now.Year() > 2200 && !result.Next.IsZero() {
				t.Errorf("a deadline of %v, at %v: %s, next %v", deadline, now, run.Phase(), result.Next)
			}
		}
	}
	s := newScene(t, waiting(1<<63-1, all("only", 1)), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").want(staged.PhaseWaiting, "c1 done").left(0)
	for stage := range s.run.Stages() {
		if stage.WaitFrom.IsZero() || !stage.WaitUntil.IsZero() {
			t.Errorf("a wait without end: %+v", stage)
		}
		break
	}
}

// TestLastNext: a host can step at every Next, up to the end of the years; what would happen later
// never does.
func TestLastNext(t *testing.T) {
	end := time.Date(2261, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	stage := all("only", 1)
	stage.ProgressDeadline = staged.For(time.Minute)
	for left, want := range map[time.Duration]bool{time.Minute: true, time.Minute - 1: false} {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleetOf("c1"), staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, result := step(t, run, staged.Input{}, end.Add(-left))
		if result.Next.IsZero() == want || want && !result.Next.Equal(end) {
			t.Errorf("%v before the end: next is %v", left, result.Next)
		}
		run, result = step(t, run, staged.Input{}, end)
		if target, _ := run.Target("c1"); (target.State == staged.TimedOut) != want || !result.Next.IsZero() {
			t.Errorf("%v before the end: at the end %s, next %v", left, target, result.Next)
		}
	}
}

// An observation without a token that does not show the version of the run may have been made
// before the start: not even a failed health counts.
func TestUnacknowledgedHealth(t *testing.T) {
	for _, row := range []struct {
		why   string
		seen  staged.Observation
		state staged.TargetState
	}{
		{"nothing shows that it came after the start", staged.Observation{Target: "a"}, staged.Starting},
		{"the version shows it", staged.Observation{Target: "a", Version: "5"}, staged.Failed},
		{"the token shows it", staged.Observation{Target: "a", Token: staged.Token{Run: "r", Target: "a", Attempt: 1, Kind: staged.Start}}, staged.Failed},
	} {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{{Name: "s", Targets: []string{"a"}}}},
			staged.Spec{Name: "r", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun},
			staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "a"}}}, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
		row.seen.Health = staged.HealthFailed
		for _, input := range []staged.Input{{}, {Observations: []staged.Observation{row.seen}}} {
			if run, _, err = staged.Step(run, input, now); err != nil {
				t.Fatal(err)
			}
		}
		if target, _ := run.Target("a"); target.State != row.state {
			t.Errorf("%s: %s, want %s", row.why, target.State, row.state)
		}
	}
}

// TestVerdictOfAHost: a verdict that no run gives names every event that it waits for, too: two
// observations share their words, and nothing else takes part in them.
func TestVerdictOfAHost(t *testing.T) {
	seen := func(name string) staged.Condition {
		return staged.Condition{Kind: staged.OnObservation, Target: name}
	}
	v := staged.Verdict{Reason: staged.ReasonRegression, On: []staged.Condition{seen("a"), seen("b"), {Kind: staged.OnSlot}, seen("c"), {Kind: staged.OnOperator, Detail: "skip"}}}
	if got, want := v.String(), "regression, waits for an observation of a and b or a target to be settled or an observation of c and an operator to skip"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
