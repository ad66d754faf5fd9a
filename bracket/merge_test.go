package bracket

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// merging is the node policy with merge: group 1 (os, kubelet, containerd at v2) is open on n1.
func merging(h *host) {
	h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
}

// posts is a rule with merge and os before two post members, of which b needs a.
func posts(h *host) {
	merging(h)
	h.rule.MemberRoles = &MemberRoles{Post: "deployment.name != 'os'"}
	h.members = []Member{{Deployment: "os"}, {Deployment: "a", Role: Post}, {Deployment: "b", Role: Post, Needs: []string{"a"}}}
	for _, d := range []string{"a", "b"} {
		h.publish(d, "v1", -90*24*60)
		h.target("n1", d, "v1")
	}
}

// next publishes versions for a second group, which closes at minute 160.
func (h *host) next(versions ...string) {
	for _, v := range versions {
		deployment, id, _ := strings.Cut(v, "@")
		h.publish(deployment, id, 100)
	}
}

// merged checks how the second group relates to the execution on n1.
func (h *host) merged(want bool) {
	h.t.Helper()
	x := h.open("n1")
	if (len(x.Merged) == 1) != want || x.Generation != 1+len(x.Merged) {
		h.t.Fatalf("merged %v, want %v\n%s%+v", x.Merged, want, describe(h.state), waitsOf(h.plan))
	}
}

func TestMerge(t *testing.T) {
	tell(t, []scenario{
		{"waiting: the older version never runs", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v2 n1/kubelet@v3")
			if r := h.plan.Start[0].Run; r.Generation != 2 || r.Attempt != 1 || number(r.Group) != 1 {
				h.t.Errorf("%+v", r)
			}
		}, "the target is replaced; identity and lease stay those of the first group"},
		{"a run of no member in the generation of the merge", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			stray := Run{Group: h.open("n1").Group, Resource: "n1", Deployment: "cni", Generation: 2, Attempt: 1, Purpose: Deploy}
			h.runs[stray] = &RunFact{Run: stray, Version: "v1", Status: RunSucceeded, EndedAt: at(60)}
			h.next("kubelet@v3")
			h.succeeds("os", 160)
			h.merged(true)
			if r := h.plan.Start[0].Run; r.Generation != 2 {
				h.t.Errorf("%+v", r)
			}
		}, "it takes nobody's place, so the generation is free"},
		{"two pres: both keep the merge waiting", func(h *host) {
			merging(h)
			h.rule.MemberRoles = &MemberRoles{Pre: "deployment.name != 'os'"}
			h.members = []Member{{Deployment: "drain", Role: Pre}, {Deployment: "snapshot", Role: Pre}, {Deployment: "os"}}
			h.publish("snapshot", "v1", -90*24*60)
			h.target("n1", "snapshot", "v1")
			h.until(60, "n1", "snapshot")
			h.next("os@v3")
			h.step(160)
			h.merged(false)
			if text := h.wait("").String(); !strings.HasSuffix(text, "waits for the end of the execution on n1 or drain on n1 and snapshot on n1") {
				h.t.Errorf("the wait is %q", text)
			}
			h.succeeds("drain", 161)
			h.merged(false)
			if text := h.wait("").String(); !strings.HasSuffix(text, "waits for the end of the execution on n1 or snapshot on n1") {
				h.t.Errorf("once one has ended, the wait is %q", text)
			}
			h.succeeds("snapshot", 162)
			h.merged(true)
		}, "the end of one of them changes nothing, and the text must not say that it does"},
		{"running on: named once by who needs it", func(h *host) {
			merging(h)
			h.until(60, "n1", "containerd")
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			var waits []string
			for _, c := range h.wait("uncordon").On {
				waits = append(waits, c.Deployment)
			}
			if !slices.Equal(waits, []string{"containerd", "kubelet"}) {
				h.t.Errorf("uncordon waits for %v", waits)
			}
		}, "containerd runs in the older generation and is needed: that is one event"},
		{"run ids that the state has forgotten", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			forgotten := Run{Group: h.open("n1").Group, Resource: "n1", Deployment: "kubelet", Generation: 2, Attempt: 1, Purpose: Deploy}
			h.runs[forgotten] = &RunFact{Run: forgotten, Status: RunSucceeded, Version: "v1"}
			h.succeeds("os", 160)
			if x := h.open("n1"); x.Generation != 3 || len(x.Merged) != 1 {
				h.t.Errorf("generation %d after %v", x.Generation, x.Merged)
			}
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "a merge that was lost with the state has begun v1 under the id that the next one would give v3, which would then never run"},
		{"run ids of the first member that the state has forgotten", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			forgotten := Run{Group: h.open("n1").Group, Resource: "n1", Deployment: "containerd", Generation: 2, Attempt: 1, Purpose: Deploy}
			h.runs[forgotten] = &RunFact{Run: forgotten, Status: RunSucceeded, Version: "v1"}
			h.succeeds("os", 160)
			if x := h.open("n1"); x.Generation != 3 || len(x.Merged) != 1 {
				h.t.Errorf("generation %d after %v", x.Generation, x.Merged)
			}
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "it counts as every other one"},
		{"run ids of the same merge, which the state has forgotten", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			known := Run{Group: h.open("n1").Group, Resource: "n1", Deployment: "kubelet", Generation: 2, Attempt: 1, Purpose: Deploy}
			h.runs[known] = &RunFact{Run: known, Status: RunRunning, Version: "v3"}
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v2")
		}, "the execution goes on where it was"},
		{"running: finishes, then waits with the new target", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.want("")
			h.is(StatusExecuting, "os=running kubelet=waiting")
			h.end("n1", "os", RunFailed, 161)
			h.step(161)
			h.want("n1/os@v3")
			if r := h.plan.Start[0].Run; r.Generation != 2 || r.Attempt != 1 {
				h.t.Errorf("attempts of the new generation start at 1: %+v", r)
			}
			h.is(StatusExecuting, "os=waiting")
			h.start()
			h.succeeds("os", 162)
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "the outcome of the old run, a failure even, is not used"},
		{"succeeded: runs again", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.next("os@v3")
			h.end("n1", "kubelet", RunSucceeded, 159)
			h.end("n1", "containerd", RunSucceeded, 159)
			h.step(160)
			h.merged(true)
			h.want("n1/os@v3")
			h.is(StatusExecuting, "kubelet=succeeded uncordon=waiting")
			h.start()
			h.succeeds("os", 161)
			h.want("n1/uncordon@v1")
		}, "what the newer group leaves alone keeps its success"},
		{"skipped: runs", func(h *host) {
			merging(h)
			h.versions = h.versions[:len(h.versions)-1] // no v2 of containerd
			h.until(60, "n1", "os")
			h.is(StatusExecuting, "containerd=skipped")
			h.next("containerd@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v3 n1/kubelet@v2")
			if x := h.open("n1"); x.Members[0].Action != ActionDeploy {
				h.t.Errorf("%+v", x.Members[0])
			}
		}, "it was unchanged in the first group only"},
		{"skipped, since the target runs something newer: stays", func(h *host) {
			merging(h)
			h.publish("os", "v4", 101)
			h.version("os", "v4").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "os"}].Current = "v4" // by hand
			h.until(60, "n1", "drain")
			h.is(StatusExecuting, "os=skipped")
			h.next("os@v3", "kubelet@v3")
			h.succeeds("drain", 160)
			h.merged(true)
			h.want("n1/containerd@v2 n1/kubelet@v3")
			h.is(StatusExecuting, "os=skipped")
		}, "a merge takes no target back, either"},
		{"runs a newer version than the newer group has locked: keeps it", func(h *host) {
			merging(h)
			h.publish("os", "v3", 1)
			h.until(60, "n1", "os")
			h.version("os", "v3").EligibleAt = time.Time{}
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "os=running")
			h.succeeds("os", 161)
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "a merge takes no target back to an older version, not even one that is not there yet"},
		{"waits for its retry, and the newer group has the same version: begins anew", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(300)
			h.step(61)
			h.is(StatusExecuting, "os=waiting")
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.step(300)
			h.want("n1/os@v2")
			if run := h.plan.Start[0].Run; run.Generation != 2 || run.Attempt != 1 {
				h.t.Errorf("%+v", run)
			}
		}, "a member that waits is of the generation to come, whatever it ran before"},
		{"runs for the second time: that run is still its own", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(61)
			h.step(61)
			h.start("n1/os")
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.succeeds("os", 161)
			h.want("n1/containerd@v2 n1/kubelet@v3")
			if m := h.open("n1").Members[3]; m.Deployment != "os" || m.Attempt != 2 {
				h.t.Errorf("%+v", m)
			}
		}, "a merge that changes nothing for a member changes nothing of its run"},
		{"needs more in the newer group: waits for it", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.members = slices.Clone(h.members)
			h.members[3].Needs = []string{"drain", "os", "kubelet"} // containerd
			h.next("kubelet@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/kubelet@v3")
		}, "the needs are those of the newer group"},
		{"failed: gets another version and goes on", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/os@v3")
			h.is(StatusExecuting, "os=waiting")
		}, "a fix reaches the node that needs it, under the lease it holds"},
		{"failed, and the newer group does not have the member: queued", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.members = slices.Delete(slices.Clone(h.members), 2, 3) // kubelet
			h.members[3].Needs = []string{"containerd"}
			h.next("os@v3")
			h.step(160)
			h.merged(false)
			h.want("")
		}, "a merge would leave it failed"},
		{"a pre that waits: queued", func(h *host) {
			merging(h)
			h.rule.MemberRoles = &MemberRoles{Pre: "deployment.name != 'os'"}
			h.members = []Member{{Deployment: "os"}, {Deployment: "drain", Role: Pre}, {Deployment: "evict", Role: Pre, Needs: []string{"drain"}}}
			h.publish("evict", "v1", -90*24*60)
			h.target("n1", "evict", "v1")
			h.until(60, "n1", "drain")
			h.next("os@v3")
			h.succeeds("drain", 160)
			h.merged(false)
			h.want("n1/evict@v1")
		}, "every pre is done first, not only those that have begun"},
		{"a main that only the newer group has, and a post that only the older one has", func(h *host) {
			merging(h)
			h.rule.MemberRoles = &MemberRoles{Post: "deployment.name == 'a'"}
			h.members = []Member{{Deployment: "os"}, {Deployment: "a", Role: Post}}
			h.publish("a", "v1", -90*24*60)
			h.target("n1", "a", "v1")
			h.until(60, "n1", "os")
			h.members = []Member{{Deployment: "os"}, {Deployment: "x"}}
			h.target("n1", "x", "v1")
			h.next("os@v3", "x@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/os@v3 n1/x@v3")
			h.start()
			h.succeeds("os", 161)
			h.want("")
			h.succeeds("x", 162)
			h.want("n1/a@v1")
		}, "I3: no post before every main, whichever group they come from"},
		{"a run that a merge outdated, skipped, and merged again", func(h *host) {
			merging(h)
			h.rule.MaxMerges = ptr(2)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.order(Skip, "n1", "os", 161)
			h.step(161)
			h.is(StatusExecuting, "os=skipped")
			h.publish("os", "v4", 170)
			h.step(230)
			h.merged2()
			h.want("n1/os@v4")
		}, "I1: what ran before the first merge is not what runs now"},
		{"members that the newer group does not know keep their order", func(h *host) {
			posts(h)
			h.until(60, "n1", "os")
			h.members = h.members[:1]
			h.next("os@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/os@v3")
			h.start()
			h.succeeds("os", 161)
			h.want("n1/a@v1")
		}, "b was frozen to need a"},
		{"from is what ran before the execution, not before the merge", func(h *host) {
			merging(h)
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.succeeds("os", 159)
			h.step(160)
			h.merged(true)
			h.want("n1/os@v3")
			h.start()
			h.fails("os", 161)
			h.want("n1/os@v1!")
		}, "a way back leads to what the node ran before it was drained"},
		{"a main that only the older group has, and that has ended, goes back with the others", func(h *host) {
			posts(h)
			h.rule.OnMemberFailure = RollbackAll
			h.member("x")
			h.target("n1", "x", "v1")
			h.publish("x", "v2", 0)
			h.until(60, "n1", "os")
			h.succeeds("x", 61)
			h.members = h.members[:3]
			h.next("os@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.is(StatusExecuting, "x=succeeded")
			h.want("n1/os@v3")
			h.start()
			h.fails("os", 161)
			h.want("n1/os@v1! n1/x@v1!")
		}, "only one that waits is dropped: the execution has touched the target, and goes back as a whole"},
		{"a newer group that locks less than what the target was taken to after its run", func(h *host) {
			merging(h)
			h.target("n2", "os", "v1")
			h.due["n2"] = time.Time{}
			h.until(60, "n1", "os")
			h.succeeds("os", 70)
			h.next("os@v3", "kubelet@v3")
			h.byHand("os", "v4", 120)
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "os=succeeded")
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "v3 is for n2: no group takes a target back, and neither does a merge"},
		{"a run from before the merge keeps its generation", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			h.succeeds("os", 160)
			h.merged(true)
			x := h.open("n1")
			if m := x.Members[x.member("os")]; m.Status != MemberSucceeded || m.Generation != 1 {
				h.t.Errorf("%+v", m)
			}
		}, "its id stays that of the run, for whoever looks for its job"},
		{"a hook that only the older group has needs nothing that was dropped", func(h *host) {
			posts(h)
			h.member("x", "os")
			h.target("n1", "x", "v1")
			h.publish("x", "v2", 0)
			h.until(60, "n1", "os")
			h.members = h.members[:1]
			h.next("os@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/os@v3")
			h.start()
			h.succeeds("os", 161)
			h.want("n1/a@v1")
		}, "x waited and is not wanted any more"},
		{"a post, the first of the members", func(h *host) {
			posts(h)
			h.until(60, "n1", "os")
			h.next("os@v3", "a@v3")
			h.succeeds("os", 160)
			h.start()
			h.succeeds("os", 161)
			h.want("n1/a@v3")
		}, "in the order of ids it is like any other"},
		{"a post that has lost its version, the first of the members", func(h *host) {
			posts(h)
			h.until(60, "n1", "os")
			h.version("a", "v1").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "a"}].Current = ""
			h.next("os@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.start()
			h.succeeds("os", 161)
			h.want("n1/a@v1")
		}, "the execution has one for it"},
		{"a post whose version was withdrawn", func(h *host) {
			merging(h)
			h.publish("uncordon", "v2", 0)
			h.until(60, "n1", "os")
			h.version("uncordon", "v2").EligibleAt = time.Time{}
			h.version("uncordon", "v1").EligibleAt = time.Time{}
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.succeeds("os", 161)
			h.until(161, "n1", "uncordon")
			for r, version := range h.deploys {
				if r.Deployment == "uncordon" && version != "v1" {
					h.t.Errorf("%s deploys %s", r, version)
				}
			}
		}, "the newer group locks none, so the target's own is its version; what it withdrew does not run"},
		{"a post that runs a newer version than the newer group locks", func(h *host) {
			merging(h)
			h.publish("uncordon", "v2", 0)
			h.publish("uncordon", "v9", 0)
			h.version("uncordon", "v9").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "uncordon"}].Current = "v9"
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.succeeds("os", 161)
			h.until(161, "n1", "uncordon")
			for r, version := range h.deploys {
				if r.Deployment == "uncordon" && version != "v9" {
					h.t.Errorf("%s deploys %s", r, version)
				}
			}
		}, "no hook goes back to an older version, by a merge as little as at the start"},
		{"failed, the first of the members", func(h *host) {
			merging(h)
			h.until(60, "n1", "containerd")
			h.end("n1", "kubelet", RunSucceeded, 61)
			h.fails("containerd", 61)
			h.next("containerd@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/containerd@v3")
		}, "in the order of ids it is like any other"},
		{"a backoff goes on", func(h *host) {
			merging(h)
			h.until(60, "n1", "containerd")
			h.next("kubelet@v3")
			h.end("n1", "containerd", RunFailed, 159).RetryAt = at(170)
			h.end("n1", "kubelet", RunSucceeded, 159)
			h.step(160)
			h.merged(true)
			h.want("n1/kubelet@v3")
			h.step(170)
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "the newer group leaves the member alone, so it waits as before"},
		{"failed with the same version: queued", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.next("kubelet@v3")
			h.step(160)
			h.merged(false)
			h.is(StatusFailed, "os=failed")
		}, "it would fail again"},
		{"a pre is never repeated, a post gets the newer version", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.next("os@v3", "drain@v3", "uncordon@v3")
			h.end("n1", "kubelet", RunSucceeded, 159)
			h.end("n1", "containerd", RunSucceeded, 159)
			h.step(160)
			h.start()
			h.succeeds("os", 161)
			h.want("n1/uncordon@v3")
			drains := 0
			for r := range h.runs {
				if r.Deployment == "drain" {
					drains++
				}
			}
			if drains != 1 {
				h.t.Errorf("I4: %d drains", drains)
			}
		}, "the node is drained already"},
		{"the pre is still running: queued", func(h *host) {
			merging(h)
			h.step(60)
			h.start()
			h.next("os@v3")
			h.step(160)
			h.merged(false)
			h.succeeds("drain", 161)
			h.merged(true)
			h.want("n1/os@v3")
		}, "facts are folded before merges, merges before starts"},
		{"post has started: queued", func(h *host) {
			merging(h)
			h.until(60, "n1", "uncordon")
			h.next("os@v3")
			h.step(160)
			h.merged(false)
			h.end("n1", "uncordon", RunFailed, 161).RetryAt = at(170)
			h.step(161)
			h.merged(false)
		}, "I13: even between two attempts of the post"},
		{"a recovery has begun: queued", func(h *host) {
			merging(h)
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "os")
			h.fails("os", 61)
			h.start()
			h.next("os@v3")
			h.step(160)
			h.merged(false)
			h.succeeds("os", 161)
			h.merged(false)
		}, "a rollback is not overtaken"},
		{"a halt that a queued group ends when it is due", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.fails("kubelet", 63)
			h.next("kubelet@v3")
			command, closes := Condition{Kind: OnOperator, Group: "rule/prod/1", Resource: "n1"}, Condition{Kind: OnGroupClose, Rule: "rule", Environment: "prod"}
			want := func(until time.Time, on ...Condition) {
				h.t.Helper()
				h.merged(false)
				var all []waiting
				for _, w := range waitsOf(h.plan) {
					if w.Deployment == "kubelet" {
						all = append(all, w)
					}
				}
				wait := waiting{Group: "rule/prod/1", Resource: "n1", Deployment: "kubelet", Reason: ReasonFailedHolding, Until: until, On: on}
				if !reflect.DeepEqual(all, []waiting{wait}) || !until.IsZero() && !h.plan.Next.Equal(until) {
					h.t.Fatalf("next %v, told %+v, want %+v", h.plan.Next, all, wait)
				}
			}
			h.due["n1"] = at(200)
			h.step(160)
			want(at(200), command, closes)
			h.due["n1"] = time.Time{}
			h.step(161)
			want(time.Time{}, command, closes, Condition{Kind: OnConfig, Rule: "rule"})
			h.due["n1"] = at(162)
			h.step(162)
			h.merged(true)
			h.want("n1/kubelet@v3")
		}, "the failed main gets another version as soon as the group is due; the host that does not know when may learn it from its configuration"},
		{"a newer group and a run whose version the host has not read", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.next("os@v3", "kubelet@v3")
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.step(160)
			h.merged(false)
			h.publish("kubelet", "v2", 0)
			h.step(161)
			h.merged(true)
		}, "nobody can tell whether v3 is newer than what runs"},
		{"a newer group that leaves a run of a deleted version alone", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.next("os@v3")
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "kubelet" })
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "os=waiting kubelet=running")
		}, "it has locked nothing for kubelet, so there is nothing to compare"},
		{"not due: queued until it is", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.due["n1"] = at(200)
			plan := h.step(160)
			h.merged(false)
			if !plan.Next.Equal(at(200)) {
				h.t.Errorf("next %v", plan.Next)
			}
			h.stepAt(at(200).Add(-1))
			h.merged(false)
			h.step(200)
			h.merged(true)
		}, "the curve holds for merges as well"},
		{"due unknown: queued", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.due["n1"] = time.Time{}
			h.step(160)
			h.merged(false)
		}, "unknown is not now"},
		{"nothing different: queued", func(h *host) {
			merging(h)
			h.node("n2")
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v3"}
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			h.step(160)
			h.merged(false)
		}, "the new version is out of scope here"},
		{"the retries of the older version are forgotten", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(62)
			h.step(62)
			h.start()
			h.end("n1", "os", RunFailed, 63).RetryAt = at(500)
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/os@v3")
			if r := h.plan.Start[0].Run; r.Generation != 2 || r.Attempt != 1 {
				h.t.Errorf("%+v", r)
			}
		}, "attempts of the new generation start at 1, without the old backoff"},
		{"the same version keeps its backoff", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(500)
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.want("")
			h.step(500)
			h.want("n1/os@v2")
			if r := h.plan.Start[0].Run; r.Generation != 2 || r.Attempt != 1 {
				h.t.Errorf("%+v", r)
			}
		}, "its status is kept; the run belongs to the generation in which it starts"},
		{"a running run of the same version continues", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.want("")
			h.succeeds("os", 161)
			h.want("n1/containerd@v2 n1/kubelet@v3")
			for r := range h.runs {
				if r.Deployment == "os" && r.Generation != 1 {
					h.t.Errorf("%+v", r)
				}
			}
		}, "its success counts, and its run keeps its identity"},
		{"an older generation's run holds back every start", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.next("os@v3", "kubelet@v3")
			h.end("n1", "containerd", RunSucceeded, 159)
			h.step(160)
			h.want("")
			for _, w := range waitsOf(h.plan) {
				if w.Deployment == "os" && (w.Reason != ReasonWaitsForMembers || w.On[0].Deployment != "kubelet") {
					h.t.Errorf("%+v", w)
				}
			}
			h.succeeds("kubelet", 161)
			h.want("n1/os@v3")
		}, "os must not change under a kubelet that is being upgraded"},
		{"a member that only the newer group has", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.member("cni", "drain", "os")
			h.members[4].Needs = append(h.members[4].Needs, "cni")
			h.target("n1", "cni", "v1")
			h.next("cni@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/cni@v3 n1/containerd@v2 n1/kubelet@v2")
			h.start()
			h.succeeds("containerd", 161)
			h.succeeds("kubelet", 162)
			h.want("")
			h.succeeds("cni", 163)
			h.want("n1/uncordon@v1")
		}, "it is added with its needs, and the post waits for it"},
		{"a pre that only the newer group has", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "os")
			h.member("snapshot")
			h.members[5].Role = Pre
			h.target("n1", "snapshot", "v1")
			h.next("kubelet@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/snapshot@v1")
			h.start()
			h.succeeds("snapshot", 161)
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "it is added as waiting, and the mains wait for it"},
		{"a hook without version that only the newer group has: queued", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "os")
			h.member("snapshot")
			h.members[5].Role = Pre
			h.target("n1", "snapshot", "")
			h.version("snapshot", "v1").EligibleAt = time.Time{}
			h.next("kubelet@v3")
			h.step(160)
			h.merged(false)
		}, "it could never run"},
		{"a member that only the older group has", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "os")
			h.members = append(h.members[:2:2], h.members[3], h.members[4]) // no kubelet any more
			h.members[3].Needs = []string{"containerd"}
			h.next("containerd@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v3")
			if h.open("n1").member("kubelet") >= 0 {
				h.t.Error("kubelet is still there")
			}
		}, "dropped, as it waits"},
		{"a member that only the older group has, and that waits for its retry", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "kubelet", RunFailed, 61).RetryAt = at(500)
			h.members = append(h.members[:2:2], h.members[3], h.members[4])
			h.members[3].Needs = []string{"containerd"}
			h.next("containerd@v3")
			h.succeeds("containerd", 160)
			h.merged(true)
			stranger := Run{Group: h.open("n1").Group, Resource: "n1", Deployment: "zfs", Generation: 2, Attempt: 1, Purpose: Deploy}
			h.runs[stranger] = &RunFact{Run: stranger, Status: RunRunning, StartedAt: at(160)}
			if h.step(161); !slices.Equal(h.plan.Unknown, []Run{stranger}) {
				h.t.Error(h.plan.Unknown)
			}
		}, "dropped, but its run before the merge is no run that nobody knows"},
		{"a running member that only the older group has", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "kubelet")
			h.members = append(h.members[:2:2], h.members[3], h.members[4])
			h.members[3].Needs = []string{"containerd"}
			h.next("os@v3")
			h.end("n1", "containerd", RunSucceeded, 159)
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "kubelet=running")
			h.succeeds("kubelet", 161)
			h.want("n1/os@v3")
			h.start()
			h.succeeds("os", 162)
			h.want("n1/uncordon@v1")
		}, "kept: it finishes first, and the post waits for it"},
		{"the post that only the older group has", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "os")
			h.members = h.members[:4] // no uncordon any more
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.succeeds("os", 161)
			h.finishAll(161)
			if h.ended("n1") != StatusCompleted {
				h.t.Errorf("%s", describe(h.state))
			}
			uncordons := 0
			for r := range h.runs {
				if r.Deployment == "uncordon" {
					uncordons++
				}
			}
			if uncordons != 1 {
				h.t.Errorf("%d uncordons", uncordons)
			}
		}, "a node that was drained is uncordoned, whatever the newer group knows of it"},
		{"roles that changed: queued", func(h *host) {
			merging(h)
			roles(h)
			h.until(60, "n1", "os")
			h.members[3].Role = Post // containerd
			h.members[3].Needs = nil
			h.members[4].Needs = nil
			h.next("os@v3")
			h.step(160)
			h.merged(false)
		}, "the phases of the two groups do not fit together"},
		{"queue in the newer rule: queued", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.rule.OverlapStrategy = Queue
			h.next("os@v3")
			h.step(160)
			h.merged(false)
		}, "the operator has just forbidden it"},
		{"queue in the older rule: queued", func(h *host) {
			h.until(60, "n1", "os")
			merging(h)
			h.next("os@v3")
			h.step(160)
			h.merged(false)
		}, "the execution follows its own copy of the rule"},
		{"a revoked version is not downgraded while it runs", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.version("os", "v2").EligibleAt = time.Time{}
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "os=running")
			h.succeeds("os", 161)
			h.want("n1/containerd@v2 n1/kubelet@v3")
		}, "current greater than the lock counts as unchanged"},
		{"a revoked version is not downgraded once it has run", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.version("os", "v2").EligibleAt = time.Time{}
			h.end("n1", "os", RunSucceeded, 160)
			h.targets[[2]string{"n1", "os"}].Current = "v1" // the host has not seen it yet
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/containerd@v2 n1/kubelet@v3")
			h.is(StatusExecuting, "os=succeeded")
		}, "the run that succeeded says what the target runs"},
		{"a revoked version that waits is not started", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.next("containerd@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v3")
			h.is(StatusExecuting, "kubelet=skipped")
			if m := h.open("n1").Members[2]; m.Deployment != "kubelet" || m.Attempt != 0 {
				h.t.Errorf("skipped without an attempt, as in an execution of that group alone: %+v", m)
			}
		}, "the newer group locks what the target runs already: nothing to do for it"},
		{"a revoked version that waits, and members that run again", func(h *host) {
			merging(h)
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			h.until(60, "n1", "os")
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.next("containerd@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v3 n1/kubelet@v1")
			if m := h.open("n1").Members[2]; m.Deployment != "kubelet" || m.Action != ActionRedeploy {
				h.t.Errorf("%+v", m)
			}
		}, "redeploy_current runs what is unchanged again, in a merge as well"},
		{"a run whose target somebody takes to what the newer group has locked", func(h *host) {
			merging(h)
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			h.versions = h.versions[:len(h.versions)-1] // no v2 of containerd
			h.until(60, "n1", "containerd")
			h.next("containerd@v3", "kubelet@v3")
			h.targets[[2]string{"n1", "containerd"}].Current = "v3"
			h.step(160)
			h.merged(true)
			h.is(StatusExecuting, "containerd=running")
			h.end("n1", "kubelet", RunSucceeded, 161)
			h.succeeds("containerd", 161)
			h.want("n1/containerd@v3 n1/kubelet@v3")
		}, "the run of v1 in progress may put v1 back: it finishes, and v3 is deployed after it"},
		{"a run that was never dispatched, whose target somebody takes beyond it", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.crash("n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			if r := h.plan.Redispatch; len(r) != 1 || r[0].Version != "v2" {
				h.t.Errorf("%+v", r)
			}
			h.byHand("os", "v2b", 50)
			h.step(161)
			h.want("n1/os@v3")
			if r := h.plan.Redispatch; len(r) != 0 {
				h.t.Errorf("%+v", r)
			}
		}, "the older version would take it back: the newer one is next"},
		{"a run that was never dispatched, whose target somebody takes beyond both groups", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.crash("n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.byHand("os", "v9", 161)
			h.step(162)
			h.is(StatusExecuting, "os=skipped")
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "neither version is for it any more"},
		{"a target that became outdated after its run", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.targets[[2]string{"n1", "os"}].OutdatedAt = at(100)
			h.end("n1", "containerd", RunSucceeded, 159)
			h.end("n1", "kubelet", RunSucceeded, 159)
			h.step(160)
			h.merged(true)
			h.want("n1/os@v2")
		}, "the same version again, because the run began before"},
		{"a target that became outdated as its run began", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			x := h.open("n1")
			x.Members[x.member("os")].StartedAt = at(100)
			h.targets[[2]string{"n1", "os"}].OutdatedAt = at(100)
			h.end("n1", "containerd", RunSucceeded, 159)
			h.end("n1", "kubelet", RunSucceeded, 159)
			h.step(160)
			h.merged(false)
		}, "the run that began then counts: the newer group has nothing else to give"},
		{"a pre that an operator skipped", func(h *host) {
			merging(h)
			h.until(60, "n1", "drain")
			h.fails("drain", 61)
			h.order(Skip, "n1", "drain", 62)
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/os@v2")
		}, "skipped counts as prepared"},
		{"back to the version that the target ran before a run that failed", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(500)
			h.version("os", "v2").EligibleAt = time.Time{}
			h.next("kubelet@v3")
			h.step(160)
			h.merged(true)
			h.want("n1/os@v1")
		}, "nobody knows what the run of v2 has left behind, so v1 runs again"},
		{"back to the version that the target ran, and that fails, too", func(h *host) {
			merging(h)
			h.rule.OnMemberFailure = RollbackAll
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 61).RetryAt = at(500)
			h.version("os", "v2").EligibleAt = time.Time{}
			h.next("kubelet@v3")
			h.step(160)
			h.start()
			h.fails("os", 161)
			h.want("n1/os@v1!")
		}, "a run of another version has touched the target, however many follow"},
		{"a target that waits and became outdated", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "kubelet"}].OutdatedAt = at(100)
			h.next("containerd@v3")
			h.succeeds("os", 160)
			h.merged(true)
			h.want("n1/containerd@v3 n1/kubelet@v1")
		}, "the newer group locks what it runs, and that needs a new run"},
		{"merging twice", func(h *host) {
			merging(h)
			h.rule.MaxMerges = ptr(2)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(160)
			h.publish("os", "v4", 200)
			h.step(260)
			if x := h.open("n1"); len(x.Merged) != 2 || x.Generation != 3 {
				h.t.Fatalf("%s", describe(h.state))
			}
			if v := h.evaluate("n1", "os", "v2"); v.Reason != ReasonInProgress {
				h.t.Errorf("what runs is the version it was started with: %+v", v)
			}
			h.succeeds("os", 261)
			h.want("n1/os@v4")
			h.publish("os", "v5", 300)
			h.step(360)
			h.merged2()
		}, "as often as the rule allows, and no more"},
		{"the merged group goes on elsewhere and ends", func(h *host) {
			merging(h)
			h.node("n2")
			h.step(60)
			h.start("n1/drain")
			h.end("n1", "drain", RunSucceeded, 61)
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			if got := events(h.plan); !strings.Contains(got, "group_merged n1 2 superseded") {
				h.t.Error(got)
			}
			if n := len(h.state.Group.Closed); n != 2 || h.state.Group.Closed[1].Status != StatusExecuting {
				h.t.Errorf("%s", describe(h.state))
			}
			h.finishAll(160)
			if n := len(h.state.Group.Closed); n != 1 || h.state.Group.Closed[0].Status != StatusCompleted || number(h.record("n2").Last["prod"].Group) != 2 ||
				number(h.record("n1").Last["prod"].Group) != 1 {
				h.t.Errorf("%s", describe(h.state))
			}
			if v := h.evaluate("n1", "os", "v3"); v.Reason != ReasonCurrent {
				h.t.Errorf("%+v", v)
			}
		}, "superseded where it was merged, executed where it was not"},
		{"into an execution that ends at once", func(h *host) {
			merging(h)
			h.rule.MemberRoles = &MemberRoles{}
			h.members = []Member{{Deployment: "os"}}
			h.step(60)
			h.start()
			old := h.state.Executions // read once more below, after all that follows
			h.next("os@v3")
			h.step(160) // merges
			h.succeeds("os", 161)
			h.start()
			h.succeeds("os", 162)
			h.publish("os", "v4", 200)
			h.step(260)
			h.want("n1/os@v4")
			h.state.Executions = old
			plan := h.step(261)
			if got := h.record("n1").Last["prod"]; len(plan.Start) != 0 || !got.includes(h.state.Group.Closed[0].ID) {
				h.t.Errorf("%s %+v", describeStarts(plan), got)
			}
		}, "the runs of the second generation are taken for those of the group that is merged now: it has ended there, and is not offered; the save will fail"},
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
		{"who went back and holds the node, beside who waits", func(h *host) {
			merging(h)
			h.rule.OnMemberFailure = RollbackMember
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 61)
			h.fails("kubelet", 61)
			h.want("n1/kubelet@v1!")
			h.start()
			h.succeeds("kubelet", 62)
			if w := h.wait("uncordon"); len(waitsOf(h.plan)) != 1 || w.Reason != ReasonFailedHolding || kinds(w.On) != "operator" {
				h.t.Errorf("%+v", waitsOf(h.plan))
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

// roles declares the hooks of the node policy.
func roles(h *host) {
	h.rule.MemberRoles = &MemberRoles{Pre: "x", Post: "y"}
	h.members[0].Role, h.members[4].Role = Pre, Post
}

func (h *host) merged2() {
	h.t.Helper()
	if x := h.open("n1"); len(x.Merged) != 2 {
		h.t.Fatalf("%s", describe(h.state))
	}
}

// TestWakesForMerges: a plan with a group that is queued on a resource wakes when the group is due
// there only if something is different then.
func TestWakesForMerges(t *testing.T) {
	wakes := func(h *host, minutes int) {
		h.t.Helper()
		h.due["n1"] = at(200)
		h.step(170)
		want := time.Time{}
		if minutes > 0 {
			want = at(minutes)
		}
		if !h.plan.Next.Equal(want) {
			h.t.Errorf("next is %v, want %v\n%s", h.plan.Next, want, h.plan)
		}
	}
	tell(t, []scenario{
		{"it will be merged", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("kubelet@v3")
			wakes(h, 200)
			h.step(200)
			h.merged(true)
		}, "the merge must not be late"},
		{"only the budget will be in the way", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.next("os@v3")
			h.step(160)
			h.merged(true)
			h.publish("kubelet", "v4", 165)
			h.due["n1"] = at(300)
			h.step(226)
			if !h.plan.Next.Equal(at(300)) {
				h.t.Errorf("next is %v\n%s", h.plan.Next, h.plan)
			}
			h.step(300)
			if w := waitsOf(h.plan)[len(waitsOf(h.plan))-1]; w.Reason != ReasonMergeBudget {
				h.t.Errorf("%s", w)
			}
		}, "another reason is told"},
		{"the execution follows a rule that merges nothing", func(h *host) {
			h.until(60, "n1", "os")
			merging(h)
			h.next("kubelet@v3")
			wakes(h, 0)
		}, "it keeps the rule that it began with"},
		{"its members have the versions already", func(h *host) {
			merging(h)
			h.rule.ReadinessMode, h.rule.ReadinessWindowSeconds = Immediate, nil
			h.until(60, "n1", "os")
			h.node("n2")
			h.publish("drain", "v2", 100) // a hook changes no main
			h.next("os@v3")
			h.targets[[2]string{"n1", "os"}].OutOfScope = []string{"v3"}
			wakes(h, 0)
		}, "it has nothing that is different on this resource"},
		{"a post has started", func(h *host) {
			merging(h)
			h.until(60, "n1", "uncordon")
			h.next("os@v3")
			wakes(h, 0)
		}, "nothing is merged any more"},
		{"a post has not started yet", func(h *host) {
			merging(h)
			h.until(60, "n1", "kubelet")
			h.next("os@v3")
			wakes(h, 200)
		}, "it can still be merged"},
	})
}

// TestLateClockWakesForNoLock: a planner whose clock is behind the close counts what the group has
// locked as eligible, and does not wake when it would be by its own clock.
func TestLateClockWakesForNoLock(t *testing.T) {
	h := newHost(t, "n1")
	h.rule.ReadinessMode, h.rule.ReadinessWindowSeconds = Immediate, nil
	h.publish("os", "v2", 60)
	h.step(60)
	h.start()
	if h.step(50); !h.plan.Next.IsZero() {
		t.Errorf("it wakes at %v\n%s", h.plan.Next, h.plan)
	}
	h.version("os", "v2").EligibleAt = at(90) // it was taken back, for a time
	if h.step(70); !h.plan.Next.Equal(at(90)) {
		t.Errorf("it wakes at %v, and the version is eligible again at %v", h.plan.Next, at(90))
	}
}
