package rollout

import (
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
)

// verdict translates a bracket's answer about a resource into the terms of this package.
func (w *work) verdict(b *bracketWork, resource string, v bracket.Verdict, p *pendingResource) (verdict Verdict) {
	verdict = Verdict{Status: VerdictStatus(v.Reason.Status()), Reason: Reason(v.Reason), Rule: b.id, Until: v.Until, On: w.translate(v.On)}
	if p != nil && p.founders > 0 {
		verdict.Data = w.keepData(Data{Position: int(p.position), Population: int(p.founders)})
	}
	switch v.Reason { // a search for every verdict would cost more than the verdict
	case bracket.ReasonFailedHolding:
		open := b.open(resource)
		verdict.Data = w.keepData(w.haltOf(b, open))
		w.mergeOpens(b, resource, &verdict)
	case bracket.ReasonQueued, bracket.ReasonMergeBudget: // a target that waits for the end of a failed execution is told so, since that may never end by itself
		// The execution may be of another environment, whose bracket decides later in the plan, so
		// it is looked up in the state that results.
		if record := w.execution(b.id, resource); record != nil && record.Open != nil && record.Open.Status == bracket.StatusFailed {
			failed := w.haltOf(b, record.Open)
			if verdict.Data != nil {
				failed.Position, failed.Population = verdict.Data.Position, verdict.Data.Population
			}
			verdict.Data = w.keepData(failed)
		}
	case bracket.ReasonHookWithoutVersion:
		w.hookOpens(b, resource, &verdict)
	}
	return verdict
}

// evaluated is verdict for what the bracket says about one version of a member. A member that is at
// work with an older version waits for that run: the verdict names it, because a member that waits
// for itself reads like a circle.
func (w *work) evaluated(b *bracketWork, t *target, said bracket.Verdict) Verdict {
	verdict := w.verdict(b, t.Resource, said, nil)
	if said.Reason == bracket.ReasonWaitsForMembers && len(said.On) == 1 && said.On[0].Deployment == t.Deployment {
		if m := memberIn(b.open(t.Resource), t.Deployment); m.RunVersion != "" {
			verdict.Data = w.keepData(Data{Names: []string{m.RunVersion}})
		}
	}
	return verdict
}

// mergeOpens says what a group waits for whose merge would end a halt: not the policy in general,
// but what keeps the group from being due.
func (w *work) mergeOpens(b *bracketWork, resource string, halt *Verdict) {
	undue := func(c Condition) bool { return c.Kind == OnConfig }
	p := w.pendingOn(b, resource)
	if p == nil || !slices.ContainsFunc(halt.On, undue) {
		return
	}
	if until, on := p.opener(); len(on) > 0 || !until.IsZero() {
		halt.Until, halt.On = until, append(slices.DeleteFunc(slices.Clone(halt.On), undue), on...)
	}
}

// hookOpens names the hooks that have no version, where the bracket's own conditions do not: the
// version of such a hook came too late for this group. It adds, behind these conditions, what the
// gates of the locked versions of a hook that has none wait for: a version that was taken from the
// hook because targets elsewhere failed with it comes back to this group when one of them succeeds.
func (w *work) hookOpens(b *bracketWork, resource string, wait *Verdict) {
	p := w.pendingOn(b, resource)
	if p == nil {
		return
	}
	named := slices.ContainsFunc(wait.On, func(c Condition) bool { return c.Kind == OnVersion })
	var late Data
	if wait.Data != nil {
		late = *wait.Data
	}
	wait.On = slices.Clip(wait.On) // it may be shared
	for _, run := range b.runsOn(p) {
		if run.version != none {
			continue
		}
		late.Names = append(late.Names, w.targets[run.target].Deployment)
		m := groupMember(b.latest(), w.targets[run.target].Deployment)
		if m == nil {
			continue
		}
		for _, lock := range m.Locks {
			n := w.number(run.target, lock.ID)
			if n < 0 || !w.inScope(run.target, n) {
				continue
			}
			until, on := opener(w.gateAt(run.target, n).blockers)
			wait.Until = sooner(wait.Until, until)
			for _, c := range on {
				if !slices.Contains(wait.On, c) {
					wait.On = append(wait.On, c)
				}
			}
		}
	}
	if !named && len(late.Names) > 0 {
		wait.Data = w.keepData(late)
	}
}

// pendingOn returns what is known of a resource on which the latest group has not begun, or nil.
func (w *work) pendingOn(b *bracketWork, resource string) *pendingResource {
	r, known := w.resource(resource)
	k, pending := slices.BinarySearchFunc(b.pending, r, func(p pendingResource, r int32) int { return int(p.resource - r) })
	if !known || !pending {
		return nil
	}
	return &b.pending[k]
}

// opener returns what the execution on a pending resource waits for besides time, and the instant
// at which it can start if time takes all of that away, or the members that wait for it.
func (p *pendingResource) opener() (until time.Time, on []Condition) {
	if until, on = opener(p.blockers); !until.IsZero() {
		return later(until, p.due), on
	}
	return p.due, on
}

// opener returns what an execution waits for if it cannot be due before these verdicts are gone:
// their events, and the latest instant at which looking again can help if time opens all of them, or
// they name no event.
func opener(blockers []Verdict) (until time.Time, on []Condition) {
	byTime := true
	for k := range blockers {
		until, byTime = later(until, blockers[k].Until), byTime && !blockers[k].Until.IsZero()
	}
	if len(blockers) == 1 { // mostly
		on = blockers[0].On
	} else if len(blockers) > 1 {
		on = events(blockers)
	}
	if len(on) > 0 && !byTime {
		until = time.Time{}
	}
	return until, on
}

// events lists the events of several verdicts, each once.
func events(verdicts []Verdict) (on []Condition) {
	listed := map[Condition]bool{}
	for k := range verdicts {
		for _, condition := range verdicts[k].On {
			if !listed[condition] {
				listed[condition] = true
				on = append(on, condition)
			}
		}
	}
	return on
}

// halt is what is said of an execution that a failure halts.
type halt struct {
	of   *bracket.Execution
	data Data
}

// haltOf says who halts an execution, and why no retry ends that, if so. All its members that wait
// are told so, one after the other.
func (w *work) haltOf(b *bracketWork, x *bracket.Execution) Data {
	if w.halted.of != x {
		w.halted = halt{x, Data{Names: halting(x), Detail: b.held(x)}}
	}
	return w.halted.data
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
		list[k] = conditionOf(c)
	}
	w.translated.of, w.translated.list = &on[0], list
	return list
}

func conditionOf(c bracket.Condition) Condition {
	return Condition{Kind: ConditionKind(c.Kind), Rule: c.Rule, Environment: c.Environment, Deployment: c.Deployment, Resource: c.Resource, Group: c.Group}
}

type translation struct {
	of   *bracket.Condition
	list []Condition
}

// held says why no retry ends the halt of an execution, if that is so.
func (b *bracketWork) held(x *bracket.Execution) string {
	if text := b.stranded(x); text != "" {
		return text
	}
	return wentBack(x)
}

// wentBack says that those went back whose failure halts an execution, if none is on its way: they are
// not repeated, and a command that skips whatever has failed does not mean them.
func wentBack(x *bracket.Execution) string {
	back := 0
	for k := range x.Members {
		switch m := &x.Members[k]; {
		case m.Status == bracket.MemberRolledBack:
			back++
		case m.Status == bracket.MemberFailed || m.Purpose == bracket.Rollback:
			return ""
		}
	}
	switch back {
	case 0:
		return ""
	case 1:
		return "it went back, so skip it by name or end the execution"
	}
	return "they went back, so skip each by name or end the execution"
}

// stranded says which members of an execution keep it from being rolled back as its rule says,
// because nothing ran on their targets before: then it holds. It is empty if that is not why. The
// conditions are those under which package bracket holds.
func (b *bracketWork) stranded(x *bracket.Execution) string {
	if x.Rule == nil && b.rule == nil {
		return ""
	}
	rule := x.Rule
	if rule == nil { // a record that was written by hand
		defaults := b.rule.bracket.WithDefaults()
		rule = &defaults
	}
	var names []string
	for k := range x.Members {
		m := &x.Members[k]
		failed := m.Status == bracket.MemberFailed
		if failed && (m.Role == bracket.Post || m.Purpose == bracket.Rollback) {
			return "" // this is not rolled back in any case
		}
		back := rule.OnMemberFailure == bracket.RollbackAll && m.Touched && x.Recovery == "" || rule.OnMemberFailure == bracket.RollbackMember && failed
		if back && m.Role == bracket.Main && m.From == "" {
			names = append(names, m.Deployment)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0] + " has nothing to go back to"
	}
	return strings.Join(names, ", ") + " have nothing to go back to"
}
