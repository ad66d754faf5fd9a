package bracket

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The defects of the RFC's sketch and of neighbouring systems that must not be reproducible, each
// by name, and the promises about groups that follow from them.
func TestDefects(t *testing.T) {
	tell(t, []scenario{
		{"evaluating creates groups", func(h *host) {
			h.step(-100)
			before := describe(h.state)
			for range 10 {
				h.evaluate("n1", "os", "v2")
			}
			if describe(h.state) != before || h.state.Group.Number != 0 {
				h.t.Error(describe(h.state))
			}
		}, "the sketch finds or creates a group in its evaluator"},
		{"windows reopen for nothing", func(h *host) {
			end := h.finishAll(60)
			for m := end; m < end+5000; m += 500 {
				if plan := h.step(m); h.state.Group.Number != 1 || h.state.Group.Collecting != nil || !plan.Next.IsZero() {
					h.t.Fatalf("%s next %v", describe(h.state), plan.Next)
				}
			}
		}, "I15: a group opens only for a new version"},
		{"a state older than the runs of the group that came next", func(h *host) {
			h.until(60, "n1", "uncordon")
			h.publish("os", "v3", 61)
			h.step(125)
			old := h.state
			h.end("n1", "uncordon", RunSucceeded, 126)
			h.step(126)
			h.want("n1/drain@v1")
			h.start()
			h.state = old
			h.order(Skip, "n1", "nobody", 126)
			h.commands = append(h.commands,
				Command{ID: "next", Kind: Skip, Group: GroupID("rule", "prod", 2), Resource: "n1", Deployment: "os"},
				Command{ID: "never", Kind: Resolve, Group: GroupID("rule", "prod", 2), Resource: "n0"})
			plan := h.step(127) // which makes sure that nothing changes when it is repeated
			if len(plan.Refused) != 2 || plan.Refused[0].ID != "never" || plan.Refused[1].Deployment != "nobody" {
				h.t.Errorf("each refused command once, by resource, and not the one that the opened execution takes: %+v", plan.Refused)
			}
			if m := h.open("n1").Members; !slices.ContainsFunc(m, func(m ExecutionMember) bool { return m.Deployment == "os" && m.Status == MemberSkipped }) {
				h.t.Errorf("%+v", m)
			}
			if x := h.open("n1"); number(x.Group) != 2 || x.Members[1].Status != MemberRunning {
				h.t.Errorf("%s", describe(h.state))
			}
			if got := events(plan); got != "execution_ended n1 1 completed, group_superseded 1 superseded, execution_started n1 2 executing" {
				h.t.Errorf("%s", got)
			}
		}, "I6: the step that sees the end of one execution takes up the next, and does not leave it to the next call"},
		{"a state older than the first run of the group that came next, on the last of three resources", func(h *host) {
			h.node("n0")
			h.node("n2")
			h.until(60, "n2", "uncordon")
			h.publish("os", "v3", 61)
			h.step(125)
			old := h.state
			h.end("n2", "uncordon", RunSucceeded, 126)
			h.step(126)
			h.want("n2/drain@v1")
			h.start()
			h.state = old
			if plan := h.step(127); events(plan) != "execution_ended n2 1 completed, execution_started n2 2 executing" {
				h.t.Errorf("%s", events(plan))
			}
		}, "I6: the runs of the resources before it are not its own"},
		{"the window starts when somebody looks", func(h *host) {
			h.step(45)
			if c := h.state.Group.Collecting; c == nil || !c.OpenedAt.Equal(at(0)) || !h.plan.Next.Equal(at(60)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "it starts at the instant of the version"},
		{"a version published after the window slips in", func(h *host) {
			h.publish("os", "v3", 61)
			h.step(62)
			if g := h.state.Group.Closed[0]; g.Members[3].Locks[0].ID != "v2" {
				h.t.Errorf("%s", describe(h.state))
			}
			if v := h.evaluate("n1", "os", "v3"); v.Reason.Status() == Allowed {
				h.t.Errorf("%+v", v)
			}
		}, "locks are taken at the close, however late the call"},
		{"a version of the closing instant belongs to the group", func(h *host) {
			h.publish("os", "v3", 60)
			h.versions = append(h.versions, Version{Deployment: "kubelet", ID: "v3", CreatedAt: at(60).Add(1), EligibleAt: at(60).Add(1)})
			h.step(62)
			if g := h.state.Group.Closed[0]; g.Members[3].Locks[0].ID != "v3" || g.Members[2].Locks[0].ID != "v2" {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "both ends are included; a nanosecond later is the next group"},
		{"two versions of one instant", func(h *host) {
			h.publish("os", "v9", 1)
			h.publish("os", "v10", 1)
			end := h.finishAll(61)
			if g := h.state.Group.Closed[0]; g.Members[3].Locks[0].ID != "v9" || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
			h.publish("os", "v95", 1) // seen later
			h.step(end)
			if c := h.state.Group.Collecting; c == nil || number(c.ID) != 2 {
				h.t.Error(describe(h.state))
			}
		}, "their ids tell, byte-wise: v10 is older than v9, which is older than v95"},
		{"now == end", func(h *host) {
			h.stepAt(at(60).Add(-1))
			h.want("")
			h.step(60)
			h.want("n1/drain@v1")
		}, "collecting on [T, c), closed from c on"},
		{"merge after uncordon started", func(h *host) {
			merging(h)
			h.until(60, "n1", "uncordon")
			h.next("os@v3")
			h.step(160)
			h.merged(false)
		}, "the sketch merges as long as the drain is complete"},
		{"any version while merging", func(h *host) {
			merging(h)
			h.until(60, "n1", "os")
			h.publish("kubelet", "v9", 70)
			h.succeeds("os", 71)
			if v := h.evaluate("n1", "kubelet", "v9"); v.Reason.Status() == Allowed {
				h.t.Errorf("%+v", v)
			}
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "the sketch lets arbitrary versions in under merge"},
		{"any version without a lock", func(h *host) {
			h.version("containerd", "v2").EligibleAt = time.Time{}
			h.version("containerd", "v1").EligibleAt = time.Time{}
			h.step(60)
			for _, candidate := range []string{"v2", "v0"} {
				if v := h.evaluate("n1", "containerd", candidate); v.Reason.Status() == Allowed {
					h.t.Errorf("%s: %+v", candidate, v)
				}
			}
			if v := h.evaluate("n1", "containerd", "v1"); v.Reason != ReasonCurrent {
				h.t.Errorf("%+v", v)
			}
		}, "the sketch allows every version of a member without lock"},
		{"require_all denies for ever", func(h *host) {
			h.rule.UnchangedMemberStrategy = RequireAll
			h.versions = h.versions[:len(h.versions)-1] // no v2 of containerd
			h.step(60)
			if g := h.state.Group.Closed[0]; !g.TimedOut || g.Strategy != SkipUnchanged {
				h.t.Errorf("%s", describe(h.state))
			}
			h.want("n1/drain@v1")
		}, "after the timeout it means skip"},
		{"uncordon on an old drain", func(h *host) {
			h.finishAll(60)
			h.publish("os", "v3", 100)
			h.step(160)
			h.want("n1/drain@v1")
			for _, d := range []string{"os", "uncordon"} {
				if v := h.evaluate("n1", d, map[string]string{"os": "v3", "uncordon": "v1"}[d]); v.Reason != ReasonWaitsForMembers {
					h.t.Errorf("%s: %+v", d, v)
				}
			}
		}, "a success in another group never counts"},
		{"any-of dependencies", func(h *host) {
			h.until(60, "n1", "kubelet")
			h.succeeds("containerd", 61)
			h.want("")
			if v := h.evaluate("n1", "uncordon", "v1"); v.Reason != ReasonWaitsForMembers || len(v.On) != 1 || v.On[0].Deployment != "kubelet" {
				h.t.Errorf("%+v", v)
			}
		}, "one of two upgrades is not enough to uncordon"},
		{"the slot holder blocks itself", func(h *host) {
			h.until(60, "n1", "os")
			h.succeeds("os", 61)
			for _, s := range h.plan.Start {
				if s.First || s.Run.Group != h.open("n1").Group {
					h.t.Errorf("%+v", s)
				}
			}
		}, "every further run claims the lease that the execution holds"},
		{"the slot is lost between two jobs", func(h *host) {
			h.until(60, "n1", "os")
			h.end("n1", "os", RunSucceeded, 61)
			h.step(61) // nothing runs now
			if h.open("n1") == nil || strings.Contains(events(h.plan), string(ExecutionEnded)) {
				h.t.Error("the execution ended between two jobs")
			}
		}, "the lease follows the execution, not the jobs"},
		{"drained to wait for a window", func(h *host) {
			h.due["n1"] = at(600)
			h.step(60)
			h.want("")
			h.step(599)
			h.want("")
			if !h.plan.Next.Equal(at(600)) {
				h.t.Errorf("next %v", h.plan.Next)
			}
			h.step(601)
			h.want("n1/drain@v1")
			if s := h.plan.Start[0]; !s.First || !s.DueAt.Equal(at(600)) {
				h.t.Errorf("%+v", s)
			}
		}, "an execution starts only when every member may run"},
		{"a hook opens a group", func(h *host) {
			h.versions = h.versions[:5] // no v2 at all
			h.publish("drain", "v2", 0)
			h.step(60)
			if h.state.Group.Number != 0 {
				h.t.Errorf("%s", describe(h.state))
			}
			h.publish("os", "v2", 70)
			h.step(130)
			h.want("n1/drain@v2")
		}, "it is taken along when a main opens one"},
		{"a hook goes back with a lock", func(h *host) {
			h.publish("drain", "v2", 0)
			h.targets[[2]string{"n1", "drain"}].Current = "v2"
			h.version("drain", "v2").EligibleAt = time.Time{}
			h.step(60)
			h.want("n1/drain@v2")
		}, "the newer version was withdrawn, so the group locks the one before; where the newer one runs it runs on, as everywhere"},
		{"an undrained upgrade", func(h *host) {
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.step(60)
			h.want("")
			if w := waitsOf(h.plan); len(w) != 1 || w[0].Reason != ReasonHookWithoutVersion || w[0].On[0].Deployment != "drain" {
				h.t.Errorf("%+v", w)
			}
			h.version("drain", "v1").EligibleAt = at(61)
			h.publish("drain", "v1b", 62)
			h.step(63)
			h.want("")
		}, "a hook without version blocks the execution; only the next group locks a later one"},
		{"late calls lose groups", func(h *host) {
			h.publish("os", "v3", 100)
			h.publish("os", "v4", 161)
			h.step(1000)
			if got := events(h.plan); got != "group_opened 1 collecting, group_closed 1 ready, group_opened 2 collecting, group_closed 2 ready, group_superseded 1 superseded, "+
				"group_opened 3 collecting, group_closed 3 ready, group_superseded 2 superseded" {
				h.t.Error(got)
			}
			if g := h.state.Group.Closed; len(g) != 1 || !g[0].OpenedAt.Equal(at(161)) || !g[0].ReadyAt.Equal(at(221)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "a late call closes and opens as many groups as the time contains"},
		{"a group whose execution goes on is not superseded yet", func(h *host) {
			h.until(60, "n1", "os")
			h.publish("os", "v3", 61)
			h.step(121)
			if got := events(h.plan); got != "group_opened 2 collecting, group_closed 2 ready" || len(h.state.Group.Closed) != 2 {
				h.t.Error(got, describe(h.state))
			}
			h.order(Resolve, "n1", "", 130)
			h.step(131)
			if got := events(h.plan); got != "execution_ended n1 1 completed, group_superseded 1 superseded" || !h.plan.Events[1].At.Equal(at(130)) || len(h.state.Group.Closed) != 1 {
				h.t.Error(got, h.plan.Events, describe(h.state))
			}
		}, "it is when none is open any more, at the instant of that"},
		{"a version that arrives while the previous window is open joins it", func(h *host) {
			h.publish("os", "v3", 59)
			h.step(70)
			if h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "the newest at the close wins"},
		{"a window opens no earlier than the previous close", func(h *host) {
			h.step(60)
			h.publish("os", "v3", 30) // published then, seen now
			h.step(61)
			if c := h.state.Group.Collecting; c == nil || !c.OpenedAt.Equal(at(60)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "groups follow one another"},
		{"the last new version disappears", func(h *host) {
			h.step(30)
			for i := range h.versions {
				if h.versions[i].ID == "v2" {
					h.versions[i].EligibleAt = time.Time{}
				}
			}
			h.step(40)
			if got := events(h.plan); got != "group_cancelled 1 cancelled" || h.state.Group.Collecting != nil {
				h.t.Error(got)
			}
			h.version("os", "v2").EligibleAt = at(50)
			h.step(55)
			if c := h.state.Group.Collecting; c == nil || number(c.ID) != 2 || !c.OpenedAt.Equal(at(50)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "the group ends cancelled; its number is not used again"},
		{"a lock that is revoked", func(h *host) {
			h.targets[[2]string{"n1", "os"}].OutOfScope = []string{"v2"}
			h.node("n2")
			h.step(60)
			if locks := h.state.Group.Closed[0].Members[3].Locks; len(locks) != 2 || locks[0].ID != "v2" || locks[1].ID != "v1" {
				h.t.Errorf("%v", locks)
			}
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(61)
			h.start()
			h.is(StatusExecuting, "os=skipped kubelet=skipped containerd=waiting")
			if x := h.record("n2").Open; x.Members[x.member("os")].Version != "v2" || x.Members[x.member("kubelet")].Status != MemberSkipped {
				h.t.Errorf("%+v", x)
			}
		}, "I5: locks only shrink, by scope and eligibility at the freeze"},
		{"a lock whose gate has shut again for a while", func(h *host) {
			h.versions = h.versions[:6] // v2 of os
			h.step(60)
			h.want("n1/drain@v1")
			h.version("os", "v2").EligibleAt = at(100)
			h.step(61)
			h.want("")
			if v := h.evaluate("n1", "os", "v2"); !h.plan.Next.Equal(at(100)) || v.Reason.Status() == Allowed {
				h.t.Errorf("next %v, %+v", h.plan.Next, v)
			}
			h.stepAt(at(100).Add(-1))
			h.want("")
			h.step(100)
			h.want("n1/drain@v1")
			h.start()
			h.version("os", "v2").EligibleAt = at(200)
			h.succeeds("drain", 101)
			h.want("n1/os@v2")
		}, "a gate that opens later is shut until then, whatever it said before; what an execution has frozen it keeps"},
		{"a clock behind the one that closed the group", func(h *host) {
			h.publish("kubelet", "v3", 60)
			h.due["n1"] = at(0)
			h.step(60)
			h.step(59)
			h.want("n1/drain@v1")
			h.start()
			if m := h.open("n1").Members[2]; m.Deployment != "kubelet" || m.Version != "v3" || m.Status != MemberWaiting {
				h.t.Errorf("%+v", m)
			}
		}, "a now before instants in the state undoes nothing: v3 was eligible at the close, and the execution would have left it out for good"},
		{"outdated after the close, before the start", func(h *host) {
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.due["n1"] = at(70)
			h.step(60)
			h.targets[[2]string{"n1", "kubelet"}].OutdatedAt = at(61)
			h.step(70)
			h.start()
			h.is(StatusExecuting, "os=waiting kubelet=skipped")
			if c := h.state.Group.Collecting; c == nil || !c.OpenedAt.Equal(at(61)) {
				h.t.Error(describe(h.state))
			}
		}, "it opens the next group instead of slipping into this one"},
		{"an outdated target bypasses the bracket", func(h *host) {
			end := h.finishAll(60)
			h.targets[[2]string{"n1", "os"}].OutdatedAt = at(100)
			h.step(end + 200)
			if c := h.state.Group.Closed; len(c) != 1 || !c[0].OpenedAt.Equal(at(100)) || !c[0].ReadyAt.Equal(at(160)) {
				h.t.Errorf("%s", describe(h.state))
			}
			h.want("n1/drain@v1")
			h.start()
			h.is(StatusExecuting, "os=waiting kubelet=skipped")
			h.targets[[2]string{"n1", "kubelet"}].OutdatedAt = at(161)
			h.finishAll(end + 200)
			if number(h.state.Group.Closed[0].ID) != 2 || h.state.Group.Collecting != nil && number(h.state.Group.Collecting.ID) != 3 {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "a change of variables opens a group, with the instant of the change"},
		{"a resource that joins later is forgotten", func(h *host) {
			h.finishAll(60)
			if h.state.Group.Closed[0].Status != StatusCompleted {
				h.t.Errorf("%s", describe(h.state))
			}
			h.node("n2")
			h.step(200)
			h.want("n2/drain@v1")
			if h.state.Group.Number != 1 {
				h.t.Errorf("%s", describe(h.state))
			}
			h.finishAll(200)
			if h.state.Group.Closed[0].Status != StatusCompleted {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "it gets an execution of the latest closed group"},
		{"a resource without mains", func(h *host) {
			h.target("n2", "drain", "v0")
			h.target("n2", "uncordon", "v0")
			h.step(60)
			h.want("n1/drain@v1")
			if v := h.evaluate("n2", "drain", "v1"); v.Reason != ReasonHookWaitsForMain {
				h.t.Errorf("%+v", v)
			}
		}, "hooks run exactly where a main is deployed"},
		{"a member without a target here", func(h *host) {
			delete(h.targets, [2]string{"n1", "os"})
			h.target("n2", "os", "v1")
			h.until(60, "n1", "drain")
			h.succeeds("drain", 61)
			h.want("n1/containerd@v2 n1/kubelet@v2")
		}, "a need without target on this resource is satisfied"},
		{"a dependency on a version", func(h *host) {
			h.members[3].Needs = []string{"drain"}
			h.members[3].NeedsIf = []ConditionalNeed{{"os", []string{"v2"}}, {"kubelet", []string{"v9"}}}
			h.node("n2")
			h.targets[[2]string{"n2", "os"}].OutOfScope = []string{"v2"}
			h.step(60)
			h.start()
			h.end("n1", "drain", RunSucceeded, 61)
			h.end("n2", "drain", RunSucceeded, 61)
			h.step(61)
			h.want("n1/os@v2 n2/containerd@v2 n2/kubelet@v2")
		}, "decided once, by the version that the other member will run"},
		{"a dependency on a version of the first member", func(h *host) {
			h.members[2].NeedsIf = []ConditionalNeed{{"containerd", []string{"v2"}}}
			h.until(60, "n1", "os")
			h.succeeds("os", 61)
			h.want("n1/containerd@v2")
		}, "in the order of ids it is like any other"},
		{"a version that was locked, withdrawn and approved again", func(h *host) {
			h.publish("os", "v3", 1)
			h.due["n1"] = time.Time{}
			h.step(61)
			h.version("os", "v3").EligibleAt = time.Time{}
			h.publish("kubelet", "v3", 70)
			h.step(130)
			if g := h.state.Group; g.Number != 2 || g.Closed[0].Members[3].Locks[0].ID != "v2" || g.Marks["os"].ID != "v3" {
				h.t.Error(g.Marks, describe(h.state))
			}
			h.version("os", "v3").EligibleAt = at(140)
			if h.step(141); h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "I15: the mark is the greatest version that any group locked, not the last one"},
		{"a group closed by a planner that has not read what was locked", func(h *host) {
			h.publish("os", "v3", 1)
			h.due["n1"] = time.Time{}
			h.step(61)
			all := h.versions
			h.versions = slices.DeleteFunc(slices.Clone(all), func(v Version) bool { return v.Deployment == "os" && v.ID == "v3" })
			h.publish("kubelet", "v3", 70)
			h.step(130)
			if g := h.state.Group; g.Number != 2 || g.Closed[0].Members[3].Locks[0].ID != "v2" {
				h.t.Fatal(describe(h.state))
			}
			h.versions = append(all, h.versions[len(h.versions)-1])
			h.due = map[string]time.Time{}
			h.finishAll(131)
			if end := h.finishAll(190); h.state.Group.Number != 3 || h.targets[[2]string{"n1", "os"}].Current != "v3" || h.targets[[2]string{"n1", "kubelet"}].Current != "v3" || end == 190 {
				h.t.Error(describe(h.state))
			}
			if h.step(1000); h.state.Group.Number != 3 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "nobody withdrew the version: it gets a group of its own, and only one"},
		{"a group closed by a planner that has not read a member", func(h *host) {
			h.due["n1"] = time.Time{}
			h.step(61)
			members := h.members
			h.members = slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Deployment == "containerd" })
			h.members[3].Needs = []string{"kubelet"}
			h.publish("kubelet", "v3", 70)
			h.step(130)
			h.members = members
			if h.step(131); h.state.Group.Collecting == nil {
				h.t.Error(describe(h.state))
			}
		}, "the versions of that member are locked once more"},
		{"a group closed by a planner that has read a version for some, and not the one before it", func(h *host) {
			h.node("n2")
			h.publish("kubelet", "v3", 1)
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v3"}
			all := h.versions
			h.versions = slices.DeleteFunc(slices.Clone(all), func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.due["n1"], h.due["n2"] = time.Time{}, time.Time{}
			h.step(61)
			if locks := h.state.Group.Closed[0].Members[2].Locks; len(locks) != 2 || locks[0].ID != "v3" || locks[1].ID != "v1" {
				h.t.Fatal(describe(h.state))
			}
			h.versions = all
			h.due = map[string]time.Time{}
			h.finishAll(200)
			if h.state.Group.Number != 2 || h.targets[[2]string{"n1", "kubelet"}].Current != "v3" || h.targets[[2]string{"n2", "kubelet"}].Current != "v2" {
				h.t.Error(describe(h.state), h.targets[[2]string{"n1", "kubelet"}].Current, h.targets[[2]string{"n2", "kubelet"}].Current)
			}
			if h.step(1000); h.state.Group.Number != 2 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "whom the newer one is not for gets the other by one more group"},
		{"a resource for which the locked version is not, and that joins after the close", func(h *host) {
			h.publish("kubelet", "v3", 1)
			h.finishAll(61)
			h.node("n2")
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v3"}
			end := h.finishAll(200)
			if h.state.Group.Number != 2 || h.targets[[2]string{"n2", "os"}].Current != "v2" || h.targets[[2]string{"n2", "kubelet"}].Current != "v2" {
				h.t.Error(describe(h.state), h.targets[[2]string{"n2", "os"}].Current, h.targets[[2]string{"n2", "kubelet"}].Current)
			}
			drains := 0
			for run := range h.deploys {
				if run.Resource == "n2" && run.Deployment == "drain" {
					drains++
				}
			}
			if drains != 1 {
				h.t.Error(drains, "drains:", describe(h.state))
			}
			all := h.versions
			h.versions = slices.DeleteFunc(slices.Clone(all), func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.targets[[2]string{"n3", "kubelet"}] = &Target{Resource: "n3", Deployment: "kubelet", OutOfScope: []string{"v3"}}
			if h.step(end + 100); h.state.Group.Number != 2 || h.state.Group.Collecting != nil {
				h.t.Error("who has not read v2 cannot tell that v1 was missed:", describe(h.state))
			}
		}, "it gets the one that is, as one that joins gets every other"},
		{"a version for everybody that is approved after a newer one for some was locked", func(h *host) {
			h.node("n2")
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.publish("kubelet", "v3", 1)
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v3"}
			h.finishAll(60)
			if h.step(100); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Fatal(describe(h.state))
			}
			h.version("kubelet", "v2").EligibleAt = at(200)
			h.step(200)
			if c := h.state.Group.Collecting; c == nil || !c.OpenedAt.Equal(at(200)) {
				h.t.Fatal(describe(h.state))
			}
			if v := h.evaluate("n2", "kubelet", "v2"); v.Reason != ReasonCollecting {
				h.t.Errorf("%+v", v)
			}
			h.finishAll(260)
			if h.targets[[2]string{"n1", "kubelet"}].Current != "v3" || h.targets[[2]string{"n2", "kubelet"}].Current != "v2" {
				h.t.Error(describe(h.state), h.targets[[2]string{"n1", "kubelet"}].Current, h.targets[[2]string{"n2", "kubelet"}].Current)
			}
			if h.step(1000); h.state.Group.Number != 2 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "it is new for the others, who would wait for the next release"},
		{"the same while the newer one has not begun", func(h *host) {
			h.node("n2")
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.publish("kubelet", "v3", 1)
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v3"}
			h.due["n1"], h.due["n2"] = time.Time{}, time.Time{}
			h.step(60)
			if h.step(100); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error("what is locked is not new, though nobody runs it:", describe(h.state))
			}
		}, "I15"},
		{"the same, and nobody looks until that is over", func(h *host) {
			h.node("n2")
			h.version("kubelet", "v2").EligibleAt = at(200)
			h.publish("kubelet", "v3", 1)
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v3"}
			h.target("n3", "kubelet", "v1").OutOfScope = []string{"v2", "v3"} // for which no version is new
			h.due["n1"], h.due["n2"] = time.Time{}, time.Time{}
			h.step(300)
			if g := h.state.Group; g.Number != 2 || !g.latest().OpenedAt.Equal(at(200)) || !g.latest().ReadyAt.Equal(at(260)) {
				h.t.Error(describe(h.state))
			}
		}, "I9: after each close it is found out anew for whom the locks are not"},
		{"a version that is approved after a newer one was locked, and is for none of the others", func(h *host) {
			h.node("n2")
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.publish("kubelet", "v3", 1)
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v2", "v3"}
			h.due["n1"], h.due["n2"] = time.Time{}, time.Time{}
			h.step(60)
			h.version("kubelet", "v2").EligibleAt = at(200)
			if h.step(200); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "I15: whom it is for gets the newer one"},
		{"a version that the planner missed, and a newer one that is for everybody by now", func(h *host) {
			h.node("n2")
			h.publish("kubelet", "v3", 1)
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v3"}
			all := h.versions
			h.versions = slices.DeleteFunc(slices.Clone(all), func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.due["n1"], h.due["n2"] = time.Time{}, time.Time{}
			h.step(61)
			h.versions = all
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = nil
			if h.step(62); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "I15: a group that closed with all that is known now would not have locked it"},
		{"a rule that comes back after an older version was locked", func(h *host) {
			h.publish("os", "v3", 1)
			h.due["n1"] = time.Time{}
			h.step(61) // locks v3
			h.version("os", "v3").EligibleAt = time.Time{}
			h.publish("kubelet", "v3", 70)
			h.step(130) // locks v2
			h.gone = true
			h.step(131)
			h.gone = false
			h.targets[[2]string{"n1", "kubelet"}].Current, h.targets[[2]string{"n1", "containerd"}].Current = "v3", "v2" // by hand
			h.step(132)
			if c := h.state.Group.Collecting; c == nil {
				h.t.Error(describe(h.state))
			}
			h.due = map[string]time.Time{}
			h.finishAll(200)
			if got := h.targets[[2]string{"n1", "os"}].Current; got != "v2" {
				h.t.Errorf("os is at %s\n%s", got, describe(h.state))
			}
		}, "what the cancelled group had locked is new again, also below the greatest version that ever was locked"},
		{"a rule that comes back after a group that had no version of a member", func(h *host) {
			h.due["n1"] = time.Time{}
			h.step(61) // locks v2 of os
			h.version("os", "v1").EligibleAt, h.version("os", "v2").EligibleAt = time.Time{}, time.Time{}
			h.publish("kubelet", "v3", 70)
			h.step(130)
			h.gone = true
			h.step(131)
			h.gone = false
			h.version("os", "v1").EligibleAt, h.version("os", "v2").EligibleAt = at(132), at(132)
			h.targets[[2]string{"n1", "kubelet"}].Current, h.targets[[2]string{"n1", "containerd"}].Current = "v3", "v2" // by hand
			if h.step(133); h.state.Group.Number != 2 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "a version is new if it is greater than what was ever locked, whatever the cancelled group has not locked"},
		{"a group that has ended on a resource which is gone since", func(h *host) {
			h.node("n2")
			h.due["n1"] = time.Time{}
			h.step(60)
			h.start("n2/drain")
			h.order(Abandon, "n2", "", 61)
			h.step(61)
			for _, m := range h.members {
				delete(h.targets, [2]string{"n2", m.Deployment})
			}
			if h.step(62); h.state.Group.latest().Status != StatusExecuting {
				h.t.Error(describe(h.state))
			}
		}, "it has begun all the same"},
		{"a rule that comes back, and a target that was outdated", func(h *host) {
			h.versions = h.versions[:5] // all are at v1, and nothing is new
			h.targets[[2]string{"n1", "kubelet"}].OutdatedAt = at(30)
			h.due["n1"] = time.Time{}
			h.step(91)
			h.gone = true
			h.step(92)
			h.gone = false
			h.step(93)
			if c := h.state.Group.Collecting; c == nil || c.ID != "rule/prod/2" || !c.OpenedAt.Equal(at(90)) {
				h.t.Error(describe(h.state))
			}
		}, "the group that was to take care of it was cancelled"},
		{"commands before groups", func(h *host) {
			h.until(60, "n1", "drain")
			h.publish("os", "v3", 70)
			h.order(Resolve, "n1", "", 70)
			h.step(130)
			if got := events(h.plan); got != "execution_ended n1 1 completed, group_opened 2 collecting, group_closed 2 ready, group_superseded 1 superseded" {
				h.t.Error(got)
			}
		}, "a step folds commands and facts, then closes and opens groups, and its events say so"},
		{"the next of several instants", func(h *host) {
			h.node("n2")
			h.due["n1"], h.due["n2"] = at(500), at(400)
			plan := h.step(60)
			if w := waitsOf(plan); !plan.Next.Equal(at(400)) || len(w) != 2 || w[0].Reason != ReasonNotDue || !w[0].Until.Equal(at(500)) || w[1].Reason != ReasonNotDue || !w[1].Until.Equal(at(400)) {
				h.t.Errorf("%v, %+v", plan.Next, w)
			}
			h.due["n1"] = time.Time{}
			if w := waitsOf(h.step(60)); len(w) != 2 || w[0].Reason != ReasonNotDue || !w[0].Until.IsZero() || len(w[0].On) != 1 || w[0].On[0].Kind != OnConfig {
				h.t.Errorf("%+v", w)
			}
		}, "the earliest, not the first in order"},
		{"a locked version that is not for somebody any more", func(h *host) {
			h.node("n2")
			h.publish("kubelet", "v3", 1)
			h.due["n2"] = time.Time{}
			h.finishAll(60)
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v3"}
			if h.step(200); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
			h.targets[[2]string{"n1", "kubelet"}].Current = "v2"
			if h.step(201); h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "I15: whoever runs a version, or what is left of it, misses nothing"},
		{"marks of members without a new version stay", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.until(60, "n1", "os")
			h.fails("os", 61) // kubelet and containerd remain at v1
			h.start()
			h.succeeds("uncordon", 62)
			h.publish("os", "v3", 100)
			end := h.finishAll(160)
			if h.state.Group.Number != 2 || h.state.Group.Collecting != nil {
				h.t.Fatal(describe(h.state))
			}
			if h.step(end + 100); h.state.Group.Number != 2 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
		}, "I15: what a group has locked is not new after the next one either"},
		{"a target for which other versions are out of scope", func(h *host) {
			h.versions = h.versions[:5] // v1 of everything
			h.publish("kubelet", "v3", 0)
			h.publish("kubelet", "v2", -1)
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v3"}
			h.step(60)
			h.want("n1/drain@v1")
			if x := h.state.Group.Closed[0]; x.Members[2].Deployment != "kubelet" || len(x.Members[2].Locks) != 2 {
				h.t.Error(describe(h.state))
			}
		}, "v2 is new for it"},
		{"a target that runs what is in scope for it", func(h *host) {
			h.versions = h.versions[:5]
			h.publish("kubelet", "v2", -1)
			h.publish("kubelet", "v3", 0)
			own := h.targets[[2]string{"n1", "kubelet"}]
			own.Current, own.OutOfScope = "v2", []string{"v3"}
			if h.step(60); h.state.Group.Number != 0 {
				h.t.Error(describe(h.state))
			}
		}, "I15: nothing is new for anybody"},
		{"a member without targets", func(h *host) {
			h.member("ghost", "uncordon")
			h.publish("ghost", "v2", 0)
			h.step(60)
			if g := h.state.Group.Closed[0]; len(g.Members) != 5 || g.Members[4].Role != Post {
				h.t.Error(describe(h.state))
			}
		}, "it is left out of groups and of the roles that are derived"},
		{"two targets in the wrong order", func(h *host) {
			h.members = []Member{{Deployment: "os"}}
			o := h.observation()
			o.Targets = TargetList{{Resource: "n2", Deployment: "os", Current: "v1"}, {Resource: "n1", Deployment: "os", Current: "v1"}}
			_, plan, err := Step(h.rule, h.state, o, at(60))
			if err != nil || describeStarts(plan) != "n1/os@v2 n2/os@v2" {
				h.t.Errorf("%s, %v", describeStarts(plan), err)
			}
		}, "I8: not one of them is enough to tell"},
		{"a resource that nobody lists", func(h *host) {
			h.target("n2", "kubelet", "v1")
			h.step(60)
			if v := h.evaluate("n9", "kubelet", "v2"); v.Reason != ReasonNotLocked {
				h.t.Errorf("%+v", v)
			}
		}, "what may run on others does not run there"},
		{"a rule that is deleted before it had a group", func(h *host) {
			h.gone = true
			if h.step(60); h.state.Group.Number != 0 || len(h.plan.Events) != 0 {
				h.t.Errorf("%s %s", describe(h.state), events(h.plan))
			}
		}, "there is nothing to cancel"},
		{"a record without marks", func(h *host) {
			h.state.Group.Marks = nil
			h.step(60)
			if m := h.state.Group.Marks["kubelet"]; m.ID != "v2" || len(h.state.Group.Marks) != 3 { // of mains only
				h.t.Errorf("%+v", h.state.Group.Marks)
			}
		}, "a host may have written it by hand"},
		{"outdated as the window ends, seen late", func(h *host) {
			h.targets[[2]string{"n1", "containerd"}].Current = "v2" // the version that is locked
			h.targets[[2]string{"n1", "containerd"}].OutdatedAt = at(60)
			h.until(500, "n1", "kubelet")
			if h.state.Group.Number != 1 || h.state.Group.Collecting != nil {
				h.t.Error(describe(h.state))
			}
			h.is(StatusExecuting, "containerd=running")
		}, "I9, I15: the group that closes at that instant takes the target along, as one that closed in time would have"},
		{"two groups that close in one late call, and an execution of the first", func(h *host) {
			h.step(60)
			h.start()
			executions := h.state.Executions
			h.publish("os", "v3", 70)
			h.state = State{Group: NewState("rule", "prod").Group, Executions: executions} // the group record is older than the execution
			h.step(130)
			closed := h.state.Group.Closed
			if len(closed) != 2 || closed[0].Members[3].Locks[0].ID != "v2" || closed[1].Members[3].Locks[0].ID != "v3" {
				h.t.Error(describe(h.state))
			}
		}, "each keeps what it locked"},
		{"a group that has ended is not superseded", func(h *host) {
			h.finishAll(60)
			h.publish("os", "v3", 100)
			h.step(160)
			if got := events(h.plan); got != "group_opened 2 collecting, group_closed 2 ready" {
				h.t.Error(got)
			}
		}, "it has completed, and stays so"},
		{"a rule that comes back and waits for all", func(h *host) {
			h.due["n1"] = time.Time{}
			h.step(60)
			h.gone = true
			h.step(61)
			h.gone = false
			h.rule.ReadinessMode = WaitForAll
			h.step(62)
			if g := h.state.Group.Closed[0]; g.ID != "rule/prod/2" || !g.OpenedAt.Equal(at(60)) || !g.ReadyAt.Equal(at(60)) {
				h.t.Error(describe(h.state))
			}
		}, "its versions were eligible before the window opened: it closes at once, not before it opened"},
		{"nobody is upgraded, so nothing is redeployed", func(h *host) {
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			for _, m := range h.members {
				h.target("n2", m.Deployment, "v2")
			}
			h.targets[[2]string{"n2", "drain"}].Current, h.targets[[2]string{"n2", "uncordon"}].Current = "v1", "v1"
			h.targets[[2]string{"n2", "kubelet"}].OutOfScope = []string{"v9"} // no short cut for it
			h.step(60)
			h.want("n1/drain@v1")
		}, "an execution is needed only where a main is deployed"},
		{"a dependency on no version at all", func(h *host) {
			h.members = h.members[1:4] // os, kubelet, containerd, without hooks
			h.members[0].Needs, h.members[1].Needs = nil, nil
			h.members[2].Needs, h.members[2].NeedsIf = nil, []ConditionalNeed{{"os", nil}, {"kubelet", []string{"v9"}}, {"cni", []string{"v1"}}}
			h.member("cni") // which has no target anywhere
			h.step(60)
			h.want("n1/kubelet@v2 n1/os@v2 n1/containerd@v2")
			h.start()
			h.is(StatusExecuting, "containerd=running")
		}, "with any other version than those named there is no dependency"},
		{"a dependency on a version that came after the window, seen late", func(h *host) {
			h.members = h.members[1:4] // os, kubelet, containerd, without hooks
			h.members[0].Needs, h.members[1].Needs = nil, nil
			h.members[2].Needs, h.members[2].NeedsIf = nil, []ConditionalNeed{{"os", []string{"v3", "v0"}}, {"kubelet", []string{"v9"}}, {"kubelet", nil}}
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			h.publish("os", "v3", 61)
			h.targets[[2]string{"n1", "os"}].Current = "v3" // from other hands
			h.step(70)
			h.want("n1/kubelet@v2 n1/os@v3 n1/containerd@v2")
			if needs := h.state.Group.Closed[0].Members[0].NeedsIf; fmt.Sprint(needs) != "[{kubelet []} {kubelet [v9]} {os [v0]}]" {
				h.t.Errorf("what is not listed may be what a target runs, what came later was not there: %v", needs)
			}
		}, "I9: a step in time could not know that version when the group closed"},
		{"a version that makes hooks came after the window, seen late", func(h *host) {
			h.members[1].Needs, h.members[1].NeedsIf = nil, []ConditionalNeed{{"drain", []string{"v3"}}}
			h.members[2].Needs, h.members[3].Needs = []string{"os"}, []string{"os"}
			h.publish("drain", "v3", 61)
			h.step(70)
			h.want("n1/os@v2")
			if m := h.state.Group.Closed[0].Members; slices.ContainsFunc(m, func(m GroupMember) bool { return m.Role != Main }) {
				h.t.Errorf("%+v", m)
			}
			h.publish("kubelet", "v3", 70)
			h.step(130)
			if m := h.state.Group.latest().Members; m[1].Role != Pre || m[4].Role != Post {
				h.t.Errorf("the next group has it: %+v", m)
			}
		}, "I9: derived roles are those of the needs that there were when the group closed"},
		{"… and as the window ends", func(h *host) {
			h.members[1].Needs, h.members[1].NeedsIf = nil, []ConditionalNeed{{"drain", []string{"v3"}}}
			h.members[2].Needs, h.members[3].Needs = []string{"os"}, []string{"os"}
			h.publish("drain", "v3", 60)
			h.step(70)
			h.want("n1/drain@v3")
		}, "the window includes its end"},
		{"nothing to redeploy", func(h *host) {
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			h.targets[[2]string{"n1", "containerd"}].Current = ""
			h.targets[[2]string{"n1", "containerd"}].OutOfScope = []string{"v1", "v2"}
			h.until(60, "n1", "os")
			h.is(StatusExecuting, "containerd=skipped")
		}, "without lock and without current version there is no run"},
		{"a redeploy of a version that is not listed, of a target that has another one since", func(h *host) {
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			containerd := h.targets[[2]string{"n1", "containerd"}]
			containerd.Current = "v0"
			containerd.OutOfScope = []string{"v1", "v2"} // so that nothing is locked for it
			h.until(60, "n1", "drain")
			if m := h.open("n1").Members[0]; m.Version != "v0" || m.Action != ActionRedeploy {
				h.t.Errorf("%+v", m)
			}
			containerd.Current = "v1"
			h.step(61)
			h.is(StatusExecuting, "containerd=skipped")
		}, "a redeploy changes no version: nobody can tell whether v0 is older, and it was never asked for"},
		{"a dependency on a version decides the first start", func(h *host) {
			h.members = h.members[1:4] // os, kubelet, containerd, without hooks
			h.members[0].Needs, h.members[1].Needs = nil, nil
			h.members[2].Needs, h.members[2].NeedsIf = nil, []ConditionalNeed{{"os", []string{"v2"}}}
			h.targets = map[[2]string]*Target{}
			for _, d := range []string{"os", "kubelet", "containerd", "stranger"} {
				h.target("n1", d, "v1")
				h.target("n2", d, "v1")
			}
			h.targets[[2]string{"n2", "os"}].Current = "v2" // skipped there
			h.step(60)
			h.want("n1/kubelet@v2 n1/os@v2 n2/kubelet@v2 n2/containerd@v2")
			h.start()
			h.is(StatusExecuting, "containerd=waiting stranger=")
		}, "where os is deployed, containerd waits for it; targets of deployments outside the bracket are nobody's business"},
		{"now goes back", func(h *host) {
			h.until(60, "n1", "os")
			before := describe(h.state)
			h.step(-500)
			if describe(h.state) != before {
				h.t.Errorf("%s\n%s", before, describe(h.state))
			}
		}, "a now before instants in the state undoes nothing"},
		{"a version from the future", func(h *host) {
			h.versions = h.versions[:5]
			h.publish("os", "v2", 30)
			if plan := h.step(0); h.state.Group.Number != 0 || !plan.Next.Equal(at(30)) {
				h.t.Errorf("%s next %v", describe(h.state), plan.Next)
			}
		}, "the group opens when it is due, and Next says when"},
		{"eligible before it was created", func(h *host) {
			h.version("os", "v2").EligibleAt = at(-10)
			h.step(10)
			if c := h.state.Group.Collecting; !c.OpenedAt.Equal(at(0)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "a clock that differs must not open a window in the past"},
		{"published, approved during the window", func(h *host) {
			h.rule.TriggerOn = Published
			h.version("os", "v2").EligibleAt = at(50)
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.version("containerd", "v2").EligibleAt = time.Time{}
			h.step(60)
			if g := h.state.Group.Closed[0]; !g.OpenedAt.Equal(at(0)) || !g.ReadyAt.Equal(at(60)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "the window runs from publication"},
		{"published, approved after the window", func(h *host) {
			h.rule.TriggerOn = Published
			for _, d := range []string{"os", "kubelet", "containerd"} {
				h.version(d, "v2").EligibleAt = time.Time{}
			}
			h.step(100)
			h.version("os", "v2").EligibleAt = at(90)
			h.step(101)
			if g := h.state.Group.Closed[0]; !g.ReadyAt.Equal(at(90)) {
				h.t.Errorf("%s", describe(h.state))
			}
		}, "a window never closes empty-handed; then it closes at once"},
		{"a group that nobody needs", func(h *host) {
			h.finishAll(60)
			h.target("n2", "os", "v1").OutOfScope = []string{"v3"}
			h.publish("os", "v3", 100)
			h.targets[[2]string{"n1", "os"}].Current = "v1"
			h.step(150)
			h.targets[[2]string{"n1", "os"}].Current = "v3"
			h.step(155)
			if got := events(h.plan); got != "group_cancelled 2 cancelled" {
				h.t.Error(got)
			}
		}, "deployed by other means while it collected"},
		{"a group that has ended when its rule is deleted", func(h *host) {
			end := h.finishAll(60)
			h.gone = true
			if h.step(end + 1); h.state.Group.latest().Status != StatusCompleted || len(h.plan.Events) != 0 {
				h.t.Error(describe(h.state), events(h.plan))
			}
		}, "there is nothing to cancel"},
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
	})
}

// printed shows all instants of a state as they are in memory.
func printed(s State) string {
	text := fmt.Sprintf("%+v %+v", *s.Group, s.Group.Collecting)
	for _, g := range s.Group.Closed {
		text += fmt.Sprintf("%+v", *g)
	}
	for _, r := range s.Executions {
		text += fmt.Sprintf("%+v %+v", *r, r.Open)
	}
	return text
}

// A host's instants have zones and monotonic readings; what is stored has neither, so that it can
// be read again.
func TestInstantsAreStoredInUTC(t *testing.T) {
	now := time.Now() // once: the two clocks of another reading may differ by nanoseconds from those of this one
	for name, in := range map[string]func(time.Time) time.Time{
		"zone":    func(t time.Time) time.Time { return t.In(time.FixedZone("LMT", 19*60+32)) },
		"running": func(t time.Time) time.Time { return now.Add(t.Sub(now)) }, // with a monotonic reading
	} {
		h := newHost(t, "n1")
		h.publish("os", "v2", 0)
		h.publish("os", "v3", 62)
		for i := range h.versions {
			v := &h.versions[i]
			v.CreatedAt, v.EligibleAt = in(v.CreatedAt), in(v.EligibleAt)
		}
		h.targets[[2]string{"n1", "kubelet"}].OutdatedAt = in(at(62))
		h.due["n1"] = in(at(60))
		h.stepAt(in(at(60)))
		h.start()
		stored(t, h.state)
		f := h.end("n1", "drain", RunFailed, 61)
		f.StartedAt, f.EndedAt, f.RetryAt = in(at(60)), in(at(61)), in(at(62))
		h.stepAt(in(at(61)))
		stored(t, h.state)
		h.stepAt(in(at(62))) // a window opens
		h.start()
		stored(t, h.state)
		h.order(Abandon, "n1", "", 63)
		h.commands[0].At = in(at(63))
		h.stepAt(in(at(64)))
		h.endsAs(StatusCancelled, 63)
		if text := printed(h.state); strings.Contains(text, " m=") {
			t.Errorf("%s: a monotonic reading is kept: %s", name, text)
		}
		if stored(t, h.state); h.state.Group.Collecting == nil {
			t.Errorf("%s: %s", name, describe(h.state))
		}
		h.runs = map[Run]*RunFact{}
		h.stepAt(in(at(130)))
		run := h.plan.Start[0].Run
		h.runs[run] = &RunFact{Run: run, Status: RunRunning, StartedAt: in(at(130))} // nobody has committed it
		h.stepAt(in(at(131)))
		h.is(StatusExecuting, "drain=running")
		stored(t, h.state)
	}
}

// TestMembersOfAnExecution: few members are looked through and many are searched, both for those
// that it has and for those that it has not.
func TestMembersOfAnExecution(t *testing.T) {
	for n := range 2*nearby + 1 {
		var x Execution
		for i := range n {
			x.Members = append(x.Members, ExecutionMember{Deployment: fmt.Sprintf("d%02d", 2*i+1)})
		}
		for d := range 2*n + 1 {
			want := -1
			if d%2 == 1 {
				want = d / 2
			}
			if got := x.member(fmt.Sprintf("d%02d", d)); got != want {
				t.Errorf("d%02d of %d members is at %d, want %d", d, n, got, want)
			}
		}
	}
}

// A resource may have any few of the members, of which there may be many.
func TestFewOfManyMembers(t *testing.T) {
	const members = 40
	rule := Rule{DeploymentSelector: "true", ReadinessMode: Immediate}
	o := Observation{Targets: TargetList{}}
	want := map[string]bool{}
	for d := range members {
		deployment := fmt.Sprintf("d%02d", d)
		o.Members = append(o.Members, Member{Deployment: deployment})
		o.Versions = append(o.Versions, Version{ID: "v2", Deployment: deployment, CreatedAt: at(0), EligibleAt: at(0)})
	}
	for r, on := range [][]int{{39}, {0, 39}, {7, 8, 9, 10}, {20}, {0, 10, 20, 30}, {1, 9, 18, 28, 39}, {8}, {9}, {38, 39}} {
		resource := fmt.Sprintf("n%d", r)
		for _, d := range on {
			deployment := fmt.Sprintf("d%02d", d)
			o.Targets = append(o.Targets.(TargetList), Target{Resource: resource, Deployment: deployment, Current: "v1"})
			want[resource+" "+deployment] = true
		}
	}
	_, plan, err := Step(rule, NewState("nodes", "prod"), o, at(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range plan.Start {
		if own := s.Run.Resource + " " + s.Run.Deployment; !want[own] {
			t.Errorf("%s: starts", own)
		} else {
			delete(want, own)
		}
	}
	if len(want) > 0 {
		t.Errorf("these do not start: %v", want)
	}
}

// Step modifies nothing of the observation, however it is ordered.
func TestObservationIsNotTouched(t *testing.T) {
	h := newHost(t, "n1", "n2")
	h.publish("os", "v2", 0)
	h.members[3].NeedsIf = []ConditionalNeed{{"os", []string{"v9", "v2", "v1"}}}
	o := h.observation()
	run := func(resource string) RunFact {
		return RunFact{Run: Run{Group: "g", Resource: resource, Deployment: "os", Generation: 1, Attempt: 1, Purpose: Deploy}, Status: RunRunning}
	}
	o.Targets = TargetList{o.Targets.At(3), o.Targets.At(1), o.Targets.At(0), o.Targets.At(2), {Resource: "n0", Deployment: "os", OutOfScope: []string{"v2", "v1"}}}
	o.Runs = []RunFact{run("n2"), run("n1")}
	o.Commands = []Command{{ID: "b", Kind: Retry, Group: "g", Resource: "n2"}, {ID: "a", Kind: Retry, Group: "g", Resource: "n1"}}
	o.DeletedResources = []string{"z", "a"}
	was := fmt.Sprintf("%+v", o)
	if _, _, err := Step(h.rule, h.state, o, at(60)); err != nil {
		t.Fatal(err)
	}
	if is := fmt.Sprintf("%+v", o); is != was {
		t.Errorf("the observation was touched:\n%s\n%s", was, is)
	}
}

// What contradicts itself is an error, and changes nothing.
func TestStepRefusesContradictions(t *testing.T) {
	rows := []struct {
		name   string
		change func(h *host, o *Observation)
		want   string
		why    string
	}{
		{"invalid rule", func(h *host, o *Observation) { h.rule.ReadinessMode = "soon" }, `unknown_value rule.readinessMode: "soon"`, "enums fail closed"},
		{"no state", func(h *host, o *Observation) { h.state = State{} }, "required state.group", "a forgotten start"},
		{"state of no rule", func(h *host, o *Observation) { h.state = NewState("", "prod") }, "required state.group.rule", "its records could not be read again"},
		{"target of no resource", func(h *host, o *Observation) {
			o.Targets = append(o.Targets.(TargetList), Target{Deployment: "os", Current: "v1"})
		}, `required observation.targets: the resource of a target of "os" must be set`, "the record of its execution could not be read again"},
		{"target twice", func(h *host, o *Observation) { o.Targets = append(o.Targets.(TargetList), o.Targets.At(0)) }, "duplicate observation.targets", "which one runs what?"},
		{"version twice", func(h *host, o *Observation) { o.Versions = append(o.Versions, o.Versions[0]) }, `duplicate observation.versions: "v1": is listed twice for "drain"`, "which one is newer?"},
		{"version without instant", func(h *host, o *Observation) { o.Versions = append(o.Versions, Version{Deployment: "os", ID: "x"}) }, "required observation.versions[8]", "it has no place in the order"},
		{"version without id", func(h *host, o *Observation) {
			o.Versions = append(o.Versions, Version{Deployment: "os", CreatedAt: day0})
		}, "required observation.versions[8]", "empty means none"},
		{"member twice", func(h *host, o *Observation) { o.Members = append(o.Members, o.Members[0]) }, `duplicate observation.members[5].deployment: "drain"`, "whose needs count?"},
		{"cycle", func(h *host, o *Observation) { o.Members[0].Needs = []string{"os"} }, "cycle", "nothing could start"},
		{"run twice", func(h *host, o *Observation) {
			f := RunFact{Run: Run{Group: "g", Resource: "n1", Deployment: "os", Generation: 1, Attempt: 1, Purpose: Deploy}, Status: RunRunning}
			o.Runs = []RunFact{f, f}
		}, "duplicate observation.runs: g/n1/os/1/1/deploy", "which fact holds?"},
		{"run status", func(h *host, o *Observation) { o.Runs = []RunFact{{Status: "done"}} }, `unknown_value observation.runs: "done"`, "enums fail closed"},
		{"run that starts in the year 10000", func(h *host, o *Observation) {
			o.Runs = []RunFact{{Run: Run{Group: "g", Resource: "n1", Deployment: "os", Generation: 1, Attempt: 1, Purpose: Deploy}, Status: RunRunning, StartedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}
		}, "out_of_range observation.runs: \"10000-01-01T00:00:00Z\": is the start of g/n1/os/1/1/deploy", "no record that keeps it could be saved"},
		{"run that ends in the year 10000", func(h *host, o *Observation) {
			o.Runs = []RunFact{{Run: Run{Group: "g", Resource: "n1", Deployment: "os", Generation: 1, Attempt: 1, Purpose: Deploy}, Status: RunFailed, EndedAt: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}
		}, "out_of_range observation.runs: \"10000-01-01T00:00:00Z\": is the end of g/n1/os/1/1/deploy", "no record that keeps it could be saved"},
		{"next attempt for ever later", func(h *host, o *Observation) {
			o.Runs = []RunFact{{Run: Run{Group: "g"}, Status: RunFailed, RetryAt: at(0).Add(1<<63-1).Add(1<<63-1).AddDate(9000, 0, 0)}}
		}, "out_of_range observation.runs:", "a backoff that doubles gets there"},
		{"version of the year 0", func(h *host, o *Observation) {
			o.Versions = append(o.Versions, Version{Deployment: "os", ID: "x", CreatedAt: time.Date(0, 12, 31, 23, 0, 0, 0, time.UTC)})
		}, "out_of_range observation.versions[8].createdAt: \"0000-12-31T23:00:00Z\": must lie in the years 1 to 9999", "some databases write it for a missing date"},
		{"version of the year 10000, in UTC", func(h *host, o *Observation) {
			o.Versions = append(o.Versions, Version{Deployment: "os", ID: "x", CreatedAt: time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600))})
		}, "out_of_range observation.versions[8].createdAt: \"10000-01-01T00:00:00Z\": must lie", "its mark could not be saved"},
		{"command without id", func(h *host, o *Observation) { o.Commands = []Command{{Kind: Skip, Group: "g", Resource: "r"}} }, "required observation.commands[0].id", "it could not be applied once"},
		{"command without execution", func(h *host, o *Observation) { o.Commands = []Command{{ID: "c", Kind: Skip, Resource: "r"}} }, "required observation.commands[0].group: is required", "it must not hit the next one"},
		{"command without resource", func(h *host, o *Observation) { o.Commands = []Command{{ID: "c", Kind: Skip, Group: "g"}} }, "required observation.commands[0].resource: is required", "it must not hit the next one"},
		{"command of no kind", func(h *host, o *Observation) { o.Commands = []Command{{ID: "c", Group: "g", Resource: "r"}} }, "required observation.commands[0].kind: is required", "no decision is the default"},
		{"command kind", func(h *host, o *Observation) {
			o.Commands = []Command{{ID: "c", Kind: "stop", Group: "g", Resource: "r"}}
		}, `unknown_value observation.commands[0].kind: "stop"`, "enums fail closed"},
		{"resolve of a member", func(h *host, o *Observation) {
			o.Commands = []Command{{ID: "c", Kind: Resolve, Group: "g", Resource: "r", Deployment: "os"}}
		}, `conflict observation.commands[0].deployment: "os"`, "it would end the whole execution"},
		{"command of the year 10000", func(h *host, o *Observation) {
			o.Commands = []Command{{ID: "c", Kind: Skip, Group: "g", Resource: "r", At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}
		}, "out_of_range observation.commands[0].at: \"10000-01-01T00:00:00Z\"", "no record could keep it"},
		{"command twice", func(h *host, o *Observation) {
			c := Command{ID: "c", Kind: Skip, Group: "g", Resource: "r"}
			o.Commands = []Command{c, c}
		}, `duplicate observation.commands: "c"`, "one id, one decision"},
		{"too many due", func(h *host, o *Observation) { o.Due = func(PendingGroup) []time.Time { return make([]time.Time, 2) } },
			"out_of_range observation.due: returned 2 instants for 1 resources", "which one is not of a resource?"},
		{"due", func(h *host, o *Observation) { o.Due = func(PendingGroup) []time.Time { return nil } }, "out_of_range observation.due: returned 0 instants for 1 resources", "instants would belong to other resources"},
		{"member that is not UTF-8", func(h *host, o *Observation) { o.Members = append(o.Members, Member{Deployment: "os\xff"}) }, `type observation.members: "os\xff": must be UTF-8`, "the group would name another one"},
		{"version that is not UTF-8", func(h *host, o *Observation) {
			o.Versions = append(o.Versions, Version{Deployment: "os", ID: "v\xff", CreatedAt: day0})
		}, `type observation.versions: "v\xff": must be UTF-8`, "its mark would be that of another one"},
		{"resource that is not UTF-8", func(h *host, o *Observation) {
			o.Targets = append(o.Targets.(TargetList), Target{Resource: "n\xff", Deployment: "os"})
		}, `type observation.targets: "n\xff": must be UTF-8`, "its execution would not be found again, and begin twice"},
		{"current version that is not UTF-8", func(h *host, o *Observation) {
			o.Targets = append(o.Targets.(TargetList), Target{Resource: "n2", Deployment: "os", Current: "v\xff"})
		}, `type observation.targets: "v\xff": must be UTF-8`, "a rollback would lead to another one"},
		{"command that is not UTF-8", func(h *host, o *Observation) {
			o.Commands = []Command{{ID: "c\xff", Kind: Skip, Group: "g", Resource: "r"}}
		}, `type observation.commands[0].id: "c\xff": must be UTF-8`, "it would be applied a second time"},
		{"command of a person that is not UTF-8", func(h *host, o *Observation) {
			o.Commands = []Command{{ID: "c", Kind: Skip, Group: "g", Resource: "r", By: "J\xf6rg"}}
		}, `type observation.commands[0].by: "J\xf6rg": must be UTF-8`, "the record would name somebody else"},
		{"command with a reason that is not UTF-8", func(h *host, o *Observation) {
			o.Commands = []Command{{ID: "c", Kind: Skip, Group: "g", Resource: "r", Reason: "m\xfcde"}}
		}, `type observation.commands[0].reason: "m\xfcde": must be UTF-8`, "the record would give another one"},
		{"rule that is not UTF-8", func(h *host, o *Observation) { h.state = NewState("rule\xff", "prod") }, `type state.group.rule: "rule\xff": must be UTF-8`, "its records would be another's"},
		{"environment that is not UTF-8", func(h *host, o *Observation) { h.state = NewState("rule", "prod\xff") }, `type state.group.environment: "prod\xff": must be UTF-8`, "its records would be another's"},
		{"records out of order", func(h *host, o *Observation) {
			h.state.Executions = []*ExecutionRecord{{Rule: "rule", Resource: "b"}, {Rule: "rule", Resource: "a"}}
		}, `conflict state.executions[1].resource: "a": must come after "b"`, "they are joined in order"},
		{"record twice", func(h *host, o *Observation) {
			h.state.Executions = []*ExecutionRecord{{Rule: "rule", Resource: "a"}, {Rule: "rule", Resource: "a"}}
		}, `conflict state.executions[1].resource: "a": must come after "a"`, "two truths"},
		{"record of another rule", func(h *host, o *Observation) { h.state.Executions = []*ExecutionRecord{{Rule: "x", Resource: "a"}} }, `conflict state.executions[0].rule: "x"`, "wrong key loaded"},
		{"no record", func(h *host, o *Observation) { h.state.Executions = []*ExecutionRecord{nil} }, "required state.executions[0]", "a bug of the host"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			h := newHost(t, "n1")
			for _, d := range []string{"os", "kubelet", "containerd"} {
				h.publish(d, "v2", 0)
			}
			o := h.observation()
			row.change(h, &o)
			next, plan, err := Step(h.rule, h.state, o, at(60))
			if !strings.Contains(told(err), row.want) || row.why == "" {
				t.Fatalf("%q, want %q", told(err), row.want)
			}
			if fmt.Sprint(next) != fmt.Sprint(h.state) || len(plan.Start) > 0 {
				t.Error("the state changes, or something starts")
			}
		})
	}
}

// PendingGroup.Runs tells a host what will run, for windows and cooldowns of each member.
func TestPendingRuns(t *testing.T) {
	if runs := (PendingGroup{Resources: []string{"node"}}).Runs(0); runs != nil {
		t.Errorf("a group that no step has made runs %v", runs)
	}
	h := newHost(t, "n1", "n2")
	h.target("n3", "kubelet", "v1") // alone
	h.publish("kubelet", "v2", 0)
	h.publish("containerd", "v2", 0)
	h.targets[[2]string{"n2", "uncordon"}].Current = ""
	h.version("uncordon", "v1").EligibleAt = time.Time{}
	o := h.observation()
	var got []string
	calls := 0
	o.Due = func(p PendingGroup) []time.Time {
		calls++
		for i, r := range p.Resources {
			for _, run := range p.Runs(i) {
				got = append(got, fmt.Sprintf("%s/%s@%s(%s %s)", r, run.Deployment, run.Version, run.Role, run.Action))
			}
		}
		return make([]time.Time, len(p.Resources))
	}
	if _, _, err := Step(h.rule, h.state, o, at(60)); err != nil {
		t.Fatal(err)
	}
	want := "n1/drain@v1(pre run) n1/containerd@v2(main deploy) n1/kubelet@v2(main deploy) n1/uncordon@v1(post run) n2/drain@v1(pre run) n2/containerd@v2(main deploy) n2/kubelet@v2(main deploy) n2/uncordon@(post run) n3/kubelet@v2(main deploy)"
	if strings.Join(got, " ") != want || calls != 1 {
		t.Errorf("%v, %d calls\nwant %s", got, calls, want)
	}
	h.version("uncordon", "v1").EligibleAt = at(0)
	h.step(60)
	h.start("n1/drain")
	o = h.observation()
	o.Due = func(p PendingGroup) []time.Time {
		if !slices.Equal(p.Resources, []string{"n2", "n3"}) {
			t.Errorf("%v are pending, and n1 has begun", p.Resources)
		}
		return make([]time.Time, len(p.Resources))
	}
	if _, _, err := Step(h.rule, h.state, o, at(61)); err != nil {
		t.Fatal(err)
	}
}

// lazy is a list of targets that is in no order and not in memory.
type lazy struct{ of TargetList }

func (l lazy) Len() int        { return len(l.of) }
func (l lazy) At(i int) Target { return l.of[(i*7+3)%len(l.of)] }

// A host's own list of targets, in whatever order it has them, gives the plan that the list in
// memory gives.
func TestTargetsInNoOrder(t *testing.T) {
	h := newHost(t, "n1", "n2", "n3")
	h.publish("kubelet", "v2", 0)
	h.step(60)
	o := h.observation()
	list := o.Targets.(TargetList)
	if len(list)%7 == 0 {
		t.Fatalf("%d targets: some of them would be listed twice", len(list))
	}
	o.Targets = lazy{list}
	next, plan, err := Step(h.rule, h.state, o, h.now)
	if err != nil || dump(t, next) != dump(t, h.state) || describeStarts(plan) != h.starts() || len(plan.Start) != 3 {
		t.Errorf("%v: starts %s, want %s\n%s", err, describeStarts(plan), h.starts(), describe(next))
	}
	list[1] = list[4]
	if _, _, err := Step(h.rule, h.state, o, h.now); err == nil || !strings.Contains(told(err), "duplicate observation.targets") {
		t.Errorf("a target that is listed twice: %v", err)
	}
}

// A stored record may have marks and no group: what was locked is locked, and nothing older opens a
// group.
func TestMarksWithoutGroups(t *testing.T) {
	h := newHost(t, "n1")
	h.publish("kubelet", "v2", 0)
	h.state.Group = &GroupRecord{Schema: schema, Rule: "rule", Environment: "prod", Number: 4, Marks: map[string]VersionMark{"kubelet": {ID: "v2", CreatedAt: at(0)}}}
	h.step(60)
	if h.state.Group.Collecting != nil {
		t.Fatalf("v2 was locked before:\n%s", describe(h.state))
	}
	h.publish("kubelet", "v3", 61)
	h.step(61)
	if c := h.state.Group.Collecting; c == nil || number(c.ID) != 5 {
		t.Fatalf("v3 is new:\n%s", describe(h.state))
	}
}

// TestScopeOfManyVersions: of however many versions, the one that is not for a target is not deployed
// there.
func TestScopeOfManyVersions(t *testing.T) {
	for _, n := range []int{2, 62, 63, 64, 65, 66, 127, 128, 129, 130} {
		h := newHost(t, "n1")
		for i := range n {
			h.publish("kubelet", fmt.Sprintf("w%03d", i), 0)
		}
		h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{fmt.Sprintf("w%03d", n-1)}
		h.step(60)
		h.start()
		x := h.open("n1")
		if got, want := x.Members[x.member("kubelet")].Version, fmt.Sprintf("w%03d", n-2); got != want {
			t.Errorf("of %d versions %s is deployed, want %s", n, got, want)
		}
	}
}
