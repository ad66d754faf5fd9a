package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// TestI16OnePositionPerResource: all members of a bracket that wait for their turn on one resource
// have the same position and the same instant.
func TestI16OnePositionPerResource(t *testing.T) {
	env, seen := newRemembering(t), testkit.Tally{}
	checkWorlds(t, env, seen, 100, nil, func(t *rapid.T, w *world) {
		type place struct{ environment, resource, rule string }
		turns := map[place]rollout.Verdict{}
		for wait := range w.plan.Waiting.All() {
			for _, b := range wait.Blockers {
				if b.Reason != "bracket_not_due" || b.Data == nil || wait.Version == "" {
					continue
				}
				at := place{wait.Environment, wait.Resource, b.Rule}
				first, known := turns[at]
				if known && (!first.Until.Equal(b.Until) || first.Data.Position != b.Data.Position) {
					t.Fatalf("on %s: %v and %v\n%v", wait.Resource, first, b, w)
				}
				if turns[at] = b; known {
					seen["shared turn"]++
				}
			}
		}
	}, "shared turn")
}

// TestWhoIsRankedWithABracket: by bracket the resources of its members, by resource all that the
// rule governs in the environment; and a group shuffles them anew if it is asked to.
func TestWhoIsRankedWithABracket(t *testing.T) {
	world := func() rollout.Snapshot {
		s := inEnvironments(fleet(8, "v1", map[string][]string{"node": {"v1", "v2", "v3"}, "tool": {"v1"}}), "qa")
		s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.ID == "v3" })
		s.Targets = slices.DeleteFunc(s.Targets, func(x rollout.Target) bool {
			return x.Deployment == "node" && x.Resource > "r6" || x.Environment == "qa" && x.Resource < "r8"
		})
		return s
	}
	turns := func(plan rollout.Plan) string {
		list := make([]string, 6)
		for wait := range plan.Waiting.All() {
			list[wait.Blockers[0].Data.Position] = wait.Resource
		}
		return strings.Join(list, " ")
	}
	var first []string
	for _, row := range []struct {
		order    string
		founders int
		same     bool
	}{
		{`"orderKey":"resource_bracket"`, 6, true}, {`"orderKey":"resource"`, 8, true}, {`"orderKey":"resource_bracket","orderSalt":"group"`, 6, false},
	} {
		s := world()
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name == 'node'","readinessMode":"immediate","memberRoles":{}}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,`+row.order+`}}`))
		plan := mustPlan(t, set, s, t0.Add(-time.Hour))
		if r := plan.State.Rollouts; len(r) != 1 || r[0].Founders != row.founders || r[0].Environment != "prod" || r[0].Group == "" {
			t.Errorf("%s: rollouts %+v, want one of %d", row.order, r, row.founders)
		}
		if row.founders != 6 {
			continue
		}
		before := turns(plan)
		s.State = plan.State
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "node", Status: rollout.VersionReady, CreatedAt: t0})
		if plan = mustPlan(t, set, s, t0); (turns(plan) == before) != row.same {
			t.Errorf("%s: the first group goes %s, the second %s", row.order, before, turns(plan))
		}
		first = append(first, before)
	}
	if len(first) != 2 || first[0] == first[1] {
		t.Errorf("salted or not the order is %q", first)
	}
}

// TestApprovalOpensTheWindow: a version that waits for an approval is not collected; the window
// starts when the last one is given that any rule needs, and not when the version was published or
// another rule had enough.
func TestApprovalOpensTheWindow(t *testing.T) {
	s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
	set := compile(t, policy(`{"anyApproval":{"minApprovals":2}},{"anyApproval":{"minApprovals":1}},{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}`))
	now := t0.Add(time.Hour)
	plan := mustPlan(t, set, s, now)
	if got := blockers(plan); len(plan.State.Brackets) != 0 || len(got) != 1 || !strings.Contains(got[0], "approval_missing") {
		t.Errorf("before: %q, %d groups", got, len(plan.State.Brackets))
	}
	for by, at := range map[string]time.Time{"ann": now.Add(-30 * time.Minute), "bob": now} {
		s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod", By: by, Status: rollout.Approved, At: at})
	}
	plan = mustPlan(t, set, s, now.Add(time.Minute))
	if got := blockers(plan); !slices.Equal(got, []string{"r1/api@v2: bracket_collecting"}) || !plan.Next.Equal(now.Add(10*time.Minute)) {
		t.Errorf("collecting: %q until %v", got, plan.Next)
	}
	s.State = plan.State
	if plan = mustPlan(t, set, s, now.Add(10*time.Minute)); !slices.Equal(started(plan), []string{"r1/api@v2"}) {
		t.Errorf("closed: starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestShorterWindowEndsWhereItWouldHaveEnded: two hours after the window of four hours opened, and
// half an hour after the second version, somebody makes it shorter.
func TestShorterWindowEndsWhereItWouldHaveEnded(t *testing.T) {
	rules := func(seconds int) *rollout.PolicySet {
		return compile(t, policy(fmt.Sprintf(`{"deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":%d,"memberRoles":{}}},{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`, seconds)))
	}
	s := fleet(8, "v1", map[string][]string{"kubelet": {"v1", "v2"}, "os": {"v1", "v2"}})
	for i := range s.Versions {
		switch v := &s.Versions[i]; {
		case v.ID == "v2" && v.Deployment == "kubelet":
			v.CreatedAt = t0.Add(90 * time.Minute)
		case v.ID == "v2":
			v.CreatedAt = t0
		}
	}
	for _, at := range []time.Duration{0, 90 * time.Minute} {
		s.State = mustPlan(t, rules(4*3600), s, t0.Add(at)).State
	}
	for _, row := range []struct {
		why     string
		seconds int
		starts  int // resources
		next    time.Duration
		waits   string // the last one
	}{
		{"to the time that has passed: it closes now, and the curve begins", 2 * 3600, 1, 130 * time.Minute, "r8/os@v2: bracket_not_due"},
		{"to less, after the second version: the turns since then come at once", 105 * 60, 2, 125 * time.Minute, "r8/os@v2: bracket_not_due"},
		{"to less, before the second version: that one needs a window of its own", 3600, 7, 130 * time.Minute, "r8/kubelet@v2: bracket_next_group"},
	} {
		plan := mustPlan(t, rules(row.seconds), s, t0.Add(2*time.Hour))
		resources := map[string]bool{}
		for _, start := range plan.Start {
			resources[start.Resource] = true
		}
		if len(resources) != row.starts || !plan.Next.Equal(t0.Add(row.next)) || !slices.Contains(blockers(plan), row.waits) {
			t.Errorf("%s: starts %q, waits %q until %v", row.why, started(plan), blockers(plan), plan.Next)
		}
	}
}

// TestOthersApprovalDelaysNobody: one of two nodes needs an approval besides. The other one's group
// is the same whether the plan is made in time or long after the approval, which used to count for
// both.
func TestOthersApprovalDelaysNobody(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Resources[1].Metadata = map[string]string{"cluster": "west"}
	set := compile(t, `[{"name":"all","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}]},
		{"name":"west","selector":"resource.metadata['cluster'] == 'west'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	timely := s
	for _, step := range []struct {
		minute int
		starts []string
	}{{0, nil}, {10, []string{"r1/api@v2"}}, {60, []string{"r1/api@v2", "r2/api@v2"}}} {
		if step.minute == 60 {
			timely.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(60)}}
		}
		plan := mustPlan(t, set, timely, at(step.minute))
		if timely.State = plan.State; !slices.Equal(started(plan), step.starts) {
			t.Errorf("minute %d: starts %q, waits %q", step.minute, started(plan), blockers(plan))
		}
	}
	s.Approvals = timely.Approvals
	// Nor does it matter which of them comes first.
	first := s
	first.Resources = slices.Clone(s.Resources)
	first.Resources[0].Metadata, first.Resources[1].Metadata = s.Resources[1].Metadata, s.Resources[0].Metadata
	if plan := mustPlan(t, set, first, at(61)); !plan.State.Brackets[0].Closed[0].OpenedAt.Equal(t0) {
		t.Errorf("opened %v", plan.State.Brackets[0].Closed[0].OpenedAt)
	}
	late := mustPlan(t, set, s, at(61))
	if got := late.State.Brackets[0].Closed[0]; !slices.Equal(started(late), []string{"r1/api@v2", "r2/api@v2"}) || !got.OpenedAt.Equal(t0) || !got.ReadyAt.Equal(at(10)) {
		t.Errorf("late: starts %q, waits %q, opened %v, closed %v", started(late), blockers(late), got.OpenedAt, got.ReadyAt)
	}
}

// TestApprovalOpensTheWindowOfWhoNeedsIt: a node in the east runs the version already, from its
// image, and may have had it for an hour. One in the west, which needs an approval besides, gets it
// now. The window is its own: it used to be that of the east, over before the approval. So it is
// beside nodes that run an older version and may not have this one.
func TestApprovalOpensTheWindowOfWhoNeedsIt(t *testing.T) {
	for _, row := range []struct {
		why, nodes string // nodes: the clusters of r1, r2 …; with a + where the version runs
		scope      string // of the version
		more       string // a policy
		opened     int    // the minute
	}{
		{"the first node runs it already", "east+ west", "", "", 60},
		{"another one in the east needs it, too, and did so first", "east+ east west", "", "", 0},
		{"as one of two for which it is", "east+ west east", "resource.name != 'r9'", "", 0},
		{"it is not for another one in the east, and not approved for the north", "east+ west east north", "resource.name != 'r3'", "", 60},
		{"also where the node that needs it comes first", "west east+ east north", "resource.name != 'r3'", "", 60},
		{"a version selector refuses it to another one in the east", "east+ west east north", "", `{"name":"m","selector":"resource.metadata['cluster'] == 'east'","rules":[{"versionSelector":{"selector":"resource.name != 'r3'"}}]}`, 60},
		{"a version selector refuses it to another one in the west", "east+ west west north", "", `{"name":"m","selector":"resource.metadata['cluster'] == 'west'","rules":[{"versionSelector":{"selector":"resource.name != 'r3'"}}]}`, 60},
	} {
		nodes := strings.Fields(row.nodes)
		s := fleet(len(nodes), "v1", map[string][]string{"api": {"v1", "v2"}})
		for i, cluster := range nodes {
			own, runs := strings.CutSuffix(cluster, "+")
			if s.Resources[i].Metadata = map[string]string{"cluster": own}; runs {
				s.Targets[i].Current = "v2"
			}
		}
		for i := range s.Versions {
			if s.Versions[i].ID == "v2" {
				s.Versions[i].TargetSelector = row.scope
			}
		}
		policies := `[{"name":"all","selector":"true","rules":[{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}}]},
			{"name":"west","selector":"resource.metadata['cluster'] == 'west'","rules":[{"anyApproval":{"minApprovals":1}}]},
			{"name":"north","selector":"resource.metadata['cluster'] == 'north'","rules":[{"anyApproval":{"minApprovals":2}}]}`
		if row.more != "" {
			policies += "," + row.more
		}
		s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: t0.Add(time.Hour)}}
		plan := mustPlan(t, compile(t, policies+"]"), s, t0.Add(time.Hour+time.Minute))
		first := plan.Events[slices.IndexFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupOpened })]
		if opened := t0.Add(time.Duration(row.opened) * time.Minute); !first.At.Equal(opened) {
			t.Errorf("%s: the window opened at %v: %v", row.why, first.At, plan.Events)
		} else if over := row.opened == 0; len(plan.Start) > 0 != over || !over && !plan.Next.Equal(opened.Add(10*time.Minute)) {
			t.Errorf("%s: starts %q, waits %q until %v", row.why, started(plan), blockers(plan), plan.Next)
		}
	}
}

// TestLatePlanFindsTheGroupsOfTheScopeThen: group 1 closed when v3 came, for r1 and not for r2, where
// v2 was approved only later. A host that looks for the first time after that used to find a group
// for v2 before it.
func TestLatePlanFindsTheGroupsOfTheScopeThen(t *testing.T) {
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	s.Resources[1].Metadata = map[string]string{"cluster": "west"}
	s.Targets[0].Current = "v2"
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v3" {
			v.CreatedAt = at(10)
		}
	}
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(40)}}
	for _, row := range []struct {
		why   string
		mode  string
		looks []int
		want  []string
	}{
		{"in time", `"immediate"`, []int{0, 10, 40}, []string{"group_opened b/prod/1 10", "group_closed b/prod/1 10"}},
		{"late", `"immediate"`, []int{60}, []string{"group_opened b/prod/1 10", "group_closed b/prod/1 10"}},
		{"late, from a state of before", `"immediate"`, []int{0, 60}, []string{"group_opened b/prod/1 10", "group_closed b/prod/1 10"}},
		{"while the window was open it came into scope for both", `"collection_window","readinessWindowSeconds":3000`, []int{60}, []string{"group_opened b/prod/1 10", "group_closed b/prod/1 60"}},
	} {
		set := compile(t, `[{"name":"all","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":`+row.mode+`,"memberRoles":{}}}]},
			{"name":"west","selector":"resource.metadata['cluster'] == 'west'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
		var plan rollout.Plan
		var events []string
		look := s
		for _, minute := range row.looks {
			plan = mustPlan(t, set, look, at(minute))
			for _, e := range plan.Events {
				events = append(events, fmt.Sprintf("%s %s %v", e.Kind, e.Group, e.At.Sub(t0).Minutes()))
			}
			look.State = plan.State
		}
		if !slices.Equal(events, row.want) || !slices.Equal(started(plan), []string{"r1/api@v3", "r2/api@v2"}) || plan.Start[1].Group != "b/prod/1" {
			t.Errorf("%s: %q, starts %q, waits %q", row.why, events, started(plan), blockers(plan))
		}
	}
}

// TestLatePlanBetweenTwoVersions: r2 needs a group of its own from when it may have v2, which group 1
// did not bring it, to when it may have v4, which group 1 has locked. A late plan finds that group all
// the same, although nobody needs it at the last instant at which a version came to more resources.
func TestLatePlanBetweenTwoVersions(t *testing.T) {
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	set := compile(t, policy(`{"id":"rule","anyApproval":{"minApprovals":1}},{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(4, "v1", map[string][]string{"api": {"v1", "v2", "v3", "v4"}, "db": {"v1", "v2"}})
	s.Targets[0].Current = "v3" // api on r1
	for _, own := range []struct {
		resource, deployment, version string
		minute                        int
	}{
		{"r1", "api", "v4", 0}, {"r1", "api", "v2", 5}, {"r2", "api", "v2", 12}, {"r2", "api", "v4", 30}, {"r3", "api", "v4", 40}, {"r4", "api", "v4", 45}, {"r1", "db", "v2", 50},
	} {
		s.Overrides = append(s.Overrides, override("rule", only(own.resource), of(own.deployment), func(o *rollout.Override) {
			o.ID, o.Version, o.CreatedAt = own.resource+own.deployment+own.version, own.version, at(own.minute)
		}))
	}
	want := []string{"group_opened b/prod/1 0", "group_closed b/prod/1 0", "group_opened b/prod/2 12", "group_closed b/prod/2 12", "group_superseded b/prod/1 12",
		"group_opened b/prod/3 50", "group_closed b/prod/3 50", "group_superseded b/prod/2 50"}
	for _, looks := range [][]int{{0, 5, 12, 30, 40, 45, 50, 60}, {0, 60}, {60}} {
		look, events := s, []string{}
		for _, minute := range looks {
			plan := mustPlan(t, set, look, at(minute))
			for _, e := range plan.Events {
				events = append(events, fmt.Sprintf("%s %s %v", e.Kind, e.Group, e.At.Sub(t0).Minutes()))
			}
			look.State = plan.State
		}
		if !slices.Equal(events, want) {
			t.Errorf("looks %v: %q", looks, events)
		}
	}
}

// TestLatePlanFindsTheRolesThen: drain is a hook once there is a v2 of it, which os needs. A group
// whose window was over by then has no hooks, also if a host looks only later. (Found by
// TestLatePlanEqualsTimely, -rapid.seed=450427: the late plan had hooks, and the one in time had none.)
func TestLatePlanFindsTheRolesThen(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'drain' && version.tag == 'v2'","appliesTo":"deployment.name == 'os'"}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'os'","appliesTo":"deployment.name == 'uncordon'"}}`))
	for _, row := range []struct {
		created int // when drain v2 was
		looks   []int
		want    string // roles of drain, os and uncordon
		why     string
	}{
		{11, []int{0, 10, 11, 12}, "main main main", "in time"},
		{11, []int{12}, "main main main", "late"},
		{11, []int{0, 12}, "main main main", "late, from a state of before"},
		{10, []int{0, 10, 12}, "pre main post", "in time, with a version that comes as the window ends"},
		{10, []int{12}, "pre main post", "late, with that version"},
		{20, []int{12}, "main main main", "with a version that is listed for later"},
	} {
		s := fleet(1, "v1", map[string][]string{"drain": {"v1", "v2"}, "os": {"v1", "v2"}, "uncordon": {"v1"}})
		for i := range s.Versions {
			if v := &s.Versions[i]; v.ID == "v2" {
				v.CreatedAt = minute(0)
				if v.Deployment == "drain" {
					v.CreatedAt = minute(row.created)
				}
			}
		}
		var plan rollout.Plan
		for _, m := range row.looks {
			plan = mustPlan(t, set, s, minute(m))
			s.State = plan.State
		}
		var roles []string
		for _, m := range plan.State.Brackets[0].Closed[0].Members {
			roles = append(roles, string(m.Role))
		}
		if got := strings.Join(roles, " "); got != row.want || len(plan.State.Brackets[0].Closed) != 1 {
			t.Errorf("%s: %s, starts %q, waits %q", row.why, got, started(plan), blockers(plan))
		}
	}
}

// TestLatePlanFindsTheGroupsAmongManyApprovals: every node is let past an approval in a minute of its
// own, which is not in their order. Windows open and close among these minutes, and a host that looks
// late finds the same ones as a host that looks at each.
func TestLatePlanFindsTheGroupsAmongManyApprovals(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":600,"memberRoles":{}}},{"id":"ok","anyApproval":{"minApprovals":1}}`))
	s := fleet(24, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v3" {
			v.CreatedAt = minute(30)
		}
	}
	for k, r := range s.Resources {
		for version, from := range map[string]int{"v2": 0, "v3": 30} {
			s.Overrides = append(s.Overrides, override("ok", only(r.ID), func(o *rollout.Override) {
				o.ID, o.Version, o.CreatedAt = version+r.ID, version, minute(from+(k+1)*7%25)
			}))
		}
	}
	var inTime []int
	for m := range 91 {
		inTime = append(inTime, m)
	}
	told := func(plan rollout.Plan) (events []string) {
		for _, e := range plan.Events {
			events = append(events, fmt.Sprintf("%s %s %v", e.Kind, e.Group, e.At.Sub(t0).Minutes()))
		}
		return events
	}
	var want []string
	for _, looks := range [][]int{inTime, {90}, {0, 90}, {5, 90}, {0, 13, 90}} {
		look, events := s, []string(nil)
		for _, m := range looks {
			plan := mustPlan(t, set, look, minute(m))
			look.State, events = plan.State, append(events, told(plan)...)
		}
		if want == nil {
			want = events
		}
		if !slices.Equal(events, want) || len(want) < 4 {
			t.Errorf("looks at %v: %q, want %q", looks, events, want)
		}
	}
	// What ends because its resource is gone ends when that is seen.
	plan := mustPlan(t, set, s, minute(12))
	carryOut(t, &s, plan, minute(12), rollout.JobInProgress)
	gone := plan.Start[0].TargetID
	s.Targets = slices.DeleteFunc(s.Targets, func(t rollout.Target) bool { return t.TargetID == gone })
	s.DeletedResources = []string{gone.Resource}
	if events := told(mustPlan(t, set, s, minute(90))); !slices.Contains(events, "execution_ended b/prod/1 90") {
		t.Errorf("after a resource was deleted: %q", events)
	}
}

// TestLatePlanCountsTurnsFromTheGroupThen: api v2 and then v3 come into scope in the west, after the
// group that locked them for the east has ended there. The window opens with v2 and closes in time for
// v3, and the turns count from that. A late plan used to count them from the end of a window that
// opened with v3, because of a decision that it had already given up.
func TestLatePlanCountsTurnsFromTheGroupThen(t *testing.T) {
	at := func(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }
	set := compile(t, `[{"name":"all","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":1800,"memberRoles":{}}},
			{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderKey":"resource_bracket"}}]},
		{"name":"west","selector":"resource.metadata['cluster'] == 'west' && deployment.name == 'api'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
	s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2", "v3"}, "db": {"v1", "v2"}})
	s.Resources[1].Metadata = map[string]string{"cluster": "west"}
	s.Resources[2].Metadata = map[string]string{"cluster": "west"}
	for i := range s.Versions {
		s.Versions[i].CreatedAt = at(-300)
	}
	carryOut(t, &s, mustPlan(t, set, s, at(-100)), at(-100), rollout.JobSuccessful)
	s.State = mustPlan(t, set, s, at(-90)).State
	approved := func(version string, minute int) rollout.Approval {
		return rollout.Approval{Version: version, Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: at(minute)}
	}
	s.Approvals = []rollout.Approval{approved("v2", 20), approved("v3", 40)}
	for _, looks := range [][]int{{20, 40, 50, 65}, {65}, {75}} {
		look := s
		var plan rollout.Plan
		for _, minute := range looks {
			plan = mustPlan(t, set, look, at(minute))
			look.State = plan.State
		}
		for _, record := range plan.State.Rollouts {
			if !record.StartAt.Equal(at(50)) || plan.State.Brackets[0].Closed[0].ID != record.Group {
				t.Errorf("looks %v: %s begins at %v", looks, record.Group, record.StartAt)
			}
		}
		if want := map[int]int{65: 1, 75: 2}[looks[len(looks)-1]]; len(plan.State.Rollouts) != 1 || len(plan.Start) != want {
			t.Errorf("looks %v: starts %q, waits %q, %d rollouts", looks, started(plan), blockers(plan), len(plan.State.Rollouts))
		}
	}
}

// TestLatePlanLeavesTheTurnsOfOthers: a decision about b is given up for another one, and the turns
// that the group of a began in the same plan are stored all the same.
func TestLatePlanLeavesTheTurnsOfOthers(t *testing.T) {
	set := compile(t, `[{"name":"a","selector":"deployment.name == 'api'","rules":[{"id":"a","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
			{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderKey":"resource_bracket"}}]},
		{"name":"b","selector":"deployment.name == 'web'","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]},
		{"name":"west","selector":"resource.id == 'r2' && deployment.name == 'web'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}, "web": {"v1", "v2", "v3"}})
	for i := range s.Versions {
		if v := &s.Versions[i]; v.ID == "v3" {
			v.CreatedAt = minute(10)
		}
	}
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "web", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(40)}}
	plan := mustPlan(t, set, s, minute(60))
	if list := plan.State.Rollouts; len(list) != 1 || list[0].Rule != "g" || list[0].Group != "a/prod/1" {
		t.Errorf("stored are the turns of %+v", list)
	}
}

// TestRetryInsideBracket: attempts count per group, the delay from the end of the attempt, and
// without a rule the first failure holds the slot.
func TestRetryInsideBracket(t *testing.T) {
	for _, row := range []struct {
		why   string
		retry string
		fails int
		want  []string // instants of the starts after t0, and their runs
		held  bool
	}{
		{"without a rule it is held", "", 1, []string{"0s 1"}, true},
		{"two failures, exponential delays", `,{"retry":{"maxRetries":3,"backoffSeconds":60,"backoffStrategy":"exponential"}}`, 2, []string{"0s 1", "2m0s 2", "5m0s 3"}, false},
		{"one failure too many", `,{"retry":{"maxRetries":1,"backoffSeconds":60}}`, 2, []string{"0s 1", "2m0s 2"}, true},
		{"what failed outside of the group does not count", `,{"retry":{"maxRetries":1,"backoffSeconds":60}}`, 1, []string{"0s 1", "2m0s 2"}, false},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		if strings.Contains(row.why, "outside") {
			s.Targets[0].Jobs = []rollout.Job{{Run: "by hand/deploy", Version: "v2", Status: rollout.JobFailure, CreatedAt: t0.Add(-time.Minute), CompletedAt: t0}}
		}
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"pool","resourceConcurrency":{"groupSelector":"true","limit":1}}`+row.retry))
		var got []string
		now, failed := t0, 0
		for range 20 {
			plan := mustPlan(t, set, s, now)
			for _, start := range plan.Start {
				parts := strings.Split(start.Run, "/")
				got = append(got, now.Sub(t0).String()+" "+parts[len(parts)-2])
				status := rollout.JobSuccessful
				if failed < row.fails {
					status, failed = rollout.JobFailure, failed+1
				}
				s.State = mustCommit(t, plan, now)
				j := job(start, now, status)
				j.CompletedAt = now.Add(time.Minute)
				add(&s, start, j)
			}
			if len(plan.Start) > 0 {
				now = now.Add(time.Minute)
				continue
			}
			s.State = plan.State
			if plan.Next.IsZero() {
				break
			}
			now = plan.Next
		}
		if held := len(leases(s.State)) == 1; !slices.Equal(got, row.want) || held != row.held {
			t.Errorf("%s: starts %q, want %q; held %v", row.why, got, row.want, held)
		}
	}
}

// TestNoAttemptInsideBracket: a run that ends with a status that no retry rule counts is not
// repeated in a bracket: to start a drain again as soon as somebody has cancelled it would be the
// opposite of what was meant. Outside of brackets such a job is no attempt, and the target is tried
// again.
func TestNoAttemptInsideBracket(t *testing.T) {
	for _, row := range []struct {
		why, retry string
		status     rollout.JobStatus
		want       string
	}{
		{"it counts: it is repeated", `{"retry":{"maxRetries":1}}`, rollout.JobFailure, "starts r1/api@v2"},
		{"cancelled by somebody", `{"retry":{"maxRetries":1}}`, rollout.JobCancelled, "waits bracket_failed_holding"},
		{"skipped by its agent", `{"retry":{"maxRetries":1}}`, rollout.JobSkipped, "waits bracket_failed_holding"},
		{"cancelled, where that counts", `{"retry":{"maxRetries":1,"retryOnStatuses":["cancelled"]}}`, rollout.JobCancelled, "starts r1/api@v2"},
		{"a failure, where that does not count", `{"retry":{"maxRetries":1,"retryOnStatuses":["cancelled"]}}`, rollout.JobFailure, "waits bracket_failed_holding"},
	} {
		s := fleet(1, "v1", map[string][]string{"api": {"v1", "v2"}})
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},`+row.retry))
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, row.status)
		plan := mustPlan(t, set, s, minute(1))
		got := ""
		for _, start := range started(plan) {
			got += "starts " + start
		}
		for _, wait := range waitingOf(plan) {
			got += "waits " + string(wait.Blockers[0].Reason)
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.why, got, row.want)
		}
	}
}

// TestOutdatedAndNotDeployable: a target is outdated, and the version that it runs may not be
// deployed any more. A bracket locks only what may be deployed, so it has nothing for the target;
// outside of brackets what a target runs has passed its gates once and for all.
func TestOutdatedAndNotDeployable(t *testing.T) {
	const inside = `{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`
	const selector = `{"id":"s","versionSelector":{"selector":"version.tag != 'v2'"}}`
	for _, row := range []struct {
		why, rules string
		status     rollout.VersionStatus
		starts     int
	}{
		{"in a bracket, deployable", inside, rollout.VersionReady, 1},
		{"in a bracket, paused", inside, rollout.VersionPaused, 0},
		{"in a bracket, refused by a version selector", inside + "," + selector, rollout.VersionReady, 0},
		{"outside, paused", `{"retry":{"maxRetries":0}}`, rollout.VersionPaused, 1},
		{"outside, refused by a version selector", selector, rollout.VersionReady, 1},
	} {
		s := fleet(1, "v2", map[string][]string{"api": {"v1", "v2"}})
		for k := range s.Versions {
			if s.Versions[k].ID == "v2" {
				s.Versions[k].Status = row.status
			}
		}
		s.Targets[0].OutdatedAt = t0
		plan := mustPlan(t, compile(t, policy(row.rules)), s, minute(1))
		if len(plan.Start) != row.starts || plan.Waiting.Len() != 0 || plan.Keep.Current != 1-row.starts {
			t.Errorf("%s: starts %q, waits %q, keeps %+v", row.why, started(plan), blockers(plan), plan.Keep)
		}
	}
}

// TestOutdatedInTheFuture: a target says that it will need a run later. What makes it need one by
// now, a version that is approved there after the execution has ended, does not wait for that, and
// the host is woken for the later run all the same.
func TestOutdatedInTheFuture(t *testing.T) {
	t.Parallel()
	set := compile(t, `[{"name":"all","selector":"true","rules":[{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}]},
		{"name":"gold","selector":"deployment.name == 'a' && resource.id == 'r2'","rules":[{"anyApproval":{"minApprovals":1}}]}]`)
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	s.State = mustPlan(t, set, s, minute(1)).State
	s.Targets[2].OutdatedAt = minute(60)
	s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(10)}}
	plan := mustPlan(t, set, s, minute(10))
	if got := started(plan); !slices.Equal(got, []string{"r2/a@v2"}) || !plan.Next.Equal(minute(60)) {
		t.Errorf("starts %q, waits %q, next %v", got, blockers(plan), plan.Next)
	}
	carryOut(t, &s, plan, minute(10), rollout.JobSuccessful)
	s.State = mustPlan(t, set, s, minute(11)).State
	if got := started(mustPlan(t, set, s, minute(60))); !slices.Equal(got, []string{"r2/a@v2"}) {
		t.Errorf("once it is outdated %q start", got)
	}
}

// TestApprovedThereLater: a policy asks for more on some resources of a bracket, so a group can
// lock a version that these may have only later. If their execution did without it, another group
// makes up for it, there and nowhere else; otherwise they would wait for the next release.
func TestApprovedThereLater(t *testing.T) {
	t.Parallel()
	const members = `{"name":"all","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}%s]}`
	const collecting = `{"name":"all","selector":"true","rules":[{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":1800,"memberRoles":{}}}]}`
	const merge = `{},"overlapStrategy":"merge","preparedStatePersists":true`
	const gold = `,{"name":"gold","selector":"resource.id == 'r2'","rules":[{"id":"g","anyApproval":{"minApprovals":1}}]}`
	type step struct {
		minute   int
		approve  string                       // deployments, on which v2 is approved at that minute
		earlier  int                          // or so many minutes before
		newer    string                       // the selector of a v3 of a, approved, which is there from then on
		other    string                       // the selector of a v3 of b, likewise
		older    string                       // the id of a version of a with which v2 has a newer one for r1: v2 sorts behind it
		override *rollout.Override            // of the approval
		status   map[string]rollout.JobStatus // of the jobs that start then; others succeed
		end      string                       // a deployment of which the jobs on r2 succeed then
		want     []string                     // what starts, and in which group
	}
	for _, row := range []struct {
		why      string
		policies string
		current  string // of a on r2; empty: v1
		steps    []step
		opened   int    // groups; 0: up to the last that began something
		tried    string // a version with which a job by hand has failed on r2
	}{
		{"the group did not lock it, since it locked a newer one for the other resource before anybody might have it", fmt.Sprintf(members, `,{"id":"g","anyApproval":{"minApprovals":1}}`), "", []step{
			{minute: 0, newer: "resource.id == 'r1'", want: []string{"r1/a@v3 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 2"}},
			{minute: 20, approve: "b", want: []string{"r1/b@v2 3", "r2/b@v2 3"}},
			{minute: 30},
		}, 0, ""},
		{"the newer one has an id that sorts before it", fmt.Sprintf(members, `,{"id":"g","anyApproval":{"minApprovals":1}}`), "", []step{
			{minute: 0, older: "v10", want: []string{"r1/a@v10 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 2"}},
			{minute: 20},
		}, 0, ""},
		{"a newer one is for the other resource, and approved here as well", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, newer: "resource.id == 'r1'", approve: "b", want: []string{"r1/a@v3 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 2"}},
			{minute: 20},
		}, 0, ""},
		{"a group after that which locked it has not, since nobody might have it any more, and was not for this resource", fmt.Sprintf(members, `,{"id":"g","anyApproval":{"minApprovals":1}}`), "", []step{
			{minute: 0, override: &rollout.Override{Resource: "r1", ExpiresAt: t0.Add(5 * time.Minute)}, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 6, other: "resource.id == 'r1'", want: []string{"r1/b@v3 2"}},
			{minute: 20, approve: "a", want: []string{"r2/a@v2 3"}},
			{minute: 30},
		}, 0, ""},
		{"its turn in the execution has not come", fmt.Sprintf(members, `,{"id":"d","deploymentDependency":{"appliesTo":"deployment.name == 'a'","dependsOn":"deployment.name == 'b'"}}`) + gold, "", []step{
			{minute: 0, status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r1/b@v2 1"}},
			{minute: 20, approve: "a b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v2 1"}},
			{minute: 30},
			{minute: 40, end: "b", want: []string{"r2/a@v2 1"}},
			{minute: 50},
		}, 0, ""},
		{"one from the start", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, approve: "b", want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 2"}},
			{minute: 20},
		}, 0, ""},
		{"at one instant, but seen one after the other", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 10, approve: "b", want: []string{"r2/b@v2 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 2"}},
			{minute: 20},
		}, 0, ""},
		{"while the execution that does without it still runs", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 10, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v2 1"}},
			{minute: 20, approve: "a"},
			{minute: 30, end: "b", want: []string{"r2/a@v2 2"}},
			{minute: 40},
		}, 0, ""},
		{"and a group collects when that ends", collecting + gold, "", []step{
			{minute: 30, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 40, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v2 1"}},
			{minute: 50, approve: "a"},
			{minute: 60, end: "b"},
			{minute: 80, want: []string{"r2/a@v2 2"}},
			{minute: 90},
		}, 0, ""},
		{"while it still runs, of which a plan is told only when that has ended", collecting + gold, "", []step{
			{minute: 30, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 40, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v2 1"}},
			{minute: 60, end: "b"},
			{minute: 70, approve: "a", earlier: 20},
			{minute: 80, want: []string{"r2/a@v2 2"}},
			{minute: 90},
		}, 0, ""},
		{"before it began, of which the plan was told too late", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 40, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v2 1"}},
			{minute: 60, end: "b"},
			{minute: 70, approve: "a", earlier: 35},
		}, 0, ""},
		{"after what a group had brought it beside it", fmt.Sprintf(strings.Replace(members, `{}`, merge, 1), "") + gold, "", []step{
			{minute: 0, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, other: "resource.id == 'r2'"},
			{minute: 20, end: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v3 1"}},
			{minute: 40, end: "b"},
			{minute: 50, approve: "a", earlier: 20, want: []string{"r2/a@v2 3"}},
			{minute: 60},
		}, 0, ""},
		{"after the execution that did without it, and that the group was merged into, has ended", fmt.Sprintf(strings.Replace(members, `{}`, merge, 1), "") + gold, "", []step{
			{minute: 0, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, other: "resource.id == 'r2'"},
			{minute: 20, end: "b", want: []string{"r2/b@v3 1"}},
			{minute: 30, approve: "a", want: []string{"r2/a@v2 3"}},
			{minute: 40},
		}, 0, ""},
		{"while it still runs", fmt.Sprintf(strings.Replace(members, `{}`, merge, 1), "") + gold, "", []step{
			{minute: 0, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, other: "resource.id == 'r2'"},
			{minute: 20, end: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r2/b@v3 1"}},
			{minute: 30, approve: "a"},
			{minute: 40, end: "b", want: []string{"r2/a@v2 3"}},
			{minute: 50},
		}, 0, ""},
		{"the group that has locked it waits for the end of one that is open", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobInProgress}, want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, other: "resource.id == 'r2'"},
			{minute: 20, approve: "a"},
			{minute: 30, end: "b", want: []string{"r2/a@v2 2", "r2/b@v3 2"}},
			{minute: 40},
		}, 0, ""},
		{"one after the other", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 1"}},
			{minute: 20, approve: "b", want: []string{"r2/b@v2 2"}},
			{minute: 30},
		}, 0, ""},
		{"what failed there in the first group is not begun again by the second", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 10, approve: "a", status: map[string]rollout.JobStatus{"a": rollout.JobFailure}, want: []string{"r2/a@v2 1"}},
			{minute: 20, approve: "b"},
		}, 2, ""},
		{"it was tried before, by hand, and failed", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, approve: "b", want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a"},
		}, 0, "v2"},
		{"another one was", fmt.Sprintf(members, "") + gold, "", []step{
			{minute: 0, approve: "b", want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 2"}},
		}, 0, "v1"},
		{"it had it before, by hand", fmt.Sprintf(members, "") + gold, "v2", []step{
			{minute: 0, approve: "b", want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a"},
		}, 0, ""},
		{"nobody knows what it has", fmt.Sprintf(members, "") + gold, "v0", []step{
			{minute: 0, approve: "b", want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a"},
		}, 0, ""},
		{"a newer one has failed there", fmt.Sprintf(strings.Replace(members, `{}`, `{},"onMemberFailure":"run_post"`, 1), "") + gold, "", []step{
			{minute: 0, newer: "true", status: map[string]rollout.JobStatus{"a": rollout.JobFailure}, want: []string{"r1/a@v3 1", "r1/b@v2 1", "r2/a@v3 1"}},
			{minute: 10, approve: "a"},
		}, 0, ""},
		{"the execution that did without it has failed", fmt.Sprintf(strings.Replace(members, `{}`, `{},"onMemberFailure":"run_post"`, 1), "") + gold, "", []step{
			{minute: 0, approve: "b", status: map[string]rollout.JobStatus{"b": rollout.JobFailure}, want: []string{"r1/a@v2 1", "r1/b@v2 1", "r2/b@v2 1"}},
			{minute: 10, approve: "a"},
		}, 0, ""},
		{"it failed there before, in an execution that has ended", fmt.Sprintf(strings.Replace(members, `{}`, `{},"onMemberFailure":"run_post"`, 1), "") + gold, "", []step{
			{minute: 0, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 10, approve: "a", status: map[string]rollout.JobStatus{"a": rollout.JobFailure}, want: []string{"r2/a@v2 1"}},
			{minute: 20, approve: "b"},
		}, 0, ""},
		{"the group that has locked it has not been there yet, and an earlier one has", fmt.Sprintf(members, `,{"id":"g","anyApproval":{"minApprovals":1}}`) + strings.Replace(gold, `"id":"g","anyApproval":{"minApprovals":1}`, `"id":"g2","anyApproval":{"minApprovals":2}`, 1), "", []step{
			{minute: 0, approve: "b", want: []string{"r1/b@v2 1"}},
			{minute: 10, approve: "b", want: []string{"r2/b@v2 1"}},
			{minute: 20, approve: "a", want: []string{"r1/a@v2 2"}},
			{minute: 30, approve: "a", want: []string{"r2/a@v2 2"}},
			{minute: 40},
		}, 0, ""},
		{"an override lets one in earlier and is over when the others are approved", fmt.Sprintf(members, `,{"id":"g","anyApproval":{"minApprovals":1}}`), "", []step{
			{minute: 0, override: &rollout.Override{Resource: "r1", ExpiresAt: t0.Add(5 * time.Minute)}, want: []string{"r1/a@v2 1", "r1/b@v2 1"}},
			{minute: 10, approve: "a", want: []string{"r2/a@v2 1"}},
			{minute: 20, approve: "b", want: []string{"r2/b@v2 2"}},
		}, 0, ""},
	} {
		set := compile(t, "["+row.policies+"]")
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		if row.current != "" {
			s.Targets[2].Current = row.current
		}
		if row.tried != "" {
			s.Targets[2].Jobs = []rollout.Job{{Run: "by hand", Version: row.tried, Status: rollout.JobFailure, CreatedAt: minute(-2), CompletedAt: minute(-1)}}
		}
		last := 1 // the group that began something last
		for k, step := range row.steps {
			now := t0.Add(time.Duration(step.minute) * time.Minute)
			for deployment := range strings.FieldsSeq(step.approve) {
				s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: deployment, Environment: "prod", By: strconv.Itoa(k), Status: rollout.Approved, At: now.Add(-time.Duration(step.earlier) * time.Minute)})
			}
			if step.newer != "" {
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0, TargetSelector: step.newer})
				s.Approvals = append(s.Approvals, rollout.Approval{Version: "v3", Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: now})
			}
			if step.other != "" {
				s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "b", Status: rollout.VersionReady, CreatedAt: now, TargetSelector: step.other})
				s.Approvals = append(s.Approvals, rollout.Approval{Version: "v3", Deployment: "b", Environment: "prod", By: "ann", Status: rollout.Approved, At: now})
			}
			if step.older != "" {
				s.Versions = append(s.Versions, rollout.Version{ID: step.older, Deployment: "a", Status: rollout.VersionReady, CreatedAt: now.Add(-time.Second), TargetSelector: "resource.id == 'r1'"})
				s.Approvals = append(s.Approvals, rollout.Approval{Version: step.older, Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: now})
				for n := range s.Versions {
					if v := &s.Versions[n]; v.Deployment == "a" && v.ID == "v2" {
						v.CreatedAt = now.Add(-time.Minute)
					}
				}
			}
			if o := step.override; o != nil {
				o.ID, o.Rule, o.Version, o.CreatedAt, o.CreatedBy, o.Reason = "o", "g", "v2", now, "ann", "urgent"
				s.Overrides = append(s.Overrides, *o)
			}
			for k := range s.Targets {
				for j := range s.Targets[k].Jobs {
					if x := &s.Targets[k]; x.Resource == "r2" && x.Deployment == step.end && !x.Jobs[j].Status.Terminal() {
						x.Jobs[j].Status, x.Jobs[j].CompletedAt, x.Current = rollout.JobSuccessful, now, x.Jobs[j].Version
					}
				}
			}
			plan := mustPlan(t, set, s, now)
			got := started(plan)
			for n, start := range plan.Start {
				number := strings.TrimPrefix(start.Group, "b/prod/")
				got[n] += " " + number
				if group, err := strconv.Atoi(number); err == nil {
					last = max(last, group)
				}
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("%s: step %d starts %q, want %q; waits %q", row.why, k, got, step.want, blockers(plan))
			}
			s.State = mustCommit(t, plan, now)
			for _, start := range plan.Start {
				status := step.status[start.Deployment]
				if status == "" {
					status = rollout.JobSuccessful
				}
				add(&s, start, job(start, now, status))
			}
			after := mustPlan(t, set, s, now.Add(time.Minute))
			if s.State = after.State; len(after.Start) > 0 {
				t.Errorf("%s: after step %d %q start", row.why, k, started(after))
			}
		}
		if got := s.State.Brackets[0].Number; got != max(row.opened, last) {
			t.Errorf("%s: %d groups, of which the last that began something is %d", row.why, got, last)
		}
	}
}

// TestObstaclesOfMembers: whatever keeps one member from running, and is no matter of the bracket,
// holds the whole resource before its drain. The other resource, on which nothing is in the way,
// goes ahead.
func TestObstaclesOfMembers(t *testing.T) {
	const bracketed = `{"deploymentBracket":{"deploymentSelector":"deployment.name != 'base'","readinessMode":"immediate","memberRoles":{}}}`
	find := func(s *rollout.Snapshot, deployment string) *rollout.Target {
		k := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.Resource == "r1" && t.Deployment == deployment })
		return &s.Targets[k]
	}
	base := func(s *rollout.Snapshot) { // runs v1 on r1 and v2 on r2, where it stays
		for i := range s.Targets {
			if s.Targets[i].Deployment == "base" && s.Targets[i].Resource == "r2" {
				s.Targets[i].Current = "v2"
			}
		}
		for i := range s.Versions {
			if s.Versions[i].Deployment == "base" && s.Versions[i].ID == "v2" {
				s.Versions[i].Status = rollout.VersionPaused
			}
		}
	}
	for _, row := range []struct {
		why, rules string
		change     func(*rollout.Snapshot)
		want       string // what both members on r1 wait for
	}{
		{"a dependency rule on who is no member", `,{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'","appliesTo":"deployment.name == 'app'"}}`,
			base, "bracket_not_due dependency_unmet"},
		{"a dependency of the version on who is no member", "", func(s *rollout.Snapshot) {
			base(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "app" && v.ID == "v2" {
					v.Dependencies = []rollout.VersionDependency{{Deployment: "base", VersionSelector: "version.tag == 'v2'"}}
				}
			}
		}, "bracket_not_due version_dependency_unmet"},
		{"what both wait for is said once", `,{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'"}}`, base, "bracket_not_due dependency_unmet"},
		{"what each waits for on its own is said of both", `,{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'"}}`, func(s *rollout.Snapshot) {
			base(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment == "app" && v.ID == "v2" {
					v.Dependencies = []rollout.VersionDependency{{Deployment: "base", VersionSelector: "version.tag == 'v2'"}}
				}
			}
		}, "bracket_not_due dependency_unmet version_dependency_unmet"},
		{"two versions, one dependency", "", func(s *rollout.Snapshot) {
			base(s)
			for i := range s.Versions {
				if v := &s.Versions[i]; v.Deployment != "base" && v.ID == "v2" {
					v.Dependencies = []rollout.VersionDependency{{Deployment: "base", VersionSelector: "version.tag == 'v2'"}}
				}
			}
		}, "bracket_not_due version_dependency_unmet"},
		{"a job that the bracket did not start", "", func(s *rollout.Snapshot) {
			find(s, "lib").Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Minute)}}
		}, "bracket_not_due target_busy"},
		{"a current version that nobody lists", "", func(s *rollout.Snapshot) { find(s, "app").Current = "v0" }, "bracket_not_due version_unknown"},
		{"a concurrency rule that cannot be asked", `,{"resourceConcurrency":{"limitType":"count","limitValue":9,"groupSelector":"int(resource.metadata['rack']) > 0"}}`, func(s *rollout.Snapshot) {
			s.Resources[0].Metadata, s.Resources[1].Metadata = map[string]string{"rack": "a"}, map[string]string{"rack": "1"}
		}, "bracket_not_due selector_error"},
	} {
		s := fleet(2, "v1", map[string][]string{"app": {"v1", "v2"}, "lib": {"v1", "v2"}, "base": {"v1", "v2"}})
		row.change(&s)
		plan := mustPlan(t, compile(t, policy(bracketed+row.rules)), s, t0)
		for _, line := range blockers(plan) {
			if strings.HasPrefix(line, "r1/app@v2:") || strings.HasPrefix(line, "r1/lib@v2:") {
				if got := line[len("r1/app@v2: "):]; got != row.want {
					t.Errorf("%s: %s, want %s", row.why, line, row.want)
				}
			}
		}
		members := slices.DeleteFunc(started(plan), func(s string) bool { return strings.Contains(s, "/base@") })
		slices.Sort(members)
		if want := []string{"r2/app@v2", "r2/lib@v2"}; !slices.Equal(members, want) {
			t.Errorf("%s: starts %q, want %q", row.why, members, want)
		}
	}
}

// TestDefectDeletedVersionOfAMember: a member whose execution has ended runs a version that was
// deleted since. What is left of its versions is older, as far as anybody knows, so the target
// waits for the bracket and for the version: without the bracket it would wait for the version
// still.
func TestDefectDeletedVersionOfAMember(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(1, "v1", map[string][]string{"app": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	s.State = mustPlan(t, set, s, minute(1)).State
	s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.ID == "v2" })
	for k := range s.Targets {
		s.Targets[k].Current = "v2"
	}
	plan := mustPlan(t, set, s, minute(2))
	if got, want := blockers(plan), []string{"r1/app@v1: bracket_not_locked version_unknown"}; len(plan.Start) > 0 || !slices.Equal(got, want) {
		t.Errorf("starts %q, waits %q, want %q", started(plan), got, want)
	}
}

// TestObstaclesBeforeTheTurn: what is in the way is said before the turn comes, and not only then.
func TestObstaclesBeforeTheTurn(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600}}`))
	s := fleet(2, "v1", map[string][]string{"app": {"v1", "v2"}})
	late := waitingOf(mustPlan(t, set, s, t0))[0].Resource
	for i := range s.Targets {
		if s.Targets[i].Resource == late {
			s.Targets[i].Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0.Add(-time.Minute)}}
		}
	}
	plan := mustPlan(t, set, s, t0)
	if got, want := blockers(plan), []string{late + "/app@v2: bracket_not_due target_busy"}; !slices.Equal(got, want) {
		t.Errorf("waits %q, want %q", got, want)
	}
}

// TestObstaclesInTheOrderOfTheRules: what keeps an execution from its turn is found member by
// member, windows and cooldowns apart, and is listed in the order of the rules all the same, as for
// a target that is in no bracket and as an explanation lists it.
func TestObstaclesInTheOrderOfTheRules(t *testing.T) {
	set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"deployment.name != 'base'","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"dependsOn":"deployment.name == 'base' && version.tag == 'v2'","appliesTo":"deployment.name == 'lib'"}},
		{"versionCooldown":{"intervalSeconds":7200}},{"deploymentWindow":{"allowWindow":false,"from":"2020-01-01T00:00:00Z","until":"2050-01-01T00:00:00Z"}}`))
	s := fleet(1, "v1", map[string][]string{"app": {"v1", "v2"}, "lib": {"v1", "v2"}, "base": {"v1"}})
	for i := range s.Targets {
		if id := s.Targets[i].Deployment; id != "base" {
			s.Targets[i].Jobs = []rollout.Job{{Version: "v1", Status: rollout.JobSuccessful, CreatedAt: t0.Add(-time.Minute)}}
			if id == "app" { // the first of the members is in the way of the last rule, and the second of the first
				s.Targets[i].Jobs = append(s.Targets[i].Jobs, rollout.Job{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0})
			}
		}
	}
	plan := mustPlan(t, set, s, t0)
	const why = "bracket_not_due dependency_unmet cooldown cooldown window_closed target_busy" // either member cools down after a job of its own
	if got, want := blockers(plan), []string{"r1/app@v2: " + why, "r1/lib@v2: " + why}; !slices.Equal(got, want) {
		t.Errorf("waits %q, want %q", got, want)
	}
	for wait := range plan.Waiting.All() {
		e, err := plan.Explain(wait.TargetID)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, b := range e.Waits().Blockers() {
			list = append(list, string(b.Reason))
		}
		if got := strings.Join(list, " "); got != why {
			t.Errorf("%v: explained as %s, want %s", wait.TargetID, got, why)
		}
	}
}

// TestHaltsThatEndWithoutAnOperator: where a failed execution goes on by itself, or the next group
// can be merged into it, who is held by the failure says so, and not only that an operator ends it.
func TestHaltsThatEndWithoutAnOperator(t *testing.T) {
	const merge = `,"overlapStrategy":"merge","preparedStatePersists":true`
	third := func(s *rollout.Snapshot) {
		s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: t0.Add(time.Minute)})
	}
	for _, row := range []struct {
		why, rule, more string
		meanwhile       func(s *rollout.Snapshot)
		want            string
	}{
		{"the uncordon ends it", `,"onMemberFailure":"run_post"`, "", nil, "a: bracket_failed_holding (a failed), waits for an operator's command for b/prod/1 on r1 or the end of the bracket on r1"},
		{"the next group may take the failed member over", merge, "", nil, "c: bracket_failed_holding (a failed), waits for an operator's command for b/prod/1 on r1 or the next group in prod"},
		{"not a second one", merge + `,"maxMerges":1`, "", func(s *rollout.Snapshot) {
			x := *s.State.Executions[0].Open
			x.Merged = []string{"b/prod/0"}
			s.State.Executions[0].Open = &x
		}, "c: bracket_failed_holding (a failed), waits for an operator's command for b/prod/1 on r1"},
		{"it takes it over when its window opens", merge, `,{"id":"w","deploymentWindow":{"allowWindow":false,"from":"2025-01-01T00:01:00Z","until":"2025-01-01T01:00:00Z"}}`, third,
			"c: bracket_failed_holding (a failed) until 2025-01-01T01:00:00Z, waits for an operator's command for b/prod/1 on r1 or the next group in prod"},
		{"it takes it over when its dependency is met", merge, `,{"id":"d","deploymentDependency":{"dependsOn":"deployment.name == 'x' && version.tag == 'v1'","appliesTo":"deployment.name == 'a'"}}`,
			func(s *rollout.Snapshot) {
				third(s)
				s.Targets[3].Current = "v0"
			}, "c: bracket_failed_holding (a failed), waits for an operator's command for b/prod/1 on r1 or the next group in prod or x on r1"},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"deployment.name != 'x'","readinessMode":"immediate","memberRoles":{"post":"deployment.name == 'u'"}`+row.rule+`}},
			{"deploymentDependency":{"appliesTo":"deployment.name == 'c'","dependsOn":"deployment.name == 'a'"}}`+row.more))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}, "u": {"v1"}, "x": {"v0", "v1"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobFailure)
		if row.meanwhile != nil {
			row.meanwhile(&s)
		}
		plan := mustPlan(t, set, s, t0.Add(time.Minute))
		var got []string
		for wait := range plan.Waiting.All() {
			for _, b := range wait.Blockers {
				got = append(got, wait.Deployment+": "+b.String())
			}
		}
		if !slices.Contains(got, row.want) {
			t.Errorf("%s: waits\n%s\nwant\n%s", row.why, strings.Join(got, "\n"), row.want)
		}
	}
}

// TestDefectNothingToGoBackTo: an execution holds in spite of a rule that rolls back if a member ran
// nothing before. Who is held by that says so, for the policy alone does not tell.
func TestDefectNothingToGoBackTo(t *testing.T) {
	const (
		command = ", waits for an operator's command for b/prod/2 on r1" // what runs nothing had a group for v1
		failed  = "bracket_failed_holding (a failed)"
	)
	for _, row := range []struct {
		why, reaction string
		edit          func(s *rollout.Snapshot)
		fails         string
		want          []string
	}{
		{"the member that failed", "rollback_member", func(s *rollout.Snapshot) { s.Targets[0].Current = "" }, "a",
			[]string{"a: " + failed + ": a has nothing to go back to" + command, "u: " + failed + ": a has nothing to go back to" + command}},
		{"of all that go back, the one that failed", "rollback_all", func(s *rollout.Snapshot) { s.Targets[0].Current = "" }, "a",
			[]string{"a: " + failed + ": a has nothing to go back to" + command, "u: " + failed + ": a has nothing to go back to" + command}},
		{"or another", "rollback_all", func(s *rollout.Snapshot) { s.Targets[1].Current = "" }, "a",
			[]string{"a: " + failed + ": c has nothing to go back to" + command, "u: " + failed + ": c has nothing to go back to" + command}},
		{"or both", "rollback_all", func(s *rollout.Snapshot) { s.Targets[0].Current, s.Targets[1].Current = "", "" }, "a",
			[]string{"a: " + failed + ": a, c have nothing to go back to" + command, "u: " + failed + ": a, c have nothing to go back to" + command}},
		{"another does not go back: a did, and holds the rest", "rollback_member", func(s *rollout.Snapshot) { s.Targets[1].Current = "" }, "a", []string{"u: " + failed + ": it went back, so skip it by name or end the execution" + command}},
		{"everybody ran something", "rollback_all", func(*rollout.Snapshot) {}, "a", nil},
		{"nothing is rolled back anyway", "hold", func(s *rollout.Snapshot) { s.Targets[0].Current = "" }, "a",
			[]string{"a: " + failed + command, "u: " + failed + command}},
		{"nor then, and it goes on", "run_post", func(s *rollout.Snapshot) { s.Targets[0].Current = "" }, "a", nil},
		{"the uncordon failed, and after that nothing is rolled back", "rollback_all", func(s *rollout.Snapshot) { s.Targets[0].Current = "" }, "u",
			[]string{"u: bracket_failed_holding (u failed)" + command}},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"post":"deployment.name == 'u'"},"onMemberFailure":"`+row.reaction+`"}}`))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "c": {"v1", "v2"}, "u": {"v1"}})
		row.edit(&s)
		now := t0
		for range 2 {
			carryOut(t, &s, mustPlan(t, set, s, now), now, rollout.JobSuccessful)
			for k := range s.Targets {
				if jobs := s.Targets[k].Jobs; s.Targets[k].Deployment == row.fails && len(jobs) == 1 {
					jobs[0].Status = rollout.JobFailure
				}
			}
			now = now.Add(time.Minute)
		}
		plan := mustPlan(t, set, s, now)
		var got []string
		for wait := range plan.Waiting.All() {
			if wait.Blockers[0].Reason == "bracket_failed_holding" {
				got = append(got, wait.Deployment+": "+wait.Blockers[0].String())
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s, %s: starts %q, waits\n%s\nwant\n%s", row.reaction, row.why, started(plan), strings.Join(got, "\n"), strings.Join(row.want, "\n"))
		}
	}
}

// TestHaltedByWhom: everybody who is held by a failure says whose it was, in the plan and in an
// explanation.
func TestHaltedByWhom(t *testing.T) {
	const pending = ", waits for an operator's command for p%2FdeploymentBracket%2F0/prod/1 on r1" // with the group as a command has to name it
	for _, row := range []struct {
		why, rule string
		fails     []string
		rolling   string // whose way back is not over
		want      []string
	}{
		{"one of three", "", []string{"b"}, "", []string{"b: bracket_failed_holding (b failed)" + pending, "c: bracket_failed_holding (b failed)" + pending}},
		{"two of three", "", []string{"b", "a"}, "", []string{"a: bracket_failed_holding (a, b failed)" + pending, "b: bracket_failed_holding (a, b failed)" + pending, "c: bracket_failed_holding (a, b failed)" + pending}},
		{"it went back", `,"onMemberFailure":"rollback_member"`, []string{"a"}, "", []string{"a: bracket_ended, waits for an operator's outdatedAt or the next group in prod", "c: bracket_failed_holding (a failed): it went back, so skip it by name or end the execution" + pending}},
		{"both went back", `,"onMemberFailure":"rollback_member"`, []string{"a", "b"}, "", []string{"a: bracket_ended, waits for an operator's outdatedAt or the next group in prod", "b: bracket_ended, waits for an operator's outdatedAt or the next group in prod",
			"c: bracket_failed_holding (a, b failed): they went back, so skip each by name or end the execution" + pending}},
		{"one went back, and the other is on its way", `,"onMemberFailure":"rollback_member"`, []string{"a", "b"}, "b", []string{"a: bracket_ended, waits for an operator's outdatedAt or the next group in prod",
			"b: bracket_ended, waits for b on r1 or the next group in prod", "c: bracket_failed_holding (a failed)" + pending}},
	} {
		set := compile(t, policy(`{"deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}`+row.rule+`}},
			{"deploymentDependency":{"appliesTo":"deployment.id == 'c'","dependsOn":"deployment.id != 'c'","match":"all"}}`))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}, "c": {"v1", "v2"}})
		now := t0
		for range 3 {
			plan := mustPlan(t, set, s, now)
			carryOut(t, &s, plan, now, rollout.JobSuccessful)
			for k := range s.Targets {
				x := &s.Targets[k]
				if slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.TargetID == x.TargetID && s.Purpose == rollout.PurposeDeploy }) && slices.Contains(row.fails, x.Deployment) {
					x.Current, x.Jobs[len(x.Jobs)-1].Status = "v1", rollout.JobFailure // after all
				}
				if slices.ContainsFunc(plan.Start, func(s rollout.Start) bool { return s.TargetID == x.TargetID && s.Purpose == rollout.PurposeRollback }) && x.Deployment == row.rolling {
					x.Jobs[len(x.Jobs)-1].Status, x.Jobs[len(x.Jobs)-1].CompletedAt = rollout.JobInProgress, time.Time{}
				}
			}
			now = now.Add(time.Minute)
		}
		plan := mustPlan(t, set, s, now)
		var got []string
		for wait := range plan.Waiting.All() {
			for _, b := range wait.Blockers {
				got = append(got, wait.Deployment+": "+b.String())
				x, err := plan.Explain(wait.TargetID)
				if err != nil || x.Waits() == nil || x.Waits().Blockers()[0].Verdict.String() != b.String() {
					t.Errorf("%s: explained as %v, %v", row.why, x, err)
				}
			}
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %q, want %q", row.why, got, row.want)
		}
		if !strings.Contains(row.rule, "rollback") {
			continue
		}
		given := func(kind bracket.CommandKind, members ...string) rollout.Plan {
			s := s
			s.Commands = nil
			for _, member := range members {
				s.Commands = append(s.Commands, bracket.Command{ID: "x" + member, Kind: kind, Group: plan.State.Brackets[0].Closed[0].ID, Resource: "r1", Deployment: member})
			}
			return mustPlan(t, set, s, now)
		}
		for _, none := range []rollout.Plan{given(bracket.Retry, ""), given(bracket.Retry, row.fails...), given(bracket.Skip, "")} {
			if len(none.Start) > 0 {
				t.Errorf("%s: a command that does not help starts %q", row.why, started(none))
			}
		}
		if got := started(given(bracket.Skip, row.fails...)); !slices.Equal(got, []string{"r1/c@v2"}) {
			t.Errorf("%s: when they are skipped by name, %q starts", row.why, got)
		}
	}
}

// TestGivenUpAtWork: an operator ends an execution while a job of it is active. What the next group
// waits for on the resource is said by that very plan, whether its turn has come or not: nothing
// happens after it, so nobody would ask again.
func TestGivenUpAtWork(t *testing.T) {
	for _, row := range []struct {
		kind   bracket.CommandKind
		rule   string
		status rollout.JobStatus
		want   string // of the next group; empty: it starts
	}{
		{bracket.Resolve, "", rollout.JobInProgress, "bracket_not_due target_busy"},
		{bracket.Abandon, "", rollout.JobInProgress, "bracket_not_due target_busy"},
		{bracket.Resolve, `,{"versionCooldown":{"intervalSeconds":3600}}`, rollout.JobInProgress, "bracket_not_due cooldown target_busy"},
		{bracket.Abandon, `,{"versionCooldown":{"intervalSeconds":3600}}`, rollout.JobInProgress, "bracket_not_due cooldown target_busy"},
		{bracket.Resolve, `,` + weekly("w", "12:00", "13:00", `"minimumRemainingMinutes":30`), rollout.JobInProgress, "bracket_not_due window_too_short target_busy"},
		{bracket.Resolve, "", rollout.JobFailure, ""},
		{bracket.Resolve, `,{"versionCooldown":{"intervalSeconds":3600}}`, rollout.JobFailure, ""},
	} {
		set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`+row.rule))
		s := fleet(1, "v1", map[string][]string{"app": {"v1", "v2", "v3"}})
		start := instantOf(t, "2025-01-06T12:20:00Z")
		for k, at := range []time.Duration{-48 * time.Hour, -10 * time.Minute, 10 * time.Minute} {
			s.Versions[k].CreatedAt = start.Add(at)
		}
		carryOut(t, &s, mustPlan(t, set, s, start), start, row.status)
		now := start.Add(20 * time.Minute)
		s.State = mustPlan(t, set, s, now).State
		s.Commands = []bracket.Command{{ID: "c", Kind: row.kind, Group: "b/prod/1", Resource: "r1"}}
		plan := mustPlan(t, set, s, now)
		got := strings.Join(blockers(plan), "; ")
		if want := strings.TrimSuffix("r1/app@v3: "+row.want, "r1/app@v3: "); got != want {
			t.Errorf("%s%s, the job %s: waits %q, want %q", row.kind, row.rule, row.status, got, want)
		}
		s.State = plan.State
		if again := mustPlan(t, set, s, now); !cmp.Equal(waitingOf(again), waitingOf(plan)) || len(again.Start) != len(plan.Start) {
			t.Errorf("%s%s, the job %s: once that is saved %q wait", row.kind, row.rule, row.status, blockers(again))
		}
	}
}

// TestVersionSelectorOfOneResource: what a version selector refuses on a resource is not collected
// for it, so each gets the newest that it may have; an override lets it have what the others get.
func TestVersionSelectorOfOneResource(t *testing.T) {
	set := compile(t, policy(`{"id":"V","versionSelector":{"selector":"resource.id != 'r2' || version.tag == 'v2'"}},
		{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	for _, row := range []struct {
		why     string
		version string // and the resource, of which the rule is overridden
		on      string
		want    []string
	}{
		{"each the newest", "", "", []string{"r1/a@v4", "r2/a@v2", "r3/a@v4"}},
		{"one of those that are refused", "v3", "r2", []string{"r1/a@v4", "r2/a@v3", "r3/a@v4"}},
		{"another resource", "v4", "r1", []string{"r1/a@v4", "r2/a@v2", "r3/a@v4"}},
	} {
		s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2", "v3", "v4"}})
		if row.version != "" {
			s.Overrides = []rollout.Override{{ID: "o", Rule: "V", Version: row.version, Resource: row.on, CreatedAt: t0, CreatedBy: "ann", Reason: "urgent"}}
		}
		if got := started(mustPlan(t, set, s, t0)); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q start, want %q", row.why, got, row.want)
		}
	}
}

// TestOverrideBeforeAnApproval: a version that a selector refuses on every resource is eligible from
// the last of the override that lets it past the selector and of what else it needed.
func TestOverrideBeforeAnApproval(t *testing.T) {
	set := compile(t, policy(`{"id":"V","versionSelector":{"selector":"resource.id == 'r0'"}},{"id":"A","anyApproval":{"minApprovals":1}},
		{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
	for _, row := range []struct{ override, approval int }{{10, 20}, {20, 10}} {
		s.Overrides = []rollout.Override{{ID: "o", Rule: "V", Version: "v2", CreatedAt: minute(row.override), CreatedBy: "ann", Reason: "urgent"}}
		s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(row.approval)}}
		plan := mustPlan(t, set, s, minute(30))
		if k := slices.IndexFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupOpened }); len(plan.Start) != 2 || k < 0 || !plan.Events[k].At.Equal(minute(20)) {
			t.Errorf("override in minute %d, approval in %d: starts %q, %v", row.override, row.approval, started(plan), plan.Events)
		}
	}
}

// TestOneRunOfTwoJobs: two jobs of one run contradict each other. The error names them as they are
// in the snapshot, of which package bracket knows nothing.
func TestOneRunOfTwoJobs(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(alone))
	s := inEnvironments(fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}}), "staging")
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	x := &s.Targets[1]
	other := x.Jobs[0]
	other.CreatedAt = minute(1)
	x.Jobs = []rollout.Job{x.Jobs[0], ran("v1", rollout.JobFailure, -9), other}
	_, err := set.Plan(s, minute(2))
	var own *rollout.FieldError
	if !errors.As(err, &own) || own.Path != "targets[1].jobs[2].run" || own.Code != rollout.CodeDuplicate || own.Value != other.Run || !strings.Contains(own.Hint, "jobs[0]") {
		t.Errorf("%v, want one about targets[1].jobs[2].run", err)
	}
}

// TestMadeAgain: a node that is gone and made again under its name has had its execution of the
// latest group. It gets its versions all the same, in a group of its own, before anything is
// released, whether it comes with nothing on it or with an old version from its image; the other
// node is left alone, and what fails on the new one is not begun again.
func TestMadeAgain(t *testing.T) {
	for _, image := range []string{"", "v1"} {
		t.Run("with "+image, func(t *testing.T) { madeAgain(t, image) })
	}
}

func madeAgain(t *testing.T, image string) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	now := t0
	step := func(status rollout.JobStatus, want ...string) rollout.Plan {
		t.Helper()
		plan := mustPlan(t, set, s, now)
		if got := started(plan); !slices.Equal(got, want) {
			t.Errorf("at %v %q start, want %q; waits %q", now.Sub(t0), got, want, blockers(plan))
		}
		s.State = plan.State
		carryOut(t, &s, plan, now, status)
		now = now.Add(time.Minute)
		return plan
	}
	step(rollout.JobSuccessful, "r1/a@v2", "r1/b@v2", "r2/a@v2", "r2/b@v2")
	step("")
	s.DeletedResources = []string{"r1"}
	step("")
	s.DeletedResources = nil
	joins := now.Add(time.Minute)
	for k := range s.Targets {
		if x := &s.Targets[k]; x.Resource == "r1" {
			x.Current, x.Jobs, x.JoinedAt = image, nil, joins
		}
	}
	if plan := step(""); !plan.Next.Equal(joins) {
		t.Errorf("it joins at %v, and the plan is looked at again at %v", joins, plan.Next)
	}
	if plan := step(rollout.JobFailure, "r1/a@v2", "r1/b@v2"); len(plan.Start) > 0 && plan.Start[0].Group != "b/prod/2" {
		t.Errorf("in group %s", plan.Start[0].Group)
	}
	step("")
	s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Resolve, Group: "b/prod/2", Resource: "r1"}}
	step("")
	step("")
}

// TestMadeAgainAfterAMerge: the latest group was merged into the execution that ended before the
// node was made again. It has been there all the same, so the node gets a group of its own.
func TestMadeAgainAfterAMerge(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"overlapStrategy":"merge","preparedStatePersists":true}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
	s.State = mustPlan(t, set, s, minute(1)).State
	x := &s.Targets[0]
	x.Jobs[0].Status, x.Jobs[0].CompletedAt, x.Current = rollout.JobSuccessful, minute(2), "v2"
	carryOut(t, &s, mustPlan(t, set, s, minute(2)), minute(2), rollout.JobSuccessful)
	s.State = mustPlan(t, set, s, minute(3)).State
	x.Current, x.Jobs, x.JoinedAt = "", nil, minute(4)
	if plan := mustPlan(t, set, s, minute(5)); !slices.Equal(started(plan), []string{"r1/a@v3"}) || plan.Start[0].Group != "b/prod/3" {
		t.Errorf("starts %+v, waits %q", plan.Start, blockers(plan))
	}
}

// TestMadeAgainWhileOpen: a node is made again under its name while the execution there is open. That
// goes on with what it has left, and the next group brings what it had run only if the target says
// that it needs it.
func TestMadeAgainWhileOpen(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(alone+`,{"deploymentDependency":{"appliesTo":"deployment.name == 'b'","dependsOn":"deployment.name == 'a'"}}`))
	for _, outdated := range []bool{false, true} {
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
		want := []string{"r1/b@v2"}
		for k := range s.Targets {
			if x := &s.Targets[k]; outdated {
				x.OutdatedAt = minute(2)
			}
			s.Targets[k].Current, s.Targets[k].Jobs, s.Targets[k].JoinedAt = "v1", nil, minute(2)
		}
		plan := mustPlan(t, set, s, minute(2))
		if got := started(plan); !slices.Equal(got, want) {
			t.Errorf("outdated: %v: %q start, and not what is left", outdated, got)
		}
		carryOut(t, &s, plan, minute(2), rollout.JobSuccessful)
		want = nil
		if outdated {
			want = []string{"r1/a@v2"}
		}
		if got := started(mustPlan(t, set, s, minute(3))); !slices.Equal(got, want) {
			t.Errorf("outdated: %v: %q start, want %q", outdated, got, want)
		}
	}
}

// TestMadeAgainAfterTheEnd: a node is made again under its name while the execution there is open, and
// the host lists it as deleted until that has ended. The new node is drained before it is upgraded,
// though the old one was drained already, and nothing is offered under the id of the old node's run.
// Who is there after a deletion is a new one, also if it joined before the host saw that the old one
// was gone, as it does where nobody looked in between.
func TestMadeAgainAfterTheEnd(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`))
	for _, row := range []struct {
		why     string
		joins   int
		given   bracket.CommandKind // up, instead of the deletion
		retried bool
		again   bool
	}{
		{why: "after the end", joins: 4, again: true},
		{why: "at the end", joins: 3, again: true},
		{why: "before the host saw it", joins: 2, again: true},
		{why: "before the group closed: it is the node that was there", joins: 0},
		{why: "a decision about the old node does not matter", joins: 2, retried: true, again: true},
		{why: "given up after it joined: it is the node that was there", joins: 2, given: bracket.Abandon},
		{why: "given up in the end", joins: 2, retried: true, given: bracket.Abandon},
		{why: "given up before it joined", joins: 4, given: bracket.Abandon, again: true},
		{why: "resolved after it joined: it is the node that was there", joins: 2, given: bracket.Resolve},
	} {
		s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "kubelet": {"v1", "v2"}})
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
		carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobFailure)
		if row.retried {
			s.Commands = []bracket.Command{{ID: "c", Kind: bracket.Retry, Group: "b/prod/1", Resource: "r1"}}
			s.State = mustPlan(t, set, s, minute(2)).State
		}
		if row.given != "" {
			s.Commands = append(s.Commands, bracket.Command{ID: "d", Kind: row.given, Group: "b/prod/1", Resource: "r1"})
		}
		if row.given == "" {
			s.DeletedResources = []string{"r1"}
		}
		for k := range s.Targets {
			s.Targets[k].Current, s.Targets[k].Jobs = "v1", nil
		}
		plan := mustPlan(t, set, s, minute(3))
		if got := started(plan); len(got) > 0 || plan.State.Executions[0].Open != nil {
			t.Errorf("%s: %q start, open %+v", row.why, got, plan.State.Executions[0].Open)
		}
		s.State, s.DeletedResources, s.Commands = plan.State, nil, nil
		for k := range s.Targets {
			s.Targets[k].JoinedAt = minute(row.joins)
		}
		if !row.again {
			if got := started(mustPlan(t, set, s, minute(5))); len(got) > 0 {
				t.Errorf("%s: %q start", row.why, got)
			}
			continue
		}
		for k, want := range []string{"r1/drain@v1", "r1/kubelet@v2"} {
			now := minute(5 + k)
			plan := mustPlan(t, set, s, now)
			if got := started(plan); !slices.Equal(got, []string{want}) || plan.Start[0].Group != "b/prod/2" {
				t.Errorf("%s: %q start, want %q; waits %q", row.why, got, want, blockers(plan))
			}
			carryOut(t, &s, plan, now, rollout.JobSuccessful)
		}
	}
}

// TestJoinedLate makes r1 again after the first group has been there, in other circumstances. Which
// group gives it its first version, and when that opened, tells whether it was opened for it.
func TestJoinedLate(t *testing.T) {
	t.Parallel()
	release := func(id, selector string, at int) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) {
			s.Versions = append(s.Versions, rollout.Version{ID: id, Tag: id, Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(at), TargetSelector: selector})
		}
	}
	comes := func(with string) func(*rollout.Snapshot) {
		return func(s *rollout.Snapshot) { s.Targets[0].Current = with }
	}
	for _, row := range []struct {
		why    string
		rules  string
		joins  int
		node   string // if not r1
		first  string // selector of the first versions
		only   bool   // there is no v1
		edit   func(*rollout.Snapshot)
		group  string // that starts something on the node at minute 30; none if it is empty
		opened int
		starts string
	}{
		{why: "after the execution ended", joins: 11, group: "B/prod/2", opened: 11, starts: "v2"},
		{why: "with an old version on it", joins: 11, edit: comes("v1"), group: "B/prod/2", opened: 11, starts: "v2"},
		{why: "with an old version on it, at the instant at which the execution ended", joins: 10, edit: comes("v1")},
		{why: "with the newest version on it", joins: 11, edit: comes("v2")},
		{why: "with a version that nobody knows on it", joins: 11, edit: comes("v9")},
		{why: "at the instant at which it ended", joins: 10},
		{why: "it says itself that it needs a run, and later", joins: 11, edit: func(s *rollout.Snapshot) { s.Targets[0].OutdatedAt = minute(12) }, group: "B/prod/2", opened: 12, starts: "v2"},
		{why: "it says itself that it needs a run, before it joins", joins: 40, edit: func(s *rollout.Snapshot) { s.Targets[0].OutdatedAt = minute(12) }, group: "B/prod/2", opened: 12, starts: "v2"},
		{why: "it says that it will need a run: what it needs already does not wait for that", joins: 11, edit: func(s *rollout.Snapshot) { s.Targets[0].OutdatedAt = minute(60) }, group: "B/prod/2", opened: 11, starts: "v2"},
		{why: "a newer version is published at this very instant", joins: 11, edit: release("v3", "", 30)},
		{why: "a newer version is not published yet", joins: 11, edit: release("v3", "", 31), group: "B/prod/2", opened: 11, starts: "v2"},
		{why: "a newer one is for others: the group of that follows its own", joins: 11, edit: release("v3", "resource.id == 'r2'", 20), group: "B/prod/3", opened: 20, starts: "v2"},
		{why: "a newer one is not approved", joins: 11, rules: `,{"anyApproval":{"minApprovals":1}}`, edit: release("v3", "", 20), group: "B/prod/2", opened: 11, starts: "v2"},
		{why: "a newer one opens a group by being new, and not earlier", joins: 11, edit: release("v3", "", 20), group: "B/prod/2", opened: 20, starts: "v3"},
		{why: "there is none for it", joins: 11, first: "resource.id == 'r2'", edit: func(s *rollout.Snapshot) { s.Targets[0].Current = "" }},
		{why: "the records of the groups are lost: the one that closes again takes a number that nobody had", joins: 11, edit: func(s *rollout.Snapshot) { s.State.Brackets = nil }, group: "B/prod/3", opened: 0, starts: "v2"},
		{why: "the version is the only one", joins: 11, only: true, group: "B/prod/2", opened: 11, starts: "v2"},
		{why: "it was never there before: the first group begins on it", joins: 11, node: "r0", group: "B/prod/1", opened: 0, starts: "v2"},
	} {
		set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"collection_window","readinessWindowSeconds":60,"memberRoles":{}}}`+row.rules))
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		if row.only {
			s = fleet(2, "", map[string][]string{"a": {"v2"}})
		}
		for k := range s.Versions {
			v := &s.Versions[k]
			v.TargetSelector = row.first
			s.Approvals = append(s.Approvals, rollout.Approval{Version: v.ID, Deployment: "a", Environment: "prod", By: "ann", Status: rollout.Approved, At: v.CreatedAt})
		}
		s.Environments = append(s.Environments, rollout.Environment{ID: "dev"}) // it comes before prod, and has no targets
		carryOut(t, &s, mustPlan(t, set, s, minute(1)), minute(1), rollout.JobInProgress)
		for k := range s.Targets {
			x := &s.Targets[k]
			for j := range x.Jobs {
				x.Jobs[j].Status, x.Jobs[j].CompletedAt, x.Current = rollout.JobSuccessful, minute(10), x.Jobs[j].Version
			}
		}
		s.State = mustPlan(t, set, s, minute(10)).State
		x := &s.Targets[0]
		x.Current, x.Jobs, x.JoinedAt = "", nil, minute(row.joins)
		if row.node != "" {
			s.Resources[0].ID, x.Resource = row.node, row.node
		}
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, set, s, minute(30))
		var got, starts string
		var opened time.Time
		for _, start := range plan.Start {
			if start.Resource == x.Resource {
				got, starts = start.Group, start.Version
			}
		}
		for _, group := range plan.State.Brackets[0].Closed {
			if group.ID == got {
				opened = group.OpenedAt
			}
		}
		if got != row.group || starts != row.starts || got != "" && !opened.Equal(minute(row.opened)) {
			t.Errorf("%s: %q of group %q, opened at %v; starts %q, waits %q", row.why, starts, got, opened, started(plan), blockers(plan))
		}
		if row.group == "" && slices.ContainsFunc(plan.Events, func(e rollout.Event) bool { return e.At.Before(minute(30)) }) {
			t.Errorf("%s: a group is opened for nobody: %v", row.why, plan.Events)
		}
	}
}

// TestLateForAMergedGroup: the group of a v3 and b v2 is merged into the execution on r1, where b may
// have v2 only later. The execution goes on without it, so b gets a group of its own from then on.
func TestLateForAMergedGroup(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"overlapStrategy":"merge","preparedStatePersists":true}},{"id":"ok","anyApproval":{"minApprovals":1}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2", "v3"}, "b": {"v1", "v2"}})
	for k := range s.Versions {
		if v := &s.Versions[k]; v.ID == "v3" || v.Deployment == "b" && v.ID == "v2" {
			v.CreatedAt = minute(1)
		}
	}
	let := func(resource, deployment, version string, m int) {
		s.Overrides = append(s.Overrides, override("ok", only(resource), of(deployment), func(o *rollout.Override) {
			o.ID, o.Version, o.CreatedAt = resource+deployment+version, version, minute(m)
		}))
	}
	for _, r := range []string{"r1", "r2"} {
		let(r, "a", "v2", 0)
		let(r, "a", "v3", 1)
	}
	let("r2", "b", "v2", 1)
	let("r1", "b", "v2", 5)
	for _, m := range []int{0, 1, 4} {
		carryOut(t, &s, mustPlan(t, set, s, minute(m)), minute(m), rollout.JobInProgress)
	}
	plan := mustPlan(t, set, s, minute(5))
	opened := slices.ContainsFunc(plan.Events, func(e rollout.Event) bool { return e.Kind == bracket.GroupOpened && e.Group == "b/prod/3" })
	if got, want := blockers(plan)[1], "r1/b@v2: bracket_merge_budget"; !opened || got != want {
		t.Errorf("events %v, waits %q, want %q", plan.Events, blockers(plan), want)
	}
}

// TestOutdatedBeforeLate: nothing has begun on r1, which is outdated since an instant before a may have
// v2 there. The latest group has locked that, and comes to r1 yet. A late host opens the same group for
// r1 as one that looked then.
func TestOutdatedBeforeLate(t *testing.T) {
	t.Parallel()
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"ok","anyApproval":{"minApprovals":1}}`))
	for _, looks := range [][]int{{0, 3, 6}, {0, 6}} {
		s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}})
		for k, r := range []string{"r1", "r2"} {
			s.Overrides = append(s.Overrides, override("ok", only(r), func(o *rollout.Override) { o.ID, o.CreatedAt = r, minute(5*(1-k)) }))
		}
		s.Targets[0].Jobs = []rollout.Job{{Run: "by hand", Version: "v1", Status: rollout.JobInProgress, CreatedAt: t0}}
		var got []string
		for _, m := range looks {
			if m > 0 {
				s.Targets[0].OutdatedAt = minute(3)
			}
			plan := mustPlan(t, set, s, minute(m))
			for _, e := range plan.Events {
				if e.Kind == bracket.GroupOpened {
					got = append(got, fmt.Sprintf("%s %v", e.Group, e.At.Sub(t0).Minutes()))
				}
			}
			carryOut(t, &s, plan, minute(m), rollout.JobInProgress)
		}
		if want := []string{"b/prod/1 0", "b/prod/2 3"}; !slices.Equal(got, want) {
			t.Errorf("looks at %v: opened %q, want %q", looks, got, want)
		}
	}
}

// TestGroupForOneTarget: a target is outdated while the curve of a group has not come to the
// others. The group that opens for it takes the place of that one on all resources, with a curve of
// its own, in the order of its own: they get the same versions, and later.
func TestGroupForOneTarget(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},
		{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderKey":"resource"}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}})
	var ran []string
	for m := range 60 {
		plan := mustPlan(t, set, s, minute(m))
		for _, start := range plan.Start {
			ran = append(ran, fmt.Sprintf("%d %s", m, strings.TrimPrefix(start.Run, "B%2Fprod%2F")))
		}
		carryOut(t, &s, plan, minute(m), rollout.JobSuccessful)
		for k := range s.Targets {
			if x := &s.Targets[k]; m == 9 && len(x.Jobs) > 0 {
				x.OutdatedAt = minute(m)
			}
		}
	}
	if want := []string{"0 1/r2/a/1/1/deploy", "10 2/r2/a/1/1/deploy", "19 2/r3/a/1/1/deploy", "29 2/r1/a/1/1/deploy"}; !slices.Equal(ran, want) {
		t.Errorf("ran %q, want %q", ran, want)
	}
}

// TestBackToTheFirstVersion: the first version that a deployment ever had is what a failed member
// goes back to, also where only a job tells that it runs.
func TestBackToTheFirstVersion(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{},"onMemberFailure":"rollback_member"}}`))
	s := fleet(1, "", map[string][]string{"a": {"v1"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobSuccessful)
	at := t0.Add(time.Hour)
	s.Versions = append(s.Versions, rollout.Version{ID: "v2", Deployment: "a", Status: rollout.VersionReady, CreatedAt: at})
	carryOut(t, &s, mustPlan(t, set, s, at), at, rollout.JobFailure)
	s.Targets[0].Jobs[0], s.Targets[0].Jobs[1] = s.Targets[0].Jobs[1], s.Targets[0].Jobs[0] // newest first
	if plan := mustPlan(t, set, s, at.Add(time.Minute)); !slices.Equal(started(plan), []string{"r1/a@v1"}) || plan.Start[0].Purpose != rollout.PurposeRollback {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestWaitOfAMergedMember: a member waits to run what was merged into the open execution, while
// another group, which is not merged, has the same version for it. It waits for its own run to end,
// and not for the end of the execution, in which it comes.
func TestWaitOfAMergedMember(t *testing.T) {
	for _, row := range []struct {
		why, rules string
		edit       func(*rollout.Snapshot)
		waits      []string
	}{
		{why: "the execution has no merge left", waits: []string{"r1/a@v3: bracket_waits_for_members", "r1/b@v2: bracket_merge_budget"}},
		{why: "the other group is not due, because a window has closed", rules: `,{"deploymentWindow":{"from":"2024-12-31T00:00:00Z","until":"2025-01-01T00:02:00Z"}}`,
			waits: []string{"r1/a@v3: bracket_waits_for_members", "r1/b@v2: bracket_queued window_closed"}},
		{why: "no older version is known any more", edit: func(s *rollout.Snapshot) {
			s.Versions = slices.DeleteFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "a" && v.ID != "v3" })
		}, waits: []string{"r1/a@v3: bracket_waits_for_members version_unknown", "r1/b@v2: bracket_queued version_unknown"}},
	} {
		set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{}}}`+row.rules))
		s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1"}})
		publish := func(deployment, id string, at time.Time) {
			s.Versions = append(s.Versions, rollout.Version{ID: id, Tag: id, Deployment: deployment, Status: rollout.VersionReady, CreatedAt: at})
		}
		carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
		publish("a", "v3", minute(1))
		s.State = mustPlan(t, set, s, minute(1)).State
		publish("b", "v2", minute(2))
		if row.edit != nil {
			row.edit(&s)
		}
		plan := mustPlan(t, set, s, minute(2))
		if got := blockers(plan); !slices.Equal(got, row.waits) {
			t.Errorf("%s: starts %q, waits %q", row.why, started(plan), got)
		}
	}
}

// TestDefectWaitsForItself: after a merge a member that is at work with an older version waits for
// the end of that run. The text read as if it waited for itself for ever. What waits for another
// member waits for all that this one has to do.
func TestDefectWaitsForItself(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","overlapStrategy":"merge","preparedStatePersists":true,"memberRoles":{"post":"deployment.name == 'z'"}}}`))
	s := fleet(1, "v1", map[string][]string{"a": {"v1", "v2"}, "z": {"v1"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: "a", Status: rollout.VersionReady, CreatedAt: minute(1)})
	plan := mustPlan(t, set, s, minute(1))
	var got []string
	for w := range plan.Waiting.All() {
		got = append(got, w.String())
	}
	want := []string{
		"r1 / prod / a: v3 waits: bracket_waits_for_members (its own run of v2 ends first), waits for a on r1",
		"r1 / prod / z: v1 waits: bracket_waits_for_members, waits for a on r1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	e, err := plan.Explain(rollout.TargetID{Resource: "r1", Environment: "prod", Deployment: "a"})
	if text := "bracket_waits_for_members (its own run of v2 ends first), waits for a on r1"; err != nil || !strings.Contains(e.String(), text) {
		t.Errorf("%v: the explanation says the same:\n%s", err, e)
	}
}

// TestQueuedHookOfAnUnknownVersion: a drain runs, and the host says meanwhile that a version ran
// there before of which nothing is known. The next group, which has no version for the drain, would
// run that one again. What is at work goes on all the same.
func TestQueuedHookOfAnUnknownVersion(t *testing.T) {
	set := compile(t, policy(`{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{"pre":"deployment.name == 'drain'"}}}`))
	s := fleet(1, "v1", map[string][]string{"drain": {"v1"}, "m": {"v1", "v2"}})
	carryOut(t, &s, mustPlan(t, set, s, t0), t0, rollout.JobInProgress)
	s.Versions = append(s.Versions, rollout.Version{ID: "v3", Deployment: "m", Status: rollout.VersionReady, CreatedAt: minute(1)})
	for k := range s.Versions {
		if s.Versions[k].Deployment == "drain" {
			s.Versions[k].Status = rollout.VersionPaused
		}
	}
	for k := range s.Targets {
		if s.Targets[k].Deployment == "drain" {
			s.Targets[k].Current = "gone"
		}
	}
	plan := mustPlan(t, set, s, minute(1))
	if got := blockers(plan); len(plan.Start) != 0 || !slices.Contains(got, "r1/m@v2: bracket_waits_for_members") {
		t.Errorf("starts %q, waits %q", started(plan), got)
	}
}

// TestWhoFollowsWhom: of the executions that start at once, each member waits for those that it
// needs on its own resource, whether these come before or after it in the order of ids, and in its
// own environment and bracket.
func TestWhoFollowsWhom(t *testing.T) {
	const rules = `{"id":"%[1]s","deploymentBracket":{"deploymentSelector":"deployment.name.startsWith('%[1]s')","readinessMode":"immediate","memberRoles":{}}},
		{"deploymentDependency":{"appliesTo":"deployment.name == '%[1]sa'","dependsOn":"deployment.name == '%[1]sz'"}},
		{"deploymentDependency":{"appliesTo":"deployment.name == '%[1]sm'","dependsOn":"deployment.name == '%[1]sa'"}},
		{"deploymentDependency":{"appliesTo":"deployment.name == '%[1]sm'","dependsOn":"deployment.name == '%[1]sz'"}}`
	policies := fmt.Sprintf(`[{"name":"p","selector":"true","rules":[%s]},{"name":"q","selector":"true","rules":[%s]}]`, fmt.Sprintf(rules, "x"), fmt.Sprintf(rules, "y"))
	set := compile(t, policies)
	versions := []string{"v1", "v2"}
	s := fleet(4, "v1", map[string][]string{"xa": versions, "xm": versions, "xz": versions, "ya": versions, "ym": versions, "yz": versions})
	s.Environments = append(s.Environments, rollout.Environment{ID: "stage", Name: "stage"})
	for i := range s.Targets {
		x := &s.Targets[i]
		if x.Resource > "r2" {
			x.Environment = "stage"
		}
		if x.Resource == "r2" && x.Deployment == "xz" {
			x.Current = "v2" // has nothing to run, so nobody waits for it
		}
	}
	plan := mustPlan(t, set, s, t0)
	var want []string
	for _, resource := range []string{"r1", "r2", "r3", "r4"} {
		for _, bracket := range []string{"x", "y"} {
			group := bracket + "/prod/1"
			if resource > "r2" {
				group = bracket + "/stage/1"
			}
			members := []struct{ id, needs string }{{"a", "z"}, {"m", "az"}}
			if resource == "r2" && bracket == "x" {
				members = []struct{ id, needs string }{{"m", "a"}}
			}
			for _, member := range members {
				line := fmt.Sprintf("%s %s%s: bracket_waits_for_members %s", resource, bracket, member.id, bracket)
				for _, need := range member.needs {
					line += fmt.Sprintf(", %s %s%c", group, bracket, need)
				}
				want = append(want, line)
			}
		}
	}
	var got []string
	for w := range plan.Waiting.All() {
		for _, v := range w.Blockers {
			line := fmt.Sprintf("%s %s: %s %s", w.Resource, w.Deployment, v.Reason, v.Rule)
			for _, c := range v.On {
				if c.Kind != rollout.OnMember || c.Resource != w.Resource {
					t.Errorf("%s waits for %+v", w.TargetID, c)
				}
				line += fmt.Sprintf(", %s %s", c.Group, c.Deployment)
			}
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) || len(plan.Start) != 8 {
		t.Errorf("starts %q, waits\n%s\nwant\n%s", started(plan), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
