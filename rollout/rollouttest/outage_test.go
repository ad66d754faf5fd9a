package rollouttest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestOutages: how far bad versions of known kinds come under policies that are meant to stop them,
// as the docs of the rules say. Rows beside each other differ in the one rule or act that matters.
func TestOutages(t *testing.T) {
	t.Parallel()
	compiler := newCompiler(t)
	const (
		budget = `{"id":"budget","failureBudget":{"maxFailures":2,"onVerificationFailure":true}}`
		back   = `{"id":"back","rollback":{"onFailureBudget":true,"onVersionStatuses":["rejected"]}}`
		pool   = `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":5}}`
	)
	curve := func(seconds int, more string) string {
		return fmt.Sprintf(`{"id":"curve","gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d%s}}`, seconds, more)
	}
	fails := func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Purpose == rollout.PurposeRollback {
			return rollouttest.Outcome{After: time.Minute}
		}
		return rollouttest.Outcome{After: time.Minute, Status: rollout.JobFailure}
	}
	hangs := func(rollout.Start, int) rollouttest.Outcome {
		return rollouttest.Outcome{After: time.Minute, Status: rollout.JobInProgress}
	}
	hangsOnSome := func(start rollout.Start, _ int) rollouttest.Outcome {
		if start.Version == "v2" && start.Resource >= "node-30" {
			return rollouttest.Outcome{After: time.Minute, Status: rollout.JobInProgress}
		}
		return rollouttest.Outcome{After: time.Minute}
	}
	release := func(at time.Duration, ids ...string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			for k, id := range ids {
				s.Versions = append(s.Versions, rollout.Version{ID: id, Deployment: "agent", Status: rollout.VersionReady, CreatedAt: noon.Add(time.Duration(k) * at)})
			}
		}
	}
	var files []string
	for k := range 24 {
		files = append(files, fmt.Sprintf("v2-%02d", k))
	}
	outdated := func(s *rollout.Snapshot) {
		for i := range s.Targets {
			s.Targets[i].OutdatedAt = noon
		}
	}
	joined := func(s *rollout.Snapshot) {
		for i := range s.Targets {
			s.Targets[i].Jobs, s.Targets[i].JoinedAt = nil, noon
		}
		s.Versions[0].CreatedAt = noon.Add(-100 * time.Hour)
	}
	reject := func(minute int, id string) rollouttest.Change {
		return rollouttest.Change{At: noon.Add(time.Duration(minute) * time.Minute), What: id + " rejected", Do: func(s *rollout.Snapshot) {
			for i := range s.Versions {
				if s.Versions[i].ID == id {
					s.Versions[i].Status = "rejected"
				}
			}
		}}
	}
	down := func(minute, n int) rollouttest.Change {
		return rollouttest.Change{At: noon.Add(time.Duration(minute) * time.Minute), What: "most nodes look down", Do: func(s *rollout.Snapshot) {
			for k := range n {
				s.Unavailable = append(s.Unavailable, fmt.Sprintf("node-%d", k))
			}
		}}
	}
	override := func(version string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			release(0, "v2")(s)
			s.Overrides = []rollout.Override{{ID: "now", Rule: "pool", Version: version, CreatedAt: noon.Add(time.Hour), CreatedBy: "ann", Reason: "the way back"}}
		}
	}

	for _, row := range []struct {
		why     string
		rules   string
		fleet   func(*rollout.Snapshot)
		job     func(rollout.Start, int) rollouttest.Outcome
		changes []rollouttest.Change
		started int            // targets that were given a version that is not the way back
		ends    map[string]int // what targets were given last; nil: not asked
	}{
		{why: "a curve alone goes on after every failure", rules: curve(60, ""), fleet: release(0, "v2"), job: fails, started: 50},
		{why: "so does a pool alone", rules: pool, fleet: release(0, "v2"), job: fails, started: 50},
		{why: "a budget stops both", rules: curve(60, "") + "," + budget, fleet: release(0, "v2"), job: fails, started: 3},
		{why: "but not what hangs", rules: curve(60, "") + "," + budget, fleet: release(0, "v2"), job: hangs, started: 50},
		{why: "for that there is the pool", rules: curve(60, "") + "," + budget + "," + pool, fleet: release(0, "v2"), job: hangs, started: 5},

		{why: "every bad version has a budget of its own, and other targets", rules: curve(30, "") + "," + budget + "," + back, fleet: release(5*time.Minute, files...), job: fails, started: 43},
		{why: "or the same", rules: curve(30, `,"orderSalt":"none"`) + "," + budget + "," + back, fleet: release(5*time.Minute, files...), job: fails, started: 4},

		{why: "what is outdated runs without curve and budget", rules: curve(60, "") + "," + budget, fleet: outdated, job: fails, started: 50},
		{why: "a pool spreads it, and no budget stops it", rules: curve(60, "") + "," + budget + "," + pool, fleet: outdated, job: fails, started: 50},
		{why: "unless a rollback rule takes back the version", rules: curve(60, "") + "," + budget + "," + back + "," + pool, fleet: outdated, job: fails, started: 5},

		{why: "who joins after the curve is due at once", rules: curve(60, "") + "," + budget, fleet: joined, job: fails, started: 50},
		{why: "a pool spreads them", rules: curve(60, "") + "," + budget + "," + pool, fleet: joined, job: fails, started: 5},

		{why: "of nodes that look down all start at once, whatever the limit", rules: budget + "," + pool, fleet: release(0, "v2"), job: hangs, changes: []rollouttest.Change{down(1, 40)}, started: 40},
		{why: "a curve still spreads them", rules: curve(3600, "") + "," + budget + "," + pool, fleet: release(0, "v2"), job: hangs, changes: []rollouttest.Change{down(1, 40)}, started: 20},
		{why: "a pool that halts holds them", rules: budget + `,{"id":"halting","resourceConcurrency":{"groupSelector":"true","limit":5,"haltAboveUnavailable":"20%"}}`, fleet: release(0, "v2"), job: hangs, changes: []rollouttest.Change{down(1, 40)}, started: 5},
		{why: "a freeze holds them", rules: budget + "," + pool, fleet: func(s *rollout.Snapshot) {
			release(0, "v2")(s)
			s.Freezes = []rollout.Freeze{{ID: "doubt", CreatedAt: noon.Add(time.Minute), CreatedBy: "host", Reason: "most nodes look down"}}
		}, job: hangs, changes: []rollouttest.Change{down(1, 40)}, started: 5},

		{why: "the newer of two bad versions first: back to the other, for good", rules: curve(60, "") + "," + back, fleet: release(40*time.Minute, "v2", "v3"), changes: []rollouttest.Change{reject(45, "v3"), reject(47, "v2")},
			started: 48, ends: map[string]int{"v1": 44, "v2": 4}},
		{why: "both at once", rules: curve(60, "") + "," + back, fleet: release(40*time.Minute, "v2", "v3"), changes: []rollouttest.Change{reject(45, "v3"), reject(45, "v2")}, started: 46, ends: map[string]int{"v1": 46}},
		{why: "the older one first", rules: curve(60, "") + "," + back, fleet: release(40*time.Minute, "v2", "v3"), changes: []rollouttest.Change{reject(45, "v2"), reject(47, "v3")}, started: 46, ends: map[string]int{"v1": 46}},

		{why: "jobs that hang keep the way back waiting", rules: back + "," + pool, fleet: release(0, "v2"), job: hangsOnSome, changes: []rollouttest.Change{reject(60, "v2")}, started: 29, ends: map[string]int{"v2": 29}},
		{why: "an override for the version to go back to lets it past", rules: back + "," + pool, fleet: override("v1"), job: hangsOnSome, changes: []rollouttest.Change{reject(60, "v2")}, started: 29, ends: map[string]int{"v1": 24, "v2": 5}},
		{why: "one for the version that is taken back does not", rules: back + "," + pool, fleet: override("v2"), job: hangsOnSome, changes: []rollouttest.Change{reject(60, "v2")}, started: 29, ends: map[string]int{"v2": 29}},
	} {
		fleet := exampleAgents(50)
		fleet.Versions = fleet.Versions[:1]
		row.fleet(&fleet)
		set, err := rollout.Load([]byte(`{"name":"agents","selector":"true","rules":[`+row.rules+`]}`), compiler)
		if err != nil {
			t.Fatal(row.why, err)
		}
		timeline, err := rollouttest.World{
			Policies: set, Fleet: fleet, Start: noon, End: noon.Add(24 * time.Hour),
			Job: row.job, Changes: row.changes, Pure: true, Trust: true,
		}.Run(t.Context())
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		started, last := map[string]bool{}, map[string]string{}
		for _, e := range timeline.Entries {
			if e.Kind == rollouttest.Start {
				last[e.Resource] = e.Version
				started[e.Resource] = started[e.Resource] || e.Purpose != rollout.PurposeRollback
			}
		}
		ends := map[string]int{}
		for _, version := range last {
			ends[version]++
		}
		if len(started) != row.started || row.ends != nil && fmt.Sprint(ends) != fmt.Sprint(row.ends) {
			t.Errorf("%s: %d targets started, which were given %v last; want %d, %v", row.why, len(started), ends, row.started, row.ends)
		}
	}
}
