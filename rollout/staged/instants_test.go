package staged_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// dated is an input and its time, in minutes.
type dated struct {
	minute int
	staged.Input
}

// reread is a run as a host has it after a crash.
func reread(t interface{ Fatal(...any) }, run *staged.Run) *staged.Run {
	var copied staged.Run
	if err := json.Unmarshal(encode(t, run), &copied); err != nil {
		t.Fatal(err)
	}
	return &copied
}

// instantsOf lists when what a run shows became so, in minutes. Stages that are pending have no
// instants at all.
func instantsOf(run *staged.Run) string {
	minute := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		if at.Location() != time.UTC {
			return "not in UTC"
		}
		return strings.TrimSuffix(strings.TrimSuffix(at.Sub(benchStart).String(), "m0s"), "s")
	}
	list := []string{fmt.Sprintf("begun %s, %s %s", minute(run.Begun()), run.Phase(), minute(run.PhaseSince()))}
	for s := range run.Stages() {
		text := fmt.Sprintf("%s %s", s.Phase, minute(s.PhaseSince))
		for _, gate := range []struct {
			name string
			staged.Gate
		}{{"before", s.Before}, {"after", s.After}} {
			if gate.State != staged.ApprovalNone || !gate.Requested.IsZero() || !gate.Decided.IsZero() {
				text += fmt.Sprintf(" %s %s %s %s", gate.name, gate.State, minute(gate.Requested), minute(gate.Decided))
			}
		}
		if s.Waited {
			text += " waited " + minute(s.WaitUntil)
		}
		if text != "Pending -" {
			list = append(list, text)
		}
	}
	return strings.Join(list, "; ")
}

// TestInstants: whoever loads a run knows since when all is so that it shows.
func TestInstants(t *testing.T) {
	gate := []staged.Task{{Type: staged.Approval}}
	wait := staged.Task{Type: staged.TimedWait, WaitTime: staged.For(10 * time.Minute)}
	plain, asks, both, waits := all("only", 2), all("only", 2), all("only", 2), all("only", 2)
	asks.BeforeStageTasks = gate
	both.AfterStageTasks = []staged.Task{wait, gate[0]}
	waits.AfterStageTasks = []staged.Task{wait}
	for _, stage := range []*staged.Stage{&both, &waits} {
		stage.MaxFailures = concurrency.Count(1)
	}
	answer := func(kind staged.CommandKind, side staged.Side, stage int) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: kind, Run: "run", Side: side, Stage: stage}}}
	}
	see := func(health staged.Health, names ...string) (in staged.Input) {
		for _, name := range names {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
		}
		return in
	}
	nothing, run, stop := staged.Input{}, staged.Input{State: staged.StateRun}, staged.Input{State: staged.StateStop}
	yes, no := answer(staged.CommandApprove, staged.Before, 0), answer(staged.CommandReject, staged.Before, 0)
	ready := see(staged.HealthReady, "c1", "c2")
	early := answer(staged.CommandApprove, staged.Before, 0)
	early.Commands[0].By, early.Commands[0].At = "ann", benchStart.Add(-24*time.Hour)
	retry := staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c2", Attempt: 1}}}
	there := retry
	there.Commands = append(slices.Clone(retry.Commands), staged.Command{Kind: staged.CommandSkip, Target: "c2"})
	skip := staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}}
	cancel := staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}
	steps := func(list ...dated) []dated { return list }
	at := func(minute int, in staged.Input) dated { return dated{minute, in} }
	failed := steps(at(0, nothing), at(1, see(staged.HealthReady, "c1")), at(2, see(staged.HealthFailed, "c2")))
	for _, row := range []struct {
		why     string
		stage   staged.Stage
		options staged.Options
		state   staged.State
		steps   []dated
		want    string
	}{
		{"before the first step there is no instant", asks, staged.Options{}, "Run", nil, "begun -, Initialized -"},
		{"the first step is when the run is in its phase, even if that is the one before it", plain, staged.Options{}, "Initialize", steps(at(3, nothing)), "begun 3, Initialized 3"},
		{"a step that changes nothing changes no instant", plain, staged.Options{}, "Initialize", steps(at(3, nothing), at(4, nothing)), "begun 3, Initialized 3"},
		{"started", plain, staged.Options{}, "Initialize", steps(at(3, nothing), at(5, run)), "begun 3, Progressing 5; Updating 5"},
		{"stopped by the first step", plain, staged.Options{}, "Stop", steps(at(3, nothing)), "begun 3, Stopped 3"},
		{"asked for, and asked for again by every step", asks, staged.Options{}, "Run", steps(at(0, nothing), at(7, nothing)), "begun 0, Waiting 0; WaitingBefore 0 before requested 0 -"},
		{"approved, and then once more", asks, staged.Options{}, "Run", steps(at(0, nothing), at(7, yes), at(8, yes)), "begun 0, Progressing 7; Updating 7 before approved 0 7"},
		{"what a command says of its time does not count: it is of another clock", asks, staged.Options{}, "Run", steps(at(0, nothing), at(7, early)), "begun 0, Progressing 7; Updating 7 before approved 0 7"},
		{"approved during a stop: the stage begins later", asks, staged.Options{}, "Run", steps(at(0, nothing), at(2, stop), at(4, yes), at(9, run)), "begun 0, Progressing 9; Updating 9 before approved 0 4"},
		{"approved during a stop that lasts", asks, staged.Options{}, "Run", steps(at(0, nothing), at(2, stop), at(4, yes)), "begun 0, Stopped 2; WaitingBefore 0 before approved 0 4"},
		{"resumed, the run waits since then, and the stage still since it began to", asks, staged.Options{}, "Run", steps(at(0, nothing), at(2, stop), at(4, run)), "begun 0, Waiting 4; WaitingBefore 0 before requested 0 -"},
		{"rejected", asks, staged.Options{OnReject: staged.Hold}, "Run", steps(at(0, nothing), at(2, no), at(3, no)), "begun 0, Held 2; WaitingBefore 0 before rejected 0 2"},
		{"rejected, and then approved: the present answer counts", asks, staged.Options{OnReject: staged.Hold}, "Run", steps(at(0, nothing), at(2, no), at(5, yes)), "begun 0, Progressing 5; Updating 5 before approved 0 5"},
		{"rejected for good", asks, staged.Options{}, "Run", steps(at(0, nothing), at(2, no)), "begun 0, Failed 2; Failed 2 before rejected 0 2"},
		{"all tasks behind a stage", both, staged.Options{}, "Run", steps(at(0, nothing), at(2, ready), at(5, answer(staged.CommandApprove, staged.After, 0))), "begun 0, Waiting 2; WaitingAfter 2 after approved 2 5"},
		{"closed in the end", both, staged.Options{}, "Run", steps(at(0, nothing), at(2, ready), at(5, answer(staged.CommandApprove, staged.After, 0)), at(12, nothing)), "begun 0, Succeeded 12; Succeeded 12 after approved 2 5 waited 12; Skipped 12"},
		{"a wait is over when it is over, and not when a late step finds it", both, staged.Options{}, "Run", steps(at(0, nothing), at(2, ready), at(30, nothing)), "begun 0, Waiting 2; WaitingAfter 2 after requested 2 - waited 12"},
		{"over during a stop, because stopped time counts", both, staged.Options{}, "Run", steps(at(0, nothing), at(2, ready), at(5, stop), at(15, nothing), at(20, run)), "begun 0, Waiting 20; WaitingAfter 2 after requested 2 - waited 12"},
		{"over behind a stop that froze it for 15 minutes", both, staged.Options{WaitDuringStop: staged.Freeze}, "Run", steps(at(0, nothing), at(2, ready), at(5, stop), at(20, run), at(40, nothing)), "begun 0, Waiting 20; WaitingAfter 2 after requested 2 - waited 27"},
		{"over before a stop that would have frozen it", both, staged.Options{WaitDuringStop: staged.Freeze}, "Run", steps(at(0, nothing), at(2, ready), at(15, stop), at(20, run)), "begun 0, Waiting 20; WaitingAfter 2 after requested 2 - waited 12"},
		{"over while the run was held, before a stop that would have frozen it", waits, staged.Options{OnFailure: staged.Hold, WaitDuringStop: staged.Freeze}, "Run", steps(at(0, nothing), at(2, see(staged.HealthFailed, "c1", "c2")), at(15, stop), at(18, skip), at(20, run)), "begun 0, PartiallySucceeded 20; Succeeded 20 waited 12; Skipped 20"},
		{"over at the very stop that would have frozen it, while the run was held", waits, staged.Options{OnFailure: staged.Hold, WaitDuringStop: staged.Freeze}, "Run", steps(at(0, nothing), at(2, see(staged.HealthFailed, "c1", "c2")), at(12, stop), at(18, skip), at(20, run)), "begun 0, PartiallySucceeded 20; Succeeded 20 waited 12; Skipped 20"},
		{"half over while the run was held, before a stop that froze it", waits, staged.Options{OnFailure: staged.Hold, WaitDuringStop: staged.Freeze}, "Run", steps(at(0, nothing), at(2, see(staged.HealthFailed, "c1", "c2")), at(7, stop), at(18, skip), at(20, run), at(40, nothing)), "begun 0, PartiallySucceeded 40; Succeeded 40 waited 25; Skipped 40"},
		{"settled and over during a stop: the stage waited for nothing by the time it came to that", waits, staged.Options{}, "Run", steps(at(0, nothing), at(1, stop), at(2, ready), at(20, run)), "begun 0, Succeeded 20; Succeeded 20 waited 12; Skipped 20"},
		{"stopping, until the targets are settled", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, stop)), "begun 0, Stopping 1; Updating 0"},
		{"stopped once they are", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, stop), at(3, ready)), "begun 0, Stopped 3; Updating 0"},
		{"resumed: the stage updates all the time", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, stop), at(3, see(staged.HealthReady, "c1")), at(5, run)), "begun 0, Progressing 5; Updating 0"},
		{"failed, and held for it: the stage stays in its phase", waits, staged.Options{OnFailure: staged.Hold}, "Run", steps(at(0, nothing), at(1, see(staged.HealthFailed, "c1")), at(2, see(staged.HealthFailed, "c2"))), "begun 0, Held 2; Updating 0"},
		{"the wait behind the failed one", both, staged.Options{}, "Run", failed, "begun 0, Waiting 2; WaitingAfter 2 after requested 2 -"},
		{"retried: the stage updates again, and asks for nothing anew", both, staged.Options{}, "Run", append(slices.Clone(failed), at(6, retry)), "begun 0, Progressing 6; Updating 6 after requested 2 -"},
		{"retried during a stop: the stage goes back at once", both, staged.Options{}, "Run", append(slices.Clone(failed), at(4, stop), at(6, retry)), "begun 0, Stopped 4; Updating 6 after requested 2 -"},
		{"there and back in one step: the run waits all the time, the stage anew", both, staged.Options{}, "Run", append(slices.Clone(failed), at(6, there)), "begun 0, Waiting 2; WaitingAfter 6 after requested 2 -"},
		{"retried behind its wait, which then starts again", both, staged.Options{}, "Run", append(slices.Clone(failed), at(15, nothing), at(16, retry), at(17, see(staged.HealthReady, "c2")), at(28, nothing)), "begun 0, Waiting 17; WaitingAfter 17 after requested 2 - waited 27"},
		{"failing", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, see(staged.HealthFailed, "c1"))), "begun 0, Failing 1; Updating 0"},
		{"failed with its last target", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, see(staged.HealthFailed, "c1")), at(4, see(staged.HealthReady, "c2"))), "begun 0, Failed 4; Failed 4"},
		{"cancelling, and then cancelled", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, cancel), at(2, cancel), at(4, ready)), "begun 0, Cancelled 4; Updating 0"},
		{"what is over stays as it was", plain, staged.Options{}, "Run", steps(at(0, nothing), at(1, ready), at(9, nothing)), "begun 0, Succeeded 1; Succeeded 1; Skipped 1"},
		{"the clock is set back: the time of the last step counts", asks, staged.Options{}, "Run", steps(at(5, nothing), at(2, yes), at(1, stop)), "begun 5, Stopping 5; Updating 5 before approved 5 5"},
	} {
		spec := benchSpec()
		spec.State = row.state
		r, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{row.stage}}, spec, fleetOf("c1", "c2"), row.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range row.steps {
			now := benchStart.Add(time.Duration(in.minute) * time.Minute).In(time.FixedZone("east", 3600))
			lost := r
			r, _ = step(t, r, in.Input, now)
			if again, _ := step(t, reread(t, lost), in.Input, now); instantsOf(again) != instantsOf(r) { // a save was lost
				t.Errorf("%s: the second time %s, the first time %s", row.why, instantsOf(again), instantsOf(r))
			}
			r = reread(t, r)
		}
		if got := instantsOf(r); got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", row.why, got, row.want)
		}
	}
}

// TestInstantsOfNeedlessApproval: a request that is taken back was not made at any time, and nobody
// decided.
func TestInstantsOfNeedlessApproval(t *testing.T) {
	gated := staged.Strategy{Stages: []staged.Stage{all("st", 1)}, DeleteStage: staged.DeleteStage{BeforeStageTasks: []staged.Task{{Type: staged.Approval}}}}
	s := newScene(t, gated, staged.Options{VerifyDone: staged.Always}, []string{"c1"}, "d1").after(time.Minute).see(staged.HealthReady, "c1")
	if got, want := instantsOf(s.run), "begun 0, Waiting 1; Succeeded 1; WaitingBefore 1 before requested 1 -"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.after(time.Minute).step(staged.Input{Removed: []string{"d1"}})
	if got, want := instantsOf(s.run), "begun 0, Succeeded 2; Succeeded 1; Succeeded 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestInstantsAreThoseOfEvents: whoever loads the run after a crash knows the instants that were
// told by the events of the steps before, and no others; if saves were lost, those of the steps that
// were made in their place.
func TestInstantsAreThoseOfEvents(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		var begun, phased time.Time
		stages, ended := map[int]time.Time{}, map[int]bool{}
		requested, decided := map[string]time.Time{}, map[string]time.Time{}
		waited := map[int]time.Time{} // when a step told so
		drive(t, func(m *moment) {
			now := m.run.Time()
			if m.before.Time().IsZero() {
				begun, phased = now, now
			}
			for _, e := range m.result.Events {
				gate := fmt.Sprint(e.Stage, e.Side)
				switch {
				case e.Kind == staged.EventRun:
					phased = now
				case e.Kind == staged.EventStage:
					stages[e.Stage] = now
					ended[e.Stage] = e.To == string(staged.StageSucceeded) || e.To == string(staged.StageSkipped) || e.To == string(staged.StageFailed)
				case e.Kind == staged.EventApproval && e.To == string(staged.ApprovalNone):
					delete(requested, gate)
					seen["taken back"]++
				case e.Kind == staged.EventApproval && e.To == string(staged.ApprovalRequested):
					requested[gate] = now
				case e.Kind == staged.EventApproval:
					if !decided[gate].IsZero() {
						seen["decided again"]++
					}
					decided[gate] = now
					seen[e.To]++
				case e.Kind == staged.EventWait && e.To == "elapsed":
					waited[e.Stage] = now
				}
			}
			run := reread(t, m.run)
			if !run.Begun().Equal(begun) || !run.PhaseSince().Equal(phased) {
				t.Fatalf("begun %v, %s since %v, was told %v and %v", run.Begun(), run.Phase(), run.PhaseSince(), begun, phased)
			}
			seen[string(run.Phase())]++
			for s := range run.Stages() {
				before, after := fmt.Sprint(s.Index, staged.Before), fmt.Sprint(s.Index, staged.After)
				for _, is := range []struct {
					what      string
					got, want time.Time
				}{
					{"phase", s.PhaseSince, stages[s.Index]},
					{"before requested", s.Before.Requested, requested[before]}, {"before decided", s.Before.Decided, decided[before]},
					{"after requested", s.After.Requested, requested[after]}, {"after decided", s.After.Decided, decided[after]},
				} {
					if !is.got.Equal(is.want) || !is.got.IsZero() && is.got.Location() != time.UTC {
						t.Fatalf("stage %d, %s: %v, was told %v\n%s", s.Index, is.what, is.got, is.want, run)
					}
					if is.got.After(now) {
						t.Fatalf("stage %d, %s: %v is after the last step, at %v", s.Index, is.what, is.got, now)
					}
				}
				if ended[s.Index] && !s.PhaseSince.Equal(s.End) {
					t.Fatalf("stage %d: %s since %v, ended at %v", s.Index, s.Phase, s.PhaseSince, s.End)
				}
				early := s.WaitEndedBy != nil
				if early {
					seen["ended by a command"]++
				}
				if s.Waited && (s.WaitUntil.IsZero() || s.WaitUntil.After(waited[s.Index]) || early && s.WaitUntil.Before(waited[s.Index]) || !early && s.WaitUntil.Before(s.WaitFrom.Add(s.Wait))) {
					t.Fatalf("stage %d: the wait from %v was over at %v, as was told at %v", s.Index, s.WaitFrom, s.WaitUntil, waited[s.Index])
				}
				if s.Waited && s.WaitUntil.After(s.WaitFrom.Add(s.Wait)) {
					seen["waited behind a stop"]++
				}
			}
			if !m.result.Changed && !reflect.DeepEqual(pictureOf(run), pictureOf(m.before)) {
				t.Fatalf("a step that changes nothing changes\n%v to\n%v", instantsOf(m.before), instantsOf(run))
			}
			if m.now.Before(m.run.Time()) {
				seen["clock set back"]++
			}
		})
	}, append(phases(), "approved", "rejected", "decided again", "taken back", "waited behind a stop", "ended by a command", "clock set back")...)
}

// TestRunWithoutInstants: a run that was stored before there were instants is read and stored as it
// was, steps that change nothing leave it so, and what changes later is noted. The file is from the
// version before; it is never written again.
func TestRunWithoutInstants(t *testing.T) {
	indented, err := os.ReadFile("testdata/run_without_instants.json")
	if err != nil {
		t.Fatal(err)
	}
	var old bytes.Buffer
	if err := json.Compact(&old, indented); err != nil {
		t.Fatal(err)
	}
	run := new(staged.Run)
	if err := json.Unmarshal(old.Bytes(), run); err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		if got := instantsOf(reread(t, run)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	// The ends of stages and of waits were stored before.
	const without = "begun -, Progressing -; Succeeded 3 after approved - - waited 3; Updating - before approved - -"
	check(without)
	if got := encode(t, run); !bytes.Equal(got, old.Bytes()) {
		t.Errorf("is stored again as\n%s\nand was\n%s", got, old.Bytes())
	}
	now := run.Time()
	run, result := step(t, run, staged.Input{}, now.Add(time.Second))
	if result.Changed {
		t.Error("an empty step changes it")
	}
	check(without)
	run, _ = step(t, run, staged.Input{State: staged.StateStop}, now.Add(time.Minute))
	check(strings.Replace(without, "Progressing -", "Stopping 7", 1))
	run, _ = step(t, run, staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}, now.Add(2*time.Minute))
	check(strings.Replace(without, "Progressing -", "Cancelling 8", 1))
	again, _ := step(t, midRun(t), staged.Input{State: staged.StateStop}, now.Add(time.Minute))
	if again.PhaseSince().IsZero() || again.Begun().IsZero() {
		t.Error("the same run of this version has no instants either")
	}
}

// TestStoredInstants: what contradicts the rest of the run is refused. An instant that is missing is
// not, because an older version stored none.
func TestStoredInstants(t *testing.T) {
	good := string(encode(t, midRun(t)))
	gated := staged.Strategy{Stages: []staged.Stage{all("only", 1)}}
	gated.Stages[0].BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	asks := newScene(t, gated, staged.Options{}, []string{"c1"}).after(time.Minute)
	asked := string(encode(t, asks.run))
	refused := string(encode(t, asks.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Side: staged.Before}}}).run))
	stops := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1"})
	stopped := string(encode(t, stops.after(time.Minute).step(staged.Input{State: staged.StateStop}).after(time.Minute).see(staged.HealthFailed, "c1").run))
	empty := newScene(t, staged.Strategy{Stages: []staged.Stage{{Name: "nobody"}, all("only", 1)}}, staged.Options{}, []string{"c1"}).after(time.Minute)
	passed := string(encode(t, empty.see(staged.HealthReady, "c1").run))
	fresh, err := staged.Compile(gated, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	unbegun := string(encode(t, fresh))
	seen := map[string]bool{}
	for _, row := range []struct{ why, stored, from, to, want string }{
		{"not said when it began", good, `"begun":"2026-03-10T08:00:30Z",`, ``, ""},
		{"not said since when it is in its phase", good, `"phaseSince":"2026-03-10T08:03:30Z","current"`, `"current"`, ""},
		{"not said when it was asked for", good, `"beforeRequested":"2026-03-10T08:03:00Z",`, ``, ""},
		{"not said when it was decided", good, `"afterDecided":"2026-03-10T08:02:30Z",`, ``, ""},
		{"not said since when the stage is in its phase", good, `"phaseSince":"2026-03-10T08:03:30Z","members"`, `"members"`, ""},
		{"another zone", good, `"begun":"2026-03-10T08:00:30Z"`, `"begun":"2026-03-10T09:00:30+01:00"`, ""},
		{"a retry is why the stage is in its phase, and not its start", good, `"phaseSince":"2026-03-10T08:03:30Z","members"`, `"phaseSince":"2026-03-10T08:06:00Z","members"`, ""},
		{"asked for in the step that closed the stage before", good, `"beforeDecided":"2026-03-10T08:03:30Z"`, `"beforeDecided":"2026-03-10T08:03:00Z"`, ""},
		{"no instant", good, `"begun":"2026-03-10T08:00:30Z"`, `"begun":"soon"`, `begun: "soon": must be an instant of RFC 3339 with its offset, such as 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00`},
		{"misspelt", good, `"beforeDecided":`, `"beforeDecide":`, `stages[1].beforeDecide: unknown field; did you mean "beforeDecided"?`},
		{"no int64 holds when it began", good, `"begun":"2026`, `"begun":"9026`, "begun: 9026-03-10T08:00:30Z: must be within the years 1970 and 2261"},
		{"no int64 holds since when it is in its phase", good, `"phaseSince":"2026-03-10T08:03:30Z","current"`, `"phaseSince":"1926-03-10T08:03:30Z","current"`, "phaseSince: 1926-03-10T08:03:30Z: must be within the years 1970 and 2261"},
		{"no int64 holds when it was asked for", good, `"afterRequested":"2026`, `"afterRequested":"9026`, "stages[0].afterRequested: 9026-03-10T08:02:00Z: must be within the years 1970 and 2261"},
		{"begun after its first stage", good, `"begun":"2026-03-10T08:00:30Z"`, `"begun":"2026-03-10T08:00:31Z"`, "begun: must not be after the start of the first stage, nor after its end"},
		{"begun in the future", good, `"begun":"2026-03-10T08:00:30Z"`, `"begun":"2026-03-10T08:07:00Z"`, "begun: must not be after the start of the first stage, nor after its end\nbegun: must not be after since, nor after the time of the run\nphaseSince: must be between 2026-03-10T08:07:00Z and 2026-03-10T08:06:00Z, by what else is stored"},
		{"begun after it was stopped", stopped, `"begun":"2026-03-10T08:00:00Z","phaseSince":"2026-03-10T08:02:00Z"`, `"begun":"2026-03-10T08:01:01Z","phaseSince":"2026-03-10T08:02:00Z"`,
			"begun: must not be after the start of the first stage, nor after its end\nbegun: must not be after since, nor after the time of the run"},
		{"begun after its first stage was skipped", passed, `"begun":"2026-03-10T08:00:00Z"`, `"begun":"2026-03-10T08:00:01Z"`, "begun: must not be after the start of the first stage, nor after its end"},
		{"begun before the first step", unbegun, `"current":0`, `"begun":"2026-03-10T08:00:00Z","current":0`, "begun: and phaseSince must be left out before the first step"},
		{"in a phase before the first step", unbegun, `"current":0`, `"phaseSince":"2026-03-10T08:00:00Z","current":0`, "begun: and phaseSince must be left out before the first step"},
		{"in its phase since the future", good, `"phaseSince":"2026-03-10T08:03:30Z","current"`, `"phaseSince":"2026-03-10T08:06:00.000000001Z","current"`, "phaseSince: must be between 2026-03-10T08:00:30Z and 2026-03-10T08:06:00Z, by what else is stored"},
		{"in its phase since the future, and not said when it began", good, `"begun":"2026-03-10T08:00:30Z","phaseSince":"2026-03-10T08:03:30Z","current"`, `"phaseSince":"2026-03-10T08:07:00Z","current"`, "phaseSince: must be between 1970-01-01T00:00:00Z and 2026-03-10T08:06:00Z, by what else is stored"},
		{"in its phase before it began", good, `"phaseSince":"2026-03-10T08:03:30Z","current"`, `"phaseSince":"2026-03-10T08:00:29Z","current"`, "phaseSince: must be between 2026-03-10T08:00:30Z and 2026-03-10T08:06:00Z, by what else is stored"},
		{"stopped before the stop", stopped, `"phaseSince":"2026-03-10T08:02:00Z","current"`, `"phaseSince":"2026-03-10T08:00:59Z","current"`, "phaseSince: must be between 2026-03-10T08:01:00Z and 2026-03-10T08:02:00Z, by what else is stored"},
		{"asked for before the stage before was closed", good, `"beforeRequested":"2026-03-10T08:03:00Z"`, `"beforeRequested":"2026-03-10T08:02:59Z"`, "stages[1].beforeRequested: must be between 2026-03-10T08:03:00Z and 2026-03-10T08:03:30Z, by what else is stored"},
		{"asked for after the stage began", good, `"beforeRequested":"2026-03-10T08:03:00Z"`, `"beforeRequested":"2026-03-10T08:03:31Z"`, "stages[1].beforeRequested: must be between 2026-03-10T08:03:00Z and 2026-03-10T08:03:30Z, by what else is stored"},
		{"decided before it was asked for", good, `"beforeRequested":"2026-03-10T08:03:00Z","beforeDecided":"2026-03-10T08:03:30Z"`, `"beforeRequested":"2026-03-10T08:03:20Z","beforeDecided":"2026-03-10T08:03:19Z"`, "stages[1].beforeDecided: must be between 2026-03-10T08:03:20Z and 2026-03-10T08:03:30Z, by what else is stored"},
		{"decided after the stage began", good, `"beforeDecided":"2026-03-10T08:03:30Z"`, `"beforeDecided":"2026-03-10T08:03:31Z"`, "stages[1].beforeDecided: must be between 2026-03-10T08:03:00Z and 2026-03-10T08:03:30Z, by what else is stored"},
		{"asked for what comes behind a stage before it began", good, `"afterRequested":"2026-03-10T08:02:00Z"`, `"afterRequested":"2026-03-10T08:00:29Z"`, "stages[0].afterRequested: must be between 2026-03-10T08:00:30Z and 2026-03-10T08:03:00Z, by what else is stored"},
		{"decided after the stage was closed", good, `"afterDecided":"2026-03-10T08:02:30Z"`, `"afterDecided":"2026-03-10T08:03:01Z"`, "stages[0].afterDecided: must be between 2026-03-10T08:02:00Z and 2026-03-10T08:03:00Z, by what else is stored"},
		{"asked for at a time, and not asked for", good, `"phaseSince":"2026-03-10T08:03:30Z","members"`, `"afterRequested":"2026-03-10T08:05:00Z","phaseSince":"2026-03-10T08:03:30Z","members"`, "stages[1].afterRequested: must be left out: the approval is none"},
		{"decided at a time, and not decided", asked, `"beforeRequested":"2026-03-10T08:00:00Z"`, `"beforeRequested":"2026-03-10T08:00:00Z","beforeDecided":"2026-03-10T08:00:00Z"`, "stages[0].beforeDecided: must be left out: the approval is requested"},
		{"asked for in the future", asked, `"beforeRequested":"2026-03-10T08:00:00Z"`, `"beforeRequested":"2026-03-10T08:00:01Z"`, "stages[0].beforeRequested: must be between 2026-03-10T08:00:00Z and 2026-03-10T08:00:00Z, by what else is stored"},
		{"asked for before the run began", asked, `"beforeRequested":"2026-03-10T08:00:00Z"`, `"beforeRequested":"2026-03-10T07:59:59Z"`, "stages[0].beforeRequested: must be between 2026-03-10T08:00:00Z and 2026-03-10T08:00:00Z, by what else is stored"},
		{"refused after the stage had failed for it", refused, `"beforeDecided":"2026-03-10T08:01:00Z"`, `"beforeDecided":"2026-03-10T08:01:01Z"`, "stages[0].beforeDecided: must be between 2026-03-10T08:00:00Z and 2026-03-10T08:01:00Z, by what else is stored"},
		{"failed before it was refused", refused, `"end":"2026-03-10T08:01:00Z"`, `"end":"2026-03-10T08:00:30Z"`, "stages[0].beforeDecided: must be between 2026-03-10T08:00:00Z and 2026-03-10T08:00:30Z, by what else is stored"},
		{"updating before the stage began", good, `"phaseSince":"2026-03-10T08:03:30Z","members"`, `"phaseSince":"2026-03-10T08:03:29Z","members"`, "stages[1].phaseSince: must be between 2026-03-10T08:03:30Z and 2026-03-10T08:06:00Z, by what else is stored"},
		{"updating since the future", good, `"phaseSince":"2026-03-10T08:03:30Z","members"`, `"phaseSince":"2026-03-10T08:06:01Z","members"`, "stages[1].phaseSince: must be between 2026-03-10T08:03:30Z and 2026-03-10T08:06:00Z, by what else is stored"},
		{"a closed stage, of which the end says so", good, `"afterRequested":`, `"phaseSince":"2026-03-10T08:03:00Z","afterRequested":`, "stages[0].phaseSince: must be left out in phase Succeeded"},
		{"a pending stage, which is so since the beginning", good, `{"phase":"Pending","members"`, `{"phase":"Pending","phaseSince":"2026-03-10T08:03:00Z","members"`, "stages[2].phaseSince: must be left out in phase Pending"},
	} {
		if seen[row.why] || strings.Count(row.stored, row.from) != 1 {
			t.Errorf("%s: given twice, or %s is not once in\n%s", row.why, row.from, row.stored)
			continue
		}
		seen[row.why] = true
		var run staged.Run
		err := json.Unmarshal([]byte(strings.Replace(row.stored, row.from, row.to, 1)), &run)
		switch {
		case row.want == "" && err != nil:
			t.Errorf("%s: %v", row.why, err)
		case row.want == "": // it goes on as any other
			next, _ := step(t, &run, staged.Input{}, run.Time())
			reread(t, next)
		case err == nil || err.Error() != row.want:
			t.Errorf("%s: got\n%v\nwant\n%s", row.why, err, row.want)
		}
	}
}

// TestInstantsAreOfStages: no instant is stored per target: of a run with a thousand targets as many
// as of one with ten.
func TestInstantsAreOfStages(t *testing.T) {
	instant := regexp.MustCompile(`"(begun|phaseSince|(before|after)(Requested|Decided))":`)
	var counts []int
	for _, n := range []int{10, 1000} {
		run, result := step(t, compileBench(t, n, concurrency.Count(10)), staged.Input{}, benchStart)
		for now := benchStart; run.Current() < 2; {
			now = now.Add(time.Second)
			run, result = step(t, run, staged.Input{Observations: acknowledge(result.Actions, staged.HealthReady)}, now)
		}
		counts = append(counts, len(instant.FindAll(encode(t, run), -1)))
	}
	if !slices.Equal(counts, []int{3, 3}) { // two of the run, and since when its third stage updates
		t.Errorf("%v instants", counts)
	}
}
