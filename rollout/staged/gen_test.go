package staged_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func genLimit(t *rapid.T, label string, least int) concurrency.Limit {
	switch pick(t, label, "unset", "count", "count", "percent", "percent") {
	case "count":
		return concurrency.Count(rapid.IntRange(least, 4).Draw(t, label))
	case "percent":
		return concurrency.Percent(rapid.IntRange(least, 100).Draw(t, label))
	}
	return concurrency.Limit{}
}

// genDuration draws one of the values, and once in a while none.
func genDuration(t *rapid.T, label string, values ...time.Duration) staged.Duration {
	if i := rapid.IntRange(-2, len(values)-1).Draw(t, label); i >= 0 {
		return staged.For(values[i])
	}
	return staged.Duration{}
}

func genStrategy(t *rapid.T) staged.Strategy {
	s := staged.Strategy{
		MaxFailures:      genLimit(t, "run.maxFailures", 0),
		ProgressDeadline: genDuration(t, "run.progressDeadline", 4*time.Minute, 9*time.Minute),
		MinSuccessTime:   genDuration(t, "run.minSuccessTime", 0, time.Minute),
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
		stage := staged.Stage{Name: fmt.Sprint("s", i), MaxConcurrency: genLimit(t, "maxConcurrency", 1), MaxFailures: genLimit(t, "maxFailures", 0),
			ProgressDeadline: genDuration(t, "progressDeadline", 3*time.Minute, 7*time.Minute), MinSuccessTime: genDuration(t, "minSuccessTime", 0, 2*time.Minute)}
		switch pick(t, "members", "labels", "labels", "labels", "expression", "targets", "all", "none") {
		case "labels":
			stage.LabelSelector = &selector.LabelSelector{MatchLabels: map[string]string{"ring": fmt.Sprint(i)}}
		case "expression":
			stage.LabelSelector = &selector.LabelSelector{MatchExpressions: []selector.LabelRequirement{{Key: "ring", Operator: selector.NotIn, Values: []string{"0"}}}}
		case "targets":
			stage.Targets = []string{"c1", "c3", "c5", "c7"}
		case "all":
			stage.LabelSelector = &selector.LabelSelector{}
		}
		if rapid.IntRange(0, 2).Draw(t, "grouped") == 0 {
			stage.GroupBy, stage.MaxConcurrencyPerGroup = "zone", concurrency.Count(rapid.IntRange(1, 2).Draw(t, "perGroup"))
			if rapid.Bool().Draw(t, "percent") {
				stage.MaxConcurrencyPerGroup = concurrency.Percent(rapid.IntRange(1, 100).Draw(t, "perGroup"))
			}
			if rapid.IntRange(0, 3).Draw(t, "wide") > 0 {
				stage.MaxConcurrency = concurrency.Count(rapid.IntRange(2, 6).Draw(t, "wide"))
			}
		}
		if rapid.Bool().Draw(t, "before") {
			stage.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		}
		if rapid.Bool().Draw(t, "wait") {
			stage.AfterStageTasks = append(stage.AfterStageTasks, staged.Task{Type: staged.TimedWait, WaitTime: staged.For(pick(t, "waitTime", time.Minute, 10*time.Minute))})
		}
		if rapid.IntRange(0, 2).Draw(t, "after") == 0 {
			stage.AfterStageTasks = append(stage.AfterStageTasks, staged.Task{Type: staged.Approval})
		}
		s.Stages = append(s.Stages, stage)
	}
	if rapid.Bool().Draw(t, "deleteStage") {
		s.DeleteStage.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	}
	return s
}

func genOptions(t *rapid.T) staged.Options {
	return staged.Options{
		Unmatched: pick(t, "unmatched", staged.Ignore, staged.Last), Overlap: staged.First, MissingSortKey: pick(t, "missingSortKey", "", staged.Last),
		Added: pick(t, "added", "", staged.Append), Removed: pick(t, "removed", "", staged.Fail), LateLeaving: pick(t, "lateLeaving", "", staged.Clean),
		WaitDuringStop: pick(t, "waitDuringStop", "", staged.Freeze), VerifyDone: pick(t, "verifyDone", "", staged.Never, staged.Always),
		OnRegression: pick(t, "onRegression", "", staged.Note, staged.Fail), OnFailure: pick(t, "onFailure", "", staged.Hold),
		OnReject: pick(t, "onReject", "", staged.Hold), Rounding: pick(t, "rounding", "", staged.Up),
		StuckAfter: genDuration(t, "stuckAfter", time.Minute, 6*time.Minute), StopGrace: genDuration(t, "stopGrace", 0, 2*time.Minute),
		Cleanup: staged.Cleanup{MaxConcurrency: genLimit(t, "cleanup.maxConcurrency", 1), MaxFailures: genLimit(t, "cleanup.maxFailures", 0),
			ProgressDeadline: genDuration(t, "cleanup.progressDeadline", 3*time.Minute)},
	}
}

func genTarget(t *rapid.T, i int) staged.Target {
	target := staged.Target{Name: fmt.Sprint("c", i), Labels: map[string]string{"ring": fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "ring"))}}
	if zone := pick(t, "zone", "x", "x", "y", "z", "", "none"); zone != "none" {
		target.Labels["zone"] = zone
	}
	return target
}

func genFleet(t *rapid.T) staged.Fleet {
	f := staged.Fleet{Version: "v2"}
	for i := range rapid.IntRange(0, 8).Draw(t, "targets") {
		f.Targets = append(f.Targets, genTarget(t, i))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "leaving") {
		f.Leaving = append(f.Leaving, fmt.Sprint("d", i))
	}
	if len(f.Targets)+len(f.Leaving) == 0 {
		f.Leaving = []string{"d0"}
	}
	return f
}

func genSpec(t *rapid.T) staged.Spec {
	return staged.Spec{Name: "run", PlacementName: "p", StagedRolloutStrategyName: "s",
		State: pick(t, "created", staged.StateRun, staged.StateRun, staged.StateInitialize, staged.StateStop)}
}

// genInput is anything that a host could say, sensible or not.
func genInput(t *rapid.T, run *staged.Run, actions []staged.Action) staged.Input {
	var in staged.Input
	from := run.State()
	switch pick(t, "state", "", "", "", "", "stop", "run", "run") {
	case "run":
		in.State = staged.StateRun
	case "stop":
		if from != staged.StateInitialize {
			in.State = staged.StateStop
		}
	}
	name := func(label string) string {
		if rapid.IntRange(0, 3).Draw(t, label) == 0 {
			return fmt.Sprint("d", rapid.IntRange(0, 3).Draw(t, label))
		}
		return fmt.Sprint("c", rapid.IntRange(0, 9).Draw(t, label))
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "commands") {
		c := staged.Command{Kind: pick(t, "command", staged.CommandApprove, staged.CommandApprove, staged.CommandApprove, staged.CommandReject, staged.CommandSkip,
			staged.CommandRetry, staged.CommandRetry, staged.CommandCancel, staged.CommandEndWait, staged.CommandSuspend, staged.CommandSuspend, staged.CommandResume)}
		switch c.Kind {
		case staged.CommandApprove, staged.CommandReject, staged.CommandEndWait:
			c.Run, c.Stage = "run", run.Current()
			if c.Kind != staged.CommandEndWait {
				c.Side = pick(t, "side", staged.Before, staged.After)
			}
			switch rapid.IntRange(0, 9).Draw(t, "odd") {
			case 0:
				c.Run = "other"
			case 1:
				c.Stage = rapid.IntRange(-1, 6).Draw(t, "stage")
			}
		case staged.CommandCancel:
			if rapid.IntRange(0, 5).Draw(t, "really") > 0 {
				continue
			}
		default:
			c.Target = name("command.target")
			c.Attempt = 1
			for s := range run.Stages() {
				for target := range run.Targets(s.Index) {
					apt := target.State == staged.Failed || target.State == staged.TimedOut
					switch c.Kind {
					case staged.CommandSuspend:
						apt = target.State == staged.Waiting
					case staged.CommandResume:
						apt = target.SuspendedBy != nil
					}
					if apt && rapid.Bool().Draw(t, "this one") {
						c.Target, c.Attempt = target.Name, target.Attempt
					}
				}
			}
			if rapid.IntRange(0, 5).Draw(t, "odd") == 0 {
				c.Attempt++
			}
			if c.Kind != staged.CommandRetry {
				c.Attempt = 0
			}
		}
		if c.Run == "" {
			c.Run = pick(t, "run", "", "", "", "run", "other")
		}
		c.By, c.Reason = pick(t, "by", "", "", "ann", "bob"), pick(t, "reason", "", "", "so be it")
		if rapid.IntRange(0, 3).Draw(t, "dated") == 0 {
			c.At = benchStart.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "at")) * time.Hour).In(time.FixedZone("east", 3600))
		}
		in.Commands = append(in.Commands, c)
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, 1, 1, 3}).Draw(t, "membership") {
		switch pick(t, "change", "added", "removed", "leaving") {
		case "added":
			in.Added = append(in.Added, genTarget(t, rapid.IntRange(0, 9).Draw(t, "joins")))
		case "removed":
			in.Removed = append(in.Removed, name("removed"))
		case "leaving":
			in.Leaving = append(in.Leaving, name("leaving"))
		}
	}
	health := func() staged.Health {
		return pick(t, "health", staged.HealthReady, staged.HealthReady, staged.HealthReady, staged.HealthReady, staged.HealthProgressing, staged.HealthFailing, staged.HealthFailed, "")
	}
	for _, a := range actions {
		if a.Kind != staged.RequestApproval && rapid.IntRange(0, 3).Draw(t, "carried out") > 0 {
			o := staged.Observation{Target: a.Target, Version: a.Version, Health: health(), Token: a.Token}
			o.Gone = a.Kind == staged.Remove && rapid.Bool().Draw(t, "gone")
			in.Observations = append(in.Observations, o)
		}
	}
	for range rapid.IntRange(0, 4).Draw(t, "observations") {
		o := staged.Observation{Target: name("observed"), Version: pick(t, "version", "v2", "v2", "v2", "v2", "v1", "v3", ""), Health: health()}
		switch rapid.IntRange(0, 19).Draw(t, "odd") {
		case 0:
			o.Gone = true
		case 1, 2, 3, 4, 5:
			if status, ok := run.Target(o.Target); ok {
				o.Token = staged.Token{Run: "run", Stage: status.Stage, Target: o.Target, Attempt: rapid.IntRange(1, 2).Draw(t, "attempt"), Kind: pick(t, "kind", staged.Start, staged.Start, staged.Start, staged.Remove)}
			}
		}
		in.Observations = append(in.Observations, o)
	}
	return in
}

// moment is one step of a history.
type moment struct {
	strategy staged.Strategy
	options  staged.Options
	before   *staged.Run
	old      staged.Result // of the step before
	input    staged.Input
	now      time.Time
	run      *staged.Run
	result   staged.Result
}

// drive plays a history of arbitrary inputs, and hands every step to check.
func drive(t *rapid.T, check func(*moment)) *moment {
	m := &moment{strategy: genStrategy(t), options: genOptions(t), now: benchStart}
	run, err := staged.Compile(m.strategy, genSpec(t), genFleet(t), m.options)
	if err != nil {
		t.Fatal(err)
	}
	m.run = run
	left := 3 // a few steps behind the end
	for range rapid.IntRange(4, 30).Draw(t, "steps") {
		if m.run.Phase().Terminal() {
			if left--; left == 0 {
				break
			}
		}
		m.before, m.old = m.run, m.result
		m.input = staged.Input{}
		if rapid.IntRange(0, 4).Draw(t, "idle") > 0 {
			m.input = genInput(t, m.run, m.old.Actions)
		}
		switch pick(t, "time", "none", "some", "next", "next", "back") {
		case "some":
			m.now = m.now.Add(pick(t, "by", time.Second, 30*time.Second, time.Minute, 11*time.Minute))
		case "next":
			if m.old.Next.After(m.now) {
				m.now = m.old.Next
			}
		case "back":
			if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
				m.now = m.now.Add(-time.Minute)
			}
		}
		said := fmt.Sprint(m.input)
		m.run, m.result, err = staged.Step(m.before, m.input, m.now)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(m.input) != said {
			t.Fatalf("a step changes its input from %s to %v", said, m.input)
		}
		check(m)
	}
	return m
}
