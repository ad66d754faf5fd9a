package rollout

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// reportBrackets turns what the brackets decided into starts that ask for capacity and into waits,
// one per release target. All starts are known before any wait is reported, because two brackets
// may report on one target.
func (w *work) reportBrackets() {
	all := make([]settled, len(w.stepped))
	for k, b := range w.stepped {
		all[k] = newSettled(b.targets)
		w.reportEvents(b)
		w.reportStarts(b, all[k])
		w.reportUndispatched(b, all[k])
	}
	for k, b := range w.stepped {
		w.reportWaits(b, all[k])
		w.reportRest(b, all[k])
	}
}

func (w *work) reportEvents(b *bracketWork) {
	for _, e := range b.plan.Events {
		w.happened(ruleIn{b.id, w.environments[b.environment].ID}, e)
	}
	for _, s := range b.plan.Stuck {
		w.plan.Stuck = append(w.plan.Stuck, Stuck{Resource: s.Run.Resource, Group: s.Run.Group, Run: s.Run.String(), Since: s.Since})
	}
}

// happened reports an event of a bracket.
func (w *work) happened(in ruleIn, e bracket.Event) {
	w.plan.Events = append(w.plan.Events, Event{
		Kind: e.Kind, Rule: in.rule, Environment: in.environment, Group: e.Group, Resource: e.Resource, At: e.At, Status: e.Status, Into: e.Into,
	})
}

// settled marks the targets of a bracket that have been reported on. They are of one environment,
// and so close together.
type settled struct {
	first int32
	said  []bool // from first on
}

func newSettled(targets []int32) settled {
	if len(targets) == 0 {
		return settled{}
	}
	first, last := targets[0], targets[len(targets)-1]
	return settled{first, make([]bool, last-first+1)}
}

func (s *settled) add(i int32) { s.said[i-s.first] = true }

func (s *settled) has(i int32) bool { return s.said[i-s.first] }

func (w *work) reportStarts(b *bracketWork, settled settled) {
	w.candidates = slices.Grow(w.candidates, len(b.plan.Start))
	members := make([]memberStart, len(b.plan.Start))
	walk := walk{work: w, bracket: b}
	next := 0 // in b.pending
	for k := range b.plan.Start {
		start, m := &b.plan.Start[k], &members[k]
		m.start = start
		if start.First {
			for w.resources[b.pending[next].resource].ID != start.Run.Resource {
				next++
			}
			m.bracket, m.pending = b, &b.pending[next]
		}
		i := walk.find(start.Run.Resource, start.Run.Deployment)
		if i == none {
			continue
		}
		version := w.versions[w.targets[i].deployment].number(start.Version)
		c := newCandidate(i, version, start.DueAt, 0)
		c.member = m
		if p := m.pending; p != nil {
			c.position = p.position
			for _, run := range b.runs[p.from:p.to] {
				settled.add(run.target)
			}
		}
		settled.add(i)
		if !start.First {
			if blockers := w.obstacles(b, nil, i, version, nil, start.Run.Purpose == bracket.Rollback); len(blockers) > 0 {
				w.wait(i, start.Version, blockers)
				continue
			}
			b.starts(i, start.Version)
		} else if len(w.afterOthers(b, m.pending, i, version)) > 0 {
			continue // reported by follow if another member of the execution starts; one does, or this one would
		}
		w.candidates = push(w.candidates, c)
	}
}

// afterOthers returns what keeps back a member that could be among the first of its execution,
// until the execution has brought what its version needs.
func (w *work) afterOthers(b *bracketWork, p *pendingResource, i, version int32) []Verdict {
	if !w.dependent[w.targets[i].deployment] || version < 0 {
		return nil
	}
	return w.let(w.inOrder(i, version, bringer{bracket: b, begins: p}), i, version)
}

// reportUndispatched offers again the runs that were saved as started and have no job, because the
// host stopped in between. The run id is the same, so a job that is merely not visible yet is not
// created twice.
func (w *work) reportUndispatched(b *bracketWork, settled settled) {
	walk := walk{work: w, bracket: b}
	members := make([]memberStart, len(b.plan.Redispatch))
	for k := range b.plan.Redispatch {
		start := &b.plan.Redispatch[k]
		i := walk.find(start.Run.Resource, start.Run.Deployment)
		if i == none {
			continue // the target is gone, so nothing can run the job
		}
		settled.add(i)
		if t := &w.targets[i]; t.busy {
			w.wait(i, start.Version, []Verdict{w.busy(t)})
			continue
		}
		b.starts(i, start.Version)
		members[k].start = start
		c := newCandidate(i, w.versions[w.targets[i].deployment].number(start.Version), start.DueAt, 0)
		c.member = &members[k]
		w.candidates = push(w.candidates, c)
	}
}

// running reports whether a job of this version is active on the target.
func (t *target) running(version string) bool {
	return t.busy && slices.ContainsFunc(t.Jobs, func(job Job) bool { return job.Version == version && !job.Status.Terminal() })
}

// starts notes that a run of the open execution may start.
func (b *bracketWork) starts(target int32, version string) {
	if b.started == nil {
		b.started = map[int32]string{}
	}
	b.started[target] = version
}

// atWork reports whether the open execution starts, or runs, the version that the next group has
// for a target. Hooks have the same version in every group: a hook that is at work does not wait.
func (w *work) atWork(b *bracketWork, run pendingRun) bool {
	t := &w.targets[run.target]
	if version, starts := b.started[run.target]; starts && w.versions[t.deployment].number(version) == run.version {
		return true
	}
	return run.version >= 0 && t.running(w.version(run.target, run.version).ID)
}

// follow lists the members that wait for others of the execution that starts on their resource.
func (w *work) follow(b *bracketWork, p *pendingResource) {
	runs, first := b.runs[p.from:p.to], b.firstFollower+int32(len(b.following))
	b.following = append(b.following, runs...)
	for k, run := range runs {
		if w.waits[run.target].start != 0 {
			continue
		}
		if !slices.ContainsFunc(b.needs[w.targets[run.target].deployment], func(need memberNeed) bool { return w.comesWith(runs, need) }) {
			if blockers := w.afterOthers(b, p, run.target, run.version); len(blockers) > 0 {
				w.waitNumber(run.target, run.version, blockers)
				continue
			}
		}
		w.waitFor(run.target, run.version, first+int32(k))
	}
}

// comesWith reports whether one of the runs of an execution is what a member needs.
func (w *work) comesWith(runs []pendingRun, need memberNeed) bool {
	return slices.ContainsFunc(runs, func(other pendingRun) bool { return w.fulfils(other, need) })
}

// firstFollower is the number, as work.list returns it, of the first run of all that may wait for
// others of their execution. Where many executions start, these are most of what waits. What they
// wait for would take 300 bytes each, and follows from the runs when it is read.
const firstFollower = 1 << 30

// followerOf returns the blockers of a run that waits for others of the execution that starts.
func (w *work) followerOf(listed int32) []Verdict {
	k := slices.IndexFunc(w.stepped, func(b *bracketWork) bool { return listed < b.firstFollower+int32(len(b.following)) })
	b := w.stepped[k]
	at := listed - b.firstFollower
	run, from := b.following[at], at // what a run needs comes before it
	resource := w.targets[run.target].resource
	for from > 0 && w.targets[b.following[from-1].target].resource == resource {
		from--
	}
	verdict := Verdict{Status: Pending, Reason: Reason(bracket.ReasonWaitsForMembers), Rule: b.id}
	for _, need := range b.needs[w.targets[run.target].deployment] {
		if w.comesWith(b.following[from:at], need) {
			verdict.On = append(verdict.On, Condition{
				Kind: OnMember, Group: b.group.ID, Resource: w.resources[resource].ID, Deployment: w.deployments[need.deployment].ID,
			})
		}
	}
	verdict.On = slices.Clip(verdict.On)
	return []Verdict{verdict}
}

// fulfils reports whether a run is what a member needs.
func (w *work) fulfils(run pendingRun, need memberNeed) bool {
	d := w.targets[run.target].deployment
	return d == need.deployment && (need.versions == nil || slices.Contains(need.versions, w.versions[d].list[run.version].ID))
}

func (w *work) reportWaits(b *bracketWork, settled settled) {
	w.blockers = slices.Grow(w.blockers, len(b.pending))
	walk := walk{work: w, bracket: b}
	next := 0 // in b.pending
	for k := range b.plan.Wait {
		wait := &b.plan.Wait[k]
		said := bracket.Verdict{Reason: wait.Reason, Until: wait.Until, On: wait.On}
		switch {
		case wait.Resource == "":
			// The group collects: reportRest says so for each target that has a new version.
		case wait.Deployment != "":
			if i := walk.find(wait.Resource, wait.Deployment); i != none && !settled.has(i) {
				settled.add(i)
				w.wait(i, frozen(memberIn(walk.open(wait.Resource), wait.Deployment)), w.also(nil, w.verdict(b, wait.Resource, said, nil)))
			}
		default:
			for w.resources[b.pending[next].resource].ID != wait.Resource {
				next++
			}
			p := &b.pending[next]
			listed := w.list(w.pendingBlockers(b, p, said))
			var open *bracket.Execution // the one whose end the resource waits for
			if wait.Reason == bracket.ReasonQueued || wait.Reason == bracket.ReasonMergeBudget {
				open = walk.open(wait.Resource)
			}
			for _, run := range b.runs[p.from:p.to] {
				if w.atWork(b, run) || w.comes(open, run) {
					continue
				}
				settled.add(run.target)
				w.waitFor(run.target, run.version, listed)
			}
		}
	}
}

// pendingBlockers returns what the bracket says of a pending resource, and then all that keeps its
// runs back.
func (w *work) pendingBlockers(b *bracketWork, p *pendingResource, said bracket.Verdict) []Verdict {
	own := w.verdict(b, w.resources[p.resource].ID, said, p)
	if said.Reason == bracket.ReasonNotDue {
		if until, on := opener(p.blockers); len(on) > 0 || !until.IsZero() {
			own.Until, own.On = until, on
		}
	}
	blockers := w.also(nil, own)
	for _, verdict := range slices.Concat(p.timed, p.blockers) {
		blockers = w.also(blockers, verdict)
	}
	// They were collected per member, those of windows first; the bracket's own verdict stays in
	// front.
	slices.SortStableFunc(blockers[1:], func(a, b Verdict) int { return placeInChain(w.kindOf(a)) - placeInChain(w.kindOf(b)) })
	return blockers
}

// comes reports whether the open execution on the resource of a run, if there is one, brings the
// same version itself, once the run of its member that is in progress has ended. What that execution
// waits for is then the better answer; of a member that waits it has been given already.
func (w *work) comes(open *bracket.Execution, run pendingRun) bool {
	if open == nil || run.version < 0 {
		return false
	}
	t := &w.targets[run.target]
	m := memberIn(open, t.Deployment)
	return m != nil && open.Environment == t.Environment && m.Status == bracket.MemberRunning && frozen(m) == w.version(run.target, run.version).ID
}

// opener returns what an execution waits for if it cannot be due before these verdicts are gone:
// their events or, if they name none, the latest instant at which looking again can help.
func opener(blockers []Verdict) (until time.Time, on []Condition) {
	for _, verdict := range blockers {
		if on == nil {
			on = slices.Clip(verdict.On)
		}
		for _, condition := range verdict.On {
			if !slices.Contains(on, condition) {
				on = append(on, condition)
			}
		}
		until = later(until, verdict.Until)
	}
	if len(on) > 0 {
		until = time.Time{}
	}
	return until, on
}

// frozen returns the version that a member of an open execution waits to run. For a member on its
// way back it is the one that the member came from, and for a member that is back the one that was
// taken back.
func frozen(m *bracket.ExecutionMember) string {
	if m.Purpose != bracket.Rollback || m.Status == bracket.MemberRolledBack {
		return m.Version
	}
	return m.From
}

// reportRest reports what a bracket says of the newest version of every target that is not settled
// yet.
func (w *work) reportRest(b *bracketWork, settled settled) {
	newest, opinion := w.newestOf(), w.opinions(b)
	for _, i := range b.targets {
		if settled.has(i) || b.lent[i] {
			continue
		}
		if b.rule == nil {
			if !b.former[i] {
				w.kept(i)
			}
			continue
		}
		t := &w.targets[i]
		n := newest(i)
		if n < 0 || n <= t.current || t.running(w.version(i, n).ID) {
			w.kept(i)
		} else if blockers := opinion(i, n); blockers != 0 {
			w.waitFor(i, n, blockers)
		} else {
			w.kept(i)
		}
	}
}

// opinions returns a function that lists the opinion about a version on a target, and returns 0 if
// nothing blocks it. On a resource that never had an execution, and has none pending, the answer is
// the same for all targets that run the same version. Targets are asked for in order.
func (w *work) opinions(b *bracketWork) func(i, n int32) (listed int32) {
	type like struct{ deployment, current, candidate, view int32 }
	type said struct {
		like
		listed int32
	}
	answers := map[like]int32{}
	last := make([]said, len(w.deployments)) // neighbours mostly have the same answer; the zero value is that of no target, since no candidate is what runs
	records, pending := b.state.Executions, b.pending
	ask := func(i, n int32) int32 {
		if list := w.opinion(b, i, n); list != nil {
			return w.list(list)
		}
		return 0
	}
	return func(i, n int32) int32 {
		t := &w.targets[i]
		resource := w.resources[t.resource].ID
		for len(records) > 0 && records[0].Resource < resource {
			records = records[1:]
		}
		for len(pending) > 0 && pending[0].resource < t.resource {
			pending = pending[1:]
		}
		if t.outdated || t.current == missing || len(w.held) > 0 || len(w.gateOf(i, n).perResource) > 0 || w.singled != nil ||
			len(records) > 0 && records[0].Resource == resource || len(pending) > 0 && pending[0].resource == t.resource {
			return ask(i, n)
		}
		alike, before := like{t.deployment, t.current, n, w.view[i]}, &last[t.deployment]
		if before.like != alike {
			listed, known := answers[alike]
			if !known {
				listed = ask(i, n)
				answers[alike] = listed
			}
			*before = said{alike, listed}
		}
		return before.listed
	}
}

// newestOf returns a function that finds the number of the newest version that exists by now for a
// target, or none. If every version of a deployment is for all targets, it searches once per
// deployment.
func (w *work) newestOf() func(i int32) int32 {
	find := func(i int32) int32 {
		versions := w.versions[w.targets[i].deployment].list
		n := int32(len(versions)) - 1
		for ; n >= 0; n-- {
			if at := versions[n].CreatedAt; at.After(w.now) {
				w.wake(at) // a former member gets nothing new, but from then on that is reported
			} else if w.inScope(i, n) {
				break
			}
		}
		return n
	}
	known := slices.Repeat([]int32{missing}, len(w.deployments))
	return func(i int32) int32 {
		d := w.targets[i].deployment
		if w.scoped[d] {
			return find(i)
		}
		if known[d] == missing {
			known[d] = find(i)
		}
		return known[d]
	}
}

// opinion returns what blocks a version on a bracket's target, or nil if nothing does.
func (w *work) opinion(b *bracketWork, i, n int32) []Verdict {
	t := &w.targets[i]
	verdict := b.plan.Evaluate(b.state, t.Resource, t.Deployment, w.version(i, n).ID, w.now)
	unasked := b.unclear != nil && verdict.Reason == bracket.ReasonNotApplicable
	if verdict.Reason.Status() == bracket.Allowed && !unasked {
		return nil
	}
	blockers := slices.Clip(w.refusals(w.gateAt(i, n), i, n))
	if !unasked {
		blockers = w.also(blockers, w.verdict(b, t.Resource, verdict, nil))
	}
	if b.unclear != nil {
		blockers = w.also(blockers, *b.unclear)
	}
	for _, held := range w.held[i] {
		blockers = w.also(blockers, held)
	}
	if t.current == missing {
		blockers = w.also(blockers, w.unknownVersion(t))
	}
	return blockers
}

// verdict translates a bracket's answer about a resource into the terms of this package.
func (w *work) verdict(b *bracketWork, resource string, v bracket.Verdict, p *pendingResource) (verdict Verdict) {
	verdict = Verdict{Status: VerdictStatus(v.Reason.Status()), Reason: Reason(v.Reason), Rule: b.id, Until: v.Until, On: w.translate(v.On)}
	if p != nil && p.n > 0 {
		verdict.Data = w.datum(Data{Position: int(p.position), Population: int(p.n)})
	}
	switch v.Reason { // a search for every verdict would cost more than the verdict
	case bracket.ReasonFailedHolding:
		verdict.Data = w.datum(Data{Names: halting(b.open(resource))})
		w.mergeOpens(b, resource, &verdict)
	case bracket.ReasonQueued, bracket.ReasonMergeBudget: // a target that waits for the end of a failed execution is told so, since that may never end by itself
		// The execution may be of another environment, whose bracket decides later in the plan, so
		// it is looked up in the state that results.
		if record := w.execution(b.id, resource); record != nil && record.Open != nil && record.Open.Status == bracket.StatusFailed {
			failed := Data{Names: halting(record.Open)}
			if verdict.Data != nil {
				failed.Position, failed.Population = verdict.Data.Position, verdict.Data.Population
			}
			verdict.Data = w.datum(failed)
		}
	}
	return verdict
}

// mergeOpens says what a group waits for whose merge would end a halt: not the policy in general,
// but what keeps the group from being due.
func (w *work) mergeOpens(b *bracketWork, resource string, halt *Verdict) {
	undue := func(c Condition) bool { return c.Kind == OnConfig }
	r, known := w.resource(resource)
	k, pending := slices.BinarySearchFunc(b.pending, r, func(p pendingResource, r int32) int { return int(p.resource - r) })
	if !known || !pending || !slices.ContainsFunc(halt.On, undue) {
		return
	}
	if until, on := opener(b.pending[k].blockers); len(on) > 0 || !until.IsZero() {
		halt.Until, halt.On = until, append(slices.DeleteFunc(slices.Clone(halt.On), undue), on...)
	}
}

// open returns the bracket's open execution on a resource, or nil.
func (b *bracketWork) open(resource string) *bracket.Execution {
	record := executionOn(b.state.Executions, resource)
	if record == nil {
		return nil
	}
	return record.Open
}

// halting returns the members of an execution, in its order, whose failure halts it: those that
// failed or, if there are none, those that went back.
func halting(x *bracket.Execution) (names []string) {
	for _, status := range [...]bracket.MemberStatus{bracket.MemberFailed, bracket.MemberRolledBack} {
		for k := range x.Members {
			if x.Members[k].Status == status {
				names = append(names, x.Members[k].Deployment)
			}
		}
		if len(names) > 0 {
			break
		}
	}
	return names
}

// translate puts a bracket's conditions into the terms of this package. A list that is shared by
// neighbours is translated once.
func (w *work) translate(on []bracket.Condition) []Condition {
	if len(on) == 0 {
		return nil
	}
	if w.translated.of == &on[0] && len(w.translated.list) == len(on) {
		return w.translated.list
	}
	list := take(&w.conditions, len(on))
	for k, c := range on {
		list[k] = Condition{Kind: ConditionKind(c.Kind), Rule: c.Rule, Environment: c.Environment, Deployment: c.Deployment, Resource: c.Resource, Group: c.Group}
	}
	w.translated.of, w.translated.list = &on[0], list
	return list
}

type translation struct {
	of   *bracket.Condition
	list []Condition
}
