package rollouttest_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestWorldThatPolls: what happens between two looks keeps its instant and its order, and is acted
// upon at the next look.
func TestWorldThatPolls(t *testing.T) {
	t.Parallel()
	fail := func(s *rollout.Snapshot) {
		for k := range s.Targets {
			for j := range s.Targets[k].Jobs {
				if job := &s.Targets[k].Jobs[j]; !job.Status.Terminal() {
					job.Status, job.CompletedAt = rollout.JobFailure, noon.Add(minutes(2))
				}
			}
		}
	}
	for _, row := range []struct {
		why  string
		edit func(*rollouttest.World)
		want []string
	}{
		{"the end of a job is acted upon at the next look", func(*rollouttest.World) {}, []string{
			"12:00:00  node-1: start kubelet v2", "12:00:00  node-2: kubelet v2: slot_full in nodes, held by node-1", "12:03:00  node-1: kubelet v2 ended: successful",
			"12:05:00  node-2: start kubelet v2", "12:08:00  node-2: kubelet v2 ended: successful", "done at 2026-03-10 12:08:00",
		}},
		{"what ends at the instant of a look is seen by it", func(w *rollouttest.World) {
			w.Job = rollouttest.Durations(map[string]time.Duration{"kubelet": minutes(5)})
		}, []string{"12:05:00  node-1: kubelet v2 ended: successful", "12:05:00  node-2: start kubelet v2", "done at 2026-03-10 12:10:00"}},
		{"a change ends a job before it would have ended, though nobody looks until both have happened", func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: noon.Add(minutes(2)), What: "somebody pulls the plug", Do: fail}}
		}, []string{"12:00:00  node-1: start kubelet v2", "12:02:00  somebody pulls the plug", "12:05:00  node-2: start kubelet v2", "12:05:00  node-1: kubelet v2: retry_exhausted"}},
		{"the targets come in another order before a job ends, and more happens after it", func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{
				{At: noon.Add(minutes(2)), Do: func(s *rollout.Snapshot) { slices.Reverse(s.Targets) }},
				{At: noon.Add(minutes(4)), What: "somebody comes by", Do: func(*rollout.Snapshot) {}},
			}
		}, []string{"12:03:00  node-1: kubelet v2 ended: successful", "12:04:00  somebody comes by", "12:05:00  node-2: start kubelet v2", "done at 2026-03-10 12:08:00"}},
		{"a change that comes after the end of a job does not undo it", func(w *rollouttest.World) {
			w.Changes = []rollouttest.Change{{At: noon.Add(minutes(4)), What: "somebody pulls the plug", Do: fail}}
		}, []string{"12:03:00  node-1: kubelet v2 ended: successful", "12:04:00  somebody pulls the plug", "12:05:00  node-2: start kubelet v2", "done at 2026-03-10 12:08:00"}},
		{"a slot is stuck before another job ends, though the plan that says so sees both", func(w *rollouttest.World) {
			w.Policies = compiled(t, `{"name":"p","selector":"true","rules":[{"id":"nodes","resourceConcurrency":{"groupSelector":"true","limit":2,"stuckAfterSeconds":120}}]}`)
			w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
				if start.Resource == "node-1" {
					return rollouttest.Outcome{Status: rollout.JobInProgress}
				}
				return rollouttest.Outcome{After: minutes(4)}
			}
		}, []string{"12:02:00  node-1: stuck, its slot in nodes sees no progress", "12:04:00  node-2: kubelet v2 ended: successful"}},
		{"the world ends between two looks, and so did a job", func(w *rollouttest.World) { w.End = noon.Add(minutes(9)) }, []string{
			"12:05:00  node-2: start kubelet v2", "12:08:00  node-2: kubelet v2 ended: successful", "not done when it was cut off",
		}},
	} {
		w := rollouttest.World{
			Policies: exampleSet(), Fleet: exampleFleet(), Every: minutes(5), Job: rollouttest.Durations(map[string]time.Duration{"kubelet": minutes(3)}),
		}
		row.edit(&w)
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		text, at := timeline.String(), 0
		for _, line := range row.want {
			k := strings.Index(text[at:], line)
			if k < 0 {
				t.Errorf("%s: there is no %q, or it comes too early:\n%s", row.why, line, text)
				break
			}
			at += k
		}
	}
}

// TestLooksBeyondAllInstants: a look that would come after the last instant of all never comes. What
// ends until then has ended, and nobody acts upon it.
func TestLooksBeyondAllInstants(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		every   time.Duration
		targets int
		done    bool
		says    string
	}{
		{"the longest time of all between two looks", math.MaxInt64, 2, false, "not done, and nothing will happen any more"},
		{"three hundred years, and nothing is left to do", math.MaxInt64, 1, true, "done at 2026-03-10 12:01:00"},
		{"the second look comes too late", 200 * 365 * 24 * time.Hour, 3, false, "not done, and nothing will happen any more"},
	} {
		for _, trust := range []bool{false, true} {
			w := rollouttest.World{Policies: exampleSet(), Fleet: exampleFleet(), Start: noon, Every: row.every, Trust: trust}
			w.Fleet.Resources = append(w.Fleet.Resources, rollout.Resource{ID: "node-3"})
			w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "node-3", Environment: "prod", Deployment: "kubelet"}})
			w.Fleet.Targets = w.Fleet.Targets[:row.targets]
			timeline, err := w.Run(t.Context())
			if err != nil || timeline.Done != row.done || timeline.CutOff || len(timeline.Running) > 0 || len(timeline.Left) > 0 == row.done || !strings.Contains(timeline.Summary(), row.says) {
				t.Errorf("%s, trust %t: %v, done %t, cut off %t, %q run:\n%s", row.why, trust, err, timeline.Done, timeline.CutOff, timeline.Running, timeline)
			}
			e, err := rollouttest.Explore(t.Context(), w, func(rollout.Start, int) []rollouttest.Outcome { return nil }, 1) // in brief, if it is trusted
			if err != nil || e.Without.Done != row.done || !e.Without.Finish.Equal(timeline.Finish) {
				t.Errorf("%s, trust %t, in brief: %v, done %t at %v", row.why, trust, err, e.Without.Done, e.Without.Finish)
			}
		}
	}
}
