package rollouttest_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

var large = flag.Bool("large", false, "explore the worlds that take longer than a few seconds as well")

// TestExhaustiveWorld visits every state that a small world can get into through
// [rollout.PolicySet.Plan]: two resources of which one may be disrupted, a pre, two mains of which
// one needs the other, and a post; versions that arrive at any time, jobs that succeed, fail or
// hang, a host that crashes after any prefix of what it writes and dispatches, a second planner
// that plans between any two writes, and observations that lag behind the store.
func TestExhaustiveWorld(t *testing.T) {
	t.Parallel()
	total := 0
	for _, c := range []exploration{
		{name: "queue, hold", bracket: `"overlapStrategy": "queue"`, arrivals: []string{"a", "b"}, failures: 1},
		{name: "queue, hold, with retry", bracket: `"overlapStrategy": "queue"`, retry: true, arrivals: []string{"b"}, failures: 2},
		{name: "merge, hold", bracket: `"overlapStrategy": "merge", "preparedStatePersists": true`, arrivals: []string{"a", "b"}, failures: 1},
		{name: "queue, run_post", bracket: `"onMemberFailure": "run_post"`, arrivals: []string{"b"}, failures: 1},
		{name: "merge, rollback_all", bracket: `"overlapStrategy": "merge", "preparedStatePersists": true, "onMemberFailure": "rollback_all"`, arrivals: []string{"a"}, failures: 1},
		{name: "queue, rollback_member", bracket: `"onMemberFailure": "rollback_member", "allowMixedPost": true`, arrivals: []string{"b"}, failures: 1},
		{name: "window", bracket: `"readinessMode": "collection_window", "readinessWindowSeconds": 90`, arrivals: []string{"a"}, failures: 0},
		{name: "window, two groups", bracket: `"readinessMode": "collection_window", "readinessWindowSeconds": 90`, arrivals: []string{"a", "b"}, failures: 0, large: true},
	} {
		if c.large && !*large {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			e := newExplorer(t, c)
			e.explore()
			e.liveness()
			e.wakeUps()
			total += len(e.states)
			t.Logf("%d states, %d plans, %d edges: %s", len(e.states), e.plans, e.edges, e.tally())
			for _, want := range e.wanted() {
				if e.outcomes[want] == 0 {
					t.Errorf("no state with outcome %q was reached", want)
				}
			}
		})
	}
	t.Logf("%d states in all", total)
}

// exploration is one small world.
type exploration struct {
	name     string
	bracket  string   // fields of the bracket rule
	retry    bool     // one retry, after a minute
	arrivals []string // deployments that get a new version, in this order, at any time
	failures int      // how many jobs may fail
	large    bool     // only with -large
}

type explorer struct {
	*testing.T
	exploration
	policies *rollout.PolicySet
	fleet    rollout.Snapshot

	states   map[string]*node
	queue    []*node
	current  *node // being expanded
	plans    int
	edges    int
	outcomes map[string]int
	events   []event
	texts    map[any]string // stored forms of records
}

// node is a state of the world. It is immutable.
type node struct {
	key      string
	now      time.Time
	store    records
	jobs     map[rollout.TargetID][]rollout.Job
	arrived  []rollout.Version
	failures int
	lag      *view // what was observed one event ago; nil: the same as now
	starts   map[string]rollout.Start

	from    *node        // a state that leads here
	fair    string       // the state that follows if a host plans, dispatches everything, and then one job succeeds; empty at rest
	plan    rollout.Plan // of a fresh observation
	planned bool
}

// event is what leads from a state to another one: a job that ended, a version that arrived, or
// time.
type event struct {
	from, to             *node
	resource, deployment string // of the job; of the version, without resource; of time neither
}

// view is an observation.
type view struct {
	jobs    map[rollout.TargetID][]rollout.Job
	arrived []rollout.Version
}

func newExplorer(t *testing.T, c exploration) *explorer {
	retry := ""
	if c.retry {
		retry = `, {"retry": {"maxRetries": 1, "backoffSeconds": 60}}`
	}
	mode := `"readinessMode": "immediate",`
	if strings.Contains(c.bracket, "readinessMode") {
		mode = ""
	}
	e := &explorer{T: t, exploration: c, states: map[string]*node{}, outcomes: map[string]int{}, texts: map[any]string{}}
	e.policies = compiled(t, `{"name": "p", "selector": "true", "rules": [
		{"id": "b", "deploymentBracket": {"deploymentSelector": "true", `+mode+` "memberRoles": {"pre": "deployment.name == 'pre'", "post": "deployment.name == 'post'"}, `+c.bracket+`}},
		{"id": "c", "resourceConcurrency": {"groupSelector": "true", "limitType": "count", "limitValue": 1}},
		{"deploymentDependency": {"dependsOn": "deployment.name == 'a'", "appliesTo": "deployment.name == 'b'"}}`+retry+`]}`)
	e.fleet.Environments = []rollout.Environment{{ID: "prod"}}
	for _, d := range []string{"a", "b", "post", "pre"} {
		e.fleet.Deployments = append(e.fleet.Deployments, rollout.Deployment{ID: d, Name: d})
		e.fleet.Versions = append(e.fleet.Versions, version(d, d+"0", at(0, 0, 0)))
	}
	for _, r := range []string{"r1", "r2"} {
		e.fleet.Resources = append(e.fleet.Resources, rollout.Resource{ID: r})
		for _, d := range e.fleet.Deployments {
			e.fleet.Targets = append(e.fleet.Targets, rollout.Target{TargetID: rollout.TargetID{Resource: r, Environment: "prod", Deployment: d.ID}, Current: d.ID + "0"})
		}
	}
	return e
}

// explore visits everything that can be reached, breadth first, so that the first violation is one
// of the shortest.
func (e *explorer) explore() {
	e.visit(&node{now: at(1, 0, 0), store: records{}, jobs: map[rollout.TargetID][]rollout.Job{}, starts: map[string]rollout.Start{}})
	for len(e.queue) > 0 && !e.Failed() {
		n := e.queue[0]
		e.queue = e.queue[1:]
		e.current = n
		e.expand(n)
	}
}

func (e *explorer) visit(n *node) *node {
	e.edges++
	n.key = e.keyOf(n)
	if known := e.states[n.key]; known != nil {
		return known
	}
	n.from = e.current
	e.states[n.key] = n
	e.queue = append(e.queue, n)
	if len(e.states) > 200_000 {
		e.Fatal("the world is not small")
	}
	return n
}

// keyOf identifies a state by everything that a planner can see.
func (e *explorer) keyOf(n *node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %s\n", n.now.Unix(), n.failures, observed(&view{n.jobs, n.arrived}))
	if n.lag != nil {
		fmt.Fprintf(&b, "%s\n", observed(n.lag))
	}
	for _, key := range slices.Sorted(maps.Keys(n.store)) {
		fmt.Fprintf(&b, "%s\n", e.text(n.store[key]))
	}
	return b.String()
}

func observed(v *view) string {
	var b strings.Builder
	ids := slices.SortedFunc(maps.Keys(v.jobs), func(a, b rollout.TargetID) int {
		return strings.Compare(a.Resource+a.Deployment, b.Resource+b.Deployment)
	})
	for _, id := range ids {
		for _, job := range v.jobs[id] {
			fmt.Fprintf(&b, "%s %s %s %d %d;", job.Run, job.Version, job.Status, job.CreatedAt.Unix(), job.CompletedAt.Unix())
		}
	}
	for _, version := range v.arrived {
		fmt.Fprintf(&b, "%s %d;", version.ID, version.CreatedAt.Unix())
	}
	return b.String()
}

func (e *explorer) snapshot(v *view) rollout.Snapshot {
	s := e.fleet
	s.Versions = append(slices.Clip(s.Versions), v.arrived...)
	s.Targets = slices.Clone(s.Targets)
	for i := range s.Targets {
		t := &s.Targets[i]
		t.Jobs = v.jobs[t.TargetID]
		for _, job := range t.Jobs {
			if job.Status == rollout.JobSuccessful {
				t.Current = job.Version
			}
		}
	}
	return s
}

// records is what is stored: the records of a [rollout.State] by key. They are immutable, so equal
// pointers are equal records.
type records map[string]any

func (r records) state() rollout.State {
	var s rollout.State
	for _, key := range slices.Sorted(maps.Keys(r)) {
		switch record := r[key].(type) {
		case *bracket.GroupRecord:
			s.Brackets = append(s.Brackets, record)
		case *bracket.ExecutionRecord:
			s.Executions = append(s.Executions, record)
		case *concurrency.Record:
			s.Pools = append(s.Pools, *record)
		}
	}
	return s
}

// write is one conditional write: it succeeds if the record is still the one that was read.
type write struct {
	key      string
	old, new any
}

// writes lists what a planner writes to get from one state to another, in its order: groups,
// executions that ended, leases, executions that begin or go on.
func (e *explorer) writes(from records, to rollout.State) []write {
	var list []write
	put := func(key string, record any) {
		if from[key] != record {
			list = append(list, write{key, from[key], record})
		}
	}
	if len(to.Rollouts) > 0 {
		e.Fatal("rollout records are not expected here")
	}
	for _, record := range to.Brackets {
		put("1 "+record.Environment, record)
	}
	for _, record := range to.Executions {
		if record.Open == nil {
			put("3 "+record.Resource, record)
		}
	}
	for _, record := range to.Pools {
		if old, known := from["2 "+record.Key].(*concurrency.Record); known && e.text(old) == e.text(&record) || !known && len(record.Leases) == 0 {
			continue
		}
		put("2 "+record.Key, &record)
	}
	for _, record := range to.Executions {
		if record.Open != nil {
			put("3 "+record.Resource, record)
		}
	}
	return list
}

// apply carries out one write; it says false if somebody else wrote in between.
func (r records) apply(w write) (records, bool) {
	if r[w.key] != w.old {
		return r, false
	}
	r = maps.Clone(r)
	r[w.key] = w.new
	return r, true
}

// text is the stored form of a record, made once.
func (e *explorer) text(record any) string {
	if text, known := e.texts[record]; known {
		return text
	}
	text, err := json.Marshal(record)
	if err != nil {
		e.Fatal(err)
	}
	e.texts[record] = string(text)
	return string(text)
}

// ask plans on a state with an observation, commits all starts, and checks what the plan says.
func (e *explorer) ask(n *node, store records, v *view) (rollout.Plan, []write) {
	e.plans++
	s := e.snapshot(v)
	s.State = store.state()
	plan, err := e.policies.Plan(s, n.now)
	if err == nil {
		plan.State, err = plan.Commit(plan.Start, n.now)
	}
	if err != nil {
		e.fail(n, "plan", err)
	}
	if err := (rollouttest.Step{Snapshot: s, Plan: plan, Dispatched: n.starts, Lagging: v == n.lag}).Check(); err != nil {
		e.Logf("events %v, start %v, waiting %v, lag %t", plan.Events, plan.Start, waitingOf(plan), v == n.lag)
		e.fail(n, "invariant", err)
	}
	return plan, e.writes(store, plan.State)
}

func (e *explorer) fail(n *node, what string, err error) {
	e.Helper()
	var b strings.Builder
	e.describe(&b, n)
	for before := n.from; before != nil; before = before.from {
		b.WriteString("reached from\n")
		e.describe(&b, before)
	}
	e.Fatalf("%s: %v\n%s", what, err, b.String())
}

// describe tells what a state is.
func (e *explorer) describe(b *strings.Builder, n *node) {
	fmt.Fprintf(b, "at %s after %d failures\n", n.now.Format(time.TimeOnly), n.failures)
	for _, record := range n.store.state().Executions {
		if record.Open != nil {
			fmt.Fprintf(b, "%s: %s is %s, generation %d:", record.Resource, record.Open.Group, record.Open.Status, record.Open.Generation)
			for _, m := range record.Open.Members {
				fmt.Fprintf(b, " %s@%s %s", m.Deployment, m.Version, m.Status)
			}
			b.WriteString("\n")
		}
	}
	for _, record := range n.store.state().Pools {
		for _, lease := range record.Leases {
			fmt.Fprintf(b, "lease %s %s token %d\n", lease.Resource, lease.Group, lease.Token)
		}
	}
	fmt.Fprintf(b, "jobs %s\n", observed(&view{n.jobs, n.arrived}))
	if n.lag != nil {
		fmt.Fprintf(b, "before %s\n", observed(n.lag))
	}
}

// expand takes every step that is possible in a state.
func (e *explorer) expand(n *node) {
	fresh := &view{n.jobs, n.arrived}
	plan, writes := e.ask(n, n.store, fresh)
	n.plan, n.planned = plan, true
	e.outcome(n, plan)
	e.carryOut(n, writes, plan, true)
	if n.lag != nil {
		plan, writes := e.ask(n, n.store, n.lag)
		e.outcomes["stale observation"]++
		e.carryOut(n, writes, plan, false)
	}
	// Another planner comes between two writes, and what it decides is carried out.
	for k := range writes {
		e.interrupted(n, fresh, writes, plan, k)
	}
	e.happen(n)
}

// carryOut continues a plan in every way: the host crashes after any prefix of its writes, and then
// after dispatching any subset.
func (e *explorer) carryOut(n *node, writes []write, plan rollout.Plan, fair bool) {
	store := n.store
	for k, w := range writes {
		store, _ = store.apply(w)
		if k < len(writes)-1 {
			e.outcomes["crash between writes"]++
			e.visit(&node{now: n.now, store: store, jobs: n.jobs, arrived: n.arrived, failures: n.failures, lag: n.lag, starts: n.starts})
		}
	}
	if len(plan.Start) > 4 {
		e.Fatalf("%d starts at once: more than the subsets of 4 are not tried", len(plan.Start))
	}
	for subset := range 1 << len(plan.Start) {
		var some []rollout.Start
		for k, start := range plan.Start {
			if subset&(1<<k) != 0 {
				some = append(some, start)
			}
		}
		all := subset == 1<<len(plan.Start)-1
		if !all {
			e.outcomes["crash before dispatch"]++
		}
		next := e.dispatched(n, store, some)
		if all && fair && next.key != n.key {
			n.fair = next.key
		}
	}
}

// dispatched is the state after some starts were carried out.
func (e *explorer) dispatched(n *node, store records, starts []rollout.Start) *node {
	next := &node{now: n.now, store: store, jobs: n.jobs, arrived: n.arrived, failures: n.failures, lag: n.lag, starts: n.starts}
	for _, start := range starts {
		e.dispatch(n, next, start)
	}
	return e.visit(next)
}

// dispatch creates a job, if it does not exist.
func (e *explorer) dispatch(n, next *node, start rollout.Start) {
	for _, job := range next.jobs[start.TargetID] {
		if job.Run == start.Run {
			if job.Version != start.Version {
				e.fail(n, "dispatch", fmt.Errorf("run %s ran %s and is now to run %s", start.Run, job.Version, start.Version))
			}
			e.outcomes["dispatched again"]++
			return
		}
		if !job.Status.Terminal() {
			e.fail(n, "dispatch", fmt.Errorf("run %s starts while %s is in progress on the target", start.Run, job.Run))
		}
	}
	e.changeJobs(n, next)
	next.jobs[start.TargetID] = append(slices.Clone(next.jobs[start.TargetID]), rollout.Job{Run: start.Run, Version: start.Version, Status: rollout.JobInProgress, CreatedAt: n.now})
	next.starts = maps.Clone(next.starts)
	next.starts[start.Run] = start
	busy := map[string]bool{}
	for id, jobs := range next.jobs {
		for _, job := range jobs {
			if !job.Status.Terminal() {
				busy[id.Resource] = true
			}
		}
	}
	if len(busy) > 1 {
		e.fail(n, "limit", fmt.Errorf("jobs run on %d resources and one is allowed, after the start of %s", len(busy), start.Run))
	}
}

// changeJobs prepares for a change of the jobs; what was observed before lags behind from now on.
func (e *explorer) changeJobs(n, next *node) {
	next.lag = &view{n.jobs, n.arrived}
	next.jobs = maps.Clone(next.jobs)
}

// interrupted lets a second planner plan, write and dispatch everything just before write k of the
// first, which plans again if it loses.
func (e *explorer) interrupted(n *node, fresh *view, writes []write, plan rollout.Plan, k int) {
	store, ok := n.store, true
	for _, w := range writes[:k] {
		store, _ = store.apply(w)
	}
	between, others := e.ask(n, store, fresh)
	for _, w := range others {
		store, _ = store.apply(w)
	}
	starts := between.Start
	for _, w := range writes[k:] {
		if store, ok = store.apply(w); !ok {
			e.outcomes["interrupted and planned again"]++
			again, rest := e.ask(n, store, fresh)
			for _, w := range rest {
				store, _ = store.apply(w)
			}
			plan = again
			break
		}
	}
	e.outcomes["interrupted"]++
	e.dispatched(n, store, append(slices.Clip(starts), plan.Start...))
}

// happen lets jobs end, versions arrive and time pass.
func (e *explorer) happen(n *node) {
	for id, jobs := range n.jobs {
		for k, job := range jobs {
			if job.Status.Terminal() {
				continue // a job that never ends is one of which no end is explored any further
			}
			for _, status := range []rollout.JobStatus{rollout.JobSuccessful, rollout.JobFailure} {
				if status != rollout.JobSuccessful && n.failures == e.exploration.failures {
					continue
				}
				next := &node{now: n.now, store: n.store, jobs: n.jobs, arrived: n.arrived, failures: n.failures, starts: n.starts}
				e.changeJobs(n, next)
				next.jobs[id] = slices.Clone(jobs)
				next.jobs[id][k].Status, next.jobs[id][k].CompletedAt = status, n.now
				if status != rollout.JobSuccessful {
					next.failures++
				}
				reached := e.visit(next)
				e.events = append(e.events, event{n, reached, id.Resource, id.Deployment})
				if status == rollout.JobSuccessful && n.fair == "" && len(n.plan.Start) == 0 {
					n.fair = reached.key
				}
			}
		}
	}
	if k := len(n.arrived); k < len(e.arrivals) {
		d := e.arrivals[k]
		now := n.now.Add(time.Minute)
		next := &node{now: now, store: n.store, jobs: n.jobs, failures: n.failures, starts: n.starts}
		next.arrived = append(slices.Clip(n.arrived), version(d, fmt.Sprintf("%s%d", d, k+1), now))
		e.events = append(e.events, event{n, e.visit(next), "", d})
	}
	if next := n.plan.Next; !next.IsZero() {
		reached := e.visit(&node{now: next, store: n.store, jobs: n.jobs, arrived: n.arrived, failures: n.failures, lag: n.lag, starts: n.starts})
		e.events = append(e.events, event{n, reached, "", ""})
		if n.fair == "" && len(n.plan.Start) == 0 {
			n.fair = reached.key
		}
	}
}

// wakeUps: whoever waits and starts after an event was told that this event, or this instant, could
// help, by every one of its blockers.
func (e *explorer) wakeUps() {
	for _, event := range e.events {
		waits := map[rollout.TargetID]rollout.Waiting{}
		for w := range event.from.plan.Waiting.All() {
			waits[w.TargetID] = w
		}
		for _, start := range event.to.plan.Start {
			w, waited := waits[start.TargetID]
			if !waited || w.Version != start.Version || len(event.from.plan.Start) > 0 {
				continue
			}
			for _, blocker := range w.Blockers {
				if !event.helps(blocker) {
					e.fail(event.to, "wake-up", fmt.Errorf("%s on %s starts after %s on %q, and waited for: %v", start.Deployment, start.Resource, event.deployment, event.resource, blocker))
				}
				e.outcomes["woken"]++
			}
		}
	}
}

func (event event) helps(v rollout.Verdict) bool {
	if !v.Until.IsZero() && !v.Until.After(event.to.now) {
		return true
	}
	return slices.ContainsFunc(v.On, func(on rollout.Condition) bool {
		switch on.Kind {
		case rollout.OnMember, rollout.OnJob, rollout.OnDependency:
			return on.Resource == event.resource && on.Deployment == event.deployment
		case rollout.OnExecutionEnd:
			return on.Resource == event.resource
		case rollout.OnSlot:
			return event.resource != ""
		case rollout.OnVersion:
			return event.resource == "" && on.Deployment == event.deployment
		case rollout.OnGroupClose:
			return event.resource == ""
		}
		return false
	})
}

// outcome counts what the state shows.
func (e *explorer) outcome(n *node, plan rollout.Plan) {
	for _, event := range plan.Events {
		e.outcomes[string(event.Kind)]++
		if event.Kind == bracket.ExecutionEnded {
			e.outcomes["ended "+string(event.Status)]++
		}
	}
	for w := range plan.Waiting.All() {
		for _, v := range w.Blockers {
			e.outcomes[string(v.Reason)]++
		}
	}
	for _, start := range plan.Start {
		if start.Purpose == rollout.PurposeRollback {
			e.outcomes["rollback"]++
		}
		if e.isRetry(start.Run) {
			e.outcomes["retry"]++
		}
	}
}

func (e *explorer) isRetry(run string) bool { return strings.Contains(run, "/2/") }

func (e *explorer) wanted() []string {
	want := []string{
		"woken",
		"crash between writes", "crash before dispatch", "dispatched again", "stale observation", "interrupted and planned again", "interrupted",
		string(bracket.GroupClosed), "ended completed", "bracket_waits_for_members", "slot_full",
	}
	if len(e.arrivals) > 1 && !strings.Contains(e.bracket, "window") {
		want = append(want, string(bracket.GroupSuperseded))
		if strings.Contains(e.bracket, "merge") {
			want = append(want, string(bracket.GroupMerged))
		} else {
			want = append(want, "bracket_queued")
		}
	}
	if e.exploration.failures > 0 {
		switch {
		case e.retry:
			want = append(want, "retry", "bracket_failed_holding")
		case strings.Contains(e.bracket, "rollback"):
			want = append(want, "rollback", "ended failed")
		case strings.Contains(e.bracket, "run_post"):
			want = append(want, "ended failed")
		default:
			want = append(want, "bracket_failed_holding")
		}
	}
	return want
}

func (e *explorer) tally() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.outcomes)) {
		fmt.Fprintf(&b, "%s %d, ", name, e.outcomes[name])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// liveness follows from every state what a fair host does: plan, dispatch everything, and let the
// jobs succeed. Everything must end. Whatever still waits then must have been held by a failure.
func (e *explorer) liveness() {
	rest := map[string]bool{}
	for key, n := range e.states {
		var path []string
		for !rest[key] {
			path = append(path, key)
			n = e.states[key]
			if n.fair == "" {
				e.atRest(n)
				break
			}
			if len(path) > 1000 {
				e.fail(n, "liveness", errors.New("a fair host never comes to rest"))
			}
			key = n.fair
		}
		for _, key := range path {
			rest[key] = true
		}
	}
}

func (e *explorer) atRest(n *node) {
	if !n.planned {
		e.Fatalf("a state was not expanded")
	}
	if len(n.plan.Start) > 0 {
		e.fail(n, "liveness", errors.New("a host at rest has something to start"))
	}
	newest := map[string]string{}
	for _, v := range append(slices.Clone(e.fleet.Versions), n.arrived...) {
		newest[v.Deployment] = v.ID
	}
	if n.failures == 0 {
		if n.plan.Waiting.Len() > 0 {
			e.fail(n, "liveness", fmt.Errorf("nothing failed, and at the end %v", waitingOf(n.plan)[0]))
		}
		for _, target := range e.snapshot(&view{n.jobs, n.arrived}).Targets {
			if target.Current != newest[target.Deployment] {
				e.fail(n, "liveness", fmt.Errorf("%s on %s ends with %s, not %s", target.Deployment, target.Resource, target.Current, newest[target.Deployment]))
			}
		}
	}
	// What is at rest stays so: another ten years change nothing.
	later := *n
	later.now = n.now.AddDate(10, 0, 0)
	plan, _ := e.ask(&later, n.store, &view{n.jobs, n.arrived})
	if len(plan.Start) > 0 || plan.Waiting.Len() != n.plan.Waiting.Len() {
		e.fail(n, "liveness", fmt.Errorf("after ten years of rest %v starts and %d wait", plan.Start, plan.Waiting.Len()))
	}
	e.outcomes["at rest"]++
}
