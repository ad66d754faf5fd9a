//go:build race

package clock_test

// raceEnabled shrinks what is explored: the race detector is ten times slower, and a calendar shares nothing that changes.
const raceEnabled = true
