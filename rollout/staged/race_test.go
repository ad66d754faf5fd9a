//go:build race

package staged_test

// raceEnabled shrinks what is explored: the race detector is ten times slower, and one goroutine has nothing to race with.
const raceEnabled = true
