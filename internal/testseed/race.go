//go:build race

package testseed

// Race says that the race detector is on. It is ten times slower and allocates: tests explore less,
// where one goroutine has nothing to race with, and do not count allocations.
const Race = true
