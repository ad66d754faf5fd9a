package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestCooldown: what a target last got keeps the next version away for a while. v1, v2 and v3 were
// created 60, 20 and 0 minutes before t0; the interval is half an hour.
func TestCooldown(t *testing.T) {
	success, failure := rollout.JobSuccessful, rollout.JobFailure
	for _, row := range []struct {
		why   string
		jobs  []rollout.Job // newest last
		now   int           // minutes after t0
		start string
		waits string
	}{
		{"nothing was deployed yet", nil, 0, "v3", ""},
		{"the version before is old enough", []rollout.Job{ran("v1", success, -5)}, 0, "v3", ""},
		{"it is too young", []rollout.Job{ran("v2", success, -5)}, 0, "", "cooldown c 01 00:10:00"},
		{"at the end of the interval it is old enough", []rollout.Job{ran("v2", success, -5)}, 10, "v3", ""},
		{"it counts from the creation and not from the deployment", []rollout.Job{ran("v2", success, 9)}, 10, "v3", ""},
		{"an active job counts before a success", []rollout.Job{ran("v1", success, -50), {Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(-1)}}, 0, "",
			"cooldown c 01 00:10:00; target_busy"},
		{"a status that nobody knows is active", []rollout.Job{ran("v1", success, -50), {Version: "v2", Status: "odd", CreatedAt: minute(-1)}}, 0, "", "cooldown c 01 00:10:00; target_busy"},
		{"a failure does not count, but what it failed on is begun", []rollout.Job{ran("v1", success, -50), ran("v2", failure, -5)}, 0, "v3", ""},
		{"a success whose verification failed does not count", []rollout.Job{ran("v1", success, -50), verified(ran("v2", success, -5), "failed")}, 0, "v3", ""},
		{"nor one that is being verified", []rollout.Job{ran("v1", success, -50), verified(ran("v2", success, -5), "running")}, 0, "v3", ""},
		{"nor one of which nobody understands the verification", []rollout.Job{ran("v1", success, -50), verified(ran("v2", success, -5), "odd")}, 0, "v3", ""},
		{"one that passed does", []rollout.Job{ran("v1", success, -50), verified(ran("v2", success, -5), "passed")}, 0, "", "cooldown c 01 00:10:00"},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(1, "", map[string][]string{"api": {"v1", "v2", "v3"}})
			for k, at := range []int{-60, -20, 0} {
				s.Versions[k].CreatedAt = minute(at)
			}
			s.Targets[0].Jobs = row.jobs
			plan := mustPlan(t, compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":1800}}`)), s, minute(row.now))
			starts := ""
			if len(plan.Start) > 0 {
				starts = plan.Start[0].Version
			}
			if got := waits(plan); starts != row.start || got != row.waits {
				t.Errorf("starts %q, waits for %q; want %q, %q", starts, got, row.start, row.waits)
			}
		})
	}
}

// TestCooldownPrunedJobs: a host that keeps no jobs says what is current.
func TestCooldownPrunedJobs(t *testing.T) {
	s := fleet(1, "v2", map[string][]string{"api": {"v1", "v2", "v3"}})
	set := compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":7200}}`))
	if got := waits(mustPlan(t, set, s, t0)); got != "cooldown c 01 01:00:00" {
		t.Errorf("waits for %q", got)
	}
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -5)}
	if got := waits(mustPlan(t, set, s, t0)); got != "cooldown c 01 01:00:00" {
		t.Errorf("it has kept a failure: waits for %q", got)
	}
	s.Targets[0].Jobs = []rollout.Job{verified(ran("v2", rollout.JobSuccessful, -5), "failed")}
	if got := waits(mustPlan(t, set, s, t0)); got != "" {
		t.Errorf("it has kept the job, which does not count: waits for %q", got)
	}
	s.Targets[0].Jobs = nil
	none := compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":0}}`))
	if got := started(mustPlan(t, none, s, t0)); len(got) != 1 {
		t.Errorf("an interval of 0 keeps nothing apart: starts %q", got)
	}
}

// TestCooldownBatchesReleases: of releases that follow one another quickly those in between are
// skipped.
func TestCooldownBatchesReleases(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v0", "v1", "v2", "v3", "v4", "v5", "v6"}})
	for k := range s.Versions {
		s.Versions[k].CreatedAt = minute(10 * k)
	}
	set := compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":1500}}`))
	var got []string
	for now := t0; !now.IsZero(); {
		plan := mustPlan(t, set, s, now)
		carryOut(t, &s, plan, now, rollout.JobSuccessful)
		for _, start := range plan.Start {
			got = append(got, start.Version+now.Format(" 15:04"))
		}
		now = mustPlan(t, set, s, now).Next
	}
	// v0 at once; 25 minutes after v0 was created v2 is the newest; then 25 minutes after v2, and
	// again.
	if want := []string{"v0 00:00", "v2 00:25", "v4 00:45", "v6 01:05"}; !slices.Equal(got, want) {
		t.Errorf("starts %q, want %q", got, want)
	}
}

// TestCooldownOfTheSameVersion: what a target runs already is not kept apart from itself, when a
// bracket runs it once more with a new version of another member.
func TestCooldownOfTheSameVersion(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1"}, "b": {"v1", "v2"}})
	for k := range s.Versions {
		if v := &s.Versions[k]; v.Deployment == "b" && v.ID == "v1" {
			v.CreatedAt = t0.AddDate(0, 0, -1)
		}
	}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","unchangedMemberStrategy":"redeploy_current","memberRoles":{}}},{"versionCooldown":{"intervalSeconds":7200}}`))
	if got := started(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r1/a@v1", "r1/b@v2"}) {
		t.Errorf("starts %q", got)
	}
}

// TestCooldownInBracket: an execution waits until every member is old enough; what holds several of
// them alike is said once.
func TestCooldownInBracket(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"c","versionCooldown":{"intervalSeconds":7200}}`))
	plan := mustPlan(t, set, s, t0)
	if got := waits(plan); got != "bracket_not_due b 01 01:00:00; cooldown c 01 01:00:00" || len(plan.Start) != 0 {
		t.Fatalf("starts %q, waits for %q", started(plan), got)
	}
	s.State = plan.State
	if got := started(mustPlan(t, set, s, t0.Add(time.Hour))); len(got) != 2 {
		t.Errorf("starts %q", got)
	}
}

// TestCooldownOfAnActiveJob: a cooldown that counts from a job in progress names the job, because
// it ends earlier if the job fails.
func TestCooldownOfAnActiveJob(t *testing.T) {
	set := compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":7200}}`))
	s := fleet(1, "v1", map[string][]string{"web": {"v1", "v2", "v3"}})
	s.Versions[0].CreatedAt = t0.AddDate(0, 0, -1)
	s.Targets[0].Jobs = []rollout.Job{{Run: "by hand", Version: "v2", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Minute)}}
	want := "cooldown after v2 until 2025-01-01T01:00:00Z, waits for the end of a job of web on r1"
	if got := waitingOf(mustPlan(t, set, s, t0))[0].Blockers[0].String(); got != want {
		t.Errorf("waits for %q, want %q", got, want)
	}
	s.Targets[0].Jobs[0].Status = rollout.JobFailure
	if got := started(mustPlan(t, set, s, t0.Add(time.Minute))); !slices.Equal(got, []string{"r1/web@v3"}) {
		t.Errorf("after the failure: starts %q", got)
	}
}
