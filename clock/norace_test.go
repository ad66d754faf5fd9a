//go:build !race

package clock_test

const raceEnabled = false
