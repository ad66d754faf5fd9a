package rollout

import (
	"encoding/binary"
	"fmt"
	"iter"
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
			l.add(findingOf(rule, "minApprovals"), LintApprovalUnreachable, neverOr(l.policyReach[rule.policy]), l.policyReach[rule.policy],
				fmt.Sprintf("it asks for %s, of %s", textlist.Counted(need, "approval"), textlist.Counted(len(people), "known approver")), "ask for fewer, or name more approvers")
		}
	}
}

// lookAtCooldowns compares each interval with how often the governed targets are released to.
func (l *lint) lookAtCooldowns() {
	w := l.w
	known := map[int32]*cadences{} // by deployment
	for _, rule := range w.set.cooldowns {
		interval := time.Duration(*rule.cooldown.IntervalSeconds) * time.Second
		var concerns reach
		names := map[string]bool{}
		var fastest time.Duration
		for c := range l.governed(rule) {
			_, d := w.splitPair(c.pair)
			if known[d] == nil {
				known[d] = l.cadencesOf(d)
			}
			for between, targets := range known[d].within(w, interval, c.targets) {
				if len(names) == 0 || between.duration < fastest {
					fastest = between.duration
				}
				names[w.deployments[d].ID] = true
				concerns.merge(targets)
			}
		}
		if len(names) > 0 {
			l.add(findingOf(rule, "intervalSeconds"), LintCooldownLongerThanReleases, SeverityWarning, concerns,
				fmt.Sprintf("versions stand for %v, but are released every %v or so: some of them are skipped, of %s", textlist.Duration(interval), textlist.Duration(fastest), strings.Join(slices.Sorted(maps.Keys(names)), ", ")),
				"shorten the interval, or release less often, unless versions are meant to be skipped")
		}
	}
}

// cadences says how often one deployment is released, and how often its targets are released to. A
// version that is not for a target is no release there: where each tenant has its own, the
// deployment is released more often than any target.
type cadences struct {
	deployment int32
	released   []int32             // the versions that count
	all        estimate            // of all of them
	known      map[string]estimate // by those of them that are for a target, four bytes each
	key        []byte              // reused
}

func (l *lint) cadencesOf(deployment int32) *cadences {
	c := &cadences{deployment: deployment, known: map[string]estimate{}}
	for n, v := range l.w.versions[deployment].list {
		if l.deployable(v) {
			c.released = append(c.released, int32(n))
		}
	}
	c.all = c.cadence(l.w, slices.Values(c.released))
	return c
}

func (c *cadences) cadence(w *work, released iter.Seq[int32]) estimate {
	var instants []time.Time
	for n := range released {
		instants = append(instants, w.versions[c.deployment].list[n].CreatedAt)
	}
	return cadence(instants)
}

// within yields the targets that are released to more often than the interval, all of them together
// if every version is for each. Scopes are asked only where the deployment itself is released that
// often: nowhere else is every version looked at for every target.
func (c *cadences) within(w *work, interval time.Duration, targets []int32) iter.Seq2[estimate, reach] {
	return func(yield func(estimate, reach) bool) {
		if !c.all.known || c.all.duration >= interval {
			return
		}
		if !w.scoped[c.deployment] {
			yield(c.all, reachOf(targets))
			return
		}
		for _, i := range targets {
			if between := c.at(w, i); between.known && between.duration < interval && !yield(between, reach{1, i}) {
				return
			}
		}
	}
}

// at returns the cadence of the versions that are for one target.
func (c *cadences) at(w *work, i int32) estimate {
	c.key = c.key[:0]
	for _, n := range c.released {
		if w.inScope(i, n) {
			c.key = binary.NativeEndian.AppendUint32(c.key, uint32(n))
		}
	}
	between, known := c.known[string(c.key)]
	if !known {
		between = c.cadence(w, func(yield func(int32) bool) {
			for at := 0; at < len(c.key) && yield(int32(binary.NativeEndian.Uint32(c.key[at:]))); at += 4 {
			}
		})
		c.known[string(c.key)] = between
	}
	return between
}
