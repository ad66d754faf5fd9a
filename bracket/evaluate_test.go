package bracket

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// One row per line of the verdict table, in its order, each in the smallest world that reaches it.
func TestVerdicts(t *testing.T) {
	prepared := func(h *host) { // group 1 with kubelet v2 is closed at 60
		h.publish("kubelet", "v2", 0)
	}
	rows := []struct {
		name                  string
		setup                 func(h *host)
		deployment, candidate string
		reason                Reason
		until                 int // minutes, 0: none
		on                    string
		why                   string
	}{
		{"1 no member", func(h *host) { prepared(h); h.step(60) }, "cni", "v2", ReasonNotApplicable, 0, "", "the rule is silent about it"},
		{"1 no member beside an execution", func(h *host) { prepared(h); h.step(60); h.start() }, "cni", "v2", ReasonNotApplicable, 0, "", "an execution changes nothing about that"},
		{"2 may start", func(h *host) { prepared(h); h.step(60) }, "drain", "v1", ReasonRun, 0, "", "a hook runs its current version"},
		{"2 next in an open execution", func(h *host) {
			prepared(h)
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunSucceeded, 61)
			h.step(61)
		},
			"kubelet", "v2", ReasonRun, 0, "", "os is skipped and counts as satisfied"},
		{"2 redeploy", func(h *host) {
			h.rule.UnchangedMemberStrategy = RedeployCurrent
			prepared(h)
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunSucceeded, 61)
			h.step(61)
		}, "os", "v1", ReasonRun, 0, "", "redeploying meets rows 2 to 5 with the current version"},
		{"3 in progress", func(h *host) { prepared(h); h.step(60); h.start() }, "drain", "v1", ReasonInProgress, 0, "member drain", "it runs"},
		{"4 waits for members", func(h *host) { prepared(h); h.step(60); h.start() }, "kubelet", "v2", ReasonWaitsForMembers, 0, "member drain", "the drain is running"},
		{"4 before the start", func(h *host) { prepared(h); h.step(60) }, "kubelet", "v2", ReasonWaitsForMembers, 0, "member drain", "a ready execution that may start answers like an open one"},
		{"4 waits for its retry", func(h *host) {
			prepared(h)
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunFailed, 61).RetryAt = at(70)
			h.step(61)
		}, "drain", "v1", ReasonWaitsForMembers, 70, "", "the backoff"},
		{"4 waits for an older generation", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			h.publish("kubelet", "v2", 0)
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.step(130)
		}, "kubelet", "v3", ReasonWaitsForMembers, 0, "member kubelet", "the run of v2 finishes first"},
		{"4 waits for an older generation, where nothing ran before", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			h.publish("kubelet", "v2", 0)
			h.targets[[2]string{"n1", "kubelet"}].Current = ""
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.step(130)
		}, "kubelet", "v3", ReasonWaitsForMembers, 0, "member kubelet", "the run of v2 finishes first here, too"},
		{"3 outdated by a merge", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			h.publish("kubelet", "v2", 0)
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.step(130)
		}, "kubelet", "v2", ReasonInProgress, 0, "member kubelet", "the run of v2 is still the one in progress"},
		{"5 halted", func(h *host) { failKubelet(h, Hold) }, "uncordon", "v1", ReasonFailedHolding, 0, "operator", "kubelet has failed"},
		{"5 the failed member", func(h *host) { failKubelet(h, Hold) }, "kubelet", "v2", ReasonFailedHolding, 0, "operator", "its own version is not retried"},
		{"6 current while collecting", func(h *host) { prepared(h); h.step(30) }, "kubelet", "v1", ReasonCurrent, 0, "", "in every phase"},
		{"6 current while open", func(h *host) { prepared(h); h.step(60); h.start() }, "os", "v1", ReasonCurrent, 0, "", "a skipped member"},
		{"4 waits for who is about to go back", func(h *host) { failKubelet(h, RollbackMember) }, "uncordon", "v1", ReasonWaitsForMembers, 0, "member kubelet",
			"nobody has to decide before kubelet is back: it goes by itself"},
		{"11 on its way back", func(h *host) { failKubelet(h, RollbackMember); h.start() }, "kubelet", "v2", ReasonEnded, 0, "member kubelet group_close", "what it comes from does not wait for it"},
		{"5 halted once it is back", func(h *host) {
			failKubelet(h, RollbackMember)
			h.start()
			h.end("n1", "kubelet", RunSucceeded, 66)
			h.step(66)
		}, "uncordon", "v1", ReasonFailedHolding, 0, "operator", "the versions are mixed, and only an operator says that this will do"},
		{"6 succeeded here", func(h *host) {
			prepared(h)
			h.until(60, "n1", "drain")
			h.end("n1", "drain", RunSucceeded, 61)
			h.step(61)
		},
			"drain", "v1", ReasonCurrent, 0, "", "the hook has run"},
		{"6 current in an execution whose group is forgotten", func(h *host) { prepared(h); forget(h) }, "os", "v1", ReasonCurrent, 0, "", "the host stopped between saving the group and saving the end"},
		{"15 no version in an execution whose group is forgotten", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "os"}].Current = ""
			forget(h)
		}, "os", "v9", ReasonQueued, 0, "execution_end", "the execution is not of a group that is known"},
		{"7 queued", func(h *host) { prepared(h); h.step(60); h.start(); h.publish("kubelet", "v3", 70); h.step(130) }, "kubelet", "v3", ReasonQueued, 0, "execution_end", "group 1 is open here"},
		{"7 queued until it can be merged", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.step(60)
			h.start()
			h.publish("kubelet", "v3", 70)
			h.step(130)
		}, "kubelet", "v3", ReasonQueued, 0, "execution_end member drain", "as soon as the node is drained"},
		{"7 queued until it is due, and merged then", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.due["n1"] = at(135)
			h.step(130)
		}, "kubelet", "v3", ReasonQueued, 135, "execution_end", "time alone is enough"},
		{"7 queued, and neither the drain nor the turn is enough", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.step(60)
			h.start()
			h.publish("kubelet", "v3", 70)
			h.due["n1"] = at(135)
			h.step(130)
		}, "kubelet", "v3", ReasonQueued, 0, "execution_end member drain", "the turn does not help while the node is being drained"},
		{"7 queued until the failed member is repeated", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists, h.rule.OnMemberFailure = Merge, true, Hold
			prepared(h)
			h.until(60, "n1", "kubelet")
			h.end("n1", "kubelet", RunFailed, 62)
			h.publish("os", "v2", 70)
			h.step(130)
		}, "os", "v2", ReasonQueued, 0, "execution_end member kubelet", "the group has nothing else for it; once an operator lets it run again, the group comes along"},
		{"7 queued where the group has nothing to do", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.target("n2", "os", "v1")
			h.step(60)
			h.start()
			h.publish("os", "v2", 70)
			h.targets[[2]string{"n1", "os"}].Current = "v2"
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(130)
		}, "containerd", "v2", ReasonQueued, 0, "execution_end", "the node runs all that the group has for it, so that nothing is merged once it is drained"},
		{"8 merge budget", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.step(130)
			h.publish("kubelet", "v4", 140)
			h.step(200)
		}, "kubelet", "v4", ReasonMergeBudget, 0, "execution_end", "one merge is allowed"},
		{"7 queued, and merges left would not help", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.step(130)
			h.end("n1", "kubelet", RunSucceeded, 131)
			h.until(131, "n1", "uncordon")
			h.publish("kubelet", "v4", 140)
			h.step(200)
		}, "kubelet", "v4", ReasonQueued, 0, "execution_end", "the budget is spent, but a post member has started, too"},
		{"9 not due", func(h *host) { prepared(h); h.due["n1"] = at(65); h.step(60) }, "kubelet", "v2", ReasonNotDue, 65, "", "its turn comes at 65"},
		{"9 due unknown", func(h *host) { prepared(h); h.due["n1"] = time.Time{}; h.step(60) }, "kubelet", "v2", ReasonNotDue, 0, "config", "the host does not know yet"},
		{"9 before 10", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.due["n1"] = at(65)
			h.step(60)
		}, "kubelet", "v2", ReasonNotDue, 65, "", "the first match wins"},
		{"10 hook without version", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.step(60)
		}, "kubelet", "v2", ReasonHookWithoutVersion, 0, "version drain group_close", "nothing is upgraded without its drain, and what comes now is for the next group"},
		{"10 hook whose version came after the close", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.step(60)
			h.publish("drain", "v2", 61)
			h.step(62)
		}, "kubelet", "v2", ReasonHookWithoutVersion, 0, "group_close", "the hook has a version, so that a further one helps nobody: the group locks nothing more"},
		{"10 hook whose version came after the close, while a group collects", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.step(60)
			h.publish("drain", "v2", 61)
			h.publish("os", "v2", 62)
			h.step(63)
		}, "kubelet", "v2", ReasonHookWithoutVersion, 122, "group_close", "that group gets both"},
		{"10 hook without version, while a group collects", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.step(60)
			h.publish("os", "v2", 62)
			h.step(63)
		}, "kubelet", "v2", ReasonHookWithoutVersion, 0, "version drain group_close", "the close alone does not help"},
		{"10 hook whose version will be eligible", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.step(60)
			h.publish("drain", "v2", 61)
			h.version("drain", "v2").EligibleAt = at(500)
			if h.step(62); !h.plan.Next.IsZero() {
				h.t.Errorf("looks again at %v", h.plan.Next)
			}
		}, "kubelet", "v2", ReasonHookWithoutVersion, 0, "group_close", "the group does not get it at minute 500 either, so that the plan stays as it is"},
		{"10 hook whose locked version was withdrawn", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "drain"}].Current = ""
			h.due["n1"] = at(500)
			h.step(60)
			h.version("drain", "v1").EligibleAt = time.Time{}
			h.publish("drain", "v2", 61)
			h.due["n1"] = at(62)
			h.step(62)
		}, "kubelet", "v2", ReasonHookWithoutVersion, 0, "version drain group_close", "what the group has locked may become eligible again"},
		{"11 ended", func(h *host) {
			failKubelet(h, RunPost)
			h.start()
			h.end("n1", "uncordon", RunSucceeded, 64)
			h.step(64)
		}, "kubelet", "v2", ReasonEnded, 0, "operator group_close", "an ended execution is not started again for the same group"},
		{"11 on the way back", func(h *host) { failKubelet(h, RollbackAll) }, "kubelet", "v2", ReasonEnded, 0, "member kubelet group_close", "the group has locked it, and is done with it here; an OutdatedAt from before the run back would be served by it"},
		{"11 back where it was", func(h *host) {
			failKubelet(h, RollbackAll)
			h.start()
			h.end("n1", "kubelet", RunSucceeded, 64)
			h.step(64)
		},
			"kubelet", "v2", ReasonEnded, 0, "operator group_close", "the execution goes on without it"},
		{"11 cancelled, since another member failed", func(h *host) {
			h.rule.OnMemberFailure = RunPost
			h.publish("os", "v2", 0)
			h.publish("kubelet", "v2", 0)
			h.until(60, "n1", "os")
			h.end("n1", "os", RunFailed, 63)
			h.step(63)
		}, "kubelet", "v2", ReasonEnded, 0, "operator group_close", "it is what the group has locked, and never runs here: the post members are next"},
		{"11 skipped by a command", func(h *host) {
			failKubelet(h, Hold)
			h.commands = append(h.commands, Command{ID: "c", Kind: Skip, Group: h.state.Group.Closed[0].ID, Resource: "n1", Deployment: "kubelet"})
			h.step(64)
		}, "kubelet", "v2", ReasonEnded, 0, "operator group_close", "the execution goes on without it"},
		{"12 next group", func(h *host) {
			prepared(h)
			h.due["n1"] = at(500)
			h.step(60)
			h.publish("kubelet", "v3", 70)
			h.step(70)
		}, "kubelet", "v3", ReasonNextGroup, 130, "", "published after the close: it does not slip in"},
		{"13 collecting", func(h *host) { prepared(h); h.step(30) }, "kubelet", "v2", ReasonCollecting, 60, "version", "the window is open"},
		{"13 nothing eligible yet", func(h *host) {
			h.rule.TriggerOn = Published
			prepared(h)
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(100)
		}, "kubelet", "v2", ReasonCollecting, 0, "version", "a window never closes empty-handed"},
		{"14 hook", func(h *host) { h.publish("drain", "v2", 0); h.step(60) }, "drain", "v2", ReasonHookWaitsForMain, 0, "group_close", "a hook never opens a group"},
		{"14 hook while a group collects", func(h *host) { prepared(h); h.publish("drain", "v2", 0); h.step(30) }, "drain", "v2", ReasonHookWaitsForMain, 60, "group_close",
			"a hook is taken along, it is not what is collected"},
		{"14 hook while a group collects what the last target on its resource gets", func(h *host) {
			h.member("zfs", "drain")
			h.members[4].Needs = append(h.members[4].Needs, "zfs")
			h.target("n1", "zfs", "v1")
			h.publish("zfs", "v2", 0)
			h.step(30)
		}, "drain", "v1b", ReasonHookWaitsForMain, 60, "group_close", "the others have nothing newer"},
		{"14 hook while a group collects, beside what is no member", func(h *host) { prepared(h); h.target("n1", "cni", "v1"); h.step(30) }, "drain", "v1b", ReasonHookWaitsForMain, 60, "group_close",
			"the group has nothing for the one, and something for the others"},
		{"14 hook while a group collects for others", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.targets[[2]string{"n1", "kubelet"}].Current = "v2"
			h.step(30)
		}, "drain", "v1b", ReasonHookWaitsForMain, 0, "group_close", "the group that closes has nothing for the mains on its resource"},
		{"14 hook while a group collects what is not for its resource", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v2"}
			h.step(30)
		}, "drain", "v1b", ReasonHookWaitsForMain, 0, "group_close", "nor has it what is out of scope"},
		{"14 hook while a group collects for others, and a gate holds what the main could have", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.targets[[2]string{"n1", "kubelet"}].Current = "v2"
			h.publish("kubelet", "v3", 10)
			h.version("kubelet", "v3").EligibleAt = time.Time{}
			h.step(30)
		}, "drain", "v1b", ReasonHookWaitsForMain, 0, "group_close", "nor has it what is not eligible"},
		{"16 older than what a group has locked that a late step closed, while the next one collects", func(h *host) {
			h.target("n2", "kubelet", "v1")
			h.publish("kubelet", "v2", 1)
			h.version("kubelet", "v2").EligibleAt = at(70)
			h.publish("kubelet", "v3", 2)
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v3"}
			h.step(62)
			h.step(70)
			h.publish("kubelet", "v4", 100)
			h.publish("kubelet", "v5", 131)
			h.step(150)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "the node waited for it until the second group locked v4"},
		{"16 out of scope while a group collects", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 0)
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v2"}
			h.step(30)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "the group may lock it for others, never for this target"},
		{"16 out of scope here, in scope elsewhere", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.targets[[2]string{"n1", "kubelet"}].OutOfScope = []string{"v2"}
			h.step(30)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "the group collects it for n2"},
		{"16 older than what the target runs, while a group collects", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.publish("kubelet", "v3", 10)
			h.targets[[2]string{"n1", "kubelet"}].Current = "v3" // by hand
			h.step(30)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "it is new for n2, and nothing that this target would get"},
		{"16 below the mark while a group collects", func(h *host) {
			prepared(h)
			h.until(60, "n1", "uncordon")
			h.end("n1", "uncordon", RunSucceeded, 61)
			h.publish("kubelet", "v1b", -1)
			h.targets[[2]string{"n1", "kubelet"}].Current = "v1" // turned back by hand
			h.publish("os", "v2", 62)
			h.step(63)
		}, "kubelet", "v1b", ReasonNotLocked, 0, "", "a group has locked a newer one: no group collects it any more"},
		{"16 below a lock that is deleted", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 0)
			h.due["n1"] = at(500)
			h.step(60)
			h.publish("kubelet", "v1b", -1)
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.step(61)
		}, "kubelet", "v1b", ReasonNotLocked, 0, "group_close", "no group collects what is older than what one has locked, but one that another member opens takes it along"},
		{"16 below the mark", func(h *host) {
			prepared(h)
			h.until(60, "n1", "uncordon")
			h.end("n1", "uncordon", RunSucceeded, 61)
			h.targets[[2]string{"n1", "kubelet"}].Current = "v1" // turned back by hand
			h.publish("os", "v2", 62)
			h.step(63)
		}, "kubelet", "v2", ReasonEnded, 122, "operator group_close", "a version that a group has locked is not new any more, but the group that os opened takes it along"},
		{"15 no version", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.target("n2", "os", "").OutOfScope = []string{"v1"}
			h.targets[[2]string{"n2", "kubelet"}].Current = "v2"
			h.step(60)
		}, "os", "v1", ReasonNoVersion, 0, "version os", "nothing is locked for it, and it runs nothing"},
		{"15 no version yet", func(h *host) {
			prepared(h)
			h.target("n2", "os", "").OutOfScope = []string{"v1"}
			h.publish("os", "v2", 90)
			h.step(60)
		}, "os", "v2", ReasonNoVersion, 90, "version os", "it opens a group then"},
		{"12 it may be deployed later", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 90)
			h.step(60)
		}, "os", "v2", ReasonNextGroup, 90, "", "it opens that group then"},
		{"12 it may be deployed later, and is out of scope", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 90)
			h.targets[[2]string{"n1", "os"}].OutOfScope = []string{"v2"}
			h.step(60)
		}, "os", "v2", ReasonNextGroup, 0, "", "not for this target"},
		{"12 a hook's version may be deployed later", func(h *host) {
			prepared(h)
			h.due["n1"] = at(500)
			h.publish("drain", "v2", 90)
			h.step(60)
		}, "drain", "v2", ReasonNextGroup, 0, "", "a hook opens no group"},
		{"15 it may be deployed later, and there is no target", func(h *host) {
			h.publish("os", "v2", 90)
			h.target("n2", "kubelet", "v1")
			h.step(60)
		}, "os", "v2", ReasonNoVersion, 0, "version os", "the group that it opens is for others"},
		{"14 a hook while a group collects, on n2", func(h *host) { prepared(h); h.step(30) }, "drain", "v2", ReasonHookWaitsForMain, 0, "group_close", "nobody knows that resource"},
		{"16 it may be deployed later, before any group", func(h *host) { h.publish("os", "v2", 90); h.step(60) }, "os", "v2", ReasonNotLocked, 90, "", "it opens a group then"},
		{"16 an older one may be deployed later", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 0)
			h.due["n1"] = at(500)
			h.step(60)
			h.publish("os", "v1b", -1)
			h.version("os", "v1b").EligibleAt = at(90)
			h.step(61)
		}, "os", "v1b", ReasonNotLocked, 0, "", "no group locks what is older than what one has locked"},
		{"1 a former member of the group", func(h *host) {
			h.publish("containerd", "v2", 0)
			prepared(h)
			h.step(60)
			h.members[4].Needs = []string{"kubelet"}
			h.members = slices.Delete(h.members, 3, 4) // containerd
			h.step(61)
		}, "containerd", "v2", ReasonWaitsForMembers, 0, "member drain", "the group has locked it, whatever the rule selects now"},
		{"12 next group, of the first member", func(h *host) {
			prepared(h)
			h.due["n1"] = at(500)
			h.step(60)
			h.publish("containerd", "v3", 70)
			h.step(70)
		}, "containerd", "v3", ReasonNextGroup, 130, "", "in the order of ids it is like any other"},
		{"13 collecting beside an execution", func(h *host) {
			prepared(h)
			h.until(60, "n1", "uncordon")
			h.publish("kubelet", "v3", 70)
			h.step(70)
		}, "kubelet", "v3", ReasonCollecting, 130, "version", "the execution of the latest group is not what it waits for"},
		{"16 a newer version of a hook that runs", func(h *host) {
			prepared(h)
			h.step(60)
			h.start()
			h.publish("drain", "v2", 70)
			h.step(70)
		}, "drain", "v2", ReasonNotLocked, 0, "group_close", "it has its main, and another version is locked"},
		{"16 a newer version of a hook that runs, the first of the members", func(h *host) {
			h.rule.MemberRoles = &MemberRoles{Pre: "deployment.name == 'a'"}
			h.members = []Member{{Deployment: "os"}, {Deployment: "a", Role: Pre}}
			h.publish("a", "v1", -90*24*60)
			h.target("n1", "a", "v1")
			h.publish("os", "v2", 0)
			h.step(60)
			h.start()
			h.publish("a", "v2", 70)
			h.step(70)
		}, "a", "v2", ReasonNotLocked, 0, "group_close", "in the order of ids it is like any other"},
		{"16 a newer version of a hook that runs, and one that is newer still", func(h *host) {
			prepared(h)
			h.step(60)
			h.start()
			h.publish("drain", "v2", 70)
			h.publish("drain", "v3", 71)
			h.step(71)
		}, "drain", "v2", ReasonNotLocked, 0, "", "the next group locks the newer one"},
		{"16 a newer version of a hook that runs, held back", func(h *host) {
			prepared(h)
			h.step(60)
			h.start()
			h.publish("drain", "v2", 70)
			h.version("drain", "v2").EligibleAt = time.Time{}
			h.step(70)
		}, "drain", "v2", ReasonNotLocked, 0, "", "its gate is what it waits for, and no group locks it before"},
		{"16 back after an execution has begun without it", func(h *host) {
			h.publish("os", "v2", 0)
			prepared(h)
			h.due["n1"] = at(70)
			h.step(60)
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(70)
			h.start()
			h.version("kubelet", "v2").EligibleAt = at(0)
			h.step(71)
		}, "kubelet", "v2", ReasonNotLocked, 0, "group_close", "the execution runs without it to its end"},
		{"16 the lock is older than what runs", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 0)
			h.publish("kubelet", "v3", 61)
			h.targets[[2]string{"n1", "kubelet"}].Current = "v3"
			h.step(62)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "no group takes a target back"},
		{"16 the lock is older than what runs, after an earlier group", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			h.finishAll(60)
			h.publish("kubelet", "v3", 100)
			h.byHand("kubelet", "v4", 150)
			h.step(160)
		}, "kubelet", "v3", ReasonNotLocked, 0, "", "what has ended here is the execution of an earlier group"},
		{"16 unlisted, where the oldest version is locked", func(h *host) {
			prepared(h)
			h.targets[[2]string{"n1", "os"}].Current = ""
			h.due["n1"] = at(500)
			h.step(60)
		}, "os", "v0", ReasonNotLocked, 0, "", "something is locked, though the target runs nothing"},
		{"16 no target", func(h *host) {
			prepared(h)
			h.target("n2", "kubelet", "v1")
			delete(h.targets, [2]string{"n1", "kubelet"})
			h.step(60)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "nothing runs here, and nothing is going to"},
		{"16 unknown version where the group was merged", func(h *host) {
			h.rule.OverlapStrategy, h.rule.PreparedStatePersists = Merge, true
			prepared(h)
			h.until(60, "n1", "kubelet")
			h.publish("kubelet", "v3", 70)
			h.step(130)
		}, "kubelet", "v9", ReasonNotLocked, 0, "", "the open execution is the group's own: the group is not queued behind it"},
		{"15 no candidate", func(h *host) {
			h.target("n2", "os", "")
			prepared(h)
			h.step(30)
		}, "os", "", ReasonNoVersion, 0, "version os", "a target that runs nothing does not run nothing as its version"},
		{"16 older than what a skipped member runs", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 0)
			h.step(60)
			h.publish("os", "v3", 61)
			h.targets[[2]string{"n1", "os"}].Current = "v3"
			h.step(62)
			h.start()
		}, "os", "v2", ReasonNotLocked, 0, "", "the execution never was to deploy it, so nothing of that has ended"},
		{"3 on the way back", func(h *host) { failKubelet(h, RollbackAll); h.start() }, "kubelet", "v1", ReasonInProgress, 0, "member kubelet", "a run back is a run"},
		{"6 back, and the host has not seen it yet", func(h *host) {
			failKubelet(h, RollbackAll)
			h.start()
			h.end("n1", "kubelet", RunSucceeded, 64)
			h.targets[[2]string{"n1", "kubelet"}].Current = "v2"
			h.step(64)
		}, "kubelet", "v1", ReasonCurrent, 0, "", "the run that succeeded says what runs there"},
		{"4 waits for two members", func(h *host) {
			prepared(h)
			h.publish("containerd", "v2", 0)
			h.until(60, "n1", "kubelet")
		}, "uncordon", "v1", ReasonWaitsForMembers, 0, "member containerd member kubelet", "all that it waits for, not the last one"},
		{"13 collecting, asked when the window ends", func(h *host) { prepared(h); h.step(30); h.now = at(60) }, "kubelet", "v2", ReasonCollecting, 0, "version",
			"an instant that has come is nothing to wait for: the host plans again"},
		{"12 next group, of a hook that was a main", func(h *host) {
			prepared(h)
			h.due["n1"] = at(500)
			h.step(60)
			group := *h.state.Group
			group.Marks = maps.Clone(group.Marks)
			group.Marks["drain"] = VersionMark{"v3", at(80)}
			h.state.Group = &group
			h.publish("drain", "v2", 70)
			h.step(70)
		}, "drain", "v2", ReasonNextGroup, 0, "group_close", "marks are for mains: a hook is locked again by every group"},
		{"14 a hook of the group, a main by now", func(h *host) {
			prepared(h)
			h.due["n1"] = at(500)
			h.step(60)
			h.rule.MemberRoles = &MemberRoles{}
			h.step(61)
		}, "drain", "v9", ReasonHookWaitsForMain, 0, "group_close", "roles are copied when the group closes"},
		{"16 older", func(h *host) {
			prepared(h)
			h.publish("kubelet", "v0", -100*24*60)
			h.step(30)
		}, "kubelet", "v0", ReasonNotLocked, 0, "", "older than what runs"},
		{"16 unknown version", func(h *host) { prepared(h); h.step(30) }, "kubelet", "v9", ReasonNotLocked, 0, "", "not listed"},
		{"16 a newer version of a former member", func(h *host) {
			h.publish("containerd", "v2", 0)
			prepared(h)
			h.step(60)
			h.start()
			h.members[4].Needs = []string{"kubelet"}
			h.members = slices.Delete(h.members, 3, 4) // containerd
			h.publish("containerd", "v3", 61)
			h.step(61)
		}, "containerd", "v3", ReasonNotLocked, 0, "", "the next group closes without it"},
		{"16 not eligible", func(h *host) {
			prepared(h)
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(30)
		}, "kubelet", "v2", ReasonNotLocked, 0, "", "no group opens for it"},
	}
	names := make(map[string]bool)
	reached := make(map[Reason]bool)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.why == "" || names[row.name] {
				t.Fatal("a row needs a name of its own and a reason")
			}
			names[row.name] = true
			h := newHost(t, "n1")
			row.setup(h)
			resource := "n1"
			if row.reason == ReasonNoVersion || strings.HasSuffix(row.name, "on n2") {
				resource = "n2"
			}
			before := describe(h.state)
			v := h.evaluate(resource, row.deployment, row.candidate)
			var conditions []string
			for _, c := range v.On {
				checkCondition(t, c)
				text := string(c.Kind)
				if c.Deployment != "" && row.reason != ReasonCollecting { // there, a version of any member may help
					text += " " + c.Deployment
				}
				if !slices.Contains(conditions, text) {
					conditions = append(conditions, text)
				}
			}
			on := strings.Join(conditions, " ")
			until := time.Time{}
			if row.until != 0 {
				until = at(row.until)
			}
			if v.Reason != row.reason || !v.Until.Equal(until) || on != row.on {
				t.Errorf("%s until %v on %q, want %s until %v on %q\n%s", v.Reason, v.Until, on, row.reason, until, row.on, describe(h.state))
			}
			if v.Reason.Status() == Pending && v.Until.IsZero() && len(v.On) == 0 {
				t.Error("I11: nothing ends this wait")
			}
			if describe(h.state) != before {
				t.Error("I6: Evaluate changes the state")
			}
			reached[v.Reason] = true
		})
	}
	for _, r := range []Reason{ReasonNotApplicable, ReasonRun, ReasonInProgress, ReasonWaitsForMembers, ReasonFailedHolding, ReasonCurrent, ReasonQueued, ReasonMergeBudget,
		ReasonNotDue, ReasonHookWithoutVersion, ReasonEnded, ReasonNextGroup, ReasonCollecting, ReasonHookWaitsForMain, ReasonNoVersion, ReasonNotLocked} {
		if !reached[r] {
			t.Errorf("no row reaches %s", r)
		}
	}
}

// TestNextGroupBringsTheVersion: where a version that is not locked is said to wait for the next
// group, a group that another member opens locks it for the target.
func TestNextGroupBringsTheVersion(t *testing.T) {
	prepared := func(h *host) { // group 1 with kubelet v2 is closed at 60
		h.publish("kubelet", "v2", 0)
	}
	for _, row := range []struct {
		name       string
		setup      func(h *host)
		deployment string
		version    string
		why        string
	}{
		{"a hook that runs", func(h *host) {
			prepared(h)
			h.step(60)
			h.start()
			h.publish("drain", "v2", 70)
			h.step(70)
		}, "drain", "v2", "its version came after the close"},
		{"a hook that is ready", func(h *host) {
			prepared(h)
			h.due["n1"] = at(500)
			h.step(60)
			h.publish("drain", "v2", 70)
			h.step(70)
		}, "drain", "v2", "the same, before the execution"},
		{"a main that was held back", func(h *host) {
			h.publish("os", "v2", 0)
			prepared(h)
			h.due["n1"] = at(70)
			h.step(60)
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(70)
			h.start()
			h.version("kubelet", "v2").EligibleAt = at(0)
			h.step(71)
		}, "kubelet", "v2", "the group has locked it, so it opens none"},
		{"a main below a lock that is deleted", func(h *host) {
			prepared(h)
			h.publish("os", "v2", 0)
			h.due["n1"] = at(500)
			h.step(60)
			h.publish("kubelet", "v1b", -1)
			h.versions = slices.DeleteFunc(h.versions, func(v Version) bool { return v.Deployment == "kubelet" && v.ID == "v2" })
			h.step(61)
		}, "kubelet", "v1b", "a group locks the newest that there is"},
		{"a hook that runs, whose current version is not listed", func(h *host) {
			h.targets[[2]string{"n1", "drain"}].Current = "v0"
			prepared(h)
			h.step(60)
			h.start()
			h.publish("drain", "v2", 70)
			h.step(70)
		}, "drain", "v2", "what is not listed is older than all that is"},
		{"a main that was held back, whose current version is not listed", func(h *host) {
			h.targets[[2]string{"n1", "kubelet"}].Current = "v0"
			h.publish("os", "v2", 0)
			prepared(h)
			h.due["n1"] = at(70)
			h.step(60)
			h.version("kubelet", "v2").EligibleAt = time.Time{}
			h.step(70)
			h.start()
			h.version("kubelet", "v2").EligibleAt = at(0)
			h.step(71)
		}, "kubelet", "v2", "the same, for a main"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHost(t, "n1")
			row.setup(h)
			v := h.evaluate("n1", row.deployment, row.version)
			if v.Reason.Status() != Denied || !v.Until.IsZero() || !slices.Equal(v.On, []Condition{{Kind: OnGroupClose, Rule: "rule", Environment: "prod"}}) {
				t.Fatalf("%s: %s", row.why, v)
			}
			h.publish("containerd", "v9", 80)
			h.step(80)
			h.step(140)
			latest := h.state.Group.Closed[len(h.state.Group.Closed)-1]
			k := slices.IndexFunc(latest.Members, func(m GroupMember) bool { return m.Deployment == row.deployment })
			if latest.ReadyAt.Before(at(80)) || latest.Members[k].Locks[0].ID != row.version {
				t.Errorf("%s: %s", row.why, describe(h.state))
			}
		})
	}
}

// Verdicts that the other rows of the table do not tell from their neighbours.
func TestVerdictsNextToOthers(t *testing.T) {
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
		{"what runs there, beside an execution", func(h *host) {
			h.step(60)
			h.start()
			if v := h.evaluate("n1", "os", "v1"); v.Reason != ReasonCurrent || v.Group != h.state.Group.Closed[0].ID {
				h.t.Errorf("%+v", v)
			}
		}, "row 6: the group is the latest one"},
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

// forget starts the first group and loses its record; the rule selects nobody any more.
func forget(h *host) {
	h.step(60)
	h.start()
	group := *h.state.Group
	group.Closed = []*Group{}
	h.state.Group, h.members = &group, nil
	h.step(61)
}

// The status belongs to the code, and the codes are part of the compatibility promise: they are
// written out here.
func TestReasonStatus(t *testing.T) {
	codes := map[Reason]Reason{
		ReasonNoPlan: "bracket_no_plan", ReasonNotApplicable: "rule_not_applicable", ReasonRun: "bracket_run", ReasonInProgress: "bracket_in_progress", ReasonCurrent: "bracket_current",
		ReasonWaitsForMembers: "bracket_waits_for_members", ReasonFailedHolding: "bracket_failed_holding", ReasonQueued: "bracket_queued",
		ReasonMergeBudget: "bracket_merge_budget", ReasonNotDue: "bracket_not_due", ReasonHookWithoutVersion: "bracket_hook_without_version",
		ReasonCollecting: "bracket_collecting", ReasonHookWaitsForMain: "bracket_hook_waits_for_main", ReasonEnded: "bracket_ended",
		ReasonNextGroup: "bracket_next_group", ReasonNoVersion: "bracket_no_version", ReasonNotLocked: "bracket_not_locked", ReasonStuck: "bracket_stuck",
	}
	for reason, code := range codes {
		if reason != code {
			t.Errorf("%q was %q before", reason, code)
		}
	}
	want := map[Reason]VerdictStatus{
		ReasonNotApplicable: Allowed, ReasonRun: Allowed, ReasonInProgress: Allowed, ReasonCurrent: Allowed,
		ReasonWaitsForMembers: Pending, ReasonFailedHolding: Pending, ReasonQueued: Pending, ReasonMergeBudget: Pending, ReasonNotDue: Pending,
		ReasonHookWithoutVersion: Pending, ReasonCollecting: Pending, ReasonHookWaitsForMain: Pending,
		ReasonNoPlan: Denied, ReasonEnded: Denied, ReasonNextGroup: Denied, ReasonNoVersion: Denied, ReasonNotLocked: Denied, "bracket_new": Denied, "": Denied,
	}
	for reason, status := range want {
		if reason.Status() != status {
			t.Errorf("%q is %s, want %s", reason, reason.Status(), status)
		}
	}
	if v := (Plan{}).Evaluate(State{}, "n", "d", "v", day0); v.Reason != ReasonNoPlan {
		t.Errorf("a plan of nothing answers %+v", v)
	}
	h := newHost(t, "n1")
	h.step(60)
	if v := h.plan.Evaluate(State{}, "n1", "kubelet", "v1", h.now); v.Reason != ReasonNoPlan {
		t.Errorf("a plan answers %+v of a state that was forgotten", v)
	}
}

// A run's text form splits back into its parts, whatever they hold.
func TestRunString(t *testing.T) {
	r := Run{Group: GroupID("Node Lifecycle/deploymentBracket/0", "prod", 7), Resource: "a/b%c", Deployment: "kubelet", Generation: 2, Attempt: 3, Purpose: Rollback}
	want := "Node Lifecycle%252FdeploymentBracket%252F0%2Fprod%2F7/a%2Fb%25c/kubelet/2/3/rollback"
	if got := fmt.Sprint(r); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := GroupKey("r/1", "prod"); got != "bracket/group/r%2F1/prod" {
		t.Error(got)
	}
	if got := ExecutionKey("r/1", ""); got != "bracket/execution/r%2F1/" {
		t.Error(got)
	}
}
