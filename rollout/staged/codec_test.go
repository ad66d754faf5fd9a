package staged_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/golden"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout/staged"
)

// midRun is a run with something of everything: a closed stage with a failure, an open one, and a
// cleanup.
func midRun(t testing.TB) *staged.Run {
	t.Helper()
	return midRunFrom(t, benchStart)
}

// midRunFrom is midRun at another time; it survives JSON after every step.
func midRunFrom(t testing.TB, now time.Time) *staged.Run {
	t.Helper()
	first, second := all("first", 2), all("second", 2)
	first.LabelSelector.MatchLabels, second.LabelSelector.MatchLabels = map[string]string{"ring": "a"}, map[string]string{"ring": "b"}
	first.MaxFailures, second.MaxFailures = concurrency.Count(1), concurrency.Count(1)
	first.AfterStageTasks = []staged.Task{{Type: staged.Approval}, {Type: staged.TimedWait, WaitTime: staged.For(time.Minute)}}
	second.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	second.MinSuccessTime = staged.For(time.Hour)
	fleet := staged.Fleet{Version: "v2", Leaving: []string{"d1", "d2"}}
	for _, name := range []string{"a1", "a2", "a3", "b1", "b2", "b3", "b4", "b5"} {
		fleet.Targets = append(fleet.Targets, staged.Target{Name: name, Labels: map[string]string{"ring": name[:1]}})
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{first, second}}, benchSpec(), fleet, staged.Options{LateLeaving: staged.Clean})
	if err != nil {
		t.Fatal(err)
	}
	see := func(name string, health staged.Health) staged.Input {
		return staged.Input{Observations: []staged.Observation{{Target: name, Version: "v2", Health: health}}}
	}
	approve := func(stage int, side staged.Side) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Stage: stage, Side: side}}}
	}
	for _, in := range []staged.Input{{}, see("a1", staged.HealthReady), see("a2", staged.HealthFailed), see("a3", staged.HealthReady), approve(0, staged.After), {}, approve(1, staged.Before),
		see("b1", staged.HealthFailed), {Commands: []staged.Command{{Kind: staged.CommandRetry, Target: "b1", Attempt: 1}}}, see("b2", staged.HealthReady), {Leaving: []string{"b4"}}, see("b5", staged.HealthReady)} {
		now = now.Add(30 * time.Second)
		run, _ = step(t, run, in, now)
		var stored staged.Run
		if err := json.Unmarshal(encode(t, run), &stored); err != nil {
			t.Fatalf("%v\n%s", err, run)
		}
		run = &stored
	}
	return run
}

// TestFirstInstant: the first instant that there is is one as any other, and a stage that has not
// begun has none at all.
func TestFirstInstant(t *testing.T) {
	for _, now := range []time.Time{time.Unix(0, 0), time.Unix(100, 0)} {
		run, want := midRunFrom(t, now), midRun(t)
		if got := run.Counts(); got != want.Counts() || run.Phase() != want.Phase() || run.Time().Sub(now) != want.Time().Sub(benchStart) {
			t.Errorf("%s\nwant %s", run, want)
		}
	}
	// Stages that never began, one of which is closed and one of which failed.
	gated := all("only", 1)
	gated.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{{Name: "empty"}, gated}}, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	for _, in := range []staged.Input{{}, {Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Stage: 1, Side: staged.Before}}}} {
		run, _ = step(t, run, in, now)
		if err := json.Unmarshal(encode(t, run), new(staged.Run)); err != nil {
			t.Errorf("%v\n%s", err, run)
		}
	}
	if run.Phase() != staged.PhaseFailed {
		t.Error(run)
	}
}

// TestTwentyFaults: a list of bad names is cut off, however long it is, and so is one of bad stages.
func TestTwentyFaults(t *testing.T) {
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("c%02d", i))
	}
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf(names...), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(encode(t, run))
	for _, name := range names {
		text = strings.Replace(text, `"`+name+`"`, `""`, 1)
	}
	if n := len(rules(json.Unmarshal([]byte(text), new(staged.Run)))); n != 20 {
		t.Errorf("%d faults are told, want 20", n)
	}
	var stages []staged.Stage
	var in staged.Input
	for _, name := range names {
		stages = append(stages, staged.Stage{Name: name, Targets: []string{name}})
		in.Observations = append(in.Observations, staged.Observation{Target: name, Version: "v2", Health: staged.HealthReady})
	}
	if run, err = staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleetOf(names...), staged.Options{}); err != nil {
		t.Fatal(err)
	}
	run, _ = step(t, run, in, benchStart)
	timeless := strings.Replace(string(encode(t, run)), `"time":"`+benchStart.Format(time.RFC3339)+`",`, "", 1)
	if n := len(rules(json.Unmarshal([]byte(timeless), new(staged.Run)))); n != 20 || run.Phase() != staged.PhaseSucceeded {
		t.Errorf("%d faults of stages are told, want 20:\n%s", n, run)
	}
	// What each stage says for itself is right, and none of it goes with the run.
	if run, err = staged.Compile(staged.Strategy{Stages: stages}, benchSpec(), fleetOf(names...), staged.Options{}); err != nil {
		t.Fatal(err)
	}
	seen := strings.ReplaceAll(string(encode(t, run)), `"states":"w"`, `"states":"c"`)
	if n := len(rules(json.Unmarshal([]byte(seen), new(staged.Run)))); n != 20 {
		t.Errorf("%d faults of stages that are observed before the first step are told, want 20", n)
	}
	run, _ = step(t, run, staged.Input{}, benchStart)
	ahead := strings.Replace(string(encode(t, run)), `"current":0`, `"current":30`, 1)
	if n := len(rules(json.Unmarshal([]byte(ahead), new(staged.Run)))); n != 20+1 {
		t.Errorf("%d faults are told, want 20 of open stages before the current one, and that of the run", n)
	}
}

// TestStoredForm pins the stored form: a change of it is a change of its format.
func TestStoredForm(t *testing.T) {
	var indented bytes.Buffer
	if err := json.Indent(&indented, encode(t, midRun(t)), "", " "); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "run.json", indented.String())
}

// refusal is a row of a golden file: what is wrong with a stored run, and what is said of it. The
// words of encoding/json are its own.
func refusal(why string, err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		if text, _, cut := strings.Cut(line, "json: "); cut {
			lines[i] = text + "…"
		}
	}
	return why + "\n\t" + strings.Join(lines, "\n\t") + "\n"
}

// TestDamage changes one thing in a stored run per row. Each is an error, and none a panic. What is
// said is all that is wrong, once, and no more.
func TestDamage(t *testing.T) {
	good := string(encode(t, midRun(t)))
	if err := json.Unmarshal([]byte(good), new(staged.Run)); err != nil {
		t.Fatal(err)
	}
	run, result := step(t, midRun(t), staged.Input{}, benchStart.Add(6*time.Minute))
	_, result = step(t, run, staged.Input{}, result.Next) // a target is stuck, which is not stored; then a soak ends
	due := result.Next.Format(time.RFC3339Nano)
	first := benchStart.Add(30 * time.Second) // somebody was started
	oldest := time.Unix(0, 0).UTC()           // the first instant that there is
	early := strings.Replace(good, `"time":"2026-03-10T08:06:00Z"`, `"time":"`+result.Next.Add(-1).Format(time.RFC3339Nano)+`"`, 1)
	for why, text := range map[string]string{
		"just before something is due":   early,
		"the last attempt there is":      strings.Replace(good, `"attempts":[0,2]`, `"attempts":[0,2147483647]`, 1),
		"the first member is the failed": strings.NewReplacer(`"states":"dfd"`, `"states":"f2d"`, `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[0]}`).Replace(good),
		"a target was started at the first instant there is": strings.NewReplacer(`"begun":"2026-03-10T08:00:30Z"`, `"begun":"`+oldest.Format(time.RFC3339Nano)+`"`,
			`"start":"2026-03-10T08:00:30Z"`, `"start":"`+oldest.Format(time.RFC3339Nano)+`"`,
			`"from":"2026-03-10T08:00:30Z"`, `"from":"`+oldest.Format(time.RFC3339Nano)+`"`).Replace(good),
		"all of them, the later ones counted from the last": strings.NewReplacer(`"begun":"2026-03-10T08:00:30Z"`, `"begun":"`+oldest.Format(time.RFC3339Nano)+`"`, `"start":"2026-03-10T08:00:30Z"`, `"start":"`+oldest.Format(time.RFC3339Nano)+`"`,
			`"starts":[0,0,30000000000],"ends":[30000000000,60000000000,60000000000]`, fmt.Sprintf(`"starts":[0,0,%d],"ends":[30000000000,60000000000,%[2]d]`, oldest.Sub(first), benchStart.Add(2*time.Minute).Sub(oldest))).Replace(good),
	} {
		if err := json.Unmarshal([]byte(text), new(staged.Run)); err != nil || text == good {
			t.Errorf("%s: %v", why, err)
		}
	}
	seen, said := map[string]bool{}, ""
	for _, c := range []struct{ why, from, to string }{
		{"another format", `"format":2`, `"format":1`},
		{"no format", `"format":2,`, ``},
		{"an unknown field", `"format":2`, `"format":2,"extra":1`},
		{"no id", `"id":"run"`, `"id":""`},
		{"no version", `"version":"v2"`, `"version":""`},
		{"another strategy than the hash says", `"maxFailures":1`, `"maxFailures":2`},
		{"a broken strategy", `"name":"first"`, `"name":"First"`},
		{"no strategy", `"strategy":{"stages":`, `"strategy":{"stage":`},
		{"a broken spec", `"placementName":"p"`, `"placementName":""`},
		{"broken options", `"lateLeaving":"clean"`, `"lateLeaving":"dirty"`},
		{"an unknown desired state", `"state":"Run","phase"`, `"state":"Go","phase"`},
		{"an unknown phase", `"phase":"Progressing"`, `"phase":"Thinking"`},
		{"a phase that does not follow", `"phase":"Progressing"`, `"phase":"Waiting"`},
		{"Succeeded with an open stage", `"phase":"Progressing"`, `"phase":"Succeeded"`},
		{"Initialized in the middle", `"phase":"Progressing"`, `"phase":"Initialized"`},
		{"Held within the budget", `"phase":"Progressing"`, `"phase":"Held"`},
		{"Stopped without a Stop", `"phase":"Progressing"`, `"phase":"Stopped","since":"2026-03-10T08:00:00Z"`},
		{"Failing without since", `"phase":"Progressing"`, `"phase":"Failing"`},
		{"since without need", `"phase":"Progressing"`, `"phase":"Progressing","since":"2026-03-10T08:00:00Z"`},
		{"since in the future", `"phase":"Progressing"`, `"phase":"Failing","since":"2027-03-10T08:00:00Z"`},
		{"no time, but begun", `"time":"2026-03-10T08:06:00Z",`, ``},
		{"a time that no int64 holds", `"time":"2026-03-10T08:06:00Z"`, `"time":"9999-03-10T08:06:00Z"`},
		{"a time before what happened", `"time":"2026-03-10T08:06:00Z"`, `"time":"2026-03-10T08:02:00Z"`},
		{"a stage behind the end", `"current":1`, `"current":4`},
		{"a stage before the first", `"current":1`, `"current":-1`},
		{"an open stage before the current one", `"current":1`, `"current":2`},
		{"a finished stage as the current one", `"current":1`, `"current":0`},
		{"a stage is missing", `,{"phase":"Pending","members":3,"states":"3w","names":["d1","d2","b4"]}`, ``},
		{"a finished stage behind an open one", `{"phase":"Pending","members":3`, `{"phase":"Skipped","members":3`},
		{"an unknown stage phase", `{"phase":"Updating"`, `{"phase":"Dreaming"`},
		{"a settled phase with open members", `{"phase":"Updating"`, `{"phase":"WaitingAfter"`},
		{"a phase before what has started", `{"phase":"Updating","before":"approved"`, `{"phase":"WaitingBefore","before":"approved"`},
		{"a start without the approval", `{"phase":"Updating","before":"approved"`, `{"phase":"Updating","before":"requested"`},
		{"an approval that the stage does not have", `{"phase":"Updating","before":"approved"`, `{"phase":"Updating","before":"approved","after":"requested"`},
		{"an unknown approval", `"before":"approved"`, `"before":"perhaps"`},
		{"closed without its approval", `"after":"approved"`, `"after":"requested"`},
		{"closed before its wait was over", `"elapsed":true,`, ``},
		{"closed without a start of the wait", `"settled":"2026-03-10T08:02:00Z","elapsed":true,`, ``},
		{"negative pause", `"elapsed":true`, `"paused":-1,"elapsed":true`},
		{"a wait that was over before its time", `"settled":"2026-03-10T08:02:00Z"`, `"settled":"2026-03-10T08:02:00.000000001Z"`},
		{"a pause although stopped time counts", `"elapsed":true`, `"paused":1,"elapsed":true`},
		{"a wait that starts in the future", `"settled":"2026-03-10T08:02:00Z"`, `"settled":"2026-03-11T08:02:00Z"`},
		{"settled while members wait", `{"phase":"Updating","before":"approved"`, `{"phase":"Updating","before":"approved","settled":"2026-03-10T08:02:00Z"`},
		{"a stage that was closed and never began", `"start":"2026-03-10T08:00:30Z",`, ``},
		{"a stage that updates and never began", `"start":"2026-03-10T08:03:30Z",`, ``},
		{"a stage that begins in the future", `"start":"2026-03-10T08:03:30Z"`, `"start":"2026-03-10T08:06:01Z"`},
		{"a stage that begins behind its first member", `"start":"2026-03-10T08:03:30Z"`, `"start":"2026-03-10T08:03:31Z"`},
		{"a stage that begins before the one before is closed", `"start":"2026-03-10T08:03:30Z"`, `"start":"2026-03-10T08:02:59Z"`},
		{"a stage that begins before its turn", `{"phase":"Pending","members":3`, `{"phase":"Pending","start":"2026-03-10T08:03:30Z","members":3`},
		{"a closed stage without end", `"end":"2026-03-10T08:03:00Z",`, ``},
		{"a stage that ends before it begins", `"start":"2026-03-10T08:00:30Z","end":"2026-03-10T08:03:00Z"`, `"start":"2026-03-10T08:00:30Z","end":"2026-03-10T08:00:29Z"`},
		{"a stage that ends in the future", `"end":"2026-03-10T08:03:00Z"`, `"end":"2027-03-10T08:03:00Z"`},
		{"an open stage with an end", `"start":"2026-03-10T08:03:30Z"`, `"start":"2026-03-10T08:03:30Z","end":"2026-03-10T08:05:00Z"`},
		{"a wrong count", `"members":5`, `"members":4`},
		{"fewer states than names", `"states":"dfd"`, `"states":"df"`},
		{"more states than names", `"states":"dfd"`, `"states":"dfdf"`},
		{"an unknown state", `"states":"dfd"`, `"states":"dfz"`},
		{"in progress in a closed stage", `"states":"dfd"`, `"states":"dfs"`},
		{"in progress, never started", `"states":"dfd"`, `"states":"dfS"`},
		{"in progress above the limit", `"states":"wosRD","from":"2026-03-10T08:03:30Z","names":["b1","b2","b3","b4","b5"],"starts":[0,30000000000]`,
			`"states":"sosRD","from":"2026-03-10T08:03:30Z","names":["b1","b2","b3","b4","b5"],"starts":[0,0,30000000000]`},
		{"a count of one", `"states":"dfd"`, `"states":"1dfd"`},
		{"a count with leading zero", `"states":"3w"`, `"states":"03w"`},
		{"a huge count", `"states":"3w"`, `"states":"99999999999999999999w"`},
		{"a count at the end", `"states":"3w"`, `"states":"3w2"`},
		{"equal states apart", `"states":"3w"`, `"states":"2ww"`},
		{"a start is missing", `"starts":[0,0,30000000000]`, `"starts":[0,0]`},
		{"a start too many", `"starts":[0,0,30000000000]`, `"starts":[0,0,30000000000,5]`},
		{"a start in the future", `"starts":[0,0,30000000000]`, `"starts":[0,0,300000000000000000]`},
		{"a start that overflows", `"starts":[0,0,30000000000]`, `"starts":[0,0,9223372036854775807]`},
		{"a start so long ago that its distance is no number", `"starts":[0,0,30000000000]`, `"starts":[0,0,-9223372036854775808]`},
		{"a start that gets there in steps", `"starts":[0,0,30000000000]`, `"starts":[0,-4600000000000000000,-4600000000000000000]`},
		{"a first start that is not the first time", `"starts":[0,0,30000000000]`, `"starts":[1,0,30000000000]`},
		{"no first time", `"from":"2026-03-10T08:00:30Z",`, ``},
		{"a first time without need", `"states":"3w"`, `"states":"3w","from":"2026-03-10T08:00:30Z"`},
		{"an end before its start", `"ends":[30000000000,60000000000,60000000000]`, `"ends":[-30000000000,60000000000,60000000000]`},
		{"a start and an end too many", `"starts":[0,0,30000000000],"ends":[30000000000,60000000000,60000000000]`, `"starts":[0,0,30000000000,5],"ends":[30000000000,60000000000,60000000000,5]`},
		{"an end is missing", `"ends":[30000000000,60000000000,60000000000]`, `"ends":[30000000000,60000000000]`},
		{"null for an end", `"ends":[30000000000,60000000000,60000000000]`, `"ends":[30000000000,null,60000000000]`},
		{"an end that is no number", `"ends":[30000000000,60000000000,60000000000]`, `"ends":["x",60000000000,60000000000]`},
		{"columns that are none", `"starts":[0,0,30000000000]`, `"starts":{}`},
		{"an attempt of 1", `"attempts":[0,2]`, `"attempts":[0,1]`},
		{"an attempt twice", `"attempts":[0,2]`, `"attempts":[0,2,0,3]`},
		{"half an attempt", `"attempts":[0,2]`, `"attempts":[0]`},
		{"an attempt of nobody", `"attempts":[0,2]`, `"attempts":[9,2]`},
		{"an attempt of the one behind the last", `"attempts":[0,2]`, `"attempts":[5,2]`},
		{"an attempt that no number holds", `"attempts":[0,2]`, `"attempts":[0,2147483648]`},
		{"a cause of the one behind the last", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[3]}`},
		{"a cause before the first", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[-1]}`},
		{"a cause of nobody", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[9]}`},
		{"an unknown cause", `"causes":{"reported_failed":[1]}`, `"causes":{"bad_luck":[1]}`},
		{"a cause of one that is done", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[0,1]}`},
		{"a failure without cause", `"causes":{"reported_failed":[1]},`, ``},
		{"a cause twice", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[1,1]}`},
		{"an empty name", `"names":["a1"`, `"names":[""`},
		{"a name twice in a stage", `"names":["a1","a2"`, `"names":["a2","a2"`},
		{"a name in two stages", `"names":["a1"`, `"names":["b1"`},
		{"in a stage and in the cleanup, which nobody can join", `"lateLeaving":"clean"`, `"lateLeaving":"ignore"`},
		{"in a stage, unsettled, and in the cleanup", `"names":["d1","d2","b4"]`, `"names":["d1","d2","b3"]`},
		{"names that are none", `"names":["a1","a2","a3"]`, `"names":"a1"`},
		{"null for a name", `"names":["a1","a2","a3"]`, `"names":["a1",null,"a3"]`},
		{"numbers for names, so that no quote follows", `"names":["a1","a2","a3"]`, `"names":[1,2,3]`},
		{"a removal that soaks", `"members":3,"states":"3w"`, `"members":3,"states":"2wc"`},
		{"a first removal that soaks", `"members":3,"states":"3w"`, `"members":3,"states":"c2w"`},
		{"something due at the very time", `"time":"2026-03-10T08:06:00Z"`, `"time":"` + due + `"`},
		{"no spec", `"spec":{"placementName":"p","stagedRolloutStrategyName":"s","state":"Run"},`, ``},
		{"null for a strategy", `"spec":{"placementName":"p","stagedRolloutStrategyName":"s","state":"Run"}`, `"spec":null`},
		{"no options", `"options":{"lateLeaving":"clean"},`, ``},
		{"everything that is configured at once", `"id":"run","name":"run"`, `"id":"","name":"Run"`},
		{"a since that no int64 holds", `"phase":"Progressing"`, `"phase":"Failing","since":"9999-03-10T08:06:00Z"`},
		{"twice in the cleanup, having left its stage", `"names":["d1","d2","b4"]`, `"names":["d1","b4","b4"]`},
		{"twice in the cleanup, and gone once", `"states":"3w","names":["d1","d2","b4"]`, `"states":"D2w","from":"2026-03-10T08:06:00Z","names":["d1","d1","b4"],"ends":[0]`},
		{"a start and a first end that are no lists of numbers", `"starts":[0,0,30000000000],"ends":[30000000000,60000000000,60000000000]`, `"starts":["x"],"ends":["x"]`},
		{"a count that is 3 beyond 2⁶⁴", `"states":"3w"`, `"states":"18446744073709551619w"`},
		{"a start that is 0 beyond 2⁶⁴", `"starts":[0,0,30000000000]`, `"starts":[0,18446744073709551616,30000000000]`},
		{"a first time before 1970", `"from":"2026-03-10T08:00:30Z"`, `"from":"` + oldest.Add(-1).Format(time.RFC3339Nano) + `"`},
		{"a first time in the future", `"from":"2026-03-10T08:00:30Z"`, `"from":"2026-03-10T08:06:00.000000001Z"`},
		{"a start a nanosecond before 1970", `"starts":[0,0,30000000000]`, fmt.Sprintf(`"starts":[0,0,%d]`, oldest.Sub(first)-1)},
		{"a start a nanosecond in the future", `"starts":[0,0,30000000000]`, fmt.Sprintf(`"starts":[0,0,%d]`, 5*time.Minute+30*time.Second+1)},
		{"an attempt of the one before the first", `"attempts":[0,2]`, `"attempts":[-1,2]`},
		{"a cause without a name", `"causes":{"reported_failed":[1]}`, `"causes":{"":[1]}`},
		{"a cause of nothing", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[1],"gone":[]}`},
		{"unknown causes, of which the first is named", `"causes":{"reported_failed":[1]}`, `"causes":{"e":[1],"d":[1],"c":[1],"b":[1],"f":[1]}`},
		{"two causes of one", `"causes":{"reported_failed":[1]}`, `"causes":{"reported_failed":[1],"gone":[1]}`},
		{"a state that is no letter", `"states":"dfd"`, `"states":"Df\u0004"`},
		{"an attempt that is no number", `"attempts":[0,2]`, `"attempts":["x"]`},
		{"a start and an attempt that are no numbers", `"starts":[0,30000000000],"ends":[90000000000,120000000000,150000000000],"attempts":[0,2]`, `"starts":["x"],"ends":[90000000000,120000000000,150000000000],"attempts":["x"]`},
		{"a start in the future, from which no other is counted", `"starts":[0,0,30000000000]`, `"starts":[0,300000000000000000,-1]`},
		{"a start before 1970, from which no other is counted", `"starts":[0,0,30000000000]`, `"starts":[0,-4600000000000000000,9223372036854775807]`},
		{"two failures without a cause, of which the first is named", `"states":"dfd"`, `"states":"3f"`},
		{"an end before its start, and an attempt that is no number", `"ends":[90000000000,120000000000,150000000000],"attempts":[0,2]`, `"ends":[-1,120000000000,150000000000],"attempts":["x"]`},
		{"cut off", `]}]}`, `]}]`},
	} {
		if seen[c.why] || strings.Count(good, c.from) == 0 {
			t.Errorf("%s: given twice, or %s is not in\n%s", c.why, c.from, good)
			continue
		}
		seen[c.why] = true
		var run staged.Run
		err := json.Unmarshal([]byte(strings.Replace(good, c.from, c.to, 1)), &run)
		if err == nil || run.Phase() != "" {
			t.Fatalf("%s: accepted:\n%s", c.why, &run)
		}
		said += refusal(c.why, err)
	}
	golden.Check(t, "damage.txt", said)
	if err := json.Unmarshal([]byte("null"), new(staged.Run)); err != nil {
		t.Errorf("null is absent: %v", err)
	}
}

// TestDamageThatSetsARunGoing: a stored run that would go on by itself at the time of its last step
// is not what that step left. So nobody approves by editing it.
func TestDamageThatSetsARunGoing(t *testing.T) {
	gated := all("st", 2)
	gated.BeforeStageTasks, gated.AfterStageTasks = []staged.Task{{Type: staged.Approval}}, []staged.Task{{Type: staged.Approval}}
	gated.MaxConcurrency = concurrency.Count(1)
	asked := newScene(t, staged.Strategy{Stages: []staged.Stage{gated}}, staged.Options{}, []string{"c1", "c2"})
	before := asked.run
	updating := asked.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Side: staged.Before}}}).run
	after := asked.see(staged.HealthReady, "c1").see(staged.HealthReady, "c2").want(staged.PhaseWaiting, "c1 done, c2 done").run
	blocking := newScene(t, waiting(time.Minute, all("st", 1)), staged.Options{VerifyDone: staged.Always}, []string{"c1"}).see(staged.HealthReady, "c1").see(staged.HealthFailing, "c1").
		after(time.Minute).step(staged.Input{}).want(staged.PhaseWaiting, "c1 done regressed (unhealthy)").run
	cleaning := newScene(t, staged.Strategy{Stages: []staged.Stage{all("st", 1)}}, staged.Options{Cleanup: staged.Cleanup{MaxConcurrency: concurrency.Count(1)}}, []string{"c1"}, "d1", "d2").see(staged.HealthReady, "c1").run
	for _, c := range []struct {
		why      string
		run      *staged.Run
		from, to string
	}{
		{"the approval before a stage is given", before, `"before":"requested"`, `"before":"approved"`},
		{"the approval after a stage is given", after, `"after":"requested"`, `"after":"approved"`},
		{"nobody is regressed any more", blocking, `"states":"g","from":"2026-03-10T08:00:00Z","causes":{"unhealthy":[0]}`, `"states":"d","from":"2026-03-10T08:00:00Z"`},
		{"a slot is free", updating, `"states":"sw","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"starts":[0]`, `"states":"2w","names":["c1","c2"]`},
		{"there are more slots", cleaning, `"cleanup":{"maxConcurrency":1}`, `"cleanup":{}`},
		{"a member needs no start", updating, `"states":"sw"`, `"states":"sc"`},
		{"all members are settled", updating, `"states":"sw","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"starts":[0]`, `"settled":"2026-03-10T08:00:00Z","states":"2X","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"ends":[0,0]`},
	} {
		text := string(encode(t, c.run))
		if strings.Count(text, c.from) != 1 {
			t.Errorf("%s: %s is not in\n%s", c.why, c.from, text)
			continue
		}
		var run staged.Run
		err := json.Unmarshal([]byte(strings.Replace(text, c.from, c.to, 1)), &run)
		if fault := (*staged.FieldError)(nil); !errors.As(err, &fault) || fault.Code != staged.CodeFormat || fault.Path != "phase" || len(rules(err)) != 1 {
			t.Errorf("%s: %v\n%s", c.why, err, &run)
		}
	}
}

// TestDamageOfEnds: a member was settled neither before the run began nor after its stage was, and
// the wait after a stage counts from no instant before that: else an edit would make it shorter.
func TestDamageOfEnds(t *testing.T) {
	s := newScene(t, waiting(time.Hour, all("st", 2)), staged.Options{}, []string{"c1", "c2"}).after(10*time.Minute).see(staged.HealthReady, "c1").
		after(10*time.Minute).see(staged.HealthReady, "c2").want(staged.PhaseWaiting, "c1 done, c2 done")
	waits := s.run
	closed := s.after(time.Hour).step(staged.Input{}).want(staged.PhaseSucceeded, "c1 done, c2 done").run
	gone := newScene(t, waiting(time.Hour, all("st", 1)), staged.Options{}, []string{"c1", "c2"}).after(time.Minute).step(staged.Input{Removed: []string{"c2"}}).run
	two := staged.Strategy{Stages: []staged.Stage{{Name: "a", Targets: []string{"c1"}}, {Name: "b", Targets: []string{"c2"}}}}
	skipped, err := staged.Compile(two, benchSpec(), fleetOf("c1", "c2"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	skipped, _ = step(t, skipped, staged.Input{Removed: []string{"c1"}}, benchStart)
	// What fails or is skipped later, is so after the stage was settled.
	late := newScene(t, waiting(time.Hour, all("st", 2)), staged.Options{VerifyDone: staged.Always}, []string{"c1", "c2"}).see(staged.HealthReady, "c1", "c2").after(time.Minute).
		see(staged.HealthFailing, "c1").after(time.Minute).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}).want(staged.PhaseWaiting, "c1 skipped, c2 done").run
	if err := json.Unmarshal(encode(t, late), new(staged.Run)); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		why   string
		run   *staged.Run
		edits []string // what is there, and what comes instead
		path  string
	}{
		{"a wait from before the last end", waits, []string{`"settled":"2026-03-10T08:20:00Z"`, `"settled":"2026-03-10T08:19:59.999999999Z"`}, "stages[0].settled"},
		{"a wait that was over too early", closed, []string{`"settled":"2026-03-10T08:20:00Z"`, `"settled":"2026-03-10T08:19:59.999999999Z"`}, "stages[0].settled"},
		{"done after the stage was closed, of a run that went on for longer", closed,
			[]string{`"time":"2026-03-10T09:20:00Z"`, `"time":"2026-03-10T09:40:00Z"`, `"ends":[600000000000,1200000000000]`, `"ends":[600000000000,4800000000001]`}, "stages[0].settled"},
		{"gone after the stage was skipped, of a run that went on for longer", skipped, []string{`"time":"2026-03-10T08:00:00Z"`, `"time":"2026-03-10T08:04:00Z"`,
			`"from":"2026-03-10T08:00:00Z","names":["c1"]`, `"from":"2026-03-10T08:00:00.000000001Z","names":["c1"]`}, "stages[0].end"},
		{"gone before the run began", gone, []string{`"ends":[60000000000]`, `"ends":[-1]`}, "begun"},
	} {
		text := string(encode(t, c.run))
		for i := 0; i < len(c.edits); i += 2 {
			if strings.Count(text, c.edits[i]) != 1 {
				t.Errorf("%s: %s is not in\n%s", c.why, c.edits[i], text)
			}
			text = strings.Replace(text, c.edits[i], c.edits[i+1], 1)
		}
		var run staged.Run
		err := json.Unmarshal([]byte(text), &run)
		if fault := (*staged.FieldError)(nil); !errors.As(err, &fault) || fault.Code != staged.CodeFormat || fault.Path != c.path || len(rules(err)) != 1 {
			t.Errorf("%s: %v\n%s", c.why, err, &run)
		}
	}
}

// TestI11RandomDamage: what is changed anywhere behind the configuration is either refused or a run
// like any other: it steps on, its counters equal a recount, and it survives JSON.
func TestI11RandomDamage(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		m := drive(t, func(*moment) {})
		data := encode(t, m.run)
		from := bytes.Index(data, []byte(`"state":"`+string(m.run.State())+`","phase"`))
		if from < 0 {
			t.Fatal("the state is not in the stored form")
		}
		for range rapid.IntRange(1, 3).Draw(t, "edits") {
			i := rapid.IntRange(from, len(data)-1).Draw(t, "at")
			switch c := data[i]; {
			case c >= '0' && c <= '9':
				data[i] = byte(rapid.IntRange('0', '9').Draw(t, "digit"))
			case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
				data[i] = "wcsuodgftxrDGFXR"[rapid.IntRange(0, 15).Draw(t, "letter")]
			case rapid.Bool().Draw(t, "cut"):
				data = append(data[:i], data[i+1:]...)
			}
		}
		var run staged.Run
		if err := json.Unmarshal(data, &run); err != nil {
			seen["refused"]++
			return
		}
		if !bytes.Equal(data, encode(t, m.run)) {
			seen["accepted"]++
		}
		for s := range run.Stages() {
			counts := map[staged.TargetState]int{}
			for target := range run.Targets(s.Index) {
				counts[target.State]++
			}
			if c := s.Counts; c.Waiting != counts[staged.Waiting] || c.Done != counts[staged.Done] || c.Failed != counts[staged.Failed] || c.Starting+c.Updating+c.Soaking > s.Limit {
				t.Fatalf("%+v\n%s", c, data)
			}
		}
		next, result, err := staged.Step(&run, staged.Input{}, m.run.Time())
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if run.Time().Equal(m.run.Time()) && result.Changed && !run.Begun().IsZero() { // by I4 no step left it like this
			t.Fatalf("goes on by itself: %s\n%s\n%s\n%s", result, data, &run, next)
		}
		var again staged.Run
		if err := json.Unmarshal(encode(t, next), &again); err != nil {
			t.Fatalf("%v\n%s\n%s", err, data, next)
		}
	}, "refused", "accepted")
}

// TestSize: under 60 bytes per target with names of 16 characters and both times recorded, all
// different.
func TestSize(t *testing.T) {
	const n = 2000
	data := encode(t, finishedRun(t, n))
	if perTarget := float64(len(data)) / n; perTarget >= 60 {
		t.Errorf("%.1f bytes per target", perTarget)
	}
	var run staged.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	times := 0
	for s := range run.Stages() {
		for target := range run.Targets(s.Index) {
			if len(target.Name) == 16 && !target.Start.IsZero() && !target.End.IsZero() {
				times++
			}
		}
	}
	if times != n {
		t.Errorf("%d of %d targets have both times", times, n)
	}
}

// FuzzRunJSON: whatever is decoded without error is a run that steps on and survives JSON; nothing
// panics.
func FuzzRunJSON(f *testing.F) {
	f.Add(encode(f, midRun(f)))
	f.Add(encode(f, compileBench(f, 20, concurrency.Count(3))))
	suspended, _ := step(f, midRun(f), suspend("b3", "d1", "b4"), benchStart.Add(6*time.Minute))
	f.Add(encode(f, suspended))
	f.Add(encode(f, groupedRun(f)))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var run staged.Run
		if json.Unmarshal(data, &run) != nil || run.Phase() == "" {
			return
		}
		stored := encode(t, &run)
		var again staged.Run
		if err := json.Unmarshal(stored, &again); err != nil {
			t.Fatalf("%v\n%s", err, stored)
		}
		if !bytes.Equal(stored, encode(t, &again)) {
			t.Fatalf("%s\n%s", stored, encode(t, &again))
		}
		next, _, err := staged.Step(&run, staged.Input{}, benchStart)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(encode(t, next), &again); err != nil {
			t.Fatalf("%v\n%s", err, next)
		}
	})
}

// FuzzStrategyJSON: what decodes and validates survives JSON and compiles, or says why not; nothing
// panics.
func FuzzStrategyJSON(f *testing.F) {
	f.Add([]byte(`{"kind": "StagedUpdateStrategy", "metadata": {"name": "s"}, "spec": {"stages": [{"name": "a", "labelSelector": {}, "maxConcurrency": "50%", "maxFailures": "05%",
		"sortingLabelKey": "x", "beforeStageTasks": [{"type": "Approval"}], "afterStageTasks": [{"type": "TimedWait", "waitTime": "1.5h"}]}], "minSuccessTime": 0, "progressDeadline": "None"}}`))
	f.Add([]byte(`{"stages": [{"name": "a", "targets": ["c1"]}, {"name": "a"}]}`))
	f.Add([]byte(`{"stages": [{"name": "a", "labelSelector": {}, "maxConcurrency": "50%", "groupBy": "x", "maxConcurrencyPerGroup": 1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var strategy staged.Strategy
		if json.Unmarshal(data, &strategy) != nil || strategy.Validate() != nil {
			return
		}
		text, err := json.Marshal(strategy)
		if err != nil {
			t.Fatal(err)
		}
		var again staged.Strategy
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if other, err := json.Marshal(again); err != nil || !bytes.Equal(text, other) {
			t.Fatalf("%v\n%s\n%s", err, text, other)
		}
		run, err := staged.Compile(strategy, benchSpec(), staged.Fleet{Version: "1", Targets: []staged.Target{{Name: "c1", Labels: map[string]string{"x": "1"}}}, Leaving: []string{"d"}}, staged.Options{})
		if err == nil {
			step(t, run, staged.Input{}, benchStart)
		}
	})
}

// FuzzParseDuration: what is parsed is printed so that it is parsed to the same.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"1h30m", "1.5h", "0", "None", "0.000000001s", "2562047h47m16.854775807s", "1h1h", "9999999999999999999h", "0.1234567890123456789012345m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := staged.ParseDuration(text)
		if err != nil {
			return
		}
		again, err := staged.ParseDuration(d.String())
		if err != nil || again != d {
			t.Fatalf("%q is %v, which is %v, %v", text, d, again, err)
		}
	})
}

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		text string
		want time.Duration
		out  string
	}{
		{"1h30m", 90 * time.Minute, "1h30m"}, {"1.5h", 90 * time.Minute, "1h30m"}, {"90m", 90 * time.Minute, "1h30m"}, {"0", 0, "0"}, {"0s", 0, "0"}, {"1.1h", 66 * time.Minute, "1h6m"},
		{"61s", 61 * time.Second, "1m1s"}, {"9223372036.854775807s", 1<<63 - 1, "2562047h47m16.854775807s"},
		{"0.1s", 100 * time.Millisecond, "0.1s"}, {"1m1m", 2 * time.Minute, "2m"}, {"61.000000001s", time.Minute + time.Second + 1, "1m1.000000001s"},
		{"2562047h47m16.854775807s", 1<<63 - 1, "2562047h47m16.854775807s"}, {"0.0000000009s", 0, "0"}, {"0.3333333333333333333333333h", 20*time.Minute - 1, "19m59.999999999s"},
	} {
		d, err := staged.ParseDuration(c.text)
		if got, given := d.Value(); err != nil || !given || got != c.want || d.String() != c.out {
			t.Errorf("%s: %v %v %s, want %v %s", c.text, got, err, d, c.want, c.out)
		}
	}
	for _, text := range []string{"", "1", "h", "1d", "01h", "-1h", "+1h", "1.h", ".5h", "1 h", "1h ", "none", "2562047h47m16.854775808s", "2562048h", "99999999999999999999s",
		"5124096h" /* 2⁶⁴ ns, and 25 minutes */, "18446744073.9s" /* the fraction reaches 2⁶⁴ */} {
		if d, err := staged.ParseDuration(text); err == nil || !d.IsZero() {
			t.Errorf("%q is %v", text, d)
		}
	}
	for text, hint := range map[string]string{
		"none": "None", "NONE": "None", "2562048h": "None", // no limit is meant
		"10": "30m", "1d": "30m", "": "30m", ".5h": "30m", "h": "30m", // it is not too long
	} {
		_, err := staged.ParseDuration(text)
		if fault := new(staged.FieldError); !errors.As(err, &fault) || !strings.Contains(fault.Hint, hint) {
			t.Errorf("%q: %v, want a hint with %s", text, err, hint)
		}
	}
	for _, d := range []staged.Duration{{}, staged.None(), staged.For(0), staged.For(time.Hour)} {
		text, err := json.Marshal(d)
		var again staged.Duration
		if err2 := json.Unmarshal(text, &again); err != nil || err2 != nil || again != d {
			t.Errorf("%s: %v %v %v", text, again, err, err2)
		}
	}
	if _, err := json.Marshal(staged.For(-1)); err == nil || !strings.Contains(err.Error(), "-1ns: must not be negative") {
		t.Errorf("a negative duration has no text form: %v", err)
	}
	if d := staged.None(); json.Unmarshal([]byte("0"), &d) != nil || d != staged.For(0) {
		t.Errorf("a bare 0 is %v, want no time, which is not unset", d)
	}
	var d staged.Duration
	for _, text := range []string{`5`, `"x"`, `true`, `{}`} {
		if err := json.Unmarshal([]byte(text), &d); err == nil || !d.IsZero() {
			t.Errorf("%s is %v", text, d)
		}
	}
}

// TestDamageAtTheEnds is TestDamage for a run that has not begun and for one that is over.
func TestDamageAtTheEnds(t *testing.T) {
	fresh, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over := fresh
	for range 3 {
		over, _ = step(t, over, staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady}, {Target: "c2", Version: "v2", Health: staged.HealthReady}}}, benchStart)
	}
	gated := all("only", 1)
	gated.BeforeStageTasks, gated.AfterStageTasks = []staged.Task{{Type: staged.Approval}}, []staged.Task{{Type: staged.Approval}}
	refused, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{gated}}, benchSpec(), fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []staged.Input{{}, {Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Stage: 0, Side: staged.Before}}}} {
		refused, _ = step(t, refused, in, benchStart)
	}
	waits := newScene(t, waiting(time.Hour, all("only", 1)), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}).see(staged.HealthReady, "c1").after(59 * time.Minute).step(staged.Input{State: staged.StateStop}).run
	asks := all("only", 1)
	asks.AfterStageTasks = []staged.Task{{Type: staged.Approval}}
	// A stop adds nothing to a wait that there is not.
	asked := newScene(t, staged.Strategy{Stages: []staged.Stage{asks}}, staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}).see(staged.HealthReady, "c1").
		step(staged.Input{State: staged.StateStop}).after(time.Minute).step(staged.Input{State: staged.StateRun}).run
	unasked := newScene(t, staged.Strategy{Stages: []staged.Stage{asks}}, staged.Options{}, []string{"c1"}).step(staged.Input{State: staged.StateStop}).run
	held := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{OnFailure: staged.Hold}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1").run
	passed := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1", "c2"}).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}}).see(staged.HealthReady, "c1").run
	var three staged.Strategy // the first is skipped, the second is under way, and the third waits for its turn
	for k, name := range []string{"c1", "c2", "c3"} {
		three.Stages = append(three.Stages, staged.Stage{Name: fmt.Sprint("s", k), Targets: []string{name}, BeforeStageTasks: gated.BeforeStageTasks, AfterStageTasks: gated.AfterStageTasks})
	}
	before, err := staged.Compile(three, benchSpec(), fleetOf("c1", "c2", "c3"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before, _ = step(t, before, staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c1"}}}, benchStart)
	behind := before
	for _, in := range []staged.Input{{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before}}}, {Observations: []staged.Observation{{Target: "c2", Version: "v2", Health: staged.HealthReady}}}} {
		behind, _ = step(t, behind, in, benchStart)
	}
	// One stage of which nobody was started: the first was ready before, the second is skipped.
	idle, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{asks}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	idle, _ = step(t, idle, staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}, Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthReady}}}, benchStart)
	updates := newScene(t, waiting(time.Hour, all("only", 1)), staged.Options{WaitDuringStop: staged.Freeze}, []string{"c1"}).run
	// The second stage is skipped a minute after the first began, and the third is under way.
	plain := staged.Strategy{Stages: slices.Clone(three.Stages)}
	for k := range plain.Stages {
		plain.Stages[k].BeforeStageTasks, plain.Stages[k].AfterStageTasks = nil, nil
	}
	passing := newScene(t, plain, staged.Options{}, []string{"c1", "c2", "c3"}).step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandSkip, Target: "c2"}}}).after(time.Minute).see(staged.HealthReady, "c1").run
	// The cleanup was approved, and is over.
	cleaning := staged.Strategy{Stages: []staged.Stage{all("only", 1)}, DeleteStage: staged.DeleteStage{BeforeStageTasks: gated.BeforeStageTasks}}
	clean := newScene(t, cleaning, staged.Options{}, []string{"c1"}, "d1").see(staged.HealthReady, "c1")
	asking := clean.run // before it was
	clean.step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandApprove, Run: "run", Stage: 1, Side: staged.Before}}})
	removing := clean.run
	// Two failures; told to prepare, and nothing else; refused, and held for it.
	twice := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}, MaxFailures: concurrency.Count(2)}, staged.Options{}, []string{"c1", "c2", "c3"}).see(staged.HealthFailed, "c1", "c2").run
	spec := benchSpec()
	spec.State = staged.StateInitialize
	prepared, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, spec, fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	prepared, _ = step(t, prepared, staged.Input{}, benchStart)
	waved := newScene(t, staged.Strategy{Stages: []staged.Stage{gated}}, staged.Options{OnReject: staged.Hold}, []string{"c1"}).
		step(staged.Input{Commands: []staged.Command{{Kind: staged.CommandReject, Run: "run", Side: staged.Before}}}).run
	cleaned := clean.step(staged.Input{Removed: []string{"d1"}}).run
	// Nobody is asked about a removal that is not needed.
	needless := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}, DeleteStage: staged.DeleteStage{BeforeStageTasks: gated.BeforeStageTasks}}, staged.Options{}, []string{"c1"}, "d1").
		step(staged.Input{Removed: []string{"d1"}}).see(staged.HealthReady, "c1").run
	// Ann ended the wait ten minutes after the last member was settled, at 08:10, and an approval
	// is still open.
	both := all("only", 1)
	both.AfterStageTasks = []staged.Task{{Type: staged.Approval}, {Type: staged.TimedWait, WaitTime: staged.For(time.Hour)}}
	cut := newScene(t, staged.Strategy{Stages: []staged.Stage{both}}, staged.Options{}, []string{"c1"}).see(staged.HealthReady, "c1").after(10 * time.Minute).step(endWait("ann")).run
	const cutAt, cutBy = `"waitEnded":"2026-03-10T08:10:00Z",`, `"waitEndedBy":{"by":"ann","at":"2026-03-10T08:10:00Z","reason":"urgent"},`
	// One target of two is updating: told to stop or to cancel, with a grace of a minute.
	moving := func(in staged.Input) *scene {
		return newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{StopGrace: staged.For(time.Minute)}, []string{"c1", "c2"}).after(time.Minute).step(in)
	}
	cancelling := moving(staged.Input{Commands: []staged.Command{{Kind: staged.CommandCancel}}}).run
	stops := moving(staged.Input{State: staged.StateStop})
	stopping := stops.run
	stopped := stops.after(30*time.Second).see(staged.HealthReady, "c1").run
	fails := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}}, staged.Options{}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1").run
	said := ""
	for _, c := range []struct {
		why      string
		run      *staged.Run
		from, to string
	}{
		{"Stopped within the grace while a target is in progress", stopping, `"phase":"Stopping"`, `"phase":"Stopped"`},
		{"Stopping when the grace has passed", stopping, `"time":"2026-03-10T08:01:00Z"`, `"time":"2026-03-10T08:02:00Z"`},
		{"Stopping with no target in progress", stopped, `"phase":"Stopped"`, `"phase":"Stopping"`},
		{"Cancelled within the grace while a target is in progress", cancelling, `"phase":"Cancelling"`, `"phase":"Cancelled"`},
		{"Failed while a target is in progress, and no grace ends that", fails, `"phase":"Failing"…"phase":"Updating","start":"2026-03-10T08:00:00Z","phaseSince":"2026-03-10T08:00:00Z"`, `"phase":"Failed"…"phase":"Failed","start":"2026-03-10T08:00:00Z","end":"2026-03-10T08:00:00Z"`},
		{"a wait that nobody ended, and is over", cut, cutAt + cutBy, ``},
		{"a wait that was ended, and nothing is said of it", cut, cutBy, ``},
		{"a wait that was ended at no time", cut, cutAt, ``},
		{"a wait that was ended, and goes on", cut, `"elapsed":true,`, ``},
		{"a wait that was ended before it began", cut, cutAt, `"waitEnded":"2026-03-10T07:59:59.999999999Z",`},
		{"a wait that was ended when it was over", cut, `"time":"2026-03-10T08:10:00Z"…` + cutAt, `"time":"2026-03-10T09:00:00Z"…"waitEnded":"2026-03-10T09:00:00Z",`},
		{"a wait that was ended in the future", cut, cutAt, `"waitEnded":"2026-03-10T08:10:00.000000001Z",`},
		{"a wait that was ended, and who did so did it at no time", cut, `"at":"2026-03-10T08:10:00Z",`, ``},
		{"the end of a wait that there is not, by a command", asked, `"settled":`, `"elapsed":true,` + cutAt + cutBy + `"settled":`},
		{"an only start that is not the first time", waits, `"starts":[0]`, `"starts":[1]`},
		{"a frozen wait that is over before its time", waits, `"settled":`, `"elapsed":true,"settled":`},
		{"a wait that is over, and the last step left it", waits, `"state":"Stop","phase":"Stopped","time":"2026-03-10T08:59:00Z","since":"2026-03-10T08:59:00Z"`,
			`"state":"Run","phase":"Waiting","time":"2026-03-10T09:00:00Z"`},
		{"a pause of no wait", asked, `"settled":`, `"paused":1,"settled":`},
		{"current before the first step", fresh, `"states":"2w"`, `"states":"cw"`},
		{"retried before the first step", fresh, `"states":"2w"`, `"attempts":[0,2],"states":"2w"`},
		{"asked for what comes behind a stage that was refused", refused, `"before":"rejected"`, `"before":"rejected","after":"requested"`},
		{"approved behind a stage that never had all its members settled", unasked, `"phase":"Updating"`, `"phase":"Updating","after":"approved"`},
		{"settled before the stage began", before, `"before":"requested"`, `"before":"requested","settled":"2026-03-10T08:00:00Z"`},
		{"a stage that begins in the future, and nobody was started", idle, `"start":"2026-03-10T08:00:00Z"`, `"start":"2026-03-10T08:00:01Z"`},
		{"settled in the future", idle, `"settled":"2026-03-10T08:00:00Z"`, `"settled":"2026-03-10T08:00:01Z"`},
		{"waiting behind a stage that is not settled", idle, `"settled":"2026-03-10T08:00:00Z",`, ``},
		{"waiting behind a stage with an open member", idle, `"states":"DX","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"ends":[0,0]`, `"states":"Dw","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"ends":[0]`},
		{"the end of a wait that there is not", idle, `"settled":`, `"elapsed":true,"settled":`},
		{"the end of a wait that has not started", updates, `"phase":"Updating"`, `"phase":"Updating","elapsed":true`},
		{"a pause of a wait that has not started", updates, `"phase":"Updating"`, `"phase":"Updating","paused":1`},
		{"skipped before the stage before it was closed", passing, `"phase":"Skipped","end":"2026-03-10T08:01:00Z"`, `"phase":"Skipped","end":"2026-03-10T08:00:59Z"`},
		{"a removal that was ready", removing, `"states":"s","from":"2026-03-10T08:00:00Z","names":["d1"],"starts":[0]`, `"states":"o","from":"2026-03-10T08:00:00Z","names":["d1"],"starts":[0],"ends":[0]`},
		{"a removal that came back", cleaned, `"states":"d","from":"2026-03-10T08:00:00Z","names":["d1"]`, `"causes":{"unhealthy":[0]},"states":"g","from":"2026-03-10T08:00:00Z","names":["d1"]`},
		{"a state before the first step that nobody asked for", fresh, `"state":"Run","phase"`, `"state":"Stop","phase"`},
		{"Initialized, and a stage has begun", updates, `"state":"Run","phase":"Progressing"`, `"state":"Initialize","phase":"Initialized"`},
		{"Initialized, and a stage is closed", before, `"state":"Run","phase":"Waiting"…"phase":"WaitingBefore","before":"requested"`, `"state":"Initialize","phase":"Initialized"…"phase":"Pending"`},
		{"Progressing behind the last member", asked, `"phase":"Waiting"`, `"phase":"Progressing"`},
		{"Waiting, and told to stop", asked, `"state":"Run","phase"`, `"state":"Stop","phase"`},
		{"Failed, and the stage is open", held, `"phase":"Held",`, `"phase":"Failed","since":"2026-03-10T08:00:00Z",`},
		{"Held behind the last stage", passed, `"phase":"PartiallySucceeded"…"states":"dX","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"starts":[0],"ends":[0,0]`,
			`"phase":"Held"…"causes":{"gone":[1]},"states":"dF","from":"2026-03-10T08:00:00Z","names":["c1","c2"],"starts":[0],"ends":[0,0]`},
		{"everything is done, and one was skipped", passed, `"phase":"PartiallySucceeded"`, `"phase":"Succeeded"`},
		{"a removal that nobody approved", cleaned, `"before":"approved",`, ``},
		{"a removal that was not needed, and is still asked for", needless, `"members":1,"states":"D"`, `"before":"requested","members":1,"states":"D"`},
		{"a removal that was not needed, and was refused", needless, `"members":1,"states":"D"`, `"before":"rejected","members":1,"states":"D"`},
		{"waiting for the approval of a removal that is no longer needed", asking, `"states":"w","names":["d1"]`, `"states":"D","from":"2026-03-10T08:00:00Z","names":["d1"],"ends":[0]`},
		{"a stage that failed, of a run that did not", held, `"phase":"Updating"`, `"phase":"Failed","end":"2026-03-10T08:00:00Z"`},
		{"timed out, and never started", passed, `"states":"dX"`, `"states":"dT"`},
		{"skipped with somebody to update", before, `"states":"X","from":"2026-03-10T08:00:00Z","names":["c1"],"ends":[0]`, `"states":"w","names":["c1"]`},
		{"skipped with an approval before it", before, `"phase":"Skipped"`, `"phase":"Skipped","before":"approved"`},
		{"skipped with an approval behind it", before, `"phase":"Skipped"`, `"phase":"Skipped","after":"approved"`},
		{"waiting for what was not asked for", before, `"phase":"WaitingBefore","before":"requested"`, `"phase":"WaitingBefore"`},
		{"asked for before its turn", before, `{"phase":"Pending","members":1,"states":"w","names":["c3"]}`, `{"phase":"Pending","before":"requested","members":1,"states":"w","names":["c3"]}`},
		{"waiting behind a stage for what was not asked for", behind, `"before":"approved","after":"requested"`, `"before":"approved"`},
		{"updates, and begun at no time", updates, `"start":"2026-03-10T08:00:00Z",`, ``},
		{"behind its members, and begun at no time", idle, `"start":"2026-03-10T08:00:00Z",`, ``},
		{"before its approval, and begun at a time", before, `"before":"requested"`, `"before":"requested","start":"2026-03-10T08:00:00Z"`},
		{"skipped, and begun at a time", before, `"phase":"Skipped"`, `"phase":"Skipped","start":"2026-03-10T08:00:00Z"`},
		{"a pause of less than nothing", waits, `"settled":`, `"paused":-1,"settled":`},
		{"under way before the first step", fresh, `"phase":"Initialized"`, `"phase":"Progressing"`},
		{"skipped before the first step", fresh, `"states":"2w"`, `"states":"wX","from":"1970-01-01T00:00:00Z","ends":[0]`},
		{"a stage that updates before the first step", fresh, `{"phase":"Pending","members":2`, `{"phase":"Updating","start":"1970-01-01T00:00:00Z","members":2`},
		{"Initialized, and told to run", prepared, `"state":"Initialize","phase"`, `"state":"Run","phase"`},
		{"Progressing, and told to stop", updates, `"state":"Run","phase"`, `"state":"Stop","phase"`},
		{"Progressing over the budget", held, `"phase":"Held"`, `"phase":"Progressing"`},
		{"Waiting for what was refused", waved, `"phase":"Held"`, `"phase":"Waiting"`},
		{"Held, and told to stop", held, `"state":"Run","phase"`, `"state":"Stop","phase"`},
		{"Held over the budget, and the options fail the run", held, `"onFailure":"hold"`, `"onFailure":"fail"`},
		{"Held for what was refused, and the options are lost", waved, `"options":{"onReject":"hold"}`, `"options":{}`},
		{"Held, and nothing was refused", asked, `"phase":"Waiting"`, `"phase":"Held"`},
		{"causes that descend", twice, `"causes":{"reported_failed":[0,1]}`, `"causes":{"reported_failed":[1,0]}`},
		{"a part of it failed, and nothing did", over, `"phase":"Succeeded","time"`, `"phase":"PartiallySucceeded","time"`},
	} {
		text := string(encode(t, c.run))
		if err := json.Unmarshal([]byte(text), new(staged.Run)); err != nil {
			t.Fatalf("%s: %v\n%s", c.why, err, text)
		}
		to := strings.Split(c.to, "…")
		for i, from := range strings.Split(c.from, "…") { // in several places
			if strings.Count(text, from) != 1 {
				t.Fatalf("%s: %s is not in\n%s", c.why, from, text)
			}
			text = strings.Replace(text, from, to[i], 1)
		}
		err := json.Unmarshal([]byte(text), new(staged.Run))
		if err == nil {
			t.Fatalf("%s: accepted", c.why)
		}
		said += refusal(c.why, err)
	}
	golden.Check(t, "damage_ends.txt", said)
}

// TestStoppedFromTheStart: a run that is created with the state Stop has been stopped since its
// first step, and is stored so.
func TestStoppedFromTheStart(t *testing.T) {
	spec := benchSpec()
	spec.State = staged.StateStop
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, spec, fleetOf("c1"), staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	run, _ = step(t, run, staged.Input{}, benchStart)
	if text := string(encode(t, run)); run.Phase() != staged.PhaseStopped || !strings.Contains(text, `"since":"2026-03-10T08:00:00Z"`) {
		t.Errorf("%s: %s", run.Phase(), text)
	}
}

// TestWishOfAFailingRun: a stop has no effect on a run that is failing, and is stored all the same:
// it is what the user wants.
func TestWishOfAFailingRun(t *testing.T) {
	s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 2)}}, staged.Options{}, []string{"c1", "c2"}).see(staged.HealthFailed, "c1")
	s.step(staged.Input{State: staged.StateStop}).want(staged.PhaseFailing, "c1 failed (reported_failed), c2 starting")
	if !s.result.Changed || s.run.State() != staged.StateStop || !strings.Contains(string(encode(t, s.run)), `"state":"Stop"`) {
		t.Errorf("changed is %t: %s", s.result.Changed, encode(t, s.run))
	}
	if s.step(staged.Input{State: staged.StateStop}); s.result.Changed {
		t.Error("it was said before")
	}
}

// TestSinceOfEndedRuns: a run that failed or was cancelled is stored with the instant at which that
// began, and is not read without it.
func TestSinceOfEndedRuns(t *testing.T) {
	for phase, last := range map[staged.Phase]staged.Input{
		staged.PhaseFailed:    {Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthFailed}}},
		staged.PhaseCancelled: {Commands: []staged.Command{{Kind: staged.CommandCancel}, {Kind: staged.CommandSkip, Target: "c1"}}},
	} {
		s := newScene(t, staged.Strategy{Stages: []staged.Stage{all("only", 1)}}, staged.Options{}, []string{"c1", "c2"}).after(time.Minute).step(last)
		const since = `"since":"2026-03-10T08:01:00Z",`
		text := string(encode(t, s.run))
		if s.run.Phase() != phase || !strings.Contains(text, since) {
			t.Errorf("%s, want %s since 08:01: %s", s.run.Phase(), phase, text)
		}
		if err := json.Unmarshal([]byte(strings.Replace(text, since, "", 1)), new(staged.Run)); err == nil {
			t.Errorf("%s since nobody knows when is accepted", phase)
		}
	}
}

// TestRunAsAField: a host's record may hold a run itself, not only a pointer to it.
func TestRunAsAField(t *testing.T) {
	type record struct {
		Owner string
		Run   staged.Run
	}
	run := midRun(t)
	data, err := json.Marshal(record{"me", *run})
	var back record
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil || !bytes.Equal(encode(t, run), encode(t, &back.Run)) {
		t.Errorf("%v: %s", err, data)
	}
	if got := fmt.Sprint(back.Run); got != run.String() {
		t.Errorf("a run that is no pointer is printed as %s", got)
	}
	if data, err := json.Marshal(record{}); err == nil {
		t.Errorf("no run is written as %s", data)
	}
}

// TestNamesInJSON: names are written as encoding/json does.
func TestNamesInJSON(t *testing.T) {
	for _, name := range []string{`\`, `a\`, `\b`, `"`, "a\"b", "<", ">", "&", "é", "\u2028", "\x00", "\x7f", "~", " ", ",", "]", `\u0041`} {
		survivesJSON(t, name, "other", "[")
		survivesJSON(t, "other", name)
	}
	rapid.Check(t, func(t *rapid.T) {
		survivesJSON(t, rapid.SliceOfNDistinct(rapid.StringN(1, 6, 20), 1, 5, rapid.ID[string]).Draw(t, "names")...)
	})
}

func survivesJSON(t rapid.TB, names ...string) {
	run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{all("a", 1)}}, benchSpec(), staged.Fleet{Version: "1", Leaving: names}, staged.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stored := encode(t, run)
	if direct, err := run.MarshalJSON(); err != nil || !bytes.Equal(stored, direct) { // encoding/json would have escaped what it lacks
		t.Fatalf("%s is written as %s, %v", stored, direct, err)
	}
	var again staged.Run
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, encode(t, &again)) {
		t.Fatalf("%s is read as %s", stored, encode(t, &again))
	}
	for _, name := range names {
		if _, ok := again.Target(name); !ok {
			t.Fatalf("%q is lost: %s", name, stored)
		}
		text, err := json.Marshal(name)
		if err != nil || !strings.Contains(string(stored), string(text)) {
			t.Fatalf("%s is not in %s", text, stored)
		}
	}
}

func TestTokenString(t *testing.T) {
	token := staged.Token{Run: "a/b", Stage: 1, Target: "c%", Attempt: 2, Kind: staged.Start}
	if got := token.String(); got != "a%2Fb/1/c%25/2/start" {
		t.Error(got)
	}
	if got := fmt.Sprint(staged.Action{Kind: staged.Start, Target: "c", Token: token}, "; ", staged.Action{Kind: staged.RequestApproval, Name: "n"}); got != "start c, attempt 2; request approval n" {
		t.Error(got)
	}
}

// TestDamageOfFailedRuns: the stage at which a run failed may have begun or not, and the rest of it
// has to go with that.
func TestDamageOfFailedRuns(t *testing.T) {
	gated := all("only", 1)
	gated.BeforeStageTasks = []staged.Task{{Type: staged.Approval}}
	answer := func(kind staged.CommandKind) staged.Input {
		return staged.Input{Commands: []staged.Command{{Kind: kind, Run: "run", Side: staged.Before}}}
	}
	failed := staged.Input{Observations: []staged.Observation{{Target: "c1", Version: "v2", Health: staged.HealthFailed}}}
	stored := func(inputs ...staged.Input) string {
		run, err := staged.Compile(staged.Strategy{Stages: []staged.Stage{gated}}, benchSpec(), fleetOf("c1", "c2"), staged.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i, in := range inputs {
			run, _ = step(t, run, in, benchStart.Add(time.Duration(i)*time.Minute))
		}
		if run.Phase() != staged.PhaseFailed {
			t.Fatal(run)
		}
		return string(encode(t, run))
	}
	refused, begun := stored(staged.Input{}, answer(staged.CommandReject)), stored(staged.Input{}, answer(staged.CommandApprove), failed)
	start, said := `"start":"2026-03-10T08:01:00Z",`, ""
	for _, row := range []struct{ why, stored, from, to string }{
		{"", refused, ``, ``},
		{"", begun, ``, ``},
		{"it began without the approval", refused, `"end":`, start + `"end":`},
		{"it ended after the last step", refused, `"end":"2026-03-10T08:01:00Z"`, `"end":"2026-03-10T08:01:01Z"`},
		{"it failed and never ended", refused, `"end":"2026-03-10T08:01:00Z",`, ``},
		{"a member was started, and it never began", begun, start, ``},
		{"a member was started without the approval", begun, `"before":"approved"`, `"before":"rejected"`},
		{"a member was started before it was asked for", begun, `"before":"approved"`, `"before":"requested"`},
		{"it ended after the last step", begun, `"end":"2026-03-10T08:02:00Z"`, `"end":"2026-03-10T08:02:01Z"`},
		{"it ended before it began", begun, `"end":"2026-03-10T08:02:00Z"`, `"end":"2026-03-10T08:00:59Z"`},
	} {
		if !strings.Contains(row.stored, row.from) {
			t.Errorf("%s: %s is not in\n%s", row.why, row.from, row.stored)
			continue
		}
		err := json.Unmarshal([]byte(strings.Replace(row.stored, row.from, row.to, 1)), new(staged.Run))
		if (err == nil) != (row.why == "") {
			t.Errorf("%q: %v", row.why, err)
		}
		if err != nil {
			said += refusal(row.why, err)
		}
	}
	golden.Check(t, "damage_failed.txt", said)
}

// TestDoneBeforeItsTurn: before a stage has begun nobody is done in it, not even one that is ready
// at the version, and a run that says so would pass a target over. Only a removal may be done
// before its turn.
func TestDoneBeforeItsTurn(t *testing.T) {
	strategy := staged.Strategy{Stages: []staged.Stage{{Name: "one", Targets: []string{"a1"}}, {Name: "two", Targets: []string{"b1", "b2"}}}}
	fleet := fleetOf("a1", "b1", "b2")
	fleet.Leaving = []string{"d1", "d2", "d3"}
	run, err := staged.Compile(strategy, benchSpec(), fleet, staged.Options{VerifyDone: staged.Always})
	if err != nil {
		t.Fatal(err)
	}
	run, _ = step(t, run, staged.Input{Removed: []string{"d1"}}, benchStart)
	good := string(encode(t, run))
	if err := json.Unmarshal([]byte(good), run); err != nil {
		t.Fatal(err)
	}
	const times = `"from":"2026-03-10T08:00:00Z",`
	for states, causes := range map[string]string{`"states":"Dw",`: ``, `"states":"wD",`: ``, `"states":"Gw",`: `"causes":{"unhealthy":[0]},`} {
		damaged := strings.NewReplacer(`"states":"2w",`, states+times+causes, `"names":["b1","b2"]`, `"names":["b1","b2"],"ends":[0]`).Replace(good)
		err := json.Unmarshal([]byte(damaged), new(staged.Run))
		if got := rules(err); len(got) != 1 || !strings.Contains(err.Error(), "stages[1].states: have a member that is done before the stage began") {
			t.Errorf("%s is read with %v:\n%s", states, err, damaged)
		}
	}
}
