package rollout_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// hostRule is a rule of the host's own.
type hostRule struct {
	id    string
	judge func(rollout.Candidate) rollout.Verdict
}

func (h hostRule) ID() string                                { return h.id }
func (h hostRule) Judge(c rollout.Candidate) rollout.Verdict { return h.judge(c) }

// TestCustomRuleInTheChain: the host's rule is asked behind those of the policies, before a busy
// target.
func TestCustomRuleInTheChain(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Targets[0].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
	set := compile(t, policy(weekly("w", "09:00", "17:00", "")+`,{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`), rollout.WithRule(hostRule{"x", frozenUntil(minute(7))}))
	if got, want := waits(mustPlan(t, set, s, t0)), "window_closed w 01 09:00:00; rollout_not_due g 01 09:00:00; change_freeze x 01 00:07:00; target_busy"; got != want {
		t.Errorf("waits for %q, want %q", got, want)
	}
}

// frozenUntil is pending until an instant.
func frozenUntil(at time.Time) func(rollout.Candidate) rollout.Verdict {
	return func(c rollout.Candidate) rollout.Verdict {
		if c.Now.Before(at) {
			return rollout.Verdict{Status: rollout.Pending, Reason: "change_freeze", Until: at}
		}
		return rollout.Verdict{Status: rollout.Allowed}
	}
}

// TestCustomRule: what a rule of the host says counts, and what is no answer denies.
func TestCustomRule(t *testing.T) {
	pending := func(v rollout.Verdict) func(rollout.Candidate) rollout.Verdict {
		v.Status = rollout.Pending
		return func(rollout.Candidate) rollout.Verdict { return v }
	}
	for _, row := range []struct {
		why   string
		judge func(rollout.Candidate) rollout.Verdict
		waits string
		next  time.Time
	}{
		{"it allows", func(rollout.Candidate) rollout.Verdict { return rollout.Verdict{Status: rollout.Allowed} }, "", time.Time{}},
		{"it allows for a time", func(rollout.Candidate) rollout.Verdict {
			return rollout.Verdict{Status: rollout.Allowed, Until: minute(5)}
		}, "", minute(5)},
		{"it is pending until an instant", frozenUntil(minute(7)), "change_freeze x 01 00:07:00", minute(7)},
		{"until an event", pending(rollout.Verdict{Reason: "no_ticket", On: []rollout.Condition{{Kind: rollout.OnOperator}}}), "no_ticket x", time.Time{}},
		{"it denies for good", func(rollout.Candidate) rollout.Verdict {
			return rollout.Verdict{Status: rollout.Denied, Reason: "forbidden"}
		}, "forbidden x", time.Time{}},
		{"it cannot speak for another rule", pending(rollout.Verdict{Reason: "r", Rule: "other", Until: minute(1)}), "r x 01 00:01:00", minute(1)},
		{"it says nothing", func(rollout.Candidate) rollout.Verdict { return rollout.Verdict{} }, "custom_invalid x", time.Time{}},
		{"a status that nobody knows", func(rollout.Candidate) rollout.Verdict { return rollout.Verdict{Status: "sure", Reason: "r"} }, "custom_invalid x", time.Time{}},
		{"no reason", pending(rollout.Verdict{Until: minute(1)}), "custom_invalid x", time.Time{}},
		{"pending without end", pending(rollout.Verdict{Reason: "r"}), "custom_invalid x", time.Time{}},
		{"pending until now", pending(rollout.Verdict{Reason: "r", Until: t0}), "custom_invalid x", time.Time{}},
		{"until an instant that is past, or an event", pending(rollout.Verdict{Reason: "r", Until: minute(-1), On: []rollout.Condition{{Kind: rollout.OnOperator}}}), "custom_invalid x", time.Time{}},
		{"denied until the past", func(rollout.Candidate) rollout.Verdict {
			return rollout.Verdict{Status: rollout.Denied, Reason: "r", Until: minute(-1)}
		}, "custom_invalid x", time.Time{}},
	} {
		t.Run(row.why, func(t *testing.T) {
			s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
			plan := mustPlan(t, compile(t, "[]", rollout.WithRule(hostRule{"x", row.judge})), s, t0)
			if got := waits(plan); got != row.waits || (len(plan.Start) == 1) != (row.waits == "") || !plan.Next.Equal(row.next) {
				t.Errorf("starts %q, waits for %q, next %v; want %q, %v", started(plan), got, plan.Next, row.waits, row.next)
			}
			// An override lets a version past the host's rule too.
			s.Overrides = []rollout.Override{override("x")}
			if plan = mustPlan(t, compile(t, "[]", rollout.WithRule(hostRule{"x", row.judge})), s, t0); len(plan.Start) != 1 || len(plan.Diagnostics) != 0 {
				t.Errorf("with an override it starts %q, waits for %q, tells %+v", started(plan), waits(plan), plan.Diagnostics)
			}
		})
	}
}

// TestCustomRuleSeesTheCandidate: it is asked about every version that is newer than what the
// target has, and gets all of its entities.
func TestCustomRuleSeesTheCandidate(t *testing.T) {
	var asked []string
	s := fleet(2, "v1", map[string][]string{"api": {"v0", "v1", "v2", "v3"}})
	set := compile(t, "[]", rollout.WithRule(hostRule{"x", func(c rollout.Candidate) rollout.Verdict {
		if c.Resource.Kind != "Node" || c.Environment.ID != "prod" || c.Target.Current != "v1" || !c.Now.Equal(t0) || c.Target.Resource != c.Resource.ID {
			t.Errorf("asked about %+v", c)
		}
		asked = append(asked, c.Resource.ID+" "+c.Deployment.ID+" "+c.Version.ID)
		if c.Version.ID == "v3" {
			return rollout.Verdict{Status: rollout.Denied, Reason: "not_yet"}
		}
		return rollout.Verdict{Status: rollout.Allowed}
	}}))
	plan := mustPlan(t, set, s, t0)
	if want := []string{"r1 api v3", "r1 api v2", "r2 api v3", "r2 api v2"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
	if got := started(plan); !slices.Equal(got, []string{"r1/api@v2", "r2/api@v2"}) || plan.Waiting.Len() != 2 || waitingOf(plan)[0].Version != "v3" {
		t.Errorf("starts %q, waits %q", got, blockers(plan))
	}
}

// TestCustomRuleInBracket: an execution begins only when the host's rules allow all of its members,
// and is not asked again.
func TestCustomRuleInBracket(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	judge := frozenUntil(minute(5))
	frozen := true
	rule := hostRule{"x", func(c rollout.Candidate) rollout.Verdict {
		if c.Deployment.ID == "b" && frozen {
			return judge(c)
		}
		return rollout.Verdict{Status: rollout.Allowed}
	}}
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"deploymentDependency":{"dependsOn":"deployment.name == 'a'","appliesTo":"deployment.name == 'b'"}}`), rollout.WithRule(rule))
	plan := mustPlan(t, set, s, t0)
	if got := waits(plan); len(plan.Start) != 0 || !strings.Contains(got, "change_freeze x 01 00:05:00") || !plan.Next.Equal(minute(5)) {
		t.Fatalf("starts %q, waits for %q, next %v", started(plan), got, plan.Next)
	}
	s.State = plan.State
	plan = mustPlan(t, set, s, minute(5))
	if got := started(plan); !slices.Equal(got, []string{"r1/a@v2"}) {
		t.Fatalf("starts %q, waits %q", got, blockers(plan))
	}
	carryOut(t, &s, plan, minute(5), rollout.JobSuccessful)
	judge = frozenUntil(minute(500))
	if got := started(mustPlan(t, set, s, minute(6))); !slices.Equal(got, []string{"r1/b@v2"}) {
		t.Errorf("what was begun is not finished: starts %q", got)
	}
}

// TestCustomRuleInItsWords: why a rule of the host allows is told in its words, and an instant in
// UTC, like every other.
func TestCustomRuleInItsWords(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 3600)
	for _, want := range []rollout.Verdict{
		{Status: rollout.Allowed, Reason: "ticket_closed", Until: minute(7), Rule: "x"},
		{Status: rollout.Pending, Reason: "ticket_open", Until: minute(7), Rule: "x"},
	} {
		set := compile(t, "[]", rollout.WithRule(hostRule{"x", func(rollout.Candidate) rollout.Verdict {
			return rollout.Verdict{Status: want.Status, Reason: want.Reason, Until: want.Until.In(east)}
		}}))
		plan := mustPlan(t, set, fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
		e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "api"})
		if err != nil || !slices.ContainsFunc(e.Versions[0].Rules, func(r rollout.RuleVerdict) bool { return text(t, r.Verdict) == text(t, want) }) {
			t.Errorf("%v\n%v", err, e)
		}
	}
}

// TestCustomRuleNamesAPool: a rule of the host speaks as pools do, of one that there is not, while
// there are orphans of another. Its verdict stays as it is.
func TestCustomRuleNamesAPool(t *testing.T) {
	t.Parallel()
	for _, pools := range []string{`{"retry":{"maxRetries":0}}`, `{"id":"Z","resourceConcurrency":{"groupSelector":"true","limit":9,"groupBy":"resource.name","maxActiveKeys":9}}`} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		for _, pool := range []string{"gone", "Z/r1"} {
			record := concurrency.NewRecord(pool)
			record.NextToken, record.Leases = 2, []concurrency.Lease{{
				Pool: pool, Holder: concurrency.Holder{Resource: "r9", Group: "target/prod/api"}, Token: 1, State: concurrency.Active, Since: t0, ProgressAt: t0,
			}}
			s.State.Pools = append(s.State.Pools, record)
		}
		full := rollout.Verdict{Status: rollout.Pending, Reason: "slot_keys_full", Rule: "x", On: []rollout.Condition{{Kind: rollout.OnSlot, Pool: "elsewhere"}}}
		plan := mustPlan(t, compile(t, policy(pools), rollout.WithRule(hostRule{"x", func(rollout.Candidate) rollout.Verdict { return full }})), s, t0)
		if got := waitingOf(plan); len(plan.Orphans) != 2 || len(got) != 1 || len(got[0].Blockers) != 1 || !got[0].Blockers[0].Equal(full) {
			t.Errorf("waits %v, orphans %v", got, plan.Orphans)
		}
	}
}

// TestCustomRuleTakesATurn: what a rule of the host says reads like a turn, with data of the host's
// own. That of the targets before and behind it stays theirs.
func TestCustomRuleTakesATurn(t *testing.T) {
	t.Parallel()
	turn := rollout.Data{Position: 7, Population: 9}
	set := compile(t, policy(`{"id":"c","versionCooldown":{"intervalSeconds":36000}}`), rollout.WithRule(hostRule{"x", func(c rollout.Candidate) rollout.Verdict {
		if c.Resource.ID != "r2" {
			return rollout.Verdict{Status: rollout.Allowed}
		}
		return rollout.Verdict{Status: rollout.Pending, Reason: "queue", Until: minute(5), Data: &turn}
	}}))
	s := fleet(3, "", map[string][]string{"api": {"v1", "v2", "v3"}})
	s.Targets[0].Current, s.Targets[2].Current = "v1", "v2"
	want := []rollout.Data{{Names: []string{"v1"}}, turn, {Names: []string{"v2"}}}
	for k, w := range waitingOf(mustPlan(t, set, s, t0)) {
		if len(w.Blockers) != 1 || !reflect.DeepEqual(*w.Blockers[0].Data, want[k]) {
			t.Errorf("%s waits for %v, want one blocker with %v", w.Resource, w.Blockers, want[k])
		}
	}
}

// TestCustomRuleIDs: a rule that cannot be told from another one is refused.
func TestCustomRuleIDs(t *testing.T) {
	allow := func(rollout.Candidate) rollout.Verdict { return rollout.Verdict{Status: rollout.Allowed} }
	parsed, err := rollout.ParsePolicies([]byte(policy(`{"id":"x","retry":{"maxRetries":1}}`)))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		ids  []string
		want string
	}{
		{[]string{"y"}, ""}, {[]string{"y", "z"}, ""},
		{[]string{""}, "has no id"}, {[]string{"x"}, `"x": is the id of rules[0]`}, {[]string{"y", "y"}, `"y": is the id of two rules`},
	} {
		var options []rollout.Option
		for _, id := range row.ids {
			options = append(options, rollout.WithRule(hostRule{id, allow}))
		}
		_, err := rollout.Compile(parsed, newEnv(t), options...)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: %v, want %q", row.ids, err, row.want)
		}
	}
	if _, err := rollout.Compile(parsed, newEnv(t), rollout.WithRule(nil)); err == nil || !strings.Contains(err.Error(), "is nil") {
		t.Errorf("nil: %v", err)
	}
}

// TestCustomRuleOfABracketIsListedOnce: what a rule of the host says of every member is one blocker
// of their execution, whether or not there are overrides of something else.
func TestCustomRuleOfABracketIsListedOnce(t *testing.T) {
	frozen := hostRule{"freeze", func(rollout.Candidate) rollout.Verdict {
		return rollout.Verdict{Status: rollout.Pending, Reason: "frozen", Until: t0.Add(time.Hour)}
	}}
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`), rollout.WithRule(frozen))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	for _, overrides := range [][]rollout.Override{nil, {{ID: "o", Rule: "freeze", Version: "v1", CreatedAt: t0, CreatedBy: "ann", Reason: "of another version"}}} {
		s.Overrides = overrides
		plan := mustPlan(t, set, s, t0.Add(time.Minute))
		if plan.Waiting.Len() != 2 {
			t.Fatalf("%d overrides: %v", len(overrides), blockers(plan))
		}
		for w := range plan.Waiting.All() {
			if len(w.Blockers) != 2 || w.Blockers[1].Reason != "frozen" { // after bracket_not_due
				t.Errorf("%d overrides: %v", len(overrides), w)
			}
		}
	}
}

// TestCustomRuleSeesJobsInOrder: whatever the order in which the host lists jobs, its rule gets them
// newest first, and they are put in order once, not for each version that it judges.
func TestCustomRuleSeesJobsInOrder(t *testing.T) {
	jobs := []rollout.Job{
		{Version: "v0", Status: rollout.JobSuccessful, CreatedAt: minute(-3)}, {Version: "v1", Status: rollout.JobFailure, CreatedAt: minute(-2)}, {Version: "v1", Status: rollout.JobSuccessful, CreatedAt: minute(-1)},
	}
	for _, row := range []struct {
		order []int
		why   string
	}{
		{[]int{2, 1, 0}, "as it gets them"}, {[]int{0, 1, 2}, "the oldest first: read from the end by all others"}, {[]int{1, 2, 0}, "in no order"},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v0", "v1", "v2", "v3"}})
		for _, k := range row.order {
			s.Targets[0].Jobs = append(s.Targets[0].Jobs, jobs[k])
		}
		seen := map[string]*rollout.Job{}
		mustPlan(t, compile(t, "[]", rollout.WithRule(hostRule{"x", func(c rollout.Candidate) rollout.Verdict {
			if want := []rollout.Job{jobs[2], jobs[1], jobs[0]}; !slices.Equal(c.Target.Jobs, want) {
				t.Errorf("%s: got %v, want %v", row.why, c.Target.Jobs, want)
			}
			seen[c.Version.ID] = &c.Target.Jobs[0]
			return rollout.Verdict{Status: rollout.Denied, Reason: "not_yet"}
		}})), s, t0)
		if len(seen) != 2 || seen["v2"] != seen["v3"] {
			t.Errorf("%s: copied anew for one of the versions judged, %d", row.why, len(seen))
		}
	}
}
