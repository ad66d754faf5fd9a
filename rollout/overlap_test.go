package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/rollout"
)

// overlap plays two groups on one resource: a hook and two members, of which a1 and b1 run when a2
// and b2 arrive. It returns the snapshot at that moment, the plan for it, and the one before.
func overlap(t *testing.T, strategy string) (rollout.Snapshot, rollout.Plan) {
	t.Helper()
	set := compile(t, policy(`{"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate", "memberRoles": {"pre": "deployment.name == 'drain'"}, `+strategy+`}}`))
	s := fleet(1, "", map[string][]string{"drain": {"d"}, "a": {"a1"}, "b": {"b1"}})
	now := t0
	play := func(status rollout.JobStatus) {
		carryOut(t, &s, mustPlan(t, set, s, now), now, status)
		now = now.Add(time.Minute)
	}
	play(rollout.JobSuccessful) // drain
	play(rollout.JobInProgress) // a1, b1
	for _, id := range []string{"a2", "b2"} {
		s.Versions = append(s.Versions, rollout.Version{ID: id, Deployment: id[:1], Status: rollout.VersionReady, CreatedAt: now})
	}
	return s, mustPlan(t, set, s, now)
}

// A run of the open execution is in progress: that is no reason not to merge, and no reason to name
// beside the queue.
func TestOwnRunsAreNoObstacle(t *testing.T) {
	t.Parallel()
	_, plan := overlap(t, `"overlapStrategy": "merge", "preparedStatePersists": true`)
	if !slices.ContainsFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupMerged }) {
		t.Errorf("the second group is not merged while runs of the first are in progress: %v %v", plan.Events, blockers(plan))
	}
	_, plan = overlap(t, `"overlapStrategy": "queue"`)
	if want := []string{"r1/a@a2: bracket_queued", "r1/b@b2: bracket_queued", "r1/drain@d: bracket_queued"}; !slices.Equal(blockers(plan), want) {
		t.Errorf("waits %v, want %v", blockers(plan), want)
	}
}

// A run of the open execution is in progress, and a job that somebody made before by hand has
// ended: that one is no obstacle any more.
func TestEndedJobsAreNoObstacle(t *testing.T) {
	t.Parallel()
	const strategy = `"overlapStrategy": "merge", "preparedStatePersists": true`
	set := compile(t, policy(`{"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate", "memberRoles": {"pre": "deployment.name == 'drain'"}, `+strategy+`}}`))
	s, _ := overlap(t, strategy)
	for _, row := range []struct {
		status rollout.JobStatus
		merged bool
	}{{rollout.JobFailure, true}, {rollout.JobInProgress, false}} {
		byHand := rollout.Job{Run: "by hand", Version: "a1", Status: row.status, CreatedAt: t0.Add(-time.Hour)}
		if row.status.Terminal() {
			byHand.CompletedAt = t0
		}
		own := s
		own.Targets = slices.Clone(s.Targets)
		own.Targets[0].Jobs = append(slices.Clone(s.Targets[0].Jobs), byHand)
		plan := mustPlan(t, set, own, t0.Add(2*time.Minute))
		if merged := slices.ContainsFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupMerged }); merged != row.merged {
			t.Errorf("%s: merged %t, %v %v", row.status, merged, plan.Events, blockers(plan))
		}
	}
}

// An execution is abandoned while its runs are still in progress: the next group starts on the
// resource when they have ended, not before.
func TestAbandonedRunsHoldTheNextGroup(t *testing.T) {
	t.Parallel()
	s, _ := overlap(t, `"overlapStrategy": "queue"`)
	set := compile(t, policy(`{"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate", "memberRoles": {"pre": "deployment.name == 'drain'"}, "overlapStrategy": "queue"}}`))
	now := t0.Add(3 * time.Minute)
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: bracket.GroupID("p/deploymentBracket/0", "prod", 1), Resource: "r1", At: now}}
	var first []rollout.Waiting
	for k := range 2 { // in the step that ends the execution, and in the next one
		plan := mustPlan(t, set, s, now)
		if k == 0 {
			first = waitingOf(plan)
		} else if diff := cmp.Diff(first, waitingOf(plan)); diff != "" {
			t.Errorf("the same wait is told in other words once it was saved that the execution ended:\n%s", diff)
		}
		busy := func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonTargetBusy }
		if len(plan.Start) > 0 || plan.Waiting.Len() != 3 || !slices.ContainsFunc(waitingOf(plan)[2].Blockers, busy) {
			t.Fatalf("starts %v, waits %v; want everything to wait for the jobs in progress", started(plan), blockers(plan))
		}
		s.State = plan.State
	}
	for i := range s.Targets {
		for k := range s.Targets[i].Jobs {
			s.Targets[i].Jobs[k].Status, s.Targets[i].Jobs[k].CompletedAt = rollout.JobSuccessful, now
		}
	}
	if got, want := started(mustPlan(t, set, s, now)), []string{"r1/drain@d"}; !slices.Equal(got, want) {
		t.Errorf("starts %v, want %v", got, want)
	}
}

// An execution that something besides time holds names the events that end that, or the instant of
// a rule of the host; nobody has to change the rule.
func TestNotDueNamesWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "x": {"v1"}})
	const members = `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'a'","readinessMode":"immediate","memberRoles":{}}}`
	for _, row := range []struct {
		why   string
		rules string
		host  time.Time // until when a rule of the host says no; zero: there is none
		never bool      // it denies, and names nothing
		until time.Time
		on    []rollout.Condition
	}{
		{why: "a dependency outside the bracket", rules: `,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'x' && version.tag == 'v2'","appliesTo":"deployment.name == 'a'"}}`,
			on: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "x"}, {Kind: rollout.OnDependency, Environment: "prod", Deployment: "x", Resource: "r1"}}},
		{why: "a rule of the host that knows when", host: t0.Add(time.Hour), until: t0.Add(time.Hour)},
		{why: "both: time alone does not help", rules: `,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'x' && version.tag == 'v2'","appliesTo":"deployment.name == 'a'"}}`,
			host: t0.Add(time.Hour), on: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "x"}, {Kind: rollout.OnDependency, Environment: "prod", Deployment: "x", Resource: "r1"}}},
		{why: "a rule of the host that names nothing: whoever made the rules has to know", never: true, on: []rollout.Condition{{Kind: rollout.OnConfig, Rule: "b"}}},
	} {
		policies, err := rollout.ParsePolicies([]byte(policy(members + row.rules)))
		if err != nil {
			t.Fatal(err)
		}
		var options []rollout.Option
		if !row.host.IsZero() {
			options = append(options, rollout.WithRule(hostRule{"host", frozenUntil(row.host)}))
		}
		if row.never {
			options = append(options, rollout.WithRule(hostRule{"host", func(rollout.Candidate) rollout.Verdict {
				return rollout.Verdict{Status: rollout.Denied, Reason: "never"}
			}}))
		}
		set, err := rollout.Compile(policies, newEnv(t), options...)
		if err != nil {
			t.Fatal(err)
		}
		plan := mustPlan(t, set, s, t0)
		if plan.Waiting.Len() != 1 || waitingOf(plan)[0].Blockers[0].Reason != "bracket_not_due" {
			t.Fatalf("%s: starts %v, waits %v", row.why, started(plan), blockers(plan))
		}
		if got := waitingOf(plan)[0].Blockers[0]; !got.Until.Equal(row.until) || !slices.Equal(got.On, row.on) {
			t.Errorf("%s: until %v on %v, want %v on %v", row.why, got.Until, got.On, row.until, row.on)
		}
	}
}

// The first start of an execution leaves the members that do not run alone: they are kept, and
// every target is accounted for.
func TestMembersThatDoNotRunAreKept(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate", "memberRoles": {"pre": "deployment.name == 'drain'"}}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "a": {"v1", "v2"}, "b": {"v1"}})
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/drain@v1"}) || plan.Keep.Current != 1 || plan.Waiting.Len() != 1 {
		t.Errorf("starts %v, waits %v, keeps %+v; want drain to start, a to wait and b to be kept", got, blockers(plan), plan.Keep)
	}
}

// A hook that is at work in the open execution has the same version in the group behind it: it does
// not wait.
func TestHookAtWorkDoesNotWait(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate", "memberRoles": {"post": "deployment.name == 'uncordon'"}}}`))
	s := fleet(1, "", map[string][]string{"uncordon": {"u"}, "a": {"a1"}})
	now := t0
	carryOut := func(plan rollout.Plan, status rollout.JobStatus) {
		s.State = mustCommit(t, plan, plan.Now)
		for _, start := range plan.Start {
			add(&s, start, job(start, plan.Now, status))
		}
		now = now.Add(time.Minute)
	}
	carryOut(mustPlan(t, set, s, now), rollout.JobSuccessful) // a1
	s.Versions = append(s.Versions, rollout.Version{ID: "a2", Deployment: "a", Status: rollout.VersionReady, CreatedAt: now})
	for _, starts := range [][]string{{"r1/uncordon@u"}, nil} {
		plan := mustPlan(t, set, s, now)
		if got := started(plan); !slices.Equal(got, starts) {
			t.Errorf("starts %v, want %v", got, starts)
		}
		if got, want := blockers(plan), []string{"r1/a@a2: bracket_queued"}; !slices.Equal(got, want) {
			t.Errorf("waits %v, want %v", got, want)
		}
		carryOut(plan, rollout.JobInProgress)
	}
}

// A host stops between saving a lease and saving its execution, and then a newer group takes the
// resource over: the lease of the group that never ran there is given back as soon as that is
// certain. It used to hold its slot for ever.
func TestLeaseOfAGroupThatNeverRanIsReleased(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"deploymentBracket": {"deploymentSelector": "true", "readinessMode": "immediate"}},
		{"resourceConcurrency": {"groupSelector": "true", "limitType": "count", "limitValue": 1}}`))
	s := fleet(2, "a0", map[string][]string{"a": {"a0", "a1"}})
	first := mustPlan(t, set, s, t0)
	saved := mustCommit(t, first, t0)
	saved.Executions = nil // this is where the host stopped
	s.State = saved
	now := t0.Add(time.Minute)
	s.Versions = append(s.Versions, rollout.Version{ID: "a2", Deployment: "a", Status: rollout.VersionReady, CreatedAt: now})
	for range 2 {
		plan := mustPlan(t, set, s, now)
		s.State = mustCommit(t, plan, now)
		if len(plan.Start) != 1 {
			t.Fatalf("starts %v, waits %v; want one resource after the other", started(plan), blockers(plan))
		}
		add(&s, plan.Start[0], job(plan.Start[0], now, rollout.JobSuccessful))
	}
	if plan := mustPlan(t, set, s, now); len(plan.State.Pools[0].Leases) != 0 {
		t.Errorf("leases %v are left", plan.State.Pools[0].Leases)
	}
}

// TestLockedVersionNotYetSeen: a planner whose observation lacks a version that the stored group
// has locked holds the execution. It would freeze it without that member, and the target would
// never get the version.
func TestLockedVersionNotYetSeen(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2"}})
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s.State = mustPlan(t, set, s, t0).State
	stale := s
	stale.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.Deployment == "web" && v.ID == "v2" })
	plan := mustPlan(t, set, stale, t0.Add(time.Minute))
	if want := []string{"r1/api@v2: bracket_not_due version_unknown"}; len(plan.Start) != 0 || !slices.Equal(blockers(plan), want) {
		t.Errorf("without web v2: starts %q, waits %q, want %q", started(plan), blockers(plan), want)
	}
	if got := started(mustPlan(t, set, s, t0.Add(time.Minute))); !slices.Equal(got, []string{"r1/api@v2", "r1/web@v2"}) {
		t.Errorf("with it: starts %q", got)
	}
}

// TestNarrowLockNotYetSeen: the newest locked version is for r1 only, and the one for r2 is what
// the planner has not read. It begins on r1, and leaves r2 alone.
func TestNarrowLockNotYetSeen(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2", "v3"}})
	for k := range s.Versions {
		if v := &s.Versions[k]; v.ID == "v3" {
			v.TargetSelector = "resource.name == 'r1'"
		}
	}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	all := s.Versions
	s.State = mustPlan(t, set, s, t0).State
	s.Versions = slices.DeleteFunc(slices.Clone(all), func(v rollout.Version) bool { return v.Deployment == "web" && v.ID == "v2" })
	plan := mustPlan(t, set, s, t0)
	if got, want := started(plan), []string{"r1/api@v2", "r1/web@v3"}; !slices.Equal(got, want) {
		t.Errorf("without web v2: starts %q, want %q", got, want)
	}
	if got, want := blockers(plan), []string{"r2/api@v2: bracket_not_due version_unknown"}; !slices.Equal(got, want) {
		t.Errorf("without web v2: waits %q, want %q", got, want)
	}
	s.Versions = all
	if got, want := started(mustPlan(t, set, s, t0)), []string{"r1/api@v2", "r1/web@v3", "r2/api@v2", "r2/web@v2"}; !slices.Equal(got, want) {
		t.Errorf("with it: starts %q, want %q", got, want)
	}
}

// TestGroupClosedByAHostThatLags: a host that has not read everything about b closes a group before
// the one that locked b2 has begun, and takes its place. The others then open one more: b2 was
// locked once, and would never have come otherwise.
func TestGroupClosedByAHostThatLags(t *testing.T) {
	for _, row := range []struct {
		why string
		lag func(*rollout.Snapshot)
	}{
		{"it has not read the version", func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.ID == "b2" })
		}},
		{"it has not read the approval", func(s *rollout.Snapshot) {
			s.Approvals = slices.DeleteFunc(slices.Clone(s.Approvals), func(a rollout.Approval) bool { return a.Version == "b2" })
		}},
		{"it has read that the version was paused, and not that it was resumed", func(s *rollout.Snapshot) {
			s.Versions = slices.Clone(s.Versions)
			for k := range s.Versions {
				if s.Versions[k].ID == "b2" {
					s.Versions[k].Status = "paused"
				}
			}
		}},
		{"it has not read the deployment", func(s *rollout.Snapshot) {
			s.Deployments = slices.DeleteFunc(slices.Clone(s.Deployments), func(d rollout.Deployment) bool { return d.ID == "b" })
			s.Versions = slices.DeleteFunc(slices.Clone(s.Versions), func(v rollout.Version) bool { return v.Deployment == "b" })
			s.Targets = slices.DeleteFunc(slices.Clone(s.Targets), func(t rollout.Target) bool { return t.Deployment == "b" })
		}},
	} {
		t.Run(row.why, func(t *testing.T) {
			set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"A","anyApproval":{"minApprovals":1}}`))
			s := fleet(1, "", map[string][]string{"a": {"a1", "a2"}, "b": {"b1", "b2"}})
			for k := range s.Targets {
				s.Targets[k].Current = s.Targets[k].Deployment + "1"
			}
			approved := func(version string, at time.Time) rollout.Approval {
				return rollout.Approval{Version: version, Deployment: version[:1], Environment: "prod", By: "ann", Status: rollout.Approved, At: at}
			}
			s.Approvals = []rollout.Approval{approved("b2", t0)}
			s.State = mustPlan(t, set, s, t0).State // locks b2, and nothing has begun
			s.Approvals = append(s.Approvals, approved("a2", minute(1)))
			lagging := s
			row.lag(&lagging)
			plan := mustPlan(t, set, lagging, minute(1))
			if got := started(plan); !slices.Equal(got, []string{"r1/a@a2"}) {
				t.Fatalf("the host that lags starts %q, waits %q", got, blockers(plan))
			}
			lagging.Targets = slices.Clone(lagging.Targets)
			carryOut(t, &lagging, plan, minute(1), rollout.JobSuccessful)
			s.State = lagging.State
			for k := range s.Targets {
				for _, own := range lagging.Targets {
					if own.TargetID == s.Targets[k].TargetID {
						s.Targets[k] = own
					}
				}
			}
			for n, want := range [][]string{{"r1/b@b2"}, nil} {
				plan = mustPlan(t, set, s, minute(2+n))
				if got := started(plan); !slices.Equal(got, want) || len(blockers(plan)) != 0 {
					t.Errorf("starts %q, want %q; waits %q", got, want, blockers(plan))
				}
				carryOut(t, &s, plan, minute(2+n), rollout.JobSuccessful)
			}
			if last := s.State.Brackets[0].Number; last != 3 {
				t.Errorf("there are %d groups, want 3: that which locked b2, that of the host that lagged, and one more", last)
			}
		})
	}
}

// TestRollbackAsksNobody: what failed goes back even if something outside the bracket has moved on
// meanwhile.
func TestRollbackAsksNobody(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1"}})
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"deployment.name == 'api'","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_all"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'db' && version.tag == 'v1'","appliesTo":"deployment.name == 'api'"}}`))
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v2"}) {
		t.Fatalf("starts %q, waits %q", got, blockers(plan))
	}
	carryOut(t, &s, plan, t0, rollout.JobFailure)
	s.Versions = append(s.Versions, rollout.Version{ID: "v2", Tag: "v2", Deployment: "db", Status: rollout.VersionReady, CreatedAt: t0})
	for i := range s.Targets {
		if s.Targets[i].Deployment == "db" {
			s.Targets[i].Current = "v2"
		}
	}
	plan = mustPlan(t, set, s, t0.Add(time.Minute))
	if len(plan.Start) != 1 || plan.Start[0].Purpose != rollout.PurposeRollback || plan.Start[0].Version != "v1" {
		t.Errorf("starts %+v, waits %q", plan.Start, blockers(plan))
	}
}

// TestMergeByAHostThatMissesARunningVersion: a host that has not heard of b2 does not merge a group
// into the execution that runs b2: to it all that it knows would be newer, and b would go back to
// b1.
func TestMergeByAHostThatMissesARunningVersion(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"overlapStrategy":"merge","preparedStatePersists":true}}`))
	s := fleet(1, "", map[string][]string{"b": {"b1", "b2"}, "d": {"d1", "d2"}})
	for k := range s.Targets {
		s.Targets[k].Current = s.Targets[k].Deployment + "1"
	}
	all := s.Versions
	without := func(id string) []rollout.Version {
		return slices.DeleteFunc(slices.Clone(all), func(v rollout.Version) bool { return v.ID == id })
	}
	s.Versions = without("d2")
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress) // b2 runs
	s.Versions = without("b2")
	carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress) // merges {b1, d2}
	s.Versions = all
	for k := range s.Targets {
		for j := range s.Targets[k].Jobs {
			s.Targets[k].Jobs[j].Status, s.Targets[k].Jobs[j].CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, minute(2), ""
		}
	}
	if got := started(mustPlan(t, set, s, minute(3))); !slices.Equal(got, []string{"r1/d@d2"}) {
		t.Errorf("starts %q: nothing goes back to an older version", got)
	}
}

// TestWhatAMergeBrings: the next group has versions that need one another, or the next drain, while
// an execution is open that has drained. What its members need of one another comes with a merge;
// the drain does not, and who waits for the end of the execution anyway is not told of it.
func TestWhatAMergeBrings(t *testing.T) {
	const merge = `,"overlapStrategy":"merge","preparedStatePersists":true`
	for _, row := range []struct {
		why, overlap, needs string
		merged              bool
		waits               string // of b, unless it is merged
	}{
		{"another main", merge, "a", true, ""},
		{"the drain", merge, "drain", false, "bracket_queued version_dependency_unmet"},
		{"the drain, and nothing is ever merged", "", "drain", false, "bracket_queued"},
	} {
		set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}`+row.overlap+`}}`))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "drain": {"v1"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
		for _, id := range []string{"a", "b", "drain"} {
			v := rollout.Version{ID: "v3", Tag: "v3", Deployment: id, Status: rollout.VersionReady, CreatedAt: minute(2)}
			if id == "b" {
				v.Dependencies = []rollout.VersionDependency{{Deployment: row.needs, VersionSelector: "version.tag == 'v3'"}}
			}
			s.Versions = append(s.Versions, v)
		}
		plan := mustPlan(t, set, s, minute(2))
		merged := slices.ContainsFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupMerged })
		if merged != row.merged || !merged && !slices.Contains(blockers(plan), "r1/b@v3: "+row.waits) {
			t.Errorf("%s: merged %v, starts %q, waits %q", row.why, merged, started(plan), blockers(plan))
		}
	}
}

// TestMergedLaterWaitsWithItsVersions: what a merge would not bring again is left out of what its
// members need, and not of what they wait with.
func TestMergedLaterWaitsWithItsVersions(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{"pre":"deployment.id == 'drain'"}}},{"deploymentWindow":{"from":"2025-01-01T00:02:00Z","until":"2025-01-01T00:09:00Z","allowWindow":false}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "api": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
	for _, v := range []rollout.Version{{ID: "v2", Deployment: "drain"}, {ID: "v3", Deployment: "api"}} {
		v.Tag, v.Status, v.CreatedAt = v.ID, rollout.VersionReady, minute(3)
		s.Versions = append(s.Versions, v)
	}
	plan := mustPlan(t, set, s, minute(4))
	if got, want := blockers(plan), []string{"r1/api@v3: bracket_queued window_closed", "r1/drain@v2: bracket_queued window_closed"}; len(plan.Start) > 0 || !slices.Equal(got, want) {
		t.Errorf("starts %q, waits %q, want %q", started(plan), got, want)
	}
}

// TestNotDueUntilAMemberIsTooOld: an execution waits for what one of its members needs, until the
// version of that member has succeeded too long ago elsewhere: then it begins without the member.
func TestNotDueUntilAMemberIsTooOld(t *testing.T) {
	t.Parallel()
	const members = `{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name in ['a', 'c', 'e']","readinessMode":"immediate","memberRoles":{}}}`
	const fourHours = `,"maximumAgeHours":4`
	needs := func(who string) string {
		return `,{"id":"d-` + who + `","deploymentDependency":{"dependsOn":"deployment.name == 'x' && version.tag == 'v2'","appliesTo":"deployment.name == '` + who + `'"}}`
	}
	for _, row := range []struct {
		why        string
		rules      string
		age        string // of the rule that governs c
		overridden bool   // that rule
		after      time.Duration
	}{
		{why: "c is too old in an hour", rules: needs("c"), age: fourHours, after: time.Hour},
		{why: "its success never gets too old", rules: needs("c")},
		{why: "an override lets c past that rule", rules: needs("c"), age: fourHours, overridden: true},
		{why: "a needs the same, and does not get too old", rules: needs("c") + needs("a"), age: fourHours},
		{why: "a alone needs it", rules: needs("a"), age: fourHours},
		{why: "e needs the same, and succeeded later", rules: needs("c") + needs("e"), age: fourHours, after: 3 * time.Hour},
		{why: "then its window has yet to open", rules: needs("c") + `,{"deploymentWindow":{"weekly":{"days":["wed"],"start":"02:00","end":"05:00"}}}`, age: fourHours, after: 2 * time.Hour},
	} {
		s := inEnvironments(fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}, "e": {"v1", "v2"}, "x": {"v1"}}), "staging")
		set := compile(t, `[{"name":"p","selector":"environment.name == 'prod'","rules":[`+members+row.rules+`]},
			{"name":"q","selector":"environment.name == 'prod' && deployment.name in ['c', 'e']","rules":[{"id":"s","environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'staging'"`+row.age+`}}]}]`)
		for i := range s.Targets {
			switch own := &s.Targets[i]; {
			case own.Environment != "staging":
			case own.Deployment == "c":
				own.Jobs = []rollout.Job{ran("v2", rollout.JobSuccessful, -180)}
			case own.Deployment == "e":
				own.Jobs = []rollout.Job{ran("v2", rollout.JobSuccessful, -60)}
			}
		}
		if row.overridden {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "s", Version: "v2", CreatedAt: t0.Add(-time.Hour), CreatedBy: "ann", Reason: "urgent"}}
		}
		plan := mustPlan(t, set, s, t0)
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
		if len(wait.Blockers) == 0 || wait.Blockers[0].Reason != "bracket_not_due" || len(wait.Blockers[0].On) == 0 {
			t.Fatalf("%s: %v", row.why, wait)
		}
		until := wait.Blockers[0].Until
		if row.after == 0 {
			if !until.IsZero() {
				t.Errorf("%s: until %v", row.why, until)
			}
			continue
		}
		if !until.Equal(t0.Add(row.after)) {
			t.Errorf("%s: until %v, want %v", row.why, until, row.after)
		}
		s.State = mustCommit(t, plan, t0)
		starts := func(at time.Time) bool {
			return slices.ContainsFunc(mustPlan(t, set, s, at).Start, func(start rollout.Start) bool { return start.Environment == "prod" && start.Deployment == "a" })
		}
		if early, then := starts(until.Add(-1)), starts(until); early || !then {
			t.Errorf("%s: starts then: %v, a nanosecond before: %v", row.why, then, early)
		}
	}
}

// TestServedRunsAreNoObstacle: what forbids a start of a member that is at work with the very version
// that the next group has for it does not keep that group from being merged: nothing starts for it.
func TestServedRunsAreNoObstacle(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"overlapStrategy":"merge","preparedStatePersists":true}}`))
	for _, row := range []struct {
		why    string
		edit   func(*rollout.Snapshot) // before the freeze of b
		merged bool
	}{
		{"b has what the group has for it in progress", func(*rollout.Snapshot) {}, true},
		{"the group has a newer one", func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: minute(1)})
		}, false},
		{"it was outdated before that run began", func(s *rollout.Snapshot) { s.Targets[1].OutdatedAt = t0 }, true},
		{"b needs one more run of it", func(s *rollout.Snapshot) { s.Targets[1].OutdatedAt = minute(1) }, false},
		{"its run is over, and failed", func(s *rollout.Snapshot) {
			s.Targets[1].Jobs[0].Status, s.Targets[1].Jobs[0].CompletedAt = rollout.JobFailure, minute(1)
		}, false},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = rollout.JobSuccessful, minute(1)
		s.Targets[0].Current = "v2"
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
		row.edit(&s)
		s.Freezes = []rollout.Freeze{{ID: "z", Deployment: "b", CreatedAt: minute(1), CreatedBy: "bob", Reason: "INC-7"}}
		plan := mustPlan(t, set, s, minute(2))
		merged := slices.ContainsFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupMerged })
		wait, _ := plan.Waiting.Of(s.Targets[0].TargetID)
		if waits := wait.Blockers[0].String() == "bracket_waits_for_members, waits for b on r1"; merged != row.merged || waits != row.merged {
			t.Errorf("%s: merged %t, starts %q, waits %v", row.why, merged, started(plan), wait)
		}
	}
}
