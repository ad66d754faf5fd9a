package staged_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/selector"
)

// TestSmallWorld visits every state that a run of two stages, three targets and one gate of each
// kind, or of one stage with groups, can get into by any sequence of observations, commands, changes of state and steps at Next,
// and checks each transition, not a sample of them.
func TestSmallWorld(t *testing.T) {
	stage := func(ring string) staged.Stage {
		return staged.Stage{Name: ring, LabelSelector: &selector.LabelSelector{MatchLabels: map[string]string{"ring": ring}}}
	}
	first, second := stage("a"), stage("b")
	first.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(2 * time.Minute)}, {Type: staged.Approval}}
	second.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	second.ProgressDeadline = staged.For(2 * time.Minute)
	strategy := staged.Strategy{Stages: []staged.Stage{first, second}}
	fleet := staged.Fleet{Version: "v2"}
	for i, ring := range []string{"a", "a", "b"} {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: fmt.Sprint("c", i), Labels: map[string]string{"ring": ring}})
	}
	spec := staged.Spec{Name: "run", PlacementName: "p", StagedRolloutStrategyName: "s", State: staged.StateInitialize}
	// Of groups: two of one, and one that is alone, of whom two may be in progress.
	together := staged.Stage{Name: "all", LabelSelector: &selector.LabelSelector{}, MaxConcurrency: concurrency.Count(2), GroupBy: "ring", MaxConcurrencyPerGroup: concurrency.Percent(50),
		MaxFailures: concurrency.Count(1)}
	inStages := strategy
	for name, options := range map[string]staged.Options{
		"defaults": {StuckAfter: staged.For(time.Minute)},
		"hold":     {StuckAfter: staged.For(time.Minute), OnFailure: staged.Hold, OnReject: staged.Hold, WaitDuringStop: staged.Freeze, VerifyDone: staged.Always},
		"groups":   {StuckAfter: staged.For(time.Minute), OnFailure: staged.Hold, OnRegression: staged.Fail},
	} {
		strategy := inStages
		if name == "groups" {
			strategy = staged.Strategy{Stages: []staged.Stage{together}}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, err := staged.Compile(strategy, spec, fleet, options)
			if err != nil {
				t.Fatal(err)
			}
			w := smallWorld{t: t, known: map[string]bool{}, seen: map[string]int{}, ends: map[string]bool{}, most: 60_000, hold: name != "defaults", stops: name != "groups"}
			if testkit.Race || testing.Short() {
				w.most = 3_000
			}
			w.visit(run, staged.Result{})
			for len(w.queue) > 0 && len(w.known) < w.most {
				at := w.queue[0]
				w.queue = w.queue[1:]
				w.expand(at)
			}
			t.Logf("%d states, %d transitions, %v", len(w.known), w.edges, w.seen)
			if w.most == 60_000 {
				if len(w.queue) > 0 {
					t.Errorf("not all states were visited: %d are left", len(w.queue))
				}
				want := []string{"Initialized", "Progressing", "Waiting", "Succeeded", "PartiallySucceeded", "stuck", "suspended"}
				switch name {
				case "hold":
					want = append(want, "Held", "Stopping", "Stopped", "regressed", "timedOut")
				case "groups":
					want = append(want, "Held", "its group is full")
				default:
					want = append(want, "Failed", "Cancelled", "Stopping", "Stopped", "regressed", "timedOut")
				}
				for _, outcome := range want {
					if w.seen[outcome] == 0 {
						t.Errorf("never seen: %s", outcome)
					}
				}
			}
		})
	}
}

type worldState struct {
	run    *staged.Run
	result staged.Result
}

type smallWorld struct {
	t     *testing.T
	known map[string]bool
	queue []worldState
	seen  map[string]int
	edges int
	most  int
	hold  bool
	stops bool
	ends  map[string]bool // states from which a sensible operator gets to the end
}

// key is a state up to a shift of time: two runs with one key behave alike for ever.
func key(run *staged.Run) string {
	var b strings.Builder
	now := run.Time()
	left := func(until time.Time) time.Duration {
		if until.IsZero() || !until.After(now) {
			return 0
		}
		return until.Sub(now)
	}
	fmt.Fprint(&b, run.Phase(), run.State(), run.Current(), now.IsZero())
	for s := range run.Stages() {
		fmt.Fprint(&b, "|", s.Phase, s.Before.State, s.After.State, s.Waited) // when they were decided changes nothing
		if s.Phase == staged.StageWaitingAfter && s.Wait > 0 && !s.Waited {
			until := s.WaitUntil
			if until.IsZero() { // frozen: what is left does not change, and is seen on thawing
				thawed, _, err := staged.Step(run, staged.Input{State: staged.StateRun}, now)
				if err == nil {
					until = slices.Collect(thawed.Stages())[s.Index].WaitUntil
				}
			}
			fmt.Fprint(&b, left(until))
		}
		if s.Phase == staged.StageUpdating && s.Counts.Waiting+s.Counts.Starting+s.Counts.Updating+s.Counts.Soaking == 0 {
			// Settled while stopped or held: the wait counts already.
			last := time.Time{}
			for target := range run.Targets(s.Index) {
				if target.End.After(last) {
					last = target.End
				}
			}
			fmt.Fprint(&b, "settled", min(now.Sub(last), 3*time.Minute))
		}
		for target := range run.Targets(s.Index) {
			fmt.Fprint(&b, " ", target.State, target.Attempt, target.Current, target.Regressed, target.Stuck, target.Reason, target.SuspendedBy != nil)
			if target.State == staged.Starting || target.State == staged.Updating {
				fmt.Fprint(&b, min(now.Sub(target.Start), 3*time.Minute))
			}
		}
	}
	return b.String()
}

func (w *smallWorld) visit(run *staged.Run, result staged.Result) {
	k := key(run)
	if w.known[k] {
		return
	}
	w.known[k] = true
	w.check(run, result)
	w.queue = append(w.queue, worldState{run, result})
}

// inputs are all single things that can happen.
func (w *smallWorld) inputs(run *staged.Run) []staged.Input {
	list := []staged.Input{{State: staged.StateRun}, {}, {}}
	if !w.hold { // cancelling is the same under both, and doubles the states
		list[1].Commands = []staged.Command{{Kind: staged.CommandCancel}}
	}
	if run.State() != staged.StateInitialize && w.stops { // a stop starts nobody of any group, and trebles the states
		list = append(list, staged.Input{State: staged.StateStop})
	}
	for s := range run.Stages() {
		for _, side := range []staged.Side{staged.Before, staged.After} {
			for _, kind := range []staged.CommandKind{staged.CommandApprove, staged.CommandReject} {
				list = append(list, staged.Input{Commands: []staged.Command{{Kind: kind, Run: "run", Stage: s.Index, Side: side}}})
			}
		}
		if s.Wait > 0 {
			list = append(list, staged.Input{Commands: []staged.Command{{Kind: staged.CommandEndWait, Run: "run", Stage: s.Index}}})
		}
		for target := range run.Targets(s.Index) {
			list = append(list, staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: target.Name}}})
			if target.Name != "c1" { // one with another behind it, and one that is alone
				for _, kind := range []staged.CommandKind{staged.CommandSuspend, staged.CommandResume} {
					list = append(list, staged.Input{Commands: []staged.Command{{Kind: kind, Target: target.Name}}})
				}
			}
			if target.Attempt == 1 { // one more attempt shows what attempts do
				list = append(list, staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: target.Name, Attempt: 1}}})
			}
			token := staged.Token{}
			if !target.Start.IsZero() {
				token = staged.Token{Run: "run", Stage: s.Index, Target: target.Name, Attempt: target.Attempt, Kind: staged.Start}
			}
			for _, o := range []staged.Observation{{Version: "v2", Health: staged.HealthReady}, {Version: "v2", Health: staged.HealthFailing}, {Version: "v3", Health: staged.HealthReady}} {
				o.Target, o.Token = target.Name, token
				list = append(list, staged.Input{Observations: []staged.Observation{o}})
			}
		}
	}
	return list
}

func (w *smallWorld) expand(at worldState) {
	now := at.run.Time()
	if now.IsZero() {
		now = benchStart
	}
	inputs := w.inputs(at.run)
	if at.run.Phase().Terminal() {
		inputs = inputs[:3] // it never changes, and Step does not look further
	}
	for _, in := range inputs {
		w.transition(at, in, now)
	}
	if next := at.result.Next; !next.IsZero() {
		w.transition(at, staged.Input{}, next)
	} else {
		w.transition(at, staged.Input{}, now)
	}
}

func (w *smallWorld) transition(at worldState, in staged.Input, now time.Time) {
	w.edges++
	run, result, err := staged.Step(at.run, in, now)
	if err != nil {
		w.t.Fatal(err)
	}
	if at.run.Phase().Terminal() {
		if run != at.run {
			w.t.Fatalf("a terminal run changes\n%s", run)
		}
		return
	}
	stages := slices.Collect(run.Stages())
	for _, e := range result.Events {
		if e.Kind != staged.EventTarget || e.To != "starting" {
			continue
		}
		if run.Phase() != staged.PhaseProgressing {
			w.t.Fatalf("%s starts, the run is %s\n%s", e.Target, run.Phase(), run)
		}
		for k := range e.Stage {
			if p := stages[k].Phase; p != staged.StageSucceeded && p != staged.StageSkipped {
				w.t.Fatalf("%s starts out of order\n%s", e.Target, run)
			}
		}
		if s := stages[e.Stage]; s.Before.Required && s.Before.State != staged.ApprovalApproved {
			w.t.Fatalf("%s starts without approval\n%s", e.Target, run)
		}
	}
	if at.run.Phase() == staged.PhaseStopped && run.Phase() == staged.PhaseSucceeded && in.State != staged.StateRun {
		w.t.Fatal("from Stopped to Succeeded")
	}
	for s := range at.run.Stages() {
		if now := stages[s.Index]; !allowedStage(s.Phase, now.Phase) {
			w.t.Fatalf("stage %d goes from %s to %s", s.Index, s.Phase, now.Phase)
		} else if s.Before.State == staged.ApprovalApproved && now.Before.State != s.Before.State || s.Waited && !now.Waited && now.Phase != staged.StageUpdating {
			w.t.Fatalf("a gate closes again\n%s", run)
		}
	}
	w.visit(run, result)
}

// allowedStage: phases may be passed within one step.
func allowedStage(from, to staged.StagePhase) bool {
	order := []staged.StagePhase{staged.StagePending, staged.StageWaitingBefore, staged.StageUpdating, staged.StageWaitingAfter, staged.StageSucceeded}
	a, b := slices.Index(order, from), slices.Index(order, to)
	switch {
	case from == to, from == staged.StagePending && to == staged.StageSkipped, to == staged.StageFailed && a < 4 && a >= 0:
		return true
	case from == staged.StageWaitingAfter && to == staged.StageUpdating:
		return true
	}
	return a >= 0 && b > a
}

// check holds for every state.
func (w *smallWorld) check(run *staged.Run, result staged.Result) {
	t := w.t
	w.seen[string(run.Phase())]++
	for s := range run.Stages() {
		if c := s.Counts; c.Starting+c.Updating+c.Soaking > s.Limit {
			t.Fatalf("over the limit\n%s", run)
		}
		busy := map[string]int{}
		for target := range run.Targets(s.Index) {
			if target.Stuck {
				w.seen["stuck"]++
			}
			if target.Regressed {
				w.seen["regressed"]++
			}
			if target.SuspendedBy != nil {
				w.seen["suspended"]++
			}
			w.seen[target.State.String()]++
			v, ok := run.Explain(target.Name)
			if ok == target.State.Settled() {
				t.Fatalf("%s is %s: %v", target.Name, target.State, v)
			}
			if v.Reason == staged.ReasonGroup {
				w.seen["its group is full"]++
			}
			if target.State == staged.Starting || target.State == staged.Updating || target.State == staged.Soaking {
				if busy[target.Group]++; target.Group != "" && busy[target.Group] > 1 { // half of two, or at least one of one
					t.Fatalf("over the limit of group %s\n%s", target.Group, run)
				}
			}
		}
	}
	// Somebody or something can always go on: time, an action to acknowledge, a target that is in
	// progress or regressed, or an operator.
	if v, _ := run.Waits(); !run.Phase().Terminal() && v.Until.IsZero() && len(v.On) == 0 && result.Next.IsZero() && len(result.Actions) == 0 {
		t.Fatalf("nothing leads on: %v\n%s", v, run)
	}
	if run.Phase().Terminal() {
		return
	}
	if len(w.known)%16 == 0 { // TestI11RoundTrip has more of it
		var copied staged.Run
		if err := json.Unmarshal(encode(t, run), &copied); err != nil {
			t.Fatalf("%v\n%s", err, run)
		}
	}
	w.finish(run, result)
}

// finish is what a sensible operator does from any state: it must end.
func (w *smallWorld) finish(run *staged.Run, result staged.Result) {
	now := run.Time()
	if now.IsZero() {
		now = benchStart
	}
	from := run
	var path []string
	for range 40 {
		at := key(run)
		path = append(path, at)
		if run.Phase().Terminal() || w.ends[at] {
			for _, passed := range path {
				w.ends[passed] = true
			}
			return
		}
		in := staged.Input{State: staged.StateRun}
		for s := range run.Stages() {
			for _, side := range []staged.Side{staged.Before, staged.After} {
				in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandApprove, Run: "run", Stage: s.Index, Side: side})
			}
			for target := range run.Targets(s.Index) {
				if run.Phase() == staged.PhaseHeld && (target.State == staged.Failed || target.State == staged.TimedOut) {
					in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandSkip, Target: target.Name})
				}
				if target.SuspendedBy != nil {
					in.Commands = append(in.Commands, staged.Command{Kind: staged.CommandResume, Target: target.Name})
				}
				in.Observations = append(in.Observations, staged.Observation{Target: target.Name, Version: "v2", Health: staged.HealthReady})
			}
		}
		if !result.Next.IsZero() {
			now = result.Next
		}
		var err error
		if run, result, err = staged.Step(run, in, now); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Fatalf("does not end:\n%s\nfrom:\n%s", run, from)
}
