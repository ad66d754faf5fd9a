package bracket

import (
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/internal/testkit"
)

var deep = flag.Bool("bracket.deep", false, "explore larger worlds")

// The exhaustive world: members pre, m1, m2 (which needs m1) and post on two resources; version 2
// of the mains is there from the start, version 3 appears at any time; two planners share one
// store, so that either may act on a snapshot that the other has outdated; every write of a planner
// is a step of its own, and it may crash between any two. Runs succeed, fail with or without
// another attempt, get lost, or hang.
//
// All reachable states are visited. The model keeps the truth (jobs and the versions that targets
// run) apart from the records, and judges every dispatch by the truth.

type worldConfig struct {
	overlap   OverlapStrategy
	failure   OnMemberFailure
	mixed     bool
	resources int
	planners  int
	limit     int  // leases
	bad       int  // runs that may end badly
	commands  bool // an operator may retry, skip, resolve or abandon, once
}

func (c worldConfig) String() string {
	s := fmt.Sprintf("%s/%s/resources=%d,planners=%d,limit=%d,bad=%d", c.overlap, c.failure, c.resources, c.planners, c.limit, c.bad)
	if c.mixed {
		s += ",mixed"
	}
	if c.commands {
		s += ",commands"
	}
	return s
}

// job is what really happens to a run.
type job struct {
	run     Run
	version string
	status  RunStatus
	retry   bool
}

// write is one side effect of a planner: it replaces a record if that is still the one the planner
// saw, or dispatches a run.
type write struct {
	kind     byte // 'g'roup, 'l'eases, 'e'xecution, 'd'ispatch
	resource int
	old, new int // interned records
	start    Start
}

// worldState is a state in numbers of interned values, so that hundreds of thousands can be told
// apart quickly.
type worldState struct {
	group, leases, truth int
	execs, pending       [2]int
}

// truth is what really happens, whatever the records say.
type truth struct {
	v3      bool
	bad     int
	command string // kind/group@resource of the operator's command, once given
	jobs    []job
	current [2][4]string
}

// writes is what a planner still has to do.
type writes struct {
	first write
	rest  int
}

type world struct {
	t        *testing.T
	c        worldConfig
	rule     Rule
	now      time.Time
	groups   []*GroupRecord
	execs    []*ExecutionRecord // 0 is nil
	leases   []map[[2]string]string
	interned map[string]int
	truths   []truth
	writes   []writes
	lists    map[writes]int
	begun    map[choice]int
	visited  map[worldState]int32 // to the index in order
	order    []worldState
	tally    map[string]int
	steps    map[worldState]*stepped
	locks    map[string]string // first seen locks of each group, by text
}

// choice is one way to begin a round: which records and truth a planner sees, and which part of the
// plan it carries out.
type choice struct {
	group, leases, truth int
	execs                [2]int
	part                 part
}

type part int

const (
	everything part = iota
	lastStart
	nothing
)

type stepped struct {
	state State
	plan  Plan
}

var worldMembers = [4]string{"m1", "m2", "post", "pre"}

func newWorld(t *testing.T, c worldConfig) *world {
	w := &world{t: t, c: c, now: day0.Add(time.Hour), interned: make(map[string]int), visited: make(map[worldState]int32), tally: make(map[string]int),
		steps: make(map[worldState]*stepped), locks: make(map[string]string),
		lists: make(map[writes]int), begun: make(map[choice]int), writes: make([]writes, 1)}
	w.rule = Rule{DeploymentSelector: "true", ReadinessMode: Immediate, OverlapStrategy: c.overlap, OnMemberFailure: c.failure, AllowMixedPost: c.mixed,
		PreparedStatePersists: c.overlap == Merge}
	if err := w.rule.Validate(); err != nil {
		t.Fatal(err)
	}
	w.execs = []*ExecutionRecord{nil}
	w.groups = []*GroupRecord{nil}
	w.leases = []map[[2]string]string{{}}
	return w
}

func (w *world) resource(i int) string { return fmt.Sprint("r", i) }

// intern functions give equal records one number; records are immutable.
func (w *world) internGroup(g *GroupRecord) int {
	key := "g" + describe(State{Group: g}) + fmt.Sprint(g.Number, g.Collecting != nil)
	id, known := w.interned[key]
	if !known {
		id = len(w.groups)
		w.groups = append(w.groups, g)
		w.interned[key] = id
	}
	return id
}

func (w *world) internExec(r *ExecutionRecord) int {
	if r == nil {
		return 0
	}
	var b strings.Builder
	b.WriteString("e" + r.Resource)
	for _, e := range r.Last {
		fmt.Fprint(&b, e.Group, e.Status, e.Merged)
	}
	if x := r.Open; x != nil {
		fmt.Fprint(&b, "|", x.Group, x.Status, x.Merged, x.Commands, x.Recovery)
		for _, m := range x.Members {
			fmt.Fprint(&b, ";", m.Deployment, m.Action, m.Version, m.From, m.Status, m.Attempt, m.Generation, m.Purpose, m.RunVersion, m.Touched, m.StartedAt.IsZero(), m.Needs)
		}
	}
	key := b.String()
	id, known := w.interned[key]
	if !known {
		id = len(w.execs)
		w.execs = append(w.execs, r)
		w.interned[key] = id
	}
	return id
}

func (w *world) internLeases(l map[[2]string]string) int {
	keys := slices.SortedFunc(maps.Keys(l), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	key := "l"
	for _, k := range keys {
		key += k[0] + k[1] + l[k] + ","
	}
	id, known := w.interned[key]
	if !known {
		if key == "l" {
			id = 0
		} else {
			id = len(w.leases)
			w.leases = append(w.leases, l)
		}
		w.interned[key] = id
	}
	return id
}

func (w *world) internTruth(o truth) int {
	key := fmt.Sprint("t", o)
	id, known := w.interned[key]
	if !known {
		id = len(w.truths)
		w.truths = append(w.truths, o)
		w.interned[key] = id
	}
	return id
}

// internWrites returns the number of a list of writes, 0 if it is empty.
func (w *world) internWrites(list []write) int {
	id := 0
	for _, x := range slices.Backward(list) {
		cell := writes{x, id}
		known := false
		if id, known = w.lists[cell]; !known {
			id = len(w.writes)
			w.writes = append(w.writes, cell)
			w.lists[cell] = id
		}
	}
	return id
}

func (w *world) observe(s *truth) Observation {
	o := Observation{Members: []Member{{Deployment: "pre"}, {Deployment: "m1", Needs: []string{"pre"}}, {Deployment: "m2", Needs: []string{"m1"}}, {Deployment: "post", Needs: []string{"m2"}}}}
	var targets TargetList
	for i, d := range worldMembers {
		versions := []string{"1", "2", "3"}
		if i > 1 {
			versions = versions[:1]
		} else if !s.v3 {
			versions = versions[:2]
		}
		for n, id := range versions {
			created := day0.Add(time.Duration(n) * time.Minute)
			o.Versions = append(o.Versions, Version{Deployment: d, ID: id, CreatedAt: created, EligibleAt: created})
		}
		for r := range w.c.resources {
			targets = append(targets, Target{Resource: w.resource(r), Deployment: d, Current: s.current[r][i]})
		}
	}
	o.Targets = targets
	for _, j := range s.jobs {
		f := RunFact{Run: j.run, Status: j.status, StartedAt: w.now}
		if j.status != RunRunning {
			f.EndedAt = w.now
			if j.retry {
				f.RetryAt = w.now
			}
		}
		o.Runs = append(o.Runs, f)
	}
	if kind, rest, given := strings.Cut(s.command, "/"); given {
		group, resource, _ := strings.Cut(rest, "@")
		o.Commands = []Command{{ID: "c", Kind: CommandKind(kind), Group: group, Resource: resource, At: w.now}}
	}
	return o
}

// step plans in a state with the records as they are. Results are kept: many states share records
// and observation.
func (w *world) step(s *worldState) *stepped {
	key := worldState{group: s.group, execs: s.execs, truth: s.truth}
	if done, known := w.steps[key]; known {
		return done
	}
	state := NewState("rule", "prod")
	if g := w.groups[s.group]; g != nil {
		state.Group = g
	}
	for _, e := range s.execs[:w.c.resources] {
		if e != 0 {
			state.Executions = append(state.Executions, w.execs[e])
		}
	}
	now := &w.truths[s.truth]
	o := w.observe(now)
	next, plan, err := Step(w.rule, state, o, w.now)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, describe(state))
	}
	w.judgePlan(now, state, next, plan, o)
	done := &stepped{next, plan}
	w.steps[key] = done
	return done
}

// judgePlan checks what must hold of one call of Step.
func (w *world) judgePlan(s *truth, state, next State, plan Plan, o Observation) {
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s\nbefore:\n%safter:\n%splan: %s, %+v\nworld: %+v", fmt.Sprintf(format, args...), describe(state), describe(next), describeStarts(plan), waitsOf(plan), s)
	}
	again, second, err := Step(w.rule, next, o, w.now)
	if group, executions := again.Changed(next); err != nil || group != nil || executions != nil {
		fail("I6: a repeated step changes %v %v (%v)", group, executions, err)
	}
	if !reflect.DeepEqual(second.Start, plan.Start) {
		fail("I6: a repeated step offers %s", describeStarts(second))
	}
	o = Observation{Members: slices.Clone(o.Members), Versions: slices.Clone(o.Versions), Targets: slices.Clone(o.Targets.(TargetList)), Runs: slices.Clone(o.Runs), Commands: o.Commands}
	slices.Reverse(o.Members)
	slices.Reverse(o.Versions)
	slices.Reverse(o.Targets.(TargetList))
	slices.Reverse(o.Runs)
	_, third, err := Step(w.rule, next, o, w.now)
	if err != nil || !reflect.DeepEqual(third.Start, second.Start) || !reflect.DeepEqual(waitsOf(third), waitsOf(second)) {
		fail("I8: the order of the input matters")
	}
	for _, start := range plan.Start {
		if v := plan.Evaluate(next, start.Run.Resource, start.Run.Deployment, start.Version, w.now); v.Reason != ReasonRun {
			fail("%s is offered with verdict %+v", start.Run, v)
		}
		for _, j := range s.jobs {
			if j.run == start.Run {
				fail("I7: %s is offered, but dispatched before", start.Run)
			}
		}
		closed := next.Group.Closed
		if start.First && start.Run.Group != closed[len(closed)-1].ID {
			fail("I14: %s starts a superseded execution", start.Run)
		}
	}
	for _, wait := range waitsOf(plan) {
		if wait.Reason.Status() != Pending || len(wait.On) == 0 && !wait.Until.After(w.now) {
			fail("I11: nothing ends the wait %+v", wait)
		}
	}
	if n := next.Group.Number; n > 1 && !s.v3 || n > 2 {
		fail("I15: %d groups", n)
	}
	for _, g := range next.Group.Closed {
		text := fmt.Sprint(g.Members)
		if w.locks[g.ID] == "" {
			w.locks[g.ID] = text
		} else if w.locks[g.ID] != text {
			fail("I5: group %s changed", g.ID)
		}
	}
	for _, r := range next.Executions {
		if x := r.Open; x != nil && len(x.Merged) > 1 {
			fail("I13: %d merges", len(x.Merged))
		}
	}
	for _, e := range plan.Events {
		switch e.Kind {
		case ExecutionEnded:
			w.tally[string(e.Status)]++
		case GroupMerged:
			w.tally["merged"]++
			for _, j := range s.jobs {
				if j.run.Resource == e.Resource && j.run.Group == e.Into && j.run.Deployment == "post" {
					fail("I13: merged after post started")
				}
			}
		case GroupSuperseded:
			w.tally["superseded"]++
		}
	}
	for _, r := range next.Executions {
		if r.Open != nil && r.Open.Status == StatusFailed {
			w.tally["held"]++
		}
	}
}

// begin lets planner p read everything, plan, choose starts, and queue its writes in the prescribed
// order.
func (w *world) begin(s *worldState, p int, part part) (worldState, bool) {
	key := choice{s.group, s.leases, s.truth, s.execs, part}
	id, known := w.begun[key]
	if !known {
		id = w.internWrites(w.round(s, part))
		w.begun[key] = id
	}
	n := *s
	n.pending[p] = id
	return n, id != 0
}

// round returns what a planner wants to write.
func (w *world) round(s *worldState, part part) []write {
	done := w.step(s)
	leases := maps.Clone(w.leases[s.leases])
	changed := false
	for k, state := range leases { // left behind by a crash
		if e := w.execs[s.execs[int(k[0][1]-'0')]]; e != nil && state == "active" && e.Last["prod"] != nil && e.Last["prod"].Group == k[1] {
			delete(leases, k)
			changed = true
		}
	}
	for _, e := range done.plan.Events {
		if e.Kind == ExecutionEnded && e.Quarantine {
			leases[[2]string{e.Resource, e.Group}] = "quarantined"
			changed = true
		}
	}
	var runs []Run
	var starts []Start
	for i, start := range done.plan.Start {
		holder := [2]string{start.Run.Resource, start.Run.Group}
		if part == nothing || part == lastStart && i < len(done.plan.Start)-1 {
			continue
		}
		if _, held := leases[holder]; !held {
			if len(leases) >= w.c.limit {
				continue
			}
			leases[holder] = "active"
			changed = true
		}
		runs = append(runs, start.Run)
		starts = append(starts, start)
	}
	next, err := done.plan.Commit(done.state, runs, w.now)
	if err != nil {
		w.t.Fatalf("%v of %v", err, describeStarts(done.plan))
	}
	var list []write
	if g := w.internGroup(next.Group); g != s.group {
		list = append(list, write{kind: 'g', old: s.group, new: g})
	}
	claimed := s.leases
	if changed {
		claimed = w.internLeases(leases)
		list = append(list, write{kind: 'l', old: s.leases, new: claimed})
	}
	for _, r := range next.Executions {
		i := int(r.Resource[1] - '0')
		if e := w.internExec(r); e != s.execs[i] {
			list = append(list, write{kind: 'e', resource: i, old: s.execs[i], new: e})
		}
	}
	for _, start := range append(starts, done.plan.Redispatch...) {
		list = append(list, write{kind: 'd', resource: int(start.Run.Resource[1] - '0'), start: start})
	}
	released := maps.Clone(leases)
	for _, e := range done.plan.Events {
		if holder := [2]string{e.Resource, e.Group}; e.Kind == ExecutionEnded && released[holder] == "active" {
			delete(released, holder)
		}
	}
	if len(released) < len(leases) {
		list = append(list, write{kind: 'l', old: claimed, new: w.internLeases(released)})
	}
	return list
}

// perform carries out the next write of planner p. A conflict ends its round.
func (w *world) perform(s *worldState, p int) worldState {
	n := *s
	x := w.writes[s.pending[p]].first
	n.pending[p] = w.writes[s.pending[p]].rest
	conflict := false
	switch x.kind {
	case 'g':
		if conflict = n.group != x.old; !conflict {
			n.group = x.new
		}
	case 'l':
		if conflict = n.leases != x.old; !conflict {
			n.leases = x.new
		}
	case 'e':
		if conflict = n.execs[x.resource] != x.old; !conflict {
			n.execs[x.resource] = x.new
		}
	case 'd':
		now := w.truths[s.truth]
		if !slices.ContainsFunc(now.jobs, func(j job) bool { return j.run == x.start.Run }) { // create if absent
			w.judgeDispatch(s, x.start)
			now.jobs = append(slices.Clone(now.jobs), job{run: x.start.Run, version: x.start.Version, status: RunRunning})
			slices.SortFunc(now.jobs, func(a, b job) int { return compareRuns(&a.run, &b.run) })
			n.truth = w.internTruth(now)
		}
	}
	if conflict {
		w.tally["conflict"]++
		n.pending[p] = 0
	}
	return n
}

// judgeDispatch compares a dispatch with the truth.
func (w *world) judgeDispatch(s *worldState, start Start) {
	now := &w.truths[s.truth]
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s\nrecords: %s\nworld: %+v", fmt.Sprintf(format, args...), describe(State{Group: w.groups[s.group], Executions: w.existing(s)}), now)
	}
	run := start.Run
	x := w.execs[s.execs[int(run.Resource[1]-'0')]].Open
	if x == nil || x.Group != run.Group {
		return // the planner was overtaken between commit and dispatch: the operator ended the execution
	}
	if w.leases[s.leases][[2]string{run.Resource, run.Group}] == "" && now.command == "" {
		fail("I10: %s is dispatched without a lease", run)
	}
	if len(w.leases[s.leases]) > w.c.limit {
		fail("I18: %d leases", len(w.leases[s.leases]))
	}
	m := x.Members[x.member(run.Deployment)]
	if run.Purpose == Rollback && start.Version != m.From || run.Purpose == Deploy && start.Version != m.Version && start.Version != m.RunVersion {
		fail("I1: %s deploys %s", run, start.Version)
	}
	succeeded := func(deployment string) bool {
		last := job{}
		for _, j := range now.jobs {
			if j.run.Resource == run.Resource && j.run.Group == run.Group && j.run.Deployment == deployment {
				last = j // the newest generation and attempt
			}
		}
		return last.status == RunSucceeded
	}
	if now.command != "" && !strings.HasPrefix(now.command, "retry") {
		return // an operator may skip anything
	}
	for _, j := range now.jobs {
		if j.run.Resource != run.Resource {
			continue
		}
		if j.status == RunRunning && j.run.Group != run.Group {
			fail("I2: %s is dispatched while %s runs", run, j.run)
		}
		if j.status == RunRunning && j.run.Deployment == run.Deployment {
			fail("two runs of one target: %s and %s", run, j.run)
		}
		if j.status == RunRunning && j.run.Generation < run.Generation {
			fail("%s is dispatched while %s of an older generation runs", run, j.run)
		}
		if j.run.Group == run.Group && j.run.Deployment == run.Deployment && j.status == RunSucceeded && m.Role != Main {
			fail("I4: the hook run %s succeeded before %s", j.run, run)
		}
	}
	switch {
	case run.Deployment == "post" && w.c.failure == Hold || run.Deployment == "post" && now.bad == 0:
		if !succeeded("m1") || !succeeded("m2") {
			fail("I3, I12: %s while not every main has succeeded", run)
		}
	case m.Role == Main && run.Purpose == Deploy:
		if !succeeded("pre") || run.Deployment == "m2" && !succeeded("m1") {
			fail("I3: %s before its needs", run)
		}
	}
}

func (w *world) existing(s *worldState) []*ExecutionRecord {
	var list []*ExecutionRecord
	for _, e := range s.execs {
		if e != 0 {
			list = append(list, w.execs[e])
		}
	}
	return list
}

// judge checks what must hold of every state.
func (w *world) judge(s *worldState) {
	leases := w.leases[s.leases]
	if len(leases) > w.c.limit {
		w.t.Fatalf("I18: leases %v", leases)
	}
	for i, e := range s.execs[:w.c.resources] {
		r := w.execs[e]
		if r == nil || r.Open == nil {
			continue
		}
		if leases[[2]string{r.Resource, r.Open.Group}] == "" {
			w.t.Fatalf("I10: the execution open on r%d holds no lease: %v\n%s%+v", i, leases, describe(State{Group: w.groups[s.group], Executions: w.existing(s)}), s)
		}
	}
}

// successors calls yield for every state that may come next.
func (w *world) successors(s *worldState, yield func(worldState)) {
	for p := range w.c.planners {
		if s.pending[p] != 0 {
			yield(w.perform(s, p))
			crashed := *s
			crashed.pending[p] = 0
			yield(crashed)
			continue
		}
		if p == 1 && s.pending[0] == 0 {
			continue // the planners are alike: the second begins only while the first is busy
		}
		for _, part := range []part{everything, lastStart, nothing} {
			if n, acts := w.begin(s, p, part); acts {
				yield(n)
			}
		}
	}
	now := &w.truths[s.truth]
	for i := range now.jobs {
		if now.jobs[i].status != RunRunning {
			continue
		}
		yield(w.end(s, i, RunSucceeded, false))
		if now.bad < w.c.bad {
			yield(w.end(s, i, RunFailed, true))
			yield(w.end(s, i, RunFailed, false))
			yield(w.end(s, i, RunLost, false))
		}
	}
	if n, orphaned := w.releaseOrphans(s); orphaned {
		yield(n)
	}
	if !now.v3 {
		changed := *now
		changed.v3 = true
		n := *s
		n.truth = w.internTruth(changed)
		yield(n)
	}
	if w.c.commands && now.command == "" {
		for _, e := range s.execs[:w.c.resources] {
			if r := w.execs[e]; r != nil && r.Open != nil && r.Open.Status == StatusFailed {
				for _, kind := range []CommandKind{Retry, Skip, Resolve, Abandon} {
					changed := *now
					changed.command = fmt.Sprintf("%s/%s@%s", kind, r.Open.Group, r.Resource)
					n := *s
					n.truth = w.internTruth(changed)
					yield(n)
				}
			}
		}
	}
}

// end gives a job an outcome.
func (w *world) end(s *worldState, i int, status RunStatus, retry bool) worldState {
	now := w.truths[s.truth]
	now.jobs = slices.Clone(now.jobs)
	j := &now.jobs[i]
	j.status, j.retry = status, retry
	if status == RunSucceeded {
		now.current[int(j.run.Resource[1]-'0')][slices.Index(worldMembers[:], j.run.Deployment)] = j.version
	} else {
		now.bad++
		w.tally[map[bool]string{true: "retried", false: "bad end"}[retry]]++
	}
	n := *s
	n.truth = w.internTruth(now)
	return n
}

// next is what a benign world does: writes arrive, runs succeed, one planner acts.
func (w *world) next(s *worldState) (worldState, bool) {
	for p := range w.c.planners {
		if s.pending[p] != 0 {
			return w.perform(s, p), true
		}
	}
	for i, j := range w.truths[s.truth].jobs {
		if j.status == RunRunning {
			return w.end(s, i, RunSucceeded, false), true
		}
	}
	if n, acts := w.begin(s, 0, everything); acts {
		return n, true
	}
	return w.releaseOrphans(s)
}

// releaseOrphans is the host's answer to a lease whose planner crashed before it opened the
// execution, once a newer group has closed: while no planner is at work it is certain that nobody
// will open it any more.
func (w *world) releaseOrphans(s *worldState) (worldState, bool) {
	if s.pending != [2]int{} || w.groups[s.group] == nil {
		return worldState{}, false
	}
	closed := w.groups[s.group].Closed
	left := maps.Clone(w.leases[s.leases])
	for holder, state := range left {
		r := w.execs[s.execs[int(holder[0][1]-'0')]]
		superseded := holder[1] != closed[len(closed)-1].ID
		if r != nil { // merged into another execution
			superseded = superseded || r.Last["prod"].includes(holder[1]) || r.Open != nil && slices.Contains(r.Open.Merged, holder[1])
		}
		if state == "active" && superseded && (r == nil || r.Open == nil || r.Open.Group != holder[1]) {
			delete(left, holder)
			w.tally["orphan"]++
		}
	}
	n := *s
	n.leases = w.internLeases(left)
	return n, n.leases != s.leases
}

// judgeRest checks a state in which a benign world has come to rest.
func (w *world) judgeRest(s *worldState) {
	now := &w.truths[s.truth]
	fail := func(format string, args ...any) {
		w.t.Helper()
		w.t.Fatalf("%s\n%s%v\n%+v", fmt.Sprintf(format, args...), describe(State{Group: w.groups[s.group], Executions: w.existing(s)}), w.leases[s.leases], now)
	}
	held := 0
	for i, e := range s.execs[:w.c.resources] {
		r := w.execs[e]
		if r != nil && r.Open != nil {
			held++
			if now.bad == 0 || r.Open.Status != StatusFailed {
				fail("I16: r%d never ends", i)
			}
		}
	}
	quarantined := 0
	for _, state := range w.leases[s.leases] {
		if state == "quarantined" {
			quarantined++
		}
	}
	if len(w.leases[s.leases]) != held+quarantined {
		fail("I10: %d executions are open, %d leases are quarantined, %d leases are held", held, quarantined, len(w.leases[s.leases]))
	}
	if now.bad == 0 {
		want := "2"
		if now.v3 {
			want = "3"
		}
		for i := range w.c.resources {
			if now.current[i] != [4]string{want, want, "1", "1"} {
				fail("I16, I17: r%d ends with %v", i, now.current[i])
			}
		}
	}
	w.tally["rest"]++
}

// explore visits every reachable state, and then follows the benign path from each.
func (w *world) explore() {
	visit := func(s worldState) {
		if _, known := w.visited[s]; !known {
			w.judge(&s)
			w.visited[s] = int32(len(w.order))
			w.order = append(w.order, s)
		}
	}
	var start truth
	for r := range w.c.resources {
		start.current[r] = [4]string{"1", "1", "1", "1"}
	}
	visit(worldState{truth: w.internTruth(start)})
	for i := 0; i < len(w.order); i++ {
		s := w.order[i]
		w.successors(&s, visit)
	}
	ends := make([]bool, len(w.order))
	for i := range w.order {
		var path []int32
		at := int32(i)
		for !ends[at] {
			ends[at] = true
			path = append(path, at)
			if len(path) > 500 {
				w.t.Fatalf("I16: a benign world does not come to rest: %+v", w.order[i])
			}
			s := w.order[at]
			n, goes := w.next(&s)
			if !goes {
				w.judgeRest(&s)
				break
			}
			id, known := w.visited[n]
			if !known {
				w.t.Fatalf("the benign successor of a state was not visited: %+v", n)
			}
			if ends[id] && slices.Contains(path, id) {
				w.t.Fatalf("I16: a benign world runs in circles: %+v", s)
			}
			at = id
		}
	}
}

func TestExhaustiveWorld(t *testing.T) {
	two := func(overlap OverlapStrategy, failure OnMemberFailure) worldConfig { // planners
		return worldConfig{overlap: overlap, failure: failure, resources: 1, planners: 2, limit: 1, bad: 1}
	}
	wide := func(overlap OverlapStrategy, failure OnMemberFailure) worldConfig { // resources
		return worldConfig{overlap: overlap, failure: failure, resources: 2, planners: 1, limit: 1, bad: 1}
	}
	both := func(overlap OverlapStrategy, failure OnMemberFailure) worldConfig { // resources and planners; a bad end as well takes ten times as long
		c := two(overlap, failure)
		c.resources, c.bad = 2, 0
		return c
	}
	operated := func(overlap OverlapStrategy, failure OnMemberFailure, mixed bool) worldConfig {
		return worldConfig{overlap: overlap, failure: failure, mixed: mixed, resources: 1, planners: 1, limit: 1, bad: 1, commands: true}
	}
	configs := []worldConfig{
		operated(Merge, Hold, false), operated(Merge, RollbackMember, true), operated(Queue, RunPost, false), two(Merge, RunPost),
	}
	if testkit.Race {
		configs = configs[2:3]
	} else if !testing.Short() {
		configs = append(configs, two(Queue, Hold), two(Merge, RollbackMember),
			wide(Queue, RunPost), wide(Merge, Hold), wide(Merge, RollbackAll), both(Merge, Hold))
	}
	if *deep {
		configs = nil
		for _, overlap := range []OverlapStrategy{Queue, Merge} {
			for _, failure := range []OnMemberFailure{Hold, RunPost, RollbackMember, RollbackAll} {
				configs = append(configs, two(overlap, failure), wide(overlap, failure), operated(overlap, failure, false), both(overlap, failure))
			}
			configs = append(configs, operated(overlap, RollbackMember, true))
		}
		for i := range configs {
			if configs[i].commands {
				configs[i].bad = 2
			}
		}
	}
	var mu sync.Mutex
	total, tally := 0, make(map[string]int)
	t.Run("worlds", func(t *testing.T) {
		for _, c := range configs {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, c)
				w.explore()
				t.Logf("%d states, %d plans, %v", len(w.order), len(w.steps), w.tally)
				mu.Lock()
				defer mu.Unlock()
				total += len(w.order)
				for k, n := range w.tally {
					tally[k] += n
				}
			})
		}
	})
	t.Logf("%d states in all: %v", total, tally)
	if testkit.Race { // which a single world is enough for
		return
	}
	for _, outcome := range []string{"completed", "failed", "cancelled", "merged", "superseded", "held", "conflict", "retried", "bad end", "orphan", "rest"} {
		if tally[outcome] == 0 {
			t.Errorf("no state reached the outcome %q", outcome)
		}
	}
}
