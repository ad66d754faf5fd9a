package rollouttest_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/testkit"
	"github.com/tranche-dev/tranche/rollout"
	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// upheaval is a drawn world in which drawn things are edited while it is at work.
type upheaval struct {
	drawn
	*editor
	attic    []attic
	texts    []string
	old      *rollout.PolicySet
	oldSteps int
	calm     bool
	ids      int
	plans    int
	previous *rollout.Plan
}

// TestUpheaval runs drawn worlds in which everything is edited that can be, several times, at drawn
// instants: policies, fleet, versions, approvals, freezes, the state, the jobs that the host knows of,
// the clock. In between its planner stops wherever it can, and for a while another one has policies
// that are old. Every plan keeps the invariants and the limits, starts nothing that is not allowed,
// is explained as it is, is the same from a state that was read back, and stays the same until
// Next. When at last nobody edits anything, everybody approves, all jobs end well and an operator
// does what the plan asks for, then no execution is open, no slot held and no resource drained for
// ever, and a planner without any state would change nothing.
func TestUpheaval(t *testing.T) {
	seen, sets := testkit.Tally{}, map[string]*rollout.PolicySet{}
	compiler := newCompiler(t)
	outcomes := []string{"end", "permitted", "crash", "edit policy", "edit fleet", "edit version", "edit state", "edit host", "edit clock", "edit command", "edit override", "edit freeze", "edit of an open execution", "frozen", "frozen half way",
		"until rollout_not_due", "until window_closed", "until bracket_not_due"}
	if testing.Short() {
		outcomes = nil
	}
	outer := t
	seen.Check(t, func(t *rapid.T) {
		if testing.Short() && !(drawn{t}).chance(20) {
			return
		}
		w := &editing{TB: outer, compiler: compiler, sets: sets, seen: seen}
		if u := newUpheaval(t, w); u != nil {
			u.play()
		}
	}, outcomes...)
}

// newUpheaval draws a world; nil if its policies are refused.
func newUpheaval(t *rapid.T, w *editing) *upheaval {
	d := drawn{t}
	text, policies, set := d.compiled(w.compiler)
	if set == nil || strings.Contains(text, "deploymentWindow") && !d.chance(30) { // to wait for windows takes long
		return nil
	}
	world := d.world(set, policies)
	u := &upheaval{drawn: d, texts: []string{text}}
	u.editor = newEditor(w, text, set)
	u.s, u.now = world.Fleet, world.Start
	u.note("%s", text)
	w.job = func(s rollout.Start, attempt int) rollouttest.Outcome {
		if u.calm {
			return rollouttest.Outcome{After: time.Minute}
		}
		return world.Job(s, attempt)
	}
	w.report = func(e *editor, finding, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !u.excuses(finding, text) {
			t.Fatalf("%s: %s\n\t%s", finding, text, strings.Join(e.story, "\n\t"))
		}
		w.seen["excused "+finding]++
	}
	u.joiners()
	for _, c := range world.Changes {
		u.after(c.At.Sub(u.now), c.What, func(e *editor) { c.Do(&e.s) })
	}
	return u
}

func (u *upheaval) edits() []drawnEdit {
	return slices.Concat(u.policyEdits(), u.fleetEdits(), u.versionEdits(), u.stateEdits())
}

// joiners lets targets come when they join.
func (u *upheaval) joiners() {
	all := u.s.Targets
	u.s.Targets = nil
	for _, t := range all {
		if !t.JoinedAt.After(u.now) {
			u.s.Targets = append(u.s.Targets, t)
			continue
		}
		u.after(t.JoinedAt.Sub(u.now), t.TargetID.String()+" joins", func(e *editor) {
			known := slices.ContainsFunc(e.s.Resources, func(r rollout.Resource) bool { return r.ID == t.Resource }) &&
				slices.ContainsFunc(e.s.Environments, func(r rollout.Environment) bool { return r.ID == t.Environment }) &&
				slices.ContainsFunc(e.s.Deployments, func(r rollout.Deployment) bool { return r.ID == t.Deployment })
			if known && !slices.ContainsFunc(e.s.Targets, func(o rollout.Target) bool { return o.TargetID == t.TargetID }) {
				e.s.Targets = append(e.s.Targets, t)
			}
		})
	}
}

// play edits the world while it is at work, and then lets it come to rest.
func (u *upheaval) play() {
	edits := u.edits()
	for range u.number(1, 2, 3, 4, 6) {
		for range u.number(0, 1, 2, 3, 5, 8, 13, 30) {
			if !u.step() {
				break
			}
		}
		if u.chance(40) {
			d := time.Duration(u.number(1, 30, 90, 300, 1500)) * time.Second
			u.after(d, "time passes", func(*editor) {})
			for until := u.now.Add(d); u.now.Before(until) && u.step(); {
			}
		}
		open := slices.ContainsFunc(u.s.State.Executions, func(r *bracket.ExecutionRecord) bool { return r.Open != nil })
		own := edits[u.evenly(len(edits))]
		if open && u.chance(15) { // an execution is seldom frozen half way
			own = edits[slices.IndexFunc(edits, func(e drawnEdit) bool { return e.kind == "freeze" })]
		}
		u.note("EDIT %s", own.kind)
		before := u.clone().s
		before.Commands = u.s.Commands
		if own.do() {
			u.did[own.kind] = true
			u.touch(own.kind, &before)
			kind, _, _ := strings.Cut(own.kind, " ")
			u.seen["edit "+kind]++
			if open {
				u.seen["edit of an open execution"]++
			}
		}
		u.stirred = 0
	}
	u.settle()
}

// evenly draws a number below n: rapid by itself prefers small ones, and the first edits of the
// list.
func (u *upheaval) evenly(n int) int {
	h := fnv.New64a()
	fmt.Fprint(h, rapid.Uint64().Draw(u.T, "evenly"))
	return int(h.Sum64() % uint64(n))
}

// settle lets the world come to rest: everybody approves, freezes that do not end by themselves are
// lifted, all jobs end well, and an operator answers what is asked.
func (u *upheaval) settle() {
	u.calm = true
	u.note("CALM")
	u.oldSteps = 0
	u.editor.s.Unavailable = nil
	u.editor.s.Freezes = slices.DeleteFunc(slices.Clone(u.s.Freezes), func(z rollout.Freeze) bool { return z.ExpiresAt.IsZero() })
	for len(u.attic) > 0 {
		u.restore(0)
	}
	for _, v := range u.s.Versions {
		for _, e := range u.s.Environments {
			for _, by := range []string{"ann", "bob", "cid"} {
				u.s.Approvals = append(u.s.Approvals, rollout.Approval{Version: v.ID, Deployment: v.Deployment, Environment: e.ID, By: by, Status: rollout.Approved, At: u.now})
			}
		}
	}
	for k := range u.s.Targets {
		for j := range u.s.Targets[k].Jobs {
			job := &u.s.Targets[k].Jobs[j]
			if job.Verification == rollout.VerificationRunning {
				job.Verification = rollout.VerificationPassed
			}
			if !job.Status.Terminal() && !slices.ContainsFunc(u.ends, func(e editEnd) bool { return e.run == job.Run && e.target == u.s.Targets[k].TargetID }) {
				u.ends = append(u.ends, editEnd{u.now.Add(time.Minute), u.s.Targets[k].TargetID, job.Run, rollouttest.Outcome{Status: rollout.JobSuccessful}})
			}
		}
	}
	for k := range u.ends {
		u.ends[k].outcome = rollouttest.Outcome{Status: rollout.JobSuccessful}
	}
	slices.SortStableFunc(u.ends, func(a, b editEnd) int { return a.at.Compare(b.at) })
	u.stirred = 0
	var plan rollout.Plan
	for round := 0; ; round++ {
		if !u.rest() {
			return
		}
		plan = u.plan(u.now)
		if u.failed != nil {
			return
		}
		if round > 12 {
			u.report(u.editor, "no rest", "an operator is asked for ever: %v; orphans %v", waitingOf(plan), plan.Orphans)
			return
		}
		if !u.operate(plan, round) {
			break
		}
	}
	u.end(plan)
}

// rest runs the world until nothing happens any more.
func (u *upheaval) rest() bool {
	for n := 0; u.step(); n++ {
		if n > 1500 {
			u.report(u.editor, "no end", "after %d steps", n)
			return false
		}
	}
	return true
}

// operate does what only an operator can do, and reports whether there was anything.
func (u *upheaval) operate(plan rollout.Plan, round int) (did bool) {
	for wait := range plan.Waiting.All() {
		for _, b := range wait.Blockers {
			if !slices.ContainsFunc(b.On, func(c rollout.Condition) bool { return c.Kind == rollout.OnOperator }) {
				continue
			}
			for _, record := range plan.State.Executions {
				if record.Resource != wait.Resource || record.Open == nil || record.Open.Environment != wait.Environment {
					continue
				}
				u.ids++
				c := bracket.Command{ID: fmt.Sprint("op", u.ids), Kind: bracket.Retry, Group: record.Open.Group, Resource: record.Resource}
				if round > 3 { // such as one in which everything that failed was rolled back: it is held, and no retry ends that
					c.Kind = bracket.Resolve
					delete(u.prepared, [2]string{wait.Resource, wait.Environment}) // the operator uncordons by hand
				}
				u.note("command %v", c)
				u.s.Commands = append(u.s.Commands, c)
				did = true
			}
			break
		}
	}
	u.s.State.Pools = slices.Clone(u.s.State.Pools)
	for _, lease := range plan.Orphans {
		for k := range u.s.State.Pools {
			record := &u.s.State.Pools[k]
			if record.Key == lease.Pool {
				record.Leases = slices.DeleteFunc(slices.Clone(record.Leases), func(l concurrency.Lease) bool { return l == lease })
				u.note("released %+v", lease)
				did = true
			}
		}
	}
	u.stirred = 0
	return did
}

// end looks at what is left.
func (u *upheaval) end(plan rollout.Plan) {
	u.seen["end"]++
	for _, record := range plan.State.Executions {
		if record.Open == nil {
			continue
		}
		// A dependency that came later may be on something that is not there, or that comes with
		// the group that is queued.
		if slices.ContainsFunc(waitingOf(plan), func(w rollout.Waiting) bool {
			return w.Resource == record.Resource && w.Environment == record.Open.Environment && slices.ContainsFunc(w.Blockers, func(v rollout.Verdict) bool {
				return slices.Contains([]rollout.Reason{rollout.ReasonDependencyUnmatched, rollout.ReasonDependencyUnmet, "version_dependency_unmet", rollout.ReasonSelectorError}, v.Reason)
			})
		}) {
			u.seen["end in a circle"]++
			return
		}
		u.report(u.editor, "open for ever", "%s on %s: %+v\n%v\n%v", record.Open.Group, record.Resource, record.Open, waits(plan), plan.Diagnostics)
	}
	for _, record := range plan.State.Pools {
		for _, lease := range record.Leases {
			waiting := slices.ContainsFunc(waitingOf(plan), func(w rollout.Waiting) bool { return lease.Resource == w.Resource })
			if !waiting {
				u.report(u.editor, "held for ever", "%+v", lease)
			}
		}
	}
	for key, posts := range u.prepared {
		listed := slices.ContainsFunc(u.s.Targets, func(t rollout.Target) bool { return t.Resource == key[0] && t.Environment == key[1] })
		if listed && !slices.Contains(u.s.DeletedResources, key[0]) {
			u.report(u.editor, "drained for ever", "%v, %v never ran", key, posts)
		}
	}
	fresh := *u
	fresh.editor = u.clone()
	fresh.s.State, fresh.previous = rollout.State{}, nil
	fresh.note("FRESH")
	fresh.did["fresh"] = true
	before := map[rollout.TargetID]string{}
	for _, t := range u.s.Targets {
		before[t.TargetID] = t.Current
	}
	starts := len(fresh.dispatched)
	fresh.stirred = 0
	for n := 0; fresh.step(); n++ {
		if n > 1500 {
			u.report(fresh.editor, "no end", "after %d steps", n)
			return
		}
	}
	if len(fresh.dispatched) > starts {
		u.seen["fresh starts"]++
	}
	left := map[rollout.TargetID]bool{}
	for n := -1; n < len(left); { // until nobody is left behind for those that are
		n = len(left)
		for _, t := range fresh.s.Targets {
			if wait, waits := plan.Waiting.Of(t.TargetID); waits && t.Current != before[t.TargetID] && leftFor(wait, left) {
				left[t.TargetID] = true
			}
		}
	}
	u.seen["left for an operator"] += len(left)
	for _, t := range fresh.s.Targets {
		if t.Current != before[t.TargetID] && !left[t.TargetID] {
			said := "nothing was said"
			if wait, waits := plan.Waiting.Of(t.TargetID); waits {
				said = fmt.Sprint(wait.Version, wait.Blockers)
			}
			u.report(fresh.editor, "left behind", "%v has %q and would get %q: %s", t.TargetID, before[t.TargetID], t.Current, said)
		}
	}
	delete(fresh.did, "fresh")
}

// leftFor reports whether a target waits for what does not happen by itself, or for one of those
// that do so.
func leftFor(wait rollout.Waiting, left map[rollout.TargetID]bool) bool {
	return slices.ContainsFunc(wait.Blockers, func(v rollout.Verdict) bool {
		// behind what its bracket has locked: it waits for the next group, as the package says of
		// edits
		return v.Reason == "bracket_not_locked" || slices.ContainsFunc(v.On, func(c rollout.Condition) bool {
			return slices.Contains([]rollout.ConditionKind{rollout.OnOperator, rollout.OnConfig, rollout.OnVersion, rollout.OnGroupClose}, c.Kind) ||
				c.Kind == rollout.OnDependency && left[rollout.TargetID{Resource: c.Resource, Environment: c.Environment, Deployment: c.Deployment}]
		})
	})
}

// step plans once, carries the plan out in some way, or moves on to what happens next. It reports
// whether anything can.
func (u *upheaval) step() bool {
	e := u.editor
	if u.oldSteps > 0 {
		u.oldSteps--
		own := e.set
		e.set = u.old
		e.failed = nil
		if plan := e.plan(e.now); e.failed == nil {
			e.s.State = plan.State
			if len(plan.Start) > 0 {
				u.note("the old planner")
				u.dispatch(plan, plan.Start, plan.Start)
			}
		}
		e.set = own
	}
	e.failed = nil
	plan := e.plan(e.now)
	if e.failed != nil {
		return u.refusedPlan()
	}
	e.backups = append(slices.Clip(e.backups), e.s.State)
	checked := !u.did["fresh"]
	u.plans++
	if u.calm {
		checked = checked && (u.plans%4 == 0 || len(plan.Start) > 0 || len(plan.Events) > 0)
	}
	if checked {
		e.check(plan)
		u.permitted(plan)
		if u.plans%3 == 0 {
			u.explained(plan)
		}
		if u.plans%3 == 1 {
			u.stored(plan)
		}
	}
	if u.previous != nil {
		plan.Changes(u.previous)
	}
	u.previous = &plan
	if len(plan.Start) > 0 {
		u.carry(plan)
		return true
	}
	if u.calm || u.chance(95) {
		e.s.State = plan.State
	}
	next := e.wake(plan)
	if checked && u.plans%2 == 0 {
		e.quiet(plan, next)
	}
	patience := 24
	if u.calm {
		patience = 96 // several windows may have to be open at once, and nothing else happens meanwhile
	}
	if e.stirred++; next.IsZero() || e.stirred > patience {
		e.s.State = plan.State
		return false
	}
	e.pass(next, u.happened)
	return true
}

// refusedPlan deals with policies that a fleet does not allow: their owner is told so and takes the
// edit back.
func (u *upheaval) refusedPlan() bool {
	e := u.editor
	if !refused(e.failed) {
		e.report(e, "plan fails", "%v", e.failed)
		return false
	}
	u.seen["refused plan"]++
	e.note("REFUSED %v", e.failed)
	var disarmed policyTree
	if json.Unmarshal([]byte(e.text), &disarmed) != nil {
		panic(e.text)
	}
	for k, p := range disarmed {
		if p["enabled"] != false {
			disarmed[k]["enabled"] = false
			u.loads(disarmed)
			return true
		}
	}
	e.report(e, "plan fails", "without any policy: %v", e.failed)
	return false
}

func (u *upheaval) subset(starts []rollout.Start) []rollout.Start {
	var some []rollout.Start
	for _, s := range starts {
		if u.chance(50) {
			some = append(some, s)
		}
	}
	return some
}

// carry carries a plan out, or a part of it, or stops somewhere between planning and dispatching.
func (u *upheaval) carry(plan rollout.Plan) {
	if u.calm {
		u.dispatch(plan, plan.Start, plan.Start)
		u.again(plan)
		return
	}
	switch mode := rapid.IntRange(0, 11).Draw(u.T, "carry"); mode {
	default:
		u.dispatch(plan, plan.Start, plan.Start)
		u.again(plan)
	case 8:
		some := u.subset(plan.Start)
		u.note("only %d of %d", len(some), len(plan.Start))
		u.dispatch(plan, some, some)
	case 9:
		some := u.subset(plan.Start)
		u.note("crash after %d of %d were dispatched", len(some), len(plan.Start))
		u.seen["crash"]++
		u.dispatch(plan, plan.Start, some)
	case 10:
		u.note("crash before the save")
	case 11:
		state, err := plan.Commit(plan.Start, u.now)
		if err != nil {
			u.report(u.editor, "commit fails", "%v", err)
			return
		}
		u.seen["crash"]++
		u.note("crash within the save")
		u.s.State = u.torn(u.s.State, state)
	}
}

// torn is the state that a planner leaves which stops within its save: groups, rollouts, executions
// that ended, pools, the other executions.
func (u *upheaval) torn(old, next rollout.State) rollout.State {
	torn := old
	n := rapid.IntRange(1, 4).Draw(u.T, "torn")
	torn.Brackets = next.Brackets
	if n >= 2 {
		torn.Rollouts = next.Rollouts
	}
	if n >= 3 {
		torn.Executions = nil
		for _, record := range next.Executions {
			k := slices.IndexFunc(old.Executions, func(r *bracket.ExecutionRecord) bool { return r.Rule == record.Rule && r.Resource == record.Resource })
			switch {
			case record.Open == nil:
				torn.Executions = append(torn.Executions, record)
			case k >= 0:
				torn.Executions = append(torn.Executions, old.Executions[k])
			}
		}
	}
	if n >= 4 {
		torn.Pools = next.Pools
	}
	return torn
}

// happened notes the end of a job, also of one in a part of the fleet that nobody sees.
func (u *upheaval) happened(end editEnd) {
	job := u.ended(&u.editor.s, end)
	for k := range u.attic {
		if job == nil {
			job = u.ended(&u.attic[k].s, end)
		}
	}
	if job != nil && job.Status == rollout.JobSuccessful {
		u.noteHook(end)
	}
}
