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
