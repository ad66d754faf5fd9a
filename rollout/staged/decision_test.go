package staged_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// decided returns a scene of three targets that were started after ann had approved.
func decided(t *testing.T) *scene {
	t.Helper()
	gated := all("only", 3)
	gated.MaxFailures = concurrency.Count(2)
	gated.BeforeStageTasks, gated.AfterStageTasks = []staged.Task{{Type: staged.Approval}}, []staged.Task{{Type: staged.Approval}}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{gated}}, staged.Options{OnReject: staged.Hold}, []string{"c1", "c2", "c3"})
	return s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.Before, By: "ann", Reason: "tested"}}})
}

// TestDecisionsAreSeen: who gave a command, when and why is in the events of the step, in what the
// run shows of its stages and targets, in verdicts and in the printed run, and it survives JSON.
func TestDecisionsAreSeen(t *testing.T) {
	at := benchStart.Add(-time.Hour)
	ann, bob := "by ann at 2026-03-10T08:00:00Z: tested", "by bob at 2026-03-10T07:00:00Z: disk broken"
	said := func(d *staged.Decision) string {
		if d == nil {
			return ""
		}
		return d.String()
	}
	look := func(s *scene, what func(run *staged.Run) string, want string) {
		t.Helper()
		var stored staged.Run
		if err := json.Unmarshal(encode(t, s.run), &stored); err != nil {
			t.Fatal(err)
		}
		for how, run := range map[string]*staged.Run{"returned": s.run, "stored": &stored} {
			if got := what(run); got != want {
				t.Errorf("%s: got %q, want %q\n%s", how, got, want, run)
			}
		}
	}
	event := func(s *scene, want string) {
		t.Helper()
		for _, e := range s.result.Events {
			if e.String() == want {
				return
			}
		}
		t.Errorf("there is no event %q: %v", want, s.result.Events)
	}
	gate := func(side staged.Side) func(run *staged.Run) string {
		return func(run *staged.Run) string {
			stage := slices.Collect(run.Stages())[0]
			if side == staged.Before {
				return said(stage.Before.Decision)
			}
			return said(stage.After.Decision)
		}
	}
	target := func(name string) func(run *staged.Run) string {
		return func(run *staged.Run) string {
			status, _ := run.Target(name)
			for other := range run.Targets(0) {
				if other.Name == name && other.String() != status.String() {
					t.Errorf("one way it is %q, the other way %q", status, other)
				}
			}
			return status.String()
		}
	}
	waits := func(run *staged.Run) string {
		v, _ := run.Waits()
		return v.String()
	}

	s := decided(t)
	event(s, "approval stage 0 before approved ("+ann+")")
	look(s, gate(staged.Before), ann)
	look(s, gate(staged.After), "")
	s.see(staged.HealthFailed, "c1", "c2").see(staged.HealthReady, "c3").want(staged.PhaseWaiting, "c1 failed (reported_failed), c2 failed (reported_failed), c3 done")
	s.step(staged.Input{Commands: []staged.Command{
		{Kind: staged.CommandSkip, Target: "c1", By: "bob", At: at, Reason: "disk broken"},
		{Kind: staged.CommandRetry, Target: "c2", Attempt: 1, By: "ann", Reason: "tested"},
		{Kind: staged.CommandSkip, Target: "c3", By: "bob", At: at, Reason: "disk broken"},
	}})
	event(s, "target stage 0 c1 skipped ("+bob+")")
	event(s, "stage 0 Updating ("+ann+")") // the retry took it back
	event(s, "target stage 0 c2 waiting ("+ann+")")
	event(s, "target stage 0 c2 starting") // nobody told it to
	event(s, "command_ignored c3 skip (already) ("+bob+")")
	look(s, target("c1"), "c1 skipped ("+bob+")")
	look(s, target("c2"), "c2 starting attempt 2 ("+ann+")")
	look(s, target("c3"), "c3 done") // the command had no effect
	s.see(staged.HealthFailed, "c2")
	look(s, target("c2"), "c2 failed attempt 2 ("+ann+") (reported_failed)")
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}})
	look(s, target("c2"), "c2 skipped attempt 2") // the retry does not explain that

	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Side: staged.After, By: "bob", At: at, Reason: "disk broken"}}})
	look(s, gate(staged.After), bob)
	look(s, waits, "held (rejected): run-after-only ("+bob+"), waits for an operator to approve or cancel")
	v, _ := s.run.Waits()
	if v.Data.Decision == nil || *v.Data.Decision != (staged.Decision{By: "bob", At: at, Reason: "disk broken"}) {
		t.Errorf("the verdict says %v", v.Data.Decision)
	}
	look(s, (*staged.Run).String, `run run: Held, version v2 of p, 1 of 3 targets done
  waits: held (rejected): run-after-only (by bob at 2026-03-10T07:00:00Z: disk broken), waits for an operator to approve or cancel
  stage 0 only: WaitingAfter, 3 at a time, at most 2 failures
    before: approval run-before-only, approved (by ann at 2026-03-10T08:00:00Z: tested)
    targets: c1 skipped (by bob at 2026-03-10T07:00:00Z: disk broken), c2 skipped attempt 2, c3 done
    after: approval run-after-only, rejected (by bob at 2026-03-10T07:00:00Z: disk broken)`)
	yes := *s
	yes.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.After, By: "ann", Reason: "tested"}}})
	look(&yes, gate(staged.After), ann) // not who said no before

	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, By: "ann", Reason: "tested"}}})
	event(s, "run Cancelled ("+ann+")")
	look(s, waits, "ended ("+ann+")")
	if text := s.run.String(); !strings.Contains(text, "\n  ended ("+ann+")\n") {
		t.Errorf("it is not told who cancelled:\n%s", text)
	}
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, By: "bob", At: at, Reason: "disk broken"}}})
	event(s, "command_ignored cancel (ended) ("+bob+")")
	look(s, waits, "ended ("+ann+")")
}

// TestCancelIsRemembered: a run that still waits for its targets says who cancelled it, in the step
// of the command and in that in which it ends.
func TestCancelIsRemembered(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1"})
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, By: "ann"}, {Kind: staged.CommandCancel, By: "bob"}}})
	if v, _ := s.run.Waits(); v.String() != "cancelling (by ann at 2026-03-10T08:00:00Z), settling until 2026-03-10T08:05:00Z, waits for a target to be settled" {
		t.Errorf("it waits: %s", v)
	}
	want := "[command_ignored cancel (already) (by bob at 2026-03-10T08:00:00Z) run Cancelling (by ann at 2026-03-10T08:00:00Z)]"
	if got := fmt.Sprint(s.result.Events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "[target stage 0 c1 done run Cancelled (by ann at 2026-03-10T08:00:00Z)]"
	if got := fmt.Sprint(s.after(time.Minute).see(staged.HealthReady, "c1").result.Events); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSkippedInBothPlaces: a skip of a target that moved from its stage to the cleanup is explained
// in both.
func TestSkippedInBothPlaces(t *testing.T) {
	stage := all("only", 1)
	stage.MaxFailures = concurrency.Count(1)
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{LateLeaving: staged.Clean}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1").step(staged.Input{Leaving: []string{"c1"}})
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1", By: "ann"}}})
	for k := range 2 {
		for target := range s.run.Targets(k) {
			if target.Name == "c1" && target.String() != "c1 skipped (by ann at 2026-03-10T08:00:00Z)" {
				t.Errorf("stage %d: %s", k, target)
			}
		}
	}
}

func TestDecisionString(t *testing.T) {
	at := time.Date(2026, 3, 10, 9, 0, 0, 5, time.FixedZone("east", 3600))
	for _, row := range []struct {
		decision  staged.Decision
		want, why string
	}{
		{staged.Decision{By: "ann", At: at, Reason: "broken"}, "by ann at 2026-03-10T08:00:00Z: broken", "times are in UTC"},
		{staged.Decision{At: at, Reason: "broken"}, "at 2026-03-10T08:00:00Z: broken", "nobody signed"},
		{staged.Decision{By: "ann", At: at}, "by ann at 2026-03-10T08:00:00Z", "no reason"},
		{staged.Decision{By: "ann\n", At: at, Reason: "\n broken:\n\tsee below\n"}, "by ann at 2026-03-10T08:00:00Z: broken: see below", "a reason of several lines does not tear the line of a log"},
	} {
		if got := row.decision.String(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.why, got, row.want)
		}
	}
}

// TestDecisionsBelongToTheCaller: whoever changes a decision that was handed out changes no run.
func TestDecisionsBelongToTheCaller(t *testing.T) {
	s := decided(t).see(staged.HealthFailed, "c1")
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1", By: "bob"}, {Kind: staged.CommandCancel, By: "bob"}}})
	was := string(encode(t, s.run))
	changed := 0
	change := func(d *staged.Decision) {
		if d != nil {
			d.By = "eve"
			changed++
		}
	}
	for _, e := range s.result.Events {
		change(e.Decision)
	}
	for stage := range s.run.Stages() {
		change(stage.Before.Decision)
	}
	for target := range s.run.Targets(0) {
		change(target.Decision)
	}
	status, _ := s.run.Target("c1")
	change(status.Decision)
	v, _ := s.run.Waits()
	change(v.Data.Decision)
	if is := string(encode(t, s.run)); is != was || changed != 6 {
		t.Errorf("%d were changed, and the run is\n%s\nand was\n%s", changed, is, was)
	}
}

// TestUndecidable: what a stored run cannot hold is refused, with the path.
func TestUndecidable(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1"})
	_, _, err := staged.Step(s.run, staged.Input{Commands: []staged.Command{
		{Kind: staged.CommandSkip, Target: "c1", By: "é", Reason: "é", At: time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)}, // the first year
		{Kind: staged.CommandCancel, By: "\xff", Reason: "a\xff", At: time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC)},
	}}, s.now)
	const want = `commands[1].by: "\xff": must be valid UTF-8
commands[1].reason: "a\xff": must be valid UTF-8
commands[1].at: 2262-01-01T00:00:00Z: must be within the years 1970 and 2261`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// A run that is over looks at no input; what it answers can still be encoded.
	over := s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}).run
	_, result, err := staged.Step(over, staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel, By: "ann", At: time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)}}}, s.now)
	if err != nil || fmt.Sprint(result.Events) != "[command_ignored cancel (ended) (by ann at 2026-03-10T08:00:00Z)]" {
		t.Errorf("%v, %v", result.Events, err)
	}
	if _, err := json.Marshal(result); err != nil {
		t.Error(err)
	}
}

// TestStoredDecisions pins how decisions are stored: once for all targets that they are about, and
// not at all if nobody said anything. What contradicts the rest of the run is refused.
func TestStoredDecisions(t *testing.T) {
	s := decided(t).see(staged.HealthFailed, "c1", "c2")
	s.step(staged.Input{Commands: []staged.Command{
		{Kind: staged.CommandRetry, Target: "c2", Attempt: 1, By: "bob"},
		{Kind: staged.CommandSkip, Target: "c1", By: "ann", Reason: "tested"},
		{Kind: staged.CommandSkip, Target: "c3", By: "ann", Reason: "tested"},
	}})
	const (
		approved = `"before":"approved","beforeBy":{"by":"ann","at":"2026-03-10T08:00:00Z","reason":"tested"}`
		first    = `{"members":[0,2],"is":{"by":"ann","at":"2026-03-10T08:00:00Z","reason":"tested"}}`
		second   = `{"members":[1],"is":{"by":"bob","at":"2026-03-10T08:00:00Z"}}`
	)
	text := string(encode(t, s.run))
	for _, part := range []string{approved, `"decisions":[` + first + `,` + second + `]`} {
		if !strings.Contains(text, part) {
			t.Fatalf("%s is not in\n%s", part, text)
		}
	}
	for _, row := range []struct{ why, from, to, want string }{
		{"it is not said when", `"by":"bob","at":"2026-03-10T08:00:00Z"`, `"by":"bob","at":null`, "stages[0].decisions[1].is.at: must be there"},
		{"no nanoseconds can hold it", `"by":"bob","at":"2026`, `"by":"bob","at":"9026`, "stages[0].decisions[1].is.at: 9026-03-10T08:00:00Z: must be within the years 1970 and 2261"},
		{"two decisions about one", `[1]`, `[2]`, "stages[0].decisions[1].members: must be ascending positions, each once in all decisions, the first after that of the decision before"},
		{"a position behind the last", `[1]`, `[3]`, "stages[0].decisions[1].members: must be ascending positions, each once in all decisions, the first after that of the decision before"},
		{"a position before the first", `[0,2]`, `[-1,2]`, "stages[0].decisions[0].members: must be ascending positions, each once in all decisions, the first after that of the decision before"},
		{"positions that descend", `[0,2]`, `[2,0]`, "stages[0].decisions[0].members: must be ascending positions, each once in all decisions, the first after that of the decision before"},
		{"decisions out of order", first + `,` + second, second + `,` + first, "stages[0].decisions[1].members: must be ascending positions, each once in all decisions, the first after that of the decision before"},
		{"about nobody", `[1]`, `[]`, "stages[0].decisions[1].members: must name a member"},
		{"neither skipped nor retried", `,"attempts":[1,2]`, ``, "stages[0].decisions[1].members: must have been skipped or retried: position 1"},
		{"an answer to what was not asked", `"states":`, `"afterBy":{"at":"2026-03-10T08:00:00Z"},"states":`, "stages[0].afterBy: must be left out: nobody has answered"},
		{"an unknown field", `"by":"bob"`, `"by":"bob","because":""`, "stages[0].decisions[1].is.because: unknown field"},
		{"a cancel of a run that goes on", `"current":0`, `"current":0,"cancelled":{"by":"ann","at":"2026-03-10T08:00:00Z"}`, "cancelled: must be left out in phase Progressing"},
	} {
		if strings.Count(text, row.from) != 1 {
			t.Fatalf("%s: %s is not in\n%s", row.why, row.from, text)
		}
		err := json.Unmarshal([]byte(strings.Replace(text, row.from, row.to, 1)), new(staged.Run))
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: got %v, want %s", row.why, err, row.want)
		}
	}
	anonymous := decided(t).see(staged.HealthFailed, "c1").step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}})
	if text := string(encode(t, anonymous.run)); strings.Contains(text, "decisions") {
		t.Errorf("nobody said anything, and yet:\n%s", text)
	}
}

// TestManyDecisions: each of many targets of a stage shows the decision about itself, whatever the
// order in which they were taken; positions beyond 16 and 256 lie deeper in the map.
func TestManyDecisions(t *testing.T) {
	const n = 300
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("c%03d", i)
	}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", n)}}, staged.Options{}, names)
	for i := range n {
		name := names[i*77%n] // every name once, in no order
		s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: name, Reason: "for " + name}}})
	}
	for _, name := range names {
		if status, _ := s.run.Target(name); status.Decision == nil || status.Decision.Reason != "for "+name {
			t.Errorf("%s: %v", name, status)
		}
	}
}
