package bracket

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/internal/testkit"
)

// TestI9LateEqualsTimely: if versions only appear and nothing is revoked, one late Step yields the
// same groups and locks as many timely ones.
func TestI9LateEqualsTimely(t *testing.T) {
	reached := testkit.Tally{}
	reached.Check(t, func(t *rapid.T) {
		rule := Rule{DeploymentSelector: "true",
			ReadinessMode:           rapid.SampledFrom([]ReadinessMode{CollectionWindow, WaitForAll, Immediate}).Draw(t, "mode"),
			UnchangedMemberStrategy: rapid.SampledFrom([]UnchangedMemberStrategy{SkipUnchanged, RequireAll}).Draw(t, "strategy"),
			TriggerOn:               rapid.SampledFrom([]TriggerOn{Eligible, Published}).Draw(t, "trigger")}
		if rule.ReadinessMode == Immediate {
			rule.UnchangedMemberStrategy = SkipUnchanged
		} else {
			rule.ReadinessWindowSeconds = ptr(int64(rapid.IntRange(0, 6).Draw(t, "W") * 60))
			if rule.ReadinessMode == CollectionWindow && rule.UnchangedMemberStrategy == RequireAll {
				rule.RequireAllTimeoutSeconds = int64(rapid.IntRange(0, 4).Draw(t, "R") * 60)
			}
		}
		base := Observation{Members: []Member{{Deployment: "a"}, {Deployment: "b"}, {Deployment: "c", Needs: []string{"a"}}}}
		var targets TargetList
		scope := func(deployment, version string) {
			if rapid.IntRange(0, 2).Draw(t, "scoped") > 0 {
				return
			}
			first := slices.IndexFunc(targets, func(t Target) bool { return t.Deployment == deployment })
			for _, r := range rapid.SampledFrom([][]int{{0}, {1}, {0, 1}, {1, 2}, {0, 1, 2}}).Draw(t, "resources") {
				targets[first+r].OutOfScope = append(targets[first+r].OutOfScope, version)
			}
		}
		for _, d := range []string{"a", "b", "c"} {
			for r := range 3 {
				own := Target{Resource: fmt.Sprint("r", r), Deployment: d, Current: rapid.SampledFrom([]string{"", "u0", "u1"}).Draw(t, "current")}
				if rapid.IntRange(0, 4).Draw(t, "outdated") == 4 {
					own.OutdatedAt = at(rapid.IntRange(0, 40).Draw(t, "since"))
				}
				targets = append(targets, own)
			}
			for i, id := range []string{"u0", "u1"} { // there before anybody looked
				base.Versions = append(base.Versions, Version{Deployment: d, ID: id, CreatedAt: at(i - 2), EligibleAt: at(i - 2)})
				scope(d, id)
			}
		}
		for i := range rapid.IntRange(1, 9).Draw(t, "versions") {
			v := Version{Deployment: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "deployment"), ID: fmt.Sprintf("v%02d", i+1)}
			v.CreatedAt = at(rapid.IntRange(0, 25).Draw(t, "created"))
			v.EligibleAt = v.CreatedAt.Add(time.Duration(rapid.IntRange(0, 6).Draw(t, "gate")) * time.Minute)
			base.Versions = append(base.Versions, v)
			scope(v.Deployment, v.ID)
		}
		base.Targets = targets
		var needs []string // versions of a for which b needs it
		if rapid.Bool().Draw(t, "needed by version") {
			rule.MemberRoles = &MemberRoles{}
			needs = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"u0", "u1", "v01", "v02", "v03", "v04", "v05", "v06", "v07", "v08", "v09"}), rapid.ID).Draw(t, "versions of a")
		}
		seen := func(now time.Time) Observation {
			o := base
			var named []string
			for _, v := range base.Versions {
				if v.Deployment == "a" && slices.Contains(needs, v.ID) && !v.CreatedAt.After(now) {
					named = append(named, v.ID)
				}
			}
			if named != nil {
				o.Members = slices.Clone(base.Members)
				o.Members[1].NeedsIf = []ConditionalNeed{{"a", named}}
			}
			o.Versions = nil
			for _, v := range base.Versions {
				if v.CreatedAt.After(now) {
					continue
				}
				if v.EligibleAt.After(now) {
					v.EligibleAt = time.Time{}
				}
				o.Versions = append(o.Versions, v)
			}
			outdated := slices.Clone(targets)
			for k := range outdated {
				if outdated[k].OutdatedAt.After(now) {
					outdated[k].OutdatedAt = time.Time{}
				}
			}
			o.Targets = outdated
			return o
		}
		var timelyEvents, lateEvents []string
		record := func(list *[]string, p Plan) {
			for _, e := range p.Events {
				if e.Kind == GroupOpened || e.Kind == GroupClosed {
					*list = append(*list, fmt.Sprint(e.Kind, number(e.Group), e.At))
				}
			}
		}
		timely, awaited := NewState("rule", "prod"), 0
		for m := 0; m <= 50; m++ {
			awaited += checkNew(t, rule, timely.Group, seen(at(m)), at(m))
			if m%5 == 4 { // other hands were at work, and a version is not listed
				o := seen(at(m))
				missing := rapid.IntRange(0, len(o.Versions)-1).Draw(t, "missing")
				o.Versions = slices.Delete(o.Versions, missing, missing+1)
				moved := slices.Clone(targets)
				for k := range moved {
					if v := rapid.SampledFrom(base.Versions).Draw(t, "to"); v.Deployment == moved[k].Deployment {
						moved[k].Current = v.ID
					}
				}
				o.Targets = moved
				awaited += checkNew(t, rule, timely.Group, o, at(m))
			}
			next, plan, err := Step(rule, timely, seen(at(m)), at(m))
			if err != nil {
				t.Fatal(err)
			}
			record(&timelyEvents, plan)
			timely = next
		}
		late, plan, err := Step(rule, NewState("rule", "prod"), seen(at(50)), at(50))
		if err != nil {
			t.Fatal(err)
		}
		record(&lateEvents, plan)
		if !slices.Equal(timelyEvents, lateEvents) || !reflect.DeepEqual(timely.Group, late.Group) {
			t.Fatalf("timely %v\n%s\nlate %v\n%s", timelyEvents, describe(timely), lateEvents, describe(late))
		}
		switch n := late.Group.Number; {
		case n > 2:
			reached["several groups"]++
		case n > 0:
			reached["a group"]++
		}
		if n := len(late.Group.Closed); n > 0 && late.Group.Closed[n-1].TimedOut {
			reached["timed out"]++
		}
		for _, g := range late.Group.Closed {
			for _, m := range g.Members {
				if m.Deployment == "b" && !reflect.DeepEqual(m.NeedsIf, seen(at(50)).Members[1].NeedsIf) {
					reached["needs of then"]++
				}
				if len(m.Locks) > 1 {
					reached["scoped locks"]++
				}
			}
		}
		if awaited > 0 {
			reached["awaited"]++
		}
	}, "several groups", "a group", "timed out", "scoped locks", "awaited", "needs of then")
}

// checkNew compares what a step finds to be new with the definition, version by version and target
// by target, and returns how many versions are awaited.
func checkNew(t *rapid.T, rule Rule, group *GroupRecord, o Observation, now time.Time) (awaited int) {
	v, err := newView(rule.WithDefaults(), group, o, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range v.members {
		d := &v.deployments[v.find(m.Deployment)]
		served := group.served(d.id)
		var want onset
		for r := range int32(len(d.versions)) {
			n := &d.versions[r]
			needed, waits := false, false
			for _, target := range o.Targets.(TargetList) {
				current, may := d.rankOf(target.Current), func(id string) bool { return !slices.Contains(target.OutOfScope, id) }
				if target.Deployment != d.id || !may(n.id) || current >= r {
					continue
				}
				needed = true
				locked := int32(-1) // rank of the newest locked version that the target may have
				for _, l := range served.locked {
					switch rank := d.rankOf(l.ID); {
					case rank < 0: // it may be for every target
						locked = max(locked, d.above(l)-1)
					case may(l.ID):
						locked = max(locked, rank)
					}
				}
				waits = waits || len(target.OutOfScope) > 0 && served.latest != nil && r > locked
			}
			if marked := n.mark().compare(served.mark) <= 0; marked && n.awaited != waits {
				t.Fatalf("%s of %s at %v: awaited %v, want %v", n.id, d.id, now, n.awaited, waits)
			} else if marked && waits {
				awaited++
			}
			if needed && d.unlocked(&served, r) {
				want.add(v.triggerOf(n), n.at)
			}
		}
		if got := v.newOf(d, served); got != want {
			t.Fatalf("%s at %v: new since %v, want %v", d.id, now, got, want)
		}
	}
	return awaited
}

// machine is a fleet of two resources under the node policy, driven by random events. It keeps the
// truth of what was dispatched.
type machine struct {
	*rapid.T
	host
	out       testkit.Tally
	began     map[Run]int // order of dispatch
	minute    int
	locks     map[string]string
	outcomes  int
	read      []State // what other planners may hold: every state so far
	reshaped  bool    // the members have changed
	disturbed bool    // something kept a version from some target, other than time
}

func newMachine(t *rapid.T, out testkit.Tally) *machine {
	m := &machine{T: t, host: *newHost(t, "n1", "n2"), out: out, began: make(map[Run]int), locks: make(map[string]string)}
	m.drawRule(t)
	m.plans()
	return m
}

// drawRule draws everything of the rule but its members.
func (m *machine) drawRule(t *rapid.T) {
	m.rule = windowRule(3600)
	m.rule.ReadinessMode = rapid.SampledFrom([]ReadinessMode{CollectionWindow, CollectionWindow, WaitForAll, Immediate}).Draw(t, "mode")
	strategies := []UnchangedMemberStrategy{SkipUnchanged, RedeployCurrent}
	if m.rule.ReadinessWindowSeconds = nil; m.rule.ReadinessMode != Immediate {
		m.rule.ReadinessWindowSeconds = ptr(int64(rapid.IntRange(0, 2).Draw(t, "W") * 60))
		strategies = append(strategies, RequireAll)
	}
	m.rule.UnchangedMemberStrategy = rapid.SampledFrom(strategies).Draw(t, "unchanged")
	if rapid.IntRange(0, 3).Draw(t, "hooks once") == 3 {
		m.rule.HooksIdempotent = ptr(false)
	}
	m.rule.OnMemberFailure = rapid.SampledFrom([]OnMemberFailure{Hold, RunPost, RollbackMember, RollbackAll}).Draw(t, "onMemberFailure")
	if m.rule.OnMemberFailure == RollbackMember {
		m.rule.AllowMixedPost = rapid.Bool().Draw(t, "mixed")
	}
	if rapid.Bool().Draw(t, "merge") {
		m.rule.OverlapStrategy, m.rule.PreparedStatePersists = Merge, true
		m.rule.MaxMerges = ptr(rapid.IntRange(1, 2).Draw(t, "maxMerges"))
	}
	if rapid.Bool().Draw(t, "stuck") {
		m.rule.StuckAfterSeconds = 120
	}
	m.rule.TriggerOn = rapid.SampledFrom([]TriggerOn{Eligible, Published}).Draw(t, "trigger")
	if err := m.rule.Validate(); err != nil {
		t.Fatal(err)
	}
}

// plans steps now and checks everything that must hold of one plan.
func (m *machine) plans() {
	o := m.observation()
	m.now = at(m.minute)
	next, plan, err := Step(m.rule, m.state, o, m.now)
	if err != nil {
		m.Fatal(err)
	}
	fail := func(format string, args ...any) {
		m.Helper()
		m.Fatalf("%s\n%sstarts %s\nwaits %+v\nnext %v", fmt.Sprintf(format, args...), describe(next), describeStarts(plan), waitsOf(plan), plan.Next)
	}
	if back := m.goesBack(plan); back != "" {
		fail("I1: %s", back)
	}
	again, second, err := Step(m.rule, next, m.observation(), m.now) // the host lists maps: another order each time
	if group, executions := again.Changed(next); err != nil || group != nil || executions != nil {
		fail("I6: a repeated step changes %v %v, %v", group, executions, err)
	}
	if !reflect.DeepEqual(plan.Start, second.Start) || !reflect.DeepEqual(waitsOf(plan), waitsOf(second)) || !plan.Next.Equal(second.Next) {
		fail("I6, I8: a repeated step plans %s, %+v, %v", describeStarts(second), waitsOf(second), second.Next)
	}
	if !plan.Next.IsZero() && !plan.Next.After(m.now) {
		fail("Next is not in the future")
	}
	until := plan.Next
	if until.IsZero() {
		until = m.now.Add(1000 * time.Hour)
	}
	for _, when := range []time.Time{m.now.Add(1), until.Add(-1)} { // I11: nothing changes before Next
		if !when.After(m.now) {
			continue
		}
		unchanged, later, err := Step(m.rule, next, o, when)
		group, executions := unchanged.Changed(next)
		if err != nil || group != nil || executions != nil || !samePlan(second, later) || !second.Next.Equal(later.Next) {
			fail("I11: at %v the plan differs: %s", when, later)
		}
	}
	if !plan.Next.IsZero() { // a host that wakes at Next wakes for something
		changed, later, err := Step(m.rule, next, o, plan.Next)
		if err != nil {
			m.Fatal(err)
		}
		group, executions := changed.Changed(next)
		switch {
		case group != nil || executions != nil || !samePlan(second, later):
			m.out["something happens at Next"]++
		case !reopens(plan, plan.Next): // whether that lets anything start depends on the whole fleet
			fail("nothing happens at Next")
		}
	}
	for _, w := range waitsOf(plan) {
		if w.Reason.Status() != Pending || !w.Until.After(m.now) && len(w.On) == 0 {
			fail("I11: nothing ends %+v", w)
		}
		for i, c := range w.On {
			if slices.Contains(w.On[:i], c) {
				fail("%v names an event twice", w)
			}
		}
		m.out[string(w.Reason)]++
	}
	offered := make(map[[3]string]bool)
	for i, s := range plan.Start {
		offered[[3]string{s.Run.Resource, s.Run.Deployment, s.Version}] = true
		if _, dispatched := m.began[s.Run]; dispatched {
			fail("I7: %s is offered again", s.Run)
		}
		if i > 0 && !m.reshaped && compareStart(next, plan.Start[i-1], s) >= 0 {
			fail("the order of starts: %s before %s", plan.Start[i-1].Run, s.Run)
		}
		m.judge(next, s, fail)
	}
	for key := range m.targets { // the plan against the verdict on every candidate
		for _, v := range m.versions {
			if v.Deployment != key[1] {
				continue
			}
			verdict := plan.Evaluate(next, key[0], key[1], v.ID, m.now)
			if (verdict.Reason == ReasonRun) != offered[[3]string{key[0], key[1], v.ID}] {
				fail("%v@%s: verdict %+v", key, v.ID, verdict)
			}
			if verdict.Reason.Status() == Pending && !verdict.Until.After(m.now) && len(verdict.On) == 0 {
				fail("I11: nothing ends the wait of %v@%s: %+v", key, v.ID, verdict)
			}
			if verdict.Reason == ReasonCurrent && m.targets[key].Current != v.ID {
				if x := m.record(key[0]); x == nil {
					fail("%v@%s is no current version", key, v.ID)
				}
			}
			m.out[string(verdict.Reason)]++
		}
	}
	for _, g := range next.Group.Closed {
		if text := fmt.Sprint(g.Members); m.locks[g.ID] == "" {
			m.locks[g.ID] = text
		} else if m.locks[g.ID] != text {
			fail("I5: the locks of %s changed", g.ID)
		}
	}
	for _, e := range plan.Events {
		m.out[string(e.Kind)+" "+string(e.Status)]++
	}
	if len(plan.Stuck) > 0 {
		m.out["stuck"]++
	}
	m.state, m.plan = next, plan
	m.read = append(m.read, next)
}

// samePlan reports whether two plans say the same, but for what happened before and when to look
// again.
func samePlan(a, b Plan) bool {
	return reflect.DeepEqual(a.Start, b.Start) && reflect.DeepEqual(waitsOf(a), waitsOf(b)) && reflect.DeepEqual(a.Stuck, b.Stuck) && reflect.DeepEqual(a.Redispatch, b.Redispatch)
}

// reopens reports whether a version that the latest group has locked becomes eligible again at an
// instant.
func reopens(p Plan, when time.Time) bool {
	return p.view.latest != nil && slices.ContainsFunc(p.view.latest.Members, func(m GroupMember) bool {
		d := &p.view.deployments[p.view.find(m.Deployment)]
		return slices.ContainsFunc(m.Locks, func(l VersionMark) bool {
			r := d.rankOf(l.ID)
			return r >= 0 && d.versions[r].at.Equal(when) && when.After(p.view.latest.ReadyAt)
		})
	})
}

// compareStart is the order of starts: by resource, dependency level and deployment.
func compareStart(s State, a, b Start) int {
	if c := strings.Compare(a.Run.Resource, b.Run.Resource); c != 0 {
		return c
	}
	needs := map[string][]string{} // deployments may have gone, and what they needed with them
	if r := (&host{t: nil, state: s}).record(a.Run.Resource); r != nil && r.Open != nil {
		for _, m := range r.Open.Members {
			needs[m.Deployment] = m.Needs
		}
	} else {
		for _, g := range s.Group.Closed {
			for _, m := range g.Members {
				if g.ID == a.Run.Group {
					needs[m.Deployment] = m.Needs
				}
			}
		}
	}
	var level func(deployment string) int
	level = func(deployment string) (n int) {
		for _, need := range needs[deployment] {
			if _, member := needs[need]; member {
				n = max(n, level(need)+1)
			}
		}
		return n
	}
	return cmp.Or(level(a.Run.Deployment)-level(b.Run.Deployment), strings.Compare(a.Run.Deployment, b.Run.Deployment))
}

// judge compares an offer with what really ran.
func (m *machine) judge(s State, start Start, fail func(string, ...any)) {
	run := start.Run
	x := (&host{t: nil, state: s}).record(run.Resource)
	if start.First {
		if x != nil && x.Open != nil {
			fail("I2: %s opens a second execution", run)
		}
		if closed := s.Group.Closed; run.Group != closed[len(closed)-1].ID || run.Generation != 1 || run.Attempt != 1 {
			fail("I14: %s opens an execution of a superseded group", run)
		}
		return
	}
	member := x.Open.Members[x.Open.member(run.Deployment)]
	want := member.Version
	if run.Purpose == Rollback {
		want = member.From
	}
	if start.Version != want || start.Version == "" {
		fail("I1: %s deploys %q, frozen is %q", run, start.Version, want)
	}
	if len(x.Open.Merged) > x.Open.Rule.maxMerges() {
		fail("I13: %v", x.Open.Merged)
	}
	last := make(map[string]RunFact) // newest run of each member of the execution
	for r, f := range m.runs {
		if r.Group != run.Group || r.Resource != run.Resource {
			continue
		}
		if r.Deployment == run.Deployment && f.Status == RunSucceeded && member.Role != Main {
			fail("I4: %s after %s", run, r)
		}
		k := x.Open.member(r.Deployment)
		skipped := k >= 0 && x.Open.Members[k].Status == MemberSkipped // an operator counts it as done, although it runs
		if f.Status == RunRunning && (r.Deployment == run.Deployment || r.Generation < run.Generation && !skipped) {
			fail("%s is offered while %s runs", run, r)
		}
		if l, ok := last[r.Deployment]; !ok || m.began[r] > m.began[l.Run] {
			last[r.Deployment] = *f
		}
	}
	if m.reshaped {
		m.judgeNeeds(x.Open, member, run, fail)
		return
	}
	if len(m.commands) > 0 {
		return // an operator may have skipped anything
	}
	succeeded := func(d string) bool {
		k := x.Open.member(d)
		if k < 0 || x.Open.Members[k].Status == MemberSkipped || x.Open.Members[k].Status == MemberCancelled {
			return true // without target here, unchanged, or gone
		}
		return last[d].Status == RunSucceeded && last[d].Run.Purpose == Deploy
	}
	switch {
	case member.Role == Main && run.Purpose == Deploy:
		// Of those that have targets roles are derived: drain may be a main, and needs nobody.
		if first := run.Deployment == "drain"; !first && !succeeded("drain") || !first && run.Deployment != "os" && !succeeded("os") {
			fail("I3: %s before its needs", run)
		}
	case member.Role == Post && (m.outcomes == 0 || x.Open.Rule.OnMemberFailure == Hold):
		for _, d := range []string{"os", "kubelet", "containerd"} {
			if k := x.Open.member(d); k >= 0 && x.Open.Members[k].Role == Main && !succeeded(d) { // of those that have targets roles are derived
				fail("I3, I12: %s before %s", run, d)
			}
		}
	}
}

func (m *machine) running() []*RunFact {
	runs := slices.SortedFunc(maps.Keys(m.runs), func(a, b Run) int { return compareRuns(&a, &b) })
	var list []*RunFact
	for _, r := range runs {
		if m.runs[r].Status == RunRunning {
			list = append(list, m.runs[r])
		}
	}
	return list
}

// propMachine is a history of the node policy. If changing, its members change as well, the rule
// comes and goes, and an operator commands whatever the execution does.
func propMachine(out testkit.Tally, changing bool) func(*rapid.T) {
	return func(t *rapid.T) {
		m := newMachine(t, out)
		published := 1
		actions := map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				if published > 6 {
					return
				}
				published++
				d := rapid.SampledFrom([]string{"os", "kubelet", "containerd", "drain", "uncordon"}).Draw(t, "deployment")
				m.publish(d, fmt.Sprint("v", published), m.minute+rapid.SampledFrom([]int{0, 0, 0, -2, 2}).Draw(t, "dated"))
				switch v := &m.versions[len(m.versions)-1]; rapid.IntRange(0, 4).Draw(t, "held back") {
				case 0:
					v.EligibleAt = time.Time{}
				case 1:
					v.EligibleAt = v.CreatedAt.Add(2 * time.Minute)
				}
			},
			"approve": func(t *rapid.T) {
				for i := range m.versions {
					if m.versions[i].EligibleAt.IsZero() {
						m.versions[i].EligibleAt = m.now
						return
					}
				}
			},
			"revoke": func(t *rapid.T) {
				i := rapid.IntRange(0, len(m.versions)-1).Draw(t, "version")
				m.versions[i].EligibleAt = time.Time{}
				m.disturbed = true
			},
			"due": func(t *rapid.T) {
				m.due[rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "resource")] = at(m.minute + rapid.IntRange(-2, 4).Draw(t, "in"))
			},
			"start": func(t *rapid.T) { m.start(t) },
			"crash between save and dispatch": func(t *rapid.T) {
				var runs []Run
				for _, s := range m.plan.Start {
					if rapid.Bool().Draw(t, "start") {
						runs = append(runs, s.Run)
					}
				}
				next, err := m.plan.Commit(m.state, runs, m.now)
				if err != nil {
					t.Fatal(err)
				}
				m.state = next
				m.plans()
				dispatched := make(map[Run]bool)
				for _, s := range m.plan.Redispatch {
					dispatched[s.Run] = true
					m.dispatch(s)
					out["redispatched"]++
				}
				for _, r := range runs {
					if !dispatched[r] {
						t.Fatalf("I17: %s was committed and is lost", r)
					}
				}
			},
			"start without commit": func(t *rapid.T) {
				for _, s := range m.plan.Start {
					if s.First {
						m.dispatch(s)
						out["adopted"]++
						m.plans()
						return
					}
				}
			},
			"end": func(t *rapid.T) {
				if running := m.running(); len(running) > 0 {
					m.ends(t, running[rapid.IntRange(0, len(running)-1).Draw(t, "run")], 2)
				}
			},
			"progress": func(t *rapid.T) { // as most of the time nothing goes wrong
				for range rapid.IntRange(1, 6).Draw(t, "rounds") {
					m.start(t)
					m.plans()
					for _, f := range m.running() {
						m.ends(t, f, 7)
					}
					m.plans()
				}
			},
			"command": func(t *rapid.T) {
				r := m.record(rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "resource"))
				if r == nil || r.Open == nil || r.Open.Status != StatusFailed || len(m.commands) > 4 {
					return
				}
				kind := rapid.SampledFrom([]CommandKind{Retry, Retry, Skip, Resolve, Abandon}).Draw(t, "kind")
				m.commands = append(m.commands, Command{ID: fmt.Sprint("c", len(m.commands)), Kind: kind, Group: r.Open.Group, Resource: r.Resource, At: m.now})
				m.disturbed = true
				out[string(kind)]++
			},
			"close": func(t *rapid.T) {
				if g := m.state.Group; g.Collecting != nil && len(m.commands) <= 4 && rapid.IntRange(0, 2).Draw(t, "seldom") == 0 {
					m.commands = append(m.commands, Command{ID: fmt.Sprint("c", len(m.commands)), Kind: Close, Group: g.Collecting.ID, At: m.now})
					out[string(Close)]++
				}
			},
			"vanish": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") > 0 {
					return
				}
				delete(m.targets, m.anywhere(t))
				m.disturbed = true
				out["vanished"]++
			},
			"appear": func(t *rapid.T) {
				if key := m.anywhere(t); m.targets[key] == nil && !slices.Contains(m.deleted, key[0]) {
					m.target(key[0], key[1], rapid.SampledFrom([]string{"v1", ""}).Draw(t, "current"))
					out["appeared"]++
				}
			},
			"by hand": func(t *rapid.T) {
				v := rapid.SampledFrom(m.versions).Draw(t, "version")
				key := [2]string{rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "resource"), v.Deployment}
				target := m.targets[key]
				if target == nil || rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					return
				}
				if has, runs := m.mark(v.Deployment, target.Current); runs && has.compare(VersionMark{v.ID, v.CreatedAt}) >= 0 {
					return
				}
				target.Current = v.ID
				m.disturbed = true
				out["by hand"]++
			},
			"outdate": func(t *rapid.T) {
				if target := m.targets[m.anywhere(t)]; target != nil && rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
					target.OutdatedAt = m.now
					out["outdated"]++
				}
			},
			"scope": func(t *rapid.T) {
				v := rapid.SampledFrom(m.versions).Draw(t, "version")
				if target := m.targets[[2]string{rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "resource"), v.Deployment}]; target != nil && v.ID != "v1" && !slices.Contains(target.OutOfScope, v.ID) {
					target.OutOfScope = append(slices.Clone(target.OutOfScope), v.ID)
					out["scoped"]++
				}
			},
			"delete": func(t *rapid.T) {
				if rapid.IntRange(0, 19).Draw(t, "seldom") > 0 || len(m.deleted) > 0 {
					return
				}
				m.deleted = []string{"n2"}
				m.disturbed = true
				maps.DeleteFunc(m.targets, func(key [2]string, _ *Target) bool { return key[0] == "n2" })
				out["deleted"]++
			},
			"edit": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
					m.drawRule(t)
					out["edited"]++
				}
			},
			"another planner": m.another,
			"clock goes back": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") == 0 {
					m.minute -= rapid.IntRange(1, 3).Draw(t, "minutes")
				}
			},
			"wait": func(t *rapid.T) { m.minute += rapid.IntRange(1, 3).Draw(t, "minutes") },
			"store and load": func(t *rapid.T) {
				m.state = stored(t, m.state)
				m.plan, m.read = Plan{}, nil // a new process has no plan yet
			},
			"": func(t *rapid.T) { m.plans() },
		}
		if changing {
			maps.Copy(actions, m.changes())
		}
		t.Repeat(actions)
		m.calm()
	}
}

// another lets a planner act that has read the group record and the execution records at different
// times, and whose clock differs. It saves each record that it changed if that is still the one it
// read, and dispatches what it has saved.
func (m *machine) another(t *rapid.T) {
	if len(m.read) == 0 {
		return
	}
	before := func() State { return m.read[max(0, len(m.read)-rapid.IntRange(1, 5).Draw(t, "age"))] }
	read := State{Group: before().Group}
	for _, resource := range []string{"n1", "n2"} {
		if r := (&host{state: before()}).record(resource); r != nil {
			read.Executions = append(read.Executions, r)
		}
	}
	now := m.now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "clock")) * time.Minute)
	next, plan, err := Step(m.rule, read, m.observation(), now)
	if err == nil {
		next, err = plan.Commit(next, plan.runs(), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	group, executions := next.Changed(read)
	if group != nil {
		if m.state.Group != read.Group {
			m.out["conflict"]++
			return
		}
		m.state.Group = group
	}
	for _, r := range executions {
		if m.record(r.Resource) != (&host{state: read}).record(r.Resource) {
			m.out["conflict"]++
			return
		}
		m.state.Executions = withRecords(m.state.Executions, []*ExecutionRecord{r})
		m.out["saved by another"]++
	}
	for _, s := range slices.Concat(plan.Start, plan.Redispatch) {
		if m.record(s.Run.Resource) == (&host{state: next}).record(s.Run.Resource) {
			m.dispatch(s)
		}
	}
}

// anywhere is one of the places for a target.
func (m *machine) anywhere(t *rapid.T) [2]string {
	return [2]string{rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "resource"), rapid.SampledFrom([]string{"drain", "os", "kubelet", "containerd", "uncordon"}).Draw(t, "deployment")}
}

// calm: nothing arrives any more, every run succeeds, everything is due, and an operator resolves
// what is held. Then everything comes to rest (I16).
func (m *machine) calm() {
	if m.gone { // without its rule nothing new begins
		m.gone, m.disturbed = false, true
	}
	for range 60 {
		m.now = at(m.minute)
		m.due["n1"], m.due["n2"] = m.now, m.now
		m.plans()
		next, err := m.plan.Commit(m.state, m.plan.runs(), m.now)
		if err != nil {
			m.Fatal(err)
		}
		m.state = next
		for _, s := range slices.Concat(m.plan.Start, m.plan.Redispatch) {
			m.dispatch(s)
		}
		running, held := m.running(), 0
		m.minute++
		m.now = at(m.minute)
		for _, f := range running {
			m.succeed(f)
		}
		for _, r := range m.state.Executions {
			if r.Open != nil && r.Open.Status == StatusFailed && len(running) == 0 {
				m.commands = append(m.commands, Command{ID: fmt.Sprint("c", len(m.commands)), Kind: Resolve, Group: r.Open.Group, Resource: r.Resource, At: m.now})
				held++
			}
		}
		if len(running)+held > 0 {
			continue
		}
		if !m.plan.Next.IsZero() {
			m.minute = max(m.minute, int(m.plan.Next.Sub(day0)/time.Minute)+1)
			continue
		}
		for _, r := range m.state.Executions {
			if r.Open != nil {
				m.Fatalf("I16: the execution on %s is open for ever\n%swaits %+v", r.Resource, describe(m.state), waitsOf(m.plan))
			}
		}
		m.out["rest"]++
		if !m.disturbed && m.outcomes == 0 {
			m.upToDate()
		}
		return
	}
	m.Fatalf("I16: does not come to rest\n%sstarts %s\nwaits %+v", describe(m.state), describeStarts(m.plan), waitsOf(m.plan))
}

// upToDate: where nothing failed and nobody interfered, every main ends with the newest eligible
// version that is meant for it, or with a newer one (I16).
func (m *machine) upToDate() {
	m.out["up to date"]++
	for key, target := range m.targets {
		i, member := slices.BinarySearchFunc(m.plan.view.members, key[1], byDeployment)
		if !member || m.plan.view.members[i].Role != Main {
			continue
		}
		var current, newest VersionMark
		for _, v := range m.versions {
			mark := VersionMark{v.ID, v.CreatedAt}
			if v.Deployment != key[1] {
				continue
			}
			if v.ID == target.Current {
				current = mark
			}
			if !v.EligibleAt.IsZero() && !slices.Contains(target.OutOfScope, v.ID) && mark.compare(newest) > 0 {
				newest = mark
			}
		}
		if current.compare(newest) < 0 {
			m.Fatalf("I16: %v ends with %q and not with %q\n%s", key, target.Current, newest.ID, describe(m.state))
		}
	}
}

// runs lists what the plan starts.
func (p *Plan) runs() []Run {
	var runs []Run
	for _, s := range p.Start {
		runs = append(runs, s.Run)
	}
	return runs
}

// ends gives a run an outcome, a good one in all but one of so many cases.
func (m *machine) ends(t *rapid.T, f *RunFact, cases int) {
	f.EndedAt = m.now
	f.Status = RunSucceeded
	if rapid.IntRange(1, cases).Draw(t, "outcome") == cases {
		f.Status = rapid.SampledFrom([]RunStatus{RunFailed, RunLost}).Draw(t, "status")
	}
	if f.Status == RunSucceeded {
		m.succeed(f)
		return
	}
	m.outcomes++
	if rapid.Bool().Draw(t, "retry") {
		f.RetryAt = m.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "after")) * time.Minute)
	}
}

func (m *machine) succeed(f *RunFact) {
	f.Status, f.EndedAt = RunSucceeded, m.now
	if target := m.targets[[2]string{f.Run.Resource, f.Run.Deployment}]; target != nil {
		target.Current, target.OutdatedAt = m.deploys[f.Run], time.Time{}
	}
}

// start commits and dispatches a part of the plan.
func (m *machine) start(t *rapid.T) {
	var runs []Run
	for _, s := range m.plan.Start {
		if rapid.IntRange(0, 3).Draw(t, "start") > 0 {
			runs = append(runs, s.Run)
		}
	}
	if len(runs) == 0 {
		return
	}
	next, err := m.plan.Commit(m.state, runs, m.now)
	if err != nil {
		t.Fatal(err)
	}
	m.state = next
	for _, s := range m.plan.Start {
		if slices.Contains(runs, s.Run) {
			m.dispatch(s)
		}
	}
	m.out["started"]++
}

func (m *machine) dispatch(s Start) {
	if m.runs[s.Run] != nil {
		return // create if absent
	}
	m.began[s.Run] = len(m.began)
	m.deploys[s.Run] = s.Version
	m.runs[s.Run] = &RunFact{Run: s.Run, Status: RunRunning, StartedAt: m.now}
}

func TestMachine(t *testing.T) {
	out := testkit.Tally{}
	out.Check(t, propMachine(out, false), "close", "started", "redispatched", "adopted", "vanished", "appeared", "outdated", "by hand", "scoped", "deleted", "edited", "saved by another", "conflict", "up to date", "rest", "stuck", "group_merged superseded", "execution_ended completed", "execution_ended failed",
		"group_superseded superseded", "something happens at Next",
		string(ReasonRun), string(ReasonInProgress), string(ReasonWaitsForMembers), string(ReasonFailedHolding), string(ReasonCurrent), string(ReasonQueued),
		string(ReasonNotDue), string(ReasonEnded), string(ReasonNextGroup), string(ReasonCollecting), string(ReasonHookWaitsForMain), string(ReasonNotLocked))
}

func FuzzMachine(f *testing.F) {
	for n := range byte(3) {
		seed := make([]byte, 8192)
		for i := range seed {
			seed[i] = byte(i)*(31+n) + n
		}
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(propMachine(testkit.Tally{}, true)))
}

// TestSharedLists: targets that share a list of what is out of scope for them, or a part of one, are
// told apart by what it says to each of them and not by where it lies.
func TestSharedLists(t *testing.T) {
	reached := testkit.Tally{}
	reached.Check(t, func(t *rapid.T) {
		o := Observation{}
		var list []string
		for i := range rapid.IntRange(1, 70).Draw(t, "versions") {
			id := fmt.Sprintf("v%02d", i)
			for _, d := range []string{"a", "b"} {
				o.Versions = append(o.Versions, Version{Deployment: d, ID: id, CreatedAt: at(i), EligibleAt: at(i)})
			}
			list = append(list, id)
		}
		list = rapid.Permutation(list).Draw(t, "list")
		var shared, own TargetList
		for r := range rapid.IntRange(1, 6).Draw(t, "resources") {
			for _, d := range []string{"a", "b"} {
				from := rapid.SampledFrom([]int{0, 0, len(list) / 2}).Draw(t, "from")
				part := list[from : from+rapid.IntRange(0, len(list)-from).Draw(t, "length")]
				target := Target{Resource: fmt.Sprint("r", r), Deployment: d, Current: rapid.SampledFrom([]string{"", "v00"}).Draw(t, "current"), OutOfScope: part}
				for _, other := range shared {
					if len(part) > 0 && len(other.OutOfScope) > 0 && &part[0] == &other.OutOfScope[0] {
						reached[fmt.Sprintf("same start: same length %t, same deployment %t", len(part) == len(other.OutOfScope), d == other.Deployment)]++
					}
				}
				shared = append(shared, target)
				target.OutOfScope = slices.Clone(part)
				own = append(own, target)
			}
		}
		o.Members = []Member{{Deployment: "a"}, {Deployment: "b"}}
		rule := Rule{DeploymentSelector: "true", ReadinessMode: Immediate}
		decide := func(targets TargetList) (State, Plan) {
			o.Targets = targets
			state, plan, err := Step(rule, NewState("rule", "prod"), o, at(100))
			if err != nil {
				t.Fatal(err)
			}
			return state, plan
		}
		state, plan := decide(shared)
		wantState, wantPlan := decide(own)
		if !reflect.DeepEqual(state, wantState) {
			t.Fatalf("shared lists:\n%+v\nown lists:\n%+v", state, wantState)
		}
		if plan.String() != wantPlan.String() {
			t.Fatalf("shared lists:\n%s\nown lists:\n%s", plan, wantPlan)
		}
	}, "same start: same length true, same deployment true", "same start: same length true, same deployment false",
		"same start: same length false, same deployment true", "same start: same length false, same deployment false")
}
