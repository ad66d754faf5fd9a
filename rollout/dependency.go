package rollout

import (
	"slices"

	"github.com/tranche-dev/tranche/bracket"
)

// DeploymentDependency lets a version start on a target only when other deployments on the same
// resource run what it needs. Between members of a bracket in its own policy it orders the members
// instead, and then every matched member is needed. DependsOn then sees the version that a member
// runs after the execution. If the rule matches no member by these versions, or stands in another
// policy than the bracket, it is asked as outside brackets, and holds up the whole execution while
// it is not met.
type DeploymentDependency struct {
	// DependsOn is required: CEL on the other deployment, its current version, the resource and the
	// environment. A missing key is no match.
	DependsOn string `json:"dependsOn"`

	// AppliesTo is CEL on the deployment that waits. Unset: every governed target. If it reads a
	// missing key, the rule applies.
	AppliesTo string `json:"appliesTo,omitempty"`

	Match          Quantifier `json:"match,omitempty"`          // unset: any
	AnyEnvironment bool       `json:"anyEnvironment,omitempty"` // also count the resource's targets in other environments
}

// Validate reports every fault, joined, each a *[FieldError].
func (d DeploymentDependency) Validate() error {
	var f faults
	f.required("dependsOn", d.DependsOn, "an expression such as deployment.name == 'node-drain'")
	oneOf(&f, "match", d.Match, MatchAny, MatchAll)
	return f.err()
}

// Quantifier says how many of several deployments must satisfy a dependency.
type Quantifier string

const (
	MatchAny Quantifier = "any" // one of them; the default
	MatchAll Quantifier = "all" // every one
)

// blocking lists the dependency rules of a view that may block a deployment in an environment, for
// members of a bracket or, if it is nil, for other targets.
type blocking struct {
	bracket *bracketWork
	rules   []*compiledRule
}

// blockingRules returns the dependency rules that may block target i: all of its view, except those
// that do not concern the deployment and, for a member of a bracket, those that order the members.
func (w *work) blockingRules(i int32, b *bracketWork) []*compiledRule {
	view := w.viewOf(i)
	if len(view.dependencies) == 0 {
		return nil
	}
	t := &w.targets[i]
	p := w.pairs[w.pairOf(t)].in(w.view[i])
	for k := range p.blocking {
		if p.blocking[k].bracket == b {
			return p.blocking[k].rules
		}
	}
	own := blocking{bracket: b}
	for _, policy := range view.policies {
		for _, k := range w.concerning(policy, t.environment, t.deployment) {
			rule := policy.dependencies[k]
			if _, orders := b.order(rule, t.deployment); !orders {
				own.rules = append(own.rules, rule)
			}
		}
	}
	p.blocking = append(p.blocking, own)
	return own.rules
}

// dependencies appends the verdicts of all dependency rules that block target i, whatever the
// version. begun says that it is a member of an open execution: a rule that ordered the members when
// the group closed stays an order while the execution is open, whoever is a member by now. A
// deployment that is not on the resource satisfies an order; if it had to come first, the resource
// would stay drained for ever.
func (w *work) dependencies(blockers []Verdict, i int32, b *bracketWork, begun bool) []Verdict {
	for _, rule := range w.blockingRules(i, b) {
		if !begun || !w.ordered(rule, i, b) {
			blockers = w.unmet(blockers, rule, i, b)
		}
	}
	return blockers
}

// ordered reports whether a dependency rule made the member of target i wait for another one in the
// groups of the execution that is open on its resource. Groups do not say from which rules their
// edges come. A rule that reads versions made edges only for some versions, which tells them from
// the edges of the roles and of other rules. While the bracket exists, edges come from the rules of
// its own policy; those of another policy are never an order.
func (w *work) ordered(rule *compiledRule, i int32, b *bracketWork) bool {
	t := &w.targets[i]
	open := b.open(t.Resource)
	if open == nil || b.state.Group == nil || b.rule != nil && b.rule.policy != rule.policy {
		return false
	}
	return slices.ContainsFunc(b.state.Group.Closed, func(group *bracket.Group) bool {
		if !includes(open.Group, open.Merged, group.ID) {
			return false
		}
		m := groupMember(group, t.Deployment)
		return m != nil && w.namesNeed(rule, m, b.environment)
	})
}

// namesNeed reports whether a dependency rule may name one of the deployments that a member of a
// closed group needs, also one that has left the environment since. What is not listed any more
// cannot be asked for: a rule that names nobody else may have named it.
func (w *work) namesNeed(rule *compiledRule, m *bracket.GroupMember, environment int32) bool {
	needs := m.Needs
	if rule.readsVersion {
		needs = nil
		for _, need := range m.NeedsIf {
			needs = append(needs, need.Deployment)
		}
	}
	named := w.providersIn(rule, environment)
	if slices.ContainsFunc(named, func(d int32) bool { return slices.Contains(needs, w.deployments[d].ID) }) {
		return true
	}
	return slices.ContainsFunc(needs, func(id string) bool {
		d, listed := w.deployment(id)
		if !listed {
			return len(named) == 0
		}
		at := w.boundIn(environment, d)
		return len(w.targetsIn(environment, d)) == 0 && ask(rule.dependsOn, &at) != no
	})
}

// unordered appends the verdicts of the dependency rules that order members for some versions only,
// if no member runs one of those versions after the execution. Such a rule orders no members there,
// and is a condition like any other rule.
func (w *work) unordered(blockers []Verdict, i int32, b *bracketWork, runs []pendingRun) []Verdict {
	for _, o := range b.orders[w.targets[i].deployment] {
		rule := o.rule
		if o.always || !w.viewOf(i).has(rule) {
			continue
		}
		if applies, err := w.applies(rule, i); err == nil && applies && w.ordersIn(rule, i, b, runs) {
			continue
		}
		blockers = w.unmet(blockers, rule, i, b)
	}
	return blockers
}

// unmet appends the verdict of a dependency rule if the rule blocks target i. b is the bracket of
// which the target is a member, or nil.
func (w *work) unmet(blockers []Verdict, rule *compiledRule, i int32, b *bracketWork) []Verdict {
	applies, err := w.applies(rule, i)
	if err == nil && !applies {
		return blockers
	}
	var verdict Verdict
	ok := false
	if err == nil {
		verdict, ok, err = w.dependency(rule, i)
	}
	if err != nil {
		verdict = failing(rule.id, err)
	}
	if ok {
		return blockers
	}
	if b != nil && verdict.Reason == ReasonDependencyUnmatched {
		verdict.On = w.orNamed(verdict.On, rule, i, b)
	}
	if b == nil {
		return w.appendVerdict(blockers, verdict) // no other rule has the same
	}
	return w.appendDistinct(blockers, verdict)
}

// orNamed appends the events after which a rule that names no deployment on the resource stops
// blocking a member. Once another member has a version by which the rule names it, the rule orders
// the two; an order is satisfied where that member is not on the resource.
func (w *work) orNamed(on []Condition, rule *compiledRule, i int32, b *bracketWork) []Condition {
	for _, d := range w.providersIn(rule, b.environment) {
		if _, member := slices.BinarySearch(b.deployments, d); member && d != w.targets[i].deployment {
			on = append(on, Condition{Kind: OnVersion, Deployment: w.deployments[d].ID})
		}
	}
	return on
}

// ordersIn reports whether a rule names a member, other than that of target i, by the version that
// the member runs after an execution. It also reports true if no member that the rule names by any
// version is on the resource: then there is nothing to wait for.
func (w *work) ordersIn(rule *compiledRule, i int32, b *bracketWork, runs []pendingRun) bool {
	from, to := w.siblings(i)
	absent := true
	var room [8]int32
	for _, k := range w.common(room[:0], from, to, w.providersIn(rule, b.environment)) {
		if _, member := slices.BinarySearch(b.targets, k); k == i || !member {
			continue
		}
		if named, _, err := w.provider(rule, &w.targets[k]); named || err != nil {
			absent = false
		}
		n := w.targets[k].current
		for _, run := range runs {
			if run.target == k {
				n = run.version
			}
		}
		if n < 0 {
			continue
		}
		own := w.boundWith(k, n)
		ok, err := rule.dependsOn.Match(&own)
		if _, missing := missingKey(err); ok || err != nil && !missing { // one on which it fails counts as named, see edgeTo
			return true
		}
	}
	return absent
}

// versionDependencies appends the verdicts of those dependencies of the version itself that are not
// met. runs are what an execution of a bracket is about to bring.
func (w *work) versionDependencies(blockers []Verdict, i int32, v *Version, runs []pendingRun) []Verdict {
	said := newDistinct(w, blockers)
	for _, d := range v.Dependencies {
		if verdict, ok := w.versionDependency(i, d, runs); !ok {
			if verdict.Reason == ReasonVersionUnmet && verdict.Data.Detail != absentHere && !w.neededMayCome(i, v, d) {
				verdict.On = []Condition{{Kind: OnVersion, Deployment: d.Deployment}, verdict.On[0]}
			}
			said.add(verdict)
		}
	}
	return said.blockers
}

// nameable lists the targets of other deployments that a dependency rule of target i may name: on
// its resource, first in its environment and then, if the rule counts any environment, in the
// others. The list is made in room, if it fits.
func (w *work) nameable(room []int32, rule *compiledRule, i int32) []int32 {
	t := &w.targets[i]
	from, to := w.siblings(i)
	list := w.common(room[:0], from, to, w.providersIn(rule, t.environment))
	if rule.dependency.AnyEnvironment {
		for from, to := range w.everywhere(t.resource) {
			if e := w.targets[from].environment; e != t.environment {
				list = w.common(list, from, to, w.providersIn(rule, e))
			}
		}
	}
	return slices.DeleteFunc(list, func(k int32) bool { return w.targets[k].deployment == t.deployment })
}

func (w *work) dependency(rule *compiledRule, i int32) (Verdict, bool, error) {
	var on, unpublished []Condition // unpublished: versions of those of whom none that there is would do
	var names []string
	var lacking, never idSet // a deployment may be missing in several environments
	several := rule.dependency.AnyEnvironment
	all := rule.dependency.Match == MatchAll
	named, satisfied, mayCome := 0, 0, false
	var room [8]int32
	for _, k := range w.nameable(room[:], rule, i) {
		other := &w.targets[k]
		is, ok, err := w.provider(rule, other)
		if err != nil {
			return Verdict{}, false, err
		}
		if is {
			named++
		}
		if ok {
			satisfied++
		} else if is {
			name := other.Deployment
			if !several || lacking.add(name) {
				names = append(names, name)
			}
			on = append(on, Condition{Kind: OnDependency, Deployment: name, Resource: other.Resource, Environment: other.Environment})
			if w.ruleMayBeMet(rule, k) {
				mayCome = true
			} else if !several || never.add(name) {
				unpublished = append(unpublished, Condition{Kind: OnVersion, Deployment: name})
			}
		}
	}
	if all || !mayCome {
		on = append(unpublished, on...)
	}
	switch {
	case named == 0:
		return Verdict{Status: Denied, Reason: ReasonDependencyUnmatched, Rule: rule.id, On: onConfig(rule.id)}, false, nil
	case all && satisfied == named, !all && satisfied > 0:
		return Verdict{}, true, nil
	}
	return Verdict{Status: Denied, Reason: ReasonDependencyUnmet, Rule: rule.id, On: on, Data: &Data{Names: names}}, false, nil
}

// absentHere says of the deployment that a version needs why it never comes by itself.
const absentHere = "it has no target on this resource in this environment"

// versionDependency reports whether one dependency of a version is met on target i, and if not,
// what that waits for.
func (w *work) versionDependency(i int32, d VersionDependency, runs []pendingRun) (Verdict, bool) {
	t := &w.targets[i]
	verdict := Verdict{
		Status: Denied, Reason: ReasonVersionUnmet,
		On:   []Condition{{Kind: OnDependency, Deployment: d.Deployment, Resource: t.Resource, Environment: t.Environment}},
		Data: &Data{Names: []string{d.Deployment}, Detail: d.VersionSelector},
	}
	matcher, err := w.expression(d.VersionSelector)
	if err != nil {
		verdict.Reason, verdict.Data = ReasonSelectorError, &Data{Detail: err.Error()}
		return verdict, false
	}
	k := w.sibling(i, d.Deployment)
	if k == none { // no job brings it; a target that comes, and then runs what is needed, still helps
		verdict.Data.Detail = absentHere
		verdict.On = []Condition{{Kind: OnVersion, Deployment: t.Deployment}, verdict.On[0]}
		return verdict, false
	}
	n := w.targets[k].current
	for _, run := range runs {
		if run.target == k && k != i { // what a version needs of its own deployment must be there before it
			n = run.version
		}
	}
	if n < 0 {
		return verdict, false
	}
	b := w.boundWith(k, n)
	ok, err := matcher.Match(&b)
	if _, missing := missingKey(err); err != nil && !missing {
		verdict.Reason, verdict.Data = ReasonSelectorError, &Data{Detail: err.Error()}
	}
	return verdict, err == nil && ok
}

// expression compiles the text that a version carries, once per plan.
func (w *work) expression(text string) (Matcher, error) {
	if known, ok := w.compiled[text]; ok {
		return known.matcher, known.err
	}
	matcher, err := w.set.compiler.Matcher(text)
	put(&w.compiled, text, compiledText{matcher, err})
	return matcher, err
}

type compiledText struct {
	matcher Matcher
	err     error
}
