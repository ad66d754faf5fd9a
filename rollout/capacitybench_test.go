package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// BenchmarkCapacity plans fleets of one deployment whose pools are in an odd state: every resource
// is stuck and is quarantined; two of two zones are in use for an override, of which one may be,
// while everything is due; or each resource has a pool of its own in which an override let a start
// past a limit, which was never dispatched.
func BenchmarkCapacity(b *testing.B) {
	const stuck = `{"resourceConcurrency":{"groupSelector":"true","limit":"100%","stuckAfterSeconds":60,"onStuck":"quarantine"}}`
	const zones = `{"id":"rule","resourceConcurrency":{"groupSelector":"true","groupBy":"resource.metadata['zone']","maxActiveKeys":1,"limit":2}}`
	const closed = `{"id":"rule","resourceConcurrency":{"groupSelector":"true","groupBy":"resource.name","limit":0}}`
	for _, n := range []int{1_000, 10_000, 100_000} {
		s := clusters(n)
		for k := range s.Resources {
			s.Resources[k].Name, s.Resources[k].Metadata = s.Resources[k].ID, map[string]string{"zone": "ab"[k%2 : k%2+1]}
		}
		now := s.Versions[len(s.Versions)-1].CreatedAt.Add(time.Hour)
		for _, row := range []struct {
			name, rules string
			fleet       func(set *rollout.PolicySet) rollout.Snapshot
		}{
			{"stuck", stuck, func(set *rollout.PolicySet) rollout.Snapshot { return atWork(b, set, s, now) }},
			{"zones", zones, func(*rollout.PolicySet) rollout.Snapshot {
				own := s
				for k, r := range s.Resources[:2] {
					own.Overrides = append(own.Overrides, override("rule", only(r.ID), func(o *rollout.Override) { o.ID, o.Version = fmt.Sprint(k), "v2" }))
				}
				return own
			}},
			{"overridden", closed, func(set *rollout.PolicySet) rollout.Snapshot {
				own := s
				own.Overrides = []rollout.Override{override("rule", func(o *rollout.Override) { o.Version = "v2" })}
				own.State = mustCommit(b, mustPlan(b, set, own, now), now)
				own.Overrides = nil
				return own
			}},
		} {
			set := compile(b, policy(row.rules))
			fleet := row.fleet(set)
			if plan := mustPlan(b, set, fleet, now.Add(time.Hour)); row.name == "stuck" && len(plan.Stuck) != n || row.name == "zones" && len(plan.Start) != 2 || row.name == "overridden" && !strings.Contains(plan.String(), "slot_") {
				b.Fatalf("%s: %v", row.name, plan)
			}
			b.Run(fmt.Sprintf("%s/n=%d", row.name, n), func(b *testing.B) { benchmarkPlan(b, set, fleet, now.Add(time.Hour)) })
		}
	}
}
