package rollout

import (
	"fmt"
	"math"
	"time"

	"github.com/tranche-dev/tranche/bracket"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtMerge finds a merge that cannot happen: in each environment each group is done everywhere
// before the next one closes. It reports that only if nothing but the curve and the slots delays a
// start. The brackets are those of one rule.
func (l *lint) lookAtMerge(brackets []*lintBracket) {
	own := brackets[0].rule
	rule := own.bracket.WithDefaults()
	if rule.OverlapStrategy != bracket.Merge || rule.ReadinessMode != bracket.CollectionWindow || len(l.w.set.customs) > 0 {
		return
	}
	window := time.Duration(*rule.ReadinessWindowSeconds) * time.Second
	longest, grouped := time.Duration(0), false
	for _, b := range brackets {
		if b.group == nil {
			continue
		}
		takes := l.durationOfGroup(b)
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

// durationOfGroup returns after how long at most a group is done everywhere, if that is known: all
// durations are, only the curve and the slots delay a start, and nothing else takes the slots.
func (l *lint) durationOfGroup(b *lintBracket) estimate {
	for _, m := range b.group {
		if d, _ := l.w.deployment(m.Deployment); !l.duration(d).known {
			return estimate{}
		}
	}
	for _, i := range b.targets {
		view := l.w.viewOf(i)
		if len(view.cooldowns) > 0 || view.hours != nil || len(l.w.blockingRules(i, b.bracketWork)) > 0 || l.w.dependent[l.w.targets[i].deployment] {
			return estimate{}
		}
	}
	batches := l.batches(b)
	if batches == 0 {
		return estimate{}
	}
	var curve time.Duration
	for _, gradual := range l.w.gradualOf(b.targets) {
		curve = max(curve, curveLength(gradual, l.founders(gradual, b)))
	}
	all := l.longest(b, b.deployments)
	if all > math.MaxInt64/time.Duration(batches) {
		return estimate{}
	}
	return estimate{saturatingSum(curve, all*time.Duration(batches)), true}
}

// batches returns in how many batches, at most, the slots let the executions of a group run, one
// after the other; 0 if that is not known.
func (l *lint) batches(b *lintBracket) int {
	resources, batches := len(l.w.heads(b.targets)), 1
	for own := range l.onResources(b) {
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
			if places == 0 || l.poolUsers()[index] != b || len(p.Unavailable) > 0 || !p.Rate.IsZero() { // what is down takes places, too
				return 0
			}
			before += (min(resources, p.Total) - 1) / places
		}
		batches = max(batches, before+1)
	}
	return batches
}

// poolUsers returns for each pool the bracket whose members alone need places in it, or nil.
func (l *lint) poolUsers() []*lintBracket {
	if l.usersOf != nil {
		return l.usersOf
	}
	l.usersOf = make([]*lintBracket, len(l.w.capacity.snapshot.Pools))
	used := make([]bool, len(l.usersOf))
	for i := range l.w.targets {
		for _, rule := range l.w.viewOf(int32(i)).concurrency {
			switch index := l.w.capacity.under(rule, l.w.targets[i].resource); {
			case index == none:
			case !used[index]:
				used[index], l.usersOf[index] = true, l.bracketOf[i]
			case l.usersOf[index] != l.bracketOf[i]:
				l.usersOf[index] = nil
			}
		}
	}
	return l.usersOf
}
