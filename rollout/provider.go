package rollout

import "slices"

// This file finds out whom a dependency rule concerns, and whom it names. There may be a rule for each
// deployment, and to ask all rules about all deployments is a square.

// applies reports whether a dependency rule concerns a target. A missing key means that it does: a
// rule that guards an order fails closed.
func (w *work) applies(rule *compiledRule, i int32) (bool, error) {
	if rule.appliesTo == nil {
		return true, nil
	}
	w.subject = w.bound(i)
	ok, err := rule.appliesTo.Match(&w.subject)
	if _, missing := missingKey(err); missing {
		return true, nil
	}
	return ok, err
}

// concerning returns which dependency rules of a policy may concern a deployment in an environment, by
// their numbers in the policy, ascending.
func (w *work) concerning(policy *compiledPolicy, environment, deployment int32) (list []int32) {
	if len(policy.dependencies) == 0 {
		return nil
	}
	at := w.boundIn(environment, deployment)
	long := len(policy.askingAppliesTo.fields) > 0 && w.isLongIn(environment, deployment)
	for _, k := range policy.askingAppliesTo.about(&at, long) {
		if applies := policy.dependencies[k].appliesTo; applies == nil || ask(applies, &at) != no {
			list = append(list, k)
		}
	}
	return list
}

// isLongIn reports whether a deployment or an environment has a long text.
func (w *work) isLongIn(environment, deployment int32) bool {
	return w.environments[environment].isLong() || w.deployments[deployment].isLong()
}

// depending keeps the answers about dependencies, so that each question is asked once.
type depending struct {
	inFields       map[fieldIn]*byValue    // the deployments of an environment by a field that rules require
	named          map[questionKey][]int32 // by rule and environment
	providers      map[questionKey]answer
	satisfies      map[questionKey]outcome
	satisfiers     map[VersionDependency][]numbered
	ruleSatisfiers map[questionKey][]numbered // by rule and deployment
	compiled       map[string]compiledText
}

// questionKey is what a rule is asked about, as far as the answer depends on it.
type questionKey struct {
	rule                             *compiledRule
	environment, deployment, version int32
}

type outcome struct {
	ok  bool
	err error
}

// fieldIn is a field of the deployments of an environment.
type fieldIn struct {
	environment int32
	fieldRead
}

// nameableIn lists, ascending, the deployments with targets in an environment about which a dependency
// rule has to be asked.
func (w *work) nameableIn(rule *compiledRule, environment int32) []int32 {
	key := fieldIn{environment, rule.requires.fieldRead}
	if len(w.set.dependencies) <= fewSelectors {
		key.fieldRead = fieldRead{} // all lack it
	}
	own := w.inFields[key]
	if own == nil {
		own = &byValue{}
		for d := range int32(len(w.deployments)) {
			if len(w.targetsIn(environment, d)) > 0 {
				at := w.boundIn(environment, d)
				own.add(d, key.fieldRead, &at, w.isLongIn(environment, d))
			}
		}
		put(&w.inFields, key, own)
	}
	if len(own.having) == 0 {
		return own.lacking
	}
	return slices.Compact(slices.Sorted(own.about(rule.requires.values)))
}

// providersIn lists the deployments of an environment that a dependency rule may name, ascending:
// those for which it is not false whatever their version and resource.
func (w *work) providersIn(rule *compiledRule, environment int32) []int32 {
	key := questionKey{rule: rule, environment: environment}
	list, known := w.named[key]
	if !known {
		for _, d := range w.nameableIn(rule, environment) {
			at := w.boundIn(environment, d)
			if ask(rule.dependsOn, &at) != no {
				list = append(list, d)
			}
		}
		put(&w.named, key, list)
	}
	return list
}

// provider reports whether a dependency rule names the deployment of t at all, whatever version it
// runs, and whether the version it runs now satisfies the rule. An error is returned only if it
// decides the result.
func (w *work) provider(rule *compiledRule, t *target) (named, satisfied bool, err error) {
	b := &w.subject
	*b = w.boundIn(t.environment, t.deployment)
	perResource := rule.readsResource
	if perResource {
		b.resource = &w.resources[t.resource]
	}
	key := questionKey{rule: rule, environment: t.environment, deployment: t.deployment, version: missing}
	byName, known := w.providers[key]
	if !known || perResource {
		byName = ask(rule.dependsOn, b)
		if byName == undecided && !rule.readsVersion {
			if _, err := w.dependsOn(rule, b, t); err != nil {
				return true, false, err
			}
			byName = no // it misses a key
		}
		put(&w.providers, key, byName)
	}
	if byName == no {
		return false, false, nil
	}
	if t.current < 0 {
		return true, false, nil
	}
	if byName == yes {
		return true, true, nil
	}
	key.version = t.current
	if known, ok := w.satisfies[key]; ok && !perResource {
		return true, known.ok, known.err
	}
	b.version = w.versions[t.deployment].list[t.current]
	ok, err := w.dependsOn(rule, b, t)
	put(&w.satisfies, key, outcome{ok, err})
	return true, ok, err
}

// dependsOn evaluates the dependsOn of a rule with everything that is known bound. A missing key is
// no match, and is counted: of the target if the rule reads the resource, else of the deployment in
// the environment.
func (w *work) dependsOn(rule *compiledRule, b *bound, t *target) (bool, error) {
	ok, err := rule.dependsOn.Match(b)
	if err == nil {
		return ok, nil
	}
	at := t.TargetID
	if !rule.readsResource {
		at.Resource = ""
	}
	if w.missesOnce(rule.id, err, at) {
		return false, nil
	}
	return false, err
}
