//go:build !race

package staged_test

const raceEnabled = false
