package rollouttest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// TestWorldsWithWindowsEnd: windows come again for ever, and a plan's Next with them. A world in
// which they open for nobody is over all the same, and one in which they will open for somebody is
// not.
func TestWorldsWithWindowsEnd(t *testing.T) {
	t.Parallel()
	const daily = `{"deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0","durationMinutes":480}}`
	fails := func(rollout.Start, int) rollouttest.Outcome {
		return rollouttest.Outcome{After: time.Minute, Status: rollout.JobFailure}
	}
	freeze := func(until time.Time) rollout.Freeze {
		return rollout.Freeze{ID: "z", CreatedAt: at(1, 0, 0), ExpiresAt: until, CreatedBy: "bob", Reason: "INC-7"}
	}
	bracketed := func(w *rollouttest.World) { // web on r1, while api waits for its approval
		w.Policies = compiled(t, `[{"name":"web","selector":"deployment.name == 'web'","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"run_post"}}]},
			{"name":"api","selector":"deployment.name == 'api'","rules":[`+daily+`,{"anyApproval":{"minApprovals":1}}]}]`)
		w.Fleet.Deployments = append(w.Fleet.Deployments, rollout.Deployment{ID: "web", Name: "web"})
		w.Fleet.Versions = append(w.Fleet.Versions, version("web", "w1", at(0, 8, 0)), version("web", "w2", at(0, 8, 30)))
		w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "web"}, Current: "w1"})
	}
	for _, row := range []struct {
		why    string
		rules  string
		edit   func(*rollouttest.World)
		starts []string
		stuck  int
		most   int // plans
		least  int
	}{
		{why: "an approval that nobody gives", rules: daily + `,{"anyApproval":{"minApprovals":1}}`, most: 1},
		{why: "attempts are used up", rules: daily + `,{"retry":{"maxRetries":1,"backoffSeconds":86400}}`,
			edit:   func(w *rollouttest.World) { w.Job = fails },
			starts: []string{"r1 v2 at 2026-03-10 09:00", "r2 v2 at 2026-03-10 09:00", "r1 v2 at 2026-03-11 09:01", "r2 v2 at 2026-03-11 09:01"}, most: 14},
		{why: "a target that fails for ever starves nobody, once its attempts are used up", most: 30,
			rules: `{"resourceConcurrency":{"limitType":"count","limitValue":1,"groupSelector":"true"}},{"retry":{"maxRetries":1,"backoffSeconds":60}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
					if start.Resource == "r1" {
						return fails(start, 0)
					}
					return rollouttest.Outcome{After: time.Minute, Status: rollout.JobSuccessful}
				}
			},
			starts: []string{"r1 v2 at 2026-03-10 00:00", "r1 v2 at 2026-03-10 00:02", "r2 v2 at 2026-03-10 00:03"}},
		{why: "a deployment that is not there", rules: daily + `,{"deploymentDependency":{"dependsOn":"deployment.name == 'web'"}}`, most: 1},
		{why: "a cooldown is told to its end, although an approval is missing as well", most: 20, least: 15,
			rules: daily + `,{"anyApproval":{"minApprovals":1}},{"versionCooldown":{"intervalSeconds":2592000}}`},
		{why: "a window that opens once in thirty weeks",
			rules:  `{"deploymentWindow":{"rrule":"FREQ=WEEKLY;INTERVAL=30;BYDAY=MO;BYHOUR=9;BYMINUTE=0;BYSECOND=0","durationMinutes":60,"anchor":"2026-03-02T09:00:00Z"}}`,
			starts: []string{"r1 v2 at 2026-09-28 09:00", "r2 v2 at 2026-09-28 09:00"}, most: 4},
		{why: "the newest version is not deployable, and the one before waits for the window", rules: daily,
			edit: func(w *rollouttest.World) {
				w.Fleet.Versions = append(w.Fleet.Versions, rollout.Version{ID: "v3", Deployment: "api", Status: "building", CreatedAt: at(1, 0, 0)})
			},
			starts: []string{"r1 v2 at 2026-03-10 09:00", "r2 v2 at 2026-03-10 09:00"}, most: 5},
		{why: "a target needs another run in a few days, while the other one waits for its approval",
			rules: daily + `,{"anyApproval":{"minApprovals":1}}`,
			edit: func(w *rollouttest.World) {
				w.Fleet.Targets[0].Current, w.Fleet.Targets[0].OutdatedAt = "v2", at(4, 0, 0)
			},
			starts: []string{"r1 v2 at 2026-03-13 09:00"}, most: 13},
		{why: "a version is published in a few days", rules: daily + `,{"versionSelector":{"selector":"version.id != 'v2'"}}`,
			edit: func(w *rollouttest.World) {
				w.Fleet.Versions = append(w.Fleet.Versions, version("api", "v3", at(4, 12, 0)))
			},
			starts: []string{"r1 v3 at 2026-03-13 12:00", "r2 v3 at 2026-03-13 12:00"}, most: 14},
		{why: "an override keeps a version that failed until it expires, while the window opens and closes for nobody", most: 14,
			rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}},` + daily + `,{"retry":{"maxRetries":0}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
					if start.Version == "v2" {
						return fails(start, 0)
					}
					return rollouttest.Outcome{After: time.Minute}
				}
				w.Fleet.Overrides = []rollout.Override{
					{ID: "kept", Rule: "back", Version: "v2", Resource: "r2", CreatedAt: at(1, 0, 0), ExpiresAt: at(4, 12, 0), CreatedBy: "ann", Reason: "to look at it"},
					{ID: "elsewhere", Rule: "back", Version: "v1", CreatedAt: at(1, 0, 0), ExpiresAt: at(5, 12, 0), CreatedBy: "ann", Reason: "to look at it"},
				}
			},
			starts: []string{"r1 v2 at 2026-03-10 09:00", "r2 v2 at 2026-03-10 09:00", "r1 v1 at 2026-03-10 09:01", "r2 v1 at 2026-03-13 12:00"}},
		{why: "two overrides expire, each at its time, whatever their order", most: 18,
			rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}},` + daily + `,{"retry":{"maxRetries":0}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
					if start.Version == "v2" {
						return fails(start, 0)
					}
					return rollouttest.Outcome{After: time.Minute}
				}
				for day, resource := range map[int]string{6: "r1", 4: "r2"} {
					w.Fleet.Overrides = append(w.Fleet.Overrides, rollout.Override{ID: resource, Rule: "back", Version: "v2", Resource: resource, CreatedAt: at(1, 0, 0), ExpiresAt: at(day, 12, 0), CreatedBy: "ann", Reason: "to look at it"})
				}
				slices.SortFunc(w.Fleet.Overrides, func(a, b rollout.Override) int { return b.ExpiresAt.Compare(a.ExpiresAt) })
			},
			starts: []string{"r1 v2 at 2026-03-10 09:00", "r2 v2 at 2026-03-10 09:00", "r2 v1 at 2026-03-13 12:00", "r1 v1 at 2026-03-15 12:00"}},
		{why: "a change brings a version that is still to be published", most: 14, rules: daily + `,{"versionSelector":{"selector":"version.id != 'v2'"}}`,
			edit: func(w *rollouttest.World) {
				w.Changes = []rollouttest.Change{{At: at(1, 12, 0), Do: func(s *rollout.Snapshot) { s.Versions = append(s.Versions, version("api", "v3", at(4, 12, 0))) }}}
			},
			starts: []string{"r1 v3 at 2026-03-13 12:00", "r2 v3 at 2026-03-13 12:00"}},
		{why: "a job hangs, and after ten days its slot is called stuck", stuck: 1, most: 90,
			rules: daily + `,{"resourceConcurrency":{"limitType":"count","limitValue":1,"groupSelector":"true","stuckAfterSeconds":864000}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(rollout.Start, int) rollouttest.Outcome {
					return rollouttest.Outcome{Status: rollout.JobInProgress}
				}
			},
			starts: []string{"r1 v2 at 2026-03-10 09:00"}},
		{why: "the slot is quarantined then, and stuck still", stuck: 1, most: 90,
			rules: daily + `,{"resourceConcurrency":{"limitType":"count","limitValue":1,"groupSelector":"true","stuckAfterSeconds":864000,"onStuck":"quarantine"}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(rollout.Start, int) rollouttest.Outcome {
					return rollouttest.Outcome{Status: rollout.JobInProgress}
				}
			},
			starts: []string{"r1 v2 at 2026-03-10 09:00"}},
		{why: "an override that starts nothing by its end is not waited for", rules: daily + `,{"anyApproval":{"minApprovals":1}}`, most: 1,
			edit: func(w *rollouttest.World) {
				w.Fleet.Overrides = []rollout.Override{{ID: "elsewhere", Rule: "none", Version: "v2", CreatedAt: at(1, 0, 0), ExpiresAt: at(4, 12, 0), CreatedBy: "ann", Reason: "to look at it"}}
			}},
		{why: "an override that has expired is no reason to go back in time to when it had not", rules: daily + `,{"id":"asked","anyApproval":{"minApprovals":1}}`, most: 11,
			edit: func(w *rollouttest.World) {
				for day, rule := range map[int]string{2: "none", 3: "asked"} {
					w.Fleet.Overrides = append(w.Fleet.Overrides, rollout.Override{ID: rule, Rule: rule, Version: "v2", Resource: "r2", CreatedAt: at(1, 0, 0), ExpiresAt: at(day, 12, 0), CreatedBy: "ann", Reason: "in a hurry"})
				}
				slices.SortFunc(w.Fleet.Overrides, func(a, b rollout.Override) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
				late := w.Fleet.Targets[1]
				w.Fleet.Targets = w.Fleet.Targets[:1]
				w.Changes = []rollouttest.Change{{At: at(4, 12, 0), Do: func(s *rollout.Snapshot) { s.Targets = append(s.Targets, late) }}}
			}},
		{why: "a freeze ends while the window is open", most: 11, rules: daily,
			edit:   func(w *rollouttest.World) { w.Fleet.Freezes = []rollout.Freeze{freeze(at(4, 12, 0))} },
			starts: []string{"r1 v2 at 2026-03-13 12:00", "r2 v2 at 2026-03-13 12:00"}},
		{why: "a freeze ends while the window is closed", most: 13, rules: daily,
			edit:   func(w *rollouttest.World) { w.Fleet.Freezes = []rollout.Freeze{freeze(at(4, 20, 0))} },
			starts: []string{"r1 v2 at 2026-03-14 09:00", "r2 v2 at 2026-03-14 09:00"}},
		{why: "a freeze is told to its end, although an approval is missing as well", most: 9, least: 7, rules: daily + `,{"anyApproval":{"minApprovals":1}}`,
			edit: func(w *rollouttest.World) { w.Fleet.Freezes = []rollout.Freeze{freeze(at(4, 12, 0))} }},
		{why: "a freeze without end", most: 1, rules: daily, edit: func(w *rollouttest.World) { w.Fleet.Freezes = []rollout.Freeze{freeze(time.Time{})} }},
		{why: "a freeze without end of one target, and the window opens for the other one", most: 4, rules: daily,
			edit: func(w *rollouttest.World) {
				w.Fleet.Freezes = []rollout.Freeze{freeze(time.Time{})}
				w.Fleet.Freezes[0].Resource = "r1"
			},
			starts: []string{"r2 v2 at 2026-03-10 09:00"}},
		{why: "a freeze without end is lifted", most: 11, rules: daily,
			edit: func(w *rollouttest.World) {
				w.Fleet.Freezes = []rollout.Freeze{freeze(time.Time{})}
				w.Changes = []rollouttest.Change{{At: at(4, 12, 0), Do: func(s *rollout.Snapshot) { s.Freezes = nil }}}
			},
			starts: []string{"r1 v2 at 2026-03-13 12:00", "r2 v2 at 2026-03-13 12:00"}},
		{why: "a freeze that began meanwhile lets the second attempt have its window", most: 9, rules: daily + `,{"retry":{"maxRetries":1}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(_ rollout.Start, attempt int) rollouttest.Outcome {
					if attempt == 1 {
						return rollouttest.Outcome{After: 9 * time.Hour, Status: rollout.JobFailure}
					}
					return rollouttest.Outcome{After: time.Minute}
				}
				z := freeze(time.Time{})
				z.CreatedAt, z.FinishBegun = at(1, 12, 0), true
				w.Fleet.Freezes = []rollout.Freeze{z}
			},
			starts: []string{"r1 v2 at 2026-03-10 09:00", "r2 v2 at 2026-03-10 09:00", "r1 v2 at 2026-03-11 09:00", "r2 v2 at 2026-03-11 09:00"}},
		{why: "a freeze keeps a target from another run of what it was taken back to, and no wait tells of that", most: 10,
			rules: `{"id":"back","rollback":{"onJobStatuses":["failure"]}},{"retry":{"maxRetries":0}}`,
			edit: func(w *rollouttest.World) {
				w.Job = func(start rollout.Start, _ int) rollouttest.Outcome {
					if start.Version == "v2" {
						return fails(start, 0)
					}
					return rollouttest.Outcome{After: time.Minute}
				}
				w.Fleet.Targets[0].OutdatedAt = at(1, 6, 0)
				w.Fleet.Freezes = []rollout.Freeze{freeze(at(4, 12, 0))}
				w.Fleet.Freezes[0].CreatedAt = at(1, 3, 0)
			},
			starts: []string{"r1 v2 at 2026-03-10 00:00", "r2 v2 at 2026-03-10 00:00", "r1 v1 at 2026-03-10 00:01", "r2 v1 at 2026-03-10 00:01", "r1 v1 at 2026-03-13 12:00"}},
		{why: "a slot that nobody holds", rules: daily + `,{"anyApproval":{"minApprovals":1}},` + oneByOne, most: 1},
		{why: "a bracket that has ended collects nothing", rules: daily, most: 3, edit: bracketed, starts: []string{"r1 w2 at 2026-03-10 00:00"}},
		{why: "a bracket that has failed begins no new one when an override ends, though its job is not reported any more", rules: daily, most: 4,
			edit: func(w *rollouttest.World) {
				bracketed(w)
				w.Job = fails
				w.Changes = []rollouttest.Change{{At: at(1, 8, 0), Do: func(s *rollout.Snapshot) { s.Targets[2].Jobs = nil }}}
				w.Fleet.Overrides = []rollout.Override{{ID: "elsewhere", Rule: "none", Version: "v2", CreatedAt: at(1, 0, 0), ExpiresAt: at(4, 12, 0), CreatedBy: "ann", Reason: "to look at it"}}
			},
			starts: []string{"r1 w2 at 2026-03-10 00:00"}},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			w := rollouttest.World{
				Policies: compiled(t, fmt.Sprintf(`[{"name":"p","selector":"true","rules":[%s]}]`, row.rules)), Start: at(1, 0, 0),
				Fleet: rollout.Snapshot{
					Environments: []rollout.Environment{{ID: "prod"}}, Deployments: []rollout.Deployment{{ID: "api", Name: "api"}},
					Versions: []rollout.Version{version("api", "v1", at(-20, 0, 0)), version("api", "v2", at(0, 23, 0))},
				},
			}
			for _, id := range []string{"r1", "r2"} {
				w.Fleet.Resources = append(w.Fleet.Resources, rollout.Resource{ID: id})
				w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: "prod", Deployment: "api"}, Current: "v1"})
			}
			if row.edit != nil {
				row.edit(&w)
			}
			plans := 0
			w.Plan = pure(w.Policies, func(*rollout.Plan) {
				if plans++; plans > 1000 {
					panic("the world goes on for ever")
				}
			})
			timeline, err := w.Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			var starts []string
			stuck := 0
			for _, e := range timeline.Entries {
				switch e.Kind {
				case rollouttest.Start:
					starts = append(starts, fmt.Sprintf("%s %s at %s", e.Resource, e.Version, e.At.Format("2006-01-02 15:04")))
				case rollouttest.Stuck:
					stuck++
				}
			}
			if diff := cmp.Diff(row.starts, starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if stuck != row.stuck || plans > row.most || plans < row.least || timeline.CutOff {
				t.Errorf("%d stuck, want %d; %d plans, want %d to %d; cut off: %t", stuck, row.stuck, plans, row.least, row.most, timeline.CutOff)
			}
			if waits := slices.ContainsFunc(timeline.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Wait }); !waits {
				t.Error("nobody waited")
			}
		})
	}
}

// TestStuckAfterAll: a job hangs and nobody waits for it. The world goes on until its slot is stuck,
// however long that takes.
func TestStuckAfterAll(t *testing.T) {
	t.Parallel()
	const days = 40
	w := webWorld(t, 1, fmt.Sprintf(`{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":%d}}`, days*86400))
	w.Job = func(rollout.Start, int) rollouttest.Outcome {
		return rollouttest.Outcome{Status: rollout.JobInProgress}
	}
	timeline, err := w.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if last := timeline.Entries[len(timeline.Entries)-1]; last.Kind != rollouttest.Stuck || !last.At.Equal(at(1+days, 9, 0)) {
		t.Errorf("the last entry is %+v", last)
	}
}

// TestStuckAmongWindows: a job that hangs was found at the start, and of the plan alone it is known
// that its slot, or its run in a bracket, will be stuck one day. Until then windows open and close
// for somebody else, who waits for an approval.
func TestStuckAmongWindows(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ why, rule string }{
		{"a slot", `{"id":"one","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":864000}}`},
		{"a run of a bracket", `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'web'","readinessMode":"immediate","memberRoles":{},"stuckAfterSeconds":864000}}`},
	} {
		w := webWorld(t, 1, row.rule)
		w.Policies = compiled(t, `[{"name":"web","selector":"deployment.name == 'web'","rules":[`+row.rule+`]},
			{"name":"api","selector":"deployment.name == 'api'","rules":[{"deploymentWindow":{"rrule":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0","durationMinutes":480}},{"anyApproval":{"minApprovals":1}}]}]`)
		w.Fleet.Deployments = append(w.Fleet.Deployments, rollout.Deployment{ID: "api", Name: "api"})
		w.Fleet.Versions = append(w.Fleet.Versions, version("api", "a1", at(1, 8, 0)), version("api", "a2", at(1, 8, 30)))
		w.Fleet.Targets = append(w.Fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "c-0", Environment: "prod", Deployment: "api"}, Current: "a1"})
		w.Job = func(rollout.Start, int) rollouttest.Outcome {
			return rollouttest.Outcome{Status: rollout.JobInProgress}
		}
		timeline := fromAtWork(t, w)
		if k := slices.IndexFunc(timeline.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Stuck }); k < 0 || !timeline.Entries[k].At.Equal(at(11, 9, 0)) {
			t.Errorf("%s: it is never told as stuck at %s:\n%s", row.why, at(11, 9, 0), timeline.Trace())
		}
		w.Start = at(-50, 8, 0) // it is watched from the last thing that happened, and not from the start
		timeline, err := w.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if k := slices.IndexFunc(timeline.Entries, func(e rollouttest.Entry) bool { return e.Kind == rollouttest.Stuck }); k < 0 || !timeline.Entries[k].At.Equal(at(11, 9, 0)) {
			t.Errorf("%s, long after the start: it is never told as stuck at %s:\n%s", row.why, at(11, 9, 0), timeline.Trace())
		}
	}
}
