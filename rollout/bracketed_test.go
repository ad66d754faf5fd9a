package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testseed"
	"github.com/tranche-dev/tranche/rollout"
)

// TestI16OnePositionPerResource: all members of a bracket that wait for their turn on one resource have the same position and the same instant.
func TestI16OnePositionPerResource(t *testing.T) {
	env, seen := newEnv(t), testseed.Tally{}
	checkWorlds(t, env, seen, 100, nil, func(t *rapid.T, w *world) {
		type place struct{ environment, resource, rule string }
		turns := map[place]rollout.Verdict{}
		for _, wait := range w.plan.Waiting {
			for _, b := range wait.Blockers {
				if b.Reason != "bracket_not_due" || b.Data == nil || wait.Version == "" {
					continue
				}
				at := place{wait.Environment, wait.Resource, b.Rule}
				first, known := turns[at]
				if known && (!first.Until.Equal(b.Until) || first.Data.Position != b.Data.Position) {
					t.Fatalf("on %s: %v and %v\n%v", wait.Resource, first, b, w)
				}
				if turns[at] = b; known {
					seen["shared turn"]++
				}
			}
		}
	}, "shared turn")
}

// TestApprovalOpensTheWindow: a version that waits for an approval is not collected; the window starts when it is given, and not when it was published.
func TestApprovalOpensTheWindow(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"anyApproval":{"minApprovals":1}},{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}`))
	now := t0.Add(time.Hour)
	plan := mustPlan(t, set, s, now)
	if got := blockers(plan); len(plan.State.Brackets) != 0 || len(got) != 1 || !strings.Contains(got[0], "approval_missing") {
		t.Errorf("before: %q, %d groups", got, len(plan.State.Brackets))
	}
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: now}}
	plan = mustPlan(t, set, s, now.Add(time.Minute))
	if got := blockers(plan); !slices.Equal(got, []string{"r1/api@v2: bracket_collecting"}) || !plan.Next.Equal(now.Add(10*time.Minute)) {
		t.Errorf("collecting: %q until %v", got, plan.Next)
	}
	s.State = plan.State
	if plan = mustPlan(t, set, s, now.Add(10*time.Minute)); !slices.Equal(started(plan), []string{"r1/api@v2"}) {
		t.Errorf("closed: starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestOthersApprovalDelaysNobody: one of two nodes needs an approval besides. The other one's group is the same whether the plan is made in time or long
// after the approval, which used to count for both.
func TestOthersApprovalDelaysNobody(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Resources[1].Metadata = map[string]string{"cluster": "west"}
	set := compile(t, `[{"name":"all","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}]},
		{"name":"west","selector":"resource.metadata['cluster'] == 'west'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	timely := s
	for _, step := range []struct {
		minute int
		starts []string
	}{{0, nil}, {10, []string{"r1/api@v2"}}, {60, []string{"r1/api@v2", "r2/api@v2"}}} {
		if step.minute == 60 {
			timely.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(60)}}
		}
		plan := mustPlan(t, set, timely, at(step.minute))
		if timely.State = plan.State; !slices.Equal(started(plan), step.starts) {
			t.Errorf("minute %d: starts %q, waits %q", step.minute, started(plan), blockers(plan))
		}
	}
	s.Approvals = timely.Approvals
	late := mustPlan(t, set, s, at(61))
	if got := late.State.Brackets[0].Closed[0]; !slices.Equal(started(late), []string{"r1/api@v2", "r2/api@v2"}) || !got.OpenedAt.Equal(t0) || !got.ReadyAt.Equal(at(10)) {
		t.Errorf("late: starts %q, waits %q, opened %v, closed %v", started(late), blockers(late), got.OpenedAt, got.ReadyAt)
	}
}

// TestRetryInsideBracket: attempts count per group, the delay from the end of the attempt, and without a rule the first failure holds the slot.
func TestRetryInsideBracket(t *testing.T) {
	for _, row := range []struct {
		why   string
		retry string
		fails int
		want  []string // instants of the starts after t0, and their runs
		held  bool
	}{
		{"without a rule it is held", "", 1, []string{"0s 1"}, true},
		{"two failures, exponential delays", `,{"retry":{"maxRetries":3,"backoffSeconds":60,"backoffStrategy":"exponential"}}`, 2, []string{"0s 1", "2m0s 2", "5m0s 3"}, false},
		{"one failure too many", `,{"retry":{"maxRetries":1,"backoffSeconds":60}}`, 2, []string{"0s 1", "2m0s 2"}, true},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`+row.retry))
		var got []string
		now, failed := t0, 0
		for range 20 {
			plan := mustPlan(t, set, s, now)
			for _, start := range plan.Start {
				parts := strings.Split(start.Run, "/")
				got = append(got, now.Sub(t0).String()+" "+parts[len(parts)-2])
				status := rollout.JobSuccessful
				if failed < row.fails {
					status, failed = rollout.JobFailure, failed+1
				}
				state, err := plan.Commit(plan.Start, now)
				if err != nil {
					t.Fatal(err)
				}
				s.State = state
				j := job(start, now, status)
				j.CompletedAt = now.Add(time.Minute)
				add(&s, start, j)
			}
			if len(plan.Start) > 0 {
				now = now.Add(time.Minute)
				continue
			}
			s.State = plan.State
			if plan.Next.IsZero() {
				break
			}
			now = plan.Next
		}
		if held := len(leases(s.State)) == 1; !slices.Equal(got, row.want) || held != row.held {
			t.Errorf("%s: starts %q, want %q; held %v", row.why, got, row.want, held)
		}
	}
}
