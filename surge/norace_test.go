//go:build !race

package surge_test

const raceEnabled = false
