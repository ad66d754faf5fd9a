package rollout_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/rollout"
)

// TestRolloutBegins: a rollout begins when the gates of its version open for the first of those
// that are ranked together. Whoever the rule does not govern, or the version is not for, has gates
// that open nothing.
func TestRolloutBegins(t *testing.T) {
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`
	governed := func(selector, rules string) string {
		return fmt.Sprintf(`{"name":%q,"selector":%q,"rules":[%s]}`, selector, selector, rules)
	}
	for _, row := range []struct {
		why      string
		policies string
		scope    string // of the version
		start    int    // minute; -1: not at all
	}{
		{"one gate for all", `[` + governed("true", curve+`,{"id":"one","anyApproval":{"minApprovals":1}}`) + `]`, "", 10},
		{"the last of two gates", `[` + governed("true", curve+`,{"id":"two","anyApproval":{"minApprovals":2}},{"id":"one","anyApproval":{"minApprovals":1}}`) + `]`, "", 20},
		{"in whichever order they are", `[` + governed("true", curve+`,{"id":"one","anyApproval":{"minApprovals":1}},{"id":"two","anyApproval":{"minApprovals":2}}`) + `]`, "", 20},
		{"the first of two policies", `[` + governed("true", curve) + `,` + governed("resource.name != 'r3'", `{"id":"one","anyApproval":{"minApprovals":1}}`) + `,` +
			governed("resource.name == 'r3'", `{"id":"two","anyApproval":{"minApprovals":2}}`) + `]`, "", 10},
		{"the last of two policies, in the order of the targets", `[` + governed("true", curve) + `,` + governed("resource.name != 'r3'", `{"id":"two","anyApproval":{"minApprovals":2}}`) + `,` +
			governed("resource.name == 'r3'", `{"id":"one","anyApproval":{"minApprovals":1}}`) + `]`, "", 10},
		{"one gate stays shut: it does not hide when the other opened", `[` + governed("true", curve) + `,` + governed("resource.name == 'r1'", `{"id":"one","anyApproval":{"minApprovals":1}}`) + `,` +
			governed("resource.name != 'r1'", `{"id":"three","anyApproval":{"minApprovals":3}}`) + `]`, "", 10},
		{"all gates stay shut", `[` + governed("true", curve+`,{"id":"three","anyApproval":{"minApprovals":3}}`) + `]`, "", -1},
		{"the rule does not govern the one that has no gate", `[` + governed("resource.name != 'r1'", curve+`,{"id":"one","anyApproval":{"minApprovals":1}}`) + `]`, "", 10},
		{"the version is not for the one that has no gate", `[` + governed("true", curve) + `,` + governed("resource.name != 'r1'", `{"id":"one","anyApproval":{"minApprovals":1}}`) + `]`, "resource.name != 'r1'", 10},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		s.Versions[1].TargetSelector = row.scope
		for k, by := range []string{"ann", "bob"} {
			s.Approvals = append(s.Approvals, rollout.Approval{Version: "v2", Deployment: "api", Environment: "prod", By: by, Status: rollout.Approved, At: minute(10 * (k + 1))})
		}
		got := mustPlan(t, compile(t, row.policies), s, minute(30)).State.Rollouts
		if row.start < 0 && len(got) > 0 || row.start >= 0 && (len(got) != 1 || !got[0].StartAt.Equal(minute(row.start))) {
			t.Errorf("%s: %+v", row.why, got)
		}
	}
}

// TestStartedRolloutWakesNobody: once a rollout has its start, it does not matter any more when the
// gates of others open who are ranked in it. A target that needs nothing is nobody to wake up for.
func TestStartedRolloutWakesNobody(t *testing.T) {
	set := compile(t, `[{"name":"all","selector":"environment.name == 'prod'","rules":[{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":0}}]},
		{"name":"soaked","selector":"environment.name == 'prod' && resource.name == 'r1'","rules":[
			{"id":"soak","environmentProgression":{"dependsOnEnvironmentSelector":"environment.name == 'dev'","minimumSoakTimeMinutes":60}}]}]`)
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Environments = append(s.Environments, rollout.Environment{ID: "dev", Name: "dev"})
	s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: "r1", Environment: "dev", Deployment: "api"}, Current: "v2",
		Jobs: []rollout.Job{{Version: "v2", Status: rollout.JobSuccessful, CreatedAt: minute(1), CompletedAt: minute(5)}}})
	s.Targets[0].Current = "v2" // as somebody deployed it by hand
	record := rollout.RolloutRecord{Schema: 1, Rule: "g", Environment: "prod", Deployment: "api", Version: "v2", StartAt: minute(2), Founders: 2}
	for _, row := range []struct {
		why   string
		state rollout.State
		next  time.Time
	}{
		{"the first plan asks when everybody's gate opens", rollout.State{}, minute(65)},
		{"later ones do not", rollout.State{Rollouts: []rollout.RolloutRecord{record}}, time.Time{}},
	} {
		s.State = row.state
		plan := mustPlan(t, set, s, minute(10))
		if got := started(plan); len(got) != 1 || !plan.Next.Equal(row.next) {
			t.Errorf("%s: starts %v, next %v", row.why, got, plan.Next)
		}
	}
}

// TestResourceJoinsOnce: where resources are ranked, one is there as soon as one of its targets is.
// A target that comes to it later moves it behind nobody.
func TestResourceJoinsOnce(t *testing.T) {
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderKey":"resource"}}`))
	s := fleet(3, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	plan := mustPlan(t, set, s, t0)
	first := plan.Start[0].Resource
	s.State = plan.State
	for _, row := range []struct {
		why    string
		joined []string // the deployments of which the target there came later
		starts bool
	}{
		{"all were there", nil, true},
		{"the target of a came later", []string{"a"}, true},
		{"the target of b came later", []string{"b"}, true},
		{"both came later: the resource did", []string{"a", "b"}, false},
	} {
		s := cloneFleet(s)
		for k := range s.Targets {
			if own := &s.Targets[k]; own.Resource == first && slices.Contains(row.joined, own.Deployment) {
				own.JoinedAt = minute(1)
			}
		}
		starts := started(mustPlan(t, set, s, minute(2)))
		if got := slices.Contains(starts, first+"/a@v2") && slices.Contains(starts, first+"/b@v2"); got != row.starts {
			t.Errorf("%s: starts %q", row.why, starts)
		}
	}
}

// TestJoinersOfACurve: a curve goes on with the number that was counted at its start. Who joins is
// due behind the founders, in open time like them, and moves nobody.
func TestJoinersOfACurve(t *testing.T) {
	for _, row := range []struct{ why, rules, last string }{
		{"the share of the interval stays", `{"gradualRollout":{"rolloutType":"linear-normalized","timeScaleInterval":600}}`, "06 17:00:00"},
		{"so does the size of a wave in percent", `{"gradualRollout":{"rolloutType":"waves","waves":["50%"],"timeScaleInterval":300}}`, "06 17:00:00"},
		{"a window shuts before the joiner is due", weekly("w", "09:00", "16:57", "") + `,{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":300}}`, "07 09:03:00"},
	} {
		s := fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}})
		start := instantOf(t, "2025-01-06T16:50:00Z")
		s.Versions[1].CreatedAt, s.Targets[2].JoinedAt = start, start.Add(time.Minute)
		set, joined := compile(t, policy(row.rules)), s.Targets
		s.Targets = joined[:2]
		if got, want := dues(t, set, s, start), []string{"06 16:50:00", "06 16:55:00"}; !slices.Equal(got, want) {
			t.Fatalf("%s: the founders are due at %q, want %q", row.why, got, want)
		}
		s.State, s.Targets = mustPlan(t, set, s, start).State, joined
		if got, want := dues(t, set, s, start.Add(time.Minute)), []string{"06 16:51:00", "06 16:55:00", row.last}; !slices.Equal(got, want) {
			t.Errorf("%s: due at %q, want %q", row.why, got, want)
		}
	}
}

// TestCountedAtTheStart: a planner whose clock is behind the close of a group counts nobody yet.
// The number is that of the first plan at the start, or after it.
func TestCountedAtTheStart(t *testing.T) {
	set := compile(t, policy(`{"id":"b","deploymentBracket":{"deploymentSelector":"true","readinessWindowSeconds":60,"memberRoles":{}}},{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`))
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.State.Brackets = mustPlan(t, set, s, minute(1)).State.Brackets
	for seconds, want := range []int{1, 0} {
		if got := mustPlan(t, set, s, minute(1).Add(-time.Duration(seconds)*time.Second)).State.Rollouts; len(got) != want {
			t.Errorf("%d seconds before the start: %+v", seconds, got)
		}
	}
}

// TestTurnsBeyondTime: the last instant that there is comes; a turn behind it never does, nor one
// that lies more than 292 years after the first.
func TestTurnsBeyondTime(t *testing.T) {
	last := time.Unix(0, math.MaxInt64).UTC()
	interval := int64(last.Sub(t0)/time.Second) + 3600
	s := fleet(2, "v1", map[string][]string{"api": {"v1", "v2"}})
	s.Versions[0].CreatedAt, s.Versions[1].CreatedAt = t0.AddDate(-1, 0, 0), last.Add(-time.Duration(interval)*time.Second)
	for _, row := range []struct {
		interval int64
		want     rollout.Reason
		until    time.Time
	}{{interval, rollout.ReasonRolloutNotDue, last}, {interval + 1, rollout.ReasonRolloutOverflow, time.Time{}}} {
		set := compile(t, policy(fmt.Sprintf(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d}}`, row.interval)))
		waits := waitingOf(mustPlan(t, set, s, t0))
		if len(waits) != 1 || waits[0].Blockers[0].Reason != row.want || !waits[0].Blockers[0].Until.Equal(row.until) {
			t.Errorf("%d seconds: %+v", row.interval, waits)
		}
	}
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":9223372036}}`))
	plan := mustPlan(t, set, fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}), t0)
	overflown := 0
	for _, wait := range waitingOf(plan) {
		if wait.Blockers[0].Reason == rollout.ReasonRolloutOverflow {
			overflown++
		}
	}
	if len(plan.Start) != 1 || overflown != 2 {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestRolloutsOfScopedVersions: whom a version is for is counted for its own rollout; everybody has
// a place in that of the version before.
func TestRolloutsOfScopedVersions(t *testing.T) {
	s := fleet(4, "v1", map[string][]string{"api": {"v1", "v2", "v3"}})
	s.Versions[2].TargetSelector = "resource.name == 'r1' || resource.name == 'r3'"
	set := compile(t, policy(`{"gradualRollout":{"rolloutType":"linear","timeScaleInterval":36000}}`))
	plan := mustPlan(t, set, s, t0)
	founders := map[string]int{}
	for _, record := range plan.State.Rollouts {
		founders[record.Version] = record.Founders
	}
	s.Versions = s.Versions[:2]
	alone := mustPlan(t, set, s, t0)
	for _, resource := range []string{"r2", "r4"} { // v3 is not for them
		id := rollout.TargetID{Resource: resource, Environment: "prod", Deployment: "api"}
		wait, waits := plan.Waiting.Of(id)
		want, due := alone.Waiting.Of(id)
		if waits != due || !cmp.Equal(wait, want) {
			t.Errorf("%s: %+v, and without v3 %+v", resource, wait, want)
		}
	}
	if founders["v2"] != 4 || founders["v3"] != 2 {
		t.Errorf("%v: starts %q, waits %q", founders, started(plan), blockers(plan))
	}
}

// TestTurnOfAnOverride: a target for which an override opened the gate has a turn in a rollout of
// its own that begins with the override, and one in that of the others. Ten minutes lie between two
// turns; the order is that of the places without joiners.
func TestTurnOfAnOverride(t *testing.T) {
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d,"orderSalt":"none"}}`
	set := compile(t, policy(`{"id":"x","anyApproval":{"minApprovals":1}},`+fmt.Sprintf(curve, 600)))
	world := func() rollout.Snapshot { return fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}) }
	order := orderOf(t, mustPlan(t, compile(t, policy(fmt.Sprintf(curve, 600))), world(), t0), 3)
	record := rollout.RolloutRecord{Schema: 1, Rule: "g", Environment: "prod", Deployment: "api", Version: "v2", StartAt: t0, Founders: 3}
	type opened struct{ place, at int }
	for _, row := range []struct {
		why       string
		overrides []opened
		joined    int // when the first in the order came; 0: it was there
		approved  int // for everybody; 0: not at all
		started   bool
		now       int
		want      map[int]int // by place: the minute of its turn, which has come if it is not after now
	}{
		{why: "each begins with its own override", overrides: []opened{{1, 0}, {2, 5}}, now: 6, want: map[int]int{1: 10, 2: 25}},
		{why: "whoever came between them is a joiner in the one and a founder in the other", overrides: []opened{{1, 0}, {2, 5}}, joined: 3, now: 6, want: map[int]int{1: 0, 2: 25}},
		{why: "so it is the other way round", overrides: []opened{{2, 0}, {1, 5}}, joined: 3, now: 6, want: map[int]int{2: 10, 1: 15}},
		{why: "the others' has started, and goes on though their gate is shut again", overrides: []opened{{2, 5}}, started: true, now: 6, want: map[int]int{2: 20}},
		{why: "one that came after the start of the others' is the last there, and an override that is later moves it before nobody", overrides: []opened{{0, 5}}, joined: 3, started: true, now: 6, want: map[int]int{0: 20}},
		{why: "one that was there when the others' began has an earlier turn in it than alone", overrides: []opened{{0, 1}}, joined: 3, approved: 5, now: 6, want: map[int]int{0: 5}},
		{why: "the others' begins later: alone the turn is earlier", overrides: []opened{{1, 0}}, approved: 5, now: 6, want: map[int]int{1: 10}},
	} {
		s := world()
		for k := range s.Targets {
			if row.joined != 0 && s.Targets[k].Resource == order[0] {
				s.Targets[k].JoinedAt = minute(row.joined)
			}
		}
		for k, o := range row.overrides {
			s.Overrides = append(s.Overrides, override("x", only(order[o.place]), func(own *rollout.Override) { own.ID, own.CreatedAt = fmt.Sprint(k), minute(o.at) }))
		}
		if row.approved != 0 {
			s.Versions[0].CreatedAt, s.Versions[1].CreatedAt = minute(-200), minute(-100)
			s.Approvals = []rollout.Approval{{Version: "v2", Deployment: "api", Environment: "prod", By: "ann", Status: rollout.Approved, At: minute(row.approved)}}
		}
		if row.started {
			s.State.Rollouts = []rollout.RolloutRecord{record}
		}
		plan := mustPlan(t, set, s, minute(row.now))
		for place, want := range row.want {
			wait, waits := plan.Waiting.Of(rollout.TargetID{Resource: order[place], Environment: "prod", Deployment: "api"})
			starts := slices.ContainsFunc(plan.Start, func(start rollout.Start) bool { return start.Resource == order[place] })
			if starts != (want <= row.now) || waits == starts || waits && !wait.Blockers[0].Until.Equal(minute(want)) {
				t.Errorf("%s: place %d is not due in minute %d: %+v, starts %q", row.why, place, want, wait, started(plan))
			}
		}
	}
	// A turn that never comes in the rollout of the others is no turn at once.
	set = compile(t, policy(`{"id":"x","anyApproval":{"minApprovals":1}},`+fmt.Sprintf(curve, int64(9223372036))))
	s := world()
	s.State.Rollouts, s.Overrides = []rollout.RolloutRecord{record}, []rollout.Override{override("x", only(order[2]))}
	if plan := mustPlan(t, set, s, minute(1)); len(plan.Start) != 0 {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
	// Neither does it take away the turn that the target has alone: there it is the first again, as
	// it joined before the override.
	for k := range s.Targets {
		if s.Targets[k].Resource == order[0] {
			s.Targets[k].JoinedAt = minute(1)
		}
	}
	s.Overrides = []rollout.Override{override("x", only(order[0]), func(o *rollout.Override) { o.CreatedAt = minute(2) })}
	if plan := mustPlan(t, set, s, minute(2)); !slices.Equal(started(plan), []string{order[0] + "/api@v2"}) {
		t.Errorf("starts %q, waits %q", started(plan), blockers(plan))
	}
}

// TestJoinersOfTwoRollouts: two rollouts rank the resources alike, but for those that came later. Who
// came between their starts is the last in the one and a founder of the other, also if of everybody
// it is known when they came.
func TestJoinersOfTwoRollouts(t *testing.T) {
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":3600,"orderKey":"resource"}}`))
	s := fleet(2, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
	first, other := mustPlan(t, set, s, t0).Start[0].Resource, "r1"
	if first == other {
		other = "r2"
	}
	for k := range s.Targets {
		s.Targets[k].JoinedAt = minute(-60)
		if s.Targets[k].Resource == first {
			s.Targets[k].JoinedAt = minute(30)
		}
	}
	for k := range s.Versions {
		if v := &s.Versions[k]; v.ID == "v2" {
			v.CreatedAt = minute(map[string]int{"a": 10, "b": 40}[v.Deployment])
		}
	}
	got := started(mustPlan(t, set, s, minute(45)))
	slices.Sort(got)
	want := []string{other + "/a@v2", first + "/b@v2"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("starts %q, want %q", got, want)
	}
}

// TestTurnsOfOverridesUnderTwoCurves: a target has a turn under each of two curves, and both count
// from the override that opened the gate for it alone, also if another one opened it for another
// target at the same time.
func TestTurnsOfOverridesUnderTwoCurves(t *testing.T) {
	curve := func(id string, minutes int) string {
		return fmt.Sprintf(`{"id":%q,"gradualRollout":{"rolloutType":"linear","timeScaleInterval":%d,"orderSalt":"none"}}`, id, 60*minutes)
	}
	world := func() rollout.Snapshot { return fleet(5, "v1", map[string][]string{"api": {"v1", "v2"}}) }
	order := orderOf(t, mustPlan(t, compile(t, policy(curve("g", 10))), world(), t0), 5)
	s := world()
	opened := []int{1: 0, 2: 0, 3: 5, 4: 5} // by place
	for place := 1; place < len(opened); place++ {
		s.Overrides = append(s.Overrides, override("x", only(order[place]), func(o *rollout.Override) { o.ID, o.CreatedAt = fmt.Sprint(place), minute(opened[place]) }))
	}
	plan := mustPlan(t, compile(t, policy(`{"id":"x","anyApproval":{"minApprovals":1}},`+curve("g", 10)+","+curve("h", 25))), s, minute(6))
	for place := 1; place < len(opened); place++ {
		wait, _ := plan.Waiting.Of(rollout.TargetID{Resource: order[place], Environment: "prod", Deployment: "api"})
		g, h := minute(opened[place]+10*place), minute(opened[place]+25*place)
		if b := wait.Blockers; len(b) != 2 || b[0].Rule != "g" || b[1].Rule != "h" || !b[0].Until.Equal(g) || !b[1].Until.Equal(h) {
			t.Errorf("place %d is not due at %v and %v: %+v", place, g, h, wait)
		}
	}
}

// TestTurnOfAnOverrideWhereOthersNeedNone: only one of those that are ranked together needs an
// approval, and an override opens the gate for it. The rollout of the others begins without it, even
// if it is asked first, and gives it the earlier turn.
func TestTurnOfAnOverrideWhereOthersNeedNone(t *testing.T) {
	const curve = `{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600,"orderSalt":"none"}}`
	world := func() rollout.Snapshot { return fleet(3, "v1", map[string][]string{"api": {"v1", "v2"}}) }
	order := orderOf(t, mustPlan(t, compile(t, policy(curve)), world(), t0), 3)
	for place, gated := range order {
		s := world()
		set := compile(t, "["+policy(curve)+`,{"name":"careful","selector":"resource.name == '`+gated+`'","rules":[{"id":"x","anyApproval":{"minApprovals":1}}]}]`)
		s.Overrides = []rollout.Override{override("x", only(gated), func(o *rollout.Override) { o.CreatedAt = minute(4) })}
		plan := mustPlan(t, set, s, minute(5))
		for other, id := range order {
			wait, waits := plan.Waiting.Of(rollout.TargetID{Resource: id, Environment: "prod", Deployment: "api"})
			if due := minute(10 * other); waits != (other > 0) || waits && !wait.Blockers[0].Until.Equal(due) {
				t.Errorf("gated is place %d: place %d is not due at %v: %+v, starts %q", place, other, due, wait, started(plan))
			}
		}
		if got := plan.State.Rollouts; len(got) != 1 || !got[0].StartAt.Equal(t0) {
			t.Errorf("gated is place %d: stored is %+v", place, got)
		}
	}
}

// TestRolloutOfWhatIsGone: the record of a rollout goes with its version, or with its deployment,
// whatever the ids of those that are left.
func TestRolloutOfWhatIsGone(t *testing.T) {
	set := compile(t, policy(`{"id":"g","gradualRollout":{"rolloutType":"linear","timeScaleInterval":600}}`))
	s := fleet(1, "v1", map[string][]string{"m": {"v1", "v2"}})
	record := func(deployment, version string) rollout.RolloutRecord {
		return rollout.RolloutRecord{Schema: 1, Rule: "g", Environment: "prod", Deployment: deployment, Version: version, StartAt: t0, Founders: 3}
	}
	kept := record("m", "v2")
	s.State.Rollouts = []rollout.RolloutRecord{record("before", "v2"), kept, record("m", "gone"), record("the last", "v2")}
	if got := mustPlan(t, set, s, minute(1)).State.Rollouts; !slices.Equal(got, []rollout.RolloutRecord{kept}) {
		t.Errorf("kept: %+v", got)
	}
}

// TestTurnsBesideOthers: which other environments, deployments and targets out of scope a plan has
// beside them changes nothing about the turns of those that are ranked together.
func TestTurnsBesideOthers(t *testing.T) {
	waits := func(set *rollout.PolicySet, s rollout.Snapshot) map[rollout.TargetID]string {
		turns := map[rollout.TargetID]string{}
		for k, status := range []rollout.JobStatus{rollout.JobSuccessful, rollout.JobFailure, rollout.JobInProgress} {
			now := t0.Add(time.Duration(k) * time.Minute)
			plan := mustPlan(t, set, s, now)
			for _, start := range plan.Start {
				turns[start.TargetID] += " now"
			}
			for waiting := range plan.Waiting.All() {
				turns[waiting.TargetID] += " " + waiting.String()
			}
			carryOut(t, &s, plan, now, status)
		}
		return turns
	}
	own := func(environment string, from, to int) rollout.Snapshot {
		s := fleet(0, "v1", map[string][]string{"a": {"v1", "v2"}, "b": {"v1", "v2"}})
		s.Environments = []rollout.Environment{{ID: environment, Name: environment}}
		for r := from; r < to; r++ {
			id := fmt.Sprintf("r%03d", r)
			s.Resources = append(s.Resources, rollout.Resource{ID: id, Name: id, Metadata: map[string]string{"env": environment}})
			for _, d := range s.Deployments {
				s.Targets = append(s.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: id, Environment: environment, Deployment: d.ID}, Current: "v1"})
			}
		}
		return s
	}
	for _, row := range []struct {
		why, rules string
		scoped     bool
	}{
		{"by target", `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`, false},
		{"by target, few of whom are in scope", `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`, true},
		{"by resource", `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`, false},
		{"by resource, each version in its own order", `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource","orderSalt":"version"}}`, false},
		{"of brackets", `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60}}`, false},
		{"of brackets, each group in its own order", `{"id":"B","deploymentBracket":{"deploymentSelector":"true","readinessMode":"immediate","memberRoles":{}}},{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderSalt":"group"}}`, false},
	} {
		set := compile(t, policy(row.rules))
		const environments, each = 20, 3
		all := own("e00", 0, each)
		for e := 1; e < environments; e++ {
			s := own(fmt.Sprintf("e%02d", e), e*each, (e+1)*each)
			all.Environments = append(all.Environments, s.Environments...)
			all.Resources, all.Targets = append(all.Resources, s.Resources...), append(all.Targets, s.Targets...)
		}
		if row.scoped { // to e07, which all are in by name: one environment, and few of it in scope
			for k := range all.Targets {
				all.Targets[k].Environment = "e00"
			}
			for k := range all.Versions {
				if all.Versions[k].ID == "v2" {
					all.Versions[k].TargetSelector = "resource.metadata['env'] == 'e07'"
				}
			}
		}
		got := waits(set, all)
		for e := range environments {
			s := own(fmt.Sprintf("e%02d", e), e*each, (e+1)*each)
			if row.scoped {
				if e != 7 {
					continue
				}
				for k := range s.Targets {
					s.Targets[k].Environment = "e00"
				}
				s.Environments = all.Environments
			}
			want := waits(set, s)
			if len(want) != 2*each {
				t.Fatalf("%s: %d turns of %d targets", row.why, len(want), 2*each)
			}
			for id, turn := range want {
				if got[id] != turn {
					t.Errorf("%s: %s among others %q, alone %q", row.why, id, got[id], turn)
				}
			}
		}
	}
}
