package rollout

import (
	"errors"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/clock"
	"github.com/tranche-dev/tranche/internal/runid"
)

// choose decides for every target outside brackets which version it should have, and what stands in
// the way.
func (w *work) choose() {
	for i := range w.targets {
		if !w.members[i] {
			w.chooseFor(int32(i))
		}
	}
}

// chooseFor looks at the candidates of one target, newest first. It starts the first one newer than
// the floor that every rule allows. If that is not the newest, it reports the blockers of the
// newest. A wait never takes back what the target has or has begun: floor stays the desired version
// whatever the curve, an approval or a label says later.
func (w *work) chooseFor(i int32) {
	t := &w.targets[i]
	if held := w.heldAlone(i); len(held) > 0 {
		w.wait(i, "", held)
		return
	}
	versions := w.versions[t.deployment].list
	floor := t.floor()
	newest := true
	for n := int32(len(versions)) - 1; n > floor; n-- {
		v := versions[n]
		if v.CreatedAt.After(w.now) {
			w.wake(v.CreatedAt)
			continue
		}
		if !w.inScope(i, n) {
			continue
		}
		blockers, turn, due, position := w.candidate(i, n)
		switch {
		case len(blockers) == 0 && turn.kind == 0:
			w.offer(i, n, due, position)
			return
		case !newest:
			w.forget(blockers)
		case turn.kind != 0:
			w.waitFor(i, n, w.listTurn(turn))
		default:
			w.waitNumber(i, n, blockers)
		}
		newest = false
	}
	if floor == none {
		w.countKept(i)
		return
	}
	if w.goBack(i, floor) {
		return
	}
	if blockers, needed := w.repeat(i, floor); len(blockers) > 0 {
		w.waitNumber(i, floor, blockers)
	} else if needed {
		w.offer(i, floor, w.repeatDue(i, floor), 0)
	} else {
		w.countKept(i)
	}
}

// countKept counts a target that neither starts anything nor waits for anything.
func (w *work) countKept(i int32) {
	if w.startsForFormer(i) || w.waits[i].blockers != 0 {
		return // its newest version waits, or the execution of a rule that is gone has reported it
	}
	if w.targets[i].busy {
		w.plan.Keep.Started++
	} else {
		w.plan.Keep.Current++
	}
}

// heldAlone returns what holds a target outside brackets whatever its version: an expression that
// fails or, without one, that nobody knows what is newer than what it runs; and then its freezes.
func (w *work) heldAlone(i int32) []Verdict {
	held := w.held[i]
	if t := &w.targets[i]; len(held) == 0 && t.current == missing {
		held = []Verdict{w.unknownVersion(t)}
	}
	if len(held) == 0 {
		return nil
	}
	return w.freezeBlockers(held, i, false)
}

// unknownVersion holds a target whose current version the snapshot does not hold: nothing tells
// whether another version is newer.
func (w *work) unknownVersion(t *target) Verdict {
	return Verdict{
		Status: Denied, Reason: ReasonVersionUnknown, On: []Condition{{Kind: OnVersion, Deployment: t.Deployment}},
		Data: &Data{Detail: w.currentID(t)},
	}
}

// candidate asks every rule about a version newer than the floor. It returns all blockers, the due
// time and the position. If the turn is known to be the only blocker, candidate returns it in its
// compact form and not as a verdict, because most of a large rollout waits for nothing else.
func (w *work) candidate(i, n int32) (blockers []Verdict, turn compactTurn, due time.Time, position int32) {
	t := &w.targets[i]
	view := w.viewOf(i)
	v := w.version(i, n)
	gate := w.gateAt(i, n)
	frozen := w.frozenAt(i)
	free := !t.busy && !frozen && !w.mayBeOverridden(i, n) // nothing but rules can hold it, and none of these is overridden
	if r := gate.onlyRollout; r != nil && free {
		if place := w.positionIn(r, i); place >= r.reached && place < r.fits {
			return nil, w.derivedTurn(r, place), gate.base, place
		}
	}
	blockers = w.gateBlockers(gate, i, n)
	blockers = w.dependencies(blockers, i, nil, false)
	blockers = w.versionDependencies(blockers, i, v, nil)
	due = gate.base
	for _, rule := range view.cooldowns {
		if verdict, waits := w.cooldown(rule, i, n); waits {
			blockers = w.appendVerdict(blockers, verdict)
		}
	}
	blockers = w.windowBlockers(blockers, i, n)
	if free && len(blockers) == 0 && len(view.gradual) == 1 && !gate.base.IsZero() && len(w.set.customs) == 0 {
		r, h := w.rolloutOf(gate, 0, t), w.hoursOf(i, n)
		place := w.positionIn(r, i)
		if h == nil && place >= r.reached && place < r.fits {
			if onlyTurnHolds(view, v) {
				gate.onlyRollout = r
			}
			return nil, w.derivedTurn(r, place), due, place
		}
		if at, err := r.due(place, h); err == nil {
			if w.now.Before(at) {
				w.wake(at)
				turn = w.turnIn(r, at, place)
			}
			return nil, turn, later(due, at), place
		}
	}
	for k := range view.gradual {
		var at time.Time
		var place int32
		blockers, at, place = w.turnUnder(blockers, gate, k, i)
		due, position = later(due, at), max(position, place)
	}
	blockers = w.custom(blockers, i, n)
	if frozen {
		blockers = w.freezeBlockers(blockers, i, false)
	}
	if t.busy {
		blockers = w.appendVerdict(blockers, busy(t))
	}
	return w.dropOverridden(blockers, i, n), compactTurn{}, due, position
}

// onlyTurnHolds reports whether no rule of a view can hold an idle target besides its gate and a
// turn, provided that there are no overrides and no rules of the host's. Most targets of a large
// fleet are then not asked for all the rest.
func onlyTurnHolds(view *view, v *Version) bool {
	return !view.selective && len(view.dependencies) == 0 && len(v.Dependencies) == 0 && len(view.cooldowns) == 0 && view.hours == nil
}

// gateBlockers returns the blockers of a gate and, between them, those of the version selectors
// that look at the resource of target i.
func (w *work) gateBlockers(g *gate, i, n int32) []Verdict {
	if len(g.perResource) == 0 {
		return g.blockers
	}
	w.subject = w.boundWith(i, n)
	blockers := g.blockers[:g.early]
	for _, rule := range g.perResource {
		if verdict, ok := rule.versionSelector(&w.subject); !ok && w.overriddenAt(rule.id, i, n) == nil {
			blockers = w.appendVerdict(blockers, verdict)
		}
	}
	if len(blockers) == g.early {
		return g.blockers
	}
	for _, verdict := range g.blockers[g.early:] {
		blockers = w.appendVerdict(blockers, verdict)
	}
	return blockers
}

// turnUnder returns when target i is due under the k-th gradual rule of its view, and its position
// there. Until then it adds a verdict to blockers.
func (w *work) turnUnder(blockers []Verdict, g *gate, k int, i int32) (_ []Verdict, due time.Time, position int32) {
	rule := w.gradualOfGate(g, k)
	if o := w.overriddenAt(rule.id, i, g.number); o != nil {
		due = o.satisfied(g.version)
		if !g.base.IsZero() && due.After(g.base) { // a target whose turn came before that keeps its place among those that wait for slots
			if own, place, _, err := w.placeOf(g, k, i); err == nil && own.Before(due) {
				due, position = own, place
			}
		}
		return blockers, due, position
	}
	if g.base.IsZero() {
		return w.appendVerdict(blockers, Verdict{Status: Pending, Reason: ReasonRolloutNotStarted, Rule: rule.id, Until: g.opens, On: g.shut}), due, 0
	}
	due, position, r, err := w.placeOf(g, k, i)
	if err != nil {
		return w.appendVerdict(blockers, w.never(r, position, w.hoursOf(i, g.number), err)), due, position
	}
	if w.now.Before(due) {
		w.wake(due)
		data := w.keepData(Data{Position: int(position), Population: r.record.Founders})
		blockers = w.appendVerdict(blockers, Verdict{Status: Pending, Reason: ReasonRolloutNotDue, Rule: rule.id, Until: due, Data: data})
	}
	return blockers, due, position
}

// never says why a turn has no instant: it never comes, or nobody knows yet when it does.
func (w *work) never(r *rollout, position int32, h *hours, err error) Verdict {
	if r.pause != nil && len(r.pause.endless) > 0 && errors.Is(err, clock.ErrNeverOpen) {
		return Verdict{
			Status: Pending, Reason: ReasonRolloutNotDue, Rule: r.rule.id, On: r.pause.endless,
			Data: w.keepData(Data{Position: int(position), Population: r.record.Founders}),
		}
	}
	detail, on := err.Error(), onConfig(r.rule.id)
	if errors.Is(err, clock.ErrNeverOpen) { // the error names the bounds of a search, which tell nobody what to edit
		detail = "the windows are not open for long enough" + withinHorizon()
		if r.comesUnpaused(position, h) {
			detail += ", less the time of the freezes"
			on = append(slices.Clip(on), r.pause.ending...)
		}
	}
	return Verdict{
		Status: Denied, Reason: ReasonRolloutOverflow, Rule: r.rule.id, On: on,
		Data: &Data{Position: int(position), Detail: detail},
	}
}

func busy(t *target) Verdict {
	return Verdict{Status: Denied, Reason: ReasonTargetBusy, On: onJob(t)}
}

func onJob(t *target) []Condition {
	return []Condition{{Kind: OnJob, Deployment: t.Deployment, Resource: t.Resource, Environment: t.Environment}}
}

// offer adds a start that only capacity can still refuse.
func (w *work) offer(i, n int32, due time.Time, position int32) *candidate {
	t := &w.targets[i]
	attempt := int32(1)
	if t.worked() {
		attempt = w.attempt(i, n)
	}
	c := w.candidates.push(newCandidate(i, n, due, position))
	c.attempt = attempt
	return c
}

// attempt returns the number of the next job of version n on target i: one more than there are, and
// greater than the number in any run id. A host that forgets old jobs lists fewer than there were,
// and a run id that was used before would create nothing.
func (w *work) attempt(i, n int32) int32 {
	t := &w.targets[i]
	version := w.version(i, n).ID
	own := runid.Target{Resource: t.Resource, Environment: t.Environment, Deployment: t.Deployment, Version: version}
	count, last := int32(1), int32(0)
	for k := range t.Jobs {
		if job := &t.Jobs[k]; job.Version == version {
			count++
			last = max(last, own.Attempt(job.Run))
		}
	}
	return max(count, last+1)
}
