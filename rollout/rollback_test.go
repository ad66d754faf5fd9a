package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// TestRollback: what becomes of a version whose newest job on the target went wrong. v1, v2 and v3
// are hours apart; v3 is not out yet unless newer says so.
func TestRollback(t *testing.T) {
	const onFailure = `{"id":"x","rollback":{"onJobStatuses":["failure"]}}`
	const onVerification = `{"id":"x","rollback":{"onVerificationFailure":true}}`
	ok, failure, running := rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress
	for _, row := range []struct {
		why, rules string
		jobs       []rollout.Job // oldest first
		newer      bool
		over       bool
		start      string // version and purpose
		waits      string
	}{
		{"a version that was begun and failed", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, false, false, "v1 rollback", ""},
		{"another status does not trigger it", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", rollout.JobCancelled, -5)}, false, false, "v2 deploy", ""},
		{"nor does the same status of an older job: a success came after it", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v2", ok, -5)}, false, false, "", ""},
		{"a job that still runs triggers nothing", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), {Version: "v2", Status: running, CreatedAt: minute(-5)}}, false, false, "", ""},
		{"a version that is current and whose verification failed", onVerification, []rollout.Job{ran("v1", ok, -30), verified(ran("v2", ok, -5), "failed")}, false, false, "v1 rollback", ""},
		{"while it is being verified nothing happens", onVerification, []rollout.Job{ran("v1", ok, -30), verified(ran("v2", ok, -5), "running")}, false, false, "", ""},
		{"nor when it passed", onVerification, []rollout.Job{ran("v1", ok, -30), verified(ran("v2", ok, -5), "passed")}, false, false, "", ""},
		{"a failed verification alone triggers no rule about statuses", onFailure, []rollout.Job{ran("v1", ok, -30), verified(ran("v2", ok, -5), "failed")}, false, false, "", ""},
		{"it goes before any retry", onFailure + `,{"retry":{"maxRetries":3}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, false, false, "v1 rollback", ""},
		{"no window and no cooldown holds it up", onFailure + "," + weekly("w", "01:00", "02:00", "") + `,{"versionCooldown":{"intervalSeconds":864000}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, false, false,
			"v1 rollback", ""},
		{"nothing succeeded before", onFailure, []rollout.Job{ran("v2", failure, -5)}, false, false, "", "rollback_triggered x"},
		{"what failed its verification is nothing to go back to", `{"id":"x","rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`, []rollout.Job{verified(ran("v1", ok, -30), "failed"), ran("v2", failure, -5)}, false, false,
			"", "rollback_triggered x"},
		{"where verification is not asked about it is", onFailure, []rollout.Job{verified(ran("v1", ok, -30), "failed"), ran("v2", failure, -5)}, false, false, "v1 rollback", ""},
		{"it goes back to the last success, whatever was in between", onFailure, []rollout.Job{ran("v0", ok, -60), ran("v1", failure, -30), ran("v2", failure, -5)}, false, false, "v0 rollback", ""},
		{"nor does it go back to what was only cancelled", onFailure, []rollout.Job{ran("v0", ok, -60), ran("v1", rollout.JobCancelled, -30), ran("v2", failure, -5)}, false, false, "v0 rollback", ""},
		{"it goes back to the newest of several", onFailure, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", failure, -5)}, false, false, "v1 rollback", ""},
		{"be it the oldest version there is, which somebody went back to", onFailure, []rollout.Job{ran("v1", ok, -60), ran("v0", ok, -30), ran("v2", failure, -5)}, false, false, "v0 rollback", ""},
		{"it does not go back to an earlier run of itself", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", ok, -9), ran("v2", failure, -5)}, false, false, "v1 rollback", ""},
		{"a failed verification is one whatever the status of the job", onVerification, []rollout.Job{ran("v1", ok, -30), verified(ran("v2", failure, -5), "failed")}, false, false, "v1 rollback", ""},
		{"a second attempt is no way back", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v2", failure, -3)}, false, false, "v1 rollback", ""},
		{"a job of a version that nobody knows is not the way back", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("gone", rollout.JobCancelled, -4), ran("v1", failure, -3)}, false, false, "", "rollback_failed x"},
		{"the way back is under way", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), {Version: "v1", Status: running, CreatedAt: minute(-4)}}, false, false, "", ""},
		{"it was successful: the version stays denied", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", ok, -3)}, false, false, "", "rollback_triggered x"},
		{"it failed: it is not tried again, and nothing is taken back twice", onFailure, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3)}, false, false, "", "rollback_failed x"},
		{"it failed, and the host brought the target there by a job of its own", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3), ran("v1", ok, -2)}, false, false, "", "rollback_triggered x"},
		{"or to another version before it", onFailure, []rollout.Job{ran("v0", ok, -60), ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3), ran("v0", ok, -2)}, false, false, "", "rollback_triggered x"},
		{"and what the host did there later went wrong", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -4), ran("v1", ok, -3), ran("v1", failure, -2)}, false, false, "", "rollback_triggered x"},
		{"but not where its own job failed as well", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3), ran("v1", failure, -2)}, false, false, "", "rollback_failed x"},
		{"nor while that is at work", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3), {Version: "v1", Status: running, CreatedAt: minute(-2)}}, false, false, "", "rollback_failed x; target_busy"},
		{"it was cancelled: that is no success", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", rollout.JobCancelled, -3)}, false, false, "", "rollback_failed x"},
		{"it was tried once more, and that was cancelled: it stays denied", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5), ran("v2", rollout.JobCancelled, -3)}, false, false, "", "rollback_triggered x"},
		{"or skipped, as often as one likes", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5), ran("v2", rollout.JobSkipped, -3), ran("v2", rollout.JobCancelled, -2)}, false, false, "", "rollback_triggered x"},
		{"it was tried once more, and that is at work", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5), {Version: "v2", Status: running, CreatedAt: minute(-3)}}, false, false, "", ""},
		{"it was tried once more, and succeeded: it stays", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5), ran("v2", ok, -3)}, false, false, "", ""},
		{"it was tried once more, and failed: it is taken back once more", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5), ran("v2", failure, -3)}, false, false, "v1 rollback", ""},
		{"a job that was cancelled after it failed comes too late", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v2", rollout.JobCancelled, -5)}, false, false, "v1 rollback", ""},
		{"the way back failed, and what was tried then was cancelled", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", failure, -5), ran("v2", rollout.JobCancelled, -3)}, false, false, "", "rollback_failed x"},
		{"a rule that names what was cancelled takes it back once more", `{"rollback":{"onJobStatuses":["failure","cancelled"]}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5), ran("v2", rollout.JobCancelled, -3)}, false, false, "v1 rollback", ""},
		{"it was only ever cancelled: that is no failure", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", rollout.JobCancelled, -3)}, false, false, "v2 deploy", ""},
		{"another job is active: it is awaited", onFailure, []rollout.Job{ran("v1", ok, -30), {Version: "v1", Status: running, CreatedAt: minute(-20)}, ran("v2", failure, -5)}, false, false, "", "rollback_triggered x; target_busy"},
		{"a newer version goes past", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, true, false, "v3 deploy", ""},
		{"one that waits keeps nobody from going back", onFailure + `,{"id":"a","anyApproval":{"minApprovals":1}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, true, false, "v1 rollback", "approval_missing a"},
		{"also after the way back", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", ok, -3)}, true, false, "v3 deploy", ""},
		{"also after one that failed", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", failure, -3)}, true, false, "v3 deploy", ""},
		{"an operator who overrides the rule keeps the version and its retries", onFailure + `,{"retry":{"maxRetries":1}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, false, true, "v2 deploy", ""},
		{"without retries it stays as it is", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, false, true, "", "retry_exhausted"},
		{"after the way back the operator has it deployed again", onFailure, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5), ran("v1", ok, -3)}, false, true, "v2 deploy", ""},
		{"of two rules one is enough", onFailure + `,{"rollback":{"onJobStatuses":["invalidIntegration"]}}`, []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -5)}, false, false, "v1 rollback", ""},
	} {
		t.Run(row.why, func(t *testing.T) {
			versions := []string{"v0", "v1", "v2"}
			if row.newer {
				versions = append(versions, "v3")
			}
			s := fleet(1, "", map[string][]string{"api": versions})
			s.Targets[0].Jobs = row.jobs
			if row.over {
				s.Overrides = []rollout.Override{override("x", func(o *rollout.Override) { o.CreatedAt = minute(-1) })}
			}
			set := compile(t, policy(row.rules))
			plan := mustPlan(t, set, s, t0)
			start := ""
			for _, one := range plan.Start {
				start = one.Version + " " + string(one.Purpose)
			}
			if got := waits(plan); start != row.start || got != row.waits {
				t.Errorf("starts %q, waits for %q; want %q, %q", start, got, row.start, row.waits)
			}
			for wait := range plan.Waiting.All() {
				for _, b := range wait.Blockers {
					if b.Rule == "x" && (b.Status != rollout.Denied || len(b.On) != 2 || b.On[0].Kind != rollout.OnOperator || b.On[1].Kind != rollout.OnVersion) {
						t.Errorf("%+v is not up to an operator or a version", b)
					}
				}
			}
			// I2: carried out, it is not offered again.
			carryOut(t, &s, plan, t0, running)
			if again := mustPlan(t, set, s, t0.Add(time.Second)); len(again.Start) != 0 {
				t.Errorf("starts %q again", started(again))
			}
		})
	}
}

// TestRunAgainAfterARollback: a target that went back and is outdated runs again what it went back to.
// What keeps it from that is explained; it used to be kept, as if there were nothing to do.
func TestRunAgainAfterARollback(t *testing.T) {
	ok, failure := rollout.JobSuccessful, rollout.JobFailure
	const back = `{"id":"x","rollback":{"onJobStatuses":["failure"]}}`
	for _, row := range []struct {
		why, rules string
		change     func(*rollout.Snapshot)
		prospect   rollout.Prospect
		says       string // of v1, which it went back to
	}{
		{"at once", back, func(*rollout.Snapshot) {}, rollout.ProspectStarts, ""},
		{"in its window", back + "," + weekly("w", "01:00", "02:00", ""), func(*rollout.Snapshot) {}, rollout.ProspectWaits, "window_closed"},
		{"unless it is frozen", back, func(s *rollout.Snapshot) { s.Freezes = []rollout.Freeze{freeze(finishing)} }, rollout.ProspectWaits, "frozen"},
		{"in the pool", back + `,{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":0}}`, func(*rollout.Snapshot) {}, rollout.ProspectWaits, "slot_paused"},
		{"if it is outdated", back, func(s *rollout.Snapshot) { s.Targets[0].OutdatedAt = time.Time{} }, rollout.ProspectKept, ""},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{ran("v1", ok, -30), ran("v2", failure, -9), ran("v1", ok, -5)}
		s.Targets[0].OutdatedAt = minute(-2)
		row.change(&s)
		plan := mustPlan(t, compile(t, policy(row.rules)), s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		k := slices.IndexFunc(e.Versions, func(v rollout.VersionExplanation) bool { return v.Version == "v1" })
		for _, b := range e.Versions[k].Blockers() {
			said += string(b.Reason)
		}
		if starts := len(plan.Start) == 1; starts != (row.prospect == rollout.ProspectStarts) || e.Versions[k].Prospect != row.prospect || said != row.says || !slices.Equal(blockers(plan), []string{"r1/api@v2: rollback_triggered"}) {
			t.Errorf("%s: starts %q, waits %q\n%s", row.why, started(plan), blockers(plan), e)
		}
		if slices.ContainsFunc(e.Versions[k].Rules, func(r rollout.RuleVerdict) bool { return r.Kind == rollout.KindRollback }) {
			t.Errorf("%s: it is on no way back\n%s", row.why, e)
		}
	}
}

// TestWhatATargetWentBackToIsRepeated: a host says that the version runs which was taken back, and a
// further job of the one before, which had succeeded, was cancelled. What the target went back to is
// kept as any other version is, so it is tried again. (Found at random: I3 and I4 did not know it.)
func TestWhatATargetWentBackToIsRepeated(t *testing.T) {
	s := fleet(1, "v2", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobCancelled, -2), ran("v1", rollout.JobSuccessful, -4), ran("v2", rollout.JobFailure, -5)}
	plan := mustPlan(t, compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}}`)), s, t0)
	if len(plan.Start) != 1 || plan.Start[0].Version != "v1" || plan.Start[0].Purpose != rollout.PurposeDeploy {
		t.Errorf("%v", plan)
	}
}

// TestRollbackPastWhatIsNoGood: the host says what ran before the first job that is listed, and the
// version that came after it failed its verification. The target goes back past that one.
func TestRollbackPastWhatIsNoGood(t *testing.T) {
	set := compile(t, policy(`{"rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`))
	s := fleet(1, "v0", map[string][]string{"api": {"v0", "v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{verified(ran("v1", rollout.JobSuccessful, -9), "failed"), ran("v2", rollout.JobFailure, -5)}
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v0"}) || plan.Start[0].Purpose != rollout.PurposeRollback {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
}

// TestRollbackAsksNothingAboutTheVersionBefore: it ran there, so neither its status, its scope nor a
// version selector of today keeps the target from it.
func TestRollbackAsksNothingAboutTheVersionBefore(t *testing.T) {
	set := compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}},{"versionSelector":{"selector":"version.id != 'v1'"}},{"anyApproval":{"minApprovals":9}}`))
	for why, change := range map[string]func(*rollout.Version){
		"not selected":      func(*rollout.Version) {},
		"withdrawn":         func(v *rollout.Version) { v.Status = "withdrawn" },
		"for other targets": func(v *rollout.Version) { v.TargetSelector = "resource.name == 'nobody'" },
	} {
		s := fleet(1, "", map[string][]string{"api": {"v1", "v2"}})
		change(&s.Versions[0])
		s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -9), ran("v2", rollout.JobFailure, -5)}
		if got := started(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r1/api@v1"}) {
			t.Errorf("%s: starts %q", why, got)
		}
	}
}

// TestRollbackSaysWhy: the verdict holds what went wrong and the version to go back to, be it the
// oldest there is.
func TestRollbackSaysWhy(t *testing.T) {
	ok, failure := rollout.JobSuccessful, rollout.JobFailure
	for _, row := range []struct {
		why, rule string
		jobs      []rollout.Job
		names     []string
		detail    string
	}{
		{"a status", `"onJobStatuses":["failure"]`, []rollout.Job{ran("v0", ok, -30), ran("v1", failure, -5), ran("v0", ok, -3)}, []string{"v0"}, "failure"},
		{"a verification", `"onVerificationFailure":true`, []rollout.Job{ran("v0", ok, -30), verified(ran("v1", ok, -5), "failed"), ran("v0", ok, -3)}, []string{"v0"}, "verification failed"},
		{"nothing to go back to", `"onJobStatuses":["failure"]`, []rollout.Job{ran("v1", failure, -5)}, nil, "failure"},
	} {
		s := fleet(1, "", map[string][]string{"api": {"v0", "v1"}})
		s.Targets[0].Jobs = row.jobs
		plan := mustPlan(t, compile(t, policy(`{"id":"x","rollback":{`+row.rule+`}}`)), s, t0)
		if plan.Waiting.Len() != 1 || len(waitingOf(plan)[0].Blockers) != 1 {
			t.Fatalf("%s: %q", row.why, blockers(plan))
		}
		if data := waitingOf(plan)[0].Blockers[0].Data; !slices.Equal(data.Names, row.names) || data.Detail != row.detail {
			t.Errorf("%s: %+v, want %q and %q", row.why, data, row.names, row.detail)
		}
	}
}

// TestRollbackOfTheOldest: a version that nothing is older than is denied like any other.
func TestRollbackOfTheOldest(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v1"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobFailure, -5)}
	plan := mustPlan(t, compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}},{"retry":{"maxRetries":3}}`)), s, t0)
	if got := blockers(plan); !slices.Equal(got, []string{"r1/api@v1: rollback_triggered"}) || len(plan.Start) != 0 {
		t.Errorf("waits %q, starts %q", got, started(plan))
	}
}

// TestRollbackAndOutdated: what a target went back to is run again when its variables change, as
// far as nothing stands in the way.
func TestRollbackAndOutdated(t *testing.T) {
	s := fleet(1, "", map[string][]string{"api": {"v0", "v1"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v0", rollout.JobSuccessful, -30), ran("v1", rollout.JobFailure, -5), ran("v0", rollout.JobSuccessful, -3)}
	const rules = `{"id":"x","rollback":{"onJobStatuses":["failure"]}}`
	for _, row := range []struct {
		why, rules string
		outdated   int
		current    string // as the host says
		starts     []string
	}{
		{"before the way back", rules, -4, "", nil},
		{"after it", rules, -1, "", []string{"r1/api@v0"}},
		{"where the host still calls current what went wrong", rules, -1, "v1", []string{"r1/api@v0"}},
		{"while a window is shut", rules + "," + weekly("w", "01:00", "02:00", ""), -1, "", nil},
	} {
		s.Targets[0].OutdatedAt, s.Targets[0].Current = minute(row.outdated), row.current
		plan := mustPlan(t, compile(t, policy(row.rules)), s, t0)
		if got := started(plan); !slices.Equal(got, row.starts) || waits(plan) != "rollback_triggered x" {
			t.Errorf("%s: starts %q, want %q; waits for %q", row.why, got, row.starts, waits(plan))
		}
	}
}

// TestRollbackToWhatIsCurrent: a host that prunes its jobs says what a target ran before, and that
// may be the oldest version.
func TestRollbackToWhatIsCurrent(t *testing.T) {
	s := fleet(1, "v0", map[string][]string{"api": {"v0", "v1"}})
	for _, earlier := range [][]rollout.Job{nil, {ran("v0", rollout.JobCancelled, -9)}} { // its success is not listed; a run that came to nothing may be
		s.Targets[0].Jobs = append(earlier, ran("v1", rollout.JobFailure, -5))
		plan := mustPlan(t, compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}}`)), s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r1/api@v0"}) || plan.Start[0].Purpose != rollout.PurposeRollback {
			t.Errorf("%v: starts %q", earlier, got)
		}
	}
}

// TestRollbackRunsOnce follows a version from its failure over the way back to the next version.
func TestRollbackRunsOnce(t *testing.T) {
	for _, back := range []rollout.JobStatus{rollout.JobSuccessful, rollout.JobFailure} {
		s := fleet(1, "", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
		s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30)}
		var got []string
		for n, status := range []rollout.JobStatus{rollout.JobFailure, back, "", ""} {
			now := minute(n)
			plan := mustPlan(t, set, s, now)
			for _, start := range plan.Start {
				got = append(got, start.Version+" "+string(start.Purpose)+" "+start.Run)
			}
			carryOut(t, &s, plan, now, status)
		}
		if want := []string{"v2 deploy r1/prod/api/v2/1", "v1 rollback r1/prod/api/v1/2/rollback"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", back, got, want)
		}
		if plan := mustPlan(t, set, s, minute(9)); len(plan.State.Pools[0].Leases) != 0 {
			t.Errorf("%s: the slot is still held: %+v", back, plan.State.Pools)
		}
	}
}

// TestPrunedJobs: which jobs of a target its host may leave out, and what becomes of it if it leaves
// out more.
func TestPrunedJobs(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}},{"anyApproval":{"minApprovals":1}}`))
	job := func(version string, at int, status rollout.JobStatus, run string) rollout.Job {
		return rollout.Job{Run: run, Version: version, Status: status, CreatedAt: minute(at), CompletedAt: minute(at)}
	}
	older, before := job("v1", 1, rollout.JobSuccessful, ""), job("v2", 2, rollout.JobSuccessful, "")
	failed, back := job("v3", 3, rollout.JobFailure, "r1/prod/a/v3/1"), job("v2", 4, rollout.JobFailure, "r1/prod/a/v2/1/rollback")
	for _, row := range []struct {
		why  string
		jobs []rollout.Job
		want string
	}{
		{"all of them", []rollout.Job{older, before, failed, back}, "v4 waits: approval_missing (0 of 1 needed), waits for an approval of v4 in prod"},
		{"from the first of the newest version that was started here, and the success before", []rollout.Job{before, failed, back}, "v4 waits: approval_missing (0 of 1 needed), waits for an approval of v4 in prod"},
		{"without the rollback, which then runs again", []rollout.Job{before, failed}, "starts v2, v4 waits: approval_missing (0 of 1 needed), waits for an approval of v4 in prod"},
		{"those of the newest version of all alone, which has none: the failed one starts again", []rollout.Job{before}, "starts v3, v4 waits: approval_missing (0 of 1 needed), waits for an approval of v4 in prod"},
	} {
		s := fleet(1, "", map[string][]string{"a": {"v1", "v2", "v3", "v4"}})
		s.Targets[0].Jobs = row.jobs
		for _, v := range []string{"v1", "v2", "v3"} {
			s.Approvals = append(s.Approvals, rollout.Approval{Version: v, Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved})
		}
		plan := mustPlan(t, set, s, minute(10))
		if got := plan.Changes(nil); len(got) != 1 || got[0].After.String() != row.want {
			t.Errorf("%s: %v, want %s", row.why, got, row.want)
		}
	}
}

// TestRollbackOfADeletedVersion: a way back that went wrong, too, is not taken back itself, also
// once the version that it came from is deleted.
func TestRollbackOfADeletedVersion(t *testing.T) {
	set := compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`))
	for _, row := range []struct {
		status rollout.JobStatus
		waits  string
	}{{rollout.JobFailure, "rollback_failed x"}, {rollout.JobSuccessful, "rollback_triggered x"}} {
		s := fleet(1, "", map[string][]string{"api": {"v0", "v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{ran("v0", rollout.JobSuccessful, -60), ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, -5)}
		plan := mustPlan(t, set, s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r1/api@v1"}) {
			t.Fatalf("starts %q", got)
		}
		add(&s, plan.Start[0], verified(job(plan.Start[0], t0, row.status), rollout.VerificationFailed))
		if plan = mustPlan(t, set, s, minute(1)); len(plan.Start) != 0 || waits(plan) != row.waits {
			t.Errorf("%s: starts %q, waits for %q, want %q", row.status, started(plan), waits(plan), row.waits)
		}
		s.Versions = s.Versions[:2]
		if plan = mustPlan(t, set, s, minute(1)); len(plan.Start) != 0 {
			t.Errorf("%s, and v2 is deleted: starts %q", row.status, started(plan))
		}
	}
}

// TestRollbackFirst: capacity goes to those that are taken back before anybody is taken forward.
func TestRollbackFirst(t *testing.T) {
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[2].Current, s.Targets[2].Jobs = "", []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, 5)}
	plan := mustPlan(t, compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, minute(6))
	if got := started(plan); !slices.Equal(got, []string{"r3/api@v1"}) || plan.Start[0].Purpose != rollout.PurposeRollback {
		t.Errorf("starts %q", got)
	}
	s.Targets[1].Current, s.Targets[1].Jobs = "", []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, 6)}
	if plan = mustPlan(t, compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}}`)), s, minute(6)); !slices.Equal(started(plan), []string{"r3/api@v1", "r2/api@v1", "r1/api@v2"}) {
		t.Errorf("starts %q: who went wrong first goes first, and nobody forward before them", started(plan))
	}
}

// TestStartsWithoutAPlaceComeFirst: of what a full pool does not hold back, because the resource is
// down or an override lets it past, rollbacks come first too; what takes a place comes after it.
func TestStartsWithoutAPlaceComeFirst(t *testing.T) {
	s := fleet(5, "v1", map[string][]string{"api": {"v1", "v2"}})
	for _, k := range []int{2, 4} {
		s.Targets[k].Current, s.Targets[k].Jobs = "", []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobFailure, 5)}
	}
	s.Overrides = []rollout.Override{{ID: "o", Rule: "c", Version: "v2", Resource: "r4", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
	s.Unavailable = []string{"r2", "r5"}
	set := compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}},{"id":"c","resourceConcurrency":{"groupSelector":"true","limit":4}}`))
	if got := started(mustPlan(t, set, s, minute(6))); !slices.Equal(got, []string{"r5/api@v1", "r2/api@v2", "r4/api@v2", "r3/api@v1"}) {
		t.Errorf("starts %q", got)
	}
}

// TestRollbackKeepsItsSlot: between the failure and the way back the target keeps its place, also
// while it is still being verified.
func TestRollbackKeepsItsSlot(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"rollback":{"onVerificationFailure":true}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobSuccessful)
	first := plan.Start[0].Resource
	at := slices.IndexFunc(s.Targets, func(x rollout.Target) bool { return x.Resource == first })
	s.Targets[at].Jobs[0].Verification = rollout.VerificationRunning
	if plan = mustPlan(t, set, s, minute(1)); len(plan.Start) != 0 || waits(plan) != "slot_full p/resourceConcurrency/0" {
		t.Fatalf("while it is verified, %q start", started(plan))
	}
	s.Targets[at].Jobs[0].Verification = rollout.VerificationFailed
	s.Targets[at].Jobs = append(s.Targets[at].Jobs, rollout.Job{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-60)})
	plan = mustPlan(t, set, s, minute(2))
	if len(plan.Start) != 1 || plan.Start[0].Resource != first || plan.Start[0].Version != "v1" || plan.Start[0].Reason != "slot_held" {
		t.Fatalf("starts %+v", plan.Start)
	}
	carryOut(t, &s, plan, minute(2), rollout.JobSuccessful)
	if plan = mustPlan(t, set, s, minute(3)); len(plan.Start) != 1 || plan.Start[0].Resource == first {
		t.Errorf("after the way back starts %q", started(plan))
	}
}

// TestRollbackInBracket: there a trigger is a failure that no retry mends, and a run that is being
// verified keeps the execution open.
func TestRollbackInBracket(t *testing.T) {
	bracket := `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_all"}},{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`
	t.Run("a failure is final although there are retries", func(t *testing.T) {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := compile(t, policy(bracket+`,{"retry":{"maxRetries":5}},{"id":"x","rollback":{"onJobStatuses":["failure"]}}`))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
		plan := mustPlan(t, set, s, minute(1))
		if got := started(plan); !slices.Equal(got, []string{"r1/a@v1"}) || plan.Start[0].Purpose != rollout.PurposeRollback {
			t.Errorf("starts %q", got)
		}
		s.Overrides = []rollout.Override{override("x")} // the operator lets the version past the rule: it is tried again
		if plan = mustPlan(t, set, s, minute(1)); !slices.Equal(started(plan), []string{"r1/a@v2"}) || plan.Start[0].Purpose != rollout.PurposeDeploy {
			t.Errorf("with an override it starts %q", started(plan))
		}
	})
	t.Run("verification", func(t *testing.T) {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := compile(t, policy(bracket+`,{"rollback":{"onVerificationFailure":true}}`))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		a := slices.IndexFunc(s.Targets, func(x rollout.Target) bool { return x.Deployment == "a" })
		for _, step := range []struct {
			verification rollout.Verification
			want         []string
		}{
			{"running", nil}, {"never heard of", nil}, {"passed", []string{"r1/b@v2"}}, {"", []string{"r1/b@v2"}}, {"failed", []string{"r1/a@v1"}},
		} {
			s.Targets[a].Jobs[0].Verification = step.verification
			plan := mustPlan(t, set, s, minute(1))
			if got := started(plan); !slices.Equal(got, step.want) {
				t.Errorf("verification %q: starts %q, want %q", step.verification, got, step.want)
			}
			if len(plan.State.Executions) != 1 || plan.State.Executions[0].Open == nil {
				t.Errorf("verification %q: the execution is not open", step.verification)
			}
		}
	})
}

// TestRollbackInOneInstant: with jobs that take no time, or instants that are only kept to the
// second, the job that goes back can be as old as the one that went wrong. It is the answer all the
// same, and not one more job of an older version: otherwise it would be repeated without end.
func TestRollbackInOneInstant(t *testing.T) {
	set := compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}}`))
	s := fleet(1, "", map[string][]string{"api": {"v1", "v3"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30)}
	statuses := map[string]rollout.JobStatus{"v3": rollout.JobFailure, "v1": rollout.JobSuccessful}
	var order []string
	for range 5 {
		plan := mustPlan(t, set, s, t0)
		for _, start := range plan.Start {
			order = append(order, start.Version+" "+string(start.Purpose))
			add(&s, start, job(start, t0, statuses[start.Version]))
		}
	}
	if want := []string{"v3 deploy", "v1 rollback"}; !slices.Equal(order, want) {
		t.Errorf("starts %q, want %q", order, want)
	}
}

// TestOverrideDoesNotMakeUp: what a window kept waiting does not start all at once when somebody
// overrides the window.
func TestOverrideDoesNotMakeUp(t *testing.T) {
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	start := instantOf(t, "2025-01-06T16:50:00Z")
	s.Versions[1].CreatedAt = start
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")+`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	o := override("w")
	o.CreatedAt = instantOf(t, "2025-01-06T19:20:00Z")
	s.Overrides = []rollout.Override{o}
	// Ten of the twenty minutes to the last turn had passed when the window closed.
	if got, want := dues(t, set, s, o.CreatedAt), []string{"06 19:20:00", "06 19:20:00", "06 19:30:00"}; !slices.Equal(got, want) { // the first was due at 16:50
		t.Errorf("due at %q, want %q", got, want)
	}
}

// TestRollbackThatWasLeftBehind: v2 went wrong, the target went back to v1 and on to v3, and then
// v2 is published again, as the newest. It is still refused, and the target keeps v3: what it went
// back to is not deployed once more.
func TestRollbackThatWasLeftBehind(t *testing.T) {
	set := compile(t, policy(`{"rollback":{"onJobStatuses":["failure"]}}`))
	s := fleet(1, "", map[string][]string{"a": {"v1", "v2", "v3"}})
	for k, m := range []int{-30, 20, -10} {
		s.Versions[k].CreatedAt = minute(m)
	}
	s.Targets[0].Jobs = []rollout.Job{
		{Run: "r1/prod/a/v2/1", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(0), CompletedAt: minute(1)},
		{Run: "r1/prod/a/v1/1/rollback", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(2), CompletedAt: minute(3)},
		{Run: "r1/prod/a/v3/1", Version: "v3", Status: rollout.JobSuccessful, CreatedAt: minute(4), CompletedAt: minute(5)},
	}
	if plan := mustPlan(t, set, s, minute(21)); len(plan.Start) > 0 || !slices.Equal(blockers(plan), []string{"r1/a@v2: rollback_triggered"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
	s.Targets[0].OutdatedAt = minute(22)
	if got := started(mustPlan(t, set, s, minute(22))); !slices.Equal(got, []string{"r1/a@v3"}) {
		t.Errorf("outdated: %q start", got)
	}
	s.Targets[0].Jobs = s.Targets[0].Jobs[:2]
	if got := started(mustPlan(t, set, s, minute(22))); !slices.Equal(got, []string{"r1/a@v1"}) {
		t.Errorf("outdated before it went on: %q start", got)
	}
}

// TestSeveralRollbackRules: any one of several rules takes a job for a failure; all that do are
// named; in a bracket no retry mends it, and a success that one of them has still to judge is none
// yet.
func TestSeveralRollbackRules(t *testing.T) {
	on := func(id, fields string) string { return `{"id":"` + id + `","rollback":{` + fields + `}}` }
	const failure, lost, verified = `"onJobStatuses":["failure"]`, `"onJobStatuses":["invalidJobAgent"]`, `"onVerificationFailure":true`
	for _, rules := range [][2]string{{failure, lost}, {lost, failure}, {failure, failure}} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Targets[0].Jobs = []rollout.Job{{Run: "r", Version: "v2", Status: rollout.JobFailure, CreatedAt: t0, CompletedAt: t0}}
		s.Targets[0].Current = ""
		want := "rollback_triggered x"
		if rules[0] == lost {
			want = "rollback_triggered y"
		} else if rules[1] == failure {
			want = "rollback_triggered x; rollback_triggered y"
		}
		if got := waits(mustPlan(t, compile(t, policy(on("x", rules[0])+","+on("y", rules[1]))), s, t0)); got != want {
			t.Errorf("%q: waits for %q, want %q", rules, got, want)
		}
		s = fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		set := compile(t, policy(alone+","+on("x", rules[0])+","+on("y", rules[1])+`,{"retry":{"maxRetries":3}}`))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
		if plan := mustPlan(t, set, s, t0.Add(time.Minute)); len(plan.Start) > 0 || !strings.HasPrefix(waits(plan), "bracket_failed_holding") {
			t.Errorf("%q: starts %q, waits for %q", rules, started(plan), waits(plan))
		}
	}
	for _, row := range []struct {
		rules  [2]string
		judged bool
	}{{[2]string{verified, failure}, true}, {[2]string{failure, verified}, true}, {[2]string{failure, lost}, false}} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		set := compile(t, policy(alone+","+on("x", row.rules[0])+","+on("y", row.rules[1])+`,{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.Targets[0].Jobs[0].Verification = rollout.VerificationRunning
		if plan := mustPlan(t, set, s, t0.Add(time.Minute)); (len(plan.Start) == 0) != row.judged {
			t.Errorf("%q: starts %q, waits %q", row.rules, started(plan), blockers(plan))
		}
	}
}

// TestRollbackAsksNotWhoNeedsIt: an edge to what a rollback takes away does not hold the rollback, as
// the docs of both say. An edge in turn holds a newer version.
func TestRollbackAsksNotWhoNeedsIt(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}}`))
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "db": {"v1", "v2", "v3"}})
	for k := range s.Versions {
		switch v := &s.Versions[k]; v.Deployment + "@" + v.ID {
		case "api@v2":
			v.Dependencies = []rollout.VersionDependency{{Deployment: "db", VersionSelector: "version.id == 'v2'"}}
		case "db@v3":
			v.Dependencies = []rollout.VersionDependency{{Deployment: "api", VersionSelector: "version.id != 'v2'"}}
		}
	}
	s.Targets[0].Current = "v2"
	s.Targets[1].Jobs = []rollout.Job{ran("v1", rollout.JobSuccessful, -30), ran("v2", rollout.JobSuccessful, -20)}
	if plan := mustPlan(t, set, s, minute(0)); len(plan.Start) != 0 || !slices.Equal(blockers(plan), []string{"r1/db@v3: version_dependency_unmet"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
	s.Targets[1].Jobs[1].Status = rollout.JobFailure
	if plan := mustPlan(t, set, s, minute(0)); !slices.Equal(started(plan), []string{"r1/db@v1"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestNothingToGoBackToButItself: the host says that the version which went wrong is current, and
// lists no success of another one.
func TestNothingToGoBackToButItself(t *testing.T) {
	s := fleet(1, "v2", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -5)}
	plan := mustPlan(t, compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}}`)), s, t0)
	if got := waits(plan); got != "rollback_triggered x" || len(plan.Start) > 0 {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}

// TestRunIDsOfAPrunedHistory: a host may forget the jobs before the last success that a rollback
// needs, and then fewer jobs of that version are listed than there were. The next run must still
// have an id of its own: with an old one, create-if-absent would create nothing.
func TestRunIDsOfAPrunedHistory(t *testing.T) {
	at := func(run, version string, status rollout.JobStatus, minutes int) rollout.Job {
		one := ran(version, status, minutes)
		one.Run = run
		return one
	}
	failed := at("r1/prod/api/v3/1", "v3", rollout.JobFailure, 9)
	for _, row := range []struct {
		why     string
		jobs    []rollout.Job
		current string
		want    string
	}{
		{why: "the host alone knows what ran before, and a way back to it failed", current: "v1", jobs: []rollout.Job{at("r1/prod/api/v2/1", "v2", rollout.JobFailure, 1), at("r1/prod/api/v1/1/rollback", "v1", rollout.JobFailure, 2), failed}, want: "r1/prod/api/v1/2/rollback"},
		{why: "which is what the docs say to keep for that", current: "v1", jobs: []rollout.Job{at("r1/prod/api/v1/1/rollback", "v1", rollout.JobFailure, 2), failed}, want: "r1/prod/api/v1/2/rollback"},
		{why: "without it the id comes again", current: "v1", jobs: []rollout.Job{failed}, want: "r1/prod/api/v1/1/rollback"},
		{why: "all are listed", jobs: []rollout.Job{at("r1/prod/api/v1/1", "v1", rollout.JobSuccessful, -60), at("r1/prod/api/v1/2/rollback", "v1", rollout.JobSuccessful, 3), failed}, want: "r1/prod/api/v1/3/rollback"},
		{why: "the last success alone is, a rollback", jobs: []rollout.Job{at("r1/prod/api/v1/2/rollback", "v1", rollout.JobSuccessful, 3), failed}, want: "r1/prod/api/v1/3/rollback"},
		{why: "it is a third attempt", jobs: []rollout.Job{at("r1/prod/api/v1/3", "v1", rollout.JobSuccessful, 3), failed}, want: "r1/prod/api/v1/4/rollback"},
		{why: "jobs of the host's own count by their number", jobs: []rollout.Job{at("", "v1", rollout.JobFailure, 2), at("nightly/7", "v1", rollout.JobSuccessful, 3), failed}, want: "r1/prod/api/v1/3/rollback"},
		{why: "the id of another target says nothing", jobs: []rollout.Job{at("r2/prod/api/v1/7", "v1", rollout.JobSuccessful, 3), failed}, want: "r1/prod/api/v1/2/rollback"},
		{why: "nor does a number that is none of this package's", jobs: []rollout.Job{at("r1/prod/api/v1/99999999999999999999", "v1", rollout.JobSuccessful, 3), failed}, want: "r1/prod/api/v1/2/rollback"},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
		s.Targets[0].Current, s.Targets[0].Jobs = row.current, row.jobs
		plan := mustPlan(t, compile(t, policy(`{"id":"x","rollback":{"onJobStatuses":["failure"]}}`)), s, minute(10))
		if len(plan.Start) != 1 || plan.Start[0].Run != row.want {
			t.Errorf("%s: %v, want a run %s", row.why, plan.Start, row.want)
		}
	}
}
