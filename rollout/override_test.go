package rollout_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// override lets v2 past a rule from t0 on.
func override(rule string, change ...func(*rollout.Override)) rollout.Override {
	o := rollout.Override{ID: "o-" + rule, Rule: rule, Version: "v2", CreatedAt: t0, CreatedBy: "ann", Reason: "hotfix"}
	for _, f := range change {
		f(&o)
	}
	return o
}

func expires(at time.Time) func(*rollout.Override) {
	return func(o *rollout.Override) { o.ExpiresAt = at }
}

func only(resource string) func(*rollout.Override) {
	return func(o *rollout.Override) { o.Resource = resource }
}

func of(deployment string) func(*rollout.Override) {
	return func(o *rollout.Override) { o.Deployment = deployment }
}

func in(environment string) func(*rollout.Override) {
	return func(o *rollout.Override) { o.Environment = environment }
}

// TestOverrideIsActive: from its creation to before its expiry, for its version, deployment,
// environment and resource only.
func TestOverrideIsActive(t *testing.T) {
	for _, row := range []struct {
		why    string
		over   rollout.Override
		now    time.Time
		starts bool
		next   time.Time
	}{
		{"before it is created", override("s"), t0.Add(-1), false, t0},
		{"at its creation", override("s"), t0, true, time.Time{}},
		{"without end", override("s"), t0.AddDate(10, 0, 0), true, time.Time{}},
		{"without end, which is missing as some databases write it", override("s", expires(time.Time{}.Add(-time.Hour))), t0, true, time.Time{}},
		{"before it expires", override("s", expires(minute(5))), minute(5).Add(-1), true, minute(5)},
		{"when it expires", override("s", expires(minute(5))), minute(5), false, time.Time{}},
		{"in its environment", override("s", in("prod")), t0, true, time.Time{}},
		{"in another one", override("s", in("staging")), t0, false, time.Time{}},
		{"in one that nobody knows", override("s", in("lab")), t0, false, time.Time{}},
		{"for its deployment", override("s", of("api")), t0, true, time.Time{}},
		{"for another one that has a version of this name", override("s", of("web")), t0, false, time.Time{}},
		{"for one that nobody knows", override("s", of("lab")), t0, false, time.Time{}},
		{"on its resource", override("s", only("r1")), t0, true, time.Time{}},
		{"on another one", override("s", only("r2")), t0, false, time.Time{}},
		{"on one that nobody knows", override("s", only("r9")), t0, false, time.Time{}},
		{"on its resource in another environment", override("s", only("r1"), in("staging")), t0, false, time.Time{}},
		{"for another version", override("s", func(o *rollout.Override) { o.Version = "v1" }), t0, false, time.Time{}},
		{"of another rule", override("other"), t0, false, time.Time{}},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			s.Environments = append(s.Environments, rollout.Environment{ID: "staging"})
			s.Deployments = append(s.Deployments, rollout.Deployment{ID: "web"})
			s.Versions = append(s.Versions, rollout.Version{ID: "v2", Deployment: "web", Status: rollout.VersionReady, CreatedAt: t0})
			for k := range s.Versions {
				s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(-time.Hour)
			}
			set := compile(t, policy(`{"id":"s","versionSelector":{"selector":"version.tag == 'v1'"}},{"id":"other","versionSelector":{"selector":"true"}}`))
			s.Overrides = []rollout.Override{row.over}
			plan := mustPlan(t, set, s, row.now)
			if got := len(plan.Start) == 1; got != row.starts || !plan.Next.Equal(row.next) {
				t.Errorf("starts %q, next %v, want %v, %v", started(plan), plan.Next, row.starts, row.next)
			}
		})
	}
}

// TestOverrideOfEveryKind: of each kind of rule an override lets the version past that rule and no
// other.
func TestOverrideOfEveryKind(t *testing.T) {
	now := t0.Add(20 * time.Hour) // 20:00
	for _, row := range []struct {
		why, rule string
		world     func(*rollout.Snapshot)
		want      string
	}{
		{"a version selector", `{"id":"x","versionSelector":{"selector":"version.tag == 'v1'"}}`, nil, "selector_no_match x"},
		{"one that looks at the resource", `{"id":"x","versionSelector":{"selector":"resource.kind == 'VM'"}}`, nil, "selector_no_match x"},
		{"one that fails", `{"id":"x","versionSelector":{"selector":"int(version.tag) > 1"}}`, nil, "selector_error x"},
		{"approvals", `{"id":"x","anyApproval":{"minApprovals":2}}`, nil, "approval_missing x"},
		{"a progression", `{"id":"x","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'"}}`, nil, "progression_no_environment x"},
		{"a dependency", `{"id":"x","deploymentDependency":{"dependsOn":"deployment.name == 'db'"}}`, nil, "dependency_unmatched x"},
		{"a cooldown", `{"id":"x","versionCooldown":{"intervalSeconds":864000}}`, nil, "cooldown x 10 23:00:00"},
		{"a window", weekly("x", "09:00", "17:00", ""), nil, "window_closed x 02 09:00:00"},
		{"a freeze", `{"id":"x","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-08T00:00:00Z","allowWindow":false}}`, nil, "window_closed x 08 00:00:00"},
		{"a window that is too short", weekly("x", "19:00", "20:30", `"minimumRemainingMinutes":60`), nil, "window_too_short x 02 19:00:00"},
		{"a curve", `{"id":"x","gradualRollout":{"rolloutType":"waves","waves":[1],"timeScaleInterval":864000}}`, func(s *rollout.Snapshot) {
			s.Targets[0].Priority = -1 // the second of two
			s.Resources = append(s.Resources, rollout.Resource{ID: "r2"})
			s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r2", Environment: "prod", Deployment: "api"}, Current: "v2"})
		}, "rollout_not_due x 11 00:00:00"},
		{"a pool that is full", `{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":1}}`, func(s *rollout.Snapshot) {
			s.Resources = append(s.Resources, rollout.Resource{ID: "r2"})
			s.Unavailable = []string{"r2"}
		}, "slot_full x"},
		{"a pool that is paused", `{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":0}}`, nil, "slot_paused x"},
		{"a rule of retries", `{"id":"x","retry":{"maxRetries":0}}`, func(s *rollout.Snapshot) {
			s.Targets[0].Jobs = []rollout.Job{{Version: "v2", Status: rollout.JobFailure, CreatedAt: t0.Add(-time.Hour)}}
		}, "retry_exhausted x"},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			if row.world != nil {
				row.world(&s)
			}
			set := compile(t, policy(row.rule+`,{"id":"y","versionSelector":{"selector":"true"}}`))
			plan := mustPlan(t, set, s, now)
			if got := waits(plan); got != row.want || len(plan.Start) != 0 {
				t.Fatalf("without override it starts %q and waits for %q, want %q", started(plan), got, row.want)
			}
			s.Overrides = []rollout.Override{override("y")}
			if got := waits(mustPlan(t, set, s, now)); got != row.want {
				t.Errorf("an override of another rule changes it: %q", got)
			}
			s.Overrides = []rollout.Override{override("x")}
			plan = mustPlan(t, set, s, now)
			if got := started(plan); !slices.Equal(got, []string{"r1/api@v2"}) {
				t.Errorf("starts %q, waits for %q", got, waits(plan))
			}
			if strings.HasPrefix(row.want, "slot") && plan.Start[0].Reason != rollout.ReasonOverridden {
				t.Errorf("it started because of %s", plan.Start[0].Reason)
			}
			if len(plan.Diagnostics) != 0 {
				t.Errorf("diagnostics %+v", plan.Diagnostics)
			}
			explanation, err := plan.Explain(s.Targets[0].TargetID)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(explanation.Versions[0].Rules, func(r rollout.RuleVerdict) bool {
				return r.Reason == rollout.ReasonOverridden && r.Rule == "x" && r.Status == rollout.Allowed && r.Data != nil && r.Data.Detail == "o-x" && slices.Equal(r.Data.Names, []string{"ann"})
			}) {
				t.Errorf("nobody sees the override:\n%s", explanation)
			}
		})
	}
}

// TestOverrideExpiryRevertsNothing: what was begun under an override stays, and what has to be
// repeated passes the rule by definition.
func TestOverrideExpiryRevertsNothing(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"id":"s","versionSelector":{"selector":"version.tag == 'v1'"}},{"retry":{"maxRetries":1}}`))
	s.Overrides = []rollout.Override{override("s", only("r1"), expires(minute(5)))}
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobFailure)
	s.Targets[0].Current = "v1"
	plan = mustPlan(t, set, s, minute(5))
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v2"}) || plan.Start[0].Purpose != rollout.PurposeDeploy {
		t.Errorf("after the override it starts %q, waits %q", got, blockers(plan))
	}
	carryOut(t, &s, plan, minute(5), rollout.JobSuccessful)
	if plan = mustPlan(t, set, s, minute(6)); len(plan.Start) != 0 || plan.Keep.Current != 1 {
		t.Errorf("starts %q, keeps %+v", started(plan), plan.Keep)
	}
}

// TestOverrideLeavesTheOrder: an override of a dependency rule that orders the members of a bracket
// orders them still, or a node could be upgraded before it is drained. Where the rule waits for
// what is outside of the bracket the override lets the whole execution start.
func TestOverrideLeavesTheOrder(t *testing.T) {
	for _, row := range []struct {
		why, members, starts, waits string
	}{
		{"a is a member", "true", "[r1/a@v2]", `["r1/c@v2: bracket_waits_for_members"]`},
		{"a is none, and fails for good", "deployment.name == 'c'", "[r1/c@v2]", `["r1/a@v2: retry_exhausted"]`},
	} {
		set := compile(t, policy(fmt.Sprintf(`{"id":"b","deploymentBracket":{"deploymentSelector":%q,"readinessMode":"immediate","memberRoles":{}}},
			{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'a' && version.tag == 'v2'","appliesTo":"deployment.name == 'c'"}}`, row.members)))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}})
		if row.members != "true" {
			s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -1)}
			if plan := mustPlan(t, set, s, t0); len(plan.Start) > 0 {
				t.Fatalf("%s: without an override it starts %q", row.why, started(plan))
			}
		}
		s.Overrides = []rollout.Override{override("d")}
		plan := mustPlan(t, set, s, t0)
		if starts, waits := fmt.Sprint(started(plan)), fmt.Sprintf("%q", blockers(plan)); starts != row.starts || waits != row.waits {
			t.Errorf("%s: starts %s, waits %s", row.why, starts, waits)
		}
	}
}

// TestOverrideForOneResource: a gate that an override opens for one resource stays shut for the
// others, and their rollout has not begun by it.
func TestOverrideForOneResource(t *testing.T) {
	for _, gate := range []string{`{"id":"x","anyApproval":{"minApprovals":1}}`, `{"id":"x","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'"}}`} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(gate+`,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"none"}}`))
		s.Overrides = []rollout.Override{override("x", only("r2"))}
		// r2 has a place in the order like everybody, and its turn counts from the override.
		order := orderOf(t, mustPlan(t, compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"none"}}`)), fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}), t0), 3)
		place := slices.Index(order, "r2")
		plan := mustPlan(t, set, s, minute(place))
		if got := started(plan); !slices.Equal(got, []string{"r2/api@v2"}) {
			t.Errorf("%s: starts %q, waits %q", gate, got, blockers(plan))
		}
		if len(plan.State.Rollouts) != 0 {
			t.Errorf("%s: the rollout of the others began: %+v", gate, plan.State.Rollouts)
		}
		if place > 0 {
			if plan := mustPlan(t, set, s, minute(place).Add(-1)); len(plan.Start) != 0 || !plan.Next.Equal(minute(place)) {
				t.Errorf("%s: starts %q early, next %v", gate, started(plan), plan.Next)
			}
		}
	}
}

// TestOverrideOfAGateStartsTheRollout: without a resource the rule counts as satisfied when the
// override was created, or the version if that is later; and never later than it was anyway.
func TestOverrideOfAGateStartsTheRollout(t *testing.T) {
	approved := rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod", By: "bob", Status: rollout.Approved, At: minute(10)}
	for _, row := range []struct {
		why, only string // the environment that the override names
		created   int    // of the override
		approvals []rollout.Approval
		start     int
	}{
		{"before the version", "", -30, nil, 0},
		{"after the version", "", 7, nil, 7},
		{"in this environment alone", "prod", 7, nil, 7},
		{"before the approval that is there as well", "", 7, []rollout.Approval{approved}, 7},
		{"after it: it delays nobody", "", 15, []rollout.Approval{approved}, 10},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Approvals = row.approvals
		s.Overrides = []rollout.Override{override("x", in(row.only), func(o *rollout.Override) { o.CreatedAt = minute(row.created) })}
		set := compile(t, policy(`{"id":"x","anyApproval":{"minApprovals":1}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
		plan := mustPlan(t, set, s, minute(30))
		if len(plan.State.Rollouts) != 1 || !plan.State.Rollouts[0].StartAt.Equal(minute(row.start)) {
			t.Errorf("%s: %+v", row.why, plan.State.Rollouts)
		}
		told, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		if own := told.Versions[0].Rules[1]; own.Rule != "x" || own.Reason != rollout.ReasonOverridden || !own.Since.Equal(minute(max(0, row.created))) {
			t.Errorf("%s: explained by %+v", row.why, own)
		}
	}
}

// TestOverrideOfASelectorLeavesTheCurve: outside brackets a curve counts from approvals and
// progressions alone, however late a version selector lets the version past.
func TestOverrideOfASelectorLeavesTheCurve(t *testing.T) {
	for _, selector := range []string{"version.tag == 'v1'", "version.tag == 'v1' || resource.id == 'none'"} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Overrides = []rollout.Override{override("x", func(o *rollout.Override) { o.CreatedAt = minute(7) })}
		plan := mustPlan(t, compile(t, policy(`{"id":"x","versionSelector":{"selector":"`+selector+`"}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":240}}`)), s, minute(7))
		if len(plan.State.Rollouts) != 1 || !plan.State.Rollouts[0].StartAt.Equal(t0) || len(plan.Start) != 2 || !plan.Next.Equal(minute(8)) {
			t.Errorf("%s: %+v, starts %q, next %v", selector, plan.State.Rollouts, started(plan), plan.Next)
		}
	}
}

// TestOverrideOfASelectorInABracket: a group collects from the instant at which the version may be
// deployed, which is that of the override. Counted from its creation the window would have closed
// long ago, and with it the curve: everybody would start at once.
func TestOverrideOfASelectorInABracket(t *testing.T) {
	for _, row := range []struct {
		selector, why string
		starts        []int // by minute 180, 239, 240, 245, 250
	}{
		{"version.tag == 'v1'", "asked once for all", []int{0, 0, 1, 2, 3}},
		{"version.tag == 'v1' || resource.id == 'none'", "asked of each resource, and fits none", []int{0, 0, 1, 2, 3}},
		{"version.tag == 'v1' || resource.id == 'r2'", "fits one from the creation on, so that the group has closed long ago", []int{3, 3, 3, 3, 3}},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":3600,"memberRoles":{}}},
			{"id":"x","versionSelector":{"selector":"`+row.selector+`"}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}}`))
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.State = mustPlan(t, set, s, t0).State
		s.Overrides = []rollout.Override{override("x", func(o *rollout.Override) { o.CreatedAt = minute(180) })}
		for k, at := range []int{180, 239, 240, 245, 250} {
			if plan := mustPlan(t, set, s, minute(at)); len(plan.Start) != row.starts[k] {
				t.Errorf("%s: minute %d: starts %q, want %d; waits %q", row.why, at, started(plan), row.starts[k], blockers(plan))
			}
		}
	}
}

// TestSecondOverrideOpensAGroup: the execution of a bracket did without a version, although an
// override of the rule that holds it was in force, as where the planner was told of it too late. A
// second one begins after the end, and opens a group whichever is listed first.
func TestSecondOverrideOpensAGroup(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ selector, rule string }{
		{"resource.id == 'r2'", `{"id":"x","anyApproval":{"minApprovals":1}}`},
		{"resource.id == 'r2'", `{"id":"x","versionSelector":{"selector":"version.tag == 'v1'"}}`},
		{"true", `{"id":"x","versionSelector":{"selector":"version.tag == 'v1' || resource.id == 'r1'"}}`},
		{"resource.id == 'r2'", `{"id":"x","environmentProgression":{"dependsOnEnvironmentSelector":"false"}}`},
	} {
		set := compile(t, "["+policy(alone)+`,{"name":"q","selector":"deployment.id == 'a' && `+row.selector+`","rules":[`+row.rule+"]}]")
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		for k := range s.Versions {
			s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.Add(-time.Hour)
		}
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		s.State = mustPlan(t, set, s, minute(10)).State
		s.Overrides = []rollout.Override{override("x", only("r2"), func(o *rollout.Override) { o.CreatedAt = minute(-30) })}
		if plan := mustPlan(t, set, s, minute(20)); len(plan.Start) > 0 || waits(plan) != "bracket_ended b" {
			t.Errorf("%s: under the first %q start, waits for %q", row.rule, started(plan), waits(plan))
		}
		s.Overrides = append(s.Overrides, override("x", only("r2"), func(o *rollout.Override) { o.ID, o.CreatedAt = "second", minute(15) }))
		for range 2 {
			slices.Reverse(s.Overrides)
			if plan := mustPlan(t, set, s, minute(20)); !slices.Equal(started(plan), []string{"r2/a@v2"}) {
				t.Errorf("%s: %q start, waits for %q", row.rule, started(plan), waits(plan))
			}
		}
		s.Overrides[0].ExpiresAt, s.Overrides[1].ExpiresAt = minute(16), minute(16)
		if plan := mustPlan(t, set, s, minute(20)); len(plan.Start) > 0 {
			t.Errorf("%s: once both have expired %q start", row.rule, started(plan))
		}
	}
}

// TestOverrideOfAWindow: of united windows one that is open is enough, so an override of one lets
// its version past all of them; it never shuts what is open.
func TestOverrideOfAWindow(t *testing.T) {
	both := weekly("a", "09:00", "12:00", "") + "," + weekly("b", "14:00", "17:00", "")
	for _, row := range []struct {
		why, policies, over, now, waits string
	}{
		{"between two", policy(both), "a", "2025-01-06T13:00:00Z", ""},
		{"inside one of them, of that one", policy(both), "a", "2025-01-06T10:00:00Z", ""},
		{"inside one of them, of the other", policy(both), "b", "2025-01-06T10:00:00Z", ""},
		{"a window that denies still does", policy(both + "," + weekly("d", "12:30", "13:30", deny)), "a", "2025-01-06T13:00:00Z", "window_closed d 06 13:30:00"},
		{"and the other way round", policy(both + "," + weekly("d", "12:30", "13:30", deny)), "d", "2025-01-06T13:00:00Z", "window_closed a 06 14:00:00; window_closed b 06 14:00:00"},
		{"another policy still counts", "[" + named("p", both) + "," + named("q", weekly("c", "15:00", "16:00", "")) + "]", "a", "2025-01-06T13:00:00Z", "window_closed c 06 15:00:00"},
		{"the other windows of its policy still count for nothing when something else is shut, too", "[" + named("p", weekly("a", "09:00", "12:00", "")+","+weekly("b", "20:00", "21:00", "")) + "," +
			named("q", weekly("c", "15:00", "18:00", "")+","+weekly("d", "18:00", "19:00", deny+`,"minimumRemainingMinutes":60`)) + "]", "a", "2025-01-06T14:30:00Z", "window_closed c 06 15:00:00"},
		{"another window may ask for more time than is left", policy(weekly("a", "09:00", "12:00", "") + "," + weekly("b", "14:00", "17:00", `"minimumRemainingMinutes":60`) + "," + weekly("d", "13:30", "15:00", deny)), "a",
			"2025-01-06T13:00:00Z", "window_too_short b 06 15:00:00"},
	} {
		t.Run(row.why, func(t *testing.T) {
			now := instantOf(t, row.now)
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			s.Overrides = []rollout.Override{override(row.over)}
			plan := mustPlan(t, compile(t, row.policies), s, now)
			if got := waits(plan); got != row.waits || (len(plan.Start) == 1) != (row.waits == "") {
				t.Errorf("starts %q, waits for %q, want %q", started(plan), got, row.waits)
			}
		})
	}
}

// TestOverrideOfAWindowInABracket: an execution starts only when every member may run, and hooks
// have versions of their own. Whoever lets past the window what is upgraded, and nothing else, is
// told whom it still holds.
func TestOverrideOfAWindowInABracket(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",
			"memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}},
		{"id":"freeze","deploymentWindow":{"from":"2024-12-01T00:00:00Z","until":"2025-02-01T00:00:00Z","allowWindow":false}}`))
	for _, row := range []struct {
		why  string
		over []rollout.Override
		want []string // blockers of the window, or starts
		edit func(*rollout.Snapshot)
	}{
		{"all are held alike", nil, []string{"window_closed until 2025-02-01T00:00:00Z"}, nil},
		{"an override on another resource", []rollout.Override{override("freeze", only("r2"))}, []string{"window_closed until 2025-02-01T00:00:00Z"}, func(s *rollout.Snapshot) {
			own := s.Overrides
			*s = fleet(2, "v1", map[string][]string{"drain": {"v1"}, "api": {"v1", "v2"}, "uncordon": {"v1"}})
			s.Overrides = own
		}},
		{"the upgrade is let past, and its hooks are not", []rollout.Override{override("freeze")}, []string{"window_closed for drain, uncordon until 2025-02-01T00:00:00Z"}, nil},
		{"nor is a hook held that runs for the first time", []rollout.Override{override("freeze")}, []string{"window_closed for uncordon until 2025-02-01T00:00:00Z"}, func(s *rollout.Snapshot) {
			s.Targets[slices.IndexFunc(s.Targets, func(target rollout.Target) bool { return target.Deployment == "drain" })].Current = ""
		}},
		{"and so are the hooks", []rollout.Override{override("freeze"), override("freeze", func(o *rollout.Override) { o.ID, o.Version = "hooks", "v1" })}, []string{"r1/drain@v1"}, nil},
	} {
		s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "api": {"v1", "v2"}, "uncordon": {"v1"}})
		if s.Overrides = row.over; row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, set, s, t0)
		got := started(plan)
		if wait, waits := plan.Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"}); waits && len(got) == 0 {
			for _, b := range wait.Blockers {
				if b.Rule == "freeze" {
					got = append(got, b.String())
				}
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
	}
}

// TestOverrideOfAWindowOfSomeMembers: the upgrade is let past a window that holds it and the drain.
// The uncordon has a window of its own, which is open, and is not among those that are held.
func TestOverrideOfAWindowOfSomeMembers(t *testing.T) {
	for _, row := range []struct{ why, window, want string }{
		{"a freeze", `"from":"2024-12-01T00:00:00Z","until":"2025-02-01T00:00:00Z","allowWindow":false`, "window_closed for drain until 2025-02-01T00:00:00Z"},
		{"a window that never opens again, which is told as well", `"from":"2024-11-01T00:00:00Z","until":"2024-12-01T00:00:00Z"`, "window_closed for drain: no opening within 5 years, waits for a change of the policy"},
	} {
		set := compile(t, `[{"name":"p","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate",
			"memberRoles":{"pre":"deployment.name == 'drain'","post":"deployment.name == 'uncordon'"}}}]},
		{"name":"q","selector":"deployment.name != 'uncordon'","rules":[{"id":"freeze","deploymentWindow":{`+row.window+`}}]},
		{"name":"r","selector":"deployment.name == 'uncordon'","rules":[{"id":"open","deploymentWindow":{"from":"2024-12-01T00:00:00Z","until":"2026-02-01T00:00:00Z"}}]}]`)
		s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "api": {"v1", "v2"}, "uncordon": {"v1"}})
		s.Overrides = []rollout.Override{override("freeze")}
		wait, _ := mustPlan(t, set, s, t0).Waiting.Of(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"})
		if b := wait.Blockers; len(b) != 2 || b[1].String() != row.want {
			t.Errorf("%s: waits for %v", row.why, b)
		}
	}
}

// TestOverrideOfAWindowInACurve: the turns of whom it holds for count the time in which the window
// is shut, and those of the others do not.
func TestOverrideOfAWindowInACurve(t *testing.T) {
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
	start := instantOf(t, "2025-01-06T16:50:00Z")
	s.Versions[1].CreatedAt = start
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")+`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	if got, want := dues(t, set, s, start), []string{"06 16:50:00", "07 09:00:00", "07 09:10:00"}; !slices.Equal(got, want) {
		t.Fatalf("due at %q, want %q", got, want)
	}
	order := orderOf(t, mustPlan(t, set, s, start), 3)
	s.Overrides = []rollout.Override{override("w", only(order[2]))}
	if got, want := dues(t, set, s, start), []string{"06 16:50:00", "06 17:10:00", "07 09:00:00"}; !slices.Equal(got, want) {
		t.Errorf("due at %q, want %q", got, want)
	}
}

// TestSecondOverrideOfAWindowInACurve: what an override of a window opened counts for a curve as
// long as it is in force. Under a second one the same turns come first, which are over.
func TestSecondOverrideOfAWindowInACurve(t *testing.T) {
	t.Parallel()
	const curve = `,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}}`
	set := compile(t, policy(weekly("w", "20:00", "21:00", `"firstDeploy":"apply"`)+curve))
	lasts := func(rule string, from, to int) rollout.Override {
		return override(rule, func(o *rollout.Override) {
			o.ID, o.CreatedAt, o.ExpiresAt = fmt.Sprint(rule, from), minute(from), minute(to)
		})
	}
	for _, row := range []struct {
		why    string
		second []rollout.Override
		want   []int // the minutes at which one target starts
	}{
		{"one that lasts", []rollout.Override{lasts("w", 10, 40)}, []int{10, 15, 20, 25}},
		{"a second one as short", []rollout.Override{lasts("w", 20, 30)}, []int{10, 15}},
		{"a second one that is longer", []rollout.Override{lasts("w", 20, 40)}, []int{10, 15, 30, 35}},
		{"one of the curve besides", []rollout.Override{lasts("w", 20, 30), lasts("g", 20, 30)}, []int{10, 15, 20, 20}},
	} {
		s := fleet(4, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Overrides = append([]rollout.Override{lasts("w", 10, 20)}, row.second...)
		if row.second[0].ID == s.Overrides[0].ID {
			s.Overrides = row.second
		}
		var got []int
		for m := range 60 {
			plan := mustPlan(t, set, s, minute(m))
			for range plan.Start {
				got = append(got, m)
			}
			carryOut(t, &s, plan, minute(m), rollout.JobSuccessful)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: starts at %v, want %v", row.why, got, row.want)
		}
	}
}

// TestOverrideOfAWindowHalfWay: an override that comes while a rollout is interrupted counts from
// its creation on: what was shut before is not made up for, and who was due keeps the instant and
// the place.
func TestOverrideOfAWindowHalfWay(t *testing.T) {
	for _, row := range []struct {
		why, curve, created, now string
		position                 int // of whom the override is for
		want                     []string
	}{
		{"whose turn would have come in shut time has it with the override", `"timeScaleInterval":600`, "2025-01-06T20:00:00Z", "2025-01-06T20:00:00Z", 1, []string{"starts 1", "07 09:10:00"}},
		{"later turns count from the override on what was left", `"timeScaleInterval":600`, "2025-01-06T20:00:00Z", "2025-01-06T20:00:00Z", 2, []string{"06 20:10:00", "07 09:00:00"}},
		{"who was due before it keeps the instant, and so the place", `"timeScaleInterval":300`, "2025-01-06T16:58:00Z", "2025-01-06T16:59:00Z", 0, []string{"starts 0", "07 09:00:00"}},
		{"and who was not has a turn of its own", `"timeScaleInterval":300`, "2025-01-06T16:58:00Z", "2025-01-06T16:59:00Z", 2, []string{"starts 0", "06 17:00:00"}},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		start := instantOf(t, "2025-01-06T16:50:00Z")
		s.Versions[1].CreatedAt = start
		set := compile(t, policy(weekly("w", "09:00", "17:00", "")+`,{"gradualRollout":{"rolloutType":"linear",`+row.curve+`}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
		first := mustPlan(t, set, s, start)
		order := orderOf(t, first, 3)
		s.State.Rollouts = first.State.Rollouts
		s.Overrides = []rollout.Override{override("w", only(order[row.position]), func(o *rollout.Override) { o.CreatedAt = instantOf(t, row.created) })}
		plan := mustPlan(t, set, s, instantOf(t, row.now))
		var got []string
		for _, start := range plan.Start {
			got = append(got, fmt.Sprint("starts ", slices.Index(order, start.Resource)))
		}
		var dues []time.Time
		for wait := range plan.Waiting.All() {
			for _, b := range wait.Blockers {
				if b.Reason == rollout.ReasonRolloutNotDue {
					dues = append(dues, b.Until)
				}
			}
		}
		slices.Sort(got)
		slices.SortFunc(dues, time.Time.Compare)
		for _, due := range dues {
			got = append(got, due.Format("02 15:04:05"))
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q; waits %q", row.why, got, row.want, blockers(plan))
		}
	}
}

// TestOverrideOfAWindowTakesItsTurn: who may start because of an override is due when that was
// created, and so comes after who was due before and waited for a slot, whatever their positions.
func TestOverrideOfAWindowTakesItsTurn(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Versions[1].CreatedAt = instantOf(t, "2025-01-06T18:00:00Z")
	s.Targets[0].Priority = 1 // before the other, were they due together
	s.Targets[1].Current = "" // no window holds a first deployment back
	now := instantOf(t, "2025-01-06T20:00:00Z")
	s.Overrides = []rollout.Override{override("w", only("r1"), func(o *rollout.Override) { o.CreatedAt = now })}
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")+`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":0}},{"resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	if got := started(mustPlan(t, set, s, now)); len(got) != 1 || !strings.HasPrefix(got[0], "r2") {
		t.Errorf("starts %q, want r2", got)
	}
}

// TestOverridesOfSeveralWindows: an override that comes later takes nothing back of the time that
// an earlier one had opened.
func TestOverridesOfSeveralWindows(t *testing.T) {
	type given struct{ rule, created string }
	for _, row := range []struct {
		why   string
		given []given
		due   string // of the last of three, ten minutes of whose turn passed before the window shut
	}{
		{"none", nil, "07 09:10:00"},
		{"of the window", []given{{"w", "17:10"}}, "06 17:20:00"},
		{"of a freeze that is still to come, too", []given{{"w", "17:10"}, {"d", "17:15"}}, "06 17:20:00"},
		{"which alone lets nobody through the night", []given{{"d", "17:15"}}, "07 09:10:00"},
		{"half of the turn is over when the freeze comes", []given{{"w", "17:55"}}, "06 19:05:00"},
		{"and the freeze is lifted at its beginning", []given{{"w", "17:55"}, {"d", "17:56"}}, "06 18:05:00"},
		{"or on the way", []given{{"w", "17:55"}, {"d", "18:30"}}, "06 18:35:00"},
		{"and the other way round", []given{{"d", "18:25"}, {"w", "18:30"}}, "06 18:40:00"},
		{"at the same time", []given{{"d", "18:30"}, {"w", "18:30"}}, "06 18:40:00"},
		{"of another window of the policy, later", []given{{"w", "17:10"}, {"x", "17:15"}}, "06 17:20:00"},
		{"of two policies: both have to be open", []given{{"w", "17:10"}, {"q", "17:15"}}, "06 17:20:00"},
		{"of all, one after another", []given{{"w", "17:55"}, {"d", "18:25"}, {"x", "18:26"}, {"q", "18:27"}}, "06 18:30:00"},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		start := instantOf(t, "2025-01-06T16:50:00Z")
		s.Versions[1].CreatedAt = start
		set := compile(t, "["+named("p", weekly("w", "09:00", "17:00", "")+","+weekly("x", "10:00", "16:00", "")+","+weekly("d", "18:00", "19:00", deny)+
			`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`)+","+named("q", weekly("q", "00:00", "23:00", ""))+"]")
		first := mustPlan(t, set, s, start)
		order := orderOf(t, first, 3)
		s.State.Rollouts = first.State.Rollouts
		now := start
		for _, o := range row.given {
			now = instantOf(t, "2025-01-06T"+o.created+":00Z")
			s.Overrides = append(s.Overrides, override(o.rule, only(order[2]), func(own *rollout.Override) { own.CreatedAt = now }))
		}
		var got string
		for wait := range mustPlan(t, set, s, now).Waiting.All() {
			for _, b := range wait.Blockers {
				if b.Reason == rollout.ReasonRolloutNotDue && wait.Resource == order[2] {
					got = b.Until.Format("02 15:04:05")
				}
			}
		}
		if got != row.due {
			t.Errorf("%s: due at %s, want %s", row.why, got, row.due)
		}
	}
}

// TestOverridesOfWindowsByTarget: what is left of the windows is each target's own: overrides of
// different windows for others, or of the same ones at another time, change nothing about its turn.
func TestOverridesOfWindowsByTarget(t *testing.T) {
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")+","+weekly("d", "18:00", "19:00", deny)+`,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	start := instantOf(t, "2025-01-06T16:55:00Z") // five minutes of which count
	type given struct{ rule, created string }
	for _, row := range []struct {
		why   string
		given [3][]given // by position
		want  []string   // of positions 1 and 2
	}{
		{"none", [3][]given{}, []string{"07 09:05:00", "07 09:15:00"}},
		{"of one window each", [3][]given{1: {{"d", "18:00:00"}}, 2: {{"w", "18:00:00"}}}, []string{"07 09:05:00", "06 19:15:00"}},
		{"of the same at different times", [3][]given{1: {{"w", "17:30:00"}}, 2: {{"w", "17:33:00"}}}, []string{"06 17:35:00", "06 17:48:00"}},
		{"within a second", [3][]given{1: {{"w", "17:30:00.25"}}, 2: {{"w", "17:30:00.75"}}}, []string{"06 17:35:00.25", "06 17:45:00.75"}},
		{"the other way round", [3][]given{1: {{"w", "17:30:00"}, {"d", "17:33:00"}}, 2: {{"w", "17:33:00"}, {"d", "17:30:00"}}}, []string{"06 17:35:00", "06 17:48:00"}},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Versions[1].CreatedAt = start
		first := mustPlan(t, set, s, start)
		order := orderOf(t, first, 3)
		s.State.Rollouts = first.State.Rollouts
		now := instantOf(t, "2025-01-06T17:30:00Z")
		for p, list := range row.given {
			for _, o := range list {
				created := instantOf(t, "2025-01-06T"+o.created+"Z")
				now = later(now, created)
				s.Overrides = append(s.Overrides, override(o.rule, only(order[p]), func(own *rollout.Override) { own.ID, own.CreatedAt = fmt.Sprint(p, o), created }))
			}
		}
		plan := mustPlan(t, set, s, now)
		var got []string
		for _, resource := range order[1:] {
			due := ""
			for wait := range plan.Waiting.All() {
				for _, b := range wait.Blockers {
					if b.Reason == rollout.ReasonRolloutNotDue && wait.Resource == resource {
						due = b.Until.Format("02 15:04:05.999999999")
					}
				}
			}
			got = append(got, due)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: due at %q, want %q", row.why, got, row.want)
		}
	}
}

// TestOverrideOfAWindowThatHasPassed: turns that no opening was left for count from the override
// on; whoever has none, or one of another window, waits for the policy owner as before.
func TestOverrideOfAWindowThatHasPassed(t *testing.T) {
	set := compile(t, policy(`{"id":"w","deploymentWindow":{"from":"2025-01-01T00:00:00Z","until":"2025-01-01T01:30:00Z"}},`+weekly("d", "12:00", "13:00", deny)+
		`,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`))
	for _, row := range []struct {
		why, over string
		position  int
		want      string
	}{
		{"of the window, for a turn that never came", "w", 2, "rollout_not_due g 01 02:40:00"}, // half an hour of the second was left
		{"of another window, for a turn that never came", "d", 2, "rollout_overflow g"},
		{"of another window, for a turn that comes before the last opening ends", "d", 1, "rollout_not_due g 01 01:00:00"},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		first := mustPlan(t, set, s, t0)
		order := orderOf(t, first, 2)
		s.State.Rollouts = first.State.Rollouts
		last := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return !slices.Contains(order, t.Resource) })
		order = append(order, s.Targets[last].Resource)
		now := minute(10)
		if row.over == "w" {
			now = minute(130)
		}
		s.Overrides = []rollout.Override{override(row.over, only(order[row.position]), func(o *rollout.Override) { o.CreatedAt = now })}
		plan := mustPlan(t, set, s, now)
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: order[row.position], Environment: "prod", Deployment: "api"})
		got := ""
		for _, b := range wait.Blockers {
			if b.Rule == "g" {
				got = strings.TrimSuffix(fmt.Sprint(b.Reason, " g ", b.Until.Format("02 15:04:05")), " 01 00:00:00")
			}
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s; waits %q", row.why, got, row.want, blockers(plan))
		}
	}
}

// TestOverrideOfAWindowYearsLater: a turn that needs more open time than the horizon has was never
// due; when the window is overridden after that, more time may have been open than the turn asks
// for. It has come then.
func TestOverrideOfAWindowYearsLater(t *testing.T) {
	set := compile(t, policy(`{"id":"w","deploymentWindow":{"weekly":{"days":["mon"],"start":"09:00","end":"09:01"}}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":18000}}`))
	start := instantOf(t, "2018-01-01T09:00:00Z")
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	for k := range s.Versions {
		s.Versions[k].CreatedAt = start
	}
	plan := mustPlan(t, set, s, start)
	s.State.Rollouts = plan.State.Rollouts
	first := plan.Start[0].Resource
	s.Targets[slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == first })].Current = "v2"
	now := instantOf(t, "2024-01-01T20:00:00Z") // 314 minutes were open, and five years have 261
	if got := waits(mustPlan(t, set, s, now)); !strings.Contains(got, "rollout_overflow") {
		t.Fatalf("waits for %q", got)
	}
	s.Overrides = []rollout.Override{override("w", func(o *rollout.Override) { o.CreatedAt = now })}
	if plan := mustPlan(t, set, s, now); len(plan.Start) != 1 {
		t.Errorf("waits for %q", waits(plan))
	}
}

// TestOverrideForTheOldest: the oldest version there is can be let past a rule like any other.
func TestOverrideForTheOldest(t *testing.T) {
	for _, rule := range []string{weekly("w", "09:00", "09:01", `"firstDeploy":"apply"`), `{"id":"w","deploymentDependency":{"dependsOn":"deployment.name == 'db'"}}`} {
		s := fleet(1, "", map[string][]string{"api": {"v2"}})
		s.Overrides = []rollout.Override{override("w")}
		if plan := mustPlan(t, compile(t, policy(rule)), s, t0.Add(13*time.Hour)); !slices.Equal(started(plan), []string{"r1/api@v2"}) {
			t.Errorf("%s: starts %q, waits %q", rule, started(plan), blockers(plan))
		}
	}
}

// TestOverrideOfRetries: it forgives what was attempted before it, once, and is no licence to
// repeat without end.
func TestOverrideOfRetries(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"id":"x","retry":{"maxRetries":1,"backoffSeconds":60}}`))
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -2), ran("v2", rollout.JobFailure, -1)}
	if got := waits(mustPlan(t, set, s, t0)); got != "retry_exhausted x" {
		t.Fatalf("waits for %q", got)
	}
	s.Overrides = []rollout.Override{override("x")}
	plan := mustPlan(t, set, s, t0)
	carryOut(t, &s, plan, t0, rollout.JobFailure)
	s.Targets[0].Current = "v1"
	if got := waits(mustPlan(t, set, s, t0)); len(plan.Start) != 1 || got != "retry_backoff x 01 00:01:00" {
		t.Fatalf("starts %q, then waits for %q", started(plan), got)
	}
	plan = mustPlan(t, set, s, minute(1))
	carryOut(t, &s, plan, minute(1), rollout.JobFailure)
	s.Targets[0].Current = "v1"
	if got := waits(mustPlan(t, set, s, minute(9))); len(plan.Start) != 1 || got != "retry_exhausted x" {
		t.Errorf("starts %q, then waits for %q", started(plan), got)
	}
	for _, row := range []struct {
		why    string
		change func(*rollout.Override)
		want   []string
	}{
		{"a second one forgives again", func(*rollout.Override) {}, []string{"r1/api@v2"}},
		{"also if it names what the first does not", func(o *rollout.Override) { o.Resource = "r1" }, []string{"r1/api@v2"}},
		{"not for another target", func(o *rollout.Override) { o.Resource = "r2" }, nil},
		{"not before it is created", func(o *rollout.Override) { o.CreatedAt = minute(10) }, nil},
		{"not once it has expired, though the first is in force", func(o *rollout.Override) { o.ExpiresAt = minute(9) }, nil},
	} {
		for _, more := range []int{0, 9} { // a few, or so many that they are indexed
			again := s
			again.Resources = append(slices.Clone(s.Resources), rollout.Resource{ID: "r2", Name: "r2", Kind: "node"})
			second := override("x", func(o *rollout.Override) { o.ID, o.CreatedAt = "second", minute(5) }, row.change)
			again.Overrides = append(slices.Clone(s.Overrides), second)
			for k := range more {
				again.Overrides = append(again.Overrides, override("x", func(o *rollout.Override) { o.ID, o.CreatedAt = fmt.Sprint(k), minute(-k) }))
			}
			slices.Reverse(again.Overrides)
			if got := started(mustPlan(t, set, again, minute(9))); !slices.Equal(got, row.want) {
				t.Errorf("%s, of %d: starts %q, want %q", row.why, len(again.Overrides), got, row.want)
			}
		}
	}
}

// TestOverrideOfRetriesInBracket: a run of a bracket began before an override of its retry rule,
// and fails under it. It is forgotten, and the member runs again at once; it must not have failed
// for good because no attempt is left that counts.
func TestOverrideOfRetriesInBracket(t *testing.T) {
	const slow = `{"id":"x","retry":{"maxRetries":3,"backoffSeconds":600}}`
	for _, row := range []struct {
		why, rules string
		status     rollout.JobStatus
		version    string // of the override; empty: there is none
		starts     bool
		waits      string
	}{
		{"without an override it waits", slow, rollout.JobFailure, "", false, "bracket_waits_for_members b 01 00:12:00"},
		{"with one it does not", slow, rollout.JobFailure, "v2", true, ""},
		{"the last attempt is forgotten as well", `{"id":"x","retry":{"maxRetries":0}}`, rollout.JobFailure, "v2", true, ""},
		{"for another version", slow, rollout.JobFailure, "v1", false, "bracket_waits_for_members b 01 00:12:00"},
		{"another rule delays it still, whichever comes first", slow + `,{"id":"y","retry":{"maxRetries":1,"backoffSeconds":60}}`, rollout.JobFailure, "v2", false, "bracket_waits_for_members b 01 00:03:00"},
		{"or counts it as the last", `{"id":"a","retry":{"maxRetries":0}},` + slow, rollout.JobFailure, "v2", false, "bracket_failed_holding b"},
		{"one that does not count it has nothing against it", `{"id":"a","retry":{"maxRetries":0,"retryOnStatuses":["cancelled"]}},` + slow, rollout.JobFailure, "v2", true, ""},
		{"nor has it if it comes last", slow + `,{"id":"a","retry":{"maxRetries":0,"retryOnStatuses":["cancelled"]}}`, rollout.JobFailure, "v2", true, ""},
		{"what was no attempt is not forgotten", slow, rollout.JobCancelled, "v2", false, "bracket_failed_holding b"},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`+row.rules))
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		s.Targets[0].Jobs[0].Status, s.Targets[0].Jobs[0].CompletedAt = row.status, minute(2)
		if row.version != "" {
			s.Overrides = []rollout.Override{override("x", func(o *rollout.Override) { o.Version, o.CreatedAt = row.version, minute(1) })}
		}
		plan := mustPlan(t, set, s, minute(2))
		if got := waits(plan); len(plan.Start) == 1 != row.starts || got != row.waits {
			t.Errorf("%s: starts %q, waits for %q", row.why, started(plan), got)
		}
	}
}

// TestOverrideOfCapacity: the forced start has a lease, which counts for everybody else.
func TestOverrideOfCapacity(t *testing.T) {
	rules := policy(`{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":1}}`)
	t.Run("a full pool", func(t *testing.T) {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, rules)
		plan := mustPlan(t, set, s, t0)
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
		s.Overrides = []rollout.Override{override("x", only("r3"))}
		plan = mustPlan(t, set, s, minute(1))
		if got := started(plan); !slices.Equal(got, []string{"r3/api@v2"}) || len(plan.Start[0].Claims) != 1 {
			t.Fatalf("starts %q with %+v", got, plan.Start)
		}
		if pool := plan.Pools[0]; pool.Active != 2 || pool.Max != 1 {
			t.Errorf("pool %+v: two are down where one may be", pool)
		}
		carryOut(t, &s, plan, minute(1), rollout.JobInProgress)
		plan = mustPlan(t, set, s, minute(2))
		if got := waits(plan); len(plan.Start) != 0 || got != "slot_full x" || len(s.State.Pools[0].Leases) != 2 {
			t.Errorf("starts %q, waits for %q, leases %+v", started(plan), got, s.State.Pools)
		}
		for k := range s.Targets { // the first one ends: there is no place yet, since the forced one still counts
			if s.Targets[k].Resource == "r1" {
				s.Targets[k].Jobs[0].Status, s.Targets[k].Jobs[0].CompletedAt, s.Targets[k].Current = rollout.JobSuccessful, minute(3), ""
			}
		}
		if plan = mustPlan(t, set, s, minute(3)); len(plan.Start) != 0 {
			t.Errorf("starts %q", started(plan))
		}
	})
	t.Run("whoever fills the pool, before it or behind it", func(t *testing.T) {
		set := compile(t, rules)
		s := fleet(3, "v2", map[string][]string{"api": {"v1", "v2"}})
		s.Targets[2].Current = "v1"
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress) // r3 has a lease
		s.Targets[0].Current = "v1"
		s.Overrides = []rollout.Override{override("x", only("r1"))}
		if plan := mustPlan(t, set, s, minute(1)); !slices.Equal(started(plan), []string{"r1/api@v2"}) || plan.Pools[0].Active != 2 {
			t.Errorf("a lease: starts %q in %+v", started(plan), plan.Pools)
		}
		s = fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Active = map[string][]concurrency.Holder{"x": {{Resource: "r2", Group: "by hand"}}}
		s.Overrides = []rollout.Override{override("x", only("r1"))}
		if plan := mustPlan(t, set, s, t0); !slices.Contains(started(plan), "r1/api@v2") || plan.Pools[0].Active != 2 {
			t.Errorf("a job: starts %q in %+v", started(plan), plan.Pools)
		}
	})
	t.Run("a free place is not taken twice", func(t *testing.T) {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Overrides = []rollout.Override{override("x", only("r2"))}
		plan := mustPlan(t, compile(t, rules), s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r2/api@v2"}) {
			t.Errorf("starts %q", got)
		}
	})
	t.Run("nobody else begins on the resource on account of it", func(t *testing.T) {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v3"}})
		s.Unavailable = []string{"r2"} // the pool is full
		s.Overrides = []rollout.Override{override("x", only("r1"))}
		plan := mustPlan(t, compile(t, rules), s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r2/api@v2", "r2/web@v3", "r1/api@v2"}) && !slices.Equal(got, []string{"r1/api@v2", "r2/api@v2", "r2/web@v3"}) {
			t.Errorf("starts %q, waits %q", got, blockers(plan))
		}
		if got := blockers(plan); !slices.Equal(got, []string{"r1/web@v3: slot_full"}) {
			t.Errorf("waits %q", got)
		}
	})
	t.Run("but shares a place that there is", func(t *testing.T) {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v3"}})
		s.Overrides = []rollout.Override{override("x")}
		if got := started(mustPlan(t, compile(t, rules), s, t0)); len(got) != 2 {
			t.Errorf("starts %q", got)
		}
	})
	t.Run("a part of the plan is carried out", func(t *testing.T) {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Overrides = []rollout.Override{override("x")}
		set := compile(t, rules)
		plan := mustPlan(t, set, s, t0)
		if len(plan.Start) != 3 {
			t.Fatalf("starts %q", started(plan))
		}
		state, err := plan.Commit(plan.Start[1:2], t0)
		if err != nil {
			t.Fatal(err)
		}
		if pool := state.Pools[0]; len(pool.Leases) != 1 || pool.Leases[0].Resource != plan.Start[1].Resource || pool.Leases[0].Group != plan.Start[1].Group {
			t.Errorf("pool %+v", pool)
		}
		for _, holder := range plan.Pools[0].Holders {
			if holder.Group == "target" {
				t.Errorf("somebody unheard of holds a place: %+v", plan.Pools[0].Holders)
			}
		}
	})
	t.Run("forced into one pool and refused by another it takes no place", func(t *testing.T) {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(`{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"z","resourceConcurrency":{"groupSelector":"resource.name == 'r2'","limit":0}}`))
		s.Overrides = []rollout.Override{override("x", only("r2"))}
		plan := mustPlan(t, set, s, t0)
		if got := started(plan); !slices.Equal(got, []string{"r1/api@v2"}) || waits(plan) != "slot_paused z" {
			t.Errorf("starts %q, waits for %q", got, waits(plan))
		}
		for _, pool := range plan.Pools {
			if pool.Active > pool.Max {
				t.Errorf("pool %+v", pool)
			}
		}
	})
	t.Run("whoever would share its place is refused by the pool it is in", func(t *testing.T) {
		s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v3"}})
		s.Unavailable = []string{"r2"}
		s.Overrides = []rollout.Override{override("x", only("r1"))}
		plan := mustPlan(t, compile(t, policy(`{"id":"all","resourceConcurrency":{"groupSelector":"true","limit":9}},{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":1}}`)), s, t0)
		if got := blockers(plan); !slices.Equal(got, []string{"r1/web@v3: slot_full"}) || waitingOf(plan)[0].Blockers[0].Rule != "x" {
			t.Errorf("waits %q: %+v", got, waitingOf(plan))
		}
	})
	t.Run("one member of a bracket takes the others along", func(t *testing.T) {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v3"}, "b": {"v1", "v2"}})
		s.Unavailable = []string{"r2"}
		s.Targets = s.Targets[:2] // r2 is down, and nobody's
		set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":1}},
			{"id":"y","resourceConcurrency":{"groupSelector":"true","limit":9}},{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`))
		for _, over := range []struct {
			rule, why string
			want      int
		}{{"x", "b's version is let past", 1}, {"y", "another rule is overridden", 0}} {
			s.Overrides = []rollout.Override{override(over.rule)}
			if plan := mustPlan(t, set, s, t0); len(plan.Start) != over.want {
				t.Errorf("%s: starts %q, waits %q", over.why, started(plan), blockers(plan))
			}
		}
	})
	t.Run("the members of a bracket", func(t *testing.T) {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
		s.Unavailable = []string{"r2"}
		set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"x","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
		if got := started(mustPlan(t, set, s, t0)); !slices.Equal(got, []string{"r2/a@v2", "r2/b@v3"}) {
			t.Fatalf("starts %q", got)
		}
		s.Overrides = []rollout.Override{override("x")} // of one member's version: the execution as a whole begins
		plan := mustPlan(t, set, s, t0)
		if len(plan.Start) != 4 {
			t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
		}
		if _, err := plan.Commit(plan.Start, t0); err != nil {
			t.Error(err)
		}
	})
}

// TestOverrideWithoutEffect: an override of a rule that nobody has, or of a bracket, changes
// nothing and is told.
func TestOverrideWithoutEffect(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}`))
	plan := mustPlan(t, set, s, t0)
	s.Overrides = []rollout.Override{override("b", only("r1")), override("nobody"), override("late", expires(t0.Add(1)))}
	got := mustPlan(t, set, s, t0)
	if text(t, rollout.Plan{Start: plan.Start, Waiting: plan.Waiting}) != text(t, rollout.Plan{Start: got.Start, Waiting: got.Waiting}) {
		t.Errorf("waits %q, then %q", blockers(plan), blockers(got))
	}
	var told []string
	for _, d := range got.Diagnostics {
		told = append(told, string(d.Code)+" "+d.Rule+" "+d.Detail)
	}
	if want := []string{
		"override_without_effect b o-b: no version is let out of its bracket", "override_without_effect late o-late: no enabled policy has this rule",
		"override_without_effect nobody o-nobody: no enabled policy has this rule",
	}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}

	set = compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":1000000}}`))
	s.Deployments = append(s.Deployments, rollout.Deployment{ID: "web"})
	for _, row := range []struct {
		why  string
		own  rollout.Override
		told string
	}{
		{"what it names is there", override("c", only("r1"), in("prod")), ""},
		{"no deployment has such a version", override("c", func(o *rollout.Override) { o.Version = "v22" }), `o-c: no deployment has a version "v22"`},
		{"the deployment has it", override("c", of("api")), ""},
		{"another deployment has it, not this one", override("c", of("web")), `o-c: web has no version "v2"`},
		{"there is no such deployment", override("c", of("Api")), "o-c: there is no such deployment"},
		{"there is no such resource", override("c", only("r11")), "o-c: there is no such resource"},
		{"there is no such environment", override("c", in("Prod")), "o-c: there is no such environment"},
	} {
		s.Overrides = []rollout.Override{row.own}
		plan, told := mustPlan(t, set, s, t0), ""
		for _, d := range plan.Diagnostics {
			told += d.Detail
		}
		if told != row.told || (len(plan.Start) == 1) == (row.told != "") {
			t.Errorf("%s: starts %q, diagnostics %+v", row.why, started(plan), plan.Diagnostics)
		}
	}
}

// TestOverrideWithoutTargets: whoever overrides a rule where it governs nothing learns so, and learns
// it apart from a target that does not exist, even before the override is active. An override that is
// for one governed target at least is not told.
func TestOverrideWithoutTargets(t *testing.T) {
	s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2", "w1"}, "idle": {"v1", "i1"}}), "staging")
	s.Targets = slices.DeleteFunc(s.Targets, func(target rollout.Target) bool {
		return target.Deployment == "idle" || target.Environment == "staging" && (target.Deployment == "b" || target.Resource == "r2")
	})
	s.Environments = append(s.Environments, rollout.Environment{ID: "empty"})
	shared := func(name, selector, id string) string {
		return fmt.Sprintf(`{"name":"%s","selector":"%s","rules":[{"id":"%s","resourceConcurrency":{"groupSelector":"true","limit":"100%%","sharedPool":"S"}}]}`, name, selector, id)
	}
	set, err := rollout.Load([]byte(`[
		{"name":"prod","selector":"environment.id == 'prod'","rules":[{"id":"window","deploymentWindow":{"from":"2030-01-01T00:00:00Z","until":"2030-01-02T00:00:00Z"}}]},
		{"name":"of a","selector":"deployment.id == 'a'","rules":[{"id":"retry","retry":{"maxRetries":1}}]},
		{"name":"on r2","selector":"resource.id == 'r2'","rules":[{"id":"cool","versionCooldown":{"intervalSeconds":60}}]},
		{"name":"nobody","selector":"environment.id == 'qa'","rules":[{"id":"idle","versionCooldown":{"intervalSeconds":60}}]},
		{"name":"bracket","selector":"environment.id == 'staging'","rules":[{"id":"bracket","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"curve","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}]},
		{"name":"off","enabled":false,"selector":"true","rules":[{"id":"off","retry":{"maxRetries":1}}]},
		`+shared("pool of a", "deployment.id == 'a'", "pa")+","+shared("pool of b", "deployment.id == 'b'", "pb")+"]"), newEnv(t), rollout.WithRule(host))
	if err != nil {
		t.Fatal(err)
	}
	const (
		nowhere = "there is no such target"
		unruled = "the rule governs none of its targets"
	)
	version := func(id string) func(*rollout.Override) {
		return func(o *rollout.Override) { o.Version = id }
	}
	for _, row := range []struct {
		why  string
		own  rollout.Override
		told string
	}{
		{"the rule governs targets of it", override("window"), ""},
		{"some of them", override("window", of("a")), ""},
		{"none in this environment", override("window", in("staging")), unruled},
		{"it is not active yet", override("window", in("staging"), func(o *rollout.Override) { o.CreatedAt = minute(60) }), unruled},
		{"it has expired", override("window", in("staging"), func(o *rollout.Override) { o.CreatedAt = minute(-60) }, expires(t0)), ""},
		{"none of this deployment", override("retry", of("b")), unruled},
		{"some of this deployment", override("retry", of("a"), in("staging"), only("r1")), ""},
		{"none on this resource", override("cool", only("r1")), unruled},
		{"some on this resource", override("cool", only("r2")), ""},
		{"all three that it names have one target", override("cool", only("r2"), in("prod"), of("b")), ""},
		{"none with such a version", override("retry", version("w1")), unruled},
		{"none on this resource with such a version", override("retry", version("w1"), only("r1")), unruled},
		{"none at all", override("idle"), unruled},
		{"the deployment is not in the environment", override("retry", in("staging"), of("b")), nowhere},
		{"the resource is not in the environment", override("retry", in("staging"), only("r2")), nowhere + ` whose deployment has a version "v2"`},
		{"nor is its deployment", override("retry", in("staging"), only("r2"), of("a")), nowhere},
		{"the deployment is not on the resource", override("retry", only("r1"), of("idle"), version("i1")), nowhere},
		{"the environment is empty", override("retry", in("empty")), nowhere + ` whose deployment has a version "v2"`},
		{"the deployment is nowhere", override("retry", of("idle"), version("i1")), nowhere},
		{"no target has such a version", override("retry", version("i1")), nowhere + ` whose deployment has a version "i1"`},
		{"a rule beside a bracket", override("curve", in("staging")), ""},
		{"a rule beside a bracket in another environment", override("curve", in("prod")), unruled},
		{"the policy is disabled", override("off"), "no enabled policy has this rule"},
		{"a rule of the host's governs everything", override("host"), ""},
		{"and nothing where there is nothing", override("host", in("staging"), of("b")), nowhere},
		{"a rule with a pool that others share", override("pa", of("a")), ""},
		{"a rule that only shares the pool of those that govern it", override("pa", of("b")), unruled},
		{"the rule that governs it", override("pb", of("b")), ""},
	} {
		s.Overrides = []rollout.Override{row.own}
		var told []string
		for _, d := range mustPlan(t, set, s, t0).Diagnostics {
			told = append(told, fmt.Sprintf("%s %s %s %v", d.Code, d.Rule, d.Detail, d.Example))
		}
		var want []string
		if row.told != "" {
			at := rollout.TargetID{Resource: row.own.Resource, Environment: row.own.Environment, Deployment: row.own.Deployment}
			want = []string{fmt.Sprintf("override_without_effect %s %s: %s %v", row.own.Rule, row.own.ID, row.told, at)}
		}
		if !slices.Equal(told, want) {
			t.Errorf("%s: told %q, want %q", row.why, told, want)
		}
	}
}

// TestOverridesWithoutTargetsOfMany: what is said of a rule for all of prod, whose targets are under
// policies of their own, is not said of another override, for all of qa.
func TestOverridesWithoutTargetsOfMany(t *testing.T) {
	policies := `[{"name":"p","selector":"environment.id == 'prod'","rules":[{"id":"c","versionCooldown":{"intervalSeconds":1}}]}`
	s := inEnvironments(fleet(10, "v1", map[string][]string{"api": {"v1", "v2"}}), "qa")
	for _, resource := range s.Resources {
		policies += fmt.Sprintf(`,{"name":"p-%[1]s","selector":"resource.id == '%[1]s'","rules":[{"retry":{"maxRetries":1}}]}`, resource.ID)
	}
	for _, environment := range []string{"prod", "qa"} {
		s.Overrides = append(s.Overrides, override("c", in(environment), func(o *rollout.Override) { o.ID = environment }))
	}
	var told []string
	for _, d := range mustPlan(t, compile(t, policies+"]"), s, t0).Diagnostics {
		told = append(told, string(d.Code)+" "+d.Detail)
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "override_without_effect qa: ") {
		t.Errorf("told %q", told)
	}
}

// TestOverrideFaults: an override without author or reason is refused, and so is one that can never
// be active.
func TestOverrideFaults(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Overrides = []rollout.Override{{}, {}, override("x", expires(t0)), override("x", expires(t0.Add(-1)), func(o *rollout.Override) { o.Reason = "" }), override("y")}
	_, err := compile(t, "[]").Plan(s, t0)
	var paths []string
	for _, one := range joined(err) {
		var fault *rollout.FieldError
		if !errors.As(one, &fault) {
			t.Fatalf("%v is no *FieldError", one)
		}
		paths = append(paths, fault.Path)
	}
	want := []string{
		"overrides[0].id", "overrides[0].ruleId", "overrides[0].versionId", "overrides[0].createdBy", "overrides[0].reason", "overrides[0].createdAt",
		"overrides[1].id", "overrides[1].ruleId", "overrides[1].versionId", "overrides[1].createdBy", "overrides[1].reason", "overrides[1].createdAt",
		"overrides[2].expiresAt", "overrides[3].reason", "overrides[3].expiresAt", "overrides[3].id",
	}
	if !slices.Equal(paths, want) {
		t.Errorf("faults at %q, want %q", paths, want)
	}
}

// TestValidateBeforeStoring: a host that stores what a person sends asks first whether it would have
// a plan refuse the snapshot. It hears what the plan would say, by the field alone.
func TestValidateBeforeStoring(t *testing.T) {
	approval := rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved}
	for _, row := range []struct {
		why      string
		override rollout.Override
		approval rollout.Approval
	}{
		{"sound ones", override("x"), approval},
		{"what is unknown is a diagnostic", override("no such rule"), rollout.Approval{Version: "v9", Deployment: "web", Environment: "qa", By: "ann", Status: "perhaps"}},
		{"what is missing is told", rollout.Override{}, rollout.Approval{}},
		{"one that is never active", override("x", expires(t0.Add(-1))), approval},
		{"nobody said so", override("x", func(o *rollout.Override) { o.CreatedBy = "" }), rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod"}},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		o := row.override
		freeze := rollout.Freeze{ID: o.ID, CreatedAt: o.CreatedAt, ExpiresAt: o.ExpiresAt, CreatedBy: o.CreatedBy, Reason: o.Reason}
		s.Overrides, s.Approvals, s.Freezes = []rollout.Override{o}, []rollout.Approval{row.approval}, []rollout.Freeze{freeze}
		_, err := compile(t, "[]").Plan(s, t0)
		var planned, own []string
		for _, one := range joined(err) {
			planned = append(planned, one.Error())
		}
		for _, one := range joined(row.approval.Validate()) {
			own = append(own, "approvals[0]."+one.Error())
		}
		for _, one := range joined(o.Validate()) {
			own = append(own, "overrides[0]."+one.Error())
		}
		for _, one := range joined(freeze.Validate()) {
			own = append(own, "freezes[0]."+one.Error())
		}
		slices.Sort(planned)
		slices.Sort(own)
		if diff := cmp.Diff(planned, own); diff != "" {
			t.Errorf("%s: Plan and Validate (-plan +validate):\n%s", row.why, diff)
		}
	}
}

// TestOverrideKeepsItsTurn: an override began the rollout of one target early. That the others'
// begins does not take its turn away again.
func TestOverrideKeepsItsTurn(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"a","anyApproval":{"minApprovals":1}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	approved := func(at time.Time) []rollout.Approval {
		return []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: at}}
	}
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Approvals = approved(t0)
	plan := mustPlan(t, set, s, t0)
	if len(plan.Start) != 1 || plan.Waiting.Len() != 1 {
		t.Fatalf("starts %q, waits %q", started(plan), blockers(plan))
	}
	first, last := plan.Start[0], waitingOf(plan)[0]
	due := t0.Add(time.Minute)
	for _, row := range []struct {
		why      string
		approved time.Time // for everybody
		want     int       // starts a minute after the override, when the turn of the last one has come in a rollout of its own
	}{
		{"the others' begins now", due, 2},
		{"it began half a minute ago", t0.Add(30 * time.Second), 2},
		{"it began before the override", t0.Add(-30 * time.Second), 2},
		{"it begins later", due.Add(time.Hour), 1},
	} {
		s := s
		s.Approvals = approved(row.approved)
		s.Overrides = []rollout.Override{override("a", only(last.Resource))}
		s.Overrides[0].CreatedAt = t0
		plan := mustPlan(t, set, s, due)
		if len(plan.Start) != row.want {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
		s.State = plan.State // nothing of it is carried out, and the others' rollout has begun
		if again := mustPlan(t, set, s, due); !slices.Equal(started(again), started(plan)) {
			t.Errorf("%s: starts %q, and once that is saved %q", row.why, started(plan), started(again))
		}
		if row.want == 2 && plan.Start[0].Resource != first.Resource && plan.Start[1].Resource != first.Resource {
			t.Errorf("%s: starts %q", row.why, started(plan))
		}
	}
}

// TestOthersFollowAForcedStart: whoever is let past a full pool takes its resource down. Others on
// it follow once that start is at work, and not in the plan that offers it, for the host may leave
// it out; nobody starts elsewhere.
func TestOthersFollowAForcedStart(t *testing.T) {
	set := compile(t, policy(`{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v3"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Overrides = []rollout.Override{{ID: "o", Rule: "P", Version: "v2", Resource: "r2", CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
	for k, want := range [][]string{{"r2/a@v2 overridden"}, {"r2/b@v3 slot_already_down"}, nil} {
		if left := mustPlan(t, set, s, t0); len(left.Start) > 0 { // it is offered, and left out
			s.State = left.State
		}
		plan := mustPlan(t, set, s, t0)
		var got []string
		for _, start := range plan.Start {
			got = append(got, fmt.Sprintf("%s/%s@%s %s", start.Resource, start.Deployment, start.Version, start.Reason))
		}
		if !slices.Equal(got, want) {
			t.Errorf("plan %d starts %q, want %q; waits %q", k, got, want, blockers(plan))
		}
		carryOut(t, &s, plan, t0, rollout.JobInProgress)
	}
}

// TestSeveralOverridesOfOneRule: of several overrides that let a version pass on a target the first
// to be created counts, in whatever order they come and whether they name the resource or not: the
// rollout begins with it, and the second in the order follows an hour later.
func TestSeveralOverridesOfOneRule(t *testing.T) {
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderSalt":"none"}}`
	world := func() rollout.Snapshot { return fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}) }
	order := orderOf(t, mustPlan(t, compile(t, policy(curve)), world(), t0), 2)
	set := compile(t, policy(`{"id":"ok","anyApproval":{"minApprovals":1}},`+curve))
	other, second := order[0], order[1]
	type over struct {
		resource string
		hour     int
	}
	for _, row := range []struct {
		overrides []over
		due       int // the hour at which the second is
	}{
		{[]over{{"", 2}, {"", 1}}, 2},
		{[]over{{"", 1}, {"", 2}}, 2},
		{[]over{{second, 2}, {second, 1}}, 2},
		{[]over{{second, 1}, {second, 2}}, 2},
		{[]over{{"", 2}, {second, 1}}, 2},
		{[]over{{"", 1}, {second, 2}}, 2},
		{[]over{{other, 1}, {second, 2}}, 3},
	} {
		s := world()
		for k, o := range row.overrides {
			s.Overrides = append(s.Overrides, override("ok", only(o.resource), func(own *rollout.Override) {
				own.ID, own.CreatedAt = own.ID+string(rune('z'-k)), t0.Add(time.Duration(o.hour)*time.Hour)
			}))
		}
		for hour := 2; hour <= 3; hour++ {
			plan := mustPlan(t, set, s, t0.Add(time.Duration(hour)*time.Hour))
			if starts := slices.Contains(started(plan), second+"/a@v2"); starts != (hour >= row.due) {
				t.Errorf("%v at %d: starts %q, waits %q", row.overrides, hour, started(plan), blockers(plan))
			}
		}
	}
}

// TestWhichOverrideIsNamed: of several overrides an explanation names the one that was first,
// whatever order they are listed in, and its instant in UTC. Of a retry rule it is the last, see
// TestLastOverrideOfRetriesIsNamed.
func TestWhichOverrideIsNamed(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"ok","anyApproval":{"minApprovals":1}}`))
	at := func(id string, minutes int, more ...func(*rollout.Override)) rollout.Override {
		return override("ok", append(more, func(o *rollout.Override) { o.ID, o.CreatedAt = id, minute(minutes).In(time.FixedZone("", 7200)) })...)
	}
	for _, row := range []struct {
		why       string
		overrides []rollout.Override
		want      string
		since     time.Time
	}{
		{"one for all before one for this resource", []rollout.Override{at("all", 1), at("this", 2, only("r1"))}, "all", minute(1)},
		{"one for this resource before one for all", []rollout.Override{at("all", 2), at("this", 1, only("r1"))}, "this", minute(1)},
		{"two of one instant", []rollout.Override{at("b", 1), at("a", 1)}, "a", minute(1)},
		{"likewise for the resource", []rollout.Override{at("b", 1, only("r1")), at("a", 1, only("r1"))}, "a", minute(1)},
		{"before the version", []rollout.Override{at("early", -90)}, "early", minute(0)},
	} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k := range s.Versions {
			s.Versions[k].CreatedAt = s.Versions[k].CreatedAt.In(time.FixedZone("", -3600))
		}
		for range 2 {
			slices.Reverse(row.overrides)
			s.Overrides = row.overrides
			plan := mustPlan(t, set, s, minute(3))
			x, err := plan.Explain(s.Targets[0].TargetID)
			if err != nil {
				t.Fatal(err)
			}
			k := slices.IndexFunc(x.Versions[0].Rules, func(r rollout.RuleVerdict) bool { return r.Reason == rollout.ReasonOverridden })
			if k < 0 || x.Versions[0].Rules[k].Data.Detail != row.want || x.Versions[0].Rules[k].Since != row.since {
				t.Errorf("%s: %+v", row.why, x.Versions[0].Rules)
			}
		}
	}
}

// TestLastOverrideOfRetriesIsNamed: of several overrides of a retry rule an explanation names the one
// that counts, which is the last.
func TestLastOverrideOfRetriesIsNamed(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"x","retry":{"maxRetries":0}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{ran("v2", rollout.JobFailure, -1), ran("v2", rollout.JobFailure, 4)}
	s.Overrides = []rollout.Override{override("x"), override("x", only("r1"), func(o *rollout.Override) { o.ID, o.CreatedAt = "second", minute(5) })}
	for range 2 {
		slices.Reverse(s.Overrides)
		plan := mustPlan(t, set, s, minute(6))
		x, err := plan.Explain(s.Targets[0].TargetID)
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(x.Versions[0].Rules, func(r rollout.RuleVerdict) bool { return r.Kind == rollout.KindRetry })
		if own := x.Versions[0].Rules[k]; len(plan.Start) != 1 || own.Reason != rollout.ReasonOverridden || own.Data.Detail != "second" || own.Since != minute(5) {
			t.Errorf("starts %q: %v", started(plan), own)
		}
	}
}

// TestWhichOfManyOverridesCounts: of any number of overrides of one rule for one version id, which
// several deployments have, a target gets the first that is for it.
func TestWhichOfManyOverridesCounts(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"ok","anyApproval":{"minApprovals":1}}`))
	s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}}), "staging")
	seen := testkit.Tally{}
	seen.Check(t, func(t *rapid.T) {
		s := s
		s.Overrides = nil
		for k := range between(t, "overrides", 0, 12) {
			s.Overrides = append(s.Overrides, rollout.Override{
				ID: fmt.Sprint("o", k), Rule: "ok", Version: "v2", CreatedAt: minute(between(t, "created", -3, 0)), CreatedBy: "ann", Reason: "urgent",
				Environment: oneOf(t, "environment", "", "prod", "staging"), Deployment: oneOf(t, "deployment", "", "a", "b"), Resource: oneOf(t, "resource", "", "", "r1", "r2"),
			})
		}
		plan, err := set.Plan(s, minute(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range s.Targets {
			var first *rollout.Override
			everywhere := 0
			for k := range s.Overrides {
				o := &s.Overrides[k]
				if o.Resource == "" {
					everywhere++
				}
				if o.Resource != "" && o.Resource != target.Resource || o.Environment != "" && o.Environment != target.Environment || o.Deployment != "" && o.Deployment != target.Deployment {
					continue
				}
				if first == nil || o.CreatedAt.Before(first.CreatedAt) || o.CreatedAt.Equal(first.CreatedAt) && o.ID < first.ID {
					first = o
				}
			}
			x, err := plan.Explain(target.TargetID)
			if err != nil {
				t.Fatal(err)
			}
			k := slices.IndexFunc(x.Versions[0].Rules, func(r rollout.RuleVerdict) bool { return r.Rule == "ok" })
			got, want := "", ""
			if d := x.Versions[0].Rules[k].Data; x.Versions[0].Rules[k].Reason == rollout.ReasonOverridden {
				got = d.Detail
			}
			if first != nil {
				want = first.ID
				seen[fmt.Sprint("many: ", everywhere > 4, ", for all: ", first.Resource == "")]++
			}
			if got != want {
				t.Fatalf("%s: %q, want %q", target.TargetID, got, want)
			}
		}
	}, "many: true, for all: true", "many: true, for all: false", "many: false, for all: true", "many: false, for all: false")
}

// TestOverridesOfTwoOfThree: overrides for two resources of a bracket let nobody else in, whichever
// of them comes first.
func TestOverridesOfTwoOfThree(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(alone+`,{"id":"ok","anyApproval":{"minApprovals":1}}`))
	for _, pair := range [][]string{{"r1", "r2"}, {"r2", "r1"}, {"r1", "r3"}, {"r3", "r1"}} {
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
		for _, resource := range pair {
			s.Overrides = append(s.Overrides, override("ok", only(resource), func(o *rollout.Override) { o.ID += resource }))
		}
		want := []string{pair[0] + "/a@v2", pair[1] + "/a@v2"}
		slices.Sort(want)
		if plan := mustPlan(t, set, s, t0); !slices.Equal(started(plan), want) {
			t.Errorf("%q may: starts %q, waits %q", pair, started(plan), blockers(plan))
		}
	}
}

// TestOverrideBesideAnUnknownVersion: a job of an open execution is of a version that the snapshot
// does not hold any more. No override is for that, and it is repeated as the rule says.
func TestOverrideBesideAnUnknownVersion(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(alone+`,{"id":"again","retry":{"maxRetries":1}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
	s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.ID == "v2" })
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
	s.Overrides = []rollout.Override{override("again", func(o *rollout.Override) { o.Version = "v3" })}
	if plan := mustPlan(t, set, s, minute(1)); !slices.Equal(started(plan), []string{"r1/a@v2"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestOverridesOfTwoResources: overrides of different rules name two resources of a bracket. What
// the one lets pass, the other does not.
func TestOverridesOfTwoResources(t *testing.T) {
	set := compile(t, policy(alone+`,{"id":"ok","anyApproval":{"minApprovals":1}},{"id":"c","versionCooldown":{"intervalSeconds":0}}`))
	for _, first := range []string{"r1", "r2"} {
		second := map[string]string{"r1": "r2", "r2": "r1"}[first]
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		s.Overrides = []rollout.Override{override("ok", only(first)), override("c", only(second))}
		plan := mustPlan(t, set, s, t0)
		if got := blockers(plan); !slices.Equal(started(plan), []string{first + "/a@v2"}) || len(got) != 1 || !strings.HasPrefix(got[0], second+"/a@v2: approval_missing") {
			t.Errorf("%s may: starts %q, waits %q", first, started(plan), got)
		}
	}
}

// TestOverrideLeavesTheNextRule: a rule is overridden, and another one that is asked later still
// holds the target.
func TestOverrideLeavesTheNextRule(t *testing.T) {
	now := instantOf(t, "2025-01-06T20:00:00Z")
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	for k := range s.Versions {
		s.Versions[k].CreatedAt = now.Add(time.Duration(k-1) * time.Hour)
	}
	s.Overrides = []rollout.Override{override("c", func(o *rollout.Override) { o.CreatedAt = now })}
	plan := mustPlan(t, compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":72000}},`+weekly("w", "09:00", "17:00", ""))), s, now)
	if got := waits(plan); got != "window_closed w 07 09:00:00" || len(plan.Start) > 0 {
		t.Errorf("starts %q, waits for %q", started(plan), got)
	}
}

// TestOverrideOfWhatFails: an override lets no version past an expression that has no answer on the
// target, as it did where the target is a member of a bracket.
func TestOverrideOfWhatFails(t *testing.T) {
	const bracketed = `,{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	const fails = `"int(resource.metadata['cluster']) == 1"`
	for why, policies := range map[string]string{
		"of a pool, to which the start might belong": policy(`{"id":"x","resourceConcurrency":{"groupSelector":` + fails + `,"limit":1}}%s`),
		"of a policy that has the id of the rule":    `[{"name":"x","selector":` + fails + `,"rules":[{"id":"ok","anyApproval":{"minApprovals":0}}]},{"name":"q","selector":"true","rules":[{"id":"x","anyApproval":{"minApprovals":1}}%s]}]`,
	} {
		for _, members := range []string{"", bracketed} {
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			s.Overrides = []rollout.Override{override("x")}
			plan := mustPlan(t, compile(t, strings.Replace(policies, "%s", members, 1)), s, t0)
			wait, waits := plan.Waiting.Of(s.Targets[0].TargetID)
			if len(plan.Start) > 0 || !waits || !slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool { return v.Reason == rollout.ReasonSelectorError }) {
				t.Errorf("%s%s: %v", why, members, plan)
			}
		}
	}
}

// TestOverrideWithoutEffectSaysWhere: the diagnostic names the resource, the environment and the
// deployment that the override does.
func TestOverrideWithoutEffectSaysWhere(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Overrides = []rollout.Override{override("gone", only("r1"), in("prod"), func(o *rollout.Override) { o.Deployment = "a" })}
	got := mustPlan(t, compile(t, policy(alone)), s, t0).Diagnostics
	if want := (rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"}); len(got) != 1 || got[0].Example != want {
		t.Errorf("%+v", got)
	}
}

// TestOverriddenTurnKeepsItsPlace: there is one slot. An override of the curve that is given to one
// whose turn has long come does not put it behind others. Given to one whose turn is far, or never
// comes, it counts from its creation: that one is in front of those whose turn came later, and
// behind those whose turn came before.
func TestOverriddenTurnKeepsItsPlace(t *testing.T) {
	curve := func(seconds int64) string {
		return policy(fmt.Sprintf(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d,"orderSalt":"none"}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`, seconds))
	}
	world := func() rollout.Snapshot { return fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}) }
	order := orderOf(t, mustPlan(t, compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"none"}}`)), world(), t0), 3)
	for _, row := range []struct {
		why      string
		interval int64 // seconds
		place    int   // whom the override lets past the curve
		created  int   // second of the override
		now      int   // minute
		done     bool  // the first runs the version already
		want     int   // the place that gets the slot
	}{
		{"its turn has come before", 60, 0, 240, 5, false, 0},
		{"its turn is to come, and that of another came after the override", 60, 2, 30, 1, true, 2},
		{"its turn is to come, and that of another came before the override", 60, 2, 90, 2, true, 1},
		{"its turn never comes, and that of another came before the override", 9223372036, 2, 60, 1, false, 0},
	} {
		s := world()
		for k := range s.Targets {
			if row.done && s.Targets[k].Resource == order[0] {
				s.Targets[k].Current = "v2"
			}
		}
		s.Overrides = []rollout.Override{override("g", only(order[row.place]), func(o *rollout.Override) { o.CreatedAt = t0.Add(time.Duration(row.created) * time.Second) })}
		if got := started(mustPlan(t, compile(t, curve(row.interval)), s, minute(row.now))); !slices.Equal(got, []string{order[row.want] + "/api@v2"}) {
			t.Errorf("%s: starts %q, the order is %q", row.why, got, order)
		}
	}
}

// TestOverrideBeyondTheLastInstant: nobody can plan when the override ends, so nobody is woken for
// it; and an end in the year 10000, in UTC, could not be stored with the plan.
func TestOverrideBeyondTheLastInstant(t *testing.T) {
	set := compile(t, policy(`{"id":"A","anyApproval":{"minApprovals":1}},{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1,"stuckAfterSeconds":9000000000}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Overrides = []rollout.Override{{
		ID: "o", Rule: "A", Version: "v2", CreatedAt: t0, ExpiresAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -5*3600)), CreatedBy: "ann", Reason: "always",
	}}
	plan := mustPlan(t, set, s, t0)
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) || !plan.Next.IsZero() || !plan.NextAfter(plan.Start).IsZero() {
		t.Errorf("starts %q, next %v, and %v after the start", got, plan.Next, plan.NextAfter(plan.Start))
	}
	if _, err := json.Marshal(plan); err != nil {
		t.Error(err)
	}
}

// TestOverrideOfOneTurn: most targets of a curve learn in short what their turn is. The one that an
// override lets past the curve starts, whichever it is.
func TestOverrideOfOneTurn(t *testing.T) {
	set := compile(t, policy(`{"id":"C","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`))
	s := fleet(5, "v1", map[string][]string{"a": {"v1", "v2"}})
	due := started(mustPlan(t, set, s, t0))
	if len(due) != 1 {
		t.Fatalf("%q start, where the first has its turn", due)
	}
	for _, r := range s.Resources {
		s.Overrides = []rollout.Override{override("C", only(r.ID))}
		own := r.ID + "/a@v2"
		want := slices.Compact(slices.Sorted(slices.Values(append([]string{own}, due...))))
		if got := slices.Sorted(slices.Values(started(mustPlan(t, set, s, t0)))); !slices.Equal(got, want) {
			t.Errorf("with an override for %s %q start, want %q", r.ID, got, want)
		}
	}
}

// TestOverrideOfOneMemberOfAnExecution: one member that is let past a pool lets the whole execution
// past it, so what still blocks it is the other pool alone.
func TestOverrideOfOneMemberOfAnExecution(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"A","resourceConcurrency":{"groupSelector":"true","limit":1}},{"id":"B","resourceConcurrency":{"groupSelector":"true","limit":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "w2"}})
	s.Targets[0].Current, s.Targets[1].Current, s.Unavailable = "v2", "w2", []string{"r1"}
	for _, row := range []struct {
		why       string
		overrides []rollout.Override
		waits     []string
	}{
		{"no override", nil, []string{"r2/a@v2: slot_full slot_full", "r2/b@w2: slot_full slot_full"}},
		{"of the first member", []rollout.Override{override("A")}, []string{"r2/a@v2: slot_full", "r2/b@w2: slot_full"}},
		{"of the second member", []rollout.Override{override("A", func(o *rollout.Override) { o.Version = "w2" })}, []string{"r2/a@v2: slot_full", "r2/b@w2: slot_full"}},
	} {
		s.Overrides = row.overrides
		if plan := mustPlan(t, set, s, t0); len(plan.Start) > 0 || !slices.Equal(blockers(plan), row.waits) {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), blockers(plan))
		}
	}
}

// TestOverridesForOneAndForAll: an override for everybody does not hide one for a resource, of another
// rule and the same version, in whatever order they are listed.
func TestOverridesForOneAndForAll(t *testing.T) {
	set := compile(t, policy(`{"id":"A","anyApproval":{"minApprovals":1}},{"id":"V","versionSelector":{"selector":"true"}},
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	s.Overrides = []rollout.Override{override("A", only("r2")), override("V")}
	for range 2 {
		if plan := mustPlan(t, set, s, minute(10)); !slices.Equal(started(plan), []string{"r2/a@v2"}) || !slices.Equal(blockers(plan), []string{"r1/a@v2: approval_missing rollout_not_started"}) {
			t.Errorf("with overrides of %s and %s: starts %q, waits %q", s.Overrides[0].Rule, s.Overrides[1].Rule, started(plan), blockers(plan))
		}
		slices.Reverse(s.Overrides)
	}
}
