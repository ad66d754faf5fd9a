package rollout

import (
	"cmp"
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// This file asks the chain about one target once more and keeps every answer, not the blockers
// alone: [Plan.Explain] shows them. It calls the same functions as the plan, so the two cannot
// disagree.

// Kinds of questions that are asked although no rule of a policy says so.
const (
	kindStatus       RuleKind = "version"
	kindPolicy       RuleKind = "policy"
	kindDependencies RuleKind = "versionDependencies"
	kindTarget       RuleKind = "target"
	kindCustom       RuleKind = "custom"
	kindFreeze       RuleKind = "freeze"
)

// chain asks every rule that looks at a target outside brackets about a version newer than its
// floor.
func (w *work) chain(i, n int32) []RuleVerdict {
	t := &w.targets[i]
	view := w.viewOf(i)
	gate := w.gateAt(i, n)
	rules := w.gateRules(gate, i, n)
	rules = append(rules, w.dependencyRules(i, n)...)
	for _, rule := range view.cooldowns {
		own, _ := rule.answer(nil)
		if verdict, waits := w.cooldown(rule, i, n); waits {
			own.Verdict = verdict
		}
		rules = append(rules, own)
	}
	rules = append(rules, w.windowRules(i, n)...)
	for k, rule := range view.gradual {
		blockers, due, _ := w.turnUnder(nil, gate, k, i)
		own, blocks := rule.answer(blockers)
		if !blocks {
			own.Since = due
		}
		rules = append(rules, own)
	}
	for _, rule := range w.set.customs {
		rules = append(rules, RuleVerdict{Kind: kindCustom, Verdict: w.judged(rule, i, n)})
	}
	rules = append(rules, w.answers(w.freezeBlockers(nil, i, false))...)
	if t.busy {
		rules = append(rules, RuleVerdict{Kind: kindTarget, Verdict: busy(t)})
	}
	return w.markOverridden(rules, i, n)
}

// answer returns what a rule says: its verdict among those that block or, if it has none there, that
// it allows.
func (r *compiledRule) answer(blockers []Verdict) (own RuleVerdict, blocks bool) {
	k := slices.IndexFunc(blockers, func(v Verdict) bool { return v.Rule == r.id })
	if k < 0 {
		return RuleVerdict{Kind: r.kind, Verdict: allowed(r.id)}, false
	}
	return RuleVerdict{Kind: r.kind, Verdict: blockers[k]}, true
}

func allowed(rule string) Verdict { return Verdict{Status: Allowed, Reason: ReasonAllowed, Rule: rule} }

// markOverridden marks the answers of rules that are overridden for version n on target i.
func (w *work) markOverridden(rules []RuleVerdict, i, n int32) []RuleVerdict {
	for k := range rules {
		own := &rules[k]
		ends := w.overridesAt(own.Rule, i, n)
		o := ends.first
		if own.Kind == KindRetry {
			o = ends.last // the one that counts
		}
		if o != nil {
			own.Verdict = Verdict{Status: Allowed, Reason: ReasonOverridden, Rule: own.Rule, Until: reportable(endOf(o.ExpiresAt)), Data: &Data{Names: []string{o.CreatedBy}, Detail: o.ID}}
			own.Since = o.satisfied(w.version(i, n))
		}
	}
	return rules
}

// gateRules returns the answers of the rules that look at a version in an environment, and of the
// version selectors that look at the resource.
func (w *work) gateRules(gate *gate, i, n int32) []RuleVerdict {
	var rules []RuleVerdict
	for _, own := range gate.answers {
		r := RuleVerdict{Kind: own.kind, Verdict: own.verdict}
		if !own.since.IsZero() {
			if own.verdict.Status != Allowed { // else it says why it is satisfied
				r.Verdict = allowed(own.rule)
			}
			if own.inBase {
				r.Since = own.since
			}
		}
		rules = append(rules, r)
	}
	for _, rule := range gate.perResource {
		at := w.boundWith(i, n)
		r := RuleVerdict{Kind: KindVersionSelector, Verdict: allowed(rule.id)}
		if verdict, ok := rule.versionSelector(&at); !ok {
			r.Verdict = verdict
		}
		rules = append(rules, r)
	}
	sortByChain(rules)
	return rules
}

// dependencyRules returns the answers of the rules that look at what else runs on the resource.
func (w *work) dependencyRules(i, n int32) []RuleVerdict {
	blocking := w.dependencies(nil, i, nil, false)
	var rules []RuleVerdict
	for _, rule := range w.viewOf(i).dependencies {
		own, _ := rule.answer(blocking)
		if applies, err := w.applies(rule, i); err == nil && !applies {
			own.Reason = ReasonNotApplicable
		}
		rules = append(rules, own)
	}
	v := w.version(i, n)
	if len(v.Dependencies) > 0 {
		unmet := w.versionDependencies(nil, i, v, nil)
		for _, verdict := range unmet {
			rules = append(rules, RuleVerdict{Kind: kindDependencies, Verdict: verdict})
		}
		if len(unmet) == 0 {
			rules = append(rules, RuleVerdict{Kind: kindDependencies, Verdict: allowed("")})
		}
	}
	return rules
}

// windowRules returns the answers of the deployment windows.
func (w *work) windowRules(i, n int32) []RuleVerdict {
	var rules []RuleVerdict
	closed := w.windowBlockers(nil, i, n)
	h := w.hoursOf(i, n)
	for _, rule := range w.viewOf(i).windows {
		own, _ := rule.answer(closed)
		if h == nil || !slices.Contains(h.rules, rule) {
			own.Reason = ReasonNotApplicable // or overridden, which markOverridden says later
			own.Data = &Data{Detail: "a first deployment, which the rule lets past"}
		}
		rules = append(rules, own)
	}
	return rules
}

// floorRules returns the answers about the version that a target outside brackets has, or has
// begun: whether another job of it may start, and what a rollback rule says of it.
func (w *work) floorRules(i, n int32, starts bool) ([]RuleVerdict, Prospect) {
	if s := w.wayBackOf(i, n); s != nil {
		return w.answers(s.blockers(w, &w.targets[i])), ProspectWaits
	}
	return w.repeatRules(i, n, starts)
}

// repeatRules returns the answers about the version that a target outside brackets keeps: whether
// another job of it may start.
func (w *work) repeatRules(i, n int32, starts bool) ([]RuleVerdict, Prospect) {
	t := &w.targets[i]
	blockers, needed := w.repeat(i, n)
	if !needed {
		return []RuleVerdict{keptRule(t, n, t.running(w.version(i, n).ID))}, ProspectKept
	}
	rules := w.markOverridden(w.windowRules(i, n), i, n)
	rules = append(rules, w.retryRules(i, n, blockers)...)
	if t.busy {
		rules = append(rules, RuleVerdict{Kind: kindTarget, Verdict: busy(t)})
	}
	if len(blockers) == 0 {
		rules = append(rules, w.slotRules(i, w.version(i, n).ID)...)
	}
	return rules, prospect(starts)
}

// keptRule is the answer about a version that needs no further job on a target outside brackets,
// and of which a job may be running. One of the host's own may be at work there with another one.
func keptRule(t *target, n int32, running bool) RuleVerdict {
	own := RuleVerdict{Kind: kindTarget, Verdict: Verdict{Status: Allowed, Reason: ReasonCurrent}}
	switch {
	case running:
		own.Reason = ReasonStarted
	case n != t.current || t.outdated: // it has succeeded, even if the host calls another version current
		own.Reason = ReasonAlreadyDone
	}
	return own
}

// backRules returns the answers about an older version that a target outside brackets goes back to.
func (w *work) backRules(i, floor int32, version string, starts bool) ([]RuleVerdict, Prospect) {
	var rules []RuleVerdict
	if s := w.wayBackOf(i, floor); s != nil {
		for _, own := range s.triggers {
			rules = append(rules, RuleVerdict{Kind: KindRollback, Verdict: allowed(own.rule.id)})
		}
	}
	return append(rules, w.slotRules(i, version)...), prospect(starts)
}

// retryRules returns the answers of the rules that count attempts, those that block and those that
// do not, and of the freezes.
func (w *work) retryRules(i, n int32, blockers []Verdict) []RuleVerdict {
	var rules []RuleVerdict
	for _, rule := range w.viewOf(i).retries {
		own, blocks := rule.answer(blockers)
		if !blocks { // else even if an override forgave the attempts before it
			own = w.markOverridden([]RuleVerdict{own}, i, n)[0]
		}
		rules = append(rules, own)
	}
	for _, verdict := range blockers {
		switch {
		case verdict.Reason == ReasonFrozen:
			rules = append(rules, RuleVerdict{Kind: kindFreeze, Verdict: verdict})
		case verdict.Rule == "" && verdict.Reason != ReasonTargetBusy:
			rules = append(rules, RuleVerdict{Kind: KindRetry, Verdict: verdict}) // no rule at all allows one attempt
		}
	}
	return rules
}

// kindOf is the kind of the rule that gave a verdict. It is asked about what a plan lists for members,
// for slots and for a version that went wrong, where no verdict is about a status, a missing policy or
// a missing retry rule: the gates and retryRules answer for these.
func (w *work) kindOf(verdict Verdict) RuleKind {
	if rule := w.set.rule(verdict.Rule); rule != nil {
		return rule.kind
	}
	switch {
	case w.set.custom(verdict.Rule):
		return kindCustom
	case verdict.Reason == ReasonFrozen:
		return kindFreeze
	case verdict.Reason == ReasonVersionUnmet:
		return kindDependencies
	case verdict.Reason == ReasonSelectorError:
		return kindPolicy // of which the selector fails
	case verdict.Rule != "":
		return KindBracket // one that no policy has any more
	}
	return kindTarget
}

// slotRules returns what the pools answered to the plan, which asked them for all candidates in one
// batch.
func (w *work) slotRules(i int32, version string) []RuleVerdict {
	if k := w.waits[i].start; k > 0 {
		start := &w.plan.Start[k-1]
		if start.Version != version {
			return nil
		}
		var rules []RuleVerdict
		for _, claim := range start.Claims {
			if pool, known := w.capacity.keys[claim.Pool]; known {
				own := RuleVerdict{Kind: KindConcurrency, Verdict: Verdict{Status: Allowed, Reason: start.Reason, Rule: w.capacity.owner[pool]}}
				if start.Reason == ReasonOverridden && !slices.Contains(w.letPast[k], pool) {
					own.Reason = ReasonAllowed // an override lets the start past another pool
				}
				rules = append(rules, own)
			}
		}
		if n := w.number(i, version); n >= 0 {
			rules = w.markOverridden(rules, i, n)
		}
		return rules
	}
	return w.answers(w.waitingFor(i, version))
}

// startRules returns the answers of a bracket and of the pools about a version that the plan starts.
func (w *work) startRules(b *bracketWork, i int32, version string) []RuleVerdict {
	own := RuleVerdict{Kind: KindBracket, Verdict: Verdict{Status: Allowed, Reason: Reason(bracket.ReasonRun), Rule: b.id}}
	return append([]RuleVerdict{own}, w.slotRules(i, version)...)
}

// answers returns the verdicts with the kinds of the rules that gave them.
func (w *work) answers(verdicts []Verdict) (rules []RuleVerdict) {
	for _, verdict := range verdicts {
		rules = append(rules, RuleVerdict{Kind: w.kindOf(verdict), Verdict: verdict})
	}
	return rules
}

// waitingFor returns the blockers that the plan lists for a version on a target, or those that it
// would list if no newer one waited.
func (w *work) waitingFor(i int32, version string) []Verdict {
	wait := w.waits[i]
	if wait.blockers == 0 {
		return nil
	}
	if w.waitingVersion(i) == version {
		return w.blockersOf(i, wait.blockers)
	}
	k, waits := slices.BinarySearchFunc(w.olderWaits, i, func(o olderWait, target int32) int { return cmp.Compare(o.target, target) })
	if waits && w.olderWaits[k].version == w.number(i, version) {
		return w.blockersOf(i, w.olderWaits[k].blockers)
	}
	return nil
}

// memberRules returns the answers about a version on a target of a bracket. The blockers that the
// plan lists come from the bracket as a whole; about other versions the bracket is asked
// separately.
func (w *work) memberRules(b *bracketWork, i, n int32, starts bool) ([]RuleVerdict, Prospect) {
	t := &w.targets[i]
	v := w.version(i, n)
	rules := w.markOverridden(w.gateRules(w.gateAt(i, n), i, n), i, n)
	gates := len(rules)
	has := func(verdict Verdict) bool {
		return slices.ContainsFunc(rules[:gates], func(r RuleVerdict) bool { return r.Rule == verdict.Rule && r.Reason == verdict.Reason })
	}
	listed := w.waitingFor(i, v.ID)
	unasked := starts || len(listed) > 0 || n == t.floor()
	for k := range rules { // no rule is asked again about a version that a group has locked, a hook runs or the target keeps
		own := &rules[k]
		if unasked && own.Status != Allowed && !slices.ContainsFunc(listed, func(l Verdict) bool { return l.Rule == own.Rule && l.Reason == own.Reason }) {
			own.Verdict = Verdict{Status: Allowed, Reason: ReasonNotApplicable, Rule: own.Rule}
		}
	}
	if len(listed) == 0 && !starts {
		if t.running(v.ID) { // even if the job is the host's own and the bracket does not know it
			return append(rules, RuleVerdict{Kind: kindTarget, Verdict: Verdict{Status: Allowed, Reason: ReasonStarted}}), ProspectKept
		}
		listed = []Verdict{w.evaluated(b, t, b.plan.Evaluate(b.state, t.Resource, t.Deployment, v.ID, w.now))}
	}
	for _, verdict := range listed {
		if !has(verdict) {
			rules = append(rules, RuleVerdict{Kind: w.kindOf(verdict), Verdict: verdict})
		}
	}
	if starts {
		return append(rules, w.startRules(b, i, v.ID)...), ProspectStarts
	}
	sortByChain(rules)
	return rules, ProspectWaits
}

// sortByChain puts answers in the order in which the rules are asked.
func sortByChain(rules []RuleVerdict) {
	slices.SortStableFunc(rules, func(a, b RuleVerdict) int { return placeInChain(a.Kind) - placeInChain(b.Kind) })
}

func placeInChain(kind RuleKind) int {
	return slices.Index([]RuleKind{
		kindStatus, kindPolicy, KindVersionSelector, KindFailureBudget, KindApproval, KindProgression, KindBracket, KindDependency, kindDependencies, KindCooldown, KindWindow,
		KindGradualRollout, KindRollback, KindRetry, kindCustom, kindFreeze, kindTarget, KindConcurrency,
	}, kind)
}
