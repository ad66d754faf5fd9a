package rollout

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtStarving compares the cadence of groups with the length of the curves that give them their
// turns, and with the rates at which their resources begin.
func (l *lint) lookAtStarving(b *lintBracket) {
	rule := b.rule.bracket.WithDefaults()
	between := cadence(l.releases(b))
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
	for _, gradual := range l.w.gradualOf(b.targets) {
		if gradual.gradual.OrderSalt == SaltByGroup || gradual.gradual.OrderKey == OrderByTarget {
			continue
		}
		founders := l.founders(gradual, b)
		if length := curveLength(gradual, founders); length >= between.duration {
			l.add(findingOf(gradual, "orderSalt"), code, SeverityWarning, reach{},
				fmt.Sprintf("releases come every %v or faster and the bracket %q %s, but the last of %d resources is due %v after a group closes: it is superseded each time, and it is the same one each time",
					textlist.Duration(between.duration), b.id, how, founders, textlist.Duration(length)),
				"set orderSalt to group, so that others are last, shorten the curve, or collect for longer")
		}
	}
	l.lookAtRates(b, between.duration, code, how)
}

// releases returns the instants of the versions that can open a group: one that is for no target of
// a main member in the environment opens none.
func (l *lint) releases(b *lintBracket) (releases []time.Time) {
	w := l.w
	targets := map[int32][]int32{} // of each main member that has scoped versions
	for _, i := range b.targets {
		if d := w.targets[i].deployment; w.scoped[d] {
			targets[d] = append(targets[d], i)
		}
	}
	for _, m := range b.group {
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
func (l *lint) lookAtRates(b *lintBracket, between time.Duration, code LintCode, how string) {
	if slices.ContainsFunc(l.w.gradualOf(b.targets), func(rule *compiledRule) bool { return rule.gradual.OrderSalt == SaltByGroup }) {
		return // others are last each time
	}
	members := map[*compiledRule]map[int32]int{} // per rule with a rate and per pool: resources of the bracket
	for own := range l.onResources(b) {
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
					textlist.Duration(between), b.id, how, all, most, textlist.Duration(period)),
				"raise the rate, collect for longer, or add a gradualRollout with orderSalt group, so that others are last")
		}
	}
}

// founders returns how many turns a gradual rule gives in a group of a bracket.
func (l *lint) founders(gradual *compiledRule, b *lintBracket) int {
	switch {
	case gradual.gradual.OrderKey == OrderByTarget:
		most := 0
		for _, d := range b.deployments {
			most = max(most, len(l.w.population(gradual, l.w.pairAt(b.environment, d), none)))
		}
		return most
	case gradual.bracketID != b.id || gradual.gradual.OrderKey == OrderByResource:
		return len(l.w.heads(l.w.population(gradual, l.w.pairAt(b.environment, 0), none)))
	}
	return len(l.w.heads(b.targets))
}
