package rollout_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
)

// ingredient is one rule of a pair, or something else that a policy has to get along with.
type ingredient struct {
	kind     string
	rule     string // JSON; empty: see fleet and host
	selector string // of its policy; empty: everything, in one policy with the other rule if that governs everything, too
	needs    string // what the world must have besides a: b, another deployment; h, hooks; s, staging; n, a target that runs nothing
	fleet    func(*rollout.Snapshot)
	host     bool // a rule of the host's own
}

// ingredients are at least one setting of every kind of rule. The instants are chosen so that every
// rule is in the way for a while.
func ingredients() []ingredient {
	const hooks = `"memberRoles":{"pre":"deployment.id == 'drain'","post":"deployment.id == 'uncordon'"},"readinessMode":`
	const often = `"rrule":"FREQ=HOURLY;BYMINUTE=1,11,21,31,41,51;BYSECOND=0","durationMinutes":3`
	a := func(s *rollout.Snapshot) *rollout.Version {
		return &s.Versions[slices.IndexFunc(s.Versions, func(v rollout.Version) bool { return v.Deployment == "a" && v.ID == "v2" })]
	}
	return []ingredient{
		{kind: "bracket", needs: "h", rule: `{"id":"B","deploymentBracket":{"deploymentSelector":"deployment.id != 'b'",` + hooks + `"immediate"}}`},
		{kind: "bracket", needs: "hb", rule: `{"id":"B","deploymentBracket":{"deploymentSelector":"true",` + hooks + `"collection_window","readinessWindowSeconds":90,"overlapStrategy":"merge","preparedStatePersists":true,"onMemberFailure":"run_post"}}`},
		{kind: "pool", rule: `{"id":"P","resourceConcurrency":{"groupSelector":"true","limit":1}}`},
		{kind: "rate", rule: `{"id":"Q","resourceConcurrency":{"groupSelector":"true","limit":"100%","rate":{"limit":1,"periodSeconds":120}}}`},
		{kind: "curve", rule: `{"id":"G","gradualRollout":{"rolloutType":"linear","timeScaleInterval":60,"orderKey":"resource"}}`},
		{kind: "window", needs: "n", rule: `{"id":"W","deploymentWindow":{` + often + `,"minimumRemainingMinutes":2,"firstDeploy":"apply"}}`},
		{kind: "freeze", rule: `{"id":"F","deploymentWindow":{"from":"2025-01-01T00:00:30Z","until":"2025-01-01T00:03:00Z","allowWindow":false}}`},
		{kind: "budget", rule: `{"id":"L","failureBudget":{"maxFailures":0}}`},
		{kind: "approval", rule: `{"id":"A","anyApproval":{"minApprovals":1}}`},
		{kind: "approval there", needs: "b", selector: "resource.id == 'r2'", rule: `{"id":"A","anyApproval":{"minApprovals":1}}`},
		{kind: "progression", needs: "s", selector: "environment.id == 'prod'", rule: `{"id":"E","environmentProgression":{"dependsOnEnvironmentSelector":"environment.id == 'staging'","minimumSuccessPercentage":50,"minimumSoakTimeMinutes":2}}`},
		{kind: "cooldown", rule: `{"id":"C","versionCooldown":{"intervalSeconds":3660}}`},
		{kind: "selector", rule: `{"id":"S","versionSelector":{"selector":"version.tag != 'v3' || resource.id == 'r1'"}}`},
		{kind: "dependency", needs: "b", rule: `{"id":"D","deploymentDependency":{"dependsOn":"deployment.id == 'b' && version.tag != 'v1'","appliesTo":"deployment.id == 'a'"}}`},
		{kind: "retry", rule: `{"id":"R","retry":{"maxRetries":1,"backoffSeconds":60}}`},
		{kind: "rollback", rule: `{"id":"X","rollback":{"onJobStatuses":["failure"],"onVerificationFailure":true}}`},
		{kind: "host", host: true},
		{kind: "frozen", fleet: func(s *rollout.Snapshot) {
			s.Freezes = append(s.Freezes, rollout.Freeze{ID: "all", CreatedAt: t0.Add(45 * time.Second), ExpiresAt: t0.Add(190 * time.Second), CreatedBy: "bob", Reason: "INC-7"})
		}},
		{kind: "frozen but what has begun", fleet: func(s *rollout.Snapshot) {
			s.Freezes = append(s.Freezes, rollout.Freeze{ID: "r1", Resource: "r1", CreatedAt: t0.Add(10 * time.Second), ExpiresAt: t0.Add(4 * time.Minute), CreatedBy: "bob", Reason: "INC-8", FinishBegun: true})
		}},
		{kind: "scope", fleet: func(s *rollout.Snapshot) { a(s).TargetSelector = "resource.id != 'r1'" }},
		{kind: "needs", needs: "b", fleet: func(s *rollout.Snapshot) {
			a(s).Dependencies = []rollout.VersionDependency{{Deployment: "b", VersionSelector: "version.tag != 'v1'"}}
		}},
	}
}

// pairWorld is a small world under two rules: two resources, and as few deployments and
// environments as they need.
type pairWorld struct {
	*testing.T
	name     string
	set      *rollout.PolicySet
	rules    []string
	approves bool
	limited  bool
	seen     testkit.Tally
	visited  map[string]bool
}

// moment is a state of the world, and how it came about.
type moment struct {
	s     rollout.Snapshot
	now   time.Time
	story []string
	lucky bool // nothing has happened that a target could be left behind for
	open  bool // something may still happen besides what is expected
	idle  int  // how often time alone has passed
}

func newPairWorld(t *testing.T, env rollout.Compiler, seen testkit.Tally, pair ...ingredient) (*pairWorld, moment, bool) {
	w := &pairWorld{T: t, seen: seen, visited: map[string]bool{}}
	needs, host := "", false
	var policies []string
	joint := map[string][]string{}
	for _, own := range pair {
		w.name += " + " + own.kind
		needs, host = needs+own.needs, host || own.host
		w.approves = w.approves || strings.HasPrefix(own.kind, "approval")
		w.limited = w.limited || own.kind == "pool"
		if own.rule != "" {
			selector := own.selector
			if selector == "" {
				selector = "true"
			}
			joint[selector] = append(joint[selector], own.rule)
		}
	}
	for _, selector := range slices.Sorted(maps.Keys(joint)) {
		policies = append(policies, fmt.Sprintf(`{"name":"p%d","selector":%q,"rules":[%s]}`, len(policies), selector, strings.Join(joint[selector], ",")))
	}
	parsed, err := rollout.ParsePolicies([]byte("[" + strings.Join(policies, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	var options []rollout.Option
	if host {
		options, w.rules = append(options, rollout.WithRule(hostRule{"H", frozenUntil(t0.Add(75 * time.Second))})), append(w.rules, "H")
	}
	if w.set, err = rollout.Compile(parsed, env, options...); err != nil {
		return nil, moment{}, false // two rules of one id
	}
	for _, p := range parsed {
		for _, rule := range p.Rules {
			w.rules = append(w.rules, rule.ID)
		}
	}
	deployments := map[string][]string{"a": {"v1", "v2"}}
	if strings.Contains(needs, "b") {
		deployments["b"] = []string{"v1", "v2"}
	}
	if strings.Contains(needs, "h") {
		deployments["drain"], deployments["uncordon"] = []string{"v1"}, []string{"v1"}
	}
	s := fleet(2, "v1", deployments)
	slices.SortFunc(s.Versions, func(a, b rollout.Version) int { return strings.Compare(a.Deployment+a.ID, b.Deployment+b.ID) }) // the same accidents every time
	for k := range s.Versions {
		if s.Versions[k].ID == "v1" {
			s.Versions[k].CreatedAt = t0.Add(-time.Hour)
		}
	}
	if strings.Contains(needs, "s") {
		s = inEnvironments(s, "staging")
	}
	if strings.Contains(needs, "n") {
		s.Targets[0].Current = ""
	}
	for _, own := range pair {
		if own.fleet != nil {
			own.fleet(&s)
		}
	}
	return w, moment{s: s, now: t0, lucky: true, open: true}, true
}

func (m moment) and(what string) moment {
	m.s = cloneFleet(m.s)
	m.s.Overrides, m.s.Freezes = slices.Clone(m.s.Overrides), slices.Clone(m.s.Freezes)
	m.story = append(slices.Clip(m.story), what)
	m.idle = 0
	return m
}

func (w *pairWorld) fail(m moment, format string, args ...any) {
	w.Helper()
	w.Fatalf("%s, %v after the start, after %s: %s", w.name[3:], m.now.Sub(t0), strings.Join(m.story, ", "), fmt.Sprintf(format, args...))
}

func (w *pairWorld) plan(m moment) rollout.Plan {
	plan, err := w.set.Plan(m.s, m.now)
	if err != nil {
		w.fail(m, "%v", err)
	}
	return plan
}

// explore lets the world take its course from a moment on: the host carries plans out, jobs
// succeed, what has to be approved is approved, and it looks again at Next alone. In any of its
// states something else may happen: of all these accidents one in share does, in a copy of the
// world.
func (w *pairWorld) explore(m moment, share uint64) {
	for {
		key := encoded(m.s) + m.now.String() + fmt.Sprint(m.lucky, m.open, m.idle)
		if w.visited[key] {
			return
		}
		w.visited[key] = true
		w.seen["states"]++
		plan := w.plan(m)
		w.check(m, plan)
		if m.open {
			for _, other := range w.accidents(m, plan) {
				h := fnv.New64a()
				fmt.Fprint(h, w.name, other.story)
				often := share
				if last := other.story[len(other.story)-1]; strings.HasPrefix(last, "failure") {
					often = max(1, share/8) // retries and rollbacks begin with one
				}
				if h.Sum64()%often == 0 {
					w.seen["accident"]++
					w.explore(other, share)
				}
			}
		}
		m.s.State = plan.State
		next, more := w.expected(m, plan)
		if !more {
			w.rest(m, plan)
			return
		}
		m = next
	}
}

// expected is what happens next if nothing goes wrong.
func (w *pairWorld) expected(m moment, plan rollout.Plan) (moment, bool) {
	if len(plan.Start) > 0 {
		next := m.and(fmt.Sprintf("starts %q", started(plan)))
		w.dispatch(&next, m, plan, plan.Start)
		if again := w.plan(next); len(again.Start) > 0 && !strings.Contains(fmt.Sprint(m.story), "override of P") {
			w.fail(next, "the plan that follows at once starts %q", started(again)) // who is down for a start that was forced may start more
		}
		return next, true
	}
	for k := range m.s.Targets {
		if active(m.s.Targets[k]) {
			next := m.and("success of " + m.s.Targets[k].TargetID.String())
			next.end(k, rollout.JobSuccessful, "")
			return next, true
		}
	}
	if w.approves {
		for _, v := range m.s.Versions { // one after the other
			for _, e := range m.s.Environments {
				own := rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e.ID, By: "ann", Status: rollout.Approved, At: m.now}
				if !slices.ContainsFunc(m.s.Approvals, func(a rollout.Approval) bool { a.At = own.At; return a == own }) {
					next := m.and("approval of " + v.Deployment + " " + v.ID)
					next.s.Approvals = append(next.s.Approvals, own)
					return next, true
				}
			}
		}
	}
	if !plan.Next.IsZero() && m.idle < 8 { // windows open and shut for ever: what waits in the end waits inside them
		next := m.and("Next")
		next.now, next.idle = plan.Next, m.idle+1
		return next, true
	}
	return m, false
}

// dispatch commits a plan and creates the jobs of some of its starts, if they do not exist yet and
// nothing else runs on the target.
func (w *pairWorld) dispatch(next *moment, m moment, plan rollout.Plan, starts []rollout.Start) {
	var err error
	if next.s.State, err = plan.Commit(plan.Start, m.now); err != nil {
		w.fail(m, "%v", err)
	}
	for _, start := range starts {
		for k := range next.s.Targets {
			t := &next.s.Targets[k]
			if t.TargetID == start.TargetID && !active(*t) && !slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.Run == start.Run }) {
				t.Jobs = append(t.Jobs, job(start, m.now, rollout.JobInProgress))
			}
		}
	}
}

func (m *moment) end(target int, status rollout.JobStatus, verification rollout.Verification) {
	m.now = m.now.Add(20 * time.Second)
	t := &m.s.Targets[target]
	k := slices.IndexFunc(t.Jobs, func(j rollout.Job) bool { return !j.Status.Terminal() })
	t.Jobs[k].Status, t.Jobs[k].CompletedAt, t.Jobs[k].Verification = status, m.now, verification
	if status == rollout.JobSuccessful {
		t.Current = t.Jobs[k].Version
	}
}

// accidents are what else may happen: bad luck, and what people do.
func (w *pairWorld) accidents(m moment, plan rollout.Plan) (list []moment) {
	add := func(what string, lucky bool, do func(*moment)) {
		next := m.and(what)
		next.open, next.lucky = false, lucky
		do(&next)
		list = append(list, next)
	}
	if len(plan.Start) > 0 {
		add("stopped before dispatch", true, func(x *moment) { w.dispatch(x, m, plan, nil) })
		add("stopped after the first", true, func(x *moment) { w.dispatch(x, m, plan, plan.Start[:1]) })
		add("another planner saw nothing of it", true, func(x *moment) {
			w.dispatch(x, m, plan, plan.Start)
			blind := m
			blind.s.State = x.s.State
			again := w.plan(blind)
			w.dispatch(x, blind, again, again.Start)
		})
	}
	for k := range m.s.Targets {
		if id := m.s.Targets[k].TargetID.String(); active(m.s.Targets[k]) {
			add("failure of "+id, false, func(x *moment) { x.end(k, rollout.JobFailure, "") })
			add("loss of "+id, false, func(x *moment) { x.end(k, rollout.JobExternalRunNotFound, "") })
			add("refutation of "+id, false, func(x *moment) { x.end(k, rollout.JobSuccessful, rollout.VerificationFailed) })
		}
	}
	release := func(deployment, scope string) func(*moment) {
		return func(x *moment) {
			x.s.Versions = append(x.s.Versions, rollout.Version{ID: "v3", Tag: "v3", Deployment: deployment, Status: rollout.VersionReady, CreatedAt: m.now, TargetSelector: scope})
		}
	}
	add("release of a", true, release("a", ""))
	add("release of a for r2", true, release("a", "resource.id == 'r2'"))
	add("withdrawal", false, func(x *moment) {
		for k := range x.s.Versions {
			if v := &x.s.Versions[k]; v.Deployment == "a" && v.ID == "v2" {
				v.Status = "withdrawn"
			}
		}
	})
	for _, rule := range w.rules {
		for _, only := range []string{"", "r1"} {
			add("override of "+rule, true, func(x *moment) {
				x.s.Overrides = append(x.s.Overrides, rollout.Override{ID: "o", Rule: rule, Version: "v2", Resource: only, CreatedAt: m.now, ExpiresAt: m.now.Add(70 * time.Second), CreatedBy: "ann", Reason: "urgent"})
			})
		}
	}
	for _, own := range []struct {
		what string
		z    rollout.Freeze
	}{
		{"freeze", rollout.Freeze{}}, {"freeze of r1", rollout.Freeze{Resource: "r1"}}, {"freeze of a", rollout.Freeze{Deployment: "a"}}, {"freeze but what has begun", rollout.Freeze{FinishBegun: true}},
	} {
		add(own.what, true, func(x *moment) {
			z := own.z
			z.ID, z.CreatedAt, z.ExpiresAt, z.CreatedBy, z.Reason = "z", m.now, m.now.Add(70*time.Second), "bob", "INC-9"
			x.s.Freezes = append(x.s.Freezes, z)
		})
	}
	if len(m.s.Freezes) > 0 {
		add("thaw", true, func(x *moment) { x.s.Freezes = nil })
	}
	add("deletion of r1", false, func(x *moment) { x.s.DeletedResources = []string{"r1"} })
	add("r1 unseen", false, func(x *moment) {
		x.s.Resources = x.s.Resources[1:]
		x.s.Targets = slices.DeleteFunc(x.s.Targets, func(t rollout.Target) bool { return t.Resource == "r1" })
	})
	add("r1 down", false, func(x *moment) { x.s.Unavailable = []string{"r1"} })
	add("r0 joins", true, func(x *moment) {
		x.s.Resources = append(x.s.Resources, rollout.Resource{ID: "r0"})
		for _, t := range x.s.Targets {
			if t.Resource == "r2" {
				t.Resource, t.Current, t.Jobs, t.JoinedAt = "r0", "v1", nil, m.now
				x.s.Targets = append(x.s.Targets, t)
			}
		}
	})
	add("outdated", true, func(x *moment) { x.s.Targets[0].OutdatedAt = m.now })
	for _, record := range m.s.State.Executions {
		if record.Open != nil {
			for _, kind := range []bracket.CommandKind{bracket.Abandon, bracket.Resolve} {
				add(string(kind), false, func(x *moment) {
					x.now = m.now.Add(10 * time.Second)
					x.s.Commands = append(x.s.Commands, bracket.Command{ID: "c", Kind: kind, Group: record.Open.Group, Resource: record.Resource, At: x.now})
				})
			}
		}
	}
	add("half a minute", true, func(x *moment) { x.now = x.now.Add(31 * time.Second) })
	return list
}

// encoded is everything a value says, for comparison.
func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// said is what a plan tells its host, without when it was made and what changed since the plan
// before.
func said(p rollout.Plan) string {
	p.Now, p.State, p.Events = time.Time{}, rollout.State{}, nil
	return encoded(p)
}

// check holds in every state, whatever happened.
func (w *pairWorld) check(m moment, plan rollout.Plan) {
	w.starts(m, plan)
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			w.seen[string(b.Reason)]++
			if b.Reason == rollout.ReasonFrozen && slices.ContainsFunc(m.s.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Resource == wait.Resource && r.Open != nil }) {
				w.seen["frozen half way"]++
			}
			if b.Status == rollout.Pending && b.Until.IsZero() && len(b.On) == 0 || !b.Until.IsZero() && !b.Until.After(m.now) {
				w.fail(m, "%v waits for nothing: %+v", wait.TargetID, b)
			}
		}
	}
	until := plan.Next
	if until.IsZero() {
		until = m.now.Add(400 * 24 * time.Hour)
	}
	for _, at := range []time.Time{m.now.Add(until.Sub(m.now) / 2), until.Add(-1)} {
		later := m
		if later.now = at; at.After(m.now) && said(w.plan(later)) != said(plan) {
			w.fail(m, "at %v, before Next at %v, the plan is another one:\n%s", at, plan.Next, cmp.Diff(waitingOf(plan), waitingOf(w.plan(later))))
		}
	}
	saved := m
	saved.s.State = plan.State
	if again := w.plan(saved); !cmp.Equal(again.Start, plan.Start) || !cmp.Equal(waitingOf(again), waitingOf(plan)) || again.Keep != plan.Keep || !again.Next.Equal(plan.Next) || !cmp.Equal(again.Orphans, plan.Orphans) {
		w.fail(m, "once its state is saved the plan is another one:\n%s%s", cmp.Diff(plan.Start, again.Start), cmp.Diff(waitingOf(plan), waitingOf(again)))
	}
	turned := m.and("")
	for _, reverse := range []func(){
		func() { slices.Reverse(turned.s.Resources) }, func() { slices.Reverse(turned.s.Environments) }, func() { slices.Reverse(turned.s.Deployments) },
		func() { slices.Reverse(turned.s.Versions) }, func() { slices.Reverse(turned.s.Targets) }, func() { slices.Reverse(turned.s.Freezes) },
	} {
		reverse()
	}
	for k := range turned.s.Targets {
		slices.Reverse(turned.s.Targets[k].Jobs)
	}
	if encoded(w.plan(turned)) != encoded(plan) {
		w.fail(m, "turned round, the snapshot has another plan")
	}
	w.explained(m, plan)
}

// starts checks who starts: somebody who is idle, with a version that is not older, within the
// limit.
func (w *pairWorld) starts(m moment, plan rollout.Plan) {
	down := map[string]bool{}
	for _, id := range m.s.Unavailable {
		down[id] = true
	}
	for _, record := range plan.State.Pools { // between two jobs, too
		for _, lease := range record.Leases {
			down[lease.Resource] = true
		}
	}
	for _, t := range m.s.Targets {
		if active(t) {
			down[t.Resource] = true
		}
		for _, start := range plan.Start {
			if start.TargetID != t.TargetID {
				continue
			}
			if active(t) || slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.Run == start.Run }) {
				w.fail(m, "%s starts beside %+v", start.Run, t.Jobs)
			}
			for _, z := range m.s.Freezes {
				if !m.now.Before(z.CreatedAt) && m.now.Before(z.ExpiresAt) && freezesTarget(z, t.TargetID) {
					open := slices.ContainsFunc(m.s.State.Executions, func(r *bracket.ExecutionRecord) bool {
						return r.Resource == start.Resource && r.Open != nil && r.Open.Group == start.Group
					})
					again := strings.HasPrefix(start.Group, "target/") && slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.Version == start.Version })
					if !z.FinishBegun || !open && !again && start.Purpose != rollout.PurposeRollback {
						w.fail(m, "%s starts under %+v", start.Run, z)
					}
					w.seen["finished under a freeze"]++
				}
			}
			if start.Version < t.Current && start.Purpose != rollout.PurposeRollback {
				w.fail(m, "%s starts where %s runs", start.Run, t.Current)
			}
		}
	}
	before := len(down)
	for _, start := range plan.Start {
		w.seen["start "+string(start.Purpose)]++
		down[start.Resource] = down[start.Resource] || start.Reason != rollout.ReasonOverridden
	}
	if story := fmt.Sprint(m.story); w.limited && len(down) > max(before, 1) && !strings.Contains(story, "resolve") && !strings.Contains(story, "deletion") && !strings.Contains(story, "override of P") {
		w.fail(m, "%d are down, and one may be; starts %q", len(down), started(plan))
	}
}

// explained checks that the explanations and the plan say the same.
func (w *pairWorld) explained(m moment, plan rollout.Plan) {
	starts, waits := map[rollout.TargetID]string{}, map[rollout.TargetID]rollout.Waiting{}
	for _, s := range plan.Start {
		starts[s.TargetID] = s.Version
	}
	for wait := range plan.Waiting.All() {
		waits[wait.TargetID] = wait
	}
	for _, t := range m.s.Targets {
		if slices.Contains(m.s.DeletedResources, t.Resource) {
			continue
		}
		e, err := plan.Explain(t.TargetID)
		if err != nil {
			w.fail(m, "%v", err)
		}
		for _, v := range e.Versions {
			var reasons, listed []string
			for _, b := range v.Blockers() {
				reasons = append(reasons, string(b.Reason)+" "+b.Rule)
			}
			for _, b := range waits[t.TargetID].Blockers {
				listed = append(listed, string(b.Reason)+" "+b.Rule)
			}
			slices.Sort(reasons)
			slices.Sort(listed)
			switch {
			case (v.Prospect == rollout.ProspectStarts) != (starts[t.TargetID] == v.Version),
				v.Prospect == rollout.ProspectStarts && len(reasons) > 0,
				v.Prospect == rollout.ProspectWaits && len(reasons) == 0 && len(e.Held) == 0,
				v.Listed && !slices.Equal(reasons, listed):
				w.fail(m, "the plan starts %q and lists %q for\n%v", starts[t.TargetID], listed, e)
			}
			w.seen["explained "+string(v.Prospect)]++
		}
	}
}

// rest checks the end: nobody holds a slot without being listed for it, and if nothing went wrong
// everybody has the newest version for it.
func (w *pairWorld) rest(m moment, plan rollout.Plan) {
	w.seen["rest"]++
	for _, record := range plan.State.Pools {
		for _, lease := range record.Leases {
			held := slices.ContainsFunc(plan.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Resource == lease.Resource && r.Open != nil })
			if !held && !slices.ContainsFunc(plan.Orphans, func(o concurrency.Lease) bool { return o == lease }) {
				w.fail(m, "%+v is held for ever", lease)
			}
		}
	}
	if !m.lucky {
		return
	}
	for _, t := range m.s.Targets {
		newest := "v1"
		for _, v := range m.s.Versions {
			refused := strings.Contains(w.name, "selector") && v.Tag == "v3" && t.Resource != "r1"
			in := v.TargetSelector == "" || v.TargetSelector == "resource.id != 'r1'" && t.Resource != "r1" || v.TargetSelector == "resource.id == 'r2'" && t.Resource == "r2"
			if v.Deployment == t.Deployment && in && !refused {
				newest = max(newest, v.ID)
			}
		}
		if t.Current != newest {
			w.fail(m, "%v has %q for ever, and not %s; waits %q", t.TargetID, t.Current, newest, blockers(plan))
		}
		w.seen["newest"]++
	}
}

// TestPairs lets every kind of rule meet every other one. Each pair runs to its end, with nothing
// but Next and events to wake the host; and again with accidents, drawn from all that can happen in
// any of its states.
func TestPairs(t *testing.T) {
	t.Parallel()
	env, seen := newRemembering(t), testkit.Tally{}
	all, pair := ingredients(), 0
	for k := range all {
		for _, other := range all[k+1:] {
			if pair++; testing.Short() && pair%3 > 0 {
				continue
			}
			if w, m, ok := newPairWorld(t, env, seen, all[k], other); ok {
				seen["pairs"]++
				w.explore(m, 48)
			}
		}
	}
	t.Logf("%d pairs, %d states, %d accidents", seen["pairs"], seen["states"], seen["accident"])
	if testing.Short() {
		return
	}
	for _, want := range []string{
		"accident", "rest", "newest", "start deploy", "start rollback", "explained superseded", "explained kept", "bracket_not_due", "bracket_queued", "bracket_ended", "bracket_failed_holding",
		"slot_full", "rollout_not_due", "window_closed", "approval_missing", "progression_waiting", "cooldown", "selector_no_match", "dependency_unmet", "version_dependency_unmet",
		"retry_backoff", "retry_exhausted", "rollback_triggered", "change_freeze", "version_not_deployable", "target_busy", "frozen", "frozen half way", "finished under a freeze",
	} {
		if seen[want] == 0 {
			t.Errorf("%q never happened", want)
		}
	}
}
