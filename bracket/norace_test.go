//go:build !race

package bracket

const raceEnabled = false
