package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

// allRules has a rule of every kind that needs no bracket, and none that stops everybody.
func allRules() string {
	return `[{"name":"prod","selector":"environment.id == 'prod'","rules":[
		{"environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSuccessPercentage":50,"minimumSoakTimeMinutes":30}},
		{"anyApproval":{"minApprovals":1}}]},
	{"name":"all","selector":"true","rules":[
		{"versionSelector":{"selector":"version.tag != 'bad'"}},
		{"failureBudget":{"maxFailures":"10%"}},
		{"versionCooldown":{"intervalSeconds":600}},` + weekly("day", "09:00", "17:00", "") + "," + weekly("lunch", "12:00", "13:00", deny) + `,
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":1}},
		{"retry":{"maxRetries":2,"backoffSeconds":60,"backoffStrategy":"exponential"}},
		{"rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}},
		{"resourceConcurrency":{"groupSelector":"true","limit":"20%"}}]}]`
}

// BenchmarkPlanLongHistories is a plan under a failure budget by a rate, of 300,000 jobs in all: few
// targets that have had many versions, and many that have had few.
func BenchmarkPlanLongHistories(b *testing.B) {
	set := compile(b, policy(`{"failureBudget":{"maxFailureRate":"10%","minimumSample":5}}`))
	for _, jobs := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			s := fleet(300_000/jobs, "", map[string][]string{"api": nil})
			s.Versions = []rollout.Version{{ID: "new", Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(jobs)}}
			for k := range jobs {
				id := fmt.Sprintf("v%04d", k)
				s.Versions = append(s.Versions, rollout.Version{ID: id, Deployment: "api", Status: rollout.VersionReady, CreatedAt: minute(k)})
				for i := range s.Targets {
					s.Targets[i].Jobs = append(s.Targets[i].Jobs, ran(id, rollout.JobSuccessful, k+1))
				}
			}
			benchmarkPlan(b, set, s, minute(jobs+1))
		})
	}
}

// fleetOfAllRules is n targets of one deployment, a tenth of them in staging, where the new version
// has succeeded; of its successor only half of the resources are in scope. Some failed, some are
// overridden.
func fleetOfAllRules(n int) (s rollout.Snapshot, now time.Time) {
	now = day1.Add(10 * time.Hour)
	s = rollout.Snapshot{
		Environments: []rollout.Environment{{ID: "prod"}, {ID: "staging"}}, Deployments: []rollout.Deployment{{ID: "api"}},
		Approvals: []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: day1}},
		Overrides: []rollout.Override{{ID: "o", Rule: "day", Version: "v3", Resource: "cluster-0000007", CreatedAt: day1, CreatedBy: "ann", Reason: "hotfix"}},
	}
	for k, id := range []string{"v1", "v2", "v3"} {
		s.Versions = append(s.Versions, rollout.Version{ID: id, Deployment: "api", Tag: id, Status: rollout.VersionReady, CreatedAt: day1.Add(time.Duration(k-2) * time.Hour)})
	}
	s.Versions[2].TargetSelector = "resource.metadata['half'] == 'a'"
	for i := range n {
		id := fmt.Sprintf("cluster-%07d", i)
		s.Resources = append(s.Resources, rollout.Resource{ID: id, Metadata: map[string]string{"half": "ab"[i%2 : i%2+1]}})
		target := rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "api"}, Current: "v1"}
		switch {
		case i%10 == 0:
			target.Environment, target.Current = "staging", ""
			target.Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobSuccessful, CreatedAt: day1, CompletedAt: day1.Add(time.Hour)}}
		case i%100 == 1:
			target.Current = ""
			target.Jobs = []rollout.Job{
				{Version: "v2", Status: rollout.JobFailure, CreatedAt: day1.Add(9 * time.Hour), CompletedAt: day1.Add(9*time.Hour + time.Minute)},
				{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: day1.Add(-time.Hour), CompletedAt: day1},
			}
		}
		s.Targets = append(s.Targets, target)
	}
	return s, now
}

// BenchmarkPlanAllRules is a full plan under a rule of every kind, with scoped versions, windows,
// rollbacks and an override.
func BenchmarkPlanAllRules(b *testing.B) {
	set := compile(b, allRules())
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s, now := fleetOfAllRules(n)
			benchmarkPlan(b, set, s, now)
		})
	}
}

var explained rollout.Explanation

// BenchmarkExplain explains one target of a fleet that is planned already.
func BenchmarkExplain(b *testing.B) {
	set := compile(b, allRules())
	for _, n := range sizes() {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			s, now := fleetOfAllRules(n)
			plan := mustPlan(b, set, s, now)
			id := s.Targets[n/2+3].TargetID
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if explained, err = plan.Explain(id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestExplainAllocations: what an explanation allocates does not grow with the fleet.
func TestExplainAllocations(t *testing.T) {
	set := compile(t, allRules())
	large := 100_000
	if testing.Short() {
		large = 10_000
	}
	var counts []float64
	for _, n := range []int{1_000, large} {
		s, now := fleetOfAllRules(n)
		plan := mustPlan(t, set, s, now)
		for _, id := range []rollout.TargetID{s.Targets[3].TargetID, s.Targets[20].TargetID, s.Targets[101].TargetID} {
			counts = append(counts, testing.AllocsPerRun(10, func() {
				if _, err := plan.Explain(id); err != nil {
					t.Fatal(err)
				}
			}))
		}
	}
	for k := range 3 {
		if counts[k] == 0 || counts[k+3] > counts[k]+2 {
			t.Errorf("allocations of three targets in a small fleet %v, in a large one %v", counts[:3], counts[3:])
		}
	}
}

// TestPlanAllocations: a plan under all rules allocates less often than there are targets: results
// are kept in slabs.
func TestPlanAllocations(t *testing.T) {
	set := compile(t, allRules())
	var counts []float64
	for _, n := range []int{2_000, 20_000} {
		s, now := fleetOfAllRules(n)
		counts = append(counts, testing.AllocsPerRun(2, func() { sink = mustPlan(t, set, s, now) }))
	}
	t.Logf("allocations %v", counts)
	if per := (counts[1] - counts[0]) / 18_000; per > 0.3 {
		t.Errorf("%.2f allocations per target", per)
	}
}

// TestDoneAllocations: where every execution has ended, the jobs of the fleet are looked at and not
// listed: what a plan allocates for them does not grow with it.
func TestDoneAllocations(t *testing.T) {
	set := compile(t, nodeLifecycle(t))
	var counts []float64
	for _, n := range []int{500, 5_000} {
		s, now := doneFleet(t, n)
		counts = append(counts, testing.AllocsPerRun(2, func() {
			var err error
			if sink, err = set.Plan(s, now); err != nil {
				t.Fatal(err)
			}
		}))
	}
	if counts[1] > counts[0]+20 {
		t.Errorf("allocations %v", counts)
	}
}

// TestJobsInAnyOrderAllocations: jobs that are listed with the oldest first, as most hosts do it,
// cost copies of them, and no allocation per target.
func TestJobsInAnyOrderAllocations(t *testing.T) {
	const n = 5_000
	set := compile(t, nodeLifecycle(t))
	newest, oldest := withHistory(largeFleet(n)), withHistory(largeFleet(n))
	for i := range oldest.Targets {
		slices.Reverse(oldest.Targets[i].Jobs)
	}
	cost := func(s rollout.Snapshot) float64 {
		return testing.AllocsPerRun(2, func() { sink = mustPlan(t, set, s, day2) })
	}
	if newest, oldest := cost(newest), cost(oldest); oldest > newest+n/50 {
		t.Errorf("%.0f allocations, %.0f where the newest job is listed first", oldest, newest)
	}
	if diff := cmp.Diff(text(t, mustPlan(t, set, newest, day2)), text(t, mustPlan(t, set, oldest, day2))); diff != "" {
		t.Error(diff)
	}
}
