package rollout

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtStarving compares the cadence of groups with the length of the curves that give them their
// turns, and with the rates and the slots with which their resources begin. A curve advances only
// while windows are open, and only then does anything begin.
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
	hours := l.hoursOfMains(b)
	for _, gradual := range l.w.gradualOf(b.targets) {
		if gradual.gradual.OrderSalt == SaltByGroup || gradual.gradual.OrderKey == OrderByTarget {
			continue
		}
		founders := l.founders(gradual, b)
		length := curveLength(gradual, founders)
		open := l.mostWithin(hours, between.duration, 0, sumOf)
		due := fmt.Sprintf("due %v after a group closes", textlist.Duration(length))
		if open < between.duration {
			due = fmt.Sprintf("due after %v of open time, of which the windows have %v at most before the next group", textlist.Duration(length), textlist.Duration(open))
		}
		if length >= open {
			l.add(findingOf(gradual, "orderSalt"), code, SeverityWarning, reach{},
				fmt.Sprintf("releases come every %v or faster and the bracket %q %s, but the last of %d resources is %s: it is superseded each time, and it is the same one each time",
					textlist.Duration(between.duration), b.id, how, founders, due),
				"set orderSalt to group, so that others are last, shorten the curve, or collect for longer")
		}
	}
	members := l.membersOfPools(b)
	l.lookAtRates(b, members, between.duration, code, how)
	l.lookAtSlots(b, members, hours, between.duration, code, how)
}

// hoursOfMains returns the hours that all targets of the main members have, without which nothing
// begins: nil if there are none, or if they differ.
func (l *lint) hoursOfMains(b *lintBracket) (common *hours) {
	first := true
	for _, i := range b.targets {
		if !b.isMain(&l.w.targets[i]) {
			continue
		}
		own := l.w.hoursOf(i, none)
		if !first && own != common {
			return nil
		}
		common, first = own, false
	}
	return common
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

// membersOfPools counts the resources of a bracket on which a target needs a place in a pool, for
// each concurrency rule and each of its pools.
func (l *lint) membersOfPools(b *lintBracket) map[*compiledRule]map[int32]int {
	members := map[*compiledRule]map[int32]int{}
	for own := range l.onResources(b) {
		counted := map[*compiledRule]bool{}
		for _, i := range own {
			for _, rule := range l.w.viewOf(i).concurrency {
				if index := l.w.capacity.under(rule, l.w.targets[i].resource); index != none && !counted[rule] {
					if counted[rule] = true; members[rule] == nil {
						members[rule] = map[int32]int{}
					}
					members[rule][index]++
				}
			}
		}
	}
	return members
}

// lookAtSlots finds pools in which fewer resources begin between two groups of a bracket than it
// has, because each keeps its place for as long as the shortest execution takes.
func (l *lint) lookAtSlots(b *lintBracket, members map[*compiledRule]map[int32]int, h *hours, between time.Duration, code LintCode, how string) {
	if slices.ContainsFunc(l.w.gradualOf(b.targets), func(rule *compiledRule) bool {
		return rule.gradual.OrderSalt == SaltByGroup || rule.gradual.OrderKey == OrderByTarget
	}) {
		return // others are last each time
	}
	takes := l.shortest(b)
	if takes == 0 {
		return
	}
	margin := time.Duration(0)
	if h != nil {
		margin = max(0, h.longest-1) // with so much left a job still starts
	}
	turns := l.mostWithin(h, between, margin, func(stretches []time.Duration) (turns time.Duration) { // how often, at most, one place is taken in that time
		for _, d := range stretches {
			turns += (d-1)/takes + 1
		}
		return turns
	})
	for _, rule := range l.w.set.concurrency {
		for _, index := range slices.Sorted(maps.Keys(members[rule])) {
			places, down := l.places(index), len(l.w.capacity.snapshot.Pools[index].Unavailable)
			all := members[rule][index] - down // what is down needs no place
			if places == 0 || all <= 0 || time.Duration((all-1)/places) < turns {
				continue
			}
			l.add(findingOf(rule, limitField(rule)), code, SeverityWarning, reach{},
				fmt.Sprintf("releases come every %v or faster and the bracket %q %s, but an execution takes %v or longer, and so no more than %d of %d resources begin before the next one: the last ones are superseded each time, and they are the same ones each time",
					textlist.Duration(between), b.id, how, textlist.Duration(takes), int(turns)*places, all),
				"raise the limit, widen the windows if there are any, collect for longer, or add a gradualRollout with orderSalt group, so that others are last")
		}
	}
}

// shortest returns how long an execution of a bracket takes at least, on whatever resource: with
// its hooks and one main member. Jobs of unknown duration count as if they took no time.
func (l *lint) shortest(b *lintBracket) time.Duration {
	least, seen := time.Duration(math.MaxInt64), map[string]bool{}
	for own := range l.onResources(b) {
		var mains, hooks []int32
		var key []byte
		for _, i := range own {
			t := &l.w.targets[i]
			key = binary.LittleEndian.AppendUint32(key, uint32(t.deployment))
			if b.isMain(t) {
				mains = append(mains, t.deployment)
			} else {
				hooks = append(hooks, t.deployment)
			}
		}
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		for _, d := range mains {
			least = min(least, l.longest(b, append(hooks[:len(hooks):len(hooks)], d)))
		}
	}
	return least
}

// lookAtRates finds rates by which fewer resources begin between two groups of a bracket than it
// has.
func (l *lint) lookAtRates(b *lintBracket, members map[*compiledRule]map[int32]int, between time.Duration, code LintCode, how string) {
	if slices.ContainsFunc(l.w.gradualOf(b.targets), func(rule *compiledRule) bool { return rule.gradual.OrderSalt == SaltByGroup }) {
		return // others are last each time
	}
	for _, rule := range l.w.set.concurrency {
		if rule.pool.Rate == nil {
			continue
		}
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
