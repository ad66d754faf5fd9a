package rollout

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// frame is a bracket rule in an environment where it has members.
type frame struct {
	*bracketWork
	members []bracket.Member      // of group
	group   []bracket.GroupMember // with roles and needs, as a group that closed now would have them; nil if there can be none
	roles   map[int32]bracket.Role
	needs   map[int32][]int32 // of each member, ascending, without those that hold for some versions only
}

// frame finds the members of every bracket, and what a group of them would look like.
func (l *lint) frame() error {
	w := l.w
	l.frameOf = make([]*frame, len(w.targets))
	for _, rule := range w.set.brackets {
		var frames []*frame // one for each environment
		for pair, targets := range l.governedPairs(rule) {
			e, d := w.splitPair(pair)
			ok, err := rule.members.Match(&bound{deployment: &w.deployments[d]})
			if _, missing := missingKey(err); err != nil && !missing {
				l.failed(findingOf(rule, "deploymentSelector"), SeverityError, reachOf(targets), err.Error(), nothingStarts)
			}
			if err != nil || !ok {
				continue
			}
			if n := len(frames); n == 0 || frames[n-1].environment != e {
				frames = append(frames, &frame{bracketWork: newBracketWork(rule, e)})
			}
			f := frames[len(frames)-1]
			f.targets, f.deployments = append(f.targets, targets...), append(f.deployments, d)
		}
		for _, f := range frames {
			slices.Sort(f.targets)
			l.frames = append(l.frames, f)
			l.claim(f)
			if err := l.close(f); err != nil {
				return err
			}
		}
		put(&l.framesOf, rule, frames)
	}
	return nil
}

// claim notes whose members the targets of a frame are, and finds those that another frame has claimed.
func (l *lint) claim(f *frame) {
	var overlaps reaches[*frame]
	for _, i := range f.targets {
		if other := l.frameOf[i]; other != nil {
			overlaps.at(other).add(i)
		} else {
			l.frameOf[i], l.w.members[i] = f, true
		}
	}
	for _, other := range overlaps.keys {
		l.addApart(findingOf(f.rule, "deploymentSelector"), other.id, LintBracketOverlapping, SeverityError, *overlaps.at(other),
			fmt.Sprintf("%q claims targets that %q claims too, and nothing is planned as long as they do", f.id, other.id),
			"narrow one of the two, by its deploymentSelector or by the selector of its policy")
	}
}

// close finds the roles and needs that a group of the frame would have.
func (l *lint) close(f *frame) error {
	members := l.w.edgesOf(f.bracketWork, l.until)
	if f.unclear != nil {
		l.failed(findingOf(f.rule, "memberRoles"), SeverityError, reachOf(f.targets), f.unclear.Data.Detail, "no group collects as long as it does")
		return nil
	}
	closed, err := closedOn(f, members)
	if err != nil {
		return l.unclosed(f, err)
	}
	if closed == nil {
		l.add(findingOf(f.rule, "memberRoles"), LintBracketNoMain, SeverityError, reachOf(f.targets),
			"all members are hooks, and hooks never open a group: nothing ever starts",
			"narrow memberRoles, or widen deploymentSelector to what is to be upgraded")
		return nil
	}
	f.members, f.group, f.roles, f.needs = members, closed, map[int32]bracket.Role{}, map[int32][]int32{}
	for _, m := range f.group {
		d, _ := l.w.deployment(m.Deployment)
		f.roles[d] = m.Role
		for _, need := range m.Needs {
			other, _ := l.w.deployment(need) // a member, too
			f.needs[d] = append(f.needs[d], other)
		}
		slices.Sort(f.needs[d])
	}
	return nil
}

// closedOn lets package bracket close a group of members on an imaginary resource that has all of
// them, so that roles and needs are derived in one place only. It returns nil if no group opens.
func closedOn(f *frame, members []bracket.Member) ([]bracket.GroupMember, error) {
	rule := bracket.Rule{DeploymentSelector: f.rule.bracket.DeploymentSelector, ReadinessMode: bracket.Immediate, MemberRoles: f.rule.bracket.MemberRoles}
	published := time.Unix(0, 0).UTC()
	observation := bracket.Observation{Members: members}
	var targets bracket.TargetList
	for _, m := range members {
		observation.Versions = append(observation.Versions, bracket.Version{Deployment: m.Deployment, ID: "v", CreatedAt: published, EligibleAt: published})
		targets = append(targets, bracket.Target{Resource: "r", Deployment: m.Deployment})
	}
	observation.Targets = targets
	state, _, err := bracket.Step(rule, bracket.NewState(f.id, "e"), observation, published)
	if err != nil || len(state.Group.Closed) == 0 {
		return nil, err
	}
	return state.Group.Closed[0].Members, nil
}

// lookAtBrackets looks at what a bracket's groups would meet.
func (l *lint) lookAtBrackets() {
	for _, f := range l.frames {
		if f.group == nil {
			continue
		}
		l.lookAtHooks(f)
		l.lookAtPaths(f)
		l.lookAtOrder(f)
	}
	for _, rule := range l.w.set.brackets {
		if frames := l.framesOf[rule]; len(frames) > 0 {
			l.lookAtRoles(frames)
			l.lookAtMerge(frames)
		}
	}
}

// onResources yields the targets of a frame, resource by resource.
func (l *lint) onResources(f *frame) iter.Seq[[]int32] {
	return stretches(f.targets, func(a, b int32) bool { return l.w.targets[a].resource == l.w.targets[b].resource })
}

// lookAtHooks finds hooks that have nothing to run, where there is a main member.
func (l *lint) lookAtHooks(f *frame) {
	var blocked reach
	lacking := map[string]bool{}
	for own := range l.onResources(f) {
		if !slices.ContainsFunc(own, func(i int32) bool { return f.roles[l.w.targets[i].deployment] == bracket.Main }) {
			continue
		}
		for _, i := range own {
			t := &l.w.targets[i]
			if f.roles[t.deployment] != bracket.Main && t.current == none && l.newest(i, none, l.obtainable) == none {
				blocked.add(i)
				lacking[t.Deployment] = true
			}
		}
	}
	if blocked.some() {
		names := strings.Join(slices.Sorted(maps.Keys(lacking)), ", ")
		l.addApart(findingOf(f.rule, ""), names, LintBracketHookWithoutVersion, SeverityError, blocked,
			"hooks without a version that may be deployed keep every execution on their resources from starting: "+names,
			"publish a version of them that is ready, in scope and selected; if a group is closed already, the next one will lock it")
	}
}

// obtainable reports whether a target may have a version, if not now then later: approvals and
// progressions can still come.
func (l *lint) obtainable(i, n int32) bool { return l.awaited(i, n) && l.selected(i, n) }

// newest returns the newest version, above another one, for which is reports true on a target; none
// if there is none.
func (l *lint) newest(i, above int32, is func(i, n int32) bool) int32 {
	for n := int32(len(l.w.versions[l.w.targets[i].deployment].list)) - 1; n > max(above, none); n-- {
		if is(i, n) {
			return n
		}
	}
	return none
}

// selected reports whether all version selectors let a version onto a target.
func (l *lint) selected(i, n int32) bool {
	return !slices.ContainsFunc(l.w.viewOf(i).selectors, func(rule *compiledRule) bool { return !l.w.selects(rule, i, n) })
}

// lookAtOrder compares the cadence of groups with the length of the curves that give them their
// turns, and with the rates at which their resources begin.
func (l *lint) lookAtOrder(f *frame) {
	rule := f.rule.bracket.WithDefaults()
	between := cadence(l.releases(f))
	if !between.known {
		return
	}
	code, how := LintImmediateStarves, "closes one at once"
	if rule.ReadinessMode != bracket.Immediate {
		code, how = LintOrderStarves, "collects them"
		if rule.ReadinessMode == bracket.CollectionWindow {
			between.duration = max(between.duration, time.Duration(*rule.ReadinessWindowSeconds)*time.Second)
		}
	}
	for _, gradual := range l.w.gradualOf(f.targets) {
		if gradual.gradual.OrderSalt == SaltByGroup || gradual.gradual.OrderKey == OrderByTarget {
			continue
		}
		founders := l.founders(gradual, f)
		if length := curveLength(gradual, founders); length >= between.duration {
			l.add(findingOf(gradual, "orderSalt"), code, SeverityWarning, reach{},
				fmt.Sprintf("releases come every %v or faster and the bracket %q %s, but the last of %d resources is due %v after a group closes: it is superseded each time, and it is the same one each time",
					textlist.Duration(between.duration), f.id, how, founders, textlist.Duration(length)),
				"set orderSalt to group, so that others are last, shorten the curve, or collect for longer")
		}
	}
	l.lookAtRates(f, between.duration, code, how)
}

// releases returns the instants of the versions that can open a group: one that is for no target of a
// main member in the environment opens none.
func (l *lint) releases(f *frame) (releases []time.Time) {
	w := l.w
	targets := map[int32][]int32{} // of each main member that has scoped versions
	for _, i := range f.targets {
		if d := w.targets[i].deployment; w.scoped[d] {
			targets[d] = append(targets[d], i)
		}
	}
	for _, m := range f.group {
		d, _ := w.deployment(m.Deployment)
		if m.Role != bracket.Main {
			continue
		}
		for n, v := range w.versions[d].list {
			if l.deployable(v) && (!w.scoped[d] || slices.ContainsFunc(targets[d], func(i int32) bool { return w.inScope(i, int32(n)) })) {
				releases = append(releases, v.CreatedAt)
			}
		}
	}
	return releases
}

// lookAtRates finds rates by which fewer resources begin between two groups of a bracket than it
// has.
func (l *lint) lookAtRates(f *frame, between time.Duration, code LintCode, how string) {
	if slices.ContainsFunc(l.w.gradualOf(f.targets), func(rule *compiledRule) bool { return rule.gradual.OrderSalt == SaltByGroup }) {
		return // others are last each time
	}
	members := map[*compiledRule]map[int32]int{} // per rule with a rate and per pool: resources of the bracket
	for own := range l.onResources(f) {
		counted := map[*compiledRule]bool{}
		for _, i := range own {
			for _, rule := range l.w.viewOf(i).concurrency {
				if index := l.w.capacity.under(rule, l.w.targets[i].resource); index != none && rule.pool.Rate != nil && !counted[rule] {
					if counted[rule] = true; members[rule] == nil {
						members[rule] = map[int32]int{}
					}
					members[rule][index]++
				}
			}
		}
	}
	for _, rule := range l.w.set.concurrency {
		for _, index := range slices.Sorted(maps.Keys(members[rule])) {
			all, most := members[rule][index], l.perPeriod(index)
			if most == 0 {
				continue // another finding
			}
			period := time.Duration(rule.pool.Rate.PeriodSeconds) * time.Second
			if batches := (between + period - 1) / period; time.Duration(all-1)/time.Duration(most) < batches { // so many of them may fit between two groups
				continue
			}
			l.add(findingOf(rule, "rate"), code, SeverityWarning, reach{},
				fmt.Sprintf("releases come every %v or faster and the bracket %q %s, but of %d resources %d may begin every %v: the last ones are superseded each time, and they are the same ones each time",
					textlist.Duration(between), f.id, how, all, most, textlist.Duration(period)),
				"raise the rate, collect for longer, or add a gradualRollout with orderSalt group, so that others are last")
		}
	}
}

// lookAtMerge finds a merge that cannot happen: in each environment each group is done everywhere
// before the next one closes. It reports that only if nothing but the curve and the slots delays a
// start. The frames are those of one rule.
func (l *lint) lookAtMerge(frames []*frame) {
	own := frames[0].rule
	rule := own.bracket.WithDefaults()
	if rule.OverlapStrategy != bracket.Merge || rule.ReadinessMode != bracket.CollectionWindow || len(l.w.set.customs) > 0 {
		return
	}
	window := time.Duration(*rule.ReadinessWindowSeconds) * time.Second
	longest, grouped := time.Duration(0), false
	for _, f := range frames {
		if f.group == nil {
			continue
		}
		takes := l.takes(f)
		if !takes.known || takes.duration > window {
			return
		}
		longest, grouped = max(longest, takes.duration), true
	}
	if grouped {
		l.add(findingOf(own, "overlapStrategy"), LintMergeBudgetUnused, SeverityInfo, reach{},
			fmt.Sprintf("groups close at least %v apart, and one is done everywhere after %v unless jobs fail: none is merged into another", textlist.Duration(window), textlist.Duration(longest)),
			"use overlapStrategy queue, or a shorter readinessWindowSeconds")
	}
}

// takes returns after how long at most a group is done everywhere, if that is known: all durations
// are, only the curve and the slots delay a start, and nothing else takes the slots.
func (l *lint) takes(f *frame) estimate {
	for _, m := range f.group {
		if d, _ := l.w.deployment(m.Deployment); !l.duration(d).known {
			return estimate{}
		}
	}
	for _, i := range f.targets {
		view := l.w.viewOf(i)
		if len(view.cooldowns) > 0 || view.hours != nil || len(l.w.blockingRules(i, f.bracketWork)) > 0 || l.w.dependent[l.w.targets[i].deployment] {
			return estimate{}
		}
	}
	batches := l.batches(f)
	if batches == 0 {
		return estimate{}
	}
	var curve time.Duration
	for _, gradual := range l.w.gradualOf(f.targets) {
		curve = max(curve, curveLength(gradual, l.founders(gradual, f)))
	}
	all := l.longest(f, f.deployments)
	if all > math.MaxInt64/time.Duration(batches) {
		return estimate{}
	}
	return estimate{saturating(curve, all*time.Duration(batches)), true}
}

// batches returns in how many batches, at most, the slots let the executions of a group run, one after
// the other; 0 if that is not known.
func (l *lint) batches(f *frame) int {
	resources, batches := len(l.w.heads(f.targets)), 1
	for own := range l.onResources(f) {
		pools := map[int32]bool{} // in which an execution needs places
		for _, i := range own {
			for _, rule := range l.w.viewOf(i).concurrency {
				if index := l.w.capacity.under(rule, l.w.targets[i].resource); index != none {
					if rule.pool.MaxActiveKeys.Value() > 0 {
						return 0
					}
					pools[index] = true
				}
			}
		}
		before := 0 // how many executions, at most, it waits for one after the other, in one pool and then in the next
		for index := range pools {
			places, p := l.places(index), &l.w.capacity.snapshot.Pools[index]
			if places == 0 || l.users()[index] != f || len(p.Unavailable) > 0 || !p.Rate.IsZero() { // what is down takes places, too
				return 0
			}
			before += (min(resources, p.Total) - 1) / places
		}
		batches = max(batches, before+1)
	}
	return batches
}

// users returns for each pool the frame whose members alone need places in it, or nil.
func (l *lint) users() []*frame {
	if l.usersOf != nil {
		return l.usersOf
	}
	l.usersOf = make([]*frame, len(l.w.capacity.snapshot.Pools))
	used := make([]bool, len(l.usersOf))
	for i := range l.w.targets {
		for _, rule := range l.w.viewOf(int32(i)).concurrency {
			switch index := l.w.capacity.under(rule, l.w.targets[i].resource); {
			case index == none:
			case !used[index]:
				used[index], l.usersOf[index] = true, l.frameOf[i]
			case l.usersOf[index] != l.frameOf[i]:
				l.usersOf[index] = nil
			}
		}
	}
	return l.usersOf
}

// founders returns how many turns a gradual rule gives in a group of a frame.
func (l *lint) founders(gradual *compiledRule, f *frame) int {
	switch {
	case gradual.gradual.OrderKey == OrderByTarget:
		most := 0
		for _, d := range f.deployments {
			most = max(most, len(l.w.population(gradual, l.w.pairAt(f.environment, d), none)))
		}
		return most
	case gradual.bracketID != f.id || gradual.gradual.OrderKey == OrderByResource:
		return len(l.w.heads(l.w.population(gradual, l.w.pairAt(f.environment, 0), none)))
	}
	return len(l.w.heads(f.targets))
}
