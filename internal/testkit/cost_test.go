package testkit_test

import (
	"testing"

	"github.com/tranche-dev/tranche/internal/testkit"
)

var sum int // so that no work is left out

func work(n int) func() {
	return func() {
		for i := range n {
			sum += i ^ sum
		}
	}
}

// TestCompareCost: a square is found, what is proportional passes, and so does what takes no time
// that can be measured.
func TestCompareCost(t *testing.T) {
	testkit.NeedCPUTime(t)
	const n = 1_000_000
	for _, row := range []struct {
		why       string
		few, many func()
		fails     bool
	}{
		{"eight times as much", work(n), work(8 * n), false},
		{"sixty-four times as much", work(n), work(64 * n), true},
		{"next to nothing", work(1), work(64), false},
	} {
		fails := testkit.Fails(t, func(t testing.TB) { testkit.CompareCost(t, row.why, 30, row.few, row.many) })
		if fails != row.fails {
			t.Errorf("%s: fails %v, want %v", row.why, fails, row.fails)
		}
	}
}
