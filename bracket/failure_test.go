package bracket

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// scenario is a story about the node policy on n1 (group 1: os, kubelet, containerd at v2), told
// step by step.
type scenario struct {
	name string
	tell func(h *host)
	why  string
}

func tell(t *testing.T, scenarios []scenario) {
	t.Helper()
	names := make(map[string]bool)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			if s.why == "" || names[s.name] {
				t.Fatal("a scenario needs a name of its own and a reason")
			}
			names[s.name] = true
			h := newHost(t, "n1")
			for _, d := range []string{"os", "kubelet", "containerd"} {
				h.publish(d, "v2", 0)
			}
			s.tell(h)
		})
	}
}

// fails lets a run end badly and plans.
func (h *host) fails(deployment string, minutes int) {
	h.t.Helper()
	h.end("n1", deployment, RunFailed, minutes)
	h.step(minutes)
}

func (h *host) succeeds(deployment string, minutes int) {
	h.t.Helper()
	h.end("n1", deployment, RunSucceeded, minutes)
	h.step(minutes)
}

// is checks the open execution on n1: its status, and "member=status" for each of the listed
// members.
func (h *host) is(status Status, members string) {
	h.t.Helper()
	x := h.open("n1")
	for want := range strings.FieldsSeq(members) {
		deployment, status, _ := strings.Cut(want, "=")
		if got := h.status("n1", deployment); string(got) != status {
			h.t.Errorf("%s is %s, want %s", deployment, got, status)
		}
	}
	if x.Status != status {
		h.t.Errorf("the execution is %s, want %s", x.Status, status)
	}
}

func (h *host) endsAs(status Status, minutes int) {
	h.t.Helper()
	if got := h.ended("n1"); got != status {
		h.t.Fatalf("ended %q, want %q\n%s", got, status, describe(h.state))
	}
	if e := h.record("n1").Last["prod"]; !e.EndedAt.Equal(at(minutes)) {
		h.t.Errorf("ended at %v, want minute %d", e.EndedAt, minutes)
	}
}

func TestFailure(t *testing.T) {
	tell(t, []scenario{
		{"hold keeps everything", func(h *host) {
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.want("")
			h.is(StatusFailed, "kubelet=failed uncordon=waiting")
			for _, w := range waitsOf(h.plan) {
				if w.Reason != ReasonFailedHolding || w.On[0] != (Condition{Kind: OnOperator, Group: w.Group, Resource: "n1"}) { // all that a Command needs
					h.t.Errorf("%+v", w)
				}
			}
			h.step(10000)
			h.want("")
			h.is(StatusFailed, "kubelet=failed")
		}, "I12: without an operator nothing ever happens"},
		{"runs in progress finish first", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.fails("kubelet", 62)
			h.want("")
			h.is(StatusFailed, "containerd=running")
			if w := waitsOf(h.plan)[0]; w.Reason != ReasonWaitsForMembers || w.On[0].Deployment != "containerd" {
				h.t.Errorf("%+v", waitsOf(h.plan))
			}
			h.succeeds("containerd", 63)
			h.want("n1/containerd@v1! n1/kubelet@v1!")
		}, "nothing is taken away from under a run"},
		{"run_post cancels waiting mains", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/uncordon@v1")
			h.is(StatusFailed, "kubelet=cancelled containerd=cancelled os=failed")
			h.start()
			h.succeeds("uncordon", 62)
			h.endsAs(StatusFailed, 62)
			if g := h.state.Group.Closed[0]; g.Status != StatusFailed {
				h.t.Errorf("the group is %s", g.Status)
			}
		}, "the node is given back as it is"},
		{"run_post after a failed pre", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "drain")
			h.fails("drain", 61)
			h.want("n1/uncordon@v1")
		}, "a half-drained node is uncordoned"},
		{"a failed post holds whatever the strategy", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "uncordon")
			h.fails("uncordon", 63)
			h.want("")
			h.is(StatusFailed, "uncordon=failed os=succeeded kubelet=succeeded containerd=succeeded")
			h.order(Retry, "n1", "", 64)
			h.step(64)
			h.want("n1/uncordon@v1")
		}, "an upgrade that succeeded is not taken back because the node was not uncordoned"},
		{"a failed post holds under rollback_member", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.until(60, "n1", "uncordon")
			h.fails("uncordon", 63)
			h.want("")
			h.is(StatusFailed, "uncordon=failed")
		}, "only mains return"},
		{"a failed rollback of one member holds", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
			h.start()
			h.fails("os", 62)
			h.want("")
			h.is(StatusFailed, "os=failed uncordon=waiting")
			h.order(Retry, "n1", "os", 63)
			h.step(63)
			h.want("n1/os@v1!")
			if run := h.plan.Start[0].Run; run.Attempt != 2 {
				h.t.Errorf("%+v", run)
			}
		}, "it is not rolled back once more by itself"},
		{"rollback_all leaves alone what runs the version that it had", func(h *host) {
			h.rule.OnMemberFailure, h.rule.UnchangedMemberStrategy = RollbackAll, RedeployCurrent
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "os" && v.ID == "v2" })
			h.until(60, "n1", "os")
			h.succeeds("os", 61)
			h.start()
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.want("n1/containerd@v1! n1/kubelet@v1!")
			h.is(StatusFailed, "os=succeeded")
		}, "os ran its current version again: there is nothing to return to"},
		{"rollback_all does not hold for a member that never ran", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.targets[[2]string{"n1", "kubelet"}].Current = ""
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
			h.is(StatusFailed, "kubelet=cancelled")
		}, "it needs no version to return to"},
		{"post members in their order after a failure", func(h *host) {
			posts(h)
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/a@v1")
			h.start()
			h.succeeds("a", 62)
			h.want("n1/b@v1")
			h.start()
			h.succeeds("b", 63)
			h.endsAs(StatusFailed, 63)
		}, "b needs a, whatever has failed before them"},
		{"skip of a run that succeeds at the same time", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Skip, "n1", "os", 61)
			h.succeeds("os", 61)
			h.is(StatusExecuting, "os=skipped")
			if len(h.plan.Refused) > 0 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
		}, "commands are folded before facts"},
		{"a run that ended before it started", func(h *host) {
			h.members = []Member{{Deployment: "os"}}
			h.until(60, "n1", "os")
			h.end("n1", "os", RunSucceeded, 50)
			h.step(61)
			h.endsAs(StatusCompleted, 60)
		}, "by a clock that lags: nothing ends before it began"},
		{"a failed post holds under run_post", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.start()
			h.fails("uncordon", 62)
			h.want("")
			h.is(StatusFailed, "uncordon=failed os=failed")
			h.order(Retry, "n1", "", 63)
			h.step(63)
			h.want("n1/uncordon@v1")
			h.is(StatusFailed, "os=failed")
			h.start()
			h.succeeds("uncordon", 64)
			h.endsAs(StatusFailed, 64)
		}, "a retry repeats the post, never the main whose failure has been dealt with"},
		{"rollback_all returns level by level", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.want("n1/containerd@v1! n1/kubelet@v1!")
			h.start("n1/kubelet")
			h.succeeds("kubelet", 64)
			h.want("n1/containerd@v1!")
			h.start()
			h.succeeds("containerd", 65)
			h.want("n1/os@v1!")
			h.start()
			h.succeeds("os", 66)
			h.want("n1/uncordon@v1")
			h.start()
			h.succeeds("uncordon", 67)
			h.endsAs(StatusFailed, 67)
		}, "reverse dependency order, one level in parallel, then the post phase"},
		{"rollback_all leaves alone what never ran", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
			h.is(StatusFailed, "kubelet=cancelled containerd=cancelled")
		}, "there is nothing to return"},
		{"rollback_all after a failed pre", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "drain")
			h.fails("drain", 61)
			h.want("n1/uncordon@v1")
		}, "no main ran; the post phase runs"},
		{"rollback_all holds without a version to return to", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.targets[[2]string{"n1", "os"}].Current = ""
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.want("")
			h.is(StatusFailed, "os=succeeded kubelet=failed")
			h.order(Retry, "n1", "kubelet", 64)
			h.step(64)
			h.want("n1/kubelet@v2")
		}, "a part of the set cannot be rolled back, so nothing is"},
		{"a failed rollback holds", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.start()
			h.end("n1", "containerd", RunSucceeded, 64)
			h.fails("kubelet", 64)
			h.want("")
			h.is(StatusFailed, "kubelet=failed containerd=rolled_back os=waiting")
			h.order(Retry, "n1", "", 65)
			h.step(65)
			h.want("n1/kubelet@v1!")
			if run := h.plan.Start[0].Run; run.Attempt != 2 || run.Purpose != Rollback {
				h.t.Errorf("%+v", run)
			}
			h.start()
			h.succeeds("kubelet", 66)
			h.want("n1/os@v1!")
		}, "a rollback is never rolled back; a retry repeats it with its purpose"},
		{"a rollback has its own retries", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.start()
			h.end("n1", "kubelet", RunFailed, 64).RetryAt = at(66)
			h.step(64)
			h.want("")
			if !h.plan.Next.Equal(at(66)) {
				h.t.Errorf("next %v", h.plan.Next)
			}
			h.step(66)
			h.want("n1/kubelet@v1!")
		}, "attempts are counted per purpose"},
		{"rollback_member leaves the node held", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
			h.start()
			h.is(StatusFailed, "os=rolling_back kubelet=waiting")
			h.succeeds("os", 62)
			h.want("")
			h.is(StatusFailed, "os=rolled_back kubelet=waiting uncordon=waiting")
			h.order(Skip, "n1", "os", 63)
			h.step(63)
			h.want("n1/containerd@v2 n1/kubelet@v2")
			h.is(StatusExecuting, "os=skipped")
		}, "post never runs on a mixed set unless that is allowed; an operator may accept it"},
		{"rollback_member without posts", func(h *host) {
			merging(h)
			h.rule.OnMemberFailure = RollbackMember
			h.members = []Member{{Deployment: "kubelet"}, {Deployment: "os", Needs: []string{"kubelet"}}}
			h.until(60, "n1", "kubelet")
			h.succeeds("kubelet", 61)
			h.start()
			h.fails("os", 62)
			h.start()
			h.next("os@v3")
			h.succeeds("os", 160)
			h.is(StatusFailed, "kubelet=succeeded os=rolled_back")
			want := []waiting{
				{Group: "rule/prod/1", Resource: "n1", Deployment: "os", Reason: ReasonFailedHolding, On: []Condition{{Kind: OnOperator, Group: "rule/prod/1", Resource: "n1"}}},
				{Group: "rule/prod/2", Resource: "n1", Reason: ReasonQueued, On: []Condition{{Kind: OnExecutionEnd, Rule: "rule", Resource: "n1"}}},
			}
			if !reflect.DeepEqual(waitsOf(h.plan), want) || !h.plan.Next.IsZero() {
				h.t.Fatalf("next %v, %+v, want %+v", h.plan.Next, waitsOf(h.plan), want)
			}
			h.order(Skip, "n1", "os", 163)
			h.step(163)
			h.endsAs(StatusCompleted, 160)
			h.want("n1/os@v3")
		}, "no member waits, and still it is said who holds the resource: no group is merged into what went back"},
		{"rollback_member holds without a version", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.targets[[2]string{"n1", "os"}].Current = ""
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("")
			h.is(StatusFailed, "os=failed")
		}, "there is nothing to return to"},
		{"rollback_member holds after a failed pre", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "drain")
			h.fails("drain", 61)
			h.want("")
			h.is(StatusFailed, "drain=failed")
		}, "a drain has no version to return to"},
		{"mixed: the others go on, then post", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.until(60, "n1", "kubelet")
			h.fails("kubelet", 62)
			h.want("") // containerd still runs
			h.succeeds("containerd", 63)
			h.want("n1/kubelet@v1!")
			h.start()
			h.succeeds("kubelet", 64)
			h.want("n1/uncordon@v1")
			h.start()
			h.succeeds("uncordon", 65)
			h.endsAs(StatusFailed, 65)
		}, "rolled back counts as satisfied for the post phase"},
		{"rollback_all leaves hooks alone", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.publish("drain", "v2", 0)
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
			h.is(StatusFailed, "drain=succeeded")
		}, "the node is drained, by whatever version"},
		{"mixed: dependants of dependants are cancelled", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			roles(h)
			h.members[3].Needs = []string{"kubelet"} // containerd, which needs os only through kubelet
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.is(StatusFailed, "kubelet=cancelled containerd=cancelled")
			h.want("n1/os@v1!")
			h.start()
			h.succeeds("os", 62)
			h.want("n1/uncordon@v1")
		}, "a cancelled need counts as satisfied, but not for what the failure was to stop"},
		{"mixed: dependants are cancelled", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/os@v1!")
			h.is(StatusFailed, "kubelet=cancelled containerd=cancelled")
		}, "what needs the failed main cannot run"},
		{"mixed: independent mains go on beside the rollback", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.member("agent", "drain")
			h.members[4].Needs = append(h.members[4].Needs, "agent")
			h.publish("agent", "v2", 0)
			h.target("n1", "agent", "v1")
			h.step(60)
			h.start()
			h.succeeds("drain", 61)
			h.start("n1/os")
			h.fails("os", 62)
			h.want("n1/agent@v2 n1/os@v1!")
			h.start("n1/agent")
			h.fails("agent", 63)
			h.want("n1/agent@v1! n1/os@v1!")
		}, "and a second failure is rolled back as well"},
		{"rollback_all takes back what waits for its retry, at once", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunFailed, 62).RetryAt = at(600)
			h.step(62)
			h.fails("kubelet", 63)
			h.want("n1/containerd@v1! n1/kubelet@v1!")
		}, "its run may have left anything behind, and the backoff was that of the upgrade"},
		{"what does not wait has no instant of its next attempt", func(h *host) {
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunFailed, 61).RetryAt = at(70)
			h.step(70)
			h.start() // each step checks it
			h.step(71)
			h.succeeds("drain", 72)
			h.start()
			h.end("n1", "os", RunFailed, 73).RetryAt = at(600)
			h.step(73)
			h.order(Skip, "n1", "os", 74)
			h.step(74)
			h.is(StatusExecuting, "os=skipped")
			h.start()
			h.end("n1", "kubelet", RunFailed, 75).RetryAt = at(600)
			h.step(75)
			delete(h.targets, [2]string{"n1", "kubelet"})
			h.step(76)
			h.is(StatusExecuting, "kubelet=cancelled")
		}, "started, skipped and without its target: a record says nothing of a past that is no plan any more"},
		{"a post that is not idempotent fails at once", func(h *host) {
			h.rule.HooksIdempotent = ptr(false)
			h.until(60, "n1", "uncordon")
			h.end("n1", "uncordon", RunFailed, 61).RetryAt = at(62)
			h.step(62)
			h.want("")
			h.is(StatusFailed, "uncordon=failed")
		}, "the setting concerns both hooks, and runs that failed as well as those that were lost"},
		{"a main failed, and a post was observed that nobody had committed", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			run := Run{Group: h.open("n1").Group, Resource: "n1", Deployment: "uncordon", Generation: 1, Attempt: 1, Purpose: Deploy}
			h.runs[run] = &RunFact{Run: run, Status: RunSucceeded, StartedAt: at(62), EndedAt: at(63)}
			h.step(64)
			h.is(StatusFailed, "kubelet=failed uncordon=succeeded")
			if w := waitsOf(h.plan); len(w) != 1 || len(w[0].On) != 1 || w[0].On[0].Kind != OnOperator {
				h.t.Errorf("%+v", w)
			}
		}, "nothing is merged after a post, so no newer group ends this halt"},
		{"a run that began before it was committed", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			h.start()
			for _, f := range h.runs {
				f.StartedAt = at(59)
			}
			if plan := h.step(61); !plan.Next.Equal(at(69)) || !h.open("n1").Members[1].StartedAt.Equal(at(59)) {
				h.t.Errorf("next %v, %+v", plan.Next, h.open("n1").Members[1])
			}
		}, "its start is what is observed of it"},
		{"a halt of a pre that failed", func(h *host) {
			merging(h)
			h.until(60, "n1", "drain")
			h.fails("drain", 61)
			if w := waitsOf(h.plan)[0]; w.Reason != ReasonFailedHolding || len(w.On) != 1 || w.On[0].Kind != OnOperator {
				h.t.Errorf("%+v", w)
			}
		}, "a merge gives failed mains another version, and never hooks: no newer group ends this halt"},
		{"a halt after the last merge", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.succeeds("os", 161)
			h.start()
			h.fails("os", 162)
			if w := waitsOf(h.plan)[0]; w.Reason != ReasonFailedHolding || len(w.On) != 1 || w.On[0].Kind != OnOperator {
				h.t.Errorf("%+v", w)
			}
		}, "maxMerges is used up: no newer group ends this halt"},
		{"a rule that is deleted is not checked", func(h *host) {
			h.finishAll(60)
			h.node("n2") // which joins the group that has completed
			h.gone = true
			h.rule = Rule{}
			h.members = append(h.members, Member{Deployment: "cni", Needs: []string{"nobody"}})
			h.step(100)
			h.want("")
			if v := h.evaluate("n2", "cni", "v2"); v.Reason != ReasonNotApplicable {
				h.t.Errorf("%+v", v)
			}
		}, "nobody can mend what is gone: its fields and members are not looked at, and nothing of it begins any more, not even where a resource joins"},
		{"a hook that is not idempotent fails at once", func(h *host) {
			h.rule.HooksIdempotent = ptr(false)
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunLost, 61).RetryAt = at(62)
			h.step(62)
			h.want("")
			h.is(StatusFailed, "drain=failed")
			h.order(Retry, "n1", "drain", 63)
			h.step(63)
			h.want("n1/drain@v1")
		}, "nobody knows what the lost run did; an operator may still repeat it"},
		{"an idempotent hook is repeated", func(h *host) {
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunLost, 61).RetryAt = at(62)
			h.step(62)
			h.want("n1/drain@v1")
		}, "the default"},
		{"a main is repeated whatever hooks are", func(h *host) {
			h.rule.HooksIdempotent = ptr(false)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(61)
			h.step(61)
			h.want("n1/os@v2")
			if run := h.plan.Start[0].Run; run.Attempt != 2 {
				h.t.Errorf("%+v", run)
			}
		}, "the setting concerns hooks"},
		{"lost without a retry", func(h *host) {
			h.until(60, "n1", "os")
			h.end("n1", "os", RunLost, 61)
			h.step(61)
			h.is(StatusFailed, "os=failed")
		}, "lost counts as failed"},
		{"retry comes before the reaction", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61)
			h.order(Retry, "n1", "os", 61)
			h.step(61)
			h.want("n1/os@v2")
			h.is(StatusExecuting, "kubelet=waiting")
		}, "the operator's word counts although the failure is in the same observation"},
		{"retry of the first member comes before the reaction", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "containerd")
			if first := h.open("n1").Members[0].Deployment; first != "containerd" {
				h.t.Fatalf("the first member is %s", first)
			}
			h.end("n1", "containerd", RunFailed, 61)
			h.order(Retry, "n1", "containerd", 61)
			h.step(61)
			h.want("n1/containerd@v2")
			if len(h.plan.Refused) > 0 {
				h.t.Errorf("refused although the failure is known: %+v", h.plan.Refused)
			}
		}, "no place among the members is special"},
		{"retry is applied once", func(h *host) {
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.order(Retry, "n1", "os", 62)
			h.step(62)
			h.start()
			h.fails("os", 63)
			h.want("")
			if h.is(StatusFailed, "os=failed"); len(h.plan.Refused) > 0 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
		}, "a command that the host repeats has no second effect"},
		{"retry of one of two that have failed", func(h *host) {
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunFailed, 63)
			h.fails("kubelet", 63)
			h.order(Retry, "n1", "kubelet", 64)
			h.step(64)
			h.want("")
			h.is(StatusFailed, "kubelet=waiting containerd=failed")
			h.order(Skip, "n1", "containerd", 65)
			h.step(65)
			h.want("n1/kubelet@v2")
			if h.is(StatusExecuting, "containerd=skipped"); h.plan.Start[0].Run.Attempt != 2 {
				h.t.Errorf("%+v", h.plan.Start[0].Run)
			}
		}, "no forward run starts while a member has failed; the retry is not lost"},
		{"retry of what has not failed is refused, for good", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Retry, "n1", "os", 61)
			if h.step(61); len(h.plan.Refused) != 1 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
			h.fails("os", 62)
			h.want("")
		}, "a command given too early must not strike later"},
		{"skip", func(h *host) {
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.order(Skip, "n1", "", 62)
			h.step(62)
			h.want("n1/containerd@v2 n1/kubelet@v2")
			h.is(StatusExecuting, "os=skipped")
			h.finishAll(62)
			if h.ended("n1") != StatusCompleted {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "the operator took care of it"},
		{"end without an instant", func(h *host) {
			h.until(60, "n1", "uncordon")
			h.end("n1", "uncordon", RunSucceeded, 90).EndedAt = time.Time{}
			h.step(91)
			h.endsAs(StatusCompleted, 91)
		}, "it is the instant at which the end was seen: the lease was held until then"},
		{"skip of a run in progress", func(h *host) {
			h.until(60, "n1", "drain")
			h.order(Skip, "n1", "drain", 61)
			h.step(61)
			h.want("n1/os@v2")
		}, "a drain that hangs although the node is empty"},
		{"skip of the last run, in progress", func(h *host) {
			h.until(60, "n1", "uncordon")
			h.order(Skip, "n1", "uncordon", 90)
			h.step(91)
			h.endsAs(StatusCompleted, 90)
		}, "the lease was held until then: the execution did not end with the runs before"},
		{"skip of a run in progress, by a clock that lags", func(h *host) {
			h.until(60, "n1", "uncordon")
			h.order(Skip, "n1", "uncordon", 10)
			h.step(91)
			if e := h.record("n1").Last["prod"]; e.EndedAt.Before(at(60)) {
				h.t.Errorf("ended at %v", e.EndedAt)
			}
		}, "no run ends before it began"},
		{"skip of a success is refused", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Skip, "n1", "drain", 61)
			if h.step(61); len(h.plan.Refused) != 1 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
			h.is(StatusExecuting, "drain=succeeded")
		}, "it is done"},
		{"retry of a skip is refused", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Skip, "n1", "kubelet", 61)
			h.step(61)
			h.order(Retry, "n1", "kubelet", 62)
			if h.step(62); len(h.plan.Refused) != 1 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
			h.is(StatusExecuting, "kubelet=skipped")
		}, "there is no failed run to repeat"},
		{"an edit of the rule between the close and the start", func(h *host) {
			h.step(60)
			h.rule.OnMemberFailure = RunPost
			h.until(61, "n1", "os")
			h.fails("os", 62)
			h.want("")
			h.is(StatusFailed, "os=failed kubelet=waiting uncordon=waiting")
		}, "the group has a copy of the rule that was in force at its close"},
		{"an edit of the rule while a run is in progress", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.until(60, "n1", "os")
			h.rule.StuckAfterSeconds = 60
			if h.step(65); len(h.plan.Stuck) != 0 {
				h.t.Errorf("%+v", h.plan.Stuck)
			}
			if h.step(70); len(h.plan.Stuck) != 1 {
				h.t.Errorf("%+v", h.plan.Stuck)
			}
		}, "it is stuck when the group's copy of the rule says so"},
		{"a post that an operator skips after a failure", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.want("n1/uncordon@v1")
			h.order(Skip, "n1", "uncordon", 65)
			h.step(65)
			h.endsAs(StatusFailed, 61)
		}, "a skipped post is satisfied: nothing is left that could end the execution"},
		{"a post whose target goes after a failure", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61)
			delete(h.targets, [2]string{"n1", "uncordon"})
			h.step(65)
			h.endsAs(StatusFailed, 61)
		}, "it is cancelled, and so is the wait for it"},
		{"resolve", func(h *host) {
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.order(Resolve, "n1", "", 70)
			h.step(75)
			h.endsAs(StatusCompleted, 70)
			if e := h.plan.Events[0]; e.Kind != ExecutionEnded || e.Quarantine {
				h.t.Errorf("%+v", h.plan.Events)
			}
			if h.step(76); len(h.plan.Refused) > 0 {
				h.t.Errorf("a command that did its work is refused: %+v", h.plan.Refused)
			}
		}, "the operator finished by hand"},
		{"resolve in the step in which the resource is deleted", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Resolve, "n1", "", 70)
			h.deleted = []string{"n1"}
			h.step(75)
			h.endsAs(StatusCompleted, 70)
		}, "an execution ends once, and as the operator said"},
		{"resolve by a clock that runs ahead", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Resolve, "n1", "", 90)
			h.step(75)
			h.endsAs(StatusCompleted, 75)
		}, "nothing ends later than now"},
		{"resolve by a clock that lags", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Resolve, "n1", "", 10)
			h.step(75)
			h.endsAs(StatusCompleted, 60)
		}, "nothing ends before it began"},
		{"abandon", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Abandon, "n1", "", 70)
			h.step(75)
			h.endsAs(StatusCancelled, 70)
			if e := h.plan.Events[0]; e.Kind != ExecutionEnded || !e.Quarantine {
				h.t.Errorf("%+v", h.plan.Events)
			}
		}, "I10: the lease is quarantined, not released"},
		{"who decided what", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.order(Retry, "n1", "os", 62)
			h.order(Skip, "n1", "drain", 62)
			h.order(Skip, "n1", "kubelet", 90)
			for i, who := range []string{"ada", "bob", "cyd"} {
				h.commands[i].By, h.commands[i].Reason = who, "ticket "+who
			}
			decided := func(list []Command) string {
				var texts []string
				for _, c := range list {
					texts = append(texts, fmt.Sprintf("%s %s %s for %s at %d", c.By, c.Kind, c.Deployment, c.Reason, int(c.At.Sub(at(0))/time.Minute)))
				}
				return strings.Join(texts, ", ")
			}
			const first = "ada retry os for ticket ada at 62, cyd skip kubelet for ticket cyd at 75"
			before := h.step(75)
			if got := decided(h.open("n1").Decisions); got != first || len(before.Refused) != 1 {
				h.t.Errorf("%s, refused %v", got, before.Refused)
			}
			h.start()
			h.publish("containerd", "v3", 76)
			h.step(140)
			if x := h.open("n1"); len(x.Merged) != 1 || decided(x.Decisions) != first {
				h.t.Errorf("after a merge: %+v", x)
			}
			h.order(Abandon, "n1", "", 141)
			h.commands[3].By, h.commands[3].At = "dan", time.Time{}
			h.step(142)
			if got := decided(h.record("n1").Last["prod"].Decisions); got != first+", dan abandon  for  at 142" {
				h.t.Error(got)
			}
		}, "bob was refused: what was not applied decided nothing, and the end forgets nobody"},
		{"a command after the next group", func(h *host) {
			h.until(60, "n1", "os")
			h.order(Resolve, "n1", "", 61)
			h.step(61)
			h.publish("os", "v3", 100)
			h.finishAll(160)
			h.step(400)
			if e := h.record("n1").Last["prod"]; e.Group != "rule/prod/2" || len(h.plan.Refused) > 0 {
				h.t.Errorf("a command that did its work is refused after %+v: %+v", e, h.plan.Refused)
			}
		}, "a host that never forgets a command is not told that it failed"},
		{"commands for nothing", func(h *host) {
			h.commands = []Command{{ID: "x", Kind: Abandon, Group: "g", Resource: "nowhere", At: at(1)}}
			if h.step(60); len(h.plan.Refused) != 1 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
			h.start()
			h.commands[0].Resource = "n1"
			if h.step(61); len(h.plan.Refused) != 1 {
				h.t.Errorf("%+v", h.plan.Refused)
			}
			h.is(StatusExecuting, "drain=running")
		}, "a command names its execution exactly"},
		{"stuck", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			h.start()
			if plan := h.step(61); len(plan.Stuck) > 0 || !plan.Next.Equal(at(70)) {
				h.t.Errorf("%+v, next %v", plan.Stuck, plan.Next)
			}
			h.stepAt(at(70).Add(-1))
			if len(h.plan.Stuck) > 0 {
				h.t.Errorf("%+v", h.plan.Stuck)
			}
			plan := h.step(70)
			if len(plan.Stuck) != 1 || plan.Stuck[0].Run.Deployment != "drain" || plan.Stuck[0].Reason != ReasonStuck || !plan.Stuck[0].Since.Equal(at(70)) || !plan.Stuck[0].StartedAt.Equal(at(60)) {
				h.t.Errorf("%+v", plan.Stuck)
			}
			h.is(StatusExecuting, "drain=running")
		}, "the plan lists it; status and lease do not change"},
		{"the caller sleeps after a start", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			drain := h.plan.Start[0].Run
			strange := drain
			strange.Attempt = 7
			if none := h.plan.NextAfter(h.state, nil); !none.IsZero() || !h.plan.NextAfter(h.state, []Run{strange}).Equal(none) || !h.plan.NextAfter(h.state, []Run{drain}).Equal(at(70)) {
				h.t.Errorf("after none %v, after one that is not offered %v, after the drain %v", none, h.plan.NextAfter(h.state, []Run{strange}), h.plan.NextAfter(h.state, []Run{drain}))
			}
			h.until(61, "n1", "drain")
			h.end("n1", "drain", RunSucceeded, 61)
			h.rule.StuckAfterSeconds = 60 // an execution goes by the rule that it began with
			h.step(62)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); len(h.plan.Start) == 0 || !after.Equal(at(72)) {
				h.t.Errorf("after %v: %v", h.plan.Start, after)
			}
			if after := (Plan{Next: at(1), Start: h.plan.Start}).NextAfter(h.state, []Run{h.plan.Start[0].Run}); !after.Equal(at(1)) {
				h.t.Errorf("a plan of nobody says %v", after)
			}
		}, "what hangs is stuck some day, and no later step says so before: the plan that offers the run does"},
		{"the caller sleeps after a start of what is never stuck", func(h *host) {
			h.step(60)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); !after.IsZero() || !h.plan.Next.IsZero() {
				h.t.Errorf("next %v, after %v: %v", h.plan.Next, h.plan.Start, after)
			}
		}, "without stuckAfterSeconds nothing happens by itself"},
		{"the caller sleeps after a start, and more is due soon", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.node("n2")
			h.due["n2"] = at(65)
			h.step(60)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); len(h.plan.Start) != 1 || !after.Equal(at(65)) {
				h.t.Errorf("after %v: %v", h.plan.Start, after)
			}
		}, "the turn of another resource comes before the job could be stuck"},
		{"the caller sleeps after a first start under an edited rule", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			h.rule.StuckAfterSeconds = 60
			h.step(61)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); !h.plan.Start[0].First || !after.Equal(at(71)) {
				h.t.Errorf("after %v: %v", h.plan.Start, after)
			}
		}, "an execution begins with the rule that its group closed with"},
		{"the caller sleeps after a start, and the next group has closed", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			h.start()
			h.rule.StuckAfterSeconds = 60
			h.publish("os", "later", 62)
			h.step(62)
			h.step(122)
			h.end("n1", "drain", RunSucceeded, 123)
			h.step(123)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); h.plan.Start[0].Run.Deployment != "os" || len(h.state.Group.Closed) != 2 || !after.Equal(at(133)) {
				h.t.Errorf("after %v: %v", h.plan.Start, after)
			}
		}, "an execution goes by the rule that it began with, and not by that of a later group"},
		{"the caller sleeps after a start, and more is due later", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.node("n2")
			h.due["n2"] = at(75)
			h.step(60)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); len(h.plan.Start) != 1 || !h.plan.Next.Equal(at(75)) || !after.Equal(at(70)) {
				h.t.Errorf("after %v: %v", h.plan.Start, after)
			}
		}, "the job could be stuck before it is the turn of another resource"},
		{"the caller sleeps after a first start where an execution has ended", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.until(60, "n1", "uncordon")
			h.succeeds("uncordon", 64)
			h.publish("os", "later", 65)
			h.step(65)
			h.step(125)
			if after := h.plan.NextAfter(h.state, []Run{h.plan.Start[0].Run}); !h.plan.Start[0].First || h.record("n1").Open != nil || !after.Equal(at(135)) {
				h.t.Errorf("after %v: %v", h.plan.Start, after)
			}
		}, "its record names no rule: the new execution goes by that of its group"},
		{"the caller sleeps after a start, and has lost the groups", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			h.until(61, "n1", "drain")
			h.end("n1", "drain", RunSucceeded, 61)
			h.state.Group = NewState("rule", "prod").Group
			h.rule.ReadinessWindowSeconds = windowRule(86400).ReadinessWindowSeconds // no group closes meanwhile
			h.step(62)
			os := h.plan.Start[0].Run
			if after := h.plan.NextAfter(h.state, []Run{os}); !after.Equal(at(72)) {
				h.t.Errorf("after %v: %v", os, after)
			}
			if after := h.plan.NextAfter(State{}, []Run{os}); !after.Equal(at(72)) {
				h.t.Errorf("in a state that is not the plan's, after %v: %v", os, after)
			}
		}, "an execution says by itself what it goes by; a state without it is a mistake, and no reason to fail"},
		{"the caller sleeps after a dispatch that came late", func(h *host) {
			h.rule.StuckAfterSeconds = 600
			h.step(60)
			h.start()
			h.runs = nil // the caller stopped before it dispatched
			plan := h.step(75)
			drain := plan.Redispatch[0].Run
			if len(plan.Stuck) != 1 || !plan.Next.IsZero() || !plan.NextAfter(h.state, nil).IsZero() || !plan.NextAfter(h.state, []Run{drain}).Equal(at(85)) {
				h.t.Errorf("%+v, next %v, after the drain %v", plan.Stuck, plan.Next, plan.NextAfter(h.state, []Run{drain}))
			}
			h.runs = map[Run]*RunFact{drain: {Run: drain, Status: RunRunning, StartedAt: at(75)}}
			if plan := h.step(76); len(plan.Stuck) > 0 || !plan.Next.Equal(at(85)) {
				h.t.Errorf("once it is seen %+v, next %v", plan.Stuck, plan.Next)
			}
		}, "it may hang as well, and counts from its dispatch"},
		{"a target that vanishes", func(h *host) {
			h.until(60, "n1", "os")
			delete(h.targets, [2]string{"n1", "kubelet"})
			h.step(61)
			h.is(StatusExecuting, "kubelet=cancelled")
			delete(h.targets, [2]string{"n1", "os"})
			h.step(62)
			h.is(StatusExecuting, "os=running")
			for _, f := range h.runs {
				if f.Run.Deployment == "os" {
					f.Status, f.EndedAt = RunFailed, at(63)
					f.RetryAt = at(63)
				}
			}
			h.step(63)
			h.want("n1/containerd@v2")
			h.is(StatusExecuting, "os=cancelled")
		}, "waiting is cancelled, running finishes first, and removed members count as satisfied"},
		{"a pre that vanishes", func(h *host) {
			h.member("snapshot")
			h.target("n1", "snapshot", "v1")
			h.rule.MemberRoles = &MemberRoles{Pre: "x", Post: "y"}
			for i := range h.members {
				switch h.members[i].Deployment {
				case "drain", "snapshot":
					h.members[i].Role = Pre
				case "uncordon":
					h.members[i].Role = Post
				}
			}
			h.step(60)
			h.want("n1/drain@v1 n1/snapshot@v1")
			h.start("n1/snapshot")
			delete(h.targets, [2]string{"n1", "drain"})
			h.step(61)
			h.is(StatusFailed, "drain=failed")
		}, "no upgrade without its drain"},
		{"a rolled back target that vanishes", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.want("n1/kubelet@v1!")
			delete(h.targets, [2]string{"n1", "kubelet"})
			h.step(64)
			h.want("n1/uncordon@v1")
		}, "there is nothing left to return, and nothing mixed"},
		{"a failed target that vanishes while it runs", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			delete(h.targets, [2]string{"n1", "kubelet"})
			h.fails("kubelet", 63)
			h.is(StatusExecuting, "kubelet=cancelled")
			h.want("n1/uncordon@v1")
		}, "the step that sees it fail sees as well that there is nothing to return: no rollback is offered that the next step would take back"},
		{"a target that vanishes before all return", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			delete(h.targets, [2]string{"n1", "containerd"})
			h.fails("kubelet", 63)
			h.is(StatusFailed, "kubelet=waiting os=waiting containerd=cancelled")
			h.want("n1/kubelet@v1!")
		}, "who returns after it does not wait for it"},
		{"a target that somebody takes to a newer version", func(h *host) {
			h.until(60, "n1", "os")
			h.byHand("kubelet", "v9", 61)
			h.byHand("uncordon", "v9", 61)
			h.step(61)
			h.is(StatusExecuting, "os=running kubelet=skipped")
			h.end("n1", "os", RunSucceeded, 63)
			h.step(63)
			h.want("n1/containerd@v2")
			h.start("n1/containerd")
			h.end("n1", "containerd", RunSucceeded, 66)
			h.step(66)
			h.want("n1/uncordon@v9")
		}, "a main that waits has nothing to do any more, a hook runs what it has, and nobody goes back"},
		{"a target that somebody takes to a newer version, which alone is listed", func(h *host) {
			h.until(60, "n1", "os")
			h.byHand("kubelet", "v9", 61)
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "kubelet" && v.ID != "v9" })
			h.step(61)
			h.is(StatusExecuting, "os=running kubelet=skipped")
		}, "the group knows how old the version is that it has locked"},
		{"a target that somebody takes to a newer version before its run was dispatched", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.crash("n1", "kubelet")
			h.step(61)
			if r := h.plan.Redispatch; len(r) != 1 || r[0].Run.Deployment != "kubelet" || r[0].Version != "v2" {
				h.t.Errorf("%+v", r)
			}
			h.byHand("kubelet", "v9", 61)
			h.step(62)
			h.is(StatusExecuting, "kubelet=skipped containerd=running")
			if len(h.plan.Redispatch) != 0 {
				h.t.Errorf("%+v", h.plan.Redispatch)
			}
			h.fails("containerd", 63)
			h.is(StatusFailed, "os=waiting containerd=waiting kubelet=skipped")
			h.want("n1/containerd@v1!")
		}, "the run would take it back, and a rollback too: the execution has never touched it"},
		{"a target that somebody takes to a newer version before its second run was dispatched", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "kubelet")
			h.end("n1", "kubelet", RunFailed, 61).RetryAt = at(61)
			h.step(61)
			h.start("n1/kubelet")
			h.crash("n1", "kubelet")
			h.byHand("kubelet", "v9", 61)
			h.step(62)
			h.is(StatusExecuting, "kubelet=skipped containerd=running")
			h.fails("containerd", 63)
			h.is(StatusFailed, "kubelet=waiting")
		}, "its first run did touch it, so it returns with all"},
		{"a hook's target that somebody takes to a newer version before its run was dispatched", func(h *host) {
			h.until(60, "n1", "uncordon")
			h.crash("n1", "uncordon")
			h.byHand("uncordon", "v9", 61)
			h.step(62)
			if r := h.plan.Redispatch; len(r) != 1 || r[0].Run.Attempt != 1 || r[0].Version != "v9" {
				h.t.Errorf("%+v", r)
			}
		}, "it is the same run, with what the target has"},
		{"a target that somebody takes to a newer version while its run is in progress", func(h *host) {
			h.until(60, "n1", "kubelet")
			h.byHand("kubelet", "v9", 61)
			h.step(62)
			h.is(StatusExecuting, "kubelet=running containerd=running")
		}, "its outcome is waited for"},
		{"a target that goes back and was taken to a newer version before that was dispatched", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.start("n1/kubelet")
			h.crash("n1", "kubelet")
			h.byHand("kubelet", "v9", 61)
			h.step(64)
			if r := h.plan.Redispatch; len(r) != 1 || r[0].Run.Purpose != Rollback || r[0].Version != "v1" {
				h.t.Errorf("%+v", r)
			}
		}, "what OnMemberFailure asks for is another way"},
		{"a target that somebody takes past a version that is deleted", func(h *host) {
			h.until(60, "n1", "os")
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.ID == "v2" && v.Deployment != "os" })
			h.byHand("kubelet", "v9", 61)
			h.byHand("containerd", "v1b", -1)
			h.succeeds("os", 63)
			h.want("n1/containerd@v2")
			h.is(StatusExecuting, "kubelet=skipped")
		}, "what the group has locked says which of them is newer, listed or not"},
		{"a target that somebody takes to the version that it waits for", func(h *host) {
			h.until(60, "n1", "os")
			h.targets[[2]string{"n1", "kubelet"}].Current = "v2"
			h.end("n1", "os", RunSucceeded, 63)
			h.step(63)
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "it runs as it was frozen: that is no way back, and nobody says that the node was restarted"},
		{"a target that goes back and was taken to a newer version", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.byHand("kubelet", "v9", 61)
			h.step(64)
			h.want("n1/kubelet@v1!")
		}, "what OnMemberFailure asks for is another way"},
		{"a resource that is gone", func(h *host) {
			h.until(60, "n1", "os")
			h.deleted = []string{"n1"}
			h.step(61)
			h.endsAs(StatusCancelled, 61)
			if e := h.plan.Events[0]; e.Quarantine {
				h.t.Errorf("%+v", e)
			}
		}, "its lease is released: the proof is what quarantine waits for"},
		{"a resource that is gone, and targets of it that are still listed", func(h *host) {
			h.node("n0")
			h.node("n2")
			h.publish("os", "v3", 0)
			h.targets[[2]string{"n2", "os"}].OutOfScope = []string{"v3"}
			h.targets[[2]string{"n1", "os"}].OutdatedAt = at(70)
			h.deleted = []string{"n1", "n9"}
			h.step(60)
			h.want("n0/drain@v1 n2/drain@v1")
			h.finishAll(60)
			for r := range h.runs {
				if r.Resource == "n1" {
					h.t.Errorf("%s: the node does not exist any more", r)
				}
			}
			for node, want := range map[string]string{"n0": "v3", "n1": "v1", "n2": "v2"} {
				if got := h.targets[[2]string{node, "os"}].Current; got != want {
					h.t.Errorf("%s has %s, want %s", node, got, want)
				}
			}
			if h.step(140); h.state.Group.Collecting != nil || h.state.Group.latest().Status != StatusCompleted {
				h.t.Error(describe(h.state))
			}
		}, "a run there could only fail, and the group is for the others"},
		{"a resource without targets is not gone", func(h *host) {
			h.until(60, "n1", "os")
			h.targets = map[[2]string]*Target{}
			h.step(61)
			h.is(StatusExecuting, "os=running kubelet=cancelled uncordon=cancelled")
		}, "a vanished observation is no proof"},
		{"everything vanishes", func(h *host) {
			h.until(60, "n1", "os")
			h.targets = map[[2]string]*Target{}
			h.step(61)
			for _, f := range h.runs {
				f.Status, f.EndedAt = RunSucceeded, at(65)
			}
			h.step(66)
			h.endsAs(StatusCompleted, 65)
		}, "the run in progress was the last"},
		{"the rule is deleted", func(h *host) {
			h.node("n2")
			h.step(60)
			h.start("n1/drain")
			h.publish("os", "v3", 61)
			h.step(62)
			h.gone = true
			h.step(63)
			h.want("")
			if got := events(h.plan); got != "group_cancelled 2 cancelled, group_cancelled 1 cancelled" {
				h.t.Error(got)
			}
			h.succeeds("drain", 64)
			h.want("n1/os@v2")
			h.finishAll(64)
			if h.ended("n1") != StatusCompleted || h.record("n2") != nil || h.state.Group.Collecting != nil {
				h.t.Errorf("%s", describe(h.state))
			}
			h.gone = false
			h.step(100)
			if h.starts() != "" {
				h.t.Errorf("a cancelled group starts %s", h.starts())
			}
			h.step(120)
			if g := h.state.Group.Closed[0]; h.starts() != "n1/drain@v1 n2/drain@v1" || g.ID != "rule/prod/3" {
				h.t.Errorf("group %s starts %q", g.ID, h.starts())
			}
		}, "what has not started is cancelled; open executions run to their end with the group's copy of the rule; once it is back the versions are collected anew"},
		{"a run that was never committed", func(h *host) {
			h.step(60)
			r := h.plan.Start[0].Run
			h.runs[r] = &RunFact{Run: r, Status: RunRunning, StartedAt: at(58)}
			h.deploys[r] = "v1"
			h.step(61)
			h.is(StatusExecuting, "drain=running kubelet=waiting")
			if x := h.open("n1"); !x.StartedAt.Equal(at(58)) || !x.Members[1].StartedAt.Equal(at(58)) || h.plan.Events[0].Kind != ExecutionStarted {
				h.t.Errorf("%+v %+v", x, h.plan.Events)
			}
			h.succeeds("drain", 62)
			h.want("n1/os@v2")
			next := h.plan.Start[0].Run
			h.runs[next] = &RunFact{Run: next, Status: RunSucceeded, StartedAt: at(62), EndedAt: at(63)}
			h.targets[[2]string{"n1", "os"}].Current = "v2"
			h.step(64)
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "it is folded as committed when it started"},
		{"a run that was never committed, of which nobody knows when it began", func(h *host) {
			h.step(60)
			r := h.plan.Start[0].Run
			h.runs[r] = &RunFact{Run: r, Status: RunRunning}
			h.deploys[r] = "v1"
			h.step(61)
			h.is(StatusExecuting, "drain=running kubelet=waiting")
			if x := h.open("n1"); !x.StartedAt.Equal(at(61)) || !x.Members[1].StartedAt.Equal(at(61)) {
				h.t.Errorf("%+v", x)
			}
		}, "it is folded as committed now"},
		{"a main that ended before it was committed", func(h *host) {
			h.members = h.members[1:4] // no hooks
			for i := range h.members {
				h.members[i].Needs = nil
			}
			delete(h.targets, [2]string{"n1", "drain"})
			delete(h.targets, [2]string{"n1", "uncordon"})
			h.step(60)
			for _, s := range h.plan.Start {
				if s.Run.Deployment == "os" {
					h.runs[s.Run] = &RunFact{Run: s.Run, Status: RunSucceeded, StartedAt: at(60), EndedAt: at(61)}
					h.targets[[2]string{"n1", "os"}].Current = "v2"
				}
			}
			h.step(61)
			h.is(StatusExecuting, "os=succeeded kubelet=waiting")
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "its target is up to date by now, but it did run"},
		{"runs that nobody knows", func(h *host) {
			h.step(60)
			known := h.plan.Start[0].Run
			stranger := known
			stranger.Group = GroupID("rule", "prod", 9)
			other := known
			other.Group, other.Resource = GroupID("other", "prod", 1), "n9"
			nobody := known
			nobody.Deployment = "nobody"
			later := known
			later.Attempt = 2
			back := known
			back.Purpose = Rollback
			for _, r := range []Run{stranger, other, nobody, later, back} {
				h.runs[r] = &RunFact{Run: r, Status: RunRunning, StartedAt: at(59)}
			}
			if plan := h.step(61); len(plan.Unknown) != 5 || h.record("n1") != nil ||
				!slices.IsSortedFunc(plan.Unknown, func(a, b Run) int { return strings.Compare(a.String(), b.String()) }) {
				h.t.Errorf("%v", plan.Unknown)
			}
			delete(h.runs, later)
			delete(h.runs, back)
			h.start()
			if plan := h.step(62); len(plan.Unknown) != 3 {
				h.t.Errorf("%v", plan.Unknown)
			}
			h.is(StatusExecuting, "drain=running")
		}, "listed and ignored"},
		{"another command under an id that was used", func(h *host) {
			h.until(60, "n1", "drain")
			h.order(Retry, "n1", "", 61)
			if plan := h.step(61); len(plan.Refused) != 1 {
				h.t.Errorf("refused %v", plan.Refused)
			}
			h.commands[0].Kind = Abandon
			if plan := h.step(62); len(plan.Refused) > 0 {
				h.t.Errorf("refused %v", plan.Refused)
			}
			h.is(StatusExecuting, "drain=running os=waiting")
		}, "an id is that of one decision, which was taken"},
		{"a later attempt, and the first run of another member", func(h *host) {
			h.step(60)
			drain := h.plan.Start[0].Run
			again, os := drain, drain
			again.Attempt, os.Deployment = 2, "os"
			for _, r := range []Run{again, os} {
				h.runs[r] = &RunFact{Run: r, Status: RunRunning, StartedAt: at(60)}
			}
			for minute := 61; minute <= 62; minute++ {
				if plan := h.step(minute); len(plan.Unknown) > 0 {
					h.t.Errorf("%v", plan.Unknown)
				}
				h.is(StatusExecuting, "drain=waiting os=running")
			}
		}, "both are of the execution that the second one opens, although the first comes before it in the list"},
		{"runs of the past are no news", func(h *host) {
			h.finishAll(60)
			h.publish("os", "v3", 100)
			h.step(160)
			h.start()
			if plan := h.step(161); len(plan.Unknown) > 0 {
				h.t.Errorf("%v", plan.Unknown)
			}
			h.is(StatusExecuting, "drain=running os=waiting")
		}, "a success in another group never counts"},
		{"a run that was never committed, and a group that closes", func(h *host) {
			h.step(60)
			run := h.plan.Start[0].Run
			h.runs[run] = &RunFact{Run: run, Status: RunRunning, StartedAt: at(58)}
			h.publish("os", "v3", 70)
			h.step(130)
			if closed := h.state.Group.Closed; len(closed) != 2 || closed[0].Status != StatusExecuting {
				h.t.Error(describe(h.state))
			}
		}, "the older group is in use, and its record says so"},
		{"two first runs that were dispatched and never committed", func(h *host) {
			h.members = []Member{{Deployment: "containerd"}, {Deployment: "os"}}
			h.step(60)
			h.want("n1/containerd@v2 n1/os@v2")
			for i, s := range h.plan.Start {
				h.runs[s.Run] = &RunFact{Run: s.Run, Status: RunRunning, StartedAt: at(60 + i)}
			}
			var again Run
			for _, s := range h.plan.Start {
				again = s.Run
				h.runs[again].Status, h.runs[again].EndedAt, h.runs[again].RetryAt = RunFailed, at(61), at(61)
				again.Attempt = 2
				h.runs[again] = &RunFact{Run: again, Status: RunRunning, StartedAt: at(61)}
			}
			stranger := again
			stranger.Resource = "n2"
			h.target("n2", "os", "v1")
			h.runs[stranger] = &RunFact{Run: stranger, Status: RunRunning, StartedAt: at(61)}
			plan := h.step(62)
			h.is(StatusExecuting, "containerd=running os=running")
			if started := h.open("n1").StartedAt; !started.Equal(at(60)) {
				h.t.Errorf("started at %v, want the start of the first run", started)
			}
			if len(h.state.Executions) != 1 || len(plan.Unknown) != 1 || plan.Unknown[0] != stranger {
				h.t.Errorf("%v\n%s", plan.Unknown, describe(h.state))
			}
		}, "they are of one execution, whose second attempts are known; where nothing began they are not"},
		{"a first run that was never committed where an earlier group ran", func(h *host) {
			end := h.finishAll(60)
			h.publish("os", "v3", 100)
			if plan := h.step(100); end >= 100 || len(plan.Unknown) > 0 {
				h.t.Errorf("%v", plan.Unknown)
			}
			run := Run{Group: GroupID("rule", "prod", 2), Resource: "n1", Deployment: "drain", Generation: 1, Attempt: 1, Purpose: Deploy}
			h.runs[run] = &RunFact{Run: run, Status: RunRunning, StartedAt: at(160)}
			if plan := h.step(101); len(plan.Unknown) != 1 {
				h.t.Errorf("a run of the group that collects: %v", plan.Unknown)
			}
			delete(h.runs, run)
			h.step(160)
			h.runs[run] = &RunFact{Run: run, Status: RunRunning, StartedAt: at(160)}
			h.step(161)
			h.is(StatusExecuting, "drain=running os=waiting kubelet=skipped containerd=skipped")
			if last := h.record("n1").Last["prod"]; number(last.Group) != 1 || last.Status != StatusCompleted {
				h.t.Errorf("what ended before is forgotten: %+v", last)
			}
		}, "the old execution is no obstacle, its runs stay known, and a group that collects has none"},
		{"rollback_all without post members", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.members = h.members[:4]
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.want("n1/containerd@v1! n1/kubelet@v1!")
			h.is(StatusFailed, "os=waiting")
		}, "it is not over before everybody is back, though nothing follows"},
		{"rollback_all goes back along the needs", func(h *host) {
			h.rule.OnMemberFailure = RollbackAll
			h.members[2].Needs = []string{"containerd"}
			h.until(60, "n1", "kubelet")
			h.fails("kubelet", 63)
			h.want("n1/kubelet@v1!")
			h.start()
			h.end("n1", "kubelet", RunSucceeded, 64)
			h.step(64)
			h.want("n1/containerd@v1!")
		}, "what others needed goes back after them"},
		{"rollback_member stops what waits for its retry", func(h *host) {
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunFailed, 62).RetryAt = at(64)
			h.step(62)
			h.fails("kubelet", 63)
			h.want("n1/kubelet@v1!")
			h.start()
			h.step(65)
			h.want("")
			h.is(StatusFailed, "kubelet=rolling_back containerd=waiting")
		}, "nothing goes on beside a way back, unless a mixed set is allowed"},
		{"rollback_member with allowMixedPost lets the others finish, also without post members", func(h *host) {
			h.rule.OnMemberFailure, h.rule.AllowMixedPost = RollbackMember, true
			h.members = h.members[:4]
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunFailed, 62).RetryAt = at(70)
			h.step(62)
			h.fails("kubelet", 63)
			h.want("n1/kubelet@v1!")
			h.start()
			h.succeeds("kubelet", 64)
			h.is(StatusFailed, "kubelet=rolled_back containerd=waiting")
			h.step(70)
			h.want("n1/containerd@v2")
		}, "it ends when the last of them has"},
		{"not stuck without a limit", func(h *host) {
			h.step(60)
			h.start()
			if plan := h.step(10000); len(plan.Stuck) > 0 {
				h.t.Errorf("%+v", plan.Stuck)
			}
		}, "0 is never"},
		{"waits are listed by level", func(h *host) {
			h.step(60)
			h.start()
			var waits []string
			for _, w := range waitsOf(h.step(61)) {
				waits = append(waits, w.Deployment)
			}
			if got := strings.Join(waits, " "); got != "os containerd kubelet uncordon" {
				h.t.Error(got)
			}
		}, "resource, level, deployment"},
		{"refused commands are listed by resource and id", func(h *host) {
			h.until(60, "n1", "os")
			group := h.open("n1").Group
			for i, c := range []Command{{ID: "b", Group: group, Resource: "n1"}, {ID: "a", Group: group, Resource: "n1"}, {ID: "c", Group: "gone", Resource: "n1"},
				{ID: "e", Group: group, Resource: "n2"}, {ID: "d", Group: group, Resource: "n2"}} {
				c.Kind, c.Deployment, c.At = Retry, "os", at(61+i)
				h.commands = append(h.commands, c)
			}
			h.step(66)
			var refused []string
			for _, c := range h.plan.Refused {
				refused = append(refused, c.Resource+c.ID)
			}
			if got := strings.Join(refused, " "); got != "n1a n1b n1c n2d n2e" {
				h.t.Error(got)
			}
		}, "whenever they were given, and whatever they were refused for"},
		{"commands in the order of their instants", func(h *host) {
			h.until(60, "n1", "os")
			h.fails("os", 61)
			x := h.open("n1")
			for i, kind := range []CommandKind{Skip, Retry, Retry} { // the first one of kubelet applies, the others of os one after the other
				h.commands = append(h.commands, Command{ID: []string{"b", "c", "a"}[i], Kind: kind, Group: x.Group, Resource: "n1",
					Deployment: []string{"kubelet", "os", "os"}[i], At: at(62 + i)})
			}
			h.step(65)
			h.want("n1/os@v2")
			if len(h.plan.Refused) != 1 || h.plan.Refused[0].ID != "a" {
				h.t.Errorf("%+v", h.plan.Refused)
			}
		}, "what was ordered first applies; what was done already is refused"},
		{"a command without an instant is one of now", func(h *host) {
			h.until(60, "n1", "os")
			h.fails("os", 61)
			x := h.open("n1")
			h.commands = []Command{{ID: "a", Kind: Skip, Group: x.Group, Resource: "n1", Deployment: "os"},
				{ID: "b", Kind: Retry, Group: x.Group, Resource: "n1", Deployment: "os", At: at(62)}}
			h.step(65)
			now := h.open("n1")
			if os := now.Members[now.member("os")].Status; len(h.plan.Refused) > 0 || os != MemberSkipped {
				h.t.Errorf("%+v, os %s", h.plan.Refused, os)
			}
		}, "the retry was ordered before it, and does not come too late"},
		{"one resource ends while the group has not begun on another", func(h *host) {
			h.node("n2")
			h.due["n2"] = at(500)
			h.finishAll(60)
			if h.ended("n1") != StatusCompleted || h.state.Group.Closed[0].Status != StatusExecuting {
				h.t.Error(describe(h.state))
			}
		}, "the group is executing, not ready again"},
		{"stored needs in a circle", func(h *host) {
			h.until(60, "n1", "os")
			x := h.open("n1")
			x.Members[x.member("kubelet")].Needs = []string{"containerd"}
			x.Members[x.member("containerd")].Needs = []string{"kubelet"}
			h.succeeds("os", 61)
			h.want("")
		}, "a record that nobody wrote stops its members, not the planner"},
		{"a run that was committed but never dispatched", func(h *host) {
			h.step(60)
			h.start()
			clear(h.runs)
			plan := h.step(61)
			h.want("")
			if len(plan.Redispatch) != 1 || plan.Redispatch[0].Run.Deployment != "drain" || plan.Redispatch[0].Version != "v1" {
				h.t.Errorf("%+v", plan.Redispatch)
			}
			h.runs[plan.Redispatch[0].Run] = &RunFact{Run: plan.Redispatch[0].Run, Status: RunRunning, StartedAt: at(61)}
			if plan := h.step(62); len(plan.Redispatch) > 0 {
				h.t.Errorf("%+v", plan.Redispatch)
			}
		}, "I17: the crash came between the save and the dispatch"},
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
		{"a deleted rule with an unknown reaction, and a record without a rule of its own", func(h *host) {
			h.until(60, "n1", "os")
			own := *h.record("n1")
			open := *own.Open
			own.Open, open.Rule = &open, nil
			h.state.Executions = []*ExecutionRecord{&own}
			h.gone, h.rule.OnMemberFailure = true, "rollback"
			h.fails("os", 61)
			h.is(StatusFailed, "os=failed uncordon=waiting")
			if w := h.wait("uncordon"); w.Reason != ReasonFailedHolding || len(w.On) != 1 || w.On[0].Kind != OnOperator {
				h.t.Errorf("%+v", w)
			}
		}, "nobody checks what is gone: the execution holds, and Step ends"},
		{"a record that was built in Go, with a rule without defaults", func(h *host) {
			h.until(60, "n1", "os")
			own := *h.record("n1")
			open := *own.Open
			own.Open, open.Rule = &open, &Rule{DeploymentSelector: "true", ReadinessMode: Immediate}
			h.state.Executions = []*ExecutionRecord{&own}
			h.fails("os", 61)
			h.is(StatusFailed, "os=failed uncordon=waiting")
			if w := h.wait("uncordon"); w.Reason != ReasonFailedHolding || len(w.On) != 1 || w.On[0].Kind != OnOperator {
				h.t.Errorf("%+v", w)
			}
		}, "absent means hold, as in every rule: only decoding writes defaults out, and a host may keep records in another form than JSON"},
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
			if h.step(71); len(waitsOf(h.plan)) != 0 {
				h.t.Errorf("%+v", waitsOf(h.plan))
			}
		}, "no operator is needed"},
	})
}

// Two environments share a resource: one execution is open on it at a time.
func TestOtherEnvironmentQueues(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	h.step(60)
	h.start()
	staging := newHost(t, "n1")
	staging.env, staging.state = "staging", NewState("rule", "staging")
	staging.publish("kubelet", "v2", 0)
	staging.state.Executions = h.state.Executions
	staging.step(60)
	staging.want("")
	if v := staging.evaluate("n1", "kubelet", "v2"); v.Reason != ReasonQueued {
		t.Errorf("%+v", v)
	}
	if w := waitsOf(staging.plan); len(w) != 1 || w[0].Reason != ReasonQueued || staging.state.Group.Closed[0].Status != StatusReady {
		t.Errorf("%+v\n%s", w, describe(staging.state))
	}
	if _, changed := staging.state.Changed(State{Executions: h.state.Executions}); changed != nil {
		t.Errorf("the other environment's execution was changed: %v", changed)
	}
	for range 5 {
		for _, f := range h.runs {
			if f.Status == RunRunning {
				h.end("n1", f.Run.Deployment, RunSucceeded, 61)
			}
		}
		h.step(61)
		h.start()
	}
	staging.state.Executions = h.state.Executions
	staging.step(70)
	staging.want("n1/drain@v1")
	staging.start()
	staging.finishAll(70)
	for range 5 {
		for _, f := range staging.runs {
			if f.Status == RunRunning {
				staging.end("n1", f.Run.Deployment, RunSucceeded, 71)
			}
		}
		staging.step(71)
		staging.start()
	}
	if record := staging.record("n1"); record.Last["prod"].Status != StatusCompleted || record.Last["staging"].Status != StatusCompleted {
		t.Errorf("%+v", record.Last)
	}
}

// A stale plan commits nothing.
func TestCommitRefusesWhatIsStale(t *testing.T) {
	h := newHost(t, "n1", "n2")
	h.publish("kubelet", "v2", 0)
	first := h.step(60)
	empty := h.state
	runs := []Run{first.Start[0].Run, first.Start[1].Run}
	check := func(name string, plan Plan, state State, runs []Run, now time.Time, stale bool) State {
		t.Helper()
		next, err := plan.Commit(state, runs, now)
		if stale != (err != nil) || stale && !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v, want stale %v", name, err, stale)
		}
		if stale && describe(next) != describe(state) {
			t.Errorf("%s: something was committed", name)
		}
		return next
	}
	one := check("first", first, empty, runs[:1], at(60), false)
	check("again", first, one, runs[:1], at(60), true)
	check("twice at once", first, empty, []Run{runs[0], runs[0]}, at(60), true)
	check("the other", first, one, runs[1:], at(60), false)
	check("part is stale", first, one, runs, at(60), true)
	unknown := runs[1]
	unknown.Deployment = "kubelet"
	check("not offered", first, empty, []Run{unknown}, at(60), true)
	check("no plan", Plan{}, empty, runs, at(60), true)
	check("another rule", first, NewState("other", "prod"), runs, at(60), true)
	check("nothing", first, empty, nil, at(60), false)
	group, executions := one.Changed(empty)
	if group == nil || group.Closed[0].Status != StatusExecuting || len(executions) != 1 || executions[0].Resource != "n1" {
		t.Errorf("Changed: %v %v", group, executions)
	}
	if late := check("later", first, empty, runs[:1], at(62), false); !late.Executions[0].Open.StartedAt.Equal(at(62)) || !late.Executions[0].Open.Members[1].StartedAt.Equal(at(62)) {
		t.Errorf("what is committed at 62 starts at %v", late.Executions[0].Open.StartedAt)
	}
	check("another environment", first, NewState("rule", "staging"), runs[:1], at(60), true)
	check("nothing, in another environment", first, NewState("rule", "staging"), nil, at(60), true)
	check("nothing, of another rule", first, NewState("other", "prod"), nil, at(60), true)
	// hosts sort and cut what they were offered
	mixed := first
	mixed.Start = []Start{first.Start[1], {}, first.Start[0]}
	both := check("in another order", mixed, empty, runs, at(60), false)
	if len(both.Executions) != 2 || both.Executions[0].Open == nil || both.Executions[1].Open == nil {
		t.Errorf("in another order:\n%s", describe(both))
	}
	mixed.Start = mixed.Start[:1]
	check("cut off", mixed, empty, runs[:1], at(60), true)
	// an execution that began at no instant could be saved, and never be read again; one of the year
	var f *FieldError
	// 10000 could not be saved; one of the year 0 is none
	for _, bad := range []time.Time{{}, time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if next, err := first.Commit(empty, runs, bad); !errors.As(err, &f) || f.Path != "now" || describe(next) != describe(empty) {
			t.Errorf("at %v: %v", bad, err)
		}
		if _, _, err := Step(h.rule, empty, h.observation(), bad); !errors.As(err, &f) || f.Path != "now" {
			t.Errorf("a step at %v: %v", bad, err)
		}
	}
	for _, bound := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		if _, _, err := Step(h.rule, empty, h.observation(), bound); err != nil {
			t.Errorf("%v has a name: %v", bound, err)
		}
	}
	// the state went on: the execution has ended meanwhile
	h.start()
	h.order(Resolve, "n1", "", 61)
	h.step(61)
	check("ended meanwhile", first, h.state, runs[:1], at(61), true)
	// the records of the group and then of the execution were lost
	lost := newHost(t, "n1")
	lost.publish("kubelet", "v2", 0)
	lost.until(60, "n1", "drain")
	lost.end("n1", "drain", RunSucceeded, 61)
	lost.state.Group, lost.members = NewState("rule", "prod").Group, nil // and the rule selects nobody any more: there is no group
	next := lost.step(61)
	lost.want("n1/kubelet@v2")
	lost.state.Executions = nil
	check("lost meanwhile", next, lost.state, []Run{next.Start[0].Run}, at(61), true)
	// a clock behind the one that planned
	behind := newHost(t, "n1")
	behind.publish("kubelet", "v2", 0)
	behind.until(60, "n1", "drain")
	behind.end("n1", "drain", RunFailed, 61).RetryAt = at(70)
	again := behind.step(70)
	check("before its retry", again, behind.state, []Run{again.Start[0].Run}, at(70).Add(-1), true)
	check("at its retry", again, behind.state, []Run{again.Start[0].Run}, at(70), false)
	// a newer group has closed meanwhile
	late := newHost(t, "n1")
	late.publish("kubelet", "v2", 0)
	plan := late.step(60)
	late.publish("kubelet", "v3", 61)
	late.step(121)
	check("superseded meanwhile", plan, late.state, []Run{plan.Start[0].Run}, at(121), true)
}

// A commit that the state does not fit any more starts nothing, and one that fits says of the group
// that it has begun.
func TestCommitWhereTheStateWentOn(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	first := h.step(60)
	if v := (Plan{}).Evaluate(h.state, "n1", "kubelet", "v2", at(60)); v.Reason != ReasonNoPlan {
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
	record := *h.state.Executions[0]
	open := *record.Open
	open.Members = slices.DeleteFunc(slices.Clone(open.Members), func(m ExecutionMember) bool { return m.Deployment == "drain" })
	record.Open = &open
	without := State{Group: h.state.Group, Executions: []*ExecutionRecord{&record}}
	if _, err := first.Commit(without, []Run{first.Start[0].Run}, at(61)); !errors.Is(err, ErrStale) {
		t.Errorf("a member that the execution no longer has: %v", err)
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

// TestAdoptedHookWithoutVersion: the record of an execution is lost, and when it is opened again,
// from the run of another member, the only version of a hook has been withdrawn. An execution with
// such a hook would not begin; this one has begun, so it goes on, and its hook waits for an
// operator instead of running nothing.
func TestAdoptedHookWithoutVersion(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	h.until(60, "n1", "drain")
	h.state.Executions = nil
	h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "uncordon" })
	h.targets[[2]string{"n1", "uncordon"}].Current = ""
	h.succeeds("drain", 61)
	for range 2 {
		h.finishAll(62)
	}
	h.want("")
	want := waiting{Group: "rule/prod/1", Resource: "n1", Deployment: "uncordon", Reason: ReasonHookWithoutVersion, On: []Condition{{Kind: OnOperator, Group: "rule/prod/1", Resource: "n1"}}}
	if len(waitsOf(h.plan)) != 1 || !reflect.DeepEqual(waitsOf(h.plan)[0], want) {
		t.Fatalf("waits: %+v", waitsOf(h.plan))
	}
	if v := h.plan.Evaluate(h.state, "n1", "uncordon", "", h.now); v.Reason != want.Reason || !slices.Equal(v.On, want.On) {
		t.Errorf("%+v", v)
	}
	if _, err := h.plan.Commit(h.state, []Run{{Group: "rule/prod/1", Resource: "n1", Deployment: "uncordon", Generation: 1, Attempt: 1}}, h.now); !errors.Is(err, ErrStale) {
		t.Errorf("a run of nothing is committed: %v", err)
	}
	h.order(Skip, "n1", "uncordon", 70)
	h.step(70)
	h.endsAs(StatusCompleted, 63) // as its last run did
}

// TestCommandsOfOneInstant: of two commands that end one execution at one instant the one of the lesser
// id is heard, whichever the host lists first.
func TestCommandsOfOneInstant(t *testing.T) {
	for _, ids := range [][]string{{"a", "b"}, {"b", "a"}} {
		h := newHost(t, "n1")
		failKubelet(h, Hold)
		kinds := map[string]CommandKind{"a": Abandon, "b": Resolve}
		for _, id := range ids {
			h.commands = append(h.commands, Command{ID: id, Kind: kinds[id], Group: h.open("n1").Group, Resource: "n1", At: at(64)})
		}
		h.step(64)
		if h.ended("n1") != StatusCancelled {
			t.Errorf("listed as %q: %s", ids, h.ended("n1"))
		}
	}
}

// TestCollectingIsCancelledNow: a group that collects when its rule is deleted is cancelled when that
// is seen, and not when it would have closed.
func TestCollectingIsCancelledNow(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	h.step(10)
	h.gone = true
	h.step(20)
	if events := h.plan.Events; len(events) != 1 || events[0].Kind != GroupCancelled || !events[0].At.Equal(at(20)) {
		t.Errorf("%+v", events)
	}
}

// TestCommandsOnSeveralResources: one observation brings commands for several executions, in any
// order.
func TestCommandsOnSeveralResources(t *testing.T) {
	h := newHost(t, "n1", "n2")
	h.publish("kubelet", "v2", 0)
	h.step(60)
	h.start()
	h.end("n1", "drain", RunFailed, 61)
	h.end("n2", "drain", RunFailed, 61)
	h.step(61)
	h.want("")
	h.order(Retry, "n2", "drain", 62)
	h.order(Retry, "n1", "drain", 62)
	h.step(62)
	h.want("n1/drain@v1 n2/drain@v1")
	if len(h.plan.Refused) != 0 {
		t.Errorf("refused: %+v", h.plan.Refused)
	}
}
