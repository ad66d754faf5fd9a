package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestStateLost loses the state, or goes back to an older one, while the jobs are still known.
func TestStateLost(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}},
		{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	// run lets every job succeed after a minute until one of a version has started on a deployment, and returns the states that were saved.
	run := func(s *rollout.Snapshot, now *time.Time, until string) (saved []rollout.State) {
		for range 50 {
			plan := mustPlan(t, set, *s, *now)
			carryOut(t, s, plan, *now, rollout.JobInProgress)
			saved = append(saved, s.State)
			if until != "" && slices.Contains(started(plan), until) {
				return saved
			}
			*now = now.Add(time.Minute)
			for k := range s.Targets {
				for j := range s.Targets[k].Jobs {
					if job := &s.Targets[k].Jobs[j]; !job.Status.Terminal() {
						job.Status, job.CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, *now, job.Version
					}
				}
			}
		}
		return saved
	}
	ran := func(s rollout.Snapshot, from time.Time) string {
		var jobs []rollout.Job
		for _, target := range s.Targets {
			for _, job := range target.Jobs {
				if job.Run += " " + job.Version; !job.CreatedAt.Before(from) && target.Resource == "r1" {
					jobs = append(jobs, job)
				}
			}
		}
		slices.SortFunc(jobs, func(a, b rollout.Job) int { return a.CreatedAt.Compare(b.CreatedAt) })
		var list []string
		for _, job := range jobs {
			list = append(list, strings.TrimPrefix(job.Run, "B%2Fprod%2F"))
		}
		return strings.Join(list, ", ")
	}
	for _, row := range []struct {
		why   string
		first string // starts before the state goes
		then  string // another version is released once all is done, and this starts before the state goes; none: it goes first
		lose  func(saved []rollout.State) rollout.State
		want  string // runs on r1 from then on
	}{
		{"it is lost while the node is being drained: the execution goes on", "r1/drain@v1", "", func([]rollout.State) rollout.State { return rollout.State{} },
			"1/r1/drain/1/1/deploy v1, 1/r1/a/1/1/deploy v2, 1/r1/uncordon/1/1/deploy v1"},
		{"while the drained node is upgraded: it is not drained twice, and gets back into use", "r1/a@v2", "", func([]rollout.State) rollout.State { return rollout.State{} },
			"1/r1/a/1/1/deploy v2, 1/r1/uncordon/1/1/deploy v1"},
		{"in a later group: what ran under the number that comes first is of another one, and what ran under the last is its own", "r1/uncordon@v1", "r1/drain@v1",
			func([]rollout.State) rollout.State { return rollout.State{} }, "2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
		{"when only the uncordon was left of a later group", "r1/uncordon@v1", "r1/uncordon@v1",
			func([]rollout.State) rollout.State { return rollout.State{} }, "2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
		{"before the release of another version: what was done long ago is no run of its group, which takes a number that nobody had", "r1/uncordon@v1", "none",
			func([]rollout.State) rollout.State { return rollout.State{} }, "2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
		{"a backup from before the group: it is closed once more, and goes on", "r1/uncordon@v1", "r1/a@v3", func(saved []rollout.State) rollout.State { return saved[0] },
			"2/r1/drain/1/1/deploy v1, 2/r1/a/1/1/deploy v3, 2/r1/uncordon/1/1/deploy v1"},
	} {
		s, now := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}, "uncordon": {"v1"}}), t0
		saved, from := run(&s, &now, row.first), now
		if row.then != "" {
			run(&s, &now, "")
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: now})
			saved, from = []rollout.State{s.State}, now
			if row.then != "none" {
				run(&s, &now, row.then)
			}
		}
		s.State = row.lose(saved)
		run(&s, &now, "")
		if got := ran(s, from); got != row.want {
			t.Errorf("%s: ran %s", row.why, got)
		}
	}
}

// TestStateLostInTwoEnvironments: the environment that is asked first does not begin anything on a node on which an execution of the other one is found
// again: it could not be committed.
func TestStateLostInTwoEnvironments(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`))
	s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "drain": {"v1"}}), "staging")
	prod := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Environment == "prod" && t.Deployment == "a" })
	s.Targets[prod].Current = "v2"
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.State, s.Targets[prod].Current = rollout.State{}, "v1"
	plan := mustPlan(t, set, s, minute(1))
	if got := blockers(plan); len(plan.Start) > 0 || !slices.Contains(got, "r1/a@v2: bracket_queued") || !slices.Contains(got, "r1/a@v2: bracket_waits_for_members") {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}

// TestStateLostBeforeALaterGroup: the state is lost while a second group is at work, of which the release has been dated anew, so that only the first
// one closes again. Its execution is over, although the jobs of one member are forgotten: that member is not given the first group's version
// after the second one's.
func TestStateLostBeforeALaterGroup(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":1200}}`))
	s := fleet(2, "", map[string][]string{"a": {"v1"}, "d": {"v1"}})
	s.Versions = append(s.Versions, rollout.Version{ID: "v2", Tag: "v2", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(46)})
	work := func(resource, deployment string, current string, job rollout.Job) {
		for i := range s.Targets {
			if target := &s.Targets[i]; target.Resource == resource && target.Deployment == deployment {
				target.Current, target.Jobs = current, []rollout.Job{job}
			}
		}
	}
	done := rollout.Job{Run: "B%2Fprod%2F1/r1/d/1/1/deploy", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(20), CompletedAt: minute(21)}
	later := rollout.Job{Run: "B%2Fprod%2F2/r1/a/1/1/deploy", Version: "v2", Status: rollout.JobInProgress, CreatedAt: minute(45)}
	work("r1", "d", "v1", done)
	work("r1", "a", "", later)
	done.Run = "B%2Fprod%2F1/r2/d/1/1/deploy"
	work("r2", "d", "v1", done) // here nothing is later: the execution goes on
	plan := mustPlan(t, set, s, minute(47))
	if got := started(plan); !slices.Equal(got, []string{"r2/a@v1"}) {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
	carryOut(t, &s, plan, minute(47), rollout.JobInProgress)
	later.Status, later.CompletedAt = rollout.JobSuccessful, minute(48)
	work("r1", "a", "v2", later)
	plan = mustPlan(t, set, s, minute(48))
	if got := started(plan); len(got) > 0 {
		t.Errorf("after the job of the second group: starts %q", got)
	}
}
