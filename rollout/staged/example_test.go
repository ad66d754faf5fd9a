package staged_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// The strategy of KubeFleet's documentation, played with clusters that are ready at once. The run
// is shown before it starts and while it waits.
func ExampleStep() {
	var strategy staged.Strategy
	if err := json.Unmarshal([]byte(`{
		"kind": "ClusterStagedUpdateStrategy", "metadata": {"name": "cluster-config-strategy"},
		"spec": {"stages": [
			{"name": "staging", "labelSelector": {"matchLabels": {"environment": "staging"}}, "maxConcurrency": 2,
			 "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]},
			{"name": "canary", "labelSelector": {"matchLabels": {"environment": "canary"}}, "beforeStageTasks": [{"type": "Approval"}]}
		]}}`), &strategy); err != nil {
		panic(err)
	}
	spec := staged.Spec{Name: "example-run", PlacementName: "example-placement", StagedRolloutStrategyName: "cluster-config-strategy", State: staged.StateRun}
	fleet := staged.Fleet{Version: "5", Targets: []staged.Target{
		{Name: "stage-1", Labels: map[string]string{"environment": "staging"}},
		{Name: "stage-2", Labels: map[string]string{"environment": "staging"}},
		{Name: "canary-1", Labels: map[string]string{"environment": "canary"}},
	}}
	run, err := staged.Compile(strategy, spec, fleet, staged.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(run)

	now := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	var input staged.Input
	for !run.Phase().Terminal() {
		var result staged.Result
		run, result, err = staged.Step(run, input, now) // store the run, then act
		if err != nil {
			panic(err)
		}
		waits, _ := run.Waits()
		fmt.Printf("%s %s: %s\n", now.Format("15:04"), run.Phase(), waits.Reason)
		input = staged.Input{}
		for _, a := range result.Actions {
			fmt.Println("  ", a)
			switch a.Kind {
			case staged.Start:
				input.Observations = append(input.Observations, staged.Observation{Target: a.Target, Version: a.Version, Health: staged.HealthReady, Token: a.Token})
			case staged.RequestApproval:
				input.Commands = append(input.Commands, staged.Command{Kind: staged.CommandApprove, Run: a.Run, Stage: a.Stage, Side: a.Side})
			}
		}
		if len(result.Actions) == 0 {
			now = result.Next // nothing to do until then
		}
	}
	// Output:
	// run example-run: Initialized, version 5 of example-placement, 0 of 3 targets done
	//   waits: initialized (the first step is still to come)
	//   stage 0 staging: Pending, 2 at a time, at most 0 failures
	//     targets: stage-1, stage-2
	//     after: wait 1h
	//   stage 1 canary: Pending, 1 at a time, at most 0 failures
	//     before: approval example-run-before-canary
	//     targets: canary-1
	// 08:00 Progressing: slot
	//    start stage-1, attempt 1
	//    start stage-2, attempt 1
	// 08:00 Waiting: wait
	// 09:00 Waiting: approval
	//    request approval example-run-before-canary
	// 09:00 Progressing: slot
	//    start canary-1, attempt 1
	// 09:00 Succeeded: ended
}

// A stage that begins in working hours only. The gate is an approval, and the calendar answers it:
// the host approves while it is open, and looks again when it opens.
func ExampleStep_calendar() {
	hours, err := clock.ParseWindow([]byte(`{"weekly": {"days": ["mon", "tue", "wed", "thu", "fri"], "start": "09:00", "end": "17:00"}}`))
	if err != nil {
		panic(err)
	}
	calendar, err := clock.NewCalendar([]clock.Window{hours}, time.LoadLocation)
	if err != nil {
		panic(err)
	}
	run, err := staged.Compile(
		staged.Strategy{Stages: []staged.Stage{{Name: "prod", Targets: []string{"prod-1"}, BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}}},
		staged.Spec{Name: "example-run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun},
		staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "prod-1"}}}, staged.Options{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 13, 18, 0, 0, 0, time.UTC) // a Friday
	var input staged.Input
	for range 3 {
		var result staged.Result
		if run, result, err = staged.Step(run, input, now); err != nil {
			panic(err)
		}
		for _, e := range result.Events {
			if e.Decision != nil {
				fmt.Println(now.Format("Mon 15:04"), e)
			}
		}
		input = staged.Input{}
		for _, a := range result.Actions {
			fmt.Println(now.Format("Mon 15:04"), a)
			if a.Kind != staged.RequestApproval {
				continue
			}
			if calendar.Open(now) {
				input.Commands = append(input.Commands, staged.Command{
					Kind: staged.CommandApprove, Run: a.Run, Stage: a.Stage, Side: a.Side, By: "calendar", At: now, Reason: "office hours"})
			} else if now, err = calendar.NextOpen(now); err != nil { // or result.Next, if that is sooner
				panic(err)
			}
		}
	}
	// Output:
	// Fri 18:00 request approval example-run-before-prod
	// Mon 09:00 request approval example-run-before-prod
	// Mon 09:00 approval stage 0 before approved (by calendar at 2026-03-16T09:00:00Z: office hours)
	// Mon 09:00 start prod-1, attempt 1
}

// Ten at once, but never two of one region: a cluster that waits for its region keeps nobody of
// another one back, and says what it waits for.
func ExampleStep_groups() {
	fleet := staged.Fleet{Version: "5"}
	for _, name := range []string{"ams-1", "ams-2", "ams-3", "fra-1", "fra-2", "nyc-1"} {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"region": name[:3]}})
	}
	var strategy staged.Strategy
	if err := json.Unmarshal([]byte(`{"stages": [{"name": "production", "labelSelector": {}, "maxConcurrency": 10, "groupBy": "region", "maxConcurrencyPerGroup": 1}]}`), &strategy); err != nil {
		panic(err)
	}
	run, err := staged.Compile(strategy, staged.Spec{Name: "example-run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun}, fleet, staged.Options{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	var input staged.Input
	for !run.Phase().Terminal() {
		var result staged.Result
		if run, result, err = staged.Step(run, input, now); err != nil {
			panic(err)
		}
		fmt.Println(run.Phase())
		input = staged.Input{}
		for _, a := range result.Actions {
			fmt.Println("  ", a)
			input.Observations = append(input.Observations, staged.Observation{Target: a.Target, Version: a.Version, Health: staged.HealthReady, Token: a.Token})
		}
		if waits, ok := run.Explain("ams-3"); ok {
			fmt.Println("   ams-3:", waits)
		}
		now = now.Add(10 * time.Minute)
	}
	// Output:
	// Progressing
	//    start ams-1, attempt 1
	//    start fra-1, attempt 1
	//    start nyc-1, attempt 1
	//    ams-3: group ams, 1 of 1 in progress: ams-1, waits for a target of group ams to be settled
	// Progressing
	//    start ams-2, attempt 1
	//    start fra-2, attempt 1
	//    ams-3: group ams, 1 of 1 in progress: ams-2, waits for a target of group ams to be settled
	// Progressing
	//    start ams-3, attempt 1
	//    ams-3: in_progress (starting) since 2026-03-10T08:20:00Z, waits for an observation of ams-3
	// Succeeded
}

// A stage that takes longer than a window is open. The host stops the run when the window closes,
// and resumes it when the window opens: who has been started goes on, and nobody else starts.
func ExampleStep_window() {
	night, err := clock.ParseWindow([]byte(`{"weekly": {"days": ["mon", "tue", "wed", "thu", "fri"], "start": "02:00", "end": "03:00"}}`))
	if err != nil {
		panic(err)
	}
	calendar, err := clock.NewCalendar([]clock.Window{night}, time.LoadLocation)
	if err != nil {
		panic(err)
	}
	run, err := staged.Compile(
		staged.Strategy{Stages: []staged.Stage{{Name: "prod", LabelSelector: &selector.LabelSelector{}}}},
		staged.Spec{Name: "example-run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateStop},
		staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "prod-1"}, {Name: "prod-2"}, {Name: "prod-3"}}},
		staged.Options{StuckAfter: staged.For(time.Hour)})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 13, 1, 0, 0, 0, time.UTC) // a Friday
	var last staged.Action                              // the target that was started last, which is ready 40 minutes later
	var ready time.Time
	for !run.Phase().Terminal() {
		input := staged.Input{State: staged.StateStop} // as long as somebody has stopped the run, Stop whatever the calendar says
		next, err := calendar.NextOpen(now)
		if err != nil {
			panic(err)
		}
		if calendar.Open(now) {
			input.State, next = staged.StateRun, calendar.NextClose(now)
		}
		if now.Equal(ready) {
			input.Observations = []staged.Observation{{Target: last.Target, Version: last.Version, Health: staged.HealthReady, Token: last.Token}}
		}
		var result staged.Result
		if run, result, err = staged.Step(run, input, now); err != nil {
			panic(err)
		}
		fmt.Println(now.Format("Mon 15:04"), run.Phase(), run.Counts())
		for _, a := range result.Actions {
			if a.Token != last.Token {
				last, ready = a, now.Add(40*time.Minute)
			}
		}
		for _, at := range []time.Time{ready, result.Next} {
			if at.After(now) && at.Before(next) {
				next = at
			}
		}
		now = next
	}
	// Output:
	// Fri 01:00 Stopped 3 waiting
	// Fri 02:00 Progressing 2 waiting, 1 starting
	// Fri 02:40 Progressing 1 waiting, 1 starting, 1 done
	// Fri 03:00 Stopping 1 waiting, 1 starting, 1 done
	// Fri 03:20 Stopped 1 waiting, 2 done
	// Mon 02:00 Progressing 1 starting, 2 done
	// Mon 02:40 Succeeded 3 done
}

// A target with a window of its own. The host suspends it while that is closed, and resumes it when it
// opens: the others do not wait for it, and neither a slot nor its deadline is used up meanwhile.
func ExampleStep_suspend() {
	night, err := clock.ParseWindow([]byte(`{"weekly": {"days": ["mon", "tue", "wed", "thu", "fri"], "start": "02:00", "end": "05:00"}}`))
	if err != nil {
		panic(err)
	}
	calendar, err := clock.NewCalendar([]clock.Window{night}, time.LoadLocation)
	if err != nil {
		panic(err)
	}
	run, err := staged.Compile(
		staged.Strategy{Stages: []staged.Stage{{Name: "prod", LabelSelector: &selector.LabelSelector{}, ProgressDeadline: staged.For(time.Hour)}}},
		staged.Spec{Name: "example-run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun},
		staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "bank"}, {Name: "shop-1"}, {Name: "shop-2"}}},
		staged.Options{StuckAfter: staged.For(time.Hour)})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 13, 20, 0, 0, 0, time.UTC) // a Friday
	var last staged.Action                               // the target that was started last, which is ready 40 minutes later
	var ready time.Time
	for !run.Phase().Terminal() {
		var input staged.Input
		if now.Equal(ready) {
			input.Observations = []staged.Observation{{Target: last.Target, Version: last.Version, Health: staged.HealthReady, Token: last.Token}}
		}
		next := calendar.NextClose(now)
		bank, _ := run.Target("bank")
		command := staged.Command{Kind: staged.CommandResume, Target: "bank", By: "calendar"}
		if !calendar.Open(now) {
			if next, err = calendar.NextOpen(now); err != nil {
				panic(err)
			}
			command.Kind, command.Reason = staged.CommandSuspend, "its window is closed"
		}
		if suspended := bank.SuspendedBy != nil; bank.State == staged.Waiting && suspended != (command.Kind == staged.CommandSuspend) {
			input.Commands = []staged.Command{command}
		}
		var result staged.Result
		if run, result, err = staged.Step(run, input, now); err != nil {
			panic(err)
		}
		v, _ := run.Waits()
		fmt.Println(now.Format("Mon 15:04"), v)
		for _, a := range result.Actions {
			if a.Token != last.Token {
				last, ready = a, now.Add(40*time.Minute)
			}
		}
		for _, at := range []time.Time{ready, result.Next} {
			if at.After(now) && at.Before(next) {
				next = at
			}
		}
		now = next
	}
	// Output:
	// Fri 20:00 slot, 1 of 1 in progress: shop-1, until 2026-03-13T21:00:00Z, waits for a target to be settled
	// Fri 20:40 slot, 1 of 1 in progress: shop-2, until 2026-03-13T21:40:00Z, waits for a target to be settled
	// Fri 21:20 suspended: bank (by calendar at 2026-03-13T20:00:00Z: its window is closed), waits for an operator to resume or skip
	// Mon 02:00 slot, 1 of 1 in progress: bank, until 2026-03-16T03:00:00Z, waits for a target to be settled
	// Mon 02:40 ended
}

// One reconcile of a controller that reads what there is, as often as it likes: the stored run, the
// targets, and the approvals as objects with a state. A step asks for the approvals that are open, and
// the next one, at once, takes the answers. So no answer is given twice, or before it is asked for,
// which the run would ignore with an event.
func ExampleStep_reconcile() {
	run, err := staged.Compile(
		staged.Strategy{Stages: []staged.Stage{{Name: "prod", Targets: []string{"prod-1"}, BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}}},
		staged.Spec{Name: "example-run", ID: "5f3c", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun},
		staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "prod-1"}}}, staged.Options{})
	if err != nil {
		panic(err)
	}
	stored, err := json.Marshal(run)
	if err != nil {
		panic(err)
	}
	approvers := map[string]string{}    // of approval requests, by name; empty until somebody approves
	tokens := map[string]staged.Token{} // of targets, kept beside their versions
	reconcile := func(now time.Time) {
		run, changed := new(staged.Run), false
		if err := json.Unmarshal(stored, run); err != nil {
			panic(err)
		}
		var input staged.Input
		for target, token := range tokens { // in any order
			input.Observations = append(input.Observations, staged.Observation{Target: target, Version: run.Version(), Health: staged.HealthReady, Token: token})
		}
		var result staged.Result
		for again := true; again; again = len(input.Commands) > 0 {
			if run, result, err = staged.Step(run, input, now); err != nil {
				panic(err)
			}
			changed = changed || result.Changed
			for _, e := range result.Events {
				fmt.Println(now.Format("15:04"), e)
			}
			input = staged.Input{}
			for _, a := range result.Actions {
				if a.Kind == staged.RequestApproval && approvers[a.Name] != "" {
					input.Commands = append(input.Commands, staged.Command{Kind: staged.CommandApprove, Run: a.Run, Stage: a.Stage, Side: a.Side, By: approvers[a.Name]})
				}
			}
		}
		if changed { // with compare-and-swap, and before anything is done; else make sure that the run is the newest
			if stored, err = json.Marshal(run); err != nil {
				panic(err)
			}
		}
		for _, a := range result.Actions {
			switch a.Kind {
			case staged.Start:
				tokens[a.Target] = a.Token // point the target at a.Version, unless it has this token or a later one
			case staged.RequestApproval:
				approvers[a.Name] = "" // make the request, unless it is there
			}
		}
	}
	now := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	for minute := range 4 {
		if minute == 2 {
			approvers["example-run-before-prod"] = "alice"
		}
		reconcile(now.Add(time.Duration(minute) * time.Minute))
	}
	// Output:
	// 08:00 stage 0 WaitingBefore
	// 08:00 approval stage 0 before requested
	// 08:00 run Waiting
	// 08:02 approval stage 0 before approved (by alice at 2026-03-10T08:02:00Z)
	// 08:02 stage 0 Updating
	// 08:02 target stage 0 prod-1 starting
	// 08:02 run Progressing
	// 08:03 target stage 0 prod-1 done
	// 08:03 stage 0 WaitingAfter
	// 08:03 stage 0 Succeeded
	// 08:03 stage 1 Skipped
	// 08:03 run Succeeded
}

// What a target waits for, until when, and who can change it.
func ExampleRun_Explain() {
	stage := func(name string) staged.Stage {
		return staged.Stage{Name: name, Targets: []string{name + "1", name + "2"}}
	}
	first, second := stage("a"), stage("b")
	first.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}, {Type: staged.Approval}}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{first, second}, ProgressDeadline: staged.For(30 * time.Minute)},
		staged.Spec{Name: "example-run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun},
		staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "a1"}, {Name: "a2"}, {Name: "b1"}, {Name: "b2"}}}, staged.Options{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	say := func(input staged.Input, targets ...string) {
		if run, _, err = staged.Step(run, input, now); err != nil {
			panic(err)
		}
		for _, name := range targets {
			verdict, _ := run.Explain(name)
			fmt.Printf("%s %s: %s\n", now.Format("15:04"), name, verdict)
		}
	}
	ready := func(name string) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: name, Version: "5", Health: staged.HealthReady}}}
	}
	say(staged.Input{}, "a1", "a2", "b1")
	now = now.Add(time.Minute)
	say(ready("a1"), "a2")
	say(ready("a2"), "b1")
	say(staged.Input{State: staged.StateStop}, "b1")
	// Output:
	// 08:00 a1: in_progress (starting) since 2026-03-10T08:00:00Z, times out at 2026-03-10T08:30:00Z, waits for an observation of a1
	// 08:00 a2: slot, 1 of 1 in progress: a1, until 2026-03-10T08:30:00Z, waits for a target to be settled
	// 08:00 b1: stage 0: slot, 1 of 1 in progress: a1, until 2026-03-10T08:30:00Z, waits for a target to be settled
	// 08:01 a2: in_progress (starting) since 2026-03-10T08:01:00Z, times out at 2026-03-10T08:31:00Z, waits for an observation of a2
	// 08:01 b1: stage 0: approval and wait, until 2026-03-10T09:01:00Z, waits for the approval example-run-after-a
	// 08:01 b1: stopped, waits for an operator to set state Run
}

// The conditions that KubeFleet shows in the status of a run, and since when, for a controller that
// writes the status of its objects from a run. It has just loaded the run, after a crash.
func ExampleRun_Stages() {
	run, err := staged.Compile(
		staged.Strategy{Stages: []staged.Stage{
			{Name: "canary", Targets: []string{"c1", "c2"}, MaxConcurrency: concurrency.Count(2), AfterStageTasks: []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}, {Type: staged.Approval}}},
			{Name: "prod", Targets: []string{"p1", "p2"}},
		}},
		staged.Spec{Name: "example-run", ID: "5f3c", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateRun},
		staged.Fleet{Version: "5", Targets: []staged.Target{{Name: "c1"}, {Name: "c2"}, {Name: "p1"}, {Name: "p2"}}}, staged.Options{})
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	ready := func(names ...string) (input staged.Input) {
		for _, name := range names {
			input.Observations = append(input.Observations, staged.Observation{Target: name, Version: "5", Health: staged.HealthReady})
		}
		return input
	}
	approve := staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "5f3c", Stage: 0, Side: staged.After}}}
	for _, input := range []staged.Input{{}, ready("c1", "c2"), approve, {}, {Observations: []staged.Observation{{Target: "p1", Version: "5", Health: staged.HealthFailed}}}} {
		if run, _, err = staged.Step(run, input, now); err != nil {
			panic(err)
		}
		now = now.Add(30 * time.Minute)
	}
	stored, err := json.Marshal(run)
	if err != nil {
		panic(err)
	}
	run = new(staged.Run)
	if err := json.Unmarshal(stored, run); err != nil {
		panic(err)
	}

	show := func(condition, status string, since time.Time) {
		fmt.Printf(" %s=%s at %s", condition, status, since.Format("15:04"))
	}
	succeeded := map[staged.Phase]string{staged.PhaseSucceeded: "True", staged.PhaseFailed: "False"}
	progressing := func(condition bool) string {
		switch {
		case run.Phase() == staged.PhaseStopping:
			return "Unknown"
		case run.Phase() == staged.PhaseProgressing && condition:
			return "True"
		}
		return "False"
	}
	fmt.Print("run:")
	show("Initialized", "True", run.Begun())
	if run.Phase() != staged.PhaseInitialized {
		show("Progressing", progressing(true), run.PhaseSince())
	}
	if status := succeeded[run.Phase()]; status != "" {
		show("Succeeded", status, run.PhaseSince())
	}
	fmt.Println()
	for stage := range run.Stages() {
		if stage.Cleanup {
			continue // KubeFleet shows it apart, as deletionStageStatus
		}
		fmt.Printf("%s:", stage.Name)
		switch {
		case stage.Phase == staged.StagePending:
		case stage.Index == run.Current() && run.PhaseSince().After(stage.PhaseSince): // stopped or resumed since
			show("Progressing", progressing(stage.Phase == staged.StageUpdating), run.PhaseSince())
		case stage.Index == run.Current():
			show("Progressing", progressing(stage.Phase == staged.StageUpdating), stage.PhaseSince)
		default:
			show("Progressing", "False", stage.PhaseSince)
		}
		switch stage.Phase {
		case staged.StageSucceeded, staged.StageSkipped:
			show("Succeeded", "True", stage.End)
		case staged.StageFailed:
			show("Succeeded", "False", stage.End)
		}
		fmt.Println()
		for target := range run.Targets(stage.Index) {
			fmt.Printf("  %s:", target.Name)
			if !target.Start.IsZero() {
				show("Started", "True", target.Start)
			}
			switch target.State {
			case staged.Done:
				show("Succeeded", "True", target.End)
			case staged.Failed, staged.TimedOut:
				show("Succeeded", "False", target.End)
			}
			fmt.Println()
		}
		if stage.After.Required {
			fmt.Printf("  %s:", staged.ApprovalName("example-run", staged.After, stage.Name))
			if stage.After.State != staged.ApprovalNone {
				show("ApprovalRequestCreated", "True", stage.After.Requested)
			}
			if stage.After.State == staged.ApprovalApproved {
				show("ApprovalRequestApproved", "True", stage.After.Decided)
			}
			fmt.Println()
		}
		if stage.Waited {
			fmt.Print("  TimedWait:")
			show("WaitTimeElapsed", "True", stage.WaitUntil)
			fmt.Println()
		}
	}
	// Output:
	// run: Initialized=True at 08:00 Progressing=False at 10:00 Succeeded=False at 10:00
	// canary: Progressing=False at 09:30 Succeeded=True at 09:30
	//   c1: Started=True at 08:00 Succeeded=True at 08:30
	//   c2: Started=True at 08:00 Succeeded=True at 08:30
	//   example-run-after-canary: ApprovalRequestCreated=True at 08:30 ApprovalRequestApproved=True at 09:00
	//   TimedWait: WaitTimeElapsed=True at 09:30
	// prod: Progressing=False at 10:00 Succeeded=False at 10:00
	//   p1: Started=True at 09:30 Succeeded=False at 10:00
	//   p2:
}

// A rollout strategy of Open Cluster Management as stages.
func ExampleFromOCM() {
	var strategy staged.OCMStrategy
	if err := json.Unmarshal([]byte(`{"type": "Progressive", "progressive": {
		"mandatoryDecisionGroups": [{"groupName": "canary"}], "maxConcurrency": "25%", "minSuccessTime": "5m", "progressDeadline": "10m", "maxFailures": "20%"}}`), &strategy); err != nil {
		panic(err)
	}
	stages, options, err := staged.FromOCM(strategy, []staged.DecisionGroup{
		{Name: "canary", Index: 0, Clusters: []string{"cluster1"}},
		{Name: "", Index: 1, Clusters: []string{"cluster2", "cluster3", "cluster4", "cluster5"}},
	})
	if err != nil {
		panic(err)
	}
	for _, s := range stages.Stages {
		fmt.Println(s.Name, s.Targets, "at a time:", s.MaxConcurrency, "failures:", s.MaxFailures)
	}
	fmt.Println("deadline:", stages.ProgressDeadline, "soak:", stages.MinSuccessTime, "rounding:", options.Rounding, "on failure:", options.OnFailure)
	// Output:
	// group0 [cluster1] at a time: 100% failures: 0
	// rest [cluster2 cluster3 cluster4 cluster5] at a time: 25% failures: 1
	// deadline: 10m soak: 5m rounding: up on failure: hold
}
