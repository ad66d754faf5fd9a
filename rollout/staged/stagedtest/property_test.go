package stagedtest_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
	"github.com/tranche-dev/tranche/rollout/staged/stagedtest"
)

// drawn is a world of which everything happens at whole minutes, and what it is made from.
type drawn struct {
	run     *staged.Run
	salt    string
	answers bool
	rejects bool
	retry   time.Duration
	changes []stagedtest.Change
	horizon time.Duration
}

func (d *drawn) hash(parts ...any) int {
	h := fnv.New32a()
	fmt.Fprint(h, d.salt, parts)
	return int(h.Sum32() % 1024)
}

func (d *drawn) target(action staged.Action) stagedtest.Outcome {
	n := d.hash("outcome", action.Target, action.Token.Attempt, action.Kind)
	o := stagedtest.Outcome{After: minutes(n % 13)}
	switch n / 13 % 12 {
	case 0:
		o.Health = staged.HealthFailed
	case 1:
		o.Health = staged.HealthFailing
	case 2:
		o.Health = staged.HealthProgressing
	}
	return o
}

func (d *drawn) approval(request staged.Action, at time.Time) (stagedtest.Answer, bool) {
	n := d.hash("answer", request.Stage, request.Side, at.Unix())
	return stagedtest.Answer{After: minutes(n % 9), Reject: d.rejects && n%5 == 0}, d.answers
}

// react retries what has failed or timed out.
func (d *drawn) react(run *staged.Run, result staged.Result, now time.Time) []stagedtest.Change {
	if d.retry == 0 {
		return nil
	}
	return stagedtest.RetryAfter(d.retry, 4)(run, result, now)
}

func (d *drawn) world() stagedtest.World {
	return stagedtest.World{StagedRun: d.run, Start: t0, End: t0.Add(d.horizon), Target: d.target, Approval: d.approval, React: d.react, Changes: d.changes}
}

func draw(t *rapid.T) *drawn {
	pick := func(label string, from ...int) int { return rapid.SampledFrom(from).Draw(t, label) }
	maybe := func(label string) bool { return rapid.Bool().Draw(t, label) }
	var strategy staged.Strategy
	var fleet staged.Fleet
	for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
		own := staged.Stage{Name: fmt.Sprint("s", i), MaxConcurrency: concurrency.Count(rapid.IntRange(1, 3).Draw(t, "limit")), MaxFailures: concurrency.Count(rapid.IntRange(0, 2).Draw(t, "failures"))}
		for k := range rapid.IntRange(0, 4).Draw(t, "targets") {
			name := fmt.Sprintf("t%d%d", i, k)
			own.Targets = append(own.Targets, name)
			fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"zone": fmt.Sprint(k / 2)}})
		}
		if maybe("groups") {
			own.GroupBy, own.MaxConcurrencyPerGroup = "zone", concurrency.Count(1)
		}
		if len(own.Targets) == 0 {
			own.Targets = nil
		}
		if maybe("before") {
			own.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
		}
		if maybe("after") {
			own.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
		}
		if maybe("wait") {
			own.AfterStageTasks = append(own.AfterStageTasks, staged.Task{Type: staged.TimedWait, WaitTime: staged.For(minutes(pick("waitTime", 1, 10)))})
		}
		if maybe("soak") {
			own.MinSuccessTime = staged.For(minutes(pick("minSuccessTime", 1, 6)))
		}
		if maybe("deadline") {
			own.ProgressDeadline = staged.For(minutes(pick("progressDeadline", 4, 9)))
		}
		strategy.Stages = append(strategy.Stages, own)
	}
	for k := range rapid.IntRange(0, 2).Draw(t, "leaving") {
		fleet.Leaving = append(fleet.Leaving, fmt.Sprint("old", k))
	}
	if len(fleet.Targets)+len(fleet.Leaving) == 0 {
		fleet.Leaving = []string{"old0"}
	}
	options := staged.Options{OnFailure: rapid.SampledFrom([]staged.Choice{staged.Fail, staged.Hold}).Draw(t, "onFailure"), OnReject: rapid.SampledFrom([]staged.Choice{staged.Fail, staged.Hold}).Draw(t, "onReject"),
		WaitDuringStop: rapid.SampledFrom([]staged.Choice{staged.Count, staged.Freeze}).Draw(t, "waitDuringStop"), Removed: rapid.SampledFrom([]staged.Choice{staged.Skip, staged.Fail}).Draw(t, "removed"), LateLeaving: staged.Clean}
	spec := staged.Spec{Name: "v2", PlacementName: "web", StagedRolloutStrategyName: "s", ResourceSnapshotIndex: "2", State: staged.StateRun}
	run, err := staged.Compile(strategy, spec, fleet, options)
	if err != nil {
		t.Fatal(err)
	}
	d := &drawn{run: run, salt: fmt.Sprint(rapid.IntRange(0, 1<<20).Draw(t, "salt")), answers: pick("answers", 0, 1, 1, 1) == 1, rejects: pick("rejects", 0, 0, 1) == 1, horizon: minutes(300)}
	if maybe("retry") {
		d.retry = minutes(pick("retryAfter", 0, 3)) + minutes(1)
	}
	at := 0
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		at += rapid.IntRange(0, 20).Draw(t, "at")
		change := stagedtest.SetState(t0.Add(minutes(at)), staged.StateStop)
		switch pick("change", 0, 1, 2, 3, 4) {
		case 0:
			at += rapid.IntRange(1, 20).Draw(t, "for")
			d.changes = append(d.changes, change)
			change = stagedtest.SetState(t0.Add(minutes(at)), staged.StateRun)
		case 1:
			change = stagedtest.Give(change.At, staged.Command{Kind: staged.CommandSkip, Target: fmt.Sprintf("t%d%d", pick("stage", 0, 1, 2), pick("member", 0, 1))})
		case 2:
			name := fmt.Sprintf("t%d%d", pick("stage", 0, 1, 2), pick("member", 0, 1))
			change.Do = func(*staged.Run) staged.Input { return staged.Input{Removed: []string{name}} }
		case 3:
			name := fmt.Sprintf("t%d%d", pick("stage", 0, 1, 2), pick("member", 0, 1))
			change.Do = func(*staged.Run) staged.Input { return staged.Input{Leaving: []string{name}} }
		case 4:
			name := fmt.Sprintf("t%d%d", pick("stage", 0, 1, 2), pick("member", 0, 1, 2, 3))
			change = stagedtest.Give(change.At, staged.Command{Kind: staged.CommandSuspend, Target: name, By: "ann"})
			if maybe("resume") {
				d.changes = append(d.changes, change)
				at += rapid.IntRange(1, 20).Draw(t, "for")
				change = stagedtest.Give(t0.Add(minutes(at)), staged.Command{Kind: staged.CommandResume, Target: name})
			}
		}
		d.changes = append(d.changes, change)
	}
	return d
}

// TestPolling: a world ends as that of a dumb host does, which looks at every target in every minute.
func TestPolling(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		d := draw(t)
		timeline, err := d.world().Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		peaks := map[string]int{}
		want := d.poll(t, seen, peaks)
		got := timeline.Run
		if a, b := shape(got), shape(want); a != b {
			t.Fatalf("differs from the host that polls (-want +got):\n%s\n%v", cmp.Diff(b, a), timeline)
		}
		for s := range got.Stages() {
			if peak := timeline.Stages[s.Index].Peak; peak > s.Limit || peak != peaks[s.Name] {
				t.Fatalf("stage %s: %d at once, limit %d, and the host that polls saw %d", s.Name, peak, s.Limit, peaks[s.Name])
			}
		}
		if over := got.Phase().Terminal(); over == timeline.Ended.IsZero() {
			t.Fatalf("%v: ended at %v", got.Phase(), timeline.Ended)
		}
		seen[string(got.Phase())]++
		for _, e := range timeline.Entries {
			seen[string(e.Event.Kind)]++
		}
		if v, _ := got.Waits(); v.Reason == staged.ReasonSuspended {
			seen["ends with suspended targets"]++
		}
	}, "Succeeded", "PartiallySucceeded", "Failed", "Held", "Waiting", "Progressing", "retried", "removed in progress", "leaving in progress", "stopped", "suspended", "resumed", "ends with suspended targets")
}

// shape is a run without what depends on how often somebody looks: the time of the last step.
func shape(run *staged.Run) string {
	text := run.String()
	for s := range run.Stages() {
		text += fmt.Sprintf("\n%+v", s)
		for t := range run.Targets(s.Index) {
			text += fmt.Sprintf("\n%+v", t)
		}
	}
	return text
}

// poll plays the world as a host that looks every minute, and tells everything that it sees. It notes
// how many targets of each stage are in progress at once.
func (d *drawn) poll(t *rapid.T, seen testkit.Tally, peaks map[string]int) *staged.Run {
	type attempt struct {
		token staged.Token
		end   time.Time
		o     stagedtest.Outcome
	}
	attempts, gone := map[string]attempt{}, map[string]bool{}
	type answer struct {
		at      time.Time
		command staged.Command
	}
	answers := map[string]answer{}
	changes := slices.Clone(d.changes)
	run := d.run
	for now := t0; !now.After(t0.Add(d.horizon)); {
		var in staged.Input
		for _, name := range slices.Sorted(maps.Keys(answers)) {
			if own := answers[name]; !own.at.After(now) {
				in.Commands = append(in.Commands, own.command)
			}
		}
		for k := 0; k < len(changes); {
			if changes[k].At.After(now) {
				k++
				continue
			}
			more := changes[k].Do(run)
			if more.State != "" && in.State != "" && more.State != in.State {
				break
			}
			if more.State != "" {
				in.State = more.State
				seen["stopped"]++
			}
			in.Commands = append(in.Commands, more.Commands...)
			in.Removed, in.Leaving = append(in.Removed, more.Removed...), append(in.Leaving, more.Leaving...)
			for _, c := range more.Commands {
				if c.Kind == staged.CommandRetry {
					seen["retried"]++
				}
			}
			changes = slices.Delete(changes, k, k+1)
		}
		for _, name := range in.Removed {
			if own, ok := attempts[name]; ok && own.end.After(now) {
				seen["removed in progress"]++
			}
			gone[name] = true
		}
		for _, name := range in.Leaving {
			if own, ok := attempts[name]; ok && own.end.After(now) {
				seen["leaving in progress"]++
			}
		}
		for _, name := range slices.Sorted(maps.Keys(attempts)) {
			own := attempts[name]
			if gone[name] {
				continue
			}
			o := staged.Observation{Target: name, Version: run.Version(), Health: staged.HealthProgressing, Token: own.token}
			if !own.end.After(now) {
				if o.Health = own.o.Health; o.Health == "" {
					o.Health = staged.HealthReady
					o.Gone = own.token.Kind == staged.Remove
				}
			}
			in.Observations = append(in.Observations, o)
		}
		next, result, err := staged.Step(run, in, now)
		if err != nil {
			t.Fatal(err)
		}
		run = next
		for s := range run.Stages() {
			busy := 0
			for own := range run.Targets(s.Index) {
				if own.State == staged.Starting || own.State == staged.Updating || own.State == staged.Soaking {
					busy++
				}
			}
			peaks[s.Name] = max(peaks[s.Name], busy)
		}
		changes = append(changes, d.react(run, result, now)...)
		again := slices.ContainsFunc(changes, func(c stagedtest.Change) bool { return !c.At.After(now) })
		for _, a := range result.Actions {
			if a.Kind == staged.RequestApproval {
				if _, asked := answers[a.Name]; !asked {
					own, given := d.approval(a, now)
					command := staged.Command{Kind: staged.CommandApprove, Run: a.Run, Stage: a.Stage, Side: a.Side}
					if own.Reject {
						command.Kind = staged.CommandReject
					}
					if answers[a.Name] = (answer{now.Add(own.After), command}); !given {
						answers[a.Name] = answer{at: t0.AddDate(200, 0, 0)}
					}
					again = true
				}
				continue
			}
			if own := attempts[a.Target]; own.token != a.Token {
				o := d.target(a)
				end := now.Add(o.After)
				if o.Health == staged.HealthProgressing {
					end = t0.AddDate(200, 0, 0)
				}
				attempts[a.Target] = attempt{a.Token, end, o}
				delete(gone, a.Target) // it was retried, and is another one
				again = true
			}
		}
		if run.Phase().Terminal() {
			break
		}
		if !again {
			now = now.Add(time.Minute)
		}
	}
	return run
}

// TestGoesOn: a world that begins in the middle of a run ends as the one that began with it, if what
// happens from then on is the same.
func TestGoesOn(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		d := draw(t)
		d.retry, d.changes = 0, nil // who reacts forgets what he was about to do
		whole, err := d.world().Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		world := d.world()
		world.End = t0.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "cut")) * 30 * time.Second)
		first, err := world.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for s := range first.Run.Stages() {
			seen["updating"] += s.Counts.Updating
			seen["starting"] += s.Counts.Starting
			seen["soaking"] += s.Counts.Soaking
			if s.Before.State == staged.ApprovalRequested {
				seen["requested"]++
			}
			if s.Cleanup && s.Counts.Updating > 0 {
				seen["being removed"]++
			}
		}
		world.StagedRun, world.Start, world.End = first.Run, world.End, t0.Add(d.horizon)
		if first.Run.Phase().Terminal() {
			world.Start = time.Time{}
		}
		second, err := world.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := shape(second.Run), shape(whole.Run); a != b {
			t.Fatalf("cut at %v (-whole +cut):\n%s\n%v\nthen\n%v", world.Start, cmp.Diff(b, a), first, second)
		}
		if !second.Ended.Equal(whole.Ended) {
			t.Fatalf("ended at %v, and at %v", whole.Ended, second.Ended)
		}
	}, "updating", "soaking", "requested", "being removed")
}
