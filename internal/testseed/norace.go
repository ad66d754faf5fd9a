//go:build !race

package testseed

const Race = false
