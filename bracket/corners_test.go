package bracket

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// kinds lists the kinds of conditions.
func kinds(on []Condition) string {
	var list []string
	for _, c := range on {
		list = append(list, string(c.Kind))
	}
	return strings.Join(list, " ")
}

// wait returns what the last plan says of a deployment on n1.
func (h *host) wait(deployment string) Wait {
	h.t.Helper()
	for _, w := range h.plan.Wait {
		if w.Resource == "n1" && w.Deployment == deployment {
			return w
		}
	}
	h.t.Fatalf("%s does not wait: %+v", deployment, h.plan.Wait)
	return Wait{}
}

// What is decided by a condition that hardly ever matters. Each scenario is one that the others
// pass without.
func TestCorners(t *testing.T) {
	tell(t, []scenario{
		{"a run of a cancelled group that was never committed", func(h *host) {
			h.step(60)
			run := h.plan.Start[0].Run
			h.gone = true
			h.step(61)
			h.runs[run] = &RunFact{Run: run, Status: RunRunning, StartedAt: at(60)}
			h.gone = false
			h.step(62)
			h.is(StatusExecuting, "drain=running")
			if g := h.state.Group; g.latest().Status != StatusCancelled || g.Collecting == nil || number(g.Collecting.ID) != 2 {
				h.t.Error(describe(h.state))
			}
		}, "it runs to its end, and the group stays cancelled: what it had locked is new again when the rule comes back"},
		{"a group that has ended when its rule is deleted", func(h *host) {
			end := h.finishAll(60)
			h.gone = true
			if h.step(end + 1); h.state.Group.latest().Status != StatusCompleted || len(h.plan.Events) != 0 {
				h.t.Error(describe(h.state), events(h.plan))
			}
		}, "there is nothing to cancel"},
		{"a group that has failed when its rule is deleted", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.start()
			h.succeeds("uncordon", 62)
			h.gone = true
			if h.step(63); h.state.Group.latest().Status != StatusFailed || len(h.plan.Events) != 0 {
				h.t.Error(describe(h.state), events(h.plan))
			}
			h.gone = false
			h.publish("os", "v3", 100)
			h.step(160)
			if got := events(h.plan); got != "group_opened 2 collecting, group_closed 2 ready" {
				h.t.Error(got)
			}
		}, "it stays failed, and a group that has ended is not superseded"},
		{"a rule that stays deleted", func(h *host) {
			h.due["n1"] = time.Time{}
			h.step(60)
			h.gone = true
			h.step(61)
			if got := events(h.plan); got != "group_cancelled 1 cancelled" {
				h.t.Error(got)
			}
			h.step(62)
			if got := events(h.plan); got != "" {
				h.t.Error(got)
			}
			h.gone = false
			h.step(130)
			if got := events(h.plan); got != "group_opened 2 collecting, group_closed 2 ready" {
				h.t.Error(got)
			}
		}, "its group is cancelled once, and is not superseded afterwards"},
		{"runs of a group that is not open, and what cannot be the first of them", func(h *host) {
			h.step(60)
			first := h.plan.Start[0].Run
			later, stranger := first, first
			later.Generation, stranger.Deployment = 2, "zfs"
			h.runs[later] = &RunFact{Run: later, Status: RunRunning, StartedAt: at(60)}
			h.step(61)
			if !slices.Equal(h.plan.Unknown, []Run{later}) || h.record("n1") != nil {
				h.t.Error(h.plan.Unknown, describe(h.state))
			}
			h.runs = map[Run]*RunFact{first: {Run: first, Status: RunRunning, StartedAt: at(60)}, stranger: {Run: stranger, Status: RunRunning, StartedAt: at(60)}}
			h.step(62)
			if h.is(StatusExecuting, "drain=running"); !slices.Equal(h.plan.Unknown, []Run{stranger}) {
				h.t.Error(h.plan.Unknown)
			}
			if m := h.open("n1").Members[1]; m.Action != ActionRun {
				h.t.Errorf("%+v", m)
			}
		}, "a merge comes after a first run, and the group does not have the other deployment"},
		{"a dependency on a version of a member without a target here", func(h *host) {
			h.members[2].NeedsIf = []ConditionalNeed{{"os", []string{"v2"}}}
			h.members[2].Needs = []string{"drain"}
			h.node("n2")
			delete(h.targets, [2]string{"n1", "os"})
			h.due["n2"] = time.Time{}
			h.until(60, "n1", "drain")
			h.succeeds("drain", 61)
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "it is satisfied, like any other"},
		{"no lock, and a version that is not listed", func(h *host) {
			h.targets[[2]string{"n1", "containerd"}].Current = "v0"
			for _, id := range []string{"v1", "v2"} {
				h.version("containerd", id).EligibleAt = time.Time{}
			}
			h.until(60, "n1", "drain")
			h.is(StatusExecuting, "containerd=skipped")
			if m := h.open("n1").Members[0]; m.Version != "v0" || m.Action != ActionSkip {
				h.t.Errorf("%+v", m)
			}
		}, "it is unchanged: there is nothing to deploy"},
		{"no lock, and the oldest version, outdated", func(h *host) {
			h.targets[[2]string{"n1", "containerd"}].OutdatedAt = at(1)
			for _, id := range []string{"v1", "v2"} {
				h.version("containerd", id).EligibleAt = time.Time{}
			}
			h.until(60, "n1", "drain")
			h.is(StatusExecuting, "containerd=skipped")
		}, "it is unchanged: no version is eligible"},
		{"the oldest version, when its gate has shut for a while", func(h *host) {
			h.versions = slices.DeleteFunc(h.versions[:6], func(v Version) bool { return v.Deployment == "os" && v.ID == "v1" })
			h.step(60)
			h.want("n1/drain@v1")
			h.version("os", "v2").EligibleAt = at(100)
			if h.step(61); !h.plan.Next.Equal(at(100)) {
				h.t.Errorf("next %v", h.plan.Next)
			}
		}, "I11: Next is the instant at which it opens again"},
		{"a backoff that ends now, of who waits for others", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.end("n1", "kubelet", RunFailed, 61).RetryAt = at(165)
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/os@v3")
			h.start()
			h.step(164)
			if w := h.wait("kubelet"); w.Reason != ReasonWaitsForMembers || !w.Until.Equal(at(165)) || kinds(w.On) != "member" {
				h.t.Errorf("%+v", w)
			}
			h.step(165)
			if w := h.wait("kubelet"); w.Reason != ReasonWaitsForMembers || !w.Until.IsZero() || kinds(w.On) != "member" {
				h.t.Errorf("%+v", w)
			}
			if v := h.evaluate("n1", "kubelet", "v2"); v.Reason != ReasonWaitsForMembers || !v.Until.IsZero() {
				h.t.Errorf("%+v", v)
			}
		}, "I11: Until is after now, or there is none"},
		{"a run in progress of which the start is not told", func(h *host) {
			h.step(60)
			h.start()
			for _, f := range h.runs {
				f.StartedAt = time.Time{}
			}
			h.step(61)
			if m := h.open("n1").Members[1]; m.Status != MemberRunning || !m.StartedAt.Equal(at(60)) {
				h.t.Errorf("%+v", m)
			}
		}, "it began when it was committed"},
		{"two commands that end an execution", func(h *host) {
			h.step(60)
			h.start()
			h.order(Resolve, "n1", "", 61)
			h.order(Abandon, "n1", "", 62)
			h.step(63)
			if h.endsAs(StatusCompleted, 61); events(h.plan) != "execution_ended n1 1 completed" || h.plan.Events[0].Quarantine || len(h.plan.Refused) != 0 {
				h.t.Error(h.plan.Events, h.plan.Refused)
			}
		}, "the first one does, and it ends once"},
		{"resolve without an instant", func(h *host) {
			h.step(60)
			h.start()
			h.order(Resolve, "n1", "", 61)
			h.commands[0].At = time.Time{}
			h.step(63)
			h.endsAs(StatusCompleted, 63)
		}, "it is one of now"},
		{"a target that somebody takes to a newer version after its run", func(h *host) {
			h.until(60, "n1", "kubelet")
			h.byHand("os", "v9", 61)
			h.crash("n1", "os") // a host need not list what ended before the state was saved
			h.step(62)
			h.is(StatusExecuting, "os=succeeded kubelet=running")
			if m := h.open("n1").Members[3]; m.Version != "v2" || m.Action != ActionDeploy {
				h.t.Errorf("%+v", m)
			}
		}, "what was done stays on record"},
		{"a halt that ends without an operator", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.fails("kubelet", 61)
			h.want("n1/uncordon@v1")
			if w := h.wait("kubelet"); w.Reason != ReasonFailedHolding || kinds(w.On) != "operator execution_end" {
				h.t.Errorf("%+v", w)
			}
			h.start()
			h.step(62)
			if w := h.wait("kubelet"); w.Reason != ReasonWaitsForMembers || kinds(w.On) != "member" || w.On[0].Deployment != "uncordon" {
				h.t.Errorf("%+v", w)
			}
		}, "the post members end the execution"},
		{"run_post and a member that ran nothing before", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.targets[[2]string{"n1", "os"}].Current = ""
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/uncordon@v1")
		}, "nothing has to return, so nothing holds"},
		{"rollback_member beside a member that ran nothing before", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.targets[[2]string{"n1", "os"}].Current = ""
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.fails("kubelet", 61)
			h.want("n1/kubelet@v1!")
		}, "only the failed one returns"},
		{"rollback_all and hooks that ran nothing before", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
		}, "only mains return, so only theirs count"},
		{"mixed, and a dependant that has nothing to do", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.targets[[2]string{"n1", "kubelet"}].Current = "v2"
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.is(StatusFailed, "kubelet=skipped containerd=cancelled")
		}, "only what waits is cancelled"},
		{"a hook for which no version is", func(h *host) {
			h.node("n2")
			own := h.targets[[2]string{"n1", "uncordon"}]
			own.Current, own.OutOfScope = "", []string{"v1"}
			h.step(60)
			h.want("n2/drain@v1")
			if w := h.wait(""); w.Reason != ReasonHookWithoutVersion || kinds(w.On) != "version group_close" {
				h.t.Errorf("%+v", w)
			}
			h.publish("uncordon", "v2", 61)
			h.step(62)
			if w := h.wait(""); w.Reason != ReasonHookWithoutVersion || kinds(w.On) != "group_close" {
				h.t.Errorf("%+v", w)
			}
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "uncordon" && v.ID == "v1" })
			h.step(63)
			if w := h.wait(""); w.Reason != ReasonHookWithoutVersion || kinds(w.On) != "group_close" {
				h.t.Errorf("%+v", w)
			}
		}, "the locked one is for others, and may be deleted; one that is for it, and came too late, is for the next group"},
		{"a command to one of two executions", func(h *host) {
			h.node("n2")
			h.node("n3")
			h.step(60)
			h.start()
			h.order(Resolve, "n2", "", 61)
			h.step(61)
			if got := events(h.plan); got != "execution_ended n2 1 completed" || len(h.plan.Refused) != 0 {
				h.t.Error(got, h.plan.Refused)
			}
			h.open("n1")
			h.open("n3")
		}, "the others go on"},
		{"a resource that loses its targets, before one that has them", func(h *host) {
			h.node("n2")
			h.step(60)
			h.start()
			for _, m := range h.members {
				delete(h.targets, [2]string{"n1", m.Deployment})
			}
			h.step(61)
			h.is(StatusExecuting, "drain=running os=cancelled kubelet=cancelled uncordon=cancelled")
			if k := h.open("n2").member("os"); h.record("n2").Open.Members[k].Status != MemberWaiting {
				h.t.Error(describe(h.state))
			}
		}, "those of the other are not taken for its own"},
		{"commands to groups that are not open where an earlier one ended", func(h *host) {
			end := h.finishAll(60)
			h.next("os@v3")
			h.due["n1"] = at(end + 1000)
			h.step(160)
			for i, group := range []string{"rule/prod/2", "rule/prod/1", "rule/staging/1"} {
				h.commands = append(h.commands, Command{ID: string(rune('a' + i)), Kind: Resolve, Group: group, Resource: "n1"})
			}
			h.step(161)
			if r := h.plan.Refused; len(r) != 2 || r[0].ID != "a" || r[1].ID != "c" {
				h.t.Errorf("%+v", r)
			}
		}, "the second has not opened, and the last is of no group here; the first has ended, and is done with"},
		{"an execution that a command ends as a newer group is due", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(159)
			h.order(Resolve, "n1", "", 160)
			h.step(160)
			if got := events(h.plan); strings.Contains(got, "merged") {
				h.t.Error(got)
			}
			h.want("n1/drain@v1")
		}, "nothing is merged into what has ended"},
		{"a merge of a group that has nothing for a member that waits", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			for _, id := range []string{"v1", "v2"} {
				h.version("kubelet", id).EligibleAt = time.Time{}
			}
			h.step(160)
			h.merged(true)
			if m := h.open("n1").Members[2]; m.Deployment != "kubelet" || m.Version != "v2" || m.Status != MemberWaiting || m.Action != ActionDeploy {
				h.t.Errorf("%+v", m)
			}
		}, "no lock changes nothing: it gets what it was to get"},
		{"a merge of a group with a main that nothing can run", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.members = append(h.members, Member{Deployment: "cni", Needs: []string{"drain"}})
			h.members[4].Needs = append(h.members[4].Needs, "cni")
			h.target("n1", "cni", "")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "cni=skipped")
		}, "it is skipped, as in an execution of that group alone"},
		{"a merge after the version of the pre was deleted", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "drain" })
			h.publish("drain", "v2", 100)
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "drain=succeeded")
		}, "it is never repeated, so its version does not matter"},
		{"a target that became outdated after the newer group closed", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.targets[[2]string{"n2", "kubelet"}] = &Target{Resource: "n2", Deployment: "kubelet", Current: "v2"}
			h.targets[[2]string{"n2", "kubelet"}].OutdatedAt = at(100) // opens the newer group
			h.step(160)
			h.merged(false)
			h.targets[[2]string{"n1", "kubelet"}].OutdatedAt = at(161)
			h.step(162)
			h.merged(false)
		}, "it is for the group after that"},
		{"a target with versions out of scope for which the lock is", func(h *host) {
			h.publish("kubelet", "v3", 1)
			h.publish("kubelet", "v0", -91*24*60)
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v0"}
			h.due["n1"] = time.Time{}
			h.step(61)
			if h.step(100); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "I15: the version before the lock is not new for it"},
		{"who went back does not wait while the others go on", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.fails("kubelet", 61)
			for m := 62; h.starts() != "n1/uncordon@v1"; m++ {
				if m > 70 {
					h.t.Fatal(describe(h.state))
				}
				h.start()
				for _, f := range h.runs {
					if f.Status == RunRunning {
						h.end("n1", f.Run.Deployment, RunSucceeded, m)
					}
				}
				h.step(m)
			}
			h.start()
			if h.step(71); len(h.plan.Wait) != 0 {
				h.t.Errorf("%+v", h.plan.Wait)
			}
		}, "no operator is needed"},
		{"who went back and holds the node, beside who waits", func(h *host) {
			merging(h)
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.fails("kubelet", 61)
			h.want("n1/kubelet@v1!")
			h.start()
			h.succeeds("kubelet", 62)
			if w := h.wait("uncordon"); len(h.plan.Wait) != 1 || w.Reason != ReasonFailedHolding || kinds(w.On) != "operator" {
				h.t.Errorf("%+v", h.plan.Wait)
			}
		}, "one wait says what is needed, and no newer group is merged after a rollback"},
		{"a halt that the queued group cannot end", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.fails("kubelet", 61)
			h.next("os@v3")
			h.due["n1"] = time.Time{}
			h.step(160)
			h.merged(false)
			if w := h.wait("kubelet"); w.Reason != ReasonFailedHolding || kinds(w.On) != "operator group_close" {
				h.t.Errorf("%+v", w)
			}
		}, "it has no other version of the failed member, whenever it is due"},
	})
}

// Verdicts that the other rows of the table do not tell from their neighbours.
func TestVerdictCorners(t *testing.T) {
	tell(t, []scenario{
		{"skipped by a command, the first of the members", func(h *host) {
			h.until(60, "n1", "kubelet")
			h.order(Skip, "n1", "containerd", 61)
			h.step(61)
			if v := h.evaluate("n1", "containerd", "v2"); v.Reason != ReasonEnded {
				h.t.Errorf("%+v", v)
			}
		}, "row 11: the execution goes on without it"},
		{"an execution that has ended, and a hook that has lost its version", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.start()
			h.succeeds("uncordon", 62)
			h.version("uncordon", "v1").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "uncordon"}].Current = ""
			h.step(63)
			if v := h.evaluate("n1", "os", "v2"); v.Reason != ReasonEnded {
				h.t.Errorf("%+v", v)
			}
		}, "row 11 and not 10: no hook will run again"},
		{"a hook without version, and a candidate that is not locked", func(h *host) {
			h.version("uncordon", "v1").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "uncordon"}].Current = ""
			h.publish("kubelet", "v3", 61)
			h.step(61)
			for candidate, want := range map[string]Reason{"v2": ReasonHookWithoutVersion, "v3": ReasonNextGroup, "v0": ReasonNotLocked} {
				if v := h.evaluate("n1", "kubelet", candidate); v.Reason != want {
					h.t.Errorf("%s: %+v, want %s", candidate, v, want)
				}
			}
		}, "row 10 is about what the group would run"},
		{"a member that joins while an execution is ready", func(h *host) {
			h.due["n1"] = at(100)
			h.step(60)
			h.member("cni", "drain")
			h.members[4].Needs = append(h.members[4].Needs, "cni")
			h.target("n1", "cni", "v1")
			h.publish("cni", "v2", 61)
			h.step(62)
			if v := h.evaluate("n1", "cni", "v2"); v.Reason != ReasonCollecting || !v.Until.Equal(at(121)) {
				h.t.Errorf("%+v", v)
			}
		}, "row 13: its versions are for the next group"},
		{"a former member, the last one", func(h *host) {
			h.member("zfs", "drain")
			h.members[4].Needs = append(h.members[4].Needs, "zfs")
			h.target("n1", "zfs", "v1")
			h.publish("zfs", "v2", 0)
			h.until(60, "n1", "os")
			h.members = h.members[:5]
			h.members[4].Needs = h.members[4].Needs[:2]
			h.publish("zfs", "v3", 61)
			h.publish("os", "v3", 61)
			h.step(62)
			if v := h.evaluate("n1", "zfs", "v3"); v.Reason != ReasonNotLocked {
				h.t.Errorf("%+v", v)
			}
		}, "row 16: no later group will have it"},
		{"a success that the host has not seen on the target", func(h *host) {
			h.until(60, "n1", "os")
			h.succeeds("os", 61)
			h.targets[[2]string{"n1", "os"}].Current = "v1"
			h.step(62)
			if v := h.evaluate("n1", "os", "v2"); v.Reason != ReasonCurrent {
				h.t.Errorf("%+v", v)
			}
		}, "row 6: the run has said so"},
	})
}

// A commit that the state does not fit any more starts nothing, and one that fits says of the group
// that it has begun.
func TestCommitCorners(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	first := h.step(60)
	if v := (Plan{}).Evaluate(h.state, "n1", "kubelet", "v2", at(60)); v.Reason != ReasonNotApplicable {
		t.Errorf("no plan: %+v", v)
	}
	if _, err := first.Commit(State{}, nil, at(60)); !errors.Is(err, ErrStale) {
		t.Errorf("no state: %v", err)
	}
	h.start()
	h.end("n1", "drain", RunFailed, 61).RetryAt = at(61)
	h.step(61)
	h.want("n1/drain@v1")
	if next, err := first.Commit(h.state, []Run{first.Start[0].Run}, at(61)); !errors.Is(err, ErrStale) || dump(t, next) != dump(t, h.state) {
		t.Errorf("the first attempt, where the second is due: %v", err)
	}
	two := newHost(t, "n1", "n2")
	two.publish("os", "v2", 0)
	two.due["n1"] = time.Time{}
	two.step(60)
	two.start("n2/drain")
	two.publish("os", "v3", 61)
	two.end("n2", "drain", RunSucceeded, 62)
	two.due["n1"] = at(121)
	two.step(121)
	two.want("n1/drain@v1 n2/os@v2")
	two.start()
	if latest := two.state.Group.latest(); number(latest.ID) != 2 || latest.Status != StatusExecuting {
		t.Errorf("group 2 has begun on n1, and on n2 group 1 goes on:\n%s", describe(two.state))
	}
}

// A role that is written out is a role; without memberRoles of the rule it means nothing.
func TestCheckCorners(t *testing.T) {
	window := int64(0)
	rule := Rule{DeploymentSelector: "true", ReadinessWindowSeconds: &window}
	members := []Member{{Deployment: "os", Role: Main, Needs: []string{"drain"}}, {Deployment: "drain", Role: Pre}}
	declared := rule
	declared.MemberRoles = &MemberRoles{Pre: "deployment.name == 'drain'"}
	if err := Check(Bracket{ID: "b", Rule: declared, Members: members}); err != nil {
		t.Error(err)
	}
	derived := []Member{{Deployment: "os", Role: Post}, {Deployment: "drain", Role: Pre, Needs: []string{"os"}}}
	if err := Check(Bracket{ID: "b", Rule: rule, Members: derived}); err != nil {
		t.Error(err)
	}
}

// A generation is never negative: a run would have an identity that nobody ever gave.
func TestNegativeGeneration(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	h.until(60, "n1", "kubelet")
	data, err := json.Marshal(h.record("n1"))
	if err != nil {
		t.Fatal(err)
	}
	bad := strings.Replace(string(data), `"attempt":1`, `"attempt":1,"generation":-1`, 1)
	var r ExecutionRecord
	if err := json.Unmarshal([]byte(bad), &r); bad == string(data) || err == nil || !strings.HasPrefix(err.Error(), "open.members[1]: attempt 1 and generation -1") {
		t.Errorf("%s: %v", bad, err)
	}
}
