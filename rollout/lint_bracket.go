package rollout

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lintBracket is a bracket rule in an environment where it has members, as Lint looks at it.
type lintBracket struct {
	*bracketWork
	members []bracket.Member      // of group
	group   []bracket.GroupMember // with roles and needs, as a group that closed now would have them; nil if there can be none
	roles   map[int32]bracket.Role
	needs   map[int32][]int32 // of each member, ascending, without those that hold for some versions only
}

// isMain reports whether a target is that of a main member. If there can be no group, none is.
func (b *lintBracket) isMain(t *target) bool { return b.roles[t.deployment] == bracket.Main }

// findBrackets finds the members of every bracket, and what a group of them would look like.
func (l *lint) findBrackets() error {
	w := l.w
	l.bracketOf = make([]*lintBracket, len(w.targets))
	for _, rule := range w.set.brackets {
		var brackets []*lintBracket // one for each environment
		for pair, targets := range l.governedPairs(rule) {
			e, d := w.splitPair(pair)
			ok, err := rule.members.Match(&bound{deployment: &w.deployments[d]})
			if _, missing := missingKey(err); err != nil && !missing {
				l.reportFailing(findingOf(rule, "deploymentSelector"), SeverityError, reachOf(targets), err.Error(), nothingStarts)
			}
			if err != nil || !ok {
				continue
			}
			if n := len(brackets); n == 0 || brackets[n-1].environment != e {
				brackets = append(brackets, &lintBracket{bracketWork: newBracketWork(rule, e)})
			}
			b := brackets[len(brackets)-1]
			b.targets, b.deployments = append(b.targets, targets...), append(b.deployments, d)
		}
		for _, b := range brackets {
			slices.Sort(b.targets)
			l.brackets = append(l.brackets, b)
			l.claimMembers(b)
			if err := l.closeGroup(b); err != nil {
				return err
			}
		}
		put(&l.bracketsOf, rule, brackets)
	}
	return nil
}

// claimMembers notes whose members the targets of a bracket are, and finds those that another one
// has claimed.
func (l *lint) claimMembers(b *lintBracket) {
	var overlaps reaches[*lintBracket]
	for _, i := range b.targets {
		if other := l.bracketOf[i]; other != nil {
			overlaps.at(other).add(i)
		} else {
			l.bracketOf[i], l.w.members[i] = b, true
		}
	}
	for _, other := range overlaps.keys {
		l.addApart(findingOf(b.rule, "deploymentSelector"), other.id, LintBracketOverlapping, SeverityError, *overlaps.at(other),
			fmt.Sprintf("%q claims targets that %q claims too, and nothing is planned as long as they do", b.id, other.id),
			"narrow one of the two, by its deploymentSelector or by the selector of its policy")
	}
}

// closeGroup finds the roles and needs that a group of a bracket would have.
func (l *lint) closeGroup(b *lintBracket) error {
	members := l.w.edgesOf(b.bracketWork, l.until)
	if b.unclear != nil {
		l.reportFailing(findingOf(b.rule, "memberRoles"), SeverityError, reachOf(b.targets), b.unclear.Data.Detail, "no group collects as long as it does")
		return nil
	}
	closed, err := closedGroup(b, members)
	if err != nil {
		return l.reportContradictions(b, err)
	}
	if closed == nil {
		l.add(findingOf(b.rule, "memberRoles"), LintBracketNoMain, SeverityError, reachOf(b.targets),
			"all members are hooks, and hooks never open a group: nothing ever starts",
			"narrow memberRoles, or widen deploymentSelector to what is to be upgraded")
		return nil
	}
	b.members, b.group, b.roles, b.needs = members, closed, map[int32]bracket.Role{}, map[int32][]int32{}
	for _, m := range b.group {
		d, _ := l.w.deployment(m.Deployment)
		b.roles[d] = m.Role
		for _, need := range m.Needs {
			other, _ := l.w.deployment(need) // a member, too
			b.needs[d] = append(b.needs[d], other)
		}
		slices.Sort(b.needs[d])
	}
	return nil
}

// closedGroup lets package bracket close a group of members on an imaginary resource that has all
// of them, so that roles and needs are derived in one place only. It returns nil if no group opens.
func closedGroup(b *lintBracket, members []bracket.Member) ([]bracket.GroupMember, error) {
	rule := bracket.Rule{DeploymentSelector: b.rule.bracket.DeploymentSelector, ReadinessMode: bracket.Immediate, MemberRoles: b.rule.bracket.MemberRoles}
	published := time.Unix(0, 0).UTC()
	observation := bracket.Observation{Members: members}
	var targets bracket.TargetList
	for _, m := range members {
		observation.Versions = append(observation.Versions, bracket.Version{Deployment: m.Deployment, ID: "v", CreatedAt: published, EligibleAt: published})
		targets = append(targets, bracket.Target{Resource: "r", Deployment: m.Deployment})
	}
	observation.Targets = targets
	state, _, err := bracket.Step(rule, bracket.NewState(b.id, "e"), observation, published)
	if err != nil || len(state.Group.Closed) == 0 {
		return nil, err
	}
	return state.Group.Closed[0].Members, nil
}

// lookAtBrackets looks at what a bracket's groups would meet.
func (l *lint) lookAtBrackets() {
	for _, b := range l.brackets {
		if b.group == nil {
			continue
		}
		l.lookAtHooks(b)
		l.lookAtPaths(b)
		l.lookAtStarving(b)
	}
	for _, rule := range l.w.set.brackets {
		if brackets := l.bracketsOf[rule]; len(brackets) > 0 {
			l.lookAtRoles(brackets)
			l.lookAtMerge(brackets)
		}
	}
	l.lookAtNeighbours()
}

// hooked is a bracket on a resource where it has hooks.
type hooked struct {
	bracket   int // its place among those of the set
	pre, post bool
	alone     []int32 // the exclusive pools in which its executions need a place there
}

// undoes reports whether what runs last in one of two brackets may undo what runs first in the other
// on their resource, where both may be at work at once.
func (h *hooked) undoes(other *hooked) bool {
	return (h.pre && other.post || h.post && other.pre) &&
		!slices.ContainsFunc(h.alone, func(pool int32) bool { return slices.Contains(other.alone, pool) })
}

// neighbours are the resources on which two brackets meet.
type neighbours struct {
	resources int
	first     int32
}

// lookAtNeighbours finds brackets that meet on resources with what runs last in one of them and
// what runs first in the other. Of several such others it tells the first.
func (l *lint) lookAtNeighbours() {
	before := make([][]hooked, len(l.w.resources))
	for n, rule := range l.w.set.brackets {
		found := map[int]*neighbours{} // by the place of the other
		own := l.hooksOf(rule, n)
		for _, r := range slices.Sorted(maps.Keys(own)) {
			h := own[r]
			if k := slices.IndexFunc(before[r], func(o hooked) bool { return h.undoes(&o) }); k >= 0 {
				other := before[r][k].bracket
				if found[other] == nil {
					found[other] = &neighbours{first: r}
				}
				found[other].resources++
			}
			before[r] = append(before[r], h)
		}
		if len(found) == 0 {
			continue
		}
		other := slices.Min(slices.Collect(maps.Keys(found)))
		with := found[other]
		l.add(findingOf(rule, "deploymentSelector"), LintBracketsSideBySide, SeverityInfo, reach{},
			fmt.Sprintf("it has hooks on %s where %q has hooks too, such as %s: the two do not wait for each other there, and what runs last in one may undo what ran first in the other",
				textlist.Counted(with.resources, "resource"), l.w.set.brackets[other].id, l.w.resources[with.first].ID),
			"put the members of both into one bracket, or have both need a place in one pool that is exclusive, or leave it if their hooks have nothing to do with each other")
	}
}

// hooksOf returns which hooks the bracket at a place has on each resource where it may begin.
func (l *lint) hooksOf(rule *compiledRule, place int) map[int32]hooked {
	hooks := map[int32]hooked{}
	for _, b := range l.bracketsOf[rule] {
		for targets := range l.onResources(b) {
			if !slices.ContainsFunc(targets, func(i int32) bool { return b.isMain(&l.w.targets[i]) }) {
				continue // nothing begins there
			}
			r := l.w.targets[targets[0]].resource
			own := hooks[r]
			own.bracket = place
			for _, i := range targets {
				role := b.roles[l.w.targets[i].deployment]
				own.pre, own.post = own.pre || role == bracket.Pre, own.post || role == bracket.Post
				own.alone = l.appendExclusive(own.alone, i)
			}
			if own.pre || own.post {
				hooks[r] = own
			}
		}
	}
	return hooks
}

// appendExclusive appends the exclusive pools in which target i needs a place, each once.
func (l *lint) appendExclusive(pools []int32, i int32) []int32 {
	for _, rule := range l.w.viewOf(i).concurrency {
		if pool := l.w.capacity.under(rule, l.w.targets[i].resource); rule.pool.Exclusive && pool != none && !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	return pools
}

// onResources yields the targets of a bracket, resource by resource.
func (l *lint) onResources(b *lintBracket) iter.Seq[[]int32] {
	return stretches(b.targets, func(a, b int32) bool { return l.w.targets[a].resource == l.w.targets[b].resource })
}

// lookAtHooks finds hooks that have nothing to run, where there is a main member.
func (l *lint) lookAtHooks(b *lintBracket) {
	var blocked reach
	lacking := map[string]bool{}
	for own := range l.onResources(b) {
		if !slices.ContainsFunc(own, func(i int32) bool { return b.isMain(&l.w.targets[i]) }) {
			continue
		}
		for _, i := range own {
			t := &l.w.targets[i]
			if !b.isMain(t) && t.current == none && l.newest(i, none, l.obtainable) == none {
				blocked.add(i)
				lacking[t.Deployment] = true
			}
		}
	}
	if blocked.some() {
		names := strings.Join(slices.Sorted(maps.Keys(lacking)), ", ")
		l.addApart(findingOf(b.rule, ""), names, LintBracketHookWithoutVersion, SeverityError, blocked,
			"hooks without a version that may be deployed keep every execution on their resources from starting: "+names,
			"publish a version of them that is ready, in scope and selected; if a group is closed already, the next one will lock it")
	}
}
