package rollouttest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

const oneByOne = `{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1}}`

// failedBefore is a web world of five clusters at half past nine. On c-3 v2 has failed, and nobody
// repeats that.
func failedBefore(tb testing.TB, rules string) rollouttest.World {
	w := webWorld(tb, 5, rules)
	w.Start = at(1, 9, 30)
	w.Fleet.Targets[3].Jobs = append(w.Fleet.Targets[3].Jobs, rollout.Job{
		Run: "c-3/prod/web/v2/1", Version: "v2", Status: rollout.JobFailure, CreatedAt: at(1, 9, 5), CompletedAt: at(1, 9, 8),
	})
	return w
}

// web is a goal of the web world.
func web(version string) rollouttest.Goal {
	return rollouttest.Goal{Deployment: "web", Environment: "prod", Version: version}
}

// goalsOf runs one trial and returns the goals of it, one line each.
func goalsOf(t rollouttest.Trial) []string {
	var lines []string
	for _, g := range t.Goals {
		line := fmt.Sprintf("%s: %d got it", g.Goal, g.Got)
		if !g.Finish.IsZero() {
			line += " by " + g.Finish.Format("15:04")
		}
		if g.Left > 0 {
			line += fmt.Sprintf(", %d left", g.Left)
		}
		if len(g.Reasons) > 0 {
			line += fmt.Sprintf(": %s", g.Reasons)
		}
		if g.Hanging {
			line += ", hanging"
		}
		lines = append(lines, line)
	}
	return lines
}

// TestGoals: how far each version came in one trial.
func TestGoals(t *testing.T) {
	t.Parallel()
	v3 := version("web", "v3", at(1, 12, 0))
	job := func(change func(rollout.Start, *rollouttest.Outcome)) func(*rollouttest.World) {
		return func(w *rollouttest.World) {
			w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
				o := rollouttest.Outcome{After: minutes(3)}
				change(start, &o)
				return o
			}
		}
	}
	names := map[string]bool{}
	for _, row := range []struct {
		name, why string
		w         rollouttest.World
		edit      func(*rollouttest.World)
		want      []string
	}{
		{"all get it", "the last one counts, and v1 is what they had", webWorld(t, 3, oneByOne), nil, []string{"web v2 in prod: 3 got it by 09:09"}},
		{"one has failed", "it is left, and the others are told apart from it", failedBefore(t, oneByOne), nil,
			[]string{"web v1 in prod: 1 got it by 09:30", "web v2 in prod: 4 got it by 09:42, 1 left: [retry_exhausted]"}},
		{"nothing to do", "what they had at the start they got by then", webWorld(t, 2, oneByOne), func(w *rollouttest.World) { w.Fleet.Versions = w.Fleet.Versions[:1] },
			[]string{"web v1 in prod: 2 got it by 08:00"}},
		{"nobody approves", "the older version is none of its business", webWorld(t, 2, oneByOne+`,{"id":"ok","anyApproval":{"minApprovals":1}}`, v3), func(w *rollouttest.World) {
			w.Fleet.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved}}
		}, []string{"web v2 in prod: 2 got it by 09:06", "web v3 in prod: 0 got it, 2 left: [approval_missing]"}},
		{"failed, and nobody approves of the next one", "a plan lists the newest version alone, and it waits for both", failedBefore(t, oneByOne+`,{"id":"ok","anyApproval":{"minApprovals":1}}`), func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, v3)
			w.Fleet.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved}}
		}, []string{"web v1 in prod: 1 got it by 09:30", "web v2 in prod: 4 got it by 09:42, 1 left: [retry_exhausted]", "web v3 in prod: 0 got it, 5 left: [approval_missing]"}},
		{"overtaken", "who goes on to v3 has got v2, who goes past v2 is not to get it", webWorld(t, 3, oneByOne, version("web", "v3", at(1, 9, 4))), nil,
			[]string{"web v2 in prod: 2 got it by 09:06", "web v3 in prod: 3 got it by 09:15"}},
		{"not for all", "a version that is not meant for a target is not to come there", webWorld(t, 3, oneByOne), func(w *rollouttest.World) {
			w.Fleet.Versions[1].TargetSelector = "resource.name == 'c-1'"
		}, []string{"web v1 in prod: 2 got it by 08:00", "web v2 in prod: 1 got it by 09:03"}},
		{"taken back", "what was rolled back has not been got", webWorld(t, 3, rollback), func(w *rollouttest.World) {
			checked(w, map[string]rollout.Verification{"c-1": rollout.VerificationFailed})
		}, []string{"web v1 in prod: 1 got it by 09:21", "web v2 in prod: 2 got it by 09:23, 1 left: [rollback_triggered]"}},
		{"taken back and withdrawn", "who had it for a while and is not to get it again does not count", webWorld(t, 1, rollback), func(w *rollouttest.World) {
			checked(w, map[string]rollout.Verification{"c-0": rollout.VerificationFailed})
			w.Changes = []rollouttest.Change{{At: at(1, 10, 0), Do: func(s *rollout.Snapshot) { s.Versions = s.Versions[:1] }}}
		}, []string{"web v1 in prod: 1 got it by 09:16"}},
		{"taken back at once and withdrawn", "of jobs that take no time a rollback comes last, whatever its id", webWorld(t, 1, rollback), func(w *rollouttest.World) {
			checked(w, map[string]rollout.Verification{"c-0": rollout.VerificationFailed})
			slow := w.Job
			w.Job = func(start rollout.Start, attempt int) rollouttest.Outcome {
				o := slow(start, attempt)
				o.After, o.VerifiedAfter = 0, 0
				return o
			}
			w.Changes = []rollouttest.Change{{At: at(1, 10, 0), Do: func(s *rollout.Snapshot) { s.Versions = s.Versions[:1] }}}
		}, []string{"web v1 in prod: 1 got it by 09:00"}},
		{"failed and withdrawn", "what failed has not been got", webWorld(t, 1, `{"id":"none","retry":{"maxRetries":0}}`), func(w *rollouttest.World) {
			w.Job = func(rollout.Start, int) rollouttest.Outcome {
				return rollouttest.Outcome{After: minutes(3), Status: rollout.JobFailure}
			}
			w.Changes = []rollouttest.Change{{At: at(1, 10, 0), Do: func(s *rollout.Snapshot) { s.Versions = s.Versions[:1] }}}
		}, []string{"web v1 in prod: 1 got it by 08:00"}},
		{"found hanging", "it is left, however long ago it began", atWork(t, 1, func(job *rollout.Job) { job.Status = rollout.JobActionRequired }), nil,
			[]string{"web v1 in prod: 1 got it by 09:10", "web v2 in prod: 0 got it, 1 left, hanging"}},
		{"ended at the start", "it is of this world, and what had ended before is not", atWork(t, 2, func(job *rollout.Job) { job.Status = rollout.JobSuccessful }), func(w *rollouttest.World) {
			w.Fleet.Versions = append(w.Fleet.Versions, version("web", "v3", at(1, 9, 10)))
			w.Fleet.Targets[0].Jobs[1].CompletedAt, w.Fleet.Targets[1].Jobs[1].CompletedAt = at(1, 9, 10), at(1, 9, 10).Add(-1)
		}, []string{"web v2 in prod: 1 got it by 09:10", "web v3 in prod: 2 got it by 09:13"}},
		{"listed backwards", "jobs have an order of their own", webWorld(t, 1, `{"id":"ok","anyApproval":{"minApprovals":1}}`, version("web", "v3", at(1, 9, 1))), func(w *rollouttest.World) {
			var jobs []rollout.Job
			for k, run := range []string{"v3/1", "v2/2", "v1/1/rollback", "v2/1"} {
				jobs = append(jobs, rollout.Job{Run: "c-0/prod/web/" + run, Version: run[:2], Status: rollout.JobSuccessful, CreatedAt: at(1, 9, 14-k)})
			}
			w.Changes = []rollouttest.Change{{At: at(1, 9, 20), Do: func(s *rollout.Snapshot) { s.Targets[0].Jobs = jobs }}}
		}, []string{"web v1 in prod: 1 got it by 09:12", "web v2 in prod: 1 got it by 09:13", "web v3 in prod: 1 got it by 09:14"}},
		{"by hand", "somebody says that it runs another version, and no job has brought that", webWorld(t, 1, oneByOne), func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: at(1, 10, 0), Do: func(s *rollout.Snapshot) { s.Targets[0].Current = "v1" }}}
		}, []string{"web v1 in prod: 1 got it by 08:00", "web v2 in prod: 1 got it by 09:03"}},
		{"two are not approved", "a target awaits the newest", webWorld(t, 1, `{"id":"ok","anyApproval":{"minApprovals":1}}`, v3), nil,
			[]string{"web v1 in prod: 1 got it by 08:00", "web v3 in prod: 0 got it, 1 left: [approval_missing]"}},
		{"two reasons", "they are told in order, each once", failedBefore(t, oneByOne), job(func(_ rollout.Start, o *rollouttest.Outcome) { o.Status = rollout.JobInProgress }),
			[]string{"web v1 in prod: 5 got it by 09:30", "web v2 in prod: 0 got it, 5 left: [retry_exhausted slot_full], hanging"}},
		{"v10", "versions are told in the order in which they were created", webWorld(t, 1, oneByOne, version("web", "v10", at(1, 9, 1))), nil,
			[]string{"web v2 in prod: 1 got it by 09:03", "web v10 in prod: 1 got it by 09:06"}},
		{"checks", "the end of the checks counts", webWorld(t, 1, oneByOne), func(w *rollouttest.World) { checked(w, nil) }, []string{"web v2 in prod: 1 got it by 09:13"}},
		{"checks of a job without run", "they are not those of the job before it, which has none either", atWork(t, 1, func(job *rollout.Job) { job.Verification = rollout.VerificationRunning }), func(w *rollouttest.World) {
			w.Fleet.Targets[0].Jobs[0].Run, w.Fleet.Targets[0].Jobs[1].Run = "", ""
			w.Job = func(rollout.Start, int) rollouttest.Outcome {
				return rollouttest.Outcome{Verification: rollout.VerificationPassed, VerifiedAfter: minutes(25)}
			}
		}, []string{"web v2 in prod: 1 got it by 09:25"}},
		{"checks that a change ends", "then it has them behind it", webWorld(t, 1, oneByOne), func(w *rollouttest.World) {
			checked(w, map[string]rollout.Verification{"c-0": rollout.VerificationRunning})
			w.Changes = []rollouttest.Change{{At: at(1, 9, 50), Do: func(s *rollout.Snapshot) { s.Targets[0].Jobs[1].Verification = rollout.VerificationPassed }}}
		}, []string{"web v2 in prod: 1 got it by 09:50"}},
		{"a change ends it", "without saying when", webWorld(t, 1, oneByOne), func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: at(1, 9, 2), Do: func(s *rollout.Snapshot) { s.Targets[0].Jobs[1].Status = rollout.JobSuccessful }}}
		}, []string{"web v2 in prod: 1 got it by 09:02"}},
		{"checks hang", "nobody knows whether it stays", webWorld(t, 1, oneByOne), func(w *rollouttest.World) {
			checked(w, map[string]rollout.Verification{"c-0": rollout.VerificationRunning})
		}, []string{"web v2 in prod: 0 got it, 1 left, hanging"}},
		{"a job hangs", "nobody else can begin", webWorld(t, 2, oneByOne), job(func(_ rollout.Start, o *rollouttest.Outcome) { o.Status = rollout.JobInProgress }),
			[]string{"web v1 in prod: 2 got it by 08:00", "web v2 in prod: 0 got it, 2 left: [slot_full], hanging"}},
		{"cut off", "what is left when the world ends is left", webWorld(t, 3, oneByOne), func(w *rollouttest.World) { w.End = at(1, 9, 4) },
			[]string{"web v1 in prod: 2 got it by 08:00", "web v2 in prod: 1 got it by 09:03, 2 left: [slot_full], hanging"}},
		{"one leaves", "who has left is not to get anything", webWorld(t, 3, oneByOne), func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: at(1, 9, 4), Do: func(s *rollout.Snapshot) { s.DeletedResources = []string{"c-0", "c-1", "c-2"} }}}
		}, nil},
		{"again", "a new run of the version that it has counts once it has ended", webWorld(t, 1, oneByOne), func(w *rollouttest.World) {
			w.Fleet.Targets[0].OutdatedAt = at(1, 8, 30)
			w.Fleet.Versions = w.Fleet.Versions[:1]
		}, []string{"web v1 in prod: 1 got it by 08:33"}},
		{"unknown", "of a target that is held nobody knows what it is to get", webWorld(t, 2, oneByOne), func(w *rollouttest.World) { w.Fleet.Targets[1].Current = "v0" },
			[]string{"web v0 in prod: 1 got it by 08:00", "web v2 in prod: 1 got it by 09:03, 1 left: [version_unknown]"}},
	} {
		if row.why == "" || names[row.name] {
			t.Fatalf("%q has no reason or is there twice", row.name)
		}
		names[row.name] = true
		if row.edit != nil {
			row.edit(&row.w)
		}
		p, err := rollouttest.Forecast(t.Context(), row.w, rollouttest.Samples{}, 1, 1)
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if diff := gocmp.Diff(row.want, goalsOf(p.Trials[0])); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", row.name, row.why, diff)
		}
	}
}

// TestAbout: when one version is done, whatever else waits.
func TestAbout(t *testing.T) {
	t.Parallel()
	samples := map[string][]rollouttest.Outcome{"web": {{After: minutes(3)}, {After: minutes(3)}, {After: minutes(10)}}}
	p, err := rollouttest.Forecast(t.Context(), failedBefore(t, oneByOne), rollouttest.Samples{Jobs: samples}, 200, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Finish(0); ok || p.Halted() != 1 {
		t.Errorf("one cluster has failed for good, and the fleet is done all the same: %v", p)
	}
	names := map[string]bool{}
	for _, row := range []struct {
		name, why string
		goal      rollouttest.Goal
		left      int
		done      bool
		says      string
	}{
		{"all", "one is left", web("v2"), 0, false, "200 trials from 2026-03-10 09:30:00 on\nnever done: 100 %: retry_exhausted in 200 trials\n"},
		{"all but one", "the other four get it", web("v2"), 1, true, "never done: 0 %\nat most 1 resource in flight at once\nweb v2 in prod: all but 1 of 5 targets, median 2026-03-10 09:49:00 (+19m), 90 % "},
		{"all but many", "who gets it counts, however many might be left", web("v2"), 100, true, "never done: 0 %\n"},
		{"less than none", "nobody is left without being left", web("v2"), -1, false, "200 trials from 2026-03-10 09:30:00 on\nnever done: 100 %: retry_exhausted in 200 trials\n"},
		{"misspelt", "no target is to get it", web("v20"), 5, false, "never done: 100 %: no target that awaited it in 200 trials"},
		{"elsewhere", "no target is to get it", rollouttest.Goal{Deployment: "web", Environment: "staging", Version: "v2"}, 0, false, "no target that awaited it"},
		{"nothing", "an empty id is no id", rollouttest.Goal{}, 0, false, "no target that awaited it"},
	} {
		if row.why == "" || names[row.name] {
			t.Fatalf("%q has no reason or is there twice", row.name)
		}
		names[row.name] = true
		about := p.About(row.goal, row.left)
		finish, ok := about.Finish(1)
		if ok != row.done || ok && (about.DoneBy(finish) != 1 || about.DoneBy(finish.Add(-1)) >= 1 || about.Halted() != 0) || !ok && about.Halted() != 1 {
			t.Errorf("%s: %s, but done %t by %s, halted %v", row.name, row.why, ok, finish, about.Halted())
		}
		if text := about.String(); !strings.Contains(text, row.says) {
			t.Errorf("%s: %s, but it says\n%s\nwant %s", row.name, row.why, text, row.says)
		}
		if about.Peak(1) != p.Peak(1) || len(about.Trials) != len(p.Trials) {
			t.Errorf("%s: at most %d in flight in %d trials", row.name, about.Peak(1), len(about.Trials))
		}
	}
	about := p.About(web("v2"), 1)
	if diff := gocmp.Diff(about, about.About(web("v2"), 1)); diff != "" {
		t.Errorf("about the same again:\n%s", diff)
	}
	if p.Trials[0].Goals[1].Reasons[0] = "spoilt"; about.Trials[0].Goals[0].Reasons[0] == "spoilt" {
		t.Error("what is about a goal shares its reasons with the whole")
	}
	if text := (rollouttest.Prediction{}).About(web("v2"), 0).String(); !strings.Contains(text, "0 trials") {
		t.Errorf("about nothing: %s", text)
	}
}

// TestPredictionTellsOfGoals: of each version that is still to come, when, and why not.
func TestPredictionTellsOfGoals(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, row := range []struct {
		name, why string
		w         rollouttest.World
		sample    rollouttest.Outcome
		want      []string
	}{
		{"done", "a version that they had is not mentioned", webWorld(t, 2, oneByOne), rollouttest.Outcome{After: minutes(3)},
			[]string{"done, latest:   2026-03-10 09:06:00 (+1h6m)", "never done: 0 %", "at most 1 resource in flight at once", "web v2 in prod: 2 targets, median 2026-03-10 09:06:00 (+1h6m), 90 % 2026-03-10 09:06:00 (+1h6m)"}},
		{"one failed before", "it is left in every trial, and does not hide the others", failedBefore(t, oneByOne), rollouttest.Outcome{After: minutes(3)},
			[]string{"never done: 100 %: retry_exhausted in 4 trials", "at most 1 resource in flight at once", "web v2 in prod: all but 1 of 5 targets, median 2026-03-10 09:42:00 (+12m), 90 % 2026-03-10 09:42:00 (+12m); not all in 4 trials: retry_exhausted in 4 trials"}},
		{"all fail", "there is no instant to tell", webWorld(t, 2, oneByOne), rollouttest.Outcome{After: minutes(3), Status: rollout.JobFailure},
			[]string{"never done: 100 %: retry_exhausted in 4 trials", "at most 1 resource in flight at once", "web v2 in prod: none of 2 targets; not all in 4 trials: retry_exhausted in 4 trials"}},
	} {
		if row.why == "" || names[row.name] {
			t.Fatalf("%q has no reason or is there twice", row.name)
		}
		names[row.name] = true
		p, err := rollouttest.Forecast(t.Context(), row.w, rollouttest.Samples{Jobs: map[string][]rollouttest.Outcome{"web": {row.sample}}}, 4, 1)
		if err != nil {
			t.Fatal(err)
		}
		if none := strings.Contains(row.want[len(row.want)-1], ": none of "); none && (p.About(web("v2"), 9).Halted() != 1 || !p.About(web("v2"), 9).Trials[0].Finish.Equal(p.Start)) {
			t.Errorf("%s: it is done on all but nine of two: %+v", row.name, p.About(web("v2"), 9).Trials[0])
		}
		lines := strings.Split(p.String(), "\n")
		if got := lines[max(0, len(lines)-len(row.want)):]; !slices.Equal(got, row.want) {
			t.Errorf("%s: %s, but it says\n%s\nwant\n%s", row.name, row.why, strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
	var many rollouttest.Prediction
	many.Trials = make([]rollouttest.Trial, 1)
	for k := range 13 {
		many.Trials[0].Goals = append(many.Trials[0].Goals, rollouttest.Progress{Goal: web(fmt.Sprint(k)), Left: 1})
	}
	if text := many.String(); strings.Count(text, "web ") != 10 || !strings.HasSuffix(text, "\nand 3 versions more") {
		t.Errorf("of 13 versions it tells\n%s", text)
	}
	if many.Trials[0].Goals = many.Trials[0].Goals[:10]; strings.Contains(many.String(), "more") {
		t.Errorf("of ten versions it tells\n%s", many)
	}
	// The least that is left in any trial counts, whichever comes first.
	for _, row := range []struct {
		left []int
		want string
	}{
		{[]int{2, 1}, "web v2 in prod: all but 1 of 3 targets, "}, {[]int{1, 2}, "web v2 in prod: all but 1 of 3 targets, "}, {[]int{0, 1}, "web v2 in prod: 3 targets, "},
	} {
		var p rollouttest.Prediction
		for _, left := range row.left {
			p.Trials = append(p.Trials, rollouttest.Trial{Goals: []rollouttest.Progress{{Goal: web("v2"), Got: 3 - left, Finish: noon, Left: left}}})
		}
		if text := p.String(); !strings.Contains(text, row.want) {
			t.Errorf("left are %d in one trial and %d in another, and it says\n%s", row.left[0], row.left[1], text)
		}
	}
}

// TestDrawnGoals: in every world, goals and the timeline tell the same.
func TestDrawnGoals(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, twice each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		text, w, accepted := drawn{t}.governed(compiler, seen)
		if !accepted {
			return
		}
		w.Pure, w.Trust = true, true
		timeline, err := w.Run(context.Background())
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		p, err := rollouttest.Forecast(context.Background(), w, rollouttest.Samples{}, 1, 1)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		known, left := map[rollouttest.Goal]rollouttest.Progress{}, 0
		for _, g := range p.Trials[0].Goals {
			known[g.Goal] = g
			left += g.Left
			if g.Got+g.Left == 0 || g.Finish.IsZero() != (g.Got == 0) || g.Got > 0 && (g.Finish.Before(w.Start) || g.Finish.After(p.Trials[0].Finish)) {
				t.Fatalf("%+v in a trial that finished at %s\n%s", g, p.Trials[0].Finish, text)
			}
		}
		if timeline.Done && left > 0 {
			t.Fatalf("all is done, and %d are left: %+v\n%s", left, p.Trials[0].Goals, text)
		}
		awaited := map[rollouttest.Goal]int{}
		for _, l := range timeline.Left {
			goal := rollouttest.Goal{Deployment: l.Deployment, Environment: l.Environment, Version: l.Version}
			if awaited[goal]++; l.Version != "" && known[goal].Left < awaited[goal] {
				t.Fatalf("%v waits, and %+v\n%s", l, known[goal], text)
			}
		}
		// The dumb version: the last end or verification of a job of the version, in a world in which
		// nothing is taken back and nobody leaves.
		ends, plain := map[rollouttest.Goal]time.Time{}, true
		for _, e := range timeline.Entries {
			goal := rollouttest.Goal{Deployment: e.Deployment, Environment: e.Environment, Version: e.Version}
			switch {
			case e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback || e.Kind == rollouttest.Arrival && strings.HasSuffix(e.Note, " is deleted"):
				plain = false
			case e.Kind == rollouttest.End && e.Status == string(rollout.JobSuccessful) || e.Kind == rollouttest.Verify:
				ends[goal] = e.At
			}
		}
		for goal, g := range known {
			switch {
			case g.Left > 0:
				seen["left"]++
			case !plain:
				seen["taken back"]++
			case ends[goal].IsZero():
				if !g.Finish.Equal(w.Start) {
					t.Fatalf("no job brought it: %+v\n%s", g, text)
				}
				seen["had before"]++
			default:
				if !g.Finish.Equal(ends[goal]) {
					t.Fatalf("the last job ended at %s: %+v\n%s", ends[goal], g, text)
				}
				seen["got"]++
			}
		}
		for goal := range ends {
			if _, told := known[goal]; plain && !told {
				t.Fatalf("%s had a job that succeeded, and nothing is told of it\n%s", goal, text)
			}
		}
	}, "left", "taken back", "had before", "got")
}

// TestForecastGoesOn: if past jobs took always the same, a forecast from any plan of a rollout says
// what the one from its beginning said, of the whole and of each version.
func TestForecastGoesOn(t *testing.T) {
	t.Parallel()
	w := rfcWorld(t, 2)
	samples := map[string][]rollouttest.Outcome{}
	for deployment, took := range rfcDurations() {
		samples[deployment] = []rollouttest.Outcome{{After: took, Verification: rollout.VerificationPassed, VerifiedAfter: minutes(2)}}
	}
	w.Job = func(start rollout.Start, _ int) rollouttest.Outcome { return samples[start.Deployment][0] }
	_, plans, err := watched(w)
	if err != nil {
		t.Fatal(err)
	}
	forecast := func(w rollouttest.World) rollouttest.Prediction {
		p, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{Jobs: samples}, 2, 1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole := forecast(w)
	for _, own := range plans {
		rest := forecast(own.from(w))
		latest := func(at time.Time) time.Time {
			if at.Before(own.at) {
				return own.at // what is done is done at the start
			}
			return at
		}
		for n, trial := range rest.Trials {
			want := whole.Trials[n]
			if trial.Done != want.Done || !trial.Finish.Equal(latest(want.Finish)) || rest.Overdue != nil {
				t.Fatalf("from %s: done %t at %s, overdue %q; want %t at %s", own.at, trial.Done, trial.Finish, rest.Overdue, want.Done, want.Finish)
			}
		}
		for _, g := range whole.Trials[0].Goals {
			want, _ := whole.About(g.Goal, 0).Finish(0.5)
			if got, ok := rest.About(g.Goal, 0).Finish(0.5); !ok || !got.Equal(latest(want)) {
				t.Fatalf("from %s: %s by %s, want %s", own.at, g.Goal, got, latest(want))
			}
		}
	}
}
