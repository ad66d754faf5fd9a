package rollouttest_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestDrawnReactions: whoever watches is told every entry of the timeline once, in order, and changes
// nothing by that; and a world in which somebody reacts is the one in which it is known from the start
// what will be done and when.
func TestDrawnReactions(t *testing.T) {
	if testing.Short() {
		t.Skip("whole worlds, three times each")
	}
	seen := testkit.Tally{}
	compiler := newCompiler(t)
	seen.Check(t, func(t *rapid.T) {
		d := drawn{t}
		text, w, accepted := d.governed(compiler, seen)
		if !accepted {
			return
		}
		w.Pure, w.Trust = true, true
		plain := played(t, w, text)
		var told []rollouttest.Entry
		delay := minutes(d.number(-3, 12, 30))
		every := d.number(1, 2, 9)
		var done []rollouttest.Change
		watched := w
		watched.React = func(step rollouttest.Step, news []rollouttest.Entry) []rollouttest.Change {
			told = append(told, news...)
			if len(step.Plan.Start) > 0 {
				t.Fatalf("told at %v, before all has started", step.Plan.Now)
			}
			return nil
		}
		if got := played(t, watched, text); !cmp.Equal(got, plain) || !cmp.Equal(told, got.Entries) {
			t.Fatalf("to watch makes a difference, or not all is told: %s\n%s", cmp.Diff(told, got.Entries), text)
		}
		reacting, late := w, false
		reacting.React = func(step rollouttest.Step, news []rollouttest.Entry) (changes []rollouttest.Change) {
			for _, e := range news {
				if e.Kind != rollouttest.End || len(done) >= 3 || len(step.Snapshot.Targets)%every != 0 && e.Status != string(rollout.JobFailure) {
					continue
				}
				deployment, resource := e.Deployment, e.Resource
				change := rollouttest.Change{At: e.At.Add(delay), What: fmt.Sprintf("%s is outdated on %s", deployment, resource)}
				outdated := max(0, int64(change.At.Sub(step.Plan.Now)))
				at := step.Plan.Now.Add(time.Duration(outdated))
				change.Do = func(s *rollout.Snapshot) {
					for k := range s.Targets {
						if s.Targets[k].Resource == resource && s.Targets[k].Deployment == deployment {
							s.Targets[k].OutdatedAt = at
						}
					}
				}
				changes = append(changes, change)
				own := change
				own.At = at
				done = append(done, own)
				if !change.At.After(step.Plan.Now) {
					seen["late"]++
					late = true // it comes about at this instant, but after others have started
				}
			}
			return changes
		}
		got := played(t, reacting, text)
		slices.SortStableFunc(done, func(a, b rollouttest.Change) int { return a.At.Compare(b.At) })
		w.Changes = append(slices.Clone(w.Changes), done...)
		if len(done) == 0 || late {
			return
		}
		seen["reacts"]++
		sameIfKnown(t, w, got, text)
	}, "reacts", "late")
}

// TestReactions: what a reaction must say, and that a forecast asks for it, too.
func TestReactions(t *testing.T) {
	t.Parallel()
	reject := func(step rollouttest.Step, news []rollouttest.Entry) (changes []rollouttest.Change) {
		for _, e := range news {
			if e.Kind == rollouttest.Start && e.Resource == "c-1" && e.Version == "v2" {
				changes = append(changes, rollouttest.Change{At: e.At.Add(minutes(1)), What: "rejected", Do: func(s *rollout.Snapshot) { s.Versions[1].Status = "rejected" }})
			}
		}
		return changes
	}
	w := webWorld(t, 3, `{"id":"turn","gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}},{"id":"undo","rollback":{"onVersionStatuses":["rejected"]}}`)
	w.React = reject
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back := 0
	for _, e := range timeline.Entries {
		if e.Kind == rollouttest.Start && e.Purpose == rollout.PurposeRollback {
			back++
		}
	}
	if back == 0 {
		t.Errorf("nothing goes back:\n%s", timeline)
	}
	prediction, err := rollouttest.Forecast(t.Context(), w, rollouttest.Samples{}, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	for k, trial := range prediction.Trials {
		if !trial.Finish.Equal(timeline.Finish) {
			t.Errorf("trial %d ends at %v, the world at %v", k, trial.Finish, timeline.Finish)
		}
	}
	for want, change := range map[string]rollouttest.Change{
		"change 0 of World.React at 2026-03-10T09:00:00Z: its At and Do must be set":  {At: at(1, 9, 0)},
		"change 0 of World.React at 2026-03-10T09:00:00Z: its At and Do must be set ": {Do: func(*rollout.Snapshot) {}},
	} {
		w.React = func(rollouttest.Step, []rollouttest.Entry) []rollouttest.Change { return []rollouttest.Change{change} }
		if _, err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestEndlessReactions: who reacts to what came of the last reaction, and so on, is told so before long,
// or goes on until World.End; who reacts to a long list of changes is not one of them.
func TestEndlessReactions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why   string
		after time.Duration
		end   time.Time
		known int // changes of the world, one an hour
		times int // the reactions stop
		want  string
	}{
		{"every hour", time.Hour, time.Time{}, 0, math.MaxInt, "World.React returns changes for the 1001th time since 2026-03-10T09:08:00Z, no job starts or ends, and no end: the world may never come to rest: give it World.End"},
		{"every hour, and there is an end", time.Hour, at(90, 0, 0), 0, math.MaxInt, ""},
		{"at once, and there is an end", 0, at(90, 0, 0), 0, math.MaxInt, "World.React returns changes for the 1001th time at 2026-03-10T09:00:00Z, and no job starts or ends: the clock stands still, so no World.End ever comes: let people take time"},
		{"once for each of many changes", minutes(30), time.Time{}, 2000, 2000, ""},
		{"and then every hour", minutes(30), time.Time{}, 2000, math.MaxInt, "give it World.End"},
	} {
		w := webWorld(t, 2, `{"id":"turn","gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}}`)
		w.Pure, w.Trust, w.End = true, true, row.end
		for n := range row.known {
			w.Changes = append(w.Changes, rollouttest.Change{At: at(2, 0, 0).Add(time.Duration(n) * time.Hour), What: "a node goes down", Do: func(*rollout.Snapshot) {}})
		}
		times := 0
		w.React = func(step rollouttest.Step, _ []rollouttest.Entry) []rollouttest.Change {
			if times++; times > row.times {
				return nil
			}
			what := "again"
			if row.times < math.MaxInt {
				what = "" // and so no news
			}
			return []rollouttest.Change{{At: step.Plan.Now.Add(row.after), What: what, Do: func(*rollout.Snapshot) {}}}
		}
		timeline, err := w.Run(t.Context())
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.why, err, row.want)
		}
		if started := slices.ContainsFunc(timeline.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Start }); !started && row.after > 0 {
			t.Errorf("%s: nothing starts", row.why)
		}
	}
}
