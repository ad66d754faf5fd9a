package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
)

// lined are values with all that the texts of this package show, by name. All ids have the given
// end, and so has what a host may have misspelt.
func lined(end string) map[string]fmt.Stringer {
	n := func(name string) string { return name + end }
	at := time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC)
	id := rollout.TargetID{Resource: n("r"), Environment: n("e"), Deployment: n("d")}
	list := map[string]fmt.Stringer{
		"target id":   id,
		"target":      rollout.Target{TargetID: id, Current: n("v"), Jobs: []rollout.Job{{Version: n("v"), Status: rollout.JobStatus(n("odd"))}}},
		"start":       rollout.Start{TargetID: id, Version: n("v"), Run: n("run"), Purpose: rollout.PurposeDeploy, Reason: rollout.Reason(n("odd"))},
		"pool":        rollout.Pool{Key: n("p"), Holders: []concurrency.Holder{{Resource: n("r")}}, Quarantined: []concurrency.Holder{{Resource: n("r")}}, Unavailable: []string{n("s")}},
		"stuck run":   rollout.Stuck{Resource: n("r"), Group: n("g"), Run: n("run")},
		"stuck slot":  rollout.Stuck{Resource: n("r"), Group: n("g"), Pool: n("p")},
		"event":       rollout.Event{Kind: bracket.EventKind(n("odd")), Group: n("g"), Resource: n("r"), Into: n("h"), Status: bracket.Status(n("odd"))},
		"queued":      rollout.Queued{TargetID: id, Version: n("v"), Purpose: rollout.PurposeDeploy, Pools: []string{n("p"), n("q")}},
		"queue place": rollout.QueuePlace{Pool: n("p")},
		"diagnostic":  rollout.Diagnostic{Code: rollout.DiagnosticMissingKey, Rule: n("rule"), Detail: n("key"), Count: 2, Example: id},
		"finding":     rollout.Finding{Path: n("path"), Detail: n("detail"), Fix: n("fix"), Targets: 2, Example: id},
		"situation":   rollout.Situation{Start: n("v"), Running: n("w"), Wait: n("x"), Blockers: []rollout.Verdict{{Reason: rollout.Reason(n("odd"))}}},
		"change":      rollout.Change{TargetID: id, After: rollout.Situation{Start: n("v")}},
		"waiting":     rollout.Waiting{TargetID: id, Version: n("v"), Blockers: []rollout.Verdict{{Reason: rollout.Reason(n("odd"))}}},
		"rule":        rollout.RuleVerdict{Kind: rollout.RuleKind(n("odd")), Verdict: rollout.Verdict{Rule: n("rule")}},
		"explanation": rollout.Explanation{
			TargetID: id, Current: n("v"), Started: n("w"), Policies: []string{n("p")}, Bracket: n("b"), Group: n("g"), Collecting: n("h"),
			Jobs: []rollout.Job{{Version: n("v"), Status: rollout.JobStatus(n("odd")), Run: n("run")}}, Stuck: []rollout.Stuck{{Group: n("g"), Run: n("run")}},
			Held:     []rollout.Verdict{{Rule: n("rule")}},
			Versions: []rollout.VersionExplanation{{Version: n("v"), Tag: n("tag"), Fault: n("fault"), Rules: []rollout.RuleVerdict{{Kind: rollout.RuleKind(n("odd")), Verdict: rollout.Verdict{Rule: n("rule")}}}}},
			Queue:    []rollout.QueuePlace{{Pool: n("p")}}, Pools: []rollout.Pool{{Key: n("p")}},
		},
		"plan": rollout.Plan{Start: []rollout.Start{{TargetID: id, Version: n("v")}}, Orphans: []concurrency.Lease{{Holder: concurrency.Holder{Resource: n("r"), Group: n("g")}, Pool: n("p"), Reason: n("why")}}},
		"changes": rollout.Changes{
			{TargetID: id, After: rollout.Situation{Start: n("v")}},
			{TargetID: rollout.TargetID{Resource: n("r"), Environment: n("e"), Deployment: n("f")}, After: rollout.Situation{Start: n("v")}},
		},
	}
	for _, kind := range []rollout.ConditionKind{
		rollout.OnApproval, rollout.OnJob, rollout.OnDependency, rollout.OnMember, rollout.OnExecutionEnd, rollout.OnGroupClose, rollout.OnSlot, rollout.OnAvailable, rollout.OnRate,
		rollout.OnOrphan, rollout.OnVersion, rollout.OnConfig, rollout.OnFreeze, rollout.OnOperator, rollout.ConditionKind(n("odd")),
	} {
		for k, resource := range []string{"", n("r")} {
			on := rollout.Condition{Kind: kind, Rule: n("rule"), Environment: n("e"), Deployment: n("d"), Resource: resource, Version: n("v"), Group: n("g"), Pool: n("p"), Freeze: n("z")}
			list[fmt.Sprint("condition ", kind, k)] = on
			other := on
			other.Environment = n("f")
			for _, reason := range []rollout.Reason{rollout.ReasonCooldown, rollout.Reason(concurrency.SlotKeysFull), rollout.Reason(concurrency.SlotReserved)} {
				list[fmt.Sprint("verdict on ", kind, k, reason)] = rollout.Verdict{Reason: reason, On: []rollout.Condition{on, other}}
			}
		}
	}
	for _, reason := range []rollout.Reason{
		rollout.ReasonVersionNotDeployable, rollout.ReasonRolloutNotDue, rollout.ReasonRetryBackoff, rollout.ReasonFailureBudget, rollout.ReasonApprovalMissing,
		rollout.ReasonProgressionWaiting, rollout.ReasonProgressionTooOld, rollout.ReasonCooldown, rollout.ReasonOverridden, rollout.ReasonFrozen, rollout.ReasonWindowClosed,
		rollout.Reason(concurrency.SlotKeysFull), rollout.Reason(bracket.ReasonWaitsForMembers), rollout.Reason(bracket.ReasonQueued), rollout.ReasonRollbackFailed, rollout.Reason(n("odd")),
	} {
		list[fmt.Sprint("verdict ", reason)] = rollout.Verdict{Reason: reason, Until: at, Data: &rollout.Data{Names: []string{n("a"), n("b")}, Detail: n("detail")}}
	}
	return list
}

// TestNamesOfOneLine: a line break in a name ends no line, in none of the texts.
func TestNamesOfOneLine(t *testing.T) {
	t.Parallel()
	want := map[string]int{}
	for name, value := range lined("") {
		want[name] = strings.Count(value.String(), "\n")
		if text := value.String(); strings.ContainsAny(text, `"\`) && !strings.Contains(text, "known status") {
			t.Errorf("%s: something is quoted without need: %s", name, text)
		}
	}
	for name, value := range lined("\n") {
		name = strings.ReplaceAll(name, "\n", "")
		text := value.String()
		if lines, known := want[name]; !known || strings.Count(text, "\n") != lines {
			t.Errorf("%s: more lines than the %d of ordinary names:\n%s", name, lines, text)
		}
	}
}
