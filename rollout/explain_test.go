package rollout_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestExplanationReads: the tree says everything that the data hold, and nothing that they do not.
func TestExplanationReads(t *testing.T) {
	now := time.Date(2026, 3, 10, 9, 0, 0, 0, time.FixedZone("", 3600))
	rule := func(kind rollout.RuleKind, id string, v rollout.Verdict) rollout.RuleVerdict {
		v.Rule = id
		return rollout.RuleVerdict{Kind: kind, Verdict: v}
	}
	since := rule("anyApproval", "a", rollout.Verdict{Status: rollout.Allowed, Reason: rollout.ReasonAllowed})
	since.Since = now
	window := rollout.Verdict{Status: rollout.Pending, Reason: rollout.ReasonWindowClosed, Until: now.Add(2 * time.Hour)}
	cooldown := rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonCooldown, Until: now.Add(time.Hour), Data: &rollout.Data{Names: []string{"v1"}}}
	shut := rollout.Verdict{Status: rollout.Denied, Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "api"}}, Data: &rollout.Data{Detail: "paused"}}
	e := rollout.Explanation{
		TargetID: rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}, Now: now,
		Versions: []rollout.VersionExplanation{
			{Version: "v3", Tag: "v3", Prospect: rollout.ProspectWaits, Rules: []rollout.RuleVerdict{rule("version", "", shut)}},
			{Version: "v2", Tag: "2.0", Scoped: true, Prospect: rollout.ProspectWaits, Listed: true, Rules: []rollout.RuleVerdict{since, rule("deploymentWindow", "w", window), rule("versionCooldown", "c", cooldown)}},
			{Version: "v1", Prospect: rollout.ProspectOutOfScope},
			{Prospect: rollout.ProspectWaits, Rules: []rollout.RuleVerdict{rule("deploymentBracket", "b", rollout.Verdict{Status: rollout.Pending, Reason: rollout.Reason(bracket.ReasonHookWithoutVersion)})}},
		},
	}
	const versions = `  v3: waits
    └─ - version                version_not_deployable: paused, waits for a version of api  <- the release
  v2 (2.0), scoped: waits
    ├─ + anyApproval            allowed since 2026-03-10T08:00:00Z  [a]
    ├─ ~ deploymentWindow       window_closed until 2026-03-10T10:00:00Z  [w]  <- time
    └─ - versionCooldown        cooldown after v1 until 2026-03-10T09:00:00Z  [c]  <- time
       opens by itself at 2026-03-10T10:00:00Z
  v1: out of scope
  without version: waits
    └─ ~ deploymentBracket      bracket_hook_without_version  [b]
`
	if got, want := e.String(), "r1 / prod / api at 2026-03-10T08:00:00Z\n  runs      nothing\n  policies  none\n"+versions; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	e.Current, e.Started, e.Policies, e.Bracket, e.Held = "v1", "v2", []string{"p", "q"}, "b", []rollout.Verdict{{Reason: rollout.ReasonSelectorError}}
	if got, want := e.String(), "r1 / prod / api at 2026-03-10T08:00:00Z\n  runs      v1\n  begun     v2\n  policies  p, q\n  bracket   b\n  held      selector_error\n"+versions; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	if v := e.Waits(); v != &e.Versions[1] {
		t.Errorf("the listed one waits: %+v", v)
	}
	e.Versions[1].Listed = false
	if v := e.Waits(); v != &e.Versions[0] {
		t.Errorf("none is listed, so the newest waits: %+v", v)
	}
	e.Versions = e.Versions[2:3]
	if v := e.Waits(); v != nil {
		t.Errorf("nobody waits: %+v", v)
	}
}

// TestExplainTellsWhoIsChosen: the newest version that every rule allows is the one that asks for a slot. Nothing blocks those below it, and they do not
// wait for anything.
func TestExplainTellsWhoIsChosen(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why      string
		rules    string
		resource string
		outdated bool
		want     []string
	}{
		{"it has its slot", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r1", false, []string{"v3 starts", "v2 superseded", "v1 kept"}},
		{"it waits for one", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", false, []string{"v3 waits slot_full", "v2 superseded", "v1 kept"}},
		{"the version that runs would be due again", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r1", true, []string{"v3 starts", "v2 superseded", "v1 superseded"}},
		{"also while it waits", `{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", true, []string{"v3 waits slot_full", "v2 superseded", "v1 superseded"}},
		{"an older one is chosen", `{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}}`, "r1", false, []string{"v3 waits selector_no_match", "v2 starts", "v1 kept"}},
		{"an older one is, and waits for a slot, which the plan does not list", `{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", false,
			[]string{"v3 waits selector_no_match", "v2 waits slot_full", "v1 kept"}},
		{"so does the one that runs, and is due again", `{"id":"s","versionSelector":{"selector":"version.tag == 'v1'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`, "r2", true,
			[]string{"v3 waits selector_no_match", "v2 waits selector_no_match", "v1 waits slot_full"}},
		{"none is", `{"id":"s","versionSelector":{"selector":"version.tag == 'v1'"}}`, "r1", false, []string{"v3 waits selector_no_match", "v2 waits selector_no_match", "v1 kept"}},
	} {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
		if row.outdated {
			s.Targets[0].OutdatedAt, s.Targets[1].OutdatedAt = t0, t0
		}
		plan := mustPlan(t, compile(t, policy(row.rules)), s, t0)
		e, err := plan.Explain(rollout.TargetID{Resource: row.resource, Environment: "prod", Deployment: "api"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range e.Versions {
			line := v.Version + " " + string(v.Prospect)
			for _, b := range v.Blockers() {
				line += " " + string(b.Reason)
			}
			got = append(got, line)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestExplainTellsWhoWaitsOutOfTurn: whoever is chosen with an older version waits for its slot in the order of a rollout, which is not that of the targets.
func TestExplainTellsWhoWaitsOutOfTurn(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"s","versionSelector":{"selector":"version.tag != 'v3'"}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":0}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s := fleet(8, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	plan := mustPlan(t, set, s, t0.Add(time.Hour))
	s.State = plan.State
	plan = mustPlan(t, set, s, t0.Add(2*time.Hour))
	for _, target := range s.Targets {
		e, err := plan.Explain(target.TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if v2 := e.Versions[1].Blockers(); len(v2) != 1 || v2[0].Reason != "slot_paused" {
			t.Errorf("%s: %+v", target.Resource, v2)
		}
	}
}

// TestExplainTellsWhatRuns: it is named also if the snapshot does not hold that version any more.
func TestExplainTellsWhatRuns(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why     string
		current string
		jobs    []rollout.Job
		want    string
	}{
		{"nothing", "", nil, ""},
		{"what the host says", "v1", nil, "v1"},
		{"what it says, and nobody knows", "v0", nil, "v0"},
		{"what succeeded last", "", []rollout.Job{{Run: "3", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(-1)}, {Run: "2", Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-2)}}, "v1"},
		{"what did, and nobody knows", "", []rollout.Job{{Run: "3", Version: "v2", Status: rollout.JobFailure, CreatedAt: minute(-1)}, {Run: "2", Version: "v0", Status: rollout.JobSuccessful, CreatedAt: minute(-2)}}, "v0"},
	} {
		s := fleet(1, row.current, map[string][]string{"api": {"v1", "v2"}})
		s.Targets[0].Jobs = row.jobs
		plan := mustPlan(t, compile(t, policy(`{"id":"r","retry":{"maxRetries":0}}`)), s, t0)
		if e, err := plan.Explain(s.Targets[0].TargetID); err != nil || e.Current != row.want {
			t.Errorf("%s: %q, %v", row.why, e.Current, err)
		}
	}
}

// TestExplainTellsWhyNothingIsToBeDone: a version is kept because it runs, because a job of it is at work, or because it was run again since the
// target was outdated.
func TestExplainTellsWhyNothingIsToBeDone(t *testing.T) {
	t.Parallel()
	job := func(status rollout.JobStatus, at time.Time) []rollout.Job {
		return []rollout.Job{{Run: "1", Version: "v1", Status: status, CreatedAt: at, CompletedAt: at}}
	}
	for _, row := range []struct {
		why      string
		outdated time.Time
		jobs     []rollout.Job
		want     rollout.Reason
	}{
		{"it runs", time.Time{}, job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonCurrent},
		{"it was run again at the very instant", t0.Add(-time.Hour), job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonAlreadyDone},
		{"it is being run again", t0.Add(-time.Hour), job(rollout.JobInProgress, t0.Add(-time.Minute)), rollout.ReasonStarted},
		{"it is to be run again", t0.Add(-time.Minute), job(rollout.JobSuccessful, t0.Add(-time.Hour)), rollout.ReasonAllowed},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1"}})
		s.Targets[0].OutdatedAt, s.Targets[0].Jobs = row.outdated, row.jobs
		plan := mustPlan(t, compile(t, policy(`{"id":"r","retry":{"maxRetries":0}}`)), s, t0)
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if v := e.Versions[0]; !slices.ContainsFunc(v.Rules, func(r rollout.RuleVerdict) bool { return r.Reason == row.want }) || (v.Prospect == rollout.ProspectKept) != (row.want != rollout.ReasonAllowed) {
			t.Errorf("%s: want %s\n%s", row.why, row.want, e)
		}
	}
}

// TestExplainAsksNothingOfWhatIsKept: what a member of a bracket runs, or has begun, stays when its approval is taken back or it is withdrawn.
func TestExplainAsksNothingOfWhatIsKept(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"anyApproval":{"minApprovals":1}}`))
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: t0}}
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	for _, ended := range []bool{false, true} {
		if ended {
			x := &s.Targets[0]
			x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, minute(1), "v2"
			s.State = mustPlan(t, set, s, minute(1)).State
		}
		s.Approvals, s.Versions[1].Status = nil, rollout.VersionPaused
		plan := mustPlan(t, set, s, minute(2))
		e, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if plan.Keep.Current+plan.Keep.Started != 1 || e.Versions[0].Version != "v2" || e.Versions[0].Prospect != rollout.ProspectKept || len(e.Versions[0].Blockers()) > 0 {
			t.Errorf("ended %v: keeps %+v\n%s", ended, plan.Keep, e)
		}
	}
}

// TestActors: every condition is somebody's to open.
func TestActors(t *testing.T) {
	verdict := func(status rollout.Status, until time.Time, kinds ...rollout.ConditionKind) rollout.Verdict {
		v := rollout.Verdict{Status: status, Until: until}
		for _, kind := range kinds {
			v.On = append(v.On, rollout.Condition{Kind: kind})
		}
		return v
	}
	for _, row := range []struct {
		why  string
		in   rollout.Verdict
		want []rollout.Actor
	}{
		{"nobody has to do anything for what is allowed", verdict(rollout.Allowed, t0, rollout.OnOperator), nil},
		{"time comes first", verdict(rollout.Pending, t0, rollout.OnApproval, rollout.OnVersion, rollout.OnConfig, rollout.OnOperator),
			[]rollout.Actor{rollout.ActorTime, rollout.ActorApprover, rollout.ActorPublish, rollout.ActorPolicy, rollout.ActorOperator}},
		{"all that runs is the fleet, said once", verdict(rollout.Denied, time.Time{}, rollout.OnJob, rollout.OnDependency, rollout.OnMember, rollout.OnExecutionEnd, rollout.OnSlot),
			[]rollout.Actor{rollout.ActorFleet}},
		{"nothing is known to help", verdict(rollout.Denied, time.Time{}), nil},
	} {
		if got := row.in.Actors(); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestChangesRead: what changed, in one line per target.
func TestChangesRead(t *testing.T) {
	id := func(resource string) rollout.TargetID {
		return rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "api"}
	}
	wait := func(resource, version string, reasons ...rollout.Reason) rollout.Waiting {
		w := rollout.Waiting{TargetID: id(resource), Version: version}
		for _, r := range reasons {
			w.Blockers = append(w.Blockers, rollout.Verdict{Reason: r, Data: &rollout.Data{Attempt: len(version)}})
		}
		return w
	}
	start := func(resource, version string) rollout.Start {
		return rollout.Start{TargetID: id(resource), Version: version}
	}
	before := rollout.Plan{
		Waiting: rollout.NewWaitingList(wait("r2", "v2", rollout.ReasonWindowClosed, rollout.ReasonTargetBusy), wait("r3", "v2", rollout.ReasonWindowClosed), wait("r4", "", rollout.ReasonSelectorError)),
		Start:   []rollout.Start{start("r1", "v2")},
	}
	after := rollout.Plan{
		Waiting: rollout.NewWaitingList(wait("r3", "v2", rollout.ReasonWindowClosed), wait("r4", "v2", rollout.ReasonSelectorError), wait("r5", "v3", rollout.ReasonWindowClosed)),
		Start:   []rollout.Start{start("r2", "v2"), start("r5", "v2")},
	}
	for _, row := range []struct {
		why           string
		before, after rollout.Plan
		want          []string
	}{
		{"nothing", before, before, nil},
		{"who started, who starts now, who waits with another version, and who waits for a newer one while an older one starts", before, after, []string{
			"r1 / prod / api: starts v2 -> nothing to do",
			"r2 / prod / api: v2 waits: window_closed; target_busy -> starts v2",
			"r4 / prod / api: waits: selector_error -> v2 waits: selector_error",
			"r5 / prod / api: nothing to do -> starts v2, v3 waits: window_closed",
		}},
		{"all are new", rollout.Plan{}, rollout.Plan{Start: []rollout.Start{start("r1", "v2")}}, []string{"r1 / prod / api: nothing to do -> starts v2"}},
		{"all are done", rollout.Plan{Start: []rollout.Start{start("r1", "v2")}}, rollout.Plan{}, []string{"r1 / prod / api: starts v2 -> nothing to do"}},
		{"another version starts", rollout.Plan{Start: []rollout.Start{start("r1", "v2")}}, rollout.Plan{Start: []rollout.Start{start("r1", "v3")}}, []string{"r1 / prod / api: starts v2 -> starts v3"}},
	} {
		var got []string
		for _, c := range row.after.Changes(&row.before) {
			got = append(got, c.String())
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s:\n%s\nwant\n%s", row.why, strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
}

// TestExplainSharesPools: whoever asks for thousands that wait for one pool has it described once, with those who start among its holders.
func TestExplainSharesPools(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":2}}`))
	plan := mustPlan(t, set, fleet(4, "v1", map[string][]string{"web": {"v1", "v2"}}), t0)
	var first *concurrency.Holder
	for _, id := range []string{"r3", "r4"} {
		e, err := plan.Explain(rollout.TargetID{Resource: id, Environment: "prod", Deployment: "web"})
		if err != nil || len(e.Pools) != 1 || len(e.Pools[0].Holders) != 2 || e.Pools[0].Holders[0].Resource != "r1" || e.Pools[0].Holders[1].Resource != "r2" {
			t.Fatalf("%s: %+v, %v", id, e.Pools, err)
		}
		if first == nil {
			first = &e.Pools[0].Holders[0]
		}
		if first != &e.Pools[0].Holders[0] {
			t.Errorf("%s has a list of its own", id)
		}
	}
	if len(plan.Pools[0].Holders) != 0 {
		t.Errorf("the plan has got holders: %+v", plan.Pools[0])
	}
}
