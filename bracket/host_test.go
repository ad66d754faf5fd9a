package bracket

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// host is a small world for tests: it keeps what a real host observes, and carries out what it is
// told to.
type host struct {
	t        failer
	rule     Rule
	env      string
	state    State
	plan     Plan
	now      time.Time
	members  []Member
	versions []Version
	targets  map[[2]string]*Target // by resource and deployment
	runs     map[Run]*RunFact
	deploys  map[Run]string // version of each run
	commands []Command
	deleted  []string
	due      map[string]time.Time // per resource; the zero time: unknown
	gone     bool                 // the rule is deleted
}

// failer is what tests and properties have in common.
type failer interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// at is an instant on the first day of the tests, in minutes after 09:00.
func at(minutes int) time.Time { return day0.Add(time.Duration(minutes) * time.Minute) }

// newHost has the RFC's node policy (a window of 60 minutes) on the given resources, everything on
// version v1 for 90 days.
func newHost(t failer, resources ...string) *host {
	h := &host{t: t, rule: windowRule(3600), env: "prod", state: NewState("rule", "prod"), now: day0, targets: make(map[[2]string]*Target),
		runs: make(map[Run]*RunFact), deploys: make(map[Run]string), due: make(map[string]time.Time)}
	h.member("drain")
	h.member("os", "drain")
	h.member("kubelet", "drain", "os")
	h.member("containerd", "drain", "os")
	h.member("uncordon", "kubelet", "containerd")
	for _, r := range resources {
		h.node(r)
	}
	return h
}

func (h *host) member(deployment string, needs ...string) {
	h.members = append(h.members, Member{Deployment: deployment, Needs: needs})
	h.publish(deployment, "v1", -90*24*60)
}

func (h *host) target(resource, deployment, current string) *Target {
	t := &Target{Resource: resource, Deployment: deployment, Current: current}
	h.targets[[2]string{resource, deployment}] = t
	return t
}

// node adds a resource with a target for each member, all of the first version.
func (h *host) node(resource string) {
	for _, m := range h.members {
		h.target(resource, m.Deployment, "v1")
	}
}

// publish adds a version that is eligible at once.
func (h *host) publish(deployment, id string, minutes int) {
	h.versions = append(h.versions, Version{Deployment: deployment, ID: id, CreatedAt: at(minutes), EligibleAt: at(minutes)})
}

// version returns a published version for changes.
func (h *host) version(deployment, id string) *Version {
	for i := range h.versions {
		if h.versions[i].Deployment == deployment && h.versions[i].ID == id {
			return &h.versions[i]
		}
	}
	h.t.Fatalf("no version %s of %s", id, deployment)
	return nil
}

// goesBack says which start of a plan, but for a rollback, is of an older version than the target
// has.
func (h *host) goesBack(plan Plan) string {
	for _, s := range slices.Concat(plan.Start, plan.Redispatch) {
		t := h.targets[[2]string{s.Run.Resource, s.Run.Deployment}]
		if t == nil || s.Run.Purpose == Rollback {
			continue
		}
		next, known := h.mark(s.Run.Deployment, s.Version)
		if has, runs := h.mark(s.Run.Deployment, t.Current); known && runs && next.compare(has) < 0 {
			return fmt.Sprintf("%s starts %s, and the target has %s", s.Run, s.Version, t.Current)
		}
	}
	return ""
}

// mark returns the mark of a version that is known.
func (h *host) mark(deployment, id string) (VersionMark, bool) {
	for _, v := range h.versions {
		if v.Deployment == deployment && v.ID == id {
			return VersionMark{v.ID, v.CreatedAt}, true
		}
	}
	return VersionMark{}, false
}

func (h *host) observation() Observation {
	o := Observation{Members: h.members, Versions: h.versions, Commands: h.commands, DeletedResources: h.deleted, RuleDeleted: h.gone}
	var targets TargetList
	for _, t := range h.targets { // in the order of the map: the order of the input must not matter
		targets = append(targets, *t)
	}
	o.Targets = targets
	for _, f := range h.runs {
		o.Runs = append(o.Runs, *f)
	}
	if len(h.due) > 0 {
		o.Due = func(p PendingGroup) []time.Time {
			at := make([]time.Time, len(p.Resources))
			for i, r := range p.Resources {
				at[i] = p.Group.ReadyAt
				if due, ok := h.due[r]; ok {
					at[i] = due
				}
			}
			return at
		}
	}
	return o
}

// step plans at an instant, and checks what must hold of every plan.
func (h *host) step(minutes int) Plan {
	h.t.Helper()
	return h.stepAt(at(minutes))
}

func (h *host) stepAt(now time.Time) Plan {
	h.t.Helper()
	h.now = now
	before := h.state
	o := h.observation()
	was := dump(h.t, before)
	next, plan, err := Step(h.rule, before, o, now)
	if err != nil {
		h.t.Fatalf("%v: %v", now, err)
	}
	if is := dump(h.t, before); is != was {
		h.t.Fatalf("the given state was touched:\n%s\n%s", was, is)
	}
	h.branch(o)
	if unset, same, err := Step(h.rule, before, beforeTheYearOne(o), now); err != nil || !reflect.DeepEqual(next, unset) || fmt.Sprint(same) != fmt.Sprint(plan) || !same.Next.Equal(plan.Next) {
		h.t.Fatalf("an instant before the year 1 is not none (%v):\n%s%v\n%s%v", err, describe(next), plan, describe(unset), same)
	}
	again, _, err := Step(h.rule, next, o, now)
	if err != nil || !reflect.DeepEqual(next, again) {
		h.t.Fatalf("I6: a repeated step changes the state once more (%v):\n%s\n%s", err, describe(next), describe(again))
	}
	if group, executions := again.Changed(next); group != nil || executions != nil {
		h.t.Fatalf("I6: a repeated step replaces records that do not differ: %v %v", group, executions)
	}
	h.checkStored(next)
	h.state, h.plan = next, plan
	h.checkPlan(o.Due == nil)
	return plan
}

// checkStored fails unless a store can hold the state: what is written can be read.
func (h *host) checkStored(s State) {
	h.t.Helper()
	lines := strings.Split(dump(h.t, s), "\n")
	if err := json.Unmarshal([]byte(lines[0]), new(GroupRecord)); err != nil {
		h.t.Fatalf("%v: %s", err, lines[0])
	}
	for _, line := range lines[1:] {
		if err := json.Unmarshal([]byte(line), new(ExecutionRecord)); err != nil {
			h.t.Fatalf("%v: %s", err, line)
		}
	}
}

// beforeTheYearOne says of each instant that is not set that it lies in the year 0, as some
// databases do, or before it.
func beforeTheYearOne(o Observation) Observation {
	year := 0
	fill := func(at *time.Time) {
		if at.IsZero() {
			*at = time.Date(year, time.December, 31, 23, 59, 59, 0, time.UTC)
			year = -1 - year
		}
	}
	o.Versions, o.Runs, o.Commands = slices.Clone(o.Versions), slices.Clone(o.Runs), slices.Clone(o.Commands)
	for i := range o.Versions {
		fill(&o.Versions[i].EligibleAt)
	}
	for i := range o.Runs {
		fill(&o.Runs[i].StartedAt)
		fill(&o.Runs[i].EndedAt)
		fill(&o.Runs[i].RetryAt)
	}
	for i := range o.Commands {
		fill(&o.Commands[i].At)
	}
	targets := make(TargetList, 0, o.Targets.Len())
	for i := range o.Targets.Len() {
		t := o.Targets.At(i)
		fill(&t.OutdatedAt)
		targets = append(targets, t)
	}
	o.Targets = targets
	if due := o.Due; due != nil {
		o.Due = func(p PendingGroup) []time.Time {
			list := due(p)
			for i := range list {
				fill(&list[i])
			}
			return list
		}
	}
	return o
}

// checkPlan fails unless the last plan and the state hold what their fields say of themselves.
func (h *host) checkPlan(dueAtClose bool) {
	h.t.Helper()
	for _, s := range h.plan.Start {
		due := time.Time{}
		switch record := h.record(s.Run.Resource); {
		case !s.First:
			due = record.Open.StartedAt
		case dueAtClose:
			due = h.state.Group.latest().ReadyAt
		default:
			continue
		}
		if !s.DueAt.Equal(due) {
			h.t.Errorf("%s is due at %v, want %v", s.Run, s.DueAt, due)
		}
	}
	if back := h.goesBack(h.plan); back != "" {
		h.t.Error(back)
	}
	waits := fmt.Sprint(waitsOf(h.plan))
	for _, w := range waitsOf(h.plan) {
		_ = append(w.On, Condition{})
	}
	if got := fmt.Sprint(waitsOf(h.plan)); got != waits {
		h.t.Errorf("what is appended to some conditions gets into others:\n%s\n%s", waits, got)
	}
	for _, w := range waitsOf(h.plan) {
		for i, c := range w.On {
			checkCondition(h.t, c)
			if slices.Contains(w.On[:i], c) {
				h.t.Errorf("%v names an event twice", w)
			}
		}
		if r := h.record(w.Resource); w.Reason == ReasonQueued && r.Open.includes(h.env, w.Group) {
			h.t.Errorf("%s waits for the execution that it is part of", w.Group)
		}
		if n := len(h.state.Group.Closed); w.Deployment == "" && w.Resource != "" && n > 0 { // both know what ends it
			for _, m := range h.state.Group.Closed[n-1].Members {
				for _, l := range m.Locks {
					if v := h.evaluate(w.Resource, m.Deployment, l.ID); v.Reason == w.Reason && (!v.Until.Equal(w.Until) || !slices.Equal(v.On, w.On)) {
						h.t.Errorf("%s of %s on %s: %v, but the resource %v", l.ID, m.Deployment, w.Resource, v, w)
					}
				}
			}
		}
		if w.Deployment == "" {
			continue
		}
		open := h.record(w.Resource).Open
		m := &open.Members[open.member(w.Deployment)]
		if m.Status == MemberRolledBack {
			continue // it has no next run
		}
		if v := h.evaluate(w.Resource, w.Deployment, m.version()); v.Reason != w.Reason || !v.Until.Equal(w.Until) || !reflect.DeepEqual(v.On, w.On) {
			h.t.Errorf("the verdict on %v is %v", w, v)
		}
	}
	for _, g := range h.state.Group.Closed {
		for _, m := range g.Members {
			for need := range needsOf(m.Needs, m.NeedsIf) {
				if _, member := slices.BinarySearchFunc(g.Members, need, byDeployment); !member {
					h.t.Errorf("%s: %s needs %s, which is not in the group", g.ID, m.Deployment, need)
				}
			}
		}
	}
	for _, r := range h.state.Executions {
		if r.Open == nil {
			continue
		}
		for _, m := range r.Open.Members {
			if m.Status != MemberWaiting && !m.RetryAt.IsZero() {
				h.t.Errorf("%s: %s is %s, and its next attempt is at %v", r.Resource, m.Deployment, m.Status, m.RetryAt)
			}
			for _, need := range m.Needs {
				if r.Open.member(need) < 0 {
					h.t.Errorf("%s: %s needs %s, which is not in the execution", r.Resource, m.Deployment, need)
				}
			}
		}
	}
}

// checkCondition fails unless exactly the fields are set that its kind names.
func checkCondition(t failer, c Condition) {
	t.Helper()
	set := []bool{c.Rule != "", c.Environment != "", c.Group != "", c.Resource != "", c.Deployment != ""}
	want, known := map[ConditionKind][]bool{
		OnMember:       {false, false, true, true, true},
		OnExecutionEnd: {true, false, false, true, false},
		OnGroupClose:   {true, true, false, false, false},
		OnVersion:      {false, false, false, false, true},
		OnConfig:       {true, false, false, false, false},
		OnOperator:     {false, false, true, true, false},
	}[c.Kind]
	ended := c == Condition{Kind: OnOperator} // the operator has no execution to decide about any more
	if !known || !ended && !slices.Equal(set, want) {
		t.Errorf("%+v: rule, environment, group, resource and deployment are set: %v, want %v", c, set, want)
	}
}

// branch lets two planners go on from one state, as it comes from a store: what the second one does
// changes nothing for the first, nor for the state.
func (h *host) branch(o Observation) {
	h.t.Helper()
	before := roomy(h.state)
	was := dump(h.t, before)
	first, _, err := Step(h.rule, before, o, h.now)
	if err != nil {
		h.t.Fatal(err)
	}
	is := dump(h.t, first)
	later := h.now.Add(24 * time.Hour)
	o.Versions = slices.Clone(o.Versions)
	for _, m := range o.Members {
		o.Versions = append(o.Versions, Version{Deployment: m.Deployment, ID: "other", CreatedAt: h.now.Add(-1), EligibleAt: h.now.Add(-1)})
	}
	o.Due = nil
	for _, kind := range []CommandKind{Skip, Abandon} { // one that is refused, one that ends the execution
		o.Commands = slices.Clone(h.commands)
		for i, r := range before.Executions {
			if r.Open != nil {
				c := Command{ID: fmt.Sprint("branch ", i), Kind: kind, Group: r.Open.Group, Resource: r.Resource}
				if kind == Skip {
					c.Deployment = "nobody"
				}
				o.Commands = append(o.Commands, c)
			}
		}
		if _, _, err := Step(h.rule, before, o, later); err != nil {
			h.t.Fatal(err)
		}
		if now := dump(h.t, before); now != was {
			h.t.Fatalf("the given state was touched:\n%s\n%s", was, now)
		}
		if now := dump(h.t, first); now != is {
			h.t.Fatalf("two steps from one state share what one of them changed:\n%s\n%s", is, now)
		}
	}
}

// dump is everything that a state holds.
func dump(t failer, s State) string {
	t.Helper()
	data, err := json.Marshal(s.Group)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Executions {
		record, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		data = append(append(data, '\n'), record...)
	}
	return string(data)
}

// roomy returns a copy of a state whose lists have room behind their ends, as those that were
// decoded have.
func roomy(s State) State {
	group := *s.Group
	group.Marks, group.Closed = maps.Clone(group.Marks), room(group.Closed)
	for i, g := range group.Closed {
		closed := *g
		closed.Members = room(g.Members)
		group.Closed[i] = &closed
	}
	s.Group, s.Executions = &group, room(s.Executions)
	for i, r := range s.Executions {
		record := *r
		record.Last = maps.Clone(r.Last)
		for env, last := range r.Last {
			ended := *last
			ended.Merged = room(ended.Merged)
			record.Last[env] = &ended
		}
		if r.Open != nil {
			open := *r.Open
			open.Merged, open.Commands, open.Members = room(open.Merged), room(open.Commands), room(open.Members)
			for k := range open.Members {
				open.Members[k].Needs = room(open.Members[k].Needs)
			}
			record.Open = &open
		}
		s.Executions[i] = &record
	}
	return s
}

func room[T any](s []T) []T {
	if s == nil {
		return nil
	}
	return append(make([]T, 0, len(s)+4), s...)
}

// start commits runs of the last plan, all of them if none is named, and dispatches them. A name is
// "resource/deployment".
func (h *host) start(names ...string) {
	h.t.Helper()
	var runs []Run
	for _, s := range h.plan.Start {
		if len(names) == 0 || slices.Contains(names, s.Run.Resource+"/"+s.Run.Deployment) {
			runs = append(runs, s.Run)
			h.deploys[s.Run] = s.Version
		}
	}
	if len(names) > 0 && len(runs) != len(names) {
		h.t.Fatalf("%v: %v are not all offered: %s", h.now, names, describeStarts(h.plan))
	}
	before := roomy(h.state)
	was := dump(h.t, before)
	next, err := h.plan.Commit(before, runs, h.now)
	if is := dump(h.t, before); is != was {
		h.t.Fatalf("the given state was touched by a commit:\n%s\n%s", was, is)
	}
	if err == nil {
		next, err = h.plan.Commit(h.state, runs, h.now)
	}
	if err != nil {
		h.t.Fatalf("%v: %v", h.now, err)
	}
	h.state = next
	for _, r := range runs {
		h.runs[r] = &RunFact{Run: r, Status: RunRunning, StartedAt: h.now}
	}
}

// byHand takes a target on n1 to a version that no group may lock.
func (h *host) byHand(deployment, id string, minutes int) {
	h.versions = append(h.versions, Version{Deployment: deployment, ID: id, CreatedAt: at(minutes)})
	h.targets[[2]string{"n1", deployment}].Current = id
}

// crash forgets the last dispatch on a target: its run was saved, and the planner stopped.
func (h *host) crash(resource, deployment string) {
	h.t.Helper()
	x := h.open(resource)
	delete(h.runs, x.runOf(resource, &x.Members[x.member(deployment)]))
}

// end gives the run in progress of a target an outcome now.
func (h *host) end(resource, deployment string, status RunStatus, minutes int) *RunFact {
	h.t.Helper()
	for _, f := range h.runs {
		if f.Run.Resource == resource && f.Run.Deployment == deployment && f.Status == RunRunning {
			f.Status, f.EndedAt = status, at(minutes)
			if status == RunSucceeded {
				h.targets[[2]string{resource, deployment}].Current = h.deploys[f.Run]
			}
			return f
		}
	}
	h.t.Fatalf("no run of %s/%s is in progress", resource, deployment)
	return nil
}

// finishAll steps, starts everything, and lets everything succeed, minute by minute, until nothing
// is offered.
func (h *host) finishAll(minutes int) int {
	h.t.Helper()
	for range 50 {
		plan := h.step(minutes)
		if len(plan.Start) == 0 {
			return minutes
		}
		h.start()
		minutes++
		for _, f := range h.runs {
			if f.Status == RunRunning {
				h.end(f.Run.Resource, f.Run.Deployment, RunSucceeded, minutes)
			}
		}
	}
	h.t.Fatal("does not end")
	return 0
}

// until steps, starts and lets everything succeed but the named target, until that runs.
func (h *host) until(minutes int, resource, deployment string) {
	h.t.Helper()
	for range 50 {
		h.step(minutes)
		h.start()
		found := false
		for _, f := range h.runs {
			if f.Status == RunRunning && f.Run.Resource == resource {
				if f.Run.Deployment == deployment {
					found = true
				}
			}
		}
		if found {
			return
		}
		for _, f := range h.runs {
			if f.Status == RunRunning && f.Run.Resource == resource {
				h.end(resource, f.Run.Deployment, RunSucceeded, minutes)
			}
		}
	}
	h.t.Fatalf("%s/%s never runs", resource, deployment)
}

func (h *host) order(kind CommandKind, resource, deployment string, minutes int) {
	x := h.open(resource)
	h.commands = append(h.commands, Command{ID: fmt.Sprint("c", len(h.commands)), Kind: kind, Group: x.Group, Resource: resource, Deployment: deployment, At: at(minutes)})
}

func (h *host) record(resource string) *ExecutionRecord {
	for _, r := range h.state.Executions {
		if r.Resource == resource {
			return r
		}
	}
	return nil
}

func (h *host) open(resource string) *Execution {
	h.t.Helper()
	if r := h.record(resource); r != nil && r.Open != nil {
		return r.Open
	}
	h.t.Fatalf("%v: no open execution on %s:\n%s", h.now, resource, describe(h.state))
	return nil
}

// ended returns the status with which the last execution on a resource ended.
func (h *host) ended(resource string) Status {
	if r := h.record(resource); r != nil && r.Open == nil && r.Last[h.env] != nil {
		return r.Last[h.env].Status
	}
	return ""
}

func (h *host) status(resource, deployment string) MemberStatus {
	h.t.Helper()
	x := h.open(resource)
	if k := x.member(deployment); k >= 0 {
		return x.Members[k].Status
	}
	return ""
}

func (h *host) evaluate(resource, deployment, candidate string) Verdict {
	return h.plan.Evaluate(h.state, resource, deployment, candidate, h.now)
}

// kinds lists the kinds of conditions.
func kinds(on []Condition) string {
	var list []string
	for _, c := range on {
		list = append(list, string(c.Kind))
	}
	return strings.Join(list, " ")
}

// wait returns what the last plan says of a deployment on n1.
func (h *host) wait(deployment string) waiting {
	h.t.Helper()
	for _, w := range waitsOf(h.plan) {
		if w.Resource == "n1" && w.Deployment == deployment {
			return w
		}
	}
	h.t.Fatalf("%s does not wait: %+v", deployment, waitsOf(h.plan))
	return waiting{}
}

// starts is what the last plan offers, as "resource/deployment@version", rollbacks with a "!".
func (h *host) starts() string { return describeStarts(h.plan) }

func describeStarts(p Plan) string {
	var list []string
	for _, s := range p.Start {
		mark := ""
		if s.Run.Purpose == Rollback {
			mark = "!"
		}
		list = append(list, s.Run.Resource+"/"+s.Run.Deployment+"@"+s.Version+mark)
	}
	return strings.Join(list, " ")
}

// want fails unless the last plan offers exactly these starts.
func (h *host) want(starts string) {
	h.t.Helper()
	if got := h.starts(); got != starts {
		h.t.Fatalf("%v: starts %q, want %q\n%s", h.now.Format("15:04"), got, starts, describe(h.state))
	}
}

// describe prints a state on a few lines.
func describe(s State) string {
	var b strings.Builder
	if c := s.Group.Collecting; c != nil {
		fmt.Fprintf(&b, "%s collecting since %s\n", c.ID, c.OpenedAt.Format(time.RFC3339))
	}
	for _, g := range s.Group.Closed {
		fmt.Fprintf(&b, "%s %s since %s:", g.ID, g.Status, g.ReadyAt.Format(time.RFC3339))
		for _, m := range g.Members {
			fmt.Fprintf(&b, " %s(%s)=%v", m.Deployment, m.Role, m.Locks)
		}
		b.WriteString("\n")
	}
	for _, r := range s.Executions {
		fmt.Fprintf(&b, "%s:", r.Resource)
		for _, env := range slices.Sorted(maps.Keys(r.Last)) {
			e := r.Last[env]
			fmt.Fprintf(&b, " last %s %s %s", env, e.Group, e.Status)
		}
		if x := r.Open; x != nil {
			fmt.Fprintf(&b, " open %s %s gen %d %s:", x.Group, x.Status, x.Generation, x.Recovery)
			for _, m := range x.Members {
				fmt.Fprintf(&b, " %s=%s(%s a%d %s)", m.Deployment, m.Version, m.Status, m.Attempt, m.Purpose)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func events(p Plan) string {
	var list []string
	for _, e := range p.Events {
		text := string(e.Kind)
		if e.Resource != "" {
			text += " " + e.Resource
		}
		list = append(list, fmt.Sprintf("%s %d %s", text, number(e.Group), e.Status))
	}
	return strings.Join(list, ", ")
}

// waiting is a Wait with its events: one that tests compare and write down.
type waiting struct {
	Group, Resource, Deployment string
	Reason                      Reason
	Until                       time.Time
	On                          []Condition
}

func (w waiting) String() string {
	on := &view{onVersions: w.On} // of which only these are asked for
	return Wait{Group: w.Group, Resource: w.Resource, Deployment: w.Deployment, Reason: w.Reason, Until: w.Until, of: on, entry: waitEntry{kind: waitCollecting}}.String()
}

// waitsOf returns the waits of a plan.
func waitsOf(p Plan) (all []waiting) {
	for w := range p.Waits() {
		all = append(all, waiting{w.Group, w.Resource, w.Deployment, w.Reason, w.Until, w.On()})
	}
	return all
}
