package rollout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tranche-dev/tranche/rollout"
)

// TestIncumbents edits the limits while r1 is at work: r2 does not take the place of a node that is down already, and r1 is finished whatever the new
// pool says.
func TestIncumbents(t *testing.T) {
	t.Parallel()
	const bracketed = `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`
	const retried = `{"id":"R","retry":{"maxRetries":1,"backoffSeconds":600}}`
	limit := func(id, more string) string {
		return `{"id":"` + id + `","resourceConcurrency":{"groupSelector":"true",` + more + `}}`
	}
	zone := func(id string, k int) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Resources[k].Metadata = map[string]string{"zone": id} }
	}
	for _, row := range []struct {
		why           string
		rules         string // in force besides the limits
		before, after string // limits
		fleet         func(*rollout.Snapshot)
		edit          func(*rollout.Snapshot)
		ended         rollout.JobStatus // of the job on r1, when the rules are edited
		wait          string            // reason of r2 after that
		then          string            // starts once that job has succeeded
		reason        rollout.Reason    // of the first of them
	}{
		{why: "the rule is renamed", rules: bracketed, before: limit("P", `"limit":1`), after: limit("Q", `"limit":1`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "it joins a shared pool", rules: bracketed, before: limit("P", `"limit":1`), after: limit("P", `"limit":1,"sharedPool":"s"`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "it makes a pool of each zone", rules: bracketed, before: limit("P", `"limit":1`), after: limit("P", `"limit":1,"groupBy":"resource.metadata['zone']"`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "it is new", rules: bracketed, before: `{"versionCooldown":{"intervalSeconds":0}}`, after: limit("P", `"limit":1`), wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "a rename that is also a pause: what was drained is finished", rules: bracketed, before: limit("P", `"limit":1`), after: limit("Q", `"limit":0`), wait: "slot_paused", then: "r1/b@v2", reason: "slot_held"},
		{why: "the node moves to the zone of another one", rules: bracketed, before: limit("P", `"limit":1,"groupBy":"resource.metadata['zone']"`), fleet: zone("west", 1), edit: zone("west", 0),
			wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "the records of the pools are lost", rules: bracketed, before: limit("P", `"limit":1`), edit: func(s *rollout.Snapshot) { s.State.Pools = nil }, wait: "slot_full", then: "r1/b@v2", reason: "slot_held"},
		{why: "outside brackets, too", rules: retried, before: limit("P", `"limit":1`), after: limit("Q", `"limit":1`), wait: "slot_full", then: "r2/a@v2", reason: "slot_free"},
		{why: "where all state is lost", rules: retried, before: limit("P", `"limit":1`), edit: func(s *rollout.Snapshot) { s.State = rollout.State{} }, wait: "slot_full", then: "r2/a@v2", reason: "slot_free"},
		{why: "between two attempts the lease of the old pool says so", rules: retried, before: limit("P", `"limit":1`), after: limit("Q", `"limit":1`), ended: rollout.JobFailure, wait: "slot_full"},
		{why: "a job that the rule does not govern does not count", rules: retried, before: `{"versionCooldown":{"intervalSeconds":0}}`, after: limit("P", `"limit":1`),
			edit: func(s *rollout.Snapshot) {
				s.Targets[0].Environment, s.Environments = "test", append(s.Environments, rollout.Environment{ID: "test"})
			}},
	} {
		t.Run(row.why, func(t *testing.T) {
			rules := func(limits string) *rollout.PolicySet {
				return compile(t, `{"name":"p","selector":"environment.id == 'prod'","rules":[`+strings.Join([]string{row.rules, limits}, ",")+`]}`)
			}
			versions := map[string][]string{"a": {"v1", "v2"}}
			if row.rules == bracketed {
				versions["b"] = []string{"v1", "v2"}
			}
			s := fleet(2, "v1", versions)
			if row.fleet != nil {
				row.fleet(&s)
			}
			plan := mustPlan(t, rules(row.before), s, t0)
			plan.Start = slices.DeleteFunc(plan.Start, func(s rollout.Start) bool { return s.Resource != "r1" }) // the host is slow with the others
			carryOut(t, &s, plan, t0, rollout.JobInProgress)
			end := func(status rollout.JobStatus, at int) {
				for k := range s.Targets {
					for j := range s.Targets[k].Jobs {
						if job := &s.Targets[k].Jobs[j]; status != "" {
							job.Status, job.CompletedAt = status, minute(at)
						}
					}
				}
			}
			end(row.ended, 1)
			if row.edit != nil {
				row.edit(&s)
			}
			if row.after == "" {
				row.after = row.before
			}
			plan = mustPlan(t, rules(row.after), s, minute(2))
			waits := map[rollout.Reason]bool{}
			for _, wait := range plan.Waiting {
				for _, b := range wait.Blockers {
					waits[b.Reason] = waits[b.Reason] || wait.Resource == "r2"
				}
			}
			if row.wait == "" && len(plan.Start) != 1 || row.wait != "" && (len(plan.Start) > 0 || !waits[rollout.Reason(row.wait)]) {
				t.Fatalf("starts %q, waits %q", started(plan), blockers(plan))
			}
			if row.then == "" {
				return
			}
			end(rollout.JobSuccessful, 3)
			s.State = plan.State
			if plan = mustPlan(t, rules(row.after), s, minute(3)); !slices.Equal(started(plan), []string{row.then}) || plan.Start[0].Reason != row.reason {
				t.Errorf("then starts %q, waits %q", started(plan), blockers(plan))
			}
		})
	}
}
