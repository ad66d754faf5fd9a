package staged_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestEventsAreTheDifference: whoever follows the events alone knows the phase of the run and of
// every stage, the state of every target, every approval and every mark, and is told nothing that
// is not so.
func TestEventsAreTheDifference(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			told := map[string]string{}
			for _, e := range m.result.Events {
				switch e.Kind {
				case staged.EventRun:
					told["run"] = e.To
				case staged.EventStage:
					told[fmt.Sprint("stage ", e.Stage)] = e.To
					if e.To == string(staged.StageUpdating) { // after a retry the wait starts again
						told[fmt.Sprint("waited ", e.Stage)] = "false"
					}
				case staged.EventApproval:
					told[fmt.Sprint("approval ", e.Stage, e.Side)] = e.To
				case staged.EventWait:
					told[fmt.Sprint("waited ", e.Stage)] = fmt.Sprint(e.To == "elapsed")
				case staged.EventTarget:
					told[fmt.Sprint("target ", e.Stage, e.Target)] = e.To
					told[fmt.Sprint("regressed ", e.Stage, e.Target)] = "false"
					told[fmt.Sprint("suspended ", e.Stage, e.Target)] = "false"
					if e.To != staged.Updating.String() { // an acknowledgement leaves it stuck
						told[fmt.Sprint("stuck ", e.Stage, e.Target)] = "false"
					}
				case staged.EventJoined:
					told[fmt.Sprint("target ", e.Stage, e.Target)] = "waiting"
				case staged.EventStuck:
					told[fmt.Sprint("stuck ", e.Stage, e.Target)] = "true"
				case staged.EventSuspended, staged.EventResumed:
					told[fmt.Sprint("suspended ", e.Stage, e.Target)] = fmt.Sprint(e.Kind == staged.EventSuspended)
				case staged.EventRegressed, staged.EventRecovered:
					if m.options.OnRegression == "" {
						told[fmt.Sprint("regressed ", e.Stage, e.Target)] = fmt.Sprint(e.Kind == staged.EventRegressed)
					}
				}
			}
			before, after := facts(m.before), facts(m.run)
			for key, is := range after {
				was, word := before[key], told[key]
				switch {
				case word == "" && was != is && !(is == "false" && was == ""):
					t.Fatalf("%s went from %q to %q, and nothing is told: %v", key, was, is, m.result.Events)
				case word != "" && word != is:
					t.Fatalf("%s is told to be %q, and is %q: %v", key, word, is, m.result.Events)
				case was != is:
					kind, _, _ := strings.Cut(key, " ")
					seen[kind+" "+is]++
				}
			}
		})
	}, "target waiting", "target starting", "target updating", "target soaking", "target done", "target failed", "target timedOut", "target skipped", "target removed",
		"stage Skipped", "stage Updating", "approval requested", "approval approved", "approval rejected", "waited true", "stuck true", "stuck false",
		"regressed true", "regressed false", "suspended true", "suspended false", "run Progressing")
}

// facts is what events are about.
func facts(run *staged.Run) map[string]string {
	is := map[string]string{"run": string(run.Phase())}
	for s := range run.Stages() {
		is[fmt.Sprint("stage ", s.Index)] = string(s.Phase)
		is[fmt.Sprint("approval ", s.Index, staged.Before)], is[fmt.Sprint("approval ", s.Index, staged.After)] = string(s.Before.State), string(s.After.State)
		is[fmt.Sprint("waited ", s.Index)] = fmt.Sprint(s.Waited)
		for target := range run.Targets(s.Index) {
			is[fmt.Sprint("target ", s.Index, target.Name)] = target.State.String()
			is[fmt.Sprint("stuck ", s.Index, target.Name)] = fmt.Sprint(target.Stuck)
			is[fmt.Sprint("regressed ", s.Index, target.Name)] = fmt.Sprint(target.Regressed)
			is[fmt.Sprint("suspended ", s.Index, target.Name)] = fmt.Sprint(target.SuspendedBy != nil)
		}
	}
	return is
}

// TestCommandsAreAnswered: a command changes the run or is said to be ignored, in every phase, and
// never both: as it is given, and once more.
func TestCommandsAreAnswered(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			before, _, err := staged.Step(m.before, staged.Input{}, m.now)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range m.input.Commands {
				for _, run := range []*staged.Run{before, m.run} {
					alone, result, err := staged.Step(run, staged.Input{Commands: []staged.Command{c}}, m.now)
					if err != nil {
						t.Fatal(err)
					}
					ignored := slices.ContainsFunc(result.Events, func(e staged.Event) bool { return e.Kind == staged.EventCommandIgnored && e.To == string(c.Kind) })
					if changed := !bytes.Equal(encode(t, alone), encode(t, run)); changed == ignored {
						t.Fatalf("%+v: changed %t, ignored %t: %v\n%s", c, changed, ignored, result.Events, run)
					}
					if ignored {
						seen[string(run.Phase())]++
					} else {
						seen[string(c.Kind)]++
					}
				}
			}
		})
	}, "Initialized", "Progressing", "Waiting", "Held", "Stopped", "Cancelled", "Failed", "Succeeded", "PartiallySucceeded", "approve", "reject", "endWait", "skip", "retry", "suspend", "resume", "cancel")
}

// TestNothingStartsUntold: a run whose spec leaves the state out waits for somebody to say Run.
func TestNothingStartsUntold(t *testing.T) {
	spec := benchSpec()
	spec.State = ""
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, spec, fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if run, result := step(t, run, staged.Input{}, benchStart); run.Phase() != staged.PhaseInitialized || result.Actions != nil {
		t.Errorf("%v\n%s", result.Actions, run)
	}
}

// TestCancelWhileFailing: whoever cancels a run that fails already has cancelled it, and it settles
// what is in progress as before.
func TestCancelWhileFailing(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}}, staged.Options{}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1")
	s.want(staged.PhaseFailing, "c1 failed (reported_failed), c2 starting")
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}).want(staged.PhaseCancelling, "c1 failed (reported_failed), c2 starting")
	s.see(staged.HealthReady, "c2").want(staged.PhaseCancelled, "c1 failed (reported_failed), c2 done")
}

// TestRetryOfAnotherAttempt: a retry that comes late, or twice, is about an attempt that nobody
// waits for any more.
func TestRetryOfAnotherAttempt(t *testing.T) {
	retry := func(attempt int) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: attempt}}}
	}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{OnFailure: staged.Hold}, []string{"c1"})
	s.see(staged.HealthFailed, "c1").step(retry(1)).see(staged.HealthFailed, "c1")
	for _, other := range []int{0, 1, 3} {
		s.step(retry(other))
		if e := s.result.Events; len(e) != 1 || e[0].Reason != staged.ReasonOtherAttempt || s.run.Phase() != staged.PhaseHeld {
			t.Errorf("attempt %d of 2: %v\n%s", other, e, s.run)
		}
	}
	if s.step(retry(2)); s.run.Phase() != staged.PhaseProgressing || s.tokens["c1"].Attempt != 3 {
		t.Errorf("attempt 2 has failed, and is not retried: %s", s.run)
	}
}

// TestRetryMakesTokensStale: what was seen of a failed attempt says nothing of the next one, be it
// started or not. A target that is gone is removed all the same if the fleet says so.
func TestRetryMakesTokensStale(t *testing.T) {
	for _, state := range []staged.State{staged.StateStop, ""} { // a stop keeps the retried target from being started
		for _, seen := range []staged.Observation{{Version: "v2", Health: staged.HealthReady}, {Version: "v3"}, {Gone: true}} {
			s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{OnFailure: staged.Hold}, []string{"c1"})
			seen.Target, seen.Token = "c1", s.result.Actions[0].Token
			s.see(staged.HealthFailed, "c1").step(staged.Input{State: state, Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1}}})
			was, _ := s.run.Target("c1")
			s.step(staged.Input{Observations: []staged.Observation{seen}})
			is, _ := s.run.Target("c1")
			if is != was || is.Attempt != 2 || len(s.result.Events) != 1 || s.result.Events[0].Reason != staged.ReasonStaleToken {
				t.Errorf("%v: %+v: %v, %+v", state, seen, s.result.Events, is)
			}
			if is, _ := s.step(staged.Input{Removed: []string{"c1"}}).run.Target("c1"); is.State != staged.Removed {
				t.Errorf("%v: %+v", state, is)
			}
		}
	}
}

// TestVerdictsComeTrue: what a verdict says happens. At Until something happens to what is waited
// for, and not before if nobody does anything; an approval that is waited for can be given; who is
// to be observed is in progress or regressed; and what an operator can do has an effect.
func TestVerdictsComeTrue(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		drive(t, func(m *moment) {
			if m.run.Phase().Terminal() {
				return
			}
			verdicts := map[string]staged.Verdict{}
			for s := range m.run.Stages() {
				for target := range m.run.Targets(s.Index) {
					if v, ok := m.run.Explain(target.Name); ok {
						verdicts[target.Name] = v
					}
				}
			}
			for name, v := range verdicts {
				code := v.Reason
				if v.Data.Behind != "" {
					code = v.Data.Behind
				}
				if !v.Until.IsZero() {
					comesTrue(t, m, name, v, code)
					seen["until "+string(code)]++
				}
				canHappen(t, m, v)
			}
			whole, _ := m.run.Waits()
			canHappen(t, m, whole)
			switch m.run.Phase() {
			case staged.PhaseStopping, staged.PhaseFailing, staged.PhaseCancelling:
				if !whole.Until.Equal(m.result.Next) {
					t.Fatalf("until %v, next %v\n%s", whole.Until, m.result.Next, m.run)
				}
				seen["ending "+string(m.run.Phase())]++
			}
		})
	}, "until in_progress", "until slot", "until group", "until wait", "until approval", "ending Stopping", "ending Failing", "ending Cancelling")
}

// comesTrue goes from Next to Next until the instant of a verdict.
func comesTrue(t *rapid.T, m *moment, name string, v staged.Verdict, code staged.Reason) {
	ofGroup := v.Reason == staged.ReasonGroup // and not behind another stage, which waits for any of its slots
	holders := func(run *staged.Run) (list []string) {
		for target := range run.Targets(v.Data.Stage) {
			if ofGroup && target.Group != v.Data.Detail {
				continue
			}
			if target.State == staged.Starting || target.State == staged.Updating || target.State == staged.Soaking {
				list = append(list, target.Name)
			}
		}
		return list
	}
	run, next := m.run, m.result.Next
	for next.Before(v.Until) {
		if next.IsZero() {
			t.Fatalf("%s: %s, but nothing happens by itself\n%s", name, v, m.run)
		}
		var result staged.Result
		var err error
		if run, result, err = staged.Step(run, staged.Input{}, next); err != nil {
			t.Fatal(err)
		}
		next = result.Next
		if run.Phase().Terminal() {
			return // a stop or a failure ends for what is stuck
		}
		if (code == staged.ReasonSlot || code == staged.ReasonGroup) && !slices.Equal(holders(run), holders(m.run)) {
			t.Fatalf("%s: %s, but at %v %v hold slots\n%s", name, v, run.Time(), holders(run), m.run)
		}
	}
	if !next.Equal(v.Until) {
		t.Fatalf("%s: %s, but the next instants are %v\n%s", name, v, next, m.run)
	}
	then, _, err := staged.Step(run, staged.Input{}, next)
	if err != nil {
		t.Fatal(err)
	}
	switch code {
	case staged.ReasonSlot, staged.ReasonGroup:
		if left := holders(then); !slices.ContainsFunc(holders(m.run), func(name string) bool { return !slices.Contains(left, name) }) {
			t.Fatalf("%s: %s, but then the same hold slots\n%s", name, v, then)
		}
	case staged.ReasonInProgress:
		was, _ := run.Target(name)
		if is, _ := then.Target(name); is.State == was.State {
			t.Fatalf("%s: %s, but then it is the same\n%s", name, v, then)
		}
	default:
		if !slices.Collect(then.Stages())[v.Data.Stage].Waited {
			t.Fatalf("%s: %s, but then the wait is not over\n%s", name, v, then)
		}
	}
}

// canHappen tries the events that a verdict waits for.
func canHappen(t *rapid.T, m *moment, v staged.Verdict) {
	stages := slices.Collect(m.run.Stages())
	for _, on := range v.On {
		var tries []staged.Input
		command := func(c staged.Command) {
			tries = append(tries, staged.Input{Commands: []staged.Command{c}})
		}
		switch on.Kind {
		case staged.OnApproval:
			for _, side := range []staged.Side{staged.Before, staged.After} {
				if staged.ApprovalName("run", side, stages[on.Stage].Name) == on.Name {
					command(staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: on.Stage, Side: side})
				}
			}
		case staged.OnObservation:
			for _, o := range []staged.Observation{{Version: "v2", Health: staged.HealthReady}, {Version: "v2", Health: staged.HealthFailed}, {Gone: true}} {
				o.Target = on.Target
				tries = append(tries, staged.Input{Observations: []staged.Observation{o}})
			}
		case staged.OnSlot:
			for target := range m.run.Targets(on.Stage) {
				tries = append(tries, staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: target.Name}}})
			}
		case staged.OnGroup:
			for target := range m.run.Targets(on.Stage) {
				if target.Group == on.Name && !target.Start.IsZero() {
					command(staged.Command{Kind: staged.CommandSkip, Target: target.Name})
				}
			}
		case staged.OnOperator:
			if strings.Contains(on.Detail, "set state Run") {
				tries = append(tries, staged.Input{State: staged.StateRun})
			}
			if strings.Contains(on.Detail, "cancel") {
				command(staged.Command{Kind: staged.CommandCancel})
			}
			for _, name := range v.Data.Names {
				if strings.Contains(on.Detail, "skip") {
					command(staged.Command{Kind: staged.CommandSkip, Target: name})
				}
				if strings.Contains(on.Detail, "resume") { // each of the two must do
					then, _, err := staged.Step(m.run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandResume, Target: name}}}, m.now)
					if is, _ := then.Target(name); err != nil || is.SuspendedBy != nil {
						t.Fatalf("%s: %s is not resumed: %v\n%s", v, name, err, m.run)
					}
				}
			}
			if says, can := strings.Contains(on.Detail, "retry"), slices.ContainsFunc(v.Data.Names, func(name string) bool { return canRetry(m, name) }); v.Data.Detail == "budget" && says != can && strings.Contains(on.Detail, "skip") {
				t.Fatalf("%s: a retry of one of them is accepted: %v\n%s", v, can, m.run)
			}
			if strings.Contains(on.Detail, "approve") {
				for _, side := range []staged.Side{staged.Before, staged.After} {
					command(staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: on.Stage, Side: side})
				}
			}
		}
		if !slices.ContainsFunc(tries, func(in staged.Input) bool {
			then, _, err := staged.Step(m.run, in, m.now)
			return err == nil && !reflect.DeepEqual(facts(then), facts(m.run))
		}) {
			t.Fatalf("%s: nothing that is %q changes anything\n%s", v, on, m.run)
		}
	}
}

// canRetry reports whether a retry of the last attempt at a target is accepted.
func canRetry(m *moment, name string) bool {
	target, _ := m.run.Target(name)
	_, result, err := staged.Step(m.run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: name, Attempt: target.Attempt}}}, m.now)
	return err == nil && !slices.ContainsFunc(result.Events, func(e staged.Event) bool { return e.Kind == staged.EventCommandIgnored })
}

// TestTerminalRunsAnswer: who commands a run that is over is told so, and everything else is as if
// nothing had been said.
func TestTerminalRunsAnswer(t *testing.T) {
	run, _ := step(t, midRun(t), staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "b3"}, {Kind: staged.CommandCancel}}}, benchStart.Add(7*time.Minute))
	if run.Phase() != staged.PhaseCancelled {
		t.Fatal(run)
	}
	then, result := step(t, run, staged.Input{State: staged.StateRun, Removed: []string{"a1"}, Commands: []staged.Command{
		{Kind: staged.CommandApprove, Run: "run", Stage: 0, Side: staged.After}, {Kind: staged.CommandCancel}, {Kind: staged.CommandSkip, Target: "b1"}}}, benchStart.Add(time.Hour))
	want := []staged.Event{
		{Kind: staged.EventCommandIgnored, Stage: 0, Side: staged.After, To: "approve", Reason: staged.ReasonEnded},
		{Kind: staged.EventCommandIgnored, Stage: -1, To: "cancel", Reason: staged.ReasonEnded},
		{Kind: staged.EventCommandIgnored, Stage: -1, Target: "b1", To: "skip", Reason: staged.ReasonEnded},
	}
	if then != run || !slices.Equal(result.Events, want) || len(result.Actions) > 0 || !result.Next.IsZero() {
		t.Errorf("got %+v, want %v", result, want)
	}
}

// TestElapsedWaitsStayAsTheyWere: a stop behind the end of a wait does not move that end, whatever
// stopped time counts as.
func TestElapsedWaitsStayAsTheyWere(t *testing.T) {
	only := all("only", 1)
	only.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}, {Type: staged.Approval}}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{only}}, staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"})
	s.see(staged.HealthReady, "c1").after(time.Hour).step(staged.Input{})
	was := slices.Collect(s.run.Stages())[0]
	s.step(staged.Input{State: staged.StateStop}).after(time.Hour).step(staged.Input{State: staged.StateRun})
	if is := slices.Collect(s.run.Stages())[0]; !was.Waited || is != was {
		t.Errorf("got %+v, want %+v", is, was)
	}
}

// TestTimesOfStages: a stage begins behind its approval, ends when it is closed or fails, and a
// retry does not begin it again. One that is skipped, or fails before its approval, never began;
// one that a cancelled run leaves open has no end.
func TestTimesOfStages(t *testing.T) {
	gated := all("gated", 1)
	gated.LabelSelector.MatchLabels = map[string]string{"ring": "a"}
	gated.BeforeStageTasks, gated.AfterStageTasks = []staged.Task{{Type: staged.Approval}}, []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(5 * time.Minute)}}
	gated.MaxFailures = concurrency.Count(1)
	nobody, last := all("nobody", 1), all("last", 1)
	nobody.LabelSelector.MatchLabels, last.LabelSelector.MatchLabels = map[string]string{"ring": "z"}, map[string]string{"ring": "b"}
	fleet := staged.Fleet{Version: "v2", Targets: []staged.Target{{Name: "a", Labels: map[string]string{"ring": "a"}}, {Name: "b", Labels: map[string]string{"ring": "b"}}}}
	see := func(name string, health staged.Health) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: name, Version: "v2", Health: health}}}
	}
	answer := func(kind staged.CommandKind) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: kind, Run: "run", Side: staged.Before}}}
	}
	retry := staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "a", Attempt: 1}}}
	path := []staged.Input{{}, answer(staged.CommandApprove), see("a", staged.HealthFailed), retry, see("a", staged.HealthReady), {}, {}, {}, {}, {}}
	for _, row := range []struct {
		why    string
		inputs []staged.Input // a minute apart
		want   string         // start and end of each stage, in minutes
	}{
		{"it waits for the approval", []staged.Input{{}}, "- -, - -, - -, - -"},
		{"refused", []staged.Input{{}, answer(staged.CommandReject)}, "- 1, - -, - -, - -"},
		{"its only member failed, and it waits behind it", path[:3], "1 -, - -, - -, - -"},
		{"retried", path[:4], "1 -, - -, - -, - -"},
		{"closed when the wait is over, and what follows in the same step", path, "1 9, - 9, 9 -, - -"},
		{"the last one fails", append(slices.Clone(path), see("b", staged.HealthFailed)), "1 9, - 9, 9 10, - -"},
		{"all is done, and nothing has to be removed", append(slices.Clone(path), see("b", staged.HealthReady)), "1 9, - 9, 9 10, - 10"},
		{"cancelled in the middle", append(slices.Clone(path), staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "b"}, {Kind: staged.CommandCancel}}}), "1 9, - 9, 9 -, - -"},
	} {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{gated, nobody, last}}, benchSpec(), fleet, staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, in := range row.inputs {
			run, _ = step(t, run, in, benchStart.Add(time.Duration(i)*time.Minute))
		}
		var copied staged.Run
		if err := json.Unmarshal(encode(t, run), &copied); err != nil {
			t.Errorf("%s: %v", row.why, err)
		}
		minutes := func(at time.Time) string {
			if at.IsZero() {
				return "-"
			}
			return fmt.Sprint(int(at.Sub(benchStart).Minutes()))
		}
		var times []string
		for s := range copied.Stages() {
			times = append(times, minutes(s.Start)+" "+minutes(s.End))
		}
		if got := strings.Join(times, ", "); got != row.want {
			t.Errorf("%s: got %s, want %s\n%s", row.why, got, row.want, run)
		}
	}
}

// TestVerdictText: one row per thing that a verdict has to say, read as people read it.
func TestVerdictText(t *testing.T) {
	const start = "2026-03-10T08:00:00Z"
	see := func(health staged.Health, names ...string) (in staged.Input) {
		for _, name := range names {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
		}
		return in
	}
	answer := func(kind staged.CommandKind, side staged.Side) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: kind, Run: "run", Side: side}}}
	}
	two := func() staged.Stage {
		s := all("only", 2)
		s.MaxFailures = concurrency.Count(1)
		return s
	}
	gated := two()
	gated.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	behind := two()
	behind.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}, {Type: staged.Approval}}
	timed := two()
	timed.ProgressDeadline, timed.MinSuccessTime = staged.For(30*time.Minute), staged.For(time.Minute)
	strict := two()
	strict.MaxFailures = concurrency.Count(0)
	hold := staged.Options{OnFailure: staged.Hold, OnReject: staged.Hold}
	for _, row := range []struct {
		why     string
		stage   staged.Stage
		options staged.Options
		inputs  []staged.Input
		of      string // the run if empty
		want    string
	}{
		{"nobody has acknowledged it", timed, staged.Options{}, []staged.Input{{}}, "c1",
			"in_progress (starting) since " + start + ", times out at 2026-03-10T08:30:00Z, waits for an observation of c1"},
		{"a soak ends well", timed, staged.Options{}, []staged.Input{{}, see(staged.HealthReady, "c1")}, "c1",
			"in_progress (soaking) since " + start + ", until 2026-03-10T08:01:00Z, waits for an observation of c1"},
		{"being stuck frees no slot, the deadline does", timed, staged.Options{}, []staged.Input{{}}, "c3",
			"slot, 2 of 2 in progress: c1, c2, until 2026-03-10T08:30:00Z, waits for a target to be settled"},
		{"the end of a soak is before a deadline", timed, staged.Options{}, []staged.Input{{}, see(staged.HealthReady, "c2")}, "c3",
			"slot, 2 of 2 in progress: c1, c2, until 2026-03-10T08:01:00Z, waits for a target to be settled"},
		{"without a deadline no instant helps", two(), staged.Options{}, []staged.Input{{}}, "c3", "slot, 2 of 2 in progress: c1, c2, waits for a target to be settled"},
		{"the approval has no end, the wait beside it has", behind, staged.Options{}, []staged.Input{{}, see(staged.HealthReady, "c1", "c2"), see(staged.HealthReady, "c3", "c4")}, "",
			"approval and wait, until 2026-03-10T09:00:00Z, waits for the approval run-after-only"},
		{"all three things that can be behind a stage", behind, staged.Options{},
			[]staged.Input{{}, see(staged.HealthReady, "c1", "c2"), see(staged.HealthReady, "c3", "c4"), see(staged.HealthFailing, "c1", "c3")}, "",
			"approval and wait and regression: c1, c3, until 2026-03-10T09:00:00Z, waits for the approval run-after-only and an operator to skip or an observation of c1 and c3"},
		{"approved, and two are left", behind, staged.Options{},
			[]staged.Input{{}, see(staged.HealthReady, "c1", "c2"), see(staged.HealthReady, "c3", "c4"), see(staged.HealthFailing, "c3"), answer(staged.CommandApprove, staged.After)}, "",
			"wait and regression: c3, until 2026-03-10T09:00:00Z, waits for an operator to skip or an observation of c3"},
		{"who holds the run, and how many may", strict, hold, []staged.Input{{}, see(staged.HealthFailed, "c1", "c2")}, "c4",
			"held (budget), 2 of at most 0 failed: c1, c2, waits for an operator to skip, retry or cancel"},
		{"which approval", gated, hold, []staged.Input{{}, answer(staged.CommandReject, staged.Before)}, "c1",
			"held (rejected): run-before-only, waits for an operator to approve or cancel"},
		{"both", behind, staged.Options{OnFailure: staged.Hold, OnReject: staged.Hold, OnRegression: staged.Fail},
			[]staged.Input{{}, see(staged.HealthReady, "c1", "c2"), see(staged.HealthReady, "c3", "c4"), answer(staged.CommandReject, staged.After), see(staged.HealthFailed, "c1", "c2")}, "",
			"held (budget), 2 of at most 1 failed: c1, c2, waits for an operator to approve or cancel and an operator to skip, retry or cancel"},
		{"what a failing run still waits for", timed, staged.Options{}, []staged.Input{{}, see(staged.HealthFailed, "c1"), see(staged.HealthFailed, "c3")}, "",
			"failing (budget), 2 of at most 1 failed: c1, c3, settling until 2026-03-10T08:05:00Z, waits for a target to be settled"},
		{"but nothing helps those that will never start", timed, staged.Options{}, []staged.Input{{}, see(staged.HealthFailed, "c1"), see(staged.HealthFailed, "c3")}, "c4",
			"failing (budget), 2 of at most 1 failed: c1, c3"},
		{"the grace comes first", two(), staged.Options{StopGrace: staged.For(time.Minute)}, []staged.Input{{}, {Commands: []staged.Command{{Kind: staged.CommandCancel}}}}, "",
			"cancelling, settling until 2026-03-10T08:01:00Z, waits for a target to be settled"},
		{"a stop can be taken back, or comes to an end", two(), staged.Options{}, []staged.Input{{}, {State: staged.StateStop}}, "",
			"stopped, settling until 2026-03-10T08:05:00Z, waits for an operator to set state Run or a target to be settled"},
		{"why it has failed", strict, staged.Options{}, []staged.Input{{}, see(staged.HealthFailed, "c1"), see(staged.HealthReady, "c2")}, "c3", "ended (budget), 1 of at most 0 failed: c1"},
		{"who said no", gated, staged.Options{}, []staged.Input{{}, answer(staged.CommandReject, staged.Before)}, "", "ended (rejected): run-before-only"},
		{"what is in progress when a run ends is not followed", two(), staged.Options{StopGrace: staged.For(0)}, []staged.Input{{}, {Commands: []staged.Command{{Kind: staged.CommandCancel}}}}, "c1", "ended"},
		{"a cancelled run needs no reason", gated, staged.Options{}, []staged.Input{{}, {Commands: []staged.Command{{Kind: staged.CommandCancel}}}}, "", "ended"},
	} {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{row.stage}}, benchSpec(), fleetOf("c1", "c2", "c3", "c4"), row.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range row.inputs {
			run, _ = step(t, run, in, benchStart)
		}
		v, ok := run.Waits()
		if row.of != "" {
			v, ok = run.Explain(row.of)
		}
		if v.String() != row.want || !ok {
			t.Errorf("%s:\ngot  %s\nwant %s", row.why, v, row.want)
		}
	}
}

// TestVerdictJSON pins the shape of a verdict, which is that of package rollout's: hosts show both
// in one place.
func TestVerdictJSON(t *testing.T) {
	first, second := all("first", 1), all("second", 1)
	first.LabelSelector.MatchLabels, second.LabelSelector.MatchLabels = map[string]string{"ring": "a"}, map[string]string{"ring": "b"}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{first, second}, ProgressDeadline: staged.For(time.Hour)}, staged.Options{}, []string{"a1", "a2", "a3", "b1", "b2"})
	for name, want := range map[string]string{
		"a1": `{"status":"pending","reason":"in_progress","until":"2026-03-10T09:00:00Z","on":[{"kind":"observation","stage":0,"target":"a1"}],"data":{"position":0,"stage":0,"since":"2026-03-10T08:00:00Z","detail":"starting"}}`,
		"a3": `{"status":"pending","reason":"slot","until":"2026-03-10T09:00:00Z","on":[{"kind":"slot","stage":0}],"data":{"position":2,"stage":0,"allowed":1,"total":1,"names":["a1"]}}`,
		"b2": `{"status":"pending","reason":"stage","until":"2026-03-10T09:00:00Z","on":[{"kind":"slot","stage":0}],"data":{"position":1,"stage":0,"behind":"slot","allowed":1,"total":1,"names":["a1"]}}`,
	} {
		v, ok := s.run.Explain(name)
		data, err := json.Marshal(v)
		if err != nil || !ok || string(data) != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, data, want)
		}
	}
}

// TestBudgetOfAnEarlierStage: after a regression it is not the current stage that is over its
// budget, and the verdict says which is.
func TestBudgetOfAnEarlierStage(t *testing.T) {
	var stages []staged.Stage
	f := staged.Fleet{Version: "v2"}
	for _, ring := range []string{"a", "b", "c"} {
		stage := all(ring, 9)
		stage.LabelSelector.MatchLabels = map[string]string{"ring": ring}
		stages = append(stages, stage)
		f.Targets = append(f.Targets, staged.Target{Name: ring + "1", Labels: map[string]string{"ring": ring}})
	}
	spec := benchSpec()
	spec.State = staged.StateInitialize
	run, err := staged.Compile(staged.Strategy{Stages: stages}, spec, f, staged.Options{OnFailure: staged.Hold, OnRegression: staged.Fail, VerifyDone: staged.Always})
	if err != nil {
		t.Fatal(err)
	}
	see := func(name string, health staged.Health) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: name, Version: "v2", Health: health}}}
	}
	for _, row := range []struct {
		input staged.Input
		want  string // of c1
		stage int
	}{
		{staged.Input{}, "initialized, waits for an operator to set state Run", 2},
		{staged.Input{State: staged.StateRun}, "stage 0: slot, 1 of 9 in progress: a1, waits for a target to be settled", 0},
		{see("a1", staged.HealthReady), "stage 1: slot, 1 of 9 in progress: b1, waits for a target to be settled", 1},
		{see("a1", staged.HealthFailing), "held (budget), 1 of at most 0 failed: a1, waits for an operator to skip or cancel", 0},       // its stage is closed: a retry would be refused
		{see("b1", staged.HealthFailed), "held (budget), 1 of at most 0 failed: b1, waits for an operator to skip, retry or cancel", 1}, // of two, the current one is named
		{staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "b1"}}}, "held (budget), 1 of at most 0 failed: a1, waits for an operator to skip or cancel", 0},
	} {
		run, _ = step(t, run, row.input, benchStart)
		if v, ok := run.Explain("c1"); !ok || v.String() != row.want || v.Data.Stage != row.stage {
			t.Errorf("got  %s, of stage %d\nwant %s, of stage %d", v, v.Data.Stage, row.want, row.stage)
		}
	}
}

// TestBudgetOfLeavingTarget: a failed target that is to be removed is not retried, so nobody is told
// to.
func TestBudgetOfLeavingTarget(t *testing.T) {
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 2)}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{OnFailure: staged.Hold, LateLeaving: staged.Clean})
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range []staged.Input{{}, {Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthFailed}}}, {Leaving: []string{"c1"}}} {
		run, _ = step(t, run, input, benchStart)
	}
	if v, _ := run.Waits(); v.String() != "held (budget), 1 of at most 0 failed: c1, waits for an operator to skip or cancel" {
		t.Error(v)
	}
}

// TestBudgetOfTheRun: no stage is over a budget of its own, so that the failures of all of them are
// counted and named.
func TestBudgetOfTheRun(t *testing.T) {
	var stages []staged.Stage
	f := staged.Fleet{Version: "v2"}
	for _, ring := range []string{"a", "b"} {
		stage := all(ring, 9)
		stage.LabelSelector.MatchLabels = map[string]string{"ring": ring}
		stages = append(stages, stage)
		for i := range 7 {
			f.Targets = append(f.Targets, staged.Target{Name: fmt.Sprint(ring, i), Labels: map[string]string{"ring": ring}})
		}
	}
	run, err := staged.Compile(staged.Strategy{Stages: stages, MaxFailures: concurrency.Count(11)}, benchSpec(), f, staged.Options{OnFailure: staged.Hold})
	if err != nil {
		t.Fatal(err)
	}
	for _, ring := range []string{"a", "b"} {
		in := staged.Input{}
		for i := range 6 {
			in.Observations = append(in.Observations, staged.Observation{Target: fmt.Sprint(ring, i), Version: "v2", Health: staged.HealthFailed})
		}
		in.Observations = append(in.Observations, staged.Observation{Target: ring + "6", Version: "v2", Health: staged.HealthReady})
		run, _ = step(t, run, staged.Input{}, benchStart)
		run, _ = step(t, run, in, benchStart)
	}
	want := "held (budget), 12 of at most 11 failed: a0, a1, a2, a3, a4, a5, b0, b1, b2, b3 and 2 more, waits for an operator to skip, retry or cancel"
	if v, _ := run.Waits(); v.String() != want {
		t.Errorf("got  %s\nwant %s", v, want)
	}
	if !strings.Contains(run.String(), "\n  waits: "+want) {
		t.Error(run)
	}
}

// TestRetryOfOneNotNamed: what an operator can do does not depend on who is among the ten that a
// verdict names.
func TestRetryOfOneNotNamed(t *testing.T) {
	names := func(ring string, n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("%s%02d", ring, i))
		}
		return list
	}
	see := func(health staged.Health, names ...string) (in staged.Input) {
		for _, name := range names {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
		}
		return in
	}
	leaving := func(names ...string) staged.Input { return staged.Input{Leaving: names} }
	a, b := names("a", 12), names("b", 2)
	for _, row := range []struct {
		why    string
		budget concurrency.Limit
		inputs []staged.Input
		want   string
		retry  staged.Command
		phase  staged.Phase // after the retry
	}{
		{"ten of a closed stage come before one that can be retried", concurrency.Count(12), []staged.Input{see(staged.HealthFailed, a...), see(staged.HealthFailed, b...)},
			"a08, a09 and 4 more, waits for an operator to skip, retry or cancel", staged.Command{Kind: staged.CommandRetry, Target: "b00", Attempt: 1}, staged.PhaseHeld},
		{"and then the retry is enough", concurrency.Count(13), []staged.Input{see(staged.HealthFailed, a...), see(staged.HealthFailed, b...)},
			"a08, a09 and 4 more, waits for an operator to skip, retry or cancel", staged.Command{Kind: staged.CommandRetry, Target: "b01", Attempt: 1}, staged.PhaseProgressing},
		{"ten that are leaving come before one that is not", concurrency.Count(11), []staged.Input{see(staged.HealthFailed, a...), leaving(a[:11]...)},
			"a08, a09 and 2 more, waits for an operator to skip, retry or cancel", staged.Command{Kind: staged.CommandRetry, Target: "a11", Attempt: 1}, staged.PhaseProgressing},
		{"all of them are leaving", concurrency.Count(11), []staged.Input{see(staged.HealthFailed, a...), leaving(a...)},
			"a08, a09 and 2 more, waits for an operator to skip or cancel", staged.Command{Kind: staged.CommandRetry, Target: "a11", Attempt: 1}, staged.PhaseHeld},
	} {
		var stages []staged.Stage
		for ring, list := range map[string][]string{"a": a, "b": b} {
			stages = append(stages, staged.Stage{Name: ring, Targets: list, MaxConcurrency: concurrency.Percent(100)})
		}
		slices.SortFunc(stages, func(a, b staged.Stage) int { return strings.Compare(a.Name, b.Name) })
		run, err := staged.Compile(staged.Strategy{Stages: stages, MaxFailures: row.budget}, benchSpec(), fleetOf(append(slices.Clone(a), b...)...), staged.Options{OnFailure: staged.Hold, LateLeaving: staged.Clean})
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range append([]staged.Input{{}}, row.inputs...) {
			run, _ = step(t, run, in, benchStart)
		}
		if v, _ := run.Waits(); v.Reason != staged.ReasonHeld || !strings.HasSuffix(v.String(), row.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", row.why, v, row.want)
		}
		if run, _ = step(t, run, staged.Input{Commands: []staged.Command{row.retry}}, benchStart); run.Phase() != row.phase {
			t.Errorf("%s: after a retry %s, want %s", row.why, run.Phase(), row.phase)
		}
	}
}

// TestRetryOfARemoval: a removal that failed within the budget of removals is no way out of a run
// over its own.
func TestRetryOfARemoval(t *testing.T) {
	f := fleetOf("c1")
	f.Leaving = []string{"x1", "x2"}
	options := staged.Options{OnFailure: staged.Hold, OnRegression: staged.Fail, VerifyDone: staged.Always, Cleanup: staged.Cleanup{MaxFailures: concurrency.Count(1)}}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}, MaxFailures: concurrency.Count(0)}, benchSpec(), f, options)
	if err != nil {
		t.Fatal(err)
	}
	run, _ = step(t, run, staged.Input{}, benchStart)
	run, result := step(t, run, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady}}}, benchStart)
	run, _ = step(t, run, staged.Input{Observations: []staged.Observation{{Target: "x1", Token: result.Actions[0].Token, Health: staged.HealthFailed}, {Target: "c1", Version: "v2", Health: staged.HealthFailing}}}, benchStart)
	want := "held (budget), 1 of at most 0 failed: c1, waits for an operator to skip or cancel"
	if v, _ := run.Waits(); v.String() != want {
		t.Errorf("got  %s\nwant %s", v, want)
	}
	run, _ = step(t, run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "x1", Attempt: 1}}}, benchStart)
	if v, _ := run.Waits(); v.String() != want {
		t.Errorf("after a retry of the removal\ngot  %s\nwant %s", v, want)
	}
}
