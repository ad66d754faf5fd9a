package etcdstore

import (
	"fmt"
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
)

// BenchmarkEtcd measures members that confirm only what is on their disks.
func BenchmarkEtcd(b *testing.B) {
	for _, members := range []int{1, 3} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			controllertest.Benchmark(b, driver(newCluster(b, members)...))
		})
	}
}
