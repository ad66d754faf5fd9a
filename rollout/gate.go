package rollout

import (
	"slices"
	"time"
)

// VersionSelector lets only matching versions start.
type VersionSelector struct {
	Selector    string `json:"selector"`              // required: CEL on version, deployment, environment and resource; a missing key denies
	Description string `json:"description,omitempty"` // for people: why other versions may not start; reported with each of them
}

// Validate reports a missing expression as a *[FieldError].
func (s VersionSelector) Validate() error {
	var f faults
	f.required("selector", s.Selector, `write "true" to let every version pass`)
	return f.err()
}

// gate holds what the rules that look at a version alone, or at a version in an environment, say
// about it. They are asked once for all targets of a (deployment, environment) with the same view.
type gate struct {
	view, number int32
	version      *Version
	blockers     []Verdict                // by version status, version selector, failure budget, approval, progression
	base         time.Time                // the latest instant at which an approval or progression opened, never before the version was created; zero while one is shut
	eligible     time.Time                // without blockers: the latest instant at which any rule opened, even by an override. Groups count from it, curves from base
	anew         time.Time                // as eligible, but where an override opened a rule, by the last one of it: what an execution did without is missed since then
	shut         []Condition              // what the shut rules wait for, each event once: those that need more than time, if any does
	opens        time.Time                // when time alone has opened all that are shut; zero if one of them needs more
	early        int                      // how many of blockers come before the failure budgets
	answers      []gateAnswer             // every rule's answer, for targets that an override lets past one of them
	perResource  []*compiledRule          // version selectors that read the resource: asked per target
	rollouts     []*rollout               // per gradual rule of the view, made when first needed
	onlyRollout  *rollout                 // set if only the turn in this rollout, and no other rule, can hold an idle target; see onlyTurnHolds
	shared       *gate                    // for the gate of one target that an override opened: the gate of the others, whose rollout that does not start
	separate     map[separateKey]*rollout // the rollouts of such gates, each made once
}

// gating holds what the gates are made from.
type gating struct {
	approvals          map[approvalKey][]Approval        // those that count, by now or later
	approvers          map[approvalKey]approvers         // of those that have been asked for
	progressionAnswers map[questionKey]gateAnswer        // whatever else governs
	sources            map[questionKey][]source          // of progression rules, by deployment
	environmentAnswers map[questionKey]environmentAnswer // of progression rules that ask for as much, by the environment that they look at
}

// gateAnswer is what one rule says: since when it is satisfied, or why it is not.
type gateAnswer struct {
	kind    RuleKind
	rule    string
	since   time.Time // zero: it is not
	verdict Verdict   // the blocker if it is not
	inBase  bool      // the base counts from it: until it is satisfied, a rollout has no start
}

// gateOf evaluates rules 1 to 4 of the chain for version n on target i.
func (w *work) gateOf(i, n int32) *gate {
	t := &w.targets[i]
	at := w.pairs[w.pairOf(t)].in(w.view[i]).gate(len(w.versions[t.deployment].list) - 1 - int(n))
	if *at != nil {
		return *at
	}
	view := w.viewOf(i)
	g := &gate{
		view: w.view[i], number: n, version: w.version(i, n), rollouts: make([]*rollout, len(view.gradual)),
		answers: make([]gateAnswer, 0, 1+len(view.selectors)+len(view.budgets)+len(view.approvals)+len(view.progressions)),
	}
	*at = g // before its rules are asked, which ask for other gates
	w.askGate(g, view, t)
	w.sum(g, t.Environment, "")
	return g
}

// askGate asks the rules of a view about the version of a gate, for the deployment and the
// environment of a target.
func (w *work) askGate(g *gate, view *view, t *target) {
	g.answers = append(g.answers, statusAnswer(g.version))
	if w.set.ungovernedHeld && len(view.policies) == 0 {
		g.answers = append(g.answers, gateAnswer{kind: kindPolicy, verdict: Verdict{Status: Denied, Reason: ReasonNotGoverned, On: onConfig("")}})
	}
	for _, rule := range view.selectors {
		if rule.readsResource {
			g.perResource = append(g.perResource, rule)
			continue
		}
		b := w.boundIn(t.environment, t.deployment)
		b.version = g.version
		verdict, ok := rule.versionSelector(&b)
		own := gateAnswer{kind: KindVersionSelector, rule: rule.id, verdict: verdict}
		if ok {
			own.since = g.version.CreatedAt
		}
		g.answers = append(g.answers, own)
	}
	for _, rule := range view.budgets {
		g.answers = append(g.answers, w.budget(rule, t.environment, t.deployment, g.number))
	}
	for _, rule := range view.approvals {
		at, verdict := w.approval(rule, g.version, &w.environments[t.environment])
		g.answers = append(g.answers, gateAnswer{KindApproval, rule.id, at, verdict, true})
	}
	for _, rule := range view.progressions {
		key := questionKey{rule, t.environment, t.deployment, g.number}
		own, known := w.progressionAnswers[key]
		if !known {
			at, verdict := w.progression(rule, t, g.number)
			own = gateAnswer{KindProgression, rule.id, at, verdict, true}
			put(&w.progressionAnswers, key, own)
		}
		g.answers = append(g.answers, own)
	}
}

// statusAnswer is what the status of a version says.
func statusAnswer(v *Version) gateAnswer {
	if v.Status == VersionReady {
		return gateAnswer{kind: kindStatus, since: v.CreatedAt}
	}
	return gateAnswer{kind: kindStatus, verdict: Verdict{
		Status: Denied, Reason: ReasonVersionNotDeployable,
		On:   []Condition{{Kind: OnVersion, Deployment: v.Deployment}},
		Data: &Data{Detail: string(v.Status)},
	}}
}

// sum adds up the answers of the rules of a gate, for one resource or, if resource is empty, for
// all that no override names.
func (w *work) sum(g *gate, environment, resource string) {
	g.blockers, g.shut, g.base, g.eligible, g.opens, g.early = nil, nil, g.version.CreatedAt, g.version.CreatedAt, time.Time{}, 0
	g.anew = g.eligible
	var closed []Verdict
	byTime := true
	for k := range g.answers {
		own := &g.answers[k]
		since, anew := own.since, own.since
		if ends := w.overridesFor(own.rule, g.version, environment, resource); ends.first != nil {
			since = sooner(since, ends.first.satisfied(g.version)) // never later than without: an override delays nobody
			if anew = since; own.since.IsZero() {
				anew = ends.last.satisfied(g.version)
			}
		}
		g.eligible, g.anew = later(g.eligible, since), later(g.anew, anew)
		switch {
		case since.IsZero():
			g.blockers = append(g.blockers, own.verdict)
			if !own.inBase {
				if own.kind != KindFailureBudget {
					g.early++
				}
				continue
			}
			closed = append(closed, own.verdict)
			byTime = byTime && !own.verdict.Until.IsZero()
			g.opens = later(g.opens, own.verdict.Until)
		case own.inBase:
			g.base = later(g.base, since)
		}
	}
	if len(closed) > 0 {
		g.base = time.Time{}
	}
	if !byTime { // a gate that opens by time alone is not what the others wait for
		closed = slices.DeleteFunc(closed, func(v Verdict) bool { return !v.Until.IsZero() })
		g.opens = time.Time{}
	}
	g.shut = events(closed)
}

// gateAt returns the gate of version n for target i: the shared one, unless an override names the
// resource.
func (w *work) gateAt(i, n int32) *gate {
	g := w.gateOf(i, n)
	if !w.mayBeOverriddenAlone(i, n) {
		return g
	}
	t := &w.targets[i]
	if !slices.ContainsFunc(g.answers, func(own gateAnswer) bool {
		first := w.overridesFor(own.rule, g.version, t.Environment, t.Resource).first
		return first != nil && first.Resource != ""
	}) {
		return g
	}
	own := *g
	own.shared = g
	own.rollouts = make([]*rollout, len(g.rollouts))
	w.sum(&own, t.Environment, t.Resource)
	return &own
}

// selects reports whether a version selector, or an override of it, lets version n onto target i.
func (w *work) selects(rule *compiledRule, i, n int32) bool {
	w.subject = w.boundWith(i, n)
	_, ok := rule.versionSelector(&w.subject)
	return ok || w.overriddenAt(rule.id, i, n) != nil
}

// versionSelector reports whether a version selector lets a version through, and says why not.
func (r *compiledRule) versionSelector(b *bound) (Verdict, bool) {
	ok, err := r.selector.Match(b)
	if err == nil && ok {
		return Verdict{}, true
	}
	verdict := Verdict{Status: Denied, Reason: ReasonSelectorNoMatch, Rule: r.id, On: onConfig(r.id), Data: r.described}
	if err != nil {
		verdict.Reason, verdict.Data = ReasonSelectorError, &Data{Detail: err.Error()}
		if key, missing := missingKey(err); missing {
			verdict.Reason, verdict.Data = ReasonSelectorMissingKey, &Data{Detail: key}
		}
	}
	return verdict, false
}
