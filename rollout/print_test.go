package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestPlanPrints: fmt shows of a plan what a person asks, in a length that does not grow with the
// fleet.
func TestPlanPrints(t *testing.T) {
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"none"}},{"id":"p","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(5, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1"}})
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: "aproved", At: t0}}
	for _, row := range []struct {
		why  string
		edit func(*rollout.Snapshot)
		want string
	}{
		{"waits for the same reasons share a line, the most frequent first", func(*rollout.Snapshot) {}, `plan at 2025-01-01T00:01:01Z: 1 start, 4 wait, 0 in progress, 5 current, next 2025-01-01T00:02:00Z
start      r1 / prod / api: deploy v2 as r1/prod/api/v2/1, slot_free
wait       r3 / prod / api: v2 waits: rollout_not_due (turn 4 of 5) until 2025-01-01T00:03:00Z; and 2 more likewise
wait       r2 / prod / api: v2 waits: slot_full, waits for a free slot in p
pool       p: 1 of 1 active
diagnostic approval_status_unknown: aproved is no known status, so such an approval does not count (prod / api)`},
		{"nothing is left to do", func(s *rollout.Snapshot) {
			s.Approvals = nil
			for k := range s.Targets {
				s.Targets[k].Current, s.Targets[k].Jobs = map[string]string{"api": "v2", "web": "v1"}[s.Targets[k].Deployment], nil
			}
		}, `plan at 2025-01-01T00:01:01Z: 0 start, 0 wait, 0 in progress, 10 current
pool       p: 0 of 1 active`},
	} {
		s := s
		row.edit(&s)
		if got := fmt.Sprint(mustPlan(t, set, s, minute(1).Add(time.Second))); got != row.want {
			t.Errorf("%s: printed\n%s\nwant\n%s", row.why, got, row.want)
		}
	}

	var long rollout.Plan
	var waiting []rollout.Waiting
	for k := range 25 {
		id := rollout.TargetID{Resource: fmt.Sprintf("r%02d", k), Environment: "prod", Deployment: "api"}
		long.Start = append(long.Start, rollout.Start{TargetID: id, Version: "v2"})
		long.Orphans = append(long.Orphans, concurrency.Lease{Holder: concurrency.Holder{Resource: id.Resource}})
		for n := range 2 {
			id.Deployment = fmt.Sprint("d", n)
			waiting = append(waiting, rollout.Waiting{TargetID: id, Blockers: []rollout.Verdict{{Reason: rollout.Reason(fmt.Sprint("reason_", k/2))}}})
		}
	}
	long.Waiting = rollout.NewWaitingList(waiting...)
	text := long.String()
	if n := strings.Count(text, "\n"); n != 3*11 {
		t.Errorf("%d lines:\n%s", n, text)
	}
	for _, want := range []string{
		"\nstart      and 15 more\n", "\norphan     and 15 more",
		"\nwait       r00 / prod / d0: waits: reason_0; and 3 more likewise, of d0, d1\n", "\nwait       and 10 more, for 3 other sets of reasons\n", // two resources of two targets each, three times, but one in the last
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	const alike = "r00 / prod / d0: waits: reason_0; and 1 more likewise, of d0, d1\nr01 / prod / d0: waits: reason_0"
	waiting = []rollout.Waiting{waiting[0], waiting[1], waiting[2]}
	waiting[2].Blockers = []rollout.Verdict{{Reason: "reason_0", Rule: "another"}}
	if text := fmt.Sprint(rollout.NewWaitingList(waiting...)); text != alike {
		t.Errorf("the same reason of another rule: printed\n%s\nwant\n%s", text, alike)
	}
	closed := rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Rule: "weekdays", Until: t0}
	friday := closed
	friday.Rule = "friday"
	waiting = []rollout.Waiting{{TargetID: waiting[0].TargetID, Blockers: []rollout.Verdict{closed, {Reason: "reason_0"}, friday}}}
	if text, want := fmt.Sprint(rollout.NewWaitingList(waiting...)), "r00 / prod / d0: waits: window_closed until 2025-01-01T00:00:00Z; reason_0"; text != want {
		t.Errorf("two windows that open at one instant: printed\n%s\nwant\n%s", text, want)
	}
	waiting = nil
	for n := range 11 {
		waiting = append(waiting, rollout.Waiting{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: fmt.Sprintf("d%02d", n)}, Blockers: []rollout.Verdict{{Reason: "reason_0"}}})
	}
	if text, want := fmt.Sprint(rollout.NewWaitingList(waiting...)), "r1 / prod / d00: waits: reason_0; and 10 more likewise, of d00, d01, d02, d03, d04, d05, d06, d07, d08, d09 and others"; text != want {
		t.Errorf("many deployments: printed\n%s\nwant\n%s", text, want)
	}
	if text := fmt.Sprint(rollout.WaitingList{}); text != "" {
		t.Errorf("an empty list prints %q", text)
	}
}

// TestTargetPrints: a target says more than its id.
func TestTargetPrints(t *testing.T) {
	id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}
	jobs := []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0}, {Version: "v2", Status: "in_progress", CreatedAt: minute(1)}}
	for _, row := range []struct {
		in   rollout.Target
		want string
	}{
		{rollout.Target{TargetID: id}, "r1 / prod / api runs nothing"},
		{rollout.Target{TargetID: id, Current: "v1"}, "r1 / prod / api runs v1"},
		{rollout.Target{TargetID: id, Jobs: jobs}, "r1 / prod / api runs what succeeded last, newest job of 2: v2, in_progress, created 2025-01-01T00:01:00Z"},
		{rollout.Target{TargetID: id, Current: "v0", Jobs: jobs[:1]}, "r1 / prod / api runs v0, newest job of 1: v1, successful, created 2025-01-01T00:00:00Z"},
	} {
		if got := fmt.Sprint(row.in); got != row.want {
			t.Errorf("printed %q, want %q", got, row.want)
		}
	}
}
