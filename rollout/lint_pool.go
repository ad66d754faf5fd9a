package rollout

import (
	"cmp"
	"fmt"

	"github.com/tranche-dev/tranche/concurrency"
	"github.com/tranche-dev/tranche/internal/textkey"
	"github.com/tranche-dev/tranche/internal/textlist"
)

// places returns how many members of a pool may be active at once, which may be more than there
// are.
func (l *lint) places(index int32) int {
	p := &l.w.capacity.snapshot.Pools[index]
	return p.Limit.Of(p.Total, p.Rounding)
}

// perPeriod returns how many members of a pool may begin in the period of its rate, or as many as
// there are if it has none.
func (l *lint) perPeriod(index int32) int {
	p := &l.w.capacity.snapshot.Pools[index]
	if p.Rate.IsZero() {
		return p.Total
	}
	return p.Rate.Limit.Of(p.Total, p.Rounding)
}

// limitField returns the field in which a rule gives its limit.
func limitField(rule *compiledRule) string {
	if rule.pool.Limit.IsZero() {
		return "limitValue"
	}
	return "limit"
}

// lookAtPools looks at each concurrency rule and the pools it makes.
func (l *lint) lookAtPools() {
	w := l.w
	for _, rule := range w.set.concurrency {
		if own := rule.pool; own.OnStuck == concurrency.Quarantine && own.StuckAfterSeconds == 0 {
			l.add(findingOf(rule, "onStuck"), LintOnStuckNever, SeverityWarning, reach{}, "leases that are stuck are quarantined, and without stuckAfterSeconds none ever is", "set stuckAfterSeconds, or leave onStuck out")
		}
	}
	if len(w.resources) == 0 {
		return
	}
	members := make([][]resourceIn, len(w.set.concurrency))
	for r := range int32(len(w.resources)) {
		for _, m := range w.capacity.of(r) {
			members[m.rule] = append(members[m.rule], resourceIn{r, m})
		}
	}
	for n, rule := range w.set.concurrency {
		members := members[n]
		var pools []int32
		seen := map[int32]bool{}
		for _, m := range members {
			if !seen[m.pool] {
				seen[m.pool] = true
				pools = append(pools, m.pool)
			}
		}
		if len(members) == 0 {
			l.add(findingOf(rule, "groupSelector"), LintPoolEmpty, SeverityWarning, reach{},
				fmt.Sprintf("it matches none of %s: the rule limits nothing", textlist.Counted(len(w.resources), "resource")), "correct the expression, or remove the rule")
			continue
		}
		if len(members) == len(w.resources) && len(members) >= 2 && reads(rule.group, "") {
			l.reportMatchesAll(findingOf(rule, "groupSelector"), fmt.Sprintf("all %d resources", len(members)))
		}
		l.lookAtLimited(rule, pools, members)
		l.lookAtUngrouped(rule, members)
		l.lookAtRounding(rule, pools)
		l.lookAtHalting(rule, pools)
	}
}

// lookAtLimited reports a rule that limits no target, and the targets that a rule never lets start.
func (l *lint) lookAtLimited(rule *compiledRule, pools []int32, members []resourceIn) {
	w := l.w
	shut := map[int32]bool{}
	largest := 0
	for _, index := range pools {
		if l.places(index) == 0 || l.perPeriod(index) == 0 {
			shut[index] = true
			largest = max(largest, w.capacity.snapshot.Pools[index].Total)
		}
	}
	active := l.activeIn(shut)
	limited, blocked := false, reach{}
	for _, m := range members {
		governed := l.governedOn(m.resource, rule)
		limited = limited || governed.some()
		if shut[m.pool] && !active[w.resources[m.resource].ID] {
			blocked.merge(governed)
		}
	}
	if !limited && l.policyReach[rule.policy].some() {
		l.add(findingOf(rule, "groupSelector"), LintPoolEmpty, SeverityWarning, reach{},
			fmt.Sprintf("it has %s, and the policy governs no target there: the rule limits nothing", textlist.Counted(len(members), "member")),
			"correct the expression, or the selector of the policy")
	}
	if len(shut) > 0 {
		l.reportShut(rule, largest, blocked)
	}
}

// activeIn returns the resources that are active in some pools already: there targets start without
// a place.
func (l *lint) activeIn(pools map[int32]bool) map[string]bool {
	active := map[string]bool{}
	for index := range pools {
		p := &l.w.capacity.snapshot.Pools[index]
		for _, id := range p.Unavailable {
			active[id] = true
		}
		for _, lease := range p.Record.Leases {
			active[lease.Resource] = true
		}
		for _, holder := range p.Jobs {
			active[holder.Resource] = true
		}
	}
	return active
}

// reportShut reports that pools of a rule let nothing start; largest is how many members the largest
// of them has.
func (l *lint) reportShut(rule *compiledRule, largest int, blocked reach) {
	limit, field := rule.pool.Max(), limitField(rule)
	if limit.Of(largest, rule.pool.Rounding) > 0 {
		limit, field = rule.pool.Rate.Limit, "rate.limit"
	}
	detail := fmt.Sprintf("a limit of %v lets none of %s start", limit, textlist.Counted(largest, "member"))
	fix := "write at least 1 to resume; 0 is a pause"
	if limit.Value() > 0 {
		detail = fmt.Sprintf("%v of %d, rounded by %v, is 0: nobody starts", limit, largest, rule.pool.Rounding) // which is written: ceil, the default, never yields 0
		fix = "round by ceil or floor_min_1, or write a count"
	}
	l.add(findingOf(rule, field), LintLimitZero, neverOr(blocked), blocked, detail, fix)
}

// governedOn returns the targets on a resource that a rule governs.
func (l *lint) governedOn(resource int32, rule *compiledRule) (governed reach) {
	for from, to := range l.w.everywhere(resource) {
		for i := from; i < to; i++ {
			if l.w.viewOf(i).has(rule) {
				governed.add(i)
			}
		}
	}
	return governed
}

// lookAtUngrouped finds members without a value of groupBy, which are one pool together. It is
// silent about a key that no resource has: that is another finding.
func (l *lint) lookAtUngrouped(rule *compiledRule, members []resourceIn) {
	w, by := l.w, rule.groupBy
	if by == nil || by.field == "metadata" && !l.hasKey("resource.metadata", by.key) {
		return
	}
	count, first, index := 0, "", int32(none)
	var concerns reach
	for _, m := range members {
		if by.of(&w.resources[m.resource]) == "" {
			if count++; count == 1 {
				first, index = w.resources[m.resource].ID, m.pool
			}
			concerns.merge(l.governedOn(m.resource, rule))
		}
	}
	if !concerns.some() {
		return // it limits nothing there
	}
	l.add(findingOf(rule, "groupBy"), LintPoolWithoutValue, SeverityWarning, concerns,
		fmt.Sprintf("for %d of %s, such as %s, %s has no value: they are limited together, in a pool of their own, %s, besides those of the values", count, textlist.Counted(len(members), "member"), first, rule.pool.GroupBy, textkey.Plain(w.capacity.snapshot.Pools[index].Key)),
		"give them a value; left out of groupSelector they would not be limited at all")
}

// lookAtRounding finds percentages that are rounded up to more than they say.
func (l *lint) lookAtRounding(rule *compiledRule, pools []int32) {
	limit := rule.pool.Max()
	if !limit.IsPercent() || cmp.Or(rule.pool.Rounding, concurrency.Ceil) != concurrency.Ceil {
		return
	}
	share := int64(limit.Value())
	count := 0
	var places, total int64 // of the pool that exceeds the share by most
	for _, index := range pools {
		all := int64(l.w.capacity.snapshot.Pools[index].Total)
		most := min(int64(l.places(index)), all)
		if most*100 <= share*all {
			continue
		}
		if count++; count == 1 || most*total > places*all {
			places, total = most, all
		}
	}
	if count == 0 {
		return
	}
	is := fmt.Sprintf("%d.%d %%", places*100/total, places*1000/total%10)
	if places*1000/total == share*10 { // in a large pool it is less than a tenth
		is = fmt.Sprintf("just above %d %%", share)
	}
	where := ""
	if len(pools) > 1 {
		where = fmt.Sprintf(", in %d of %d pools", count, len(pools))
	}
	l.add(findingOf(rule, limitField(rule)), LintCeilExceedsPercent, SeverityInfo, reach{},
		fmt.Sprintf("%v of %d, rounded up, is %d, which is %s%s", limit, total, places, is, where),
		"round by floor or floor_min_1, or write a count, if that is too many")
}

// lookAtHalting finds pools with too few members to halt, whatever becomes of them.
func (l *lint) lookAtHalting(rule *compiledRule, pools []int32) {
	above := rule.pool.HaltAboveUnavailable
	if above.IsZero() {
		return
	}
	count, largest := 0, 0 // of the pools that never halt
	for _, index := range pools {
		if total := l.w.capacity.snapshot.Pools[index].Total; above.Of(total, concurrency.Floor) >= total {
			count, largest = count+1, max(largest, total)
		}
	}
	if count == 0 {
		return
	}
	where := ""
	if len(pools) > 1 {
		where = fmt.Sprintf(", in %d of %d pools", count, len(pools))
	}
	l.add(findingOf(rule, "haltAboveUnavailable"), LintHaltNever, SeverityWarning, reach{},
		fmt.Sprintf("%v may be down, of %s in all: it never halts%s", above, textlist.Counted(largest, "member"), where),
		"write a percentage below 100, or a smaller count")
}
