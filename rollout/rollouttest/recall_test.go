package rollouttest_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestVersionLeavesTheFleet: a version that is rejected half way, or fails on more clusters than its
// budget allows, starts nowhere from that instant on, and is taken back once from every cluster that
// had begun it, also where it succeeded, and where its job was at work as soon as that has ended. In
// the end nobody has it. Without that instant it stays wherever it was started, and nobody goes back.
func TestVersionLeavesTheFleet(t *testing.T) {
	seen := testkit.Tally{}
	seen.Check(t, func(rt *rapid.T) {
		d := drawn{rt}
		budget, fails := d.number(0, 1, 2, 3), map[string]bool{}
		w := webWorld(t, d.number(1, 3, 5, 8), fmt.Sprintf(`{"id":"turn","gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d}},
			{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":%d}},{"id":"budget","failureBudget":{"maxFailures":%d}},
			{"id":"undo","rollback":{"onVersionStatuses":["rejected"],"onFailureBudget":true}},{"id":"retry","retry":{"maxRetries":%d}}`,
			d.number(0, 60, 300), d.number(1, 2, 4), budget, d.number(0, 1)))
		lasts := map[string]time.Duration{}
		for _, r := range w.Fleet.Resources {
			fails[r.ID], lasts[r.ID] = d.chance(35), minutes(d.number(1, 3, 7))
		}
		w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
			if start.Version == "v2" && fails[start.Resource] {
				return rollouttest.Outcome{After: lasts[start.Resource], Status: rollout.JobFailure}
			}
			return rollouttest.Outcome{After: lasts[start.Resource]}
		}
		var rejected time.Time
		if d.chance(60) {
			rejected = at(1, 9, 0).Add(minutes(d.number(0, 1, 5, 12, 30)))
			w.Changes = append(w.Changes, rollouttest.Change{At: rejected, What: "v2 is rejected", Do: func(s *rollout.Snapshot) { s.Versions[1].Status = "rejected" }})
		}
		timeline, err := w.Run(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		over := rejected // from when on the version is to leave; zero: never
		failed, runs := map[string]bool{}, map[string]string{}
		begun, busy, back := map[string]bool{}, map[string]bool{}, map[string]int{}
		for _, e := range timeline.Entries {
			taken := !over.IsZero() && !e.At.Before(over)
			switch {
			case e.Kind == rollouttest.End && e.Version == "v2":
				busy[e.Resource] = false
				if e.Status == string(rollout.JobSuccessful) {
					runs[e.Resource] = "v2"
				} else if failed[e.Resource] = true; len(failed) > budget && (over.IsZero() || e.At.Before(over)) {
					over = e.At
					seen["over its budget"]++
				}
			case e.Kind == rollouttest.End:
				runs[e.Resource] = e.Version
			case e.Kind != rollouttest.Start:
			case e.Purpose == rollout.PurposeRollback:
				if back[e.Resource]++; !taken || !begun[e.Resource] || busy[e.Resource] || e.Version != "v1" {
					rt.Fatalf("%v goes back before it has to\n%s", e, timeline)
				}
				if runs[e.Resource] == "v2" {
					seen["from a success"]++
				} else {
					seen["from a failure"]++
				}
			case taken:
				rt.Fatalf("%v starts what is to leave\n%s", e, timeline)
			default:
				begun[e.Resource], busy[e.Resource] = true, true
			}
			if taken && busy[e.Resource] {
				seen["at work then"]++
			}
		}
		for _, r := range w.Fleet.Resources {
			switch {
			case over.IsZero() && (back[r.ID] > 0 || begun[r.ID] && !fails[r.ID] && runs[r.ID] != "v2"):
				rt.Fatalf("%s runs %q after %d ways back, and nothing was wrong\n%s", r.ID, runs[r.ID], back[r.ID], timeline)
			case !over.IsZero() && begun[r.ID] && (back[r.ID] != 1 || runs[r.ID] != "v1"):
				rt.Fatalf("%s runs %q after %d ways back\n%s", r.ID, runs[r.ID], back[r.ID], timeline)
			case !over.IsZero() && !begun[r.ID]:
				seen["never begun"]++
			case over.IsZero():
				seen["stays"]++
			}
		}
	}, "over its budget", "from a success", "from a failure", "at work then", "never begun", "stays")
}
