package bracket

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The remaining cases of testdata/cases.json are written in a notation of their own; each area has
// a reading here.

func TestWindowCases(t *testing.T) {
	for _, c := range sharedCases(t, "bracket.window") {
		t.Run(c.ID, func(t *testing.T) {
			var in struct {
				Mode           ReadinessMode
				WindowS        *int64 `json:"window_s"`
				Unchanged      UnchangedMemberStrategy
				Trigger        TriggerOn
				New, Approved  map[string]time.Time
				Required       []string
				Now            time.Time
				FirstEvaluated time.Time `json:"first_evaluated"`
			}
			var want struct {
				Phase              Status
				Starts, Ends, Next time.Time
				Decision, Error    string
				Locks              map[string]string
				Run, Redeploy      []string
			}
			decodeInto(t, c.Input, &in)
			decodeInto(t, c.Expected, &want)
			h := newHost(t)
			h.rule = Rule{DeploymentSelector: "true", ReadinessMode: in.Mode, ReadinessWindowSeconds: in.WindowS, UnchangedMemberStrategy: in.Unchanged, TriggerOn: in.Trigger}
			if want.Error != "" {
				path := map[string]string{"contradictory": "unchangedMemberStrategy", "negative window": "readinessWindowSeconds"}[want.Error]
				if err := h.rule.Validate(); err == nil || !strings.Contains(err.Error(), path+": ") {
					t.Fatalf("Validate: %v, want a fault of %s", err, path)
				}
				return
			}
			h.members, h.versions = nil, nil
			deployments := in.Required
			for d := range in.New {
				if !slices.Contains(deployments, d) {
					deployments = append(deployments, d)
				}
			}
			for _, d := range deployments {
				h.member(d)
				h.target("node", d, "v1")
				if created, ok := in.New[d]; ok {
					v := Version{Deployment: d, ID: "new", CreatedAt: created, EligibleAt: created}
					if approved, ok := in.Approved[d]; ok {
						v.EligibleAt = approved
					}
					h.versions = append(h.versions, v)
				}
			}
			plan := h.stepAt(in.Now)
			phase, opened, end := StatusCollecting, time.Time{}, plan.Next
			if g := h.state.Group.Collecting; g != nil {
				opened = g.OpenedAt
			} else {
				g := h.state.Group.Closed[0]
				phase, opened, end = g.Status, g.OpenedAt, g.ReadyAt
				for d, v := range want.Locks {
					if i := slices.IndexFunc(g.Members, func(m GroupMember) bool { return m.Deployment == d }); g.Members[i].Locks[0].ID != v {
						t.Errorf("%s is locked to %v, want %s", d, g.Members[i].Locks, v)
					}
				}
			}
			if want.Phase != "" && phase != want.Phase || !want.Starts.IsZero() && !opened.Equal(want.Starts) || !want.Ends.IsZero() && !end.Equal(want.Ends) ||
				!want.Next.IsZero() && !plan.Next.Equal(want.Next) {
				t.Errorf("%s from %v to %v, next %v; want %+v", phase, opened, end, plan.Next, want)
			}
			if want.Decision == "wait" {
				for d := range in.New {
					if v := h.evaluate("node", d, "new"); v.Reason.Status() != Pending || v.Reason != ReasonCollecting || !v.Until.Equal(want.Ends) {
						t.Errorf("%s: %+v", d, v)
					}
				}
			}
			var run, redeploy []string
			for _, s := range plan.Start {
				run = append(run, s.Run.Deployment)
				if s.Version == "v1" {
					redeploy = append(redeploy, s.Run.Deployment)
				}
			}
			slices.Sort(want.Run)
			if want.Run != nil && !slices.Equal(run, want.Run) || want.Redeploy != nil && !slices.Equal(redeploy, want.Redeploy) {
				t.Errorf("runs %v, of these again %v; want %v, %v", run, redeploy, want.Run, want.Redeploy)
			}
		})
	}
}

func TestLockCases(t *testing.T) {
	for _, c := range sharedCases(t, "bracket.lock") {
		t.Run(c.ID, func(t *testing.T) {
			var in struct {
				Versions map[string][][2]string
				Ends     time.Time
				Current  string
				Eligible []string
			}
			var want struct{ Lock string }
			decodeInto(t, c.Input, &in)
			decodeInto(t, c.Expected, &want)
			h := newHost(t)
			h.members, h.versions = nil, nil
			h.rule = windowRule(86400)
			for d, versions := range in.Versions {
				h.member(d)
				h.target("node", d, "v1")
				h.targets[[2]string{"node", d}].Current = in.Current
				h.versions = nil
				for _, v := range versions {
					created, err := time.Parse(time.RFC3339, v[1])
					if err != nil {
						t.Fatal(err)
					}
					o := Version{Deployment: d, ID: v[0], CreatedAt: created}
					if in.Eligible == nil || slices.Contains(in.Eligible, v[0]) {
						o.EligibleAt = created
					}
					h.versions = append(h.versions, o)
				}
			}
			h.stepAt(day0.Add(24*time.Hour + time.Minute))
			g := h.state.Group.Closed[0]
			if !in.Ends.IsZero() && !g.ReadyAt.Equal(in.Ends) || g.Members[0].Locks[0].ID != want.Lock {
				t.Errorf("closed %v with %v, want %s", g.ReadyAt, g.Members[0].Locks, want.Lock)
			}
		})
	}
}

func TestDecideCases(t *testing.T) {
	for _, c := range sharedCases(t, "bracket.decide") {
		t.Run(c.ID, func(t *testing.T) {
			var in struct {
				Lock                      *string
				Candidate, Current, Phase string
				Unchanged                 UnchangedMemberStrategy
			}
			var want struct {
				Decision  string
				Run, Noop bool
			}
			decodeInto(t, c.Input, &in)
			decodeInto(t, c.Expected, &want)
			// The member in question is m; other has the new version that opens the group.
			h := newHost(t)
			h.members, h.versions = nil, nil
			h.member("m")
			h.member("other")
			h.target("node", "m", "v1")
			h.target("node", "other", "v1")
			h.rule.UnchangedMemberStrategy = in.Unchanged
			h.publish("other", "v2", 0)
			now := 60
			switch {
			case in.Phase == "collecting":
				now = 30
			case in.Lock != nil:
				h.publish("m", *in.Lock, 0)
			default:
				h.version("m", "v1").EligibleAt = time.Time{} // nothing to lock
			}
			h.step(now)
			v := h.evaluate("node", "m", in.Candidate)
			if v.Reason.Status() != Allowed || want.Decision != "allow" || (v.Reason == ReasonRun) != (want.Run || in.Lock != nil) || want.Noop && v.Reason == ReasonRun {
				t.Errorf("%+v, want %+v", v, want)
			}
		})
	}
}

func TestExecCases(t *testing.T) {
	read := map[string]func(t *testing.T, h *host){
		"bracket-partial-readiness": func(t *testing.T, h *host) {
			h.publish("kubelet", "v2", 0)
			h.step(60)
			h.start()
			var runs, skipped []string
			for _, m := range h.open("n1").Members {
				if m.Status == MemberSkipped {
					skipped = append(skipped, m.Deployment)
				} else {
					runs = append(runs, m.Deployment)
				}
			}
			if strings.Join(runs, " ") != "drain kubelet uncordon" || strings.Join(skipped, " ") != "containerd os" {
				t.Errorf("runs %v, skipped %v", runs, skipped)
			}
		},
		"bracket-trace": func(t *testing.T, h *host) {
			for _, d := range []string{"os", "kubelet", "containerd"} {
				h.publish(d, "v2", 0)
			}
			for _, row := range []struct {
				minutes int
				ends    string
				starts  string
			}{
				{65, "", "n1/drain@v1"}, {73, "drain", "n1/os@v2"}, {76, "os", "n1/containerd@v2 n1/kubelet@v2"},
				{79, "kubelet containerd", "n1/uncordon@v1"}, {80, "uncordon", ""},
			} {
				for d := range strings.FieldsSeq(row.ends) {
					h.end("n1", d, RunSucceeded, row.minutes)
				}
				h.step(row.minutes)
				h.want(row.starts)
				h.start()
			}
			if last := h.record("n1").Last["prod"]; last.Status != StatusCompleted || !last.EndedAt.Equal(at(80)) {
				t.Errorf("ended %+v", last)
			}
		},
		"bracket-members-share-time": func(t *testing.T, h *host) {
			h.publish("os", "v2", 0)
			h.publish("kubelet", "v2", 0)
			h.publish("containerd", "v2", 0)
			h.due["n1"] = at(65)
			h.step(60)
			for _, d := range []string{"os", "kubelet", "containerd"} {
				if v := h.evaluate("n1", d, "v2"); v.Reason != ReasonNotDue || !v.Until.Equal(at(65)) {
					t.Errorf("%s: %+v", d, v)
				}
			}
		},
		"bracket-late-deployment-next-group": func(t *testing.T, h *host) {
			h.publish("os", "v2", 0)
			h.step(60)
			h.start()
			before := describe(h.state)
			h.member("cni", "drain")
			h.members[4].Needs = append(h.members[4].Needs, "cni")
			h.target("n1", "cni", "v1")
			h.step(61)
			if got := describe(h.state); got != before {
				t.Errorf("the execution changes:\n%s\n%s", before, got)
			}
			h.publish("cni", "v2", 62)
			h.step(122)
			if n := len(h.state.Group.Closed); n != 2 || len(h.state.Group.Closed[1].Members) != 6 {
				t.Errorf("the next group: %s", describe(h.state))
			}
		},
		"bracket-failure-holds": func(t *testing.T, h *host) {
			failKubelet(h, Hold)
			if h.open("n1").Status != StatusFailed || h.starts() != "" {
				t.Errorf("%s", describe(h.state))
			}
			if v := h.evaluate("n1", "uncordon", "v1"); v.Reason != ReasonFailedHolding {
				t.Errorf("uncordon: %+v", v)
			}
		},
		"bracket-failure-retry-then-success": func(t *testing.T, h *host) {
			h.publish("kubelet", "v2", 0)
			h.publish("containerd", "v2", 0)
			h.until(60, "n1", "kubelet")
			h.end("n1", "containerd", RunSucceeded, 63)
			h.end("n1", "kubelet", RunFailed, 63).RetryAt = at(64)
			h.step(64)
			h.want("n1/kubelet@v2")
			h.start()
			h.end("n1", "kubelet", RunSucceeded, 67)
			h.step(67)
			h.want("n1/uncordon@v1")
			if h.open("n1").Status != StatusExecuting {
				t.Errorf("%s", describe(h.state))
			}
		},
		"bracket-failure-run-post": func(t *testing.T, h *host) {
			failKubelet(h, RunPost)
			h.want("n1/uncordon@v1")
			h.finishAll(70)
			if h.ended("n1") != StatusFailed {
				t.Errorf("%s", describe(h.state))
			}
		},
		"bracket-rollback-member-mixed-blocks-post": func(t *testing.T, h *host) {
			failKubelet(h, RollbackMember)
			h.want("n1/kubelet@v1!")
			h.finishAll(70)
			if h.open("n1").Status != StatusFailed || h.status("n1", "kubelet") != MemberRolledBack || h.status("n1", "uncordon") != MemberWaiting {
				t.Errorf("%s", describe(h.state))
			}
		},
		"bracket-preview-no-side-effect": func(t *testing.T, h *host) {
			h.publish("os", "v2", 0)
			h.step(60)
			before := describe(h.state)
			for range 100 {
				h.evaluate("n1", "os", "v2")
			}
			if describe(h.state) != before {
				t.Error("Evaluate changes the state")
			}
		},
	}
	runReadings(t, "bracket.exec", read)
}

// runReadings runs one function per case of an area, and fails for a case without one.
func runReadings(t *testing.T, area string, read map[string]func(*testing.T, *host)) {
	t.Helper()
	cases := sharedCases(t, area)
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			if read[c.ID] == nil {
				t.Fatal("no reading for this case")
			}
			read[c.ID](t, newHost(t, "n1"))
		})
	}
	if len(cases) != len(read) {
		t.Errorf("%d cases, %d readings", len(cases), len(read))
	}
}

// failKubelet brings an execution to the point where kubelet has failed for good and containerd has
// succeeded.
func failKubelet(h *host, strategy OnMemberFailure) {
	h.rule.OnMemberFailure = strategy
	h.publish("kubelet", "v2", 0)
	h.publish("containerd", "v2", 0)
	h.until(60, "n1", "kubelet")
	h.end("n1", "kubelet", RunFailed, 63)
	h.end("n1", "containerd", RunSucceeded, 63)
	h.step(63)
}

func TestOverlapCases(t *testing.T) {
	// open starts group 1 on the node at 60 and publishes versions for a group 2 that closes at
	// 130.
	open := func(h *host, strategy OverlapStrategy) {
		h.rule.OverlapStrategy = strategy
		h.rule.PreparedStatePersists = strategy == Merge
		h.publish("kubelet", "v2", 0)
		h.step(60)
		h.start()
		h.publish("kubelet", "v3", 70)
	}
	runReadings(t, "bracket.overlap", map[string]func(*testing.T, *host){
		"bracket-overlap-queue-waits": func(t *testing.T, h *host) {
			open(h, Queue)
			h.step(130)
			v := h.evaluate("n1", "kubelet", "v3")
			if v.Reason != ReasonQueued || len(v.On) != 1 || v.On[0].Kind != OnExecutionEnd || v.On[0].Resource != "n1" {
				t.Errorf("%+v", v)
			}
		},
		"bracket-overlap-queue-collects-meanwhile": func(t *testing.T, h *host) {
			open(h, Queue)
			h.step(130)
			if h.state.Group.Closed[1].Status != StatusReady || waitsOf(h.plan)[len(waitsOf(h.plan))-1].Reason != ReasonQueued {
				t.Errorf("%s%+v", describe(h.state), waitsOf(h.plan))
			}
			h.end("n1", "drain", RunSucceeded, 131)
			h.until(131, "n1", "uncordon")
			h.end("n1", "uncordon", RunSucceeded, 140)
			h.step(140)
			h.want("n1/drain@v1") // the end of the first execution and the start of the second in one step
		},
		"bracket-overlap-queue-other-node": func(t *testing.T, h *host) {
			h.node("n2")
			open(h, Queue)
			for range 6 {
				for _, f := range h.runs {
					if f.Run.Resource == "n2" && f.Status == RunRunning {
						h.end("n2", f.Run.Deployment, RunSucceeded, 65)
					}
				}
				if h.step(66); len(h.plan.Start) > 0 {
					h.start()
				}
			}
			h.step(130)
			h.want("n2/drain@v1")
			if v := h.evaluate("n1", "kubelet", "v3"); v.Reason != ReasonQueued {
				t.Errorf("n1: %+v", v)
			}
		},
		"bracket-overlap-active-version-continues": func(t *testing.T, h *host) {
			open(h, Queue)
			h.end("n1", "drain", RunSucceeded, 130)
			h.step(130)
			if v := h.evaluate("n1", "kubelet", "v2"); v.Reason != ReasonRun {
				t.Errorf("%+v", v)
			}
		},
		"bracket-merge-ready-group": func(t *testing.T, h *host) {
			open(h, Merge)
			h.end("n1", "drain", RunSucceeded, 100)
			h.step(100)
			h.start()
			h.step(130)
			h.want("")
			if h.status("n1", "kubelet") != MemberRunning || h.status("n1", "drain") != MemberSucceeded {
				t.Errorf("%s", describe(h.state))
			}
			h.end("n1", "kubelet", RunSucceeded, 131)
			h.step(131)
			h.want("n1/kubelet@v3")
			if v := h.evaluate("n1", "uncordon", "v1"); v.Reason != ReasonWaitsForMembers {
				t.Errorf("uncordon: %+v", v)
			}
		},
		"bracket-merge-pre-not-complete": func(t *testing.T, h *host) {
			open(h, Merge)
			h.step(130)
			if v := h.evaluate("n1", "kubelet", "v3"); v.Reason != ReasonQueued || h.open("n1").Generation != 1 {
				t.Errorf("%+v", v)
			}
		},
		"bracket-merge-bounded": func(t *testing.T, h *host) {
			open(h, Merge)
			h.end("n1", "drain", RunSucceeded, 100)
			h.step(130)
			h.publish("kubelet", "v4", 131)
			h.step(191)
			if v := h.evaluate("n1", "kubelet", "v4"); v.Reason != ReasonMergeBudget || len(h.open("n1").Merged) != 1 {
				t.Errorf("%+v", v)
			}
			if w := waitsOf(h.plan)[len(waitsOf(h.plan))-1]; w.Reason != ReasonMergeBudget {
				t.Errorf("%+v", waitsOf(h.plan))
			}
		},
	})
}
