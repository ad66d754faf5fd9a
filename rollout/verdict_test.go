package rollout_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// TestVerdictReads: what a verdict is about is said in words, so that a line of a log can be read
// without the table of reasons.
func TestVerdictReads(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	approval := rollout.Condition{Kind: rollout.OnApproval, Version: "v2", Deployment: "web", Environment: "prod"}
	staging := rollout.Condition{Kind: rollout.OnJob, Version: "v2", Deployment: "web", Environment: "staging"}
	for _, row := range []struct {
		why  string
		in   rollout.Verdict
		want string
	}{
		{"no facts", rollout.Verdict{Reason: rollout.ReasonAllowed}, "allowed"},
		{"of a decoded one it may not be known who failed", rollout.Verdict{
			Reason: rollout.Reason(bracket.ReasonFailedHolding), Data: &rollout.Data{},
		}, "bracket_failed_holding"},
		{"a person's text, as YAML has it", rollout.Verdict{
			Reason: rollout.ReasonFrozen, On: []rollout.Condition{{Kind: rollout.OnFreeze, Freeze: "z"}}, Data: &rollout.Data{Names: []string{"ann"}, Detail: "the disk\nis replaced\n"},
		}, "frozen by ann (the disk is replaced), waits for the end of freeze z"},
		{"a rule of the host freezes, and says why", rollout.Verdict{Reason: rollout.ReasonFrozen, Until: noon, Data: &rollout.Data{Detail: "INC-7"}}, "frozen: INC-7 until 2026-03-10T12:00:00Z"},
		{"or who, or what", rollout.Verdict{Reason: rollout.ReasonFrozen, Until: noon, Data: &rollout.Data{Names: []string{"payments"}}}, "frozen payments until 2026-03-10T12:00:00Z"},
		{"the version is held", rollout.Verdict{
			Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "web"}}, Data: &rollout.Data{Detail: "paused"},
		}, `version_not_deployable: paused, waits for a version of web`},
		{"a status in other letters reads as if it were deployable", rollout.Verdict{
			Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "web"}}, Data: &rollout.Data{Detail: "Ready"},
		}, `version_not_deployable: "Ready" is no known status, which "ready" would be, waits for a version of web`},
		{"or as if somebody had meant to hold it", rollout.Verdict{
			Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "web"}}, Data: &rollout.Data{Detail: "PAUSED"},
		}, `version_not_deployable: "PAUSED" is no known status, which "paused" would be, waits for a version of web`},
		{"the host's own status", rollout.Verdict{
			Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "web"}}, Data: &rollout.Data{Detail: "building"},
		}, `version_not_deployable: building is neither ready nor paused, waits for a version of web`},
		{"it has none", rollout.Verdict{
			Reason: rollout.ReasonVersionNotDeployable, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "web"}}, Data: &rollout.Data{Detail: ""},
		}, `version_not_deployable: it has no status, waits for a version of web`},
		{"a version of the future", rollout.Verdict{Reason: rollout.ReasonVersionNotDeployable, Until: noon}, "version_not_deployable until 2026-03-10T12:00:00Z"},
		{"nobody approved", rollout.Verdict{
			Reason: rollout.ReasonApprovalMissing, On: []rollout.Condition{approval}, Data: &rollout.Data{Allowed: 2},
		}, "approval_missing (0 of 2 needed), waits for an approval of v2 in prod"},
		{"who approved stands beside how many must", rollout.Verdict{
			Reason: rollout.ReasonApprovalMissing, On: []rollout.Condition{approval}, Data: &rollout.Data{Attempt: 1, Allowed: 2, Names: []string{"ann"}},
		}, "approval_missing (1 of 2 needed: ann), waits for an approval of v2 in prod"},
		{"one environment is enough", rollout.Verdict{
			Reason: rollout.ReasonProgressionWaiting, On: []rollout.Condition{staging}, Data: &rollout.Data{Attempt: 1, Allowed: 2, Names: []string{"qa", "staging"}},
		}, "progression_waiting (1 succeeded in qa or staging, 2 needed), waits for successes of web v2 in staging"},
		{"a success is there, and awaits its verification", rollout.Verdict{
			Reason: rollout.ReasonProgressionWaiting, On: []rollout.Condition{staging}, Data: &rollout.Data{Allowed: 1, Names: []string{"staging"}, Detail: "1 awaiting verification in staging"},
		}, "progression_waiting (0 succeeded in staging, 1 needed): 1 awaiting verification in staging, waits for successes of web v2 in staging"},
		{"only the soak is left: further successes are not what it waits for", rollout.Verdict{
			Reason: rollout.ReasonProgressionWaiting, Until: noon, On: []rollout.Condition{staging}, Data: &rollout.Data{Attempt: 2, Allowed: 2, Names: []string{"staging"}},
		}, "progression_waiting (2 succeeded in staging, 2 needed, soaking) until 2026-03-10T12:00:00Z"},
		{"more succeeded than the percentage asks for", rollout.Verdict{
			Reason: rollout.ReasonProgressionWaiting, Until: noon, On: []rollout.Condition{staging}, Data: &rollout.Data{Attempt: 10, Allowed: 9, Names: []string{"staging"}},
		}, "progression_waiting (10 succeeded in staging, 9 needed, soaking) until 2026-03-10T12:00:00Z"},
		{"a rollout starts when all its gates are open, not one of them", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotStarted, On: []rollout.Condition{approval, staging},
		}, "rollout_not_started, waits for an approval of v2 in prod and successes of web v2 in staging"},
		{"one whose gates only soak waits for no further success", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotStarted, Until: noon, On: []rollout.Condition{staging},
		}, "rollout_not_started until 2026-03-10T12:00:00Z"},
		{"but an approval before the one that is to come starts it earlier", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotStarted, Until: noon, On: []rollout.Condition{approval, staging},
		}, "rollout_not_started until 2026-03-10T12:00:00Z, waits for an approval of v2 in prod"},
		{"a member waits for all that are listed, not for one of them", rollout.Verdict{
			Reason: "bracket_waits_for_members", On: []rollout.Condition{{Kind: rollout.OnMember, Deployment: "kubelet", Resource: "r1"}, {Kind: rollout.OnMember, Deployment: "os", Resource: "r1"}},
		}, "bracket_waits_for_members, waits for kubelet on r1 and os on r1"},
		{"a group that collects closes by itself, and a version that comes meanwhile only joins it", rollout.Verdict{
			Reason: "bracket_collecting", Until: noon, On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "os"}},
		}, "bracket_collecting until 2026-03-10T12:00:00Z"},
		{"one that has nothing to lock waits for a version", rollout.Verdict{
			Reason: "bracket_collecting", On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "os"}},
		}, "bracket_collecting, waits for a version of os"},
		{"a version of the hook alone helps nobody: the next group has to lock it", rollout.Verdict{
			Reason: "bracket_hook_without_version", On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "drain"}, {Kind: rollout.OnGroupClose, Environment: "prod"}},
		}, "bracket_hook_without_version, waits for a version of drain and the next group in prod"},
		{"or until its locked version may be deployed again", rollout.Verdict{
			Reason: "bracket_hook_without_version", Rule: "b", On: []rollout.Condition{
				{Kind: rollout.OnVersion, Deployment: "drain"}, {Kind: rollout.OnGroupClose, Environment: "prod"},
				{Kind: rollout.OnOperator}, {Kind: rollout.OnJob, Deployment: "drain", Version: "d1"},
			},
		}, "bracket_hook_without_version, waits for a version of drain and the next group in prod, or for an operator's override or successes of drain d1"},
		{"of a decoded one it may not be known that a group takes it along", rollout.Verdict{
			Reason: "bracket_hook_without_version", On: []rollout.Condition{{Kind: rollout.OnVersion, Deployment: "drain"}},
		}, "bracket_hook_without_version, waits for a version of drain"},
		{"what it is queued behind has failed, and may never end by itself", rollout.Verdict{
			Reason: "bracket_queued", On: []rollout.Condition{{Kind: rollout.OnExecutionEnd, Resource: "r1"}}, Data: &rollout.Data{Names: []string{"kubelet"}},
		}, "bracket_queued (kubelet failed), waits for the end of the bracket on r1"},
		{"a group waits for one event, or for all members that keep it from being merged", rollout.Verdict{
			Reason: "bracket_queued", On: []rollout.Condition{{Kind: rollout.OnExecutionEnd, Rule: "b", Resource: "r1"}, {Kind: rollout.OnMember, Deployment: "kubelet", Resource: "r1"}, {Kind: rollout.OnMember, Deployment: "os", Resource: "r1"}},
		}, "bracket_queued, waits for the end of the bracket on r1 or kubelet on r1 and os on r1"},
		{"an execution begins when no freeze is left and none of its targets is busy", rollout.Verdict{
			Reason: "bracket_not_due", On: []rollout.Condition{{Kind: rollout.OnJob, Deployment: "kubelet", Resource: "r1"}, {Kind: rollout.OnFreeze, Freeze: "a"}, {Kind: rollout.OnJob, Deployment: "os", Resource: "r1"}, {Kind: rollout.OnDependency, Deployment: "base", Resource: "r1"}, {Kind: rollout.OnFreeze, Freeze: "b"}},
		}, "bracket_not_due, waits for base on r1 or the end of freeze a and the end of freeze b or the end of a job of kubelet on r1 and the end of a job of os on r1"},
		{"a curve goes on when none of the freezes is left that stop it", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotDue, On: []rollout.Condition{{Kind: rollout.OnFreeze, Freeze: "a"}, {Kind: rollout.OnFreeze, Freeze: "b"}}, Data: &rollout.Data{Population: 2},
		}, "rollout_not_due (turn 1 of 2), waits for the end of freeze a and the end of freeze b"},
		{"successes in one of two environments are enough", rollout.Verdict{
			Reason: rollout.ReasonProgressionWaiting, On: []rollout.Condition{staging, {Kind: rollout.OnJob, Version: "v2", Deployment: "web", Environment: "qa"}}, Data: &rollout.Data{Allowed: 1, Names: []string{"qa", "staging"}},
		}, "progression_waiting (0 succeeded in qa or staging, 1 needed), waits for successes of web v2 in staging or successes of web v2 in qa"},
		{"of the members of a bracket, those that an override has not let past", rollout.Verdict{
			Reason: rollout.ReasonWindowClosed, Until: noon, Data: &rollout.Data{Names: []string{"drain", "uncordon"}},
		}, "window_closed for drain, uncordon until 2026-03-10T12:00:00Z"},
		{"an instant says of what it is", rollout.Verdict{
			Reason: rollout.ReasonProgressionTooOld, Data: &rollout.Data{Detail: "2026-03-09T12:00:00Z"},
		}, "progression_too_old (newest success at 2026-03-09T12:00:00Z)"},
		{"after which version", rollout.Verdict{
			Reason: rollout.ReasonCooldown, Until: noon, Data: &rollout.Data{Names: []string{"v1"}},
		}, "cooldown after v1 until 2026-03-10T12:00:00Z"},
		{"a member that a merge has given a newer version waits for itself", rollout.Verdict{
			Reason: "bracket_waits_for_members", On: []rollout.Condition{{Kind: rollout.OnMember, Deployment: "os", Resource: "r1"}}, Data: &rollout.Data{Names: []string{"v2"}},
		}, "bracket_waits_for_members (its own run of v2 ends first), waits for os on r1"},
		{"a member that backs off waits for itself", rollout.Verdict{Reason: "bracket_waits_for_members", Until: noon}, "bracket_waits_for_members (its next attempt) until 2026-03-10T12:00:00Z"},
		{"who decided, under which id", rollout.Verdict{
			Reason: rollout.ReasonOverridden, Until: noon, Data: &rollout.Data{Names: []string{"dana"}, Detail: "INC-7"},
		}, "overridden by dana: INC-7 until 2026-03-10T12:00:00Z"},
		{"positions are counted from 0, turns from 1", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotDue, Until: noon, Data: &rollout.Data{Position: 9, Population: 10},
		}, "rollout_not_due (turn 10 of 10) until 2026-03-10T12:00:00Z"},
		{"who joined later is not among those who were counted", rollout.Verdict{
			Reason: "bracket_not_due", Until: noon, Data: &rollout.Data{Position: 10, Population: 10},
		}, "bracket_not_due (turn 11, after the 10 at the start) until 2026-03-10T12:00:00Z"},
		{"where it went back to", rollout.Verdict{
			Reason: rollout.ReasonRollbackTriggered, On: []rollout.Condition{{Kind: rollout.OnOperator}}, Data: &rollout.Data{Names: []string{"v1"}, Detail: "verification failed"},
		}, "rollback_triggered (back to v1): verification failed, waits for an operator"},
		{"what the operator gives: an override of the rule", rollout.Verdict{
			Reason: rollout.ReasonRetryExhausted, Rule: "r", On: []rollout.Condition{{Kind: rollout.OnOperator}, {Kind: rollout.OnVersion, Deployment: "web"}},
		}, "retry_exhausted, waits for an operator's override or a version of web"},
		{"but no override lets a version out of its bracket", rollout.Verdict{
			Reason: "bracket_failed_holding", Rule: "b", On: []rollout.Condition{{Kind: rollout.OnOperator}},
		}, "bracket_failed_holding, waits for an operator"},
		{"an instant, where no override helps", rollout.Verdict{
			Reason: "bracket_ended", Rule: "b", On: []rollout.Condition{{Kind: rollout.OnOperator}, {Kind: rollout.OnGroupClose, Environment: "prod"}},
		}, "bracket_ended, waits for an operator's outdatedAt or the next group in prod"},
		{"what a gate waits for that opens by no success is said by the gate", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotStarted, On: []rollout.Condition{{Kind: rollout.OnOperator}, {Kind: rollout.OnVersion, Deployment: "web"}, approval},
		}, "rollout_not_started, waits for an approval of v2 in prod"},
		{"a command, where an execution is open", rollout.Verdict{
			Reason: "bracket_failed_holding", Rule: "b", On: []rollout.Condition{{Kind: rollout.OnOperator, Group: "b/prod/1", Resource: "r1"}},
		}, "bracket_failed_holding, waits for an operator's command for b/prod/1 on r1"},
		{"whose turn it is", rollout.Verdict{
			Reason: rollout.ReasonRolloutNotDue, Until: noon, Data: &rollout.Data{Position: 3, Population: 10},
		}, "rollout_not_due (turn 4 of 10) until 2026-03-10T12:00:00Z"},
		{"how often it was tried", rollout.Verdict{
			Reason: rollout.ReasonRetryExhausted, Data: &rollout.Data{Attempt: 3, Allowed: 3},
		}, "retry_exhausted (3 of 3 attempts failed)"},
		{"that nobody tries it again, which never failed", rollout.Verdict{
			Reason: rollout.ReasonRetryExhausted, Data: &rollout.Data{Allowed: 3, Names: []string{"v1"}},
		}, "retry_exhausted (back to v1 by hand)"},
		{"that nobody tries it again", rollout.Verdict{
			Reason: rollout.ReasonRetryExhausted, Data: &rollout.Data{Attempt: 1, Allowed: 3, Names: []string{"v1"}},
		}, "retry_exhausted (1 of 3 attempts failed, back to v1 by hand)"},
		{"each event in a few words", rollout.Verdict{Reason: rollout.ReasonAllowed, On: []rollout.Condition{
			{Kind: rollout.OnJob, Deployment: "web", Resource: "r1"}, {Kind: rollout.OnJob, Deployment: "web", Version: "v2"}, {Kind: rollout.OnMember, Deployment: "web", Resource: "r1"},
			{Kind: rollout.OnExecutionEnd, Resource: "r1"}, {Kind: rollout.OnGroupClose, Environment: "prod"}, {Kind: rollout.OnSlot, Pool: "east"}, {Kind: rollout.OnVersion, Deployment: "web"},
			{Kind: rollout.OnConfig}, {Kind: rollout.OnConfig, Pool: "east"}, {Kind: "full_moon"},
		}}, "allowed, waits for the end of a job of web on r1 or successes of web v2 or web on r1 or the end of the bracket on r1 or the next group in prod or a free slot in east or a version of web" +
			" or a change of the policy or a change of the limit of east or full_moon"},
		{"a pool by the names that people gave, and one whose key nobody wrote", rollout.Verdict{Reason: rollout.ReasonAllowed, On: []rollout.Condition{
			{Kind: rollout.OnSlot, Pool: "p%2FresourceConcurrency%2F0/east"}, {Kind: rollout.OnConfig, Pool: "100%"},
		}}, "allowed, waits for a free slot in p/resourceConcurrency/0/east or a change of the limit of 100%"},
		{"the same thing in several environments, and for several reasons", rollout.Verdict{
			Reason: rollout.ReasonDependencyUnmet, Data: &rollout.Data{Names: []string{"db"}}, On: []rollout.Condition{
				{Kind: rollout.OnDependency, Deployment: "db", Resource: "r1", Environment: "prod"}, {Kind: rollout.OnDependency, Deployment: "db", Resource: "r1", Environment: "staging"},
				{Kind: rollout.OnConfig, Rule: "a"}, {Kind: rollout.OnConfig, Rule: "b"},
			},
		}, "dependency_unmet db, waits for db on r1 in prod or db on r1 in staging or a change of the policy"},
		{"eleven pools, all named", rollout.Verdict{Reason: "slot_keys_full", On: slots(11), Data: &rollout.Data{Names: []string{"P/a"}}},
			"slot_keys_full in P/a, waits for an empty P/1 or an empty P/2 or an empty P/3 or an empty P/4 or an empty P/5 or an empty P/6 or an empty P/7 or an empty P/8 or an empty P/9 or an empty P/10 or an empty P/11"},
		{"twelve pools, of which nobody reads all", rollout.Verdict{Reason: "slot_keys_full", On: slots(12), Data: &rollout.Data{Names: []string{"P/a"}}},
			"slot_keys_full in P/a, waits for an empty P/1 or an empty P/2 or an empty P/3 or an empty P/4 or an empty P/5 or an empty P/6 or an empty P/7 or an empty P/8 or an empty P/9 or an empty P/10 or 2 others"},
		{"a place, even where slots are free and what is reserved is of the rate", rollout.Verdict{
			Reason: "slot_reserved", Until: noon, On: []rollout.Condition{{Kind: rollout.OnSlot, Pool: "p%2FresourceConcurrency%2F0/east"}},
		}, "slot_reserved until 2026-03-10T12:00:00Z, waits for a place in p/resourceConcurrency/0/east that is not reserved"},
		{"nowhere to go back to", rollout.Verdict{
			Reason: rollout.ReasonRollbackTriggered, Data: &rollout.Data{Detail: "failure"},
		}, "rollback_triggered (nothing to go back to): failure"},
	} {
		if got := row.in.String(); got != row.want {
			t.Errorf("%s: got %q, want %q", row.why, got, row.want)
		}
	}
}

func slots(n int) (list []rollout.Condition) {
	for k := range n {
		list = append(list, rollout.Condition{Kind: rollout.OnSlot, Pool: fmt.Sprintf("P/%d", k+1)})
	}
	return list
}

// TestTargetIDReads: what is about a resource as a whole has no empty places.
func TestTargetIDReads(t *testing.T) {
	for id, want := range map[rollout.TargetID]string{
		{Resource: "r1", Environment: "prod", Deployment: "web"}: "r1 / prod / web", {Resource: "r1"}: "r1", {Environment: "prod", Deployment: "web"}: "prod / web", {}: "",
	} {
		if got := id.String(); got != want {
			t.Errorf("%+v: %q, want %q", id, got, want)
		}
	}
}

// TestStartsAndWaitsRead: both embed an id that prints itself, which must not be all that a log
// says of them.
func TestStartsAndWaitsRead(t *testing.T) {
	id := rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "web"}
	full := []rollout.Verdict{{Reason: "slot_full"}, {Reason: "window_closed", Until: time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)}}
	for _, row := range []struct {
		printed fmt.Stringer
		want    string
	}{
		{rollout.Start{TargetID: id, Version: "v2", Run: "r1/prod/web/v2/1", Purpose: rollout.PurposeDeploy, Reason: "slot_free"}, "r1 / prod / web: deploy v2 as r1/prod/web/v2/1, slot_free"},
		{rollout.Waiting{TargetID: id, Version: "v2", Blockers: full}, "r1 / prod / web: v2 waits: slot_full; window_closed until 2026-03-10T09:00:00Z"},
		{rollout.Waiting{TargetID: id, Blockers: full[:1]}, "r1 / prod / web: waits: slot_full"}, // the target itself is held
	} {
		if got := row.printed.String(); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// forms are what hosts branch on: the status of each reason, then whether it has an Until (!
// always, - never, ? sometimes), then the kinds of events.
func forms() map[rollout.Reason]string {
	return map[rollout.Reason]string{
		"version_not_deployable":       "denied - version",
		"selector_no_match":            "denied - config",
		"selector_missing_key":         "denied - config",
		"selector_error":               "denied - config|denied - dependency", // of a rule; of a version
		"failure_budget_exceeded":      "denied - job,operator,version",
		"approval_missing":             "pending ? approval",
		"progression_no_environment":   "denied - config",
		"progression_too_old":          "denied ? config,job",
		"progression_waiting":          "pending ? job|pending - job,operator,version",
		"dependency_unmatched":         "denied - config|denied - config,version", // of a member of a bracket
		"dependency_unmet":             "denied - dependency|denied - dependency,version",
		"version_dependency_unmet":     "denied - dependency|denied - dependency,version|denied - dependency,operator", // on what has no target there; in an open execution
		"cooldown":                     "denied ! |denied ! job",
		"window_closed":                "pending ! |pending - config", // one that never opens
		"window_too_short":             "pending ! |pending - config",
		"rollout_not_started":          "pending ? approval|pending ? job|pending ? approval,job|pending - config|pending ? config,job|pending ? approval,config|pending ? approval,config,job",
		"rollout_not_due":              "pending ! |pending - freeze",                             // whose end nobody knows
		"rollout_overflow":             "denied - config|denied - config,freeze",                  // whose time would be enough
		"rollback_triggered":           "denied - operator,version|denied - job,operator,version", // over a budget: a success may mend that
		"rollback_failed":              "denied - operator,version|denied - job,operator,version",
		"retry_backoff":                "pending ! ",
		"retry_exhausted":              "denied - operator,version",
		"target_busy":                  "denied - job",
		"version_unknown":              "denied - version",
		"custom_invalid":               "denied - config",
		"frozen":                       "pending ? freeze",
		"slot_full":                    "pending - slot|pending - orphan,slot|pending - operator,slot|pending - operator,orphan,slot",
		"slot_paused":                  "pending - config",
		"slot_exclusive":               "pending - slot|pending - orphan,slot|pending - operator,slot|pending - operator,orphan,slot",
		"slot_halted":                  "pending - available",
		"slot_keys_full":               "pending - slot|pending - orphan,slot|pending - operator,slot|pending - operator,orphan,slot",
		"slot_reserved":                "pending ? slot|pending ? orphan,slot",
		"slot_rate_full":               "pending ? rate",
		"bracket_waits_for_members":    "pending - member|pending ! |pending ! member",
		"bracket_queued":               "pending ? execution_end|pending - execution_end,member",
		"bracket_merge_budget":         "pending - execution_end",
		"bracket_hook_without_version": "pending ? group_close|pending ? group_close,version",
		"bracket_ended":                "denied ? group_close,operator|denied ? group_close,member", // while it goes back
		"bracket_hook_waits_for_main":  "pending ? group_close",
		"bracket_no_version":           "denied - version",
	}
}

// formFault says what is wrong with the status of a verdict, its Until or its events; nothing about
// reasons of the host, and of brackets those whose events depend on what holds them up.
func formFault(v rollout.Verdict) string {
	until := "-"
	if !v.Until.IsZero() {
		until = "!"
	}
	var kinds []string
	for n, on := range v.On {
		if slices.Contains(v.On[:n], on) {
			return "it names an event twice"
		}
		kinds = append(kinds, string(on.Kind))
		needs := map[rollout.ConditionKind][]string{
			rollout.OnApproval: {on.Version, on.Deployment, on.Environment}, rollout.OnDependency: {on.Deployment, on.Resource, on.Environment}, rollout.OnMember: {on.Group, on.Resource, on.Deployment},
			rollout.OnExecutionEnd: {on.Rule, on.Resource}, rollout.OnGroupClose: {on.Rule, on.Environment}, rollout.OnSlot: {on.Pool}, rollout.OnVersion: {on.Deployment},
			rollout.OnConfig: {on.Rule + on.Pool}, rollout.OnJob: {on.Deployment, on.Version + on.Resource}, rollout.OnOperator: {}, rollout.OnOrphan: {on.Pool}, rollout.OnRate: {on.Pool}, rollout.OnAvailable: {on.Pool}, rollout.OnFreeze: {on.Freeze},
		}
		if parts, known := needs[on.Kind]; !known || slices.Contains(parts, "") {
			return "who waits for it cannot tell which " + string(on.Kind)
		}
	}
	if v.Reason == "bracket_hook_without_version" { // behind these: what the gates of a locked version wait for
		own := slices.Index(kinds, "group_close") + 1
		if until == "!" && len(kinds) == own && kinds[0] != "group_close" {
			return "no gate says what opens then, and the group that closes has no version"
		}
		kinds = kinds[:own]
	}
	slices.Sort(kinds)
	if v.Reason == rollout.ReasonRolloutNotStarted { // what a progression waits for if no success comes by itself
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "operator" || kind == "version" })
	}
	needed := func(c rollout.Condition) bool { return c.Deployment == v.Data.Names[0] } // or a release of it
	if v.Reason == rollout.ReasonVersionUnmet && (v.Data.Detail == "it has no target on this resource in this environment") == !slices.ContainsFunc(v.On, func(c rollout.Condition) bool { return !needed(c) }) {
		return "no detail says why more than a dependency helps, or one says it for nothing"
	}
	events := strings.Join(slices.Compact(kinds), ",")
	form, known := forms()[v.Reason]
	if !known {
		return ""
	}
	for one := range strings.SplitSeq(form, "|") {
		parts := strings.Split(one, " ")
		if string(v.Status) == parts[0] && (parts[1] == "?" || parts[1] == until) && events == parts[2] {
			return ""
		}
	}
	return "want " + form
}

// TestReasonsAreGiven: every reason that is documented is one that some verdict has, and a test
// asks for it by its name or its code.
func TestReasonsAreGiven(t *testing.T) {
	read := func(pattern string, except ...string) string {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, file := range files {
			if slices.Contains(except, file) || strings.HasSuffix(pattern, "_test.go") != strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
		return all.String()
	}
	declared, given, asked := read("verdict.go"), read("*.go", "verdict.go", "explain.go"), read("*_test.go", "verdict_test.go")+read("rollouttest/*_test.go")
	reasons := regexp.MustCompile(`(?m)^\t(Reason\w+) +Reason = "(\w+)"`).FindAllStringSubmatch(declared, -1)
	if len(reasons) < 30 {
		t.Fatalf("only %d reasons", len(reasons))
	}
	for _, reason := range reasons {
		name, code := regexp.MustCompile(`\b`+reason[1]+`\b`), regexp.MustCompile(`\b`+reason[2]+`\b`)
		if !name.MatchString(given) {
			t.Errorf("no verdict has %s", reason[1])
		}
		if !name.MatchString(asked) && !code.MatchString(asked) {
			t.Errorf("no test asks for %s, %s", reason[1], reason[2])
		}
	}
}

// TestPartsOfAPlanTellThemselves: on one line each, so that a log says what happened.
func TestPartsOfAPlanTellThemselves(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 11, 9, 0, 0, 0, time.FixedZone("", 3600))
	holders := func(resources ...string) (list []concurrency.Holder) {
		for _, r := range resources {
			list = append(list, concurrency.Holder{Resource: r, Group: "g"})
		}
		return list
	}
	var many []string
	for k := range 12 {
		many = append(many, fmt.Sprintf("n%02d", k))
	}
	for want, part := range map[string]fmt.Stringer{
		"P%/zone/a: 0 of 2 active":                                                                                          rollout.Pool{Key: "P%25/zone/a", Max: 2, Total: 9},
		"P: 3 of 3 active: n1, n2 (quarantined), n3":                                                                        rollout.Pool{Key: "P", Active: 3, Max: 3, Holders: holders("n3", "n2", "n3"), Quarantined: holders("n2"), Unavailable: []string{"n1", "n3"}},
		"P: 12 of 12 active: n00, n01, n02, n03, n04, n05, n06, n07, n08, n09 and 2 more":                                   rollout.Pool{Key: "P", Active: 12, Max: 12, Unavailable: many},
		"n1: B/prod/1/n1/os/1 is stuck since 2026-03-11T08:00:00Z":                                                          rollout.Stuck{Resource: "n1", Group: "B/prod/1", Run: "B/prod/1/n1/os/1", Since: at},
		"n1: the slot of B/prod/1 in P/zone/a is stuck since 2026-03-11T08:00:00Z: it is not free before its job has ended": rollout.Stuck{Resource: "n1", Group: "B/prod/1", Pool: "P/zone/a", Since: at},
		"group_closed: B/prod/1, ready at 2026-03-11T08:00:00Z":                                                             rollout.Event{Kind: bracket.GroupClosed, Group: "B/prod/1", Status: bracket.StatusReady, At: at},
		"group_merged: B/prod/2 on n1 into B/prod/1, executing at 2026-03-11T08:00:00Z": rollout.Event{
			Kind: bracket.GroupMerged, Group: "B/prod/2", Resource: "n1", Into: "B/prod/1", Status: bracket.StatusExecuting, At: at,
		},
	} {
		if got := part.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
