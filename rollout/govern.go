package rollout

import (
	"cmp"
	"errors"
	"slices"
	"strings"
)

// view is what a set of policies adds up to for the targets that they govern: all their rules, in
// the order of the policies' ids. Targets governed by the same policies share one.
type view struct {
	policies []*compiledPolicy
	byKind
	selective  bool   // a version selector reads the resource
	hours      *hours // the windows of all policies; nil: always open
	firstHours *hours // those that targets without a current version wait for
}

func newView(policies []*compiledPolicy) *view {
	v := &view{policies: policies}
	v.addAll(policies)
	v.selective = slices.ContainsFunc(v.selectors, func(rule *compiledRule) bool { return rule.readsResource })
	v.openHours()
	return v
}

// governing holds which policies govern which targets, and what was odd about them.
type governing struct {
	views       views
	view        []int32             // per target: its view
	byView      []int32             // the targets of each view, in order; nil: not asked for yet
	beginsView  []int32             // per view: where its targets begin in byView
	windowed    bool                // one of the views has windows
	subject     bound               // what an expression is asked about: one for all questions, since a value in an interface is allocated
	held        map[int32][]Verdict // targets that nothing may start on, because an expression failed
	diagnostics map[diagnosticKey]*Diagnostic
	met         map[diagnosedAt]bool // by diagnoseOnce
}

// views builds one view for each distinct set of policies that governs some target. Sets are found
// policy by policy, so many more sets may exist only as steps to others.
type views struct {
	list []*view
	with [][]int32          // per policy: the views that have it, ascending
	sets []policies         // the first is the empty one, and so is the view of the same number
	step map[viewStep]int32 // the set that results from adding a policy to a set
}

// policies is a set of policies: another set and one policy more.
type policies struct {
	from int32
	last *compiledPolicy
	view int32 // none: no target has this set so far
}

type viewStep struct{ set, policy int32 }

func newViews(n int) views {
	return views{list: []*view{newView(nil)}, with: make([][]int32, n), sets: []policies{{from: none}}}
}

func (v *views) add(set int32, policy int, p *compiledPolicy) int32 {
	step := viewStep{set, int32(policy)}
	to, ok := v.step[step]
	if !ok {
		to = int32(len(v.sets))
		v.sets = append(v.sets, policies{set, p, none})
		put(&v.step, step, to)
	}
	return to
}

// of is the number of the view of a set.
func (v *views) of(set int32) int32 {
	if v.sets[set].view == none {
		var list []*compiledPolicy
		for at := set; v.sets[at].last != nil; at = v.sets[at].from {
			list = append(list, v.sets[at].last)
		}
		slices.Reverse(list)
		number := int32(len(v.list))
		for _, p := range list {
			v.with[p.number] = append(v.with[p.number], number)
		}
		v.sets[set].view, v.list = number, append(v.list, newView(list))
	}
	return v.sets[set].view
}

// answer is what an expression says with some of its entities unbound.
type answer uint8

const (
	no        answer = iota
	yes              // true whatever the unbound entities are
	undecided        // needs the unbound entities, or reads a key that is missing, or fails
)

func ask(m Matcher, b *bound) answer {
	switch ok, err := m.Match(b); {
	case err != nil:
		return undecided
	case ok:
		return yes
	}
	return no
}

// reads reports whether an expression may read variables with this prefix. An expression that does
// not list its variables may read anything.
func reads(m Matcher, prefix string) bool {
	reader, ok := m.(interface{ Variables() []string })
	return !ok || slices.ContainsFunc(reader.Variables(), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// missingKey returns the key that an expression missed, if that is why it has no answer.
func missingKey(err error) (string, bool) {
	if err == nil {
		return "", false // missing below is allocated
	}
	if missing, ok := err.(interface{ MissingKey() string }); ok {
		return missing.MissingKey(), true // most are not wrapped, and there may be very many
	}
	var missing interface{ MissingKey() string }
	if errors.As(err, &missing) {
		return missing.MissingKey(), true
	}
	return "", false
}

// governors are the policies that may govern the targets of a pair.
type governors struct {
	answers []policyAnswer // of those that may govern any of them, in order
	some    []int32        // those that are undecided and require something of the resource, in order
	long    bool           // the environment or the deployment has a long text
	decided bool
	view    int32 // if decided
}

// policyAnswer is the answer of a policy's selector: yes or undecided.
type policyAnswer struct {
	policy int32
	answer answer
}

// ofOneResource is the answer of a selector that reads nothing but the resource. Targets come in the
// order of their resources, so the last one serves its neighbours.
type ofOneResource struct {
	resource int32 // one more than its number; 0: none was asked about
	governs  bool
	err      error
}

// govern finds the policies of every target. An expression is asked once per (deployment,
// environment) that it may be about, and only where that leaves it undecided once per target that it
// may be about, or once per resource of an environment if it reads nothing else.
func (w *work) govern() {
	w.views = newViews(len(w.set.policies))
	w.view = make([]int32, len(w.targets))
	longEnvironment, longDeployment, longResource := w.long()
	var about []int32          // scratch
	var answers []policyAnswer // likewise
	last := make([]ofOneResource, len(w.set.policies))
	b := &w.subject
	pairs := make([]*governors, len(w.pairs))
	for i := range w.targets {
		t := &w.targets[i]
		at := w.pairOf(t)
		p := pairs[at]
		if p == nil {
			p = w.governorsOf(t.environment, t.deployment, longEnvironment[t.environment] || longDeployment[t.deployment])
			pairs[at] = p
		}
		if p.decided {
			w.view[i] = p.view
			continue
		}
		set := int32(0)
		*b = w.bound(int32(i))
		answers = append(answers[:0], p.answers...)
		if len(p.some) > 0 {
			about = w.set.askingResources.someAbout(about[:0], b, p.long || longResource[t.resource])
			for _, k := range about {
				if _, may := slices.BinarySearch(p.some, k); may {
					answers = append(answers, policyAnswer{k, undecided})
				}
			}
			slices.SortFunc(answers, func(a, b policyAnswer) int { return cmp.Compare(a.policy, b.policy) })
		}
		for _, own := range answers {
			if own.answer == yes || w.governedBy(own.policy, int32(i), &last[own.policy]) {
				set = w.views.add(set, int(own.policy), w.set.policies[own.policy])
			}
		}
		w.view[i] = w.views.of(set)
	}
	w.windowed = slices.ContainsFunc(w.views.list, func(v *view) bool { return v.hours != nil })
}

// governedBy asks the selector of a policy about target i, which is the subject. last is the answer
// for the resource that was asked about before.
func (w *work) governedBy(number, i int32, last *ofOneResource) bool {
	policy, resource := w.set.policies[number], w.targets[i].resource+1
	if policy.paired || last.resource != resource {
		ok, err := policy.selector.Match(&w.subject)
		*last = ofOneResource{resource, err == nil && ok, err}
	}
	w.selectorFailed(i, policy.id, last.err)
	return last.governs
}

// governorsOf asks the policies about a pair, as far as their selectors have an answer without the
// resource.
func (w *work) governorsOf(environment, deployment int32, long bool) *governors {
	p := &governors{decided: true, long: long}
	b := w.boundIn(environment, deployment)
	for _, k := range w.set.asking.about(&b, long) {
		policy, own := w.set.policies[k], undecided
		if policy.paired {
			switch ok, err := policy.selector.Match(&b); {
			case err == nil && ok:
				own = yes
			case err == nil, policy.alike && w.allMiss(policy.id, err, w.targetsIn(environment, deployment)):
				continue
			}
		}
		p.decided = p.decided && own == yes
		if _, some := slices.BinarySearch(w.set.askingResources.some, k); some && own == undecided {
			p.some = append(p.some, k)
		} else {
			p.answers = append(p.answers, policyAnswer{k, own})
		}
	}
	if p.decided {
		set := int32(0)
		for _, own := range p.answers {
			set = w.views.add(set, int(own.policy), w.set.policies[own.policy])
		}
		p.view = w.views.of(set)
	}
	return p
}

// allMiss reports whether an expression to which some targets are alike has no answer because a key
// is missing: that is no match for any of them, and counted for each.
func (w *work) allMiss(rule string, err error, targets []int32) bool {
	key, missing := missingKey(err)
	if missing {
		w.diagnoseAll(DiagnosticMissingKey, rule, key, w.id(targets[0]), len(targets))
	}
	return missing
}

// selectorFailed notes that the expression of a policy, or of its bracket, had no answer for a
// target: a missing key is no match and only counted, anything else holds the target.
func (w *work) selectorFailed(i int32, rule string, err error) {
	if verdict, fails := w.fails(rule, err, w.targets[i].TargetID); fails {
		put(&w.held, i, append(w.held[i], verdict))
	}
}

// fails reports whether an expression has no answer for another reason than a missing key, which is
// no match and only counted, and returns the verdict for that.
func (w *work) fails(rule string, err error, at TargetID) (Verdict, bool) {
	if err == nil {
		return Verdict{}, false
	}
	if key, missing := missingKey(err); missing {
		w.diagnose(DiagnosticMissingKey, rule, key, at)
		return Verdict{}, false
	}
	w.diagnose(DiagnosticSelectorError, rule, err.Error(), at)
	return failing(rule, err), true
}

// missesOnce reports whether an expression misses a key where a rule asks several questions about one
// thing, which is counted once.
func (w *work) missesOnce(rule string, err error, at TargetID) bool {
	key, missing := missingKey(err)
	if missing {
		w.diagnoseOnce(DiagnosticMissingKey, rule, key, at)
	}
	return missing
}

// failsOnce is fails for such questions.
func (w *work) failsOnce(rule string, err error, at TargetID) (Verdict, bool) {
	if err == nil || w.missesOnce(rule, err, at) {
		return Verdict{}, false
	}
	w.diagnoseOnce(DiagnosticSelectorError, rule, err.Error(), at)
	return failing(rule, err), true
}

// failing is the verdict of a rule of which an expression fails.
func failing(rule string, err error) Verdict {
	return Verdict{Status: Denied, Reason: ReasonSelectorError, Rule: rule, On: onConfig(rule), Data: &Data{Detail: err.Error()}}
}

func onConfig(rule string) []Condition { return []Condition{{Kind: OnConfig, Rule: rule}} }

func (v *view) has(rule *compiledRule) bool {
	_, there := slices.BinarySearchFunc(v.policies, rule.policy, func(p, own *compiledPolicy) int { return int(p.number - own.number) })
	return there
}

// governedIfFew returns the targets that a rule governs, in order, if they are at most an eighth of
// n. There may be as many policies as targets, each for few of them, and to go over all targets for
// each policy would cost the product.
func (w *work) governedIfFew(rule *compiledRule, n int) (list []int32, are bool) {
	views := w.views.with[rule.policy.number]
	if n < 8 || len(views) > n/8 {
		return nil, false
	}
	if w.byView == nil {
		w.byView, w.beginsView = grouped(len(w.view), len(w.views.list), func(i int32) int32 { return w.view[i] })
	}
	size := 0
	for _, view := range views {
		size += int(w.beginsView[view+1] - w.beginsView[view])
	}
	if size > n/8 {
		return nil, false
	}
	list = make([]int32, 0, size)
	for _, view := range views {
		list = append(list, w.byView[w.beginsView[view]:w.beginsView[view+1]]...)
	}
	if len(views) > 1 {
		slices.Sort(list)
	}
	return list, true
}
