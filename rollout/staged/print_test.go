package staged_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// TestResultString: a result prints what is to be done, what happened, and when to look again.
func TestResultString(t *testing.T) {
	stage := all("only", 1)
	stage.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	stage.ProgressDeadline = staged.For(time.Hour)
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{StuckAfter: staged.For(2 * time.Hour)}, []string{"c1"})
	first := s.result
	again := s.step(staged.Input{}).result
	asked := s.see(staged.HealthReady, "c1").result
	for _, row := range []struct {
		why    string
		result staged.Result
		want   string
	}{
		{"everything", first, "start c1, attempt 1\nevent: stage 0 Updating\nevent: target stage 0 c1 starting\nevent: run Progressing\nnext: 2026-03-10T09:00:00Z\nchanged"},
		{"repeated, and not to be stored", again, "start c1, attempt 1\nnext: 2026-03-10T09:00:00Z"},
		{"no instant can help", asked, "request approval run-after-only\nevent: target stage 0 c1 done\nevent: stage 0 WaitingAfter\nevent: approval stage 0 after requested\nevent: run Waiting\nchanged"},
		{"many", staged.Result{Actions: slices.Repeat(first.Actions, 12), Events: slices.Repeat(first.Events[:1], 11)},
			strings.Repeat("start c1, attempt 1\n", 10) + "and 2 more\n" + strings.Repeat("event: stage 0 Updating\n", 10) + "event: and 1 more"},
		{"many, and then the run is in another phase", staged.Result{Events: append(slices.Repeat(first.Events[:1], 12), first.Events[2])},
			strings.Repeat("event: stage 0 Updating\n", 10) + "event: and 2 more\nevent: run Progressing"},
		{"ten, and then the run is in another phase", staged.Result{Events: append(slices.Repeat(first.Events[:1], 10), first.Events[2])},
			strings.Repeat("event: stage 0 Updating\n", 10) + "event: run Progressing"},
		{"of a run that is over", staged.Result{}, "nothing"},
		{"times are in UTC", staged.Result{Next: benchStart.In(time.FixedZone("east", 3600))}, "next: 2026-03-10T08:00:00Z"},
	} {
		if got := fmt.Sprint(row.result); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.why, got, row.want)
		}
	}
}

// TestEndlessWait: a wait that ends when no step can be made any more is no frozen one.
func TestEndlessWait(t *testing.T) {
	stage := all("only", 1)
	stage.AfterStageTasks = []staged.Task{{Type: staged.TimedWait, WaitTime: staged.For(250 * 365 * 24 * time.Hour)}}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1")
	if text := s.run.String(); !strings.Contains(text, "after: wait 2190000h, until after 2261") || strings.Contains(text, "frozen") {
		t.Error(text)
	}
}

// TestTexts shows runs in every condition as people see them: the run itself, what it waits for,
// and what each of its targets waits for, in words and as data.
func TestTexts(t *testing.T) {
	approval := []staged.Task{{Type: staged.Approval}}
	plain := func(stages ...staged.Stage) staged.Strategy { return staged.Strategy{Stages: stages} }
	named := func(name string, targets ...string) staged.Stage { return staged.Stage{Name: name, Targets: targets} }
	gated, deadline, soaks := named("gated", "c1"), all("only", 2), all("only", 1)
	gated.BeforeStageTasks = approval
	gated.AfterStageTasks = []staged.Task{{Type: staged.Approval}, {Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}}
	deadline.ProgressDeadline, soaks.MinSuccessTime = staged.For(time.Hour), staged.For(time.Minute)
	byRing := grouped(3, concurrency.Percent(50))
	byRing.LabelSelector, byRing.Targets, byRing.ProgressDeadline = nil, []string{"a1", "a2", "b1", "c1", "c2", "c3", "c4"}, staged.For(time.Hour)
	asks := named("asks", "c1")
	asks.AfterStageTasks = approval
	tell := func(s *scene, kind staged.CommandKind, side staged.Side) *scene {
		return s.step(staged.Input{Commands: []staged.Command{{Kind: kind, Run: "run", Stage: s.run.Current(), Side: side}}})
	}
	approve := func(s *scene, side staged.Side) *scene { return tell(s, staged.CommandApprove, side) }
	cleaning := plain(named("a", "c1"))
	cleaning.DeleteStage.BeforeStageTasks = approval
	preview := benchSpec()
	preview.State = staged.StateInitialize
	prepared, err := staged.Compile(plain(named("empty"), gated), preview, fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stop, fails := staged.Input{State: staged.StateStop}, staged.HealthFailed
	var text strings.Builder
	for _, row := range []struct {
		why string
		run *staged.Run
	}{
		{"no run", new(staged.Run)},
		{"a preview", prepared},
		{"before an approval, with a stage behind it and leaving targets", newScene(t, plain(gated, named("b", "c2")), staged.Options{}, []string{"c1", "c2"}, "d1").run},
		{"under way, and one is stuck", newScene(t, plain(deadline), staged.Options{}, []string{"c1", "c2", "c3"}).after(4*time.Minute).see("", "c1").after(time.Minute).step(staged.Input{}).run},
		{"one soaks", newScene(t, plain(soaks), staged.Options{}, []string{"c1", "c2"}).see(staged.HealthReady, "c1").run},
		{"an approval and a wait", approve(newScene(t, plain(gated, named("b", "c2")), staged.Options{}, []string{"c1", "c2"}), staged.Before).see(staged.HealthReady, "c1").run},
		{"the wait alone", approve(approve(newScene(t, plain(gated), staged.Options{}, []string{"c1"}), staged.Before).see(staged.HealthReady, "c1"), staged.After).run},
		{"the wait is frozen", approve(newScene(t, plain(gated), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}), staged.Before).see(staged.HealthReady, "c1").step(stop).run},
		{"the wait is over", approve(newScene(t, plain(gated), staged.Options{}, []string{"c1"}), staged.Before).see(staged.HealthReady, "c1").after(time.Hour).step(staged.Input{}).run},
		{"a regression beside an approval", newScene(t, plain(asks), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1").run},
		{"a regression alone", approve(newScene(t, plain(asks), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1"), staged.After).run},
		{"held, over the budget", newScene(t, plain(all("only", 2)), staged.Options{OnFailure: staged.Hold}, []string{"c1", "c2", "c3"}).see(fails, "c1").run},
		{"held, refused", tell(newScene(t, plain(gated), staged.Options{OnReject: staged.Hold}, []string{"c1"}), staged.CommandReject, staged.Before).run},
		{"failing", newScene(t, plain(deadline), staged.Options{StopGrace: staged.For(time.Minute)}, []string{"c1", "c2", "c3"}).see(fails, "c1").run},
		{"failing, and what failed has been skipped since, so that nothing is over a budget", newScene(t, plain(deadline), staged.Options{}, []string{"c1", "c2", "c3"}).see(fails, "c1").step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}).run},
		{"a budget of the run, and none of the stage", newScene(t, staged.Strategy{Stages: []staged.Stage{named("a", "c1")}, MaxFailures: concurrency.Count(2)}, staged.Options{}, []string{"c1"}).run},
		{"failed", newScene(t, plain(all("only", 1)), staged.Options{}, []string{"c1", "c2"}).see(fails, "c1").run},
		{"failed with its last member, so that the wait behind it never begins", approve(newScene(t, plain(gated), staged.Options{}, []string{"c1"}), staged.Before).see(fails, "c1").run},
		{"failed in its wait, which then ends nowhere", tell(approve(newScene(t, plain(gated), staged.Options{}, []string{"c1"}), staged.Before).see(staged.HealthReady, "c1"), staged.CommandReject, staged.After).run},
		{"stopping", newScene(t, plain(all("only", 1)), staged.Options{}, []string{"c1", "c2"}).step(stop).run},
		{"stopped", newScene(t, plain(gated), staged.Options{}, []string{"c1"}).step(stop).run},
		{"stopped, and over the budget", newScene(t, plain(all("only", 2)), staged.Options{}, []string{"c1", "c2", "c3"}).step(stop).see(fails, "c1").see(staged.HealthReady, "c2").run},
		{"stopped, and refused", tell(newScene(t, plain(gated), staged.Options{}, []string{"c1"}).step(stop), staged.CommandReject, staged.Before).run},
		{"cancelling", newScene(t, plain(deadline), staged.Options{}, []string{"c1", "c2", "c3"}).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}).run},
		{"one is suspended, and the others are not held up", newScene(t, plain(named("a", "c1", "c2", "c3"), named("b", "d1", "d2")), staged.Options{}, []string{"c1", "c2", "c3", "d1", "d2"}).step(suspend("c2", "d2")).run},
		{"all that is left of the stage is suspended", newScene(t, plain(named("a", "c1", "c2"), named("b", "d1")), staged.Options{}, []string{"c1", "c2", "d1"}).step(suspend("c2")).see(staged.HealthReady, "c1").run},
		{"two are, one of them in its second attempt", newScene(t, plain(all("only", 2)), staged.Options{OnFailure: staged.Hold}, []string{"c1", "c2", "c3"}).see(fails, "c1").see(staged.HealthReady, "c2").
			step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "c1", Attempt: 1, By: "bob", Reason: "once more"}, {Kind: staged.CommandSuspend, Target: "c1"}, {Kind: staged.CommandSuspend, Target: "c3", Reason: "stopped"}}}).run},
		{"stopped, with a suspended one", newScene(t, plain(named("a", "c1", "c2")), staged.Options{}, []string{"c1", "c2"}).step(suspend("c2")).see(staged.HealthReady, "c1").step(stop).run},
		{"suspended removals", newScene(t, plain(named("a", "c1")), staged.Options{}, []string{"c1"}, "d1", "d2").step(suspend("d1")).see(staged.HealthReady, "c1").run},
		{"groups: one is full, and a stage behind waits for that", newScene(t, plain(byRing, named("b", "d1")), staged.Options{}, []string{"a1", "a2", "b1", "d1"}).run},
		{"and the second of a group waits for a slot as well", newScene(t, plain(byRing, named("b", "d1")), staged.Options{Added: staged.Append}, []string{"a1", "a2", "b1", "d1"}).after(time.Minute).
			step(staged.Input{Added: []staged.Target{{Name: "c1", Labels: map[string]string{"ring": "c"}}}}).see(staged.HealthReady, "b1").step(staged.Input{Added: []staged.Target{{Name: "c2"}, {Name: "c3"}, {Name: "c4"}}}).run},
		{"before the cleanup", newScene(t, cleaning, staged.Options{}, []string{"c1"}, "d1", "d2").see(staged.HealthReady, "c1").run},
		{"in the cleanup", approve(newScene(t, cleaning, staged.Options{}, []string{"c1"}, "d1", "d2").see(staged.HealthReady, "c1"), staged.Before).run},
		{"succeeded", newScene(t, plain(all("only", 1)), staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").run},
	} {
		fmt.Fprintf(&text, "# %s\n%s\n", row.why, row.run)
		show := func(what string, v staged.Verdict) {
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "%s: %s\n\t%s\n", what, v, data)
		}
		if v, ok := row.run.Waits(); ok {
			show("the run", v)
		}
		for s := range row.run.Stages() {
			for target := range row.run.Targets(s.Index) {
				if v, ok := row.run.Explain(target.Name); ok {
					show(target.Name, v)
				}
			}
		}
		text.WriteByte('\n')
	}
	golden.Check(t, "texts.txt", text.String())
}

// TestCountsText: every number is said once, and by its own name.
func TestCountsText(t *testing.T) {
	counts := staged.Counts{Members: 45, Waiting: 1, Starting: 2, Updating: 3, Soaking: 4, Done: 5, Failed: 6, TimedOut: 7, Skipped: 8, Removed: 9, Regressed: 10, Stuck: 11, Suspended: 12}
	const want = "1 waiting, 2 starting, 3 updating, 4 soaking, 5 done, 6 failed, 7 timed out, 8 skipped, 9 removed, 10 regressed, 11 stuck, 12 suspended"
	if got := counts.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (staged.Counts{}).String(); got != "" {
		t.Errorf("nothing is said as %s", got)
	}
}
