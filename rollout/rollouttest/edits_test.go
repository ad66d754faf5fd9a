package rollouttest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// editor is a host in motion whose policies and fleet somebody edits. It looks again at Next and at
// what happens, and at no other time.
type editor struct {
	*editing
	text       string // policies
	set        *rollout.PolicySet
	s          rollout.Snapshot
	now        time.Time
	ends       []editEnd
	later      []editLater
	dispatched map[string]rollout.Start
	prepared   map[[2]string][]string // (resource, environment) that is drained → the deployments that will make up for it
	attempts   map[string]int
	story      []string
	stirred    int // steps since something happened besides time
	edited     string
	failed     error // of the last plan
	backups    []rollout.State

	did     map[string]bool    // kinds of what was edited so far
	touched map[string]touched // what that concerned
	lost    map[string]bool    // slots that edits of the state took away
}

func newEditor(w *editing, text string, set *rollout.PolicySet) *editor {
	return &editor{
		editing: w, text: text, set: set, dispatched: map[string]rollout.Start{}, prepared: map[[2]string][]string{}, attempts: map[string]int{},
		did: map[string]bool{}, touched: map[string]touched{}, lost: map[string]bool{},
	}
}

type editEnd struct {
	at      time.Time
	target  rollout.TargetID
	run     string
	outcome rollouttest.Outcome
}

type editLater struct {
	at   time.Time
	what string
	kind string // of the edit that it is a part of; empty: of none
	do   func(*editor)
}

// editing is one base world and what has been seen in it.
type editing struct {
	testing.TB
	name     string
	job      func(rollout.Start, int) rollouttest.Outcome
	compiler rollout.Compiler
	sets     map[string]*rollout.PolicySet // by text; nil: refused
	seen     testkit.Tally
	report   func(e *editor, what string, format string, args ...any)
}

func (w *editing) compile(text string) *rollout.PolicySet {
	if set, known := w.sets[text]; known {
		return set
	}
	policies, err := rollout.ParsePolicies([]byte(text))
	var set *rollout.PolicySet
	if err == nil {
		if set, err = rollout.Compile(policies, w.compiler); err != nil {
			set = nil
		}
	}
	w.sets[text] = set
	return set
}

func (e *editor) clone() *editor {
	c := *e
	c.s.Resources, c.s.Environments, c.s.Deployments = slices.Clone(e.s.Resources), slices.Clone(e.s.Environments), slices.Clone(e.s.Deployments)
	c.s.Versions, c.s.Targets, c.s.Approvals = slices.Clone(e.s.Versions), slices.Clone(e.s.Targets), slices.Clone(e.s.Approvals)
	c.s.Overrides, c.s.Freezes = slices.Clone(e.s.Overrides), slices.Clone(e.s.Freezes)
	c.s.Unavailable, c.s.DeletedResources = slices.Clone(e.s.Unavailable), slices.Clone(e.s.DeletedResources)
	for k := range c.s.Targets {
		c.s.Targets[k].Jobs = slices.Clone(c.s.Targets[k].Jobs)
	}
	c.ends, c.later, c.story = slices.Clone(e.ends), slices.Clone(e.later), slices.Clone(e.story)
	c.dispatched, c.prepared, c.attempts = maps.Clone(e.dispatched), maps.Clone(e.prepared), maps.Clone(e.attempts)
	c.did, c.touched, c.lost = maps.Clone(e.did), maps.Clone(e.touched), maps.Clone(e.lost)
	for kind, own := range c.touched {
		c.touched[kind] = maps.Clone(own)
	}
	return &c
}

func (e *editor) note(format string, args ...any) {
	e.story = append(e.story, fmt.Sprintf("%v ", e.now.Sub(at(1, 0, 0)))+fmt.Sprintf(format, args...))
}

// after lets something happen in a while.
func (e *editor) after(d time.Duration, what string, do func(*editor)) {
	e.later = append(e.later, editLater{e.now.Add(d), what, editKind(e.edited), do})
	slices.SortStableFunc(e.later, func(a, b editLater) int { return a.at.Compare(b.at) })
}

func (e *editor) plan(now time.Time) rollout.Plan {
	plan, err := e.set.Plan(e.s, now)
	if err != nil {
		e.failed = err
		plan = rollout.Plan{Now: now, State: e.s.State}
	}
	return plan
}

// said is what a plan tells its host, without when it was made and what changed since the plan before.
func said(p rollout.Plan) string {
	p.Now, p.State, p.Events = time.Time{}, rollout.State{}, nil
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// step plans once, carries the plan out, or moves on to what happens next. It reports whether
// anything can.
func (e *editor) step() bool {
	e.failed = nil
	plan := e.plan(e.now)
	switch {
	case e.failed == nil:
		e.check(plan)
	case refused(e.failed) && e.did["policy"]:
		e.seen["refused plan"]++
	default:
		e.report(e, "plan fails", "%v", e.failed)
	}
	if len(plan.Start) > 0 {
		e.dispatch(plan, plan.Start, plan.Start)
		e.again(plan)
		return true
	}
	e.s.State = plan.State
	next := e.wake(plan)
	if e.failed == nil {
		e.quiet(plan, next)
	}
	if e.stirred++; next.IsZero() || e.stirred > 40 {
		if e.failed == nil {
			e.rest(plan)
		}
		return false
	}
	e.pass(next, e.end)
	return true
}

// wake is when something can happen next, zero if nothing can.
func (e *editor) wake(plan rollout.Plan) time.Time {
	next := plan.Next
	earlier := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if len(e.later) > 0 {
		earlier(e.later[0].at)
	}
	if len(e.ends) > 0 {
		earlier(e.ends[0].at)
	}
	return next
}

// pass moves the clock on, but never back, and lets happen what is due.
func (e *editor) pass(to time.Time, ends func(editEnd)) {
	if to.After(e.now) {
		e.now = to
	}
	for len(e.ends) > 0 && !e.ends[0].at.After(e.now) {
		end := e.ends[0]
		e.ends = e.ends[1:]
		ends(end)
		e.stirred = 0
	}
	for len(e.later) > 0 && !e.later[0].at.After(e.now) {
		own := e.later[0]
		e.later = e.later[1:]
		e.note("%s", own.what)
		e.as(own.kind, own.do)
		e.stirred = 0
	}
}

func (e *editor) end(end editEnd) {
	if job := e.ended(&e.s, end); job != nil && job.Status == rollout.JobSuccessful {
		e.noteHook(end)
	}
}

// noteHook keeps account of who is drained: a pre succeeded where a post is to follow, and no such
// post has since, in whatever group and role.
func (e *editor) noteHook(end editEnd) {
	start := e.dispatched[end.run]
	key := [2]string{start.Resource, start.Environment}
	if slices.Contains(e.prepared[key], start.Deployment) {
		delete(e.prepared, key)
	}
	for _, record := range e.s.State.Executions {
		if record.Open == nil || record.Open.Group != start.Group || record.Resource != start.Resource {
			continue
		}
		var posts []string
		pre := false
		for _, m := range record.Open.Members {
			if m.Role == bracket.Post && m.Status == bracket.MemberWaiting {
				posts = append(posts, m.Deployment)
			}
			pre = pre || m.Role == bracket.Pre && m.Deployment == start.Deployment
		}
		if pre && len(posts) > 0 {
			e.prepared[key] = posts
		}
	}
}

// ended notes the end of a job in a fleet, and returns the job if it is there.
func (e *editor) ended(s *rollout.Snapshot, end editEnd) *rollout.Job {
	k := slices.IndexFunc(s.Targets, func(t rollout.Target) bool { return t.TargetID == end.target })
	if k < 0 {
		return nil
	}
	t := &s.Targets[k]
	j := slices.IndexFunc(t.Jobs, func(job rollout.Job) bool { return job.Run == end.run && !job.Status.Terminal() })
	if j < 0 {
		return nil
	}
	t.Jobs = slices.Clone(t.Jobs)
	job := &t.Jobs[j]
	job.Status, job.CompletedAt, job.Verification = end.outcome.Status, e.now, end.outcome.Verification
	e.note("%s of %v", job.Status, end.run)
	if job.Status == rollout.JobSuccessful {
		t.Current = job.Version
	}
	return job
}

// dispatch commits starts of a plan and creates the jobs of some of them, create-if-absent, where
// no other job is active. A job that is to hang gets no end.
func (e *editor) dispatch(plan rollout.Plan, commit, carried []rollout.Start) {
	state, err := plan.Commit(commit, e.now)
	if err != nil {
		e.report(e, "commit fails", "%v", err)
		return
	}
	e.s.State = state
	e.stirred = 0
	for _, start := range carried {
		k := slices.IndexFunc(e.s.Targets, func(t rollout.Target) bool { return t.TargetID == start.TargetID })
		if k < 0 {
			e.report(e, "nowhere", "%v", start)
			continue
		}
		t := &e.s.Targets[k]
		if slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return j.Run == start.Run || !j.Status.Terminal() }) {
			continue
		}
		e.note("start %s (%s)", start.Run, start.Reason)
		key := fmt.Sprint(start.TargetID, start.Version, start.Purpose)
		e.attempts[key]++
		outcome := e.job(start, e.attempts[key])
		if outcome.Status == "" {
			outcome.Status = rollout.JobSuccessful
		}
		e.dispatched[start.Run] = start
		t.Jobs = append(slices.Clip(t.Jobs), rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: e.now})
		if outcome.Status.Terminal() {
			e.await(editEnd{e.now.Add(outcome.After), start.TargetID, start.Run, outcome})
		}
	}
}

func (e *editor) await(end editEnd) {
	e.ends = append(e.ends, end)
	slices.SortStableFunc(e.ends, func(a, b editEnd) int { return a.at.Compare(b.at) })
}

// again makes sure that a plan that was carried out as a whole leaves nothing to start. Who is let
// past a full pool takes its resource down, and only then others join it, there and nowhere else.
func (e *editor) again(plan rollout.Plan) {
	forced := map[string]bool{}
	for _, s := range plan.Start {
		forced[s.Resource] = forced[s.Resource] || s.Reason == rollout.ReasonOverridden
	}
	for _, s := range e.plan(e.now).Start {
		if !forced[s.Resource] {
			e.report(e, "again", "%v", s)
		}
	}
}

// refused reports whether a plan fails because the policies are such that no fleet, or not this
// one, allows them.
func refused(err error) bool {
	var cycle *rollout.CycleError
	var inside *bracket.CycleError
	var against *bracket.RoleError
	var overlap *bracket.OverlapError
	return errors.As(err, &cycle) || errors.As(err, &inside) || errors.As(err, &against) || errors.As(err, &overlap)
}

// check holds in every state, whatever was edited.
func (e *editor) check(plan rollout.Plan) {
	e.seen["states"]++
	saved := plan
	if state, err := plan.Commit(plan.Start, e.now); err == nil {
		saved.State = state
	}
	if err := (rollouttest.Step{Snapshot: e.s, Plan: saved, Dispatched: e.dispatched}).Check(); err != nil {
		for _, fault := range violations(err) {
			e.report(e, "invariant", "%s", fault)
		}
	}
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			if e.seen[string(b.Reason)]++; b.Reason == rollout.ReasonFrozen && e.halfWay(wait) {
				e.seen["frozen half way"]++
			}
		}
	}
	for _, d := range plan.Diagnostics {
		if d.Code == rollout.DiagnosticExecutionUnseen {
			e.seen["seen by nobody"]++
		}
	}
	e.seen["orphan"] += len(plan.Orphans)
	again := e.clone()
	again.s.State = plan.State
	if p := again.plan(e.now); !cmp.Equal(p.Start, plan.Start) || !cmp.Equal(waitingOf(p), waitingOf(plan)) || p.Keep != plan.Keep || !e.asSoon(plan, p) || !cmp.Equal(p.Orphans, plan.Orphans) {
		e.report(e, "saved", "once its state is saved the plan is another one:\n%s%s%s %v %v", cmp.Diff(plan.Start, p.Start), cmp.Diff(waitingOf(plan), waitingOf(p)), cmp.Diff(plan.Orphans, p.Orphans), plan.Next, p.Next)
	}
	turned := e.clone()
	slices.Reverse(turned.s.Resources)
	slices.Reverse(turned.s.Environments)
	slices.Reverse(turned.s.Deployments)
	slices.Reverse(turned.s.Versions)
	slices.Reverse(turned.s.Targets)
	slices.Reverse(turned.s.Freezes)
	for k := range turned.s.Targets {
		slices.Reverse(turned.s.Targets[k].Jobs)
	}
	if said(turned.plan(e.now)) != said(plan) {
		e.report(e, "order", "turned round, the snapshot has another plan")
	}
	e.limits(plan)
}

// halfWay reports whether a target that waits is a member of an open execution, and waits for no
// other one of it, nor for its turn in the next one.
func (e *editor) halfWay(wait rollout.Waiting) bool {
	return !slices.ContainsFunc(wait.Blockers, func(b rollout.Verdict) bool { return strings.HasPrefix(string(b.Reason), "bracket_") }) &&
		slices.ContainsFunc(e.s.State.Executions, func(r *bracket.ExecutionRecord) bool {
			return r.Resource == wait.Resource && r.Open != nil && r.Open.Environment == wait.Environment &&
				slices.ContainsFunc(r.Open.Members, func(m bracket.ExecutionMember) bool { return m.Deployment == wait.Deployment })
		})
}

// asSoon reports whether a plan is looked at again no sooner than the one before it was to be, of
// which it is made: what that one gave back or ended it has looked at, and this one need not.
// Whether it is soon enough is seen by quiet.
func (e *editor) asSoon(first, again rollout.Plan) bool {
	return again.Next.IsZero() || !first.Next.IsZero() && !again.Next.Before(first.Next)
}

// down are the resources that are being disrupted, as anybody sees it who looks at the fleet and
// not at leases.
func (e *editor) down(executions []*bracket.ExecutionRecord) map[string]bool {
	down := map[string]bool{}
	listed := map[string]bool{}
	for _, r := range e.s.Resources {
		listed[r.ID] = true
	}
	for _, id := range e.s.DeletedResources {
		listed[id] = false
	}
	for _, t := range e.s.Targets {
		if slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return !j.Status.Terminal() }) {
			down[t.Resource] = listed[t.Resource]
		}
	}
	for _, record := range executions {
		if record.Open != nil && listed[record.Resource] {
			down[record.Resource] = true
		}
	}
	maps.DeleteFunc(down, func(_ string, is bool) bool { return !is })
	return down
}

// limits counts who is down under a limit, and does not believe in leases.
func (e *editor) limits(plan rollout.Plan) {
	var policies []map[string]any
	if err := json.Unmarshal([]byte(e.text), &policies); err != nil {
		panic(err)
	}
	for _, p := range policies {
		if p["selector"] != "true" || p["enabled"] == false {
			continue
		}
		rules, _ := p["rules"].([]any)
		for _, rule := range rules {
			r := rule.(map[string]any)
			own, is := r["resourceConcurrency"].(map[string]any)
			if !is || own["groupSelector"] != "true" || own["groupBy"] != nil || own["quarantineAllowance"] != nil {
				continue
			}
			key := r["id"]
			if own["sharedPool"] != nil {
				key = own["sharedPool"]
			}
			at := slices.IndexFunc(plan.Pools, func(p rollout.Pool) bool { return p.Key == key })
			if at < 0 {
				continue
			}
			down := e.down(plan.State.Executions)
			before := len(down)
			for _, s := range plan.Start {
				if s.Reason != rollout.ReasonOverridden && s.Reason != "slot_held" && s.Reason != "slot_already_down" {
					down[s.Resource] = true
				}
			}
			if len(down) > max(before, plan.Pools[at].Max) {
				e.report(e, "limit", "%d are down (%v), %d may be; starts %v", len(down), slices.Sorted(maps.Keys(down)), plan.Pools[at].Max, plan.Start)
			}
			for wait := range plan.Waiting.All() { // a drained node is finished
				for _, b := range wait.Blockers {
					for _, record := range plan.State.Executions {
						if strings.HasPrefix(string(b.Reason), "slot_") && record.Open != nil && record.Open.Environment == wait.Environment && record.Resource == wait.Resource &&
							slices.ContainsFunc(record.Open.Members, func(m bracket.ExecutionMember) bool {
								return m.Deployment == wait.Deployment && m.Version == wait.Version
							}) {
							e.report(e, "holder", "%v of an open execution waits for a slot: %s", wait.TargetID, b.Reason)
						}
					}
				}
			}
		}
	}
}

// quiet makes sure that nothing changes by itself before the next wake-up.
func (e *editor) quiet(plan rollout.Plan, until time.Time) {
	end := until
	if end.IsZero() {
		end = e.now.Add(400 * 24 * time.Hour)
	}
	first := plan
	first.Next = time.Time{}
	text := said(first)
	for _, at := range [...]time.Time{e.now.Add(end.Sub(e.now) / 2), end.Add(-1)} {
		if !at.After(e.now) {
			continue
		}
		p := e.plan(at)
		next := p.Next
		p.Next = time.Time{}
		if said(p) != text || !next.IsZero() && (plan.Next.IsZero() || next.Before(plan.Next)) {
			e.report(e, "quiet", "at %v, before %v, the plan is another one, to be looked at again at %v:\n%s%s%s", at.Sub(e.now), until, next, cmp.Diff(waitingOf(plan), waitingOf(p)), cmp.Diff(plan.Start, p.Start), cmp.Diff(plan.Stuck, p.Stuck))
		}
	}
}

// newer reports whether a version comes after another one.
func newer(a, b rollout.Version) bool {
	return a.CreatedAt.After(b.CreatedAt) || a.CreatedAt.Equal(b.CreatedAt) && a.ID > b.ID
}

// rest looks at what remains when nothing happens any more.
func (e *editor) rest(plan rollout.Plan) {
	e.seen["rest"]++
	waits := map[rollout.TargetID]rollout.Waiting{}
	for wait := range plan.Waiting.All() {
		waits[wait.TargetID] = wait
	}
	held := map[string]bool{}
	for _, record := range plan.State.Executions {
		if record.Open == nil {
			continue
		}
		held[record.Resource] = true
		var told []string
		frozen := false // a member that has still to run, for ever
		for wait := range plan.Waiting.All() {
			if wait.Resource == record.Resource && wait.Environment == record.Open.Environment {
				for _, b := range wait.Blockers {
					told = append(told, string(b.Reason))
					frozen = frozen || b.Reason == rollout.ReasonFrozen && b.Until.IsZero() && slices.ContainsFunc(record.Open.Members, func(m bracket.ExecutionMember) bool { return m.Deployment == wait.Deployment })
				}
			}
		}
		unseen := slices.ContainsFunc(plan.Diagnostics, func(d rollout.Diagnostic) bool {
			return d.Code == rollout.DiagnosticExecutionUnseen && d.Detail == record.Open.Group
		})
		// A dependency may be on something that is not there any more, which is said.
		circle := slices.Contains(told, "dependency_unmatched") || slices.Contains(told, "dependency_unmet")
		if !slices.Contains(told, "bracket_failed_holding") && !unseen && !circle && !frozen {
			var members []string
			for _, m := range record.Open.Members {
				members = append(members, m.Deployment+" "+string(m.Status))
			}
			e.report(e, "open for ever", "%s: %v; told %v, stuck %v", record.Open.Group+" on "+record.Resource, members, told, plan.Stuck)
		}
	}
	for key, posts := range e.prepared {
		if !held[key[0]] && slices.ContainsFunc(e.s.Resources, func(r rollout.Resource) bool { return r.ID == key[0] }) && !slices.Contains(e.s.DeletedResources, key[0]) {
			e.report(e, "drained for ever", "%v, %v never ran", key, posts)
		}
	}
	for _, record := range plan.State.Pools {
		for _, lease := range record.Leases {
			waiting := slices.ContainsFunc(waitingOf(plan), func(w rollout.Waiting) bool {
				return lease.Group == "target/"+w.Environment+"/"+w.Deployment && lease.Resource == w.Resource
			})
			if !held[lease.Resource] && !waiting && !slices.Contains(plan.Orphans, lease) {
				e.report(e, "held for ever", "%+v", lease)
			}
		}
	}
	for _, t := range e.s.Targets {
		newest, own := rollout.Version{}, rollout.Version{}
		for _, v := range e.s.Versions {
			if v.Deployment == t.Deployment && v.Status == rollout.VersionReady && v.TargetSelector == "" && (newest.ID == "" || newer(v, newest)) {
				newest = v
			}
			if v.Deployment == t.Deployment && v.ID == t.Current {
				own = v
			}
		}
		if slices.ContainsFunc(t.Jobs, func(j rollout.Job) bool { return !j.Status.Terminal() }) || slices.Contains(e.s.DeletedResources, t.Resource) {
			continue
		}
		if _, waiting := waits[t.TargetID]; !waiting && newest.ID != "" && !newer(own, newest) && t.Current != newest.ID && t.Deployment != "drain" && t.Deployment != "uncordon" {
			e.report(e, "left behind", "%v has %q and not %s, and waits for nothing", t.TargetID, t.Current, newest.ID)
		}
	}
}

// TestEdits runs small worlds under policies of every kind, and in every state of them edits the
// policies, the fleet or the state in some way of a long catalogue, in a copy of the world; of all
// these edits one in so many. From then on nothing but Next and events wake the host, until nothing
// happens any more. All along the invariants hold, a plan that is saved is made again, nothing
// changes before Next, the limits are kept by what can be seen, and in the end nobody holds
// anything, is drained or left behind without being listed.
func TestEdits(t *testing.T) {
	t.Parallel()
	share := uint64(400)
	switch {
	case *large:
		share = 4
	case testing.Short():
		share = 2500
	}
	seen, sets := testkit.Tally{}, map[string]*rollout.PolicySet{}
	compiler := newCompiler(t)
	for _, b := range editBases() {
		w := &editing{TB: t, name: b.name, compiler: compiler, sets: sets, seen: seen}
		w.report = func(e *editor, finding, format string, args ...any) {
			seen[finding]++
			if text := fmt.Sprintf(format, args...); !e.excuses(finding, text) {
				t.Errorf("%s, %s: %s: %s\n\t%s", b.name, e.edited, finding, text, strings.Join(e.story, "\n\t"))
			}
		}
		b.explore(w, share)
		if t.Failed() && !*large {
			break
		}
	}
	t.Logf("%d edits, %d states", seen["edits"], seen["states"])
	if testing.Short() {
		return
	}
	for _, want := range []string{
		"edits", "states", "rest", "edit of a policy", "edit of the fleet", "for a while", "open execution", "held lease", "orphan", "seen by nobody",
		"slot_full", "slot_paused", "bracket_queued", "bracket_waits_for_members", "bracket_failed_holding", "bracket_collecting", "rollout_not_due", "window_closed", "approval_missing", "frozen", "frozen half way",
	} {
		if seen[want] == 0 {
			t.Errorf("%q never happened", want)
		}
	}
}
