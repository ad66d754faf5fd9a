package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tranche-dev/tranche/internal/textlist"
)

// lookAtApprovals compares the approvals that rules ask for with the known approvers.
func (l *lint) lookAtApprovals() {
	if l.options.Approvers == nil {
		return
	}
	people := slices.Compact(slices.Sorted(slices.Values(l.options.Approvers)))
	for _, rule := range l.w.set.approvals {
		if need := *rule.approval.MinApprovals; need > len(people) {
			l.add(findingOf(rule, "minApprovals"), LintApprovalUnreachable, neverOr(l.reach[rule.policy]), l.reach[rule.policy],
				fmt.Sprintf("it asks for %s, of %s", textlist.Counted(need, "approval"), textlist.Counted(len(people), "known approver")), "ask for fewer, or name more approvers")
		}
	}
}

// lookAtCooldowns compares each interval with how often the governed deployments are released.
func (l *lint) lookAtCooldowns() {
	w := l.w
	cadences := map[int32]estimate{} // by deployment
	for _, rule := range w.set.cooldowns {
		interval := time.Duration(*rule.cooldown.IntervalSeconds) * time.Second
		var concerns reach
		names := map[string]bool{}
		var fastest time.Duration
		for k := range l.governed(rule) {
			_, d := l.pairOf(k.pair)
			between, known := cadences[d]
			if !known {
				var releases []time.Time
				for _, v := range w.versions[d].list {
					if l.released(v) {
						releases = append(releases, v.CreatedAt)
					}
				}
				between = cadence(releases)
				cadences[d] = between
			}
			if between.known && between.duration < interval {
				if len(names) == 0 || between.duration < fastest {
					fastest = between.duration
				}
				names[w.deployments[d].ID] = true
				concerns.merge(reachOf(k.targets))
			}
		}
		if len(names) > 0 {
			l.add(findingOf(rule, "intervalSeconds"), LintCooldownLongerThanReleases, SeverityWarning, concerns,
				fmt.Sprintf("versions stand for %v, but are released every %v or so: some of them are skipped, of %s", textlist.Duration(interval), textlist.Duration(fastest), strings.Join(slices.Sorted(maps.Keys(names)), ", ")),
				"shorten the interval, or release less often, unless versions are meant to be skipped")
		}
	}
}
