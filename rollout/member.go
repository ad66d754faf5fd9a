package rollout

import (
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/strictjson"
)

// membersOf finds the member targets of a bracket rule in an environment: those that its policy
// governs and whose deployment the rule selects. Those that another bracket has already are not among
// them, but taken.
func (w *work) membersOf(rule *compiledRule, e int32) (b *bracketWork, taken []int32) {
	b, governs := newBracketWork(rule, e), w.governs(rule)
	selected, size := w.selectedBy(rule, e)
	b.targets = make([]int32, 0, size)
	for _, d := range selected {
		before := len(b.targets)
		for _, i := range w.targetsIn(e, d) {
			if !governs(i) {
				continue
			}
			if w.members[i] {
				taken = append(taken, i)
				continue
			}
			w.members[i] = true
			b.targets = append(b.targets, i)
		}
		if len(b.targets) > before {
			b.deployments = append(b.deployments, d)
		}
	}
	if len(b.targets) < size/2 {
		b.targets = slices.Clone(b.targets) // of many policies each governs few of them
	}
	if len(b.deployments) > 1 {
		ascending(b.targets, len(w.targets))
	}
	return b, taken
}

// overlaps returns an error for each bracket, one of the works, that has some of the targets which
// another rule claims too: it names the first of these.
func (w *work) overlaps(rule *compiledRule, taken []int32, works []*bracketWork) error {
	if len(taken) == 0 {
		return nil
	}
	owner := make(map[int32]*bracketWork, len(taken))
	for _, i := range taken {
		owner[i] = nil
	}
	for _, b := range works {
		for _, i := range b.targets {
			if _, claimed := owner[i]; claimed {
				owner[i] = b
			}
		}
	}
	var found []error
	named := map[*bracketWork]bool{}
	for _, i := range taken {
		if b := owner[i]; !named[b] {
			named[b] = true
			ids := [2]string{b.id, rule.id}
			slices.Sort(ids[:])
			found = append(found, &bracket.OverlapError{Brackets: ids, Deployment: w.targets[i].Deployment, Resource: w.targets[i].Resource})
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return strictjson.Join(found...)
}

// selectedBy returns the deployments that a bracket rule selects in an environment, and how many
// targets they have there, governed or not. Where the expression of the rule fails, it holds the
// targets that the policy governs.
func (w *work) selectedBy(rule *compiledRule, e int32) (selected []int32, size int) {
	asked, governs := new(bound), w.governs(rule)
	for _, d := range w.concerns[ruleAt{rule.id, e}] {
		targets := w.targetsIn(e, d)
		asked.deployment = &w.deployments[d]
		switch ok, err := rule.members.Match(asked); {
		case err != nil:
			for _, i := range targets {
				if governs(i) {
					w.selectorFailed(i, rule.id, err)
				}
			}
		case ok:
			selected, size = append(selected, d), size+len(targets)
		}
	}
	return selected, size
}

// memberTable holds a value for each deployment of a bracket. There may be many brackets of one
// deployment each, and a list of all deployments for each of them would cost the product.
type memberTable[T any] struct {
	first int32 // deployment
	list  []T
}

// tableOf returns a table for the deployments of a bracket's targets, with the same value for all.
func tableOf[T any](w *work, b *bracketWork, value T) memberTable[T] {
	first, last := int32(len(w.deployments)), int32(-1)
	widen := func(i int32) { first, last = min(first, w.targets[i].deployment), max(last, w.targets[i].deployment) }
	if len(b.deployments) > 0 {
		first, last = b.deployments[0], b.deployments[len(b.deployments)-1]
		for i := range b.former {
			widen(i)
		}
	} else {
		for _, i := range b.targets {
			widen(i)
		}
	}
	return memberTable[T]{first, slices.Repeat([]T{value}, max(0, int(last-first)+1))}
}

// at returns the value of a deployment; nil for one that lies outside those of the bracket.
func (t *memberTable[T]) at(d int32) *T {
	if d < t.first || int(d-t.first) >= len(t.list) {
		return nil
	}
	return &t.list[d-t.first]
}

// abandoned returns a bracket whose rule is gone. Its targets are those that its closed groups
// name, and those of its open executions, whose group may be lost.
func (w *work) abandoned(record *bracket.GroupRecord, e int32) *bracketWork {
	b := &bracketWork{id: record.Rule, environment: e}
	seen := map[string]bool{}
	for _, group := range record.Closed {
		for _, m := range group.Members {
			d, known := w.deployment(m.Deployment)
			if known && !seen[m.Deployment] {
				seen[m.Deployment] = true
				b.targets = append(b.targets, w.targetsIn(e, d)...)
			}
		}
	}
	w.openTargets(b, func(i int32) {
		if !seen[w.targets[i].Deployment] {
			b.targets = append(b.targets, i)
		}
	})
	slices.Sort(b.targets)
	return b
}

// order is a dependency rule of a bracket's policy that orders a member.
type order struct {
	rule   *compiledRule
	always bool // not for some versions only, see unordered
}

// order tells whether a dependency rule orders a member of a bracket, which may be nil, and whether it
// does so whatever the versions are.
func (b *bracketWork) order(rule *compiledRule, member int32) (always, orders bool) {
	if b == nil {
		return false, false
	}
	list := b.orders[member]
	k, orders := slices.BinarySearchFunc(list, rule, func(o order, rule *compiledRule) int { return int(o.rule.number - rule.number) })
	return orders && list[k].always, orders
}

// edgesOf lists the members with the dependencies between them. A dependency rule of the bracket's
// policy that names members orders them and no longer blocks. A rule that names no member, or that
// fails so that this is unknown, stays an ordinary dependency. Versions that are created after by
// name nobody.
func (w *work) edgesOf(b *bracketWork, by time.Time) []bracket.Member {
	policy := b.rule.policy
	type named struct {
		deployment int32
		need       *bracket.ConditionalNeed // nil: unknown, because the expression fails
	}
	namedBy := make([][]named, len(policy.dependencies))
	for k, rule := range policy.dependencies {
		for _, d := range w.providersIn(rule, b.environment) {
			if _, member := slices.BinarySearch(b.deployments, d); !member {
				continue
			}
			if need, failed := w.edgeTo(rule, b, d, by); need != nil || failed {
				namedBy[k] = append(namedBy[k], named{d, need})
			}
		}
	}
	members := make([]bracket.Member, len(b.deployments))
	for k, d := range b.deployments {
		members[k] = bracket.Member{Deployment: w.deployments[d].ID, Role: w.role(b, d)}
		for _, n := range w.concerning(policy, b.environment, d) {
			orders, always, failed := false, false, false
			for _, other := range namedBy[n] {
				switch need := other.need; {
				case other.deployment == d:
				case need == nil:
					failed = true
				case need.Versions == nil:
					members[k].Needs = append(members[k].Needs, need.Deployment)
					orders, always = true, true
				default:
					members[k].NeedsIf = append(members[k].NeedsIf, *need)
					orders = true
				}
			}
			if orders && !failed {
				b.orders[d] = append(b.orders[d], order{policy.dependencies[n], always})
			}
		}
	}
	return members
}

// edgeTo returns the edge to member d: nil if the rule does not name the member, without versions
// if it names the member whatever its version. An expression that also reads the resource counts as
// naming the member on every resource, and one that fails on a version counts as naming that
// version: an edge too many does less harm than one too few. failed is true if the expression gives
// no answer at all.
func (w *work) edgeTo(rule *compiledRule, b *bracketWork, d int32, by time.Time) (_ *bracket.ConditionalNeed, failed bool) {
	need := &bracket.ConditionalNeed{Deployment: w.deployments[d].ID}
	at := w.boundIn(b.environment, d)
	switch ok, err := rule.dependsOn.Match(&at); {
	case err == nil && !ok:
		return nil, false
	case err == nil || rule.readsResource:
		return need, false
	case !rule.readsVersion:
		return nil, !w.missesOnce(rule.id, err, w.memberID(b, d))
	}
	for _, v := range w.versions[d].list {
		if v.CreatedAt.After(by) {
			break // no member gets it yet; observed wakes the host when it is created
		}
		at.version = v
		ok, err := rule.dependsOn.Match(&at)
		if ok || err != nil && !w.missesOnce(rule.id, err, w.memberID(b, d)) {
			need.Versions = append(need.Versions, v.ID)
		}
	}
	if need.Versions == nil {
		return nil, false
	}
	return need, false
}

// memberID names a member on any resource.
func (w *work) memberID(b *bracketWork, d int32) TargetID {
	return TargetID{Environment: w.environments[b.environment].ID, Deployment: w.deployments[d].ID}
}

// role returns the declared role of a member; pre wins over post. If an expression fails, it is
// unknown what has to run first, and the bracket collects nothing: see bracketWork.unclear.
func (w *work) role(b *bracketWork, d int32) bracket.Role {
	own := bound{deployment: &w.deployments[d]}
	for _, declared := range [...]struct {
		expression Matcher
		role       bracket.Role
	}{{b.rule.pre, bracket.Pre}, {b.rule.post, bracket.Post}} {
		if declared.expression == nil {
			continue
		}
		ok, err := declared.expression.Match(&own)
		if ok {
			return declared.role
		}
		if verdict, fails := w.failsOnce(b.id, err, w.memberID(b, d)); fails {
			b.unclear = &verdict
		}
	}
	return bracket.Main
}
