package bracket

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/instant"
)

// work is an open execution of the environment during one step. The stored execution is copied on
// the first change.
type work struct {
	*Execution
	name     string    // of the resource
	record   int       // index in State.Executions
	resource int32     // index in the view, -1 if the resource has no targets
	rule     *Rule     // its group's copy
	facts    []RunFact // observed runs of the execution
	copied   bool
	ended    bool
}

// change makes the execution private to the step. Its lists that only grow are copied when
// something is appended.
func (w *work) change() {
	if !w.copied {
		x := *w.Execution
		x.Members = slices.Clone(x.Members)
		x.Merged, x.Commands, x.Decisions = slices.Clip(x.Merged), slices.Clip(x.Commands), slices.Clip(x.Decisions)
		w.Execution, w.copied = &x, true
	}
}

// member returns the index of a member, -1 if there is none.
func (x *Execution) member(deployment string) int {
	if len(x.Members) > nearby {
		if i, found := sort.Find(len(x.Members), func(i int) int { return strings.Compare(deployment, x.Members[i].Deployment) }); found {
			return i
		}
		return -1
	}
	for i := range x.Members { // a handful: a scan that copies nothing beats a search
		if x.Members[i].Deployment == deployment {
			return i
		}
	}
	return -1
}

// any reports whether a member is as asked. A member is large: asking copies none.
func (x *Execution) any(is func(m *ExecutionMember) bool) bool {
	for i := range x.Members {
		if is(&x.Members[i]) {
			return true
		}
	}
	return false
}

// running reports whether a run is in progress.
func (m *ExecutionMember) running() bool {
	return m.Status == MemberRunning || m.Status == MemberRollingBack
}

// satisfied reports whether dependants of the member may start. A rolled back member can satisfy
// post members too: see blockers.
func (m *ExecutionMember) satisfied() bool {
	return m.Status == MemberSucceeded || m.Status == MemberSkipped || m.Status == MemberCancelled
}

func (m *ExecutionMember) purpose() Purpose {
	if m.Purpose == Rollback {
		return Rollback
	}
	return Deploy
}

// runOf returns the identity of the member's last run, or of its next one while it waits.
func (x *Execution) runOf(resource string, m *ExecutionMember) Run {
	generation := m.Generation
	if generation == 0 {
		generation = x.Generation
	}
	return Run{Group: x.Group, Resource: resource, Deployment: m.Deployment, Generation: generation, Attempt: m.Attempt, Purpose: m.purpose()}
}

// version returns the version that the member's last or next run deploys.
func (m *ExecutionMember) version() string {
	switch {
	case m.RunVersion != "":
		return m.RunVersion
	case m.Purpose == Rollback:
		return m.From
	}
	return m.Version
}

// wait makes the member wait for its next run. Attempts start at 1 in each generation.
func (m *ExecutionMember) wait() {
	m.Status = MemberWaiting
	m.RunVersion = ""
	m.RetryAt = time.Time{}
	if m.Generation != 0 {
		m.Generation, m.Attempt = 0, 1
	} else {
		m.Attempt++
	}
}

// start marks the member's next run as started.
func (m *ExecutionMember) start(at time.Time) {
	if m.Purpose == Rollback {
		m.Status = MemberRollingBack
	} else {
		m.Status = MemberRunning
		m.Touched = m.Touched || m.Version != m.From
	}
	m.StartedAt = at
	m.RetryAt = time.Time{}
}

// freeze returns the execution of a group on the i-th resource, with nothing started. forced
// reports which mains have a known run already: they are deployed even if their target is up to
// date by now.
func (v *view) freeze(g *groupView, i int32, at time.Time, forced func(deployment string) bool) *Execution {
	x := &Execution{Group: g.ID, Environment: v.environment, Status: StatusExecuting, Generation: 1, Merged: []string{}, StartedAt: at, Rule: &g.Rule, Commands: []string{}}
	targets := v.span(i)
	x.Members = make([]ExecutionMember, 0, len(targets))
	for k := range targets {
		if g.memberOf(&targets[k]) < 0 {
			continue
		}
		m := g.freezeMember(v, &targets[k])
		if m.Action == ActionSkip && forced != nil && forced(m.Deployment) {
			m.Action, m.Status = ActionDeploy, MemberWaiting
			m.Attempt = 1
		}
		x.Members = append(x.Members, m)
	}
	for k := range x.Members {
		x.Members[k].Needs = g.needsIn(x, x.Members[k].Deployment)
	}
	return x
}

// freezeMember returns the member for a target as an execution starts with it, without its needs.
func (g *groupView) freezeMember(v *view, t *target) ExecutionMember {
	m := ExecutionMember{Deployment: v.deploymentOf(t), Role: g.Members[g.memberOf(t)].Role, From: v.currentOf(t), Status: MemberWaiting, Attempt: 1}
	m.Action, m.Version = g.plan(v, t)
	if m.Action == ActionSkip {
		m.Status, m.Attempt = MemberSkipped, 0
	}
	return m
}

// needsIn returns what a member of the group needs in an execution. Only members of the execution
// are needed, and its target versions decide conditional needs.
func (g *groupView) needsIn(x *Execution, deployment string) []string {
	needs := []string{}
	i, found := slices.BinarySearchFunc(g.Members, deployment, byDeployment)
	if !found {
		return needs
	}
	for _, need := range g.Members[i].Needs {
		if x.member(need) >= 0 {
			needs = append(needs, need)
		}
	}
	for _, need := range g.Members[i].NeedsIf {
		if k := x.member(need.Deployment); k >= 0 && slices.Contains(need.Versions, x.Members[k].Version) {
			needs = append(needs, need.Deployment)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// fold applies the commands and run facts of the execution until nothing changes any more, because
// a command may concern a failure that the same observation reports. Commands come first: an
// operator's decision takes precedence over what happened at the same time.
func (s *step) fold(w *work, commands []Command) {
	pending := w.unseen(commands)
	for changed := true; changed && !w.ended; {
		changed = false
		rest := pending[:0]
		for _, c := range pending {
			if w.ended || !s.command(w, c) {
				rest = append(rest, c)
				continue
			}
			w.Commands = append(w.Commands, c.ID)
			changed = true
		}
		pending = rest
		changed = w.foldFacts(s.view.now) || changed
	}
	if w.ended {
		return
	}
	for _, c := range pending { // I6: seen once, never applied later
		w.change()
		w.Commands = append(w.Commands, c.ID)
		s.plan.Refused = append(s.plan.Refused, c)
	}
}

// unseen returns a list of the commands that no step has seen with this execution open.
func (w *work) unseen(commands []Command) (list []Command) {
	if len(commands) == 0 {
		return nil
	}
	seen := make(map[string]bool, len(w.Commands))
	for _, id := range w.Commands {
		seen[id] = true
	}
	for _, c := range commands {
		if !seen[c.ID] {
			list = append(list, c)
		}
	}
	return list
}

// foldFacts folds what is known of the runs of the execution into its members, and reports whether
// anything changed.
func (w *work) foldFacts(now time.Time) (changed bool) {
	for i := range w.facts {
		if k := w.member(w.facts[i].Run.Deployment); k >= 0 && w.fact(k, &w.facts[i], now) {
			changed = true
		}
	}
	return changed
}

// fact folds what is known of one run into the k-th member and reports whether anything changed.
// Facts of runs other than the member's last or next one change nothing: they were folded before,
// or a later attempt has replaced them.
func (w *work) fact(k int, f *RunFact, now time.Time) bool {
	m := &w.Members[k]
	if m.Status != MemberWaiting && !m.running() || w.runOf(f.Run.Resource, m) != f.Run {
		return false
	}
	started := utc(f.StartedAt)
	if m.running() && f.Status == RunRunning && (instant.Unset(f.StartedAt) || started.Equal(m.StartedAt)) {
		return false
	}
	w.change()
	m = &w.Members[k]
	if m.Status == MemberWaiting { // dispatched but never committed
		m.start(utc(now))
	}
	if !instant.Unset(f.StartedAt) {
		m.StartedAt = started
	}
	if f.Status == RunRunning {
		return true
	}
	m.EndedAt = utc(now)
	if !instant.Unset(f.EndedAt) {
		m.EndedAt = utc(f.EndedAt)
	}
	repeatable := m.Role == Main || w.rule.hooksIdempotent()
	switch {
	case m.RunVersion != "": // a merge outdated this run: only the times of its outcome are recorded
		m.wait()
	case f.Status == RunSucceeded && m.Status == MemberRollingBack:
		m.Status = MemberRolledBack
	case f.Status == RunSucceeded:
		m.Status = MemberSucceeded
	case instant.Unset(f.RetryAt) || !repeatable:
		m.Status = MemberFailed
	default:
		m.wait()
		m.RetryAt = utc(f.RetryAt)
	}
	return true
}

// command applies an operator's decision and reports whether it applied.
func (s *step) command(w *work, c Command) bool {
	at := utc(s.view.now)
	if !instant.Unset(c.At) && c.At.Before(at) { // another clock may run ahead, or lag: nothing ends in the future, or before it began
		at = utc(c.At)
	}
	switch c.Kind {
	case Resolve, Abandon:
		at = maxTime(at, w.StartedAt)
		status := StatusCompleted
		if c.Kind == Abandon {
			status = StatusCancelled
		}
		w.decide(c, at)
		s.end(w, status, at, c.Kind == Abandon)
		return true
	}
	applied := false
	first, end := 0, len(w.Members)
	if c.Deployment != "" { // thousands of commands may name a member each
		if first = w.member(c.Deployment); first < 0 {
			return false
		}
		end = first + 1
	}
	for k := first; k < end; k++ {
		m := &w.Members[k]
		if c.Deployment == "" && m.Status != MemberFailed {
			continue
		}
		if c.Kind == Retry && !w.retryable(m) || c.Kind == Skip && m.satisfied() {
			continue
		}
		w.change()
		m = &w.Members[k]
		if c.Kind == Retry {
			m.wait()
		} else {
			if m.running() { // its outcome no longer matters
				m.EndedAt = maxTime(at, m.StartedAt)
			}
			m.Status, m.Purpose, m.RunVersion, m.RetryAt = MemberSkipped, "", "", time.Time{}
		}
		applied = true
	}
	if applied {
		w.decide(c, at)
	}
	return applied
}

// decide keeps a command that is applied at an instant.
func (w *work) decide(c Command, at time.Time) {
	w.change()
	c.At = at
	w.Decisions = append(w.Decisions, c)
}

// retryable reports whether the member's failed run may be repeated. Once the reaction to a failure
// has begun, only post runs and rollbacks may.
func (w *work) retryable(m *ExecutionMember) bool {
	return m.Status == MemberFailed && (w.Recovery == "" || m.Role == Post || m.Purpose == Rollback)
}

// followTargets cancels waiting members whose target is gone. A waiting pre fails instead: no
// upgrade runs without its drain. Waiting members and undispatched runs whose target exists may
// have been overtaken.
func (s *step) followTargets(w *work) {
	var targets []target
	if w.resource >= 0 {
		targets = s.view.span(w.resource)
	}
	for k := range w.Members {
		m := &w.Members[k]
		for len(targets) > 0 && s.view.deploymentOf(&targets[0]) < m.Deployment {
			targets = targets[1:]
		}
		here := len(targets) > 0 && s.view.deploymentOf(&targets[0]) == m.Deployment
		switch {
		case here && (m.Status == MemberWaiting || m.running() && !w.observed(m)):
			s.overtake(w, k, &targets[0])
			continue
		case here || m.Status != MemberWaiting:
			continue
		}
		w.change()
		m = &w.Members[k]
		m.Status, m.RetryAt, m.Purpose = MemberCancelled, time.Time{}, ""
		if m.Role == Pre {
			m.Status = MemberFailed
		}
	}
}

// overtake keeps a member from taking its target back to an older version, if the target was taken
// to a newer one by other means while the member waited or before its run was dispatched. A main is
// then skipped, and a hook runs the version that the target has.
func (s *step) overtake(w *work, k int, t *target) {
	m := &w.Members[k]
	if m.From == s.view.currentOf(t) || m.Purpose == Rollback || !s.overtaken(m, m.version(), t) {
		return
	}
	w.change()
	m = &w.Members[k]
	m.Touched = m.Touched && (m.Attempt > 1 || !m.running()) // a first run that was not dispatched touched nothing
	if m.RunVersion != "" {
		m.wait() // for its run of the version that a merge brought
		if !s.overtaken(m, m.Version, t) {
			return
		}
	}
	m.Version = s.view.currentOf(t)
	if m.Role == Main {
		m.Status, m.Action, m.Attempt, m.RetryAt = MemberSkipped, ActionSkip, 0, time.Time{}
	}
}

// overtaken reports whether the target runs a newer version than the given one of the member. Any
// listed version overtakes the redeploy of one that nothing orders any more: nobody asked for that
// one, it was only what the target had.
func (s *step) overtaken(m *ExecutionMember, version string, t *target) bool {
	if t.current < 0 {
		return false
	}
	d := &s.view.deployments[t.deployment]
	mark, known := s.markOf(d, version)
	if !known {
		return m.Action == ActionRedeploy
	}
	return d.versions[t.current].mark().compare(mark) > 0
}

// markOf returns the mark that orders a version. A version that is not listed, because it was
// deleted or the host has not read it yet, is looked up among the locks of closed groups.
func (s *step) markOf(d *deployment, version string) (_ VersionMark, known bool) {
	if r := d.rankOf(version); r >= 0 {
		return d.versions[r].mark(), true
	}
	for _, g := range s.state.Group.Closed {
		for _, l := range g.locks(d.id) {
			if l.ID == version {
				return l, true
			}
		}
	}
	return VersionMark{}, false
}

// end ends the execution, and with it the lease.
func (s *step) end(w *work, status Status, at time.Time, quarantine bool) {
	w.Status, w.ended = status, true
	s.event(Event{Kind: ExecutionEnded, Group: w.Group, Resource: w.name, At: at, Status: status, Quarantine: quarantine})
	s.uses[w.Group]--
	s.ends[w.Group] = maxTime(s.ends[w.Group], at)
	if s.counted && w.includes(s.view.environment, s.view.latest.ID) {
		s.ended++
		if status == StatusFailed {
			s.endedFailed++
		}
	}
	record := *s.state.Executions[w.record]
	last := maps.Clone(record.Last)
	if last == nil {
		last = map[string]*EndedExecution{}
	}
	last[w.Environment] = &EndedExecution{Group: w.Group, Status: status, Merged: w.Merged, EndedAt: at, Decisions: w.Decisions}
	record.Last, record.Open = last, nil
	s.setRecord(w.record, &record)
}

// lastEnd returns the end of the execution's last ended run, or the start of the execution if no
// run has ended.
func (w *work) lastEnd() time.Time {
	at := w.StartedAt
	for k := range w.Members {
		at = maxTime(at, w.Members[k].EndedAt)
	}
	return at
}
