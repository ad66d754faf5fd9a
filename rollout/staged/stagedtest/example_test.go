package stagedtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// exampleRun returns a run over two canaries and six clusters in production.
func exampleRun() (*staged.Run, error) {
	var strategy staged.Strategy
	err := json.Unmarshal([]byte(`{"stages": [
		{"name": "canary", "labelSelector": {"matchLabels": {"ring": "canary"}}, "maxConcurrency": 1,
			"afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval"}]},
		{"name": "production", "labelSelector": {"matchLabels": {"ring": "production"}}, "maxConcurrency": "50%", "maxFailures": 1}
	]}`), &strategy)
	if err != nil {
		return nil, err
	}
	var fleet staged.Fleet
	for _, name := range []string{"can-1", "can-2", "ams", "fra", "lon", "nyc", "sin", "syd"} {
		ring := "production"
		if name[:3] == "can" {
			ring = "canary"
		}
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"ring": ring}})
	}
	spec := staged.Spec{Name: "web-v2", PlacementName: "web", StagedRolloutStrategyName: "rings", ResourceSnapshotIndex: "2", State: staged.StateRun}
	return staged.Compile(strategy, spec, fleet, staged.Options{OnFailure: staged.Hold})
}

// A run is seen before it starts: one cluster fails, and is retried by whoever is on call.
func ExampleWorld_Run() {
	run, err := exampleRun()
	if err != nil {
		fmt.Println(err)
		return
	}
	world := stagedtest.World{
		StagedRun: run,
		Start:     time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC),
		Target: func(action staged.Action) stagedtest.Outcome {
			if action.Target == "can-1" && action.Token.Attempt == 1 {
				return stagedtest.Outcome{After: 2 * time.Minute, Health: staged.HealthFailed}
			}
			return stagedtest.Outcome{After: 4 * time.Minute}
		},
		Approval: stagedtest.ApproveAfter(15 * time.Minute),
		React:    stagedtest.RetryAfter(30*time.Minute, 3),
	}
	timeline, err := world.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(timeline)
	// Output:
	// from 2026-03-10 08:00:00 on
	//        +0s  canary: Updating
	//        +0s  canary: can-1 started
	//        +0s  run: Progressing
	//        +2m  canary: can-1 failed (reported_failed)
	//        +2m  run: Held
	//       +32m  canary: can-1 retried
	//       +32m  canary: can-1 started
	//       +32m  run: Progressing
	//       +36m  canary: can-1 done
	//       +36m  canary: can-2 started
	//       +40m  canary: can-2 done
	//       +40m  canary: WaitingAfter
	//       +40m  canary: wait running
	//       +40m  canary: approval after requested
	//       +40m  run: Waiting
	//       +55m  canary: approval after approved
	//     +1h40m  canary: wait elapsed
	//     +1h40m  canary: Succeeded
	//     +1h40m  production: Updating
	//     +1h40m  production: ams, fra, lon started
	//     +1h40m  run: Progressing
	//     +1h44m  production: ams, fra, lon done
	//     +1h44m  production: nyc, sin, syd started
	//     +1h48m  production: nyc, sin, syd done
	//     +1h48m  production: WaitingAfter
	//     +1h48m  production: Succeeded
	//     +1h48m  run: Succeeded
	// canary: Succeeded, 2 done, from +0s to +1h40m, at most 1 at once
	// production: Succeeded, 6 done, from +1h40m to +1h48m, at most 3 at once
	// Succeeded after 1h48m
}

// Approvals are given in office hours only, after half an hour of work: of what is asked for on a
// Friday evening, on Monday.
func ExampleWorld_officeHours() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	office, err := clock.NewCalendar([]clock.Window{{RRule: "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0", DurationMinutes: 8 * 60, Timezone: "Europe/Berlin"}}, time.LoadLocation)
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := exampleRun()
	if err != nil {
		fmt.Println(err)
		return
	}
	world := stagedtest.World{
		StagedRun: run,
		Start:     time.Date(2026, 3, 13, 16, 30, 0, 0, berlin),
		Approval: func(_ staged.Action, at time.Time) (stagedtest.Answer, bool) {
			answered, err := office.AddOpen(at, 30*time.Minute)
			return stagedtest.Answer{After: answered.Sub(at)}, err == nil
		},
	}
	timeline, err := world.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range timeline.Stages[:2] {
		fmt.Println(s.Name, "closed at", s.End.In(berlin).Format("Mon 15:04"))
	}
	// Output:
	// canary closed at Mon 09:02
	// production closed at Mon 09:04
}

// How far would a bad version come? This one breaks each cluster half an hour after its start, or
// takes it out of the fleet then.
func ExampleWorld_badVersion() {
	const stages = `[{"name": "canary", "targets": ["can-1", "can-2"]%s}, {"name": "production", "targets": ["ams", "fra", "lon", "nyc", "sin", "syd"]}]`
	wait := func(time string) string {
		return `{"stages": ` + fmt.Sprintf(stages, `, "afterStageTasks": [{"type": "TimedWait", "waitTime": "`+time+`"}]`) + `}`
	}
	soak := func(more string) string { return `{"stages": ` + fmt.Sprintf(stages, "") + more + `}` }
	breaks := func(name string) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: name, Version: "2", Health: staged.HealthFailing}}}
	}
	disappears := func(name string) staged.Input { return staged.Input{Removed: []string{name}} }
	start := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	for _, play := range []struct {
		what, strategy string
		options        staged.Options
		happens        func(name string) staged.Input
	}{
		{"nothing but ready", soak(""), staged.Options{}, breaks},
		{"wait 15m", wait("15m"), staged.Options{}, breaks},
		{"wait 15m, verify always", wait("15m"), staged.Options{VerifyDone: staged.Always}, breaks},
		{"wait 15m, verify always, fail", wait("15m"), staged.Options{VerifyDone: staged.Always, OnRegression: staged.Fail}, breaks},
		{"wait 1h", wait("1h"), staged.Options{}, breaks},
		{"soak 1h", soak(`, "minSuccessTime": "1h"`), staged.Options{}, breaks},
		{"soak 1h, deadline 2h", soak(`, "minSuccessTime": "1h", "progressDeadline": "2h"`), staged.Options{}, breaks},
		{"soak 1h, clusters disappear", soak(`, "minSuccessTime": "1h"`), staged.Options{}, disappears},
		{"the same, which is a failure", soak(`, "minSuccessTime": "1h"`), staged.Options{Removed: staged.Fail}, disappears},
	} {
		var strategy staged.Strategy
		if err := json.Unmarshal([]byte(play.strategy), &strategy); err != nil {
			fmt.Println(err)
			return
		}
		var fleet staged.Fleet
		for _, stage := range strategy.Stages {
			for _, name := range stage.Targets {
				fleet.Targets = append(fleet.Targets, staged.Target{Name: name})
			}
		}
		spec := staged.Spec{Name: "web-v2", PlacementName: "web", StagedRolloutStrategyName: "rings", ResourceSnapshotIndex: "2", State: staged.StateRun}
		run, err := staged.Compile(strategy, spec, fleet, play.options)
		if err != nil {
			fmt.Println(err)
			return
		}
		started := 0
		world := stagedtest.World{StagedRun: run, Start: start, Target: stagedtest.ReadyAfter(4 * time.Minute)}
		world.React = func(_ *staged.Run, result staged.Result, now time.Time) (changes []stagedtest.Change) {
			for _, e := range result.Events {
				if e.Kind == staged.EventTarget && e.To == staged.Starting.String() {
					started++
					changes = append(changes, stagedtest.Change{At: now.Add(30 * time.Minute), Do: func(*staged.Run) staged.Input { return play.happens(e.Target) }})
				}
			}
			return changes
		}
		timeline, err := world.Run(context.Background())
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%-30s %d of %d, %s\n", play.what, started, len(fleet.Targets), timeline.Run.Phase())
	}
	// Output:
	// nothing but ready              8 of 8, Succeeded
	// wait 15m                       8 of 8, Succeeded
	// wait 15m, verify always        8 of 8, Waiting
	// wait 15m, verify always, fail  4 of 8, Failed
	// wait 1h                        2 of 8, Waiting
	// soak 1h                        1 of 8, Progressing
	// soak 1h, deadline 2h           1 of 8, Failed
	// soak 1h, clusters disappear    8 of 8, Succeeded
	// the same, which is a failure   1 of 8, Failed
}

// How long does it take, by what past runs have shown? People are slower than clusters, and one
// update in fifty fails.
func ExampleForecast() {
	run, err := exampleRun()
	if err != nil {
		fmt.Println(err)
		return
	}
	updates := []stagedtest.Outcome{{After: 6 * time.Minute, Health: staged.HealthFailed}}
	for n := range 49 {
		updates = append(updates, stagedtest.Outcome{After: time.Duration(3*60+n*10) * time.Second})
	}
	samples := stagedtest.Samples{
		Targets:   map[string][]stagedtest.Outcome{"": updates},
		Approvals: map[string][]stagedtest.Answer{"canary": {{After: 5 * time.Minute}, {After: 40 * time.Minute}, {After: 3 * time.Hour}}},
	}
	world := stagedtest.World{StagedRun: run, Start: time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)}
	prediction, err := stagedtest.Forecast(context.Background(), world, samples, 500, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(prediction)
	fmt.Printf("done before noon: %.0f %%\n", 100*prediction.DoneBy(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)))
	// Output:
	// 500 trials from 2026-03-10 08:00:00 on
	// done, earliest: 2026-03-10 09:20:00 (+1h20m)
	// done, median:   2026-03-10 09:35:00 (+1h35m)
	// done, 90 %:     2026-03-10 11:35:50 (+3h35m50s)
	// done, latest:   not reached
	// done, but with targets that failed, timed out or were skipped: 10 %
	// not done: 6 %: Held in 30 trials
	// stage       closed, median  90 %       at once, at most  trials halted here
	// canary      +1h17m40s       +3h18m     1                 24
	// production  +1h35m          +3h35m50s  3                 6
	// done before noon: 94 %
}

// What updates take is in the runs that were stored: this one is half way, and its first stage has
// shown how long clusters and people take.
func ExampleSamplesOf() {
	run, err := exampleRun()
	if err != nil {
		fmt.Println(err)
		return
	}
	start := time.Date(2026, 3, 10, 8, 0, 0, 0, time.UTC)
	world := stagedtest.World{StagedRun: run, Start: start, End: start.Add(time.Hour), Target: stagedtest.ReadyAfter(7 * time.Minute), Approval: stagedtest.ApproveAfter(25 * time.Minute)}
	sofar, err := world.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	stored, err := json.Marshal(sofar.Run)
	if err != nil {
		fmt.Println(err)
		return
	}

	var half staged.Run
	if err := json.Unmarshal(stored, &half); err != nil {
		fmt.Println(err)
		return
	}
	samples := stagedtest.SamplesOf(&half)
	samples.Targets[""] = samples.Targets["canary"] // production has shown nothing yet
	prediction, err := stagedtest.Forecast(context.Background(), stagedtest.World{StagedRun: &half, Start: start.Add(time.Hour)}, samples, 100, 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(samples.Approvals["canary"][0].After)
	fmt.Println(prediction)
	// Output:
	// 25m0s
	// 100 trials from 2026-03-10 09:00:00 on
	// done, earliest: 2026-03-10 09:28:00 (+28m)
	// done, median:   2026-03-10 09:28:00 (+28m)
	// done, 90 %:     2026-03-10 09:28:00 (+28m)
	// done, latest:   2026-03-10 09:28:00 (+28m)
	// not done: 0 %
	// stage       closed, median  90 %  at once, at most
	// canary      +14m            +14m  0
	// production  +28m            +28m  3
}
