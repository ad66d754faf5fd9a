//go:build race

package testkit

// Race says that the race detector is on. It slows tests down ten times and allocates, so tests
// with a single goroutine, which has nothing to race with, explore less, and no test counts
// allocations.
const Race = true
