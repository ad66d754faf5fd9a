package bracket

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPlanString prints the plans of a node that is upgraded, with everything that a plan can hold.
func TestPlanString(t *testing.T) {
	h := newHost(t, "n1", "n2")
	h.rule.StuckAfterSeconds = 120
	h.due["n2"] = at(90)
	h.publish("kubelet", "v2", 0)
	if p := h.step(0); p.String() != `waits: rule/prod/1: bracket_collecting until 2026-03-10T10:00:00Z, waits for a version of containerd or a version of drain or a version of kubelet or a version of os or a version of uncordon
event: group_opened: rule/prod/1, collecting at 2026-03-10T09:00:00Z
next: 2026-03-10T10:00:00Z` {
		t.Errorf("while the window is open:\n%s", p)
	}
	if p := h.step(60); p.String() != `start: n1/drain (pre): deploy v1 as rule%2Fprod%2F1/n1/drain/1/1/deploy, takes the lease, due since 2026-03-10T10:00:00Z
waits: n2: rule/prod/1: bracket_not_due until 2026-03-10T10:30:00Z
event: group_closed: rule/prod/1, ready at 2026-03-10T10:00:00Z
next: 2026-03-10T10:30:00Z` {
		t.Errorf("once it is closed:\n%s", p)
	}
	h.start()
	h.crash("n1", "drain")
	h.commands = []Command{{ID: "c0", Kind: Retry, Group: "rule/prod/1", Resource: "n1", By: "ann\n", At: at(61), Reason: "try\nagain"}}
	stray := Run{Group: "other/prod/1", Resource: "n1", Deployment: "drain", Generation: 1, Attempt: 1, Purpose: Deploy}
	h.runs[stray] = &RunFact{Run: stray, Status: RunRunning}
	if p := h.step(62); p.String() != `redispatch: n1/drain (pre): deploy v1 as rule%2Fprod%2F1/n1/drain/1/1/deploy, due since 2026-03-10T10:00:00Z
waits: n1/kubelet: rule/prod/1: bracket_waits_for_members, waits for drain on n1
waits: n1/uncordon: rule/prod/1: bracket_waits_for_members, waits for drain on n1 and kubelet on n1
waits: n2: rule/prod/1: bracket_not_due until 2026-03-10T10:30:00Z
stuck: n1/drain: rule%2Fprod%2F1/n1/drain/1/1/deploy is stuck since 2026-03-10T10:02:00Z, started 2026-03-10T10:00:00Z
unknown: other%2Fprod%2F1/n1/drain/1/1/deploy
refused: c0: retry for rule/prod/1 on n1 by ann at 2026-03-10T10:01:00Z: try again
next: 2026-03-10T10:30:00Z` {
		t.Errorf("after a crash:\n%s", p)
	}
	h.order(Abandon, "n1", "", 63)
	if p := h.step(63); !slices.Contains(strings.Split(p.String(), "\n"), "event: execution_ended: rule/prod/1 on n1, cancelled at 2026-03-10T10:03:00Z, quarantines the lease") {
		t.Errorf("abandoned:\n%s", p)
	}
	if p := (Plan{}); p.String() != "nothing" {
		t.Errorf("an empty plan is %q", p)
	}
}

// TestStringsTellAll: the text of a value differs if any of its fields does, but for those that
// follow from the others or that the kind leaves empty.
func TestStringsTellAll(t *testing.T) {
	run := Run{Group: "r/prod/1", Resource: "n1", Deployment: "kubelet", Generation: 1, Attempt: 1, Purpose: Deploy}
	on := []Condition{{Kind: OnVersion, Deployment: "kubelet"}}
	for _, row := range []struct {
		value  any
		want   string
		silent string // fields that are not told
		why    string
	}{
		{Start{Run: run, Version: "v2", Role: Main, First: true, DueAt: at(0)}, "n1/kubelet (main): deploy v2 as r%2Fprod%2F1/n1/kubelet/1/1/deploy, takes the lease, due since 2026-03-10T09:00:00Z", "", "which slot it takes"},
		{Start{Run: run, Version: "v2", Role: Main, DueAt: at(0)}, "n1/kubelet (main): deploy v2 as r%2Fprod%2F1/n1/kubelet/1/1/deploy, due since 2026-03-10T09:00:00Z", "", "the lease is held already"},
		{waiting{Group: "r/prod/1", Resource: "n1", Deployment: "kubelet", Reason: ReasonNotDue, Until: at(1), On: on}, "n1/kubelet: r/prod/1: bracket_not_due until 2026-03-10T09:01:00Z, waits for a version of kubelet", "", "a member"},
		{waiting{Group: "r/prod/1", Resource: "n1", Reason: ReasonNotDue, Until: at(1)}, "n1: r/prod/1: bracket_not_due until 2026-03-10T09:01:00Z", "", "a resource"},
		{waiting{Group: "r/prod/1", Reason: ReasonCollecting, On: on}, "r/prod/1: bracket_collecting, waits for a version of kubelet", "Deployment", "a group; a member has a resource"},
		{Verdict{Reason: ReasonNotDue, Group: "r/prod/1", Until: at(1), On: on}, "pending: r/prod/1: bracket_not_due until 2026-03-10T09:01:00Z, waits for a version of kubelet", "", "not now"},
		{Verdict{Reason: ReasonNotApplicable}, "allowed: rule_not_applicable", "", "no group decides"},
		{Verdict{Reason: ReasonNotLocked, Group: "r/prod/1"}, "denied: r/prod/1: bracket_not_locked", "", "not this one"},
		{Stuck{Run: run, Reason: ReasonStuck, StartedAt: at(0), Since: at(2)}, "n1/kubelet: r%2Fprod%2F1/n1/kubelet/1/1/deploy is stuck since 2026-03-10T09:02:00Z, started 2026-03-10T09:00:00Z", "Reason", "there is one reason only"},
		{Event{Kind: GroupMerged, Group: "r/prod/2", Resource: "n1", At: at(0), Status: StatusSuperseded, Into: "r/prod/1"}, "group_merged: r/prod/2 on n1 into r/prod/1, superseded at 2026-03-10T09:00:00Z", "", "which execution goes on"},
		{Event{Kind: ExecutionEnded, Group: "r/prod/2", Resource: "n1", At: at(0), Status: StatusCancelled, Quarantine: true}, "execution_ended: r/prod/2 on n1, cancelled at 2026-03-10T09:00:00Z, quarantines the lease", "", "what to do with the lease"},
		{Command{ID: "c1", Kind: Skip, Group: "r/prod/1", Resource: "n1", Deployment: "kubelet", By: "ann", At: at(0), Reason: "broken"}, "c1: skip kubelet for r/prod/1 on n1 by ann at 2026-03-10T09:00:00Z: broken", "", "all of it"},
		{Command{ID: "c1", Kind: Close, Group: "r/prod/1", By: "ann"}, "c1: close for r/prod/1 by ann", "", "it names no resource"},
		{Command{ID: "c1", Kind: Abandon, Group: "r/prod/1", Resource: "n1"}, "c1: abandon for r/prod/1 on n1", "", "the least"},
		{Condition{Kind: OnMember, Group: "r/prod/1", Resource: "n1", Deployment: "kubelet"}, "kubelet on n1", "Rule Environment Group", "of one execution"},
		{Condition{Kind: OnExecutionEnd, Rule: "r", Resource: "n1"}, "the end of the execution on n1", "Rule Environment Group Deployment", "of one rule"},
		{Condition{Kind: OnGroupClose, Rule: "r", Environment: "prod"}, "the next group in prod", "Rule Group Resource Deployment", "of one rule"},
		{Condition{Kind: OnVersion, Deployment: "kubelet"}, "a version of kubelet", "Rule Environment Group Resource", "of any kind"},
		{Condition{Kind: OnConfig, Rule: "r"}, "a change of the configuration", "Rule Environment Group Resource Deployment", "of one rule"},
		{Condition{Kind: OnOperator, Group: "r/prod/1", Resource: "n1"}, "a command for r/prod/1 on n1", "Rule Environment Deployment", "what to write into the command"},
		{Condition{Kind: OnOperator}, "an operator", "Rule Environment Resource Deployment", "no execution is open that a command could be for"},
		{Condition{Kind: "other"}, "other", "Rule Environment Group Resource Deployment", "an unknown kind"},
	} {
		if got := fmt.Sprint(row.value); got != row.want || row.why == "" {
			t.Errorf("%s: got %q, want %q", row.why, got, row.want)
		}
		of := reflect.TypeOf(row.value)
		for i := range of.NumField() {
			changed := reflect.New(of).Elem()
			changed.Set(reflect.ValueOf(row.value))
			switch field := changed.Field(i); field.Interface().(type) {
			case time.Time:
				field.Set(reflect.ValueOf(at(7)))
			case bool:
				field.SetBool(!field.Bool())
			case Run:
				other := run
				other.Attempt++
				field.Set(reflect.ValueOf(other))
			case []Condition:
				field.Set(reflect.ValueOf([]Condition{{Kind: OnVersion, Deployment: "other"}}))
			default:
				field.SetString("another")
			}
			silent := slices.Contains(strings.Fields(row.silent), of.Field(i).Name)
			if told := fmt.Sprint(changed.Interface()) != row.want; told == silent {
				t.Errorf("%s: with another %s it is %q", row.why, of.Field(i).Name, changed.Interface())
			}
		}
	}
	var many []Condition
	for i := range 13 {
		many = append(many, Condition{Kind: OnVersion, Deployment: fmt.Sprint("d", i)})
	}
	end, drain, snapshot := Condition{Kind: OnExecutionEnd, Resource: "n1"}, Condition{Kind: OnMember, Resource: "n1", Deployment: "drain"}, Condition{Kind: OnMember, Resource: "n1", Deployment: "snapshot"}
	if got := (Verdict{Reason: ReasonQueued, On: []Condition{end, drain, snapshot}}).String(); !strings.HasSuffix(got, "waits for the end of the execution on n1 or drain on n1 and snapshot on n1") {
		t.Errorf("a merge comes once both have ended: %q", got)
	}
	hook := Verdict{Reason: ReasonHookWithoutVersion, On: []Condition{{Kind: OnVersion, Deployment: "drain"}, {Kind: OnGroupClose, Environment: "prod"}}}
	if got := hook.String(); !strings.HasSuffix(got, "waits for a version of drain and the next group in prod") {
		t.Errorf("a version alone does not help, nor does a close without one: %q", got)
	}
	for n, want := range map[int]string{11: "a version of d9 or a version of d10", 12: "a version of d9 or 2 others", 13: "a version of d9 or 3 others"} {
		if got := (Verdict{Reason: ReasonCollecting, On: many[:n]}).String(); !strings.HasSuffix(got, want) {
			t.Errorf("%d events: got %q, want %q at the end", n, got, want)
		}
	}
}

// TestPlanStringIsShort: of what there is a thousand of, ten entries are told and the rest counted.
func TestPlanStringIsShort(t *testing.T) {
	v := &view{latest: &groupView{Group: &Group{ID: "g"}}}
	p := Plan{view: v}
	for i := range int32(1000) {
		v.resources, v.pending = append(v.resources, fmt.Sprint("n", i)), append(v.pending, i)
		v.waits = append(v.waits, waitEntry{i, -1, waitNotDue})
	}
	lines := strings.Split(p.String(), "\n")
	if len(lines) != 11 || !strings.HasPrefix(lines[9], "waits: n9: g") || lines[10] != "waits: and 990 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}
