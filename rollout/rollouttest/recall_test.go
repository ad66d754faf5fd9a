package rollouttest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
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

// TestRerunAfterAWayBackByHand: a host took a cluster back by a job of its own, and a rollback rule
// keeps the version from it since. A further run of the version that it went back to is no step back;
// without the rule it would be one.
func TestRerunAfterAWayBackByHand(t *testing.T) {
	const rules = `{"id":"undo","rollback":{"onVersionStatuses":["rejected"],"onJobStatuses":["failure"]}}`
	ok := rollout.JobSuccessful
	ran := func(version string, status rollout.JobStatus, minute int) rollout.Job {
		return rollout.Job{Version: version, Status: status, CreatedAt: at(1, 10, minute), CompletedAt: at(1, 10, minute+1)}
	}
	for _, row := range []struct {
		why    string
		status rollout.VersionStatus // of v2
		jobs   []rollout.Job
		newer  bool // v3 waits
		start  string
		broken bool // under a planner that starts v1
	}{
		{"it is rejected", "rejected", []rollout.Job{ran("v1", ok, 0), ran("v2", ok, 10), ran("v1", ok, 20)}, false, "v1", false},
		{"it is rejected, and a newer one waits", "rejected", []rollout.Job{ran("v1", ok, 0), ran("v2", ok, 10), ran("v1", ok, 20)}, true, "v1", false},
		{"it is rejected, and came after another one that was newer than v1", "rejected", []rollout.Job{ran("v1", ok, 0), ran("v1b", ok, 5), ran("v2", ok, 10), ran("v1", ok, 20)}, false, "v1", false},
		{"it failed there", "ready", []rollout.Job{ran("v1", ok, 0), ran("v2", "failure", 10), ran("v1", ok, 20)}, false, "v1", false},
		{"nothing denies it", "ready", []rollout.Job{ran("v1", ok, 0), ran("v2", ok, 10), ran("v1", ok, 20)}, false, "v2", true},
		{"it is rejected, and nobody went back", "rejected", []rollout.Job{ran("v1", ok, 0), ran("v2", "cancelled", 10)}, false, "v1", true},
	} {
		t.Run(row.why, func(t *testing.T) {
			w := webWorld(t, 1, rules)
			s := w.Fleet
			s.Versions[1].Status = row.status
			s.Versions = append(s.Versions, version("web", "v1b", at(1, 8, 30)))
			if row.newer {
				own := version("web", "v3", at(1, 10, 30))
				own.Status = rollout.VersionPaused
				s.Versions = append(s.Versions, own)
			}
			s.Targets[0].Current, s.Targets[0].Jobs, s.Targets[0].OutdatedAt = "", row.jobs, at(1, 11, 0)
			plan, err := w.Policies.Plan(s, at(1, 12, 0))
			if err != nil {
				t.Fatal(err)
			}
			if len(plan.Start) != 1 || plan.Start[0].Version != row.start {
				t.Fatalf("starts %v, want %s", plan.Start, row.start)
			}
			if plan.State, err = plan.Commit(plan.Start, plan.Now); err != nil {
				t.Fatal(err)
			}
			if err := (rollouttest.Step{Snapshot: s, Plan: plan}).Check(); err != nil {
				t.Error(err)
			}
			plan.Start[0].Version, plan.Start[0].Purpose = "v1", rollout.PurposeDeploy
			if err := (rollouttest.Step{Snapshot: s, Plan: plan}).Check(); (err != nil) != row.broken {
				t.Errorf("a planner that deploys v1: %v", err)
			}
		})
	}
}

// TestVersionIsTakenBackInAnExecution: what an open execution does with the version of one of its two
// members that is rejected meanwhile. On the node, b waits for a, and the jobs of the rejected version
// fail after two minutes; they may be tried again after ten.
func TestVersionIsTakenBackInAnExecution(t *testing.T) {
	for _, row := range []struct {
		why      string
		rejected string // deployment
		minute   int    // after nine
		succeeds bool
		skip     int // the minute at which an operator skips the member; 0: nobody does
		starts   []string
	}{
		{"at work: it is a final failure", "a", 1, false, 0, []string{"09:00 a v2", "09:02 a v1"}},
		{"at work, and it succeeds: it stays", "a", 1, true, 0, []string{"09:00 a v2", "09:02 b v2"}},
		{"it waits for its next attempt, which is made and is the last", "a", 5, false, 0, []string{"09:00 a v2", "09:12 a v2", "09:14 a v1"}},
		{"it waits for its next attempt, and is skipped", "a", 5, false, 6, []string{"09:00 a v2", "09:06 b v2"}},
		{"it has not begun, and is brought all the same", "b", 1, false, 0, []string{"09:00 a v2", "09:02 b v2", "09:04 b v1"}},
		{"it has not begun, and is skipped", "b", 1, false, 1, []string{"09:00 a v2"}},
		{"before the execution begins, which leaves it out", "b", 0, false, 0, []string{"09:00 a v2"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			w := rollouttest.World{Start: at(1, 9, 0), Policies: compiled(t, `[{"name":"p","selector":"true","rules":[
				{"id":"undo","rollback":{"onVersionStatuses":["rejected"]}},{"id":"retry","retry":{"maxRetries":3,"backoffSeconds":600}},
				{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","onMemberFailure":"rollback_member"}},
				{"id":"dep","deploymentDependency":{"dependsOn":"deployment.id == 'a'","appliesTo":"deployment.id == 'b'"}}]}]`)}
			w.Fleet = rollout.Snapshot{Resources: []rollout.Resource{{ID: "n"}}, Environments: []rollout.Environment{{ID: "prod"}}}
			for _, d := range []string{"a", "b"} {
				w.Fleet.Deployments = append(w.Fleet.Deployments, rollout.Deployment{ID: d})
				w.Fleet.Versions = append(w.Fleet.Versions, version(d, "v1", at(-20, 9, 0)), version(d, "v2", at(1, 9, 0)))
				w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "n", Environment: "prod", Deployment: d}, Current: "v1"})
			}
			w.Changes = []rollouttest.Change{{At: at(1, 9, row.minute), Do: func(s *rollout.Snapshot) {
				for k := range s.Versions {
					if s.Versions[k].Deployment == row.rejected && s.Versions[k].ID == "v2" {
						s.Versions[k].Status = "rejected"
					}
				}
			}}}
			if row.skip > 0 {
				w.Fleet.Commands = []bracket.Command{{ID: "c", Kind: bracket.Skip, Group: "b/prod/1", Resource: "n", Deployment: row.rejected, At: at(1, 9, row.skip)}}
			}
			w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
				o := rollouttest.Outcome{After: minutes(2)}
				if start.Version == "v2" && start.Deployment == row.rejected && !row.succeeds {
					o.Status = rollout.JobFailure
				}
				return o
			}
			timeline, err := w.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var starts []string
			for _, e := range timeline.Entries {
				if e.Kind == rollouttest.Start {
					starts = append(starts, e.At.Format("15:04")+" "+e.Deployment+" "+e.Version)
				}
			}
			if !slices.Equal(starts, row.starts) {
				t.Errorf("%q, want %q\n%s", starts, row.starts, timeline)
			}
		})
	}
}
