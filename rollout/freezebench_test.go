package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tranche-dev/tranche/rollout"
)

// BenchmarkFrozen is a plan in which everything is frozen, or a hundredth of the resources, each by a
// freeze of its own: before a bracket's group closes, half way through its curve, when a fifth of
// the fleet is at work, and half way through a curve alone.
func BenchmarkFrozen(b *testing.B) {
	nodes, alone := compile(b, nodeLifecycle(b)), compile(b, policy(curveAlone))
	for _, n := range sizes() {
		half := day2.Add(time.Duration(n/5/2) * 300 * time.Second)
		everything := func(s rollout.Snapshot) rollout.Snapshot {
			s.Freezes = []rollout.Freeze{{ID: "z", CreatedAt: day1, CreatedBy: "bob", Reason: "INC-7"}}
			return s
		}
		some := func(s rollout.Snapshot) rollout.Snapshot {
			s.Freezes = nil
			for k := 0; k < len(s.Resources); k += 100 {
				id := s.Resources[k].ID
				s.Freezes = append(s.Freezes, rollout.Freeze{ID: id, Resource: id, CreatedAt: day1, CreatedBy: "bob", Reason: "INC-7"})
			}
			return s
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			fleet := largeFleet(n)
			b.Run("collecting", func(b *testing.B) { benchmarkPlan(b, nodes, everything(fleet), day2.Add(-time.Minute)) })
			b.Run("half", func(b *testing.B) { benchmarkPlan(b, nodes, everything(fleet), half) })
			b.Run("atwork", func(b *testing.B) {
				benchmarkPlan(b, nodes, everything(atWork(b, nodes, fleet, half)), half.Add(time.Minute))
			})
			b.Run("curve", func(b *testing.B) {
				benchmarkPlan(b, alone, everything(clusters(n)), day1.Add(time.Duration(n/2)*time.Second))
			})
			b.Run("half, a hundredth", func(b *testing.B) { benchmarkPlan(b, nodes, some(fleet), half) })
			b.Run("curve, a hundredth", func(b *testing.B) {
				benchmarkPlan(b, alone, some(clusters(n)), day1.Add(time.Duration(n/2)*time.Second))
			})
		})
	}
}

// BenchmarkFreezesOfOneTarget is a plan in which as many freezes hold each of twenty targets, and each
// of fifty members of a bracket, which wait for an approval besides.
func BenchmarkFreezesOfOneTarget(b *testing.B) {
	const approval = `{"anyApproval":{"minApprovals":1}}`
	alone, nodes := compile(b, policy(approval)), compile(b, nodeLifecycle(b))
	for _, n := range []int{100, 1000, 10000} {
		var freezes []rollout.Freeze
		for k := range n {
			freezes = append(freezes, freeze(func(z *rollout.Freeze) { z.ID = fmt.Sprint(k) }))
		}
		frozen := func(s rollout.Snapshot) rollout.Snapshot {
			s.Freezes = freezes
			return s
		}
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			b.Run("alone", func(b *testing.B) {
				benchmarkPlan(b, alone, frozen(fleet(20, "v1", map[string][]string{"api": {"v1", "v2"}})), t0)
			})
			b.Run("bracket", func(b *testing.B) { benchmarkPlan(b, nodes, frozen(nodeFleet(10)), day2) })
		})
	}
}
