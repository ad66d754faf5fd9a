package pgstore

import (
	"testing"

	"github.com/tranche-dev/tranche/examples/internal/controller/controllertest"
)

// BenchmarkPostgreSQL measures a server that confirms only what is on its disk.
func BenchmarkPostgreSQL(b *testing.B) {
	s, err := newServer(false)
	require(b, err)
	b.Cleanup(s.stop)
	controllertest.Benchmark(b, driver(s))
}
