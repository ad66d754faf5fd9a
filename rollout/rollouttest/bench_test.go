package rollouttest_test

import (
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/rollout/rollouttest"
)

// BenchmarkRun lets the RFC's first example take its course on clusters of n nodes, five deployments each: with the planner, its store and all checks, as a test
// does it; with the planner alone; and as a trial of a forecast runs it. Beside the whole run it tells the time per start and per plan and target.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		for _, mode := range []struct {
			name        string
			trust, pure bool
		}{{"checked", false, false}, {"trusted", true, false}, {"pure", true, true}} {
			b.Run(fmt.Sprintf("%s/nodes=%d", mode.name, n), func(b *testing.B) {
				world := rfcWorld(b, n)
				world.Trust, world.Pure = mode.trust, mode.pure
				for b.Loop() {
					timeline, err := world.Run(b.Context())
					if err != nil || !timeline.Done {
						b.Fatal(err, timeline.Summary())
					}
				}
			})
		}
	}
}

var _ = rollouttest.World{}
