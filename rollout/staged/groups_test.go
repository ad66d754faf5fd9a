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
)

// grouped is a stage of all targets, by the first letter of the name.
func grouped(most int, perGroup concurrency.Limit) staged.Stage {
	stage := all("only", most)
	stage.MaxConcurrency = concurrency.Count(most)
	stage.GroupBy, stage.MaxConcurrencyPerGroup = "ring", perGroup
	return stage
}

// TestGroups: one row per thing that a limit of groups decides. All inputs are given at one
// instant, after a first step.
func TestGroups(t *testing.T) {
	see := func(health staged.Health, names ...string) (in staged.Input) {
		for _, name := range names {
			in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: health})
		}
		return in
	}
	tell := func(kind staged.CommandKind, name string, attempt int) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: kind, Target: name, Attempt: attempt}}}
	}
	join := func(name, ring string) staged.Input {
		return staged.Input{Added: []staged.Target{{Name: name, Labels: map[string]string{"ring": ring}}}}
	}
	ready, failed := staged.HealthReady, staged.HealthFailed
	one, half := concurrency.Count(1), concurrency.Percent(50)
	lax := func(most int, perGroup concurrency.Limit) staged.Stage {
		stage := grouped(most, perGroup)
		stage.MaxFailures = concurrency.Count(9)
		return stage
	}
	elsewhere := grouped(3, one)
	elsewhere.GroupBy = "zone" // which no target has
	first := lax(4, one)
	first.LabelSelector, first.Targets = nil, []string{"a1", "a2", "b1"}
	second := all("then", 1)
	second.LabelSelector, second.Targets = nil, []string{"z1"}
	hurried := grouped(4, one)
	hurried.ProgressDeadline = staged.For(time.Hour)
	noSlot := func(holders string) string {
		return "slot, " + holders + ", waits for a target to be settled"
	}
	for _, row := range []struct {
		why     string
		stages  []staged.Stage
		options staged.Options
		names   string
		inputs  []staged.Input
		phase   staged.Phase
		targets string // of the current stage and those before
		waits   string
		of      string // the target that is asked for itself, and what it says
	}{
		{why: "one of each group, and who waits for its own keeps back nobody behind it", stages: []staged.Stage{grouped(4, one)}, names: "a1 a2 a3 b1 b2 c1", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2, a3, b1 starting, b2, c1 starting", waits: "group a, 1 of 1 in progress: a1, waits for a target to be settled",
			of: "b2: group b, 1 of 1 in progress: b1, waits for a target of group b to be settled"},
		{why: "the limit of the stage holds all the same", stages: []staged.Stage{grouped(2, one)}, names: "a1 a2 b1 b2 c1", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2, b1 starting, b2, c1", waits: noSlot("2 of 2 in progress: a1, b1"), of: "c1: " + noSlot("2 of 2 in progress: a1, b1")},
		{why: "who waits for both says that its group is full: no other slot helps", stages: []staged.Stage{grouped(2, one)}, names: "a1 a2 b1 b2 c1", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2, b1 starting, b2, c1", waits: noSlot("2 of 2 in progress: a1, b1"), of: "a2: group a, 1 of 1 in progress: a1, waits for a target of group a to be settled"},
		{why: "a slot of its group is the next one's of that group", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 a3 b1 b2", inputs: []staged.Input{see(ready, "a1")}, phase: staged.PhaseProgressing,
			targets: "a1 done, a2 starting, a3, b1 starting, b2", waits: "group a, 1 of 1 in progress: a2, waits for a target to be settled", of: "a3: group a, 1 of 1 in progress: a2, waits for a target of group a to be settled"},
		{why: "of all slots in one step each is filled, in order", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 a3 b1 b2", inputs: []staged.Input{see(ready, "a1", "b1")}, phase: staged.PhaseProgressing,
			targets: "a1 done, a2 starting, a3, b1 done, b2 starting", waits: "group a, 1 of 1 in progress: a2, waits for a target to be settled", of: "a3: group a, 1 of 1 in progress: a2, waits for a target of group a to be settled"},
		{why: "nobody waits, and the last ones are as in any stage", stages: []staged.Stage{grouped(3, one)}, names: "a1 b1", phase: staged.PhaseProgressing,
			targets: "a1 starting, b1 starting", waits: noSlot("2 of 3 in progress: a1, b1"), of: "a1: in_progress (starting) since 2026-03-10T08:00:00Z, waits for an observation of a1"},
		{why: "a percentage is of the group, rounded down, and one at least", stages: []staged.Stage{grouped(9, half)}, names: "a1 a2 a3 a4 a5 b1 b2 b3 c1", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2 starting, a3, a4, a5, b1 starting, b2, b3, c1 starting", waits: "group a, 2 of 2 in progress: a1, a2, waits for a target to be settled",
			of: "b2: group b, 1 of 1 in progress: b1, waits for a target of group b to be settled"},
		{why: "or up", stages: []staged.Stage{grouped(9, half)}, options: staged.Options{Rounding: staged.Up}, names: "a1 a2 a3 a4 a5 b1 b2 b3", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2 starting, a3 starting, a4, a5, b1 starting, b2 starting, b3", waits: "group a, 3 of 3 in progress: a1, a2, a3, waits for a target to be settled",
			of: "b3: group b, 2 of 2 in progress: b1, b2, waits for a target of group b to be settled"},
		{why: "a count above the size of a group has no effect", stages: []staged.Stage{grouped(9, concurrency.Count(5))}, names: "a1 a2 b1", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2 starting, b1 starting", waits: noSlot("3 of 9 in progress: a1, a2, b1"), of: "b1: in_progress (starting) since 2026-03-10T08:00:00Z, waits for an observation of b1"},
		{why: "those without the label are a group, too", stages: []staged.Stage{elsewhere}, names: "a1 b1", phase: staged.PhaseProgressing,
			targets: "a1 starting, b1", waits: `group "", 1 of 1 in progress: a1, waits for a target to be settled`, of: `b1: group "", 1 of 1 in progress: a1, waits for a target of group "" to be settled`},
		{why: "what needs no start takes no slot of its group", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 a3", inputs: []staged.Input{see(ready, "a2")}, phase: staged.PhaseProgressing,
			targets: "a1 starting, a2 done, a3", waits: "group a, 1 of 1 in progress: a1, waits for a target to be settled", of: "a3: group a, 1 of 1 in progress: a1, waits for a target of group a to be settled"},
		{why: "a suspended one leaves the slot of its group to the next", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 a3 b1", inputs: []staged.Input{suspend("a2"), see(ready, "a1")}, phase: staged.PhaseProgressing,
			targets: "a1 done, a2 suspended" + byAnn + ", a3 starting, b1 starting", waits: noSlot("2 of 3 in progress: a3, b1"), of: "a2: suspended: a2" + byAnn + ", waits for an operator to resume or skip"},
		{why: "resumed, it waits for its group before those behind it", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 a3 a4", inputs: []staged.Input{suspend("a2"), see(ready, "a1"), resume("a2")}, phase: staged.PhaseProgressing,
			targets: "a1 done, a2, a3 starting, a4", waits: "group a, 1 of 1 in progress: a3, waits for a target to be settled", of: "a2: group a, 1 of 1 in progress: a3, waits for a target of group a to be settled"},
		{why: "all that is left is suspended", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 b1", inputs: []staged.Input{suspend("a2"), see(ready, "a1", "b1")}, phase: staged.PhaseWaiting,
			targets: "a1 done, a2 suspended" + byAnn + ", b1 done", waits: "suspended: a2" + byAnn + ", waits for an operator to resume or skip", of: "a2: suspended: a2" + byAnn + ", waits for an operator to resume or skip"},
		{why: "a skip frees the slot of a group", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 b1", inputs: []staged.Input{tell(staged.CommandSkip, "a1", 0)}, phase: staged.PhaseProgressing,
			targets: "a1 skipped, a2 starting, b1 starting", waits: noSlot("2 of 3 in progress: a2, b1"), of: "a2: in_progress (starting) since 2026-03-10T08:00:00Z, waits for an observation of a2"},
		{why: "and so does who leaves", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 b1", inputs: []staged.Input{{Removed: []string{"a1"}}}, phase: staged.PhaseProgressing,
			targets: "a1 removed, a2 starting, b1 starting", waits: noSlot("2 of 3 in progress: a2, b1"), of: "a2: in_progress (starting) since 2026-03-10T08:00:00Z, waits for an observation of a2"},
		{why: "a failure frees it, too, if the budget allows for that", stages: []staged.Stage{lax(3, one)}, names: "a1 a2 b1", inputs: []staged.Input{see(failed, "a1")}, phase: staged.PhaseProgressing,
			targets: "a1 failed (reported_failed), a2 starting, b1 starting", waits: noSlot("2 of 3 in progress: a2, b1"), of: "a2: in_progress (starting) since 2026-03-10T08:00:00Z, waits for an observation of a2"},
		{why: "a retry waits until its group has a slot", stages: []staged.Stage{lax(3, one)}, names: "a1 a2 a3 b1", inputs: []staged.Input{see(failed, "a1"), tell(staged.CommandRetry, "a1", 1)}, phase: staged.PhaseProgressing,
			targets: "a1 attempt 2, a2 starting, a3, b1 starting", waits: "group a, 1 of 1 in progress: a2, waits for a target to be settled", of: "a1: group a, 1 of 1 in progress: a2, waits for a target of group a to be settled"},
		{why: "and then goes first", stages: []staged.Stage{lax(3, one)}, names: "a1 a2 a3 b1", inputs: []staged.Input{see(failed, "a1"), tell(staged.CommandRetry, "a1", 1), see(ready, "a2")}, phase: staged.PhaseProgressing,
			targets: "a1 starting attempt 2, a2 done, a3, b1 starting", waits: "group a, 1 of 1 in progress: a1, waits for a target to be settled", of: "a3: group a, 1 of 1 in progress: a1, waits for a target of group a to be settled"},
		{why: "a retry of one group goes before who never started, of any group", stages: []staged.Stage{lax(2, one)}, names: "a1 b1 b2 c1", inputs: []staged.Input{see(failed, "b1"), tell(staged.CommandRetry, "b1", 1), see(ready, "a1")}, phase: staged.PhaseProgressing,
			targets: "a1 done, b1 attempt 2, b2 starting, c1 starting", waits: noSlot("2 of 2 in progress: b2, c1"), of: "b1: group b, 1 of 1 in progress: b2, waits for a target of group b to be settled"},
		{why: "nor does who was suspended go before it, whatever the order", stages: []staged.Stage{lax(3, one)}, names: "a1 a2 a3 a4", phase: staged.PhaseProgressing,
			inputs:  []staged.Input{suspend("a2"), see(ready, "a1"), see(failed, "a3"), tell(staged.CommandRetry, "a3", 1), resume("a2"), see(ready, "a4")},
			targets: "a1 done, a2, a3 starting attempt 2, a4 done", waits: "group a, 1 of 1 in progress: a3, waits for a target to be settled", of: "a2: group a, 1 of 1 in progress: a3, waits for a target of group a to be settled"},
		{why: "a stop starts nobody", stages: []staged.Stage{grouped(3, one)}, names: "a1 a2 b1", inputs: []staged.Input{{State: staged.StateStop}, see(ready, "a1", "b1")}, phase: staged.PhaseStopped,
			targets: "a1 done, a2, b1 done", waits: "stopped, waits for an operator to set state Run", of: "a2: stopped, waits for an operator to set state Run"},
		{why: "who joins is the last of its group", stages: []staged.Stage{grouped(3, one)}, options: staged.Options{Added: staged.Append}, names: "a1 a2 b1", inputs: []staged.Input{join("a0", "a"), see(ready, "a1")}, phase: staged.PhaseProgressing,
			targets: "a1 done, a2 starting, b1 starting, a0", waits: "group a, 1 of 1 in progress: a2, waits for a target to be settled", of: "a0: group a, 1 of 1 in progress: a2, waits for a target of group a to be settled"},
		{why: "or the first of a new one", stages: []staged.Stage{grouped(3, one)}, options: staged.Options{Added: staged.Append}, names: "a1 a2 b1", inputs: []staged.Input{join("c1", "c"), join("c2", "c")}, phase: staged.PhaseProgressing,
			targets: "a1 starting, a2, b1 starting, c1 starting, c2", waits: noSlot("3 of 3 in progress: a1, b1, c1"), of: "c2: group c, 1 of 1 in progress: c1, waits for a target of group c to be settled"},
		{why: "the share of a group grows with it, and that of no other", stages: []staged.Stage{grouped(9, half)}, options: staged.Options{Added: staged.Append}, names: "a1 a2 a3 b1 b2 b3", inputs: []staged.Input{join("a4", "a")}, phase: staged.PhaseProgressing,
			targets: "a1 starting, a2 starting, a3, b1 starting, b2, b3, a4", waits: "group a, 2 of 2 in progress: a1, a2, waits for a target to be settled", of: "b3: group b, 1 of 1 in progress: b1, waits for a target of group b to be settled"},
		{why: "and does not fall when one leaves", stages: []staged.Stage{grouped(9, half)}, names: "a1 a2 a3 a4 b1", inputs: []staged.Input{{Removed: []string{"a3", "a4"}}}, phase: staged.PhaseProgressing,
			targets: "a1 starting, a2 starting, a3 removed, a4 removed, b1 starting", waits: noSlot("3 of 9 in progress: a1, a2, b1"), of: "a2: in_progress (starting) since 2026-03-10T08:00:00Z, waits for an observation of a2"},
		{why: "a new label of a member is not read", stages: []staged.Stage{grouped(3, one)}, options: staged.Options{Added: staged.Append}, names: "a1 a2 b1", inputs: []staged.Input{join("a2", "c")}, phase: staged.PhaseProgressing,
			targets: "a1 starting, a2, b1 starting", waits: "group a, 1 of 1 in progress: a1, waits for a target to be settled", of: "a2: group a, 1 of 1 in progress: a1, waits for a target of group a to be settled"},
		{why: "who is behind the stage says what that waits for", stages: []staged.Stage{first, second}, names: "a1 a2 b1 z1", phase: staged.PhaseProgressing,
			targets: "a1 starting, a2, b1 starting", waits: "group a, 1 of 1 in progress: a1, waits for a target to be settled", of: "z1: stage 0: group a, 1 of 1 in progress: a1, waits for a target to be settled"},
		{why: "a deadline ends the wait, too", stages: []staged.Stage{hurried}, names: "a1 a2 b1", phase: staged.PhaseProgressing, targets: "a1 starting, a2, b1 starting",
			waits: "group a, 1 of 1 in progress: a1, until 2026-03-10T09:00:00Z, waits for a target to be settled", of: "a2: group a, 1 of 1 in progress: a1, until 2026-03-10T09:00:00Z, waits for a target of group a to be settled"},
	} {
		s := newScene(t, staged.Strategy{Stages: row.stages}, row.options, strings.Fields(row.names))
		for _, in := range row.inputs {
			s.step(in)
		}
		for _, run := range []*staged.Run{s.run, reread(t, s.run)} {
			s.run = run
			s.want(row.phase, row.targets)
			waits, _ := run.Waits()
			name, _, _ := strings.Cut(row.of, ":")
			own, _ := run.Explain(name)
			if got, want := fmt.Sprint(waits, "\n", name, ": ", own), row.waits+"\n"+row.of; got != want || t.Failed() {
				t.Fatalf("%s:\ngot  %s\nwant %s", row.why, got, want)
			}
		}
	}
}

// TestGroupUntil: who waits for its group waits for the deadline of one of that group, while the
// run waits for the first of any.
func TestGroupUntil(t *testing.T) {
	stage := grouped(4, concurrency.Count(2))
	stage.ProgressDeadline, stage.MinSuccessTime, stage.MaxFailures = staged.For(time.Hour), staged.For(10*time.Minute), concurrency.Count(9)
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{stage}}, staged.Options{Added: staged.Append}, []string{"a1", "a2", "a3"})
	s.after(time.Minute).step(staged.Input{Added: []staged.Target{{Name: "b1", Labels: map[string]string{"ring": "b"}}, {Name: "b2", Labels: map[string]string{"ring": "b"}}, {Name: "b3", Labels: map[string]string{"ring": "b"}}}})
	s.want(staged.PhaseProgressing, "a1 starting, a2 starting, a3, b1 starting, b2 starting, b3")
	for name, want := range map[string]time.Duration{"a3": time.Hour, "b3": time.Hour + time.Minute} {
		v, _ := s.run.Explain(name)
		if v.Reason != staged.ReasonGroup || !v.Until.Equal(benchStart.Add(want)) {
			t.Errorf("%s: %s", name, v)
		}
	}
	s.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "a1"}, {Kind: staged.CommandSkip, Target: "a3"}}})
	v, _ := s.run.Waits()
	if data, err := json.Marshal(v); err != nil || string(data) != `{"status":"pending","reason":"group","until":"2026-03-10T09:00:00Z","on":[{"kind":"slot","stage":0}],`+
		`"data":{"position":0,"stage":0,"allowed":2,"total":2,"names":["b1","b2"],"detail":"b"}}` {
		t.Errorf("%v\n%s", err, data)
	}
	v, _ = s.run.Explain("b3")
	if data, err := json.Marshal(v); err != nil || string(data) != `{"status":"pending","reason":"group","until":"2026-03-10T09:01:00Z","on":[{"kind":"group","stage":0,"name":"b"}],`+
		`"data":{"position":5,"stage":0,"allowed":2,"total":2,"names":["b1","b2"],"detail":"b"}}` {
		t.Errorf("%v\n%s", err, data)
	}
	s.see(staged.HealthReady, "b2") // and soaks
	if v, _ := s.run.Explain("b3"); !v.Until.Equal(benchStart.Add(11 * time.Minute)) {
		t.Errorf("%s", v)
	}
	s.see(staged.HealthFailing, "b2")
	if v, _ := s.run.Explain("b3"); !v.Until.Equal(benchStart.Add(time.Hour + time.Minute)) {
		t.Errorf("%s", v)
	}
}

// TestGroupsAreShown: the preview tells the groups of a stage, how many of each may be in progress,
// and how large it is.
func TestGroupsAreShown(t *testing.T) {
	var names []string
	for i := range 15 {
		names = append(names, fmt.Sprintf("%c1", 'a'+i), fmt.Sprintf("%c2", 'a'+i), fmt.Sprintf("%c3", 'a'+i))
	}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{grouped(4, concurrency.Percent(70))}}, staged.Options{}, names[:4])
	want := `run run: Progressing, version v2 of p, 0 of 4 targets done
  waits: group a, 2 of 2 in progress: a1, a2, waits for a target to be settled
  stage 0 only: Updating, 4 at a time, 70% per ring, at most 0 failures
    targets: a1 starting, a2 starting, a3, b1 starting
    in progress by ring: a 2 of 2 (3 targets), b 1 of 1 (1 target)`
	if got := s.run.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = newScene(t, staged.Strategy{Stages: []staged.Stage{grouped(4, concurrency.Count(1))}}, staged.Options{}, names)
	if want := "j 0 of 1 (3 targets), k 0 of 1 (3 targets), l 0 of 1 (3 targets), and 3 more"; !strings.HasSuffix(s.run.String(), want) {
		t.Errorf("%s\nwant %s", s.run, want)
	}
	nobody := grouped(1, concurrency.Count(1)) // and one that is over
	nobody.Name, nobody.LabelSelector = "nobody", nil
	over := newScene(t, staged.Strategy{Stages: []staged.Stage{grouped(1, concurrency.Count(1)), nobody}}, staged.Options{}, names[:1])
	if text := over.run.String(); strings.Count(text, "in progress by ring") != 1 {
		t.Error(text)
	}
	if text := over.see(staged.HealthReady, names[0]).run.String(); strings.Contains(text, "in progress by") {
		t.Error(text)
	}
	if target, _ := s.run.Target("c2"); target.Group != "c" {
		t.Errorf("%+v", target)
	}
}

// TestStoredGroups pins how groups are stored, and that a run without any is stored as before. What
// contradicts the rest of the run is refused.
func TestStoredGroups(t *testing.T) {
	names := []string{"a1", "a2", "b1", "a3", "b2"}
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{grouped(5, concurrency.Count(1))}}, staged.Options{Added: staged.Append}, names)
	s.step(staged.Input{Added: []staged.Target{{Name: "n", Labels: map[string]string{"ring": `"<`}}, {Name: "o"}}})
	text := string(encode(t, s.run))
	const stored = `,"groups":["a","b","\"\u003c",""],"groupOf":[0,0,0,1,1,2,3]`
	if !strings.Contains(text, stored) || !strings.Contains(text, `"maxConcurrency":5,"groupBy":"ring","maxConcurrencyPerGroup":1}`) {
		t.Fatalf("%s is not in\n%s", stored, text)
	}
	const needed = "stages[%d].groupOf: must be there for each member of a stage with groups, and for nothing else: %d are needed, not %d"
	const order = "stages[0].groupOf: must be indexes of groups, in the order of their first members: position %d"
	const once = "stages[0].groups: must each be there once, for a member, in valid UTF-8: index %d"
	for _, row := range []struct{ why, from, to, want string }{
		{"no groups at all", stored, ``, fmt.Sprintf(needed, 0, 7, 0)},
		{"too few", `[0,0,0,1,1,2,3]`, `[0,0,0,1,1,2]`, fmt.Sprintf(needed, 0, 7, 6)},
		{"too many", `[0,0,0,1,1,2,3]`, `[0,0,0,1,1,2,3,3]`, fmt.Sprintf(needed, 0, 7, 8)},
		{"one of a group that there is not", `[0,0,0,1,1,2,3]`, `[0,0,0,1,1,2,4]`, fmt.Sprintf(order, 6)},
		{"before the first", `[0,0,0,1,1,2,3]`, `[-1,0,0,1,1,2,3]`, fmt.Sprintf(order, 0)},
		{"out of order", `[0,0,0,1,1,2,3]`, `[0,0,0,2,2,1,3]`, fmt.Sprintf(order, 3)},
		{"a group of nobody", `[0,0,0,1,1,2,3]`, `[0,0,0,1,1,2,2]`, fmt.Sprintf(once, 3)},
		{"one value twice", `["a","b",`, `["a","a",`, fmt.Sprintf(once, 1)},
		{"no list", `["a","b","\"\u003c",""]`, `"a"`, "stages[0].groups: must be a list"},
		{"no values", `["a","b",`, `[1,2,`, ""},
		{"no numbers", `[0,0,0,1,1,2,3]`, `["a",0,0,1,1,2,3]`, ""},
		{"groups of the cleanup", `{"phase":"Pending","members":0`, `{"phase":"Pending","groups":["a"],"groupOf":[0],"members":0`, fmt.Sprintf(needed, 1, 0, 1)},
		{"values of the cleanup", `{"phase":"Pending","members":0`, `{"phase":"Pending","groups":["a"],"members":0`, "stages[1].groups: must each be there once, for a member, in valid UTF-8: index 0"},
		{"more of one group than its limit", stored, `,"groups":["a","b","c"],"groupOf":[0,0,0,0,0,1,2]`, "stages[0].states: have 2 members of group a in progress, the limit is 1"},
		{"a free slot of a group, and one who waits", stored, `,"groups":["a","b","c","d","e"],"groupOf":[0,0,1,2,2,3,4]`, `phase: must not be "Progressing": nothing keeps the current stage 0 (Updating) from going on`},
	} {
		if strings.Count(text, row.from) != 1 {
			t.Fatalf("%s: %s is not in\n%s", row.why, row.from, text)
		}
		err := json.Unmarshal([]byte(strings.Replace(text, row.from, row.to, 1)), new(staged.Run))
		if err == nil || row.want != "" && err.Error() != row.want {
			t.Errorf("%s: got %v, want %s", row.why, err, row.want)
		}
	}
	if plain := string(encode(t, midRun(t))); strings.Contains(plain, "roup") {
		t.Error(plain)
	}
}

// TestGroupsOfNoUTF8: a group is stored by its value, so that the value must have a stored form: of
// a member, at Compile and when it joins. Other labels may be anything.
func TestGroupsOfNoUTF8(t *testing.T) {
	bad := staged.Target{Name: "b", Labels: map[string]string{"ring": "\xff", "other": "\xff", "": "\xff"}}
	strategy := staged.Strategy{Stages: []staged.Stage{grouped(3, concurrency.Count(1))}}
	_, err := staged.Compile(strategy, benchSpec(), staged.Fleet{Version: "v2", Targets: []staged.Target{bad, {Name: "a", Labels: map[string]string{"ring": "\xfe"}}}}, staged.Options{})
	const hint = `: must be valid UTF-8: stages[0].groupBy groups by it, and a stored run would find another group`
	if want := `targets["a"].labels["ring"]: "\xfe"` + hint + "\n" + `targets["b"].labels["ring"]: "\xff"` + hint; err == nil || err.Error() != want || rules(err)[0] != staged.CodeGroupBy {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	joining := newScene(t, strategy, staged.Options{Added: staged.Append}, []string{"a1"})
	run, _, err := staged.Step(joining.run, staged.Input{Added: []staged.Target{{Name: "a2"}, bad}}, benchStart)
	if want := `added[1].labels["ring"]: "\xff"` + hint; run != joining.run || err == nil || err.Error() != want || rules(err)[0] != staged.CodeInput {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	newScene(t, strategy, staged.Options{}, []string{"a1"}).step(staged.Input{Added: []staged.Target{bad}}) // it cannot join
	strategy.Stages[0].GroupBy = "zone"
	newScene(t, strategy, staged.Options{Added: staged.Append}, []string{"a1"}).step(staged.Input{Added: []staged.Target{bad}})
}

// TestManyGroupsJoin: groups and members that join are found as if they had been there from the
// beginning, whatever level of the lists they need.
func TestManyGroupsJoin(t *testing.T) {
	const n = 2200
	stage := all("only", 1)
	stage.MaxConcurrency, stage.GroupBy, stage.MaxConcurrencyPerGroup = concurrency.Count(40), "of", concurrency.Count(1)
	target := func(i int) staged.Target {
		of := "all" // every other one, and the rest is alone
		if i%2 == 1 {
			of = fmt.Sprint("g", i)
		}
		return staged.Target{Name: fmt.Sprintf("c%05d", i), Labels: map[string]string{"of": of}}
	}
	var fleet staged.Fleet
	fleet.Version = "v2"
	for i := range n {
		fleet.Targets = append(fleet.Targets, target(i))
	}
	whole, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleet, staged.Options{Added: staged.Append})
	if err != nil {
		t.Fatal(err)
	}
	fleet.Targets = fleet.Targets[:33]
	spec := benchSpec()
	spec.State = staged.StateInitialize
	grown, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, spec, fleet, staged.Options{Added: staged.Append})
	if err != nil {
		t.Fatal(err)
	}
	for i := 33; i < n; i++ {
		grown, _ = step(t, grown, staged.Input{Added: []staged.Target{target(i)}}, benchStart)
	}
	whole, want := step(t, whole, staged.Input{}, benchStart)
	grown, got := step(t, grown, staged.Input{State: staged.StateRun}, benchStart)
	for i := 0; !whole.Phase().Terminal(); i++ {
		if !slices.Equal(got.Actions, want.Actions) {
			t.Fatalf("step %d: got %v, want %v", i, got, want)
		}
		if i%100 == 0 {
			grown = reread(t, grown)
		}
		in := staged.Input{Observations: acknowledge(want.Actions, staged.HealthReady)}
		whole, want = step(t, whole, in, benchStart)
		grown, got = step(t, grown, in, benchStart)
	}
	if grown.Phase() != staged.PhaseSucceeded || grown.Counts().Done != n {
		t.Error(grown)
	}
}

// TestGroupsCostTheSame: members that wait for a full group are not looked at, by no step and no
// verdict, however many stand in front of those whose turn it is, and however many groups there
// are.
func TestGroupsCostTheSame(t *testing.T) {
	testkit.NeedCPUTime(t)
	for _, alone := range []bool{false, true} { // the others are of one full group, or each is alone and done
		of := func(n int) func() {
			const behind = 12
			fleet := staged.Fleet{Version: "v2"}
			for i := range n + 2*behind {
				group := "crowd"
				switch {
				case i >= n:
					group = fmt.Sprint("last", i%2)
				case alone:
					group = fmt.Sprint("own", i)
				}
				fleet.Targets = append(fleet.Targets, staged.Target{Name: fmt.Sprintf("c%06d", i), Labels: map[string]string{"of": group}})
			}
			stage := all("only", 1)
			stage.MaxConcurrency, stage.GroupBy, stage.MaxConcurrencyPerGroup = concurrency.Count(4), "of", concurrency.Count(1)
			run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{stage}}, benchSpec(), fleet, staged.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var in staged.Input
			if alone {
				for i := range n {
					in.Observations = append(in.Observations, staged.Observation{Target: fleet.Targets[i].Name, Version: "v2", Health: staged.HealthReady})
				}
			}
			run, result := step(t, run, in, benchStart)
			return func() {
				run, result := run, result
				for range behind {
					var in staged.Input
					for _, a := range result.Actions {
						if a.Target != "c000000" {
							in.Observations = append(in.Observations, staged.Observation{Target: a.Target, Version: "v2", Health: staged.HealthReady, Token: a.Token})
						}
					}
					run, result = step(t, run, in, benchStart)
					own, _ := run.Explain("c000001")
					if v, _ := run.Waits(); !alone && (own.Reason != staged.ReasonGroup || v.Reason != staged.ReasonGroup) {
						t.Fatalf("%s, %s", v, own)
					}
				}
				if c := run.Counts(); alone && run.Phase() != staged.PhaseSucceeded || !alone && (c.Done != 2*behind || c.Waiting != n-1) {
					t.Fatal(run)
				}
			}
		}
		testkit.CompareCost(t, fmt.Sprintf("groups, alone %t", alone), 20, of(100), of(20_000))
	}
}

// groupedRun is in the middle of a stage with groups, one of which joined.
func groupedRun(t testing.TB) *staged.Run {
	fleet := staged.Fleet{Version: "v2"}
	for _, name := range []string{"a1", "a2", "b1", "b2", "b3"} {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"ring": name[:1]}})
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{grouped(3, concurrency.Percent(50))}}, benchSpec(), fleet, staged.Options{Added: staged.Append})
	if err != nil {
		t.Fatal(err)
	}
	run, result := step(t, run, staged.Input{}, benchStart)
	run, _ = step(t, run, staged.Input{Observations: acknowledge(result.Actions[1:], staged.HealthReady), Added: []staged.Target{{Name: "c1"}}}, benchStart)
	return run
}
